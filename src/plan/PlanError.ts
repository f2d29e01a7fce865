/**
 * The error of a run that failed, with the reason and the state to resume from.
 *
 * A run that ends in a way its steps foresee has a result: an answer, a pause, an interruption.
 *
 * @since 0.1.0
 */

import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import { AgentError } from "../agent/AgentError.ts"
import { hideContent } from "../payload/internal/base.ts"
import type * as planRunParts from "../run/internal/planRunParts.ts"
import * as PlanRun from "./PlanRun.ts"
import * as planFailure from "./internal/planFailure.ts"

/**
 * A run failed. `state` is the last consistent state, with everything that was
 * completed, and the run can be resumed from it. Whatever prints or copies the error leaves it out.
 *
 * **Details**
 *
 * `reason`:
 *
 * - `StepFailed`: a step failed, after its retries. `path` are the steps of the outer plans, `failure.type` is the tag
 *   or name of the error, `failure.message` its message. The message of the `PlanError` does not repeat the message of
 *   a function's error, because spans show the message of the `PlanError`.
 * - `ReferenceFailed`: a step refers to a step that was skipped, or to an incomplete parallel group.
 * - `PredicateFailed`: a custom predicate failed. The step before it is done and does not run
 *   again.
 * - `MaxIterationsExceeded`: the plan used up its iterations, usually in a loop that no
 *   condition ends.
 * - `BudgetExceeded`: a budget of the run, or of a run around it, has refused a call in this step, see `Budget`.
 * - `PlanChanged`: the state belongs to a plan with another definition, and `onChange` does not allow the `changes`.
 * - `OutputInvalid`: the output of the plan does not fit its schema.
 * - `InvalidDecision`: a decision that does not count, see `Run.InvalidDecision`.
 * - `JournalFailed`: the journal of the run or the memory of an agent could not be written, or
 *   another owner has the run. The run stopped at once.
 * - `InputInvalid`: the payload of the input is no JSON. Nothing ran, and there is no state.
 * - `OptionsInvalid`: an option of the run cannot be meant, such as `concurrency: 0`. Nothing ran.
 * - `ContextDiffers`: the run was to be resumed with another `RunContext` than it began with. Nothing ran.
 *
 * The plan itself fails steps with these types:
 *
 * | type | meaning |
 * |---|---|
 * | `Timeout` | an attempt took longer than the step's timeout |
 * | `Defect` | it died: the message names the kind of defect, the cause is logged, and {@link causeOf} is the defect |
 * | `Denied` | its call, or its pause, was denied |
 * | `InputInvalid` | its input does not fit its input schema; the message has each place, the expectation and the kind of value there |
 * | `OutputInvalid` | its output does not fit its output schema; the same message |
 * | `OutputNotJson` | its output is no JSON |
 * | `MaxSteps`, `BudgetExceeded`, `InvalidOutput`, `Stopped`, `Interrupted` | its agent ended so, without an answer |
 * | `MaxDepth` | too many plans and agents run inside each other |
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
 *   const plan = yield* Plan.make("research", [Step.make("search", { target: search }), Step.make("write", { target: write })])
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
  reason: planFailure.Reason,
  state: Schema.optionalKey(PlanRun.stateCodec.schema)
}) {
  // Decoding runs it too, and the fields pass through unchanged: content is hidden however the error was made
  // @effect-diagnostics-next-line overriddenSchemaConstructor:off
  constructor(
    fields: { readonly plan: string; readonly reason: planFailure.Reason; readonly state?: PlanRun.State },
    options?: Schema.MakeOptions
  ) {
    super(fields, options)
    hideContent(this, "state")
  }

  /**
   * @since 0.1.0
   */
  override get message(): string {
    const cause = planFailure.causeOf(this)
    const isOurs = cause instanceof PlanError || cause instanceof AgentError
    const hasText = ({ message, type }: planRunParts.StepFailure) =>
      isOurs || planFailure.isPlanReason(this, type) || message === planFailure.defectMessage(cause)
    return `Plan ${JSON.stringify(this.plan)}: ${planFailure.explain(this.reason, hasText)}`
  }
}

/**
 * The error or defect behind a {@link PlanError}, in the process where it happened: the failure
 * or defect of a function, the `AgentError` of an agent. It may hold data that the step worked
 * on, so look at it before you log it.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (error: PlanError): Option.Option<unknown> => Option.fromUndefinedOr(planFailure.causeOf(error))
