import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../Json.ts"
import type { Reason } from "../../JsonSchemaError.ts"
import type { Context } from "./context.ts"
import { findCycle } from "./cycles.ts"
import type { Dialect } from "./dialect.ts"
import { dialectOf, dialectUris, roleOf } from "./dialect.ts"
import { evaluateInPlace } from "./evaluate.ts"
import { join } from "./location.ts"
import type { Assertion, Node } from "./model.ts"
import type { LinearPattern } from "./patterns.ts"
import { compilePattern } from "./patterns.ts"
import type { Index, Pending } from "./references.ts"
import { documentUri, readId, resolve } from "./references.ts"
import { arrayShape, choicesOf, conditionalOf, kindsOf, objectShape, sameValueKeywords } from "./shape.ts"
import { describe, get, isArray, isObject } from "./values.ts"

export interface Refusal {
  readonly path: string
  readonly reason: Reason
}

/** Weight of all patterns of a document, or of several that share a budget: compiling them takes time, too. */
const maxPatterns = 60_000

/** What the patterns of the documents that share it weigh so far. */
export interface PatternBudget {
  weight: number
}

/** Length of all pointers of a document: each place below a long key repeats the key. */
const maxPlaces = 32 * 1024 * 1024

interface Scope {
  readonly base: string
}

/** Compiles a document, or says what in it cannot be enforced. Recursion is bounded by the depth guard before it. */
export const compile = (
  json: JsonObject,
  budget: PatternBudget
): Result.Result<{ readonly root: Node; readonly dialect: Dialect }, Refusal> => {
  const schemaUri = get(json, "$schema")
  const dialect = schemaUri === undefined ? "2020-12" : typeof schemaUri === "string" ? dialectOf(schemaUri) : undefined
  if (dialect === undefined) {
    const found = typeof schemaUri === "string" ? schemaUri : describe(schemaUri)
    return Result.fail({
      path: "/$schema",
      reason: { _tag: "UnsupportedDialect", found, supported: dialectUris }
    })
  }
  const problems: Array<Refusal> = []
  const index: Index = { resources: new Map(), anchors: new Map(), nodes: new Map() }
  const pending: Array<Pending> = []
  const sameValue = new Map<Node, ReadonlyArray<Node>>()
  let places = 0
  const patterns = new Map<string, Result.Result<LinearPattern, string>>()

  const refuse = (path: string, reason: Reason): undefined => {
    problems.push({ path, reason })
    return undefined
  }

  const identify = (schema: JsonObject, pointer: string, scope: Scope): Scope & { readonly anchors: Array<string> } => {
    const anchors: Array<string> = []
    let base = scope.base
    const id = get(schema, "$id")
    const ignored = dialect === "draft-07" && Object.hasOwn(schema, "$ref")
    if (id !== undefined && !ignored) {
      const identity =
        typeof id === "string"
          ? readId(id, base, dialect)
          : ({ _tag: "InvalidKeyword", keyword: "$id", expected: "a string", found: describe(id) } as const)
      if ("_tag" in identity) refuse(join(pointer, "$id"), identity)
      else {
        if (identity.anchor !== undefined) anchors.push(identity.anchor)
        else if (index.resources.has(identity.base) && identity.base !== scope.base) {
          refuse(join(pointer, "$id"), {
            _tag: "InvalidKeyword",
            keyword: "$id",
            expected: "a URI that no other schema of the document has",
            found: "a repeated one"
          })
        } else index.resources.set(identity.base, pointer)
        base = identity.base
      }
    }
    const anchor = get(schema, "$anchor")
    if (anchor !== undefined && dialect === "2020-12") {
      if (typeof anchor === "string" && /^[A-Za-z_][A-Za-z0-9._-]*$/.test(anchor)) anchors.push(anchor)
      else {
        refuse(join(pointer, "$anchor"), {
          _tag: "InvalidKeyword",
          keyword: "$anchor",
          expected: "a plain name",
          found: describe(anchor)
        })
      }
    }
    return { base, anchors }
  }

  const compileNode = (schema: Schema.Json, pointer: string, scope: Scope): Node => {
    places += pointer.length
    if (places > maxPlaces) {
      refuse("", { _tag: "TooLarge", what: "length of all places", limit: maxPlaces, found: places })
      return emptyNode("", true, undefined)
    }
    const known = index.nodes.get(pointer)
    if (known !== undefined) return known
    if (!isObject(schema)) {
      if (typeof schema !== "boolean") {
        refuse(pointer, { _tag: "NotASchema", expected: "a schema (an object or a boolean)", found: describe(schema) })
      }
      const node = emptyNode(pointer, schema !== false, undefined)
      index.nodes.set(pointer, node)
      return node
    }
    const { anchors, base } = identify(schema, pointer, scope)
    const own: Scope = { base }
    const below = (keyword: string): Context => ({
      dialect,
      schema,
      keyword,
      sub: (part, ...keys) => compileNode(part, keys.reduce<string>(join, pointer), own),
      pattern: (source, ...keys) => {
        if (budget.weight > maxPatterns) {
          const reason = {
            _tag: "TooLarge",
            what: "weight of all patterns",
            limit: maxPatterns,
            found: budget.weight
          } as const
          return refuse(keys.reduce<string>(join, pointer), reason)
        }
        const compiled = patterns.get(source) ?? compilePattern(source)
        if (!patterns.has(source)) {
          patterns.set(source, compiled)
          budget.weight += Result.isSuccess(compiled) ? compiled.success.weight : source.length
        }
        return Result.isSuccess(compiled)
          ? compiled.success
          : refuse(keys.reduce<string>(join, pointer), { _tag: "UnsupportedPattern", problem: compiled.failure })
      },
      refuse: (reason, ...keys) => refuse(keys.reduce<string>(join, pointer), reason)
    })
    const context = below("")
    const node: Node = {
      ...emptyNode(pointer, undefined, get(schema, "default")),
      kinds: kindsOf(schema, below("type")),
      tracks: Object.hasOwn(schema, "unevaluatedProperties") || Object.hasOwn(schema, "unevaluatedItems")
    }
    index.nodes.set(pointer, node)
    for (const anchor of anchors) index.anchors.set(`${base}#${anchor}`, node)
    if (pointer !== "" && Object.hasOwn(schema, "$schema")) {
      const uri = schema["$schema"]
      if (typeof uri !== "string" || dialectOf(uri) !== dialect) {
        refuse(join(pointer, "$schema"), {
          _tag: "InvalidKeyword",
          keyword: "$schema",
          expected: "the dialect of the document",
          found: "another"
        })
      }
    }
    const alone = dialect === "draft-07" && Object.hasOwn(schema, "$ref")
    const asserted: Array<Assertion> = []
    const last: Array<Assertion> = []
    for (const keyword of Object.keys(schema)) {
      const role = roleOf(keyword, dialect)
      const value = schema[keyword] ?? null
      if (role === "annotation") continue
      if (role === "unknown") {
        context.refuse({ _tag: "UnsupportedKeyword", keyword }, keyword)
        continue
      }
      if (keyword === "$defs" || keyword === "definitions") {
        if (!isObject(value)) {
          context.refuse(
            { _tag: "InvalidKeyword", keyword, expected: "an object of schemas", found: describe(value) },
            keyword
          )
        } else for (const name of Object.keys(value)) context.sub(value[name] ?? null, keyword, name)
      } else if (keyword === "$ref") {
        if (typeof value !== "string") {
          context.refuse({ _tag: "InvalidKeyword", keyword, expected: "a string", found: describe(value) }, keyword)
          continue
        }
        pending.push({ node, ref: value, base: alone ? scope.base : base })
        asserted.push(
          (found, at, run, evaluated) =>
            node.reference === undefined || evaluateInPlace(node.reference, found, at, run, evaluated, true)
        )
      } else if (typeof role === "function" || keyword === "type") {
        if (alone) {
          context.refuse(
            {
              _tag: "InvalidKeyword",
              keyword,
              expected: "nothing beside $ref, where draft-07 would ignore it",
              found: describe(value)
            },
            keyword
          )
        }
        if (typeof role !== "function") continue
        const assertion = role(value, below(keyword))
        if (assertion !== undefined) (keyword.startsWith("unevaluated") ? last : asserted).push(assertion)
      }
    }
    const filled: Node = Object.assign(node, {
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
    const target = resolve(item, index)
    if ("_tag" in target) refuse(join(item.node.pointer, "$ref"), target)
    else {
      item.node.reference = target
      sameValue.set(item.node, [target, ...(sameValue.get(item.node) ?? [])])
    }
  }
  const cycle = problems.length === 0 ? findCycle(sameValue) : undefined
  if (cycle !== undefined) {
    const ref = pending.find(({ node }) => node === cycle.node)?.ref ?? "the reference"
    if (cycle._tag === "Cycle") refuse(join(cycle.node.pointer, "$ref"), { _tag: "ReferenceCycle", ref })
    else refuse(cycle.node.pointer, { _tag: "TooDeep", limit: cycle.limit })
  }
  const first = problems[0]
  return first === undefined ? Result.succeed({ root, dialect }) : Result.fail(first)
}

const listOf = ({ schema, sub }: Context, keyword: string): ReadonlyArray<Node> => {
  const list = get(schema, keyword)
  return list !== undefined && isArray(list) ? list.map((item, at) => sub(item, keyword, at)) : []
}

const emptyNode = (pointer: string, always: boolean | undefined, preset: Schema.Json | undefined): Node => ({
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
