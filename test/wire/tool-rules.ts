import { isObject, type Json } from "./server.ts"

const single = new Set("not if then else contains propertyNames items additionalProperties".split(" "))
const listed = new Set("allOf anyOf oneOf prefixItems".split(" "))
const named = new Set("properties patternProperties dependentSchemas $defs definitions".split(" "))

/** All schemas of a document, each with its place. */
export const schemasIn = (
  root: unknown,
  place: ReadonlyArray<string> = []
): ReadonlyArray<readonly [schema: Json, place: ReadonlyArray<string>]> => {
  if (!isObject(root)) return []
  const parts = Object.entries(root).flatMap(
    ([key, value]): ReadonlyArray<readonly [unknown, ReadonlyArray<string>]> => {
      if (single.has(key)) return [[value, [...place, key]]]
      if (listed.has(key) && Array.isArray(value)) return value.map((one, n) => [one, [...place, key, String(n)]])
      if (!named.has(key) || !isObject(value)) return []
      return Object.entries(value).map(([name, one]) => [one, [...place, key, name]])
    }
  )
  return [[root, place], ...parts.flatMap(([part, at]) => schemasIn(part, at))]
}

const keysOf = (schema: Json): ReadonlyArray<string> =>
  isObject(schema["properties"]) ? Object.keys(schema["properties"]) : []

const isReference = (root: Json, ref: unknown): boolean => {
  if (typeof ref !== "string" || !ref.startsWith("#")) return false
  let here: unknown = root
  for (const token of ref.slice(1).split("/").slice(1)) {
    const key = decodeURIComponent(token).replaceAll("~1", "/").replaceAll("~0", "~")
    here = typeof here === "object" && here !== null ? Reflect.get(here, key) : undefined
  }
  return here !== undefined
}

/** Draft 2020-12 has no list in `items`, and no boolean in `exclusiveMinimum`. References lead somewhere. */
const isDraft2020 = (root: Json): boolean =>
  schemasIn(root).every(
    ([schema]) =>
      !Array.isArray(schema["items"]) &&
      typeof schema["exclusiveMinimum"] !== "boolean" &&
      typeof schema["exclusiveMaximum"] !== "boolean" &&
      ["required", "enum", "anyOf", "allOf", "oneOf"].every(
        (key) => schema[key] === undefined || Array.isArray(schema[key])
      ) &&
      (schema["$ref"] === undefined || isReference(root, schema["$ref"]))
  )

/** The problem that Anthropic has with the schema of a tool, in its words. */
export const anthropicProblem = (schema: Json): string | undefined => {
  if (schema["type"] !== "object") return "input_schema.type: Input should be 'object'"
  const top = ["oneOf", "allOf", "anyOf"].find((key) => key in schema)
  if (top !== undefined) return "input_schema: input_schema does not support oneOf, allOf, or anyOf at the top level"
  const keys = schemasIn(schema).flatMap(([one]) => keysOf(one))
  if (!keys.every((key) => /^[a-zA-Z0-9_.-]{1,64}$/.test(key))) {
    return "input_schema.properties: Property keys should match pattern '^[a-zA-Z0-9_.-]{1,64}$'"
  }
  if (isDraft2020(schema)) return undefined
  return "input_schema: JSON schema is invalid. It must match JSON Schema draft 2020-12 (https://json-schema.org/draft/2020-12)."
}

/** The problem that Google has with the schema of a function. */
export const googleProblem = (schema: unknown): string | undefined => {
  if (schema === undefined) return undefined
  const isRoot =
    isObject(schema) && schema["type"] === "object" && !["oneOf", "allOf", "anyOf"].some((key) => key in schema)
  if (!isRoot) return "parameters_json_schema: the schema must describe an object"
  const keys = schemasIn(schema).flatMap(([one]) => keysOf(one))
  const wrong = keys.find((key) => !/^[a-zA-Z_][a-zA-Z0-9_]{0,63}$/.test(key))
  if (wrong !== undefined) return `parameters_json_schema.properties[${wrong}]: Invalid parameter name`
  return isDraft2020(schema) ? undefined : "parameters_json_schema: Invalid JSON schema"
}
