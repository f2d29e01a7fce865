/**
 * How much a run of a plan can take at most.
 *
 * @since 0.1.0
 */
import type { PlanDefinition, StepDefinition } from "./PlanDefinition.ts"

/**
 * The most that one run of a plan can take.
 *
 * **Details**
 *
 * - `steps`: how many steps run, whatever `maxIterations` says; absent when the plan
 *   has a loop.
 * - `limit`: how many steps run with `maxIterations`; always there.
 * - `modelCalls`: how many calls of models these are; absent when a step that can run
 *   is not known.
 *
 * @category models
 * @since 0.1.0
 */
export interface WorstCase {
  readonly steps: number | undefined
  readonly limit: number
  readonly modelCalls: number | undefined
}

/**
 * What is known of a plan's targets: how many calls of models one attempt of a step
 * makes at most, absent when nobody knows.
 *
 * @category models
 * @since 0.1.0
 */
export interface Info {
  readonly modelCalls: (step: StepDefinition) => number | undefined
}

/**
 * The most that one run of a plan can take.
 *
 * @category costs
 * @since 0.1.0
 */
export const worstCase = (definition: PlanDefinition, info?: Info): WorstCase => {
  void info
  return { steps: undefined, limit: definition.maxIterations, modelCalls: undefined }
}
