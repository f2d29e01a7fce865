/**
 * Version 1 of what checkpoints store: the head of a run, what it was begun with, one
 * batch of its events, and a value that a step wrote. Frozen with its first release.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import { Time } from "../../agent/wire/run-parts-v1.ts"
import { Input } from "./plan-run-parts-v1.ts"

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
const Position = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

/**
 * @category schemas
 * @since 0.1.0
 */
export const Segment = Schema.Struct({ epoch: Position, owner: Schema.String, batches: Count })

/**
 * @category schemas
 * @since 0.1.0
 */
export const Stamp = Schema.Struct({ run: Schema.String, record: Count })

/**
 * A write that may not be done: the step, its record in the history, and whose value it
 * replaces (`null` for none, absent where that is not known).
 *
 * @category schemas
 * @since 0.1.0
 */
export const Pending = Schema.Struct({
  write: Schema.String,
  step: Schema.String,
  record: Count,
  before: Schema.optionalKey(Schema.NullOr(Stamp))
})

/**
 * What stands under the key of a run. It alone says what belongs to the run.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Head = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-run"),
  status: Schema.Literals(["claimed", "running", "paused", "failed", "cancelled", "done"]),
  plan: Schema.String,
  digest: Schema.String,
  fork: Schema.Boolean,
  generation: Schema.String,
  epoch: Position,
  owner: Schema.String,
  lease: Schema.optionalKey(Time),
  updated: Time,
  run: Schema.optionalKey(Schema.String),
  segments: Schema.Array(Segment),
  revision: Count,
  iterations: Count,
  completed: Count,
  pending: Schema.Array(Pending),
  outcome: Schema.optionalKey(Schema.Struct({ type: Schema.String, message: Schema.optionalKey(Schema.String) })),
  retired: Schema.Array(Schema.Struct({ generation: Schema.String, segments: Schema.Array(Segment) }))
})

/**
 * What a run was begun with.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Begun = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-input"),
  generation: Schema.String,
  input: Input,
  context: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  maxIterations: Schema.optionalKey(Schema.Int)
})

/**
 * One batch of events: its place, and the events as the codec of events wrote them.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Batch = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-events"),
  generation: Schema.String,
  epoch: Position,
  owner: Schema.String,
  batch: Count,
  events: Schema.Record(Schema.String, Schema.Json)
})

/**
 * A value that a step wrote, and which step of which run.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Write = Schema.Struct({
  version: Schema.Literal(1),
  kind: Schema.Literal("plan-write"),
  run: Schema.String,
  record: Count,
  step: Schema.String,
  at: Time,
  value: Schema.Json
})
