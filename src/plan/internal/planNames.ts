/**
 * Names and limits of plans: valid names, suggestions for a misspelled one, and how names and values appear in messages.
 */

import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Digest from "../../payload/Digest.ts"
import * as paths from "../../payload/internal/paths.ts"

export const stateTypeId: StateTypeId = "~effect-emissary/plan/PlanRunState"

export const StateTypeId: StateTypeId = stateTypeId

export type StateTypeId = "~effect-emissary/plan/PlanRunState"

/**
 * Type identifier of steps.
 */
export type StepTypeId = "~effect-emissary/plan/Step"

export const stepTypeId: StepTypeId = "~effect-emissary/plan/Step"

/**
 * Type identifier of steps.
 */
export const StepTypeId: StepTypeId = stepTypeId

/**
 * Type identifier of functions as targets.
 */
export type TargetTypeId = "~effect-emissary/plan/Target"

export const targetTypeId: TargetTypeId = "~effect-emissary/plan/Target"

/**
 * Type identifier of functions as targets.
 */
export const TargetTypeId: TargetTypeId = targetTypeId

export const planTypeId: PlanTypeId = "~effect-emissary/plan/Plan"

/**
 * Type identifier of plans.
 */
export type PlanTypeId = "~effect-emissary/plan/Plan"

/**
 * Type identifier of plans.
 */
export const PlanTypeId: PlanTypeId = planTypeId

/** How large a plan may be. `Limits` holds for its JSON besides. */
export const maxSteps = 1_000

export const maxRoutes = 256

export const maxContext = 256

/** Regular expressions of conditions: each takes time to compile. */
export const maxPatterns = 64

export const maxIterations = 1_000_000

export const defaultMaxIterations = 100

export const defaultName = "plan"

export const maxNameLength = 200

const identifier = /^[\p{L}\p{N}_][\p{L}\p{N}_-]*$/u

/** Control characters, and halves of characters. */
const control = /[\p{Cc}\p{Cs}]/u

const isShort = (name: string): boolean => name.length <= maxNameLength

/** The rule of version 3 and of `Step.make`, and of every name that a reference holds. */
export const isIdentifier = (name: string): boolean => isShort(name) && identifier.test(name)

export const identifierRule = `letters, digits and "_", then "-" too, at most ${maxNameLength} characters`

/** The rule of step names in versions 1 and 2. */
export const isPlainText = (name: string): boolean => isShort(name) && !control.test(name)

export const plainTextRule = `text without control characters, at most ${maxNameLength} characters`

/** The order of names and texts by code points: JavaScript's own is by UTF-16 code units. */
export const byCodePoint = (left: string, right: string): -1 | 0 | 1 => {
  const a = left[Symbol.iterator]()
  const b = right[Symbol.iterator]()
  for (;;) {
    const x = a.next()
    const y = b.next()
    if (x.done === true) return y.done === true ? 0 : -1
    if (y.done === true) return 1
    const difference = (x.value.codePointAt(0) ?? 0) - (y.value.codePointAt(0) ?? 0)
    if (difference !== 0) return difference < 0 ? -1 : 1
  }
}

/** How many names a message lists. */
const maxListed = 20

/** Names in quotes; those that are too many are counted. */
export const listNames = (names: ReadonlyArray<string>): string => {
  const listed = names.slice(0, maxListed).map(paths.quote).join(", ")
  return names.length > maxListed ? `${listed} and ${names.length - maxListed} more` : listed
}

/** A sentence after others, or nothing. */
export const didYouMean = (suggestion: string | undefined): string =>
  suggestion === undefined ? "" : ` Did you mean ${paths.quote(suggestion)}?`

/** How alike two names have to be. */
const minSimilarity = 0.6

/** What all searches of one check may cost together, in pairs of characters: names come from outside. */
export interface SearchFuel {
  left: number
}

export const makeFuel = (left = 5_000_000): SearchFuel => ({ left })

/**
 * The best match, if it is alike by 0.6 or more; of equals, the one that sorts last. None once the budget
 * is spent.
 */
export const closestName = (name: string, known: Iterable<string>, budget: SearchFuel): string | undefined => {
  if (budget.left <= 0) return undefined
  const word = Array.from(name)
  const counts = countCharacters(word)
  let best: { readonly name: string; readonly ratio: number } | undefined
  for (const candidate of known) {
    const letters = Array.from(candidate)
    const least = best?.ratio ?? minSimilarity
    budget.left -= letters.length + word.length
    if (budget.left <= 0) return undefined
    if (upperBound(letters, word, counts) < least) continue
    budget.left -= letters.length * word.length
    if (budget.left <= 0) return undefined
    const ratio = similarity(letters, word)
    if (ratio < minSimilarity) continue
    if (best === undefined || ratio > best.ratio || (ratio === best.ratio && candidate > best.name)) {
      best = { name: candidate, ratio }
    }
  }
  return best?.name
}

/** Twice the number of matching characters over the number of characters of both. */
export const similarityRatio = (a: string, b: string): number => similarity(Array.from(a), Array.from(b))

const similarity = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number =>
  a.length + b.length === 0 ? 1 : (2 * matchingLength(a, b)) / (a.length + b.length)

/** The longest common run, and then the same on both sides of it. */
const matchingLength = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): number => {
  const places = new Map<string, Array<number>>()
  b.forEach((letter, j) => {
    const found = places.get(letter)
    if (found === undefined) places.set(letter, [j])
    else found.push(j)
  })
  let total = 0
  const open: Array<readonly [number, number, number, number]> = [[0, a.length, 0, b.length]]
  for (let range = open.pop(); range !== undefined; range = open.pop()) {
    const [fromA, toA, fromB, toB] = range
    const run = longestMatch(a, places, range)
    if (run.length === 0) continue
    total += run.length
    open.push([fromA, run.a, fromB, run.b], [run.a + run.length, toA, run.b + run.length, toB])
  }
  return total
}

/** The longest common run; of equals, the first in `a`, then the first in `b`. */
const longestMatch = (
  a: ReadonlyArray<string>,
  places: ReadonlyMap<string, ReadonlyArray<number>>,
  [fromA, toA, fromB, toB]: readonly [number, number, number, number]
) => {
  let best = { a: fromA, b: fromB, length: 0 }
  let ending = new Map<number, number>()
  for (let i = fromA; i < toA; i++) {
    const next = new Map<number, number>()
    for (const j of places.get(a[i] ?? "") ?? []) {
      if (j < fromB || j >= toB) continue
      const length = (ending.get(j - 1) ?? 0) + 1
      next.set(j, length)
      if (length > best.length) best = { a: i - length + 1, b: j - length + 1, length }
    }
    ending = next
  }
  return best
}

const countCharacters = (letters: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const letter of letters) counts.set(letter, (counts.get(letter) ?? 0) + 1)
  return counts
}

/** No order of the characters could be more alike than this. */
const upperBound = (
  letters: ReadonlyArray<string>,
  word: ReadonlyArray<string>,
  counts: ReadonlyMap<string, number>
): number => {
  const total = letters.length + word.length
  if (total === 0) return 1
  const lengths = (2 * Math.min(letters.length, word.length)) / total
  if (lengths < minSimilarity) return lengths
  const used = new Map<string, number>()
  let common = 0
  for (const letter of letters) {
    const taken = used.get(letter) ?? 0
    if (taken >= (counts.get(letter) ?? 0)) continue
    used.set(letter, taken + 1)
    common++
  }
  return (2 * common) / total
}

/** A member of a tagged union whose JSON has the tag under `kind`, in another spelling. `keys` renames other members. */
export const kindStruct = <
  const Kind extends string,
  const Tag extends string,
  Fields extends Schema.Struct.Fields,
  const Keys extends { readonly [K in keyof Fields]?: PropertyKey }
>(
  kind: Kind,
  tag: Tag,
  fields: Fields,
  keys: Keys
) =>
  Schema.Struct({ _tag: Schema.Literal(kind).transform(tag), ...fields }).pipe(
    Schema.encodeKeys({ _tag: "kind", ...keys })
  )

// Array.isArray does not narrow readonly arrays out of a union
export const isArray = (value: Schema.Json | undefined): value is Schema.JsonArray => Array.isArray(value)

/** Equality of JSON values, without recursion: data may be deeper than the stack. */
export const equalsJson = (left: Schema.Json, right: Schema.Json): boolean => {
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

/** A text that is cut, with an ellipsis, where it is too long: never in the middle of a character. */
export const shorten = (text: string, max: number): string => {
  if (text.length <= max) return text
  const head = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(head) ? `${head.slice(0, -1)}…` : `${head}…`
}

const maxLine = 120

// Emoji are put together by two format characters; all others are shown by their number, for they hide or reorder text.
const hidden = /(?!\u200d|\ufe0f)[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Surrogate}\p{Cn}]/gu

/** A text from anywhere on one line: what cannot be seen is written by its number. */
export const escapeInvisible = (text: string, max: number = maxLine): string =>
  shorten(text, max)
    .replace(/[\n\r\t]+/gu, " ")
    .replace(hidden, (char) => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)

/** A name as pictures show it: one that is empty, or begins or ends with a space, is put in quotes. */
export const displayName = (name: string): string => {
  const shown = escapeInvisible(name, 80)
  return shown === "" || shown.trim() !== shown ? `"${shown}"` : shown
}

/** A number of milliseconds as people say it. */
export const formatDuration = (millis: number): string => {
  const time = Math.max(0, Math.round(millis))
  if (time < 1000) return `${time} ms`
  if (time < 60_000) return `${Math.floor(time / 100) / 10} s`
  const seconds = Math.floor(time / 1000)
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`
}

/**
 * The text of a payload: a string is itself, `null` is empty, all else is canonical JSON
 * (RFC 8785), the same before and after a payload was stored.
 */
export const payloadText = (payload: Schema.Json): string => {
  if (typeof payload === "string") return payload
  if (payload === null) return ""
  // Canonical JSON takes no lone surrogates; JSON.stringify escapes them.
  return Result.getOrElse(Digest.canonicalize(payload), () => JSON.stringify(payload))
}
