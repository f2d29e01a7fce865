/**
 * The home of a conversation with one agent or plan, under an id.
 *
 * **When to use**
 *
 * Use it for chats and other work that lasts longer than a request, a connection or a process. A session stores what
 * the user sent before the model is asked, runs one turn at a time, waits for approvals, and continues by itself after its
 * process died. {@link run} makes a job of an agent or a plan: it runs once under an id, and returns its typed result.
 *
 * **Details**
 *
 * A layer decides where sessions live: {@link layer} in this process, `ClusterSession.layer` on a fleet of
 * machines. The program is the same.
 *
 * A session stores its events in a journal, each with a sequence number that counts from 1. A reader that lost its
 * connection continues after the last event that it saw, by its `cursor`. The state of a session is the fold of its events.
 *
 * Messages are answered one after the other. A message that comes while a turn is under way waits for its end; a message
 * that comes while calls wait for approval enters the conversation when these calls are decided, or denies them
 * (`pending: "deny"`).
 *
 * A message that was stored is kept. A message whose turn cannot begin (its instructions, tools or model are not
 * available, or its definition has changed) is held: `TurnFailed` has the reason, and later messages are taken before
 * it. A held message is tried again with the next message of the same `context`, `model` and `definition`, with a
 * decision, a new definition, `resume`, the same `messageId`, and once in each process that opens the session, after a
 * deploy for example. `withdraw` drops it. An event reports the messages and decisions that are given up:
 * `MessageDropped`, `DecisionsDropped`.
 *
 * An edited agent continues its sessions, see `onChange` of `Agent.ResumeOptions`. Edited tools, models and limits hold
 * from the next step, and edited instructions from the next message: they are appended to the conversation as a later system
 * message. With the layer option `instructions: "first"` a session keeps the instructions that it began with.
 *
 * When a process dies in a turn, the turn continues when the session is opened again: a model call in flight is made again, a
 * tool call that had started is settled `interrupted` with `outcome: "unknown"`, unless the tool is `Idempotent`, and agents
 * and plans inside continue from their own states.
 *
 * **Example** (A chat)
 *
 * ```ts
 * import { Effect, Layer, Stream } from "effect"
 * import { Agent, Conversation, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support", { instructions: "You help customers." })
 *
 * const program = Effect.gen(function*() {
 *   const first = yield* Session.ask("chat/42", "Hello, I am Ada.")
 *   assert.strictEqual(first, "Welcome, Ada!")
 *
 *   const receipt = yield* Session.send("chat/42", "Thank you.")
 *   // any reader, now or later, sees the same events, to the end of the turn, also of one that fails
 *   yield* Stream.runDrain(Session.turnEvents("chat/42", receipt))
 *   const history = yield* Session.history("chat/42")
 *   assert.strictEqual(Conversation.messageCount(history), 5)
 * })
 *
 * const sessions = Session.layer([support]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }, { text: "You are welcome." }]))
 * )
 * await Effect.runPromise(Effect.provide(program, sessions))
 * ```
 *
 * @since 0.1.0
 */

import * as Arr from "effect/Array"
import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as EffectResult from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as Run from "../agent/Run.ts"
import type * as agentTypes from "../agent/internal/agentTypes.ts"
import * as Message from "../conversation/Message.ts"
import { hideContent, quote } from "../payload/internal/base.ts"
import { plainSchema } from "../payload/internal/problems.ts"
import * as callOptions from "../payload/internal/options.ts"
import { defined } from "../payload/internal/values.ts"
import type { PlanError } from "../plan/PlanError.ts"
import type * as PlanRun from "../plan/PlanRun.ts"
import type { Bound } from "../plan/Plan.ts"
import * as runParts from "../run/internal/runParts.ts"
import * as VersionedStore from "../store/VersionedStore.ts"
import * as localSessions from "./internal/localSessions.ts"
import * as cursors from "./internal/cursors.ts"
import { type Entry, interrupted, isDraft, type LiveEntry, withoutText } from "./internal/events.ts"
import { progressOf } from "./internal/progress.ts"
import * as job from "./internal/job.ts"
import * as types from "./internal/types.ts"
import * as service from "./internal/service.ts"
import type { PrunedPage, SharedPage } from "./internal/sharedUses.ts"
import type { Written } from "./internal/stepWrites.ts"

export {
  /**
   * A piece of an answer that a model is writing, or the withdrawal of the answer. See {@link live}.
   *
   * **Details**
   *
   * - `AnswerDelta`: the characters of `delta` follow the first `offset` of the part (in UTF-16 code units, as `length` counts). `messageId`
   *   is the id of the message that the draft becomes, which no other attempt of the model call has, `turn` the id of the newest message of
   *   the user before it, and `part` the index of the part in the content of the message. `type` is the type of
   *   the part; the characters of a call are its arguments as JSON, and `call` has its id and the name of the tool. `path` has the calls
   *   of agents that are tools, and the steps of plans, around the model; absent for the agent of the session. `isSubAgent` is there where
   *   an agent is a tool among them.
   * - `OutputDelta`: parts of the structured output that a draft has, as lines of JSON, see `ChatEvent.partialOutput`. The characters of
   *   `delta` follow the first `offset` of these lines.
   * - `AnswerWithdrawn`: no message with this id will come. Each piece of it is void.
   *
   * @category models
   * @since 0.1.0
   */
  Draft
} from "./internal/drafts.ts"

export {
  /**
   * The sessions of a list whose changes are read, see {@link ListOptions}. `limit` is the one of the first page.
   *
   * @category options
   * @since 0.1.0
   */
  type ListChangesOptions,
  /**
   * The sessions of a list. Filters select among the sessions that are read for the page; `prefix` limits what is read. Begin the
   * ids of a user's sessions with the same text, such as `"chat/ada/"`.
   *
   * @category options
   * @since 0.1.0
   */
  type ListOptions,
  /**
   * The title and the metadata of a session, for the user's list of chats. The model sees neither. What is left out stays.
   *
   * @category options
   * @since 0.1.0
   */
  type Details,
  /**
   * An operation on a session failed.
   *
   * **Details**
   *
   * | reason | meaning |
   * |---|---|
   * | `Busy` | the message was sent with `whenBusy: "reject"`, and a turn is under way, or `limit` messages wait (`maxQueue`); nothing was stored |
   * | `NotFound` | there is no session under the id |
   * | `Exists` | there is a session under the id, of this agent and with this status; nothing was stored |
   * | `AgentUnknown` | the layer has no agent with this name, or it has several and the message names none. `isStored`: the session exists, and its agent is not in this layer |
   * | `AgentDiffers` | the session is one with another agent |
   * | `ContextInvalid` | the agent declares a context, and the message has another one, with the problems by path; nothing was stored |
   * | `ContextDiffers` | the message has a context, and the layer sets another one for all messages (`run.context`); nothing was stored |
   * | `DefinitionInvalid` | the layer takes no definitions, has none with this digest, or no turn could run this one: its tools, models, options, signature or name are refused, or it has a secret. Nothing was stored. The failure of a turn where the host can no longer make the agent |
   * | `ModelRefused` | the layer does not allow the `model` of the message (`models`), its registry has not the model, or the session is one of a plan; nothing was stored |
   * | `InvalidDecision` | a decision is not about a call that waits, see `Run.InvalidDecision`; none was stored |
   * | `ArgumentInvalid` | an argument has another type than the operation takes: an `id` that is no text, or a title that is too long, for example; no option of the operation has a name; a session would begin under an id of no or more than 1,024 characters; nothing was stored |
   * | `InputInvalid` | the message cannot be part of a conversation, its `conversation` has open calls, or its context or conversation holds a secret or is not JSON; nothing was stored |
   * | `InputDiffers` | the session has received a message with this id and another content, context or conversation, or without `messageId` began with another one; nothing was stored |
   * | `MessageUnknown` | no user message of the conversation, and none that waits, has this id; nothing was stored |
   * | `EventsPruned` | the events after this place are no longer kept; `first` is the number of the oldest event that is, and `after` the cursor to read on from |
   * | `EventsUnknown` | no event has this cursor: it is none, the session was removed and begun again, or the cursor is ahead of the newest event (`isAhead`) |
   * | `Elsewhere` | another process has the session in a turn, or had it when it died and its lease (`leaseTime`) has not ended |
   * | `TurnFailed` | the turn that {@link turn} or {@link ask} waited for failed, or could not begin: then the message waits, and the same call with its `messageId` tries again |
   * | `WriteFailed` | the value of a step with `writes` could not be stored, as the failure of a turn. The step is done: `resume` writes its value first, and the step does not run again |
   * | `Unreachable` | the fleet or the server did not answer; the message may be stored: send it again with the same `messageId` |
   * | `Denied` | the server of `SessionHttp.layerClient` does not allow this caller the operation, which it names. An operation before it counts: {@link ask} sends its message before it reads events |
   * | `StoreFailed`, `Unreadable`, `Damaged`, `Refused` | the store failed, a record cannot be read, the journal contradicts itself, a value is refused, as in `VersionedStoreError` |
   *
   * `category` is the class of the error, for the status of a route, and `publicMessage` a text without details for the user:
   *
   * | category | the receiver can | status of HTTP |
   * |---|---|---|
   * | `invalid` | correct the call | 400 |
   * | `not-found` | begin anew | 404 |
   * | `conflict` | load the session again | 409 |
   * | `busy` | call again when the turn has ended | 429 |
   * | `unavailable` | call again later | 503 |
   * | `internal` | ask the operator, who finds the cause in the log | 500 |
   *
   * `TurnFailed` has the category of the turn's failure. A turn that fails is logged once, as an error, with its cause
   * and the id of the session.
   *
   * @category errors
   * @since 0.1.0
   */
  SessionError,
  /**
   * The message of a user: text, or text and file parts. For a plan it may also be the object that `Plan.run` takes: `task`,
   * `payload`, `context` and `content`. The message of the conversation has its task, or its payload as text, and its content. Without
   * `context` the plan has the text of the messages before. An agent that is no plan refuses an object with `InputInvalid`.
   *
   * @category models
   * @since 0.1.0
   */
  type Input,
  /**
   * Options of a message.
   *
   * @category options
   * @since 0.1.0
   */
  type SendOptions,
  /**
   * Options of {@link edit}.
   *
   * @category options
   * @since 0.1.0
   */
  type EditOptions,
  /**
   * Options of {@link fork}.
   *
   * @category options
   * @since 0.1.0
   */
  type ForkOptions,
  /**
   * The place from which {@link events} are read.
   *
   * @category options
   * @since 0.1.0
   */
  type EventsOptions,
  /**
   * The place from which {@link live} reads, and the least time between two pieces.
   *
   * @category options
   * @since 0.1.0
   */
  type LiveOptions,
  /**
   * Options of {@link history}.
   *
   * @category options
   * @since 0.1.0
   */
  type HistoryOptions,
  /**
   * The remembered answers that {@link forget} takes back.
   *
   * @category options
   * @since 0.1.0
   */
  type ForgetOptions,
  /**
   * A page of the values that sessions share.
   *
   * @category options
   * @since 0.1.0
   */
  type SharedOptions,
  /**
   * An agent or a bound plan, or an Effect that finds or makes one, as the class of an `Agent.Service` and `Plan.bind` do.
   *
   * @category models
   * @since 0.1.0
   */
  type Hosted,
  /**
   * A function that makes the agent of a definition, see {@link layer}.
   *
   * @category models
   * @since 0.1.0
   */
  type Definitions,
  /**
   * The services of an agent of a layer, and of the Effect that finds it.
   *
   * @category models
   * @since 0.1.0
   */
  type HostedServices,
  /**
   * The services of the agents of definitions, and of the function that makes them.
   *
   * @category models
   * @since 0.1.0
   */
  type DefinitionsServices,
  /**
   * The failure of the Effect that finds or makes an agent of a layer.
   *
   * @category models
   * @since 0.1.0
   */
  type HostedError,
  /**
   * Options that {@link layer} and `ClusterSession.layer` have in common.
   *
   * @category options
   * @since 0.1.0
   */
  type Options,
  /**
   * Options of all turns of a layer, as for `Agent.resume`, with hooks that know the session.
   *
   * **Details**
   *
   * `onEvent` receives each event of a run, one at a time and in order, when it is stored, and the turn waits for it.
   * `interruptWhen` is asked about the event after that: at its first answer the run ends as `Interrupted`, with the reason in
   * its stored end, and the next message begins the next turn. Both are called in turns that continue, too: after a decision,
   * a crash or on another process. A layer without them writes less often. `Session.turn` may return before the hooks have the last event.
   *
   * A hook that dies fails the turn with `TurnFailed`: the log has the cause, the events stay stored, and the next message or
   * `resume` continues. A hook that dies after the end of the run is only logged. A hook that is under way when the turn is
   * interrupted or its time is over is cut off, and receives nothing more of that turn.
   *
   * No event is delivered twice, and after a crash the last one may not have been delivered. The ends that a session writes
   * itself for a run that was stopped or cut off are not delivered; `ConversationRewound` of an edit is. `events` of the session misses nothing.
   *
   * **Example** (Stopping an expensive turn)
   *
   * ```ts
   * import { Effect } from "effect"
   * import { Agent, Session } from "effect-emissary"
   *
   * const support = Agent.make("support", { instructions: "You help customers." })
   *
   * const sessions = Session.layer([support], {
   *   run: {
   *     onEvent: ({ event, sequence }, id) => Effect.logDebug(`${id}: event ${sequence} is ${event._tag}`),
   *     interruptWhen: (_, state) => ((state.usage.outputTokens ?? 0) > 50_000 ? { reason: "too many tokens" } : undefined)
   *   }
   * })
   * ```
   *
   * @category options
   * @since 0.1.0
   */
  type TurnOptions
} from "./internal/types.ts"

export {
  /**
   * A summary of a session.
   *
   * **Details**
   *
   * | status | meaning |
   * |---|---|
   * | `idle` | it waits for a message |
   * | `running` | a turn is under way, or begins as soon as a process has the session |
   * | `waiting` | calls or steps wait for decisions: `requests`. After a `failure`, calls that were decided may be among them |
   *
   * - `title`, `metadata`: empty before they are set.
   * - `waitsFor`: a request has no decision yet: of a `person`, or only of a `client`, a front end that makes calls. Absent where nothing
   *   waits. It may be there while the session is `running`: other calls are under way.
   * - `created`, `updated`: the time of the beginning, and of the newest event.
   * - `messages`: the number of messages of the conversation. Messages that wait for their turns are not among them.
   * - `sequence`, `cursor`: the number and the cursor of the newest event.
   * - `requests`: what waits, see `Run.Request`. `shown` is the text of name and arguments for a person, with hidden characters as escapes, and
   *   the digest covers the arguments as they are.
   * - `batch`: the id and the digest of all requests that yes or no decides, where there are several, see `Run.batch`.
   * - `remembered`: the answers that equal requests have, too, because a decision had `remember`. `digest` names one for {@link forget}.
   * - `requestsOf`: the id of the message whose calls the `requests` are about.
   * - `queue`: the ids of messages that no turn has taken. After a `failure` they may wait in a session that is `idle`.
   * - `behindRequests`: the ids of messages that enter the conversation when the requests are decided, if there are any. They are not in
   *   `history` before.
   * - `outcome`: the end of the last turn, unless that failed with `failure`, and its details as in {@link Answer}: `output`, `reason`,
   *   `issues`, `finishReason`, and of `BudgetExceeded` `limit`, `scope`, `unit` and `used`, of `LoopDetected` `tools` and `times`,
   *   of `Refused` `guard`, `on` and `reason`.
   * - `definition`: the digest of the agent, where it is data.
   * - `steps`, `usage`: the answers of models, and their tokens, of the whole session.
   * - `budget`: what is left of the budgets of the session and of its turn, see `Budget.Line`; absent where there is none.
   *
   * @category models
   * @since 0.1.0
   */
  State,
  /**
   * The part of a session that a list shows, see {@link State}.
   *
   * @category models
   * @since 0.1.0
   */
  Listed,
  /**
   * Some of the sessions, newest first: the session whose rest ended last, by a message, a decision or a new title, is the first one.
   *
   * **Details**
   *
   * - `unreadable`: ids of sessions that cannot be read. They can be removed.
   * - `next`: the `after` of the next page, `None` on the last one. A page may have fewer sessions than its `limit`, or none,
   *   and still have a next one. A session that changes while pages are read moves to the front, and is on no later page; the
   *   others are listed once.
   *
   * @category models
   * @since 0.1.0
   */
  Page,
  /**
   * One change of the list of sessions.
   *
   * **Details**
   *
   * - `Page`: the list as it is. It comes first, and again where the stream had to begin again: show it in place of what is there.
   * - `Changed`: a session that is new or has changed. Show it at the front where it is new, or its `status` has become `running`.
   * - `Removed`: a session that is gone, or that the filters let through no longer.
   *
   * @category models
   * @since 0.1.0
   */
  ListChange,
  /**
   * A command took effect. {@link await} and {@link turnEvents} find the end of its turn.
   *
   * **Details**
   *
   * - `sequence`, `cursor`: the newest event that the command stored, or the newest event of the session where the command stored none.
   *   `events` reads on after it.
   * - `messageId`: the message, of `send` and `edit`. Their event is its `MessageReceived`.
   * - `isWaiting`: calls wait for approval, and the turn of the message comes after their decision.
   * - `isInterrupted`: `interrupt` has ended a turn or calls that waited. Without it there was nothing to stop.
   * - `isOfNewest`: the command began no turn of its own, so that its turn is the newest one of the session. Always of `update` and
   *   `fork`, of `interrupt` where there was nothing to stop, and of `decide` and `resume` where nothing was stored: the decisions
   *   are known, a turn is under way, or there is no message to answer. Also of a message with `ifExists: "resume"` in a fork whose other session began with it.
   *
   * @category models
   * @since 0.1.0
   */
  Receipt,
  /**
   * A message is stored: the receipt of `send` and `edit`, which has the id of the message.
   *
   * @category models
   * @since 0.1.0
   */
  MessageReceipt
} from "./internal/types.ts"

export {
  /**
   * An event with its sequence number, which counts from 1, and its `cursor`: a short text for readers that continue after it.
   * Unlike the number, it never names an event of another session that begins under the id after a removal.
   *
   * @category models
   * @since 0.1.0
   */
  Entry,
  /**
   * An entry that {@link live} reads: an event, or a draft. A draft has the number of the stored event before it.
   *
   * @category models
   * @since 0.1.0
   */
  LiveEntry,
  /**
   * One fact of a session.
   *
   * **Details**
   *
   * - `MessageReceived`: a message is stored; it waits until its turn begins. `messageId` is the one of `send`, which
   *   the message has in the conversation, too. `plan` has the payload and the context of a message that was sent as the input of
   *   a plan.
   * - `DecisionsReceived`: decisions about calls that wait are stored: of `decide`, or the remembered answer to an equal request.
   * - `AnswersForgotten`: remembered answers with these digests no longer count.
   * - `ResumeReceived`: a turn without a message is to begin, or these messages (`messageIds`), which were held, are tried again.
   * - `SessionForked`: the first event of a session that `fork` made. `from` and `cursor` are the other session and the place there,
   *   and `plan` has the state of its plan that the fork continues from.
   * - `SessionUpdated`: the title, the metadata or both are set.
   * - `RunEvent`: an event of the agent's run, see `Run.Event`. `messageId` is the id of the message that an
   *   `InputAdded` takes. An answer of the model is one `ModelAnswered`; its deltas are not stored and not sent.
   * - `MessageDropped`: the message is given up because of this error, which it would have in every turn: it does not fit the
   *   conversation or the store, or has not the `RunContext` that the agent reads or declares. Or it was edited (`MessageEdited`) or withdrawn
   *   (`Withdrawn`) before its turn. Its id is free again.
   * - `DecisionsDropped`: these decisions are given up: they have expired, their calls have other tools since a deploy
   *   (`DefinitionChanged`), or the calls were interrupted. Calls that still wait are decided again.
   * - `TurnFailed`: the turn failed with an error of this `reason`, the tag of the reason of an `AgentError` for
   *   example. Of a plan, `plan` has the tag of the reason of its `PlanError`, and the step with the type of its
   *   failure. The next turn begins with the next message, from the state that this turn left. `messageId` is the id of
   *   the message if the turn could not take it. `isHeld`: the turn could not even begin. `held` are the messages that
   *   would begin like it, and are held with it; without `held` the turn had no message, and decisions wait for the
   *   next message or `resume`.
   *
   * A turn ends with a `RunEvent` of `RunFinished`, or with `TurnFailed`.
   *
   * @category models
   * @since 0.1.0
   */
  Event
} from "./internal/events.ts"

export {
  /**
   * The value that a step with `writes` wrote.
   *
   * **Details**
   *
   * - `id`: the session in which the step ran.
   * - `step`, `at`: the name of the step, and the time at which it finished.
   * - `value`: its output as JSON.
   *
   * @category models
   * @since 0.1.0
   */
  Written
} from "./internal/stepWrites.ts"

export {
  /**
   * A value that sessions share: the definition of an agent, or the value of a step with `writes`.
   *
   * **Details**
   *
   * - `kind`, `key`: `"definition"` with its digest, or `"step-value"` with the key that the step writes.
   * - `sessions`: the ids of at most 100 of the sessions that use it. `hasMore`: there are others.
   * - `isUnreadable`: the value cannot be read, so its sessions are not known.
   *
   * A session uses each definition that its messages have named, until it is removed: a fork at an earlier place needs
   * an earlier definition. A session uses the value of a step as long as its own step wrote the value last, or a step
   * of the session that it was forked from and whose plan it has continued.
   *
   * @category models
   * @since 0.1.0
   */
  Shared,
  /**
   * Some of the values that sessions share: definitions by digest, then values of steps by key. `next` is the `after` of the next
   * page, `None` on the last one. A page may have fewer values than its `limit`, or none, and still have a next one.
   *
   * @category models
   * @since 0.1.0
   */
  SharedPage,
  /**
   * The values of a page that were deleted.
   *
   * @category models
   * @since 0.1.0
   */
  PrunedPage
} from "./internal/sharedUses.ts"

export type {
  /**
   * The operations on sessions, which the functions of this module call. A layer provides them.
   *
   * @category models
   * @since 0.1.0
   */
  Service
} from "./internal/service.ts"

export type {
  /**
   * The options of a job, see {@link run}.
   *
   * @category options
   * @since 0.1.0
   */
  RunOptions,
  /**
   * The result of a job, distinguished by `outcome`. Only `Completed` has `output`, decoded with the Schema of the agent or
   * plan.
   *
   * **Details**
   *
   * The outcomes are the outcomes of a run of an agent: `AwaitingApproval` has the `requests` that `decide` answers, `Interrupted` may have a `reason`, `InvalidOutput` has the `issues` of an output
   * that does not fit the Schema. The messages are in `history`.
   *
   * @category models
   * @since 0.1.0
   */
  RunResult,
  /**
   * The parts of every {@link RunResult}.
   *
   * @category models
   * @since 0.1.0
   */
  RunResultBase,
  /**
   * The name, the output and the context of an agent: an agent, a bound plan, or the class of an `Agent.Service`, whose layer only the
   * host needs. Of the class of a plan, pass the plan that it finds.
   *
   * @category models
   * @since 0.1.0
   */
  Typed,
  /**
   * The arguments of a message to a session of a known agent, see {@link typed}.
   *
   * @category models
   * @since 0.1.0
   */
  SendArguments,
  /**
   * Demands the context that an agent declares.
   *
   * @category models
   * @since 0.1.0
   */
  WithContext
} from "./internal/job.ts"

/**
 * Sessions by id.
 *
 * @category services
 * @since 0.1.0
 */
export class Session extends Context.Service<Session, service.Service>()("effect-emissary/session/Session") {}

const functions = service.functionsOf(Session)

/**
 * Stores a message of the user, and returns before the model is asked. The first message makes the session.
 *
 * **Details**
 *
 * {@link await} waits for the end of its turn, and {@link turnEvents} are the events up to there; {@link turn} and {@link ask} send a
 * message and wait. A message that was stored is answered although the caller leaves or the process dies. The id is any text of 1 to 1,024
 * characters. Fails with `Busy` where too many messages wait (`maxQueue`), and with the reasons that {@link SendOptions} name.
 *
 * **Example** (Two messages, one after the other)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   yield* Session.send("chat/42", "Hello")
 *   const second = yield* Session.send("chat/42", "How are you?", { messageId: "2" })
 *   return (yield* Session.await("chat/42", second)).text
 * })
 *
 * const sessions = Session.layer([Agent.make("support")]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ text: "Hello." }, { text: "Fine." }]))
 * )
 * assert.strictEqual(await Effect.runPromise(Effect.provide(program, sessions)), "Fine.")
 * ```
 *
 * @category operations
 * @since 0.1.0
 */
export const send = functions.send

/**
 * Removes a user message and everything after it from the conversation, also messages that wait, and sends its new content, or the
 * same again.
 *
 * **Details**
 *
 * A turn that is under way is stopped, unless the message only waits behind it, and one in another process is waited for.
 * {@link await} waits for the turn. Events stay: `ConversationRewound` names the first message that is gone. Tools that ran have run,
 * and usage stays counted.
 *
 * A message that waits for its turn is replaced alone, in its place, and the turn under way continues. A message that
 * waits for the decision of calls can be edited, too: then calls that wait stay. A message that is unknown, or that an
 * edit has removed, is `MessageUnknown`, and nothing is stopped or stored.
 *
 * @category operations
 * @since 0.1.0
 */
export const edit = functions.edit

/**
 * Drops a message that no turn has taken, a held message for example, with the event `MessageDropped`. Returns whether
 * it waited: `false` for a message in the conversation, which {@link interrupt} or {@link edit} stops, and for an
 * unknown message.
 *
 * @category operations
 * @since 0.1.0
 */
export const withdraw = functions.withdraw

/**
 * Makes the session `to`, which continues this one from the place `at`, and leaves this one as it is.
 *
 * **Details**
 *
 * The new session has the agent, the conversation, the title, the metadata and the usage of the session at that place,
 * and its events count from 1: the first one is `SessionForked`. It is idle. Messages and decisions that waited are not
 * in it, and its `RunContext` is what a message without a context gets. A call without a result is `denied` or
 * `interrupted` there and never runs there. A plan keeps the steps that have finished: `resume` runs the others, and a
 * step that waited asks again, for the fork alone.
 *
 * A place before the events that are kept is `EventsPruned`, a place that the session has not reached is
 * `EventsUnknown`, and a session under the id `to` is `Exists`.
 *
 * **Example** (Another answer, beside the first one)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   yield* Session.ask("chat/42", "A name for my cat?", { messageId: "1" })
 *   yield* Session.fork("chat/42", { to: "chat/43" })
 *   const again = yield* Session.edit("chat/43", { messageId: "1" })
 *   return (yield* Session.await("chat/43", again)).text
 * })
 *
 * const sessions = Session.layer([Agent.make("support")]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ text: "Mia" }, { text: "Tom" }]))
 * )
 * assert.strictEqual(await Effect.runPromise(Effect.provide(program, sessions)), "Tom")
 * ```
 *
 * @category operations
 * @since 0.1.0
 */
export const fork = functions.fork

/**
 * Stores decisions about the requests of {@link state}, see `Run.approve` and `Run.deny`. {@link await} waits for the turn
 * that takes them.
 *
 * **Details**
 *
 * Fails with `InvalidDecision` if one is not about a request of `state`. A decision that the session has received already is no
 * error, if it is the same one; after a turn that could not begin, it tries again. An empty list does nothing.
 *
 * @category operations
 * @since 0.1.0
 */
export const decide = functions.decide

/**
 * Begins a turn without a message: after a failure, an interruption or `MaxSteps`. Messages that are held are tried again. Does nothing
 * while a turn is under way, and in a session without a message to answer, because all were withdrawn.
 *
 * @category operations
 * @since 0.1.0
 */
export const resume = functions.resume

/**
 * Ends the turn that is under way, with the outcome `Interrupted`, and returns when that is stored.
 *
 * **Details**
 *
 * Calls that wait for approval are denied. `isInterrupted` of the receipt shows that there was a turn or a call that
 * waited. Messages that wait are answered next. Calls and steps that had not started do not run then. A message whose
 * turn was being prepared is recorded without an answer, a first message as soon as a turn begins. A turn in another
 * process of {@link layer} is not reached: the error is `Elsewhere`. A turn that the other process has left is ended.
 *
 * @category operations
 * @since 0.1.0
 */
export const interrupt = functions.interrupt

/**
 * Takes answers back that a decision with `remember` has left in the session: calls that are equal ask again. Calls that were approved stay
 * approved. Does nothing where there is no such answer.
 *
 * @category operations
 * @since 0.1.0
 */
export const forget = functions.forget

/**
 * Sets the title, the metadata or both. Fails with `ArgumentInvalid` for a secret, and for too long ones. A turn that is under way in another
 * process is waited for, as by {@link send}.
 *
 * @category operations
 * @since 0.1.0
 */
export const update = functions.update

/**
 * Interrupts the turn and deletes the session with its journal. Returns whether there was one.
 *
 * **Details**
 *
 * A turn that is under way in another process is waited for, as by {@link send}. Definitions and values of steps that no other session
 * uses are deleted, too. A session that cannot be read can be removed.
 *
 * @category operations
 * @since 0.1.0
 */
export const remove = functions.remove

/**
 * The events after a place, then new events as they happen. The stream does not end: {@link turnEvents} ends with its
 * turn.
 *
 * **Details**
 *
 * A slow reader does not slow the session. Without `after` the stream waits for a session that does not exist yet. It
 * waits for 90 seconds while the store fails, and for a process that takes the session over. It fails when the session
 * is removed. A new session under the same id counts from 1 again, and a cursor of the removed session fails with
 * `EventsUnknown` there.
 *
 * @category operations
 * @since 0.1.0
 */
export const events = functions.events

/**
 * The session as it is written: its events, as {@link events} has them, and between them what models are writing, as
 * {@link Draft}. For a reader who shows an answer while it appears.
 *
 * **Details**
 *
 * A draft is not stored. It has the id of the message that it becomes: the event `ModelAnswered` with that id takes its place, and
 * `AnswerWithdrawn` means that no message with the id will come, because the model call failed and is made again, or its process is gone. So a
 * reader who shows each `AnswerDelta`, replaces a draft by its message, and removes a draft that is withdrawn, shows the stored
 * conversation in the end.
 *
 * A reader who joins in the middle of an answer gets what is written of it first. The `cursor` of an entry has the place in the drafts,
 * too: reading on `after` it, here or in another process, no piece is lost or doubled. A slow reader gets longer pieces, and does
 * not slow the session.
 *
 * The pieces of an answer may come before the events of its beginning, `RunStarted` and `StepStarted`: these are stored within 100
 * milliseconds, and nothing waits for that.
 *
 * In a fleet a draft is read from any machine. Several processes on one store without a cluster do not see the drafts of each other,
 * only the events. The stream does not end: {@link turnLive} ends with its turn.
 *
 * @category operations
 * @since 0.1.0
 */
export const live: (id: string, options?: types.LiveOptions) => Stream.Stream<LiveEntry, types.SessionError, Session> =
  functions.live

/**
 * The state of a session, `None` if there is none.
 *
 * @category operations
 * @since 0.1.0
 */
export const state = functions.state

/**
 * The whole conversation of a session.
 *
 * **Details**
 *
 * It fails with `Unreadable` or `Damaged` if a stored event cannot be read, as all other operations do. Use `untilDamage` only
 * after that: the conversation does not show whether it is whole. A damaged snapshot, which has the events before it, remains an error.
 * Nothing is changed: copy what is worth keeping, and {@link remove} the session.
 *
 * @category operations
 * @since 0.1.0
 */
export const history = functions.history

/**
 * The value that a step with `writes` wrote last under a key, in any session of the namespace, until that session is removed. The id of
 * an error is the key. An example is at {@link pruneAll}.
 *
 * @category operations
 * @since 0.1.0
 */
export const read: (key: string) => Effect.Effect<Option.Option<Written>, types.SessionError, Session> = functions.read

/**
 * A page of the sessions, newest first.
 *
 * **Details**
 *
 * It reads a range of an index and one value for each session, however long that is, and opens none. Where a `prefix` selects few
 * among many sessions, it reads one value for each of these few. The id of an error is the prefix. A store from before the index is
 * read once as a whole.
 *
 * **Example** (The chats of a user)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   yield* Session.ask("chat/ada/1", "Hello", { title: "A greeting" })
 *   const { sessions } = yield* Session.list({ prefix: "chat/ada/" })
 *   return sessions.map(({ title }) => title)
 * })
 *
 * const sessions = Session.layer([Agent.make("support")]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ text: "Hello." }]))
 * )
 * assert.deepStrictEqual(await Effect.runPromise(Effect.provide(program, sessions)), ["A greeting"])
 * ```
 *
 * @category operations
 * @since 0.1.0
 */
export const list = functions.list

/**
 * The first page of a list, then each session that is new, changed or removed: at once where this process changes it, and within a few
 * seconds where another process does.
 *
 * **Details**
 *
 * The end of a turn in another process is seen for sessions that the stream has sent. With filters, `Removed` comes for sessions that
 * the stream has sent. The stream does not end; while the store fails it waits for 90 seconds.
 *
 * @category operations
 * @since 0.1.0
 */
export const listChanges = functions.listChanges

/**
 * A page of what the sessions share, see {@link Shared}. The id of an error is empty.
 *
 * @category operations
 * @since 0.1.0
 */
export const shared: (options?: types.SharedOptions) => Effect.Effect<SharedPage, types.SessionError, Session> =
  functions.shared

/**
 * Deletes what no session uses of a page, as it is left by a process that died while a session was removed. {@link pruneAll} takes all
 * pages.
 *
 * @category operations
 * @since 0.1.0
 */
export const prune = functions.prune

/**
 * Options of {@link layer}. `Decode` is the type of its `definitions`.
 *
 * @category options
 * @since 0.1.0
 */
export interface LayerOptions<
  out Decode extends types.Definitions | undefined = undefined
> extends types.Options<Decode> {
  /**
   * The time after which another process may take a session whose process hangs, or has died without a sign in the
   * store; default 10 seconds. After ten times that the session is free whatever is stored.
   */
  readonly leaseTime?: Duration.Input | undefined
  /** The time that tool calls under way have to finish when the layer is closed; default 10 seconds. */
  readonly drainTime?: Duration.Input | undefined
}

/**
 * Sessions in this process, stored in a `VersionedStore`.
 *
 * **When to use**
 *
 * Use it for a server with one process, for tests, and for programs with an embedded database (`SqliteClient.layerStore`
 * of `effect-emissary/node`). Processes that share a store may use it, too: a turn runs in one of them, and the others wait
 * until it has ended. For several machines use `ClusterSession.layer`, which sends each message to the process that has the
 * session.
 *
 * **Details**
 *
 * Agents are found by their names, and keep the services that the layer was built with. Two agents with one name are a
 * defect. An Effect in the list finds or makes an agent or a plan when the layer is built; if it fails, the layer does.
 *
 * The option `definitions` takes agents that are data, where users make agents of their own: messages carry their definitions,
 * and the function makes the agents of them. The list may be empty then. An agent is made again for each turn, so a tool that
 * the host has taken away is gone in the next turn, which fails with `DefinitionInvalid` then. A definition with the name of an
 * agent of the layer is refused, and so is one for a session that began without one. A definition is stored once, under its
 * digest (`Digest.sha256` of its JSON), and is deleted with the last session that uses it.
 *
 * A session that another process left in a turn is resumed when the layer is built, or when that process has ended. The
 * stores of `SqliteClient.layerStore` and `VersionedStore.layerSql` know that it has, also after a kill: on SQLite at once, on PostgreSQL after four seconds. With other
 * stores, and for a process that hangs, the session is free when the lease has ended: `leaseTime`, default 10 seconds, and after ten times that whatever is stored. A message
 * that is sent meanwhile waits for that time, and `interrupt` fails with `Elsewhere`.
 *
 * When the layer is closed, tool calls under way have `drainTime` (default 10 seconds) to finish, and turns continue in the
 * next process.
 *
 * **Example** (A plan that is bound when the layer is built)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Plan, Step } from "effect-emissary/plan"
 * import { Session } from "effect-emissary/session"
 * import assert from "node:assert"
 *
 * const greeting = Plan.make("greeting", [
 *   Step.make("greet", { target: ({ task }) => Effect.succeed(`Welcome, ${task}!`) })
 * ]).pipe(Effect.flatMap((plan) => Plan.bind(plan)))
 *
 * // the layer fails with what `Plan.make` and `Plan.bind` fail with
 * const sessions = Session.layer([greeting]).pipe(Layer.provide(VersionedStore.layerMemory))
 *
 * const answer = await Effect.runPromise(Effect.provide(Session.ask("greeting/1", "Ada"), sessions))
 * assert.strictEqual(answer, "Welcome, Ada!")
 * ```
 *
 * **Example** (An agent of a user)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent, ModelRegistry, ToolResolver, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const definition = yield* Agent.encode(Agent.make("poet", { model: "demo/small", instructions: "You write in verse." }))
 *   const answer = yield* Session.ask("chat/42", "Hello", { definition })
 *   assert.strictEqual(answer, "A greeting, dear")
 * })
 *
 * const Models = ModelRegistry.layer({
 *   demo: ModelRegistry.provider({
 *     options: ModelRegistry.Sampling,
 *     model: () => ScriptedModel.layer([{ text: "A greeting, dear" }])
 *   })
 * })
 * const Sessions = Session.layer([], { definitions: Agent.decode }).pipe(
 *   Layer.provide([VersionedStore.layerMemory, Models, ToolResolver.layerStubs()])
 * )
 * await Effect.runPromise(Effect.provide(program, Sessions))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = <
  const Agents extends ReadonlyArray<types.Hosted<unknown, unknown>>,
  Decode extends types.Definitions | undefined = undefined
>(
  agents: Agents,
  options?: LayerOptions<Decode>
): Layer.Layer<
  Session,
  types.HostedError<Agents[number]>,
  | Exclude<types.HostedServices<Agents[number]> | types.DefinitionsServices<Decode>, Scope.Scope>
  | VersionedStore.VersionedStore
> =>
  Layer.effect(
    Session,
    Effect.gen(function* () {
      const host = yield* localSessions.hostOf(yield* VersionedStore.VersionedStore, agents, options ?? {})
      return yield* localSessions.make(host)
    })
  )

const endOfTurn = {
  text: Schema.String,
  sequence: runParts.Count,
  cursor: Schema.String,
  waitsBehind: Schema.optionalKey(Schema.String)
}

/**
 * The end of a turn, distinguished by `outcome`: the last answer of the model, and the details of the outcome.
 *
 * **Details**
 *
 * `text` is empty where the model only called tools, before an approval for example. The output of a plan, and of an agent
 * with an `output` schema, is the `output` of `Completed`, as JSON. `sequence` and `cursor` name the last event of the turn.
 *
 * `waitsBehind`: the message has no turn yet, because calls of the message with this id wait for approval and the turns have
 * different contexts, or a message before it waits for that. The `requests` are about these calls, and the message
 * stays in the queue: once they are decided, the same `messageId` finds its answer.
 *
 * @category models
 * @since 0.1.0
 */
export const Answer: Schema.Codec<Answer, unknown> = plainSchema(runParts.endedSchema(endOfTurn))

/**
 * The parts of every {@link Answer}.
 *
 * @category models
 * @since 0.1.0
 */
export interface AnswerBase {
  /** The text of the last answer of the model. */
  readonly text: string
  /** The number of the last event of the turn. */
  readonly sequence: number
  /** The cursor of this event. */
  readonly cursor: string
  /** The id of the message whose calls the message waits behind. */
  readonly waitsBehind?: string
}

/** The end of a turn. */
export type Answer = Run.Ended<AnswerBase>

/** A turn as far as a reader has seen it. */
interface Watched {
  readonly isOurs: boolean
  readonly text: string
}

type Found = Effect.Effect<Option.Option<Answer>, types.SessionError, Session>

/**
 * Finds the end of the first turn with an event that `isOurs` accepts. `look` is asked at the end of each other turn,
 * because after it our turn may wait for a person.
 */
const watch =
  (id: string, isOurs: (event: Entry["event"]) => boolean, look: Found) =>
  (before: Watched, { cursor, event, sequence }: LiveEntry): readonly [Watched, ReadonlyArray<Found>] => {
    if (isDraft(event)) return [before, []]
    const seen = isOurs(event) ? { isOurs: true, text: "" } : before
    if (event._tag === "TurnFailed" && seen.isOurs && event.error.reason === interrupted) {
      return [seen, [Effect.succeedSome({ text: "", outcome: "Interrupted", sequence, cursor })]]
    }
    // A message that was dropped belongs to no turn
    if ((event._tag === "TurnFailed" && seen.isOurs) || (event._tag === "MessageDropped" && isOurs(event))) {
      const reason = { _tag: "TurnFailed" as const, failure: event.error }
      return [seen, [Effect.fail(new types.SessionError({ id, reason }))]]
    }
    if (event._tag === "TurnFailed" || event._tag === "MessageDropped") return [seen, [look]]
    if (event._tag !== "RunEvent") return [seen, []]
    const { event: inner } = event
    if (inner._tag === "ModelAnswered") return [{ ...seen, text: Message.text(inner.message) }, []]
    if (inner._tag !== "RunFinished") return [seen, []]
    const base = { text: seen.text, sequence, cursor }
    return [seen, [seen.isOurs ? Effect.succeedSome(runParts.ended(base, inner.outcome)) : look]]
  }

const endOf = Effect.fnUntraced(function* (
  id: string,
  after: string,
  isOurs: (event: Entry["event"]) => boolean,
  look: Found = Effect.succeedNone
) {
  const see = watch(id, isOurs, look)
  let seen = unseen
  let end = Option.none<Answer>()
  yield* Stream.runForEachWhile(events(id, { after }), (entry) => {
    const [next, [found]] = see(seen, entry)
    seen = next
    if (found === undefined) return Effect.succeed(true)
    return Effect.map(found, (answer) => {
      end = answer
      return Option.isNone(answer)
    })
  })
  return Option.isSome(end) ? end.value : yield* Effect.die(new Error("the events of a session ended"))
})

/** The answer for a message that waits until calls of another one are decided, `None` where it does not. */
const waitingFor = Effect.fnUntraced(function* (id: string, messageId: string) {
  const found = yield* state(id)
  if (Option.isNone(found)) return Option.none<Answer>()
  const { cursor, queue, requests, requestsOf: waitsBehind, sequence, status } = found.value
  const isWaiting = status === "waiting" && queue.includes(messageId)
  if (!isWaiting || !Arr.isReadonlyArrayNonEmpty(requests)) return Option.none<Answer>()
  const end = { outcome: "AwaitingApproval" as const, requests: Arr.map(requests, withoutText) }
  return Option.some<Answer>({ text: "", ...end, sequence, cursor, ...defined({ waitsBehind }) })
})

/**
 * The place of a turn: a `Receipt`, or any cursor of the session. With the id of a message it is the turn of this message, and otherwise
 * the first turn that begins after the cursor. An {@link Answer} and a {@link State} do not compile: after the end of a turn there may be
 * no other one, and a reader would wait for it without end. Where that is wanted, pass `{ cursor }`.
 *
 * @category models
 * @since 0.1.0
 */
export interface TurnPlace {
  /** The place after which the turn is looked for. */
  readonly cursor: string
  /** The message that the turn takes. */
  readonly messageId?: string | undefined
  /** True for a message that may wait behind calls of another one, as in a receipt. */
  readonly isWaiting?: boolean | undefined
  /** True for the newest turn of the session, as in the receipt of a command that began none. */
  readonly isOfNewest?: boolean | undefined
  /** True for a turn that was stopped, as in the receipt of `interrupt`. */
  readonly isInterrupted?: boolean | undefined
  /** Never there: an end of a turn is no place. */
  readonly outcome?: undefined
}

/** True for the events from which on a turn is the one of a place. A turn that is held has taken no message. */
const isOf =
  ({ messageId }: Pick<TurnPlace, "messageId">) =>
  (event: Entry["event"]): boolean =>
    messageId === undefined
      ? event._tag === "TurnFailed" ||
        (event._tag === "RunEvent" && (event.event._tag === "RunStarted" || event.event._tag === "RunResumed"))
      : ("messageId" in event && event._tag !== "MessageReceived" && event.messageId === messageId) ||
        (event._tag === "TurnFailed" && event.isHeld === true && (event.held?.includes(messageId) ?? true))

/**
 * The events of a session from a receipt to the end of its turn, whatever the end is: an answer, calls that wait, an
 * interruption, a failure, or the event that the message is given up. The stream ends with the event that ends the turn.
 *
 * **Details**
 *
 * Where an earlier turn is under way, its events come first. The stream fails as `events` does, and not where the turn fails:
 * that is its last event. {@link await} returns the end alone, and {@link turnLive} has what models are writing, too.
 *
 * The receipt of a command that began no turn (`isOfNewest`) has the events of the turn that is under way or due, and none where none
 * is. The receipt of `interrupt` that stopped a turn has none: its event is the end.
 *
 * **Example** (A page that follows one turn)
 *
 * ```ts
 * import { Effect, Layer, Stream } from "effect"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { ChatEvent, Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const receipt = yield* Session.send("chat/42", "Hello")
 *   const shown = Session.turnEvents("chat/42", receipt).pipe(Stream.filterMap(ChatEvent.project()), Stream.runCollect)
 *   return (yield* shown).map(({ event }) => event._tag)
 * })
 *
 * const sessions = Session.layer([Agent.make("support")]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ fail: { reason: "AuthenticationError" } }]))
 * )
 * const tags = await Effect.runPromise(Effect.provide(program, sessions))
 * assert.strictEqual(tags.at(-1), "TurnFailed")
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const turnEvents = (id: string, receipt: TurnPlace): Stream.Stream<Entry, types.SessionError, Session> =>
  untilTurnEnds(id, receipt, (after) => events(id, { after }))

/**
 * The events of a turn, as {@link turnEvents} has them, and between them what models are writing, as {@link live} has it. The stream ends
 * with the event that ends the turn. Use it for the response to one message, and {@link live} for a page that stays open.
 *
 * **Example** (Printing an answer while it is written)
 *
 * ```ts
 * import { Effect, Layer, Stream } from "effect"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const support = Agent.make("support", { instructions: "You help customers." })
 *
 * const program = Effect.gen(function*() {
 *   const receipt = yield* Session.send("chat/42", "Hello, I am Ada.")
 *   return yield* Session.turnLive("chat/42", receipt).pipe(
 *     Stream.runFold(() => "", (text, { event }) => event._tag === "AnswerDelta" ? text + event.delta : text)
 *   )
 * })
 *
 * const sessions = Session.layer([support]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ text: "Welcome, Ada!", chunkDelay: "50 millis" }]))
 * )
 * assert.strictEqual(await Effect.runPromise(Effect.provide(program, sessions)), "Welcome, Ada!")
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const turnLive = (
  id: string,
  receipt: TurnPlace,
  options?: Omit<types.LiveOptions, "after">
): Stream.Stream<LiveEntry, types.SessionError, Session> =>
  untilTurnEnds(id, receipt, (after) => live(id, { ...options, after }))

const untilTurnEnds = <A extends LiveEntry>(
  id: string,
  receipt: TurnPlace,
  read: (after: string) => Stream.Stream<A, types.SessionError, Session>
): Stream.Stream<A, types.SessionError, Session> =>
  Stream.unwrap(
    Effect.gen(function* () {
      if (receipt.isInterrupted === true) return Stream.empty
      if (receipt.isOfNewest === true) return job.ofNewest(yield* Session, id, read)
      const look = lookFor(id, receipt)
      if (receipt.isWaiting === true && Option.isSome(yield* look)) return Stream.empty
      const see = watch(id, isOf(receipt), look)
      return read(receipt.cursor).pipe(
        Stream.mapAccum(
          () => unseen,
          (before, entry: A) => {
            const [seen, ends] = see(before, entry)
            return [seen, [{ entry, ends }]] as const
          }
        ),
        Stream.mapEffect(({ ends, entry }) => Effect.map(Effect.forEach(ends, isFound), (found) => ({ entry, found }))),
        Stream.takeUntil(({ found }) => found.includes(true)),
        Stream.map(({ entry }) => entry)
      )
    })
  )

/** True for the end of the turn, a failure of the turn included. */
const isFound = (found: Found): Effect.Effect<boolean, never, Session> =>
  Effect.match(found, { onFailure: ({ reason }) => reason._tag === "TurnFailed", onSuccess: Option.isSome })

const unseen: Watched = { isOurs: false, text: "" }

const lookFor = (id: string, { messageId }: TurnPlace): Found =>
  messageId === undefined ? Effect.succeedNone : waitingFor(id, messageId)

const untilEnd = Effect.fnUntraced(function* (
  id: string,
  receipt: TurnPlace
): Effect.fn.Return<Answer, types.SessionError, Session> {
  if (receipt.isOfNewest === true) return yield* job.endOf(yield* Session, id, receipt.cursor)
  if (receipt.isInterrupted === true) {
    const { sequence } = yield* types.checkAfter(id, receipt.cursor)
    return { text: "", outcome: "Interrupted", sequence, cursor: receipt.cursor }
  }
  const look = lookFor(id, receipt)
  const waiting = receipt.isWaiting === true ? yield* look : Option.none()
  return Option.isSome(waiting) ? waiting.value : yield* endOf(id, receipt.cursor, isOf(receipt), look)
})

const await_ = Effect.fn("Session.await")(untilEnd)

export {
  /**
   * Waits for the end of the turn of a receipt, however it ends, as {@link turn} does after it has sent its message. A turn that
   * failed is an error with the reason `TurnFailed`.
   *
   * **Details**
   *
   * It takes the receipt of any command. After `decide` and `resume` it is the end of the turn that they began. After a
   * command that began no turn (`isOfNewest`) it is the end of the newest turn, once no turn is under way or due: at
   * once in an idle session, and the error `NotFound` in a session that never had a turn. After an `interrupt` that
   * stopped a turn it is `Interrupted` at once, without a text.
   *
   * **Example** (The answer after an approval)
   *
   * ```ts
   * import { Effect, Layer, Option, Schema } from "effect"
   * import { Tool, Toolkit } from "effect/ai"
   * import { Agent, Run, VersionedStore } from "effect-emissary"
   * import { Session } from "effect-emissary/session"
   * import { ScriptedModel } from "effect-emissary/testing"
   * import assert from "node:assert"
   *
   * const toolkit = Toolkit.make(
   *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
   * )
   * const cashier = Agent.make("cashier", { toolkit })
   *
   * const program = Effect.gen(function*() {
   *   const asked = yield* Session.turn("order/42", "Pay 5 euros")
   *   assert.strictEqual(asked.outcome, "AwaitingApproval")
   *
   *   const { requests } = Option.getOrThrow(yield* Session.state("order/42"))
   *   const decided = yield* Session.decide("order/42", requests.filter(Run.isApprovable).map(Run.approve))
   *   const { text } = yield* Session.await("order/42", decided)
   *   assert.strictEqual(text, "Paid.")
   * })
   *
   * const sessions = Session.layer([cashier]).pipe(
   *   Layer.provide(VersionedStore.layerMemory),
   *   Layer.provide(toolkit.toLayer({ pay: () => Effect.void })),
   *   Layer.provide(ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }, { text: "Paid." }]))
   * )
   * await Effect.runPromise(Effect.provide(program, sessions))
   * ```
   *
   * @category combinators
   * @since 0.1.0
   */
  await_ as await
}

/**
 * Sends a message and waits for the end of its turn, however it ends.
 *
 * **When to use**
 *
 * Use it where a turn may wait for approvals, or be stopped. Where only an answer will do, use {@link ask}.
 *
 * **Details**
 *
 * The turn continues when the caller leaves. With the same `messageId` the same answer is found again, as long as the session
 * remembers the id and keeps the events of the turn (`keepEvents`). For a job use {@link run}. After an approval the same `messageId` finds the end of the first turn again, `AwaitingApproval`: the
 * turn that took the decisions is found by {@link await}, with the receipt of `decide`.
 *
 * It returns when calls wait for approval, also calls of another message, behind which this one waits: `AwaitingApproval` then has
 * their requests, and `waitsBehind` of {@link Answer} names the other message.
 *
 * It succeeds with any outcome: `AwaitingApproval`, `Interrupted` (also where the turn was stopped before it
 * began) and `MaxSteps`, too. A turn that failed
 * is an error with the reason `TurnFailed`, also where it could not begin: then the message is held. While the store fails it
 * waits, for 90 seconds, because the session continues by itself.
 *
 * An example is at {@link await}.
 *
 * @category combinators
 * @since 0.1.0
 */
export const turn = Effect.fn("Session.turn")(function* (
  id: string,
  input: types.Input,
  options?: types.SendOptions
): Effect.fn.Return<Answer, types.SessionError, Session> {
  return yield* untilEnd(id, yield* send(id, input, options))
})

const adviceFor = (answer: Answer): string => {
  switch (answer.outcome) {
    case "Completed":
      return "Read the text."
    case "MaxSteps":
      return "Send a message, or call resume: it has a number of model calls of its own."
    case "BudgetExceeded": {
      const { limit, scope, unit, used } = answer
      return scope === "session"
        ? `The budget of the session is ${limit} ${unit}, and ${used} are used or reserved. Set a larger budget in the options of the layer.`
        : `The budget of the turn is ${limit} ${unit}, and ${used} are used or reserved. Send a message: it has a budget of its own.`
    }
    case "AwaitingApproval":
      return `Call decide with decisions about ${answer.requests.map(({ callId, name }) => `${JSON.stringify(callId)} (${name})`).join(", ")}, and await its receipt.`
    case "Interrupted":
      return "Send a message, or call resume."
    case "InvalidOutput": {
      const { issues } = answer
      return `The answer had ${issues.length === 1 ? "1 problem" : `${issues.length} problems`} with the output schema.`
    }
    case "Stopped":
      return `The provider stopped with ${JSON.stringify(answer.finishReason)}.`
    case "Refused":
      return `The guard ${quote(answer.guard)} refused: ${answer.reason} Send another message, or call resume.`
    case "LoopDetected":
      return `The model called ${answer.tools.map((tool) => JSON.stringify(tool)).join(", ")} ${answer.times} times in a row with the same result. Send a message that helps it, or call resume.`
  }
}

/**
 * A turn ended, but not with an answer. `answer` has its outcome and its place in the log. Use {@link turn} where that is nothing
 * unusual. Whatever prints or copies the error leaves out `answer`.
 *
 * @category errors
 * @since 0.1.0
 */
export class TurnIncomplete extends Schema.TaggedError<TurnIncomplete>("effect-emissary/session/TurnIncomplete")(
  "TurnIncomplete",
  { id: Schema.String, answer: Answer }
) {
  // Decoding runs it too, and the fields pass through unchanged: content is hidden however the error was made
  // @effect-diagnostics-next-line overriddenSchemaConstructor:off
  constructor(fields: { readonly id: string; readonly answer: Answer }, options?: Schema.MakeOptions) {
    super(fields, options)
    hideContent(this, "answer")
  }

  /**
   * @since 0.1.0
   */
  override get message(): string {
    const { outcome } = this.answer
    return `Turn of session ${quote(this.id)}: expected an answer, got the outcome ${outcome}. ${adviceFor(this.answer)}`
  }
}

/**
 * Sends a message, waits for the end of its turn as {@link turn} does, and returns the text of the answer. As `agent.ask`, it fails
 * if the turn ends in another way: with `TurnIncomplete`, which has the outcome.
 *
 * **Example** (An answer, or the requests of a turn that waits)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
 * )
 *
 * const program = Effect.gen(function*() {
 *   assert.strictEqual(yield* Session.ask("order/42", "Hello"), "How can I help?")
 *
 *   const error = yield* Effect.flip(Session.ask("order/42", "Pay 5 euros"))
 *   assert(error._tag === "TurnIncomplete" && error.answer.outcome === "AwaitingApproval")
 *   assert.deepStrictEqual(error.answer.requests.map(({ name }) => name), ["pay"])
 * })
 *
 * const sessions = Session.layer([Agent.make("cashier", { toolkit })]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(toolkit.toLayer({ pay: () => Effect.void })),
 *   Layer.provide(
 *     ScriptedModel.layer([{ text: "How can I help?" }, { toolCalls: [{ name: "pay", params: { amount: 5 } }] }])
 *   )
 * )
 * await Effect.runPromise(Effect.provide(program, sessions))
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const ask = Effect.fn("Session.ask")(function* (
  id: string,
  input: types.Input,
  options?: types.SendOptions
): Effect.fn.Return<string, types.SessionError | TurnIncomplete, Session> {
  const answer = yield* untilEnd(id, yield* send(id, input, options))
  return answer.outcome === "Completed" ? answer.text : yield* new TurnIncomplete({ id, answer })
})

/**
 * The operations of {@link typed}: {@link send}, {@link turn} and {@link ask} with the context that an agent declares.
 *
 * @category models
 * @since 0.1.0
 */
export interface TypedSessions<Args> {
  /** Stores a message, see {@link send}. */
  readonly send: (
    ...message: job.SendArguments<Args>
  ) => Effect.Effect<types.MessageReceipt, types.SessionError, Session>
  /** Sends a message and waits for the end of its turn, see {@link turn}. */
  readonly turn: (...message: job.SendArguments<Args>) => Effect.Effect<Answer, types.SessionError, Session>
  /** Sends a message, and returns the text of the answer, see {@link ask}. */
  readonly ask: (
    ...message: job.SendArguments<Args>
  ) => Effect.Effect<string, types.SessionError | TurnIncomplete, Session>
}

/**
 * Messages to sessions of one agent, typed by the context that the agent declares.
 *
 * **When to use**
 *
 * Use it for an agent with a `context`: a message without its tenant does not compile. {@link send} knows no agent, and refuses the
 * message when it is sent (`ContextInvalid`).
 *
 * **Details**
 *
 * A session that begins is one of this agent, and a session of another agent fails with `AgentDiffers`. The layer of the agent is
 * not required.
 *
 * **Example** (A message has its tenant)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Agent, RunContext, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const Tenant = Schema.Struct({ tenant: Schema.String })
 * const support = Agent.make("support", {
 *   context: Tenant,
 *   instructions: Effect.map(RunContext.read(Tenant), ({ tenant }) => `You help customers of ${tenant}.`)
 * })
 *
 * const program = Effect.gen(function*() {
 *   const chats = Session.typed(support)
 *   assert.strictEqual(yield* chats.ask("chat/42", "Hello", { context: { tenant: "acme" } }), "Welcome!")
 *
 *   const error = yield* Effect.flip(Session.send("chat/42", "Hello"))
 *   assert(error.reason._tag === "ContextInvalid")
 *   assert.deepStrictEqual(error.reason.issues.map(({ path }) => path), ["/tenant"])
 * })
 *
 * const sessions = Session.layer([support]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(ScriptedModel.layer([{ text: "Welcome!" }]))
 * )
 * await Effect.runPromise(Effect.provide(program, sessions))
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const typed = <A, Args extends ReadonlyArray<unknown> = agentTypes.Arguments>(
  agent: job.Typed<A, Args>
): TypedSessions<Args> => {
  const of = ([id, input, options]: job.SendArguments<Args>) =>
    [id, input, { ...options, agent: job.nameOf(agent) }] as const
  return {
    send: (...message) => send(...of(message)),
    turn: (...message) => turn(...of(message)),
    ask: (...message) => ask(...of(message))
  }
}

const isPolicy = Schema.is(Schema.Literals(["fail", "resume", "restart"]))

/**
 * Runs an agent or a bound plan once under an id, and returns its typed result.
 *
 * **When to use**
 *
 * Use it for a job: work with one input and one result that has to survive its process. Use {@link ask} for a chat.
 *
 * **Details**
 *
 * The job is a session that begins with `input`, so it is read, interrupted and removed as other sessions are, and runs where
 * the layer of sessions is. It continues when the caller leaves. `ifExists` is the policy for an id that has a session, see
 * {@link RunOptions}: a caller that lost the answer (`Unreachable`, `StoreFailed`, a crash) calls again with `"resume"`. Of two
 * callers at once one begins the job, and the other one fails with `Exists`, or gets the same result with `"resume"`.
 *
 * The layer has to have the agent: otherwise the reason is `AgentUnknown`, and `AgentDiffers` if the session has
 * another agent. A turn that failed is the reason `TurnFailed`.
 *
 * **Gotchas**
 *
 * The output is decoded in the process of the caller. A Schema that needs services to decode finds them in the context of
 * the call; the types do not show that.
 *
 * **Example** (A job with an approval)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent, Run, VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Finite }), needsApproval: true })
 * )
 * const cashier = Agent.make("cashier", { toolkit, output: Schema.Struct({ paid: Schema.Finite }) })
 *
 * const program = Effect.gen(function*() {
 *   const job = { id: "order/42", input: "Pay 5 euros" }
 *   const asked = yield* Session.run(cashier, job)
 *   assert(asked.outcome === "AwaitingApproval")
 *
 *   yield* Session.decide(job.id, asked.requests.filter(Run.isApprovable).map(Run.approve))
 *   const paid = yield* Session.result(cashier, job.id)
 *   assert(paid.outcome === "Completed" && paid.output.paid === 5)
 *
 *   // the same job again: nothing runs
 *   assert.deepStrictEqual(yield* Session.run(cashier, { ...job, ifExists: "resume" }), paid)
 * })
 *
 * const sessions = Session.layer([cashier]).pipe(
 *   Layer.provide(VersionedStore.layerMemory),
 *   Layer.provide(toolkit.toLayer({ pay: () => Effect.void })),
 *   Layer.provide(
 *     ScriptedModel.layer([{ toolCalls: [{ name: "pay", params: { amount: 5 } }] }, { text: `{ "paid": 5 }` }])
 *   )
 * )
 * await Effect.runPromise(Effect.provide(program, sessions))
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const run = Effect.fn("Session.run")(function* <A, Args extends ReadonlyArray<unknown> = agentTypes.Arguments>(
  agent: job.Typed<A, Args>,
  options: job.RunOptions & job.WithContext<Args>
): Effect.fn.Return<job.RunResult<A>, types.SessionError, Session> {
  const { id, ifExists = "fail", input, ...sent } = options
  if (!isPolicy(ifExists)) {
    const problem = 'expected "fail" or "resume" or "restart" as ifExists, got another value'
    return yield* new types.SessionError({ id, reason: { _tag: "ArgumentInvalid", problem } })
  }
  const receipt = yield* send(id, input, { ...sent, ifExists, agent: job.nameOf(agent) })
  return yield* job.resultOf(yield* Session, agent, id, cursors.placeOf(receipt))
})

/**
 * The typed result of the newest turn of a session: waits while a turn is under way or due, such as the turn that takes
 * decisions, and begins none. An example is at {@link run}.
 *
 * @category combinators
 * @since 0.1.0
 */
export const result = Effect.fn("Session.result")(function* <A>(
  agent: job.Typed<A>,
  id: string
): Effect.fn.Return<job.RunResult<A>, types.SessionError, Session> {
  return yield* job.resultOf(yield* Session, agent, id)
})

/**
 * The state of the newest run of a plan in a session: its history, the step that comes next, and what waits. `None` before it
 * has begun. A fork has the steps that it continues from; where the plan was done at its place, that is `None`, too.
 *
 * **When to use**
 *
 * Use it to show how far a plan is: `Picture` draws the state. {@link state} is cheaper, and has the outcome and the
 * requests.
 *
 * **Details**
 *
 * It reads the events of the session. Fails with `EventsPruned` where the first events of the run are not kept
 * (`keepEvents`), and with `PlanChanged` where the events do not fit a plan that was edited.
 *
 * **Example** (The steps that are done)
 *
 * ```ts
 * import { Effect, Layer, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Plan, PlanRun, Step } from "effect-emissary/plan"
 * import { Session } from "effect-emissary/session"
 * import assert from "node:assert"
 *
 * const bound = Effect.gen(function*() {
 *   const plan = yield* Plan.make("report", [
 *     Step.make("research", { target: ({ task }) => Effect.succeed(`facts about ${task}`) }),
 *     Step.make("publish", { target: () => Step.pause("a colleague reads it first") })
 *   ])
 *   return yield* Plan.bind(plan)
 * })
 *
 * const program = Effect.gen(function*() {
 *   const report = yield* bound
 *   const result = yield* Session.run(report, { id: "report/42", input: "whales" })
 *   assert.strictEqual(result.outcome, "AwaitingApproval")
 *
 *   const state = Option.getOrThrow(yield* Session.progress(report, "report/42"))
 *   assert.deepStrictEqual(PlanRun.history(state).map(({ step }) => step), ["research"])
 *   assert.strictEqual(state.cursor, "publish")
 * })
 *
 * const sessions = Session.layer([bound]).pipe(Layer.provide(VersionedStore.layerMemory))
 * await Effect.runPromise(Effect.provide(program, sessions))
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const progress = Effect.fn("Session.progress")(function* <A, R>(
  plan: Bound<A, R>,
  id: string
): Effect.fn.Return<Option.Option<PlanRun.State>, types.SessionError | PlanError, Session> {
  return yield* progressOf(yield* Session, plan, id)
})

/**
 * Deletes the definitions and the values of steps that no session uses, and returns them.
 *
 * **When to use**
 *
 * Use it from time to time. `remove` deletes what the session was the last one to use. A process that dies in between leaves it.
 *
 * **Details**
 *
 * Nothing is deleted that a session uses or begins to use at the same time: the use of a session that is not there counts for one
 * hour, because the session may be about to begin. A value that cannot be read, and a definition that was stored before its uses were
 * counted, stay. For each value a session that uses it is looked up, so the cost does not grow with the number of sessions.
 *
 * **Example** (What a plan has written)
 *
 * ```ts
 * import { Effect, Layer, Option } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { Plan, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const bound = Effect.gen(function*() {
 *   const step = Step.make("research", { target: ({ task }) => Effect.succeed(`facts about ${task}`), writes: "facts" })
 *   return yield* Plan.bind(yield* Plan.make("report", [step]))
 * })
 *
 * const program = Effect.gen(function*() {
 *   yield* Session.run(yield* bound, { id: "report/42", input: "whales" })
 *   const { values } = yield* Session.shared({ kind: "step-value" })
 *   assert.deepStrictEqual(values, [{ kind: "step-value", key: "facts", sessions: ["report/42"] }])
 *
 *   yield* Session.remove("report/42")
 *   assert(Option.isNone(yield* Session.read("facts")))
 *   assert.deepStrictEqual(yield* Session.pruneAll(), [])
 * })
 *
 * const sessions = Session.layer([bound]).pipe(Layer.provide(VersionedStore.layerMemory))
 * await Effect.runPromise(Effect.provide(program, sessions))
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const pruneAll = Effect.fn("Session.pruneAll")(function* (
  options: Pick<types.SharedOptions, "kind"> = {}
): Effect.fn.Return<PrunedPage["removed"], types.SessionError, Session> {
  const removed: Array<PrunedPage["removed"][number]> = []
  let after: Option.Option<string> = Option.some("")
  while (Option.isSome(after)) {
    const page: PrunedPage = yield* prune({ ...options, after: after.value })
    removed.push(...page.removed)
    after = page.next
  }
  return removed
})

/**
 * Sends a message to each of many sessions, with `concurrency` (default 16) at a time, and returns their answers in order.
 *
 * **When to use**
 *
 * Use it to spread the inputs of a plan or agent over a fleet: each session runs on the machine that has it, and
 * an item that was answered before is found again by its `messageId`.
 *
 * **Example** (A plan for each of many inputs)
 *
 * ```ts
 * import { Effect, Layer, Result } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { Session } from "effect-emissary/session"
 * import { Plan, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * const shout = Effect.gen(function*() {
 *   const step = Step.make("shout", { target: ({ task }) => Effect.succeed(`${task}!`) })
 *   return yield* Plan.bind(yield* Plan.make("shout", [step]))
 * })
 *
 * const program = Effect.gen(function*() {
 *   const items = ["one", "two", "three"].map((input) => ({ id: `shout/${input}`, input, messageId: "1" }))
 *   const answers = yield* Session.askMany(items, { concurrency: 2 })
 *   return answers.map((answer) => Result.isSuccess(answer) ? answer.success : answer.failure.message)
 * })
 *
 * const sessions = Session.layer([shout]).pipe(Layer.provide(VersionedStore.layerMemory))
 * assert.deepStrictEqual(await Effect.runPromise(Effect.provide(program, sessions)), ["one!", "two!", "three!"])
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const askMany = (
  items: Iterable<{ readonly id: string; readonly input: types.Input } & types.SendOptions>,
  options: { readonly concurrency?: number | undefined } = {}
): Effect.Effect<ReadonlyArray<EffectResult.Result<string, types.SessionError | TurnIncomplete>>, never, Session> => {
  const problem = callOptions.problemOf({ concurrency: callOptions.wholeFrom(1) }, options)
  const reason = problem === undefined ? undefined : ({ _tag: "ArgumentInvalid", problem } as const)
  return Effect.forEach(
    items,
    ({ id, input, ...send }) =>
      Effect.result(reason === undefined ? ask(id, input, send) : Effect.fail(new types.SessionError({ id, reason }))),
    { concurrency: reason === undefined ? (options.concurrency ?? 16) : 1 }
  )
}
