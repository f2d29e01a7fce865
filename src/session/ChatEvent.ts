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
import * as Schema from "effect/Schema"
import type * as Run from "../agent/Run.ts"
import * as Message from "../conversation/Message.ts"
import { plainSchema } from "../payload/internal/problems.ts"
import { defined } from "../payload/internal/values.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as runTransition from "../run/internal/runTransition.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as sessionEvents from "./internal/sessionEvents.ts"

const at = runParts.Time

/** The steps of plans and the ids of the calls that run the agents around, from the outermost one; absent for the session's own. */
const path = Schema.optionalKey(Schema.Array(Schema.String))

/** An error as users see it. */
const problem = { category: sessionEvents.Category, message: Schema.String }

const Body = Schema.TaggedUnion({
  MessageReceived: { at, messageId: Schema.String, content: ToolResult.NonEmptyContent },
  MessageTaken: { at, messageId: Schema.String },
  TurnStarted: { at },
  AnswerStarted: { at, path },
  Answered: {
    at,
    path,
    id: Schema.String,
    content: Schema.Array(Message.AssistantPart),
    finishReason: Schema.optionalKey(Schema.String)
  },
  AnswerDiscarded: { at, path },
  ApprovalRequested: {
    at,
    path,
    callId: Schema.String,
    name: Schema.optionalKey(Schema.String),
    arguments: Schema.Json,
    shown: Schema.optionalKey(Schema.String),
    digest: Schema.String
  },
  ApprovalDecided: {
    at,
    path,
    callId: Schema.String,
    approved: Schema.Boolean,
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
  TurnFinished: {
    at,
    outcome: Schema.Literals(["Completed", "MaxSteps", "AwaitingApproval", "Interrupted", "InvalidOutput", "Stopped"]),
    output: Schema.optionalKey(Schema.Json),
    requests: Schema.optionalKey(Schema.Array(sessionEvents.Request))
  },
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
 * - `MessageReceived`: a message of the user is stored. `MessageTaken`: its turn has begun.
 * - `TurnStarted`: a turn begins, or continues after a crash.
 * - `AnswerStarted`: the model is asked. It is sent after 100 milliseconds, or with what comes sooner; of an agent in a step of a
 *   plan, too. Where the session's agent is a plan, one without a path is the beginning of the plan.
 * - `Answered`: an answer of the model: text, files, sources, tool calls, and reasoning where the options keep it. `id`
 *   is the id of the message. `AnswerDiscarded`: the answer that was under way does not count, and another answer
 *   follows.
 * - `ApprovalRequested`: a call of the tool `name` waits; an event from before names were recorded has none. `callId` is the id
 *   of the call in the answer. `shown` is the text of name and arguments for a person, with hidden characters as escapes. A decision is `{ callId, digest, path, approved }`.
 * - `ApprovalDecided`: a person decided. The model reads its `reason`.
 * - `ToolStarted`, `ToolFinished`: a tool call runs, and has ended. `result` is there unless the options leave it out.
 * - `TurnFinished`: the turn ended. `requests` are the calls that wait for approval, with the same `shown`. `output` is the output of a plan, or of an
 *   agent with an `output` schema.
 * - `TurnFailed`: the turn failed, with the class of the error and a text for the user. `messageId` is the message that the turn
 *   did not take. With `isHeld` the turn could not begin, and the messages `held` wait: `withdraw` drops one.
 * - `MessageDropped`: a message was received, but cannot be part of the conversation. It is not answered.
 * - `ConversationRewound`: a message was edited. It and everything after it are no longer part of the conversation: remove
 *   them from the page. The new message follows.
 * - `SessionForked`: the session continues another one. The messages before are in `Session.history`.
 * - `DecisionsDropped`: decisions about these calls were received, but do not count. The calls that still wait need others.
 *
 * The work of agents and plans in the steps of a plan is shown, too, with the steps as `path`. A step that pauses, and a
 * tool that is a step, is an `ApprovalRequested`; the `arguments` of a pause are its reason.
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
   * Keeps what agents do that are tools of the session's agent. Default: `false`, which keeps their requests for approval and
   * the decisions only.
   */
  readonly subAgents?: boolean | undefined
}

const plainContent = ([first, ...others]: ToolResult.NonEmptyContent): ToolResult.NonEmptyContent => {
  const plain = ({ options: _, ...part }: ToolResult.Content): ToolResult.Content => part
  return [plain(first), ...others.map(plain)]
}

/** Without options of providers, and without the names of all tools, which the failure of an unknown one lists. */
const plainResult = (name: string, result: ToolResult.ToolResult): ToolResult.ToolResult => {
  if (result._tag === "Success") return { ...result, content: plainContent(result.content) }
  const { content, type } = result
  if (type === "unknown_tool") return ToolResult.failure(type, `Unknown tool ${JSON.stringify(name)}.`)
  return { ...result, ...(content === undefined ? undefined : { content: plainContent(content) }) }
}

/** Without options of providers, and without the call that carries a structured output. */
const partsOf = (
  { message, outputCall }: runParts.EventOf<"ModelAnswered">,
  { reasoning = false, results = true }: Options
): ReadonlyArray<Message.AssistantPart> =>
  message.content.flatMap((part): ReadonlyArray<Message.AssistantPart> => {
    const isLeftOut =
      (part.type === "reasoning" && !reasoning) ||
      (part.type === "tool-result" && !results) ||
      (part.type === "tool-call" && part.id === outputCall)
    const { options: _, ...plain } = part
    if (isLeftOut) return []
    return [plain.type === "tool-result" ? { ...plain, result: plainResult(plain.name, plain.result) } : plain]
  })

const ofOutcome = (outcome: Run.Outcome) => {
  const { _tag } = outcome
  if (_tag === "Completed") return { outcome: _tag, ...defined({ output: outcome.output }) }
  return {
    outcome: _tag,
    ...(_tag === "AwaitingApproval" ? { requests: outcome.requests.map(sessionEvents.showRequest) } : undefined)
  }
}

const isDecision = ({ _tag }: Run.Event): boolean => _tag === "ApprovalRequested" || _tag === "ApprovalDecided"

/** The path of an event. `isCalled`: one of the agents around is a tool. */
interface Around {
  readonly path: ReadonlyArray<string>
  readonly isCalled: boolean
}

const inside = ({ isCalled, path }: Around, id: string, isCall: boolean): Around => ({
  path: [...path, id],
  isCalled: isCalled || isCall
})

/** A plan records a decision again when it continues: the first record is an event of the agent that the plan is. */
const ofPlan = (event: runParts.PlanRunEvent, around: Around, options: Options): ChatEvent | undefined => {
  switch (event._tag) {
    case "AgentChanged":
      return runTransition.isDecision(event.event)
        ? undefined
        : ofRun(event.event, inside(around, event.step, false), options)
    case "NestedChanged":
      return ofPlan(event.event, inside(around, event.step, false), options)
    case "StepPaused": {
      const { at, callId, question, step } = event
      if (question === undefined || callId === undefined) return undefined
      const { digest, reason, request = { name: step, arguments: { reason: reason ?? "" } } } = question
      const shown = sessionEvents.shownOf(request.name, request.arguments)
      return { _tag: "ApprovalRequested", at, ...pathOf(around), callId, ...request, shown, digest }
    }
    default:
      return undefined
  }
}

const pathOf = ({ path }: Around) => (path.length === 0 ? undefined : { path })

/** An event of a later version. The compiler refuses one of this version. */
const unknown = (_: never): undefined => undefined

const ofRun = (event: Run.Event, around: Around, options: Options): ChatEvent | undefined => {
  if (event._tag === "ChildEvent") return ofRun(event.event, inside(around, event.callId, true), options)
  if (event._tag === "PlanEvent") return ofPlan(event.event, around, options)
  if (around.isCalled && options.subAgents !== true && !isDecision(event)) return undefined
  const at = runTransition.timeOf(event)
  const within = pathOf(around)
  const isOutermost = around.path.length === 0
  switch (event._tag) {
    case "RunStarted":
    case "RunResumed":
      return isOutermost ? { _tag: "TurnStarted", at } : undefined
    case "StepStarted":
      return { _tag: "AnswerStarted", at, ...within }
    case "ModelAnswered": {
      const { finishReason, id } = event.message
      return { _tag: "Answered", at, ...within, id, content: partsOf(event, options), ...defined({ finishReason }) }
    }
    case "AnswerDiscarded":
      return { _tag: "AnswerDiscarded", at, ...within }
    case "ApprovalRequested": {
      const { arguments: args, callId, digest, name } = event
      const asked = { callId, ...defined({ name }), arguments: args, shown: sessionEvents.shownOf(name, args), digest }
      return { _tag: "ApprovalRequested", at, ...within, ...asked }
    }
    case "ApprovalDecided": {
      const { approved, callId, reason } = event
      return { _tag: "ApprovalDecided", at, ...within, callId, approved, ...defined({ reason }) }
    }
    case "ToolStarted":
      return { _tag: "ToolStarted", at, ...within, callId: event.callId }
    case "ToolFinished": {
      const { callId, name, result } = event.message
      const shown = options.results === false ? undefined : { result: plainResult(name, result) }
      return { _tag: "ToolFinished", at, ...within, callId, name, succeeded: result._tag === "Success", ...shown }
    }
    case "RunFinished":
      return isOutermost ? { _tag: "TurnFinished", at, ...ofOutcome(event.outcome) } : undefined
    case "ConversationRewound":
      return isOutermost ? { _tag: "ConversationRewound", at, messageId: event.messageId } : undefined
    case "InputAdded":
    case "ConversationFitted":
    case "ModelMistaken":
    case "RunInterrupted":
      return undefined
    default:
      return unknown(event)
  }
}

const problemOf = ({ category }: sessionEvents.Failure) => ({
  category,
  message: sessionEvents.publicMessages[category]
})

const of = (event: sessionEvents.Event, options: Options): ChatEvent | undefined => {
  switch (event._tag) {
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
      return error.reason === sessionEvents.interrupted
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
    case "ResumeReceived":
    case "SessionUpdated":
      return undefined
    default:
      return unknown(event)
  }
}

/**
 * Selects the events that a front end sees, and the parts of them. For `Stream.filterMap`.
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
  (entry: sessionEvents.Entry): Result.Result<Entry, sessionEvents.Entry> => {
    const event = of(entry.event, options)
    return event === undefined ? Result.fail(entry) : Result.succeed({ ...entry, event })
  }
