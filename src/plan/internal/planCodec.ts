/**
 * Definitions from and to JSON of any version, and plans from definitions: names resolved with a registry.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as base from "../../payload/internal/base.ts"
import * as closeNames from "../../payload/internal/closeNames.ts"
import * as fuel from "../../payload/internal/fuel.ts"
import { PatternEngine } from "../../payload/internal/patterns.ts"
import { defined, equalsJson, isObject, own } from "../../payload/internal/values.ts"
import * as PlanDefinition from "../PlanDefinition.ts"
import type * as PlanInvalid from "../PlanInvalid.ts"
import type * as Step from "../Step.ts"
import * as lazyBridge from "../wire/lazyBridge.ts"
import * as condition from "../../tool/internal/condition.ts"
import * as livePlan from "./livePlan.ts"
import * as planCheck from "./planCheck.ts"
import * as planDraft from "./planDraft.ts"
import * as stepSchema from "./stepSchema.ts"
import * as stepTarget from "./stepTarget.ts"

/**
 * A target that a registry can have: a function made with `Step.target`, or an agent.
 */
type RegistryTarget<R = unknown> = Step.FunctionTarget<R> | stepTarget.AgentTarget<R>

/**
 * A condition of a route: as data, or as a function of the step's answer. A failure
 * of it ends the run with `PredicateFailed`.
 */
export type RegistryPredicate<R = unknown> =
  | condition.When
  | ((input: livePlan.PredicateInput) => boolean | Effect.Effect<boolean, unknown, R>)

/**
 * The functions, agents, conditions and schemas that the names in a plan refer to.
 *
 * **Details**
 *
 * - `targets`: functions and agents by name. Tools are no part of it: a plan is bound
 *   with them later.
 * - `predicates`: conditions that a plan only names. Versions 1 and 2 name each of
 *   them `routes:<step>:<target>`, and `routes:<unnamed>:<target>` for all steps without a name.
 * - `routes`: the same for these versions, by step and then by target:
 *   `{ fetch: { apology: When.field("items").empty() } }`.
 * - `schemas`: by name. Versions 1 and 2 need one for each `output` and `input`; version
 *   3 carries schemas, and an entry is used in place of one with the same name only if
 *   it is the same.
 *
 * A registry that a plan has no use for can be left out. Names are own members: what
 * every object inherits is no entry.
 *
 * **Gotchas**
 *
 * A condition that is an entry cannot name other predicates. A predicate that is found both
 * under its whole name and under `routes` is an error.
 */
export interface PlanRegistry {
  readonly targets?: { readonly [name: string]: RegistryTarget } | undefined
  readonly predicates?: { readonly [name: string]: RegistryPredicate } | undefined
  readonly routes?: { readonly [step: string]: { readonly [to: string]: RegistryPredicate } } | undefined
  readonly schemas?: { readonly [name: string]: stepSchema.StepSchema } | undefined
}

type ValuesOf<A> = A extends object ? A[keyof A] : never

type TargetServices<T> = T extends Step.FunctionTarget<infer R> ? R : stepTarget.AgentServices<T>

type EntriesAt<Registry, Key extends PropertyKey> = Registry extends { readonly [K in Key]?: infer A } ? A : never

/**
 * The requirements of the entries of a registry, and so of every plan decoded with it.
 */
export type RegistryServices<Registry extends PlanRegistry> =
  | TargetServices<ValuesOf<EntriesAt<Registry, "targets">>>
  | stepTarget.PartServices<ValuesOf<EntriesAt<Registry, "predicates">>>
  | stepTarget.PartServices<ValuesOf<ValuesOf<EntriesAt<Registry, "routes">>>>

const draftArms: ReadonlyArray<VersionedCodec.Arm<planDraft.Draft>> = [
  lazyBridge.armV1,
  lazyBridge.armV2,
  planDraft.armV3
].map(planDraft.paidArm)

const settledArms = draftArms.map(({ read, version, write }): VersionedCodec.Arm<PlanDefinition.PlanDefinition> => ({
  version,
  read: (json, options) => Effect.map(read(json, options), planDraft.settleDraft),
  write
}))

const codecOptions = {
  what: planDraft.documentName,
  field: "version",
  // Below these the keys are names of members and values to compare with, not options.
  data: ["/output/schema", "/steps/*/input/schema", "/steps/*/output/schema", "/steps/*/routes/*/when"],
  // LazyBridge wrote no version at first, and reads a plan without one.
  unversioned: 2
}

/** Definitions as far as they are known without a registry. */
export const definitionCodec: VersionedCodec.VersionedCodec<PlanDefinition.PlanDefinition> = VersionedCodec.make({
  ...codecOptions,
  type: PlanDefinition.PlanDefinition,
  arms: settledArms
})

/**
 * Definitions of versions 1 and 2 with the inputs of their steps, which only these versions write, by the definition of
 * the plan.
 */
const withInputs = new WeakMap<PlanDefinition.PlanDefinition, PlanDefinition.PlanDefinition>()

/** Writes the definition of a plan. */
export const encodePlan = (definition: PlanDefinition.PlanDefinition, options: VersionedCodec.EncodeOptions = {}) => {
  const { version = 3 } = options
  return definitionCodec.encode(version === 3 ? definition : (withInputs.get(definition) ?? definition), options)
}

/** Definitions as they are read, for a registry to complete. */
export const draftCodec: Pick<
  VersionedCodec.VersionedCodec<planDraft.Draft>,
  "decode" | "decodeJson"
> = VersionedCodec.make({
  ...codecOptions,
  // Sound: the schema is only read by the codec's own `schema`, which is not part of the type.
  type: PlanDefinition.PlanDefinition as Schema.Top as Schema.Schema<planDraft.Draft>,
  arms: draftArms
})

type Lookup = ReturnType<typeof makeLookup>

type Refuse = (code: planCheck.RegistryCode, expected: string, found: string) => undefined

const makeLookup = (registry: PlanRegistry, engine: PatternEngine | undefined) => {
  const problems: Array<PlanInvalid.Problem> = []
  const { predicates = {}, routes = {}, schemas = {}, targets = {} } = registry
  const ofRoutes = Object.entries(routes).flatMap(([step, targets]) =>
    Object.keys(targets).map((to) => lazyBridge.routeKey(step, to))
  )
  const known = {
    targets: planCheck.knownNames("targets", Object.keys(targets)),
    predicates: planCheck.knownNames("predicates", [...Object.keys(predicates), ...ofRoutes]),
    schemas: planCheck.knownNames("schemas", Object.keys(schemas))
  }
  const tank = closeNames.makeFuel(0.2)
  /** Reports the problems with one name. */
  const refusal =
    (kind: keyof typeof known, name: string, { slot, ...place }: livePlan.SlotPlace): Refuse =>
    (code, expected, found) => {
      const unknown = code === "MissingEntry" ? { name, known: known[kind] } : undefined
      problems.push(planCheck.problemOf(place, { code, slot, expected, found, unknown }, tank))
      return undefined
    }
  return { registry, engine, problems, refusal }
}

const noEntry = "no entry of that name"

interface ResolvedTarget {
  readonly ref: PlanDefinition.StepDefinition["target"]
  readonly target: stepTarget.LiveTarget
}

const toolTarget = (name: string): ResolvedTarget => ({ ref: { kind: "tool", name }, target: { _tag: "Tool", name } })

const targetWords = { function: "a function", agent: "an agent", any: "a function or an agent" } as const

/** A tool needs no entry: the plan is bound with it later. */
const resolveTarget = (
  lookup: Lookup,
  ref: planDraft.DraftStep["target"],
  place: livePlan.SlotPlace,
  dialect: planDraft.Draft["dialect"]
): ResolvedTarget => {
  const { kind, name } = ref
  if (kind === "tool") return toolTarget(name)
  const wire = kind === "any" ? ref.wire : kind === "function" && dialect === "lazybridge" ? `"callable"` : undefined
  const written = wire === undefined ? "" : ` (a target of the kind ${wire})`
  const expected = `${targetWords[kind]} named ${base.quote(name)} in the targets of the registry${written}`
  const report = lookup.refusal("targets", name, place)
  const refuse = (code: planCheck.RegistryCode, found: string): ResolvedTarget =>
    report(code, expected, found) ?? toolTarget(name)
  const entry = own(lookup.registry.targets ?? {}, name)
  if (entry === undefined) return refuse("MissingEntry", noEntry)
  if (stepTarget.isFunctionTarget(entry)) {
    if (kind === "agent") return refuse("WrongEntry", "a function of that name")
    // Sound: what it requires is in the type of the registry, and so of the plan and of every run of it.
    return { ref: { kind: "function", name }, target: { _tag: "Function", target: entry as Step.FunctionTarget } }
  }
  if (kind === "function") return refuse("WrongEntry", "an agent of that name")
  return {
    ref: { kind: "agent", name },
    target: { _tag: "Agent", name, agent: stepTarget.agentOf(entry), source: entry }
  }
}

/** A schema of a name, of a JSON Schema, or of both, which then have to be the same. */
const resolveSchema = Effect.fnUntraced(function* (
  lookup: Lookup,
  { json, name }: PlanDefinition.SchemaRef,
  place: livePlan.SlotPlace
) {
  const entry = name === undefined ? undefined : own(lookup.registry.schemas ?? {}, name)
  if (json !== undefined && entry === undefined) {
    // A schema that cannot be compiled was refused before.
    const compiled = Option.getOrUndefined(yield* Effect.option(JsonSchema.make(json)))
    return compiled && { ref: defined({ name, json }), schema: JsonSchema.codec(compiled) }
  }
  if (name === undefined) return undefined
  const refuse = lookup.refusal("schemas", name, place)
  const named = `a schema named ${base.quote(name)}`
  if (entry === undefined) {
    const lazy = `in a registry of LazyBridge ${base.quote(`type:${name}`)}`
    return refuse("MissingEntry", `${named} in the schemas of the registry (${lazy})`, noEntry)
  }
  const exported = yield* Effect.result(JsonSchema.fromSchema(entry, { what: `Schema ${base.quote(name)}` }))
  if (Result.isFailure(exported)) {
    return refuse(
      "UnusableEntry",
      `${named} that has a JSON Schema`,
      `a schema without a JSON Schema: ${exported.failure.message}`
    )
  }
  if (json !== undefined && !equalsJson(json, exported.success)) {
    const found = "a schema with another JSON Schema"
    return refuse("DifferentSchema", `${named} with the JSON Schema of the plan`, found)
  }
  return { ref: { name, json: exported.success }, schema: stepSchema.jsonCodec(entry) }
})

const unusable = (predicate: condition.When, engine: PatternEngine | undefined): string | undefined => {
  const { customs, problems } = condition.analyze(predicate, engine)
  if (problems[0] !== undefined) return `a predicate that cannot be used: ${problems[0].reason}`
  const [custom] = customs
  return custom === undefined
    ? undefined
    : `a predicate that names another predicate, ${base.quote(custom)}. Write it as a function`
}

/**
 * The entries of a predicate: the entry of its name, and for the condition of LazyBridge's routes also the entry of the
 * route.
 */
const predicateEntries = (
  { registry: { predicates = {}, routes = {} } }: Lookup,
  { isUnnamed, name: step }: planDraft.DraftStep,
  { to, when }: { readonly to: string; readonly when: condition.When },
  name: string
): ReadonlyArray<RegistryPredicate> => {
  const find = (key: string, ofStep: { readonly [to: string]: RegistryPredicate } = {}) =>
    [own(predicates, key), own(ofStep, to)].filter((entry) => entry !== undefined)
  if (!lazyBridge.isRouteCondition(when, step, to)) return find(name)
  const found = find(name, own(routes, step))
  const { unnamed } = lazyBridge
  return found.length > 0 || !isUnnamed ? found : find(lazyBridge.routeKey(unnamed, to), own(routes, unnamed))
}

const resolvePredicate = (
  { engine, refusal }: Lookup,
  name: string,
  [entry, ...others]: ReadonlyArray<RegistryPredicate>,
  place: livePlan.SlotPlace
): livePlan.LivePredicate | undefined => {
  const expected = `a predicate named ${base.quote(name)} in the predicates of the registry`
  const refuse = refusal("predicates", name, place)
  if (entry === undefined) return refuse("MissingEntry", expected, noEntry)
  if (others.length > 0) {
    return refuse("AmbiguousEntry", expected, "another predicate for that route in its routes")
  }
  if (typeof entry === "function") return livePlan.livePredicate(name, entry)
  const problem = unusable(entry, engine)
  if (problem !== undefined) return refuse("UnusableEntry", expected, problem)
  return (input) =>
    Effect.flatMap(fuel.current, (tank) => condition.evaluate(entry, input, () => Effect.succeed(false), tank))
}

const resolvePredicates = (lookup: Lookup, { steps }: planDraft.Draft): ReadonlyMap<string, livePlan.LivePredicate> => {
  const found = new Map<string, livePlan.LivePredicate | undefined>()
  for (const [index, step] of steps.entries()) {
    for (const [at, route] of (step.routes ?? []).entries()) {
      for (const name of condition.customsOf(route.when)) {
        if (found.has(name)) continue
        const place = { step: step.name, index, slot: `routes[${at}]` }
        found.set(name, resolvePredicate(lookup, name, predicateEntries(lookup, step, route, name), place))
      }
    }
  }
  return new Map([...found].flatMap(([name, predicate]) => (predicate === undefined ? [] : [[name, predicate]])))
}

/** In LazyBridge's dialect, a schema that accepts what a step without one does is none. */
const isNoSchema = ({ dialect }: planDraft.Draft, slot: planDraft.SchemaSlot, ref: PlanDefinition.SchemaRef): boolean =>
  dialect === "lazybridge" &&
  planDraft.isNoSchema(slot, ref) &&
  equalsJson(ref.json, slot === "output" ? { type: "string" } : {})

const resolveStep = Effect.fnUntraced(function* (
  lookup: Lookup,
  draft: planDraft.Draft,
  { input: _input, isUnnamed: _isUnnamed, output: _output, target, ...rest }: planDraft.DraftStep,
  index: number
): Effect.fn.Return<livePlan.LiveStep> {
  const place = (slot: string): livePlan.SlotPlace => ({ step: rest.name, index, slot })
  const resolved = resolveTarget(lookup, target, place("target"), draft.dialect)
  const schemaOf = Effect.fnUntraced(function* (slot: planDraft.SchemaSlot) {
    const ref = draft.steps[index]?.[slot]
    const found = ref === undefined ? undefined : yield* resolveSchema(lookup, ref, place(slot))
    return found === undefined || isNoSchema(draft, slot, found.ref) ? undefined : found
  })
  const input = yield* schemaOf("input")
  const output = yield* schemaOf("output")
  return {
    definition: { ...rest, target: resolved.ref, ...defined({ input: input?.ref, output: output?.ref }) },
    target: resolved.target,
    input: input?.schema,
    output: output?.schema
  }
})

/**
 * In LazyBridge's dialect the input of a step is compared with what comes before it, and that is all: no value is
 * decoded with it, and a tool does not take it as its arguments.
 */
const withoutInput = ({ definition: { input: _, ...definition }, ...step }: livePlan.LiveStep): livePlan.LiveStep => ({
  ...step,
  definition,
  input: undefined
})

/** The plan of a draft, or every problem of its registry. The caller knows `R`. */
export const resolvePlan = Effect.fnUntraced(function* <R>(draft: planDraft.Draft, registry: PlanRegistry) {
  const lookup = makeLookup(registry, yield* PatternEngine)
  const output = draft.output === undefined ? undefined : yield* resolveSchema(lookup, draft.output, { slot: "output" })
  const resolved = yield* Effect.forEach(draft.steps, (step, index) => resolveStep(lookup, draft, step, index))
  const predicates = resolvePredicates(lookup, draft)
  yield* livePlan.failWithProblems(draft.name, lookup.problems)
  const { description, maxIterations, name } = draft
  const definitionOf = (steps: ReadonlyArray<livePlan.LiveStep>): PlanDefinition.PlanDefinition => ({
    name,
    maxIterations,
    steps: steps.map((step) => step.definition),
    ...defined({ description, output: output?.ref })
  })
  const checked = definitionOf(resolved)
  const steps = draft.dialect === "lazybridge" ? resolved.map(withoutInput) : resolved
  const definition = definitionOf(steps)
  withInputs.set(definition, checked)
  const parts = { definition, steps, predicates, output: output?.schema }
  return livePlan.planFromLive<R>(yield* livePlan.checkParts(parts, [], checked))
}, fuel.door)

const member = (value: unknown, key: string): unknown => (isObject(value) ? own(value, key) : undefined)

const textOf = (value: unknown): string => (typeof value === "string" ? value : "")

const listOf = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** The kinds of references that name a step. */
const stepKinds = new Set(["from_step", "from_parallel", "from_parallel_all"])

/** A slot of a step in JSON that names a step, if the name is a text, and the words for a reference to it. */
type StepName = readonly [slot: string, name: unknown, words: string]

const namedBy = (slot: string, reference: unknown): ReadonlyArray<StepName> => {
  const kind = textOf(member(reference, "kind"))
  return stepKinds.has(kind) ? [[slot, textOf(member(reference, "name")), `${kind} of `]] : []
}

function* stepNames(step: unknown): Generator<StepName> {
  const context = member(step, "context")
  yield* namedBy("task", member(step, "task"))
  yield* namedBy("context", context)
  for (const [index, item] of listOf(context).entries()) yield* namedBy(`context[${index}]`, item)
  // A route of version 3 is an object.
  for (const route of listOf(member(step, "routes"))) yield ["routes", member(route, "to") ?? route, ""]
  yield ["after_branches", member(step, "after_branches"), ""]
}

/** The references of steps in JSON to steps that are not among them. Nothing else is checked. */
export const findDanglingReferences = (steps: unknown): ReadonlyArray<PlanInvalid.Problem> => {
  const all = listOf(steps)
  const names = all.map((step) => textOf(member(step, "name")))
  const isKnown = new Set<unknown>(names)
  const known = planCheck.knownNames("steps", names)
  const tank = closeNames.makeFuel(0.2)
  return all.flatMap((json, index) =>
    Array.from(stepNames(json)).flatMap(([slot, name, words]) => {
      if (typeof name !== "string" || isKnown.has(name)) return []
      const found = `${words}the unknown step ${base.quote(name)}`
      const place = { step: names[index] || "<unnamed>", index }
      return [planCheck.problemOf(place, { code: "UnknownStep", slot, found, unknown: { name, known } }, tank)]
    })
  )
}
