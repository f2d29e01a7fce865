/** Values of JSON: kinds, own members, places, equality, and names that every object inherits. */

import * as JsonPointer from "effect/JsonPointer"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as PayloadError from "../PayloadError.ts"

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

/** The members of `A`; a member that may be `undefined` becomes an optional key. */
export type WithoutUndefined<A> = Flatten<
  { readonly [K in Exclude<keyof A, OptionalKeys<A>>]: A[K] } & {
    readonly [K in OptionalKeys<A>]?: Exclude<A[K], undefined>
  }
>

/**
 * The object without its undefined members, in the same order: `{ a, ...defined({ b }) }` holds `b` only if it has a value.
 */
export const defined = <A extends object>(members: A): WithoutUndefined<A> => {
  const found: Partial<A> = {}
  for (const key in members) if (members[key] !== undefined) found[key] = members[key]
  // Sound: exactly the members that are not undefined are left.
  return found as WithoutUndefined<A>
}

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

/** A place in a value, from the inside out; `undefined` is the root. */
export interface Location {
  readonly parent: Location | undefined
  readonly key: string | number
}

/** The JSON Pointer of a place, `/items/1/qty`. */
export const toPointer = (location: Location | undefined): string => formatPointer(keysOf(location))

export const keysOf = (location: Location | undefined): ReadonlyArray<string | number> => {
  const keys: Array<string | number> = []
  for (let at = location; at !== undefined; at = at.parent) keys.push(at.key)
  return keys.reverse()
}

/** One step down in a JSON Pointer. */
export const appendToken = (pointer: string, key: string | number): string =>
  `${pointer}/${JsonPointer.escapeToken(String(key))}`

/** The kind of the value at a path, read without inherited members. */
export const kindAt = (root: unknown, path: ReadonlyArray<PropertyKey>): string => {
  let value = root
  for (const token of path) {
    // A path may continue inside a transformed scalar: only its kind is known.
    if (typeof value !== "object" || value === null) return kindOf(value)
    value = Object.getOwnPropertyDescriptor(value, token)?.value
  }
  return kindOf(value)
}

/** The names that `type` of JSON Schema has for kinds. */
export const typeNames = ["null", "boolean", "integer", "number", "string", "array", "object"] as const

/** One bit for each of them; `number` includes `integer`. */
export const typeBits = { null: 1, boolean: 2, integer: 4, number: 12, string: 16, array: 32, object: 64 } as const

export const allTypes = 127

/** The kind of a JSON value as `type` names it: `integer` for whole numbers. */
export const typeOf = (value: Schema.Json): string => {
  if (!Number.isInteger(value)) return kindOf(value)
  return Number.isSafeInteger(value) ? "integer" : "integer beyond 2^53"
}

/** The bit a value has: `integer` for whole numbers that JSON numbers hold exactly, the other half of `number` else. */
export const typeBitOf = (value: Schema.Json): number => {
  if (typeof value === "string") return typeBits.string
  if (typeof value === "number")
    return Number.isSafeInteger(value) ? typeBits.integer : typeBits.number - typeBits.integer
  return own<number>(typeBits, kindOf(value)) ?? 0
}

/**
 * Equality of JSON values, without recursion: data may be deeper than the stack. Many times faster than
 * `Equal.equals`, which takes a hash of everything.
 */
export const equalsJson = (left: unknown, right: unknown): boolean => {
  const open: Array<unknown> = [left, right]
  while (open.length > 0) {
    const b = open.pop()
    const a = open.pop()
    if (a === b) continue
    if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
    if (Array.isArray(a) !== Array.isArray(b)) return false
    if (Array.isArray(a) && Array.isArray(b)) {
      if (a.length !== b.length) return false
      for (const [index, item] of a.entries()) open.push(item, b[index])
      continue
    }
    const keys = Object.keys(a)
    if (keys.length !== Object.keys(b).length) return false
    for (const key of keys) {
      if (!Object.hasOwn(b, key)) return false
      open.push(Reflect.get(a, key), Reflect.get(b, key))
    }
  }
  return true
}

/** Text that is equal for equal values: keys sorted, `1.0` is `1`, `-0` is `0`. */
export const fingerprint = (value: Schema.Json): string => {
  if (isArray(value)) return `[${value.map(fingerprint).join(",")}]`
  if (isObject(value)) {
    const members = Object.keys(value)
      .sort()
      .map((key) => `${JSON.stringify(key)}:${fingerprint(value[key] ?? null)}`)
    return `{${members.join(",")}}`
  }
  return value === 0 ? "0" : JSON.stringify(value)
}

/** Length in code points, as `minLength` counts. */
export const countCodePoints = (text: string): number => {
  let count = text.length
  for (let at = 1; at < text.length; at++) {
    if ((text.charCodeAt(at) & 0xfc00) === 0xdc00 && (text.charCodeAt(at - 1) & 0xfc00) === 0xd800) count--
  }
  return count
}

const parseDecimal = (value: number): readonly [mantissa: bigint, exponent: number] => {
  const [digits = "0", exponent = "0"] = value.toString().split("e")
  const [whole = "0", fraction = ""] = digits.split(".")
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}

/** True if a number is a multiple of a divisor, counted in decimals: 0.3 is a multiple of 0.1. */
export const isMultipleOf = (value: number, divisor: number): boolean => {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  const [a, ae] = parseDecimal(value)
  const [b, be] = parseDecimal(divisor)
  const exponent = Math.min(ae, be)
  return (a * 10n ** BigInt(ae - exponent)) % (b * 10n ** BigInt(be - exponent)) === 0n
}

/** The kinds of a set of bits, as text: `string or null`. */
export const describeTypes = (bits: number): string =>
  typeNames
    .filter((name) => (bits & typeBits[name]) === typeBits[name])
    .filter((name, _, all) => name !== "integer" || !all.includes("number"))
    .sort((a, b) => (a === "null" ? 1 : 0) - (b === "null" ? 1 : 0))
    .join(" or ")

/** True for a key that reaches the prototype of an object. */
export const isForbiddenKey = (key: string | number, value: unknown): boolean =>
  key === "__proto__" ||
  (key === "constructor" && typeof value === "object" && value !== null && Object.hasOwn(value, "prototype"))

/** Made by a literal or `JSON.parse`, in this realm or another one: only a root prototype, or none. */
export const isPlainObject = (source: object, array: boolean): boolean => {
  const prototype: unknown = Object.getPrototypeOf(source)
  if (prototype === null) return !array
  if (typeof prototype !== "object") return false
  // Array.prototype is itself an array; the prototype of a subclass is not.
  return array ? Array.isArray(prototype) : Object.getPrototypeOf(prototype) === null
}

/** The names that every JavaScript object inherits, such as `constructor`. */
export const inheritedNames: ReadonlySet<string> = new Set(Object.getOwnPropertyNames(Object.prototype))

/**
 * Refuses a name that every object inherits, such as `constructor`.
 *
 * **Details**
 *
 * `path` is the JSON Pointer of the place that holds the name.
 */
export const checkName = (
  name: string,
  { path, what }: { readonly what: string; readonly path: string }
): Result.Result<string, PayloadError.PayloadError> =>
  inheritedNames.has(name)
    ? Result.fail(new PayloadError.PayloadError({ what, reason: { _tag: "ForbiddenKey", path, key: name } }))
    : Result.succeed(name)
