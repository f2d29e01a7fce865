/** An MCP server: two tools and an agent. `main.ts` starts it as a process. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeStdio from "@effect/platform-node/NodeStdio"
import { Effect, Layer, Logger, Schema } from "effect"
import { McpProtocol, McpServer, Tool, Toolkit } from "effect/ai"
import { Agent, ToolFailure } from "effect-emissary"
import { McpToolServer } from "effect-emissary/mcp"
import { ScriptedModel } from "effect-emissary/testing"

const FindOrder = Tool.make("find_order", {
  description: "Finds an order",
  parameters: Schema.Struct({ id: Schema.String }),
  success: Schema.Struct({ id: Schema.String, total: Schema.Finite }),
  failure: ToolFailure
}).annotate(Tool.Readonly, true)

const Refund = Tool.make("refund", {
  description: "Pays an order back",
  parameters: Schema.Struct({ id: Schema.String }),
  success: Schema.String
})

// An agent of the server with a model of its own. Its steps are progress for the client.
const Advisor = Agent.make("advisor", { instructions: "You know the rules of the shop.", toolkit: [FindOrder] })

const tools = Toolkit.make(
  FindOrder,
  Refund,
  Agent.asTool(Advisor, { name: "advise", description: "Knows whether an order can be paid back" })
)

const ToolsLive = tools.toLayer({
  find_order: ({ id }) => (id === "42" ? Effect.succeed({ id, total: 25 }) : ToolFailure.error(`no order ${id}`)),
  refund: ({ id }) => Effect.succeed(`order ${id} is paid back`)
})

const ModelTest = ScriptedModel.layer([
  { toolCalls: [{ name: "find_order", params: { id: "42" } }] },
  { text: "Yes: it is below 30 EUR." }
])

McpServer.layerStdio({
  name: "shop",
  version: "1.0.0",
  protocols: [McpProtocol.v2025_11_25],
  registrations: McpToolServer.layer(tools)
}).pipe(
  Layer.provide([ToolsLive, ModelTest, NodeStdio.layer]),
  // The standard output belongs to the protocol
  Layer.provide(Layer.succeed(Logger.LogToStderr, true)),
  Layer.launch,
  NodeRuntime.runMain
)
