import { assert } from "@effect/vitest"
import { Effect, Option, Result, Schema } from "effect"
import { CheckedSchema, FromSchema, StrictSchema } from "effect-emissary"
import { decodeCase } from "../decodeCase.ts"
import { matchError, type Run } from "../golden.ts"

interface Param {
  readonly name: string
  readonly type: string
  readonly required?: boolean
  readonly description?: string
  readonly enum?: ReadonlyArray<string>
  readonly default?: Schema.Json
  readonly of?: string
  readonly fields?: ReadonlyArray<Param>
}

const Param: Schema.Codec<Param> = Schema.Struct({
  name: Schema.String,
  type: Schema.String,
  required: Schema.optionalKey(Schema.Boolean),
  description: Schema.optionalKey(Schema.String),
  enum: Schema.optionalKey(Schema.Array(Schema.String)),
  default: Schema.optionalKey(Schema.Json),
  of: Schema.optionalKey(Schema.String),
  fields: Schema.optionalKey(Schema.Array(Schema.suspend(() => Param)))
})

const Problem = Schema.Struct({ kind: Schema.String, mentions: Schema.Array(Schema.String) })

const Case = Schema.Struct({
  given: Schema.Struct({ params: Schema.Array(Param) }),
  expect: Schema.Struct({
    json_schema: Schema.optionalKey(Schema.Json),
    json_schema_strict: Schema.optionalKey(Schema.Json),
    strict_error: Schema.optionalKey(Problem),
    error: Schema.optionalKey(Problem)
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
          return [param.name, param.required === true ? noted : Schema.optionalKey(noted)] as const
        })
      )
    ),
    (fields) => Schema.Struct(Object.fromEntries(fields))
  )

/** Exports parameters as JSON Schema, in the plain and in the strict form. */
export const run: Run = Effect.fnUntraced(function* (caseGiven, caseExpect) {
  const { expect, given } = yield* decodeCase(Case)(caseGiven, caseExpect)
  const schema = struct(given.params)
  if (Option.isNone(schema)) {
    // such parameters cannot be written down as a Schema at all: the vocabulary counts that as refused
    return assert.isDefined(expect.error, "only refused parameters have no Schema")
  }
  assert.isUndefined(expect.error)
  const plain = yield* FromSchema.fromSchema(schema.value)
  yield* CheckedSchema.make(plain)
  if (expect.json_schema !== undefined) assert.deepStrictEqual(plain, expect.json_schema)
  const strict = StrictSchema.make(plain)
  if (expect.json_schema_strict !== undefined) {
    assert.deepStrictEqual<unknown>(yield* Effect.fromResult(strict), expect.json_schema_strict)
  }
  if (expect.strict_error !== undefined) {
    if (Result.isSuccess(strict)) return assert.fail("expected no strict form")
    matchError(strict.failure, expect.strict_error)
  }
})
