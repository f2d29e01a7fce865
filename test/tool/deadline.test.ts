import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import * as boundTool from "#src/tool/internal/boundTool.ts"
import { TestClock } from "effect/testing"
import { test } from "../test.ts"

describe("RT-3 a deadline that has passed", () => {
  it.effect("RT-3 the handler does not run, not even one that would finish at once", () => {
    let ran = 0
    const tools = Toolkit.make(Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String }))
    const handlers = tools.toLayer({
      pay: () =>
        Effect.sync(() => {
          ran += 1
          return "paid"
        })
    })
    return Effect.gen(function* () {
      yield* TestClock.setTime(5000)
      const set = yield* boundTool.makeSet(yield* boundTool.fromToolkit(tools))
      const request = { id: "c1", name: "pay", arguments: {} }
      const call = Result.getOrThrow(yield* boundTool.prepare(set, request, { runId: "r", deadline: 4000 }))
      const result = yield* Option.getOrThrow(call.execute)
      assert.strictEqual(result._tag === "Failure" && result.type, "timeout_error")
      assert.strictEqual(ran, 0)
    }).pipe(Effect.provide(handlers))
  })
})

describe("TOOL-3 a name that no tool has", () => {
  test("TOOL-3 a long one is not sent back to the model at full length", function* () {
    const set = yield* boundTool.makeSet([])
    const request = { id: "c1", name: "n".repeat(1_000_000), arguments: {} }
    const refused = yield* boundTool.prepare(set, request, { runId: "r" })
    assert(Result.isFailure(refused))
    assert.isBelow(refused.failure.message.length, 500)
  })
})
