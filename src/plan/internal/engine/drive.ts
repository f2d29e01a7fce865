/** The loop of a plan: asks what is next, does it, and records what happened. */
import * as Effect from "effect/Effect"
import type { PlanError } from "../../PlanError.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type * as PlanInput from "../../PlanInput.ts"
import type { PlanOptions } from "../../PlanOptions.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import type { BoundPlan } from "../live.ts"

export interface Sink {
  /** Whether somebody wants what agents say while they say it. */
  readonly streaming: boolean
  readonly emit: (event: PlanEvent<unknown>) => Effect.Effect<void>
}

/** Where a run begins: a fresh one, or a state to go on from. */
export type Begin =
  | { readonly _tag: "Start"; readonly input: PlanInput.Input }
  | { readonly _tag: "Resume"; readonly state: PlanRunState; readonly input?: never }

/** Runs a plan from where `begin` says to its result. */
export const drive = (
  bound: BoundPlan,
  begin: Begin,
  options: PlanOptions,
  sink: Sink
): Effect.Effect<PlanResult<unknown>, PlanError> => Effect.die(["to do", bound, begin, options, sink])
