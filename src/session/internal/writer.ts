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
import type * as ledger from "../../run/internal/ledger.ts"
import * as leases from "../../store/internal/leases.ts"
import * as documents from "../../store/internal/documents.ts"
import type * as journal from "../../store/internal/journal.ts"
import * as storeKeys from "../../store/internal/storeKeys.ts"
import * as storeService from "../../store/internal/storeService.ts"
import type { Definitions } from "./storedDefinitions.ts"
import type { Drafts } from "./drafts.ts"
import * as cursors from "./cursors.ts"
import * as fold from "./fold.ts"
import type { Event } from "./events.ts"
import type { SessionState } from "./fold.ts"
import * as eventFeed from "./eventFeed.ts"
import type { Conflict, Head, SessionLog, Stored } from "./eventLog.ts"
import * as eventLog from "./eventLog.ts"
import * as types from "./types.ts"
import type { Reason, SessionError } from "./types.ts"
import type { User } from "./sharedUses.ts"
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
 * - `budgets`: of each session.
 * - `models`: the models that messages may name.
 * - `maxQueue`: the number of messages that may wait in a session.
 * - `expiresAfter`: the time after which requests expire that have none of their own.
 * - `instructions`: see the options of the layer.
 * - `drafts`: what models are writing in the turn of the session.
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
  readonly markOf: (id: string) => journal.Mark | undefined
  readonly onBusy: (id: string) => Effect.Effect<void, documents.Reason>
  readonly onTurn: (id: string) => Effect.Effect<void>
  readonly onIdle: (id: string) => Effect.Effect<void>
  readonly leaseTime: Duration.Duration
  readonly drainTime: Duration.Duration
  readonly maxQueue: number
  readonly expiresAfter: Duration.Duration | undefined
  readonly drafts: Drafts
  readonly tried: Set<string>
  readonly patience: Duration.Duration
  readonly definitions: Definitions
  readonly budgets: ReadonlyArray<ledger.Given>
  readonly models: types.Models
  readonly run: types.Options["run"]
  readonly instructions: "latest" | "first"
}

/** A reader looks this often for events that another process wrote. */
export const pollInterval = Duration.seconds(1)

/** A process that has written less than this ago has the session, or half its lease ago if that is less. */
const longestFresh = Duration.seconds(2)

/**
 * A session as a process knows it. What changes it is called inside {@link alone}, except {@link verify} and {@link renewed}.
 *
 * - `stored`: the session; `undefined` before its first message.
 * - `failure`: the reason why this process can write nothing more. `lost` fails with it.
 * - `hasTurn`: a turn is under way here, so no other process writes.
 * - `feed`: the newest events, for readers.
 * - `scope`: calls run in it.
 * - `fail`: the error of the session with a reason.
 * - `onLost`: called when this process can write nothing more.
 * - `noSnapshotBefore`: the number of events before which no snapshot is tried again.
 */
export interface Writer {
  readonly host: Host
  readonly id: string
  readonly owner: string
  readonly scope: Scope.Scope
  readonly onLost: () => void
  readonly fail: (reason: Reason) => SessionError
  readonly feed: eventFeed.Feed
  readonly gate: Semaphore.Semaphore
  readonly loss: Deferred.Deferred<never, SessionError>
  stored: Stored | undefined
  failure: SessionError | undefined
  hasTurn: boolean
  noSnapshotBefore: number
}

/** Ends all work here: the session is to be opened again. */
const giveUp = (self: Writer, reason: Reason): Effect.Effect<never, SessionError> =>
  Effect.suspend(() => {
    const isLogged = self.failure !== undefined || reason._tag === "Elsewhere"
    const failure = (self.failure ??= self.fail(reason))
    Deferred.doneUnsafe(self.loss, Exit.fail(failure))
    self.onLost()
    self.feed.notify()
    const logged = isLogged ? Effect.void : Effect.logError(`${failure.message}. Its turn waits until it can be stored`)
    return Effect.andThen(logged, Effect.fail(failure))
  })

const whileAlive = <A>(self: Writer, effect: Effect.Effect<A, SessionError>): Effect.Effect<A, SessionError> =>
  Effect.suspend(() => (self.failure === undefined ? effect : Effect.fail(self.failure)))

export const ensureAlive = (self: Writer): Effect.Effect<void, SessionError> => whileAlive(self, Effect.void)

/** One at a time, to its end: a caller that is interrupted leaves it. */
export const alone = <A>(self: Writer, effect: Effect.Effect<A, SessionError>): Effect.Effect<A, SessionError> =>
  Effect.flatMap(
    Effect.forkIn(self.gate.withPermit(whileAlive(self, effect)), self.scope, { startImmediately: true }),
    Fiber.join
  )

const patiently = ({ patience }: Host) =>
  Schedule.exponential("50 millis").pipe(
    Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.seconds(1)))),
    Schedule.upTo({ duration: patience })
  )

const isDown = ({ _tag }: { readonly _tag: string }): boolean => _tag === "StoreFailed"

/** Tries again while the store fails. Most calls succeed at once, and a schedule is work. */
export const untilStored =
  (host: Host) =>
  <A, E extends { readonly _tag: string }>(call: Effect.Effect<A, E>): Effect.Effect<A, E> =>
    Effect.catchIf(call, isDown, () => Effect.retry(call, { schedule: patiently(host), while: isDown }))

/** Changes what is stored, and tries again while the store fails. */
const change = (
  self: Writer,
  write: (before: Stored) => Effect.Effect<Stored, Conflict | documents.Reason>
): Effect.Effect<void, SessionError> =>
  Effect.suspend(() =>
    self.stored === undefined ? Effect.die(new Error("a session to write to")) : write(self.stored)
  ).pipe(
    untilStored(self.host),
    Effect.map((next) => void (self.stored = next)),
    Effect.catchDefect((defect) => {
      const error = storeService.unavailable({
        operation: "compareAndSet",
        storage: "store",
        error: "Defect",
        cause: defect
      })
      return Effect.fail<documents.Reason>({ _tag: "StoreFailed", error })
    }),
    Effect.catch((error) => {
      if (error._tag === "Refused") return Effect.fail(self.fail(error))
      if (error._tag !== "Conflict") return giveUp(self, error)
      return giveUp(self, {
        _tag: "Elsewhere",
        owner: Option.getOrUndefined(error.found)?.head.owner ?? "none: it was removed"
      })
    })
  )

/** Changes the head alone: with a lease, or without one. */
const setHead = (self: Writer, isLeased: boolean, set: (head: Head) => Head = (head) => head) =>
  Effect.flatMap(DateTime.now, (now) =>
    change(self, (before) => self.host.sessions.append(before, (head) => set(leased(self, head, isLeased, now))))
  )

/** The head with a lease from now on, or without one. A cluster needs none. */
const leased = ({ host }: Writer, head: Head, isLeased: boolean, now: DateTime.Utc): Head =>
  leases.withLease(head, now, isLeased && !host.isExclusive ? host.leaseTime : undefined)

/** Reads the session again, where another process may have written since. */
export const refresh = Effect.fnUntraced(function* (self: Writer) {
  const { feed, host, id } = self
  const isMine = self.stored !== undefined && (host.isExclusive || self.hasTurn)
  if (isMine) return
  const version = yield* Effect.mapError(host.sessions.log.version(id), self.fail)
  if (Option.getOrUndefined(version) === self.stored?.at.version) return
  self.stored = Option.getOrUndefined(yield* Effect.mapError(host.sessions.load(id), self.fail))
  feed.clear()
})

/** Fails if another process has the lease. */
export const ensureFree = Effect.fnUntraced(function* (self: Writer) {
  const { host, owner, stored } = self
  if (stored === undefined || stored.at.head.owner === owner || host.isExclusive) return
  if ((yield* host.owners.rest(stored.at)) === 0) return
  return yield* self.fail({ _tag: "Elsewhere", owner: stored.at.head.owner })
})

/** The head of this owner. */
const claimed = ({ owner }: Writer, head: Head): Head =>
  head.owner === owner ? head : { ...head, owner, epoch: head.epoch + 1 }

/** Becomes the owner, for a turn with a lease. */
export const claim = Effect.fnUntraced(function* (self: Writer, forTurn: boolean) {
  const { owner, stored } = self
  if (stored === undefined || stored.at.head.owner === owner) return
  yield* ensureFree(self)
  yield* setHead(self, forTurn, (head) => claimed(self, head))
})

/** The change of the mark of the session with a write, if there is one. */
const markingOf = ({ host, id }: Writer, wasBusy: boolean, isBusy: boolean): journal.Marking | undefined => {
  const mark = wasBusy === isBusy ? undefined : host.markOf(id)
  return mark === undefined || (!isBusy && mark.version === undefined) ? undefined : { mark, isSet: isBusy }
}

/** Writes events as the owner. `run` is the state of the run after them, if they have events of it. */
export const write = Effect.fnUntraced(function* (
  self: Writer,
  events: Arr.NonEmptyReadonlyArray<Event>,
  run?: Run.State | undefined
) {
  const { sessions } = self.host
  const now = yield* DateTime.now
  const from = self.stored?.state.sequence ?? 0
  yield* ensureFree(self)
  yield* change(self, (before) => {
    const folded = fold.applyAll(before.state, events, run)
    // The events were made for this state
    if (Result.isFailure(folded)) return Effect.die(new Error(folded.failure))
    const state = folded.success
    const isBusy = fold.hasWork(state)
    const marking = markingOf(self, fold.hasWork(before.state), isBusy)
    return sessions.append(before, (head) => leased(self, claimed(self, head), isBusy, now), {
      events,
      state,
      marking
    })
  })
  for (const event of events) if (event._tag === "RunEvent") self.host.drafts.stored(event.event)
  self.feed.add(cursors.entriesFrom(self.stored?.at.head.life ?? "", from + 1, events))
  const { stored } = self
  if (stored === undefined || !sessions.needsSnapshot(stored)) return
  if (stored.state.sequence >= self.noSnapshotBefore) yield* compact(self)
})

/** The session as a user of shared values; with `generation` the session that begins with this generation. */
export const userOf = ({ id, stored }: Writer, generation?: string): User => ({
  id,
  life: generation === undefined ? (stored?.at.head.life ?? "") : eventLog.lifeOf(generation)
})

/** Stores the value of a step, which another process may have done. */
export const writeStep = (self: Writer, write: StepWrite) =>
  self.host.writes.write(userOf(self), write).pipe(
    untilStored(self.host),
    Effect.mapError((reason) =>
      self.fail({ _tag: "WriteFailed", key: write.key, step: write.step, problem: documents.renderReason(reason) })
    )
  )

/** Makes a snapshot. A state that cannot be written stays in its events. */
const compact = (self: Writer) =>
  Effect.suspend(() => {
    const before = self.stored
    if (before === undefined) return Effect.void
    return Effect.gen(function* () {
      self.stored = yield* self.host.sessions.compact(before, yield* DateTime.now)
    }).pipe(
      Effect.catch((error) => {
        // The write may have succeeded although it reported a failure
        if (error._tag === "StoreFailed" || error._tag === "Conflict") return reload(self)
        self.noSnapshotBefore = before.state.sequence * 2
        return Effect.logWarning(
          `session ${self.id}: no snapshot was made, so events are kept and read again`,
          documents.renderReason(error)
        )
      })
    )
  })

/** Reads the session after a write that may have taken place. */
const reload = (self: Writer) =>
  Effect.gen(function* () {
    const found = Option.getOrUndefined(yield* untilStored(self.host)(self.host.sessions.load(self.id)))
    if (found?.at.head.owner !== self.owner) {
      return yield* giveUp(self, { _tag: "Elsewhere", owner: found?.at.head.owner ?? "none" })
    }
    self.stored = found
  }).pipe(Effect.catchTag(documents.reasonTags, (reason) => giveUp(self, reason)))

/**
 * Begins the session with its first events, after the state `before`, and replaces a session that is there. Returns
 * false if another process was faster. The values that a session without a beginning, or the replaced session, has used
 * are left.
 */
export const create = Effect.fnUntraced(function* (
  self: Writer,
  agent: string,
  updated: DateTime.Utc,
  events: Arr.NonEmptyReadonlyArray<Event>,
  before?: SessionState,
  generation?: string
) {
  const { host, id, owner, stored: replaced } = self
  const leave = (generation: string | undefined) =>
    generation === undefined ? Effect.void : Effect.ignore(host.shared.leaveAll(userOf(self, generation)))
  const folded = fold.applyAll(before ?? fold.empty(agent), events)
  if (Result.isFailure(folded)) return yield* Effect.die(new Error(folded.failure))
  const state = folded.success
  const isBusy = fold.hasWork(state)
  const lease = isBusy && !host.isExclusive ? DateTime.addDuration(updated, host.leaseTime) : undefined
  const claim = { owner, updated, ...defined({ lease }) }
  const wasBusy = replaced !== undefined && fold.hasWork(replaced.state)
  const begun = Effect.suspend(() => {
    const marking = markingOf(self, wasBusy, isBusy)
    return host.sessions.create(id, agent, claim, { events, state, marking }, before, replaced?.at, generation)
  })
  self.stored = yield* begun.pipe(
    untilStored(host),
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
      error._tag === "StoreFailed" ? giveUp(self, error) : Effect.fail(self.fail(error))
    )
  )
  if (self.stored === undefined) return false
  if (replaced !== undefined) yield* Effect.ignore(host.shared.leaveAll({ id, life: replaced.at.head.life }))
  self.feed.clear()
  self.feed.add(cursors.entriesFrom(self.stored.at.head.life, 1, events))
  return true
})

/** Lets the next owner have the session at once, with a snapshot where that saves it many reads. */
export const release = Effect.fnUntraced(function* (self: Writer) {
  if (self.stored === undefined || self.stored.at.head.owner !== self.owner) return
  const { base, state } = self.stored
  if (state.sequence - base > Math.max(eventFeed.limit / 4, base / 16)) yield* compact(self)
  if (self.stored?.at.head.lease !== undefined) yield* setHead(self, false)
})

export const remove = Effect.fnUntraced(function* (self: Writer) {
  const removed = yield* Effect.mapError(self.host.shared.remove(self.id), self.fail)
  self.stored = undefined
  self.feed.clear()
  return removed
})

/**
 * Fails if another process has taken the session while this process was stopped, for example after the write that
 * allowed it to start something.
 */
export const verify = (self: Writer) =>
  Effect.flatMap(DateTime.now, (now) => {
    const updated = self.stored?.at.head.updated
    const freshFor = Duration.min(longestFresh, Duration.times(self.host.leaseTime, 0.5))
    const isFresh = updated === undefined || Duration.isLessThan(DateTime.distance(updated, now), freshFor)
    return isFresh ? Effect.void : alone(self, setHead(self, true))
  })

/** Renews the lease, for ever. */
export const renewed = (self: Writer) => {
  const heartbeat = Effect.sleep(Duration.times(self.host.leaseTime, 1 / 3))
  return Effect.forever(Effect.andThen(heartbeat, Effect.ignore(alone(self, setHead(self, true)))))
}

/** The state of the session. Fails if there is none. */
export const stateOf = (self: Writer) =>
  Effect.suspend(() =>
    self.stored === undefined ? Effect.fail(self.fail({ _tag: "NotFound" })) : Effect.succeed(self.stored.state)
  )

/** The number of the newest event. */
export const sequenceOf = ({ stored }: Writer): number => stored?.state.sequence ?? 0

export const hasWork = ({ stored }: Writer): boolean => stored !== undefined && fold.hasWork(stored.state)

/** Reads a session. */
export const make = Effect.fnUntraced(function* (
  host: Host,
  id: string,
  scope: Scope.Scope,
  onLost: () => void
): Effect.fn.Return<Writer, SessionError> {
  const fail = (reason: Reason) => new types.SessionError({ id, reason })
  return {
    host,
    id,
    owner: yield* host.isExclusive ? storeKeys.nonce : host.owners.next,
    scope,
    onLost,
    fail,
    feed: eventFeed.make(),
    gate: Semaphore.makeUnsafe(1),
    loss: Deferred.makeUnsafe(),
    stored: Option.getOrUndefined(yield* Effect.mapError(host.sessions.load(id), fail)),
    failure: undefined,
    hasTurn: false,
    noSnapshotBefore: 0
  }
})
