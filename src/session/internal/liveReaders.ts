/**
 * Live readers of a session: the stored events, and between them what models are writing. An entry of a draft has the number of the
 * stored event before it, and its cursor has the place in the drafts, so a reader continues anywhere from the cursor alone.
 */

import * as Arr from "effect/Array"
import type * as Cause from "effect/Cause"
import type * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { constVoid } from "effect/Function"
import type * as Pull from "effect/Pull"
import * as Stream from "effect/Stream"
import * as cursors from "./cursors.ts"
import * as drafts from "./drafts.ts"
import { type Entry, isDraft, type LiveEntry } from "./events.ts"
import type { SessionError } from "./types.ts"

/** Without the draft that an event stores. */
const withoutAnswered = (seen: cursors.Seen, { event }: Pick<Entry, "event">): cursors.Seen => {
  const id = event._tag === "RunEvent" ? drafts.answeredIn(event.event) : undefined
  if (id === undefined || !seen.has(id)) return seen
  const after = new Map(seen)
  after.delete(id)
  return after
}

/** The place after an entry, `undefined` for an entry that does not follow the place. */
export const placeAfter = ({ seen = cursors.noneSeen, sequence }: cursors.EventPlace, entry: LiveEntry) => {
  const { event } = entry
  const place = cursors.readAfter(entry.cursor)
  if (place === undefined) return undefined
  const isHere = isDraft(event) ? entry.sequence === sequence : entry.sequence > sequence
  const after = isDraft(event) ? drafts.seenAfter(seen, event) : withoutAnswered(seen, { event })
  // A runner that begins anew knows nothing of the drafts that this reader has seen
  const isWhole = after !== undefined && Array.from(after.keys()).every((id) => place.seen?.has(id) === true)
  return isHere && isWhole ? place : undefined
}

export interface Options {
  /** The stored events after a place, then each new event. */
  readonly entries: (after: cursors.EventPlace) => Stream.Stream<Entry, SessionError>
  readonly drafts: drafts.Drafts
  readonly after: cursors.EventPlace
  /** The number of the newest stored event: the reader reads the stored events up to this one first. */
  readonly newest: number
  /** The milliseconds between two looks at the drafts. */
  readonly every: number
}

/** The stored events after a place, and what models write behind the newest of them. */
export const live = (options: Options): Stream.Stream<LiveEntry, SessionError> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { after, drafts: written, entries, every, newest } = options
      const scope = yield* Effect.scope
      const pull = yield* Stream.toPull(entries(after))
      const { life, seen = cursors.noneSeen, sequence } = after
      /** `undefined` before the first event. */
      let place = life === undefined ? undefined : drafts.placeAt(cursors.cursorOf(life, sequence), sequence, seen)
      /** The drafts have nothing new for `place` before this is done. */
      let looked: Deferred.Deferred<void> | undefined
      let exit: Exit.Exit<Arr.NonEmptyReadonlyArray<Entry>, SessionError | Cause.Done> | undefined
      let isPulling = false
      let wake = constVoid
      const pulled = Effect.onExit(pull, (found) =>
        Effect.sync(() => {
          exit = found
          wake()
        })
      )
      const read = (found: Arr.NonEmptyReadonlyArray<Entry>): Arr.NonEmptyReadonlyArray<LiveEntry> => {
        looked = undefined
        return Arr.map(found, (entry) => {
          place = drafts.placeAt(entry.cursor, entry.sequence, withoutAnswered(place?.seen ?? seen, entry))
          return { ...entry, cursor: place.cursor }
        })
      }
      const look = (change: Deferred.Deferred<void>): ReadonlyArray<LiveEntry> => {
        if (place === undefined || place.sequence < newest || looked === change) return []
        looked = change
        const found = written.after(place)
        place = found.place
        return found.entries
      }
      const untilWoken = (change: Deferred.Deferred<void>) =>
        Effect.callback<void>((resume) => {
          wake = () => resume(Effect.void)
          return exit === undefined ? written.joinRound(every, change, wake) : wake()
        })
      const next: Pull.Pull<Arr.NonEmptyReadonlyArray<LiveEntry>, SessionError> = Effect.gen(function* () {
        for (;;) {
          if (!isPulling) {
            isPulling = true
            yield* Effect.forkIn(pulled, scope, { startImmediately: true })
          }
          if (exit !== undefined) {
            const found = exit
            exit = undefined
            isPulling = false
            return read(yield* found)
          }
          const { change } = written
          const found = look(change)
          if (Arr.isReadonlyArrayNonEmpty(found)) return found
          yield* written.settle
          yield* written.beginRounds(every, scope)
          yield* untilWoken(change)
        }
      })
      return Stream.fromPull(Effect.succeed(next))
    })
  )
