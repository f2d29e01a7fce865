/** Conditions of approvals: the code that reads, checks and decides them. */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { quote } from "../../payload/internal/base.ts"
import type * as compileSchema from "../../payload/internal/compileSchema.ts"
import * as Patterns from "../../payload/internal/patterns.ts"
import { problemsFromSchemaError } from "../../payload/internal/problems.ts"
import { isObject, type JsonObject, parsePointer } from "../../payload/internal/values.ts"
import * as When from "../When.ts"
import * as argumentSources from "./argumentSources.ts"
import * as condition from "./condition.ts"
import * as requestTerms from "./requestTerms.ts"

/** A condition that names nothing else holds never, or always. */
const roots = ["arguments", "context", "source"]

/** The reason why a part of a condition cannot be decided by the facts of a call. */
const misplaced = (when: condition.When, { additionalProperties, properties }: JsonObject): string | undefined => {
  if (when._tag === "Custom" || when._tag === "Text") return `expected a condition on a value, found ${when._tag}`
  if (!("path" in when)) return undefined
  const [root = "", name, ...rest] = when.path.map(String)
  if (!roots.includes(root)) return `expected a path that begins with one of ${roots.join(", ")}, found ${quote(root)}`
  if (root === "context") return undefined
  const known = additionalProperties === false && isObject(properties) ? Object.keys(properties) : [name]
  if (name !== undefined && known.includes(name) && (root !== "source" || rest.length === 0)) return undefined
  return `expected the name of a parameter behind ${root}, found ${quote([name ?? "nothing", ...rest].join("."))}`
}

const problemsIn = (
  when: condition.When,
  problems: ReadonlyArray<condition.ConditionProblem>,
  { approval, parameters }: requestTerms.Content
): ReadonlyArray<requestTerms.TermsProblem> => {
  const all = [
    ...(approval === "never" ? [{ path: [], reason: `expected the approval "dynamic", found "never"` }] : problems),
    ...(problems.length > 0 ? [] : condition.partsOf(when)).flatMap(([path, part]) => {
      const reason = misplaced(part, parameters)
      return reason === undefined ? [] : [{ path, reason }]
    })
  ]
  return all.map(({ path, reason }) => {
    const [expected = "", found = ""] = reason.slice("expected ".length).split(/, found (.*)/s)
    return { path: ["when", ...path], expected, found }
  })
}

/** Decides a condition. A condition that cannot be decided here asks. */
const decide = (when: condition.When, parameters: JsonObject, facts: requestTerms.Facts): Effect.Effect<boolean> =>
  Effect.flatMap(Patterns.PatternEngine, (engine) => {
    if (condition.analyze(when, engine).problems.length > 0) return Effect.succeed(true)
    const named = condition
      .partsOf(when)
      .flatMap(([, one]) => ("path" in one && one.path[0] === "source" ? one.path.slice(1).map(String) : []))
    const { arguments: args, context } = facts
    const call = { arguments: args, context, parameters }
    const source = named.length === 0 ? {} : argumentSources.sourcesOf(new Set(named), call, facts.places?.() ?? [])
    const subject = { payload: { arguments: args, context, source }, text: "" }
    return Effect.orElseSucceed(
      condition.evaluate(when, subject, () => Effect.succeed(true)),
      () => true
    )
  })

const add = (json: JsonObject, when: condition.When): void =>
  requestTerms.addCondition(json, {
    problems: (contract) => problemsIn(when, condition.problemsAnywhere(when), contract),
    holds: (parameters, facts) => decide(when, parameters, facts)
  })

const encode = Schema.encodeUnknownResult(When.When)

/** The policy that asks as the condition decides. */
export const policyOf = (when: condition.When): (() => boolean) => {
  // Sound: a condition is an object in JSON. A condition without JSON is refused with the contract
  const json = Result.getOrElse(encode(when), () => ({})) as JsonObject
  add(json, when)
  return requestTerms.policyOf(json)
}

const read = Schema.decodeUnknownResult(condition.Shape, { onExcessProperty: "error" })

/** Reads the condition of a contract from elsewhere, and returns its problems. */
export const readCondition = (
  contract: requestTerms.Content,
  { engine, tank }: compileSchema.Door
): ReadonlyArray<requestTerms.TermsProblem> => {
  const json = contract.request?.when
  if (json === undefined) return []
  const when = read(json)
  if (Result.isFailure(when)) {
    return problemsFromSchemaError(when.failure, json).map(({ expected, found, path }) => ({
      path: ["when", ...parsePointer(path)],
      expected,
      found
    }))
  }
  add(json, when.success)
  return problemsIn(when.success, condition.analyze(when.success, engine, tank).problems, contract)
}
