import { assert, describe } from "@effect/vitest"
import { Arbitrary, Context, Effect, Layer, Option, Schema, Stream } from "effect"
import { Toolkit } from "effect/ai"
import {
  Agent,
  AgentDefinition,
  Conversation,
  Limits,
  ModelRegistry,
  Run,
  RunContext,
  ToolContract,
  ToolResolver,
  ToolResult,
  ToolRuntime,
  type AgentError,
  type AgentEvent
} from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import type { ScriptedModel } from "effect-emissary/testing"

import { call, Delete, Echo, throughJson, toolResults, toolkit, world } from "./fixtures.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

class Facts extends Context.Service<Facts, { readonly topic: string }>()("test/Facts") {}

/** An agent of a generated tree. Each has a name of its own, and its instructions begin with it. */
interface Node {
  readonly dynamic: boolean
  readonly lazy: boolean
  readonly tools: ReadonlyArray<"echo" | "delete">
  readonly agents: ReadonlyArray<Node>
}

const NodeHead = Schema.Struct({
  dynamic: Schema.Boolean,
  lazy: Schema.Boolean,
  tools: Schema.Array(Schema.Literals(["echo", "delete"])).check(Schema.isMaxLength(2))
})

const nodes = (levels: number): Schema.Codec<Node, unknown> =>
  NodeHead.pipe(
    Schema.fieldsAssign({
      agents: Schema.Array(levels === 0 ? Schema.Never : Schema.suspend(() => nodes(levels - 1))).check(
        Schema.isMaxLength(levels === 0 ? 0 : 2)
      )
    })
  )

type Handlers = Layer.Success<ReturnType<typeof everywhere>>

const makeTree = (
  { agents, dynamic, lazy, tools }: Node,
  name = "root"
): Agent.Agent<string, Handlers> & Agent.HasDefinition<Facts> => {
  const own = [...new Set(tools)].map((tool) => (tool === "echo" ? Echo : Delete))
  const inner = agents.map((node, index) =>
    Agent.asTool(makeTree(node, `${name}.${index}`), { name: `ask_${index}`, description: `Asks agent ${index}` })
  )
  const all = [...own, ...inner]
  return Agent.make(name, {
    instructions: dynamic ? Effect.map(Facts, ({ topic }) => `${name} knows ${topic}.`) : `${name} knows nothing.`,
    toolkit: lazy ? Effect.map(Facts, () => all) : Effect.succeed(all),
    maxSteps: 5
  })
}

/** Calls every tool once, then repeats the results. */
const callsEverything: ScriptedModel.TurnFunction = ({ messages, tools }) => {
  const [system] = messages
  const results = messages.filter(({ role }) => role === "tool").map(({ text }) => text)
  if (results.length > 0 || tools.length === 0) return { text: `${system?.text} ${results.join()}` }
  return {
    usage: { inputTokens: 3, outputTokens: 1 },
    toolCalls: tools.map(({ name }) => call(`${name} of ${system?.text}`, name, paramsOf[name] ?? { input: "Go on" }))
  }
}

const paramsOf: { readonly [tool: string]: Schema.Json } = { echo: { text: "hi" }, delete: { path: "/a" } }

const facts = Layer.succeed(Facts, { topic: "tools" })

const everywhere = (script: ScriptedModel.Script) =>
  Layer.mergeAll(Layer.orDie(ToolResolver.layerToolkit(toolkit)), ModelRegistry.layer({}), facts).pipe(
    Layer.provideMerge(world(script))
  )

const rebuilt = <R>(agent: Agent.HasDefinition<R>) => Effect.flatMap(Agent.encodeJson(agent), Agent.decodeJson)

/** A runtime that executes the calls of stubs without their handlers. */
const elsewhere = ToolRuntime.layer({
  dispatch: (call, local) =>
    Option.isSome(call.execute)
      ? local
      : Effect.succeed(ToolResult.success(call.contract.name === "echo" ? "hi" : "deleted /a"))
})

/** The events of a run and of the runs inside it, without times and ids of runs. */
const traceOf = (event: AgentEvent.AgentEvent<unknown>): Schema.Json => {
  if (event._tag === "Child") return [event.name, event.callId, traceOf(event.event)]
  if (event._tag === "RunStarted") return [event._tag, event.agent, event.state.definition]
  if (event._tag === "ApprovalRequested") return [event._tag, event.request.callId, event.request.path?.join() ?? ""]
  if (event._tag !== "RunFinished") return event._tag
  const { conversation, outcome, usage } = event.result
  return [outcome, { ...usage }, JSON.stringify(Conversation.transcript(conversation))]
}

interface Runner {
  readonly begin: () => Stream.Stream<AgentEvent.AgentEvent<unknown>, AgentError.AgentError, Handlers>
  readonly resume: (
    state: Run.State,
    options: Agent.ResumeOptions
  ) => Stream.Stream<AgentEvent.AgentEvent<unknown>, AgentError.AgentError, Handlers>
}

/** The traces of all parts of a run that stops for approvals; the runners take turns. */
const runAll = Effect.fnUntraced(function* (...runners: ReadonlyArray<Runner>) {
  const traces: Array<Schema.Json> = []
  let state: Run.State | undefined
  let requests: Agent.ResumeOptions["decisions"] = []
  for (let part = 0; part < 40; part++) {
    const runner = runners[part % runners.length]
    assert(runner !== undefined)
    const events: ReadonlyArray<AgentEvent.AgentEvent<unknown>> = yield* Stream.runCollect(
      state === undefined ? runner.begin() : runner.resume(state, { decisions: requests })
    )
    traces.push(events.map(traceOf))
    const last = events.at(-1)
    assert(last?._tag === "RunFinished")
    const { result } = last
    state = yield* throughJson(result.state)
    if (result.outcome !== "AwaitingApproval") return { traces, outcome: result.outcome }
    requests = result.requests.filter(Run.isApprovable).map(Run.approve)
  }
  return { traces, outcome: "unfinished" }
})

const runnerOf = (agent: Agent.Agent<unknown, Handlers>): Runner => ({
  begin: () => agent.stream("Go", { context: { tenant: "acme" } }),
  resume: (state, options) => agent.resumeStream(state, options)
})

const researcher = Agent.make("researcher", { model: "p/m", instructions: "Find facts.", toolkit: [Echo, Delete] })
const writer = Agent.make("writer", {
  instructions: "Write.",
  toolkit: [Echo, Agent.asTool(researcher, { name: "research", description: "Finds facts" })]
})

const member = (json: unknown, ...path: ReadonlyArray<string | number>): unknown =>
  path.reduce<unknown>((value, key) => Object.entries(value ?? {}).find(([name]) => name === String(key))?.[1], json)

describe("TRUST-6 agents in definitions", () => {
  test.prop(
    "TRUST-6 L5 a tree of agents that was sent runs as the original, also when they take turns with its state",
    [Arbitrary.schema(nodes(2))],
    function* ([node]) {
      yield* Effect.gen(function* () {
        const original = makeTree(node)
        const bound = yield* rebuilt(original)
        const expected = yield* runAll(runnerOf(original))
        assert.strictEqual(expected.outcome, "Completed")
        assert.deepStrictEqual(yield* runAll(runnerOf(bound)), expected)
        assert.deepStrictEqual(yield* runAll(runnerOf(original), runnerOf(bound)), expected)
        assert.deepStrictEqual(yield* Agent.definition(bound), yield* Agent.definition(original))
        const stubbed = yield* Effect.provide(rebuilt(original), ToolResolver.layerStubs({ approval: "payload" }))
        assert.deepStrictEqual(yield* Effect.provide(runAll(runnerOf(stubbed)), elsewhere), expected)
      }).pipe(Effect.provide(everywhere(callsEverything)))
    },
    { arbitrary: { runs: 12 } }
  )

  test("TRUST-6 L3 an agent in a tool is written as a definition without a version", function* () {
    const wire = yield* Agent.encode(writer)
    const inner = yield* Agent.encode(researcher)
    const { schema_version: _, ...body } = inner
    assert.deepStrictEqual(member(wire, "tools", 1, "agent"), body)
    assert.strictEqual(member(wire, "tools", 1, "timeout"), "infinity")
    const definition = yield* AgentDefinition.codec.decode(wire)
    assert.deepStrictEqual(definition, yield* Agent.definition(writer))
    assert.deepStrictEqual(definition.tools[1]?.agent, yield* AgentDefinition.codec.decode(inner))
  })

  const parameters = { type: "object", properties: { q: { type: "string" } }, required: ["q"] }
  const asks: ScriptedModel.TurnFunction = ({ messages, tools }) =>
    tools.some(({ name }) => name === "ask") && messages.length === 1
      ? { toolCalls: [call("c1", "ask", { q: "x" })] }
      : { text: messages.at(-1)?.text ?? "" }
  test(
    "TRUST-6 an agent written by hand needs neither timeout nor digest, and its call may need approval",
    everywhere(asks),
    function* () {
      const tool = { name: "ask", parameters, approval: "always", agent: { instructions: "Inner." } }
      const bound = yield* Agent.decode({ schema_version: 2, tools: [tool] })
      const waiting = yield* endsAs("AwaitingApproval", bound.run("Go"))
      const decisions = waiting.requests.filter(Run.isApprovable).map(Run.approve)
      const result = yield* bound.resume(waiting.state, { decisions })
      assert.deepStrictEqual(toolResults(result.conversation), [`{"q":"x"}`])
    }
  )

  test(
    "TRUST-1 an approved call of an agent asks again when the agent is another one by then",
    everywhere(asks),
    function* () {
      // A payload can declare that its agents are found per run, so that a state is resumed with others
      const agentOf = (instructions: string) => ({ instructions, per_run: ["instructions", "tools"] })
      const decode = (instructions: string) =>
        Agent.decode({
          schema_version: 2,
          tools: [{ name: "ask", parameters, approval: "always", agent: agentOf(instructions) }]
        })
      const waiting = yield* endsAs("AwaitingApproval", (yield* decode("Read.")).run("Go"))
      const decisions = waiting.requests.filter(Run.isApprovable).map(Run.approve)
      const other = yield* decode("Delete.")
      const again = yield* endsAs("AwaitingApproval", other.resume(waiting.state, { decisions }))
      assert.notStrictEqual(again.requests[0].digest, waiting.requests[0].digest)
      assert.deepStrictEqual(toolResults(again.conversation), [])
    }
  )

  test("TRUST-6 TRUST-2 the tools of an inner agent go through the same resolver", function* () {
    const wire = yield* Agent.encode(writer)
    const onlyEcho = Toolkit.make(Echo)
    const handlers = onlyEcho.toLayer({ echo: ({ text }) => Effect.succeed(text) })
    const resolver = ToolResolver.layerToolkit(onlyEcho).pipe(Layer.provide(handlers))
    const error = yield* Effect.flip(Agent.decode(wire)).pipe(
      Effect.provide(Layer.merge(resolver, ModelRegistry.layer({})))
    )
    assert(error._tag === "BindError")
    assert.strictEqual(error.tool, "delete")
  })

  test("TRUST-6 L1 problems inside come with their paths", function* () {
    const wire = yield* Agent.encode(writer)
    const broken = JSON.parse(JSON.stringify(wire))
    Object.assign(broken.tools[1], { timeout: 5 })
    Object.assign(broken.tools[1].agent, { model: "x", max_steps: 0 })
    Object.assign(broken.tools[1].agent.tools[0], { digest: "no" })
    Object.assign(broken.tools[1].agent.tools[1], { name: "echo" })
    const { reason } = yield* failsFor("Invalid", AgentDefinition.codec.decode(broken))
    const inner = ["/model", "/max_steps", "/tools/1/name", "/tools/0/digest", "/tools/1/digest"]
    assert.deepStrictEqual(
      reason.issues.map(({ path }) => path),
      ["/tools/1/timeout", "/tools/1/digest", ...inner.map((path) => `/tools/1/agent${path}`)]
    )
    Object.assign(broken.tools[1].agent.tools[1], { name: "toString" })
    const forbidden = yield* failsFor("ForbiddenKey", AgentDefinition.codec.decode(broken))
    assert.strictEqual(forbidden.reason.path, "/tools/1/agent/tools/1/name")
  })

  test("TRUST-6 L2 the tools of the whole tree are counted, and its depth", function* () {
    const leaf = yield* AgentDefinition.make({ tools: [yield* ToolContract.fromTool(Echo)] })
    const contract = yield* ToolContract.make({ name: "ask", parameters, timeout: "Infinity" })
    const within = (agent: AgentDefinition.AgentDefinition, count = 1) =>
      AgentDefinition.make({
        tools: Array.from({ length: count }, (_, i) => ({ ...contract, name: `ask${i}`, agent }))
      })
    const renamed = yield* failsFor("Invalid", within(leaf))
    assert.deepStrictEqual(
      renamed.reason.issues.map(({ path }) => path),
      ["/tools/0/digest"]
    )
    const nest = (agent: AgentDefinition.AgentDefinition) => AgentDefinition.make({ tools: [{ ...contract, agent }] })
    let deep = leaf
    for (let level = 0; level < 19; level++) deep = yield* nest(deep)
    yield* Effect.flatMap(AgentDefinition.codec.encode(deep), AgentDefinition.codec.decode)
    yield* failsFor("TooDeep", Effect.flatMap(Effect.flatMap(nest(deep), nest), nest))
    const few = Effect.provideService(Agent.definition(writer), Limits.Limits, { ...Limits.defaults, maxTools: 3 })
    const tooMany = yield* failsFor("DefinitionInvalid", few)
    assert.include(tooMany.message, "tools")
    const wire = yield* Agent.encode(writer)
    yield* AgentDefinition.codec.decode(wire, { limits: { maxTools: 4 } })
    const large = yield* failsFor("TooLarge", AgentDefinition.codec.decode(wire, { limits: { maxTools: 3 } }))
    assert.strictEqual(large.reason.path, "/tools/1/agent/tools")
    // counted before anything else is read
    const unread = Array.from({ length: 129 }, () => ({ agent: { tools: [0] } }))
    for (const schema_version of [1, 2]) {
      yield* failsFor("TooLarge", AgentDefinition.codec.decode({ schema_version, tools: unread }))
    }
    const cyclic = { ...leaf, tools: [{ ...contract, agent: leaf }] }
    Object.assign(cyclic.tools[0] ?? {}, { agent: cyclic })
    const bind = Effect.provide(Agent.bind(cyclic), everywhere([]))
    const { codec, digest, make } = AgentDefinition
    for (const use of [codec.encode(cyclic), make(cyclic), digest(cyclic), bind]) {
      const error = yield* Effect.flip<unknown, { readonly message: string }, never>(use)
      assert.include(error.message, "levels")
    }
  })

  test("TRUST-6 agents that have each other as tools are refused with the cycle", function* () {
    const tools: Array<Agent.AgentTool<string, never>> = []
    const lazily = Effect.sync(() => tools)
    const clerk = Agent.make("clerk", { toolkit: lazily, model: "p/m" })
    const boss = Agent.make("boss", {
      toolkit: Effect.succeed([Agent.asTool(clerk, { name: "ask_clerk", description: "d" })]),
      model: "p/m"
    })
    const again: unknown = Agent.asTool(boss, { name: "ask_boss", description: "d" })
    // Sound: what running it requires does not matter here.
    tools.push(again as Agent.AgentTool<string, never>)
    const door = Agent.make("door", { toolkit: [Agent.asTool(boss, { name: "ask_boss", description: "d" })] })
    const error = yield* failsFor("DefinitionInvalid", Agent.definition(door))
    assert.include(error.message, `"boss" > "clerk" > "boss"`)
    assert.include(error.message, `Tool "ask_clerk"`)
    // They run: what lies behind an Effect is not described there.
    const result = yield* Effect.provide(door.run("Go"), everywhere([{ text: "done" }]))
    assert.strictEqual(result.outcome, "Completed")
    const grow = (depth: number): typeof clerk =>
      Agent.make(`a${depth}`, {
        model: "p/m",
        toolkit: Effect.sync(() => {
          const next: unknown = Agent.asTool(grow(depth + 1), { name: "next", description: "d" })
          // Sound: the same.
          return [next as Agent.AgentTool<string, never>]
        })
      })
    assert.include((yield* failsFor("DefinitionInvalid", Agent.definition(grow(0)))).message, "levels")
  })

  test("TRUST-6 a plan, and an agent that an Effect finds, are written as contracts", everywhere([]), function* () {
    const plan = yield* Plan.make("plan", [Step.make("a", { target: researcher })])
    const parent = Agent.make("parent", {
      toolkit: [
        Agent.asTool(yield* Plan.bind(plan), { name: "order", description: "d" }),
        Agent.asTool(Effect.succeed(yield* rebuilt(Agent.make("x"))), { name: "found", description: "d" })
      ]
    })
    const { tools } = yield* Agent.definition(parent)
    assert.deepStrictEqual(
      tools.map(({ agent, name }) => [name, agent]),
      [
        ["order", undefined],
        ["found", undefined]
      ]
    )
  })

  test("TRUST-6 L3 version 1 names the agents and the parts found per run that it would lose", function* () {
    const tenant = Effect.map(RunContext.RunContext, () => "Write.")
    const sender = Agent.make("sender", {
      model: "p/m",
      instructions: tenant,
      toolkit: [Agent.asTool(researcher, { name: "research", description: "Finds facts" })]
    })
    const definition = yield* Agent.definition(sender)
    const lossy = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
    assert(lossy._tag === "LossyEncoding")
    const paths = lossy.losses.map(({ path }) => path)
    assert.includeMembers(paths, ["/perRun", "/tools/0/agent"])
    const wire = yield* AgentDefinition.codec.encode(definition, { version: 1, allowLoss: paths })
    const [tool] = (yield* AgentDefinition.codec.decode(wire)).tools
    assert.deepStrictEqual([tool?.name, tool?.agent], ["research", undefined])
  })

  test("TRUST-6 L8 secrets of an inner agent are refused; a parameter may have such a name", function* () {
    const make = (modelOptions: AgentDefinition.AgentDefinition["modelOptions"]) =>
      Agent.make("outer", {
        toolkit: [
          Agent.asTool(Agent.make("inner", { modelOptions, toolkit: [Echo] }), { name: "ask", description: "d" })
        ]
      })
    for (const version of [1, 2]) {
      const definition = yield* Agent.definition(make({ tools: [{ parameters: { api_key: "k" } }] }))
      const named = { ...definition, model: "p/m" }
      const { reason } = yield* failsFor(
        "Secret",
        Effect.catchTag(AgentDefinition.codec.encode(named, { version }), "LossyEncoding", Effect.die)
      )
      assert.strictEqual(reason.path, "/tools/0/agent/model_options/tools/0/parameters/api_key")
      yield* failsFor("Secret", AgentDefinition.digest(definition))
    }
    const login = yield* ToolContract.make({
      name: "login",
      parameters: { type: "object", properties: { password: { type: "string" } } }
    })
    const definition = yield* Agent.definition(make({}))
    const [ask] = definition.tools
    assert(ask?.agent !== undefined)
    const holding = { ...definition, tools: [{ ...ask, agent: { ...ask.agent, tools: [login] } }] }
    yield* AgentDefinition.codec.encode(holding)
  })

  test("TRUST-6 a state of another inner agent is refused on demand, unless Effects find the difference", function* () {
    const parentOf = (instructions: string | Effect.Effect<string>) =>
      Agent.make("outer", {
        toolkit: [
          Agent.asTool(Agent.make("inner", { instructions, toolkit: [Echo] }), { name: "ask", description: "d" })
        ]
      })
    const first = yield* Effect.provide(parentOf("A.").run("Go"), everywhere([{ text: "x" }]))
    const other = parentOf("B.")
    const refused = yield* failsFor(
      "DefinitionChanged",
      Effect.provide(other.resume(first.state, { onChange: "refuse" }), everywhere([]))
    )
    assert.strictEqual(refused.reason.found, first.state.definition)
    const found = (text: string) => parentOf(Effect.succeed(text))
    const dynamic = yield* Effect.provide(found("A.").run("Go"), everywhere([{ text: "x" }]))
    yield* Effect.gen(function* () {
      const bound = yield* rebuilt(found("B."))
      yield* endsAs("Completed", bound.resume(dynamic.state, { input: "And?" }))
    }).pipe(Effect.provide(everywhere([{ text: "y" }])))
  })
})
