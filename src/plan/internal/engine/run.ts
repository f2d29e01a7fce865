/** What everything of one run of a plan shares. */
import type * as Effect from "effect/Effect"
import type { Level } from "../../../agent/Nesting.ts"
import type { Interruption } from "../../../agent/RunOptions.ts"
import type { PlanError, Reason } from "../../PlanError.ts"
import type { ResumeOptions } from "../../PlanOptions.ts"
import type { PlanResult } from "../../PlanResult.ts"
import type { BoundPlan } from "../live.ts"
import type { Begin, Sink } from "./drive.ts"
import type { Recorder } from "./recorder.ts"
import type { Learning } from "./rules.ts"

/** `raise` is the limit of iterations for plans inside that used up theirs. */
export interface NestOptions extends ResumeOptions {
  readonly raise?: number | undefined
}

export interface Run {
  readonly bound: BoundPlan
  readonly rules: Learning
  readonly recorder: Recorder
  readonly options: ResumeOptions
  readonly sink: Sink
  /** What holds for what runs inside steps. Its deadline lies a moment after that of the run. */
  readonly level: Level
  /** The new limit of plans inside that used up theirs, where the run was resumed with one. */
  readonly raise: number | undefined
  /** Why steps failed, where it is more than their failure. */
  readonly reasons: Map<string, Reason>
  /** Set when `interruptWhen` stopped the run, here or in a plan inside of it. */
  stopped: Interruption | undefined
  /** Runs a plan that is a step. */
  readonly nest: (
    rules: Learning,
    begin: Begin,
    options: NestOptions,
    sink: Sink
  ) => Effect.Effect<PlanResult<unknown>, PlanError>
}
