import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../Json.ts"
import type { Context } from "./context.ts"
import { patternNodes, requiredNames } from "./keywords/objects.ts"
import type { ArrayShape, Choice, Conditional, Node, ObjectShape } from "./model.ts"
import { allKinds, describe, get, isArray, isObject, kindBits } from "./values.ts"

const kindList = Object.keys(kindBits)

const bit = (name: string): number | undefined =>
  // `name` is an own key, checked right here
  Object.hasOwn(kindBits, name) ? kindBits[name as keyof typeof kindBits] : undefined

/** Reads `type`. */
export const kindsOf = (schema: JsonObject, context: Context): number => {
  const value = get(schema, "type")
  if (value === undefined) return allKinds
  const list = isArray(value) ? value : [value]
  if (list.length === 0) {
    context.refuse({ _tag: "InvalidKeyword", keyword: "type", expected: "a type", found: "an empty array" }, "type")
  }
  let kinds = 0
  for (const name of list) {
    const kind = typeof name === "string" ? bit(name) : undefined
    if (kind === undefined) {
      const found = typeof name === "string" ? name : describe(name)
      context.refuse({ _tag: "UnsupportedType", found, supported: kindList }, "type")
    } else kinds |= kind
  }
  return kinds
}

const isSchema = (json: Schema.Json | undefined): json is JsonObject | boolean =>
  isObject(json) || typeof json === "boolean"

const one = ({ schema, sub }: Context, keyword: string): Node | undefined => {
  const json = get(schema, keyword)
  return isSchema(json) ? sub(json, keyword) : undefined
}

const many = ({ schema, sub }: Context, keyword: string): ReadonlyArray<Node> => {
  const list = get(schema, keyword)
  return list !== undefined && isArray(list) ? list.map((item, at) => sub(item, keyword, at)) : []
}

const byName = ({ schema, sub }: Context, keyword: string): ReadonlyArray<readonly [string, Node]> => {
  const map = get(schema, keyword)
  if (!isObject(map)) return []
  return Object.keys(map)
    .filter((name) => isSchema(map[name]))
    .map((name) => [name, sub(map[name] ?? null, keyword, name)])
}

export const objectShape = (context: Context): ObjectShape | undefined => {
  const properties = byName(context, "properties")
  const patterns = patternNodes(context)
  const additional = one(context, "additionalProperties")
  const required = requiredNames(context)
  const dependent = [...byName(context, "dependentSchemas"), ...byName(context, "dependencies")]
  const unevaluatedForbidden = get(context.schema, "unevaluatedProperties") === false
  if (
    properties.length + patterns.length + required.length + dependent.length === 0 &&
    additional === undefined &&
    !unevaluatedForbidden
  ) {
    return undefined
  }
  return {
    properties: new Map(properties),
    patterns,
    additional,
    required: new Set(required),
    unevaluatedForbidden,
    dependent
  }
}

export const arrayShape = (context: Context): ArrayShape | undefined => {
  const legacy = isArray(get(context.schema, "items") ?? null)
  const prefix = many(context, context.dialect === "draft-07" ? "items" : "prefixItems")
  const rest = one(context, legacy ? "additionalItems" : "items")
  return prefix.length === 0 && rest === undefined ? undefined : { prefix, rest }
}

export const choicesOf = (context: Context): ReadonlyArray<Choice> => {
  const choices: ReadonlyArray<Choice> = [
    { keyword: "anyOf", branches: many(context, "anyOf") },
    { keyword: "oneOf", branches: many(context, "oneOf") }
  ]
  return choices.filter(({ branches }) => branches.length > 0)
}

export const conditionalOf = (context: Context): Conditional | undefined => {
  const condition = one(context, "if")
  return condition === undefined ? undefined : { if: condition, then: one(context, "then"), else: one(context, "else") }
}

/** The subschemas that look at the same value as the schema itself. */
export const sameValueKeywords = (context: Context): ReadonlyArray<Node> => [
  ...many(context, "allOf"),
  ...many(context, "anyOf"),
  ...many(context, "oneOf"),
  ...["not", "if", "then", "else"].flatMap((keyword) => one(context, keyword) ?? []),
  ...byName(context, "dependentSchemas").map(([, node]) => node),
  ...byName(context, "dependencies").map(([, node]) => node)
]
