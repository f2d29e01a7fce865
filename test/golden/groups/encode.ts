import { Effect, Option, type Schema } from "effect"
import { Tool } from "effect/ai"
import { Agent, AgentDefinition, AgentError, RunContext, ToolSettings } from "effect-emissary"
import { checkExit, type Json, type Run } from "../golden.ts"
import { checkWire, type GoldenDefinition, toDefinition } from "../wireCases.ts"

/** A value computed from a context: text in which `{key}` is replaced, or null. */
const fill = (template: Schema.Json, context: Json): Schema.Json =>
  typeof template === "string"
    ? template.replaceAll(/\{(\w+)\}/gu, (_, key: string) => String(context[key] ?? ""))
    : template

/** The text is an Effect if it is computed. Ours cannot compute "nothing": such a text is left out. */
const text = (fixed: string | null | undefined, dynamic: Schema.Json | undefined) =>
  dynamic === undefined
    ? (fixed ?? undefined)
    : dynamic === null
      ? undefined
      : Effect.map(RunContext.RunContext, (context) => String(fill(dynamic, context)))

/** The case as an agent in code, for what only code can say: values computed from a context. */
const encodeAgent = (golden: GoldenDefinition, dynamic: Json, context: Json) => {
  const instructions = text(golden.instructions, dynamic["instructions"])
  const agent = Agent.make(golden.identifier ?? "", {
    model: text(golden.model, dynamic["model"]),
    ...(instructions === undefined ? {} : { instructions }),
    modelOptions: golden.model_options,
    maxSteps: golden.max_steps,
    reasoning: golden.reasoning ?? undefined,
    toolkit: (golden.tools ?? []).map((tool) =>
      ToolSettings.timeout(
        Tool.dynamic(tool.name, { description: tool.description, parameters: tool.parameters_schema }),
        `${tool.timeout_seconds ?? 10} seconds`
      )
    )
  })
  // an agent that cannot be resolved says so with the definition's own error as the cause
  return Effect.mapError(Agent.encode(agent, { version: 1, context }), (error) =>
    error._tag === "AgentError" ? Option.getOrElse(AgentError.causeOf(error.reason), () => error) : error
  )
}

const encodeDefinition = (golden: GoldenDefinition) =>
  Effect.flatMap(toDefinition(golden), (definition) => AgentDefinition.encode(definition, { version: 1 }))

export const run: Run = (given, expect) => {
  // the vocabulary fixes the form of these
  const golden = given["definition"] as GoldenDefinition
  const dynamic = (given["dynamic"] ?? {}) as Json
  const context = (given["context"] ?? {}) as Json
  const filled = Object.fromEntries(Object.entries(dynamic).map(([key, value]) => [key, fill(value, context)]))
  // an agent in code always has a name, and its output is a Schema, not a JSON Schema
  const inCode = given["dynamic"] !== undefined && golden.identifier && !golden.structured_output
  const encode = inCode ? encodeAgent(golden, dynamic, context) : encodeDefinition({ ...golden, ...filled })
  return checkExit(encode, expect, (wire) => checkWire(wire, expect))
}
