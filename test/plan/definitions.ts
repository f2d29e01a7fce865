/** Plans as plain data whose steps run a function of their own name. */
import type * as planTransition from "#src/plan/internal/planTransition.ts"
import type { PlanDefinition } from "effect-emissary/plan"

export const step = (
  name: string,
  rest: Partial<PlanDefinition.StepDefinition> = {}
): PlanDefinition.StepDefinition => ({
  name,
  target: { kind: "function", name },
  task: { _tag: "FromPrev" },
  parallel: false,
  ...rest
})

export const plan = (...steps: ReadonlyArray<PlanDefinition.StepDefinition>): PlanDefinition.PlanDefinition => ({
  name: "plan",
  maxIterations: 100,
  steps
})

/** The rules of a plan. Without `nested` no step of it is a plan. */
export const makeRules = (
  definition: PlanDefinition.PlanDefinition,
  nested: ReadonlyMap<string, planTransition.Rules> = new Map()
): planTransition.Rules => ({ definition, nested })
