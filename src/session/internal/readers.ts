/**
 * The readers of a session in the process that has it: its events, its state, its history, and the end of its work. A reader
 * never writes. Where another process may write, it looks again each second.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Budget from "../../agent/Budget.ts"
import * as Run from "../../agent/Run.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import { defined } from "../../payload/internal/values.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as handoffs from "../../run/internal/handoffs.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as cursors from "./cursors.ts"
import * as fold from "./fold.ts"
import type { EventPlace } from "./cursors.ts"
import { type Entry, showRemembered, showRequest } from "./events.ts"
import type { Stored } from "./eventLog.ts"
import * as turns from "./turns.ts"
import type { LiveSession } from "./turns.ts"
import * as types from "./types.ts"
import type { SessionError } from "./types.ts"
import * as writer from "./writer.ts"

/** The message whose calls wait: later ones are not in the conversation. */
const askedBy = ({ conversation }: Run.State): string | undefined =>
  Conversation.messages(conversation).findLast(({ role }) => role === "user")?.id

/** The end of a turn in a state, which has its requests as they are shown. */
const endOf = (outcome: Run.Outcome | undefined) =>
  outcome?._tag === "AwaitingApproval" ? { outcome: outcome._tag } : outcome && runParts.ended({}, outcome)

/** The ids of the messages that the run adds to the conversation when its requests are decided. */
const idsBehind = ({ pending }: runParts.State): ReadonlyArray<string> | undefined =>
  pending.length === 0 ? undefined : pending.flatMap(({ message }) => message.id ?? [])

const stateOf = ({ at, state }: Stored, taken: ReadonlyArray<string>): types.State => {
  const { agent, definition, failure, remembered = [], run, sequence } = state
  const requests = run === undefined ? [] : Run.requests(run)
  return {
    agent,
    activeAgent: run === undefined ? agent : handoffs.activeAgent(run),
    ...at.head.summary,
    status: fold.statusOf(state),
    sequence,
    cursor: cursors.cursorOf(at.head.life, sequence),
    queue: Array.from(fold.waitingMessages(state), ({ messageId }) => messageId).filter((id) => !taken.includes(id)),
    requests: requests.map(showRequest),
    ...runRequests.batchIn(requests),
    ...(remembered.length > 0 && { remembered: remembered.map(showRemembered) }),
    ...(run !== undefined &&
      requests.length > 0 &&
      defined({ requestsOf: askedBy(run), behindRequests: idsBehind(run) })),
    ...(failure === undefined && endOf(run?.outcome)),
    ...defined({ failure, definition }),
    steps: run?.totalSteps ?? 0,
    usage: run?.usage ?? {},
    ...(run?.account && { budget: Budget.left(run) })
  }
}

const newestOf = (stored: Stored | undefined): EventPlace => ({
  life: stored?.at.head.life,
  sequence: stored?.state.sequence ?? 0
})

/** The next events after a place, which waits until there are some. */
const entriesAfter = (self: LiveSession, after: EventPlace): Effect.Effect<ReadonlyArray<Entry>, SessionError> =>
  Effect.suspend(() => {
    const { host } = self
    if (self.failure !== undefined) return Effect.fail(self.failure)
    const waiting = self.feed.changed()
    // It was removed
    if (self.stored === undefined && after.sequence > 0) return Effect.fail(self.fail({ _tag: "NotFound" }))
    const isFollowed = host.isExclusive || self.hasTurn
    const looked = writer.alone(self, writer.refresh(self))
    // The session was removed and begun again, or another process may have written it
    const isUnknown = () => self.stored !== undefined && !cursors.hasPlace(newestOf(self.stored), after)
    if (isUnknown()) {
      return Effect.andThen(isFollowed ? Effect.void : looked, () =>
        isUnknown()
          ? Effect.fail(types.eventsUnknown(self.id, after, newestOf(self.stored)))
          : entriesAfter(self, after)
      )
    }
    if (self.stored === undefined || self.stored.state.sequence <= after.sequence) {
      // A turn notifies with each write and at its end, also where another process has the session
      const isTold = isFollowed || self.current !== undefined
      const waited = isTold ? waiting : Effect.andThen(Effect.timeoutOption(waiting, writer.pollInterval), looked)
      // The next event is one of this session
      const here = after.sequence === 0 ? after : newestOf(self.stored)
      return Effect.flatMap(waited, () => entriesAfter(self, here))
    }
    const recent = self.feed.entries()
    const [oldest] = recent
    if (oldest !== undefined && oldest.sequence <= after.sequence + 1) {
      return Effect.succeed(recent.slice(after.sequence + 1 - oldest.sequence))
    }
    return Effect.flatMap(storedAfter(self, self.stored, after), (entries) =>
      entries.length === 0 ? entriesAfter(self, after) : Effect.succeed(entries)
    )
  })

/** Events that are read from the store: none if they are to be looked for again. */
const storedAfter = (self: LiveSession, stored: Stored, after: EventPlace) => {
  const { sessions } = self.host
  const first = sessions.firstKept(stored)
  const from = after.sequence + 1
  if (from < first) return Effect.fail(self.fail(types.eventsPruned(stored.at.head.life, first)))
  return Effect.catch(sessions.entries(stored, from), (error) => {
    if (error._tag !== "Conflict") return Effect.fail(self.fail(error))
    // The events were pruned since, or the session was removed
    const isSame = () => self.stored?.at.head.generation === stored.at.head.generation
    // Another process has it, and a turn here does not know that yet
    const owner = Option.getOrUndefined(error.found)?.head.owner ?? "none: it was removed"
    const lost = self.fail({ _tag: "Elsewhere", owner })
    return Effect.andThen(writer.alone(self, writer.refresh(self)), () =>
      isSame() ? Effect.fail(lost) : Effect.succeed([])
    )
  })
}

export const events = (self: LiveSession, after: EventPlace): Stream.Stream<Entry, SessionError> =>
  Stream.paginate(after, (after) =>
    Effect.map(entriesAfter(self, after), (entries) => {
      const last = entries.at(-1)
      return [entries, Option.some(last === undefined ? after : cursors.placeOf(last))] as const
    })
  )

export const state = (self: LiveSession): Option.Option<types.State> =>
  Option.map(Option.fromUndefinedOr(self.stored), (stored) => stateOf(stored, turns.takenMessages(self)))

export const history = (self: LiveSession): Effect.Effect<Conversation.Conversation, SessionError> =>
  Effect.map(writer.stateOf(self), fold.conversationOf)

/** Waits until no turn is under way or due. */
export const untilIdle = (self: LiveSession): Effect.Effect<void, SessionError> =>
  Effect.suspend(() => {
    const { current, unable } = self
    const error = self.failure ?? unable ?? turns.leftToOthers(self)
    if (error !== undefined) return Effect.fail(error)
    const isIdle = current === undefined && !writer.hasWork(self)
    return isIdle ? Effect.void : Effect.andThen(self.feed.changed(), untilIdle(self))
  })
