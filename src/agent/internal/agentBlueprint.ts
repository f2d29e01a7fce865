/**
 * Agents as values, and before a run: their methods over captured services, and their definition, tools, model and output.
 */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import type * as PayloadError from "../../payload/PayloadError.ts"
import { defined, problemsFromSchemaError } from "../../payload/internal/plainJson.ts"
import * as RunContext from "../../tool/RunContext.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as AgentDefinition from "../AgentDefinition.ts"
import type * as AgentError from "../AgentError.ts"
import * as ModelRegistry from "../ModelRegistry.ts"
import * as agentReason from "./agentReason.ts"
import type * as agentData from "./agentData.ts"
import * as agentTypes from "./agentTypes.ts"
import * as driver from "./driver.ts"

/** An agent for one run: its definition and model, its tools as models see them, and its output. */
export interface ResolvedAgent<out A> {
  readonly definition: agentData.AgentDefinition
  readonly digest: string
  readonly model: LanguageModel.LanguageModel
  readonly tools: boundTool.ToolSet
  /** Names of the tools that only a tool runtime can execute. */
  readonly stubs: ReadonlyArray<string>
  readonly output: Output<A>
  /** Canonical name of the synthetic tool that takes the output, with the strategy `tool`. */
  readonly outputTool: string | undefined
}

export interface Blueprint<out A> {
  readonly name: string
  readonly budget: agentTypes.Budget | undefined
  /** The Schema of its answer, as its author wrote it. */
  readonly output: Schema.Top
  readonly define: Effect.Effect<agentData.AgentDefinition, AgentError.Reason>
  /** The scope is that of the run. */
  readonly resolve: Effect.Effect<ResolvedAgent<A>, AgentError.Reason, Scope.Scope>
  /** Further digests of states that it may continue. */
  readonly digestsOfOrigin: Effect.Effect<ReadonlyArray<string>, AgentError.Reason>
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

const prepare = <A>(part: Part, effect: Effect.Effect<A, unknown, unknown>): Effect.Effect<A, AgentError.Reason> =>
  // Sound: the services of the agent's own Effects are part of the agent's public signature.
  Effect.mapError(effect as Effect.Effect<A, unknown>, (error) => {
    // The problem of a context names keys and kinds, and none of its values.
    const problem = error instanceof RunContext.RunContextError ? error.message : undefined
    return agentReason.makeReason("PreparationFailed", { part, error: nameOf(error), ...defined({ problem }) }, error)
  })

const readText = (part: Part, text: agentTypes.Text | undefined) =>
  Effect.isEffect(text) ? prepare(part, text) : Effect.succeed(text)

const isToolkit = (tools: agentTypes.Tools): tools is Toolkit.Any => Predicate.hasProperty(tools, "~effect/ai/Toolkit")

const readTools = (tools: agentTypes.Tools = []): Effect.Effect<ReadonlyArray<Tool.Any>, AgentError.Reason> => {
  if (isToolkit(tools)) return Effect.succeed(Object.values(tools.tools))
  return Effect.isEffect(tools) ? Effect.flatMap(prepare("toolkit", tools), readTools) : rejectDuplicates(tools)
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
const stubTools = ({ toolkit }: AnyConfig): BoundTools =>
  Effect.flatMap(readTools(toolkit), (tools) => {
    const contracts = Effect.forEach(tools, (tool) => ToolContract.fromTool(agentOf(tool)?.tool ?? tool))
    return Effect.mapError(
      Effect.flatMap(contracts, (all) => Effect.forEach(all, boundTool.makeStub)),
      invalidTools
    )
  })

const bindTools = ({ toolkit }: AnyConfig): BoundTools =>
  Effect.flatMap(readTools(toolkit), (tools) => Effect.mapError(Effect.forEach(tools, bindTool), invalidTools))

const bindTool = Effect.fnUntraced(function* (tool: Tool.Any) {
  const agent = agentOf(tool)
  if (agent !== undefined) return yield* boundTool.fromTool(agent.tool, agent.handler)
  const handler = yield* boundTool.handlerOf(tool)
  return yield* Option.isSome(handler) ? boundTool.fromTool(tool, handler.value) : boundTool.fromProviderTool(tool)
})

/** The tools that are known before any run, bound to the handlers in the context; `undefined` if an Effect finds them. */
export const bindStatic = (
  config: AnyConfig
): Effect.Effect<ReadonlyArray<boundTool.BoundTool> | undefined, AgentError.Reason> => {
  const { toolkit = [] } = config
  if (!isToolkit(toolkit) && Effect.isEffect(toolkit)) return Effect.succeed(undefined)
  return Effect.tap(bindTools(config), (bound) => Effect.mapError(boundTool.makeSet(bound), invalidTools))
}

const offer = Effect.fnUntraced(function* <A>(bound: ReadonlyArray<boundTool.BoundTool>, output: Output<A>) {
  const { name, tools } = yield* withOutputTool(bound, output)
  const stubs = tools.filter(({ kind }) => kind === "stub").map(({ contract }) => contract.name)
  return { tools: yield* boundTool.makeSet(tools), stubs, output, outputTool: name }
}, Effect.mapError(invalidTools))

/** The definition of an agent that is code, with its tools. */
const describe = Effect.fnUntraced(function* (name: string, config: AnyConfig, toolsOf: BoundTools) {
  const output = yield* outputOf(config)
  const bound = yield* toolsOf
  const offered = yield* offer(bound, output)
  const definition = yield* AgentDefinition.make({
    name,
    model: yield* readText("model", config.model),
    instructions: yield* readText("instructions", config.instructions),
    modelOptions: config.modelOptions,
    maxSteps: config.maxSteps,
    output: output._tag === "Text" ? undefined : { schema: output.schema.json, strategy: output.strategy },
    reasoning: config.reasoning,
    tools: bound.map(({ contract }) => contract)
  }).pipe(Effect.mapError(invalidDefinition))
  return { ...offered, definition }
})

const modelOf = Effect.fnUntraced(function* ({ model, modelOptions, reasoning }: agentData.AgentDefinition) {
  const unavailable = (problem: string, error?: unknown): AgentError.Reason =>
    agentReason.makeReason("ModelRegistryFailed", { model: model ?? "", problem }, error)
  if (model === undefined) {
    const problem = "the agent names no model and there is no LanguageModel in its context. Provide one"
    const ambient = yield* Effect.serviceOption(LanguageModel.LanguageModel)
    return yield* Effect.mapError(Effect.fromOption(ambient), () => unavailable(problem))
  }
  const registry = yield* Effect.serviceOption(ModelRegistry.ModelRegistry)
  if (Option.isNone(registry)) {
    return yield* Effect.fail(unavailable("there is no ModelRegistry. Provide ModelRegistry.layer"))
  }
  return yield* Effect.mapError(
    registry.value.resolve(model, { ...modelOptions, ...defined({ reasoning }) }),
    (error) => unavailable(error.message, error)
  )
})

/** The digest of a definition without the parts that Effects find for each run, so that a run can be resumed then. */
const digestWithout = (definition: agentData.AgentDefinition, parts: ReadonlyArray<Part>) => {
  const { instructions, model, ...rest } = definition
  const kept = defined({
    instructions: parts.includes("instructions") ? undefined : instructions,
    model: parts.includes("model") ? undefined : model
  })
  return Effect.mapError(AgentDefinition.digest({ ...rest, ...kept }), invalidDefinition)
}

const withModel = <A>(parts: Effect.Effect<Omit<ResolvedAgent<A>, "model">, AgentError.Reason>) =>
  Effect.flatMap(parts, (resolved) =>
    Effect.map(modelOf(resolved.definition), (model): ResolvedAgent<A> => ({ ...resolved, model }))
  )

/** Keeps the first success: parts that do not change between runs are found once. */
const once = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E> => {
  let known: { readonly value: A } | undefined
  const find = Effect.map(effect, (value) => {
    known = { value }
    return value
  })
  return Effect.suspend(() => (known === undefined ? find : Effect.succeed(known.value)))
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
    define: Effect.succeed(definition),
    resolve: withModel(
      once(Effect.map(digestWithout(definition, []), (digest) => ({ ...offered, definition, digest })))
    ),
    // The parts that Effects found are unknown here.
    digestsOfOrigin: Effect.forEach([["instructions"], ["model"], ["instructions", "model"]] as const, (parts) =>
      digestWithout(definition, parts)
    )
  }
  return blueprint
})

/** An agent that is code. `bound` are its static tools when they were bound before. */
export const fromConfig = (
  name: string,
  config: AnyConfig,
  bound: ReadonlyArray<boundTool.BoundTool> | undefined
): Blueprint<unknown> => {
  const { instructions, model, toolkit } = config
  const found = [
    ...(Effect.isEffect(instructions) ? ["instructions" as const] : []),
    ...(Effect.isEffect(model) ? ["model" as const] : [])
  ]
  const parts = Effect.flatMap(
    describe(name, config, bound === undefined ? bindTools(config) : Effect.succeed(bound)),
    (described) => Effect.map(digestWithout(described.definition, found), (digest) => ({ ...described, digest }))
  )
  const isStatic = found.length === 0 && (bound !== undefined || toolkit === undefined)
  return {
    name,
    budget: config.budget,
    output: config.output ?? Schema.String,
    digestsOfOrigin: Effect.succeed([]),
    define: Effect.map(describe(name, config, stubTools(config)), ({ definition }) => definition),
    resolve: withModel(isStatic ? once(parts) : parts)
  }
}

export interface StructuredOutput<out A> {
  readonly _tag: "Structured"
  readonly strategy: agentData.OutputStrategy
  readonly schema: JsonSchema.JsonSchema
  /** The schema that a provider receives: an object, the output under `value` when it is none itself. */
  readonly offered: JsonSchema.JsonSchema
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

const wrap = ({ $defs, $schema, ...schema }: Json.JsonObject): Json.JsonObject => ({
  ...defined({ $schema }),
  type: "object",
  properties: { [wrapperKey]: schema },
  required: [wrapperKey],
  additionalProperties: false,
  ...defined({ $defs })
})

const structured = Effect.fnUntraced(function* <A>(
  json: Json.JsonObject,
  strategy: agentData.OutputStrategy,
  decode: StructuredOutput<A>["decode"]
) {
  const schema = yield* JsonSchema.make(json, { what: "output schema" })
  const isObjectSchema = json["type"] === "object"
  const offered = isObjectSchema ? schema : yield* JsonSchema.make(wrap(json), { what: "output schema" })
  return { _tag: "Structured", strategy, schema, offered, decode } satisfies StructuredOutput<A>
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
  return Effect.flatMap(json, (json) => structured(json, outputStrategy, decode))
}

/** The output of an agent that came as data: its JSON Schema alone decides. */
const outputOfDefinition = ({
  output
}: agentData.AgentDefinition): Effect.Effect<Output<Schema.Json>, AgentError.Reason> =>
  output === undefined ? Effect.succeed(textOutput) : structured(output.schema, output.strategy, Effect.succeed)

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
  /** The tool as it is offered and described. */
  readonly tool: Tool.Any
  /** Its body where no driver takes over, on a server of tools for example. */
  readonly handler: Tool.Handler<string>
  /** Whatever the agent requires is required by the run of the agent that has the tool. */
  readonly agent: Effect.Effect<agentTypes.Agent<unknown>>
}

export class BehindTool extends Context.Service<BehindTool, AgentBehind>()(
  "effect-emissary/agent/internal/BehindTool"
) {}

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

/** The agent that a machine makes. Every run is `within` the captured services. */
export const makeAgent = <A>(
  machine: driver.AgentMachine<A>,
  { output, within }: { readonly output: Schema.Top | undefined; readonly within: Wrap }
): agentTypes.Agent<A> => {
  const run = (begin: driver.Begin, sink = driver.silent) =>
    within(
      Effect.withSpan(driver.runAgent(machine, begin, sink), `invoke_agent ${machine.name}`, {
        attributes: { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": machine.name }
      })
    )
  const stream = (begin: driver.Begin) =>
    driver.streamOf<agentTypes.AgentEvent<A>, AgentError.AgentError>((emit) =>
      // Sound: the only event that holds an A is the last, and it is this very run's.
      run(begin, { streaming: true, emit: (event) => emit(event as agentTypes.AgentEvent<A>) })
    )
  return {
    [agentTypes.TypeId]: agentTypes.TypeId,
    name: machine.name,
    run: (input, options = {}) => run({ input, options }),
    ask: (input, options = {}) => Effect.flatMap(run({ input, options }), driver.answerOf),
    stream: (input, options = {}) => stream({ input, options }),
    resume: (state, { input, ...options } = {}) => run({ state, input, options }),
    resumeStream: (state, { input, ...options } = {}) => stream({ state, input, options }),
    ...withOutputSchema(output)
  }
}

/** Runs an effect over captured services, which stay those that were captured, see {@link callContext.over}. */
export const withCaptured = (captured: Context.Context<never>): Wrap => {
  const over = callContext.over(captured)
  return (effect) => Effect.updateContext(effect, over)
}
