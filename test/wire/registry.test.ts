import { assert, describe } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Schema } from "effect"
import { Agent, AgentEvent, Conversation, ModelRegistry } from "effect-emissary"
import { EnvModels } from "effect-emissary/ai-sdk"
import { handlers, Probe, toolkit } from "../agent/fixtures.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { harness } from "../testing/scripted-provider.ts"
import { anthropicMessages } from "./anthropic.ts"
import { localChat } from "./chat.ts"
import { googleGenerate } from "./google.ts"
import { accepted } from "./providers.ts"
import { answer, call, text, thinking } from "./replies.ts"
import { openaiResponses } from "./responses.ts"
import { serve, theKey, type Dialect } from "./server.ts"

const Answer = Schema.Struct({ city: Schema.String, days: Schema.optionalKey(Schema.Int) })

/** By the name of the model: its server, the version in its URL, and the variable of its key. */
const models: Readonly<Record<string, readonly [Dialect, version: string, variable?: string]>> = {
  "openai/gpt-5.2": [openaiResponses, "v1", "OPENAI_API_KEY"],
  "anthropic/claude-sonnet-4-5": [anthropicMessages, "v1", "ANTHROPIC_API_KEY"],
  "google/gemini-3-pro-preview": [googleGenerate, "v1beta", "GEMINI_API_KEY"],
  "ollama/qwen3": [localChat, "v1"],
  "my-server/llama": [localChat, "v1", "MY_SERVER_API_KEY"]
}

const replies = [
  answer(thinking("Two calls.", 1), text("I look."), call("c1", "echo", { text: "a" }), call("c2", "boom", {})),
  answer(text("It is Rome.")),
  answer(text('{"city":"Rome","days":2}'))
]

/** The registry of an environment that has the URL of the server, and the key. */
const registryOf = (model: string, url: string, key: string) => {
  const [, version, variable] = models[model] ?? assert.fail(model)
  const name = (model.split("/")[0] ?? "").toUpperCase().replaceAll("-", "_")
  const variables = {
    [`${name}_BASE_URL`]: `${url}/${version}`,
    ...(variable === undefined ? {} : { [variable]: key })
  }
  return EnvModels.layer({ providers: "any" }).pipe(
    Layer.provide(ConfigProvider.layer(ConfigProvider.fromUnknown(variables)))
  )
}

const world = Layer.provideMerge(handlers, Probe.layer)

const make = (model: string) =>
  Agent.make("lead", { instructions: "You are the lead.", toolkit, output: Answer, model })

const scripted = ModelRegistry.layerContext.pipe(Layer.provide(harness()(replies)))

describe("MODEL-2 MODEL-4 L5 a model by its name, with the environment of a user", () => {
  for (const [model, [dialect, , variable]] of Object.entries(models)) {
    test.live(`${model} has the transcript of the scripted model`, function* () {
      const agent = make(model)
      const expected = yield* endsAs("Completed", agent.run("Where?")).pipe(
        Effect.provide(Layer.merge(world, scripted))
      )
      for (const run of [agent.run("Where?"), AgentEvent.result(agent.stream("Where?"))]) {
        const server = yield* serve(dialect, replies)
        const found = yield* endsAs("Completed", run).pipe(
          Effect.provide(Layer.merge(world, registryOf(model, server.url, theKey))),
          Effect.exit,
          accepted(server),
          Effect.flatten
        )
        assert.deepStrictEqual(found.output, { city: "Rome", days: 2 })
        assert.deepStrictEqual(
          Conversation.transcript(found.conversation),
          Conversation.transcript(expected.conversation)
        )
        assert.isAbove(found.usage?.inputTokens ?? 0, 200)
      }
    })

    if (variable === undefined || dialect === localChat) continue
    test.live(
      `${model} with a wrong key names the provider and ${variable}, and shows no part of the key`,
      function* () {
        const wrong = `${theKey}wrong`
        const server = yield* serve(dialect, [])
        const error = yield* failsFor("ModelFailed", make(model).run("Where?")).pipe(
          Effect.provide(Layer.merge(world, registryOf(model, server.url, wrong)))
        )
        assert.strictEqual(error.reason.error, "AuthenticationError")
        assert.include(error.message, variable)
        assert.include(error.message, model.split("/")[0] ?? "")
        // The sentence of the provider stays in the cause (RIGHT-22, L8)
        assert.notMatch(error.message, /Incorrect API key provided|invalid x-api-key|API key not valid/)
        for (let at = 0; at + 6 <= wrong.length; at++) assert.notInclude(JSON.stringify(error), wrong.slice(at, at + 6))
      }
    )
  }
})
