/**
 * JSON Schemas that have been checked: validate values against them, and convert them from and to Effect's Schema. Documents that cannot be enforced in full are refused.
 *
 * @since 0.1.0
 */

import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import { isNote, JsonSchemaError, type Refusal } from "./internal/compileSchema.ts"
import { appendToken, fingerprint, isArray, isObject, type JsonObject, kindOf, own } from "./internal/values.ts"

export { codec, fromSchema, toSchema } from "./internal/convertSchema.ts"
export { JsonSchemaError, make } from "./internal/compileSchema.ts"
export {
  accepts,
  validate,
  type JsonSchema,
  type UncheckedPattern,
  type ValidateOptions
} from "./internal/interpret.ts"

type StrictResult<A> = Result.Result<A, Refusal>

const failStrict = (path: string, found: string, fix = "Use the schema without the strict form"): StrictResult<never> =>
  Result.fail({ reason: "NotStrict", path, expected: "a schema that has a strict form", found, fix })

/** The form is made recursively; checked documents are never this deep. */
const maxStrictDepth = 300

/** Keywords the strict form has no place for. */
const unsupportedKeywords: ReadonlyArray<string> = [
  "allOf oneOf not if then else",
  "patternProperties propertyNames minProperties maxProperties dependentRequired dependentSchemas dependencies",
  "prefixItems additionalItems contains minContains maxContains uniqueItems"
].flatMap((names) => names.split(" "))

const typesOf = (schema: JsonObject): ReadonlyArray<Schema.Json> => {
  const type = own(schema, "type")
  return type === undefined ? [] : isArray(type) ? type : [type]
}

const acceptsNull = (schema: JsonObject): boolean => {
  const anyOf = own(schema, "anyOf")
  if (isArray(anyOf)) return anyOf.some((branch) => isObject(branch) && acceptsNull(branch))
  const members = own(schema, "enum")
  if (isArray(members) && !members.includes(null)) return false
  return typesOf(schema).includes("null") || own(schema, "const") === null
}

/** The schema with `null` beside what it accepts; `enum` and the like are wrapped, because providers refuse a union of types next to them. */
const makeNullable = (schema: JsonObject): JsonObject => {
  if (acceptsNull(schema)) return schema
  const anyOf = own(schema, "anyOf")
  if (isArray(anyOf)) return { ...schema, anyOf: [...anyOf, { type: "null" }] }
  const list = typesOf(schema)
  const plain = list.length > 0 && !["enum", "const", "$ref"].some((keyword) => Object.hasOwn(schema, keyword))
  return plain ? { ...schema, type: [...list, "null"] } : { anyOf: [schema, { type: "null" }] }
}

const strictMembers = (json: JsonObject, path: string): StrictResult<{ readonly [key: string]: JsonObject }> =>
  Result.all(
    Object.fromEntries(Object.entries(json).map(([key, member]) => [key, toStrictForm(member, appendToken(path, key))]))
  )

const closeObject = (schema: JsonObject, path: string): StrictResult<JsonObject> =>
  Result.gen(function* () {
    const additional = own(schema, "additionalProperties")
    const properties = own(schema, "properties")
    if ((additional !== undefined && additional !== false) || (properties === undefined && additional !== false)) {
      return yield* failStrict(path, "an open object", "Declare its properties")
    }
    const declared = isObject(properties) ? properties : {}
    const required = own(schema, "required")
    const names = isArray(required) ? required : []
    const undeclared = names.find((name) => typeof name === "string" && !Object.hasOwn(declared, name))
    if (undeclared !== undefined) {
      return yield* failStrict(path, `an object that requires ${JSON.stringify(undeclared)}, which is not declared`)
    }
    const strict = yield* strictMembers(declared, appendToken(path, "properties"))
    const optional = (key: string, form: JsonObject) => (names.includes(key) ? form : makeNullable(form))
    return {
      properties: Object.fromEntries(Object.entries(strict).map(([key, form]) => [key, optional(key, form)])),
      // In their own order if these are all: then a strict schema stays as it is.
      required: new Set(names).size === Object.keys(declared).length ? names : Object.keys(declared),
      additionalProperties: false
    }
  })

/** The strict form of one schema and everything below it. */
const toStrictForm = (schema: Schema.Json, path: string): StrictResult<JsonObject> =>
  Result.gen(function* () {
    if (path.split("/").length > maxStrictDepth) return yield* failStrict(path.slice(0, 100), "nested too deeply")
    if (!isObject(schema)) return yield* failStrict(path, kindOf(schema))
    const foreign = unsupportedKeywords.find((keyword) => Object.hasOwn(schema, keyword))
    if (foreign !== undefined) return yield* failStrict(path, `the keyword ${JSON.stringify(foreign)}`)
    const typed = ["type", "enum", "const", "anyOf", "$ref"].some((keyword) => Object.hasOwn(schema, keyword))
    if (!typed) return yield* failStrict(path, "a value of any type", "Declare its type")
    const isAnObject = typesOf(schema).includes("object")
    if (typesOf(schema).includes("array") && !isObject(own(schema, "items"))) {
      return yield* failStrict(path, "an array of anything", "Declare its items")
    }
    const object = isAnObject ? yield* closeObject(schema, path) : {}
    const out: Record<string, Schema.Json> = {}
    for (const keyword of Object.keys(schema)) {
      const value = schema[keyword] ?? null
      const here = appendToken(path, keyword)
      if (keyword === "default" || isNote(keyword)) continue
      else if (Object.hasOwn(object, keyword)) out[keyword] = object[keyword] ?? null
      else if (keyword === "items") out["items"] = yield* toStrictForm(value, here)
      else if (keyword === "anyOf" && isArray(value)) {
        out["anyOf"] = yield* Result.all(value.map((item, index) => toStrictForm(item, appendToken(here, index))))
      } else if ((keyword === "$defs" || keyword === "definitions") && isObject(value)) {
        out[keyword] = yield* strictMembers(value, here)
      } else out[keyword] = value
    }
    return { ...out, ...object }
  })

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
 * - `default` is left out, and so are annotations that JSON Schema does not have.
 * - An object that is open, an array without `items`, a value of any type, and
 *   keywords that providers do not constrain by (`oneOf`, `not`, ...) are refused.
 *
 * **Example** (An optional parameter)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const strict = JsonSchema.toStrict({
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
export const toStrict = (json: JsonObject): Result.Result<JsonObject, JsonSchemaError> =>
  Result.mapError(toStrictForm(json, ""), (refusal) => new JsonSchemaError({ what: "JSON Schema", ...refusal }))

/**
 * True for a JSON Schema that is in the strict form already.
 *
 * **Example** (Two schemas, one of them strict)
 *
 * ```ts
 * import assert from "node:assert"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * assert.strictEqual(JsonSchema.isStrict({ type: "object" }), false)
 * assert.strictEqual(
 *   JsonSchema.isStrict({ type: "object", properties: {}, required: [], additionalProperties: false }),
 *   true
 * )
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isStrict = (json: JsonObject): boolean => {
  const strict = toStrict(json)
  return Result.isSuccess(strict) && fingerprint(strict.success) === fingerprint(json)
}
