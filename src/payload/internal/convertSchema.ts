/**
 * Conversions of JSON Schema documents: from Effect's Schema, to the strict form of providers, and whether an import into Effect's Schema stays cheap.
 */

import * as Effect from "effect/Effect"
import * as EffectJsonSchema from "effect/JsonSchema"
import * as JsonPointer from "effect/JsonPointer"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import { compileOnce, copyDocument, JsonSchemaError } from "./compileSchema.ts"
import * as fuel from "./fuel.ts"
import * as interpret from "./interpret.ts"
import type { Node } from "./interpret.ts"
import * as plainJson from "./plainJson.ts"
import { type JsonObject, appendToken, isArray, isObject } from "./plainJson.ts"

/**
 * The JSON Schema of a tool without parameters: a closed object without
 * properties.
 */
export const noParameters: JsonObject = { type: "object", properties: {}, required: [], additionalProperties: false }

/** A schema of no value. */
export const isVoid = ({ ast }: Schema.Top): boolean => SchemaAST.isVoid(ast) || SchemaAST.isUndefined(ast)

/** A schema without information about its values. */
export const isUninformative = ({ ast }: Schema.Top): boolean =>
  SchemaAST.isUnknown(ast) || SchemaAST.isAny(ast) || SchemaAST.isNever(ast)

const hasJsonForm = ({ annotations }: SchemaAST.Declaration): boolean =>
  annotations !== undefined &&
  ["toCodecJson", "toCodec", "representation"].some((key) => Object.hasOwn(annotations, key))

/**
 * The path of a part of a Schema that no codec turns into JSON: core exports it as
 * "anything" and fails when such a value is encoded.
 */
const findOpaque = (root: SchemaAST.AST): string | undefined => {
  const seen = new Set<SchemaAST.AST>()
  const open: Array<{ readonly ast: SchemaAST.AST; readonly path: string }> = [
    { ast: SchemaAST.toEncoded(root), path: "" }
  ]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { ast, path } = next
    if (seen.has(ast)) continue
    seen.add(ast)
    const add = (part: SchemaAST.AST, ...tokens: ReadonlyArray<string | number>) =>
      open.push({ ast: part, path: tokens.reduce(appendToken, path) })
    switch (ast._tag) {
      case "Declaration":
        if (!hasJsonForm(ast)) return path
        for (const parameter of ast.typeParameters) add(SchemaAST.toEncoded(parameter))
        break
      case "Objects":
        for (const { name, type } of ast.propertySignatures) add(type, "properties", String(name))
        for (const { type } of ast.indexSignatures) add(type, "additionalProperties")
        break
      case "Arrays":
        for (const [index, element] of ast.elements.entries()) add(element, "prefixItems", index)
        for (const rest of ast.rest) add(rest, "items")
        break
      case "Union":
        for (const [index, member] of ast.types.entries()) add(member, "anyOf", index)
        break
      case "Suspend":
        add(ast.thunk())
        break
    }
  }
  return undefined
}

const annotationKeys: ReadonlySet<string> = new Set(["title", "description", "default", "examples", "deprecated"])

const keywordOrder: ReadonlyArray<string> = [
  "$schema $ref type title description enum const default examples",
  "prefixItems items properties required additionalProperties"
].flatMap((names) => names.split(" "))

const keywordRank = (key: string) => {
  const at = keywordOrder.indexOf(key)
  return key === "$defs" ? keywordOrder.length + 1 : at < 0 ? keywordOrder.length : at
}

type Draft = Record<string, Schema.Json>

/** Bounds that only mean that a number is a safe integer. */
const withoutSafeBounds = (schema: Draft): void => {
  if (schema["minimum"] === Number.MIN_SAFE_INTEGER) delete schema["minimum"]
  if (schema["maximum"] === Number.MAX_SAFE_INTEGER) delete schema["maximum"]
}

/** Moves members of `allOf` into the schema itself where it can hold them: notes replace notes, other keywords may not collide. */
const withoutAllOf = (schema: Draft): void => {
  const parts = schema["allOf"]
  if (!isArray(parts)) return
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
  if (!isArray(parts)) return
  const seen = new Set<string>()
  const distinct = parts.filter((part) => {
    const print = plainJson.fingerprint(part)
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
  if (Object.keys(only).some((key) => Object.hasOwn(schema, key))) return
  if (distinct.length === 2 && !simple) return
  delete schema["anyOf"]
  Object.assign(schema, only, distinct.length === 2 ? { type: [kind, "null"] } : undefined)
}

const enumOf = (
  part: Schema.Json
): { readonly type: string; readonly values: ReadonlyArray<Schema.Json> } | undefined => {
  if (!isObject(part) || !Object.keys(part).every((key) => key === "type" || key === "enum" || key === "title")) {
    return undefined
  }
  const type = part["type"]
  const values = part["enum"]
  return typeof type === "string" && isArray(values) ? { type, values } : undefined
}

/** A first item like all others adds nothing to `minItems`. */
const withoutPrefix = (schema: Draft): void => {
  const prefix = schema["prefixItems"]
  const items = schema["items"]
  if (prefix === undefined || items === undefined || !isArray(prefix)) return
  if (prefix.every((item) => plainJson.fingerprint(item) === plainJson.fingerprint(items))) delete schema["prefixItems"]
}

const isEmptyStruct = (schema: JsonObject): boolean =>
  Object.keys(schema).length === 1 && plainJson.fingerprint(schema) === `{"not":{"type":"null"}}`

const orderKeywords = (schema: Draft): JsonObject =>
  Object.fromEntries(Object.entries(schema).sort(([a], [b]) => keywordRank(a) - keywordRank(b)))

const mapKeywords: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "dependentSchemas"])

const valueKeywords: ReadonlySet<string> = new Set(["enum", "const", "default", "examples"])

const mapMembers = (json: JsonObject, f: (member: Schema.Json) => Schema.Json): JsonObject =>
  Object.fromEntries(Object.entries(json).map(([key, member]) => [key, f(member)]))

const tidyPart = (json: Schema.Json): Schema.Json => (isObject(json) ? tidyDocument(json) : json)

const mapSubschemas = (key: string, value: Schema.Json): Schema.Json => {
  if (valueKeywords.has(key)) return value
  if (isArray(value)) return value.map(tidyPart)
  return isObject(value) && mapKeywords.has(key) ? mapMembers(value, tidyPart) : tidyPart(value)
}

/** Shortens core's export without changing its meaning. */
const tidyDocument = (schema: JsonObject): JsonObject => {
  if (isEmptyStruct(schema)) return noParameters
  const out: Draft = Object.fromEntries(Object.entries(schema).map(([key, value]) => [key, mapSubschemas(key, value)]))
  withoutAllOf(out)
  if (out["type"] === "integer") withoutSafeBounds(out)
  withoutAnyOf(out)
  withoutPrefix(out)
  if (out["contentEncoding"] === "base64" && out["format"] === "byte") delete out["format"]
  if (isObject(out["properties"]) && out["required"] === undefined) out["required"] = []
  return orderKeywords(out)
}

/** Puts definitions that are used once in their place; the others stay in `$defs`. A reference at the root is opened. */
const inlineDefinitions = (root: JsonObject, definitions: ReadonlyArray<readonly [string, JsonObject]>): JsonObject => {
  const refOf = (name: string) => JsonPointer.formatUriFragment(["$defs", name])
  const byRef = new Map<Schema.Json | undefined, JsonObject>(definitions.map(([name, json]) => [refOf(name), json]))
  const definitionOf = (json: JsonObject) => (Object.keys(json).length === 1 ? byRef.get(json["$ref"]) : undefined)
  const uses = new Map<Schema.Json, number>()
  const count = (json: Schema.Json): void => {
    if (isArray(json)) for (const item of json) count(item)
    if (!isObject(json)) return
    const definition = definitionOf(json)
    if (definition === undefined) return Object.values(json).forEach(count)
    const before = uses.get(definition) ?? 0
    uses.set(definition, before + 1)
    if (before === 0) count(definition)
  }
  const inline = (json: Schema.Json): Schema.Json => {
    if (isArray(json)) return json.map(inline)
    if (!isObject(json)) return json
    const definition = definitionOf(json)
    return definition !== undefined && uses.get(definition) === 1 ? inline(definition) : mapMembers(json, inline)
  }
  let schema = root
  for (const _ of definitions) schema = definitionOf(schema) ?? schema
  count(schema)
  const kept = definitions.filter(([, json]) => (uses.get(json) ?? 0) > 1)
  const $defs = Object.fromEntries(kept.map(([name, json]) => [name, mapMembers(json, inline)]))
  return { ...mapMembers(schema, inline), ...(kept.length === 0 ? undefined : { $defs }) }
}

/**
 * Exports an Effect Schema as a closed JSON Schema (draft 2020-12) of its JSON
 * encoding, the one that `Schema.toCodecJson` reads and writes.
 *
 * **Details**
 *
 * The document is core's export, closed and tidied: no bounds that only mean
 * "safe integer", `type: ["string", "null"]` for a nullable type, one `enum` for
 * a union of constants, `required` in every object, definitions in place unless
 * they are recursive or used more than once. Descriptions, examples and
 * `default` come from annotations.
 *
 * A Schema with a part that has no JSON form (a class instance without a codec)
 * is refused with the path of that part, and so is one whose `pattern` cannot
 * run in linear time.
 *
 * **Gotchas**
 *
 * Core exports the pattern of a regular expression only if it has the `u` flag.
 * `Schema.optional` takes `null` in JSON; prefer `Schema.optionalKey`. A default
 * reaches the document by annotation only, `withDecodingDefaultKey` is not seen.
 *
 * **Example** (Parameters of a tool)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const Parameters = Schema.Struct({
 *   city: Schema.String.annotate({ description: "The city name" }),
 *   days: Schema.optionalKey(Schema.Int.annotate({ default: 3 }))
 * })
 * assert.deepStrictEqual(Effect.runSync(JsonSchema.fromSchema(Parameters)), {
 *   type: "object",
 *   properties: {
 *     city: { type: "string", description: "The city name" },
 *     days: { type: "integer", default: 3 }
 *   },
 *   required: ["city"],
 *   additionalProperties: false
 * })
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const fromSchema = Effect.fnUntraced(function* (
  schema: Schema.Constraint,
  options: { readonly what?: string | undefined } = {}
) {
  const what = options.what ?? "Schema"
  const expected = "a Schema with a JSON form"
  const refuse = (path: string, found: string) =>
    new JsonSchemaError({ what, reason: "NotRepresentable", path, expected, found })
  // Nothing for a Schema that was changed since
  const origin = SchemaAST.resolveAt<Schema.Json>(sourceKey)(schema.ast)
  if (isObject(origin)) return origin
  const opaque = findOpaque(schema.ast)
  if (opaque !== undefined) return yield* refuse(opaque, "a class or declaration without a toCodecJson annotation")
  const exported = Result.try({
    try: () => Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" }),
    catch: (cause) => (cause instanceof Error ? cause.message : String(cause))
  })
  if (Result.isFailure(exported)) return yield* refuse("", exported.failure)
  const { definitions: $defs, schema: exportedRoot } = exported.success
  const document = copyDocument({ ...exportedRoot, $defs }, yield* plainJson.resolveLimits())
  if (Result.isFailure(document)) return yield* new JsonSchemaError({ what, ...document.failure })
  const { $defs: definitions, ...root } = document.success
  const named = Object.entries(definitions ?? {}).filter((entry): entry is [string, JsonObject] => isObject(entry[1]))
  const json = tidyDocument(inlineDefinitions(root, named))
  const compiled = compileOnce(json, yield* fuel.current)
  if (Result.isFailure(compiled)) return yield* new JsonSchemaError({ what, ...compiled.failure })
  return json
}) satisfies (
  schema: Schema.Constraint,
  options?: { readonly what?: string | undefined }
) => Effect.Effect<JsonObject, JsonSchemaError>

/** Under this annotation a Schema has the document it was made of as a whole. */
const sourceKey = "effect-emissary/payload/JsonSchema"

/** Imports a document as a Schema that a reader learns from. */
export type Importer = (self: interpret.JsonSchema) => Option.Option<Schema.Codec<unknown>>

/** Under this annotation such a Schema has {@link importSchema}: a program that makes none does not bundle the import. */
const importerKey = "effect-emissary/payload/JsonSchema/importer"

/** The importer of a Schema that was made of a document. */
export const importerOf = ({ ast }: Schema.Top): Importer | undefined => SchemaAST.resolveAt<Importer>(importerKey)(ast)

/**
 * The Schema of a tool that shows its document itself: a provider's adapter reads arguments with it, and what it refuses the
 * call would refuse.
 */
export const checkedBy = (self: interpret.JsonSchema): Schema.Codec<unknown> =>
  // Only of `Any` is the export that of its checks
  Schema.Any.check(
    Schema.makeFilter(
      (value, _, options) =>
        Result.match(interpret.validate(self, value, { coerce: true }), {
          onFailure: (problems) => plainJson.toSchemaIssue(problems, value, options),
          onSuccess: () => undefined
        }),
      { toJsonSchema: () => ({ type: "object" }) }
    )
  )

/** The parts that look at the same value, as core's import knows them. */
const nodesInPlace = ({ combined, reference }: Node): ReadonlyArray<Node> => [
  ...(reference === undefined ? [] : [reference]),
  ...combined.allOf,
  ...combined.anyOf,
  ...combined.oneOf
]

const anyKey = "*"

/** The parts that look at members, each with the member; `*` is any. */
const nodesInside = (node: Node): ReadonlyArray<readonly [member: string, node: Node]> => [
  ...node.properties,
  ...node.patterns.map(([, part]) => [anyKey, part] as const),
  ...(node.additional === undefined ? [] : [[anyKey, node.additional] as const]),
  ...node.prefix.map((part, at) => [String(at), part] as const),
  ...(node.rest === undefined ? [] : [[anyKey, node.rest] as const])
]

/** The work of a reader without a budget, which tries every alternative, on one value. */
interface Visits {
  /** The number of schemas it visits for the value itself. */
  readonly inPlace: number
  /** The schemas that visit each member, each as often as it does. */
  readonly members: ReadonlyMap<string, ReadonlyArray<Node>>
}

/** The greatest number of visits of core, which has no budget, to one part of a value. */
const maxVisits = 100_000

/** The greatest number of parts of members that are looked at, so that the question is cheap, too. */
const maxMembers = 4000

/** Values are this deep by default. */
const maxLevels = 64

/**
 * True when core, which has no budget, has little to do with any value. Alternatives that refer to the same schema
 * twice double its work level by level; so does a recursion in which two schemas look at the same member.
 */
const isCheapToRead = (root: Node): boolean => {
  const known = new Map<Node, Visits>()
  let size = 0
  const visitsOf = (node: Node): Visits => {
    const before = known.get(node)
    if (before !== undefined) return before
    let inPlace = 1
    const members = new Map<string, Array<Node>>()
    const add = (key: string, part: Node) => {
      const parts = members.get(key) ?? []
      members.set(key, parts)
      parts.push(part)
      size++
    }
    for (const [key, part] of nodesInside(node)) add(key, part)
    // References that consume nothing form no circle and short chains only, so this ends soon.
    for (const part of nodesInPlace(node)) {
      if (size > maxMembers) break
      const visits = visitsOf(part)
      inPlace += visits.inPlace
      for (const [key, parts] of visits.members) {
        for (const inner of parts) if (size <= maxMembers) add(key, inner)
      }
    }
    known.set(node, { inPlace, members })
    return { inPlace, members }
  }
  const nodes = new Set([root])
  for (const node of nodes) {
    for (const parts of visitsOf(node).members.values()) for (const part of parts) nodes.add(part)
    if (size > maxMembers) return false
  }
  const costs = new Map<Node, number>()
  for (let level = 0, grown = true; grown && level < maxLevels; level++) {
    grown = false
    for (const node of nodes) {
      const cost = worstCost(visitsOf(node), costs)
      if (cost > maxVisits) return false
      grown ||= cost !== costs.get(node)
      costs.set(node, cost)
    }
  }
  return true
}

/** The visits to a value and to the one member of it that takes the most. */
const worstCost = ({ inPlace, members }: Visits, costs: ReadonlyMap<Node, number>): number => {
  const costOf = (key: string) => (members.get(key) ?? []).reduce((sum, part) => sum + (costs.get(part) ?? 0), 0)
  const wild = costOf(anyKey)
  const others = Array.from(members.keys()).filter((key) => key !== anyKey)
  return inPlace + wild + others.reduce((most, key) => Math.max(most, costOf(key)), 0)
}

/** The units for the import of one document, at most. */
export const maxImportUnits = 100_000

/** Schemas in one another that core merges, at most: it merges all of them again for each one. */
const maxMergedLevels = 8

/** Core imports a schema without a type once for each type. */
const unitsOfSchema = ({ checks, kinds, size }: Node): number =>
  20 + 5 * size + (kinds === plainJson.allTypes && checks.length > 0 ? 150 : 0)

/** True for a schema in which core has nothing to merge: a reference or alternatives and nothing else, or neither. */
const isPlain = (node: Node): boolean => {
  const { allOf, anyOf, oneOf } = node.combined
  const others = [node.reference, ...allOf, ...(anyOf.length > 0 ? [anyOf] : []), ...(oneOf.length > 0 ? [oneOf] : [])]
  const isAlone = node.checks.length === 1 && node.kinds === plainJson.allTypes
  return nodesInPlace(node).length === 0 || (isAlone && others.filter((part) => part !== undefined).length === 1)
}

/**
 * At least the units that core's import takes, or more than `limit`. Core imports a definition once, but merges the
 * schemas that look at one value anew for each of them, and with them those of each member; before it merges
 * alternatives it looks through everything that the others lead to.
 */
const boundImport = (root: Node, limit: number): number => {
  let units = 0
  const imported = new Set<Node>()
  const isOver = () => units > limit
  const below = new Map<Node, ReadonlyArray<Node>>()
  const lookThrough = (root: Node): void => {
    const open = [root]
    for (let node = open.pop(); node !== undefined && !isOver(); node = open.pop()) {
      units += 1
      const parts = below.get(node) ?? [...nodesInPlace(node), ...nodesInside(node).map(([, part]) => part)]
      below.set(node, parts)
      for (const part of parts) open.push(part)
    }
  }
  const importNode = (node: Node): void => {
    if (imported.has(node) || isOver()) return
    // The two boolean schemas are at many places
    if (node.always === undefined) imported.add(node)
    units += unitsOfSchema(node)
    if (!isPlain(node)) merge([node], 1, 0)
    else for (const part of nodesInPlace(node)) importNode(part)
    for (const [, part] of nodesInside(node)) importNode(part)
  }
  const merge = (nodes: ReadonlyArray<Node>, times: number, level: number): void => {
    if (level > maxMergedLevels) units = Number.POSITIVE_INFINITY
    // A schema that two references lead to is merged with itself
    const merged = [...nodes]
    const members = new Map<string, Array<Node>>()
    let entries = 0
    for (const node of merged) {
      units += unitsOfSchema(node)
      if (isOver()) return
      for (const part of nodesInPlace(node)) merged.push(part)
      if (node.combined.anyOf.length + node.combined.oneOf.length > 0) {
        const before = units
        for (const other of nodes) lookThrough(other)
        units += (units - before) * nodesInPlace(node).length
      }
      for (const [key, part] of nodesInside(node)) {
        const parts = members.get(key) ?? []
        parts.push(part)
        members.set(key, parts)
        entries += 1
      }
    }
    units += times * merged.length * (merged.length * (1 + members.size) + entries)
    const wild = members.get(anyKey) ?? []
    for (const parts of members.values()) {
      if (isOver()) return
      const all = parts === wild ? parts : [...parts, ...wild]
      if (all.length > 1) merge(all, times * merged.length, level + 1)
      for (const part of parts) importNode(part)
    }
  }
  importNode(root)
  return units
}

/**
 * A Schema of the same document for provider adapters, which want to look at a
 * Schema as well as at JSON.
 *
 * **Details**
 *
 * It is imported by core as far as core can; where core refuses (`if`, `not`,
 * `$ref: "#"` ...), and where the import or a reader of the Schema would take too long
 * (schemas that are merged again and again, alternatives that multiply, a recursion that
 * looks at one member twice), it accepts any object for a document
 * of objects, and anything else for others. It never decides what is accepted: `JsonSchema.validate` does.
 *
 * @category converting
 * @since 0.1.0
 */
export const toSchema = (self: interpret.JsonSchema): Schema.Codec<unknown> =>
  Option.getOrElse(importSchema(self), () =>
    self.json["type"] === "object" ? Schema.Record(Schema.String, Schema.Unknown) : Schema.Unknown
  )

/**
 * The Schema that {@link toSchema} imports, or none where it would accept anything: then a
 * reader of the Schema learns nothing of the document, and needs the document itself.
 *
 * @category converting
 * @since 0.1.0
 */
export const importSchema: Importer = (self) => {
  const before = knownImports.get(self)
  if (before !== undefined) return before
  const imported = importWith(fuel.make(maxImportUnits), self)
  knownImports.set(self, imported)
  return imported
}

/** Core imports a document once: a tool shows its Schema in every run. */
const knownImports = new WeakMap<interpret.JsonSchema, Option.Option<Schema.Codec<unknown>>>()

/** {@link importSchema} with fuel: the units of an import that is too large are those of asking. */
export const importWith = (tank: fuel.Fuel, self: interpret.JsonSchema): Option.Option<Schema.Codec<unknown>> => {
  const { limit } = tank
  const root = interpret.rootOf(self)
  // Core walks all of a document of draft-07 before it reads it
  const before = self.dialect === "draft-07" ? interpret.costOf(self).units : 0
  const units = before + boundImport(root, limit)
  // Asking takes little of what importing takes
  fuel.spend(tank, Math.min(units, limit) / (units > limit ? 20 : 1))
  if (units > limit || !isCheapToRead(root)) return Option.none()
  const imported = Result.try(() =>
    SchemaRepresentation.fromJsonSchemaDocument(
      self.dialect === "draft-07"
        ? EffectJsonSchema.fromSchemaDraft07(self.json)
        : EffectJsonSchema.fromSchemaDraft2020_12(self.json),
      { patterns: "ignore" }
    )
  )
  return Option.map(
    Result.getSuccess(imported),
    // an imported Schema needs no services, and its two sides are whatever JSON allows
    (schema) => schema as Schema.Top as Schema.Codec<unknown>
  )
}

/**
 * `JsonSchema.validate` as a Schema: decoding completes and checks a value, encoding
 * returns it as it is. `JsonSchema.fromSchema` returns its document again.
 *
 * **When to use**
 *
 * Use it where a Schema is required and only a JSON Schema is known, such as the
 * structured output of an agent that was decoded.
 *
 * **Example** (Decoding by a JSON Schema)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const program = Effect.gen(function*() {
 *   const checked = yield* JsonSchema.make({ type: "object", properties: { n: { type: "integer", default: 1 } } })
 *   const codec = JsonSchema.codec(checked)
 *   assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(codec)({}), { n: 1 })
 * })
 * Effect.runSync(program)
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const codec = (self: interpret.JsonSchema, options?: interpret.ValidateOptions): Schema.Codec<Schema.Json> =>
  Schema.Json.pipe(
    Schema.decodeTo(Schema.Json, {
      decode: SchemaGetter.transformEffect((json, parse) =>
        Effect.mapError(Effect.fromResult(interpret.validate(self, json, options)), (problems) =>
          plainJson.toSchemaIssue(problems, json, parse)
        )
      ),
      encode: SchemaGetter.passthrough()
    })
  ).annotate({ [sourceKey]: self.json, [importerKey]: importSchema })
