/** The messages of AG-UI 1.0: of the history of a session, and of one answer or result. */

import type * as Message from "../../conversation/Message.ts"
import type { JsonObject } from "../../payload/internal/values.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type * as frontView from "./frontView.ts"
import * as screen from "./screen.ts"

/** A message of AG-UI. */
export interface AgMessage extends JsonObject {
  readonly id: string
  readonly role: string
}

const sourceOf = ({ data, mediaType: mimeType }: ToolResult.FilePart): JsonObject =>
  data.type === "url" ? { type: "url", value: data.url, mimeType } : { type: "data", value: data.base64, mimeType }

const contentOf = (part: ToolResult.Content): JsonObject => {
  if (part.type === "text") return { type: "text", text: part.text }
  const [kind = ""] = part.mediaType.split("/")
  return { type: ["image", "audio", "video"].includes(kind) ? kind : "document", source: sourceOf(part) }
}

const userOf = (id: string, content: ToolResult.NonEmptyContent): AgMessage => ({
  id,
  role: "user",
  content: content.length === 1 && content[0].type === "text" ? content[0].text : content.map(contentOf)
})

export const reasoningOf = (id: string, content = ""): AgMessage => ({ id, role: "reasoning", content })

export const isReasoning = ({ role }: AgMessage): boolean => role === "reasoning"

const callOf = (part: Message.AssistantPart): ReadonlyArray<JsonObject> =>
  part.type === "tool-call"
    ? [{ id: part.id, type: "function", function: { name: part.name, arguments: screen.argumentsOf(part) } }]
    : []

/** The messages of an answer: its reasoning, the answer, and the results of calls that the provider made. */
export const answerOf = (id: string, content: ReadonlyArray<Message.AssistantPart>): ReadonlyArray<AgMessage> => {
  const toolCalls = content.flatMap(callOf)
  const text = content.map((part) => (part.type === "text" ? part.text : "")).join("")
  return [
    ...content.flatMap((part, k) => (part.type === "reasoning" ? [reasoningOf(`${id}/${k}`, part.text)] : [])),
    { id, role: "assistant", content: text, ...(toolCalls.length === 0 ? undefined : { toolCalls }) },
    ...content.flatMap((part) => (part.type === "tool-result" ? [resultOf(part.id, part.result)] : []))
  ]
}

/** True for an answer whose parts come in the order of its messages. */
export const isOrdered = (content: ReadonlyArray<Message.AssistantPart>): boolean => {
  const types = content.flatMap(({ type }) => (type === "file" || type === "source" ? [] : [type]))
  return types.every((type, k) => type !== "tool-result" && (type !== "reasoning" || k === 0 || types[k - 1] === type))
}

export const resultOf = (toolCallId: string, result: ToolResult.ToolResult | undefined) => ({
  id: `result-${toolCallId}`,
  role: "tool",
  toolCallId,
  content: result === undefined ? "" : ToolResult.text(result)
})

/** The event about the work of an agent inside. */
export const activity = (messageId: string, activityType: string, content: object) => ({
  type: "ACTIVITY_SNAPSHOT",
  messageId,
  activityType,
  content
})

/** The stored messages up to a message of the user, whose content is there for a message that no turn has taken yet. */
export const make = (
  { messages }: typeof frontView.ChatHistory.Type,
  of: string,
  content: ToolResult.NonEmptyContent | undefined
): ReadonlyArray<AgMessage> => {
  const place = messages.findIndex(({ id }) => id === of)
  const stored = (place < 0 ? messages : messages.slice(0, place + 1)).flatMap((message) => {
    if (message.role === "user") return [userOf(message.id, message.content)]
    return message.role === "tool" ? [resultOf(message.callId, message.result)] : answerOf(message.id, message.content)
  })
  return place < 0 && content !== undefined ? [...stored, userOf(of, content)] : stored
}
