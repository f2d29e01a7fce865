import { assert } from "@effect/vitest"
import { Effect } from "effect"
import { AgentDefinition } from "effect-emissary"
import { checkExit, type Run } from "../golden.ts"
import { checkWire, decodeGiven } from "../wireCases.ts"

export const run: Run = (given, expect) => {
  const times = typeof given["times"] === "number" ? given["times"] : 1
  const encode = (definition: AgentDefinition.AgentDefinition) => AgentDefinition.encode(definition, { version: 1 })
  const round = Effect.gen(function* () {
    let wire = yield* Effect.flatMap(decodeGiven(given), encode)
    for (let i = 1; i < times; i++) wire = yield* Effect.flatMap(AgentDefinition.decode(wire), encode)
    return wire
  })
  return checkExit(round, expect, (wire) => {
    if (expect["wire"] !== undefined) checkWire(wire, expect)
    for (const piece of Array.isArray(expect["text_contains"]) ? expect["text_contains"] : []) {
      assert.include(JSON.stringify(wire), String(piece))
    }
  })
}
