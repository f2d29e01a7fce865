/**
 * A fact that cannot follow a state.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * @category errors
 * @since 0.1.0
 */
export class PlanEventError extends Schema.TaggedError<PlanEventError>("effect-emissary/plan/PlanEventError")(
  "PlanEventError",
  { event: Schema.String, problem: Schema.String }
) {
  /** @since 0.1.0 */
  override get message(): string {
    return `${this.event}: ${this.problem}`
  }
}
