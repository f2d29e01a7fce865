/**
 * Pictures of plans, as text for Mermaid.
 *
 * **When to use**
 *
 * Use them in a README, a page of a tool, a pull request: GitHub and many editors draw
 * Mermaid. The picture is made from the definition that runs, so it cannot be out of date.
 *
 * **Details**
 *
 * | in the plan | in the picture |
 * |---|---|
 * | a step whose target is a tool, an agent, a function, a plan | a box of its own form, with the kind and the name of the target in words |
 * | a parallel group | a group "in parallel" |
 * | what runs next | a solid edge |
 * | a route | a solid edge with its number, if there are several, and its condition |
 * | `routesBy` | an edge per text that the output schema allows; a choice if it does not name any |
 * | no route is taken | a solid edge "otherwise" |
 * | the end of a branch | a dashed edge to the rejoin |
 * | a step that no run comes to | a box "not reachable" |
 * | a name that no step has | a box "no such step" |
 *
 * A definition names a plan in a step as an agent. It is drawn as a plan when what is drawn is
 * a `Plan` or a `Plan.Bound` that holds it.
 *
 * Only what can happen is drawn: the edges are found by following every way that a run
 * could take, by the rules that runs follow. A plan does not have to be valid to be
 * drawn.
 *
 * No name and no text of a plan can change the picture: boxes are called `n0`, `n1` and
 * so on, and whatever could mean something to Mermaid, its Markdown or a
 * browser is written by its number. Characters that cannot be seen are shown by theirs.
 * The same plan always has the same text.
 *
 * **Gotchas**
 *
 * Mermaid refuses texts of more than 50,000 characters and more than 500 edges unless its
 * options allow more (`maxTextSize`, `maxEdges`).
 *
 * @since 0.1.0
 */

import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as JsonPatch from "effect/JsonPatch"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as PayloadError from "../payload/PayloadError.ts"
import * as base from "../payload/internal/base.ts"
import { equalsJson, isArray, isObject, own, parsePointer } from "../payload/internal/values.ts"
import type * as planRunParts from "../run/internal/planRunParts.ts"
import * as PlanDefinition from "./PlanDefinition.ts"
import type * as PlanRun from "./PlanRun.ts"
import type { Reference } from "./Reference.ts"
import * as diagram from "./internal/diagram.ts"
import * as livePlan from "./internal/livePlan.ts"
import * as planFlow from "./internal/planFlow.ts"
import * as planNames from "./internal/planNames.ts"
import * as planTransition from "../run/internal/planTransition.ts"
import type * as runParts from "../run/internal/runParts.ts"
import * as stepFlow from "../run/internal/stepFlow.ts"

/**
 * A plan that can be drawn and compared: a definition, or anything that has one, such as
 * a `Plan`. `nested` has the plans that are steps of it, by the names of the steps.
 *
 * @category models
 * @since 0.1.0
 */
export type Source =
  | PlanDefinition.PlanDefinition
  | {
      readonly definition: PlanDefinition.PlanDefinition
      readonly nested?: { readonly [step: string]: Source } | undefined
    }

/**
 * The options of a picture.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** The direction in which the picture grows; default `"down"`. */
  readonly direction?: "down" | "right" | undefined
  /**
   * True to draw also what steps read (other steps, the input, memories, answers of agents) and write, with dotted
   * edges; default `false`. A value from the step before is not drawn.
   */
  readonly data?: boolean | undefined
  /**
   * A run whose progress is marked, by colour and in words: done, failed, running, interrupted, paused, concluded,
   * limit reached, and skipped once the run has ended; with durations, executions and tries. None by default.
   */
  readonly run?: PlanRun.State | undefined
  /**
   * True if a process works on that run now; default `true`. With `false` a step that was running when its process
   * ended is marked as cut off: a state alone does not show that.
   */
  readonly live?: boolean | undefined
  /**
   * Draws plans that are steps as groups. `true` draws all plans that the drawn value holds: a bound plan knows the
   * plans that it was bound with by name, a plan only the plans in its steps; plans that an Effect finds, and
   * definitions, hold none. Or plans by the names of the steps. Default: boxes.
   */
  readonly nested?: boolean | { readonly [step: string]: Source } | undefined
  /**
   * Another plan: the changes from it are drawn. A step or edge that is only in the plan is marked as added, a step or
   * edge that is only in `before` as removed, and a step that is in both but differs as changed, with the names of the
   * fields. A mark is a colour and a sign: `+`, `−`, `~`. None by default.
   */
  readonly before?: Source | undefined
}

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
 *   `  n1 -->|"topic in #91;#34;hours#34;#44;#34;address#34;#93;"| n3`
 * ])
 *
 * const before = { ...definition, steps: definition.steps.slice(0, 2) }
 * const changes = Picture.toMermaid(definition, { before })
 * assert.ok(changes.includes(`n3("reply<br/>agent writer<br/>#43; added")`))
 * ```
 *
 * @category converting
 * @since 0.1.0
 */
export const toMermaid = (plan: Source, options?: Options): string => diagram.writeMermaid(draw(plan, options))

const Operation = Schema.Union([
  Schema.Struct({ op: Schema.Literals(["add", "replace"]), path: Schema.String, value: Schema.Json }),
  Schema.Struct({ op: Schema.Literal("remove"), path: Schema.String })
])

/**
 * The changes from one plan to another, as JSON Patch (RFC 6902).
 *
 * **Details**
 *
 * The patched document is the definition with its steps by name in `steps`, and their
 * names in `order`; a second step of one name is called `name'`. So `/steps/write/task`
 * is the task of the step "write", wherever it is. `changes` lead from the first plan to
 * the second, `undo` leads back. Both are empty if nothing changed.
 *
 * @category models
 * @since 0.1.0
 */
export const Diff = Schema.Struct({ changes: Schema.Array(Operation), undo: Schema.Array(Operation) })

/**
 * The changes from one plan to another.
 *
 * @category models
 * @since 0.1.0
 */
export type Diff = typeof Diff.Type

/**
 * Compares two plans.
 *
 * **Example** (A step that was changed)
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
 * assert.deepStrictEqual(diff.changes, [{ op: "add", path: "/steps/write/writes", value: "draft" }])
 * assert.deepStrictEqual(Picture.applyDiff(diff, before), Result.succeed(after))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const diff = (before: Source, after: Source): Diff => {
  const from = toDocument(definitionOf(before))
  const to = toDocument(definitionOf(after))
  return { changes: JsonPatch.get(from, to), undo: JsonPatch.get(to, from) }
}

/**
 * The plan after the changes.
 *
 * **Details**
 *
 * Fails with a `PayloadError` if the difference was made from another plan: a step is elsewhere, or a field has another
 * value. `Plan.make` and `Plan.decode` check that the outcome can run.
 *
 * @category combinators
 * @since 0.1.0
 */
export const applyDiff = (
  self: Diff,
  before: Source
): Result.Result<PlanDefinition.PlanDefinition, PayloadError.PayloadError> => {
  const from = toDocument(definitionOf(before))
  // Core throws at an operation that does not fit the document.
  const applied = Result.try(() => {
    const to = JsonPatch.apply(self.changes, from)
    return equalsJson(JsonPatch.apply(self.undo, to), from) ? to : null
  })
  return Result.mapError(Result.flatMap(applied, fromDocument), () => {
    const expected = "the plan that the difference was made from"
    const fix = "Apply the difference to the first of the two plans it was made from"
    const reason = PayloadError.invalid([{ path: "", expected, found: "another plan", fix }])
    return new PayloadError.PayloadError({ what: `plan ${base.quote(definitionOf(before).name)}`, reason })
  })
}

const definitionOf = (source: Source): PlanDefinition.PlanDefinition =>
  "definition" in source ? source.definition : source

/** The key of each step: its name, or for a second one of that name another that is free. */
const stepKeys = ({ steps }: PlanDefinition.PlanDefinition): ReadonlyArray<string> => {
  const used = new Set<string>()
  return steps.map(({ name }) => {
    let key = name
    while (used.has(key)) key += "'"
    used.add(key)
    return key
  })
}

/** A definition as the JSON that is compared: its steps by key, and the order of the keys. */
const toDocument = (definition: PlanDefinition.PlanDefinition): Schema.JsonObject => {
  const order = stepKeys(definition)
  const steps = Object.fromEntries(definition.steps.map((step, index) => [order[index] ?? "", step]))
  const document: object = { ...definition, steps, order }
  // Sound: definitions hold no code and no instances, their types and their JSON are the same.
  return document as Schema.JsonObject
}

const decodeDefinition = Schema.decodeUnknownResult(Schema.toType(PlanDefinition.PlanDefinition))

const fromDocument = (json: Schema.Json): Result.Result<PlanDefinition.PlanDefinition, unknown> => {
  const document = isObject(json) ? json : {}
  const { order, steps } = document
  if (!isArray(order) || !isObject(steps)) return Result.fail("no document")
  return decodeDefinition({ ...document, steps: order.map((key) => own(steps, String(key))) })
}

/** The plan that is drawn, with the prefix of its keys, and what is drawn besides the flow. */
interface Scope {
  readonly prefix: string
  readonly depth: number
  readonly data: boolean
  readonly nested: Options["nested"]
  readonly run: PlanRun.State | undefined
  readonly running: RunningMark
}

/** The drawing of a step: where edges enter and leave, and those inside of it. */
interface StepFigure {
  readonly key: string
  readonly parallel: boolean
  readonly item: diagram.Item
  readonly entry: string
  readonly exit: string
  readonly edges: ReadonlyArray<diagram.Edge>
}

interface PlanFigure {
  readonly steps: ReadonlyArray<StepFigure>
  readonly nodes: ReadonlyArray<diagram.Node>
  readonly edges: ReadonlyArray<diagram.Edge>
}

/** Plans that are nested deeper are drawn as steps. */
const maxNesting = 8

const startKey = (prefix: string): string => `${prefix}start`

const endKey = (prefix: string): string => `${prefix}end`

const drawnKey = (prefix: string, step: string): string => prefix + JSON.stringify(["step", step])

const edgeKey = ({ from, kind, label, to }: diagram.Edge): string => JSON.stringify([from, to, kind, label])

/** The nodes and edges beside the steps, each once, in the order in which they are added. */
interface Canvas {
  readonly nodes: Map<string, diagram.Node>
  readonly edges: Map<string, diagram.Edge>
}

const addNode = ({ nodes }: Canvas, node: diagram.Node): string => {
  nodes.set(node.key, node)
  return node.key
}

const addEdge = ({ edges }: Canvas, edge: diagram.Edge): void => void edges.set(edgeKey(edge), edge)

/** A whole plan, between its start and its end, or what changed in it. */
const draw = (source: Source, options: Options = {}): diagram.Diagram => {
  const { before, data = false, direction = "down", live = true, nested, run } = options
  const running = runningMark(run, live ? "running" : "cutOff")
  const scope: Scope = { prefix: "", depth: 0, data, nested, run, running }
  const plain = { plan: drawPlan(source, scope), title: [planNames.displayName(definitionOf(source).name)] }
  const { mark, plan, title } =
    before === undefined
      ? { ...plain, mark: undefined }
      : drawChanges(before, source, drawPlan(before, { ...scope, run: undefined }), plain.plan)
  const start = diagram.makeNode(startKey(""), "start", title, mark)
  return { direction, items: itemsOf(start, plan, ""), edges: plan.edges }
}

const itemsOf = (start: diagram.Node, { nodes, steps }: PlanFigure, prefix: string): ReadonlyArray<diagram.Item> => [
  start,
  ...planFlow.inGroups(steps).map((group): diagram.Item => {
    const [{ item, key, parallel }] = group
    const items = group.map(({ item }) => item)
    return parallel ? { _tag: "Group", key: `parallel ${key}`, lines: ["in parallel"], items } : item
  }),
  ...nodes,
  diagram.makeNode(endKey(prefix), "end", ["end"])
]

const drawPlan = (source: Source, scope: Scope): PlanFigure => {
  const definition = definitionOf(source)
  const { steps } = definition
  const places = planFlow.placesOf(definition)
  const edges = planFlow.edgesOf(definition, places)
  const reached = places && planFlow.reachedFrom(steps, places)
  const plans = plansOf(source)
  const statusOf = overlay(scope.run, scope.running)
  const keys = stepKeys(definition).map((key) => drawnKey(scope.prefix, key))
  const drawn = steps.map((step, index) => {
    const isReached = reached?.has(index) ?? true
    const status: StepStatus = isReached ? statusOf(step.name) : { mark: "skipped", line: "– not reachable" }
    return drawStep(step, keys[index] ?? "", status, plans.get(step.name), scope)
  })
  const canvas: Canvas = { nodes: new Map(), edges: new Map() }
  drawFlow(canvas, definition, edges, drawn, scope.prefix)
  if (scope.data) drawData(canvas, definition, drawn, scope.prefix)
  return {
    steps: drawn,
    nodes: [...canvas.nodes.values()],
    edges: [...canvas.edges.values(), ...drawn.flatMap(({ edges }) => edges)]
  }
}

/** The plans that are steps, by the names of the steps. A definition names them as agents only. */
const plansOf = (source: Source): ReadonlyMap<string, livePlan.Bound<unknown, unknown>> => {
  const plans = new Map<string, livePlan.Bound<unknown, unknown>>()
  if (!livePlan.isBound(source) && !livePlan.isPlan(source)) return plans
  for (const { definition, target } of source.live.steps) {
    if (target._tag === "Agent" && livePlan.isBound(target.source)) plans.set(definition.name, target.source)
  }
  return plans
}

/** The lines of a step: its name, and what runs in it. */
const stepLines = ({ name, target }: PlanDefinition.StepDefinition, plan: string | undefined) => {
  const kind = plan === undefined ? target.kind : "plan"
  const called = plan ?? target.name
  return [planNames.displayName(name), called === name ? kind : `${kind} ${planNames.displayName(called)}`]
}

/** The plan that is drawn inside of a step, if one is. */
const nestedPlan = (nested: Options["nested"], step: string, plan: Source | undefined): Source | undefined => {
  if (nested === undefined || nested === false) return undefined
  return nested === true ? plan : own(nested, step)
}

const drawStep = (
  step: PlanDefinition.StepDefinition,
  key: string,
  { line, mark }: StepStatus,
  plan: Source | undefined,
  scope: Scope
): StepFigure => {
  const { name, parallel, target } = step
  const nested = scope.depth >= maxNesting ? undefined : nestedPlan(scope.nested, name, plan)
  const status = line === undefined ? [] : [line]
  if (nested === undefined) {
    const lines = [...stepLines(step, plan && definitionOf(plan).name), ...status]
    const item = diagram.makeNode(key, plan === undefined ? target.kind : "plan", lines, mark)
    return { key, parallel, item, entry: key, exit: key, edges: [] }
  }
  const prefix = `${key}/`
  const child = planTransition.childAt(scope.run, name)
  const run = child?._tag === "Plan" ? child.state : undefined
  const inner = drawPlan(nested, {
    ...scope,
    prefix,
    depth: scope.depth + 1,
    nested: scope.nested === true || ("nested" in nested ? nested.nested : undefined),
    run,
    running: runningMark(run, scope.running)
  })
  const item: diagram.Group = {
    _tag: "Group",
    key: `nested ${key}`,
    lines: [planNames.displayName(name), `plan ${planNames.displayName(definitionOf(nested).name)}`, ...status],
    items: itemsOf(diagram.makeNode(startKey(prefix), "start", ["start"]), inner, prefix),
    mark
  }
  return { key, parallel, item, entry: startKey(prefix), exit: endKey(prefix), edges: inner.edges }
}

const drawFlow = (
  canvas: Canvas,
  definition: PlanDefinition.PlanDefinition,
  edges: ReadonlyArray<planFlow.FlowEdge>,
  drawn: ReadonlyArray<StepFigure>,
  prefix: string
): void => {
  const targets = (to: planFlow.FlowEdge["to"]): ReadonlyArray<string> => {
    if (to === "end") return [endKey(prefix)]
    if (typeof to === "number")
      return planFlow.groupAt(definition.steps, to).map((member) => drawn[member]?.entry ?? "")
    const key = prefix + JSON.stringify(["unknown", to.unknown])
    return [
      addNode(canvas, diagram.makeNode(key, "unknown", [planNames.displayName(to.unknown), "no such step"], "unknown"))
    ]
  }
  for (const { from, kind, label, to } of edges) {
    const source = from === "start" ? undefined : drawn[from]
    const exit = source?.exit ?? startKey(prefix)
    const entries = targets(to)
    if (source?.parallel === true && entries.length > 1) {
      // Parallel groups that follow each other meet in a point, so that not each member leads to each.
      const join = addNode(canvas, diagram.makeNode(`join ${entries[0]}`, "join", []))
      addEdge(canvas, { from: exit, to: join, kind })
      for (const entry of entries) addEdge(canvas, { from: join, to: entry, kind: "flow" })
    } else {
      for (const entry of entries) addEdge(canvas, { from: exit, to: entry, kind, label })
    }
  }
  const positions = stepFlow.positionsOf(definition.steps)
  definition.steps.forEach((step, index) => {
    const field = planFlow.exitsOf(step, positions).any
    const { exit, key } = drawn[index] ?? { exit: "", key: "" }
    if (field === undefined) return
    const lines = [`the step named in ${planNames.displayName(field)}`]
    addEdge(canvas, {
      from: exit,
      to: addNode(canvas, diagram.makeNode(`choice ${key}`, "choice", lines)),
      kind: "flow"
    })
  })
}

/** Edges for what steps read and write, without what just comes from the step before. */
const drawData = (
  canvas: Canvas,
  definition: PlanDefinition.PlanDefinition,
  drawn: ReadonlyArray<StepFigure>,
  prefix: string
): void => {
  const { steps } = definition
  const positions = stepFlow.positionsOf(definition.steps)
  const store = (kind: string, title: string, name: string): string => {
    const key = prefix + JSON.stringify([kind, name])
    return addNode(canvas, diagram.makeNode(key, "store", [title, planNames.displayName(name)]))
  }
  const sourcesOf = (reference: Reference): ReadonlyArray<string> => {
    if (reference._tag === "FromStart") return [startKey(prefix)]
    if (reference._tag === "FromMemory") return [store("memory", "memory of", reference.agent)]
    if (reference._tag === "FromAgent") return [store("answer", "last answer of", reference.agent)]
    const position = "step" in reference ? positions.get(reference.step) : undefined
    if (position === undefined) return []
    const members = reference._tag === "FromParallelAll" ? planFlow.groupAt(steps, position) : [position]
    return members.map((member) => drawn[member]?.exit ?? "")
  }
  steps.forEach((step, index) => {
    const { entry, exit } = drawn[index] ?? { entry: "", exit: "" }
    // A step can name one parallel group as often as it has contexts.
    const read = { task: new Set<string>(), context: new Set<string>() }
    for (const { reference, slot } of planFlow.referencesOf(step)) {
      for (const source of sourcesOf(reference)) read[slot].add(source)
    }
    for (const from of read.task) addEdge(canvas, { from, to: entry, label: "task", kind: "data" })
    for (const from of read.context) addEdge(canvas, { from, to: entry, label: "context", kind: "data" })
    if (step.writes === undefined) return
    addEdge(canvas, { from: exit, to: store("writes", "store", step.writes), label: "writes", kind: "data" })
  })
}

/** The mark of a step by a run: a colour, and a line with the same in words. */
interface StepStatus {
  readonly mark?: diagram.Mark
  readonly line?: string
}

const elapsedMillis = ({ finishedAt, startedAt }: planRunParts.StepRecord): number =>
  Math.max(0, DateTime.toEpochMillis(finishedAt) - DateTime.toEpochMillis(startedAt))

/** `, 1.2 s, 3 executions, 5 tries`; one execution and one try each are left out. */
const recordSummary = (records: ReadonlyArray<planRunParts.StepRecord>): string => {
  if (records.length === 0) return ""
  const time = records.reduce((sum, record) => sum + elapsedMillis(record), 0)
  const tries = records.reduce((sum, record) => sum + record.attempts, 0)
  const executions = records.length === 1 ? "" : `, ${records.length} executions`
  return `, ${planNames.formatDuration(time)}${executions}${tries > records.length ? `, ${tries} tries` : ""}`
}

/** The state of steps that were running: they still are, the run was interrupted, or its process is gone. */
const runningWords = { running: "▶ running", interrupted: "◼ interrupted", cutOff: "◼ cut off" } as const

type RunningMark = keyof typeof runningWords

const statusOfMember = ({ question, status }: runParts.Member, running: RunningMark): StepStatus | undefined => {
  switch (status._tag) {
    case "Waiting":
      return undefined
    case "Running": {
      const tries = status.attempt > 1 ? `, try ${status.attempt}` : ""
      return { mark: running === "running" ? "running" : "interrupted", line: `${runningWords[running]}${tries}` }
    }
    case "Finished":
      return { mark: "done", line: `✓ done${recordSummary([status.record])}` }
    case "Failed":
      return { mark: "failed", line: `✗ failed, ${planNames.escapeInvisible(status.failure.type, 60)}` }
    case "Paused": {
      const { reason = "" } = question ?? {}
      return { mark: "paused", line: `⏸ paused${reason === "" ? "" : `, ${planNames.escapeInvisible(reason, 60)}`}` }
    }
    case "Concluded":
      return { mark: "concluded", line: "■ concluded" }
  }
}

/** The mark of the steps that a run was at. The end of a run around it is its end. */
const runningMark = (run: PlanRun.State | undefined, around: RunningMark): RunningMark =>
  run?.interrupted !== undefined || run?.outcome?._tag === "Interrupted" ? "interrupted" : around

/** The status of each step in a run, by name. Without a run no step has one. */
const overlay = (run: PlanRun.State | undefined, running: RunningMark): ((step: string) => StepStatus) => {
  if (run === undefined) return () => ({})
  const records = new Map<string, Array<planRunParts.StepRecord>>()
  for (const record of Chunk.toReadonlyArray(run.history)) {
    const known = records.get(record.step)
    if (known === undefined) records.set(record.step, [record])
    else known.push(record)
  }
  const members = new Map((run.turn?.members ?? []).map((member) => [member.step, member]))
  const { outcome } = run
  const ended = outcome?._tag === "Completed" || outcome?._tag === "Concluded"

  return (step) => {
    const done = recordSummary(records.get(step) ?? [])
    const member = members.get(step)
    const now = member && statusOfMember(member, running)
    if (now !== undefined) return { ...now, line: `${now.line}${done === "" ? "" : `, before${done}`}` }
    if (outcome?._tag === "Failed" && outcome.step === step) {
      return { mark: "failed", line: `✗ failed, ${planNames.escapeInvisible(outcome.failure.type, 60)}${done}` }
    }
    if (outcome?._tag === "LimitReached" && outcome.next === step) {
      return { mark: "limit", line: `⊘ limit of ${outcome.limit} reached${done}` }
    }
    if (done !== "") return { mark: "done", line: `✓ done${done}` }
    return ended ? { mark: "skipped", line: "– skipped" } : {}
  }
}

/** The steps of both plans that are elsewhere among them. */
const movedKeys = (before: ReadonlyArray<string>, after: ReadonlyArray<string>): ReadonlyArray<string> => {
  const [old, now] = [new Set(before), new Set(after)]
  const order = before.filter((key) => now.has(key))
  return after.filter((key) => old.has(key)).filter((key, index) => order[index] !== key)
}

/** The names of the fields that changed: fields of the plan, and fields of each step by its key in the picture. */
const changedFields = (before: PlanDefinition.PlanDefinition, after: PlanDefinition.PlanDefinition) => {
  const plan = new Set<string>()
  const steps = new Map<string, Set<string>>()
  const add = (step: string, field: string) => {
    const key = drawnKey("", step)
    steps.set(key, (steps.get(key) ?? new Set()).add(field))
  }
  for (const key of movedKeys(stepKeys(before), stepKeys(after))) add(key, "position")
  for (const { path } of JsonPatch.get(toDocument(before), toDocument(after))) {
    const [field = "", key = "", inner] = parsePointer(path)
    if (field === "steps" && inner !== undefined) add(key, inner)
    else if (field !== "steps" && field !== "order") plan.add(field)
  }
  return { plan, steps }
}

const changedLine = (fields: ReadonlySet<string>): string =>
  `~ changed: ${planNames.escapeInvisible([...fields].join(", "))}`

const markStep = (step: StepFigure, mark: diagram.Mark, line: string): StepFigure => ({
  ...step,
  item: { ...step.item, mark, lines: [...step.item.lines, line] }
})

const markEdge = (edge: diagram.Edge, mark: "added" | "removed"): diagram.Edge => {
  const sign = mark === "added" ? "+" : "−"
  return { ...edge, mark, label: edge.label === undefined ? sign : `${sign} ${edge.label}` }
}

/**
 * The steps of both plans: the steps of the plan after in their order, and each removed step after the step that it
 * followed.
 */
const mergeSteps = (
  before: ReadonlyArray<StepFigure>,
  after: ReadonlyArray<StepFigure>,
  changed: ReadonlyMap<string, ReadonlySet<string>>
): ReadonlyArray<StepFigure> => {
  const old = new Set(before.map(({ key }) => key))
  const now = new Set(after.map(({ key }) => key))
  const merged = after.map((step) => {
    if (!old.has(step.key)) return markStep(step, "added", "+ added")
    const fields = changed.get(step.key)
    return fields === undefined ? step : markStep(step, "changed", changedLine(fields))
  })
  for (const [index, step] of before.entries()) {
    if (now.has(step.key)) continue
    const previous = merged.findIndex(({ key }) => key === before[index - 1]?.key)
    merged.splice(previous + 1, 0, markStep(step, "removed", "− removed"))
  }
  return merged
}

/** Both plans in one picture. */
const drawChanges = (before: Source, after: Source, old: PlanFigure, now: PlanFigure) => {
  const [from, to] = [definitionOf(before), definitionOf(after)]
  const fields = changedFields(from, to)
  const edgesBefore = new Set(old.edges.map(edgeKey))
  const edgesAfter = new Set(now.edges.map(edgeKey))
  const names = Array.from(new Set([from.name, to.name]), planNames.displayName).join(" → ")
  const plan: PlanFigure = {
    steps: mergeSteps(old.steps, now.steps, fields.steps),
    nodes: [...new Map([...old.nodes, ...now.nodes].map((node) => [node.key, node])).values()],
    edges: [
      ...now.edges.map((edge) => (edgesBefore.has(edgeKey(edge)) ? edge : markEdge(edge, "added"))),
      ...old.edges.flatMap((edge) => (edgesAfter.has(edgeKey(edge)) ? [] : [markEdge(edge, "removed")]))
    ]
  }
  return fields.plan.size === 0
    ? { plan, title: [names], mark: undefined }
    : { plan, title: [names, changedLine(fields.plan)], mark: "changed" as const }
}
