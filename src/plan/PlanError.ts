/**
 * The error of a run that failed, with the reason and the state to resume from.
 *
 * A run that ends in a way its steps foresee has a result: an answer, a pause, an interruption.
 *
 * @since 0.1.0
 */

import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as PlanRun from "./PlanRun.ts"

/**
 * Why a run failed.
 *
 * **Details**
 *
 * - `StepFailed`: a step failed, after its retries. `path` are the steps of the outer plans,
 *   `failure.type` is the tag or name of the error, `failure.message` its message.
 * - `ReferenceFailed`: a step refers to a step that was skipped, or to an incomplete band.
 * - `PredicateFailed`: a custom predicate failed. The step before it is done and does not run
 *   again.
 * - `MaxIterationsExceeded`: the plan used up its iterations, usually in a loop that no
 *   condition ends.
 * - `PlanChanged`: the state belongs to a plan with another definition.
 * - `OutputInvalid`: the output of the plan does not fit its schema.
 * - `InvalidDecision`: a decision about something that does not wait for one. `problem` is
 *   `unknown` (nothing of that name waits, or not at that `path`), `ambiguous` (several wait
 *   under that name), `repeated` (the second decision about it in one list), `notWaiting` (a
 *   step of that name ran, and does not wait) or `over` (the run has its answer). `waiting`
 *   lists what does wait.
 * - `JournalFailed`: the journal of the run or the memory of an agent could not be written, or
 *   another owner has the run. The run stopped at once.
 * - `InputInvalid`: the payload of the input is no JSON. Nothing ran, and there is no state.
 *
 * These types of `StepFailed` are those of the plan itself:
 *
 * | type | meaning |
 * |---|---|
 * | `Timeout` | an attempt took longer than the step's timeout |
 * | `Defect` | it died: the message names the kind of defect, the cause is logged, and {@link causeOf} is the defect |
 * | `Denied` | its call, or its pause, was denied |
 * | `InputInvalid` | its input does not fit its input schema; the message has each place, the expectation and the kind of value there |
 * | `OutputInvalid` | its output does not fit its output schema; the same message |
 * | `OutputNotJson` | its output is no JSON |
 * | `MaxSteps`, `InvalidOutput`, `Stopped`, `Interrupted` | its agent ended so, without an answer |
 * | `MaxDepth` | too many plans and agents run inside each other |
 *
 * @category models
 * @since 0.1.0
 */
export const Reason = Schema.TaggedUnion({
  StepFailed: { step: Schema.String, path: Schema.Array(Schema.String), failure: PlanRun.StepFailure },
  ReferenceFailed: {
    step: Schema.String,
    slot: Schema.String,
    reference: Schema.String,
    ran: Schema.Array(Schema.String)
  },
  PredicateFailed: {
    step: Schema.String,
    to: Schema.String,
    predicate: Schema.String,
    failure: PlanRun.StepFailure
  },
  MaxIterationsExceeded: { limit: Schema.Int, next: Schema.String },
  PlanChanged: { expected: Schema.String, found: Schema.String },
  OutputInvalid: { step: Schema.String, failure: PlanRun.StepFailure },
  InvalidDecision: {
    callId: Schema.String,
    path: Schema.optionalKey(Schema.Array(Schema.String)),
    problem: Schema.Literals(["unknown", "ambiguous", "repeated", "notWaiting", "over"]),
    outcome: Schema.optionalKey(Schema.String),
    waiting: Schema.Array(Schema.Struct({ callId: Schema.String, path: Schema.Array(Schema.String) }))
  },
  JournalFailed: { problem: Schema.String },
  InputInvalid: { problem: Schema.String }
})

/**
 * @category models
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A run failed. `state` is the last consistent state, with everything that was
 * completed, and the run can be resumed from it.
 *
 * **Example** (Resuming after a failure)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Plan, Step } from "effect-emissary/plan"
 * import assert from "node:assert"
 *
 * let calls = 0
 * const search = Step.target("search", () => Effect.sync(() => `found ${++calls}`))
 * const write = Step.target("write", ({ task }) => (calls++ < 2 ? Effect.fail("no paper") : Effect.succeed(task)))
 *
 * const program = Effect.gen(function*() {
 *   const plan = yield* Plan.make(Step.make("search", { target: search }), Step.make("write", { target: write }))
 *   const bound = yield* Plan.bind(plan)
 *   const error = yield* Effect.flip(Plan.run(bound, "bees"))
 *   assert.strictEqual(error.reason._tag, "StepFailed")
 *   assert(error.state !== undefined)
 *   return yield* Plan.resume(bound, error.state)
 * })
 *
 * const result = await Effect.runPromise(program)
 * assert(result.outcome === "Completed")
 * assert.strictEqual(result.output, "found 1")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class PlanError extends Schema.TaggedError<PlanError>("effect-emissary/plan/PlanError")("PlanError", {
  plan: Schema.String,
  reason: Reason,
  state: Schema.optionalKey(PlanRun.stateCodec.schema)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Plan ${JSON.stringify(this.plan)}: ${explain(this.reason)}`
  }
}

/** @internal */
export const explain = (reason: Reason): string => {
  switch (reason._tag) {
    case "StepFailed":
      return `Step ${JSON.stringify(reason.step)} failed with ${reason.failure.type}: ${reason.failure.message}`
    case "ReferenceFailed":
      return `Step ${JSON.stringify(reason.step)}, ${reason.slot}: expected a result for ${reason.reference}, found that only ${JSON.stringify(reason.ran)} ran. A route skipped it; refer to a step that always runs.`
    case "PredicateFailed":
      return `Step ${JSON.stringify(reason.step)}: the predicate ${JSON.stringify(reason.predicate)} of the route to ${JSON.stringify(reason.to)} failed with ${reason.failure.type}: ${reason.failure.message}`
    case "MaxIterationsExceeded":
      return `expected to end within ${reason.limit} iterations, found that ${JSON.stringify(reason.next)} would be next. Look for a loop whose condition never changes, or resume with a larger maxIterations.`
    case "PlanChanged":
      return `expected to resume the plan ${reason.expected}, found ${reason.found}: it was edited since. Resume it with the plan it began with, or start a new run.`
    case "OutputInvalid":
      return `Step ${JSON.stringify(reason.step)} returned an output that does not fit the output schema of the plan: ${reason.failure.message}`
    case "InvalidDecision":
      return explainDecision(reason)
    case "JournalFailed":
      return reason.problem
    case "InputInvalid":
      return `${reason.problem}. Encode the input with a schema, Schema.toCodecJson for example, before you pass it to the plan.`
  }
}

const maxShown = 20

const explainDecision = (reason: Extract<Reason, { readonly _tag: "InvalidDecision" }>): string => {
  const { callId, outcome, waiting } = reason
  const problem = {
    unknown: waiting.some((other) => other.callId === callId)
      ? "it waits, but at another path"
      : "nothing of that name waits",
    ambiguous: "several wait under that name; name one by its path",
    repeated: "the list has two decisions about it",
    notWaiting: "it does not wait, or not any more",
    over: `the run is over${outcome === undefined ? "" : ` (${outcome})`}`
  }[reason.problem]
  const shown = waiting.slice(0, maxShown).map(showPath).join(", ")
  const more = waiting.length - maxShown
  const others = shown === "" ? "Nothing waits." : `Waiting: ${shown}${more > 0 ? ` and ${more} more` : ""}.`
  return `expected a decision about something that waits, found one about ${showPath(reason)}: ${problem}. ${others}`
}

const showPath = ({ callId, path }: { readonly callId: string; readonly path?: ReadonlyArray<string> }): string =>
  [...(path ?? []), callId].map((name) => JSON.stringify(name)).join(" > ")

// Errors and defects behind a failure may hold anything that a step worked on. They stay out of
// reasons, messages, JSON and every printed error.
const causes = new WeakMap<PlanError, unknown>()

/** @internal */
export const withCause = (error: PlanError, cause: unknown): PlanError => {
  if (cause !== undefined) causes.set(error, cause)
  return error
}

/**
 * The error or defect behind a {@link PlanError}, in the process where it happened: the failure
 * or defect of a function, the `AgentError` of an agent. It may hold data that the step worked
 * on, so look at it before you log it.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (error: PlanError): Option.Option<unknown> =>
  causes.has(error) ? Option.some(causes.get(error)) : Option.none()
