/**
 * Version 2 of the plan wire: the dictionary that LazyBridge writes and reads.
 *
 * FROZEN: what this module reads and writes never changes again.
 *
 * | key | value | absent |
 * |---|---|---|
 * | `version` | 2 | 2 |
 * | `max_iterations` | a whole number | 100 |
 * | `steps` | list of steps | `[]` |
 *
 * A step, in the order in which its keys are written:
 *
 * | key | value | absent | written |
 * |---|---|---|---|
 * | `name` | text | named after its target | always |
 * | `target` | `{ kind, name }`: `tool`, `agent` or `callable` | refused | always |
 * | `task` | reference; null is `from_prev` | `from_prev` | always |
 * | `parallel` | anything, by its truth in Python | false | always |
 * | `context` | reference, list of them; null is `from_prev` | none | if there is any |
 * | `writes` | text; empty is none | none | if not empty |
 * | `output`, `input` | name of a schema | text, anything | unless it is that |
 * | `routes` | list of step names, in the order of evaluation | none | sorted by code point |
 * | `routes_by`, `after_branches` | text | none | also if empty |
 *
 * A reference is `{ kind }`, with `name` or, of a `literal`, `value`. Other keys are
 * ignored everywhere.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Json from "../../payload/Json.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { Draft, DraftStep } from "../internal/codec/draft.ts"
import { isDefault } from "../internal/codec/draft.ts"
import * as Invariants from "../internal/codec/invariants.ts"
import { defaultMaxIterations, defaultName, maxSteps } from "../internal/codec/limits.ts"
import { lossesOf } from "../internal/codec/losses.ts"
import { routeCondition, routeKey } from "../internal/codec/routes.ts"
import { kindOf } from "../internal/codec/show.ts"
import { byCodePoint } from "../internal/names/order.ts"
import type { Route } from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import * as Parts from "./parts-v2.ts"

const anything = Schema.optionalKey(Schema.Json)

/**
 * Everything but the version is read by hand, so that all problems come at once.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Wire = Schema.Struct({
  version: Schema.Literal(2),
  max_iterations: anything,
  steps: anything
})

const readRoutes = (
  read: Parts.Reader,
  value: Schema.Json | undefined,
  step: string,
  place: Parts.Place
): ReadonlyArray<Route> | undefined => {
  if (value === undefined) return undefined
  if (!Array.isArray(value)) {
    read.refuse(place.path, `a list of step names as the ${place.words}`, kindOf(value))
    return undefined
  }
  const routes = new Map<string, Route>()
  for (const [index, to] of value.entries()) {
    if (typeof to === "string") routes.set(to, { to, when: routeCondition(step, to) })
    else read.refuse(`${place.path}/${index}`, `the name of a step among the ${place.words}`, kindOf(to))
  }
  return [...routes.values()]
}

const readStep = (read: Parts.Reader, value: Schema.Json, index: number): DraftStep => {
  const path = `/steps/${index}`
  if (!Json.isObject(value)) read.refuse(path, "an object that describes a step", kindOf(value))
  const step = Json.isObject(value) ? value : { target: { kind: "tool", name: "" } }
  const given = Parts.own(step, "name")
  const label = typeof given === "string" ? `step ${JSON.stringify(given.slice(0, 200))}` : `step ${index}`
  const at = (key: string, what: string): Parts.Place => ({ path: `${path}/${key}`, words: `${what} of ${label}` })
  const get = (key: string) => Parts.own(step, key)

  const target = Parts.readTarget(read, get("target"), at("target", "target"))
  const task = Parts.readReference(read, get("task"), at("task", "task"))
  const context = Parts.readContext(read, get("context"), at("context", "context"))
  const name = Parts.readText(read, given, at("name", "name")) ?? target.name
  const routes = readRoutes(read, get("routes"), name, at("routes", "routes"))
  const output = Parts.readType(read, get("output"), at("output", "output"))
  const input = Parts.readType(read, get("input"), at("input", "input"))
  const writes = Parts.readText(read, get("writes"), at("writes", "writes"))
  const routesBy = Parts.readText(read, get("routes_by"), at("routes_by", "routes_by"))
  const afterBranches = Parts.readText(read, get("after_branches"), at("after_branches", "after_branches"))
  return {
    name,
    target,
    task,
    ...(context === undefined ? {} : { context }),
    ...(writes === undefined || writes === "" ? {} : { writes }),
    parallel: Parts.isTruthy(get("parallel")),
    ...(routes === undefined ? {} : { routes }),
    ...(routesBy === undefined ? {} : { routesBy }),
    ...(afterBranches === undefined ? {} : { afterBranches }),
    ...(input === undefined ? {} : { input }),
    ...(output === undefined ? {} : { output })
  }
}

const readSteps = (read: Parts.Reader, value: Schema.Json | undefined): ReadonlyArray<DraftStep> => {
  if (value === undefined) return []
  if (!Array.isArray(value)) {
    read.refuse("/steps", "a list of steps", kindOf(value))
    return []
  }
  if (value.length > maxSteps) {
    read.refuse("/steps", `at most ${maxSteps} steps`, `${value.length} steps`)
    return []
  }
  return value.map((step: Schema.Json, index) => readStep(read, step, index))
}

const readIterations = (read: Parts.Reader, value: Schema.Json | undefined): number => {
  if (value === undefined) return defaultMaxIterations
  if (typeof value === "number") return value
  read.refuse("/max_iterations", Invariants.iterationsRule, kindOf(value))
  return defaultMaxIterations
}

/** Two routes whose predicates have one key would be decided by one predicate. */
const refuseCollisions = (read: Parts.Reader, steps: ReadonlyArray<DraftStep>): void => {
  const seen = new Map<string, { readonly step: string; readonly path: string }>()
  for (const [index, step] of steps.entries()) {
    for (const [at, { to }] of (step.routes ?? []).entries()) {
      const key = routeKey(step.name, to)
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
 *
 * @category reading
 * @since 0.1.0
 */
export const read = Effect.fnUntraced(function* (wire: Omit<typeof Wire.Type, "version">) {
  const reader = Parts.reader()
  const maxIterations = readIterations(reader, wire.max_iterations)
  const steps = readSteps(reader, wire.steps)
  refuseCollisions(reader, steps)
  const draft: Draft = { lazy: true, name: defaultName, maxIterations, steps }
  return yield* Invariants.check(draft, "text", reader.issues)
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

const isList = (context: Reference | ReadonlyArray<Reference>): context is ReadonlyArray<Reference> =>
  Array.isArray(context)

const writeType = (step: DraftStep, slot: "input" | "output"): Json.JsonObject => {
  const ref = step[slot]
  const omitted = ref?.name === undefined || isDefault(slot, ref)
  return omitted ? {} : { [slot]: ref.name }
}

const writeStep = (step: DraftStep, types: boolean): Json.JsonObject => {
  const { afterBranches, context, name, parallel, routes, routesBy, target, task, writes } = step
  return {
    name,
    target: { kind: target.kind === "tool" || target.kind === "agent" ? target.kind : "callable", name: target.name },
    task: writeReference(task),
    parallel,
    ...(context === undefined
      ? {}
      : { context: isList(context) ? context.map(writeReference) : writeReference(context) }),
    ...(writes === undefined || writes === "" ? {} : { writes }),
    ...(types ? writeType(step, "output") : {}),
    ...(types ? writeType(step, "input") : {}),
    ...(routes === undefined ? {} : { routes: [...new Set(routes.map(({ to }) => to))].sort(byCodePoint) }),
    ...(routesBy === undefined ? {} : { routes_by: routesBy }),
    ...(afterBranches === undefined ? {} : { after_branches: afterBranches })
  }
}

/**
 * Writes what both versions have, and the names of schemas if `types`.
 *
 * @category writing
 * @since 0.1.0
 */
export const write = Effect.fnUntraced(function* (draft: Draft, types: boolean) {
  const reader = Parts.reader()
  refuseCollisions(reader, draft.steps)
  const { maxIterations, steps } = yield* Invariants.check(draft, "text", reader.issues)
  return { max_iterations: maxIterations, steps: steps.map((step) => writeStep(step, types)) }
})

/**
 * The arm of version 2.
 *
 * @category arms
 * @since 0.1.0
 */
export const arm = VersionedCodec.arm({
  version: 2,
  wire: Wire,
  onExcessProperty: "ignore",
  toCurrent: read,
  fromCurrent: (draft: Draft) =>
    Effect.flatMap(write(draft, true), (rest) =>
      VersionedCodec.lossy<typeof Wire.Type>({ version: 2, ...rest }, lossesOf(draft, 2))
    )
})
