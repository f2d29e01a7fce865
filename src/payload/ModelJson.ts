/**
 * JSON in a model's final text.
 *
 * @since 0.1.0
 */

import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Limits from "./Limits.ts"
import * as jsonValues from "./internal/jsonValues.ts"
import * as paths from "./internal/paths.ts"

/** Where a bracket at `start` is closed; `-1` when it is not. Brackets inside JSON strings do not count. */
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

/** Whether what follows an unclosed bracket looks like the inside of JSON, cut off, rather than prose. */
const isCutOff = (text: string, start: number): boolean =>
  text[start] === "{"
    ? /^\{\s*"/.test(text.slice(start, start + 64))
    : /^\[\s*[[{"]/.test(text.slice(start, start + 64))

/** The next opening bracket at or after `from`; `-1` when there is none. */
const findOpening = (text: string, from: number): number => {
  for (let i = from; i < text.length; i++) if (text[i] === "{" || text[i] === "[") return i
  return -1
}

/**
 * No JSON was found in a text, or none that may be used. `offset` counts UTF-16
 * code units from 0 to where the search ended; `problem` says what was met and
 * never quotes the text.
 *
 * @category errors
 * @since 0.1.0
 */
export class ModelJsonError extends Schema.TaggedError<ModelJsonError>("effect-emissary/payload/ModelJsonError")(
  "ModelJsonError",
  {
    offset: Schema.Int,
    problem: Schema.String
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `no usable JSON in the model's text: ${this.problem}`
  }
}

/** How many spans of a text are tried at most. */
const maxCandidates = 20

const parseText = (
  text: string,
  start: number,
  limits: Limits.Limits
): Result.Result<Schema.Json, "malformed" | ModelJsonError> => {
  const parsed = Result.try({ try: (): unknown => JSON.parse(text), catch: () => "malformed" as const })
  if (Result.isFailure(parsed)) return Result.fail(parsed.failure)
  const plain = jsonValues.copyPlain(parsed.success, limits)
  if (!("_tag" in plain)) return Result.succeed(plain.value)
  const place = paths.toPointer(plain.at)
  const problem =
    plain._tag === "ForbiddenKey"
      ? `the key ${JSON.stringify(plain.key)} is not allowed`
      : plain._tag === "TooDeep"
        ? `it is nested deeper than ${plain.limit}`
        : plain._tag === "TooLarge"
          ? `${plain.what} is over ${plain.limit}`
          : `${plain.found} is not JSON`
  return Result.fail(new ModelJsonError({ offset: start, problem: `${problem} (at ${place || "the root"})` }))
}

/** The one code fence of a text, when what it holds is JSON: a string, a number, a boolean or null. */
const parseFenced = (text: string, limits: Limits.Limits): Result.Result<Schema.Json, never> | undefined => {
  const [before, body, after, ...more] = text.split("```")
  if (before === undefined || body === undefined || after === undefined || more.length > 0) return undefined
  const found = parseText(body.replace(/^(?:json)?\s/iu, ""), before.length, limits)
  return Result.isSuccess(found) ? Result.succeed(found.success) : undefined
}

/**
 * Reads the JSON a model answered with: the whole text if it is JSON, else the
 * first well-formed object in it, else the first well-formed array, else the string,
 * number, boolean or null that stands alone in its one code fence.
 *
 * **Details**
 *
 * The JSON may stand in a code fence, in prose or in markup. At most 20 places
 * are tried. An object inside a malformed or cut off one is never taken, nor is
 * one inside an array: a part of an answer is not the answer.
 *
 * What is found is held against the limits and key rules of payloads
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
): Result.Result<Schema.Json, ModelJsonError> => {
  const limits = { ...Limits.defaults, ...options.limits }
  if (text.length > limits.maxBytes) {
    return Result.fail(new ModelJsonError({ offset: 0, problem: `the text is longer than ${limits.maxBytes}` }))
  }
  const whole = parseText(text, 0, limits)
  if (Result.isSuccess(whole)) return Result.succeed(whole.success)
  if (whole.failure !== "malformed") return Result.fail(whole.failure)
  let array: { readonly value: Schema.Json } | undefined
  let at = 0
  let tried = 0
  let problem = "it holds no JSON object or array"
  for (let start = findOpening(text, 0); start >= 0 && tried < maxCandidates; start = findOpening(text, at)) {
    tried++
    const end = findClosing(text, start)
    at = end < 0 ? start + 1 : end + 1
    if (end < 0) {
      if (!isCutOff(text, start)) continue
      problem = "an object or array in it is cut off"
      at = start
      array = undefined
      break
    }
    const found = parseText(text.slice(start, end + 1), start, limits)
    if (Result.isSuccess(found)) {
      if (text[start] === "{") return Result.succeed(found.success)
      array ??= { value: found.success }
    } else if (found.failure === "malformed") problem = "what looks like JSON in it is malformed"
    else return Result.fail(found.failure)
  }
  if (array !== undefined) return Result.succeed(array.value)
  const scalar = tried === 0 ? parseFenced(text, limits) : undefined
  return scalar ?? Result.fail(new ModelJsonError({ offset: at, problem }))
}
