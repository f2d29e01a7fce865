/**
 * References to unknown steps, in a plan that was not decoded.
 *
 * @since 0.1.0
 */
import type { PlanProblem } from "./PlanProblem.ts"
import * as internal from "./internal/codec/refs.ts"

/**
 * Finds references of raw steps to steps that do not exist.
 *
 * **When to use**
 *
 * Use it in an editor, or before a plan is stored: it needs no registry, and takes the `steps`
 * of any version, complete or not. To know whether a plan can run, decode it.
 *
 * **Details**
 *
 * Looked at are, of each step in this order: `task`, `context`, `routes` and
 * `after_branches`. Not looked at are the order of steps, bands, `routes_by`, names that
 * occur twice, and targets. A step without a name is known as the empty name. Whatever
 * has another shape is passed over: it never fails, on any JSON.
 *
 * **Example** (A name that was mistyped)
 *
 * ```ts
 * import assert from "node:assert"
 * import { PlanRefs } from "effect-emissary"
 *
 * const [problem] = PlanRefs.validatePlanRefs([
 *   { name: "fetch", target: { kind: "tool", name: "fetch" } },
 *   { name: "rank", target: { kind: "tool", name: "rank" }, task: { kind: "from_step", name: "fetsh" } }
 * ])
 * assert.strictEqual(problem?.step, "rank")
 * assert.strictEqual(problem?.suggestion, "fetch")
 * ```
 *
 * @category checks
 * @since 0.1.0
 */
export const validatePlanRefs = (steps: unknown): ReadonlyArray<PlanProblem> => internal.validate(steps)
