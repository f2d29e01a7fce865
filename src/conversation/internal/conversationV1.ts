/**
 * Version 1 of the JSON of conversations.
 */

import * as Schema from "effect/Schema"

const Options = Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))

const Count = Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))

const Usage = Schema.Struct({
  inputTokens: Count,
  outputTokens: Count,
  cacheReadTokens: Count,
  cacheWriteTokens: Count,
  reasoningTokens: Count
})

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, options: Options })

const File = Schema.Struct({
  type: Schema.Literal("file"),
  mediaType: Schema.String,
  fileName: Schema.optionalKey(Schema.String),
  data: Schema.Union([
    Schema.Struct({ type: Schema.Literal("base64"), base64: Schema.String }),
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })
  ]),
  options: Options
})

const Content = Schema.NonEmptyArray(Schema.Union([Text, File]))

const Result = Schema.Union([
  Schema.TaggedStruct("Success", { content: Content, value: Schema.Json }),
  Schema.TaggedStruct("Failure", {
    type: Schema.String,
    message: Schema.String,
    value: Schema.optionalKey(Schema.Json),
    content: Schema.optionalKey(Content)
  })
])

const Reasoning = Schema.Struct({ type: Schema.Literal("reasoning"), text: Schema.String, options: Options })

const ToolCall = Schema.Struct({
  type: Schema.Literal("tool-call"),
  id: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  text: Schema.optionalKey(Schema.String),
  providerExecuted: Schema.optionalKey(Schema.Literal(true)),
  options: Options
})

const ToolResult = Schema.Struct({
  type: Schema.Literal("tool-result"),
  id: Schema.String,
  name: Schema.String,
  result: Result,
  options: Options
})

const base = {
  id: Schema.String,
  createdAt: Schema.DateTimeUtcFromString,
  usage: Schema.optionalKey(Usage),
  options: Options,
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
}

/**
 * One message of version 1.
 */
export const MessageV1 = Schema.Union([
  Schema.Struct({ role: Schema.Literal("system"), ...base, content: Schema.String }),
  Schema.Struct({ role: Schema.Literal("user"), ...base, content: Content }),
  Schema.Struct({
    role: Schema.Literal("assistant"),
    ...base,
    content: Schema.Array(Schema.Union([Text, File, Reasoning, ToolCall, ToolResult])),
    model: Schema.optionalKey(Schema.String),
    finishReason: Schema.optionalKey(Schema.String)
  }),
  Schema.Struct({ role: Schema.Literal("tool"), ...base, callId: Schema.String, name: Schema.String, result: Result })
])

/**
 * A conversation of version 1.
 */
export const ConversationV1 = Schema.Struct({
  version: Schema.Literal(1),
  tokenLimit: Schema.optionalKey(Schema.Finite),
  /** Whether the newest usage was reported about a longer history than this. */
  staleUsage: Schema.optionalKey(Schema.Literal(true)),
  messages: Schema.Array(MessageV1)
})
