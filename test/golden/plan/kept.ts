/** Plans under a key: jobs in sessions on the store around, in the vocabulary of the recordings. */
import { Effect, Layer, Option, Result } from "effect"
import type { LanguageModel } from "effect/ai"
import type { VersionedStore } from "effect-emissary"
import { Run } from "effect-emissary"
import { PlanError, PlanRun } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { type Bound, observed, raised } from "./run.ts"
import type { Trace } from "./fixtures.ts"
import type { RunResult } from "./vocabulary.ts"
import type * as planRunParts from "#src/run/internal/planRunParts.ts"
import * as planTransition from "#src/run/internal/planTransition.ts"

/** Sessions of one plan on the store around: the process that has it. */
export const process = <A, E>(
  plan: Bound,
  model: Layer.Layer<LanguageModel.LanguageModel>,
  use: Effect.Effect<A, E, Session.Session>
): Effect.Effect<A, E, VersionedStore.VersionedStore> => Effect.provide(use, Layer.provide(Session.layer([plan]), model))

const isDone = ({ outcome }: Session.State): boolean =>
  outcome === "Completed" || outcome === "Interrupted"

/** Begins a run under a key, also in place of a run that is done or was interrupted, as recorded. */
export const begin = Effect.fnUntraced(function* (plan: Bound, id: string, input: planRunParts.Input) {
  const sessions = yield* Session.Session
  const found = yield* sessions.state(id)
  const ifExists = Option.isSome(found) && isDone(found.value) ? "restart" : "fail"
  return yield* Session.run(plan, { id, input: textOf(input), ifExists })
})

/** A session receives text: what is structured is read as JSON by the plan. */
const textOf = (input: planRunParts.Input): string => {
  if (typeof input === "string") return input
  return input.task ?? JSON.stringify(input.payload)
}

/** Continues a run: what waits runs again. Of a run that is done, the recorded result. */
export const resume = Effect.fnUntraced(function* (plan: Bound, id: string) {
  const sessions = yield* Session.Session
  const found = Option.getOrThrow(yield* sessions.state(id))
  const decisions = found.requests.filter(Run.isApprovable).map(Run.approve)
  if (decisions.length > 0) yield* sessions.decide(id, decisions)
  else if (found.outcome !== "Completed") yield* sessions.resume(id)
  return yield* Session.result(plan, id)
})

const failureOf = (state: PlanRun.State, plan: string, text: string): PlanError.PlanError | undefined => {
  const { outcome } = state
  if (outcome?._tag === "LimitReached") {
    const { limit, next } = outcome
    return new PlanError.PlanError({ plan, reason: { _tag: "MaxIterationsExceeded", limit, next }, state })
  }
  if (outcome?._tag !== "Failed") return undefined
  const { failure, step } = outcome
  const [, predicate] = /predicate "([^"]*)"/.exec(text) ?? []
  const reason =
    predicate === undefined
      ? { _tag: "StepFailed" as const, step, path: [], failure }
      : { _tag: "PredicateFailed" as const, step, to: step, predicate, failure }
  return new PlanError.PlanError({ plan, reason, state })
}

/** The result of a run that was begun or resumed, as `Plan.run` has it. */
export const seen = Effect.fnUntraced(function* (
  plan: Bound,
  id: string,
  trace: Trace,
  running: Effect.Effect<Session.RunResult<unknown>, Session.SessionError, Session.Session>
): Effect.fn.Return<RunResult, unknown, Session.Session> {
  const ran = yield* Effect.result(running)
  const failed = Result.isFailure(ran) ? ran.failure : undefined
  if (failed !== undefined && failed.reason._tag !== "TurnFailed") return raised(failed)
  const state = Option.getOrThrow(yield* Session.progress(plan, id))
  const { outcome } = state
  const failure = failureOf(state, plan.name, failed?.message ?? "")
  if (failure !== undefined) return observed(Result.fail(failure), trace)
  if (failed !== undefined || outcome === undefined) return raised(failed ?? { reason: { _tag: "Open" }, message: "" })
  const base = { state, usage: state.usage, iterations: state.iterations, writes: new Map() }
  switch (outcome._tag) {
    case "Completed":
      return observed(Result.succeed({ ...base, outcome: "Completed", output: outcome.output, payload: outcome.output, text: "" }), trace)
    case "Concluded":
      return observed(Result.succeed({ ...base, outcome: "Concluded", answer: outcome.answer }), trace)
    case "Paused":
      return observed(Result.succeed({ ...base, ...outcome, outcome: "Paused" }), trace)
    default:
      return observed(Result.succeed({ ...base, outcome: "Interrupted", reason: undefined }), trace)
  }
})

const statuses: { readonly [Tag in planRunParts.Outcome["_tag"]]: string } = {
  Completed: "done",
  Concluded: "done",
  Paused: "paused",
  Failed: "failed",
  LimitReached: "failed",
  Interrupted: "cancelled"
}

/** A kept run in the form of the recorded checkpoints. */
export const checkpointOf = (plan: Bound, id: string) =>
  Effect.match(Session.progress(plan, id), {
    onFailure: () => ({ status: null }),
    onSuccess: Option.match({
      onNone: () => ({ status: null }),
      onSome: (state) => {
        const status = state.outcome === undefined ? "running" : statuses[state.outcome._tag]
        return {
          status,
          next_step: status === "done" ? null : (state.cursor ?? null),
          completed_steps: PlanRun.history(state).map(({ step }) => step),
          kv: Object.fromEntries(planTransition.writtenValues(state))
        }
      }
    })
  })
