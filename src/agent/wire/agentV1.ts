/**
 * Version 1 of the wire of a definition: Riffer's hash. Frozen.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"
import type * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { defined, kindOf, own } from "../../payload/internal/base.ts"
import type { ToolContract } from "../../tool/ToolContract.ts"
import * as agentData from "../internal/agentData.ts"

const anything = Schema.optionalKey(Schema.Json)

/**
 * Everything but the version is read by hand: the errors name the value that a
 * writer of names and numbers got wrong, and all problems come at once.
 */
const Wire = Schema.Struct({
  schema_version: Schema.Literal(1),
  riffer_version: anything,
  identifier: anything,
  model: anything,
  instructions: anything,
  model_options: anything,
  max_steps: anything,
  structured_output: anything,
  structured_output_strategy: anything,
  reasoning: anything,
  tools: anything
})

const wirePaths: agentData.WirePaths = {
  name: "/identifier",
  maxSteps: "/max_steps",
  outputSchema: "/structured_output",
  parameters: "parameters_schema",
  needs: { model: true, description: true, finiteTimeout: true }
}

const strategies = ["native", "prompted"] as const

const defaultTimeout = 10

/** Reads values of a kind; a value of another kind is an issue, and `undefined`. */
const reader = () => {
  const issues: Array<PayloadError.Problem> = []
  const refuse = (path: string, expected: string, found: Schema.Json | undefined): undefined => {
    issues.push({ path, expected, found: agentData.renderValue(found) })
    return undefined
  }
  const present = (value: Schema.Json | undefined): value is Exclude<Schema.Json, null> =>
    value !== undefined && value !== null
  const text = (path: string, expected: string, value: Schema.Json | undefined): string | undefined => {
    if (!present(value)) return undefined
    if (typeof value === "string") return value
    issues.push({ path, expected, found: kindOf(value) })
  }
  const object = (path: string, expected: string, value: Schema.Json | undefined): Json.JsonObject | undefined => {
    if (!present(value)) return undefined
    if (Json.isObject(value)) return value
    issues.push({ path, expected, found: kindOf(value) })
  }
  const oneOf = <const A extends string>(
    path: string,
    names: ReadonlyArray<A>,
    value: Schema.Json | undefined
  ): A | undefined =>
    present(value)
      ? (names.find((name) => name === value) ?? refuse(path, `one of ${names.join(", ")}, or null`, value))
      : undefined
  return { issues, refuse, text, object, oneOf, present }
}

type Reader = ReturnType<typeof reader>

const readMaxSteps = (read: Reader, value: Schema.Json | undefined): agentData.AgentDefinition["maxSteps"] => {
  if (value === undefined) return agentData.defaultMaxSteps
  if (value === null || value === -1) return "unlimited"
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= 1) return value
  read.refuse("/max_steps", "an integer of at least 1, or -1 for no limit", value)
  return agentData.defaultMaxSteps
}

const readTimeout = (read: Reader, path: string, value: Schema.Json | undefined): Duration.Duration => {
  if (!read.present(value)) return Duration.seconds(defaultTimeout)
  const millis = typeof value === "number" ? Math.round(value * 1000) : 0
  if (millis >= 1 && Number.isSafeInteger(millis)) return Duration.millis(millis)
  read.refuse(path, "a positive number of seconds", value)
  return Duration.seconds(defaultTimeout)
}

const readTool = Effect.fnUntraced(function* (read: Reader, json: Schema.Json, path: string) {
  if (!Json.isObject(json)) read.refuse(path, "an object that describes a tool", json)
  // a tool that cannot be read keeps its place; what is missing in it is not reported
  const tool = Json.isObject(json) ? json : { parameters_schema: {} }
  const name = read.text(`${path}/name`, "the name of the tool", own(tool, "name")) ?? ""
  const description = read.text(`${path}/description`, "a description of the tool", own(tool, "description"))
  const schema = own(tool, "parameters_schema")
  const parameters = read.object(`${path}/parameters_schema`, "a JSON Schema", schema) ?? {}
  if (!read.present(schema)) read.refuse(`${path}/parameters_schema`, "a JSON Schema", schema)
  const contract: ToolContract = {
    name,
    ...defined({ description }),
    parameters,
    timeout: readTimeout(read, `${path}/timeout`, own(tool, "timeout")),
    approval: "never",
    annotations: {},
    digest: yield* agentData.digestOf(name, parameters)
  }
  return contract
})

const readTools = Effect.fnUntraced(function* (read: Reader, value: Schema.Json | undefined) {
  if (!read.present(value)) return []
  if (!Array.isArray(value)) {
    read.refuse("/tools", "a list of tools", value)
    return []
  }
  return yield* Effect.forEach(value, (tool: Schema.Json, index) => readTool(read, tool, `/tools/${index}`))
})

const toCurrent = Effect.fnUntraced(function* (wire: typeof Wire.Type) {
  const read = reader()
  const name = read.text("/identifier", "text or null", wire.identifier)
  const model = read.text("/model", `a model of the form ${agentData.expectedModelName}`, wire.model)
  const instructions = read.text("/instructions", "instructions as text, or null", wire.instructions)
  const modelOptions = read.object("/model_options", "an object", wire.model_options)
  const schema = read.object("/structured_output", "a JSON Schema or null", wire.structured_output)
  const strategy = read.oneOf("/structured_output_strategy", strategies, wire.structured_output_strategy)
  const reasoning = read.oneOf("/reasoning", agentData.ReasoningLevel.literals, wire.reasoning)
  const maxSteps = readMaxSteps(read, wire.max_steps)
  const definition: agentData.AgentDefinition = {
    ...defined({ name: name === "" ? undefined : name, model, instructions, reasoning }),
    modelOptions: modelOptions ?? {},
    maxSteps,
    ...defined({ output: schema && { schema, strategy: strategy ?? "native" } }),
    tools: yield* readTools(read, wire.tools)
  }
  return yield* agentData.check(definition, wirePaths, read.issues)
})

const seconds = (timeout: Duration.Duration): number => Duration.toMillis(timeout) / 1000

const lossesOf = (definition: agentData.AgentDefinition): ReadonlyArray<PayloadError.Loss> => [
  ...(definition.output?.strategy === "tool"
    ? [{ path: "/output/strategy", what: `the output strategy "tool" (written as "native")` }]
    : []),
  ...definition.tools.flatMap((tool, index) => {
    const path = `/tools/${index}`
    return [
      ...(tool.success === undefined ? [] : [{ path: `${path}/success`, what: "the schema of a tool's result" }]),
      ...(tool.failure === undefined ? [] : [{ path: `${path}/failure`, what: "the schema of a tool's failure" }]),
      ...(tool.approval === "never" ? [] : [{ path: `${path}/approval`, what: "that a tool's calls need approval" }]),
      ...(Object.keys(tool.annotations).length === 0
        ? []
        : [{ path: `${path}/annotations`, what: "the annotations of a tool" }])
    ]
  })
]

const fromCurrent = Effect.fnUntraced(function* (definition: agentData.AgentDefinition) {
  const { maxSteps, output, tools } = yield* agentData.check(definition, wirePaths)
  return yield* VersionedCodec.lossy<typeof Wire.Type>(
    {
      schema_version: 1,
      riffer_version: "effect-emissary",
      identifier: definition.name ?? null,
      model: definition.model ?? null,
      instructions: definition.instructions ?? null,
      model_options: definition.modelOptions,
      max_steps: maxSteps === "unlimited" ? -1 : maxSteps,
      structured_output: output === undefined ? null : output.schema,
      structured_output_strategy: output?.strategy === "prompted" ? "prompted" : "native",
      reasoning: definition.reasoning ?? null,
      tools: tools.map((tool) => ({
        name: tool.name,
        description: tool.description ?? null,
        parameters_schema: tool.parameters,
        timeout: seconds(tool.timeout)
      }))
    },
    lossesOf(definition)
  )
})

export const arm = VersionedCodec.arm({
  version: 1,
  wire: Wire,
  onExcessProperty: "ignore",
  fromCurrent,
  toCurrent
})
