/**
 * One execution of an agent as data: its state, the journal of its events, and their codecs. Use it to store a run,
 * to show it and to resume it, in another process if need be.
 *
 * @since 0.1.0
 */

import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as EffectInspectable from "effect/Inspectable"
import type { Inspectable } from "effect/Inspectable"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Conversation from "../conversation/Conversation.ts"
import * as Message from "../conversation/Message.ts"
import type * as history from "../conversation/internal/history.ts"
import type { JsonObject } from "../payload/Json.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import type { ToolResult } from "../tool/ToolResult.ts"
import * as runParts from "./internal/runParts.ts"

/**
 * A call that waits for somebody's decision.
 *
 * **Details**
 *
 * `path` holds the ids of the enclosing calls, outermost first, when the call was
 * made by an agent that is itself a tool of this one; where a plan runs it, the names of
 * the plan's steps stand among them. It is absent for calls of the run's own model, and
 * empty where such a call has the same id as one of theirs. A step of a plan that waits
 * has the name of the step as its `callId`.
 *
 * @category models
 * @since 0.1.0
 */
export interface ApprovalRequest {
  readonly callId: string
  readonly name: string
  readonly arguments: Schema.Json
  readonly path?: ReadonlyArray<string>
}

/**
 * Schema of {@link ApprovalRequest}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ApprovalRequest: Schema.Codec<ApprovalRequest> = Schema.Struct({
  callId: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  path: Schema.optionalKey(Schema.Array(Schema.String))
}).annotate({ identifier: "ApprovalRequest" })

/**
 * Requests of a run and of what runs inside it, told apart: an id alone would not say
 * whose call is meant where two have it.
 *
 * @internal
 * @category combining
 * @since 0.1.0
 */
export const disambiguate = (requests: ReadonlyArray<ApprovalRequest>): ReadonlyArray<ApprovalRequest> => {
  const below = new Set(requests.filter(({ path }) => path !== undefined).map(({ callId }) => callId))
  return requests.map((request) =>
    request.path === undefined && below.has(request.callId) ? { ...request, path: [] } : request
  )
}

/**
 * Schema of {@link Outcome}, with `cases`, `guards`, `isAnyOf` and `match`.
 *
 * **Details**
 *
 * - `Completed`: the model gave its final answer. `output` is the JSON it holds,
 *   when the agent has an output schema.
 * - `MaxSteps`: the last answer the budget allows asked for more. Its calls are open. Of a
 *   plan: it used up its iterations.
 * - `AwaitingApproval`: nothing can be done before these decisions.
 * - `Interrupted`: somebody stopped the run; `reason` is theirs.
 * - `InvalidOutput`: the final answer does not fit the output schema.
 * - `Stopped`: the provider ended the answer early.
 *
 * **Example** (Telling outcomes apart)
 *
 * ```ts
 * import { Run } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const line = Run.Outcome.match({
 *   Completed: () => "done",
 *   MaxSteps: () => "needs more steps",
 *   AwaitingApproval: ({ requests }) => `waits for ${requests.length} decisions`,
 *   Interrupted: ({ reason }) => `interrupted: ${reason ?? "no reason given"}`,
 *   InvalidOutput: ({ issues }) => `${issues.length} problems in the answer`,
 *   Stopped: ({ finishReason }) => `the provider stopped: ${finishReason}`
 * })
 * assert.strictEqual(line({ _tag: "Stopped", finishReason: "length" }), "the provider stopped: length")
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const Outcome = Schema.TaggedUnion({
  Completed: { output: Schema.optionalKey(Schema.Json) },
  MaxSteps: {},
  AwaitingApproval: { requests: Schema.NonEmptyArray(ApprovalRequest) },
  Interrupted: { reason: Schema.optionalKey(Schema.String) },
  InvalidOutput: { issues: Schema.Array(PayloadError.ValidationIssue) },
  Stopped: { finishReason: Schema.Literals(runParts.stopReasons) }
}).annotate({ identifier: "Outcome" })

/**
 * How a run ended.
 *
 * @category models
 * @since 0.1.0
 */
export type Outcome = typeof Outcome.Type

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
export interface Started {
  readonly _tag: "RunStarted"
  readonly at: DateTime.Utc
  readonly runId: string
  readonly agent: string
  readonly definition: string
  readonly depth: number
  readonly maxSteps: runParts.MaxSteps
  readonly structured: runParts.StructuredSteps
  readonly context: JsonObject
  readonly conversation: history.Conversation
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
  readonly maxSteps: runParts.MaxSteps
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
  readonly view: history.Conversation
  readonly report: Conversation.ReductionReport
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
  readonly purpose: runParts.Purpose
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
  readonly output?: runParts.OutputCheck
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
  readonly usage?: Message.TokenUsage
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
  readonly requests: ReadonlyArray<ApprovalRequest>
  readonly limited: boolean
  readonly usage?: Message.TokenUsage
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
  readonly event: Event
}

/**
 * Somebody stopped the run. Calls that had started still get their results.
 *
 * @category models
 * @since 0.1.0
 */
export interface Interrupted {
  readonly _tag: "RunInterrupted"
  readonly at: DateTime.Utc
  readonly reason?: string
}

/**
 * The run ended. It can go on after a {@link Resumed}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Finished {
  readonly _tag: "RunFinished"
  readonly at: DateTime.Utc
  readonly outcome: Outcome
}

/**
 * Somebody runs it again. Without `maxSteps` the budget stays as it was, without
 * `context` the RunContext does.
 *
 * @category models
 * @since 0.1.0
 */
export interface Resumed {
  readonly _tag: "RunResumed"
  readonly at: DateTime.Utc
  readonly maxSteps?: runParts.MaxSteps
  readonly context?: JsonObject
}

/**
 * One fact of a run.
 *
 * @category models
 * @since 0.1.0
 */
export type Event =
  | Started
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
  | Interrupted
  | Finished
  | Resumed

/**
 * The tokens that were used by what this event tells: by the run itself, or by a run
 * inside it. The usage of a run is the sum over its events.
 *
 * @category getters
 * @since 0.1.0
 */
export const usageOf = (self: Event): Message.TokenUsage | undefined => {
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
 * A call that waits for a decision.
 */
const ApprovalRequestWire: Schema.Codec<ApprovalRequest> = Schema.Struct({
  callId: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  path: Schema.optionalKey(Schema.Array(Schema.String))
})

const OutcomeWire: Schema.Codec<Outcome> = Schema.Union([
  Schema.TaggedStruct("Completed", { output: Schema.optionalKey(Schema.Json) }),
  Schema.TaggedStruct("MaxSteps", {}),
  Schema.TaggedStruct("AwaitingApproval", { requests: Schema.NonEmptyArray(ApprovalRequestWire) }),
  Schema.TaggedStruct("Interrupted", { reason: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("InvalidOutput", { issues: Schema.Array(runParts.Issue) }),
  Schema.TaggedStruct("Stopped", { finishReason: Schema.Literals(["length", "content-filter", "error", "other"]) })
])

const atField = runParts.Time

/**
 * One event without its version.
 *
 * @category schemas
 * @since 0.1.0
 */
export const EventWire: Schema.Codec<Event, unknown> = Schema.Union([
  Schema.TaggedStruct("RunStarted", {
    at: atField,
    runId: Schema.String,
    agent: Schema.String,
    definition: Schema.String,
    depth: runParts.Count,
    maxSteps: runParts.MaxStepsWire,
    structured: runParts.StructuredStepsWire,
    context: runParts.Context,
    conversation: runParts.History
  }),
  Schema.TaggedStruct("InputAdded", { at: atField, message: runParts.UserMessage, maxSteps: runParts.MaxStepsWire }),
  Schema.TaggedStruct("ConversationFitted", { at: atField, view: runParts.History, report: runParts.Report }),
  Schema.TaggedStruct("StepStarted", { at: atField, step: runParts.Count, purpose: runParts.PurposeWire }),
  Schema.TaggedStruct("ModelAnswered", {
    at: atField,
    message: runParts.AssistantMessage,
    output: Schema.optionalKey(runParts.OutputCheckWire),
    outputCall: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("ModelMistaken", {
    at: atField,
    problem: Schema.String,
    usage: Schema.optionalKey(runParts.Usage)
  }),
  Schema.TaggedStruct("ProgressSaved", {
    at: atField,
    facts: Schema.Array(Schema.Json),
    requests: Schema.Array(ApprovalRequestWire),
    limited: Schema.Boolean,
    usage: Schema.optionalKey(runParts.Usage)
  }),
  Schema.TaggedStruct("ApprovalRequested", { at: atField, callId: Schema.String }),
  Schema.TaggedStruct("ApprovalDecided", {
    at: atField,
    callId: Schema.String,
    approved: Schema.Boolean,
    reason: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("ToolStarted", { at: atField, callId: Schema.String }),
  Schema.TaggedStruct("ToolFinished", {
    at: atField,
    message: runParts.ToolMessage,
    durationMillis: Schema.optionalKey(Schema.Finite),
    cause: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("ChildEvent", {
    at: atField,
    callId: Schema.String,
    event: Schema.suspend(() => EventWire)
  }),
  Schema.TaggedStruct("RunInterrupted", { at: atField, reason: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("RunFinished", { at: atField, outcome: OutcomeWire }),
  Schema.TaggedStruct("RunResumed", {
    at: atField,
    maxSteps: Schema.optionalKey(runParts.MaxStepsWire),
    context: Schema.optionalKey(runParts.Context)
  })
])

const eventArm: VersionedCodec.AnyArm<Event> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), event: EventWire }),
  toCurrent: ({ event }) => Effect.succeed(event),
  fromCurrent: (event) => VersionedCodec.lossless({ version: 1 as const, event })
})

/**
 * The codec of one event: field `version`, native version 1. Its cost does not depend
 * on the run, except for the conversation a run starts from.
 *
 * **Example** (Storing an event)
 *
 * ```ts
 * import { DateTime, Effect } from "effect"
 * import { Run } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const event: Run.Event = { _tag: "ToolStarted", at: yield* DateTime.now, callId: "call_1" }
 *   const text = yield* Run.eventCodec.encodeJson(event)
 *   return yield* Run.eventCodec.decodeJson(text)
 * })
 *
 * assert.strictEqual(Effect.runSync(program)._tag, "ToolStarted")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventCodec: VersionedCodec.VersionedCodec<Event> = VersionedCodec.make({
  what: "run event",
  field: "version",
  type: Schema.toType(EventWire),
  arms: [eventArm],
  data: runParts.userData
})

const eventsArm: VersionedCodec.AnyArm<ReadonlyArray<Event>> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), events: Schema.Array(EventWire) }),
  toCurrent: ({ events }) => Effect.succeed(events),
  fromCurrent: (events) => VersionedCodec.lossless({ version: 1 as const, events })
})

/**
 * The codec of a list of events, the durable form of a run.
 *
 * @category codecs
 * @since 0.1.0
 */
export const eventsCodec: VersionedCodec.VersionedCodec<ReadonlyArray<Event>> = VersionedCodec.make({
  what: "run events",
  field: "version",
  type: Schema.Array(Schema.toType(EventWire)),
  arms: [eventsArm],
  data: runParts.userData
})

/**
 * Schema of {@link Event}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Event: Schema.Codec<Event, Schema.Json> = eventCodec.schema

const typeId: TypeId = "~effect-emissary/agent/RunState"

/**
 * @category type ids
 * @since 0.1.0
 */
export const TypeId: TypeId = typeId

/**
 * @category type ids
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/agent/RunState"

/**
 * What became of an open call.
 *
 * **Details**
 *
 * - `Requested`: the model asked for it; nothing has been done.
 * - `AwaitingApproval`: it may not run before somebody decides.
 * - `Approved`: somebody decided that it may run.
 * - `Settled`: its result is known and nothing is to be run: it was denied, or its
 *   answer was cut off, or it carried the agent's output.
 * - `Started`: it runs, or ran when the process died. `child` is the state of the
 *   agent behind it, if there is one and it has begun.
 *
 * @category models
 * @since 0.1.0
 */
export type CallStatus =
  | { readonly _tag: "Requested" }
  | { readonly _tag: "AwaitingApproval" }
  | { readonly _tag: "Approved" }
  | { readonly _tag: "Settled"; readonly result: ToolResult }
  | { readonly _tag: "Started"; readonly child?: State }

/**
 * A call without a result. `order` is its place in the model's answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface OpenCall {
  readonly part: Message.ToolCallPart
  readonly order: number
  readonly status: CallStatus
}

/**
 * What has to be known of the newest answer to say what comes next.
 *
 * @category models
 * @since 0.1.0
 */
export interface Answer {
  readonly purpose: runParts.Purpose
  readonly finishReason?: string
  /** How many tools it asked for, the synthetic output tool not counted. */
  readonly calls: number
  /** Whether it used the synthetic output tool. */
  readonly outputCall: boolean
  readonly output?: runParts.OutputCheck
}

/**
 * A user message that waits until the open calls are done.
 *
 * @category models
 * @since 0.1.0
 */
export interface PendingInput {
  readonly message: Message.UserMessage
  readonly maxSteps: runParts.MaxSteps
}

/**
 * How far something is that answers in place of a model, a plan for example, while its
 * answer is not there yet.
 *
 * **Details**
 *
 * `facts` is all that it saved, in order. `requests` are what it waits for and nobody
 * has decided about; `decisions` are those that it has not taken yet. `path` of a
 * decision is that of its request, empty where that has none.
 *
 * @category models
 * @since 0.1.0
 */
export interface Progress {
  readonly facts: Chunk.Chunk<Schema.Json>
  readonly requests: ReadonlyArray<ApprovalRequest>
  readonly decisions: ReadonlyArray<ProgressDecision>
}

/**
 * A decision about a request of a {@link Progress}.
 *
 * @category models
 * @since 0.1.0
 */
export interface ProgressDecision {
  readonly callId: string
  readonly approved: boolean
  readonly reason?: string
  readonly path: ReadonlyArray<string>
}

/**
 * Where a run stands.
 *
 * **Details**
 *
 * - `view`: what models are sent of the conversation, where a `BudgetPolicy` found it too
 *   long. The conversation itself stays whole.
 * - `steps` counts the answers to the newest user message, against `maxSteps`;
 *   `totalSteps` counts those of the whole run.
 * - `usage` adds up the run and the runs of agents that were its tools.
 * - `revision` counts the events, the first one included.
 * - `limited`: the last answer used up the budget and asked for more.
 * - `step`: a model call that was announced and has not answered yet.
 * - `mistakes`: what the model is to be told when it is asked again in this step.
 * - `progress`: how far the answer of something is that is no model. There are no open
 *   calls meanwhile, and what users say waits.
 * - `fresh`: no model call was answered since the run was started or resumed.
 *
 * @category models
 * @since 0.1.0
 */
export interface State extends Inspectable {
  readonly [TypeId]: TypeId
  readonly runId: string
  readonly agent: string
  readonly definition: string
  readonly depth: number
  readonly context: JsonObject
  readonly conversation: history.Conversation
  readonly view: history.Conversation | undefined
  readonly maxSteps: runParts.MaxSteps
  readonly structured: runParts.StructuredSteps
  readonly steps: number
  readonly totalSteps: number
  readonly usage: Message.TokenUsage
  readonly calls: HashMap.HashMap<string, OpenCall>
  readonly pending: ReadonlyArray<PendingInput>
  readonly answer: Answer | undefined
  readonly limited: boolean
  readonly step: { readonly step: number; readonly purpose: runParts.Purpose } | undefined
  readonly mistakes: ReadonlyArray<string>
  readonly progress: Progress | undefined
  readonly fresh: boolean
  readonly interrupted: { readonly reason?: string } | undefined
  readonly outcome: Outcome | undefined
  readonly startedAt: DateTime.Utc
  readonly updatedAt: DateTime.Utc
  readonly revision: number
}

/**
 * Whether a value is a {@link State}.
 *
 * @category guards
 * @since 0.1.0
 */
export const isState = (u: unknown): u is State => isStateImpl(u)

const isStateImpl = (u: unknown): u is State => Predicate.hasProperty(u, typeId)

const StatusWire: Schema.Codec<CallStatus, unknown> = Schema.Union([
  Schema.TaggedStruct("Requested", {}),
  Schema.TaggedStruct("AwaitingApproval", {}),
  Schema.TaggedStruct("Approved", {}),
  Schema.TaggedStruct("Settled", { result: runParts.ToolResult }),
  Schema.TaggedStruct("Started", { child: Schema.optionalKey(Schema.suspend(() => StateWire)) })
])

const AnswerWire = Schema.Struct({
  purpose: runParts.PurposeWire,
  finishReason: Schema.optionalKey(Schema.String),
  calls: runParts.Count,
  outputCall: Schema.Boolean,
  output: Schema.optionalKey(runParts.OutputCheckWire)
})

const ProgressWire = Schema.Struct({
  facts: Schema.Array(Schema.Json),
  requests: Schema.Array(ApprovalRequestWire),
  decisions: Schema.Array(
    Schema.Struct({
      callId: Schema.String,
      approved: Schema.Boolean,
      reason: Schema.optionalKey(Schema.String),
      path: Schema.Array(Schema.String)
    })
  )
})

const StateBody = Schema.Struct({
  runId: Schema.String,
  agent: Schema.String,
  definition: Schema.String,
  depth: runParts.Count,
  context: runParts.Context,
  conversation: runParts.History,
  view: Schema.optionalKey(runParts.History),
  maxSteps: runParts.MaxStepsWire,
  structured: runParts.StructuredStepsWire,
  steps: runParts.Count,
  totalSteps: runParts.Count,
  usage: runParts.Usage,
  calls: Schema.Array(Schema.Struct({ callId: Schema.String, status: StatusWire })),
  pending: Schema.Array(Schema.Struct({ message: runParts.UserMessage, maxSteps: runParts.MaxStepsWire })),
  answer: Schema.optionalKey(AnswerWire),
  limited: Schema.Boolean,
  step: Schema.optionalKey(Schema.Struct({ step: runParts.Count, purpose: runParts.PurposeWire })),
  mistakes: Schema.Array(Schema.String),
  progress: Schema.optionalKey(ProgressWire),
  fresh: Schema.Boolean,
  interrupted: Schema.optionalKey(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optionalKey(OutcomeWire),
  startedAt: runParts.Time,
  updatedAt: runParts.Time,
  revision: runParts.Count
})

/**
 * A state without its version.
 *
 * @category schemas
 * @since 0.1.0
 */
export const StateWire: Schema.Codec<State, unknown> = StateBody.pipe(
  Schema.decodeTo(Schema.declare(isStateImpl), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const calls = joinCalls(body)
      return typeof calls === "string"
        ? Effect.fail(new SchemaIssue.InvalidValue({ message: calls }, body, options))
        : Effect.succeed(
            makeState({
              ...body,
              calls,
              view: body.view,
              answer: body.answer,
              step: body.step,
              progress:
                body.progress === undefined
                  ? undefined
                  : { ...body.progress, facts: Chunk.fromIterable(body.progress.facts) },
              interrupted: body.interrupted,
              outcome: body.outcome
            })
          )
    }),
    encode: SchemaGetter.transform(
      ({ answer, calls, interrupted, outcome, progress, step, view, ...state }): StateBody => ({
        ...state,
        calls: callsInOrder(calls).map(({ part, status }) => ({ callId: part.id, status })),
        ...(view === undefined ? undefined : { view }),
        ...(answer === undefined ? undefined : { answer }),
        ...(step === undefined ? undefined : { step }),
        ...(progress === undefined
          ? undefined
          : { progress: { ...progress, facts: Chunk.toReadonlyArray(progress.facts) } }),
        ...(interrupted === undefined ? undefined : { interrupted }),
        ...(outcome === undefined ? undefined : { outcome })
      })
    )
  })
)

const stateArm: VersionedCodec.AnyArm<State> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), state: StateWire }),
  toCurrent: ({ state }) => Effect.succeed(state),
  fromCurrent: (state) => VersionedCodec.lossless({ version: 1 as const, state })
})

/**
 * The snapshot codec: field `version`, native version 1. {@link encodeJson} and
 * {@link decodeJson} are its methods.
 *
 * **When to use**
 *
 * Use it where folding all events again is too slow. A snapshot is as large as the
 * conversation, so writing one after every event costs quadratic time: append the
 * events instead, and take a snapshot now and then.
 *
 * **Gotchas**
 *
 * A snapshot is trusted: it says which calls were approved. Read it from storage that
 * only your program writes to; take nothing but conversations from elsewhere.
 *
 * @category codecs
 * @since 0.1.0
 */
export const stateCodec: VersionedCodec.VersionedCodec<State> = VersionedCodec.make({
  what: "run state",
  field: "version",
  type: Schema.declare(isState),
  arms: [stateArm],
  data: runParts.userData
})

/**
 * Schema of {@link State}; its JSON form is a snapshot.
 *
 * @category schemas
 * @since 0.1.0
 */
export const State: Schema.Codec<State, Schema.Json> = stateCodec.schema

/**
 * A snapshot of a run as versioned JSON.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  self: State,
  options?: VersionedCodec.EncodeOptions
): Effect.Effect<JsonObject, PayloadError.PayloadError | PayloadError.LossyEncoding> => stateCodec.encode(self, options)

/**
 * A snapshot of a run as JSON text, for another process to resume.
 *
 * **Details**
 *
 * Fails where something must not be written, a key of the run's context that names a
 * secret for example. `indent` is the number of spaces per level, default 0.
 *
 * **Example** (Resuming elsewhere)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, Run } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
 * )
 * const cashier = Agent.make("cashier", { toolkit })
 * const handlers = toolkit.toLayer({ pay: () => Effect.void })
 *
 * const kept = await cashier.run("Pay 5 euros").pipe(
 *   Effect.flatMap(({ state }) => Run.encodeJson(state)),
 *   Effect.provide([handlers, ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }])]),
 *   Effect.runPromise
 * )
 *
 * // any other process that has the agent
 * const later = Effect.gen(function*() {
 *   const state = yield* Run.decodeJson(kept)
 *   const decisions = Run.approvalRequests(state).map((request) => ({ ...request, approved: true }))
 *   return yield* cashier.resume(state, { decisions })
 * })
 * const { text } = await Effect.runPromise(
 *   Effect.provide(later, [handlers, ScriptedModel.layer([{ text: "Paid." }])])
 * )
 * assert.strictEqual(text, "Paid.")
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  self: State,
  options?: VersionedCodec.EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError.PayloadError | PayloadError.LossyEncoding> => stateCodec.encodeJson(self, options)

/**
 * Reads a snapshot of any version.
 *
 * **Gotchas**
 *
 * A snapshot is trusted, see {@link stateCodec}.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<State, PayloadError.PayloadError> => stateCodec.decode(input, options)

/**
 * Like {@link decode}, from JSON text or bytes of UTF-8.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<State, PayloadError.PayloadError> => stateCodec.decodeJson(input, options)

/**
 * The open calls in call order.
 *
 * @category getters
 * @since 0.1.0
 */
export const openCalls = (self: State): ReadonlyArray<OpenCall> => callsInOrder(self.calls)

/**
 * One open call.
 *
 * @category getters
 * @since 0.1.0
 */
export const openCall = (self: State, callId: string): OpenCall | undefined =>
  Option.getOrUndefined(HashMap.get(self.calls, callId))

/**
 * What somebody has to decide before the run can go on, calls of agents that run as
 * tools included.
 *
 * @category getters
 * @since 0.1.0
 */
export const approvalRequests = (self: State): ReadonlyArray<ApprovalRequest> => collectRequests(self)

/**
 * Whether the run has been told anything. One that was cut off before its first input was
 * recorded has not, and needs it again to go on: `resume(state, { input })`.
 *
 * @category getters
 * @since 0.1.0
 */
export const hasInput = (self: State): boolean =>
  self.pending.length > 0 || Conversation.messages(self.conversation).some(({ role }) => role === "user")

/** @internal */
export type StateFields = Omit<State, keyof EffectInspectable.Inspectable | TypeId>

// Each field by name: this runs once per event, and a loop over keys takes ten times as long
class StateImpl extends EffectInspectable.Class implements State {
  readonly runId: State["runId"]
  readonly agent: State["agent"]
  readonly definition: State["definition"]
  readonly depth: State["depth"]
  readonly context: State["context"]
  readonly conversation: State["conversation"]
  readonly view: State["view"]
  readonly maxSteps: State["maxSteps"]
  readonly structured: State["structured"]
  readonly steps: State["steps"]
  readonly totalSteps: State["totalSteps"]
  readonly usage: State["usage"]
  readonly calls: State["calls"]
  readonly pending: State["pending"]
  readonly answer: State["answer"]
  readonly limited: State["limited"]
  readonly step: State["step"]
  readonly mistakes: State["mistakes"]
  readonly progress: State["progress"]
  readonly fresh: State["fresh"]
  readonly interrupted: State["interrupted"]
  readonly outcome: State["outcome"]
  readonly startedAt: State["startedAt"]
  readonly updatedAt: State["updatedAt"]
  readonly revision: State["revision"]

  constructor(fields: StateFields) {
    super()
    this.runId = fields.runId
    this.agent = fields.agent
    this.definition = fields.definition
    this.depth = fields.depth
    this.context = fields.context
    this.conversation = fields.conversation
    this.view = fields.view
    this.maxSteps = fields.maxSteps
    this.structured = fields.structured
    this.steps = fields.steps
    this.totalSteps = fields.totalSteps
    this.usage = fields.usage
    this.calls = fields.calls
    this.pending = fields.pending
    this.answer = fields.answer
    this.limited = fields.limited
    this.step = fields.step
    this.mistakes = fields.mistakes
    this.progress = fields.progress
    this.fresh = fields.fresh
    this.interrupted = fields.interrupted
    this.outcome = fields.outcome
    this.startedAt = fields.startedAt
    this.updatedAt = fields.updatedAt
    this.revision = fields.revision
    Object.freeze(this)
  }

  get [typeId](): typeof typeId {
    return typeId
  }

  [Equal.symbol](that: unknown): boolean {
    return (
      isStateImpl(that) &&
      this.runId === that.runId &&
      this.revision === that.revision &&
      Equal.equals({ ...this }, { ...that })
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.number(this.revision), Hash.string(this.runId))
  }

  // Where it stands and nothing that anybody said: states hang on errors, and errors are logged
  toJSON() {
    return {
      _id: "RunState",
      runId: this.runId,
      agent: this.agent,
      steps: this.steps,
      totalSteps: this.totalSteps,
      openCalls: HashMap.size(this.calls),
      revision: this.revision,
      ...(this.outcome === undefined ? undefined : { outcome: this.outcome._tag })
    }
  }
}

/** @internal */
export const makeState = (fields: StateFields): State => new StateImpl(fields)

/**
 * The open calls of a conversation, with their places in the answer that asked for them.
 *
 * @internal
 */
export const openParts = (conversation: history.Conversation): ReadonlyArray<Omit<OpenCall, "status">> => {
  const answer = Option.getOrUndefined(Conversation.lastAssistantMessage(conversation))
  if (answer === undefined) return []
  const open = new Set(Conversation.openCalls(conversation).map((part) => part.id))
  return Message.toolCalls(answer)
    .map((part, order) => ({ part, order }))
    .filter(({ part }) => open.has(part.id))
}

/** @internal */
export const callsInOrder = (calls: HashMap.HashMap<string, OpenCall>): ReadonlyArray<OpenCall> =>
  Array.from(HashMap.values(calls)).sort((a, b) => a.order - b.order)

/** @internal */
export const collectRequests = (self: State): ReadonlyArray<ApprovalRequest> => {
  const requests: Array<ApprovalRequest> = []
  addRequests(self, [], requests)
  return disambiguate(requests)
}

const addRequests = (self: State, path: ReadonlyArray<string>, requests: Array<ApprovalRequest>): void => {
  for (const { path: own = [], ...request } of self.progress?.requests ?? []) {
    const whole = [...path, ...own]
    requests.push({ ...request, ...(whole.length === 0 ? undefined : { path: whole }) })
  }
  for (const { part, status } of callsInOrder(self.calls)) {
    if (status._tag === "AwaitingApproval") {
      requests.push({
        callId: part.id,
        name: part.name,
        arguments: part.arguments,
        ...(path.length === 0 ? undefined : { path })
      })
    } else if (status._tag === "Started" && status.child !== undefined) {
      addRequests(status.child, [...path, part.id], requests)
    }
  }
}

type StateBody = typeof StateBody.Type

/** The open calls of the conversation with what became of them, or what is wrong. */
const joinCalls = (body: StateBody): HashMap.HashMap<string, OpenCall> | string => {
  const statuses = new Map(body.calls.map(({ callId, status }) => [callId, status]))
  const calls: Array<[string, OpenCall]> = []
  for (const { order, part } of openParts(body.conversation)) {
    const status = statuses.get(part.id)
    if (status === undefined) return `expected the status of the open call ${JSON.stringify(part.id)}`
    calls.push([part.id, { part, order, status }])
  }
  return calls.length === body.calls.length
    ? HashMap.fromIterable(calls)
    : "expected one status for each open call of the conversation and for no other"
}
