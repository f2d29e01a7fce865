/**
 * The loop of a plan: asks what is next, does it, and records what happened.
 *
 * What is next is said by the pure core, `PlanTransition`. A step is done by the file of
 * that name, a route is chosen by `route`, and what happened goes through the `recorder`,
 * which applies it, has it written, and tells whoever watches.
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as MessageId from "../../../conversation/MessageId.ts"
import * as Nesting from "../../../agent/Nesting.ts"
import { RunContext } from "../../../tool/RunContext.ts"
import * as PlanError from "../../PlanError.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type * as PlanInput from "../../PlanInput.ts"
import type { ResumeOptions } from "../../PlanOptions.ts"
import type { PlanOutcome } from "../../PlanOutcome.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanStarted } from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import * as PlanTransition from "../../PlanTransition.ts"
import type { BoundPlan } from "../live.ts"
import * as Recorder from "./recorder.ts"
import { inputOf } from "./input.ts"
import * as Ending from "./ending.ts"
import * as Route from "./route.ts"
import * as Rules from "./rules.ts"
import type { Run } from "./run.ts"
import * as Step from "./step.ts"

export interface Sink {
  /** Whether somebody wants what agents say while they say it. */
  readonly streaming: boolean
  readonly emit: (event: PlanEvent<unknown>) => Effect.Effect<void>
}

/** Where a run begins: a fresh one, or a state to go on from. */
export type Begin =
  | { readonly _tag: "Start"; readonly input: PlanInput.Input }
  | { readonly _tag: "Resume"; readonly state: PlanRunState; readonly input?: never }

type Steps = readonly [string, ...Array<string>]

/** By how many milliseconds what runs inside a step may outlast the run, which stops first and says so. */
const grace = 1000

const timedOut = "timeout"

/** How many may run at a time; a number that makes no sense is a bug of the caller. */
export const atATime = (
  option: string,
  concurrency: number | "unbounded" | undefined
): Effect.Effect<number | "unbounded"> => {
  if (concurrency === undefined || concurrency === "unbounded" || concurrency === Infinity) {
    return Effect.succeed("unbounded")
  }
  return concurrency >= 1
    ? Effect.succeed(Math.floor(concurrency))
    : Effect.die(new RangeError(`${option}: expected a number of at least 1 or "unbounded", found ${concurrency}`))
}

const started = Effect.fnUntraced(function* (
  bound: BoundPlan,
  input: PlanInput.Input,
  options: ResumeOptions,
  depth: number
): Effect.fn.Return<PlanStarted, PlanError.PlanError> {
  return {
    _tag: "PlanStarted",
    at: yield* DateTime.now,
    runId: `run_${(yield* MessageId.next).replace(/^msg_/, "")}`,
    plan: bound.definition.name,
    digest: bound.digest,
    depth,
    maxIterations: options.maxIterations ?? bound.definition.maxIterations,
    input: yield* inputOf(bound.definition.name, input),
    context: options.context ?? (yield* RunContext)
  }
})

/** Ends the run as `Interrupted`, unless it has ended. What was deferred is written in any case. */
const interrupt = Effect.fnUntraced(function* ({ recorder }: Run, reason: string | undefined) {
  const state = recorder.state()
  if (state.outcome !== undefined) return yield* recorder.flush
  const at = yield* DateTime.now
  const why = state.interrupted ?? (reason === undefined ? {} : { reason })
  const outcome: PlanOutcome = { _tag: "Interrupted", ...why }
  if (state.interrupted === undefined) {
    return yield* recorder.record({ _tag: "PlanInterrupted", at, ...why }, { _tag: "PlanFinished", at, outcome })
  }
  yield* recorder.record({ _tag: "PlanFinished", at, outcome })
})

const turn = Effect.fnUntraced(function* (run: Run, steps: Steps) {
  const { bound, options, recorder, sink } = run
  const [first] = steps
  const isBand = bound.definition.steps[bound.positions.get(first) ?? -1]?.parallel === true
  if (!isBand) return yield* Step.run(run, first, true)
  const concurrency = yield* atATime("concurrency", options.concurrency)
  yield* sink.emit({ _tag: "BandStarted", path: [], steps })
  yield* Effect.forEach(steps, (step) => Step.run(run, step, false), { concurrency, discard: true })
  if (recorder.state().turn === undefined) yield* sink.emit({ _tag: "BandFinished", path: [], steps })
})

const route = Effect.fnUntraced(function* (run: Run, step: string) {
  const { bound, recorder } = run
  const definition = bound.definition.steps[bound.positions.get(step) ?? -1]
  if (definition === undefined) return yield* Effect.die(new Error(`no step ${JSON.stringify(step)}`))
  if (Route.asksCode(definition)) yield* recorder.flush
  const chosen = yield* Effect.result(Route.choose(run, definition))
  if (Result.isSuccess(chosen)) return yield* recorder.defer(chosen.success)
  const { failure } = chosen.failure
  run.reasons.set(step, chosen.failure)
  yield* finish(run, {
    _tag: "Failed",
    step,
    failure: { ...failure, type: chosen.failure._tag, message: chosen.failure.message }
  })
})

const finish = Effect.fnUntraced(function* ({ recorder }: Run, outcome: PlanOutcome) {
  if (recorder.state().outcome !== undefined) return yield* recorder.flush
  yield* recorder.record({ _tag: "PlanFinished", at: yield* DateTime.now, outcome })
})

/** Whether somebody wants the run to stop before the next turn. */
const stopping = Effect.fnUntraced(function* (run: Run) {
  if (run.stopped === undefined && run.options.interruptWhen !== undefined) {
    run.stopped = yield* run.options.interruptWhen()
  }
  return run.stopped !== undefined
})

const loop = Effect.fnUntraced(function* (run: Run) {
  const { recorder, rules } = run
  for (;;) {
    if (run.stopped !== undefined) return yield* interrupt(run, run.stopped.reason)
    const action = PlanTransition.next(rules, recorder.state())
    switch (action._tag) {
      case "Finish":
        return yield* finish(run, yield* Ending.checked(run, action.outcome))
      case "ChooseRoute":
        yield* route(run, action.step)
        break
      case "RunSteps": {
        yield* recorder.flush
        if (yield* stopping(run)) break
        yield* turn(run, action.steps)
      }
    }
  }
})

/** Runs until the end or the deadline. */
const within = Effect.fnUntraced(function* (run: Run, deadline: number | undefined) {
  if (deadline === undefined) return yield* loop(run)
  const left = deadline - (yield* Clock.currentTimeMillis)
  const ended = yield* Effect.timeoutOrElse(Effect.as(loop(run), true), {
    duration: Duration.millis(Math.max(0, left)),
    orElse: () => Effect.succeed(false)
  })
  if (!ended) yield* interrupt(run, timedOut)
})

/** Decisions as facts. */
const decide = Effect.fnUntraced(function* ({ options, recorder }: Run) {
  const decided = PlanTransition.decide(recorder.state(), options.decisions ?? [], yield* DateTime.now)
  if (Result.isFailure(decided)) return yield* decided.failure
  yield* Effect.forEach(decided.success, recorder.defer, { discard: true })
})

/** What is recorded before the loop. */
const open = Effect.fnUntraced(function* (run: Run, begin: Begin) {
  const { options, recorder, rules } = run
  if (begin._tag === "Start") return yield* recorder.begin
  yield* Rules.learn(rules, begin.state)
  yield* Effect.mapError(decide(run), (reason) => Ending.failed(run, reason))
  const { context, maxIterations } = options
  yield* recorder.record({
    _tag: "PlanResumed",
    at: yield* DateTime.now,
    ...(maxIterations === undefined ? undefined : { maxIterations }),
    ...(context === undefined ? undefined : { context })
  })
})

/** A run that gave its answer gives it again. */
const isOver = (state: PlanRunState): boolean =>
  state.outcome?._tag === "Completed" || state.outcome?._tag === "Concluded"

const deadlineOf = Effect.fnUntraced(function* (options: ResumeOptions, outer: number | undefined) {
  const total = options.timeouts?.total
  if (total === undefined) return outer
  const own = (yield* Clock.currentTimeMillis) + Duration.toMillis(total)
  return outer === undefined ? own : Math.min(outer, own)
})

/** From the first fact to the last. Interrupted, it says so in the run and stays interrupted. */
const toTheEnd = (run: Run, begin: Begin, deadline: number | undefined): Effect.Effect<void, PlanError.PlanError> =>
  open(run, begin).pipe(
    Effect.andThen(
      Effect.suspend(() => Effect.provideService(within(run, deadline), RunContext, run.recorder.state().context))
    ),
    Nesting.inside(run.level),
    Effect.onExit((exit) =>
      exit._tag === "Failure" && Cause.hasInterruptsOnly(exit.cause) ? interrupt(run, "interrupted") : Effect.void
    ),
    Effect.mapError((error) => Ending.failed(run, error.reason))
  )

const driveWith: Run["nest"] = (rules, begin, options, sink) =>
  Effect.gen(function* () {
    const { bound } = rules
    const plan = bound.definition.name
    if (begin._tag === "Resume") {
      const { state } = begin
      const fits = PlanTransition.checkDigest(state, bound.digest)
      if (Result.isFailure(fits)) return yield* new PlanError.PlanError({ plan, reason: fits.failure, state })
    }
    const outer = yield* Nesting.level
    const deadline = yield* deadlineOf(options, outer.deadline)
    const began: Recorder.Began =
      begin._tag === "Resume"
        ? { _tag: "State", state: begin.state }
        : { _tag: "Event", event: yield* started(bound, begin.input, options, outer.depth) }
    const run: Run = {
      bound,
      rules,
      recorder: Recorder.make({ rules, began, journal: options.journal, emit: sink.emit }),
      options,
      sink,
      level: {
        depth: outer.depth + 1,
        maxDepth: outer.maxDepth,
        deadline: deadline === undefined ? undefined : deadline + grace
      },
      raise: begin._tag === "Resume" ? (options.raise ?? options.maxIterations) : undefined,
      reasons: new Map(),
      stopped: undefined,
      nest: driveWith
    }
    const over = begin._tag === "Resume" && isOver(begin.state)
    yield* over ? Effect.mapError(decide(run), (reason) => Ending.failed(run, reason)) : toTheEnd(run, begin, deadline)
    const result = yield* Ending.resultOf(run)
    yield* sink.emit({ _tag: "PlanFinished", path: [], result })
    return result
  }).pipe(
    Effect.withSpan(`invoke_plan ${rules.definition.name}`, {
      attributes: { "emissary.plan.name": rules.definition.name }
    })
  )

/** Runs a plan from where `begin` says to its result. */
export const drive = (
  bound: BoundPlan,
  begin: Begin,
  options: ResumeOptions,
  sink: Sink
): Effect.Effect<PlanResult<unknown>, PlanError.PlanError> =>
  Effect.suspend(() => driveWith(Rules.learning(bound), begin, options, sink))
