import { Effect, Option, Result } from "effect"
import { Plan, PlanRun, type PlanError } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"


import type { Json } from "../family.ts"
import * as fixture from "./fixtures.ts"
import { types } from "./types.ts"
import { isObject, type Observed, type Raised, type RunResult, stepsOf } from "./vocabulary.ts"

/** What a plan of a case is loaded with. */
export interface Setting {
  readonly recording: fixture.Recording
  readonly fixtures: Json
  readonly predicates: Json
}

export const setting = (given: Json): Setting => ({
  recording: fixture.recording(),
  fixtures: isObject(given["fixtures"]) ? given["fixtures"] : {},
  predicates: isObject(given["predicates"]) ? given["predicates"] : {}
})

/** The names that the targets of a plan have, by kind. */
export const targetNames = (plan: unknown, kind: string): ReadonlyArray<string> =>
  stepsOf(plan).flatMap(({ target }) =>
    isObject(target) && target["kind"] === kind && typeof target["name"] === "string" ? [target["name"]] : []
  )

const named = <A>(names: ReadonlyArray<string>, make: (name: string) => A): { readonly [name: string]: A } =>
  Object.fromEntries(names.map((name) => [name, make(name)]))

/** A registry that has every name a plan of the recordings can use. */
export const registry = (plan: unknown, { fixtures, predicates, recording }: Setting) => ({
  targets: {
    ...named(targetNames(plan, "callable"), (name) => fixture.functionTarget(name, recording, fixtures)),
    ...named(targetNames(plan, "agent"), fixture.agentTarget)
  },
  predicates: Object.fromEntries(
    Object.entries(predicates).map(([key, description]) => [key, fixture.predicate(String(description), recording)])
  ),
  schemas: types
})

/** Loads a plan and binds it with the tools it names, each of them an agent. */
export const load = Effect.fnUntraced(function* (wire: unknown, setting: Setting) {
  const plan = yield* Plan.decode(wire, registry(wire, setting))
  return yield* Plan.bind(plan, { agents: named(targetNames(wire, "tool"), fixture.agentTarget) })
})

/** A plan of the recordings, ready to run: its agents need the model of the fixtures. */
export type Loaded = Effect.Success<ReturnType<typeof load>>

export const model = ({ fixtures, recording }: Setting) =>
  ScriptedModel.layer(fixture.agentScript(recording, fixtures))

/** The input of a run: a text, or task, payload and context. */
export const inputOf = (given: unknown, otherwise: string): PlanRun.Input => {
  if (!isObject(given)) return typeof given === "string" ? given : otherwise
  const { context, payload, task } = given
  return {
    task: typeof task === "string" ? task : undefined,
    payload: payload ?? undefined,
    context: typeof context === "string" ? context : undefined
  }
}

const envelope = (state: PlanRun.State): Omit<RunResult, "error"> => {
  const last = PlanRun.lastRecord(state)
  const { context, payload, task } = Option.match(last, {
    onNone: () => ({ ...state.input }),
    onSome: (record) => ({ task: record.task, context: record.context, payload: record.output })
  })
  return { task, context: context ?? null, payload, text: Plan.text(payload) }
}

const ofResult = (result: PlanRun.Result<unknown>): RunResult | Raised => {
  switch (result.outcome) {
    case "Completed":
      return envelope(result.state)
    case "Concluded":
      return { RAISED: "ConcludeSignal", message: result.answer }
    case "Paused": {
      const [pause] = result.pauses
      const message = `Plan paused at step '${pause?.step}': ${pause?.reason}`
      return { ...envelope(result.state), error: { type: "PlanPaused", message, retryable: true } }
    }
    case "Interrupted":
      return { RAISED: "Interrupted", message: result.reason ?? "" }
  }
}

/** The kinds of the recordings for the reasons of ours. */
const raisedAs: { readonly [reason: string]: string } = {
  ReferenceFailed: "PlanRuntimeError",
  PredicateFailed: "PlanRuntimeError",
  PlanChanged: "PlanChanged"
}

const ofError = (error: PlanError.PlanError, { recording }: Setting): RunResult | Raised => {
  const { reason, state } = error
  if (reason._tag === "StepFailed") {
    // A failed step leaves no record: what it was given is in the trace.
    const call = recording.trace.findLast(([name]) => name === reason.step)
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
  return { RAISED: raisedAs[reason._tag] ?? reason._tag, message: error.message }
}

/** What a run came to, in the words of the recordings. */
export const observed = (
  result: Result.Result<PlanRun.Result<unknown>, PlanError.PlanError>,
  setting: Setting
): RunResult | Raised =>
  Result.match(result, { onFailure: (error) => ofError(error, setting), onSuccess: (value) => ofResult(value) })

/** Loads a plan, runs it, and tells what was called and what it came to. */
export const run = Effect.fnUntraced(function* (given: Json, input: PlanRun.Input): Effect.fn.Return<Observed> {
  const used = setting(given)
  return yield* load(given["plan"], used).pipe(
    Effect.matchEffect({
      onFailure: (error) => Effect.succeed({ RAISED: error._tag, message: error.message }),
      onSuccess: (bound) =>
        Effect.map(Effect.result(Plan.run(bound, input)), (result) => observed(result, used))
    }),
    Effect.map((result) => ({ trace: used.recording.trace, result })),
    Effect.provide(model(used))
  )
})

