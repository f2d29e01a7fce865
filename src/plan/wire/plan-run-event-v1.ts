/**
 * Version 1 of a plan's facts: one fact, and a list of them. Frozen with its first
 * release.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as agent from "../../agent/wire/run-event-v1.ts"
import { Context, Count, Time as at } from "../../agent/wire/run-parts-v1.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { PlanRunEvent } from "../PlanRunEvent.ts"
import * as Part from "./plan-run-parts-v1.ts"

const step = Schema.String

const reason = Schema.optionalKey(Schema.String)

/**
 * One fact without its version.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Event: Schema.Codec<PlanRunEvent, unknown> = Schema.Union([
  Schema.TaggedStruct("PlanStarted", {
    at,
    runId: Schema.String,
    plan: Schema.String,
    digest: Schema.String,
    depth: Count,
    maxIterations: Schema.Int,
    input: Part.Input,
    context: Context
  }),
  Schema.TaggedStruct("StepStarted", { at, step }),
  Schema.TaggedStruct("StepRetried", { at, step, attempt: Count, failure: Part.Failure }),
  Schema.TaggedStruct("AgentChanged", { at, step, event: agent.Event }),
  Schema.TaggedStruct("NestedChanged", { at, step, event: Schema.suspend(() => Event) }),
  Schema.TaggedStruct("StepFinished", { at, record: Part.Record }),
  Schema.TaggedStruct("StepFailed", { at, step, failure: Part.Failure }),
  Schema.TaggedStruct("StepPaused", { at, step, reason, request: Schema.optionalKey(Part.CallRequest) }),
  Schema.TaggedStruct("StepConcluded", { at, step, answer: Schema.String }),
  Schema.TaggedStruct("RouteTaken", { at, step, to: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("StepDecided", { at, step, approved: Schema.Boolean, reason }),
  Schema.TaggedStruct("PlanInterrupted", { at, reason }),
  Schema.TaggedStruct("PlanFinished", { at, outcome: Part.Outcome }),
  Schema.TaggedStruct("PlanResumed", {
    at,
    maxIterations: Schema.optionalKey(Schema.Int),
    context: Schema.optionalKey(Context)
  })
])

/**
 * The arm of one fact.
 *
 * @category codecs
 * @since 0.1.0
 */
export const one: VersionedCodec.AnyArm<PlanRunEvent> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), event: Event }),
  toCurrent: ({ event }) => Effect.succeed(event),
  fromCurrent: (event) => VersionedCodec.lossless({ version: 1 as const, event })
})

/**
 * The arm of a list of facts.
 *
 * @category codecs
 * @since 0.1.0
 */
export const list: VersionedCodec.AnyArm<ReadonlyArray<PlanRunEvent>> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), events: Schema.Array(Event) }),
  toCurrent: ({ events }) => Effect.succeed(events),
  fromCurrent: (events) => VersionedCodec.lossless({ version: 1 as const, events })
})
