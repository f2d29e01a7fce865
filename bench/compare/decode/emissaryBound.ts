/** An agent that could run: the definition is decoded, and each tool bound to a stub. */
import { Effect, Layer, ManagedRuntime, Stream } from "effect"
import { LanguageModel } from "effect/ai"
import { Agent, ModelRegistry, ToolResolver } from "effect-emissary"
import { makeRow, type Row } from "./document.ts"

const model = Layer.effect(
  LanguageModel.LanguageModel,
  LanguageModel.make({ generateText: () => Effect.succeed([]), streamText: () => Stream.empty })
)

export const make: Row = async (options) => {
  const services = Layer.merge(ToolResolver.layerStubs(), Layer.provide(ModelRegistry.layerContext, model))
  const context = await ManagedRuntime.make(services).context()
  const decode = (text: string) => Effect.runSync(Effect.provideContext(Agent.decodeJson(text), context)).definition
  return makeRow(decode)(options)
}
