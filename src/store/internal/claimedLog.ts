/**
 * Logs (`storage.Journal`) that one process at a time has claimed.
 *
 * {@link begin} and {@link takeOver} claim a log and return its head; {@link make} works on it. The head names the owner of
 * the claim and the end of its lease. Every append renews the lease, and changes the head by compare-and-set: a process whose
 * log was taken by another one, with a new epoch and owner, writes nothing more. Its next append fails.
 *
 * A lease ends when its time has come by the clock of the process that waits, or when the head did not change for as long as
 * the lease was given: the clock of its owner may have been wrong. It ends at once where the store knows that the process of
 * its owner has ended ({@link ownersOf}).
 *
 * **Example** (A log of numbers that another process takes)
 *
 * ```ts
 * import { Effect, Option, Schema } from "effect"
 * import { VersionedStore } from "effect-emissary"
 * import { VersionedCodec } from "effect-emissary/payload"
 * import * as claimedLog from "#src/store/internal/claimedLog.ts"
 * import * as storage from "#src/store/internal/storage.ts"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const journal = storage.make({
 *     store: yield* VersionedStore.VersionedStore,
 *     namespace: "numbers",
 *     head: VersionedCodec.single({ what: "numbers", value: Schema.Struct(claimedLog.headFields) }),
 *     batch: storage.batchCodec({ what: "batch of numbers", kind: "numbers", events: Schema.Array(Schema.Finite) })
 *   })
 *   const lease = yield* claimedLog.leaseOf("numbers", {}, yield* VersionedStore.VersionedStore)
 *   const first = yield* claimedLog.begin(journal, lease, "primes", Option.none(), { head: (fields) => fields })
 *   const primes = claimedLog.make({ journal, lease, at: first, error: ({ _tag }) => _tag })
 *   yield* primes.alone(primes.append((head) => head, [[2, 3]]))
 *
 *   const leased = yield* Effect.flip(claimedLog.takeOver(journal, lease, primes.at))
 *   assert.strictEqual(leased._tag, "Leased")
 *   yield* primes.alone(primes.release((head) => head))
 *   yield* claimedLog.takeOver(journal, lease, primes.at)
 *   return yield* Effect.flip(primes.alone(primes.append((head) => head, [[5]])))
 * })
 *
 * assert.strictEqual(await Effect.runPromise(Effect.provide(program, VersionedStore.layerMemory)), "Lost")
 * ```
 */

import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as storage from "./storage.ts"

/** The fields of the Schema of a head whose log can be claimed. */
export const headFields = {
  ...storage.logFields,
  lease: Schema.optionalKey(Schema.DateTimeUtcFromString),
  updated: Schema.DateTimeUtcFromString
}

/** A head whose log can be claimed. Without `lease` no process has it. */
export interface Head extends storage.Log {
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
  readonly rest: (at: storage.StoredHead<Head>) => Effect.Effect<number>
}

/** The logs of other processes whose versions are remembered. A log that is forgotten is waited for once more. */
const watched = 1000

const ownerPattern = /^([0-9a-z]{16})\.[0-9a-z]{16}$/

export const ownersOf = ({ processes = Effect.succeedNone }: storage.Service): Owners => {
  const seen = new Map<string, { readonly version: string; readonly since: number }>()

  const isGone = (owner: string): Effect.Effect<boolean> => {
    const [, process] = ownerPattern.exec(owner) ?? []
    if (process === undefined) return Effect.succeed(false)
    return Effect.flatMap(
      processes,
      Option.match({ onNone: () => Effect.succeed(false), onSome: ({ isGone }) => isGone(process) })
    )
  }

  return {
    next: Effect.flatMap(storage.nonce, (nonce) =>
      Effect.map(processes, Option.match({ onNone: () => nonce, onSome: ({ own }) => `${own}.${nonce}` }))
    ),
    rest: Effect.fnUntraced(function* ({ head: { lease, owner, updated }, key, version }) {
      const before = seen.get(key)
      seen.delete(key)
      if (lease === undefined || (yield* isGone(owner))) return 0
      const now = DateTime.toEpochMillis(yield* DateTime.now)
      const since = before?.version === version ? Math.min(before.since, now) : now
      const given = Duration.toMillis(DateTime.distance(updated, lease))
      const rest = Math.min(DateTime.toEpochMillis(lease), since + given) - now
      if (rest <= 0) return 0
      seen.set(key, { version, since })
      const [oldest = key] = seen.keys()
      if (seen.size > watched) seen.delete(oldest)
      return rest
    })
  }
}

/** `time`: how long a process that died keeps its claim. `heartbeat`: the time after which a claim is renewed if nothing is written. */
export interface Lease extends Owners {
  readonly time: Duration.Duration
  readonly heartbeat: Duration.Duration
}

/** The lease of these options: 30 seconds, with a heartbeat of a third of that. Dies with any heartbeat above half of it. */
export const leaseOf = (
  what: string,
  options: { readonly leaseTime?: Duration.Input | undefined; readonly heartbeat?: Duration.Input | undefined },
  store: storage.Service
): Effect.Effect<Lease> => {
  const time = Duration.fromInputUnsafe(options.leaseTime ?? "30 seconds")
  const heartbeat =
    options.heartbeat === undefined ? Duration.times(time, 1 / 3) : Duration.fromInputUnsafe(options.heartbeat)
  const isFast = Duration.isLessThanOrEqualTo(Duration.times(heartbeat, 2), time)
  if (Duration.isGreaterThan(heartbeat, Duration.zero) && isFast)
    return Effect.succeed({ ...ownersOf(store), time, heartbeat })
  const found = `the leaseTime ${Duration.format(time)} with the heartbeat ${Duration.format(heartbeat)}`
  const expected = "a leaseTime above zero, and a heartbeat above zero of at most half of it"
  return Effect.die(new Error(`${what}: expected ${expected}, got ${found}`))
}

/** Another process has the log until then. Nothing was written. */
export interface Leased<out H> {
  readonly _tag: "Leased"
  readonly at: storage.StoredHead<H>
  readonly until: DateTime.Utc
}

/** The claim was lost: `head` is that of this process, `found` the one that is there now. Nothing was written. */
export interface Lost<out H> {
  readonly _tag: "Lost"
  readonly head: H
  readonly found: Option.Option<storage.StoredHead<H>>
}

const renewed = ({ time }: Lease): Effect.Effect<Required<Pick<Head, "lease" | "updated">>> =>
  Effect.map(DateTime.now, (updated) => timesOf(updated, time))

const timesOf = (updated: DateTime.Utc, time: Duration.Duration) => ({
  updated,
  lease: DateTime.addDuration(updated, time)
})

/** A head that is written now: with a lease of this time, or without one, so that any process can take the log. */
export const withLease = <H extends Head>(head: H, now: DateTime.Utc, time: Duration.Duration | undefined): H =>
  time === undefined ? { ...withoutLease(head), updated: now } : { ...head, ...timesOf(now, time) }

/** Begins a log in place of `before`, and claims it. */
export const begin = Effect.fnUntraced(function* <H extends Head, B, I>(
  journal: storage.Journal<H, B, I>,
  lease: Lease,
  key: string,
  before: Option.Option<storage.StoredHead<H>>,
  log: { readonly head: (fields: Head) => H; readonly input?: ((generation: string) => I) | undefined }
) {
  const claimed = { ...(yield* renewed(lease)), owner: yield* lease.next }
  return yield* journal.begin(key, before, { ...log, head: (fields) => log.head({ ...fields, ...claimed }) })
})

/** Claims a log with a new epoch and a new owner. Fails with {@link Leased} while another process has it. */
export const takeOver = Effect.fnUntraced(function* <H extends Head, B, I>(
  journal: storage.Journal<H, B, I>,
  lease: Lease,
  at: storage.StoredHead<H>,
  change: (head: H) => H = (head) => head
) {
  const times = yield* renewed(lease)
  const rest = yield* lease.rest(at)
  if (rest > 0) {
    return yield* Effect.fail<Leased<H>>({
      _tag: "Leased",
      at,
      until: DateTime.addDuration(times.updated, Duration.millis(rest))
    })
  }
  const owner = yield* lease.next
  return yield* journal.append(at, (head) => ({ ...change(head), ...times, epoch: head.epoch + 1, owner }), [])
})

/**
 * A log that this process has claimed, with heads `H` and batches `B`.
 *
 * - `at`: the newest head.
 * - `isOver`: nothing more is to be written. `beat` then does nothing.
 * - `failure`: the error that stopped the work. `isLost`: another process has the log, or it was removed.
 * - `alone`: one write at a time, which an interruption waits for.
 * - `append`: writes batches, then the head that `change` makes of the head with them and with a renewed lease. One that
 *   failed may have taken place: nothing but a `release` can follow.
 * - `release`: the same without a lease, so that any process can take the log.
 * - `sweep`: deletes the values of retired generations. The next write of the head leaves them out.
 * - `stop`: makes `stopped` fail; the first error counts.
 * - `beat`: renews the lease, for ever. It stops the work when the claim is lost, or when the store fails until its end.
 */
export interface ClaimedLog<in out H, in B, in out X> {
  at: storage.StoredHead<H>
  isOver: boolean
  readonly failure: X | undefined
  readonly isLost: boolean
  readonly alone: <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  readonly append: (change: (head: H) => H, batches?: ReadonlyArray<B>) => Effect.Effect<void, X>
  readonly release: (change: (head: H) => H, batches?: ReadonlyArray<B>) => Effect.Effect<void, X>
  readonly sweep: Effect.Effect<void>
  readonly stop: (error: X) => Effect.Effect<never, X>
  readonly stopped: Effect.Effect<never, X>
  readonly beat: Effect.Effect<never>
}

const withoutLease = <H extends Head>(head: H): H => {
  const { lease: _, ...rest } = head
  // Sound: a head can have no lease, and nothing else was removed.
  return rest as H
}

const isOf = (log: storage.Log, { epoch, generation, owner }: storage.Log): boolean =>
  log.generation === generation && log.epoch === epoch && log.owner === owner

/** Works on a log that this process has claimed. `error` makes the error of the service of a reason. */
export const make = <H extends Head, B, I, X>(options: {
  readonly journal: storage.Journal<H, B, I>
  readonly lease: Lease
  readonly at: storage.StoredHead<H>
  readonly error: (reason: storage.Reason | Lost<H>) => X
}): ClaimedLog<H, B, X> => {
  const { at, error, journal, lease } = options
  const gate = Semaphore.makeUnsafe(1)
  const stopping = Deferred.makeUnsafe<never, X>()
  const mine: Pick<ClaimedLog<H, B, X>, "at" | "isOver"> & { isLost: boolean; failure: X | undefined } = {
    at,
    isOver: false,
    isLost: false,
    failure: undefined
  }
  /** A head in another version can still be what this process wrote, where the store failed and wrote even so. */
  const write = (
    operation: (at: storage.StoredHead<H>) => Effect.Effect<storage.StoredHead<H>, storage.Conflict<H> | storage.Reason>
  ): Effect.Effect<void, storage.Reason | Lost<H>> =>
    Effect.suspend(() => operation(mine.at)).pipe(
      Effect.map((written) => void (mine.at = written)),
      Effect.catchTag("Conflict", ({ found }) => {
        if (Option.isNone(found) || !isOf(found.value.head, mine.at.head)) {
          mine.isLost = true
          return Effect.fail<Lost<H>>({ _tag: "Lost", head: mine.at.head, found })
        }
        mine.at = found.value
        return write(operation)
      })
    )

  const append = (change: (head: H) => H, batches: ReadonlyArray<B> = []): Effect.Effect<void, X> =>
    Effect.flatMap(renewed(lease), (times) =>
      Effect.mapError(
        write((at) => journal.append(at, (head) => change({ ...head, ...times }), batches)),
        error
      )
    )

  const stop = (failure: X): Effect.Effect<never, X> =>
    Effect.suspend(() => {
      const first = (mine.failure ??= failure)
      return Effect.andThen(Deferred.fail(stopping, first), Effect.fail(first))
    })

  const renew = Effect.gen(function* () {
    const now = yield* DateTime.now
    const { lease: until } = mine.at.head
    // Every write renews the lease, so a beat is of use only where nothing happened
    const fresh = Duration.subtract(lease.time, Duration.times(lease.heartbeat, 0.5))
    const isFresh = until !== undefined && Duration.isGreaterThan(DateTime.distance(now, until), fresh)
    if (isFresh || mine.failure !== undefined || mine.isOver) return
    yield* Effect.catch(
      write((at) => journal.append(at, (head) => withLease(head, now, lease.time), [])),
      (reason) =>
        // The store may answer again before the lease ends
        reason._tag !== "Lost" && until !== undefined && DateTime.isGreaterThan(until, now)
          ? Effect.void
          : Effect.ignore(stop(error(reason)))
    )
  })

  const alone = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.uninterruptible(gate.withPermit(effect))

  return Object.assign(mine, {
    alone,
    append,
    stop,
    release: (change: (head: H) => H, batches?: ReadonlyArray<B>) =>
      Effect.map(
        append((head) => withoutLease(change(withoutLease(head))), batches),
        () => void (mine.isOver = true)
      ),
    sweep: Effect.map(
      Effect.suspend(() => journal.sweep(mine.at)),
      (swept) => void (mine.at = swept)
    ),
    stopped: Deferred.await(stopping),
    beat: Effect.forever(Effect.andThen(Effect.sleep(lease.heartbeat), alone(renew)))
  })
}
