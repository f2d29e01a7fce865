/**
 * The home of a conversation with one agent or plan, under an id.
 *
 * **When to use**
 *
 * Use it for chats and other work that lasts longer than a request, a connection or a process. A session stores what
 * the user sent before the model is asked, runs one turn at a time, waits for approvals, and continues by itself after its
 * process died. Use `Checkpoint` of `effect-emissary/plan` for one run of a plan, with its policies and the writes of its
 * steps.
 *
 * **Details**
 *
 * A layer decides where sessions live: {@link layer} in this process, {@link layerCluster} on a fleet of
 * machines. The program is the same.
 *
 * A session stores its events in a journal, each with a sequence number that counts from 1. A reader that lost its
 * connection continues after the last event that it saw. The state of a session is the fold of its events.
 *
 * Messages are answered one after the other. A message that comes while a turn is under way waits for its end; a message
 * that comes while calls wait for approval enters the conversation when these calls are decided.
 *
 * When a process dies in a turn, the turn continues when the session is opened again: a model call in flight is made again, a
 * tool call that had started is settled `interrupted` with `outcome: "unknown"`, unless the tool is `Idempotent`, and agents
 * and plans inside continue from their own states.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as Run from "../agent/Run.ts"
import type * as agentTypes from "../agent/internal/agentTypes.ts"
import * as runParts from "../agent/internal/runParts.ts"
import type * as Conversation from "../conversation/Conversation.ts"
import * as storage from "../conversation/internal/storage.ts"
import type { JsonObject } from "../payload/Json.ts"
import * as base from "../payload/internal/base.ts"
import type { NonEmptyContent } from "../tool/ToolResult.ts"
import * as sessionEvents from "./internal/sessionEvents.ts"

export {
  /**
   * One fact of a session.
   *
   * **Details**
   *
   * - `MessageReceived`: a message is stored; it waits until its turn begins.
   * - `DecisionsReceived`: decisions about calls that wait are stored; the turn that takes them begins with `RunResumed`.
   * - `RunEvent`: an event of the agent's run, see `Run.Event`. `messageId` is that of the message that an `InputAdded`
   *   takes.
   * - `TurnFailed`: the turn failed with an `AgentError`, whose reason has the tag `error.reason`. The next message begins
   *   the next turn from the state that the failed one left. `messageId` is that of a message that was dropped, because
   *   it could not be added.
   *
   * A turn ends with a `RunEvent` of `RunFinished`, or with `TurnFailed`.
   *
   * @category models
   * @since 0.1.0
   */
  Event,
  /**
   * An event with its sequence number, which counts from 1.
   *
   * @category models
   * @since 0.1.0
   */
  Entry
} from "./internal/sessionEvents.ts"

/**
 * A summary of a session.
 *
 * **Details**
 *
 * | status | meaning |
 * |---|---|
 * | `idle` | it waits for a message |
 * | `running` | a turn is under way, or begins as soon as a process has the session |
 * | `waiting` | calls wait for approval: `requests` |
 *
 * - `sequence`: the number of the newest event.
 * - `queue`: the ids of messages that no turn has taken.
 * - `outcome`: how the last turn ended, unless it failed with `failure`.
 * - `steps`, `usage`: the answers of models, and their tokens, of the whole session.
 *
 * @category models
 * @since 0.1.0
 */
export const State = Schema.Struct({
  agent: Schema.String,
  status: Schema.Literals(["idle", "running", "waiting"]),
  sequence: runParts.Count,
  queue: Schema.Array(Schema.String),
  requests: Schema.Array(Run.ApprovalRequest),
  outcome: Schema.optionalKey(Run.Outcome),
  failure: Schema.optionalKey(sessionEvents.Failure),
  steps: runParts.Count,
  usage: runParts.Usage
})

/** A summary of a session. */
export interface State extends Schema.Schema.Type<typeof State> {}

const Reason = Schema.TaggedUnion({
  ...storage.reasons,
  Busy: { status: Schema.String },
  NotFound: {},
  AgentUnknown: { agent: Schema.String, known: Schema.Array(Schema.String) },
  AgentDiffers: { agent: Schema.String, found: Schema.String },
  InvalidDecision: { error: Run.InvalidDecision },
  InputInvalid: { problem: Schema.String },
  EventsPruned: { first: runParts.Count },
  Elsewhere: { owner: Schema.String, leaseUntil: Schema.DateTimeUtcFromMillis },
  TurnFailed: { failure: sessionEvents.Failure },
  Unreachable: { problem: Schema.String }
})

const names = (all: ReadonlyArray<string>): string => all.map(base.quote).join(", ")

const renderReason = Reason.match({
  StoreFailed: storage.renderReason,
  Unreadable: storage.renderReason,
  Damaged: storage.renderReason,
  Refused: storage.renderReason,
  Busy: ({ status }) =>
    `expected a session that waits for a message, got one that is ${status}. Send the message with whenBusy "queue", or when the turn has ended`,
  NotFound: () => "expected a session, got none under this id. Send it a message first",
  AgentUnknown: ({ agent, known }) =>
    `expected one of the agents ${names(known)}, got ${base.quote(agent)}. Add it to the agents of the layer, or name one of them`,
  AgentDiffers: ({ agent, found }) =>
    `expected a session of the agent ${base.quote(agent)}, got one of ${base.quote(found)}. Use another id`,
  InvalidDecision: ({ error }) => error.message,
  InputInvalid: ({ problem }) => problem,
  EventsPruned: ({ first }) =>
    `expected events that are kept, got ones before number ${first}. Read the history, and continue with the events after ${first - 1}`,
  Elsewhere: ({ owner }) =>
    `expected no other process that runs the session, got the owner ${base.quote(owner)}. Try again when its turn has ended, or use Session.layerCluster`,
  TurnFailed: ({ failure }) => `the turn failed with ${failure.reason}: ${failure.message}`,
  Unreachable: ({ problem }) => `the session cannot be reached: ${problem}. Try again with the same messageId`
})

/**
 * An operation on a session failed.
 *
 * **Details**
 *
 * | reason | meaning |
 * |---|---|
 * | `Busy` | the message was sent with `whenBusy: "reject"`, and a turn is under way; nothing was stored |
 * | `NotFound` | there is no session under the id |
 * | `AgentUnknown` | the layer has no agent with this name, or several and none was named |
 * | `AgentDiffers` | the session is one with another agent |
 * | `InvalidDecision` | a decision is not about a call that waits, see `Run.InvalidDecision`; none was stored |
 * | `InputInvalid` | the message cannot be part of a conversation |
 * | `EventsPruned` | the events after this number are no longer kept; `first` is the oldest one |
 * | `Elsewhere` | another process runs the session; of {@link layer} only |
 * | `TurnFailed` | the turn that was waited for failed, with this `AgentError` |
 * | `Unreachable` | the fleet did not answer; the message may have been stored: send it again with the same `messageId` |
 * | `StoreFailed`, `Unreadable`, `Damaged`, `Refused` | as in `ConversationStoreError` |
 *
 * @category errors
 * @since 0.1.0
 */
export class SessionError extends Schema.TaggedError<SessionError>("effect-emissary/durable/SessionError")(
  "SessionError",
  { id: Schema.String, reason: Reason }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `session ${base.quote(this.id)}: ${renderReason(this.reason)}`
  }
}

/**
 * The message of a user: text, or text and file parts.
 *
 * @category models
 * @since 0.1.0
 */
export type Input = string | NonEmptyContent

/**
 * Options of a message.
 *
 * **Details**
 *
 * - `messageId`: a message with an id that the session has received is not stored again, so that a client can send a
 *   message twice when it does not know whether the first one arrived. A session remembers its newest 256 ids. By default
 *   it is a new one.
 * - `agent`: the name of the agent of a session that begins with this message. It can be left out where the layer has only
 *   one. For a session that exists it has to be its agent.
 * - `context`: the `RunContext` of a session that begins with this message.
 * - `whenBusy`: `"queue"` (default) stores the message while a turn is under way, and it waits for its turn; `"reject"` fails
 *   with `Busy`.
 *
 * @category options
 * @since 0.1.0
 */
export interface SendOptions {
  readonly messageId?: string | undefined
  readonly agent?: string | undefined
  readonly context?: JsonObject | undefined
  readonly whenBusy?: "queue" | "reject" | undefined
}

/**
 * A message is stored. `sequence` is the number of its `MessageReceived`: read the events after it to see the answer.
 *
 * @category models
 * @since 0.1.0
 */
export const Receipt = Schema.Struct({ messageId: Schema.String, sequence: runParts.Count })

/** A message is stored. */
export interface Receipt extends Schema.Schema.Type<typeof Receipt> {}

/**
 * The operations on sessions. Ids are any text.
 *
 * **Details**
 *
 * - `send`: stores a message of the user, and returns before the model is asked. The first message makes the session.
 * - `decide`: stores decisions about calls that wait. Fails with `InvalidDecision` if one is not about a request of `state`.
 *   A decision that the session has taken already is no error, if it is the same one.
 * - `interrupt`: ends the turn that is under way, with the outcome `Interrupted`, and returns when that is stored. Returns
 *   whether there was one. Messages that wait are answered next.
 * - `events`: the events after the sequence number `after` (default 0: all), then those that happen. The stream does not end.
 *   A slow reader does not slow the session.
 * - `state`: the state of a session, `None` if there is none.
 * - `history`: the whole conversation.
 * - `remove`: deletes a session with its journal, interrupting its turn. Returns whether there was one.
 *
 * @category models
 * @since 0.1.0
 */
export interface Service {
  readonly send: (id: string, input: Input, options?: SendOptions) => Effect.Effect<Receipt, SessionError>
  readonly decide: (
    id: string,
    decisions: readonly [Run.Decision, ...Array<Run.Decision>]
  ) => Effect.Effect<void, SessionError>
  readonly interrupt: (
    id: string,
    options?: { readonly reason?: string | undefined }
  ) => Effect.Effect<boolean, SessionError>
  readonly events: (
    id: string,
    options?: { readonly after?: number | undefined }
  ) => Stream.Stream<sessionEvents.Entry, SessionError>
  readonly state: (id: string) => Effect.Effect<Option.Option<State>, SessionError>
  readonly history: (id: string) => Effect.Effect<Conversation.Conversation, SessionError>
  readonly remove: (id: string) => Effect.Effect<boolean, SessionError>
}

/**
 * Sessions by id.
 *
 * @category services
 * @since 0.1.0
 */
export class Session extends Context.Service<Session, Service>()("effect-emissary/durable/Session") {}

/**
 * An agent or a bound plan, or an Effect that finds one, as the class of an `Agent.Service` does.
 *
 * @category models
 * @since 0.1.0
 */
export type Host<R> = agentTypes.Agent<unknown, R> | Effect.Effect<agentTypes.Agent<unknown>, never, R>

/**
 * Options of {@link layer} and {@link layerCluster}.
 *
 * **Details**
 *
 * - `namespace`: the first part of the keys in the `VersionedStore`; default `"session"`.
 * - `idleTime`: a session leaves the memory after this long without a call or a reader; default 1 minute.
 * - `run`: options of all turns, as for `Agent.resume`: `maxSteps`, `modelRetry`, `timeouts`, `onChange` and others.
 * - `keepEvents`: events that are kept for readers when a session has become longer; default all. The conversation is
 *   whole in any case.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly namespace?: string | undefined
  readonly idleTime?: Duration.Input | undefined
  readonly run?: Omit<agentTypes.ResumeOptions, "input" | "decisions" | "onEvent" | "interruptWhen"> | undefined
  readonly keepEvents?: number | undefined
}
