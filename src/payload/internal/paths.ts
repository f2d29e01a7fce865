/**
 * JSON Pointers, locations and path patterns, and how messages name places, kinds and quoted values.
 */

import { dual } from "effect/Function"
import * as JsonPointer from "effect/JsonPointer"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"

/** Keys come from outside and may be long. */
export const truncateText = (text: string, max: number = 120): string => {
  if (text.length <= max) return text
  const head = text.slice(0, max)
  return /[\uD800-\uDBFF]$/.test(head) ? `${head.slice(0, -1)}…` : `${head}…`
}

export const formatPlace = (path: string): string => (path === "" ? "at the root" : `at ${truncateText(path, 200)}`)

/**
 * A name as messages show it: in quotes, on one line, and cut after 120 characters,
 * for whoever made it up may have made it of any length.
 */
export const quote = (name: string): string => JSON.stringify(truncateText(name))

/**
 * The value at a JSON Pointer, of own members only; `""` is the value itself.
 *
 * **When to use**
 *
 * Use to look at the place that an issue of a `PayloadError` or a `ValidationIssue`
 * names.
 */
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

/** How long the paths of one error may be together before further issues are only counted: keys come from outside. */
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

const plainName = /^[\p{L}_$][\p{L}\p{N}_$-]*$/u

/** The readable form, `items[1].qty`; names with other characters are quoted. */
export const toPath = (location: Location | undefined): string => {
  let path = ""
  for (const key of keysOf(location)) {
    if (typeof key === "number") path += `[${key}]`
    else if (!plainName.test(key)) path += `[${JSON.stringify(key)}]`
    else path += path === "" ? key : `.${key}`
  }
  return path
}

/** The JSON Pointer, `/items/1/qty`. */
export const toPointer = (location: Location | undefined): string =>
  keysOf(location)
    .map((key) => `/${JsonPointer.escapeToken(String(key))}`)
    .join("")

/** One step down in a JSON Pointer. */
export const appendToken = (pointer: string, key: string | number): string =>
  `${pointer}/${JsonPointer.escapeToken(String(key))}`

/**
 * What is left of each pattern that still fits, after some tokens. A pattern is a JSON
 * Pointer in which the token `*` stands for any one token and `**` for any number of
 * them.
 *
 * Equal states of the same patterns are one object, and each remembers where a token
 * leads: a value is searched on every encode, and mostly it is the same few places.
 */
export interface PatternState {
  /** Whether the tokens up to here are all of some pattern. */
  readonly matches: boolean
  readonly next: (token: string) => PatternState
}

type Remainders = ReadonlyArray<ReadonlyArray<string>>

/** `**` may also stand for nothing. */
const expandWildcards = (rests: Remainders): Remainders =>
  rests.flatMap((rest) => {
    const skipped = [rest]
    let at = rest
    while (at[0] === "**") {
      at = at.slice(1)
      skipped.push(at)
    }
    return skipped
  })

const advancePatterns = (rests: Remainders, token: string): Remainders =>
  rests.flatMap((rest) => {
    if (rest[0] === "**") return [rest]
    return rest[0] === "*" || rest[0] === token ? [rest.slice(1)] : []
  })

const compilePatterns = (patterns: ReadonlyArray<string>): PatternState => {
  const known = new Map<string, PatternState>()
  const make = (open: Remainders): PatternState => {
    const rests = new Map(expandWildcards(open).map((rest) => [JSON.stringify(rest), rest]))
    const id = [...rests.keys()].sort().join()
    const state = known.get(id) ?? stateOf([...rests.values()])
    known.set(id, state)
    return state
  }
  const stateOf = (rests: Remainders): PatternState => {
    // Tokens that no pattern names all lead to the same place
    const named = new Set(rests.flatMap(([first]) => (first === undefined ? [] : [first])))
    const after = new Map<string, PatternState>()
    let other: PatternState | undefined
    return {
      matches: rests.some((rest) => rest.length === 0),
      next: (token) => {
        if (!named.has(token)) return (other ??= make(advancePatterns(rests, token)))
        const state = after.get(token) ?? make(advancePatterns(rests, token))
        after.set(token, state)
        return state
      }
    }
  }
  return make(patterns.map(parsePointer))
}

const compiledPatterns = new WeakMap<ReadonlyArray<string>, PatternState>()

/** The state before the first token. Give the same list again, and nothing is done again. */
export const startPatterns = (patterns: ReadonlyArray<string>): PatternState => {
  const state = compiledPatterns.get(patterns) ?? compilePatterns(patterns)
  compiledPatterns.set(patterns, state)
  return state
}

export const matchesPattern = (pattern: string, path: string): boolean =>
  parsePointer(path).reduce((state, token) => state.next(token), compilePatterns([pattern])).matches

/** The kind of a value in words of JSON, for errors. */
export const kindOf = (value: unknown): string => {
  if (value === null) return "null"
  if (value === undefined) return "nothing"
  if (typeof value === "number") return Number.isFinite(value) ? "number" : "a number that is not finite"
  if (typeof value === "object") return Array.isArray(value) ? "array" : "object"
  return typeof value
}

/** The kind of what stands at a path, read without inherited members. */
export const kindAt = (root: unknown, path: ReadonlyArray<PropertyKey>): string => {
  let value = root
  for (const token of path) {
    // A path may go on inside of a transformed scalar: its kind is all that is known.
    if (typeof value !== "object" || value === null) return kindOf(value)
    value = Object.getOwnPropertyDescriptor(value, token)?.value
  }
  return kindOf(value)
}
