/** What is drawn: definitions, and the plans in steps as far as values tell them. */
import type { Nested, Options, Source as Written } from "../../Picture.ts"
import type { Bound } from "../../Plan.ts"
import type { PlanDefinition } from "../../PlanDefinition.ts"
import { boundOf, isBound, isPlan, liveOf } from "../plan.ts"
import { maxNesting, type Source } from "./planDrawing.ts"

export const definitionOf = (source: Written): PlanDefinition => ("definition" in source ? source.definition : source)

/** The plans that are steps, by the names of the steps. A definition only knows them as agents. */
const plansOf = (source: Written): ReadonlyMap<string, Bound<unknown, unknown>> => {
  const targets = isBound(source)
    ? boundOf(source).targets
    : isPlan(source)
      ? liveOf(source).steps.map(({ target }) => target)
      : []
  const { steps } = definitionOf(source)
  return new Map(
    targets.flatMap((target, index): ReadonlyArray<readonly [string, Bound<unknown, unknown>]> => {
      const step = steps[index]
      return step !== undefined && target._tag === "Agent" && isBound(target.source) ? [[step.name, target.source]] : []
    })
  )
}

const inner = (
  nested: Options["nested"],
  plans: ReadonlyMap<string, Bound<unknown, unknown>>
): ReadonlyArray<readonly [string, Nested, Options["nested"]]> => {
  if (nested === undefined || nested === false) return []
  return nested === true
    ? Array.from(plans, ([step, plan]) => [step, plan, true])
    : Object.entries(nested).map(([step, plan]) => [step, plan, "nested" in plan ? plan.nested : undefined])
}

/** A plan, and what is drawn inside of it. */
export const sourceOf = (source: Written, nested: Options["nested"], depth = 0): Source => {
  const plans = plansOf(source)
  return {
    definition: definitionOf(source),
    plans: new Map(Array.from(plans, ([step, { definition }]) => [step, definition.name])),
    nested: new Map(
      depth >= maxNesting
        ? []
        : inner(nested, plans).map(([step, plan, further]) => [step, sourceOf(plan, further, depth + 1)])
    )
  }
}
