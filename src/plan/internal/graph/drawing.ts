/** A graph as a drawing. */
import type { Drawing, Edge, Item, Shape } from "../picture/drawing.ts"
import { nameOf, visible } from "../picture/text.ts"
import type { AgentGraph, EdgeKind, Node } from "./model.ts"

const shapes: Readonly<Record<Node["_tag"], Shape>> = { Agent: "agent", Tool: "tool", Router: "choice", Plan: "plan" }

const kinds: Readonly<Record<EdgeKind, Edge["kind"]>> = {
  tool: "flow",
  step: "flow",
  router: "rejoin",
  context: "data"
}

const linesOf = (node: Node): ReadonlyArray<string> => {
  switch (node._tag) {
    case "Agent": {
      const model = [node.provider, node.model].filter((part) => part !== "").join("/")
      return [nameOf(node.name), "agent", ...(model === "" ? [] : [visible(model)])]
    }
    case "Tool":
      return [nameOf(node.name), "tool"]
    case "Router":
      return [nameOf(node.name), "router"]
    case "Plan":
      return [nameOf(node.name), `plan of ${node.steps.length === 1 ? "one step" : `${node.steps.length} steps`}`]
  }
}

/** A label that only repeats the name of what an edge leads to is left out. */
export const draw = (graph: AgentGraph, direction: "down" | "right"): Drawing => {
  const items = new Map<string, Item>()
  const names = new Map(graph.nodes.map(({ id, name }) => [id, name]))
  for (const node of graph.nodes) {
    items.set(node.id, { _tag: "Node", key: node.id, shape: shapes[node._tag], lines: linesOf(node) })
  }
  for (const id of graph.edges.flatMap(({ from, to }) => [from, to])) {
    if (items.has(id)) continue
    items.set(id, {
      _tag: "Node",
      key: id,
      shape: "unknown",
      lines: [nameOf(id), "not in the graph"],
      mark: "unknown"
    })
  }
  return {
    direction,
    items: [...items.values()],
    edges: graph.edges.map(({ from, kind, label, to }) => ({
      from,
      to,
      kind: kinds[kind],
      label: label === "" || label === names.get(to) ? undefined : nameOf(label)
    }))
  }
}
