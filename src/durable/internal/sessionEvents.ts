/**
 * The data of sessions: events, what is kept under the id of a session, and the fold from one to the other.
 *
 * The run of a session's agent begins with the first message and is resumed by each later one. So the state of a session
 * is the state of that run with what waits for it.
 */

import * as Schema from "effect/Schema"
import * as runParts from "../../agent/internal/runParts.ts"
import * as ToolResult from "../../tool/ToolResult.ts"

const at = runParts.Time

/** An error as readers of a session see it. */
export const Failure = Schema.Struct({ reason: Schema.String, message: Schema.String })

/** The members are in the order in which a session has them first. */
export const Event = Schema.TaggedUnion({
  MessageReceived: {
    at,
    messageId: Schema.String,
    agent: Schema.String,
    input: ToolResult.NonEmptyContent,
    context: Schema.optionalKey(runParts.Context)
  },
  DecisionsReceived: { at, decisions: Schema.NonEmptyArray(runParts.Decision) },
  RunEvent: { event: runParts.Event, messageId: Schema.optionalKey(Schema.String) },
  TurnFailed: { at, error: Failure, messageId: Schema.optionalKey(Schema.String) }
})

export type Event = typeof Event.Type

/** Values below these places were written by models, tools and users. */
export const userData: ReadonlyArray<string> = runParts.userData

export const Entry = Schema.Struct({ sequence: Schema.Int, event: Event })

export type Entry = typeof Entry.Type

/** A message that no turn has taken. */
const Queued = Schema.Struct({
  messageId: Schema.String,
  input: ToolResult.NonEmptyContent,
  at,
  context: Schema.optionalKey(runParts.Context)
})

export type Queued = typeof Queued.Type

/** The newest ids of messages, oldest first: one of them again is no new message. */
export const rememberedIds = 256

/**
 * The state of a session.
 *
 * - `sequence`: the number of its newest event.
 * - `received`: the newest ids of messages.
 * - `decisions`: those that no turn has taken.
 * - `failure`: of the last turn, if that failed.
 */
export const Memory = Schema.Struct({
  agent: Schema.String,
  sequence: runParts.Count,
  received: Schema.Array(Schema.String),
  queue: Schema.Array(Queued),
  decisions: Schema.Array(runParts.Decision),
  failure: Schema.optionalKey(Failure),
  run: Schema.optionalKey(runParts.StateSchema)
})

export interface Memory extends Schema.Schema.Type<typeof Memory> {}
