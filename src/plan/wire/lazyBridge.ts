/**
 * Versions 1 and 2 of a plan's JSON: LazyBridge's dictionary. Frozen.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import type * as Json from "../../payload/Json.ts"
import type { Loss, Problem } from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import { defined, equalsJson, isObject, kindOf, own } from "../../payload/internal/values.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import * as Reference from "../Reference.ts"
import type * as condition from "../../tool/internal/condition.ts"
import * as planDraft from "../internal/planDraft.ts"
import * as planFlow from "../internal/planFlow.ts"
import * as planNames from "../internal/planNames.ts"

const optionalKey = Schema.optionalKey

const isAgentReference = (reference: Reference.Reference): boolean => "agent" in reference

const kinds = "from_prev, from_start, from_step, from_parallel, from_parallel_all or literal"

/** Names and numbers in quotes or as they are, other values by their kind. */
const showName = (value: Schema.Json | undefined): string => {
  if (typeof value === "string") return base.quote(value)
  return typeof value === "number" ? String(value) : kindOf(value)
}

const decodeReference = Schema.decodeUnknownOption(Reference.Reference)

const encodeReference = Schema.encodeSync(Reference.Reference)

/** Null is the step before. LazyBridge has no references to agents. */
const readReference = (json: Schema.Json): Effect.Effect<Reference.Reference, SchemaIssue.Issue> => {
  if (json === null) return Effect.succeed(Reference.fromPrev)
  const reference = decodeReference(json)
  if (Option.isSome(reference) && !isAgentReference(reference.value)) return Effect.succeed(reference.value)
  const members = isObject(json) ? ["kind", "name"].map((key) => `${key} ${showName(own(json, key))}`) : []
  const not = members.length === 0 ? "" : `, not one with ${members.join(" and ")}`
  const message = `a reference with the kind ${kinds}, and its name or value${not}`
  return Effect.fail(new SchemaIssue.InvalidValue({ message }, json, {}))
}

const WireReference = Schema.Union([
  Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
  Schema.String,
  Schema.Finite,
  Schema.Boolean
]).pipe(
  Schema.decodeTo(Schema.toType(Reference.Reference), {
    decode: SchemaGetter.transformEffect(readReference),
    encode: SchemaGetter.transform((reference: Reference.Reference) =>
      isAgentReference(reference) ? null : encodeReference(reference)
    )
  })
)

const WireText = optionalKey(Schema.NullOr(Schema.String))

const WireStep = Schema.Struct({
  name: WireText,
  target: Schema.Struct({ kind: optionalKey(Schema.Json), name: Schema.String }),
  task: optionalKey(WireReference),
  parallel: optionalKey(Schema.Json),
  context: optionalKey(Schema.Union([Schema.Array(WireReference), WireReference])),
  writes: WireText,
  output: WireText,
  input: WireText,
  routes: optionalKey(Schema.Array(Schema.String)),
  routes_by: WireText,
  after_branches: WireText
})

type WireStep = typeof WireStep.Type

/** The key under which LazyBridge looks up the predicate of a route. */
export const routeKey = (step: string, to: string): string => `routes:${step}:${to}`

/** The name of all steps without a name in the keys of their predicates. */
export const unnamed = "<unnamed>"

export const isRouteCondition = (when: condition.When, step: string, to: string): boolean =>
  when._tag === "Custom" && when.name === routeKey(step, to)

const readTarget = ({ kind, name }: WireStep["target"]): planDraft.DraftStep["target"] => {
  if (kind === "tool" || kind === "agent") return { kind, name }
  if (kind === "callable") return { kind: "function", name }
  return { kind: "any", name, wire: showName(kind) }
}

const readSchema = (name: string | null | undefined): PlanDefinition.SchemaRef | undefined =>
  name === undefined || name === null ? undefined : { name }

/** Truth as in Python: empty texts, lists and objects are false, as are 0 and null. */
const isTruthy = (value: Schema.Json | undefined): boolean =>
  typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value)

const readStep = (step: WireStep): planDraft.DraftStep => {
  const { routes, target } = step
  const name = step.name ?? target.name
  return defined({
    name,
    isUnnamed: step.name === undefined || step.name === null ? (true as const) : undefined,
    target: readTarget(target),
    task: step.task ?? Reference.fromPrev,
    context: step.context,
    writes: step.writes || undefined,
    parallel: isTruthy(step.parallel),
    routes:
      routes === undefined
        ? undefined
        : [...new Set(routes)].map((to) => ({ to, when: { _tag: "Custom" as const, name: routeKey(name, to) } })),
    routesBy: step.routes_by ?? undefined,
    afterBranches: step.after_branches ?? undefined,
    input: readSchema(step.input),
    output: readSchema(step.output)
  })
}

/** Two routes whose predicates have one key: one predicate would decide both. */
const keyCollisions = (steps: ReadonlyArray<planDraft.DraftStep>): ReadonlyArray<Problem> => {
  const seen = new Map<string, { readonly step: string; readonly path: string }>()
  const problems: Array<Problem> = []
  for (const [index, step] of steps.entries()) {
    for (const [at, { to }] of (step.routes ?? []).entries()) {
      const key = routeKey(step.name, to)
      const path = `/steps/${index}/routes/${at}`
      const other = seen.get(key)
      if (other === undefined) seen.set(key, { step: step.name, path })
      else if (other.step !== step.name) {
        problems.push({
          path,
          expected: "a route whose predicate has a key of its own",
          found: `${base.quote(key)}, the key of ${other.path}`,
          fix: "Rename a step that has a colon in its name"
        })
      }
    }
  }
  return problems
}

const checkPlan = (draft: planDraft.Draft) => planDraft.checkDraft(draft, "text", keyCollisions(draft.steps))

const writeStep = (step: planDraft.DraftStep, version: 1 | 2): WireStep => {
  const { context, name, parallel, routes, target, task } = step
  const schemaName = (slot: planDraft.SchemaSlot) =>
    version === 1 || planDraft.isNoSchema(slot, step[slot]) ? undefined : step[slot]?.name
  return defined({
    name,
    target: { kind: target.kind === "tool" || target.kind === "agent" ? target.kind : "callable", name: target.name },
    task,
    parallel,
    context,
    writes: step.writes || undefined,
    output: schemaName("output"),
    input: schemaName("input"),
    routes: routes && [...new Set(routes.map(({ to }) => to))].sort(base.byCodePoint),
    routes_by: step.routesBy,
    after_branches: step.afterBranches
  })
}

export const wireOf = <const V extends 1 | 2>(version: V) =>
  Schema.Struct({
    version: Schema.Literal(version),
    max_iterations: optionalKey(Schema.Finite),
    steps: optionalKey(Schema.Array(WireStep))
  })

/** Both versions: they only differ in the number. */
const armOf = <const V extends 1 | 2>(version: V) =>
  VersionedCodec.arm({
    version,
    wire: wireOf(version),
    onExcessProperty: "ignore",
    toCurrent: ({ max_iterations: maxIterations = planNames.defaultMaxIterations, steps = [] }) =>
      checkPlan({ dialect: "lazybridge", name: planNames.defaultName, maxIterations, steps: steps.map(readStep) }),
    fromCurrent: (draft: planDraft.Draft) =>
      Effect.flatMap(checkPlan(draft), ({ maxIterations, steps }) =>
        VersionedCodec.lossy(
          { version, max_iterations: maxIterations, steps: steps.map((step) => writeStep(step, version)) },
          lossesOf(draft, version)
        )
      )
  })

export const armV1 = armOf(1)

export const armV2 = armOf(2)

/** A loss for a member that is there. */
const lossIf = (path: string, value: unknown, what: string): ReadonlyArray<Loss> =>
  value === undefined ? [] : [{ path, what }]

const referenceLosses = (path: string, step: planDraft.DraftStep): ReadonlyArray<Loss> => {
  const what = "a reference to an agent (written as null, which is read as the step before)"
  return planFlow
    .referencesOf(step)
    .flatMap((at) => (isAgentReference(at.reference) ? [{ path: `${path}${at.path}`, what }] : []))
}

/** Only the names of schemas are written, and a registry has one schema for each. */
const makeSchemaLosses = (version: 1 | 2) => {
  const first = new Map<string, { readonly path: string; readonly json: Json.JsonObject }>()
  const lossOf = (path: string, slot: planDraft.SchemaSlot, ref: PlanDefinition.SchemaRef): string | undefined => {
    const { json, name } = ref
    if (version === 1) return `the ${slot} schema`
    if (name === undefined) return `an ${slot} schema without a name`
    if (planDraft.isNoSchema(slot, ref)) return `an ${slot} schema named ${name}, which means that there is none`
    if (json === undefined) return undefined
    const before = first.get(name) ?? { path, json }
    first.set(name, before)
    return equalsJson(before.json, json)
      ? undefined
      : `an ${slot} schema named ${name}, which is another schema at ${before.path} (written as the name, which is read as one schema)`
  }
  return (path: string, slot: planDraft.SchemaSlot, ref: PlanDefinition.SchemaRef | undefined): ReadonlyArray<Loss> => {
    const what = ref && lossOf(path, slot, ref)
    return what === undefined ? [] : [{ path, what }]
  }
}

/** Routes are written sorted, and each target once. */
const routeLosses = (path: string, { name, routes = [] }: planDraft.DraftStep): ReadonlyArray<Loss> => {
  const targets = routes.map(({ to }) => to)
  const sorted = targets.toSorted(base.byCodePoint)
  const isSorted = targets.every((to, index) => to === sorted[index])
  return [
    ...(isSorted ? [] : [{ path, what: `the order of the routes of ${base.quote(name)} (written sorted by name)` }]),
    ...routes.flatMap(({ to, when }, index) => {
      if (targets.indexOf(to) < index)
        return [{ path: `${path}/${index}`, what: `a second route to ${base.quote(to)}` }]
      if (isRouteCondition(when, name, to)) return []
      return [{ path: `${path}/${index}/when`, what: `the condition of the route to ${base.quote(to)}` }]
    })
  ]
}

/** Losses of writing an older version, with paths of version 3. */
const lossesOf = ({ description, name, output, steps }: planDraft.Draft, version: 1 | 2): ReadonlyArray<Loss> => {
  const schemaLosses = makeSchemaLosses(version)
  return [
    ...(name === planNames.defaultName ? [] : [{ path: "/name", what: "the name of the plan" }]),
    ...lossIf("/description", description, "the description of the plan"),
    ...lossIf("/output", output, "the output schema of the plan"),
    ...steps.flatMap((step, index) => {
      const path = `/steps/${index}`
      return [
        ...referenceLosses(path, step),
        ...schemaLosses(`${path}/input`, "input", step.input),
        ...schemaLosses(`${path}/output`, "output", step.output),
        ...routeLosses(`${path}/routes`, step),
        ...lossIf(`${path}/timeout`, step.timeoutMillis, "the timeout of a step"),
        ...lossIf(`${path}/retry`, step.retry, "the retry policy of a step")
      ]
    })
  ]
}
