/**
 * Options and results of runs. Below events and driver; `Agent` re-exports what users name.
 */

import type * as Duration from "effect/Duration"
import type * as Effect from "effect/Effect"
import type * as Schedule from "effect/Schedule"
import type * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type { TokenUsage } from "../../conversation/Message.ts"
import type { Conversation } from "../../conversation/internal/history.ts"
import type { JsonObject } from "../../payload/Json.ts"
import type { Content } from "../../tool/ToolResult.ts"
import type * as Run from "../Run.ts"
import type { Decision } from "../Run.ts"

export {
  /**
   * @category models
   * @since 0.1.0
   */
  type Decision
} from "../Run.ts"

/**
 * Shorten and remove, as `Conversation.truncate` does.
 */
interface Truncate {
  readonly _tag: "Fit"
  readonly threshold: number
  readonly target: number
  readonly keepOutput: number | undefined
}

/**
 * Summarize old turns, as `Conversation.compact` does.
 */
export interface Compact {
  readonly _tag: "Compact"
  readonly threshold: number
  readonly target: number
  readonly keepRecent: number
  readonly summarize: (old: Conversation) => Effect.Effect<string, unknown, LanguageModel.LanguageModel>
}

/**
 * The treatment of a conversation whose next request would weigh more than `threshold` tokens.
 *
 * **Details**
 *
 * Sizes are those of `Conversation.estimatedSize`, the agent's tool definitions
 * included. The policy is asked before each model call, when no call is open.
 *
 * Its result is the `view` of the run's state: models receive the view, and later
 * messages enter both. The conversation of the state and of the result stays whole. A view lasts until it passes the threshold itself, so prompt caches of
 * providers stay warm in between, a summary is made once, and a run that is resumed,
 * elsewhere too, sends the same requests. Each view is one
 * `ConversationFitted` event with a report of the reduction.
 *
 * A new run begins without a view; to keep one over several messages of a user, resume
 * the state of the last result with the next `input`.
 */
export type Budget = Truncate | Compact

/**
 * The message of the user: text, or text and file parts, or nothing, which continues
 * the conversation as it is.
 */
export type Input = string | readonly [Content, ...Array<Content>] | undefined

/**
 * The answer of `interruptWhen` that stops a run.
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
 */
export interface Timeouts {
  readonly total?: Duration.Input | undefined
  readonly step?: Duration.Input | undefined
  readonly tool?: Duration.Input | undefined
}

/**
 * The tools that the model may or must call. Applies to the first model call of
 * the run; later calls use `auto`, unless `{ every }` insists.
 */
export type ToolChoice = LanguageModel.ToolChoice<string> | { readonly every: LanguageModel.ToolChoice<string> }

/**
 * Options that hold for a fresh run and for a resumed one.
 *
 * **Details**
 *
 * - `input`: the next message of the user; with open calls it waits until they are done.
 * - `decisions`: answers to pending approvals. Those that are not answered still wait.
 * - `maxSteps`: model calls for this message, default that of the agent. A number below
 *   1 counts as 1.
 * - `toolChoice`: see {@link ToolChoice}.
 * - `timeouts`: see {@link Timeouts}; none by default, tools have their own 10 seconds.
 * - `modelRetry`: a schedule for retryable `AiError`s of the model; none by default.
 * - `modelMistakes`: the number of new attempts per step after an answer that the
 *   adapter could not read, default 2.
 * - `budget`: the treatment of requests that would become too long, default that of the
 *   agent; `"off"` for nothing.
 * - `maxDepth`: the largest depth of agents that call agents, default 8.
 * - `defects`: `"result"` (default) returns an `unhandled_error` to the model for a
 *   handler's defect; `"die"` ends the run with it after the siblings settled.
 * - `onState`: called after every applied event with the state that holds it, and
 *   once more, uninterruptibly, when the run's fiber is interrupted.
 * - `interruptWhen`: asked after every event, those of agents used as tools included
 *   (`ChildEvent`); an `Interruption` ends the run there.
 */
export interface ResumeOptions {
  readonly input?: Input
  readonly decisions?: ReadonlyArray<Decision> | undefined
  readonly maxSteps?: number | "unlimited" | undefined
  readonly timeouts?: Timeouts | undefined
  readonly toolChoice?: ToolChoice | undefined
  readonly modelRetry?: Schedule.Schedule<unknown, AiError.AiError> | undefined
  readonly modelMistakes?: number | undefined
  readonly budget?: Budget | "off" | undefined
  readonly maxDepth?: number | undefined
  readonly defects?: "result" | "die" | undefined
  readonly onState?: ((state: Run.State, event: Run.Event) => Effect.Effect<void>) | undefined
  readonly interruptWhen?:
    | ((event: Run.Event, state: Run.State) => Interruption | undefined | Effect.Effect<Interruption | undefined>)
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
 */
export interface Options extends Omit<ResumeOptions, "input"> {
  readonly conversation?: Conversation | undefined
  readonly instructions?: "keep" | "replace" | undefined
  readonly context?: JsonObject | undefined
}

interface Base {
  readonly text: string
  readonly conversation: Conversation
  readonly usage: TokenUsage
  readonly steps: number
  readonly state: Run.State
}

/** An outcome with its tag under `outcome`. */
type Ended<O> = O extends { readonly _tag: infer Tag } ? Base & { readonly outcome: Tag } & Omit<O, "_tag"> : never

/**
 * The result of a run, distinguished by `outcome`. Only `Completed` has `output`.
 *
 * **Details**
 *
 * - `text`: the text of the last assistant message, `""` when there is none.
 * - `conversation`: the whole history; its end is open after `MaxSteps` and
 *   `AwaitingApproval` (`Conversation.seal` closes it).
 * - `usage`: the usage of the run, agents used as tools included.
 * - `steps`: model calls of this run.
 * - `state`: the state to `resume`.
 * - The members of its `Run.Outcome`. `output` is decoded to the agent's output.
 */
export type Result<A> =
  | (Base & { readonly outcome: "Completed"; readonly output: A })
  | Ended<Exclude<Run.Outcome, { readonly _tag: "Completed" }>>
