import * as JsonPointer from "effect/JsonPointer"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../Json.ts"
import { fingerprint, get, isArray, isObject, set } from "./values.ts"

const annotationKeys: ReadonlySet<string> = new Set(["title", "description", "default", "examples", "deprecated"])

const order: ReadonlyArray<string> = [
  "$schema",
  "$id",
  "$ref",
  "type",
  "title",
  "description",
  "enum",
  "const",
  "default",
  "examples",
  "prefixItems",
  "items",
  "properties",
  "required",
  "additionalProperties"
]

const rank = (key: string) => {
  const at = order.indexOf(key)
  return key === "$defs" ? order.length + 1 : at < 0 ? order.length : at
}

type Draft = Record<string, Schema.Json>

/** Bounds that only say that a number is a safe integer. */
const withoutSafeBounds = (schema: Draft): void => {
  if (schema["minimum"] === Number.MIN_SAFE_INTEGER) delete schema["minimum"]
  if (schema["maximum"] === Number.MAX_SAFE_INTEGER) delete schema["maximum"]
}

/** Members of `allOf` that can stand in the schema itself: notes replace notes, other keywords may not collide. */
const withoutAllOf = (schema: Draft): void => {
  const parts = schema["allOf"]
  if (parts === undefined || !isArray(parts)) return
  const rest = parts.filter((part) => {
    if (!isObject(part)) return true
    const keys = Object.keys(part)
    const apart = keys.some(
      (key) => !annotationKeys.has(key) && (Object.hasOwn(schema, key) || key.endsWith("roperties"))
    )
    if (apart) return true
    for (const key of keys) schema[key] = part[key] ?? null
    return false
  })
  if (rest.length === 0) delete schema["allOf"]
  else schema["allOf"] = rest
}

const isNull = (schema: Schema.Json): boolean =>
  isObject(schema) && Object.keys(schema).length === 1 && schema["type"] === "null"

/** Alternatives that are one `enum` taken apart, or a type and `null`. */
const withoutAnyOf = (schema: Draft): void => {
  const parts = schema["anyOf"]
  if (parts === undefined || !isArray(parts)) return
  const seen = new Set<string>()
  const distinct = parts.filter((part) => {
    const print = fingerprint(part)
    return !seen.has(print) && seen.add(print)
  })
  schema["anyOf"] = distinct
  const members = distinct.map(enumOf)
  const type = members[0]?.type
  if (type !== undefined && members.every((member) => member !== undefined && member.type === type)) {
    delete schema["anyOf"]
    schema["type"] = type
    schema["enum"] = members.flatMap((member) => member?.values ?? [])
    return
  }
  const [only, ...others] = distinct.filter((part) => !isNull(part))
  if (only === undefined || others.length > 0 || !isObject(only)) return
  const kind = only["type"]
  const simple = typeof kind === "string" && !Object.hasOwn(only, "enum") && !Object.hasOwn(only, "const")
  const collides = Object.keys(only).some((key) => Object.hasOwn(schema, key))
  if (distinct.length === 1 && !collides) {
    delete schema["anyOf"]
    Object.assign(schema, only)
  } else if (distinct.length === 2 && simple && !collides) {
    delete schema["anyOf"]
    Object.assign(schema, only, { type: [kind, "null"] })
  }
}

const enumOf = (
  part: Schema.Json
): { readonly type: string; readonly values: ReadonlyArray<Schema.Json> } | undefined => {
  if (!isObject(part) || !Object.keys(part).every((key) => key === "type" || key === "enum" || key === "title")) {
    return undefined
  }
  const type = part["type"]
  const values = part["enum"]
  return typeof type === "string" && values !== undefined && isArray(values) ? { type, values } : undefined
}

/** A first item like all others says no more than `minItems` does. */
const withoutPrefix = (schema: Draft): void => {
  const prefix = schema["prefixItems"]
  const items = schema["items"]
  if (prefix === undefined || items === undefined || !isArray(prefix)) return
  if (prefix.every((item) => fingerprint(item) === fingerprint(items))) delete schema["prefixItems"]
}

const isEmptyStruct = (schema: JsonObject): boolean =>
  Object.keys(schema).length === 1 && fingerprint(schema) === `{"not":{"type":"null"}}`

const emptyObject: JsonObject = { type: "object", properties: {}, required: [], additionalProperties: false }

const ordered = (schema: Draft): JsonObject => {
  const out: Draft = {}
  const keys = Object.keys(schema)
  for (const key of keys.sort((a, b) => rank(a) - rank(b))) set(out, key, schema[key] ?? null)
  return out
}

const maps: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "dependentSchemas"])
const values: ReadonlySet<string> = new Set(["enum", "const", "default", "examples"])

const below = (key: string, value: Schema.Json): Schema.Json => {
  if (values.has(key)) return value
  if (isArray(value)) return value.map((item) => (isObject(item) ? tidy(item) : item))
  if (!isObject(value)) return value
  if (!maps.has(key)) return tidy(value)
  const out: Draft = {}
  for (const name of Object.keys(value)) {
    const member = value[name] ?? null
    set(out, name, isObject(member) ? tidy(member) : member)
  }
  return out
}

/** Says what core's export says, with less. */
export const tidy = (schema: JsonObject): JsonObject => {
  if (isEmptyStruct(schema)) return emptyObject
  const out: Draft = {}
  for (const key of Object.keys(schema)) set(out, key, below(key, schema[key] ?? null))
  withoutAllOf(out)
  if (out["type"] === "integer") withoutSafeBounds(out)
  withoutAnyOf(out)
  withoutPrefix(out)
  if (isObject(out["items"]) && Object.keys(out["items"]).length === 0) delete out["items"]
  if (out["contentEncoding"] === "base64" && out["format"] === "byte") delete out["format"]
  if (isObject(out["properties"]) && out["required"] === undefined) out["required"] = []
  return ordered(out)
}

const prefix = "#/$defs/"

/** How often each definition is referred to. */
const references = (json: Schema.Json, found: Map<string, number>): Map<string, number> => {
  if (isArray(json)) for (const item of json) references(item, found)
  else if (isObject(json)) {
    const ref = get(json, "$ref")
    if (typeof ref === "string" && ref.startsWith(prefix)) found.set(ref, (found.get(ref) ?? 0) + 1)
    for (const key of Object.keys(json)) references(json[key] ?? null, found)
  }
  return found
}

const refOf = (name: string): string => JsonPointer.formatUriFragment(["$defs", name])

const replace = (json: Schema.Json, ref: string, by: JsonObject): Schema.Json => {
  if (isArray(json)) return json.map((item) => replace(item, ref, by))
  if (!isObject(json)) return json
  if (json["$ref"] === ref && Object.keys(json).length === 1) return by
  const out: Draft = {}
  for (const key of Object.keys(json)) set(out, key, replace(json[key] ?? null, ref, by))
  return out
}

/** Puts definitions that are used once in their place; the others stay in `$defs`. A reference at the root is opened. */
export const inline = (root: JsonObject, definitions: ReadonlyArray<readonly [string, JsonObject]>): JsonObject => {
  let schema: JsonObject = root
  const kept = new Map(definitions)
  for (let again = true; again;) {
    again = false
    for (const [name, definition] of kept) {
      const ref = refOf(name)
      const uses = references([schema, ...kept.values()], new Map()).get(ref) ?? 0
      if (uses === 0) {
        kept.delete(name)
        again = true
      } else if (uses === 1 && !references(definition, new Map()).has(ref)) {
        kept.delete(name)
        const opened = replace(schema, ref, definition)
        if (isObject(opened)) schema = opened
        for (const [other, json] of kept) {
          const member = replace(json, ref, definition)
          if (isObject(member)) kept.set(other, member)
        }
        again = true
      } else if (schema["$ref"] === ref && Object.keys(schema).length === 1) {
        schema = definition
        again = true
      }
    }
  }
  return kept.size === 0 ? schema : { ...schema, $defs: Object.fromEntries(kept) }
}
