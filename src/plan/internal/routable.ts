/** Where an answer can send a run: the steps that `routesBy` may name. */
import type { PlanDefinition, SchemaRef, StepDefinition } from "../PlanDefinition.ts"
import * as Discriminant from "./check/discriminant.ts"

const cache = new WeakMap<StepDefinition, { readonly of: PlanDefinition; readonly steps: ReadonlySet<string> }>()

/** What the output of a step can say about the next one; nothing is known of an output that is not declared. */
export const said = (output: SchemaRef | undefined, field: string): Discriminant.Discriminant =>
  output === undefined ? { _tag: "Unknown" } : Discriminant.read(output, field)

const find = ({ steps }: PlanDefinition, { output, routesBy }: StepDefinition): ReadonlySet<string> => {
  if (routesBy === undefined) return new Set()
  const outside = steps.flatMap(({ name, parallel }) => (parallel ? [] : [name]))
  const found = said(output, routesBy)
  switch (found._tag) {
    case "Literals": {
      const literals = new Set(found.literals)
      return new Set(outside.filter((name) => literals.has(name)))
    }
    case "Unknown":
      return new Set(outside)
    default:
      return new Set()
  }
}

/**
 * The steps that the output of `step` says it can name, which are those that were
 * checked; a text beside them is no route. All steps outside bands if the schema is only
 * known by its name.
 */
export const routable = (definition: PlanDefinition, step: StepDefinition): ReadonlySet<string> => {
  const known = cache.get(step)
  if (known?.of === definition) return known.steps
  const steps = find(definition, step)
  cache.set(step, { of: definition, steps })
  return steps
}
