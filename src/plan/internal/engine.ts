/**
 * Runs a plan: records events, performs actions, and handles deadlines, interruption, streams and resumes.
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as driver from "../../agent/internal/driver.ts"
import * as Message from "../../conversation/Message.ts"
import * as RunContext from "../../tool/RunContext.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import * as PlanError from "../PlanError.ts"
import type { PlanEvent } from "../PlanEvent.ts"
import * as PlanRun from "../PlanRun.ts"
import * as livePlan from "./livePlan.ts"
import * as performStep from "./performStep.ts"
import * as planNames from "./planNames.ts"
import * as planTransition from "./planTransition.ts"

type StepNames = readonly [string, ...Array<string>]

/** By how many milliseconds what runs inside a step may outlast the run, which stops first and says so. */
const graceMillis = 1000

const timeoutReason = "timeout"

const planStarted = Effect.fnUntraced(function* (
  bound: livePlan.BoundPlan,
  input: PlanRun.Input,
  options: livePlan.ResumeOptions,
  depth: number
): Effect.fn.Return<planTransition.EventOf<"PlanStarted">, PlanError.PlanError> {
  return {
    _tag: "PlanStarted",
    at: yield* DateTime.now,
    runId: `run_${(yield* Message.nextId).replace(/^msg_/, "")}`,
    plan: bound.definition.name,
    digest: bound.digest,
    depth,
    maxIterations: options.maxIterations ?? bound.definition.maxIterations,
    input: yield* performStep.resolveInput(bound.definition.name, input),
    context: options.context ?? (yield* RunContext.RunContext)
  }
})

/** Ends the run as `Interrupted`, unless it has ended. What was deferred is written in any case. */
const interruptRun = Effect.fnUntraced(function* ({ recorder }: performStep.ActiveRun, reason: string | undefined) {
  const state = recorder.state()
  if (state.outcome !== undefined) return yield* recorder.flush
  const at = yield* DateTime.now
  const why = state.interrupted ?? (reason === undefined ? {} : { reason })
  const outcome: PlanRun.Outcome = { _tag: "Interrupted", ...why }
  if (state.interrupted === undefined) {
    return yield* recorder.record({ _tag: "PlanInterrupted", at, ...why }, { _tag: "PlanFinished", at, outcome })
  }
  yield* recorder.record({ _tag: "PlanFinished", at, outcome })
})

const runGroup = Effect.fnUntraced(function* (run: performStep.ActiveRun, steps: StepNames) {
  const { bound, options, recorder, sink } = run
  const [first] = steps
  const isBand = bound.definition.steps[bound.positions.get(first) ?? -1]?.parallel === true
  if (!isBand) return yield* performStep.runStep(run, first, true)
  const concurrency = yield* performStep.checkConcurrency(options.concurrency)
  yield* sink.emit({ _tag: "BandStarted", path: [], steps })
  yield* Effect.forEach(steps, (step) => performStep.runStep(run, step, false), { concurrency, discard: true })
  if (recorder.state().turn === undefined) yield* sink.emit({ _tag: "BandFinished", path: [], steps })
})

const takeRoute = Effect.fnUntraced(function* (run: performStep.ActiveRun, step: string) {
  const { bound, recorder } = run
  const definition = bound.definition.steps[bound.positions.get(step) ?? -1]
  if (definition === undefined) return yield* Effect.die(new Error(`no step ${JSON.stringify(step)}`))
  if (performStep.usesPredicates(definition)) yield* recorder.flush
  const chosen = yield* Effect.result(performStep.chooseRoute(run, definition))
  if (Result.isSuccess(chosen)) return yield* recorder.defer(chosen.success)
  run.failures.set(step, chosen.failure)
  yield* finishRun(run, { _tag: "Failed", step, failure: chosen.failure.recorded })
})

const finishRun = Effect.fnUntraced(function* ({ recorder }: performStep.ActiveRun, outcome: PlanRun.Outcome) {
  if (recorder.state().outcome !== undefined) return yield* recorder.flush
  yield* recorder.record({ _tag: "PlanFinished", at: yield* DateTime.now, outcome })
})

/** Whether somebody wants the run to stop before the next turn. */
const checkStop = Effect.fnUntraced(function* (run: performStep.ActiveRun) {
  if (run.stopped === undefined && run.options.interruptWhen !== undefined) {
    run.stopped = yield* run.options.interruptWhen()
  }
  return run.stopped !== undefined
})

const runLoop = Effect.fnUntraced(function* (run: performStep.ActiveRun) {
  const { recorder, rules } = run
  for (;;) {
    if (run.stopped !== undefined) return yield* interruptRun(run, run.stopped.reason)
    const action = planTransition.next(rules, recorder.state())
    switch (action._tag) {
      case "Finish":
        return yield* finishRun(run, yield* checkOutcome(run, action.outcome))
      case "ChooseRoute":
        yield* takeRoute(run, action.step)
        break
      case "RunSteps": {
        yield* recorder.flush
        if (yield* checkStop(run)) break
        yield* runGroup(run, action.steps)
      }
    }
  }
})

/** Runs until the end or the deadline. */
const runUntilDeadline = Effect.fnUntraced(function* (run: performStep.ActiveRun, deadline: number | undefined) {
  if (deadline === undefined) return yield* runLoop(run)
  const left = deadline - (yield* Clock.currentTimeMillis)
  const ended = yield* Effect.timeoutOrElse(Effect.as(runLoop(run), true), {
    duration: Duration.millis(Math.max(0, left)),
    orElse: () => Effect.succeed(false)
  })
  if (!ended) yield* interruptRun(run, timeoutReason)
})

/** Decisions as facts. */
const recordDecisions = Effect.fnUntraced(function* ({ options, recorder }: performStep.ActiveRun) {
  const decided = planTransition.decide(recorder.state(), options.decisions ?? [], yield* DateTime.now)
  if (Result.isFailure(decided)) return yield* Effect.fail(decided.failure)
  yield* Effect.forEach(decided.success, recorder.defer, { discard: true })
})

/** What is recorded before the loop. */
const openRun = Effect.fnUntraced(function* (run: performStep.ActiveRun, begin: performStep.RunStart) {
  const { options, recorder, rules } = run
  if (begin._tag === "Start") return yield* recorder.begin
  yield* learnNested(rules, begin.state)
  yield* Effect.mapError(recordDecisions(run), (reason) => failedRun(run, { reason }))
  const { context, maxIterations } = options
  yield* recorder.record({
    _tag: "PlanResumed",
    at: yield* DateTime.now,
    ...(maxIterations === undefined ? undefined : { maxIterations }),
    ...(context === undefined ? undefined : { context })
  })
})

/** A run that gave its answer gives it again. */
const isOver = (state: PlanRun.State): boolean =>
  state.outcome?._tag === "Completed" || state.outcome?._tag === "Concluded"

const deadlineOf = Effect.fnUntraced(function* (options: livePlan.ResumeOptions, outer: number | undefined) {
  const total = options.timeouts?.total
  if (total === undefined) return outer
  const own = (yield* Clock.currentTimeMillis) + Duration.toMillis(total)
  return outer === undefined ? own : Math.min(outer, own)
})

/** From the first fact to the last. Interrupted, it says so in the run and stays interrupted. */
const runToEnd = (
  run: performStep.ActiveRun,
  begin: performStep.RunStart,
  deadline: number | undefined
): Effect.Effect<void, PlanError.PlanError> =>
  openRun(run, begin).pipe(
    Effect.andThen(
      Effect.suspend(() =>
        Effect.provideService(runUntilDeadline(run, deadline), RunContext.RunContext, run.recorder.state().context)
      )
    ),
    driver.nestRuns(run.level),
    Effect.onExit((exit) =>
      exit._tag === "Failure" && Cause.hasInterruptsOnly(exit.cause) ? interruptRun(run, "interrupted") : Effect.void
    ),
    Effect.mapError((error) =>
      failedRun(run, { reason: error.reason, cause: Option.getOrUndefined(PlanError.causeOf(error)) })
    )
  )

const driveWith: performStep.ActiveRun["nest"] = (rules, begin, options, sink) =>
  Effect.gen(function* () {
    const { bound } = rules
    const plan = bound.definition.name
    if (begin._tag === "Resume") {
      const { state } = begin
      const fits = planTransition.checkDigest(state, bound.digest)
      if (Result.isFailure(fits)) return yield* new PlanError.PlanError({ plan, reason: fits.failure, state })
    }
    const outer = yield* driver.runDepth
    const deadline = yield* deadlineOf(options, outer.deadline)
    const began: RecorderStart =
      begin._tag === "Resume"
        ? { _tag: "State", state: begin.state }
        : { _tag: "Event", event: yield* planStarted(bound, begin.input, options, outer.depth) }
    const run: performStep.ActiveRun = {
      bound,
      rules,
      recorder: makeRecorder({ rules, began, journal: options.journal, emit: sink.emit }),
      options,
      sink,
      level: {
        depth: outer.depth + 1,
        maxDepth: outer.maxDepth,
        deadline: deadline === undefined ? undefined : deadline + graceMillis
      },
      raise: begin._tag === "Resume" ? (options.raise ?? options.maxIterations) : undefined,
      failures: new Map(),
      stopped: undefined,
      nest: driveWith
    }
    const over = begin._tag === "Resume" && isOver(begin.state)
    yield* over
      ? Effect.mapError(recordDecisions(run), (reason) => failedRun(run, { reason }))
      : runToEnd(run, begin, deadline)
    const result = yield* resultOf(run)
    yield* sink.emit({ _tag: "PlanFinished", path: [], result })
    return result
  }).pipe(
    Effect.withSpan(`invoke_plan ${rules.definition.name}`, {
      attributes: { "emissary.plan.name": rules.definition.name }
    })
  )

/** Runs a plan from where `begin` says to its result. */
export const drive = (
  bound: livePlan.BoundPlan,
  begin: performStep.RunStart,
  options: livePlan.ResumeOptions,
  sink: performStep.EventSink = { streaming: false, emit: () => Effect.void }
): Effect.Effect<PlanRun.Result<unknown>, PlanError.PlanError> =>
  Effect.suspend(() => driveWith(makeLearningRules(bound), begin, options, sink))

/** What there is to begin with: the first fact, which is not written yet, or a state. */
type RecorderStart =
  | { readonly _tag: "Event"; readonly event: planTransition.EventOf<"PlanStarted"> }
  | { readonly _tag: "State"; readonly state: PlanRun.State }

interface RecorderOptions {
  readonly rules: planTransition.Rules
  readonly began: RecorderStart
  readonly journal: livePlan.Journal | undefined
  readonly emit: (event: PlanEvent<unknown>) => Effect.Effect<void>
}

/** What was not written must not be followed by anything, whyever it was not. */
const journalFailure = (
  { definition }: planTransition.Rules,
  cause: Cause.Cause<PlanError.PlanError>
): PlanError.PlanError => {
  const problem =
    "The journal died of a defect, which is a bug. PlanError.causeOf(error) is the cause, in the process where it happened."
  const error = new PlanError.PlanError({ plan: definition.name, reason: { _tag: "JournalFailed", problem } })
  return PlanError.withCause(error, Cause.squash(cause))
}

const makeRecorder = ({ began, emit, journal, rules }: RecorderOptions): performStep.Recorder => {
  let state = began._tag === "State" ? began.state : planTransition.start(rules, began.event)
  let pending: Array<PlanRun.Event> = began._tag === "State" ? [] : [began.event]
  let broken: PlanError.PlanError | undefined
  const lock = Semaphore.makeUnsafe(1)

  /** A driver that applies a fact which does not fit has a bug, and dies of it. */
  const apply = (event: PlanRun.Event): Effect.Effect<ReadonlyArray<PlanEvent<unknown>>> =>
    Effect.suspend(() => {
      const before = state
      const applied = planTransition.apply(rules, before, event)
      if (Result.isFailure(applied)) return Effect.die(applied.failure)
      state = applied.success
      pending.push(event)
      return Effect.succeed(viewsOf(rules.definition, before, event, state))
    })

  const write = Effect.suspend((): Effect.Effect<ReadonlyArray<PlanEvent<unknown>>, PlanError.PlanError> => {
    const [first, ...rest] = pending
    pending = []
    if (journal === undefined || first === undefined) return Effect.succeed([])
    const written = state
    return journal([first, ...rest], written).pipe(
      Effect.catchCause((cause) =>
        Cause.hasDies(cause) && !Cause.hasFails(cause)
          ? Effect.fail(journalFailure(rules, cause))
          : Effect.failCause(cause)
      ),
      Effect.tapError((error) =>
        Effect.sync(() => {
          broken = error
        })
      ),
      Effect.map((done): ReadonlyArray<PlanEvent<unknown>> =>
        done === undefined ? [] : [{ _tag: "Checkpointed", key: done.key, state: written }]
      )
    )
  })

  // A reader who is slow may be left at any time; what was applied and written stays.
  const tell = (views: ReadonlyArray<PlanEvent<unknown>>) =>
    Effect.exit(Effect.interruptible(Effect.forEach(views, emit, { discard: true })))

  const step = (
    events: ReadonlyArray<PlanRun.Event>,
    writing: Effect.Effect<ReadonlyArray<PlanEvent<unknown>>, PlanError.PlanError>
  ): Effect.Effect<void, PlanError.PlanError> =>
    Effect.uninterruptible(
      lock.withPermit(
        Effect.suspend((): Effect.Effect<void, PlanError.PlanError> => {
          if (broken !== undefined) return Effect.fail(broken)
          return Effect.forEach(events, apply).pipe(
            Effect.flatMap((views) => Effect.map(writing, (written) => [...views.flat(), ...written])),
            Effect.flatMap(tell)
          )
        })
      )
    )

  return {
    state: () => state,
    broken: () => broken,
    begin: step(
      [],
      Effect.suspend(() => {
        const views = began._tag === "Event" ? viewsOf(rules.definition, state, began.event, state) : []
        return Effect.map(write, (written) => [...views, ...written])
      })
    ),
    defer: (event) => Effect.ignore(step([event], Effect.succeed([]))),
    record: (...events) => step(events, write),
    flush: Effect.suspend(() => (pending.length === 0 ? Effect.void : step([], write)))
  }
}

type Views = ReadonlyArray<PlanEvent<unknown>>

const noPath: ReadonlyArray<string> = []

const positionOf = (definition: PlanDefinition, step: string): number =>
  definition.steps.findIndex(({ name }) => name === step)

/** The steps that a jump leaves out. */
const skippedViews = (definition: PlanDefinition, router: string, to: string): Views =>
  definition.steps
    .slice(positionOf(definition, router) + 1, Math.max(0, positionOf(definition, to)))
    .map(({ name }) => ({ _tag: "StepSkipped", path: noPath, step: name, router }))

/** What is told when a step that ended without a route does not go on as declared: its branch is over. */
const rejoinedViews = (
  definition: PlanDefinition,
  before: PlanRun.State,
  step: string,
  after: PlanRun.State
): Views => {
  const to = after.cursor
  if (to === undefined || after.choosing !== undefined) return []
  if (before.rejoins.length <= after.rejoins.length) return []
  if (definition.steps[positionOf(definition, step) + 1]?.name === to) return []
  return [{ _tag: "RouteTaken", path: noPath, step, to, rejoin: true }, ...skippedViews(definition, step, to)]
}

const viewsOfEvent = (
  definition: PlanDefinition,
  before: PlanRun.State,
  event: PlanRun.Event,
  after: PlanRun.State
): Views => {
  switch (event._tag) {
    case "PlanStarted":
    case "PlanResumed":
      return [{ _tag: "PlanStarted", path: noPath, resumed: event._tag === "PlanResumed", state: after }]
    case "StepStarted": {
      const status = PlanRun.member(after, event.step)?.status
      const attempt = status?._tag === "Running" ? status.attempt : 1
      return [{ _tag: "StepStarted", path: noPath, step: event.step, attempt }]
    }
    case "StepRetried": {
      const { attempt, failure, step } = event
      return [{ _tag: "StepRetried", path: noPath, step, attempt, failure }]
    }
    case "StepFinished": {
      const { record } = event
      const duration = Duration.millis(
        DateTime.toEpochMillis(record.finishedAt) - DateTime.toEpochMillis(record.startedAt)
      )
      return [
        { _tag: "StepFinished", path: noPath, step: record.step, record, duration },
        ...rejoinedViews(definition, before, record.step, after)
      ]
    }
    case "StepFailed":
      return [{ _tag: "StepFailed", path: noPath, step: event.step, failure: event.failure }]
    case "StepPaused":
      return [{ _tag: "StepPaused", path: noPath, step: event.step, reason: event.reason }]
    case "RouteTaken": {
      const { step, to } = event
      if (to === undefined) return rejoinedViews(definition, before, step, after)
      return [{ _tag: "RouteTaken", path: noPath, step, to, rejoin: false }, ...skippedViews(definition, step, to)]
    }
    default:
      return []
  }
}

/** The events of one fact: what it means, and then the fact itself with the state that holds it. */
const viewsOf = (
  definition: PlanDefinition,
  before: PlanRun.State,
  event: PlanRun.Event,
  after: PlanRun.State
): Views => [...viewsOfEvent(definition, before, event, after), { _tag: "StateChanged", event, state: after }]

const decodePlanOutput = (
  { bound, recorder }: performStep.ActiveRun,
  output: Schema.Json
): Effect.Effect<unknown, performStep.Failure & { readonly reason: planTransition.ReasonOf<"OutputInvalid"> }> => {
  if (bound.output === undefined) return Effect.succeed(output)
  return Effect.mapError(performStep.decodeOutput(bound.output, output, "output"), (error) => {
    const last = Option.getOrUndefined(PlanRun.lastRecord(recorder.state()))
    const failure = { type: "OutputInvalid", message: error.message, retryable: false }
    return { reason: { _tag: "OutputInvalid", step: last?.step ?? "", failure }, cause: error }
  })
}

/** The outcome to record: an output that does not fit the plan's schema is a failure. */
const checkOutcome = (run: performStep.ActiveRun, outcome: PlanRun.Outcome): Effect.Effect<PlanRun.Outcome> => {
  if (outcome._tag !== "Completed") return Effect.succeed(outcome)
  return Effect.match(decodePlanOutput(run, outcome.output), {
    onSuccess: (): PlanRun.Outcome => outcome,
    onFailure: (failed): PlanRun.Outcome => {
      const { failure, step } = failed.reason
      run.failures.set(step, failed)
      return { _tag: "Failed", step, failure }
    }
  })
}

const outcomeFailure = (
  run: performStep.ActiveRun,
  outcome: Extract<PlanRun.Outcome, { readonly _tag: "Failed" | "LimitReached" }>
): performStep.Failure => {
  if (outcome._tag === "LimitReached") {
    return { reason: { _tag: "MaxIterationsExceeded", limit: outcome.limit, next: outcome.next } }
  }
  const { failure, step } = outcome
  return run.failures.get(step) ?? { reason: { _tag: "StepFailed", step, path: [], failure } }
}

const failedRun = (
  { bound, recorder }: performStep.ActiveRun,
  { cause, reason }: performStep.Failure
): PlanError.PlanError =>
  PlanError.withCause(new PlanError.PlanError({ plan: bound.definition.name, reason, state: recorder.state() }), cause)

/** The result of a run that has ended, or the error it ended with. */
const resultOf = (run: performStep.ActiveRun): Effect.Effect<PlanRun.Result<unknown>, PlanError.PlanError> =>
  Effect.suspend((): Effect.Effect<PlanRun.Result<unknown>, PlanError.PlanError> => {
    const state = run.recorder.state()
    const { iterations, outcome, usage } = state
    const base = { state, usage, iterations, writes: PlanRun.writes(state) }
    if (outcome === undefined) return Effect.die(new Error("a run that has not ended has no result"))
    switch (outcome._tag) {
      case "Completed":
        return Effect.mapBoth(decodePlanOutput(run, outcome.output), {
          onFailure: (failure) => failedRun(run, failure),
          onSuccess: (output) => ({
            ...base,
            outcome: "Completed" as const,
            output,
            payload: outcome.output,
            text: planNames.payloadText(outcome.output)
          })
        })
      case "Concluded":
        return Effect.succeed({ ...base, outcome: "Concluded", answer: outcome.answer })
      case "Paused":
        return Effect.succeed({ ...base, outcome: "Paused", pauses: outcome.pauses, requests: outcome.requests })
      case "Interrupted":
        return Effect.succeed({ ...base, outcome: "Interrupted", reason: outcome.reason })
      case "Failed":
      case "LimitReached":
        return Effect.fail(failedRun(run, outcomeFailure(run, outcome)))
    }
  })

const makeLearningRules = (bound: livePlan.BoundPlan): performStep.LearningRules => {
  const known = new Map<string, performStep.LearningRules>()
  return {
    bound,
    definition: bound.definition,
    nested: (step) => known.get(step),
    found: (step, agent) => {
      if (!livePlan.isBound(agent)) return undefined
      const inner = agent.live
      const before = known.get(step)
      if (before?.bound === inner) return before
      const rules = makeLearningRules(inner)
      known.set(step, rules)
      return rules
    }
  }
}

/** The plan that a step is, if its agent is one. */
const planOfStep = (
  bound: livePlan.BoundPlan,
  step: string
): Effect.Effect<Option.Option<livePlan.Bound<unknown, unknown>>> => {
  const target = bound.targets[bound.positions.get(step) ?? -1]
  return target?._tag === "Agent"
    ? Effect.map(target.agent, (agent) => (livePlan.isBound(agent) ? Option.some(agent) : Option.none()))
    : Effect.succeedNone
}

/** Finds the plans inside a state that goes on. */
const learnNested = (rules: performStep.LearningRules, state: PlanRun.State): Effect.Effect<void> =>
  Effect.forEach(
    PlanRun.openSteps(state),
    (member) => {
      const { step } = member
      const child = PlanRun.childOf(member)
      if (child?._tag !== "Plan") return Effect.void
      return Effect.flatMap(planOfStep(rules.bound, step), (plan) => {
        const inner = Option.isSome(plan) ? rules.found(step, plan.value) : undefined
        return inner === undefined ? Effect.void : learnNested(inner, child.state)
      })
    },
    { discard: true }
  )

/** Rules that know all plans inside, and what they were made of. */
interface CompleteRules extends planTransition.Rules {
  readonly digest: string
  readonly nested: (step: string) => CompleteRules | undefined
}

/** The rules of a plan with all plans inside it, to replay a run that nothing is known of yet. */
export const completeRules = (bound: livePlan.BoundPlan): Effect.Effect<CompleteRules> => collectRules(bound, new Map())

/** The first plan inside that began as another one than it is now. */
export const changedNestedPlan = (
  rules: CompleteRules,
  events: ReadonlyArray<PlanRun.Event>
): PlanError.PlanError | undefined => {
  for (const event of events) {
    let inside: CompleteRules | undefined = rules
    let fact: PlanRun.Event = event
    while (inside !== undefined && fact._tag === "NestedChanged") {
      inside = inside.nested(fact.step)
      fact = fact.event
    }
    if (inside === undefined || inside === rules || fact._tag !== "PlanStarted" || fact.digest === inside.digest)
      continue
    const reason = { _tag: "PlanChanged", expected: fact.digest, found: inside.digest } as const
    return new PlanError.PlanError({ plan: inside.definition.name, reason })
  }
  return undefined
}

const collectRules = (
  bound: livePlan.BoundPlan,
  seen: Map<livePlan.BoundPlan, CompleteRules>
): Effect.Effect<CompleteRules> =>
  Effect.suspend(() => {
    const before = seen.get(bound)
    if (before !== undefined) return Effect.succeed(before)
    const nested = new Map<string, CompleteRules>()
    const rules: CompleteRules = {
      definition: bound.definition,
      digest: bound.digest,
      nested: (step) => nested.get(step)
    }
    seen.set(bound, rules)
    const add = (step: string) =>
      Effect.flatMap(planOfStep(bound, step), (plan) =>
        Option.isSome(plan)
          ? Effect.map(collectRules(plan.value.live, seen), (inner) => void nested.set(step, inner))
          : Effect.void
      )
    return Effect.as(
      Effect.forEach(bound.definition.steps, ({ name }) => add(name), { discard: true }),
      rules
    )
  })
