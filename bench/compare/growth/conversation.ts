/** A conversation of 10,000 messages, in turns of four: a question, a call, its result, an answer. */
import { DateTime, Effect, Result } from "effect"
import { Conversation, TokenCounter, ToolResult, type Message } from "effect-emissary"

const length = 10_000
const limits = { maxMessages: length, maxNodes: 1e7, maxBytes: 1e8, maxArrayLength: length }
const createdAt = DateTime.makeUnsafe(0)

const messageAt = (index: number): Message.Message => {
  const base = { id: `m${index}`, createdAt }
  const callId = `c${Math.floor(index / 4)}`
  switch (index % 4) {
    case 0:
      return { ...base, role: "user", content: [{ type: "text", text: "Where is it?" }] }
    case 1:
      return {
        ...base,
        role: "assistant",
        content: [{ type: "tool-call", id: callId, name: "find", arguments: { n: index } }]
      }
    case 2:
      return { ...base, role: "tool", callId, name: "find", result: ToolResult.success({ n: index }) }
    default:
      return { ...base, role: "assistant", content: [{ type: "text", text: "There." }] }
  }
}

const messages = Array.from({ length }, (_, index) => messageAt(index))

type Operation = "append" | "encode" | "decode" | "fit"

/** Arrays, `JSON` of the engine, and the newest turns that fit. */
export const bare = async (operation: Operation): Promise<() => unknown> => {
  const text = JSON.stringify(messages)
  switch (operation) {
    case "append":
      return () => {
        const self: Array<Message.Message> = []
        for (const message of messages) self.push(Object.freeze({ ...message }))
        return self
      }
    case "encode":
      return () => JSON.stringify(messages)
    case "decode":
      return () => JSON.parse(text)
    case "fit":
      return () => {
        let [left, first] = [length * 5, length]
        while (first > 0 && left > 0) left -= TokenCounter.heuristic.count(JSON.stringify(messages[--first]))
        return messages.slice(first - (first % 4))
      }
  }
}

export const emissary = async (operation: Operation): Promise<() => unknown> => {
  const build = () => {
    let self = Conversation.empty
    for (const message of messages) self = Result.getOrThrow(Conversation.append(self, message))
    return self
  }
  const self = build()
  const text = Effect.runSync(Conversation.codec.encodeJson(self, { limits }))
  switch (operation) {
    case "append":
      return build
    case "encode":
      return () => Effect.runSync(Conversation.codec.encodeJson(self, { limits }))
    case "decode":
      return () => Effect.runSync(Conversation.codec.decodeJson(text, { limits }))
    case "fit":
      // a new counter remembers no message
      return () =>
        Effect.runSync(
          Effect.provide(
            Conversation.truncate(self, { maxTokens: length * 5 }),
            TokenCounter.layer({ count: TokenCounter.heuristic.count })
          )
        )
  }
}
