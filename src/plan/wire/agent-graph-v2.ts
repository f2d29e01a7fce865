/**
 * Version 2 of the wire of agents' graphs: our own. It is strict, and knows plans and
 * their steps.
 *
 * FROZEN: what this module reads and writes never changes again.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { invalid } from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { AgentGraph, Node } from "../internal/graph/model.ts"

const WireNode = Schema.Union([
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

const Wire = Schema.Struct({
  version: Schema.Literal(2),
  session_id: Schema.String,
  nodes: Schema.Array(WireNode),
  edges: Schema.Array(
    Schema.Struct({
      from: Schema.String,
      to: Schema.String,
      label: Schema.String,
      type: Schema.Literals(["tool", "context", "router", "step"])
    })
  )
})

const fromWire = (node: typeof WireNode.Type): Node => {
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

const toWire = (node: Node): typeof WireNode.Type => {
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
const unique = <A>(nodes: ReadonlyArray<{ readonly id: string }>, value: A) => {
  const seen = new Set<string>()
  const issues = nodes.flatMap(({ id }, index) => {
    if (!seen.has(id)) {
      seen.add(id)
      return []
    }
    return [{ path: `/nodes/${index}/id`, expected: "an id that no other node has", found: "the id of another node" }]
  })
  return issues.length === 0 ? Effect.succeed(value) : Effect.fail(invalid(issues))
}

/**
 * The arm of version 2.
 *
 * @category arms
 * @since 0.1.0
 */
export const arm = VersionedCodec.arm<AgentGraph, typeof Wire.Type>({
  version: 2,
  wire: Wire,
  toCurrent: ({ edges, nodes, session_id }) =>
    unique(nodes, {
      sessionId: session_id,
      nodes: nodes.map(fromWire),
      edges: edges.map(({ from, label, to, type }) => ({ from, to, label, kind: type }))
    }),
  fromCurrent: ({ edges, nodes, sessionId }) =>
    Effect.flatMap(
      unique(nodes, {
        version: 2 as const,
        session_id: sessionId,
        nodes: nodes.map(toWire),
        edges: edges.map(({ from, kind, label, to }) => ({ from, to, label, type: kind }))
      }),
      VersionedCodec.lossless
    )
})
