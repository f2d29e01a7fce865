/** MONEY-5: the reader of the AI SDK builds a structured output part by part, and takes the parts of a failed attempt back. */
import { assert, describe, it } from "@effect/vitest"
import type { UIMessageChunk } from "ai"
import { Effect, Schema, Stream } from "effect"
import { Agent } from "effect-emissary"
import { UiMessages } from "effect-emissary/http"
import { ScriptedModel } from "effect-emissary/testing"
import { packages } from "./packages.ts"
import { sayMissing } from "./peers.ts"

sayMissing("MONEY-5")

const Order = Schema.Struct({ title: Schema.String, items: Schema.Array(Schema.Struct({ name: Schema.String })) })
const order = { title: "Groceries", items: [{ name: "bread" }, { name: "milk" }] }

const agent = Agent.make("shop", { output: Order, outputStrategy: "prompted", retry: { times: 1, delay: 0 } })

describe("MONEY-5 the reader of the AI SDK", () => {
  it.skipIf(packages === undefined)("MONEY-5 has an object that grows, and then the whole output", async () => {
    if (packages === undefined) return
    const script: ScriptedModel.Script = [
      { text: `{"title":"Old","items":[{"name":"egg"}`, fail: { reason: "InternalProviderError" } },
      { text: JSON.stringify(order) }
    ]
    const chunks = await UiMessages.fromStream(agent.stream("Go").pipe(Stream.rechunk(1)), { id: "m1" }).pipe(
      Stream.runCollect,
      Effect.provide(ScriptedModel.layer(script, { chunkSize: 4 })),
      Effect.runPromise
    )
    const stream = new ReadableStream<UIMessageChunk>({
      start: (controller) => {
        // Sound: the chunks of UI messages of this library are chunks of the AI SDK, which its reader checks
        for (const chunk of chunks) controller.enqueue(structuredClone(chunk) as UIMessageChunk)
        controller.close()
      }
    })
    const partial: Array<unknown> = []
    const final: Array<unknown> = []
    for await (const { parts } of packages.ai.readUIMessageStream({ stream, terminateOnError: true })) {
      for (const part of parts) {
        if (part.type === "data-partial-output") partial.push(structuredClone(part.data))
        if (part.type === "data-output") final.push(structuredClone(part.data))
      }
    }
    assert.isAbove(new Set(partial.map((value) => JSON.stringify(value))).size, 4)
    assert.deepStrictEqual(partial.at(-1), order)
    assert.deepStrictEqual(final.at(-1), order)
    const old = partial.findLastIndex((value) => JSON.stringify(value).includes("egg"))
    assert.isBelow(old, partial.length - 1)
  })
})
