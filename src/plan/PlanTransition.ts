/**
 * The pure core of a plan's run: which facts may follow a state, and what comes next.
 *
 * @since 0.1.0
 */
import type * as Result from "effect/Result"
import type { PlanDefinition } from "./PlanDefinition.ts"
import type { PlanOutcome } from "./PlanOutcome.ts"
import type { PlanRunEvent, PlanStarted } from "./PlanRunEvent.ts"
import type { PlanRunState } from "./PlanRunState.ts"
import { PlanEventError } from "./PlanEventError.ts"

/**
 * What a driver does next: run steps (those of the turn that are not done), choose the
 * route of a step that finished, or end.
 *
 * @category models
 * @since 0.1.0
 */
export type Action =
  | { readonly _tag: "RunSteps"; readonly steps: readonly [string, ...Array<string>] }
  | { readonly _tag: "ChooseRoute"; readonly step: string }
  | { readonly _tag: "Finish"; readonly outcome: PlanOutcome }

/** @category transitions @since 0.1.0 */
export declare const start: (definition: PlanDefinition, event: PlanStarted) => PlanRunState

/** @category transitions @since 0.1.0 */
export declare const apply: (
  definition: PlanDefinition,
  state: PlanRunState,
  event: PlanRunEvent
) => Result.Result<PlanRunState, PlanEventError>

/** @category transitions @since 0.1.0 */
export declare const next: (definition: PlanDefinition, state: PlanRunState) => Action
