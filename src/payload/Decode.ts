/**
 * Schemas at the door: decoding and encoding with errors that name every
 * place.
 *
 * **When to use**
 *
 * {@link decodeJson} for text, {@link decodeUnknown} for values that somebody
 * else parsed, {@link decode} for values that went through `Json` already.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { fromSchemaIssue } from "./internal/issues.ts"
import * as Json from "./Json.ts"
import { resolve } from "./Limits.ts"
import { PayloadError } from "./PayloadError.ts"

/**
 * Options of decoding and encoding with a schema.
 *
 * **Details**
 *
 * - `onExcessProperty`: keys that the schema does not declare are an `"error"`
 *   (default), or are left out with `"ignore"`.
 * - `path`: where the value stands in a whole document, a JSON Pointer put
 *   before the path of every issue; default the root.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options extends Json.Options {
  readonly onExcessProperty?: "error" | "ignore" | undefined
  readonly path?: string | undefined
}

const failure = (error: Schema.SchemaError, input: unknown, options: Options | undefined) =>
  Effect.flatMap(resolve(options?.limits), (limits) =>
    Effect.fail(
      new PayloadError({
        what: options?.what ?? "JSON",
        reason: fromSchemaIssue(error.issue, input, { max: limits.maxIssues, path: options?.path ?? "" })
      })
    )
  )

/**
 * Decodes a value that already went through `Json.parse` or `Json.check`.
 *
 * **Details**
 *
 * Fails with `Invalid`, which lists every place up to `maxIssues` with what was
 * expected and the kind of what was found. Apply it to the codec once and use
 * the function many times.
 *
 * **Example** (All issues)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Decode } from "effect-emissary"
 *
 * const Order = Schema.Struct({ id: Schema.String, items: Schema.Array(Schema.Int) })
 * const decode = Decode.decode(Order, { what: "order" })
 *
 * const error = Effect.runSync(Effect.flip(decode({ id: 7, items: [1, "two"] })))
 * assert.strictEqual(
 *   error.message,
 *   "order: at /id: expected string, found number; at /items/1: expected number, found string"
 * )
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = <T, RD = never>(
  codec: Schema.Decoder<T, RD>,
  options?: Options
): ((json: unknown) => Effect.Effect<T, PayloadError, RD>) => {
  const run = Schema.decodeUnknownEffect(codec, {
    errors: "all",
    onExcessProperty: options?.onExcessProperty ?? "error"
  })
  return (json) => Effect.catch(run(json), (error) => failure(error, json, options))
}

/**
 * Checks an unknown value with `Json.check`, then decodes it.
 *
 * **Example** (A value that somebody else parsed)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Decode } from "effect-emissary"
 *
 * const decode = Decode.decodeUnknown(Schema.Struct({ city: Schema.String }))
 * assert.deepStrictEqual(Effect.runSync(decode({ city: "Oslo" })), { city: "Oslo" })
 *
 * const hostile: unknown = JSON.parse(`{"city":"Oslo","__proto__":{}}`)
 * assert.strictEqual(Effect.runSync(Effect.flip(decode(hostile))).reason._tag, "ForbiddenKey")
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeUnknown = <T, RD = never>(
  codec: Schema.Decoder<T, RD>,
  options?: Options
): ((input: unknown) => Effect.Effect<T, PayloadError, RD>) => {
  const run = decode(codec, options)
  return (input) => Effect.flatMap(Json.check(input, options), run)
}

/**
 * Parses JSON text or bytes with `Json.parse`, then decodes the value.
 *
 * **Example** (Text from outside)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { Decode } from "effect-emissary"
 *
 * const decode = Decode.decodeJson(Schema.Struct({ city: Schema.String }), { limits: { maxBytes: 100 } })
 * assert.deepStrictEqual(Effect.runSync(decode(`{"city":"Oslo"}`)), { city: "Oslo" })
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = <T, RD = never>(
  codec: Schema.Decoder<T, RD>,
  options?: Options
): ((input: string | Uint8Array) => Effect.Effect<T, PayloadError, RD>) => {
  const run = decode(codec, options)
  return (input) => Effect.flatMap(Json.parse(input, options), run)
}

/**
 * Encodes a value with a schema and checks the outcome with `Json.check`.
 *
 * **Details**
 *
 * The codec's encoded side must be JSON: what is not (a `Date`, `undefined`) is
 * refused with its path. `Schema.toCodecJson` makes such a codec of any schema.
 *
 * **Example** (Encoding)
 *
 * ```ts
 * import assert from "node:assert"
 * import { DateTime, Effect, Schema } from "effect"
 * import { Decode } from "effect-emissary"
 *
 * const encode = Decode.encode(Schema.Struct({ at: Schema.DateTimeUtcFromString }))
 * const json = Effect.runSync(encode({ at: DateTime.makeUnsafe("2026-01-02T03:04:05Z") }))
 * assert.deepStrictEqual(json, { at: "2026-01-02T03:04:05.000Z" })
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = <T, RE = never>(
  codec: Schema.Codec<T, unknown, unknown, RE>,
  options?: Options
): ((value: T) => Effect.Effect<Schema.Json, PayloadError, RE>) => {
  const run = Schema.encodeUnknownEffect(codec, {
    errors: "all",
    onExcessProperty: options?.onExcessProperty ?? "error"
  })
  return (value) =>
    Effect.catch(run(value), (error) => failure(error, value, options)).pipe(
      Effect.flatMap((json) => Json.check(json, options))
    )
}
