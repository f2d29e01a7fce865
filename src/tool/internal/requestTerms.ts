/**
 * The terms of the requests for the calls of a tool, as data: which calls ask, who decides, and until when. A condition is JSON here, and who has read it has brought the
 * code that decides it, so that agents without conditions do not have that code. A condition that no code has read asks.
 */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { identity } from "effect/Function"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Tool from "effect/ai/Tool"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import type * as PayloadError from "../../payload/PayloadError.ts"
import * as compileSchema from "../../payload/internal/compileSchema.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { defaultLimits } from "../../payload/internal/limits.ts"
import { type JsonObject, parsePointer } from "../../payload/internal/values.ts"
import type { Place } from "./argumentSources.ts"

/** The terms in a contract; the contract has the documentation. */
export const RequestTerms = Schema.Struct({
  when: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  deciders: Schema.optionalKey(Schema.NonEmptyArray(Schema.String)),
  expiresAfter: Schema.optionalKey(Schema.Finite),
  otherwise: Schema.optionalKey(Schema.Json)
})

export type RequestTerms = typeof RequestTerms.Type

/** The part of a contract that its terms are about. */
export interface Content {
  readonly approval: string
  readonly client?: string | undefined
  readonly parameters: JsonObject
  readonly success?: JsonObject | undefined
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

/** The condition of a tool. */
export const conditionOf = ({ needsApproval }: Tool.Any): JsonObject | undefined =>
  typeof needsApproval === "function" ? policies.get(needsApproval) : undefined

/** The answer as the JSON Schema of its request completes it, or its problems. */
export const checkAnswer = (
  schema: JsonObject,
  answer: Schema.Json | undefined
): Result.Result<Schema.Json, ReadonlyArray<PayloadError.Problem>> => {
  const tank = fuel.make(defaultLimits.maxFuel)
  const compiled = compileSchema.compileOnce(schema, { engine: undefined, tank }, true)
  return Result.isFailure(compiled)
    ? Result.fail([{ path: "", expected: "a request with a JSON Schema", found: "a schema that cannot be used" }])
    : JsonSchema.validate(compiled.success, answer)
}

/** The parts of the terms that cannot be used. A condition that no code has read is not checked. */
export const problemsOf = (contract: Content): ReadonlyArray<TermsProblem> => {
  const { client, request = {}, success = {} } = contract
  const { expiresAfter, otherwise, when } = request
  const problems: Array<TermsProblem> = [...((when && conditions.get(when)?.problems(contract)) ?? [])]
  if (expiresAfter !== undefined && !(expiresAfter > 0))
    problems.push({ path: ["expiresAfter"], expected: "a positive number of milliseconds", found: `${expiresAfter}` })
  if (otherwise === undefined) return problems
  if (client === undefined)
    problems.push({ path: ["otherwise"], expected: "no answer, as an approval is denied", found: "an answer" })
  else if (expiresAfter === undefined)
    problems.push({ path: ["otherwise"], expected: "the time after which it counts (expiresAfter)", found: "none" })
  const found =
    client === undefined
      ? []
      : Result.match(checkAnswer(success, otherwise), { onFailure: identity, onSuccess: () => [] })
  for (const { path, ...problem } of found) problems.push({ path: ["otherwise", ...parsePointer(path)], ...problem })
  return problems
}

/** True for a call that asks. */
export const holds = (when: JsonObject, parameters: JsonObject, facts: Facts): Effect.Effect<boolean> =>
  conditions.get(when)?.holds(parameters, facts) ?? Effect.succeed(true)

/**
 * The terms of a contract from elsewhere and of the tool here together: what one of them asks for is asked for, and the tool here names who
 * decides and until when. Where the contract from
 * elsewhere leaves the decision to code, and none is here, there is no condition, and each call asks.
 */
export const stricter = (given: Content, here: Content): RequestTerms | undefined => {
  const [first, second] = [given.request?.when, here.request?.when]
  const { when: _, ...terms } = here.request ?? {}
  if (first === undefined) return given.approval === "never" ? here.request : noneIfEmpty(terms)
  if (second === undefined) return { ...terms, when: first }
  if (Equal.equals(first, second)) return { ...terms, when: second }
  const when = { kind: "or", conditions: [first, second] }
  addCondition(when, {
    problems: () => [],
    holds: (...about) =>
      Effect.flatMap(holds(first, ...about), (needed) => (needed ? Effect.succeed(true) : holds(second, ...about)))
  })
  return { ...terms, when }
}

const noneIfEmpty = (terms: RequestTerms): RequestTerms | undefined =>
  Object.keys(terms).length === 0 ? undefined : terms
