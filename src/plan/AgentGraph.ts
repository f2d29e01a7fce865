/**
 * A graph of agents: the agents, the tools and agents they call, and the plans that run
 * them, as data, as JSON, and as pictures.
 *
 * **When to use**
 *
 * Use it to see or publish how a system of agents hangs together. `Picture` draws how a
 * single plan runs.
 *
 * **Details**
 *
 * A graph is made of definitions: {@link fromDefinition} and {@link fromPlan}, put
 * together with {@link merge}. Its JSON has a `version`:
 *
 * | version | content |
 * |---|---|
 * | 1 | LazyBridge's descriptor `{ session_id, nodes, edges }`, which has no version of its own; unknown keys are ignored |
 * | 2 | our own, and the default; it is strict, and knows plans and their steps |
 *
 * Kinds of nodes and edges that a version does not know are refused.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import type { AgentDefinition } from "../agent/internal/agentData.ts"
import type * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as plainJson from "../payload/internal/plainJson.ts"
import { defined } from "../payload/internal/plainJson.ts"
import * as Effect from "effect/Effect"
import type { PlanDefinition } from "./PlanDefinition.ts"
import * as diagram from "./internal/diagram.ts"
import * as planDraft from "./internal/planDraft.ts"
import * as planFlow from "./internal/planFlow.ts"
import * as planNames from "./internal/planNames.ts"

const Text = Schema.String
const optionalKey = Schema.optionalKey

const Names = Schema.Array(Text)

const AgentNode = Schema.Struct({
  _tag: Schema.Literal("agent").transform("Agent"),
  id: Text,
  name: Text,
  provider: Text,
  model: Text,
  system: optionalKey(Text),
  engine: Text,
  tools: Names
}).pipe(Schema.encodeKeys({ _tag: "type", engine: "engine_type" }))

const ToolNode = Schema.Struct({
  _tag: Schema.Literal("tool").transform("Tool"),
  id: Text,
  name: Text
}).pipe(Schema.encodeKeys({ _tag: "type" }))

const RouterNode = Schema.Struct({
  _tag: Schema.Literal("router").transform("Router"),
  id: Text,
  name: Text,
  routes: Schema.Array(Schema.Struct({ label: Text, to: Text })),
  default: optionalKey(Text)
}).pipe(Schema.encodeKeys({ _tag: "type" }))

const PlanNode = Schema.Struct({
  _tag: Schema.Literal("plan").transform("Plan"),
  id: Text,
  name: Text,
  description: optionalKey(Text),
  steps: Names
}).pipe(Schema.encodeKeys({ _tag: "type" }))

const Node = Schema.Union([AgentNode, ToolNode, RouterNode, PlanNode])

/**
 * A node of a graph: an agent, a tool, a router or a plan.
 *
 * @category models
 * @since 0.1.0
 */
export type Node = typeof Node.Type

const Edge = Schema.Struct({
  from: Text,
  to: Text,
  label: Text,
  kind: Schema.Literals(["tool", "context", "router", "step"])
}).pipe(Schema.encodeKeys({ kind: "type" }))

/**
 * An arrow of a graph, from the id of a node to the id of another.
 *
 * @category models
 * @since 0.1.0
 */
export type Edge = typeof Edge.Type

/**
 * A graph of agents. Ids of nodes are unique; edges may lead to ids that are not in it.
 *
 * **Details**
 *
 * The nodes:
 *
 * - `Agent`: `tools` are the names of its tools that are no agents; `engine` names the
 *   system that runs it. An agent of which only the name is known has no provider, no
 *   model and no engine.
 * - `Tool`: its id is `tool:` and its name.
 * - `Plan`: with the names of its steps. Its id is `plan:` and its name.
 * - `Router`: it hands a task to one of several nodes. It is read and written; no
 *   function here makes one.
 *
 * The edges, each from one id to another:
 *
 * | kind | meaning |
 * |---|---|
 * | `tool` | an agent calls a tool or another agent |
 * | `step` | a plan runs an agent or a tool in a step |
 * | `context` | a plan reads the memory or the last answer of an agent |
 * | `router` | a router leads there |
 *
 * The label of an edge to an agent behind a tool is the name of that tool; of an edge of
 * a plan it is the name of the step.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AgentGraph = Schema.Struct({
  sessionId: Text,
  nodes: Schema.Array(Node),
  edges: Schema.Array(Edge)
}).pipe(Schema.encodeKeys({ sessionId: "session_id" }))

/**
 * A graph of agents.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentGraph = typeof AgentGraph.Type

/**
 * The definitions of agents by name.
 *
 * @category options
 * @since 0.1.0
 */
export type Agents = { readonly [name: string]: AgentDefinition } | undefined

/**
 * The graph of an agent: the agent, its tools, and the agents behind its tools with
 * theirs. `id` is the id of the agent; by default its name, or else `"agent"`. The id of an
 * agent in the definition is its name, or its place if another agent has that name: the id of
 * the agent that has it, `/` and the name of the tool. `agents` are the agents behind other
 * tools, by the names of the tools.
 *
 * **Example** (An agent with a tool and an agent behind a tool)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentDefinition, ToolContract } from "effect-emissary"
 * import { AgentGraph } from "effect-emissary/plan"
 *
 * const program = Effect.gen(function*() {
 *   const parameters = { type: "object", properties: {}, required: [], additionalProperties: false }
 *   const search = yield* ToolContract.make({ name: "search", parameters })
 *   const research = yield* ToolContract.make({ name: "research", parameters })
 *   const researcher = yield* AgentDefinition.make({ name: "researcher", model: "openai/gpt-5.2", tools: [search] })
 *   const writer = yield* AgentDefinition.make({ name: "writer", tools: [research] })
 *   return AgentGraph.fromDefinition(writer, { agents: { research: researcher } })
 * })
 *
 * const graph = Effect.runSync(program)
 * assert.deepStrictEqual(graph.nodes.map(({ id }) => id), ["writer", "researcher", "tool:search"])
 * assert.deepStrictEqual(graph.edges.map(({ from, to }) => [from, to]), [
 *   ["writer", "researcher"],
 *   ["researcher", "tool:search"]
 * ])
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromDefinition = (
  definition: AgentDefinition,
  options: { readonly id?: string | undefined; readonly agents?: Agents } = {}
): AgentGraph => {
  const { addAgent, graph } = collect(options.agents)
  addAgent(options.id ?? definition.name ?? "agent", definition)
  return graph()
}

/**
 * The graph of a plan: the plan, the agents and tools of its steps, and the agents whose
 * memory or answers it reads. Functions are not in it.
 * `agents` are the definitions of agents by name, for targets and references.
 *
 * **Example** (A plan and its agent)
 *
 * ```ts
 * import assert from "node:assert"
 * import { AgentGraph } from "effect-emissary/plan"
 *
 * const graph = AgentGraph.fromPlan({
 *   name: "report",
 *   maxIterations: 100,
 *   steps: [
 *     {
 *       name: "write",
 *       target: { kind: "agent", name: "writer" },
 *       task: { _tag: "FromStart" },
 *       parallel: false
 *     }
 *   ]
 * })
 * assert.deepStrictEqual(graph.edges, [{ from: "plan:report", to: "writer", label: "write", kind: "step" }])
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromPlan = (
  plan: PlanDefinition | { readonly definition: PlanDefinition },
  options: { readonly agents?: Agents } = {}
): AgentGraph => {
  const { description, name, steps } = "definition" in plan ? plan.definition : plan
  const id = `plan:${name}`
  const { addEdge, addNode, addTarget, graph } = collect(options.agents)
  addNode(defined({ _tag: "Plan" as const, id, name, description, steps: steps.map(({ name }) => name) }))
  for (const step of steps) {
    const { kind, name } = step.target
    if (kind !== "function") addTarget(name, kind, (to) => addEdge({ from: id, to, label: step.name, kind: "step" }))
    for (const { reference } of planFlow.referencesOf(step)) {
      if (!("agent" in reference)) continue
      addTarget(reference.agent, "agent", (from) => addEdge({ from, to: id, label: step.name, kind: "context" }))
    }
  }
  return graph()
}

/** The nodes and edges of a graph while it is made. `agents` are the definitions of agents by name. */
const collect = (agents: Agents) => {
  const nodes: Array<Node> = []
  const edges: Array<Edge> = []
  const done = new Map<string, AgentDefinition | undefined>()
  const addEdge = (edge: Edge) => void edges.push(edge)
  const addAgent = (id: string, definition: AgentDefinition | undefined): void => {
    if (done.has(id)) return
    done.set(id, definition)
    nodes.push(agentNode(id, definition, agents))
    for (const { agent, name } of definition?.tools ?? []) {
      const edgeTo = (to: string) => addEdge({ from: id, to, label: name, kind: "tool" })
      if (agent === undefined) addTarget(name, "tool", edgeTo)
      else addInner(agent, `${id}/${name}`, agent.name ?? name, edgeTo)
    }
  }
  const isTaken = (id: string, agent: AgentDefinition) => done.has(id) && !plainJson.equalsJson(done.get(id), agent)
  /** Adds an agent of a definition under its name, or under its place if the name is that of another one. */
  const addInner = (agent: AgentDefinition, place: string, name: string, edgeTo: (id: string) => void): void => {
    let id = name
    for (let count = 1; isTaken(id, agent); count += 1) id = count === 1 ? place : `${place} (${count})`
    edgeTo(id)
    addAgent(id, agent)
  }
  /** Adds the edge to an agent or a tool, then what is behind it. A tool of the name of an agent is that agent. */
  const addTarget = (name: string, kind: "agent" | "tool", edgeTo: (id: string) => void): void => {
    const agent = agentNamed(agents, name)
    const isTool = kind === "tool" && agent === undefined
    const id = isTool ? `tool:${name}` : (agent?.name ?? name)
    edgeTo(id)
    if (isTool) nodes.push({ _tag: "Tool", id, name })
    else addAgent(id, agent)
  }
  const graph = () => merge({ sessionId: "", nodes, edges })
  return { addAgent, addEdge, addNode: (node: Node) => void nodes.push(node), addTarget, graph }
}

const agentNamed = (agents: Agents, name: string): AgentDefinition | undefined => plainJson.own(agents ?? {}, name)

const agentNode = (id: string, definition: AgentDefinition | undefined, agents: Agents): Node => {
  const [provider = "", ...model] = definition?.model?.split("/") ?? []
  const tools = definition?.tools ?? []
  return defined({
    _tag: "Agent" as const,
    id,
    name: definition?.name ?? id,
    provider,
    model: model.join("/"),
    system: definition?.instructions,
    engine: definition === undefined ? "" : "Emissary",
    tools: tools.flatMap(({ agent, name }) => ((agent ?? agentNamed(agents, name)) ? [] : [name]))
  })
}

/**
 * All graphs in one, with the session id of the first. Of nodes with the same id the
 * last counts, in the place of the first; equal edges are one.
 *
 * **Gotchas**
 *
 * A plan only knows the names of agents that it is given no definition of: put the
 * graphs of plans before those of their agents.
 *
 * **Example** (A node and an edge more)
 *
 * ```ts
 * import assert from "node:assert"
 * import { AgentGraph } from "effect-emissary/plan"
 *
 * const tool = { _tag: "Tool", id: "tool:search", name: "search" } as const
 * const edge = { from: "writer", to: "tool:search", label: "search", kind: "tool" } as const
 * const one = { sessionId: "", nodes: [tool], edges: [] }
 * const graph = AgentGraph.merge(one, { sessionId: "", nodes: [{ ...tool, name: "find" }], edges: [edge, edge] })
 * assert.deepStrictEqual(graph, { sessionId: "", nodes: [{ ...tool, name: "find" }], edges: [edge] })
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const merge = (self: AgentGraph, ...others: ReadonlyArray<AgentGraph>): AgentGraph => {
  const graphs = [self, ...others]
  const nodes = new Map(graphs.flatMap(({ nodes }) => nodes.map((node) => [node.id, node] as const)))
  const keyOf = ({ from, kind, label, to }: Edge) => JSON.stringify([from, to, kind, label])
  const edges = new Map(graphs.flatMap(({ edges }) => edges.map((edge) => [keyOf(edge), edge] as const)))
  return { sessionId: self.sessionId, nodes: [...nodes.values()], edges: [...edges.values()] }
}

const uniqueIds = Schema.makeFilter((nodes: ReadonlyArray<Node>) => {
  const ids = new Set<string>()
  return nodes.flatMap(({ id }, index) => {
    if (ids.has(id)) return [{ path: [index, "id"], issue: "an id that no other node has" }]
    ids.add(id)
    return []
  })
})

const { edges, nodes, sessionId } = AgentGraph.to.fields

const armV2 = VersionedCodec.arm({
  version: 2,
  wire: Schema.Struct({ version: Schema.Literal(2), session_id: sessionId, nodes: nodes.check(uniqueIds), edges }),
  toCurrent: ({ edges, nodes, session_id }) => Effect.succeed<AgentGraph>({ sessionId: session_id, nodes, edges }),
  fromCurrent: ({ edges, nodes, sessionId }: AgentGraph) =>
    VersionedCodec.lossless({ version: 2 as const, session_id: sessionId, nodes, edges })
})

const LazyNode = Schema.Struct({
  id: Text,
  name: optionalKey(Text),
  type: optionalKey(Schema.Literals(["agent", "router", "tool"])),
  provider: optionalKey(Text),
  model: optionalKey(Text),
  system: optionalKey(Schema.NullOr(Text)),
  engine_type: optionalKey(Text),
  tools: optionalKey(Names),
  routes: optionalKey(Schema.Record(Text, Text)),
  default: optionalKey(Schema.NullOr(Text))
})

type LazyNode = typeof LazyNode.Type

const LazyEdge = Schema.Struct({
  from: Text,
  to: Text,
  label: optionalKey(Text),
  type: optionalKey(Schema.Literals(["tool", "context", "router"]))
})

const readNode = (node: LazyNode): Node => {
  const { engine_type: engine = "", id, model = "", name = id, provider = "", routes = {}, tools = [] } = node
  switch (node.type) {
    case "tool":
      return { _tag: "Tool", id, name }
    case "router":
      return defined({
        _tag: "Router" as const,
        id,
        name,
        routes: Object.entries(routes).map(([label, to]) => ({ label, to })),
        default: node.default ?? undefined
      })
    default:
      return defined({
        _tag: "Agent" as const,
        id,
        name,
        provider,
        model,
        system: node.system ?? undefined,
        engine,
        tools
      })
  }
}

const writeNode = (node: Node): LazyNode => {
  const { id, name } = node
  switch (node._tag) {
    case "Tool":
      return { id, name, type: "tool" }
    case "Router": {
      const routes = Object.fromEntries(node.routes.map(({ label, to }) => [label, to]))
      return { id, name, routes, default: node.default ?? null, type: "router" }
    }
    case "Plan":
      return { id, name, provider: "Plan", model: "Plan", system: null, engine_type: "Plan", tools: [], type: "agent" }
    case "Agent": {
      const { engine, model, provider, system = null, tools } = node
      return { id, name, provider, model, system, engine_type: engine, tools, type: "agent" }
    }
  }
}

const nodeLosses = (node: Node, index: number): ReadonlyArray<PayloadError.Loss> => {
  if (node._tag === "Plan") return [{ path: `/nodes/${index}/type`, what: "that a node is a plan, and its steps" }]
  const again = readNode(writeNode(node))
  return node._tag === "Router" && !plainJson.equalsJson(node, again)
    ? [{ path: `/nodes/${index}/routes`, what: "the order of routes, or routes with one label" }]
    : []
}

const armV1 = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({
    version: Schema.Literal(1),
    session_id: optionalKey(Text),
    nodes: optionalKey(Schema.Array(LazyNode)),
    edges: optionalKey(Schema.Array(LazyEdge))
  }),
  onExcessProperty: "ignore",
  toCurrent: ({ edges = [], nodes = [], session_id = "" }) =>
    Effect.succeed<AgentGraph>({
      sessionId: session_id,
      // Of nodes with the same id the last counts.
      nodes: [...new Map(nodes.map((node) => [node.id, readNode(node)])).values()],
      edges: edges.map(({ from, label = "", to, type = "tool" }) => ({ from, to, label, kind: type }))
    }),
  fromCurrent: ({ edges, nodes, sessionId }: AgentGraph) =>
    VersionedCodec.lossy(
      {
        version: 1 as const,
        session_id: sessionId,
        nodes: nodes.map(writeNode),
        edges: edges.map(({ from, kind, label, to }) => ({ from, to, label, type: kind === "step" ? "tool" : kind }))
      },
      [
        ...nodes.flatMap(nodeLosses),
        ...edges.flatMap(({ kind }, index) =>
          kind === "step" ? [{ path: `/edges/${index}/type`, what: "that an edge is a step" }] : []
        )
      ]
    )
})

/**
 * Graphs from and to JSON.
 *
 * **Details**
 *
 * - It writes version 2 by default. Version 1 cannot hold that a node is a plan, that an
 *   edge is a step, and the order of a router's routes: `LossyEncoding`, unless
 *   `allowLoss` permits it.
 * - It reads both; a graph without a version is read as 1. What is absent there is filled
 *   in: names are ids, nodes are agents, edges are of the kind `tool`, texts are empty.
 * - Version 2 refuses two nodes with one id, both read and written.
 *
 * **Example** (The JSON of LazyBridge)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentGraph } from "effect-emissary/plan"
 *
 * const graph = Effect.runSync(AgentGraph.codec.decode({ session_id: "s", nodes: [{ id: "t", type: "tool" }] }))
 * assert.deepStrictEqual(graph.nodes, [{ _tag: "Tool", id: "t", name: "t" }])
 *
 * const error = Effect.runSync(Effect.flip(AgentGraph.codec.decode({ nodes: [{ id: "z", type: "weird" }] })))
 * assert.strictEqual(error.reason._tag, "Invalid")
 * ```
 *
 * @category codecs
 * @since 0.1.0
 */
export const codec: VersionedCodec.VersionedCodec<AgentGraph> = VersionedCodec.make({
  what: "agent graph",
  field: "version",
  type: AgentGraph,
  arms: [armV1, armV2].map(planDraft.paidArm),
  data: ["/nodes/*/routes"],
  unversioned: 1
})

/**
 * Options of {@link toMermaid} and {@link toGraphViz}: the direction in which the graph grows, default right.
 *
 * @category options
 * @since 0.1.0
 */
export interface PictureOptions {
  readonly direction?: diagram.Diagram["direction"] | undefined
}

/**
 * A graph as a Mermaid flowchart. As with `Picture`, no name can change it.
 *
 * **Example** (One agent, one tool)
 *
 * ```ts
 * import assert from "node:assert"
 * import { AgentGraph } from "effect-emissary/plan"
 *
 * const text = AgentGraph.toMermaid({
 *   sessionId: "",
 *   nodes: [{ _tag: "Tool", id: "tool:search", name: "search" }],
 *   edges: [{ from: "writer", to: "tool:search", label: "search", kind: "tool" }]
 * })
 * assert.ok(text.includes("n1 --> n0"))
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const toMermaid = (self: AgentGraph, options?: PictureOptions): string =>
  diagram.writeMermaid(drawGraph(self, options))

/**
 * A graph in the language of GraphViz, for `dot`.
 *
 * @category converting
 * @since 0.1.0
 */
export const toGraphViz = (self: AgentGraph, options?: PictureOptions): string =>
  diagram.writeDot(drawGraph(self, options))

const nodeShapes = { Agent: "agent", Tool: "tool", Router: "choice", Plan: "plan" } as const

const edgeKinds = { tool: "flow", step: "flow", router: "rejoin", context: "data" } as const

const nodeLines = (node: Node): ReadonlyArray<string> => {
  const name = planNames.displayName(node.name)
  if (node._tag === "Plan") {
    return [name, `plan of ${node.steps.length === 1 ? "one step" : `${node.steps.length} steps`}`]
  }
  if (node._tag !== "Agent") return [name, node._tag.toLowerCase()]
  const model = [node.provider, node.model].filter((part) => part !== "").join("/")
  return [name, "agent", ...(model === "" ? [] : [planNames.escapeInvisible(model)])]
}

/** A label that only repeats the name of the node at the end of its edge is left out. */
const drawGraph = (graph: AgentGraph, { direction = "right" }: PictureOptions = {}): diagram.Diagram => {
  const names = new Map(graph.nodes.map(({ id, name }) => [id, name]))
  const items = new Map<string, diagram.Item>()
  for (const node of graph.nodes) {
    items.set(node.id, diagram.makeNode(node.id, nodeShapes[node._tag], nodeLines(node)))
  }
  for (const id of graph.edges.flatMap(({ from, to }) => [from, to])) {
    if (items.has(id)) continue
    items.set(id, diagram.makeNode(id, "unknown", [planNames.displayName(id), "not in the graph"], "unknown"))
  }
  return {
    direction,
    items: [...items.values()],
    edges: graph.edges.map(({ from, kind, label, to }) => ({
      from,
      to,
      kind: edgeKinds[kind],
      label: label === "" || label === names.get(to) ? undefined : planNames.displayName(label)
    }))
  }
}
