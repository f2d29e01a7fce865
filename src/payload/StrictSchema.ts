/**
 * The strict form of a JSON Schema, as OpenAI's strict tools and structured
 * outputs want it.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { strictForm } from "./internal/jsonschema/strict.ts"
import { fingerprint } from "./internal/jsonschema/values.ts"
import type { JsonObject } from "./Json.ts"

/**
 * A schema has no strict form: `path` is the JSON Pointer of the part that has
 * none, `problem` says why.
 *
 * @category errors
 * @since 0.1.0
 */
export class StrictSchemaError extends Schema.TaggedError<StrictSchemaError>(
  "effect-emissary/payload/StrictSchemaError"
)("StrictSchemaError", {
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
 * Turns a JSON Schema into its strict form, or names the part that has none.
 *
 * **When to use**
 *
 * For a provider that constrains a model's output by the schema. What the model
 * sends is still validated against the original schema, where `null` for an
 * optional property means that it is absent.
 *
 * **Details**
 *
 * - Every property is required and every object closed.
 * - An optional property takes `null`: `type: ["string", "null"]`, or `anyOf`
 *   with `{ type: "null" }` where the schema has an `enum`, `const` or `$ref`.
 * - `default` is left out.
 * - An object that is open, an array without `items`, a value of any type, and
 *   keywords that providers do not constrain by (`oneOf`, `not`, ...) are refused.
 *
 * **Example** (An optional parameter)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { StrictSchema } from "effect-emissary"
 *
 * const strict = StrictSchema.make({
 *   type: "object",
 *   properties: { city: { type: "string" }, days: { type: "integer", default: 3 } },
 *   required: ["city"],
 *   additionalProperties: false
 * })
 * assert.deepStrictEqual(strict, Result.succeed({
 *   type: "object",
 *   properties: { city: { type: "string" }, days: { type: ["integer", "null"] } },
 *   required: ["city", "days"],
 *   additionalProperties: false
 * }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (json: JsonObject): Result.Result<JsonObject, StrictSchemaError> =>
  Result.mapError(strictForm(json, ""), (problem) => new StrictSchemaError(problem))

/**
 * Whether a JSON Schema is in the strict form already.
 *
 * **Example** (Telling a provider whether it may be strict)
 *
 * ```ts
 * import assert from "node:assert"
 * import { StrictSchema } from "effect-emissary"
 *
 * assert.strictEqual(StrictSchema.is({ type: "object" }), false)
 * assert.strictEqual(
 *   StrictSchema.is({ type: "object", properties: {}, required: [], additionalProperties: false }),
 *   true
 * )
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const is = (json: JsonObject): boolean => {
  const strict = make(json)
  return Result.isSuccess(strict) && fingerprint(sorted(strict.success)) === fingerprint(sorted(json))
}

/** The order of `required` and of a union of types says nothing. */
const sorted = (json: Schema.Json): Schema.Json => {
  if (Array.isArray(json)) {
    const items = json.map(sorted)
    return items.every((item) => typeof item === "string") ? items.sort() : items
  }
  return typeof json === "object" && json !== null
    ? Object.fromEntries(Object.entries(json).map(([key, value]) => [key, sorted(value)]))
    : json
}
