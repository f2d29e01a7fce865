/**
 * The types of agents, their options, results and events. `Agent` and `AgentEvent` re-export what users name, with its
 * documentation.
 */

import type { NonEmptyReadonlyArray } from "effect/Array"
import type * as Context from "effect/Context"
import type * as Data from "effect/Data"
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type { TypeId as ExecutionPlanTypeId } from "effect/ExecutionPlan"
import type * as Layer from "effect/Layer"
import type { Pipeable } from "effect/Pipeable"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type * as Stream from "effect/Stream"
import type * as Types from "effect/Types"
import type { AiError } from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type { AssistantMessage, TokenUsage } from "../../conversation/Message.ts"
import type { TokenCounter } from "../../conversation/TokenCounter.ts"
import type { Conversation } from "../../conversation/internal/history.ts"
import type { Reduction } from "../../conversation/internal/reduction.ts"
import type { JsonObject } from "../../payload/Json.ts"
import type { OnChange } from "../../run/internal/definitionChange.ts"
import * as ledger from "../../run/internal/ledger.ts"
import type { Budget } from "../../run/internal/ledger.ts"
import * as repetition from "../../run/internal/repetition.ts"
import * as options from "../../payload/internal/options.ts"
import * as retryPolicy from "../../run/internal/retryPolicy.ts"
import type { Event, Incomplete, MaxSteps, Purpose, ResultBase, State } from "../../run/internal/runParts.ts"
import type { Interruption } from "../../run/internal/runRecorder.ts"
import type * as runRequests from "../../run/internal/runRequests.ts"
import type { ToolFailure } from "../../tool/ToolFailure.ts"
import type { Content, Success, ToolResult } from "../../tool/ToolResult.ts"
import type * as boundTool from "../../tool/internal/boundTool.ts"
import type { WithOwnHandler } from "../../tool/internal/boundTool.ts"
import type { ReadyToolkit } from "./readyToolkit.ts"
import type * as AgentError from "../AgentError.ts"
import type { ModelRegistry } from "../ModelRegistry.ts"
import type * as agentData from "./agentData.ts"
import * as guardTypes from "./guardTypes.ts"
import type { ModelTimeouts } from "./modelTimeouts.ts"

export type { OnChange } from "../../run/internal/definitionChange.ts"
export type { Interruption } from "../../run/internal/runRecorder.ts"
export type { ModelTimeouts } from "./modelTimeouts.ts"

/** The next request of a run: its conversation, the tokens beside it, and the model of the agent. */
export interface Request {
  readonly conversation: Conversation
  readonly overhead: (counter: TokenCounter) => number
  readonly model: LanguageModel.LanguageModel
}

/** The treatment of a conversation whose next request would weigh more than some tokens: it brings what it needs along. */
export interface Policy {
  readonly fit: (request: Request) => Effect.Effect<Reduction | undefined, AgentError.Reason>
}

/** The message of the user: text, or text and file parts, or nothing, which continues the conversation as it is. */
export type Input = string | readonly [Content, ...Array<Content>] | undefined

/** Limits of the time of the model calls and of the tool calls of an agent. */
export interface AgentTimeouts extends ModelTimeouts {
  /** The time of each call of a tool that has none by `ToolSettings.Timeout`; default 10 seconds. */
  readonly tool?: Duration.Input | undefined
}

/** Limits of time: of the run, of one model call with its tool calls, of each attempt of a model call, and of each tool call. */
export interface Timeouts extends ModelTimeouts {
  /**
   * The time of the whole run, which then ends as `Interrupted { reason: "timeout" }`; none by default. The Effects
   * that find model, instructions and toolkit count, too, and are not cut off.
   */
  readonly total?: Duration.Input | undefined
  /**
   * The time of one model call together with the tool calls that it asked for. The run then ends as `Interrupted {
   * reason: "timeout" }`; none by default.
   */
  readonly step?: Duration.Input | undefined
  /**
   * Replaces the timeout of every tool; default: the tool's own, 10 seconds. A remote server also keeps its own
   * timeout, so for its tools this option can only shorten.
   */
  readonly tool?: Duration.Input | undefined
}

/** The tools that the model may or must call in its first call, or in `every` call. */
export type ToolChoice = LanguageModel.ToolChoice<string> | { readonly every: LanguageModel.ToolChoice<string> }

/**
 * An event of a run as `onEvent` gets it: the event, its number in the run from 1, and the state right after it.
 * With `more` the next event follows at once: a store can write both together.
 */
export interface RecordedEvent {
  readonly event: Event
  readonly sequence: number
  readonly state: State
  readonly more: boolean
}

/** Options that hold for a fresh run and for a resumed one. */
export interface ResumeOptions {
  /** The next message of the user; none by default. With open calls it waits until they are done. */
  readonly input?: Input
  /**
   * Decisions about what the run waits for, see `Run.Decision`; none by default. Requests without a decision still wait. A
   * decision that does not fit a request fails with `InvalidDecision`.
   */
  readonly decisions?: ReadonlyArray<runRequests.Decision> | undefined
  /** The `RunContext` from here on, open calls included; default: the context of the state. */
  readonly context?: JsonObject | undefined
  /**
   * The number of model calls for this message, from 1 on, or `"unlimited"`; default: `maxSteps` of the agent. It is rounded down.
   */
  readonly maxSteps?: MaxSteps | undefined
  /**
   * Takes the messages that the user sends during the run; none by default. It is asked before each model call, after the tool calls
   * under way: what it returns enters the conversation there, and has no budget of steps of its own. It is not asked after the answer
   * that ends the run, so messages that come later are still yours: pass the next one as `input` to `Agent.resume`. With
   * `Queue.clear` it takes all that a queue has. A plan takes none. In a workflow the run is made again after a crash, so there it has to
   * return the same messages again: read them in an `Activity`.
   */
  readonly steering?: Effect.Effect<ReadonlyArray<NonNullable<Input>>> | undefined
  /**
   * The limits of what this run may use, with the runs of agents and plans inside it; default: the budget of the agent. A resume without a budget, and
   * without a message, has what is left. See `Budget`.
   */
  readonly budget?: Budget | undefined
  /** Limits of time, see `Agent.Timeouts`; default: the limits of the agent and of its tools. */
  readonly timeouts?: Timeouts | undefined
  /** The tools that the model may or must call, see `Agent.ToolChoice`; default: the choice of the agent. */
  readonly toolChoice?: ToolChoice | undefined
  /** The number of calls of one answer that run at a time; default: the number of the agent. A tool runtime may allow fewer. */
  readonly concurrency?: number | "unbounded" | undefined
  /**
   * Options of the model, which take the place of the options of the agent with the same names; default: the options of
   * the agent. The entry of the registry refuses what it does not take.
   */
  readonly modelOptions?: JsonObject | undefined
  /** The amount of reasoning before each answer; default: the amount of the agent. */
  readonly reasoning?: agentData.ReasoningLevel | undefined
  /** The retries of a model call that failed, see `Agent.Retry`; default: the retries of the agent. */
  readonly retry?: retryPolicy.Retry | undefined
  /**
   * The numbers of times in a row that the model may make the same calls with the same results, see `Agent.RepeatedCalls`; default:
   * the numbers of the agent.
   */
  readonly repeatedCalls?: repetition.RepeatedCalls | undefined
  /** Guards of this run and of all runs inside it, beside the guards of the agents, see `Guard`; none by default. */
  readonly guards?: ReadonlyArray<guardTypes.Guard> | undefined
  /**
   * The number of times in one step that the model is asked again after an answer its adapter could not read, from 0 on; default
   * 2.
   */
  readonly modelMistakes?: number | undefined
  /**
   * The number of answers in a row without text and call after which the model is asked again, from 0 on; default 1. Each is a
   * step. It is rounded down. One more empty answer ends the run as `Stopped` with the reason
   * `empty`.
   */
  readonly emptyAnswers?: number | undefined
  /**
   * The treatment of a request that would become too long, see `ContextWindow`; default: the policy of the agent.
   * `"unlimited"` for none.
   */
  readonly contextWindow?: Policy | "unlimited" | undefined
  /**
   * The number of agents that may run inside each other, from 0 on; default 8. One more fails the run with the reason `MaxDepth`.
   */
  readonly maxDepth?: number | undefined
  /**
   * The treatment of a defect of a handler.
   *
   * - `"result"` (default): the model reads an `unhandled_error`: "The tool failed unexpectedly". The text of the
   *   defect is in the log only, because it may quote secrets.
   * - `"describe"`: the model reads the class and the text of the defect, too.
   * - `"die"`: the run ends with the defect after the other calls settled.
   */
  readonly defects?: "result" | "describe" | "die" | undefined
  /** The hook that keeps the run, see `Agent.RecordedEvent`; none by default. */
  readonly onEvent?: ((entry: RecordedEvent) => Effect.Effect<void>) | undefined
  /**
   * A function that is asked after every event, events of agents used as tools included (`ChildEvent`). An
   * `Interruption` ends the run there; none by default.
   */
  readonly interruptWhen?:
    | ((event: Event, state: State) => Interruption | undefined | Effect.Effect<Interruption | undefined>)
    | undefined
  /**
   * The treatment of an agent that was edited since the state, and of agents inside it.
   *
   * - `"compatible"` (default): the run continues if no change is breaking. Instructions, model, limits, output and
   *   tools without an open call may change. The tool of an open call may change as `ToolContract.compare` allows: its
   *   parameters may widen, its result may narrow, its words may change. A call that had started and was lost with its
   *   process needs no tool. The agent may not be renamed.
   * - `"refuse"`: a run continues under the definition of its state only.
   * - `"accept"`: the run continues in any case. A call whose tool is gone or whose arguments no longer fit fails, and
   *   the model reads why.
   *
   * A refused run fails with `Run.DefinitionChanged`, which lists the changes, before anything is recorded. A run that
   * continues records them in its `RunResumed`. A decision about an open call counts as long as its tool is compatible,
   * its arguments stay as they are and its `approval` is the same; otherwise the call asks again. A decision about the
   * call of an agent counts for the same definition of that agent only.
   */
  readonly onChange?: OnChange | undefined
}

/** Limits of time. */
export const timeouts: options.Allowed = options.group({
  total: options.time,
  step: options.time,
  tool: options.time,
  model: options.someTime,
  firstChunk: options.someTime,
  chunk: options.someTime
} satisfies options.Options<Timeouts>)

const { anything } = options

/** The options of runs, with the values that can be meant. */
export const runOptions: options.Options<Options & ResumeOptions> = {
  input: anything,
  decisions: anything,
  conversation: anything,
  instructions: anything,
  context: anything,
  maxSteps: options.or("unlimited", options.from(1)),
  steering: anything,
  budget: ledger.allowed,
  timeouts,
  toolChoice: anything,
  concurrency: options.or("unbounded", options.wholeFrom(1)),
  modelOptions: anything,
  reasoning: anything,
  retry: retryPolicy.allowed,
  repeatedCalls: repetition.allowed,
  guards: guardTypes.allowed,
  modelMistakes: options.wholeFrom(0),
  emptyAnswers: options.from(0),
  contextWindow: anything,
  maxDepth: options.from(0),
  defects: anything,
  onEvent: anything,
  interruptWhen: anything,
  onChange: anything
}

/** Options of a fresh run. */
export interface Options extends Omit<ResumeOptions, "input" | "onChange"> {
  /**
   * The conversation that the run begins with, used as it is: with its system message, or without one. Default: the
   * agent's instructions alone.
   */
  readonly conversation?: Conversation | undefined
  /**
   * `"replace"` puts the agent's own instructions in place of all system messages of `conversation`, later ones
   * included; default `"keep"`.
   */
  readonly instructions?: "keep" | "replace" | undefined
  /** The `RunContext` of instructions, tools and runtimes; default: the `RunContext` of the caller. */
  readonly context?: JsonObject | undefined
}

/** The result of a run, distinguished by `outcome`. Only `Completed` has `output`. */
export type Result<A> = (ResultBase & { readonly outcome: "Completed"; readonly output: A }) | Incomplete

/** An event of a run of an agent with output `A`. */
export type AgentEvent<A> = Data.TaggedEnum<{
  RunStarted: { readonly runId: string; readonly agent: string; readonly resumed: boolean; readonly state: State }
  StepStarted: { readonly step: number; readonly purpose: Purpose; readonly state: State }
  StepRetried: {
    readonly step: number
    readonly attempt: number
    readonly error: string
    readonly pause: Duration.Duration
    readonly model?: string
    readonly state: State
  }
  TextDelta: DeltaOf
  ReasoningDelta: DeltaOf
  CallDelta: CallOf & DeltaOf
  OutputDelta: DeltaOf & { readonly value: DeepPartial<NoInfer<A>> | undefined }
  StepFinished: {
    readonly step: number
    readonly message: AssistantMessage
    readonly usage: TokenUsage
    readonly total: TokenUsage
    readonly state: State
  }
  ToolStarted: CallOf & { readonly arguments: Schema.Json; readonly state: State }
  ToolProgress: CallOf & { readonly result: Success }
  ToolFinished: CallOf & {
    readonly result: ToolResult
    readonly duration: Duration.Duration
    readonly asked?: true
    readonly state: State
  }
  ApprovalRequested: { readonly request: runRequests.Request; readonly state: State }
  HandedOff: { readonly from: string; readonly to: string; readonly state: State }
  Child: CallOf & { readonly event: AgentEvent<unknown>; readonly state: State }
  StateChanged: { readonly event: Event; readonly state: State }
  RunFinished: { readonly result: Result<A> }
}>

/** A value that is not complete: keys of objects, the ends of texts, and the last items of lists may be missing. */
export type DeepPartial<A> =
  A extends ReadonlyArray<infer Item>
    ? ReadonlyArray<Item>
    : A extends Pipeable | Date | Uint8Array
      ? A
      : A extends object
        ? { readonly [K in keyof A]?: DeepPartial<A[K]> }
        : A

interface DeltaOf {
  readonly messageId: string
  readonly index: number
  readonly delta: string
}

interface CallOf {
  readonly callId: string
  readonly name: string
}

export type TypeId = "~effect-emissary/agent/Agent"

/**
 * Type identifier of agents.
 */
export const TypeId: TypeId = "~effect-emissary/agent/Agent"

export type DefinedTypeId = "~effect-emissary/agent/Agent/Defined"

/**
 * Type identifier of everything that has an agent definition.
 */
export const DefinedTypeId: DefinedTypeId = "~effect-emissary/agent/Agent/Defined"

/** The member of a class of an agent with the name of the agent: the key of the class may have a number behind the name. */
export const NameTypeId = "~effect-emissary/agent/Agent/Name"

const keyStart = "effect-emissary/Agent/"

/** The name of the agent or plan of a class, which is a key. */
export const nameOfService = (service: object): string | undefined => {
  if (Predicate.hasProperty(service, NameTypeId) && typeof service[NameTypeId] === "string") return service[NameTypeId]
  return Predicate.hasProperty(service, "key") && typeof service.key === "string" && service.key.startsWith(keyStart)
    ? service.key.slice(keyStart.length)
    : undefined
}

/** The Schema of a context: its encoded side is a JSON object, and needs no services. */
export type ContextSchema<C = JsonObject> = Schema.Codec<unknown, C>

/** The arguments of a run of an agent that declares no context. */
export type Arguments = [input?: Input, options?: Options]

/** The arguments of a run of an agent that declares a context. */
export type ArgumentsWith<C> = [input: Input, options: Options & { readonly context: C }]

/** The arguments of the runs of an agent with this Schema of its context. */
export type ArgumentsFor<Context extends ContextSchema> = [Context] extends [never]
  ? Arguments
  : ArgumentsWith<Context["Encoded"]>

/** The context that the arguments of a run have. */
export type ContextIn<Args> = [Args] extends [readonly [unknown, { readonly context: infer C }]] ? C : unknown

/**
 * An agent, or anything else that runs like one. `A` is the type of its answer, `R` the services that a run requires, `Args` the
 * arguments of a run: with `never` it is any agent, whatever context a run needs.
 */
export interface Agent<out A, out R = never, in Args extends ReadonlyArray<unknown> = Arguments> {
  readonly [TypeId]: TypeId
  readonly name: string
  readonly run: (...args: Args) => Effect.Effect<Result<A>, AgentError.AgentError, R>
  readonly ask: (...args: Args) => Effect.Effect<A, AgentError.AgentError | AgentError.RunIncomplete, R>
  readonly stream: (...args: Args) => Stream.Stream<AgentEvent<A>, AgentError.AgentError, R>
  readonly resume: (state: State, options?: ResumeOptions) => Effect.Effect<Result<A>, AgentError.AgentError, R>
  readonly resumeStream: (
    state: State,
    options?: ResumeOptions
  ) => Stream.Stream<AgentEvent<A>, AgentError.AgentError, R>
}

/** The way to describe an agent in others: whether its Effects are run, and the agents around it. */
export interface Description {
  readonly runEffects: boolean
  readonly inside: ReadonlyArray<{ readonly name: string; readonly config: unknown }>
}

/** Something that an `AgentDefinition` can be made of, which requires `R`. */
export interface HasDefinition<out R> {
  readonly [DefinedTypeId]: (
    description?: Description
  ) => Effect.Effect<agentData.AgentDefinition, AgentError.AgentError, R>
}

/** An agent rebuilt from its definition. */
export interface Bound extends Agent<Schema.Json>, HasDefinition<never> {
  readonly definition: agentData.AgentDefinition
}

/** A class made by {@link Agent.Service}: the key of the agent in a context, with the layer that builds it. */
export interface ServiceClass<
  Self,
  Name extends string,
  A,
  R,
  RDefinition,
  Args extends ReadonlyArray<unknown> = Arguments
>
  extends
    Context.ServiceClass<Self, `effect-emissary/Agent/${Name}`, Agent<A, never, Args>>,
    HasDefinition<RDefinition> {
  readonly layer: Layer.Layer<Self, AgentError.AgentError, R>
}

export type ToolTypeId = "~effect-emissary/agent/AgentTool"

/**
 * Type identifier of agents used as tools.
 */
export const ToolTypeId: ToolTypeId = "~effect-emissary/agent/AgentTool"

/**
 * A tool that is an agent. It needs no handler; `R` is what running the agent requires, `RDefinition` what its definition
 * requires. Both become requirements of the agent that has the tool. `C` is the context that the agent declares, `Parameters` the Schema
 * of the arguments: the text `input`, or the reason of a handoff.
 */
export interface AgentTool<
  out Name extends string,
  out R,
  out RDefinition = never,
  in C = unknown,
  out Parameters extends Schema.Top = Schema.Struct<{ readonly input: typeof Schema.String }>
>
  extends
    WithOwnHandler<R>,
    Tool.ProviderDefined<
      "emissary.agent",
      Name,
      {
        readonly args: typeof Schema.Void
        readonly parameters: Parameters
        readonly success: typeof Schema.Json
        readonly failure: typeof ToolFailure
        readonly failureMode: "error"
      }
    > {
  readonly [ToolTypeId]: { readonly _RDefinition: Types.Covariant<RDefinition>; readonly _C: Types.Contravariant<C> }
}

/**
 * A text that is known now, or an Effect that finds it once per run.
 *
 * **Details**
 *
 * The Effect may use any service and `RunContext`. Its failure ends the run with the
 * reason `PreparationFailed` of an `AgentError`; `AgentError.causeOf` returns the original
 * error.
 *
 * **Gotchas**
 *
 * `resume` refuses the state of another definition; what an Effect finds does not count
 * there, because it may be found differently tomorrow. A resumed run keeps the
 * instructions it began with: they are in its conversation.
 */
export type Text = string | Effect.Effect<string, unknown, unknown>

/**
 * An `ExecutionPlan` of Effect, each of whose steps provides a model; `R` is what building them requires.
 */
export interface ModelPlan<out R = unknown> {
  readonly "~effect/ExecutionPlan": ExecutionPlanTypeId
  readonly steps: NonEmptyReadonlyArray<{
    readonly provide:
      | Context.Context<LanguageModel.LanguageModel>
      | Layer.Layer<LanguageModel.LanguageModel, unknown, R>
    readonly attempts?: number | undefined
    readonly while?: ((error: AiError) => Effect.Effect<boolean, unknown, R>) | undefined
    readonly schedule?: unknown
  }>
}

/**
 * The model of an agent.
 *
 * **Details**
 *
 * - `"provider/model"`, which `ModelRegistry` resolves.
 * - A list of such names. Where a model has failed, and its retries have, the run continues from its state with the next one, for
 *   the rest of the turn: no tool runs again, what was written is withdrawn, and the event `StepRetried` names the model. Rate
 *   limits, quotas, overloads, lost connections and timeouts lead to the next model. Requests that are refused, content policies and
 *   keys that are refused do not: they fail the run. The next turn, and a run that is resumed, begins with the first model.
 * - An Effect that finds one of these once per run.
 * - An `ExecutionPlan`, for a list of models as layers. `attempts` of a step take the place of `retry.times`, and `while` decides
 *   about errors of these kinds. Pauses are the pauses of `retry`: a plan with a `schedule` is refused. An agent with a plan has no
 *   definition, because a plan is code.
 */
export type ModelSource =
  | string
  | readonly [string, ...Array<string>]
  | Effect.Effect<string | readonly [string, ...Array<string>], unknown, unknown>
  | ModelPlan

/**
 * The tools of an agent: an `effect/ai` Toolkit, one with its handlers (`Toolkit.WithHandler`, as `McpClient.toolkit`
 * of `effect/ai` returns it), a list of tools, or an Effect that finds one of these once per run.
 *
 * **Gotchas**
 *
 * `Toolkit.make` keeps the last of two tools with one name; a list is refused
 * with an error that names the duplicate.
 *
 * Handlers keep the services that their layer was built with. A `Toolkit.WithHandler` that was made elsewhere and is
 * passed as a value runs its handlers with the services of the caller, as `Toolkit.handle` of Effect does: pass the
 * toolkit, or the Effect that makes it.
 */
export type Tools = StaticTools | Effect.Effect<StaticTools, unknown, unknown>

type StaticTools = Toolkit.Any | ReadyToolkit | ReadonlyArray<Tool.Any>

/** The options of an agent. Only what is given is set: there are no hidden fallbacks between a named model and the ambient `LanguageModel`. */
export interface Config<
  out Model extends ModelSource | undefined,
  out Instructions extends Text,
  out ToolsIn extends Tools,
  out Output extends Schema.Top,
  out Context extends ContextSchema = ContextSchema,
  out GuardServices = never
> {
  /**
   * `"provider/model"`, which `ModelRegistry` resolves, a list of names, where each model follows a model that has
   * failed, an Effect that finds one of these once per run, or an `ExecutionPlan`, see `Agent.ModelSource`. Default: the agent
   * runs on the `LanguageModel` of its context.
   */
  readonly model?: Model
  /** Sampling and limits for the entry of the registry, never URLs, headers or keys; none by default. */
  readonly modelOptions?: JsonObject | undefined
  /** Limits of time, see `Agent.AgentTimeouts`; none by default, except 10 seconds of each tool call. A run overrides them. */
  readonly timeouts?: AgentTimeouts | undefined
  /** The tools that the model may or must call, see `Agent.ToolChoice`; default `"auto"`. A run overrides it. */
  readonly toolChoice?: ToolChoice | undefined
  /**
   * The number of calls of one answer that run at a time; default 1. A run overrides it, and the limit of a tool runtime that
   * is provided holds in any case.
   */
  readonly concurrency?: number | "unbounded" | undefined
  /** The system message of a fresh conversation, or an Effect that finds it once per run; none by default. */
  readonly instructions?: Instructions | undefined
  /** The tools that the model may call, see `Agent.Tools`; none by default. */
  readonly toolkit?: ToolsIn | undefined
  /**
   * A Schema of the `RunContext` that each run needs, a tenant for example; none by default. With it the option `context` of
   * a run is required by type, in the encoded form of the Schema, and a run with another context fails with `ContextInvalid` before
   * anything of the agent runs. Tools and instructions read it with `RunContext.read`. Keys that the Schema does not name are left
   * as they are. An agent that is a tool has the context of the agent that calls it.
   */
  readonly context?: Context | undefined
  /** The number of model calls for each message of the user, or `"unlimited"`; default 16. */
  readonly maxSteps?: number | "unlimited" | undefined
  /**
   * A Schema that the final answer is decoded with. An answer that does not fit ends the run as `InvalidOutput`.
   * Default: the output is the text.
   */
  readonly output?: Output | undefined
  /**
   * The way in which the model learns the form of `output`; default `"native"`, the provider's own constrained
   * decoding.
   */
  readonly outputStrategy?: agentData.OutputStrategy | undefined
  /** The amount of reasoning before the answer; default: the provider's. */
  readonly reasoning?: agentData.ReasoningLevel | undefined
  /** The limits of what a run may use for each message of the user, see `Budget`; none by default. */
  readonly budget?: Budget | undefined
  /** The retries of a model call that failed, see `Agent.Retry`; default: two, with pauses of one and two seconds. */
  readonly retry?: retryPolicy.Retry | undefined
  /**
   * The numbers of times in a row that the model may make the same calls with the same results, see `Agent.RepeatedCalls`; default: a
   * note to the model at the third, and the end of the run at the fifth. `"unlimited"` for no limit.
   */
  readonly repeatedCalls?: repetition.RepeatedCalls | undefined
  /** Guards of its runs, see `Guard`; none by default. The definition of the agent has their names. */
  readonly guards?: ReadonlyArray<guardTypes.Guard<GuardServices>> | undefined
  /**
   * The treatment of requests that would become too long, see `ContextWindow`; none by default. It is no part of the
   * agent's definition.
   */
  readonly contextWindow?: Policy | undefined
}

/**
 * The union of the tools in a {@link Tools} value.
 */
type ToolOf<T> = T extends Toolkit.Any
  ? T["tools"][keyof T["tools"]]
  : T extends ReadyToolkit
    ? WithOwnHandler<Tool.HandlerServices<T["tools"][keyof T["tools"]]>>
    : T extends ReadonlyArray<infer One>
      ? One
      : T extends Effect.Effect<infer A, infer _E, infer _R>
        ? ToolOf<A>
        : never

/** The context that suits all agents among some tools. */
type ContextOfTools<T> = (
  T extends AgentTool<infer _Name, infer _R, infer _RDefinition, infer C, infer _Parameters>
    ? (context: C) => void
    : never
) extends (context: infer C) => void
  ? C
  : unknown

/** Demands a Schema of a context that the agents among the tools take, because they have the context of the agent that calls them. */
export type ContextForTools<ToolsIn, Context extends ContextSchema> = [
  [Context] extends [never] ? JsonObject : Context["Encoded"]
] extends [ContextOfTools<ToolOf<ToolsIn>>]
  ? unknown
  : { readonly context: ContextSchema<ContextOfTools<ToolOf<ToolsIn>>> }

/**
 * The services that the tools of an agent require for each call (`dependencies` of `Tool.make`). An agent over a layer would have the
 * services of the layer in their place.
 */
export type CallServices<T> = T extends Toolkit.Any | ReadyToolkit
  ? CallServicesOf<T["tools"][keyof T["tools"]]>
  : T extends ReadonlyArray<infer One>
    ? CallServicesOf<One>
    : T extends Effect.Effect<infer A, infer _E, infer _R>
      ? CallServices<A>
      : never

type CallServicesOf<T> = boundTool.CallServicesOf<T>

export type CallTypeId = "~effect-emissary/agent/Agent/Call"

/** Type identifier of agents whose calls of tools may require services. */
export const CallTypeId: CallTypeId = "~effect-emissary/agent/Agent/Call"

/** An agent whose calls of tools require `S`. */
export interface RequiresForCalls<out S> {
  readonly [CallTypeId]: { readonly _S: Types.Covariant<S> }
}

/** The requirement of a layer over tools that require `S` for each call. */
export type NoServiceOfCall<S> = boundTool.NoServiceOfCall<S>

/**
 * The services that a {@link Text} or {@link Tools} value needs to be resolved.
 */
type ResolutionServices<T> = T extends Toolkit.Any | ReadyToolkit | ReadonlyArray<unknown> | string | undefined
  ? never
  : T extends Effect.Effect<infer _A, infer _E, infer R>
    ? R
    : never

/** The services that describing a tool needs: none, unless it is an agent. */
type ToolDefinitionServices<T> =
  T extends AgentTool<infer _Name, infer _R, infer RDefinition, infer _C, infer _Parameters> ? RDefinition : never

/**
 * The services that running a tool needs: its handler and the services of the tool, or,
 * for an agent used as a tool, whatever that agent needs.
 */
type ToolServices<T> =
  T extends WithOwnHandler<infer R>
    ? R
    : T extends Tool.Any
      ? (Tool.RequiresHandler<T> extends true ? Tool.Handler<T["name"]> : never) | Tool.HandlerServices<T>
      : never

// The two types below are conditional although the condition always holds: of a conditional type editors and compiler
// errors show the members, which name the missing service; of a union they show its name.

/**
 * The services that describing the agent needs: only what its model, instructions and
 * toolkit Effects use, never a handler or a model.
 */
export type DefinitionServices<Model, Instructions, ToolsIn> = [Model] extends [unknown]
  ? | ResolutionServices<Model>
    | ResolutionServices<Instructions>
    | ResolutionServices<ToolsIn>
    | ToolDefinitionServices<ToolOf<ToolsIn>>
  : never

/**
 * Everything a run needs that is not given by the call itself. A run has a scope of its own.
 */
export type RunServices<Model, Instructions, ToolsIn, Output extends Schema.Top, GuardServices = never> = [
  Model
] extends [unknown]
  ? Exclude<
      | GuardServices
      | ResolutionServices<Model>
      | ResolutionServices<Instructions>
      | ResolutionServices<ToolsIn>
      | ToolServices<ToolOf<ToolsIn>>
      | Output["DecodingServices"]
      | ModelServices<Model>,
      Scope.Scope
    >
  : never

/** An agent that names a model needs the registry; an agent without the name of a model needs the model itself. */
type ModelServices<Model> = [Model] extends [undefined]
  ? LanguageModel.LanguageModel
  : Model extends ModelPlan<infer R>
    ? R
    : ModelRegistry
