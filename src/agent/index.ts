/**
 * Agents: what they are, how they run, and how they travel as data.
 *
 * @since 0.1.0
 */
export * as Agent from "./Agent.ts"
export * as AgentConfig from "./AgentConfig.ts"
export * as AgentDefinition from "./AgentDefinition.ts"
export * as AgentError from "./AgentError.ts"
export * as AgentEvent from "./AgentEvent.ts"
export * as AgentTool from "./AgentTool.ts"
export * as BudgetPolicy from "./BudgetPolicy.ts"
export * as Captured from "./Captured.ts"
export * as Delegate from "./Delegate.ts"
export * as ModelRegistry from "./ModelRegistry.ts"
export * as ModelRegistryError from "./ModelRegistryError.ts"
export * as Nesting from "./Nesting.ts"
export * as Outcome from "./Outcome.ts"
export * as RunAction from "./RunAction.ts"
export * as RunEvent from "./RunEvent.ts"
export * as RunEventError from "./RunEventError.ts"
export * as RunIncomplete from "./RunIncomplete.ts"
export * as RunOptions from "./RunOptions.ts"
export * as RunResult from "./RunResult.ts"
export * as RunState from "./RunState.ts"
export * as RunTransition from "./RunTransition.ts"
