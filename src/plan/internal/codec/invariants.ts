/** What every plan on a wire promises, whichever way it goes. */
import * as Effect from "effect/Effect"
import * as JsonPointer from "effect/JsonPointer"
import * as CheckedSchema from "../../../payload/CheckedSchema.ts"
import type { JsonObject } from "../../../payload/Json.ts"
import * as Limits from "../../../payload/Limits.ts"
import * as Names from "../../../payload/Names.ts"
import { ForbiddenKey, invalid, type Issue, PayloadError } from "../../../payload/PayloadError.ts"
import * as Condition from "../../wire/condition-v3.ts"
import type { SchemaRef } from "../../PlanDefinition.ts"
import type { Reference } from "../../Reference.ts"
import * as When from "../../When.ts"
import { contextOf, isList } from "../references.ts"
import type { Draft, DraftStep } from "./draft.ts"
import { maxContext, maxIterations, maxPatterns, maxRoutes, maxSteps } from "./limits.ts"
import { identifierRule, isIdentifier, isPlainText, plainTextRule } from "../names/rules.ts"
import { show } from "./show.ts"

export const what = "Plan"

/** Which names steps may have. */
export type NameRule = "identifier" | "text"

export const iterationsRule = `a whole number from 0 to ${maxIterations}`

const checked = new WeakMap<JsonObject, CheckedSchema.CheckedSchema>()

/** A JSON Schema of a plan, compiled once. */
export const compile = (json: JsonObject): Effect.Effect<CheckedSchema.CheckedSchema, Issue> => {
  const before = checked.get(json)
  if (before !== undefined) return Effect.succeed(before)
  return CheckedSchema.make(json).pipe(
    Effect.tap((schema) => Effect.sync(() => checked.set(json, schema))),
    Effect.mapError((error) => ({
      path: error.path,
      expected: "a JSON Schema that can be enforced",
      found: `one that cannot: ${error.message}`
    }))
  )
}

const schemaIssues = (path: string, ref: SchemaRef | undefined): Effect.Effect<ReadonlyArray<Issue>> => {
  if (ref === undefined) return Effect.succeed([])
  if (ref.json === undefined) {
    const issue = { path, expected: "a schema with a name, a JSON Schema, or both", found: "neither" }
    return Effect.succeed(ref.name === undefined ? [issue] : [])
  }
  return Effect.match(compile(ref.json), {
    onFailure: (issue) => [{ ...issue, path: `${path}/schema${issue.path}` }],
    onSuccess: () => []
  })
}

const stepOf = (reference: Reference): string | undefined => ("step" in reference ? reference.step : undefined)

const contextPlaces = (step: DraftStep): ReadonlyArray<readonly [string, Reference]> => {
  if (step.context === undefined) return []
  return isList(step.context)
    ? step.context.map((reference, index) => [`/context/${index}`, reference])
    : [["/context", step.context]]
}

const referenceIssues = (path: string, step: DraftStep): ReadonlyArray<Issue> =>
  [["/task", step.task] as const, ...contextPlaces(step)].flatMap(([slot, reference]) => {
    const name = stepOf(reference)
    if (name === undefined || isIdentifier(name)) return []
    const expected = `the name of a step that a reference may hold (${identifierRule})`
    return [{ path: `${path}${slot}/name`, expected, found: show(name) }]
  })

const nameIssues = (path: string, name: string, rule: NameRule): ReadonlyArray<Issue> => {
  const good = rule === "identifier" ? isIdentifier(name) : isPlainText(name)
  const expected = `the name of the step: ${rule === "identifier" ? identifierRule : plainTextRule}`
  return good ? [] : [{ path: `${path}/name`, expected, found: show(name) }]
}

const tooMany = (path: string, what: string, limit: number, found: number): ReadonlyArray<Issue> =>
  found <= limit ? [] : [{ path, expected: `at most ${limit} ${what}`, found: `${found}` }]

const patternsIn = (when: When.When): number => {
  switch (when._tag) {
    case "Matches":
      return 1
    case "And":
      return when.all.reduce((sum, one) => sum + patternsIn(one), 0)
    case "Or":
      return when.any.reduce((sum, one) => sum + patternsIn(one), 0)
    case "Not":
      return patternsIn(when.when)
    default:
      return 0
  }
}

/** Patterns are counted before any is compiled. */
const patternsOf = ({ steps }: Draft): number =>
  steps.reduce((sum, { routes = [] }) => sum + routes.reduce((all, { when }) => all + patternsIn(when), 0), 0)

const pointer = (path: ReadonlyArray<string | number>): string =>
  path.map((token) => `/${JsonPointer.escapeToken(String(token))}`).join("")

const conditionIssues = (path: string, step: DraftStep): ReadonlyArray<Issue> =>
  (step.routes ?? []).flatMap(({ when }, index) =>
    When.problems(when).map((problem) => ({
      path: `${path}/routes/${index}/when${pointer(Condition.place(problem.path))}`,
      expected: "a condition that can be used",
      found: `one that cannot: ${problem.reason}`
    }))
  )

const stepIssues = Effect.fnUntraced(function* (step: DraftStep, index: number, rule: NameRule) {
  const path = `/steps/${index}`
  return [
    ...nameIssues(path, step.name, rule),
    ...referenceIssues(path, step),
    ...tooMany(`${path}/context`, "contexts of one step", maxContext, contextOf(step.context).length),
    ...tooMany(`${path}/routes`, "routes of one step", maxRoutes, step.routes?.length ?? 0),
    ...conditionIssues(path, step),
    ...(yield* schemaIssues(`${path}/input`, step.input)),
    ...(yield* schemaIssues(`${path}/output`, step.output))
  ]
})

/** Every name in a plan that selects something, with its place. */
const namesOf = ({ output, steps }: Draft): ReadonlyArray<readonly [string, string]> => {
  const schema = (path: string, ref: SchemaRef | undefined): ReadonlyArray<readonly [string, string]> =>
    ref?.name === undefined ? [] : [[path, ref.name]]
  return [
    ...schema("/output/name", output),
    ...steps.flatMap((step, index) => [
      [`/steps/${index}/name`, step.name] as const,
      [`/steps/${index}/target/name`, step.target.name] as const,
      ...schema(`/steps/${index}/input/name`, step.input),
      ...schema(`/steps/${index}/output/name`, step.output),
      ...(step.routes ?? []).flatMap(({ when }, at) =>
        When.customs(when).map((name) => [`/steps/${index}/routes/${at}/when`, name] as const)
      )
    ])
  ]
}

/** Those of the plan first, then those of each step together. */
const inOrder = (issues: ReadonlyArray<Issue>): ReadonlyArray<Issue> => {
  const rank = ({ path }: Issue): number => {
    const [, key, index = ""] = path.split("/", 3)
    return key === "steps" ? 1 + (Number(index) || 0) : 0
  }
  return issues.toSorted((a, b) => rank(a) - rank(b))
}

/** Whether a place is one of these or inside one: what could not be read is not reported again. */
const isWithin = (path: string, places: ReadonlySet<string>): boolean => {
  for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
    if (places.has(path.slice(0, end))) return true
  }
  return places.has("")
}

/** Checks everything that holds for a plan by itself, and reports every problem at once, with those found before. */
export const check = Effect.fnUntraced(function* (
  draft: Draft,
  rule: NameRule,
  found: ReadonlyArray<Issue> = []
): Effect.fn.Return<Draft, PayloadError> {
  const limits = yield* Limits.Limits
  const issues: Array<Issue> = []
  if (
    !(Number.isSafeInteger(draft.maxIterations) && draft.maxIterations >= 0 && draft.maxIterations <= maxIterations)
  ) {
    issues.push({ path: "/max_iterations", expected: iterationsRule, found: show(draft.maxIterations) })
  }
  issues.push(...(yield* schemaIssues("/output", draft.output)))
  const many = [
    ...tooMany("/steps", "steps", maxSteps, draft.steps.length),
    ...tooMany("/steps", "regular expressions in all conditions together", maxPatterns, patternsOf(draft))
  ]
  issues.push(...many)
  if (many.length === 0) {
    for (const [path, key] of namesOf(draft)) {
      if (Names.inherited.has(key)) return yield* new PayloadError({ what, reason: new ForbiddenKey({ path, key }) })
    }
    for (const [index, step] of draft.steps.entries()) issues.push(...(yield* stepIssues(step, index, rule)))
  }
  const unread = new Set(found.map(({ path }) => path))
  const all = inOrder([...found, ...issues.filter(({ path }) => !isWithin(path, unread))])
  if (all.length === 0) return draft
  const shown = all.slice(0, limits.maxIssues)
  return yield* new PayloadError({ what, reason: invalid(shown, all.length - shown.length) })
}, CheckedSchema.withSharedBudget)
