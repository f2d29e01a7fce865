import { assert } from "@effect/vitest"
import { Effect, Layer, type Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, type AgentDefinition, ModelRegistry, ToolResolver } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { checkExit, type Run } from "../golden.ts"
import { checkWire, decodeGiven } from "../wireCases.ts"

const models = ModelRegistry.layerAmbient.pipe(Layer.provide(ScriptedModel.layer([])))

/** The tools that have a body here are found by name; if some have none, all are shells. */
const resolver = ({ tools }: AgentDefinition.AgentDefinition, resolve: Schema.Json | undefined) => {
  const local = Array.isArray(resolve) && tools.every((tool) => resolve.includes(tool.name))
  if (!local) return ToolResolver.layerShells
  const toolkit = Toolkit.make(...tools.map(({ name, parameters }) => Tool.dynamic(name, { parameters })))
  const bodies = Object.fromEntries(tools.map(({ name }) => [name, () => Effect.succeed("done")]))
  return ToolResolver.layerToolkit(toolkit).pipe(Layer.provide(toolkit.toLayer(bodies)))
}

export const run: Run = (given, expect) => {
  const times = typeof given["times"] === "number" ? given["times"] : 1
  const rebuild = (definition: AgentDefinition.AgentDefinition) =>
    Agent.bind(definition).pipe(
      Effect.flatMap((agent) => Agent.encode(agent, { version: 1 })),
      Effect.provide([resolver(definition, given["resolve"]), models])
    )
  const round = Effect.gen(function* () {
    let wire = yield* Effect.flatMap(decodeGiven(given), rebuild)
    for (let i = 1; i < times; i++) wire = yield* Effect.flatMap(decodeGiven({ wire }), rebuild)
    return wire
  })
  return checkExit(round, expect, (wire) => {
    if (expect["wire"] !== undefined) checkWire(wire, expect)
    for (const piece of Array.isArray(expect["text_contains"]) ? expect["text_contains"] : []) {
      assert.include(JSON.stringify(wire), String(piece))
    }
  })
}
