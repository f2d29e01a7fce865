/**
 * The data of runs of agents and plans: events, and the state of an agent's, each written once as the Schema of its newest wire.
 */

import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { format } from "effect/Formatter"
import * as Hash from "effect/Hash"
import * as Inspectable from "effect/Inspectable"
import * as Pipeable from "effect/Pipeable"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as reduction from "../../conversation/internal/reduction.ts"
import * as Digest from "../../payload/Digest.ts"
import { hashText } from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import type * as ToolResults from "../../tool/ToolResult.ts"
import * as planRunParts from "./planRunParts.ts"
import * as runValues from "./runValues.ts"

export * from "./runValues.ts"

const [System, User, Assistant, Tool] = Message.Message.members

const at = runValues.Time

const step = Schema.String

const reason = Schema.optionalKey(Schema.String)

const OwnEvent = Schema.Union([
  Schema.TaggedStruct("RunStarted", {
    at,
    runId: Schema.String,
    agent: Schema.String,
    definition: Schema.String,
    depth: runValues.Count,
    maxSteps: runValues.MaxSteps,
    structured: runValues.StructuredSteps,
    context: runValues.Context,
    conversation: runValues.History,
    parts: Schema.optionalKey(runValues.Parts),
    contracts: Schema.optionalKey(Schema.Array(runValues.CallContract))
  }),
  Schema.TaggedStruct("InputAdded", {
    at,
    message: User,
    maxSteps: runValues.MaxSteps,
    instructions: Schema.optionalKey(System)
  }),
  Schema.TaggedStruct("ConversationFitted", {
    at,
    view: Schema.Array(Schema.Union([Schema.String, Message.Message])),
    beside: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
    report: reduction.ReductionReport
  }),
  Schema.TaggedStruct("StepStarted", { at, step: runValues.Count, purpose: runValues.Purpose }),
  Schema.TaggedStruct("ModelAnswered", {
    at,
    message: Assistant,
    output: Schema.optionalKey(runValues.OutputCheck),
    outputCall: Schema.optionalKey(Schema.String),
    maxEmpty: Schema.optionalKey(runValues.Count),
    contracts: Schema.optionalKey(Schema.Array(runValues.CallContract))
  }),
  Schema.TaggedStruct("AnswerDiscarded", { at, usage: runValues.Usage }),
  Schema.TaggedStruct("ModelMistaken", { at, problem: Schema.String }),
  Schema.TaggedStruct("ApprovalRequested", {
    at,
    callId: Schema.String,
    name: Schema.optionalKey(Schema.String),
    arguments: Schema.Json,
    digest: Schema.String,
    contract: Schema.optionalKey(runValues.CallContract)
  }),
  Schema.TaggedStruct("ApprovalDecided", { at, callId: Schema.String, ...runValues.Verdict.fields }),
  Schema.TaggedStruct("ToolStarted", {
    at,
    callId: Schema.String,
    idempotent: Schema.optionalKey(Schema.Literal(true)),
    contract: Schema.optionalKey(runValues.CallContract)
  }),
  Schema.TaggedStruct("ToolFinished", {
    at,
    message: Tool,
    durationMillis: Schema.optionalKey(Schema.Finite),
    cause: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("RunInterrupted", { at, reason: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("ConversationRewound", { at, messageId: Schema.String }),
  Schema.TaggedStruct("RunFinished", { at, outcome: runValues.Outcome }),
  Schema.TaggedStruct("RunResumed", {
    at,
    maxSteps: Schema.optionalKey(runValues.MaxSteps),
    context: Schema.optionalKey(runValues.Context),
    change: Schema.optionalKey(runValues.DefinitionChange)
  })
])

interface ChildEvent {
  readonly _tag: "ChildEvent"
  readonly at: DateTime.Utc
  readonly callId: string
  readonly event: Event
}

interface PlanEvent {
  readonly _tag: "PlanEvent"
  readonly event: PlanRunEvent
}

export type Event = typeof OwnEvent.Type | ChildEvent | PlanEvent

/** One of the events, by its tag. */
export type EventOf<Tag extends Event["_tag"]> = Extract<Event, { readonly _tag: Tag }>

const suspended = Schema.suspend((): Schema.Codec<Event, unknown> => Event)

/** The way to a sequence inside of a sequence, from the outermost: a step, and the number of its item. */
const Path = Schema.Array(Schema.Tuple([Schema.String, runValues.Count]))

export type Path = typeof Path.Type

const inside = Schema.optionalKey(Path)

const OwnPlanEvent = Schema.TaggedUnion({
  PlanStarted: {
    at,
    runId: Schema.String,
    plan: Schema.String,
    digest: Schema.String,
    depth: runValues.Count,
    maxIterations: Schema.Int,
    input: planRunParts.ResolvedInput,
    context: runValues.Context,
    basis: Schema.optionalKey(planRunParts.Basis)
  },
  StepStarted: { at, step, in: inside },
  StepRetried: { at, step, attempt: runValues.Count, failure: planRunParts.StepFailure, in: inside },
  AgentChanged: { at, step, event: suspended, in: inside },
  StepFinished: { at, record: planRunParts.StepRecord, in: inside },
  StepFailed: { at, step, failure: planRunParts.StepFailure, in: inside },
  StepPaused: {
    at,
    step,
    question: Schema.optionalKey(planRunParts.Question),
    asked: Schema.optionalKey(runValues.Count),
    callId: Schema.optionalKey(Schema.String),
    input: Schema.optionalKey(planRunParts.ResolvedInput),
    in: inside
  },
  StepConcluded: { at, step, answer: Schema.String, in: inside },
  RouteTaken: { at, step, to: Schema.optionalKey(Schema.String), in: inside },
  StepDecided: { at, step, callId: Schema.String, ...runValues.Verdict.fields, in: inside },
  PlanInterrupted: { at, reason },
  PlanFinished: { at, outcome: planRunParts.Outcome },
  PlanResumed: {
    at,
    maxIterations: Schema.optionalKey(Schema.Int),
    change: Schema.optionalKey(planRunParts.PlanChange)
  }
})

interface NestedChanged {
  readonly _tag: "NestedChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: PlanRunEvent
  readonly in?: Path
}

/**
 * One event of a run. A run is the list of its events, and nothing else.
 *
 * **Details**
 *
 * | event | meaning |
 * |---|---|
 * | `PlanStarted` | the first event; `digest` is the digest of the definition, `depth` is 0 or one more than the depth of the run around it, `context` the `RunContext` of everything inside, `basis` what an edited definition is compared with |
 * | `StepStarted` | a step begins; the first of its turn counts an iteration |
 * | `StepRetried` | an attempt failed, and attempt number `attempt`, from 2 on, follows the pause of the retry policy; what ran inside the failed one is dropped |
 * | `AgentChanged` | an event of the agent in a step; a `RunStarted` begins its run, or another one after that ended |
 * | `NestedChanged` | an event of the plan in a step; a `PlanStarted` begins its run, or another one after that ended |
 * | `StepFinished` | a step returned its output; in a parallel group it counts when all members have finished |
 * | `StepFailed` | a step failed, after its retries; the others of its parallel group continue to their end |
 * | `StepPaused` | a step waits: its `question` has the `reason` of its pause, or the `request` of the tool call that it is, and the digest of the `contract`; without one it waits for something inside its agent or plan; `asked` counts what it asked for in this turn, and `callId` is the id that a decision names; `input` is what the step was given, where it reads a memory, and what it is given after the decision |
 * | `StepConcluded` | a step ended the plan, and every plan around it, with an answer |
 * | `RouteTaken` | the step that follows a step with routes; without `to` the next as if it had none |
 * | `StepDecided` | the decision about a step that paused, with the `callId` and the digest that it names; decisions about calls inside an agent are its `ApprovalDecided` |
 * | `PlanInterrupted` | the run was stopped: nothing starts any more, what runs may still end |
 * | `PlanFinished` | the run ended; it can continue after a `PlanResumed`, unless it completed |
 * | `PlanResumed` | what failed, paused or was cut off gets another turn, what finished does not; an absent `maxIterations` stays as it was; `change` is present if the run continues under an edited definition |
 *
 * `in` is absent for a step of the plan itself. For a step of an item of another step it has, from the outermost, that step and the
 * number of its item.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanRunEvent = typeof OwnPlanEvent.Type | NestedChanged

/**
 * Schema of an event of a plan; its JSON has no version, see `PlanRun.eventCodec`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanRunEvent: Schema.Codec<PlanRunEvent, unknown> = Schema.Union([
  ...Object.values(OwnPlanEvent.cases),
  Schema.TaggedStruct("NestedChanged", {
    at,
    step,
    event: Schema.suspend((): Schema.Codec<PlanRunEvent, unknown> => PlanRunEvent),
    in: inside
  })
])

/** An event without its version. */
export const Event: Schema.Codec<Event, unknown> = Schema.Union([
  ...OwnEvent.members,
  Schema.TaggedStruct("ChildEvent", { at, callId: Schema.String, event: suspended }),
  Schema.TaggedStruct("PlanEvent", { event: PlanRunEvent })
])

const Approved = Schema.TaggedStruct("Approved", { arguments: Schema.Json, ...runValues.terms })

export type CallStatus =
  | { readonly _tag: "Requested" }
  | { readonly _tag: "AwaitingApproval"; readonly arguments: Schema.Json; readonly digest: string }
  | typeof Approved.Type
  | { readonly _tag: "Settled"; readonly result: ToolResults.ToolResult }
  | {
      readonly _tag: "Started"
      /** It may run again: with `approved`, where it was approved. */
      readonly idempotent?: true
      readonly approved?: typeof Approved.Type
      readonly child?: State
    }

export interface OpenCall {
  readonly part: Message.ToolCallPart
  readonly status: CallStatus
  /** The digest of its contract, which the `basis` of the state holds. */
  readonly contract?: string
}

const CallStatus: Schema.Codec<CallStatus, unknown> = Schema.Union([
  Schema.TaggedStruct("Requested", {}),
  Schema.TaggedStruct("AwaitingApproval", { arguments: Schema.Json, digest: Schema.String }),
  Approved,
  Schema.TaggedStruct("Settled", { result: Tool.fields.result }),
  Schema.TaggedStruct("Started", {
    idempotent: Schema.optionalKey(Schema.Literal(true)),
    approved: Schema.optionalKey(Approved),
    child: Schema.optionalKey(Schema.suspend((): Schema.Codec<State, unknown> => StateSchema))
  })
])

/** The newest answer, as far as it decides what comes next. `calls` does not count the synthetic output tool. */
const Answer = Schema.Struct({
  purpose: runValues.Purpose,
  finishReason: Schema.optionalKey(Schema.String),
  calls: runValues.Count,
  outputCall: Schema.Boolean,
  output: Schema.optionalKey(runValues.OutputCheck),
  /** The number of answers without anything, this one included, one after the other. */
  empty: Schema.optionalKey(runValues.Count),
  /** The number of them that the model is asked again for; absent where that is the default. */
  maxEmpty: Schema.optionalKey(runValues.Count)
})

const isEvents = (u: unknown): u is Chunk.Chunk<PlanRunEvent> => Chunk.isChunk(u)

/** An array on the wire. In memory adding an event costs the same however many there are. */
const PlanEvents: Schema.Codec<Chunk.Chunk<PlanRunEvent>, unknown> = Schema.Array(PlanRunEvent).pipe(
  Schema.decodeTo(Schema.declare(isEvents), {
    decode: SchemaGetter.transform((events) => Chunk.fromIterable(events)),
    encode: SchemaGetter.transform((events) => Chunk.toReadonlyArray(events))
  })
)

/** The plan that answers in place of a model: its events so far, and decisions that are no events of it yet. */
/** `isAskedAgain`: the run was resumed, so that its steps that paused run again. */
const Progress = Schema.Struct({
  events: PlanEvents,
  decisions: Schema.Array(runValues.Decision),
  isAskedAgain: Schema.optionalKey(Schema.Literal(true))
})

export type Progress = typeof Progress.Type

const StateBody = Schema.Struct({
  runId: Schema.String,
  agent: Schema.String,
  definition: Schema.String,
  depth: runValues.Count,
  context: runValues.Context,
  conversation: runValues.History,
  view: Schema.optional(runValues.History),
  maxSteps: runValues.MaxSteps,
  structured: runValues.StructuredSteps,
  steps: runValues.Count,
  totalSteps: runValues.Count,
  usage: runValues.Usage,
  calls: Schema.Array(
    Schema.Struct({ callId: Schema.String, status: CallStatus, contract: Schema.optionalKey(Schema.String) })
  ),
  pending: Schema.Array(
    Schema.Struct({ message: User, maxSteps: runValues.MaxSteps, instructions: Schema.optionalKey(System) })
  ),
  answer: Schema.optional(Answer),
  limited: Schema.Boolean,
  step: Schema.optional(Schema.Struct({ step: runValues.Count, purpose: runValues.Purpose })),
  mistakes: Schema.Array(Schema.String),
  progress: Schema.optional(Progress),
  fresh: Schema.Boolean,
  basis: Schema.optional(runValues.Basis),
  interrupted: Schema.optional(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optional(runValues.Outcome),
  startedAt: runValues.Time,
  updatedAt: runValues.Time,
  revision: runValues.Count
})

type StateBody = typeof StateBody.Type

export interface StateFields extends Omit<StateBody, "calls"> {
  readonly calls: ReadonlyArray<OpenCall>
}

/** Its constructor is long because it is fast: a run makes a state for each event. All states have the same keys. */
export class State extends Pipeable.Class implements StateFields, Inspectable.Inspectable {
  readonly runId: StateFields["runId"]
  readonly agent: StateFields["agent"]
  readonly definition: StateFields["definition"]
  readonly depth: StateFields["depth"]
  readonly context: StateFields["context"]
  readonly conversation: StateFields["conversation"]
  readonly view: StateFields["view"]
  readonly maxSteps: StateFields["maxSteps"]
  readonly structured: StateFields["structured"]
  readonly steps: StateFields["steps"]
  readonly totalSteps: StateFields["totalSteps"]
  readonly usage: StateFields["usage"]
  readonly calls: StateFields["calls"]
  readonly pending: StateFields["pending"]
  readonly answer: StateFields["answer"]
  readonly limited: StateFields["limited"]
  readonly step: StateFields["step"]
  readonly mistakes: StateFields["mistakes"]
  readonly progress: StateFields["progress"]
  readonly fresh: StateFields["fresh"]
  readonly basis: StateFields["basis"]
  readonly interrupted: StateFields["interrupted"]
  readonly outcome: StateFields["outcome"]
  readonly startedAt: StateFields["startedAt"]
  readonly updatedAt: StateFields["updatedAt"]
  readonly revision: StateFields["revision"]

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
    this.basis = fields.basis
    this.interrupted = fields.interrupted
    this.outcome = fields.outcome
    this.startedAt = fields.startedAt
    this.updatedAt = fields.updatedAt
    this.revision = fields.revision
  }

  [Equal.symbol](that: unknown): boolean {
    return (
      isState(that) &&
      this.runId === that.runId &&
      this.revision === that.revision &&
      Equal.equals({ ...this }, { ...that })
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.number(this.revision), Hash.string(this.runId))
  }

  // No text of the run: states hang on errors, and errors are logged
  toJSON() {
    return {
      _id: "RunState",
      runId: this.runId,
      agent: this.agent,
      steps: this.steps,
      totalSteps: this.totalSteps,
      openCalls: this.calls.length,
      revision: this.revision,
      ...(this.outcome === undefined ? undefined : { outcome: this.outcome._tag })
    }
  }

  override toString(): string {
    return format(this.toJSON())
  }

  [Inspectable.NodeInspectSymbol]() {
    return this.toJSON()
  }
}

const isState = (u: unknown): u is State => u instanceof State

/** The open calls of the conversation with their statuses, or the problem. */
const joinCalls = (body: StateBody): ReadonlyArray<OpenCall> | string => {
  const known = new Map(body.calls.map(({ callId, ...call }) => [callId, call]))
  const calls: Array<OpenCall> = []
  for (const part of history.openCalls(body.conversation)) {
    const call = known.get(part.id)
    if (call === undefined) return `expected the status of the open call ${JSON.stringify(part.id)}`
    calls.push({ part, ...call })
  }
  return calls.length === body.calls.length
    ? calls
    : "expected one status for each open call of the conversation and for no other"
}

const bodyOf = ({ calls, ...state }: State): StateBody =>
  defined({ ...state, calls: calls.map(({ part, ...call }) => ({ callId: part.id, ...call })) })

/** The id of a run that begins. */
export const newRunId = Effect.flatMap(
  Message.MessageId,
  Effect.map((id) => `run_${id.replace(/^msg_/, "")}`)
)

/**
 * The digest of a request: of the contract of its tool, of its arguments, and of the place that asks, so that no other
 * request has it.
 */
export const requestDigest = (request: Parameters<typeof digestOf>[0]): Effect.Effect<string> =>
  Effect.sync(() => digestOf(request))

/** True for a question of a step that has, as a person reads it, another digest than it claims. */
export const isForgedQuestion = (
  place: ReadonlyArray<string>,
  { contract, digest, reason, request }: planRunParts.Question,
  input: planRunParts.ResolvedInput | undefined
): boolean => {
  // From before it was recorded
  if (contract === undefined) return false
  const asked = request === undefined ? { reason: reason ?? "", ...input } : request.arguments
  return digestOf({ place, contract, arguments: asked }) !== digest
}

const digestOf = (request: {
  readonly place: ReadonlyArray<string>
  readonly contract: string
  readonly arguments: Schema.Json
}): string => {
  // JSON.stringify escapes lone surrogates, which canonical JSON refuses
  const text = Result.getOrElse(Digest.canonicalize(request), () => JSON.stringify(request))
  return hashText(JSON.stringify(text))
}

type CallRequest = { readonly contract: string; readonly arguments: Schema.Json }

const digestOfCall = ({ conversation, definition }: State, callId: string, request: CallRequest): string =>
  digestOf({ place: [definition, history.asHistory(conversation).lastAssistant?.id ?? "", callId], ...request })

/**
 * The digest of a call of the newest answer. It covers the id of the message, because ids of calls repeat in other conversations,
 * and the agent, because another one can have the same conversation.
 */
export const callDigest = (state: State, callId: string, request: CallRequest): Effect.Effect<string> =>
  Effect.sync(() => digestOfCall(state, callId, request))

/**
 * True for a request that has, as a person reads it, another digest than it claims. In a run from before contracts were recorded
 * that cannot be found out.
 */
export const isForged = (
  state: State,
  callId: string,
  {
    arguments: args,
    contract = "",
    digest
  }: Partial<CallRequest> & { readonly arguments: Schema.Json; readonly digest: string }
): boolean => state.basis !== undefined && digestOfCall(state, callId, { contract, arguments: args }) !== digest

/** The call whose request is forged, if any. */
const forgedRequest = (state: State): string | undefined =>
  state.calls.find(({ contract, part, status }) => {
    const asked = status._tag === "Started" ? status.approved : status
    if (asked?._tag !== "AwaitingApproval" && asked?._tag !== "Approved") return false
    return isForged(state, part.id, { arguments: asked.arguments, digest: asked.digest, ...defined({ contract }) })
  })?.part.id

/** A state without its version. */
export const StateSchema: Schema.Codec<State, unknown> = StateBody.pipe(
  Schema.decodeTo(Schema.declare(isState), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const refuse = (message: string) => Effect.fail(new SchemaIssue.InvalidValue({ message }, body, options))
      const calls = joinCalls(body)
      if (typeof calls === "string") return refuse(calls)
      const state = new State({ ...body, calls })
      const forged = forgedRequest(state)
      return forged === undefined
        ? Effect.succeed(state)
        : refuse(`the digest of the request for the call ${JSON.stringify(forged)}`)
    }),
    encode: SchemaGetter.transform(bodyOf)
  })
)
