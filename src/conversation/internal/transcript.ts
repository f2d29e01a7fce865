import type { Content } from "../../tool/Content.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { Message, ToolMessage } from "../Message.ts"
import type { AssistantPart } from "../Part.ts"
import type { Entry, Transcript } from "../Transcript.ts"

type AssistantEntry = Extract<Entry, { role: "assistant" }>
type AssistantContent = AssistantEntry["content"][number]
type PlainContent = Extract<AssistantContent, { type: "text" | "file" }>

export const make = (messages: ReadonlyArray<Message>): Transcript =>
  messages.map((message): Entry => {
    switch (message.role) {
      case "system":
        return { role: "system", text: message.content }
      case "user":
        return { role: "user", content: plain(message.content) }
      case "assistant":
        return { role: "assistant", content: join(message.content.flatMap(assistantPart)) }
      case "tool":
        return { role: "tool", ...result(message) }
    }
  })

const assistantPart = (part: AssistantPart): ReadonlyArray<AssistantContent> => {
  switch (part.type) {
    case "reasoning":
      return []
    case "tool-call":
      return [{ type: "tool-call", name: part.name, arguments: part.arguments }]
    case "tool-result":
      return [{ type: "tool-result", result: result(part) }]
    default:
      return [content(part)]
  }
}

const result = ({ name, result }: Pick<ToolMessage, "name" | "result">) => ({
  name,
  type: ToolResult.isFailure(result) ? result.type : "success",
  content: plain(ToolResult.content(result))
})

const content = (part: Content): PlainContent =>
  part.type === "text"
    ? { type: "text", text: part.text }
    : {
        type: "file",
        mediaType: part.mediaType,
        ...(part.fileName === undefined ? undefined : { fileName: part.fileName }),
        data: part.data
      }

const plain = (parts: ReadonlyArray<Content>): ReadonlyArray<PlainContent> => join(parts.map(content))

const join = <P extends AssistantContent>(parts: ReadonlyArray<P>): ReadonlyArray<P> => {
  const joined: Array<P> = []
  for (const part of parts) {
    const last = joined.at(-1)
    if (part.type !== "text") joined.push(part)
    else if (part.text === "") continue
    else if (last?.type === "text") joined[joined.length - 1] = { ...part, text: last.text + part.text }
    else joined.push(part)
  }
  return joined
}
