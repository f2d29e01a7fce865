/**
 * Conversations in the message format of OpenAI's Chat Completions, which many
 * other servers speak too.
 *
 * **When to use**
 *
 * To take in histories that other programs keep in this format, and to hand a
 * conversation to programs that expect it. To call a model, `effect/ai` is enough:
 * see `Conversation.toPrompt`.
 *
 * **Details**
 *
 * Reading checks the limits of `Limits`, the form of each message and every law of
 * conversations. Both shapes of tool calls are read, OpenAI's own and the flat
 * `{ id, name, arguments }`, with arguments as text or as an object.
 *
 * What was read and was lawful is written again as it was, byte by byte: argument
 * text, the order of keys and of results, and keys that are not known here. What a
 * conversation has no field for stands in the metadata of the message, under
 * `"effect-emissary/openai"`. It is used as long as the message says what it said.
 *
 * | here | in the format |
 * |---|---|
 * | system message | role `system`; role `developer` is read too |
 * | text of a user or a tool | a string; several parts are a list of parts |
 * | text of an assistant | one string; `null` beside tool calls only |
 * | image | `image_url`, `detail` in the option `openai.imageDetail` |
 * | wav or mp3 recording | `input_audio` |
 * | other file | `file` with its data |
 * | URL without a scheme | `file` with a file id |
 * | text with option `openai.refusal` | `refusal` |
 * | reasoning with option `openai.reasoningField` | `reasoning_content` or `reasoning`, as compatible servers name it |
 * | argument text as received, else compact JSON | `function.arguments` |
 *
 * **Gotchas**
 *
 * The format has no field for whether a tool failed, for ids and times of messages,
 * for usage and models, nor for the order of text and calls in one message: text
 * comes first, and a failure reads back as a success with the same text. Empty text
 * beside other content is left out.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import type { Limits } from "../payload/Limits.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type { Conversation } from "./Conversation.ts"
import type { ConversationError } from "./ConversationError.ts"
import { onUnlawful } from "./internal/onUnlawful.ts"
import { fromMessages, repaired } from "./internal/openai/from.ts"
import type { Reader } from "./Repair.ts"
import { toMessages } from "./internal/openai/to.ts"
import * as received from "./internal/received.ts"
import type { RenderError } from "./RenderError.ts"

/**
 * Options of {@link toOpenAiMessages}.
 *
 * **Details**
 *
 * - `reasoning`: what becomes of reasoning that has no field in the format.
 *   `"omit"` (default) leaves it out, as OpenAI itself does; `"refuse"` fails.
 * - `invalidArguments`: what becomes of tool arguments that are no object.
 *   `"refuse"` (default) fails; `"wrap"` sends `{ invalid_arguments }`, as
 *   `Conversation.toPrompt` does.
 * - `toolFiles`: what becomes of files in tool results, which can hold text only.
 *   `"refuse"` (default) fails; `"describe"` sends `[image/png a.png omitted]`.
 * - `toolName`: maps tool names to those the provider knows; default the same.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly reasoning?: "omit" | "refuse" | undefined
  readonly invalidArguments?: "refuse" | "wrap" | undefined
  readonly toolFiles?: "refuse" | "describe" | undefined
  readonly toolName?: ((name: string) => string) | undefined
}

/**
 * Options of {@link fromOpenAiMessages}: limits that differ from the current ones,
 * and the token limit of the conversation.
 *
 * @category models
 * @since 0.1.0
 */
export interface ReadOptions {
  readonly limits?: Partial<Limits> | undefined
  readonly tokenLimit?: number | undefined
}

/**
 * Writes a conversation as messages of Chat Completions.
 *
 * **Details**
 *
 * What OpenAI refuses is never written, and nothing that was said is dropped: open
 * calls, messages that say nothing, an empty system message, arguments that are no
 * object and content without a form in the format are errors that name the message.
 *
 * **Example** (A call and its result)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { Conversation, OpenAiMessages, Part, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.make({ system: "Be brief." }).pipe(
 *   Effect.flatMap(Conversation.addUser("Where is order 42?")),
 *   Effect.flatMap(
 *     Conversation.addAssistant([Part.toolCall({ id: "call_1", name: "get_order", arguments: { id: "42" } })])
 *   ),
 *   Effect.flatMap(Conversation.addToolResult({ callId: "call_1", result: ToolResult.success("sent") }))
 * )
 *
 * const messages = Result.getOrThrow(OpenAiMessages.toOpenAiMessages(Effect.runSync(program)))
 * assert.deepStrictEqual(messages, [
 *   { role: "system", content: "Be brief." },
 *   { role: "user", content: "Where is order 42?" },
 *   {
 *     role: "assistant",
 *     content: null,
 *     tool_calls: [{ id: "call_1", type: "function", function: { name: "get_order", arguments: `{"id":"42"}` } }]
 *   },
 *   { role: "tool", content: "sent", tool_call_id: "call_1" }
 * ])
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toOpenAiMessages = (
  self: Conversation,
  options?: Options
): Result.Result<ReadonlyArray<JsonObject>, RenderError> => toMessages(self, options ?? {})

/**
 * Reads a conversation from messages of Chat Completions. Messages get new ids and
 * the current time.
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
 * import { Conversation, OpenAiMessages } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const foreign = [
 *   { role: "user", name: "ada", content: "Weather?" },
 *   {
 *     role: "assistant",
 *     content: "",
 *     tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: "{ }" } }]
 *   },
 *   { role: "tool", tool_call_id: "c1", content: "sunny" }
 * ]
 *
 * const chat = Effect.runSync(OpenAiMessages.fromOpenAiMessages(foreign))
 * assert.deepStrictEqual(Conversation.openCalls(chat), [])
 * const again = Result.getOrThrow(OpenAiMessages.toOpenAiMessages(chat))
 * assert.strictEqual(JSON.stringify(again), JSON.stringify(foreign))
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromOpenAiMessages: Reader<unknown, ReadOptions, PayloadError | ConversationError> = onUnlawful(
  (input, options) => fromMessages(input, options ?? {}),
  (input, options) => repaired(input, options ?? {})
)

/**
 * Schema of a conversation whose encoded form are messages of Chat Completions, to
 * embed in other schemas. Decoding is {@link fromOpenAiMessages}, encoding
 * {@link toOpenAiMessages}, both with their default options.
 *
 * **Example** (The messages in a request)
 *
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Conversation, OpenAiMessages } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const Request = Schema.Struct({ model: Schema.String, messages: OpenAiMessages.OpenAiMessages })
 *
 * const request = Effect.runSync(
 *   Schema.decodeUnknownEffect(Request)({ model: "gpt-5.2", messages: [{ role: "user", content: "Hi" }] })
 * )
 * assert.strictEqual(Conversation.messageCount(request.messages), 1)
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const OpenAiMessages: Schema.Codec<Conversation, Schema.Json> = received.codec(
  "OpenAiMessages",
  fromOpenAiMessages,
  (self) => Effect.fromResult(toOpenAiMessages(self))
)
