/**
 * A definition as the wires hold it, before its names are resolved: its rules, what older versions lose, and wire version 3.
 */

import * as Effect from "effect/Effect"
import * as JsonPointer from "effect/JsonPointer"
import * as Schema from "effect/Schema"
import type * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as compileSchema from "../../payload/internal/compileSchema.ts"
import * as paths from "../../payload/internal/paths.ts"
import * as untrusted from "../../payload/internal/untrusted.ts"
import * as PlanDefinition from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import * as condition from "./condition.ts"
import * as planFlow from "./planFlow.ts"
import * as planNames from "./planNames.ts"

/**
 * A target of version 1 or 2 whose kind is none that we know: the entry of the registry
 * decides. `wire` is the kind as a message shows it.
 */
export interface OpenTarget {
  readonly kind: "any"
  readonly name: string
  readonly wire: string
}

export interface DraftStep extends Omit<PlanDefinition.StepDefinition, "target"> {
  readonly target: PlanDefinition.StepDefinition["target"] | OpenTarget
}

export interface Draft extends Omit<PlanDefinition.PlanDefinition, "steps"> {
  /** In LazyBridge's dialect, versions 1 and 2, the schema names `str` and `Any` mean that there is no schema. */
  readonly dialect?: "lazybridge"
  readonly steps: ReadonlyArray<DraftStep>
}

/** The schema that LazyBridge means when it names none. */
export const isDefaultValue = (slot: "input" | "output", ref: PlanDefinition.SchemaRef): boolean =>
  ref.name === (slot === "output" ? "str" : "Any")

const settleStep = (step: DraftStep, lazy: boolean): PlanDefinition.StepDefinition => {
  const { input, output, target, ...rest } = step
  return {
    ...rest,
    target: target.kind === "any" ? { kind: "function", name: target.name } : target,
    ...(input === undefined || (lazy && isDefaultValue("input", input)) ? {} : { input }),
    ...(output === undefined || (lazy && isDefaultValue("output", output)) ? {} : { output })
  }
}

/** What a draft says without a registry: a target of an unknown kind is taken for a function. */
export const settleDraft = ({ dialect, ...draft }: Draft): PlanDefinition.PlanDefinition => ({
  ...draft,
  steps: draft.steps.map((step) => settleStep(step, dialect === "lazybridge"))
})

/** The key under which LazyBridge looks up the predicate of a route. */
export const routeKey = (step: string, to: string): string => `routes:${step}:${to}`

export const routeCondition = (step: string, to: string): condition.When => ({
  _tag: "Custom",
  name: routeKey(step, to)
})

export const isRouteCondition = (when: condition.When, step: string, to: string): boolean =>
  when._tag === "Custom" && when.name === routeKey(step, to)

/** What a message says of a value. Names are shown, other data only by its kind. */
export const showJson = (value: Schema.Json | undefined): string => {
  if (typeof value === "string") return paths.quote(value)
  if (value === undefined) return "nothing"
  if (value === null || typeof value === "number" || typeof value === "boolean") return String(value)
  return Array.isArray(value) ? "array" : "object"
}

/** What a message says of a value whose text may be anything. */
export const jsonKind = (value: Schema.Json | undefined): string => {
  if (value === undefined) return "nothing"
  if (value === null) return "null"
  return Array.isArray(value) ? "array" : typeof value
}

export const documentName = "Plan"

/** Which names steps may have. */
type NameRule = "identifier" | "text"

export const iterationsRule = `a whole number from 0 to ${planNames.maxIterations}`

const compiledSchemas = new WeakMap<Json.JsonObject, JsonSchema.JsonSchema>()

/** A JSON Schema of a plan, compiled once. */
export const compileStepSchema = (
  json: Json.JsonObject
): Effect.Effect<JsonSchema.JsonSchema, PayloadError.Problem> => {
  const before = compiledSchemas.get(json)
  if (before !== undefined) return Effect.succeed(before)
  return JsonSchema.make(json).pipe(
    Effect.tap((schema) => Effect.sync(() => compiledSchemas.set(json, schema))),
    Effect.mapError((error) => ({
      path: error.path,
      expected: "a JSON Schema that can be enforced",
      found: `one that cannot: ${error.message}`
    }))
  )
}

const schemaIssues = (
  path: string,
  ref: PlanDefinition.SchemaRef | undefined
): Effect.Effect<ReadonlyArray<PayloadError.Problem>> => {
  if (ref === undefined) return Effect.succeed([])
  if (ref.json === undefined) {
    const issue = { path, expected: "a schema with a name, a JSON Schema, or both", found: "neither" }
    return Effect.succeed(ref.name === undefined ? [issue] : [])
  }
  return Effect.match(compileStepSchema(ref.json), {
    onFailure: (issue) => [{ ...issue, path: `${path}/schema${issue.path}` }],
    onSuccess: () => []
  })
}

const stepAt = (reference: Reference): string | undefined => ("step" in reference ? reference.step : undefined)

const contextPlaces = (step: DraftStep): ReadonlyArray<readonly [string, Reference]> => {
  if (step.context === undefined) return []
  return planFlow.isReferenceList(step.context)
    ? step.context.map((reference, index) => [`/context/${index}`, reference])
    : [["/context", step.context]]
}

const referenceIssues = (path: string, step: DraftStep): ReadonlyArray<PayloadError.Problem> =>
  [["/task", step.task] as const, ...contextPlaces(step)].flatMap(([slot, reference]) => {
    const name = stepAt(reference)
    if (name === undefined || planNames.isIdentifier(name)) return []
    const expected = `the name of a step that a reference may hold (${planNames.identifierRule})`
    return [{ path: `${path}${slot}/name`, expected, found: showJson(name) }]
  })

const nameIssues = (path: string, name: string, rule: NameRule): ReadonlyArray<PayloadError.Problem> => {
  const good = rule === "identifier" ? planNames.isIdentifier(name) : planNames.isPlainText(name)
  const expected = `the name of the step: ${rule === "identifier" ? planNames.identifierRule : planNames.plainTextRule}`
  return good ? [] : [{ path: `${path}/name`, expected, found: showJson(name) }]
}

const tooManyIssues = (path: string, what: string, limit: number, found: number): ReadonlyArray<PayloadError.Problem> =>
  found <= limit ? [] : [{ path, expected: `at most ${limit} ${what}`, found: `${found}` }]

/** Patterns are counted before any is compiled. */
const patternsOfStep = ({ steps }: Draft): number =>
  steps.reduce(
    (sum, { routes = [] }) => sum + routes.reduce((all, { when }) => all + condition.countPatterns(when), 0),
    0
  )

const pointerTo = (path: ReadonlyArray<string | number>): string =>
  path.map((token) => `/${JsonPointer.escapeToken(String(token))}`).join("")

const conditionIssues = (path: string, step: DraftStep): ReadonlyArray<PayloadError.Problem> =>
  (step.routes ?? []).flatMap(({ when }, index) =>
    condition.analyze(when).problems.map((problem) => ({
      path: `${path}/routes/${index}/when${pointerTo(problem.path)}`,
      expected: "a condition that can be used",
      found: `one that cannot: ${problem.reason}`
    }))
  )

const stepIssues = Effect.fnUntraced(function* (step: DraftStep, index: number, rule: NameRule) {
  const path = `/steps/${index}`
  return [
    ...nameIssues(path, step.name, rule),
    ...referenceIssues(path, step),
    ...tooManyIssues(
      `${path}/context`,
      "contexts of one step",
      planNames.maxContext,
      planFlow.contextReferences(step.context).length
    ),
    ...tooManyIssues(`${path}/routes`, "routes of one step", planNames.maxRoutes, step.routes?.length ?? 0),
    ...conditionIssues(path, step),
    ...(yield* schemaIssues(`${path}/input`, step.input)),
    ...(yield* schemaIssues(`${path}/output`, step.output))
  ]
})

/** Every name in a plan that selects something, with its place. */
const stepNames = ({ output, steps }: Draft): ReadonlyArray<readonly [string, string]> => {
  const schema = (path: string, ref: PlanDefinition.SchemaRef | undefined): ReadonlyArray<readonly [string, string]> =>
    ref?.name === undefined ? [] : [[path, ref.name]]
  return [
    ...schema("/output/name", output),
    ...steps.flatMap((step, index) => [
      [`/steps/${index}/name`, step.name] as const,
      [`/steps/${index}/target/name`, step.target.name] as const,
      ...schema(`/steps/${index}/input/name`, step.input),
      ...schema(`/steps/${index}/output/name`, step.output),
      ...(step.routes ?? []).flatMap(({ when }, at) =>
        condition.analyze(when).customs.map((name) => [`/steps/${index}/routes/${at}/when`, name] as const)
      )
    ])
  ]
}

/** Those of the plan first, then those of each step together. */
const issuesInOrder = (issues: ReadonlyArray<PayloadError.Problem>): ReadonlyArray<PayloadError.Problem> => {
  const rank = ({ path }: PayloadError.Problem): number => {
    const [, key, index = ""] = path.split("/", 3)
    return key === "steps" ? 1 + (Number(index) || 0) : 0
  }
  return issues.toSorted((a, b) => rank(a) - rank(b))
}

/** Whether a place is one of these or inside one: what could not be read is not reported again. */
const isInsideAny = (path: string, places: ReadonlySet<string>): boolean => {
  for (let end = path.length; end > 0; end = path.lastIndexOf("/", end - 1)) {
    if (places.has(path.slice(0, end))) return true
  }
  return places.has("")
}

/** Checks everything that holds for a plan by itself, and reports every problem at once, with those found before. */
export const checkDraft = Effect.fnUntraced(function* (
  draft: Draft,
  rule: NameRule,
  found: ReadonlyArray<PayloadError.Problem> = []
): Effect.fn.Return<Draft, PayloadError.PayloadError> {
  const limits = yield* Limits.Limits
  const issues: Array<PayloadError.Problem> = []
  if (
    !(
      Number.isSafeInteger(draft.maxIterations) &&
      draft.maxIterations >= 0 &&
      draft.maxIterations <= planNames.maxIterations
    )
  ) {
    issues.push({ path: "/max_iterations", expected: iterationsRule, found: showJson(draft.maxIterations) })
  }
  issues.push(...(yield* schemaIssues("/output", draft.output)))
  const many = [
    ...tooManyIssues("/steps", "steps", planNames.maxSteps, draft.steps.length),
    ...tooManyIssues(
      "/steps",
      "regular expressions in all conditions together",
      planNames.maxPatterns,
      patternsOfStep(draft)
    )
  ]
  issues.push(...many)
  if (many.length === 0) {
    for (const [path, key] of stepNames(draft)) {
      if (untrusted.inheritedNames.has(key))
        return yield* new PayloadError.PayloadError({
          what: documentName,
          reason: new PayloadError.ForbiddenKey({ path, key })
        })
    }
    for (const [index, step] of draft.steps.entries()) issues.push(...(yield* stepIssues(step, index, rule)))
  }
  const unread = new Set(found.map(({ path }) => path))
  const all = issuesInOrder([...found, ...issues.filter(({ path }) => !isInsideAny(path, unread))])
  if (all.length === 0) return draft
  const shown = all.slice(0, limits.maxIssues)
  return yield* new PayloadError.PayloadError({
    what: documentName,
    reason: PayloadError.invalid(shown, all.length - shown.length)
  })
}, compileSchema.sharePatternFuel)

const referenceLosses = (path: string, { _tag }: Reference): ReadonlyArray<PayloadError.Loss> => {
  if (_tag !== "FromMemory" && _tag !== "FromAgent") return []
  const what = _tag === "FromMemory" ? "the memory" : "the last answer"
  return [{ path, what: `a reference to ${what} of an agent (written as null, which is read as the step before)` }]
}

const contextLosses = (path: string, value: DraftStep["context"]): ReadonlyArray<PayloadError.Loss> => {
  if (value === undefined) return []
  return planFlow.isReferenceList(value)
    ? value.flatMap((item, index) => referenceLosses(`${path}/${index}`, item))
    : referenceLosses(path, value)
}

const schemaLosses = (
  path: string,
  slot: "input" | "output",
  ref: PlanDefinition.SchemaRef | undefined,
  version: 1 | 2
) => {
  if (ref === undefined) return []
  if (version === 1) return [{ path, what: `the ${slot} schema` }]
  if (ref.name === undefined) return [{ path, what: `an ${slot} schema without a name` }]
  if (isDefaultValue(slot, ref)) return [{ path, what: `an ${slot} schema named ${ref.name}, which stands for none` }]
  return []
}

/** Two schemas of one name: only the name is written, and whoever reads it has one schema for it. */
const duplicateSchemaLosses = (steps: ReadonlyArray<DraftStep>): ReadonlyArray<PayloadError.Loss> => {
  const first = new Map<string, { readonly path: string; readonly json: Json.JsonObject }>()
  return steps.flatMap((step, index) =>
    (["input", "output"] as const).flatMap((slot): ReadonlyArray<PayloadError.Loss> => {
      const { json, name } = step[slot] ?? {}
      if (name === undefined || json === undefined || isDefaultValue(slot, { name })) return []
      const path = `/steps/${index}/${slot}`
      const before = first.get(name)
      if (before === undefined) {
        first.set(name, { path, json })
        return []
      }
      if (planNames.equalsJson(before.json, json)) return []
      const what = `an ${slot} schema named ${name}, which is another one at ${before.path} (written as the name, which is read as one schema)`
      return [{ path, what }]
    })
  )
}

/** Routes are written sorted, and each target once. */
const routeLosses = (path: string, { name, routes = [] }: DraftStep): ReadonlyArray<PayloadError.Loss> => {
  const targets = routes.map(({ to }) => to)
  const sorted = targets.toSorted(planNames.byCodePoint)
  const order = targets.every((to, index) => to === sorted[index])
    ? []
    : [{ path, what: `the order of the routes of ${paths.quote(name)} (written sorted by name)` }]
  const conditions = routes.flatMap(({ to, when }, index) =>
    targets.indexOf(to) < index
      ? [{ path: `${path}/${index}`, what: `a second route to ${paths.quote(to)}` }]
      : isRouteCondition(when, name, to)
        ? []
        : [{ path: `${path}/${index}/when`, what: `the condition of the route to ${paths.quote(to)}` }]
  )
  return [...order, ...conditions]
}

const stepLosses = (step: DraftStep, index: number, version: 1 | 2): ReadonlyArray<PayloadError.Loss> => {
  const path = `/steps/${index}`
  return [
    ...referenceLosses(`${path}/task`, step.task),
    ...contextLosses(`${path}/context`, step.context),
    ...schemaLosses(`${path}/input`, "input", step.input, version),
    ...schemaLosses(`${path}/output`, "output", step.output, version),
    ...routeLosses(`${path}/routes`, step),
    ...(step.timeoutMillis === undefined ? [] : [{ path: `${path}/timeout`, what: "the timeout of a step" }]),
    ...(step.retry === undefined ? [] : [{ path: `${path}/retry`, what: "how a step is retried" }])
  ]
}

/** The paths are those of version 3. */
export const lossesOf = (
  { description, name, output, steps }: Draft,
  version: 1 | 2
): ReadonlyArray<PayloadError.Loss> => [
  ...(name === planNames.defaultName ? [] : [{ path: "/name", what: "the name of the plan" }]),
  ...(description === undefined ? [] : [{ path: "/description", what: "the description of the plan" }]),
  ...(output === undefined ? [] : [{ path: "/output", what: "the output schema of the plan" }]),
  ...steps.flatMap((one, index) => stepLosses(one, index, version)),
  ...(version === 1 ? [] : duplicateSchemaLosses(steps))
]

const { fields } = PlanDefinition.PlanDefinition.to

/** Version 3: the definition itself, tagged. */
const WirePlan = Schema.Struct({ version: Schema.Literal(3), ...fields }).pipe(
  Schema.encodeKeys({ maxIterations: "max_iterations" })
)

export const planArm = VersionedCodec.arm({
  version: 3,
  wire: WirePlan,
  toCurrent: ({ version: _, ...definition }) => checkDraft(definition, "identifier"),
  fromCurrent: (draft: Draft) =>
    Effect.flatMap(checkDraft(draft, "identifier"), () =>
      VersionedCodec.lossless({ version: 3 as const, ...settleDraft(draft) })
    )
})
