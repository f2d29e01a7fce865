/**
 * Parts of runs and of their wires, for agents and plans: times, counts, usage, histories, messages, limits, checked output.
 */

import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as Conversation from "../../conversation/Conversation.ts"
import type * as Message from "../../conversation/Message.ts"
import * as conversationV1 from "../../conversation/internal/conversationV1.ts"
import * as history from "../../conversation/internal/history.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import type * as ToolResults from "../../tool/ToolResult.ts"

/**
 * The finish reasons after which a run does not go on: calls of such an answer are
 * never run.
 */
export const stopReasons = ["length", "content-filter", "error", "other"] as const

/**
 * One of {@link stopReasons}.
 */
export type StopReason = (typeof stopReasons)[number]

/**
 * Whether an answer with this finish reason ends the run: anything but a normal
 * stop, a request for tools, a pause, or no reason at all.
 */
export const stopReasonOf = (finishReason: string | undefined): StopReason | undefined => {
  switch (finishReason) {
    case undefined:
    case "stop":
    case "tool-calls":
    case "pause":
    case "unknown":
      return undefined
    case "length":
    case "content-filter":
    case "error":
      return finishReason
    default:
      return "other"
  }
}

/**
 * How many model calls one user message may cost.
 */
export type MaxSteps = number | "unlimited"

/**
 * Schema of {@link MaxSteps}: an integer from 1, or `"unlimited"`.
 */
export const MaxSteps: Schema.Codec<MaxSteps> = Schema.Union([
  Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  Schema.Literal("unlimited")
])

/**
 * When a model call asks for structured output with `generateObject`: never, once
 * after an answer that was not valid, or in every step.
 */
export const StructuredSteps = Schema.Literals(["never", "fallback", "always"])

export type StructuredSteps = typeof StructuredSteps.Type

/**
 * What a model call is for: an answer, which may use tools, or the output alone.
 */
export const Purpose = Schema.Literals(["answer", "structured"])

export type Purpose = typeof Purpose.Type

/**
 * Whether an answer holds output that fits the agent's output schema.
 */
export const OutputCheck = Schema.TaggedUnion({
  Valid: { value: Schema.Json },
  Invalid: { issues: Schema.Array(PayloadError.ValidationIssue) }
})

export type OutputCheck = typeof OutputCheck.Type

/**
 * ISO 8601 text.
 */
export const Time: Schema.Codec<DateTime.Utc, string> = Schema.DateTimeUtcFromString

/**
 * An integer from 0.
 */
export const Count: Schema.Codec<number> = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

export const Context: Schema.Codec<JsonObject> = Schema.Record(Schema.String, Schema.Json)

export const MaxStepsWire: Schema.Codec<MaxSteps> = Schema.Union([
  Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  Schema.Literal("unlimited")
])

export const StructuredStepsWire: Schema.Codec<StructuredSteps> = Schema.Literals(["never", "fallback", "always"])

export const PurposeWire: Schema.Codec<Purpose> = Schema.Literals(["answer", "structured"])

export const Issue = Schema.Struct({
  path: Schema.String,
  pointer: Schema.String,
  keyword: Schema.String,
  message: Schema.String
})

export const OutputCheckWire: Schema.Codec<OutputCheck> = Schema.Union([
  Schema.TaggedStruct("Valid", { value: Schema.Json }),
  Schema.TaggedStruct("Invalid", { issues: Schema.Array(Issue) })
])

const [, User, Assistant, Tool] = conversationV1.MessageV1.members

export const UserMessage: Schema.Codec<Message.UserMessage, unknown> = User

export const AssistantMessage: Schema.Codec<Message.AssistantMessage, unknown> = Assistant

export const ToolMessage: Schema.Codec<Message.ToolMessage, unknown> = Tool

export const ToolResult: Schema.Codec<ToolResults.ToolResult, unknown> = Tool.fields.result

export const Usage: Schema.Codec<Message.TokenUsage> = Schema.Struct({
  inputTokens: Schema.optionalKey(Count),
  outputTokens: Schema.optionalKey(Count),
  cacheReadTokens: Schema.optionalKey(Count),
  cacheWriteTokens: Schema.optionalKey(Count),
  reasoningTokens: Schema.optionalKey(Count)
})

/**
 * A conversation, in version 1 of its own wire.
 */
export const History: Schema.Codec<history.Conversation, unknown> = conversationV1.ConversationV1.pipe(
  Schema.decodeTo(Schema.declare(Conversation.isConversation), {
    decode: SchemaGetter.transformEffect(({ messages, tokenLimit, staleUsage }, options) =>
      Effect.mapError(
        Effect.fromResult(Conversation.fromMessages(messages, { tokenLimit, staleUsage })),
        (error) => new SchemaIssue.InvalidValue({ message: error.message }, messages, options)
      )
    ),
    encode: SchemaGetter.transform((conversation) => ({
      version: 1 as const,
      ...Option.match(Conversation.tokenLimit(conversation), {
        onNone: () => undefined,
        onSome: (tokenLimit) => ({ tokenLimit })
      }),
      ...(history.hasStaleUsage(conversation) ? { staleUsage: true as const } : undefined),
      messages: Conversation.messages(conversation)
    }))
  })
)

const Tokens = Schema.Finite

/**
 * What was done to bring a conversation within its budget.
 */
export const Report: Schema.Codec<Conversation.ReductionReport> = Schema.Struct({
  before: Tokens,
  after: Tokens,
  removed: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      role: Schema.Literals(["system", "user", "assistant", "tool"]),
      tokens: Tokens
    })
  ),
  shortened: Schema.Array(
    Schema.Struct({ id: Schema.String, callId: Schema.String, name: Schema.String, before: Tokens, after: Tokens })
  ),
  summary: Schema.optionalKey(Schema.Struct({ id: Schema.String, tokens: Tokens }))
})

/**
 * Below these places stands what models, tools and users said: a key called
 * `password` there is data, not an option that holds a secret. The context of a run
 * and provider options are not among them.
 */
export const userData: ReadonlyArray<string> = [
  "/**/content/*/arguments",
  "/**/requests/*/arguments",
  "/**/result/value",
  "/**/output/value",
  "/**/outcome/output",
  "/**/facts/**/output",
  "/**/facts/**/payload",
  "/**/facts/**/request/arguments",
  "/**/message/metadata",
  "/**/messages/*/metadata"
]
