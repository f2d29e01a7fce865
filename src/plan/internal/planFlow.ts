/**
 * The structure of a definition: positions, parallel groups, routes and rejoining branches, and what can run before what. Used by the checks, the run and the pictures.
 */

import * as paths from "../../payload/internal/paths.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import * as When from "../When.ts"
import * as planNames from "./planNames.ts"
import * as stepSchema from "./stepSchema.ts"

export interface Outline {
  readonly definition: PlanDefinition.PlanDefinition
  readonly steps: ReadonlyArray<PlanDefinition.StepDefinition>
  /** The first step of each name. */
  readonly positions: ReadonlyMap<string, number>
  /** Sorted, each once. */
  readonly names: ReadonlyArray<string>
  /** For a member of a band the first and last position of the band; for another step its own. */
  readonly bands: ReadonlyArray<OutlineGroup>
  readonly budget: planNames.SearchFuel
  readonly search: stepSchema.ConflictSearch
}

interface OutlineGroup {
  readonly first: number
  readonly last: number
}

export const makeOutline = (definition: PlanDefinition.PlanDefinition): Outline => {
  const { steps } = definition
  const positions = new Map<string, number>()
  const bands: Array<OutlineGroup> = []
  steps.forEach((step, index) => {
    if (!positions.has(step.name)) positions.set(step.name, index)
    if (!step.parallel) bands.push({ first: index, last: index })
    else if (index === 0 || steps[index - 1]?.parallel !== true) {
      let last = index
      while (steps[last + 1]?.parallel === true) last++
      const band = { first: index, last }
      for (let member = index; member <= last; member++) bands.push(band)
    }
  })
  return {
    definition,
    steps,
    positions,
    names: sortedNames(positions.keys()),
    bands,
    budget: planNames.makeFuel(),
    search: stepSchema.makeConflictSearch()
  }
}

/** By code points, each once. */
export const sortedNames = (names: Iterable<string>): ReadonlyArray<string> =>
  Array.from(new Set(names)).sort(planNames.byCodePoint)

/** The band a position is in; its own place if there is no such position. */
export const groupOf = (outline: Outline, index: number): OutlineGroup =>
  outline.bands[index] ?? { first: index, last: index }

/** Where a step may go on: positions, as far as the steps are known, each once and in order. */
export const routeTargets = (outline: Outline, step: PlanDefinition.StepDefinition): ReadonlyArray<number> => {
  const names = [...(step.routes ?? []).map(({ to }) => to), ...routeLiterals(step)]
  const positions = new Set<number>()
  for (const name of names) {
    const position = outline.positions.get(name)
    if (position !== undefined) positions.add(position)
  }
  return Array.from(positions)
}

const routeLiterals = ({ output, routesBy }: PlanDefinition.StepDefinition): ReadonlyArray<string> => {
  const found = routesBy === undefined ? undefined : stepSchema.readDiscriminant(output, routesBy)
  return found?._tag === "Literals" ? found.literals : []
}

/**
 * A branch that was taken: when a step of it ends without a route, the run goes on at
 * `rejoin`.
 */
export interface Rejoin {
  readonly router: string
  readonly rejoin: string
}

// Array.isArray does not narrow readonly arrays out of a union
export const isReferenceList = (context: Reference | ReadonlyArray<Reference>): context is ReadonlyArray<Reference> =>
  Array.isArray(context)

/** What a step reads as its context, as a list in any case. */
export const contextReferences = (context: PlanDefinition.StepDefinition["context"]): ReadonlyArray<Reference> =>
  context === undefined ? [] : isReferenceList(context) ? context : [context]

/** What a step reads, and as what. */
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
      return `${call}(${paths.quote(reference.step)})`
    case "FromMemory":
    case "FromAgent":
      return `${call}(${paths.quote(reference.agent)})`
    case "Literal":
      return `${call}(${paths.quote(reference.value)})`
  }
}

type StepList = ReadonlyArray<{ readonly parallel: boolean }>

/** The position after the turn that begins at a position: after the step, or after the rest of its band. */
export const groupEnd = (steps: StepList, at: number): number => {
  let end = at + 1
  if (steps[at]?.parallel === true) while (steps[end]?.parallel === true) end += 1
  return end
}

/** The positions that run together when a run comes to a position: a step, or a band from there on. */
export const groupAt = (steps: StepList, at: number): ReadonlyArray<number> => {
  const members: Array<number> = []
  for (let position = at, end = groupEnd(steps, at); position < end; position++) members.push(position)
  return members
}

/** The steps in order, those of a band together. */
export const inGroups = <A extends { readonly parallel: boolean }>(
  steps: ReadonlyArray<A>
): ReadonlyArray<readonly [A, ...Array<A>]> => {
  const bands: Array<[A, ...Array<A>]> = []
  let open: [A, ...Array<A>] | undefined
  for (const step of steps) {
    if (step.parallel && open !== undefined) {
      open.push(step)
      continue
    }
    const band: [A, ...Array<A>] = [step]
    bands.push(band)
    open = step.parallel ? band : undefined
  }
  return bands
}

/** Positions of steps by name; of several with one name, the first. */
export const stepPositions = (steps: ReadonlyArray<PlanDefinition.StepDefinition>): ReadonlyMap<string, number> => {
  const positions = new Map<string, number>()
  for (const [index, { name }] of steps.entries()) if (!positions.has(name)) positions.set(name, index)
  return positions
}

const positionCache = new WeakMap<PlanDefinition.PlanDefinition, ReadonlyMap<string, number>>()

export const positionsOf = (definition: PlanDefinition.PlanDefinition): ReadonlyMap<string, number> => {
  const found = positionCache.get(definition)
  if (found !== undefined) return found
  const made = new Map(definition.steps.map(({ name }, position) => [name, position]))
  positionCache.set(definition, made)
  return made
}

export const findStep = (
  definition: PlanDefinition.PlanDefinition,
  name: string
): PlanDefinition.StepDefinition | undefined => {
  const position = positionsOf(definition).get(name)
  return position === undefined ? undefined : definition.steps[position]
}

/** The steps that run together from a position on: one, or the rest of its band. None at the end of the plan. */
export const stepsAt = (
  definition: PlanDefinition.PlanDefinition,
  position: number
): ReadonlyArray<PlanDefinition.StepDefinition> => {
  const { steps } = definition
  return steps.slice(position, groupEnd(steps, position))
}

/** Whether a step that runs alone says where it goes when it has finished. */
export const hasRoutes = ({ parallel, routes, routesBy }: PlanDefinition.StepDefinition): boolean =>
  !parallel && ((routes !== undefined && routes.length > 0) || routesBy !== undefined)

type Rejoins = ReadonlyArray<Rejoin>

/** Going to where a branch rejoins leaves it, and all branches that were taken inside of it. */
const leaveBranches = (frames: Rejoins, at: string): Rejoins => {
  const left = frames.findIndex(({ rejoin }) => rejoin === at)
  return left === -1 ? frames : frames.slice(0, left)
}

/** The branches after the route from `router` to `to`. */
export const enterBranch = (
  frames: Rejoins,
  router: PlanDefinition.StepDefinition,
  to: string,
  positions: ReadonlyMap<string, number>
): Rejoins => {
  const position = positions.get(to) ?? 0
  const { afterBranches: rejoin, name } = router
  const kept = leaveBranches(frames, to).filter(
    // A route back to a router or before it left that router's branch
    (frame) => (positions.get(frame.router) ?? 0) < position && (rejoin === undefined || frame.router !== name)
  )
  return rejoin === undefined ? kept : [...kept, { router: name, rejoin }]
}

/** Where a step goes that ends without a route inside of a branch, and the branches after it. */
export const rejoinAt = (frames: Rejoins): { readonly at: string; readonly frames: Rejoins } | undefined => {
  const top = frames.at(-1)
  return top === undefined ? undefined : { at: top.rejoin, frames: leaveBranches(frames, top.rejoin) }
}

/** No branch is taken. */
const NO_BRANCHES = -1

/** A run that goes somewhere, and which branches it leaves thereby. */
interface BranchMove {
  readonly id: number
  readonly to: number
  /** Whether it follows a route, and so leaves the branches whose routers are here or later. */
  readonly isRoute: boolean
  /** The router whose branch begins, or {@link NO_BRANCHES}. */
  readonly enters: number
}

interface Branches {
  /** A branch begins on top of another one. */
  readonly enter: (router: number, lower: number) => void
  /** The newest branch after a move, now and whenever another one is found. */
  readonly arrive: (move: BranchMove, branch: number, found: (branch: number) => void) => void
  /** Works off what has been found. Undefined if it was too much, otherwise how much it was. */
  readonly settle: (most: number) => number | undefined
}

interface BranchNode {
  readonly results: Set<number>
  readonly consumers: Array<(branch: number) => void>
}

const findBranches = (rejoins: ReadonlyArray<number | undefined>): Branches => {
  const below = new Map<number, BranchNode>()
  const whole = new Map<string, BranchNode>()
  const work: Array<() => void> = []
  let cost = 0

  const add = (node: BranchNode, branch: number) => {
    if (node.results.has(branch)) return
    node.results.add(branch)
    for (const consumer of node.consumers) work.push(() => consumer(branch))
  }
  const consume = (node: BranchNode, consumer: (branch: number) => void) => {
    node.consumers.push(consumer)
    for (const branch of node.results) work.push(() => consumer(branch))
  }
  const lower = (branch: number): BranchNode => {
    const known = below.get(branch)
    if (known !== undefined) return known
    const made: BranchNode = { results: new Set(), consumers: [] }
    below.set(branch, made)
    return made
  }
  const node = (move: BranchMove, kind: string, branch: number, fill: (node: BranchNode) => void): BranchNode => {
    const key = `${kind}${move.id}:${branch}`
    const known = whole.get(key)
    if (known !== undefined) return known
    const made: BranchNode = { results: new Set(), consumers: [] }
    whole.set(key, made)
    fill(made)
    return made
  }
  /** What is left of a stack that does not rejoin where the move goes: all but what the route leaves. */
  const kept = (move: BranchMove, branch: number): BranchNode =>
    node(move, "kept", branch, (self) => {
      if (branch === NO_BRANCHES) return add(self, NO_BRANCHES)
      if (rejoins[branch] === move.to) return
      const leaves = move.isRoute && (branch >= move.to || branch === move.enters)
      consume(lower(branch), (next) =>
        consume(kept(move, next), (rest) => {
          if (leaves) return add(self, rest)
          add(lower(branch), rest)
          add(self, branch)
        })
      )
    })
  /** What is left of a stack that rejoins there: what lies below the lowest branch that does. */
  const cut = (move: BranchMove, branch: number): BranchNode =>
    node(move, "cut", branch, (self) => {
      if (branch === NO_BRANCHES) return
      consume(lower(branch), (next) => {
        consume(cut(move, next), (rest) => add(self, rest))
        if (rejoins[branch] === move.to) consume(kept(move, next), (rest) => add(self, rest))
      })
    })

  return {
    enter: (router, branch) => add(lower(router), branch),
    arrive: (move, branch, found) => {
      consume(kept(move, branch), found)
      consume(cut(move, branch), found)
    },
    settle: (most) => {
      for (let next = work.pop(); next !== undefined; next = work.pop()) {
        next()
        if (++cost > most) return undefined
      }
      return cost
    }
  }
}

/** A plan with more ways is accepted without a look at them. */
const maxPlaces = 300_000

export const NO_PLACES = NO_BRANCHES

export interface FlowPlace {
  readonly position: number
  /** The router whose branch this is, or {@link NO_PLACES}. */
  readonly branch: number
}

export interface CheckFlow {
  readonly places: ReadonlyArray<FlowPlace>
  /** Places by number, where a run goes from each. Empty: it ends there. */
  readonly next: ReadonlyArray<ReadonlySet<number>>
  /** How many moves it took to find the ways. */
  readonly cost: number
}

export const makeCheckFlow = (outline: Outline): CheckFlow | undefined => {
  const { steps } = outline
  const size = steps.length
  const rejoins = steps.map((step) => rejoinOfRoute(outline, step))
  const routes = steps.map((step) => (step.parallel ? [] : routeTargets(outline, step)))
  const exhaustive = steps.map((step) => !step.parallel && isRoutingExhaustive(step))
  const branches = findBranches(rejoins)
  const places: Array<FlowPlace> = []
  const next: Array<Set<number>> = []
  const numbers = new Map<number, number>()
  let moves = 0

  const place = (position: number, branch: number): number => {
    const key = position * (size + 1) + branch + 1
    const known = numbers.get(key)
    if (known !== undefined) return known
    const number = places.length
    numbers.set(key, number)
    places.push({ position, branch })
    next.push(new Set())
    return number
  }
  const go = (from: number, branch: number, to: number, isRoute: boolean, enters: number) =>
    branches.arrive({ id: moves++, to, isRoute, enters }, branch, (rest) => {
      if (enters !== NO_PLACES) branches.enter(enters, rest)
      next[from]?.add(place(to, enters === NO_PLACES ? rest : enters))
    })
  const leave = (from: number, { branch, position }: FlowPlace) => {
    const enters = rejoins[position] === undefined ? NO_PLACES : position
    for (const to of routes[position] ?? []) go(from, branch, to, true, enters)
    if (exhaustive[position] === true) return
    // Without a route a branch ends; without a branch it goes on as declared.
    const to = branch === NO_PLACES ? groupOf(outline, position).last + 1 : rejoins[branch]
    if (to !== undefined && to < size) go(from, branch, to, false, NO_PLACES)
  }

  if (size > 0) place(0, NO_PLACES)
  let cost = 0
  for (let number = 0; number < places.length; number++) {
    const here = places[number]
    if (here !== undefined) leave(number, here)
    const settled = branches.settle(maxPlaces)
    if (settled === undefined) return undefined
    cost = settled
  }
  return { places, next, cost: cost + moves }
}

/** Where the branches of a step end. What its members of a band say is not followed. */
const rejoinOfRoute = (
  { positions }: Outline,
  { afterBranches, parallel }: PlanDefinition.StepDefinition
): number | undefined => (parallel || afterBranches === undefined ? undefined : positions.get(afterBranches))

/** Whether a step always takes one of its routes. */
const isRoutingExhaustive = ({ output, routes, routesBy }: PlanDefinition.StepDefinition): boolean => {
  if (routes !== undefined && routes.length > 0) return isCertain(routes.map(({ when }) => when))
  const found = routesBy === undefined ? undefined : stepSchema.readDiscriminant(output, routesBy)
  return found?._tag === "Literals" && found.exhaustive
}

/** How many conditions are compared with each other. */
const maxCompared = 16

/** Whether one of the conditions holds in any case: it demands nothing, or is the opposite of another one. */
const isCertain = (conditions: ReadonlyArray<When.When>): boolean =>
  conditions.some((when) => isAlwaysTrue(when)) ||
  (conditions.length <= maxCompared &&
    conditions.some(
      (when) => when._tag === "Not" && conditions.some((other) => planNames.equalsJson(when.when, other))
    ))

const isAlwaysTrue = (when: When.When): boolean =>
  (when._tag === "And" && when.all.length === 0) ||
  (when._tag === "Not" && when.when._tag === "Or" && when.when.any.length === 0)

/** Where a run can go from one turn to the next. `to` is a position, a name that no step has, or the end. */
export interface FlowEdge {
  readonly from: number | "start"
  readonly to: number | "end" | { readonly unknown: string }
  readonly kind: "flow" | "rejoin"
  readonly label?: string
}

interface DrawnFlow {
  readonly ways: ReadonlyArray<FlowEdge>
  /** The positions that a run can come to; `undefined` if that is too much to find out. */
  readonly reached: ReadonlySet<number> | undefined
}

/** What may follow a step: routes in order, and whether none of them may be taken. */
interface StepExits {
  readonly routes: ReadonlyArray<{ readonly to: string; readonly label: string }>
  readonly otherwise: boolean
  /** Any step may follow, by its name in this member. */
  readonly any: string | undefined
}

const maxStates = 5000

const isAlwaysLabel = (when: When.When): boolean => when._tag === "And" && when.all.length === 0

const isNeverLabel = (when: When.When): boolean => when._tag === "Or" && when.any.length === 0

const noRoute: StepExits = { routes: [], otherwise: true, any: undefined }

const exitsByField = (
  field: string,
  found: stepSchema.Discriminant,
  positions: ReadonlyMap<string, number>
): StepExits => {
  if (found._tag === "Unknown") return { ...noRoute, any: field }
  if (found._tag !== "Literals") return noRoute
  const known = found.literals.filter((value) => positions.has(value))
  return {
    routes: known.map((to) => ({ to, label: When.label(When.field(field).equals(to)) })),
    otherwise: !found.exhaustive || known.length < found.literals.length,
    any: undefined
  }
}

export const exitsOf = (step: PlanDefinition.StepDefinition, positions: ReadonlyMap<string, number>): StepExits => {
  if (step.parallel) return noRoute
  const routes = step.routes ?? []
  if (routes.length === 0) {
    if (step.routesBy === undefined) return noRoute
    return exitsByField(step.routesBy, stepSchema.routeValues(step.output, step.routesBy), positions)
  }
  const last = routes.findIndex((route) => isAlwaysLabel(route.when))
  const tried = last === -1 ? routes : routes.slice(0, last + 1)
  const open = tried.map((route, index) => ({ ...route, index })).filter((route) => !isNeverLabel(route.when))
  return {
    routes: open.map(({ index, to, when }) => ({
      to,
      label: routes.length > 1 ? `${index + 1}: ${When.label(when)}` : When.label(when)
    })),
    otherwise: last === -1,
    any: undefined
  }
}

const stateKey = (at: number, frames: ReadonlyArray<Rejoin>): string =>
  JSON.stringify([at, frames.map(({ rejoin, router }) => [router, rejoin])])

/** Follows every way that a run could take: what is drawn can happen. */
export const drawnFlow = (definition: PlanDefinition.PlanDefinition): DrawnFlow => {
  const { steps } = definition
  const positions = stepPositions(steps)
  const exits = steps.map((step) => exitsOf(step, positions))
  const ways = new Map<string, FlowEdge>()
  const reached = new Set<number>()
  const seen = new Set<string>()
  const open: Array<{ readonly at: number; readonly frames: ReadonlyArray<Rejoin> }> = []

  const add = (way: FlowEdge) => {
    const key = JSON.stringify([way.from, way.to, way.kind, way.label])
    if (!ways.has(key)) ways.set(key, way)
  }

  const visit = (at: number, frames: ReadonlyArray<Rejoin>) => {
    const key = stateKey(at, frames)
    if (seen.has(key)) return
    seen.add(key)
    open.push({ at, frames })
  }

  const route = (from: PlanDefinition.StepDefinition, to: string, frames: ReadonlyArray<Rejoin>) => {
    const at = positions.get(to)
    if (at !== undefined) visit(at, enterBranch(frames, from, to, positions))
  }

  /** Goes on without a route: to the rejoin of the branch, or to the next step. */
  const goOn = (from: ReadonlyArray<number>, frames: ReadonlyArray<Rejoin>, label: string | undefined) => {
    const rejoined = rejoinAt(frames)
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
    const members = groupAt(steps, at)
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
    if (seen.size > maxStates) return { ways: approximateFlow(steps, exits, positions), reached: undefined }
  }
  return { ways: edgesInOrder([...ways.values()], exits), reached }
}

/** Every way by itself, without asking in which branch a run is. */
const approximateFlow = (
  steps: ReadonlyArray<PlanDefinition.StepDefinition>,
  exits: ReadonlyArray<StepExits>,
  positions: ReadonlyMap<string, number>
): ReadonlyArray<FlowEdge> => {
  const ways: Array<FlowEdge> = [{ from: "start", to: 0, kind: "flow" }]
  for (const [at, step] of steps.entries()) {
    const { any, otherwise, routes } = exits[at] ?? { routes: [], otherwise: true, any: undefined }
    for (const { label, to } of routes)
      ways.push({ from: at, to: positions.get(to) ?? { unknown: to }, kind: "flow", label })
    if (otherwise) {
      const next = groupAt(steps, at).length + at
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
const edgesInOrder = (ways: ReadonlyArray<FlowEdge>, exits: ReadonlyArray<StepExits>): ReadonlyArray<FlowEdge> => {
  const rank = (way: FlowEdge): number => {
    if (way.from === "start") return 0
    const route = exits[way.from]?.routes.findIndex(({ label }) => label === way.label) ?? -1
    return route === -1 ? (way.kind === "flow" ? 1_000_000 : 1_000_001) : route
  }
  const position = (way: FlowEdge): number => (way.from === "start" ? -1 : way.from)
  const target = (way: FlowEdge): number =>
    typeof way.to === "number" ? way.to : way.to === "end" ? Number.MAX_SAFE_INTEGER : -1
  return [...ways].sort((a, b) => position(a) - position(b) || rank(a) - rank(b) || target(a) - target(b))
}
