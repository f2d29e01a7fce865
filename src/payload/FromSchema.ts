/**
 * Effect Schemas as closed, provider-neutral JSON Schema documents.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "./Json.ts"
import type { JsonSchemaError } from "./JsonSchemaError.ts"

/**
 * The JSON Schema of a tool without parameters.
 *
 * @category constants
 * @since 0.1.0
 */
export const noParameters: JsonObject = { type: "object", properties: {}, required: [], additionalProperties: false }

/**
 * @category converting
 * @since 0.1.0
 */
export const fromSchema = (
  _schema: Schema.Top,
  _options?: { readonly what?: string | undefined }
): Effect.Effect<JsonObject, JsonSchemaError> => Effect.die("not yet")
