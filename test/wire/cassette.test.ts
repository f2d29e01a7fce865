import { NodeFileSystem } from "@effect/platform-node"
import { assert, describe, it } from "@effect/vitest"
import { Effect, FileSystem, Layer, Schema } from "effect"
import { Agent, AgentEvent, Conversation } from "effect-emissary"
import { ModelCassette } from "effect-emissary/testing"
import { Tool, Toolkit } from "effect/ai"
import { accepted, connect, providers } from "./providers.ts"
import { theKey, type Script } from "./server.ts"

const Weather = Tool.make("weather", { parameters: Schema.Struct({ city: Schema.String }), success: Schema.String })
const tools = Toolkit.make(Weather)
const Handlers = tools.toLayer({ weather: ({ city }) => Effect.succeed(`sunny in ${city}`) })
const agent = Agent.make("forecaster", { instructions: "Forecast.", toolkit: tools })

const usage = { inputTokens: 20, outputTokens: 8 }
const call = (id: string, city: string) => ({
  type: "tool-call" as const,
  id,
  name: "weather",
  arguments: JSON.stringify({ city })
})
const script: Script = [
  { _tag: "Answer", content: [call("call_1", "Rome"), call("call_2", "Oslo")], finish: "tool-calls", usage },
  { _tag: "Answer", content: [{ type: "text", text: "Sunny in both." }], finish: "stop", usage }
]

describe("MODEL-5 MODEL-4 cassettes of real clients", () => {
  for (const [name, provider] of Object.entries(providers)) {
    it.live(`${name}: a run is recorded from the provider and replayed without it, whole and streamed`, () =>
      Effect.gen(function* () {
        const files = yield* FileSystem.FileSystem
        const path = `${yield* files.makeTempDirectoryScoped()}/cassette.json`
        for (const run of [agent.run("Rome and Oslo?"), AgentEvent.result(agent.stream("Rome and Oslo?"))]) {
          const { model, server } = yield* connect(provider, script)
          const recorded = yield* run.pipe(
            Effect.provide(ModelCassette.layerRecord(path).pipe(Layer.provide(model))),
            accepted(server)
          )
          const replayed = yield* Effect.provide(run, ModelCassette.layerReplay(path))
          assert.strictEqual(replayed.outcome === "Completed" && replayed.output, "Sunny in both.")
          assert.deepStrictEqual(
            Conversation.transcript(replayed.conversation),
            Conversation.transcript(recorded.conversation)
          )
          assert.deepStrictEqual(replayed.usage, recorded.usage)
          assert.strictEqual(server.requests.length, 2)
          const text = yield* files.readFileString(path)
          assert.notInclude(text, theKey)
        }
      }).pipe(Effect.provide([Handlers, NodeFileSystem.layer]), Effect.scoped)
    )
  }
})
