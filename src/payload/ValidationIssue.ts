/**
 * One problem that a value has with a JSON Schema.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { child, type Location, toPath, toPointer } from "./internal/jsonschema/location.ts"

/**
 * One problem of a value: where it is, which keyword found it, and what was
 * expected and found. It never quotes the value itself, only its kind.
 *
 * **Details**
 *
 * - `path` is the readable form, `items[1].qty`; `""` is the value itself.
 * - `pointer` is the same place as a JSON Pointer, `/items/1/qty`.
 * - A missing property is reported at the place where it should be.
 * - `keyword` is the JSON Schema keyword (`required`, `type`, ...), `schema` for what a
 *   Schema of Effect found, `json` for a value that is not plain JSON, or `budget` when
 *   validation was given up.
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

const format = SchemaIssue.makeFormatterStandardSchemaV1()

/**
 * What a Schema of Effect found, each problem with its place; the keyword is `schema`.
 *
 * **When to use**
 *
 * Use to tell a model or a person what a decode of JSON refused, in the words that
 * `CheckedSchema.validate` has for the rest.
 *
 * **Gotchas**
 *
 * Give the decode `{ errors: "all" }`, or there is one issue at most.
 *
 * **Example** (All problems of a value)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { ValidationIssue } from "effect-emissary"
 *
 * const Order = Schema.Struct({ items: Schema.Array(Schema.Struct({ qty: Schema.Int })) })
 * const error = Effect.runSync(Effect.flip(
 *   Schema.decodeUnknownEffect(Order)({ items: [{ qty: "2" }, {}] }, { errors: "all" })
 * ))
 * assert.deepStrictEqual(
 *   ValidationIssue.fromSchemaError(error).map(({ path, pointer }) => [path, pointer]),
 *   [["items[0].qty", "/items/0/qty"], ["items[1].qty", "/items/1/qty"]]
 * )
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const fromSchemaError = (error: Schema.SchemaError): ReadonlyArray<ValidationIssue> =>
  format(error.issue).issues.map(({ message, path = [] }) => {
    const location = path
      .map((segment) => (typeof segment === "object" ? segment.key : segment))
      .reduce<Location | undefined>(
        (parent, key) => child(parent, typeof key === "symbol" ? String(key) : key),
        undefined
      )
    return { path: toPath(location), pointer: toPointer(location), keyword: "schema", message }
  })

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
