/**
 * When a step that failed is tried again, as data.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * A schedule that travels.
 *
 * **Details**
 *
 * `times` is how often it is tried again, at most; `delayMillis` the pause before the
 * first of these (default 0), multiplied by `factor` (default 1) after each, up to
 * `maxDelayMillis`.
 *
 * @category models
 * @since 0.1.0
 */
export interface RetryPolicy {
  readonly times: number
  readonly delayMillis?: number
  readonly factor?: number
  readonly maxDelayMillis?: number
}

/**
 * Schema of {@link RetryPolicy}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RetryPolicy: Schema.Codec<RetryPolicy> = Schema.Struct({
  times: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  delayMillis: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  factor: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1))),
  maxDelayMillis: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)))
})
