/**
 * What a run of a plan tells while it happens.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import type { AgentEvent } from "../agent/AgentEvent.ts"
import type { StepFailure } from "./PlanOutcome.ts"
import type { PlanResult } from "./PlanResult.ts"
import type { PlanRunEvent, StepRecord } from "./PlanRunEvent.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * One event of a run. `path` are the steps of the outer plans, from the outside in.
 *
 * **Details**
 *
 * Steps that a route jumped over are told as `StepSkipped` when the route is taken (they
 * may still run later, in a loop). `Agent` is what an agent in a step tells, deltas
 * included. `StateChanged` is each durable fact with the state after it; with a
 * checkpoint it is `Checkpointed` once it is written.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanEvent<A> =
  | { readonly _tag: "PlanStarted"; readonly path: Path; readonly resumed: boolean; readonly state: PlanRunState }
  | { readonly _tag: "BandStarted"; readonly path: Path; readonly steps: ReadonlyArray<string> }
  | { readonly _tag: "BandFinished"; readonly path: Path; readonly steps: ReadonlyArray<string> }
  | { readonly _tag: "StepStarted"; readonly path: Path; readonly step: string; readonly attempt: number }
  | {
      readonly _tag: "StepRetried"
      readonly path: Path
      readonly step: string
      readonly attempt: number
      readonly failure: StepFailure
    }
  | { readonly _tag: "Agent"; readonly path: Path; readonly step: string; readonly event: AgentEvent<unknown> }
  | {
      readonly _tag: "StepFinished"
      readonly path: Path
      readonly step: string
      readonly record: StepRecord
      readonly duration: Duration.Duration
    }
  | { readonly _tag: "StepFailed"; readonly path: Path; readonly step: string; readonly failure: StepFailure }
  | { readonly _tag: "StepPaused"; readonly path: Path; readonly step: string; readonly reason: string | undefined }
  | { readonly _tag: "StepSkipped"; readonly path: Path; readonly step: string; readonly router: string }
  | {
      readonly _tag: "RouteTaken"
      readonly path: Path
      readonly step: string
      readonly to: string
      readonly rejoin: boolean
    }
  | { readonly _tag: "StateChanged"; readonly event: PlanRunEvent; readonly state: PlanRunState }
  | { readonly _tag: "Checkpointed"; readonly key: string; readonly state: PlanRunState }
  | { readonly _tag: "PlanFinished"; readonly path: Path; readonly result: PlanResult<A> }

/**
 * @category models
 * @since 0.1.0
 */
export type Path = ReadonlyArray<string>
