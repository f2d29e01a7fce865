/**
 * The same agent in tests.
 *
 * Nothing of the agent changes: its model becomes a script that also checks what it is asked, its tools become fakes,
 * time is the test clock, and every request to the network fails.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Context, Effect, Fiber, Layer, Schema } from "effect"
import { Agent, Conversation, ToolFailure, ToolRuntime } from "effect-emissary"
import { NoNetwork, ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpClient } from "effect/http"
import { TestClock } from "effect/testing"
import assert from "node:assert"

// ---- the program ----

class Weather extends Context.Service<Weather, { readonly in: (city: string) => Effect.Effect<string, ToolFailure> }>()(
  "app/Weather"
) {
  static readonly layer = Layer.effect(
    Weather,
    Effect.gen(function* () {
      const client = yield* HttpClient.HttpClient
      return Weather.of({
        in: (city) =>
          client.get(`https://weather.example/${city}`).pipe(
            Effect.flatMap(({ text }) => text),
            Effect.mapError(({ message }) => ToolFailure.error(message, { type: "no_weather" }))
          )
      })
    })
  ).pipe(Layer.provide(FetchHttpClient.layer))
}

const Tools = Toolkit.make(
  Tool.make("weather", {
    parameters: Schema.Struct({ city: Schema.String }),
    success: Schema.String,
    failure: ToolFailure
  })
)

const toolsLayer = Tools.toLayer(Effect.map(Weather, (weather) => ({ weather: ({ city }) => weather.in(city) })))

class Planner extends Agent.Service<Planner>()("planner", {
  instructions: "You plan trips.",
  toolkit: Tools
}) {}

const plan = Effect.flatMap(Planner, (planner) => planner.run("Rome or Oslo?"))

// ---- its tests ----

/** Everything is real except the model; each test provides the weather it wants. */
const testLayer = Planner.layer.pipe(
  Layer.provide(toolsLayer),
  Layer.provideMerge(
    ScriptedModel.layer([
      {
        expect: { systemText: "plan trips", lastUserText: "Rome or Oslo", tools: ["weather"] },
        toolCalls: [
          { name: "weather", params: { city: "Rome" } },
          { name: "weather", params: { city: "Oslo" } }
        ]
      },
      { text: "Rome." }
    ])
  )
)

const resultsOf = (conversation: Conversation.Conversation) =>
  Conversation.transcript(conversation).flatMap((entry) => (entry.role === "tool" ? [entry] : []))

const withFakes = Effect.gen(function* () {
  const { conversation, text } = yield* plan
  assert.strictEqual(text, "Rome.")
  assert.deepStrictEqual(
    resultsOf(conversation).map(({ content }) => content),
    [[{ type: "text", text: "sun in Rome" }], [{ type: "text", text: "sun in Oslo" }]]
  )
  yield* ScriptedModel.assertComplete
}).pipe(
  Effect.provide(testLayer.pipe(Layer.provide(Layer.mock(Weather)({ in: (city) => Effect.succeed(`sun in ${city}`) }))))
)

const withoutWaiting = Effect.gen(function* () {
  const running = yield* Effect.forkChild(plan)
  yield* TestClock.adjust("10 seconds") // the timeout of both calls, which run at once
  const { conversation } = yield* Fiber.join(running)
  assert.deepStrictEqual(
    resultsOf(conversation).map(({ type }) => type),
    ["timeout_error", "timeout_error"]
  )
}).pipe(
  Effect.provide(testLayer.pipe(Layer.provide(Layer.mock(Weather)({ in: () => Effect.never })))),
  Effect.provide([ToolRuntime.layerConcurrent(), TestClock.layer()])
)

const withoutNetwork = Effect.gen(function* () {
  const { conversation } = yield* plan
  assert.deepStrictEqual(
    resultsOf(conversation).map(({ type }) => type),
    ["no_weather", "no_weather"]
  )
}).pipe(Effect.provide(testLayer.pipe(Layer.provide(Weather.layer), Layer.provide(NoNetwork.layer))))

Effect.gen(function* () {
  yield* Effect.andThen(withFakes, Console.log("ok  fakes behind the tools, a script in place of the model"))
  yield* Effect.andThen(withoutWaiting, Console.log("ok  ten seconds of timeout on the test clock"))
  yield* Effect.andThen(withoutNetwork, Console.log("ok  the real weather service is kept off the network"))
}).pipe(NodeRuntime.runMain)
