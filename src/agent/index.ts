/**
 * Agents: what they are, how they run, and how they travel as data.
 *
 * @since 0.1.0
 */
export * as Agent from "./Agent.ts"
export * as AgentDefinition from "./AgentDefinition.ts"
export * as AgentError from "./AgentError.ts"
export * as AgentEvent from "./AgentEvent.ts"
export * as Budget from "./Budget.ts"
export * as ContextWindow from "./ContextWindow.ts"
export * as Guard from "./Guard.ts"
export * as ModelPrices from "./ModelPrices.ts"
export * as ModelRegistry from "./ModelRegistry.ts"
export * as Run from "./Run.ts"
export * as Telemetry from "./Telemetry.ts"
