/** Decisions of people as events. */
import type * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import { InvalidDecision } from "../../AgentError.ts"
import type { ApprovalRequest } from "../../Outcome.ts"
import type { RunEvent } from "../../RunEvent.ts"
import type { RunState } from "../../RunState.ts"
import type { Decision } from "../../RunTransition.ts"
import * as states from "./state.ts"

export const decide = (
  self: RunState,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<RunEvent>, InvalidDecision> => {
  const requests = states.approvalRequests(self)
  const decided = new Set<ApprovalRequest>()
  const events: Array<RunEvent> = []
  for (const decision of decisions) {
    const candidates = requests.filter((request) => isAbout(decision, request))
    const [request] = candidates
    const invalid = (problem: InvalidDecision["problem"]) =>
      Result.fail(
        new InvalidDecision({ callId: decision.callId, problem, pending: requests.map(({ callId }) => callId) })
      )
    if (request === undefined) return invalid("unknown")
    if (candidates.length > 1) return invalid("ambiguous")
    if (decided.has(request)) return invalid("repeated")
    decided.add(request)
    events.push(event(decision, request, at))
  }
  return Result.succeed(events)
}

const isAbout = ({ callId, path }: Decision, request: ApprovalRequest): boolean =>
  request.callId === callId && (path === undefined || samePath(path, request.path ?? []))

export const samePath = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): boolean =>
  a.length === b.length && a.every((id, i) => id === b[i])

const event = ({ approved, callId, reason }: Decision, { path }: ApprovalRequest, at: DateTime.Utc): RunEvent => {
  const decided: RunEvent = {
    _tag: "ApprovalDecided",
    at,
    callId,
    approved,
    ...(reason === undefined ? undefined : { reason })
  }
  return (path ?? []).reduceRight<RunEvent>((event, callId) => ({ _tag: "ChildEvent", at, callId, event }), decided)
}
