import { assert } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { CheckedSchema } from "effect-emissary"
import { decodeCase } from "../decodeCase.ts"
import { matchError, type Run } from "../golden.ts"

const ParamType = Schema.Literals(["string", "integer", "number", "boolean", "array", "object"])

const Case = Schema.Struct({
  given: Schema.Struct({ json_schema: Schema.Json }),
  expect: Schema.Union([
    Schema.Struct({
      accepted: Schema.Literal(true),
      params: Schema.optionalKey(
        Schema.Array(
          Schema.Struct({
            name: Schema.String,
            type: ParamType,
            required: Schema.Boolean,
            enum: Schema.optionalKey(Schema.Array(Schema.Json)),
            default: Schema.optionalKey(Schema.Json),
            of: Schema.optionalKey(ParamType)
          })
        )
      ),
      json_schema: Schema.optionalKey(Schema.Json)
    }),
    Schema.Struct({
      accepted: Schema.Literal(false),
      error: Schema.Struct({ kind: Schema.String, mentions: Schema.Array(Schema.String) })
    })
  ])
})

const samples = { string: "text", integer: 1, number: 1.5, boolean: true, array: [], object: {} } as const

/** Which of the samples a place takes. `number` is what takes 1.5, `integer` what takes 1 only. */
const kinds = (takes: (value: Schema.Json) => boolean): ReadonlyArray<string> =>
  Object.entries(samples)
    .filter(([, value]) => takes(value))
    .map(([kind]) => kind)
    .filter((kind, _, all) => kind !== "integer" || !all.includes("number"))

/** Accepts a document and checks by behaviour that it was read as the case says. */
export const run: Run = Effect.fnUntraced(function* (caseGiven, caseExpect) {
  const { expect, given } = yield* decodeCase(Case)(caseGiven, caseExpect)
  const made = yield* Effect.result(CheckedSchema.make(given.json_schema))
  if (!expect.accepted) {
    if (Result.isSuccess(made)) return assert.fail("expected a refusal")
    return matchError(made.failure, expect.error)
  }
  const checked = yield* Effect.fromResult(made)
  if (expect.json_schema !== undefined) assert.deepStrictEqual(checked.json, expect.json_schema)
  const names = (expect.params ?? []).map(({ name }) => name)
  for (const param of expect.params ?? []) {
    /** Only issues of this parameter count, the others may be missing. */
    const takes = (args: { readonly [name: string]: Schema.Json }) => {
      const result = CheckedSchema.validate(checked, args)
      return Result.isSuccess(result) || result.failure.every(({ path }) => !path.startsWith(param.name))
    }
    const takesValue = (value: Schema.Json) => takes({ [param.name]: value })
    // a nullable required property is the strict form of an optional one
    assert.strictEqual(!takes({}) && !takesValue(null), param.required, `${param.name} required`)
    if (param.enum === undefined) assert.deepStrictEqual(kinds(takesValue), [param.type])
    else {
      assert.isTrue(param.enum.every(takesValue))
      assert.deepStrictEqual(kinds(takesValue), [])
    }
    if (param.of !== undefined) assert.deepStrictEqual(kinds((item) => takesValue([item])), [param.of])
    if (param.default !== undefined && names.length === 1) {
      const filled: Schema.Json = { [param.name]: param.default }
      assert.deepStrictEqual(Result.getOrThrow(CheckedSchema.validate(checked, {})), filled)
    }
  }
})
