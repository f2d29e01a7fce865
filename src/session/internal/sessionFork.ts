/**
 * A session that continues from a place of another one, which stays as it is. It begins with a snapshot of the state there, in
 * which nothing is under way, and its first event names the place.
 */

import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { defined } from "../../payload/internal/values.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as storage from "../../store/internal/storage.ts"
import type { Event, Memory } from "./sessionEvents.ts"
import * as sessionEvents from "./sessionEvents.ts"
import * as sessionInbox from "./sessionInbox.ts"
import type { Turns } from "./sessionTurn.ts"
import type { User } from "./sessionUses.ts"
import * as sessionWriter from "./sessionWriter.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { Reason, Receipt, SessionError } from "./sessionTypes.ts"
import * as turnEvents from "./turnEvents.ts"

/**
 * The state that a fork begins with. It has received nothing: what waited in the other session waits there. Its
 * `RunContext` is what a message without a context gets. The events of a plan under way are kept apart, for readers of
 * the fork's events.
 */
const beginningOf = Effect.fnUntraced(function* (
  self: Turns,
  { agent, conversation, definition, isInstructed, metadata, model, origin, received, run, title }: Memory
) {
  const context = (yield* sessionInbox.contextFor(self, undefined)) ?? {}
  const closed = run === undefined ? undefined : yield* turnEvents.closed(run, context)
  const begun = closed && new runParts.State({ ...closed, progress: undefined })
  const first = received[0]?.digest
  const beginning: Memory = {
    ...sessionEvents.empty(agent),
    title,
    metadata,
    ...defined({ conversation, definition, isInstructed, model, run: begun }),
    ...(run !== undefined && defined({ origin: origin ?? first }))
  }
  return { beginning, progress: closed?.progress && Chunk.toReadonlyArray(closed.progress.events) }
})

/** The state of a session at a place, and the cursor of the place. Errors are about that session. */
const sourceOf = Effect.fnUntraced(function* ({ host }: Turns, id: string, at: number | string | undefined) {
  const failed = (reason: Reason) => new sessionTypes.SessionError({ id, reason })
  const { sessions } = host
  /** Reads are tried again while the store fails, as writes are. */
  const patiently = <A, E extends { readonly _tag: string }>(read: Effect.Effect<A, E>) =>
    Effect.retry(read, { schedule: sessionWriter.untilStored(host), while: ({ _tag }) => _tag === "StoreFailed" })
  const found = yield* Effect.mapError(patiently(sessions.load(id)), failed)
  if (Option.isNone(found)) return yield* failed({ _tag: "NotFound" })
  const stored = found.value
  const newest = { life: stored.at.head.life, sequence: stored.memory.sequence }
  const place = at === undefined ? newest : yield* sessionTypes.checkAfter(id, at)
  if (!sessionEvents.hasPlace(newest, place)) return yield* sessionTypes.eventsUnknown(id, place, newest)
  const elsewhere: Reason = { _tag: "Elsewhere", owner: stored.at.head.owner }
  const memory = yield* Effect.mapError(patiently(sessions.memoryAt(stored, place.sequence)), (error) =>
    // A new generation began since the session was read: the caller tries again
    failed(error._tag === "Conflict" ? elsewhere : error)
  )
  if (memory === undefined) return yield* failed({ _tag: "EventsPruned", first: sessions.firstKept(stored) })
  const source = { id, life: newest.life }
  return { memory, source, cursor: sessionEvents.cursorOf(newest.life, place.sequence) }
})

/** The fork uses the definition that its state names, and the values that the steps of the other session have written. */
const use = ({ definitions, shared }: Turns["host"], from: User, user: User, { definition }: Memory) =>
  Effect.andThen(
    definition === undefined ? Effect.void : definitions.keepStored(user, definition),
    shared.share(from, user)
  )

/** True for a session whose only event is this fork: the call came twice. */
const isSame = Effect.fnUntraced(function* ({ host: { sessions }, own }: Turns, from: string, cursor: string) {
  if (own.stored?.memory.sequence !== 1) return false
  const read = Effect.mapError(sessions.entries(own.stored, 1), (error) =>
    own.fail(error._tag === "Conflict" ? sessionInbox.existing(own.stored?.memory ?? sessionEvents.empty("")) : error)
  )
  const [first] = yield* read
  return first?.event._tag === "SessionForked" && first.event.from === from && first.event.cursor === cursor
})

/** Makes this session from another one. */
export const fork = (
  self: Turns,
  from: string,
  at: number | string | undefined
): Effect.Effect<Receipt, SessionError> => {
  const { own } = self
  const refuse = Effect.flatMap(own.memory, (memory) =>
    Effect.fail(own.fail({ ...sessionInbox.existing(memory), isFork: true }))
  )
  return own.alone(
    Effect.gen(function* () {
      yield* own.refresh
      if (own.stored !== undefined && own.stored.memory.sequence > 1) return yield* refuse
      const { cursor, memory, source } = yield* sourceOf(self, from, at)
      if (own.stored === undefined) {
        const { beginning, progress } = yield* beginningOf(self, memory)
        const generation = yield* storage.nonce
        yield* Effect.mapError(use(self.host, source, own.user(generation), beginning), own.fail)
        const now = yield* DateTime.now
        const event: Event = { _tag: "SessionForked", at: now, from, cursor, ...defined({ progress }) }
        if (yield* own.create(memory.agent, now, [event], beginning, generation)) return sessionInbox.newest(self)
        // Another process made it
        yield* own.refresh
      }
      return (yield* isSame(self, from, cursor)) ? sessionInbox.newest(self) : yield* refuse
    })
  )
}
