/**
 * The changes of the list of sessions, as a stream: the first page, then each session that is new, changed or removed.
 *
 * A change in this process wakes the readers at once. For changes of other processes one fiber looks at the newest rows of the index, each
 * second while there is a reader, and a reader looks at the sessions that it has sent as running: the end of a turn moves no row.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as RcRef from "effect/RcRef"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type * as documents from "../../store/internal/documents.ts"
import * as eventFeed from "./eventFeed.ts"
import * as listIndex from "./listIndex.ts"
import * as list from "./list.ts"
import type { SessionLog } from "./eventLog.ts"
import * as types from "./types.ts"
import type { ListChange, Listed, SessionError } from "./types.ts"

/** Rows of other processes are looked for this often. */
const pollInterval = Duration.seconds(1)

/** A row may appear so long after its time: clocks differ, and a write is tried again while the store fails. */
const longestDelay = Duration.toMillis(Duration.minutes(1))

/** The rows of removed sessions are deleted this often. */
const sweepInterval = Duration.minutes(1)

const rowsAtATime = 200

/** The rows that are at most so much older than the newest one. */
const newestRows = Effect.fnUntraced(function* ({ index }: SessionLog) {
  const rows: Array<listIndex.Row> = []
  const isNew = ({ place }: listIndex.Row) =>
    listIndex.timeOf(place) + longestDelay >= listIndex.timeOf(rows[0]?.place ?? place)
  let after: string | undefined
  do {
    const page = yield* index.list({ after, limit: rowsAtATime })
    rows.push(...page.rows)
    const last = rows.at(-1)
    after = last !== undefined && isNew(last) ? Option.getOrUndefined(page.next) : undefined
  } while (after !== undefined)
  return rows.filter(isNew)
})

/** Reports the sessions that other processes move to the readers in this process. */
const poller = Effect.fnUntraced(function* (
  sessions: SessionLog
): Effect.fn.Return<void, documents.Reason, Scope.Scope> {
  const placesOf = (rows: ReadonlyArray<listIndex.Row>) => new Set(rows.map(({ place }) => place))
  let seen = placesOf(yield* newestRows(sessions))
  const look = Effect.gen(function* () {
    const rows = yield* newestRows(sessions)
    yield* Effect.forEach(
      rows.filter(({ place }) => !seen.has(place)),
      ({ id }) => sessions.tell(id),
      { discard: true }
    )
    seen = placesOf(rows)
  })
  // While the store fails the readers find that out
  yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(pollInterval), Effect.ignore(look))))
})

/** A session as a reader has it. */
interface Known {
  readonly stamp: string
  readonly isRunning: boolean
}

const knownOf = ({ created, sequence, status }: Listed): Known => ({
  stamp: `${created.epochMilliseconds}.${sequence}`,
  isRunning: status === "running"
})

const removed: Known = { stamp: "", isRunning: false }

type Options = types.ListChangesOptions

const isFiltered = ({ agent, metadata, status, updatedAfter, updatedBefore, waitsFor }: Options): boolean =>
  [agent, metadata, status, updatedAfter, updatedBefore, waitsFor].some((filter) => filter !== undefined)

/** The changes for one reader, until the scope ends. */
const reader = Effect.fnUntraced(function* (sessions: SessionLog, options: Options) {
  const { prefix = "" } = options
  const changed = new Set<string>()
  const feed = eventFeed.make()
  const listener = (id: string) => {
    if (!id.startsWith(prefix)) return
    changed.add(id)
    feed.notify()
  }
  yield* Effect.acquireRelease(
    Effect.sync(() => sessions.listeners.add(listener)),
    () => Effect.sync(() => sessions.listeners.delete(listener))
  )
  const first = yield* list.page(sessions, options)
  const known = new Map(first.sessions.map((session) => [session.id, knownOf(session)]))

  const changeOf = (id: string, found: Listed | string | undefined): ReadonlyArray<ListChange> => {
    if (typeof found === "string") return []
    const before = known.get(id)
    const next = found === undefined || !list.selects(options, found) ? undefined : knownOf(found)
    if (found !== undefined && next !== undefined) {
      known.set(id, next)
      return before?.stamp === next.stamp ? [] : [{ _tag: "Changed", session: found }]
    }
    // The reader may have a session that is gone from another page. A filter may be what keeps the id from the reader.
    const isNews = before === undefined ? found === undefined && !isFiltered(options) : before !== removed
    if (isNews) known.set(id, removed)
    return isNews ? [{ _tag: "Removed", id }] : []
  }

  const next = Effect.gen(function* () {
    const waiting = feed.changed()
    if (changed.size === 0) yield* Effect.timeoutOption(waiting, pollInterval)
    const running = Array.from(known).flatMap(([id, { isRunning }]) => (isRunning ? [id] : []))
    const ids = new Set([...changed, ...running])
    changed.clear()
    const found = yield* Effect.forEach(
      ids,
      (id) => Effect.map(list.look(sessions, id), (shown) => changeOf(id, shown)),
      { concurrency: list.concurrency }
    )
    return found.flat()
  }).pipe(Effect.mapError((reason) => new types.SessionError({ id: prefix, reason })))

  const opening: ListChange = { _tag: "Page", page: first }
  const changes = Stream.paginate(undefined, () => Effect.map(next, (changes) => [changes, Option.some(undefined)]))
  return Stream.concat(Stream.succeed(opening), changes)
})

/** The changes of the list of sessions in a store, for any number of readers. */
export const make = Effect.fnUntraced(function* (sessions: SessionLog) {
  const polling = yield* RcRef.make({ acquire: poller(sessions) })
  const sweeping = Effect.andThen(Effect.sleep(sweepInterval), Effect.ignore(sessions.index.sweep))
  yield* Effect.forkScoped(Effect.forever(sweeping))
  return (options: Options = {}): Stream.Stream<ListChange, SessionError> =>
    RcRef.get(polling).pipe(
      Effect.mapError((reason) => new types.SessionError({ id: options.prefix ?? "", reason })),
      Effect.andThen(reader(sessions, options)),
      Stream.unwrap
    )
})
