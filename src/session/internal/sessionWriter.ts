/**
 * The stored part of a session in the process that has it: its journal, the newest events, and the owner.
 *
 * One process at a time writes to a session. It takes the session over by setting itself as the owner in the head of the
 * journal, which changes by compare-and-set, so a process that was the owner before can write nothing more. Where no
 * cluster decides who has a session, a lease keeps it for the owner while a turn is under way.
 */

import type * as Arr from "effect/Array"
import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type * as Run from "../../agent/Run.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import type * as claimedLog from "../../store/internal/claimedLog.ts"
import * as storage from "../../store/internal/storage.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as sessionEvents from "./sessionEvents.ts"
import type { Event } from "./sessionEvents.ts"
import * as sessionFeed from "./sessionFeed.ts"
import type { Conflict, Head, SessionLog, Stored } from "./sessionLog.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { Reason } from "./sessionTypes.ts"

/**
 * The sessions of one layer.
 *
 * - `agents`: by name. They require nothing.
 * - `context`: that of the layer. Turns run in it, not in that of the caller who happens to begin one.
 * - `owners`: which process has a session, where no cluster decides that.
 * - `isExclusive`: a cluster decides which process has a session. It takes over without waiting for a lease.
 * - `onBusy`: called before something is stored that makes a turn due. After it the session is opened again, here or
 *   elsewhere, if this process dies.
 * - `onIdle`: called when no turn is left to run.
 * - `leaseTime`: the time for which a process that died keeps a session.
 * - `drainTime`: the time that tool calls under way have to finish when a session is closed.
 * - `maxQueue`: the number of messages that may wait in a session.
 * - `patience`: the time for which writes are tried again while the store fails.
 */
export interface Host {
  readonly agents: ReadonlyMap<string, agentTypes.Agent<unknown>>
  readonly context: Context.Context<never>
  readonly sessions: SessionLog
  readonly owners: claimedLog.Owners
  readonly isExclusive: boolean
  readonly onBusy: (id: string) => Effect.Effect<void, storage.Reason>
  readonly onIdle: (id: string) => Effect.Effect<void>
  readonly leaseTime: Duration.Duration
  readonly drainTime: Duration.Duration
  readonly maxQueue: number
  readonly patience: Duration.Duration
  readonly run: sessionTypes.Options["run"]
}

/** A reader looks this often for events that another process wrote. */
export const pollInterval = Duration.seconds(1)

/** A process that has written less than this ago has the session, or half its lease ago if that is less. */
const longestFresh = Duration.seconds(2)

/**
 * A session as a process knows it, and the ways to change it.
 *
 * - `stored`: the session; `undefined` before its first message.
 * - `failure`: the reason why this process can write nothing more. `lost` fails with it.
 * - `isHeld`: a turn is under way here, so no other process writes.
 * - `alone`: one call at a time, to its end: a caller that is interrupted leaves it. The others are called inside it.
 * - `feed`: the newest events, for readers.
 */
export type SessionWriter = Effect.Success<ReturnType<typeof make>>

/** Reads a session. Its calls run in `scope`; `onLost` is called when this process can write nothing more. */
export const make = Effect.fnUntraced(function* (host: Host, id: string, scope: Scope.Scope, onLost: () => void) {
  const { isExclusive, sessions } = host
  const gate = Semaphore.makeUnsafe(1)
  const freshFor = Duration.min(longestFresh, Duration.times(host.leaseTime, 0.5))
  const lost = Deferred.makeUnsafe<never, sessionTypes.SessionError>()
  const owner = yield* isExclusive ? storage.nonce : host.owners.next
  const feed = sessionFeed.make()
  let noSnapshotBefore = 0

  const fail = (reason: Reason) => new sessionTypes.SessionError({ id, reason })

  const self: { stored: Stored | undefined; failure: sessionTypes.SessionError | undefined; isHeld: boolean } = {
    stored: Option.getOrUndefined(yield* Effect.mapError(sessions.load(id), fail)),
    failure: undefined,
    isHeld: false
  }

  /** Ends all work here: the session is to be opened again. */
  const giveUp = (reason: Reason): Effect.Effect<never, sessionTypes.SessionError> =>
    Effect.suspend(() => {
      const isLogged = self.failure !== undefined || reason._tag === "Elsewhere"
      const failure = (self.failure ??= fail(reason))
      Deferred.doneUnsafe(lost, Exit.fail(failure))
      onLost()
      feed.notify()
      const logged = isLogged
        ? Effect.void
        : Effect.logError(`${failure.message}. Its turn waits until it can be stored`)
      return Effect.andThen(logged, Effect.fail(failure))
    })

  const ensureAlive = Effect.suspend(() => (self.failure === undefined ? Effect.void : Effect.fail(self.failure)))

  /** One at a time, to its end: a caller that is interrupted leaves it. */
  const alone = <A>(effect: Effect.Effect<A, sessionTypes.SessionError>): Effect.Effect<A, sessionTypes.SessionError> =>
    Effect.flatMap(
      Effect.forkIn(gate.withPermit(Effect.andThen(ensureAlive, effect)), scope, { startImmediately: true }),
      Fiber.join
    )

  const untilStored = Schedule.exponential("50 millis").pipe(
    Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.seconds(1)))),
    Schedule.upTo({ duration: host.patience })
  )

  /** Changes what is stored, and tries again while the store fails. */
  const change = (
    write: (before: Stored) => Effect.Effect<Stored, Conflict | storage.Reason>
  ): Effect.Effect<void, sessionTypes.SessionError> =>
    Effect.suspend(() =>
      self.stored === undefined ? Effect.die(new Error("a session to write to")) : write(self.stored)
    ).pipe(
      Effect.retry({ schedule: untilStored, while: (error) => error._tag === "StoreFailed" }),
      Effect.map((next) => void (self.stored = next)),
      Effect.catchDefect((defect) => {
        const error = storage.unavailable({
          operation: "compareAndSet",
          storage: "store",
          error: "Defect",
          cause: defect
        })
        return Effect.fail<storage.Reason>({ _tag: "StoreFailed", error })
      }),
      Effect.catch((error) => {
        if (error._tag === "Refused") return Effect.fail(fail(error))
        if (error._tag !== "Conflict") return giveUp(error)
        return giveUp({
          _tag: "Elsewhere",
          owner: Option.getOrUndefined(error.found)?.head.owner ?? "none: it was removed"
        })
      })
    )

  const leaseFrom = (now: DateTime.Utc) => (isExclusive ? undefined : DateTime.addDuration(now, host.leaseTime))

  const withLease = ({ lease: _, ...head }: Head, lease: DateTime.Utc | undefined, updated: DateTime.Utc): Head => ({
    ...head,
    ...defined({ lease }),
    updated
  })

  /** Reads the session again, where another process may have written since. */
  const refresh = Effect.gen(function* () {
    const isMine = self.stored !== undefined && (isExclusive || self.isHeld)
    if (isMine) return
    const head = yield* Effect.mapError(sessions.log.head(id), fail)
    if (Option.getOrUndefined(head)?.version === self.stored?.at.version) return
    self.stored = Option.getOrUndefined(yield* Effect.mapError(sessions.load(id), fail))
    feed.clear()
  })

  /** Fails if another process has the lease. */
  const ensureFree = Effect.gen(function* () {
    if (self.stored === undefined || self.stored.at.head.owner === owner || isExclusive) return
    const { head } = self.stored.at
    if ((yield* host.owners.rest(self.stored.at)) > 0) return yield* fail({ _tag: "Elsewhere", owner: head.owner })
  })

  /** Becomes the owner, for a turn with a lease. */
  const claim = (forTurn: boolean) =>
    Effect.gen(function* () {
      if (self.stored === undefined || self.stored.at.head.owner === owner) return
      yield* ensureFree
      const now = yield* DateTime.now
      const lease = forTurn ? leaseFrom(now) : undefined
      yield* change((before) =>
        sessions.append(before, (head) => ({ ...withLease(head, lease, now), owner, epoch: head.epoch + 1 }))
      )
    })

  /** Writes events. `run` is the state of the run after them, if they have events of it. */
  const write = Effect.fnUntraced(function* (events: Arr.NonEmptyReadonlyArray<Event>, run?: Run.State | undefined) {
    const now = yield* DateTime.now
    const from = self.stored?.memory.sequence ?? 0
    yield* change((before) => {
      const folded = sessionEvents.applyAll(before.memory, events, run)
      // The events were made for this state
      if (Result.isFailure(folded)) return Effect.die(new Error(folded.failure))
      const memory = folded.success
      const lease = sessionEvents.hasWork(memory) ? leaseFrom(now) : undefined
      return sessions.append(before, (head) => withLease(head, lease, now), { events, memory })
    })
    feed.add(sessionEvents.entriesFrom(self.stored?.at.head.life ?? "", from + 1, events))
    if (
      self.stored !== undefined &&
      sessions.needsSnapshot(self.stored) &&
      self.stored.memory.sequence >= noSnapshotBefore
    ) {
      yield* compact
    }
  })

  /** Makes a snapshot. A state that cannot be written stays in its events. */
  const compact = Effect.suspend(() => {
    const before = self.stored
    if (before === undefined) return Effect.void
    return Effect.gen(function* () {
      self.stored = yield* sessions.compact(before, yield* DateTime.now)
    }).pipe(
      Effect.catch((error) => {
        if (error._tag !== "StoreFailed" && error._tag !== "Conflict") {
          noSnapshotBefore = before.memory.sequence * 2
          return Effect.logWarning(
            `session ${id}: no snapshot was made, so events are kept and read again`,
            storage.renderReason(error)
          )
        }
        // It may be there even so
        return Effect.gen(function* () {
          const found = Option.getOrUndefined(
            yield* Effect.retry(sessions.load(id), {
              schedule: untilStored,
              while: ({ _tag }) => _tag === "StoreFailed"
            })
          )
          if (found?.at.head.owner !== owner)
            return yield* giveUp({ _tag: "Elsewhere", owner: found?.at.head.owner ?? "none" })
          self.stored = found
        }).pipe(Effect.catchTag(storage.reasonTags, giveUp))
      })
    )
  })

  /** Returns false if another process was faster. */
  const create = Effect.fnUntraced(function* (agent: string, updated: DateTime.Utc) {
    const created = yield* sessions.create(id, agent, { owner, updated }).pipe(
      Effect.catchTag("Conflict", () => Effect.undefined),
      Effect.mapError(fail)
    )
    if (created === undefined) return false
    self.stored = created
    return true
  })

  /** Lets the next owner have the session at once, with a snapshot where that saves it many reads. */
  const release = Effect.suspend(() => {
    if (self.stored === undefined || self.stored.at.head.owner !== owner) return Effect.void
    const { base, memory } = self.stored
    const isLong = memory.sequence - base > Math.max(sessionFeed.limit / 4, base / 16)
    return Effect.gen(function* () {
      if (isLong) yield* compact
      const now = yield* DateTime.now
      if (self.stored?.at.head.lease !== undefined) {
        yield* change((before) => sessions.append(before, (head) => withLease(head, undefined, now)))
      }
    })
  })

  const renew = Effect.flatMap(DateTime.now, (now) =>
    change((before) => sessions.append(before, (head) => withLease(head, leaseFrom(now), now)))
  )

  return Object.assign(self, {
    /**
     * Fails if another process has taken the session from one that was stopped for a while: after the write that allowed it
     * to start something, for example.
     */
    verify: Effect.flatMap(DateTime.now, (now) => {
      const updated = self.stored?.at.head.updated
      const isFresh = updated === undefined || Duration.isLessThan(DateTime.distance(updated, now), freshFor)
      return isFresh ? Effect.void : alone(renew)
    }),
    /** Renews the lease, for ever. */
    renewed: Effect.forever(
      Effect.andThen(Effect.sleep(Duration.times(host.leaseTime, 1 / 3)), Effect.ignore(alone(renew)))
    ),
    /** The state of the session. Fails if there is none. */
    memory: Effect.suspend(() =>
      self.stored === undefined ? Effect.fail(fail({ _tag: "NotFound" })) : Effect.succeed(self.stored.memory)
    ),
    hasWork: (): boolean => self.stored !== undefined && sessionEvents.hasWork(self.stored.memory),
    feed,
    fail,
    alone,
    ensureAlive,
    refresh,
    ensureFree,
    claim,
    write,
    create,
    release,
    remove: Effect.gen(function* () {
      const removed = yield* Effect.mapError(sessions.remove(id), fail)
      self.stored = undefined
      feed.clear()
      return removed
    }),
    lost: Deferred.await(lost)
  })
})
