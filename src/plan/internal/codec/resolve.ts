/** What the names in a plan stand for. */
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import { isAgent } from "../../../agent/Agent.ts"
import * as CheckedSchema from "../../../payload/CheckedSchema.ts"
import * as FromSchema from "../../../payload/FromSchema.ts"
import * as Names from "../../../payload/Names.ts"
import type { Plan } from "../../Plan.ts"
import type { PlanDefinition, SchemaRef, TargetRef } from "../../PlanDefinition.ts"
import type { PlanInvalid } from "../../PlanInvalid.ts"
import type { AnyPredicate, AnyTarget, PlanRegistry } from "../../PlanRegistry.ts"
import { RegistryIncomplete } from "../../RegistryIncomplete.ts"
import * as Target from "../../Target.ts"
import * as When from "../../When.ts"
import { equals } from "../json.ts"
import type { LivePredicate, LiveStep, LiveTarget, StepSchema } from "../live.ts"
import { checked, fromLive } from "../plan.ts"
import { livePredicate } from "../planMake.ts"
import { agentOf, jsonCodec } from "../step/target.ts"
import type { Draft, DraftStep, OpenTarget } from "./draft.ts"
import { isDefault } from "./draft.ts"
import { compile } from "./invariants.ts"
import * as Lookup from "./lookup.ts"
import { isRouteCondition } from "./routes.ts"

interface Resolved<A> {
  readonly ref: A
}

interface ResolvedTarget extends Resolved<TargetRef> {
  readonly target: LiveTarget
}

interface ResolvedSchema extends Resolved<SchemaRef> {
  readonly schema: StepSchema
}

const functionOf = (name: string, target: Target.FunctionTarget<unknown>): ResolvedTarget => ({
  ref: { kind: "function", name },
  // Sound: what it requires is in the type of the registry, and so of the plan and of every run of it.
  target: { _tag: "Function", target: target as Target.FunctionTarget }
})

const agentAt = (name: string, agent: Exclude<AnyTarget, Target.FunctionTarget<unknown>>): ResolvedTarget => ({
  ref: { kind: "agent", name },
  target: { _tag: "Agent", name, agent: agentOf(agent), source: agent }
})

const toolAt = (name: string): ResolvedTarget => ({ ref: { kind: "tool", name }, target: { _tag: "Tool", name } })

const words = { function: "a function", agent: "an agent", any: "a function or an agent" } as const

/** A tool needs no entry: the plan is bound with it later. */
const resolveTarget = (lookup: Lookup.Lookup, ref: TargetRef | OpenTarget, place: Lookup.Place): ResolvedTarget => {
  const { kind, name } = ref
  if (kind === "tool") return toolAt(name)
  const written = kind === "any" ? ` (a target of the kind ${ref.wire})` : ""
  const expected = `${words[kind]} named ${Names.quote(name)} in the targets of the registry${written}`
  const refuse = (code: "Missing" | "WrongKind", problem: string): ResolvedTarget => {
    lookup.refuse({ code, registry: "targets", name, expected, problem }, place)
    return toolAt(name)
  }
  const entry = lookup.target(name)
  if (entry === undefined) return refuse("Missing", "no entry of that name")
  if (Target.isFunction(entry)) {
    return kind === "agent" ? refuse("WrongKind", "a function of that name") : functionOf(name, entry)
  }
  if (isAgent(entry) || Effect.isEffect(entry)) {
    return kind === "function" ? refuse("WrongKind", "an agent of that name") : agentAt(name, entry)
  }
  return refuse("WrongKind", "something of that name that is neither a function made with Target.make nor an agent")
}

type Slot = "input" | "output"

const isPlainDefault = (slot: Slot, { json }: SchemaRef): boolean =>
  json !== undefined && equals(json, slot === "output" ? { type: "string" } : {})

/** A schema of a name, of a JSON Schema, or of both, which then have to say the same. */
const resolveSchema = Effect.fnUntraced(function* (
  lookup: Lookup.Lookup,
  slot: Slot,
  ref: SchemaRef,
  place: Lookup.Place
): Effect.fn.Return<ResolvedSchema | undefined> {
  const { json, name } = ref
  const entry = name === undefined ? undefined : lookup.schema(name)
  if (name === undefined || entry === undefined) {
    if (json !== undefined) {
      // what cannot be compiled was refused before
      const compiled = yield* Effect.option(compile(json))
      return compiled._tag === "None" ? undefined : { ref, schema: CheckedSchema.codec(compiled.value) }
    }
    if (name !== undefined) {
      const expected = `a schema named ${Names.quote(name)} in the schemas of the registry, for the ${slot} (in a registry of LazyBridge ${Names.quote(`type:${name}`)})`
      lookup.refuse({ code: "Missing", registry: "schemas", name, expected, problem: "no entry of that name" }, place)
    }
    return undefined
  }
  const exported = yield* Effect.result(FromSchema.fromSchema(entry, { what: `Schema ${Names.quote(name)}` }))
  if (exported._tag === "Failure") {
    const expected = `a schema named ${Names.quote(name)} that has a JSON Schema, for the ${slot}`
    const problem = `one that has none: ${exported.failure.message}`
    lookup.refuse({ code: "Unusable", registry: "schemas", name, expected, problem }, place)
    return undefined
  }
  if (json !== undefined && !equals(json, exported.success)) {
    const expected = `a schema named ${Names.quote(name)} that says what the plan says of its ${slot}`
    const problem = "one whose JSON Schema is different. Rename it, or leave it out to use the one of the plan"
    lookup.refuse({ code: "Different", registry: "schemas", name, expected, problem }, place)
    return undefined
  }
  return { ref: { name, json: json ?? exported.success }, schema: jsonCodec(entry) }
})

const live = (name: string, predicate: AnyPredicate): LivePredicate =>
  typeof predicate === "function"
    ? livePredicate(name, predicate)
    : (input) => Effect.sync(() => When.test(predicate, input, () => false))

const unusable = (predicate: AnyPredicate): string | undefined => {
  if (typeof predicate === "function") return undefined
  const [problem] = When.problems(predicate)
  if (problem !== undefined) return `one that cannot be used: ${problem.reason}`
  const [name] = When.customs(predicate)
  return name === undefined ? undefined : `one that names another, ${Names.quote(name)}. Write it as a function`
}

interface Use extends Lookup.Place {
  readonly name: string
  /** The entry under `routes` that can stand for it, too. */
  readonly route: AnyPredicate | undefined
}

const usesOf = (lookup: Lookup.Lookup, { steps }: Draft): ReadonlyArray<Use> =>
  steps.flatMap((step, index) =>
    (step.routes ?? []).flatMap(({ to, when }, at) =>
      When.customs(when).map((name) => ({
        name,
        step: step.name,
        path: `/steps/${index}/routes/${at}`,
        route: isRouteCondition(when, step.name, to) ? lookup.route(step.name, to) : undefined
      }))
    )
  )

const resolvePredicates = (lookup: Lookup.Lookup, draft: Draft): ReadonlyMap<string, LivePredicate> => {
  const found = new Map<string, LivePredicate>()
  for (const { name, route, ...place } of usesOf(lookup, draft)) {
    if (found.has(name)) continue
    const named = lookup.predicate(name)
    const entry = named ?? route
    const expected = `a predicate named ${Names.quote(name)} in the predicates of the registry`
    const refuse = (code: "Missing" | "Ambiguous" | "Unusable", problem: string) =>
      lookup.refuse({ code, registry: "predicates", name, expected, problem }, place)
    if (entry === undefined) refuse("Missing", "no entry of that name")
    else if (named !== undefined && route !== undefined) refuse("Ambiguous", "another one for that route in its routes")
    else {
      const problem = unusable(entry)
      if (problem === undefined) found.set(name, live(name, entry))
      else refuse("Unusable", problem)
    }
  }
  return found
}

/** A schema that stands for none where it says no more than that. */
const withSchema = (
  slot: Slot,
  { lazy }: Draft,
  resolved: ResolvedSchema | undefined
): { readonly ref?: SchemaRef; readonly schema?: StepSchema } =>
  resolved === undefined || (lazy === true && isDefault(slot, resolved.ref) && isPlainDefault(slot, resolved.ref))
    ? {}
    : resolved

const resolveStep = Effect.fnUntraced(function* (
  lookup: Lookup.Lookup,
  draft: Draft,
  step: DraftStep,
  index: number
): Effect.fn.Return<LiveStep> {
  const { input, output, target, ...rest } = step
  const place = (slot: string): Lookup.Place => ({ step: step.name, path: `/steps/${index}/${slot}` })
  const resolved = resolveTarget(lookup, target, place("target"))
  const schemaOf = (slot: Slot, ref: SchemaRef | undefined) =>
    ref === undefined
      ? Effect.succeed({})
      : Effect.map(resolveSchema(lookup, slot, ref, place(slot)), (found) => withSchema(slot, draft, found))
  const schemas: { readonly [K in Slot]: { readonly ref?: SchemaRef; readonly schema?: StepSchema } } = {
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
export const plan = Effect.fnUntraced(function* <R>(
  draft: Draft,
  registry: PlanRegistry
): Effect.fn.Return<Plan<Schema.Json, R>, PlanInvalid | RegistryIncomplete> {
  const lookup = Lookup.make(registry)
  const output =
    draft.output === undefined ? undefined : yield* resolveSchema(lookup, "output", draft.output, { path: "/output" })
  const steps = yield* Effect.forEach(draft.steps, (step, index) => resolveStep(lookup, draft, step, index))
  const predicates = resolvePredicates(lookup, draft)
  const [first, ...others] = lookup.entries
  if (first !== undefined) return yield* new RegistryIncomplete({ plan: draft.name, entries: [first, ...others] })
  const definition: PlanDefinition = {
    name: draft.name,
    ...(draft.description === undefined ? {} : { description: draft.description }),
    maxIterations: draft.maxIterations,
    ...(output === undefined ? {} : { output: output.ref }),
    steps: steps.map((step) => step.definition)
  }
  return fromLive<R>(yield* checked({ definition, steps, predicates, output: output?.schema }))
}, CheckedSchema.withSharedBudget)
