import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { AgentDefinition, ToolContract } from "effect-emissary"
import { AgentGraph } from "effect-emissary/plan"
import { plan, step } from "./definitions.ts"
import { edgesOf, graphViz, mermaid } from "./picture-parsers.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const parameters = { type: "object", properties: {}, required: [], additionalProperties: false }
const tool = (name: string) => ToolContract.make({ name, parameters })

const invalid = (input: unknown) =>
  Effect.map(Effect.flip(AgentGraph.codec.decode(input)), ({ reason }) => {
    assert(reason._tag === "Invalid", `expected Invalid, found ${reason._tag}`)
    return reason.issues.map(({ path }) => path)
  })

type Node = AgentGraph.AgentGraph["nodes"][number]
type Edge = AgentGraph.AgentGraph["edges"][number]
type AgentNode = Extract<Node, { readonly _tag: "Agent" }>

const empty: AgentGraph.AgentGraph = { sessionId: "", nodes: [], edges: [] }

const addNode = (graph: AgentGraph.AgentGraph, node: Node) => AgentGraph.merge(graph, { ...empty, nodes: [node] })

const addEdge = (graph: AgentGraph.AgentGraph, edge: Edge) => AgentGraph.merge(graph, { ...empty, edges: [edge] })

const lossesOf = (graph: AgentGraph.AgentGraph) =>
  Effect.map(Effect.flip(AgentGraph.codec.encode(graph, { version: 1 })), (error) => {
    assert(error._tag === "LossyEncoding")
    return error.losses
  })

const agentNode = { system: null, tools: [], type: "agent" }

const agent = (id: string, rest: Partial<AgentNode> = {}): AgentNode => ({
  _tag: "Agent",
  id,
  name: id,
  provider: "",
  model: "",
  engine: "",
  tools: [],
  ...rest
})

/** Golden N01: what LazyBridge recorded. */
const recorded = {
  session_id: "s",
  nodes: [
    { ...agentNode, id: "researcher", name: "researcher", provider: "prov", model: "mod", engine_type: "Eng" },
    { ...agentNode, id: "pipe", name: "pipe", provider: "Plan", model: "Plan", engine_type: "Plan", tools: ["calc"] },
    { id: "tool:calc", name: "calc", type: "tool" },
    { id: "r", name: "r", routes: { a: "x", b: "y" }, default: null, type: "router" }
  ],
  edges: [
    { from: "pipe", to: "tool:calc", label: "calc", type: "tool" },
    { from: "pipe", to: "researcher", label: "researcher", type: "tool" },
    { from: "pipe", to: "researcher", label: "researcher", type: "tool" }
  ]
}

describe("PLAN-9 AgentGraph, the wire", () => {
  test("N01 N03 what LazyBridge writes is read, and written back as it was", function* () {
    const graph = yield* AgentGraph.codec.decode(recorded)
    assert.deepStrictEqual(yield* AgentGraph.codec.encode(graph, { version: 1 }), { version: 1, ...recorded })
    const text = yield* AgentGraph.codec.encodeJson(graph, { version: 1 })
    assert.deepStrictEqual(yield* AgentGraph.codec.decodeJson(text), graph)
    assert.deepStrictEqual(yield* AgentGraph.codec.decodeJson(JSON.stringify(recorded)), graph)
  })

  test("N05 what is absent has the recorded defaults; an unknown kind of node is refused", function* () {
    const graph = yield* AgentGraph.codec.decode({
      nodes: [{ id: "x" }, { id: "t", type: "tool" }, { id: "r", type: "router" }],
      edges: [{ from: "x", to: "t" }]
    })
    assert.deepStrictEqual(yield* AgentGraph.codec.encode(graph, { version: 1 }), {
      version: 1,
      session_id: "",
      nodes: [
        { id: "x", name: "x", provider: "", model: "", system: null, engine_type: "", tools: [], type: "agent" },
        { id: "t", name: "t", type: "tool" },
        { id: "r", name: "r", routes: {}, default: null, type: "router" }
      ],
      edges: [{ from: "x", to: "t", label: "", type: "tool" }]
    })
    // Deviation: recorded as an agent. L4: no fallback that hides an unknown kind.
    assert.deepStrictEqual(yield* invalid({ nodes: [{ id: "z", type: "weird" }] }), ["/nodes/0/type"])
    assert.deepStrictEqual(yield* AgentGraph.codec.decode({}), empty)
  })

  test("N06 N07 N08 a node without id, an edge without end, an unknown kind of edge", function* () {
    assert.deepStrictEqual(yield* invalid({ nodes: [{ name: "x" }] }), ["/nodes/0/id"])
    assert.deepStrictEqual(yield* invalid({ edges: [{ from: "x" }] }), ["/edges/0/to"])
    assert.deepStrictEqual(yield* invalid({ edges: [{ from: "x", to: "t", type: "zzz" }] }), ["/edges/0/type"])
    assert.deepStrictEqual(yield* invalid({ edges: [{ from: "x", to: "t", type: "step" }] }), ["/edges/0/type"])
  })

  test("PLAN-9 version 2 is strict, and unknown versions are refused", function* () {
    const none = { version: 2, session_id: "", nodes: [], edges: [] }
    assert.deepStrictEqual(yield* AgentGraph.codec.decode(none), empty)
    assert.isAbove((yield* invalid({ ...none, extra: 1 })).length, 0)
    assert.isAbove((yield* invalid({ ...none, nodes: [{ type: "weird", id: "x" }] })).length, 0)
    const twice = ["x", "y"].map((name) => ({ type: "tool", id: "x", name }))
    assert.deepStrictEqual(yield* invalid({ ...none, nodes: twice }), ["/nodes/1/id"])
    const error = yield* Effect.flip(AgentGraph.codec.decode({ ...none, version: 3 }))
    assert.strictEqual(error.reason._tag, "UnsupportedVersion")
    const polluted = yield* Effect.flip(
      AgentGraph.codec.decodeJson(`{"nodes":[{"id":"r","type":"router","routes":{"__proto__":"x"}}]}`)
    )
    assert.strictEqual(polluted.reason._tag, "ForbiddenKey")
    for (const input of [null, [], "x", 1]) assert.deepStrictEqual(yield* invalid(input), [""])
  })

  test("PLAN-9 version 1 reports what it would lose", function* () {
    const graph = AgentGraph.fromPlan(plan(step("a", { target: { kind: "tool", name: "t" } })))
    const allowLoss = yield* lossesOf(graph)
    assert.deepStrictEqual(pluck(allowLoss, "path"), ["/nodes/0/type", "/edges/0/type"])
    const wire = yield* AgentGraph.codec.encode(graph, { version: 1, allowLoss })
    assert.deepStrictEqual(wire["edges"], [{ from: "plan:plan", to: "tool:t", label: "a", type: "tool" }])
    const routes = ["b", "1"].map((label) => ({ label, to: "x" }))
    const router = addNode(empty, { _tag: "Router", id: "r", name: "r", routes })
    assert.deepStrictEqual(pluck(yield* lossesOf(router), "path"), ["/nodes/0/routes"])
  })

  test.prop("L3 what is written is read as it was, in both versions", [AgentGraph.AgentGraph], function* ([generated]) {
    const graph = { ...generated, nodes: [...new Map(generated.nodes.map((node) => [node.id, node])).values()] }
    const wire = JSON.parse(JSON.stringify(yield* AgentGraph.codec.encode(graph)))
    assert.deepStrictEqual(yield* AgentGraph.codec.decode(wire), graph)
    const old = yield* Effect.result(AgentGraph.codec.encode(graph, { version: 1 }))
    if (old._tag === "Success") {
      assert.deepStrictEqual(yield* AgentGraph.codec.decode(JSON.parse(JSON.stringify(old.success))), graph)
    } else if (old.failure._tag === "LossyEncoding") {
      assert.isAbove(old.failure.losses.length, 0)
    }
  })

  test("TRUST-3 fuel for all nodes, edges and routes is taken before they are decoded", function* () {
    const edges = Array.from({ length: 100 }, () => ({ from: "a", to: "b" }))
    const routes = Object.fromEntries(edges.map((_, at) => [`r${at}`, "a"]))
    const graphs = [
      [{ edges }, 10_000],
      [{ nodes: edges.map((_, at) => ({ id: `n${at}` })) }, 10_000],
      [{ nodes: [{ id: "r", type: "router", routes }] }, 6000]
    ] as const
    for (const [graph, least] of graphs) {
      yield* AgentGraph.codec.decode(graph)
      const error = yield* Effect.flip(AgentGraph.codec.decode(graph, { limits: { maxFuel: least } }))
      assert.deepInclude(error.reason, { _tag: "TooLarge", what: "fuel" })
    }
  })
})

describe("PLAN-9 AgentGraph, how it is made", () => {
  it("N09 equal edges are one", () => {
    const edge: Edge = { from: "a", to: "b", label: "x", kind: "tool" }
    const twice = addEdge(addEdge(empty, edge), { ...edge })
    assert.deepStrictEqual(twice.edges, [edge])
    const other = addEdge(twice, { ...edge, label: "y" })
    assert.strictEqual(other.edges.length, 2)
    assert.strictEqual(AgentGraph.merge({ ...twice, edges: [edge, edge] }, other).edges.length, 2)
  })

  it("N10 a node with the same id takes its place", () => {
    const one = addNode(empty, agent("same", { system: "one" }))
    const two = addNode(addNode(one, agent("other")), agent("same", { system: "two" }))
    assert.deepStrictEqual(two.nodes, [agent("same", { system: "two" }), agent("other")])
    assert.deepStrictEqual(AgentGraph.merge(one, two).nodes, two.nodes)
  })

  test("PLAN-9 of definitions: tools, agents behind tools, and cycles", function* () {
    const [ask, search] = [yield* tool("ask"), yield* tool("search")]
    const writer = yield* AgentDefinition.make({
      name: "writer",
      model: "openai/org/gpt",
      instructions: "Write.",
      tools: [ask, search]
    })
    const reader = yield* AgentDefinition.make({ name: "reader", tools: [ask, search] })
    const graph = AgentGraph.fromDefinition(writer, { agents: { ask: reader } })
    const known = { engine: "Emissary", tools: ["search"] }
    assert.deepStrictEqual(graph.nodes, [
      agent("writer", { ...known, provider: "openai", model: "org/gpt", system: "Write." }),
      agent("reader", known),
      { _tag: "Tool", id: "tool:search", name: "search" }
    ])
    assert.deepStrictEqual(graph.edges, [
      { from: "writer", to: "reader", label: "ask", kind: "tool" },
      { from: "reader", to: "reader", label: "ask", kind: "tool" },
      { from: "reader", to: "tool:search", label: "search", kind: "tool" },
      { from: "writer", to: "tool:search", label: "search", kind: "tool" }
    ])
  })

  test("TRUST-6 PLAN-9 of agents in the tools of agents, each under a name of its own", function* () {
    const search = yield* tool("search")
    const ask = yield* ToolContract.make({ name: "ask", parameters, timeout: "Infinity" })
    const check = yield* ToolContract.make({ name: "check", parameters, timeout: "Infinity" })
    const reader = yield* AgentDefinition.make({ name: "reader", tools: [search] })
    const namesake = yield* AgentDefinition.make({ name: "reader", model: "openai/gpt" })
    const editor = yield* AgentDefinition.make({ name: "editor", tools: [{ ...check, agent: reader }] })
    const writer = yield* AgentDefinition.make({
      name: "writer",
      tools: [
        { ...ask, agent: editor },
        { ...check, agent: namesake }
      ]
    })
    const graph = AgentGraph.fromDefinition(writer)
    assert.deepStrictEqual(
      graph.nodes.map((node) => [node.id, node.name, node._tag === "Agent" ? node.tools.join() : node._tag]),
      [
        ["writer", "writer", ""],
        ["editor", "editor", ""],
        ["reader", "reader", "search"],
        ["tool:search", "search", "Tool"],
        ["writer/check", "reader", ""]
      ]
    )
    assert.deepStrictEqual(
      graph.edges.map(({ from, label, to }) => `${from} -${label}-> ${to}`),
      ["writer -ask-> editor", "editor -check-> reader", "reader -search-> tool:search", "writer -check-> writer/check"]
    )
  })

  test("PLAN-9 of plans: agents and tools of steps, and what is read from agents", function* () {
    const writer = yield* AgentDefinition.make({ name: "the writer", tools: [yield* tool("search")] })
    const definition = plan(
      step("one", { target: { kind: "agent", name: "writer" } }),
      step("two", { target: { kind: "tool", name: "search" }, context: { _tag: "FromMemory", agent: "writer" } }),
      step("three", { target: { kind: "tool", name: "constructor" }, task: { _tag: "FromAgent", agent: "else" } }),
      step("four")
    )
    const graph = AgentGraph.fromPlan({ definition }, { agents: { writer } })
    const nodes = graph.nodes.map(({ _tag, id }) => `${_tag} ${id}`)
    const tools = ["Tool tool:search", "Tool tool:constructor"]
    assert.deepStrictEqual(nodes, ["Plan plan:plan", "Agent the writer", ...tools, "Agent else"])
    assert.deepStrictEqual(
      graph.edges.map(({ from, kind, label, to }) => `${from} ${kind} ${to} ${label}`),
      [
        "plan:plan step the writer one",
        "the writer tool tool:search search",
        "plan:plan step tool:search two",
        "the writer context plan:plan two",
        "plan:plan step tool:constructor three",
        "else context plan:plan three"
      ]
    )
  })
})

describe("PLAN-9 AgentGraph, its pictures", () => {
  test("PLAN-9 nodes with their kinds, edges with their labels", function* () {
    const read = yield* AgentGraph.codec.decode(recorded)
    const ghost: Edge = { from: "r", to: "ghost", label: "a", kind: "router" }
    const graph = { ...read, edges: [...read.edges, ghost] }
    const one = yield* mermaid(AgentGraph.toMermaid(graph))
    const other = yield* graphViz(AgentGraph.toGraphViz(graph))
    assert.deepStrictEqual(pluck([...one.nodes.values()], "text"), [
      "researcher\nagent\nprov/mod",
      "pipe\nagent\nPlan/Plan",
      "calc\ntool",
      "r\nrouter",
      "ghost\nnot in the graph"
    ])
    assert.deepStrictEqual(pluck([...other.nodes.values()], "text"), pluck([...one.nodes.values()], "text"))
    assert.deepStrictEqual(edgesOf(one), ["pipe -> calc", "pipe -> researcher", "pipe -> researcher", "r --> ghost: a"])
  })
})
