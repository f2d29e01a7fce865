/**
 * The branches that are taken. No router is in the stack twice, so it is never longer
 * than the plan has steps with routes.
 */
import type { StepDefinition } from "../../PlanDefinition.ts"
import type { Rejoin } from "../../PlanRunState.ts"

type Frames = ReadonlyArray<Rejoin>

/** Going to where a branch rejoins leaves it, and all branches that were taken inside of it. */
const arrive = (frames: Frames, at: string): Frames => {
  const left = frames.findIndex(({ rejoin }) => rejoin === at)
  return left === -1 ? frames : frames.slice(0, left)
}

/** The branches after the route from `router` to `to`. */
export const route = (
  frames: Frames,
  router: StepDefinition,
  to: string,
  positions: ReadonlyMap<string, number>
): Frames => {
  const position = positions.get(to) ?? 0
  const { afterBranches: rejoin, name } = router
  const kept = arrive(frames, to).filter(
    // A route back to a router or before it left that router's branch
    (frame) => (positions.get(frame.router) ?? 0) < position && (rejoin === undefined || frame.router !== name)
  )
  return rejoin === undefined ? kept : [...kept, { router: name, rejoin }]
}

/** Where a step goes that ends without a route inside of a branch, and the branches after it. */
export const rejoin = (frames: Frames): { readonly at: string; readonly frames: Frames } | undefined => {
  const top = frames.at(-1)
  return top === undefined ? undefined : { at: top.rejoin, frames: arrive(frames, top.rejoin) }
}
