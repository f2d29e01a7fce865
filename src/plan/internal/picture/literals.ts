import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Json from "../../../payload/Json.ts"

/** The texts that a member may be; `closed` if it is always there and never anything else. */
export interface Literals {
  readonly values: ReadonlyArray<string>
  readonly closed: boolean
}

interface Found {
  readonly values: ReadonlyArray<string>
  /** Only texts, not `null` or anything else. */
  readonly texts: boolean
}

const maxHops = 16

const own = (json: Json.JsonObject, key: string): Schema.Json | undefined =>
  Object.hasOwn(json, key) ? json[key] : undefined

const isArray = (json: Schema.Json | undefined): json is Schema.JsonArray => Array.isArray(json)

/** A schema, or the one that it refers to. */
const follow = (root: Json.JsonObject, json: Schema.Json | undefined): Json.JsonObject | undefined => {
  let here = json
  for (let hops = 0; hops < maxHops; hops++) {
    if (!Json.isObject(here)) return undefined
    const ref = own(here, "$ref")
    if (typeof ref !== "string") return here
    if (!ref.startsWith("#")) return undefined
    here = Option.getOrUndefined(Json.at(root, ref.slice(1)))
  }
  return undefined
}

const find = (root: Json.JsonObject, json: Schema.Json | undefined, depth: number): Found | undefined => {
  const schema = depth > maxHops ? undefined : follow(root, json)
  if (schema === undefined) return undefined
  const constant = own(schema, "const")
  const listed = constant === undefined ? own(schema, "enum") : [constant]
  if (isArray(listed)) {
    const values = listed.filter((value) => typeof value === "string")
    return { values, texts: values.length === listed.length }
  }
  if (own(schema, "type") === "null") return { values: [], texts: false }
  const choices = own(schema, "anyOf") ?? own(schema, "oneOf")
  if (!isArray(choices)) return undefined
  const values: Array<string> = []
  let texts = true
  for (const choice of choices) {
    const found = find(root, choice, depth + 1)
    if (found === undefined) return undefined
    values.push(...found.values)
    texts &&= found.texts
  }
  return { values, texts }
}

/** The texts that a member of an object may be by its JSON Schema; `undefined` if that is not known. */
export const literalsOf = (json: Json.JsonObject | undefined, field: string): Literals | undefined => {
  const schema = json === undefined ? undefined : follow(json, json)
  if (json === undefined || schema === undefined) return undefined
  const properties = own(schema, "properties")
  const found = Json.isObject(properties) ? find(json, own(properties, field), 0) : undefined
  if (found === undefined) return undefined
  const required = own(schema, "required")
  return {
    values: [...new Set(found.values)],
    closed: found.texts && isArray(required) && required.includes(field)
  }
}
