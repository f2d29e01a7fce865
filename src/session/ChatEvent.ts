/**
 * The events of a session for a front end.
 *
 * **When to use**
 *
 * Use it in every route that sends events of sessions to a browser. The events of `Session.events` are the log of the server:
 * they hold the system message, the `RunContext`, the contracts of tools, the texts of errors and the names of the people who
 * decided. {@link project} keeps what a user may see.
 *
 * **Example** (Events of a session as lines of JSON)
 *
 * ```ts
 * import { Effect, Layer, Schema, Stream } from "effect"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { ChatEvent, Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support", { instructions: "Never mention refunds." })
 *
 * const program = Effect.gen(function*() {
 *   yield* Session.ask("chat/42", "Hello, I am Ada.", { context: { tenant: "acme" } })
 *   const events = Session.events("chat/42").pipe(
 *     Stream.filterMap(ChatEvent.project()),
 *     Stream.takeUntil(({ event }) => event._tag === "TurnFinished"),
 *     Stream.mapEffect((entry) => Schema.encodeEffect(Schema.fromJsonString(ChatEvent.Entry))(entry))
 *   )
 *   return yield* Stream.mkString(events)
 * })
 *
 * const sessions = Session.layer([support]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }]))
 * )
 * const text = await Effect.runPromise(Effect.provide(program, sessions))
 * assert.ok(text.includes("Welcome, Ada!"))
 * assert.ok(!text.includes("refunds") && !text.includes("acme"))
 * ```
 *
 * @since 0.1.0
 */

import * as Result from "effect/Result"
import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import { type AgentEvent, showOutput } from "../agent/AgentEvent.ts"
import type * as Run from "../agent/Run.ts"
import * as Message from "../conversation/Message.ts"
import { plainSchema } from "../payload/internal/problems.ts"
import { applyLines } from "../payload/internal/partialValue.ts"
import { defined } from "../payload/internal/values.ts"
import * as ledger from "../run/internal/ledger.ts"
import * as planRunParts from "../run/internal/planRunParts.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as runRequests from "../run/internal/runRequests.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as drafts from "./internal/drafts.ts"
import * as events from "./internal/events.ts"
import { plainContent, plainParts, plainResult } from "./internal/shownParts.ts"

const at = runParts.Time

/** The steps of plans and the ids of the calls that run the agents around, from the outermost one; absent for the session's own. */
const path = Schema.optionalKey(Schema.Array(Schema.String))

/** An error as users see it. */
const problem = { category: events.Category, message: Schema.String }

const Body = Schema.TaggedUnion({
  MessageReceived: { at, messageId: Schema.String, content: ToolResult.NonEmptyContent },
  MessageTaken: { at, messageId: Schema.String },
  TurnStarted: { at },
  AnswerStarted: { at, path },
  Answered: {
    at,
    path,
    messageId: Schema.String,
    content: Schema.Array(Message.AssistantPart),
    finishReason: Schema.optionalKey(Schema.String),
    model: Schema.optionalKey(Schema.String),
    usage: Schema.optionalKey(runParts.Usage)
  },
  AnswerDiscarded: { at, path },
  AnswerDelta: {
    path,
    turn: Schema.String,
    messageId: Schema.String,
    part: runParts.Count,
    type: Schema.Literals(["text", "reasoning", "tool-call"]),
    call: Schema.optionalKey(Schema.Struct({ id: Schema.String, name: Schema.String })),
    offset: runParts.Count,
    delta: Schema.String
  },
  OutputDelta: {
    path,
    turn: Schema.String,
    messageId: Schema.String,
    offset: runParts.Count,
    delta: Schema.String
  },
  AnswerWithdrawn: { messageId: Schema.String },
  Requested: { at, request: events.Request },
  Decided: {
    at,
    path,
    callId: Schema.String,
    approved: Schema.Boolean,
    answer: Schema.optionalKey(Schema.Json),
    reason: Schema.optionalKey(Schema.String)
  },
  ToolStarted: { at, path, callId: Schema.String },
  ToolFinished: {
    at,
    path,
    callId: Schema.String,
    name: Schema.String,
    succeeded: Schema.Boolean,
    result: Schema.optionalKey(ToolResult.ToolResult)
  },
  HandedOff: { at, path, agent: Schema.String },
  PlanStep: { at, path: Schema.Array(Schema.String), status: Schema.Literals(["running", "finished", "failed"]) },
  TurnFinished: {
    at,
    outcome: runParts.OutcomeTag,
    output: Schema.optionalKey(Schema.Json),
    requests: Schema.optionalKey(Schema.Array(events.Request)),
    batch: Schema.optionalKey(runRequests.BatchName),
    budget: Schema.optionalKey(Schema.Struct(ledger.Usage)),
    refusal: Schema.optionalKey(Schema.Struct({ guard: Schema.String, reason: Schema.String }))
  },
  BudgetNeared: { at, ...ledger.Usage },
  TurnFailed: {
    at,
    ...problem,
    messageId: Schema.optionalKey(Schema.String),
    isHeld: Schema.optionalKey(Schema.Literal(true)),
    held: Schema.optionalKey(Schema.NonEmptyArray(Schema.String))
  },
  MessageDropped: { at, messageId: Schema.String, ...problem },
  ConversationRewound: { at, messageId: Schema.String },
  SessionForked: { at },
  DecisionsDropped: { at, calls: Schema.Array(Schema.Struct({ callId: Schema.String, path })), ...problem }
})

/**
 * One event for a front end.
 *
 * **Details**
 *
 * - `MessageReceived`: a message of the user is stored. `MessageTaken`: its turn has begun, or it has entered the turn of another one.
 * - `TurnStarted`: a turn begins, or continues after a crash.
 * - `AnswerStarted`: the model is asked. It is sent after 100 milliseconds, or with what comes sooner; of an agent in a step of a
 *   plan, too. Where the session's agent is a plan, one without a path is the beginning of the plan.
 * - `Answered`: an answer of the model: text, files, sources, tool calls, and reasoning where the options keep it.
 *   `messageId` is its id, `model` the name of the model as its provider reports it (of a list of models as the agent has it, where the
 *   provider does not), and `usage` are the tokens that the provider reports. `AnswerDiscarded`: the answer that was under way does
 *   not count, and another answer follows.
 * - `AnswerDelta`: a piece of an answer that a model is writing, of `Session.live`: `delta` follows the first `offset` characters of the
 *   `part`. `turn` is the id of the message of the user that it answers. `Answered` with the same `messageId` takes the place of
 *   all its pieces. Parts have their numbers in the stored message, so parts that are not shown leave gaps. The pieces of a `tool-call`
 *   are its arguments as text, and `call` has its id and its name. `AnswerWithdrawn`: remove the pieces with this id, if there are any.
 * - `OutputDelta`: parts of the structured output that an answer has, for {@link partialOutput}. `delta` follows the first `offset` characters
 *   of the parts. It has lines of JSON: `[path, value]` is a value that is complete and valid, `[path, text, 1]` is more of a text, and `[[]]`
 *   removes all.
 * - `Requested`: the `request` waits for a decision, see `Run.Request`. The `callId` of a request to approve a call is the id of the
 *   call in the answer. `shown` is the text of name and arguments for a person, with hidden characters as escapes.
 * - `Decided`: a person decided. The model reads its `reason`.
 * - `ToolStarted`, `ToolFinished`: a tool call runs, and has ended. `result` is there unless the options leave it out.
 * - `HandedOff`: the conversation was passed on. The `agent` answers from here on.
 * - `PlanStep`: a step of a plan runs, has finished, or has failed. The last text of `path` is the step.
 * - `TurnFinished`: the turn ended. `requests` are what waits, with the same `shown`. `batch` names the requests for yes or no among
 *   them (`Approval`, `Pause`), where there are several: decisions about all of them with its digest count as one, see `Run.batch`. `output`
 *   is the output of a plan, or of an agent with an `output` schema. `budget` is the limit that ended the turn as `BudgetExceeded`,
 *   `refusal` the guard that ended the turn as `Refused`, and its reason.
 * - `BudgetNeared`: 80 % of this limit of a budget are used, see `Budget`.
 * - `TurnFailed`: the turn failed, with the class of the error and a text for the user. `messageId` is the message that the turn
 *   did not take. With `isHeld` the turn could not begin, and the messages `held` wait: `withdraw` drops one.
 * - `MessageDropped`: a message was received, but cannot be part of the conversation. It is not answered.
 * - `ConversationRewound`: a message was edited. It and everything after it are no longer part of the conversation: remove
 *   them from the page. The new message follows.
 * - `SessionForked`: the session continues another one. The messages before are in `Session.history`.
 * - `DecisionsDropped`: decisions about these calls were received, but do not count. The calls that still wait need others.
 *
 * The work of agents and plans in the steps of a plan is shown, too, with the steps as `path`. Of an agent that is a tool, the requests and
 * decisions are shown, and `ToolFinished` of the calls that a person was asked for.
 *
 * @category models
 * @since 0.1.0
 */
export const ChatEvent: Schema.Codec<ChatEvent, unknown> = plainSchema(Body)

/**
 * One event for a front end.
 *
 * @category models
 * @since 0.1.0
 */
export type ChatEvent = typeof Body.Type

const EntryBody = Schema.Struct({ sequence: runParts.Count, cursor: Schema.String, event: Body })

/**
 * An event with the sequence number and the `cursor` that it has in the session, see `Session.Entry`. Events that front ends do
 * not see leave gaps in the numbers.
 *
 * @category models
 * @since 0.1.0
 */
export const Entry: Schema.Codec<Entry, unknown> = plainSchema(EntryBody)

/** @since 0.1.0 */
export interface Entry extends Schema.Schema.Type<typeof EntryBody> {}

/**
 * Options of {@link project}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** Keeps the reasoning of the model. Default: `false`. */
  readonly reasoning?: boolean | undefined
  /** Keeps the results of tools. Default: `true`. */
  readonly results?: boolean | undefined
  /**
   * Keeps what agents do that are tools of the session's agent. Default: `false`, which keeps their requests for approval, the
   * decisions, and the ends of the calls that a person was asked for.
   */
  readonly subAgents?: boolean | undefined
}

const ofOutcome = (outcome: Run.Outcome) => {
  const { _tag } = outcome
  if (_tag === "Completed") return { outcome: _tag, ...defined({ output: outcome.output }) }
  if (_tag === "BudgetExceeded") {
    const { _tag: _, ...budget } = outcome
    return { outcome: _tag, budget }
  }
  if (_tag === "Refused") return { outcome: _tag, refusal: { guard: outcome.guard, reason: outcome.reason } }
  if (_tag !== "AwaitingApproval") return { outcome: _tag }
  const { requests } = outcome
  return { outcome: _tag, requests: requests.map(events.showRequest), ...runRequests.batchIn(requests) }
}

/** True for the events that front ends see of hidden agents: requests, decisions, and the ends of the calls that they are about. */
const isAsked = (event: Run.Event): boolean =>
  event._tag === "ApprovalRequested" ||
  event._tag === "ApprovalDecided" ||
  (event._tag === "ToolFinished" && event.asked === true)

/** The path of an event. `isCalled`: one of the agents around is a tool. */
interface Around {
  readonly path: ReadonlyArray<string>
  readonly isCalled: boolean
}

const inside = ({ isCalled, path }: Around, id: string, isCall: boolean): Around => ({
  path: [...path, id],
  isCalled: isCalled || isCall
})

const stepStatus = {
  StepStarted: "running",
  StepRetried: "running",
  StepFinished: "finished",
  StepConcluded: "finished",
  StepFailed: "failed"
} as const

const ofStep = (
  event: { readonly at: DateTime.Utc; readonly step?: string; readonly record?: { readonly step: string } },
  status: (typeof stepStatus)[keyof typeof stepStatus],
  { path }: Around
): ChatEvent => ({ _tag: "PlanStep", at: event.at, path: [...path, event.step ?? event.record?.step ?? ""], status })

const ofPlan = (event: runParts.PlanRunEvent, around: Around, options: Options): ChatEvent | undefined => {
  switch (event._tag) {
    case "AgentChanged":
      return ofRun(event.event, inside(around, event.step, false), options)
    case "NestedChanged":
      return ofPlan(event.event, inside(around, event.step, false), options)
    case "StepPaused": {
      const { at, callId, question, step } = event
      if (question === undefined || callId === undefined) return undefined
      return requested(at, planRunParts.requestOf(callId, step, question), around)
    }
    case "StepDecided":
      return decided(event, around)
    case "StepStarted":
    case "StepRetried":
    case "StepFinished":
    case "StepConcluded":
    case "StepFailed":
      return around.isCalled && options.subAgents !== true ? undefined : ofStep(event, stepStatus[event._tag], around)
    default:
      return undefined
  }
}

const decided = (
  { answer, approved, at, callId, reason }: Omit<runParts.EventOf<"ApprovalDecided">, "_tag">,
  around: Around
): ChatEvent => ({
  _tag: "Decided",
  at,
  ...pathOf(around),
  callId,
  approved,
  ...defined({ answer, reason })
})

const pathOf = ({ path }: Around) => (path.length === 0 ? undefined : { path })

const requested = (at: DateTime.Utc, request: Run.Request, around: Around): ChatEvent => ({
  _tag: "Requested",
  at,
  request: events.showRequest({ ...request, ...pathOf(around) })
})

const toolFinished = (
  at: DateTime.Utc,
  { callId, name, result }: Pick<Message.ToolMessage, "callId" | "name" | "result">,
  around: Around,
  options: Options
): ChatEvent => {
  const shown = options.results === false ? undefined : { result: plainResult(name, result) }
  return { _tag: "ToolFinished", at, ...pathOf(around), callId, name, succeeded: result._tag === "Success", ...shown }
}

/** An event of a later version. The compiler refuses one of this version. */
const unknown = (_: never): undefined => undefined

const ofRun = (event: Run.Event, around: Around, options: Options): ChatEvent | undefined => {
  if (event._tag === "ChildEvent") return ofRun(event.event, inside(around, event.callId, true), options)
  if (event._tag === "PlanEvent") return ofPlan(event.event, around, options)
  if (around.isCalled && options.subAgents !== true && !isAsked(event)) return undefined
  const at = runParts.timeOf(event)
  const within = pathOf(around)
  const isOutermost = around.path.length === 0
  switch (event._tag) {
    case "RunStarted":
    case "RunResumed":
      return isOutermost ? { _tag: "TurnStarted", at } : undefined
    case "StepStarted":
      return { _tag: "AnswerStarted", at, ...within }
    case "ModelAnswered": {
      const { message, outputCall } = event
      const { finishReason, id: messageId, model, usage } = message
      const content = plainParts(message.content, { ...options, outputCall })
      return { _tag: "Answered", at, ...within, messageId, content, ...defined({ finishReason, model, usage }) }
    }
    case "AnswerDiscarded":
      return { _tag: "AnswerDiscarded", at, ...within }
    case "ApprovalRequested":
      return requested(at, runRequests.requestOf(event), around)
    case "ApprovalDecided":
      return decided(event, around)
    case "ToolStarted":
      return { _tag: "ToolStarted", at, ...within, callId: event.callId }
    case "ToolFinished":
      return toolFinished(at, event.message, around, options)
    case "HandedOff":
      return { _tag: "HandedOff", at, ...within, agent: event.agent }
    case "RunFinished":
      return isOutermost ? { _tag: "TurnFinished", at, ...ofOutcome(event.outcome) } : undefined
    case "ConversationRewound":
      return isOutermost ? { _tag: "ConversationRewound", at, messageId: event.messageId } : undefined
    case "InputAdded":
    case "ConversationFitted":
    case "ModelMistaken":
    case "StepRetried":
    case "RunInterrupted":
    case "BudgetExceeded":
    case "GuardUsed":
      return undefined
    case "GuardDecided":
      return event.held && requested(at, runParts.heldRequest(event.held), around)
    case "BudgetNeared":
      return isOutermost ? event : undefined
    default:
      return unknown(event)
  }
}

const problemOf = ({ category }: events.Failure) => ({
  category,
  message: events.publicMessages[category]
})

const of = (event: events.LiveEntry["event"], options: Options): ChatEvent | undefined => {
  switch (event._tag) {
    case "AnswerDelta": {
      const { isSubAgent, ...delta } = event
      if (delta.type === "reasoning" && options.reasoning !== true) return undefined
      // The call of a structured output is hidden, and a draft has the name of the call alone
      if (delta.call !== undefined && runParts.isOutputTool(delta.call.name)) return undefined
      return isSubAgent === true && options.subAgents !== true ? undefined : delta
    }
    case "OutputDelta": {
      const { isSubAgent, ...delta } = event
      return isSubAgent === true && options.subAgents !== true ? undefined : delta
    }
    case "AnswerWithdrawn":
      return event
    case "MessageReceived": {
      const { at, input, messageId } = event
      return { _tag: "MessageReceived", at, messageId, content: plainContent(input) }
    }
    case "RunEvent":
      return event.event._tag === "InputAdded" && event.messageId !== undefined
        ? { _tag: "MessageTaken", at: event.event.at, messageId: event.messageId }
        : ofRun(event.event, { path: [], isCalled: false }, options)
    case "TurnFailed": {
      const { at, error, held, isHeld, messageId } = event
      return error.reason === events.interrupted
        ? { _tag: "TurnFinished", at, outcome: "Interrupted" }
        : { _tag: "TurnFailed", at, ...problemOf(error), ...defined({ messageId, isHeld, held }) }
    }
    case "MessageDropped":
      return { _tag: "MessageDropped", at: event.at, messageId: event.messageId, ...problemOf(event.error) }
    case "DecisionsDropped": {
      const calls = event.decisions.map(({ callId, path }) => ({ callId, ...defined({ path }) }))
      return { _tag: "DecisionsDropped", at: event.at, calls, ...problemOf(event.error) }
    }
    case "SessionForked":
      return { _tag: "SessionForked", at: event.at }
    case "DecisionsReceived":
    case "AnswersForgotten":
    case "ResumeReceived":
    case "SessionUpdated":
      return undefined
    default:
      return unknown(event)
  }
}

/**
 * Selects the events that a front end sees, and the parts of them. For `Stream.filterMap`, of `Session.events` and of `Session.live`.
 *
 * **Details**
 *
 * It looks at one event at a time, so a reader may begin anywhere. What it does not know it leaves out: an event that a later
 * version of a session adds is not sent before this module has a form for it.
 *
 * @category combinators
 * @since 0.1.0
 */
export const project =
  (options: Options = {}) =>
  <E extends events.LiveEntry>(entry: E): Result.Result<Entry, E> => {
    const event = of(entry.event, options)
    return event === undefined ? Result.fail(entry) : Result.succeed({ ...entry, event })
  }

/** The event in a view of a run, without what the model is writing. */
const ofView = (view: AgentEvent<unknown>, around: Around, options: Options): ChatEvent | undefined => {
  if (view._tag === "Child") {
    return ofView(view.event, inside(around, view.callId, view.state.plan === undefined), options)
  }
  if (view._tag === "StateChanged") return ofRun(view.event, around, options)
  if (view._tag === "ApprovalRequested") return requested(view.state.updatedAt, view.request, around)
  const isOutermost = around.path.length === 0
  const isHidden = around.isCalled && options.subAgents !== true
  if (isHidden && !(view._tag === "ToolFinished" && view.asked === true)) return undefined
  switch (view._tag) {
    case "RunStarted":
      return isOutermost ? { _tag: "TurnStarted", at: view.state.updatedAt } : undefined
    case "StepStarted":
      return { _tag: "AnswerStarted", at: view.state.updatedAt, ...pathOf(around) }
    case "StepFinished": {
      const { message, state } = view
      const outputCall = runParts.outputCallIn(message)
      const event = { _tag: "ModelAnswered", at: state.updatedAt, message, ...defined({ outputCall }) } as const
      return ofRun(event, around, options)
    }
    case "ToolStarted":
      return { _tag: "ToolStarted", at: view.state.updatedAt, ...pathOf(around), callId: view.callId }
    case "ToolFinished":
      return toolFinished(view.state.updatedAt, view, around, options)
    case "HandedOff":
      return { _tag: "HandedOff", at: view.state.updatedAt, ...pathOf(around), agent: view.to }
    case "RunFinished": {
      const { outcome, updatedAt: at } = view.result.state
      return isOutermost && outcome !== undefined ? { _tag: "TurnFinished", at, ...ofOutcome(outcome) } : undefined
    }
    default:
      return undefined
  }
}

/** The answers that are being written, by their paths, with the lengths of their parts. It is changed in place. */
interface Written {
  turn: string
  readonly byPath: Map<string, { readonly messageId: string; readonly lengths: Map<number, number> }>
}

/** The pieces of answers in a view, and the withdrawal of the answer whose place another attempt takes. */
const piecesOf = (view: AgentEvent<unknown>, written: Written, around: Around): ReadonlyArray<drafts.Draft> => {
  const key = JSON.stringify(around.path)
  const { byPath, turn } = written
  switch (view._tag) {
    case "Child":
      return piecesOf(view.event, written, inside(around, view.callId, view.state.plan === undefined))
    case "StepFinished":
      byPath.delete(key)
      return []
    case "StepRetried": {
      const before = byPath.get(key)
      byPath.delete(key)
      return before === undefined ? [] : [{ _tag: "AnswerWithdrawn", messageId: before.messageId }]
    }
    case "StateChanged":
      if (around.path.length === 0 && view.event._tag === "InputAdded") written.turn = view.event.message.id
      return []
    case "RunFinished":
      return around.path.length > 0
        ? []
        : Array.from(byPath.values(), ({ messageId }) => ({ _tag: "AnswerWithdrawn", messageId }))
    case "TextDelta":
    case "ReasoningDelta":
    case "CallDelta":
    case "OutputDelta": {
      const { delta, messageId } = view
      const piece = drafts.pieceOf(view, turn, { path: around.path, ...(around.isCalled && { isSubAgent: true }) })
      const slot = drafts.slotOf(piece)
      const before = byPath.get(key)
      const isNew = before?.messageId !== messageId
      const { lengths } = isNew ? { lengths: new Map<number, number>() } : before
      const offset = lengths.get(slot) ?? 0
      byPath.set(key, { messageId, lengths: lengths.set(slot, offset + delta.length) })
      return [
        ...(isNew && before !== undefined ? [{ _tag: "AnswerWithdrawn", messageId: before.messageId } as const] : []),
        { ...piece, offset }
      ]
    }
    default:
      return []
  }
}

/**
 * The structured output that a model is writing, as far as its parts are complete and valid, and at the end of the turn the whole output.
 *
 * @category models
 * @since 0.1.0
 */
export interface PartialOutput {
  /** The id of the answer that it is in; absent at the end of the turn. */
  readonly messageId?: string
  /** The characters of the pieces that were taken. */
  readonly length: number
  /** The output as JSON. Keys may be missing, texts grow, and lists have their first items. */
  readonly value?: Schema.Json
}

/**
 * The structured output of a turn after one more event, `undefined` where none is shown. For `Stream.scan`, over the events of
 * `Session.live`, or of {@link projectRun}.
 *
 * **Details**
 *
 * A part is shown when it is complete and valid: a field, or an item of a list. Texts without checks grow. Parts stay as they are until
 * their answer is withdrawn or the turn ends without an output: then nothing is shown. The parts of another attempt begin anew.
 *
 * @category combinators
 * @since 0.1.0
 */
export const partialOutput = (before: PartialOutput | undefined, event: ChatEvent): PartialOutput | undefined => {
  if ("path" in event && event.path !== undefined) return before
  switch (event._tag) {
    case "OutputDelta": {
      const { delta, messageId, offset } = event
      const { length, value } = before?.messageId === messageId ? before : { length: 0, value: undefined }
      if (offset > length) return before
      const fresh = delta.slice(length - offset)
      return { messageId, length: length + fresh.length, ...defined({ value: applyLines(value, fresh) }) }
    }
    case "AnswerWithdrawn":
      return event.messageId === before?.messageId ? undefined : before
    case "TurnFinished":
      return event.output === undefined ? undefined : { length: 0, value: event.output }
    case "AnswerDiscarded":
    case "MessageTaken":
    case "TurnFailed":
    case "ConversationRewound":
      return undefined
    default:
      return before
  }
}

/**
 * The events for a front end of a run without a session: of `agent.stream` and `agent.resumeStream`. They are the events of a
 * turn of a session, without the events about its messages.
 *
 * **Example** (What a page sees of a run)
 *
 * ```ts
 * import { Effect, Stream } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ChatEvent } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support", { instructions: "Never mention refunds." })
 * const events = await support.stream("Hello, I am Ada.").pipe(
 *   ChatEvent.projectRun(),
 *   Stream.runCollect,
 *   Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }])),
 *   Effect.runPromise
 * )
 * assert.strictEqual(events.at(-1)?._tag, "TurnFinished")
 * assert.ok(!JSON.stringify(events).includes("refunds"))
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const projectRun =
  (options: Options = {}) =>
  <A, E, R>(self: Stream.Stream<AgentEvent<A>, E, R>): Stream.Stream<ChatEvent, E, R> =>
    Stream.mapAccum(
      showOutput(self),
      (): Written => ({ turn: "", byPath: new Map() }),
      (written, view) => {
        const event = ofView(view, { path: [], isCalled: false }, options)
        const pieces = piecesOf(view, written, { path: [], isCalled: false }).flatMap(
          (piece) => of(piece, options) ?? []
        )
        return [written, event === undefined ? pieces : [...pieces, event]]
      }
    )
