/**
 * A session in the process that has it, made of three machines over one writer: `sessionInbox` and `sessionEdit` take what comes in,
 * `sessionTurn` runs one turn after the other, and `sessionReaders` shows what is stored. `sessionWriter` has what is stored, and
 * decides whether this process may write.
 */

import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { Entry, Place } from "./sessionEvents.ts"
import * as sessionEdit from "./sessionEdit.ts"
import * as sessionFork from "./sessionFork.ts"
import * as sessionInbox from "./sessionInbox.ts"
import * as sessionReaders from "./sessionReaders.ts"
import type { Handlers } from "./sessionService.ts"
import * as sessionTurn from "./sessionTurn.ts"
import type { SessionError } from "./sessionTypes.ts"
import type * as sessionWriter from "./sessionWriter.ts"

/** The operations that a session in memory answers. */
type Own = Omit<Handlers, "events" | "read" | "list" | "listChanges" | "shared" | "prune">

/**
 * A session in memory.
 *
 * - `answers`: its operations.
 * - `idle`: takes the session, and waits until no turn is under way or due. A call that waits for approval is no turn.
 *   Fails if the turn that is due cannot be run here. `untilIdle` only waits.
 * - `drain`: ends the turn between two events, without recording an interruption, so that the next owner resumes it there.
 *   Tool calls under way may finish. Nothing starts any more.
 * - `lost`: fails when this process can no longer write to the session.
 */
export interface LiveSession {
  readonly answers: Own
  readonly events: (after: Place) => Stream.Stream<Entry, SessionError>
  readonly idle: Effect.Effect<void, SessionError>
  readonly untilIdle: Effect.Effect<void, SessionError>
  readonly drain: Effect.Effect<void>
  readonly lost: Effect.Effect<never, SessionError>
}

/** Opens a session, which may not exist yet, and runs the turns that it is to run. */
export const open = Effect.fnUntraced(function* (
  host: sessionWriter.Host,
  id: string
): Effect.fn.Return<LiveSession, SessionError, Scope.Scope> {
  const turns = yield* sessionTurn.make(host, id)
  const { own } = turns
  yield* sessionTurn.start(turns)
  yield* Effect.forkIn(sessionInbox.tryHeld(turns), turns.scope)
  const looked = own.alone(own.refresh)
  const untilIdle = sessionReaders.untilIdle(turns)
  return {
    answers: {
      send: (_, payload) => sessionInbox.send(turns, payload),
      edit: (_, payload) => sessionEdit.edit(turns, payload),
      withdraw: (_, { messageId }) => sessionInbox.withdraw(turns, messageId),
      fork: (from, { at }) => sessionFork.fork(turns, from, at),
      decide: (_, { decisions }) => sessionInbox.decide(turns, decisions),
      resume: () => sessionInbox.resume(turns),
      interrupt: () => sessionInbox.interrupt(turns),
      update: (_, details) => sessionInbox.update(turns, details),
      remove: () => sessionInbox.remove(turns),
      state: () => Effect.map(looked, () => sessionReaders.state(turns)),
      history: () => Effect.andThen(looked, sessionReaders.history(turns))
    },
    events: (after) => sessionReaders.events(turns, after),
    idle: Effect.andThen(sessionTurn.take(turns), untilIdle),
    untilIdle,
    drain: sessionTurn.drain(turns),
    lost: own.lost
  }
})
