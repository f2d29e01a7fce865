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
 * | URL without a scheme | `file` with a file id; option `openai.fileId` |
 * | file of an answer with option `openai.audio` | `audio` with its id |
 * | text with option `openai.refusal` | `refusal` |
 * | reasoning with option `openai.reasoningField` | `reasoning_content` or `reasoning`, as compatible servers name it |
 * | argument text as received, else compact JSON | `function.arguments` |
 * | file or reasoning with option `openai.part` | `document_url`, `video_url`, `thinking`, as Mistral and OpenRouter name them |
 * | text with option `openai.unknown` | the part of a type that is not known, as it was read; `[<type> omitted]` for other providers |
 * | tool call with option `openai.custom`, argument `input` | `custom` |
 * | tool call and result with option `openai.functionCall` | the older `function_call` and role `function` |
 *
 * An answer behind calls that wait for their results is joined to the answer of the calls, as servers do that accept it.
 *
 * **Gotchas**
 *
 * The format has no field for whether a tool failed, for ids and times of messages,
 * for usage and models, nor for the order of text and calls in one message: text
 * comes first, and a failure reads back as a success with the same text. Empty text
 * beside other content is left out. `docs/conversations.md` has a table of the losses of each format.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Message from "../conversation/Message.ts"
import * as history from "../conversation/internal/history.ts"
import * as Json from "../payload/Json.ts"
import type { Limits } from "../payload/Limits.ts"
import type * as PayloadError from "../payload/PayloadError.ts"
import { defined, isArray, isObject, own } from "../payload/internal/values.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as RenderError from "./RenderError.ts"
import * as foreignMessages from "./internal/foreignMessages.ts"

export type { Reader } from "./internal/foreignMessages.ts"

/**
 * Options of {@link fromConversation}.
 *
 * **Details**
 *
 * The format has no field for most reasoning: `reasoning` decides about it. OpenAI itself leaves it out.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options extends foreignMessages.RenderOptions {}

/**
 * Writes a conversation as messages of Chat Completions.
 *
 * **Details**
 *
 * The encoder never writes what OpenAI refuses. It leaves out what `Conversation.toPrompt` leaves out:
 * answers without content, reasoning with nothing after it, sources. Open
 * calls and content without a form in the format are errors that name the message.
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
): Result.Result<ReadonlyArray<Json.JsonObject>, RenderError.RenderError> =>
  Result.mapBoth(foreignMessages.writeMessages(format, self, options ?? {}), {
    onFailure: (reason) => new RenderError.RenderError({ format: "OpenAI", reason }),
    onSuccess: withOlderResults
  })

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
export const toConversation: foreignMessages.Reader = foreignMessages.makeReader("openai", (input, limits) =>
  receiveMessages(input, limits)
)

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
  (self) => fromConversation(self)
)

const OptionalText = Schema.optionalKey(Schema.NullOr(Schema.String))

const TextBlock = Schema.Struct({ type: Schema.Literal("text"), text: Schema.String })

const RefusalBlock = Schema.Struct({ type: Schema.Literal("refusal"), refusal: Schema.String })

const ImageBlock = Schema.Struct({
  type: Schema.Literal("image_url"),
  // Mistral takes a URL here, too
  image_url: Schema.Union([
    Schema.String,
    Schema.Struct({ url: Schema.String, detail: Schema.optionalKey(Schema.String) })
  ])
})

const linked = Schema.Union([Schema.String, Schema.Struct({ url: Schema.String })])

const DocumentBlock = Schema.Struct({
  type: Schema.Literal("document_url"),
  document_url: linked,
  document_name: OptionalText
})

const VideoBlock = Schema.Struct({ type: Schema.Literal("video_url"), video_url: linked })

const ThinkingBlock = Schema.Struct({
  type: Schema.Literal("thinking"),
  thinking: Schema.Union([Schema.String, Schema.Array(Schema.Json)])
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

const { UnknownBlock } = foreignMessages

const AnswerBlock = Schema.Union([TextBlock, RefusalBlock, ThinkingBlock, UnknownBlock])

const ContentBlock = Schema.Union([
  TextBlock,
  ImageBlock,
  AudioBlock,
  FileBlock,
  DocumentBlock,
  VideoBlock,
  UnknownBlock
])

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

const CustomCall = Schema.Struct({
  id: Schema.String,
  type: Schema.Literal("custom"),
  custom: Schema.Struct({ name: Schema.String, input: Schema.String })
})

const WireCall = Schema.Union([NativeCall, FlatCall, CustomCall])

type WireCall = typeof WireCall.Type

const instructionFields = Schema.Union([Schema.String, Schema.NonEmptyArray(Schema.Union([TextBlock, UnknownBlock]))])

// Two structs, because a union distinguishes its members by single literals
const SystemMessage = Schema.Struct({ role: Schema.Literal("system"), content: instructionFields })

const DeveloperMessage = Schema.Struct({ role: Schema.Literal("developer"), content: instructionFields })

const UserMessage = Schema.Struct({
  role: Schema.Literal("user"),
  content: Schema.Union([Schema.String, Schema.Array(ContentBlock)])
})

const AssistantMessage = Schema.Struct({
  role: Schema.Literal("assistant"),
  content: Schema.optionalKey(Schema.Union([Schema.Null, Schema.String, Schema.Array(AnswerBlock)])),
  refusal: OptionalText,
  reasoning_content: OptionalText,
  reasoning: OptionalText,
  tool_calls: Schema.optionalKey(Schema.NullOr(Schema.Array(WireCall))),
  audio: Schema.optionalKey(
    Schema.NullOr(
      Schema.Struct({
        id: Schema.String,
        data: Schema.optionalKey(Schema.String),
        expires_at: Schema.optionalKey(Schema.Finite),
        transcript: Schema.optionalKey(Schema.String)
      })
    )
  ),
  function_call: Schema.optionalKey(Schema.NullOr(Schema.Struct({ name: Schema.String, arguments: Schema.String })))
})

type AssistantMessage = typeof AssistantMessage.Type

const ToolMessage = Schema.Struct({
  role: Schema.Literal("tool"),
  tool_call_id: Schema.String,
  name: Schema.optionalKey(Schema.String),
  content: Schema.Union([Schema.String, Schema.Array(ContentBlock)])
})

/** The result of the older `function_call`, which has no id: it answers the newest one. */
const FunctionMessage = Schema.Struct({
  role: Schema.Literal("function"),
  name: Schema.String,
  content: Schema.NullOr(Schema.String)
})

const WireMessage = Schema.Union([
  SystemMessage,
  DeveloperMessage,
  UserMessage,
  AssistantMessage,
  ToolMessage,
  FunctionMessage
])

type WireMessage = typeof WireMessage.Type

/** The body of a message. `functionId` is the id of the newest `function_call`. */
const readMessage = (message: WireMessage, functionId: string): foreignMessages.MessageBody => {
  switch (message.role) {
    case "system":
    case "developer":
      return { role: "system", content: readInstructions(message.content) }
    case "user":
      return { role: "user", content: foreignMessages.readContent(message.content, readBlock) }
    case "assistant":
      return { role: "assistant", content: readAssistant(message, functionId) }
    case "tool": {
      const result = foreignMessages.readResult(foreignMessages.readContent(message.content, readBlock))
      return { role: "tool", callId: message.tool_call_id, name: message.name ?? "", result }
    }
    case "function": {
      const result = foreignMessages.readResult([ToolResult.textPart(message.content ?? "")])
      return { role: "tool", callId: functionId, name: message.name, result, ...makeOptions({ functionCall: true }) }
    }
  }
}

const readInstructions = (content: typeof instructionFields.Type): string =>
  foreignMessages.readInstructions(
    typeof content === "string" ? content : content.filter((block) => block.type === "text")
  )

const urlOf = (given: string | { readonly url: string }): string => (typeof given === "string" ? given : given.url)

const readBlock = (block: ContentBlock): ToolResult.Content => {
  switch (block.type) {
    case "unknown":
      return foreignMessages.readUnknown("openai", block)
    case "text":
      return ToolResult.textPart(block.text)
    case "image_url": {
      const { image_url: image } = block
      const imageDetail = typeof image === "string" ? undefined : image.detail
      return { ...foreignMessages.readFile(urlOf(image), "image/*"), ...makeOptions({ imageDetail }) }
    }
    case "document_url":
      return {
        ...foreignMessages.readFile(urlOf(block.document_url), "application/pdf"),
        ...defined({ fileName: block.document_name ?? undefined }),
        ...makeOptions({ part: block.type })
      }
    case "video_url":
      return {
        ...foreignMessages.readFile(urlOf(block.video_url), "video/*"),
        ...makeOptions({ part: block.type })
      }
    case "input_audio": {
      const { data, format } = block.input_audio
      return { type: "file", mediaType: audioTypes[format], data: { type: "base64", base64: data } }
    }
    case "file": {
      const { filename: fileName, ...file } = block.file
      const read = (url: string) => ({
        ...foreignMessages.readFile(url, "application/octet-stream"),
        ...defined({ fileName })
      })
      return "file_data" in file ? read(file.file_data) : { ...read(file.file_id), ...makeOptions({ fileId: true }) }
    }
  }
}

const audioTypes = { wav: "audio/wav", mp3: "audio/mpeg" } as const

const audioFormats: Readonly<Record<string, string>> = { "audio/wav": "wav", "audio/mpeg": "mp3" }

/** The fields in which compatible servers send and take reasoning. */
const reasoningFields = ["reasoning_content", "reasoning"] as const

const readAssistant = (message: AssistantMessage, functionId: string): ReadonlyArray<Message.AssistantPart> => {
  const { audio, content, function_call: older, refusal, tool_calls: calls } = message
  return [
    ...reasoningFields.flatMap((field) =>
      readText(message[field], (text) => ({
        type: "reasoning" as const,
        text,
        ...makeOptions({ reasoningField: field })
      }))
    ),
    ...(typeof content === "string"
      ? readText(content, (text) => ToolResult.textPart(text))
      : (content ?? []).map(readAnswer)),
    ...readText(refusal, readRefusal),
    ...(audio === undefined || audio === null ? [] : [readAudio(audio)]),
    ...(calls ?? []).map(readCall),
    ...(older === undefined || older === null
      ? []
      : [
          {
            ...foreignMessages.readCall(functionId, older.name, older.arguments),
            ...makeOptions({ functionCall: true })
          }
        ])
  ]
}

/** A recording of the model, by its id. */
const readAudio = ({ id: url, ...audio }: NonNullable<AssistantMessage["audio"]>): ToolResult.FilePart => ({
  type: "file",
  mediaType: "audio/*",
  data: { type: "url", url },
  ...makeOptions({ audio })
})

const writeAudio = (part: ToolResult.FilePart): Json.JsonObject | undefined => {
  const { audio } = foreignMessages.readOptions("openai", part)
  return isObject(audio) && part.data.type === "url" ? { ...audio, id: part.data.url } : undefined
}

/** The part of a text, unless it is empty. */
const readText = <Part>(text: string | null | undefined, read: (text: string) => Part): ReadonlyArray<Part> =>
  text === undefined || text === null || text === "" ? [] : [read(text)]

const readAnswer = (block: typeof AnswerBlock.Type): Message.AssistantPart => {
  switch (block.type) {
    case "text":
      return ToolResult.textPart(block.text)
    case "refusal":
      return readRefusal(block.refusal)
    case "unknown":
      return foreignMessages.readUnknown("openai", block)
    case "thinking": {
      const { thinking } = block
      const textOf = (part: Schema.Json) => (isObject(part) && typeof part["text"] === "string" ? part["text"] : "")
      const text = typeof thinking === "string" ? thinking : thinking.map(textOf).join("")
      return { type: "reasoning", text, ...makeOptions({ part: block.type }) }
    }
  }
}

/** The part of Mistral or OpenRouter that a file was. */
const partOf = (part: ToolResult.FilePart): "document_url" | "video_url" | undefined => {
  const { part: type } = foreignMessages.readOptions("openai", part)
  return type === "document_url" || type === "video_url" ? type : undefined
}

const isThinking = (part: Message.AssistantPart): part is Message.ReasoningPart =>
  part.type === "reasoning" && foreignMessages.readOptions("openai", part)["part"] === "thinking"

const makeOptions = (given: { readonly [key: string]: Schema.Json | undefined }) =>
  foreignMessages.providerOptions("openai", given)

const readRefusal = (text: string): ToolResult.TextPart => ({ type: "text", text, ...makeOptions({ refusal: true }) })

const readCall = (call: WireCall): Message.ToolCallPart => {
  if ("custom" in call) {
    const { input, name } = call.custom
    return { ...foreignMessages.readCall(call.id, name, { input }), ...makeOptions({ custom: true }) }
  }
  const { name, arguments: args } = "function" in call ? call.function : call
  return foreignMessages.readCall(call.id, name, args)
}

/** The message as we write it by ourselves. Empty text is left out. */
const writeMessage = (body: foreignMessages.MessageBody, form: foreignMessages.Form): Json.JsonObject => {
  switch (body.role) {
    case "system":
      return { role: "system", content: form === "blocks" ? [writeText(body.content)] : body.content }
    case "user":
      return { role: "user", content: foreignMessages.writeContent(body.content, form !== "blocks", writeBlock) }
    case "assistant":
      return writeAssistant(body.content, form)
    case "tool": {
      const content = foreignMessages.writeContent(ToolResult.content(body.result), form !== "blocks", writeBlock)
      return isOlder(body)
        ? { role: "function", name: body.name, content }
        : { role: "tool", content, tool_call_id: body.callId }
    }
  }
}

const writeText = (text: string): Json.JsonObject => ({ type: "text", text })

const writeBlock = (part: ToolResult.Content): Json.JsonObject => {
  if (part.type === "text") return foreignMessages.writeUnknown("openai", part) ?? writeText(part.text)
  const { data, fileName: filename, mediaType } = part
  const type = partOf(part)
  if (type === "video_url") return { type, video_url: { url: foreignMessages.writeUrl(part) } }
  if (type === "document_url") {
    return { type, document_url: foreignMessages.writeUrl(part), ...defined({ document_name: filename }) }
  }
  if (data.type === "url" && foreignMessages.isFileId(data.url)) {
    return { type: "file", file: { ...defined({ filename }), file_id: data.url } }
  }
  const url = foreignMessages.writeUrl(part)
  if (mediaType.startsWith("image/")) {
    const { imageDetail: detail } = foreignMessages.readOptions("openai", part)
    return { type: "image_url", image_url: { url, ...(typeof detail === "string" ? { detail } : undefined) } }
  }
  const format = own(audioFormats, mediaType)
  return format !== undefined && data.type === "base64"
    ? { type: "input_audio", input_audio: { data: data.base64, format } }
    : { type: "file", file: { ...defined({ filename }), file_data: url } }
}

/** Why Chat Completions has no form for the file, if it has none. */
const unsupportedFile = (part: ToolResult.FilePart): string | undefined => {
  const { data, mediaType } = part
  if (partOf(part) !== undefined || (data.type === "url" && foreignMessages.isFileId(data.url))) return undefined
  if (mediaType.startsWith("image/")) return undefined
  if (data.type === "url") return `a link to a file of type ${mediaType}`
  const isRefused =
    mediaType.startsWith("video/") || (mediaType.startsWith("audio/") && !Object.hasOwn(audioFormats, mediaType))
  return isRefused ? `a file of type ${mediaType}` : undefined
}

const isRefusal = (part: AnswerPart): boolean => foreignMessages.readOptions("openai", part)["refusal"] === true

const reasoningFieldOf = (part: Message.ReasoningPart): string | undefined => {
  const { reasoningField } = foreignMessages.readOptions("openai", part)
  return reasoningFields.find((field) => field === reasoningField)
}

const writeAssistant = (parts: ReadonlyArray<Message.AssistantPart>, form: foreignMessages.Form): Json.JsonObject => {
  const texts: Array<AnswerPart> = []
  const calls: Array<Json.JsonObject> = []
  const reasoning: Record<string, string> = {}
  let audio: Json.JsonObject | undefined
  let older: Json.JsonObject | undefined
  for (const part of parts) {
    if (part.type === "file") audio = writeAudio(part)
    if ((part.type === "text" && part.text !== "") || isThinking(part)) texts.push(part)
    if (part.type === "tool-call" && isOlder(part)) older = writeFunction(part)
    else if (part.type === "tool-call") calls.push(writeCall(part))
    const field = part.type === "reasoning" ? reasoningFieldOf(part) : undefined
    if (field !== undefined && part.type === "reasoning") reasoning[field] = (reasoning[field] ?? "") + part.text
  }
  const isBlocks = form === "blocks" || texts.some((part) => isThinking(part) || unknownOf(part) !== undefined)
  const refused = isBlocks ? [] : texts.filter(isRefusal)
  const content = isBlocks ? texts : texts.filter((part) => !isRefusal(part))
  return {
    role: "assistant",
    content: content.length === 0 ? null : isBlocks ? content.map(writeAssistantBlock) : joinTexts(content),
    ...(refused.length === 0 ? undefined : { refusal: joinTexts(refused) }),
    ...reasoning,
    ...defined({ audio, function_call: older }),
    ...(calls.length === 0 ? undefined : { tool_calls: calls })
  }
}

type AnswerPart = ToolResult.TextPart | Message.ReasoningPart

const unknownOf = (part: AnswerPart) => foreignMessages.writeUnknown("openai", part)

const writeAssistantBlock = (part: AnswerPart): Json.JsonObject => {
  if (isThinking(part)) return { type: "thinking", thinking: [writeText(part.text)] }
  return isRefusal(part) ? { type: "refusal", refusal: part.text } : (unknownOf(part) ?? writeText(part.text))
}

const joinTexts = (texts: ReadonlyArray<AnswerPart>): string => texts.map(({ text }) => text).join("")

const isOlder = (part: { readonly options?: Json.JsonObject }): boolean =>
  foreignMessages.readOptions("openai", part)["functionCall"] === true

const writeFunction = (part: Message.ToolCallPart): Json.JsonObject => ({
  name: part.name,
  arguments: history.textOfCall(part)
})

const writeCall = (part: Message.ToolCallPart): Json.JsonObject => {
  const input = foreignMessages.customInput(part)
  return input === undefined
    ? { id: part.id, type: "function", function: writeFunction(part) }
    : { id: part.id, type: "custom", custom: { name: part.name, input } }
}

/** The results of calls in the older form, also results that were added here. */
const withOlderResults = (written: ReadonlyArray<foreignMessages.WrittenMessage>): ReadonlyArray<Json.JsonObject> => {
  const ids = new Set<string>()
  return written.flatMap(({ json, message }) => {
    if (!isObject(json)) return []
    if (message.role === "assistant") {
      for (const part of message.content) if (part.type === "tool-call" && isOlder(part)) ids.add(part.id)
    }
    if (message.role !== "tool" || !ids.delete(message.callId) || json["role"] !== "tool") return [json]
    const { tool_call_id: _, ...result } = json
    return [{ ...result, role: "function", name: message.name }]
  })
}

const withoutRefused = (json: Schema.Json, written: Schema.Json): Schema.Json => {
  if (!isObject(json) || !isObject(written)) return json
  const { content, function_call: older = null, tool_calls: received, ...message } = json
  const { tool_calls: calls } = written
  return {
    ...message,
    ...defined({
      content: isArray(content) ? withoutEmptyText(content) : content,
      function_call: older ?? undefined,
      tool_calls: isArray(calls)
        ? calls.map((call, index) => [isArray(received) ? received[index] : undefined].find(isNativeCall) ?? call)
        : undefined
    })
  }
}

const withoutEmptyText = (content: ReadonlyArray<Schema.Json>): Schema.Json => {
  const sent = content.filter((part) => !isObject(part) || part["type"] !== "text" || part["text"] !== "")
  return sent.length === 0 ? null : sent
}

const isNativeCall = (value: Schema.Json | undefined): boolean => {
  if (!isObject(value)) return false
  const { custom = null, function: called = null, type } = value
  return type === "custom"
    ? isObject(custom) && typeof custom["input"] === "string"
    : type === "function" && isObject(called) && typeof called["arguments"] === "string"
}

const decodeMessage = Schema.decodeUnknownOption(WireMessage)

const WireMessages = Schema.Array(WireMessage)

const format: foreignMessages.Format = {
  key: "openai",
  read: (json) =>
    Option.getOrUndefined(Option.map(decodeMessage(markMessage(json)), (message) => readMessage(message, "call"))),
  write: writeMessage,
  formOf: (json) => (isObject(json) && isArray(json["content"]) ? "blocks" : undefined),
  withoutRefused,
  isSent: (text) => text !== "",
  keepsSystem: () => false,
  unsupportedFile,
  supportedFiles: "text, an image, a wav or mp3 recording, or a file of another kind with its data or file id",
  keepsFile: (part) => writeAudio(part) !== undefined,
  hasResultFiles: false,
  keepsReasoning: (part) => isThinking(part) || reasoningFieldOf(part) !== undefined,
  supportedReasoning: "none, because Chat Completions has no place for it",
  keepsProviderTool: () => false,
  supportedTools: "tools that the application runs"
}

/** The members of an answer that the format of this version does not have, where nothing else is in it. */
const foreignMembers = (json: Schema.Json | undefined, body: foreignMessages.MessageBody, path: string) =>
  body.role !== "assistant" || !isObject(json) || body.content.length > 0
    ? []
    : Object.entries(json)
        .filter(([key, value]) => key !== "name" && !Object.hasOwn(AssistantMessage.fields, key) && isObject(value))
        .map(([key]) => ({
          path: `${path}/${key}`,
          expected: "content, a refusal, audio or tool_calls",
          found: "a key that is not known"
        }))

const blockTypes = {
  instructions: ["text"],
  answer: foreignMessages.typesOf(AnswerBlock.members),
  other: foreignMessages.typesOf(ContentBlock.members)
}

/** A message with parts of types that are not known as data. */
const markMessage = (message: Schema.Json): Schema.Json => {
  const { content, role } = isObject(message) ? message : {}
  if (!isObject(message) || content === undefined) return message
  const known = role === "assistant" ? "answer" : role === "system" || role === "developer" ? "instructions" : "other"
  const mark = (block: Schema.Json): Schema.Json =>
    blockTypes[known].includes(foreignMessages.typeOf(block) ?? "text") ? block : { type: "unknown", block }
  return { ...message, content: isArray(content) ? content.map(mark) : content }
}

const foreignCalls = (message: Schema.Json, path: string): ReadonlyArray<PayloadError.Problem> =>
  isObject(message)
    ? foreignMessages.foreignBlocks(message["tool_calls"], ["function", "custom"], `${path}/tool_calls`)
    : []

type Received = foreignMessages.Received<WireMessage>

/** Two answers as one, if the first one has calls. */
const joinAnswer = (open: Received, next: Received): Received | undefined => {
  const [first, second] = [open.json, next.json]
  const calls = open.message.role === "assistant" ? (open.message.tool_calls ?? []) : []
  if (calls.length === 0 || next.message.role !== "assistant" || !isObject(first) || !isObject(second)) return undefined
  const contents = [first, second]
    .map(({ content = null }) => (typeof content === "string" || isArray(content) ? content : ""))
    .filter((content) => content.length > 0)
  const [only = null, other] = contents
  const texts = ["refusal", ...reasoningFields].flatMap((field) => {
    const said = [first[field], second[field]].filter((text) => typeof text === "string" && text !== "")
    return said.length === 0 ? [] : [[field, said.join("\n\n")] as const]
  })
  const callsOf = ({ tool_calls: made = null }: Json.JsonObject) => (isArray(made) ? made : [])
  const json = {
    ...first,
    ...second,
    ...Object.fromEntries(texts),
    content: other === undefined ? only : contents.flatMap((one) => foreignMessages.asBlocks<Schema.Json>(one)),
    tool_calls: [...callsOf(first), ...callsOf(second)]
  }
  const message = Option.getOrUndefined(decodeMessage(markMessage(json)))
  return message === undefined ? undefined : { message, json, index: open.index }
}

const receiveMessages = Effect.fnUntraced(function* (input: unknown, limits: Partial<Limits> | undefined) {
  const options = { what: "OpenAI messages", path: "", limits, onExcessProperty: "ignore" } as const
  const json = yield* Json.check(input, options)
  const items = isArray(json) ? json : []
  yield* foreignMessages.checkMessages(items, ["system", "developer", "user", "assistant", "tool", "function"], options)
  const foreign = items.flatMap((item, index) => foreignCalls(item, `/${index}`))
  yield* foreignMessages.refuse(foreign, options)
  const messages = yield* Json.decode(WireMessages, options)(isArray(json) ? items.map(markMessage) : json)
  let functionId = ""
  const received = foreignMessages.joinAnswers(messages, items, joinAnswer).map(({ index, json, message }) => {
    if (message.role === "assistant" && isObject(message.function_call ?? null)) functionId = `function_call_${index}`
    return { index, json, body: readMessage(message, functionId) }
  })
  const unknown = received.flatMap(({ body, index, json }) => foreignMembers(json, body, `/${index}`))
  yield* foreignMessages.refuse(unknown, options)
  return received.map(({ body, index, json }) => foreignMessages.readMessage(format, body, json, index))
})
