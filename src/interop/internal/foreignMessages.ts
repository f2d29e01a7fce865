/**
 * Parts that the message formats of providers share: the neutral form of a message, the notes that keep what our model has no field for, and the rendering of tool calls.
 */

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
import { defined, isObject, kindOf, own } from "../../payload/internal/plainJson.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as RenderError from "../RenderError.ts"

export const toolCallFromArguments = (id: string, name: string, args: Schema.Json | undefined): Message.ToolCallPart =>
  typeof args === "string"
    ? Message.toolCallPart({ id, name, text: args })
    : Message.toolCallPart({ id, name, arguments: args ?? {} })

/** Ids of uploaded files take the place of a URL, and have no scheme. */
export const isFileId = (url: string): boolean => !/^[a-z][a-z0-9+.-]*:/iu.test(url)

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

const noteMetadata = (format: Format, note: Note): { readonly metadata?: JsonObject } =>
  Object.keys(note).length === 0 ? {} : { metadata: { [metadataKeys[format]]: { ...note } } }

/** The note of content that was received, given the content that we would write. */
export const noteOf = (form: Form | undefined, written: Schema.Json, received: Schema.Json): Note => {
  const patch = JsonPatch.get(written, received)
  return defined({ form, patch: patch.length === 0 ? undefined : patch })
}

/** Writing and reading of one message in a format. */
export interface MessageForm {
  readonly write: (said: ForeignMessage, form: Form) => Schema.Json
  readonly read: (json: Schema.Json, role: ForeignMessage["role"]) => ForeignMessage | undefined
  /** The message without the content that the provider refuses. */
  readonly withoutRefused: (json: Schema.Json, said: ForeignMessage) => Schema.Json
}

/**
 * Writes a message as it was received, provided that this has the same content and is lawful. A patch that does not fit,
 * for example because it was forged, changes nothing.
 */
export const writeAsReceived = (
  { read, withoutRefused, write }: MessageForm,
  said: ForeignMessage,
  { form, patch }: Note
): Schema.Json => {
  const canonical = write(said, form)
  if (patch === undefined) return canonical
  const patched = Result.getOrElse(
    Result.try(() => JsonPatch.apply(patch, canonical)),
    () => canonical
  )
  const back = read(patched, said.role)
  return back !== undefined &&
    Equal.equals(write(back, form), canonical) &&
    Equal.equals(withoutRefused(patched, back), patched)
    ? patched
    : canonical
}

/** One provider's options of a part or message, if they are an object. */
export const readOptions = (format: Format, self: { readonly options?: JsonObject }): JsonObject | undefined => {
  const options = self.options === undefined ? undefined : own(self.options, format)
  return isObject(options) ? options : undefined
}

/** Provider options that hold something. */
export const providerOptions = (
  format: Format,
  given: { readonly [key: string]: Schema.Json | undefined }
): { readonly options?: JsonObject } => {
  // Sound: the undefined members of an index signature are left out.
  const options = defined(given) as JsonObject
  return Object.keys(options).length === 0 ? {} : { options: { [format]: options } }
}

/** Tests if results were not in call order. */
const isReordered = (calls: ReadonlyArray<string>, results: ReadonlyArray<string>): boolean => {
  const positions = results.map((id) => calls.indexOf(id))
  return positions.some((position, index) => index > 0 && position < (positions[index - 1] ?? 0))
}

/** Results in the order in which they were read. */
const restoreOrder = <A extends { readonly message: Message.Message }>(
  format: Format,
  results: ReadonlyArray<A>
): ReadonlyArray<A> => {
  const noted = results.map((result) => ({ result, place: noteOfMessage(format, result.message).place }))
  return noted.every(({ place }) => place !== undefined)
    ? noted.toSorted((a, b) => (a.place ?? 0) - (b.place ?? 0)).map(({ result }) => result)
    : results
}

type WithOptions = { readonly options?: ToolResult.ProviderOptions }

/** The content of a message of a provider's format, in our terms. */
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
    if (!isObject(item)) continue
    const role = own(item, "role")
    if (typeof role === "string" && !known.includes(role)) {
      const found = JSON.stringify(role.slice(0, 40))
      return Effect.fail(new ConversationError.ConversationError({ reason: { _tag: "UnknownRole", index, found } }))
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
    const message = yield* makeMessage(names, said, { ...noteMetadata(format, note), ...defined({ options }) })
    all.push({ index, message })
  }
  return all
})

/** Limits that differ from the current ones, and the token limit of the conversation. */
export interface ReadOptions {
  readonly limits?: Partial<Limits> | undefined
  readonly tokenLimit?: number | undefined
}

/** Reads a conversation: laws are checked, or with `onUnlawful: "repair"` repaired. */
export const makeReader = <E>(
  format: Format,
  receive: (input: unknown, limits: ReadOptions["limits"]) => Effect.Effect<ReadonlyArray<ReceivedMessage>, E>
): conversationCodec.Reader<unknown, ReadOptions, E | ConversationError.ConversationError> => {
  const read = (input: unknown, options: ReadOptions | undefined) =>
    Effect.flatMap(receive(input, options?.limits), (received) => makeMessages(format, received))
  return conversationCodec.makeReader(
    Effect.fnUntraced(function* (input, options) {
      let self = history.empty(options?.tokenLimit)
      for (const { index, message } of yield* read(input, options)) {
        const reason = history.checkMessage(self, message, index)
        if (reason !== undefined) return yield* new ConversationError.ConversationError({ reason })
        self = history.pushMessage(self, message)
      }
      return self
    }),
    (input, options) =>
      Effect.flatMap(read(input, options), (made) =>
        conversationCodec.repairMessages(
          made.map(({ message }) => message),
          { tokenLimit: options?.tokenLimit }
        )
      )
  )
}

/** Names of calls by their ids: results may name the call only, which may be part of an earlier message. */
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

/** Notes the positions of the results of a batch, unless they are in call order. */
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

/** A format as a schema. The issue of a refusal is its message. */
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

interface RenderOptions {
  readonly reasoning?: "omit" | "refuse" | undefined
  readonly toolName?: ((name: string) => string) | undefined
  readonly invalidArguments?: "refuse" | "wrap" | undefined
}

/** The content that a provider accepts. */
export interface RenderRules {
  /** The text can be sent. */
  readonly isSent: (text: string) => boolean
  /** The file in words, if the format has no form for it. */
  readonly unsupportedFile: (part: ToolResult.FilePart) => string | undefined
  readonly supportedFiles: string
  /** The reasoning has a place in the format. */
  readonly keepsReasoning: (part: Message.ReasoningPart) => boolean
  readonly supportedReasoning: string
  /** The provider itself ran the tool, and the format has a form for it. */
  readonly keepsProviderTool: (part: Message.ToolCallPart | Message.ToolResultPart) => boolean
  readonly supportedTools: string
}

type Rendered<A> = Result.Result<A, RenderError.Reason>

const refuseContent = (place: MessagePlace, found: string, expected: string): Rendered<never> =>
  Result.fail(RenderError.Reason.cases.UnsupportedContent.make({ ...place, found, expected }))

export const refuseReasoning = (place: MessagePlace, { supportedReasoning: expected }: RenderRules): Rendered<never> =>
  Result.fail(RenderError.Reason.cases.UnsupportedReasoning.make({ ...place, expected }))

export const refuseEmpty = (place: MessagePlace, role: string): Rendered<never> =>
  Result.fail(RenderError.Reason.cases.EmptyMessage.make({ ...place, role }))

export const refuseFile = (place: MessagePlace, { mediaType }: ToolResult.FilePart, expected: string) =>
  refuseContent(place, `a file of type ${mediaType}`, expected)

/** The text of a system message, unless it is empty. */
export const renderSystem = (
  message: Message.SystemMessage,
  place: MessagePlace,
  rules: RenderRules
): Rendered<ForeignMessage> =>
  rules.isSent(message.content)
    ? Result.succeed({
        role: "system",
        content: message.content,
        ...defined({ options: message.options })
      })
    : Result.fail(RenderError.Reason.cases.EmptySystem.make(place))

/** Text and files that the provider accepts. */
export const renderContent = (
  content: ReadonlyArray<ToolResult.Content>,
  place: MessagePlace,
  rules: RenderRules
): Rendered<ReadonlyArray<ToolResult.Content>> => {
  const sent = content.filter((part) => part.type === "file" || rules.isSent(part.text))
  for (const part of sent) {
    const found = part.type === "file" ? rules.unsupportedFile(part) : undefined
    if (found !== undefined) return refuseContent(place, found, rules.supportedFiles)
  }
  return Result.succeed(sent)
}

/** The parts of an assistant message that the provider accepts. */
export const renderAnswer = (
  message: Message.AssistantMessage,
  place: MessagePlace,
  rules: RenderRules,
  options: RenderOptions
): Rendered<ReadonlyArray<Message.AssistantPart>> =>
  Result.gen(function* () {
    const content: Array<Message.AssistantPart> = []
    for (const part of message.content) {
      switch (part.type) {
        case "text":
          if (rules.isSent(part.text)) content.push(part)
          break
        case "reasoning":
          if (rules.keepsReasoning(part)) content.push(part)
          else if (options.reasoning === "refuse") return yield* refuseReasoning(place, rules)
          break
        case "tool-call":
          if (part.providerExecuted === true && !rules.keepsProviderTool(part)) {
            return yield* refuseProviderTool(place, part.name, rules)
          }
          content.push(yield* renderCall(part, place, options))
          break
        case "tool-result":
          if (!rules.keepsProviderTool(part)) return yield* refuseProviderTool(place, part.name, rules)
          content.push(part)
          break
        case "file":
          return yield* refuseFile(place, part, "text and tool calls in an assistant message")
      }
    }
    return content.some((part) => part.type !== "reasoning") ? content : yield* refuseEmpty(place, message.role)
  })

const refuseProviderTool = (place: MessagePlace, name: string, { supportedTools }: RenderRules) =>
  refuseContent(place, `the tool "${name}" that a provider ran itself`, supportedTools)

/** A call under the name and with the arguments that are sent. */
const renderCall = (
  part: Message.ToolCallPart,
  place: MessagePlace,
  options: RenderOptions
): Rendered<Message.ToolCallPart> => {
  const name = part.providerExecuted === true ? part.name : (options.toolName?.(part.name) ?? part.name)
  if (isObject(part.arguments)) return Result.succeed({ ...part, name })
  if (options.invalidArguments === "wrap") {
    const { text: _, ...rest } = part
    return Result.succeed({ ...rest, name, arguments: { invalid_arguments: part.arguments } })
  }
  const found = kindOf(part.arguments)
  return Result.fail(
    RenderError.Reason.cases.InvalidArguments.make({ ...place, callId: part.id, name: part.name, found })
  )
}

/** A message that is not a result and the results that answer it, as they are written. */
interface RenderedGroup<A> {
  readonly message: { readonly message: Message.Message; readonly written: A } | undefined
  readonly results: ReadonlyArray<{ readonly message: Message.Message; readonly written: A }>
}

/** Writes every message of a closed conversation, results in the order in which they were read. */
export const renderGroups = <A>(
  format: Format,
  messages: ReadonlyArray<Message.Message>,
  write: (message: Message.Message, place: MessagePlace) => Rendered<A>
): Rendered<ReadonlyArray<RenderedGroup<A>>> =>
  Result.gen(function* () {
    const groups: Array<RenderedGroup<A>> = []
    let index = 0
    const next = (message: Message.Message) =>
      Result.map(write(message, { index: index++, id: message.id }), (written) => ({ message, written }))
    for (const { message, results } of history.groupResults(messages)) {
      const first = message === undefined ? undefined : yield* next(message)
      const answers: Array<{ readonly message: Message.Message; readonly written: A }> = []
      for (const result of results) answers.push(yield* next(result))
      groups.push({ message: first, results: restoreOrder(format, answers) })
    }
    return groups
  })

/** Fails where the end of a conversation is open. */
export const checkClosed = (self: history.Conversation, messages: ReadonlyArray<Message.Message>): Rendered<void> => {
  const open = history.openBatch(history.asHistory(self))
  if (open.length === 0) return Result.succeed(undefined)
  const index = messages.findLastIndex((message) => message.role === "assistant")
  const id = messages[index]?.id ?? ""
  return Result.fail(RenderError.Reason.cases.UnansweredCalls.make({ index, id, callIds: open.map(({ id }) => id) }))
}
