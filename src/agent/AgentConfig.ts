/**
 * What an agent is made of: the options of `Agent.make` and `Agent.Service`,
 * and the types that infer its output and the services it needs.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type { JsonObject } from "../payload/Json.ts"
import type { OutputStrategy, ReasoningLevel } from "./AgentDefinition.ts"
import type { AgentTool } from "./AgentTool.ts"
import type { BudgetPolicy } from "./BudgetPolicy.ts"
import type { ModelRegistry } from "./ModelRegistry.ts"

/**
 * A text that is known now, or an Effect that finds it once per run.
 *
 * **Details**
 *
 * The Effect may use any service and `RunContext`. Its failure ends the run with the
 * reason `PreparationFailed` of an `AgentError`; `AgentError.causeOf` gives the original
 * error.
 *
 * **Gotchas**
 *
 * `resume` refuses the state of another definition; what an Effect finds does not count
 * there, because it may be found differently tomorrow. A resumed run keeps the
 * instructions it began with: they stand in its conversation.
 *
 * @category models
 * @since 0.1.0
 */
export type Text = string | Effect.Effect<string, unknown, unknown>

/**
 * The tools of an agent: an `effect/ai` Toolkit, a list of tools, or an Effect
 * that finds either once per run.
 *
 * **Gotchas**
 *
 * `Toolkit.make` keeps the last of two tools with one name; a list is refused
 * with an error that names the duplicate.
 *
 * @category models
 * @since 0.1.0
 */
export type Tools =
  | Toolkit.Any
  | ReadonlyArray<Tool.Any>
  | Effect.Effect<Toolkit.Any | ReadonlyArray<Tool.Any>, unknown, unknown>

/**
 * The options of an agent. Only what is given is set: there are no hidden
 * fallbacks between a named model and the ambient `LanguageModel`.
 *
 * **Details**
 *
 * - `model`: `"provider/model"`, resolved by `ModelRegistry`. Without it the
 *   agent runs on the `LanguageModel` of its context.
 * - `modelOptions`: sampling and limits handed to the registry entry (never
 *   URLs, headers or keys).
 * - `instructions`: the system message of a fresh conversation.
 * - `maxSteps`: model calls per user message, default 16.
 * - `output`: a Schema; the final answer is decoded to it. Default: the text.
 * - `outputStrategy`: how the model is told about `output`, default `native`.
 * - `budget`: what to do when a request would become too long, see `BudgetPolicy`;
 *   default: nothing. It is no part of the agent's definition.
 *
 * @category options
 * @since 0.1.0
 */
export interface AgentConfig<
  out Model extends Text | undefined,
  out Instructions extends Text,
  out ToolsIn extends Tools,
  out Output extends Schema.Top
> {
  readonly model?: Model
  readonly modelOptions?: JsonObject | undefined
  readonly instructions?: Instructions | undefined
  readonly toolkit?: ToolsIn | undefined
  readonly maxSteps?: number | "unlimited" | undefined
  readonly output?: Output | undefined
  readonly outputStrategy?: OutputStrategy | undefined
  readonly reasoning?: ReasoningLevel | undefined
  readonly budget?: BudgetPolicy | undefined
}

/**
 * The union of the tools in a {@link Tools} value.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ToolOf<T> = T extends Toolkit.Any
  ? T["tools"][keyof T["tools"]]
  : T extends ReadonlyArray<infer One>
    ? One
    : T extends Effect.Effect<infer A, infer _E, infer _R>
      ? ToolOf<A>
      : never

/**
 * The services that a {@link Text} or {@link Tools} value needs to be resolved.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ResolutionServices<T> = T extends Toolkit.Any | ReadonlyArray<unknown> | string | undefined
  ? never
  : T extends Effect.Effect<infer _A, infer _E, infer R>
    ? R
    : never

/**
 * What running a tool needs: its handler and the services of the tool, or,
 * for an agent used as a tool, whatever that agent needs.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ToolServices<T> =
  T extends AgentTool<infer _Name, infer R>
    ? R
    : T extends Tool.Any
      ? (Tool.RequiresHandler<T> extends true ? Tool.Handler<T["name"]> : never) | Tool.HandlerServices<T>
      : never

// The two types below are conditional although the condition always holds: of a conditional type editors and compiler
// errors show the members, which is what somebody wants to read who has forgotten a service; of a union its name.

/**
 * What describing the agent needs: only what its model, instructions and
 * toolkit Effects use, never a handler or a model.
 *
 * @category utility types
 * @since 0.1.0
 */
export type DefinitionServices<Model, Instructions, ToolsIn> = [Model] extends [unknown]
  ? ResolutionServices<Model> | ResolutionServices<Instructions> | ResolutionServices<ToolsIn>
  : never

/**
 * Everything a run needs that is not given by the call itself.
 *
 * @category utility types
 * @since 0.1.0
 */
export type RunServices<Model, Instructions, ToolsIn, Output extends Schema.Top> = [Model] extends [unknown]
  ? | DefinitionServices<Model, Instructions, ToolsIn>
    | ToolServices<ToolOf<ToolsIn>>
    | Output["DecodingServices"]
    | ModelServices<Model>
  : never

/**
 * An agent that names a model needs the registry, one that names none needs
 * the model itself.
 *
 * @category utility types
 * @since 0.1.0
 */
export type ModelServices<Model> = [Model] extends [undefined] ? LanguageModel.LanguageModel : ModelRegistry
