/** All rules of the structure, in order. */
import type { PlanDefinition } from "../../PlanDefinition.ts"
import type { PlanProblem } from "../../PlanProblem.ts"
import * as Flow from "./flow.ts"
import * as Names from "./names.ts"
import { at, bandOf, make, named, type Outline } from "./outline.ts"
import * as References from "./references.ts"
import * as Routing from "./routing.ts"
import * as Types from "./types.ts"
import * as Writes from "./writes.ts"

export const check = (definition: PlanDefinition, highest: number): ReadonlyArray<PlanProblem> => {
  const outline = make(definition)
  const { steps } = outline
  const duplicates = Names.duplicates(outline)
  const references = steps.map((_, index) => References.check(outline, index))
  const routing = steps.map((_, index) => Routing.check(outline, index))
  // Ways are followed only if names and routes say what they mean.
  const isSound = duplicates.length === 0 && routing.every((found) => found.length === 0)
  const flow = isSound ? Flow.make(outline) : undefined
  const previous = flow === undefined ? undefined : Types.previous(outline, flow)
  const collisions = Writes.collisions(outline, flow)
  const lost = flow === undefined ? new Map<number, number>() : unreached(outline, flow)
  return [
    ...duplicates,
    ...Names.limit(outline, highest),
    ...steps.flatMap((_, index) => [
      ...Names.stepName(outline, index),
      ...(references[index] ?? []),
      ...Types.check(outline, index, previous),
      ...(routing[index] ?? []),
      ...Names.writesKey(outline, index),
      ...Writes.check(outline, index, collisions),
      ...unreachable(outline, index, lost.get(index))
    ])
  ]
}

/** The first steps of the parts no run gets to, with the last step of each. */
const unreached = (outline: Outline, { places }: Flow.Flow): ReadonlyMap<number, number> => {
  const reached = new Set<number>()
  for (const { position } of places) {
    for (let member = position; member <= bandOf(outline, position).last; member++) reached.add(member)
  }
  const parts = new Map<number, number>()
  let first: number | undefined
  outline.steps.forEach((_, index) => {
    first = reached.has(index) ? undefined : (first ?? index)
    if (first !== undefined) parts.set(first, index)
  })
  return parts
}

const unreachable = (outline: Outline, index: number, last: number | undefined): ReadonlyArray<PlanProblem> =>
  last === undefined
    ? []
    : at(outline, index, {
        code: "UnreachableStep",
        slot: "name",
        problem: `no run gets to it${last === index ? "" : ` and to what follows, up to step ${named(outline, last)}`}: no route goes there, and the steps before always go elsewhere`,
        fix: "Route to it, move it, or remove it"
      })

/** What is legal and probably not meant. */
export const warnings = (definition: PlanDefinition): ReadonlyArray<PlanProblem> => {
  const outline = make(definition)
  return outline.steps.flatMap((step, index) => {
    if (!step.parallel) return []
    const ignored = [
      ["routes", step.routes],
      ["routesBy", step.routesBy],
      ["afterBranches", step.afterBranches]
    ] as const
    return ignored.flatMap(([slot, value]) =>
      value === undefined || value.length === 0
        ? []
        : at(outline, index, {
            code: "RoutingIgnored",
            slot,
            problem: "the step is parallel, and a parallel band goes on at the step after it; this is not followed",
            fix: "Remove it, or route from a step after the band"
          })
    )
  })
}
