/**
 * The ways through a plan whose routes are in order: where a run can be, and where it goes from there.
 *
 * A place is a position together with the newest branch that is taken, so that a step of a branch goes to
 * the rejoin of the right one. What is below the newest branch is kept per router, not per place: the ways
 * are all there, and a few more than there are. A band is one place, its first member.
 */
import * as Equal from "effect/Equal"
import type { StepDefinition } from "../../PlanDefinition.ts"
import type { When } from "../../When.ts"
import * as Discriminant from "./discriminant.ts"
import { bandOf, type Outline } from "./outline.ts"
import { targets } from "./routing.ts"

/** No branch is taken. */
export const NONE = -1

/** A plan with more ways is accepted without a look at them. */
const MOST = 1_000_000

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

/** A step that ended, and where the run goes. */
interface Move {
  readonly id: number
  readonly from: number
  readonly to: number
  /** Branches whose router is here or later have been left. */
  readonly leaves: number
  /** The router whose branch begins, or {@link NONE}. */
  readonly enters: number
}

export const make = (outline: Outline): Flow | undefined => {
  const { steps } = outline
  const size = steps.length
  const rejoins = steps.map((step) => rejoinOf(outline, step))
  const routes = steps.map((step) => (step.parallel ? [] : targets(outline, step)))
  const exhaustive = steps.map((step) => !step.parallel && isExhaustive(step))
  const places: Array<Place> = []
  const next: Array<Set<number>> = []
  const numbers = new Map<number, number>()
  const below = new Map<number, Set<number>>()
  const waiting = new Map<number, Array<Move>>()
  const work: Array<readonly [Move, number]> = []
  const done = new Set<number>()
  const opened: Array<number> = []
  let moves = 0

  const settle = (move: Move, branch: number) => {
    const key = move.id * (size + 1) + branch + 1
    if (done.has(key)) return
    done.add(key)
    work.push([move, branch])
  }
  const place = (position: number, branch: number): number => {
    const key = position * (size + 1) + branch + 1
    const known = numbers.get(key)
    if (known !== undefined) return known
    const number = places.length
    numbers.set(key, number)
    places.push({ position, branch })
    next.push(new Set())
    opened.push(number)
    return number
  }
  /** Goes on below a branch that has ended or was left, now and whenever more is found below it. */
  const descend = (move: Move, branch: number) => {
    const found = waiting.get(branch)
    if (found === undefined) waiting.set(branch, [move])
    else found.push(move)
    for (const lower of below.get(branch) ?? []) settle(move, lower)
  }
  const enter = (router: number, lower: number) => {
    const known = below.get(router) ?? new Set<number>()
    below.set(router, known)
    if (known.has(lower)) return
    known.add(lower)
    for (const move of waiting.get(router) ?? []) settle(move, lower)
  }
  const arrive = (move: Move, branch: number) => {
    if (branch !== NONE && (branch >= move.leaves || rejoins[branch] === move.to)) return descend(move, branch)
    if (move.enters !== NONE) enter(move.enters, branch)
    next[move.from]?.add(place(move.to, move.enters === NONE ? branch : move.enters))
  }
  const leave = (from: number) => {
    const here = places[from]
    if (here === undefined) return
    const { branch, position } = here
    const go = (to: number, leaves: number, enters: number): Move => ({ id: moves++, from, to, leaves, enters })
    for (const to of routes[position] ?? []) {
      settle(go(to, to, rejoins[position] === undefined ? NONE : position), branch)
    }
    if (exhaustive[position] === true) return
    if (branch === NONE) {
      const after = bandOf(outline, position).last + 1
      if (after < size) settle(go(after, size, NONE), NONE)
      return
    }
    const rejoin = rejoins[branch]
    if (rejoin !== undefined) descend(go(rejoin, size, NONE), branch)
  }

  if (size > 0) place(0, NONE)
  let steered = 0
  for (;;) {
    const item = work.pop()
    if (item !== undefined) {
      arrive(item[0], item[1])
      if (++steered > MOST) return undefined
      continue
    }
    const from = opened.pop()
    if (from === undefined) return { places, next, cost: steered + moves }
    leave(from)
  }
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

/** How many conditions are compared with each other. */
const COMPARED = 16

/** Whether one of the conditions holds in any case: it demands nothing, or is the opposite of another one. */
const isCertain = (conditions: ReadonlyArray<When>): boolean =>
  conditions.some((when) => isAlways(when)) ||
  (conditions.length <= COMPARED &&
    conditions.some((when) => when._tag === "Not" && conditions.some((other) => Equal.equals(when.when, other))))

const isAlways = (when: When): boolean =>
  (when._tag === "And" && when.all.length === 0) ||
  (when._tag === "Not" && when.when._tag === "Or" && when.when.any.length === 0)
