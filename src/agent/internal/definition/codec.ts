/** The versions of a definition as one codec. */
import * as Effect from "effect/Effect"
import * as Limits from "../../../payload/Limits.ts"
import * as VersionedCodec from "../../../payload/VersionedCodec.ts"
import type { AgentDefinition } from "../../AgentDefinition.ts"
import * as V1 from "../../wire/v1.ts"
import * as V2 from "../../wire/v2.ts"
import { what } from "./invariants.ts"
import * as Definition from "./schema.ts"

export const codec: VersionedCodec.VersionedCodec<AgentDefinition> = VersionedCodec.make({
  what,
  field: "schema_version",
  type: Definition.AgentDefinition,
  arms: [V1.arm, V2.arm],
  // below these the keys are names of parameters and results, not options
  data: [
    "/structured_output",
    "/tools/*/parameters_schema",
    "/output/schema",
    "/tools/*/parameters",
    "/tools/*/success",
    "/tools/*/failure"
  ]
})

export const version1Losses: ReadonlyArray<string> = [
  "/output/strategy",
  "/tools/*/success",
  "/tools/*/failure",
  "/tools/*/approval",
  "/tools/*/annotations"
]

/** Runs with the limits of a call, so that checks of the arms see them too. */
export const under = <A, E>(
  options: { readonly limits?: Partial<Limits.Limits> | undefined } | undefined,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E> =>
  options?.limits === undefined
    ? effect
    : Effect.flatMap(Limits.resolve(options.limits), (limits) => Effect.provideService(effect, Limits.Limits, limits))
