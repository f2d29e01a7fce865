/**
 * The common part of both processes: the question, its customer, and the models they may use. No agent, and no tools.
 */
import { Schema } from "effect"
import { ModelRegistry } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { fileURLToPath } from "node:url"

export const question = "Where is my order 1042, and what would it cost to send it to Torino instead?"

export const context = { tenant: "Acme Outdoor" }

/** The model `scripted/support` answers from support.script.json. A provider of real models is one more entry. */
export const modelsLayer = ModelRegistry.layer({
  scripted: ModelRegistry.provider({
    options: Schema.Struct({}),
    model: (name) => ScriptedModel.layerFile(fileURLToPath(new URL(`${name}.script.json`, import.meta.url)))
  })
})
