/**
 * JSON Pointers and locations, and how messages name places and quoted values.
 */

import { dual } from "effect/Function"
import * as JsonPointer from "effect/JsonPointer"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as base from "./base.ts"

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
export const getAt: {
  (pointer: string): (self: Schema.Json) => Option.Option<Schema.Json>
  (self: Schema.Json, pointer: string): Option.Option<Schema.Json>
} = dual(2, (self: Schema.Json, pointer: string): Option.Option<Schema.Json> => {
  let here: Schema.Json | undefined = self
  for (const token of parsePointer(pointer)) {
    if (typeof here !== "object" || here === null) return Option.none()
    const member = Object.getOwnPropertyDescriptor(here, token)
    // The length of an array is its own, too
    here = member?.enumerable === true ? member.value : undefined
  }
  return Option.fromUndefinedOr(here)
})

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

const keysOf = (location: Location | undefined): ReadonlyArray<string | number> => {
  const out: Array<string | number> = []
  for (let at = location; at !== undefined; at = at.parent) out.push(at.key)
  return out.reverse()
}

/** The JSON Pointer, `/items/1/qty`. */
export const toPointer = (location: Location | undefined): string =>
  keysOf(location)
    .map((key) => `/${JsonPointer.escapeToken(String(key))}`)
    .join("")

/** One step down in a JSON Pointer. */
export const appendToken = (pointer: string, key: string | number): string =>
  `${pointer}/${JsonPointer.escapeToken(String(key))}`

/** The kind of the value at a path, read without inherited members. */
export const kindAt = (root: unknown, path: ReadonlyArray<PropertyKey>): string => {
  let value = root
  for (const token of path) {
    // A path may continue inside a transformed scalar, of which only the kind is known.
    if (typeof value !== "object" || value === null) return base.kindOf(value)
    value = Object.getOwnPropertyDescriptor(value, token)?.value
  }
  return base.kindOf(value)
}
