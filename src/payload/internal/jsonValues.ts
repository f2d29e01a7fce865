/**
 * JSON values as JSON Schema sees them: kinds, equality and size.
 */

import type * as Schema from "effect/Schema"
import * as base from "./base.ts"

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

/** The bit of a name in `type`; `undefined` for other names. */
export const kindBit = (name: string): number | undefined => base.own<number>(kindBits, name)

export const kindOf = (value: Schema.Json): Kind => {
  if (value === null) return "null"
  if (base.isArray(value)) return "array"
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

/** Text that is equal for equal values: keys sorted, `1.0` is `1`, `-0` is `0`. */
export const fingerprint = (value: Schema.Json): string => {
  if (base.isArray(value)) return `[${value.map(fingerprint).join(",")}]`
  if (base.isObject(value)) {
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
    if (base.isArray(next)) open.push(...next)
    else if (base.isObject(next)) for (const key of Object.keys(next)) open.push(next[key] ?? null)
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

/** True if a number is a multiple of a divisor, counted in decimals: 0.3 is a multiple of 0.1. */
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

export const allKindNames = ["null", "boolean", "integer", "number", "string", "array", "object"] as const

/** The kinds of a set of bits, as text: `string or null`. */
export const kindNames = (bits: number): string =>
  allKindNames
    .filter((name) => (bits & kindBits[name]) === kindBits[name])
    .filter((name, _, all) => name !== "integer" || !all.includes("number"))
    .sort((a, b) => (a === "null" ? 1 : 0) - (b === "null" ? 1 : 0))
    .join(" or ")
