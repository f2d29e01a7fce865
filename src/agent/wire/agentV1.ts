/**
 * Version 1 of the wire of a definition: Riffer's hash. Frozen.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import { quote } from "../../payload/internal/base.ts"
import { appendToken, defined, isArray, isObject, kindOf, own } from "../../payload/internal/values.ts"
import * as contractDigest from "../../tool/internal/contractDigest.ts"
import * as agentData from "../internal/agentData.ts"

/** The codec checks that all of it is JSON. */
const anything = Schema.optionalKey(Schema.declare((_: unknown): _ is Schema.Json => true))

/** Everything but the version is read by hand, so that all problems come at once. */
export const Wire = Schema.Struct({
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
  tools: anything,
  // Riffer announces them, and they restrict or extend an agent: what is there is named in the log
  guardrails: anything,
  skills: anything,
  mcp_configs: anything
})

const unsupported = ["guardrails", "skills", "mcp_configs"] as const

const isEmpty = (json: Schema.Json | undefined): boolean =>
  json === undefined || json === null || json === false || (typeof json === "object" && Object.keys(json).length === 0)

/** The parts that the agent runs without. */
const unsupportedIn = (wire: typeof Wire.Type): ReadonlyArray<string> => {
  const found = unsupported.filter((name) => !isEmpty(wire[name])).map((name) => `/${name}`)
  const tools = wire.tools !== undefined && isArray(wire.tools) ? wire.tools : []
  for (const [index, tool] of tools.entries()) {
    if (isObject(tool) && Object.hasOwn(tool, "guardrails") && !isEmpty(tool["guardrails"]))
      found.push(`/tools/${index}/guardrails`)
  }
  return found
}

const wirePaths: agentData.WirePaths = {
  name: "/identifier",
  maxSteps: "/max_steps",
  modelOptions: "/model_options",
  toolChoice: "/toolChoice",
  expectedMaxSteps: "a whole number of at least 1, or -1 for no limit",
  outputSchema: "/structured_output",
  parameters: "parameters_schema",
  needs: { model: true, description: true, finiteTimeout: true }
}

/** The name of a level or a strategy that does not exist. What is no single word is no name, and can be a secret. */
const renderLevel = (found: unknown): string =>
  typeof found === "string" && /^[a-z]{1,20}$/iu.test(found) ? agentData.renderValue(found) : kindOf(found)

/** Reads values of a kind; `null` is an absent value, and a value of another kind is an issue. */
const reader = () => {
  const issues: Array<PayloadError.Problem> = []
  const refuse = (path: string, expected: string, found: Schema.Json | undefined, render = kindOf): undefined => {
    issues.push({ path, expected, found: render(found) })
    return undefined
  }
  const value = <A extends Schema.Json>(
    path: string,
    expected: string,
    found: Schema.Json | undefined,
    is: (json: Schema.Json) => json is A,
    render?: typeof renderLevel
  ): A | undefined => {
    if (found === undefined || found === null) return undefined
    return is(found) ? found : refuse(path, expected, found, render)
  }
  return { issues, refuse, value }
}

type Reader = ReturnType<typeof reader>

const isText = (json: Schema.Json): json is string => typeof json === "string"

const isNumber = (json: Schema.Json): json is number => typeof json === "number"

const isStrategy = Schema.is(Schema.Literals(["native", "prompted"]))

const isReasoning = Schema.is(agentData.ReasoningLevel)

const readMaxSteps = (read: Reader, value: Schema.Json | undefined): agentData.AgentDefinition["maxSteps"] => {
  if (value === undefined) return agentData.defaultMaxSteps
  if (value === null || value === -1) return "unlimited"
  return read.value("/max_steps", wirePaths.expectedMaxSteps, value, isNumber) ?? agentData.defaultMaxSteps
}

const readTimeout = (read: Reader, path: string, value: Schema.Json | undefined): Duration.Duration => {
  const millis = Math.round((read.value(path, "a positive number of seconds", value, isNumber) ?? 10) * 1000)
  if (millis >= 1 && Number.isSafeInteger(millis)) return Duration.millis(millis)
  read.refuse(path, "a positive number of seconds", value)
  return Duration.seconds(10)
}

const readTool = (read: Reader, json: Schema.Json, path: string): agentData.Tool => {
  if (!isObject(json)) read.refuse(path, "an object that describes a tool", json)
  // A tool that cannot be read keeps its place; its missing members are not reported.
  const tool = isObject(json) ? json : { parameters_schema: {} }
  const schemaPath = `${path}/parameters_schema`
  const name = read.value(`${path}/name`, "the name of the tool", own(tool, "name"), isText) ?? ""
  const description = read.value(`${path}/description`, "a description", own(tool, "description"), isText)
  const schema = own(tool, "parameters_schema")
  const parameters = schema && (read.value(schemaPath, "a JSON Schema", schema, isObject) ?? {})
  if (parameters === undefined || parameters === null) read.refuse(schemaPath, "a JSON Schema", schema)
  return contractDigest.withDigest({
    name,
    ...defined({ description }),
    parameters: parameters ?? {},
    timeout: readTimeout(read, `${path}/timeout`, own(tool, "timeout")),
    approval: "never",
    annotations: {}
  })
}

const toCurrent = (wire: typeof Wire.Type) => {
  const read = reader()
  const schema = read.value("/structured_output", "a JSON Schema or null", wire.structured_output, isObject)
  const strategies = "one of native, prompted, or null"
  const strategy = read.value(
    "/structured_output_strategy",
    strategies,
    wire.structured_output_strategy,
    isStrategy,
    renderLevel
  )
  const levels = `one of ${agentData.ReasoningLevel.literals.join(", ")}, or null`
  const tools = read.value("/tools", "a list of tools", wire.tools, isArray) ?? []
  const definition: agentData.AgentDefinition = {
    ...defined({
      name: read.value("/identifier", "text or null", wire.identifier, isText) || undefined,
      model: read.value("/model", `a model of the form ${agentData.expectedModelName}`, wire.model, isText),
      instructions: read.value("/instructions", "instructions as text, or null", wire.instructions, isText),
      reasoning: read.value("/reasoning", levels, wire.reasoning, isReasoning, renderLevel),
      output: schema && { schema, strategy: strategy ?? "native" }
    }),
    modelOptions: read.value("/model_options", "an object", wire.model_options, isObject) ?? {},
    maxSteps: readMaxSteps(read, wire.max_steps),
    tools: tools.map((tool, index) => readTool(read, tool, `/tools/${index}`))
  }
  const without = unsupportedIn(wire)
  return Effect.tap(agentData.check(definition, wirePaths, read.issues), () =>
    without.length === 0
      ? Effect.void
      : Effect.logWarning(
          `agent ${quote(definition.name ?? "")} of version 1 runs without ${without.join(", ")}: expected parts that this library has. Remove them, or add tools that do the same`
        )
  )
}

const lossIf = (isLost: boolean, path: string, what: string): ReadonlyArray<PayloadError.Loss> =>
  isLost ? [{ path, what }] : []

/** The keywords that Riffer reads, by the place of a schema. It takes an object for the root, and reads `items` for its type alone. */
const readKeywords = {
  root: new Set(["$schema", "type", "properties", "required", "additionalProperties"]),
  property: new Set("type description enum default items properties required additionalProperties".split(" ")),
  items: new Set(["type", "properties", "required", "additionalProperties"])
}

const named = (json: Schema.Json | undefined): { readonly [name: string]: Schema.Json } =>
  json !== undefined && isObject(json) ? json : {}

/** The parts of an output schema that Riffer refuses, or reads as less. */
const schemaLosses = (
  json: Schema.Json,
  path: string,
  place: keyof typeof readKeywords,
  isRequired = true
): ReadonlyArray<PayloadError.Loss> => {
  const schema = named(json)
  const { additionalProperties, items, required, type } = schema
  const types = isArray(type) ? type.filter((one) => one !== "null") : [type]
  const [only] = types
  if (types.length !== 1 || only === undefined || only === "null") {
    return [{ path, what: "a schema without a type of its own, which Riffer refuses" }]
  }
  if (place === "root" ? only !== "object" : place === "items" && only === "array") {
    return [{ path: `${path}/type`, what: `the type of an ${place === "root" ? "output" : "item"} (written as it is)` }]
  }
  const properties = named(schema["properties"])
  const names = isArray(required) ? required : []
  // Riffer reads an object with the key as closed, also without a property
  const isClosed = place === "root" || isObject(schema["properties"] ?? null)
  const isAsRead = isClosed ? additionalProperties === false : (additionalProperties ?? true) === true
  const unread = Object.keys(schema).filter((name) => !readKeywords[place].has(name))
  return [
    ...lossIf(isArray(type) && types.length < type.length && isRequired, `${path}/type`, "that null is accepted"),
    ...unread.map((name) => ({ path: appendToken(path, name), what: `the keyword ${JSON.stringify(name)}` })),
    ...lossIf(only === "object" && !isAsRead, `${path}/additionalProperties`, "the other properties of an object"),
    ...lossIf(
      names.some((name) => typeof name !== "string" || !Object.hasOwn(properties, name)),
      `${path}/required`,
      "a required property without a schema"
    ),
    ...Object.entries(properties).flatMap(([name, member]) =>
      schemaLosses(member, appendToken(`${path}/properties`, name), "property", names.includes(name))
    ),
    ...(only === "array" && items !== undefined ? schemaLosses(items, `${path}/items`, "items") : [])
  ]
}

const lossesOf = ({
  budget,
  concurrency,
  context,
  guards,
  model,
  output,
  perRun,
  repeatedCalls,
  retry,
  timeouts,
  toolChoice,
  tools
}: agentData.AgentDefinition): ReadonlyArray<PayloadError.Loss> => [
  ...lossIf(output?.strategy === "tool", "/output/strategy", `the output strategy "tool" (written as "native")`),
  ...(output === undefined ? [] : schemaLosses(output.schema, "/output/schema", "root")),
  ...lossIf(typeof model === "object", "/model", "the models behind the first one"),
  ...lossIf(context !== undefined, "/context", "the schema of the context that a run needs"),
  ...lossIf(retry !== undefined, "/retry", "the retries of model calls"),
  ...lossIf(timeouts !== undefined, "/timeouts", "the limits of time of model calls"),
  ...lossIf(toolChoice !== undefined, "/toolChoice", "the choice of tools"),
  ...lossIf(concurrency !== undefined, "/concurrency", "the number of calls that run at a time"),
  ...lossIf(budget !== undefined, "/budget", "the budget of runs"),
  ...lossIf(guards !== undefined, "/guards", "the guards"),
  ...lossIf(repeatedCalls !== undefined, "/repeatedCalls", "the limits of calls that repeat"),
  ...lossIf(perRun !== undefined, "/perRun", "that the parts of an agent are found for each run"),
  ...tools.flatMap(({ agent, annotations, approval, client, failure, handoff, request, success }, index) => {
    const path = `/tools/${index}`
    const asTool = "that a tool is an agent (written as a tool with a timeout of 10 seconds)"
    return [
      ...lossIf(agent !== undefined, `${path}/agent`, asTool),
      ...lossIf(handoff !== undefined, `${path}/handoff`, "that a call of a tool passes the conversation on"),
      ...lossIf(success !== undefined, `${path}/success`, "the schema of a tool's result"),
      ...lossIf(failure !== undefined, `${path}/failure`, "the schema of a tool's failure"),
      ...lossIf(approval !== "never", `${path}/approval`, "that a tool's calls need approval"),
      ...lossIf(request !== undefined, `${path}/request`, "which calls of a tool ask"),
      ...lossIf(client !== undefined, `${path}/client`, "that the front end makes a tool's calls"),
      ...lossIf(Object.keys(annotations).length > 0, `${path}/annotations`, "the annotations of a tool")
    ]
  })
]

const fromCurrent = Effect.fnUntraced(function* (definition: agentData.AgentDefinition) {
  const { maxSteps, output, tools } = yield* agentData.checkToWrite(definition, wirePaths)
  return yield* VersionedCodec.lossy<typeof Wire.Type>(
    {
      schema_version: 1,
      riffer_version: "effect-emissary",
      identifier: definition.name ?? null,
      model: definition.model === undefined ? null : agentData.namesOf(definition.model)[0],
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
        timeout: Duration.isFinite(tool.timeout) ? Duration.toSeconds(tool.timeout) : 10
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
