import type { AssistantMessage, Message, ToolMessage } from "../Message.ts"

/** Results in the order of their calls, whatever the order in which they arrived. */
export const inCallOrder = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const ordered: Array<Message> = []
  for (const { message, results } of group(messages)) {
    if (message !== undefined) ordered.push(message)
    ordered.push(...results)
  }
  return ordered
}

export interface Group {
  /** Absent only where results come first, which no lawful conversation does. */
  readonly message: Message | undefined
  readonly results: ReadonlyArray<ToolMessage>
}

/**
 * Each message that is no result, with the results that answer it: in call order,
 * or as they arrived.
 */
export const group = (messages: ReadonlyArray<Message>, asArrived: boolean = false): ReadonlyArray<Group> => {
  const groups: Array<Group> = []
  let results: Array<ToolMessage> = []
  let message: Message | undefined
  const flush = () => {
    if (message === undefined && results.length === 0) return
    groups.push({ message, results: message?.role === "assistant" && !asArrived ? sort(message, results) : results })
  }
  for (const next of messages) {
    if (next.role === "tool") {
      results.push(next)
    } else {
      flush()
      message = next
      results = []
    }
  }
  flush()
  return groups
}

const sort = (message: AssistantMessage, results: ReadonlyArray<ToolMessage>): ReadonlyArray<ToolMessage> => {
  if (results.length < 2) return results
  const byId = new Map(results.map((result) => [result.callId, result]))
  const sorted: Array<ToolMessage> = []
  for (const part of message.content) {
    const result = part.type === "tool-call" ? byId.get(part.id) : undefined
    if (result !== undefined) sorted.push(result)
  }
  return sorted
}
