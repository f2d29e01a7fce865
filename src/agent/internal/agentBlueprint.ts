/**
 * Agents as values, and before a run: their methods over captured services, and their definition, tools, model and output.
 */

import type { ConfigError } from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import type * as PayloadError from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import * as convertSchema from "../../payload/internal/convertSchema.ts"
import { IsCheckedAgain } from "../../payload/internal/limits.ts"
import { problemsFromSchemaError } from "../../payload/internal/problems.ts"
import { defined, isArray, kindOf } from "../../payload/internal/values.ts"
import * as liveRun from "../../run/internal/liveRun.ts"
import type { State } from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as RunContext from "../../tool/RunContext.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as readyToolkit from "../../tool/internal/readyToolkit.ts"
import * as AgentDefinition from "../AgentDefinition.ts"
import * as AgentError from "../AgentError.ts"
import * as ModelRegistry from "../ModelRegistry.ts"
import * as agentReason from "./agentReason.ts"
import * as agentData from "./agentData.ts"
import * as agentTypes from "./agentTypes.ts"
import * as driver from "./driver.ts"

/** An agent for one run: its definition and model, its tools as models see them, and its output. */
export interface ResolvedAgent<out A> extends agentData.RunDefinition {
  readonly definition: agentData.AgentDefinition
  readonly model: LanguageModel.LanguageModel
  /** Its name, `undefined` for the `LanguageModel` around. */
  readonly modelName: string | undefined
  readonly tools: boundTool.ToolSet
  /** Names of the tools that only a tool runtime can execute. */
  readonly stubs: ReadonlyArray<string>
  readonly output: Output<A>
  /** The text for the conversation. The definition of a run has it only where no Effect finds it. */
  readonly instructions: Effect.Effect<string | undefined, AgentError.Reason>
  /** Canonical name of the synthetic tool that takes the output, with the strategy `tool`. */
  readonly outputTool: string | undefined
}

type Prepared = Effect.Effect<unknown, AgentError.Reason, Scope.Scope>

export interface Blueprint<out A> {
  readonly name: string
  readonly budget: agentTypes.Budget | undefined
  /** The Schema of its answer, as its author wrote it. */
  readonly output: Schema.Top
  readonly define: (description?: agentTypes.Description) => Effect.Effect<agentData.AgentDefinition, AgentError.Reason>
  /** Resolves the agent with this model in place of its own, if a model is named. The scope is the scope of the run. */
  readonly resolve: (model?: string | undefined) => Effect.Effect<ResolvedAgent<A>, AgentError.Reason, Scope.Scope>
  /** Fails where no run could begin with this model, as far as that is known before one. `prepared`: as for a run. */
  readonly check: (model: string | undefined, prepared: Prepared) => Prepared
}

export type AnyConfig = agentTypes.Config<agentTypes.Text | undefined, agentTypes.Text, agentTypes.Tools, Schema.Top>

type BoundTools = Effect.Effect<ReadonlyArray<boundTool.BoundTool>, AgentError.Reason>

/** The tag of an error, or its name. */
export const nameOf = (error: unknown): string => {
  if (Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag)) return error._tag
  return error instanceof Error ? error.name : "an untagged error"
}

const reasonOf =
  (tag: "ToolSetInvalid" | "DefinitionInvalid") =>
  (error: { readonly message: string }): AgentError.Reason =>
    agentReason.makeReason(tag, { problem: error.message }, error)

const invalidTools = reasonOf("ToolSetInvalid")

const invalidDefinition = reasonOf("DefinitionInvalid")

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
    return agentReason.makeReason("PreparationFailed", { part, error: nameOf(error), ...defined({ problem }) }, error)
  })

const readText = (part: Part, text: agentTypes.Text | undefined, runEffects: boolean) => {
  if (!Effect.isEffect(text)) return Effect.succeed(text)
  return runEffects ? prepare(part, text) : Effect.undefined
}

/** Checked as the instructions of a definition are. */
const instructionsOf = (name: string, { instructions }: AnyConfig): ResolvedAgent<unknown>["instructions"] =>
  Effect.isEffect(instructions)
    ? Effect.tap(prepare("instructions", instructions), (text) =>
        Effect.mapError(AgentDefinition.make({ name, instructions: text }), invalidDefinition)
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
    : Effect.fail(invalidTools(new boundTool.ToolNameError({ names: [twice, twice], providerName: twice })))
}

/** The tools of an agent without their bodies, for its definition. */
const stubTools = ({ toolkit }: AnyConfig, runEffects: boolean): BoundTools =>
  Effect.flatMap(isEffectful(toolkit) && !runEffects ? Effect.succeed([]) : readTools(toolkit), (tools) =>
    Effect.mapError(Effect.forEach(tools.map(boundTool.describedTool), stubOf), invalidTools)
  )

/** The tool keeps the annotation by which an agent is found. */
const stubOf = (tool: Tool.Any) =>
  Effect.flatMap(ToolContract.fromTool(tool), (contract) =>
    Effect.map(boundTool.stubFor(tool, contract), (stub) => ({ ...stub, tool }))
  )

const bindTools = ({ toolkit }: AnyConfig): BoundTools =>
  Effect.flatMap(readTools(toolkit), (tools) =>
    Effect.mapError(Effect.forEach(tools.map(boundTool.describedTool), bindTool), invalidTools)
  )

const bindTool = Effect.fnUntraced(function* (tool: Tool.Any) {
  const handler = yield* boundTool.handlerOf(tool)
  return yield* Option.isSome(handler) ? boundTool.fromTool(tool, handler.value) : boundTool.fromProviderTool(tool)
})

/** Fails for a name that no definition may have. */
export const checkName = (name: string) => Effect.mapError(AgentDefinition.make({ name }), invalidDefinition)

/** The tools that are known before any run, bound to the handlers in the context; `undefined` if an Effect finds them. */
export const bindStatic = (
  config: AnyConfig
): Effect.Effect<ReadonlyArray<boundTool.BoundTool> | undefined, AgentError.Reason> => {
  if (isEffectful(config.toolkit)) return Effect.succeed(undefined)
  return Effect.tap(bindTools(config), (bound) => Effect.mapError(boundTool.makeSet(bound), invalidTools))
}

const offer = Effect.fnUntraced(function* <A>(bound: ReadonlyArray<boundTool.BoundTool>, output: Output<A>) {
  const { name, tools } = yield* withOutputTool(bound, output)
  const stubs = tools.filter(({ kind }) => kind === "stub").map(({ contract }) => contract.name)
  return { tools: yield* boundTool.makeSet(tools), stubs, output, outputTool: name }
}, Effect.mapError(invalidTools))

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
      invalidDefinition({
        message: `expected agents that end, got the cycle ${path.join(" > ")}. Take one agent out of the tools of the next`
      })
    )
  }
  const output = yield* outputOf(config)
  const bound = yield* toolsOf
  const offered = yield* offer(bound, output)
  const definition = yield* AgentDefinition.make({
    name,
    model: yield* readText("model", config.model, runEffects),
    instructions: yield* readText("instructions", config.instructions, isWhole),
    modelOptions: config.modelOptions,
    maxSteps: config.maxSteps,
    output: output._tag === "Text" ? undefined : { schema: output.schema.json, strategy: output.strategy },
    reasoning: config.reasoning,
    perRun: perRunOf(config),
    tools: yield* Effect.forEach(bound, (tool) => describeTool(tool, { inside: around, runEffects: isWhole }))
  }).pipe(
    // Its tools were checked when they were bound, and so was its output
    Effect.provideService(IsCheckedAgain, true),
    Effect.mapError(invalidDefinition)
  )
  return { ...offered, definition }
})

/** The parts that Effects find for each run. */
const perRunOf = ({ instructions, model, toolkit }: AnyConfig): agentData.AgentDefinition["perRun"] => {
  const parts = [
    ...(Effect.isEffect(instructions) ? ["instructions" as const] : []),
    ...(Effect.isEffect(model) ? ["model" as const] : []),
    ...(isEffectful(toolkit) ? ["tools" as const] : [])
  ]
  return parts.length === 0 ? undefined : parts
}

/** A tool in a definition. An agent that an Effect finds, and a plan, have none of their own: they are contracts. */
const describeTool = (
  { contract, tool }: boundTool.BoundTool,
  description: agentTypes.Description
): Effect.Effect<agentData.Tool, AgentError.Reason> => {
  const define = agentOf(tool)?.define
  if (define === undefined) return Effect.succeed(contract)
  return Effect.mapBoth(Effect.andThen(agentData.checkNesting(description.inside.length, ""), define(description)), {
    onFailure: (error) => invalidDefinition({ message: `Tool ${JSON.stringify(contract.name)}: ${error.message}` }),
    onSuccess: (agent) => ({ ...contract, agent })
  })
}

const modelOf = ({
  model,
  modelOptions,
  reasoning
}: Pick<agentData.AgentDefinition, "model" | "modelOptions" | "reasoning">): Effect.Effect<
  LanguageModel.LanguageModel,
  AgentError.Reason,
  Scope.Scope
> =>
  Effect.contextWith((services: Context.Context<never>) => {
    const unavailable = (problem: string, error?: unknown): AgentError.Reason =>
      agentReason.makeReason("ModelRegistryFailed", { model: model ?? "", problem }, error)
    if (model === undefined) {
      const problem = "the agent names no model and there is no LanguageModel in its context. Provide one"
      const ambient = Context.getOption(services, LanguageModel.LanguageModel)
      return Option.isSome(ambient) ? Effect.succeed(ambient.value) : Effect.fail(unavailable(problem))
    }
    const registry = Context.getOption(services, ModelRegistry.ModelRegistry)
    if (Option.isNone(registry)) {
      return Effect.fail(unavailable("there is no ModelRegistry. Provide ModelRegistry.layer"))
    }
    return Effect.mapError(registry.value.resolve(model, { ...modelOptions, ...defined({ reasoning }) }), (error) =>
      unavailable(error.message, error)
    )
  })

/** Fails if a definition from code has too many agents in it, itself among them. */
export const checkTree = (definition: agentData.AgentDefinition) =>
  Effect.mapError(agentData.treeOf(definition), invalidDefinition)

const definitionOfRun = (definition: agentData.AgentDefinition) =>
  Effect.mapError(agentData.ofRun(definition), invalidDefinition)

/** The digest of a tool with the agent that it is. */
export const digestOfTool = (tool: agentData.Tool) =>
  Effect.mapError(agentData.digestOfTool(tool, ""), invalidDefinition)

/** The parts with the model of the run. Runs with the same ones share one agent. */
const withModel = <A>(parts: Effect.Effect<Omit<ResolvedAgent<A>, "model" | "modelName">, AgentError.Reason>) => {
  type Found = Effect.Success<typeof parts>
  let last: { readonly found: Found; readonly agent: ResolvedAgent<A> } | undefined
  return (other?: string) =>
    Effect.flatMap(parts, (found) => {
      const modelName = other ?? found.definition.model
      return Effect.map(modelOf({ ...found.definition, ...defined({ model: modelName }) }), (model) => {
        if (last?.found !== found || last.agent.model !== model || last.agent.modelName !== modelName) {
          last = { found, agent: { ...found, model, modelName } }
        }
        return last.agent
      })
    })
}

/** Keeps the first success: parts that do not change between runs are found once. */
const once = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => {
  let known: Exit.Exit<A> | undefined
  const find = Effect.tap(effect, (value) => {
    known = Exit.succeed(value)
    return known
  })
  return Effect.suspend(() => known ?? find)
}

/** An agent that came as data, with its tools bound. */
export const fromDefinition = Effect.fnUntraced(function* (
  name: string,
  definition: agentData.AgentDefinition,
  bound: ReadonlyArray<boundTool.BoundTool>
) {
  const offered = yield* offer(bound, yield* outputOfDefinition(definition))
  const { output } = offered
  const blueprint: Blueprint<Schema.Json> = {
    name,
    budget: undefined,
    output: output._tag === "Text" ? Schema.String : JsonSchema.codec(output.schema),
    define: () => Effect.succeed(definition),
    resolve: withModel(
      once(
        Effect.map(definitionOfRun(definition), (run) => ({
          ...offered,
          definition,
          instructions: Effect.succeed(definition.instructions),
          ...run
        }))
      )
    ),
    check: Effect.fnUntraced(function* (_, prepared) {
      yield* prepared
      const [, ...inside] = yield* Effect.mapError(agentData.treeOf(definition), invalidDefinition)
      yield* Effect.forEach(inside, (one) => modelOf(one.definition), { discard: true })
    })
  }
  return blueprint
})

/** An agent that is code. `bound` are its static tools when they were bound before. */
export const fromConfig = (
  name: string,
  config: AnyConfig,
  bound: ReadonlyArray<boundTool.BoundTool> | undefined
): Blueprint<unknown> => {
  const instructions = instructionsOf(name, config)
  // Instructions are found for messages. The agents inside are described as far as they are known without running them.
  const parts = Effect.flatMap(
    describe(name, config, bound === undefined ? bindTools(config) : Effect.succeed(bound), asRoot, false),
    (described) => Effect.map(definitionOfRun(described.definition), (run) => ({ ...described, instructions, ...run }))
  )
  const isStatic = !Effect.isEffect(config.model) && (bound !== undefined || config.toolkit === undefined)
  return {
    name,
    budget: config.budget,
    output: config.output ?? Schema.String,
    define: (description = asRoot) =>
      Effect.map(
        describe(name, config, stubTools(config, description.runEffects), description),
        ({ definition }) => definition
      ),
    resolve: withModel(isStatic ? once(parts) : parts),
    // Its parts may depend on the run
    check: (model) => {
      const { modelOptions = {}, reasoning } = config
      return model === undefined ? Effect.void : modelOf({ model, modelOptions, ...defined({ reasoning }) })
    }
  }
}

const asRoot: agentTypes.Description = { inside: [], runEffects: true }

export interface StructuredOutput<out A> {
  readonly _tag: "Structured"
  readonly strategy: agentData.OutputStrategy
  readonly schema: JsonSchema.JsonSchema
  /** The schema that a provider receives: an object, the output under `value` when it is none itself. */
  readonly offered: JsonSchema.JsonSchema
  readonly forAdapter: () => OfferedOutput
  readonly decode: (value: Schema.Json) => Effect.Effect<A, ReadonlyArray<PayloadError.Problem>>
}

interface TextOutput<out A> {
  readonly _tag: "Text"
  readonly decode: (text: string) => Effect.Effect<A, ReadonlyArray<PayloadError.Problem>>
}

export type Output<A> = StructuredOutput<A> | TextOutput<A>

const textOutput: TextOutput<string> = { _tag: "Text", decode: Effect.succeed }

/** The key of an output that is no object in the object that a provider receives. */
export const wrapperKey = "value"

const wrap = ({ $defs, $schema, definitions, ...schema }: Json.JsonObject): Json.JsonObject => ({
  ...defined({ $schema }),
  type: "object",
  properties: { [wrapperKey]: schema },
  required: [wrapperKey],
  additionalProperties: false,
  ...defined({ $defs, definitions })
})

/** An output for a provider's adapter. */
interface OfferedOutput {
  readonly schema: Schema.Codec<unknown>
  /** False where an adapter may leave a part of the JSON Schema out. */
  readonly isWhole: boolean
}

type Offer = (offered: JsonSchema.JsonSchema, isWrapped: boolean) => OfferedOutput

/** The types of some values, for providers that want a type beside an `enum`. */
const typeOfAll = (values: ReadonlyArray<Schema.Json>): Schema.Json => {
  const [type = "null", ...others] = new Set(values.map(kindOf))
  return others.length === 0 ? type : [type, ...others]
}

/** The schema without `const`, `oneOf` and `definitions`, which not all providers know. Alternatives may overlap then. */
const simplify = (schema: Json.JsonObject): Json.JsonObject => {
  const parts = convertSchema.mapSubschemas(schema, simplify)
  const { $defs, $ref, $schema: _, const: only, definitions, enum: list, oneOf, ...rest } = parts
  const values = list ?? (only === undefined ? undefined : [only])
  return defined({
    $ref: typeof $ref === "string" ? $ref.replace(/^#\/definitions\//, "#/$defs/") : undefined,
    type: isArray(values) ? typeOfAll(values) : undefined,
    enum: values,
    ...(rest["anyOf"] === undefined ? { anyOf: oneOf } : { oneOf }),
    ...rest,
    $defs: $defs ?? definitions
  })
}

/** Keywords that the adapters of all providers keep, or put into words. */
const keptKeywords = new Set(
  "$ref $defs type title description enum anyOf properties required additionalProperties items pattern format".split(
    " "
  )
)

const isKept = (schema: Json.JsonObject): boolean => {
  let kept = Object.keys(schema).every((key) => keptKeywords.has(key))
  convertSchema.mapSubschemas(schema, (part) => {
    kept &&= isKept(part)
    return part
  })
  return kept
}

/** The output of a document: in the strict form, if it has one. What the model answers is checked by the document. */
const offerDocument: Offer = (offered) => {
  const plain = simplify(offered.json)
  const strict = JsonSchema.toStrict(plain)
  const shown = Result.getOrElse(strict, () => plain)
  return {
    schema: convertSchema.checkedBy(offered, shown),
    isWhole: Result.isSuccess(strict) && isKept(shown)
  }
}

const structured = Effect.fnUntraced(function* <A>(
  json: Json.JsonObject,
  strategy: agentData.OutputStrategy,
  decode: StructuredOutput<A>["decode"],
  offer: Offer
) {
  const schema = yield* JsonSchema.make(json, { what: "output schema" })
  const isObjectSchema = json["type"] === "object"
  const offered = isObjectSchema ? schema : yield* JsonSchema.make(wrap(json), { what: "output schema" })
  const forAdapter = base.once(() => offer(offered, offered !== schema))
  return { _tag: "Structured", strategy, schema, offered, forAdapter, decode } satisfies StructuredOutput<A>
}, Effect.mapError(invalidDefinition))

/** The output of an agent that is code: a Schema. */
const outputOf = ({
  output,
  outputStrategy = "native"
}: AnyConfig): Effect.Effect<Output<unknown>, AgentError.Reason> => {
  if (output === undefined) return Effect.succeed(textOutput)
  const decodeJson = Schema.decodeUnknownEffect(Schema.toCodecJson(output))
  const decode = (value: Schema.Json) =>
    // Sound: the services of the output Schema are among those a run of the agent requires.
    Effect.mapError(decodeJson(value, { errors: "all" }), (error) =>
      problemsFromSchemaError(error, value)
    ) as Effect.Effect<unknown, ReadonlyArray<PayloadError.Problem>>
  const json = Effect.mapError(JsonSchema.fromSchema(output, { what: "output schema" }), invalidDefinition)
  const encoded = Schema.toEncoded(Schema.toCodecJson(output))
  const offerSchema: Offer = (_, isWrapped) => ({
    // Sound: an encoded side needs no services
    schema: (isWrapped ? Schema.Struct({ [wrapperKey]: encoded }) : encoded) as Schema.Codec<unknown>,
    isWhole: true
  })
  const offer = convertSchema.isDocument(output) ? offerDocument : offerSchema
  return Effect.flatMap(json, (json) => structured(json, outputStrategy, decode, offer))
}

/** The output of an agent that came as data: its JSON Schema alone decides. */
const outputOfDefinition = ({
  output
}: agentData.AgentDefinition): Effect.Effect<Output<Schema.Json>, AgentError.Reason> =>
  output === undefined
    ? Effect.succeed(textOutput)
    : structured(output.schema, output.strategy, Effect.succeed, offerDocument)

/** The tools and, where the strategy asks for it, one more that the run never dispatches. */
const withOutputTool = Effect.fnUntraced(function* (
  tools: ReadonlyArray<boundTool.BoundTool>,
  output: Output<unknown>
) {
  if (output._tag === "Text" || output.strategy !== "tool") return { tools, name: undefined }
  let name = "final_answer"
  while (tools.some(({ contract }) => contract.name === name)) name = `_${name}`
  const contract = yield* ToolContract.make({
    name,
    description: "Return your final answer. Call this once, when you are done, and nothing else with it.",
    parameters: output.offered.json
  })
  const stub = yield* boundTool.makeStub(contract)
  const taken = Option.some(() => Effect.succeed(ToolResult.success(null)))
  const tool: boundTool.BoundTool = { ...stub, kind: "local", body: taken }
  return { tools: [...tools, tool], name }
})

interface AgentBehind {
  /** Whatever the agent requires is required by the run of the agent that has the tool. */
  readonly agent: Effect.Effect<agentTypes.Agent<unknown>>
  /** Its definition, if it has one before it is found. What that requires is in the type of the tool. */
  readonly define: agentTypes.HasDefinition<never>[agentTypes.DefinedTypeId] | undefined
}

export class BehindTool extends Context.Service<BehindTool, AgentBehind>()(
  "effect-emissary/agent/internal/BehindTool"
) {}

/** The tool that an agent is in a definition. */
export const bindAgent = (
  contract: ToolContract.ToolContract,
  behind: AgentBehind
): Effect.Effect<boundTool.BoundTool, ToolContract.ToolContractError> =>
  Effect.map(boundTool.makeStub(contract), (stub) => ({
    ...stub,
    kind: "local",
    tool: Object.assign(stub.tool, { annotations: Context.add(stub.tool.annotations, BehindTool, behind) }),
    body: Option.some(() => Effect.die(new Error("a run executes the calls of its agents itself")))
  }))

/** The agent that a tool is, if it is one. */
export const agentOf = (tool: Tool.Any): AgentBehind | undefined =>
  Option.getOrUndefined(Context.getOption(tool.annotations, BehindTool))

const outputSchemaKey = "~effect-emissary/agent/Agent/OutputSchema"

/** The member of an agent with the Schema of its output. Copies of an agent keep it. */
export const withOutputSchema = (schema: Schema.Top | undefined): { readonly [outputSchemaKey]?: Schema.Top } =>
  schema === undefined ? {} : { [outputSchemaKey]: schema }

export const outputSchemaOf = (agent: unknown): Option.Option<Schema.Top> =>
  Predicate.hasProperty(agent, outputSchemaKey) && Schema.isSchema(agent[outputSchemaKey])
    ? Option.some(agent[outputSchemaKey])
    : Option.none()

/** Provides the services that were captured for an effect. */
export type Wrap = <B, E>(effect: Effect.Effect<B, E>) => Effect.Effect<B, E>

const partsKey = "~effect-emissary/agent/Agent/Parts"

/** The parts that an agent was made of. Every run is `within` the captured services. */
interface Parts<out A> {
  readonly machine: driver.AgentMachine<A>
  readonly output: Schema.Top | undefined
  readonly within: Wrap
}

/** The parts of an agent. Copies of an agent keep them. */
const partsOf = <A>(agent: agentTypes.Agent<A, unknown>): Parts<A> =>
  // Sound: all agents are made by `makeAgent`.
  (agent as typeof agent & { readonly [partsKey]: Parts<A> })[partsKey]

/** The changes of an agent since a state, as far as the agent can be known before it runs. */
export const changesSince = (
  agent: agentTypes.Agent<unknown>,
  state: State
): Effect.Effect<ReadonlyArray<ToolContract.Change>> => {
  const { machine, within } = partsOf(agent)
  return within(driver.changesSince(machine, state))
}

/** Fails where no run of an agent could begin with this model in place of its own, as far as that is known before a run. */
export const check = (
  agent: agentTypes.Agent<unknown>,
  model?: string
): Effect.Effect<unknown, AgentError.AgentError> => {
  const { machine, within } = partsOf(agent)
  return Effect.mapError(
    within(Effect.scoped(machine.check?.(model) ?? Effect.void)),
    (reason) => new AgentError.AgentError({ agent: machine.name, reason })
  )
}

/** The agent over services that it requires. */
export const over = <A, R>(agent: agentTypes.Agent<A, R>, services: Context.Context<R>): agentTypes.Agent<A> => {
  const { machine, output, within } = partsOf(agent)
  return {
    ...agent,
    ...makeAgent(machine, { output, within: (effect) => Effect.provideContext(within(effect), services) })
  }
}

const openWith = <A>({ machine, within }: Parts<A>, begin: driver.Begin, spec: driver.Spec, access?: liveRun.Access) =>
  new liveRun.LiveRun(
    (live: driver.Performing) => within(driver.runAgent(live, machine, begin, spec)),
    driver.joinDeltas,
    access
  )

/** Opens a run of an agent as a part of something else. */
export const open = <A>(
  agent: agentTypes.Agent<A>,
  begin: driver.Begin,
  spec: driver.Spec,
  access?: liveRun.Access
): driver.Live<A> => openWith(partsOf(agent), begin, spec, access)

/** Runs an agent inside another run, from its state there, if there is one. It can have been cut off before it had its input. */
export const runInside = <A>(
  agent: agentTypes.Agent<A>,
  {
    context,
    input,
    options,
    state
  }: Pick<driver.Begin, "input" | "options"> & {
    readonly context: State["context"]
    readonly state: State | undefined
  },
  spec: Pick<driver.Spec, "deadline" | "parent" | "streaming">
): Effect.Effect<agentTypes.Result<A>, AgentError.AgentError> =>
  open(
    agent,
    state === undefined
      ? { input, options: { ...options, context } }
      : { state, input: runTransition.hasInput(state) ? undefined : input, options },
    { ...spec, isPart: true }
  ).result

/** Sound: a run refuses it before anything is read. Without a state it would begin. */
const noState = {} as State

const resumed = (state: State, given: agentTypes.ResumeOptions = {}): driver.Begin => {
  // A caller without types may pass anything, which the run refuses
  if (typeof given !== "object" || given === null) return { state, input: undefined, options: given }
  const { input, ...options } = given
  return { state: state ?? noState, input, options }
}

/** The agent that a machine makes. */
export const makeAgent = <A>(
  machine: driver.AgentMachine<A>,
  { output, within }: Omit<Parts<A>, "machine">
): agentTypes.Agent<A> => {
  const parts: Parts<A> = { machine, output, within }
  const run = (begin: driver.Begin) => openWith(parts, begin, {}).result
  const stream = (begin: driver.Begin) =>
    // Sound: the only event that holds an A is the last, and it is this very run's.
    liveRun.streamOf(() => openWith(parts, begin, { streaming: true }, { reads: true })) as Stream.Stream<
      agentTypes.AgentEvent<A>,
      AgentError.AgentError
    >
  const agent: agentTypes.Agent<A> & { readonly [partsKey]: Parts<A> } = {
    [agentTypes.TypeId]: agentTypes.TypeId,
    [partsKey]: parts,
    name: machine.name,
    run: (input, options = {}) => run({ input, options }),
    ask: (input, options = {}) => Effect.flatMap(run({ input, options }), driver.answerOf),
    stream: (input, options = {}) => stream({ input, options }),
    resume: (state, options) => run(resumed(state, options)),
    resumeStream: (state, options) => stream(resumed(state, options)),
    ...withOutputSchema(output)
  }
  return agent
}

/**
 * Runs an effect over captured services. A service of the call never replaces a captured service, see
 * {@link callContext.over}.
 */
export const withCaptured = (captured: Context.Context<never>): Wrap => {
  const over = callContext.over(captured)
  return (effect) => Effect.updateContext(effect, over)
}
