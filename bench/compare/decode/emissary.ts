/** The definition as a value: limits, names, JSON Schemas compiled for their later use; digests of tools are computed when they are read. */
import { Effect } from "effect"
import { AgentDefinition } from "effect-emissary"
import { makeRow } from "./document.ts"

export const make = makeRow((text) => Effect.runSync(AgentDefinition.codec.decodeJson(text)))
