/**
 * The readers of a session in the process that has it: its events, its state, its history, and the end of its work. A reader
 * never writes. Where another process may write, it looks again each second.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Run from "../../agent/Run.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import { defined } from "../../payload/internal/values.ts"
import * as sessionEvents from "./sessionEvents.ts"
import type { Entry, Place } from "./sessionEvents.ts"
import type { Stored } from "./sessionLog.ts"
import * as sessionTurn from "./sessionTurn.ts"
import type { Turns } from "./sessionTurn.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { SessionError } from "./sessionTypes.ts"
import * as sessionWriter from "./sessionWriter.ts"

/** The message whose calls wait: later ones are not in the conversation. */
const askedBy = ({ conversation }: Run.State): string | undefined =>
  Conversation.messages(conversation).findLast(({ role }) => role === "user")?.id

const stateOf = ({ at, memory }: Stored, taken: string | undefined): sessionTypes.State => {
  const { agent, definition, failure, run, sequence } = memory
  const requests = run === undefined ? [] : Run.approvalRequests(run)
  return {
    agent,
    ...at.head.summary,
    status: sessionEvents.statusOf(memory),
    sequence,
    cursor: sessionEvents.cursorOf(at.head.life, sequence),
    queue: Array.from(sessionEvents.waitingMessages(memory), ({ messageId }) => messageId).filter((id) => id !== taken),
    requests: requests.map(sessionEvents.showRequest),
    ...(run !== undefined && requests.length > 0 && defined({ requestsOf: askedBy(run) })),
    ...defined({ outcome: failure === undefined ? run?.outcome : undefined, failure, definition }),
    steps: run?.totalSteps ?? 0,
    usage: run?.usage ?? {}
  }
}

const newestOf = (stored: Stored | undefined): Place => ({
  life: stored?.at.head.life,
  sequence: stored?.memory.sequence ?? 0
})

/** The next events after a place, which waits until there are some. */
const entriesAfter = (self: Turns, after: Place): Effect.Effect<ReadonlyArray<Entry>, SessionError> =>
  Effect.suspend(() => {
    const { host, own } = self
    if (own.failure !== undefined) return Effect.fail(own.failure)
    const waiting = own.feed.changed()
    // It was removed
    if (own.stored === undefined && after.sequence > 0) return Effect.fail(own.fail({ _tag: "NotFound" }))
    const isFollowed = host.isExclusive || own.isHeld
    const looked = own.alone(own.refresh)
    // The session was removed and begun again, or another process may have written it
    const isUnknown = () => own.stored !== undefined && !sessionEvents.hasPlace(newestOf(own.stored), after)
    if (isUnknown()) {
      return Effect.andThen(isFollowed ? Effect.void : looked, () =>
        isUnknown()
          ? Effect.fail(sessionTypes.eventsUnknown(self.id, after, newestOf(own.stored)))
          : entriesAfter(self, after)
      )
    }
    if (own.stored === undefined || own.stored.memory.sequence <= after.sequence) {
      const waited = isFollowed
        ? waiting
        : Effect.andThen(Effect.timeoutOption(waiting, sessionWriter.pollInterval), looked)
      // The next event is one of this session
      const here = after.sequence === 0 ? after : newestOf(own.stored)
      return Effect.flatMap(waited, () => entriesAfter(self, here))
    }
    const recent = own.feed.entries()
    const [oldest] = recent
    if (oldest !== undefined && oldest.sequence <= after.sequence + 1) {
      return Effect.succeed(recent.filter(({ sequence }) => sequence > after.sequence))
    }
    return Effect.flatMap(storedAfter(self, own.stored, after), (entries) =>
      entries.length === 0 ? entriesAfter(self, after) : Effect.succeed(entries)
    )
  })

/** Events that are read from the store: none if they are to be looked for again. */
const storedAfter = ({ host: { sessions }, own }: Turns, stored: Stored, after: Place) => {
  const first = sessions.firstKept(stored)
  const from = after.sequence + 1
  if (from < first) return Effect.fail(own.fail({ _tag: "EventsPruned", first }))
  return Effect.catch(sessions.entries(stored, from), (error) => {
    if (error._tag !== "Conflict") return Effect.fail(own.fail(error))
    // The events were pruned since, or the session was removed
    const isSame = () => own.stored?.at.head.generation === stored.at.head.generation
    // Another process has it, and a turn here does not know that yet
    const owner = Option.getOrUndefined(error.found)?.head.owner ?? "none: it was removed"
    const lost = own.fail({ _tag: "Elsewhere", owner })
    return Effect.andThen(own.alone(own.refresh), () => (isSame() ? Effect.fail(lost) : Effect.succeed([])))
  })
}

export const events = (self: Turns, after: Place): Stream.Stream<Entry, SessionError> =>
  Stream.paginate(after, (after) =>
    Effect.map(entriesAfter(self, after), (entries) => {
      const last = entries.at(-1)
      return [entries, Option.some(last === undefined ? after : sessionEvents.placeOf(last))] as const
    })
  )

export const state = (self: Turns): Option.Option<sessionTypes.State> =>
  Option.map(Option.fromUndefinedOr(self.own.stored), (stored) => stateOf(stored, sessionTurn.takenMessage(self)))

export const history = ({ own }: Turns): Effect.Effect<Conversation.Conversation, SessionError> =>
  Effect.map(own.memory, sessionEvents.conversationOf)

/** Waits until no turn is under way or due. */
export const untilIdle = (self: Turns): Effect.Effect<void, SessionError> =>
  Effect.suspend(() => {
    const { current, own, unable } = self
    const error = own.failure ?? unable ?? sessionTurn.leftToOthers(self)
    if (error !== undefined) return Effect.fail(error)
    const isIdle = current === undefined && !own.hasWork()
    return isIdle ? Effect.void : Effect.andThen(own.feed.changed(), untilIdle(self))
  })
