/** Two plans and their difference as one drawing. */
import type { PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"
import { compare, pairs, stepFields } from "../diff/compare.ts"
import type { Drawing, Edge, Item, Mark, Node } from "./drawing.ts"
import { flowOf } from "./flow.ts"
import { endKey, flowEdges, grouped, linesOf, node, startKey, stepKeys } from "./planDrawing.ts"
import { nameOf, visible } from "./text.ts"

interface Entry {
  readonly key: string
  readonly parallel: boolean
  readonly item: Item
}

const signs: Readonly<Record<"added" | "removed" | "changed", string>> = {
  added: "+ added",
  removed: "− removed",
  changed: "~ changed"
}

const entry = (
  key: string,
  step: StepDefinition,
  mark: "added" | "removed" | "changed" | undefined,
  what: string
): Entry => {
  const line = mark === undefined ? [] : [`${signs[mark]}${what}`]
  return { key, parallel: step.parallel, item: node(key, step.target.kind, [...linesOf(step), ...line], mark) }
}

/** The steps of both plans: those of the plan after in order, each removed one after the step it followed. */
const entries = (before: PlanDefinition, after: PlanDefinition): ReadonlyArray<Entry> => {
  const from = pairs(before.steps, after.steps)
  const keysBefore = stepKeys(before.steps, "")
  const keysAfter = stepKeys(after.steps, "")
  const moved = new Set(compare(before, after).steps.flatMap((change) => (change._tag === "Moved" ? [change.to] : [])))
  const kept = new Set(from)

  const removedAfter = (position: number): ReadonlyArray<Entry> => {
    const found: Array<Entry> = []
    for (let index = position + 1; index < before.steps.length && !kept.has(index); index++) {
      const step = before.steps[index]
      if (step !== undefined) found.push(entry(`removed ${keysBefore[index]}`, step, "removed", ""))
    }
    return found
  }

  return [
    ...removedAfter(-1),
    ...after.steps.flatMap((step, index) => {
      const position = from[index]
      const old = position === undefined ? undefined : before.steps[position]
      const key = keysAfter[index] ?? ""
      if (position === undefined || old === undefined) return [entry(key, step, "added", "")]
      const fields = [...(moved.has(index) ? ["position"] : []), ...stepFields(old, step).map(({ field }) => field)]
      const mark = fields.length === 0 ? undefined : "changed"
      return [entry(key, step, mark, `: ${visible(fields.join(", "))}`), ...removedAfter(position)]
    })
  ]
}

/** Both plans in one picture. */
export const diffDrawing = (before: PlanDefinition, after: PlanDefinition, direction: "down" | "right"): Drawing => {
  const from = pairs(before.steps, after.steps)
  const keysAfter = stepKeys(after.steps, "")
  const nowAt = new Map(from.flatMap((index, to) => (index === undefined ? [] : [[index, to] as const])))
  const keysBefore = stepKeys(before.steps, "").map((key, index) => {
    const to = nowAt.get(index)
    return to === undefined ? `removed ${key}` : (keysAfter[to] ?? "")
  })

  const old = flowEdges(before, flowOf(before).ways, "", keysBefore, keysBefore)
  const now = flowEdges(after, flowOf(after).ways, "", keysAfter, keysAfter)
  const keyOf = (edge: Edge) => JSON.stringify([edge.from, edge.to, edge.kind, edge.label])
  const edgesBefore = new Set(old.edges.map(keyOf))
  const edgesAfter = new Set(now.edges.map(keyOf))
  const marked = (edge: Edge, mark: "added" | "removed"): Edge => ({
    ...edge,
    mark,
    label: `${mark === "added" ? "+" : "−"}${edge.label === undefined ? "" : ` ${edge.label}`}`
  })
  const others = new Map<string, Node>(
    [...old.joins.values(), ...old.unknown, ...now.joins.values(), ...now.unknown].map((node) => [node.key, node])
  )
  const title = before.name === after.name ? nameOf(after.name) : `${nameOf(before.name)} → ${nameOf(after.name)}`
  const changed: Mark | undefined = compare(before, after).plan.length > 0 ? "changed" : undefined
  const fields = compare(before, after).plan.map(({ field }) => field)
  const lines = changed === undefined ? [title] : [title, `${signs.changed}: ${visible(fields.join(", "))}`]
  return {
    direction,
    items: [
      node(startKey(""), "start", lines, changed),
      ...grouped(entries(before, after)),
      ...others.values(),
      node(endKey(""), "end", ["end"])
    ],
    edges: [
      ...now.edges.map((edge) => (edgesBefore.has(keyOf(edge)) ? edge : marked(edge, "added"))),
      ...old.edges.filter((edge) => !edgesAfter.has(keyOf(edge))).map((edge) => marked(edge, "removed"))
    ]
  }
}
