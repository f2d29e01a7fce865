import { kindBits } from "./values.ts"

const names = ["null", "boolean", "integer", "number", "string", "array", "object"] as const

/** The kinds of a set of bits, as text: `string or null`. */
export const kindNames = (bits: number): string =>
  names
    .filter((name) => (bits & kindBits[name]) === kindBits[name])
    .filter((name, _, all) => name !== "integer" || !all.includes("number"))
    .sort((a, b) => (a === "null" ? 1 : 0) - (b === "null" ? 1 : 0))
    .join(" or ")
