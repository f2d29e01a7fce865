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
import { diffDrawing } from "./internal/picture/diffDrawing.ts"
import * as dot from "./internal/picture/dot.ts"
import * as mermaid from "./internal/picture/mermaid.ts"
import { draw } from "./internal/picture/planDrawing.ts"
import { definitionOf, sourceOf } from "./internal/picture/source.ts"
import type { PlanDefinition } from "./PlanDefinition.ts"
import type { PlanRunState } from "./PlanRunState.ts"

/**
 * What can be drawn: a definition, or anything that has one, such as a plan.
 *
 * @category models
 * @since 0.1.0
 */
export type Source = PlanDefinition | { readonly definition: PlanDefinition }

/**
 * A plan that is a step, with the plans that are steps of it.
 *
 * @category models
 * @since 0.1.0
 */
export type Nested =
  | Source
  | { readonly definition: PlanDefinition; readonly nested: { readonly [step: string]: Nested } }

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
  readonly run?: PlanRunState | undefined
  readonly live?: boolean | undefined
  readonly nested?: boolean | { readonly [step: string]: Nested } | undefined
}

const drawing = (plan: Source, options: Options | undefined) =>
  draw(sourceOf(plan, options?.nested), {
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
 * import { Picture, type PlanDefinition, Reference, When } from "effect-emissary"
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
export const toMermaid = (plan: Source, options?: Options): string => mermaid.write(drawing(plan, options))

/**
 * A plan in the language of GraphViz, for `dot`.
 *
 * **Example** (One step)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Picture, Reference } from "effect-emissary"
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
export const toGraphViz = (plan: Source, options?: Options): string => dot.write(drawing(plan, options))

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
 * import { Picture, type PlanDefinition, Reference } from "effect-emissary"
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
  mermaid.write(diffDrawing(definitionOf(before), definitionOf(after), options?.direction ?? "down"))

/**
 * What changed from one plan to another, in the language of GraphViz; see
 * {@link diffToMermaid}.
 *
 * @category converting
 * @since 0.1.0
 */
export const diffToGraphViz = (before: Source, after: Source, options?: DiffOptions): string =>
  dot.write(diffDrawing(definitionOf(before), definitionOf(after), options?.direction ?? "down"))
