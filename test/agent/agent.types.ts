/** AGENT-1: what is inferred of agents. Compiled, never run. */
import { Context, Effect, Layer, Schema, type Stream } from "effect"
import { type LanguageModel, McpClient, Tool, Toolkit } from "effect/ai"
import {
  Agent,
  Run,
  ToolFailure,
  type AgentDefinition,
  type AgentError,
  type AgentEvent,
  type ModelRegistry,
  type PayloadError,
  type ToolResolver
} from "effect-emissary"
import type { Session } from "effect-emissary/session"
import { expectTypeOf } from "vitest"

class Db extends Context.Service<Db, { readonly url: string }>()("types/Db") {}
class Mail extends Context.Service<Mail, { readonly from: string }>()("types/Mail") {}

const Get = Tool.make("get", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
const Put = Tool.make("put", { success: Schema.String, failure: ToolFailure, dependencies: [Db] })
const toolkit = Toolkit.make(Get, Put)

type Model = LanguageModel.LanguageModel
type Registry = ModelRegistry.ModelRegistry
type Both = Tool.Handler<"get"> | Tool.Handler<"put"> | Db

type ServicesOf<A> = A extends Agent.Agent<infer _, infer R> ? R : never
type ServicesOfAny<A> = A extends Agent.Agent<infer _, infer R, never> ? R : never
type DefinitionServicesOf<A> = A extends Agent.HasDefinition<infer R> ? R : never

// A toolkit, a list, or an Effect of either
const fromToolkit = Agent.make("a", { toolkit })
expectTypeOf<ServicesOf<typeof fromToolkit>>().toEqualTypeOf<Model | Both>()
const fromList = Agent.make("a", { toolkit: [Get, Put] })
expectTypeOf<ServicesOf<typeof fromList>>().toEqualTypeOf<Model | Both>()
const fromEffect = Agent.make("a", { toolkit: Effect.map(Mail, () => toolkit) })
expectTypeOf<ServicesOf<typeof fromEffect>>().toEqualTypeOf<Model | Both | Mail>()
const fromListEffect = Agent.make("a", { toolkit: Effect.map(Mail, () => [Get]) })
expectTypeOf<ServicesOf<typeof fromListEffect>>().toEqualTypeOf<Model | Tool.Handler<"get"> | Mail>()
declare const ready: Effect.Success<typeof toolkit>
const fromReady = Agent.make("a", { toolkit: ready })
expectTypeOf<ServicesOf<typeof fromReady>>().toEqualTypeOf<Model | Db>()
const bare = Agent.make("a", {})
expectTypeOf<ServicesOf<typeof bare>>().toEqualTypeOf<Model>()
const none = Agent.make("a", { toolkit: [] })
expectTypeOf<ServicesOf<typeof none>>().toEqualTypeOf<Model>()
const emptyToolkit = Agent.make("a", { toolkit: Toolkit.empty })
expectTypeOf<ServicesOf<typeof emptyToolkit>>().toEqualTypeOf<Model>()

// A named model needs the registry, no name needs the model: nothing in between
const named = Agent.make("a", { model: "openai/gpt-5.2" })
expectTypeOf<ServicesOf<typeof named>>().toEqualTypeOf<Registry>()
const chosen = Agent.make("a", { model: Effect.map(Mail, () => "openai/gpt-5.2") })
expectTypeOf<ServicesOf<typeof chosen>>().toEqualTypeOf<Registry | Mail>()

// Instructions
const told = Agent.make("a", { instructions: Effect.map(Db, ({ url }) => url) })
expectTypeOf<ServicesOf<typeof told>>().toEqualTypeOf<Model | Db>()

// A definition requires what the Effects require, never handlers, model or registry
expectTypeOf<DefinitionServicesOf<typeof fromToolkit>>().toEqualTypeOf<never>()
expectTypeOf<DefinitionServicesOf<typeof fromEffect>>().toEqualTypeOf<Mail>()
expectTypeOf<DefinitionServicesOf<typeof chosen>>().toEqualTypeOf<Mail>()
expectTypeOf<DefinitionServicesOf<typeof told>>().toEqualTypeOf<Db>()
expectTypeOf(Agent.definition(told)).toEqualTypeOf<
  Effect.Effect<AgentDefinition.AgentDefinition, AgentError.AgentError, Db>
>()

// Outputs
expectTypeOf(bare.ask("x")).toEqualTypeOf<
  Effect.Effect<string, AgentError.AgentError | AgentError.RunIncomplete, Model>
>()
const dated = Agent.make("a", { output: Schema.Struct({ at: Schema.DateTimeUtcFromString }) })
type Dated = Schema.Struct<{ readonly at: typeof Schema.DateTimeUtcFromString }>["Type"]
expectTypeOf<Effect.Success<ReturnType<typeof dated.run>>>().toEqualTypeOf<Agent.Result<Dated>>()
expectTypeOf<Stream.Success<ReturnType<typeof dated.stream>>>().toEqualTypeOf<AgentEvent.AgentEvent<Dated>>()
expectTypeOf<Effect.Error<ReturnType<typeof dated.run>>>().toEqualTypeOf<AgentError.AgentError>()

// The services of the output's Schema
declare const needy: Schema.Codec<number, string, Mail>
const decoding = Agent.make("a", { output: needy })
expectTypeOf<ServicesOf<typeof decoding>>().toEqualTypeOf<Model | Mail>()

// `output` is there when the run completed, and only then
declare const result: Agent.Result<Dated>
if (result.outcome === "Completed") expectTypeOf(result.output).toEqualTypeOf<Dated>()
// @ts-expect-error no output before the outcome is known
void result.output

// The class form: the agent's key, its layer, and what the layer requires
class Support extends Agent.Service<Support>()("support", { toolkit, instructions: Effect.map(Mail, () => "x") }) {}
expectTypeOf(Support.layer).toEqualTypeOf<
  Layer.Layer<Support, AgentError.AgentError, Model | Both | Mail | Agent.NoServiceOfCall<Db>>
>()
expectTypeOf(Support.key).toEqualTypeOf<"effect-emissary/Agent/support">()
expectTypeOf(Effect.flatMap(Support, (support) => support.ask("x"))).toEqualTypeOf<
  Effect.Effect<string, AgentError.AgentError | AgentError.RunIncomplete, Support>
>()
expectTypeOf<DefinitionServicesOf<typeof Support>>().toEqualTypeOf<Mail>()

// Agents as tools: whatever running the agent requires
const tool = Agent.asTool(fromToolkit, { name: "delegate", description: "d" })
expectTypeOf(tool).toEqualTypeOf<Agent.AgentTool<"delegate", Model | Both> & Agent.RequiresForCalls<Db>>()
const delegating = Agent.make("a", { toolkit: [tool, Get], model: "p/m" })
expectTypeOf<ServicesOf<typeof delegating>>().toEqualTypeOf<Registry | Model | Both>()
const inToolkit = Agent.make("a", { toolkit: Toolkit.make(tool) })
expectTypeOf<ServicesOf<typeof inToolkit>>().toEqualTypeOf<Model | Both>()
const serviceTool = Agent.asTool(Support, { name: "support", description: "d" })
expectTypeOf(serviceTool).toEqualTypeOf<Agent.AgentTool<"support", Support, Mail> & Agent.RequiresForCalls<never>>()
const asking = Agent.make("a", { toolkit: [serviceTool] })
expectTypeOf<ServicesOf<typeof asking>>().toEqualTypeOf<Model | Support>()
// Its definition is part of the other's, and requires what that requires
expectTypeOf<DefinitionServicesOf<typeof asking>>().toEqualTypeOf<Mail>()
expectTypeOf<DefinitionServicesOf<typeof inToolkit>>().toEqualTypeOf<never>()

// MCP-1: tools of an MCP server as `effect/ai` finds them
declare const client: McpClient.McpClient
declare const found: Effect.Success<ReturnType<typeof McpClient.toolkit>>
const fromMcp = Agent.make("a", { toolkit: found })
expectTypeOf<ServicesOf<typeof fromMcp>>().toEqualTypeOf<Model>()
const fromMcpEachRun = Agent.make("a", { toolkit: McpClient.toolkit(client, "demo__") })
expectTypeOf<ServicesOf<typeof fromMcpEachRun>>().toEqualTypeOf<Model>()
const fromMcpService = Agent.make("a", { toolkit: Effect.flatMap(McpClient.McpClient, McpClient.toolkit) })
expectTypeOf<ServicesOf<typeof fromMcpService>>().toEqualTypeOf<Model | McpClient.McpClient>()

// An agent that came as data needs a resolver and a registry, and then nothing
expectTypeOf<Effect.Services<ReturnType<typeof Agent.decode>>>().toEqualTypeOf<
  ToolResolver.ToolResolver | ModelRegistry.ModelRegistry
>()
expectTypeOf<Effect.Error<ReturnType<typeof Agent.decode>>>().toEqualTypeOf<
  PayloadError.PayloadError | ToolResolver.BindError | AgentError.AgentError
>()
expectTypeOf<Effect.Success<ReturnType<typeof Agent.bind>>>().toExtend<Agent.Agent<Schema.Json>>()

// HOUSE-4: approvals are of requests that yes or no decides
declare const requests: ReadonlyArray<Run.Request>
declare const shown: Session.State["requests"]
expectTypeOf(requests.filter(Run.isApprovable).map(Run.approve)).toEqualTypeOf<Array<Run.Decision>>()
expectTypeOf(shown.filter(Run.isApprovable).map(Run.approve)).toEqualTypeOf<Array<Run.Decision>>()
expectTypeOf(requests.map(Run.deny)).toEqualTypeOf<Array<Run.Decision>>()
// @ts-expect-error a question has an answer
requests.map(Run.approve)

// One shape for the end of a run and of a turn
expectTypeOf<Session.Answer["outcome"]>().toEqualTypeOf<Agent.Result<string>["outcome"]>()
expectTypeOf<
  Extract<Session.Answer, { readonly outcome: "AwaitingApproval" }>["requests"][0]
>().toEqualTypeOf<Run.Request>()
expectTypeOf<AgentError.RunIncomplete["result"]>().toEqualTypeOf<
  Exclude<Agent.Result<never>, { readonly outcome: "Completed" }>
>()

// PEOPLE-4: an agent that declares a context requires it for each fresh run
const Tenant = Schema.Struct({ tenant: Schema.String, since: Schema.optionalKey(Schema.DateTimeUtcFromString) })
const tenanted = Agent.make("a", { context: Tenant, toolkit: [Get] })
expectTypeOf<ServicesOfAny<typeof tenanted>>().toEqualTypeOf<Model | Tool.Handler<"get">>()
class Tenanted extends Agent.Service<Tenanted>()("tenanted", { context: Tenant }) {}
declare const one: Effect.Success<typeof Tenanted>
const acme = { context: { tenant: "acme", since: "2026-01-01T00:00:00Z" } }
for (const agent of [tenanted, one]) {
  void [agent.run("x", acme), agent.ask(undefined, acme), agent.stream("x", { ...acme, maxSteps: 1 })]
  // @ts-expect-error the tenant is forgotten
  void agent.run("x")
  // @ts-expect-error the tenant is forgotten
  void agent.ask("x", { maxSteps: 1 })
  // @ts-expect-error the tenant is forgotten
  void agent.stream("x", {})
  // @ts-expect-error the tenant is a text
  void agent.run("x", { context: { tenant: 1 } })
  // @ts-expect-error the context is the encoded form
  void agent.run("x", { context: { tenant: "acme", since: new Date() } })
}
expectTypeOf<Agent.ContextIn<Parameters<typeof tenanted.run>>>().toExtend<(typeof Tenant)["Encoded"]>()
expectTypeOf<(typeof Tenant)["Encoded"]>().toExtend<Agent.ContextIn<Parameters<typeof tenanted.run>>>()
// `never` is any agent, and an agent that needs a context is no agent without one
expectTypeOf<typeof tenanted>().toExtend<Agent.Agent<string, unknown, never>>()
expectTypeOf<typeof bare>().toExtend<Agent.Agent<string, unknown, never>>()
expectTypeOf<typeof tenanted>().not.toExtend<Agent.Agent<string, unknown>>()
// @ts-expect-error the encoded form of a context is a JSON object
void Agent.make("a", { context: Schema.String })

// An agent that is a tool has the context of the agent that calls it
const tenantTools = [
  Agent.asTool(tenanted, { name: "value", description: "d" }),
  Agent.asTool(Tenanted, { name: "service", description: "d" })
]
expectTypeOf(tenantTools[0]).toExtend<
  Agent.AgentTool<"value" | "service", unknown, unknown, { readonly tenant: string }> | undefined
>()
void Agent.make("a", { context: Tenant, toolkit: tenantTools })
void Agent.make("a", { context: Schema.Struct({ tenant: Schema.String, user: Schema.String }), toolkit: tenantTools })
// @ts-expect-error the agent around declares no context
void Agent.make("a", { toolkit: tenantTools })
// @ts-expect-error the agent around declares another one
void Agent.make("a", { toolkit: Toolkit.make(...tenantTools), context: Schema.Struct({ user: Schema.String }) })
// @ts-expect-error an agent of a service, too
void Agent.Service<"b">()("b", { toolkit: tenantTools, context: Schema.Struct({ tenant: Schema.Int }) })
// @ts-expect-error an Effect that finds the tools, too
void Agent.make("a", { toolkit: Effect.succeed(tenantTools) })

// PEOPLE-4: a service that a tool requires for each call is the service of the caller, and a layer refuses the tool
void Effect.provideService(fromToolkit.ask("x"), Db, { url: "of the request" })
class OfLayer extends Agent.Service<OfLayer>()("of-layer", { toolkit: [Put] }) {}
declare const withDb: Layer.Layer<Model | Db | Tool.Handler<"put">>
expectTypeOf(Layer.provide(OfLayer.layer, withDb)).toEqualTypeOf<
  Layer.Layer<OfLayer, AgentError.AgentError, Agent.NoServiceOfCall<Db>>
>()
const askOfLayer = Effect.flatMap(OfLayer, (agent) => agent.ask("x"))
// @ts-expect-error the Db of the layer would be the Db of all calls
// @effect-diagnostics-next-line missingEffectContext:off
void Effect.runPromise(Effect.provide(askOfLayer, Layer.provide(OfLayer.layer, withDb)))
class Behind extends Agent.Service<Behind>()("behind", { toolkit: Effect.succeed([tool]) }) {}
expectTypeOf(Behind.layer).toEqualTypeOf<
  Layer.Layer<Behind, AgentError.AgentError, Model | Both | Agent.NoServiceOfCall<Db>>
>()
class Clean extends Agent.Service<Clean>()("clean", { toolkit: [Get] }) {}
expectTypeOf(Clean.layer).toEqualTypeOf<Layer.Layer<Clean, AgentError.AgentError, Model | Tool.Handler<"get">>>()

// @ts-expect-error an agent is made of tools, not of their names
Agent.make("a", { toolkit: ["get"] })
// @ts-expect-error instructions are text
Agent.make("a", { instructions: Effect.succeed(1) })
// @ts-expect-error there is no such option
Agent.make("a", { tools: [Get] })
// A service without a model, handlers and the services of its tools is not complete
expectTypeOf(Support.layer).not.toExtend<Layer.Layer<Support, AgentError.AgentError>>()
