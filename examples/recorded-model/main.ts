/**
 * An agent whose model was recorded once.
 *
 * cassette.json holds the requests and the answers of a model. Without a key and without a network this example
 * answers from it, streamed and with a tool, as often as you like.
 *
 * Record it again with `EMISSARY_MODEL=openai/gpt-5.2 OPENAI_API_KEY=... npm run example recorded-model`, or from a local
 * model with `EMISSARY_MODEL=ollama/qwen3`. The file in the repository was recorded from a local server.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Config, Console, Effect, Layer, Option, Schema, Stream } from "effect"
import { Agent, AgentEvent, ModelRegistry } from "effect-emissary"
import { EnvModels } from "effect-emissary/ai-sdk"
import { ModelCassette } from "effect-emissary/testing"

import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { fileURLToPath } from "node:url"

const Tides = Tool.make("tides", {
  description: "The next high tide of a harbour",
  parameters: Schema.Struct({ harbour: Schema.String }),
  success: Schema.String
})
const Tools = Toolkit.make(Tides)
const toolsLayer = Tools.toLayer({ tides: ({ harbour }) => Effect.succeed(`${harbour}: 14:20, 3.1 m`) })

const harbourMaster = Agent.make("harbour_master", {
  instructions: "Answer questions about tides in one sentence. Look tides up with the tool.",
  toolkit: Tools
})

const file = fileURLToPath(new URL("cassette.json", import.meta.url))

const named = (name: string) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.flatMap(ModelRegistry.ModelRegistry, (registry) => registry.resolve(name, {}))
  ).pipe(Layer.provide(EnvModels.layer()))

const program = Effect.gen(function* () {
  const first = yield* harbourMaster.stream("When can I leave Lisbon?").pipe(
    Stream.tap((event) =>
      event._tag === "ToolFinished" ? Console.log(`(the tool answers: ${JSON.stringify(event.result)})`) : Effect.void
    ),
    AgentEvent.result
  )
  yield* Console.log(first.outcome === "Completed" ? `Harbour master: ${first.output}` : first.outcome)
  yield* Console.log(`Harbour master: ${yield* harbourMaster.ask("And Porto?")}`)
})

Effect.gen(function* () {
  const name = yield* Config.option(Config.String("EMISSARY_MODEL"))
  if (Option.isNone(name)) return yield* Effect.provide(program, ModelCassette.layerReplay(file))
  return yield* Effect.provide(program, ModelCassette.layerRecord(file).pipe(Layer.provide(named(name.value))))
}).pipe(
  Effect.provide([toolsLayer, NodeServices.layer]),
  Effect.tapError((error) => Console.error(error.message)),
  NodeRuntime.runMain({ disableErrorReporting: true })
)
