/**
 * Whether two JSON Schemas accept the same values, as far as their text tells:
 * the order of keys and of required names, and words for people, do not count.
 */
import * as JsonPointer from "effect/JsonPointer"
import type * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"

interface Difference {
  readonly path: string
  readonly expected: string
  readonly found: string
}

/** What a value is: a JSON Schema, a map of names to JSON Schemas, or plain data. */
type Role = "schema" | "names" | "data"

const words = new Set([
  "$comment",
  "$schema",
  "deprecated",
  "description",
  "examples",
  "readOnly",
  "title",
  "writeOnly"
])

const maps = new Set(["$defs", "definitions", "dependentSchemas", "patternProperties", "properties"])

const data = new Set(["const", "default", "enum"])

const roleOf = (key: string, parent: Role): Role => {
  if (parent !== "schema") return parent === "names" ? "schema" : "data"
  if (maps.has(key)) return "names"
  return data.has(key) ? "data" : "schema"
}

const keysOf = (value: Json.JsonObject, role: Role): ReadonlyArray<string> =>
  role === "schema" ? Object.keys(value).filter((key) => !words.has(key)) : Object.keys(value)

const show = (value: Schema.Json | undefined): string => {
  if (value === undefined) return "nothing"
  const text = JSON.stringify(value)
  return text.length <= 60 ? text : `${text.slice(0, 57)}...`
}

const pointer = (path: string, key: string | number): string => `${path}/${JsonPointer.escapeToken(String(key))}`

const own = (value: Json.JsonObject, key: string): Schema.Json | undefined =>
  Object.hasOwn(value, key) ? value[key] : undefined

const sorted = (value: Schema.Json | undefined): Schema.Json | undefined =>
  Array.isArray(value) ? value.map(String).sort() : value

const compareObjects = (
  expected: Json.JsonObject,
  found: Json.JsonObject,
  path: string,
  role: Role
): Difference | undefined => {
  for (const key of new Set([...keysOf(expected, role), ...keysOf(found, role)])) {
    const names = role === "schema" && key === "required"
    const left = names ? sorted(own(expected, key)) : own(expected, key)
    const right = names ? sorted(own(found, key)) : own(found, key)
    const difference = compare(left, right, pointer(path, key), roleOf(key, role))
    if (difference !== undefined) return difference
  }
  return undefined
}

const compareArrays = (
  expected: Schema.JsonArray,
  found: Schema.JsonArray,
  path: string,
  role: Role
): Difference | undefined => {
  for (let index = 0; index < Math.max(expected.length, found.length); index++) {
    const difference = compare(expected[index], found[index], pointer(path, index), role)
    if (difference !== undefined) return difference
  }
  return undefined
}

const isArray = (value: Schema.Json | undefined): value is Schema.JsonArray => Array.isArray(value)

/** The first place where two schemas differ. */
export const compare = (
  expected: Schema.Json | undefined,
  found: Schema.Json | undefined,
  path = "",
  role: Role = "schema"
): Difference | undefined => {
  if (isArray(expected) && isArray(found)) return compareArrays(expected, found, path, role)
  if (Json.isObject(expected) && Json.isObject(found)) return compareObjects(expected, found, path, role)
  return expected === found ? undefined : { path, expected: show(expected), found: show(found) }
}
