/**
 * The loop: asks what is next, does it, and records what happened.
 *
 * The methods of an agent (`methods`) begin here, with a `machine`: that of an agent
 * (`agentMachine`) finds its model, instructions and tools by a `blueprint`, that of
 * something else (`delegate`) answers as it likes. What is next is said by the pure core
 * in `transition`; the machine does it, an agent's in `callModel` or `runTools`; and what
 * happened goes through the `recorder`, which applies it and tells whoever watches.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as MessageId from "../../conversation/MessageId.ts"
import { RunContext } from "../../tool/RunContext.ts"
import type { AgentEvent } from "../AgentEvent.ts"
import * as AgentError from "../AgentError.ts"
import type { MaxSteps, RunStarted } from "../RunEvent.ts"
import type { Input, ResumeOptions, RunOptions } from "../RunOptions.ts"
import type { RunResult } from "../RunResult.ts"
import type { RunState } from "../RunState.ts"
import * as RunTransition from "../RunTransition.ts"
import { Environment, type Handed } from "./environment.ts"
import { interrupt } from "./interrupt.ts"
import type { Machine, Prepared, Run } from "./machine.ts"
import * as Recorder from "./recorder.ts"

export interface Sink {
  readonly streaming: boolean
  readonly emit: (event: AgentEvent<unknown>) => Effect.Effect<void>
}

/** Where a run begins: a fresh one, or a state to go on from. */
export type Begin =
  | { readonly _tag: "Fresh"; readonly input: Input; readonly options: RunOptions }
  | { readonly _tag: "Resume"; readonly state: RunState; readonly options: ResumeOptions }

/** A budget below one still allows the one call that every run makes. */
const budget = (maxSteps: MaxSteps): MaxSteps => (maxSteps === "unlimited" ? maxSteps : Math.max(1, maxSteps))

const invalidConversation = (problem: string, error?: unknown): AgentError.Reason =>
  AgentError.withCause(new AgentError.ConversationInvalid({ problem }), error)

const startConversation = Effect.fnUntraced(function* ({ instructions }: Prepared<unknown>, options: RunOptions) {
  if (options.conversation === undefined) return yield* Conversation.make({ system: instructions })
  if (options.instructions !== "replace") return options.conversation
  const replaced = yield* Conversation.make({ system: instructions })
  const rest = Conversation.messages(options.conversation).filter((message) => message.role !== "system")
  return yield* Effect.mapError(Effect.fromResult(Conversation.appendAll(replaced, rest)), (error) =>
    invalidConversation(error.message, error)
  )
})

const started = Effect.fnUntraced(function* (
  agent: string,
  prepared: Prepared<unknown>,
  begin: Extract<Begin, { readonly _tag: "Fresh" }>,
  context: RunState["context"],
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
    runId: `run_${(yield* MessageId.next).replace(/^msg_/, "")}`,
    agent,
    definition: prepared.digest,
    depth,
    maxSteps: budget(begin.options.maxSteps ?? prepared.maxSteps),
    structured: prepared.structured,
    context,
    conversation
  } satisfies RunStarted
})

const resultOf = Effect.fnUntraced(function* <A>(
  { decode }: Prepared<A>,
  state: RunState
): Effect.fn.Return<RunResult<A>> {
  const last = Conversation.lastAssistantMessage(state.conversation)
  const text = last._tag === "Some" ? Message.text(last.value) : ""
  const base = { text, conversation: state.conversation, usage: state.usage, steps: state.totalSteps, state }
  const outcome = state.outcome
  if (outcome === undefined) return yield* Effect.die(new Error("a run that has not ended has no result"))
  switch (outcome._tag) {
    case "Completed":
      return yield* Effect.match(decode(text, outcome.output), {
        onFailure: (issues): RunResult<A> => ({ ...base, outcome: "InvalidOutput", issues }),
        onSuccess: (value): RunResult<A> => ({ ...base, outcome: "Completed", output: value })
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

interface Loop extends Run {
  readonly prepared: Prepared<unknown>
}

const timedOut = "timeout"

const loop = Effect.fnUntraced(function* (run: Loop) {
  const { environment, options, prepared, recorder } = run
  let stepDeadline: number | undefined
  while (!recorder.stopping()) {
    const action = RunTransition.next(recorder.state())
    if (action._tag === "Finished" || action._tag === "AwaitApproval") {
      const outcome =
        action._tag === "Finished" ? action.outcome : ({ _tag: "AwaitingApproval", requests: action.requests } as const)
      if (recorder.state().outcome === undefined) {
        yield* recorder.record({ _tag: "RunFinished", at: yield* DateTime.now, outcome })
      }
      return
    }
    if (action._tag === "CallModel" && prepared.stepTimeout && options.timeouts?.step !== undefined) {
      stepDeadline = (yield* Clock.currentTimeMillis) + Duration.toMillis(options.timeouts.step)
    }
    const deadline = earliest(stepDeadline, environment.deadline)
    const expired = yield* within(unlessStopped(run, prepared.perform(run, action, deadline)), deadline)
    if (expired) return yield* interrupt(recorder, recorder.record, timedOut)
  }
  const { reason } = yield* Deferred.await(recorder.stopped)
  yield* interrupt(recorder, recorder.record, reason)
})

const unlessStopped = <E>({ options, recorder }: Run, doing: Effect.Effect<void, E>): Effect.Effect<void, E> =>
  options.interruptWhen === undefined ? doing : Effect.raceFirst(doing, Effect.asVoid(Deferred.await(recorder.stopped)))

const earliest = (a: number | undefined, b: number | undefined): number | undefined =>
  a === undefined ? b : b === undefined ? a : Math.min(a, b)

/** Whether the deadline came first. */
const within = <E, R>(
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

const deadlineOf = (options: ResumeOptions, outer: number | undefined): Effect.Effect<number | undefined> => {
  const total = options.timeouts?.total
  return total === undefined
    ? Effect.succeed(outer)
    : Effect.map(Clock.currentTimeMillis, (now) => earliest(now + Duration.toMillis(total), outer))
}

/** What is recorded before the loop: decisions, then the new message, which waits for open calls. */
const open = Effect.fnUntraced(function* (run: Loop, begin: Begin) {
  const { options, prepared, recorder } = run
  const input = begin._tag === "Fresh" ? begin.input : begin.options.input
  const decisions = options.decisions ?? []
  if (decisions.length > 0) {
    const callIds = new Set(decisions.map(({ callId }) => callId))
    yield* prepared.ask(run, callIds)
  }
  const decided = RunTransition.decide(recorder.state(), decisions, yield* DateTime.now)
  for (const event of yield* Effect.mapError(Effect.fromResult(decided), recorder.fail)) {
    yield* recorder.record(event)
  }
  // Also when the hook has stopped the run already: what the user said must not be lost.
  if (input !== undefined) {
    const message = yield* Message.user(input)
    const fits = Conversation.append(Conversation.empty, message)
    if (Result.isFailure(fits)) return yield* recorder.fail(invalidConversation(fits.failure.message, fits.failure))
    const at = yield* DateTime.now
    const maxSteps = budget(options.maxSteps ?? prepared.maxSteps)
    yield* recorder.record({ _tag: "InputAdded", at, message, maxSteps })
  }
})

const fresh = Effect.fnUntraced(function* (
  agent: string,
  prepared: Prepared<unknown>,
  begin: Extract<Begin, { readonly _tag: "Fresh" }>,
  context: RunState["context"],
  depth: number,
  make: MakeRecorder
) {
  const event = yield* started(agent, prepared, begin, context, depth)
  const recorder = make(RunTransition.start(event))
  return { recorder, first: recorder.begin(event) }
})

const resumed = Effect.fnUntraced(function* (
  prepared: Prepared<unknown>,
  { options, state }: Extract<Begin, { readonly _tag: "Resume" }>,
  make: MakeRecorder
) {
  yield* prepared.accept(state)
  const recorder = make(state)
  const maxSteps = options.maxSteps === undefined ? undefined : { maxSteps: budget(options.maxSteps) }
  return { recorder, first: recorder.record({ _tag: "RunResumed", at: yield* DateTime.now, ...maxSteps }) }
})

const withHanded = (options: ResumeOptions, handed: Handed): ResumeOptions => ({
  ...options,
  defects: options.defects ?? handed.defects,
  modelMistakes: options.modelMistakes ?? handed.modelMistakes,
  modelRetry: options.modelRetry ?? handed.modelRetry
})

type MakeRecorder = (state: RunState) => Recorder.Recorder

/** Runs a machine from where `begin` says to its result. */
export const drive = <A>(
  machine: Machine<A>,
  begin: Begin,
  sink: Sink
): Effect.Effect<RunResult<A>, AgentError.AgentError> =>
  Effect.gen(function* () {
    const outer = yield* Environment
    const options = withHanded(begin.options, outer.handed)
    const context = begin._tag === "Resume" ? begin.state.context : (begin.options.context ?? (yield* RunContext))
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
      const make: MakeRecorder = (state) => Recorder.make(state, options, emit)
      const { first, recorder } = yield* Effect.mapError(
        begin._tag === "Fresh"
          ? fresh(machine.name, prepared, begin, context, outer.depth, make)
          : resumed(prepared, begin, make),
        refuse
      )
      const run: Loop = { prepared, recorder, options, streaming, environment }
      yield* first.pipe(
        Effect.andThen(open(run, begin)),
        Effect.andThen(loop(run)),
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
      Effect.provideService(RunContext, context),
      Effect.provideService(Environment, environment)
    )
  })
