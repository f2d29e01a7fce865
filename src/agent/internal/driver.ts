/**
 * Drives a run: records events, performs what is next until it ends, and hands depth, deadline and options to runs inside.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import type { ValidationIssue } from "../../payload/PayloadError.ts"
import * as RunContext from "../../tool/RunContext.ts"
import type { ToolResult } from "../../tool/ToolResult.ts"
import * as AgentError from "../AgentError.ts"
import type { AgentEvent } from "../AgentEvent.ts"
import * as Run from "../Run.ts"
import type * as runOptions from "./runOptions.ts"
import * as runParts from "./runParts.ts"

/** How many events a stream holds before its reader slows the run. */
const streamBuffer = 16

/**
 * What a run emits, of an agent or a plan: a slow reader slows the run, and a reader who
 * leaves stops it.
 *
 * @internal
 */
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
      // Added last, so it runs first. A producer that waits for room is told to stop before it is let go:
      // let go first it would run on, and one that cannot stop just there would never be let go.
      yield* Effect.addFinalizer(() =>
        Effect.andThen(
          Effect.sync(() => fiber.interruptUnsafe()),
          Queue.shutdown(queue)
        )
      )
      return Stream.fromQueue(queue)
    })
  )

interface Parent {
  /** Whether somebody wants deltas. */
  readonly streaming: boolean
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
}

export interface Environment {
  readonly depth: number
  readonly maxDepth: number
  /** When the outermost run has to end, in milliseconds of the Clock. */
  readonly deadline: number | undefined
  /** The run that takes the events of this one, for an agent that is a tool. */
  readonly parent: Parent | undefined
  /** Options of a run around that has no model itself, for the models inside. */
  readonly handed: Inherited
}

type Inherited = Pick<runOptions.ResumeOptions, "defects" | "modelMistakes" | "modelRetry">

const defaultMaxDepth = 8

export const Environment = Context.Reference<Environment>("effect-emissary/agent/internal/Environment", {
  defaultValue: () => ({ depth: 0, maxDepth: defaultMaxDepth, deadline: undefined, parent: undefined, handed: {} })
})

/**
 * Where a run stands that begins here.
 *
 * **Details**
 *
 * - `depth`: 0 for a run that a program starts, one more for each run around it.
 * - `maxDepth`: the largest depth that is allowed.
 * - `deadline`: when the outermost run with a total timeout has to end, in milliseconds
 *   of the Clock.
 */
export interface RunDepth {
  readonly depth: number
  readonly maxDepth: number
  readonly deadline: number | undefined
}

/**
 * What holds for the runs that begin inside.
 *
 * **Details**
 *
 * - `emit` is given every event of these runs, instead of whoever started them. Without
 *   it whoever starts a run hears of it, as always.
 * - `streaming`: whether somebody wants deltas, for `emit`; default `false`.
 * - `depth`, `maxDepth`, `deadline`: see {@link RunDepth}; what is left out stays as it is.
 */
interface NestingOptions {
  readonly streaming?: boolean | undefined
  readonly emit?: ((event: AgentEvent<unknown>) => Effect.Effect<void>) | undefined
  readonly depth?: number | undefined
  readonly maxDepth?: number | undefined
  readonly deadline?: number | undefined
}

/**
 * Where a run stands that begins here.
 */
export const runDepth: Effect.Effect<RunDepth> = Effect.map(Environment, ({ deadline, depth, maxDepth }) => ({
  deadline,
  depth,
  maxDepth
}))

/**
 * Puts the agents that an effect runs inside a run.
 */
export const nestRuns =
  (options: NestingOptions) =>
  <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    Effect.flatMap(Environment, (outer) =>
      Effect.provideService(effect, Environment, {
        depth: options.depth ?? outer.depth,
        maxDepth: options.maxDepth ?? outer.maxDepth,
        deadline: options.deadline ?? outer.deadline,
        handed: outer.handed,
        parent: options.emit === undefined ? undefined : { streaming: options.streaming ?? false, emit: options.emit }
      })
    )

/** One run under way. */
export interface ActiveRun {
  readonly recorder: Recorder
  readonly options: runOptions.ResumeOptions
  readonly streaming: boolean
  readonly environment: Environment
}

/** What a machine is for one run. */
export interface Prepared<out A> {
  readonly digest: string
  readonly maxSteps: runParts.MaxSteps
  readonly structured: runParts.StructuredSteps
  readonly instructions: string | undefined
  /** Whether `timeouts.step` bounds what `perform` does. */
  readonly stepTimeout: boolean
  /** Refuses the states that it cannot go on from. */
  readonly accept: (state: Run.State) => Effect.Effect<void, AgentError.Reason>
  /** Asks for the approvals that calls of the conversation need, before decisions about them are taken. */
  readonly ask: (run: ActiveRun, callIds: ReadonlySet<string>) => Effect.Effect<void, AgentError.AgentError>
  /** Does what is next, until `deadline` at most, and records what happened. */
  readonly perform: (
    run: ActiveRun,
    action: Run.ActionOf<"CallModel"> | Run.ActionOf<"RunTools">,
    deadline: number | undefined
  ) => Effect.Effect<void, AgentError.AgentError>
  /** The answer of a run that is `Completed`. */
  readonly decode: (text: string, output: Schema.Json | undefined) => Effect.Effect<A, ReadonlyArray<ValidationIssue>>
}

export interface Machine<out A> {
  readonly name: string
  readonly prepare: Effect.Effect<Prepared<A>, AgentError.Reason>
}

export interface Recorder {
  readonly state: () => Run.State
  /** Completed when `interruptWhen` stops the run. */
  readonly stopped: Deferred.Deferred<runOptions.Interruption>
  readonly stopping: () => boolean
  readonly interruption: () => runOptions.Interruption | undefined
  /** Announces the event that made the state. */
  readonly begin: (event: Run.Event) => Effect.Effect<void>
  readonly record: (event: Run.Event) => Effect.Effect<void>
  /**
   * Applies the event at once, and tells about it in the effect: what a child run has
   * applied its parent must have applied, even when it is interrupted in between.
   */
  readonly recordNow: (event: Run.Event) => Effect.Effect<void>
  /** Applies events while the run is being torn down: nobody may stop it or slow it any more. */
  readonly conclude: (event: Run.Event) => Effect.Effect<void>
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
  readonly fail: (reason: AgentError.Reason) => AgentError.AgentError
}

const makeRecorder = (
  initial: Run.State,
  options: Pick<runOptions.ResumeOptions, "onState" | "interruptWhen">,
  emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
): Recorder => {
  let state = initial
  let interruption: runOptions.Interruption | undefined
  const stopped = Deferred.makeUnsafe<runOptions.Interruption>()

  /** A driver that applies an event which does not fit has a bug, and dies of it. */
  const applied = (event: Run.Event, then: (state: Run.State) => Effect.Effect<void>): Effect.Effect<void> => {
    const result = Run.apply(state, event)
    if (Result.isFailure(result)) return Effect.die(result.failure)
    state = result.success
    return then(state)
  }

  const tell = (current: Run.State, event: Run.Event): Effect.Effect<void> =>
    options.onState === undefined ? Effect.void : options.onState(current, event)

  const ask = (current: Run.State, event: Run.Event): Effect.Effect<void> => {
    if (options.interruptWhen === undefined || interruption !== undefined) return Effect.void
    const answer = options.interruptWhen(event, current)
    return Effect.flatMap(Effect.isEffect(answer) ? answer : Effect.succeed(answer), (found) => {
      if (found === undefined) return Effect.void
      interruption = found
      return Effect.asVoid(Deferred.succeed(stopped, found))
    })
  }

  const announce = (before: Run.State, current: Run.State, event: Run.Event): Effect.Effect<void> =>
    tell(current, event).pipe(
      Effect.andThen(show(viewOf(before, event, current))),
      Effect.andThen(Effect.suspend(() => ask(current, event)))
    )

  const show = (view: AgentEvent<unknown> | undefined) => (view === undefined ? Effect.void : emit(view))

  const recordNow = (event: Run.Event): Effect.Effect<void> => {
    const before = state
    return applied(event, (current) => announce(before, current, event))
  }

  return {
    state: () => state,
    stopped,
    stopping: () => interruption !== undefined,
    interruption: () => interruption,
    begin: (event) => Effect.suspend(() => announce(state, state, event)),
    record: (event) => Effect.suspend(() => recordNow(event)),
    recordNow,
    conclude: (event) => Effect.suspend(() => applied(event, (current) => tell(current, event))),
    emit,
    fail: (reason) => new AgentError.AgentError({ agent: state.agent, reason, state })
  }
}

/**
 * How a fact of the run looks to somebody who watches it. What a child does is not shown
 * here: the child shows it, as `Child`.
 */
const viewOf = (before: Run.State, event: Run.Event, state: Run.State): AgentEvent<unknown> | undefined => {
  switch (event._tag) {
    case "ChildEvent":
      return runParts.isDecision(event) ? { _tag: "StateChanged", event, state } : undefined
    case "RunStarted":
    case "RunResumed":
      return runStartedView(state, event._tag === "RunResumed")
    case "StepStarted":
      return { _tag: "StepStarted", step: event.step, purpose: event.purpose, state }
    case "ModelAnswered":
      return {
        _tag: "StepFinished",
        step: state.steps,
        message: event.message,
        usage: event.message.usage ?? Message.emptyUsage,
        total: state.usage,
        state
      }
    case "ToolStarted": {
      const part = Run.openCall(state, event.callId)?.part
      return {
        _tag: "ToolStarted",
        callId: event.callId,
        name: part?.name ?? "",
        arguments: part?.arguments ?? null,
        state
      }
    }
    case "ToolFinished":
      return {
        _tag: "ToolFinished",
        callId: event.message.callId,
        name: event.message.name,
        result: event.message.result,
        duration: Duration.millis(event.durationMillis ?? 0),
        state
      }
    case "ApprovalRequested": {
      const part = Run.openCall(before, event.callId)?.part
      const request = { callId: event.callId, name: part?.name ?? "", arguments: part?.arguments ?? null }
      return { _tag: "ApprovalRequested", request, state }
    }
    default:
      return { _tag: "StateChanged", event, state }
  }
}

const runStartedView = (state: Run.State, resumed: boolean): AgentEvent<unknown> => ({
  _tag: "RunStarted",
  runId: state.runId,
  agent: state.agent,
  resumed,
  state
})

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
    ...(duration === undefined ? undefined : { durationMillis: Duration.toMillis(duration) }),
    ...(cause === undefined ? undefined : { cause: causeText(cause) })
  } satisfies Run.Event
})

const causeText = (cause: Cause.Cause<unknown>): string =>
  cause.reasons.map((reason) => (reason._tag === "Die" ? String(reason.defect) : reason._tag)).join("; ")

/** Ends the run as `Interrupted`: what started gets its results first. */
export const interrupt = Effect.fnUntraced(function* (
  { state }: Recorder,
  record: Recorder["record"],
  reason: string | undefined
) {
  if (state().outcome !== undefined) return
  // An interruption of the fiber may come while one by the clock or the hook is being recorded.
  const why = state().interrupted ?? (reason === undefined ? {} : { reason })
  if (state().interrupted === undefined) yield* record({ _tag: "RunInterrupted", at: yield* DateTime.now, ...why })
  for (const settled of Run.recover(state())) {
    yield* record(yield* toolFinishedEvent(settled))
  }
  yield* record({ _tag: "RunFinished", at: yield* DateTime.now, outcome: { _tag: "Interrupted", ...why } })
})

export interface Sink {
  readonly streaming: boolean
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
}

/** Where a run begins: a fresh one, or a state to go on from. */
export type Begin =
  | { readonly _tag: "Fresh"; readonly input: runOptions.Input; readonly options: runOptions.Options }
  | { readonly _tag: "Resume"; readonly state: Run.State; readonly options: runOptions.ResumeOptions }

/** A budget below one still allows the one call that every run makes. */
const maxStepsOf = (maxSteps: runParts.MaxSteps): runParts.MaxSteps =>
  maxSteps === "unlimited" ? maxSteps : Math.max(1, maxSteps)

const invalidConversation = (problem: string, error?: unknown): AgentError.Reason =>
  AgentError.withCause(new AgentError.ConversationInvalid({ problem }), error)

const startConversation = Effect.fnUntraced(function* (
  { instructions }: Prepared<unknown>,
  options: runOptions.Options
) {
  if (options.conversation === undefined) return yield* Conversation.make({ system: instructions })
  if (options.instructions !== "replace") return options.conversation
  const replaced = yield* Conversation.make({ system: instructions })
  const rest = Conversation.messages(options.conversation).filter((message) => message.role !== "system")
  return yield* Effect.mapError(Effect.fromResult(Conversation.appendAll(replaced, rest)), (error) =>
    invalidConversation(error.message, error)
  )
})

const startedEvent = Effect.fnUntraced(function* (
  agent: string,
  prepared: Prepared<unknown>,
  begin: Extract<Begin, { readonly _tag: "Fresh" }>,
  context: Run.State["context"],
  depth: number
) {
  const conversation = yield* startConversation(prepared, begin.options)
  const hasUser = Conversation.messages(conversation).some((message) => message.role === "user")
  if (begin.input === undefined && !hasUser) {
    return yield* invalidConversation(
      "expected a user message to answer, found none. Pass an input, or a conversation that has one"
    )
  }
  return {
    _tag: "RunStarted",
    at: yield* DateTime.now,
    runId: `run_${(yield* Message.nextId).replace(/^msg_/, "")}`,
    agent,
    definition: prepared.digest,
    depth,
    maxSteps: maxStepsOf(begin.options.maxSteps ?? prepared.maxSteps),
    structured: prepared.structured,
    context,
    conversation
  } satisfies Run.EventOf<"RunStarted">
})

const resultOf = Effect.fnUntraced(function* <A>(
  { decode }: Prepared<A>,
  state: Run.State
): Effect.fn.Return<runOptions.Result<A>> {
  const last = Conversation.lastAssistantMessage(state.conversation)
  const text = last._tag === "Some" ? Message.text(last.value) : ""
  const base = { text, conversation: state.conversation, usage: state.usage, steps: state.totalSteps, state }
  const outcome = state.outcome
  if (outcome === undefined) return yield* Effect.die(new Error("a run that has not ended has no result"))
  switch (outcome._tag) {
    case "Completed":
      return yield* Effect.match(decode(text, outcome.output), {
        onFailure: (issues): runOptions.Result<A> => ({ ...base, outcome: "InvalidOutput", issues }),
        onSuccess: (value): runOptions.Result<A> => ({ ...base, outcome: "Completed", output: value })
      })
    case "MaxSteps":
      return { ...base, outcome: "MaxSteps" }
    case "AwaitingApproval":
      return { ...base, outcome: "AwaitingApproval", requests: outcome.requests }
    case "Interrupted":
      return { ...base, outcome: "Interrupted", reason: outcome.reason }
    case "InvalidOutput":
      return { ...base, outcome: "InvalidOutput", issues: outcome.issues }
    case "Stopped":
      return { ...base, outcome: "Stopped", finishReason: outcome.finishReason }
  }
})

interface Loop extends ActiveRun {
  readonly prepared: Prepared<unknown>
}

const timedOut = "timeout"

const runLoop = Effect.fnUntraced(function* (run: Loop) {
  const { environment, options, prepared, recorder } = run
  let stepDeadline: number | undefined
  while (!recorder.stopping()) {
    const action = Run.next(recorder.state())
    if (action._tag === "Finished") {
      if (recorder.state().outcome === undefined) {
        yield* recorder.record({ _tag: "RunFinished", at: yield* DateTime.now, outcome: action.outcome })
      }
      return
    }
    if (action._tag === "CallModel" && prepared.stepTimeout && options.timeouts?.step !== undefined) {
      stepDeadline = (yield* Clock.currentTimeMillis) + Duration.toMillis(options.timeouts.step)
    }
    const deadline = earliest(stepDeadline, environment.deadline)
    const expired = yield* withDeadline(unlessStopped(run, prepared.perform(run, action, deadline)), deadline)
    if (expired) return yield* interrupt(recorder, recorder.record, timedOut)
  }
  const { reason } = yield* Deferred.await(recorder.stopped)
  yield* interrupt(recorder, recorder.record, reason)
})

const unlessStopped = <E>({ options, recorder }: ActiveRun, doing: Effect.Effect<void, E>): Effect.Effect<void, E> =>
  options.interruptWhen === undefined ? doing : Effect.raceFirst(doing, Effect.asVoid(Deferred.await(recorder.stopped)))

const earliest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.min(a, b)

/** Whether the deadline came first. */
const withDeadline = <E, R>(
  effect: Effect.Effect<void, E, R>,
  deadline: number | undefined
): Effect.Effect<boolean, E, R> => {
  const done = Effect.as(effect, false)
  if (deadline === undefined) return done
  return Effect.flatMap(Clock.currentTimeMillis, (now) =>
    now >= deadline
      ? Effect.succeed(true)
      : Effect.timeoutOrElse(done, { duration: Duration.millis(deadline - now), orElse: () => Effect.succeed(true) })
  )
}

const deadlineOf = (
  options: runOptions.ResumeOptions,
  outer: number | undefined
): Effect.Effect<number | undefined> => {
  const total = options.timeouts?.total
  return total === undefined
    ? Effect.succeed(outer)
    : Effect.map(Clock.currentTimeMillis, (now) => earliest(now + Duration.toMillis(total), outer))
}

/** What is recorded before the loop: decisions, then the new message, which waits for open calls. */
const openRun = Effect.fnUntraced(function* (run: Loop, begin: Begin) {
  const { options, prepared, recorder } = run
  const input = begin._tag === "Fresh" ? begin.input : begin.options.input
  const decisions = options.decisions ?? []
  if (decisions.length > 0) {
    const callIds = new Set(decisions.map(({ callId }) => callId))
    yield* prepared.ask(run, callIds)
  }
  const decided = Run.decide(recorder.state(), decisions, yield* DateTime.now)
  for (const event of yield* Effect.mapError(Effect.fromResult(decided), recorder.fail)) {
    yield* recorder.record(event)
  }
  // Also when the hook has stopped the run already: what the user said must not be lost.
  if (input !== undefined) {
    const message = yield* Message.user(input)
    const fits = Conversation.append(Conversation.empty, message)
    if (Result.isFailure(fits)) return yield* recorder.fail(invalidConversation(fits.failure.message, fits.failure))
    const at = yield* DateTime.now
    const maxSteps = maxStepsOf(options.maxSteps ?? prepared.maxSteps)
    yield* recorder.record({ _tag: "InputAdded", at, message, maxSteps })
  }
})

const startRun = Effect.fnUntraced(function* (
  agent: string,
  prepared: Prepared<unknown>,
  begin: Extract<Begin, { readonly _tag: "Fresh" }>,
  context: Run.State["context"],
  depth: number,
  make: MakeRecorder
) {
  const event = yield* startedEvent(agent, prepared, begin, context, depth)
  const recorder = make(Run.start(event))
  return { recorder, first: recorder.begin(event) }
})

const resumeRun = Effect.fnUntraced(function* (
  prepared: Prepared<unknown>,
  { options, state }: Extract<Begin, { readonly _tag: "Resume" }>,
  make: MakeRecorder
) {
  yield* prepared.accept(state)
  const recorder = make(state)
  const maxSteps = options.maxSteps === undefined ? undefined : { maxSteps: maxStepsOf(options.maxSteps) }
  return { recorder, first: recorder.record({ _tag: "RunResumed", at: yield* DateTime.now, ...maxSteps }) }
})

const withInherited = (options: runOptions.ResumeOptions, handed: Inherited): runOptions.ResumeOptions => ({
  ...options,
  defects: options.defects ?? handed.defects,
  modelMistakes: options.modelMistakes ?? handed.modelMistakes,
  modelRetry: options.modelRetry ?? handed.modelRetry
})

type MakeRecorder = (state: Run.State) => Recorder

/** Runs a machine from where `begin` says to its result. */
export const drive = <A>(
  machine: Machine<A>,
  begin: Begin,
  sink: Sink
): Effect.Effect<runOptions.Result<A>, AgentError.AgentError> =>
  Effect.gen(function* () {
    const outer = yield* Environment
    const options = withInherited(begin.options, outer.handed)
    const context =
      begin._tag === "Resume" ? begin.state.context : (begin.options.context ?? (yield* RunContext.RunContext))
    const maxDepth = options.maxDepth ?? outer.maxDepth
    const refuse = (reason: AgentError.Reason) =>
      new AgentError.AgentError({
        agent: machine.name,
        reason,
        ...(begin._tag === "Resume" ? { state: begin.state } : undefined)
      })
    if (outer.depth > maxDepth) return yield* refuse(new AgentError.MaxDepth({ limit: maxDepth }))
    const deadline = yield* deadlineOf(options, outer.deadline)
    const environment: Environment = { depth: outer.depth + 1, maxDepth, deadline, parent: undefined, handed: {} }
    const emit = outer.parent === undefined ? sink.emit : outer.parent.emit
    const streaming = outer.parent === undefined ? sink.streaming : outer.parent.streaming

    // What the agent's own Effects open is closed with the run, or with the caller's scope where there is one.
    const ambient = yield* Effect.serviceOption(Scope.Scope)
    const inScope = (own: Scope.Scope) =>
      Effect.provideService(
        machine.prepare,
        Scope.Scope,
        Option.getOrElse(ambient, () => own)
      )

    const running = Effect.fnUntraced(function* (scope: Scope.Scope) {
      const prepared = yield* Effect.mapError(inScope(scope), refuse)
      const make: MakeRecorder = (state) => makeRecorder(state, options, emit)
      const { first, recorder } = yield* Effect.mapError(
        begin._tag === "Fresh"
          ? startRun(machine.name, prepared, begin, context, outer.depth, make)
          : resumeRun(prepared, begin, make),
        refuse
      )
      const run: Loop = { prepared, recorder, options, streaming, environment }
      yield* first.pipe(
        Effect.andThen(openRun(run, begin)),
        Effect.andThen(runLoop(run)),
        Effect.onExit((exit) =>
          exit._tag === "Failure" && Cause.hasInterrupts(exit.cause)
            ? interrupt(recorder, recorder.conclude, "interrupted")
            : Effect.void
        )
      )
      const result = yield* resultOf(prepared, recorder.state())
      yield* emit({ _tag: "RunFinished", result })
      return result
    })
    return yield* Effect.scopedWith(running).pipe(
      Effect.provideService(RunContext.RunContext, context),
      Effect.provideService(Environment, environment)
    )
  })
