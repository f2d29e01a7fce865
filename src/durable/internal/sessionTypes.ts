/**
 * The types of sessions, their operations and errors. `Session` re-exports what users name, with its documentation.
 */

import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as Stream from "effect/Stream"
import * as Run from "../../agent/Run.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as runParts from "../../agent/internal/runParts.ts"
import type { Conversation } from "../../conversation/internal/history.ts"
import * as storage from "../../conversation/internal/storage.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as base from "../../payload/internal/base.ts"
import type { NonEmptyContent } from "../../tool/ToolResult.ts"
import * as sessionEvents from "./sessionEvents.ts"

export const Status = Schema.Literals(["idle", "running", "waiting"])

export type Status = typeof Status.Type

export const State = Schema.Struct({
  agent: Schema.String,
  status: Status,
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

export const Reason = Schema.TaggedUnion({
  ...storage.reasons,
  Busy: { status: Status },
  NotFound: {},
  AgentUnknown: { agent: Schema.optionalKey(Schema.String), known: Schema.Array(Schema.String) },
  AgentDiffers: { agent: Schema.String, found: Schema.String },
  InvalidDecision: { error: Run.InvalidDecision },
  InputInvalid: { problem: Schema.String },
  EventsPruned: { first: runParts.Count },
  EventsUnknown: { after: Schema.Number, newest: Schema.optionalKey(runParts.Count) },
  Elsewhere: { owner: Schema.String },
  TurnFailed: { failure: sessionEvents.Failure },
  Unreachable: { problem: Schema.String }
})

export type Reason = typeof Reason.Type

const quoteAll = (all: ReadonlyArray<string>): string => all.map(base.quote).join(", ")

const renderReason = Reason.match({
  StoreFailed: storage.renderReason,
  Unreadable: storage.renderReason,
  Damaged: storage.renderReason,
  Refused: storage.renderReason,
  Busy: ({ status }) =>
    `expected a session that waits for a message, got one that is ${status}. Send the message with whenBusy "queue", or when the turn has ended`,
  NotFound: () => "expected a session, got none under this id. Send it a message first",
  AgentUnknown: ({ agent, known }) => {
    const found = agent === undefined ? "no name" : base.quote(agent)
    return `expected the name of one of the agents ${quoteAll(known)}, got ${found}. Pass the option agent, or add the agent to the layer`
  },
  AgentDiffers: ({ agent, found }) =>
    `expected a session of the agent ${base.quote(agent)}, got one of ${base.quote(found)}. Use another id`,
  InvalidDecision: ({ error }) => error.message,
  InputInvalid: ({ problem }) => `the message cannot be part of a conversation: ${problem}`,
  EventsPruned: ({ first }) =>
    `expected events that are kept, got ones before number ${first}. Read the history, and continue with the events after ${first - 1}`,
  EventsUnknown: ({ after, newest }) =>
    newest === undefined
      ? `expected the number of the last event that was seen, or 0, got ${after}`
      : `expected the number of an event of this session, ${newest} at most, got ${after}. The session was removed and begun again: read its events from 0`,
  Elsewhere: ({ owner }) =>
    `expected no other process that has the session, got the owner ${base.quote(owner)}. Try again when its turn has ended, or its lease (leaseTime) where it died, or use Session.layerCluster`,
  TurnFailed: ({ failure }) => `the turn failed with ${failure.reason}: ${failure.message}`,
  Unreachable: ({ problem }) => `the session cannot be reached: ${problem}. Try again with the same messageId`
})

export class SessionError extends Schema.TaggedError<SessionError>("effect-emissary/durable/SessionError")(
  "SessionError",
  { id: Schema.String, reason: Reason }
) {
  override get message(): string {
    return `session ${base.quote(this.id)}: ${renderReason(this.reason)}`
  }
}

/** Refuses what is not the number of an event. */
export const checkAfter = (id: string, after: number): Effect.Effect<number, SessionError> =>
  Number.isSafeInteger(after) && after >= 0
    ? Effect.succeed(after)
    : Effect.fail(new SessionError({ id, reason: { _tag: "EventsUnknown", after } }))

/** The message of a user: text, or text and file parts. */
export type Input = string | NonEmptyContent

/** Options of a message. */
export interface SendOptions {
  readonly messageId?: string | undefined
  readonly agent?: string | undefined
  readonly context?: JsonObject | undefined
  readonly whenBusy?: "queue" | "reject" | undefined
}

export const Receipt = Schema.Struct({ messageId: Schema.String, sequence: runParts.Count })

/** A message is stored. */
export interface Receipt extends Schema.Schema.Type<typeof Receipt> {}

export type Decisions = readonly [Run.Decision, ...Array<Run.Decision>]

/** The operations on sessions. */
export interface Service {
  readonly send: (id: string, input: Input, options?: SendOptions) => Effect.Effect<Receipt, SessionError>
  readonly decide: (id: string, decisions: ReadonlyArray<Run.Decision>) => Effect.Effect<void, SessionError>
  readonly resume: (id: string) => Effect.Effect<void, SessionError>
  readonly interrupt: (id: string) => Effect.Effect<boolean, SessionError>
  readonly events: (
    id: string,
    options?: { readonly after?: number | undefined }
  ) => Stream.Stream<sessionEvents.Entry, SessionError>
  readonly state: (id: string) => Effect.Effect<Option.Option<State>, SessionError>
  readonly history: (id: string) => Effect.Effect<Conversation, SessionError>
  readonly remove: (id: string) => Effect.Effect<boolean, SessionError>
}

/** An agent or a bound plan, or an Effect that finds one. */
export type Hosted<R> = agentTypes.Agent<unknown, R> | Effect.Effect<agentTypes.Agent<unknown>, never, R>

/** Options of the layers that host sessions. */
export interface Options {
  readonly namespace?: string | undefined
  readonly idleTime?: Duration.Input | undefined
  readonly run?: Omit<agentTypes.ResumeOptions, "input" | "decisions" | "onEvent" | "interruptWhen"> | undefined
  readonly keepEvents?: number | undefined
}
