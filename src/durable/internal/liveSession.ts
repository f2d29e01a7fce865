/**
 * A session in the process that has it: stores what comes in, runs one turn after the other, and shows its events to readers.
 *
 * One process at a time writes to a session. It takes the session over by setting itself as the owner in the head of the
 * journal, which changes by compare-and-set, so a process that was the owner before can write nothing more. Where no
 * cluster decides who has a session, a lease keeps it for the owner while a turn is under way.
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type { AgentError } from "../../agent/AgentError.ts"
import * as Run from "../../agent/Run.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as runTransition from "../../agent/internal/runTransition.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as storage from "../../conversation/internal/storage.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as sessionEvents from "./sessionEvents.ts"
import type { Entry, Event, Memory } from "./sessionEvents.ts"
import type { Conflict, Head, SessionLog, Stored } from "./sessionLog.ts"
import * as sessionTypes from "./sessionTypes.ts"
import type { Decisions, Reason, SendOptions } from "./sessionTypes.ts"

/**
 * The sessions of one layer.
 *
 * - `agents`: by name. They require nothing.
 * - `isExclusive`: a cluster decides which process has a session. It takes over without waiting for a lease.
 * - `onBusy`: called before something is stored that a turn has to answer. After it the session is opened again, here or
 *   elsewhere, if this process dies.
 * - `onIdle`: called when no turn is left to run.
 * - `leaseTime`: the time for which a process that died keeps a session.
 * - `drainTime`: the time that tool calls under way have to finish when a session is closed.
 * - `patience`: the time for which writes are tried again while the store fails.
 */
export interface Host {
  readonly agents: ReadonlyMap<string, agentTypes.Agent<unknown>>
  readonly sessions: SessionLog
  readonly isExclusive: boolean
  readonly onBusy: (id: string) => Effect.Effect<void, storage.Reason>
  readonly onIdle: (id: string) => Effect.Effect<void>
  readonly leaseTime: Duration.Duration
  readonly drainTime: Duration.Duration
  readonly patience: Duration.Duration
  readonly run: sessionTypes.Options["run"]
}

/**
 * A session in memory.
 *
 * - `idle`: waits until no turn is under way or due. A call that waits for approval is no turn.
 * - `drain`: ends the turn between two events, without recording an interruption, so that the next owner resumes it there.
 *   Tool calls under way may finish. Nothing starts any more.
 * - `lost`: fails when this process can no longer write to the session.
 */
export interface LiveSession {
  readonly send: (
    input: sessionTypes.Input,
    options?: SendOptions
  ) => Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError>
  readonly decide: (decisions: Decisions) => Effect.Effect<void, sessionTypes.SessionError>
  readonly resume: Effect.Effect<void, sessionTypes.SessionError>
  readonly interrupt: Effect.Effect<boolean, sessionTypes.SessionError>
  readonly events: (after: number) => Stream.Stream<Entry, sessionTypes.SessionError>
  readonly state: Effect.Effect<Option.Option<sessionTypes.State>, sessionTypes.SessionError>
  readonly history: Effect.Effect<Conversation.Conversation, sessionTypes.SessionError>
  readonly remove: Effect.Effect<boolean, sessionTypes.SessionError>
  readonly idle: Effect.Effect<void, sessionTypes.SessionError>
  readonly drain: Effect.Effect<void>
  readonly lost: Effect.Effect<never, sessionTypes.SessionError>
}

/** Events that are written with the next one: nothing has happened outside of the run before that. */
const deferred: ReadonlySet<Run.Event["_tag"]> = new Set([
  "RunStarted",
  "RunResumed",
  "ConversationFitted",
  "StepStarted",
  "ApprovalRequested",
  "ApprovalDecided"
])

const isDeferred = (event: Run.Event): boolean =>
  event._tag === "ChildEvent" ? isDeferred(event.event) : deferred.has(event._tag)

/** Events of a run that is being ended. They start nothing. */
const ending: ReadonlySet<Run.Event["_tag"]> = new Set(["ToolFinished", "RunInterrupted", "RunFinished"])

const isEnding = (event: Run.Event): boolean =>
  event._tag === "ChildEvent" ? isEnding(event.event) : ending.has(event._tag)

/** True if the code of a tool is under way. */
const hasStartedTool = ({ calls }: Run.State): boolean =>
  calls.some(({ status }) => status._tag === "Started" && (status.child === undefined || hasStartedTool(status.child)))

/** The newest events that are kept in memory for readers. */
const recentLimit = 256

/** A reader looks this often for events that another process wrote. */
const pollInterval = Duration.seconds(1)

const shortestPoll = Duration.millis(20)

/** A turn under way. */
interface Turn {
  readonly stop: Deferred.Deferred<void>
  /** Set when no tool is under way after the session began to close. */
  readonly settled: Deferred.Deferred<void>
  readonly done: Deferred.Deferred<void>
  /** The events that are not written. */
  pending: Array<Event>
  state: Run.State | undefined
  isMuted: boolean
}

const makeTurn = (state: Run.State | undefined): Turn => ({
  stop: Deferred.makeUnsafe(),
  settled: Deferred.makeUnsafe(),
  done: Deferred.makeUnsafe(),
  pending: [],
  state,
  isMuted: false
})

const contentOf = (input: sessionTypes.Input): ToolResult.NonEmptyContent =>
  typeof input === "string" ? [ToolResult.textPart(input)] : input

/** Refuses a message that no conversation can have. */
const checkInput = Effect.fnUntraced(function* (input: sessionTypes.Input) {
  const fits = history.append(Conversation.empty, yield* Message.user(input))
  if (Result.isFailure(fits)) {
    return yield* Effect.fail<Reason>({ _tag: "InputInvalid", problem: fits.failure.message })
  }
})

const stateOf = (memory: Memory, isActive: boolean): sessionTypes.State => {
  const { agent, failure, queue, run, sequence } = memory
  const requests = run === undefined ? [] : Run.approvalRequests(run)
  const isRunning = isActive || sessionEvents.hasWork(memory)
  return {
    agent,
    status: isRunning ? "running" : requests.length > 0 ? "waiting" : "idle",
    sequence,
    queue: queue.map(({ messageId }) => messageId),
    requests,
    ...defined({ outcome: failure === undefined ? run?.outcome : undefined, failure }),
    steps: run?.totalSteps ?? 0,
    usage: run?.usage ?? {}
  }
}

const isSame = (a: Run.Decision, b: Run.Decision): boolean => runTransition.concerns(a, b) && a.approved === b.approved

/** A decision without other members: a request with `approved` added is one, too. */
const bare = ({ callId, path, ...decision }: Run.Decision): Run.Decision => ({
  callId,
  ...runTransition.verdictOf(decision),
  ...defined({ path })
})

/** Opens a session, which may not exist yet, and runs the turns that it is to run. */
export const open = Effect.fnUntraced(function* (
  host: Host,
  id: string
): Effect.fn.Return<LiveSession, sessionTypes.SessionError, Scope.Scope> {
  const { isExclusive, sessions } = host
  const gate = Semaphore.makeUnsafe(1)
  const lost = Deferred.makeUnsafe<never, sessionTypes.SessionError>()
  const turns = yield* Scope.make()
  let owner = yield* storage.nonce
  let changed = Deferred.makeUnsafe<void>()
  let recent: Array<Entry> = []
  let turn: Turn | undefined
  let failure: sessionTypes.SessionError | undefined
  let isClosing = false

  const fail = (reason: Reason) => new sessionTypes.SessionError({ id, reason })

  let stored = Option.getOrUndefined(yield* Effect.mapError(sessions.load(id), fail))

  const notify = (): void => {
    const waiting = changed
    changed = Deferred.makeUnsafe()
    Deferred.doneUnsafe(waiting, Exit.void)
  }

  /** Ends all work here: the session is to be opened again. */
  const giveUp = (reason: Reason): Effect.Effect<never, sessionTypes.SessionError> =>
    Effect.suspend(() => {
      failure ??= fail(reason)
      Deferred.doneUnsafe(lost, Exit.fail(failure))
      if (turn !== undefined) {
        turn.isMuted = true
        Deferred.doneUnsafe(turn.stop, Exit.void)
      }
      notify()
      return Effect.fail(failure)
    })

  const ensureAlive = Effect.suspend(() => (failure === undefined ? Effect.void : Effect.fail(failure)))

  /** One write at a time, which an interruption waits for. */
  const alone = <A>(effect: Effect.Effect<A, sessionTypes.SessionError>): Effect.Effect<A, sessionTypes.SessionError> =>
    gate.withPermit(Effect.uninterruptible(Effect.andThen(ensureAlive, effect)))

  const untilStored = Schedule.exponential("50 millis").pipe(
    Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.seconds(1)))),
    Schedule.upTo({ duration: host.patience })
  )

  /** Changes what is stored, and tries again while the store fails. */
  const change = (
    write: (before: Stored) => Effect.Effect<Stored, Conflict | storage.Reason>
  ): Effect.Effect<void, sessionTypes.SessionError> =>
    Effect.suspend(() => (stored === undefined ? Effect.die(new Error("a session to write to")) : write(stored))).pipe(
      Effect.retry({ schedule: untilStored, while: (error) => error._tag === "StoreFailed" }),
      Effect.map((next) => void (stored = next)),
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
    const isMine = stored !== undefined && (isExclusive || turn !== undefined)
    if (isMine) return
    const head = yield* Effect.mapError(sessions.log.head(id), fail)
    if (Option.getOrUndefined(head)?.version === stored?.at.version) return
    stored = Option.getOrUndefined(yield* Effect.mapError(sessions.load(id), fail))
    recent = []
  })

  /** Becomes the owner, unless another process has the lease. */
  const claim = Effect.gen(function* () {
    if (stored === undefined || stored.at.head.owner === owner) return
    const { head } = stored.at
    const now = yield* DateTime.now
    const isLeased = head.lease !== undefined && DateTime.isGreaterThan(head.lease, now)
    if (isLeased && !isExclusive) return yield* fail({ _tag: "Elsewhere", owner: head.owner })
    yield* change((before) =>
      sessions.append(before, [], (head) => ({ ...withLease(head, leaseFrom(now), now), owner, epoch: head.epoch + 1 }))
    )
  })

  const write = Effect.fnUntraced(function* (events: Arr.NonEmptyReadonlyArray<Event>) {
    const now = yield* DateTime.now
    const from = stored?.memory.sequence ?? 0
    yield* change((before) => {
      const folded = sessionEvents.applyAll(before.memory, events)
      const isBusy = Result.isSuccess(folded) && sessionEvents.hasWork(folded.success)
      return sessions.append(before, events, (head) => withLease(head, isBusy ? leaseFrom(now) : undefined, now))
    })
    const entries = events.map((event, index) => ({ sequence: from + index + 1, event }))
    recent = [...recent, ...entries].slice(-recentLimit)
    notify()
    if (stored !== undefined && sessions.needsSnapshot(stored)) yield* compact
  })

  /** Makes a snapshot. A state that is too large for one stays in its events. */
  const compact = Effect.suspend(() => {
    const before = stored
    if (before === undefined) return Effect.void
    return Effect.gen(function* () {
      stored = yield* sessions.compact(before, yield* DateTime.now)
    }).pipe(
      Effect.catch((error) => {
        if (error._tag !== "StoreFailed" && error._tag !== "Conflict") {
          return Effect.logDebug(`session ${id}: no snapshot was made`, storage.renderReason(error))
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
          stored = found
        }).pipe(Effect.catchTag(storage.reasonTags, giveUp))
      })
    )
  })

  /** The hook of the run: an event is stored before the run continues. */
  const keep =
    (current: Turn, messageId: string | undefined) =>
    ({ event, state }: agentTypes.Entry): Effect.Effect<void> =>
      Effect.suspend(() => {
        if (current.isMuted) return isEnding(event) ? Effect.void : Effect.never
        const isInput = event._tag === "InputAdded" && messageId !== undefined
        current.pending.push({ _tag: "RunEvent", event, ...(isInput ? { messageId } : undefined) })
        current.state = state
        const written = isDeferred(event) ? Effect.void : flush(current)
        return Effect.andThen(written, () => {
          if (!isClosing || hasStartedTool(state)) return Effect.void
          Deferred.doneUnsafe(current.settled, Exit.void)
          return isEnding(event) && state.outcome !== undefined ? Effect.void : Effect.never
        })
      })

  /** Nothing continues after a write that failed. */
  const flush = (current: Turn): Effect.Effect<void> =>
    Effect.matchCauseEffect(
      alone(
        Effect.suspend(() => {
          const events = current.pending
          current.pending = []
          return Arr.isArrayNonEmpty(events) && !current.isMuted ? write(events) : Effect.void
        })
      ),
      {
        onSuccess: () => Effect.void,
        onFailure: (cause) => {
          current.isMuted = true
          // The events cannot be stored: they are beyond the limits, for example
          const refusal = Option.getOrUndefined(Cause.findErrorOption(cause))
          if (failure === undefined && refusal !== undefined) refused.set(current, refusal)
          Deferred.doneUnsafe(current.stop, Exit.void)
          return Effect.never
        }
      }
    )

  const refused = new WeakMap<Turn, sessionTypes.SessionError>()

  const failTurn = (error: { readonly reason: string; readonly message: string }, messageId: string | undefined) =>
    alone(
      Effect.gen(function* () {
        const isQueued = stored?.memory.queue.some((queued) => queued.messageId === messageId) === true
        const at = yield* DateTime.now
        yield* write([{ _tag: "TurnFailed", at, error, ...(isQueued ? defined({ messageId }) : undefined) }])
      })
    )

  /** Runs the agent until its run ends or is stopped. */
  const runAgent = (agent: agentTypes.Agent<unknown>, current: Turn, memory: Memory) => {
    const message = sessionEvents.nextMessage(memory)
    const onEvent = keep(current, message?.messageId)
    const running: Effect.Effect<unknown, AgentError> =
      memory.run === undefined
        ? agent.run(message?.input, { ...host.run, ...defined({ context: message?.context }), onEvent })
        : agent.resume(memory.run, {
            ...host.run,
            ...defined({ input: message?.input }),
            decisions: sessionEvents.waitingDecisions(memory),
            onEvent
          })
    return Effect.map(Effect.exit(Effect.raceFirst(running, Deferred.await(current.stop))), (exit) => ({
      exit,
      messageId: message?.messageId
    }))
  }

  const renew = Effect.forever(
    Effect.andThen(
      Effect.sleep(Duration.times(host.leaseTime, 1 / 3)),
      Effect.ignore(
        alone(
          Effect.flatMap(DateTime.now, (now) =>
            change((before) => sessions.append(before, [], (head) => withLease(head, leaseFrom(now), now)))
          )
        )
      )
    )
  )

  const settleTurn = Effect.fnUntraced(function* (
    current: Turn,
    { exit, messageId }: { readonly exit: Exit.Exit<unknown, AgentError>; readonly messageId: string | undefined }
  ) {
    const refusal = refused.get(current)
    if (refusal !== undefined) {
      return yield* failTurn({ reason: refusal.reason._tag, message: refusal.message }, messageId)
    }
    if (current.isMuted) return
    current.pending = []
    if (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause)) {
      const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
      if (error === undefined) yield* Effect.logError(`session ${id}: the turn died`, exit.cause)
      const shown =
        error === undefined
          ? { reason: "Defect", message: "the turn ended unexpectedly; the log has the error" }
          : { reason: error.reason._tag, message: error.message }
      return yield* failTurn(shown, messageId)
    }
    // Stopped before the run could record its end
    if (stored?.memory.run?.outcome === undefined) {
      yield* failTurn({ reason: "Interrupted", message: "the turn was interrupted" }, messageId)
    }
  })

  const runTurn = Effect.fnUntraced(function* (current: Turn) {
    yield* alone(claim)
    if (stored === undefined || !sessionEvents.hasWork(stored.memory)) return
    const { memory } = stored
    const agent = host.agents.get(memory.agent)
    if (agent === undefined) {
      return yield* fail({ _tag: "AgentUnknown", agent: memory.agent, known: Array.from(host.agents.keys()) })
    }
    current.state = memory.run
    const ran = runAgent(agent, current, memory)
    const ended = yield* isExclusive ? ran : Effect.raceFirst(ran, renew)
    yield* settleTurn(current, ended)
  })

  /** Runs turns while there are some. */
  const startTurns: Effect.Effect<void> = Effect.suspend(() => {
    const isDue = stored !== undefined && sessionEvents.hasWork(stored.memory)
    if (!isDue || turn !== undefined || isClosing || failure !== undefined) return Effect.void
    const current = makeTurn(stored?.memory.run)
    turn = current
    const ran = Effect.gen(function* () {
      const exit = yield* Effect.exit(runTurn(current))
      turn = undefined
      Deferred.doneUnsafe(current.done, Exit.void)
      notify()
      if (Exit.isSuccess(exit)) return yield* settleIdle
      if (Cause.hasInterruptsOnly(exit.cause) || failure !== undefined) return
      const error = Option.getOrUndefined(Cause.findErrorOption(exit.cause))
      if (error?.reason._tag === "Elsewhere") return yield* takeUp
      yield* Effect.logWarning(`session ${id}: no turn was run`, exit.cause)
    })
    return Effect.asVoid(Effect.forkIn(ran, turns))
  })

  /** The process with the lease ends the turn, or dies and leaves it. */
  const takeUp: Effect.Effect<void> = Effect.gen(function* () {
    const lease = stored?.at.head.lease
    const now = yield* DateTime.now
    const rest = lease === undefined ? pollInterval : DateTime.distance(now, lease)
    yield* Effect.sleep(Duration.clamp(rest, { minimum: shortestPoll, maximum: pollInterval }))
    yield* Effect.ignore(alone(refresh))
    notify()
    yield* startTurns
  })

  const settleIdle = Effect.suspend(() => {
    if (stored !== undefined && sessionEvents.hasWork(stored.memory)) return startTurns
    return Effect.ignore(
      alone(
        Effect.suspend(() =>
          stored !== undefined && sessionEvents.hasWork(stored.memory) ? Effect.void : host.onIdle(id)
        )
      )
    )
  })

  const withMemory = <A>(use: (memory: Memory) => A): Effect.Effect<A, sessionTypes.SessionError> =>
    Effect.suspend(() =>
      stored === undefined ? Effect.fail(fail({ _tag: "NotFound" })) : Effect.succeed(use(stored.memory))
    )

  const agentFor = (options: SendOptions | undefined): Effect.Effect<string, sessionTypes.SessionError> => {
    const known = Array.from(host.agents.keys())
    const agent = options?.agent ?? (known.length === 1 ? known[0] : undefined)
    return agent === undefined || !host.agents.has(agent)
      ? Effect.fail(fail({ _tag: "AgentUnknown", known, ...defined({ agent }) }))
      : Effect.succeed(agent)
  }

  /** Stores events that a turn has to answer, and begins it. */
  const receive = (events: Arr.NonEmptyReadonlyArray<Event>) =>
    Effect.gen(function* () {
      yield* claim
      yield* Effect.mapError(host.onBusy(id), fail)
      yield* write(events)
    })

  const send: LiveSession["send"] = Effect.fnUntraced(function* (input, options) {
    const messageId = options?.messageId ?? (yield* yield* Message.MessageId)
    yield* Effect.mapError(checkInput(input), fail)
    const receipt = alone(
      Effect.gen(function* () {
        yield* refresh
        const agent = stored === undefined ? yield* agentFor(options) : stored.memory.agent
        if (options?.agent !== undefined && options.agent !== agent) {
          return yield* fail({ _tag: "AgentDiffers", agent: options.agent, found: agent })
        }
        const known = stored?.memory.received.find((received) => received.messageId === messageId)
        if (known !== undefined) return known
        const isBusy = stored !== undefined && stateOf(stored.memory, turn !== undefined).status === "running"
        if (isBusy && options?.whenBusy === "reject") return yield* fail({ _tag: "Busy", status: "running" })
        const at = yield* DateTime.now
        if (stored === undefined) yield* create(agent, at)
        const { context } = options ?? {}
        yield* receive([
          { _tag: "MessageReceived", at, messageId, agent, input: contentOf(input), ...defined({ context }) }
        ])
        return { messageId, sequence: stored?.memory.sequence ?? 0 }
      })
    )
    return yield* Effect.tap(receipt, () => startTurns)
  })

  const create = Effect.fnUntraced(function* (agent: string, updated: DateTime.Utc) {
    const created = yield* sessions.create(id, agent, { updated }).pipe(
      Effect.catchTag("Conflict", () =>
        Effect.flatMap(sessions.load(id), (found) =>
          Option.isSome(found)
            ? Effect.succeed(found.value)
            : Effect.fail(storage.damaged(id, "expected a session, got none"))
        )
      ),
      Effect.mapError(fail)
    )
    stored = created
    owner = created.at.head.owner
  })

  const decide: LiveSession["decide"] = (decisions) =>
    Effect.tap(
      alone(
        Effect.gen(function* () {
          yield* refresh
          const memory = yield* withMemory((memory) => memory)
          const [first, ...others] = decisions.filter(
            (decision) => !memory.decided.some((one) => isSame(decision, one))
          )
          if (first === undefined) return
          const fresh: Decisions = [first, ...others]
          yield* checkDecisions(memory, fresh)
          yield* receive([{ _tag: "DecisionsReceived", at: yield* DateTime.now, decisions: Arr.map(fresh, bare) }])
        })
      ),
      () => startTurns
    )

  const checkDecisions = Effect.fnUntraced(function* ({ decisions, run }: Memory, fresh: Decisions) {
    const refuse = (error: Run.InvalidDecision) => Effect.fail(fail({ _tag: "InvalidDecision", error }))
    const pending = run === undefined ? [] : Run.approvalRequests(run).map(({ callId }) => callId)
    const repeated = fresh.find((decision) => decisions.some((one) => runTransition.concerns(decision, one)))
    if (repeated !== undefined) {
      return yield* refuse(new Run.InvalidDecision({ callId: repeated.callId, problem: "repeated", pending }))
    }
    if (run === undefined) {
      return yield* refuse(new Run.InvalidDecision({ callId: fresh[0].callId, problem: "unknown", pending }))
    }
    const decided = Run.decide(run, fresh, yield* DateTime.now)
    if (Result.isFailure(decided)) return yield* refuse(decided.failure)
  })

  const resume: LiveSession["resume"] = Effect.tap(
    alone(
      Effect.gen(function* () {
        yield* refresh
        const isBusy = yield* withMemory((memory) => turn !== undefined || sessionEvents.hasWork(memory))
        if (!isBusy) yield* receive([{ _tag: "ResumeReceived", at: yield* DateTime.now }])
      })
    ),
    () => startTurns
  )

  const interrupt: LiveSession["interrupt"] = Effect.suspend(() => {
    const current = turn
    if (current === undefined) return Effect.as(alone(Effect.andThen(refresh, claim)), false)
    Deferred.doneUnsafe(current.stop, Exit.void)
    return Effect.as(Effect.andThen(Deferred.await(current.done), ensureAlive), true)
  })

  /** The next events after a number, which waits until there are some. */
  const entriesAfter = (after: number): Effect.Effect<ReadonlyArray<Entry>, sessionTypes.SessionError> =>
    Effect.suspend(() => {
      if (failure !== undefined) return Effect.fail(failure)
      const waiting = Deferred.await(changed)
      if (stored === undefined || stored.memory.sequence <= after) {
        const isFollowed = isExclusive || turn !== undefined
        const waited = isFollowed
          ? waiting
          : Effect.andThen(Effect.timeoutOption(waiting, pollInterval), alone(refresh))
        return Effect.flatMap(waited, () => entriesAfter(after))
      }
      const [oldest] = recent
      if (oldest !== undefined && oldest.sequence <= after + 1) {
        return Effect.succeed(recent.filter(({ sequence }) => sequence > after))
      }
      const first = sessions.firstKept(stored)
      if (after + 1 < first) return Effect.fail(fail({ _tag: "EventsPruned", first }))
      return sessions.entries(stored, after + 1).pipe(
        Effect.catch((error) =>
          // A new generation began, or the events were pruned, since
          error._tag === "Conflict" ? Effect.as(alone(refresh), []) : Effect.fail(fail(error))
        ),
        Effect.flatMap((entries) => (entries.length === 0 ? entriesAfter(after) : Effect.succeed(entries)))
      )
    })

  const remove: LiveSession["remove"] = Effect.gen(function* () {
    yield* interrupt
    return yield* alone(
      Effect.gen(function* () {
        const removed = yield* Effect.mapError(
          Effect.catchTag(sessions.log.remove(id, undefined), "Conflict", Effect.die),
          fail
        )
        stored = undefined
        recent = []
        yield* host.onIdle(id)
        notify()
        return removed
      })
    )
  })

  const untilIdle: LiveSession["idle"] = Effect.suspend(() => {
    if (failure !== undefined) return Effect.fail(failure)
    const isIdle = turn === undefined && (stored === undefined || !sessionEvents.hasWork(stored.memory))
    return isIdle ? Effect.void : Effect.andThen(Deferred.await(changed), untilIdle)
  })

  const idle: LiveSession["idle"] = alone(refresh).pipe(Effect.andThen(startTurns), Effect.andThen(untilIdle))

  const stopTurn = Effect.suspend(() => {
    const current = turn
    if (current === undefined) return Effect.void
    const isSettled = current.state === undefined || !hasStartedTool(current.state)
    const settled = isSettled ? Effect.void : Effect.timeoutOption(Deferred.await(current.settled), host.drainTime)
    return Effect.andThen(Effect.raceFirst(settled, Deferred.await(current.done)), () => {
      current.isMuted = true
      Deferred.doneUnsafe(current.stop, Exit.void)
      return Deferred.await(current.done)
    })
  })

  /** Lets the next owner have the session at once, with a snapshot where that saves it many reads. */
  const release = Effect.suspend(() => {
    if (stored === undefined || stored.at.head.owner !== owner) return Effect.void
    const { base, memory } = stored
    const isLong = memory.sequence - base > recentLimit / 4
    return Effect.gen(function* () {
      if (isLong) yield* compact
      const now = yield* DateTime.now
      if (stored?.at.head.lease !== undefined) {
        yield* change((before) => sessions.append(before, [], (head) => withLease(head, undefined, now)))
      }
    })
  })

  const drain: LiveSession["drain"] = Effect.suspend(() => {
    if (isClosing) return turn === undefined ? Effect.void : Deferred.await(turn.done)
    isClosing = true
    return Effect.andThen(stopTurn, Effect.ignore(alone(release)))
  })

  yield* Effect.addFinalizer((exit) => Effect.andThen(drain, Scope.close(turns, exit)))
  yield* startTurns

  const reading = <A>(read: Effect.Effect<A, sessionTypes.SessionError>) => Effect.andThen(alone(refresh), read)

  return {
    send,
    decide,
    resume,
    interrupt,
    remove,
    idle,
    drain,
    lost: Deferred.await(lost),
    events: (after) =>
      Stream.paginate(after, (after) =>
        Effect.map(entriesAfter(after), (entries) => [entries, Option.some(entries.at(-1)?.sequence ?? after)] as const)
      ),
    state: reading(
      Effect.sync(() => Option.map(Option.fromUndefinedOr(stored), ({ memory }) => stateOf(memory, turn !== undefined)))
    ),
    history: reading(withMemory(({ run }) => run?.conversation ?? Conversation.empty))
  }
})
