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
 *   models cut text anywhere. `CanonicalJson` refuses them.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { dual, pipe } from "effect/Function"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { kindOf } from "./internal/kind.ts"
import { copy, countParsed } from "./internal/plain.ts"
import { tokens } from "./internal/pointer.ts"
import { scan } from "./internal/scan.ts"
import { byteLength, invalidAt } from "./internal/utf8.ts"
import { type Limits, resolve } from "./Limits.ts"
import { invalid, NotJson, PayloadError, type Reason, TooDeep, TooLarge } from "./PayloadError.ts"

/**
 * A JSON object.
 *
 * @category models
 * @since 0.1.0
 */
export interface JsonObject {
  readonly [key: string]: Schema.Json
}

/**
 * Options of reading and writing JSON.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** What is read or written, for error messages; default `"JSON"`. */
  readonly what?: string | undefined
  /** Limits that differ from the current ones for this call. */
  readonly limits?: Partial<Limits> | undefined
}

const run = <A>(
  options: Options | undefined,
  f: (limits: Limits) => Result.Result<A, Reason>
): Effect.Effect<A, PayloadError> =>
  Effect.flatMap(resolve(options?.limits), (limits) =>
    Result.match(f(limits), {
      onSuccess: (value) => Effect.succeed(value),
      onFailure: (reason) => Effect.fail(new PayloadError({ what: options?.what ?? "JSON", reason }))
    })
  )

/**
 * Reads JSON text, or bytes of UTF-8, under limits.
 *
 * **When to use**
 *
 * For every text from outside: files, request bodies, database columns, what a
 * model wrote. For a value that somebody else parsed use {@link check}.
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
 * import { Json } from "effect-emissary"
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
export const parse = (input: string | Uint8Array, options?: Options): Effect.Effect<Schema.Json, PayloadError> =>
  run(options, (limits) => (typeof input === "string" ? parseText(input, limits) : parseBytes(input, limits)))

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
 * The outcome is a fresh copy, so nobody changes it after it was checked.
 * `maxBytes` is compared with the least that the text would take.
 *
 * **Example** (Everything that is wrong, with its path)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary"
 *
 * const error = Effect.runSync(Effect.flip(Json.check({ at: new Date(0), sizes: [1, Number.NaN] })))
 * assert.ok(error.reason._tag === "Invalid")
 * assert.deepStrictEqual(error.reason.issues.map((issue) => issue.path), ["/at", "/sizes/1"])
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const check = (input: unknown, options?: Options): Effect.Effect<Schema.Json, PayloadError> =>
  run(options, (limits) => copy(input, limits))

/**
 * Like {@link check}, for values that have to be objects.
 *
 * **Example** (Not an object)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Json } from "effect-emissary"
 *
 * const error = Effect.runSync(Effect.flip(Json.checkObject([1], { what: "arguments" })))
 * assert.strictEqual(error.message, "arguments: at the root: expected object, found array")
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const checkObject = (input: unknown, options?: Options): Effect.Effect<JsonObject, PayloadError> =>
  run(options, (limits) =>
    Result.flatMap(copy(input, limits), (json) =>
      isObject(json)
        ? Result.succeed(json)
        : Result.fail(invalid([{ path: "", expected: "object", found: kindOf(json) }]))
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
 * import { Json } from "effect-emissary"
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
): Effect.Effect<string, PayloadError> =>
  run(options, (limits) =>
    pipe(
      copy(value, limits),
      Result.flatMap((json) =>
        // JSON.stringify recurses: a caller who raised maxDepth may meet the end of the stack.
        Result.try({
          try: () => JSON.stringify(json, undefined, options?.indent),
          catch: () => new TooDeep({ limit: Math.min(limits.maxDepth, Number.MAX_SAFE_INTEGER), path: "" })
        })
      ),
      Result.flatMap((text) => Result.map(checkText(text, limits), () => text))
    )
  )

/**
 * Whether a JSON value is an object, neither an array nor `null`.
 *
 * **Example** (Narrowing)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Json } from "effect-emissary"
 *
 * assert.deepStrictEqual([Json.isObject({}), Json.isObject([]), Json.isObject(null)], [true, false, false])
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isObject = (json: Schema.Json | undefined): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)

/** No text takes more than three bytes for a code unit, so most need no counting. */
const checkText = (text: string, limits: Limits): Result.Result<void, TooLarge> =>
  checkBytes(text.length * 3 <= limits.maxBytes ? text.length : byteLength(text, limits.maxBytes), limits)

const checkBytes = (found: number, limits: Limits): Result.Result<void, TooLarge> =>
  found > limits.maxBytes
    ? Result.fail(new TooLarge({ what: "bytes", limit: limits.maxBytes, found, path: "" }))
    : Result.succeed(undefined)

const parseText = (text: string, limits: Limits): Result.Result<Schema.Json, Reason> =>
  Result.flatMap(checkText(text, limits), () => parseSized(text, limits))

const parseSized = (text: string, limits: Limits): Result.Result<Schema.Json, Reason> =>
  Result.flatMap(scan(text, limits), (nodes) => {
    // Cannot throw: the scanner accepted the whole text.
    const json: Schema.Json = JSON.parse(text)
    const count = countParsed(json)
    if (count === nodes) return Result.succeed(json)
    if (count === -1) return copy(json, limits)
    // Fewer nodes than the text has: a key occurred twice, and one value is gone.
    return Result.map(scan(text, limits, true), () => json)
  })

const parseBytes = (bytes: Uint8Array, limits: Limits): Result.Result<Schema.Json, Reason> =>
  pipe(
    checkBytes(bytes.length, limits),
    Result.flatMap(() =>
      Result.try({
        try: () => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes),
        catch: () => {
          const offset = invalidAt(bytes)
          return new NotJson({
            offset,
            message: `not JSON at offset ${offset}: expected UTF-8, found a byte that cannot stand there. Send the text as UTF-8`
          })
        }
      })
    ),
    Result.flatMap((text) => Result.mapError(parseSized(text, limits), (reason) => inBytes(reason, text)))
  )

/** The offset of a reason counted in bytes. */
const inBytes = (reason: Reason, text: string): Reason => {
  if (reason._tag !== "NotJson") return reason
  const offset = byteLength(text.slice(0, reason.offset))
  return new NotJson({
    offset,
    message: reason.message.replace(`at offset ${reason.offset}`, `at offset ${offset}`)
  })
}

/**
 * The value at a JSON Pointer, of own members only; `""` is the value itself.
 *
 * **When to use**
 *
 * Use to look at the place that an issue of a `PayloadError` or a `ValidationIssue`
 * names.
 *
 * **Example** (Looking up a place)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Option } from "effect"
 * import { Json } from "effect-emissary"
 *
 * const order = { items: [{ "a/b": 1 }] }
 * assert.deepStrictEqual(Json.at(order, "/items/0/a~1b"), Option.some(1))
 * assert.deepStrictEqual(Json.at(order, "/items/1"), Option.none())
 * assert.deepStrictEqual(Json.at(order, "/items/length"), Option.none())
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const at: {
  (pointer: string): (self: Schema.Json) => Option.Option<Schema.Json>
  (self: Schema.Json, pointer: string): Option.Option<Schema.Json>
} = dual(2, (self: Schema.Json, pointer: string): Option.Option<Schema.Json> => {
  let here: Schema.Json | undefined = self
  for (const token of tokens(pointer)) {
    if (typeof here !== "object" || here === null) return Option.none()
    const member = Object.getOwnPropertyDescriptor(here, token)
    // The length of an array is its own, too
    here = member?.enumerable === true ? member.value : undefined
  }
  return Option.fromUndefinedOr(here)
})
