/**
 * JSON values as JSON Schema sees them: kinds, members, equality, size, and copies of plain data.
 */

import type * as Schema from "effect/Schema"
import type { JsonObject } from "../Json.ts"
import type { Limits } from "../Limits.ts"
import * as paths from "./paths.ts"

/** The JSON kinds, as `type` names them. */
type Kind = "null" | "boolean" | "integer" | "number" | "string" | "array" | "object"

/** One bit for each kind; `number` includes `integer`. */
export const kindBits: Readonly<Record<Kind, number>> = {
  null: 1,
  boolean: 2,
  integer: 4,
  number: 12,
  string: 16,
  array: 32,
  object: 64
}

export const allKinds = 127

export const isObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const isArray = (value: Schema.Json): value is ReadonlyArray<Schema.Json> => Array.isArray(value)

export const kindOf = (value: Schema.Json): Kind => {
  if (value === null) return "null"
  if (isArray(value)) return "array"
  switch (typeof value) {
    case "boolean":
      return "boolean"
    case "number":
      return Number.isInteger(value) ? "integer" : "number"
    case "string":
      return "string"
    default:
      return "object"
  }
}

/** The bit a value has: `integer` for whole numbers, the other half of `number` else. */
export const kindBitOf = (value: Schema.Json): number => {
  const kind = kindOf(value)
  return kind === "number" ? 8 : kindBits[kind]
}

/** What an unknown thing is, for messages. */
export const describeKind = (value: unknown): string => {
  if (value === undefined) return "nothing"
  if (value === null) return "null"
  if (Array.isArray(value)) return "array"
  if (typeof value === "number")
    return Number.isInteger(value) ? "integer" : Number.isFinite(value) ? "number" : `${value}`
  return typeof value
}

/** Own properties only: keys come from outside. */
export const getMember = (object: JsonObject, key: string): Schema.Json | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

/** Sets an own property whatever its name is. */
export const setMember = (object: Record<string, Schema.Json>, key: string, value: Schema.Json): void => {
  if (key === "__proto__")
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true })
  else object[key] = value
}

/** A deep copy of a JSON value. */
export const copyValue = (value: Schema.Json): Schema.Json => {
  if (isArray(value)) return value.map(copyValue)
  if (!isObject(value)) return value
  const out: Record<string, Schema.Json> = {}
  for (const key of Object.keys(value)) setMember(out, key, copyValue(value[key] ?? null))
  return out
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

/** Number of values in a value. */
export const countValues = (value: Schema.Json): number => {
  let count = 0
  const open: Array<Schema.Json> = [value]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    count++
    if (isArray(next)) open.push(...next)
    else if (isObject(next)) for (const key of Object.keys(next)) open.push(next[key] ?? null)
  }
  return count
}

/** Length in code points, as `minLength` counts. */
export const countCodePoints = (text: string): number => {
  let count = text.length
  for (let i = 0; i < text.length - 1; i++) {
    const unit = text.charCodeAt(i)
    if (unit < 0xd800 || unit > 0xdbff) continue
    const next = text.charCodeAt(i + 1)
    if (next >= 0xdc00 && next <= 0xdfff) {
      count--
      i++
    }
  }
  return count
}

const parseDecimal = (value: number): readonly [mantissa: bigint, exponent: number] => {
  const [digits = "0", exponent = "0"] = value.toString().split("e")
  const [whole = "0", fraction = ""] = digits.split(".")
  return [BigInt(whole + fraction), Number(exponent) - fraction.length]
}

/** Whether a number is a multiple of a divisor, counted in decimals: 0.3 is a multiple of 0.1. */
export const isMultipleOf = (value: number, divisor: number): boolean => {
  if (Number.isSafeInteger(value) && Number.isSafeInteger(divisor)) return value % divisor === 0
  const [a, ae] = parseDecimal(value)
  const [b, be] = parseDecimal(divisor)
  const exponent = Math.min(ae, be)
  return (a * 10n ** BigInt(ae - exponent)) % (b * 10n ** BigInt(be - exponent)) === 0n
}

/** JSON text of a schema's own value for a message, shortened. */
export const formatValue = (value: Schema.Json, max = 60): string => {
  const text = JSON.stringify(value)
  return text.length <= max ? text : `${text.slice(0, max)}…`
}

const allKindNames = ["null", "boolean", "integer", "number", "string", "array", "object"] as const

/** The kinds of a set of bits, as text: `string or null`. */
export const kindNames = (bits: number): string =>
  allKindNames
    .filter((name) => (bits & kindBits[name]) === kindBits[name])
    .filter((name, _, all) => name !== "integer" || !all.includes("number"))
    .sort((a, b) => (a === "null" ? 1 : 0) - (b === "null" ? 1 : 0))
    .join(" or ")

/** Why a value is not plain JSON within limits. */
export type PlainProblem =
  | { readonly _tag: "NotJson"; readonly at: paths.Location | undefined; readonly found: string }
  | { readonly _tag: "ForbiddenKey"; readonly at: paths.Location | undefined; readonly key: string }
  | { readonly _tag: "TooDeep"; readonly at: paths.Location | undefined; readonly limit: number }
  | {
      readonly _tag: "TooLarge"
      readonly at: paths.Location | undefined
      readonly what: string
      readonly limit: number
      readonly found: number
    }

/** The deepest nesting this room works on, whatever the limits say: the interpreter is recursive. */
const maxCopyDepth = 512

const isPlainObject = (value: object): boolean => {
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null || Object.getPrototypeOf(prototype) === null
}

/**
 * Copies a value that should be plain JSON, or says why it is not. The copy
 * shares nothing with the input and holds no forbidden key.
 */
export const copyPlain = (input: unknown, limits: Limits): { readonly value: Schema.Json } | PlainProblem => {
  const maxDepth = Math.min(limits.maxDepth, maxCopyDepth)
  let nodes = 0
  let problem: PlainProblem | undefined
  const fail = (found: PlainProblem): null => {
    problem ??= found
    return null
  }
  const visit = (value: unknown, depth: number, at: paths.Location | undefined): Schema.Json => {
    if (problem !== undefined) return null
    if (++nodes > limits.maxNodes)
      return fail({ _tag: "TooLarge", at, what: "number of values", limit: limits.maxNodes, found: nodes })
    if (value === null || typeof value === "boolean") return value
    if (typeof value === "number") {
      if (!Number.isFinite(value)) return fail({ _tag: "NotJson", at, found: describeKind(value) })
      return value === 0 ? 0 : value
    }
    if (typeof value === "string") {
      if (value.length <= limits.maxStringLength) return value
      return fail({
        _tag: "TooLarge",
        at,
        what: "length of a string",
        limit: limits.maxStringLength,
        found: value.length
      })
    }
    if (typeof value !== "object") return fail({ _tag: "NotJson", at, found: describeKind(value) })
    if (depth >= maxDepth) return fail({ _tag: "TooDeep", at, limit: maxDepth })
    if (Array.isArray(value)) {
      if (value.length > limits.maxArrayLength) {
        return fail({
          _tag: "TooLarge",
          at,
          what: "length of an array",
          limit: limits.maxArrayLength,
          found: value.length
        })
      }
      return Array.from(value, (item: unknown, index) => visit(item, depth + 1, paths.childLocation(at, index)))
    }
    if (!isPlainObject(value)) return fail({ _tag: "NotJson", at, found: "an instance of a class" })
    const out: Record<string, Schema.Json> = {}
    for (const key of Object.keys(value)) {
      const here = paths.childLocation(at, key)
      const member: unknown = Object.getOwnPropertyDescriptor(value, key)?.value
      if (key === "__proto__" || (key === "constructor" && holdsPrototype(member))) {
        return fail({ _tag: "ForbiddenKey", at: here, key })
      }
      if (key.length > limits.maxStringLength) {
        return fail({ _tag: "TooLarge", at, what: "length of a key", limit: limits.maxStringLength, found: key.length })
      }
      setMember(out, key, visit(member, depth + 1, here))
    }
    return out
  }
  const value = visit(input, 0, undefined)
  return problem ?? { value }
}

const holdsPrototype = (value: unknown): boolean =>
  typeof value === "object" && value !== null && Object.hasOwn(value, "prototype")
