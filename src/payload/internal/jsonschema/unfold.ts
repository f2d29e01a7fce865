import type { Node } from "./model.ts"

/** The parts that look at the same value, as core's import knows them. */
export const inPlace = (node: Node): ReadonlyArray<Node> => [
  ...(node.reference === undefined ? [] : [node.reference]),
  ...node.allOf,
  ...node.choices.flatMap(({ branches }) => branches)
]

/** The parts that look at members, each at another one. */
export const inside = ({ array, object }: Node): ReadonlyArray<Node> => [
  ...(object === undefined ? [] : [...object.properties.values(), ...object.patterns.map(([, node]) => node)]),
  ...(object?.additional === undefined ? [] : [object.additional]),
  ...(array === undefined ? [] : array.prefix),
  ...(array?.rest === undefined ? [] : [array.rest])
]

/**
 * How often a reader without a budget looks at one part of a value, at worst:
 * alternatives that refer to the same schema twice double it, level by level. A
 * schema that comes back to itself inside the value is counted once.
 */
export const looks = (root: Node): number => {
  const known = new Map<Node, number>()
  const open = new Set<Node>()
  const stack: Array<Node> = [root]
  const of = (node: Node) => known.get(node) ?? 1
  for (let node = stack.at(-1); node !== undefined; node = stack.at(-1)) {
    const parts = known.has(node) || open.has(node) ? [] : [...inPlace(node), ...inside(node)]
    if (parts.length > 0) {
      open.add(node)
      for (const part of parts) if (!known.has(part) && !open.has(part)) stack.push(part)
      continue
    }
    stack.pop()
    if (known.has(node)) continue
    const most = inside(node).reduce((most, part) => Math.max(most, of(part)), 0)
    known.set(
      node,
      inPlace(node).reduce((sum, part) => sum + of(part), 1 + most)
    )
  }
  return of(root)
}
