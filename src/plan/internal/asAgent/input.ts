/** What was said to an agent, as the input of a plan. */
import * as Effect from "effect/Effect"
import * as Conversation from "../../../conversation/Conversation.ts"
import * as Message from "../../../conversation/Message.ts"
import type { Turn } from "../../../agent/Delegate.ts"
import type { Input } from "../../PlanInput.ts"
import { fitted } from "../engine/input.ts"
import type { BoundPlan } from "../live.ts"

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
 * assistants said before it is the context. Where the plan reads something structured the
 * payload is the JSON in the task.
 */
export const inputOf = (
  bound: BoundPlan,
  { message, state }: Pick<Turn, "message" | "state">
): Effect.Effect<Input> => {
  const messages = Conversation.messages(state().conversation)
  const context = before(messages.slice(0, messages.indexOf(message)))
  const content = message.content.filter((part) => part.type !== "text")
  const task = Message.text(message)
  return Effect.map(fitted(bound, task), (payload) => ({
    task,
    payload,
    ...(context === "" ? undefined : { context }),
    ...(content.length === 0 ? undefined : { content })
  }))
}
