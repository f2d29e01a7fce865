/**
 * @since 0.1.0
 */
export * as AgentError from "./AgentError.ts"
export * as Outcome from "./Outcome.ts"
export * as RunAction from "./RunAction.ts"
export * as RunEvent from "./RunEvent.ts"
export * as RunEventError from "./RunEventError.ts"
export * as RunIncomplete from "./RunIncomplete.ts"
export * as RunState from "./RunState.ts"
export * as RunTransition from "./RunTransition.ts"
export * as AgentDefinition from "./AgentDefinition.ts"
export * as ModelRegistry from "./ModelRegistry.ts"
export * as ModelRegistryError from "./ModelRegistryError.ts"
