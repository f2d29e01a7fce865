/** What was said to an agent, as the input of a plan. */
import * as Conversation from "../../../conversation/Conversation.ts"
import * as Message from "../../../conversation/Message.ts"
import type { Turn } from "../../../agent/Delegate.ts"
import type { Input } from "../../PlanInput.ts"

const speakers = { user: "User", assistant: "Assistant" } as const

/** What was said before, one paragraph for each message that says something. */
const before = (messages: ReadonlyArray<Message.Message>): string =>
  messages
    .flatMap((message) => {
      if (message.role !== "user" && message.role !== "assistant") return []
      const text = Message.text(message)
      return text === "" ? [] : [`${speakers[message.role]}: ${text}`]
    })
    .join("\n\n")

/**
 * The newest user message is the task, its files are the content, and what users and
 * assistants said before it is the context.
 */
export const inputOf = ({ message, state }: Pick<Turn, "message" | "state">): Input => {
  const messages = Conversation.messages(state().conversation)
  const context = before(messages.slice(0, messages.indexOf(message)))
  const content = message.content.filter((part) => part.type !== "text")
  return {
    task: Message.text(message),
    ...(context === "" ? undefined : { context }),
    ...(content.length === 0 ? undefined : { content })
  }
}
