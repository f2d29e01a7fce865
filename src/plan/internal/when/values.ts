/** Values as conditions look at them: at a path, empty, in order. */
import type * as Schema from "effect/Schema"
import { isArray } from "../json.ts"
import { byCodePoint } from "../names/order.ts"

/** The value at a path, of own members only; `null` if there is none. */
export const lookUp = (root: Schema.Json, path: ReadonlyArray<string | number>): Schema.Json => {
  let here: Schema.Json = root
  for (const token of path) {
    if (typeof here !== "object" || here === null) return null
    if (isArray(here)) {
      here = typeof token === "number" ? (here[token] ?? null) : null
    } else {
      here = typeof token === "string" && Object.hasOwn(here, token) ? (here[token] ?? null) : null
    }
  }
  return here
}

export const isEmpty = (value: Schema.Json): boolean => {
  if (value === null) return true
  if (typeof value === "string") return value.length === 0
  if (typeof value !== "object") return false
  return isArray(value) ? value.length === 0 : Object.keys(value).length === 0
}

/** How two values are ordered, if they are. */
export const compare = (left: Schema.Json, right: number | string): -1 | 0 | 1 | undefined => {
  if (typeof left === "string" && typeof right === "string") return byCodePoint(left, right)
  if (typeof left !== "number" || typeof right !== "number") return undefined
  return left < right ? -1 : left > right ? 1 : 0
}
