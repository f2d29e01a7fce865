/** Plans as values: the code behind a plan, and the plan around its code. */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type { Bound, BoundTypeId as BoundId, Plan, TypeId as Id } from "../Plan.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import type { PlanInvalid } from "../PlanInvalid.ts"
import type { PlanProblem } from "../PlanProblem.ts"
import type { BoundPlan, LivePlan, LivePredicate, LiveStep, StepSchema } from "./live.ts"

export const TypeId: Id = "~effect-emissary/plan/Plan"

export const BoundTypeId: BoundId = "~effect-emissary/plan/Plan/Bound"

/** What a plan is made of, before it is checked. */
export interface Parts {
  readonly definition: PlanDefinition
  readonly steps: ReadonlyArray<LiveStep>
  readonly predicates: ReadonlyMap<string, LivePredicate>
  readonly output: StepSchema | undefined
}

/** Positions and digest; then the structural rules (`PlanCheck.structural`), together with problems found before. */
export const checked = (
  parts: Parts,
  problems: ReadonlyArray<PlanProblem> = []
): Effect.Effect<LivePlan, PlanInvalid> => Effect.die([parts, problems])

/** The digest of a definition, whatever it is called. */
export const digestOf = (definition: PlanDefinition): string => definition.name

/** The plan around its code. `R` is for the caller to know. */
export const fromLive = <R>(live: LivePlan): Plan<Schema.Json, R> => ({
  [TypeId]: { _A: (_: never) => _, _R: (_: never) => _ },
  definition: live.definition,
  digest: live.digest,
  live
})

/** The code behind a plan. */
export const liveOf = (plan: Plan<unknown, unknown>): LivePlan => plan.live

/** The code behind a plan that can run. */
export const boundOf = (bound: Bound<unknown, unknown>): BoundPlan => bound.live

/** Whether an agent is a plan that can run. */
export const isBound = (u: unknown): u is Bound<unknown, unknown> => Predicate.hasProperty(u, BoundTypeId)

/** The agent around a plan that can run. `A` and `R` are for the caller to know. */
export const makeBound = <A, R>(bound: BoundPlan): Bound<A, R> => {
  void bound
  return undefined as never
}
