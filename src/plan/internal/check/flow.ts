/**
 * The ways through a plan whose routes are in order: where a run can be, and where it goes from there.
 *
 * A place is a position together with the newest branch that is taken, so that a step of a branch goes to
 * the rejoin of the right one. What is below the newest branch is kept per router, not per place: the ways
 * are all there, and a few more than there are. A band is one place, its first member.
 */
import type { StepDefinition } from "../../PlanDefinition.ts"
import type { When } from "../../When.ts"
import * as Branches from "./branches.ts"
import * as Discriminant from "./discriminant.ts"
import { isSame } from "./jsonSchema.ts"
import { bandOf, type Outline } from "./outline.ts"
import { targets } from "./routing.ts"

/** A plan with more ways is accepted without a look at them. */
const MOST = 300_000

export const NONE = Branches.NONE

export interface Place {
  readonly position: number
  /** The router whose branch this is, or {@link NONE}. */
  readonly branch: number
}

export interface Flow {
  readonly places: ReadonlyArray<Place>
  /** Places by number, where a run goes from each. Empty: it ends there. */
  readonly next: ReadonlyArray<ReadonlySet<number>>
  /** How many moves it took to find the ways. */
  readonly cost: number
}

export const make = (outline: Outline): Flow | undefined => {
  const { steps } = outline
  const size = steps.length
  const rejoins = steps.map((step) => rejoinOf(outline, step))
  const routes = steps.map((step) => (step.parallel ? [] : targets(outline, step)))
  const exhaustive = steps.map((step) => !step.parallel && isExhaustive(step))
  const branches = Branches.make(rejoins)
  const places: Array<Place> = []
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
      if (enters !== NONE) branches.enter(enters, rest)
      next[from]?.add(place(to, enters === NONE ? rest : enters))
    })
  const leave = (from: number, { branch, position }: Place) => {
    const enters = rejoins[position] === undefined ? NONE : position
    for (const to of routes[position] ?? []) go(from, branch, to, true, enters)
    if (exhaustive[position] === true) return
    // Without a route a branch ends; without a branch it goes on as declared.
    const to = branch === NONE ? bandOf(outline, position).last + 1 : rejoins[branch]
    if (to !== undefined && to < size) go(from, branch, to, false, NONE)
  }

  if (size > 0) place(0, NONE)
  let cost = 0
  for (let number = 0; number < places.length; number++) {
    const here = places[number]
    if (here !== undefined) leave(number, here)
    const settled = branches.settle(MOST)
    if (settled === undefined) return undefined
    cost = settled
  }
  return { places, next, cost: cost + moves }
}

/** Where the branches of a step end. What its members of a band say is not followed. */
const rejoinOf = ({ positions }: Outline, { afterBranches, parallel }: StepDefinition): number | undefined =>
  parallel || afterBranches === undefined ? undefined : positions.get(afterBranches)

/** Whether a step always takes one of its routes. */
const isExhaustive = ({ output, routes, routesBy }: StepDefinition): boolean => {
  if (routes !== undefined && routes.length > 0) return isCertain(routes.map(({ when }) => when))
  const found = routesBy === undefined ? undefined : Discriminant.read(output, routesBy)
  return found?._tag === "Literals" && found.exhaustive
}

/** How many conditions are compared with each other, and how deep. */
const COMPARED = 16
const DEPTH = 64

/** Whether one of the conditions holds in any case: it demands nothing, or is the opposite of another one. */
const isCertain = (conditions: ReadonlyArray<When>): boolean =>
  conditions.some((when) => isAlways(when)) ||
  (conditions.length <= COMPARED &&
    conditions.some((when) => when._tag === "Not" && conditions.some((other) => isSame(when.when, other, DEPTH))))

const isAlways = (when: When): boolean =>
  (when._tag === "And" && when.all.length === 0) ||
  (when._tag === "Not" && when.when._tag === "Or" && when.when.any.length === 0)
