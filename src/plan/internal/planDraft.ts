/**
 * A definition as its JSON has it, before a registry resolves its names: the checks of every version, and version 3.
 */

import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as Limits from "../../payload/Limits.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { PatternEngine } from "../../payload/internal/patterns.ts"
import { defined, formatPointer, inheritedNames, isArray, own } from "../../payload/internal/values.ts"
import * as PlanDefinition from "../PlanDefinition.ts"
import * as condition from "../../tool/internal/condition.ts"
import * as planFlow from "./planFlow.ts"
import * as planNames from "./planNames.ts"
import * as stepSchema from "./stepSchema.ts"

export interface DraftStep extends Omit<PlanDefinition.StepDefinition, "target"> {
  /** In version 1 or 2 its kind can be unknown: the entry of the registry decides. `wire` is that kind, for messages. */
  readonly target:
    | PlanDefinition.StepDefinition["target"]
    | { readonly kind: "any"; readonly name: string; readonly wire: string }
  /** True for a step of version 1 or 2 that has the name of its target, for want of one of its own. */
  readonly isUnnamed?: true
}

export interface Draft extends Omit<PlanDefinition.PlanDefinition, "steps"> {
  /** In LazyBridge's dialect, versions 1 and 2, the schema names `str` and `Any` mean that there is no schema. */
  readonly dialect?: "lazybridge"
  readonly steps: ReadonlyArray<DraftStep>
}

export type SchemaSlot = "input" | "output"

/** True for the schema names that mean no schema in LazyBridge's dialect. */
export const isNoSchema = (slot: SchemaSlot, ref: PlanDefinition.SchemaRef | undefined): boolean =>
  ref?.name === (slot === "output" ? "str" : "Any")

/** The definition of a draft without a registry: a target of an unknown kind becomes a function. */
export const settleDraft = ({ dialect, ...draft }: Draft): PlanDefinition.PlanDefinition => {
  const schemaOf = (slot: SchemaSlot, ref: PlanDefinition.SchemaRef | undefined) =>
    dialect === "lazybridge" && isNoSchema(slot, ref) ? undefined : ref
  const settleStep = ({ input, isUnnamed: _, output, target, ...rest }: DraftStep): PlanDefinition.StepDefinition => ({
    ...rest,
    target: target.kind === "any" ? { kind: "function", name: target.name } : target,
    ...defined({ input: schemaOf("input", input), output: schemaOf("output", output) })
  })
  return { ...draft, steps: draft.steps.map(settleStep) }
}

export const documentName = "Plan"

/** The rule of step names: identifiers in version 3, any text in versions 1 and 2. */
type NameRule = "identifier" | "text"

type Problems = ReadonlyArray<PayloadError.Problem>

type Report = ReturnType<typeof makeReport>

/** Problems in the order in which they are found. */
const makeReport = (before: Problems) => {
  const problems = [...before]
  const add = (path: string, expected: string, found: string): void => void problems.push({ path, expected, found })
  return {
    problems,
    add,
    atMost: (limit: number, what: string, path: string, count: number): void => {
      if (count > limit) add(path, `at most ${limit} ${what}`, `${count}`)
    }
  }
}

/** A name that selects something is none that every object inherits. */
const checkKey = (path: string, key: string | undefined): Effect.Effect<void, PayloadError.PayloadError> => {
  if (key === undefined || !inheritedNames.has(key)) return Effect.void
  const reason = PayloadError.Reason.cases.ForbiddenKey.make({ path, key })
  return Effect.fail(new PayloadError.PayloadError({ what: documentName, reason }))
}

const checkSchema = Effect.fnUntraced(function* (
  { add }: Report,
  path: string,
  ref: PlanDefinition.SchemaRef | undefined
) {
  if (ref === undefined) return
  const { json, name } = ref
  yield* checkKey(`${path}/name`, name)
  if (json === undefined) {
    if (name === undefined) add(path, "a schema with a name, a JSON Schema, or both", "neither")
    return
  }
  const made = yield* Effect.result(JsonSchema.make(json))
  if (Result.isSuccess(made)) return
  const tank = yield* fuel.current
  if (fuel.isEmpty(tank)) return yield* fuel.fail(tank, documentName, `${path}/schema${made.failure.path}`)
  const found = `a schema that cannot: ${made.failure.message}`
  add(`${path}/schema${made.failure.path}`, "a JSON Schema that can be enforced", found)
})

const checkCondition = Effect.fnUntraced(function* (
  { add }: Report,
  path: string,
  { customs, problems }: ReturnType<typeof condition.analyze>
) {
  for (const name of customs) yield* checkKey(path, name)
  for (const problem of problems) {
    const place = `${path}${formatPointer(problem.path)}`
    add(place, "a condition that can be used", `a condition that cannot: ${problem.reason}`)
  }
})

const checkNames = ({ add }: Report, path: string, step: DraftStep, rule: NameRule): void => {
  const [isName, words] =
    rule === "identifier"
      ? [planNames.isIdentifier, planNames.identifierRule]
      : [planNames.isPlainText, planNames.plainTextRule]
  if (!isName(step.name)) add(`${path}/name`, `the name of the step: ${words}`, base.quote(step.name))
  for (const { path: place, reference } of planFlow.referencesOf(step)) {
    if (!("step" in reference) || planNames.isIdentifier(reference.step)) continue
    const kind = reference._tag.replaceAll(/(?!^)[A-Z]/gu, "_$&").toLowerCase()
    const expected = `the name of a step in ${kind}: ${planNames.identifierRule}`
    add(`${path}${place}/name`, expected, base.quote(reference.step))
  }
}

/** The units for a route: it has a predicate, and names a step. */
export const routeUnits = 60

const checkStep = Effect.fnUntraced(function* (report: Report, path: string, step: DraftStep, rule: NameRule) {
  const { context, input, name, output, routes = [], routesBy, target } = step
  yield* checkKey(`${path}/name`, name)
  yield* checkKey(`${path}/target/name`, target.name)
  checkNames(report, path, step, rule)
  const contexts = planFlow.contextReferences(context).length
  report.atMost(planNames.maxContext, "contexts of one step", `${path}/context`, contexts)
  report.atMost(planNames.maxRoutes, "routes of one step", `${path}/routes`, routes.length)
  const tank = yield* fuel.current
  const engine = yield* PatternEngine
  for (const [index, { when }] of routes.entries()) {
    const analysis = condition.analyze(when, engine, tank)
    const place = `${path}/routes/${index}/when`
    if (fuel.isEmpty(tank)) return yield* fuel.fail(tank, documentName, place)
    if (analysis !== condition.plain) yield* checkCondition(report, place, analysis)
  }
  yield* checkSchema(report, `${path}/input`, input)
  yield* checkSchema(report, `${path}/output`, output)
  const { literals = [] } = (routesBy === undefined ? undefined : stepSchema.readDiscriminant(output, routesBy)) ?? {}
  const isPaid = fuel.spend(tank, literals.length * routeUnits)
  if (!isPaid) return yield* fuel.fail(tank, documentName, `${path}/routes_by`)
})

const findProblems = Effect.fnUntraced(function* (draft: Draft, rule: NameRule, before: Problems) {
  const report = makeReport(before)
  const { maxIterations: iterations, output, steps } = draft
  const isCount = Number.isSafeInteger(iterations) && iterations >= 0 && iterations <= planNames.maxIterations
  if (!isCount) report.add("/max_iterations", `a whole number from 0 to ${planNames.maxIterations}`, `${iterations}`)
  yield* checkSchema(report, "/output", output)
  const conditions = steps.flatMap(({ routes = [] }) => routes.map(({ when }) => when))
  const patterns = conditions.reduce((sum, when) => sum + condition.countPatterns(when), 0)
  report.atMost(planNames.maxSteps, "steps", "/steps", steps.length)
  report.atMost(planNames.maxPatterns, "regular expressions in all conditions together", "/steps", patterns)
  // No pattern of a plan that has too many is compiled.
  if (steps.length > planNames.maxSteps || patterns > planNames.maxPatterns) return report.problems
  for (const [index, step] of steps.entries()) yield* checkStep(report, `/steps/${index}`, step, rule)
  return report.problems
})

/** Checks everything that can be checked in a plan by itself. It reports every problem at once, after the `found` ones. */
export const checkDraft = Effect.fnUntraced(function* <D extends Draft>(
  draft: D,
  rule: NameRule,
  found: Problems = []
): Effect.fn.Return<D, PayloadError.PayloadError> {
  const { maxIssues } = yield* Limits.Limits
  const problems = yield* findProblems(draft, rule, found)
  if (problems.length === 0) return draft
  const reason = PayloadError.invalid(problems.slice(0, maxIssues), Math.max(0, problems.length - maxIssues))
  return yield* new PayloadError.PayloadError({ what: documentName, reason })
}, fuel.door)

/** The units for decoding, checking and resolving one part of a plan or a graph. Schemas and patterns are paid besides. */
const units = { object: 100, item: 4, nesting: 10 }

/** The units for one member of an object or an array that is under a key. */
const memberUnits: { readonly [key: string]: number } = { routes: routeUnits, schema: 50 }

/** The units that a document takes: most for objects, which are steps, references, routes and conditions. */
const unitsOf = (document: Schema.Json): number => {
  let sum = 0
  const open: Array<readonly [json: Schema.JsonArray | Schema.JsonObject, nesting: number]> = [[{ document }, 0]]
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const [json, nesting] = next
    // A condition is decoded once more for each condition around it
    sum += isArray(json) ? json.length * units.item : units.object + nesting * units.nesting
    for (const key in json) {
      const member = isArray(json) ? json[Number(key)] : json[key]
      if (typeof member !== "object" || member === null) continue
      const each = own(memberUnits, key)
      if (each !== undefined) sum += Object.keys(member).length * each
      if (key !== "schema") open.push([member, nesting + (key === "conditions" || key === "condition" ? 1 : 0)])
    }
  }
  return sum
}

/** An arm that takes the fuel for a document before it reads it. */
export const paidArm = <T>(arm: VersionedCodec.Arm<T>): VersionedCodec.Arm<T> => ({
  ...arm,
  read: (json, what) => Effect.flatMap(fuel.pay(unitsOf(json), what), () => arm.read(json, what))
})

const stepKeys = { routesBy: "routes_by", afterBranches: "after_branches", timeoutMillis: "timeout" } as const

const WireStep = Schema.Struct(Struct.renameKeys(PlanDefinition.StepDefinition.to.fields, stepKeys))

const { description, maxIterations, name, output } = PlanDefinition.PlanDefinition.to.fields

/**
 * Version 3: the definition itself, tagged. Its keys are written out, so that the steps are validated once less. `$schema` is for
 * editors, and is not read.
 */
export const WirePlan = Schema.Struct({
  $schema: Schema.optionalKey(Schema.String),
  version: Schema.Literal(3),
  name,
  description,
  max_iterations: maxIterations,
  output,
  steps: Schema.Array(WireStep)
})

const readStep: (step: typeof WireStep.Type) => PlanDefinition.StepDefinition = Struct.renameKeys({
  routes_by: "routesBy",
  after_branches: "afterBranches",
  timeout: "timeoutMillis"
})

const writeStep: (step: PlanDefinition.StepDefinition) => typeof WireStep.Type = Struct.renameKeys(stepKeys)

export const armV3 = VersionedCodec.arm({
  version: 3,
  wire: WirePlan,
  toCurrent: ({ $schema: _schema, max_iterations: maxIterations, steps, version: _version, ...rest }) =>
    checkDraft<Draft>({ ...rest, steps: steps.map(readStep), maxIterations }, "identifier"),
  fromCurrent: (draft: Draft) =>
    Effect.flatMap(checkDraft(settleDraft(draft), "identifier"), ({ maxIterations, steps, ...rest }) =>
      VersionedCodec.lossless({
        version: 3 as const,
        max_iterations: maxIterations,
        steps: steps.map(writeStep),
        ...rest
      })
    )
})
