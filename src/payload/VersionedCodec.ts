/**
 * Codecs for data that lives longer than the code: a chain of frozen versions.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as Decode from "./Decode.ts"
import type * as Json from "./Json.ts"
import type { Limits } from "./Limits.ts"
import type { Loss, LossyEncoding } from "./LossyEncoding.ts"
import type { PayloadError, Reason } from "./PayloadError.ts"

/**
 * A value written in some version, and what that version could not hold.
 *
 * @category models
 * @since 0.1.0
 */
export interface Written<out W> {
  readonly wire: W
  readonly losses: ReadonlyArray<Loss>
}

/**
 * One frozen version, its wire type forgotten.
 *
 * @category models
 * @since 0.1.0
 */
export interface AnyArm<in out T> {
  readonly version: number
  readonly read: (json: Schema.Json, options: Decode.Options) => Effect.Effect<T, PayloadError>
  readonly write: (value: T, options: Decode.Options) => Effect.Effect<Written<Schema.Json>, PayloadError>
}

/**
 * One frozen version.
 *
 * @category models
 * @since 0.1.0
 */
export interface Arm<in out T, in out W> extends AnyArm<T> {
  readonly upgrade: (wire: W) => Effect.Effect<T, Reason | PayloadError>
}

/**
 * What is said about one version.
 *
 * @category models
 * @since 0.1.0
 */
export interface ArmOptions<T, W> {
  readonly version: number
  /** Schema of exactly this version, the version field included. */
  readonly wire: Schema.Codec<W, unknown>
  /** Keys the wire schema does not declare: `"error"` (default) or `"ignore"`. */
  readonly onExcessProperty?: "error" | "ignore" | undefined
  readonly fromCurrent: (current: T) => Effect.Effect<Written<W>, Reason | PayloadError>
}

/**
 * Makes the arm of one version, either the last step (`toCurrent`) or a step to
 * the next newer arm (`next` and `migrate`).
 *
 * @category constructors
 * @since 0.1.0
 */
export const arm: {
  <T, W>(
    options: ArmOptions<T, W> & { readonly toCurrent: (wire: W) => Effect.Effect<T, Reason | PayloadError> }
  ): Arm<T, W>
  <T, W, W2>(
    options: ArmOptions<T, W> & {
      readonly next: Arm<T, W2>
      readonly migrate: (wire: W) => Effect.Effect<W2, Reason | PayloadError>
    }
  ): Arm<T, W>
} = <T, W>(): Arm<T, W> => {
  throw new Error("not yet")
}

/**
 * A version that holds everything of the value.
 *
 * @category constructors
 * @since 0.1.0
 */
export const lossless = <W>(wire: W): Effect.Effect<Written<W>> => Effect.succeed({ wire, losses: [] })

/**
 * A version that cannot hold some of the value. An empty list of losses is
 * {@link lossless}.
 *
 * @category constructors
 * @since 0.1.0
 */
export const lossy = <W>(wire: W, losses: ReadonlyArray<Loss>): Effect.Effect<Written<W>> =>
  Effect.succeed({ wire, losses })

/**
 * Options of decoding.
 *
 * @category models
 * @since 0.1.0
 */
export interface DecodeOptions {
  readonly limits?: Partial<Limits> | undefined
}

/**
 * Options of encoding.
 *
 * @category models
 * @since 0.1.0
 */
export interface EncodeOptions {
  /** The version to write; default the newest. */
  readonly version?: number | undefined
  /**
   * What may be lost: paths (a token `*` is any one token) or entries of
   * `LossyEncoding.losses`.
   */
  readonly allowLoss?: ReadonlyArray<string | Loss> | undefined
  readonly limits?: Partial<Limits> | undefined
}

/**
 * A codec that reads every version and writes the chosen one.
 *
 * @category models
 * @since 0.1.0
 */
export interface VersionedCodec<in out T> {
  readonly what: string
  readonly field: string
  readonly versions: ReadonlyArray<number>
  readonly current: number
  readonly decode: (input: unknown, options?: DecodeOptions) => Effect.Effect<T, PayloadError>
  readonly decodeJson: (input: string | Uint8Array, options?: DecodeOptions) => Effect.Effect<T, PayloadError>
  readonly encode: (value: T, options?: EncodeOptions) => Effect.Effect<Json.JsonObject, PayloadError | LossyEncoding>
  readonly encodeJson: (
    value: T,
    options?: EncodeOptions & { readonly indent?: number | undefined }
  ) => Effect.Effect<string, PayloadError | LossyEncoding>
  /** The codec as a Schema, for embedding in other schemas: reads every version, writes the newest. */
  readonly schema: Schema.Codec<T, Schema.Json>
}

/**
 * Builds a codec from arms.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <T>(_options: {
  /** What is read and written, for messages. */
  readonly what: string
  /** The field that holds the version, e.g. `"version"`. */
  readonly field: string
  /** Schema of the value in memory (its type side is used). */
  readonly type: Schema.Schema<T>
  readonly arms: ReadonlyArray<AnyArm<T>>
  /** Places whose keys are data, see `SecretKeys.Options`. */
  readonly data?: ReadonlyArray<string> | undefined
}): VersionedCodec<T> => {
  throw new Error("not yet")
}
