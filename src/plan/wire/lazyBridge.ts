/**
 * Versions 1 and 2 of a plan's wire: LazyBridge's dictionary. Frozen.
 */

import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"
import type { Problem } from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type * as PlanDefinition from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import * as planDraft from "../internal/planDraft.ts"
import * as planNames from "../internal/planNames.ts"

/**
 * Where a value stands: its JSON Pointer, and the same in words.
 */
interface WirePlace {
  readonly path: string
  readonly words: string
}

/**
 * Reads values of one document, and keeps what is wrong with them.
 */
interface IssueReader {
  readonly issues: Array<Problem>
  readonly refuse: (path: string, expected: string, found: string) => void
}

/**
 * A reader that found nothing wrong yet.
 */
const makeReader = (): IssueReader => {
  const issues: Array<Problem> = []
  return { issues, refuse: (path, expected, found) => void issues.push({ path, expected, found }) }
}

/**
 * An own member of an object. What every object inherits is none.
 */
const ownValue = (object: Json.JsonObject, key: string): Schema.Json | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

const fromPrev: Reference = { _tag: "FromPrev" }

const referenceKinds = "from_prev, from_start, from_step, from_parallel, from_parallel_all, literal"

const readName = (read: IssueReader, ref: Json.JsonObject, kind: string, { path, words }: WirePlace): string => {
  const name = ownValue(ref, "name")
  if (typeof name === "string" && planNames.isIdentifier(name)) return name
  read.refuse(
    `${path}/name`,
    `the name of the step that the ${kind} of ${words} reads (${planNames.identifierRule})`,
    planDraft.showJson(name)
  )
  return ""
}

/**
 * A reference. Null is the step before.
 */
const readReference = (read: IssueReader, value: Schema.Json | undefined, place: WirePlace): Reference => {
  if (value === undefined || value === null) return fromPrev
  const { path, words } = place
  if (!Json.isObject(value)) {
    read.refuse(path, `a reference such as {"kind":"from_prev"} as the ${words}`, planDraft.jsonKind(value))
    return fromPrev
  }
  const kind = ownValue(value, "kind")
  switch (kind) {
    case "from_prev":
      return fromPrev
    case "from_start":
      return { _tag: "FromStart" }
    case "from_step":
      return { _tag: "FromStep", step: readName(read, value, kind, place) }
    case "from_parallel":
      return { _tag: "FromParallel", step: readName(read, value, kind, place) }
    case "from_parallel_all":
      return { _tag: "FromParallelAll", step: readName(read, value, kind, place) }
    case "literal": {
      const text = ownValue(value, "value")
      if (typeof text === "string") return { _tag: "Literal", value: text }
      read.refuse(`${path}/value`, `the text of the literal of ${words}`, planDraft.jsonKind(text))
      return fromPrev
    }
    default:
      read.refuse(
        `${path}/kind`,
        `one of ${referenceKinds} as the kind of the reference of ${words}`,
        planDraft.showJson(kind)
      )
      return fromPrev
  }
}

/**
 * One context or a list of them. An absent key is no context; null is the step before.
 */
const readContext = (
  read: IssueReader,
  value: Schema.Json | undefined,
  { path, words }: WirePlace
): planDraft.DraftStep["context"] => {
  if (value === undefined) return undefined
  if (!Array.isArray(value)) return readReference(read, value, { path, words })
  return value.map((item: Schema.Json, index) =>
    readReference(read, item, { path: `${path}/${index}`, words: `${words}, item ${index}` })
  )
}

/**
 * What a step runs.
 */
const readTarget = (
  read: IssueReader,
  value: Schema.Json | undefined,
  { path, words }: WirePlace
): planDraft.DraftStep["target"] => {
  const nothing: planDraft.DraftStep["target"] = { kind: "tool", name: "" }
  if (value === undefined || !Json.isObject(value)) {
    read.refuse(path, `a target such as {"kind":"tool","name":"search"} as the ${words}`, planDraft.jsonKind(value))
    return nothing
  }
  const kind = ownValue(value, "kind")
  const name = ownValue(value, "name")
  if (typeof name !== "string") {
    read.refuse(`${path}/name`, `the name of the ${words}`, planDraft.jsonKind(name))
    return nothing
  }
  switch (kind) {
    case "tool":
    case "agent":
      return { kind, name }
    case "callable":
      return { kind: "function", name }
    default:
      return { kind: "any", name, wire: planDraft.showJson(kind) }
  }
}

/**
 * A text, or none where there is null or nothing.
 */
const readText = (
  read: IssueReader,
  value: Schema.Json | undefined,
  { path, words }: WirePlace
): string | undefined => {
  if (value === undefined || value === null) return undefined
  if (typeof value === "string") return value
  read.refuse(path, `text or nothing as the ${words}`, planDraft.jsonKind(value))
  return undefined
}

/**
 * A schema by its name.
 */
const readType = (
  read: IssueReader,
  value: Schema.Json | undefined,
  place: WirePlace
): PlanDefinition.SchemaRef | undefined => {
  const name = readText(read, value, place)
  return name === undefined ? undefined : { name }
}

/**
 * Whether Python takes a value for true: empty texts, lists and objects are false, and
 * so are 0 and null.
 */
const isTruthy = (value: Schema.Json | undefined): boolean =>
  typeof value === "object" && value !== null ? Object.keys(value).length > 0 : Boolean(value)

const anyV2 = Schema.optionalKey(Schema.Json)

/**
 * Everything but the version is read by hand, so that all problems come at once.
 */
const WireV2 = Schema.Struct({
  version: Schema.Literal(2),
  max_iterations: anyV2,
  steps: anyV2
})

const readRoutes = (
  read: IssueReader,
  value: Schema.Json | undefined,
  step: string,
  place: WirePlace
): PlanDefinition.StepDefinition["routes"] | undefined => {
  if (value === undefined) return undefined
  if (!Array.isArray(value)) {
    read.refuse(place.path, `a list of step names as the ${place.words}`, planDraft.jsonKind(value))
    return undefined
  }
  const routes = new Map<string, NonNullable<PlanDefinition.StepDefinition["routes"]>[number]>()
  for (const [index, to] of value.entries()) {
    if (typeof to === "string") routes.set(to, { to, when: planDraft.routeCondition(step, to) })
    else read.refuse(`${place.path}/${index}`, `the name of a step among the ${place.words}`, planDraft.jsonKind(to))
  }
  return [...routes.values()]
}

const readStep = (read: IssueReader, value: Schema.Json, index: number): planDraft.DraftStep => {
  const path = `/steps/${index}`
  if (!Json.isObject(value)) read.refuse(path, "an object that describes a step", planDraft.jsonKind(value))
  const step = Json.isObject(value) ? value : { target: { kind: "tool", name: "" } }
  const given = ownValue(step, "name")
  const label = typeof given === "string" ? `step ${JSON.stringify(given.slice(0, 200))}` : `step ${index}`
  const at = (key: string, what: string): WirePlace => ({ path: `${path}/${key}`, words: `${what} of ${label}` })
  const get = (key: string) => ownValue(step, key)

  const target = readTarget(read, get("target"), at("target", "target"))
  const task = readReference(read, get("task"), at("task", "task"))
  const context = readContext(read, get("context"), at("context", "context"))
  const name = readText(read, given, at("name", "name")) ?? target.name
  const routes = readRoutes(read, get("routes"), name, at("routes", "routes"))
  const output = readType(read, get("output"), at("output", "output"))
  const input = readType(read, get("input"), at("input", "input"))
  const writes = readText(read, get("writes"), at("writes", "writes"))
  const routesBy = readText(read, get("routes_by"), at("routes_by", "routes_by"))
  const afterBranches = readText(read, get("after_branches"), at("after_branches", "after_branches"))
  return {
    name,
    target,
    task,
    ...(context === undefined ? {} : { context }),
    ...(writes === undefined || writes === "" ? {} : { writes }),
    parallel: isTruthy(get("parallel")),
    ...(routes === undefined ? {} : { routes }),
    ...(routesBy === undefined ? {} : { routesBy }),
    ...(afterBranches === undefined ? {} : { afterBranches }),
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output })
  }
}

const readSteps = (read: IssueReader, value: Schema.Json | undefined): ReadonlyArray<planDraft.DraftStep> => {
  if (value === undefined) return []
  if (!Array.isArray(value)) {
    read.refuse("/steps", "a list of steps", planDraft.jsonKind(value))
    return []
  }
  if (value.length > planNames.maxSteps) {
    read.refuse("/steps", `at most ${planNames.maxSteps} steps`, `${value.length} steps`)
    return []
  }
  return value.map((step: Schema.Json, index) => readStep(read, step, index))
}

const readIterations = (read: IssueReader, value: Schema.Json | undefined): number => {
  if (value === undefined) return planNames.defaultMaxIterations
  if (typeof value === "number") return value
  read.refuse("/max_iterations", planDraft.iterationsRule, planDraft.jsonKind(value))
  return planNames.defaultMaxIterations
}

/** Two routes whose predicates have one key would be decided by one predicate. */
const refuseCollisions = (read: IssueReader, steps: ReadonlyArray<planDraft.DraftStep>): void => {
  const seen = new Map<string, { readonly step: string; readonly path: string }>()
  for (const [index, step] of steps.entries()) {
    for (const [at, { to }] of (step.routes ?? []).entries()) {
      const key = planDraft.routeKey(step.name, to)
      const path = `/steps/${index}/routes/${at}`
      const other = seen.get(key)
      if (other === undefined) seen.set(key, { step: step.name, path })
      else if (other.step !== step.name) {
        const expected = `a route whose predicate has a key of its own; rename a step that has a colon in its name`
        read.refuse(path, expected, `${JSON.stringify(key.slice(0, 200))}, the key of ${other.path}`)
      }
    }
  }
}

/**
 * Reads what versions 1 and 2 have in common, which is everything.
 */
const readPlan = Effect.fnUntraced(function* (wire: Omit<typeof WireV2.Type, "version">) {
  const reader = makeReader()
  const maxIterations = readIterations(reader, wire.max_iterations)
  const steps = readSteps(reader, wire.steps)
  refuseCollisions(reader, steps)
  const draft: planDraft.Draft = { dialect: "lazybridge", name: planNames.defaultName, maxIterations, steps }
  return yield* planDraft.checkDraft(draft, "text", reader.issues)
})

const writeReference = (reference: Reference): Schema.Json => {
  switch (reference._tag) {
    case "FromPrev":
      return { kind: "from_prev" }
    case "FromStart":
      return { kind: "from_start" }
    case "FromStep":
      return { kind: "from_step", name: reference.step }
    case "FromParallel":
      return { kind: "from_parallel", name: reference.step }
    case "FromParallelAll":
      return { kind: "from_parallel_all", name: reference.step }
    case "Literal":
      return { kind: "literal", value: reference.value }
    case "FromMemory":
    case "FromAgent":
      return null
  }
}

const isContextList = (context: Reference | ReadonlyArray<Reference>): context is ReadonlyArray<Reference> =>
  Array.isArray(context)

const writeType = (step: planDraft.DraftStep, slot: "input" | "output"): Json.JsonObject => {
  const ref = step[slot]
  const omitted = ref?.name === undefined || planDraft.isDefaultValue(slot, ref)
  return omitted ? {} : { [slot]: ref.name }
}

const writeStep = (step: planDraft.DraftStep, types: boolean): Json.JsonObject => {
  const { afterBranches, context, name, parallel, routes, routesBy, target, task, writes } = step
  return {
    name,
    target: { kind: target.kind === "tool" || target.kind === "agent" ? target.kind : "callable", name: target.name },
    task: writeReference(task),
    parallel,
    ...(context === undefined
      ? {}
      : { context: isContextList(context) ? context.map(writeReference) : writeReference(context) }),
    ...(writes === undefined || writes === "" ? {} : { writes }),
    ...(types ? writeType(step, "output") : {}),
    ...(types ? writeType(step, "input") : {}),
    ...(routes === undefined ? {} : { routes: [...new Set(routes.map(({ to }) => to))].sort(planNames.byCodePoint) }),
    ...(routesBy === undefined ? {} : { routes_by: routesBy }),
    ...(afterBranches === undefined ? {} : { after_branches: afterBranches })
  }
}

/**
 * Writes what both versions have, and the names of schemas if `types`.
 */
const writePlan = Effect.fnUntraced(function* (draft: planDraft.Draft, types: boolean) {
  const reader = makeReader()
  refuseCollisions(reader, draft.steps)
  const { maxIterations, steps } = yield* planDraft.checkDraft(draft, "text", reader.issues)
  return { max_iterations: maxIterations, steps: steps.map((step) => writeStep(step, types)) }
})

/**
 * The arm of version 2.
 */
export const armV2 = VersionedCodec.arm({
  version: 2,
  wire: WireV2,
  onExcessProperty: "ignore",
  toCurrent: readPlan,
  fromCurrent: (draft: planDraft.Draft) =>
    Effect.flatMap(writePlan(draft, true), (rest) =>
      VersionedCodec.lossy<typeof WireV2.Type>({ version: 2, ...rest }, planDraft.lossesOf(draft, 2))
    )
})

const anyV1 = Schema.optionalKey(Schema.Json)

/**
 * Everything but the version is read by hand, as in version 2.
 */
const WireV1 = Schema.Struct({
  version: Schema.Literal(1),
  max_iterations: anyV1,
  steps: anyV1
})

/**
 * The arm of version 1.
 */
export const armV1 = VersionedCodec.arm({
  version: 1,
  wire: WireV1,
  onExcessProperty: "ignore",
  toCurrent: readPlan,
  fromCurrent: (draft: planDraft.Draft) =>
    Effect.flatMap(writePlan(draft, false), (rest) =>
      VersionedCodec.lossy<typeof WireV1.Type>({ version: 1, ...rest }, planDraft.lossesOf(draft, 1))
    )
})
