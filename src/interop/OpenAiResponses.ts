/**
 * Conversations as items of OpenAI's Responses API, which the client of the AI SDK speaks by default.
 *
 * **When to use**
 *
 * To take in the `input` of requests and the `output` of responses that other programs keep, and to hand a conversation to
 * programs that expect them. To call a model, `AiSdk` is enough.
 *
 * **Details**
 *
 * Neighbouring items of the model (messages, reasoning, calls) become one assistant message. A lawful list of items that was read is
 * written again as equal JSON: ids, statuses, annotations and unknown keys are kept in the metadata of the message, under
 * `"effect-emissary/openai-responses"`, and are ignored once the message has changed.
 *
 * | here | in the format |
 * |---|---|
 * | system message | a message of role `system`; role `developer` is read too |
 * | user message | a message of `input_text`, `input_image` and `input_file` |
 * | URL without a scheme | `file_id`; option `openai.fileId` |
 * | text of an assistant, option `openai.phase` | a message of role `assistant`, `phase` |
 * | text with option `openai.refusal` | a message with a `refusal` |
 * | reasoning with options `openai.itemId` and `openai.reasoningEncryptedContent` | `reasoning`; one part for each summary |
 * | tool call, result | `function_call`, `function_call_output` |
 * | tool call with option `openai.custom`, argument `input` | `custom_tool_call`, `custom_tool_call_output` |
 * | tool that a provider ran itself, named by its type, with option `openai.item` | each other item, as it was read |
 * | system message with option `openai.item` | `additional_tools` |
 *
 * The options have the names of the AI SDK where it has them. An `item_reference` is refused by its name, because the item is only in OpenAI's store.
 *
 * **Gotchas**
 *
 * The format has no field for whether a tool failed, for ids and times of messages, nor for usage: a failure reads back as a success
 * with the same text.
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
import { defined, isArray, isObject } from "../payload/internal/values.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as RenderError from "./RenderError.ts"
import * as foreignMessages from "./internal/foreignMessages.ts"

export type { Reader } from "./internal/foreignMessages.ts"

/**
 * Options of {@link fromConversation}.
 *
 * **Details**
 *
 * OpenAI refuses reasoning without its own id or encrypted content, and reasoning with nothing after it: `reasoning` decides
 * about both.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options extends Omit<foreignMessages.RenderOptions, "toolFiles"> {}

/**
 * Writes a conversation as items of the Responses API, for the `input` of a request.
 *
 * **Details**
 *
 * The encoder never writes what OpenAI refuses. It leaves out what `Conversation.toPrompt` leaves out: answers without content,
 * reasoning with nothing after it, sources. Open calls and content without a form in the format are errors that name the message.
 *
 * **Example** (A call and its result)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { Conversation, Message, ToolResult } from "effect-emissary"
 * import { OpenAiResponses } from "effect-emissary/interop"
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
 * const items = Result.getOrThrow(OpenAiResponses.fromConversation(Effect.runSync(program)))
 * assert.deepStrictEqual(items, [
 *   { role: "system", content: "Be brief." },
 *   { role: "user", content: [{ type: "input_text", text: "Where is order 42?" }] },
 *   { type: "function_call", call_id: "call_1", name: "get_order", arguments: `{"id":"42"}` },
 *   { type: "function_call_output", call_id: "call_1", output: "sent" }
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
    onSuccess: (written) => withCustomOutputs(written.flatMap(({ json }) => json).filter(isObject))
  })

/**
 * Reads a conversation from items of the Responses API: the `input` of a request, the `output` of a response, or both in a row.
 * Messages get new ids and the current time.
 *
 * **Details**
 *
 * Fails with `PayloadError` and the path where the JSON is over a limit or of another form, with `ConversationError` and the index
 * of the item where the history breaks a law; with `onUnlawful: "repair"` it is repaired instead, and the result holds the
 * conversation and the `repairs`. A history may end in open calls: that is a run which was stopped.
 *
 * **Example** (The input of a request and the output of its response)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { Conversation } from "effect-emissary"
 * import { OpenAiResponses } from "effect-emissary/interop"
 * import assert from "node:assert"
 *
 * const input = [{ role: "user", content: "Weather?" }]
 * const output = [
 *   { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "c2Vj" },
 *   { type: "message", id: "msg_1", status: "completed", role: "assistant", content: [{ type: "output_text", text: "Sunny.", annotations: [] }] }
 * ]
 *
 * const chat = Effect.runSync(OpenAiResponses.toConversation([...input, ...output]))
 * assert.strictEqual(Conversation.messageCount(chat), 2)
 * assert.deepStrictEqual(Result.getOrThrow(OpenAiResponses.fromConversation(chat)), [...input, ...output])
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toConversation: foreignMessages.Reader = foreignMessages.makeReader("openai-responses", (input, limits) =>
  receiveItems(input, limits)
)

/**
 * Schema of a conversation whose encoded form are items of the Responses API, to embed in other schemas. Decoding is
 * {@link toConversation}, encoding {@link fromConversation}, both with their default options.
 *
 * **Example** (The input of a request)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Conversation } from "effect-emissary"
 * import { OpenAiResponses } from "effect-emissary/interop"
 * import assert from "node:assert"
 *
 * const Request = Schema.Struct({ model: Schema.String, input: OpenAiResponses.OpenAiResponses })
 *
 * const request = Effect.runSync(
 *   Schema.decodeUnknownEffect(Request)({ model: "gpt-5.2", input: [{ role: "user", content: "Hi" }] })
 * )
 * assert.strictEqual(Conversation.messageCount(request.input), 1)
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const OpenAiResponses: Schema.Codec<history.Conversation, Schema.Json> = foreignMessages.formatCodec(
  "OpenAiResponses",
  toConversation,
  (self) => fromConversation(self)
)

const OptionalText = Schema.optionalKey(Schema.NullOr(Schema.String))

const InputText = Schema.Struct({ type: Schema.Literal("input_text"), text: Schema.String })

const InputImage = Schema.Struct({
  type: Schema.Literal("input_image"),
  image_url: OptionalText,
  file_id: OptionalText,
  detail: OptionalText
})

const InputFile = Schema.Struct({
  type: Schema.Literal("input_file"),
  file_data: OptionalText,
  file_url: OptionalText,
  file_id: OptionalText,
  filename: OptionalText
})

const InputBlock = Schema.Union([InputText, InputImage, InputFile])

const InputContent = Schema.Union([Schema.String, Schema.Array(InputBlock)])

const OutputText = Schema.Struct({ type: Schema.Literal("output_text"), text: Schema.String })

const Refusal = Schema.Struct({ type: Schema.Literal("refusal"), refusal: Schema.String })

const OutputBlock = Schema.Union([OutputText, Refusal])

const messageType = { type: Schema.optionalKey(Schema.Literal("message")) }

const instructions = Schema.Union([Schema.String, Schema.NonEmptyArray(InputText)])

const SystemItem = Schema.Struct({ ...messageType, role: Schema.Literal("system"), content: instructions })

const DeveloperItem = Schema.Struct({ ...messageType, role: Schema.Literal("developer"), content: instructions })

const UserItem = Schema.Struct({ ...messageType, role: Schema.Literal("user"), content: InputContent })

const AssistantItem = Schema.Struct({
  ...messageType,
  role: Schema.Literal("assistant"),
  content: Schema.Union([Schema.String, Schema.Array(OutputBlock)]),
  id: OptionalText,
  phase: OptionalText
})

const ReasoningItem = Schema.Struct({
  type: Schema.Literal("reasoning"),
  id: OptionalText,
  summary: Schema.Array(Schema.Struct({ type: Schema.Literal("summary_text"), text: Schema.String })),
  encrypted_content: OptionalText
})

const call = { call_id: Schema.String, name: Schema.String, id: OptionalText }

const CallItem = Schema.Struct({ type: Schema.Literal("function_call"), ...call, arguments: Schema.String })

const CustomCallItem = Schema.Struct({ type: Schema.Literal("custom_tool_call"), ...call, input: Schema.String })

const output = { call_id: Schema.String, output: InputContent }

const OutputItem = Schema.Struct({ type: Schema.Literal("function_call_output"), ...output })

const CustomOutputItem = Schema.Struct({ type: Schema.Literal("custom_tool_call_output"), ...output })

const AdditionalToolsItem = Schema.Struct({ type: Schema.Literal("additional_tools") })

/** Items of tools that OpenAI runs or defines, and of its context: kept as they are. */
const opaqueTypes = [
  "web_search_call",
  "file_search_call",
  "code_interpreter_call",
  "image_generation_call",
  "computer_call",
  "computer_call_output",
  "tool_search_call",
  "tool_search_output",
  "local_shell_call",
  "local_shell_call_output",
  "shell_call",
  "shell_call_output",
  "apply_patch_call",
  "apply_patch_call_output",
  "mcp_list_tools",
  "mcp_approval_request",
  "mcp_approval_response",
  "mcp_call",
  "program",
  "program_output",
  "configuration_update",
  "compaction"
] as const

const opaqueItems = opaqueTypes.map((type) => Schema.Struct({ type: Schema.Literal(type) }))

const AnswerItem = Schema.Union([AssistantItem, ReasoningItem, CallItem, CustomCallItem, ...opaqueItems])

type AnswerItem = typeof AnswerItem.Type

const ApartItem = Schema.Union([SystemItem, DeveloperItem, UserItem, OutputItem, CustomOutputItem, AdditionalToolsItem])

const Item = Schema.Union([...AnswerItem.members, ...ApartItem.members])

const types: ReadonlyArray<string> = [
  "message",
  ...foreignMessages.typesOf([ReasoningItem, CallItem, OutputItem, CustomCallItem, CustomOutputItem]),
  "additional_tools",
  ...opaqueTypes
]

const makeOptions = (given: { readonly [key: string]: Schema.Json | undefined }) =>
  foreignMessages.providerOptions("openai", given)

const optionsOf = (part: { readonly options?: Json.JsonObject }) => foreignMessages.readOptions("openai", part)

const readBlock = (block: typeof InputBlock.Type): ToolResult.Content => {
  if (block.type === "input_text") return ToolResult.textPart(block.text)
  const fileId = block.file_id ?? undefined
  const marks = { fileId: fileId === undefined ? undefined : true }
  if (block.type === "input_image") {
    const file = foreignMessages.readFile(fileId ?? block.image_url ?? "", "image/*")
    return { ...file, ...makeOptions({ ...marks, imageDetail: block.detail ?? undefined }) }
  }
  const url = fileId ?? block.file_data ?? block.file_url ?? ""
  const fileName = block.filename ?? undefined
  return {
    ...foreignMessages.readFile(url, "application/octet-stream"),
    ...defined({ fileName }),
    ...makeOptions(marks)
  }
}

const readItem = (item: typeof ApartItem.Type, json: Schema.Json): foreignMessages.MessageBody => {
  if ("role" in item) {
    return item.role === "user"
      ? { role: "user", content: foreignMessages.readContent(item.content, readBlock) }
      : { role: "system", content: foreignMessages.readInstructions(item.content) }
  }
  if (item.type === "additional_tools") return { role: "system", content: "", ...makeOptions({ item: json }) }
  const result = foreignMessages.readResult(foreignMessages.readContent(item.output, readBlock))
  return { role: "tool", callId: item.call_id, name: "", result }
}

const readAnswer = (item: AnswerItem, json: Schema.Json, index: number): ReadonlyArray<Message.AssistantPart> => {
  if ("role" in item) {
    const about = { itemId: item.id ?? undefined, phase: item.phase ?? undefined }
    const blocks =
      typeof item.content === "string" ? [{ type: "output_text", text: item.content } as const] : item.content
    return blocks.map((block) =>
      block.type === "refusal"
        ? { type: "text", text: block.refusal, ...makeOptions({ ...about, refusal: true }) }
        : { type: "text", text: block.text, ...makeOptions(about) }
    )
  }
  switch (item.type) {
    case "reasoning": {
      const about = { itemId: item.id ?? undefined, reasoningEncryptedContent: item.encrypted_content ?? undefined }
      const texts = item.summary.length === 0 ? [""] : item.summary.map(({ text }) => text)
      return texts.map((text) => ({ type: "reasoning", text, ...makeOptions(about) }))
    }
    case "function_call": {
      const part = foreignMessages.readCall(item.call_id, item.name, item.arguments)
      return [{ ...part, ...makeOptions({ itemId: item.id ?? undefined }) }]
    }
    case "custom_tool_call": {
      const part = foreignMessages.readCall(item.call_id, item.name, { input: item.input })
      return [{ ...part, ...makeOptions({ itemId: item.id ?? undefined, custom: true }) }]
    }
    default: {
      const about = { id: `${item.type}_${index}`, name: item.type, ...makeOptions({ item: true }) }
      const result = ToolResult.success(json)
      return [
        { type: "tool-call", ...about, arguments: {}, providerExecuted: true },
        { type: "tool-result", ...about, result }
      ]
    }
  }
}

/** The item of tools that a system message holds. */
const toolsOf = (message: { readonly options?: Json.JsonObject }): Json.JsonObject | undefined => {
  const { item } = optionsOf(message)
  return isObject(item) && item["type"] === "additional_tools" ? item : undefined
}

/** The items as this module writes them, with the items of one answer in a list. */
const writeItems = (body: foreignMessages.MessageBody, form: foreignMessages.Form): Schema.Json => {
  switch (body.role) {
    case "system": {
      const item = toolsOf(body)
      if (item !== undefined) return item
      const text = { type: "input_text", text: body.content }
      return { role: "system", content: form === "blocks" ? [text] : body.content }
    }
    case "user":
      return { role: "user", content: foreignMessages.writeContent(body.content, form === "text", writeBlock) }
    case "assistant":
      return writeAnswer(body.content)
    case "tool": {
      const content = foreignMessages.writeContent(ToolResult.content(body.result), form !== "blocks", writeBlock)
      return { type: "function_call_output", call_id: body.callId, output: content }
    }
  }
}

const writeBlock = (part: ToolResult.Content): Json.JsonObject => {
  if (part.type === "text") return { type: "input_text", text: part.text }
  const { data, fileName: filename, mediaType } = part
  const isId = data.type === "url" && foreignMessages.isFileId(data.url)
  const url = foreignMessages.writeUrl(part)
  if (mediaType.startsWith("image/")) {
    const { imageDetail } = optionsOf(part)
    const detail = typeof imageDetail === "string" ? imageDetail : undefined
    return { type: "input_image", [isId ? "file_id" : "image_url"]: url, ...defined({ detail }) }
  }
  const key = isId ? "file_id" : data.type === "url" ? "file_url" : "file_data"
  return { type: "input_file", [key]: url, ...defined({ filename }) }
}

const writeAnswer = (parts: ReadonlyArray<Message.AssistantPart>): ReadonlyArray<Json.JsonObject> => {
  const items: Array<Json.JsonObject> = []
  for (const part of parts) {
    const { itemId, phase, reasoningEncryptedContent, refusal } = optionsOf(part)
    switch (part.type) {
      case "text": {
        const content = refusal === true ? [{ type: "refusal", refusal: part.text }] : part.text
        if (part.text !== "") items.push({ role: "assistant", content, ...defined({ phase }) })
        break
      }
      case "reasoning": {
        const summary = part.text === "" ? [] : [{ type: "summary_text", text: part.text }]
        const about = defined({ id: itemId, encrypted_content: reasoningEncryptedContent })
        const last = items.at(-1)
        const before = last?.["summary"]
        if (itemId !== undefined && last?.["id"] === itemId && before !== undefined && isArray(before)) {
          items[items.length - 1] = { ...last, ...about, summary: [...before, ...summary] }
        } else items.push({ type: "reasoning", ...about, summary })
        break
      }
      case "tool-call": {
        if (part.providerExecuted === true) break
        const input = foreignMessages.customInput(part)
        const about = { call_id: part.id, name: part.name }
        items.push(
          input !== undefined
            ? { type: "custom_tool_call", ...about, input }
            : { type: "function_call", ...about, arguments: history.textOfCall(part) }
        )
        break
      }
      case "tool-result":
        if (isObject(part.result.value)) items.push(part.result.value)
        break
      default:
        break
    }
  }
  return items
}

/** The results of custom tools are items of another type, which the calls decide. */
const withCustomOutputs = (items: ReadonlyArray<Json.JsonObject>): ReadonlyArray<Json.JsonObject> => {
  const custom = new Set(items.flatMap((item) => (item["type"] === "custom_tool_call" ? [item["call_id"]] : [])))
  return items.map((item) =>
    item["type"] === "function_call_output" && custom.has(item["call_id"])
      ? { ...item, type: "custom_tool_call_output" }
      : item
  )
}

/** The description of a file that the API has no form for. */
const unsupportedFile = ({ mediaType }: ToolResult.FilePart): string | undefined =>
  /^(audio|video)\//u.test(mediaType) ? `a file of type ${mediaType}` : undefined

const isOpaque = Schema.is(Schema.Struct({ type: Schema.Literals(opaqueTypes) }))

const isItem = (part: Message.ToolCallPart | Message.ToolResultPart): boolean =>
  optionsOf(part)["item"] === true && (part.type === "tool-call" || isOpaque(part.result.value))

/** Items without blocks of empty text, and without messages of nothing else. */
const withoutEmptyText = (json: Schema.Json): Schema.Json => {
  if (isArray(json)) {
    const items = json.map(withoutEmptyText)
    return items.filter((item) => {
      const { content = null } = isObject(item) ? item : {}
      return !isArray(content) || content.length > 0
    })
  }
  if (!isObject(json)) return json
  const { content, output } = json
  return { ...json, ...defined({ content: sentBlocks(content), output: sentBlocks(output) }) }
}

const sentBlocks = (blocks: Schema.Json | undefined): Schema.Json | undefined =>
  blocks !== undefined && isArray(blocks) ? blocks.filter((block) => !isObject(block) || block["text"] !== "") : blocks

const decodeAnswer = Schema.decodeUnknownOption(Schema.Array(AnswerItem))

const decodeApart = Schema.decodeUnknownOption(ApartItem)

const answerOf = (items: ReadonlyArray<AnswerItem>, json: Schema.Json): foreignMessages.MessageBody => {
  const raw = isArray(json) ? json : []
  const content = items.flatMap((item, index) => readAnswer(item, raw[index] ?? null, index))
  return { role: "assistant", content }
}

const format: foreignMessages.Format = {
  key: "openai-responses",
  read: (json, role) =>
    Option.getOrUndefined(
      role === "assistant"
        ? Option.map(decodeAnswer(json), (items) => answerOf(items, json))
        : Option.map(decodeApart(json), (item) => readItem(item, json))
    ),
  write: writeItems,
  formOf: (json, role) => {
    const content = isObject(json) ? json[role === "tool" ? "output" : "content"] : undefined
    return typeof content === "string" ? "text" : isArray(content ?? null) ? "blocks" : undefined
  },
  withoutRefused: withoutEmptyText,
  isSent: (text) => text !== "",
  keepsSystem: (message) => toolsOf(message) !== undefined,
  unsupportedFile,
  supportedFiles: "text, an image, or a file that is no recording",
  keepsFile: () => false,
  hasResultFiles: true,
  keepsReasoning: (part) => {
    const { itemId, reasoningEncryptedContent } = optionsOf(part)
    return typeof itemId === "string" || typeof reasoningEncryptedContent === "string"
  },
  supportedReasoning: "reasoning with an id or encrypted content of OpenAI, and content after it",
  keepsProviderTool: isItem,
  supportedTools: "tools that the application runs, or items that were read from this format"
}

const receiveItems = Effect.fnUntraced(function* (input: unknown, limits: Partial<Limits> | undefined) {
  const options = { what: "OpenAI items", path: "", limits, onExcessProperty: "ignore" } as const
  const json = yield* Json.check(input, options)
  const items = isArray(json) ? json : []
  yield* foreignMessages.checkMessages(items, ["system", "developer", "user", "assistant"], options)
  yield* foreignMessages.refuse(foreignMessages.foreignBlocks(items, types, ""), options)
  const wire = yield* Json.decode(Schema.Array(Item), options)(json)
  const foreign: Array<foreignMessages.ForeignMessage> = []
  const answer: Array<AnswerItem> = []
  const endAnswer = (end: number): void => {
    const start = end - answer.length
    const raw = items.slice(start, end)
    if (answer.length > 0) foreign.push(foreignMessages.readMessage(format, answerOf(answer, raw), raw, start))
    answer.length = 0
  }
  for (const [index, item] of wire.entries()) {
    if (isApart(item)) {
      endAnswer(index)
      foreign.push(foreignMessages.readMessage(format, readItem(item, items[index] ?? null), items[index], index))
    } else answer.push(item)
  }
  endAnswer(wire.length)
  return foreign
})

const isApart = Schema.is(ApartItem)
