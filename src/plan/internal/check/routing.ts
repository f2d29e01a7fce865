/** Rules about where a step goes on. */
import * as Names from "../../../payload/Names.ts"
import type { SchemaRef, StepDefinition } from "../../PlanDefinition.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import * as Discriminant from "./discriminant.ts"
import { list } from "../names/words.ts"
import { at, bandOf, named, type Outline, unknownStep } from "./outline.ts"

/** Where a step may go on: positions, as far as the steps are known, each once and in order. */
export const targets = (outline: Outline, step: StepDefinition): ReadonlyArray<number> => {
  const names = [...(step.routes ?? []).map(({ to }) => to), ...literals(step)]
  const positions = new Set<number>()
  for (const name of names) {
    const position = outline.positions.get(name)
    if (position !== undefined) positions.add(position)
  }
  return Array.from(positions)
}

const literals = ({ output, routesBy }: StepDefinition): ReadonlyArray<string> => {
  const found = routesBy === undefined ? undefined : Discriminant.read(output, routesBy)
  return found?._tag === "Literals" ? found.literals : []
}

/** All rules about the routing of one step, in order. */
export const check = (outline: Outline, index: number): ReadonlyArray<PlanProblem> => {
  const step = outline.steps[index]
  return step === undefined
    ? []
    : [
        ...both(outline, index, step),
        ...(step.routes ?? []).flatMap(({ to }) => target(outline, index, "routes", to)),
        ...field(outline, index, step),
        ...rejoin(outline, index, step)
      ]
}

const both = (outline: Outline, index: number, step: StepDefinition) =>
  step.routes === undefined || step.routesBy === undefined
    ? []
    : at(outline, index, {
        code: "RoutesAndRoutesBy",
        slot: "routes",
        problem: `routes and routesBy = ${Names.quote(step.routesBy)} are mutually exclusive`,
        fix: "Use routes for conditions, or routesBy for a field that names the step"
      })

/** One step that a route goes to: known, and not of a band. */
const target = (outline: Outline, index: number, slot: string, to: string, what = "goes to") => {
  const position = outline.positions.get(to)
  if (position === undefined) {
    return at(outline, index, {
      code: "UnknownStep",
      slot,
      value: Names.quote(to),
      problem: `${what} an unknown step`,
      fix: "Name a step of the plan",
      unknown: unknownStep(outline, to)
    })
  }
  return outline.steps[position]?.parallel === true
    ? at(outline, index, {
        code: "RouteToParallel",
        slot,
        value: Names.quote(to),
        problem: `${what} step ${named(outline, position)}, which is parallel; a route cannot enter a parallel band`,
        fix: "Go to a step that is not parallel and stands right before the band"
      })
    : []
}

const field = (outline: Outline, index: number, step: StepDefinition): ReadonlyArray<PlanProblem> => {
  const { output, routesBy } = step
  if (routesBy === undefined) return []
  const refuse = (problem: string, fix: string) =>
    at(outline, index, { code: "InvalidRoutesBy", slot: "routesBy", value: Names.quote(routesBy), problem, fix })
  if (routesBy === "") return refuse("expected the name of a field of the output, found nothing", "Name a field")
  const found = Discriminant.read(output, routesBy)
  switch (found._tag) {
    case "Unknown":
      return []
    case "NotAnObject":
      return refuse(
        `expected an output that is an object with a field of that name, found ${called(output)}`,
        "Give the step such an output schema"
      )
    case "NoField":
      return refuse(
        `the output ${called(output)} has no field of that name, but ${found.fields.length === 0 ? "none at all" : list(found.fields)}`,
        "Name one of its fields"
      )
    case "Literals":
      return found.literals.length === 0
        ? refuse(
            `expected a field of the output ${called(output)} with string literals that name steps, found no string literal`,
            `Declare it as one of the names of steps, as in Schema.Literals(["next", "stop"])`
          )
        : found.literals.flatMap((to) =>
            target(outline, index, "routesBy", to, `field ${Names.quote(routesBy)} of the output goes to`)
          )
  }
}

const called = (output: SchemaRef | undefined): string => {
  if (output === undefined) return "no output schema"
  const title = output.name ?? output.json?.["title"]
  return typeof title === "string" ? Names.quote(title) : "without a name"
}

const rejoin = (outline: Outline, index: number, step: StepDefinition): ReadonlyArray<PlanProblem> => {
  const { afterBranches } = step
  if (afterBranches === undefined) return []
  const value = Names.quote(afterBranches)
  const slot = "afterBranches"
  const lonely =
    step.routes === undefined && step.routesBy === undefined
      ? at(outline, index, {
          code: "RejoinWithoutRoutes",
          slot,
          value,
          problem: "a step without routes and routesBy has no branches to rejoin after",
          fix: "Add routes or routesBy, or remove afterBranches"
        })
      : []
  const position = outline.positions.get(afterBranches)
  if (position === undefined) {
    const unknown = unknownStep(outline, afterBranches)
    const fix = "Name a step that comes later in the plan"
    return [
      ...lonely,
      ...at(outline, index, { code: "UnknownStep", slot, value, problem: "rejoins at an unknown step", fix, unknown })
    ]
  }
  if (position <= index) {
    const problem = `expected a step after position ${index}, found ${position === index ? "the step itself" : `step ${named(outline, position)}`} at position ${position}`
    const fix = "Rejoin at a later step, or route back without afterBranches"
    return [...lonely, ...at(outline, index, { code: "RejoinNotLater", slot, value, problem, fix })]
  }
  return [
    ...lonely,
    ...intoBand(outline, index, value, position),
    ...beforeRoutes(outline, index, step, value, position)
  ]
}

const intoBand = (outline: Outline, index: number, value: string, position: number) => {
  const { first } = bandOf(outline, position)
  return first === position
    ? []
    : at(outline, index, {
        code: "RejoinIntoBand",
        slot: "afterBranches",
        value,
        problem: `rejoins in the middle of the parallel band that begins with ${named(outline, first)}, whose first steps would not run`,
        fix: `Rejoin at ${named(outline, first)}`
      })
}

const beforeRoutes = (outline: Outline, index: number, step: StepDefinition, value: string, position: number) =>
  targets(outline, step)
    .filter((to) => to >= position)
    .flatMap((to) =>
      at(outline, index, {
        code: "RejoinBeforeRoute",
        slot: "afterBranches",
        value,
        problem:
          to === position
            ? `a route goes to ${named(outline, to)} itself, which would run twice`
            : `a route goes to ${named(outline, to)}, which is declared after it and would run twice`,
        fix: `Declare ${named(outline, to)} between the step and the rejoin, or rejoin later`
      })
    )
