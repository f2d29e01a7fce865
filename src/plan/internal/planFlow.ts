/**
 * The structure of a definition: positions, parallel groups, routes and rejoining branches, and what can run before what. Used by the checks, the run and the pictures.
 */

import * as Arr from "effect/Array"
import * as base from "../../payload/internal/base.ts"
import { equalsJson } from "../../payload/internal/values.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import * as When from "../../tool/When.ts"
import * as condition from "../../tool/internal/condition.ts"
import * as stepFlow from "../../run/internal/stepFlow.ts"
import * as stepSchema from "./stepSchema.ts"

/** By code points, each once. */
export const sortedNames = (names: Iterable<string>): ReadonlyArray<string> =>
  Array.from(new Set(names)).sort(base.byCodePoint)

/** The references in the context of a step, as a list in any case. */
export const contextReferences = (context: PlanDefinition.StepDefinition["context"]): ReadonlyArray<Reference> =>
  [context ?? []].flat()

/** The references of a step. `place` is the position of each in the step, and `path` that in its JSON. */
export const referencesOf = ({ context, task }: Pick<PlanDefinition.StepDefinition, "context" | "task">) => [
  { slot: "task" as const, place: "task", path: "/task", reference: task },
  ...contextReferences(context).map((reference, index) => {
    const path = Array.isArray(context) ? `/context/${index}` : "/context"
    return { slot: "context" as const, place: `context[${index}]`, path, reference }
  })
]

/** A reference as it is written in code. */
export const showReference = (reference: Reference): string => {
  const call = `${reference._tag.charAt(0).toLowerCase()}${reference._tag.slice(1)}`
  if ("step" in reference) return `${call}(${base.quote(reference.step)})`
  if ("agent" in reference) return `${call}(${base.quote(reference.agent)})`
  return "value" in reference ? `${call}(${base.quote(reference.value)})` : call
}

/** The positions that run together when a run comes to a position: a step, or a parallel group from there on. */
export const groupAt = (steps: stepFlow.StepList, at: number): ReadonlyArray<number> =>
  Arr.range(at, stepFlow.groupEnd(steps, at) - 1)

/** The steps in order, the members of a parallel group together. */
export const inGroups = <A extends { readonly parallel: boolean }>(
  steps: ReadonlyArray<A>
): ReadonlyArray<readonly [A, ...Array<A>]> =>
  Arr.isReadonlyArrayNonEmpty(steps) ? Arr.groupWith(steps, (a, b) => a.parallel && b.parallel) : []

/** A move from one turn of a run to the next. `to` is a position, a name that no step has, or the end. */
export interface FlowEdge {
  readonly from: number | "start"
  readonly to: number | "end" | { readonly unknown: string }
  readonly kind: "flow" | "rejoin"
  readonly label?: string
}

/** A turn of a run: the position where it begins, the branches it is in, and the places that may follow, by number. */
export interface FlowPlace {
  readonly position: number
  readonly branches: ReadonlyArray<stepFlow.Rejoin>
  readonly next: Set<number>
}

/** The moves after a step: its routes in order, and whether a run may take none of them. */
interface StepExits {
  readonly routes: ReadonlyArray<{ readonly to: string; readonly label: () => string }>
  readonly otherwise: boolean
  /** The field of the output that names the next step, if it can be any step. */
  readonly any: string | undefined
}

const noRoute: StepExits = { routes: [], otherwise: true, any: undefined }

const exitsByField = (
  field: string,
  found: stepSchema.Discriminant | undefined,
  positions: ReadonlyMap<string, number>
): StepExits => {
  if (found === undefined) return { ...noRoute, any: field }
  const known = found.literals.filter((value) => positions.has(value))
  return {
    routes: known.map((to) => ({ to, label: () => condition.label(When.field(field).equals(to)) })),
    otherwise: !found.exhaustive || known.length < found.literals.length,
    any: undefined
  }
}

export const exitsOf = (step: PlanDefinition.StepDefinition, positions: ReadonlyMap<string, number>): StepExits => {
  if (step.parallel) return noRoute
  const routes = step.routes ?? []
  if (routes.length === 0) {
    if (step.routesBy === undefined) return noRoute
    return exitsByField(step.routesBy, stepSchema.readDiscriminant(step.output, step.routesBy), positions)
  }
  const last = routes.findIndex((route) => isAlways(route.when))
  const tried = last === -1 ? routes : routes.slice(0, last + 1)
  return {
    routes: tried.flatMap(({ to, when }, index) => {
      if (isNever(when)) return []
      return [{ to, label: () => `${routes.length > 1 ? `${index + 1}: ` : ""}${condition.label(when)}` }]
    }),
    otherwise: last === -1 && !hasOpposites(routes.map(({ when }) => when)),
    any: undefined
  }
}

const isAlways = (when: When.When): boolean =>
  (when._tag === "And" && when.all.length === 0) || (when._tag === "Not" && isNever(when.when))

const isNever = (when: When.When): boolean =>
  (when._tag === "Or" && when.any.length === 0) || (when._tag === "Not" && isAlways(when.when))

/** More conditions are not compared with each other. */
const maxCompared = 16

/** True if one of the conditions is the negation of another, so that one of the two holds. */
const hasOpposites = (conditions: ReadonlyArray<When.When>): boolean =>
  conditions.length <= maxCompared &&
  conditions.some((when) => when._tag === "Not" && conditions.some((other) => equalsJson(when.when, other)))

/** The most that is followed: a plan with more combinations of branches is drawn, and accepted, without following them. */
const maxFlowCost = 100_000

/**
 * The position after the turn that begins at each position: the position of the next step, or of the step after the
 * parallel group.
 */
const turnEnds = (steps: stepFlow.StepList): ReadonlyArray<number> => {
  const ends = steps.map((_, position) => position + 1)
  for (let at = ends.length - 2; at >= 0; at--) {
    if (steps[at]?.parallel === true && steps[at + 1]?.parallel === true) ends[at] = ends[at + 1] ?? at + 1
  }
  return ends
}

/** The place after one where a run takes no route: a branch rejoins; without a branch the next step follows. */
const placeAfter = (branches: FlowPlace["branches"], end: number, positions: ReadonlyMap<string, number>) => {
  const rejoin = stepFlow.rejoinAt(branches, positions)
  if (rejoin === undefined) return { at: end, branches, kind: "flow" as const }
  const at = positions.get(rejoin.at) ?? { unknown: rejoin.at }
  return { at, branches: rejoin.branches, kind: "rejoin" as const }
}

/**
 * Follows every move that a run can make, with the branches it is in, as the run itself would. Undefined if there are
 * too many to find out.
 */
export const placesOf = (definition: PlanDefinition.PlanDefinition): ReadonlyArray<FlowPlace> | undefined => {
  const { steps } = definition
  const positions = stepFlow.positionsOf(definition.steps)
  const exits = steps.map((step) => exitsOf(step, positions))
  const ends = turnEnds(steps)
  const places: Array<FlowPlace> = []
  const numbers = new Map<number | string, number>()
  let cost = 0

  const visit = (position: number, branches: ReadonlyArray<stepFlow.Rejoin>): number => {
    cost += 1 + branches.length
    const key =
      branches.length === 0
        ? position
        : JSON.stringify([position, branches.map(({ rejoin, router }) => [router, rejoin])])
    const known = numbers.get(key)
    if (known !== undefined) return known
    numbers.set(key, places.length)
    places.push({ position, branches, next: new Set() })
    return places.length - 1
  }

  if (steps.length > 0) visit(0, [])
  for (const place of places) {
    const { branches, next, position } = place
    const { any, otherwise, routes } = exits[position] ?? noRoute
    const step = steps[position]
    if (step === undefined) continue
    for (const to of any === undefined ? new Set(routes.map(({ to }) => to)) : positions.keys()) {
      const target = positions.get(to)
      if (target !== undefined) next.add(visit(target, stepFlow.enterBranch(branches, step, to, positions)))
    }
    if (otherwise) {
      const after = placeAfter(branches, ends[position] ?? steps.length, positions)
      if (typeof after.at === "number" && after.at < steps.length) next.add(visit(after.at, after.branches))
    }
    if (cost > maxFlowCost) return undefined
  }
  return places
}

/** The positions that the turns of places run. */
export const reachedFrom = (steps: stepFlow.StepList, places: ReadonlyArray<FlowPlace>): ReadonlySet<number> =>
  new Set(Array.from(new Set(places.map(({ position }) => position))).flatMap((position) => groupAt(steps, position)))

/**
 * The moves between places, each once: by the step they leave; of one step, routes first, in their order, and rejoins
 * last. Without places every move by itself, whatever branch a run is in.
 */
export const edgesOf = (definition: PlanDefinition.PlanDefinition, places: ReadonlyArray<FlowPlace> | undefined) => {
  const { steps } = definition
  const positions = stepFlow.positionsOf(definition.steps)
  const exits = steps.map((step) => exitsOf(step, positions))
  const ends = turnEnds(steps)
  const others: ReadonlyArray<Map<string, FlowEdge>> = steps.map(() => new Map())

  for (const { branches, position } of places ?? steps.map((_, position) => ({ position, branches: [] }))) {
    const { any, otherwise, routes } = exits[position] ?? noRoute
    const end = ends[position] ?? steps.length
    const { at, kind } = placeAfter(branches, end, positions)
    const to = typeof at === "number" && at >= steps.length ? "end" : at
    const key = JSON.stringify([kind, to])
    if (!otherwise || others[position]?.has(key)) continue
    const label = routes.length > 0 || any !== undefined ? { label: "otherwise" } : undefined
    for (let from = position; from < end; from++) others[from]?.set(key, { from, to, kind, ...label })
  }
  for (const [at, { afterBranches = "" }] of places === undefined ? steps.entries() : []) {
    const to = positions.get(afterBranches)
    for (const route of to === undefined ? [] : (exits[at] ?? noRoute).routes) {
      const from = positions.get(route.to)
      if (to === undefined || from === undefined || from === to) continue
      others[from]?.set(JSON.stringify(["rejoin", to]), { from, to, kind: "rejoin" })
    }
  }
  const edges: Array<FlowEdge> = [{ from: "start", to: steps.length === 0 ? "end" : 0, kind: "flow" }]
  const reached = new Set((places ?? []).map(({ position }) => position))
  const rank = ({ to }: FlowEdge) => (typeof to === "number" ? to : to === "end" ? steps.length : -1)
  for (const [from, found] of others.entries()) {
    const { routes } = places === undefined || reached.has(from) ? (exits[from] ?? noRoute) : noRoute
    for (const { label, to } of routes) {
      edges.push({ from, to: positions.get(to) ?? { unknown: to }, kind: "flow", label: label() })
    }
    // "flow" comes before "rejoin"
    edges.push(
      ...[...found.values()].sort((a, b) => (a.kind === b.kind ? rank(a) - rank(b) : a.kind < b.kind ? -1 : 1))
    )
  }
  return edges
}
