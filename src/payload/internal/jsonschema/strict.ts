import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../Json.ts"
import { join } from "./location.ts"
import { describe, get, isArray, isObject, set } from "./values.ts"

interface Problem {
  readonly path: string
  readonly problem: string
}

type Answer<A> = Result.Result<A, Problem>

const fail = (path: string, problem: string): Answer<never> => Result.fail({ path, problem })

/** The form is made recursively; checked documents are never this deep. */
const deepest = 300

/** Keywords the strict form has no place for. */
const unsupported: ReadonlyArray<string> = [
  "allOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "patternProperties",
  "propertyNames",
  "minProperties",
  "maxProperties",
  "unevaluatedProperties",
  "dependentRequired",
  "dependentSchemas",
  "dependencies",
  "prefixItems",
  "additionalItems",
  "unevaluatedItems",
  "contains",
  "minContains",
  "maxContains",
  "uniqueItems"
]

const types = (schema: JsonObject): ReadonlyArray<Schema.Json> => {
  const type = get(schema, "type")
  return type === undefined ? [] : isArray(type) ? type : [type]
}

const acceptsNull = (schema: JsonObject): boolean => {
  const anyOf = get(schema, "anyOf")
  if (anyOf !== undefined && isArray(anyOf)) return anyOf.some((branch) => isObject(branch) && acceptsNull(branch))
  const members = get(schema, "enum")
  if (members !== undefined && isArray(members) && !members.includes(null)) return false
  return types(schema).includes("null") || get(schema, "const") === null
}

/** The schema with `null` beside what it accepts; `enum` and the like are wrapped, because providers refuse a union of types next to them. */
const nullable = (schema: JsonObject): JsonObject => {
  if (acceptsNull(schema)) return schema
  const anyOf = get(schema, "anyOf")
  if (anyOf !== undefined && isArray(anyOf)) return { ...schema, anyOf: [...anyOf, { type: "null" }] }
  const list = types(schema)
  const plain = list.length > 0 && !["enum", "const", "$ref"].some((keyword) => Object.hasOwn(schema, keyword))
  return plain ? { ...schema, type: [...list, "null"] } : { anyOf: [schema, { type: "null" }] }
}

const list = (json: ReadonlyArray<Schema.Json>, path: string): Answer<ReadonlyArray<Schema.Json>> =>
  Result.all(json.map((item, index) => strictForm(item, join(path, index))))

const map = (json: JsonObject, path: string): Answer<JsonObject> =>
  Result.gen(function* () {
    const out: Record<string, Schema.Json> = {}
    for (const key of Object.keys(json)) set(out, key, yield* strictForm(json[key] ?? null, join(path, key)))
    return out
  })

const closedObject = (schema: JsonObject, path: string): Answer<JsonObject> =>
  Result.gen(function* () {
    const additional = get(schema, "additionalProperties")
    const properties = get(schema, "properties")
    if ((additional !== undefined && additional !== false) || (properties === undefined && additional !== false)) {
      return yield* fail(path, "an open object; declare its properties")
    }
    const declared = isObject(properties) ? properties : {}
    const required = get(schema, "required")
    const names = required !== undefined && isArray(required) ? required : []
    const undeclared = names.find((name) => typeof name === "string" && !Object.hasOwn(declared, name))
    if (undeclared !== undefined) {
      return yield* fail(path, `requires ${JSON.stringify(undeclared)}, which is not declared`)
    }
    const strict: Record<string, Schema.Json> = {}
    for (const key of Object.keys(declared)) {
      const form = yield* strictForm(declared[key] ?? null, join(join(path, "properties"), key))
      set(strict, key, names.includes(key) ? form : nullable(form))
    }
    return { properties: strict, required: Object.keys(declared), additionalProperties: false }
  })

/** The strict form of one schema and everything below it. */
export const strictForm = (schema: Schema.Json, path: string): Answer<JsonObject> =>
  Result.gen(function* () {
    if (path.split("/").length > deepest) return yield* fail(path.slice(0, 100), "nested too deeply")
    if (!isObject(schema)) return yield* fail(path, `expected a typed schema, got ${describe(schema)}`)
    const foreign = unsupported.find((keyword) => Object.hasOwn(schema, keyword))
    if (foreign !== undefined) return yield* fail(path, `the keyword ${JSON.stringify(foreign)} has no strict form`)
    const typed = ["type", "enum", "const", "anyOf", "$ref"].some((keyword) => Object.hasOwn(schema, keyword))
    if (!typed) return yield* fail(path, "a value of any type; declare its type")
    const isAnObject = types(schema).includes("object")
    if (types(schema).includes("array") && !isObject(get(schema, "items"))) {
      return yield* fail(path, "an array of anything; declare its items")
    }
    const object = isAnObject ? yield* closedObject(schema, path) : {}
    const out: Record<string, Schema.Json> = {}
    for (const keyword of Object.keys(schema)) {
      const value = schema[keyword] ?? null
      const here = join(path, keyword)
      if (keyword === "default") continue
      else if (Object.hasOwn(object, keyword)) set(out, keyword, object[keyword] ?? null)
      else if (keyword === "items") out["items"] = yield* strictForm(value, here)
      else if (keyword === "anyOf" && isArray(value)) out["anyOf"] = yield* list(value, here)
      else if ((keyword === "$defs" || keyword === "definitions") && isObject(value)) {
        out[keyword] = yield* map(value, here)
      } else set(out, keyword, value)
    }
    return { ...out, ...object }
  })
