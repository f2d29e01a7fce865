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

/** @category models @since 0.1.0 */
export interface Base {
  readonly state: PlanRunState
  /** Of all steps and everything inside them, each counted once. */
  readonly usage: TokenUsage
  readonly iterations: number
  /** What steps wrote under their `writes` keys. */
  readonly writes: ReadonlyMap<string, Schema.Json>
}

/** @category models @since 0.1.0 */
export interface Completed<out A> extends Base {
  readonly outcome: "Completed"
  readonly output: A
  readonly payload: Schema.Json
  readonly text: string
}

/** @category models @since 0.1.0 */
export interface Concluded extends Base {
  readonly outcome: "Concluded"
  readonly answer: string
}

/** @category models @since 0.1.0 */
export interface Paused extends Base {
  readonly outcome: "Paused"
  readonly pauses: ReadonlyArray<PauseRequest>
  readonly requests: ReadonlyArray<ApprovalRequest>
}

/** @category models @since 0.1.0 */
export interface Interrupted extends Base {
  readonly outcome: "Interrupted"
  readonly reason: string | undefined
}

/**
 * @category models
 * @since 0.1.0
 */
export type PlanResult<A> = Completed<A> | Concluded | Paused | Interrupted
