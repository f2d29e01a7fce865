import type { Effect } from "effect"

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
