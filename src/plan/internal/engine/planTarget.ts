/** A plan as a step: the facts of its run are facts of the outer run. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as PlanError from "../../PlanError.ts"
import type { PlanEvent } from "../../PlanEvent.ts"
import type { Journal } from "../../PlanOptions.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { PlanRunEvent } from "../../PlanRunEvent.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import { text } from "../text.ts"
import { type Attempt, failed, succeeded } from "./attempt.ts"
import type { Begin } from "./drive.ts"
import { fitted } from "./input.ts"
import type { Delivery } from "./reference.ts"
import type { Learning } from "./rules.ts"
import type { NestOptions, Run } from "./run.ts"

const ofResult = (run: Run, result: PlanResult<unknown>): Attempt => {
  switch (result.outcome) {
    case "Completed":
      return succeeded(result.payload)
    case "Concluded":
      return { _tag: "Concluded", answer: result.answer }
    case "Paused":
      return { _tag: "Paused" }
    case "Interrupted":
      run.stopped ??= result.reason === undefined ? {} : { reason: result.reason }
      return { _tag: "Stopped" }
  }
}

/** An error of the inner run as one of the step; what cannot be written is one of the whole run. */
const ofError = (outer: Run, step: string, error: PlanError.PlanError): Effect.Effect<Attempt, PlanError.PlanError> => {
  const { reason } = error
  if (reason._tag === "JournalFailed" || outer.recorder.broken() !== undefined) return Effect.fail(error)
  if (reason._tag !== "StepFailed") return Effect.succeed(failed(reason._tag, error.message, { cause: error }))
  return Effect.succeed({
    _tag: "Failed",
    failure: reason.failure,
    again: true,
    reason: new PlanError.StepFailed({
      step: reason.step,
      path: [step, ...reason.path],
      failure: reason.failure
    }),
    cause: Option.getOrUndefined(PlanError.causeOf(reason))
  })
}

/** Runs a plan from its beginning, or from where it stopped. Fails when the run cannot be written. */
export const run = (
  outer: Run,
  rules: Learning,
  child: PlanRunState | undefined,
  delivery: Delivery
): Effect.Effect<Attempt, PlanError.PlanError> => {
  const { level, options, raise, recorder, sink } = outer
  const { step } = delivery
  if (level.depth > level.maxDepth) {
    return Effect.succeed(
      failed(
        "MaxDepth",
        `expected at most ${level.maxDepth} plans and agents inside each other, found one more: ${JSON.stringify(rules.definition.name)}. Look for a plan that runs itself.`,
        { again: false }
      )
    )
  }
  const nested = (event: PlanRunEvent): PlanRunEvent => ({ _tag: "NestedChanged", at: event.at, step, event })
  const journal: Journal = ([first, ...rest]) => recorder.record(nested(first), ...rest.map(nested))
  // The facts of the inner run are told as facts of the outer one.
  const emit = (event: PlanEvent<unknown>): Effect.Effect<void> =>
    "path" in event ? sink.emit({ ...event, path: [step, ...event.path] }) : Effect.void
  const handed: NestOptions = {
    concurrency: options.concurrency,
    timeouts: { step: options.timeouts?.step, tool: options.timeouts?.tool },
    interruptWhen: options.interruptWhen,
    context: recorder.state().context,
    journal,
    ...(child === undefined ? undefined : { raise }),
    ...(child?.outcome?._tag === "LimitReached" ? { maxIterations: raise } : undefined)
  }
  const { content, context, payload, task } = delivery
  const input = Effect.map(fitted(rules.bound, payload), (payload) => ({
    task: task === "" ? text(payload) : task,
    payload,
    ...(context === undefined ? undefined : { context }),
    ...(content.length === 0 ? undefined : { content })
  }))
  const begin: Effect.Effect<Begin> =
    child === undefined
      ? Effect.map(input, (input) => ({ _tag: "Start", input }))
      : Effect.succeed({ _tag: "Resume", state: child })
  return begin.pipe(
    Effect.flatMap((begin) => outer.nest(rules, begin, handed, { ...sink, emit })),
    Effect.map((result) => ofResult(outer, result)),
    Effect.catch((error) => ofError(outer, step, error))
  )
}
