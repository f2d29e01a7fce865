/**
 * The values in the data of runs, each written once as the Schema of its newest wire. Events and states of agents and of plans are made of them.
 */

import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as conversationCodec from "../../conversation/internal/conversationCodec.ts"
import type * as history from "../../conversation/internal/history.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { toSchemaIssue } from "../../payload/internal/problems.ts"
import * as ToolContract from "../../tool/ToolContract.ts"

/**
 * The reasons to end a run without an answer. Calls of an answer with one of these finish reasons never run. `empty` is
 * no finish reason: the model returned an answer without anything, and another one when it was asked again.
 */
export const StopReason = Schema.Literals(["length", "content-filter", "error", "other", "empty"])

export type StopReason = typeof StopReason.Type

/**
 * The largest number of model calls for one user message: an integer from 1, or `"unlimited"`.
 */
export const MaxSteps = Schema.Union([Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)), Schema.Literal("unlimited")])

export type MaxSteps = typeof MaxSteps.Type

/**
 * When a model call asks for structured output with `generateObject`: never, once
 * after an invalid answer, or in every step.
 */
export const StructuredSteps = Schema.Literals(["never", "fallback", "always"])

export type StructuredSteps = typeof StructuredSteps.Type

/**
 * The purpose of a model call: an answer, which may use tools, or the output alone.
 */
export const Purpose = Schema.Literals(["answer", "structured"])

export type Purpose = typeof Purpose.Type

/**
 * The check of an answer against the agent's output schema.
 */
export const OutputCheck = Schema.Union([
  Schema.TaggedStruct("Valid", { value: Schema.Json }),
  Schema.TaggedStruct("Invalid", { issues: Schema.Array(PayloadError.Problem) })
])

export type OutputCheck = typeof OutputCheck.Type

/**
 * ISO 8601 text.
 */
export const Time: Schema.Codec<DateTime.Utc, string> = Schema.DateTimeUtcFromString

/**
 * An integer from 0.
 */
export const Count: Schema.Codec<number> = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const Context = Schema.Record(Schema.String, Schema.Json)

export const Usage = Message.TokenUsage

const checkMessages = (count: number) =>
  Effect.mapError(conversationCodec.checkCount(count), (error) => toSchemaIssue(error.problems, undefined))

/**
 * A conversation, in version 1 of its own wire, with at most `maxMessages`.
 */
export const History: Schema.Codec<history.Conversation, unknown> = conversationCodec.Wire.pipe(
  Schema.decodeTo(Schema.declare(Conversation.isConversation), {
    decode: SchemaGetter.transformEffect((wire, options) =>
      Effect.flatMap(checkMessages(wire.messages.length), () =>
        Effect.mapError(
          Effect.fromResult(conversationCodec.readWire(wire)),
          (error) => new SchemaIssue.InvalidValue({ message: error.message }, wire.messages, options)
        )
      )
    ),
    encode: SchemaGetter.transformEffect((conversation) =>
      Effect.map(checkMessages(Conversation.messageCount(conversation)), () =>
        conversationCodec.writeWire(conversation)
      )
    )
  })
)

/**
 * Values below these places were written by models, tools and users, or have names as keys: a key called
 * `password` there is data, not an option that holds a secret. The context of a run
 * and the provider options of messages are not among them.
 */
export const userData: ReadonlyArray<string> = [
  "/**/content/*/arguments",
  // Metadata of a provider
  "/**/content/*/options",
  "/**/requests/*/arguments",
  "/**/contract/parameters",
  "/**/contract/success",
  "/**/contract/failure",
  "/**/contracts/*/parameters",
  "/**/contracts/*/success",
  "/**/contracts/*/failure",
  "/**/event/arguments",
  "/**/events/*/arguments",
  "/**/status/arguments",
  "/**/status/approved/arguments",
  "/**/result/value",
  "/**/output/value",
  "/**/outcome/output",
  "/**/input/payload",
  "/**/plan/payload",
  "/**/record/output",
  "/**/history/*/output",
  "/**/request/arguments",
  "/**/message/metadata",
  "/**/message/response/metadata",
  "/**/messages/*/metadata",
  "/**/messages/*/response/metadata",
  "/**/view/*/metadata",
  "/**/view/*/response/metadata",
  "/**/instructions/metadata",
  // By the names of tools and steps
  "/**/basis/parts",
  "/**/change/parts",
  "/**/event/parts",
  "/**/events/*/parts"
]

export const ApprovalRequest = Schema.Struct({
  callId: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  digest: Schema.String,
  path: Schema.optionalKey(Schema.Array(Schema.String))
}).annotate({ identifier: "ApprovalRequest" })

export type ApprovalRequest = typeof ApprovalRequest.Type

/** The terms of a decision. `digest` is the digest of the request. */
export const terms = {
  digest: Schema.String,
  reason: Schema.optionalKey(Schema.String),
  decidedBy: Schema.optionalKey(Schema.String),
  expiresAt: Schema.optionalKey(Time)
}

/** A decision, without the name of what it is about. */
export const Verdict = Schema.Struct({ approved: Schema.Boolean, ...terms })

export type Verdict = typeof Verdict.Type

export const Decision = Schema.Struct({
  callId: Schema.String,
  digest: Schema.String,
  approved: Schema.Boolean,
  reason: Schema.optional(Schema.String),
  decidedBy: Schema.optional(Schema.String),
  expiresAt: Schema.optional(Time),
  path: Schema.optional(Schema.Array(Schema.String))
}).annotate({ identifier: "Decision" })

export interface Decision extends Schema.Schema.Type<typeof Decision> {}

export const Outcome = Schema.TaggedUnion({
  Completed: { output: Schema.optionalKey(Schema.Json) },
  MaxSteps: {},
  AwaitingApproval: { requests: Schema.NonEmptyArray(ApprovalRequest) },
  Interrupted: { reason: Schema.optionalKey(Schema.String) },
  InvalidOutput: { issues: Schema.Array(PayloadError.Problem) },
  Stopped: { finishReason: StopReason }
}).annotate({ identifier: "Outcome" })

export type Outcome = typeof Outcome.Type

const { approval, annotations, failure, name, parameters, success } = ToolContract.ToolContract.fields

/** The contract of a call as it was when the call was made: what is compared when the run is resumed under another definition. */
export const CallContract = Schema.Struct({
  name,
  parameters,
  success,
  failure,
  approval,
  annotations,
  digest: Schema.String
}).annotate({ identifier: "CallContract" })

export interface CallContract extends Schema.Schema.Type<typeof CallContract> {}

/** The parts of a definition by their places: short digests, and plain texts where they are short. For people. */
export const Parts = Schema.Record(Schema.String, Schema.String)

export type Parts = typeof Parts.Type

/**
 * The part of a state that a resume compares: the newest definition of the run, its parts, and the contracts that calls were made for. A state
 * from before these were recorded has none.
 */
export const Basis = Schema.Struct({
  definition: Schema.String,
  parts: Schema.optionalKey(Parts),
  contracts: Schema.Array(CallContract)
})

export interface Basis extends Schema.Schema.Type<typeof Basis> {}

/** The definition that a run continues with. */
export const DefinitionChange = Schema.Struct({
  definition: Schema.String,
  parts: Parts,
  structured: Schema.optionalKey(StructuredSteps),
  changes: Schema.Array(ToolContract.Change)
})

export interface DefinitionChange extends Schema.Schema.Type<typeof DefinitionChange> {}
