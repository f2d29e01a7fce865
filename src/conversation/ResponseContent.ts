/**
 * From the parts of a model's response to the content of an assistant message.
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import type * as Effect from "effect/Effect"
import type * as Result from "effect/Result"
import type { ProviderOptions } from "../tool/Content.ts"
import type { ConversationError } from "./ConversationError.ts"
import * as internal from "./internal/response.ts"
import * as Message from "./Message.ts"
import type { AssistantPart } from "./Part.ts"
import type { TokenUsage } from "./TokenUsage.ts"

/**
 * What a response said.
 *
 * **Details**
 *
 * `model` and `responseId` come from the response's metadata part. `finishReason`
 * is absent where the response had no finish part. `metadata` joins the provider
 * metadata of the response and finish parts. `errors` are the error parts of a
 * stream, which mean that the step failed.
 *
 * @category models
 * @since 0.1.0
 */
export interface ResponseContent {
  readonly content: ReadonlyArray<AssistantPart>
  readonly usage: TokenUsage
  readonly finishReason?: Response.FinishReason
  readonly model?: string
  readonly responseId?: string
  readonly metadata?: ProviderOptions
  readonly errors: ReadonlyArray<unknown>
}

/**
 * Collects the parts of one response as they arrive.
 *
 * **Details**
 *
 * Deltas without a start open a block. Blocks that never end are kept. `result`
 * may be read at any time, also in the middle of a stream; it fails where
 * arguments or results are not JSON.
 *
 * @category models
 * @since 0.1.0
 */
export interface StreamAccumulator {
  readonly add: (part: Response.AnyPart) => void
  readonly result: () => Result.Result<ResponseContent, ConversationError>
}

/**
 * Starts collecting. The accumulator is mutable: one per stream.
 *
 * @category constructors
 * @since 0.1.0
 */
export const accumulator = (): StreamAccumulator => internal.accumulator()

/**
 * Converts the parts of a whole response, or of a whole stream: equal content gives
 * equal messages either way.
 *
 * **Details**
 *
 * Text, reasoning, files, tool calls and results of tools that the provider ran
 * are kept in order with their provider metadata. Sources and approval requests
 * are left out, as are results of tools that `effect/ai` resolved itself and
 * preliminary results.
 *
 * Arguments that arrive as text are parsed; the text is kept next to them. A
 * stream's argument text is kept where it is not the compact JSON of the
 * arguments. Text that does not parse stands for the arguments; empty text is `{}`.
 *
 * **Example** (From a response to a conversation)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { Conversation, Message, ResponseContent } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const asked = yield* Conversation.addUser(Conversation.empty, "Hello")
 *   const response = yield* LanguageModel.generateText({ prompt: Conversation.toPrompt(asked) })
 *   const content = yield* Effect.fromResult(ResponseContent.fromResponseParts(response.content))
 *   const message = yield* ResponseContent.toMessage(content)
 *   return yield* Effect.fromResult(Conversation.append(asked, message))
 * })
 *
 * const chat = Effect.runSync(program.pipe(Effect.provide(ScriptedModel.layer([{ text: "Hi there!" }]))))
 * assert.deepStrictEqual(Conversation.messages(chat).map(Message.text), ["Hello", "Hi there!"])
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromResponseParts = (
  parts: Iterable<Response.AnyPart>
): Result.Result<ResponseContent, ConversationError> => {
  const collected = accumulator()
  for (const part of parts) collected.add(part)
  return collected.result()
}

/**
 * Makes the assistant message of a response.
 *
 * @category conversions
 * @since 0.1.0
 */
export const toMessage = (self: ResponseContent, options?: Message.Options): Effect.Effect<Message.AssistantMessage> =>
  Message.assistant(self.content, {
    ...(Object.keys(self.usage).length === 0 ? undefined : { usage: self.usage }),
    ...(self.model === undefined ? undefined : { model: self.model }),
    ...(self.finishReason === undefined ? undefined : { finishReason: self.finishReason }),
    ...options
  })
