/**
 * Runs a plan on the driver of runs: performs its actions, records its events, resumes a state, and makes the result.
 */

import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as agentRun from "../../agent/internal/agentRun.ts"
import * as agentShown from "../../agent/internal/agentShown.ts"
import * as guardTypes from "../../agent/internal/guardTypes.ts"
import * as runSpans from "../../agent/internal/runSpans.ts"
import * as callOptions from "../../payload/internal/options.ts"
import { defined } from "../../payload/internal/values.ts"
import * as durability from "../../run/internal/durability.ts"
import * as children from "../../run/internal/children.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as liveRun from "../../run/internal/liveRun.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import * as runLoop from "../../run/internal/runLoop.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as runRecorder from "../../run/internal/runRecorder.ts"
import * as RunContext from "../../tool/RunContext.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import type { PlanDefinition } from "../PlanDefinition.ts"
import * as PlanError from "../PlanError.ts"
import type { PlanEvent } from "../PlanEvent.ts"
import * as PlanRun from "../PlanRun.ts"
import * as livePlan from "./livePlan.ts"
import * as performStep from "./performStep.ts"
import * as planChange from "./planChange.ts"
import * as planFailure from "./planFailure.ts"
import * as planTransition from "../../run/internal/planTransition.ts"
import * as stepFlow from "../../run/internal/stepFlow.ts"

/** Runs inside a step may outlast the run by this, to stop by themselves and report it. */
const graceMillis = 1000

/** The handle of a run of a plan, for the code that performs it. */
type Performing = liveRun.Performing<PlanRun.Event, PlanEvent<unknown>>

/** The handle of a run of a plan. */
type Live = liveRun.LiveRun<PlanRun.Result<unknown>, PlanError.PlanError, PlanRun.Event, PlanEvent<unknown>>

/** Opens a run of a plan, from its input or from a state. */
export const open = (
  bound: livePlan.BoundPlan,
  begin: performStep.RunStart,
  options: livePlan.ResumeOptions,
  spec: performStep.Spec = {},
  access?: liveRun.Access
): Live =>
  new liveRun.LiveRun(
    (live: Performing) =>
      durability.untilDecided(
        spec.parent !== undefined,
        Effect.suspend(() => drive(live, bound, begin, options, spec)),
        (result) => (result.outcome === "Paused" ? result.requests : []),
        ({ state }, decisions) => drive(live, bound, { _tag: "Resume", state }, { ...options, decisions }, spec)
      ),
    joinDeltas,
    access
  )

const joinDeltas: liveRun.Join<PlanEvent<unknown>> = (before, next) => {
  if (next._tag !== "Agent" || before._tag !== "Agent" || next.step !== before.step) return undefined
  const event = Equal.equals(next.path, before.path) ? agentShown.joinDeltas(before.event, next.event) : undefined
  return event && { ...next, event }
}

/** Runs a plan inside another one. */
const nest: performStep.ActiveRun["nest"] = (bound, begin, options, spec) =>
  new liveRun.LiveRun((live: Performing) => drive(live, bound, begin, options, spec), joinDeltas).result

const optionNames = Object.keys(livePlan.runOptions)

const drive = (
  live: Performing,
  bound: livePlan.BoundPlan,
  begin: performStep.RunStart,
  options: livePlan.ResumeOptions,
  spec: performStep.Spec
): Effect.Effect<PlanRun.Result<unknown>, PlanError.PlanError> =>
  Effect.gen(function* () {
    const problem = callOptions.unknownName(optionNames, options) ?? callOptions.problemOf(livePlan.runOptions, options)
    if (problem !== undefined) return yield* performStep.optionsInvalid(bound.definition.name, problem)
    if (begin._tag === "Resume") yield* checkContext(bound, begin.state, options)
    const change = begin._tag === "Resume" ? yield* planChange.judge(bound, begin.state, options) : undefined
    const services = yield* Effect.context<never>()
    const around = callContext.runAround(services)
    const outer = spec.joins === true ? around?.outer : around
    const depth = callContext.depthIn(outer)
    const maxDepth = around?.maxDepth ?? agentRun.defaultMaxDepth
    const limits = options.budget && ledger.limitsOf(options.budget)
    const budgets = limits && [{ scope: "run", limits }]
    const now = yield* DateTime.now
    const decided = (before: PlanRun.State) =>
      runRequests.afterDecisions(runTransition.plans, before, options.decisions, now)
    const before = begin._tag === "Resume" ? decided(begin.state).account : undefined
    const account = budgets === undefined ? before : ledger.open(before, budgets)
    const ending = runLoop.deadlineOf(services, options.timeouts?.total, spec.deadline)
    const deadline = agentRun.deadlineWithin(account, now, ending)
    const context =
      begin._tag === "Resume" ? begin.state.context : (options.context ?? callContext.inheritedContext(services))
    const from =
      begin._tag === "Start"
        ? yield* planStarted(bound, begin.input, { ...options, context, budgets }, depth)
        : begin.state
    const state = from instanceof PlanRun.State ? from : undefined
    const run: performStep.ActiveRun = {
      bound,
      recorder: makeRecorder(
        bound,
        from,
        options,
        spec.parent ?? Context.get(services, children.Asking)?.ofPlan,
        live.log,
        services
      ),
      options,
      streaming: spec.streaming === true,
      level: { depth: depth + 1, maxDepth },
      deadline: deadline === undefined ? undefined : deadline + graceMillis,
      inherited: { ...spec.inherited, onChange: options.onChange, timeouts: options.timeouts },
      raise: state === undefined ? undefined : (spec.raise ?? options.maxIterations),
      failures: new Map(),
      nest
    }
    const machine = {
      next: runTransition.plans.next,
      ends: (action: planTransition.Action) => action._tag === "Finish",
      perform: (action: planTransition.Action) => perform(run, action),
      interrupt: (reason: string | undefined) => interruptRun(run, reason)
    }
    const open = openRun(run, state, { change, budgets })
    const running = guardTypes.withHost(options.guards ?? [])(live.loop(machine, run.recorder, { open, deadline }))
    yield* (spec.joins === true ? running : callContext.asRun(running, { outer, maxDepth, context })).pipe(
      Effect.mapError((error) =>
        failedRun(run, { reason: error.reason, cause: Option.getOrUndefined(PlanError.causeOf(error)) })
      )
    )
    const result = yield* resultOf(run)
    yield* run.recorder.emit({ _tag: "PlanFinished", path: [], result })
    return result
  }).pipe(bound.within, runSpans.inWorkflow(bound, begin._tag === "Resume" ? begin.state.usage : {}))

/**
 * The steps of a run have one context: what began with the rights of one user does not continue with the rights of
 * another user.
 */
const checkContext = (
  { definition }: livePlan.BoundPlan,
  state: PlanRun.State,
  { context }: livePlan.ResumeOptions
): Effect.Effect<void, PlanError.PlanError> =>
  context === undefined || Equal.equals(context, state.context)
    ? Effect.void
    : Effect.fail(new PlanError.PlanError({ plan: definition.name, reason: { _tag: "ContextDiffers" }, state }))

/** The budgets that begin with a run or a resume, and the change of the plan since the state. */
interface Begun {
  readonly budgets?: ReadonlyArray<ledger.Given> | undefined
  readonly change?: planRunParts.PlanChange | undefined
}

const planStarted = Effect.fnUntraced(function* (
  bound: livePlan.BoundPlan,
  input: planRunParts.Input,
  options: Omit<livePlan.ResumeOptions, "context"> & Begun & Pick<planTransition.EventOf<"PlanStarted">, "context">,
  depth: number
): Effect.fn.Return<planTransition.EventOf<"PlanStarted">, PlanError.PlanError> {
  return {
    _tag: "PlanStarted",
    at: yield* DateTime.now,
    runId: yield* runParts.newRunId,
    plan: bound.definition.name,
    digest: bound.digest,
    depth,
    maxIterations: options.maxIterations ?? bound.definition.maxIterations,
    input: yield* performStep.resolveInput(bound.definition.name, input),
    context: options.context,
    basis: planChange.basisOf(bound),
    ...defined({ budgets: options.budgets })
  }
})

/** Records the events before the first action. A run that has its answer takes decisions only, which it rejects. */
const openRun = Effect.fnUntraced(function* (
  run: performStep.ActiveRun,
  state: PlanRun.State | undefined,
  { budgets, change }: Begun
) {
  const { options, recorder } = run
  if (state === undefined) return recorder.begin()
  const isSettled = runRequests.isInSession(yield* Effect.context<never>())
  const decided = runTransition.plans.decide(state, options.decisions, yield* DateTime.now, isSettled)
  if (Result.isFailure(decided)) return yield* failedRun(run, { reason: decided.failure })
  yield* Effect.forEach(decided.success, (event) => recorder.defer(event), { discard: true })
  if (state.outcome?._tag === "Completed" || state.outcome?._tag === "Concluded") return
  // A plan that has used up its limit continues if its limit is larger now
  const { maxIterations: limit } = run.bound.definition
  const raised = state.outcome?._tag === "LimitReached" && limit > state.maxIterations ? limit : undefined
  const { maxIterations = raised } = options
  yield* recorder.record({
    _tag: "PlanResumed",
    at: yield* DateTime.now,
    ...defined({ maxIterations, change, budgets })
  })
})

const perform = (run: performStep.ActiveRun, action: planTransition.Action): Effect.Effect<void, PlanError.PlanError> =>
  Effect.suspend(() => {
    switch (action._tag) {
      case "Finish":
        return Effect.flatMap(checkOutcome(run, action.outcome), (outcome) => finishRun(run, outcome))
      case "ChooseRoute":
        return takeRoute(run, action.step)
      case "RunSteps":
        return runTurn(run, action.steps)
    }
  }).pipe(Effect.provideService(RunContext.RunContext, run.recorder.state.context))

const finishRun = Effect.fnUntraced(function* ({ recorder }: performStep.ActiveRun, outcome: PlanRun.Outcome) {
  const recorded = outcome._tag === "Completed" ? { _tag: outcome._tag } : outcome
  yield* recorder.record({ _tag: "PlanFinished", at: yield* DateTime.now, outcome: recorded })
})

const takeRoute = Effect.fnUntraced(function* (run: performStep.ActiveRun, step: string) {
  const { bound, recorder } = run
  const definition = stepFlow.findStep(bound.definition.steps, step)
  if (definition === undefined) return yield* Effect.die(new Error(`no step ${JSON.stringify(step)}`))
  if (performStep.usesPredicates(definition)) yield* recorder.record()
  const chosen = yield* Effect.result(performStep.chooseRoute(run, definition))
  if (Result.isSuccess(chosen)) return yield* recorder.defer(chosen.success)
  run.failures.set(step, chosen.failure)
  yield* finishRun(run, { _tag: "Failed", step, failure: chosen.failure.recorded })
})

/** Runs the steps of a turn, unless `interruptWhen` stops the run before it. */
const runTurn = Effect.fnUntraced(function* (run: performStep.ActiveRun, steps: readonly [string, ...Array<string>]) {
  const { bound, options, recorder } = run
  yield* recorder.record()
  const interruption = options.interruptWhen === undefined ? undefined : yield* options.interruptWhen()
  if (interruption !== undefined) return yield* recorder.stop(interruption)
  const [first] = steps
  const isGroup = stepFlow.findStep(bound.definition.steps, first)?.parallel === true
  if (!isGroup) return yield* performStep.runStep(run, first, true)
  const { concurrency = "unbounded" } = options
  yield* recorder.emit({ _tag: "BandStarted", path: [], steps })
  yield* Effect.forEach(steps, (step) => performStep.runStep(run, step, false), { concurrency, discard: true })
  if (recorder.state.turn === undefined) yield* recorder.emit({ _tag: "BandFinished", path: [], steps })
})

/** Ends the run as `Interrupted`, unless it has ended. Deferred events are written in any case. */
const interruptRun = Effect.fnUntraced(function* ({ recorder }: performStep.ActiveRun, reason: string | undefined) {
  const { interrupted, outcome } = recorder.state
  if (outcome !== undefined) return yield* recorder.record()
  const at = yield* DateTime.now
  const why = interrupted ?? defined({ reason })
  const begins: ReadonlyArray<PlanRun.Event> =
    interrupted === undefined ? [{ _tag: "PlanInterrupted", at, ...why }] : []
  yield* recorder.record(...begins, { _tag: "PlanFinished", at, outcome: { _tag: "Interrupted", ...why } })
})

/** The recorder of a run that begins with an event or resumes a state. */
const makeRecorder = (
  bound: livePlan.BoundPlan,
  from: planTransition.EventOf<"PlanStarted"> | PlanRun.State,
  { journal }: livePlan.ResumeOptions,
  parent: performStep.Parent | undefined,
  log: Performing["log"],
  context: Context.Context<never>
): performStep.ActiveRun["recorder"] => {
  const begins = !(from instanceof PlanRun.State)
  return new runRecorder.RunRecorder<PlanRun.State, PlanRun.Event, PlanEvent<unknown>, PlanError.PlanError>({
    state: begins ? runTransition.plans.start(from) : from,
    first: begins ? from : undefined,
    apply: runTransition.plans.apply,
    usages: planTransition.usagesOf,
    // The meaning of an event, and then the event itself with the state after it
    views: (before, event, after) => [
      ...viewsOfEvent(bound.definition, before, event, after),
      { _tag: "StateChanged", event, state: after }
    ],
    log,
    parent,
    context,
    journal:
      journal &&
      ((events, state) =>
        Effect.catchCause(journal(events, state), (cause) =>
          Cause.hasDies(cause) && !Cause.hasFails(cause)
            ? Effect.fail(journalFailure(bound, cause))
            : Effect.failCause(cause)
        ))
  })
}

/** The failure of a journal that died. Nothing may follow events that were not written. */
const journalFailure = ({ definition }: livePlan.BoundPlan, cause: Cause.Cause<PlanError.PlanError>) => {
  const problem =
    "The journal died of a defect, which is a bug. PlanError.causeOf(error) is the cause, in the process where it happened."
  const error = new PlanError.PlanError({ plan: definition.name, reason: { _tag: "JournalFailed", problem } })
  return planFailure.withCause(error, Cause.squash(cause))
}

type Views = ReadonlyArray<PlanEvent<unknown>>

const noPath: ReadonlyArray<string> = []

const positionOf = (definition: PlanDefinition, step: string): number =>
  stepFlow.positionsOf(definition.steps).get(step) ?? -1

/** The steps that a jump skips. */
const skippedViews = (definition: PlanDefinition, router: string, to: string): Views =>
  definition.steps
    .slice(positionOf(definition, router) + 1, Math.max(0, positionOf(definition, to)))
    .map(({ name }) => ({ _tag: "StepSkipped", path: noPath, step: name, router }))

/** The views of a branch that rejoins: a step that ended without a route is not followed by the declared one. */
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
      const status = planTransition.memberOf(after, event.step)?.status
      const attempt = status?._tag === "Running" ? status.attempt : 1
      return [{ _tag: "StepStarted", path: noPath, step: event.step, attempt }]
    }
    case "StepRetried":
    case "StepFailed": {
      const { at: _, ...view } = event
      return [{ ...view, path: noPath }]
    }
    case "StepFinished": {
      const record = planTransition.finishedRecord(after, event.record.step)
      if (record === undefined) return []
      const duration = Duration.millis(
        DateTime.toEpochMillis(record.finishedAt) - DateTime.toEpochMillis(record.startedAt)
      )
      return [
        { _tag: "StepFinished", path: noPath, step: record.step, record, duration },
        ...rejoinedViews(definition, before, record.step, after)
      ]
    }
    case "StepPaused":
      return [{ _tag: "StepPaused", path: noPath, step: event.step, reason: event.question?.reason }]
    case "RouteTaken": {
      const { step, to } = event
      if (to === undefined) return rejoinedViews(definition, before, step, after)
      return [{ _tag: "RouteTaken", path: noPath, step, to, rejoin: false }, ...skippedViews(definition, step, to)]
    }
    default:
      return []
  }
}

const decodePlanOutput = (
  { bound, recorder }: performStep.ActiveRun,
  output: Schema.Json
): Effect.Effect<unknown, performStep.Failure & { readonly reason: planFailure.ReasonOf<"OutputInvalid"> }> => {
  if (bound.output === undefined) return Effect.succeed(output)
  return Effect.mapError(performStep.decodeOutput(bound.output, output, "output"), (error) => {
    const last = Option.getOrUndefined(planTransition.lastRecord(recorder.state))
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
  const { exceeded } = run.recorder.state
  if (exceeded !== undefined) return { reason: { _tag: "BudgetExceeded", step, path: [], ...exceeded } }
  return run.failures.get(step) ?? { reason: { _tag: "StepFailed", step, path: [], failure } }
}

const failedRun = ({ bound, recorder }: performStep.ActiveRun, { cause, reason }: performStep.Failure) =>
  planFailure.withCause(new PlanError.PlanError({ plan: bound.definition.name, reason, state: recorder.state }), cause)

/** The result of a run that has ended, or the error it ended with. */
const resultOf = (run: performStep.ActiveRun): Effect.Effect<PlanRun.Result<unknown>, PlanError.PlanError> =>
  Effect.suspend((): Effect.Effect<PlanRun.Result<unknown>, PlanError.PlanError> => {
    const state = run.recorder.state
    const { iterations, outcome, usage } = state
    const base = { state, usage, iterations, writes: planTransition.writtenValues(state) }
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
            text: planRunParts.payloadText(outcome.output)
          })
        })
      case "Concluded":
        return Effect.succeed({ ...base, outcome: "Concluded", answer: outcome.answer })
      case "Paused":
        return Effect.succeed({ ...base, outcome: "Paused", requests: outcome.requests })
      case "Interrupted": {
        const over = planTransition.usagesOf(state)?.find(({ limit, unit, used }) => unit === "millis" && used >= limit)
        if (over === undefined) return Effect.succeed({ ...base, outcome: "Interrupted", reason: outcome.reason })
        const reason = { _tag: "BudgetExceeded", step: state.cursor ?? "", path: [], ...ledger.usageOf(over) } as const
        return Effect.fail(failedRun(run, { reason }))
      }
      case "Failed":
      case "LimitReached":
        return Effect.fail(failedRun(run, outcomeFailure(run, outcome)))
    }
  })
