import { assert } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { CheckedSchema, ModelJson, ValidationIssue } from "effect-emissary"
import { decodeCase } from "../decodeCase.ts"
import type { Run } from "../golden.ts"

const Case = Schema.Struct({
  given: Schema.Struct({ json_schema: Schema.Json, text: Schema.String }),
  expect: Schema.Union([
    Schema.Struct({ value: Schema.Json }),
    Schema.Struct({
      error: Schema.Struct({
        kind: Schema.Literals(["JsonParse", "Validation"]),
        mentions: Schema.Array(Schema.String)
      })
    })
  ])
})

/** Reads the final text of a model and checks it against the output schema. */
export const run: Run = Effect.fnUntraced(function* (caseGiven, caseExpect) {
  const { expect, given } = yield* decodeCase(Case)(caseGiven, caseExpect)
  const checked = given.json_schema === null ? undefined : yield* CheckedSchema.make(given.json_schema)
  const parsed = Result.mapError(ModelJson.parse(given.text), ({ message }) => ({ kind: "JsonParse", message }))
  const result = Result.flatMap(parsed, (json) =>
    checked === undefined
      ? Result.succeed(json)
      : Result.mapError(CheckedSchema.validate(checked, json), (issues) => ({
          kind: "Validation",
          message: ValidationIssue.render(issues)
        }))
  )
  if ("value" in expect) return assert.deepStrictEqual(result, Result.succeed(expect.value))
  if (Result.isSuccess(result)) return assert.fail(`expected ${expect.error.kind}`)
  assert.strictEqual(result.failure.kind, expect.error.kind)
  for (const mention of expect.error.mentions) assert.include(result.failure.message, mention)
})
