import type { Message, ToolMessage } from "../Message.ts"

interface Group {
  /** Absent only where results come first, which no lawful conversation does. */
  readonly message: Message | undefined
  readonly results: ReadonlyArray<ToolMessage>
}

/** Each message that is no result, with the results that answer it. */
export const group = (messages: ReadonlyArray<Message>): ReadonlyArray<Group> => {
  const groups: Array<Group> = []
  let results: Array<ToolMessage> = []
  let message: Message | undefined
  const flush = () => {
    if (message !== undefined || results.length > 0) groups.push({ message, results })
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
