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
 * | system message | `system`; `null` without one |
 * | text | `text` block |
 * | jpeg, png, gif or webp image | `image` |
 * | PDF or plain text, `fileName` | `document`, `title` |
 * | URL without a scheme | `image` or `document` with a file id |
 * | reasoning with option `anthropic.info` | `thinking` with its signature, `redacted_thinking` |
 * | tool call, result | `tool_use`, `tool_result`; `is_error` for failures |
 * | tool that Anthropic ran itself, option `anthropic.block` | the block of that type |
 * | options `anthropic.cacheControl`, `.citations`, `.documentContext` | `cache_control`, `citations`, `context` |
 *
 * The options are those of Effect's provider for Anthropic.
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
import type { ConversationError } from "../conversation/ConversationError.ts"
import type * as Message from "../conversation/Message.ts"
import type * as conversationCodec from "../conversation/internal/conversationCodec.ts"
import * as history from "../conversation/internal/history.ts"
import * as Json from "../payload/Json.ts"
import type { Limits } from "../payload/Limits.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import { defined, isObject, own } from "../payload/internal/plainJson.ts"
import * as plainJson from "../payload/internal/plainJson.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as RenderError from "./RenderError.ts"
import * as foreignMessages from "./internal/foreignMessages.ts"

/**
 * The part of a request that holds the conversation. `system` is `null` without a
 * system message, and absent where it was absent when it was read.
 *
 * @category models
 * @since 0.1.0
 */
interface History {
  readonly system?: Schema.Json
  readonly messages: ReadonlyArray<Json.JsonObject>
}

/**
 * Options of {@link fromConversation}.
 *
 * **Details**
 *
 * - `reasoning`: what becomes of reasoning without Anthropic's signature, and of
 *   reasoning with nothing after it, both of which Anthropic refuses. `"omit"`
 *   (default) leaves it out; `"refuse"` fails.
 * - `invalidArguments`: what becomes of tool arguments that are no object.
 *   `"refuse"` (default) fails; `"wrap"` sends `{ invalid_arguments }`, as
 *   `Conversation.toPrompt` does.
 * - `toolName`: maps tool names to those the provider knows; default the same.
 *
 * @category models
 * @since 0.1.0
 */
interface Options {
  readonly reasoning?: "omit" | "refuse" | undefined
  readonly invalidArguments?: "refuse" | "wrap" | undefined
  readonly toolName?: ((name: string) => string) | undefined
}

/**
 * Writes a conversation as `system` and `messages` of Anthropic's Messages API.
 *
 * **Details**
 *
 * The encoder never writes what Anthropic refuses and drops no content:
 * open calls, a first message that is not from the user, empty messages,
 * an empty system message, arguments that are not an object and content without a form
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
): Result.Result<History, RenderError.RenderError> => renderHistory(self, options ?? {})

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
export const toConversation: conversationCodec.Reader<
  unknown,
  foreignMessages.ReadOptions,
  PayloadError.PayloadError | ConversationError
> = foreignMessages.makeReader("anthropic", (input, limits) => receiveHistory(input, limits))

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
  (self) => Effect.fromResult(Result.map(fromConversation(self), (history): Schema.Json => ({ ...history })))
)

const OptionalText = Schema.optionalKey(Schema.NullOr(Schema.String))

const cacheFields = { cache_control: Schema.optionalKey(Schema.Json) }

const TextBlock = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String, ...cacheFields })

type TextBlock = typeof TextBlock.Type

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

const DocumentBlock = Schema.Struct({
  type: Schema.Literal("document"),
  source: Schema.Union([Base64Source, UrlSource, FileIdSource, PlainTextSource]),
  title: OptionalText,
  context: OptionalText,
  citations: Schema.optionalKey(Schema.Json),
  ...cacheFields
})

const ContentBlock = Schema.Union([TextBlock, ImageBlock, DocumentBlock])

type ContentBlock = typeof ContentBlock.Type

const ToolResultBlock = Schema.Struct({
  type: Schema.Literal("tool_result"),
  tool_use_id: Schema.String,
  content: Schema.optionalKey(Schema.Union([Schema.String, Schema.Array(ContentBlock)])),
  is_error: Schema.optionalKey(Schema.Boolean),
  ...cacheFields
})

type ToolResultBlock = typeof ToolResultBlock.Type

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

type UseBlock = typeof ToolUseBlock.Type | typeof ServerToolUseBlock.Type | typeof McpToolUseBlock.Type

/** Blocks that ask for a tool which the provider runs itself. */
const serverCallTypes: ReadonlyArray<string> = ["server_tool_use", "mcp_tool_use"]

/** Blocks that hold the result of such a tool. */
const serverResultTypes = [
  "web_search_tool_result",
  "web_fetch_tool_result",
  "code_execution_tool_result",
  "bash_code_execution_tool_result",
  "text_editor_code_execution_tool_result",
  "tool_search_tool_result",
  "mcp_tool_result"
] as const

const serverResultBlocks = serverResultTypes.map((type) =>
  Schema.Struct({
    type: Schema.Literal(type),
    tool_use_id: Schema.String,
    content: Schema.Json,
    is_error: Schema.optionalKey(Schema.Boolean),
    ...cacheFields
  })
)

type ServerResultBlock = (typeof serverResultBlocks)[number]["Type"]

const AssistantBlock = Schema.Union([
  TextBlock,
  ThinkingBlock,
  RedactedThinkingBlock,
  ToolUseBlock,
  ServerToolUseBlock,
  McpToolUseBlock,
  ...serverResultBlocks
])

type AssistantBlock = typeof AssistantBlock.Type

const SystemContent = Schema.Union([Schema.String, Schema.NonEmptyArray(TextBlock)])

const UserContent = Schema.Union([Schema.String, Schema.Array(ContentBlock)])

const AssistantContent = Schema.Union([Schema.String, Schema.Array(AssistantBlock)])

const UserBlock = Schema.Union([TextBlock, ImageBlock, DocumentBlock, ToolResultBlock])

type UserBlock = typeof UserBlock.Type

const WireMessage = Schema.Union([
  Schema.Struct({
    role: Schema.Literal("user"),
    content: Schema.Union([Schema.String, Schema.Array(UserBlock)])
  }),
  Schema.Struct({ role: Schema.Literal("assistant"), content: AssistantContent })
])

type WireMessage = typeof WireMessage.Type

const WireHistory = Schema.Struct({
  system: Schema.optionalKey(Schema.NullOr(SystemContent)),
  messages: Schema.Array(WireMessage)
})

type BlockOptions = Readonly<Record<string, Schema.Json | undefined>>

const blockOptions = (given: BlockOptions) => foreignMessages.providerOptions("anthropic", given)

const readCacheControl = (block: { readonly cache_control?: Schema.Json }): BlockOptions => ({
  cacheControl: block.cache_control ?? undefined
})

const readSystem = (given: typeof SystemContent.Type): foreignMessages.ForeignMessage => {
  if (typeof given === "string") return { role: "system", content: given }
  const text = given.map(({ text }) => text).join("\n\n")
  return {
    role: "system",
    content: text,
    ...(given.length === 1 ? blockOptions(readCacheControl(given[0])) : undefined)
  }
}

const readUser = (given: string | ReadonlyArray<ContentBlock>): foreignMessages.ForeignMessage => ({
  role: "user",
  content: readContent(given)
})

const readContent = (given: string | ReadonlyArray<ContentBlock>): ReadonlyArray<ToolResult.Content> =>
  typeof given === "string" ? [ToolResult.textPart(given)] : given.map(readBlock)

const readBlock = (block: ContentBlock): ToolResult.Content => {
  switch (block.type) {
    case "text":
      return readText(block)
    case "image":
      return {
        type: "file",
        ...readSource(block.source, "image/*", "image/*"),
        ...blockOptions(readCacheControl(block))
      }
    case "document":
      return {
        type: "file",
        ...readSource(block.source, "application/pdf", "application/octet-stream"),
        ...(typeof block.title === "string" ? { fileName: block.title } : undefined),
        ...blockOptions({
          ...readCacheControl(block),
          documentContext: block.context ?? undefined,
          citations: block.citations ?? undefined
        })
      }
  }
}

const readText = (block: TextBlock): ToolResult.TextPart => ({
  type: "text",
  text: block.text,
  ...blockOptions(readCacheControl(block))
})

type BlockSource = Exclude<ContentBlock, TextBlock>["source"]

const readSource = (
  given: BlockSource,
  linked: string,
  uploaded: string
): Pick<ToolResult.FilePart, "mediaType" | "data"> => {
  switch (given.type) {
    case "base64":
      return { mediaType: given.media_type, data: { type: "base64", base64: given.data } }
    case "text":
      return { mediaType: given.media_type, data: { type: "base64", base64: Base64.encode(given.data) } }
    case "url":
      return { mediaType: linked, data: { type: "url", url: given.url } }
    case "file":
      return { mediaType: uploaded, data: { type: "url", url: given.file_id } }
  }
}

const readToolResult = (block: ToolResultBlock): foreignMessages.ForeignMessage => ({
  role: "tool",
  callId: block.tool_use_id,
  content: readContent(block.content ?? ""),
  ...(block.is_error === true ? { isError: true } : undefined),
  ...blockOptions(readCacheControl(block))
})

const readAssistant = (given: string | ReadonlyArray<AssistantBlock>): foreignMessages.ForeignMessage => ({
  role: "assistant",
  content:
    typeof given === "string" ? (given === "" ? [] : [ToolResult.textPart(given)]) : given.map(readAssistantBlock)
})

const readAssistantBlock = (block: AssistantBlock): Message.AssistantPart => {
  switch (block.type) {
    case "text":
      return readText(block)
    case "thinking": {
      const info = block.signature === undefined ? undefined : { type: "thinking", signature: block.signature }
      return { type: "reasoning", text: block.thinking, ...blockOptions({ info }) }
    }
    case "redacted_thinking":
      return {
        type: "reasoning",
        text: "",
        ...blockOptions({ info: { type: "redacted_thinking", redactedData: block.data } })
      }
    case "tool_use":
      return readCall(block)
    case "server_tool_use":
    case "mcp_tool_use":
      return {
        ...readCall(block),
        providerExecuted: true,
        ...blockOptions({ ...readCacheControl(block), block: block.type })
      }
    default:
      return {
        type: "tool-result",
        id: block.tool_use_id,
        name: "",
        result: readServerResult(block),
        ...blockOptions({ ...readCacheControl(block), block: block.type })
      }
  }
}

const readCall = (block: UseBlock): Message.ToolCallPart => ({
  ...foreignMessages.toolCallFromArguments(block.id, block.name, block.input ?? {}),
  ...blockOptions(readCacheControl(block))
})

const readServerResult = ({ content, is_error: isError }: ServerResultBlock): ToolResult.ToolResult => {
  const code = isObject(content) ? content["error_code"] : undefined
  if (typeof code === "string") return ToolResult.failure(code, code, content)
  const success = ToolResult.success(content)
  return isError === true ? ToolResult.failure("execution_error", ToolResult.text(success), content) : success
}

/**
 * The content of a message as we write it by ourselves; of a result, its block.
 * Blank text is left out.
 */
const writeContent = (said: foreignMessages.ForeignMessage, form: foreignMessages.Form): Schema.Json => {
  switch (said.role) {
    case "system": {
      const block = writeText(said.content, said)
      return form === "blocks" || Object.hasOwn(block, "cache_control") ? [block] : said.content
    }
    case "user":
    case "assistant": {
      const parts: ReadonlyArray<Message.AssistantPart> = said.content
      const sent = parts.filter(isSent)
      return plainTextOf(form === "text", sent) ?? sent.map(writeAssistantBlock)
    }
    case "tool":
      return writeToolResult(said, form)
  }
}

const isSent = (part: Message.AssistantPart): boolean => part.type !== "text" || !isBlank(part.text)

const isBlank = (text: string): boolean => text.trim() === ""

/** The text alone, if there is no other content and a string is allowed. */
const plainTextOf = (allowed: boolean, parts: ReadonlyArray<Message.AssistantPart>): string | undefined => {
  const [first] = parts
  return allowed &&
    parts.length === 1 &&
    first?.type === "text" &&
    !Object.hasOwn(cacheControlOf(first), "cache_control")
    ? first.text
    : undefined
}

const cacheControlOf = (part: { readonly options?: Json.JsonObject }): Json.JsonObject => {
  const control = foreignMessages.readOptions("anthropic", part)?.["cacheControl"]
  return isObject(control) ? { cache_control: control } : {}
}

const writeText = (text: string, part: { readonly options?: Json.JsonObject }): Json.JsonObject => ({
  type: "text",
  text,
  ...cacheControlOf(part)
})

const writeBlock = (part: ToolResult.Content): Json.JsonObject =>
  part.type === "text" ? writeText(part.text, part) : writeFile(part)

const writeFile = (part: ToolResult.FilePart): Json.JsonObject => {
  if (part.mediaType.startsWith("image/")) return { type: "image", source: writeSource(part), ...cacheControlOf(part) }
  const { citations, documentContext } = foreignMessages.readOptions("anthropic", part) ?? {}
  return {
    type: "document",
    source: writeSource(part),
    ...(part.fileName === undefined ? undefined : { title: part.fileName }),
    ...(typeof documentContext === "string" ? { context: documentContext } : undefined),
    ...(isObject(citations) ? { citations } : undefined),
    ...cacheControlOf(part)
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
  if (data.type === "base64" ? data.base64 === "" : data.url === "") return "an empty file"
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

const writeToolResult = (
  said: Extract<foreignMessages.ForeignMessage, { role: "tool" }>,
  form: foreignMessages.Form
): Json.JsonObject => {
  const parts = said.content.filter(isSent)
  const content = plainTextOf(form !== "blocks", parts) ?? parts.map(writeBlock)
  return {
    type: "tool_result",
    tool_use_id: said.callId,
    ...(parts.length > 0 ? { content } : undefined),
    // A failed result needs content
    ...(said.isError === true
      ? { ...(parts.length > 0 ? undefined : { content: "execution_error" }), is_error: true }
      : undefined),
    ...cacheControlOf(said)
  }
}

const writeAssistantBlock = (part: Message.AssistantPart): Json.JsonObject => {
  switch (part.type) {
    case "reasoning":
      return thinkingBlockOf(part) ?? writeText(part.text, part)
    case "tool-call":
      return writeCall(part)
    case "tool-result":
      return writeServerResult(part)
    default:
      return writeBlock(part)
  }
}

/** Reasoning that Anthropic signed. */
const thinkingBlockOf = (part: Message.ReasoningPart): Json.JsonObject | undefined => {
  const info = foreignMessages.readOptions("anthropic", part)?.["info"]
  if (!isObject(info)) return undefined
  const { redactedData, signature, type } = info
  if (type === "thinking" && typeof signature === "string") return { type, thinking: part.text, signature }
  return type === "redacted_thinking" && typeof redactedData === "string" ? { type, data: redactedData } : undefined
}

const blockTypeOf = (
  part: Message.ToolCallPart | Message.ToolResultPart,
  types: ReadonlyArray<string>
): string | undefined => {
  const block = foreignMessages.readOptions("anthropic", part)?.["block"]
  return typeof block === "string" && types.includes(block) ? block : undefined
}

/** The type of the block for a tool that Anthropic ran itself, if it was Anthropic. */
const serverTypeOf = (part: Message.ToolCallPart | Message.ToolResultPart): string | undefined =>
  blockTypeOf(part, part.type === "tool-call" ? serverCallTypes : serverResultTypes)

const writeCall = (part: Message.ToolCallPart): Json.JsonObject => ({
  type: (part.providerExecuted === true ? serverTypeOf(part) : undefined) ?? "tool_use",
  id: part.id,
  name: part.name,
  input: part.arguments,
  ...cacheControlOf(part)
})

const writeServerResult = (part: Message.ToolResultPart): Json.JsonObject => {
  const type = serverTypeOf(part) ?? "tool_result"
  const isError = part.result._tag === "Failure" && type === "mcp_tool_result"
  return {
    type,
    tool_use_id: part.id,
    ...(isError ? { is_error: true } : undefined),
    content: part.result.value ?? null,
    ...cacheControlOf(part)
  }
}

/** Content as it was received, without what Anthropic refuses. */
const withoutRefused = (raw: Schema.Json, said: foreignMessages.ForeignMessage): Schema.Json => {
  if (said.role === "tool") return isObject(raw) ? withoutBlankResult(raw, said) : raw
  if (!Array.isArray(raw)) return raw
  return withoutBlankText(raw).map((block: Schema.Json) => {
    if (!isObject(block) || !isUseBlock(block) || isObject(own(block, "input"))) return block
    const part = said.role === "assistant" ? said.content.find((part) => isCallOf(part, block["id"])) : undefined
    return part?.type === "tool-call" ? { ...block, input: part.arguments } : block
  })
}

const isUseBlock = ({ type }: Json.JsonObject): boolean =>
  type === "tool_use" || (typeof type === "string" && serverCallTypes.includes(type))

const isCallOf = (part: { readonly type: string; readonly id?: string }, id: Schema.Json | undefined): boolean =>
  part.type === "tool-call" && part.id === id

const withoutBlankText = (blocks: ReadonlyArray<Schema.Json>): ReadonlyArray<Schema.Json> =>
  blocks.filter(
    (block) =>
      !isObject(block) || block["type"] !== "text" || typeof block["text"] !== "string" || !isBlank(block["text"])
  )

const withoutBlankResult = (raw: Json.JsonObject, said: foreignMessages.ForeignMessage): Json.JsonObject => {
  const content = own(raw, "content")
  const blocks = Array.isArray(content) ? withoutBlankText(content) : undefined
  const isEmpty = blocks === undefined ? typeof content === "string" && isBlank(content) : blocks.length === 0
  if (!isEmpty) return blocks === undefined ? raw : { ...raw, content: blocks }
  const canonical = writeContent(said, undefined)
  const replaced = isObject(canonical) ? own(canonical, "content") : undefined
  return Object.fromEntries(
    Object.entries(raw).flatMap(([key, value]) => {
      if (key !== "content") return [[key, value] as const]
      if (replaced !== undefined) return [[key, replaced] as const]
      return content === "" ? [[key, value] as const] : []
    })
  )
}

const noteOfRaw = (
  raw: Schema.Json,
  said: foreignMessages.ForeignMessage,
  form: foreignMessages.Form | undefined
): foreignMessages.Note => foreignMessages.noteOf(form, writeContent(said, form), withoutRefused(raw, said))

const makeReader = <T>(schema: Schema.Decoder<T>, read: (value: T) => foreignMessages.ForeignMessage) => {
  const decode = Schema.decodeUnknownOption(schema)
  return (raw: Schema.Json): Option.Option<foreignMessages.ForeignMessage> => Option.map(decode(raw), read)
}

const readers: {
  readonly [Role in foreignMessages.ForeignMessage["role"]]: (
    raw: Schema.Json
  ) => Option.Option<foreignMessages.ForeignMessage>
} = {
  system: makeReader(SystemContent, readSystem),
  user: makeReader(UserContent, readUser),
  assistant: makeReader(AssistantContent, readAssistant),
  tool: makeReader(ToolResultBlock, readToolResult)
}

const messageForm: foreignMessages.MessageForm = {
  write: writeContent,
  read: (json, role) => Option.getOrUndefined(readers[role](json)),
  withoutRefused
}

/** The content of one message of Anthropic's format: its results, each by itself, and the rest. */
const splitMessage = (
  index: number,
  message: WireMessage,
  raw: Json.JsonObject
): ReadonlyArray<foreignMessages.ReceivedMessage> => {
  const { content, role: _, ...members } = raw
  const [first, ...rest] = partsOfMessage(message, content ?? null)
  if (first === undefined) return []
  const note = Object.keys(members).length === 0 ? first.note : { ...first.note, members }
  return [{ ...first, note }, ...rest].map((one) => ({ index, ...one }))
}

type MessagePart = Omit<foreignMessages.ReceivedMessage, "index">

const partsOfMessage = (message: WireMessage, raw: Schema.Json): ReadonlyArray<MessagePart> => {
  if (message.role === "assistant") return [makePart(readAssistant(message.content), raw)]
  return typeof message.content === "string" || !Array.isArray(raw)
    ? [makePart(readUser(typeof message.content === "string" ? message.content : []), raw)]
    : partsOfUser(message.content, raw)
}

const makePart = (said: foreignMessages.ForeignMessage, raw: Schema.Json): MessagePart => ({
  said,
  note: noteOfRaw(raw, said, typeof raw === "string" ? "text" : undefined)
})

const partsOfUser = (
  blocks: ReadonlyArray<UserBlock>,
  raws: ReadonlyArray<Schema.Json>
): ReadonlyArray<MessagePart> => {
  const all: Array<MessagePart> = []
  let content: Array<Exclude<UserBlock, ToolResultBlock>> = []
  let rawContent: Array<Schema.Json> = []
  const flush = () => {
    if (content.length === 0) return
    const { note, said } = makePart(readUser(content), rawContent)
    all.push({ said, note: all.at(-1)?.said.role === "tool" ? { ...note, joined: true } : note })
    content = []
    rawContent = []
  }
  for (const [index, block] of blocks.entries()) {
    const raw = raws[index] ?? null
    if (block.type === "tool_result") {
      flush()
      const said = readToolResult(block)
      all.push({ said, note: noteOfRaw(raw, said, Array.isArray(block.content) ? "blocks" : undefined) })
    } else {
      content.push(block)
      rawContent.push(raw)
    }
  }
  flush()
  return all.length === 0 ? [makePart(readUser([]), raws)] : all
}

const formatName = "Anthropic messages"

const receiveHistory = Effect.fnUntraced(function* (input: unknown, limits: Partial<Limits> | undefined) {
  const json = yield* Json.checkObject(input, { what: formatName, limits })
  const unknown = Object.keys(json).filter((key) => key !== "system" && key !== "messages")
  if (unknown.length > 0) {
    const issues = unknown.map((key) => ({
      path: `/${key}`,
      expected: "no keys but system and messages",
      found: "a key"
    }))
    return yield* new PayloadError.PayloadError({ what: formatName, reason: PayloadError.invalid(issues) })
  }
  const raws: ReadonlyArray<Schema.Json> = Array.isArray(json["messages"]) ? json["messages"] : []
  yield* plainJson.checkCount("messages", raws.length, { what: formatName, path: "/messages", limits })
  yield* foreignMessages.checkRoles(raws, ["user", "assistant"])
  const { messages, system } = yield* Json.decode(WireHistory, {
    what: formatName,
    limits,
    onExcessProperty: "ignore"
  })(json)
  const all: ReadonlyArray<foreignMessages.ReceivedMessage> = [
    ...readInstructions(system, json["system"] ?? null),
    ...messages.flatMap((message, index) => {
      const raw = raws[index]
      return Json.isObject(raw) ? splitMessage(index, message, raw) : []
    })
  ]
  const [first, ...rest] = all
  return first === undefined || json["system"] !== undefined
    ? all
    : [{ ...first, note: { ...first.note, withoutSystem: true as const } }, ...rest]
})

const readInstructions = (
  system: typeof WireHistory.Type.system,
  raw: Schema.Json
): ReadonlyArray<foreignMessages.ReceivedMessage> => {
  if (system === undefined || system === null) return []
  const said = readSystem(system)
  return [{ index: 0, said, note: noteOfRaw(raw, said, typeof system === "string" ? undefined : "blocks") }]
}

const rules: foreignMessages.RenderRules = {
  isSent: (text) => !isBlank(text),
  unsupportedFile,
  supportedFiles: "text, a jpeg, png, gif or webp image, a PDF or plain text document, or the id of an uploaded file",
  keepsReasoning: (part) => thinkingBlockOf(part) !== undefined,
  supportedReasoning: "reasoning with Anthropic's signature, and content after it",
  keepsProviderTool: (part) =>
    serverTypeOf(part) !== undefined && (part.type === "tool-call" || part.result.value !== undefined),
  supportedTools: "tools that the application or Anthropic runs"
}

/** The content of a message, if Anthropic's format can hold it and Anthropic accepts it. */
const prepareMessage = (
  message: Message.Message,
  place: foreignMessages.MessagePlace,
  options: Options
): Result.Result<foreignMessages.ForeignMessage, RenderError.Reason> => {
  const { role } = message
  switch (role) {
    case "system":
      return foreignMessages.renderSystem(message, place, rules)
    case "user":
      return Result.flatMap(foreignMessages.renderContent(message.content, place, rules), (content) =>
        content.length === 0 ? foreignMessages.refuseEmpty(place, role) : Result.succeed({ role, content })
      )
    case "assistant":
      return Result.flatMap(foreignMessages.renderAnswer(message, place, rules, options), (content) => {
        // Anthropic refuses messages that end in thinking
        const length = content.findLastIndex((part) => part.type !== "reasoning") + 1
        return length < content.length && options.reasoning === "refuse"
          ? foreignMessages.refuseReasoning(place, rules)
          : Result.succeed({ role, content: content.slice(0, length) })
      })
    case "tool":
      return Result.map(foreignMessages.renderContent(ToolResult.content(message.result), place, rules), (content) =>
        prepareResult(message, content)
      )
  }
}

/** A failure without content is sent as its type. */
const prepareResult = (
  { callId, options, result }: Message.ToolMessage,
  content: ReadonlyArray<ToolResult.Content>
): foreignMessages.ForeignMessage => {
  const isError = result._tag === "Failure"
  const hasType = isError && content.length === 0 && !isBlank(result.type)
  return {
    role: "tool",
    callId,
    content: hasType ? [ToolResult.textPart(result.type)] : content,
    ...(isError ? { isError } : undefined),
    ...defined({ options })
  }
}

const renderHistory = (
  self: history.Conversation,
  options: Options
): Result.Result<History, RenderError.RenderError> => {
  const messages = history.toArray(history.asHistory(self))
  return Result.gen(function* () {
    yield* checkOrder(self, messages)
    const groups = yield* foreignMessages.renderGroups("anthropic", messages, (message, place) =>
      Result.map(prepareMessage(message, place, options), (said) =>
        foreignMessages.writeAsReceived(messageForm, said, foreignMessages.noteOfMessage("anthropic", message))
      )
    )
    let system: Schema.Json = null
    const written: Array<Json.JsonObject> = []
    /** Blocks of the results just written, while a user message can still join them. */
    let blocks: Array<Schema.Json> | undefined
    for (const { message: given, results } of groups) {
      if (given !== undefined) {
        const { message, written: content } = given
        if (message.role === "system") system = content
        else if (blocks !== undefined && isJoinedToResults(message) && Array.isArray(content)) blocks.push(...content)
        else written.push(wrapContent(message, message.role, content))
      }
      const [first] = results
      blocks = first === undefined ? undefined : results.map(({ written }) => written)
      if (first !== undefined && blocks !== undefined) written.push(wrapContent(first.message, "user", blocks))
    }
    return wrapMessages(messages[0], system, written)
  }).pipe(Result.mapError((reason) => new RenderError.RenderError({ format: "Anthropic", reason })))
}

const isJoinedToResults = (message: Message.Message): boolean =>
  message.role === "user" && foreignMessages.noteOfMessage("anthropic", message).joined === true

/** The message around content, with the unknown members it had when it was read. */
const wrapContent = (message: Message.Message, role: string, content: Schema.Json): Json.JsonObject => {
  const { content: _, role: __, ...members } = foreignMessages.noteOfMessage("anthropic", message).members ?? {}
  return { role, content, ...members }
}

/** The document around the messages. */
const wrapMessages = (
  first: Message.Message | undefined,
  system: Schema.Json,
  messages: ReadonlyArray<Json.JsonObject>
): History => {
  const withoutSystem = first !== undefined && foreignMessages.noteOfMessage("anthropic", first).withoutSystem === true
  return system === null && withoutSystem ? { messages } : { system, messages }
}

const checkOrder = (
  self: history.Conversation,
  messages: ReadonlyArray<Message.Message>
): Result.Result<void, RenderError.Reason> => {
  const index = messages.findIndex((message) => message.role !== "system")
  const first = messages[index]
  if (first !== undefined && first.role !== "user") {
    return Result.fail(RenderError.Reason.cases.AssistantFirst.make({ index, id: first.id }))
  }
  return Result.flatMap(foreignMessages.checkClosed(self, messages), () => checkProviderCalls(messages))
}

/** Only at the end, where Anthropic paused, may a tool that it runs be without a result. */
const checkProviderCalls = (messages: ReadonlyArray<Message.Message>): Result.Result<void, RenderError.Reason> => {
  const open = new Map<string, { readonly index: number; readonly message: Message.AssistantMessage }>()
  for (const [index, message] of messages.entries()) {
    if (message.role === "user" && open.size > 0) break
    if (message.role !== "assistant") continue
    for (const part of message.content) {
      if (part.type === "tool-call" && part.providerExecuted === true) open.set(part.id, { index, message })
      if (part.type === "tool-result") open.delete(part.id)
    }
  }
  const [first] = open.values()
  const isPaused = messages.findLastIndex(({ role }) => role === "user") < (first?.index ?? 0)
  return first === undefined || isPaused
    ? Result.succeed(undefined)
    : Result.fail(
        RenderError.Reason.cases.UnansweredCalls.make({
          index: first.index,
          id: first.message.id,
          callIds: [...open.keys()]
        })
      )
}
