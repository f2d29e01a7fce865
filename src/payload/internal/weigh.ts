/** Walks over values that no codec has copied: their weight, their text, and half characters in it. */

import * as Result from "effect/Result"
import { defaultLimits } from "./limits.ts"
import { formatPointer, isArray, isForbiddenKey, isObject, isPlainObject } from "./values.ts"

/** Each value counts this much in {@link weigh}, for the quotes and separators around it. */
export const nodeWeight = 32

/**
 * The greatest weight of one value of a model or a tool that is read. Few objects can refer to each other along any number of
 * paths, so each walk over a value that no codec has copied stops at a weight.
 */
export const maxWeight = 2 * defaultLimits.maxBytes

/**
 * About as many bytes as JSON takes; infinite for more than `limit` and for what is deeper than `depth`. With `what: "ours"`
 * infinite for numbers and keys that are refused, too, and with `"json"` for everything that is no JSON.
 */
export const weigh = (
  value: unknown,
  limit: number,
  depth: number = defaultLimits.maxDepth / 2,
  what: "anything" | "ours" | "json" = "ours"
): number => {
  let total = nodeWeight
  if (typeof value === "string") total += value.length
  else if (typeof value === "number") {
    if (what !== "anything" && !Number.isFinite(value)) return Number.POSITIVE_INFINITY
  } else if (typeof value !== "object" || value === null) {
    if (what === "json" && typeof value !== "boolean" && value !== null) return Number.POSITIVE_INFINITY
  } else if (depth === 0) return Number.POSITIVE_INFINITY
  else if (Array.isArray(value)) {
    for (const item of value) {
      total += typeof item === "string" ? nodeWeight + item.length : weigh(item, limit - total, depth - 1, what)
      if (total > limit) break
    }
  } else if (what === "json" && !isPlainObject(value, false)) return Number.POSITIVE_INFINITY
  else if (ArrayBuffer.isView(value)) total += value.byteLength
  else {
    for (const key of Object.keys(value)) {
      const member: unknown = Reflect.get(value, key)
      if (what !== "anything" && isForbiddenKey(key, member)) return Number.POSITIVE_INFINITY
      total += key.length
      total += typeof member === "string" ? nodeWeight + member.length : weigh(member, limit - total, depth - 1, what)
      if (total > limit) break
    }
  }
  return total > limit ? Number.POSITIVE_INFINITY : total
}

/** Replaces a value that has no JSON text, or whose text is too large to be shown. */
const leftOut = '"[left out: it is no JSON, or too large to be shown]"'

/** Compact JSON of a value of others, for people and models. */
export const textOf = (value: unknown, space?: number): string =>
  Result.getOrElse(
    Result.try((): string | undefined =>
      weigh(value, 2 * maxWeight, 1000, "json") > 2 * maxWeight ? undefined : JSON.stringify(value, undefined, space)
    ),
    () => undefined
  ) ?? leftOut

/** True for an array that is longer than any that is read, with places that are empty: a walk over all of them takes minutes. */
export const isSparse = (array: ReadonlyArray<unknown>): boolean =>
  array.length > mostDense && Object.values(array).length < array.length

/** A shorter array is walked place by place. */
export const mostDense = maxWeight / nodeWeight

/** The containers of a value that are walked without a look at what was seen before: most values have fewer. */
export const maxUnshared = 1000

/**
 * Tests for half a character in the texts and keys of a value: a lone surrogate, which no provider takes. It is replaced by
 * U+FFFD, by which two keys of one object may become equal. The value may be deeper than the stack.
 */
export const wellFormedness = (root: unknown): "well-formed" | "mendable" | "equal keys" => {
  if (typeof root === "string") return root.isWellFormed() ? "well-formed" : "mendable"
  if (typeof root !== "object" || root === null) return "well-formed"
  // Made for the first object in another one: most values are flat
  let open: Array<object> | undefined
  let isWhole = true
  let visited = 0
  let seen: Set<object> | undefined
  for (let next: object | undefined = root; next !== undefined; next = open?.pop()) {
    if (seen?.has(next) || ArrayBuffer.isView(next)) continue
    if (++visited > maxUnshared) (seen ??= new Set()).add(next)
    if (Array.isArray(next)) {
      for (const item of next.length > mostDense && isSparse(next) ? Object.values(next) : next) {
        if (typeof item === "string") isWhole &&= item.isWellFormed()
        else if (typeof item === "object" && item !== null) (open ??= []).push(item)
      }
      continue
    }
    let areWhole = true
    for (const key in next) {
      const member: unknown = Reflect.get(next, key)
      if (typeof member === "string") isWhole &&= member.isWellFormed()
      else if (typeof member === "object" && member !== null) (open ??= []).push(member)
      areWhole &&= key.isWellFormed()
    }
    if (areWhole) continue
    isWhole = false
    const keys = Object.keys(next)
    if (new Set(keys.map((key) => key.toWellFormed())).size < keys.length) return "equal keys"
  }
  return isWhole ? "well-formed" : "mendable"
}

/** The place of half a character in the texts and keys of a value, of the object for a key; `undefined` for a value without one. */
export const halfIn = (root: unknown): string | undefined => {
  if (wellFormedness(root) === "well-formed") return undefined
  const seen = new Set<object>()
  const open: Array<{ readonly path: ReadonlyArray<string>; readonly value: unknown }> = [{ path: [], value: root }]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { path, value } = next
    if (typeof value === "string" && !value.isWellFormed()) return formatPointer(path)
    if (typeof value !== "object" || value === null || ArrayBuffer.isView(value) || seen.has(value)) continue
    seen.add(value)
    const members = Object.entries(value)
    if (members.some(([key]) => !key.isWellFormed())) return formatPointer(path)
    for (const [key, member] of members.toReversed()) open.push({ path: [...path, key], value: member })
  }
  return undefined
}

/** The value with U+FFFD for each half of a character in JSON. Bytes, URLs and the like stay as they are. */
export const toWellFormed = <A>(value: A): A =>
  // Sound: each text is a text, and each container has the same members
  wellFormedness(value) === "well-formed" ? value : (mended(value) as A)

const mended = (value: unknown): unknown => {
  if (typeof value === "string") return value.toWellFormed()
  if (isArray(value)) return value.map(mended)
  if (!isObject(value) || !isPlainObject(value, false)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key.toWellFormed(), mended(member)]))
}
