/**
 * What the conformance suites of stores have in common: their checks, options and error.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"

/**
 * A store breaks a rule.
 *
 * @category errors
 * @since 0.1.0
 */
export class StoreConformanceError extends Schema.TaggedError<StoreConformanceError>(
  "effect-emissary/testing/StoreConformanceError"
)("StoreConformanceError", {
  store: Schema.String,
  check: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `${this.store}: ${this.check}: ${this.problem}`
  }
}

/**
 * One rule, as an effect that fails when the store breaks it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Check {
  readonly name: string
  readonly check: Effect.Effect<void, StoreConformanceError>
}

/**
 * How a suite treats the store.
 *
 * **Details**
 *
 * - `durable`: values outlive the layer, and the layer built again finds them. Default
 *   `true`; say `false` for a store in memory.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly durable?: boolean | undefined
}
