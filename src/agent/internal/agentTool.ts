/** The mark that makes a tool an agent. */
import type * as Tool from "effect/ai/Tool"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type { Agent } from "../Agent.ts"

interface AgentBehind {
  /** The tool as it is offered and described. */
  readonly tool: Tool.Any
  /** Its body where no driver takes over, on a server of tools for example. */
  readonly handler: Tool.Handler<string>
  /** Whatever the agent requires is required by the run of the agent that has the tool. */
  readonly agent: Effect.Effect<Agent<unknown>>
}

export class BehindTool extends Context.Service<BehindTool, AgentBehind>()(
  "effect-emissary/agent/internal/BehindTool"
) {}

export const agentOf = (tool: Tool.Any): Option.Option<AgentBehind> => Context.getOption(tool.annotations, BehindTool)
