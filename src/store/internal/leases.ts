/**
 * The claims of logs (`journal.Journal`) that one process at a time may write to.
 *
 * The head of a log names its owner and the end of the lease. Who takes a log sets a new owner and a new epoch in the head, which
 * changes by compare-and-set: the owner before writes nothing more, because its next append fails.
 *
 * A lease ends when its time has come by the clock of the process that waits, or when the head did not change for as long as
 * the lease was given: the clock of its owner may have been wrong. A lease of many times the own
 * lease time of that process is believed for ten times that: its owner renews it, and nothing stored holds a log. It ends sooner where the store knows that the process of
 * its owner has ended ({@link ownersOf}).
 */

import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as journal from "./journal.ts"
import * as storeKeys from "./storeKeys.ts"
import type * as storeService from "./storeService.ts"

/** The fields of the Schema of a head whose log can be claimed. */
export const headFields = {
  ...journal.logFields,
  lease: Schema.optionalKey(Schema.DateTimeUtcFromString),
  updated: Schema.DateTimeUtcFromString
}

/** A head whose log can be claimed. Without `lease` no process has it. */
export interface Head extends journal.Log {
  readonly lease?: DateTime.Utc
  readonly updated: DateTime.Utc
}

/**
 * The owners of logs in a store.
 *
 * - `next`: the name of an owner in this process.
 * - `rest`: for how many milliseconds no other process may take a log; 0 if it is free.
 */
export interface Owners {
  readonly next: Effect.Effect<string>
  readonly rest: (at: journal.StoredHead<Head>) => Effect.Effect<number>
}

/** The logs of other processes whose versions are remembered. A log that is forgotten is waited for once more. */
const watched = 1000

/** A process that lives and has lost its lock has it again after less than this many milliseconds. */
const reconnection = 4000

/** Two looks that are further apart than this do not belong together. */
const longestPause = 4 * reconnection

const ownerPattern = /^([0-9a-z]{16})\.[0-9a-z]{16}$/

const forgetOldest = <A>(values: Map<string, A>): void => {
  const [oldest = ""] = values.keys()
  if (values.size > watched) values.delete(oldest)
}

/** A process waits for so many of its own leases, while a head does not change. */
const longestLease = 10

export const ownersOf = (
  { processes = Effect.succeedNone }: storeService.Service,
  leaseTime: Duration.Duration
): Owners => {
  const seen = new Map<string, { readonly version: string; readonly since: number }>()

  const missing = new Map<string, number>()

  /** For how many milliseconds the process of an owner is believed to live. */
  const believed = Effect.fnUntraced(function* (owner: string, now: number) {
    const [, process] = ownerPattern.exec(owner) ?? []
    const known = process === undefined ? Option.none() : yield* processes
    if (process === undefined || Option.isNone(known)) return Number.POSITIVE_INFINITY
    const found = yield* known.value.look(process)
    const before = missing.get(process) ?? now
    missing.delete(process)
    if (found !== "missing") return found === "gone" ? 0 : Number.POSITIVE_INFINITY
    const since = before <= now && now - before <= longestPause ? before : now
    missing.set(process, since)
    forgetOldest(missing)
    return Math.max(0, since + reconnection - now)
  })

  return {
    next: Effect.flatMap(storeKeys.nonce, (nonce) =>
      Effect.map(processes, Option.match({ onNone: () => nonce, onSome: ({ own }) => `${own}.${nonce}` }))
    ),
    rest: Effect.fnUntraced(function* ({ head: { lease, owner, updated }, key, version }) {
      const before = seen.get(key)
      seen.delete(key)
      if (lease === undefined) return 0
      const now = DateTime.toEpochMillis(yield* DateTime.now)
      const believedFor = yield* believed(owner, now)
      const since = before?.version === version ? Math.min(before.since, now) : now
      const longest = longestLease * Duration.toMillis(leaseTime)
      const given = Math.min(Duration.toMillis(DateTime.distance(updated, lease)), longest)
      const rest = Math.min(DateTime.toEpochMillis(lease) - now, since + given - now, believedFor)
      if (rest <= 0) return 0
      seen.set(key, { version, since })
      forgetOldest(seen)
      return rest
    })
  }
}

const timesOf = (updated: DateTime.Utc, time: Duration.Duration) => ({
  updated,
  lease: DateTime.addDuration(updated, time)
})

const withoutLease = <H extends Head>(head: H): H => {
  const { lease: _, ...rest } = head
  // Sound: a head can have no lease, and nothing else was removed.
  return rest as H
}

/** A head that is written now: with a lease of this time, or without one, so that any process can take the log. */
export const withLease = <H extends Head>(head: H, now: DateTime.Utc, time: Duration.Duration | undefined): H =>
  time === undefined ? { ...withoutLease(head), updated: now } : { ...head, ...timesOf(now, time) }
