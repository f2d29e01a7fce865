/**
 * The parts that messages are made of.
 *
 * Text and files are shared with tool results and come from `Content`. Reasoning,
 * tool calls and the results of tools that the provider ran itself occur in
 * assistant messages only.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as Content from "../tool/Content.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as json from "./internal/json.ts"

/**
 * What the model wrote while thinking.
 *
 * **Details**
 *
 * `options` hold the provider's signature or encrypted form, where it gives one.
 * Providers refuse reasoning that comes back without it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ReasoningPart {
  readonly type: "reasoning"
  readonly text: string
  readonly options?: Content.ProviderOptions
}

/**
 * Schema of {@link ReasoningPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ReasoningPart: Schema.Codec<ReasoningPart> = Schema.Struct({
  type: Schema.Literal("reasoning"),
  text: Schema.String,
  options: Schema.optionalKey(Content.ProviderOptions)
}).annotate({ identifier: "ReasoningPart" })

/**
 * The model asks for a tool.
 *
 * **Details**
 *
 * `arguments` are the parsed arguments, an object in all but malformed calls.
 * `text` is the argument text as it was received, where it was received as text:
 * renderers send it back byte by byte, which keeps the provider's prompt cache
 * warm. Text that does not parse stands in both fields.
 *
 * `providerExecuted` marks a tool that the provider runs itself (web search, code
 * execution). Its result is a {@link ToolResultPart}, and nobody else runs it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolCallPart {
  readonly type: "tool-call"
  readonly id: string
  readonly name: string
  readonly arguments: Schema.Json
  readonly text?: string
  readonly providerExecuted?: true
  readonly options?: Content.ProviderOptions
}

/**
 * Schema of {@link ToolCallPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolCallPart: Schema.Codec<ToolCallPart> = Schema.Struct({
  type: Schema.Literal("tool-call"),
  id: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  text: Schema.optionalKey(Schema.String),
  providerExecuted: Schema.optionalKey(Schema.Literal(true)),
  options: Schema.optionalKey(Content.ProviderOptions)
}).annotate({ identifier: "ToolCallPart" })

/**
 * The result of a tool that the provider ran itself. It answers a
 * `providerExecuted` call earlier in the same turn.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolResultPart {
  readonly type: "tool-result"
  readonly id: string
  readonly name: string
  readonly result: ToolResult.ToolResult
  readonly options?: Content.ProviderOptions
}

/**
 * Schema of {@link ToolResultPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolResultPart: Schema.Codec<ToolResultPart> = Schema.Struct({
  type: Schema.Literal("tool-result"),
  id: Schema.String,
  name: Schema.String,
  result: ToolResult.ToolResult,
  options: Schema.optionalKey(Content.ProviderOptions)
}).annotate({ identifier: "ToolResultPart" })

/**
 * A part of an assistant message.
 *
 * @category models
 * @since 0.1.0
 */
export type AssistantPart = Content.TextPart | Content.FilePart | ReasoningPart | ToolCallPart | ToolResultPart

/**
 * Schema of {@link AssistantPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AssistantPart: Schema.Codec<AssistantPart> = Schema.Union([
  Content.TextPart,
  Content.FilePart,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart
])

/**
 * Makes a reasoning part.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reasoning = (text: string, options?: Content.ProviderOptions): ReasoningPart =>
  options === undefined ? { type: "reasoning", text } : { type: "reasoning", text, options }

/**
 * Makes a tool call.
 *
 * **Example** (A call as a model would make it)
 *
 * ```ts
 * import { Part } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const call = Part.toolCall({ id: "call_1", name: "get_order", arguments: { id: "42" } })
 * assert.strictEqual(call.type, "tool-call")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolCall = (options: Omit<ToolCallPart, "type">): ToolCallPart => ({ type: "tool-call", ...options })

/**
 * Makes a tool call from argument text, as providers send it.
 *
 * **Details**
 *
 * The text is kept next to the parsed arguments. Empty text is `{}`; text that does
 * not parse stands for the arguments, and so does text with a key that no codec
 * accepts (`__proto__`): the tool's validation refuses it.
 *
 * **Example** (Arguments as text)
 *
 * ```ts
 * import { Part } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const call = Part.toolCallFromText({ id: "call_1", name: "get_order", text: `{ "id": "42" }` })
 * assert.deepStrictEqual(call.arguments, { id: "42" })
 * assert.strictEqual(call.text, `{ "id": "42" }`)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolCallFromText = (
  options: Omit<ToolCallPart, "type" | "arguments" | "text"> & { readonly text: string }
): ToolCallPart => ({ type: "tool-call", ...options, ...json.parseArguments(options.text) })

/**
 * Makes the result of a tool that the provider ran itself.
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolResult = (options: Omit<ToolResultPart, "type">): ToolResultPart => ({
  type: "tool-result",
  ...options
})
