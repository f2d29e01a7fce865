/** Reading JSON Schemas of which nothing is known. */
import type * as Schema from "effect/Schema"
import { isObject, type JsonObject } from "../../../payload/Json.ts"
import { isArray } from "../json.ts"

/** A schema inside the document that its references are about. */
export interface Located {
  readonly root: JsonObject
  readonly schema: Schema.Json
}

/** How many references are followed in a row. */
const HOPS = 32

export const own = (json: Schema.Json | undefined, key: string): Schema.Json | undefined =>
  isObject(json) && Object.hasOwn(json, key) ? json[key] : undefined

export const located = (root: JsonObject): Located => ({ root, schema: root })

/** Documents inside of another one. */
const documents = new WeakSet<object>()

/** A document that can be put inside of another one: its references stay about itself. */
export const document = (json: JsonObject): JsonObject => {
  const copy = { ...json }
  documents.add(copy)
  return copy
}

export const inside = ({ root }: Located, schema: Schema.Json): Located => ({
  root: isObject(schema) && documents.has(schema) ? schema : root,
  schema
})

/** Follows `$ref` inside the document. Undefined when it leads nowhere. */
export const resolve = (at: Located): Located | undefined => {
  let current: Schema.Json | undefined = at.schema
  for (let hop = 0; hop < HOPS; hop++) {
    const ref: Schema.Json | undefined = own(current, "$ref")
    if (ref === undefined) return current === undefined ? undefined : inside(at, current)
    if (typeof ref !== "string" || !ref.startsWith("#")) return undefined
    current = follow(at.root, ref.slice(1))
  }
  return undefined
}

const follow = (root: JsonObject, pointer: string): Schema.Json | undefined => {
  if (pointer === "") return root
  let current: Schema.Json | undefined = root
  for (const token of pointer.split("/").slice(1)) {
    const key = token.includes("~") ? token.replaceAll("~1", "/").replaceAll("~0", "~") : token
    current = isArray(current) ? current[Number(key)] : own(current, key)
  }
  return current
}

/** The members of a union, if the schema is one. */
export const members = (at: Located): ReadonlyArray<Located> | undefined => {
  const list = own(at.schema, "anyOf") ?? own(at.schema, "oneOf")
  return isArray(list) ? list.map((schema) => inside(at, schema)) : undefined
}

/** The members of an intersection. */
export const parts = (at: Located): ReadonlyArray<Located> => {
  const list = own(at.schema, "allOf")
  return isArray(list) ? list.map((schema) => inside(at, schema)) : []
}

/** The values that are allowed, if they are listed. */
export const values = ({ schema }: Located): ReadonlyArray<Schema.Json> | undefined => {
  const constant = own(schema, "const")
  if (constant !== undefined) return [constant]
  const list = own(schema, "enum")
  return isArray(list) ? list : undefined
}

/** The types that are allowed, if they are listed. */
export const types = ({ schema }: Located): ReadonlyArray<string> | undefined => {
  const type = own(schema, "type")
  if (typeof type === "string") return [type]
  return isArray(type) ? type.filter((one) => typeof one === "string") : undefined
}

export const typeOf = (json: Schema.Json): string =>
  json === null ? "null" : Array.isArray(json) ? "array" : Number.isInteger(json) ? "integer" : typeof json

export const properties = (at: Located): JsonObject => {
  const found = own(at.schema, "properties")
  return isObject(found) ? found : {}
}

export const property = (at: Located, key: string): Located | undefined => {
  const found = own(own(at.schema, "properties"), key)
  return found === undefined ? undefined : inside(at, found)
}

export const required = ({ schema }: Located): ReadonlyArray<string> => {
  const list = own(schema, "required")
  return isArray(list) ? list.filter((key) => typeof key === "string") : []
}

/** Whether an object takes no other properties than the declared ones. */
export const isClosed = ({ schema }: Located): boolean =>
  own(schema, "additionalProperties") === false && own(schema, "patternProperties") === undefined

/** Whether two values are equal. What is deeper than that is not. */
export const isSame = (a: Schema.Json | undefined, b: Schema.Json | undefined, depth: number): boolean => {
  if (depth === 0) return false
  if (isArray(a) && isArray(b)) {
    return a.length === b.length && a.every((item, index) => isSame(item, b[index], depth - 1))
  }
  if (!isObject(a) || !isObject(b)) return a === b
  const keys = Object.keys(a)
  return keys.length === Object.keys(b).length && keys.every((key) => isSame(own(a, key), own(b, key), depth - 1))
}
