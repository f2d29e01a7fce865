/** The agent of the chat, its tool, and its model. */
import { Config, Effect, Layer, Option, Schema } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { Agent, ModelRegistry } from "effect-emissary"
import { EnvModels } from "effect-emissary/ai-sdk"
import { ScriptedModel } from "effect-emissary/testing"

const Tools = Toolkit.make(
  Tool.make("refund", {
    description: "Pays the money for an order back",
    parameters: Schema.Struct({ order: Schema.String, amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: true // the page asks the user first
  })
)

export const ToolsLive = Tools.toLayer({
  refund: ({ amount, order }) => Effect.succeed(`${amount} EUR for order ${order} are paid back.`)
})

export const assistant = Agent.make("assistant", {
  instructions: "You help the customers of a shop. Be brief.",
  toolkit: Tools
})

/** A model of two rules, so that the chat answers without a key. */
const scripted = ScriptedModel.layer(({ messages }) => {
  const last = messages.at(-1)
  if (last?.role === "tool") return { text: last.text, chunkDelay: "30 millis" }
  return /refund/i.test(last?.text ?? "")
    ? { text: "I can do that.", toolCalls: [{ name: "refund", params: { order: "42", amount: 25 } }] }
    : { text: `You wrote "${last?.text}". Ask me to "refund order 42", too.`, chunkDelay: "30 millis" }
})

/** The model that `EMISSARY_MODEL` names, such as `openai/gpt-5.2` with the key in `OPENAI_API_KEY`. */
const named = (name: string) =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.flatMap(ModelRegistry.ModelRegistry, (registry) => registry.resolve(name, {}))
  ).pipe(Layer.provide(EnvModels.layer()))

export const ModelLive = Layer.unwrap(
  Effect.map(Config.option(Config.String("EMISSARY_MODEL")), Option.match({ onNone: () => scripted, onSome: named }))
)
