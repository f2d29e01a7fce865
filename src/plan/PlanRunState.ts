/**
 * Where a run of a plan stands: a value that travels, and from which it goes on.
 *
 * @since 0.1.0
 */
import type * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import type * as HashMap from "effect/HashMap"
import * as Schema from "effect/Schema"
import type { RunState } from "../agent/RunState.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { PlanInput } from "./PlanInput.ts"
import type { PlanOutcome, StepFailure } from "./PlanOutcome.ts"
import type { StepRecord } from "./PlanRunEvent.ts"

/**
 * What runs inside a step and has a state of its own.
 *
 * @category models
 * @since 0.1.0
 */
export type Child =
  | { readonly _tag: "Agent"; readonly state: RunState }
  | { readonly _tag: "Plan"; readonly state: PlanRunState }

/**
 * How far a step of the current turn is.
 *
 * @category models
 * @since 0.1.0
 */
export type MemberStatus =
  | { readonly _tag: "Waiting" }
  | { readonly _tag: "Running"; readonly attempt: number; readonly startedAt: DateTime.Utc; readonly child?: Child }
  | { readonly _tag: "Finished"; readonly record: StepRecord }
  | { readonly _tag: "Failed"; readonly failure: StepFailure; readonly child?: Child }
  | { readonly _tag: "Paused"; readonly reason?: string; readonly child?: Child; readonly decision?: Decided }
  | { readonly _tag: "Concluded"; readonly answer: string }

/**
 * A decision about the tool call that a step is.
 *
 * @category models
 * @since 0.1.0
 */
export interface Decided {
  readonly approved: boolean
  readonly reason?: string
}

/**
 * The steps that run now: one, or a band from its member at the cursor on.
 *
 * @category models
 * @since 0.1.0
 */
export interface Turn {
  readonly members: ReadonlyArray<{ readonly step: string; readonly status: MemberStatus }>
}

/**
 * A branch that was taken: when a step of it ends without a route, the run goes on at
 * `rejoin`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Rejoin {
  readonly router: string
  readonly rejoin: string
}

/**
 * Where a run of a plan stands.
 *
 * **Details**
 *
 * - `cursor`: the step that comes next, or whose turn it is; absent when none is left.
 * - `turn`: the steps of that turn once it has begun. A band is applied as a whole:
 *   nothing of it is in `history` before all of it has finished.
 * - `rejoins`: the branches that are taken, the newest last.
 * - `history`: what finished, in order; `latest` finds the newest record of a step,
 *   `writes` the record behind a key that a step writes.
 * - `previous`: the record that `fromPrev` reads, absent for the input.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanRunState {
  readonly runId: string
  readonly plan: string
  readonly digest: string
  readonly depth: number
  readonly context: JsonObject
  readonly input: PlanInput
  readonly cursor: string | undefined
  readonly turn: Turn | undefined
  readonly rejoins: ReadonlyArray<Rejoin>
  readonly iterations: number
  readonly maxIterations: number
  readonly history: Chunk.Chunk<StepRecord>
  readonly latest: HashMap.HashMap<string, number>
  readonly writes: HashMap.HashMap<string, number>
  readonly previous: number | undefined
  readonly usage: TokenUsage
  readonly interrupted: { readonly reason?: string } | undefined
  readonly outcome: PlanOutcome | undefined
  readonly startedAt: DateTime.Utc
  readonly updatedAt: DateTime.Utc
  readonly revision: number
}

const todo: unknown = Schema.Json

/**
 * @category schemas
 * @since 0.1.0
 */
export const PlanRunState = todo as Schema.Codec<PlanRunState, Schema.Json>
