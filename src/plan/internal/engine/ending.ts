/** What a run hands out when it ended, whichever way. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as PlanError from "../../PlanError.ts"
import type { PlanOutcome } from "../../PlanOutcome.ts"
import type { Base, PlanResult } from "../../PlanResult.ts"
import * as PlanRunState from "../../PlanRunState.ts"
import { text } from "../text.ts"
import * as Output from "./output.ts"
import type { Run } from "./run.ts"

const decoded = ({ bound, recorder }: Run, output: Schema.Json): Effect.Effect<unknown, PlanError.OutputInvalid> => {
  if (bound.output === undefined) return Effect.succeed(output)
  return Effect.mapError(Output.decode(bound.output, output, "output"), (error) => {
    const last = PlanRunState.lastRecord(recorder.state())
    const reason = new PlanError.OutputInvalid({
      step: Option.match(last, { onNone: () => "", onSome: ({ step }) => step }),
      failure: { type: "OutputInvalid", message: error.message, retryable: false }
    })
    return PlanError.withCause(reason, error)
  })
}

/** The outcome to record: an output that does not fit the plan's schema is a failure. */
export const checked = (run: Run, outcome: PlanOutcome): Effect.Effect<PlanOutcome> => {
  if (outcome._tag !== "Completed") return Effect.succeed(outcome)
  return Effect.match(decoded(run, outcome.output), {
    onSuccess: (): PlanOutcome => outcome,
    onFailure: (reason): PlanOutcome => {
      run.reasons.set(reason.step, reason)
      return { _tag: "Failed", step: reason.step, failure: reason.failure }
    }
  })
}

const reasonOf = (
  run: Run,
  outcome: Extract<PlanOutcome, { readonly _tag: "Failed" | "LimitReached" }>
): PlanError.Reason => {
  if (outcome._tag === "LimitReached") {
    return new PlanError.MaxIterationsExceeded({ limit: outcome.limit, next: outcome.next })
  }
  const { failure, step } = outcome
  return run.reasons.get(step) ?? new PlanError.StepFailed({ step, path: [], failure })
}

export const failed = ({ bound, recorder }: Run, reason: PlanError.Reason): PlanError.PlanError =>
  new PlanError.PlanError({ plan: bound.definition.name, reason, state: recorder.state() })

/** What was written, in the order it was. */
const inOrder = (state: PlanRunState.PlanRunState): ReadonlyMap<string, Schema.Json> => {
  const written = PlanRunState.writes(state)
  const indices = Array.from(state.writes).sort(([, a], [, b]) => a - b)
  return new Map(indices.map(([key]) => [key, written.get(key) ?? null]))
}

/** The result of a run that has ended, or the error it ended with. */
export const resultOf = (run: Run): Effect.Effect<PlanResult<unknown>, PlanError.PlanError> =>
  Effect.suspend((): Effect.Effect<PlanResult<unknown>, PlanError.PlanError> => {
    const state = run.recorder.state()
    const { iterations, outcome, usage } = state
    const base: Base = { state, usage, iterations, writes: inOrder(state) }
    if (outcome === undefined) return Effect.die(new Error("a run that has not ended has no result"))
    switch (outcome._tag) {
      case "Completed":
        return Effect.mapBoth(decoded(run, outcome.output), {
          onFailure: (reason) => failed(run, reason),
          onSuccess: (output) => ({
            ...base,
            outcome: "Completed" as const,
            output,
            payload: outcome.output,
            text: text(outcome.output)
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
        return Effect.fail(failed(run, reasonOf(run, outcome)))
    }
  })
