import { Effect } from "effect"
import { Plan } from "effect-emissary/plan"

/** One row of the tables P and Q of `plan-cases.md`, as a test. */
export interface Row {
  /** The expectation of the table, in short. */
  readonly expected: string
  /** The behaviour of the library instead, and the advice of the specification (S...) or the point (PLAN-...) for it. */
  readonly instead?: string
  readonly test: Effect.Effect<void, unknown>
}

export interface Rows {
  readonly [id: string]: Row
}

export const bind = <A, R, E>(plan: Effect.Effect<Plan.Plan<A, R>, E>) => Effect.flatMap(plan, (made) => Plan.bind(made))
