/**
 * One problem that a value has with a JSON Schema.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * One problem of a value: where it is, which keyword found it, and what was
 * expected and found. It never quotes the value itself, only its kind.
 *
 * **Details**
 *
 * - `path` is the readable form, `items[1].qty`; `""` is the value itself.
 * - `pointer` is the same place as a JSON Pointer, `/items/1/qty`.
 * - A missing property is reported at the place where it should be.
 * - `keyword` is the JSON Schema keyword (`required`, `type`, ...), `json` for a
 *   value that is not plain JSON, or `budget` when validation was given up.
 * - `message` does not repeat the path; {@link render} joins both.
 *
 * @category models
 * @since 0.1.0
 */
export const ValidationIssue = Schema.Struct({
  path: Schema.String,
  pointer: Schema.String,
  keyword: Schema.String,
  message: Schema.String
})

/**
 * One problem that a value has with a JSON Schema.
 *
 * @category models
 * @since 0.1.0
 */
export type ValidationIssue = typeof ValidationIssue.Type

/**
 * One line of text for a list of issues, fit to be shown to a model or a person.
 *
 * **Example** (Telling a model what was wrong)
 *
 * ```ts
 * import assert from "node:assert"
 * import { ValidationIssue } from "effect-emissary"
 *
 * const text = ValidationIssue.render([
 *   { path: "items[1].qty", pointer: "/items/1/qty", keyword: "required", message: "is required" },
 *   { path: "name", pointer: "/name", keyword: "type", message: "expected string, got integer" }
 * ])
 * assert.strictEqual(text, "items[1].qty is required; name: expected string, got integer")
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const render = (issues: ReadonlyArray<ValidationIssue>): string =>
  issues
    .map(({ message, path }) =>
      path === "" ? message : message.startsWith("is ") ? `${path} ${message}` : `${path}: ${message}`
    )
    .join("; ")
