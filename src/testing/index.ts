/**
 * @since 0.1.0
 */
export * as Arbitraries from "./Arbitraries.ts"
export * as Conformance from "./Conformance.ts"
export * as LanguageModelConformance from "./LanguageModelConformance.ts"
export * as ModelCassette from "./ModelCassette.ts"
export * as NoNetwork from "./NoNetwork.ts"
export * as ScriptedModel from "./ScriptedModel.ts"
export * as Simulation from "./Simulation.ts"
