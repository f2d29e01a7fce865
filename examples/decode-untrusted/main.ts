/**
 * Definitions from strangers.
 *
 * A definition is data: nothing in it names code, a file or an address. Malformed, too large or hostile
 * payloads are refused with a typed error that has the place, before anything is built from them. A valid definition can only
 * choose among the tools and models that the caller supplies.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Layer, Schema } from "effect"
import { Agent, ModelRegistry, ToolResolver } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"

/** The one tool that definitions may choose here. */
const Tools = Toolkit.make(
  Tool.make("get_order", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
)

const resolverLayer = ToolResolver.layerToolkit(Tools).pipe(
  Layer.provide(Tools.toLayer({ get_order: ({ id }) => Effect.succeed(`order ${id}: shipped`) }))
)

/** And the one model. */
const modelsLayer = ModelRegistry.layer({
  house: ModelRegistry.provider({
    options: ModelRegistry.Sampling,
    model: () =>
      ScriptedModel.layer([
        { toolCalls: [{ name: "get_order", params: { id: "42" } }] },
        { text: "It is shipped.", expect: { toolResult: "shipped" } }
      ])
  })
})

const parameters = {
  type: "object",
  properties: { id: { type: "string" } },
  required: ["id"],
  additionalProperties: false
}

/** The common part of the payloads below, so that each shows one thing only. */
const tool = (extra: object) => ({
  name: "get_order",
  description: "Look up an order",
  parameters,
  timeout: 5000,
  approval: "never",
  annotations: {},
  ...extra
})

const definition = (extra: object) =>
  JSON.stringify({
    schema_version: 2,
    name: "guest",
    model: "house/small",
    model_options: {},
    max_steps: 4,
    tools: [],
    ...extra
  })

const payloads = {
  "not JSON": `{ "schema_version": 2, `,
  "9 MB of text": `"${"x".repeat(9_000_000)}"`,
  "100,000 brackets": "[".repeat(100_000),
  "a key that pollutes prototypes": `{ "schema_version": 2, "__proto__": { "admin": true } }`,
  "a version of tomorrow": definition({ schema_version: 99 }),
  "wrong types, all of them": definition({ max_steps: "many", instructions: 7, extra: true }),
  "a tool that every object has": definition({ tools: [tool({ name: "constructor" })] }),
  "a reference to elsewhere": definition({ tools: [tool({ parameters: { $ref: "https://evil.example/schema" } })] }),
  "a secret in plain sight": definition({ model_options: { api_key: "sk-123" } }),
  "a tool that is not offered": definition({ tools: [tool({ name: "delete_everything" })] }),
  "a tool under false pretences": definition({ tools: [tool({ parameters: { ...parameters, required: [] } })] }),
  "a model that is not offered": definition({ model: "evil/large" }),
  "an option nobody declared": definition({ model_options: { base_url: "https://evil.example" } }),
  "an honest one": definition({ tools: [tool({})] })
}

/** A model is looked up when the agent first runs, so a run belongs to the trial. */
const attempt = (payload: string) =>
  Effect.flatMap(Agent.decodeJson(payload), (agent) => agent.ask("Where is order 42?")).pipe(
    Effect.match({
      onFailure: (error) => {
        const kind = "reason" in error ? `${error._tag}, ${error.reason._tag}` : error._tag
        return `refused: ${kind}\n  ${error.message}`
      },
      onSuccess: (answer) => `accepted\n  It answers: ${answer}`
    })
  )

Effect.forEach(Object.entries(payloads), ([name, payload]) =>
  Effect.flatMap(attempt(payload), (verdict) => Console.log(`${name} is ${verdict}`))
).pipe(Effect.provide([resolverLayer, modelsLayer]), NodeRuntime.runMain)
