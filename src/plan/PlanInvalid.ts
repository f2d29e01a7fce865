/**
 * The error of a plan that cannot run as it is, with all its problems.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Names from "../payload/Names.ts"
import { PlanProblem } from "./PlanProblem.ts"

/** How many problems the message spells out: a plan from outside can have any number. */
const shown = 50

/**
 * All problems of a plan.
 *
 * **Details**
 *
 * Problems of the plan as a whole come first, then those of its steps in declared
 * order. The message is the reasons of the first 50; programs read `problems`.
 *
 * @category errors
 * @since 0.1.0
 */
export class PlanInvalid extends Schema.TaggedError<PlanInvalid>("effect-emissary/plan/PlanInvalid")("PlanInvalid", {
  plan: Schema.String,
  problems: Schema.NonEmptyArray(PlanProblem)
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const { length } = this.problems
    const lines = this.problems.slice(0, shown).map(({ reason }) => `- ${reason}`)
    const rest = length > shown ? [`- and ${length - shown} more`] : []
    return `Plan ${Names.quote(this.plan)}: expected a plan that can run, found ${length === 1 ? "a problem" : `${length} problems`}:\n${[...lines, ...rest].join("\n")}`
  }
}
