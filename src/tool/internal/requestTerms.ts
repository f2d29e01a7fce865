/**
 * The terms of the requests for the calls of a tool, as data: which calls ask. A condition is JSON here, and who has read it has brought the
 * code that decides it, so that agents without conditions do not have that code. A condition that no code has read asks.
 */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Schema from "effect/Schema"
import type * as Tool from "effect/ai/Tool"
import type { JsonObject } from "../../payload/internal/values.ts"
import type { Place } from "./argumentSources.ts"

/** The terms in a contract; the contract has the documentation. */
export const RequestTerms = Schema.Struct({
  when: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
})

export type RequestTerms = typeof RequestTerms.Type

/** The part of a contract that its terms are about. */
export interface Content {
  readonly approval: string
  readonly parameters: JsonObject
  readonly request?: RequestTerms | undefined
}

/** The facts of a call that a condition is about. */
export interface Facts {
  readonly arguments: JsonObject
  readonly context: JsonObject
  readonly places?: (() => ReadonlyArray<Place>) | undefined
}

/** A part of a condition that cannot be used, with its place in JSON. */
export interface TermsProblem {
  readonly path: ReadonlyArray<string | number>
  readonly expected: string
  readonly found: string
}

/** The code of a condition. */
export interface Condition {
  readonly problems: (contract: Content) => ReadonlyArray<TermsProblem>
  /** True for a call that asks. */
  readonly holds: (parameters: JsonObject, facts: Facts) => Effect.Effect<boolean>
}

/** The conditions that were read, by their JSON. */
const conditions = new WeakMap<object, Condition>()

/** Adds a condition with its code. */
export const addCondition = (when: JsonObject, condition: Condition): void => {
  conditions.set(when, condition)
}

/** The policies that are conditions. */
const policies = new WeakMap<object, JsonObject>()

/** The policy that asks as a condition decides. Code that knows no conditions has an approval for each call. */
export const policyOf = (when: JsonObject): (() => boolean) => {
  const policy = () => true
  policies.set(policy, when)
  return policy
}

/** The policy of a tool that is code, if there is one. */
export const codeOf = ({ needsApproval }: Tool.Any) =>
  typeof needsApproval === "function" && !policies.has(needsApproval) ? needsApproval : undefined

/** The terms of a tool. */
export const termsOf = ({ needsApproval }: Tool.Any): RequestTerms | undefined => {
  const when = typeof needsApproval === "function" ? policies.get(needsApproval) : undefined
  return when && { when }
}

/** The parts of the terms that cannot be used. A condition that no code has read is not checked. */
export const problemsOf = (contract: Content): ReadonlyArray<TermsProblem> => {
  const { when } = contract.request ?? {}
  return (when && conditions.get(when)?.problems(contract)) ?? []
}

/** True for a call that asks. */
export const holds = (when: JsonObject, parameters: JsonObject, facts: Facts): Effect.Effect<boolean> =>
  conditions.get(when)?.holds(parameters, facts) ?? Effect.succeed(true)

/**
 * The terms of a contract from elsewhere and of the tool here together: what one of them asks for is asked for. Where the contract from
 * elsewhere leaves the decision to code, and none is here, there is no condition, and each call asks.
 */
export const stricter = (given: Content, here: Content): RequestTerms | undefined => {
  const [first, second] = [given.request?.when, here.request?.when]
  if (first === undefined) return given.approval === "never" ? here.request : undefined
  if (second === undefined) return { when: first }
  if (Equal.equals(first, second)) return { when: second }
  const when = { kind: "or", conditions: [first, second] }
  addCondition(when, {
    problems: () => [],
    holds: (...about) =>
      Effect.flatMap(holds(first, ...about), (needed) => (needed ? Effect.succeed(true) : holds(second, ...about)))
  })
  return { when }
}
