/**
 * Which agents there are, which tools and agents they call, and which plans run them: as
 * data, as JSON, and as pictures.
 *
 * **When to use**
 *
 * Use it to see or publish how a system of agents hangs together. How a single plan runs is
 * what `Picture` draws.
 *
 * **Details**
 *
 * A graph is made of definitions: {@link fromDefinition} and {@link fromPlan}, put
 * together with {@link merge}. Its wire is JSON tagged by `version`:
 *
 * | version | what it is |
 * |---|---|
 * | 1 | LazyBridge's descriptor `{ session_id, nodes, edges }`; it has no version, and one that is missing is read as 1; unknown keys are ignored |
 * | 2 | our own, and the default; it is strict, and knows plans and their steps |
 *
 * Kinds of nodes and edges that a version does not know are refused.
 *
 * @since 0.1.0
 */

import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type { AgentDefinition } from "../agent/internal/agentData.ts"
import * as Json from "../payload/Json.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as VersionedCodec from "../payload/VersionedCodec.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import * as diagram from "./internal/diagram.ts"
import * as planFlow from "./internal/planFlow.ts"
import * as planNames from "./internal/planNames.ts"

/**
 * An agent. `tools` are the names of its tools that are no agents; `engine` says what
 * runs it, in the words of whoever wrote the graph. An agent that is only known by its
 * name has no provider, no model and no engine.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentNode = AgentNodeModel

/**
 * A tool. Its id is `tool:` and its name.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolNode = ToolNodeModel

/**
 * Something that hands a task to one of several nodes. We read and write it; we never
 * make one.
 *
 * @category models
 * @since 0.1.0
 */
export type RouterNode = RouterNodeModel

/**
 * A plan, with the names of its steps. Its id is `plan:` and its name.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanNode = PlanNodeModel

/**
 * A node of a graph.
 *
 * @category models
 * @since 0.1.0
 */
export type Node = NodeModel

/**
 * What an edge says: `tool`, that an agent calls a tool or another agent; `step`, that a
 * plan runs an agent or a tool in a step; `context`, that a plan reads what an agent
 * remembers or answered; `router`, that a router leads there.
 *
 * @category models
 * @since 0.1.0
 */
export type EdgeKind = EdgeKindModel

/**
 * An edge, from one id to another. The label of an edge to an agent behind a tool is
 * the name of that tool, of an edge of a plan the name of the step.
 *
 * @category models
 * @since 0.1.0
 */
export type Edge = EdgeModel

/**
 * A graph of agents. Ids of nodes are unique; edges may lead to what is not in it.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentGraph = AgentGraphModel

const NodeModel: Schema.Codec<NodeModel> = Schema.Union([
  Schema.TaggedStruct("Agent", {
    id: Schema.String,
    name: Schema.String,
    provider: Schema.String,
    model: Schema.String,
    system: Schema.optionalKey(Schema.String),
    engine: Schema.String,
    tools: Schema.Array(Schema.String)
  }),
  Schema.TaggedStruct("Tool", { id: Schema.String, name: Schema.String }),
  Schema.TaggedStruct("Router", {
    id: Schema.String,
    name: Schema.String,
    routes: Schema.Array(Schema.Struct({ label: Schema.String, to: Schema.String })),
    default: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("Plan", {
    id: Schema.String,
    name: Schema.String,
    description: Schema.optionalKey(Schema.String),
    steps: Schema.Array(Schema.String)
  })
])

const EdgeModel: Schema.Codec<EdgeModel> = Schema.Struct({
  from: Schema.String,
  to: Schema.String,
  label: Schema.String,
  kind: Schema.Literals(["tool", "context", "router", "step"])
})

const AgentGraphModel: Schema.Codec<AgentGraphModel> = Schema.Struct({
  sessionId: Schema.String,
  nodes: Schema.Array(NodeModel),
  edges: Schema.Array(EdgeModel)
})

/**
 * Schema of the graph in memory. For JSON there are {@link encode} and {@link decode}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AgentGraph: Schema.Codec<AgentGraph> = AgentGraphModel

/**
 * A graph of nothing.
 *
 * @category constructors
 * @since 0.1.0
 */
export const empty: AgentGraph = { sessionId: "", nodes: [], edges: [] }

/**
 * What is known besides a definition.
 *
 * **Details**
 *
 * - `id`: the id of the agent; default its name, or else `"agent"`. A plan has none.
 * - `agents`: which names stand for agents. Among the tools of an agent these are
 *   agents behind tools (`Agent.asTool`), which a contract does not tell; among the
 *   targets of a plan, agents.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly id?: string | undefined
  readonly agents?: { readonly [name: string]: AgentDefinition } | undefined
}

/**
 * The graph of an agent: the agent, its tools, and the agents behind its tools with
 * theirs.
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
export const fromDefinition = (definition: AgentDefinition, options?: Options): AgentGraph =>
  graphOfAgent(options?.id, definition, options?.agents)

/**
 * The graph of a plan: the plan, the agents and tools of its steps, and the agents whose
 * memory or answers it reads. Functions are not in it.
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
  options?: Pick<Options, "agents">
): AgentGraph => graphOfPlan("definition" in plan ? plan.definition : plan, options?.agents)

/**
 * The graph with a node. A node with the same id is replaced, in its place.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addNode = (self: AgentGraph, node: Node): AgentGraph => addEdgeTo(self, [node], [])

/**
 * The graph with an edge. One that is there already is not added again.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addEdge = (self: AgentGraph, edge: Edge): AgentGraph => addEdgeTo(self, [], [edge])

/**
 * All graphs in one, with the session id of the first. Of nodes with the same id the
 * last counts, in the place of the first; equal edges are one.
 *
 * **Gotchas**
 *
 * A plan knows of an agent only the name unless it is told: put the graphs of plans
 * before those of their agents.
 *
 * @category combinators
 * @since 0.1.0
 */
export const merge = (self: AgentGraph, ...others: ReadonlyArray<AgentGraph>): AgentGraph =>
  others.reduce(
    (graph, other) => addEdgeTo(graph, other.nodes, other.edges),
    addEdgeTo({ ...self, edges: [] }, [], self.edges)
  )

/**
 * The node with that id.
 *
 * @category getters
 * @since 0.1.0
 */
export const node = (self: AgentGraph, id: string): Option.Option<Node> =>
  Arr.findFirst(self.nodes, (node) => node.id === id)

/**
 * The edges that leave a node.
 *
 * @category getters
 * @since 0.1.0
 */
export const edgesFrom = (self: AgentGraph, id: string): ReadonlyArray<Edge> =>
  self.edges.filter(({ from }) => from === id)

/**
 * The edges that lead to a node.
 *
 * @category getters
 * @since 0.1.0
 */
export const edgesTo = (self: AgentGraph, id: string): ReadonlyArray<Edge> => self.edges.filter(({ to }) => to === id)

/**
 * Writes a graph as a versioned JSON object.
 *
 * **Details**
 *
 * - `version`: 1 or 2; default 2.
 * - `allowLoss`: what version 1 may lose: that a node is a plan, that an edge is a
 *   step, the order of a router's routes.
 *
 * Fails with a `PayloadError` if two nodes have one id, and with a `LossyEncoding` if
 * version 1 would lose something.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  self: AgentGraph,
  options?: VersionedCodec.EncodeOptions
): Effect.Effect<Json.JsonObject, PayloadError.PayloadError | PayloadError.LossyEncoding> => codec.encode(self, options)

/**
 * Writes a graph as JSON text; see {@link encode}.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  self: AgentGraph,
  options?: VersionedCodec.EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError.PayloadError | PayloadError.LossyEncoding> => codec.encodeJson(self, options)

/**
 * Reads a graph of any version from a value that came from outside.
 *
 * **Details**
 *
 * Version 1 fills in what is absent: names are ids, nodes are agents, edges are of the
 * kind `tool`, all other texts are empty. Fails with a `PayloadError`: limits, forbidden
 * keys, an unsupported version, or `Invalid` with every problem and its path.
 *
 * **Example** (What LazyBridge writes)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { AgentGraph } from "effect-emissary/plan"
 *
 * const graph = Effect.runSync(AgentGraph.decode({ session_id: "s", nodes: [{ id: "t", type: "tool" }] }))
 * assert.deepStrictEqual(graph.nodes, [{ _tag: "Tool", id: "t", name: "t" }])
 *
 * const error = Effect.runSync(Effect.flip(AgentGraph.decode({ nodes: [{ id: "z", type: "weird" }] })))
 * assert.strictEqual(error.reason._tag, "Invalid")
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentGraph, PayloadError.PayloadError> => decodeGraph(input, options)

/**
 * Reads a graph from JSON text or bytes; see {@link decode}.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentGraph, PayloadError.PayloadError> => decodeGraphJson(input, options)

/**
 * How a graph is drawn: where it grows, by default to the right.
 *
 * @category options
 * @since 0.1.0
 */
export interface PictureOptions {
  readonly direction?: "down" | "right" | undefined
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
 * const graph = AgentGraph.addEdge(
 *   AgentGraph.addNode(AgentGraph.empty, { _tag: "Tool", id: "tool:search", name: "search" }),
 *   { from: "writer", to: "tool:search", label: "search", kind: "tool" }
 * )
 * assert.ok(AgentGraph.toMermaid(graph).includes("n1 --> n0"))
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const toMermaid = (self: AgentGraph, options?: PictureOptions): string =>
  diagram.writeMermaid(drawGraph(self, options?.direction ?? "right"))

/**
 * A graph in the language of GraphViz, for `dot`.
 *
 * @category converting
 * @since 0.1.0
 */
export const toGraphViz = (self: AgentGraph, options?: PictureOptions): string =>
  diagram.writeDot(drawGraph(self, options?.direction ?? "right"))

interface AgentNodeModel {
  readonly _tag: "Agent"
  readonly id: string
  readonly name: string
  readonly provider: string
  readonly model: string
  readonly system?: string
  readonly engine: string
  readonly tools: ReadonlyArray<string>
}

interface ToolNodeModel {
  readonly _tag: "Tool"
  readonly id: string
  readonly name: string
}

interface RouterNodeModel {
  readonly _tag: "Router"
  readonly id: string
  readonly name: string
  readonly routes: ReadonlyArray<{ readonly label: string; readonly to: string }>
  readonly default?: string
}

interface PlanNodeModel {
  readonly _tag: "Plan"
  readonly id: string
  readonly name: string
  readonly description?: string
  readonly steps: ReadonlyArray<string>
}

type NodeModel = AgentNodeModel | ToolNodeModel | RouterNodeModel | PlanNodeModel

type EdgeKindModel = "tool" | "context" | "router" | "step"

interface EdgeModel {
  readonly from: string
  readonly to: string
  readonly label: string
  readonly kind: EdgeKindModel
}

interface AgentGraphModel {
  readonly sessionId: string
  readonly nodes: ReadonlyArray<NodeModel>
  readonly edges: ReadonlyArray<EdgeModel>
}

const edgeKey = ({ from, kind, label, to }: EdgeModel): string => JSON.stringify([from, to, kind, label])

/** A node with the id of an earlier one takes its place; an edge that is there is not added again. */
const addEdgeTo = (graph: AgentGraphModel, nodes: Iterable<NodeModel>, edges: Iterable<EdgeModel>): AgentGraphModel => {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]))
  for (const node of nodes) byId.set(node.id, node)
  const known = new Set(graph.edges.map(edgeKey))
  const added: Array<EdgeModel> = []
  for (const edge of edges) {
    const key = edgeKey(edge)
    if (known.has(key)) continue
    known.add(key)
    added.push(edge)
  }
  return { sessionId: graph.sessionId, nodes: [...byId.values()], edges: [...graph.edges, ...added] }
}

type SeenAgents = { readonly [name: string]: AgentDefinition } | undefined

const ownName = (agents: SeenAgents, name: string): AgentDefinition | undefined =>
  agents !== undefined && Object.hasOwn(agents, name) ? agents[name] : undefined

const toolNode = (name: string): NodeModel => ({ _tag: "Tool", id: `tool:${name}`, name })

const agentNode = (id: string, definition: AgentDefinition | undefined, agents: SeenAgents): AgentNodeModel => {
  const [provider = "", ...model] = definition?.model?.split("/") ?? []
  const tools = definition?.tools ?? []
  return {
    _tag: "Agent",
    id,
    name: definition?.name ?? id,
    provider,
    model: model.join("/"),
    ...(definition?.instructions === undefined ? {} : { system: definition.instructions }),
    engine: definition === undefined ? "" : "Emissary",
    tools: tools.filter(({ name }) => ownName(agents, name) === undefined).map(({ name }) => name)
  }
}

/** An agent, its tools, and the agents behind tools, with the tools of those. */
const graphOfAgent = (id: string | undefined, definition: AgentDefinition, agents: SeenAgents): AgentGraphModel => {
  const nodes: Array<NodeModel> = []
  const edges: Array<EdgeModel> = []
  const done = new Set<string>()

  const visit = (id: string, definition: AgentDefinition) => {
    if (done.has(id)) return
    done.add(id)
    nodes.push(agentNode(id, definition, agents))
    const inner: Array<readonly [string, AgentDefinition]> = []
    for (const { name } of definition.tools) {
      const behind = ownName(agents, name)
      if (behind === undefined) {
        nodes.push(toolNode(name))
        edges.push({ from: id, to: `tool:${name}`, label: name, kind: "tool" })
        continue
      }
      const innerId = behind.name ?? name
      edges.push({ from: id, to: innerId, label: name, kind: "tool" })
      inner.push([innerId, behind])
    }
    for (const [id, definition] of inner) visit(id, definition)
  }

  visit(id ?? definition.name ?? "agent", definition)
  return addEdgeTo({ sessionId: "", nodes: [], edges: [] }, nodes, edges)
}

/** A plan, the agents and tools that its steps run, and the agents whose memory it reads. */
const graphOfPlan = (definition: PlanDefinition, agents: SeenAgents): AgentGraphModel => {
  const id = `plan:${definition.name}`
  const nodes: Array<NodeModel> = [
    {
      _tag: "Plan",
      id,
      name: definition.name,
      ...(definition.description === undefined ? {} : { description: definition.description }),
      steps: definition.steps.map(({ name }) => name)
    }
  ]
  const edges: Array<EdgeModel> = []
  const named = new Set<string>()

  const agentAt = (name: string): string => {
    const found = ownName(agents, name)
    if (named.has(name)) return found?.name ?? name
    named.add(name)
    if (found === undefined) {
      nodes.push(agentNode(name, undefined, agents))
      return name
    }
    const inner = graphOfAgent(found.name ?? name, found, agents)
    nodes.push(...inner.nodes)
    edges.push(...inner.edges)
    return found.name ?? name
  }

  for (const step of definition.steps) {
    const { kind, name } = step.target
    if (kind === "agent" || (kind === "tool" && ownName(agents, name) !== undefined)) {
      edges.push({ from: id, to: agentAt(name), label: step.name, kind: "step" })
    } else if (kind === "tool") {
      nodes.push(toolNode(name))
      edges.push({ from: id, to: `tool:${name}`, label: step.name, kind: "step" })
    }
    for (const { reference } of planFlow.referencesOf(step)) {
      if (reference._tag === "FromMemory" || reference._tag === "FromAgent") {
        edges.push({ from: agentAt(reference.agent), to: id, label: step.name, kind: "context" })
      }
    }
  }
  return addEdgeTo({ sessionId: "", nodes: [], edges: [] }, nodes, edges)
}

const graphName = "agent graph"

const WireNodeV2 = Schema.Union([
  Schema.Struct({
    type: Schema.Literal("agent"),
    id: Schema.String,
    name: Schema.String,
    provider: Schema.String,
    model: Schema.String,
    system: Schema.optionalKey(Schema.String),
    engine_type: Schema.String,
    tools: Schema.Array(Schema.String)
  }),
  Schema.Struct({ type: Schema.Literal("tool"), id: Schema.String, name: Schema.String }),
  Schema.Struct({
    type: Schema.Literal("router"),
    id: Schema.String,
    name: Schema.String,
    routes: Schema.Array(Schema.Struct({ label: Schema.String, to: Schema.String })),
    default: Schema.optionalKey(Schema.String)
  }),
  Schema.Struct({
    type: Schema.Literal("plan"),
    id: Schema.String,
    name: Schema.String,
    description: Schema.optionalKey(Schema.String),
    steps: Schema.Array(Schema.String)
  })
])

const WireV2 = Schema.Struct({
  version: Schema.Literal(2),
  session_id: Schema.String,
  nodes: Schema.Array(WireNodeV2),
  edges: Schema.Array(
    Schema.Struct({
      from: Schema.String,
      to: Schema.String,
      label: Schema.String,
      type: Schema.Literals(["tool", "context", "router", "step"])
    })
  )
})

/**
 * The arm of version 2.
 */
const armV2 = VersionedCodec.arm<AgentGraphModel, typeof WireV2.Type>({
  version: 2,
  wire: WireV2,
  toCurrent: ({ edges, nodes, session_id }) =>
    checkUniqueIds(nodes, {
      sessionId: session_id,
      nodes: nodes.map(fromWireV2),
      edges: edges.map(({ from, label, to, type }) => ({ from, to, label, kind: type }))
    }),
  fromCurrent: ({ edges, nodes, sessionId }) =>
    Effect.flatMap(
      checkUniqueIds(nodes, {
        version: 2 as const,
        session_id: sessionId,
        nodes: nodes.map(toWireV2),
        edges: edges.map(({ from, kind, label, to }) => ({ from, to, label, type: kind }))
      }),
      VersionedCodec.lossless
    )
})

const WireNodeV1 = Schema.Struct({
  id: Schema.String,
  name: Schema.optionalKey(Schema.String),
  type: Schema.optionalKey(Schema.Literals(["agent", "router", "tool"])),
  provider: Schema.optionalKey(Schema.String),
  model: Schema.optionalKey(Schema.String),
  system: Schema.optionalKey(Schema.NullOr(Schema.String)),
  engine_type: Schema.optionalKey(Schema.String),
  tools: Schema.optionalKey(Schema.Array(Schema.String)),
  routes: Schema.optionalKey(Schema.Record(Schema.String, Schema.String)),
  default: Schema.optionalKey(Schema.NullOr(Schema.String))
})

const WireV1 = Schema.Struct({
  version: Schema.Literal(1),
  session_id: Schema.optionalKey(Schema.String),
  nodes: Schema.optionalKey(Schema.Array(WireNodeV1)),
  edges: Schema.optionalKey(
    Schema.Array(
      Schema.Struct({
        from: Schema.String,
        to: Schema.String,
        label: Schema.optionalKey(Schema.String),
        type: Schema.optionalKey(Schema.Literals(["tool", "context", "router"]))
      })
    )
  )
})

/**
 * The arm of version 1.
 */
const armV1 = VersionedCodec.arm<AgentGraphModel, typeof WireV1.Type>({
  version: 1,
  wire: WireV1,
  onExcessProperty: "ignore",
  toCurrent: ({ edges = [], nodes = [], session_id = "" }) =>
    Effect.succeed({
      sessionId: session_id,
      nodes: uniqueNodes(nodes.map(fromWireV1)),
      edges: edges.map(({ from, label = "", to, type = "tool" }) => ({ from, to, label, kind: type }))
    }),
  fromCurrent: ({ edges, nodes, sessionId }) => {
    const written = nodes.map(toWireV1)
    return VersionedCodec.lossy(
      {
        version: 1 as const,
        session_id: sessionId,
        nodes: written.map(([node]) => node),
        edges: edges.map(edgeToWireV1)
      },
      [
        ...written.flatMap(([, losses]) => losses),
        ...edges.flatMap(({ kind }, index): ReadonlyArray<PayloadError.Loss> =>
          kind === "step" ? [{ path: `/edges/${index}/type`, what: "that an edge is a step" }] : []
        )
      ]
    )
  }
})

const codec: VersionedCodec.VersionedCodec<AgentGraphModel> = VersionedCodec.make({
  what: graphName,
  field: "version",
  type: AgentGraphModel,
  arms: [armV1, armV2],
  data: ["/nodes/*/routes"]
})

/** Version 1 was written without a version. */
const readTag = (json: Schema.Json): Schema.Json =>
  Json.isObject(json) && !Object.hasOwn(json, "version") ? { ...json, version: 1 } : json

const decodeGraph = (
  input: unknown,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentGraphModel, PayloadError.PayloadError> =>
  Effect.flatMap(Json.check(input, { what: graphName, limits: options?.limits }), (json) =>
    codec.decode(readTag(json), options)
  )

const decodeGraphJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentGraphModel, PayloadError.PayloadError> =>
  Effect.flatMap(Json.parse(input, { what: graphName, limits: options?.limits }), (json) =>
    codec.decode(readTag(json), options)
  )

const fromWireV2 = (node: typeof WireNodeV2.Type): NodeModel => {
  switch (node.type) {
    case "agent": {
      const { engine_type: engine, type: _, ...rest } = node
      return { _tag: "Agent", engine, ...rest }
    }
    case "tool":
      return { _tag: "Tool", id: node.id, name: node.name }
    case "router": {
      const { type: _, ...rest } = node
      return { _tag: "Router", ...rest }
    }
    case "plan": {
      const { type: _, ...rest } = node
      return { _tag: "Plan", ...rest }
    }
  }
}

const toWireV2 = (node: NodeModel): typeof WireNodeV2.Type => {
  switch (node._tag) {
    case "Agent": {
      const { _tag, engine, ...rest } = node
      return { type: "agent", engine_type: engine, ...rest }
    }
    case "Tool":
      return { type: "tool", id: node.id, name: node.name }
    case "Router": {
      const { _tag, ...rest } = node
      return { type: "router", ...rest }
    }
    case "Plan": {
      const { _tag, ...rest } = node
      return { type: "plan", ...rest }
    }
  }
}

/** Each id is the id of one node. */
const checkUniqueIds = <A>(nodes: ReadonlyArray<{ readonly id: string }>, value: A) => {
  const seen = new Set<string>()
  const issues = nodes.flatMap(({ id }, index) => {
    if (!seen.has(id)) {
      seen.add(id)
      return []
    }
    return [{ path: `/nodes/${index}/id`, expected: "an id that no other node has", found: "the id of another node" }]
  })
  return issues.length === 0 ? Effect.succeed(value) : Effect.fail(PayloadError.invalid(issues))
}

type WireNodeV1 = typeof WireNodeV1.Type

const presentKeys = <K extends string>(key: K, value: string | null | undefined): { readonly [_ in K]?: string } =>
  // Sound: the only key is K, and it is absent or a string.
  (value === undefined || value === null ? {} : { [key]: value }) as { readonly [_ in K]?: string }

const fromWireV1 = (node: WireNodeV1): NodeModel => {
  const { id, name = id } = node
  switch (node.type ?? "agent") {
    case "tool":
      return { _tag: "Tool", id, name }
    case "router": {
      const routes = Object.entries(node.routes ?? {}).map(([label, to]) => ({ label, to }))
      return { _tag: "Router", id, name, routes, ...presentKeys("default", node.default) }
    }
    case "agent": {
      const { engine_type: engine = "", model = "", provider = "", tools = [] } = node
      return { _tag: "Agent", id, name, provider, model, ...presentKeys("system", node.system), engine, tools }
    }
  }
}

/** A node with the id of an earlier one takes its place. */
const uniqueNodes = (nodes: ReadonlyArray<NodeModel>): ReadonlyArray<NodeModel> => [
  ...new Map(nodes.map((node) => [node.id, node])).values()
]

const toWireV1 = (node: NodeModel, index: number): readonly [WireNodeV1, ReadonlyArray<PayloadError.Loss>] => {
  const { id, name } = node
  switch (node._tag) {
    case "Tool":
      return [{ id, name, type: "tool" }, []]
    case "Router": {
      const routes = Object.fromEntries(node.routes.map(({ label, to }) => [label, to]))
      const kept = Object.entries(routes).map(([label, to]) => ({ label, to }))
      const same = JSON.stringify(kept) === JSON.stringify(node.routes.map(({ label, to }) => ({ label, to })))
      return [
        { id, name, routes, default: node.default ?? null, type: "router" },
        same ? [] : [{ path: `/nodes/${index}/routes`, what: "the order of routes, or routes with one label" }]
      ]
    }
    case "Plan":
      return [
        { id, name, provider: "Plan", model: "Plan", system: null, engine_type: "Plan", tools: [], type: "agent" },
        [{ path: `/nodes/${index}/type`, what: "that a node is a plan, and its steps" }]
      ]
    case "Agent": {
      const { engine, model, provider, system, tools } = node
      return [{ id, name, provider, model, system: system ?? null, engine_type: engine, tools, type: "agent" }, []]
    }
  }
}

const edgeToWireV1 = ({ from, kind, label, to }: EdgeModel) =>
  ({ from, to, label, type: kind === "step" ? "tool" : kind }) as const

const nodeShapes: Readonly<Record<NodeModel["_tag"], diagram.Shape>> = {
  Agent: "agent",
  Tool: "tool",
  Router: "choice",
  Plan: "plan"
}

const kindNames: Readonly<Record<EdgeKindModel, diagram.Edge["kind"]>> = {
  tool: "flow",
  step: "flow",
  router: "rejoin",
  context: "data"
}

const nodeLines = (node: NodeModel): ReadonlyArray<string> => {
  switch (node._tag) {
    case "Agent": {
      const model = [node.provider, node.model].filter((part) => part !== "").join("/")
      return [planNames.displayName(node.name), "agent", ...(model === "" ? [] : [planNames.escapeInvisible(model)])]
    }
    case "Tool":
      return [planNames.displayName(node.name), "tool"]
    case "Router":
      return [planNames.displayName(node.name), "router"]
    case "Plan":
      return [
        planNames.displayName(node.name),
        `plan of ${node.steps.length === 1 ? "one step" : `${node.steps.length} steps`}`
      ]
  }
}

/** A label that only repeats the name of what an edge leads to is left out. */
const drawGraph = (graph: AgentGraphModel, direction: "down" | "right"): diagram.Drawing => {
  const items = new Map<string, diagram.Item>()
  const names = new Map(graph.nodes.map(({ id, name }) => [id, name]))
  for (const node of graph.nodes) {
    items.set(node.id, { _tag: "Node", key: node.id, shape: nodeShapes[node._tag], lines: nodeLines(node) })
  }
  for (const id of graph.edges.flatMap(({ from, to }) => [from, to])) {
    if (items.has(id)) continue
    items.set(id, {
      _tag: "Node",
      key: id,
      shape: "unknown",
      lines: [planNames.displayName(id), "not in the graph"],
      mark: "unknown"
    })
  }
  return {
    direction,
    items: [...items.values()],
    edges: graph.edges.map(({ from, kind, label, to }) => ({
      from,
      to,
      kind: kindNames[kind],
      label: label === "" || label === names.get(to) ? undefined : planNames.displayName(label)
    }))
  }
}
