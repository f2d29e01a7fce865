/**
 * Why a fact cannot follow a state of a plan's run.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * The reasons of a {@link PlanRunEventError}.
 *
 * **Details**
 *
 * - `Unexpected`: the fact has no place in this state of the run.
 * - `UnknownStep`: no step of that name runs now, or the plan has none.
 * - `StepStatus`: the step is of this turn, but not ready for this fact; a step that has
 *   finished, for example, never starts again in its turn.
 * - `NotNested`: the rules do not know the plan that runs in the step, see
 *   `PlanTransition.Rules`.
 * - `Agent`: the event does not fit the run of the agent in the step.
 *
 * @category errors
 * @since 0.1.0
 */
export const Reason = Schema.TaggedUnion({
  Unexpected: { expected: Schema.String, found: Schema.String },
  UnknownStep: { step: Schema.String, known: Schema.Array(Schema.String) },
  StepStatus: { step: Schema.String, expected: Schema.String, found: Schema.String },
  NotNested: { step: Schema.String },
  Agent: { problem: Schema.String }
})

/**
 * One of the reasons of a {@link PlanRunEventError}.
 *
 * @category errors
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

const explain = Reason.match({
  Unexpected: ({ expected, found }) => `expected ${expected}, found ${found}`,
  UnknownStep: ({ known, step }) =>
    `expected one of the steps ${known.length === 0 ? "(none)" : known.map((name) => JSON.stringify(name)).join(", ")}, found ${JSON.stringify(step)}`,
  StepStatus: ({ expected, found, step }) => `step ${JSON.stringify(step)}: expected ${expected}, found ${found}`,
  NotNested: ({ step }) =>
    `expected a plan in step ${JSON.stringify(step)}, found that the rules know none; give PlanTransition.rules the rules of nested plans`,
  Agent: ({ problem }) => problem
})

/**
 * A fact does not fit the state it was applied to: facts are missing, out of order or
 * doubled, or two drivers write to one run.
 *
 * **Details**
 *
 * `event` is the tag of the fact, `index` its place in the list when a list was
 * applied, `path` the steps of the outer plans (and the ids of the calls of agents in
 * them) when it is a fact of a run inside a step.
 *
 * @category errors
 * @since 0.1.0
 */
export class PlanRunEventError extends Schema.TaggedError<PlanRunEventError>("effect-emissary/plan/PlanRunEventError")(
  "PlanRunEventError",
  {
    event: Schema.String,
    path: Schema.Array(Schema.String),
    index: Schema.optionalKey(Schema.Int),
    reason: Reason
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const where = this.path.length === 0 ? "" : ` in the run inside ${this.path.join(" > ")}`
    const index = this.index === undefined ? "" : ` at index ${this.index}`
    return `${this.event}${index}${where} does not fit the run of the plan: ${explain(this.reason)}. Apply each fact once, in the order in which it happened, from one driver at a time.`
  }
}
