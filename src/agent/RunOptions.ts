/**
 * What one call of `run`, `ask`, `stream` or `resume` may set.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import type * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type { Conversation } from "../conversation/Conversation.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { Content } from "../tool/Content.ts"
import type { BudgetPolicy } from "./BudgetPolicy.ts"
import type { RunEvent } from "./RunEvent.ts"
import type { RunState } from "./RunState.ts"
import type { Decision } from "./RunTransition.ts"

/**
 * What the user says: text, or text and file parts, or nothing, which goes on
 * with the conversation as it is.
 *
 * @category models
 * @since 0.1.0
 */
export type Input = string | readonly [Content, ...Array<Content>] | undefined

export {
  /**
   * @category models
   * @since 0.1.0
   */
  type Decision
} from "./RunTransition.ts"

/**
 * The answer of `interruptWhen` that stops a run.
 *
 * @category models
 * @since 0.1.0
 */
export interface Interruption {
  readonly reason?: string | undefined
}

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
export interface Timeouts {
  readonly total?: Duration.Input | undefined
  readonly step?: Duration.Input | undefined
  readonly tool?: Duration.Input | undefined
}

/**
 * Which tools the model may or must call. Applies to the first model call of
 * the run; later calls use `auto`, unless `{ every }` insists.
 *
 * @category options
 * @since 0.1.0
 */
export type ToolChoice = LanguageModel.ToolChoice<string> | { readonly every: LanguageModel.ToolChoice<string> }

/**
 * Options that hold for a fresh run and for a resumed one.
 *
 * **Details**
 *
 * - `input`: what the user says next; with open calls it waits until they are done.
 * - `decisions`: answers to pending approvals. Those that are not answered still wait.
 * - `maxSteps`: model calls for this message, default that of the agent. A number below
 *   1 counts as 1.
 * - `toolChoice`: see {@link ToolChoice}.
 * - `timeouts`: see {@link Timeouts}; none by default, tools have their own 10 seconds.
 * - `modelRetry`: a schedule for retryable `AiError`s of the model; none by default.
 * - `modelMistakes`: how often per step the model is asked again after an answer
 *   its adapter could not read, default 2.
 * - `budget`: what to do when a request would become too long, default that of the
 *   agent; `"off"` for nothing.
 * - `maxDepth`: how deep agents may call agents, default 8.
 * - `defects`: `"result"` (default) gives the model an `unhandled_error` for a
 *   handler's defect; `"die"` ends the run with it after the siblings settled.
 * - `onState`: called after every applied event with the state that holds it, and
 *   once more, uninterruptibly, when the run's fiber is interrupted.
 * - `interruptWhen`: asked after every event, those of agents used as tools included
 *   (`ChildEvent`); an `Interruption` ends the run there.
 *
 * @category options
 * @since 0.1.0
 */
export interface ResumeOptions {
  readonly input?: Input
  readonly decisions?: ReadonlyArray<Decision> | undefined
  readonly maxSteps?: number | "unlimited" | undefined
  readonly timeouts?: Timeouts | undefined
  readonly toolChoice?: ToolChoice | undefined
  readonly modelRetry?: Schedule.Schedule<unknown, AiError.AiError> | undefined
  readonly modelMistakes?: number | undefined
  readonly budget?: BudgetPolicy | "off" | undefined
  readonly maxDepth?: number | undefined
  readonly defects?: "result" | "die" | undefined
  readonly onState?: ((state: RunState, event: RunEvent) => Effect.Effect<void>) | undefined
  readonly interruptWhen?:
    | ((event: RunEvent, state: RunState) => Interruption | undefined | Effect.Effect<Interruption | undefined>)
    | undefined
}

/**
 * Options of a fresh run.
 *
 * **Details**
 *
 * - `conversation`: used verbatim, its system message or lack of one included.
 * - `instructions`: `"replace"` puts the agent's own instructions in place of the
 *   given conversation's system message.
 * - `context`: the `RunContext` of instructions, tools and runtimes; default is
 *   the `RunContext` of the caller.
 *
 * @category options
 * @since 0.1.0
 */
export interface RunOptions extends Omit<ResumeOptions, "input"> {
  readonly conversation?: Conversation | undefined
  readonly instructions?: "keep" | "replace" | undefined
  readonly context?: JsonObject | undefined
}
