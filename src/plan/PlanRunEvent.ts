/**
 * One durable fact of a plan's run: what a journal stores and a state is made of.
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import type { RunEvent } from "../agent/RunEvent.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { PlanInput } from "./PlanInput.ts"
import type { PlanOutcome, StepFailure } from "./PlanOutcome.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as v1 from "./wire/plan-run-event-v1.ts"
import { data } from "./wire/plan-run-parts-v1.ts"

/**
 * What a finished step leaves: its task and context as they were delivered, and what
 * it gave as JSON (encoded with its output schema).
 *
 * **Details**
 *
 * `usage` is what the step itself reports; what an agent or a plan inside it used
 * counts by its own events, and is told here as well (never added twice).
 *
 * @category models
 * @since 0.1.0
 */
export interface StepRecord {
  readonly step: string
  readonly task: string
  readonly context?: string
  readonly output: Schema.Json
  readonly usage: TokenUsage
  readonly attempts: number
  readonly startedAt: DateTime.Utc
  readonly finishedAt: DateTime.Utc
}

/**
 * The first fact of a run.
 *
 * **Details**
 *
 * `digest` is that of the definition, see `Plan.digest`: a state is only taken up again
 * by the same plan. `depth` is 0, or one more than that of the run it is inside of.
 * `context` is the `RunContext` of everything that runs in the plan.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanStarted {
  readonly _tag: "PlanStarted"
  readonly at: DateTime.Utc
  readonly runId: string
  readonly plan: string
  /** The digest of the definition, see `Plan.digest`. */
  readonly digest: string
  readonly depth: number
  readonly maxIterations: number
  readonly input: PlanInput
  readonly context: JsonObject
}

/**
 * A step begins, the first of its turn counts an iteration.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepStarted {
  readonly _tag: "StepStarted"
  readonly at: DateTime.Utc
  readonly step: string
}

/**
 * A try failed and another one comes after the pause of the retry policy: `attempt` is its
 * number, from 2 on. What ran inside the failed try is left behind. A run that goes on from
 * here begins with that try.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepRetried {
  readonly _tag: "StepRetried"
  readonly at: DateTime.Utc
  readonly step: string
  readonly attempt: number
  readonly failure: StepFailure
}

/**
 * Something happened in the run of the agent in a step. A `RunStarted` begins that run, or
 * another one after it has ended.
 *
 * @category models
 * @since 0.1.0
 */
export interface AgentChanged {
  readonly _tag: "AgentChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: RunEvent
}

/**
 * Something happened in the run of the plan in a step. A `PlanStarted` begins that run, or
 * another one after it has ended.
 *
 * @category models
 * @since 0.1.0
 */
export interface NestedChanged {
  readonly _tag: "NestedChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: PlanRunEvent
}

/**
 * A step gave its output. In a band it counts when all members have finished.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepFinished {
  readonly _tag: "StepFinished"
  readonly at: DateTime.Utc
  readonly record: StepRecord
}

/**
 * A step failed, after its retries. The others of its band go on to their end.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepFailed {
  readonly _tag: "StepFailed"
  readonly at: DateTime.Utc
  readonly step: string
  readonly failure: StepFailure
}

/**
 * The call of a tool that is a step and needs approval.
 *
 * @category models
 * @since 0.1.0
 */
export interface CallRequest {
  readonly name: string
  readonly arguments: Schema.Json
}

/**
 * A step waits.
 *
 * **Details**
 *
 * `reason` when it waits for anybody, `request` when the step is a tool call that needs
 * approval, neither when something inside of its agent or plan waits.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepPaused {
  readonly _tag: "StepPaused"
  readonly at: DateTime.Utc
  readonly step: string
  readonly reason?: string
  readonly request?: CallRequest
}

/**
 * A step ended the plan, and every plan it is inside of, with an answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepConcluded {
  readonly _tag: "StepConcluded"
  readonly at: DateTime.Utc
  readonly step: string
  readonly answer: string
}

/**
 * Where a finished step with routes goes: to a step, or on as if it had no routes (`to`
 * absent).
 *
 * @category models
 * @since 0.1.0
 */
export interface RouteTaken {
  readonly _tag: "RouteTaken"
  readonly at: DateTime.Utc
  readonly step: string
  readonly to?: string
}

/**
 * Somebody decided about a step that paused: a tool call, or a function that waits for
 * anybody. Decisions about calls inside an agent are its `ApprovalDecided`.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepDecided {
  readonly _tag: "StepDecided"
  readonly at: DateTime.Utc
  readonly step: string
  readonly approved: boolean
  readonly reason?: string
}

/**
 * Somebody stopped the run. Nothing starts any more; what runs may still end.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanInterrupted {
  readonly _tag: "PlanInterrupted"
  readonly at: DateTime.Utc
  readonly reason?: string
}

/**
 * The run ended. It can go on after a {@link PlanResumed}, unless it completed.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanFinished {
  readonly _tag: "PlanFinished"
  readonly at: DateTime.Utc
  readonly outcome: PlanOutcome
}

/**
 * Somebody runs it again: what failed, paused or was cut off gets another turn, what
 * finished does not. Without `maxIterations` the limit stays as it was, without `context`
 * the RunContext does.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanResumed {
  readonly _tag: "PlanResumed"
  readonly at: DateTime.Utc
  readonly maxIterations?: number
  readonly context?: JsonObject
}

/**
 * One fact of a plan's run. A run is the list of its facts, and nothing else: see
 * `PlanTransition.fold`.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanRunEvent =
  | PlanStarted
  | StepStarted
  | StepRetried
  | AgentChanged
  | NestedChanged
  | StepFinished
  | StepFailed
  | StepPaused
  | StepConcluded
  | RouteTaken
  | StepDecided
  | PlanInterrupted
  | PlanFinished
  | PlanResumed

/**
 * The codec of one fact: field `version`, native version 1. Its cost does not depend on
 * the run.
 *
 * **Example** (Storing a fact)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { PlanRunEvent } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const event: PlanRunEvent.PlanRunEvent = { _tag: "StepStarted", at: yield* DateTime.now, step: "write" }
 *   const text = yield* PlanRunEvent.codec.encodeJson(event)
 *   return yield* PlanRunEvent.codec.decodeJson(text)
 * })
 *
 * assert.strictEqual(Effect.runSync(program)._tag, "StepStarted")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<PlanRunEvent> = VersionedCodec.make({
  what: "plan run event",
  field: "version",
  type: Schema.toType(v1.Event),
  arms: [v1.one],
  data
})

/**
 * The codec of a list of facts, the durable form of a run.
 *
 * @category codecs
 * @since 0.1.0
 */
export const listCodec: VersionedCodec.VersionedCodec<ReadonlyArray<PlanRunEvent>> = VersionedCodec.make({
  what: "plan run events",
  field: "version",
  type: Schema.Array(Schema.toType(v1.Event)),
  arms: [v1.list],
  data
})

/**
 * Schema of {@link PlanRunEvent}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanRunEvent: Schema.Codec<PlanRunEvent, Schema.Json> = codec.schema
