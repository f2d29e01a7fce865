import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Json } from "effect-emissary/payload"
import * as plainJson from "#src/payload/internal/plainJson.ts"
import { test } from "../test.ts"

describe("PAY-A hostile payloads", () => {
  it("L8 a long run of combining marks in a key costs linear time", () => {
    const key = `api${"\u0301\u0316".repeat(500_000)}_key`
    assert.strictEqual(plainJson.isSecretName(key), true)
  })

  test("PAY-A an error does not repeat a long key for each issue below it", function* () {
    const key = "k".repeat(1_000_000)
    const decode = Json.decode(Schema.Record(Schema.String, Schema.Array(Schema.String)))
    const error = yield* Effect.flip(decode({ [key]: [1, 2, 3, 4, 5, 6] }))
    assert(error.reason._tag === "Invalid")
    assert.deepStrictEqual(
      error.reason.issues.map(({ path }) => path.length),
      [key.length + 3]
    )
    assert.strictEqual(error.reason.omitted, 5)
  })

  test("PAY-A nor does an error about a value that is not JSON", function* () {
    const error = yield* Effect.flip(Json.check({ ["k".repeat(1_000_000)]: [undefined, undefined, undefined] }))
    assert(error.reason._tag === "Invalid")
    assert.strictEqual(error.reason.issues.length, 1)
    assert.strictEqual(error.reason.omitted, 2)
  })
})
