/** The groups schema, import, validate and structured: what JSON Schemas describe and accept. */
import { assert } from "@effect/vitest"
import { Effect, Option, Result, Schema } from "effect"
import { PayloadError } from "effect-emissary"
import { JsonSchema, Json as payloadJson } from "effect-emissary/payload"
import { type Case, ExpectedError, type Json, matchError, mentions, optional, read } from "../family.ts"
import { pluck } from "../../pluck.ts"

const param = {
  name: Schema.String,
  type: Schema.String,
  required: optional(Schema.Boolean),
  description: optional(Schema.String),
  enum: optional(Schema.Array(Schema.String)),
  default: optional(Schema.Json),
  of: optional(Schema.String)
}
interface Param extends Schema.Struct.Type<typeof param> {
  readonly fields?: ReadonlyArray<Param>
}
const Param: Schema.Codec<Param> = Schema.Struct({ ...param, fields: optional(Schema.Array(Schema.suspend(() => Param))) })

const SchemaCase = Schema.Struct({
  given: Schema.Struct({ params: Schema.Array(Param) }),
  expect: Schema.Struct({
    json_schema: optional(Schema.Json),
    json_schema_strict: optional(Schema.Json),
    strict_error: optional(ExpectedError),
    error: optional(ExpectedError)
  })
})

const scalars: Record<string, Schema.Codec<Schema.Json>> = {
  string: Schema.String,
  integer: Schema.Int,
  number: Schema.Finite,
  boolean: Schema.Boolean
}

/** The Schema of a parameter; none for what Effect Schemas have no words for, such as an array of both kinds. */
const type = (param: Param): Option.Option<Schema.Codec<unknown>> => {
  const scalar = scalars[param.type]
  const simple = param.fields === undefined && param.of === undefined
  if (scalar !== undefined) {
    if (!simple) return Option.none()
    return Option.some(param.enum === undefined ? scalar : Schema.Literals(param.enum))
  }
  if (param.type === "object") {
    if (param.of !== undefined) return Option.none()
    return param.fields === undefined
      ? Option.some(Schema.Record(Schema.String, Schema.Json))
      : Option.map(struct(param.fields), (fields) => fields)
  }
  if (param.type !== "array" || (param.of !== undefined && param.fields !== undefined)) return Option.none()
  if (param.fields !== undefined) return Option.map(struct(param.fields), (fields) => Schema.Array(fields))
  if (param.of === undefined) return Option.some(Schema.Array(Schema.Json))
  return Option.map(Option.fromNullishOr(scalars[param.of]), (item) => Schema.Array(item))
}

const struct = (params: ReadonlyArray<Param>): Option.Option<Schema.Codec<unknown>> =>
  Option.map(
    Option.all(
      params.map((param) =>
        Option.map(type(param), (schema) => {
          const noted = schema.annotate({
            ...(param.description === undefined ? {} : { description: param.description }),
            ...(param.default === undefined ? {} : { default: param.default })
          })
          return [param.name, param.required === true ? noted : optional(noted)] as const
        })
      )
    ),
    (fields) => Schema.Struct(Object.fromEntries(fields))
  )

/** Exports parameters as JSON Schema, in the plain and in the strict form. */
export const schema = Effect.fnUntraced(function* (golden: Case) {
  const { expect, given } = yield* read(SchemaCase)({ given: golden.given, expect: golden.expect })
  const made = struct(given.params)
  if (Option.isNone(made)) {
    // such parameters cannot be written down as a Schema at all: the vocabulary counts that as refused
    return assert.isDefined(expect.error, "only refused parameters have no Schema")
  }
  if (expect.error !== undefined) return matchError(yield* Effect.flip(JsonSchema.fromSchema(made.value)), expect.error)
  const plain = yield* JsonSchema.fromSchema(made.value)
  yield* JsonSchema.make(plain)
  if (expect.json_schema !== undefined) assert.deepStrictEqual(plain, expect.json_schema)
  const strict = JsonSchema.toStrict(plain)
  if (expect.json_schema_strict !== undefined) {
    assert.deepStrictEqual<unknown>(yield* Effect.fromResult(strict), expect.json_schema_strict)
  }
  if (expect.strict_error !== undefined) {
    if (Result.isSuccess(strict)) return assert.fail("expected no strict form")
    matchError(strict.failure, expect.strict_error)
  }
})

const ImportCase = Schema.Struct({
  given: Schema.Struct({ json_schema: Schema.Json }),
  expect: Schema.Union([
    Schema.Struct({
      accepted: Schema.Literal(true),
      params: optional(Schema.Array(Param)),
      json_schema: optional(Schema.Json)
    }),
    Schema.Struct({ accepted: Schema.Literal(false), error: ExpectedError })
  ])
})

const samples = { string: "text", integer: 1, number: 1.5, boolean: true, array: [], object: {} } as const

/** Which of the samples a place takes. `number` is what takes 1.5, `integer` what takes 1 only. */
const kinds = (takes: (value: Schema.Json) => boolean): ReadonlyArray<string> =>
  Object.entries(samples)
    .filter(([, value]) => takes(value))
    .map(([kind]) => kind)
    .filter((kind, _, all) => kind !== "integer" || !all.includes("number"))

interface Place {
  readonly checked: JsonSchema.JsonSchema
  /** The arguments in which the object of this place is. */
  readonly wrap: (object: Json) => Schema.Json
  /** The beginning of the paths of issues at this place. */
  readonly prefix: string
}

/** `/items/0/name` as the recordings write it, `items[0].name`. */
const readable = (pointer: string): string =>
  pointer
    .slice(1)
    .replace(/\/(\d+)(?=\/|$)/gu, "[$1]")
    .replaceAll("/", ".")

/** Checks by behaviour that a parameter was read as the case expects. */
const meetsParam = ({ checked, prefix, wrap }: Place, param: Param, isOnly: boolean): void => {
  const path = `${prefix}${param.name}`
  /** Only issues of this parameter count, the others may be missing. */
  const issuesOf = (object: Json) => {
    const result = JsonSchema.validate(checked, wrap(object))
    const issues = Result.isFailure(result) ? result.failure.map((issue) => readable(issue.path)) : []
    return issues.filter((one) => one === path || one.startsWith(`${path}.`) || one.startsWith(`${path}[`))
  }
  const takesValue = (value: Schema.Json) => issuesOf({ [param.name]: value }).length === 0
  const takesKind = (value: Schema.Json) => !issuesOf({ [param.name]: value }).includes(path)
  // a nullable required property is the strict form of an optional one
  assert.strictEqual(issuesOf({}).length > 0 && !takesValue(null), param.required === true, `${path} required`)
  if (param.enum === undefined) assert.deepStrictEqual(kinds(takesKind), [param.type], path)
  else {
    assert.isTrue(param.enum.every(takesValue), path)
    assert.deepStrictEqual(kinds(takesKind), [], path)
  }
  if (param.of !== undefined) assert.deepStrictEqual(kinds((item) => takesValue([item])), [param.of], path)
  if (param.default !== undefined && isOnly) {
    const filled: Schema.Json = wrap({ [param.name]: param.default })
    assert.deepStrictEqual(Result.getOrThrow(JsonSchema.validate(checked, wrap({}))), filled)
  }
  const isArray = param.type === "array"
  const inside: Place = {
    checked,
    wrap: (object) => wrap({ [param.name]: isArray ? [object] : object }),
    prefix: isArray ? `${path}[0].` : `${path}.`
  }
  for (const field of param.fields ?? []) meetsParam(inside, field, param.fields?.length === 1)
}

/** Accepts a document and checks that it was read as the case expects. */
export const import_ = Effect.fnUntraced(function* (golden: Case) {
  const { expect, given } = yield* read(ImportCase)({ given: golden.given, expect: golden.expect })
  const made = yield* Effect.result(JsonSchema.make(given.json_schema))
  if (!expect.accepted) {
    if (Result.isSuccess(made)) return assert.fail("expected a refusal")
    return matchError(made.failure, expect.error)
  }
  const checked = yield* Effect.fromResult(made)
  if (expect.json_schema !== undefined) assert.deepStrictEqual(checked.json, expect.json_schema)
  const { params = [] } = expect
  for (const param of params) {
    const described = JSON.stringify(checked.json).includes(JSON.stringify(param.description ?? ""))
    assert.isTrue(param.description === undefined || described, `${param.name} description`)
    meetsParam({ checked, wrap: (object) => object, prefix: "" }, param, params.length === 1)
  }
})

const ValidateCase = Schema.Struct({
  given: Schema.Struct({ json_schema: Schema.Json, args: Schema.Json }),
  expect: Schema.Struct({
    value: optional(Schema.Json),
    errors: optional(Schema.Array(Schema.Struct({ path: Schema.String, mentions: Schema.Array(Schema.String) })))
  })
})

/** Validates arguments of a tool as the tools room does before a handler runs. */
export const validate = Effect.fnUntraced(function* (golden: Case) {
  const { expect, given } = yield* read(ValidateCase)({ given: golden.given, expect: golden.expect })
  const checked = yield* JsonSchema.make(given.json_schema)
  const result = JsonSchema.validate(checked, given.args, { coerce: true })
  if (expect.value !== undefined) return assert.deepStrictEqual(result, Result.succeed(expect.value))
  const { errors = [] } = expect
  const issues = Result.isFailure(result) ? result.failure : []
  assert.deepStrictEqual(
    issues.map(({ path }) => readable(path)),
    pluck(errors, "path")
  )
  for (const [index, one] of errors.entries()) mentions(issues[index]?.expected ?? "", one.mentions)
})

const StructuredCase = Schema.Struct({
  given: Schema.Struct({ json_schema: Schema.Json, text: Schema.String }),
  expect: Schema.Struct({ value: optional(Schema.Json), error: optional(ExpectedError) })
})

/** Reads the final text of a model and checks it against the output schema. */
export const structured = Effect.fnUntraced(function* (golden: Case) {
  const { expect, given } = yield* read(StructuredCase)({ given: golden.given, expect: golden.expect })
  const checked = given.json_schema === null ? undefined : yield* JsonSchema.make(given.json_schema)
  const parsed = Result.mapError(payloadJson.extract(given.text), ({ message }) => ({ kind: "JsonParse", message }))
  const result = Result.flatMap(parsed, (json) =>
    checked === undefined
      ? Result.succeed(json)
      : Result.mapError(JsonSchema.validate(checked, json), (issues) => ({
          kind: "Validation",
          message: PayloadError.render("the output", issues)
        }))
  )
  if (expect.error === undefined) return assert.deepStrictEqual<unknown>(result, Result.succeed(expect.value))
  if (Result.isSuccess(result)) return assert.fail(`expected ${expect.error.kind}`)
  assert.strictEqual(result.failure.kind, expect.error.kind)
  mentions(result.failure.message, expect.error.mentions)
})
