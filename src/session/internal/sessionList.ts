/**
 * Lists of sessions. A page costs one range of keys and the heads under them: no session is opened, and no event is read.
 * Filters select among these heads, so a page may have fewer sessions than were read, and the next one continues after them.
 */

import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import type { JsonObject } from "../../payload/Json.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as storage from "../../store/internal/storage.ts"
import type { SessionLog } from "./sessionLog.ts"
import * as sessionTypes from "./sessionTypes.ts"

const most = 200

/** The number of heads that are read at a time. */
const concurrency = 8

/** True where an object has all entries of another one. */
const hasEntries = (all: JsonObject, some: JsonObject): boolean =>
  Object.keys(some).every((key) => Object.hasOwn(all, key) && Equal.equals(all[key], some[key]))

const selects = (options: sessionTypes.ListOptions, found: sessionTypes.Listed): boolean => {
  const { agent, metadata, status, updatedAfter, updatedBefore } = options
  return (
    (agent === undefined || found.agent === agent) &&
    (status === undefined || found.status === status) &&
    (updatedAfter === undefined || DateTime.isGreaterThan(found.updated, updatedAfter)) &&
    (updatedBefore === undefined || DateTime.isLessThan(found.updated, updatedBefore)) &&
    (metadata === undefined || hasEntries(found.metadata, metadata))
  )
}

/** A head that is listed, `undefined` for a session that was removed meanwhile, or the id of one that cannot be read. */
const headOf = (sessions: SessionLog, id: string) =>
  sessions.log.head(id).pipe(
    Effect.map((found): sessionTypes.Listed | string | undefined => {
      if (Option.isNone(found)) return undefined
      const { agent, sequence, summary } = found.value.head
      return { id, agent, sequence, ...summary }
    }),
    Effect.catchTag(["Unreadable", "Damaged"], () => Effect.succeed(id))
  )

/** A page of the sessions in a store. An error has the prefix as its id. */
export const page = Effect.fnUntraced(
  function* (sessions: SessionLog, options: sessionTypes.ListOptions) {
    const { after, limit = 50, prefix } = options
    if (!Number.isInteger(limit) || limit < 1 || limit > most) {
      const problem = { path: "/limit", expected: `an integer from 1 to ${most}`, found: `the number ${limit}` }
      const reason = PayloadError.invalid([problem])
      return yield* Effect.fail(storage.refused(new PayloadError.PayloadError({ what: "list options", reason })))
    }
    const { keys, next } = yield* sessions.log.list({ after, limit, prefix })
    const found = yield* Effect.forEach(keys, (id) => headOf(sessions, id), { concurrency })
    const listed: Array<sessionTypes.Listed> = []
    const unreadable: Array<string> = []
    for (const one of found) {
      if (typeof one === "string") unreadable.push(one)
      else if (one !== undefined && selects(options, one)) listed.push(one)
    }
    return { sessions: listed, unreadable, next } satisfies sessionTypes.Page
  },
  (effect, _, { prefix = "" }) =>
    Effect.mapError(effect, (reason) => new sessionTypes.SessionError({ id: prefix, reason }))
)
