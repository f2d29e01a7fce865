/**
 * Conversions of JSON Schema documents: from Effect's Schema, to the strict form of providers, and whether an import into Effect's Schema stays cheap.
 */

import * as Graph from "effect/Graph"
import * as JsonPointer from "effect/JsonPointer"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import type { JsonObject } from "../Json.ts"
import * as jsonValues from "./jsonValues.ts"
import * as paths from "./paths.ts"
import type { Node } from "./schemaNode.ts"

/**
 * The JSON Schema of a tool without parameters: a closed object without
 * properties.
 */
export const noParameters: JsonObject = { type: "object", properties: {}, required: [], additionalProperties: false }

interface Opaque {
  readonly path: string
  readonly problem: string
}

const hasJsonForm = ({ annotations }: SchemaAST.Declaration): boolean =>
  annotations !== undefined &&
  ["toCodecJson", "toCodec", "representation"].some((key) => Object.hasOwn(annotations, key))

/**
 * Finds a part of a Schema that no codec turns into JSON: core exports it as
 * "anything" and fails when such a value is encoded.
 */
export const findOpaque = (root: SchemaAST.AST): Opaque | undefined => {
  const seen = new Set<SchemaAST.AST>()
  const open: Array<{ readonly ast: SchemaAST.AST; readonly path: string }> = [
    { ast: SchemaAST.toEncoded(root), path: "" }
  ]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { ast, path } = next
    if (seen.has(ast)) continue
    seen.add(ast)
    switch (ast._tag) {
      case "Declaration":
        if (!hasJsonForm(ast)) {
          return {
            path,
            problem: "a value of a class or declaration without a codec; give it a toCodecJson annotation"
          }
        }
        for (const parameter of ast.typeParameters) open.push({ ast: SchemaAST.toEncoded(parameter), path })
        break
      case "Objects":
        for (const { name, type } of ast.propertySignatures) {
          open.push({ ast: type, path: paths.appendToken(paths.appendToken(path, "properties"), String(name)) })
        }
        for (const { type } of ast.indexSignatures)
          open.push({ ast: type, path: paths.appendToken(path, "additionalProperties") })
        break
      case "Arrays":
        for (const [index, element] of ast.elements.entries()) {
          open.push({ ast: element, path: paths.appendToken(paths.appendToken(path, "prefixItems"), index) })
        }
        for (const rest of ast.rest) open.push({ ast: rest, path: paths.appendToken(path, "items") })
        break
      case "Union":
        for (const [index, member] of ast.types.entries()) {
          open.push({ ast: member, path: paths.appendToken(paths.appendToken(path, "anyOf"), index) })
        }
        break
      case "Suspend":
        open.push({ ast: ast.thunk(), path })
        break
    }
  }
  return undefined
}

const annotationKeys: ReadonlySet<string> = new Set(["title", "description", "default", "examples", "deprecated"])

const keywordOrder: ReadonlyArray<string> = [
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

const keywordRank = (key: string) => {
  const at = keywordOrder.indexOf(key)
  return key === "$defs" ? keywordOrder.length + 1 : at < 0 ? keywordOrder.length : at
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
  if (parts === undefined || !jsonValues.isArray(parts)) return
  const rest = parts.filter((part) => {
    if (!jsonValues.isObject(part)) return true
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
  jsonValues.isObject(schema) && Object.keys(schema).length === 1 && schema["type"] === "null"

/** Alternatives that are one `enum` taken apart, or a type and `null`. */
const withoutAnyOf = (schema: Draft): void => {
  const parts = schema["anyOf"]
  if (parts === undefined || !jsonValues.isArray(parts)) return
  const seen = new Set<string>()
  const distinct = parts.filter((part) => {
    const print = jsonValues.fingerprint(part)
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
  if (only === undefined || others.length > 0 || !jsonValues.isObject(only)) return
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
  if (
    !jsonValues.isObject(part) ||
    !Object.keys(part).every((key) => key === "type" || key === "enum" || key === "title")
  ) {
    return undefined
  }
  const type = part["type"]
  const values = part["enum"]
  return typeof type === "string" && values !== undefined && jsonValues.isArray(values) ? { type, values } : undefined
}

/** A first item like all others says no more than `minItems` does. */
const withoutPrefix = (schema: Draft): void => {
  const prefix = schema["prefixItems"]
  const items = schema["items"]
  if (prefix === undefined || items === undefined || !jsonValues.isArray(prefix)) return
  if (prefix.every((item) => jsonValues.fingerprint(item) === jsonValues.fingerprint(items)))
    delete schema["prefixItems"]
}

const isEmptyStruct = (schema: JsonObject): boolean =>
  Object.keys(schema).length === 1 && jsonValues.fingerprint(schema) === `{"not":{"type":"null"}}`

const emptyObject: JsonObject = { type: "object", properties: {}, required: [], additionalProperties: false }

const orderKeywords = (schema: Draft): JsonObject => {
  const out: Draft = {}
  const keys = Object.keys(schema)
  for (const key of keys.sort((a, b) => keywordRank(a) - keywordRank(b)))
    jsonValues.setMember(out, key, schema[key] ?? null)
  return out
}

const mapKeywords: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "dependentSchemas"])

const valueKeywords: ReadonlySet<string> = new Set(["enum", "const", "default", "examples"])

const mapSubschemas = (key: string, value: Schema.Json): Schema.Json => {
  if (valueKeywords.has(key)) return value
  if (jsonValues.isArray(value)) return value.map((item) => (jsonValues.isObject(item) ? tidyDocument(item) : item))
  if (!jsonValues.isObject(value)) return value
  if (!mapKeywords.has(key)) return tidyDocument(value)
  const out: Draft = {}
  for (const name of Object.keys(value)) {
    const member = value[name] ?? null
    jsonValues.setMember(out, name, jsonValues.isObject(member) ? tidyDocument(member) : member)
  }
  return out
}

/** Says what core's export says, with less. */
export const tidyDocument = (schema: JsonObject): JsonObject => {
  if (isEmptyStruct(schema)) return emptyObject
  const out: Draft = {}
  for (const key of Object.keys(schema)) jsonValues.setMember(out, key, mapSubschemas(key, schema[key] ?? null))
  withoutAllOf(out)
  if (out["type"] === "integer") withoutSafeBounds(out)
  withoutAnyOf(out)
  withoutPrefix(out)
  if (jsonValues.isObject(out["items"]) && Object.keys(out["items"]).length === 0) delete out["items"]
  if (out["contentEncoding"] === "base64" && out["format"] === "byte") delete out["format"]
  if (jsonValues.isObject(out["properties"]) && out["required"] === undefined) out["required"] = []
  return orderKeywords(out)
}

const definitionsPrefix = "#/$defs/"

/** How often each definition is referred to. */
const countReferences = (json: Schema.Json, found: Map<string, number>): Map<string, number> => {
  if (jsonValues.isArray(json)) for (const item of json) countReferences(item, found)
  else if (jsonValues.isObject(json)) {
    const ref = jsonValues.getMember(json, "$ref")
    if (typeof ref === "string" && ref.startsWith(definitionsPrefix)) found.set(ref, (found.get(ref) ?? 0) + 1)
    for (const key of Object.keys(json)) countReferences(json[key] ?? null, found)
  }
  return found
}

const refOf = (name: string): string => JsonPointer.formatUriFragment(["$defs", name])

const replaceReference = (json: Schema.Json, ref: string, by: JsonObject): Schema.Json => {
  if (jsonValues.isArray(json)) return json.map((item) => replaceReference(item, ref, by))
  if (!jsonValues.isObject(json)) return json
  if (json["$ref"] === ref && Object.keys(json).length === 1) return by
  const out: Draft = {}
  for (const key of Object.keys(json)) jsonValues.setMember(out, key, replaceReference(json[key] ?? null, ref, by))
  return out
}

/** Puts definitions that are used once in their place; the others stay in `$defs`. A reference at the root is opened. */
export const inlineDefinitions = (
  root: JsonObject,
  definitions: ReadonlyArray<readonly [string, JsonObject]>
): JsonObject => {
  let schema: JsonObject = root
  const kept = new Map(definitions)
  for (let again = true; again;) {
    again = false
    for (const [name, definition] of kept) {
      const ref = refOf(name)
      const uses = countReferences([schema, ...kept.values()], new Map()).get(ref) ?? 0
      if (uses === 0) {
        kept.delete(name)
        again = true
      } else if (uses === 1 && !countReferences(definition, new Map()).has(ref)) {
        kept.delete(name)
        const opened = replaceReference(schema, ref, definition)
        if (jsonValues.isObject(opened)) schema = opened
        for (const [other, json] of kept) {
          const member = replaceReference(json, ref, definition)
          if (jsonValues.isObject(member)) kept.set(other, member)
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

interface StrictProblem {
  readonly path: string
  readonly problem: string
}

type StrictResult<A> = Result.Result<A, StrictProblem>

const failStrict = (path: string, problem: string): StrictResult<never> => Result.fail({ path, problem })

/** The form is made recursively; checked documents are never this deep. */
const maxStrictDepth = 300

/** Keywords the strict form has no place for. */
const unsupportedKeywords: ReadonlyArray<string> = [
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

const typesOf = (schema: JsonObject): ReadonlyArray<Schema.Json> => {
  const type = jsonValues.getMember(schema, "type")
  return type === undefined ? [] : jsonValues.isArray(type) ? type : [type]
}

const acceptsNull = (schema: JsonObject): boolean => {
  const anyOf = jsonValues.getMember(schema, "anyOf")
  if (anyOf !== undefined && jsonValues.isArray(anyOf))
    return anyOf.some((branch) => jsonValues.isObject(branch) && acceptsNull(branch))
  const members = jsonValues.getMember(schema, "enum")
  if (members !== undefined && jsonValues.isArray(members) && !members.includes(null)) return false
  return typesOf(schema).includes("null") || jsonValues.getMember(schema, "const") === null
}

/** The schema with `null` beside what it accepts; `enum` and the like are wrapped, because providers refuse a union of types next to them. */
const makeNullable = (schema: JsonObject): JsonObject => {
  if (acceptsNull(schema)) return schema
  const anyOf = jsonValues.getMember(schema, "anyOf")
  if (anyOf !== undefined && jsonValues.isArray(anyOf)) return { ...schema, anyOf: [...anyOf, { type: "null" }] }
  const list = typesOf(schema)
  const plain = list.length > 0 && !["enum", "const", "$ref"].some((keyword) => Object.hasOwn(schema, keyword))
  return plain ? { ...schema, type: [...list, "null"] } : { anyOf: [schema, { type: "null" }] }
}

const strictItems = (json: ReadonlyArray<Schema.Json>, path: string): StrictResult<ReadonlyArray<Schema.Json>> =>
  Result.all(json.map((item, index) => toStrictForm(item, paths.appendToken(path, index))))

const strictMembers = (json: JsonObject, path: string): StrictResult<JsonObject> =>
  Result.gen(function* () {
    const out: Record<string, Schema.Json> = {}
    for (const key of Object.keys(json))
      jsonValues.setMember(out, key, yield* toStrictForm(json[key] ?? null, paths.appendToken(path, key)))
    return out
  })

const closeObject = (schema: JsonObject, path: string): StrictResult<JsonObject> =>
  Result.gen(function* () {
    const additional = jsonValues.getMember(schema, "additionalProperties")
    const properties = jsonValues.getMember(schema, "properties")
    if ((additional !== undefined && additional !== false) || (properties === undefined && additional !== false)) {
      return yield* failStrict(path, "an open object; declare its properties")
    }
    const declared = jsonValues.isObject(properties) ? properties : {}
    const required = jsonValues.getMember(schema, "required")
    const names = required !== undefined && jsonValues.isArray(required) ? required : []
    const undeclared = names.find((name) => typeof name === "string" && !Object.hasOwn(declared, name))
    if (undeclared !== undefined) {
      return yield* failStrict(path, `requires ${JSON.stringify(undeclared)}, which is not declared`)
    }
    const strict: Record<string, Schema.Json> = {}
    for (const key of Object.keys(declared)) {
      const form = yield* toStrictForm(
        declared[key] ?? null,
        paths.appendToken(paths.appendToken(path, "properties"), key)
      )
      jsonValues.setMember(strict, key, names.includes(key) ? form : makeNullable(form))
    }
    return { properties: strict, required: Object.keys(declared), additionalProperties: false }
  })

/** The strict form of one schema and everything below it. */
export const toStrictForm = (schema: Schema.Json, path: string): StrictResult<JsonObject> =>
  Result.gen(function* () {
    if (path.split("/").length > maxStrictDepth) return yield* failStrict(path.slice(0, 100), "nested too deeply")
    if (!jsonValues.isObject(schema))
      return yield* failStrict(path, `expected a typed schema, got ${jsonValues.describeKind(schema)}`)
    const foreign = unsupportedKeywords.find((keyword) => Object.hasOwn(schema, keyword))
    if (foreign !== undefined)
      return yield* failStrict(path, `the keyword ${JSON.stringify(foreign)} has no strict form`)
    const typed = ["type", "enum", "const", "anyOf", "$ref"].some((keyword) => Object.hasOwn(schema, keyword))
    if (!typed) return yield* failStrict(path, "a value of any type; declare its type")
    const isAnObject = typesOf(schema).includes("object")
    if (typesOf(schema).includes("array") && !jsonValues.isObject(jsonValues.getMember(schema, "items"))) {
      return yield* failStrict(path, "an array of anything; declare its items")
    }
    const object = isAnObject ? yield* closeObject(schema, path) : {}
    const out: Record<string, Schema.Json> = {}
    for (const keyword of Object.keys(schema)) {
      const value = schema[keyword] ?? null
      const here = paths.appendToken(path, keyword)
      if (keyword === "default") continue
      else if (Object.hasOwn(object, keyword)) jsonValues.setMember(out, keyword, object[keyword] ?? null)
      else if (keyword === "items") out["items"] = yield* toStrictForm(value, here)
      else if (keyword === "anyOf" && jsonValues.isArray(value)) out["anyOf"] = yield* strictItems(value, here)
      else if ((keyword === "$defs" || keyword === "definitions") && jsonValues.isObject(value)) {
        out[keyword] = yield* strictMembers(value, here)
      } else jsonValues.setMember(out, keyword, value)
    }
    return { ...out, ...object }
  })

/** The parts that look at the same value, as core's import knows them. */
const nodesInPlace = (node: Node): ReadonlyArray<Node> => [
  ...(node.reference === undefined ? [] : [node.reference]),
  ...node.allOf,
  ...node.choices.flatMap(({ branches }) => branches)
]

/** The parts that look at members, each at another one. */
const nodesInside = ({ array, object }: Node): ReadonlyArray<Node> => [
  ...(object === undefined ? [] : [...object.properties.values(), ...object.patterns.map(([, node]) => node)]),
  ...(object?.additional === undefined ? [] : [object.additional]),
  ...(array === undefined ? [] : array.prefix),
  ...(array?.rest === undefined ? [] : [array.rest])
]

/**
 * How often a reader without a budget looks at one part of a value, at worst:
 * alternatives that refer to the same schema twice double it, level by level. A
 * schema that comes back to itself inside the value is counted once.
 */
export const unfoldedSize = (root: Node): number => {
  const known = new Map<Node, number>()
  const open = new Set<Node>()
  const stack: Array<Node> = [root]
  const of = (node: Node) => known.get(node) ?? 1
  for (let node = stack.at(-1); node !== undefined; node = stack.at(-1)) {
    const parts = known.has(node) || open.has(node) ? [] : [...nodesInPlace(node), ...nodesInside(node)]
    if (parts.length > 0) {
      open.add(node)
      for (const part of parts) if (!known.has(part) && !open.has(part)) stack.push(part)
      continue
    }
    stack.pop()
    if (known.has(node)) continue
    const most = nodesInside(node).reduce((most, part) => Math.max(most, of(part)), 0)
    known.set(
      node,
      nodesInPlace(node).reduce((sum, part) => sum + of(part), 1 + most)
    )
  }
  return of(root)
}

/** Members of a value that lead back into a recursion, and how many schemas look at each. `*` is any member. */
type VisitCounts = ReadonlyMap<string, number>

const anyKey = "*"

const itemKey = "[]"

const allNodes = (root: Node): ReadonlyArray<Node> => {
  const nodes = new Set([root])
  for (const node of nodes) for (const part of [...nodesInPlace(node), ...nodesInside(node)]) nodes.add(part)
  return Array.from(nodes)
}

/** The recursion that each node is part of, if any. */
const recursions = (nodes: ReadonlyArray<Node>): ReadonlyMap<Node, number> => {
  const graph = Graph.directed<Node, undefined>((graph) => {
    const index = new Map(nodes.map((node) => [node, Graph.addNode(graph, node)]))
    for (const [node, from] of index) {
      for (const part of [...nodesInPlace(node), ...nodesInside(node)]) {
        const to = index.get(part)
        if (to !== undefined) Graph.addEdge(graph, from, to, undefined)
      }
    }
  })
  const found = new Map<Node, number>()
  for (const [id, component] of Graph.stronglyConnectedComponents(graph).entries()) {
    if (component.length < 2) continue
    for (const index of component) {
      const node = nodes[index]
      if (node !== undefined) found.set(node, id)
    }
  }
  return found
}

const addCounts = (all: ReadonlyArray<VisitCounts>): VisitCounts => combineCounts(all, (a, b) => a + b)

const maxCounts = (all: ReadonlyArray<VisitCounts>): VisitCounts => combineCounts(all, Math.max)

const combineCounts = (all: ReadonlyArray<VisitCounts>, f: (a: number, b: number) => number): VisitCounts => {
  const total = new Map<string, number>()
  for (const looks of all) for (const [key, count] of looks) total.set(key, f(total.get(key) ?? 0, count))
  return total
}

const ownCounts = ({ array, object }: Node, leadsBack: (node: Node) => boolean): VisitCounts => {
  const members: Array<readonly [key: string, node: Node]> = [
    ...(object?.properties ?? []),
    ...(object?.patterns ?? []).map(([, node]) => [anyKey, node] as const),
    ...(object?.additional === undefined ? [] : [[anyKey, object.additional] as const]),
    ...(array?.prefix ?? []).map((node, at) => [`${itemKey}${at}`, node] as const),
    ...(array?.rest === undefined ? [] : [[itemKey, array.rest] as const])
  ]
  return addCounts(members.filter(([, node]) => leadsBack(node)).map(([key]) => new Map([[key, 1]])))
}

/** Every schema that a value of a branch has to fit, choices left out. */
const certainCounts = (branch: Node): ReadonlyArray<Node> => {
  const nodes = new Set([branch])
  for (const node of nodes) {
    for (const part of node.reference === undefined ? node.allOf : [node.reference, ...node.allOf]) nodes.add(part)
  }
  return Array.from(nodes)
}

type Literals = (node: Node) => ReadonlyArray<Schema.Json> | undefined

/** The required properties of a branch that admit a few literals only. */
const tagValues = (branch: Node, literals: Literals): ReadonlyMap<string, ReadonlyArray<Schema.Json>> => {
  const found = new Map<string, ReadonlyArray<Schema.Json>>()
  for (const { object } of certainCounts(branch)) {
    for (const key of object?.required ?? []) {
      const node = object?.properties.get(key)
      const values = node === undefined ? undefined : literals(node)
      if (values !== undefined) found.set(key, values)
    }
  }
  return found
}

/** Whether one property tells the branches apart, so that core reads one of them only. */
const isTaggedUnion = (branches: ReadonlyArray<Node>, literals: Literals): boolean => {
  const [first, ...rest] = branches.map((branch) => tagValues(branch, literals))
  return Array.from(first ?? []).some(([key, values]) => {
    const all = [values, ...rest.map((other) => other.get(key))]
    const seen = all.flatMap((some) => some ?? [])
    return all.every((some) => some !== undefined) && new Set(seen).size === seen.length
  })
}

/**
 * Whether a reader that tries every alternative looks at some member twice at each
 * level of a recursion: then its work doubles with every level of the value.
 */
export const revisitsValues = (root: Node, literals: Literals): boolean => {
  const nodes = allNodes(root)
  const recursion = recursions(nodes)
  const known = new Map<Node, VisitCounts>()
  // References that consume nothing form no circle and short chains only, so this ends soon.
  const looks = (node: Node): VisitCounts => {
    const before = known.get(node)
    if (before !== undefined) return before
    const id = recursion.get(node)
    const within = (part: Node) => id !== undefined && recursion.get(part) === id
    const of = (parts: ReadonlyArray<Node>) => parts.filter(within).map(looks)
    const after = addCounts([
      ownCounts(node, within),
      ...of(node.reference === undefined ? node.allOf : [node.reference, ...node.allOf]),
      ...node.choices.map(({ branches }) =>
        isTaggedUnion(branches, literals) ? maxCounts(of(branches)) : addCounts(of(branches))
      )
    ])
    known.set(node, after)
    return after
  }
  return nodes.some((node) => {
    const found = looks(node)
    return Array.from(found).some(([key, count]) => {
      const wild = key.startsWith(itemKey) ? itemKey : anyKey
      return count + (key === wild ? 0 : (found.get(wild) ?? 0)) > 1
    })
  })
}
