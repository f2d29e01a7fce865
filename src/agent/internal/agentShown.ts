/** The events of a run as those who watch it receive them. */

import * as Duration from "effect/Duration"
import type * as liveRun from "../../run/internal/liveRun.ts"
import { defined } from "../../payload/internal/values.ts"
import * as handoffs from "../../run/internal/handoffs.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import type * as agentTypes from "./agentTypes.ts"

/** A child emits its own events, as `Child`. */
export const viewsOf = (
  before: runParts.State,
  event: runParts.Event,
  state: runParts.State
): ReadonlyArray<agentTypes.AgentEvent<unknown>> =>
  event._tag === "ChildEvent" && !runParts.isDecision(event) ? [] : [viewOf(before, event, state)]

const viewOf = (
  before: runParts.State,
  event: runParts.Event,
  state: runParts.State
): agentTypes.AgentEvent<unknown> => {
  switch (event._tag) {
    case "RunStarted":
    case "RunResumed": {
      const { agent, runId } = state
      return { _tag: "RunStarted", runId, agent, resumed: event._tag === "RunResumed", state }
    }
    case "StepStarted":
      return { _tag: "StepStarted", step: event.step, purpose: event.purpose, state }
    case "ModelAnswered": {
      const { message } = event
      const usage = message.usage ?? {}
      return { _tag: "StepFinished", step: state.steps, message, usage, total: state.usage, state }
    }
    case "StepRetried": {
      const { attempt, error, model, pauseMillis } = event
      const pause = Duration.millis(pauseMillis)
      return { _tag: "StepRetried", step: state.steps + 1, attempt, error, pause, ...defined({ model }), state }
    }
    case "ToolStarted":
      return { _tag: "ToolStarted", ...callOf(state, event.callId), state }
    case "ToolFinished": {
      const { asked, durationMillis = 0, message } = event
      const { callId, name, result } = message
      const duration = Duration.millis(durationMillis)
      return { _tag: "ToolFinished", callId, name, result, duration, ...(asked && { asked }), state }
    }
    case "ApprovalRequested": {
      const { arguments: args, ask, bounds, callId, digest } = event
      const { name = event.name } = defined({ name: callOf(before, callId).name || undefined })
      const request = runRequests.requestOf({ callId, name, arguments: args, ask, bounds, digest })
      return { _tag: "ApprovalRequested", request, state }
    }
    case "HandedOff":
      return { _tag: "HandedOff", from: handoffs.activeAgent(before), to: event.agent, state }
    case "GuardDecided":
      return event.held === undefined
        ? { _tag: "StateChanged", event, state }
        : { _tag: "ApprovalRequested", request: runParts.heldRequest(event.held), state }
    default:
      return { _tag: "StateChanged", event, state }
  }
}

const callOf = ({ calls }: runParts.State, callId: string) => {
  const { arguments: args = null, name = "" } = calls.find(({ part }) => part.id === callId)?.part ?? {}
  return { callId, name, arguments: args }
}

/** Two deltas of one part of a message as one. */
export const joinDeltas: liveRun.Join<agentTypes.AgentEvent<unknown>> = (before, next) => {
  if ("delta" in next && "delta" in before && next._tag === before._tag) {
    const isSame = next.index === before.index && next.messageId === before.messageId
    return isSame ? { ...next, delta: before.delta + next.delta } : undefined
  }
  if (next._tag !== "Child" || before._tag !== "Child" || next.callId !== before.callId) return undefined
  const event = joinDeltas(before.event, next.event)
  return event && { ...next, event }
}
