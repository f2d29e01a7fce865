import { assert, describe, it, vi } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { RE2JS } from "re2js"
import { Re2 } from "effect-emissary/re2"
import { Agent, Conversation, ModelRegistry, ToolResolver } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

/** Each schema has a pattern of its own, so that compilations can be counted by the patterns compiled. */
const Lookup = Tool.make("lookup", {
  parameters: Schema.Struct({ id: Schema.String.check(Schema.isPattern(/^once-parameters\b/u)) }),
  success: Schema.Struct({ found: Schema.String.check(Schema.isPattern(/^once-success\b/u)) })
})
const toolkit = Toolkit.make(Lookup)
const handlers = toolkit.toLayer({ lookup: () => Effect.succeed({ found: "once-success" }) })

const script = [{ toolCalls: [{ id: "c1", name: "lookup", params: { id: "once-parameters" } }] }, { text: "done" }]

const world = Layer.mergeAll(
  ModelRegistry.layerContext,
  ToolResolver.layerToolkit(toolkit).pipe(Layer.provideMerge(handlers))
).pipe(
  Layer.provideMerge(Re2.layer),
  Layer.provideMerge(ScriptedModel.layer([...script, ...script, ...script, ...script]))
)

describe("HOUSE-5 compiled JSON Schemas", () => {
  it.effect("HOUSE-5 a tool's schemas are compiled once, however often its agent is built, run and decoded", () => {
    const compile = vi.spyOn(RE2JS, "compile")
    return Effect.gen(function* () {
      for (let round = 0; round < 2; round++) {
        const agent = Agent.make("finder", { model: "mock/m", toolkit })
        assert.strictEqual((yield* agent.run("Go")).outcome, "Completed")
        const decoded = yield* Agent.decodeJson(yield* Agent.encodeJson(agent))
        assert.strictEqual((yield* decoded.run("Go")).outcome, "Completed")
      }
      const sources = compile.mock.calls.map(([source]) => source).filter((source) => source.includes("once-"))
      assert.deepStrictEqual(sources.toSorted(), ["^once-parameters\\b", "^once-success\\b"])
    }).pipe(Effect.provide(world), Effect.ensuring(Effect.sync(() => compile.mockRestore())))
  })

  it.effect(
    "HOUSE-9 an agent value that has run calls the handlers around it, also where they are others than before",
    () => {
      const agent = Agent.make("finder", { toolkit })
      const found = (what: string) =>
        Effect.provide(
          agent.run("Go"),
          Layer.mergeAll(
            toolkit.toLayer({ lookup: () => Effect.succeed({ found: `once-success ${what}` }) }),
            ScriptedModel.layer(script),
            Re2.layer
          )
        )
      const results = (run: Effect.Success<ReturnType<typeof found>>) => Conversation.transcript(run.conversation)
      return Effect.gen(function* () {
        const [one, two, again] = [yield* found("one"), yield* found("two"), yield* found("one")]
        assert.include(JSON.stringify(results(one)), "once-success one")
        assert.include(JSON.stringify(results(two)), "once-success two")
        assert.include(JSON.stringify(results(again)), "once-success one")
      })
    }
  )
})
