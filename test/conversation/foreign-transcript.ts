import { Effect, Result } from "effect"
import { Conversation, Message, ToolResult } from "effect-emissary"

type Format = "openai" | "anthropic" | "openai-responses"

const fileTypes: { readonly [F in Format]: (part: ToolResult.FilePart) => boolean } = {
  openai: ({ data, mediaType }) =>
    data.type === "base64" ? data.base64 !== "" : mediaType === "image/png" && data.url !== "",
  anthropic: ({ data }) => data.type === "url" || data.base64 !== "",
  "openai-responses": ({ data, mediaType }) =>
    (data.type === "base64" ? data.base64 !== "" : data.url !== "") && !mediaType.startsWith("audio/")
}

type Content = ReadonlyArray<ToolResult.Content>

const orText = (text: string, [first, ...rest]: Content): ToolResult.NonEmptyContent =>
  first === undefined ? [ToolResult.textPart(text)] : [first, ...rest]

const orHello = (content: Content) => orText("Hello", content)

const isBlank = (part: ToolResult.Content): boolean => part.type === "text" && part.text.trim() === ""

/** The conversation without what the format has no form for, so that it can be written. */
export const sendableTo = Effect.fnUntraced(function* (format: Format, self: Conversation.Conversation) {
  const messages: Array<Message.Message> = []
  const all = Conversation.messages(self)
  for (const [index, message] of all.entries()) {
    switch (message.role) {
      case "system":
        // Anthropic takes it at a question that is answered next
        if (format === "anthropic" && index > 0 && all[index + 1]?.role === "user") break
        messages.push(message.content.trim() === "" ? { ...message, content: "Be brief." } : message)
        break
      case "user":
        messages.push({ ...message, content: said(format, message.content) })
        break
      case "assistant":
        if (messages.every(({ role }) => role === "system")) messages.push(yield* Message.user("Hello"))
        messages.push({ ...message, content: answer(message.content) })
        break
      case "tool":
        messages.push({ ...message, result: result(format, message.result) })
        break
    }
  }
  return yield* Effect.fromResult(Conversation.fromMessages(messages))
})

const said = (format: Format, content: Content): ToolResult.NonEmptyContent => {
  const kept = content.filter((part) => part.type === "text" || fileTypes[format](part))
  return kept.every(isBlank) ? [ToolResult.textPart("Hello")] : orHello(kept)
}

const answer = (content: Parts): Parts => {
  const kept = content.filter((part) =>
    part.type === "tool-call" ? part.providerExecuted !== true : part.type === "text" || part.type === "reasoning"
  )
  const says = kept.some((part) => part.type === "tool-call" || (part.type === "text" && !isBlank(part)))
  return says ? kept : [...kept, ToolResult.textPart("Well.")]
}

const result = (format: Format, given: ToolResult.ToolResult): ToolResult.ToolResult => {
  const keep = (part: ToolResult.Content) => part.type === "text" || (format !== "openai" && fileTypes[format](part))
  if (given.content === undefined) return given
  return { ...given, content: orHello(given.content.filter(keep)) }
}

/** The part of the transcript that the format can hold. */
export const heldBy = (format: Format, self: Conversation.Conversation): Conversation.Transcript => {
  const messages = Conversation.messages(self).map((message): Message.Message => {
    switch (message.role) {
      case "system":
        return message
      case "user":
        return { ...message, content: orHello(message.content.filter(isSent(format)).map(held(format))) }
      case "assistant":
        return { ...message, content: ordered(format, message.content) }
      case "tool":
        return { ...message, result: heldResult(format, message.result) }
    }
  })
  const kept =
    format === "openai-responses" ? messages.reduce<ReadonlyArray<Message.Message>>(joinAnswers, []) : messages
  return Conversation.transcript(Result.getOrThrow(Conversation.fromMessages(kept)))
}

/** Items of two answers in a row are one answer. */
const joinAnswers = (all: ReadonlyArray<Message.Message>, next: Message.Message): ReadonlyArray<Message.Message> => {
  const last = all.at(-1)
  return last?.role === "assistant" && next.role === "assistant"
    ? [...all.slice(0, -1), { ...last, content: [...last.content, ...next.content] }]
    : [...all, next]
}

const isSent = (format: Format) => (part: Message.AssistantPart) =>
  part.type !== "text" || (format === "anthropic" ? part.text.trim() !== "" : part.text !== "")

/** Images have no names, links no types. */
const held =
  (format: Format) =>
  (part: ToolResult.Content): ToolResult.Content => {
    if (part.type === "text") return part
    const { fileName: _, ...rest } = part
    if (part.mediaType.startsWith("image/")) {
      return part.data.type === "url" ? { ...rest, mediaType: "image/*" } : rest
    }
    return format === "openai-responses" && part.data.type === "url"
      ? { ...part, mediaType: "application/octet-stream" }
      : part
  }

type Parts = ReadonlyArray<Message.AssistantPart>

const ordered = (format: Format, content: Parts): Parts => {
  const sent = content.filter(isSent(format))
  if (format !== "openai") return sent
  return [...sent.filter((part) => part.type === "text"), ...sent.filter((part) => part.type !== "text")]
}

const heldResult = (format: Format, given: ToolResult.ToolResult): ToolResult.ToolResult => {
  const content = ToolResult.content(given).filter(isSent(format)).map(held(format))
  if (format !== "anthropic" || given._tag === "Success") return ToolResult.success(null, orText("", content))
  const type = given.type.trim() === "" ? "execution_error" : given.type
  return { ...ToolResult.failure("execution_error", ""), content: orText(type, content) }
}
