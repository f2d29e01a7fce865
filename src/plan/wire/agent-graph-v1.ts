/**
 * Version 1 of the wire of agents' graphs: LazyBridge's descriptor, which has no version
 * field itself. What is absent has the defaults of its reader; what it does not know is
 * ignored, but a kind of node or edge that it does not know is refused.
 *
 * FROZEN: what this module reads and writes never changes again.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { Loss } from "../../payload/LossyEncoding.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { AgentGraph, Edge, Node } from "../internal/graph/model.ts"

const WireNode = Schema.Struct({
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

type WireNode = typeof WireNode.Type

const Wire = Schema.Struct({
  version: Schema.Literal(1),
  session_id: Schema.optionalKey(Schema.String),
  nodes: Schema.optionalKey(Schema.Array(WireNode)),
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

const present = <K extends string>(key: K, value: string | null | undefined): { readonly [_ in K]?: string } =>
  // Sound: the only key is K, and it is absent or a string.
  (value === undefined || value === null ? {} : { [key]: value }) as { readonly [_ in K]?: string }

const fromWire = (node: WireNode): Node => {
  const { id, name = id } = node
  switch (node.type ?? "agent") {
    case "tool":
      return { _tag: "Tool", id, name }
    case "router": {
      const routes = Object.entries(node.routes ?? {}).map(([label, to]) => ({ label, to }))
      return { _tag: "Router", id, name, routes, ...present("default", node.default) }
    }
    case "agent": {
      const { engine_type: engine = "", model = "", provider = "", tools = [] } = node
      return { _tag: "Agent", id, name, provider, model, ...present("system", node.system), engine, tools }
    }
  }
}

/** A node with the id of an earlier one takes its place. */
const inPlace = (nodes: ReadonlyArray<Node>): ReadonlyArray<Node> => [
  ...new Map(nodes.map((node) => [node.id, node])).values()
]

const toWire = (node: Node, index: number): readonly [WireNode, ReadonlyArray<Loss>] => {
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

const edgeToWire = ({ from, kind, label, to }: Edge) =>
  ({ from, to, label, type: kind === "step" ? "tool" : kind }) as const

/**
 * The arm of version 1.
 *
 * @category arms
 * @since 0.1.0
 */
export const arm = VersionedCodec.arm<AgentGraph, typeof Wire.Type>({
  version: 1,
  wire: Wire,
  onExcessProperty: "ignore",
  toCurrent: ({ edges = [], nodes = [], session_id = "" }) =>
    Effect.succeed({
      sessionId: session_id,
      nodes: inPlace(nodes.map(fromWire)),
      edges: edges.map(({ from, label = "", to, type = "tool" }) => ({ from, to, label, kind: type }))
    }),
  fromCurrent: ({ edges, nodes, sessionId }) => {
    const written = nodes.map(toWire)
    return VersionedCodec.lossy(
      {
        version: 1 as const,
        session_id: sessionId,
        nodes: written.map(([node]) => node),
        edges: edges.map(edgeToWire)
      },
      [
        ...written.flatMap(([, losses]) => losses),
        ...edges.flatMap(({ kind }, index): ReadonlyArray<Loss> =>
          kind === "step" ? [{ path: `/edges/${index}/type`, what: "that an edge is a step" }] : []
        )
      ]
    )
  }
})
