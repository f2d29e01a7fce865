/** Graphs of definitions: of agents with their tools, and of plans with what their steps run. */
import type { AgentDefinition } from "../../../agent/AgentDefinition.ts"
import type { PlanDefinition } from "../../PlanDefinition.ts"
import { referencesOf } from "../references.ts"
import type { AgentGraph, AgentNode, Edge, Node } from "./model.ts"

const keyOf = ({ from, kind, label, to }: Edge): string => JSON.stringify([from, to, kind, label])

/** A node with the id of an earlier one takes its place; an edge that is there is not added again. */
export const add = (graph: AgentGraph, nodes: Iterable<Node>, edges: Iterable<Edge>): AgentGraph => {
  const byId = new Map(graph.nodes.map((node) => [node.id, node]))
  for (const node of nodes) byId.set(node.id, node)
  const known = new Set(graph.edges.map(keyOf))
  const added: Array<Edge> = []
  for (const edge of edges) {
    const key = keyOf(edge)
    if (known.has(key)) continue
    known.add(key)
    added.push(edge)
  }
  return { sessionId: graph.sessionId, nodes: [...byId.values()], edges: [...graph.edges, ...added] }
}

type Agents = { readonly [name: string]: AgentDefinition } | undefined

const own = (agents: Agents, name: string): AgentDefinition | undefined =>
  agents !== undefined && Object.hasOwn(agents, name) ? agents[name] : undefined

const toolNode = (name: string): Node => ({ _tag: "Tool", id: `tool:${name}`, name })

const agentNode = (id: string, definition: AgentDefinition | undefined, agents: Agents): AgentNode => {
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
    tools: tools.filter(({ name }) => own(agents, name) === undefined).map(({ name }) => name)
  }
}

/** An agent, its tools, and the agents behind tools, with the tools of those. */
export const agent = (id: string | undefined, definition: AgentDefinition, agents: Agents): AgentGraph => {
  const nodes: Array<Node> = []
  const edges: Array<Edge> = []
  const done = new Set<string>()

  const visit = (id: string, definition: AgentDefinition) => {
    if (done.has(id)) return
    done.add(id)
    nodes.push(agentNode(id, definition, agents))
    const inner: Array<readonly [string, AgentDefinition]> = []
    for (const { name } of definition.tools) {
      const behind = own(agents, name)
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
  return add({ sessionId: "", nodes: [], edges: [] }, nodes, edges)
}

/** A plan, the agents and tools that its steps run, and the agents whose memory it reads. */
export const plan = (definition: PlanDefinition, agents: Agents): AgentGraph => {
  const id = `plan:${definition.name}`
  const nodes: Array<Node> = [
    {
      _tag: "Plan",
      id,
      name: definition.name,
      ...(definition.description === undefined ? {} : { description: definition.description }),
      steps: definition.steps.map(({ name }) => name)
    }
  ]
  const edges: Array<Edge> = []
  const named = new Set<string>()

  const agentAt = (name: string): string => {
    const found = own(agents, name)
    if (named.has(name)) return found?.name ?? name
    named.add(name)
    if (found === undefined) {
      nodes.push(agentNode(name, undefined, agents))
      return name
    }
    const inner = agent(found.name ?? name, found, agents)
    nodes.push(...inner.nodes)
    edges.push(...inner.edges)
    return found.name ?? name
  }

  for (const step of definition.steps) {
    const { kind, name } = step.target
    if (kind === "agent" || (kind === "tool" && own(agents, name) !== undefined)) {
      edges.push({ from: id, to: agentAt(name), label: step.name, kind: "step" })
    } else if (kind === "tool") {
      nodes.push(toolNode(name))
      edges.push({ from: id, to: `tool:${name}`, label: step.name, kind: "step" })
    }
    for (const { reference } of referencesOf(step)) {
      if (reference._tag === "FromMemory" || reference._tag === "FromAgent") {
        edges.push({ from: agentAt(reference.agent), to: id, label: step.name, kind: "context" })
      }
    }
  }
  return add({ sessionId: "", nodes: [], edges: [] }, nodes, edges)
}
