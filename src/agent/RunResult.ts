/**
 * What a run hands out when it ended, whichever way.
 *
 * @since 0.1.0
 */
import type { Conversation } from "../conversation/Conversation.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { ValidationIssue } from "../payload/ValidationIssue.ts"
import type { ApprovalRequest, StopReason } from "./Outcome.ts"
import type { RunState } from "./RunState.ts"

/**
 * What every result holds.
 *
 * **Details**
 *
 * - `text`: the text of the last assistant message, `""` when there is none.
 * - `conversation`: the whole history; its end is open after `MaxSteps` and
 *   `AwaitingApproval` (`Conversation.seal` closes it).
 * - `usage`: what the run used, agents used as tools included.
 * - `steps`: model calls of this run.
 * - `state`: what `resume` goes on from.
 *
 * @category models
 * @since 0.1.0
 */
export interface Base {
  readonly text: string
  readonly conversation: Conversation
  readonly usage: TokenUsage
  readonly steps: number
  readonly state: RunState
}

/**
 * The model gave its final answer, decoded to the agent's output.
 *
 * @category models
 * @since 0.1.0
 */
export interface Completed<out A> extends Base {
  readonly outcome: "Completed"
  readonly output: A
}

/**
 * The last answer the budget allows asked for more tools; those calls are open.
 *
 * @category models
 * @since 0.1.0
 */
export interface MaxSteps extends Base {
  readonly outcome: "MaxSteps"
}

/**
 * Nothing can go on before these calls are decided.
 *
 * @category models
 * @since 0.1.0
 */
export interface AwaitingApproval extends Base {
  readonly outcome: "AwaitingApproval"
  readonly requests: readonly [ApprovalRequest, ...Array<ApprovalRequest>]
}

/**
 * The run was stopped: by `interruptWhen` (its reason) or by a timeout
 * (`"timeout"`).
 *
 * @category models
 * @since 0.1.0
 */
export interface Interrupted extends Base {
  readonly outcome: "Interrupted"
  readonly reason: string | undefined
}

/**
 * The final answer does not fit the agent's output schema.
 *
 * @category models
 * @since 0.1.0
 */
export interface InvalidOutput extends Base {
  readonly outcome: "InvalidOutput"
  readonly issues: ReadonlyArray<ValidationIssue>
}

/**
 * The provider ended the answer before the model did.
 *
 * @category models
 * @since 0.1.0
 */
export interface Stopped extends Base {
  readonly outcome: "Stopped"
  readonly finishReason: StopReason
}

/**
 * The result of a run, told apart by `outcome`. Only `Completed` has `output`.
 *
 * @category models
 * @since 0.1.0
 */
export type RunResult<A> = Completed<A> | MaxSteps | AwaitingApproval | Interrupted | InvalidOutput | Stopped
