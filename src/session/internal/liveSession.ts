/**
 * A session in the process that has it: stores what comes in, runs one turn after the other, and shows its events to readers.
 * `sessionWriter` has what is stored, and decides whether this process may write.
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
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
import type * as Tracer from "effect/Tracer"
import type * as AgentError from "../../agent/AgentError.ts"
import * as Run from "../../agent/Run.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import * as driver from "../../agent/internal/driver.ts"
import * as runTransition from "../../agent/internal/runTransition.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import * as sessionEvents from "./sessionEvents.ts"
import * as sessionMessage from "./sessionMessage.ts"
import type { Entry, Event, Memory, Place, Queued } from "./sessionEvents.ts"
import type { Stored } from "./sessionLog.ts"
import * as sessionTypes from "./sessionTypes.ts"
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
  readonly events: (after: Place) => Stream.Stream<Entry, sessionTypes.SessionError>
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
  event._tag === "ChildEvent"
    ? isEnding(event.event)
    : ending.has(event._tag) || (event._tag === "ModelAnswered" && event.message.finishReason === runTransition.cutOff)

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
  /** True when calls that waited were denied, because it was stopped. */
  isCancelled: boolean
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
  isEnded: false,
  isCancelled: false
})

const statusOf = (memory: Memory, isActive: boolean): sessionTypes.State["status"] => {
  if (isActive || sessionEvents.hasWork(memory)) return "running"
  return memory.run !== undefined && Run.approvalRequests(memory.run).length > 0 ? "waiting" : "idle"
}

const stateOf = ({ at, memory }: Stored, isActive: boolean): sessionTypes.State => {
  const { agent, failure, run, sequence } = memory
  return {
    agent,
    status: statusOf(memory, isActive),
    sequence,
    cursor: sessionEvents.cursorOf(at.head.life, sequence),
    queue: Array.from(sessionEvents.waitingMessages(memory), ({ messageId }) => messageId),
    requests: run === undefined ? [] : Run.approvalRequests(run),
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

/** The events of a run that are recorded. `messageId` belongs to the input among them. */
const eventsOf = Effect.fnUntraced(function* (
  state: Run.State,
  record: (run: Recording) => Effect.Effect<void>,
  messageId?: string
) {
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
  return events.map((event): Event => ({
    _tag: "RunEvent",
    event,
    ...(event._tag === "InputAdded" && defined({ messageId }))
  }))
})

/** The events that end a run as `Interrupted`, after a message that it had not taken. */
const endingOf = (state: Run.State, message: Queued | undefined) =>
  eventsOf(
    state,
    Effect.fnUntraced(function* (run) {
      if (message !== undefined) {
        yield* run.recorder.recordNow({ _tag: "RunResumed" })
        const input = yield* Message.user(message.input)
        yield* run.recorder.recordNow({ _tag: "InputAdded", message: input, maxSteps: state.maxSteps })
      }
      yield* driver.interrupt(run, undefined)
    }),
    message?.messageId
  )

/** Denies a call that waits. */
const denialOf =
  (reason: string) =>
  ({ callId, digest, path }: Run.ApprovalRequest): Run.Decision => ({
    callId,
    digest,
    approved: false,
    reason,
    ...defined({ path })
  })

/** True for a run with calls that wait, or that failed with calls which it could not run. */
const hasOpenCalls = (run: Run.State): boolean =>
  Run.approvalRequests(run).length > 0 || (run.outcome === undefined && run.calls.length > 0)

/** The events that deny the calls which wait, and end a run that waits for nothing else. */
const cancelling = (state: Run.State) =>
  eventsOf(
    state,
    Effect.fnUntraced(function* (run) {
      const { recorder } = run
      const denials = Run.approvalRequests(state).map(denialOf("The call was not run: it was interrupted."))
      const decided = Run.decide(state, denials, recorder.now())
      for (const event of Result.getOrElse(decided, () => [])) yield* recorder.record(event)
      if (state.outcome?._tag === "Interrupted") return
      yield* recorder.recordNow({ _tag: "RunResumed" })
      const action = runTransition.next(recorder.state)
      const settled = action._tag === "RunTools" ? action.settled : []
      for (const call of settled) yield* driver.recordToolFinished(run, call)
      yield* driver.interrupt(run, undefined)
    })
  )

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

/** The decisions of a turn with a message. Any message that waits may come in the place of those that are missing. */
const decisionsFor = (memory: Memory, run: Run.State, message: Queued | undefined): ReadonlyArray<Run.Decision> => {
  const decisions = sessionEvents.waitingDecisions(memory)
  const isDenying = message !== undefined && sessionEvents.isDenying(memory)
  if (!isDenying) return decisions
  const open = Run.approvalRequests(run).filter(
    (request) => !decisions.some((decision) => runTransition.concerns(decision, request))
  )
  return [...decisions, ...open.map(denialOf("The call was denied: the user sent another message."))]
}

/** The number of messages that a run has taken, and that wait there until its calls are decided. */
const takenMessages = ({ run }: Memory): number =>
  run !== undefined && Run.approvalRequests(run).length > 0 ? run.pending.length : 0

/** Failures that are about the decisions of a turn: they are made again, or are about calls that are no more. */
const aboutDecisions: ReadonlySet<string> = new Set(["InvalidDecision", "DefinitionChanged", sessionEvents.interrupted])

/** True for a failure that the message would have in any turn: it does not fit, or a first one has not the context that it needs. */
const isFaultOfMessage = (
  cause: Cause.Cause<AgentError.AgentError | sessionTypes.SessionError>,
  isFirst: boolean
): boolean => {
  const reason = Option.getOrUndefined(Cause.findErrorOption(cause))?.reason
  if (reason?._tag === "PreparationFailed") return isFirst && reason.error === "RunContextError"
  return reason?._tag === "ConversationInvalid" || reason?._tag === "Refused"
}

/** The error of a turn as it is stored. */
const failureOf = (error: AgentError.AgentError | sessionTypes.SessionError): sessionEvents.Failure => ({
  reason: error.reason._tag,
  category: error._tag === "SessionError" ? error.category : categoryOf(error.reason),
  message: (error._tag === "SessionError"
    ? error.message
    : `Agent ${JSON.stringify(error.agent)}: ${agentReason.explain(error.reason, "session")}`
  ).slice(0, longestMessage)
})

const categoryOf = (reason: AgentError.AgentError["reason"]): sessionEvents.Category => {
  switch (reason._tag) {
    case "ModelFailed":
      return reason.retryable ? "unavailable" : "internal"
    case "PreparationFailed":
      return reason.error === "RunContextError" ? "invalid" : "unavailable"
    case "ModelRegistryFailed":
    case "DefinitionChanged":
      return "unavailable"
    case "InvalidDecision":
      return sessionTypes.ofDecision(reason)
    case "ConversationInvalid":
    case "OptionsInvalid":
      return "invalid"
    default:
      return "internal"
  }
}

const interrupted: sessionEvents.Failure = {
  reason: sessionEvents.interrupted,
  category: "conflict",
  message: "the turn was interrupted"
}

const died: sessionEvents.Failure = {
  reason: "Defect",
  category: "internal",
  message: "the turn ended unexpectedly; the log has the error"
}

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
  /** Spans and lines of the log have it, by the name of the conventions. */
  const conversation = { "gen_ai.conversation.id": id }

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
        const isDue = !isDeferred(event) || hasAnswer(current.pending)
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

  /** The part of an error that is stored. The log has the rest. */
  const explain = (cause: Cause.Cause<AgentError.AgentError | sessionTypes.SessionError>) =>
    Effect.gen(function* () {
      const error = Option.getOrUndefined(Cause.findErrorOption(cause))
      const failure = error === undefined ? died : failureOf(error)
      yield* telemetry.logUnexpected(
        `session ${base.quote(id)}: the turn failed with ${failure.reason}: ${failure.message}`,
        error === undefined ? cause : agentReason.bottomOf(error)
      )
      return failure
    })

  /**
   * Records that a turn failed. What it was to take waits for a new event, unless that is what the failure is about: then it
   * is dropped, and the next turn begins without it.
   */
  const failTurn = (error: sessionEvents.Failure, message: Queued | undefined, isOwnFault: boolean) =>
    Effect.gen(function* () {
      if (own.stored === undefined) return
      const { memory } = own.stored
      const at = yield* DateTime.now
      const isStop = error.reason === sessionEvents.interrupted
      const waiting = sessionEvents.waitingDecisions(memory)
      const messageId =
        isStop && message !== undefined && sessionEvents.isStopped(memory, message.messageId)
          ? Option.getOrUndefined(Chunk.head(memory.queue))?.messageId
          : message?.messageId
      const isLeft = messageId !== undefined && sessionEvents.isWaiting(memory, messageId)
      const isDropped = isLeft && isOwnFault
      const areDropped = aboutDecisions.has(error.reason) && Arr.isReadonlyArrayNonEmpty(waiting)
      const isMended = areDropped && (error.reason !== "DefinitionChanged" || sessionEvents.isDenying(memory))
      const isDue = isLeft || (waiting.length > 0 && !areDropped) || error.reason === "AgentUnknown"
      const isHeld = !isStop && !isDropped && !isMended && isDue
      const isTold = isLeft && (isStop || isDropped || isHeld)
      const events: ReadonlyArray<Event> = [
        ...(isDropped ? [{ _tag: "MessageDropped" as const, at, messageId, error }] : []),
        ...(areDropped ? [{ _tag: "DecisionsDropped" as const, at, decisions: waiting, error }] : [])
      ]
      const failed: Event = {
        _tag: "TurnFailed",
        at,
        error,
        ...(isTold && { messageId }),
        ...(isHeld && { isHeld })
      }
      yield* write(Arr.append(events, failed))
    })

  /** Records the end of a run that was stopped before it could do that. */
  const endTurn = (message: Queued | undefined) =>
    Effect.gen(function* () {
      const memory = own.stored?.memory
      const run = memory?.run
      const left = memory !== undefined && sessionEvents.isWaiting(memory, message?.messageId) ? message : undefined
      const isOpen = run !== undefined && (run.outcome === undefined || left !== undefined)
      const ending = isOpen ? yield* Effect.exit(endingOf(run, left)) : Exit.succeed([])
      if (Exit.isSuccess(ending) && Arr.isArrayNonEmpty(ending.value)) return yield* write(ending.value)
      yield* failTurn(interrupted, message, false)
    })

  /** The spans of the calls that wait for their turn, by message. Decisions and `resume` have the key of no message. */
  const callers = new Map<string | undefined, Tracer.AnySpan>()

  /** Puts the spans of a turn into the trace of the call that it answers. */
  const inTrace = <A, E>(turn: Effect.Effect<A, E>, messageId: string | undefined): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      const caller = callers.get(messageId)
      callers.delete(messageId)
      const described = Effect.annotateSpans(turn, conversation)
      return caller === undefined ? described : Effect.withParentSpan(described, caller, { captureStackTrace: false })
    })

  /** Denies the calls that wait, and ends a run that failed with calls open. Returns whether there was one. */
  const cancelCalls: Effect.Effect<boolean, sessionTypes.SessionError> = Effect.gen(function* () {
    const memory = own.stored?.memory
    if (memory?.run === undefined || !hasOpenCalls(memory.run)) return false
    yield* claim(false)
    const decisions = sessionEvents.waitingDecisions(memory)
    const at = yield* DateTime.now
    const dropped: ReadonlyArray<Event> = Arr.isReadonlyArrayNonEmpty(decisions)
      ? [{ _tag: "DecisionsDropped", at, decisions, error: interrupted }]
      : []
    const events = [...dropped, ...(yield* cancelling(memory.run))]
    if (!Arr.isArrayNonEmpty(events)) return true
    if (Chunk.isNonEmpty(memory.queue)) yield* Effect.mapError(host.onBusy(id), fail)
    yield* write(events)
    yield* startTurns
    return true
  })

  /** Runs the agent until its run ends or is stopped. */
  const runAgent = (agent: agentTypes.Agent<unknown>, current: Turn, memory: Memory, message: Queued | undefined) => {
    if (message === undefined) Deferred.doneUnsafe(current.begun, Exit.void)
    const onEvent = keep(current, message?.messageId)
    const isStopped = message !== undefined && sessionEvents.isStopped(memory, message.messageId)
    const ofTurn = {
      ...host.run,
      onEvent,
      // It is recorded, and not answered
      ...(isStopped && { interruptWhen: (event: Run.Event) => (event._tag === "InputAdded" ? {} : undefined) })
    }
    // An interruption keeps what a model had written
    const options = driver.hand(ofTurn, { deadline: undefined, streaming: true })
    const running: Effect.Effect<unknown, AgentError.AgentError> =
      memory.run === undefined
        ? agent.run(message?.input, { ...options, ...defined({ context: message?.context }) })
        : agent.resume(memory.run, {
            ...options,
            ...defined({ input: message?.input }),
            decisions: decisionsFor(memory, memory.run, message)
          })
    const stopped = Effect.raceFirst(inTrace(running, message?.messageId), Deferred.await(current.stop))
    return Effect.map(Effect.exit(stopped), (exit) => ({
      exit,
      message
    }))
  }

  const settleTurn = Effect.fnUntraced(function* (
    current: Turn,
    {
      exit,
      message
    }: {
      readonly exit: Exit.Exit<unknown, AgentError.AgentError | sessionTypes.SessionError>
      readonly message: Queued | undefined
    }
  ) {
    const refusal = refused.get(current)
    const problem = refusal ?? (Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause) ? exit.cause : undefined)
    if (refusal === undefined && current.isMuted) return
    current.pending = []
    if (problem !== undefined) {
      return yield* alone(
        failTurn(yield* explain(problem), message, isFaultOfMessage(problem, current.state === undefined))
      )
    }
    if (!current.isEnded) yield* alone(Effect.suspend(() => (current.isEnded ? Effect.void : endTurn(message))))
    if (Deferred.isDoneUnsafe(current.stop)) current.isCancelled = yield* alone(cancelCalls)
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
    yield* alone(Effect.map(claim(true), () => void (current.isOurs = own.isHeld = true)))
    if (own.stored === undefined || !sessionEvents.hasWork(own.stored.memory)) return
    const message = sessionEvents.nextMessage(own.stored.memory)
    current.state = own.stored.memory.run
    const agent = yield* Effect.exit(agentNamed(own.stored.memory.agent, true))
    if (Exit.isFailure(agent)) return yield* settleTurn(current, { exit: agent, message })
    if (message !== undefined) yield* settleCalls
    const { memory } = own.stored
    current.state = memory.run
    const ran = runAgent(agent.value, current, memory, message)
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
    const described = Effect.annotateLogs(ran, conversation)
    const apart = Effect.updateContext(described, (_: Context.Context<never>) => host.context)
    return Effect.asVoid(Effect.forkIn(apart, turns))
  })

  const reasonOf = (cause: Cause.Cause<sessionTypes.SessionError>): Reason =>
    Option.match(Cause.findErrorOption(cause), {
      onNone: () => ({ _tag: "TurnFailed", failure: died }),
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

  /** With the gate. A write that failed may be stored, so the mark stays then. */
  const settleIdle = Effect.suspend(() => {
    const isDue = own.stored !== undefined && sessionEvents.hasWork(own.stored.memory)
    if (isDue) return startTurns
    return own.failure === undefined ? host.onIdle(id) : Effect.void
  })

  const withMemory = <A>(use: (memory: Memory) => A): Effect.Effect<A, sessionTypes.SessionError> =>
    Effect.suspend(() =>
      own.stored === undefined ? Effect.fail(fail({ _tag: "NotFound" })) : Effect.succeed(use(own.stored.memory))
    )

  const agentNamed = (
    name: string | undefined,
    isStored: boolean
  ): Effect.Effect<agentTypes.Agent<unknown>, sessionTypes.SessionError> => {
    const agent = name === undefined ? undefined : host.agents.get(name)
    const known = Array.from(host.agents.keys())
    return agent === undefined
      ? Effect.fail(fail({ _tag: "AgentUnknown", known, ...defined({ agent: name }), ...(isStored && { isStored }) }))
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
      const [event] = events
      const caller = yield* Effect.option(Effect.currentParentSpan)
      if (Option.isSome(caller))
        callers.set(event._tag === "MessageReceived" ? event.messageId : undefined, caller.value)
      yield* startTurns
    })

  const send: LiveSession["send"] = Effect.fnUntraced(function* (input, options = {}) {
    const messageId = options.messageId ?? (yield* yield* Message.MessageId)
    const { content, digest } = yield* Effect.mapError(sessionMessage.read(messageId, input, options.context), fail)
    return yield* alone(store({ messageId, input: content, digest }, options))
  })

  const store = (
    message: Pick<Extract<Event, { readonly _tag: "MessageReceived" }>, "messageId" | "input" | "digest">,
    options: SendOptions
  ): Effect.Effect<sessionTypes.Receipt, sessionTypes.SessionError> =>
    Effect.gen(function* () {
      yield* refresh
      const { agent: wanted, context, pending, whenBusy } = options
      const found = own.stored?.memory
      const only = host.agents.size === 1 ? Array.from(host.agents.keys())[0] : undefined
      const agent = found?.agent ?? wanted ?? only
      if (found !== undefined && wanted !== undefined && wanted !== found.agent) {
        return yield* fail({ _tag: "AgentDiffers", agent: wanted, found: found.agent })
      }
      const { name } = yield* agentNamed(agent, found !== undefined)
      const { digest, messageId } = message
      const isQueued = found !== undefined && sessionEvents.isWaiting(found, messageId)
      const known =
        found?.received.find((received) => received.messageId === messageId) ??
        (isQueued ? { messageId, digest, sequence: found.sequence } : undefined)
      if (found !== undefined && known !== undefined) {
        return known.digest === digest ? yield* again(found, known) : yield* fail({ _tag: "InputDiffers", messageId })
      }
      if (found !== undefined) {
        const status = statusOf(found, turn !== undefined)
        const waiting =
          Chunk.size(sessionEvents.waitingMessages(found)) + (pending === "deny" ? 0 : takenMessages(found))
        const limit = waiting >= host.maxQueue ? host.maxQueue : undefined
        const isRefused = limit !== undefined || (status === "running" && whenBusy === "reject")
        // Messages that nothing would take otherwise
        if (limit !== undefined && (found.isHeld || status === "idle")) {
          yield* receive([{ _tag: "ResumeReceived", at: yield* DateTime.now }])
        }
        if (isRefused) return yield* fail({ _tag: "Busy", status, ...defined({ limit }) })
      }
      const at = yield* DateTime.now
      // Another process made it
      if (found === undefined && !(yield* own.create(name, at))) return yield* store(message, options)
      const event = { at, agent: name, ...message, ...defined({ context }), ...(pending === "deny" && { pending }) }
      yield* Effect.tapError(receive([{ _tag: "MessageReceived", ...event }]), ({ reason }) =>
        found === undefined && reason._tag === "Refused" ? removeStored : Effect.void
      )
      return receiptOf(messageId, own.stored?.memory.sequence ?? 0)
    })

  const receiptOf = (messageId: string, sequence: number): sessionTypes.Receipt => ({
    messageId,
    sequence,
    cursor: sessionEvents.cursorOf(own.stored?.at.head.life ?? "", sequence)
  })

  /** The receipt of a message that was received before. It is the new event for a message that waits for one. */
  const again = Effect.fnUntraced(function* (memory: Memory, { messageId, sequence }: Memory["received"][number]) {
    if (!sessionEvents.isWaiting(memory, messageId)) return receiptOf(messageId, sequence)
    if (memory.isHeld || sessionEvents.isStopped(memory, messageId)) {
      yield* receive([{ _tag: "ResumeReceived", at: yield* DateTime.now }])
    }
    return receiptOf(messageId, Math.max(sequence, memory.failedAt))
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
        if (first === undefined) {
          // Those that wait for a new event have it with this
          return memory.isHeld ? yield* receive([{ _tag: "ResumeReceived", at: yield* DateTime.now }]) : undefined
        }
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
    const cancelled = Effect.suspend(() => (turn === undefined ? cancelCalls : Effect.undefined))
    if (current === undefined) {
      const looked = alone(Effect.andThen(Effect.andThen(refresh, ensureFree), cancelled))
      return Effect.flatMap(looked, (found) => (found === undefined ? interrupt : Effect.succeed(found)))
    }
    const wasStopped = () => !current.isEnded || current.isCancelled || current.state?.outcome?._tag === "Interrupted"
    // A message that was acknowledged is part of the conversation, also where its turn is stopped at once
    const begun = Effect.timeoutOption(Deferred.await(current.begun), patienceToBegin)
    return Effect.raceFirst(begun, Deferred.await(current.done)).pipe(
      Effect.andThen(Deferred.succeed(current.stop, undefined)),
      Effect.andThen(Deferred.await(current.done)),
      Effect.andThen(ensureAlive),
      Effect.andThen(
        current.isOurs
          ? Effect.map(alone(cancelled), (wasLeft) => wasStopped() || wasLeft === true)
          : Effect.as(alone(Effect.andThen(refresh, ensureFree)), true)
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

  // A drain is interrupted when another process takes the session meanwhile
  yield* Effect.addFinalizer((exit) => Effect.andThen(Effect.exit(drain), Scope.close(turns, exit)))
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
        Effect.map(entriesAfter(after), (entries) => {
          const last = entries.at(-1)
          return [entries, Option.some(last === undefined ? after : sessionEvents.placeOf(last))] as const
        })
      ),
    state: reading(
      Effect.sync(() => Option.map(Option.fromUndefinedOr(own.stored), (stored) => stateOf(stored, turn !== undefined)))
    ),
    history: reading(withMemory(({ run }) => run?.conversation ?? Conversation.empty))
  }
})
