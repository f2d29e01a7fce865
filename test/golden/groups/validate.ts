import { assert } from "@effect/vitest"
import { Effect, Result, Schema } from "effect"
import { CheckedSchema } from "effect-emissary"
import { decodeCase } from "../decodeCase.ts"
import type { Run } from "../golden.ts"

const Case = Schema.Struct({
  given: Schema.Struct({ json_schema: Schema.Json, args: Schema.Json }),
  expect: Schema.Union([
    Schema.Struct({ value: Schema.Json }),
    Schema.Struct({
      errors: Schema.Array(Schema.Struct({ path: Schema.String, mentions: Schema.Array(Schema.String) }))
    })
  ])
})

/** Validates arguments of a tool as the tools room does before a handler runs. */
export const run: Run = Effect.fnUntraced(function* (caseGiven, caseExpect) {
  const { expect, given } = yield* decodeCase(Case)(caseGiven, caseExpect)
  const checked = yield* CheckedSchema.make(given.json_schema)
  const result = CheckedSchema.validate(checked, given.args, { coerce: true })
  if ("value" in expect) return assert.deepStrictEqual(result, Result.succeed(expect.value))
  const issues = Result.isFailure(result) ? result.failure : []
  assert.deepStrictEqual(
    issues.map(({ path }) => path),
    expect.errors.map(({ path }) => path)
  )
  for (const [index, { mentions }] of expect.errors.entries()) {
    for (const mention of mentions) assert.include(issues[index]?.message, mention)
  }
})
