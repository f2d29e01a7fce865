/**
 * Schemas at the door: decoding and encoding with errors that name every
 * place.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Json from "./Json.ts"
import type { PayloadError } from "./PayloadError.ts"

/**
 * Options of decoding with a schema.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options extends Json.Options {
  /** Keys that the schema does not declare: `"error"` (default) or `"ignore"`. */
  readonly onExcessProperty?: "error" | "ignore" | undefined
  /** Where the value stands in the whole document: a JSON Pointer put before every path. */
  readonly path?: string | undefined
}

/**
 * Decodes a value that already went through `Json.parse` or `Json.check`.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode =
  <T, RD = never>(_codec: Schema.Decoder<T, RD>, _options?: Options) =>
  (_json: unknown): Effect.Effect<T, PayloadError, RD> =>
    Effect.die("not yet")

/**
 * Checks an unknown value with `Json.check`, then decodes it.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeUnknown =
  <T, RD = never>(_codec: Schema.Decoder<T, RD>, _options?: Options) =>
  (_input: unknown): Effect.Effect<T, PayloadError, RD> =>
    Effect.die("not yet")

/**
 * Parses JSON text or bytes with `Json.parse`, then decodes the value.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson =
  <T, RD = never>(_codec: Schema.Decoder<T, RD>, _options?: Options) =>
  (_input: string | Uint8Array): Effect.Effect<T, PayloadError, RD> =>
    Effect.die("not yet")

/**
 * Encodes a value with a schema and checks the outcome with `Json.check`.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode =
  <T, RE = never>(_codec: Schema.Codec<T, unknown, unknown, RE>, _options?: Options) =>
  (_value: T): Effect.Effect<Schema.Json, PayloadError, RE> =>
    Effect.die("not yet")
