/**
 * The door for JSON: text and bytes in, plain data out, under limits.
 *
 * Everything that comes from outside passes {@link parse} or {@link check}
 * before anything else looks at it, and everything that goes out passes
 * {@link stringify}. What they let through is plain JSON: no getter, no class
 * instance, no cycle, no `__proto__`, no `constructor` that holds a
 * `prototype`.
 *
 * **Details**
 *
 * - Bytes must be UTF-8. Invalid sequences and a byte order mark are refused.
 * - A key that occurs twice in one object is refused: readers disagree about
 *   which one counts, and that is how data passes a check it should not pass.
 * - A number that does not fit (`1e999`) is refused; one that is merely less
 *   precise than its text is rounded, as `JSON.parse` does.
 * - Lone surrogates are let through, for JSON text can hold them as escapes and
 *   models cut text anywhere. `Digest.canonicalize` refuses them.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import { pipe } from "effect/Function"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Limits from "./Limits.ts"
import * as PayloadError from "./PayloadError.ts"
import * as base from "./internal/base.ts"
import * as issues from "./internal/issues.ts"
import * as jsonReader from "./internal/jsonReader.ts"

/**
 * A JSON object.
 *
 * @category models
 * @since 0.1.0
 */
export type JsonObject = base.JsonObject

/**
 * Options of reading and writing JSON.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** The name of the data in error messages; default `"JSON"`. */
  readonly what?: string | undefined
  /** Limits that differ from the current ones for this call. */
  readonly limits?: Partial<Limits.Limits> | undefined
  /** Keys that a schema does not declare are an `"error"` (default), or are left out with `"ignore"`. */
  readonly onExcessProperty?: "error" | "ignore" | undefined
  /** The JSON Pointer of the value in a whole document, put before the path of every problem; default the root. */
  readonly path?: string | undefined
}

const runWithLimits = <A>(
  options: Options | undefined,
  f: (limits: Limits.Limits) => Result.Result<A, PayloadError.Reason>
): Effect.Effect<A, PayloadError.PayloadError> =>
  Effect.flatMap(Limits.resolve(options?.limits), (limits) =>
    Effect.fromResult(
      Result.mapError(f(limits), (reason) => new PayloadError.PayloadError({ what: options?.what ?? "JSON", reason }))
    )
  )

/**
 * Reads JSON text, or bytes of UTF-8, under limits.
 *
 * **When to use**
 *
 * For every text from outside: files, request bodies, database columns, what a
 * model wrote. For a value that is parsed already use {@link check}.
 *
 * **Details**
 *
 * Bytes, depth, nodes, strings and arrays are counted in one pass over the text
 * before anything is built, so refusing hostile text costs little. Fails with
 * `NotJson`, `TooLarge`, `TooDeep`, `ForbiddenKey`, or `Invalid` for a number
 * that does not fit.
 *
 * **Example** (Text from outside)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * assert.deepStrictEqual(Effect.runSync(Json.parse(`{"city":"Oslo"}`)), { city: "Oslo" })
 *
 * const error = Effect.runSync(Effect.flip(Json.parse(`{"city":Oslo}`, { what: "order" })))
 * assert.ok(error.reason._tag === "NotJson" && error.reason.offset === 8)
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const parse = (
  input: string | Uint8Array,
  options?: Options
): Effect.Effect<Schema.Json, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) => (typeof input === "string" ? parseText(input, limits) : parseBytes(input, limits)))

/**
 * Checks that a value is plain JSON within the limits, and copies it.
 *
 * **When to use**
 *
 * For values that arrive parsed, and for values of one's own before they are
 * written.
 *
 * **Details**
 *
 * Refused with the path of each place: `undefined`, functions, symbols,
 * bigints, numbers that are not finite, class instances (`Date`, `Map` ...),
 * getters, holes in arrays, cycles, and objects that a Proxy makes unreadable.
 * The outcome is a fresh copy, which no other code can change after the check.
 * `maxBytes` is compared with the least that the text would take.
 *
 * **Example** (Everything that is wrong, with its path)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const error = Effect.runSync(Effect.flip(Json.check({ at: new Date(0), sizes: [1, Number.NaN] })))
 * assert.ok(error.reason._tag === "Invalid")
 * assert.deepStrictEqual(error.reason.issues.map((issue) => issue.path), ["/at", "/sizes/1"])
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const check = (input: unknown, options?: Options): Effect.Effect<Schema.Json, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) => jsonReader.copyJson(input, limits))

/**
 * Like {@link check}, for values that have to be objects.
 *
 * **Example** (Not an object)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * const error = Effect.runSync(Effect.flip(Json.checkObject([1], { what: "arguments" })))
 * assert.strictEqual(error.message, "arguments at the root: expected object, got array")
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const checkObject = (input: unknown, options?: Options): Effect.Effect<JsonObject, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) =>
    Result.flatMap(jsonReader.copyJson(input, limits), (json) =>
      isObject(json)
        ? Result.succeed(json)
        : Result.fail(PayloadError.invalid([{ path: "", expected: "object", found: base.kindOf(json) }]))
    )
  )

/**
 * Writes a value as JSON text after {@link check}.
 *
 * **Details**
 *
 * `indent` is the number of spaces per level, default 0. The limits hold for
 * what is written too, `maxBytes` exactly.
 *
 * **Example** (Writing)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary/payload"
 *
 * assert.strictEqual(Effect.runSync(Json.stringify({ b: [1, -0] })), `{"b":[1,0]}`)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const stringify = (
  value: unknown,
  options?: Options & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError.PayloadError> =>
  runWithLimits(options, (limits) =>
    pipe(
      jsonReader.copyJson(value, limits),
      Result.flatMap((json) =>
        // JSON.stringify recurses: a caller who raised maxDepth may meet the end of the stack.
        Result.try({
          try: () => JSON.stringify(json, undefined, options?.indent),
          catch: (): PayloadError.Reason => {
            const limit = Math.min(limits.maxDepth, Number.MAX_SAFE_INTEGER)
            return { _tag: "TooDeep", limit, path: "" }
          }
        })
      ),
      Result.flatMap((text) => Result.map(checkText(text, limits), () => text))
    )
  )

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
export const isObject: (json: Schema.Json | undefined) => json is JsonObject = base.isObject

/** No text takes more than three bytes for a code unit, so most need no counting. */
const checkText = (text: string, limits: Limits.Limits): Result.Result<void, PayloadError.Reason> =>
  checkBytes(
    text.length > limits.maxBytes || text.length * 3 <= limits.maxBytes ? text.length : jsonReader.byteLength(text),
    limits
  )

const checkBytes = (found: number, limits: Limits.Limits): Result.Result<void, PayloadError.Reason> =>
  found > limits.maxBytes
    ? Result.fail({ _tag: "TooLarge", what: "bytes", limit: limits.maxBytes, found, path: "" })
    : Result.succeed(undefined)

const parseText = (text: string, limits: Limits.Limits): Result.Result<Schema.Json, PayloadError.Reason> =>
  Result.flatMap(checkText(text, limits), () => parseSized(text, limits))

const parseSized = (text: string, limits: Limits.Limits): Result.Result<Schema.Json, PayloadError.Reason> =>
  Result.flatMap(jsonReader.scanText(text, limits), (nodes) => {
    // Cannot throw: the scanner accepted the whole text.
    const json: Schema.Json = JSON.parse(text)
    const count = jsonReader.countNodes(json)
    if (count === nodes) return Result.succeed(json)
    if (count === -1) return jsonReader.copyJson(json, limits)
    // Fewer nodes than the text has: a key occurred twice, and one value is gone.
    return Result.map(jsonReader.scanText(text, limits, true), () => json)
  })

const parseBytes = (bytes: Uint8Array, limits: Limits.Limits): Result.Result<Schema.Json, PayloadError.Reason> =>
  pipe(
    checkBytes(bytes.length, limits),
    Result.flatMap(() =>
      Result.try({
        try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
        catch: (): PayloadError.Reason => {
          const offset = jsonReader.findInvalidByte(bytes)
          return { _tag: "NotJson", offset, expected: "UTF-8", found: "a byte that it does not have" }
        }
      })
    ),
    Result.flatMap((text) => Result.mapError(parseSized(text, limits), (reason) => offsetInBytes(reason, text)))
  )

/** The offset of a reason counted in bytes. */
const offsetInBytes = (reason: PayloadError.Reason, text: string): PayloadError.Reason => {
  if (reason._tag !== "NotJson") return reason
  return { ...reason, offset: jsonReader.byteLength(text.slice(0, reason.offset)) }
}

const failDecoding = (error: Schema.SchemaError, input: unknown, options: Options | undefined) =>
  Effect.flatMap(Limits.resolve(options?.limits), (limits) =>
    Effect.fail(
      new PayloadError.PayloadError({
        what: options?.what ?? "JSON",
        reason: issues.reasonFromSchemaIssue(error.issue, input, { max: limits.maxIssues, path: options?.path ?? "" })
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
 * import { Json } from "effect-emissary/payload"
 *
 * const Order = Schema.Struct({ id: Schema.String, items: Schema.Array(Schema.Int) })
 * const decode = Json.decode(Order, { what: "order" })
 *
 * const error = Effect.runSync(Effect.flip(decode({ id: 7, items: [1, "two"] })))
 * assert.strictEqual(
 *   error.message,
 *   "order at /id: expected string, got number; at /items/1: expected number, got string"
 * )
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = <T, RD = never>(
  codec: Schema.Decoder<T, RD>,
  options?: Options
): ((json: unknown) => Effect.Effect<T, PayloadError.PayloadError, RD>) => {
  const run = Schema.decodeUnknownEffect(codec, {
    errors: "all",
    onExcessProperty: options?.onExcessProperty ?? "error"
  })
  return (json) => Effect.catch(run(json), (error) => failDecoding(error, json, options))
}

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
  options?: Options
): ((input: string | Uint8Array) => Effect.Effect<T, PayloadError.PayloadError, RD>) => {
  const run = decode(codec, options)
  return (input) => Effect.flatMap(parse(input, options), run)
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
  options?: Options
): ((value: T) => Effect.Effect<Schema.Json, PayloadError.PayloadError, RE>) => {
  const run = Schema.encodeUnknownEffect(codec, {
    errors: "all",
    onExcessProperty: options?.onExcessProperty ?? "error"
  })
  return (value) =>
    Effect.catch(run(value), (error) => failDecoding(error, value, options)).pipe(
      Effect.flatMap((json) => check(json, options))
    )
}
