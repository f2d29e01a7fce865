/** A plan as a drawing, with its bands, the plans in its steps, and a run of it. */
import type { PlanDefinition, StepDefinition } from "../../PlanDefinition.ts"
import type { PlanRunState } from "../../PlanRunState.ts"
import { inBands, positionsOf, turnAt } from "../bands.ts"
import { dataOf } from "./data.ts"
import type { Drawing, Edge, Group, Item, Mark, Node } from "./drawing.ts"
import { exitsOf, flowOf, type Way } from "./flow.ts"
import { childRun, overlay, type Running, runningOf, type Status } from "./overlay.ts"
import { nameOf } from "./text.ts"

/** A plan, and the plans that are steps of it. */
export interface Source {
  readonly definition: PlanDefinition
  readonly nested: ReadonlyMap<string, Source>
  /** The names of plans that are steps, by the names of the steps. */
  readonly plans: ReadonlyMap<string, string>
}

export interface Options {
  readonly direction: "down" | "right"
  readonly data: boolean
  readonly run: PlanRunState | undefined
  readonly running: Running
}

/** What is drawn for a step: where edges come in and go out. */
interface Drawn {
  readonly item: Item
  readonly entry: string
  readonly exit: string
  readonly edges: ReadonlyArray<Edge>
}

/** Plans that are nested deeper are drawn as steps. */
export const maxNesting = 8

export const startKey = (prefix: string): string => `${prefix}start`
export const endKey = (prefix: string): string => `${prefix}end`

/** The key of a step: its name, and for a second one of that name, its position. */
export const stepKeys = (steps: ReadonlyArray<StepDefinition>, prefix: string): ReadonlyArray<string> => {
  const positions = positionsOf(steps)
  return steps.map(
    ({ name }, index) => prefix + JSON.stringify(positions.get(name) === index ? ["step", name] : ["step", name, index])
  )
}

/** The lines of a step: its name, and what runs in it. */
export const linesOf = ({ name, target }: StepDefinition, plan?: string): ReadonlyArray<string> => {
  const kind = plan === undefined ? target.kind : "plan"
  const called = plan ?? target.name
  return [nameOf(name), called === name ? kind : `${kind} ${nameOf(called)}`]
}

export const node = (
  key: string,
  shape: Node["shape"],
  lines: ReadonlyArray<string>,
  mark?: Mark | undefined
): Node => ({ _tag: "Node", key, shape, lines, mark })

/** Steps that run together stand in a group. */
export const grouped = <A extends { readonly parallel: boolean; readonly key: string; readonly item: Item }>(
  steps: ReadonlyArray<A>
): ReadonlyArray<Item> =>
  inBands(steps).flatMap((band): ReadonlyArray<Item> => {
    const [first] = band
    if (!first.parallel) return [first.item]
    const group: Group = {
      _tag: "Group",
      key: `band ${first.key}`,
      lines: ["in parallel"],
      items: band.map(({ item }) => item)
    }
    return [group]
  })

/** The edges of the ways of a plan. Bands that follow each other meet in a point, so that not each member leads to each. */
export const flowEdges = (
  definition: PlanDefinition,
  ways: ReadonlyArray<Way>,
  prefix: string,
  entries: ReadonlyArray<string>,
  exits: ReadonlyArray<string>
): {
  readonly edges: ReadonlyArray<Edge>
  readonly joins: ReadonlyMap<number, Node>
  readonly unknown: ReadonlyArray<Node>
} => {
  const edges = new Map<string, Edge>()
  const joins = new Map<number, Node>()
  const unknown = new Map<string, Node>()
  const keys = stepKeys(definition.steps, prefix)

  const add = (edge: Edge) => {
    const key = JSON.stringify([edge.from, edge.to, edge.kind, edge.label])
    if (!edges.has(key)) edges.set(key, edge)
  }
  const targets = (to: Way["to"]): ReadonlyArray<string> => {
    if (to === "end") return [endKey(prefix)]
    if (typeof to === "number") return turnAt(definition.steps, to).map((member) => entries[member] ?? "")
    const key = `${prefix}${JSON.stringify(["unknown", to.unknown])}`
    if (!unknown.has(to.unknown)) {
      unknown.set(to.unknown, node(key, "unknown", [nameOf(to.unknown), "no such step"], "unknown"))
    }
    return [key]
  }

  for (const { from, kind, label, to } of ways) {
    const source = from === "start" ? startKey(prefix) : (exits[from] ?? "")
    const into = targets(to)
    const band = from === "start" || definition.steps[from]?.parallel !== true ? 1 : 2
    if (band === 2 && into.length > 1 && typeof to === "number") {
      const join = joins.get(to) ?? node(`join ${keys[to]}`, "join", [])
      joins.set(to, join)
      add({ from: source, to: join.key, kind })
      for (const target of into) add({ from: join.key, to: target, kind: "flow" })
      continue
    }
    for (const target of into) add({ from: source, to: target, kind, label })
  }
  return { edges: [...edges.values()], joins, unknown: [...unknown.values()] }
}

const drawStep = (
  step: StepDefinition,
  key: string,
  status: Status,
  plan: string | undefined,
  nested: Source | undefined,
  run: PlanRunState | undefined,
  options: Options,
  depth: number
): Drawn => {
  const extra = status.line === undefined ? [] : [status.line]
  if (nested === undefined || depth >= maxNesting) {
    const item = node(
      key,
      plan === undefined ? step.target.kind : "plan",
      [...linesOf(step, plan), ...extra],
      status.mark
    )
    return { item, entry: key, exit: key, edges: [] }
  }
  const prefix = `${key}/`
  const inner = drawPlan(
    nested,
    prefix,
    { ...options, run: childRun(run, step.name), running: runningOf(run, options.running) },
    depth + 1
  )
  const group: Group = {
    _tag: "Group",
    key: `nested ${key}`,
    lines: [nameOf(step.name), `plan ${nameOf(nested.definition.name)}`, ...extra],
    items: [node(startKey(prefix), "start", ["start"]), ...inner.items, node(endKey(prefix), "end", ["end"])],
    mark: status.mark
  }
  return { item: group, entry: startKey(prefix), exit: endKey(prefix), edges: inner.edges }
}

interface Body {
  readonly items: ReadonlyArray<Item>
  readonly edges: ReadonlyArray<Edge>
}

const drawPlan = (source: Source, prefix: string, options: Options, depth: number): Body => {
  const { definition } = source
  const { steps } = definition
  const { reached, ways } = flowOf(definition)
  const keys = stepKeys(steps, prefix)
  const statusOf =
    options.run === undefined ? () => ({}) : overlay(options.run, runningOf(options.run, options.running))
  const drawn = steps.map((step, index) => {
    const unreachable = reached !== undefined && !reached.has(index)
    const status: Status = unreachable ? { mark: "skipped", line: "– not reachable" } : statusOf(step)
    const plan = source.plans.get(step.name)
    return drawStep(step, keys[index] ?? "", status, plan, source.nested.get(step.name), options.run, options, depth)
  })
  const positions = positionsOf(steps)
  const { edges, joins, unknown } = flowEdges(
    definition,
    ways,
    prefix,
    drawn.map(({ entry }) => entry),
    drawn.map(({ exit }) => exit)
  )
  const entries = drawn.map(({ item }, index) => ({
    item,
    key: keys[index] ?? "",
    parallel: steps[index]?.parallel === true
  }))
  const choices = steps.flatMap((step, index) => {
    const field = exitsOf(step, positions).any
    const key = `choice ${keys[index]}`
    return field === undefined
      ? []
      : [{ node: node(key, "choice", [`the step named in ${nameOf(field)}`]), from: drawn[index]?.exit ?? "" }]
  })
  const data = options.data ? dataOf(definition, prefix, keys, drawn) : { items: [], edges: [] }
  return {
    items: [...grouped(entries), ...choices.map(({ node }) => node), ...joins.values(), ...unknown, ...data.items],
    edges: [
      ...edges,
      ...choices.map(({ from, node }): Edge => ({ from, to: node.key, kind: "flow" })),
      ...drawn.flatMap(({ edges }) => edges),
      ...data.edges
    ]
  }
}

/** A whole plan, between its start and its end. */
export const draw = (source: Source, options: Options): Drawing => {
  const body = drawPlan(source, "", options, 0)
  return {
    direction: options.direction,
    items: [
      node(startKey(""), "start", [nameOf(source.definition.name)]),
      ...body.items,
      node(endKey(""), "end", ["end"])
    ],
    edges: body.edges
  }
}
