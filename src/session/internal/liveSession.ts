/**
 * A session in the process that has it, made of three machines over one writer: `sessionInbox` and `sessionEdit` take what comes in,
 * `sessionTurn` runs one turn after the other, and `sessionReaders` shows what is stored. `sessionWriter` has what is stored, and
 * decides whether this process may write.
 */

import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as Conversation from "../../conversation/Conversation.ts"
import type { Entry, Place } from "./sessionEvents.ts"
import * as sessionEdit from "./sessionEdit.ts"
import * as sessionFork from "./sessionFork.ts"
import * as sessionInbox from "./sessionInbox.ts"
import * as sessionReaders from "./sessionReaders.ts"
import * as sessionTurn from "./sessionTurn.ts"
import type * as sessionTypes from "./sessionTypes.ts"
import type * as sessionWriter from "./sessionWriter.ts"

/**
 * A session in memory.
 *
 * - `idle`: takes the session, and waits until no turn is under way or due. A call that waits for approval is no turn.
 *   Fails if the turn that is due cannot be run here. `untilIdle` only waits.
 * - `drain`: ends the turn between two events, without recording an interruption, so that the next owner resumes it there.
 *   Tool calls under way may finish. Nothing starts any more.
 * - `lost`: fails when this process can no longer write to the session.
 */
export interface LiveSession {
  readonly send: (
    input: sessionTypes.Input,
    options?: sessionTypes.SendOptions
  ) => Effect.Effect<sessionTypes.MessageReceipt, sessionTypes.SessionError>
  readonly edit: (
    options: sessionTypes.EditOptions
  ) => Effect.Effect<sessionTypes.MessageReceipt, sessionTypes.SessionError>
  readonly withdraw: (messageId: string) => Effect.Effect<boolean, sessionTypes.SessionError>
  readonly fork: (
    from: string,
    at: number | string | undefined
  ) => Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError>
  readonly decide: (decisions: sessionTypes.Decisions) => Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError>
  readonly resume: Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError>
  readonly interrupt: Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError>
  readonly events: (after: Place) => Stream.Stream<Entry, sessionTypes.SessionError>
  readonly state: Effect.Effect<Option.Option<sessionTypes.State>, sessionTypes.SessionError>
  readonly history: Effect.Effect<Conversation.Conversation, sessionTypes.SessionError>
  readonly update: (details: sessionTypes.Details) => Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError>
  readonly remove: Effect.Effect<boolean, sessionTypes.SessionError>
  readonly idle: Effect.Effect<void, sessionTypes.SessionError>
  readonly untilIdle: Effect.Effect<void, sessionTypes.SessionError>
  readonly drain: Effect.Effect<void>
  readonly lost: Effect.Effect<never, sessionTypes.SessionError>
}

/** Opens a session, which may not exist yet, and runs the turns that it is to run. */
export const open = Effect.fnUntraced(function* (
  host: sessionWriter.Host,
  id: string
): Effect.fn.Return<LiveSession, sessionTypes.SessionError, Scope.Scope> {
  const turns = yield* sessionTurn.make(host, id)
  const { own } = turns
  yield* sessionTurn.start(turns)
  yield* Effect.forkIn(sessionInbox.tryHeld(turns), turns.scope)
  const looked = own.alone(own.refresh)
  const untilIdle = sessionReaders.untilIdle(turns)
  return {
    send: (input, options) => sessionInbox.send(turns, input, options),
    edit: (options) => sessionEdit.edit(turns, options),
    withdraw: (messageId) => sessionInbox.withdraw(turns, messageId),
    fork: (from, at) => sessionFork.fork(turns, from, at),
    decide: (decisions) => sessionInbox.decide(turns, decisions),
    resume: sessionInbox.resume(turns),
    interrupt: sessionInbox.interrupt(turns),
    update: (details) => sessionInbox.update(turns, details),
    remove: sessionInbox.remove(turns),
    idle: Effect.andThen(sessionTurn.take(turns), untilIdle),
    untilIdle,
    drain: sessionTurn.drain(turns),
    lost: own.lost,
    events: (after) => sessionReaders.events(turns, after),
    state: Effect.andThen(
      looked,
      Effect.sync(() => sessionReaders.state(turns))
    ),
    history: Effect.andThen(looked, sessionReaders.history(turns))
  }
})
