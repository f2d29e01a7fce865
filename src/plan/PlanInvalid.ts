/**
 * The plan cannot run as it is.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { PlanProblem } from "./PlanProblem.ts"

/**
 * All problems of a plan, in the order of its steps.
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
    const lines = this.problems.map(({ reason }) => `- ${reason}`)
    return `Plan ${JSON.stringify(this.plan)}: expected a plan that can run, found ${this.problems.length} problems:\n${lines.join("\n")}`
  }
}
