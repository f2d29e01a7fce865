/**
 * Why a run of a plan failed.
 *
 * A run that ends in a way its steps foresee has a `PlanResult`: an answer, a pause, an
 * interruption. A `PlanError` is for the rest. It carries the last consistent state, so
 * that what was completed is never lost and the run can go on from there.
 *
 * @since 0.1.0
 */

import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as PlanRun from "./PlanRun.ts"

// Errors and defects behind a failure may hold whatever a step worked on. They stay out of
// reasons, their messages, their JSON and everything that prints an error.
const causes = new WeakMap<object, unknown>()

/**
 * Remembers the error or defect behind a reason, for {@link causeOf}. It is not part of
 * the reason: neither messages nor JSON nor rendered causes show it.
 *
 * @category constructors
 * @since 0.1.0
 */
export const withCause = <R extends Reason>(reason: R, cause: unknown): R => {
  causes.set(reason, cause)
  return reason
}

/**
 * The error or defect behind a reason, in the process where it happened: what a function
 * failed with or died of, the `AgentError` of an agent. It may hold what the step worked
 * on: do not log it without looking.
 *
 * @category getters
 * @since 0.1.0
 */
export const causeOf = (reason: Reason): Option.Option<unknown> =>
  causes.has(reason) ? Option.some(causes.get(reason)) : Option.none()

/**
 * A step failed, after the retries it has: its target failed, ran out of time, or gave
 * something its output schema does not take. `path` are the steps of the outer plans.
 *
 * **Details**
 *
 * `failure.type` is the tag or name of the error, and `failure.message` its message. These
 * types are of the plan itself:
 *
 * | type | meaning |
 * |---|---|
 * | `Timeout` | a try took longer than the step's timeout |
 * | `Defect` | it died: the message names the kind of defect, the cause is logged, and {@link causeOf} is the defect |
 * | `Denied` | somebody turned down its call, or its pause |
 * | `InputInvalid` | what it refers to does not fit its input schema; the message has each place, what was expected and what kind of value was found |
 * | `OutputInvalid` | what it gave does not fit its output schema; the message says the same |
 * | `OutputNotJson` | what it gave is no JSON |
 * | `MaxSteps`, `InvalidOutput`, `Stopped`, `Interrupted` | its agent ended so, without an answer |
 * | `MaxDepth` | too many plans and agents run inside each other |
 *
 * @category reasons
 * @since 0.1.0
 */
export class StepFailed extends Schema.TaggedError<StepFailed>("effect-emissary/plan/StepFailed")("StepFailed", {
  step: Schema.String,
  path: Schema.Array(Schema.String),
  failure: PlanRun.StepFailure
}) {
  /**
   * @since 0.1.0
   */
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
  /**
   * @since 0.1.0
   */
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
  { step: Schema.String, to: Schema.String, predicate: Schema.String, failure: PlanRun.StepFailure }
) {
  /**
   * @since 0.1.0
   */
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
  /**
   * @since 0.1.0
   */
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
  /**
   * @since 0.1.0
   */
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
  { step: Schema.String, failure: PlanRun.StepFailure }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Step ${JSON.stringify(this.step)} gave an output that does not fit the output schema of the plan: ${this.failure.message}`
  }
}

/**
 * A decision about something that does not wait for one.
 *
 * **Details**
 *
 * `path` is that of the decision, if it had one. `problem` says what is wrong with it:
 *
 * | problem | meaning |
 * |---|---|
 * | `unknown` | nothing of that name waits; with a `path`, not there |
 * | `ambiguous` | several wait under that name: say which one by its `path` |
 * | `repeated` | the second decision about it in one list |
 * | `notWaiting` | a step of that name ran, and does not wait, or not any more |
 * | `over` | the run gave its answer (`outcome`), so that nothing waits |
 *
 * `waiting` is what does wait.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidDecision extends Schema.TaggedError<InvalidDecision>("effect-emissary/plan/InvalidDecision")(
  "InvalidDecision",
  {
    callId: Schema.String,
    path: Schema.optionalKey(Schema.Array(Schema.String)),
    problem: Schema.Literals(["unknown", "ambiguous", "repeated", "notWaiting", "over"]),
    outcome: Schema.optionalKey(Schema.String),
    waiting: Schema.Array(Schema.Struct({ callId: Schema.String, path: Schema.Array(Schema.String) }))
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const problem = {
      unknown: this.waiting.some(({ callId }) => callId === this.callId)
        ? "it waits, but at another path"
        : "nothing of that name waits",
      ambiguous: "several wait under that name; say which one by its path",
      repeated: "the list has two decisions about it",
      notWaiting: "it does not wait, or not any more",
      over: `the run is over${this.outcome === undefined ? "" : ` (${this.outcome})`}`
    }[this.problem]
    const shown = this.waiting.slice(0, maxShown).map(showPath).join(", ")
    const more = this.waiting.length - maxShown
    const waiting = shown === "" ? "Nothing waits." : `Waiting: ${shown}${more > 0 ? ` and ${more} more` : ""}.`
    return `expected a decision about something that waits, found one about ${showPath(this)}: ${problem}. ${waiting}`
  }
}

const maxShown = 20

/** Something that waits, from the outside in. */
const showPath = ({ callId, path }: { readonly callId: string; readonly path?: ReadonlyArray<string> }): string =>
  [...(path ?? []), callId].map((name) => JSON.stringify(name)).join(" > ")

/**
 * What keeps the run could not be written, or another owner has it now; or an agent's
 * memory could not be. The run stopped at once.
 *
 * @category reasons
 * @since 0.1.0
 */
export class JournalFailed extends Schema.TaggedError<JournalFailed>("effect-emissary/plan/JournalFailed")(
  "JournalFailed",
  { problem: Schema.String }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return this.problem
  }
}

/**
 * The input is none: its payload is no JSON, or a part that has to be a text is something
 * else. Only code without types can give it. Nothing ran, and there is no state.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InputInvalid extends Schema.TaggedError<InputInvalid>("effect-emissary/plan/PlanInputInvalid")(
  "InputInvalid",
  { problem: Schema.String }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.problem}. Encode the input with a schema, Schema.toCodecJson for example, before the plan gets it.`
  }
}

/**
 * Schema of {@link Reason}.
 *
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
  JournalFailed,
  InputInvalid
])

/**
 * Why a run failed.
 *
 * @category reasons
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

/**
 * A run failed. `state` is the last consistent state, with everything that was
 * completed, and the run can be resumed from it.
 *
 * **Example** (Going on after a failure)
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
  state: Schema.optionalKey(PlanRun.State)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Plan ${JSON.stringify(this.plan)}: ${this.reason.message}`
  }
}
