/** What comes next: the first table of `RunTransition`. */
import * as Arr from "effect/Array"
import * as HashMap from "effect/HashMap"
import * as ToolResult from "../../../tool/ToolResult.ts"
import { stopReason } from "../../Outcome.ts"
import type { Purpose } from "../../RunEvent.ts"
import type { CallModel, Finished, RunAction, RunnableCall, Settlement } from "../../RunAction.ts"
import type { OpenCall, Progress, RunState } from "../../RunState.ts"
import * as states from "./state.ts"

const settlement = ({ part }: OpenCall, result: ToolResult.ToolResult): Settlement => ({
  callId: part.id,
  name: part.name,
  result
})

const lost = (call: OpenCall): Settlement =>
  settlement(call, ToolResult.failure("interrupted", "The call was interrupted before it gave a result."))

/** Calls that started and whose result is gone: all of them after an interruption, otherwise those that no child state continues. */
export const recover = (self: RunState): ReadonlyArray<Settlement> => {
  const settled: Array<Settlement> = []
  for (const call of states.inOrder(self.calls)) {
    if (call.status._tag !== "Started") continue
    if (self.interrupted !== undefined || call.status.child === undefined) settled.push(lost(call))
  }
  return settled
}

export const next = (self: RunState): RunAction => {
  if (self.outcome !== undefined) return { _tag: "Finished", outcome: self.outcome }
  if (self.interrupted !== undefined) {
    const settled = recover(self)
    return settled.length > 0
      ? { _tag: "RunTools", calls: [], settled }
      : { _tag: "Finished", outcome: { _tag: "Interrupted", ...self.interrupted } }
  }
  if (self.limited) return { _tag: "Finished", outcome: { _tag: "MaxSteps" } }
  if (self.progress !== undefined) return inProgress(self, self.progress)
  return HashMap.isEmpty(self.calls) ? afterAnswer(self) : openCalls(self)
}

/** What answers goes on as soon as one decision lets it. */
const inProgress = (self: RunState, { decisions }: Progress): RunAction => {
  const requests = states.approvalRequests(self)
  return decisions.length === 0 && Arr.isReadonlyArrayNonEmpty(requests)
    ? { _tag: "AwaitApproval", requests }
    : callModel(self, "answer")
}

const openCalls = (self: RunState): RunAction => {
  const calls: Array<RunnableCall> = []
  const settled: Array<Settlement> = []
  for (const call of states.inOrder(self.calls)) {
    const { part, status } = call
    switch (status._tag) {
      case "Requested":
      case "Approved":
        calls.push({ part, approved: status._tag === "Approved", started: false })
        break
      case "Settled":
        settled.push(settlement(call, status.result))
        break
      case "Started":
        if (status.child === undefined) settled.push(lost(call))
        else if (!waits(status.child)) calls.push({ part, approved: false, started: true, child: status.child })
        break
      case "AwaitingApproval":
        break
    }
  }
  const requests = states.approvalRequests(self)
  return calls.length === 0 && settled.length === 0 && Arr.isReadonlyArrayNonEmpty(requests)
    ? { _tag: "AwaitApproval", requests }
    : { _tag: "RunTools", calls, settled }
}

/** Whether a child ended because it needs decisions, and still has none it could go on with. */
const waits = (child: RunState): boolean =>
  child.outcome?._tag === "AwaitingApproval" &&
  next(states.make({ ...child, outcome: undefined, interrupted: undefined }))._tag === "AwaitApproval"

const afterAnswer = (self: RunState): CallModel | Finished => {
  const { answer } = self
  const purpose = self.structured === "always" ? "structured" : "answer"
  if (answer === undefined) return callModel(self, purpose)
  const finishReason = stopReason(answer.finishReason)
  if (finishReason !== undefined) return { _tag: "Finished", outcome: { _tag: "Stopped", finishReason } }
  const { output } = answer
  if (output?._tag === "Valid") return { _tag: "Finished", outcome: { _tag: "Completed", output: output.value } }
  if (answer.calls > 0 || answer.finishReason === "pause") return callModel(self, purpose)
  if (output === undefined) return { _tag: "Finished", outcome: { _tag: "Completed" } }
  if (withinBudget(self)) {
    if (answer.outputCall) return callModel(self, purpose)
    if (self.structured === "fallback" && answer.purpose === "answer") return callModel(self, "structured")
  }
  return { _tag: "Finished", outcome: { _tag: "InvalidOutput", issues: output.issues } }
}

export const withinBudget = (self: Pick<RunState, "maxSteps" | "steps">): boolean =>
  self.maxSteps === "unlimited" || self.steps < self.maxSteps

const callModel = (self: RunState, purpose: Purpose): CallModel => ({
  _tag: "CallModel",
  step: self.steps + 1,
  purpose,
  first: self.fresh,
  mistakes: self.mistakes
})
