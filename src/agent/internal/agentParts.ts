/**
 * An agent from its blueprint to its run under way.
 *
 * A {@link Blueprint} is an agent before it runs. For a run it is resolved, a {@link Resolved}; an agent that asks a model is a
 * {@link ModelAgent} then. A {@link RunSpec} has what a run begins with, and an {@link ActiveRun} what its actions need.
 */

import type * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { AiError } from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type { Prompt } from "effect/ai/Prompt"
import type * as Message from "../../conversation/Message.ts"
import type { ResponseContent } from "../../conversation/internal/modelMessages.ts"
import type { JsonObject } from "../../payload/Json.ts"
import type { Problem } from "../../payload/PayloadError.ts"
import type * as ledger from "../../run/internal/ledger.ts"
import type * as planRunParts from "../../run/internal/planRunParts.ts"
import type * as runParts from "../../run/internal/runParts.ts"
import type * as runTransition from "../../run/internal/runTransition.ts"
import type * as ToolContract from "../../tool/ToolContract.ts"
import type * as ToolResult from "../../tool/ToolResult.ts"
import type * as boundTool from "../../tool/internal/boundTool.ts"
import type * as toolCall from "../../tool/internal/toolCall.ts"
import type * as AgentError from "../AgentError.ts"
import type * as agentReason from "./agentReason.ts"
import type * as agentData from "./agentData.ts"
import type * as agentOutput from "./agentOutput.ts"
import type * as agentRecorder from "./agentRecorder.ts"
import type * as agentTypes from "./agentTypes.ts"
import type * as guardTypes from "./guardTypes.ts"

/** Provides the services that were captured for an effect. */
export type Wrap = <B, E>(effect: Effect.Effect<B, E>) => Effect.Effect<B, E>

/** The model of one run, with its options. What is absent is as the agent has it. */
export type ModelChoice = Pick<RunSpec, "model"> & Pick<agentTypes.ResumeOptions, "modelOptions" | "reasoning">

/** An agent before it runs, or a plan that runs as one. */
export interface Blueprint<out A> {
  readonly name: string
  /** The Schema of its answer, as its author wrote it. */
  readonly output: Schema.Top | undefined
  /** Fails for a context that the agent does not take. Absent for an agent that declares none. */
  readonly takes?: ((context: JsonObject) => Effect.Effect<unknown, agentReason.ReasonOf<"ContextInvalid">>) | undefined
  /** Everything of the agent runs within the services that were captured for it. */
  readonly within: Wrap
  /** The agent for one run, with what is chosen in place of its own. The scope is the scope of the run. */
  readonly resolve: (choice?: ModelChoice) => Effect.Effect<Resolved<A>, AgentError.Reason, Scope.Scope>
  /** Fails where no run could begin with this model, as far as that is known before a run. A plan has no model. */
  readonly check?: (model: string | undefined) => Effect.Effect<unknown, AgentError.Reason, Scope.Scope>
}

/**
 * An agent, or a plan that runs as one, for one run.
 *
 * - `modelName`: of its first model; `undefined` for the `LanguageModel` around, and for a plan.
 * - `budget`: the limits of a run for each message of the user.
 * - `instructions`: finds the system message. The definition of a run has it only where no Effect finds it. A plan has none.
 * - `guards`: of the agent, which decide before the guards of the host. A plan has none.
 * - `asksModel`: false for a plan. `timeouts.step` bounds a model call with its tools, and messages that steer enter before it.
 * - `output`: the JSON Schema of its answer; none for text. `handoffs`: the agents that its tools pass conversations on to, by name.
 * - `parts`: the parts of its definition, see `definitionChange.compareParts`.
 * - `isOf`: true for a state of the same definition.
 * - `contractOf`: the contract of a tool.
 * - `changes`: the changes of what is open in a state of another definition.
 * - `ask`: asks for the approvals that calls of the conversation need, before decisions about them are taken.
 * - `perform`: performs an action and records its events, until the deadline of the run it gets at most.
 * - `decode`: the answer of a run that is `Completed`.
 */
export interface Resolved<out A> {
  readonly digest: string
  readonly modelName?: string | undefined
  readonly maxSteps: runParts.MaxSteps
  readonly structured: runParts.StructuredSteps
  readonly budget?: ledger.Limits | undefined
  readonly instructions?: Effect.Effect<string | undefined, AgentError.Reason>
  readonly guards?: ReadonlyArray<guardTypes.Guard> | undefined
  readonly asksModel: boolean
  readonly output?: JsonObject | undefined
  readonly handoffs?: ReadonlyMap<string, Effect.Effect<Blueprint<unknown>>> | undefined
  readonly parts: runParts.Parts
  readonly isOf: (state: runParts.State) => boolean
  readonly contractOf: (name: string) => runParts.CallContract | undefined
  readonly changes: (state: runParts.State) => Effect.Effect<ReadonlyArray<ToolContract.Change>>
  readonly ask: (run: ActiveRun, callIds: ReadonlySet<string>) => Effect.Effect<void, AgentError.AgentError>
  readonly perform: (
    run: ActiveRun,
    action: runTransition.ActionOf<"CallModel" | "RunTools">
  ) => Effect.Effect<void, AgentError.AgentError>
  readonly decode: (text: string, output: Schema.Json | undefined) => Effect.Effect<A, ReadonlyArray<Problem>>
}

/**
 * A model of an agent. `name` is `undefined` for the `LanguageModel` around.
 *
 * - `retries`: the most retries, in place of the number of the agent.
 * - `takes`: decides if the model is asked after this error.
 */
export interface NamedModel {
  readonly name: string | undefined
  readonly model: LanguageModel.LanguageModel
  readonly retries?: number | undefined
  readonly takes?: ((error: AiError) => Effect.Effect<boolean, AgentError.Reason>) | undefined
}

/**
 * The parts of an agent that its model calls and its calls of tools read.
 *
 * - `models`: the run continues with the next one where one has failed.
 * - `tools`: as models see them.
 * - `agents`: the digests of the agents that are tools, by the names of the tools.
 * - `outputTool`: the canonical name of the synthetic tool that takes the output, with the strategy `tool`.
 * - `guards`: of the agent itself.
 */
export interface ModelAgent {
  readonly definition: agentData.AgentDefinition
  readonly agents: agentData.RunDefinition["agents"]
  readonly models: readonly [NamedModel, ...Array<NamedModel>]
  readonly contextWindow: agentTypes.Policy | undefined
  readonly tools: boundTool.ToolSet
  readonly output: agentOutput.Output<unknown>
  readonly outputTool: string | undefined
  readonly guards: ReadonlyArray<guardTypes.Guard>
}

/**
 * The beginning of a run: fresh without `state`, or a continuation from `state`. The caller of an agent chooses `state`, `input`
 * and `options`, the code around a run the rest. Runs started by user code inside a tool or a step do not inherit the rest. When the
 * outer run ends, the code is interrupted, and its runs with it, unless they were made to outlive the outer run.
 *
 * - `streaming`: models are asked for streams, so that what they had written is known where the run is stopped.
 * - `parent`: the run around.
 * - `isPart`: another run, or a session, waits for decisions about its requests.
 * - `deadline`: the deadline of the run around, in milliseconds of the Clock.
 * - `model`: the name of a model in place of the agent's own.
 * - `message`: the id and the metadata of the user message that the input becomes; default: a new id, and no metadata.
 * - `instructions`: with `"latest"`, a message to a run that has begun finds the instructions again, and records other ones.
 * - `steering`: takes the messages that wait to enter the run. It is asked before each model call.
 * - `budgets`: budgets beside the budget of the run, which hold for longer than one run.
 * - `write`: stores the value of a step with `writes`, after the events before it. It waits where it cannot, and never fails.
 */
export interface RunSpec {
  readonly state?: runParts.State | undefined
  readonly input: agentTypes.Input
  readonly options: agentTypes.Options & Pick<agentTypes.ResumeOptions, "onChange">
  readonly streaming?: boolean | undefined
  readonly parent?: agentRecorder.Parent | undefined
  readonly isPart?: boolean | undefined
  readonly deadline?: number | undefined
  readonly model?: string | undefined
  readonly message?: Message.Options | undefined
  readonly instructions?: "latest" | "first" | undefined
  readonly steering?: Steering | undefined
  readonly budgets?: ReadonlyArray<ledger.Given> | undefined
  readonly write?: ((write: planRunParts.StepWrite) => Effect.Effect<void>) | undefined
}

/**
 * Messages that enter a run under way, with the id and the metadata that each has in the conversation. `deadline`: the run ends at this
 * time of the Clock (milliseconds) at the latest.
 */
export type Steering = Effect.Effect<
  ReadonlyArray<{
    readonly input: Exclude<agentTypes.Input, undefined>
    readonly message?: Message.Options | undefined
    readonly deadline?: number | undefined
  }>
>

/**
 * The run of an agent under way. Deadlines are in milliseconds of the Clock: `runDeadline` is the deadline of the whole run,
 * `deadline` the deadline of its action. `context` has the services around the run. `guarding` is absent for a run without guards.
 */
export interface ActiveRun {
  readonly recorder: agentRecorder.AgentRecorder
  readonly options: agentTypes.ResumeOptions
  readonly streaming: boolean
  readonly maxDepth: number
  runDeadline: number | undefined
  readonly deadline: number | undefined
  readonly write?: RunSpec["write"]
  context: Context.Context<never>
  guarding: Guarding | undefined
}

/** The request of a model call: the prompt, and the tools that the model may or must call, where it is offered tools. */
export interface ModelRequest {
  readonly prompt: Prompt
  readonly toolChoice: LanguageModel.ToolChoice<string>
}

/** A model call under way. */
export interface ModelCall {
  readonly agent: ModelAgent
  readonly run: ActiveRun
  readonly action: runTransition.ActionOf<"CallModel">
  readonly request: ModelRequest
  /** The sentences of the run at the end of the prompt. Later prompts have them in front of the answer. */
  readonly asked: ReadonlyArray<string>
}

export type Answered = Result.Result<ResponseContent, AiError>

/** Makes the attempts of a model call. */
export type Send = (call: ModelCall) => Effect.Effect<Answered, AgentError.AgentError>

/** A call where it passes: with its checked arguments before it runs, and with its result after that. */
export interface Passing {
  readonly agent: ModelAgent
  readonly run: ActiveRun
  readonly call: toolCall.BoundCall
  readonly prepareWith?: (args: JsonObject) => Result.Result<toolCall.BoundCall, ToolResult.Failure>
  readonly result?: ToolResult.ToolResult | undefined
  readonly handoff?: runParts.HandoffTerms
  /** A guard asks a person for the call, or for its result, which is held. */
  readonly isAsked?: boolean | undefined
}

/** The record of a verdict, without its time. */
export type Decided = Omit<runParts.EventOf<"GuardDecided">, "at">

/** A message that passes to a run, with the verdicts about it. */
export interface PassedInput {
  readonly message: Message.UserMessage
  readonly decided: ReadonlyArray<Decided>
}

/**
 * The guards of a run, first the guards of the agent, and then the guards of the host, at the seams of the run.
 *
 * - `withdraws`: answers can be withdrawn when they are written.
 * - `holds`: answers are shown as a whole.
 * - `holdsResults`: results are shown as a whole.
 */
export interface Guarding {
  readonly withdraws: boolean
  readonly holds: boolean
  readonly holdsResults: boolean
  readonly passInput: (
    run: Pick<ActiveRun, "recorder">,
    message: Message.UserMessage,
    asksModel: boolean
  ) => Effect.Effect<PassedInput>
  readonly passPrompt: (call: ModelCall) => Effect.Effect<ModelCall | undefined>
  readonly passModel: (call: ModelCall, send: Send) => Effect.Effect<Answered | undefined, AgentError.AgentError>
  readonly passTool: (passing: Passing) => Effect.Effect<Passing>
}
