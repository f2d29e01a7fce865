/**
 * The states of runs, each written once as the Schema of its newest wire. A step of a plan can be an agent, and a plan can answer in
 * place of the model of an agent, so this one file has the states of agents and of plans.
 */

import * as Chunk from "effect/Chunk"
import * as Data from "effect/Data"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { format } from "effect/Formatter"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as Pipeable from "effect/Pipeable"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as Digest from "../../payload/Digest.ts"
import { hashText } from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import type * as ToolResults from "../../tool/ToolResult.ts"
import type { RequestTerms } from "../../tool/internal/requestTerms.ts"
import * as budgetRequest from "./budgetRequest.ts"
import { activeAgent } from "./handoffs.ts"
import * as ledger from "./ledger.ts"
import * as planRunParts from "./planRunParts.ts"
import * as repetition from "./repetition.ts"
import * as runRequests from "./runRequests.ts"
import type { Rejoin } from "./stepFlow.ts"
import * as runValues from "./runValues.ts"

export * from "./runEvents.ts"

export * from "./runValues.ts"

const [, User, , Tool] = Message.Message.members
const System = Message.Message.members[0]

/** The answers to the questions that the handler of a call has asked. */
const answers = Schema.optionalKey(Schema.Array(runRequests.Answered))

const Requested = Schema.TaggedStruct("Requested", { answers })

const Approved = Schema.TaggedStruct("Approved", { arguments: Schema.Json, ...runRequests.terms, answers }).annotate({
  identifier: "ApprovedCall"
})

const AwaitingApproval = Schema.TaggedStruct("AwaitingApproval", {
  arguments: Schema.Json,
  digest: Schema.String,
  ask: Schema.optionalKey(runRequests.Ask),
  bounds: Schema.optionalKey(runRequests.Bounds),
  /** The approval of the call whose handler asks. */
  approved: Schema.optionalKey(Approved),
  answers
})

export type CallStatus =
  | typeof Requested.Type
  | typeof AwaitingApproval.Type
  | typeof Approved.Type
  | { readonly _tag: "Settled"; readonly result: ToolResults.ToolResult }
  | {
      readonly _tag: "Started"
      /** It may run again. */
      readonly idempotent?: true
      /** Its approval, with which it runs again. */
      readonly approved?: typeof Approved.Type
      readonly answers?: ReadonlyArray<runRequests.Answered>
      readonly child?: State
    }

export interface OpenCall {
  readonly part: Message.ToolCallPart
  readonly status: CallStatus
  /** The digest of its contract, which the `basis` of the state holds. */
  readonly contract?: string
  /** A person was asked for it, and has decided. */
  readonly asked?: true
  /** The arguments that guards have put in place of the arguments of the model. */
  readonly replaced?: Schema.Json
}

const CallStatus: Schema.Codec<CallStatus, unknown> = Schema.Union([
  Requested,
  AwaitingApproval,
  Approved,
  Schema.TaggedStruct("Settled", { result: Tool.fields.result }),
  Schema.TaggedStruct("Started", {
    idempotent: Schema.optionalKey(Schema.Literal(true)),
    approved: Schema.optionalKey(Approved),
    answers,
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
  maxEmpty: Schema.optionalKey(runValues.Count),
  /** The limits of calls that repeat; absent where they are the default. */
  repeatedCalls: Schema.optionalKey(repetition.RepeatedCalls)
})

/**
 * A model call under way. `attempt` is the number of the newest attempt of its model, absent for the first, and `reserved` its reservation
 * in a run with a budget.
 */
const Step = Schema.Struct({
  step: runValues.Count,
  purpose: runValues.Purpose,
  attempt: Schema.optionalKey(runValues.Count),
  reserved: Schema.optionalKey(ledger.Amounts)
})

/** The question about a limit of a budget. */
const AskedAbout = Schema.Struct({
  about: budgetRequest.About,
  arguments: Schema.Json,
  digest: Schema.String,
  ask: runRequests.Ask,
  bounds: Schema.optionalKey(runRequests.Bounds)
})

type AskedAbout = typeof AskedAbout.Type

/** The limit of a budget that ends the run, or, with `asked`, that the run waits for an answer about. */
const Exceeded = Schema.Struct({ ...ledger.Usage, asked: Schema.optionalKey(AskedAbout) })

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
    Schema.Struct({
      callId: Schema.String,
      status: CallStatus,
      contract: Schema.optionalKey(Schema.String),
      asked: Schema.optionalKey(Schema.Literal(true)),
      replaced: Schema.optionalKey(Schema.Json)
    })
  ),
  pending: Schema.Array(
    Schema.Struct({ message: User, maxSteps: runValues.MaxSteps, instructions: Schema.optionalKey(System) })
  ),
  answer: Schema.optional(Answer),
  limited: Schema.Boolean,
  step: Schema.optional(Step),
  /** The model that the run continued with, where that is not the first of its agent. */
  model: Schema.optional(Schema.String),
  mistakes: Schema.Array(Schema.String),
  plan: Schema.optional(Schema.suspend((): Schema.Codec<PlanState, unknown> => PlanStateSchema)),
  /** Oldest first; absent for a run without handoffs. */
  handoffs: Schema.optional(Schema.Array(runValues.Handoff)),
  fresh: Schema.Boolean,
  basis: Schema.optional(runValues.Basis),
  interrupted: Schema.optional(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  account: Schema.optional(ledger.Account),
  exceeded: Schema.optional(Exceeded),
  refused: Schema.optional(Schema.Struct(runValues.Refusal)),
  held: Schema.optional(Schema.Array(runValues.Held)),
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
  readonly model: StateFields["model"]
  readonly mistakes: StateFields["mistakes"]
  readonly plan: StateFields["plan"]
  readonly handoffs: StateFields["handoffs"]
  readonly fresh: StateFields["fresh"]
  readonly basis: StateFields["basis"]
  readonly interrupted: StateFields["interrupted"]
  readonly account: StateFields["account"]
  readonly exceeded: StateFields["exceeded"]
  readonly refused: StateFields["refused"]
  readonly held: StateFields["held"]
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
    this.model = fields.model
    this.mistakes = fields.mistakes
    this.plan = fields.plan
    this.handoffs = fields.handoffs
    this.fresh = fields.fresh
    this.basis = fields.basis
    this.interrupted = fields.interrupted
    this.account = fields.account
    this.exceeded = fields.exceeded
    this.refused = fields.refused
    this.held = fields.held
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
    : "expected one status for each open call of the conversation, and no other status"
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
  { ask, bounds, budget, contract, digest, reason, request }: planRunParts.Question,
  input: planRunParts.ResolvedInput | undefined
): boolean => {
  if (budget !== undefined && ask !== undefined) {
    return isForgedLimit({ about: budget, arguments: { question: reason ?? "" }, ask, digest })
  }
  // From before it was recorded
  if (contract === undefined) return false
  const asked = request === undefined ? { reason: reason ?? "", ...input } : request.arguments
  return digestOf({ place, contract, arguments: asked, ...termsOf(ask, bounds) }) !== digest
}

/** The part of what a request asks for that its digest covers. */
export const termsOf = (ask: runRequests.Ask | undefined, bounds?: runRequests.Bounds | RequestTerms | undefined) =>
  defined({ schema: ask?.schema, number: ask?.number, deciders: bounds?.deciders, otherwise: bounds?.otherwise })

const digestOf = ({
  arguments: args,
  contract,
  deciders,
  number,
  otherwise,
  place,
  schema
}: CallRequest & { readonly place: ReadonlyArray<string> }): string => {
  const request = { place, contract, arguments: args, ...defined({ schema, number, deciders, otherwise }) }
  // JSON.stringify escapes lone surrogates, which canonical JSON refuses
  const text = Result.getOrElse(Digest.canonicalize(request), () => JSON.stringify(request))
  return hashText(JSON.stringify(text))
}

/** The question where a limit of a budget refuses a call, if the budget asks. Runs that ask about one limit have the same question. */
export const askAbout = ({ more, of, ...usage }: ledger.Limit): AskedAbout | undefined => {
  if (more === undefined || of === undefined) return undefined
  const about = { ...usage, of, more }
  const question = { about, ...budgetRequest.questionOf(about) }
  return { ...question, digest: digestOfLimit(question) }
}

const digestOfLimit = ({ about, arguments: args, ask }: Omit<AskedAbout, "digest">): string => {
  const { limit, more, of, scope, unit } = about
  return digestOf({ place: [of, scope, unit, `${limit}`, `${more}`], contract: "", arguments: args, ...termsOf(ask) })
}

/** True for a question that has, as a person reads it, another digest than it claims. */
export const isForgedLimit = (asked: AskedAbout): boolean => digestOfLimit(asked) !== asked.digest

interface CallRequest {
  readonly contract: string
  readonly arguments: Schema.Json
  readonly schema?: Readonly<Record<string, Schema.Json>>
  readonly number?: number
  readonly deciders?: ReadonlyArray<string>
  readonly otherwise?: Schema.Json
}

/** The digest of what equal requests have in common: the `RunContext`, and all that a request asks but its place. */
export const equalDigest = (context: State["context"], request: CallRequest): string =>
  digestOf({ place: [JSON.stringify(Result.getOrElse(Digest.canonicalize(context), () => context))], ...request })

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
    ask,
    arguments: args,
    bounds,
    contract = "",
    digest
  }: Pick<runRequests.Asked, "arguments" | "ask" | "bounds" | "digest"> & Partial<CallRequest>
): boolean =>
  state.basis !== undefined &&
  digestOfCall(state, callId, { contract, arguments: args, ...termsOf(ask, bounds) }) !== digest

/** The call whose request is forged, if any. */
const forgedRequest = (state: State): string | undefined => {
  const about = state.exceeded?.asked
  if (about !== undefined && isForgedLimit(about)) return budgetRequest.name
  return state.calls.find(({ contract, part, status }) => {
    const asked = status._tag === "Started" ? status.approved : status
    if (asked?._tag !== "AwaitingApproval" && asked?._tag !== "Approved") return false
    return isForged(state, part.id, { ...asked, ...defined({ contract }) })
  })?.part.id
}

/** The request to a person about a value that is held. */
export const heldRequest = ({ bounds, digest, guards, id, reason }: runValues.Held): runRequests.Request => ({
  _tag: "Pause",
  callId: id,
  name: guards[0],
  arguments: { reason },
  digest,
  ...defined({ bounds })
})

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

/** A sequence inside a step. Its output takes its place when it ends. */
export type Item =
  | { readonly _tag: "Open"; readonly frame: Frame }
  | { readonly _tag: "Done"; readonly output: Schema.Json }

/** The items of a step by number, from 0 on. An item is found and changed without a walk through the others. */
export type Items = HashMap.HashMap<number, Item>

/** The agent, the plan or the block of items that runs inside a step. */
export type Child =
  | { readonly _tag: "Agent"; readonly state: State }
  | { readonly _tag: "Plan"; readonly state: PlanState }
  | { readonly _tag: "Block"; readonly items: Items }

const isItems = (u: unknown): u is Items => HashMap.isHashMap(u)

/** In the order of their numbers. */
export const listItems = (items: Items): ReadonlyArray<Item> =>
  Array.from({ length: HashMap.size(items) }, (_, index) => HashMap.getUnsafe(items, index))

const ItemsWire: Schema.Codec<Items, unknown> = Schema.Array(
  Schema.Union([
    Schema.TaggedStruct("Open", { frame: Schema.suspend(() => FrameWire) }),
    Schema.TaggedStruct("Done", { output: Schema.Json })
  ])
).pipe(
  Schema.decodeTo(Schema.declare(isItems), {
    decode: SchemaGetter.transform((items) => HashMap.fromIterable(items.entries())),
    encode: SchemaGetter.transform(listItems)
  })
)

const ChildWire: Schema.Codec<Child, unknown> = Schema.Union([
  Schema.TaggedStruct("Agent", { state: Schema.suspend(() => StateSchema) }),
  Schema.TaggedStruct("Plan", { state: Schema.suspend(() => PlanStateSchema) }),
  Schema.TaggedStruct("Block", { items: ItemsWire })
]).annotate({ identifier: "StepChild" })

const optionalChild = Schema.optionalKey(ChildWire)

/** The decision about a step that paused. */
const optionalDecision = Schema.optionalKey(runRequests.Verdict)

/**
 * A step of the current turn.
 *
 * **Details**
 *
 * `usage` adds up what ran inside it in this turn, failed attempts and earlier processes
 * included; the `usage` of the state includes it. `asked` counts what it asked for in this turn,
 * `question` is the newest of that, `answers` are those to its questions, and `input` is what it was given then, where it reads a
 * memory. `status`:
 *
 * - `Waiting`: it has not started since the run was started or resumed. `child` is what
 *   runs inside it and is resumed, `attempt` the number of an attempt that was cut off, if it was not
 *   the first. `decision` is that about its question: a call that was approved runs as it is.
 * - `Running`: it runs, or ran when the process died. `attempt` counts its attempts.
 * - `Finished`: it returned an output. It does not run again in this turn.
 * - `Failed`: it failed, after its retries. A resumed run runs it again.
 * - `Paused`: it waits for a resume or a decision about its question, or, without one, for a
 *   call or step inside its `child`.
 * - `Concluded`: it ended the whole plan with an answer.
 */
export const Member = Schema.Struct({
  step: Schema.String,
  usage: runValues.Usage,
  asked: Schema.optionalKey(runValues.Count),
  question: Schema.optionalKey(planRunParts.Question),
  answers: Schema.optionalKey(Schema.Array(runRequests.Answered)),
  input: Schema.optionalKey(planRunParts.ResolvedInput),
  status: Schema.Union([
    Schema.TaggedStruct("Waiting", {
      attempt: Schema.optionalKey(runValues.Count),
      child: optionalChild,
      decision: optionalDecision
    }),
    Schema.TaggedStruct("Running", {
      attempt: runValues.Count,
      startedAt: runValues.Time,
      child: optionalChild,
      decision: optionalDecision
    }),
    Schema.TaggedStruct("Finished", { record: planRunParts.StepRecord }),
    Schema.TaggedStruct("Failed", { failure: planRunParts.StepFailure, child: optionalChild }),
    Schema.TaggedStruct("Paused", { child: optionalChild, decision: optionalDecision }),
    Schema.TaggedStruct("Concluded", { answer: Schema.String })
  ])
})

export type Member = typeof Member.Type

/** The steps of one turn, in declared order. A member is found and changed without a walk through the others. */
export class Turn extends Data.Class<{
  readonly steps: ReadonlyArray<string>
  readonly byStep: HashMap.HashMap<string, Member>
  /** The number of members that have not finished. */
  readonly open: number
}> {
  get members(): ReadonlyArray<Member> {
    return this.steps.map((step) => HashMap.getUnsafe(this.byStep, step))
  }
}

export const isOpen = ({ status }: Member): boolean => status._tag !== "Finished"

export const makeTurn = (members: ReadonlyArray<Member>): Turn =>
  new Turn({
    steps: members.map(({ step }) => step),
    byStep: HashMap.fromIterable(members.map((member) => [member.step, member])),
    open: members.filter(isOpen).length
  })

/** The fields of a frame that have the same form in memory and on the wire. The order of the fields is the one of a written state. */
const position = {
  cursor: Schema.optional(Schema.String),
  turn: Schema.optional(Schema.Struct({ members: Schema.Array(Member) })),
  choosing: Schema.optional(Schema.String),
  rejoins: Schema.Array(Schema.Struct({ router: Schema.String, rejoin: Schema.String })),
  iterations: runValues.Count
}

const records = Schema.Array(planRunParts.StepRecord)

const FrameBody = Schema.Struct({ ...position, history: records })

type FrameBody = typeof FrameBody.Type

/**
 * A sequence of steps under way. {@link State} documents the fields: it is the frame of the steps of the plan itself.
 */
export interface Frame {
  readonly cursor?: string | undefined
  readonly turn?: Turn | undefined
  readonly choosing?: string | undefined
  readonly rejoins: ReadonlyArray<Rejoin>
  readonly iterations: number
  readonly history: Chunk.Chunk<planRunParts.StepRecord>
  readonly latest: HashMap.HashMap<string, number>
  readonly previous?: number | undefined
}

const PlanBody = Schema.Struct({
  runId: Schema.String,
  plan: Schema.String,
  digest: Schema.String,
  depth: runValues.Count,
  context: runValues.Context,
  input: planRunParts.ResolvedInput,
  ...position,
  maxIterations: Schema.Int,
  history: records,
  writes: Schema.Array(Schema.Struct({ key: Schema.String, record: runValues.Count })),
  usage: runValues.Usage,
  basis: planRunParts.Basis,
  account: Schema.optional(ledger.Account),
  exceeded: Schema.optional(Schema.Struct(ledger.Usage)),
  interrupted: Schema.optional(Schema.Struct({ reason: Schema.optionalKey(Schema.String) })),
  outcome: Schema.optional(planRunParts.Outcome),
  startedAt: runValues.Time,
  updatedAt: runValues.Time,
  revision: runValues.Count
})

export interface PlanFields extends Frame, Omit<typeof PlanBody.Type, keyof Frame | "writes"> {
  readonly writes: HashMap.HashMap<string, number>
}

/**
 * The state of a run.
 *
 * **Details**
 *
 * - `cursor`: the step that comes next, or whose turn it is; absent when none is left.
 * - `turn`: the steps of that turn once it has begun: one step, or the members of a
 *   parallel group (a band). It is applied as a whole: `history` holds none of it before
 *   all of it has finished. A step can hold items: sequences with a cursor, a turn and a history of their own.
 * - `choosing`: a step that has finished (it is in `history`) and whose route has not
 *   been chosen yet; `cursor` is that step, too.
 * - `rejoins`: the branches that are taken, the newest last.
 * - `iterations`: the number of turns that have begun. It is a part of the id and the digest of what a step asks for.
 * - `history`: the records of finished steps, in order; `latest` finds the newest record of
 *   a step, `writes` the record behind a key that a step writes.
 * - `previous`: the record that `fromPrev` reads, absent for the input.
 * - `basis`: the parts of the newest definition of the run, which an edited one is compared with.
 * - `account`: what a run with a budget of its own has used, see `Budget`. `exceeded`: the limit that an answer has ended the run at.
 *
 * States are compared by value. A logged state shows its position and no output of steps.
 *
 * @category models
 * @since 0.1.0
 */
export class PlanState extends Data.Class<PlanFields> implements Inspectable.Inspectable {
  /** The fields are copied once, and `changes` over them: every event makes a state. */
  constructor(fields: PlanFields, changes: Partial<PlanFields> = {}) {
    super(fields)
    Object.assign(this, changes)
  }

  /**
   * @since 0.1.0
   */
  toJSON() {
    return {
      _id: "PlanRunState",
      runId: this.runId,
      plan: this.plan,
      iterations: this.iterations,
      finished: Chunk.size(this.history),
      revision: this.revision,
      ...(this.cursor === undefined ? undefined : { cursor: this.cursor }),
      ...(this.outcome === undefined ? undefined : { outcome: this.outcome._tag })
    }
  }

  /**
   * @since 0.1.0
   */
  override toString(): string {
    return JSON.stringify(this.toJSON())
  }

  /**
   * @since 0.1.0
   */
  [Inspectable.NodeInspectSymbol]() {
    return this.toJSON()
  }
}

/** The fields that a frame or state without them has as `undefined`, so that equal states have the same keys. */
const absentInFrame = { cursor: undefined, turn: undefined, choosing: undefined, previous: undefined }
export const absent = {
  ...absentInFrame,
  account: undefined,
  exceeded: undefined,
  interrupted: undefined,
  outcome: undefined
}

const frameOf = ({ history, turn, ...body }: FrameBody) => ({
  ...absentInFrame,
  ...body,
  turn: turn && makeTurn(turn.members),
  history: Chunk.fromIterable(history),
  latest: HashMap.fromIterable(history.map(({ step }, index) => [step, index])),
  previous: history.length === 0 ? undefined : history.length - 1
})

/** The fields that are not on the wire as they are in memory. */
const wireOf = ({ history, turn }: Pick<Frame, "history" | "turn">): Pick<FrameBody, "history" | "turn"> => ({
  ...(turn && { turn: { members: turn.members } }),
  history: Chunk.toReadonlyArray(history)
})

const isFrame = (u: unknown): u is Frame => Predicate.hasProperty(u, "history") && Chunk.isChunk(u.history)

/** The frame of an item. What can be wrong with it depends on its run, and is found with the state. */
const FrameWire: Schema.Codec<Frame, unknown> = FrameBody.pipe(
  Schema.decodeTo(Schema.declare(isFrame), {
    decode: SchemaGetter.transform(frameOf),
    encode: SchemaGetter.transform(({ latest: _latest, previous: _previous, ...frame }) => ({
      ...defined(frame),
      ...wireOf(frame)
    }))
  })
)

/** A state without its version. */
export const PlanStateSchema: Schema.Codec<PlanState, unknown> = PlanBody.pipe(
  Schema.decodeTo(Schema.instanceOf(PlanState), {
    decode: SchemaGetter.transformEffect((body, options) => {
      const problem = stateProblem(body)
      return problem === undefined
        ? Effect.succeed(
            new PlanState({
              ...absent,
              ...body,
              ...frameOf(body),
              writes: HashMap.fromIterable(body.writes.map(({ key, record }) => [key, record]))
            })
          )
        : Effect.fail(new SchemaIssue.InvalidValue({ message: problem }, body, options))
    }),
    encode: SchemaGetter.transform(({ latest: _latest, previous: _previous, ...state }) => ({
      ...defined(state),
      ...wireOf(state),
      // By place, so that equal states have equal text
      writes: Array.from(state.writes, ([key, record]) => ({ key, record })).sort(
        (a, b) => a.record - b.record || (a.key < b.key ? -1 : 1)
      )
    }))
  })
)

/** The problem of a body that no state was written with, or nothing. */
const stateProblem = (body: typeof PlanBody.Type): string | undefined => {
  const { history, writes } = body
  const missing = writes.find(({ record }) => record >= history.length)
  if (missing !== undefined) {
    return `expected that ${JSON.stringify(missing.key)} was written by one of ${history.length} records, got the place ${missing.record}`
  }
  if (new Set(writes.map(({ key }) => key)).size < writes.length) return "expected each key in writes once"
  return frameProblem(body, body)
}

/** The problem of a frame that no state was written with, or of a frame inside it, or nothing. */
const frameProblem = (
  run: Asking,
  self: Pick<FrameBody, "choosing" | "cursor" | "iterations" | "turn">,
  path: ReadonlyArray<string> = []
): string | undefined => {
  const { choosing, cursor, turn } = self
  const members = turn?.members ?? []
  const asking = askingIn(run, self, path)
  const forged = members.find((member) => isForgedStep(asking, member))
  if (forged !== undefined) {
    return `expected the digest of the request of the step ${JSON.stringify(forged.step)} as it is shown, got another digest`
  }
  const steps = members.map(({ step }) => step)
  if (turn !== undefined && (steps.length === 0 || steps[0] !== cursor)) {
    return "expected a turn that begins with the step at the cursor"
  }
  if (new Set(steps).size < steps.length) return "expected each step of the turn once"
  if (choosing !== undefined && (choosing !== cursor || turn !== undefined)) {
    return "expected that the step whose route is to be chosen is at the cursor, and no turn"
  }
  return framesIn(members)
    .map(({ frame, place }) => frameProblem(run, frame, [...path, ...place]))
    .find(Predicate.isNotUndefined)
}

/** The open items of members, with the place of each. */
export const framesIn = (members: ReadonlyArray<Member>) =>
  members.flatMap(({ status, step }) => {
    const child = childOf(status)
    const items = child?._tag === "Block" ? listItems(child.items) : []
    return items.flatMap((item, index) =>
      item._tag === "Open" ? [{ frame: item.frame, place: [step, String(index)] }] : []
    )
  })

/** The parts of every result of a run of an agent. */
export interface ResultBase {
  /** The text of the last answer. */
  readonly text: string
  readonly conversation: history.Conversation
  /** The tokens of the whole run, agents inside included. */
  readonly usage: Message.TokenUsage
  /** The answers of the model in the whole run. */
  readonly steps: number
  /** The name of the agent that has the conversation: the agent that was asked, or the agent of the last handoff. */
  readonly activeAgent: string
  /** The state, from which the run can be resumed. */
  readonly state: State
}

/** The result of a run that ended without an answer. */
export type Incomplete = runValues.Ended<ResultBase, Exclude<runValues.Outcome, { readonly _tag: "Completed" }>>

export const resultBaseOf = (state: State): ResultBase => {
  const { conversation, totalSteps: steps, usage } = state
  const last = history.asHistory(conversation).lastAssistant
  const text = last === undefined ? "" : Message.text(last)
  return { text, conversation, usage, steps, activeAgent: activeAgent(state), state }
}

/** The run inside a step of the current turn, if there is one. */
export const childOf = (status: Member["status"]): Child | undefined => ("child" in status ? status.child : undefined)

/** The turn of a step in its frame. */
export const turnOf = ({ iterations }: Pick<Frame, "iterations">, step: string): string => `${step}:${iterations}`

/** The place in its run of what a step asks for: its turn. */
export const placeOf = (state: Pick<PlanState, "iterations" | "runId">, step: string): readonly [string, string] => [
  state.runId,
  turnOf(state, step)
]

/** The run and the frame whose step asks. `path` is the place of the frame in the run, absent for the steps of the plan itself. */
export interface Asking extends Pick<PlanState, "depth" | "iterations" | "runId"> {
  readonly path?: ReadonlyArray<string>
}

export const askingIn = (
  { depth, runId }: Asking,
  { iterations }: Pick<Frame, "iterations">,
  path: ReadonlyArray<string> = []
): Asking => ({ depth, runId, iterations, path })

export const isForgedStep = (
  asking: Asking,
  { input, question, step }: Pick<Member, "input" | "question" | "step">
): boolean => {
  const { path = [], runId } = asking
  return question !== undefined && isForgedQuestion([runId, ...path, turnOf(asking, step)], question, input)
}

/** The reservations of the open model calls of a run, and of the runs inside it. */
export const reservedIn = ({ calls, plan, step }: State): ledger.Amounts => {
  const inCalls = calls.map(({ status }) =>
    status._tag === "Started" && status.child !== undefined ? reservedIn(status.child) : {}
  )
  return [...inCalls, plan === undefined ? {} : reservedInFrame(plan)].reduce(ledger.add, step?.reserved ?? {})
}

export const reservedInFrame = ({ turn }: Frame): ledger.Amounts =>
  (turn?.members ?? []).map(reservedInMember).reduce(ledger.add, {})

const reservedInMember = (member: Member): ledger.Amounts => {
  const child = childOf(member.status)
  switch (child?._tag) {
    case undefined:
      return {}
    case "Agent":
      return reservedIn(child.state)
    case "Plan":
      return reservedInFrame(child.state)
    case "Block":
      return framesIn([member])
        .map(({ frame }) => reservedInFrame(frame))
        .reduce(ledger.add, {})
  }
}
