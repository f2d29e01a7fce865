/**
 * Messages of other providers.
 *
 * @since 0.1.0
 */
export * as AnthropicMessages from "./AnthropicMessages.ts"
export * as OpenAiMessages from "./OpenAiMessages.ts"
export * as OpenAiResponses from "./OpenAiResponses.ts"
export * as RenderError from "./RenderError.ts"
