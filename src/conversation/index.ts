/**
 * Conversations: lawful, immutable message histories.
 *
 * @since 0.1.0
 */
export * as Conversation from "./Conversation.ts"
export * as ConversationError from "./ConversationError.ts"
export * as Message from "./Message.ts"
export * as TokenCounter from "./TokenCounter.ts"
