/**
 * The JSON values in the text of a model's answer. Text in `<think>` is a draft, and no answer.
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as PayloadError from "../PayloadError.ts"
import type { Limits } from "./limits.ts"
import { parseSized } from "./textScanner.ts"
import { isObject } from "./values.ts"

/** The values of an answer, the latest first, and the error where there is none. */
export interface Found {
  readonly values: ReadonlyArray<Schema.Json>
  readonly error: PayloadError.PayloadError
}

/** The greatest number of values that are kept: the latest ones. */
const maxValues = 100

export const refuse = (reason: PayloadError.Reason) =>
  new PayloadError.PayloadError({ what: "text of the model", reason })

const parse = (text: string, limits: Limits): Result.Result<Schema.Json, "malformed" | PayloadError.PayloadError> =>
  Result.flatMap(Result.try({ try: (): unknown => JSON.parse(text), catch: () => "malformed" as const }), () =>
    Result.mapError(parseSized(text, limits), refuse)
  )

/**
 * Finds where the bracket at an offset is closed; `-1` when it is not. Brackets in JSON strings do not count. One pass from the
 * end finds all of them: for each offset the first bracket that closes more than what opens after the offset.
 */
const closingsOf = (text: string): ((start: number) => number) => {
  const outside = new Int32Array(text.length)
  const inString = new Int32Array(text.length)
  const at = (closings: Int32Array, offset: number) => closings[offset] ?? -1
  for (let i = text.length - 1; i >= 0; i--) {
    const char = text[i]
    const isQuote = char === '"'
    const next = at(outside, i + 1)
    inString[i] = isQuote ? next : at(inString, char === "\\" ? i + 2 : i + 1)
    if (char === "}" || char === "]") outside[i] = i
    else if (char === "{" || char === "[") outside[i] = next === -1 ? -1 : at(outside, next + 1)
    else outside[i] = isQuote ? at(inString, i + 1) : next
  }
  return (start) => at(outside, start + 1)
}

/** True if the text after an unclosed bracket looks like the inside of JSON, cut off, rather than prose. */
const isCutOff = (text: string, start: number): boolean =>
  text[start] === "{"
    ? /^\{\s*"/.test(text.slice(start, start + 64))
    : /^\[\s*[[{"]/.test(text.slice(start, start + 64))

/** The strings, numbers, booleans and nulls of an answer: each alone in its code fence, or alone behind the thoughts. */
const scalarsOf = (text: string, thoughtEnd: number, limits: Limits) => {
  const answer = text.slice(thoughtEnd)
  const parts = answer.split("```")
  const found: Array<{ readonly at: number; readonly value: Schema.Json }> = []
  const add = (at: number, body: string) => {
    const value = /^\s*[[{]/.test(body) ? undefined : Result.getOrUndefined(parse(body, limits))
    if (value !== undefined) found.push({ at, value })
  }
  if (thoughtEnd > 0) add(thoughtEnd, answer)
  let at = thoughtEnd
  for (const [index, part] of parts.entries()) {
    if (index % 2 === 1 && parts.length % 2 === 1) add(at, part.replace(/^(?:json)?\s/iu, ""))
    at += part.length + 3
  }
  return found
}

/**
 * Reads the values of an answer: the whole text if it is JSON, else each object, array and fenced value outside of thoughts. An
 * object inside of another value, or of a value that is malformed or cut off, is a part of an answer and no answer. A value that
 * breaks a limit hides the ones before it.
 */
export const find = (text: string, limits: Limits): Found => {
  if (text.length > limits.maxBytes) {
    const found = text.length
    return { values: [], error: refuse({ _tag: "TooLarge", what: "bytes", limit: limits.maxBytes, found, path: "" }) }
  }
  const none = (offset: number, found: string) =>
    refuse({ _tag: "NotJson", offset, expected: "one JSON value in the text", found })
  const whole = parse(text, limits)
  if (Result.isSuccess(whole)) return { values: [whole.success], error: none(0, "no other value") }
  if (whole.failure !== "malformed") return { values: [], error: whole.failure }
  const closing = closingsOf(text)
  const marks = /[{[]|<\/?think>/giu
  const endOfThought = /<\/think>/giu
  /** The next `</think>` at or after an offset. */
  const thoughtEndsAt = (from: number): number => {
    endOfThought.lastIndex = from
    return endOfThought.exec(text)?.index ?? -1
  }
  let found: Array<{ readonly at: number; readonly value: Schema.Json }> = []
  let refused: PayloadError.PayloadError | undefined
  let problem = "no JSON object or array"
  let at = 0
  let thoughtEnd = 0
  for (let mark = marks.exec(text); mark !== null; marks.lastIndex = at, mark = marks.exec(text)) {
    const start = mark.index
    if (mark[0].length > 1) {
      // A closing tag alone: all before it was thought
      const isAlone = mark[0].startsWith("</")
      const end = thoughtEndsAt(start)
      at = end === -1 ? text.length : end + "</think>".length
      thoughtEnd = at
      if (isAlone) [found, refused] = [[], undefined]
      continue
    }
    const end = closing(start)
    at = end === -1 ? start + 1 : end + 1
    if (end === -1) {
      if (!isCutOff(text, start)) continue
      const tag = thoughtEndsAt(start)
      if (tag === -1) return { values: [], error: none(start, "an object or array that is cut off") }
      at = tag
      continue
    }
    const span = text.slice(start, end + 1)
    const parsed = parse(span, limits)
    if (Result.isSuccess(parsed)) found.push({ at: start, value: parsed.success })
    else if (parsed.failure === "malformed") {
      problem = "malformed JSON"
      const tag = span.search(/<\/?think>/iu)
      if (tag !== -1) at = start + tag
    } else [found, refused] = [[], parsed.failure]
  }
  const scalars = refused === undefined ? scalarsOf(text, thoughtEnd, limits) : []
  const sorted = scalars.length === 0 ? found : [...found, ...scalars].toSorted((one, other) => one.at - other.at)
  const values = sorted.slice(-maxValues).map(({ value }) => value)
  return { values: values.toReversed(), error: refused ?? none(at, problem) }
}

/** The value that is most likely the answer where no schema decides: the latest object, else array, else other value. */
export const likeliest = (values: ReadonlyArray<Schema.Json>): Schema.Json | undefined =>
  values.find(isObject) ?? values.find((value) => Array.isArray(value)) ?? values[0]
