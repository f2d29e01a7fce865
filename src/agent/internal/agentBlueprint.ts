/** Agents before a run: their definition, tools and model. */

import type { ConfigError } from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type { JsonObject } from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import { quote } from "../../payload/internal/base.ts"
import { IsCheckedAgain, Limits } from "../../payload/internal/limits.ts"
import * as callOptions from "../../payload/internal/options.ts"
import { PatternEngine } from "../../payload/internal/patterns.ts"
import { problemsFromSchemaError } from "../../payload/internal/problems.ts"
import { appendToken, defined } from "../../payload/internal/values.ts"
import * as definitionChange from "../../run/internal/definitionChange.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as repetition from "../../run/internal/repetition.ts"
import * as retryPolicy from "../../run/internal/retryPolicy.ts"
import type * as runParts from "../../run/internal/runParts.ts"
import * as RunContext from "../../tool/RunContext.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolRuntime from "../../tool/ToolRuntime.ts"
import * as ToolSettings from "../../tool/ToolSettings.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as readyToolkit from "./readyToolkit.ts"
import * as AgentDefinition from "../AgentDefinition.ts"
import type * as AgentError from "../AgentError.ts"
import * as ModelRegistry from "../ModelRegistry.ts"
import * as agentData from "./agentData.ts"
import * as agentOutput from "./agentOutput.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"
import * as agentTool from "./agentTool.ts"
import * as agentTypes from "./agentTypes.ts"
import * as agentValue from "./agentValue.ts"
import * as callContracts from "./callContracts.ts"
import * as guardTypes from "./guardTypes.ts"
import * as modelCall from "./modelCall.ts"
import * as modelTimeouts from "./modelTimeouts.ts"
import * as toolBatch from "./toolBatch.ts"

export type AnyConfig = agentTypes.Config<
  agentTypes.ModelSource | undefined,
  agentTypes.Text,
  agentTypes.Tools,
  Schema.Top,
  agentTypes.ContextSchema,
  unknown
>

type BoundTools = Effect.Effect<ReadonlyArray<boundTool.BoundTool>, AgentError.Reason>

type Part = "instructions" | "toolkit" | "model"

/** By its tag: `effect/Config` would be loaded for its class alone. */
const isConfigError = (error: unknown): error is Pick<ConfigError, "_tag" | "cause"> =>
  Predicate.isTagged(error, "ConfigError") && "cause" in error

/** The variables that are missing or wrong, without their values. */
const configProblem = (error: unknown): string | undefined => {
  if (!isConfigError(error) || !Schema.isSchemaError(error.cause)) return undefined
  const paths = problemsFromSchemaError(error.cause, undefined).map(({ path }) => path.slice(1).replaceAll("/", "_"))
  return paths.includes("") ? undefined : `${paths.join(", ")} is not set, or not valid`
}

/** The problem of a context names keys and kinds, and none of its values. */
const publicProblem = (error: unknown): string | undefined =>
  error instanceof RunContext.RunContextError ? error.message : agentReason.publicTextOf(error)

const prepare = <A>(part: Part, effect: Effect.Effect<A, unknown, unknown>): Effect.Effect<A, AgentError.Reason> =>
  // Sound: the services of the agent's own Effects are part of the agent's public signature.
  Effect.mapError(effect as Effect.Effect<A, unknown>, (error) => {
    const problem = publicProblem(error) ?? configProblem(error)
    return agentReason.makeReason(
      "PreparationFailed",
      { part, error: agentReason.nameOf(error), ...defined({ problem }) },
      error
    )
  })

const readText = (part: Part, text: agentTypes.Text | undefined, runEffects: boolean) => {
  if (!Effect.isEffect(text)) return Effect.succeed(text)
  return runEffects ? prepare(part, text) : Effect.undefined
}

const isPlan = (model: agentTypes.ModelSource | undefined): model is agentTypes.ModelPlan =>
  Predicate.hasProperty(model, "~effect/ExecutionPlan")

const readModel = (model: agentTypes.ModelSource | undefined, runEffects: boolean) => {
  if (isPlan(model)) return Effect.undefined
  if (!Effect.isEffect(model)) return Effect.succeed(model)
  return runEffects ? prepare("model", model) : Effect.undefined
}

/** Checked as the instructions of a definition are. */
const instructionsOf = (
  name: string,
  { instructions }: AnyConfig
): Effect.Effect<string | undefined, AgentError.Reason> =>
  Effect.isEffect(instructions)
    ? Effect.tap(prepare("instructions", instructions), (text) =>
        Effect.mapError(AgentDefinition.make({ name, instructions: text }), agentReason.invalidDefinition)
      )
    : Effect.succeed(instructions)

const isEffectful = (tools: agentTypes.Tools | undefined): boolean =>
  tools !== undefined && !isToolkit(tools) && Effect.isEffect(tools)

const isToolkit = (tools: agentTypes.Tools): tools is Toolkit.Any => Predicate.hasProperty(tools, "~effect/ai/Toolkit")

const readTools = (tools: agentTypes.Tools = []): Effect.Effect<ReadonlyArray<Tool.Any>, AgentError.Reason> => {
  if (isToolkit(tools)) return Effect.succeed(Object.values(tools.tools))
  if (readyToolkit.isReadyToolkit(tools)) return Effect.succeed(readyToolkit.toolsOf(tools))
  return Effect.isEffect(tools)
    ? Effect.flatMap(prepare("toolkit", readyToolkit.withOwnServices(tools)), readTools)
    : rejectDuplicates(tools)
}

/** A list may hold a name twice; a Toolkit keeps the last. */
const rejectDuplicates = (
  tools: ReadonlyArray<Tool.Any>
): Effect.Effect<ReadonlyArray<Tool.Any>, AgentError.Reason> => {
  const twice = tools.find(({ name }, index) => tools.findIndex((tool) => tool.name === name) < index)?.name
  return twice === undefined
    ? Effect.succeed(tools)
    : Effect.fail(agentReason.invalidTools(new boundTool.ToolNameError({ names: [twice, twice], providerName: twice })))
}

/** The tools of an agent without their bodies, for its definition. */
const stubTools = (config: AnyConfig, runEffects: boolean): BoundTools => {
  const { toolkit } = config
  return Effect.flatMap(isEffectful(toolkit) && !runEffects ? Effect.succeed([]) : readTools(toolkit), (tools) =>
    Effect.mapError(Effect.forEach(tools.map(asCalled(config)), stubOf), agentReason.invalidTools)
  )
}

/** The tool keeps the annotation by which an agent is found. */
const stubOf = (tool: Tool.Any) =>
  Effect.flatMap(ToolContract.fromTool(tool), (contract) =>
    Effect.map(boundTool.stubFor(tool, contract), (stub) => ({ ...stub, tool }))
  )

const bindTools = (config: AnyConfig): BoundTools =>
  Effect.flatMap(readTools(config.toolkit), (tools) =>
    Effect.mapError(Effect.forEach(tools.map(asCalled(config)), bindTool), agentReason.invalidTools)
  )

const bindTool = Effect.fnUntraced(function* (tool: Tool.Any) {
  const handler = yield* boundTool.handlerOf(tool)
  return yield* Option.isSome(handler) ? boundTool.fromTool(tool, handler.value) : boundTool.fromProviderTool(tool)
})

/** Fails for a name that no definition may have. */
export const checkName = (name: string) =>
  Effect.mapError(AgentDefinition.make({ name }), agentReason.invalidDefinition)

/** The tools that are known before any run, bound to the handlers in the context; `undefined` if an Effect finds them. */
export const bindStatic = (
  config: AnyConfig
): Effect.Effect<ReadonlyArray<boundTool.BoundTool> | undefined, AgentError.Reason> => {
  if (isEffectful(config.toolkit)) return Effect.succeed(undefined)
  return Effect.tap(bindTools(config), (bound) => Effect.mapError(boundTool.makeSet(bound), agentReason.invalidTools))
}

const offer = Effect.fnUntraced(function* <A>(
  bound: ReadonlyArray<boundTool.BoundTool>,
  output: agentOutput.Output<A>
) {
  const { name, tools } = yield* agentOutput.withOutputTool(bound, output)
  const stubs = tools
    .filter(({ contract, kind }) => kind === "stub" && contract.client === undefined)
    .map(({ contract }) => contract.name)
  return { tools: yield* boundTool.makeSet(tools), stubs, output, outputTool: name }
}, Effect.mapError(agentReason.invalidTools))

const isDescribed = ({ config }: agentTypes.Description["inside"][number], other: unknown) => config === other

/** The definition of an agent that is code, with its tools. */
const describe = Effect.fnUntraced(function* (
  name: string,
  config: AnyConfig,
  toolsOf: BoundTools,
  { inside, runEffects }: agentTypes.Description,
  isWhole = runEffects
) {
  const around = [...inside, { name, config }]
  const cycle = inside.findIndex((one) => isDescribed(one, config))
  if (cycle >= 0) {
    const path = around.slice(cycle).map((one) => JSON.stringify(one.name))
    return yield* Effect.fail(
      agentReason.invalidDefinition({
        message: `expected agents that end, got the cycle ${path.join(" > ")}. Take one agent out of the tools of the next`
      })
    )
  }
  if (isWhole && isPlan(config.model)) {
    const message = "/model: expected names of models, which data can have, got an ExecutionPlan. Name them in a list"
    return yield* Effect.fail(agentReason.invalidDefinition({ message }))
  }
  const output = yield* agentOutput.outputOf(config)
  const bound = yield* toolsOf
  const offered = yield* offer(bound, output)
  const definition = yield* AgentDefinition.make({
    name,
    model: yield* readModel(config.model, runEffects),
    instructions: yield* readText("instructions", config.instructions, isWhole),
    modelOptions: config.modelOptions,
    maxSteps: config.maxSteps,
    output: output._tag === "Text" ? undefined : { schema: output.schema.json, strategy: output.strategy },
    reasoning: config.reasoning,
    context: yield* contextJson(config),
    retry: yield* retryOf(config),
    ...(yield* limitsOf(config)),
    budget: yield* budgetOf(config),
    guards: yield* guardNamesOf(config),
    perRun: perRunOf(config),
    tools: yield* Effect.forEach(bound, (tool) => describeTool(tool, { inside: around, runEffects: isWhole }))
  }).pipe(
    // Its tools were checked when they were bound, and so was its output
    Effect.provideService(IsCheckedAgain, true),
    Effect.mapError(agentReason.invalidDefinition)
  )
  return { ...offered, definition }
})

/** The names of the guards of an agent, which a definition has in their place. */
const guardNamesOf = ({ guards }: AnyConfig): Effect.Effect<ReadonlyArray<string> | undefined, AgentError.Reason> => {
  const message = callOptions.problemOf({ guards: guardTypes.allowed }, { guards })
  return message === undefined
    ? Effect.succeed(guards === undefined || guards.length === 0 ? undefined : guards.map(({ name }) => name))
    : Effect.fail(agentReason.invalidDefinition({ message }))
}

/** The guards that a definition names. */
const namedGuards = ({ guards = [] }: agentData.AgentDefinition) =>
  Effect.flatMap(guardTypes.Known, (known) =>
    Effect.forEach(guards, (name, index) => {
      const found = known.find((guard) => guard.name === name)
      const names = known.map((guard) => quote(guard.name)).join(", ") || "none"
      const message = `/guards/${index}: expected the name of a guard of Guard.layerNamed, which has ${names}, got ${quote(name)}. Provide the guard`
      return found === undefined ? Effect.fail(agentReason.invalidDefinition({ message })) : Effect.succeed(found)
    })
  )

const retryOf = ({ retry }: AnyConfig): Effect.Effect<retryPolicy.RetryPolicy | undefined, AgentError.Reason> => {
  const message = callOptions.problemOf({ retry: retryPolicy.allowed }, { retry })
  return message === undefined
    ? Effect.succeed(retry && retryPolicy.policyOf(retry))
    : Effect.fail(agentReason.invalidDefinition({ message }))
}

const limits = {
  timeouts: agentTypes.timeouts,
  toolChoice: { expected: "an Agent.ToolChoice", fits: Schema.is(Schema.toType(agentData.ToolChoice)) },
  concurrency: { expected: 'a whole number from 1 on or "unbounded"', fits: Schema.is(agentData.Concurrency) },
  repeatedCalls: repetition.allowed
}

/** The limits of an agent that have their own forms as data. */
const limitsOf = ({ concurrency, repeatedCalls, timeouts, toolChoice }: AnyConfig) => {
  const message = callOptions.problemOf(limits, { concurrency, repeatedCalls, timeouts, toolChoice })
  return message === undefined
    ? Effect.succeed({ concurrency, repeatedCalls, toolChoice, timeouts: modelTimeouts.toData(timeouts) })
    : Effect.fail(agentReason.invalidDefinition({ message }))
}

/** A tool as the agent calls it: with the timeout of the agent, where it has none. */
const asCalled =
  ({ timeouts }: AnyConfig) =>
  (given: Tool.Any): Tool.Any => {
    const tool = boundTool.describedTool(given)
    return timeouts?.tool === undefined || Context.getOrUndefined(tool.annotations, ToolSettings.Timeout) !== undefined
      ? tool
      : ToolSettings.timeout(tool, timeouts.tool)
  }

const budgetOf = ({ budget }: AnyConfig): Effect.Effect<ledger.Limits | undefined, AgentError.Reason> => {
  const limits = budget && ledger.limitsOf(budget)
  const message = `expected as budget ${ledger.expected}`
  return budget === undefined || limits !== undefined
    ? Effect.succeed(limits)
    : Effect.fail(agentReason.invalidDefinition({ message }))
}

/** The parts that Effects find for each run. */
const perRunOf = ({ instructions, model, toolkit }: AnyConfig): agentData.AgentDefinition["perRun"] => {
  const parts = [
    ...(Effect.isEffect(instructions) ? ["instructions" as const] : []),
    ...(Effect.isEffect(model) || isPlan(model) ? ["model" as const] : []),
    ...(isEffectful(toolkit) ? ["tools" as const] : [])
  ]
  return parts.length === 0 ? undefined : parts
}

/** A tool in a definition. An agent that an Effect finds, and a plan, have none of their own: they are contracts. */
const describeTool = (
  { contract, tool }: boundTool.BoundTool,
  description: agentTypes.Description
): Effect.Effect<agentData.Tool, AgentError.Reason> => {
  const handoff = agentTool.handoffOf(tool)
  const define = (handoff ?? agentTool.agentOf(tool))?.define
  const described = { ...contract, ...defined({ handoff: handoff?.terms }) }
  if (define === undefined) return Effect.succeed(described)
  return Effect.mapBoth(Effect.andThen(agentData.checkNesting(description.inside.length, ""), define(description)), {
    onFailure: (error) =>
      agentReason.invalidDefinition({ message: `Tool ${JSON.stringify(contract.name)}: ${error.message}` }),
    onSuccess: (agent) => ({ ...described, agent })
  })
}

const unavailable = (model: string | undefined, problem: string, error?: unknown): AgentError.Reason =>
  agentReason.makeReason("ModelRegistryFailed", { model: model ?? "", problem }, error)

/** The refusal of options that only a registry passes on. */
const optionsLost = (options: JsonObject): AgentError.Reason | undefined => {
  const [lost] = Object.keys(options)
  if (lost === undefined) return undefined
  const advice = "Name a model of the registry, or set the option in the layer of the LanguageModel"
  return unavailable(undefined, `a LanguageModel of the context takes no options, got ${quote(lost)}. ${advice}`)
}

const modelOf = (
  model: string | undefined,
  options: JsonObject
): Effect.Effect<LanguageModel.LanguageModel, AgentError.Reason, Scope.Scope> =>
  Effect.contextWith((services: Context.Context<never>) => {
    if (model === undefined) {
      const lost = optionsLost(options)
      if (lost !== undefined) return Effect.fail(lost)
      const problem = "the agent names no model and there is no LanguageModel in its context. Provide one"
      const ambient = Context.getOption(services, LanguageModel.LanguageModel)
      return Option.isSome(ambient) ? Effect.succeed(ambient.value) : Effect.fail(unavailable(model, problem))
    }
    const registry = Context.getOption(services, ModelRegistry.ModelRegistry)
    if (Option.isNone(registry)) {
      return Effect.fail(unavailable(model, "there is no ModelRegistry. Provide ModelRegistry.layer"))
    }
    return Effect.mapError(registry.value.resolve(model, options), (error) => unavailable(model, error.message, error))
  })

type Models = Effect.Effect<agentParts.ModelAgent["models"], AgentError.Reason, Scope.Scope>

const ambient: readonly [undefined] = [undefined]

/** The models of names, or the `LanguageModel` around. All of them are there before the run begins. */
const namedModels = (names: agentData.Models | undefined, options: JsonObject): Models =>
  Effect.forEach(names === undefined ? ambient : agentData.namesOf(names), (name) =>
    Effect.map(modelOf(name, options), (model): agentParts.NamedModel => ({ name, model }))
  )

/** The name that the layer of a model has by `Model.make`; else the number of the step. */
const nameIn = (services: Context.Context<never>, index: number): string => {
  const provider = Context.getOption(services, Model.ProviderName)
  const model = Context.getOption(services, Model.ModelName)
  return Option.isSome(provider) && Option.isSome(model) ? `${provider.value}/${model.value}` : `model ${index + 1}`
}

/** The models of a plan. Its layers live as long as the run. */
const plannedModels = (plan: agentTypes.ModelPlan, options: JsonObject): Models => {
  const lost = optionsLost(options)
  if (lost !== undefined) return Effect.fail(lost)
  const names = new Set<string>()
  return Effect.forEach(plan.steps, ({ attempts, provide, schedule, while: takes }, index) => {
    if (schedule !== undefined) {
      const message = `/model: expected steps without a schedule, got a schedule in step ${index + 1}. Pauses are the pauses of retry`
      return Effect.fail(agentReason.invalidDefinition({ message }))
    }
    const services = Context.isContext(provide) ? Effect.succeed(provide) : prepare("model", Layer.build(provide))
    return Effect.map(services, (found): agentParts.NamedModel => {
      const known = nameIn(found, index)
      const name = names.has(known) ? `${known} (${index + 1})` : known
      names.add(name)
      return {
        name,
        model: Context.get(found, LanguageModel.LanguageModel),
        retries: attempts === undefined ? undefined : attempts - 1,
        takes: takes && ((error) => prepare("model", takes(error)))
      }
    })
  })
}

const optionsOf = ({ modelOptions, reasoning }: agentData.AgentDefinition): JsonObject => ({
  ...modelOptions,
  ...defined({ reasoning })
})

/** Fails if a definition from code has too many agents in it, itself among them. */
export const checkTree = (definition: agentData.AgentDefinition) =>
  Effect.mapError(agentData.treeOf(definition), agentReason.invalidDefinition)

const definitionOfRun = (definition: agentData.AgentDefinition) =>
  Effect.mapError(agentData.ofRun(definition), agentReason.invalidDefinition)

/** The digest of a tool with the agent that it is. */
export const digestOfTool = (tool: agentData.Tool) =>
  Effect.mapError(agentData.digestOfTool(tool, ""), agentReason.invalidDefinition)

/** The parts of an agent that are found for a run, before its model. `stubs`: the tools that only a tool runtime can execute. */
interface Found<out A>
  extends
    Omit<agentParts.ModelAgent, "agents" | "contextWindow" | "guards" | "models" | "output">,
    agentData.RunDefinition {
  readonly output: agentOutput.Output<A>
  readonly stubs: ReadonlyArray<string>
  readonly instructions: Effect.Effect<string | undefined, AgentError.Reason>
}

/** Resolves an agent, whose parts are found for the run. Runs with the same parts and model share one agent. */
const resolveWith = <A>(
  parts: Effect.Effect<Found<A>, AgentError.Reason>,
  guards: guardTypes.Guards = [],
  contextWindow?: agentTypes.Policy | undefined,
  plan?: agentTypes.ModelPlan | undefined
): agentParts.Blueprint<A>["resolve"] => {
  type Last = {
    readonly found: Found<A>
    readonly models: agentParts.ModelAgent["models"]
    readonly agent: agentParts.Resolved<A>
  }
  let last: Last | undefined
  return (choice = {}) =>
    Effect.flatMap(parts, (found) => {
      const { definition } = found
      const options = { ...optionsOf(definition), ...choice.modelOptions, ...defined({ reasoning: choice.reasoning }) }
      const finding =
        plan !== undefined && choice.model === undefined
          ? plannedModels(plan, options)
          : namedModels(choice.model ?? definition.model, options)
      return Effect.flatMap(finding, (models) => {
        if (last?.found !== found || !areSame(last.models, models)) {
          last = { found, models, agent: resolved(found, { ...found, contextWindow, guards, models }) }
        }
        return executable(last.agent, found.stubs)
      })
    })
}

const areSame = (some: agentParts.ModelAgent["models"], others: agentParts.ModelAgent["models"]): boolean =>
  some.length === others.length &&
  some.every(({ model, name }, index) => others[index]?.model === model && others[index].name === name)

/** Fails for tools without a body, unless the tool runtime can execute them. */
const executable = <A>(
  agent: agentParts.Resolved<A>,
  stubs: ReadonlyArray<string>
): Effect.Effect<agentParts.Resolved<A>, AgentError.Reason> =>
  stubs.length === 0
    ? Effect.succeed(agent)
    : Effect.flatMap(ToolRuntime.ToolRuntime, (runtime) =>
        runtime.stubs
          ? Effect.succeed(agent)
          : Effect.fail(agentReason.makeReason("StubWithoutRuntime", { tools: stubs }))
      )

const resolved = <A>(
  { digest, instructions, output, parts }: Found<A>,
  agent: agentParts.ModelAgent
): agentParts.Resolved<A> => {
  const { definition, models } = agent
  return {
    digest,
    modelName: models[0].name,
    maxSteps: definition.maxSteps,
    structured: structuredSteps(agent),
    budget: definition.budget,
    instructions,
    guards: agent.guards,
    asksModel: true,
    output: definition.output?.schema,
    handoffs: handoffsOf(agent),
    parts,
    // A model cannot continue the answer of a plan
    isOf: (state) => definitionChange.definitionOf(state) === digest && state.plan === undefined,
    contractOf: (name) => callContracts.contractOf(agent, name),
    changes: (state) => openChanges(agent, state),
    ask: (run, callIds) => toolBatch.requestApprovals(agent, run, callIds),
    perform: (run, action) =>
      action._tag === "RunTools" ? toolBatch.runTools(agent, run, action) : modelCall.callModel(agent, run, action),
    decode: (text, json) => (output._tag === "Text" ? output.decode(text) : output.decode(json ?? null))
  }
}

/** The agents to which an agent passes conversations on, by name. */
const handoffsOf = ({ tools }: agentParts.ModelAgent): agentParts.Resolved<unknown>["handoffs"] => {
  const found = new Map<string, Effect.Effect<agentParts.Blueprint<unknown>>>()
  for (const { tool } of tools.tools.values()) {
    const { agent, terms } = agentTool.handoffOf(tool) ?? {}
    if (agent !== undefined && terms !== undefined) found.set(terms.agent, Effect.map(agent, agentValue.blueprintOf))
  }
  return found
}

/** When `generateObject` is used, by strategy and by whether tools are offered. */
const structuredSteps = ({ output, tools }: agentParts.ModelAgent): runParts.StructuredSteps => {
  if (output._tag === "Text" || output.strategy !== "native") return "never"
  return tools.tools.size > 0 ? "fallback" : "always"
}

/** The changes of what is open in a state: of its calls, and of the agents inside it that continue. */
const openChanges = Effect.fnUntraced(function* ({ tools }: agentParts.ModelAgent, state: runParts.State) {
  const changes = [...definitionChange.callChanges(state, (name) => tools.tools.get(name)?.contract)]
  if (state.plan !== undefined) {
    changes.push({ path: "/plan", was: "the answer of a plan", now: "the answer of a model", breaking: true })
  }
  for (const { part, status } of state.calls) {
    const tool = tools.tools.get(part.name)
    const behind = tool && agentTool.agentOf(tool.tool)
    if (behind === undefined || status._tag !== "Started" || status.child === undefined) continue
    const inside = yield* agentValue.changesSince(yield* behind.agent, status.child)
    changes.push(...definitionChange.inPart(`${appendToken("/tools", part.name)}/agent`, inside))
  }
  return changes
})

/** Keeps the last success for as long as what it depends on is the same: parts that do not change between runs are found once. */
const onceWhile = <A, E>(
  dependencies: Effect.Effect<ReadonlyArray<unknown>, E>,
  effect: Effect.Effect<A, E>
): Effect.Effect<A, E> => {
  let known: { readonly found: ReadonlyArray<unknown>; readonly value: A } | undefined
  return Effect.flatMap(dependencies, (found) =>
    known !== undefined && known.found.every((one, index) => one === found[index])
      ? Effect.succeed(known.value)
      : Effect.map(effect, (value) => {
          known = { found, value }
          return value
        })
  )
}

const nothing = Effect.succeed<ReadonlyArray<unknown>>([])

/** The handlers in the context, and what decides about schemas: the bound tools of an agent depend on them. */
const bindingsIn = (tools: ReadonlyArray<Tool.Any>): Effect.Effect<ReadonlyArray<unknown>> =>
  Effect.contextWith((context: Context.Context<never>) =>
    Effect.succeed([
      Context.get(context, Limits),
      Context.get(context, PatternEngine),
      ...tools.map((tool): unknown => context.mapUnsafe.get(boundTool.describedTool(tool).id))
    ])
  )

/** The check of the context of a run by the Schema that the agent declares. */
const takingBy = (agent: string, schema: Schema.Codec<unknown, unknown>): agentParts.Blueprint<unknown>["takes"] => {
  const decode = Schema.decodeUnknownEffect(Schema.toCodecJson(schema))
  return (context) =>
    Effect.mapError(decode(context, { errors: "all" }), (error) =>
      agentReason.makeReason("ContextInvalid", { agent, issues: problemsFromSchemaError(error, context) })
    )
}

const contextSchema = (json: JsonObject) =>
  Effect.mapError(JsonSchema.make(json, { what: "context schema" }), agentReason.invalidDefinition)

/** The JSON Schema of the context that an agent declares. Other keys are left as they are: agents inside may read them. */
const contextJson = Effect.fnUntraced(function* ({ context }: AnyConfig) {
  if (context === undefined) return undefined
  const { additionalProperties: others, ...json } = yield* JsonSchema.fromSchema(context, { what: "context schema" })
  return others === undefined || others === false ? json : { ...json, additionalProperties: others }
}, Effect.mapError(agentReason.invalidDefinition))

/** An agent that came as data, with its tools bound, within the services that were captured for it. */
export const fromDefinition = Effect.fnUntraced(function* (
  name: string,
  definition: agentData.AgentDefinition,
  bound: ReadonlyArray<boundTool.BoundTool>,
  within: agentParts.Wrap
) {
  const offered = yield* offer(bound, yield* agentOutput.outputOfDefinition(definition))
  const { output } = offered
  const { context } = definition
  const takes = context && takingBy(name, JsonSchema.codec(yield* contextSchema(context)))
  const instructions = Effect.succeed(definition.instructions)
  const parts = Effect.map(definitionOfRun(definition), (run) => ({ ...offered, definition, instructions, ...run }))
  const resolve = resolveWith(onceWhile(nothing, parts), yield* namedGuards(definition))
  return {
    name,
    output: output._tag === "Text" ? Schema.String : JsonSchema.codec(output.schema),
    takes,
    within,
    resolve,
    check: Effect.fnUntraced(function* (model: string | undefined) {
      yield* resolve({ model })
      const [, ...inside] = yield* Effect.mapError(agentData.treeOf(definition), agentReason.invalidDefinition)
      for (const { definition: one } of inside) yield* namedModels(one.model, optionsOf(one))
    })
  } satisfies agentParts.Blueprint<Schema.Json>
})

/** An agent that is code, within the services that were captured for it. `bound` are its static tools when they were bound before. */
export const fromConfig = (
  name: string,
  config: AnyConfig,
  within: agentParts.Wrap,
  bound?: ReadonlyArray<boundTool.BoundTool>
): agentParts.Blueprint<unknown> => {
  const instructions = instructionsOf(name, config)
  // Instructions are found for messages. The agents inside are described as far as they are known without running them.
  const parts = Effect.flatMap(
    describe(name, config, bound === undefined ? bindTools(config) : Effect.succeed(bound), asRoot, false),
    (described) => Effect.map(definitionOfRun(described.definition), (run) => ({ ...described, instructions, ...run }))
  )
  const { model, toolkit } = config
  const dependencies = bound === undefined ? Effect.flatMap(readTools(toolkit), bindingsIn) : nothing
  const isFound = Effect.isEffect(model) || (bound === undefined && isEffectful(toolkit))
  return {
    name,
    output: outputSchema(config),
    takes: config.context && takingBy(name, config.context),
    within,
    resolve: resolveWith(
      isFound ? parts : onceWhile(dependencies, parts),
      // Sound: the services of the guards are part of the agent's public signature
      config.guards as guardTypes.Guards | undefined,
      config.contextWindow,
      isPlan(model) ? model : undefined
    ),
    // Its parts may depend on the run
    check: (model) => {
      const { modelOptions = {}, reasoning } = config
      return model === undefined ? Effect.void : modelOf(model, { ...modelOptions, ...defined({ reasoning }) })
    }
  }
}

/** The Schema of the answer of an agent that is code. */
export const outputSchema = ({ output }: AnyConfig): Schema.Top => output ?? Schema.String

/** The definition of an agent that is code. */
export const definitionOf =
  (name: string, config: AnyConfig) =>
  (description: agentTypes.Description = asRoot): Effect.Effect<agentData.AgentDefinition, AgentError.Reason> =>
    Effect.map(
      describe(name, config, stubTools(config, description.runEffects), description),
      ({ definition }) => definition
    )

const asRoot: agentTypes.Description = { inside: [], runEffects: true }
