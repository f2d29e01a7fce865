/** References of raw steps. */
import type { PlanProblem } from "../../PlanProblem.ts"

export const validate = (steps: unknown): ReadonlyArray<PlanProblem> => {
  void steps
  return []
}
