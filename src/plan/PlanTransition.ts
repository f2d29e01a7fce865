/**
 * The pure core of a plan's run: which facts may follow a state, and what comes next.
 *
 * **When to use**
 *
 * Plans use it for you. Use it directly to write a driver of your own, or to read a
 * journal: {@link fold} makes the state of a run from its facts. A driver asks
 * {@link next}, does it, and applies what happened; where cursors, bands, branches and
 * counters go is decided here alone, so that every driver runs a plan the same way.
 *
 * **Details**
 *
 * The first rule of this table that fits a state gives its next action.
 *
 * | state | next |
 * |---|---|
 * | has an outcome | `Finish` with it |
 * | interrupted | `Finish`: `Interrupted` |
 * | a turn with steps that wait or run | `RunSteps`: these |
 * | a turn that ended, a step of it concluded | `Finish`: `Concluded`, by the first declared one |
 * | a turn that ended, a step of it paused | `Finish`: `Paused`, with all that waits |
 * | a turn that ended, a step of it failed | `Finish`: `Failed`, by the first declared one |
 * | a step with routes has finished | `ChooseRoute` |
 * | no step is left | `Finish`: `Completed` with the output of the last one, or the input |
 * | all iterations are used up | `Finish`: `LimitReached` |
 * | otherwise | `RunSteps`: the step at the cursor, or its band from there on |
 *
 * | fact | effect | comes only |
 * |---|---|---|
 * | `PlanStarted` | makes the state; the cursor is the first step | first |
 * | `StepStarted` | `Waiting` to `Running`; the first of a turn counts an iteration | when `next` is to run it, or in its turn |
 * | `StepRetried` | counts the next try and drops what ran inside the failed one | while it runs |
 * | `AgentChanged`, `NestedChanged` | applied to the state of the agent or plan in the step; its usage is added | while it runs; decisions also when it waits, failed or paused |
 * | `StepFinished` | keeps the record; the last of its turn puts all of them into the history, in declared order, and moves the cursor | while it runs |
 * | `StepFailed`, `StepPaused`, `StepConcluded` | the step has ended, and keeps what ran inside | while it runs |
 * | `RouteTaken` | moves the cursor, and enters or leaves branches | when `next` is to choose it |
 * | `StepDecided` | notes the decision | when the step paused for one |
 * | `PlanInterrupted` | nothing starts any more | |
 * | `PlanFinished` | sets the outcome | when `next` is that outcome; `Failed` also for a route that cannot be chosen and for a last output that does not fit the plan's |
 * | `PlanResumed` | clears outcome and interruption; steps of the turn that have no result wait again, with what ran inside and the number of a try that was cut off | unless it completed or concluded |
 *
 * After the end, decisions and `PlanResumed` can come; while it is interrupted,
 * everything but starts. A driver that takes up a state, after a crash too, applies
 * decisions and then `PlanResumed` before it asks.
 *
 * Branches: a route of a step with `afterBranches` enters a branch. A step in it that
 * ends without a route goes where the branch rejoins, instead of to the next declared
 * step. A route to where a branch rejoins leaves that branch and those entered inside of
 * it; a route to its router or before leaves it, too. Taking a branch again replaces it,
 * so that there are never more of them than steps with routes.
 *
 * Applying a fact costs the same however long the run is.
 *
 * **Example** (A driver that does everything itself)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { type PlanDefinition, PlanTransition } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const step = (name: string): PlanDefinition.StepDefinition => ({
 *   name,
 *   target: { kind: "function", name },
 *   task: { _tag: "FromPrev" },
 *   parallel: false
 * })
 * const rules = PlanTransition.rules({ name: "report", maxIterations: 10, steps: [step("read"), step("write")] })
 *
 * const program = Effect.gen(function*() {
 *   const at = yield* DateTime.now
 *   let state = PlanTransition.start(rules, {
 *     _tag: "PlanStarted",
 *     at,
 *     runId: "run_1",
 *     plan: "report",
 *     digest: "sha256:0",
 *     depth: 0,
 *     maxIterations: 10,
 *     input: { task: "cats", payload: "cats" },
 *     context: {}
 *   })
 *   for (;;) {
 *     const action = PlanTransition.next(rules, state)
 *     if (action._tag !== "RunSteps") return action
 *     const [name] = action.steps
 *     const record = { step: name, task: "", output: `${name} it`, usage: {}, attempts: 1, startedAt: at, finishedAt: at }
 *     state = yield* Effect.fromResult(
 *       PlanTransition.applyAll(rules, state, [
 *         { _tag: "StepStarted", at, step: name },
 *         { _tag: "StepFinished", at, record }
 *       ])
 *     )
 *   }
 * })
 *
 * assert.deepStrictEqual(Effect.runSync(program), {
 *   _tag: "Finish",
 *   outcome: { _tag: "Completed", output: "write it" }
 * })
 * ```
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import type { Decision } from "../agent/RunTransition.ts"
import { notStarted } from "./internal/transition/applied.ts"
import * as applying from "./internal/transition/apply.ts"
import * as deciding from "./internal/transition/decide.ts"
import * as choosing from "./internal/transition/next.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import { type InvalidDecision, PlanChanged } from "./PlanError.ts"
import { PlanRunEventError } from "./PlanRunEventError.ts"
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
): Result.Result<PlanRunState, PlanRunEventError> => applying.apply(rules, self, event)

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
): Result.Result<PlanRunState, PlanRunEventError> => foldFrom(rules, self, events)

/**
 * The state of a run from the list of its facts, which begins with `PlanStarted`.
 *
 * @category transitions
 * @since 0.1.0
 */
export const fold = (rules: Rules, events: Iterable<PlanRunEvent>): Result.Result<PlanRunState, PlanRunEventError> =>
  foldFrom(rules, undefined, events)

const foldFrom = (
  rules: Rules,
  self: PlanRunState | undefined,
  events: Iterable<PlanRunEvent>
): Result.Result<PlanRunState, PlanRunEventError> => {
  let state = self
  let index = 0
  for (const event of events) {
    const applied = state === undefined ? applying.first(rules, event) : applying.apply(rules, state, event)
    if (Result.isFailure(applied)) {
      const { event, path, reason } = applied.failure
      return Result.fail(new PlanRunEventError({ event, path, reason, index }))
    }
    state = applied.success
    index += 1
  }
  return state === undefined ? Result.fail(notStarted("no event")) : Result.succeed(state)
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
 * **Details**
 *
 * `path` is that of the request or the pause; it can be left out, unless several that
 * wait have the same id. Each can be decided about once. Fails with `InvalidDecision`,
 * which lists what waits.
 *
 * **Gotchas**
 *
 * A decision allows or denies one try. When a step that was approved fails and runs
 * again in a resumed run, it asks again.
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
