/**
 * An agent before a run: how its model, instructions and tools are found.
 *
 * Whatever services that takes are part of the public signatures of `Agent`; inside
 * they are read from the context of the fiber.
 */
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type { JsonObject } from "../../payload/Json.ts"
import * as BoundTool from "../../tool/BoundTool.ts"
import { RunContextError } from "../../tool/RunContext.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolSet from "../../tool/ToolSet.ts"
import type { AgentConfig, Text, Tools } from "../AgentConfig.ts"
import * as AgentDefinition from "../AgentDefinition.ts"
import * as AgentError from "../AgentError.ts"
import type { BudgetPolicy } from "../BudgetPolicy.ts"
import { ModelRegistry } from "../ModelRegistry.ts"
import { agentOf } from "./agentTool.ts"
import * as Output from "./output.ts"
import { withOutputTool } from "./outputTool.ts"

export interface Resolved<out A> {
  readonly definition: AgentDefinition.AgentDefinition
  readonly digest: string
  readonly model: LanguageModel.LanguageModel
  readonly tools: ToolSet.ToolSet
  readonly output: Output.Output<A>
  /** Canonical name of the synthetic tool that takes the output, with the strategy `tool`. */
  readonly outputTool: string | undefined
}

export interface Blueprint<out A> {
  readonly name: string
  readonly budget: BudgetPolicy | undefined
  /** What it answers, in the words of its author. */
  readonly output: Schema.Top
  readonly define: Effect.Effect<AgentDefinition.AgentDefinition, AgentError.Reason>
  readonly resolve: Effect.Effect<Resolved<A>, AgentError.Reason>
  /** Further digests of states that it may go on from. */
  readonly digestsOfOrigin: Effect.Effect<ReadonlyArray<string>, AgentError.Reason>
}

export type AnyConfig = AgentConfig<Text | undefined, Text, Tools, Schema.Top>

const toolkitTypeId = "~effect/ai/Toolkit"

const isToolkit = (tools: Tools): tools is Toolkit.Any => Predicate.hasProperty(tools, toolkitTypeId)

const isList = (tools: Tools): tools is ReadonlyArray<Tool.Any> => Array.isArray(tools)

const nameOf = (error: unknown): string => {
  if (Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag)) return error._tag
  return error instanceof Error ? error.name : "an untagged error"
}

const prepare = <A>(part: Part, effect: Effect.Effect<A, unknown, unknown>): Effect.Effect<A, AgentError.Reason> =>
  // Sound: the services of the agent's own Effects are part of the agent's public signature.
  Effect.mapError(effect as Effect.Effect<A, unknown>, (error) =>
    AgentError.withCause(new AgentError.PreparationFailed({ part, error: nameOf(error), ...sayable(error) }), error)
  )

/** What is wrong with a context says keys and kinds, and nothing of its values. */
const sayable = (error: unknown): { readonly problem: string } | undefined =>
  error instanceof RunContextError ? { problem: error.message } : undefined

const readText = (part: Part, text: Text | undefined): Effect.Effect<string | undefined, AgentError.Reason> =>
  Effect.isEffect(text) ? prepare(part, text) : Effect.succeed(text)

interface Failed {
  readonly message: string
}

export const invalidTools = (error: Failed): AgentError.Reason =>
  AgentError.withCause(new AgentError.ToolSetInvalid({ problem: error.message }), error)

export const invalidDefinition = (error: Failed): AgentError.Reason =>
  AgentError.withCause(new AgentError.DefinitionInvalid({ problem: error.message }), error)

/** A list may hold a name twice; a Toolkit keeps the last. */
const distinct = (tools: ReadonlyArray<Tool.Any>): Effect.Effect<ReadonlyArray<Tool.Any>, AgentError.Reason> => {
  const seen = new Set<string>()
  for (const { name } of tools) {
    if (seen.has(name))
      return Effect.fail(invalidTools(new ToolSet.ToolNameError({ names: [name, name], providerName: name })))
    seen.add(name)
  }
  return Effect.succeed(tools)
}

const readTools = (tools: Tools | undefined): Effect.Effect<ReadonlyArray<Tool.Any>, AgentError.Reason> => {
  if (tools === undefined) return Effect.succeed([])
  if (isToolkit(tools)) return Effect.succeed(Object.values(tools.tools))
  if (isList(tools)) return distinct(tools)
  return Effect.flatMap(prepare("toolkit", tools), readTools)
}

const contractOf = (tool: Tool.Any): Effect.Effect<ToolContract.ToolContract, ToolContract.ToolContractError> =>
  ToolContract.fromTool(Option.match(agentOf(tool), { onNone: () => tool, onSome: (agent) => agent.tool }))

const bind = Effect.fnUntraced(function* (tool: Tool.Any) {
  const agent = agentOf(tool)
  if (Option.isSome(agent)) return yield* BoundTool.fromTool(agent.value.tool, agent.value.handler)
  const handler = yield* BoundTool.handlerOf(tool)
  return yield* Option.isSome(handler) ? BoundTool.fromTool(tool, handler.value) : BoundTool.provider(tool)
})

const bindAll = (
  tools: ReadonlyArray<Tool.Any>
): Effect.Effect<ReadonlyArray<BoundTool.BoundTool>, AgentError.Reason> =>
  Effect.mapError(Effect.forEach(tools, bind), invalidTools)

/**
 * The tools that are known before any run, bound to the handlers in the context.
 * `undefined` when they are found by an Effect.
 */
export const bindStatic = (
  config: AnyConfig
): Effect.Effect<ReadonlyArray<BoundTool.BoundTool> | undefined, AgentError.Reason> => {
  const tools = config.toolkit
  if (tools !== undefined && !isToolkit(tools) && !isList(tools)) return Effect.succeed(undefined)
  return Effect.tap(Effect.flatMap(readTools(tools), bindAll), (bound) =>
    Effect.mapError(ToolSet.make(bound), invalidTools)
  )
}

const outputOf = (config: AnyConfig): Effect.Effect<Output.Output<unknown>, AgentError.Reason> =>
  config.output === undefined
    ? Effect.succeed(Output.text)
    : Effect.mapError(Output.fromSchema(config.output, config.outputStrategy ?? "native"), invalidDefinition)

const definitionOf = Effect.fnUntraced(function* (
  name: string,
  config: AnyConfig,
  output: Output.Output<unknown>,
  contracts: ReadonlyArray<ToolContract.ToolContract>
) {
  const model = yield* readText("model", config.model)
  const instructions = yield* readText("instructions", config.instructions)
  return yield* AgentDefinition.make({
    name,
    model,
    instructions,
    modelOptions: config.modelOptions,
    maxSteps: config.maxSteps,
    output: output._tag === "Text" ? undefined : { schema: output.schema.json, strategy: output.strategy },
    reasoning: config.reasoning,
    tools: contracts
  }).pipe(Effect.mapError(invalidDefinition))
})

const ambientModel: Effect.Effect<LanguageModel.LanguageModel, AgentError.Reason> = Effect.flatMap(
  Effect.serviceOption(LanguageModel.LanguageModel),
  Option.match({
    onNone: () =>
      Effect.fail(
        new AgentError.ModelRegistryFailed({
          model: "",
          problem: "the agent names no model and there is no LanguageModel in its context. Provide one"
        })
      ),
    onSome: Effect.succeed
  })
)

const registeredModel = (
  model: string,
  options: JsonObject
): Effect.Effect<LanguageModel.LanguageModel, AgentError.Reason> =>
  Effect.flatMap(
    Effect.serviceOption(ModelRegistry),
    Option.match({
      onNone: () =>
        Effect.fail(
          new AgentError.ModelRegistryFailed({
            model,
            problem: "there is no ModelRegistry. Provide ModelRegistry.layer"
          })
        ),
      onSome: (registry) =>
        Effect.mapError(registry.resolve(model, options), (error) =>
          AgentError.withCause(new AgentError.ModelRegistryFailed({ model, problem: error.message }), error)
        )
    })
  )

const modelOf = (definition: AgentDefinition.AgentDefinition) =>
  definition.model === undefined
    ? ambientModel
    : registeredModel(
        definition.model,
        definition.reasoning === undefined
          ? definition.modelOptions
          : { ...definition.modelOptions, reasoning: definition.reasoning }
      )

type Part = AgentError.PreparationFailed["part"]

/** The definition without what an Effect finds anew for every run. */
const without = (definition: AgentDefinition.AgentDefinition, parts: ReadonlyArray<Part>) => {
  const { instructions, model, ...rest } = definition
  return {
    ...rest,
    ...(instructions === undefined || parts.includes("instructions") ? undefined : { instructions }),
    ...(model === undefined || parts.includes("model") ? undefined : { model })
  }
}

const digestOf = (definition: AgentDefinition.AgentDefinition) =>
  Effect.mapError(AgentDefinition.digest(definition), invalidDefinition)

/** The digests of states that a rebuilt agent may go on from: nobody here knows which parts Effects found. */
export const digestsOfOrigin = (definition: AgentDefinition.AgentDefinition) =>
  Effect.forEach([["instructions"], ["model"], ["instructions", "model"]] as const, (parts) =>
    digestOf(without(definition, parts))
  )

/**
 * Everything a run needs, from a definition and the bodies or shells of its tools.
 * `found` are the parts that Effects found for this run: a state of another day has
 * the same digest.
 */
export const complete = Effect.fnUntraced(function* <A>(
  definition: AgentDefinition.AgentDefinition,
  bound: ReadonlyArray<BoundTool.BoundTool>,
  output: Output.Output<A>,
  found: ReadonlyArray<Part> = []
) {
  const model = yield* modelOf(definition)
  const digest = yield* digestOf(without(definition, found))
  const withOutput = yield* Effect.mapError(withOutputTool(bound, output), invalidTools)
  const tools = yield* Effect.mapError(ToolSet.make(withOutput.tools), invalidTools)
  return { definition, digest, model, tools, output, outputTool: withOutput.name } satisfies Resolved<A>
})

/** An agent that is code. `bound` are its static tools when they were bound before. */
export const fromConfig = (
  name: string,
  config: AnyConfig,
  bound: ReadonlyArray<BoundTool.BoundTool> | undefined
): Blueprint<unknown> => ({
  name,
  budget: config.budget,
  output: config.output ?? Schema.String,
  digestsOfOrigin: Effect.succeed([]),
  define: Effect.gen(function* () {
    const output = yield* outputOf(config)
    const tools = yield* readTools(config.toolkit)
    const contracts = yield* Effect.mapError(Effect.forEach(tools, contractOf), invalidTools)
    const shells = yield* Effect.mapError(Effect.forEach(contracts, BoundTool.shell), invalidTools)
    yield* Effect.mapError(ToolSet.make(shells), invalidTools)
    return yield* definitionOf(name, config, output, contracts)
  }),
  resolve: Effect.gen(function* () {
    const output = yield* outputOf(config)
    const tools = bound ?? (yield* Effect.flatMap(readTools(config.toolkit), bindAll))
    const definition = yield* definitionOf(
      name,
      config,
      output,
      tools.map((tool) => tool.contract)
    )
    const found: ReadonlyArray<Part> = [
      ...(Effect.isEffect(config.instructions) ? (["instructions"] as const) : []),
      ...(Effect.isEffect(config.model) ? (["model"] as const) : [])
    ]
    return yield* complete(definition, tools, output, found)
  })
})
