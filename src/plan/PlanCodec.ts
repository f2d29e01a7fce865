/**
 * Plans as JSON, and back.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type { DecodeOptions, EncodeOptions, VersionedCodec } from "../payload/VersionedCodec.ts"
import * as internal from "./internal/codec/codec.ts"
import * as resolve from "./internal/codec/resolve.ts"
import type { Plan } from "./Plan.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import type { PlanInvalid } from "./PlanInvalid.ts"
import type { PlanRegistry, Services } from "./PlanRegistry.ts"
import type { RegistryIncomplete } from "./RegistryIncomplete.ts"

/**
 * The codec of definitions, without any code.
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec<PlanDefinition> = internal.codec

/**
 * Reads a plan of any version.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = <const Registry extends PlanRegistry = {}>(
  wire: unknown,
  registry?: Registry,
  options?: DecodeOptions
): Effect.Effect<Plan<Schema.Json, Services<Registry>>, PayloadError | PlanInvalid | RegistryIncomplete> =>
  internal.under(
    options,
    Effect.flatMap(internal.drafts.decode(wire), (draft) => resolve.plan<Services<Registry>>(draft, registry ?? {}))
  )

/**
 * Reads a plan of any version from JSON text.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = <const Registry extends PlanRegistry = {}>(
  text: string | Uint8Array,
  registry?: Registry,
  options?: DecodeOptions
): Effect.Effect<Plan<Schema.Json, Services<Registry>>, PayloadError | PlanInvalid | RegistryIncomplete> =>
  internal.under(
    options,
    Effect.flatMap(internal.drafts.decodeJson(text), (draft) => resolve.plan<Services<Registry>>(draft, registry ?? {}))
  )

/**
 * Writes a plan.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  plan: Plan<unknown, unknown>,
  options?: EncodeOptions
): Effect.Effect<JsonObject, PayloadError | LossyEncoding> => internal.codec.encode(plan.definition, options)

/**
 * Writes a plan as JSON text.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  plan: Plan<unknown, unknown>,
  options?: EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError | LossyEncoding> => internal.codec.encodeJson(plan.definition, options)
