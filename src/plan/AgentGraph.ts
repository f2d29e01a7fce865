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
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import type { AgentDefinition } from "../agent/AgentDefinition.ts"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type * as VersionedCodec from "../payload/VersionedCodec.ts"
import * as build from "./internal/graph/build.ts"
import * as codec from "./internal/graph/codec.ts"
import { draw } from "./internal/graph/drawing.ts"
import * as internal from "./internal/graph/model.ts"
import * as dot from "./internal/picture/dot.ts"
import * as mermaid from "./internal/picture/mermaid.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"

/**
 * An agent. `tools` are the names of its tools that are no agents; `engine` says what
 * runs it, in the words of whoever wrote the graph. An agent that is only known by its
 * name has no provider, no model and no engine.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentNode = internal.AgentNode

/**
 * A tool. Its id is `tool:` and its name.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolNode = internal.ToolNode

/**
 * Something that hands a task to one of several nodes. We read and write it; we never
 * make one.
 *
 * @category models
 * @since 0.1.0
 */
export type RouterNode = internal.RouterNode

/**
 * A plan, with the names of its steps. Its id is `plan:` and its name.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanNode = internal.PlanNode

/**
 * A node of a graph.
 *
 * @category models
 * @since 0.1.0
 */
export type Node = internal.Node

/**
 * What an edge says: `tool`, that an agent calls a tool or another agent; `step`, that a
 * plan runs an agent or a tool in a step; `context`, that a plan reads what an agent
 * remembers or answered; `router`, that a router leads there.
 *
 * @category models
 * @since 0.1.0
 */
export type EdgeKind = internal.EdgeKind

/**
 * An edge, from one id to another. The label of an edge to an agent behind a tool is
 * the name of that tool, of an edge of a plan the name of the step.
 *
 * @category models
 * @since 0.1.0
 */
export type Edge = internal.Edge

/**
 * A graph of agents. Ids of nodes are unique; edges may lead to what is not in it.
 *
 * @category models
 * @since 0.1.0
 */
export type AgentGraph = internal.AgentGraph

/**
 * Schema of the graph in memory. For JSON there are {@link encode} and {@link decode}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AgentGraph: Schema.Codec<AgentGraph> = internal.AgentGraph

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
 * import { AgentDefinition, AgentGraph, ToolContract } from "effect-emissary"
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
  build.agent(options?.id, definition, options?.agents)

/**
 * The graph of a plan: the plan, the agents and tools of its steps, and the agents whose
 * memory or answers it reads. Functions are not in it.
 *
 * **Example** (A plan and its agent)
 *
 * ```ts
 * import assert from "node:assert"
 * import { AgentGraph } from "effect-emissary"
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
): AgentGraph => build.plan("definition" in plan ? plan.definition : plan, options?.agents)

/**
 * The graph with a node. A node with the same id is replaced, in its place.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addNode = (self: AgentGraph, node: Node): AgentGraph => build.add(self, [node], [])

/**
 * The graph with an edge. One that is there already is not added again.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addEdge = (self: AgentGraph, edge: Edge): AgentGraph => build.add(self, [], [edge])

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
    (graph, other) => build.add(graph, other.nodes, other.edges),
    build.add({ ...self, edges: [] }, [], self.edges)
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
): Effect.Effect<JsonObject, PayloadError | LossyEncoding> => codec.codec.encode(self, options)

/**
 * Writes a graph as JSON text; see {@link encode}.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  self: AgentGraph,
  options?: VersionedCodec.EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError | LossyEncoding> => codec.codec.encodeJson(self, options)

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
 * import { AgentGraph } from "effect-emissary"
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
): Effect.Effect<AgentGraph, PayloadError> => codec.decode(input, options)

/**
 * Reads a graph from JSON text or bytes; see {@link decode}.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<AgentGraph, PayloadError> => codec.decodeJson(input, options)

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
 * import { AgentGraph } from "effect-emissary"
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
  mermaid.write(draw(self, options?.direction ?? "right"))

/**
 * A graph in the language of GraphViz, for `dot`.
 *
 * @category converting
 * @since 0.1.0
 */
export const toGraphViz = (self: AgentGraph, options?: PictureOptions): string =>
  dot.write(draw(self, options?.direction ?? "right"))
