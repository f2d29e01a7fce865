/**
 * What version 1 of a plan's facts and states have in common. Frozen with its first
 * release.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Part from "../../agent/wire/run-parts-v1.ts"
import type { PlanInput } from "../PlanInput.ts"
import type { PlanOutcome, StepFailure } from "../PlanOutcome.ts"
import type { CallRequest as CallRequestType, StepRecord } from "../PlanRunEvent.ts"
import type { Decided as DecidedType } from "../PlanRunState.ts"

const Options = Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))

const Content = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, options: Options }),
  Schema.Struct({
    type: Schema.Literal("file"),
    mediaType: Schema.String,
    fileName: Schema.optionalKey(Schema.String),
    data: Schema.Union([
      Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.String }),
      Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
    ]),
    options: Options
  })
])

/**
 * What a run starts from.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Input: Schema.Codec<PlanInput> = Schema.Struct({
  task: Schema.String,
  payload: Schema.Json,
  context: Schema.optionalKey(Schema.String),
  content: Schema.optionalKey(Schema.Array(Content))
})

/**
 * Why a step failed.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Failure: Schema.Codec<StepFailure> = Schema.Struct({
  type: Schema.String,
  message: Schema.String,
  retryable: Schema.Boolean
})

/**
 * What a finished step leaves.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Record: Schema.Codec<StepRecord, unknown> = Schema.Struct({
  step: Schema.String,
  task: Schema.String,
  context: Schema.optionalKey(Schema.String),
  output: Schema.Json,
  usage: Part.Usage,
  attempts: Part.Count,
  startedAt: Part.Time,
  finishedAt: Part.Time
})

/**
 * A call that needs approval.
 *
 * @category schemas
 * @since 0.1.0
 */
export const CallRequest: Schema.Codec<CallRequestType> = Schema.Struct({
  name: Schema.String,
  arguments: Schema.Json
})

/**
 * What somebody decided.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Decided: Schema.Codec<DecidedType> = Schema.Struct({
  approved: Schema.Boolean,
  reason: Schema.optionalKey(Schema.String)
})

/**
 * How a run ended.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Outcome: Schema.Codec<PlanOutcome> = Schema.Union([
  Schema.TaggedStruct("Completed", { output: Schema.Json }),
  Schema.TaggedStruct("Concluded", { answer: Schema.String }),
  Schema.TaggedStruct("Paused", {
    pauses: Schema.Array(
      Schema.Struct({ step: Schema.String, path: Schema.Array(Schema.String), reason: Schema.String })
    ),
    requests: Schema.Array(
      Schema.Struct({
        callId: Schema.String,
        name: Schema.String,
        arguments: Schema.Json,
        path: Schema.optionalKey(Schema.Array(Schema.String))
      })
    )
  }),
  Schema.TaggedStruct("Failed", { step: Schema.String, failure: Failure }),
  Schema.TaggedStruct("LimitReached", { limit: Schema.Int, next: Schema.String }),
  Schema.TaggedStruct("Interrupted", { reason: Schema.optionalKey(Schema.String) })
])

/**
 * Below these places stands what steps, models and users said: a key called `password`
 * there is data, not an option that holds a secret. The context of a run and provider
 * options are not among them.
 *
 * @category schemas
 * @since 0.1.0
 */
export const data: ReadonlyArray<string> = [
  ...Part.data,
  "/**/input/payload",
  "/**/record/output",
  "/**/history/*/output",
  "/**/request/arguments"
]
