/**
 * A plan as plain data: what travels, what is checked, what is drawn and what a run
 * follows. Nothing in it is code.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"
import type * as Json from "../payload/Json.ts"
import * as Reference from "./Reference.ts"
import * as When from "./When.ts"

/**
 * A schedule that travels.
 *
 * **Details**
 *
 * - `times`: how often it is tried again, at most.
 * - `delayMillis`: the pause before the first of these; default 0.
 * - `factor`: what the pause is multiplied by after each; default 1.
 * - `maxDelayMillis`: the longest pause; default {@link performStep.maxDelayMillis}.
 *
 * @category models
 * @since 0.1.0
 */
export interface RetryPolicy {
  readonly times: number
  readonly delayMillis?: number
  readonly factor?: number
  readonly maxDelayMillis?: number
}

/**
 * Schema of {@link RetryPolicy}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const RetryPolicy: Schema.Codec<RetryPolicy> = Schema.Struct({
  times: Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)),
  delayMillis: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  factor: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(1))),
  maxDelayMillis: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)))
})

/**
 * What runs in a step, by name: a tool or an agent the plan is bound with (`tool`), an
 * agent, or a function of the registry.
 *
 * @category models
 * @since 0.1.0
 */
export interface TargetRef {
  readonly kind: "tool" | "agent" | "function"
  readonly name: string
}

/**
 * A schema by name, as JSON Schema, or both. Wire versions before 3 only carry names.
 *
 * @category models
 * @since 0.1.0
 */
export interface SchemaRef {
  readonly name?: string
  readonly json?: Json.JsonObject
}

/**
 * Where a step may go on instead of the next one, and when.
 *
 * @category models
 * @since 0.1.0
 */
export interface Route {
  readonly to: string
  readonly when: When.When
}

/**
 * One step as data.
 *
 * **Details**
 *
 * `context` keeps whether it was written as one reference or as a list. `routes` are
 * tried in order; absent and empty differ on the wire, and mean the same.
 *
 * @category models
 * @since 0.1.0
 */
export interface StepDefinition {
  readonly name: string
  readonly target: TargetRef
  readonly task: Reference.Reference
  readonly context?: Reference.Reference | ReadonlyArray<Reference.Reference>
  readonly writes?: string
  readonly parallel: boolean
  readonly routes?: ReadonlyArray<Route>
  readonly routesBy?: string
  readonly afterBranches?: string
  readonly input?: SchemaRef
  readonly output?: SchemaRef
  readonly timeoutMillis?: number
  readonly retry?: RetryPolicy
}

/**
 * A plan as data. `maxIterations` counts steps outside bands, and bands.
 *
 * @category models
 * @since 0.1.0
 */
export interface PlanDefinition {
  readonly name: string
  readonly description?: string
  readonly maxIterations: number
  readonly output?: SchemaRef
  readonly steps: ReadonlyArray<StepDefinition>
}

const JsonObject: Schema.Codec<Json.JsonObject> = Schema.Record(Schema.String, Schema.Json)

export const SchemaRef: Schema.Codec<SchemaRef> = Schema.Struct({
  name: Schema.optionalKey(Schema.String),
  json: Schema.optionalKey(JsonObject)
})

/**
 * Schema of {@link StepDefinition}, of its shape alone.
 *
 * @category schemas
 * @since 0.1.0
 */
export const StepDefinition: Schema.Codec<StepDefinition> = Schema.Struct({
  name: Schema.String,
  target: Schema.Struct({ kind: Schema.Literals(["tool", "agent", "function"]), name: Schema.String }),
  task: Reference.Reference,
  context: Schema.optionalKey(Schema.Union([Reference.Reference, Schema.Array(Reference.Reference)])),
  writes: Schema.optionalKey(Schema.String),
  parallel: Schema.Boolean,
  routes: Schema.optionalKey(Schema.Array(Schema.Struct({ to: Schema.String, when: When.When }))),
  routesBy: Schema.optionalKey(Schema.String),
  afterBranches: Schema.optionalKey(Schema.String),
  input: Schema.optionalKey(SchemaRef),
  output: Schema.optionalKey(SchemaRef),
  timeoutMillis: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
  retry: Schema.optionalKey(RetryPolicy)
})

/**
 * Schema of {@link PlanDefinition}, of its shape alone: whether it is a plan that can
 * run is for `PlanCheck` to say.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanDefinition: Schema.Codec<PlanDefinition> = Schema.Struct({
  name: Schema.String,
  description: Schema.optionalKey(Schema.String),
  maxIterations: Schema.Int,
  output: Schema.optionalKey(SchemaRef),
  steps: Schema.Array(StepDefinition)
})
