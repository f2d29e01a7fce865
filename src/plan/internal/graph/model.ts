/** Graphs of agents in memory, with their schemas. */
import * as Schema from "effect/Schema"

export interface AgentNode {
  readonly _tag: "Agent"
  readonly id: string
  readonly name: string
  readonly provider: string
  readonly model: string
  readonly system?: string
  readonly engine: string
  readonly tools: ReadonlyArray<string>
}

export interface ToolNode {
  readonly _tag: "Tool"
  readonly id: string
  readonly name: string
}

export interface RouterNode {
  readonly _tag: "Router"
  readonly id: string
  readonly name: string
  readonly routes: ReadonlyArray<{ readonly label: string; readonly to: string }>
  readonly default?: string
}

export interface PlanNode {
  readonly _tag: "Plan"
  readonly id: string
  readonly name: string
  readonly description?: string
  readonly steps: ReadonlyArray<string>
}

export type Node = AgentNode | ToolNode | RouterNode | PlanNode

export type EdgeKind = "tool" | "context" | "router" | "step"

export interface Edge {
  readonly from: string
  readonly to: string
  readonly label: string
  readonly kind: EdgeKind
}

export interface AgentGraph {
  readonly sessionId: string
  readonly nodes: ReadonlyArray<Node>
  readonly edges: ReadonlyArray<Edge>
}

export const Node: Schema.Codec<Node> = Schema.Union([
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

export const Edge: Schema.Codec<Edge> = Schema.Struct({
  from: Schema.String,
  to: Schema.String,
  label: Schema.String,
  kind: Schema.Literals(["tool", "context", "router", "step"])
})

export const AgentGraph: Schema.Codec<AgentGraph> = Schema.Struct({
  sessionId: Schema.String,
  nodes: Schema.Array(Node),
  edges: Schema.Array(Edge)
})
