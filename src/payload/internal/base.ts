/**
 * Small helpers that every room uses: kinds of values, own members, JSON Pointers, and how messages name places.
 */

import * as JsonPointer from "effect/JsonPointer"
import type * as Schema from "effect/Schema"

/** A JSON object. */
export interface JsonObject {
  readonly [key: string]: Schema.Json
}

/** An array or an object that is not an array; `null` is neither. */
export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

/** `Array.isArray` does not narrow readonly arrays out of a union; this does. */
export const isArray = (value: unknown): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

/** The kind of a value in words of JSON, for error messages. */
export const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (value === undefined) return "nothing"
  if (typeof value === "number") return Number.isFinite(value) ? "number" : "a number that is not finite"
  if (typeof value === "object") return Array.isArray(value) ? "array" : "object"
  return typeof value
}

/** An own member of an object, never an inherited one: keys come from outside. */
export const own = <A>(object: { readonly [key: string]: A }, key: string): A | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

type Flatten<A> = { [K in keyof A]: A[K] }

type OptionalKeys<A> = { [K in keyof A]: undefined extends A[K] ? K : never }[keyof A]

/** The members of `A`; those that may be `undefined` become optional keys. */
export type Defined<A> = Flatten<
  { readonly [K in Exclude<keyof A, OptionalKeys<A>>]: A[K] } & {
    readonly [K in OptionalKeys<A>]?: Exclude<A[K], undefined>
  }
>

/**
 * The object without its undefined members, in the same order: `{ a, ...defined({ b }) }` holds `b` only if it has a value.
 */
export const defined = <A extends object>(members: A): Defined<A> => {
  const found: Partial<A> = {}
  for (const key in members) if (members[key] !== undefined) found[key] = members[key]
  // Sound: exactly the members that are not undefined are left.
  return found as Defined<A>
}

/** Keys come from outside and may be long. */
export const truncateText = (text: string, max: number = 120): string => {
  if (text.length <= max) return text
  const head = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(head) ? `${head.slice(0, -1)}…` : `${head}…`
}

export const formatPlace = (path: string): string => (path === "" ? "at the root" : `at ${truncateText(path, 200)}`)

/** A name as messages show it: in quotes, on one line, and cut after 120 characters. */
export const quote = (name: string): string => JSON.stringify(truncateText(name))

/** The value at a JSON Pointer, such as the path of a problem, of own members only; `""` is the value itself. */
export const getAt = (root: Schema.Json, pointer: string): Schema.Json | undefined => {
  let here: Schema.Json | undefined = root
  for (const token of parsePointer(pointer)) {
    if (typeof here !== "object" || here === null) return undefined
    const member = Object.getOwnPropertyDescriptor(here, token)
    // The length of an array is its own, too
    here = member?.enumerable === true ? member.value : undefined
  }
  return here
}

/** A JSON Pointer from keys and indices; the empty path is the root. */
export const formatPointer = (path: ReadonlyArray<PropertyKey>): string =>
  path.map((token) => `/${JsonPointer.escapeToken(String(token))}`).join("")

/** The tokens of a JSON Pointer. */
export const parsePointer = (path: string): ReadonlyArray<string> =>
  path === "" ? [] : path.slice(1).split("/").map(JsonPointer.unescapeToken)

/** The length of all paths of one error together, from which on problems are only counted: keys come from outside. */
export const maxPaths = 64 * 1024

/** A place in a value, from the inside out; `undefined` is the root. */
export interface Location {
  readonly parent: Location | undefined
  readonly key: string | number
}

export const childLocation = (parent: Location | undefined, key: string | number): Location => ({ parent, key })

/** The JSON Pointer of a place, `/items/1/qty`. */
export const toPointer = (location: Location | undefined): string => {
  const keys: Array<string | number> = []
  for (let at = location; at !== undefined; at = at.parent) keys.push(at.key)
  return formatPointer(keys.reverse())
}

/** One step down in a JSON Pointer. */
export const appendToken = (pointer: string, key: string | number): string =>
  `${pointer}/${JsonPointer.escapeToken(String(key))}`

/** The kind of the value at a path, read without inherited members. */
export const kindAt = (root: unknown, path: ReadonlyArray<PropertyKey>): string => {
  let value = root
  for (const token of path) {
    // A path may continue inside a transformed scalar, of which only the kind is known.
    if (typeof value !== "object" || value === null) return kindOf(value)
    value = Object.getOwnPropertyDescriptor(value, token)?.value
  }
  return kindOf(value)
}
