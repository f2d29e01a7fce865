/**
 * Version 3 of the plan wire: our own. It is strict (unknown keys are refused) and
 * carries everything a definition holds.
 *
 * FROZEN: what this module reads and writes never changes again.
 *
 * | key | value | absent |
 * |---|---|---|
 * | `version` | 3 | 2 |
 * | `name` | text | `"plan"` |
 * | `description` | text | none |
 * | `max_iterations` | a whole number | 100 |
 * | `output` | schema | anything |
 * | `steps` | list of steps | refused |
 *
 * A step:
 *
 * | key | value | absent |
 * |---|---|---|
 * | `name` | letters, digits and `_`, then `-` too | refused |
 * | `target` | `{ kind, name }`: `tool`, `agent` or `function` | refused |
 * | `task` | reference | `from_prev` |
 * | `context` | reference, or list of them | none |
 * | `writes` | text | none |
 * | `parallel` | true or false | false |
 * | `input`, `output` | schema | anything |
 * | `routes` | list of `{ to, when }`, tried in order | none |
 * | `routes_by`, `after_branches` | text | none |
 * | `timeout` | milliseconds | none |
 * | `retry` | `{ times, delay?, factor?, max_delay? }`, in milliseconds | none |
 *
 * A schema is `{ name, schema }`, a JSON Schema under the name that a registry may have
 * for it; each can be left out, not both. A reference is `{ kind }` with `name` or, of
 * a `literal`, `value`; `from_memory` and `from_agent` name an agent. A condition is
 * `{ kind }`:
 *
 * | kind | further keys |
 * |---|---|
 * | `equals`, `greater_than`, `less_than` | `path`, `value` |
 * | `in` | `path`, `values` |
 * | `empty` | `path` |
 * | `matches` | `path`, `pattern` |
 * | `text` | `value` |
 * | `and`, `or` | `conditions` |
 * | `not` | `condition` |
 * | `custom` | `name` |
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { Draft, DraftStep } from "../internal/codec/draft.ts"
import * as Invariants from "../internal/codec/invariants.ts"
import { defaultMaxIterations, defaultName } from "../internal/codec/limits.ts"
import type { SchemaRef } from "../PlanDefinition.ts"
import type { Reference } from "../Reference.ts"
import type { RetryPolicy } from "../RetryPolicy.ts"
import * as Condition from "./condition-v3.ts"

const optional = Schema.optionalKey
const JsonObject = Schema.Record(Schema.String, Schema.Json)
const named = <const Kind extends string>(kind: Kind) =>
  Schema.Struct({ kind: Schema.Literal(kind), name: Schema.String })

const WireReference = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("from_prev") }),
  Schema.Struct({ kind: Schema.Literal("from_start") }),
  named("from_step"),
  named("from_parallel"),
  named("from_parallel_all"),
  named("from_memory"),
  named("from_agent"),
  Schema.Struct({ kind: Schema.Literal("literal"), value: Schema.String })
])
type WireReference = typeof WireReference.Type

const WireSchema = Schema.Struct({ name: optional(Schema.String), schema: optional(JsonObject) })

const Millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

const WireRetry = Schema.Struct({
  times: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  delay: optional(Millis),
  factor: optional(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1))),
  max_delay: optional(Millis)
})

const WireStep = Schema.Struct({
  name: Schema.String,
  target: Schema.Struct({ kind: Schema.Literals(["tool", "agent", "function"]), name: Schema.String }),
  task: optional(WireReference),
  context: optional(Schema.Union([WireReference, Schema.Array(WireReference)])),
  writes: optional(Schema.String),
  parallel: optional(Schema.Boolean),
  input: optional(WireSchema),
  output: optional(WireSchema),
  routes: optional(Schema.Array(Schema.Struct({ to: Schema.String, when: Condition.Wire }))),
  routes_by: optional(Schema.String),
  after_branches: optional(Schema.String),
  timeout: optional(Millis),
  retry: optional(WireRetry)
})

/**
 * Exactly what version 3 is.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Wire = Schema.Struct({
  version: Schema.Literal(3),
  name: optional(Schema.String),
  description: optional(Schema.String),
  max_iterations: optional(Schema.Finite),
  output: optional(WireSchema),
  steps: Schema.Array(WireStep)
})

const readReference = (wire: WireReference): Reference => {
  switch (wire.kind) {
    case "from_prev":
      return { _tag: "FromPrev" }
    case "from_start":
      return { _tag: "FromStart" }
    case "from_step":
      return { _tag: "FromStep", step: wire.name }
    case "from_parallel":
      return { _tag: "FromParallel", step: wire.name }
    case "from_parallel_all":
      return { _tag: "FromParallelAll", step: wire.name }
    case "from_memory":
      return { _tag: "FromMemory", agent: wire.name }
    case "from_agent":
      return { _tag: "FromAgent", agent: wire.name }
    case "literal":
      return { _tag: "Literal", value: wire.value }
  }
}

const writeReference = (reference: Reference): WireReference => {
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
    case "FromMemory":
      return { kind: "from_memory", name: reference.agent }
    case "FromAgent":
      return { kind: "from_agent", name: reference.agent }
    case "Literal":
      return { kind: "literal", value: reference.value }
  }
}

// Array.isArray does not narrow readonly arrays out of a union
const isList = <A>(value: A | ReadonlyArray<A>): value is ReadonlyArray<A> => Array.isArray(value)

const readSchema = ({ name, schema }: typeof WireSchema.Type): SchemaRef => ({
  ...(name === undefined ? {} : { name }),
  ...(schema === undefined ? {} : { json: schema })
})

const writeSchema = ({ json, name }: SchemaRef): typeof WireSchema.Type => ({
  ...(name === undefined ? {} : { name }),
  ...(json === undefined ? {} : { schema: json })
})

const readRetry = ({ delay, factor, max_delay, times }: typeof WireRetry.Type): RetryPolicy => ({
  times,
  ...(delay === undefined ? {} : { delayMillis: delay }),
  ...(factor === undefined ? {} : { factor }),
  ...(max_delay === undefined ? {} : { maxDelayMillis: max_delay })
})

const writeRetry = ({ delayMillis, factor, maxDelayMillis, times }: RetryPolicy): typeof WireRetry.Type => ({
  times,
  ...(delayMillis === undefined ? {} : { delay: delayMillis }),
  ...(factor === undefined ? {} : { factor }),
  ...(maxDelayMillis === undefined ? {} : { max_delay: maxDelayMillis })
})

const readStep = (wire: typeof WireStep.Type): DraftStep => {
  const { after_branches, context, input, name, output, parallel, retry, routes, routes_by, target, task } = wire
  return {
    name,
    target,
    task: task === undefined ? { _tag: "FromPrev" } : readReference(task),
    ...(context === undefined
      ? {}
      : { context: isList(context) ? context.map(readReference) : readReference(context) }),
    ...(wire.writes === undefined || wire.writes === "" ? {} : { writes: wire.writes }),
    parallel: parallel ?? false,
    ...(routes === undefined ? {} : { routes: routes.map(({ to, when }) => ({ to, when: Condition.read(when) })) }),
    ...(routes_by === undefined ? {} : { routesBy: routes_by }),
    ...(after_branches === undefined ? {} : { afterBranches: after_branches }),
    ...(input === undefined ? {} : { input: readSchema(input) }),
    ...(output === undefined ? {} : { output: readSchema(output) }),
    ...(wire.timeout === undefined ? {} : { timeoutMillis: wire.timeout }),
    ...(retry === undefined ? {} : { retry: readRetry(retry) })
  }
}

const writeStep = (step: DraftStep): typeof WireStep.Type => {
  const { afterBranches, context, input, name, output, parallel, retry, routes, routesBy, target, task, writes } = step
  return {
    name,
    target: { kind: target.kind === "any" ? "function" : target.kind, name: target.name },
    task: writeReference(task),
    ...(context === undefined
      ? {}
      : { context: isList(context) ? context.map(writeReference) : writeReference(context) }),
    ...(writes === undefined || writes === "" ? {} : { writes }),
    ...(parallel ? { parallel } : {}),
    ...(input === undefined ? {} : { input: writeSchema(input) }),
    ...(output === undefined ? {} : { output: writeSchema(output) }),
    ...(routes === undefined ? {} : { routes: routes.map(({ to, when }) => ({ to, when: Condition.write(when) })) }),
    ...(routesBy === undefined ? {} : { routes_by: routesBy }),
    ...(afterBranches === undefined ? {} : { after_branches: afterBranches }),
    ...(step.timeoutMillis === undefined ? {} : { timeout: step.timeoutMillis }),
    ...(retry === undefined ? {} : { retry: writeRetry(retry) })
  }
}

const toCurrent = (wire: typeof Wire.Type) => {
  const { description, max_iterations, name, output, steps } = wire
  const draft: Draft = {
    name: name ?? defaultName,
    ...(description === undefined ? {} : { description }),
    maxIterations: max_iterations ?? defaultMaxIterations,
    ...(output === undefined ? {} : { output: readSchema(output) }),
    steps: steps.map(readStep)
  }
  return Invariants.check(draft, "identifier")
}

const fromCurrent = Effect.fnUntraced(function* (draft: Draft) {
  const { description, maxIterations, name, output, steps } = yield* Invariants.check(draft, "identifier")
  return yield* VersionedCodec.lossless<typeof Wire.Type>({
    version: 3,
    name,
    ...(description === undefined ? {} : { description }),
    max_iterations: maxIterations,
    ...(output === undefined ? {} : { output: writeSchema(output) }),
    steps: steps.map(writeStep)
  })
})

/**
 * The arm of version 3.
 *
 * @category arms
 * @since 0.1.0
 */
export const arm = VersionedCodec.arm({ version: 3, wire: Wire, toCurrent, fromCurrent })
