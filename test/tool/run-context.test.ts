import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { RunContext } from "effect-emissary"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const User = Schema.Struct({
  tenant: Schema.String,
  user: Schema.Struct({ id: Schema.Int, since: Schema.DateTimeUtc })
})

const read = (context: RunContext.RunContextError | { readonly [key: string]: Schema.Json }) =>
  RunContext.read(User).pipe(
    Effect.provideService(RunContext.RunContext, context as { readonly [key: string]: Schema.Json })
  )

describe("TOOL-5 RunContext", () => {
  test("is empty by default", function* () {
    assert.deepStrictEqual(yield* RunContext.RunContext, {})
  })

  test("is decoded in its JSON form; other keys are ignored", function* () {
    const value = yield* read({ tenant: "acme", other: 1, user: { id: 1, since: "2026-01-01T00:00:00.000Z" } })
    assert.strictEqual(value.user.since.epochMilliseconds, Date.parse("2026-01-01T00:00:00.000Z"))
  })

  test("names every missing key and every other problem, never a value", function* () {
    const error = yield* Effect.flip(read({ user: { id: "hunter2" } }))
    assert.deepStrictEqual(error.missing, ["tenant", "user.since"])
    assert.deepStrictEqual(pluck(error.issues, "path"), ["/user/id"])
    assert.include(error.message, `missing "tenant"`)
    assert.include(error.message, `behind a tool server also let the server's option "context" accept it`)
    assert.notInclude(JSON.stringify(error) + error.message, "hunter2")
  })
})
