/** The progress of an answer that is no model's. */
import * as Chunk from "effect/Chunk"
import * as Result from "effect/Result"
import type { ApprovalRequest } from "../../Outcome.ts"
import type { ApprovalDecided, ChildEvent, ProgressSaved, RunEvent } from "../../RunEvent.ts"
import type { Reason } from "../../RunEventError.ts"
import type { Progress } from "../../RunState.ts"
import { samePath } from "./decide.ts"

/** Decisions that were made before are part of the facts. */
export const save = (self: Progress | undefined, { facts, requests }: ProgressSaved): Progress => {
  const added = Chunk.fromIterable(facts)
  return { facts: self === undefined ? added : Chunk.appendAll(self.facts, added), requests, decisions: [] }
}

/** A decision about one of its requests; the path of the event is that of the request. */
export const decide = (self: Progress, event: ApprovalDecided | ChildEvent): Result.Result<Progress, Reason> => {
  const path: Array<string> = []
  let inner: RunEvent = event
  while (inner._tag === "ChildEvent") {
    path.push(inner.callId)
    inner = inner.event
  }
  if (inner._tag !== "ApprovalDecided") {
    return Result.fail({
      _tag: "Unexpected",
      expected: "no event of a call while an answer is in progress",
      found: inner._tag
    })
  }
  const { approved, callId, reason } = inner
  const isMeant = (request: ApprovalRequest) => request.callId === callId && samePath(request.path ?? [], path)
  if (!self.requests.some(isMeant)) {
    return Result.fail({ _tag: "UnknownCall", callId, open: self.requests.map(({ callId }) => callId) })
  }
  return Result.succeed({
    ...self,
    requests: self.requests.filter((request) => !isMeant(request)),
    decisions: [...self.decisions, { callId, approved, path, ...(reason === undefined ? undefined : { reason }) }]
  })
}
