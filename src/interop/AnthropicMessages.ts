/**
 * Conversations in the message format of Anthropic's Messages API.
 *
 * **When to use**
 *
 * To take in histories that other programs keep in this format, and to hand a
 * conversation to programs that expect it. To call a model, `effect/ai` is enough:
 * see `Conversation.toPrompt`.
 *
 * **Details**
 *
 * Reading checks the limits of `Limits`, the form of each block and every law of
 * conversations. The results of one message become one message each, and are
 * written together again: all results of one assistant message share one user
 * message. A user message after them stays a message of its own, unless it was part of
 * theirs when it was read. No other messages are merged: Anthropic takes several of
 * one role in a row.
 *
 * A lawful history that was read is written again as equal JSON: strings and lists
 * of blocks, the order of results, and unknown keys. Facts that a conversation has
 * no field for are kept in the metadata of the message, under
 * `"effect-emissary/anthropic"`, and are ignored once the message has changed.
 *
 * | here | in the format |
 * |---|---|
 * | system messages in front | `system`; `null` without one |
 * | later system message | role `system` |
 * | its option `anthropic.toolChanges`, as the AI SDK names it | `tool_addition`, `tool_removal` |
 * | text | `text` block |
 * | jpeg, png, gif or webp image | `image` |
 * | PDF or plain text, `fileName` | `document`, `title` |
 * | URL without a scheme | `image` or `document` with a file id; option `anthropic.fileId` |
 * | reasoning with option `anthropic.info` | `thinking` with its signature, `redacted_thinking` |
 * | tool call, result | `tool_use`, `tool_result`; `is_error` for failures |
 * | tool that Anthropic ran itself, option `anthropic.block` | the block of that type |
 * | file with option `anthropic.block`: `container_upload` | `container_upload` |
 * | options `anthropic.cacheControl`, `.citations`, `.documentContext` | `cache_control`, `citations`, `context` |
 *
 * The options are the options of Effect's provider for Anthropic.
 *
 * A `search_result`, a `tool_reference`, a `browser_state` and a `compaction` are read as their text, a `document` of blocks as plain text.
 * They are written as they were read. A block of a type that is newer than this version is kept in the option `anthropic.unknown`, is
 * written again as it was, and is `[<type> omitted]` for other providers. A key of a request such as `container` is refused by its name.
 * An answer behind calls that wait for their results is joined to the answer of the calls, as Anthropic does.
 *
 * **Gotchas**
 *
 * The format has no field for the type of a failure, for ids and times of messages,
 * for usage and models, nor for argument text: a failure reads back as
 * `execution_error` with the same text. A failed result without text is sent as its type.
 * Text of white space beside other content is left out, because Anthropic refuses
 * it.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Base64 from "effect/encoding/Base64"
import type * as Message from "../conversation/Message.ts"
import * as history from "../conversation/internal/history.ts"
import * as Json from "../payload/Json.ts"
import type { Limits } from "../payload/Limits.ts"
import type * as PayloadError from "../payload/PayloadError.ts"
import { checkObject } from "../payload/internal/copyJson.ts"
import { systemBehindQuestions } from "../payload/internal/messageOrder.ts"
import { defined, isArray, isObject } from "../payload/internal/values.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as RenderError from "./RenderError.ts"
import * as foreignMessages from "./internal/foreignMessages.ts"

export type { Reader } from "./internal/foreignMessages.ts"

/**
 * The part of a request that holds the conversation. `system` is `null` without a
 * system message, and absent where it was absent when it was read. Leave a `null` out
 * of the request.
 *
 * @category models
 * @since 0.1.0
 */
export interface History {
  readonly system?: Schema.Json
  readonly messages: ReadonlyArray<Json.JsonObject>
}

/**
 * Options of {@link fromConversation}.
 *
 * **Details**
 *
 * Anthropic refuses reasoning without its own signature, and reasoning with nothing after it: `reasoning` decides about both.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options extends Omit<foreignMessages.RenderOptions, "toolFiles"> {
  /**
   * The treatment of a later system message that is not behind a message of the user or results, or not before an answer or the
   * end: Anthropic refuses it there. `"refuse"` (default) fails; `"move"` moves it behind the next message of the user, and fails
   * where there is none.
   */
  readonly laterSystem?: "refuse" | "move" | undefined
}

/**
 * Writes a conversation as `system` and `messages` of Anthropic's Messages API.
 *
 * **Details**
 *
 * The encoder never writes what Anthropic refuses. It leaves out what `Conversation.toPrompt` leaves out:
 * answers without content, reasoning with nothing after it, calls of earlier turns that Anthropic never
 * answered, sources. Open calls, a first message that is not from the user, and content without a form
 * in the format are errors that name the message.
 *
 * **Example** (Results share one message)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { AnthropicMessages } from "effect-emissary/interop"
 * import { Conversation, Message, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.empty.pipe(
 *   Conversation.addUser("Compare"),
 *   Effect.flatMap(
 *     Conversation.addAssistant([
 *       Message.toolCallPart({ id: "a", name: "search", arguments: { q: "ruby" } }),
 *       Message.toolCallPart({ id: "b", name: "search", arguments: { q: "python" } })
 *     ])
 *   ),
 *   Effect.flatMap(Conversation.addToolResult({ callId: "a", result: ToolResult.success("red") })),
 *   Effect.flatMap(Conversation.addToolResult({ callId: "b", result: ToolResult.failure("not_found", "Nothing") }))
 * )
 *
 * const { messages } = Result.getOrThrow(AnthropicMessages.fromConversation(Effect.runSync(program)))
 * assert.deepStrictEqual(messages[2], {
 *   role: "user",
 *   content: [
 *     { type: "tool_result", tool_use_id: "a", content: "red" },
 *     { type: "tool_result", tool_use_id: "b", content: "Nothing", is_error: true }
 *   ]
 * })
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromConversation = (
  self: history.Conversation,
  options?: Options
): Result.Result<History, RenderError.RenderError> =>
  Result.mapError(
    writeHistory(self, options ?? {}),
    (reason) => new RenderError.RenderError({ format: "Anthropic", reason })
  )

/**
 * Reads a conversation from `system` and `messages` of Anthropic's Messages API.
 * Messages get new ids and the current time.
 *
 * **Details**
 *
 * Fails with `PayloadError` and the path where the JSON is over a limit or of
 * another form, with `ConversationError` and the index of the message where the
 * history breaks a law; with `onUnlawful: "repair"` it is repaired instead, and the result
 * holds the conversation and the `repairs`. A history may end in open calls: that is a run which was
 * stopped. Options: `limits` that differ from the current ones, and the `tokenLimit` of the conversation.
 *
 * **Example** (A history from elsewhere)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { AnthropicMessages } from "effect-emissary/interop"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const foreign = {
 *   messages: [
 *     { role: "user", content: "Weather?" },
 *     {
 *       role: "assistant",
 *       content: [
 *         { type: "thinking", thinking: "I should look.", signature: "c2ln" },
 *         { type: "tool_use", id: "t1", name: "weather", input: {} }
 *       ]
 *     },
 *     {
 *       role: "user",
 *       content: [
 *         { type: "tool_result", tool_use_id: "t1", is_error: true, content: "offline" },
 *         { type: "text", text: "Try again" }
 *       ]
 *     }
 *   ]
 * }
 *
 * const chat = Effect.runSync(AnthropicMessages.toConversation(foreign))
 * assert.strictEqual(Conversation.messageCount(chat), 4)
 * const again = Result.getOrThrow(AnthropicMessages.fromConversation(chat))
 * assert.deepStrictEqual(again, foreign)
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toConversation: foreignMessages.Reader = foreignMessages.makeReader("anthropic", (input, limits) =>
  receiveHistory(input, limits)
)

/**
 * Schema of a conversation whose encoded form are `system` and `messages` of
 * Anthropic's Messages API, to embed in other schemas. Decoding is
 * {@link toConversation}, encoding {@link fromConversation}, both with
 * their default options.
 *
 * **Example** (Encoding)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { AnthropicMessages } from "effect-emissary/interop"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.make({ system: "Be brief." }).pipe(
 *   Effect.flatMap(Conversation.addUser("Hello")),
 *   Effect.flatMap(Schema.encodeEffect(AnthropicMessages.AnthropicMessages))
 * )
 * assert.deepStrictEqual(Effect.runSync(program), {
 *   system: "Be brief.",
 *   messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }]
 * })
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const AnthropicMessages: Schema.Codec<history.Conversation, Schema.Json> = foreignMessages.formatCodec(
  "AnthropicMessages",
  toConversation,
  (self) => Result.map(fromConversation(self), (history): Schema.Json => ({ ...history }))
)

const OptionalText = Schema.optionalKey(Schema.NullOr(Schema.String))

const cacheFields = { cache_control: Schema.optionalKey(Schema.Json) }

const TextBlock = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, ...cacheFields })

const Base64Source = Schema.Struct({ type: Schema.Literal("base64"), media_type: Schema.String, data: Schema.String })

const UrlSource = Schema.Struct({ type: Schema.Literal("url"), url: Schema.String })

const FileIdSource = Schema.Struct({ type: Schema.Literal("file"), file_id: Schema.String })

const PlainTextSource = Schema.Struct({
  type: Schema.Literal("text"),
  media_type: Schema.Literal("text/plain"),
  data: Schema.String
})

const ImageBlock = Schema.Struct({
  type: Schema.Literal("image"),
  source: Schema.Union([Base64Source, UrlSource, FileIdSource]),
  ...cacheFields
})

const BlocksSource = Schema.Struct({
  type: Schema.Literal("content"),
  content: Schema.Union([Schema.String, Schema.Array(Schema.Union([TextBlock, ImageBlock]))])
})

const DocumentBlock = Schema.Struct({
  type: Schema.Literal("document"),
  source: Schema.Union([Base64Source, UrlSource, FileIdSource, PlainTextSource, BlocksSource]),
  title: OptionalText,
  context: OptionalText,
  citations: Schema.optionalKey(Schema.Json),
  ...cacheFields
})

const SearchResultBlock = Schema.Struct({
  type: Schema.Literal("search_result"),
  source: Schema.String,
  title: Schema.String,
  content: Schema.Array(TextBlock),
  ...cacheFields
})

/** A file in the container of code execution. */
const ContainerUploadBlock = Schema.Struct({
  type: Schema.Literal("container_upload"),
  file_id: Schema.String,
  ...cacheFields
})

const ToolReferenceBlock = Schema.Struct({
  type: Schema.Literal("tool_reference"),
  tool_name: Schema.String,
  ...cacheFields
})

const BrowserStateBlock = Schema.Struct({
  type: Schema.Literal("browser_state"),
  tabs: Schema.Array(Schema.Json),
  ...cacheFields
})

const CompactionBlock = Schema.Struct({ type: Schema.Literal("compaction"), content: Schema.String, ...cacheFields })

const { UnknownBlock } = foreignMessages

const sharedBlocks = [TextBlock, ImageBlock, DocumentBlock, SearchResultBlock, UnknownBlock] as const

const ContentBlock = Schema.Union([...sharedBlocks, ContainerUploadBlock])

const ResultBlock = Schema.Union([...sharedBlocks, ToolReferenceBlock, BrowserStateBlock])

type Block = typeof ContentBlock.Type | typeof ResultBlock.Type | typeof CompactionBlock.Type

const ToolResultBlock = Schema.Struct({
  type: Schema.Literal("tool_result"),
  tool_use_id: Schema.String,
  content: Schema.optionalKey(Schema.Union([Schema.Null, Schema.String, Schema.Array(ResultBlock)])),
  is_error: Schema.optionalKey(Schema.Boolean),
  ...cacheFields
})

const ThinkingBlock = Schema.Struct({
  type: Schema.Literal("thinking"),
  thinking: Schema.String,
  signature: Schema.optionalKey(Schema.String)
})

const RedactedThinkingBlock = Schema.Struct({ type: Schema.Literal("redacted_thinking"), data: Schema.String })

const useBlock = {
  id: Schema.String,
  name: Schema.String,
  input: Schema.optionalKey(Schema.Json),
  ...cacheFields
}

const ToolUseBlock = Schema.Struct({ type: Schema.Literal("tool_use"), ...useBlock })

const ServerToolUseBlock = Schema.Struct({ type: Schema.Literal("server_tool_use"), ...useBlock })

const McpToolUseBlock = Schema.Struct({ type: Schema.Literal("mcp_tool_use"), ...useBlock })

/** Blocks that ask for a tool which the provider runs itself. */
const serverCallTypes: ReadonlySet<string> = new Set(["server_tool_use", "mcp_tool_use"])

/** Blocks that hold the result of a tool which the provider runs itself. */
const serverResultTypes = [
  "web_search_tool_result",
  "web_fetch_tool_result",
  "code_execution_tool_result",
  "bash_code_execution_tool_result",
  "text_editor_code_execution_tool_result",
  "tool_search_tool_result",
  "mcp_tool_result"
] as const

/** The result of a tool which the provider runs itself, with the type of its block. */
const ServerResultBlock = Schema.Struct({
  type: Schema.Literal("server_tool_result"),
  is: Schema.String,
  tool_use_id: Schema.String,
  content: Schema.optionalKey(Schema.Json),
  is_error: Schema.optionalKey(Schema.Boolean),
  ...cacheFields
})

/** The types of all result blocks, also of blocks that are newer than this version. */
const serverResult = /^\w{1,100}_tool_result$/

const AssistantBlock = Schema.Union([
  TextBlock,
  CompactionBlock,
  ContainerUploadBlock,
  ThinkingBlock,
  RedactedThinkingBlock,
  ToolUseBlock,
  ServerToolUseBlock,
  McpToolUseBlock,
  ServerResultBlock,
  UnknownBlock
])

type AssistantBlock = typeof AssistantBlock.Type

const SystemContent = Schema.Union([Schema.String, Schema.NonEmptyArray(Schema.Union([TextBlock, UnknownBlock]))])

const toolChange = { tool: Schema.Struct({ type: Schema.Literal("tool_reference"), name: Schema.String }) }

const ToolAdditionBlock = Schema.Struct({ type: Schema.Literal("tool_addition"), ...toolChange })

const ToolRemovalBlock = Schema.Struct({ type: Schema.Literal("tool_removal"), ...toolChange })

const SystemBlock = Schema.Union([TextBlock, ToolAdditionBlock, ToolRemovalBlock, UnknownBlock])

const LaterSystemContent = Schema.Union([Schema.String, Schema.NonEmptyArray(SystemBlock)])

const UserContent = Schema.Union([Schema.String, Schema.Array(ContentBlock)])

const AssistantContent = Schema.Union([Schema.String, Schema.Array(AssistantBlock)])

const UserBlock = Schema.Union([...ContentBlock.members, ToolResultBlock])

type UserBlock = typeof UserBlock.Type

const WireMessage = Schema.Union([
  Schema.Struct({
    role: Schema.Literal("user"),
    content: Schema.Union([Schema.String, Schema.Array(UserBlock)])
  }),
  Schema.Struct({ role: Schema.Literal("assistant"), content: AssistantContent }),
  Schema.Struct({ role: Schema.Literal("system"), content: LaterSystemContent })
])

type WireMessage = typeof WireMessage.Type

const WireHistory = Schema.Struct({
  system: Schema.optionalKey(Schema.NullOr(SystemContent)),
  messages: Schema.Array(WireMessage)
})

/** The provider options of a part or message that was a block. */
const readOptions = (
  block: { readonly cache_control?: Schema.Json },
  more?: { readonly [key: string]: Schema.Json | undefined }
) => foreignMessages.providerOptions("anthropic", { cacheControl: block.cache_control ?? undefined, ...more })

const readSystem = (content: typeof LaterSystemContent.Type): foreignMessages.MessageBody => {
  if (typeof content === "string") return { role: "system", content }
  const texts = content.filter((block) => block.type === "text")
  const changes = content.flatMap((block) => ("tool" in block ? [{ type: block.type, toolName: block.tool.name }] : []))
  const [first = {}] = texts.length === 1 ? texts : []
  return {
    role: "system",
    content: foreignMessages.readInstructions(texts),
    ...readOptions(first, { toolChanges: changes.length === 0 ? undefined : changes })
  }
}

const readUser = (content: typeof UserContent.Type): foreignMessages.MessageBody => ({
  role: "user",
  content: foreignMessages.readContent(content, readBlock)
})

const readBlock = (block: Block): ToolResult.Content => {
  switch (block.type) {
    case "unknown":
      return foreignMessages.readUnknown("anthropic", block)
    case "text":
      return { type: "text", text: block.text, ...readOptions(block) }
    case "search_result": {
      const text = [block.title, block.source, ...block.content.map(({ text }) => text)].join("\n")
      return { type: "text", text, ...readOptions(block) }
    }
    case "tool_reference":
      return { type: "text", text: block.tool_name, ...readOptions(block) }
    case "browser_state":
      return { type: "text", text: `Tabs of the browser: ${JSON.stringify(block.tabs)}`, ...readOptions(block) }
    case "compaction":
      return { type: "text", text: block.content, ...readOptions(block) }
    case "container_upload":
      return {
        type: "file",
        mediaType: "application/octet-stream",
        data: { type: "url", url: block.file_id },
        ...readOptions(block, { block: block.type, fileId: true })
      }
    case "image":
      return {
        type: "file",
        ...readSource(block.source, "image/*", "image/*"),
        ...readOptions(block, { fileId: fileIdOf(block.source) })
      }
    case "document":
      return {
        type: "file",
        ...readSource(block.source, "application/pdf", "application/octet-stream"),
        ...defined({ fileName: block.title ?? undefined }),
        ...readOptions(block, {
          fileId: fileIdOf(block.source),
          documentContext: block.context ?? undefined,
          citations: block.citations ?? undefined
        })
      }
  }
}

type Source = typeof ImageBlock.Type.source | typeof DocumentBlock.Type.source

const fileIdOf = (source: Source): true | undefined => (source.type === "file" ? true : undefined)

const readSource = (
  source: Source,
  linked: string,
  uploaded: string
): Pick<ToolResult.FilePart, "mediaType" | "data"> => {
  switch (source.type) {
    case "base64":
      return { mediaType: source.media_type, data: { type: "base64", base64: source.data } }
    case "text":
      return { mediaType: source.media_type, data: { type: "base64", base64: Base64.encode(source.data) } }
    case "content": {
      const { content } = source
      const text = typeof content === "string" ? content : content.map(describeBlock).join("\n\n")
      return { mediaType: "text/plain", data: { type: "base64", base64: Base64.encode(text) } }
    }
    case "url":
      return { mediaType: linked, data: { type: "url", url: source.url } }
    case "file":
      return { mediaType: uploaded, data: { type: "url", url: source.file_id } }
  }
}

const describeBlock = (block: typeof TextBlock.Type | typeof ImageBlock.Type): string =>
  block.type === "text" ? block.text : "[image omitted]"

const readToolResult = (block: typeof ToolResultBlock.Type): foreignMessages.MessageBody => ({
  role: "tool",
  callId: block.tool_use_id,
  name: "",
  result: foreignMessages.readResult(foreignMessages.readContent(block.content ?? "", readBlock), block.is_error),
  ...readOptions(block)
})

const readAssistant = (content: typeof AssistantContent.Type): foreignMessages.MessageBody => ({
  role: "assistant",
  content:
    typeof content === "string"
      ? [ToolResult.textPart(content)].filter(({ text }) => text !== "")
      : content.map(readAssistantBlock).map((part, index) => setApart(content, index, part))
})

/** A compaction is no part of the answer beside it: readers that join texts find a blank line between them. */
const setApart = (
  content: ReadonlyArray<AssistantBlock>,
  index: number,
  part: Message.AssistantPart
): Message.AssistantPart => {
  if (content[index]?.type !== "compaction" || part.type !== "text") return part
  const before = index > 0 && content[index - 1]?.type !== "compaction" ? "\n\n" : ""
  return { ...part, text: `${before}${part.text}${index < content.length - 1 ? "\n\n" : ""}` }
}

const readAssistantBlock = (block: AssistantBlock): Message.AssistantPart => {
  switch (block.type) {
    case "text":
    case "compaction":
    case "container_upload":
    case "unknown":
      return readBlock(block)
    case "thinking": {
      const info = block.signature === undefined ? undefined : { type: "thinking", signature: block.signature }
      return { type: "reasoning", text: block.thinking, ...readOptions({}, { info }) }
    }
    case "redacted_thinking": {
      const info = { type: "redacted_thinking", redactedData: block.data }
      return { type: "reasoning", text: "", ...readOptions({}, { info }) }
    }
    case "tool_use":
      return { ...foreignMessages.readCall(block.id, block.name, block.input), ...readOptions(block) }
    case "server_tool_use":
    case "mcp_tool_use": {
      const call = foreignMessages.readCall(block.id, block.name, block.input)
      return { ...call, providerExecuted: true, ...readOptions(block, { block: block.type }) }
    }
    case "server_tool_result": {
      const result = readServerResult(block)
      return {
        type: "tool-result",
        id: block.tool_use_id,
        name: "",
        result,
        ...readOptions(block, { block: block.is })
      }
    }
  }
}

const readServerResult = ({
  content = null,
  is_error: isError
}: typeof ServerResultBlock.Type): ToolResult.ToolResult => {
  const code = isObject(content) ? content["error_code"] : undefined
  if (typeof code === "string") return ToolResult.failure(code, code, content)
  const success = ToolResult.success(content)
  return isError === true ? ToolResult.failure("execution_error", ToolResult.text(success), content) : success
}

/**
 * The content of a message as we write it by ourselves; of a result, its block.
 * Blank text is left out.
 */
const writeContent = (body: foreignMessages.MessageBody, form: foreignMessages.Form): Schema.Json => {
  switch (body.role) {
    case "system": {
      const cache = writeCache(body)
      const changes = writeToolChanges(body)
      const text = history.isBlank(body.content) ? [] : [{ type: "text", text: body.content, ...cache }]
      return form === "blocks" || "cache_control" in cache || changes.length > 0 ? [...text, ...changes] : body.content
    }
    case "user":
    case "assistant":
      return writeParts(form === "text", body.content)
    case "tool": {
      const content = writeParts(form !== "blocks", ToolResult.content(body.result))
      const failure = body.result._tag === "Failure" ? body.result : undefined
      return {
        type: "tool_result",
        tool_use_id: body.callId,
        ...(content.length > 0
          ? { content }
          : // A failed result needs content
            defined({ content: failure && (history.isBlank(failure.type) ? "execution_error" : failure.type) })),
        ...(failure && { is_error: true }),
        ...writeCache(body)
      }
    }
  }
}

const writeToolChanges = (message: { readonly options?: Json.JsonObject }): ReadonlyArray<Json.JsonObject> => {
  const { toolChanges } = optionsOf(message)
  return (isArray(toolChanges) ? toolChanges.filter(isObject) : []).map(({ toolName: name = null, type = null }) => ({
    type,
    tool: { type: "tool_reference", name }
  }))
}

/** Parts as blocks; as a string, if that is allowed and they are one text. */
const writeParts = (isTextAllowed: boolean, parts: ReadonlyArray<Message.AssistantPart>) => {
  const blocks = parts.flatMap((part) =>
    part.type === "source" || (part.type === "text" && history.isBlank(part.text)) ? [] : [writePart(part)]
  )
  const [first] = blocks
  const text = first?.["type"] === "text" && !("cache_control" in first) ? first["text"] : undefined
  return isTextAllowed && blocks.length === 1 && typeof text === "string" ? text : blocks
}

const optionsOf = (part: { readonly options?: Json.JsonObject }): Json.JsonObject =>
  foreignMessages.readOptions("anthropic", part)

const writeCache = (part: { readonly options?: Json.JsonObject }): Json.JsonObject => {
  const { cacheControl } = optionsOf(part)
  return isObject(cacheControl) ? { cache_control: cacheControl } : {}
}

type SentPart = Exclude<Message.AssistantPart, Message.SourcePart>

const writePart = (part: SentPart): Json.JsonObject => ({ ...writeBlock(part), ...writeCache(part) })

const writeBlock = (part: SentPart): Json.JsonObject => {
  switch (part.type) {
    case "text":
      return foreignMessages.writeUnknown("anthropic", part) ?? { type: "text", text: part.text }
    case "file":
      return writeFile(part)
    case "reasoning":
      return writeThinking(part) ?? { type: "text", text: part.text }
    case "tool-call": {
      const type = (part.providerExecuted === true ? serverTypeOf(part) : undefined) ?? "tool_use"
      return { type, id: part.id, name: part.name, input: part.arguments }
    }
    case "tool-result": {
      const type = serverTypeOf(part) ?? "tool_result"
      const isError = part.result._tag === "Failure" && type === "mcp_tool_result"
      const content = part.result.value ?? null
      return { type, tool_use_id: part.id, ...(isError ? { is_error: true } : undefined), content }
    }
  }
}

const isUpload = (
  part: ToolResult.FilePart
): part is ToolResult.FilePart & { readonly data: { readonly type: "url" } } =>
  part.data.type === "url" && optionsOf(part)["block"] === "container_upload"

const writeFile = (part: ToolResult.FilePart): Json.JsonObject => {
  if (isUpload(part)) return { type: "container_upload", file_id: part.data.url }
  const source = writeSource(part)
  if (part.mediaType.startsWith("image/")) return { type: "image", source }
  const { citations, documentContext } = optionsOf(part)
  return {
    type: "document",
    source,
    ...defined({
      title: part.fileName,
      context: typeof documentContext === "string" ? documentContext : undefined,
      citations: isObject(citations) ? citations : undefined
    })
  }
}

const writeSource = ({ data, mediaType }: ToolResult.FilePart): Json.JsonObject => {
  if (data.type === "url") {
    return foreignMessages.isFileId(data.url) ? { type: "file", file_id: data.url } : { type: "url", url: data.url }
  }
  return mediaType === "text/plain"
    ? { type: "text", media_type: mediaType, data: Result.getOrElse(Base64.decodeString(data.base64), () => "") }
    : { type: "base64", media_type: mediaType, data: data.base64 }
}

const imageTypes: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"])

/** Why Anthropic has no form for the file, if it has none. */
const unsupportedFile = ({ data, mediaType }: ToolResult.FilePart): string | undefined => {
  if (data.type === "url") {
    const isAllowed =
      foreignMessages.isFileId(data.url) || mediaType.startsWith("image/") || mediaType === "application/pdf"
    return isAllowed ? undefined : `a link to a file of type ${mediaType}`
  }
  const isAllowed =
    mediaType === "text/plain"
      ? Result.isSuccess(Base64.decodeString(data.base64))
      : mediaType === "application/pdf" || imageTypes.has(mediaType)
  return isAllowed ? undefined : `a file of type ${mediaType}`
}

/** The block of reasoning that Anthropic signed. */
const writeThinking = (part: Message.ReasoningPart): Json.JsonObject | undefined => {
  const { info } = optionsOf(part)
  if (!isObject(info)) return undefined
  const { redactedData, signature, type } = info
  if (type === "thinking" && typeof signature === "string") return { type, thinking: part.text, signature }
  return type === "redacted_thinking" && typeof redactedData === "string" ? { type, data: redactedData } : undefined
}

/** The type of the block for a tool that Anthropic ran itself, if it was Anthropic. */
const serverTypeOf = (part: Message.ToolCallPart | Message.ToolResultPart): string | undefined => {
  const { block } = optionsOf(part)
  if (typeof block !== "string") return undefined
  const isKnown = part.type === "tool-call" ? serverCallTypes.has(block) : serverResult.test(block)
  return isKnown ? block : undefined
}

const withoutRefused = (json: Schema.Json, written: Schema.Json): Schema.Json => {
  if (isObject(json)) return isObject(written) ? withoutBlankResult(json, written) : json
  if (!isArray(json)) return json
  return json.filter(isSentBlock).map((block, index) => {
    const own = isArray(written) ? written[index] : undefined
    return isObject(block) && isObject(own) && own["input"] !== undefined && !isObject(block["input"])
      ? { ...block, input: own["input"] }
      : block
  })
}

const isSentBlock = (block: Schema.Json): boolean =>
  !isObject(block) || block["type"] !== "text" || typeof block["text"] !== "string" || !history.isBlank(block["text"])

const withoutBlankResult = (
  { content, ...block }: Json.JsonObject,
  { content: written }: Json.JsonObject
): Json.JsonObject => {
  const sent = isArray(content) ? content.filter(isSentBlock) : content
  const isEmpty =
    sent === undefined ||
    sent === null ||
    (isArray(sent) ? sent.length === 0 : typeof sent === "string" && history.isBlank(sent))
  // Absent, empty and null are the same
  const none = content === "" || content === null ? content : undefined
  return { ...block, ...defined({ content: isEmpty ? (written ?? none) : sent }) }
}

const makeReader = <T>(
  schema: Schema.Decoder<T>,
  mark: (json: Schema.Json) => Schema.Json,
  read: (value: T) => foreignMessages.MessageBody
) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (json: Schema.Json) => Option.getOrUndefined(Option.map(decode(mark(json)), read))
}

/** Not an image or document of a kind that is newer than this version. */
const isKnownSource = ({ source = null, type }: Json.JsonObject): boolean => {
  const kinds = type === "image" ? ["base64", "url", "file"] : ["base64", "url", "file", "text", "content"]
  return (type !== "image" && type !== "document") || kinds.includes(foreignMessages.typeOf(source) ?? "url")
}

const blockTypes = {
  system: foreignMessages.typesOf(SystemBlock.members),
  user: foreignMessages.typesOf(UserBlock.members),
  assistant: [...foreignMessages.typesOf(AssistantBlock.members), ...serverResultTypes],
  result: foreignMessages.typesOf(ResultBlock.members)
}

/** Calls and results of the application: as data they would leave others without their call or result. */
const exchangeTypes = ["tool_use", "tool_result"]

/** The ids of the calls that a provider ran, and of blocks that are newer than this version. */
interface CallIds {
  readonly known: Set<Schema.Json | undefined>
  readonly newer: Set<Schema.Json | undefined>
}

/** The content of a message or result with blocks that are newer than this version as data. */
const markContent = (
  content: Schema.Json,
  role: keyof typeof blockTypes,
  { known, newer }: CallIds = { known: new Set(), newer: new Set() }
): Schema.Json => {
  if (!isArray(content)) return content
  const types = new Set<string>([...blockTypes[role], ...exchangeTypes])
  const all = content.map((block) => ({ block, type: foreignMessages.typeOf(block) }))
  for (const { block, type } of all) {
    if (!isObject(block) || type === undefined || types.has(type) || serverCallTypes.has(type)) continue
    if (block["id"] !== undefined) newer.add(block["id"])
  }
  return all.map(({ block, type }) => {
    if (!isObject(block) || type === undefined) return block
    if (type === "tool_result") return markIn(block, "result")
    if (serverCallTypes.has(type)) known.add(block["id"])
    const isResult = role === "assistant" && serverResult.test(type)
    const isForCall = types.has(type) ? !newer.has(block["tool_use_id"]) : known.has(block["tool_use_id"])
    if (isResult && isForCall) return { ...block, type: "server_tool_result", is: type }
    return !isResult && types.has(type) && isKnownSource(block) ? block : { type: "unknown", block }
  })
}

/** A message or result with its content marked. */
const markIn = (json: Schema.Json, role: keyof typeof blockTypes, calls?: CallIds): Schema.Json =>
  isObject(json) && json["content"] !== undefined
    ? { ...json, content: markContent(json["content"], role, calls) }
    : json

const readers = {
  system: makeReader(LaterSystemContent, (json) => markContent(json, "system"), readSystem),
  user: makeReader(UserContent, (json) => markContent(json, "user"), readUser),
  assistant: makeReader(AssistantContent, (json) => markContent(json, "assistant"), readAssistant),
  tool: makeReader(ToolResultBlock, (json) => markIn(json, "result"), readToolResult)
}

const format: foreignMessages.Format = {
  key: "anthropic",
  read: (json, role) => readers[role](json),
  write: writeContent,
  formOf: (json, role) => {
    if (role === "system") return isArray(json) ? "blocks" : undefined
    if (role === "tool") return isObject(json) && isArray(json["content"]) ? "blocks" : undefined
    return typeof json === "string" ? "text" : undefined
  },
  withoutRefused,
  isSent: (text) => !history.isBlank(text),
  keepsSystem: (message) => writeToolChanges(message).length > 0,
  unsupportedFile,
  supportedFiles: "text, a jpeg, png, gif or webp image, a PDF or plain text document, or the id of an uploaded file",
  keepsFile: isUpload,
  hasResultFiles: true,
  keepsReasoning: (part) => writeThinking(part) !== undefined,
  supportedReasoning: "reasoning with Anthropic's signature, and content after it",
  keepsProviderTool: (part) =>
    serverTypeOf(part) !== undefined && (part.type === "tool-call" || part.result.value !== undefined),
  supportedTools: "tools that the application or Anthropic runs"
}

/** The messages of one message of the format: its results, each by itself, and the content between them. */
const readMessage = (
  message: WireMessage,
  json: Schema.Json,
  index: number
): ReadonlyArray<foreignMessages.ForeignMessage> => {
  if (!isObject(json)) return []
  const { content = null, role: _, ...members } = json
  const all =
    message.role === "assistant"
      ? [[readAssistant(message.content), content] as const]
      : message.role === "system"
        ? [[readSystem(message.content), content] as const]
        : splitUser(message.content, content)
  return all.map(([body, part], position) => {
    const one = foreignMessages.readMessage(format, body, part, index)
    const joined = position > 0 && one.body.role === "user" ? (true as const) : undefined
    const unknown = position === 0 && Object.keys(members).length > 0 ? members : undefined
    return { ...one, note: { ...one.note, ...defined({ joined, members: unknown }) } }
  })
}

/** The results, each by itself, and the content between them, with the JSON of each. */
const splitUser = (
  content: string | ReadonlyArray<UserBlock>,
  json: Schema.Json
): ReadonlyArray<readonly [foreignMessages.MessageBody, Schema.Json]> => {
  if (typeof content === "string") return [[readUser(content), json]]
  const parts = isArray(json) ? json : []
  const all: Array<readonly [foreignMessages.MessageBody, Schema.Json]> = []
  let start = 0
  const addUser = (end: number): void => {
    const blocks = content.slice(start, end).filter((block) => block.type !== "tool_result")
    if (blocks.length > 0) all.push([readUser(blocks), parts.slice(start, end)])
    start = end + 1
  }
  for (const [index, block] of content.entries()) {
    if (block.type !== "tool_result") continue
    addUser(index)
    all.push([readToolResult(block), parts[index] ?? null])
  }
  addUser(content.length)
  return all.length === 0 ? [[readUser([]), json]] : all
}

const roleOf = (message: Schema.Json): "user" | "assistant" | "system" => {
  const { role } = isObject(message) ? message : {}
  return role === "assistant" || role === "system" ? role : "user"
}

/** Blocks of calls and results in messages of another role. */
const misplacedBlocks = (message: Schema.Json, path: string): ReadonlyArray<PayloadError.Problem> => {
  const { content } = isObject(message) ? message : {}
  const isExchange = (block: Schema.Json) => exchangeTypes.includes(foreignMessages.typeOf(block) ?? "")
  const blocks = isArray(content) ? content.map((block) => (isExchange(block) ? block : null)) : []
  return foreignMessages.foreignBlocks(blocks, blockTypes[roleOf(message)], path)
}

type Received = foreignMessages.Received<WireMessage>

/** Two answers as one, if the first one has calls. */
const joinAnswer = (open: Received, next: Received): Received | undefined => {
  const [answer, other] = [open.message, next.message]
  if (answer.role !== "assistant" || other.role !== "assistant" || !isObject(open.json) || !isObject(next.json)) return
  const content = foreignMessages.asBlocks(answer.content)
  if (!content.some(({ type }) => type === "tool_use")) return
  const contentOf = ({ content = "" }: Json.JsonObject) =>
    foreignMessages.asBlocks(isArray(content) || typeof content === "string" ? content : [])
  return {
    message: { role: "assistant", content: [...content, ...foreignMessages.asBlocks(other.content)] },
    json: { ...open.json, ...next.json, content: [...contentOf(open.json), ...contentOf(next.json)] },
    index: open.index
  }
}

const receiveHistory = Effect.fnUntraced(function* (input: unknown, limits: Partial<Limits> | undefined) {
  const options = { what: "Anthropic messages", limits, onExcessProperty: "ignore" } as const
  const json = yield* checkObject(input, options)
  const { messages, system, ...unknown } = json
  const keys = Object.keys(unknown).map((key) => ({
    path: `/${key}`,
    expected: "no keys but system and messages",
    found: "a key"
  }))
  const items = messages !== undefined && isArray(messages) ? messages : []
  if (keys.length === 0) {
    yield* foreignMessages.checkMessages(items, ["user", "assistant", "system"], { ...options, path: "/messages" })
  }
  const issues = [...keys, ...items.flatMap((item, index) => misplacedBlocks(item, `/messages/${index}/content`))]
  yield* foreignMessages.refuse(issues, options)
  const calls: CallIds = { known: new Set(), newer: new Set() }
  const marked = defined({
    system: system === undefined ? undefined : markContent(system, "system"),
    messages: isArray(messages ?? null) ? items.map((item) => markIn(item, roleOf(item), calls)) : undefined
  })
  const wire = yield* Json.decode(WireHistory, options)({ ...json, ...marked })
  const received = foreignMessages.joinAnswers(wire.messages, items, joinAnswer)
  const [first, ...rest] = [
    ...(wire.system === undefined || wire.system === null
      ? []
      : [foreignMessages.readMessage(format, readSystem(wire.system), system, 0)]),
    ...received.flatMap(({ index, json, message }) => readMessage(message, json, index))
  ]
  if (first === undefined) return []
  return [system === undefined ? { ...first, note: { ...first.note, withoutSystem: true as const } } : first, ...rest]
})

const writeHistory = (self: history.Conversation, options: Options): Result.Result<History, RenderError.Reason> =>
  Result.gen(function* () {
    yield* checkFirst(history.messages(self))
    const written = yield* foreignMessages.writeMessages(format, self, options)
    const inFront = history.systemInFront(written.map(({ message }) => message)).length
    const system = joinSystem(written.slice(0, inFront).map(({ json }) => json))
    const messages: Array<Json.JsonObject> = []
    /** Blocks of the results just written, while a user message can still join them. */
    let blocks: Array<Schema.Json> | undefined
    for (const { json, message } of yield* placeSystem(self, written.slice(inFront), options)) {
      const note = foreignMessages.noteOf("anthropic", message)
      const { joined, members: { content: _, role: __, ...members } = {} } = note
      const isResult = message.role === "tool"
      const isJoined = message.role === "user" && joined === true && isArray(json)
      if (blocks !== undefined && isResult) blocks.push(json)
      else if (blocks !== undefined && isJoined) blocks.push(...json)
      else {
        blocks = isResult ? [json] : undefined
        messages.push({
          role: message.role === "tool" ? "user" : message.role,
          content: blocks ?? json,
          ...history.mend(members)
        })
      }
      if (!isResult) blocks = undefined
    }
    const [first] = written
    const { withoutSystem } = first === undefined ? {} : foreignMessages.noteOf("anthropic", first.message)
    return withoutSystem === true && system === null ? { messages } : { system, messages }
  })

/** The system messages in front as one. */
const joinSystem = ([first = null, ...rest]: ReadonlyArray<Schema.Json>): Schema.Json =>
  rest.length === 0
    ? first
    : [first, ...rest].flatMap((json) => (typeof json === "string" ? [{ type: "text", text: json }] : json))

/** The messages with each system message at a place where Anthropic takes it. */
const placeSystem = (
  self: history.Conversation,
  written: ReadonlyArray<foreignMessages.WrittenMessage>,
  { laterSystem }: Options
): Result.Result<ReadonlyArray<foreignMessages.WrittenMessage>, RenderError.Reason> => {
  const messages = written.map((one) => ({ ...one, role: one.message.role }))
  const { left, placed } = systemBehindQuestions(messages)
  const moved = messages.find((one, index) => one.role === "system" && one !== placed[index])
  const [refused] = laterSystem === "move" ? left : [moved]
  if (refused === undefined) return Result.succeed(placed)
  const { id } = refused.message
  const index = history.messages(self).findIndex((message) => message.id === id)
  return Result.fail({ _tag: "MisplacedSystem", index, id })
}

/** Fails if an assistant message is first. */
const checkFirst = (messages: ReadonlyArray<Message.Message>): Result.Result<void, RenderError.Reason> => {
  const index = messages.findIndex(({ role }) => role !== "system")
  const first = messages[index]
  return first?.role === "assistant" ? Result.fail({ _tag: "AssistantFirst", index, id: first.id }) : Result.void
}
