/**
 * The turns of a session in the process that has it. One is under way at a time: it takes the session, runs the agent, stores
 * each event before the run continues, and records how it ended.
 *
 * A turn has two states. Neither moves back.
 *
 * | `progress`  | meaning                                     | moves on when                                        |
 * | ----------- | ------------------------------------------- | ---------------------------------------------------- |
 * | `Claiming`  | another process may have the session        | this process is the owner: `Preparing`               |
 * | `Preparing` | the agent has not taken the message         | it is recorded, or there is none: `Begun`            |
 * | `Begun`     | the agent runs                              | the event `RunFinished` is stored: `Ended`           |
 * | `Ended`     | the end of the run is stored                | calls that waited were denied: `Ended` again         |
 *
 * | `course`    | meaning                                     | moves on when                                        |
 * | ----------- | ------------------------------------------- | ---------------------------------------------------- |
 * | `Free`      | the run continues to its end                | a caller interrupts it: `Stopping`                   |
 * | `Stopping`  | its end is recorded as an interruption      | the session is drained or lost: `Muted`              |
 * | `Muted`     | nothing is recorded; the next owner resumes | a write under way is refused: `Refused`              |
 * | `Refused`   | events could not be written: it failed      |                                                      |
 *
 * A session begins turns while it is `Open`: not while it is removed (`Paused`), nor when this process leaves it (`Closing`).
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { constVoid } from "effect/Function"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import type * as Tracer from "effect/Tracer"
import type * as AgentError from "../../agent/AgentError.ts"
import type * as Run from "../../agent/Run.ts"
import * as agentPartial from "../../agent/internal/agentPartial.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as agentValue from "../../agent/internal/agentValue.ts"
import * as base from "../../payload/internal/base.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ledger from "../../run/internal/ledger.ts"
import type { StepWrite } from "../../run/internal/planRunParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import type * as events from "./events.ts"
import * as fold from "./fold.ts"
import type { Event } from "./events.ts"
import type { SessionState, Queued } from "./fold.ts"
import type { Reason, SessionError } from "./types.ts"
import * as writer from "./writer.ts"
import * as turnEvents from "./turnEvents.ts"

/** `isCancelled`: calls that waited were denied, because the turn was stopped. */
export type Progress =
  | { readonly _tag: "Claiming" }
  | { readonly _tag: "Preparing" }
  | { readonly _tag: "Begun" }
  | { readonly _tag: "Ended"; readonly isCancelled: boolean }

export type Course =
  | { readonly _tag: "Free" }
  | { readonly _tag: "Stopping" }
  | { readonly _tag: "Muted" }
  | { readonly _tag: "Refused"; readonly cause: Cause.Cause<SessionError> }

const progressOrder: Readonly<Record<Progress["_tag"], number>> = { Claiming: 0, Preparing: 1, Begun: 2, Ended: 3 }

const courseOrder: Readonly<Record<Course["_tag"], number>> = { Free: 0, Stopping: 1, Muted: 2, Refused: 3 }

/** The next state of a turn, which is the state before if that is further. */
export const nextProgress = (self: Progress, next: Progress): Progress =>
  progressOrder[next._tag] < progressOrder[self._tag] ? self : next

/** The next course of a turn. The first refusal is kept. */
export const nextCourse = (self: Course, next: Course): Course =>
  courseOrder[next._tag] <= courseOrder[self._tag] ? self : next

/**
 * A turn under way.
 *
 * - `state`: of the run, after the events that are not written. `pending`: these events. `isPartial`: more events were recorded
 *   together with the last of them. `isTimed`: they are written soon. `isWriting`: events that were pending are being written.
 * - `unheard`: entries that the hooks of the host do not have yet. `stop`: the answer of its `interruptWhen`.
 * - `messages`: the ids of the message that it begins with, and of the messages that steered it.
 * - `last`: the number of the event that ended it.
 * - `begun`: set when it has begun. `stopped`: when it is no longer `Free`. `done`: when it has ended.
 * - `toolsEnded`: set when no tool is under way after the session began to close.
 */
export interface Turn {
  progress: Progress
  course: Course
  run: Run.State | undefined
  pending: Array<Event>
  isPartial: boolean
  isTimed: boolean
  isWriting: boolean
  readonly unheard: Array<agentTypes.RecordedEvent>
  stop: agentTypes.Interruption | undefined
  readonly messages: Set<string>
  last: number | undefined
  readonly begun: Deferred.Deferred<void>
  readonly stopped: Deferred.Deferred<void>
  readonly toolsEnded: Deferred.Deferred<void>
  readonly done: Deferred.Deferred<void>
}

export const makeTurn = (run: Run.State | undefined): Turn => ({
  progress: { _tag: "Claiming" },
  course: { _tag: "Free" },
  run,
  pending: [],
  isPartial: false,
  isTimed: false,
  isWriting: false,
  unheard: [],
  stop: undefined,
  messages: new Set(),
  last: undefined,
  begun: Deferred.makeUnsafe(),
  stopped: Deferred.makeUnsafe(),
  toolsEnded: Deferred.makeUnsafe(),
  done: Deferred.makeUnsafe()
})

const advance = (turn: Turn, next: Progress): void => {
  turn.progress = nextProgress(turn.progress, next)
  if (next._tag === "Begun") Deferred.doneUnsafe(turn.begun, Exit.void)
}

/** Ends a turn before its run has ended. */
export const halt = (turn: Turn, course: Course): void => {
  turn.course = nextCourse(turn.course, course)
  Deferred.doneUnsafe(turn.stopped, Exit.void)
}

/** True if nothing more of the run is recorded. */
const isMuted = ({ course }: Turn): boolean => course._tag === "Muted" || course._tag === "Refused"

/** True if this process had the session for it. */
export const isOurs = ({ progress }: Turn): boolean => progress._tag !== "Claiming"

/** True for a turn that the next owner of the session resumes. */
export const isLeft = ({ course, progress }: Turn): boolean => course._tag === "Muted" && progress._tag !== "Ended"

/** True if an interruption was the end of a turn, or of calls that waited at its end. */
export const wasInterrupted = ({ progress, run }: Turn): boolean =>
  progress._tag !== "Ended" || progress.isCancelled || run?.outcome?._tag === "Interrupted"

/**
 * A session in the process that has it: the record of its writer, and its turns. One turn is under way at a time.
 *
 * - `current`: the turn under way.
 * - `unable`: why the last turn could not even be recorded.
 * - `pauses`: the number of calls under way in which no turn is to begin.
 * - `isClosing`: no turn begins any more.
 * - `callers`: the spans of the calls that wait for their turn, by message. Decisions and `resume` have the key of no message.
 */
export interface LiveSession extends writer.Writer {
  readonly callers: Map<string | undefined, Tracer.AnySpan>
  current: Turn | undefined
  unable: SessionError | undefined
  pauses: number
  isClosing: boolean
}

/** Opens a session, and drains it at the end of the scope. */
export const make = Effect.fnUntraced(function* (
  host: writer.Host,
  id: string
): Effect.fn.Return<LiveSession, SessionError, Scope.Scope> {
  const scope = yield* Scope.make()
  const onLost = () => {
    if (self.current !== undefined) halt(self.current, { _tag: "Muted" })
  }
  const self: LiveSession = {
    ...(yield* writer.make(host, id, scope, onLost)),
    callers: new Map(),
    current: undefined,
    unable: undefined,
    pauses: 0,
    isClosing: false
  }
  // A drain is interrupted when another process takes the session meanwhile
  yield* Effect.addFinalizer((exit) => Effect.andThen(Effect.exit(drain(self)), Scope.close(scope, exit)))
  return self
})

/** Spans and lines of the log have it, by the name of the conventions. */
const conversation = ({ id }: LiveSession) => ({ "gen_ai.conversation.id": id })

export const agentNamed = (
  self: LiveSession,
  name: string | undefined,
  isStored: boolean
): Effect.Effect<agentTypes.Agent<unknown>, SessionError> => {
  const agent = name === undefined ? undefined : self.host.agents.get(name)
  return agent === undefined ? Effect.fail(unknownAgent(self, name, isStored)) : Effect.succeed(agent)
}

const unknownAgent = ({ fail, host }: LiveSession, name: string | undefined, isStored: boolean): SessionError => {
  const known = Array.from(host.agents.keys())
  return fail({ _tag: "AgentUnknown", known, ...defined({ agent: name }), ...(isStored && { isStored }) })
}

/** The messages that the turn has taken, while that is not stored. */
export const takenMessages = ({ current }: LiveSession): ReadonlyArray<string> =>
  turnEvents.takenIn(current?.pending ?? [])

/** The agent of a session: made from its definition, or hosted by the layer. */
export const agentOf = (self: LiveSession, state: SessionState, definition = state.definition) =>
  definition === undefined
    ? agentNamed(self, state.agent, true)
    : self.host.definitions.stored(definition).pipe(writer.untilStored(self.host), Effect.mapError(self.fail))

/**
 * The reason why a turn that is due is not begun here: another process hosts the agent. The turn is left as it is, so that it
 * continues there.
 */
export const leftToOthers = (self: LiveSession): SessionError | undefined => {
  const { current, host } = self
  if (self.stored === undefined || current !== undefined || !writer.hasWork(self)) return undefined
  const { state } = self.stored
  const isData = (fold.nextMessage(state)?.definition ?? state.definition) !== undefined
  const isHosted = isData ? host.definitions.areHosted : host.agents.has(state.agent)
  return isHosted ? undefined : unknownAgent(self, state.agent, true)
}

/** Runs turns while there are some. While calls pause the session, `evenPaused` alone begins one. */
export const start = (self: LiveSession, evenPaused = false): Effect.Effect<void> =>
  Effect.suspend(() => {
    const isFree = self.current === undefined && !self.isClosing && self.failure === undefined
    if (!isFree || (self.pauses > 0 && !evenPaused) || !writer.hasWork(self) || leftToOthers(self) !== undefined)
      return Effect.void
    self.unable = undefined
    const turn = makeTurn(self.stored?.state.run)
    self.current = turn
    const described = Effect.annotateLogs(conduct(self, turn), conversation(self))
    const apart = Effect.updateContext(described, (_: Context.Context<never>) => self.host.context)
    return Effect.andThen(Effect.forkIn(apart, self.scope), self.host.onTurn(self.id))
  })

/** A turn, and the next one after it. */
const conduct = Effect.fnUntraced(function* (self: LiveSession, turn: Turn) {
  const exit = yield* Effect.exit(runTurn(self, turn))
  self.current = undefined
  self.host.drafts.clear()
  self.hasTurn = false
  Deferred.doneUnsafe(turn.done, Exit.void)
  const isElsewhere = Exit.isFailure(exit) && reasonOf(exit.cause)._tag === "Elsewhere"
  if (Exit.isFailure(exit) && !isElsewhere) self.unable = self.fail(reasonOf(exit.cause))
  self.feed.notify()
  if (Exit.isSuccess(exit)) return yield* Effect.ignore(writer.alone(self, rest(self)))
  if (Cause.hasInterruptsOnly(exit.cause) || self.failure !== undefined) return
  if (isElsewhere) return yield* takeUp(self)
  yield* Effect.logWarning(`session ${self.id}: no turn was run`, exit.cause)
})

const reasonOf = (cause: Cause.Cause<SessionError>): Reason =>
  Option.match(Cause.findErrorOption(cause), {
    onNone: () => ({ _tag: "TurnFailed", failure: turnEvents.died }),
    onSome: ({ reason }) => reason
  })

/** With the gate: begins the next turn, or is idle. A write that failed may be stored, so the mark stays then. */
export const rest = (self: LiveSession): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (writer.hasWork(self)) return start(self)
    return Effect.flatMap(settle(self), (isSettled) =>
      isSettled || self.failure !== undefined ? Effect.void : self.host.onIdle(self.id)
    )
  })

/** With the gate, and when the session is opened: stores the decisions that follow from what is stored. Returns whether a turn takes some. */
export const settle = (self: LiveSession): Effect.Effect<boolean> =>
  Effect.gen(function* () {
    const at = yield* DateTime.now
    if (self.stored === undefined) return false
    const due = fold.dueDecisions(self.stored.state, at)
    const end = fold.expiryOf(self.stored.state)
    if (end !== undefined && DateTime.isGreaterThan(end, at)) {
      const again = writer.alone(
        self,
        Effect.andThen(
          writer.refresh(self),
          Effect.suspend(() => settle(self))
        )
      )
      yield* Effect.forkIn(Effect.delay(Effect.ignore(again), DateTime.distance(at, end)), self.scope)
    }
    if (!Arr.isReadonlyArrayNonEmpty(due)) return false
    yield* self.host.onBusy(self.id)
    yield* writer.write(self, [{ _tag: "DecisionsReceived", at, decisions: due }])
    yield* start(self)
    return true
  }).pipe(Effect.orElseSucceed(() => false))

const shortestPoll = Duration.millis(20)

/** The process with the lease ends the turn, or dies and leaves it. */
const takeUp = Effect.fnUntraced(function* (self: LiveSession): Effect.fn.Return<void> {
  const lease = self.stored?.at.head.lease
  const now = yield* DateTime.now
  const left = lease === undefined ? writer.pollInterval : DateTime.distance(now, lease)
  yield* Effect.sleep(Duration.clamp(left, { minimum: shortestPoll, maximum: writer.pollInterval }))
  yield* Effect.ignore(writer.alone(self, writer.refresh(self)))
  self.feed.notify()
  yield* start(self)
})

const runTurn = Effect.fnUntraced(function* (self: LiveSession, turn: Turn) {
  const { host } = self
  const message = yield* writer.alone(
    self,
    Effect.map(writer.claim(self, true), () => {
      advance(turn, { _tag: "Preparing" })
      self.hasTurn = true
      const state = self.stored?.state
      const message = state && fold.nextMessage(state)
      turn.run = state?.run
      // With the gate: an edit that comes now stops the turn
      if (message !== undefined) turn.messages.add(message.messageId)
      return message
    })
  )
  if (self.stored === undefined || !writer.hasWork(self)) return
  const agent = yield* Effect.exit(agentOf(self, self.stored.state, message?.definition))
  if (Exit.isFailure(agent)) return yield* recordOutcome(self, turn, agent, message)
  if (message !== undefined) yield* settleCalls(self, message)
  const { state } = self.stored
  turn.run = state.run
  const total = yield* timeFor(self, state, message)
  const ran = runUntilStopped(self, turn, agent.value, state, message, total)
  const exit = yield* host.isExclusive ? ran : Effect.raceFirst(ran, writer.renewed(self))
  yield* recordOutcome(self, turn, exit, message)
})

/** Before a message is taken: calls that the turn before has left do not run. */
const settleCalls = (self: LiveSession, message: Queued) =>
  Effect.suspend(() => {
    const run = self.stored?.state.run
    if (run === undefined) return Effect.void
    return Effect.flatMap(turnEvents.settlingOf(run, message), (settling) =>
      settling !== undefined && Arr.isArrayNonEmpty(settling.events)
        ? writer.alone(self, writer.write(self, settling.events, settling.run))
        : Effect.void
    )
  })

/** The conversation that a run begins with. One without a system message gets the instructions of the agent. */
const beginning = ({
  conversation,
  isInstructed
}: SessionState): Pick<agentTypes.Options, "conversation" | "instructions"> =>
  conversation === undefined ? {} : { conversation, instructions: isInstructed ? "keep" : "replace" }

/** The time that a turn may take: the limit of the host, or what is left of the limit of its message. */
const timeFor = Effect.fnUntraced(function* (
  { host }: LiveSession,
  { timeout }: SessionState,
  message: Queued | undefined
) {
  const now = yield* DateTime.now
  const leftOf = ({ millis, since }: Exclude<typeof timeout, undefined>) =>
    Math.max(0, millis - Duration.toMillis(DateTime.distance(since, now)))
  const left = message === undefined ? timeout && leftOf(timeout) : message.timeout
  const total = host.run?.timeouts?.total
  if (left === undefined || total === undefined) return left ?? total
  return Duration.min(Duration.millis(left), Duration.fromInputUnsafe(total))
})

/** The budget of a turn: the budget of the host, within the budget of its message. */
const budgetFor = (ofHost: ledger.Budget | undefined, message: Queued | undefined): ledger.Budget | undefined =>
  message?.budget === undefined
    ? ofHost
    : ledger.budgetOf(ledger.within(message.budget, ofHost && ledger.limitsOf(ofHost)))

/** Runs the agent until its run ends or is stopped. */
const runUntilStopped = (
  self: LiveSession,
  turn: Turn,
  agent: agentTypes.Agent<unknown>,
  state: SessionState,
  message: Queued | undefined,
  total: Duration.Input | undefined
) => {
  if (message === undefined) {
    advance(turn, { _tag: "Begun" })
    self.host.drafts.begin(fold.newestInput(state))
  }
  const isStopped = message !== undefined && fold.isStopped(state, message.messageId)
  // The context of the host is the context of its messages
  const { budget, context: _, interruptWhen, ...ofHost } = self.host.run ?? {}
  // A turn that continues after a crash, or with a decision, has what is left
  const isNew = message !== undefined || state.run === undefined || state.isResumed
  // A message that was stopped is recorded, and not answered
  const stopWhen = (event: Run.Event) => (isStopped && event._tag === "InputAdded" ? {} : turn.stop)
  const ofTurn = {
    ...ofHost,
    timeouts: { ...ofHost.timeouts, total },
    ...(isNew && { budget: budgetFor(budget, message) }),
    onEvent: keep(self, turn),
    ...((isStopped || interruptWhen !== undefined) && { interruptWhen: stopWhen })
  }
  const { run } = state
  const context = run === undefined ? message?.context : message && fold.contextOf(message)
  const options = {
    ...ofTurn,
    ...(run === undefined ? beginning(state) : { decisions: turnEvents.decisionsFor(state, run, message) }),
    ...defined({ context })
  }
  const { result: running } = agentValue.open(
    agent,
    {
      state: run,
      input: message?.input,
      options,
      // An interruption keeps what a model had written. Live readers see it; events are shown when they are stored
      streaming: true,
      isPart: true,
      model: message === undefined ? state.model : message.model,
      message: message && fold.optionsOf(message),
      instructions: state.isInstructed ? "first" : self.host.instructions,
      steering: steeringOf(self, turn, fold.partsOfTurn(state, message)),
      write: writeStep(self, turn),
      budgets: self.host.budgets
    },
    { log: { add: constVoid, show: (delta) => self.host.drafts.add(delta, storedBefore(self, turn)) } }
  )
  const storing = Effect.suspend(() => (turn.isPartial ? Effect.void : flushFirst(self, turn, turnEvents.shown)))
  self.host.drafts.open(writer.userOf(self).life, storing)
  // A process that was stopped after its last write may no longer have the session
  const verified = Effect.andThen(Effect.ignore(writer.verify(self)), () =>
    isMuted(turn) ? Effect.never : Effect.void
  )
  const guarded = Effect.provideService(running, toolCall.BeforeCall, verified).pipe(
    Effect.provideService(runRequests.AroundSession, {
      remembered: (at) => (self.stored === undefined ? [] : fold.rememberedAt(self.stored.state, at)),
      expiresAfter: self.host.expiresAfter
    }),
    Effect.updateContext(agentPartial.shownIn<never>)
  )
  return Effect.exit(Effect.raceFirst(inTrace(self, guarded, message?.messageId), Deferred.await(turn.stopped)))
}

/** The number of the newest event, `undefined` while readers may miss some before it. */
const storedBefore = (self: LiveSession, turn: Turn): number | undefined =>
  turn.isWriting || turnEvents.shown(turn.pending).length > 0 ? undefined : writer.sequenceOf(self)

/** Takes the messages that steer the turn. With the gate: a message that is withdrawn or edited now does not enter. */
const steeringOf = (self: LiveSession, turn: Turn, parts: fold.PartsOfTurn) => {
  const found = () =>
    self.stored === undefined || turn.course._tag !== "Free"
      ? []
      : fold.steering(self.stored.state, parts).filter(({ messageId }) => !turn.messages.has(messageId))
  const taken = Effect.map(Clock.currentTimeMillis, (now) =>
    found().map((message) => {
      const { input, messageId, timeout } = message
      turn.messages.add(messageId)
      self.callers.delete(messageId)
      return { input, message: fold.optionsOf(message), deadline: timeout === undefined ? undefined : now + timeout }
    })
  )
  return Effect.suspend(() =>
    found().length === 0
      ? Effect.succeed([])
      : // Without the session nothing of the turn is stored
        Effect.orElseSucceed(writer.alone(self, taken), () => [])
  )
}

/** Puts the spans of a turn into the trace of the call that it answers. */
const inTrace = <A, E>(
  self: LiveSession,
  turn: Effect.Effect<A, E>,
  messageId: string | undefined
): Effect.Effect<A, E> =>
  Effect.suspend(() => {
    const caller = self.callers.get(messageId)
    self.callers.delete(messageId)
    const described = Effect.annotateSpans(turn, conversation(self))
    return caller === undefined ? described : Effect.withParentSpan(described, caller, { captureStackTrace: false })
  })

/** The hook of the run: an event is stored before the run continues, and before the hooks of the host have it. */
export const keep =
  (self: LiveSession, turn: Turn) =>
  (entry: agentTypes.RecordedEvent): Effect.Effect<void> =>
    Effect.suspend(() => {
      const { event, more, state: run } = entry
      if (isMuted(turn)) return turnEvents.isEnding(event) ? Effect.void : Effect.never
      const messageId = event._tag === "InputAdded" ? event.message.id : undefined
      if (messageId !== undefined) self.host.drafts.begin(messageId)
      const hadAnswer = turnEvents.hasAnswer(turn.pending)
      turn.pending.push({ _tag: "RunEvent", event, ...defined({ messageId }) })
      turn.run = run
      const { interruptWhen, onEvent } = self.host.run ?? {}
      const isHeard = onEvent !== undefined || interruptWhen !== undefined
      if (isHeard) turn.unheard.push(entry)
      // Events that were recorded together are in the store together, or none of them is
      turn.isPartial = more
      if (more) return Effect.void
      const isDue = isHeard || hadAnswer || turnEvents.areDue(turn.pending, run)
      const written = isDue ? flush(self, turn) : flushSoon(self, turn)
      const verified = turnEvents.isStart(event) ? Effect.andThen(written, Effect.ignore(writer.verify(self))) : written
      return Effect.andThen(verified, () => {
        if (event._tag === "InputAdded") advance(turn, { _tag: "Begun" })
        if (isMuted(turn)) return Effect.never
        return isHeard
          ? Effect.andThen(tellHost(self, turn), () => mayContinue(self, turn, entry))
          : mayContinue(self, turn, entry)
      })
    })

/** A turn of a session that closes continues only until its tools have finished. */
const mayContinue = (
  self: LiveSession,
  turn: Turn,
  { event, state: run }: agentTypes.RecordedEvent
): Effect.Effect<void> => {
  if (!self.isClosing || turnEvents.hasStartedTool(run)) return Effect.void
  Deferred.doneUnsafe(turn.toolsEnded, Exit.void)
  return turnEvents.isEnding(event) && run.outcome !== undefined ? Effect.void : Effect.never
}

/** Passes stored entries to the hooks of the host. A hook that fails fails the turn, unless that has ended. */
const tellHost = ({ host, id }: LiveSession, turn: Turn): Effect.Effect<void> => {
  const { interruptWhen, onEvent } = host.run ?? {}
  const told = Effect.gen(function* () {
    for (const entry of turn.unheard.splice(0)) {
      if (onEvent !== undefined) yield* onEvent(entry, id)
      if (turn.stop !== undefined || interruptWhen === undefined) continue
      const answer = interruptWhen(entry.event, entry.state, id)
      turn.stop = Effect.isEffect(answer) ? yield* answer : answer
    }
  })
  return Effect.catchCause(told, (cause) =>
    turn.progress._tag === "Ended" && !Cause.hasInterruptsOnly(cause)
      ? telemetry.logUnexpected(`session ${base.quote(id)}: a hook failed after the turn had ended`, cause)
      : Effect.failCause(cause)
  )
}

/** With the gate: writes the events that are not written, or the first of them. */
const writePending = (
  self: LiveSession,
  turn: Turn,
  events: ReadonlyArray<Event> = turn.pending
): Effect.Effect<void, SessionError> =>
  Effect.suspend(() => {
    turn.pending = turn.pending.slice(events.length)
    if (!Arr.isReadonlyArrayNonEmpty(events) || isMuted(turn)) return Effect.void
    const isEnd = events.some((event) => event._tag === "RunEvent" && event.event._tag === "RunFinished")
    const run = turn.pending.length === 0 ? turn.run : undefined
    turn.isWriting = true
    // With the gate: a reader of the end may interrupt the turn before this returns
    return Effect.map(writer.write(self, events, run), () => {
      turn.isWriting = false
      const sequence = storedBefore(self, turn)
      if (sequence !== undefined) self.host.drafts.settled(sequence)
      if (!isEnd) return
      turn.last = writer.sequenceOf(self)
      advance(turn, { _tag: "Ended", isCancelled: false })
    })
  })

/** A failed write stops the turn. */
const store = (self: LiveSession, turn: Turn, write: Effect.Effect<void, SessionError>): Effect.Effect<void> =>
  Effect.catchCause(writer.alone(self, write), (cause) =>
    // A value cannot be stored while the session can: it is beyond the limits, for example
    Effect.sync(() => halt(turn, self.failure === undefined ? { _tag: "Refused", cause } : { _tag: "Muted" }))
  )

const flush = (self: LiveSession, turn: Turn): Effect.Effect<void> =>
  store(
    self,
    turn,
    Effect.suspend(() => writePending(self, turn))
  )

/** Writes the first of the events that are not written, if there are some that are chosen. */
const flushFirst = (
  self: LiveSession,
  turn: Turn,
  choose: (events: ReadonlyArray<Event>) => ReadonlyArray<Event>
): Effect.Effect<void> =>
  Effect.suspend(() =>
    choose(turn.pending).length === 0
      ? Effect.void
      : store(
          self,
          turn,
          Effect.suspend(() => writePending(self, turn, choose(turn.pending)))
        )
  )

const flushSoon = (self: LiveSession, turn: Turn): Effect.Effect<void> =>
  Effect.suspend(() => {
    if (turn.isTimed || turnEvents.shown(turn.pending).length === 0) return Effect.void
    turn.isTimed = true
    const waited: Effect.Effect<void> = Effect.andThen(Effect.sleep(turnEvents.soon), () => {
      if (turn.isPartial) return waited
      turn.isTimed = false
      return flushFirst(self, turn, turnEvents.shown)
    })
    return Effect.asVoid(Effect.forkIn(waited, self.scope))
  })

/** Stores the value of a step after the events of the step. With the gate, so that the turn does not end before it. */
const writeStep =
  (self: LiveSession, turn: Turn) =>
  (write: StepWrite): Effect.Effect<void> => {
    const pending = Effect.suspend(() => writePending(self, turn))
    const written = Effect.andThen(pending, () => (isMuted(turn) ? Effect.void : writer.writeStep(self, write)))
    return Effect.andThen(store(self, turn, written), () => (isMuted(turn) ? Effect.never : Effect.void))
  }

/** Records how a turn ended. */
const recordOutcome = Effect.fnUntraced(function* (
  self: LiveSession,
  turn: Turn,
  exit: Exit.Exit<unknown, AgentError.AgentError | SessionError>,
  message: Queued | undefined
) {
  /** With the gate: writes events whose last event is the end, and returns whether they were written. */
  const ending = (written: Effect.Effect<boolean, SessionError>) =>
    writer.alone(
      self,
      Effect.tap(written, (isWritten) => Effect.sync(() => isWritten && (turn.last = writer.sequenceOf(self))))
    )
  const isLost = () => turn.course._tag === "Muted"
  // Write the `InputAdded` event, so that a failed turn owns its message
  if (!isLost()) yield* flushFirst(self, turn, turnEvents.urgent)
  if (isLost()) return
  const failed = Exit.isFailure(exit) && !Cause.hasInterruptsOnly(exit.cause) ? exit.cause : undefined
  const problem = turn.course._tag === "Refused" ? turn.course.cause : failed
  turn.pending = []
  if (problem !== undefined) {
    const failure = yield* explain(self, problem)
    const isFaultOfMessage = turnEvents.isFaultOfMessage(problem)
    return yield* Effect.asVoid(ending(Effect.as(recordFailure(self, failure, message, isFaultOfMessage), true)))
  }
  const isEnded = () => turn.progress._tag === "Ended"
  const recorded = Effect.suspend(() => (isEnded() ? Effect.succeed(false) : Effect.as(recordEnd(self, message), true)))
  if (!isEnded()) yield* ending(recorded)
  if (Deferred.isDoneUnsafe(turn.stopped)) {
    const isCancelled = yield* ending(cancelCalls(self))
    if (isEnded()) advance(turn, { _tag: "Ended", isCancelled })
  }
})

/** The part of an error that is stored. The log has the rest. */
const explain = Effect.fnUntraced(function* (
  { id }: LiveSession,
  cause: Cause.Cause<AgentError.AgentError | SessionError>
) {
  const error = Option.getOrUndefined(Cause.findErrorOption(cause))
  const failure = error === undefined ? turnEvents.died : turnEvents.failureOf(error)
  yield* telemetry.logUnexpected(
    `session ${base.quote(id)}: the turn failed with ${failure.reason}: ${failure.message}`,
    error === undefined ? cause : agentReason.bottomOf(error)
  )
  return failure
})

const recordFailure = Effect.fnUntraced(function* (
  self: LiveSession,
  failure: events.Failure,
  message: Queued | undefined,
  isFaultOfMessage: boolean
) {
  if (self.stored === undefined) return
  const at = yield* DateTime.now
  yield* writer.write(self, turnEvents.failing(self.stored.state, at, failure, message, isFaultOfMessage))
})

/** Records the end of a run that was stopped before it could do that. */
export const recordEnd = Effect.fnUntraced(function* (self: LiveSession, message: Queued | undefined) {
  const state = self.stored?.state
  const run = state?.run
  const left = state !== undefined && fold.isWaiting(state, message?.messageId) ? message : undefined
  const isOpen = run !== undefined && (run.outcome === undefined || left !== undefined)
  const ending = isOpen ? Exit.getSuccess(yield* Effect.exit(turnEvents.endingOf(run, left))) : Option.none()
  if (Option.isSome(ending) && Arr.isArrayNonEmpty(ending.value.events)) {
    return yield* writer.write(self, ending.value.events, ending.value.run)
  }
  yield* recordFailure(self, turnEvents.interrupted, message, false)
})

/** With the gate: denies the calls that wait, and ends a run that failed with calls open. Returns whether there was one. */
export const cancelCalls = Effect.fnUntraced(function* (self: LiveSession): Effect.fn.Return<boolean, SessionError> {
  const { host, id } = self
  const state = self.stored?.state
  if (state?.run === undefined || !turnEvents.hasOpenCalls(state.run)) return false
  yield* writer.ensureFree(self)
  const decisions = fold.waitingDecisions(state)
  const at = yield* DateTime.now
  const dropped: ReadonlyArray<Event> = Arr.isReadonlyArrayNonEmpty(decisions)
    ? [{ _tag: "DecisionsDropped", at, decisions, error: turnEvents.interrupted }]
    : []
  const cancelling = yield* turnEvents.cancelling(state.run)
  const events = [...dropped, ...cancelling.events]
  if (!Arr.isArrayNonEmpty(events)) return true
  if (Chunk.isNonEmpty(state.queue)) yield* Effect.mapError(host.onBusy(id), self.fail)
  yield* writer.write(self, events, cancelling.run)
  yield* start(self)
  return true
})

/**
 * Takes the session, and begins a turn that is due. A session that another process has is waited for. Fails, and takes nothing,
 * where the agent is not hosted here.
 */
export const take = (self: LiveSession): Effect.Effect<void, SessionError> => {
  const claimed = Effect.suspend(() => {
    const error = leftToOthers(self)
    if (error !== undefined) return Effect.fail(error)
    return Effect.catchIf(
      writer.claim(self, false),
      ({ reason }) => reason._tag === "Elsewhere" && self.failure === undefined,
      () => Effect.void
    )
  })
  return Effect.andThen(writer.alone(self, Effect.andThen(writer.refresh(self), claimed)), start(self))
}

/** Ends the turn between two events, without recording an interruption. Nothing starts any more. */
export const drain = (self: LiveSession): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { current, host } = self
    if (self.isClosing) return current === undefined ? Effect.void : Deferred.await(current.done)
    self.isClosing = true
    const ended = current === undefined ? Effect.void : leave(self, current)
    // A store that does not answer
    return Effect.andThen(
      ended,
      Effect.timeoutOption(Effect.ignore(writer.alone(self, writer.release(self))), host.drainTime)
    )
  })

/** Lets the tools of a turn finish for a while, and ends it. */
const leave = (self: LiveSession, turn: Turn) => {
  const { host } = self
  const hasNoTool = turn.run === undefined || !turnEvents.hasStartedTool(turn.run)
  const toolsEnded = hasNoTool ? Effect.void : Effect.timeoutOption(Deferred.await(turn.toolsEnded), host.drainTime)
  const isPaid = () => turnEvents.hasAnswer(turn.pending)
  const kept = Effect.suspend(() =>
    isPaid() ? Effect.timeoutOption(flushFirst(self, turn, turnEvents.urgent), host.drainTime) : Effect.void
  )
  return Effect.raceFirst(toolsEnded, Deferred.await(turn.done)).pipe(
    Effect.andThen(kept),
    Effect.andThen(() => {
      halt(turn, { _tag: "Muted" })
      return Deferred.await(turn.done)
    })
  )
}
