/**
 * JSON Schemas that have been checked: validate values against them, and convert them from and to Effect's Schema. Documents that cannot be enforced in full are refused.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as EffectJsonSchema from "effect/JsonSchema"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import type * as Json from "./Json.ts"
import * as Limits from "./Limits.ts"
import * as PayloadError from "./PayloadError.ts"
import * as base from "./internal/base.ts"
import * as convertSchema from "./internal/convertSchema.ts"
import * as interpret from "./internal/interpret.ts"
import * as issues from "./internal/issues.ts"
import * as jsonValues from "./internal/jsonValues.ts"

const TypeId = "~effect-emissary/payload/JsonSchema"

/**
 * A JSON Schema document after its guards.
 *
 * **Details**
 *
 * `json` is the document as it came: write this one back, compute digests of
 * this one.
 *
 * @category models
 * @since 0.1.0
 */
export interface JsonSchema {
  readonly [TypeId]: typeof TypeId
  readonly json: Json.JsonObject
  /** The version of JSON Schema that `$schema` names. */
  readonly dialect: "2020-12" | "draft-07"
}

/**
 * Options of {@link validate}.
 *
 * @category models
 * @since 0.1.0
 */
type ValidateOptions = interpret.ValidateOptions

class Compiled implements JsonSchema {
  readonly [TypeId] = TypeId
  readonly json: Json.JsonObject
  readonly dialect: interpret.Dialect
  readonly #root: interpret.Node
  constructor(json: Json.JsonObject, dialect: interpret.Dialect, root: interpret.Node) {
    this.json = json
    this.dialect = dialect
    this.#root = root
  }
  static root(self: Compiled): interpret.Node {
    return self.#root
  }
}

const rootOf = (self: JsonSchema): interpret.Node =>
  // `make` is the only constructor and makes nothing else; a forged value is a defect
  Compiled.root(self as Compiled)

/**
 * Guards and compiles a JSON Schema document.
 *
 * **When to use**
 *
 * For every JSON Schema that comes from outside, and for the ones exported from
 * Effect Schemas, so that both are enforced by the same interpreter.
 *
 * **Details**
 *
 * Before anything else the document is held against the current
 * {@link Limits.Limits} and the key rules of payloads. Then each keyword of
 * draft 2020-12 (or draft-07, by `$schema`) is compiled. These are refused, with
 * the JSON Pointer of the place:
 *
 * - keywords that would not be enforced: misspelt ones, and `$id`, `$anchor`,
 *   `$dynamicRef`, `unevaluatedItems` and `unevaluatedProperties`; notes of your own
 *   are welcome under `x-` names;
 * - unknown values of `type` and `format`;
 * - a `pattern` that cannot run in linear time (look-around, back references);
 * - a `$ref` that leaves the document, points to nothing, or leads back to
 *   itself without consuming a part of the value;
 * - assertions beside `$ref` in draft-07, where they would be ignored.
 *
 * A document that was compiled lately is not compiled again.
 *
 * **Gotchas**
 *
 * Make a new object rather than changing one that was compiled.
 * Formats are assertions here: `date-time`, `date`, `time`, `duration`, `email`,
 * `hostname`, `ipv4`, `ipv6`, `uri`, `uri-reference`, `uuid`, `json-pointer` and
 * `regex`. All others are refused.
 *
 * **Example** (Checking arguments against a JSON Schema from a database)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 * import { PayloadError } from "effect-emissary"
 *
 * const program = Effect.gen(function*() {
 *   const schema = yield* JsonSchema.make({
 *     type: "object",
 *     properties: { city: { type: "string" }, days: { type: "integer", default: 3 } },
 *     required: ["city"],
 *     additionalProperties: false
 *   })
 *   const good = JsonSchema.validate(schema, { city: "Rome", evil: true })
 *   assert.deepStrictEqual(good, Result.succeed({ city: "Rome", days: 3 }))
 *
 *   const bad = JsonSchema.validate(schema, { days: "two" })
 *   if (Result.isFailure(bad)) {
 *     assert.strictEqual(
 *       PayloadError.render("arguments", bad.failure),
 *       "arguments at /city: expected a required value, got nothing; at /days: expected integer, got string"
 *     )
 *   }
 * })
 * Effect.runSync(program)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function* (json: unknown, options: Json.Options = {}) {
  const what = options.what ?? "JSON Schema"
  const limits = yield* Limits.resolve(options.limits)
  const fuel = (yield* interpret.SharedPatternFuel) ?? { weight: 0 }
  const before = base.isObject(json) ? knownObjects.get(json) : undefined
  if (before?.limits === limits && spend(before.document, fuel)) return before.document.schema
  const found = Result.flatMap(interpret.copyDocument(json, limits), (document) => compileOnce(document, fuel))
  if (Result.isFailure(found)) return yield* new JsonSchemaError({ what, ...found.failure })
  if (base.isObject(json)) knownObjects.set(json, { limits, document: found.success })
  return found.success.schema
}) satisfies (json: unknown, options?: Json.Options) => Effect.Effect<JsonSchema, JsonSchemaError>

interface KnownDocument {
  readonly schema: JsonSchema
  readonly patternWeight: number
}

/** Documents by the object they came as, with the limits they were checked against. */
const knownObjects = new WeakMap<object, { readonly limits: Limits.Limits; readonly document: KnownDocument }>()

/** Documents by their text, the least recently used first: an agent that is decoded again has the same tools in new objects. */
const knownTexts = new Map<string, KnownDocument>()

const maxKnownTexts = 512

/** The greatest length of a text in the cache. */
const maxTextLength = 16 * 1024

/** The cache changes no verdict: the patterns of a known document take their part of a shared budget, too. */
const spend = ({ patternWeight }: KnownDocument, fuel: interpret.PatternFuel): boolean => {
  if (fuel.weight + patternWeight > interpret.maxPatterns) return false
  fuel.weight += patternWeight
  return true
}

const remember = (text: string, document: KnownDocument): KnownDocument => {
  if (text.length > maxTextLength) return document
  knownTexts.delete(text)
  knownTexts.set(text, document)
  const [oldest = text] = knownTexts.keys()
  if (knownTexts.size > maxKnownTexts) knownTexts.delete(oldest)
  return document
}

const compileOnce = (
  json: Json.JsonObject,
  fuel: interpret.PatternFuel
): Result.Result<KnownDocument, interpret.Refusal> => {
  const text = JSON.stringify(json)
  const known = knownTexts.get(text)
  if (known !== undefined && spend(known, fuel)) return Result.succeed(remember(text, known))
  return Result.map(interpret.compile(json, fuel), ({ dialect, patternWeight, root }) =>
    remember(text, { schema: new Compiled(json, dialect, root), patternWeight })
  )
}

/**
 * Checks a value and returns it completed, or everything that is wrong with it.
 *
 * **Details**
 *
 * The value is copied, then completed in this order, in depth, through `$ref`
 * and `allOf` and inside the alternative of `anyOf` or `oneOf` it fits:
 *
 * 1. with `coerce`, text that holds a JSON array or object is taken as that,
 *    where one is expected and text is not;
 * 2. `null` for an optional property is removed, unless its schema takes `null`;
 * 3. undeclared properties of a closed object are dropped, unless `strict`;
 * 4. `default`s of absent properties are filled in, if they fit their schema.
 *
 * The result of these steps is validated by the rules of JSON Schema. Issues are in
 * the order of the schema's keywords and properties.
 *
 * **Gotchas**
 *
 * A value that needs more than `maxSteps` fails with one issue of the keyword
 * `budget`. Undeclared properties are refused, not dropped, where one part of an
 * `allOf` is closed and another part declares the property.
 *
 * **Example** (A model that sends an array as text)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const schema = Effect.runSync(JsonSchema.make({
 *   type: "object",
 *   properties: { rows: { type: "array", items: { type: "integer" } } }
 * }))
 * assert.deepStrictEqual(
 *   JsonSchema.validate(schema, { rows: "[1, 2]" }, { coerce: true }),
 *   Result.succeed({ rows: [1, 2] })
 * )
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const validate = (
  self: JsonSchema,
  value: unknown,
  options: ValidateOptions = {}
): Result.Result<Schema.Json, ReadonlyArray<PayloadError.Problem>> =>
  interpret.validate(rootOf(self), value, true, options)

/**
 * True if JSON Schema alone accepts a value as it is: nothing is filled in,
 * removed, dropped or recovered.
 *
 * **Example** (An exact test)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const schema = Effect.runSync(JsonSchema.make({ type: "integer", multipleOf: 3 }))
 * assert.strictEqual(JsonSchema.accepts(schema, 9), true)
 * assert.strictEqual(JsonSchema.accepts(schema, 10), false)
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const accepts = (self: JsonSchema, value: unknown): boolean =>
  Result.isSuccess(interpret.validate(rootOf(self), value, false, { maxIssues: 1 }))

/**
 * A Schema of the same document for provider adapters, which want to look at a
 * Schema as well as at JSON.
 *
 * **Details**
 *
 * It is imported by core as far as core can; where core refuses (`if`, `not`,
 * `$ref: "#"` ...), and where alternatives within alternatives multiply, or a
 * recursion looks at one member twice, until a reader without a budget would never end, it accepts any object for a document
 * of objects, and anything else for others. It never decides what is accepted: {@link validate} does.
 *
 * @category converting
 * @since 0.1.0
 */
export const toSchema = (self: JsonSchema): Schema.Codec<unknown> =>
  Option.getOrElse(importSchema(self), (): Schema.Codec<unknown> =>
    self.json["type"] === "object" ? Schema.Record(Schema.String, Schema.Unknown) : Schema.Unknown
  )

/**
 * The Schema that {@link toSchema} imports, or none where it would accept anything: then a
 * reader of the Schema learns nothing of the document, and needs the document itself.
 *
 * @category converting
 * @since 0.1.0
 */
export const importSchema = (self: JsonSchema): Option.Option<Schema.Codec<unknown>> => {
  if (!convertSchema.isCheapToImport(rootOf(self))) return Option.none()
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
 * {@link validate} as a Schema: decoding completes and checks a value, encoding
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
export const codec = (self: JsonSchema, options?: ValidateOptions): Schema.Codec<Schema.Json> =>
  annotateSource(
    Schema.Json.pipe(
      Schema.decodeTo(Schema.Json, {
        decode: SchemaGetter.transformEffect((json, parse) => {
          const result = validate(self, json, options)
          return Result.isSuccess(result)
            ? Effect.succeed(result.success)
            : Effect.fail(issues.toSchemaIssue(result.failure, json, parse))
        }),
        encode: SchemaGetter.passthrough()
      })
    ),
    self.json
  )

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
  const refuse = (path: string, found: string) =>
    new JsonSchemaError({ what, reason: "NotRepresentable", path, expected: "a Schema with a JSON form", found })
  const origin = sourceOf(schema.ast)
  if (origin !== undefined) return origin
  const opaque = convertSchema.findOpaque(schema.ast)
  if (opaque !== undefined) return yield* refuse(opaque, "a class or declaration without a toCodecJson annotation")
  const exported = Result.try({
    try: () => Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" }),
    catch: (cause) => (cause instanceof Error ? cause.message : String(cause))
  })
  if (Result.isFailure(exported)) return yield* refuse("", exported.failure)
  const limits = yield* Limits.resolve()
  const document = interpret.copyDocument(
    { root: exported.success.schema, definitions: exported.success.definitions },
    limits
  )
  if (Result.isFailure(document)) return yield* new JsonSchemaError({ what, ...document.failure })
  const { definitions, root } = document.success
  if (!base.isObject(root) || !base.isObject(definitions)) return yield* refuse("", "core exported no object")
  const named = Object.entries(definitions).filter((entry): entry is [string, Json.JsonObject] =>
    base.isObject(entry[1])
  )
  const json = convertSchema.tidyDocument(convertSchema.inlineDefinitions(root, named))
  const compiled = compileOnce(json, { weight: 0 })
  if (Result.isFailure(compiled)) return yield* new JsonSchemaError({ what, ...compiled.failure })
  return json
}) satisfies (
  schema: Schema.Constraint,
  options?: { readonly what?: string | undefined }
) => Effect.Effect<Json.JsonObject, JsonSchemaError>

const sourceKey = "effect-emissary/payload/JsonSchema"

/** Notes in a Schema the document it was made of. */
const annotateSource = <S extends Schema.Top>(schema: S, json: Json.JsonObject): S["Rebuild"] =>
  schema.annotate({ [sourceKey]: json })

/** The document a Schema as a whole was made of; nothing for one that was changed since. */
const sourceOf = (ast: SchemaAST.AST): Json.JsonObject | undefined => {
  const json = SchemaAST.resolveAt<Schema.Json>(sourceKey)(ast)
  return base.isObject(json) ? json : undefined
}

/**
 * Turns a JSON Schema into its strict form, or names the part that has none.
 *
 * **When to use**
 *
 * For a provider that constrains a model's output by the schema. What the model
 * sends is still validated against the original schema, where `null` for an
 * optional property means that it is absent.
 *
 * **Details**
 *
 * - Every property is required and every object closed.
 * - An optional property takes `null`: `type: ["string", "null"]`, or `anyOf`
 *   with `{ type: "null" }` where the schema has an `enum`, `const` or `$ref`.
 * - `default` is left out.
 * - An object that is open, an array without `items`, a value of any type, and
 *   keywords that providers do not constrain by (`oneOf`, `not`, ...) are refused.
 *
 * **Example** (An optional parameter)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const strict = JsonSchema.toStrict({
 *   type: "object",
 *   properties: { city: { type: "string" }, days: { type: "integer", default: 3 } },
 *   required: ["city"],
 *   additionalProperties: false
 * })
 * assert.deepStrictEqual(strict, Result.succeed({
 *   type: "object",
 *   properties: { city: { type: "string" }, days: { type: ["integer", "null"] } },
 *   required: ["city", "days"],
 *   additionalProperties: false
 * }))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toStrict = (json: Json.JsonObject): Result.Result<Json.JsonObject, JsonSchemaError> =>
  Result.mapError(
    convertSchema.toStrictForm(json, ""),
    (refusal) => new JsonSchemaError({ what: "JSON Schema", ...refusal })
  )

/**
 * True for a JSON Schema that is in the strict form already.
 *
 * **Example** (Two schemas, one of them strict)
 *
 * ```ts
 * import assert from "node:assert"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * assert.strictEqual(JsonSchema.isStrict({ type: "object" }), false)
 * assert.strictEqual(
 *   JsonSchema.isStrict({ type: "object", properties: {}, required: [], additionalProperties: false }),
 *   true
 * )
 * ```
 *
 * @category guards
 * @since 0.1.0
 */
export const isStrict = (json: Json.JsonObject): boolean => {
  const strict = toStrict(json)
  return Result.isSuccess(strict) && jsonValues.fingerprint(strict.success) === jsonValues.fingerprint(json)
}

/**
 * A JSON Schema was refused: which document (`what`), why (`reason`, a name to
 * branch on), and the problem, at `path` in the document.
 *
 * **Details**
 *
 * - `NotASchema`: the document, or a part of it, is not plain JSON or not an
 *   object (subschemas may also be booleans).
 * - `TooLarge`, `TooDeep`: a limit was passed.
 * - `ForbiddenKey`: a key that can poison prototypes.
 * - `UnsupportedDialect`: `$schema` names neither draft 2020-12 nor draft-07.
 * - `UnsupportedKeyword`: a keyword that is neither enforced nor an annotation.
 * - `UnsupportedType`, `UnsupportedFormat`, `UnsupportedPattern`: a `type`,
 *   `format` or regular expression that cannot be enforced.
 * - `InvalidKeyword`: a keyword with a value it cannot have.
 * - `UnresolvedReference`, `ReferenceCycle`: a `$ref` that leaves the document,
 *   points to nothing, or comes back to itself without consuming anything.
 * - `NotRepresentable`: an Effect Schema that has no JSON Schema.
 * - `NotStrict`: a JSON Schema that has no strict form.
 *
 * **Example** (The place and the reason of a refusal)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { JsonSchema } from "effect-emissary/payload"
 *
 * const error = Effect.runSync(Effect.flip(JsonSchema.make({ properties: { a: { type: "float" } } })))
 * assert.strictEqual(error.path, "/properties/a/type")
 * assert.strictEqual(error.reason, "UnsupportedType")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class JsonSchemaError extends Schema.TaggedError<JsonSchemaError>("effect-emissary/payload/JsonSchemaError")(
  "JsonSchemaError",
  {
    what: Schema.String,
    reason: Schema.Literals(interpret.refusalReasons),
    ...PayloadError.Problem.fields
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return PayloadError.render(this.what, [this])
  }
}
