/** The stored messages of a session as messages of the AI SDK, which a page begins with: a page makes the same ones of the chunks of their events. */

import type * as ChatEvent from "../../session/ChatEvent.ts"
import { defined, type JsonObject } from "../../payload/internal/values.ts"
import type * as events from "../../session/internal/events.ts"
import type * as ToolResult from "../../tool/ToolResult.ts"
import type * as frontView from "./frontView.ts"
import * as screen from "./screen.ts"
import { type Chunk, type Metadata, urlOf } from "./uiChunks.ts"
import * as uiMessages from "./uiMessages.ts"

/** A part of a message of the AI SDK. */
export interface UiPart extends JsonObject {
  readonly type: string
}

/** A message of the AI SDK. */
export interface UiMessage {
  readonly id: string
  readonly role: "user" | "assistant"
  readonly parts: ReadonlyArray<UiPart>
  readonly metadata?: Metadata
}

type Stored = typeof frontView.ChatMessage.Type

const userPart = (part: ToolResult.Content): UiPart => {
  if (part.type === "text") return { type: "text", text: part.text }
  return { type: "file", mediaType: part.mediaType, url: urlOf(part), ...defined({ filename: part.fileName }) }
}

/** The parts with what a chunk adds to them. The deltas of stored parts are whole. */
const add = (parts: ReadonlyArray<UiPart>, chunk: Chunk): ReadonlyArray<UiPart> => {
  const change = (toolCallId: string, more: JsonObject) =>
    parts.map((part) => (part["toolCallId"] === toolCallId ? { ...part, ...more } : part))
  switch (chunk.type) {
    case "start-step":
      return [...parts, { type: "step-start" }]
    case "text-start":
      return [...parts, { type: "text", text: "", state: "done" }]
    case "reasoning-start":
      return [...parts, { type: "reasoning", id: chunk.id, text: "", state: "done" }]
    case "text-delta":
    case "reasoning-delta":
      return parts.map((part, k) => (k === parts.length - 1 ? { ...part, text: chunk.delta } : part))
    case "file":
    case "source-url":
    case "source-document":
    case "data-request":
      return [...parts, { ...chunk }]
    case "tool-input-available": {
      const { dynamic, toolName, type: _, ...call } = chunk
      const named = dynamic === true ? { type: "dynamic-tool", toolName } : { type: `tool-${toolName}` }
      return [...parts, { ...named, state: "input-available", ...call }]
    }
    case "tool-approval-request": {
      const { approvalDescriptor: descriptor, approvalId: id, toolCallId } = chunk
      return change(toolCallId, { state: "approval-requested", approval: { id, ...defined({ descriptor }) } })
    }
    case "tool-output-available":
      return change(chunk.toolCallId, { state: "output-available", output: chunk.output })
    case "tool-output-error":
      return change(chunk.toolCallId, { state: "output-error", errorText: chunk.errorText })
    case "tool-output-denied":
      return change(chunk.toolCallId, { state: "output-denied" })
    default:
      return parts
  }
}

/** The message that the events make. */
const answerOf = (id: string, events: ReadonlyArray<ChatEvent.ChatEvent>): UiMessage => {
  let page = uiMessages.begin(undefined, id)
  let parts: ReadonlyArray<UiPart> = []
  for (const event of events) {
    const [next, chunks] = screen.show(uiMessages.protocol, page, event)
    page = next
    parts = chunks.reduce(add, parts)
  }
  return { id, role: "assistant", parts, ...defined({ metadata: uiMessages.metadataOf(page.turn) }) }
}

const eventOf = (message: Exclude<Stored, { readonly role: "user" }>): ChatEvent.ChatEvent =>
  message.role === "tool"
    ? { _tag: "ToolFinished", ...message }
    : { _tag: "Answered", messageId: message.id, ...message }

export const make = (
  messages: ReadonlyArray<Stored>,
  requests: ReadonlyArray<events.Request>,
  budget?: Metadata["budget"]
): ReadonlyArray<UiMessage> => {
  const turns: Array<{ id: string; asked: ReadonlyArray<UiMessage>; events: Array<ChatEvent.ChatEvent> }> = []
  for (const message of messages) {
    const id = uiMessages.idOf(message.id)
    if (message.role === "user") {
      const user: UiMessage = { id: message.id, role: "user", parts: message.content.map(userPart) }
      turns.push({ id, asked: [user], events: [] })
    } else {
      if (turns.length === 0) turns.push({ id, asked: [], events: [] })
      turns.at(-1)?.events.push(eventOf(message))
    }
  }
  const { at } = messages.at(-1) ?? {}
  if (at !== undefined) for (const request of requests) turns.at(-1)?.events.push({ _tag: "Requested", at, request })
  const all = turns.flatMap(({ asked, events, id }) => (events.length === 0 ? asked : [...asked, answerOf(id, events)]))
  const last = all.at(-1)
  return budget === undefined || last?.role !== "assistant"
    ? all
    : [...all.slice(0, -1), { ...last, metadata: { ...last.metadata, budget } }]
}
