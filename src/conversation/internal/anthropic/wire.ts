import * as Schema from "effect/Schema"

// Keys that are not declared are kept as they are, see ../foreign.ts

const optionalText = Schema.optionalKey(Schema.NullOr(Schema.String))

const cached = { cache_control: Schema.optionalKey(Schema.Json) }

const Text = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, ...cached })

export type Text = typeof Text.Type

const Base64 = Schema.Struct({ type: Schema.Literal("base64"), media_type: Schema.String, data: Schema.String })

const Url = Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })

const FileId = Schema.Struct({ type: Schema.Literal("file"), file_id: Schema.String })

const PlainText = Schema.Struct({
  type: Schema.Literal("text"),
  media_type: Schema.Literal("text/plain"),
  data: Schema.String
})

const Image = Schema.Struct({ type: Schema.Literal("image"), source: Schema.Union([Base64, Url, FileId]), ...cached })

const Document = Schema.Struct({
  type: Schema.Literal("document"),
  source: Schema.Union([Base64, Url, FileId, PlainText]),
  title: optionalText,
  context: optionalText,
  citations: Schema.optionalKey(Schema.Json),
  ...cached
})

const Content = Schema.Union([Text, Image, Document])

export type Content = typeof Content.Type

export const ToolResult = Schema.Struct({
  type: Schema.Literal("tool_result"),
  tool_use_id: Schema.String,
  content: Schema.optionalKey(Schema.Union([Schema.String, Schema.Array(Content)])),
  is_error: Schema.optionalKey(Schema.Boolean),
  ...cached
})

export type ToolResult = typeof ToolResult.Type

const Thinking = Schema.Struct({
  type: Schema.Literal("thinking"),
  thinking: Schema.String,
  signature: Schema.optionalKey(Schema.String)
})

const RedactedThinking = Schema.Struct({ type: Schema.Literal("redacted_thinking"), data: Schema.String })

const use = {
  id: Schema.String,
  name: Schema.String,
  input: Schema.optionalKey(Schema.Json),
  ...cached
}

const ToolUse = Schema.Struct({ type: Schema.Literal("tool_use"), ...use })

const ServerToolUse = Schema.Struct({ type: Schema.Literal("server_tool_use"), ...use })

const McpToolUse = Schema.Struct({ type: Schema.Literal("mcp_tool_use"), ...use })

export type Use = typeof ToolUse.Type | typeof ServerToolUse.Type | typeof McpToolUse.Type

/** Blocks that ask for a tool which the provider runs itself. */
export const serverCalls: ReadonlyArray<string> = ["server_tool_use", "mcp_tool_use"]

const serverResult = <const Type extends string>(type: Type) =>
  Schema.Struct({
    type: Schema.Literal(type),
    tool_use_id: Schema.String,
    content: Schema.Json,
    is_error: Schema.optionalKey(Schema.Boolean),
    ...cached
  })

const ServerResults = [
  serverResult("web_search_tool_result"),
  serverResult("web_fetch_tool_result"),
  serverResult("code_execution_tool_result"),
  serverResult("bash_code_execution_tool_result"),
  serverResult("text_editor_code_execution_tool_result"),
  serverResult("tool_search_tool_result"),
  serverResult("mcp_tool_result")
] as const

export type ServerResult = (typeof ServerResults)[number]["Type"]

/** Blocks that hold the result of such a tool. */
export const serverResults: ReadonlyArray<string> = [
  "web_search_tool_result",
  "web_fetch_tool_result",
  "code_execution_tool_result",
  "bash_code_execution_tool_result",
  "text_editor_code_execution_tool_result",
  "tool_search_tool_result",
  "mcp_tool_result"
] satisfies ReadonlyArray<ServerResult["type"]>

const AssistantBlock = Schema.Union([
  Text,
  Thinking,
  RedactedThinking,
  ToolUse,
  ServerToolUse,
  McpToolUse,
  ...ServerResults
])

export type AssistantBlock = typeof AssistantBlock.Type

export const System = Schema.Union([Schema.String, Schema.NonEmptyArray(Text)])

export const UserContent = Schema.Union([Schema.String, Schema.Array(Content)])

export const AssistantContent = Schema.Union([Schema.String, Schema.Array(AssistantBlock)])

const UserBlock = Schema.Union([Text, Image, Document, ToolResult])

export type UserBlock = typeof UserBlock.Type

export const Message = Schema.Union([
  Schema.Struct({
    role: Schema.Literal("user"),
    content: Schema.Union([Schema.String, Schema.Array(UserBlock)])
  }),
  Schema.Struct({ role: Schema.Literal("assistant"), content: AssistantContent })
])

export type Message = typeof Message.Type

export const History = Schema.Struct({
  system: Schema.optionalKey(Schema.NullOr(System)),
  messages: Schema.Array(Message)
})
