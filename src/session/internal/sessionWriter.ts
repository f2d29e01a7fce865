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
import { defined } from "../../payload/internal/values.ts"
import type { StepWrite } from "../../run/internal/planRunParts.ts"
import * as leases from "../../store/internal/leases.ts"
import * as storage from "../../store/internal/storage.ts"
import type { Definitions } from "./sessionDefinitions.ts"
import * as sessionEvents from "./sessionEvents.ts"
import type { Event, Memory } from "./sessionEvents.ts"
import * as sessionFeed from "./sessionFeed.ts"
import type { Conflict, Head, SessionLog, Stored } from "./sessionLog.ts"
import * as sessionLog from "./sessionLog.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { Reason, SessionError } from "./sessionTypes.ts"
import type { User } from "./sessionUses.ts"
import type { SharedValues } from "./sharedValues.ts"
import type { StepWrites } from "./stepWrites.ts"

/**
 * The sessions of one layer.
 *
 * - `agents`: by name. They require nothing.
 * - `context`: the context of the layer. Turns run in it, not in the context of the caller who happens to begin a turn.
 * - `writes`: the values of steps with `writes`. `shared`: these and the definitions, with the sessions that use them.
 * - `owners`: which process has a session, where no cluster decides that.
 * - `isExclusive`: a cluster decides which process has a session. It takes over without waiting for a lease.
 * - `markOf`: the mark of a session, set with the events that make a turn due, and removed with the events that leave
 *   no turn due. While it is set, the session is opened again, here or elsewhere, if this process dies.
 * - `onBusy`: called before something is stored that makes a turn due. It takes the place of the mark where there is none.
 * - `onTurn`: called when a turn begins. It keeps the session in memory until it is idle.
 * - `onIdle`: called when no turn is left to run.
 * - `leaseTime`: the time for which a process that died keeps a session.
 * - `drainTime`: the time that tool calls under way have to finish when a session is closed.
 * - `definitions`: agents that are data.
 * - `models`: the models that messages may name.
 * - `maxQueue`: the number of messages that may wait in a session.
 * - `instructions`: see the options of the layer.
 * - `tried`: the sessions whose held messages this process has tried again.
 * - `patience`: the time for which writes are tried again while the store fails.
 */
export interface Host {
  readonly agents: ReadonlyMap<string, agentTypes.Agent<unknown>>
  readonly context: Context.Context<never>
  readonly sessions: SessionLog
  readonly writes: StepWrites
  readonly shared: SharedValues
  readonly owners: leases.Owners
  readonly isExclusive: boolean
  readonly markOf: (id: string) => storage.Mark | undefined
  readonly onBusy: (id: string) => Effect.Effect<void, storage.Reason>
  readonly onTurn: (id: string) => Effect.Effect<void>
  readonly onIdle: (id: string) => Effect.Effect<void>
  readonly leaseTime: Duration.Duration
  readonly drainTime: Duration.Duration
  readonly maxQueue: number
  readonly tried: Set<string>
  readonly patience: Duration.Duration
  readonly definitions: Definitions
  readonly models: sessionTypes.Models
  readonly run: sessionTypes.Options["run"]
  readonly instructions: "latest" | "first"
}

/** A reader looks this often for events that another process wrote. */
export const pollInterval = Duration.seconds(1)

/** A process that has written less than this ago has the session, or half its lease ago if that is less. */
const longestFresh = Duration.seconds(2)

/**
 * A session as a process knows it.
 *
 * - `stored`: the session; `undefined` before its first message.
 * - `failure`: the reason why this process can write nothing more. `lost` fails with it.
 * - `isHeld`: a turn is under way here, so no other process writes.
 * - `feed`: the newest events, for readers.
 * - `scope`: calls run in it.
 * - `onLost`: called when this process can write nothing more.
 * - `noSnapshotBefore`: the number of events before which no snapshot is tried again.
 */
interface Owned {
  readonly host: Host
  readonly id: string
  readonly owner: string
  readonly scope: Scope.Scope
  readonly onLost: () => void
  readonly feed: sessionFeed.Feed
  readonly gate: Semaphore.Semaphore
  readonly loss: Deferred.Deferred<never, SessionError>
  stored: Stored | undefined
  failure: SessionError | undefined
  isHeld: boolean
  noSnapshotBefore: number
}

const errorOf =
  ({ id }: Owned) =>
  (reason: Reason): SessionError =>
    new sessionTypes.SessionError({ id, reason })

/** Ends all work here: the session is to be opened again. */
const giveUp = (self: Owned, reason: Reason): Effect.Effect<never, SessionError> =>
  Effect.suspend(() => {
    const isLogged = self.failure !== undefined || reason._tag === "Elsewhere"
    const failure = (self.failure ??= errorOf(self)(reason))
    Deferred.doneUnsafe(self.loss, Exit.fail(failure))
    self.onLost()
    self.feed.notify()
    const logged = isLogged ? Effect.void : Effect.logError(`${failure.message}. Its turn waits until it can be stored`)
    return Effect.andThen(logged, Effect.fail(failure))
  })

const ensureAlive = (self: Owned) =>
  Effect.suspend(() => (self.failure === undefined ? Effect.void : Effect.fail(self.failure)))

/** One at a time, to its end: a caller that is interrupted leaves it. */
const alone = <A>(self: Owned, effect: Effect.Effect<A, SessionError>): Effect.Effect<A, SessionError> =>
  Effect.flatMap(
    Effect.forkIn(self.gate.withPermit(Effect.andThen(ensureAlive(self), effect)), self.scope, {
      startImmediately: true
    }),
    Fiber.join
  )

export const untilStored = ({ patience }: Host) =>
  Schedule.exponential("50 millis").pipe(
    Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.seconds(1)))),
    Schedule.upTo({ duration: patience })
  )

/** Changes what is stored, and tries again while the store fails. */
const change = (
  self: Owned,
  write: (before: Stored) => Effect.Effect<Stored, Conflict | storage.Reason>
): Effect.Effect<void, SessionError> =>
  Effect.suspend(() =>
    self.stored === undefined ? Effect.die(new Error("a session to write to")) : write(self.stored)
  ).pipe(
    Effect.retry({ schedule: untilStored(self.host), while: (error) => error._tag === "StoreFailed" }),
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
      if (error._tag === "Refused") return Effect.fail(errorOf(self)(error))
      if (error._tag !== "Conflict") return giveUp(self, error)
      return giveUp(self, {
        _tag: "Elsewhere",
        owner: Option.getOrUndefined(error.found)?.head.owner ?? "none: it was removed"
      })
    })
  )

/** Changes the head alone: with a lease, or without one. */
const setHead = (self: Owned, isLeased: boolean, set: (head: Head) => Head = (head) => head) =>
  Effect.flatMap(DateTime.now, (now) =>
    change(self, (before) => self.host.sessions.append(before, (head) => set(leased(self, head, isLeased, now))))
  )

/** The head with a lease from now on, or without one. A cluster needs none. */
const leased = ({ host }: Owned, head: Head, isLeased: boolean, now: DateTime.Utc): Head =>
  leases.withLease(head, now, isLeased && !host.isExclusive ? host.leaseTime : undefined)

/** Reads the session again, where another process may have written since. */
const refresh = Effect.fnUntraced(function* (self: Owned) {
  const { feed, host, id } = self
  const isMine = self.stored !== undefined && (host.isExclusive || self.isHeld)
  if (isMine) return
  const version = yield* Effect.mapError(host.sessions.log.version(id), errorOf(self))
  if (Option.getOrUndefined(version) === self.stored?.at.version) return
  self.stored = Option.getOrUndefined(yield* Effect.mapError(host.sessions.load(id), errorOf(self)))
  feed.clear()
})

/** Fails if another process has the lease. */
const ensureFree = Effect.fnUntraced(function* (self: Owned) {
  const { host, owner, stored } = self
  if (stored === undefined || stored.at.head.owner === owner || host.isExclusive) return
  if ((yield* host.owners.rest(stored.at)) === 0) return
  return yield* errorOf(self)({ _tag: "Elsewhere", owner: stored.at.head.owner })
})

/** The head of this owner. */
const claimed = ({ owner }: Owned, head: Head): Head =>
  head.owner === owner ? head : { ...head, owner, epoch: head.epoch + 1 }

/** Becomes the owner, for a turn with a lease. */
const claim = Effect.fnUntraced(function* (self: Owned, forTurn: boolean) {
  const { owner, stored } = self
  if (stored === undefined || stored.at.head.owner === owner) return
  yield* ensureFree(self)
  yield* setHead(self, forTurn, (head) => claimed(self, head))
})

/** The change of the mark of the session with a write, if there is one. */
const markingOf = ({ host, id }: Owned, wasBusy: boolean, isBusy: boolean): storage.Marking | undefined => {
  const mark = wasBusy === isBusy ? undefined : host.markOf(id)
  return mark === undefined || (!isBusy && mark.version === undefined) ? undefined : { mark, isSet: isBusy }
}

/** Writes events as the owner. `run` is the state of the run after them, if they have events of it. */
const write = Effect.fnUntraced(function* (
  self: Owned,
  events: Arr.NonEmptyReadonlyArray<Event>,
  run?: Run.State | undefined
) {
  const { sessions } = self.host
  const now = yield* DateTime.now
  const from = self.stored?.memory.sequence ?? 0
  yield* ensureFree(self)
  yield* change(self, (before) => {
    const folded = sessionEvents.applyAll(before.memory, events, run)
    // The events were made for this state
    if (Result.isFailure(folded)) return Effect.die(new Error(folded.failure))
    const memory = folded.success
    const isBusy = sessionEvents.hasWork(memory)
    const marking = markingOf(self, sessionEvents.hasWork(before.memory), isBusy)
    return sessions.append(before, (head) => leased(self, claimed(self, head), isBusy, now), {
      events,
      memory,
      marking
    })
  })
  self.feed.add(sessionEvents.entriesFrom(self.stored?.at.head.life ?? "", from + 1, events))
  const { stored } = self
  if (stored === undefined || !sessions.needsSnapshot(stored)) return
  if (stored.memory.sequence >= self.noSnapshotBefore) yield* compact(self)
})

/** The session as a user of shared values; with `generation` the session that begins with this generation. */
const userOf = ({ id, stored }: Owned, generation?: string): User => ({
  id,
  life: generation === undefined ? (stored?.at.head.life ?? "") : sessionLog.lifeOf(generation)
})

/** Stores the value of a step, which another process may have done. */
const writeStep = (self: Owned, write: StepWrite) =>
  self.host.writes.write(userOf(self), write).pipe(
    Effect.retry({ schedule: untilStored(self.host), while: ({ _tag }) => _tag === "StoreFailed" }),
    Effect.mapError((reason) =>
      errorOf(self)({ _tag: "WriteFailed", key: write.key, step: write.step, problem: storage.renderReason(reason) })
    )
  )

/** Makes a snapshot. A state that cannot be written stays in its events. */
const compact = (self: Owned) =>
  Effect.suspend(() => {
    const before = self.stored
    if (before === undefined) return Effect.void
    return Effect.gen(function* () {
      self.stored = yield* self.host.sessions.compact(before, yield* DateTime.now)
    }).pipe(
      Effect.catch((error) => {
        // The write may have succeeded although it reported a failure
        if (error._tag === "StoreFailed" || error._tag === "Conflict") return reload(self)
        self.noSnapshotBefore = before.memory.sequence * 2
        return Effect.logWarning(
          `session ${self.id}: no snapshot was made, so events are kept and read again`,
          storage.renderReason(error)
        )
      })
    )
  })

/** Reads the session after a write that may have taken place. */
const reload = (self: Owned) =>
  Effect.gen(function* () {
    const loaded = Effect.retry(self.host.sessions.load(self.id), {
      schedule: untilStored(self.host),
      while: ({ _tag }) => _tag === "StoreFailed"
    })
    const found = Option.getOrUndefined(yield* loaded)
    if (found?.at.head.owner !== self.owner) {
      return yield* giveUp(self, { _tag: "Elsewhere", owner: found?.at.head.owner ?? "none" })
    }
    self.stored = found
  }).pipe(Effect.catchTag(storage.reasonTags, (reason) => giveUp(self, reason)))

/**
 * Begins the session with its first events, after the state `before`, and replaces a session that is there. Returns
 * false if another process was faster. The values that a session without a beginning, or the replaced session, has used
 * are left.
 */
const create = Effect.fnUntraced(function* (
  self: Owned,
  agent: string,
  updated: DateTime.Utc,
  events: Arr.NonEmptyReadonlyArray<Event>,
  before: Memory | undefined,
  generation: string | undefined
) {
  const { host, id, owner, stored: replaced } = self
  const leave = (generation: string | undefined) =>
    generation === undefined ? Effect.void : Effect.ignore(host.shared.leaveAll(userOf(self, generation)))
  const folded = sessionEvents.applyAll(before ?? sessionEvents.empty(agent), events)
  if (Result.isFailure(folded)) return yield* Effect.die(new Error(folded.failure))
  const memory = folded.success
  const isBusy = sessionEvents.hasWork(memory)
  const lease = isBusy && !host.isExclusive ? DateTime.addDuration(updated, host.leaseTime) : undefined
  const claim = { owner, updated, ...defined({ lease }) }
  const wasBusy = replaced !== undefined && sessionEvents.hasWork(replaced.memory)
  const begun = Effect.suspend(() => {
    const marking = markingOf(self, wasBusy, isBusy)
    return host.sessions.create(id, agent, claim, { events, memory, marking }, before, replaced?.at, generation)
  })
  self.stored = yield* begun.pipe(
    Effect.retry({ schedule: untilStored(host), while: (error) => error._tag === "StoreFailed" }),
    Effect.catchTag("Conflict", ({ found }) => {
      const head = Option.getOrUndefined(found)?.head
      // The store failed, and wrote even so
      return head?.owner === owner && head.generation !== replaced?.at.head.generation
        ? Effect.map(host.sessions.load(id), Option.getOrUndefined)
        : Effect.as(leave(generation), undefined)
    }),
    Effect.tapError(({ _tag }) => (_tag === "Refused" ? leave(generation) : Effect.void)),
    Effect.catch((error) =>
      // The write may have succeeded although it reported a failure
      error._tag === "StoreFailed" ? giveUp(self, error) : Effect.fail(errorOf(self)(error))
    )
  )
  if (self.stored === undefined) return false
  if (replaced !== undefined) yield* Effect.ignore(host.shared.leaveAll({ id, life: replaced.at.head.life }))
  self.feed.clear()
  self.feed.add(sessionEvents.entriesFrom(self.stored.at.head.life, 1, events))
  return true
})

/** Lets the next owner have the session at once, with a snapshot where that saves it many reads. */
const release = Effect.fnUntraced(function* (self: Owned) {
  if (self.stored === undefined || self.stored.at.head.owner !== self.owner) return
  const { base, memory } = self.stored
  if (memory.sequence - base > Math.max(sessionFeed.limit / 4, base / 16)) yield* compact(self)
  if (self.stored?.at.head.lease !== undefined) yield* setHead(self, false)
})

const remove = Effect.fnUntraced(function* (self: Owned) {
  const removed = yield* Effect.mapError(self.host.shared.remove(self.id), errorOf(self))
  self.stored = undefined
  self.feed.clear()
  return removed
})

/**
 * Fails if another process has taken the session while this process was stopped, for example after the write that
 * allowed it to start something.
 */
const verify = (self: Owned) =>
  Effect.flatMap(DateTime.now, (now) => {
    const updated = self.stored?.at.head.updated
    const freshFor = Duration.min(longestFresh, Duration.times(self.host.leaseTime, 0.5))
    const isFresh = updated === undefined || Duration.isLessThan(DateTime.distance(updated, now), freshFor)
    return isFresh ? Effect.void : alone(self, setHead(self, true))
  })

/** The session in this process, and the ways to change it. All but `alone` and `verify` are called inside `alone`. */
export type SessionWriter = Effect.Success<ReturnType<typeof make>>

/** Reads a session. */
export const make = Effect.fnUntraced(function* (host: Host, id: string, scope: Scope.Scope, onLost: () => void) {
  const self: Owned = {
    host,
    id,
    owner: yield* host.isExclusive ? storage.nonce : host.owners.next,
    scope,
    onLost,
    feed: sessionFeed.make(),
    gate: Semaphore.makeUnsafe(1),
    loss: Deferred.makeUnsafe(),
    stored: undefined,
    failure: undefined,
    isHeld: false,
    noSnapshotBefore: 0
  }
  const fail = errorOf(self)
  self.stored = Option.getOrUndefined(yield* Effect.mapError(host.sessions.load(id), fail))
  const heartbeat = Effect.sleep(Duration.times(host.leaseTime, 1 / 3))
  return Object.assign(self, {
    fail,
    /** Stores the value of a step. */
    writeStep: (write: StepWrite) => writeStep(self, write),
    alone: <A>(effect: Effect.Effect<A, SessionError>) => alone(self, effect),
    ensureAlive: ensureAlive(self),
    refresh: refresh(self),
    ensureFree: ensureFree(self),
    claim: (forTurn: boolean) => claim(self, forTurn),
    write: (events: Arr.NonEmptyReadonlyArray<Event>, run?: Run.State | undefined) => write(self, events, run),
    create: (
      agent: string,
      updated: DateTime.Utc,
      events: Arr.NonEmptyReadonlyArray<Event>,
      before?: Memory,
      generation?: string
    ) => create(self, agent, updated, events, before, generation),
    user: (generation?: string) => userOf(self, generation),
    release: release(self),
    remove: remove(self),
    verify: verify(self),
    /** Renews the lease, for ever. */
    renewed: Effect.forever(Effect.andThen(heartbeat, Effect.ignore(alone(self, setHead(self, true))))),
    /** The state of the session. Fails if there is none. */
    memory: Effect.suspend(() =>
      self.stored === undefined ? Effect.fail(fail({ _tag: "NotFound" })) : Effect.succeed(self.stored.memory)
    ),
    /** The number of the newest event. */
    sequence: (): number => self.stored?.memory.sequence ?? 0,
    hasWork: (): boolean => self.stored !== undefined && sessionEvents.hasWork(self.stored.memory),
    lost: Deferred.await(self.loss)
  })
})
