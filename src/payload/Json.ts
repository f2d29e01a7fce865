/**
 * The door for JSON: text and bytes in, plain data out, under limits.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { Limits } from "./Limits.ts"
import type { PayloadError } from "./PayloadError.ts"

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

/**
 * Reads JSON text, or bytes of UTF-8, under limits.
 *
 * @category decoding
 * @since 0.1.0
 */
export const parse = (_input: string | Uint8Array, _options?: Options): Effect.Effect<Schema.Json, PayloadError> =>
  Effect.die("not yet")

/**
 * Checks that a value is plain JSON within the limits, and copies it.
 *
 * @category decoding
 * @since 0.1.0
 */
export const check = (_input: unknown, _options?: Options): Effect.Effect<Schema.Json, PayloadError> =>
  Effect.die("not yet")

/**
 * Like {@link check}, for values that have to be objects.
 *
 * @category decoding
 * @since 0.1.0
 */
export const checkObject = (_input: unknown, _options?: Options): Effect.Effect<JsonObject, PayloadError> =>
  Effect.die("not yet")

/**
 * Writes a value as JSON text after {@link check}.
 *
 * @category encoding
 * @since 0.1.0
 */
export const stringify = (
  _value: unknown,
  _options?: Options & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError> => Effect.die("not yet")

/**
 * Whether a JSON value is an object, neither an array nor `null`.
 *
 * @category guards
 * @since 0.1.0
 */
export const isObject = (json: Schema.Json | undefined): json is JsonObject =>
  typeof json === "object" && json !== null && !Array.isArray(json)
