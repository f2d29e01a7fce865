/** What the names in a plan stand for. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { PayloadError } from "../../../payload/PayloadError.ts"
import type { DecodeOptions } from "../../../payload/VersionedCodec.ts"
import type { Plan } from "../../Plan.ts"
import type { PlanInvalid } from "../../PlanInvalid.ts"
import type { PlanRegistry } from "../../PlanRegistry.ts"
import type { RegistryIncomplete } from "../../RegistryIncomplete.ts"
import type { Draft } from "./draft.ts"

export const plan = <R>(
  draft: Draft,
  registry: PlanRegistry,
  options: DecodeOptions | undefined
): Effect.Effect<Plan<Schema.Json, R>, PayloadError | PlanInvalid | RegistryIncomplete> =>
  Effect.die([draft, registry, options])
