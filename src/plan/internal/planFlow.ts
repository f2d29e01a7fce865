/**
 * The structure of a definition: positions, parallel groups, routes and rejoining branches, and what can run before what. Used by the checks, the run and the pictures.
 */

import * as Arr from "effect/Array"
import * as base from "../../payload/internal/base.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import * as When from "../When.ts"
import * as condition from "./condition.ts"
import * as planNames from "./planNames.ts"
import * as planTransition from "./planTransition.ts"
import * as stepSchema from "./stepSchema.ts"

/** By code points, each once. */
export const sortedNames = (names: Iterable<string>): ReadonlyArray<string> =>
  Array.from(new Set(names)).sort(planNames.byCodePoint)

/** The references in the context of a step, as a list in any case. */
export const contextReferences = (context: PlanDefinition.StepDefinition["context"]): ReadonlyArray<Reference> =>
  [context ?? []].flat()

/** The references of a step, with the slot of each. */
export const referencesOf = ({
  context,
  task
}: PlanDefinition.StepDefinition): ReadonlyArray<{
  readonly slot: "task" | "context"
  readonly reference: Reference
}> => [
  { slot: "task", reference: task },
  ...contextReferences(context).map((reference) => ({ slot: "context" as const, reference }))
]

/** A reference as it is written in code. */
export const showReference = (reference: Reference): string => {
  const call = `${reference._tag.charAt(0).toLowerCase()}${reference._tag.slice(1)}`
  switch (reference._tag) {
    case "FromPrev":
    case "FromStart":
      return call
    case "FromStep":
    case "FromParallel":
    case "FromParallelAll":
      return `${call}(${base.quote(reference.step)})`
    case "FromMemory":
    case "FromAgent":
      return `${call}(${base.quote(reference.agent)})`
    case "Literal":
      return `${call}(${base.quote(reference.value)})`
  }
}

/** The positions that run together when a run comes to a position: a step, or a parallel group from there on. */
export const groupAt = (steps: planTransition.StepList, at: number): ReadonlyArray<number> =>
  Arr.range(at, planTransition.groupEnd(steps, at) - 1)

/** The steps in order, those of a parallel group together. */
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
  readonly branches: ReadonlyArray<planTransition.Rejoin>
  readonly next: Set<number>
}

export interface Flow {
  /** `undefined` if there are too many to find out. */
  readonly places: ReadonlyArray<FlowPlace> | undefined
  readonly edges: ReadonlyArray<FlowEdge>
}

/** The moves after a step: its routes in order, and whether a run may take none of them. */
interface StepExits {
  readonly routes: ReadonlyArray<{ readonly to: string; readonly label: string }>
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
    routes: known.map((to) => ({ to, label: condition.label(When.field(field).equals(to)) })),
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
      return [{ to, label: routes.length > 1 ? `${index + 1}: ${condition.label(when)}` : condition.label(when) }]
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

/** Conditions of which one is the negation of another, so that one of the two holds. */
const hasOpposites = (conditions: ReadonlyArray<When.When>): boolean =>
  conditions.length <= maxCompared &&
  conditions.some((when) => when._tag === "Not" && conditions.some((other) => planNames.equalsJson(when.when, other)))

/** The most that is followed: a plan with more combinations of branches is drawn, and accepted, without following them. */
const maxFlowCost = 100_000

/** Follows every move that a run can make, with the branches it is in, as the run itself would. */
export const makeFlow = (definition: PlanDefinition.PlanDefinition): Flow => {
  const { steps } = definition
  const positions = planTransition.positionsOf(definition)
  const exits = steps.map((step) => exitsOf(step, positions))
  const edges = new Map<string, FlowEdge>()
  const places: Array<FlowPlace> = []
  const numbers = new Map<string, number>()
  let cost = 0

  const draw = (edge: FlowEdge) => {
    const key = JSON.stringify([edge.from, edge.to, edge.kind, edge.label])
    if (!edges.has(key)) edges.set(key, edge)
  }
  const visit = (position: number, branches: ReadonlyArray<planTransition.Rejoin>): number => {
    cost += 1 + branches.length
    const key = JSON.stringify([position, branches.map(({ rejoin, router }) => [router, rejoin])])
    const known = numbers.get(key)
    if (known !== undefined) return known
    numbers.set(key, places.length)
    places.push({ position, branches, next: new Set() })
    return places.length - 1
  }
  const takeRoutes = ({ branches, next, position }: FlowPlace, { any, routes }: StepExits) => {
    const step = steps[position]
    if (step === undefined) return
    for (const { label, to } of routes) {
      draw({ from: position, to: positions.get(to) ?? { unknown: to }, kind: "flow", label })
    }
    for (const to of [...routes.map(({ to }) => to), ...(any === undefined ? [] : positions.keys())]) {
      const target = positions.get(to)
      if (target !== undefined) next.add(visit(target, planTransition.enterBranch(branches, step, to, positions)))
    }
  }
  /** Without a route a branch rejoins; without a branch the next step follows. */
  const takeNoRoute = ({ branches, next, position }: FlowPlace, { any, routes }: StepExits) => {
    const members = groupAt(steps, position)
    const after = position + members.length
    const rejoin = planTransition.rejoinAt(branches, positions)
    const declared = after < steps.length ? after : "end"
    const to = rejoin === undefined ? declared : (positions.get(rejoin.at) ?? { unknown: rejoin.at })
    const label = routes.length > 0 || any !== undefined ? { label: "otherwise" } : undefined
    for (const from of members) draw({ from, to, kind: rejoin === undefined ? "flow" : "rejoin", ...label })
    if (typeof to === "number") next.add(visit(to, rejoin?.branches ?? branches))
  }

  draw({ from: "start", to: steps.length === 0 ? "end" : 0, kind: "flow" })
  if (steps.length > 0) visit(0, [])
  for (let number = 0; number < places.length; number++) {
    const place = places[number]
    if (place === undefined) continue
    const exit = exits[place.position] ?? noRoute
    takeRoutes(place, exit)
    if (exit.otherwise) takeNoRoute(place, exit)
    if (cost > maxFlowCost) return { places: undefined, edges: approximateEdges(steps, exits, positions) }
  }
  return { places, edges: edgesInOrder([...edges.values()], exits) }
}

/** Every move by itself, whatever branch a run is in. */
const approximateEdges = (
  steps: ReadonlyArray<PlanDefinition.StepDefinition>,
  exits: ReadonlyArray<StepExits>,
  positions: ReadonlyMap<string, number>
): ReadonlyArray<FlowEdge> => {
  const edges: Array<FlowEdge> = [{ from: "start", to: 0, kind: "flow" }]
  for (const [at, step] of steps.entries()) {
    const { any, otherwise, routes } = exits[at] ?? noRoute
    for (const { label, to } of routes)
      edges.push({ from: at, to: positions.get(to) ?? { unknown: to }, kind: "flow", label })
    if (otherwise) {
      const next = planTransition.groupEnd(steps, at)
      const label = routes.length > 0 || any !== undefined ? { label: "otherwise" } : {}
      edges.push({ from: at, to: next < steps.length ? next : "end", kind: "flow", ...label })
    }
    const rejoin = positions.get(step.afterBranches ?? "")
    if (rejoin === undefined) continue
    for (const { to } of routes) {
      const branch = positions.get(to)
      if (branch !== undefined && branch !== rejoin) edges.push({ from: branch, to: rejoin, kind: "rejoin" })
    }
  }
  return edges
}

/** By the step they leave; of one step, routes first, in their order, and rejoins last. */
const edgesInOrder = (edges: ReadonlyArray<FlowEdge>, exits: ReadonlyArray<StepExits>): ReadonlyArray<FlowEdge> => {
  const rank = (edge: FlowEdge): number => {
    if (edge.from === "start") return 0
    const route = exits[edge.from]?.routes.findIndex(({ label }) => label === edge.label) ?? -1
    return route === -1 ? (edge.kind === "flow" ? 1_000_000 : 1_000_001) : route
  }
  const source = (edge: FlowEdge): number => (edge.from === "start" ? -1 : edge.from)
  const target = (edge: FlowEdge): number =>
    typeof edge.to === "number" ? edge.to : edge.to === "end" ? Number.MAX_SAFE_INTEGER : -1
  return [...edges].sort((a, b) => source(a) - source(b) || rank(a) - rank(b) || target(a) - target(b))
}
