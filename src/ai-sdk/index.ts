/**
 * Models of the AI SDK as language models of Effect.
 *
 * @since 0.1.0
 */
export * as AiSdk from "./AiSdk.ts"
export * as EnvModels from "./EnvModels.ts"
