import { Effect } from "effect"
import { Conversation, type ConversationError, Message, ToolResult } from "effect-emissary"

export type Step = (
  self: Conversation.Conversation
) => Effect.Effect<Conversation.Conversation, ConversationError.ConversationError>

/** A conversation made in steps. */
export const chat = (...steps: ReadonlyArray<Step>) =>
  steps.reduce<ReturnType<Step>>((self, step) => Effect.flatMap(self, step), Effect.succeed(Conversation.empty))

/** The first step of a conversation with a system message. */
export const system =
  (content: string): Step =>
  () =>
    Conversation.make({ system: content })

/** A call of the tool `f`. */
export const call = (id: string, over?: Partial<Message.ToolCallPart>) =>
  Message.toolCallPart({ id, name: "f", arguments: {}, ...over })

/** A call of a tool that the provider runs, and its result. */
export const own = (id: string) => Message.toolCallPart({ id, name: "web", arguments: {}, providerExecuted: true })

export const ownResult = (id: string, value: string | number = "found", name = "web") =>
  Message.toolResultPart({ id, name, result: ToolResult.success(value) })
