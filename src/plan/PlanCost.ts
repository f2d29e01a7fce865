/**
 * How much a run of a plan can take at most.
 *
 * @since 0.1.0
 */
import { worst } from "./internal/check/cost.ts"
import type { PlanDefinition, StepDefinition } from "./PlanDefinition.ts"

/**
 * The most that one run of a plan can take.
 *
 * **Details**
 *
 * - `steps`: how many steps run on the longest way through the plan, whatever
 *   `maxIterations` says; absent when there is a loop. Each member of a band counts, a
 *   step that is tried again counts once.
 * - `modelCalls`: how many calls of models that is, with all retries; absent when there
 *   is a loop, or a step of which it is not known.
 * - `limit`: the same with `maxIterations`. `limit.steps` is always known. It is no more
 *   than `steps`, and no more than as many turns as there may be, each as wide as the
 *   widest one.
 *
 * @category models
 * @since 0.1.0
 */
export interface WorstCase {
  readonly steps: number | undefined
  readonly modelCalls: number | undefined
  readonly limit: { readonly steps: number; readonly modelCalls: number | undefined }
}

/**
 * What is known of the targets: how many calls of models one attempt of a step makes at
 * most, `undefined` when nobody knows. For an agent that is its `maxSteps`, if that is a
 * number.
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
 * **Details**
 *
 * All ways are followed that the plan's structure allows, whatever the conditions of its
 * routes demand: of two branches that rejoin, the longer one counts. Without `info` a
 * function makes no call of a model, and of tools and agents it is not known.
 *
 * The count is one of a new run without failures. For a plan with problems of its
 * structure it says nothing.
 *
 * **Example** (Three steps, two of them in a band)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PlanCost, type PlanDefinition, Reference } from "effect-emissary"
 *
 * const step = (name: string, parallel: boolean): PlanDefinition.StepDefinition => ({
 *   name,
 *   target: { kind: "agent", name },
 *   task: Reference.fromPrev,
 *   parallel
 * })
 *
 * const cost = PlanCost.worstCase(
 *   { name: "report", maxIterations: 100, steps: [step("a", true), step("b", true), step("c", false)] },
 *   { modelCalls: () => 8 }
 * )
 * assert.strictEqual(cost.steps, 3)
 * assert.strictEqual(cost.modelCalls, 24)
 * ```
 *
 * @category costs
 * @since 0.1.0
 */
export const worstCase = (definition: PlanDefinition, info: Info = unknown): WorstCase => {
  const { calls, steps, turn } = worst(definition, info.modelCalls)
  const within = (most: number | undefined, each: number) =>
    Math.min(most ?? Number.POSITIVE_INFINITY, Math.max(0, definition.maxIterations) * each)
  return {
    steps,
    modelCalls: calls,
    limit: {
      steps: within(steps, turn.steps),
      modelCalls: turn.calls === undefined ? undefined : within(calls, turn.calls)
    }
  }
}

const unknown: Info = { modelCalls: ({ target }) => (target.kind === "function" ? 0 : undefined) }
