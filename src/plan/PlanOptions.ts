/**
 * How a run of a plan is limited, kept and stopped.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type { Interruption, Timeouts } from "../agent/RunOptions.ts"
import type { Decision } from "../agent/RunTransition.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { PlanError } from "./PlanError.ts"
import type { PlanRunEvent } from "./PlanRunEvent.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * Takes durable facts before the run goes on: several that belong together, with the
 * state after them.
 *
 * **Details**
 *
 * It is called for one batch at a time and is never interrupted. What it fails with ends
 * the run at once: steps that run are interrupted, and it is not called again. If it
 * answers with the `key` it wrote to, a stream tells that as `Checkpointed`.
 *
 * @category models
 * @since 0.1.0
 */
export type Journal = (
  events: readonly [PlanRunEvent, ...Array<PlanRunEvent>],
  state: PlanRunState
) => Effect.Effect<void | { readonly key: string }, PlanError>

/**
 * Options of running a plan.
 *
 * **Details**
 *
 * - `concurrency`: how many members of a band run at a time; default unbounded. Less than 1
 *   is a defect.
 * - `maxIterations`: instead of that of the plan; on a resume, the new limit, also of plans
 *   inside that used up theirs.
 * - `timeouts`: `total` of the whole run, which then ends as
 *   `Interrupted { reason: "timeout" }`; `step` and `tool` are handed to agents as theirs,
 *   and `tool` holds for tools that are steps.
 * - `journal`: see {@link Journal}; none by default.
 * - `interruptWhen`: asked before each turn, those of nested plans included; an
 *   `Interruption` ends the run there.
 * - `context`: the `RunContext` of functions, tools and agents; by default that of the
 *   caller, and on a resume that of the run.
 *
 * A fiber that runs a plan and is interrupted interrupts every running step, waits for
 * them, has it written that the run was interrupted, and stays interrupted.
 *
 * @category options
 * @since 0.1.0
 */
export interface PlanOptions {
  readonly concurrency?: number | "unbounded" | undefined
  readonly maxIterations?: number | undefined
  readonly timeouts?: Timeouts | undefined
  readonly context?: JsonObject | undefined
  readonly journal?: Journal | undefined
  readonly interruptWhen?: (() => Effect.Effect<Interruption | undefined>) | undefined
}

/**
 * Options of going on with a run.
 *
 * **Details**
 *
 * - `decisions`: about calls and pauses that wait; what is left out goes on waiting. The
 *   `callId` of a tool that is a step, and of a step that paused, is the step's name.
 *
 * The rest is that of {@link PlanOptions}.
 *
 * @category options
 * @since 0.1.0
 */
export interface ResumeOptions extends PlanOptions {
  readonly decisions?: ReadonlyArray<Decision> | undefined
}

/**
 * Options of running a plan for many inputs.
 *
 * **Details**
 *
 * - `concurrency`: how many runs there are at a time; default unbounded.
 * - `bands`: how many members of a band run at a time, in each run; default unbounded.
 *
 * The rest holds for each run. `journal` is shared: `runId` of the state tells runs apart.
 *
 * @category options
 * @since 0.1.0
 */
export interface RunManyOptions extends Omit<PlanOptions, "concurrency"> {
  readonly concurrency?: number | "unbounded" | undefined
  readonly bands?: number | "unbounded" | undefined
}
