/** Agents as tools: the agent behind a tool, the handoff that a call makes, and the result of the run of an agent as the result of a call. */

import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Tool from "effect/ai/Tool"
import type * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import type { HandoffTerms } from "../../run/internal/runValues.ts"
import type * as AgentError from "../AgentError.ts"
import type * as agentTypes from "./agentTypes.ts"

interface AgentBehind {
  /** Whatever the agent requires is required by the run of the agent that has the tool. */
  readonly agent: Effect.Effect<agentTypes.Agent<unknown>>
  /** Its definition, if it has one before it is found. What that requires is in the type of the tool. */
  readonly define: agentTypes.HasDefinition<never>[agentTypes.DefinedTypeId] | undefined
}

export class BehindTool extends Context.Service<BehindTool, AgentBehind>()(
  "effect-emissary/agent/internal/BehindTool"
) {}

/** A tool whose call passes the conversation on. Without an agent of its own, the agent is found by its name. */
interface HandoffBehind extends Partial<AgentBehind> {
  readonly terms: HandoffTerms
}

export class HandoffTool extends Context.Service<HandoffTool, HandoffBehind>()(
  "effect-emissary/agent/internal/HandoffTool"
) {}

/** The tool that an agent, or a handoff to an agent, is in a definition. */
export const bindAgent = (
  contract: ToolContract.ToolContract,
  annotations: Context.Context<never>
): Effect.Effect<boundTool.BoundTool, ToolContract.ToolContractError> =>
  Effect.map(boundTool.makeStub(contract), (stub) => ({
    ...stub,
    kind: "local",
    tool: Object.assign(stub.tool, { annotations: Context.merge(stub.tool.annotations, annotations) }),
    body: Option.some(() => Effect.succeed(outsideOfRun(contract.name)))
  }))

/** The result of a call that only the run of an agent can make. */
export const outsideOfRun = (tool: string): ToolResult.Failure =>
  ToolResult.failure("execution_error", `The run of an agent makes the calls of ${JSON.stringify(tool)} itself.`)

/** The handoff that a call of a tool makes, if it makes one. */
export const handoffOf = (tool: Tool.Any): HandoffBehind | undefined =>
  Option.getOrUndefined(Context.getOption(tool.annotations, HandoffTool))

/** The agent that a tool is, if it is one. */
export const agentOf = (tool: Tool.Any): AgentBehind | undefined =>
  Option.getOrUndefined(Context.getOption(tool.annotations, BehindTool))

const noAnswer = (agent: string, why: string) => `The agent ${JSON.stringify(agent)} returned no answer: ${why}`

/** The tool result of an agent's run. */
export const toToolResult = (agent: string, result: agentTypes.Result<unknown>): ToolResult.ToolResult => {
  const { outcome } = result
  if (outcome === "AwaitingApproval") {
    const why = "it asks for approvals, and only the run of an agent can wait for them"
    return ToolResult.failure("execution_error", noAnswer(agent, why), { outcome })
  }
  if (outcome !== "Completed") return ToolResult.failure("execution_error", noAnswer(agent, outcome), { outcome })
  const ended = result.state.outcome
  const output = ended?._tag === "Completed" ? ended.output : undefined
  return ToolResult.success(output === undefined ? result.text : output)
}

/** The tool result of an agent that failed: its kind of failure, without text of its conversation. */
export const failureResult = (agent: string, { message, reason }: AgentError.AgentError): ToolResult.Failure => {
  // The failure of an answer that comes from no model names its own problem.
  const problem = reason._tag === "DelegateFailed" ? noAnswer(agent, reason.problem ?? reason.error) : message
  return ToolResult.failure("execution_error", problem, { reason: reason._tag })
}
