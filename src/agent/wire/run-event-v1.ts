/**
 * Version 1 of run events: one event, and a list of them. Frozen with its first
 * release.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"
import type { RunEvent } from "../RunEvent.ts"
import * as Part from "./run-parts-v1.ts"

const at = Part.Time

/**
 * One event without its version.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Event: Schema.Codec<RunEvent, unknown> = Schema.Union([
  Schema.TaggedStruct("RunStarted", {
    at,
    runId: Schema.String,
    agent: Schema.String,
    definition: Schema.String,
    depth: Part.Count,
    maxSteps: Part.MaxSteps,
    structured: Part.StructuredSteps,
    context: Part.Context,
    conversation: Part.History
  }),
  Schema.TaggedStruct("InputAdded", { at, message: Part.UserMessage, maxSteps: Part.MaxSteps }),
  Schema.TaggedStruct("ConversationFitted", { at, view: Part.History, report: Part.Report }),
  Schema.TaggedStruct("StepStarted", { at, step: Part.Count, purpose: Part.Purpose }),
  Schema.TaggedStruct("ModelAnswered", {
    at,
    message: Part.AssistantMessage,
    output: Schema.optionalKey(Part.OutputCheck),
    outputCall: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("ModelMistaken", {
    at,
    problem: Schema.String,
    usage: Schema.optionalKey(Part.Usage)
  }),
  Schema.TaggedStruct("ProgressSaved", {
    at,
    facts: Schema.Array(Schema.Json),
    requests: Schema.Array(Part.ApprovalRequest),
    limited: Schema.Boolean,
    usage: Schema.optionalKey(Part.Usage)
  }),
  Schema.TaggedStruct("ApprovalRequested", { at, callId: Schema.String }),
  Schema.TaggedStruct("ApprovalDecided", {
    at,
    callId: Schema.String,
    approved: Schema.Boolean,
    reason: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("ToolStarted", { at, callId: Schema.String }),
  Schema.TaggedStruct("ToolFinished", {
    at,
    message: Part.ToolMessage,
    durationMillis: Schema.optionalKey(Schema.Finite),
    cause: Schema.optionalKey(Schema.String)
  }),
  Schema.TaggedStruct("ChildEvent", {
    at,
    callId: Schema.String,
    event: Schema.suspend(() => Event)
  }),
  Schema.TaggedStruct("RunInterrupted", { at, reason: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("RunFinished", { at, outcome: Part.Outcome }),
  Schema.TaggedStruct("RunResumed", {
    at,
    maxSteps: Schema.optionalKey(Part.MaxSteps),
    context: Schema.optionalKey(Part.Context)
  })
])

/**
 * @category codecs
 * @since 0.1.0
 */
export const one: VersionedCodec.AnyArm<RunEvent> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), event: Event }),
  toCurrent: ({ event }) => Effect.succeed(event),
  fromCurrent: (event) => VersionedCodec.lossless({ version: 1 as const, event })
})

/**
 * @category codecs
 * @since 0.1.0
 */
export const list: VersionedCodec.AnyArm<ReadonlyArray<RunEvent>> = VersionedCodec.arm({
  version: 1,
  wire: Schema.Struct({ version: Schema.Literal(1), events: Schema.Array(Event) }),
  toCurrent: ({ events }) => Effect.succeed(events),
  fromCurrent: (events) => VersionedCodec.lossless({ version: 1 as const, events })
})
