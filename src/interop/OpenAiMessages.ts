/**
 * Conversations in the message format of OpenAI's Chat Completions, which many
 * other servers speak too.
 *
 * **When to use**
 *
 * To take in histories that other programs keep in this format, and to hand a
 * conversation to programs that expect it. To call a model, `effect/ai` is enough:
 * see `Conversation.toPrompt`.
 *
 * **Details**
 *
 * Reading checks the limits of `Limits`, the form of each message and every law of
 * conversations. Both shapes of tool calls are read, OpenAI's own and the flat
 * `{ id, name, arguments }`, with arguments as text or as an object.
 *
 * A lawful history that was read is written again as equal JSON: argument text, the
 * order of results, and unknown keys. Facts that a conversation has no field for are
 * kept in the metadata of the message, under `"effect-emissary/openai"`, and are
 * ignored once the message has changed.
 *
 * | here | in the format |
 * |---|---|
 * | system message | role `system`; role `developer` is read too |
 * | text of a user or a tool | a string; several parts are a list of parts |
 * | text of an assistant | one string; `null` beside tool calls only |
 * | image | `image_url`, `detail` in the option `openai.imageDetail` |
 * | wav or mp3 recording | `input_audio` |
 * | other file | `file` with its data |
 * | URL without a scheme | `file` with a file id |
 * | text with option `openai.refusal` | `refusal` |
 * | reasoning with option `openai.reasoningField` | `reasoning_content` or `reasoning`, as compatible servers name it |
 * | argument text as received, else compact JSON | `function.arguments` |
 *
 * **Gotchas**
 *
 * The format has no field for whether a tool failed, for ids and times of messages,
 * for usage and models, nor for the order of text and calls in one message: text
 * comes first, and a failure reads back as a success with the same text. Empty text
 * beside other content is left out.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ConversationError } from "../conversation/ConversationError.ts"
import type * as Message from "../conversation/Message.ts"
import type * as conversationCodec from "../conversation/internal/conversationCodec.ts"
import * as history from "../conversation/internal/history.ts"
import * as Json from "../payload/Json.ts"
import type { Limits } from "../payload/Limits.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import { defined, isObject, own } from "../payload/internal/plainJson.ts"
import * as plainJson from "../payload/internal/plainJson.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as RenderError from "./RenderError.ts"
import * as foreignMessages from "./internal/foreignMessages.ts"

/**
 * Options of {@link fromConversation}.
 *
 * **Details**
 *
 * - `reasoning`: what becomes of reasoning that has no field in the format.
 *   `"omit"` (default) leaves it out, as OpenAI itself does; `"refuse"` fails.
 * - `invalidArguments`: what becomes of tool arguments that are no object.
 *   `"refuse"` (default) fails; `"wrap"` sends `{ invalid_arguments }`, as
 *   `Conversation.toPrompt` does.
 * - `toolFiles`: what becomes of files in tool results, which can hold text only.
 *   `"refuse"` (default) fails; `"describe"` sends `[image/png a.png omitted]`.
 * - `toolName`: maps tool names to those the provider knows; default the same.
 *
 * @category models
 * @since 0.1.0
 */
interface Options {
  readonly reasoning?: "omit" | "refuse" | undefined
  readonly invalidArguments?: "refuse" | "wrap" | undefined
  readonly toolFiles?: "refuse" | "describe" | undefined
  readonly toolName?: ((name: string) => string) | undefined
}

/**
 * Writes a conversation as messages of Chat Completions.
 *
 * **Details**
 *
 * The encoder never writes what OpenAI refuses and drops no content: open
 * calls, empty messages, an empty system message, arguments that are not an
 * object and content without a form in the format are errors that name the message.
 *
 * **Example** (A call and its result)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { Conversation, Message, ToolResult } from "effect-emissary"
 * import { OpenAiMessages } from "effect-emissary/interop"
 * import assert from "node:assert"
 *
 * const program = Conversation.make({ system: "Be brief." }).pipe(
 *   Effect.flatMap(Conversation.addUser("Where is order 42?")),
 *   Effect.flatMap(
 *     Conversation.addAssistant([Message.toolCallPart({ id: "call_1", name: "get_order", arguments: { id: "42" } })])
 *   ),
 *   Effect.flatMap(Conversation.addToolResult({ callId: "call_1", result: ToolResult.success("sent") }))
 * )
 *
 * const messages = Result.getOrThrow(OpenAiMessages.fromConversation(Effect.runSync(program)))
 * assert.deepStrictEqual(messages, [
 *   { role: "system", content: "Be brief." },
 *   { role: "user", content: "Where is order 42?" },
 *   {
 *     role: "assistant",
 *     content: null,
 *     tool_calls: [{ id: "call_1", type: "function", function: { name: "get_order", arguments: `{"id":"42"}` } }]
 *   },
 *   { role: "tool", content: "sent", tool_call_id: "call_1" }
 * ])
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromConversation = (
  self: history.Conversation,
  options?: Options
): Result.Result<ReadonlyArray<Json.JsonObject>, RenderError.RenderError> => renderMessages(self, options ?? {})

/**
 * Reads a conversation from messages of Chat Completions. Messages get new ids and
 * the current time.
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
 * import { Conversation } from "effect-emissary"
 * import { OpenAiMessages } from "effect-emissary/interop"
 * import assert from "node:assert"
 *
 * const foreign = [
 *   { role: "user", name: "ada", content: "Weather?" },
 *   {
 *     role: "assistant",
 *     content: "",
 *     tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: "{ }" } }]
 *   },
 *   { role: "tool", tool_call_id: "c1", content: "sunny" }
 * ]
 *
 * const chat = Effect.runSync(OpenAiMessages.toConversation(foreign))
 * assert.deepStrictEqual(Conversation.openCalls(chat), [])
 * const again = Result.getOrThrow(OpenAiMessages.fromConversation(chat))
 * assert.deepStrictEqual(again, foreign)
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toConversation: conversationCodec.Reader<
  unknown,
  foreignMessages.ReadOptions,
  PayloadError | ConversationError
> = foreignMessages.makeReader("openai", (input, limits) => receiveMessages(input, limits))

/**
 * Schema of a conversation whose encoded form are messages of Chat Completions, to
 * embed in other schemas. Decoding is {@link toConversation}, encoding
 * {@link fromConversation}, both with their default options.
 *
 * **Example** (The messages in a request)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Conversation } from "effect-emissary"
 * import { OpenAiMessages } from "effect-emissary/interop"
 * import assert from "node:assert"
 *
 * const Request = Schema.Struct({ model: Schema.String, messages: OpenAiMessages.OpenAiMessages })
 *
 * const request = Effect.runSync(
 *   Schema.decodeUnknownEffect(Request)({ model: "gpt-5.2", messages: [{ role: "user", content: "Hi" }] })
 * )
 * assert.strictEqual(Conversation.messageCount(request.messages), 1)
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const OpenAiMessages: Schema.Codec<history.Conversation, Schema.Json> = foreignMessages.formatCodec(
  "OpenAiMessages",
  toConversation,
  (self) => Effect.fromResult(fromConversation(self))
)

const OptionalText = Schema.optionalKey(Schema.NullOr(Schema.String))

const TextBlock = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

const RefusalBlock = Schema.Struct({ type: Schema.Literal("refusal"), refusal: Schema.String })

const ImageBlock = Schema.Struct({
  type: Schema.Literal("image_url"),
  image_url: Schema.Struct({ url: Schema.String, detail: Schema.optionalKey(Schema.String) })
})

const AudioBlock = Schema.Struct({
  type: Schema.Literal("input_audio"),
  input_audio: Schema.Struct({ data: Schema.String, format: Schema.Literals(["wav", "mp3"]) })
})

const fileNameField = Schema.optionalKey(Schema.String)

const FileBlock = Schema.Struct({
  type: Schema.Literal("file"),
  file: Schema.Union([
    Schema.Struct({ file_data: Schema.String, filename: fileNameField }),
    Schema.Struct({ file_id: Schema.String, filename: fileNameField })
  ])
})

const ContentBlock = Schema.Union([TextBlock, ImageBlock, AudioBlock, FileBlock])

type ContentBlock = typeof ContentBlock.Type

const NativeCall = Schema.Struct({
  id: Schema.String,
  type: Schema.optionalKey(Schema.Literal("function")),
  function: Schema.Struct({ name: Schema.String, arguments: Schema.optionalKey(Schema.Json) })
})

const FlatCall = Schema.Struct({
  id: Schema.String,
  type: Schema.optionalKey(Schema.Literal("function")),
  name: Schema.String,
  arguments: Schema.optionalKey(Schema.Json)
})

const WireCall = Schema.Union([NativeCall, FlatCall])

type WireCall = typeof WireCall.Type

const instructionFields = Schema.Union([Schema.String, Schema.NonEmptyArray(TextBlock)])

// Two structs, because a union distinguishes its members by single literals
const SystemMessage = Schema.Struct({ role: Schema.Literal("system"), content: instructionFields })

const DeveloperMessage = Schema.Struct({ role: Schema.Literal("developer"), content: instructionFields })

const UserMessage = Schema.Struct({
  role: Schema.Literal("user"),
  content: Schema.Union([Schema.String, Schema.Array(ContentBlock)])
})

const AssistantMessage = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.optionalKey(
    Schema.Union([Schema.Null, Schema.String, Schema.Array(Schema.Union([TextBlock, RefusalBlock]))])
  ),
  refusal: OptionalText,
  reasoning_content: OptionalText,
  reasoning: OptionalText,
  tool_calls: Schema.optionalKey(Schema.NullOr(Schema.Array(WireCall))),
  // The older form of tool calls has no ids, so that results cannot be paired
  function_call: Schema.optionalKey(Schema.Null)
})

type AssistantMessage = typeof AssistantMessage.Type

const ToolMessage = Schema.Struct({
  role: Schema.Literal("tool"),
  tool_call_id: Schema.String,
  name: Schema.optionalKey(Schema.String),
  content: Schema.Union([Schema.String, Schema.Array(ContentBlock)])
})

const WireMessage = Schema.Union([SystemMessage, DeveloperMessage, UserMessage, AssistantMessage, ToolMessage])

type WireMessage = typeof WireMessage.Type

const WireMessages = Schema.Array(WireMessage)

interface ReadResult {
  readonly said: foreignMessages.ForeignMessage
  readonly form: foreignMessages.Form
}

const readMessage = (message: WireMessage): ReadResult => {
  const form = Array.isArray(message.content) ? "blocks" : undefined
  switch (message.role) {
    case "system":
    case "developer":
      return { said: { role: "system", content: readSystemText(message.content) }, form }
    case "user":
      return { said: { role: "user", content: readContent(message.content) }, form }
    case "assistant":
      return { said: { role: "assistant", content: readAssistant(message) }, form }
    case "tool":
      return {
        said: {
          role: "tool",
          callId: message.tool_call_id,
          ...defined({ name: message.name }),
          content: readContent(message.content)
        },
        form
      }
  }
}

const readSystemText = (content: string | ReadonlyArray<{ readonly text: string }>): string =>
  typeof content === "string" ? content : content.map(({ text }) => text).join("\n\n")

const readContent = (given: string | ReadonlyArray<ContentBlock>): ReadonlyArray<ToolResult.Content> =>
  typeof given === "string" ? [ToolResult.textPart(given)] : given.map(readBlock)

const readBlock = (given: ContentBlock): ToolResult.Content => {
  switch (given.type) {
    case "text":
      return ToolResult.textPart(given.text)
    case "image_url": {
      const { detail, url } = given.image_url
      return {
        type: "file",
        ...fileFromUrl(url, "image/*"),
        ...foreignMessages.providerOptions("openai", { imageDetail: detail })
      }
    }
    case "input_audio": {
      const { data, format } = given.input_audio
      const mediaType = format === "wav" ? "audio/wav" : "audio/mpeg"
      return { type: "file", mediaType, data: { type: "base64", base64: data } }
    }
    case "file": {
      const { file } = given
      const name = file.filename === undefined ? undefined : { fileName: file.filename }
      return "file_data" in file
        ? { type: "file", ...fileFromUrl(file.file_data, "application/octet-stream"), ...name }
        : { type: "file", mediaType: "application/octet-stream", data: { type: "url", url: file.file_id }, ...name }
    }
  }
}

const base64Marker = ";base64"

const fileFromUrl = (url: string, mediaType: string): Pick<ToolResult.FilePart, "mediaType" | "data"> => {
  const comma = url.indexOf(",")
  const head = comma < 0 ? "" : url.slice(0, comma)
  return head.startsWith("data:") && head.endsWith(base64Marker)
    ? {
        mediaType: head.slice("data:".length, -base64Marker.length) || mediaType,
        data: { type: "base64", base64: url.slice(comma + 1) }
      }
    : { mediaType, data: { type: "url", url } }
}

const reasoningFields = ["reasoning_content", "reasoning"] as const

const readAssistant = (message: AssistantMessage): ReadonlyArray<Message.AssistantPart> => {
  const parts: Array<Message.AssistantPart> = []
  for (const field of reasoningFields) {
    const text = message[field]
    if (typeof text === "string" && text !== "") {
      parts.push({ type: "reasoning", text, ...foreignMessages.providerOptions("openai", { reasoningField: field }) })
    }
  }
  if (typeof message.content === "string") {
    if (message.content !== "") parts.push(ToolResult.textPart(message.content))
  } else {
    for (const part of message.content ?? []) {
      parts.push(part.type === "text" ? ToolResult.textPart(part.text) : readRefusal(part.refusal))
    }
  }
  if (typeof message.refusal === "string" && message.refusal !== "") parts.push(readRefusal(message.refusal))
  for (const given of message.tool_calls ?? []) parts.push(readCall(given))
  return parts
}

const readRefusal = (text: string): Message.AssistantPart => ({
  type: "text",
  text,
  ...foreignMessages.providerOptions("openai", { refusal: true })
})

const readCall = (given: WireCall): Message.ToolCallPart => {
  const { name, arguments: args } = "function" in given ? given.function : given
  return foreignMessages.toolCallFromArguments(given.id, name, args)
}

/** The message as we write it by ourselves. Empty text is left out. */
const writeMessage = (said: foreignMessages.ForeignMessage, form: foreignMessages.Form): Json.JsonObject => {
  switch (said.role) {
    case "system":
      return { role: "system", content: form === "blocks" ? [writeText(said.content)] : said.content }
    case "user":
      return { role: "user", content: writeContent(said.content, form) }
    case "assistant":
      return writeAssistant(said.content, form)
    case "tool":
      return { role: "tool", content: writeContent(said.content, form), tool_call_id: said.callId }
  }
}

const writeText = (text: string): Json.JsonObject => ({ type: "text", text })

const writeContent = (given: ReadonlyArray<ToolResult.Content>, form: foreignMessages.Form): Schema.Json => {
  const said = given.filter((part) => part.type === "file" || part.text !== "")
  const [first] = said
  if (first === undefined) return ""
  return said.length === 1 && first.type === "text" && form !== "blocks" ? first.text : said.map(writeBlock)
}

const writeBlock = (part: ToolResult.Content): Json.JsonObject =>
  part.type === "text" ? writeText(part.text) : writeFile(part)

const audioFormats: Readonly<Record<string, string>> = { "audio/wav": "wav", "audio/mpeg": "mp3" }

const writeFile = (part: ToolResult.FilePart): Json.JsonObject => {
  if (part.data.type === "url" && foreignMessages.isFileId(part.data.url)) {
    return { type: "file", file: { ...fileNameOf(part), file_id: part.data.url } }
  }
  const url = part.data.type === "url" ? part.data.url : `data:${part.mediaType};base64,${part.data.base64}`
  if (part.mediaType.startsWith("image/")) {
    const detail = foreignMessages.readOptions("openai", part)?.["imageDetail"]
    return { type: "image_url", image_url: { url, ...(typeof detail === "string" ? { detail } : undefined) } }
  }
  const format = own(audioFormats, part.mediaType)
  return format !== undefined && part.data.type === "base64"
    ? { type: "input_audio", input_audio: { data: part.data.base64, format } }
    : { type: "file", file: { ...fileNameOf(part), file_data: url } }
}

const fileNameOf = ({ fileName }: ToolResult.FilePart) => defined({ filename: fileName })

/** Why Chat Completions has no form for the file, if it has none. */
const unsupportedFile = (part: ToolResult.FilePart): string | undefined => {
  const { data, mediaType } = part
  if (data.type === "base64" ? data.base64 === "" : data.url === "") return "an empty file"
  if (data.type === "url" && foreignMessages.isFileId(data.url)) return undefined
  if (mediaType.startsWith("image/")) return undefined
  if (data.type === "url") return `a link to a file of type ${mediaType}`
  if (mediaType.startsWith("video/")) return `a file of type ${mediaType}`
  return mediaType.startsWith("audio/") && !Object.hasOwn(audioFormats, mediaType)
    ? `a file of type ${mediaType}`
    : undefined
}

const isRefusal = (part: ToolResult.TextPart): boolean =>
  foreignMessages.readOptions("openai", part)?.["refusal"] === true

/** The field in which compatible servers send and take reasoning. */
const reasoningFieldOf = (part: Message.AssistantPart): string | undefined => {
  const field = foreignMessages.readOptions("openai", part)?.["reasoningField"]
  return field === "reasoning_content" || field === "reasoning" ? field : undefined
}

const writeAssistant = (parts: ReadonlyArray<Message.AssistantPart>, form: foreignMessages.Form): Json.JsonObject => {
  const texts: Array<ToolResult.TextPart> = []
  const calls: Array<Json.JsonObject> = []
  const reasoning = new Map<string, string>()
  for (const part of parts) {
    if (part.type === "text" && part.text !== "") texts.push(part)
    if (part.type === "tool-call") calls.push(writeCall(part))
    const field = part.type === "reasoning" ? reasoningFieldOf(part) : undefined
    if (field !== undefined && part.type === "reasoning") reasoning.set(field, (reasoning.get(field) ?? "") + part.text)
  }
  return {
    role: "assistant",
    ...(form === "blocks"
      ? { content: texts.length === 0 ? null : texts.map(writeAssistantBlock) }
      : textFields(texts)),
    ...Object.fromEntries(reasoning),
    ...(calls.length === 0 ? undefined : { tool_calls: calls })
  }
}

const writeAssistantBlock = (part: ToolResult.TextPart): Json.JsonObject =>
  isRefusal(part) ? { type: "refusal", refusal: part.text } : writeText(part.text)

const textFields = (texts: ReadonlyArray<ToolResult.TextPart>): Json.JsonObject => {
  const said = texts.filter((part) => !isRefusal(part))
  const refused = texts.filter(isRefusal)
  return {
    content: said.length === 0 ? null : joinTexts(said),
    ...(refused.length === 0 ? undefined : { refusal: joinTexts(refused) })
  }
}

const joinTexts = (texts: ReadonlyArray<ToolResult.TextPart>): string => texts.map(({ text }) => text).join("")

const writeCall = (part: Message.ToolCallPart): Json.JsonObject => ({
  id: part.id,
  type: "function",
  function: { name: part.name, arguments: part.text ?? JSON.stringify(part.arguments) }
})

/** The message as it was received, without what OpenAI refuses. */
const withoutRefused = (raw: Json.JsonObject, said: foreignMessages.ForeignMessage): Json.JsonObject => {
  const calls = said.role === "assistant" ? said.content.filter((part) => part.type === "tool-call") : []
  return Object.fromEntries(
    Object.entries(raw).flatMap(([key, value]) => {
      switch (key) {
        case "content":
          return [[key, withoutEmptyText(value)] as const]
        case "function_call":
          return []
        case "tool_calls": {
          if (calls.length === 0 || !Array.isArray(value)) return []
          return [
            [key, calls.map((part, index) => (isFunctionCall(value[index]) ? value[index] : writeCall(part)))] as const
          ]
        }
        default:
          return [[key, value] as const]
      }
    })
  )
}

const withoutEmptyText = (content: Schema.Json): Schema.Json => {
  if (!Array.isArray(content)) return content
  const said = content.filter((part) => !isObject(part) || part["type"] !== "text" || part["text"] !== "")
  return said.length === 0 ? null : said
}

const isFunctionCall = (value: Schema.Json | undefined): boolean =>
  isObject(value) &&
  value["type"] === "function" &&
  isObject(value["function"]) &&
  typeof value["function"]["arguments"] === "string"

const decodeMessage = Schema.decodeUnknownOption(WireMessage)

const messageForm: foreignMessages.MessageForm = {
  write: writeMessage,
  read: (json) => Option.getOrUndefined(Option.map(decodeMessage(json), (message) => readMessage(message).said)),
  withoutRefused: (json, said) => (isObject(json) ? withoutRefused(json, said) : json)
}

const formatName = "OpenAI messages"

const receiveMessages = Effect.fnUntraced(function* (input: unknown, limits: Partial<Limits> | undefined) {
  const json = yield* Json.check(input, { what: formatName, limits })
  const items: ReadonlyArray<unknown> = Array.isArray(json) ? json : []
  yield* plainJson.checkCount("messages", items.length, { what: formatName, path: "", limits })
  yield* foreignMessages.checkRoles(items, ["system", "developer", "user", "assistant", "tool"])
  const messages = yield* Json.decode(WireMessages, { what: formatName, limits, onExcessProperty: "ignore" })(json)
  return messages.map((message, index): foreignMessages.ReceivedMessage => {
    const { form, said } = readMessage(message)
    const raw = Array.isArray(json) ? json[index] : undefined
    return {
      index,
      said,
      note: Json.isObject(raw) ? foreignMessages.noteOf(form, writeMessage(said, form), withoutRefused(raw, said)) : {}
    }
  })
})

const rules: foreignMessages.RenderRules = {
  isSent: (text) => text !== "",
  unsupportedFile,
  supportedFiles: "text, an image, a wav or mp3 recording, or a file of another kind with its data or file id",
  keepsReasoning: (part) => reasoningFieldOf(part) !== undefined,
  supportedReasoning: "none, because Chat Completions has no place for it",
  keepsProviderTool: () => false,
  supportedTools: "tools that the application runs"
}

/** The content of a message, if Chat Completions can hold it and OpenAI accepts it. */
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
      return Result.map(foreignMessages.renderContent(message.content, place, rules), (content) => ({ role, content }))
    case "assistant":
      return Result.map(foreignMessages.renderAnswer(message, place, rules, options), (content) => ({ role, content }))
    case "tool":
      return Result.map(prepareResult(message, place, options), (content) => ({
        role,
        callId: message.callId,
        content
      }))
  }
}

const prepareResult = (message: Message.ToolMessage, place: foreignMessages.MessagePlace, options: Options) =>
  Result.gen(function* () {
    const content: Array<ToolResult.Content> = []
    for (const part of ToolResult.content(message.result)) {
      if (part.type === "text") content.push(part)
      else if (options.toolFiles === "describe") content.push(ToolResult.textPart(ToolResult.contentToText([part])))
      else {
        const expected = `text in a tool result (pass { toolFiles: "describe" } to send a placeholder)`
        return yield* foreignMessages.refuseFile(place, part, expected)
      }
    }
    return content
  })

const renderMessages = (
  self: history.Conversation,
  options: Options
): Result.Result<ReadonlyArray<Json.JsonObject>, RenderError.RenderError> => {
  const messages = history.toArray(history.asHistory(self))
  return Result.gen(function* () {
    yield* foreignMessages.checkClosed(self, messages)
    const groups = yield* foreignMessages.renderGroups("openai", messages, (message, place) =>
      Result.map(prepareMessage(message, place, options), (said) =>
        foreignMessages.writeAsReceived(messageForm, said, foreignMessages.noteOfMessage("openai", message))
      )
    )
    return groups
      .flatMap(({ message, results }) => (message === undefined ? results : [message, ...results]))
      .flatMap(({ written }) => (isObject(written) ? [written] : []))
  }).pipe(Result.mapError((reason) => new RenderError.RenderError({ format: "OpenAI", reason })))
}
