import { assert } from "@effect/vitest"
import { Duration, Effect, type Schema } from "effect"
import { AgentDefinition, ToolContract } from "effect-emissary"
import { equal, type Json, toJson } from "./golden.ts"

/** A tool as the vocabulary describes it. */
interface GoldenTool {
  readonly name: string
  readonly description?: string
  readonly parameters_schema: Json
  readonly timeout_seconds?: number
}

/** A definition as the vocabulary describes it; missing keys take their defaults. */
export interface GoldenDefinition {
  readonly identifier?: string | null
  readonly model?: string | null
  readonly instructions?: string | null
  readonly model_options?: Json
  readonly max_steps?: number | "unlimited"
  readonly structured_output?: Json | null
  readonly structured_output_strategy?: AgentDefinition.OutputStrategy
  readonly reasoning?: AgentDefinition.ReasoningLevel | null
  readonly tools?: ReadonlyArray<GoldenTool>
}

const toContract = (tool: GoldenTool) =>
  ToolContract.make({
    name: tool.name,
    description: tool.description,
    parameters: tool.parameters_schema,
    timeout: tool.timeout_seconds === undefined ? undefined : Duration.seconds(tool.timeout_seconds)
  })

/** Our definition of what a case describes. */
export const toDefinition = Effect.fnUntraced(function* (golden: GoldenDefinition) {
  return yield* AgentDefinition.make({
    name: golden.identifier ?? undefined,
    model: golden.model ?? undefined,
    instructions: golden.instructions ?? undefined,
    modelOptions: golden.model_options,
    maxSteps: golden.max_steps,
    output: golden.structured_output
      ? { schema: golden.structured_output, strategy: golden.structured_output_strategy }
      : undefined,
    reasoning: golden.reasoning ?? undefined,
    tools: yield* Effect.forEach(golden.tools ?? [], toContract)
  })
})

/** What the vocabulary calls a definition, read off ours. */
export const fromDefinition = (definition: AgentDefinition.AgentDefinition) => ({
  identifier: definition.name ?? null,
  model: definition.model ?? null,
  instructions: definition.instructions ?? null,
  model_options: definition.modelOptions,
  max_steps: definition.maxSteps,
  structured_output: definition.output?.schema ?? null,
  structured_output_strategy: definition.output?.strategy ?? "native",
  reasoning: definition.reasoning ?? null,
  tools: definition.tools.map((tool) => ({
    name: tool.name,
    description: tool.description ?? null,
    parameters_schema: tool.parameters,
    timeout_seconds: Duration.toSeconds(tool.timeout)
  }))
})

/** The wire object of a case, from its JSON text if it is given so. */
export const decodeGiven = (given: Json) =>
  typeof given["wire_text"] === "string"
    ? AgentDefinition.decodeJson(given["wire_text"])
    : AgentDefinition.decode(given["wire"])

const anyVersion = (wire: Json): Json =>
  typeof wire["riffer_version"] === "string" ? { ...wire, riffer_version: "<version>" } : wire

const isObject = (value: Schema.Json): value is Json => typeof value === "object" && value !== null && !Array.isArray(value)

/** Checks a wire object: exact, but any text does where a case says `<version>`. */
export const checkWire = (wire: Json, expect: Json): void => {
  const expected = toJson(expect["wire"])
  assert.isTrue(isObject(expected))
  if (!isObject(expected)) return
  equal(expected["riffer_version"] === "<version>" ? anyVersion(wire) : wire, expected, "wire")
  if (expect["key_order"] !== undefined) equal(Object.keys(wire), expect["key_order"], "key order")
  for (const key of Array.isArray(expect["absent_keys"]) ? expect["absent_keys"] : []) {
    assert.isFalse(Object.hasOwn(wire, String(key)), String(key))
  }
}
