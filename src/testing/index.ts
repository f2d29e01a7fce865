/**
 * @since 0.1.0
 */
export * as ConversationArbitrary from "./ConversationArbitrary.ts"
export * as AgentDefinitionArbitrary from "./AgentDefinitionArbitrary.ts"
export * as NoNetwork from "./NoNetwork.ts"
export * as Script from "./Script.ts"
export * as ScriptedModel from "./ScriptedModel.ts"
export * as ScriptedModelError from "./ScriptedModelError.ts"
export * as StoreConformance from "./StoreConformance.ts"
export * as ToolRuntimeConformance from "./ToolRuntimeConformance.ts"
export * as VersionedStoreConformance from "./VersionedStoreConformance.ts"
export * as ConversationStoreConformance from "./ConversationStoreConformance.ts"
