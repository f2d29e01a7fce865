/** RIGHT-10: an answer over a limit is one model call and an error that names size and limit; the default takes pictures of today. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Limits, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

const deep = (levels: number): Schema.Json =>
  Array.from({ length: levels }).reduce<Schema.Json>((value) => ({ a: value }), 1)

const Tools = Toolkit.make(Tool.make("put", { parameters: Schema.Struct({ v: Schema.Json }), success: Schema.String }))
const handlers = Tools.toLayer({ put: () => Effect.succeed("put") })
const agent = Agent.make("painter", { toolkit: Tools })

const picture = (size: number) => ({ mediaType: "image/png", data: "A".repeat(size) })
const usage = { inputTokens: 10, outputTokens: 1300 }

describe("RIGHT-10 large answers", () => {
  const taken = {
    "a picture of 3.4 MB": { text: "here", files: [picture(4_500_000)], usage },
    "two pictures of 1.6 MB": { text: "here", files: [picture(2_150_000), picture(2_150_000)], usage },
    "a signature of 5 MB": {
      reasoning: {
        text: "r",
        metadata: { anthropic: { info: { type: "thinking", signature: "s".repeat(5_000_000) } } }
      },
      text: "here",
      usage
    }
  } satisfies Record<string, ScriptedModel.Turn>

  for (const [what, turn] of Object.entries(taken)) {
    test(`RIGHT-10 ${what} is taken, and a session stores it`, function* () {
      const layer = Session.layer([agent]).pipe(
        Layer.provide([VersionedStore.layerMemory, handlers]),
        Layer.provideMerge(ScriptedModel.layer(() => turn))
      )
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* Session.turn("s", "paint")).outcome, "Completed")
        assert.strictEqual((yield* ScriptedModel.requests).length, 1)
      }).pipe(Effect.provide(layer))
    })
  }

  const refused: Record<string, readonly [turn: ScriptedModel.Turn, expected: RegExp]> = {
    "a picture of 7 MB": [{ files: [picture(9_000_000)], usage }, /at most \d+ .*got at least 9000000/],
    "three pictures of 2.3 MB": [
      { text: "a", files: [1, 2, 3].map(() => picture(3_000_000)), usage },
      /at most \d+ bytes, got at least \d+/
    ],
    "metadata of 70 levels": [
      { text: { text: "a", metadata: { openai: { deep: deep(70) } } }, usage },
      /at most \d+ levels of arrays and objects, got more/
    ],
    "25,000 calls": [
      { toolCalls: Array.from({ length: 25_000 }, () => ({ name: "put", params: { v: 1 } })), usage },
      /at most 20000 items in one array, got at least 25000/
    ]
  }

  for (const [what, [turn, expected]] of Object.entries(refused)) {
    test(
      `RIGHT-10 ${what} is one model call, and no mistake of the model`,
      Layer.merge(
        handlers,
        ScriptedModel.layer(() => turn)
      ),
      function* () {
        const error = yield* failsFor("ModelFailed", agent.run("paint", { retry: { times: 5, delay: 0 } }))
        assert.match(error.message, expected)
        assert.include(error.message, "Limits.layer")
        assert.notInclude(error.message, "mistake")
        assert.isFalse(error.reason._tag === "ModelFailed" && error.reason.retryable)
        assert.strictEqual((yield* ScriptedModel.requests).length, 1)
        assert.strictEqual(error.state?.usage.outputTokens, 1300)
      }
    )
  }

  test("RIGHT-10 so is a stream that does not end, also in a session, and the limits of the layer count", function* () {
    const stuck = Session.layer([agent]).pipe(
      Layer.provide([VersionedStore.layerMemory, handlers]),
      Layer.provideMerge(ScriptedModel.layer(() => ({ text: "x".repeat(3000), usage }))),
      Layer.provide(Limits.layer({ maxBytes: 2000 }))
    )
    yield* Effect.gen(function* () {
      const error = yield* Effect.flip(Session.turn("s", "paint"))
      assert.match(error.message, /ModelFailed: .*at most 2000 bytes, got at least \d+/)
      assert.strictEqual((yield* ScriptedModel.requests).length, 1)
    }).pipe(Effect.provide(stuck))
  })
})
