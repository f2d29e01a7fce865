/**
 * One thing that is wrong with a plan.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * What kind of problem it is, for programs.
 *
 * @category models
 * @since 0.1.0
 */
export const Code = Schema.String

/**
 * One problem: the step (`index` counts from 0; both absent for the plan as a whole),
 * the slot (`task`, `context[1]`, `routes`, ...), what is wrong, and the closest known
 * name.
 *
 * @category models
 * @since 0.1.0
 */
export const PlanProblem = Schema.Struct({
  code: Code,
  step: Schema.optionalKey(Schema.String),
  index: Schema.optionalKey(Schema.Int),
  slot: Schema.optionalKey(Schema.String),
  reason: Schema.String,
  known: Schema.optionalKey(Schema.Array(Schema.String)),
  suggestion: Schema.optionalKey(Schema.String)
})

/**
 * @category models
 * @since 0.1.0
 */
export type PlanProblem = typeof PlanProblem.Type
