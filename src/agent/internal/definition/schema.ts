/** A definition as a Schema: what its type says, checked value by value. */
import * as Schema from "effect/Schema"
import type { AgentDefinition as Definition } from "../../AgentDefinition.ts"

export const OutputStrategy = Schema.Literals(["native", "prompted", "tool"])

export const ReasoningLevel = Schema.Literals(["off", "low", "medium", "high", "xhigh", "max"])

export const JsonObject = Schema.Record(Schema.String, Schema.Json)

const ToolContract = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: JsonObject,
  success: Schema.optionalKey(JsonObject),
  failure: Schema.optionalKey(JsonObject),
  timeout: Schema.Duration,
  approval: Schema.Literals(["never", "always", "dynamic"]),
  annotations: Schema.Struct({
    title: Schema.optionalKey(Schema.String),
    readonly: Schema.optionalKey(Schema.Boolean),
    destructive: Schema.optionalKey(Schema.Boolean),
    idempotent: Schema.optionalKey(Schema.Boolean),
    openWorld: Schema.optionalKey(Schema.Boolean),
    strict: Schema.optionalKey(Schema.Boolean)
  }),
  digest: Schema.String
})

export const AgentDefinition: Schema.Codec<Definition, unknown> = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  instructions: Schema.optionalKey(Schema.String),
  modelOptions: JsonObject,
  maxSteps: Schema.Union([Schema.Finite, Schema.Literal("unlimited")]),
  output: Schema.optionalKey(Schema.Struct({ schema: JsonObject, strategy: OutputStrategy })),
  reasoning: Schema.optionalKey(ReasoningLevel),
  tools: Schema.Array(ToolContract)
})
