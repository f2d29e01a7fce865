/** A run that has ended is not kept by the engine (FAST-2): neither by classes that it makes in each run nor by caches. */
import { setFlagsFromString } from "node:v8"
import { runInNewContext } from "node:vm"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit, type Response } from "effect/ai"
import { Agent } from "effect-emissary"

setFlagsFromString("--expose-gc")
const collect: (options?: { readonly type: "minor" }) => void = runInNewContext("gc")

const toolkit = Toolkit.make(Tool.make("look", { parameters: Schema.Struct({ id: Schema.String }) }))

/** A model that calls the tool in every other answer. */
const model = Layer.effect(
  LanguageModel.LanguageModel,
  Effect.suspend(() => {
    let answers = 0
    const answer = (): Array<Response.PartEncoded> =>
      answers++ % 2 === 0
        ? [{ type: "tool-call", id: `call_${answers}`, name: "look", params: { id: "a" } }]
        : [{ type: "text", text: "done" }]
    return LanguageModel.make({ generateText: () => Effect.sync(answer), streamText: () => Stream.empty })
  })
)

class Bench extends Agent.Service<Bench>()("bench", { toolkit }) {}

describe("memory of runs that have ended", () => {
  it.effect("FAST-2 a collection of young objects frees nearly all of it", () =>
    Effect.gen(function* () {
      const runs = Effect.forEach(Array.from({ length: 300 }), () => Bench.use((bench) => bench.ask("go")), {
        discard: true
      })
      yield* runs
      yield* runs
      const measured = Effect.gen(function* () {
        collect()
        const before = process.memoryUsage().heapUsed
        yield* runs
        collect({ type: "minor" })
        collect({ type: "minor" })
        return (process.memoryUsage().heapUsed - before) / 300 / 1024
      })
      // A model call of core keeps its prompt until a full collection. All of a run is about 20 KB. Other tests share the
      // heap of this process, so the least of three counts
      const kept = [yield* measured, yield* measured, yield* measured]
      assert.isBelow(Math.min(...kept), 10)
    }).pipe(Effect.provide(Bench.layer.pipe(Layer.provide([toolkit.toLayer({ look: () => Effect.void }), model]))))
  )
})
