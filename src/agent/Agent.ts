/**
 * Agents: a model, instructions and tools under a name, run step by step.
 *
 * @since 0.1.0
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import type * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type * as VersionedCodec from "../payload/VersionedCodec.ts"
import { RunContext } from "../tool/RunContext.ts"
import type { BindError, ToolResolver } from "../tool/ToolResolver.ts"
import type { AgentConfig, DefinitionServices, RunServices, Text, Tools } from "./AgentConfig.ts"
import * as AgentDefinition from "./AgentDefinition.ts"
import type { AgentError } from "./AgentError.ts"
import type { AgentEvent } from "./AgentEvent.ts"
import * as bindDefinition from "./internal/bind.ts"
import * as OutputSchema from "./internal/outputSchema.ts"
import * as blueprint from "./internal/blueprint.ts"
import * as program from "./internal/program.ts"
import type { ModelRegistry } from "./ModelRegistry.ts"
import type { RunIncomplete } from "./RunIncomplete.ts"
import type { Input, ResumeOptions, RunOptions } from "./RunOptions.ts"
import type { RunResult } from "./RunResult.ts"
import type { RunState } from "./RunState.ts"

export {
  /**
   * @category constructors
   * @since 0.1.0
   */
  asTool
} from "./AgentTool.ts"

/**
 * @category type IDs
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/agent/Agent"

/**
 * Type identifier of agents.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const TypeId: TypeId = "~effect-emissary/agent/Agent"

/**
 * @category type IDs
 * @since 0.1.0
 */
export type DefinedTypeId = "~effect-emissary/agent/Agent/Defined"

/**
 * Type identifier of whatever has an agent definition.
 *
 * @category type IDs
 * @since 0.1.0
 */
export const DefinedTypeId: DefinedTypeId = "~effect-emissary/agent/Agent/Defined"

/**
 * Something that runs: an agent, or anything else that behaves like one. `A` is what
 * it answers, `R` what a run requires.
 *
 * **Details**
 *
 * - `run` gives the result of a run, whichever way it ended.
 * - `ask` gives the answer alone, and fails with `RunIncomplete` when there is none.
 * - `stream` tells what happens while it happens; its last event carries the result.
 *   A slow reader slows the run, and leaving early interrupts it.
 * - `resume` goes on from a `RunState`: nothing that started runs again. `resumeStream` is
 *   the same, told event by event.
 *
 * @category models
 * @since 0.1.0
 */
export interface Agent<out A, out R = never> {
  readonly [TypeId]: TypeId
  readonly name: string
  readonly run: (input?: Input, options?: RunOptions) => Effect.Effect<RunResult<A>, AgentError, R>
  readonly ask: (input?: Input, options?: RunOptions) => Effect.Effect<A, AgentError | RunIncomplete, R>
  readonly stream: (input?: Input, options?: RunOptions) => Stream.Stream<AgentEvent<A>, AgentError, R>
  readonly resume: (state: RunState, options?: ResumeOptions) => Effect.Effect<RunResult<A>, AgentError, R>
  readonly resumeStream: (state: RunState, options?: ResumeOptions) => Stream.Stream<AgentEvent<A>, AgentError, R>
}

/**
 * Something that an `AgentDefinition` can be made of, which requires `R`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Defined<out R> {
  readonly [DefinedTypeId]: Effect.Effect<AgentDefinition.AgentDefinition, AgentError, R>
}

/**
 * An agent made by {@link make}.
 *
 * @category models
 * @since 0.1.0
 */
export interface Value<out A, out R, out RDefinition> extends Agent<A, R>, Defined<RDefinition> {}

/**
 * An agent rebuilt from its definition.
 *
 * @category models
 * @since 0.1.0
 */
export interface Bound extends Agent<Schema.Json>, Defined<never> {
  readonly definition: AgentDefinition.AgentDefinition
}

/**
 * A class made by {@link Service}: the key of the agent in a context, with the layer
 * that builds it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ServiceClass<Self, Name extends string, A, R, RDefinition>
  extends Context.ServiceClass<Self, `effect-emissary/Agent/${Name}`, Agent<A>>, Defined<RDefinition> {
  readonly layer: Layer.Layer<Self, AgentError, Exclude<R, Scope.Scope>>
}

/**
 * Whether a value is an agent.
 *
 * @category guards
 * @since 0.1.0
 */
export const isAgent = (u: unknown): u is Agent<unknown, unknown> => Predicate.hasProperty(u, TypeId)

/**
 * The Schema of what an agent answers, if the agent knows it.
 *
 * **Details**
 *
 * | of | is |
 * |---|---|
 * | an agent made by {@link make}, the class of a {@link Service} | its `output`, `Schema.String` without one |
 * | an agent rebuilt from a definition | a codec that judges by the JSON Schema, whose document `FromSchema.fromSchema` gives again |
 * | a plan that is bound, and anything else made by `Delegate.make` | its `output`, `None` without one |
 * | an Effect that finds an agent, the class of a plan | `None`: nobody knows before it is there |
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
  agent: Agent<A, unknown> | Effect.Effect<Agent<A>, unknown, unknown>
): Option.Option<Schema.Codec<A, unknown, unknown, unknown>> =>
  // Sound: A is the type of the Schema that an agent was made with, and no other is put on it.
  OutputSchema.of(agent) as Option.Option<Schema.Codec<A, unknown, unknown, unknown>>

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
  Model extends Text | undefined = undefined,
  Instructions extends Text = never,
  ToolsIn extends Tools = never,
  Output extends Schema.Top = typeof Schema.String
>(
  name: string,
  config: AgentConfig<Model, Instructions, ToolsIn, Output> = {}
): Value<
  Output["Type"],
  RunServices<Model, Instructions, ToolsIn, Output>,
  DefinitionServices<Model, Instructions, ToolsIn>
> => program.value(blueprint.fromConfig(name, config, undefined))

/**
 * Makes an agent as a service: a class that is its own key, with a `layer`.
 *
 * **When to use**
 *
 * Use to compose an agent into an application: `yield* Support` gives the agent, and
 * the types of `Support.layer` say what is missing.
 *
 * **Details**
 *
 * The layer binds the handlers of a static toolkit once, when it is built. What it
 * captures lies under the context of each call, so the `RunContext`, clock, log level,
 * span and tool runtime of the caller reach instructions and handlers.
 *
 * **Gotchas**
 *
 * The key of the service is made of the name: two agents of one application need two
 * names, or the layer of one stands for the other.
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
    Model extends Text | undefined = undefined,
    Instructions extends Text = never,
    ToolsIn extends Tools = never,
    Output extends Schema.Top = typeof Schema.String
  >(
    name: Name,
    config: AgentConfig<Model, Instructions, ToolsIn, Output> = {}
  ): ServiceClass<
    Self,
    Name,
    Output["Type"],
    RunServices<Model, Instructions, ToolsIn, Output>,
    DefinitionServices<Model, Instructions, ToolsIn>
  > =>
    program.serviceClass(name, config)

/**
 * The definition of an agent: its model, instructions and tools resolved for a
 * `RunContext`, as plain data. Requires only what their Effects require, never a
 * handler or a model.
 *
 * @category serialization
 * @since 0.1.0
 */
export const definition = <R>(
  agent: Defined<R>,
  options?: { readonly context?: JsonObject | undefined }
): Effect.Effect<AgentDefinition.AgentDefinition, AgentError, R> =>
  options?.context === undefined
    ? agent[DefinedTypeId]
    : Effect.provideService(agent[DefinedTypeId], RunContext, options.context)

/**
 * What {@link encode} takes: the `RunContext` to resolve the agent for, the wire
 * version (default: the newest), and the losses an older version may cause.
 *
 * @category options
 * @since 0.1.0
 */
export interface EncodeOptions extends VersionedCodec.EncodeOptions {
  readonly context?: JsonObject | undefined
}

/**
 * The agent as versioned JSON: {@link definition}, then `AgentDefinition.encode`.
 *
 * @category serialization
 * @since 0.1.0
 */
export const encode = <R>(
  agent: Defined<R>,
  options?: EncodeOptions
): Effect.Effect<JsonObject, AgentError | PayloadError | LossyEncoding, R> =>
  Effect.flatMap(definition(agent, options), (resolved) => AgentDefinition.encode(resolved, options))

/**
 * The agent as JSON text.
 *
 * @category serialization
 * @since 0.1.0
 */
export const encodeJson = <R>(
  agent: Defined<R>,
  options?: EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, AgentError | PayloadError | LossyEncoding, R> =>
  Effect.flatMap(definition(agent, options), (resolved) => AgentDefinition.encodeJson(resolved, options))

/**
 * Makes a definition runnable: tools through the `ToolResolver`, the model through the
 * `ModelRegistry`. Nothing else is needed, and nothing of the definition is executed.
 *
 * **Details**
 *
 * Fails with `BindError` when a tool cannot be resolved. An agent whose tools are
 * shells needs a `ToolRuntime` that runs them elsewhere; without one its runs fail
 * before the first model call.
 *
 * @category serialization
 * @since 0.1.0
 */
export const bind: (
  definition: AgentDefinition.AgentDefinition
) => Effect.Effect<Bound, BindError | AgentError, ToolResolver | ModelRegistry> = bindDefinition.bind

/**
 * Rebuilds an agent from JSON: `AgentDefinition.decode`, then {@link bind}.
 *
 * @category serialization
 * @since 0.1.0
 */
export const decode = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<Bound, PayloadError | BindError | AgentError, ToolResolver | ModelRegistry> =>
  Effect.flatMap(AgentDefinition.decode(input, options), bind)

/**
 * Rebuilds an agent from JSON text.
 *
 * @category serialization
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<Bound, PayloadError | BindError | AgentError, ToolResolver | ModelRegistry> =>
  Effect.flatMap(AgentDefinition.decodeJson(input, options), bind)
