/** Runs plans of cases, and translates the outcome into the vocabulary of the recordings. */
import { Effect, Option, Result, type Schema } from "effect"
import type { LanguageModel } from "effect/ai"
import type { PlanRun } from "effect-emissary/plan";
import { Plan, type PlanError } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { isObject, type Json } from "../family.ts"
import { makePredicates, makeTargets, type Trace, types } from "./fixtures.ts"
import { type Envelope, type Fixtures, type Raised, type RunResult, stepsOf, targetOf, type World } from "./vocabulary.ts"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as planRunParts from "#src/run/internal/planRunParts.ts"

const targetNames = (plan: unknown, kind: string): ReadonlyArray<string> =>
  stepsOf(plan)
    .map(targetOf)
    .flatMap((target) => (target.kind === kind ? [target.name] : []))

const named = <A>(names: ReadonlyArray<string>, make: (name: string) => A): { readonly [name: string]: A } =>
  Object.fromEntries(names.map((name) => [name, make(name)]))

/** The tools that a case has: those it lists, and no others. */
const toolsOf = ({ tools = [] }: World): ReadonlyArray<string> =>
  isList(tools) ? tools.map((tool) => (typeof tool === "string" ? tool : tool.name)) : Object.keys(tools)

const fixturesOf = ({ fixtures, tools = [] }: World): Fixtures => ({ ...(isList(tools) ? {} : tools), ...fixtures })

const isList = <A>(value: A): value is Extract<A, ReadonlyArray<unknown>> => Array.isArray(value)

/** A registry that has every name a plan of the recordings can use. */
export const registry = (plan: unknown, targets: ReturnType<typeof makeTargets>, trace: Trace, predicates: Json) => ({
  targets: {
    ...named(targetNames(plan, "callable"), targets.function),
    ...named(targetNames(plan, "agent"), targets.agent)
  },
  predicates: makePredicates(trace, predicates),
  schemas: types
})

/** A plan that runs once the model of the fixtures is there. */
export type Bound = Plan.Bound<unknown, LanguageModel.LanguageModel>

/** Loads a plan and binds it with the tools of its case, each of them an agent. */
export const load = Effect.fnUntraced(function* (world: World, trace: Trace = []) {
  const targets = makeTargets(trace, fixturesOf(world))
  const loadOne = Effect.fnUntraced(function* (wire: Json, inner: { readonly [name: string]: Bound }) {
    const known = registry(wire, targets, trace, world.predicates ?? {})
    const plan = yield* Plan.decode(wire, { ...known, targets: { ...known.targets, ...inner } })
    return yield* Plan.bind(plan, { agents: named(toolsOf(world), targets.agent) })
  })
  const model = ScriptedModel.layer(targets.script)
  const inner: { [name: string]: Bound } = {}
  for (const [name, wire] of Object.entries(world.plans ?? {})) {
    const bound = yield* loadOne(wire, {})
    inner[name] = bound
  }
  return { bound: yield* loadOne(world.plan, inner), model }
})

/** The input of a run: a text, or task, payload and context; another value is the payload. */
export const inputOf = (given: Schema.Json | undefined, otherwise: string): planRunParts.Input => {
  if (given === undefined) return otherwise
  if (!isObject(given)) return typeof given === "string" ? given : { payload: given }
  const { context, payload, task } = given
  return {
    task: typeof task === "string" ? task : undefined,
    payload: payload ?? undefined,
    context: typeof context === "string" ? context : undefined
  }
}

const envelope = (state: PlanRun.State): Envelope => {
  const last = planTransition.lastRecord(state)
  const { context, payload, task } = Option.match(last, {
    onNone: () => ({ ...state.input }),
    onSome: (record) => ({ task: record.task, context: record.context, payload: record.output })
  })
  return { task, context: context ?? null, payload, text: planRunParts.payloadText(payload) }
}

export const paused = (result: Extract<PlanRun.Result<unknown>, { readonly outcome: "Paused" }>) => {
  const [pause] = result.requests
  const reason = pause?._tag === "Pause" ? pause.arguments.reason : undefined
  return { type: "PlanPaused", message: `Plan paused at step '${pause?.name}': ${reason}`, retryable: true }
}

const ofResult = (result: PlanRun.Result<unknown>): RunResult => {
  switch (result.outcome) {
    case "Completed":
      return envelope(result.state)
    case "Concluded":
      return { RAISED: "ConcludeSignal", message: result.answer }
    case "Paused":
      return { ...envelope(result.state), error: paused(result) }
    case "Interrupted":
      return { RAISED: "Interrupted", message: result.reason ?? "" }
  }
}

/** The kinds of the recordings for the reasons of ours. */
const raisedAs: { readonly [reason: string]: string } = {
  ReferenceFailed: "PlanRuntimeError",
  PredicateFailed: "PlanRuntimeError",
  Exists: "ConcurrentPlanRunError",
  Elsewhere: "ConcurrentPlanRunError"
}

export const raised = (error: { readonly reason: { readonly _tag: string }; readonly message: string }): Raised => ({
  RAISED: raisedAs[error.reason._tag] ?? error.reason._tag,
  message: error.message
})

const ofError = (error: PlanError.PlanError, trace: Trace): RunResult => {
  const { reason, state } = error
  if (reason._tag === "StepFailed") {
    // A failed step leaves no record: what it was given is in the trace.
    const call = trace.findLast(([name]) => name === reason.step)
    return {
      task: call?.[1] ?? null,
      context: call?.[2] ?? null,
      payload: null,
      text: "",
      error: { ...reason.failure, message: error.message }
    }
  }
  if (reason._tag === "MaxIterationsExceeded" && state !== undefined) {
    return { ...envelope(state), error: { type: reason._tag, message: error.message, retryable: false } }
  }
  return raised(error)
}

/** The result of a run, in the words of the recordings. */
export const observed = (
  result: Result.Result<PlanRun.Result<unknown>, PlanError.PlanError>,
  trace: Trace
): RunResult => Result.match(result, { onFailure: (error) => ofError(error, trace), onSuccess: ofResult })
