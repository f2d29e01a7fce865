/**
 * The door for JSON: text and bytes in, plain data out, under limits.
 *
 * Everything that comes from outside passes `parse` or `check`
 * before anything else looks at it, and everything that goes out passes
 * `stringify`. What they let through is plain JSON: no getter, no class
 * instance, no cycle, no `__proto__`, no `constructor` that holds a
 * `prototype`.
 *
 * **Details**
 *
 * - Bytes must be UTF-8. Invalid sequences and a byte order mark are refused.
 * - A key that occurs twice in one object is refused: readers disagree about
 *   which one counts, and that is how data passes a check it should not pass.
 * - A number that does not fit (`1e999`) is refused; a number whose text is more precise than a double is rounded, as
 *   `JSON.parse` does. `integer` of a JSON Schema and `Schema.Int` refuse what is not exact.
 * - Lone surrogates are let through, for JSON text can hold them as escapes and
 *   models cut text anywhere. `Digest.canonicalize` refuses them.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as PayloadError from "./PayloadError.ts"
import * as answerText from "./internal/answerText.ts"
import * as base from "./internal/base.ts"
import * as copyJson from "./internal/copyJson.ts"
import * as jsonLimits from "./internal/limits.ts"
import * as jsonProblems from "./internal/problems.ts"
import * as textScanner from "./internal/textScanner.ts"
import * as jsonValues from "./internal/values.ts"
import { textOf } from "./internal/weigh.ts"

export { check, SecretNames, secretNames, type Secret } from "./internal/copyJson.ts"
export type { Options } from "./internal/limits.ts"
export { decode } from "./internal/problems.ts"
export { parse, stringify } from "./internal/textScanner.ts"
export type { JsonObject } from "./internal/values.ts"

/**
 * JSON for the eyes of a person: characters that are not seen, or that change the order of others, are escapes.
 *
 * **When to use**
 *
 * Use for arguments of a call that a person approves. They come from a model, and could look different from what they are. `space`
 * is the indentation of `JSON.stringify`; default none. The text has the same value as the JSON. In place of a value that contains
 * itself, is no JSON or weighs more than 32 MiB it is a sentence in quotes.
 *
 * **Example** (A character that turns the text after it around)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Json } from "effect-emissary/payload"
 *
 * assert.strictEqual(Json.show({ file: "report\u202efdp.exe" }), String.raw`{"file":"report\u202efdp.exe"}`)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const show = (json: Schema.Json, space?: number): string => base.escapeUnseen(textOf(json, space))

/**
 * True for a JSON value that is an object, neither an array nor `null`.
 *
 * **Example** (Narrowing)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Json } from "effect-emissary/payload"
 *
 * assert.deepStrictEqual([Json.isObject({}), Json.isObject([]), Json.isObject(null)], [true, false, false])
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isObject: (json: Schema.Json | undefined) => json is jsonValues.JsonObject = jsonValues.isObject

/**
 * Parses JSON text or bytes with `Json.parse`, then decodes the value.
 *
 * **Example** (Text from outside)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const decode = Json.decodeJson(Schema.Struct({ city: Schema.String }), { limits: { maxBytes: 100 } })
 * assert.deepStrictEqual(Effect.runSync(decode(`{"city":"Oslo"}`)), { city: "Oslo" })
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = <T, RD = never>(
  codec: Schema.Decoder<T, RD>,
  options?: jsonLimits.Options
): ((input: string | Uint8Array) => Effect.Effect<T, PayloadError.PayloadError, RD>) => {
  const run = jsonProblems.decode(codec, options)
  return (input) => Effect.flatMap(textScanner.parse(input, options), run)
}

/**
 * Encodes a value with a schema and checks the outcome with `Json.check`.
 *
 * **Details**
 *
 * The codec's encoded side must be JSON: what is not (a `Date`, `undefined`) is refused with its path.
 * `Schema.toCodecJson` makes a codec with a JSON side from any schema.
 *
 * **Example** (Encoding)
 *
 * ```ts
 * import assert from "node:assert"
 * import { DateTime, Effect, Schema } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const encode = Json.encode(Schema.Struct({ at: Schema.DateTimeUtcFromString }))
 * const json = Effect.runSync(encode({ at: DateTime.makeUnsafe("2026-01-02T03:04:05Z") }))
 * assert.deepStrictEqual(json, { at: "2026-01-02T03:04:05.000Z" })
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = <T, RE = never>(
  codec: Schema.Codec<T, unknown, unknown, RE>,
  options?: jsonLimits.Options
): ((value: T) => Effect.Effect<Schema.Json, PayloadError.PayloadError, RE>) => {
  const run = jsonProblems.encodeUnchecked(codec, options)
  return (value) => Effect.flatMap(run(value), (json) => copyJson.check(json, options))
}

/**
 * The first secret in a value, in the order in which it is written: its path as a
 * JSON Pointer, its key, and whether the key is secret or the value `Redacted`. The
 * value is not part of it.
 *
 * **Details**
 *
 * Looks at every member of arrays, objects, class instances, maps and sets, at
 * any depth. Getters are not called. `names` is the list of secret keys, `secretNames`
 * unless given.
 *
 * **Example** (A key, and a Redacted value)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Option, Redacted } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const found = Json.findSecret({ modelOptions: { headers: { Authorization: "Bearer abc" } } })
 * assert.strictEqual(Option.getOrThrow(found).path, "/modelOptions/headers/Authorization")
 *
 * const redacted = Json.findSecret([Redacted.make("abc")])
 * assert.strictEqual(Option.getOrThrow(redacted).kind, "redacted")
 * ```
 *
 * @category searching
 * @since 0.1.0
 */
export const findSecret = (
  value: unknown,
  options?: { readonly names?: ReadonlySet<string> | undefined }
): Option.Option<copyJson.Secret> => Option.fromUndefinedOr(copyJson.findSecret(value, options))

/**
 * Reads the JSON a model answered with: the whole text if it is JSON, else the
 * latest well-formed object in it, else the latest well-formed array, else the latest string,
 * number, boolean or null that is alone in a code fence.
 *
 * **Details**
 *
 * The JSON may be in a code fence, in prose or in markup. Text in `<think>`, and
 * text before a `</think>` alone, is a draft and is not searched. An object inside a malformed or cut off one is never taken, nor is
 * one inside an array: a part of an answer is not the answer. Where the last value of a text is cut off, nothing is taken.
 *
 * The value found must keep the limits and key rules of payloads
 * (`Limits.defaults` with `options.limits` in their place).
 *
 * **Example** (JSON in a code fence)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const text = 'Here you are:\n```json\n{ "sentiment": "positive" }\n```'
 * assert.deepStrictEqual(Json.extract(text), Result.succeed({ sentiment: "positive" }))
 * assert.strictEqual(Result.isFailure(Json.extract("I cannot do that.")), true)
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const extract = (
  text: string,
  options: { readonly limits?: Partial<jsonLimits.Limits> | undefined } = {}
): Result.Result<Schema.Json, PayloadError.PayloadError> => {
  const limits = { ...jsonLimits.defaultLimits, ...options.limits }
  const { error, values } = answerText.find(text, limits)
  const value = answerText.likeliest(values)
  return value === undefined ? Result.fail(error) : Result.succeed(value)
}
