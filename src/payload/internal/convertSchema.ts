/**
 * Conversions of JSON Schema documents from Effect's Schema and to it.
 */

import * as Effect from "effect/Effect"
import * as JsonPointer from "effect/JsonPointer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import { compileOnce, copyDocument, doorOf, JsonSchemaError, checkedDocument } from "./compileSchema.ts"
import * as interpret from "./interpret.ts"
import { resolveLimits } from "./limits.ts"
import { toSchemaIssue } from "./problems.ts"
import { appendToken, fingerprint, isArray, isObject, type JsonObject, typeBits } from "./values.ts"

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
 * The path of a part of a Schema that no codec turns into JSON: core exports the part as "anything" and fails when its
 * value is encoded.
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
  if (prefix.every((item) => fingerprint(item) === fingerprint(items))) delete schema["prefixItems"]
}

const isEmptyStruct = (schema: JsonObject): boolean =>
  Object.keys(schema).length === 1 && fingerprint(schema) === `{"not":{"type":"null"}}`

const orderKeywords = (schema: Draft): JsonObject =>
  Object.fromEntries(Object.entries(schema).sort(([a], [b]) => keywordRank(a) - keywordRank(b)))

const mapKeywords: ReadonlySet<string> = new Set([
  "properties",
  "patternProperties",
  "$defs",
  "definitions",
  "dependentSchemas",
  "dependencies"
])

const valueKeywords: ReadonlySet<string> = new Set(["enum", "const", "default", "examples"])

const mapMembers = (json: JsonObject, f: (member: Schema.Json) => Schema.Json): JsonObject =>
  Object.fromEntries(Object.entries(json).map(([key, member]) => [key, f(member)]))

/** A schema with `f` of each schema directly in it. */
export const mapSubschemas = (schema: JsonObject, f: (part: JsonObject) => JsonObject): Draft => {
  const mapPart = (part: Schema.Json): Schema.Json => (isObject(part) ? f(part) : part)
  const mapValue = ([key, value]: readonly [string, Schema.Json]): readonly [string, Schema.Json] => {
    if (valueKeywords.has(key)) return [key, value]
    if (isArray(value)) return [key, value.map(mapPart)]
    return [key, isObject(value) && mapKeywords.has(key) ? mapMembers(value, mapPart) : mapPart(value)]
  }
  return Object.fromEntries(Object.entries(schema).map(mapValue))
}

/** A list in `items`, which draft 2020-12 has in `prefixItems`. */
export const withoutItemList = ({ additionalItems, items, ...rest }: JsonObject): Draft => {
  if (!isArray(items)) return items === undefined ? rest : { ...rest, items }
  const prefix = items.length === 0 ? undefined : { prefixItems: items }
  return { ...rest, ...prefix, ...(additionalItems === undefined ? undefined : { items: additionalItems }) }
}

const otherDialects = /^https?:\/\/json-schema\.org\/(?:draft-0[467]|draft\/20(?:19-09|20-12))\/schema#?$/

/** Names of types in other languages, drafts and generators. `undefined` has no constraint. */
const otherTypes: ReadonlyMap<string, string | undefined> = new Map([
  ["any", undefined],
  ["float", "number"],
  ["double", "number"],
  ["int", "integer"],
  ["long", "integer"],
  ["bool", "boolean"],
  ["str", "string"],
  ["list", "array"],
  ["dict", "object"]
])

const meantType = (type: Schema.Json): Schema.Json | undefined => {
  if (isArray(type)) {
    const types = new Set(type.map(meantType))
    return types.has(undefined) ? undefined : Array.from(types, (one) => one ?? null)
  }
  const name = typeof type === "string" ? type.toLowerCase() : ""
  return otherTypes.has(name) ? otherTypes.get(name) : Object.hasOwn(typeBits, name) ? name : type
}

/** Exclusive bounds of draft-04, which are true or false beside the bound. */
const withoutBooleanBounds = (schema: Draft): void => {
  for (const bound of ["Minimum", "Maximum"]) {
    const exclusive = schema[`exclusive${bound}`]
    if (typeof exclusive !== "boolean") continue
    delete schema[`exclusive${bound}`]
    const limit = schema[bound.toLowerCase()]
    if (!exclusive || limit === undefined) continue
    delete schema[bound.toLowerCase()]
    schema[`exclusive${bound}`] = limit
  }
}

/** `required` of draft-03, which is true or false in a property. */
const withoutOwnRequired = (schema: Draft): Draft => {
  const { properties, required } = schema
  if (properties === undefined || !isObject(properties)) return schema
  const names: Array<Schema.Json> = isArray(required) ? [...required] : []
  const members = Object.entries(properties).map(([name, property]) => {
    if (!isObject(property) || typeof property["required"] !== "boolean") return [name, property]
    const { required: isRequired, ...rest } = property
    if (isRequired === true && !names.includes(name)) names.push(name)
    return [name, rest]
  })
  return { ...schema, properties: Object.fromEntries(members), ...(names.length > 0 ? { required: names } : undefined) }
}

/** `nullable: true` of OpenAPI. */
const withoutNullable = ({ nullable, ...schema }: Draft): Draft => {
  if (nullable !== true) return nullable === undefined ? schema : { nullable, ...schema }
  const entries = Object.entries(schema)
  const notes = Object.fromEntries(entries.filter(([key]) => annotationKeys.has(key)))
  const rest = Object.fromEntries(entries.filter(([key]) => !annotationKeys.has(key)))
  const out: Draft = { ...notes, anyOf: [rest, { type: "null" }] }
  withoutAnyOf(out)
  return out
}

/**
 * A document from outside that cannot be checked as it is, as its author meant it, in the keywords of draft 2020-12. What has no
 * plain meaning stays, and is refused by its name.
 */
export const asMeant = (root: JsonObject): JsonObject => {
  const hasReferences = JSON.stringify(root).includes('"$ref"')
  /**
   * True for a keyword that only names a schema for references. The `$id` of the root is also the base of references,
   * and references within a document need no base.
   */
  const isName = (key: string, schema: JsonObject) =>
    (key === "$id" && schema === root) || (!hasReferences && ["$id", "$anchor", "$dynamicAnchor"].includes(key))
  const isAbsent = (key: string, value: Schema.Json) =>
    value === null && !["const", "default", "examples"].includes(key)
  const read = (schema: JsonObject): Draft => {
    const kept = Object.entries(schema).filter(([key, value]) => !isAbsent(key, value) && !isName(key, schema))
    const parts = mapSubschemas(withoutOwnRequired(Object.fromEntries(kept)), read)
    const out = parts["prefixItems"] === undefined ? withoutItemList(parts) : parts
    const { $schema, type } = out
    if (typeof $schema === "string" && otherDialects.test($schema)) delete out["$schema"]
    if (type !== undefined) {
      const meant = meantType(type)
      delete out["type"]
      if (meant !== undefined) out["type"] = meant
    }
    withoutBooleanBounds(out)
    // Arguments and structured results are objects
    if (schema === root && out["nullable"] === true) delete out["nullable"]
    return withoutNullable(out)
  }
  return read(root)
}

/** Shortens core's export without changing its meaning. */
const tidyDocument = (schema: JsonObject): JsonObject => {
  if (isEmptyStruct(schema)) return noParameters
  const out = mapSubschemas(schema, tidyDocument)
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
 * Exports an Effect Schema as a closed JSON Schema (draft 2020-12) of the JSON that `Schema.toCodecJson` reads and
 * writes.
 *
 * **Details**
 *
 * The document is core's export, closed and tidied: no bounds that only mean
 * "safe integer", `type: ["string", "null"]` for a nullable type, one `enum` for
 * a union of constants, `required` in every object, definitions in place unless
 * they are recursive or used more than once. Descriptions, examples and
 * `default` come from annotations.
 *
 * A Schema with a part that has no JSON form (a class instance without a codec) is refused with the path of that part.
 * A part whose `pattern` cannot run in linear time is refused, too.
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
  const document = copyDocument({ ...exportedRoot, $defs }, yield* resolveLimits())
  if (Result.isFailure(document)) return yield* new JsonSchemaError({ what, ...document.failure })
  const { $defs: definitions, ...root } = document.success
  const named = Object.entries(definitions ?? {}).filter((entry): entry is [string, JsonObject] => isObject(entry[1]))
  const json = tidyDocument(inlineDefinitions(root, named))
  const door = yield* doorOf()
  const compiled = checkedDocument(compileOnce(json, door), door)
  if (Result.isFailure(compiled)) return yield* new JsonSchemaError({ what, ...compiled.failure })
  return json
}) satisfies (
  schema: Schema.Constraint,
  options?: { readonly what?: string | undefined }
) => Effect.Effect<JsonObject, JsonSchemaError>

/** Under this annotation a Schema has the document it was made of as a whole. */
const sourceKey = "effect-emissary/payload/JsonSchema"

/** True for a Schema that was made of a document. */
export const isDocument = ({ ast }: Schema.Top): boolean => SchemaAST.resolveAt(sourceKey)(ast) !== undefined

/**
 * A Schema of the values that `self` accepts, which core exports as the JSON Schema `shown`: a provider's adapter shows that
 * document to the model.
 */
export const checkedBy = (
  self: interpret.JsonSchema,
  { $defs, ...shown }: JsonObject,
  options?: interpret.ValidateOptions
): Schema.Codec<unknown> => {
  // `Any` is the only schema that is exported as what its checks export
  const define = ([identifier, json]: readonly [string, Schema.Json]) => {
    const schema = isObject(json) ? json : json === true ? {} : { not: {} }
    return Schema.Any.check(Schema.makeFilter(() => true, { identifier, toJsonSchema: () => schema })).ast
  }
  const schemas = isObject($defs) ? Object.entries($defs).map(define) : []
  return Schema.Any.check(
    Schema.makeFilter(
      (value, _, parse) =>
        Result.match(interpret.validate(self, value, options), {
          onFailure: (problems) => toSchemaIssue(problems, value, parse),
          onSuccess: () => undefined
        }),
      { representation: { id: sourceKey, payload: null, schemas }, toJsonSchema: () => shown }
    )
  )
}

/**
 * A Schema of the values that the document accepts, for provider adapters, which want a Schema.
 *
 * **Details**
 *
 * `Schema.toJsonSchemaDocument` returns the document. Values stay as they are: `JsonSchema.codec` completes them.
 *
 * @category converting
 * @since 0.1.0
 */
export const toSchema = (self: interpret.JsonSchema): Schema.Codec<unknown> => checkedBy(self, self.json)

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
          toSchemaIssue(problems, json, parse)
        )
      ),
      encode: SchemaGetter.passthrough()
    })
  ).annotate({ [sourceKey]: self.json })
