/**
 * A run of a plan as data: its input, events, state and result, with codecs. Save a state to resume the run later, in another process if need be.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import type * as Run from "../agent/Run.ts"
import type { TokenUsage } from "../conversation/Message.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import type * as planRunParts from "../run/internal/planRunParts.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as planTransition from "./internal/planTransition.ts"

export { PlanRunEvent as Event } from "../run/internal/runParts.ts"

export { Outcome, type StepFailure, type StepRecord } from "../run/internal/planRunParts.ts"

export { approvalRequests, EventError, history, pauses, State } from "./internal/planTransition.ts"

const codecOf = <A>(member: string, value: Schema.Codec<A, unknown>) =>
  VersionedCodec.single({ what: `plan run ${member}`, member, value, data: runParts.userData })

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
 * import { Plan, PlanRun, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make(
 *     Step.make("ask", {
 *       target: ({ decision, task }) =>
 *         decision === undefined ? Step.pause("which cats?") : Effect.succeed(`many ${task}`)
 *     })
 *   )
 *   const bound = yield* Plan.bind(plan)
 *   const paused = yield* Plan.run(bound, "cats")
 *   const kept = yield* PlanRun.stateCodec.encodeJson(paused.state)
 *
 *   // any other process that has the plan
 *   const state = yield* PlanRun.stateCodec.decodeJson(kept)
 *   return yield* Plan.resume(bound, state, {
 *     decisions: PlanRun.pauses(state).map((pause) => ({ ...pause, approved: true }))
 *   })
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert(result.outcome === "Completed" && result.output === "many cats")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const stateCodec: VersionedCodec.VersionedCodec<planTransition.State> = codecOf(
  "state",
  planTransition.StateWire
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
  readonly state: planTransition.State
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
 * - `Paused`: steps wait, `pauses` for a resume and `requests` for decisions about calls.
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
      readonly pauses: ReadonlyArray<typeof planRunParts.PauseRequest.Type>
      readonly requests: ReadonlyArray<Run.ApprovalRequest>
    })
  | (ResultBase & { readonly outcome: "Interrupted"; readonly reason: string | undefined })
