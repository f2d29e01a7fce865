import { Run } from "effect-emissary"
import { PlanRun } from "effect-emissary/plan"

/** The digest of a request that a test writes down by hand. */
export const digestOf = (callId: string): string => `sha256:${callId}`

/** A decision about a request with a digest by hand. */
export const decision = (callId: string, approved = true, more: Partial<Run.Decision> = {}): Run.Decision => ({
  callId,
  digest: digestOf(callId),
  approved,
  ...more
})

/** Decisions about all that waits in a run. */
export const decide = (
  state: Run.State | PlanRun.State,
  approved = true,
  more: Partial<Run.Decision> = {}
): ReadonlyArray<Run.Decision> => {
  const waiting = state instanceof PlanRun.State ? PlanRun.requests(state) : Run.requests(state)
  return waiting.map(({ callId, digest, path }) => ({ callId, digest, approved, ...(path && { path }), ...more }))
}

/** Requests without their digests. */
export const bare = <A extends { readonly digest: string }>(waiting: ReadonlyArray<A>) =>
  waiting.map(({ digest: _, ...rest }) => rest)
