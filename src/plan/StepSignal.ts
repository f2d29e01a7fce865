/**
 * What a step can say besides an answer: that the plan has to wait, or that it is done.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * The step waits for somebody. The run ends `Paused`; when it is resumed, the step runs
 * again with the same input.
 *
 * @category errors
 * @since 0.1.0
 */
export class Pause extends Schema.TaggedError<Pause>("effect-emissary/plan/Pause")("Pause", {
  reason: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `The step waits: ${this.reason}. Resume the run to run the step again.`
  }
}

/**
 * The plan, and every plan it is a step of, is done with this answer.
 *
 * @category errors
 * @since 0.1.0
 */
export class Conclude extends Schema.TaggedError<Conclude>("effect-emissary/plan/Conclude")("Conclude", {
  answer: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `The plan concludes with an answer of ${this.answer.length} characters.`
  }
}

/**
 * Pauses the run at this step.
 *
 * @category constructors
 * @since 0.1.0
 */
export const pause = (reason: string): Effect.Effect<never, Pause> => Effect.fail(new Pause({ reason }))

/**
 * Ends the whole plan with an answer.
 *
 * @category constructors
 * @since 0.1.0
 */
export const conclude = (answer: string): Effect.Effect<never, Conclude> => Effect.fail(new Conclude({ answer }))
