/**
 * An agent before a run: how its model, instructions and tools are found.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type { JsonObject } from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as RunContext from "../../tool/RunContext.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as AgentDefinition from "../AgentDefinition.ts"
import * as AgentError from "../AgentError.ts"
import * as ModelRegistry from "../ModelRegistry.ts"
import type * as agentData from "./agentData.ts"
import * as agentTypes from "./agentTypes.ts"
import type { Budget } from "./runOptions.ts"
import * as structuredOutput from "./structuredOutput.ts"

export interface Resolved<out A> {
  readonly definition: agentData.AgentDefinition
  readonly digest: string
  readonly model: LanguageModel.LanguageModel
  readonly tools: boundTool.ToolSet
  readonly output: structuredOutput.Output<A>
  /** Canonical name of the synthetic tool that takes the output, with the strategy `tool`. */
  readonly outputTool: string | undefined
}

export interface Blueprint<out A> {
  readonly name: string
  readonly budget: Budget | undefined
  /** What it answers, in the words of its author. */
  readonly output: Schema.Top
  readonly define: Effect.Effect<agentData.AgentDefinition, AgentError.Reason>
  readonly resolve: Effect.Effect<Resolved<A>, AgentError.Reason>
  /** Further digests of states that it may go on from. */
  readonly digestsOfOrigin: Effect.Effect<ReadonlyArray<string>, AgentError.Reason>
}

export type AnyConfig = agentTypes.Config<agentTypes.Text | undefined, agentTypes.Text, agentTypes.Tools, Schema.Top>

const toolkitTypeId = "~effect/ai/Toolkit"

const isToolkit = (tools: agentTypes.Tools): tools is Toolkit.Any => Predicate.hasProperty(tools, toolkitTypeId)

const isList = (tools: agentTypes.Tools): tools is ReadonlyArray<Tool.Any> => Array.isArray(tools)

const nameOf = (error: unknown): string => {
  if (Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag)) return error._tag
  return error instanceof Error ? error.name : "an untagged error"
}

const prepare = <A>(part: Part, effect: Effect.Effect<A, unknown, unknown>): Effect.Effect<A, AgentError.Reason> =>
  // Sound: the services of the agent's own Effects are part of the agent's public signature.
  Effect.mapError(effect as Effect.Effect<A, unknown>, (error) =>
    AgentError.makeReason("PreparationFailed", { part, error: nameOf(error), ...publicProblem(error) }, error)
  )

/** What is wrong with a context says keys and kinds, and nothing of its values. */
const publicProblem = (error: unknown): { readonly problem: string } | undefined =>
  error instanceof RunContext.RunContextError ? { problem: error.message } : undefined

const readText = (
  part: Part,
  text: agentTypes.Text | undefined
): Effect.Effect<string | undefined, AgentError.Reason> =>
  Effect.isEffect(text) ? prepare(part, text) : Effect.succeed(text)

interface Failed {
  readonly message: string
}

export const invalidTools = (error: Failed): AgentError.Reason =>
  AgentError.makeReason("ToolSetInvalid", { problem: error.message }, error)

export const invalidDefinition = (error: Failed): AgentError.Reason =>
  AgentError.makeReason("DefinitionInvalid", { problem: error.message }, error)

/** A list may hold a name twice; a Toolkit keeps the last. */
const rejectDuplicates = (
  tools: ReadonlyArray<Tool.Any>
): Effect.Effect<ReadonlyArray<Tool.Any>, AgentError.Reason> => {
  const seen = new Set<string>()
  for (const { name } of tools) {
    if (seen.has(name))
      return Effect.fail(invalidTools(new boundTool.ToolNameError({ names: [name, name], providerName: name })))
    seen.add(name)
  }
  return Effect.succeed(tools)
}

const readTools = (tools: agentTypes.Tools | undefined): Effect.Effect<ReadonlyArray<Tool.Any>, AgentError.Reason> => {
  if (tools === undefined) return Effect.succeed([])
  if (isToolkit(tools)) return Effect.succeed(Object.values(tools.tools))
  if (isList(tools)) return rejectDuplicates(tools)
  return Effect.flatMap(prepare("toolkit", tools), readTools)
}

const contractOf = (tool: Tool.Any): Effect.Effect<ToolContract.ToolContract, ToolContract.ToolContractError> =>
  ToolContract.fromTool(Option.match(agentTypes.agentOf(tool), { onNone: () => tool, onSome: (agent) => agent.tool }))

const bind = Effect.fnUntraced(function* (tool: Tool.Any) {
  const agent = agentTypes.agentOf(tool)
  if (Option.isSome(agent)) return yield* boundTool.fromTool(agent.value.tool, agent.value.handler)
  const handler = yield* boundTool.handlerOf(tool)
  return yield* Option.isSome(handler) ? boundTool.fromTool(tool, handler.value) : boundTool.fromProviderTool(tool)
})

const bindAll = (
  tools: ReadonlyArray<Tool.Any>
): Effect.Effect<ReadonlyArray<boundTool.BoundTool>, AgentError.Reason> =>
  Effect.mapError(Effect.forEach(tools, bind), invalidTools)

/**
 * The tools that are known before any run, bound to the handlers in the context.
 * `undefined` when they are found by an Effect.
 */
export const bindStatic = (
  config: AnyConfig
): Effect.Effect<ReadonlyArray<boundTool.BoundTool> | undefined, AgentError.Reason> => {
  const tools = config.toolkit
  if (tools !== undefined && !isToolkit(tools) && !isList(tools)) return Effect.succeed(undefined)
  return Effect.tap(Effect.flatMap(readTools(tools), bindAll), (bound) =>
    Effect.mapError(boundTool.makeSet(bound), invalidTools)
  )
}

const outputOf = (config: AnyConfig): Effect.Effect<structuredOutput.Output<unknown>, AgentError.Reason> =>
  config.output === undefined
    ? Effect.succeed(structuredOutput.text)
    : Effect.mapError(structuredOutput.fromSchema(config.output, config.outputStrategy ?? "native"), invalidDefinition)

const definitionOf = Effect.fnUntraced(function* (
  name: string,
  config: AnyConfig,
  output: structuredOutput.Output<unknown>,
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
        AgentError.makeReason("ModelRegistryFailed", {
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
    Effect.serviceOption(ModelRegistry.ModelRegistry),
    Option.match({
      onNone: () =>
        Effect.fail(
          AgentError.makeReason("ModelRegistryFailed", {
            model,
            problem: "there is no ModelRegistry. Provide ModelRegistry.layer"
          })
        ),
      onSome: (registry) =>
        Effect.mapError(registry.resolve(model, options), (error) =>
          AgentError.makeReason("ModelRegistryFailed", { model, problem: error.message }, error)
        )
    })
  )

const modelOf = (definition: agentData.AgentDefinition) =>
  definition.model === undefined
    ? ambientModel
    : registeredModel(
        definition.model,
        definition.reasoning === undefined
          ? definition.modelOptions
          : { ...definition.modelOptions, reasoning: definition.reasoning }
      )

type Part = "instructions" | "toolkit" | "model"

/** The definition without what an Effect finds anew for every run. */
const without = (definition: agentData.AgentDefinition, parts: ReadonlyArray<Part>) => {
  const { instructions, model, ...rest } = definition
  return {
    ...rest,
    ...(instructions === undefined || parts.includes("instructions") ? undefined : { instructions }),
    ...(model === undefined || parts.includes("model") ? undefined : { model })
  }
}

const digestOf = (definition: agentData.AgentDefinition) =>
  Effect.mapError(AgentDefinition.digest(definition), invalidDefinition)

/** The digests of states that a rebuilt agent may go on from: nobody here knows which parts Effects found. */
const digestsOfOrigin = (definition: agentData.AgentDefinition) =>
  Effect.forEach([["instructions"], ["model"], ["instructions", "model"]] as const, (parts) =>
    digestOf(without(definition, parts))
  )

type Parts<A> = Omit<Resolved<A>, "model">

/**
 * Everything a run needs but the model, from a definition and the bodies or stubs of
 * its tools. The digest leaves out the parts that Effects found for this run, so that
 * a run can be resumed when they find something else.
 */
const assemble = Effect.fnUntraced(function* <A>(
  definition: agentData.AgentDefinition,
  bound: ReadonlyArray<boundTool.BoundTool>,
  output: structuredOutput.Output<A>,
  found: ReadonlyArray<Part> = []
): Effect.fn.Return<Parts<A>, AgentError.Reason> {
  const digest = yield* digestOf(without(definition, found))
  const withOutput = yield* Effect.mapError(structuredOutput.withOutputTool(bound, output), invalidTools)
  const tools = yield* Effect.mapError(boundTool.makeSet(withOutput.tools), invalidTools)
  return { definition, digest, tools, output, outputTool: withOutput.name }
})

const withModel = <A>(parts: Effect.Effect<Parts<A>, AgentError.Reason>) =>
  Effect.flatMap(parts, (resolved) =>
    Effect.map(modelOf(resolved.definition), (model): Resolved<A> => ({ ...resolved, model }))
  )

/** Keeps the first success: what does not change between runs is found once. */
const once = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => {
  let known: { readonly value: A } | undefined
  const find = Effect.map(effect, (value) => {
    known = { value }
    return value
  })
  return Effect.suspend(() => (known === undefined ? find : Effect.succeed(known.value)))
}

/** An agent that came as data, with its tools bound. */
export const fromDefinition = <A>(
  name: string,
  definition: agentData.AgentDefinition,
  tools: ReadonlyArray<boundTool.BoundTool>,
  output: structuredOutput.Output<A>
): Blueprint<A> => ({
  name,
  budget: undefined,
  output: output._tag === "Text" ? Schema.String : JsonSchema.codec(output.schema),
  define: Effect.succeed(definition),
  resolve: withModel(once(assemble(definition, tools, output))),
  digestsOfOrigin: digestsOfOrigin(definition)
})

/** An agent that is code. `bound` are its static tools when they were bound before. */
export const fromConfig = (
  name: string,
  config: AnyConfig,
  bound: ReadonlyArray<boundTool.BoundTool> | undefined
): Blueprint<unknown> => ({
  name,
  budget: config.budget,
  output: config.output ?? Schema.String,
  digestsOfOrigin: Effect.succeed([]),
  define: Effect.gen(function* () {
    const output = yield* outputOf(config)
    const tools = yield* readTools(config.toolkit)
    const contracts = yield* Effect.mapError(Effect.forEach(tools, contractOf), invalidTools)
    const stubs = yield* Effect.mapError(Effect.forEach(contracts, boundTool.makeStub), invalidTools)
    yield* Effect.mapError(boundTool.makeSet(stubs), invalidTools)
    return yield* definitionOf(name, config, output, contracts)
  }),
  resolve: withModel(resolveParts(name, config, bound))
})

const resolveParts = (
  name: string,
  config: AnyConfig,
  bound: ReadonlyArray<boundTool.BoundTool> | undefined
): Effect.Effect<Parts<unknown>, AgentError.Reason> => {
  const found: ReadonlyArray<Part> = [
    ...(Effect.isEffect(config.instructions) ? (["instructions"] as const) : []),
    ...(Effect.isEffect(config.model) ? (["model"] as const) : [])
  ]
  const parts = Effect.gen(function* () {
    const output = yield* outputOf(config)
    const tools = bound ?? (yield* Effect.flatMap(readTools(config.toolkit), bindAll))
    const contracts = tools.map((tool) => tool.contract)
    return yield* assemble(yield* definitionOf(name, config, output, contracts), tools, output, found)
  })
  const isStatic = found.length === 0 && (bound !== undefined || config.toolkit === undefined)
  return isStatic ? once(parts) : parts
}
