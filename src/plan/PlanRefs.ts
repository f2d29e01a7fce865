/**
 * Looking for references to unknown steps in a plan that was not decoded.
 *
 * @since 0.1.0
 */
import type { PlanProblem } from "./PlanProblem.ts"
import * as internal from "./internal/codec/refs.ts"

/**
 * Finds references of raw steps to steps that do not exist.
 *
 * @category checks
 * @since 0.1.0
 */
export const validatePlanRefs = (steps: unknown): ReadonlyArray<PlanProblem> => internal.validate(steps)
