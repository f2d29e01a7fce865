import type { Schema } from "effect"
import type { Json } from "../family.ts"

/** One case of `plan-cases.json`. The first letter of the id is its group. */
export interface Case {
  readonly id: string
  readonly title: string
  readonly given: Json
  readonly expect: Json
}

/** What is called: `[name, task]`, and the context for agents. */
export type Call = readonly [name: string, task: string, context?: string | null]

/** The outcome of a run in the words of the recordings. */
export interface RunResult {
  readonly task: string | null
  readonly context: string | null
  readonly payload: Schema.Json
  readonly text: string
  readonly error?: { readonly type: string; readonly message: string; readonly retryable: boolean }
}

/** A failure that left the engine instead of becoming the `error` of a result. */
export interface Raised {
  readonly RAISED: string
  readonly message: string
}

/** What one run came to. */
export interface Observed {
  readonly trace: ReadonlyArray<Call>
  readonly result: RunResult | Raised
}

export const isRaised = (result: RunResult | Raised): result is Raised => "RAISED" in result

export const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value)

export const objectAt = (value: Json, key: string): Json | undefined => {
  const found = value[key]
  return isObject(found) ? found : undefined
}

/** The raw steps of a plan in a case. */
export const stepsOf = (plan: unknown): ReadonlyArray<Json> => {
  const steps = isObject(plan) ? plan["steps"] : undefined
  return Array.isArray(steps) ? steps.filter(isObject) : []
}
