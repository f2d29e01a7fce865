/** Where the steps of a definition stand. Found once per definition, not once per fact. */
import type { PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"
import { turnEnd } from "../bands.ts"

const known = new WeakMap<PlanDefinition, ReadonlyMap<string, number>>()

export const positions = (definition: PlanDefinition): ReadonlyMap<string, number> => {
  const found = known.get(definition)
  if (found !== undefined) return found
  const made = new Map(definition.steps.map(({ name }, position) => [name, position]))
  known.set(definition, made)
  return made
}

export const stepOf = (definition: PlanDefinition, name: string): StepDefinition | undefined => {
  const position = positions(definition).get(name)
  return position === undefined ? undefined : definition.steps[position]
}

/** The steps that run together from a position on: one, or the rest of its band. None at the end of the plan. */
export const turnAt = (definition: PlanDefinition, position: number): ReadonlyArray<StepDefinition> => {
  const { steps } = definition
  return steps.slice(position, turnEnd(steps, position))
}

/** Whether a step that runs alone says where it goes when it has finished. */
export const routes = ({ parallel, routes, routesBy }: StepDefinition): boolean =>
  !parallel && ((routes !== undefined && routes.length > 0) || routesBy !== undefined)
