/** The groups decode, encode and roundtrip: definitions of agents on the wire. */
import { assert } from "@effect/vitest"
import { Duration, Effect, Layer, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, AgentDefinition, AgentError, ModelRegistry, RunContext, ToolContract, ToolResolver, ToolSettings } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { type Case, checkExit, equal, ExpectedError, type Json, JsonObject, optional, read, toJson } from "../family.ts"
import * as agentData from "#src/agent/internal/agentData.ts"

const anything = optional(Schema.Json)

/** The keys of a definition. Their values are free: the library has to refuse what is wrong. */
const DefinitionKeys = Schema.Struct({
  identifier: anything,
  model: anything,
  instructions: anything,
  model_options: anything,
  /** Of the documented era; ours has none, and ignoring them is a pass. */
  provider_options: anything,
  max_steps: anything,
  structured_output: anything,
  structured_output_strategy: anything,
  reasoning: anything,
  tools: optional(
    Schema.Array(
      Schema.Struct({ name: anything, description: anything, parameters_schema: anything, timeout_seconds: anything })
    )
  )
})

/** A definition as a caller with types would write it; missing keys take their defaults. */
interface Definition {
  readonly identifier?: string | null
  readonly model?: string | null
  readonly instructions?: string | null
  readonly model_options?: Json
  readonly max_steps?: number | "unlimited"
  readonly structured_output?: Json | null
  readonly structured_output_strategy?: AgentDefinition.OutputStrategy
  readonly reasoning?: AgentDefinition.ReasoningLevel | null
  readonly tools?: ReadonlyArray<{
    readonly name: string
    readonly description?: string
    readonly parameters_schema: Json
    readonly timeout_seconds?: number
  }>
}

const Wire = { wire: optional(Schema.Json), wire_text: optional(Schema.String) }

/** Our definition of what a case describes. */
const toDefinition = Effect.fnUntraced(function* (golden: Definition) {
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
    tools: yield* Effect.forEach(golden.tools ?? [], (tool) =>
      ToolContract.make({
        name: tool.name,
        description: tool.description,
        parameters: tool.parameters_schema,
        timeout: tool.timeout_seconds === undefined ? undefined : Duration.seconds(tool.timeout_seconds)
      })
    )
  })
})

/** A definition of the vocabulary, made from ours. */
const fromDefinition = (definition: AgentDefinition.AgentDefinition) => ({
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

/** The definition of a case, from its JSON text if it is given so. */
const decodeGiven = (given: { readonly wire?: Schema.Json; readonly wire_text?: string }) =>
  given.wire_text === undefined ? AgentDefinition.codec.decode(given.wire) : AgentDefinition.codec.decodeJson(given.wire_text)

/** Checks a wire object: exact, but a case with `<version>` takes any text. */
const checkWire = (wire: Json, expected: Json): void => {
  const anyVersion = expected["riffer_version"] === "<version>" && typeof wire["riffer_version"] === "string"
  equal(anyVersion ? { ...wire, riffer_version: "<version>" } : wire, expected, "wire")
}

const Decode = Schema.Struct({
  given: Schema.Struct({ ...Wire, known_providers: optional(Schema.Array(Schema.String)) }),
  expect: Schema.Struct({
    definition: optional(JsonObject),
    model_parts: optional(Schema.Json),
    error: optional(ExpectedError)
  })
})

const anyOptions = Schema.Record(Schema.String, Schema.Json)

/** A receiver that knows only these providers. */
const knowing = (providers: ReadonlyArray<string>) =>
  ModelRegistry.layer(
    Object.fromEntries(
      providers.map((name) => [
        name,
        ModelRegistry.provider({ options: anyOptions, model: () => ScriptedModel.layer([]) })
      ])
    )
  )

export const decode = Effect.fnUntraced(function* (golden: Case) {
  const { expect, given } = yield* read(Decode)({ given: golden.given, expect: golden.expect })
  const decoded = decodeGiven(given).pipe(
    Effect.tap((definition) =>
      given.known_providers === undefined
        ? Effect.void
        : Effect.flatMap(ModelRegistry.ModelRegistry, (registry) =>
            registry.resolve(agentData.namesOf(definition.model ?? "")[0], definition.modelOptions)
          ).pipe(Effect.scoped, Effect.provide(knowing(given.known_providers)))
    )
  )
  return yield* checkExit(decoded, expect.error, (definition) => {
    const { provider_options: _, ...expected } = expect.definition ?? {}
    equal(fromDefinition(definition), expected, "definition")
    if (expect.model_parts !== undefined) {
      const { model, provider } = Option.getOrThrow(agentData.parseModelName(definition.model ?? ""))
      equal([provider, model], expect.model_parts, "model parts")
    }
  })
})

const Encode = Schema.Struct({
  given: Schema.Struct({
    definition: DefinitionKeys,
    dynamic: optional(JsonObject),
    context: optional(JsonObject),
    /** The name of a class; the wire holds none that was not set. */
    derived_name: optional(Schema.Json)
  }),
  expect: Schema.Struct({
    wire: optional(JsonObject),
    key_order: optional(Schema.Json),
    absent_keys: optional(Schema.Array(Schema.String)),
    error: optional(ExpectedError)
  })
})

/** A value computed from a context: text in which `{key}` is replaced, or null. */
const fill = (template: Schema.Json, context: Json): Schema.Json =>
  typeof template === "string"
    ? template.replaceAll(/\{(\w+)\}/gu, (_, key: string) => String(context[key] ?? ""))
    : template

/** The text is an Effect if it is computed. Ours cannot compute "nothing": a text of nothing is left out. */
const text = (fixed: string | null | undefined, dynamic: Schema.Json | undefined) => {
  if (dynamic === undefined) return fixed ?? undefined
  return dynamic === null
    ? undefined
    : Effect.map(RunContext.RunContext, (context) => String(fill(dynamic, context)))
}

/** The case as an agent in code, for what only code can express: values computed from a context. */
const encodeAgent = (golden: Definition, dynamic: Json, context: Json) => {
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
  // an agent that cannot be resolved fails with the definition's own error as the cause
  return Effect.mapError(Agent.encode(agent, { version: 1, context, allowLoss: ["/perRun"] }), (error) =>
    error._tag === "AgentError" ? Option.getOrElse(AgentError.causeOf(error.reason), () => error) : error
  )
}

export const encode = Effect.fnUntraced(function* (golden: Case) {
  const { expect, given } = yield* read(Encode)({ given: golden.given, expect: golden.expect })
  const { context = {}, dynamic } = given
  // Sound: what is not of these types is what the library has to refuse.
  const definition = given.definition as Definition
  const filled = Object.fromEntries(Object.entries(dynamic ?? {}).map(([key, value]) => [key, fill(value, context)]))
  // an agent in code always has a name, and its output is a Schema, not a JSON Schema
  const inCode = dynamic !== undefined && definition.identifier && !definition.structured_output
  const encoded = inCode
    ? encodeAgent(definition, dynamic, context)
    : Effect.flatMap(toDefinition({ ...definition, ...filled }), (made) => AgentDefinition.codec.encode(made, { version: 1 }))
  return yield* checkExit(encoded, expect.error, (wire) => {
    checkWire(wire, expect.wire ?? {})
    if (expect.key_order !== undefined) equal(Object.keys(wire), expect.key_order, "key order")
    for (const key of expect.absent_keys ?? []) assert.isFalse(Object.hasOwn(wire, key), key)
  })
})

const Roundtrip = Schema.Struct({
  given: Schema.Struct({ ...Wire, times: optional(Schema.Number), resolve: optional(Schema.Array(Schema.String)) }),
  expect: Schema.Struct({
    wire: optional(JsonObject),
    text_contains: optional(Schema.Array(Schema.String)),
    error: optional(ExpectedError)
  })
})

const models = ModelRegistry.layerContext.pipe(Layer.provide(ScriptedModel.layer([])))

/** The tools that have a body here are found by name; if some have none, all are stubs. */
const resolver = ({ tools }: AgentDefinition.AgentDefinition, resolve: ReadonlyArray<string> | undefined) => {
  const isLocal = resolve !== undefined && tools.every((tool) => resolve.includes(tool.name))
  if (!isLocal) return ToolResolver.layerStubs()
  const toolkit = Toolkit.make(...tools.map(({ name, parameters }) => Tool.dynamic(name, { parameters })))
  const bodies = Object.fromEntries(tools.map(({ name }) => [name, () => Effect.succeed("done")]))
  return ToolResolver.layerToolkit(toolkit).pipe(Layer.provide(toolkit.toLayer(bodies)))
}

export const roundtrip = Effect.fnUntraced(function* (golden: Case) {
  const { expect, given } = yield* read(Roundtrip)({ given: golden.given, expect: golden.expect })
  const rebuild = (definition: AgentDefinition.AgentDefinition) =>
    Agent.bind(definition).pipe(
      Effect.flatMap((agent) => Agent.encode(agent, { version: 1 })),
      Effect.provide([resolver(definition, given.resolve), models])
    )
  const round = Effect.gen(function* () {
    let wire = yield* Effect.flatMap(decodeGiven(given), rebuild)
    for (let i = 1; i < (given.times ?? 1); i++) wire = yield* Effect.flatMap(decodeGiven({ wire: toJson(wire) }), rebuild)
    return wire
  })
  return yield* checkExit(round, expect.error, (wire) => {
    if (expect.wire !== undefined) checkWire(wire, expect.wire)
    for (const piece of expect.text_contains ?? []) assert.include(JSON.stringify(wire), piece)
  })
})
