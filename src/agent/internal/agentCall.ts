/** A call of an agent that is a tool, in the run of the agent that calls it. */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Semaphore from "effect/Semaphore"
import { quote } from "../../payload/internal/base.ts"
import * as children from "../../run/internal/children.ts"
import * as handoffs from "../../run/internal/handoffs.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import type * as toolCall from "../../tool/internal/toolCall.ts"
import type * as AgentError from "../AgentError.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"
import * as agentRecorder from "./agentRecorder.ts"
import * as agentTool from "./agentTool.ts"
import type * as agentTypes from "./agentTypes.ts"
import * as insideRun from "./insideRun.ts"

/** Calls of a batch whose agents wait for decisions, and failures that end the run. */
export interface BatchEnd {
  suspended: Set<string> | undefined
  readonly fatal: Array<AgentError.AgentError>
}

/**
 * The handoffs of a batch: of the calls of one answer that pass the conversation on, the first one does, and the results of the others
 * name it.
 */
export const handoffsIn = (
  { tools }: agentParts.ModelAgent,
  state: runParts.State,
  calls: ReadonlyArray<toolCall.BoundCall>
) => {
  let first = handoffs.openHandoff(state)
  const taken = new Map<string, runParts.HandoffTerms>()
  const withHandoff = (call: toolCall.BoundCall): toolCall.BoundCall => {
    const tool = tools.tools.get(call.contract.name)
    const terms = tool && agentTool.handoffOf(tool.tool)?.terms
    if (terms === undefined) return call
    const before = first?.agent
    if (before === undefined) taken.set(call.id, terms)
    first ??= terms
    const result =
      before === undefined
        ? ToolResult.success(`${quote(terms.agent)} answers from here on.`)
        : ToolResult.failure("execution_error", `The first handoff of an answer counts, which was to ${quote(before)}.`)
    return { ...call, timeout: Duration.infinity, execute: Option.some(Effect.succeed(result)), delegates: true }
  }
  return { calls: calls.map(withHandoff), taken }
}

/** Calls of agents run as runs inside the run, so that their events and approvals are this run's. */
export const withChild = (
  { tools }: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  call: toolCall.BoundCall,
  child: runParts.State | undefined,
  end: BatchEnd
): toolCall.BoundCall => {
  const tool = tools.tools.get(call.contract.name)
  const behind = tool && agentTool.agentOf(tool.tool)
  if (behind === undefined) return call
  const oneAtATime = Semaphore.makeUnsafe(1)
  let last: ToolResult.ToolResult | undefined
  let attempts = 0
  // A wrapper may run it again: the agent then begins anew, unless it waits for decisions.
  const execute = Effect.flatMap(behind.agent, (agent) => {
    if (last !== undefined && end.suspended?.has(call.id) === true) return Effect.succeed(last)
    attempts += 1
    return Effect.map(callAgent(run, agent, call, attempts === 1 ? child : undefined, end), (result) => {
      last = result
      return result
    })
  })
  const body = Option.some(oneAtATime.withPermit(execute))
  return { ...call, timeout: Duration.infinity, execute: body, delegates: true }
}

/** Failures of an agent that the model of the agent around cannot mend. */
const endsTheRun: ReadonlySet<AgentError.Reason["_tag"]> = new Set(["ContextInvalid", "DefinitionChanged", "MaxDepth"])

const callAgent = (
  run: agentParts.ActiveRun,
  agent: agentTypes.Agent<unknown>,
  call: toolCall.BoundCall,
  child: runParts.State | undefined,
  end: BatchEnd
): Effect.Effect<ToolResult.ToolResult> => {
  const { recorder, runDeadline: deadline, streaming } = run
  const { context, contract, id: callId } = call
  const { input: text } = call.arguments
  const input = typeof text === "string" ? text : JSON.stringify(call.arguments)
  const parent: agentRecorder.Parent = children.inside(recorder, {
    event: (event: runParts.Event): runParts.Event => ({
      _tag: "ChildEvent",
      at: runParts.timeOf(event),
      callId,
      event: runParts.placed(event)
    }),
    view: (event: agentTypes.AgentEvent<unknown>): agentTypes.AgentEvent<unknown> => ({
      _tag: "Child",
      callId,
      name: contract.name,
      event,
      state: recorder.state
    }),
    stops: true
  })
  const options = insideRun.inherited(run.options)
  return insideRun.runInside(agent, { state: child, input, context, options, deadline, parent, streaming }).pipe(
    callContext.at(callId),
    Effect.flatMap((result) => {
      if (result.outcome === "AwaitingApproval") (end.suspended ??= new Set()).add(callId)
      // A child that was stopped is stopped with this run: the call is then interrupted, and has not failed.
      const isStopped = result.outcome === "Interrupted" && agentRecorder.mustWait(run)
      return isStopped ? agentRecorder.untilInterrupted : Effect.succeed(agentTool.toToolResult(agent.name, result))
    }),
    Effect.catch((error) => {
      if (endsTheRun.has(error.reason._tag)) end.fatal.push(error)
      const logged = telemetry.logUnexpected(
        `Agent ${JSON.stringify(agent.name)}, called as a tool, failed with ${error.reason._tag}`,
        agentReason.bottomOf(error)
      )
      return Effect.as(logged, agentTool.failureResult(agent.name, error))
    })
  )
}
