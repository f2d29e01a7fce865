/**
 * One durable fact of a plan's run: what a journal stores and a state is made of.
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import type { RunEvent } from "../agent/RunEvent.ts"
import type { TokenUsage } from "../conversation/TokenUsage.ts"
import type { JsonObject } from "../payload/Json.ts"
import type * as Schema from "effect/Schema"
import type { PlanInput } from "./PlanInput.ts"
import type { PlanOutcome, StepFailure } from "./PlanOutcome.ts"

/**
 * What a finished step leaves: its task and context as they were delivered, and what
 * it gave as JSON (encoded with its output schema).
 *
 * **Details**
 *
 * `usage` is what the step itself reports; what an agent or a plan inside it used
 * counts by its own events, and is told here as well (never added twice).
 *
 * @category models
 * @since 0.1.0
 */
export interface StepRecord {
  readonly step: string
  readonly task: string
  readonly context?: string
  readonly output: Schema.Json
  readonly usage: TokenUsage
  readonly attempts: number
  readonly startedAt: DateTime.Utc
  readonly finishedAt: DateTime.Utc
}

/** @category models @since 0.1.0 */
export interface PlanStarted {
  readonly _tag: "PlanStarted"
  readonly at: DateTime.Utc
  readonly runId: string
  readonly plan: string
  /** The digest of the definition, see `Plan.digest`. */
  readonly digest: string
  readonly depth: number
  readonly maxIterations: number
  readonly input: PlanInput
  readonly context: JsonObject
}

/** @category models @since 0.1.0 */
export interface StepStarted {
  readonly _tag: "StepStarted"
  readonly at: DateTime.Utc
  readonly step: string
}

/** @category models @since 0.1.0 */
export interface StepRetried {
  readonly _tag: "StepRetried"
  readonly at: DateTime.Utc
  readonly step: string
  readonly attempt: number
  readonly failure: StepFailure
}

/** @category models @since 0.1.0 */
export interface AgentChanged {
  readonly _tag: "AgentChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: RunEvent
}

/** @category models @since 0.1.0 */
export interface NestedChanged {
  readonly _tag: "NestedChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: PlanRunEvent
}

/** @category models @since 0.1.0 */
export interface StepFinished {
  readonly _tag: "StepFinished"
  readonly at: DateTime.Utc
  readonly record: StepRecord
}

/** @category models @since 0.1.0 */
export interface StepFailed {
  readonly _tag: "StepFailed"
  readonly at: DateTime.Utc
  readonly step: string
  readonly failure: StepFailure
}

/** The step waits: for anybody (`reason`), or for decisions about the calls `requests` names. @category models @since 0.1.0 */
export interface StepPaused {
  readonly _tag: "StepPaused"
  readonly at: DateTime.Utc
  readonly step: string
  readonly reason?: string
}

/** @category models @since 0.1.0 */
export interface StepConcluded {
  readonly _tag: "StepConcluded"
  readonly at: DateTime.Utc
  readonly step: string
  readonly answer: string
}

/** Where a finished step with routes goes: a step, or on as declared (`to` absent). @category models @since 0.1.0 */
export interface RouteTaken {
  readonly _tag: "RouteTaken"
  readonly at: DateTime.Utc
  readonly step: string
  readonly to?: string
}

/** Somebody decided about a call that waits inside the step. @category models @since 0.1.0 */
export interface StepDecided {
  readonly _tag: "StepDecided"
  readonly at: DateTime.Utc
  readonly step: string
  readonly approved: boolean
  readonly reason?: string
}

/** @category models @since 0.1.0 */
export interface PlanInterrupted {
  readonly _tag: "PlanInterrupted"
  readonly at: DateTime.Utc
  readonly reason?: string
}

/** @category models @since 0.1.0 */
export interface PlanFinished {
  readonly _tag: "PlanFinished"
  readonly at: DateTime.Utc
  readonly outcome: PlanOutcome
}

/** @category models @since 0.1.0 */
export interface PlanResumed {
  readonly _tag: "PlanResumed"
  readonly at: DateTime.Utc
  readonly maxIterations?: number
  readonly context?: JsonObject
}

/**
 * One fact of a plan's run.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanRunEvent =
  | PlanStarted
  | StepStarted
  | StepRetried
  | AgentChanged
  | NestedChanged
  | StepFinished
  | StepFailed
  | StepPaused
  | StepConcluded
  | RouteTaken
  | StepDecided
  | PlanInterrupted
  | PlanFinished
  | PlanResumed
