/** The versions of a plan as one codec. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as Json from "../../../payload/Json.ts"
import * as Limits from "../../../payload/Limits.ts"
import * as VersionedCodec from "../../../payload/VersionedCodec.ts"
import { PlanDefinition } from "../../PlanDefinition.ts"
import * as V1 from "../../wire/v1.ts"
import * as V2 from "../../wire/v2.ts"
import * as V3 from "../../wire/v3.ts"
import { type Draft, settle } from "./draft.ts"
import { what } from "./invariants.ts"

const field = "version"

// below these the keys are names of members and values to compare with, not options
const data = ["/output/schema", "/steps/*/input/schema", "/steps/*/output/schema", "/steps/*/routes/*/when"]

/** LazyBridge wrote no version at first, and reads a plan without one. */
const withVersion = (json: Schema.Json): Schema.Json =>
  Json.isObject(json) && !Object.hasOwn(json, field) ? { ...json, [field]: 2 } : json

/** Runs with the limits of a call, so that checks of the arms see them too. */
export const under = <A, E, R>(
  options: VersionedCodec.DecodeOptions | undefined,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  options?.limits === undefined
    ? effect
    : Effect.flatMap(Limits.resolve(options.limits), (limits) => Effect.provideService(effect, Limits.Limits, limits))

/** The same codec, which takes a plan without a version for one of version 2. */
const lenient = <T>(codec: VersionedCodec.VersionedCodec<T>): VersionedCodec.VersionedCodec<T> => ({
  ...codec,
  decode: (input, options) =>
    under(
      options,
      Effect.flatMap(Json.check(input, { what }), (json) => codec.decode(withVersion(json)))
    ),
  decodeJson: (input, options) =>
    under(
      options,
      Effect.flatMap(Json.parse(input, { what }), (json) => codec.decode(withVersion(json)))
    ),
  encode: (value, options) => under(options, codec.encode(value, options)),
  encodeJson: (value, options) => under(options, codec.encodeJson(value, options)),
  schema: Schema.Json.pipe(
    Schema.decodeTo(codec.schema, {
      decode: SchemaGetter.transform(withVersion),
      encode: SchemaGetter.passthrough()
    })
  )
})

const settled = (arm: VersionedCodec.AnyArm<Draft>): VersionedCodec.AnyArm<PlanDefinition> => ({
  version: arm.version,
  read: (json, options) => Effect.map(arm.read(json, options), settle),
  write: arm.write
})

const arms: ReadonlyArray<VersionedCodec.AnyArm<Draft>> = [V1.arm, V2.arm, V3.arm]

/** Definitions as far as they can be told without a registry. */
export const codec: VersionedCodec.VersionedCodec<PlanDefinition> = lenient(
  VersionedCodec.make({ what, field, type: PlanDefinition, arms: arms.map(settled), data })
)

/** Definitions as they are read, for a registry to complete. */
export const drafts: Pick<VersionedCodec.VersionedCodec<Draft>, "decode" | "decodeJson"> = lenient(
  // Sound: a schema is only there for the codec's own `schema`, which is not handed on.
  VersionedCodec.make({ what, field, type: PlanDefinition as Schema.Top as Schema.Schema<Draft>, arms, data })
)
