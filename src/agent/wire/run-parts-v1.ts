/**
 * What version 1 of events and of states have in common. Frozen with its first release.
 *
 * @since 0.1.0
 */
import type * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import type { Report as ReportType } from "../../conversation/Budget.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import type * as Message from "../../conversation/Message.ts"
import type { TokenUsage } from "../../conversation/TokenUsage.ts"
import * as v1 from "../../conversation/wire/v1.ts"
import type { JsonObject } from "../../payload/Json.ts"
import type { ToolResult as ToolResultType } from "../../tool/ToolResult.ts"
import type { ApprovalRequest as ApprovalRequestType, Outcome as OutcomeType } from "../Outcome.ts"
import type {
  MaxSteps as MaxStepsType,
  OutputCheck as OutputCheckType,
  Purpose as PurposeType,
  StructuredSteps as StructuredStepsType
} from "../RunEvent.ts"

/**
 * ISO 8601 text.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Time: Schema.Codec<DateTime.Utc, string> = Schema.DateTimeUtcFromString

/**
 * An integer from 0.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Count: Schema.Codec<number> = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * @category schemas
 * @since 0.1.0
 */
export const Context: Schema.Codec<JsonObject> = Schema.Record(Schema.String, Schema.Json)

/**
 * @category schemas
 * @since 0.1.0
 */
export const MaxSteps: Schema.Codec<MaxStepsType> = Schema.Union([
  Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  Schema.Literal("unlimited")
])

/**
 * @category schemas
 * @since 0.1.0
 */
export const StructuredSteps: Schema.Codec<StructuredStepsType> = Schema.Literals(["never", "fallback", "always"])

/**
 * @category schemas
 * @since 0.1.0
 */
export const Purpose: Schema.Codec<PurposeType> = Schema.Literals(["answer", "structured"])

const Issue = Schema.Struct({
  path: Schema.String,
  pointer: Schema.String,
  keyword: Schema.String,
  message: Schema.String
})

/**
 * @category schemas
 * @since 0.1.0
 */
export const OutputCheck: Schema.Codec<OutputCheckType> = Schema.Union([
  Schema.TaggedStruct("Valid", { value: Schema.Json }),
  Schema.TaggedStruct("Invalid", { issues: Schema.Array(Issue) })
])

/**
 * A call that waits for a decision.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ApprovalRequest: Schema.Codec<ApprovalRequestType> = Schema.Struct({
  callId: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  path: Schema.optionalKey(Schema.Array(Schema.String))
})

/**
 * @category schemas
 * @since 0.1.0
 */
export const Outcome: Schema.Codec<OutcomeType> = Schema.Union([
  Schema.TaggedStruct("Completed", { output: Schema.optionalKey(Schema.Json) }),
  Schema.TaggedStruct("MaxSteps", {}),
  Schema.TaggedStruct("AwaitingApproval", { requests: Schema.NonEmptyArray(ApprovalRequest) }),
  Schema.TaggedStruct("Interrupted", { reason: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("InvalidOutput", { issues: Schema.Array(Issue) }),
  Schema.TaggedStruct("Stopped", { finishReason: Schema.Literals(["length", "content-filter", "error", "other"]) })
])

const [, User, Assistant, Tool] = v1.Message.members

/**
 * @category schemas
 * @since 0.1.0
 */
export const UserMessage: Schema.Codec<Message.UserMessage, unknown> = User

/**
 * @category schemas
 * @since 0.1.0
 */
export const AssistantMessage: Schema.Codec<Message.AssistantMessage, unknown> = Assistant

/**
 * @category schemas
 * @since 0.1.0
 */
export const ToolMessage: Schema.Codec<Message.ToolMessage, unknown> = Tool

/**
 * @category schemas
 * @since 0.1.0
 */
export const ToolResult: Schema.Codec<ToolResultType, unknown> = Tool.fields.result

/**
 * @category schemas
 * @since 0.1.0
 */
export const Usage: Schema.Codec<TokenUsage> = Schema.Struct({
  inputTokens: Schema.optionalKey(Count),
  outputTokens: Schema.optionalKey(Count),
  cacheReadTokens: Schema.optionalKey(Count),
  cacheWriteTokens: Schema.optionalKey(Count),
  reasoningTokens: Schema.optionalKey(Count)
})

/**
 * A conversation, in version 1 of its own wire.
 *
 * @category schemas
 * @since 0.1.0
 */
export const History: Schema.Codec<Conversation.Conversation, unknown> = v1.Conversation.pipe(
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
      ...(Conversation.hasStaleUsage(conversation) ? { staleUsage: true as const } : undefined),
      messages: Conversation.messages(conversation)
    }))
  })
)

const Tokens = Schema.Finite

/**
 * What was done to bring a conversation within its budget.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Report: Schema.Codec<ReportType> = Schema.Struct({
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
 *
 * @category schemas
 * @since 0.1.0
 */
export const data: ReadonlyArray<string> = [
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
