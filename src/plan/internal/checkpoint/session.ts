/**
 * A run under a key that this process has taken: what it does is written batch by
 * batch, its lease is renewed, and it ends with a status. All of that is one after the
 * other, and none of it can be cut off in between.
 */
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import { CheckpointError, LeaseLost, type Reason } from "../../CheckpointError.ts"
import { JournalFailed, PlanError } from "../../PlanError.ts"
import type { PlanDefinition } from "../../PlanDefinition.ts"
import type { Journal } from "../../PlanOptions.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as heads from "./heads.ts"
import type { Head } from "./records.ts"
import type { Found, Storage } from "./storage.ts"
import * as writes from "./writes.ts"

export interface Lease {
  readonly time: Duration.Duration
  readonly heartbeat: Duration.Duration
}

/** A key that this process has just taken. */
export interface Claimed extends Found {
  readonly key: string
  readonly definition: PlanDefinition
  /** What the run did so far. */
  readonly state: PlanRunState | undefined
  /** What was there before, to be there again if nothing happens. */
  readonly before: Head | undefined
}

export interface Session {
  readonly key: string
  readonly journal: Journal
  /** Fails when the run has to stop. */
  readonly stopped: Effect.Effect<never, CheckpointError>
  /** Renews the lease, for ever. */
  readonly beat: Effect.Effect<void>
  /** Does what the last owner left to do: writes first, then what is of no use any more. */
  readonly tidy: Effect.Effect<void, CheckpointError>
  readonly settle: (exit: Exit.Exit<PlanResult<unknown> | void, unknown>) => Effect.Effect<void, CheckpointError>
  /** Why the run had to stop, if it had to. */
  readonly failure: () => CheckpointError | undefined
}

const lost = (head: Head, found: Option.Option<Found>) =>
  new LeaseLost({
    owner: head.owner,
    found: Option.match(found, {
      onNone: () => "that the run was removed",
      onSome: ({ head }) => `that of ${JSON.stringify(head.owner)} (status ${head.status})`
    })
  })

export const open = (storage: Storage, lease: Lease, claimed: Claimed): Session => {
  const { key } = claimed
  const fork = claimed.head.fork ? key : undefined
  const gate = Semaphore.makeUnsafe(1)
  const stop = Deferred.makeUnsafe<never, CheckpointError>()
  let { head, state, version } = claimed
  let failure: CheckpointError | undefined
  let hasCommitted = false
  let isOver = false

  const alone = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.uninterruptible(gate.withPermit(effect))

  const fail = (reason: Reason): Effect.Effect<never, CheckpointError> => {
    failure ??= new CheckpointError({ key, reason })
    return Effect.andThen(Deferred.fail(stop, failure), Effect.fail(failure))
  }

  const isMine = (found: Head) =>
    found.generation === head.generation && found.epoch === head.epoch && found.owner === head.owner

  const set = (change: (head: Head) => Head) =>
    Effect.suspend(() => {
      const next = change(head)
      return Effect.map(storage.setHead(key, Option.some(version), next), (written) => {
        version = written
        head = next
      })
    })

  /**
   * Changes the head. If it is not what this run wrote last, it can still be what it
   * wrote, where a store failed and wrote even so; or the key belongs to somebody else.
   */
  const put = (change: (head: Head) => Head): Effect.Effect<void, Reason> =>
    Effect.catchTag(set(change), "VersionConflict", () =>
      Effect.flatMap(storage.head(key), (found): Effect.Effect<void, Reason> => {
        if (Option.isNone(found) || !isMine(found.value.head)) return Effect.fail(lost(head, found))
        head = found.value.head
        version = found.value.version
        return put(change)
      })
    )

  const until = (now: DateTime.Utc) => DateTime.addDuration(now, lease.time)

  const commit = Effect.fnUntraced(function* (events: Parameters<Journal>[0], next: PlanRunState) {
    yield* storage.setBatch({ key, generation: head.generation }, heads.segmentOf(head), events)
    const pending = yield* writes.pendingOf(storage, fork, claimed.definition, state, next)
    const status = heads.statusOf(next)
    const now = yield* DateTime.now
    const ends = !heads.isOpen(status)
    // A run ends after its writes
    const running = pending.length > 0 || !ends
    yield* put((head) => {
      const advanced = heads.advance(head, next, { status: running ? "running" : status, pending, now })
      return running ? heads.withLease(advanced, until(now)) : heads.release(advanced, status, now)
    })
    state = next
    hasCommitted = true
    isOver = !running
    if (pending.length === 0) return
    yield* writes.performAll(storage, fork, next, pending)
    head = { ...head, pending: [] }
    if (!ends) return
    yield* put((head) => heads.release({ ...head, pending: [] }, status, now))
    isOver = true
  })

  const journal: Journal = (events, next) =>
    alone(
      Effect.suspend(() => (failure === undefined ? Effect.catch(commit(events, next), fail) : Effect.fail(failure)))
    ).pipe(
      Effect.as({ key }),
      Effect.mapError(
        (error) => new PlanError({ plan: head.plan, reason: new JournalFailed({ problem: error.message }) })
      )
    )

  const renew = Effect.gen(function* () {
    const now = yield* DateTime.now
    yield* Effect.catch(
      put((head) => heads.withLease(head, until(now))),
      (reason) => {
        const isFresh = head.lease !== undefined && DateTime.isGreaterThan(head.lease, now)
        // The store may answer again before the lease ends
        if (reason._tag !== "LeaseLost" && isFresh) return Effect.void
        return Effect.ignore(fail(reason))
      }
    )
  })

  /** Every write renews the lease, so a beat is of use only where nothing happened. */
  const isDue = Effect.map(
    DateTime.now,
    (now) =>
      head.lease === undefined ||
      Duration.isLessThanOrEqualTo(
        DateTime.distance(now, head.lease),
        Duration.subtract(lease.time, Duration.times(lease.heartbeat, 0.5))
      )
  )

  const beat = Effect.sleep(lease.heartbeat).pipe(
    Effect.andThen(
      alone(Effect.flatMap(isDue, (due) => (due && failure === undefined && !isOver ? renew : Effect.void)))
    ),
    Effect.forever
  )

  const tidy = alone(
    Effect.gen(function* () {
      if (state !== undefined && head.pending.length > 0) {
        yield* writes.performAll(storage, fork, state, head.pending)
        head = { ...head, pending: [] }
      }
      const left = yield* Effect.filter(head.retired, (retired) =>
        Effect.map(storage.sweep(key, retired), (isGone) => !isGone)
      )
      head = { ...head, retired: left }
    }).pipe(Effect.catch(fail))
  )

  const ended =
    (exit: Exit.Exit<PlanResult<unknown> | void, unknown>, now: DateTime.Utc) =>
    (head: Head): Head => {
      // Written by this run where the store failed and wrote even so
      if (!heads.isOpen(head.status)) return head
      const { before } = claimed
      const status = heads.statusOfExit(exit)
      const nothingHappened =
        exit._tag === "Failure" &&
        failure === undefined &&
        !hasCommitted &&
        before !== undefined &&
        !heads.isOpen(before.status)
      return heads.release(head, nothingHappened ? before.status : status, now)
    }

  const settle = (exit: Exit.Exit<PlanResult<unknown> | void, unknown>) =>
    alone(
      Effect.gen(function* () {
        if (isOver || failure?.reason._tag === "LeaseLost") return
        isOver = true
        const now = yield* DateTime.now
        yield* Effect.catch(put(ended(exit, now)), (reason) => {
          const error = new CheckpointError({ key, reason })
          // A run that failed has its error; the lease ends by itself
          return exit._tag === "Failure" ? Effect.logWarning(error.message) : Effect.fail(error)
        })
      })
    )

  return { key, journal, stopped: Deferred.await(stop), beat, tidy, settle, failure: () => failure }
}
