/**
 * Conversations in the message format of Anthropic's Messages API.
 *
 * **When to use**
 *
 * To take in histories that other programs keep in this format, and to hand a
 * conversation to programs that expect it. To call a model, `effect/ai` is enough:
 * see `Conversation.toPrompt`.
 *
 * **Details**
 *
 * Reading checks the limits of `Limits`, the form of each block and every law of
 * conversations. The results of one message become one message each, and are
 * written together again: all results of one assistant message share one user
 * message. A user message after them stays a message of its own, unless it stood in
 * theirs when it was read. No other messages are merged: Anthropic takes several of
 * one role in a row.
 *
 * What was read and was lawful is written again as it was, byte by byte: strings
 * and lists of blocks, the order of keys and of results, and keys that are not
 * known here. What a conversation has no field for stands in the metadata of the
 * message, under `"effect-emissary/anthropic"`. It is used as long as the message
 * says what it said.
 *
 * | here | in the format |
 * |---|---|
 * | system message | `system`; `null` without one |
 * | text | `text` block |
 * | jpeg, png, gif or webp image | `image` |
 * | PDF or plain text, `fileName` | `document`, `title` |
 * | URL without a scheme | `image` or `document` with a file id |
 * | reasoning with option `anthropic.info` | `thinking` with its signature, `redacted_thinking` |
 * | tool call, result | `tool_use`, `tool_result`; `is_error` for failures |
 * | tool that Anthropic ran itself, option `anthropic.block` | the block of that type |
 * | options `anthropic.cacheControl`, `.citations`, `.documentContext` | `cache_control`, `citations`, `context` |
 *
 * The options are those of Effect's provider for Anthropic.
 *
 * **Gotchas**
 *
 * The format has no field for the type of a failure, for ids and times of messages,
 * for usage and models, nor for argument text: a failure reads back as
 * `execution_error` with the same text. A failed result without text says its type.
 * Text of white space beside other content is left out, because Anthropic refuses
 * it.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import type { Limits } from "../payload/Limits.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type { Conversation } from "./Conversation.ts"
import type { ConversationError } from "./ConversationError.ts"
import { fromHistory, repaired } from "./internal/anthropic/from.ts"
import { onUnlawful } from "./internal/onUnlawful.ts"
import type { Reader } from "./Repair.ts"
import { toHistory } from "./internal/anthropic/to.ts"
import * as received from "./internal/received.ts"
import type { RenderError } from "./RenderError.ts"

/**
 * The part of a request that holds the conversation. `system` is `null` without a
 * system message, and absent where it was absent when it was read.
 *
 * @category models
 * @since 0.1.0
 */
export interface AnthropicHistory {
  readonly system?: Schema.Json
  readonly messages: ReadonlyArray<JsonObject>
}

/**
 * Options of {@link toAnthropicMessages}.
 *
 * **Details**
 *
 * - `reasoning`: what becomes of reasoning without Anthropic's signature, and of
 *   reasoning with nothing after it, both of which Anthropic refuses. `"omit"`
 *   (default) leaves it out; `"refuse"` fails.
 * - `invalidArguments`: what becomes of tool arguments that are no object.
 *   `"refuse"` (default) fails; `"wrap"` sends `{ invalid_arguments }`, as
 *   `Conversation.toPrompt` does.
 * - `toolName`: maps tool names to those the provider knows; default the same.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly reasoning?: "omit" | "refuse" | undefined
  readonly invalidArguments?: "refuse" | "wrap" | undefined
  readonly toolName?: ((name: string) => string) | undefined
}

/**
 * Options of {@link fromAnthropicMessages}: limits that differ from the current
 * ones, and the token limit of the conversation.
 *
 * @category models
 * @since 0.1.0
 */
export interface ReadOptions {
  readonly limits?: Partial<Limits> | undefined
  readonly tokenLimit?: number | undefined
}

/**
 * Writes a conversation as `system` and `messages` of Anthropic's Messages API.
 *
 * **Details**
 *
 * What Anthropic refuses is never written, and nothing that was said is dropped:
 * open calls, a first message that is not from the user, messages that say nothing,
 * an empty system message, arguments that are no object and content without a form
 * in the format are errors that name the message.
 *
 * **Example** (Results share one message)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { AnthropicMessages, Conversation, Part, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.empty.pipe(
 *   Conversation.addUser("Compare"),
 *   Effect.flatMap(
 *     Conversation.addAssistant([
 *       Part.toolCall({ id: "a", name: "search", arguments: { q: "ruby" } }),
 *       Part.toolCall({ id: "b", name: "search", arguments: { q: "python" } })
 *     ])
 *   ),
 *   Effect.flatMap(Conversation.addToolResult({ callId: "a", result: ToolResult.success("red") })),
 *   Effect.flatMap(Conversation.addToolResult({ callId: "b", result: ToolResult.failure("not_found", "Nothing") }))
 * )
 *
 * const { messages } = Result.getOrThrow(AnthropicMessages.toAnthropicMessages(Effect.runSync(program)))
 * assert.deepStrictEqual(messages[2], {
 *   role: "user",
 *   content: [
 *     { type: "tool_result", tool_use_id: "a", content: "red" },
 *     { type: "tool_result", tool_use_id: "b", content: "Nothing", is_error: true }
 *   ]
 * })
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toAnthropicMessages = (
  self: Conversation,
  options?: Options
): Result.Result<AnthropicHistory, RenderError> => toHistory(self, options ?? {})

/**
 * Reads a conversation from `system` and `messages` of Anthropic's Messages API.
 * Messages get new ids and the current time.
 *
 * **Details**
 *
 * Fails with `PayloadError` and the path where the JSON is over a limit or of
 * another form, with `ConversationError` and the index of the message where the
 * history breaks a law; with `onUnlawful: "repair"` it is repaired instead, and the result
 * holds the conversation and the `repairs`. A history may end in open calls: that is a run which was
 * stopped.
 *
 * **Example** (A history from elsewhere)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { AnthropicMessages, Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const foreign = {
 *   messages: [
 *     { role: "user", content: "Weather?" },
 *     {
 *       role: "assistant",
 *       content: [
 *         { type: "thinking", thinking: "I should look.", signature: "c2ln" },
 *         { type: "tool_use", id: "t1", name: "weather", input: {} }
 *       ]
 *     },
 *     {
 *       role: "user",
 *       content: [
 *         { type: "tool_result", tool_use_id: "t1", is_error: true, content: "offline" },
 *         { type: "text", text: "Try again" }
 *       ]
 *     }
 *   ]
 * }
 *
 * const chat = Effect.runSync(AnthropicMessages.fromAnthropicMessages(foreign))
 * assert.strictEqual(Conversation.messageCount(chat), 4)
 * const again = Result.getOrThrow(AnthropicMessages.toAnthropicMessages(chat))
 * assert.strictEqual(JSON.stringify(again), JSON.stringify(foreign))
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromAnthropicMessages: Reader<unknown, ReadOptions, PayloadError | ConversationError> = onUnlawful(
  (input, options) => fromHistory(input, options ?? {}),
  (input, options) => repaired(input, options ?? {})
)

/**
 * Schema of a conversation whose encoded form are `system` and `messages` of
 * Anthropic's Messages API, to embed in other schemas. Decoding is
 * {@link fromAnthropicMessages}, encoding {@link toAnthropicMessages}, both with
 * their default options.
 *
 * **Example** (Encoding)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { AnthropicMessages, Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.make({ system: "Be brief." }).pipe(
 *   Effect.flatMap(Conversation.addUser("Hello")),
 *   Effect.flatMap(Schema.encodeEffect(AnthropicMessages.AnthropicMessages))
 * )
 * assert.deepStrictEqual(Effect.runSync(program), {
 *   system: "Be brief.",
 *   messages: [{ role: "user", content: [{ type: "text", text: "Hello" }] }]
 * })
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const AnthropicMessages: Schema.Codec<Conversation, Schema.Json> = received.codec(
  "AnthropicMessages",
  fromAnthropicMessages,
  (self) => Effect.fromResult(Result.map(toAnthropicMessages(self), (history): Schema.Json => ({ ...history })))
)
