/** Plans as plain data whose steps run a function of their own name. */
import * as planChange from "#src/plan/internal/planChange.ts"
import type * as planRunParts from "#src/run/internal/planRunParts.ts"
import { defined } from "#src/payload/internal/values.ts"
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

/** A definition, and what the first event of its runs has of it. `items` are the steps of the items of its steps. */
export interface Rules {
  readonly definition: PlanDefinition.PlanDefinition
  readonly basis: planRunParts.Basis
  readonly items: ReadonlyMap<string, Rules>
}

export const makeRules = (definition: PlanDefinition.PlanDefinition, items: Rules["items"] = new Map()): Rules => {
  const basis = planChange.basisOf({ definition, digest: "sha256:0" })
  const flowOf = (inner: Rules | undefined) => inner?.basis.steps.map(({ digest: _, target: __, ...flow }) => flow)
  const steps = basis.steps.map((step) => ({ ...step, ...defined({ items: flowOf(items.get(step.name)) }) }))
  return { definition, basis: { ...basis, steps }, items }
}
