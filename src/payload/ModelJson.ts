/**
 * JSON in a model's final text.
 *
 * @since 0.1.0
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Limits from "./Limits.ts"
import * as PayloadError from "./PayloadError.ts"
import * as plainJson from "./internal/plainJson.ts"

/** The offset at which a bracket at `start` is closed; `-1` when it is not. Brackets inside JSON strings do not count. */
const findClosing = (text: string, start: number): number => {
  let depth = 0
  let inString = false
  for (let i = start; i < text.length; i++) {
    const char = text[i]
    if (inString) {
      if (char === "\\") i++
      else if (char === '"') inString = false
    } else if (char === '"') inString = true
    else if (char === "{" || char === "[") depth++
    else if (char === "}" || char === "]") {
      depth--
      if (depth === 0) return i
    }
  }
  return -1
}

/** True if the text after an unclosed bracket looks like the inside of JSON, cut off, rather than prose. */
const isCutOff = (text: string, start: number): boolean =>
  text[start] === "{"
    ? /^\{\s*"/.test(text.slice(start, start + 64))
    : /^\[\s*[[{"]/.test(text.slice(start, start + 64))

/** The next opening bracket at or after `from`; `-1` when there is none. */
const findOpening = (text: string, from: number): number => {
  for (let i = from; i < text.length; i++) if (text[i] === "{" || text[i] === "[") return i
  return -1
}

/** The greatest number of spans of a text that are tried. */
const maxCandidates = 20

const refuse = (reason: PayloadError.Reason) => new PayloadError.PayloadError({ what: "text of the model", reason })

const parseText = (
  text: string,
  limits: Limits.Limits
): Result.Result<Schema.Json, "malformed" | PayloadError.PayloadError> =>
  Result.flatMap(Result.try({ try: (): unknown => JSON.parse(text), catch: () => "malformed" as const }), (value) =>
    Result.mapError(plainJson.copyJson(value, limits), refuse)
  )

/** The one code fence of a text, when what it holds is JSON: a string, a number, a boolean or null. */
const parseFenced = (text: string, limits: Limits.Limits): Schema.Json | undefined => {
  const [before, body, after, ...more] = text.split("```")
  if (before === undefined || body === undefined || after === undefined || more.length > 0) return undefined
  return Result.getOrUndefined(parseText(body.replace(/^(?:json)?\s/iu, ""), limits))
}

/**
 * Reads the JSON a model answered with: the whole text if it is JSON, else the
 * first well-formed object in it, else the first well-formed array, else the string,
 * number, boolean or null that is alone in its one code fence.
 *
 * **Details**
 *
 * The JSON may be in a code fence, in prose or in markup. At most 20 places
 * are tried. An object inside a malformed or cut off one is never taken, nor is
 * one inside an array: a part of an answer is not the answer.
 *
 * The value found must keep the limits and key rules of payloads
 * (`Limits.defaults` with `options.limits` in their place).
 *
 * **Example** (JSON in a code fence)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { ModelJson } from "effect-emissary/payload"
 *
 * const text = 'Here you are:\n```json\n{ "sentiment": "positive" }\n```'
 * assert.deepStrictEqual(ModelJson.parse(text), Result.succeed({ sentiment: "positive" }))
 * assert.strictEqual(Result.isFailure(ModelJson.parse("I cannot do that.")), true)
 * ```
 *
 * @category parsing
 * @since 0.1.0
 */
export const parse = (
  text: string,
  options: { readonly limits?: Partial<Limits.Limits> | undefined } = {}
): Result.Result<Schema.Json, PayloadError.PayloadError> => {
  const limits = { ...Limits.defaults, ...options.limits }
  if (text.length > limits.maxBytes) {
    const found = text.length
    return Result.fail(refuse({ _tag: "TooLarge", what: "bytes", limit: limits.maxBytes, found, path: "" }))
  }
  const whole = parseText(text, limits)
  if (Result.isSuccess(whole)) return Result.succeed(whole.success)
  if (whole.failure !== "malformed") return Result.fail(whole.failure)
  let array: { readonly value: Schema.Json } | undefined
  let at = 0
  let tried = 0
  let found = "no JSON object or array"
  for (let start = findOpening(text, 0); start >= 0 && tried < maxCandidates; start = findOpening(text, at)) {
    tried++
    const end = findClosing(text, start)
    at = end < 0 ? start + 1 : end + 1
    if (end < 0) {
      if (!isCutOff(text, start)) continue
      found = "an object or array that is cut off"
      at = start
      array = undefined
      break
    }
    const candidate = parseText(text.slice(start, end + 1), limits)
    if (Result.isSuccess(candidate)) {
      if (text[start] === "{") return Result.succeed(candidate.success)
      array ??= { value: candidate.success }
    } else if (candidate.failure === "malformed") found = "malformed JSON"
    else return Result.fail(candidate.failure)
  }
  if (array !== undefined) return Result.succeed(array.value)
  const scalar = tried === 0 ? parseFenced(text, limits) : undefined
  return scalar === undefined
    ? Result.fail(refuse({ _tag: "NotJson", offset: at, expected: "one JSON value in the text", found }))
    : Result.succeed(scalar)
}
