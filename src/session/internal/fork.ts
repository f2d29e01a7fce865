/**
 * A session that continues from a place of another one, which stays as it is. It begins with a snapshot of the state there, in
 * which nothing is under way, and its first event names the place.
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { defined } from "../../payload/internal/values.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import type { Event } from "./events.ts"
import type { SessionState } from "./fold.ts"
import * as cursors from "./cursors.ts"
import * as fold from "./fold.ts"
import * as inbox from "./inbox.ts"
import type { LiveSession } from "./turns.ts"
import type { User } from "./sharedUses.ts"
import * as writer from "./writer.ts"
import * as types from "./types.ts"
import type { Reason, Receipt, SessionError } from "./types.ts"
import * as turnEvents from "./turnEvents.ts"

/**
 * The state that a fork begins with. It has received nothing: what waited in the other session waits there. Its
 * `RunContext` is what a message without a context gets. The plan under way is kept apart, for readers of the fork's
 * events.
 */
const beginningOf = Effect.fnUntraced(function* (
  self: LiveSession,
  { agent, conversation, definition, isInstructed, metadata, model, origin, received, run, title }: SessionState
) {
  const context = (yield* inbox.contextFor(self, undefined)) ?? {}
  const closed = run === undefined ? undefined : yield* turnEvents.closed(run, context)
  const begun = closed && new runParts.State({ ...closed, plan: undefined })
  const first = received[0]?.digest
  const beginning: SessionState = {
    ...fold.empty(agent),
    title,
    metadata,
    ...defined({ conversation, definition, isInstructed, model, run: begun }),
    ...(run !== undefined && defined({ origin: origin ?? first }))
  }
  return { beginning, plan: closed?.plan }
})

/** The state of a session at a place, and the cursor of the place. Errors are about that session. */
const sourceOf = Effect.fnUntraced(function* ({ host }: LiveSession, id: string, at: string | undefined) {
  const failed = (reason: Reason) => new types.SessionError({ id, reason })
  const { sessions } = host
  /** Reads are tried again while the store fails, as writes are. */
  const patiently = writer.untilStored(host)
  const found = yield* Effect.mapError(patiently(sessions.load(id)), failed)
  if (Option.isNone(found)) return yield* failed({ _tag: "NotFound" })
  const stored = found.value
  const newest = { life: stored.at.head.life, sequence: stored.state.sequence }
  const place = at === undefined ? newest : yield* types.checkAfter(id, at)
  if (!cursors.hasPlace(newest, place)) return yield* types.eventsUnknown(id, place, newest)
  const elsewhere: Reason = { _tag: "Elsewhere", owner: stored.at.head.owner }
  const state = yield* Effect.mapError(patiently(sessions.stateAt(stored, place.sequence)), (error) =>
    // A new generation began since the session was read: the caller tries again
    failed(error._tag === "Conflict" ? elsewhere : error)
  )
  if (state === undefined) return yield* failed(types.eventsPruned(newest.life, sessions.firstKept(stored)))
  const source = { id, life: newest.life }
  return { state, source, cursor: cursors.cursorOf(newest.life, place.sequence) }
})

/** The fork uses the definition that its state names, and the values that the steps of the other session have written. */
const use = ({ definitions, shared }: LiveSession["host"], from: User, user: User, { definition }: SessionState) =>
  Effect.andThen(
    definition === undefined ? Effect.void : definitions.keepStored(user, definition),
    shared.share(from, user)
  )

/** True for a session whose only event is this fork: the call came twice. */
const isSame = Effect.fnUntraced(function* (self: LiveSession, from: string, cursor: string) {
  const { sessions } = self.host
  if (self.stored?.state.sequence !== 1) return false
  const read = Effect.mapError(sessions.entries(self.stored, 1), (error) =>
    self.fail(error._tag === "Conflict" ? inbox.existing(self.stored?.state ?? fold.empty("")) : error)
  )
  const [first] = yield* read
  return first?.event._tag === "SessionForked" && first.event.from === from && first.event.cursor === cursor
})

/** Makes this session from another one. */
export const fork = (self: LiveSession, from: string, at: string | undefined): Effect.Effect<Receipt, SessionError> => {
  const refuse = Effect.flatMap(writer.stateOf(self), (state) =>
    Effect.fail(self.fail({ ...inbox.existing(state), isFork: true }))
  )
  const made: Effect.Effect<Receipt, SessionError> = Effect.gen(function* () {
    yield* writer.refresh(self)
    if (self.stored !== undefined && self.stored.state.sequence > 1) return yield* refuse
    const { cursor, state, source } = yield* sourceOf(self, from, at)
    if (self.stored === undefined) {
      const { beginning, plan } = yield* beginningOf(self, state)
      const generation = yield* storeKeys.nonce
      yield* Effect.mapError(use(self.host, source, writer.userOf(self, generation), beginning), self.fail)
      const now = yield* DateTime.now
      const event: Event = { _tag: "SessionForked", at: now, from, cursor, ...defined({ plan }) }
      if (yield* writer.create(self, state.agent, now, [event], beginning, generation)) return inbox.newest(self)
      // Another process made it, or has removed what there was of it
      yield* writer.refresh(self)
      if (self.stored === undefined) return yield* made
    }
    return (yield* isSame(self, from, cursor)) ? inbox.newest(self) : yield* refuse
  })
  return writer.alone(self, made)
}
