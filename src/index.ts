/**
 * Define an agent once as typed Effect values, send it anywhere as data, run it
 * anywhere through a Layer.
 *
 * @since 0.1.0
 */
export * as Agent from "./agent/Agent.ts"
export * as AgentDefinition from "./agent/AgentDefinition.ts"
export * as AgentError from "./agent/AgentError.ts"
export * as AgentEvent from "./agent/AgentEvent.ts"
export * as Budget from "./agent/Budget.ts"
export * as ClientTool from "./tool/ClientTool.ts"
export * as ContextWindow from "./agent/ContextWindow.ts"
export * as Conversation from "./conversation/Conversation.ts"
export * as ConversationError from "./conversation/ConversationError.ts"
export * as Guard from "./agent/Guard.ts"
export * as Limits from "./payload/Limits.ts"
export * as Message from "./conversation/Message.ts"
export * as ModelPrices from "./agent/ModelPrices.ts"
export * as ModelRegistry from "./agent/ModelRegistry.ts"
export * as PayloadError from "./payload/PayloadError.ts"
export * as Question from "./tool/Question.ts"
export * as Run from "./agent/Run.ts"
export * as RunContext from "./tool/RunContext.ts"
export * as Session from "./session/Session.ts"
export * as Telemetry from "./agent/Telemetry.ts"
export * as TokenCounter from "./conversation/TokenCounter.ts"
export * as ToolContract from "./tool/ToolContract.ts"
export { ToolFailure } from "./tool/ToolFailure.ts"
export * as ToolResolver from "./tool/ToolResolver.ts"
export * as ToolResult from "./tool/ToolResult.ts"
export * as ToolRuntime from "./tool/ToolRuntime.ts"
export * as ToolSettings from "./tool/ToolSettings.ts"
export * as VersionedStore from "./store/VersionedStore.ts"
