import * as Graph from "effect/Graph"
import type * as Schema from "effect/Schema"
import type { Node } from "./model.ts"
import { inPlace, inside } from "./unfold.ts"

/** Members of a value that lead back into a recursion, and how many schemas look at each. `*` is any member. */
type Looks = ReadonlyMap<string, number>

const any = "*"
const item = "[]"

const everyNode = (root: Node): ReadonlyArray<Node> => {
  const nodes = new Set([root])
  for (const node of nodes) for (const part of [...inPlace(node), ...inside(node)]) nodes.add(part)
  return Array.from(nodes)
}

/** The recursion that each node is part of, if any. */
const recursions = (nodes: ReadonlyArray<Node>): ReadonlyMap<Node, number> => {
  const graph = Graph.directed<Node, undefined>((graph) => {
    const index = new Map(nodes.map((node) => [node, Graph.addNode(graph, node)]))
    for (const [node, from] of index) {
      for (const part of [...inPlace(node), ...inside(node)]) {
        const to = index.get(part)
        if (to !== undefined) Graph.addEdge(graph, from, to, undefined)
      }
    }
  })
  const found = new Map<Node, number>()
  for (const [id, component] of Graph.stronglyConnectedComponents(graph).entries()) {
    if (component.length < 2) continue
    for (const index of component) {
      const node = nodes[index]
      if (node !== undefined) found.set(node, id)
    }
  }
  return found
}

const sum = (all: ReadonlyArray<Looks>): Looks => combine(all, (a, b) => a + b)

const most = (all: ReadonlyArray<Looks>): Looks => combine(all, Math.max)

const combine = (all: ReadonlyArray<Looks>, f: (a: number, b: number) => number): Looks => {
  const total = new Map<string, number>()
  for (const looks of all) for (const [key, count] of looks) total.set(key, f(total.get(key) ?? 0, count))
  return total
}

const own = ({ array, object }: Node, leadsBack: (node: Node) => boolean): Looks => {
  const members: Array<readonly [key: string, node: Node]> = [
    ...(object?.properties ?? []),
    ...(object?.patterns ?? []).map(([, node]) => [any, node] as const),
    ...(object?.additional === undefined ? [] : [[any, object.additional] as const]),
    ...(array?.prefix ?? []).map((node, at) => [`${item}${at}`, node] as const),
    ...(array?.rest === undefined ? [] : [[item, array.rest] as const])
  ]
  return sum(members.filter(([, node]) => leadsBack(node)).map(([key]) => new Map([[key, 1]])))
}

/** Every schema that a value of a branch has to fit, choices left out. */
const certain = (branch: Node): ReadonlyArray<Node> => {
  const nodes = new Set([branch])
  for (const node of nodes) {
    for (const part of node.reference === undefined ? node.allOf : [node.reference, ...node.allOf]) nodes.add(part)
  }
  return Array.from(nodes)
}

type Literals = (node: Node) => ReadonlyArray<Schema.Json> | undefined

/** The required properties of a branch that admit a few literals only. */
const tags = (branch: Node, literals: Literals): ReadonlyMap<string, ReadonlyArray<Schema.Json>> => {
  const found = new Map<string, ReadonlyArray<Schema.Json>>()
  for (const { object } of certain(branch)) {
    for (const key of object?.required ?? []) {
      const node = object?.properties.get(key)
      const values = node === undefined ? undefined : literals(node)
      if (values !== undefined) found.set(key, values)
    }
  }
  return found
}

/** Whether one property tells the branches apart, so that core reads one of them only. */
const tagged = (branches: ReadonlyArray<Node>, literals: Literals): boolean => {
  const [first, ...rest] = branches.map((branch) => tags(branch, literals))
  return Array.from(first ?? []).some(([key, values]) => {
    const all = [values, ...rest.map((other) => other.get(key))]
    const seen = all.flatMap((some) => some ?? [])
    return all.every((some) => some !== undefined) && new Set(seen).size === seen.length
  })
}

/**
 * Whether a reader that tries every alternative looks at some member twice at each
 * level of a recursion: then its work doubles with every level of the value.
 */
export const revisits = (root: Node, literals: Literals): boolean => {
  const nodes = everyNode(root)
  const recursion = recursions(nodes)
  const known = new Map<Node, Looks>()
  // References that consume nothing form no circle and short chains only, so this ends soon.
  const looks = (node: Node): Looks => {
    const before = known.get(node)
    if (before !== undefined) return before
    const id = recursion.get(node)
    const within = (part: Node) => id !== undefined && recursion.get(part) === id
    const of = (parts: ReadonlyArray<Node>) => parts.filter(within).map(looks)
    const after = sum([
      own(node, within),
      ...of(node.reference === undefined ? node.allOf : [node.reference, ...node.allOf]),
      ...node.choices.map(({ branches }) => (tagged(branches, literals) ? most(of(branches)) : sum(of(branches))))
    ])
    known.set(node, after)
    return after
  }
  return nodes.some((node) => {
    const found = looks(node)
    return Array.from(found).some(([key, count]) => {
      const wild = key.startsWith(item) ? item : any
      return count + (key === wild ? 0 : (found.get(wild) ?? 0)) > 1
    })
  })
}
