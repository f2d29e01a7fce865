/**
 * Definitions from and to JSON of any version, and plans from definitions: names resolved with a registry.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Schema from "effect/Schema"
import * as Agent from "../../agent/Agent.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as Json from "../../payload/Json.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import * as interpret from "../../payload/internal/interpret.ts"
import * as paths from "../../payload/internal/paths.ts"
import * as untrusted from "../../payload/internal/untrusted.ts"
import * as PlanDefinition from "../PlanDefinition.ts"
import * as PlanInvalid from "../PlanInvalid.ts"
import * as Step from "../Step.ts"
import * as lazyBridge from "../wire/lazyBridge.ts"
import * as condition from "./condition.ts"
import * as livePlan from "./livePlan.ts"
import * as planDraft from "./planDraft.ts"
import * as planNames from "./planNames.ts"
import * as stepSchema from "./stepSchema.ts"

/**
 * What a step can run, besides a tool: a function made with `Step.target`, or an agent.
 */
type RegistryTarget<R = unknown> = Step.FunctionTarget<R> | Step.AgentTarget<R>

/**
 * A condition of a route: as data, or as a function of the step's answer. A failure
 * of it ends the run with `PredicateFailed`.
 */
export type RegistryPredicate<R = unknown> =
  | condition.When
  | ((input: livePlan.PredicateInput) => boolean | Effect.Effect<boolean, unknown, R>)

/**
 * What the names in a plan stand for.
 *
 * **Details**
 *
 * - `targets`: functions and agents by name. Tools are no part of it: a plan is bound
 *   with them later.
 * - `predicates`: conditions that a plan only names. Versions 1 and 2 name each of
 *   them `routes:<step>:<target>`.
 * - `routes`: the same for these versions, by step and then by target:
 *   `{ fetch: { apology: When.field("items").empty() } }`.
 * - `schemas`: by name. Versions 1 and 2 need one for each `output` and `input`; version
 *   3 carries schemas, and an entry is used in place of one with the same name only if
 *   it says the same.
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

type TargetServices<T> =
  T extends Step.FunctionTarget<infer R>
    ? R
    : T extends agentTypes.Agent<infer _A, infer R>
      ? R
      : T extends Effect.Effect<infer _A, infer _E, infer R>
        ? R
        : never

type PredicateServices<P> = P extends (...args: infer _Args) => infer Out
  ? Out extends Effect.Effect<infer _A, infer _E, infer R>
    ? R
    : never
  : never

type EntriesAt<Registry, Key extends PropertyKey> = Registry extends { readonly [K in Key]?: infer A } ? A : never

/**
 * What the entries of a registry require, and with them every plan decoded with it.
 */
export type RegistryServices<Registry extends PlanRegistry> =
  | TargetServices<ValuesOf<EntriesAt<Registry, "targets">>>
  | PredicateServices<ValuesOf<EntriesAt<Registry, "predicates">>>
  | PredicateServices<ValuesOf<ValuesOf<EntriesAt<Registry, "routes">>>>

const versionField = "version"

// below these the keys are names of members and values to compare with, not options
const userDataPaths = ["/output/schema", "/steps/*/input/schema", "/steps/*/output/schema", "/steps/*/routes/*/when"]

const settledDraft = (
  arm: VersionedCodec.AnyArm<planDraft.Draft>
): VersionedCodec.AnyArm<PlanDefinition.PlanDefinition> => ({
  version: arm.version,
  read: (json, options) => Effect.map(arm.read(json, options), planDraft.settleDraft),
  write: arm.write
})

const draftArms: ReadonlyArray<VersionedCodec.AnyArm<planDraft.Draft>> = [
  lazyBridge.armV1,
  lazyBridge.armV2,
  planDraft.armV3
]

const codecOptions = {
  what: planDraft.documentName,
  field: versionField,
  data: userDataPaths,
  // LazyBridge wrote no version at first, and reads a plan without one.
  unversioned: 2
}

/** Definitions as far as they are known without a registry. */
export const definitionCodec: VersionedCodec.VersionedCodec<PlanDefinition.PlanDefinition> = VersionedCodec.make({
  ...codecOptions,
  type: PlanDefinition.PlanDefinition,
  arms: draftArms.map(settledDraft)
})

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

/** Which place names it. */
interface RegistryPlace {
  readonly path: string
  readonly step?: string
}

type EntryKind = PlanInvalid.RegistryEntry["registry"]

interface Lookup {
  readonly target: (name: string) => RegistryTarget | undefined
  readonly predicate: (name: string) => RegistryPredicate | undefined
  readonly route: (step: string, to: string) => RegistryPredicate | undefined
  readonly schema: (name: string) => stepSchema.StepSchema | undefined
  readonly entries: Array<PlanInvalid.RegistryEntry>
  readonly refuse: (
    entry: Pick<PlanInvalid.RegistryEntry, "code" | "registry" | "name" | "expected" | "problem">,
    place: RegistryPlace
  ) => void
}

const ownEntry = <A>(record: { readonly [name: string]: A } | undefined, name: string): A | undefined =>
  record === undefined ? undefined : Option.getOrUndefined(untrusted.getOwn(record, name))

const makeLookup = (registry: PlanRegistry): Lookup => {
  const entries: Array<PlanInvalid.RegistryEntry> = []
  const known: { readonly [K in EntryKind]: ReadonlyArray<string> } = {
    targets: Object.keys(registry.targets ?? {}).sort(),
    predicates: [
      ...Object.keys(registry.predicates ?? {}),
      ...Object.entries(registry.routes ?? {}).flatMap(([step, targets]) =>
        Object.keys(targets).map((to) => `routes:${step}:${to}`)
      )
    ].sort(),
    schemas: Object.keys(registry.schemas ?? {}).sort()
  }
  const budget = planNames.makeFuel(1_000_000)
  return {
    target: (name) => ownEntry(registry.targets, name),
    predicate: (name) => ownEntry(registry.predicates, name),
    route: (step, to) => ownEntry(ownEntry(registry.routes, step), to),
    schema: (name) => ownEntry(registry.schemas, name),
    entries,
    refuse: (entry, place) => {
      const available = known[entry.registry]
      const suggestion = entry.code === "Missing" ? planNames.closestName(entry.name, available, budget) : undefined
      entries.push({ ...entry, ...place, available, ...(suggestion === undefined ? {} : { suggestion }) })
    }
  }
}

interface ResolvedValue<A> {
  readonly ref: A
}

interface ResolvedTarget extends ResolvedValue<PlanDefinition.StepDefinition["target"]> {
  readonly target: Step.LiveTarget
}

interface ResolvedSchema extends ResolvedValue<PlanDefinition.SchemaRef> {
  readonly schema: stepSchema.StepCodec
}

const functionOf = (name: string, target: Step.FunctionTarget<unknown>): ResolvedTarget => ({
  ref: { kind: "function", name },
  // Sound: what it requires is in the type of the registry, and so of the plan and of every run of it.
  target: { _tag: "Function", target: target as Step.FunctionTarget }
})

const lookUpAgent = (name: string, agent: Exclude<RegistryTarget, Step.FunctionTarget<unknown>>): ResolvedTarget => ({
  ref: { kind: "agent", name },
  target: { _tag: "Agent", name, agent: Step.agentOf(agent), source: agent }
})

const toolTarget = (name: string): ResolvedTarget => ({ ref: { kind: "tool", name }, target: { _tag: "Tool", name } })

const targetWords = { function: "a function", agent: "an agent", any: "a function or an agent" } as const

/** A tool needs no entry: the plan is bound with it later. */
const resolveTarget = (
  lookup: Lookup,
  ref: PlanDefinition.StepDefinition["target"] | planDraft.OpenTarget,
  place: RegistryPlace
): ResolvedTarget => {
  const { kind, name } = ref
  if (kind === "tool") return toolTarget(name)
  const written = kind === "any" ? ` (a target of the kind ${ref.wire})` : ""
  const expected = `${targetWords[kind]} named ${paths.quote(name)} in the targets of the registry${written}`
  const refuse = (code: "Missing" | "WrongKind", problem: string): ResolvedTarget => {
    lookup.refuse({ code, registry: "targets", name, expected, problem }, place)
    return toolTarget(name)
  }
  const entry = lookup.target(name)
  if (entry === undefined) return refuse("Missing", "no entry of that name")
  if (Step.isFunctionTarget(entry)) {
    return kind === "agent" ? refuse("WrongKind", "a function of that name") : functionOf(name, entry)
  }
  if (Agent.isAgent(entry) || Effect.isEffect(entry)) {
    return kind === "function" ? refuse("WrongKind", "an agent of that name") : lookUpAgent(name, entry)
  }
  return refuse("WrongKind", "something of that name that is neither a function made with Target.make nor an agent")
}

type SchemaSlot = "input" | "output"

const isPlainDefault = (slot: SchemaSlot, { json }: PlanDefinition.SchemaRef): boolean =>
  json !== undefined && planNames.equalsJson(json, slot === "output" ? { type: "string" } : {})

/** A schema of a name, of a JSON Schema, or of both, which then have to say the same. */
const resolveSchema = Effect.fnUntraced(function* (
  lookup: Lookup,
  slot: SchemaSlot,
  ref: PlanDefinition.SchemaRef,
  place: RegistryPlace
): Effect.fn.Return<ResolvedSchema | undefined> {
  const { json, name } = ref
  const entry = name === undefined ? undefined : lookup.schema(name)
  if (name === undefined || entry === undefined) {
    if (json !== undefined) {
      // what cannot be compiled was refused before
      const compiled = yield* Effect.option(JsonSchema.make(json))
      return compiled._tag === "None" ? undefined : { ref, schema: JsonSchema.codec(compiled.value) }
    }
    if (name !== undefined) {
      const expected = `a schema named ${paths.quote(name)} in the schemas of the registry, for the ${slot} (in a registry of LazyBridge ${paths.quote(`type:${name}`)})`
      lookup.refuse({ code: "Missing", registry: "schemas", name, expected, problem: "no entry of that name" }, place)
    }
    return undefined
  }
  const exported = yield* Effect.result(JsonSchema.fromSchema(entry, { what: `Schema ${paths.quote(name)}` }))
  if (exported._tag === "Failure") {
    const expected = `a schema named ${paths.quote(name)} that has a JSON Schema, for the ${slot}`
    const problem = `one that has none: ${exported.failure.message}`
    lookup.refuse({ code: "Unusable", registry: "schemas", name, expected, problem }, place)
    return undefined
  }
  if (json !== undefined && !planNames.equalsJson(json, exported.success)) {
    const expected = `a schema named ${paths.quote(name)} that says what the plan says of its ${slot}`
    const problem = "one whose JSON Schema is different. Rename it, or leave it out to use the one of the plan"
    lookup.refuse({ code: "Different", registry: "schemas", name, expected, problem }, place)
    return undefined
  }
  return { ref: { name, json: json ?? exported.success }, schema: stepSchema.jsonCodec(entry) }
})

const liveFromResolved = (name: string, predicate: RegistryPredicate): livePlan.LivePredicate =>
  typeof predicate === "function"
    ? livePlan.livePredicate(name, predicate)
    : (input) => Effect.sync(() => condition.test(predicate, input, () => false))

const unusableEntry = (predicate: RegistryPredicate): string | undefined => {
  if (typeof predicate === "function") return undefined
  const [problem] = condition.analyze(predicate).problems
  if (problem !== undefined) return `one that cannot be used: ${problem.reason}`
  const [name] = condition.analyze(predicate).customs
  return name === undefined ? undefined : `one that names another, ${paths.quote(name)}. Write it as a function`
}

interface PredicateUse extends RegistryPlace {
  readonly name: string
  /** The entry under `routes` that can stand for it, too. */
  readonly route: RegistryPredicate | undefined
}

const predicateUses = (lookup: Lookup, { steps }: planDraft.Draft): ReadonlyArray<PredicateUse> =>
  steps.flatMap((step, index) =>
    (step.routes ?? []).flatMap(({ to, when }, at) =>
      condition.analyze(when).customs.map((name) => ({
        name,
        step: step.name,
        path: `/steps/${index}/routes/${at}`,
        route: lazyBridge.isRouteCondition(when, step.name, to) ? lookup.route(step.name, to) : undefined
      }))
    )
  )

const resolvePredicates = (lookup: Lookup, draft: planDraft.Draft): ReadonlyMap<string, livePlan.LivePredicate> => {
  const found = new Map<string, livePlan.LivePredicate>()
  for (const { name, route, ...place } of predicateUses(lookup, draft)) {
    if (found.has(name)) continue
    const named = lookup.predicate(name)
    const entry = named ?? route
    const expected = `a predicate named ${paths.quote(name)} in the predicates of the registry`
    const refuse = (code: "Missing" | "Ambiguous" | "Unusable", problem: string) =>
      lookup.refuse({ code, registry: "predicates", name, expected, problem }, place)
    if (entry === undefined) refuse("Missing", "no entry of that name")
    else if (named !== undefined && route !== undefined) refuse("Ambiguous", "another one for that route in its routes")
    else {
      const problem = unusableEntry(entry)
      if (problem === undefined) found.set(name, liveFromResolved(name, entry))
      else refuse("Unusable", problem)
    }
  }
  return found
}

/** A schema that stands for none where it says no more than that. */
const withSchema = (
  slot: SchemaSlot,
  { dialect }: planDraft.Draft,
  resolved: ResolvedSchema | undefined
): { readonly ref?: PlanDefinition.SchemaRef; readonly schema?: stepSchema.StepCodec } =>
  resolved === undefined ||
  (dialect === "lazybridge" && planDraft.isNoSchema(slot, resolved.ref) && isPlainDefault(slot, resolved.ref))
    ? {}
    : resolved

const resolveStep = Effect.fnUntraced(function* (
  lookup: Lookup,
  draft: planDraft.Draft,
  step: planDraft.DraftStep,
  index: number
): Effect.fn.Return<livePlan.LiveStep> {
  const { input, output, target, ...rest } = step
  const place = (slot: string): RegistryPlace => ({ step: step.name, path: `/steps/${index}/${slot}` })
  const resolved = resolveTarget(lookup, target, place("target"))
  const schemaOf = (slot: SchemaSlot, ref: PlanDefinition.SchemaRef | undefined) =>
    ref === undefined
      ? Effect.succeed({})
      : Effect.map(resolveSchema(lookup, slot, ref, place(slot)), (found) => withSchema(slot, draft, found))
  const schemas: {
    readonly [K in SchemaSlot]: { readonly ref?: PlanDefinition.SchemaRef; readonly schema?: stepSchema.StepCodec }
  } = {
    input: yield* schemaOf("input", input),
    output: yield* schemaOf("output", output)
  }
  return {
    definition: {
      ...rest,
      target: resolved.ref,
      ...(schemas.input.ref === undefined ? {} : { input: schemas.input.ref }),
      ...(schemas.output.ref === undefined ? {} : { output: schemas.output.ref })
    },
    target: resolved.target,
    input: schemas.input.schema,
    output: schemas.output.schema
  }
})

/** The plan of a draft, or everything that its registry lacks. `R` is for the caller to know. */
export const resolvePlan = Effect.fnUntraced(function* <R>(
  draft: planDraft.Draft,
  registry: PlanRegistry
): Effect.fn.Return<livePlan.Plan<Schema.Json, R>, PlanInvalid.PlanInvalid | PlanInvalid.RegistryIncomplete> {
  const lookup = makeLookup(registry)
  const output =
    draft.output === undefined ? undefined : yield* resolveSchema(lookup, "output", draft.output, { path: "/output" })
  const steps = yield* Effect.forEach(draft.steps, (step, index) => resolveStep(lookup, draft, step, index))
  const predicates = resolvePredicates(lookup, draft)
  const [first, ...others] = lookup.entries
  if (first !== undefined)
    return yield* new PlanInvalid.RegistryIncomplete({ plan: draft.name, entries: [first, ...others] })
  const definition: PlanDefinition.PlanDefinition = {
    name: draft.name,
    ...(draft.description === undefined ? {} : { description: draft.description }),
    maxIterations: draft.maxIterations,
    ...(output === undefined ? {} : { output: output.ref }),
    steps: steps.map((step) => step.definition)
  }
  return livePlan.planFromLive<R>(yield* livePlan.checkParts({ definition, steps, predicates, output: output?.schema }))
}, interpret.sharePatternFuel)

const ownValue = (object: Json.JsonObject, key: string): unknown =>
  Object.hasOwn(object, key) ? object[key] : undefined

// what is looked at may be any value, and only its own members are
const asObject = (value: unknown): Json.JsonObject | undefined =>
  Json.isObject(value as never) ? (value as Json.JsonObject) : undefined

const asList = (value: unknown): ReadonlyArray<unknown> => (Array.isArray(value) ? value : [])

/** Kinds whose name is that of a step. */
const stepKinds: ReadonlySet<unknown> = new Set(["from_step", "from_parallel", "from_parallel_all"])

interface FoundReference {
  readonly slot: string
  readonly name: string
  readonly kind?: string
}

const referencesOfValue = (slot: string, value: unknown): ReadonlyArray<FoundReference> => {
  const ref = asObject(value)
  if (ref === undefined) return []
  const kind = ownValue(ref, "kind")
  if (typeof kind !== "string" || !stepKinds.has(kind)) return []
  const name = ownValue(ref, "name")
  return [{ slot, kind, name: typeof name === "string" ? name : "" }]
}

const referencesOfContext = (value: unknown): ReadonlyArray<FoundReference> =>
  Array.isArray(value)
    ? value.flatMap((item: unknown, index) => referencesOfValue(`context[${index}]`, item))
    : referencesOfValue("context", value)

const referenceTo = (slot: string, value: unknown): ReadonlyArray<FoundReference> =>
  typeof value === "string" ? [{ slot, name: value }] : []

/** A route of version 3 is an object with the name in `to`. */
const referencesOfRoute = (value: unknown): ReadonlyArray<FoundReference> => {
  const object = asObject(value)
  return referenceTo("routes", object === undefined ? value : ownValue(object, "to"))
}

const rawName = (step: unknown): string => {
  const object = asObject(step)
  const name = object === undefined ? undefined : ownValue(object, "name")
  return typeof name === "string" ? name : ""
}

export const findDanglingReferences = (steps: unknown): ReadonlyArray<PlanInvalid.Problem> => {
  const all = asList(steps)
  const known = new Set(all.map(rawName))
  const names = [...known].sort(planNames.byCodePoint)
  const listed = planNames.listNames(names)
  const budget = planNames.makeFuel(1_000_000)
  return all.flatMap((value, index): ReadonlyArray<PlanInvalid.Problem> => {
    const step = asObject(value)
    if (step === undefined) return []
    const found = [
      ...referencesOfValue("task", ownValue(step, "task")),
      ...referencesOfContext(ownValue(step, "context")),
      ...asList(ownValue(step, "routes")).flatMap(referencesOfRoute),
      ...referenceTo("after_branches", ownValue(step, "after_branches"))
    ]
    const label = rawName(step) || "<unnamed>"
    return found
      .filter(({ name }) => !known.has(name))
      .map(({ kind, name, slot }) => {
        const suggestion = planNames.closestName(name, names, budget)
        const what = kind === undefined ? "the name of a step" : `a ${kind} of a step`
        return {
          code: "UnknownStep",
          step: label,
          index,
          slot,
          reason: `Step ${paths.quote(label)}, ${slot}: expected ${what} of this plan, found the unknown ${paths.quote(name)}; known are ${listed}.${planNames.didYouMean(suggestion)}`,
          known: names,
          ...(suggestion === undefined ? {} : { suggestion })
        }
      })
  })
}
