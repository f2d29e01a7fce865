/** Plans for tests of the engine: functions that note when they run, and the events of a run. */
import { assert } from "@effect/vitest"
import { Deferred, Effect, Stream } from "effect"
import type { Schema } from "effect"
import { Plan, PlanError, Step, type PlanEvent, type PlanRun } from "effect-emissary/plan"
import * as runTransition from "#src/run/internal/runTransition.ts"
import type * as livePlan from "#src/plan/internal/livePlan.ts"

/** The names of functions, each as often as it ran. */
export interface Log {
  readonly ran: Array<string>
  /** A function that notes its name, and answers. */
  readonly fn: (
    name: string,
    answer?: (input: Step.Input) => Schema.Json | Effect.Effect<Schema.Json, unknown>
  ) => Step.FunctionTarget
  /** A step with a function of its own name that writes to this log. */
  readonly fnStep: <const Name extends string>(
    name: Name,
    options?: { readonly parallel?: boolean; readonly writes?: string }
  ) => Step.Step<Name, never, never>
}

export const log = (): Log => {
  const ran: Array<string> = []
  const fn: Log["fn"] = (name, answer = ({ task }) => `${name}(${task})`) =>
    Step.target(name, (input) =>
      Effect.suspend(() => {
        ran.push(name)
        const given = answer(input)
        return Effect.isEffect(given) ? given : Effect.succeed(given)
      })
    )
  return { ran, fn, fnStep: (name, options) => Step.make(name, { ...options, target: fn(name) }) }
}

type Completed<R> = Extract<R, { readonly outcome: "Completed" }>

/** The result of a run of a plan or an agent, which has to be completed. */
export const completed = <R extends { readonly outcome: string }>(result: R): Completed<R> => {
  const isCompleted = (result: R): result is Completed<R> => result.outcome === "Completed"
  assert(isCompleted(result), `expected Completed, found ${result.outcome}`)
  return result
}

/** Batches of facts as a journal gets them. */
export const journal = () => {
  const batches: Array<ReadonlyArray<PlanRun.Event>> = []
  let state: PlanRun.State | undefined
  const write: livePlan.Journal = (events, after) =>
    Effect.sync(() => {
      batches.push(events)
      state = after
    })
  return {
    batches,
    write,
    /** The state after the last batch. */
    last: () => {
      assert(state !== undefined)
      return state
    },
    tags: () => batches.map((batch) => batch.map(label))
  }
}

const label = (event: PlanRun.Event): string => {
  switch (event._tag) {
    case "NestedChanged":
      return `${event.step}/${label(event.event)}`
    case "AgentChanged":
      return `${event.step}/${event.event._tag}`
    case "StepFinished":
      return `Finished ${event.record.step}`
    case "StepStarted":
      return `Started ${event.step}`
    case "RouteTaken":
      return `${event.step}->${event.to ?? ""}`
    default:
      return event._tag
  }
}

/** Events, in short. */
export const told = (event: PlanEvent.PlanEvent<unknown>): string => {
  const path = "path" in event ? event.path.map((step) => `${step}/`).join("") : ""
  switch (event._tag) {
    case "BandStarted":
    case "BandFinished":
      return `${path}${event._tag} ${event.steps.join(",")}`
    case "RouteTaken":
      return `${path}${event.step}->${event.to}${event.rejoin ? " rejoin" : ""}`
    case "Agent":
      return `${path}${event.step}: ${event.event._tag}`
    case "StateChanged":
    case "PlanStarted":
    case "PlanFinished":
      return `${path}${event._tag}`
    default:
      return `${path}${event._tag} ${event.step}`
  }
}

/** A stream's events without the facts behind them. */
export const events = <A, R>(
  stream: Stream.Stream<PlanEvent.PlanEvent<A>, PlanError.PlanError, R>
): Effect.Effect<ReadonlyArray<string>, PlanError.PlanError, R> =>
  Effect.map(Stream.runCollect(stream), (found) => found.filter(({ _tag }) => _tag !== "StateChanged").map(told))

/** Makes a plan and binds it: neither fails. */
export const bind = <A, R>(plan: Effect.Effect<Plan.Plan<A, R>, unknown>) =>
  Effect.flatMap(Effect.orDie(plan), (plan) => Effect.orDie(Plan.bind(plan)))

interface NamedOptions extends livePlan.Options {
  readonly name?: string
}

/** Makes a plan of steps and binds it: neither fails. */
export const planOf: <const Steps extends ReadonlyArray<Step.Any>, const O extends NamedOptions = {}>(
  steps: Steps & livePlan.KnownNames<Steps>,
  options?: O
) => Effect.Effect<Plan.Bound<livePlan.PlanOutput<O>, livePlan.PlanServices<Steps, O>>> = (
  steps: ReadonlyArray<Step.Any>,
  { name = "plan", ...options }: NamedOptions = {}
) => {
  const made: Effect.Effect<Plan.Plan<unknown, unknown>, unknown> = Plan.make(name, steps, options)
  // Sound: the type above is the one of `Plan.make`.
  return bind(made as Effect.Effect<Plan.Plan<never, never>, unknown>)
}

/** The state after events that follow a state. */
export const applyAll = (state: PlanRun.State, events: Iterable<PlanRun.Event>) =>
  runTransition.plans.fold(events, state)

/** The failure of the step that ended the run. */
export const failureOf = (error: unknown) => {
  assert(error instanceof PlanError.PlanError && error.reason._tag === "StepFailed")
  return error.reason.failure
}

/** The failure of the step that ends the run. */
export const failureIn = <A, E, R>(run: Effect.Effect<A, E, R>) => Effect.map(Effect.flip(run), failureOf)

/** Runs a plan of one step. */
export const runStep = <R>(input: string | { readonly payload: Schema.Json }, step: Step.Step<string, string, R>) =>
  Effect.flatMap(
    Effect.flatMap(Plan.make("plan", [step]), (plan) => Plan.bind(plan)),
    (plan) => Plan.run(plan, input)
  )

/** The work of a step that runs until the gate is open. */
export const gate = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const opened = yield* Deferred.make<void>()
  return {
    hook: Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(opened)),
    begun: Deferred.await(begun),
    open: Deferred.succeed(opened, undefined)
  }
})
