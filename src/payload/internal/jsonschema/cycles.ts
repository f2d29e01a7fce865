import type { Node } from "./model.ts"

/** The subschemas of each node that look at the same value. */
type SameValue = ReadonlyMap<Node, ReadonlyArray<Node>>

type CycleProblem =
  | { readonly _tag: "Cycle"; readonly node: Node }
  | { readonly _tag: "TooLong"; readonly node: Node; readonly limit: number }

/** Chains of schemas over one value may be this long. */
const maxChain = 100

/** Finds a way from a schema back to itself that consumes nothing, or a chain that is too long. Not recursive. */
export const findCycle = (edges: SameValue): CycleProblem | undefined => {
  const length = new Map<Node, number>()
  const open = new Set<Node>()
  for (const start of edges.keys()) {
    const stack: Array<{ readonly node: Node; readonly next: ReadonlyArray<Node>; at: number }> = []
    const push = (node: Node) => {
      open.add(node)
      stack.push({ node, next: edges.get(node) ?? [], at: 0 })
    }
    if (!length.has(start)) push(start)
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const next = top.next[top.at++]
      if (next === undefined) {
        const longest = 1 + top.next.reduce((most, node) => Math.max(most, length.get(node) ?? 0), 0)
        if (longest > maxChain) return { _tag: "TooLong", node: top.node, limit: maxChain }
        length.set(top.node, longest)
        open.delete(top.node)
        stack.pop()
      } else if (open.has(next)) {
        const cycle = stack.slice(stack.findIndex(({ node }) => node === next)).map(({ node }) => node)
        // a tree has no cycles, so one of its steps is a reference
        const node = cycle.find((from, at) => from.reference === (cycle[at + 1] ?? next)) ?? top.node
        return { _tag: "Cycle", node }
      } else if (!length.has(next)) push(next)
    }
  }
  return undefined
}
