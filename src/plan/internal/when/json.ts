import type * as Schema from "effect/Schema"
import { byCodePoint } from "../names/order.ts"

const isArray = (value: Schema.Json): value is Schema.JsonArray => Array.isArray(value)

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

/** Equality of JSON values, without recursion: data may be deeper than the stack. */
export const equals = (left: Schema.Json, right: Schema.Json): boolean => {
  const pairs: Array<readonly [Schema.Json, Schema.Json]> = [[left, right]]
  for (let pair = pairs.pop(); pair !== undefined; pair = pairs.pop()) {
    const [a, b] = pair
    if (a === b) continue
    if (typeof a !== "object" || typeof b !== "object" || a === null || b === null) return false
    if (isArray(a)) {
      if (!isArray(b) || a.length !== b.length) return false
      for (const [index, item] of a.entries()) pairs.push([item, b[index] ?? null])
      continue
    }
    if (isArray(b)) return false
    const keys = Object.keys(a)
    if (keys.length !== Object.keys(b).length) return false
    for (const key of keys) {
      if (!Object.hasOwn(b, key)) return false
      pairs.push([a[key] ?? null, b[key] ?? null])
    }
  }
  return true
}

/** How two values are ordered, if they are. */
export const compare = (left: Schema.Json, right: number | string): -1 | 0 | 1 | undefined => {
  if (typeof left === "string" && typeof right === "string") return byCodePoint(left, right)
  if (typeof left !== "number" || typeof right !== "number") return undefined
  return left < right ? -1 : left > right ? 1 : 0
}
