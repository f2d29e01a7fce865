/** Plans as they are written. */
import * as Effect from "effect/Effect"
import type { Plan } from "../Plan.ts"
import type { PlanInvalid } from "../PlanInvalid.ts"

/** Makes a plan of its steps. */
export const make = (...args: ReadonlyArray<unknown>): Effect.Effect<Plan<never, never>, PlanInvalid> =>
  Effect.die(args)
