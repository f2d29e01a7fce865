/**
 * The index of the sessions in a store, newest first. Each session has one row, a key with the time at which it was moved to the top and
 * its id. A row has no content: the head of the session names it by that time.
 *
 * A session moves with the write that ends its rest: with its first message, the message or decision that begins a
 * turn, a new title. So a turn moves it once, and the end of the turn is in the head alone. The row is a part of the
 * commit of that write, where the store has commits; the row before is deleted with the write that ends the turn, which
 * deletes the mark of the session, too. A row that no head names is left where a process died, or where another write
 * was faster: readers skip it, and delete it after {@link longestWrite}. A session that was removed leaves a row that
 * no head names at the top, so that other processes notice, and this process deletes the row after {@link leftFor}.
 *
 * A store from before the index gets its rows at the first look at it ({@link Index.complete}).
 */

import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as documents from "../../store/internal/documents.ts"
import type * as journal from "../../store/internal/journal.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"

/** The parts of a head that name the row of its session. `listed` is absent before the index was there. */
export interface Indexed {
  readonly listed?: number
  readonly summary: { readonly updated: DateTime.Utc }
}

/** A row: `place` orders the rows, newest first. */
export interface Row {
  readonly place: string
  readonly id: string
}

/** The latest time of a `Date`. */
const latest = 8_640_000_000_000_000

const timeDigits = 16

/** A write takes effect within this time, so that a row which no head names then is named by none. */
const longestWrite = Duration.hours(1)

const placeAt = (listed: number, id: string): string => `${String(latest - listed).padStart(timeDigits, "0")}/${id}`

const listedOf = ({ listed, summary }: Indexed): number =>
  listed ?? Math.max(0, DateTime.toEpochMillis(summary.updated))

/** The place of a session with this head. A session whose head cannot be read is the last one. */
export const placeOf = (id: string, head: Indexed | undefined): string =>
  placeAt(head === undefined ? 0 : listedOf(head), id)

/** The milliseconds at which the session of a place was moved. */
export const timeOf = (place: string): number => latest - Number(place.slice(0, timeDigits))

export const isPlace = (text: string): boolean => /^\d{16}\//.test(text)

/** Other processes find the row of a removed session within this time. */
const leftFor = Duration.minutes(1)

export type Index = ReturnType<typeof make>

/** The index under a namespace of a store. */
export const make = (store: VersionedStore.Service, namespace: string) => {
  const values = documents.of(store)
  const complete = `${storeKeys.rootKey(namespace)}recent`
  const prefix = `${complete}/`
  let isComplete = false
  let newest = -1

  /** The time of a move: later than each move of this process, and than the one before, also where a clock goes back. */
  const nextListed = (before: Indexed | undefined, now: DateTime.Utc): number => {
    newest = Math.max(DateTime.toEpochMillis(now), newest + 1, before === undefined ? 0 : listedOf(before) + 1)
    return newest
  }

  const left = new Map<string, number>()

  const add = (place: string) => values.writeOnce(prefix + place, {})

  return {
    nextListed,

    /** The row of a session that was moved at a time. */
    rowAt: (id: string, listed: number): journal.Row => ({ key: prefix + placeAt(listed, id) }),

    /** The row of a session with this head. */
    rowOf: (id: string, head: Indexed): journal.Row => ({ key: prefix + placeOf(id, head) }),

    /** The rows after a place. `next` is the last place, where there are more. */
    list: ({ after, limit }: { readonly after?: string | undefined; readonly limit: number }) =>
      Effect.mapBoth(store.list({ prefix, limit, after: after === undefined ? undefined : prefix + after }), {
        onFailure: documents.reasonOf(prefix),
        onSuccess: ({ keys, next }) => ({
          rows: keys.map((key): Row => ({
            place: key.slice(prefix.length),
            id: key.slice(prefix.length + timeDigits + 1)
          })),
          next: Option.map(next, (key) => key.slice(prefix.length))
        })
      }),

    /** Leaves a row at the top in place of the row of a session that was removed. */
    leave: (id: string, before: Indexed | undefined) =>
      Effect.gen(function* () {
        const now = yield* DateTime.now
        const place = placeAt(nextListed(before, now), id)
        yield* add(place)
        left.set(place, DateTime.toEpochMillis(now))
        yield* values.deleteAll([prefix + placeOf(id, before)])
      }).pipe(Effect.ignore),

    /** Deletes the rows that removals of this process have left. */
    sweep: Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.forEach(
        Array.from(left).filter(([, since]) => now - since > Duration.toMillis(leftFor)),
        ([place]) => Effect.tap(values.deleteAll([prefix + place]), () => Effect.sync(() => left.delete(place))),
        { discard: true }
      )
    ),

    /** Deletes a row that the head of its session does not name, once no write can be under way. */
    tidy: ({ id, place }: Row, head: Indexed | undefined) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const isLeft = head === undefined || placeOf(id, head) < place
        const isOld = now - timeOf(place) > Duration.toMillis(longestWrite)
        return isLeft && isOld ? Effect.ignore(values.deleteAll([prefix + place])) : Effect.void
      }),

    /** Adds rows for sessions that have no row, once for a store. */
    complete: <E>(rows: Effect.Effect<ReadonlyArray<Row>, E>): Effect.Effect<void, E | documents.Reason> =>
      Effect.gen(function* () {
        if (isComplete) return
        if (Option.isNone(yield* values.find(complete))) {
          yield* Effect.forEach(yield* rows, ({ place }) => add(place), { concurrency: 8, discard: true })
          yield* values.writeOnce(complete, {})
        }
        isComplete = true
      })
  }
}
