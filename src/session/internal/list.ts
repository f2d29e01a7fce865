/**
 * Lists of sessions, newest first. A page costs one range of the index and the heads of its sessions: no session is opened, and no
 * event is read. Filters select among these heads, so a page may have fewer sessions than were read, and the next one continues after
 * them.
 *
 * The index has the rows of all sessions. Where few of them have the prefix, the heads under the prefix are read and sorted instead.
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import type { JsonObject } from "../../payload/Json.ts"
import * as listIndex from "./listIndex.ts"
import type { SessionLog } from "./eventLog.ts"
import * as types from "./types.ts"

/** The number of heads that are read at a time. */
export const concurrency = 8

/** The number of rows that are read for a page of sessions with a prefix, before the heads under the prefix are. */
const mostRows = 1000

/** True where an object has all entries of another one. */
const hasEntries = (all: JsonObject, some: JsonObject): boolean =>
  Object.keys(some).every((key) => Object.hasOwn(all, key) && Equal.equals(all[key], some[key]))

/** True for a session that the filters of a list let through. */
export const selects = (options: types.ListOptions, found: types.Listed): boolean => {
  const { agent, metadata, status, updatedAfter, updatedBefore, waitsFor } = options
  return (
    (agent === undefined || found.agent === agent) &&
    (status === undefined || found.status === status) &&
    (waitsFor === undefined || found.waitsFor === waitsFor) &&
    (updatedAfter === undefined || DateTime.isGreaterThan(found.updated, updatedAfter)) &&
    (updatedBefore === undefined || DateTime.isLessThan(found.updated, updatedBefore)) &&
    (metadata === undefined || hasEntries(found.metadata, metadata))
  )
}

/** The head under an id, `undefined` where there is none, or a text where it cannot be read. */
const headOf = ({ log }: SessionLog, id: string) =>
  log.head(id).pipe(
    Effect.map((found) => Option.getOrUndefined(found)?.head),
    Effect.catchTag(["Unreadable", "Damaged"], () => Effect.succeed("unreadable" as const))
  )

type Head = Exclude<Effect.Success<ReturnType<typeof headOf>>, undefined>

/** A session with its place in the list. */
interface Found extends listIndex.Row {
  readonly head: Head
}

const foundOf = (id: string, head: Head): Found => ({
  id,
  place: listIndex.placeOf(id, head === "unreadable" ? undefined : head),
  head
})

/** The part of a head that is shown, or the id of a session that cannot be read. */
const shownOf = (id: string, head: Head): types.Listed | string =>
  head === "unreadable" ? id : { id, agent: head.agent, sequence: head.sequence, ...head.summary }

/** The part of a session that is shown, `undefined` where there is none, or its id where it cannot be read. */
export const look = (sessions: SessionLog, id: string) =>
  Effect.map(headOf(sessions, id), (head) => head && shownOf(id, head))

/** The session of a row, `undefined` for a row that its head does not name. */
const byRow = Effect.fnUntraced(function* (sessions: SessionLog, row: listIndex.Row) {
  const head = yield* headOf(sessions, row.id)
  if (head === "unreadable") return { ...foundOf(row.id, head), place: row.place }
  if (head !== undefined && listIndex.placeOf(row.id, head) === row.place) return foundOf(row.id, head)
  yield* sessions.index.tidy(row, head)
  return undefined
})

/** All sessions whose ids begin with a text, newest first. */
const allUnder = Effect.fnUntraced(function* (sessions: SessionLog, prefix: string) {
  const all: Array<Found> = []
  let after: string | undefined
  do {
    const { keys, next } = yield* sessions.log.list({ prefix, after, limit: mostRows })
    const heads = yield* Effect.forEach(keys, (id) => headOf(sessions, id), { concurrency })
    all.push(...keys.flatMap((id, index) => (heads[index] === undefined ? [] : [foundOf(id, heads[index])])))
    after = Option.getOrUndefined(next)
  } while (after !== undefined)
  return all.sort((a, b) => (a.place < b.place ? -1 : 1))
})

const isUnindexed = ({ head }: Found): boolean => head === "unreadable" || head.listed === undefined

/** The sessions after a place, at most so many, and the last place where there are more. */
const foundAfter = Effect.fnUntraced(function* (
  sessions: SessionLog,
  { after, limit, prefix }: { readonly after: string | undefined; readonly limit: number; readonly prefix: string }
) {
  const pageOf = <A extends { readonly place: string }>(all: ReadonlyArray<A>) => {
    const page = all.slice(0, limit)
    const last = all.length > limit ? page.at(-1)?.place : undefined
    return { page, next: Option.fromUndefinedOr(last) }
  }
  yield* sessions.index.complete(Effect.map(allUnder(sessions, ""), (all) => all.filter(isUnindexed)))
  const range = yield* sessions.index.list({ after, limit: prefix === "" ? limit + 1 : mostRows })
  const rows = range.rows.filter(({ id }) => id.startsWith(prefix))
  if (rows.length > limit || Option.isNone(range.next)) {
    const { next, page } = pageOf(rows)
    return { page: yield* Effect.forEach(page, (row) => byRow(sessions, row), { concurrency }), next }
  }
  return pageOf((yield* allUnder(sessions, prefix)).filter(({ place }) => after === undefined || place > after))
})

/** A page of the sessions in a store. An error has the prefix as its id. */
export const page = Effect.fnUntraced(
  function* (sessions: SessionLog, options: types.ListOptions) {
    const { after, limit = 50, prefix = "" } = options
    if (after !== undefined && !listIndex.isPlace(after)) {
      const problem = "expected the next of a page as after, got another text"
      return yield* Effect.fail<types.Reason>({ _tag: "ArgumentInvalid", problem })
    }
    const { next, page } = yield* foundAfter(sessions, { after, limit, prefix })
    const listed: Array<types.Listed> = []
    const unreadable = new Set<string>()
    for (const found of page) {
      const shown = found && shownOf(found.id, found.head)
      if (typeof shown === "string") unreadable.add(shown)
      else if (shown !== undefined && selects(options, shown)) listed.push(shown)
    }
    return { sessions: listed, unreadable: Array.from(unreadable), next } satisfies types.Page
  },
  (effect, _, { prefix = "" }) => Effect.mapError(effect, (reason) => new types.SessionError({ id: prefix, reason }))
)
