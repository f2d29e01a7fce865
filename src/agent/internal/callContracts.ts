/** The contracts of called tools, as a run keeps them. */

import * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/values.ts"
import type * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type * as ToolContract from "../../tool/ToolContract.ts"
import type * as toolCall from "../../tool/internal/toolCall.ts"
import type * as agentParts from "./agentParts.ts"

/** The digest of a contract. An approval of a call of an agent is about that agent, so its definition counts, too. */
export const digestOf = ({ agents }: agentParts.ModelAgent, { digest, name }: ToolContract.ToolContract): string => {
  const definition = agents.get(name)
  return definition === undefined ? digest : `${digest} ${definition}`
}

/** A contract as a run keeps it. */
const keptOf = (agent: agentParts.ModelAgent, contract: ToolContract.ToolContract): runParts.CallContract => {
  const { annotations, approval, client, failure, name, parameters, success } = contract
  const digest = digestOf(agent, contract)
  return { name, parameters, ...defined({ success, failure }), approval, ...defined({ client }), annotations, digest }
}

/** The contract of a tool that the agent runs itself or asks for. */
const calledContract = ({ tools }: agentParts.ModelAgent, name: string): ToolContract.ToolContract | undefined => {
  const tool = tools.tools.get(name)
  return tool === undefined || tool.kind === "provider" ? undefined : tool.contract
}

export const contractOf = (agent: agentParts.ModelAgent, name: string): runParts.CallContract | undefined => {
  const contract = calledContract(agent, name)
  return contract && keptOf(agent, contract)
}

/** The contracts of called tools that the run does not have yet. */
export const newContracts = (
  agent: agentParts.ModelAgent,
  state: runParts.State,
  message: Message.AssistantMessage
) => {
  const names = new Set(Message.toolCalls(message).map(({ name }) => name))
  const contracts = Array.from(names).flatMap((name) => {
    const contract = name === agent.outputTool ? undefined : calledContract(agent, name)
    return contract === undefined || digestOf(agent, contract) === runTransition.newestContract(state, name)?.digest
      ? []
      : [keptOf(agent, contract)]
  })
  return contracts.length === 0 ? undefined : contracts
}

/** The contract of a call that is another one than the run has for it. */
export const changedContract = (
  agent: agentParts.ModelAgent,
  state: runParts.State,
  { contract, id }: toolCall.BoundCall
): { readonly contract?: runParts.CallContract } =>
  runTransition.openCall(state, id)?.contract === digestOf(agent, contract) ? {} : { contract: keptOf(agent, contract) }
