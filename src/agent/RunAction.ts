/**
 * What a driver has to do next.
 *
 * @since 0.1.0
 */
import type { ToolCallPart } from "../conversation/Part.ts"
import type { ToolResult } from "../tool/ToolResult.ts"
import type { ApprovalRequest, Outcome } from "./Outcome.ts"
import type { Purpose } from "./RunEvent.ts"
import type { RunState } from "./RunState.ts"

/**
 * A call that may be run.
 *
 * **Details**
 *
 * - `approved`: somebody allowed it, so its approval policy is not asked again. Any
 *   other call whose policy demands an approval gets an `ApprovalRequested` event
 *   instead of a `ToolStarted`.
 * - `started`: it is an agent that has begun already: no second `ToolStarted`, its run
 *   goes on from `child`.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunnableCall {
  readonly part: ToolCallPart
  readonly approved: boolean
  readonly started: boolean
  readonly child?: RunState
}

/**
 * The result of a call that is known without running anything: it was denied, cut off
 * or lost, or it carried the agent's output.
 *
 * @category models
 * @since 0.1.0
 */
export interface Settlement {
  readonly callId: string
  readonly name: string
  readonly result: ToolResult
}

/**
 * Call the model.
 *
 * **Details**
 *
 * `step` is the number for `StepStarted`. `first` says that it is the first answer
 * since the run was started or resumed. `mistakes` are the problems of this step to
 * tell the model about; how many are too many is up to the driver.
 *
 * @category models
 * @since 0.1.0
 */
export interface CallModel {
  readonly _tag: "CallModel"
  readonly step: number
  readonly purpose: Purpose
  readonly first: boolean
  readonly mistakes: ReadonlyArray<string>
}

/**
 * Record the results in `settled`, and run `calls`. Both in call order; one of them
 * may be empty, never both.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunTools {
  readonly _tag: "RunTools"
  readonly calls: ReadonlyArray<RunnableCall>
  readonly settled: ReadonlyArray<Settlement>
}

/**
 * Nothing can be done before somebody decides: end the run with the outcome
 * `AwaitingApproval`.
 *
 * @category models
 * @since 0.1.0
 */
export interface AwaitApproval {
  readonly _tag: "AwaitApproval"
  readonly requests: readonly [ApprovalRequest, ...Array<ApprovalRequest>]
}

/**
 * Nothing is left to do: end the run with this outcome, unless it has ended already.
 *
 * @category models
 * @since 0.1.0
 */
export interface Finished {
  readonly _tag: "Finished"
  readonly outcome: Outcome
}

/**
 * What a driver has to do next.
 *
 * @category models
 * @since 0.1.0
 */
export type RunAction = CallModel | RunTools | AwaitApproval | Finished
