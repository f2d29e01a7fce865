import { Effect, type Schema } from "effect"
import { Agent, Conversation, type ToolResult } from "effect-emissary"
import { McpTools } from "effect-emissary/mcp"
import { ScriptedModel } from "effect-emissary/testing"
import { call } from "../agent/fixtures.ts"

/** An agent with the tools of all servers. */
export const agent = Agent.make("a", { toolkit: McpTools.toolkit })

/** The results in a conversation, in order. */
export const results = (conversation: Conversation.Conversation): ReadonlyArray<ToolResult.ToolResult> =>
  Conversation.messages(conversation).flatMap((message) => (message.role === "tool" ? [message.result] : []))

type Call = readonly [name: string, args?: Record<string, Schema.Json>]

/** A model that makes these calls, one after another, then answers. */
export const calling = (...calls: ReadonlyArray<Call>) =>
  ScriptedModel.layer([
    ...calls.map(([name, args = {}], index) => ({ toolCalls: [call(`c${index}`, `demo/${name}`, args)] })),
    { text: "done" }
  ])

/** The results of these calls in one run. */
export const runCalls = (...calls: ReadonlyArray<Call>) =>
  agent.run("Go").pipe(
    Effect.map(({ conversation }) => results(conversation)),
    Effect.provide(calling(...calls))
  )

/** The value of a result. */
export const valueOf = (result: ToolResult.ToolResult | undefined): Schema.Json | undefined => result?.value

/** The type of a failure. */
export const typeOf = (result: ToolResult.ToolResult | undefined): string | undefined =>
  result?._tag === "Failure" ? result.type : result?._tag
