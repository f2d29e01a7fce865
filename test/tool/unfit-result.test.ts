import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Logger, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"

const toolkit = Toolkit.make(
  Tool.make("orders", { success: Schema.Struct({ list: Schema.Array(Schema.Struct({ price: Schema.Finite })) }) })
)

describe("RIGHT-22 L8 a result that does not fit its success schema", () => {
  test("RIGHT-22 L8 is logged once, by tool and path, without the value", function* () {
    const logged: Array<string> = []
    const services = Layer.mergeAll(
      // Sound: the handler of a host without types may return anything
      toolkit.toLayer({ orders: () => Effect.succeed({ list: [{ price: 1 }, { price: "s3cret" }] } as never) }),
      ScriptedModel.layer([{ toolCalls: [{ name: "orders" }, { name: "orders" }] }, { text: "done" }]),
      Logger.layer([Logger.make(({ message }) => void logged.push(String(message)))])
    )
    yield* Effect.provide(Agent.make("clerk", { toolkit }).run("Go"), services)
    assert.deepStrictEqual(logged, [
      'Tool "orders": the handler returned a value that does not fit the success schema of the tool: at /list/1/price: expected number, got string.'
    ])
  })
})
