/**
 * The data of runs: events, outcome and state, each written once as the Schema of its newest wire. Agents and plans use its parts.
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
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as conversationCodec from "../../conversation/internal/conversationCodec.ts"
import * as history from "../../conversation/internal/history.ts"
import * as reduction from "../../conversation/internal/reduction.ts"
import * as Digest from "../../payload/Digest.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { defined, toSchemaIssue } from "../../payload/internal/plainJson.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import type * as ToolResults from "../../tool/ToolResult.ts"

/**
 * The finish reasons that end a run: calls of such an answer never run.
 */
export const StopReason = Schema.Literals(["length", "content-filter", "error", "other"])

export type StopReason = typeof StopReason.Type

/**
 * The largest number of model calls for one user message: an integer from 1, or `"unlimited"`.
 */
export const MaxSteps = Schema.Union([Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)), Schema.Literal("unlimited")])

export type MaxSteps = typeof MaxSteps.Type

/**
 * When a model call asks for structured output with `generateObject`: never, once
 * after an invalid answer, or in every step.
 */
const StructuredSteps = Schema.Literals(["never", "fallback", "always"])

export type StructuredSteps = typeof StructuredSteps.Type

/**
 * The purpose of a model call: an answer, which may use tools, or the output alone.
 */
const Purpose = Schema.Literals(["answer", "structured"])

export type Purpose = typeof Purpose.Type

/**
 * The check of an answer against the agent's output schema.
 */
const OutputCheck = Schema.Union([
  Schema.TaggedStruct("Valid", { value: Schema.Json }),
  Schema.TaggedStruct("Invalid", { issues: Schema.Array(PayloadError.Problem) })
])

export type OutputCheck = typeof OutputCheck.Type

/**
 * ISO 8601 text.
 */
export const Time: Schema.Codec<DateTime.Utc, string> = Schema.DateTimeUtcFromString

/**
 * An integer from 0.
 */
export const Count: Schema.Codec<number> = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const Context = Schema.Record(Schema.String, Schema.Json)

export const Usage = Message.TokenUsage

const [, User, Assistant, Tool] = Message.Message.members

const checkMessages = (count: number) =>
  Effect.mapError(conversationCodec.checkCount(count), (error) => toSchemaIssue(error.problems, undefined))

/**
 * A conversation, in version 1 of its own wire, with at most `maxMessages`.
 */
const History: Schema.Codec<history.Conversation, unknown> = conversationCodec.Wire.pipe(
  Schema.decodeTo(Schema.declare(Conversation.isConversation), {
    decode: SchemaGetter.transformEffect((wire, options) =>
      Effect.flatMap(checkMessages(wire.messages.length), () =>
        Effect.mapError(
          Effect.fromResult(conversationCodec.readWire(wire)),
          (error) => new SchemaIssue.InvalidValue({ message: error.message }, wire.messages, options)
        )
      )
    ),
    encode: SchemaGetter.transformEffect((conversation) =>
      Effect.map(checkMessages(Conversation.messageCount(conversation)), () =>
        conversationCodec.writeWire(conversation)
      )
    )
  })
)

/**
 * Values below these places were written by models, tools and users: a key called
 * `password` there is data, not an option that holds a secret. The context of a run
 * and the provider options of messages are not among them.
 */
export const userData: ReadonlyArray<string> = [
  "/**/content/*/arguments",
  // Metadata of a provider
  "/**/content/*/options",
  "/**/requests/*/arguments",
  "/**/contract/parameters",
  "/**/contract/success",
  "/**/contract/failure",
  "/**/contracts/*/parameters",
  "/**/contracts/*/success",
  "/**/contracts/*/failure",
  "/**/event/arguments",
  "/**/events/*/arguments",
  "/**/status/arguments",
  "/**/status/approved/arguments",
  "/**/result/value",
  "/**/output/value",
  "/**/outcome/output",
  "/**/facts/**/output",
  "/**/facts/**/payload",
  "/**/facts/**/request/arguments",
  "/**/message/metadata",
  "/**/message/response/metadata",
  "/**/messages/*/metadata",
  "/**/messages/*/response/metadata"
]

export const ApprovalRequest = Schema.Struct({
  callId: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  digest: Schema.String,
  path: Schema.optionalKey(Schema.Array(Schema.String))
}).annotate({ identifier: "ApprovalRequest" })

export type ApprovalRequest = typeof ApprovalRequest.Type

/** The terms of a decision. `digest` is that of the request. */
const terms = {
  digest: Schema.String,
  reason: Schema.optionalKey(Schema.String),
  decidedBy: Schema.optionalKey(Schema.String),
  expiresAt: Schema.optionalKey(Time)
}

/** A decision, without the name of what it is about. */
export const Verdict = Schema.Struct({ approved: Schema.Boolean, ...terms })

export type Verdict = typeof Verdict.Type

export const Decision = Schema.Struct({
  callId: Schema.String,
  digest: Schema.String,
  approved: Schema.Boolean,
  reason: Schema.optional(Schema.String),
  decidedBy: Schema.optional(Schema.String),
  expiresAt: Schema.optional(Time),
  path: Schema.optional(Schema.Array(Schema.String))
}).annotate({ identifier: "Decision" })

export interface Decision extends Schema.Schema.Type<typeof Decision> {}

export const Outcome = Schema.TaggedUnion({
  Completed: { output: Schema.optionalKey(Schema.Json) },
  MaxSteps: {},
  AwaitingApproval: { requests: Schema.NonEmptyArray(ApprovalRequest) },
  Interrupted: { reason: Schema.optionalKey(Schema.String) },
  InvalidOutput: { issues: Schema.Array(PayloadError.Problem) },
  Stopped: { finishReason: StopReason }
}).annotate({ identifier: "Outcome" })

export type Outcome = typeof Outcome.Type

const { approval, annotations, failure, name, parameters, success } = ToolContract.ToolContract.fields

/** The contract of a call as it was when the call was made: what is compared when the run is resumed under another definition. */
export const CallContract = Schema.Struct({
  name,
  parameters,
  success,
  failure,
  approval,
  annotations,
  digest: Schema.String
}).annotate({ identifier: "CallContract" })

export interface CallContract extends Schema.Schema.Type<typeof CallContract> {}

/** The parts of a definition by their places: short digests, and plain texts where they are short. For people. */
export const Parts = Schema.Record(Schema.String, Schema.String)

export type Parts = typeof Parts.Type

/**
 * The part of a state that a resume compares: the newest definition of the run, its parts, and the contracts that calls were made for. A state
 * from before these were recorded has none.
 */
const Basis = Schema.Struct({
  definition: Schema.String,
  parts: Schema.optionalKey(Parts),
  contracts: Schema.Array(CallContract)
})

export interface Basis extends Schema.Schema.Type<typeof Basis> {}

/** The definition that a run continues with. */
export const DefinitionChange = Schema.Struct({
  definition: Schema.String,
  parts: Parts,
  structured: Schema.optionalKey(StructuredSteps),
  changes: Schema.Array(ToolContract.Change)
})

export interface DefinitionChange extends Schema.Schema.Type<typeof DefinitionChange> {}

const at = Time

const OwnEvent = Schema.Union([
  Schema.TaggedStruct("RunStarted", {
    at,
    runId: Schema.String,
    agent: Schema.String,
    definition: Schema.String,
    depth: Count,
    maxSteps: MaxSteps,
    structured: StructuredSteps,
    context: Context,
    conversation: History,
    parts: Schema.optionalKey(Parts),
    contracts: Schema.optionalKey(Schema.Array(CallContract))
  }),
  Schema.TaggedStruct("InputAdded", { at, message: User, maxSteps: MaxSteps }),
  Schema.TaggedStruct("ConversationFitted", { at, view: History, report: reduction.ReductionReport }),
  Schema.TaggedStruct("StepStarted", { at, step: Count, purpose: Purpose }),
  Schema.TaggedStruct("ModelAnswered", {
    at,
    message: Assistant,
    output: Schema.optionalKey(OutputCheck),
    outputCall: Schema.optionalKey(Schema.String),
    contracts: Schema.optionalKey(Schema.Array(CallContract))
  }),
  Schema.TaggedStruct("AnswerDiscarded", { at, usage: Usage }),
  Schema.TaggedStruct("ModelMistaken", { at, problem: Schema.String }),
  Schema.TaggedStruct("ProgressSaved", {
    at,
    facts: Schema.Array(Schema.Json),
    requests: Schema.Array(ApprovalRequest),
    limited: Schema.Boolean,
    usage: Schema.optionalKey(Usage)
  }),
  Schema.TaggedStruct("ApprovalRequested", {
    at,
    callId: Schema.String,
    name: Schema.optionalKey(Schema.String),
    arguments: Schema.Json,
    digest: Schema.String,
    contract: Schema.optionalKey(CallContract)
  }),
  Schema.TaggedStruct("ApprovalDecided", { at, callId: Schema.String, ...Verdict.fields }),
  Schema.TaggedStruct("ToolStarted", {
    at,
    callId: Schema.String,
    idempotent: Schema.optionalKey(Schema.Literal(true)),
    contract: Schema.optionalKey(CallContract)
  }),
  Schema.TaggedStruct("ToolFinished", {
    at,
    message: Tool,
    durationMillis: Schema.optionalKey(Schema.Finite),
    cause: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("RunInterrupted", { at, reason: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("RunFinished", { at, outcome: Outcome }),
  Schema.TaggedStruct("RunResumed", {
    at,
    maxSteps: Schema.optionalKey(MaxSteps),
    context: Schema.optionalKey(Context),
    change: Schema.optionalKey(DefinitionChange)
  })
])

interface ChildEvent {
  readonly _tag: "ChildEvent"
  readonly at: DateTime.Utc
  readonly callId: string
  readonly event: Event
}

export type Event = typeof OwnEvent.Type | ChildEvent

/** One of the events, by its tag. */
export type EventOf<Tag extends Event["_tag"]> = Extract<Event, { readonly _tag: Tag }>

/** An event without its version. */
export const Event: Schema.Codec<Event, unknown> = Schema.Union([
  ...OwnEvent.members,
  Schema.TaggedStruct("ChildEvent", {
    at,
    callId: Schema.String,
    event: Schema.suspend((): Schema.Codec<Event, unknown> => Event)
  })
])

const Approved = Schema.TaggedStruct("Approved", { arguments: Schema.Json, ...terms })

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
  /** The digest of its contract, which is one of those in the `basis` of the state. */
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
  purpose: Purpose,
  finishReason: Schema.optionalKey(Schema.String),
  calls: Count,
  outputCall: Schema.Boolean,
  output: Schema.optionalKey(OutputCheck)
})

/** An array on the wire. In memory appending a fact costs the same however many there are. */
const Facts: Schema.Codec<Chunk.Chunk<Schema.Json>, unknown> = Schema.Array(Schema.Json).pipe(
  Schema.decodeTo(Schema.Chunk(Schema.Json), {
    decode: SchemaGetter.transform((facts) => Chunk.fromIterable(facts)),
    encode: SchemaGetter.transform((facts) => Chunk.toReadonlyArray(facts))
  })
)

/**
 * The progress of an answer that comes from no model, from a plan for example. `facts` are
 * in order, `requests` are those without a decision, `decisions` those that are not facts yet.
 */
const Progress = Schema.Struct({
  facts: Facts,
  requests: Schema.Array(ApprovalRequest),
  decisions: Schema.Array(Decision)
})

export type Progress = typeof Progress.Type

const StateBody = Schema.Struct({
  runId: Schema.String,
  agent: Schema.String,
  definition: Schema.String,
  depth: Count,
  context: Context,
  conversation: History,
  view: Schema.optional(History),
  maxSteps: MaxSteps,
  structured: StructuredSteps,
  steps: Count,
  totalSteps: Count,
  usage: Usage,
  calls: Schema.Array(
    Schema.Struct({ callId: Schema.String, status: CallStatus, contract: Schema.optionalKey(Schema.String) })
  ),
  pending: Schema.Array(Schema.Struct({ message: User, maxSteps: MaxSteps })),
  answer: Schema.optional(Answer),
  limited: Schema.Boolean,
  step: Schema.optional(Schema.Struct({ step: Count, purpose: Purpose })),
  mistakes: Schema.Array(Schema.String),
  progress: Schema.optional(Progress),
  fresh: Schema.Boolean,
  basis: Schema.optional(Basis),
  interrupted: Schema.optional(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optional(Outcome),
  startedAt: Time,
  updatedAt: Time,
  revision: Count
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

/**
 * The digest of a request: of the contract of its tool, of its arguments, and of the place that asks, so that no other
 * request has it.
 */
export const requestDigest = (request: {
  readonly place: ReadonlyArray<string>
  readonly contract: string
  readonly arguments: Schema.Json
}): Effect.Effect<string> =>
  // JSON.stringify escapes lone surrogates, which canonical JSON refuses
  Effect.orDie(Digest.sha256(Result.getOrElse(Digest.canonicalize(request), () => JSON.stringify(request))))

/**
 * The digest of a call of the newest answer. It covers the id of the message, because ids of calls repeat in other conversations,
 * and the agent, because another one can have the same conversation.
 */
export const callDigest = (
  { conversation, definition }: State,
  callId: string,
  request: { readonly contract: string; readonly arguments: Schema.Json }
): Effect.Effect<string> =>
  requestDigest({ place: [definition, history.asHistory(conversation).lastAssistant?.id ?? "", callId], ...request })

/**
 * The call whose request, as a person reads it in the state, has another digest than the state claims, if any. States from
 * before contracts were recorded cannot be checked.
 */
const forgedRequest = Effect.fnUntraced(function* (state: State) {
  if (state.basis === undefined) return undefined
  for (const { contract = "", part, status } of state.calls) {
    const asked = status._tag === "Started" ? status.approved : status
    if (asked?._tag !== "AwaitingApproval" && asked?._tag !== "Approved") continue
    const digest = yield* callDigest(state, part.id, { contract, arguments: asked.arguments })
    if (digest !== asked.digest) return part.id
  }
  return undefined
})

/** A state without its version. */
export const StateSchema: Schema.Codec<State, unknown> = StateBody.pipe(
  Schema.decodeTo(Schema.declare(isState), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const refuse = (message: string) => Effect.fail(new SchemaIssue.InvalidValue({ message }, body, options))
      const calls = joinCalls(body)
      if (typeof calls === "string") return refuse(calls)
      const state = new State({ ...body, calls })
      return Effect.flatMap(forgedRequest(state), (forged) =>
        forged === undefined
          ? Effect.succeed(state)
          : refuse(`the digest of the request for the call ${JSON.stringify(forged)}`)
      )
    }),
    encode: SchemaGetter.transform(bodyOf)
  })
)
