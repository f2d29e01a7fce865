/**
 * The tools of an MCP server for an agent.
 *
 * `server.ts` is a process that speaks MCP over its standard streams. Here `McpTools.layer` starts it, checks the tools that
 * it lists, and offers them to an agent. A call asks for an approval unless this program has reviewed its tool.
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Console, Effect, Layer, Stream } from "effect"
import { ChildProcess } from "effect/process"
import { Agent, AgentEvent, Run } from "effect-emissary"
import { McpTools } from "effect-emissary/mcp"
import { Json } from "effect-emissary/payload"
import { ScriptedModel } from "effect-emissary/testing"
import { fileURLToPath } from "node:url"

const reviewed = new Set(["shop/find_order", "shop/advise"])

const Servers = McpTools.layer({
  shop: {
    command: ChildProcess.make(process.execPath, [fileURLToPath(new URL("server.ts", import.meta.url))]),
    approval: ({ name }) => !reviewed.has(name)
  }
}).pipe(Layer.provide(NodeServices.layer))

class Clerk extends Agent.Service<Clerk>()("clerk", {
  instructions: "You help the customers of a shop.",
  toolkit: McpTools.toolkit
}) {}

const ModelTest = ScriptedModel.layer([
  {
    toolCalls: [
      { name: "shop/find_order", params: { id: "42" } },
      { name: "shop/find_order", params: { number: 42 } },
      { name: "shop/advise", params: { input: "Can order 42 be paid back?" } }
    ]
  },
  { toolCalls: [{ name: "shop/refund", params: { id: "42" } }], expect: { toolResult: "below 30 EUR" } },
  { text: "You have your 25 EUR back.", expect: { toolResult: "order 42 is paid back" } }
])

const print = (event: AgentEvent.AgentEvent<unknown>): Effect.Effect<void> => {
  switch (event._tag) {
    case "ToolProgress":
      return Console.log(`  ${event.name}: ${JSON.stringify(event.result.value)}`)
    case "ToolFinished":
      return Console.log(
        `${event.name} -> ${event.result._tag === "Success" ? JSON.stringify(event.result.value) : event.result.type}`
      )
    case "ApprovalRequested":
      return Console.log(`May ${event.request.name} run with ${Json.show(event.request.arguments)}? Yes.`)
    case "RunFinished":
      return event.result.outcome === "Completed" ? Console.log(event.result.output) : Effect.void
    default:
      return Effect.void
  }
}

const program = Effect.gen(function* () {
  const tools = yield* McpTools.toolkit
  yield* Console.log(`Tools: ${tools.map(({ name }) => name).join(", ")}`)
  const clerk = yield* Clerk
  const asked = yield* AgentEvent.result(Stream.tap(clerk.stream("I want my money back for order 42."), print))
  const decisions = Run.requests(asked.state).filter(Run.isApprovable).map(Run.approve)
  yield* Stream.runForEach(clerk.resumeStream(asked.state, { decisions }), print)
})

program.pipe(
  Effect.provide([Clerk.layer.pipe(Layer.provideMerge(Servers), Layer.provide(ModelTest))]),
  NodeRuntime.runMain
)
