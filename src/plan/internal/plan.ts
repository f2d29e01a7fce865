/** Plans as values: the code behind a plan, and the plan around its code. */
import * as Effect from "effect/Effect"
import * as Inspectable from "effect/Inspectable"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Digest from "../../payload/Digest.ts"
import type { PayloadError } from "../../payload/PayloadError.ts"
import type { Bound, BoundTypeId as BoundId, Plan, TypeId as Id } from "../Plan.ts"
import * as PlanCheck from "../PlanCheck.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import { PlanInvalid } from "../PlanInvalid.ts"
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

/** The digest of a definition, whatever it is called. It depends on nothing but the data, so it travels. */
export const digestOf = ({ description: _description, name: _name, ...rest }: PlanDefinition) =>
  // Sound: a definition is JSON but for numbers and texts that code can make up, which the digest refuses.
  Digest.sha256(rest as object as Schema.Json)

const notJson = (error: PayloadError): PlanProblem => ({
  code: "NotJson",
  reason: `The definition has something that is no JSON: ${error.message}. Use finite numbers and well-formed text.`
})

/** Fails with all problems of a plan, if there are any. */
export const refuse = (plan: string, problems: ReadonlyArray<PlanProblem>): Effect.Effect<void, PlanInvalid> => {
  const [first, ...rest] = problems
  return first === undefined ? Effect.void : Effect.fail(new PlanInvalid({ plan, problems: [first, ...rest] }))
}

/** Problems in the order of the steps, those of the plan itself first. The order within a step is kept. */
const inOrder = (problems: ReadonlyArray<PlanProblem>): ReadonlyArray<PlanProblem> =>
  problems.toSorted((a, b) => (a.index ?? -1) - (b.index ?? -1))

/** Positions and digest; then the structural rules, together with problems that were found before. */
export const checked = Effect.fnUntraced(function* (
  parts: Parts,
  found: ReadonlyArray<PlanProblem> = []
): Effect.fn.Return<LivePlan, PlanInvalid> {
  const { definition } = parts
  const digest = yield* Effect.result(digestOf(definition))
  const others = inOrder([...PlanCheck.structural(definition), ...found])
  // a number that is none is told by whoever knows what it is for, if anybody does
  const problems = Result.isFailure(digest) && others.length === 0 ? [notJson(digest.failure)] : others
  yield* refuse(definition.name, problems)
  return {
    ...parts,
    digest: Result.getOrElse(digest, () => ""),
    positions: new Map(parts.steps.map((step, index) => [step.definition.name, index]))
  }
})

/** How a plan looks in logs: its code and what it is bound with are nobody's business there. */
export const inspecting = (_id: "Plan" | "Plan.Bound", { definition, digest }: LivePlan): Inspectable.Inspectable => ({
  ...Inspectable.BaseProto,
  toJSON: () => ({ _id, name: definition.name, digest, steps: definition.steps.map(({ name }) => name) })
})

/** The plan around its code. `A` and `R` are for the caller to know. */
export const fromLive = <R, A = Schema.Json>(live: LivePlan): Plan<A, R> => ({
  [TypeId]: { _A: (_: never) => _, _R: (_: never) => _ },
  ...inspecting("Plan", live),
  definition: live.definition,
  digest: live.digest,
  live
})

/** The code behind a plan. */
export const liveOf = (plan: Plan<unknown, unknown>): LivePlan => plan.live

/** The code behind a plan that can run. */
export const boundOf = (bound: Bound<unknown, unknown>): BoundPlan => bound.live

/** Whether something is a plan. */
export const isPlan = (u: unknown): u is Plan<unknown, unknown> => Predicate.hasProperty(u, TypeId)

/** Whether an agent is a plan that can run. */
export const isBound = (u: unknown): u is Bound<unknown, unknown> => Predicate.hasProperty(u, BoundTypeId)
