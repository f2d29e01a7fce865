/**
 * Messages: the entries of a conversation.
 *
 * A message is plain data. Making one is an Effect, because it stamps an id (from
 * `MessageId`) and a time (from `Clock`); putting it into a conversation is pure.
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Ref from "effect/Ref"
import type * as ToolResult from "../tool/ToolResult.ts"
import * as history from "./internal/history.ts"
import type { ReasoningPart, ToolCallPart, ToolResultPart } from "./internal/history.ts"

export {
  assistant,
  AssistantMessage,
  type AssistantOptions,
  AssistantPart,
  Message,
  MessageId,
  type Options,
  ReasoningPart,
  SourcePart,
  sumUsage,
  system,
  SystemMessage,
  text,
  TokenUsage,
  tool,
  ToolCallPart,
  toolCalls,
  ToolMessage,
  ToolResultPart,
  user,
  UserMessage
} from "./internal/history.ts"

/**
 * Numbers messages `prefix1`, `prefix2` ... For tests and for stores that count.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSequentialIds = (prefix: string = "m"): Layer.Layer<never> =>
  Layer.effect(
    history.MessageId,
    Effect.map(Ref.make(0), (ref) =>
      Effect.map(
        Ref.updateAndGet(ref, (n) => n + 1),
        (n) => `${prefix}${n}`
      )
    )
  )

/**
 * Makes a reasoning part.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reasoningPart = (text: string, options?: ToolResult.ProviderOptions): ReasoningPart =>
  options === undefined ? { type: "reasoning", text } : { type: "reasoning", text, options }

/**
 * Makes a tool call, from arguments or from argument text as providers send it.
 *
 * **Details**
 *
 * Text without `arguments` is parsed, and kept next to them. Empty text is `{}`;
 * text that does not parse replaces the arguments, and so does text with a key that
 * no codec accepts (`__proto__`): the tool's validation rejects it.
 *
 * **Example** (A call as a model makes it)
 *
 * ```ts
 * import { Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const call = Message.toolCallPart({ id: "call_1", name: "get_order", arguments: { id: "42" } })
 * assert.strictEqual(call.type, "tool-call")
 *
 * const received = Message.toolCallPart({ id: "call_1", name: "get_order", text: `{ "id": "42" }` })
 * assert.deepStrictEqual(received.arguments, { id: "42" })
 * assert.strictEqual(received.text, `{ "id": "42" }`)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolCallPart = (
  options: Omit<ToolCallPart, "type"> | (Omit<ToolCallPart, "type" | "arguments"> & { readonly text: string })
): ToolCallPart =>
  "arguments" in options
    ? { type: "tool-call", ...options }
    : { type: "tool-call", ...options, ...history.parseCallArguments(options.text) }

/**
 * Makes the result of a tool that the provider ran itself.
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolResultPart = (options: Omit<ToolResultPart, "type">): ToolResultPart => ({
  type: "tool-result",
  ...options
})
