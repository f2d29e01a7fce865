/** The ways that runs can take, as they are drawn. */
import type { PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"
import type { Rejoin } from "../../PlanRunState.ts"
import * as When from "../../When.ts"
import type { Discriminant } from "../check/discriminant.ts"
import { said } from "../routable.ts"
import * as Frames from "../transition/frames.ts"
import { positionsOf, turnAt } from "../bands.ts"

/** Where a run can go from one turn to the next. `to` is a position, a name that no step has, or the end. */
export interface Way {
  readonly from: number | "start"
  readonly to: number | "end" | { readonly unknown: string }
  readonly kind: "flow" | "rejoin"
  readonly label?: string
}

export interface Flow {
  readonly ways: ReadonlyArray<Way>
  /** The positions that a run can come to; `undefined` if that is too much to find out. */
  readonly reached: ReadonlySet<number> | undefined
}

/** What may follow a step: routes in order, and whether none of them may be taken. */
interface Exits {
  readonly routes: ReadonlyArray<{ readonly to: string; readonly label: string }>
  readonly otherwise: boolean
  /** Any step may follow, by its name in this member. */
  readonly any: string | undefined
}

const maxStates = 5000

const isAlways = (when: When.When): boolean => when._tag === "And" && when.all.length === 0
const isNever = (when: When.When): boolean => when._tag === "Or" && when.any.length === 0

const noRoute: Exits = { routes: [], otherwise: true, any: undefined }

const byField = (field: string, found: Discriminant, positions: ReadonlyMap<string, number>): Exits => {
  if (found._tag === "Unknown") return { ...noRoute, any: field }
  if (found._tag !== "Literals") return noRoute
  const known = found.literals.filter((value) => positions.has(value))
  return {
    routes: known.map((to) => ({ to, label: When.label(When.field(field).equals(to)) })),
    otherwise: !found.exhaustive || known.length < found.literals.length,
    any: undefined
  }
}

export const exitsOf = (step: StepDefinition, positions: ReadonlyMap<string, number>): Exits => {
  if (step.parallel) return noRoute
  const routes = step.routes ?? []
  if (routes.length === 0) {
    if (step.routesBy === undefined) return noRoute
    return byField(step.routesBy, said(step.output, step.routesBy), positions)
  }
  const last = routes.findIndex((route) => isAlways(route.when))
  const tried = last === -1 ? routes : routes.slice(0, last + 1)
  const open = tried.map((route, index) => ({ ...route, index })).filter((route) => !isNever(route.when))
  return {
    routes: open.map(({ index, to, when }) => ({
      to,
      label: routes.length > 1 ? `${index + 1}: ${When.label(when)}` : When.label(when)
    })),
    otherwise: last === -1,
    any: undefined
  }
}

const keyOf = (at: number, frames: ReadonlyArray<Rejoin>): string =>
  JSON.stringify([at, frames.map(({ rejoin, router }) => [router, rejoin])])

/** Follows every way that a run could take: what is drawn can happen. */
export const flowOf = (definition: PlanDefinition): Flow => {
  const { steps } = definition
  const positions = positionsOf(steps)
  const exits = steps.map((step) => exitsOf(step, positions))
  const ways = new Map<string, Way>()
  const reached = new Set<number>()
  const seen = new Set<string>()
  const open: Array<{ readonly at: number; readonly frames: ReadonlyArray<Rejoin> }> = []

  const add = (way: Way) => {
    const key = JSON.stringify([way.from, way.to, way.kind, way.label])
    if (!ways.has(key)) ways.set(key, way)
  }

  const visit = (at: number, frames: ReadonlyArray<Rejoin>) => {
    const key = keyOf(at, frames)
    if (seen.has(key)) return
    seen.add(key)
    open.push({ at, frames })
  }

  const route = (from: StepDefinition, to: string, frames: ReadonlyArray<Rejoin>) => {
    const at = positions.get(to)
    if (at !== undefined) visit(at, Frames.route(frames, from, to, positions))
  }

  /** Goes on without a route: to the rejoin of the branch, or to the next step. */
  const goOn = (from: ReadonlyArray<number>, frames: ReadonlyArray<Rejoin>, label: string | undefined) => {
    const rejoined = Frames.rejoin(frames)
    const next = (from.at(-1) ?? 0) + 1
    const to =
      rejoined === undefined
        ? next < steps.length
          ? next
          : "end"
        : (positions.get(rejoined.at) ?? { unknown: rejoined.at })
    const kind = rejoined === undefined ? "flow" : "rejoin"
    for (const member of from) add({ from: member, to, kind, ...(label === undefined ? {} : { label }) })
    if (typeof to === "number") visit(to, rejoined?.frames ?? frames)
  }

  add({ from: "start", to: steps.length === 0 ? "end" : 0, kind: "flow" })
  if (steps.length > 0) visit(0, [])

  for (let state = open.pop(); state !== undefined; state = open.pop()) {
    const { at, frames } = state
    const members = turnAt(steps, at)
    for (const member of members) reached.add(member)
    const { any, otherwise, routes } = exits[at] ?? { routes: [], otherwise: true, any: undefined }
    for (const { label, to } of routes) add({ from: at, to: positions.get(to) ?? { unknown: to }, kind: "flow", label })
    const step = steps[at]
    if (step !== undefined) {
      for (const { to } of routes) route(step, to, frames)
      if (any !== undefined) steps.forEach(({ name }) => route(step, name, frames))
    }
    if (otherwise) goOn(members, frames, routes.length > 0 || any !== undefined ? "otherwise" : undefined)
    // So many combinations of branches: what is left is drawn as if every step could follow the one before it.
    if (seen.size > maxStates) return { ways: roughly(steps, exits, positions), reached: undefined }
  }
  return { ways: inOrder([...ways.values()], exits), reached }
}

/** Every way by itself, without asking in which branch a run is. */
const roughly = (
  steps: ReadonlyArray<StepDefinition>,
  exits: ReadonlyArray<Exits>,
  positions: ReadonlyMap<string, number>
): ReadonlyArray<Way> => {
  const ways: Array<Way> = [{ from: "start", to: 0, kind: "flow" }]
  for (const [at, step] of steps.entries()) {
    const { any, otherwise, routes } = exits[at] ?? { routes: [], otherwise: true, any: undefined }
    for (const { label, to } of routes)
      ways.push({ from: at, to: positions.get(to) ?? { unknown: to }, kind: "flow", label })
    if (otherwise) {
      const next = turnAt(steps, at).length + at
      const label = routes.length > 0 || any !== undefined ? { label: "otherwise" } : {}
      ways.push({ from: at, to: next < steps.length ? next : "end", kind: "flow", ...label })
    }
    const rejoin = positions.get(step.afterBranches ?? "")
    if (rejoin === undefined) continue
    for (const { to } of routes) {
      const branch = positions.get(to)
      if (branch !== undefined && branch !== rejoin) ways.push({ from: branch, to: rejoin, kind: "rejoin" })
    }
  }
  return ways
}

/** By the step they leave; of one step, routes first, in their order, and rejoins last. */
const inOrder = (ways: ReadonlyArray<Way>, exits: ReadonlyArray<Exits>): ReadonlyArray<Way> => {
  const rank = (way: Way): number => {
    if (way.from === "start") return 0
    const route = exits[way.from]?.routes.findIndex(({ label }) => label === way.label) ?? -1
    return route === -1 ? (way.kind === "flow" ? 1_000_000 : 1_000_001) : route
  }
  const position = (way: Way): number => (way.from === "start" ? -1 : way.from)
  const target = (way: Way): number =>
    typeof way.to === "number" ? way.to : way.to === "end" ? Number.MAX_SAFE_INTEGER : -1
  return [...ways].sort((a, b) => position(a) - position(b) || rank(a) - rank(b) || target(a) - target(b))
}
