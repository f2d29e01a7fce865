/**
 * The common part of both processes: the question, its customer, and the models they may use. No agent, and no tools.
 */
import { Config, Effect, Layer, Schema } from "effect"
import { ModelRegistry } from "effect-emissary"
import { EnvModels } from "effect-emissary/ai-sdk"
import { ScriptedModel } from "effect-emissary/testing"

import { fileURLToPath } from "node:url"

export const question = "Where is my order 1042, and what would it cost to send it to Torino instead?"

export const context = { tenant: "Acme Outdoor" }

/** The name of the agent's model. The scripted one needs no key. */
export const modelName = Config.String("EMISSARY_MODEL").pipe(Config.withDefault("scripted/support"))

export const isScripted = Effect.map(modelName, (name) => name.startsWith("scripted/"))

/** The model `scripted/support` answers from support.script.json. */
const scriptedLayer = ModelRegistry.layer({
  scripted: ModelRegistry.provider({
    options: Schema.Struct({}),
    model: (name) => ScriptedModel.layerFile(fileURLToPath(new URL(`${name}.script.json`, import.meta.url)))
  })
})

/** The scripted model, or those for which the environment has a package and a key. */
export const modelsLayer = Layer.unwrap(
  Effect.map(isScripted, (scripted) => (scripted ? scriptedLayer : EnvModels.layer({ providers: "any" })))
)
