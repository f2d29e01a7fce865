/**
 * What the message formats of providers have in common: the neutral form of a message, the notes that keep what our model has no field for, and the rendering of tool calls.
 */

import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaGetter from "effect/SchemaGetter"
import * as SchemaIssue from "effect/SchemaIssue"
import * as ConversationError from "../../conversation/ConversationError.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as messageData from "../../conversation/internal/messageData.ts"
import type { JsonObject } from "../../payload/Json.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as RenderError from "../RenderError.ts"

export const toolCallFromArguments = (id: string, name: string, args: Schema.Json | undefined): Message.ToolCallPart =>
  typeof args === "string"
    ? Message.toolCallPartFromText({ id, name, text: args })
    : Message.toolCallPart({ id, name, arguments: args ?? {} })

/** Ids of uploaded files stand in place of a URL, and have no scheme. */
export const isFileId = (url: string): boolean => !/^[a-z][a-z0-9+.-]*:/iu.test(url)

/** What our model has no field for, so that a message goes out as it came in. */
export const Note = Schema.Struct({
  /** How the content was written, where there are two ways. */
  form: Schema.optionalKey(Schema.Literals(["text", "blocks"])),
  /** From what we would write to what was read. */
  delta: Schema.optionalKey(Schema.Json),
  /** The same for the message around the blocks, where it became several messages. */
  outer: Schema.optionalKey(Schema.Json),
  /** The same for the document around the messages; noted at the first message. */
  top: Schema.optionalKey(Schema.Json),
  /** Whether a user message stood in one message with the results before it. */
  joined: Schema.optionalKey(Schema.Literal(true)),
  /** Where a result stood among the results of its batch, if not in call order. */
  place: Schema.optionalKey(Schema.Int)
})

export type Note = typeof Note.Type

export type Form = Note["form"]

type Format = "openai" | "anthropic"

/** The key of the metadata that holds the note. */
const metadataKeys: { readonly [F in Format]: string } = {
  openai: "effect-emissary/openai",
  anthropic: "effect-emissary/anthropic"
}

const decodeNote = Schema.decodeUnknownOption(Note)

const emptyNote: Note = {}

export const noteOfMessage = (format: Format, { metadata }: Message.Message): Note =>
  metadata !== undefined && Object.hasOwn(metadata, metadataKeys[format])
    ? Option.getOrElse(decodeNote(metadata[metadataKeys[format]]), () => emptyNote)
    : emptyNote

type NoteEntries = { readonly [K in keyof Note]: Note[K] | undefined }

/** The metadata that holds the note, if it says anything. */
const noteMetadata = (format: Format, note: NoteEntries): { readonly metadata?: JsonObject } => {
  const entries = Object.entries(note).flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]))
  return entries.length === 0 ? {} : { metadata: { [metadataKeys[format]]: Object.fromEntries(entries) } }
}

/**
 * What leads from one JSON value to another, `undefined` if nothing does: the
 * order of keys counts.
 */
export const diff = (from: Schema.Json, to: Schema.Json): JsonObject | undefined => {
  if (messageData.isJsonObject(from) && messageData.isJsonObject(to)) return diffObjects(from, to)
  if (Array.isArray(from) && Array.isArray(to) && from.length === to.length) {
    const items = to.flatMap((item: Schema.Json, index) => {
      const inner = diff(from[index], item)
      return inner === undefined ? [] : [[String(index), inner] as const]
    })
    return items.length === 0 ? undefined : { items: Object.fromEntries(items) }
  }
  return from === to ? undefined : { value: to }
}

const diffObjects = (from: JsonObject, to: JsonObject): JsonObject | undefined => {
  const keys = Object.keys(to)
  const add: Array<readonly [string, Schema.Json]> = []
  const inner: Array<readonly [string, Schema.Json]> = []
  for (const [key, value] of Object.entries(to)) {
    const old = Object.hasOwn(from, key) ? from[key] : undefined
    const change = old === undefined ? undefined : diff(old, value)
    if (old === undefined) add.push([key, value])
    else if (change !== undefined) inner.push([key, change])
  }
  const isInOrder = JSON.stringify(keys) === JSON.stringify(Object.keys(from))
  if (isInOrder && inner.length === 0) return undefined
  return {
    ...(isInOrder ? undefined : { keys }),
    ...(add.length === 0 ? undefined : { add: Object.fromEntries(add) }),
    ...(inner.length === 0 ? undefined : { inner: Object.fromEntries(inner) })
  }
}

/** Applies a difference. One that does not fit, in whole or in part, changes nothing there. */
export const applyDiff = (from: Schema.Json, delta: Schema.Json | undefined): Schema.Json => {
  if (!messageData.isJsonObject(delta)) return from
  if (Object.hasOwn(delta, "value")) return delta["value"] ?? null
  if (messageData.isJsonObject(from)) return applyObjectDiff(from, delta)
  const items = delta["items"]
  return Array.isArray(from) && messageData.isJsonObject(items)
    ? from.map((item: Schema.Json, index) => applyDiff(item, ownField(items, String(index))))
    : from
}

const applyObjectDiff = (from: JsonObject, { add, inner, keys }: JsonObject): JsonObject => {
  const order = Array.isArray(keys) ? keys.filter((key) => typeof key === "string") : Object.keys(from)
  return Object.fromEntries(
    order.flatMap((key) => {
      const added = messageData.isJsonObject(add) ? ownField(add, key) : undefined
      if (added !== undefined) return [[key, added] as const]
      const old = ownField(from, key)
      if (old === undefined) return []
      return [[key, messageData.isJsonObject(inner) ? applyDiff(old, ownField(inner, key)) : old] as const]
    })
  )
}

export const ownField = (object: JsonObject, key: string): Schema.Json | undefined =>
  Object.hasOwn(object, key) ? object[key] : undefined

/** One provider's options of a part or message, if they are an object. */
export const readOptions = (format: Format, self: { readonly options?: JsonObject }): JsonObject | undefined => {
  const options = self.options === undefined ? undefined : ownField(self.options, format)
  return messageData.isJsonObject(options) ? options : undefined
}

/** Provider options that hold something. */
export const providerOptions = (
  format: Format,
  given: { readonly [key: string]: Schema.Json | undefined }
): { readonly options?: JsonObject } => {
  const entries = Object.entries(given).flatMap(([key, value]) => (value === undefined ? [] : [[key, value] as const]))
  return entries.length === 0 ? {} : { options: { [format]: Object.fromEntries(entries) } }
}

/** Whether results did not stand in call order. */
const isReordered = (calls: ReadonlyArray<string>, results: ReadonlyArray<string>): boolean => {
  const positions = results.map((id) => calls.indexOf(id))
  return positions.some((position, index) => index > 0 && position < (positions[index - 1] ?? 0))
}

/** Results as they stood when they were read. */
export const restoreOrder = <A extends { readonly message: Message.Message }>(
  format: Format,
  results: ReadonlyArray<A>
): ReadonlyArray<A> => {
  const noted = results.map((result) => ({ result, place: noteOfMessage(format, result.message).place }))
  return noted.every(({ place }) => place !== undefined)
    ? noted.toSorted((a, b) => (a.place ?? 0) - (b.place ?? 0)).map(({ result }) => result)
    : results
}

type WithOptions = { readonly options?: ToolResult.ProviderOptions }

/** What a message of a provider's format says, in our words. */
export type ForeignMessage = WithOptions &
  (
    | { readonly role: "system"; readonly content: string }
    | { readonly role: "user"; readonly content: ReadonlyArray<ToolResult.Content> }
    | { readonly role: "assistant"; readonly content: ReadonlyArray<Message.AssistantPart> }
    | {
        readonly role: "tool"
        readonly callId: string
        readonly name?: string
        readonly content: ReadonlyArray<ToolResult.Content>
        readonly isError?: boolean
      }
  )

export interface ReceivedMessage {
  /** Position in what was received. */
  readonly index: number
  readonly said: ForeignMessage
  readonly note: Note
}

/** Fails at the first message whose role the format does not have. */
export const checkRoles = (
  items: ReadonlyArray<unknown>,
  known: ReadonlyArray<string>
): Effect.Effect<void, ConversationError.ConversationError> => {
  for (const [index, item] of items.entries()) {
    if (!messageData.isJsonObject(item)) continue
    const role = ownField(item, "role")
    if (typeof role === "string" && !known.includes(role)) {
      const found = JSON.stringify(role.slice(0, 40))
      return Effect.fail(
        new ConversationError.ConversationError({ reason: new ConversationError.UnknownRole({ index, found }) })
      )
    }
  }
  return Effect.void
}

interface MadeMessage {
  readonly index: number
  readonly message: Message.Message
}

/** Makes messages of what was received, with new ids and times. */
const makeMessages = Effect.fnUntraced(function* (format: Format, received: ReadonlyArray<ReceivedMessage>) {
  const names = new Map<string, string>()
  const all: Array<MadeMessage> = []
  for (const { index, note, said } of notePlaces(received)) {
    const { options } = said
    if (said.role === "assistant") {
      for (const part of said.content) if (part.type === "tool-call") names.set(part.id, part.name)
    }
    const message = yield* makeMessage(names, said, {
      ...noteMetadata(format, note),
      ...(options === undefined ? undefined : { options })
    })
    all.push({ index, message })
  }
  return all
})

/** A conversation of what was received, every law checked. */
export const toConversation = Effect.fnUntraced(function* (
  format: Format,
  received: ReadonlyArray<ReceivedMessage>,
  tokenLimit: number | undefined
) {
  let self = history.empty(tokenLimit)
  for (const { index, message } of yield* makeMessages(format, received)) {
    const reason = history.checkMessage(self, message, index)
    if (reason !== undefined) return yield* new ConversationError.ConversationError({ reason })
    self = history.pushMessage(self, message)
  }
  return self
})

/** A conversation of what was received, with the changes that its laws asked for. */
export const toRepaired = (
  format: Format,
  received: ReadonlyArray<ReceivedMessage>,
  tokenLimit: number | undefined
): Effect.Effect<history.Repaired> =>
  Effect.flatMap(makeMessages(format, received), (all) =>
    history.repairMessages(
      all.map(({ message }) => message),
      { tokenLimit }
    )
  )

/** Names of calls by their ids: results may name the call only, which may stand in an earlier message. */
type CallNames = ReadonlyMap<string, string>

const makeMessage = (
  names: CallNames,
  said: ForeignMessage,
  options: Message.Options
): Effect.Effect<Message.Message> => {
  switch (said.role) {
    case "system":
      return Message.system(said.content, options)
    case "user":
      return Message.user(nonEmptyContent(said.content), options)
    case "assistant":
      return Message.assistant(
        said.content.map((part) =>
          part.type === "tool-result" ? { ...part, name: names.get(part.id) ?? part.name } : part
        ),
        options
      )
    case "tool": {
      const name = said.name ?? names.get(said.callId) ?? ""
      return Message.tool({ callId: said.callId, name, result: makeResult(said) }, options)
    }
  }
}

/** Content without parts is what a message with empty text is, and the laws refuse both. */
const nonEmptyContent = ([first, ...rest]: ReadonlyArray<ToolResult.Content>): ToolResult.NonEmptyContent => [
  first ?? ToolResult.textPart(""),
  ...rest
]

const makeResult = (said: Extract<ForeignMessage, { role: "tool" }>): ToolResult.ToolResult => {
  const content = nonEmptyContent(said.content)
  const text = ToolResult.contentToText(content)
  const [first, second] = content
  const isPlain = second === undefined && first.type === "text" && first.options === undefined
  if (said.isError !== true) return ToolResult.success(text, content)
  const failure = ToolResult.failure("execution_error", text)
  return isPlain ? failure : { ...failure, content }
}

/** Notes where the results of a batch stood, where that is not in call order. */
const notePlaces = (received: ReadonlyArray<ReceivedMessage>): ReadonlyArray<ReceivedMessage> => {
  const all: Array<ReceivedMessage> = []
  let batch: Array<ReceivedMessage> = []
  let calls: ReadonlyArray<string> = []
  const flush = () => {
    const ids = batch.flatMap(({ said }) => (said.role === "tool" ? [said.callId] : []))
    const moved = isReordered(calls, ids)
    all.push(...batch.map((one, place) => (moved ? { ...one, note: { ...one.note, place } } : one)))
    batch = []
  }
  for (const one of received) {
    if (one.said.role === "tool") {
      batch.push(one)
      continue
    }
    flush()
    all.push(one)
    calls =
      one.said.role === "assistant"
        ? one.said.content.flatMap((part) =>
            part.type === "tool-call" && part.providerExecuted !== true ? [part.id] : []
          )
        : []
  }
  flush()
  return all
}

/** A format as a schema. What is refused is told by its message. */
export const formatCodec = <D extends Error, E extends Error>(
  identifier: string,
  decode: (input: Schema.Json) => Effect.Effect<history.Conversation, D>,
  encode: (self: history.Conversation) => Effect.Effect<Schema.Json, E>
): Schema.Codec<history.Conversation, Schema.Json> => {
  const issue = (input: unknown) => (error: Error) =>
    new SchemaIssue.InvalidValue({ message: error.message }, input, {})
  return Schema.Json.pipe(
    Schema.decodeTo(Schema.declare<history.Conversation>(history.isHistory, { identifier }), {
      decode: SchemaGetter.transformEffect((json: Schema.Json) => Effect.mapError(decode(json), issue(json))),
      encode: SchemaGetter.transformEffect((self: history.Conversation) => Effect.mapError(encode(self), issue(self)))
    })
  )
}

export interface MessagePlace {
  readonly index: number
  readonly id: string
}

interface CallOptions {
  readonly toolName?: ((name: string) => string) | undefined
  readonly invalidArguments?: "refuse" | "wrap" | undefined
}

/** A call under the name and with the arguments that are sent. */
export const renderCall = (
  part: Message.ToolCallPart,
  place: MessagePlace,
  options: CallOptions
): Result.Result<Message.ToolCallPart, RenderError.InvalidArguments> => {
  const name =
    options.toolName === undefined || part.providerExecuted === true ? part.name : options.toolName(part.name)
  if (messageData.isJsonObject(part.arguments)) return Result.succeed({ ...part, name })
  if (options.invalidArguments === "wrap") {
    const { text: _, ...rest } = part
    return Result.succeed({ ...rest, name, arguments: { invalid_arguments: part.arguments } })
  }
  const found = Array.isArray(part.arguments)
    ? "an array"
    : part.arguments === null
      ? "null"
      : typeof part.arguments === "string"
        ? "text that is no JSON object"
        : `a ${typeof part.arguments}`
  return Result.fail(new RenderError.InvalidArguments({ ...place, callId: part.id, name: part.name, found }))
}

/** Fails where the end of a conversation is open. */
export const checkClosed = (
  self: history.Conversation,
  messages: ReadonlyArray<Message.Message>
): Result.Result<void, RenderError.UnansweredCalls> => {
  const open = history.openBatch(history.asHistory(self))
  if (open.length === 0) return Result.succeed(undefined)
  const index = messages.findLastIndex((message) => message.role === "assistant")
  return Result.fail(
    new RenderError.UnansweredCalls({ index, id: messages[index]?.id ?? "", callIds: open.map(({ id }) => id) })
  )
}
