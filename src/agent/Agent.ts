/**
 * Agents: a model, instructions and tools under a name, run step by step.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import type * as Json from "../payload/Json.ts"
import type * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as fuel from "../payload/internal/fuel.ts"
import { defined } from "../payload/internal/values.ts"
import * as RunContext from "../tool/RunContext.ts"
import * as ToolFailure from "../tool/ToolFailure.ts"
import * as ToolResolver from "../tool/ToolResolver.ts"
import * as ToolSettings from "../tool/ToolSettings.ts"
import * as boundTool from "../tool/internal/boundTool.ts"
import * as AgentDefinition from "./AgentDefinition.ts"
import type * as AgentError from "./AgentError.ts"
import * as ModelRegistry from "./ModelRegistry.ts"
import * as agentBlueprint from "./internal/agentBlueprint.ts"
import type * as agentData from "./internal/agentData.ts"
import * as agentRecorder from "./internal/agentRecorder.ts"
import * as agentTool from "./internal/agentTool.ts"
import * as agentTypes from "./internal/agentTypes.ts"
import * as agentValue from "./internal/agentValue.ts"

export {
  /**
   * An agent, or anything else that runs like one. `A` is the type of
   * its answer, `R` the services that a run requires, `Args` the arguments of a run: an agent that declares a `context` requires it
   * there. `Agent<unknown, R, never>` is any agent, whatever context its runs need.
   *
   * **Details**
   *
   * - `run` returns the result of a run, whichever way it ended.
   * - `ask` returns the answer alone, and fails with `RunIncomplete` when there is none.
   * - `stream` emits the events of a run as they happen; the last one holds the result.
   *   A slow reader slows nothing: deltas that it has not read are joined. Leaving early interrupts the run.
   * - `resume` continues a `Run.State`: nothing that started runs again. `resumeStream` is
   *   the same as a stream of events.
   *
   * @category models
   * @since 0.1.0
   */
  type Agent,
  /**
   * Something that an `AgentDefinition` can be made of, which requires `R`.
   *
   * @category models
   * @since 0.1.0
   */
  type HasDefinition,
  /**
   * An agent rebuilt from its definition.
   *
   * @category models
   * @since 0.1.0
   */
  type Bound,
  /**
   * A class made by {@link Service}: the key of the agent in a context, with the layer
   * that builds it.
   *
   * @category models
   * @since 0.1.0
   */
  type ServiceClass,
  /**
   * The options of an agent. Only what is given is set: there are no hidden
   * fallbacks between a named model and the ambient `LanguageModel`.
   *
   * @category options
   * @since 0.1.0
   */
  type Config,
  /**
   * A tool that is an agent. It needs no handler; `R` is what running the agent
   * requires, and becomes a requirement of the agent that has the tool.
   *
   * @category models
   * @since 0.1.0
   */
  type AgentTool,
  /**
   * Options of a fresh run.
   *
   * @category options
   * @since 0.1.0
   */
  type Options,
  /**
   * The Schema of a context, see {@link Config}: its encoded side is a JSON object, and it needs no services.
   *
   * @category models
   * @since 0.1.0
   */
  type ContextSchema,
  /**
   * The arguments of a run of an agent that declares no context: the input and the options, both of them optional.
   *
   * @category models
   * @since 0.1.0
   */
  type Arguments,
  /**
   * The arguments of a run of an agent that declares a context: the options have to have it.
   *
   * @category models
   * @since 0.1.0
   */
  type ArgumentsWith,
  /**
   * The arguments of the runs of an agent with this Schema of its context.
   *
   * @category models
   * @since 0.1.0
   */
  type ArgumentsFor,
  /**
   * The context that the arguments of a run have.
   *
   * @category models
   * @since 0.1.0
   */
  type ContextIn,
  /**
   * Demands a Schema of a context that the agents among the tools take: they have the context of the agent that calls them.
   *
   * @category models
   * @since 0.1.0
   */
  type ContextForTools,
  /**
   * The services that tools require for each of their calls (`dependencies` of `Tool.make`).
   *
   * @category models
   * @since 0.1.0
   */
  type CallServices,
  /**
   * An agent whose calls of tools require `S`.
   *
   * @category models
   * @since 0.1.0
   */
  type RequiresForCalls,
  /**
   * The requirement of a layer over tools that require `S` for each call. None exists, so the layer does not compile: it would
   * provide the service that it was built with to all calls. Get the service where the handlers are made (`toolkit.toLayer`), or pass
   * data of the request as `context`.
   *
   * @category models
   * @since 0.1.0
   */
  type NoServiceOfCall,
  /**
   * Options that hold for a fresh run and for a resumed one.
   *
   * @category options
   * @since 0.1.0
   */
  type ResumeOptions,
  /**
   * One entry of the list of events of a run, as the hook `onEvent` receives it.
   *
   * **When to use**
   *
   * Use the hook to keep a run: append each event to a log, whose fold `Run.fold` is the state, or store the newest
   * state. Either can be resumed after the process died.
   *
   * **Details**
   *
   * `sequence` counts the events of a run from 1, and counts on when it is resumed: it is `state.revision`. `state` is the
   * state right after the event.
   *
   * The hook receives one entry at a time, in the order of the events, under every tool runtime, and the run waits for it
   * before it does anything else. Events of agents that are tools come as `ChildEvent`. A stream emits an event
   * after the hook has returned.
   *
   * A hook that dies ends the run with its defect. `timeouts` and interruption cut off a hook that has not returned:
   * the run ends as `Interrupted`, its state holds all that happened, and nothing more starts. After that the hook
   * receives no entry, so what it has is always a beginning of the run, which can be resumed. The entries of
   * the end of a run that was cut off or interrupted must be taken within a second.
   *
   * **Gotchas**
   *
   * A write that must not be cut off in the middle has to be `Effect.uninterruptible`, with a timeout of its own.
   *
   * **Example** (Resuming from the list of events)
   *
   * ```ts
   * import { Effect, Result } from "effect"
   * import { Agent, Run } from "effect-emissary"
   * import { ScriptedModel } from "effect-emissary/testing"
   * import assert from "node:assert"
   *
   * const log: Array<Run.Event> = []
   * const greeter = Agent.make("greeter", { instructions: "Greet people." })
   *
   * const program = Effect.gen(function*() {
   *   yield* greeter.run("Hello, I am Ada.", { onEvent: ({ event }) => Effect.sync(() => void log.push(event)) })
   *   const state = Result.getOrThrow(Run.fold(log))
   *   return yield* greeter.resume(state, { input: "Thank you." })
   * }).pipe(Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }, { text: "Goodbye." }])))
   *
   * const result = await Effect.runPromise(program)
   * assert.strictEqual(result.text, "Goodbye.")
   * ```
   *
   * @category models
   * @since 0.1.0
   */
  type RecordedEvent,
  /**
   * The message of the user: text, or text and file parts, or nothing, which continues
   * the conversation as it is.
   *
   * @category models
   * @since 0.1.0
   */
  type Input,
  /**
   * Limits of time. `total` bounds the run, `step` one model call together with
   * the tool calls it asked for; either ends the run as
   * `Interrupted { reason: "timeout" }`. `tool` replaces the timeout of every tool; a remote
   * server keeps to its own, too, so there it can only shorten. The Effects that find model,
   * instructions and toolkit count towards `total`, and are not cut off by it.
   *
   * @category options
   * @since 0.1.0
   */
  type Timeouts,
  /**
   * Limits of the time of each attempt of a model call: until the answer is whole (`model`), until its first piece
   * (`firstChunk`), and between two pieces (`chunk`). An attempt that is late failed with a `TimeoutError`, which is
   * retried as a lost connection is.
   *
   * @category options
   * @since 0.1.0
   */
  type ModelTimeouts,
  /**
   * The limits of time that an agent has: of its model calls, and of tools without a timeout of their own.
   *
   * @category options
   * @since 0.1.0
   */
  type AgentTimeouts,
  /**
   * Which tools the model may or must call. Applies to the first model call of
   * the run; later calls use `auto`, unless `{ every }` insists.
   *
   * @category options
   * @since 0.1.0
   */
  type ToolChoice,
  /**
   * The result of a run, distinguished by `outcome`. Only `Completed` has `output`.
   *
   * @category models
   * @since 0.1.0
   */
  type Result
} from "./internal/agentTypes.ts"

export {
  /**
   * The numbers of times in a row that a model may make the same calls with the same results.
   *
   * **Details**
   *
   * - `note`: the number of times after which the model gets a note behind the results; default 3. Each further time has a note.
   * - `end`: the number of times after which the run ends as `LoopDetected`; default 5. A run that is resumed from there asks the model
   *   once more, with the note.
   * - `"unlimited"`: neither.
   *
   * An answer repeats the answer before it if its calls have the same names and arguments, in any order, and the same results. So an
   * answer with one other call among parallel ones, or with one other result, is progress, and the count begins again; so it does with a
   * message of the user. Calls that were interrupted do not count, and no calls of an answer count if one of its tools polls
   * (`ToolSettings.Polls`).
   *
   * **Example** (A model that goes in circles)
   *
   * ```ts
   * import { Effect, Schema } from "effect"
   * import { Tool, Toolkit } from "effect/ai"
   * import { Agent } from "effect-emissary"
   * import { ScriptedModel } from "effect-emissary/testing"
   * import assert from "node:assert"
   *
   * const toolkit = Toolkit.make(Tool.make("find_order", { success: Schema.String }))
   * const support = Agent.make("support", { toolkit, repeatedCalls: { note: 2, end: 3 } })
   *
   * const result = await support.run("Where is my order?").pipe(
   *   Effect.provide(toolkit.toLayer({ find_order: () => Effect.succeed("nothing found") })),
   *   Effect.provide(ScriptedModel.layer(() => ({ toolCalls: [{ name: "find_order", params: {} }] }))),
   *   Effect.runPromise
   * )
   * assert(result.outcome === "LoopDetected")
   * assert.deepStrictEqual(result.tools, ["find_order"])
   * assert.strictEqual(result.times, 3)
   * ```
   *
   * @category options
   * @since 0.1.0
   */
  type RepeatedCalls
} from "../run/internal/repetition.ts"

export {
  /**
   * The parts of every {@link Result}.
   *
   * @category models
   * @since 0.1.0
   */
  type ResultBase,
  /**
   * The {@link Result} of a run that ended without an answer.
   *
   * @category models
   * @since 0.1.0
   */
  type Incomplete
} from "../run/internal/runParts.ts"

export {
  /**
   * The retries of a model call.
   *
   * **Details**
   *
   * An attempt that failed with an error that may pass (a rate limit, an overload, a lost connection) is made again, `times` at
   * most for each model call, after a pause of `delay`, which is multiplied by `factor` after each retry, up to `maxDelay`. The
   * defaults are two retries, after one second and after two, and pauses of one minute at most. `{ times: 0 }` is none.
   *
   * A retry waits at least as long as the provider asks (`retryAfter`). If the provider asks for more than `maxDelay` the run fails,
   * with the pause in its error. Errors that do not pass (a key that is refused, a request that is not valid, a quota that is used up)
   * are not retried. The answer of an attempt that failed is void, the tokens that it reports count. Each model of a list has its own
   * retries.
   *
   * Each retry is an event of the run, `StepRetried`.
   *
   * @category options
   * @since 0.1.0
   */
  type Retry,
  /**
   * Retries as data, in a definition.
   *
   * @category models
   * @since 0.1.0
   */
  type RetryPolicy
} from "../run/internal/retryPolicy.ts"

export type { OnChange } from "../run/internal/definitionChange.ts"
export type { Interruption } from "../run/internal/runRecorder.ts"
export type { DefinitionServices } from "./internal/agentTypes.ts"
export type { ModelPlan, ModelSource, RunServices, Text, Tools } from "./internal/agentTypes.ts"

/**
 * True if a value is an agent.
 *
 * @category guards
 * @since 0.1.0
 */
export const isAgent = (u: unknown): u is agentTypes.Agent<unknown, unknown, never> =>
  Predicate.hasProperty(u, agentTypes.TypeId)

/**
 * The Schema of what an agent answers, if the agent knows it.
 *
 * **Details**
 *
 * | of | is |
 * |---|---|
 * | an agent made by {@link make}, the class of a {@link Service} | its `output`, `Schema.String` without one |
 * | an agent rebuilt from a definition | a codec of the JSON Schema, which `JsonSchema.fromSchema` returns again |
 * | a plan that is bound | its `output`, `None` without one |
 * | an Effect that finds an agent, the class of a plan | `None`: the Schema is unknown before the agent is found |
 *
 * A step of a plan takes it for its own `output` where it has none.
 *
 * **Example** (What a service will answer)
 *
 * ```ts
 * import { Option, Schema } from "effect"
 * import { Agent } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Verdict = Schema.Struct({ good: Schema.Boolean })
 * class Critic extends Agent.Service<Critic>()("critic", { output: Verdict }) {}
 *
 * assert.deepStrictEqual(Agent.outputSchema(Critic), Option.some(Verdict))
 * ```
 *
 * @category getters
 * @since 0.1.0
 */
export const outputSchema = <A>(
  agent: agentTypes.Agent<A, unknown, never> | Effect.Effect<agentTypes.Agent<A, never, never>, unknown, unknown>
): Option.Option<Schema.Codec<A, unknown, unknown, unknown>> =>
  // Sound: A is the type of the Schema that an agent was made with, and no other is put on it.
  agentValue.outputSchemaOf(agent) as Option.Option<Schema.Codec<A, unknown, unknown, unknown>>

/**
 * Makes an agent as a value: every run finds what it requires in its own context.
 *
 * **When to use**
 *
 * Use for scripts, and for agents that are parts of other values. In an application
 * prefer {@link Service}, whose layer binds the tools once.
 *
 * **Example** (Asking)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const greeter = Agent.make("greeter", { instructions: "Greet people." })
 *
 * const program = greeter.ask("Hello, I am Ada.").pipe(
 *   Effect.provide(ScriptedModel.layer([{ text: "Welcome, Ada!" }]))
 * )
 * assert.strictEqual(await Effect.runPromise(program), "Welcome, Ada!")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = <
  Model extends agentTypes.ModelSource | undefined = undefined,
  Instructions extends agentTypes.Text = never,
  ToolsIn extends agentTypes.Tools = never,
  Output extends Schema.Top = typeof Schema.String,
  Context extends agentTypes.ContextSchema = never,
  GuardServices = never
>(
  name: string,
  config?: agentTypes.Config<Model, Instructions, ToolsIn, Output, Context, GuardServices> &
    agentTypes.ContextForTools<ToolsIn, Context>
): agentTypes.Agent<
  Output["Type"],
  agentTypes.RunServices<Model, Instructions, ToolsIn, Output, NoInfer<GuardServices>>,
  agentTypes.ArgumentsFor<Context>
> &
  agentTypes.HasDefinition<agentTypes.DefinitionServices<Model, Instructions, ToolsIn>> &
  agentTypes.RequiresForCalls<agentTypes.CallServices<ToolsIn>> => makeValue(name, config)

/**
 * Makes an agent as a service: a class that is its own key, with a `layer`.
 *
 * **When to use**
 *
 * Use to compose an agent into an application: `yield* Support` returns the agent, and
 * the types of `Support.layer` name the missing services.
 *
 * **Details**
 *
 * The layer binds the handlers of a static toolkit once, when it is built. The agent keeps
 * the services that the layer was built with, whatever is around a call. The `RunContext`,
 * clock, log level, span and tool runtime of the caller reach instructions and handlers, see
 * `RunContext.CallReferences`. What they acquire is released when the run ends.
 *
 * **Gotchas**
 *
 * The key of the service is made of the name: two agents of one application need two
 * names, or the layer of one replaces the other.
 *
 * **Example** (An agent with a tool)
 *
 * ```ts
 * import { Effect, Layer, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { Agent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const toolkit = Toolkit.make(
 *   Tool.make("get_order", {
 *     description: "Look up an order by id",
 *     parameters: Schema.Struct({ id: Schema.String }),
 *     success: Schema.String
 *   })
 * )
 *
 * class Support extends Agent.Service<Support>()("support", {
 *   instructions: "You help customers.",
 *   toolkit
 * }) {}
 *
 * const SupportLive = Support.layer.pipe(
 *   Layer.provide(toolkit.toLayer({ get_order: ({ id }) => Effect.succeed(`order ${id}: shipped`) })),
 *   Layer.provide(ScriptedModel.layer([
 *     { toolCalls: [{ id: "c1", name: "get_order", params: { id: "42" } }] },
 *     { text: "It has been shipped." }
 *   ]))
 * )
 *
 * const program = Effect.gen(function*() {
 *   const support = yield* Support
 *   return yield* support.ask("Where is order 42?")
 * }).pipe(Effect.provide(SupportLive))
 *
 * assert.strictEqual(await Effect.runPromise(program), "It has been shipped.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const Service =
  <Self>() =>
  <
    const Name extends string,
    Model extends agentTypes.ModelSource | undefined = undefined,
    Instructions extends agentTypes.Text = never,
    ToolsIn extends agentTypes.Tools = never,
    Output extends Schema.Top = typeof Schema.String,
    Context extends agentTypes.ContextSchema = never,
    GuardServices = never
  >(
    name: Name,
    config?: agentTypes.Config<Model, Instructions, ToolsIn, Output, Context, GuardServices> &
      agentTypes.ContextForTools<ToolsIn, Context>
  ): agentTypes.ServiceClass<
    Self,
    Name,
    Output["Type"],
    | agentTypes.RunServices<Model, Instructions, ToolsIn, Output, NoInfer<GuardServices>>
    | agentTypes.NoServiceOfCall<agentTypes.CallServices<ToolsIn>>,
    agentTypes.DefinitionServices<Model, Instructions, ToolsIn>,
    agentTypes.ArgumentsFor<Context>
  > =>
    makeServiceClass(name, config)

/**
 * The definition of an agent: its model, instructions and tools resolved for a
 * `RunContext`, as plain data. Requires only what their Effects require, never a
 * handler or a model.
 *
 * @category serialization
 * @since 0.1.0
 */
export const definition = <R>(
  agent: agentTypes.HasDefinition<R>,
  options?: { readonly context?: Json.JsonObject | undefined }
): Effect.Effect<agentData.AgentDefinition, AgentError.AgentError, R> =>
  options?.context === undefined
    ? agent[agentTypes.DefinedTypeId]()
    : Effect.provideService(agent[agentTypes.DefinedTypeId](), RunContext.RunContext, options.context)

/**
 * The options of {@link encode}: the `RunContext` to resolve the agent for, the wire
 * version (default: the newest), and the losses an older version may cause.
 *
 * @category options
 * @since 0.1.0
 */
export interface EncodeOptions extends VersionedCodec.EncodeOptions {
  /** The `RunContext` to resolve the agent for; default: the `RunContext` around the call. */
  readonly context?: Json.JsonObject | undefined
}

/**
 * The agent as versioned JSON: {@link definition}, then `AgentDefinition.codec`.
 *
 * **Details**
 *
 * Agents among its tools are part of it, with their own tools and agents. Agents that have each other as
 * tools have no definition: the error, `DefinitionInvalid`, has the cycle.
 *
 * @category serialization
 * @since 0.1.0
 */
export const encode = <R>(agent: agentTypes.HasDefinition<R>, options?: EncodeOptions) =>
  Effect.flatMap(definition(agent, options), (resolved) => AgentDefinition.codec.encode(resolved, options))

/**
 * The agent as JSON text.
 *
 * @category serialization
 * @since 0.1.0
 */
export const encodeJson = <R>(
  agent: agentTypes.HasDefinition<R>,
  options?: EncodeOptions & { readonly indent?: number | undefined }
) => Effect.flatMap(definition(agent, options), (resolved) => AgentDefinition.codec.encodeJson(resolved, options))

/**
 * Makes a definition runnable: tools through the `ToolResolver`, the model through the
 * `ModelRegistry`, and the agents in it in the same way. Nothing else is needed, and nothing of the definition is executed.
 *
 * **Details**
 *
 * Fails with `BindError` when a tool cannot be resolved. An agent whose tools are
 * stubs needs a `ToolRuntime` that runs them elsewhere; without one its runs fail
 * before the first model call.
 *
 * @category serialization
 * @since 0.1.0
 */
export const bind = (
  definition: agentData.AgentDefinition
): Effect.Effect<
  agentTypes.Bound,
  ToolResolver.BindError | AgentError.AgentError,
  ToolResolver.ToolResolver | ModelRegistry.ModelRegistry
> => Effect.contextWith((outside: Context.Context<never>) => bindTo(outside, definition))

/**
 * Why {@link bind}, {@link decode} and {@link decodeJson} fail apart from unreadable data: a tool that is unknown or changed,
 * or agents that are invalid.
 *
 * @category errors
 * @since 0.1.0
 */
export type BindFailure = ToolResolver.BindError | AgentError.AgentError

/**
 * The services that {@link bind}, {@link decode} and {@link decodeJson} require: the resolver finds the tools, the registry
 * the models.
 *
 * @category models
 * @since 0.1.0
 */
export type BindServices = ToolResolver.ToolResolver | ModelRegistry.ModelRegistry

/** An agent over these services, which agents among its tools may require. */
const bindTo = Effect.fnUntraced(function* (
  captured: Context.Context<never>,
  definition: agentData.AgentDefinition
): Effect.fn.Return<agentTypes.Bound, BindFailure, BindServices> {
  yield* ModelRegistry.ModelRegistry
  const { name = "agent" } = definition
  yield* Effect.mapError(agentBlueprint.checkTree(definition), agentErrorOf(name))
  const resolver = yield* ToolResolver.ToolResolver
  const tools = yield* Effect.forEach(definition.tools, (tool) =>
    tool.agent === undefined && tool.handoff === undefined ? resolver.resolve(tool) : bindAgent(captured, tool)
  )
  const within = agentValue.withCaptured(captured)
  const found = agentBlueprint.fromDefinition(name, definition, tools, within)
  const agent: agentTypes.Bound = {
    ...agentValue.makeAgent(yield* Effect.mapError(found, agentErrorOf(name))),
    definition,
    [agentTypes.DefinedTypeId]: () => Effect.succeed(definition)
  }
  return agent
})

/** A tool that is an agent of the definition, or passes the conversation on. */
const bindAgent = Effect.fnUntraced(function* (
  captured: Context.Context<never>,
  tool: agentData.Tool
): Effect.fn.Return<boundTool.BoundTool, BindFailure, BindServices> {
  const { agent: definition, handoff: terms, ...contract } = tool
  const agent = definition && (yield* bindTo(captured, definition))
  const behind = agent && { agent: Effect.succeed(agent), define: agent[agentTypes.DefinedTypeId] }
  // An approval is about a call of this agent, so its definition counts, too
  const digest = yield* Effect.mapError(agentBlueprint.digestOfTool(tool), agentErrorOf(agent?.name ?? tool.name))
  const ofAgent = behind === undefined ? Context.empty() : Context.make(agentTool.BehindTool, behind)
  const annotations = terms === undefined ? ofAgent : Context.make(agentTool.HandoffTool, { terms, ...behind })
  const bound = agentTool.bindAgent({ ...contract, digest }, annotations)
  return yield* Effect.mapError(bound, ({ path, problem, tool }) => {
    return new ToolResolver.BindError({ tool, reason: { _tag: "InvalidContract", path, problem } })
  })
})

/**
 * Rebuilds an agent from JSON: `AgentDefinition.codec`, then {@link bind}.
 *
 * @category serialization
 * @since 0.1.0
 */
export const decode = (input: unknown, options?: Pick<Json.Options, "limits">) =>
  decodeWith(AgentDefinition.codec.decode(input), options)

/**
 * Rebuilds an agent from JSON text.
 *
 * @category serialization
 * @since 0.1.0
 */
export const decodeJson = (input: string | Uint8Array, options?: Pick<Json.Options, "limits">) =>
  decodeWith(AgentDefinition.codec.decodeJson(input), options)

/** The limits hold for the decode. The runs of the agent have the limits around them. */
const decodeWith = <E, R>(
  decoded: Effect.Effect<agentData.AgentDefinition, E, R>,
  options: Pick<Json.Options, "limits"> | undefined
) =>
  Effect.contextWith((outside: Context.Context<never>) =>
    fuel.doorWithin(
      options?.limits,
      Effect.flatMap(decoded, (definition) => bindTo(outside, definition))
    )
  )

const toolParameters = Schema.Struct({
  input: Schema.String.annotate({ description: "What to ask the agent, with everything it has to know" })
})

const handlerOf = (agent: Effect.Effect<agentTypes.Agent<unknown>>): Tool.Handler<string>["handler"] =>
  Effect.fnUntraced(function* (params: typeof toolParameters.Type) {
    const { name, run } = yield* agent
    const result = yield* Effect.mapError(
      run(params.input),
      (error) => new ToolFailure.ToolFailure({ type: "execution_error", message: error.message })
    )
    const answer = agentTool.toToolResult(name, result)
    return answer._tag === "Success"
      ? answer.value
      : yield* new ToolFailure.ToolFailure({ type: answer.type, message: answer.message })
  })

/**
 * Makes an agent a tool that another agent can call, with one parameter, `input`.
 *
 * **When to use**
 *
 * Use to let one agent hand a part of its work to another. The inner agent sees the
 * `RunContext` of the outer run and at most its remaining total time; it has no tool
 * timeout of its own. Its events come in the outer stream as `Child` under the call
 * id, its pending approvals suspend the outer run, its usage counts there once.
 *
 * **Details**
 *
 * The model of the outer agent gets the inner agent's output, or its text. An inner run that ends without an answer is
 * an `execution_error` result. Agents nest at most `maxDepth` deep (default 8); one more fails the whole run with the
 * reason `MaxDepth`. The outer run's `retry`, `modelMistakes`, `emptyAnswers`, `defects` and tool timeout hold for
 * the inner run too; its steps are its own. The definition of the outer agent holds the definition of the inner agent,
 * unless an Effect finds the inner agent, or it is a plan. A plan that is bound is an agent, and can be a tool in the
 * same way.
 *
 * **Example** (An agent that asks another one)
 *
 * ```ts
 * import { Effect, Layer } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * class Researcher extends Agent.Service<Researcher>()("researcher", {}) {}
 *
 * const writer = Agent.make("writer", {
 *   toolkit: [Agent.asTool(Researcher, { name: "research", description: "Finds facts" })]
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ id: "c1", name: "research", params: { input: "How high is Mont Blanc?" } }] },
 *   { text: "4806 m" },
 *   { text: "Mont Blanc is 4806 m high." }
 * ])
 *
 * const program = writer.ask("How high is Mont Blanc?").pipe(
 *   Effect.provide(Researcher.layer.pipe(Layer.provideMerge(model)))
 * )
 * assert.strictEqual(await Effect.runPromise(program), "Mont Blanc is 4806 m high.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const asTool = <
  const Name extends string,
  R,
  RDefinition = never,
  Args extends ReadonlyArray<unknown> = agentTypes.Arguments,
  S = never
>(
  agent: (agentTypes.Agent<unknown, R, Args> | Effect.Effect<agentTypes.Agent<unknown, never, Args>, never, R>) &
    Partial<agentTypes.HasDefinition<RDefinition>> &
    Partial<agentTypes.RequiresForCalls<S>>,
  options: { readonly name: Name; readonly description: string }
): agentTypes.AgentTool<Name, R, RDefinition, agentTypes.ContextIn<Args>> & agentTypes.RequiresForCalls<S> => {
  const behind = behindOf(agent)
  const tool = makeTool(options.name, {
    description: options.description,
    parameters: toolParameters,
    behind: Context.make(agentTool.BehindTool, behind),
    handler: handlerOf(behind.agent)
  })
  // Sound: the tool has this kind, this name and these parameters, and the services are phantoms.
  return tool as agentTypes.AgentTool<Name, R, RDefinition, agentTypes.ContextIn<Args>> & agentTypes.RequiresForCalls<S>
}

/**
 * Options of {@link handoff}.
 *
 * @category options
 * @since 0.1.0
 */
export interface HandoffOptions<out Name extends string, out Reason extends Schema.Top> {
  /** The name of the tool that the model sees; default `transfer_to_` and the name of the agent. */
  readonly name?: Name | undefined
  /** The purpose of the other agent, which the model reads; default: that the agent answers from here on. */
  readonly description?: string | undefined
  /**
   * A Schema of the reason: the model passes it as the arguments of its call, and the other agent reads it there. Default: no reason.
   */
  readonly reason?: Reason | undefined
  /** The part of the conversation that the model of the other agent sees; default: all of it, without the instructions of this agent. */
  readonly history?: HandoffHistory | undefined
}

/**
 * The part of a conversation that an agent sees after a handoff. It is data, which travels with the definition. The
 * conversation itself stays whole.
 *
 * @category options
 * @since 0.1.0
 */
export interface HandoffHistory {
  /** The number of the newest turns, from 1 on, each from a message of the user on; default: all. */
  readonly turns?: number | undefined
  /** `false` leaves out the calls of tools and their results, except the calls of the answer with the handoff. Default: they stay. */
  readonly toolCalls?: false | undefined
}

/**
 * Makes a tool that passes the conversation on: another agent answers from there on, with its own instructions, tools, model and limits.
 *
 * **When to use**
 *
 * Use it where another agent is to talk with the user. Use {@link asTool} where this agent needs an answer for its own.
 *
 * **Details**
 *
 * The other agent is an agent, the class of a service, or a name: of the agent of the run, or of an agent that one of the agents so far can
 * pass the conversation on to. With a name, agents can pass a conversation back.
 *
 * - The other calls of the answer run first. Of several handoffs in one answer the first one counts.
 * - The run stays the same: its usage, its steps, its budget, its time and the guards of its host continue. So `maxSteps` also ends handoffs
 *   that go in circles. Guards of the agent before do not decide any more.
 * - The event `HandedOff` records it, and `activeAgent` of the result names the agent that has the conversation. A run that is resumed
 *   from there, and the next message of a session, are for this agent.
 * - The other agent has the same `output`. An agent with another one is refused by a `DefinitionInvalid`.
 * - Options of a run, such as `model` or `toolChoice`, hold for all agents of the run.
 * - Where a new definition no longer has the agent, the resume fails with `Run.DefinitionChanged`. With `onChange: "accept"` the conversation
 *   goes back to the agent of the run.
 *
 * **Example** (A customer who is passed on)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const billing = Agent.make("billing", {
 *   instructions: "You settle invoices.",
 *   toolkit: [Agent.handoff("triage", { description: "For everything but invoices" })]
 * })
 *
 * const triage = Agent.make("triage", {
 *   instructions: "Pass each customer on to the colleague who can help.",
 *   toolkit: [
 *     Agent.handoff(billing, {
 *       description: "For questions about invoices",
 *       reason: Schema.Struct({ invoice: Schema.String }),
 *       history: { toolCalls: false }
 *     })
 *   ]
 * })
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ name: "transfer_to_billing", params: { invoice: "R-7" } }] },
 *   { text: "R-7 is paid." },
 *   { text: "You are welcome." }
 * ])
 *
 * const program = Effect.gen(function*() {
 *   const first = yield* triage.run("Is invoice R-7 paid?")
 *   assert.strictEqual(first.text, "R-7 is paid.")
 *   assert.strictEqual(first.activeAgent, "billing")
 *   const next = yield* triage.resume(first.state, { input: "Thank you." })
 *   assert.strictEqual(next.activeAgent, "billing")
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(model)))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const handoff = <
  const To extends string,
  R = never,
  RDefinition = never,
  Args extends ReadonlyArray<unknown> = agentTypes.Arguments,
  S = never,
  const Name extends string = string,
  Reason extends Schema.Top = Schema.Struct<{}>
>(
  agent:
    | To
    | ((
        | agentTypes.Agent<unknown, R, Args>
        | (Effect.Effect<agentTypes.Agent<unknown, never, Args>, never, R> & { readonly key: string })
      ) &
        Partial<agentTypes.HasDefinition<RDefinition>> &
        Partial<agentTypes.RequiresForCalls<S>>),
  options: HandoffOptions<Name, Reason> = {}
): agentTypes.AgentTool<Name, R, RDefinition, agentTypes.ContextIn<Args>, Reason> & agentTypes.RequiresForCalls<S> => {
  const to = nameOf(agent)
  const { description = `Passes the conversation on to ${to}, who answers from here on`, history = {} } = options
  const name = options.name ?? `transfer_to_${to}`
  const terms = { agent: to, ...defined({ turns: history.turns, toolCalls: history.toolCalls }) }
  const tool = makeTool(name, {
    description,
    parameters: options.reason ?? Schema.Struct({}),
    behind: Context.make(agentTool.HandoffTool, { terms, ...(typeof agent === "string" ? {} : behindOf(agent)) }),
    handler: () => {
      const { message, type } = agentTool.outsideOfRun(name)
      return Effect.fail(new ToolFailure.ToolFailure({ type, message }))
    },
    isIdempotent: true
  })
  // Sound: the tool has this kind, this name and these parameters, and the services are phantoms.
  return tool as agentTypes.AgentTool<Name, R, RDefinition, agentTypes.ContextIn<Args>, Reason> &
    agentTypes.RequiresForCalls<S>
}

/** The name of an agent, of the agent of a class, or the name itself. */
const nameOf = (agent: string | agentTypes.Agent<unknown, unknown, never> | { readonly key: string }): string => {
  if (typeof agent === "string") return agent
  return isAgent(agent) ? agent.name : (agentTypes.nameOfService(agent) ?? agent.key)
}

/** The agent behind a tool, and its definition. */
const behindOf = (agent: object) => {
  const given: unknown = Effect.isEffect(agent) ? agent : Effect.succeed(agent)
  return {
    // Sound: what the agent requires is part of the type of the tool, so it is in the context of the run. A run checks its context itself.
    agent: given as Effect.Effect<agentTypes.Agent<unknown>>,
    // Sound: so is what its definition requires, in the context in which the tool is described.
    define: (agent as Partial<agentTypes.HasDefinition<never>>)[agentTypes.DefinedTypeId]
  }
}

/** A tool that needs no handler, because the run of an agent makes its calls. Elsewhere the handler does. */
const makeTool = (
  name: string,
  options: {
    readonly description: string
    readonly parameters: Schema.Top
    readonly behind: Context.Context<never>
    readonly handler: Tool.Handler<string>["handler"]
    readonly isIdempotent?: boolean
  }
): unknown => {
  const { behind, description, handler, isIdempotent = false, parameters } = options
  const described = Tool.make(name, { description, parameters, success: Schema.Json, failure: ToolFailure.ToolFailure })
    .annotate(ToolSettings.Timeout, Duration.infinity)
    .annotateMerge(isIdempotent ? Context.add(behind, Tool.Idempotent, true) : behind)
  const entry: unknown = { name, handler, context: Context.empty() }
  // Sound: the only property of a Handler that is missing is a phantom.
  const own = { tool: described, handler: entry as Tool.Handler<string> }
  const tool = Tool.providerDefined({
    id: "emissary.agent",
    customName: name,
    providerName: name,
    parameters,
    success: Schema.Json,
    failure: ToolFailure.ToolFailure
  })(undefined).annotate(boundTool.BroughtHandler, {
    ...own,
    tool: described.annotate(boundTool.BroughtHandler, own)
  })
  const phantoms = { [agentTypes.ToolTypeId]: {}, [agentTypes.CallTypeId]: {}, [boundTool.OwnHandlerTypeId]: {} }
  return Object.assign(tool, phantoms)
}

const agentErrorOf =
  (agent: string) =>
  (reason: AgentError.Reason): AgentError.AgentError =>
    agentRecorder.agentError({ agent, reason })

const definitionOf = (
  name: string,
  config: agentBlueprint.AnyConfig
): agentTypes.HasDefinition<never>[agentTypes.DefinedTypeId] => {
  const define = agentBlueprint.definitionOf(name, config)
  return (description) => Effect.mapError(define(description), agentErrorOf(name))
}

/** An agent that finds what it requires in the context of each call. */
const makeValue = <A, R, RDefinition, Args extends ReadonlyArray<unknown>, S>(
  name: string,
  config: agentBlueprint.AnyConfig = {}
): agentTypes.Agent<A, R, Args> & agentTypes.HasDefinition<RDefinition> & agentTypes.RequiresForCalls<S> => {
  const blueprint = agentBlueprint.fromConfig(name, config, (effect) => effect)
  const agent: unknown = {
    ...agentValue.makeAgent(blueprint),
    [agentTypes.DefinedTypeId]: definitionOf(name, config),
    [agentTypes.CallTypeId]: {}
  }
  // Sound: A is the type of the output Schema, R and RDefinition are what the configuration was inferred to need, Args are the
  // arguments with the context that it declares, and S is a phantom.
  return agent as agentTypes.Agent<A, R, Args> & agentTypes.HasDefinition<RDefinition> & agentTypes.RequiresForCalls<S>
}

/** The number of classes of each name: two classes are two services. */
const services = new Map<string, number>()

/** The key of an agent, with the layer that builds it. */
const makeServiceClass = <Self, Name extends string, A, R, RDefinition, Args extends ReadonlyArray<unknown>>(
  name: Name,
  config: agentBlueprint.AnyConfig = {}
): agentTypes.ServiceClass<Self, Name, A, R, RDefinition, Args> => {
  const count = (services.get(name) ?? 0) + 1
  services.set(name, count)
  // Sound: the key of another class of the same name has a number behind the name, and nothing reads it
  const key = `effect-emissary/Agent/${name}${count === 1 ? "" : `#${count}`}` as `effect-emissary/Agent/${Name}`
  const agentKey = Context.Service<Self, agentTypes.Agent<A, never, Args>>()(key)
  const layer = Layer.effect(
    agentKey,
    Effect.gen(function* () {
      const found = Effect.andThen(agentBlueprint.checkName(name), agentBlueprint.bindStatic(config))
      const bound = yield* Effect.mapError(found, agentErrorOf(name))
      const captured = yield* Effect.context<never>()
      const blueprint = agentBlueprint.fromConfig(name, config, agentValue.withCaptured(captured), bound)
      const agent: unknown = agentValue.makeAgent(blueprint)
      // Sound: A is the type of the output Schema of the configuration, Args are the arguments with the context that it declares.
      return agent as agentTypes.Agent<A, never, Args>
    })
  )
  const statics: unknown = Object.assign(agentKey, {
    layer,
    [agentTypes.DefinedTypeId]: definitionOf(name, config),
    [agentTypes.NameTypeId]: name,
    ...agentValue.withOutputSchema(agentBlueprint.outputSchema(config))
  })
  // Sound: R and RDefinition are what the configuration was inferred to need; both Effects read it from their context.
  return statics as agentTypes.ServiceClass<Self, Name, A, R, RDefinition, Args>
}
