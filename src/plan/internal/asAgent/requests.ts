/** What a plan waits for, as what an agent waits for. */
import type { ApprovalRequest } from "../../../agent/Outcome.ts"
import type { PlanOutcome } from "../../PlanOutcome.ts"

type Paused = Extract<PlanOutcome, { readonly _tag: "Paused" }>

/**
 * A step that waits for anybody is a request under its own name: it fails when it is
 * denied, and runs again when the plan goes on, which takes one decision about anything
 * that waits; so does a step in the same band that nobody has decided about. A call is
 * never made without its own decision.
 */
export const requestsOf = ({ pauses, requests }: Paused): ReadonlyArray<ApprovalRequest> => [
  ...requests,
  ...pauses.map(({ path, reason, step }) => ({
    callId: step,
    name: step,
    arguments: { reason },
    ...(path.length === 0 ? undefined : { path })
  }))
]
