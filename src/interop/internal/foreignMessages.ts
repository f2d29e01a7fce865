/**
 * Code that the message formats of providers share: reading with notes that keep what our model has no field for, and writing with the rules of a provider.
 */

import * as Arr from "effect/Array"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as JsonPatch from "effect/JsonPatch"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as ConversationError from "../../conversation/ConversationError.ts"
import * as Message from "../../conversation/Message.ts"
import * as conversationCodec from "../../conversation/internal/conversationCodec.ts"
import * as history from "../../conversation/internal/history.ts"
import type { JsonObject } from "../../payload/Json.ts"
import type { Limits } from "../../payload/Limits.ts"
import { invalid, PayloadError, type Problem } from "../../payload/PayloadError.ts"
import * as base from "../../payload/internal/base.ts"
import { checkCount, resolveLimits } from "../../payload/internal/limits.ts"
import { defined, equalsJson, isObject, kindOf, own } from "../../payload/internal/values.ts"
import { toWellFormed } from "../../payload/internal/weigh.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type * as RenderError from "../RenderError.ts"

/** The content of a message without its id and time, which it gets when it is read. */
type BodyOf<M> = M extends Message.Message ? Omit<M, "id" | "createdAt" | "usage" | "metadata"> : never

export type MessageBody = BodyOf<Message.Message>

type Role = Message.Message["role"]

/** Reading and writing of one provider's messages, and the content that the provider accepts. */
export interface Format {
  /** The key of the notes. */
  readonly key: NoteKey
  readonly read: (json: Schema.Json, role: Role) => MessageBody | undefined
  readonly write: (body: MessageBody, form: Form) => Schema.Json
  readonly formOf: (json: Schema.Json, role: Role) => Form
  /** The message as it was received, without the content that the provider refuses; `written` is the same message as we write it. */
  readonly withoutRefused: (json: Schema.Json, written: Schema.Json) => Schema.Json
  /** The text can be sent. */
  readonly isSent: (text: string) => boolean
  /** The system message holds something for the provider beside its text. */
  readonly keepsSystem: (message: Message.SystemMessage) => boolean
  /** The file in words, if the format has no form for it. Empty files, and files of another provider, have none anywhere. */
  readonly unsupportedFile: (part: ToolResult.FilePart) => string | undefined
  readonly supportedFiles: string
  /** The provider takes the file back in an answer. */
  readonly keepsFile: (part: ToolResult.FilePart) => boolean
  /** Results can hold files. */
  readonly hasResultFiles: boolean
  /** The reasoning has a place in the format. */
  readonly keepsReasoning: (part: Message.ReasoningPart) => boolean
  readonly supportedReasoning: string
  /** The provider itself ran the tool, and the format has a form for it. */
  readonly keepsProviderTool: (part: Message.ToolCallPart | Message.ToolResultPart) => boolean
  readonly supportedTools: string
}

const keys = ["openai", "anthropic"] as const

type Key = (typeof keys)[number]

/** The key of the notes of a format. */
type NoteKey = Key | "openai-responses"

/** A call whose arguments are text or JSON. */
export const readCall = (id: string, name: string, args: Schema.Json | undefined): Message.ToolCallPart =>
  typeof args === "string"
    ? Message.toolCallPart({ id, name, text: args })
    : Message.toolCallPart({ id, name, arguments: args ?? {} })

/** The text of instructions. */
export const readInstructions = (content: string | ReadonlyArray<{ readonly text: string }>): string =>
  typeof content === "string" ? content : content.map(({ text }) => text).join("\n\n")

/** Content without parts is what a message with empty text is, and the laws refuse both. */
export const readContent = <Block>(
  given: string | ReadonlyArray<Block>,
  read: (block: Block) => ToolResult.Content
): ToolResult.NonEmptyContent => {
  const content = typeof given === "string" ? [ToolResult.textPart(given)] : given.map(read)
  return Arr.isReadonlyArrayNonEmpty(content) ? content : [ToolResult.textPart("")]
}

/** Parts as blocks, without empty text; one text as a string, if that is allowed. */
export const writeContent = (
  content: ToolResult.NonEmptyContent,
  isTextAllowed: boolean,
  write: (part: ToolResult.Content) => JsonObject
): Schema.Json => {
  const sent = content.filter((part) => part.type === "file" || part.text !== "")
  const [first] = sent
  if (first === undefined) return ""
  return isTextAllowed && sent.length === 1 && first.type === "text" ? first.text : sent.map(write)
}

export const readResult = (content: ToolResult.NonEmptyContent, isError: boolean = false): ToolResult.ToolResult => {
  const text = ToolResult.text(content)
  if (!isError) return ToolResult.success(text, content)
  const [first, second] = content
  const isPlain = second === undefined && first.type === "text" && first.options === undefined
  return { ...ToolResult.failure("execution_error", text), ...(isPlain ? undefined : { content }) }
}

const base64Marker = ";base64"

/** A file by its URL; a data URL is its content. */
export const readFile = (url: string, mediaType: string): ToolResult.FilePart => {
  const comma = url.indexOf(",")
  const head = comma < 0 ? "" : url.slice(0, comma)
  return head.startsWith("data:") && head.endsWith(base64Marker)
    ? {
        type: "file",
        mediaType: head.slice("data:".length, -base64Marker.length) || mediaType,
        data: { type: "base64", base64: url.slice(comma + 1) }
      }
    : { type: "file", mediaType, data: { type: "url", url } }
}

/** The URL of a file; content is a data URL. */
export const writeUrl = ({ data, mediaType }: ToolResult.FilePart): string =>
  data.type === "url" ? data.url : `data:${mediaType};base64,${data.base64}`

/** Ids of uploaded files take the place of a URL, and have no scheme. */
export const isFileId = (url: string): boolean => !/^[a-z][a-z0-9+.-]*:/iu.test(url)

/** Another provider keeps the file: its id means nothing here, or names another file. */
const isElsewhere = (key: NoteKey, part: ToolResult.FilePart): boolean =>
  keys.some((other) => !key.startsWith(other) && readOptions(other, part)["fileId"] === true)

/** One provider's options of a part or message, if they are an object. */
export const readOptions = (key: Key, { options }: { readonly options?: JsonObject }): JsonObject => {
  const found = options === undefined ? undefined : own(options, key)
  return isObject(found) ? found : {}
}

/** The text for a custom tool of OpenAI, if the call is for one. */
export const customInput = (part: Message.ToolCallPart): string | undefined => {
  const { input } = isObject(part.arguments) ? part.arguments : {}
  return readOptions("openai", part)["custom"] === true && typeof input === "string" ? input : undefined
}

/** Provider options that hold something. */
export const providerOptions = (key: Key, given: { readonly [key: string]: Schema.Json | undefined }) => {
  // Sound: the undefined members of an index signature are left out.
  const options = defined(given) as JsonObject
  return Object.keys(options).length === 0 ? {} : { options: { [key]: options } }
}

const Patch = Schema.Array(
  Schema.Union([
    Schema.Struct({ op: Schema.Literals(["add", "replace"]), path: Schema.String, value: Schema.Json }),
    Schema.Struct({ op: Schema.Literal("remove"), path: Schema.String })
  ])
)

/** Facts about a received message that our model has no field for. */
export const Note = Schema.Struct({
  /** The form of the content, if there are two. */
  form: Schema.optionalKey(Schema.Literals(["text", "blocks"])),
  /** From the content that we would write to the content that was received. */
  patch: Schema.optionalKey(Patch),
  /** Members of the message that we do not know, where it became several messages. */
  members: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  /** The document had no member `system`; noted at the first message. */
  withoutSystem: Schema.optionalKey(Schema.Literal(true)),
  /** A user message was in one message with the results before it. */
  joined: Schema.optionalKey(Schema.Literal(true)),
  /** The position of a result among the results of its batch, if not in call order. */
  place: Schema.optionalKey(Schema.Int)
})

export type Note = typeof Note.Type

export type Form = Note["form"]

const decodeNote = Schema.decodeUnknownOption(Note)

/** The key of the metadata that holds the note. */
const metadataKey = (key: NoteKey): string => `effect-emissary/${key}`

export const noteOf = (key: NoteKey, { metadata = {} }: Message.Message): Note => {
  const note = own(metadata, metadataKey(key))
  return note === undefined ? {} : Option.getOrElse(decodeNote(note), () => ({}))
}

const noteMetadata = (key: NoteKey, note: Note): { readonly metadata?: JsonObject } =>
  Object.keys(note).length === 0 ? {} : { metadata: { [metadataKey(key)]: { ...note } } }

/** A message of what was received. */
export interface ForeignMessage {
  /** Position in what was received. */
  readonly index: number
  readonly body: MessageBody
  readonly note: Note
}

/** Notes what the body that was read from the JSON does not hold of it. */
export const readMessage = (format: Format, body: MessageBody, json: Schema.Json | undefined, index: number) => {
  if (json === undefined) return { index, body, note: {} }
  const form = format.formOf(json, body.role)
  const written = format.write(body, form)
  const sent = format.withoutRefused(json, written)
  const patch = equalsJson(sent, written) ? undefined : JsonPatch.get(written, sent)
  return { index, body, note: defined({ form, patch }) }
}

/**
 * Writes a message as it was received, provided that this has the same content and is lawful. A patch that does not fit,
 * for example because it was forged, changes nothing.
 */
const writeMessage = (format: Format, message: Message.Message): Schema.Json => {
  const { form, patch } = noteOf(format.key, message)
  const written = format.write(message, form)
  if (patch === undefined) return written
  const patched = Result.getOrElse(
    Result.try(() => JsonPatch.apply(patch, written)),
    () => written
  )
  const body = format.read(patched, message.role)
  return body !== undefined &&
    Equal.equals(format.write(body, form), written) &&
    Equal.equals(format.withoutRefused(patched, written), patched)
    ? patched
    : written
}

/** Fails at more messages than the limits allow, and at the first message whose role the format does not have. */
export const checkMessages = Effect.fnUntraced(function* (
  items: ReadonlyArray<unknown>,
  roles: ReadonlyArray<string>,
  options: Parameters<typeof checkCount>[2]
) {
  yield* checkCount("messages", items.length, options)
  for (const [index, item] of items.entries()) {
    const role = isObject(item) ? own(item, "role") : undefined
    if (typeof role === "string" && !roles.includes(role)) {
      const found = JSON.stringify(role.slice(0, 40))
      return yield* new ConversationError.ConversationError({ reason: { _tag: "UnknownRole", index, roles, found } })
    }
  }
})

/** Fails if there are problems. */
export const refuse = (
  issues: ReadonlyArray<Problem>,
  { limits, what }: { readonly what: string; readonly limits?: Partial<Limits> | undefined }
): Effect.Effect<void, PayloadError> =>
  issues.length === 0
    ? Effect.void
    : Effect.flatMap(resolveLimits(limits), ({ maxIssues }) => {
        const reason = invalid(issues.slice(0, maxIssues), Math.max(0, issues.length - maxIssues))
        return Effect.fail(new PayloadError({ what, reason }))
      })

/** The types of blocks, without the marks of types that are not known. */
export const typesOf = (
  blocks: ReadonlyArray<{ readonly fields: { readonly type: { readonly literal: string } } }>
): ReadonlyArray<string> =>
  blocks.map(({ fields }) => fields.type.literal).filter((type) => type !== "unknown" && type !== "server_tool_result")

/** A block of a type that this version does not know: its JSON is kept as data. */
export const UnknownBlock = Schema.Struct({
  type: Schema.Literal("unknown"),
  block: Schema.Record(Schema.String, Schema.Json)
})

/** The type of a block, if it has one. */
export const typeOf = (block: unknown): string | undefined => {
  const type = isObject(block) ? own(block, "type") : undefined
  return typeof type === "string" ? type : undefined
}

/** A block that is not known, as text that names its type to other providers. */
export const readUnknown = (key: Key, { block }: typeof UnknownBlock.Type): ToolResult.TextPart => ({
  type: "text",
  text: `[${base.truncateText(typeOf(block) ?? "", 40)} omitted]`,
  ...providerOptions(key, { unknown: block })
})

/** The block that is not known, for the provider that it is from. */
export const writeUnknown = (key: Key, part: { readonly options?: JsonObject }): JsonObject | undefined => {
  const { unknown } = readOptions(key, part)
  return isObject(unknown) ? unknown : undefined
}

/** The blocks of other types than these: the schema of the blocks would name the expected types only. */
export const foreignBlocks = (blocks: unknown, types: ReadonlyArray<string>, path: string): ReadonlyArray<Problem> =>
  (Array.isArray(blocks) ? blocks : []).flatMap((block: unknown, index) => {
    const type = typeOf(block)
    return type === undefined || types.includes(type)
      ? []
      : [
          {
            path: `${path}/${index}/type`,
            expected: `one of ${types.join(", ")}`,
            found: JSON.stringify(type.slice(0, 40))
          }
        ]
  })

/** A message with its JSON, at the position of the first foreign message that it holds. */
export interface Received<M> {
  readonly message: M
  readonly json: Schema.Json
  readonly index: number
}

/** Joins an answer to the one before it while the calls of that one wait for their results, as providers do. */
export const joinAnswers = <M>(
  messages: ReadonlyArray<M>,
  items: ReadonlyArray<Schema.Json>,
  join: (open: Received<M>, next: Received<M>) => Received<M> | undefined
): ReadonlyArray<Received<M>> => {
  const joined: Array<Received<M>> = []
  for (const [index, message] of messages.entries()) {
    const one = { message, json: items[index] ?? null, index }
    const last = joined.at(-1)
    const both = last === undefined ? undefined : join(last, one)
    if (both === undefined) joined.push(one)
    else joined[joined.length - 1] = both
  }
  return joined
}

/** Text as a block, for a list of blocks. */
export const asBlocks = <Block>(
  content: string | ReadonlyArray<Block>
): ReadonlyArray<Block | { readonly type: "text"; readonly text: string }> => {
  if (typeof content !== "string") return content
  return content === "" ? [] : [{ type: "text", text: content }]
}

/** Options of readers. */
export interface ReadOptions extends history.ReadOptions {
  /** Limits that differ from the current ones. */
  readonly limits?: Partial<Limits> | undefined
}

type ReadError = PayloadError | ConversationError.ConversationError

/** A function that reads messages of a provider as a conversation: `toConversation` of its module describes it. */
export type Reader = conversationCodec.Reader<unknown, ReadOptions, ReadError>

/** Reads a conversation: laws are checked, or with `onUnlawful: "repair"` repaired. */
export const makeReader = (
  key: NoteKey,
  receive: (input: unknown, limits: ReadOptions["limits"]) => Effect.Effect<ReadonlyArray<ForeignMessage>, ReadError>
): Reader => {
  const read = Effect.fnUntraced(function* (input: unknown, options: ReadOptions | undefined) {
    const foreign = yield* receive(input, options?.limits)
    return { foreign, messages: yield* makeMessages(key, foreign) }
  })
  return conversationCodec.makeReader(
    Effect.fnUntraced(function* (input, options) {
      const { foreign, messages } = yield* read(input, options)
      const start = history.limited(history.empty, options?.tokenLimit)
      return yield* Effect.fromResult(
        history.appendEach(start, messages, options?.laterSystem, (position) => foreign[position]?.index)
      )
    }),
    (input, options) =>
      Effect.flatMap(read(input, options), ({ messages }) => conversationCodec.repairMessages(messages, options))
  )
}

/** Makes messages of what was received, with new ids and times. */
const makeMessages = Effect.fnUntraced(function* (key: NoteKey, foreign: ReadonlyArray<ForeignMessage>) {
  const names = new Map<string, string>()
  const messages: Array<Message.Message> = []
  const makeId = yield* Message.MessageId
  const createdAt = yield* DateTime.now
  for (const { body, note } of notePlaces(foreign)) {
    if (body.role === "assistant") {
      for (const part of body.content) if (part.type === "tool-call") names.set(part.id, part.name)
    }
    const message = { id: yield* makeId, createdAt, ...nameResults(names, body), ...noteMetadata(key, note) }
    history.freezeDecoded(message)
    messages.push(message)
  }
  return messages
})

/** Names of calls by their ids: results may name the call only, which may be part of an earlier message. */
type CallNames = ReadonlyMap<string, string>

const nameResults = (names: CallNames, body: MessageBody): MessageBody => {
  if (body.role === "tool") return body.name === "" ? { ...body, name: names.get(body.callId) ?? "" } : body
  if (body.role !== "assistant" || !body.content.some((part) => part.type === "tool-result")) return body
  const content = body.content.map((part) =>
    part.type === "tool-result" ? { ...part, name: names.get(part.id) ?? part.name } : part
  )
  return { ...body, content }
}

/** Notes the positions of the results of a batch, unless they are in call order. */
const notePlaces = (foreign: ReadonlyArray<ForeignMessage>): ReadonlyArray<ForeignMessage> => {
  const all: Array<ForeignMessage> = []
  for (let start = 0, end = 0; start < foreign.length; start = end) {
    const head = foreign[start]
    do end += 1
    while (foreign[end]?.body.role === "tool")
    const calls = head?.body.role === "assistant" ? head.body.content.filter(history.isLocalCall) : []
    const placeOf = new Map(calls.map(({ id }, place) => [id, place] as const))
    const batch = foreign.slice(start, end)
    const places = batch.slice(1).map(({ body }) => (body.role === "tool" ? placeOf.get(body.callId) : undefined) ?? -1)
    const isOrdered = places.every((place, index) => place >= (places[index - 1] ?? place))
    for (const [at, one] of batch.entries()) {
      all.push(isOrdered || at === 0 ? one : { ...one, note: { ...one.note, place: at - 1 } })
    }
  }
  return all
}

/** Messages with the results of a batch in the order in which they were read. */
const restoreOrder = (key: NoteKey, messages: ReadonlyArray<Message.Message>): ReadonlyArray<Message.Message> =>
  history.groupResults(messages).flatMap(({ message, results }): ReadonlyArray<Message.Message> => {
    const placeOf = (result: Message.ToolMessage) => noteOf(key, result).place ?? results.length
    return [...(message === undefined ? [] : [message]), ...results.toSorted((a, b) => placeOf(a) - placeOf(b))]
  })

/** A format as a schema. The issue of a refusal is its message. */
export const formatCodec = <D extends Error, E extends Error>(
  identifier: string,
  decode: (input: Schema.Json) => Effect.Effect<history.Conversation, D>,
  encode: (self: history.Conversation) => Result.Result<Schema.Json, E>
): Schema.Codec<history.Conversation, Schema.Json> => {
  const issue = (input: unknown) => (error: Error) =>
    new SchemaIssue.InvalidValue({ message: error.message }, input, {})
  return Schema.Json.pipe(
    Schema.decodeTo(Schema.declare<history.Conversation>(history.isConversation, { identifier }), {
      decode: SchemaGetter.transformEffect((json: Schema.Json) => Effect.mapError(decode(json), issue(json))),
      encode: SchemaGetter.transformEffect((self: history.Conversation) =>
        Effect.fromResult(Result.mapError(encode(self), issue(self)))
      )
    })
  )
}

export interface RenderOptions {
  /** The treatment of reasoning that the provider would refuse: `"omit"` (default) leaves it out; `"refuse"` fails. */
  readonly reasoning?: "omit" | "refuse" | undefined
  /** A function from the name of a tool to the name that the provider knows; default: the same name. */
  readonly toolName?: ((name: string) => string) | undefined
  /**
   * The treatment of files in tool results, which can hold text only: `"refuse"` (default) fails; `"describe"` sends
   * `[image/png a.png omitted]`.
   */
  readonly toolFiles?: "refuse" | "describe" | undefined
  /**
   * The treatment of tool arguments that are no object: `"wrap"` (default) sends `{ invalid_arguments }`, as
   * `Conversation.toPrompt` does; `"refuse"` fails.
   */
  readonly invalidArguments?: "refuse" | "wrap" | undefined
}

/** A message and its place in the conversation. */
type MessagePlace = Pick<RenderError.Reason, "index" | "id">

type Check<A> = Result.Result<A, RenderError.Reason>

/** A message, and what is sent of it. */
export interface WrittenMessage {
  readonly message: Message.Message
  readonly json: Schema.Json
}

/** Writes every message of a conversation that is not open, results in the order in which they were read. */
export const writeMessages = (format: Format, self: history.Conversation, options: RenderOptions) =>
  Result.gen(function* () {
    const messages = history.messages(self)
    yield* checkClosed(self, messages)
    const unanswered = history.unansweredCalls(history.asHistory(self))
    const prepared: Array<Message.Message> = []
    for (const [index, whole] of messages.entries()) {
      const message = history.withoutUnanswered(unanswered, whole)
      const sent = yield* prepareMessage(format, message, { index, id: message.id }, options)
      if (hasContent(format, sent)) prepared.push(sent)
    }
    return restoreOrder(format.key, prepared).map((message) => ({
      message,
      // Messages that were stored may have halves of characters
      json: toWellFormed(writeMessage(format, message))
    }))
  })

/** Empty answers and system messages without text are left out, as prompts do, unless they hold something for the provider. */
const hasContent = (format: Format, message: Message.Message): boolean =>
  message.role === "system"
    ? format.isSent(message.content) || format.keepsSystem(message)
    : message.role !== "assistant" || message.content.length > 0

/** Fails where the end of a conversation is open. */
const checkClosed = (self: history.Conversation, messages: ReadonlyArray<Message.Message>): Check<void> => {
  const callIds = history.openCalls(self).map(({ id }) => id)
  if (callIds.length === 0) return Result.void
  const index = messages.findLastIndex((message) => message.role === "assistant")
  return Result.fail({ _tag: "UnansweredCalls", index, id: messages[index]?.id ?? "", callIds })
}

/** The message as it is sent, if the format can hold it and the provider accepts it. */
const prepareMessage = (
  format: Format,
  message: Message.Message,
  place: MessagePlace,
  options: RenderOptions
): Check<Message.Message> => {
  switch (message.role) {
    case "system":
      return Result.succeed(message)
    case "user":
      return checkFiles(format, message, message.content, place)
    case "assistant":
      return Result.map(prepareParts(format, message, place, options), (content) => ({ ...message, content }))
    case "tool": {
      const content = ToolResult.content(message.result)
      return format.hasResultFiles
        ? checkFiles(format, message, content, place)
        : Result.map(describeFiles(content, place, options), (content) => ({
            ...message,
            result: { ...message.result, content }
          }))
    }
  }
}

const refuseContent = (place: MessagePlace, found: string, expected: string): Check<never> =>
  Result.fail({ _tag: "UnsupportedContent", ...place, found, expected })

const refuseFile = (place: MessagePlace, { mediaType }: ToolResult.FilePart, expected: string): Check<never> =>
  refuseContent(place, `a file of type ${mediaType}`, expected)

/** The message, if the provider accepts the files of its content. */
const checkFiles = (
  format: Format,
  message: Message.Message,
  content: ToolResult.NonEmptyContent,
  place: MessagePlace
): Check<Message.Message> => {
  const [found] = content.flatMap((part) => (part.type === "file" ? (problemOf(format, part) ?? []) : []))
  return found === undefined ? Result.succeed(message) : refuseContent(place, found, format.supportedFiles)
}

const problemOf = ({ key, unsupportedFile }: Format, part: ToolResult.FilePart): string | undefined => {
  const { data } = part
  if (isElsewhere(key, part)) return "the id of a file that another provider keeps"
  return (data.type === "base64" ? data.base64 : data.url) === "" ? "an empty file" : unsupportedFile(part)
}

/** The content of a result with words for its files. */
const describeFiles = (
  content: ToolResult.NonEmptyContent,
  place: MessagePlace,
  { toolFiles }: RenderOptions
): Check<ToolResult.NonEmptyContent> => {
  const file = content.find((part) => part.type === "file")
  return file === undefined || toolFiles === "describe"
    ? Result.succeed(
        Arr.map(content, (part) => (part.type === "file" ? ToolResult.textPart(ToolResult.text([part])) : part))
      )
    : refuseFile(place, file, `text in a tool result (pass { toolFiles: "describe" } to send a placeholder)`)
}

/** The parts of an assistant message that the provider accepts. */
const prepareParts = (
  format: Format,
  message: Message.AssistantMessage,
  place: MessagePlace,
  options: RenderOptions
): Check<ReadonlyArray<Message.AssistantPart>> =>
  Result.gen(function* () {
    const content: Array<Message.AssistantPart> = []
    const refuseReasoning = () =>
      Result.fail({ _tag: "UnsupportedReasoning", ...place, expected: format.supportedReasoning } as const)
    for (const part of message.content) {
      switch (part.type) {
        case "text":
          if (format.isSent(part.text)) content.push(part)
          break
        case "reasoning":
          if (format.keepsReasoning(part)) content.push(part)
          else if (options.reasoning === "refuse") return yield* refuseReasoning()
          break
        case "tool-call":
        case "tool-result": {
          const isProvider = part.type === "tool-result" || part.providerExecuted === true
          if (isProvider && !format.keepsProviderTool(part)) {
            const found = `the tool "${part.name}" that a provider ran itself`
            return yield* refuseContent(place, found, format.supportedTools)
          }
          content.push(part.type === "tool-call" ? yield* prepareCall(part, place, options) : part)
          break
        }
        case "file":
          if (!format.keepsFile(part)) {
            return yield* refuseFile(place, part, "text and tool calls in an assistant message")
          }
          content.push(part)
          break
        case "source":
          break
      }
    }
    const sent = history.saidParts(content, format.isSent)
    const left = content.slice(sent.length).some((part) => part.type === "reasoning")
    return left && options.reasoning === "refuse" ? yield* refuseReasoning() : sent
  })

/** A call under the name and with the arguments that are sent. */
const prepareCall = (
  part: Message.ToolCallPart,
  place: MessagePlace,
  options: RenderOptions
): Check<Message.ToolCallPart> => {
  const name = part.providerExecuted === true ? part.name : (options.toolName?.(part.name) ?? part.name)
  if (isObject(part.arguments)) return Result.succeed({ ...part, name })
  if (options.invalidArguments === "refuse") {
    const found = kindOf(part.arguments)
    return Result.fail({ _tag: "InvalidArguments", ...place, callId: part.id, name: part.name, found })
  }
  const { text: _, ...rest } = part
  return Result.succeed({ ...rest, name, arguments: { invalid_arguments: part.arguments } })
}
