/**
 * The values that the sessions of a namespace share, definitions of agents and values of steps: pages of them, and their removal with
 * the last session that uses each.
 *
 * A process that dies while a session is removed leaves the values that the session used. `prune` finds them: for each value it looks for
 * a session that is there, and removes the value without a session.
 */

import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as VersionedStore from "../../store/VersionedStore.ts"
import * as documents from "../../store/internal/documents.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import type { Definitions } from "./storedDefinitions.ts"
import type { SessionLog } from "./eventLog.ts"
import type { SharedOptions } from "./types.ts"
import type { Kind, Name, PrunedPage, SessionUses, Shared, SharedPage, User } from "./sharedUses.ts"
import * as sharedUses from "./sharedUses.ts"
import type { AnyLife, StepWrites } from "./stepWrites.ts"

/** The number of values, and of the uses of one, that are read at a time. */
const most = 200

/** The number of sessions that a page shows for each value. */
const shownSessions = 100

/** A session that is about to begin adds its use before it is stored. So a use without a session counts for this long. */
const timeToBegin = Duration.hours(1)

const folders: Readonly<Record<Kind, string>> = { definition: "definitions/", "step-value": "writes/" }

const kinds = sharedUses.Kind.literals

interface Parts {
  readonly store: VersionedStore.Service
  readonly namespace: string
  readonly sessions: SessionLog
  readonly uses: SessionUses
  readonly definitions: Definitions
  readonly writes: StepWrites
}

export type SharedValues = ReturnType<typeof make>

export const make = ({ definitions, namespace, sessions, store, uses, writes }: Parts) => {
  const root = storeKeys.rootKey(namespace)

  /** A value that cannot be read stays as it is. */
  const whereReadable = <A>(effect: Effect.Effect<A, documents.Reason>, otherwise: A) =>
    Effect.catchTag(effect, ["Unreadable", "Damaged"], () => Effect.succeed(otherwise))

  const leaveThese = (user: User, names: ReadonlyArray<Name>) =>
    Effect.forEach(
      names,
      ({ key, kind }) =>
        whereReadable(kind === "definition" ? definitions.leave(user, key) : writes.leave(user, key), undefined),
      { discard: true }
    )

  /** The names of a page. A page that ends a kind has fewer than its limit. */
  const page = Effect.fnUntraced(function* ({ after = "", kind, limit = 50 }: SharedOptions) {
    const wanted = kind === undefined ? kinds : [kind]
    const at = wanted.findIndex((one) => after < folders[one] || after.startsWith(folders[one]))
    const found = wanted[at]
    if (found === undefined) return { names: [], next: Option.none() }
    const prefix = root + folders[found]
    const { keys, next } = yield* Effect.mapError(
      store.list({ prefix, after: root + after, limit: Math.min(limit, most) }),
      documents.reasonOf(prefix)
    )
    const following = wanted[at + 1]
    return {
      names: keys.map((key): Name => ({ kind: found, key: key.slice(prefix.length) })),
      next: Option.orElse(
        Option.map(next, (key) => key.slice(root.length)),
        () => Option.map(Option.fromUndefinedOr(following), (kind) => folders[kind])
      )
    }
  })

  const show = Effect.fnUntraced(function* (name: Name) {
    const { hasMore, users } =
      name.kind === "definition"
        ? yield* uses.users(name.key, { limit: shownSessions })
        : { users: yield* writes.users(name.key), hasMore: false }
    const ids = new Set(users.map(({ id }) => id))
    const shown: Shared = { ...name, sessions: Array.from(ids).slice(0, shownSessions) }
    return hasMore || ids.size > shownSessions ? { ...shown, hasMore: true as const } : shown
  })

  /** True if a session is there, cannot be read, or may be about to begin. */
  const isUser =
    (name: Name) =>
    ({ id, life }: AnyLife): Effect.Effect<boolean, documents.Reason> =>
      whereReadable(
        Effect.gen(function* () {
          const at = yield* sessions.log.head(id)
          if (Option.exists(at, ({ head }) => life === undefined || head.life === life)) return true
          const added = life === undefined ? Option.none() : yield* uses.addedAt({ id, life }, name)
          if (Option.isNone(added)) return false
          return Duration.isLessThan(DateTime.distance(added.value, yield* DateTime.now), timeToBegin)
        }),
        true
      )

  /** Removes a definition whose sessions are all gone, and the uses of sessions that are gone before the first session that is there. */
  const pruneDefinition = Effect.fnUntraced(function* (name: Name) {
    const digest = name.key
    let after: User | undefined
    let hasMore = true
    while (hasMore) {
      const found = yield* uses.users(digest, { after, limit: most })
      for (const user of found.users) {
        if (yield* isUser(name)(user)) return false
        yield* uses.remove(user, digest)
      }
      after = found.users.at(-1)
      hasMore = found.hasMore
    }
    return yield* definitions.collect(digest)
  })

  const unreadable = (name: Name): Shared => ({ ...name, sessions: [], isUnreadable: true })

  return {
    /** Removes the values that a session uses, and no other session does. */
    leaveAll: (user: User): Effect.Effect<void, documents.Reason> =>
      Effect.flatMap(uses.namesOf(user), (names) => leaveThese(user, names)),

    /** Removes a session, and the values that no other session uses. Returns whether there was a session. */
    remove: Effect.fnUntraced(function* (id: string): Effect.fn.Return<boolean, documents.Reason> {
      const at = yield* whereReadable(sessions.log.head(id), Option.none())
      const user = Option.map(at, ({ head }): User => ({ id, life: head.life }))
      // Their rows go with the journal
      const names = Option.isSome(user) ? yield* uses.namesOf(user.value) : []
      const isRemoved = yield* sessions.remove(id)
      if (Option.isSome(user)) yield* leaveThese(user.value, names)
      return isRemoved
    }),

    /** A fork uses the values of steps of the session that it continues. */
    share: (from: User, user: User): Effect.Effect<void, documents.Reason> =>
      Effect.flatMap(uses.namesOf(from), (names) =>
        Effect.forEach(
          names,
          ({ key, kind }) => (kind === "step-value" ? writes.share(from, user, key) : Effect.void),
          { discard: true }
        )
      ),

    page: Effect.fnUntraced(function* (options: SharedOptions): Effect.fn.Return<SharedPage, documents.Reason> {
      const { names, next } = yield* page(options)
      const values = yield* Effect.forEach(names, (name) => whereReadable(show(name), unreadable(name)))
      return { values, next }
    }),

    prune: Effect.fnUntraced(function* (options: SharedOptions): Effect.fn.Return<PrunedPage, documents.Reason> {
      const { names, next } = yield* page(options)
      const removed = yield* Effect.filter(names, (name) =>
        whereReadable(name.kind === "definition" ? pruneDefinition(name) : writes.prune(name.key, isUser(name)), false)
      )
      return { removed, next }
    })
  }
}
