/**
 * JSON in a model's final text.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Limits } from "./Limits.ts"

/**
 * @category errors
 * @since 0.1.0
 */
export class ModelJsonError extends Schema.TaggedError<ModelJsonError>()("ModelJsonError", {
  offset: Schema.Int,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `no JSON in the model's text: ${this.problem}`
  }
}

/**
 * @category parsing
 * @since 0.1.0
 */
export const parse = (
  _text: string,
  _options?: { readonly limits?: Partial<Limits> | undefined }
): Result.Result<Schema.Json, ModelJsonError> => Result.fail(new ModelJsonError({ offset: 0, problem: "not yet" }))
