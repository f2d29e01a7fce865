/**
 * What a run of a plan gives.
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import type { ApprovalRequest } from "../agent/Outcome.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { PauseRequest } from "./PlanOutcome.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * What every result holds.
 *
 * **Details**
 *
 * - `state`: what `Plan.resume` goes on from; `PlanRunState.history` are the results of
 *   all steps.
 * - `usage`: of all steps and everything inside them, each counted once.
 * - `iterations`: turns so far, a band counts as one.
 * - `writes`: what steps wrote under their `writes` keys.
 *
 * @category models
 * @since 0.1.0
 */
export interface Base {
  readonly state: PlanRunState
  readonly usage: TokenUsage
  readonly iterations: number
  readonly writes: ReadonlyMap<string, Schema.Json>
}

/**
 * The last step gave its answer: `output` decoded with the plan's output schema (without one
 * it is the payload), `payload` as JSON, and `text` as words. A plan without steps gives
 * its input.
 *
 * @category models
 * @since 0.1.0
 */
export interface Completed<out A> extends Base {
  readonly outcome: "Completed"
  readonly output: A
  readonly payload: Schema.Json
  readonly text: string
}

/**
 * A step ended the plan, and all plans around it, with an answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface Concluded extends Base {
  readonly outcome: "Concluded"
  readonly answer: string
}

/**
 * Steps wait: `pauses` for anybody to resume the run, `requests` for decisions about calls.
 *
 * @category models
 * @since 0.1.0
 */
export interface Paused extends Base {
  readonly outcome: "Paused"
  readonly pauses: ReadonlyArray<PauseRequest>
  readonly requests: ReadonlyArray<ApprovalRequest>
}

/**
 * The run was stopped: by `interruptWhen` (its reason) or by `timeouts.total`
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
 * The result of a run, told apart by `outcome`. Only `Completed` has `output`.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanResult<A> = Completed<A> | Concluded | Paused | Interrupted
