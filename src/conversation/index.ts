/**
 * Conversations: lawful, immutable message histories.
 *
 * @since 0.1.0
 */
export * as AnthropicMessages from "./AnthropicMessages.ts"
export * as Budget from "./Budget.ts"
export * as Conversation from "./Conversation.ts"
export * as ConversationError from "./ConversationError.ts"
export * as ConversationStore from "./ConversationStore.ts"
export * as ConversationStoreError from "./ConversationStoreError.ts"
export * as Message from "./Message.ts"
export * as MessageId from "./MessageId.ts"
export * as OpenAiMessages from "./OpenAiMessages.ts"
export * as Part from "./Part.ts"
export * as RenderError from "./RenderError.ts"
export * as Repair from "./Repair.ts"
export * as ResponseContent from "./ResponseContent.ts"
export * as TokenCounter from "./TokenCounter.ts"
export * as TokenUsage from "./TokenUsage.ts"
export * as Transcript from "./Transcript.ts"
export * as VersionedStore from "./VersionedStore.ts"
export * as VersionedStoreError from "./VersionedStoreError.ts"
