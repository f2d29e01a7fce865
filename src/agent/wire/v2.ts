/**
 * Version 2 of the agent wire: our own. It is strict (unknown keys are refused)
 * and carries everything a definition holds.
 *
 * | key | value | absent |
 * |---|---|---|
 * | `schema_version` | 2 | refused |
 * | `name` | text | none |
 * | `model` | `"provider/model"` | none |
 * | `instructions` | text | none |
 * | `model_options` | object | `{}` |
 * | `max_steps` | integer of at least 1, or `"unlimited"` | 16 |
 * | `reasoning` | off, low, medium, high, xhigh or max | none |
 * | `output` | `{ schema, strategy }` | none |
 * | `tools` | list of tools | `[]` |
 *
 * A tool:
 *
 * | key | value | absent |
 * |---|---|---|
 * | `name` | text | refused |
 * | `description` | text | none |
 * | `parameters` | JSON Schema | refused |
 * | `success`, `failure` | JSON Schema | none |
 * | `timeout` | whole milliseconds, or `"infinity"` | 10000 |
 * | `approval` | never, always or dynamic | never |
 * | `annotations` | `{ title, readonly, destructive, idempotent, open_world, strict }`, each optional | `{}` |
 * | `digest` | `"sha256:<hex>"` of name and parameters; verified | not verified |
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { Annotations, ToolContract } from "../../tool/ToolContract.ts"
import type { AgentDefinition } from "../AgentDefinition.ts"
import * as Invariants from "../internal/definition/invariants.ts"

const JsonObject = Schema.Record(Schema.String, Schema.Json)
const Strategy = Schema.Literals(["native", "prompted", "tool"])

const WireAnnotations = Schema.Struct({
  title: Schema.optionalKey(Schema.String),
  readonly: Schema.optionalKey(Schema.Boolean),
  destructive: Schema.optionalKey(Schema.Boolean),
  idempotent: Schema.optionalKey(Schema.Boolean),
  open_world: Schema.optionalKey(Schema.Boolean),
  strict: Schema.optionalKey(Schema.Boolean)
})

const WireTool = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  parameters: JsonObject,
  success: Schema.optionalKey(JsonObject),
  failure: Schema.optionalKey(JsonObject),
  timeout: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.Literal("infinity")])),
  approval: Schema.optionalKey(Schema.Literals(["never", "always", "dynamic"])),
  annotations: Schema.optionalKey(WireAnnotations),
  digest: Schema.optionalKey(Schema.String)
})

/**
 * @category schemas
 * @since 0.1.0
 */
export const Wire = Schema.Struct({
  schema_version: Schema.Literal(2),
  name: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  instructions: Schema.optionalKey(Schema.String),
  model_options: Schema.optionalKey(JsonObject),
  max_steps: Schema.optionalKey(Schema.Union([Schema.Finite, Schema.Literal("unlimited")])),
  reasoning: Schema.optionalKey(Schema.Literals(["off", "low", "medium", "high", "xhigh", "max"])),
  output: Schema.optionalKey(Schema.Struct({ schema: JsonObject, strategy: Schema.optionalKey(Strategy) })),
  tools: Schema.optionalKey(Schema.Array(WireTool))
})

const places: Invariants.Places = {
  name: "/name",
  maxSteps: "/max_steps",
  outputSchema: "/output/schema",
  parameters: "parameters",
  needs: { model: false, description: false, finiteTimeout: false }
}

const readAnnotations = ({ open_world, ...rest }: typeof WireAnnotations.Type): Annotations => ({
  ...rest,
  ...(open_world === undefined ? {} : { openWorld: open_world })
})

const readTool = Effect.fnUntraced(function* (tool: typeof WireTool.Type) {
  const contract: ToolContract = {
    name: tool.name,
    ...(tool.description === undefined ? {} : { description: tool.description }),
    parameters: tool.parameters,
    ...(tool.success === undefined ? {} : { success: tool.success }),
    ...(tool.failure === undefined ? {} : { failure: tool.failure }),
    timeout: tool.timeout === "infinity" ? Duration.infinity : Duration.millis(tool.timeout ?? 10_000),
    approval: tool.approval ?? "never",
    annotations: readAnnotations(tool.annotations ?? {}),
    digest: tool.digest ?? (yield* Invariants.digestOf(tool.name, tool.parameters))
  }
  return contract
})

const toCurrent = Effect.fnUntraced(function* (wire: typeof Wire.Type) {
  const definition: AgentDefinition = {
    ...(wire.name === undefined ? {} : { name: wire.name }),
    ...(wire.model === undefined ? {} : { model: wire.model }),
    ...(wire.instructions === undefined ? {} : { instructions: wire.instructions }),
    modelOptions: wire.model_options ?? {},
    maxSteps: wire.max_steps ?? Invariants.defaultMaxSteps,
    ...(wire.output === undefined
      ? {}
      : { output: { schema: wire.output.schema, strategy: wire.output.strategy ?? "native" } }),
    ...(wire.reasoning === undefined ? {} : { reasoning: wire.reasoning }),
    tools: yield* Effect.forEach(wire.tools ?? [], readTool)
  }
  return yield* Invariants.check(definition, places)
})

const writeAnnotations = ({ openWorld, strict, ...rest }: Annotations): typeof WireAnnotations.Type => ({
  ...rest,
  ...(openWorld === undefined ? {} : { open_world: openWorld }),
  ...(strict === undefined ? {} : { strict })
})

/**
 * A tool as version 2 writes it.
 *
 * @category writing
 * @since 0.1.0
 */
export const writeTool = (tool: ToolContract): typeof WireTool.Type => ({
  name: tool.name,
  ...(tool.description === undefined ? {} : { description: tool.description }),
  parameters: tool.parameters,
  ...(tool.success === undefined ? {} : { success: tool.success }),
  ...(tool.failure === undefined ? {} : { failure: tool.failure }),
  timeout: Duration.isFinite(tool.timeout) ? Duration.toMillis(tool.timeout) : "infinity",
  approval: tool.approval,
  annotations: writeAnnotations(tool.annotations),
  digest: tool.digest
})

/**
 * A definition as version 2 writes it, without its tools.
 *
 * @category writing
 * @since 0.1.0
 */
export const writeHead = (definition: AgentDefinition): Omit<typeof Wire.Type, "tools"> => {
  const { instructions, maxSteps, model, modelOptions, name, output, reasoning } = definition
  return {
    schema_version: 2,
    ...(name === undefined ? {} : { name }),
    ...(model === undefined ? {} : { model }),
    ...(instructions === undefined ? {} : { instructions }),
    model_options: modelOptions,
    max_steps: maxSteps,
    ...(reasoning === undefined ? {} : { reasoning }),
    ...(output === undefined ? {} : { output: { schema: output.schema, strategy: output.strategy } })
  }
}

const fromCurrent = Effect.fnUntraced(function* (definition: AgentDefinition) {
  const checked = yield* Invariants.check(definition, places)
  return yield* VersionedCodec.lossless<typeof Wire.Type>({
    ...writeHead(checked),
    tools: checked.tools.map(writeTool)
  })
})

/**
 * @category arms
 * @since 0.1.0
 */
export const arm = VersionedCodec.arm({ version: 2, wire: Wire, fromCurrent, toCurrent })
