/**
 * Compiles a JSON Schema document: copies it within limits, reads its dialect, resolves references, and refuses what cannot be enforced.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../Json.ts"
import type { Limits } from "../Limits.ts"
import * as jsonValues from "./jsonValues.ts"
import * as keywords from "./keywords.ts"
import * as paths from "./paths.ts"
import * as Patterns from "./patterns.ts"
import * as schemaNode from "./schemaNode.ts"

export const SharedPatternFuel = Context.Reference<PatternFuel | undefined>(
  "effect-emissary/payload/CheckedSchema/SharedBudget",
  {
    defaultValue: () => undefined
  }
)

/**
 * Makes all schemas of an Effect share one budget for their patterns.
 *
 * **When to use**
 *
 * Around the decoding of a payload that holds many schemas: compiling patterns takes
 * time, which is bounded for each document, and without this not for all of them.
 */
export const sharePatternFuel = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => Effect.provideService(effect, SharedPatternFuel, { weight: 0 }))

/** Schemas are compiled recursively: deeper documents are refused whatever the limits say. */
const maxDocumentDepth = 256

/** Limits and key rules for a schema document; gives a copy. */
export const copyDocument = (json: unknown, limits: Limits): Result.Result<JsonObject, Refusal> => {
  const plain = jsonValues.copyPlain(json, { ...limits, maxDepth: Math.min(limits.maxDepth, maxDocumentDepth) })
  if ("_tag" in plain) {
    const path = paths.toPointer(plain.at)
    switch (plain._tag) {
      case "NotJson":
        return Result.fail({ path, reason: { _tag: "NotASchema", expected: "plain JSON", found: plain.found } })
      case "ForbiddenKey":
        return Result.fail({ path, reason: { _tag: "ForbiddenKey", key: plain.key } })
      case "TooDeep":
        return Result.fail({ path, reason: { _tag: "TooDeep", limit: plain.limit } })
      case "TooLarge":
        return Result.fail({
          path,
          reason: { _tag: "TooLarge", what: plain.what, limit: plain.limit, found: plain.found }
        })
    }
  }
  return jsonValues.isObject(plain.value)
    ? Result.succeed(plain.value)
    : Result.fail({
        path: "",
        reason: { _tag: "NotASchema", expected: "an object", found: jsonValues.describeKind(plain.value) }
      })
}

type Dialect = "2020-12" | "draft-07"

const uriDialects: ReadonlyMap<string, Dialect> = new Map([
  ["https://json-schema.org/draft/2020-12/schema", "2020-12"],
  ["http://json-schema.org/draft-07/schema", "draft-07"],
  ["https://json-schema.org/draft-07/schema", "draft-07"]
])

const dialectUris: ReadonlyArray<string> = [...uriDialects.keys()]

const dialectOf = (uri: string): Dialect | undefined => uriDialects.get(uri.replace(/#$/, ""))

/** Keywords that say nothing about which values are accepted. */
const annotationKeywords: ReadonlySet<string> = new Set([
  "title",
  "description",
  "default",
  "examples",
  "$comment",
  "deprecated",
  "readOnly",
  "writeOnly",
  "contentEncoding",
  "contentMediaType",
  "contentSchema"
])

/** Keywords that the compiler itself reads. */
const structureKeywords: ReadonlySet<string> = new Set([
  "$schema",
  "$id",
  "$anchor",
  "$ref",
  "$defs",
  "definitions",
  "type"
])

const only2020: ReadonlySet<string> = new Set([
  "$anchor",
  "prefixItems",
  "minContains",
  "maxContains",
  "unevaluatedItems",
  "unevaluatedProperties",
  "dependentRequired",
  "dependentSchemas"
])

const only07: ReadonlySet<string> = new Set(["additionalItems"])

const keywordTable: ReadonlyMap<string, keywords.Keyword> = new Map([
  ...keywords.scalarKeywords,
  ...keywords.arrayKeywords,
  ...keywords.objectKeywords,
  ...keywords.combinationKeywords
])

type KeywordRole = "annotation" | "structure" | "unknown" | keywords.Keyword

/** What a dialect knows a keyword as. */
const keywordRoleOf = (keyword: string, dialect: Dialect): KeywordRole => {
  if (annotationKeywords.has(keyword) || keyword.startsWith("x-")) return "annotation"
  if ((dialect === "draft-07" ? only2020 : only07).has(keyword)) return "unknown"
  return structureKeywords.has(keyword) ? "structure" : (keywordTable.get(keyword) ?? "unknown")
}

/** A `$ref` that was read and waits for the whole document. */
interface PendingReference {
  readonly node: schemaNode.Node
  readonly ref: string
  readonly base: string
}

/** What `$id`, `$anchor` and places in the document lead to. */
interface ReferenceIndex {
  /** Places of the resources, by absolute URI without a fragment. */
  readonly resources: Map<string, string>
  /** Nodes by absolute URI with the anchor as its fragment. */
  readonly anchors: Map<string, schemaNode.Node>
  /** Nodes by their place in the document. */
  readonly nodes: Map<string, schemaNode.Node>
}

/** Every reference below a schema is resolved against its URI. */
const maxUriLength = 2048

/** Documents without an `$id` live here; nothing is ever fetched. */
const documentUri = "https://schema.invalid/"

interface Identity {
  readonly base: string
  readonly anchor: string | undefined
}

const withoutFragment = (uri: string): string => {
  const hash = uri.indexOf("#")
  return hash < 0 ? uri : uri.slice(0, hash)
}

/** Reads an `$id`: a new base, or in draft-07 an anchor. */
const readId = (id: string, base: string, dialect: Dialect): Identity | schemaNode.Reason => {
  if (dialect === "draft-07" && /^#[^/]+$/.test(id)) return { base, anchor: id.slice(1) }
  const url = URL.parse(id, base)
  if (url === null || !/^[^#]*#?$/.test(id)) {
    return { _tag: "InvalidKeyword", keyword: "$id", expected: "a URI without a fragment", found: "string" }
  }
  if (url.href.length > maxUriLength) {
    return { _tag: "TooLarge", what: "length of the $id", limit: maxUriLength, found: url.href.length }
  }
  return { base: withoutFragment(url.href), anchor: undefined }
}

const decodeFragment = (fragment: string): string | undefined => {
  let text = ""
  let bytes: Array<number> = []
  const flush = () => {
    text += new TextDecoder().decode(new Uint8Array(bytes))
    bytes = []
  }
  for (let i = 0; i < fragment.length; i++) {
    const char = fragment[i] ?? ""
    if (char !== "%") {
      if (bytes.length > 0) flush()
      text += char
      continue
    }
    const hex = fragment.slice(i + 1, i + 3)
    if (!/^[0-9a-fA-F]{2}$/.test(hex)) return undefined
    bytes.push(Number.parseInt(hex, 16))
    i += 2
  }
  if (bytes.length > 0) flush()
  return text
}

/** The node a reference means, or why there is none. */
const resolveReference = (
  { base, ref }: PendingReference,
  index: ReferenceIndex
): schemaNode.Node | schemaNode.Reason => {
  const refuse = (problem: string): schemaNode.Reason => ({ _tag: "UnresolvedReference", ref, problem })
  const hash = ref.indexOf("#")
  const url = URL.parse(hash < 0 ? ref : ref.slice(0, hash), base)
  const uri = hash === 0 ? base : url === null ? undefined : withoutFragment(url.href)
  const root = uri === undefined ? undefined : index.resources.get(uri)
  if (uri === undefined || root === undefined) {
    return refuse("it leaves the document, and nothing is ever fetched; copy the schema into $defs")
  }
  const fragment = decodeFragment(hash < 0 ? "" : ref.slice(hash + 1))
  if (fragment === undefined) return refuse("the fragment is not well encoded")
  const place = fragment === "" || fragment.startsWith("/")
  const node = place ? index.nodes.get(root + fragment) : index.anchors.get(`${uri}#${fragment}`)
  return node ?? refuse(place ? "there is no schema at this place" : "there is no such anchor")
}

const knownKinds = Object.keys(jsonValues.kindBits)

const kindBit = (name: string): number | undefined =>
  // `name` is an own key, checked right here
  Object.hasOwn(jsonValues.kindBits, name) ? jsonValues.kindBits[name as keyof typeof jsonValues.kindBits] : undefined

/** Reads `type`. */
const kindsOf = (schema: JsonObject, context: keywords.Context): number => {
  const value = jsonValues.getMember(schema, "type")
  if (value === undefined) return jsonValues.allKinds
  const list = jsonValues.isArray(value) ? value : [value]
  if (list.length === 0) {
    context.refuse({ _tag: "InvalidKeyword", keyword: "type", expected: "a type", found: "an empty array" }, "type")
  }
  let kinds = 0
  for (const name of list) {
    const kind = typeof name === "string" ? kindBit(name) : undefined
    if (kind === undefined) {
      const found = typeof name === "string" ? name : jsonValues.describeKind(name)
      context.refuse({ _tag: "UnsupportedType", found, supported: knownKinds }, "type")
    } else kinds |= kind
  }
  return kinds
}

const isSchema = (json: Schema.Json | undefined): json is JsonObject | boolean =>
  jsonValues.isObject(json) || typeof json === "boolean"

const nodeAt = ({ schema, sub }: keywords.Context, keyword: string): schemaNode.Node | undefined => {
  const json = jsonValues.getMember(schema, keyword)
  return isSchema(json) ? sub(json, keyword) : undefined
}

const nodesAt = ({ schema, sub }: keywords.Context, keyword: string): ReadonlyArray<schemaNode.Node> => {
  const list = jsonValues.getMember(schema, keyword)
  return list !== undefined && jsonValues.isArray(list) ? list.map((item, at) => sub(item, keyword, at)) : []
}

const nodesByName = (
  { schema, sub }: keywords.Context,
  keyword: string
): ReadonlyArray<readonly [string, schemaNode.Node]> => {
  const map = jsonValues.getMember(schema, keyword)
  if (!jsonValues.isObject(map)) return []
  return Object.keys(map)
    .filter((name) => isSchema(map[name]))
    .map((name) => [name, sub(map[name] ?? null, keyword, name)])
}

const objectShape = (context: keywords.Context): schemaNode.ObjectShape | undefined => {
  const properties = nodesByName(context, "properties")
  const patterns = keywords.patternNodes(context)
  const additional = nodeAt(context, "additionalProperties")
  const required = keywords.requiredNames(context)
  const dependent = [...nodesByName(context, "dependentSchemas"), ...nodesByName(context, "dependencies")]
  const unevaluatedForbidden = jsonValues.getMember(context.schema, "unevaluatedProperties") === false
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

const arrayShape = (context: keywords.Context): schemaNode.ArrayShape | undefined => {
  const legacy = jsonValues.isArray(jsonValues.getMember(context.schema, "items") ?? null)
  const prefix = nodesAt(context, context.dialect === "draft-07" ? "items" : "prefixItems")
  const rest = nodeAt(context, legacy ? "additionalItems" : "items")
  return prefix.length === 0 && rest === undefined ? undefined : { prefix, rest }
}

const choicesOf = (context: keywords.Context): ReadonlyArray<schemaNode.Choice> => {
  const choices: ReadonlyArray<schemaNode.Choice> = [
    { keyword: "anyOf", branches: nodesAt(context, "anyOf") },
    { keyword: "oneOf", branches: nodesAt(context, "oneOf") }
  ]
  return choices.filter(({ branches }) => branches.length > 0)
}

const conditionalOf = (context: keywords.Context): schemaNode.Conditional | undefined => {
  const condition = nodeAt(context, "if")
  return condition === undefined
    ? undefined
    : { if: condition, then: nodeAt(context, "then"), else: nodeAt(context, "else") }
}

/** The subschemas that look at the same value as the schema itself. */
const sameValueKeywords = (context: keywords.Context): ReadonlyArray<schemaNode.Node> => [
  ...nodesAt(context, "allOf"),
  ...nodesAt(context, "anyOf"),
  ...nodesAt(context, "oneOf"),
  ...["not", "if", "then", "else"].flatMap((keyword) => nodeAt(context, keyword) ?? []),
  ...nodesByName(context, "dependentSchemas").map(([, node]) => node),
  ...nodesByName(context, "dependencies").map(([, node]) => node)
]

/** The subschemas of each node that look at the same value. */
type SameValue = ReadonlyMap<schemaNode.Node, ReadonlyArray<schemaNode.Node>>

type CycleProblem =
  | { readonly _tag: "Cycle"; readonly node: schemaNode.Node }
  | { readonly _tag: "TooLong"; readonly node: schemaNode.Node; readonly limit: number }

/** Chains of schemas over one value may be this long. */
const maxChain = 100

/** Finds a way from a schema back to itself that consumes nothing, or a chain that is too long. Not recursive. */
const findCycle = (edges: SameValue): CycleProblem | undefined => {
  const length = new Map<schemaNode.Node, number>()
  const open = new Set<schemaNode.Node>()
  for (const start of edges.keys()) {
    const stack: Array<{ readonly node: schemaNode.Node; readonly next: ReadonlyArray<schemaNode.Node>; at: number }> =
      []
    const push = (node: schemaNode.Node) => {
      open.add(node)
      stack.push({ node, next: edges.get(node) ?? [], at: 0 })
    }
    if (!length.has(start)) push(start)
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const next = top.next[top.at++]
      if (next === undefined) {
        const longest = 1 + top.next.reduce((most, node) => Math.max(most, length.get(node) ?? 0), 0)
        if (longest > maxChain) return { _tag: "TooLong", node: top.node, limit: maxChain }
        length.set(top.node, longest)
        open.delete(top.node)
        stack.pop()
      } else if (open.has(next)) {
        const cycle = stack.slice(stack.findIndex(({ node }) => node === next)).map(({ node }) => node)
        // a tree has no cycles, so one of its steps is a reference
        const node = cycle.find((from, at) => from.reference === (cycle[at + 1] ?? next)) ?? top.node
        return { _tag: "Cycle", node }
      } else if (!length.has(next)) push(next)
    }
  }
  return undefined
}

interface Refusal {
  readonly path: string
  readonly reason: schemaNode.Reason
}

/** Weight of all patterns of a document, or of several that share a budget: compiling them takes time, too. */
export const maxPatterns = 60_000

/** What the patterns of the documents that share it weigh so far. */
export interface PatternFuel {
  weight: number
}

/** Length of all pointers of a document: each place below a long key repeats the key. */
const maxSubschemas = 32 * 1024 * 1024

/** The weight of the patterns of one document, and the weight when the last one was compiled. */
export interface PatternWeight {
  readonly all: number
  readonly beforeLast: number
}

interface Scope {
  readonly base: string
}

/** Compiles a document, or says what in it cannot be enforced. Recursion is bounded by the depth guard before it. */
export const compileSchema = (
  json: JsonObject,
  budget: PatternFuel
): Result.Result<
  { readonly root: schemaNode.Node; readonly dialect: Dialect; readonly patterns: PatternWeight },
  Refusal
> => {
  const schemaUri = jsonValues.getMember(json, "$schema")
  const dialect = schemaUri === undefined ? "2020-12" : typeof schemaUri === "string" ? dialectOf(schemaUri) : undefined
  if (dialect === undefined) {
    const found = typeof schemaUri === "string" ? schemaUri : jsonValues.describeKind(schemaUri)
    return Result.fail({
      path: "/$schema",
      reason: { _tag: "UnsupportedDialect", found, supported: dialectUris }
    })
  }
  const problems: Array<Refusal> = []
  const index: ReferenceIndex = { resources: new Map(), anchors: new Map(), nodes: new Map() }
  const pending: Array<PendingReference> = []
  const sameValue = new Map<schemaNode.Node, ReadonlyArray<schemaNode.Node>>()
  let places = 0
  const before = budget.weight
  let beforeLast = 0
  const patterns = new Map<string, Result.Result<Patterns.CompiledPattern, string>>()

  const refuse = (path: string, reason: schemaNode.Reason): undefined => {
    problems.push({ path, reason })
    return undefined
  }

  const identify = (schema: JsonObject, pointer: string, scope: Scope): Scope & { readonly anchors: Array<string> } => {
    const anchors: Array<string> = []
    let base = scope.base
    const id = jsonValues.getMember(schema, "$id")
    const ignored = dialect === "draft-07" && Object.hasOwn(schema, "$ref")
    if (id !== undefined && !ignored) {
      const identity =
        typeof id === "string"
          ? readId(id, base, dialect)
          : ({
              _tag: "InvalidKeyword",
              keyword: "$id",
              expected: "a string",
              found: jsonValues.describeKind(id)
            } as const)
      if ("_tag" in identity) refuse(paths.appendToken(pointer, "$id"), identity)
      else {
        if (identity.anchor !== undefined) anchors.push(identity.anchor)
        else if (index.resources.has(identity.base) && identity.base !== scope.base) {
          refuse(paths.appendToken(pointer, "$id"), {
            _tag: "InvalidKeyword",
            keyword: "$id",
            expected: "a URI that no other schema of the document has",
            found: "a repeated one"
          })
        } else index.resources.set(identity.base, pointer)
        base = identity.base
      }
    }
    const anchor = jsonValues.getMember(schema, "$anchor")
    if (anchor !== undefined && dialect === "2020-12") {
      if (typeof anchor === "string" && /^[A-Za-z_][A-Za-z0-9._-]*$/.test(anchor)) anchors.push(anchor)
      else {
        refuse(paths.appendToken(pointer, "$anchor"), {
          _tag: "InvalidKeyword",
          keyword: "$anchor",
          expected: "a plain name",
          found: jsonValues.describeKind(anchor)
        })
      }
    }
    return { base, anchors }
  }

  const compileNode = (schema: Schema.Json, pointer: string, scope: Scope): schemaNode.Node => {
    places += pointer.length
    if (places > maxSubschemas) {
      refuse("", { _tag: "TooLarge", what: "length of all places", limit: maxSubschemas, found: places })
      return emptyNode("", true, undefined)
    }
    const known = index.nodes.get(pointer)
    if (known !== undefined) return known
    if (!jsonValues.isObject(schema)) {
      if (typeof schema !== "boolean") {
        refuse(pointer, {
          _tag: "NotASchema",
          expected: "a schema (an object or a boolean)",
          found: jsonValues.describeKind(schema)
        })
      }
      const node = emptyNode(pointer, schema !== false, undefined)
      index.nodes.set(pointer, node)
      return node
    }
    const { anchors, base } = identify(schema, pointer, scope)
    const own: Scope = { base }
    const below = (keyword: string): keywords.Context => ({
      dialect,
      schema,
      keyword,
      sub: (part, ...keys) => compileNode(part, keys.reduce<string>(paths.appendToken, pointer), own),
      pattern: (source, ...keys) => {
        beforeLast = budget.weight - before
        if (budget.weight > maxPatterns) {
          const reason = {
            _tag: "TooLarge",
            what: "weight of all patterns",
            limit: maxPatterns,
            found: budget.weight
          } as const
          return refuse(keys.reduce<string>(paths.appendToken, pointer), reason)
        }
        const compiled = patterns.get(source) ?? Patterns.compilePattern(source)
        if (!patterns.has(source)) {
          patterns.set(source, compiled)
          budget.weight += Result.isSuccess(compiled) ? compiled.success.weight : source.length
        }
        return Result.isSuccess(compiled)
          ? compiled.success
          : refuse(keys.reduce<string>(paths.appendToken, pointer), {
              _tag: "UnsupportedPattern",
              problem: compiled.failure
            })
      },
      refuse: (reason, ...keys) => refuse(keys.reduce<string>(paths.appendToken, pointer), reason)
    })
    const context = below("")
    const node: schemaNode.Node = {
      ...emptyNode(pointer, undefined, jsonValues.getMember(schema, "default")),
      kinds: kindsOf(schema, below("type")),
      tracks: Object.hasOwn(schema, "unevaluatedProperties") || Object.hasOwn(schema, "unevaluatedItems")
    }
    index.nodes.set(pointer, node)
    for (const anchor of anchors) index.anchors.set(`${base}#${anchor}`, node)
    if (pointer !== "" && Object.hasOwn(schema, "$schema")) {
      const uri = schema["$schema"]
      if (typeof uri !== "string" || dialectOf(uri) !== dialect) {
        refuse(paths.appendToken(pointer, "$schema"), {
          _tag: "InvalidKeyword",
          keyword: "$schema",
          expected: "the dialect of the document",
          found: "another"
        })
      }
    }
    const alone = dialect === "draft-07" && Object.hasOwn(schema, "$ref")
    const asserted: Array<schemaNode.Assertion> = []
    const last: Array<schemaNode.Assertion> = []
    for (const keyword of Object.keys(schema)) {
      const role = keywordRoleOf(keyword, dialect)
      const value = schema[keyword] ?? null
      if (role === "annotation") continue
      if (role === "unknown") {
        context.refuse({ _tag: "UnsupportedKeyword", keyword }, keyword)
        continue
      }
      if (keyword === "$defs" || keyword === "definitions") {
        if (!jsonValues.isObject(value)) {
          context.refuse(
            {
              _tag: "InvalidKeyword",
              keyword,
              expected: "an object of schemas",
              found: jsonValues.describeKind(value)
            },
            keyword
          )
        } else for (const name of Object.keys(value)) context.sub(value[name] ?? null, keyword, name)
      } else if (keyword === "$ref") {
        if (typeof value !== "string") {
          context.refuse(
            { _tag: "InvalidKeyword", keyword, expected: "a string", found: jsonValues.describeKind(value) },
            keyword
          )
          continue
        }
        pending.push({ node, ref: value, base: alone ? scope.base : base })
        asserted.push(
          (found, at, run, evaluated) =>
            node.reference === undefined || schemaNode.evaluateInPlace(node.reference, found, at, run, evaluated, true)
        )
      } else if (typeof role === "function" || keyword === "type") {
        if (alone) {
          context.refuse(
            {
              _tag: "InvalidKeyword",
              keyword,
              expected: "nothing beside $ref, where draft-07 would ignore it",
              found: jsonValues.describeKind(value)
            },
            keyword
          )
        }
        if (typeof role !== "function") continue
        const assertion = role(value, below(keyword))
        if (assertion !== undefined) (keyword.startsWith("unevaluated") ? last : asserted).push(assertion)
      }
    }
    const filled: schemaNode.Node = Object.assign(node, {
      assertions: [...asserted, ...last],
      applied: asserted,
      object: objectShape(context),
      array: arrayShape(context),
      choices: choicesOf(context),
      conditional: conditionalOf(context),
      allOf: listOf(context, "allOf")
    })
    sameValue.set(node, sameValueKeywords(context))
    return filled
  }

  index.resources.set(documentUri, "")
  const root = compileNode(json, "", { base: documentUri })
  for (const item of pending) {
    const target = resolveReference(item, index)
    if ("_tag" in target) refuse(paths.appendToken(item.node.pointer, "$ref"), target)
    else {
      item.node.reference = target
      sameValue.set(item.node, [target, ...(sameValue.get(item.node) ?? [])])
    }
  }
  const cycle = problems.length === 0 ? findCycle(sameValue) : undefined
  if (cycle !== undefined) {
    const ref = pending.find(({ node }) => node === cycle.node)?.ref ?? "the reference"
    if (cycle._tag === "Cycle") refuse(paths.appendToken(cycle.node.pointer, "$ref"), { _tag: "ReferenceCycle", ref })
    else refuse(cycle.node.pointer, { _tag: "TooDeep", limit: cycle.limit })
  }
  const first = problems[0]
  return first === undefined
    ? Result.succeed({ root, dialect, patterns: { all: budget.weight - before, beforeLast } })
    : Result.fail(first)
}

const listOf = ({ schema, sub }: keywords.Context, keyword: string): ReadonlyArray<schemaNode.Node> => {
  const list = jsonValues.getMember(schema, keyword)
  return list !== undefined && jsonValues.isArray(list) ? list.map((item, at) => sub(item, keyword, at)) : []
}

const emptyNode = (pointer: string, always: boolean | undefined, preset: Schema.Json | undefined): schemaNode.Node => ({
  pointer,
  always,
  kinds: 127,
  assertions: [],
  applied: [],
  tracks: false,
  object: undefined,
  array: undefined,
  choices: [],
  conditional: undefined,
  allOf: [],
  reference: undefined,
  default: preset,
  closure: undefined,
  filled: undefined
})
