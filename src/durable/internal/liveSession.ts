/**
 * A session in the process that has it: stores what comes in, runs one turn after the other, and shows its events to readers.
 * `sessionWriter` has what is stored, and decides whether this process may write.
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentError } from "../../agent/AgentError.ts"
import * as Run from "../../agent/Run.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as driver from "../../agent/internal/driver.ts"
import * as runTransition from "../../agent/internal/runTransition.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import * as sessionEvents from "./sessionEvents.ts"
import type { Entry, Event, Memory } from "./sessionEvents.ts"
import type * as sessionTypes from "./sessionTypes.ts"
import type { Decisions, Reason, SendOptions } from "./sessionTypes.ts"
import * as sessionWriter from "./sessionWriter.ts"

/**
 * A session in memory.
 *
 * - `idle`: takes the session, and waits until no turn is under way or due. A call that waits for approval is no turn.
 *   Fails if the turn that is due cannot be run here. `untilIdle` only waits.
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
  readonly untilIdle: Effect.Effect<void, sessionTypes.SessionError>
  readonly drain: Effect.Effect<void>
  readonly lost: Effect.Effect<never, sessionTypes.SessionError>
}

/** True for an event that is written with the next one. */
const isDeferred = (event: Run.Event): boolean => runTransition.isDeferrable(event) || isLastAnswer(event)

/** An answer without calls: the end of the run follows at once, unless the answer is refused. */
const isLastAnswer = (event: Run.Event): boolean =>
  event._tag === "ChildEvent"
    ? isLastAnswer(event.event)
    : event._tag === "ModelAnswered" && event.message.content.every(({ type }) => type !== "tool-call")

/** True if the events that are not written have an answer. It was paid for, so nothing else starts before it is stored. */
const hasAnswer = (events: ReadonlyArray<Event>): boolean =>
  events.some((event) => event._tag === "RunEvent" && isAnswer(event.event))

const isAnswer = (event: Run.Event): boolean =>
  event._tag === "ChildEvent" ? isAnswer(event.event) : event._tag === "ModelAnswered"

/** Events of a run that is being ended. They start nothing. */
const ending: ReadonlySet<Run.Event["_tag"]> = new Set(["ToolFinished", "RunInterrupted", "RunFinished"])

const isEnding = (event: Run.Event): boolean =>
  event._tag === "ChildEvent" ? isEnding(event.event) : ending.has(event._tag)

/** True for an event after which a model or a tool is called. */
const isStart = (event: Run.Event): boolean =>
  event._tag === "ChildEvent" ? isStart(event.event) : event._tag === "StepStarted" || event._tag === "ToolStarted"

/** True if the code of a tool is under way. */
const hasStartedTool = ({ calls }: Run.State): boolean =>
  calls.some(({ status }) => status._tag === "Started" && (status.child === undefined || hasStartedTool(status.child)))

const shortestPoll = Duration.millis(20)

/** An interruption waits this long for a turn to take its message: a turn that cannot be prepared never takes it. */
const patienceToBegin = Duration.seconds(1)

/** The first so many characters of an error are stored. */
const longestMessage = 10_000

/** A turn under way. */
interface Turn {
  readonly stop: Deferred.Deferred<void>
  /** Set when it has taken its message. */
  readonly begun: Deferred.Deferred<void>
  /** Set when no tool is under way after the session began to close. */
  readonly settled: Deferred.Deferred<void>
  readonly done: Deferred.Deferred<void>
  /** The events that are not written. */
  pending: Array<Event>
  state: Run.State | undefined
  isMuted: boolean
  /** True when this process has the session for it. */
  isOurs: boolean
  /** True when the end of the run is stored. */
  isEnded: boolean
}

const makeTurn = (state: Run.State | undefined): Turn => ({
  stop: Deferred.makeUnsafe(),
  begun: Deferred.makeUnsafe(),
  settled: Deferred.makeUnsafe(),
  done: Deferred.makeUnsafe(),
  pending: [],
  state,
  isMuted: false,
  isOurs: false,
  isEnded: false
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

type Recording = Parameters<typeof driver.interrupt>[0]

/** The events of a run that are recorded. */
const eventsOf = Effect.fnUntraced(function* (state: Run.State, record: (run: Recording) => Effect.Effect<void>) {
  const events: Array<Run.Event> = []
  const context = yield* Effect.context<never>()
  const recorder = new driver.AgentRecorder({
    state,
    first: undefined,
    apply: Run.apply,
    views: () => [],
    hook: (event) => Effect.sync(() => void events.push(event)),
    context
  })
  yield* record({ context, recorder })
  yield* recorder.delivered()
  return events.map((event): Event => ({ _tag: "RunEvent", event }))
})

/** The events that end a run as `Interrupted`. */
const endingOf = (state: Run.State) => eventsOf(state, (run) => driver.interrupt(run, undefined))

/** The result of a call that an interruption kept from being started. */
const stoppedCall = ToolResult.failure("interrupted", "The call was not run: the turn was interrupted before.", {
  outcome: "not_executed"
})

/** The events that settle the calls which a turn that was interrupted had not started: the next message is no reason to run them. */
const settlingOf = (state: Run.State) => {
  const left = state.calls.filter(({ status }) => status._tag === "Requested" || status._tag === "Approved")
  if (state.outcome?._tag !== "Interrupted" || left.length === 0) return Effect.succeed([])
  return eventsOf(state, (run) =>
    Effect.andThen(
      run.recorder.recordNow({ _tag: "RunResumed" }),
      Effect.forEach(
        left,
        ({ part }) => driver.recordToolFinished(run, { callId: part.id, name: part.name, result: stoppedCall }),
        { discard: true }
      )
    )
  )
}

/** The error of a turn as it is stored. */
const failureOf = (reason: string, message: string) => ({ reason, message: message.slice(0, longestMessage) })

/** Opens a session, which may not exist yet, and runs the turns that it is to run. */
export const open = Effect.fnUntraced(function* (
  host: sessionWriter.Host,
  id: string
): Effect.fn.Return<LiveSession, sessionTypes.SessionError, Scope.Scope> {
  const turns = yield* Scope.make()
  let turn: Turn | undefined
  let unable: sessionTypes.SessionError | undefined
  let isClosing = false
  let isPaused = false

  const own: sessionWriter.SessionWriter = yield* sessionWriter.make(host, id, turns, () => {
    if (turn === undefined) return
    turn.isMuted = true
    Deferred.doneUnsafe(turn.stop, Exit.void)
  })
  const { alone, claim, ensureAlive, ensureFree, entriesAfter, fail, notify, refresh, release, write } = own

  /** The hook of the run: an event is stored before the run continues. */
  const keep =
    (current: Turn, messageId: string | undefined) =>
    ({ event, state }: agentTypes.Entry): Effect.Effect<void> =>
      Effect.suspend(() => {
        if (current.isMuted) return isEnding(event) ? Effect.void : Effect.never
        const isInput = event._tag === "InputAdded" && messageId !== undefined
        const isDue = !isDeferred(event) || hasAnswer(current.pending) || (isClosing && isAnswer(event))
        current.pending.push({ _tag: "RunEvent", event, ...(isInput ? { messageId } : undefined) })
        current.state = state
        const written = isDue ? flush(current) : Effect.void
        const verified = isStart(event) ? Effect.andThen(written, Effect.ignore(own.verify)) : written
        return Effect.andThen(verified, () => {
          if (event._tag === "InputAdded") Deferred.doneUnsafe(current.begun, Exit.void)
          if (current.isMuted) return Effect.never
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
          if (!Arr.isArrayNonEmpty(events) || current.isMuted) return Effect.void
          const isEnd = events.some((event) => event._tag === "RunEvent" && event.event._tag === "RunFinished")
          // With the gate: a reader of the end may interrupt the turn before this returns
          return Effect.map(write(events), () => void (current.isEnded = isEnd))
        })
      ),
      {
        onSuccess: () => Effect.void,
        onFailure: (cause) => {
          current.isMuted = true
          // The events cannot be stored: they are beyond the limits, for example
          if (own.failure === undefined) refused.set(current, cause)
          Deferred.doneUnsafe(current.stop, Exit.void)
          return Effect.void
        }
      }
    )

  const refused = new WeakMap<Turn, Cause.Cause<sessionTypes.SessionError>>()

  /** The part of an error that is stored. */
  const explain = (cause: Cause.Cause<AgentError | sessionTypes.SessionError>) =>
    Effect.gen(function* () {
      const error = Option.getOrUndefined(Cause.findErrorOption(cause))
      if (error !== undefined) return failureOf(error.reason._tag, error.message)
      yield* telemetry.logUnexpected(`session ${id}: the turn died`, cause)
      return failureOf("Defect", "the turn ended unexpectedly; the log has the error")
    })

  const failTurn = (error: sessionEvents.Failure, messageId: string | undefined) =>
    Effect.gen(function* () {
      const isQueued = own.stored?.memory.queue.some((queued) => queued.messageId === messageId) === true
      const at = yield* DateTime.now
      yield* write([{ _tag: "TurnFailed", at, error, ...(isQueued ? defined({ messageId }) : undefined) }])
    })

  /** Records the end of a run that was stopped before it could do that. */
  const endTurn = (messageId: string | undefined) =>
    Effect.gen(function* () {
      const run = own.stored?.memory.run
      const ending =
        run !== undefined && run.outcome === undefined ? yield* Effect.exit(endingOf(run)) : Exit.succeed([])
      if (Exit.isSuccess(ending) && Arr.isArrayNonEmpty(ending.value)) return yield* write(ending.value)
      yield* failTurn(failureOf("Interrupted", "the turn was interrupted"), messageId)
    })

  /** Runs the agent until its run ends or is stopped. */
  const runAgent = (
    agent: agentTypes.Agent<unknown>,
    current: Turn,
    memory: Memory,
    message: Memory["queue"][number] | undefined
  ) => {
    if (message === undefined) Deferred.doneUnsafe(current.begun, Exit.void)
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

  const settleTurn = Effect.fnUntraced(function* (
    current: Turn,
    { exit, messageId }: { readonly exit: Exit.Exit<unknown, AgentError>; readonly messageId: string | undefined }
  ) {
    const refusal = refused.get(current)
    const problem = refusal ?? (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause) ? exit.cause : undefined)
    if (refusal === undefined && current.isMuted) return
    current.pending = []
    if (problem !== undefined) yield* alone(failTurn(yield* explain(problem), messageId))
    else if (!current.isEnded) yield* alone(Effect.suspend(() => (current.isEnded ? Effect.void : endTurn(messageId))))
  })

  /** Before a message is taken: calls that were left by an interruption do not run. */
  const settleCalls = Effect.suspend(() => {
    const run = own.stored?.memory.run
    if (run === undefined) return Effect.void
    return Effect.flatMap(settlingOf(run), (events) =>
      Arr.isArrayNonEmpty(events) ? alone(write(events)) : Effect.void
    )
  })

  const runTurn = Effect.fnUntraced(function* (current: Turn) {
    const agent = yield* agentNamed(own.stored?.memory.agent)
    yield* alone(Effect.map(claim(true), () => void (current.isOurs = own.isHeld = true)))
    if (own.stored === undefined || !sessionEvents.hasWork(own.stored.memory)) return
    const message = sessionEvents.nextMessage(own.stored.memory)
    if (message !== undefined) yield* settleCalls
    const { memory } = own.stored
    current.state = memory.run
    const ran = runAgent(agent, current, memory, message)
    const ended = yield* host.isExclusive ? ran : Effect.raceFirst(ran, own.renewed)
    yield* settleTurn(current, ended)
  })

  /** Runs turns while there are some. */
  const startTurns: Effect.Effect<void> = Effect.suspend(() => {
    const isDue = own.stored !== undefined && sessionEvents.hasWork(own.stored.memory)
    if (!isDue || turn !== undefined || isClosing || isPaused || own.failure !== undefined) return Effect.void
    unable = undefined
    const current = makeTurn(own.stored?.memory.run)
    turn = current
    const ran = Effect.gen(function* () {
      const exit = yield* Effect.exit(runTurn(current))
      turn = undefined
      own.isHeld = false
      Deferred.doneUnsafe(current.done, Exit.void)
      const isElsewhere = Exit.isFailure(exit) && reasonOf(exit.cause)._tag === "Elsewhere"
      if (Exit.isFailure(exit) && !isElsewhere) unable = fail(reasonOf(exit.cause))
      notify()
      if (Exit.isSuccess(exit)) return yield* Effect.ignore(alone(settleIdle))
      if (Cause.hasInterruptsOnly(exit.cause) || own.failure !== undefined) return
      if (isElsewhere) return yield* takeUp
      yield* Effect.logWarning(`session ${id}: no turn was run`, exit.cause)
    })
    const apart = Effect.updateContext(ran, (_: Context.Context<never>) => host.context)
    return Effect.asVoid(Effect.forkIn(apart, turns))
  })

  const reasonOf = (cause: Cause.Cause<sessionTypes.SessionError>): Reason =>
    Option.match(Cause.findErrorOption(cause), {
      onNone: () => ({ _tag: "TurnFailed", failure: failureOf("Defect", Cause.pretty(cause)) }),
      onSome: ({ reason }) => reason
    })

  /** The process with the lease ends the turn, or dies and leaves it. */
  const takeUp: Effect.Effect<void> = Effect.gen(function* () {
    const lease = own.stored?.at.head.lease
    const now = yield* DateTime.now
    const rest = lease === undefined ? sessionWriter.pollInterval : DateTime.distance(now, lease)
    yield* Effect.sleep(Duration.clamp(rest, { minimum: shortestPoll, maximum: sessionWriter.pollInterval }))
    yield* Effect.ignore(alone(refresh))
    notify()
    yield* startTurns
  })

  /** With the gate. */
  const settleIdle = Effect.suspend(() => {
    const isDue = own.stored !== undefined && sessionEvents.hasWork(own.stored.memory)
    if (isDue) return startTurns
    return turn === undefined && own.failure === undefined ? host.onIdle(id) : Effect.void
  })

  const withMemory = <A>(use: (memory: Memory) => A): Effect.Effect<A, sessionTypes.SessionError> =>
    Effect.suspend(() =>
      own.stored === undefined ? Effect.fail(fail({ _tag: "NotFound" })) : Effect.succeed(use(own.stored.memory))
    )

  const agentNamed = (
    name: string | undefined
  ): Effect.Effect<agentTypes.Agent<unknown>, sessionTypes.SessionError> => {
    const agent = name === undefined ? undefined : host.agents.get(name)
    const known = Array.from(host.agents.keys())
    return agent === undefined
      ? Effect.fail(fail({ _tag: "AgentUnknown", known, ...defined({ agent: name }) }))
      : Effect.succeed(agent)
  }

  /** Stores events that a turn has to answer, and begins it. */
  const receive = (events: Arr.NonEmptyReadonlyArray<Event>) =>
    Effect.gen(function* () {
      yield* claim(false)
      if (own.stored === undefined || !sessionEvents.hasWork(own.stored.memory))
        yield* Effect.mapError(host.onBusy(id), fail)
      // Nothing was stored if it was refused
      yield* Effect.tapError(write(events), () => settleIdle)
      yield* startTurns
    })

  const send: LiveSession["send"] = Effect.fnUntraced(function* (input, options) {
    const messageId = options?.messageId ?? (yield* yield* Message.MessageId)
    yield* Effect.mapError(checkInput(input), fail)
    return yield* alone(store(messageId, input, options ?? {}))
  })

  const store = (
    messageId: string,
    input: sessionTypes.Input,
    { agent: wanted, context, whenBusy }: SendOptions
  ): Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError> =>
    Effect.gen(function* () {
      yield* refresh
      const found = own.stored?.memory
      const only = host.agents.size === 1 ? Array.from(host.agents.keys())[0] : undefined
      const agent = found?.agent ?? wanted ?? only
      if (found !== undefined && wanted !== undefined && wanted !== found.agent) {
        return yield* fail({ _tag: "AgentDiffers", agent: wanted, found: found.agent })
      }
      const { name } = yield* agentNamed(agent)
      const known = found?.received.find((received) => received.messageId === messageId)
      if (known !== undefined) return known
      const isBusy = found !== undefined && stateOf(found, turn !== undefined).status === "running"
      if (isBusy && whenBusy === "reject") return yield* fail({ _tag: "Busy", status: "running" })
      const at = yield* DateTime.now
      // Another process made it
      if (found === undefined && !(yield* own.create(name, at))) {
        return yield* store(messageId, input, { agent: wanted, context, whenBusy })
      }
      const content = contentOf(input)
      yield* receive([{ _tag: "MessageReceived", at, messageId, agent: name, input: content, ...defined({ context }) }])
      return { messageId, sequence: own.stored?.memory.sequence ?? 0 }
    })

  const decide: LiveSession["decide"] = (decisions) =>
    alone(
      Effect.gen(function* () {
        yield* refresh
        const memory = yield* withMemory((memory) => memory)
        const requests = memory.run === undefined ? [] : Run.approvalRequests(memory.run)
        const isKnown = (decision: Run.Decision) => {
          const isOpen = requests.some((request) => runTransition.concerns(decision, request))
          return (isOpen ? memory.decisions : memory.decided).some((one) => isSame(decision, one))
        }
        const [first, ...others] = decisions.filter((decision) => !isKnown(decision))
        if (first === undefined) return
        const fresh: Decisions = [first, ...others]
        yield* checkDecisions(memory, fresh)
        yield* receive([{ _tag: "DecisionsReceived", at: yield* DateTime.now, decisions: Arr.map(fresh, bare) }])
      })
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

  const resume: LiveSession["resume"] = alone(
    Effect.gen(function* () {
      yield* refresh
      const isBusy = yield* withMemory((memory) => turn !== undefined || sessionEvents.hasWork(memory))
      if (!isBusy) yield* receive([{ _tag: "ResumeReceived", at: yield* DateTime.now }])
    })
  )

  const interrupt: LiveSession["interrupt"] = Effect.suspend(() => {
    const current = turn
    if (current === undefined) {
      const looked = alone(Effect.andThen(refresh, ensureFree))
      return Effect.andThen(looked, () => (turn === undefined ? Effect.succeed(false) : interrupt))
    }
    const wasStopped = () => !current.isEnded || current.state?.outcome?._tag === "Interrupted"
    // A message that was acknowledged is part of the conversation, also where its turn is stopped at once
    const begun = Effect.timeoutOption(Deferred.await(current.begun), patienceToBegin)
    return Effect.raceFirst(begun, Deferred.await(current.done)).pipe(
      Effect.andThen(Deferred.succeed(current.stop, undefined)),
      Effect.andThen(Deferred.await(current.done)),
      Effect.andThen(ensureAlive),
      Effect.andThen(
        current.isOurs ? Effect.sync(wasStopped) : Effect.as(alone(Effect.andThen(refresh, ensureFree)), true)
      )
    )
  })

  const remove: LiveSession["remove"] = Effect.suspend(() => {
    isPaused = true
    return Effect.andThen(interrupt, alone(removeStored))
  }).pipe(
    Effect.ensuring(
      Effect.suspend(() => {
        isPaused = false
        return startTurns
      })
    )
  )

  const removeStored = Effect.gen(function* () {
    const removed = yield* own.remove
    yield* host.onIdle(id)
    notify()
    return removed
  })

  const untilIdle: LiveSession["idle"] = Effect.suspend(() => {
    const error = own.failure ?? unable
    if (error !== undefined) return Effect.fail(error)
    const isIdle = turn === undefined && (own.stored === undefined || !sessionEvents.hasWork(own.stored.memory))
    return isIdle ? Effect.void : Effect.andThen(own.changed(), untilIdle)
  })

  /** A session that another process has is waited for. */
  const take = Effect.catchIf(
    claim(false),
    ({ reason }) => reason._tag === "Elsewhere" && own.failure === undefined,
    () => Effect.void
  )

  const idle: LiveSession["idle"] = alone(Effect.andThen(refresh, take)).pipe(
    Effect.andThen(startTurns),
    Effect.andThen(untilIdle)
  )

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

  const drain: LiveSession["drain"] = Effect.suspend(() => {
    if (isClosing) return turn === undefined ? Effect.void : Deferred.await(turn.done)
    isClosing = true
    // A store that does not answer
    return Effect.andThen(stopTurn, Effect.timeoutOption(Effect.ignore(alone(release)), host.drainTime))
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
    untilIdle,
    drain,
    lost: own.lost,
    events: (after) =>
      Stream.paginate(after, (after) =>
        Effect.map(entriesAfter(after), (entries) => [entries, Option.some(entries.at(-1)?.sequence ?? after)] as const)
      ),
    state: reading(
      Effect.sync(() =>
        Option.map(Option.fromUndefinedOr(own.stored), ({ memory }) => stateOf(memory, turn !== undefined))
      )
    ),
    history: reading(withMemory(({ run }) => run?.conversation ?? Conversation.empty))
  }
})
