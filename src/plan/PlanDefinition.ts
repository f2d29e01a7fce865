/**
 * A plan as plain data: the value that is sent, checked, drawn and run. It contains no
 * code. Its schema is also version 3 of its JSON, with the keys in snake case.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as retryPolicy from "../run/internal/retryPolicy.ts"
import * as Reference from "./Reference.ts"
import * as condition from "../tool/internal/condition.ts"
import * as planNames from "./internal/planNames.ts"

const optionalKey = Schema.optionalKey

const Millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * A retry schedule as data.
 *
 * **Details**
 *
 * - `times`: the number of retries, at most.
 * - `delayMillis`: the pause before the first retry; default 0.
 * - `factor`: the pause is multiplied by it after each retry; default 1.
 * - `maxDelayMillis`: the longest pause; default 2^31 - 1.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RetryPolicy = retryPolicy.RetryPolicy

/**
 * A retry schedule as data.
 *
 * @category models
 * @since 0.1.0
 */
export type RetryPolicy = retryPolicy.RetryPolicy

/**
 * A schema by name, as JSON Schema, or both. Wire versions before 3 only carry names.
 *
 * @category schemas
 * @since 0.1.0
 */
export const SchemaRef = Schema.Struct({
  name: optionalKey(Schema.String),
  json: optionalKey(Schema.Record(Schema.String, Schema.Json))
}).pipe(Schema.encodeKeys({ json: "schema" }))

/**
 * A schema by name, as JSON Schema, or both.
 *
 * @category models
 * @since 0.1.0
 */
export type SchemaRef = typeof SchemaRef.Type

/** A boolean that JSON only has where it is true. */
const Flag = optionalKey(Schema.Boolean).pipe(
  Schema.decodeTo(Schema.Boolean, {
    decode: SchemaGetter.withDefault(Effect.succeed(false)),
    encode: SchemaGetter.transformOptional(Option.filter((flag: boolean) => flag))
  })
)

/**
 * One step as data. The schema checks its shape alone.
 *
 * **Details**
 *
 * - `target` names what the step runs: a tool or an agent that the plan is bound with
 *   (`tool`), an agent, or a function of the registry.
 * - `context` keeps whether it was written as one reference or as a list.
 * - `routes` are tried in order. Absent and empty differ in JSON and mean the same.
 *
 * @category schemas
 * @since 0.1.0
 */
export const StepDefinition = Schema.Struct({
  name: Schema.String,
  target: Schema.Struct({ kind: Schema.Literals(["tool", "agent", "function"]), name: Schema.String }),
  task: Reference.Reference.pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(Reference.fromPrev))),
  context: optionalKey(Schema.Union([Reference.Reference, Schema.Array(Reference.Reference)])),
  writes: optionalKey(Schema.String),
  parallel: Flag,
  input: optionalKey(SchemaRef),
  output: optionalKey(SchemaRef),
  routes: optionalKey(Schema.Array(Schema.Struct({ to: Schema.String, when: condition.Shape }))),
  routesBy: optionalKey(Schema.String),
  afterBranches: optionalKey(Schema.String),
  timeoutMillis: optionalKey(Millis),
  retry: optionalKey(RetryPolicy)
}).pipe(Schema.encodeKeys({ routesBy: "routes_by", afterBranches: "after_branches", timeoutMillis: "timeout" }))

/**
 * One step as data.
 *
 * @category models
 * @since 0.1.0
 */
export type StepDefinition = typeof StepDefinition.Type

/**
 * A plan as data. The schema checks its shape alone; `Plan.make` and `Plan.decode` check
 * that the plan can run. `maxIterations` counts parallel groups, and steps outside them.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanDefinition = Schema.Struct({
  name: Schema.String.pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(planNames.defaultName))),
  description: optionalKey(Schema.String),
  maxIterations: Schema.Int.pipe(Schema.withDecodingDefaultTypeKey(Effect.succeed(planNames.defaultMaxIterations))),
  output: optionalKey(SchemaRef),
  steps: Schema.Array(StepDefinition)
}).pipe(Schema.encodeKeys({ maxIterations: "max_iterations" }))

/**
 * A plan as data.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanDefinition = typeof PlanDefinition.Type
