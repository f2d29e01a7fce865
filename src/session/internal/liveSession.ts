/**
 * A session in the process that has it, made of three machines over one writer: `inbox` and `edit` take what comes in,
 * `turns` runs one turn after the other, and `readers` shows what is stored. `writer` has what is stored, and
 * decides whether this process may write.
 */

import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import * as edit from "./edit.ts"
import * as fork from "./fork.ts"
import * as inbox from "./inbox.ts"
import * as readers from "./readers.ts"
import type { Handlers } from "./service.ts"
import type { LiveSession } from "./turns.ts"
import * as turns from "./turns.ts"
import type { SessionError } from "./types.ts"
import * as writer from "./writer.ts"

type Answers = Omit<Handlers, "events" | "live" | "read" | "list" | "listChanges" | "shared" | "prune">

/** Opens a session, which may not exist yet, and runs the turns that it is to run. */
export const open = Effect.fnUntraced(function* (
  host: writer.Host,
  id: string
): Effect.fn.Return<LiveSession, SessionError, Scope.Scope> {
  const self = yield* turns.make(host, id)
  yield* turns.start(self)
  yield* Effect.ignore(writer.alone(self, turns.settle(self)))
  yield* Effect.forkIn(inbox.tryHeld(self), self.scope)
  return self
})

/** Reads what another process may have written. */
const look = (self: LiveSession) => writer.alone(self, writer.refresh(self))

export const state = (self: LiveSession) => Effect.map(look(self), () => readers.state(self))

/** The operations that a session in memory answers. */
export const answersOf = (self: LiveSession): Answers => {
  return {
    send: (_, payload) => inbox.send(self, payload),
    edit: (_, payload) => edit.edit(self, payload),
    withdraw: (_, { messageId }) => inbox.withdraw(self, messageId),
    fork: (from, { at }) => fork.fork(self, from, at),
    decide: (_, payload) => inbox.decide(self, payload),
    forget: (_, options) => inbox.forget(self, options),
    resume: () => inbox.resume(self),
    interrupt: () => inbox.interrupt(self),
    update: (_, details) => inbox.update(self, details),
    remove: () => inbox.remove(self),
    state: () => state(self),
    history: () => Effect.andThen(look(self), readers.history(self))
  }
}

/**
 * Takes the session, and waits until no turn is under way or due. A call that waits for approval is no turn. Fails if the turn
 * that is due cannot be run here.
 */
export const idle = (self: LiveSession): Effect.Effect<void, SessionError> =>
  Effect.andThen(turns.take(self), readers.untilIdle(self))

/** Fails when this process can no longer write to the session. */
export const lost = ({ loss }: LiveSession): Effect.Effect<never, SessionError> => Deferred.await(loss)
