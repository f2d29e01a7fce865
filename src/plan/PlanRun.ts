/**
 * A run of a plan as data: its input, events, state and result, with codecs. Save a state to resume the run later, in another process if need be.
 *
 * @since 0.1.0
 */

import type * as Results from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Run from "../agent/Run.ts"
import type { TokenUsage } from "../conversation/Message.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as runTransition from "../run/internal/runTransition.ts"

export { PlanRunEvent as Event } from "../run/internal/runEvents.ts"

export { Outcome, type StepFailure, type StepRecord } from "../run/internal/planRunParts.ts"

export { history } from "../run/internal/planTransition.ts"

export { PlanState as State } from "../run/internal/runParts.ts"

const codecOf = <A>(member: string, value: Schema.Codec<A, unknown>) =>
  VersionedCodec.single({ what: `plan run ${member}`, member, value, data: runParts.userData })

/**
 * The state of a run from the events that a `journal` was given, all of them and in their order. `Plan.resume` takes it.
 *
 * **Details**
 *
 * The first event has the steps as far as the state depends on them, so the plan itself is not needed. Fails with
 * `Run.EventError` for events that do not follow each other.
 *
 * **Example** (A journal in memory)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Plan, PlanRun, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function* () {
 *   const plan = yield* Plan.make("shout", [Step.make("shout", { target: ({ task }) => Effect.succeed(`${task}!`) })])
 *   const bound = yield* Plan.bind(plan)
 *   const kept: Array<PlanRun.Event> = []
 *   yield* Plan.run(bound, "Hey", { journal: (events) => Effect.sync(() => void kept.push(...events)) })
 *   return yield* Effect.fromResult(PlanRun.fold(kept))
 * })
 *
 * const { outcome } = await Effect.runPromise(program)
 * assert(outcome?._tag === "Completed" && outcome.output === "Hey!")
 * ```
 *
 * @category transitions
 * @since 0.1.0
 */
export const fold = (events: Iterable<runParts.PlanRunEvent>): Results.Result<runParts.PlanState, Run.EventError> =>
  runTransition.plans.fold(events)

/**
 * The requests that a run waits with: of steps that pause, of tools that are steps, and of agents and plans inside of steps.
 *
 * **Details**
 *
 * The `callId` of the request of a step is the name of the step with its turn, for example `pay:1`, then the count from
 * the second request in one turn on, and in a nested plan the id of its run. `path` holds the steps of the outer plans and
 * the step of the agent, then the ids of enclosing calls.
 *
 * @category getters
 * @since 0.1.0
 */
export const requests = (self: runParts.PlanState): ReadonlyArray<Run.Request> => runTransition.plans.requests(self)

/**
 * The codec of snapshots: version 1, in the field `version`.
 *
 * **When to use**
 *
 * Use it to hand a run to another process as one value. A snapshot is as large as the
 * history, so writing one after every step costs quadratic time: append the events
 * instead, as `Session` does, and write a snapshot now and then.
 *
 * **Gotchas**
 *
 * A snapshot is trusted: it lists what was done and what was approved. Read it from
 * storage that only your program writes to. Encoding fails where the context of the run
 * holds a secret.
 *
 * **Example** (Resuming elsewhere)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Run } from "effect-emissary"
 * import { Plan, PlanRun, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make("cats", [
 *     Step.make("ask", {
 *       target: ({ decision, task }) =>
 *         decision === undefined ? Step.pause("which cats?") : Effect.succeed(`many ${task}`)
 *     })
 *   ])
 *   const bound = yield* Plan.bind(plan)
 *   const paused = yield* Plan.run(bound, "cats")
 *   const kept = yield* PlanRun.stateCodec.encodeJson(paused.state)
 *
 *   // any other process that has the plan
 *   const state = yield* PlanRun.stateCodec.decodeJson(kept)
 *   return yield* Plan.resume(bound, state, { decisions: PlanRun.requests(state).filter(Run.isApprovable).map(Run.approve) })
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert(result.outcome === "Completed" && result.output === "many cats")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const stateCodec: VersionedCodec.VersionedCodec<runParts.PlanState> = codecOf(
  "state",
  runTransition.PlanStateSchema
)

/**
 * The codec of one event: version 1, in the field `version`. Its cost does not depend on
 * the run.
 *
 * **Example** (Storing an event)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { PlanRun } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const event: PlanRun.Event = { _tag: "StepStarted", at: yield* DateTime.now, step: "write" }
 *   const text = yield* PlanRun.eventCodec.encodeJson(event)
 *   return yield* PlanRun.eventCodec.decodeJson(text)
 * })
 *
 * assert.strictEqual(Effect.runSync(program)._tag, "StepStarted")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventCodec: VersionedCodec.VersionedCodec<runParts.PlanRunEvent> = codecOf("event", runParts.PlanRunEvent)

/**
 * The codec of a list of events, the durable form of a run.
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventsCodec: VersionedCodec.VersionedCodec<ReadonlyArray<runParts.PlanRunEvent>> = codecOf(
  "events",
  Schema.Array(runParts.PlanRunEvent)
)

/**
 * The parts of every {@link Result}.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResultBase {
  readonly state: runParts.PlanState
  readonly usage: TokenUsage
  readonly iterations: number
  readonly writes: ReadonlyMap<string, Schema.Json>
}

/**
 * The result of a run, discriminated by `outcome`.
 *
 * **Details**
 *
 * - `Completed`: the last step answered. `output` is decoded with the plan's output schema
 *   (without one it is the payload), `payload` the same as JSON, `text` as words. A plan
 *   without steps returns its input.
 * - `Concluded`: a step ended the plan, and all plans around it, with an answer.
 * - `Paused`: steps wait for decisions about the `requests`.
 * - `Interrupted`: the run was stopped, by `interruptWhen` (its reason) or by
 *   `timeouts.total` (`"timeout"`).
 *
 * Every result has the `state` to resume from, the `usage` of all steps and everything inside
 * them, the `iterations` (turns so far, a parallel group counts as one) and the `writes` of the steps.
 *
 * @category models
 * @since 0.1.0
 */
export type Result<A> =
  | (ResultBase & {
      readonly outcome: "Completed"
      readonly output: A
      readonly payload: Schema.Json
      readonly text: string
    })
  | (ResultBase & { readonly outcome: "Concluded"; readonly answer: string })
  | (ResultBase & {
      readonly outcome: "Paused"
      readonly requests: ReadonlyArray<Run.Request>
    })
  | (ResultBase & { readonly outcome: "Interrupted"; readonly reason: string | undefined })
