/** The edges of what steps read and write. */
import type { PlanDefinition } from "../../PlanDefinition.ts"
import { positionsOf, turnAt } from "../bands.ts"
import type { Edge, Node } from "./drawing.ts"
import { referencesOf } from "../references.ts"
import { nameOf } from "./text.ts"

/** What steps read and write, without what just comes from the step before. */
export const dataOf = (
  definition: PlanDefinition,
  prefix: string,
  keys: ReadonlyArray<string>,
  drawn: ReadonlyArray<{ readonly entry: string; readonly exit: string }>
): { readonly items: ReadonlyArray<Node>; readonly edges: ReadonlyArray<Edge> } => {
  const { steps } = definition
  const positions = positionsOf(steps)
  const stores = new Map<string, Node>()
  const edges = new Map<string, Edge>()

  const store = (kind: string, title: string, name: string): string => {
    const key = `${prefix}${JSON.stringify([kind, name])}`
    if (!stores.has(key)) stores.set(key, { _tag: "Node", key, shape: "store", lines: [title, nameOf(name)] })
    return key
  }
  const add = (from: string, to: string, label: string) => {
    const key = JSON.stringify([from, to, label])
    if (!edges.has(key)) edges.set(key, { from, to, label, kind: "data" })
  }
  const membersOf = (name: string, whole: boolean): ReadonlyArray<number> => {
    const position = positions.get(name)
    if (position === undefined) return []
    return whole ? turnAt(steps, position) : [position]
  }

  for (const [index, step] of steps.entries()) {
    const here = drawn[index]
    if (here === undefined) continue
    // A step can name one band as often as it has contexts
    const read = { task: new Set<number>(), context: new Set<number>() }
    for (const { reference, slot } of referencesOf(step)) {
      switch (reference._tag) {
        case "FromStart":
          add(`${prefix}start`, here.entry, slot)
          break
        case "FromStep":
        case "FromParallel":
        case "FromParallelAll":
          for (const member of membersOf(reference.step, reference._tag === "FromParallelAll")) {
            if (read[slot].has(member)) continue
            read[slot].add(member)
            add(drawn[member]?.exit ?? keys[member] ?? "", here.entry, slot)
          }
          break
        case "FromMemory":
          add(store("memory", "memory of", reference.agent), here.entry, slot)
          break
        case "FromAgent":
          add(store("answer", "last answer of", reference.agent), here.entry, slot)
          break
        case "FromPrev":
        case "Literal":
          break
      }
    }
    if (step.writes !== undefined) add(here.exit, store("writes", "store", step.writes), "writes")
  }
  return { items: [...stores.values()], edges: [...edges.values()] }
}
