import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

const toolkit = Toolkit.make(
  Tool.make("get_order", {
    description: "Look up an order by id",
    parameters: Schema.Struct({ id: Schema.String }),
    success: Schema.String
  })
)
class Support extends Agent.Service<Support>()("support", { instructions: "You help customers.", toolkit }) {}

const live = (turns: Parameters<typeof ScriptedModel.layer>[0]) =>
  Support.layer.pipe(
    Layer.provide(toolkit.toLayer({ get_order: ({ id }) => Effect.succeed(`order ${id}: shipped`) })),
    Layer.provideMerge(ScriptedModel.layer(turns))
  )

describe("smoke", () => {
  it.effect("run", () =>
    Effect.gen(function* () {
      const support = yield* Support
      const result = yield* support.run("Where is order 42?")
      assert.strictEqual(result.outcome, "Completed")
      assert.strictEqual(result.text, "done")
      console.log(JSON.stringify(Conversation.transcript(result.conversation)))
    }).pipe(
      Effect.provide(live([{ toolCalls: [{ id: "c1", name: "get_order", params: { id: "42" } }] }, { text: "done" }]))
    )
  )
  it.effect("stream", () =>
    Effect.gen(function* () {
      const support = yield* Support
      const events = yield* Stream.runCollect(support.stream("Where is order 42?"))
      console.log(events.map((e) => e._tag).join(" "))
    }).pipe(
      Effect.provide(live([{ toolCalls: [{ id: "c1", name: "get_order", params: { id: "42" } }] }, { text: "done" }]))
    )
  )
})
