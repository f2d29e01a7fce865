/**
 * The strict form of a JSON Schema, as OpenAI's structured outputs want it.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { JsonObject } from "./Json.ts"

/**
 * @category errors
 * @since 0.1.0
 */
export class StrictSchemaError extends Schema.TaggedError<StrictSchemaError>()("StrictSchemaError", {
  path: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `no strict form at ${this.path === "" ? "the root" : this.path}: ${this.problem}`
  }
}

/**
 * @category constructors
 * @since 0.1.0
 */
export const make = (_json: JsonObject): Result.Result<JsonObject, StrictSchemaError> =>
  Result.fail(new StrictSchemaError({ path: "", problem: "not yet" }))

/**
 * @category guards
 * @since 0.1.0
 */
export const is = (_json: JsonObject): boolean => false
