/**
 * Pictures of plans, as text for Mermaid and for GraphViz.
 *
 * **When to use**
 *
 * Use them in a README, a page of a tool, a pull request: Mermaid is drawn by GitHub and by many
 * editors, GraphViz by `dot`. The picture is made from the definition that runs, so it
 * cannot be out of date.
 *
 * **Details**
 *
 * | in the plan | in the picture |
 * |---|---|
 * | a step whose target is a tool, an agent, a function, a plan | a box of its own form, with the kind and the name of the target in words |
 * | a band | a group "in parallel" |
 * | what runs next | a solid edge |
 * | a route | a solid edge with its number, if there are several, and its condition |
 * | `routesBy` | an edge per text that the output schema allows; a choice if it does not say |
 * | no route is taken | a solid edge "otherwise" |
 * | the end of a branch | a dashed edge to the rejoin |
 * | a step that no run comes to | a box "not reachable" |
 * | a name that no step has | a box "no such step" |
 *
 * A definition calls a plan in a step an agent. It is drawn as a plan when what is drawn is
 * a `Plan` or a `Plan.Bound` that holds it.
 *
 * Only what can happen is drawn: the edges are found by following every way that a run
 * could take, by the rules that runs follow. A plan does not have to be valid to be
 * drawn.
 *
 * No name and no text of a plan can change the picture: boxes are called `n0`, `n1` and
 * so on, and whatever could mean something to Mermaid, its Markdown, GraphViz or a
 * browser is written by its number. Characters that cannot be seen are shown by theirs.
 * The same plan always gives the same text.
 *
 * **Gotchas**
 *
 * Mermaid refuses texts of more than 50,000 characters and more than 500 edges unless it
 * is told otherwise (`maxTextSize`, `maxEdges`).
 *
 * @since 0.1.0
 */

import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PlanDefinition from "./PlanDefinition.ts"
import * as PlanRun from "./PlanRun.ts"
import * as diagram from "./internal/diagram.ts"
import * as livePlan from "./internal/livePlan.ts"
import * as planFlow from "./internal/planFlow.ts"
import * as planNames from "./internal/planNames.ts"

/**
 * A field that changed. `before` is absent if it was not there, `after` if it is there
 * no more.
 *
 * @category models
 * @since 0.1.0
 */
export interface FieldChange {
  readonly field: string
  readonly before?: Schema.Json
  readonly after?: Schema.Json
}

/**
 * What happened to a step. Positions count from 0: `index` of `Removed` and `Changed`,
 * and `from`, in the plan before; `index` of `Added`, and `to`, in the plan after.
 *
 * @category models
 * @since 0.1.0
 */
export type StepChange =
  | {
      readonly _tag: "Removed"
      readonly step: string
      readonly index: number
      readonly definition: PlanDefinition.StepDefinition
    }
  | {
      readonly _tag: "Changed"
      readonly step: string
      readonly index: number
      readonly fields: ReadonlyArray<FieldChange>
    }
  | { readonly _tag: "Moved"; readonly step: string; readonly from: number; readonly to: number }
  | {
      readonly _tag: "Added"
      readonly step: string
      readonly index: number
      readonly definition: PlanDefinition.StepDefinition
    }

/**
 * What changed: fields of the plan, and its steps. Of steps that changed places, as few
 * as possible are told to have moved. A step can have changed and moved.
 *
 * @category models
 * @since 0.1.0
 */
export interface Diff {
  readonly plan: ReadonlyArray<FieldChange>
  readonly steps: ReadonlyArray<StepChange>
}

const StepDefinition = Schema.toType(PlanDefinition.StepDefinition)

const StepPosition = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const FieldChange: Schema.Codec<FieldChange> = Schema.Struct({
  field: Schema.String,
  before: Schema.optionalKey(Schema.Json),
  after: Schema.optionalKey(Schema.Json)
})

export const StepChange: Schema.Codec<StepChange> = Schema.Union([
  Schema.TaggedStruct("Removed", {
    step: Schema.String,
    index: StepPosition,
    definition: StepDefinition
  }),
  Schema.TaggedStruct("Changed", { step: Schema.String, index: StepPosition, fields: Schema.Array(FieldChange) }),
  Schema.TaggedStruct("Moved", { step: Schema.String, from: StepPosition, to: StepPosition }),
  Schema.TaggedStruct("Added", { step: Schema.String, index: StepPosition, definition: StepDefinition })
])

/**
 * Schema of {@link Diff}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Diff: Schema.Codec<Diff> = Schema.Struct({
  plan: Schema.Array(FieldChange),
  steps: Schema.Array(StepChange)
})

/**
 * The difference does not fit the plan it is applied to, for it was made from another.
 *
 * @category errors
 * @since 0.1.0
 */
export class DiffError extends Schema.TaggedError<DiffError>("effect-emissary/plan/PlanDiffError")("PlanDiffError", {
  plan: Schema.String,
  problem: Schema.String
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `Plan ${JSON.stringify(this.plan)}: ${this.problem}. Apply a difference to the plan that it was made from`
  }
}

/**
 * What can be compared: a definition, or anything that has one, such as a plan.
 *
 * @category models
 * @since 0.1.0
 */
export type DiffSource = PlanDefinition.PlanDefinition | { readonly definition: PlanDefinition.PlanDefinition }

const definitionOfDiffed = (source: DiffSource): PlanDefinition.PlanDefinition =>
  "definition" in source ? source.definition : source

/**
 * What changed from one plan to another.
 *
 * **Example** (A step that was changed, and undone)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Result } from "effect"
 * import { Picture, PlanDefinition, Reference } from "effect-emissary/plan"
 *
 * const step: PlanDefinition.StepDefinition = {
 *   name: "write",
 *   target: { kind: "agent", name: "writer" },
 *   task: Reference.fromStart,
 *   parallel: false
 * }
 * const before = { name: "p", maxIterations: 100, steps: [step] }
 * const after = { ...before, steps: [{ ...step, writes: "draft" }] }
 *
 * const diff = Picture.diff(before, after)
 * assert.deepStrictEqual(diff, {
 *   plan: [],
 *   steps: [{ _tag: "Changed", step: "write", index: 0, fields: [{ field: "writes", after: "draft" }] }]
 * })
 * assert.deepStrictEqual(Picture.applyDiff(diff, before), Result.succeed(after))
 * assert.ok(Picture.isEmptyDiff(Picture.diff(after, after)))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const diff = (before: DiffSource, after: DiffSource): Diff =>
  compareDefinitions(definitionOfDiffed(before), definitionOfDiffed(after))

/**
 * Whether nothing changed.
 *
 * @category guards
 * @since 0.1.0
 */
export const isEmptyDiff = (self: Diff): boolean => self.plan.length === 0 && self.steps.length === 0

/**
 * The plan after the changes.
 *
 * **Details**
 *
 * Fails with a {@link DiffError} if the plan is not the one that the difference was
 * made from: a step is elsewhere, or a field has another value. Whether the outcome is a
 * plan that can run is for `Plan.make` and `Plan.decode` to say.
 *
 * @category combinators
 * @since 0.1.0
 */
export const applyDiff = (self: Diff, before: DiffSource): Result.Result<PlanDefinition.PlanDefinition, DiffError> => {
  const definition = definitionOfDiffed(before)
  return Result.mapError(
    Result.flatMap(applyChanges(self, definition), (json) =>
      Result.mapError(
        Schema.decodeUnknownResult(Schema.toType(PlanDefinition.PlanDefinition))(json),
        () => "expected a plan, found none after the changes"
      )
    ),
    (problem) => new DiffError({ plan: definition.name, problem })
  )
}

/**
 * What can be drawn: a definition, or anything that has one, such as a plan.
 *
 * @category models
 * @since 0.1.0
 */
export type Source = PlanDefinition.PlanDefinition | { readonly definition: PlanDefinition.PlanDefinition }

/**
 * A plan that is a step, with the plans that are steps of it.
 *
 * @category models
 * @since 0.1.0
 */
export type Nested =
  | Source
  | { readonly definition: PlanDefinition.PlanDefinition; readonly nested: { readonly [step: string]: Nested } }

/**
 * How a plan is drawn.
 *
 * **Details**
 *
 * - `direction`: where it grows; default `"down"`.
 * - `data`: also draws what steps read (other steps, the input, memories, answers of
 *   agents) and write, with dotted edges; default `false`. What just comes from the
 *   step before is not drawn.
 * - `run`: marks how far a run is, by colour and in words: done, failed, running,
 *   interrupted, paused, concluded, limit reached, and skipped once the run has ended;
 *   with durations, executions and tries.
 * - `live`: whether somebody works on that run now, as `Checkpoint.inspect` says; default
 *   `true`. With `false` a step that was running when its process ended is marked as cut
 *   off: a state alone does not tell.
 * - `nested`: draws plans that are steps as groups. `true` for all that the value that is
 *   drawn holds: a plan, or better a plan that is bound, which knows those it was bound
 *   with by name; plans that an Effect finds, and definitions, hold none. Or plans by the
 *   names of the steps. Default: boxes.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  readonly direction?: "down" | "right" | undefined
  readonly data?: boolean | undefined
  readonly run?: PlanRun.State | undefined
  readonly live?: boolean | undefined
  readonly nested?: boolean | { readonly [step: string]: Nested } | undefined
}

const drawingOf = (plan: Source, options: Options | undefined) =>
  drawSource(drawingSource(plan, options?.nested), {
    direction: options?.direction ?? "down",
    data: options?.data ?? false,
    run: options?.run,
    running: options?.live === false ? "cutOff" : "running"
  })

/**
 * A plan as a Mermaid flowchart.
 *
 * **Example** (A question that may go to a human)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Picture, PlanDefinition, Reference, When } from "effect-emissary/plan"
 *
 * const definition: PlanDefinition.PlanDefinition = {
 *   name: "support",
 *   maxIterations: 100,
 *   steps: [
 *     {
 *       name: "triage",
 *       target: { kind: "agent", name: "triage" },
 *       task: Reference.fromStart,
 *       parallel: false,
 *       routes: [{ to: "reply", when: When.field("topic").in(["hours", "address"]) }]
 *     },
 *     { name: "ask", target: { kind: "tool", name: "ask_human" }, task: Reference.fromPrev, parallel: false },
 *     { name: "reply", target: { kind: "agent", name: "writer" }, task: Reference.fromPrev, parallel: false }
 *   ]
 * }
 *
 * assert.deepStrictEqual(Picture.toMermaid(definition).split("\n").slice(0, 8), [
 *   `flowchart TD`,
 *   `  n0(["support"])`,
 *   `  n1("triage<br/>agent")`,
 *   `  n2[["ask<br/>tool ask_human"]]`,
 *   `  n3("reply<br/>agent writer")`,
 *   `  n4(["end"])`,
 *   `  n0 --> n1`,
 *   `  n1 -->|"topic in #91;#34;hours#34;, #34;address#34;#93;"| n3`
 * ])
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const toMermaid = (plan: Source, options?: Options): string => diagram.writeMermaid(drawingOf(plan, options))

/**
 * A plan in the language of GraphViz, for `dot`.
 *
 * **Example** (One step)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Picture, Reference } from "effect-emissary/plan"
 *
 * const text = Picture.toGraphViz({
 *   name: "one",
 *   maxIterations: 100,
 *   steps: [{ name: "only", target: { kind: "function", name: "f" }, task: Reference.fromStart, parallel: false }]
 * })
 * assert.ok(text.includes(`n1 [label="only\\nfunction f", shape=box]`))
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const toGraphViz = (plan: Source, options?: Options): string => diagram.writeDot(drawingOf(plan, options))

/**
 * How the difference of two plans is drawn.
 *
 * @category options
 * @since 0.1.0
 */
export interface DiffOptions {
  readonly direction?: "down" | "right" | undefined
}

/**
 * What changed from one plan to another, as a Mermaid flowchart.
 *
 * **Details**
 *
 * Steps and edges that are only in the second plan are marked as added, those that are
 * only in the first as removed; steps that are in both, but differ, as changed, with
 * the names of the fields. Each is marked by colour and by a sign: `+`, `−`, `~`.
 *
 * **Example** (A step more)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Picture, PlanDefinition, Reference } from "effect-emissary/plan"
 *
 * const step = (name: string): PlanDefinition.StepDefinition => ({
 *   name,
 *   target: { kind: "function", name },
 *   task: Reference.fromPrev,
 *   parallel: false
 * })
 * const before = { name: "p", maxIterations: 100, steps: [step("a")] }
 * const after = { ...before, steps: [step("a"), step("b")] }
 *
 * assert.ok(Picture.diffToMermaid(before, after).includes(`n2["b<br/>function<br/>#43; added"]`))
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const diffToMermaid = (before: Source, after: Source, options?: DiffOptions): string =>
  diagram.writeMermaid(drawDiff(definitionOf(before), definitionOf(after), options?.direction ?? "down"))

/**
 * What changed from one plan to another, in the language of GraphViz; see
 * {@link diffToMermaid}.
 *
 * @category converting
 * @since 0.1.0
 */
export const diffToGraphViz = (before: Source, after: Source, options?: DiffOptions): string =>
  diagram.writeDot(drawDiff(definitionOf(before), definitionOf(after), options?.direction ?? "down"))

const definitionOf = (source: Source): PlanDefinition.PlanDefinition =>
  "definition" in source ? source.definition : source

/** The plans that are steps, by the names of the steps. A definition only knows them as agents. */
const plansOf = (source: Source): ReadonlyMap<string, livePlan.Bound<unknown, unknown>> => {
  const targets = livePlan.isBound(source)
    ? source.live.targets
    : livePlan.isPlan(source)
      ? source.live.steps.map(({ target }) => target)
      : []
  const { steps } = definitionOf(source)
  return new Map(
    targets.flatMap((target, index): ReadonlyArray<readonly [string, livePlan.Bound<unknown, unknown>]> => {
      const step = steps[index]
      return step !== undefined && target._tag === "Agent" && livePlan.isBound(target.source)
        ? [[step.name, target.source]]
        : []
    })
  )
}

const innerPlan = (
  nested: Options["nested"],
  plans: ReadonlyMap<string, livePlan.Bound<unknown, unknown>>
): ReadonlyArray<readonly [string, Nested, Options["nested"]]> => {
  if (nested === undefined || nested === false) return []
  return nested === true
    ? Array.from(plans, ([step, plan]) => [step, plan, true])
    : Object.entries(nested).map(([step, plan]) => [step, plan, "nested" in plan ? plan.nested : undefined])
}

/** A plan, and what is drawn inside of it. */
const drawingSource = (source: Source, nested: Options["nested"], depth = 0): DrawingSource => {
  const plans = plansOf(source)
  return {
    definition: definitionOf(source),
    plans: new Map(Array.from(plans, ([step, { definition }]) => [step, definition.name])),
    nested: new Map(
      depth >= maxNesting
        ? []
        : innerPlan(nested, plans).map(([step, plan, further]) => [step, drawingSource(plan, further, depth + 1)])
    )
  }
}

/** A plan, and the plans that are steps of it. */
interface DrawingSource {
  readonly definition: PlanDefinition.PlanDefinition
  readonly nested: ReadonlyMap<string, DrawingSource>
  /** The names of plans that are steps, by the names of the steps. */
  readonly plans: ReadonlyMap<string, string>
}

interface DrawingOptions {
  readonly direction: "down" | "right"
  readonly data: boolean
  readonly run: PlanRun.State | undefined
  readonly running: RunningMark
}

/** What is drawn for a step: where edges come in and go out. */
interface DrawnStep {
  readonly item: diagram.Item
  readonly entry: string
  readonly exit: string
  readonly edges: ReadonlyArray<diagram.Edge>
}

/** Plans that are nested deeper are drawn as steps. */
const maxNesting = 8

const startKey = (prefix: string): string => `${prefix}start`

const endKey = (prefix: string): string => `${prefix}end`

/** The key of a step: its name, and for a second one of that name, its position. */
const stepKeys = (definition: PlanDefinition.PlanDefinition, prefix: string): ReadonlyArray<string> => {
  const positions = planFlow.positionsOf(definition)
  return definition.steps.map(
    ({ name }, index) => prefix + JSON.stringify(positions.get(name) === index ? ["step", name] : ["step", name, index])
  )
}

/** The lines of a step: its name, and what runs in it. */
const nodeLines = ({ name, target }: PlanDefinition.StepDefinition, plan?: string): ReadonlyArray<string> => {
  const kind = plan === undefined ? target.kind : "plan"
  const called = plan ?? target.name
  return [planNames.displayName(name), called === name ? kind : `${kind} ${planNames.displayName(called)}`]
}

const stepNode = (
  key: string,
  shape: diagram.Node["shape"],
  lines: ReadonlyArray<string>,
  mark?: diagram.Mark | undefined
): diagram.Node => ({ _tag: "Node", key, shape, lines, mark })

/** Steps that run together stand in a group. */
const groupedItems = <A extends { readonly parallel: boolean; readonly key: string; readonly item: diagram.Item }>(
  steps: ReadonlyArray<A>
): ReadonlyArray<diagram.Item> =>
  planFlow.inGroups(steps).flatMap((band): ReadonlyArray<diagram.Item> => {
    const [first] = band
    if (!first.parallel) return [first.item]
    const group: diagram.Group = {
      _tag: "Group",
      key: `band ${first.key}`,
      lines: ["in parallel"],
      items: band.map(({ item }) => item)
    }
    return [group]
  })

/** The edges of the ways of a plan. Bands that follow each other meet in a point, so that not each member leads to each. */
const flowEdges = (
  definition: PlanDefinition.PlanDefinition,
  ways: ReadonlyArray<planFlow.FlowEdge>,
  prefix: string,
  entries: ReadonlyArray<string>,
  exits: ReadonlyArray<string>
): {
  readonly edges: ReadonlyArray<diagram.Edge>
  readonly joins: ReadonlyMap<number, diagram.Node>
  readonly unknown: ReadonlyArray<diagram.Node>
} => {
  const edges = new Map<string, diagram.Edge>()
  const joins = new Map<number, diagram.Node>()
  const unknown = new Map<string, diagram.Node>()
  const keys = stepKeys(definition, prefix)

  const add = (edge: diagram.Edge) => {
    const key = JSON.stringify([edge.from, edge.to, edge.kind, edge.label])
    if (!edges.has(key)) edges.set(key, edge)
  }
  const targets = (to: planFlow.FlowEdge["to"]): ReadonlyArray<string> => {
    if (to === "end") return [endKey(prefix)]
    if (typeof to === "number") return planFlow.groupAt(definition.steps, to).map((member) => entries[member] ?? "")
    const key = `${prefix}${JSON.stringify(["unknown", to.unknown])}`
    if (!unknown.has(to.unknown)) {
      unknown.set(to.unknown, stepNode(key, "unknown", [planNames.displayName(to.unknown), "no such step"], "unknown"))
    }
    return [key]
  }

  for (const { from, kind, label, to } of ways) {
    const source = from === "start" ? startKey(prefix) : (exits[from] ?? "")
    const into = targets(to)
    const band = from === "start" || definition.steps[from]?.parallel !== true ? 1 : 2
    if (band === 2 && into.length > 1 && typeof to === "number") {
      const join = joins.get(to) ?? stepNode(`join ${keys[to]}`, "join", [])
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
  step: PlanDefinition.StepDefinition,
  key: string,
  status: StepStatus,
  plan: string | undefined,
  nested: DrawingSource | undefined,
  run: PlanRun.State | undefined,
  options: DrawingOptions,
  depth: number
): DrawnStep => {
  const extra = status.line === undefined ? [] : [status.line]
  if (nested === undefined || depth >= maxNesting) {
    const item = stepNode(
      key,
      plan === undefined ? step.target.kind : "plan",
      [...nodeLines(step, plan), ...extra],
      status.mark
    )
    return { item, entry: key, exit: key, edges: [] }
  }
  const prefix = `${key}/`
  const inner = drawPlan(
    nested,
    prefix,
    { ...options, run: childState(run, step.name), running: runningMark(run, options.running) },
    depth + 1
  )
  const group: diagram.Group = {
    _tag: "Group",
    key: `nested ${key}`,
    lines: [planNames.displayName(step.name), `plan ${planNames.displayName(nested.definition.name)}`, ...extra],
    items: [stepNode(startKey(prefix), "start", ["start"]), ...inner.items, stepNode(endKey(prefix), "end", ["end"])],
    mark: status.mark
  }
  return { item: group, entry: startKey(prefix), exit: endKey(prefix), edges: inner.edges }
}

interface PlanBody {
  readonly items: ReadonlyArray<diagram.Item>
  readonly edges: ReadonlyArray<diagram.Edge>
}

const drawPlan = (source: DrawingSource, prefix: string, options: DrawingOptions, depth: number): PlanBody => {
  const { definition } = source
  const { steps } = definition
  const { edges: moves, places } = planFlow.makeFlow(definition)
  const reached = places && new Set(places.flatMap(({ position }) => planFlow.groupAt(steps, position)))
  const keys = stepKeys(definition, prefix)
  const statusOf =
    options.run === undefined ? () => ({}) : overlay(options.run, runningMark(options.run, options.running))
  const drawn = steps.map((step, index) => {
    const unreachable = reached !== undefined && !reached.has(index)
    const status: StepStatus = unreachable ? { mark: "skipped", line: "– not reachable" } : statusOf(step)
    const plan = source.plans.get(step.name)
    return drawStep(step, keys[index] ?? "", status, plan, source.nested.get(step.name), options.run, options, depth)
  })
  const positions = planFlow.positionsOf(definition)
  const { edges, joins, unknown } = flowEdges(
    definition,
    moves,
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
    const field = planFlow.exitsOf(step, positions).any
    const key = `choice ${keys[index]}`
    return field === undefined
      ? []
      : [
          {
            node: stepNode(key, "choice", [`the step named in ${planNames.displayName(field)}`]),
            from: drawn[index]?.exit ?? ""
          }
        ]
  })
  const data = options.data ? dataEdges(definition, prefix, keys, drawn) : { items: [], edges: [] }
  return {
    items: [...groupedItems(entries), ...choices.map(({ node }) => node), ...joins.values(), ...unknown, ...data.items],
    edges: [
      ...edges,
      ...choices.map(({ from, node }): diagram.Edge => ({ from, to: node.key, kind: "flow" })),
      ...drawn.flatMap(({ edges }) => edges),
      ...data.edges
    ]
  }
}

/** A whole plan, between its start and its end. */
const drawSource = (source: DrawingSource, options: DrawingOptions): diagram.Drawing => {
  const body = drawPlan(source, "", options, 0)
  return {
    direction: options.direction,
    items: [
      stepNode(startKey(""), "start", [planNames.displayName(source.definition.name)]),
      ...body.items,
      stepNode(endKey(""), "end", ["end"])
    ],
    edges: body.edges
  }
}

/** How a step is marked by a run: a colour, and a line that says the same in words. */
interface StepStatus {
  readonly mark?: diagram.Mark
  readonly line?: string
}

const elapsedMillis = (record: PlanRun.StepRecord): number =>
  DateTime.toEpochMillis(record.finishedAt) - DateTime.toEpochMillis(record.startedAt)

/** `, 1.2 s, 3 executions, 5 tries`; what is nothing special is left out. */
const recordSummary = (records: ReadonlyArray<PlanRun.StepRecord>): string => {
  if (records.length === 0) return ""
  const time = records.reduce((sum, record) => sum + Math.max(0, elapsedMillis(record)), 0)
  const tries = records.reduce((sum, record) => sum + record.attempts, 0)
  const executions = records.length === 1 ? "" : `, ${records.length} executions`
  return `, ${planNames.formatDuration(time)}${executions}${tries > records.length ? `, ${tries} tries` : ""}`
}

/** What became of steps that were running: they still are, the run was interrupted, or its process is gone. */
type RunningMark = "running" | "interrupted" | "cutOff"

const statusWords: { readonly [K in RunningMark]: string } = {
  running: "▶ running",
  interrupted: "◼ interrupted",
  cutOff: "◼ cut off"
}

const statusOfMember = (member: PlanRun.Member, before: string, running: RunningMark): StepStatus | undefined => {
  const { status } = member
  const earlier = before === "" ? "" : `, before${before}`
  switch (status._tag) {
    case "Waiting":
      return undefined
    case "Running": {
      const tries = status.attempt > 1 ? `, try ${status.attempt}` : ""
      return {
        mark: running === "running" ? "running" : "interrupted",
        line: `${statusWords[running]}${tries}${earlier}`
      }
    }
    case "Finished":
      return { mark: "done", line: `✓ done${recordSummary([status.record])}${earlier}` }
    case "Failed":
      return { mark: "failed", line: `✗ failed, ${planNames.escapeInvisible(status.failure.type, 60)}${earlier}` }
    case "Paused": {
      const reason =
        status.reason === undefined || status.reason === "" ? "" : `, ${planNames.escapeInvisible(status.reason, 60)}`
      return { mark: "paused", line: `⏸ paused${reason}${earlier}` }
    }
    case "Concluded":
      return { mark: "concluded", line: `■ concluded${earlier}` }
  }
}

/** What became of the steps that a run was at. What ends a run around it, ends it. */
const runningMark = (run: PlanRun.State | undefined, around: RunningMark): RunningMark =>
  run?.interrupted !== undefined || run?.outcome?._tag === "Interrupted" ? "interrupted" : around

/** How a run marks the steps of its plan. */
const overlay = (run: PlanRun.State, running: RunningMark): ((step: PlanDefinition.StepDefinition) => StepStatus) => {
  const records = new Map<string, Array<PlanRun.StepRecord>>()
  for (const record of Chunk.toReadonlyArray(run.history)) {
    const known = records.get(record.step)
    if (known === undefined) records.set(record.step, [record])
    else known.push(record)
  }
  const members = new Map((run.turn?.members ?? []).map((member) => [member.step, member]))
  const { outcome } = run
  const ended = outcome?._tag === "Completed" || outcome?._tag === "Concluded"

  return ({ name }) => {
    const done = recordSummary(records.get(name) ?? [])
    const member = members.get(name)
    const now = member === undefined ? undefined : statusOfMember(member, done, running)
    if (now !== undefined) return now
    if (outcome?._tag === "Failed" && outcome.step === name) {
      return { mark: "failed", line: `✗ failed, ${planNames.escapeInvisible(outcome.failure.type, 60)}${done}` }
    }
    if (outcome?._tag === "LimitReached" && outcome.next === name) {
      return { mark: "limit", line: `⊘ limit of ${outcome.limit} reached${done}` }
    }
    if (done !== "") return { mark: "done", line: `✓ done${done}` }
    return ended ? { mark: "skipped", line: "– skipped" } : {}
  }
}

/** The run of the plan that runs in a step, if one does. */
const childState = (run: PlanRun.State | undefined, step: string): PlanRun.State | undefined => {
  const member = run === undefined ? undefined : PlanRun.member(run, step)
  const child = member === undefined ? undefined : PlanRun.childOf(member)
  return child?._tag === "Plan" ? child.state : undefined
}

/** What steps read and write, without what just comes from the step before. */
const dataEdges = (
  definition: PlanDefinition.PlanDefinition,
  prefix: string,
  keys: ReadonlyArray<string>,
  drawn: ReadonlyArray<{ readonly entry: string; readonly exit: string }>
): { readonly items: ReadonlyArray<diagram.Node>; readonly edges: ReadonlyArray<diagram.Edge> } => {
  const { steps } = definition
  const positions = planFlow.positionsOf(definition)
  const stores = new Map<string, diagram.Node>()
  const edges = new Map<string, diagram.Edge>()

  const store = (kind: string, title: string, name: string): string => {
    const key = `${prefix}${JSON.stringify([kind, name])}`
    if (!stores.has(key))
      stores.set(key, { _tag: "Node", key, shape: "store", lines: [title, planNames.displayName(name)] })
    return key
  }
  const add = (from: string, to: string, label: string) => {
    const key = JSON.stringify([from, to, label])
    if (!edges.has(key)) edges.set(key, { from, to, label, kind: "data" })
  }
  const membersOf = (name: string, whole: boolean): ReadonlyArray<number> => {
    const position = positions.get(name)
    if (position === undefined) return []
    return whole ? planFlow.groupAt(steps, position) : [position]
  }

  for (const [index, step] of steps.entries()) {
    const here = drawn[index]
    if (here === undefined) continue
    // A step can name one band as often as it has contexts
    const read = { task: new Set<number>(), context: new Set<number>() }
    for (const { reference, slot } of planFlow.referencesOf(step)) {
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

const stepsField: ReadonlySet<string> = new Set(["steps"])

const nameField: ReadonlySet<string> = new Set(["name"])

/** Which step of the plan before each step of the plan after is: the same name, the same number of that name. */
const pairSteps = (
  before: ReadonlyArray<PlanDefinition.StepDefinition>,
  after: ReadonlyArray<PlanDefinition.StepDefinition>
): ReadonlyArray<number | undefined> => {
  const positions = new Map<string, Array<number>>()
  for (const [index, { name }] of before.entries()) {
    const known = positions.get(name)
    if (known === undefined) positions.set(name, [index])
    else known.push(index)
  }
  const used = new Map<string, number>()
  return after.map(({ name }) => {
    const count = used.get(name) ?? 0
    used.set(name, count + 1)
    return positions.get(name)?.[count]
  })
}

/** The places in a list of numbers that make up its longest rising part: those that did not move. */
const longestRising = (numbers: ReadonlyArray<number>): ReadonlySet<number> => {
  const tails: Array<number> = []
  const previous: Array<number | undefined> = []
  const valueAt = (place: number | undefined): number => (place === undefined ? -1 : (numbers[place] ?? -1))
  for (const [place, number] of numbers.entries()) {
    let low = 0
    let high = tails.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (valueAt(tails[middle]) < number) low = middle + 1
      else high = middle
    }
    previous[place] = low === 0 ? undefined : tails[low - 1]
    tails[low] = place
  }
  const found = new Set<number>()
  for (let place = tails.at(-1); place !== undefined; place = previous[place]) found.add(place)
  return found
}

const stepFields = (
  before: PlanDefinition.StepDefinition,
  after: PlanDefinition.StepDefinition
): ReadonlyArray<FieldChange> => compareFields(fieldsOf(before), fieldsOf(after), nameField)

const compareDefinitions = (before: PlanDefinition.PlanDefinition, after: PlanDefinition.PlanDefinition): Diff => {
  const from = pairSteps(before.steps, after.steps)
  const kept = new Set(from)
  const shared = from.flatMap((index, to) => (index === undefined ? [] : [{ index, to }]))
  const still = longestRising(shared.map(({ index }) => index))
  const changes: Array<StepChange> = []
  for (const [index, definition] of before.steps.entries()) {
    if (!kept.has(index)) changes.push({ _tag: "Removed", step: definition.name, index, definition })
  }
  for (const { index, to } of shared) {
    const old = before.steps[index]
    const now = after.steps[to]
    if (old === undefined || now === undefined) continue
    const fields = stepFields(old, now)
    if (fields.length > 0) changes.push({ _tag: "Changed", step: old.name, index, fields })
  }
  for (const [place, { index, to }] of shared.entries()) {
    if (!still.has(place)) changes.push({ _tag: "Moved", step: after.steps[to]?.name ?? "", from: index, to })
  }
  for (const [index, definition] of after.steps.entries()) {
    if (from[index] === undefined) changes.push({ _tag: "Added", step: definition.name, index, definition })
  }
  return { plan: compareFields(fieldsOf(before), fieldsOf(after), stepsField), steps: changes }
}

/** The fields of a definition. All of them are plain JSON. */
type FieldValues = Readonly<Record<string, Schema.Json>>

// Definitions hold no code and no instances: their types and their JSON are the same.
const fieldsOf = (definition: object): FieldValues => definition as FieldValues

/** The fields that differ, in order, without those that are compared elsewhere. */
const compareFields = (
  before: FieldValues,
  after: FieldValues,
  without: ReadonlySet<string>
): ReadonlyArray<FieldChange> => {
  const names = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...names]
    .filter((name) => !without.has(name))
    .sort()
    .flatMap((field): ReadonlyArray<FieldChange> => {
      const old = Object.hasOwn(before, field) ? before[field] : undefined
      const now = Object.hasOwn(after, field) ? after[field] : undefined
      if (old === undefined && now === undefined) return []
      if (old === undefined) return now === undefined ? [] : [{ field, after: now }]
      if (now === undefined) return [{ field, before: old }]
      return planNames.equalsJson(old, now) ? [] : [{ field, before: old, after: now }]
    })
}

const expectSame = (fields: FieldValues, { before, field }: FieldChange): boolean => {
  const found = Object.hasOwn(fields, field) ? fields[field] : undefined
  return found === undefined || before === undefined ? found === before : planNames.equalsJson(found, before)
}

const changeField = (
  fields: FieldValues,
  changes: ReadonlyArray<FieldChange>,
  where: string
): Result.Result<FieldValues, string> => {
  const wrong = changes.find((change) => !expectSame(fields, change))
  if (wrong !== undefined) {
    return Result.fail(
      `expected the field "${planNames.displayName(wrong.field)}" of ${where} as it was before, found another value`
    )
  }
  const gone = new Set(changes.flatMap(({ after, field }) => (after === undefined ? [field] : [])))
  const left = Object.entries(fields).filter(([field]) => !gone.has(field))
  const set = changes.flatMap(({ after, field }) => (after === undefined ? [] : [[field, after] as const]))
  return Result.succeed(Object.fromEntries([...left, ...set]))
}

/** The definition after the changes, as JSON. */
const applyChanges = (diff: Diff, before: PlanDefinition.PlanDefinition): Result.Result<object, string> =>
  Result.gen(function* () {
    const steps: Array<FieldValues | undefined> = before.steps.map(fieldsOf)
    const placed = new Map<number, FieldValues>()

    const at = (index: number, name: string): Result.Result<FieldValues, string> => {
      const step = before.steps[index]
      return step?.name === name
        ? Result.succeed(steps[index] ?? fieldsOf(step))
        : Result.fail(`expected the step "${planNames.displayName(name)}" at position ${index}, found another or none`)
    }

    for (const step of diff.steps) {
      if (step._tag !== "Changed") continue
      steps[step.index] = yield* changeField(
        yield* at(step.index, step.step),
        step.fields,
        `step "${planNames.displayName(step.step)}"`
      )
    }
    for (const step of diff.steps) {
      if (step._tag === "Removed") {
        yield* at(step.index, step.step)
        steps[step.index] = undefined
      } else if (step._tag === "Moved") {
        placed.set(step.to, yield* at(step.from, step.step))
        steps[step.from] = undefined
      } else if (step._tag === "Added") placed.set(step.index, fieldsOf(step.definition))
    }

    const rest = steps.filter((step) => step !== undefined)
    const total = rest.length + placed.size
    const after: Array<FieldValues> = []
    for (let index = 0; index < total; index++) {
      const step = placed.get(index) ?? rest.shift()
      if (step === undefined)
        return yield* Result.fail(`expected a step at position ${index} after the changes, found none`)
      after.push(step)
    }
    const plan = yield* changeField(fieldsOf(before), diff.plan, "the plan")
    return { ...plan, steps: after }
  })

interface DiffEntry {
  readonly key: string
  readonly parallel: boolean
  readonly item: diagram.Item
}

const changeSigns: Readonly<Record<"added" | "removed" | "changed", string>> = {
  added: "+ added",
  removed: "− removed",
  changed: "~ changed"
}

const makeEntry = (
  key: string,
  step: PlanDefinition.StepDefinition,
  mark: "added" | "removed" | "changed" | undefined,
  what: string
): DiffEntry => {
  const line = mark === undefined ? [] : [`${changeSigns[mark]}${what}`]
  return { key, parallel: step.parallel, item: stepNode(key, step.target.kind, [...nodeLines(step), ...line], mark) }
}

/** The steps of both plans: those of the plan after in order, each removed one after the step it followed. */
const diffEntries = (
  before: PlanDefinition.PlanDefinition,
  after: PlanDefinition.PlanDefinition
): ReadonlyArray<DiffEntry> => {
  const from = pairSteps(before.steps, after.steps)
  const keysBefore = stepKeys(before, "")
  const keysAfter = stepKeys(after, "")
  const moved = new Set(
    compareDefinitions(before, after).steps.flatMap((change) => (change._tag === "Moved" ? [change.to] : []))
  )
  const kept = new Set(from)

  const removedAfter = (position: number): ReadonlyArray<DiffEntry> => {
    const found: Array<DiffEntry> = []
    for (let index = position + 1; index < before.steps.length && !kept.has(index); index++) {
      const step = before.steps[index]
      if (step !== undefined) found.push(makeEntry(`removed ${keysBefore[index]}`, step, "removed", ""))
    }
    return found
  }

  return [
    ...removedAfter(-1),
    ...after.steps.flatMap((step, index) => {
      const position = from[index]
      const old = position === undefined ? undefined : before.steps[position]
      const key = keysAfter[index] ?? ""
      if (position === undefined || old === undefined) return [makeEntry(key, step, "added", "")]
      const fields = [...(moved.has(index) ? ["position"] : []), ...stepFields(old, step).map(({ field }) => field)]
      const mark = fields.length === 0 ? undefined : "changed"
      return [
        makeEntry(key, step, mark, `: ${planNames.escapeInvisible(fields.join(", "))}`),
        ...removedAfter(position)
      ]
    })
  ]
}

/** Both plans in one picture. */
const drawDiff = (
  before: PlanDefinition.PlanDefinition,
  after: PlanDefinition.PlanDefinition,
  direction: "down" | "right"
): diagram.Drawing => {
  const from = pairSteps(before.steps, after.steps)
  const keysAfter = stepKeys(after, "")
  const nowAt = new Map(from.flatMap((index, to) => (index === undefined ? [] : [[index, to] as const])))
  const keysBefore = stepKeys(before, "").map((key, index) => {
    const to = nowAt.get(index)
    return to === undefined ? `removed ${key}` : (keysAfter[to] ?? "")
  })

  const old = flowEdges(before, planFlow.makeFlow(before).edges, "", keysBefore, keysBefore)
  const now = flowEdges(after, planFlow.makeFlow(after).edges, "", keysAfter, keysAfter)
  const keyOf = (edge: diagram.Edge) => JSON.stringify([edge.from, edge.to, edge.kind, edge.label])
  const edgesBefore = new Set(old.edges.map(keyOf))
  const edgesAfter = new Set(now.edges.map(keyOf))
  const marked = (edge: diagram.Edge, mark: "added" | "removed"): diagram.Edge => ({
    ...edge,
    mark,
    label: `${mark === "added" ? "+" : "−"}${edge.label === undefined ? "" : ` ${edge.label}`}`
  })
  const others = new Map<string, diagram.Node>(
    [...old.joins.values(), ...old.unknown, ...now.joins.values(), ...now.unknown].map((node) => [node.key, node])
  )
  const title =
    before.name === after.name
      ? planNames.displayName(after.name)
      : `${planNames.displayName(before.name)} → ${planNames.displayName(after.name)}`
  const changed: diagram.Mark | undefined = compareDefinitions(before, after).plan.length > 0 ? "changed" : undefined
  const fields = compareDefinitions(before, after).plan.map(({ field }) => field)
  const lines =
    changed === undefined ? [title] : [title, `${changeSigns.changed}: ${planNames.escapeInvisible(fields.join(", "))}`]
  return {
    direction,
    items: [
      stepNode(startKey(""), "start", lines, changed),
      ...groupedItems(diffEntries(before, after)),
      ...others.values(),
      stepNode(endKey(""), "end", ["end"])
    ],
    edges: [
      ...now.edges.map((edge) => (edgesBefore.has(keyOf(edge)) ? edge : marked(edge, "added"))),
      ...old.edges.filter((edge) => !edgesAfter.has(keyOf(edge))).map((edge) => marked(edge, "removed"))
    ]
  }
}
