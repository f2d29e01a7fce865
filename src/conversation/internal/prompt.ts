import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import type { ToPromptOptions } from "../Conversation.ts"
import type { ConversationError } from "../ConversationError.ts"
import type { Message } from "../Message.ts"

export const toPrompt = (_messages: ReadonlyArray<Message>, _options: ToPromptOptions): Prompt.Prompt => {
  throw new Error("not yet")
}

export const fromPrompt = (_prompt: Prompt.Prompt): Effect.Effect<ReadonlyArray<Message>, ConversationError> =>
  Effect.die("not yet")
