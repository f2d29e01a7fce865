import { isObject, type Json } from "./server.ts"
import { schemasIn } from "./tool-rules.ts"

const refused = new Set([
  "allOf",
  "oneOf",
  "not",
  "if",
  "then",
  "else",
  "dependentRequired",
  "dependentSchemas",
  "patternProperties",
  "propertyNames",
  "unevaluatedProperties",
  "uniqueItems",
  "contains",
  "minContains",
  "maxContains",
  "default"
])

const formats = new Set(["date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"])

const show = (context: ReadonlyArray<string>): string => {
  const parts = context.map((part) => `'${part}'`).join(", ")
  return `In context=(${context.length === 1 ? `${parts},` : parts})`
}

/** The problem of a schema that is to be followed strictly, in the words of OpenAI. */
export const strictProblem = (schema: unknown, context: ReadonlyArray<string> = []): string | undefined => {
  if (!isObject(schema)) return `${show(context)}, schema must be an object.`
  for (const key of Object.keys(schema)) if (refused.has(key)) return `${show(context)}, '${key}' is not permitted.`
  const { $defs, $ref, anyOf, format, items, properties, type } = schema
  if ($ref !== undefined) {
    const more = Object.keys(schema).filter((key) => key !== "$ref")
    if (more.length > 0) return `${show(context)}, $ref cannot have keywords {'${more.join("', '")}'}.`
    return undefined
  }
  if (typeof format === "string" && !formats.has(format)) return `${show(context)}, '${format}' is not a valid format.`
  const types = Array.isArray(type) ? type : [type]
  if (type === undefined && anyOf === undefined && schema["enum"] === undefined && schema["const"] === undefined) {
    return `${show(context)}, schema must have a 'type' key.`
  }
  if (types.includes("object")) {
    if (schema["additionalProperties"] !== false) {
      return `${show(context)}, 'additionalProperties' is required to be supplied and to be false.`
    }
    const names = Object.keys(isObject(properties) ? properties : {})
    const required: ReadonlyArray<unknown> = Array.isArray(schema["required"]) ? schema["required"] : []
    const missing = names.find((name) => !required.includes(name))
    if (missing !== undefined) {
      return `${show(context)}, 'required' is required to be supplied and to be an array including every key in properties. Missing '${missing}'.`
    }
    const extra = required.find((name) => !names.includes(String(name)))
    if (extra !== undefined) {
      return `${show(context)}, 'required' is required to be supplied and to be an array including every key in properties. Extra required key '${String(extra)}' supplied.`
    }
  }
  if (types.includes("array") && items === undefined) return `${show(context)}, array schema missing items.`
  const inner: Array<readonly [unknown, ReadonlyArray<string>]> = []
  const each = (map: unknown, key: string) => {
    for (const [name, value] of Object.entries(isObject(map) ? map : {})) inner.push([value, [...context, key, name]])
  }
  each(properties, "properties")
  each($defs, "$defs")
  if (items !== undefined) inner.push([items, [...context, "items"]])
  if (Array.isArray(anyOf)) anyOf.forEach((one, n) => inner.push([one, [...context, "anyOf", String(n)]]))
  for (const [one, where] of inner) {
    const problem = strictProblem(one, where)
    if (problem !== undefined) return problem
  }
  return undefined
}

/** The problem of the parameters of a function. */
export const functionProblem = (schema: unknown, strict: boolean): string | undefined => {
  if (schema === undefined) return undefined
  if (!isObject(schema)) return "schema must be an object."
  const top = ["oneOf", "anyOf", "allOf", "enum", "not"].filter((key) => key in schema)
  if (schema["type"] !== "object" || top.length > 0) {
    return schema["type"] === "object" || top.length > 0
      ? "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level."
      : `schema must be a JSON Schema of 'type: "object"', got 'type: "${String(schema["type"] ?? "None")}"'.`
  }
  if (schema["properties"] === undefined) return "In context=(), object schema missing properties."
  return referenceProblem(schema) ?? (strict ? strictProblem(schema) : arraysProblem(schema))
}

/** References lead to the root or to one of its definitions. */
const referenceProblem = (root: Json): string | undefined => {
  const wrong = schemasIn(root).find(([{ $ref }]) => {
    if ($ref === undefined || $ref === "#") return false
    const name = typeof $ref === "string" ? /^#\/\$defs\/([^/]+)$/.exec($ref)?.[1] : undefined
    return name === undefined || !isObject(root["$defs"]) || !Object.hasOwn(root["$defs"], name)
  })
  return wrong === undefined
    ? undefined
    : `${show(wrong[1])}, reference can only point to definitions defined at the top level of the schema.`
}

const arraysProblem = (root: Json): string | undefined => {
  const bare = schemasIn(root).find(([{ items, type }]) => [type].flat().includes("array") && items === undefined)
  return bare === undefined ? undefined : `${show(bare[1])}, array schema missing items.`
}
