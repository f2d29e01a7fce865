/**
 * JSON Schemas from outside, guarded once and interpreted without generated
 * code.
 *
 * A `CheckedSchema` is a JSON Schema document of which every keyword is either
 * enforced or known to be a mere note. It is made once per document and
 * validates any number of values. The document itself is kept as it came and
 * never re-exported.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { dual } from "effect/Function"
import * as JsonSchema from "effect/JsonSchema"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as SchemaAST from "effect/SchemaAST"
import * as SchemaIssue from "effect/SchemaIssue"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import { compile, type PatternBudget } from "./internal/jsonschema/compile.ts"
import { check, defaultMaxSteps } from "./internal/jsonschema/check.ts"
import { guard } from "./internal/jsonschema/guard.ts"
import type { Node } from "./internal/jsonschema/model.ts"
import { revisits } from "./internal/jsonschema/revisits.ts"
import * as Origin from "./internal/jsonschema/origin.ts"
import { looks } from "./internal/jsonschema/unfold.ts"
import { tokens } from "./internal/pointer.ts"
import { at, isObject, type JsonObject } from "./Json.ts"
import { JsonSchemaError } from "./JsonSchemaError.ts"
import * as Limits from "./Limits.ts"
import type * as ValidationIssue from "./ValidationIssue.ts"

/**
 * Marks the values of this module.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId: TypeId = "~effect-emissary/payload/CheckedSchema"

/**
 * The type of {@link TypeId}.
 *
 * @category type IDs
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/payload/CheckedSchema"

/**
 * The version of JSON Schema a document is written in, told by its `$schema`.
 *
 * @category models
 * @since 0.1.0
 */
export type Dialect = "2020-12" | "draft-07"

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
export interface CheckedSchema {
  readonly [TypeId]: TypeId
  readonly json: JsonObject
  readonly dialect: Dialect
}

/**
 * Options of {@link make}.
 *
 * @category models
 * @since 0.1.0
 */
export interface MakeOptions {
  /** What the document is, for error messages; default `"JSON Schema"`. */
  readonly what?: string | undefined
  /** Limits that differ from the current ones for this document. */
  readonly limits?: Partial<Limits.Limits> | undefined
}

/**
 * Options of {@link validate}.
 *
 * @category models
 * @since 0.1.0
 */
export interface ValidateOptions {
  /** Refuse undeclared properties of a closed object instead of dropping them; default `false`. */
  readonly strict?: boolean | undefined
  /** Accept text that holds a JSON array or object where one is expected; default `false`. */
  readonly coerce?: boolean | undefined
  /** How many issues are collected at most; default 50. */
  readonly maxIssues?: number | undefined
  /** How much work one validation may be; a step is about one keyword on one value. Default 1,000,000. */
  readonly maxSteps?: number | undefined
  /** Limits of the value that differ from `Limits.defaults`. */
  readonly limits?: Partial<Limits.Limits> | undefined
}

class Checked implements CheckedSchema {
  readonly [TypeId]: TypeId = TypeId
  readonly json: JsonObject
  readonly dialect: Dialect
  readonly #root: Node
  constructor(json: JsonObject, dialect: Dialect, root: Node) {
    this.json = json
    this.dialect = dialect
    this.#root = root
  }
  static root(self: Checked): Node {
    return self.#root
  }
}

const rootOf = (self: CheckedSchema): Node =>
  // `make` is the only constructor and makes nothing else; a forged value is a defect
  Checked.root(self as Checked)

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
 * - keywords that would not be enforced, such as `$dynamicRef` or misspelt ones;
 *   notes of your own are welcome under `x-` names;
 * - unknown values of `type` and `format`;
 * - a `pattern` that cannot run in linear time (look-around, back references);
 * - a `$ref` that leaves the document, points to nothing, or leads back to
 *   itself without consuming a part of the value;
 * - assertions beside `$ref` in draft-07, where they would be ignored.
 *
 * **Gotchas**
 *
 * Formats are assertions here. `idn-email` and `idn-hostname` are refused.
 *
 * **Example** (Checking arguments against a JSON Schema from a database)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Result } from "effect"
 * import { CheckedSchema, ValidationIssue } from "effect-emissary"
 *
 * const program = Effect.gen(function*() {
 *   const schema = yield* CheckedSchema.make({
 *     type: "object",
 *     properties: { city: { type: "string" }, days: { type: "integer", default: 3 } },
 *     required: ["city"],
 *     additionalProperties: false
 *   })
 *   const good = CheckedSchema.validate(schema, { city: "Rome", evil: true })
 *   assert.deepStrictEqual(good, Result.succeed({ city: "Rome", days: 3 }))
 *
 *   const bad = CheckedSchema.validate(schema, { days: "two" })
 *   if (Result.isFailure(bad)) {
 *     assert.strictEqual(ValidationIssue.render(bad.failure), "city is required; days: expected integer, got string")
 *   }
 * })
 * Effect.runSync(program)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function* (json: unknown, options: MakeOptions = {}) {
  const what = options.what ?? "JSON Schema"
  const limits = yield* Limits.resolve(options.limits)
  const document = guard(json, limits)
  if (Result.isFailure(document)) return yield* new JsonSchemaError({ what, ...document.failure })
  const compiled = compile(document.success, (yield* SharedBudget) ?? { weight: 0 })
  if (Result.isFailure(compiled)) return yield* new JsonSchemaError({ what, ...compiled.failure })
  const checked: CheckedSchema = new Checked(document.success, compiled.success.dialect, compiled.success.root)
  return checked
}) satisfies (json: unknown, options?: MakeOptions) => Effect.Effect<CheckedSchema, JsonSchemaError>

const SharedBudget = Context.Reference<PatternBudget | undefined>(
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
 *
 * **Example** (Many schemas, one budget)
 *
 * ```ts
 * import { Effect, Exit } from "effect"
 * import { CheckedSchema } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const heavy = (n: number) => CheckedSchema.make({ type: "string", pattern: `^(\\p{L}{1,900}${n})$` })
 * const all = Effect.forEach(Array.from({ length: 50 }, (_, n) => n), heavy, { discard: true })
 *
 * assert(Exit.isSuccess(Effect.runSyncExit(all)))
 * assert(Exit.isFailure(Effect.runSyncExit(CheckedSchema.withSharedBudget(all))))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const withSharedBudget = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => Effect.provideService(effect, SharedBudget, { weight: 0 }))

/**
 * Whether something is a {@link CheckedSchema}.
 *
 * @category guards
 * @since 0.1.0
 */
export const isCheckedSchema = (u: unknown): u is CheckedSchema => u instanceof Checked

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
 * What comes out is evaluated by the rules of JSON Schema. Issues come in the
 * order in which the schema declares things.
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
 * import { CheckedSchema } from "effect-emissary"
 *
 * const schema = Effect.runSync(CheckedSchema.make({
 *   type: "object",
 *   properties: { rows: { type: "array", items: { type: "integer" } } }
 * }))
 * assert.deepStrictEqual(
 *   CheckedSchema.validate(schema, { rows: "[1, 2]" }, { coerce: true }),
 *   Result.succeed({ rows: [1, 2] })
 * )
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const validate: {
  (
    self: CheckedSchema,
    value: unknown,
    options?: ValidateOptions
  ): Result.Result<Schema.Json, ReadonlyArray<ValidationIssue.ValidationIssue>>
  (
    value: unknown,
    options?: ValidateOptions
  ): (self: CheckedSchema) => Result.Result<Schema.Json, ReadonlyArray<ValidationIssue.ValidationIssue>>
} = dual(
  (args) => isCheckedSchema(args[0]),
  (
    self: CheckedSchema,
    value: unknown,
    options: ValidateOptions = {}
  ): Result.Result<Schema.Json, ReadonlyArray<ValidationIssue.ValidationIssue>> =>
    check(rootOf(self), value, {
      normalize: true,
      strict: options.strict ?? false,
      coerce: options.coerce ?? false,
      maxIssues: options.maxIssues ?? Limits.defaults.maxIssues,
      maxSteps: options.maxSteps ?? defaultMaxSteps,
      limits: { ...Limits.defaults, ...options.limits }
    })
)

/**
 * Whether JSON Schema alone accepts a value as it is: nothing is filled in,
 * removed, dropped or recovered.
 *
 * **Example** (An exact test)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { CheckedSchema } from "effect-emissary"
 *
 * const schema = Effect.runSync(CheckedSchema.make({ type: "integer", multipleOf: 3 }))
 * assert.strictEqual(CheckedSchema.accepts(schema, 9), true)
 * assert.strictEqual(CheckedSchema.accepts(schema, 10), false)
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const accepts: {
  (value: unknown): (self: CheckedSchema) => boolean
  (self: CheckedSchema, value: unknown): boolean
} = dual(2, (self: CheckedSchema, value: unknown): boolean =>
  Result.isSuccess(
    check(rootOf(self), value, {
      normalize: false,
      strict: true,
      coerce: false,
      maxIssues: 1,
      maxSteps: defaultMaxSteps,
      limits: Limits.defaults
    })
  )
)

/** How often core, which has no budget, may look at one part of a value. */
const maxLooks = 100_000

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
export const toSchema = (self: CheckedSchema): Schema.Codec<unknown> =>
  Option.getOrElse(importSchema(self), (): Schema.Codec<unknown> =>
    self.json["type"] === "object" ? Schema.Record(Schema.String, Schema.Unknown) : Schema.Unknown
  )

/**
 * What {@link toSchema} imports, or none where it would accept anything: then a reader
 * of the Schema does not learn what the document says, and has to be told otherwise.
 *
 * @category converting
 * @since 0.1.0
 */
export const importSchema = (self: CheckedSchema): Option.Option<Schema.Codec<unknown>> => {
  const root = rootOf(self)
  if (looks(root) > maxLooks || revisits(root, (node) => literalsOf(self.json, node.pointer))) return Option.none()
  const imported = Result.try(() =>
    SchemaRepresentation.fromJsonSchemaDocument(
      self.dialect === "draft-07"
        ? JsonSchema.fromSchemaDraft07(self.json)
        : JsonSchema.fromSchemaDraft2020_12(self.json),
      { patterns: "ignore" }
    )
  )
  return Option.map(
    Result.getSuccess(imported),
    // an imported Schema needs no services, and its two sides are whatever JSON allows
    (schema) => schema as Schema.Top as Schema.Codec<unknown>
  )
}

/** The literals that a subschema admits, when it says so itself. */
const literalsOf = (json: JsonObject, pointer: string): ReadonlyArray<Schema.Json> | undefined => {
  const found = Option.getOrUndefined(at(json, pointer))
  if (!isObject(found)) return undefined
  if (Object.hasOwn(found, "const")) return [found["const"] ?? null]
  return Array.isArray(found["enum"]) ? found["enum"] : undefined
}

const schemaIssue = (
  issues: ReadonlyArray<ValidationIssue.ValidationIssue>,
  json: Schema.Json,
  options: SchemaAST.ParseOptions
): SchemaIssue.Issue => {
  const [first, ...rest] = issues.map(
    ({ message, pointer }) =>
      new SchemaIssue.Pointer(tokens(pointer), new SchemaIssue.InvalidValue({ message }, json, options))
  )
  return first === undefined
    ? new SchemaIssue.InvalidValue({ message: "is not valid" }, json, options)
    : new SchemaIssue.Composite(Schema.Json.ast, [first, ...rest], json, options)
}

/**
 * {@link validate} as a Schema: decoding completes and checks a value, encoding
 * gives it back as it is. `FromSchema.fromSchema` gives its document again.
 *
 * **When to use**
 *
 * Where something wants a Schema and only a JSON Schema is known, such as the
 * structured output of an agent that came as data.
 *
 * **Example** (Decoding by a JSON Schema)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, Schema } from "effect"
 * import { CheckedSchema } from "effect-emissary"
 *
 * const program = Effect.gen(function*() {
 *   const checked = yield* CheckedSchema.make({ type: "object", properties: { n: { type: "integer", default: 1 } } })
 *   const codec = CheckedSchema.codec(checked)
 *   assert.deepStrictEqual(yield* Schema.decodeUnknownEffect(codec)({}), { n: 1 })
 * })
 * Effect.runSync(program)
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const codec = (self: CheckedSchema, options?: ValidateOptions): Schema.Codec<Schema.Json> =>
  Origin.tell(
    Schema.Json.pipe(
      Schema.decodeTo(Schema.Json, {
        decode: SchemaGetter.transformEffect((json, parse) => {
          const result = validate(self, json, options)
          return Result.isSuccess(result)
            ? Effect.succeed(result.success)
            : Effect.fail(schemaIssue(result.failure, json, parse))
        }),
        encode: SchemaGetter.passthrough()
      })
    ),
    self.json
  )
