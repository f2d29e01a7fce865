/** A session as a front end sees it: its events, its state and its messages, with files as addresses. */

import * as Arr from "effect/Array"
import type * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as ChatEvent from "../../session/ChatEvent.ts"
import * as events from "../../session/internal/events.ts"
import { plainContent, plainParts, plainResult } from "../../session/internal/shownParts.ts"
import * as types from "../../session/internal/types.ts"
import * as ToolResult from "../../tool/ToolResult.ts"

/** The place of a file part: the id of its message, and its index in the content of the message or of its result. */
export interface FilePlace {
  readonly message: string
  readonly part: number
}

export const FilePlace = types.struct<FilePlace>()({ message: Schema.String, part: runParts.Count })

/** The place from which a front end reads. `live`: with what models are writing, which is the default. */
export type EventsOptions = Pick<types.EventsOptions, "after"> & { readonly live?: boolean | undefined }

export const EventsOptions = types.struct<EventsOptions>()({
  ...types.EventsOptions.fields,
  live: Schema.optionalKey(Schema.Boolean)
})

/** The state of a session as a front end sees it. */
export const ChatState = Schema.Struct({
  agent: Schema.String,
  ...events.summary,
  sequence: runParts.Count,
  cursor: Schema.String,
  queue: Schema.Array(Schema.String),
  behindRequests: types.StateSchema.fields.behindRequests,
  requests: Schema.Array(events.Request),
  batch: types.StateSchema.fields.batch,
  remembered: Schema.optionalKey(
    Schema.Array(Schema.Struct({ digest: Schema.String, shown: Schema.String, approved: Schema.Boolean }))
  ),
  requestsOf: Schema.optionalKey(Schema.String),
  outcome: Schema.optionalKey(runParts.OutcomeTag),
  failure: Schema.optionalKey(Schema.Struct({ category: events.Category, message: Schema.String })),
  usage: runParts.Usage,
  budget: Schema.optionalKey(Schema.Array(ledger.Line))
}).annotate({ identifier: "ChatState" })

const message = { id: Schema.String, at: runParts.Time }

/** A message as a front end sees it. There are no system messages. */
export const ChatMessage = Schema.Union([
  Schema.Struct({ role: Schema.Literal("user"), ...message, content: ToolResult.NonEmptyContent }),
  Schema.Struct({
    role: Schema.Literal("assistant"),
    ...message,
    content: Schema.Array(Message.AssistantPart),
    model: Schema.optionalKey(Schema.String),
    usage: Schema.optionalKey(runParts.Usage)
  }),
  Schema.Struct({
    role: Schema.Literal("tool"),
    ...message,
    callId: Schema.String,
    name: Schema.String,
    succeeded: Schema.Boolean,
    result: Schema.optionalKey(ToolResult.ToolResult)
  })
]).annotate({ identifier: "ChatMessage" })

/** The messages of a session, and the place after which its events continue them. */
export const ChatHistory = Schema.Struct({
  cursor: Schema.optionalKey(Schema.String),
  messages: Schema.Array(ChatMessage)
}).annotate({ identifier: "ChatHistory" })

export const stateOf = (state: types.State): typeof ChatState.Type => {
  const {
    agent,
    batch,
    behindRequests,
    budget,
    cursor,
    failure,
    outcome,
    queue,
    requests,
    requestsOf,
    sequence,
    usage
  } = state
  const { created, messages, metadata, status, title, updated, waitsFor } = state
  return {
    agent,
    title,
    metadata,
    created,
    updated,
    status,
    messages,
    sequence,
    cursor,
    queue,
    requests,
    usage,
    ...defined({
      batch,
      remembered: state.remembered?.map(({ approved, digest, shown }) => ({ digest, shown, approved })),
      behindRequests,
      waitsFor,
      budget,
      requestsOf,
      outcome,
      failure: failure && { category: failure.category, message: events.publicMessages[failure.category] }
    })
  }
}

/** The address of a file part of a stored message. */
type AddressOf = (messageId: string, part: number) => string

const linkFile = (part: ToolResult.FilePart, url: string): ToolResult.FilePart =>
  part.data.type === "url" ? part : { ...part, data: { type: "url", url } }

const linkContent = (content: ToolResult.NonEmptyContent, address: (part: number) => string) =>
  Arr.map(content, (part, index) => (part.type === "file" ? linkFile(part, address(index)) : part))

const linkResult = (result: ToolResult.ToolResult, address: (part: number) => string): ToolResult.ToolResult =>
  result.content === undefined ? result : { ...result, content: linkContent(result.content, address) }

/** The message with addresses in the place of the bytes of files. */
const linkMessage = <M extends Message.Message>(message: M, addressOf: AddressOf): M => {
  const address = (part: number) => addressOf(message.id, part)
  switch (message.role) {
    case "user":
      return { ...message, content: linkContent(message.content, address) }
    case "assistant": {
      const link = (part: Message.AssistantPart, index: number) =>
        part.type === "file" ? linkFile(part, address(index)) : part
      return { ...message, content: message.content.map(link) }
    }
    case "tool":
      return { ...message, result: linkResult(message.result, address) }
    default:
      return message
  }
}

/** Files of agents in steps and tools stay: their messages are not in the history of the session. */
const linkEvent = (event: events.LiveEntry["event"], addressOf: AddressOf): events.LiveEntry["event"] => {
  if (event._tag === "MessageReceived") {
    return { ...event, input: linkContent(event.input, (part) => addressOf(event.messageId, part)) }
  }
  if (event._tag !== "RunEvent") return event
  const { event: inner } = event
  if (inner._tag === "ModelAnswered")
    return { ...event, event: { ...inner, message: linkMessage(inner.message, addressOf) } }
  if (inner._tag === "ToolFinished")
    return { ...event, event: { ...inner, message: linkMessage(inner.message, addressOf) } }
  return event
}

/** The event as a front end sees it, a failure for an event that it does not see. */
export const eventOf = (
  { event, ...place }: events.LiveEntry,
  options: ChatEvent.Options,
  addressOf: AddressOf
): Result.Result<ChatEvent.Entry, events.LiveEntry> =>
  ChatEvent.project(options)({ ...place, event: linkEvent(event, addressOf) })

/** The calls that carry structured outputs are collected, and hidden with their results. */
const messageOf = (
  stored: Message.Message,
  options: ChatEvent.Options,
  addressOf: AddressOf,
  outputCalls: Set<string>
): ReadonlyArray<typeof ChatMessage.Type> => {
  const message = linkMessage(stored, addressOf)
  const { createdAt: at, id } = message
  switch (message.role) {
    case "system":
      return []
    case "user":
      return [{ role: "user", id, at, content: plainContent(message.content) }]
    case "assistant": {
      const { model, usage } = message
      const outputCall = runParts.outputCallIn(message)
      if (outputCall !== undefined) outputCalls.add(outputCall)
      const content = plainParts(message.content, { ...options, outputCall })
      return [{ role: "assistant", id, at, content, ...defined({ model, usage }) }]
    }
    case "tool": {
      const { callId, name, result } = message
      if (outputCalls.has(callId)) return []
      const shown = options.results === false ? undefined : plainResult(name, result)
      return [
        { role: "tool", id, at, callId, name, succeeded: result._tag === "Success", ...defined({ result: shown }) }
      ]
    }
  }
}

export const historyOf = (
  conversation: Conversation.Conversation,
  cursor: string | undefined,
  options: ChatEvent.Options,
  addressOf: AddressOf
): typeof ChatHistory.Type => {
  const outputCalls = new Set<string>()
  const messages = Conversation.messages(conversation)
  return {
    ...defined({ cursor }),
    messages: messages.flatMap((message) => messageOf(message, options, addressOf, outputCalls))
  }
}

/** The content of a message with files in it. */
export const contentOf = (message: Message.Message): ReadonlyArray<Message.AssistantPart> => {
  switch (message.role) {
    case "system":
      return []
    case "tool":
      return message.result.content ?? []
    default:
      return message.content
  }
}

const isPicture = /^image\/(?:png|jpeg|gif|webp|avif)$/

/** The headers of a file: only pictures are shown in place, and no browser takes a file for something else. */
export const fileHeaders = ({ fileName, mediaType }: ToolResult.FilePart) => {
  const type = /^[\w.+-]+\/[\w.+-]+$/.test(mediaType) ? mediaType.toLowerCase() : "application/octet-stream"
  const name =
    fileName === undefined
      ? ""
      : `; filename*=UTF-8''${encodeURIComponent(fileName.toWellFormed()).replaceAll("'", "%27")}`
  return {
    "content-type": type,
    "content-disposition": `${isPicture.test(type) ? "inline" : "attachment"}${name}`,
    "content-security-policy": "sandbox; default-src 'none'",
    "cache-control": "private, max-age=3600",
    "x-content-type-options": "nosniff"
  }
}
