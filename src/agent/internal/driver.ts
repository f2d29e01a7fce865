/**
 * The driver of runs, and the agent on it. The driver records events, performs the actions of a machine until its run has an
 * outcome, stops a run at its deadline or on request, and passes depth and deadline to runs inside. Plans are machines, too.
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import type { Problem } from "../../payload/PayloadError.ts"
import { defined } from "../../payload/internal/plainJson.ts"
import type { ToolResult } from "../../tool/ToolResult.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as AgentError from "../AgentError.ts"
import * as agentReason from "./agentReason.ts"
import type * as agentTypes from "./agentTypes.ts"
import type * as runParts from "./runParts.ts"
import * as runTransition from "./runTransition.ts"

/**
 * One kind of run. `State` is the state of a run, `Action` its next task, `E` the error that ends the process of running.
 *
 * - `next`: the next action of a run without an outcome.
 * - `ends`: whether the action ends the run. No deadline applies to it.
 * - `perform`: performs an action and records its events, until `deadline` (milliseconds of the Clock) at most.
 * - `interrupt`: ends the run as interrupted, unless it has ended.
 * - `stepTimeout`: the limit of the step that begins with this action. The actions after it belong to the step.
 */
export interface Machine<State, Action, E> {
  readonly next: (state: State) => Action
  readonly ends: (action: Action) => boolean
  readonly perform: (action: Action, deadline: number | undefined) => Effect.Effect<void, E>
  readonly interrupt: (reason: string | undefined) => Effect.Effect<void, E>
  readonly stepTimeout?: ((action: Action) => Duration.Input | undefined) | undefined
}

/**
 * The events of one run under way: applied, then journaled, then emitted.
 *
 * - `state`: the newest state.
 * - `interruption`: the reason to stop, once there is one.
 * - `begin`: announces the event that made the first state.
 * - `record`: applies events and journals them together with deferred ones. Without events it journals the deferred ones.
 * - `defer`: applies an event that is journaled together with the next ones.
 * - `stop`: stops the run before its next action. The first reason counts; `stopped` waits for it.
 * - `close`: nothing is emitted from here on, because the run is being torn down.
 */
export interface Recorder<State, Event, View, E = never> {
  readonly state: State
  readonly interruption: agentTypes.Interruption | undefined
  readonly begin: Effect.Effect<void, E>
  readonly record: (...events: ReadonlyArray<Event>) => Effect.Effect<void, E>
  readonly defer: (event: Event) => Effect.Effect<void, E>
  readonly emit: (view: View) => Effect.Effect<void>
  readonly stop: (interruption: agentTypes.Interruption) => Effect.Effect<void>
  readonly stopped: Effect.Effect<agentTypes.Interruption>
  readonly close: () => void
}

/**
 * The parts of a recorder.
 *
 * - `first`: the event that made `state`, for a run that begins.
 * - `apply`: the state after one more event. An event that does not fit is a bug of the machine.
 * - `views`: the events for watchers that a recorded event makes.
 * - `journal`: receives the events since the last write, with the newest state. Its views follow those of the events.
 * - `after`: runs for each event after its views were emitted. Runs that are `ordered` have none.
 * - `ordered`: events are applied and journaled one batch at a time. A batch that has begun is not interrupted, and after
 *   one that failed no other begins. Otherwise `record` applies events and calls the journal before it returns its Effect:
 *   a run then has every event of the runs inside it, also when all of them are interrupted.
 */
export interface RecorderOptions<State, Event, View, E> {
  readonly state: State
  readonly first: Event | undefined
  readonly apply: (state: State, event: Event) => Result.Result<State, unknown>
  readonly views: (before: State, event: Event, after: State) => ReadonlyArray<View>
  readonly emit: (view: View) => Effect.Effect<void>
  readonly journal?: Journal<State, Event, View, E> | undefined
  readonly after?: ((event: Event, state: State) => Effect.Effect<void>) | undefined
  readonly ordered?: boolean | undefined
}

type Journal<State, Event, View, E> = (
  events: Arr.NonEmptyReadonlyArray<Event>,
  state: State
) => Effect.Effect<ReadonlyArray<View>, E>

export const makeRecorder = <State, Event, View, E = never>(
  options: RecorderOptions<State, Event, View, E>
): Recorder<State, Event, View, E> => {
  const { after, emit, first, journal, views } = options
  const stopped = Deferred.makeUnsafe<agentTypes.Interruption>()
  const batch: Batch<E> = options.ordered === true ? oneAtATime() : (commit) => commit()
  let unwritten: ReadonlyArray<Event> = first === undefined ? [] : [first]
  let closed = false

  const write = (): Effect.Effect<ReadonlyArray<View>, E> => {
    const events = unwritten
    unwritten = []
    return journal === undefined || !Arr.isReadonlyArrayNonEmpty(events)
      ? Effect.succeed([])
      : journal(events, recorder.state)
  }

  const announce = (shown: ReadonlyArray<View>, events: ReadonlyArray<Event>, current: State): Effect.Effect<void> => {
    if (closed) return Effect.void
    const emitted = Effect.forEach(shown, emit, { discard: true })
    if (options.ordered === true) return emitUnlessInterrupted(emitted)
    return after === undefined
      ? emitted
      : Effect.andThen(
          emitted,
          Effect.forEach(events, (event) => after(event, current), { discard: true })
        )
  }

  const commit = (events: ReadonlyArray<Event>, writes: boolean): Effect.Effect<void, E> => {
    const shown: Array<View> = []
    for (const event of events) {
      const applied = options.apply(recorder.state, event)
      if (Result.isFailure(applied)) return Effect.die(applied.failure)
      shown.push(...views(recorder.state, event, applied.success))
      recorder.state = applied.success
    }
    unwritten = [...unwritten, ...events]
    const current = recorder.state
    return Effect.flatMap(writes ? write() : Effect.succeed([]), (written) =>
      announce([...shown, ...written], events, current)
    )
  }

  const recorder: Types.Mutable<Recorder<State, Event, View, E>> = {
    state: options.state,
    interruption: undefined,
    begin: Effect.suspend(() =>
      batch(() => {
        const events = unwritten
        const { state } = recorder
        const shown = events.flatMap((event) => views(state, event, state))
        return Effect.flatMap(write(), (written) => announce([...shown, ...written], events, state))
      })
    ),
    record: (...events) => batch(() => commit(events, true)),
    defer: (event) => batch(() => commit([event], false)),
    emit,
    stop: (reason) => {
      recorder.interruption ??= reason
      return Effect.asVoid(Deferred.succeed(stopped, recorder.interruption))
    },
    stopped: Deferred.await(stopped),
    close: () => {
      closed = true
    }
  }
  return recorder
}

type Batch<E> = (commit: () => Effect.Effect<void, E>) => Effect.Effect<void, E>

const oneAtATime = <E>(): Batch<E> => {
  const lock = Semaphore.makeUnsafe(1)
  let failed: Effect.Effect<void, E> | undefined
  const commitOnce = (commit: () => Effect.Effect<void, E>) =>
    Effect.tapCause(commit(), (cause) =>
      Effect.sync(() => {
        failed = Effect.failCause(cause)
      })
    )
  return (commit) => Effect.uninterruptible(lock.withPermit(Effect.suspend(() => failed ?? commitOnce(commit))))
}

/** A slow reader may be left at any time; what was applied and written stays. */
const emitUnlessInterrupted = (emitted: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.asVoid(Effect.exit(Effect.interruptible(emitted)))

/**
 * Runs a machine to the outcome of its run. `open` records the events before the first action. A run that is interrupted
 * records that, and stays interrupted.
 */
export const runMachine = <State extends { readonly outcome?: unknown }, Event, Action, View, E>(
  machine: Machine<State, Action, E>,
  recorder: Recorder<State, Event, View, E>,
  options: { readonly open: Effect.Effect<void, E>; readonly deadline: number | undefined }
): Effect.Effect<void, E> => {
  const performAll = Effect.gen(function* () {
    let step: number | undefined
    while (recorder.state.outcome === undefined) {
      const interruption = recorder.interruption
      if (interruption !== undefined) return yield* machine.interrupt(interruption.reason)
      const action = machine.next(recorder.state)
      if (machine.ends(action)) return yield* machine.perform(action, undefined)
      const timeout = machine.stepTimeout?.(action)
      if (timeout !== undefined) step = (yield* Clock.currentTimeMillis) + Duration.toMillis(timeout)
      const deadline = earliest(step, options.deadline)
      const expired = yield* withDeadline(machine.perform(action, deadline), deadline)
      if (expired) return yield* machine.interrupt("timeout")
    }
  })
  return Effect.onExit(Effect.andThen(options.open, performAll), (exit) => {
    if (exit._tag === "Success" || !Cause.hasInterrupts(exit.cause)) return Effect.void
    recorder.close()
    return machine.interrupt("interrupted")
  })
}

const earliest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)

/** True if the deadline came first. */
const withDeadline = <E>(effect: Effect.Effect<void, E>, deadline: number | undefined): Effect.Effect<boolean, E> => {
  const done = Effect.as(effect, false)
  if (deadline === undefined) return done
  return Effect.flatMap(Clock.currentTimeMillis, (now) =>
    now >= deadline
      ? Effect.succeed(true)
      : Effect.timeoutOrElse(done, { duration: Duration.millis(deadline - now), orElse: () => Effect.succeed(true) })
  )
}

/** The deadline of a run that begins now: the earlier of its own and that of the run around it. */
export const deadlineOf = (
  total: Duration.Input | undefined,
  outer: number | undefined
): Effect.Effect<number | undefined> =>
  total === undefined
    ? Effect.succeed(outer)
    : Effect.map(Clock.currentTimeMillis, (now) => earliest(now + Duration.toMillis(total), outer))

/** Events that a stream holds before its reader slows the run. */
const streamBuffer = 16

/** The events of a run as a stream. A slow reader slows the run, and a reader that leaves stops it. */
export const streamOf = <Event, E>(
  run: (emit: (event: Event) => Effect.Effect<void>) => Effect.Effect<unknown, E>
): Stream.Stream<Event, E> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const queue = yield* Queue.bounded<Event, E | Cause.Done>(streamBuffer)
      const fiber = yield* run((event) => Effect.asVoid(Queue.offer(queue, event))).pipe(
        Effect.matchCauseEffect({
          onFailure: (cause) => Queue.failCause(queue, cause),
          onSuccess: () => Queue.end(queue)
        }),
        Effect.forkScoped
      )
      // Added last, so it runs first. A producer that waits for room is interrupted before it is released:
      // released first it would continue, and one that cannot be interrupted there would wait for ever.
      yield* Effect.addFinalizer(() =>
        Effect.andThen(
          Effect.sync(() => fiber.interruptUnsafe()),
          Queue.shutdown(queue)
        )
      )
      return Stream.fromQueue(queue)
    })
  )

/** A watcher of a run. `streaming`: whether deltas are wanted. */
export interface Sink {
  readonly streaming: boolean
  readonly emit: (event: agentTypes.AgentEvent<unknown>) => Effect.Effect<void>
}

/** Options that a run without a model passes down to the agents inside it. */
export type InheritedOptions = Pick<agentTypes.ResumeOptions, "defects" | "modelMistakes" | "modelRetry">

/**
 * Passed by a run to an agent that it runs as a part of itself. An agent that the code of a tool or a step runs gets
 * nothing of it: when the run ends that code is interrupted, and the agent with it, unless it was made to outlive the run.
 *
 * - `deadline`: that of the run, in milliseconds of the Clock.
 * - `watcher`: receives the events, in place of the caller.
 */
export interface Handed {
  readonly deadline: number | undefined
  readonly watcher?: Sink | undefined
  readonly options?: InheritedOptions | undefined
}

const handedKey = "~effect-emissary/agent/Handed"

interface WithHanded {
  readonly [handedKey]: Handed
}

/** Options for an agent that is a part of another run. */
export const hand = <O extends agentTypes.ResumeOptions>(options: O, handed: Handed): O & WithHanded => ({
  ...options,
  [handedKey]: handed
})

const isHanded = (options: agentTypes.ResumeOptions): options is agentTypes.ResumeOptions & WithHanded =>
  Predicate.hasProperty(options, handedKey)

export const defaultMaxDepth = 8

type WithoutTime<E> = E extends runParts.Event ? Omit<E, "at"> : never

/** The error of a run, with the error behind its reason. */
export const agentError = (fields: {
  readonly agent: string
  readonly reason: AgentError.Reason
  readonly state?: runParts.State
}): AgentError.AgentError => {
  const error = new AgentError.AgentError(fields)
  agentReason.copyCause(fields.reason, error.reason)
  return error
}

export interface AgentRecorder extends Recorder<runParts.State, runParts.Event, agentTypes.AgentEvent<unknown>> {
  readonly recordNow: (event: WithoutTime<runParts.Event>) => Effect.Effect<void>
  readonly fail: (reason: AgentError.Reason) => AgentError.AgentError
}

/** The run of an agent under way. */
export interface ActiveRun {
  readonly recorder: AgentRecorder
  readonly options: agentTypes.ResumeOptions
  readonly streaming: boolean
  readonly maxDepth: number
  /** Of the whole run, in milliseconds of the Clock. */
  readonly runDeadline: number | undefined
}

/**
 * An agent, or a plan that runs as one, for one run.
 *
 * - `stepTimeout`: whether `timeouts.step` bounds the performed actions.
 * - `accept`: refuses the states that it cannot continue.
 * - `ask`: asks for the approvals that calls of the conversation need, before decisions about them are taken.
 * - `perform`: see {@link Machine}.
 * - `decode`: the answer of a run that is `Completed`.
 */
export interface PreparedRun<out A> {
  readonly digest: string
  readonly maxSteps: runParts.MaxSteps
  readonly structured: runParts.StructuredSteps
  readonly instructions: string | undefined
  readonly stepTimeout: boolean
  readonly accept: (state: runParts.State) => Effect.Effect<void, AgentError.Reason>
  readonly ask: (run: ActiveRun, callIds: ReadonlySet<string>) => Effect.Effect<void, AgentError.AgentError>
  readonly perform: (
    run: ActiveRun,
    action: runTransition.ActionOf<"CallModel" | "RunTools">,
    deadline: number | undefined
  ) => Effect.Effect<void, AgentError.AgentError>
  readonly decode: (text: string, output: Schema.Json | undefined) => Effect.Effect<A, ReadonlyArray<Problem>>
}

export interface AgentMachine<out A> {
  readonly name: string
  readonly prepare: Effect.Effect<PreparedRun<A>, AgentError.Reason, Scope.Scope>
}

const recorderOf = (
  state: runParts.State,
  first: runParts.Event | undefined,
  { interruptWhen, onState }: agentTypes.ResumeOptions,
  emit: Sink["emit"]
): AgentRecorder => {
  const recorder: Recorder<runParts.State, runParts.Event, agentTypes.AgentEvent<unknown>> = makeRecorder({
    state,
    first,
    apply: runTransition.apply,
    views: viewsOf,
    emit,
    journal:
      onState === undefined
        ? undefined
        : (events, state) => Effect.map(Effect.all(events.map((event) => onState(state, event))), () => []),
    after:
      interruptWhen === undefined
        ? undefined
        : (event, state) =>
            Effect.suspend(() =>
              recorder.interruption ? Effect.void : askToStop(recorder, interruptWhen(event, state))
            )
  })
  return Object.assign(recorder, {
    recordNow: (event: WithoutTime<runParts.Event>) =>
      Effect.flatMap(DateTime.now, (at) => recorder.record({ ...event, at })),
    fail: (reason: AgentError.Reason) => agentError({ agent: state.agent, reason, state: recorder.state })
  })
}

const askToStop = (
  recorder: Pick<AgentRecorder, "stop">,
  answer: agentTypes.Interruption | undefined | Effect.Effect<agentTypes.Interruption | undefined>
): Effect.Effect<void> =>
  Effect.flatMap(Effect.isEffect(answer) ? answer : Effect.succeed(answer), (found) =>
    found === undefined ? Effect.void : recorder.stop(found)
  )

/** A child emits its own events, as `Child`. */
const viewsOf = (
  before: runParts.State,
  event: runParts.Event,
  state: runParts.State
): ReadonlyArray<agentTypes.AgentEvent<unknown>> =>
  event._tag === "ChildEvent" && !runTransition.isDecision(event) ? [] : [viewOf(before, event, state)]

const viewOf = (
  before: runParts.State,
  event: runParts.Event,
  state: runParts.State
): agentTypes.AgentEvent<unknown> => {
  switch (event._tag) {
    case "RunStarted":
    case "RunResumed": {
      const { agent, runId } = state
      return { _tag: "RunStarted", runId, agent, resumed: event._tag === "RunResumed", state }
    }
    case "StepStarted":
      return { _tag: "StepStarted", step: event.step, purpose: event.purpose, state }
    case "ModelAnswered": {
      const { message } = event
      const usage = message.usage ?? {}
      return { _tag: "StepFinished", step: state.steps, message, usage, total: state.usage, state }
    }
    case "ToolStarted":
      return { _tag: "ToolStarted", ...callOf(state, event.callId), state }
    case "ToolFinished": {
      const { callId, name, result } = event.message
      const duration = Duration.millis(event.durationMillis ?? 0)
      return { _tag: "ToolFinished", callId, name, result, duration, state }
    }
    case "ApprovalRequested": {
      const request = { ...callOf(before, event.callId), arguments: event.arguments, digest: event.digest }
      return { _tag: "ApprovalRequested", request, state }
    }
    default:
      return { _tag: "StateChanged", event, state }
  }
}

const callOf = ({ calls }: runParts.State, callId: string) => {
  const { arguments: args = null, name = "" } = calls.find(({ part }) => part.id === callId)?.part ?? {}
  return { callId, name, arguments: args }
}

/** The event of a call that has its result. */
export const toolFinishedEvent = Effect.fnUntraced(function* (
  call: { readonly callId: string; readonly name: string; readonly result: ToolResult },
  duration?: Duration.Duration,
  cause?: Cause.Cause<unknown>
) {
  const at = yield* DateTime.now
  const message = yield* Message.tool(call)
  return {
    _tag: "ToolFinished",
    at,
    message,
    ...(duration && { durationMillis: Duration.toMillis(duration) }),
    ...(cause && { cause: causeText(cause) })
  } satisfies runParts.Event
})

const causeText = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) => (reason._tag === "Die" ? boundTool.defectName(reason.defect) : reason._tag)).join("; ")

/** Ends the run as `Interrupted`: calls that started get their results first. */
export const interrupt = Effect.fnUntraced(function* (recorder: AgentRecorder, reason: string | undefined) {
  const { interrupted, outcome } = recorder.state
  if (outcome !== undefined) return
  // An interruption of the fiber may come while one by the clock or the hook is being recorded.
  const why = interrupted ?? defined({ reason })
  if (interrupted === undefined) yield* recorder.recordNow({ _tag: "RunInterrupted", ...why })
  const action = runTransition.next(recorder.state)
  const settled = action._tag === "RunTools" ? action.settled : []
  for (const call of settled) yield* recorder.record(yield* toolFinishedEvent(call))
  yield* recorder.recordNow({ _tag: "RunFinished", outcome: { _tag: "Interrupted", ...why } })
})

/** The beginning of a run: a fresh one without `state`, or one that continues from it. */
export interface Begin {
  readonly state?: runParts.State
  readonly input: agentTypes.Input
  readonly options: agentTypes.Options
}

/** A whole number of calls. A budget below one still allows the one call that every run makes. */
const maxStepsOf = (maxSteps: runParts.MaxSteps): runParts.MaxSteps =>
  maxSteps === "unlimited" || maxSteps === Infinity ? "unlimited" : Math.max(1, Math.floor(maxSteps) || 1)

const invalidConversation = (problem: string, error?: unknown): AgentError.Reason =>
  agentReason.makeReason("ConversationInvalid", { problem }, error)

const startConversation = Effect.fnUntraced(function* (
  { instructions }: PreparedRun<unknown>,
  options: agentTypes.Options
) {
  if (options.conversation === undefined) return yield* Conversation.make({ system: instructions })
  if (options.instructions !== "replace") return options.conversation
  const replaced = yield* Conversation.make({ system: instructions })
  const rest = Conversation.messages(options.conversation).filter((message) => message.role !== "system")
  return yield* Effect.mapError(Effect.fromResult(Conversation.appendAll(replaced, rest)), (error) =>
    invalidConversation(error.message, error)
  )
})

/** The state to begin with, and the event that made it where the run is fresh. */
const firstState = Effect.fnUntraced(function* (
  agent: string,
  prepared: PreparedRun<unknown>,
  { input, options, state }: Begin,
  context: runParts.State["context"],
  depth: number
) {
  if (state !== undefined) {
    yield* prepared.accept(state)
    return { state, first: undefined }
  }
  const conversation = yield* startConversation(prepared, options)
  if (input === undefined && !runTransition.hasUserMessage(conversation)) {
    return yield* Effect.fail(
      invalidConversation("expected a user message to answer, got none. Pass an input, or a conversation that has one")
    )
  }
  const first: runParts.EventOf<"RunStarted"> = {
    _tag: "RunStarted",
    at: yield* DateTime.now,
    runId: `run_${(yield* yield* Message.MessageId).replace(/^msg_/, "")}`,
    agent,
    definition: prepared.digest,
    depth,
    maxSteps: maxStepsOf(options.maxSteps ?? prepared.maxSteps),
    structured: prepared.structured,
    context,
    conversation
  }
  return { state: runTransition.start(first), first }
})

const resultOf = <A>({ decode }: PreparedRun<A>, state: runParts.State): Effect.Effect<agentTypes.Result<A>> => {
  const { conversation, outcome, totalSteps: steps, usage } = state
  const last = history.asHistory(conversation).lastAssistant
  const text = last === undefined ? "" : Message.text(last)
  const base = { text, conversation, usage, steps, state }
  if (outcome === undefined) return Effect.die(new Error("a run that has not ended has no result"))
  if (outcome._tag === "Completed") {
    return Effect.match(decode(text, outcome.output), {
      onFailure: (issues): agentTypes.Result<A> => ({ ...base, outcome: "InvalidOutput", issues }),
      onSuccess: (output): agentTypes.Result<A> => ({ ...base, outcome: "Completed", output })
    })
  }
  const { _tag, ...details } = outcome
  // Sound: the tag and the details are those of one outcome.
  return Effect.succeed({ ...base, outcome: _tag, ...details } as agentTypes.Result<A>)
}

const machineOf = (
  prepared: PreparedRun<unknown>,
  run: ActiveRun
): Machine<runParts.State, runTransition.Action, AgentError.AgentError> => {
  const { options, recorder } = run
  return {
    next: runTransition.next,
    ends: ({ _tag }) => _tag === "Finished",
    perform: (action, deadline) => {
      if (action._tag === "Finished") return recorder.recordNow({ _tag: "RunFinished", outcome: action.outcome })
      const performed = prepared.perform(run, action, deadline)
      return options.interruptWhen === undefined
        ? performed
        : Effect.raceFirst(performed, Effect.asVoid(recorder.stopped))
    },
    interrupt: (reason) => interrupt(recorder, reason),
    stepTimeout: ({ _tag }) => (_tag === "CallModel" && prepared.stepTimeout ? options.timeouts?.step : undefined)
  }
}

/** Records decisions, then the new message, which waits for open calls. */
const openRun = Effect.fnUntraced(function* (run: ActiveRun, prepared: PreparedRun<unknown>, input: agentTypes.Input) {
  const { options, recorder } = run
  const { decisions } = options
  if (decisions !== undefined && decisions.length > 0) {
    yield* prepared.ask(run, new Set(decisions.map(({ callId }) => callId)))
    const decided = runTransition.decide(recorder.state, decisions, yield* DateTime.now)
    for (const event of yield* Effect.mapError(Effect.fromResult(decided), recorder.fail)) yield* recorder.record(event)
  }
  // Also when the hook has stopped the run already: the message must not be lost.
  if (input === undefined) return
  const message = yield* Message.user(input)
  const fits = history.append(Conversation.empty, message)
  if (Result.isFailure(fits)) return yield* recorder.fail(invalidConversation(fits.failure.message, fits.failure))
  const maxSteps = maxStepsOf(options.maxSteps ?? prepared.maxSteps)
  yield* recorder.recordNow({ _tag: "InputAdded", message, maxSteps })
})

/** Runs an agent from its first event, or from a state, to its result. */
export const runAgent = Effect.fnUntraced(function* <A>(
  machine: AgentMachine<A>,
  begin: Begin,
  caller: Sink
): Effect.fn.Return<agentTypes.Result<A>, AgentError.AgentError> {
  const handed = isHanded(begin.options) ? begin.options[handedKey] : undefined
  const options: agentTypes.ResumeOptions = { ...handed?.options, ...defined(begin.options) }
  const outer = yield* callContext.runAround
  const depth = callContext.depthIn(outer)
  const context = begin.state?.context ?? begin.options.context ?? (yield* callContext.inheritedContext)
  const maxDepth = options.maxDepth ?? outer?.maxDepth ?? defaultMaxDepth
  const refuse = (reason: AgentError.Reason) =>
    agentError({ agent: machine.name, reason, ...defined({ state: begin.state }) })
  if (depth > maxDepth) return yield* refuse(agentReason.makeReason("MaxDepth", { limit: maxDepth }))
  const deadline = yield* deadlineOf(options.timeouts?.total, handed?.deadline)
  const { emit, streaming } = handed?.watcher ?? caller

  const running = Effect.gen(function* () {
    const prepared = yield* Effect.mapError(machine.prepare, refuse)
    const { first, state } = yield* Effect.mapError(firstState(machine.name, prepared, begin, context, depth), refuse)
    const recorder = recorderOf(state, first, options, emit)
    const run: ActiveRun = { recorder, options, streaming, maxDepth, runDeadline: deadline }
    const maxSteps = options.maxSteps === undefined ? undefined : maxStepsOf(options.maxSteps)
    const begun =
      first === undefined ? recorder.recordNow({ _tag: "RunResumed", ...defined({ maxSteps }) }) : recorder.begin
    const open = Effect.andThen(begun, openRun(run, prepared, begin.input))
    yield* runMachine(machineOf(prepared, run), recorder, { open, deadline })
    const result = yield* resultOf(prepared, recorder.state)
    yield* emit({ _tag: "RunFinished", result })
    return result
  })
  // A scope of its own: the resources of the agent's code are released with the run, whatever scope is around it.
  return yield* Effect.scoped(running).pipe(callContext.asRun({ outer, maxDepth, context }))
})

/** Ignores the events of a run. */
export const silent: Sink = { streaming: false, emit: () => Effect.void }

/** The answer of a run that is `Completed`. */
export const answerOf = <A>(result: agentTypes.Result<A>): Effect.Effect<A, AgentError.RunIncomplete> => {
  if (result.outcome === "Completed") return Effect.succeed(result.output)
  const { state } = result
  const outcome: runParts.Outcome | undefined =
    result.outcome === "InvalidOutput" ? { _tag: "InvalidOutput", issues: result.issues } : state.outcome
  // A result is only made of a state that has ended.
  return outcome === undefined
    ? Effect.die(new Error("a result without an outcome"))
    : Effect.fail(new AgentError.RunIncomplete({ outcome, state }))
}
