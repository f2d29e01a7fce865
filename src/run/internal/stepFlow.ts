/**
 * The order of the steps of a plan: which steps run together, which step comes next, and where a branch rejoins. It reads the steps of a
 * definition, and the steps that the first event of a run has.
 */

import { memoize } from "effect/Function"
import type * as planRunParts from "./planRunParts.ts"

/** A step with its name alone. */
interface Named {
  readonly name: string
}

/** Steps that may be members of a parallel group. */
export type StepList = ReadonlyArray<{ readonly parallel?: boolean }>

/** The position after the turn that begins at a position: after the step, or after the rest of its parallel group. */
export const groupEnd = (steps: StepList, at: number): number => {
  let end = at + 1
  if (steps[at]?.parallel === true) while (steps[end]?.parallel === true) end += 1
  return end
}

export type Positions = ReadonlyMap<string, number>

/** Positions of steps by name; of several with one name, the first. */
export const positionsOf = memoize((steps: ReadonlyArray<Named>): Positions => {
  const positions = new Map<string, number>()
  for (const [index, { name }] of steps.entries()) if (!positions.has(name)) positions.set(name, index)
  return positions
})

export const findStep = <Step extends Named>(steps: ReadonlyArray<Step>, name: string): Step | undefined => {
  const position = positionsOf(steps).get(name)
  return position === undefined ? undefined : steps[position]
}

/** The steps that run together from a position on: one, or the rest of its parallel group. None at the end of the plan. */
export const stepsAt = <Step extends StepList[number]>(
  steps: ReadonlyArray<Step>,
  position: number
): ReadonlyArray<Step> => steps.slice(position, groupEnd(steps, position))

/** A branch that was taken: after a step of it that ends without a route, the run continues at `rejoin`. */
export interface Rejoin {
  readonly router: string
  readonly rejoin: string
}

type Rejoins = ReadonlyArray<Rejoin>

/** True where a branch has ended: at the step where it rejoins, and at every step after that one. */
const isPast = (positions: Positions, rejoin: string, at: string): boolean =>
  (positions.get(at) ?? 0) >= (positions.get(rejoin) ?? Infinity)

/** Going to where a branch rejoins, or past it, leaves it and all branches that were taken inside of it. */
const leaveBranches = (rejoins: Rejoins, at: string, positions: Positions): Rejoins => {
  const left = rejoins.findIndex(({ rejoin }) => isPast(positions, rejoin, at))
  return left === -1 ? rejoins : rejoins.slice(0, left)
}

/** The branches after the route from `router` to `to`. */
export const enterBranch = (
  rejoins: Rejoins,
  router: Pick<planRunParts.FlowStep, "afterBranches" | "name">,
  to: string,
  positions: Positions
): Rejoins => {
  const position = positions.get(to) ?? 0
  const { afterBranches: rejoin, name } = router
  const kept = leaveBranches(rejoins, to, positions).filter(
    // A route back to a router or before it left that router's branch
    (branch) => (positions.get(branch.router) ?? 0) < position
  )
  return rejoin === undefined || isPast(positions, rejoin, to) ? kept : [...kept, { router: name, rejoin }]
}

/** The next step after a step inside a branch that ends without a route, and the branches left after it. */
export const rejoinAt = (rejoins: Rejoins, positions: Positions) => {
  const top = rejoins.at(-1)
  return top === undefined ? undefined : { at: top.rejoin, branches: leaveBranches(rejoins, top.rejoin, positions) }
}
