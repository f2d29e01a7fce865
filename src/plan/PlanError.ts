/**
 * Why a run of a plan failed.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { StepFailure } from "./PlanOutcome.ts"
import { PlanRunState } from "./PlanRunState.ts"

/**
 * A step failed, after the retries it has: its target failed, ran out of time, or gave
 * something its output schema does not take. `path` are the steps of the outer plans.
 *
 * @category reasons
 * @since 0.1.0
 */
export class StepFailed extends Schema.TaggedError<StepFailed>("effect-emissary/plan/StepFailed")("StepFailed", {
  step: Schema.String,
  path: Schema.Array(Schema.String),
  failure: StepFailure
}) {
  /** @since 0.1.0 */
  override get message(): string {
    return `Step ${JSON.stringify(this.step)} failed with ${this.failure.type}: ${this.failure.message}`
  }
}

/**
 * A step refers to something that this run does not have: a step that was skipped, a
 * band that is not complete.
 *
 * @category reasons
 * @since 0.1.0
 */
export class ReferenceFailed extends Schema.TaggedError<ReferenceFailed>("effect-emissary/plan/ReferenceFailed")(
  "ReferenceFailed",
  { step: Schema.String, slot: Schema.String, reference: Schema.String, ran: Schema.Array(Schema.String) }
) {
  /** @since 0.1.0 */
  override get message(): string {
    return `Step ${JSON.stringify(this.step)}, ${this.slot}: expected a result for ${this.reference}, found that only ${JSON.stringify(this.ran)} ran. A route skipped it; refer to a step that always runs.`
  }
}

/**
 * A custom predicate failed. The step before it is done and does not run again.
 *
 * @category reasons
 * @since 0.1.0
 */
export class PredicateFailed extends Schema.TaggedError<PredicateFailed>("effect-emissary/plan/PredicateFailed")(
  "PredicateFailed",
  { step: Schema.String, to: Schema.String, predicate: Schema.String, failure: StepFailure }
) {
  /** @since 0.1.0 */
  override get message(): string {
    return `Step ${JSON.stringify(this.step)}: the predicate ${JSON.stringify(this.predicate)} of the route to ${JSON.stringify(this.to)} failed with ${this.failure.type}: ${this.failure.message}`
  }
}

/**
 * The plan used up its iterations: usually a loop that no condition ends.
 *
 * @category reasons
 * @since 0.1.0
 */
export class MaxIterationsExceeded extends Schema.TaggedError<MaxIterationsExceeded>(
  "effect-emissary/plan/MaxIterationsExceeded"
)("MaxIterationsExceeded", { limit: Schema.Int, next: Schema.String }) {
  /** @since 0.1.0 */
  override get message(): string {
    return `expected to end within ${this.limit} iterations, found that ${JSON.stringify(this.next)} would be next. Look for a loop whose condition never changes, or resume with a larger maxIterations.`
  }
}

/**
 * The state belongs to a plan with another definition.
 *
 * @category reasons
 * @since 0.1.0
 */
export class PlanChanged extends Schema.TaggedError<PlanChanged>("effect-emissary/plan/PlanChanged")("PlanChanged", {
  expected: Schema.String,
  found: Schema.String
}) {
  /** @since 0.1.0 */
  override get message(): string {
    return `expected to go on with the plan ${this.expected}, found ${this.found}: it was edited since. Resume it with the plan it began with, or start a new run.`
  }
}

/**
 * The output of the plan does not fit the schema of its output.
 *
 * @category reasons
 * @since 0.1.0
 */
export class OutputInvalid extends Schema.TaggedError<OutputInvalid>("effect-emissary/plan/OutputInvalid")(
  "OutputInvalid",
  { step: Schema.String, failure: StepFailure }
) {
  /** @since 0.1.0 */
  override get message(): string {
    return `Step ${JSON.stringify(this.step)} gave an output that does not fit the output schema of the plan: ${this.failure.message}`
  }
}

/**
 * A decision names a call or a pause that does not wait.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidDecision extends Schema.TaggedError<InvalidDecision>("effect-emissary/plan/InvalidDecision")(
  "InvalidDecision",
  { callId: Schema.String, waiting: Schema.Array(Schema.String) }
) {
  /** @since 0.1.0 */
  override get message(): string {
    return `expected a decision about one of ${JSON.stringify(this.waiting)}, found ${JSON.stringify(this.callId)}.`
  }
}

/**
 * What keeps the run could not be written, or another owner has it now.
 *
 * @category reasons
 * @since 0.1.0
 */
export class JournalFailed extends Schema.TaggedError<JournalFailed>("effect-emissary/plan/JournalFailed")(
  "JournalFailed",
  { problem: Schema.String }
) {
  /** @since 0.1.0 */
  override get message(): string {
    return this.problem
  }
}

/**
 * @category reasons
 * @since 0.1.0
 */
export const Reason = Schema.Union([
  StepFailed,
  ReferenceFailed,
  PredicateFailed,
  MaxIterationsExceeded,
  PlanChanged,
  OutputInvalid,
  InvalidDecision,
  JournalFailed
])

/**
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A run failed. `state` is the last consistent state, with everything that was
 * completed, and the run can be resumed from it; it is absent when the run had not
 * begun.
 *
 * @category errors
 * @since 0.1.0
 */
export class PlanError extends Schema.TaggedError<PlanError>("effect-emissary/plan/PlanError")("PlanError", {
  plan: Schema.String,
  reason: Reason,
  state: Schema.optionalKey(PlanRunState)
}) {
  /** @since 0.1.0 */
  override get message(): string {
    return `Plan ${JSON.stringify(this.plan)}: ${this.reason.message}`
  }
}
