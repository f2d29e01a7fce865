/**
 * The pure core of a plan's run: which facts may follow a state, and what comes next.
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import type { Decision } from "../agent/RunTransition.ts"
import * as applying from "./internal/transition/apply.ts"
import * as deciding from "./internal/transition/decide.ts"
import * as choosing from "./internal/transition/next.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import { type InvalidDecision, PlanChanged } from "./PlanError.ts"
import { PlanEventError } from "./PlanEventError.ts"
import type { PlanOutcome } from "./PlanOutcome.ts"
import type { PlanRunEvent, PlanStarted } from "./PlanRunEvent.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * What a run follows: a definition, and the rules of the plans that are steps of it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Rules {
  readonly definition: PlanDefinition
  /** The rules of the plan that runs in a step, if one does. */
  readonly nested: (step: string) => Rules | undefined
}

/**
 * The rules of a plan. Without `nested` no step of it is a plan.
 *
 * @category constructors
 * @since 0.1.0
 */
export const rules = (definition: PlanDefinition, nested?: ReadonlyMap<string, Rules>): Rules => ({
  definition,
  nested: (step) => nested?.get(step)
})

/**
 * What a driver does next.
 *
 * **Details**
 *
 * - `RunSteps`: run these steps at the same time (those of the turn that are not done).
 * - `ChooseRoute`: see where the step that has just finished goes.
 * - `Finish`: record this outcome, unless the state has it already, and stop.
 *
 * @category models
 * @since 0.1.0
 */
export type Action =
  | { readonly _tag: "RunSteps"; readonly steps: readonly [string, ...Array<string>] }
  | { readonly _tag: "ChooseRoute"; readonly step: string }
  | { readonly _tag: "Finish"; readonly outcome: PlanOutcome }

/**
 * The state after the first fact.
 *
 * @category transitions
 * @since 0.1.0
 */
export const start = (rules: Rules, event: PlanStarted): PlanRunState => applying.start(rules, event)

/**
 * The state after one more fact.
 *
 * @category transitions
 * @since 0.1.0
 */
export const apply = (
  rules: Rules,
  self: PlanRunState,
  event: PlanRunEvent
): Result.Result<PlanRunState, PlanEventError> => applying.apply(rules, self, event)

/**
 * The state after some more facts. The first that does not fit fails, with its place in
 * the list.
 *
 * @category transitions
 * @since 0.1.0
 */
export const applyAll = (
  rules: Rules,
  self: PlanRunState,
  events: Iterable<PlanRunEvent>
): Result.Result<PlanRunState, PlanEventError> => foldFrom(rules, self, events)

/**
 * The state of a run from the list of its facts, which begins with `PlanStarted`.
 *
 * @category transitions
 * @since 0.1.0
 */
export const fold = (rules: Rules, events: Iterable<PlanRunEvent>): Result.Result<PlanRunState, PlanEventError> =>
  foldFrom(rules, undefined, events)

const foldFrom = (
  rules: Rules,
  self: PlanRunState | undefined,
  events: Iterable<PlanRunEvent>
): Result.Result<PlanRunState, PlanEventError> => {
  let state = self
  let index = 0
  for (const event of events) {
    const applied = state === undefined ? applying.first(rules, event) : applying.apply(rules, state, event)
    if (Result.isFailure(applied)) {
      const { event, path, reason } = applied.failure
      return Result.fail(new PlanEventError({ event, path, reason, index }))
    }
    state = applied.success
    index += 1
  }
  return state === undefined ? Result.fail(applying.notStarted("no event")) : Result.succeed(state)
}

/**
 * What a driver has to do next. Ask when nothing of the run is under way.
 *
 * @category transitions
 * @since 0.1.0
 */
export const next = (rules: Rules, self: PlanRunState): Action => choosing.next(rules, self)

/**
 * The facts that record decisions about what waits: calls, and steps that wait for
 * anybody (`callId` is the step). They go before `PlanResumed`.
 *
 * @category transitions
 * @since 0.1.0
 */
export const decide = (
  self: PlanRunState,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<PlanRunEvent>, InvalidDecision> => deciding.decide(self, decisions, at)

/**
 * Refuses a state that another definition made. `digest` is that of the definition at
 * hand.
 *
 * @category transitions
 * @since 0.1.0
 */
export const checkDigest = (self: PlanRunState, digest: string): Result.Result<PlanRunState, PlanChanged> =>
  self.digest === digest ? Result.succeed(self) : Result.fail(new PlanChanged({ expected: self.digest, found: digest }))
