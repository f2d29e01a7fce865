/** What messages weigh, each counted once for each counter. */
import * as Option from "effect/Option"
import type { FilePart } from "../../../tool/Content.ts"
import * as ToolResult from "../../../tool/ToolResult.ts"
import type { AssistantMessage, Message } from "../../Message.ts"
import type { AssistantPart, ToolCallPart } from "../../Part.ts"
import type { TokenCounter } from "../../TokenCounter.ts"
import * as history from "../history.ts"
import * as json from "../json.ts"

/** Role and separators. */
const messageTokens = 4
/** What providers write around the name and the arguments of a call. */
const callTokens = 8

const imageTokens = 1600
const documentTokens = 2500
const documentBytes = 50_000

const caches = new WeakMap<TokenCounter, WeakMap<Message, number>>()

const cacheOf = (counter: TokenCounter): WeakMap<Message, number> => {
  const cache = caches.get(counter) ?? new WeakMap<Message, number>()
  caches.set(counter, cache)
  return cache
}

export type Weigh = (message: Message) => number

export const make = (counter: TokenCounter): Weigh => {
  const cache = cacheOf(counter)
  return (message) => {
    const cached = cache.get(message)
    if (cached !== undefined) return cached
    const tokens = messageTokens + contentTokens(counter, message)
    cache.set(message, tokens)
    return tokens
  }
}

const contentTokens = (counter: TokenCounter, message: Message): number => {
  switch (message.role) {
    case "system":
      return counter.count(message.content)
    case "tool":
      return parts(counter, ToolResult.content(message.result))
    default:
      return parts(counter, message.content)
  }
}

const parts = (counter: TokenCounter, content: ReadonlyArray<AssistantPart>): number => {
  let tokens = 0
  for (const part of content) tokens += partTokens(counter, part)
  return tokens
}

const partTokens = (counter: TokenCounter, part: AssistantPart): number => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return counter.count(part.text)
    case "file":
      return fileTokens(counter, part)
    case "tool-call":
      return callTokens + counter.count(part.name) + counter.count(argumentText(part))
    case "tool-result":
      return parts(counter, ToolResult.content(part.result))
  }
}

const argumentText = (part: ToolCallPart): string =>
  part.text ?? Option.getOrElse(json.stringify(part.arguments), () => "")

const fileTokens = (counter: TokenCounter, { data, fileName, mediaType }: FilePart): number => {
  const named = fileName === undefined ? 0 : counter.count(fileName)
  if (mediaType.startsWith("image/")) return named + imageTokens
  if (data.type === "url") return named + documentTokens
  const bytes = Math.floor((data.base64.length * 3) / 4)
  return mediaType.startsWith("text/")
    ? named + Math.ceil(bytes / 4)
    : named + documentTokens * Math.max(1, Math.ceil(bytes / documentBytes))
}

export const sum = (messages: Iterable<Message>, weigh: Weigh): number => {
  let tokens = 0
  for (const message of messages) tokens += weigh(message)
  return tokens
}

/** What the next request weighs: the newest report and what came after it, or an estimate of all. */
export const size = (self: history.History, weigh: Weigh): number =>
  self.reported === undefined
    ? sum(history.toArray(self), weigh)
    : reportedTokens(self.reported, weigh) + sum(history.since(self, self.reported), weigh)

/** What was read for the answer, and the answer itself as far as it is sent back. */
export const reportedTokens = (message: AssistantMessage, weigh: Weigh): number => {
  const { inputTokens = 0, outputTokens, reasoningTokens = 0 } = message.usage ?? {}
  if (outputTokens === undefined) return inputTokens + weigh(message)
  const isSentBack = message.content.some((part) => part.type === "reasoning")
  return inputTokens + Math.max(0, outputTokens - (isSentBack ? 0 : reasoningTokens))
}
