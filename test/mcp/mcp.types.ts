/** MCP-1 MCP-2: the services of servers and of agents with their tools. Compiled, never run. */
import { Context, Effect, type Layer, type Redacted, Schema } from "effect"
import { type LanguageModel, type McpServer, Tool, Toolkit } from "effect/ai"
import type { HttpClient } from "effect/http"
import type { ChildProcess, ChildProcessSpawner } from "effect/process"
import { Agent, type ToolContract, ToolResolver } from "effect-emissary"
import { McpTools, type McpToolServer } from "effect-emissary/mcp"
import { expectTypeOf } from "vitest"

declare const command: ChildProcess.Command
declare const token: Redacted.Redacted<string>

class Db extends Context.Service<Db, { readonly url: string }>()("types/Db") {}

type ServicesOf<A> = A extends Agent.Agent<infer _, infer R> ? R : never
type Model = LanguageModel.LanguageModel
type Spawner = ChildProcessSpawner.ChildProcessSpawner
type Http = HttpClient.HttpClient

// A layer requires what its servers need
expectTypeOf(McpTools.layer({ a: { command } })).toEqualTypeOf<
  Layer.Layer<McpTools.McpTools, McpTools.McpToolsError, Spawner>
>()
expectTypeOf(McpTools.layer({ a: { url: "https://example.com", headers: { authorization: token } } })).toEqualTypeOf<
  Layer.Layer<McpTools.McpTools, McpTools.McpToolsError, Http>
>()
expectTypeOf(McpTools.layer({ a: { command, approval: "never" }, b: { url: "https://example.com" } })).toEqualTypeOf<
  Layer.Layer<McpTools.McpTools, McpTools.McpToolsError, Spawner | Http>
>()

// An agent needs the servers and no handlers
const agent = Agent.make("a", { toolkit: McpTools.toolkit })
expectTypeOf<ServicesOf<typeof agent>>().toEqualTypeOf<Model | McpTools.McpTools>()

// Tools of servers beside others
const Get = Tool.make("get", { success: Schema.String, dependencies: [Db] })
const both = Agent.make("a", { toolkit: Effect.map(McpTools.toolkit, (tools) => [...tools, Get]) })
expectTypeOf<ServicesOf<typeof both>>().toEqualTypeOf<Model | McpTools.McpTools | Tool.Handler<"get"> | Db>()

// A Toolkit takes them, so that definitions bind to them
declare const tools: ReadonlyArray<McpTools.McpTool>
expectTypeOf(ToolResolver.layerToolkit(Toolkit.make(...tools))).toEqualTypeOf<
  Layer.Layer<ToolResolver.ToolResolver, ToolContract.ToolContractError>
>()

// A server requires the handlers, and what running its agents requires. PEOPLE-4: it refuses a service of each call
const inner = Agent.make("inner", { toolkit: [Get] })
const served = Toolkit.make(Get, Agent.asTool(inner, { name: "inner", description: "d" }))
expectTypeOf<Layer.Services<ReturnType<typeof McpToolServer.layer<(typeof served)["tools"]>>>>().toEqualTypeOf<
  McpServer.McpServer | Tool.Handler<"get"> | Db | Model | Agent.NoServiceOfCall<Db>
>()

// @ts-expect-error a server has a place
McpTools.layer({ a: { approval: "never" } })
// @ts-expect-error an approval is one of the names or a function
McpTools.layer({ a: { command, approval: "sometimes" } })
