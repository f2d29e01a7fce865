/**
 * What is wrong with a plan, all of it, before anything runs.
 *
 * **Details**
 *
 * `Plan.make` and `Plan.decode` refuse a plan with problems of its structure, `Plan.bind`
 * one with problems of what it is bound with. These functions tell the same problems of
 * plain definitions, for editors and tests.
 *
 * @since 0.1.0
 */
import * as Result from "effect/Result"
import type { BoundTool } from "../tool/BoundTool.ts"
import * as memories from "./internal/check/memories.ts"
import * as outline from "./internal/check/outline.ts"
import * as internal from "./internal/check/structural.ts"
import * as tools from "./internal/check/tools.ts"
import { maxIterations } from "./internal/codec/limits.ts"
import type { ToolArguments } from "./internal/live.ts"
import type { PlanDefinition, StepDefinition } from "./PlanDefinition.ts"
import type { PlanProblem } from "./PlanProblem.ts"

/**
 * The largest `maxIterations` of a plan: a million. The smallest is 0, with which no
 * step runs.
 *
 * @category constants
 * @since 0.1.0
 */
export const maxIterationsLimit = maxIterations

/**
 * What the names of a plan can stand for when it is bound.
 *
 * **Details**
 *
 * `tools` and `agents` are what steps of a tool or agent by name run, and what
 * `fromAgent` and `fromMemory` refer to. `memories` says which agents have a memory
 * (`text`), and which keep their answers (`output`).
 *
 * @category models
 * @since 0.1.0
 */
export interface Bindings {
  readonly tools: ReadonlyMap<string, BoundTool>
  readonly agents: ReadonlySet<string>
  readonly memories: ReadonlyMap<string, { readonly text: boolean; readonly output: boolean }>
}

/**
 * The problems of a plan's structure; none for a plan that can be bound.
 *
 * **Details**
 *
 * Problems of the plan as a whole come first, then those of each step in declared order;
 * within a step: its name, the steps that `task` and `context` refer to, the type of
 * what it reads, `routes`, `routesBy`, `afterBranches`, `writes`, and whether any run
 * gets to it. A problem that only follows from another one is not told: ways through
 * the plan are followed once all routes go somewhere.
 *
 * What a step reads fits its input unless the JSON Schemas of both say that it never
 * can. A schema that is absent, or of which only the name is known, can be anything.
 *
 * **Gotchas**
 *
 * A condition may always fail to hold, so the step after a router can always run, unless
 * one condition is the `When.not` of another, or `routesBy` names a required field that
 * is never anything but the name of a step.
 * Branches of one router exclude each other all the same, as they are meant to, where
 * types and keys are concerned.
 *
 * A plan with hundreds of thousands of ways between its steps is accepted without
 * following them.
 *
 * **Example** (A name that is not quite right)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PlanCheck, type PlanDefinition, Reference } from "effect-emissary"
 *
 * const step = (name: string, task: Reference.Reference): PlanDefinition.StepDefinition => ({
 *   name,
 *   target: { kind: "tool", name: "search" },
 *   task,
 *   parallel: false
 * })
 *
 * const problems = PlanCheck.structural({
 *   name: "report",
 *   maxIterations: 100,
 *   steps: [step("research", Reference.fromStart), step("write", Reference.fromStep("reserch"))]
 * })
 *
 * assert.deepStrictEqual(
 *   problems.map(({ step, slot, code, suggestion }) => [step, slot, code, suggestion]),
 *   [["write", "task", "UnknownStep", "research"]]
 * )
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const structural = (definition: PlanDefinition): ReadonlyArray<PlanProblem> =>
  internal.check(definition, maxIterationsLimit)

/**
 * The problems of a plan with what it is bound with; none for a plan that can run.
 *
 * **Details**
 *
 * For each step in declared order: its target is a tool or an agent that is there, and
 * the tool can take what the step gives it; then `fromAgent` and then `fromMemory`
 * refer to agents that keep what is read, in the task and in each context. Steps that
 * run agents and functions of their own need nothing.
 *
 * **Example** (Nothing is bound)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PlanCheck, Reference } from "effect-emissary"
 *
 * const problems = PlanCheck.binding(
 *   {
 *     name: "report",
 *     maxIterations: 100,
 *     steps: [
 *       { name: "a", target: { kind: "tool", name: "search" }, task: Reference.fromMemory("writer"), parallel: false }
 *     ]
 *   },
 *   { tools: new Map(), agents: new Set(["writer"]), memories: new Map() }
 * )
 *
 * assert.deepStrictEqual(problems.map(({ slot, code }) => [slot, code]), [
 *   ["target", "UnknownTool"],
 *   ["task", "NoMemory"]
 * ])
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const binding = (definition: PlanDefinition, bindings: Bindings): ReadonlyArray<PlanProblem> => {
  const plan = outline.make(definition)
  return plan.steps.flatMap((step, index) => {
    const slots = outline.slots(step)
    const findings = [
      tools.check(step, bindings.tools, bindings.agents),
      ...slots.map(([slot, reference]) => memories.answer(slot, reference, bindings)),
      ...slots.map(([slot, reference]) => memories.memory(slot, reference, bindings))
    ]
    return findings.flatMap((finding) => (finding === undefined ? [] : outline.at(plan, index, finding)))
  })
}

/**
 * What is legal in a plan and probably not meant: `routes`, `routesBy` and
 * `afterBranches` of a step in a band, which goes on at the step after it.
 *
 * **Example** (Routes that nobody follows)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PlanCheck, Reference } from "effect-emissary"
 *
 * const definition = {
 *   name: "report",
 *   maxIterations: 100,
 *   steps: [
 *     {
 *       name: "a",
 *       target: { kind: "tool", name: "search" },
 *       task: Reference.fromPrev,
 *       parallel: true,
 *       routes: [{ to: "b", when: { _tag: "Empty", path: [] } }]
 *     },
 *     { name: "b", target: { kind: "tool", name: "search" }, task: Reference.fromPrev, parallel: false }
 *   ]
 * } as const
 *
 * assert.deepStrictEqual(PlanCheck.structural(definition), [])
 * assert.deepStrictEqual(PlanCheck.warnings(definition).map(({ step, slot }) => [step, slot]), [["a", "routes"]])
 * ```
 *
 * @category validation
 * @since 0.1.0
 */
export const warnings = (definition: PlanDefinition): ReadonlyArray<PlanProblem> => internal.warnings(definition)

/**
 * How a tool takes what a step gives it, or why it cannot.
 *
 * **Details**
 *
 * - A step without an input schema gives a text. It goes to the parameter `task` if that
 *   takes a text, else to the first one that does (but not to `context`, if there is
 *   another), else to `input` if the tool takes parameters it does not declare. The
 *   context goes to the parameter `context` if that takes a text, else before the task.
 * - A step with an input schema gives an object: all arguments. The context goes to the
 *   parameter `context` beside it; without one, a step with context is a problem.
 *
 * A parameter that only takes certain texts does not take a text. The problem has no
 * `index`.
 *
 * @category validation
 * @since 0.1.0
 */
export const toolArguments = (tool: BoundTool, step: StepDefinition): Result.Result<ToolArguments, PlanProblem> =>
  Result.mapError(tools.toolArguments(tool, step), (finding) => outline.lone(step, finding))
