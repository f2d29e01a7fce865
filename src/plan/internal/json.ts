/** JSON values: whether they are equal, and arrays among them. */
import type * as Schema from "effect/Schema"

// Array.isArray does not narrow readonly arrays out of a union
export const isArray = (value: Schema.Json | undefined): value is Schema.JsonArray => Array.isArray(value)

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
