/**
 * What happened in a run, one small value per fact.
 *
 * The list of its events is the durable form of a run: appending one costs the same
 * however long the run is, and folding them gives the `RunState`. Everything that is
 * not pure stands in the events (times, ids, what the model and the tools said), so
 * the fold is deterministic and needs no service.
 *
 * `RunTransition` says which event may follow which state.
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import type { Report } from "../conversation/Budget.ts"
import type * as Conversation from "../conversation/Conversation.ts"
import type * as Message from "../conversation/Message.ts"
import type * as TokenUsage from "../conversation/TokenUsage.ts"
import type { JsonObject } from "../payload/Json.ts"
import { ValidationIssue } from "../payload/ValidationIssue.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import type * as Outcome from "./Outcome.ts"
import * as v1 from "./wire/run-event-v1.ts"
import { data } from "./wire/run-parts-v1.ts"

/**
 * How many model calls one user message may cost.
 *
 * @category models
 * @since 0.1.0
 */
export type MaxSteps = number | "unlimited"

/**
 * Schema of {@link MaxSteps}: an integer from 1, or `"unlimited"`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const MaxSteps: Schema.Codec<MaxSteps> = Schema.Union([
  Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  Schema.Literal("unlimited")
])

/**
 * When a model call asks for structured output with `generateObject`: never, once
 * after an answer that was not valid, or in every step.
 *
 * @category models
 * @since 0.1.0
 */
export const StructuredSteps = Schema.Literals(["never", "fallback", "always"])

/**
 * @category models
 * @since 0.1.0
 */
export type StructuredSteps = typeof StructuredSteps.Type

/**
 * What a model call is for: an answer, which may use tools, or the output alone.
 *
 * @category models
 * @since 0.1.0
 */
export const Purpose = Schema.Literals(["answer", "structured"])

/**
 * @category models
 * @since 0.1.0
 */
export type Purpose = typeof Purpose.Type

/**
 * Whether an answer holds output that fits the agent's output schema.
 *
 * @category models
 * @since 0.1.0
 */
export const OutputCheck = Schema.TaggedUnion({
  Valid: { value: Schema.Json },
  Invalid: { issues: Schema.Array(ValidationIssue) }
})

/**
 * @category models
 * @since 0.1.0
 */
export type OutputCheck = typeof OutputCheck.Type

/**
 * The run began. Always the first event, and only the first.
 *
 * **Details**
 *
 * `definition` is the digest of the agent's definition. `conversation` is what the
 * run starts from, instructions included and the new user message not (that is an
 * {@link InputAdded}); it may end in open calls. `depth` is 0 for a run that a
 * program started, and one more than its parent's for an agent that is a tool.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunStarted {
  readonly _tag: "RunStarted"
  readonly at: DateTime.Utc
  readonly runId: string
  readonly agent: string
  readonly definition: string
  readonly depth: number
  readonly maxSteps: MaxSteps
  readonly structured: StructuredSteps
  readonly context: JsonObject
  readonly conversation: Conversation.Conversation
}

/**
 * The user said something: a fresh budget of steps.
 *
 * **Details**
 *
 * While calls are open the message waits: it enters the conversation together with
 * the result of the last of them.
 *
 * @category models
 * @since 0.1.0
 */
export interface InputAdded {
  readonly _tag: "InputAdded"
  readonly at: DateTime.Utc
  readonly message: Message.UserMessage
  readonly maxSteps: MaxSteps
}

/**
 * The conversation had become too long for the agent's `BudgetPolicy`: from here on
 * models are sent the view, and what comes after it.
 *
 * **Details**
 *
 * The conversation of the run stays whole. Events hold the view, because it may hold a
 * summary, which nobody could make again; there is one such event for many steps.
 *
 * @category models
 * @since 0.1.0
 */
export interface ConversationFitted {
  readonly _tag: "ConversationFitted"
  readonly at: DateTime.Utc
  readonly view: Conversation.Conversation
  readonly report: Report
}

/**
 * A model call is about to be made. `step` counts from 1 for each user message.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepStarted {
  readonly _tag: "StepStarted"
  readonly at: DateTime.Utc
  readonly step: number
  readonly purpose: Purpose
}

/**
 * The model answered: the whole message, with usage and finish reason, call ids
 * already unique in the conversation.
 *
 * **Details**
 *
 * `output` is present when the agent has an output schema and this answer was read
 * as its output. `outputCall` is the id of the call that carried it, when the output
 * comes as a call of a synthetic tool.
 *
 * @category models
 * @since 0.1.0
 */
export interface ModelAnswered {
  readonly _tag: "ModelAnswered"
  readonly at: DateTime.Utc
  readonly message: Message.AssistantMessage
  readonly output?: OutputCheck
  readonly outputCall?: string
}

/**
 * The model said something that the provider's adapter could not take: an invented
 * tool, malformed arguments. Nothing of it is stored; `problem` is what the model
 * is told when it is asked again.
 *
 * @category models
 * @since 0.1.0
 */
export interface ModelMistaken {
  readonly _tag: "ModelMistaken"
  readonly at: DateTime.Utc
  readonly problem: string
  readonly usage?: TokenUsage.TokenUsage
}

/**
 * Something that answers in place of a model, a plan for example, came further in the
 * step that is under way.
 *
 * **Details**
 *
 * `facts` is what is new, as JSON that means something only to what answers: all facts
 * of a step in order are its state. `requests` are what it waits for now; decisions that
 * were made before are part of the facts from here on. `limited` says that its budget is
 * used up. `usage` is what was used since the event before.
 *
 * @category models
 * @since 0.1.0
 */
export interface ProgressSaved {
  readonly _tag: "ProgressSaved"
  readonly at: DateTime.Utc
  readonly facts: ReadonlyArray<Schema.Json>
  readonly requests: ReadonlyArray<Outcome.ApprovalRequest>
  readonly limited: boolean
  readonly usage?: TokenUsage.TokenUsage
}

/**
 * A call needs somebody's decision before it may run.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalRequested {
  readonly _tag: "ApprovalRequested"
  readonly at: DateTime.Utc
  readonly callId: string
}

/**
 * Somebody decided about a call.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalDecided {
  readonly _tag: "ApprovalDecided"
  readonly at: DateTime.Utc
  readonly callId: string
  readonly approved: boolean
  readonly reason?: string
}

/**
 * A call is about to run. From here on it never starts again.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolStarted {
  readonly _tag: "ToolStarted"
  readonly at: DateTime.Utc
  readonly callId: string
}

/**
 * A call has its result.
 *
 * **Details**
 *
 * `durationMillis` is how long the tool took; absent for a result that nothing was
 * run for. `cause` is the rendered cause of a defect, for people who look into it;
 * it is never sent anywhere.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolFinished {
  readonly _tag: "ToolFinished"
  readonly at: DateTime.Utc
  readonly message: Message.ToolMessage
  readonly durationMillis?: number
  readonly cause?: string
}

/**
 * Something happened in the run of an agent that is a tool of this one.
 *
 * @category models
 * @since 0.1.0
 */
export interface ChildEvent {
  readonly _tag: "ChildEvent"
  readonly at: DateTime.Utc
  readonly callId: string
  readonly event: RunEvent
}

/**
 * Somebody stopped the run. Calls that had started still get their results.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunInterrupted {
  readonly _tag: "RunInterrupted"
  readonly at: DateTime.Utc
  readonly reason?: string
}

/**
 * The run ended. It can go on after a {@link RunResumed}.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunFinished {
  readonly _tag: "RunFinished"
  readonly at: DateTime.Utc
  readonly outcome: Outcome.Outcome
}

/**
 * Somebody runs it again. Without `maxSteps` the budget stays as it was, without
 * `context` the RunContext does.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunResumed {
  readonly _tag: "RunResumed"
  readonly at: DateTime.Utc
  readonly maxSteps?: MaxSteps
  readonly context?: JsonObject
}

/**
 * One fact of a run.
 *
 * @category models
 * @since 0.1.0
 */
export type RunEvent =
  | RunStarted
  | InputAdded
  | ConversationFitted
  | StepStarted
  | ModelAnswered
  | ModelMistaken
  | ProgressSaved
  | ApprovalRequested
  | ApprovalDecided
  | ToolStarted
  | ToolFinished
  | ChildEvent
  | RunInterrupted
  | RunFinished
  | RunResumed

/**
 * The tokens that were used by what this event tells: by the run itself, or by a run
 * inside it. The usage of a run is the sum over its events.
 *
 * @category getters
 * @since 0.1.0
 */
export const usageOf = (self: RunEvent): TokenUsage.TokenUsage | undefined => {
  switch (self._tag) {
    case "ModelAnswered":
      return self.message.usage
    case "ModelMistaken":
    case "ProgressSaved":
      return self.usage
    case "ChildEvent":
      return usageOf(self.event)
    default:
      return undefined
  }
}

/**
 * The codec of one event: field `version`, native version 1. Its cost does not depend
 * on the run, except for the conversation a run starts from.
 *
 * **Example** (Storing an event)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { RunEvent } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const event: RunEvent.RunEvent = { _tag: "ToolStarted", at: yield* DateTime.now, callId: "call_1" }
 *   const text = yield* RunEvent.codec.encodeJson(event)
 *   return yield* RunEvent.codec.decodeJson(text)
 * })
 *
 * assert.strictEqual(Effect.runSync(program)._tag, "ToolStarted")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<RunEvent> = VersionedCodec.make({
  what: "run event",
  field: "version",
  type: Schema.toType(v1.Event),
  arms: [v1.one],
  data
})

/**
 * The codec of a list of events, the durable form of a run.
 *
 * @category codecs
 * @since 0.1.0
 */
export const listCodec: VersionedCodec.VersionedCodec<ReadonlyArray<RunEvent>> = VersionedCodec.make({
  what: "run events",
  field: "version",
  type: Schema.Array(Schema.toType(v1.Event)),
  arms: [v1.list],
  data
})

/**
 * Schema of {@link RunEvent}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RunEvent: Schema.Codec<RunEvent, Schema.Json> = codec.schema
