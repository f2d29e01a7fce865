/**
 * Why a conversation cannot be written in the format of a provider.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"

/** The message: its position in the conversation, from 0, and its id. */
const place = { index: Schema.Int, id: Schema.String }

/**
 * Why a conversation cannot be written, with the `index` and the `id` of the message.
 *
 * **Details**
 *
 * - `UnansweredCalls`: calls without a result (`callIds`).
 * - `AssistantFirst`: the first message after the system message is not from the
 *   user.
 * - `MisplacedSystem`: a later system message at a place where the provider takes none.
 * - `InvalidArguments`: tool arguments that are not a JSON object.
 * - `UnsupportedContent`: the format cannot hold the content.
 * - `UnsupportedReasoning`: the format cannot hold the reasoning, or the
 *   reasoning lacks the provider's signature.
 *
 * @category models
 * @since 0.1.0
 */
export const Reason = Schema.TaggedUnion({
  UnansweredCalls: { ...place, callIds: Schema.Array(Schema.String) },
  AssistantFirst: place,
  MisplacedSystem: place,
  InvalidArguments: { ...place, callId: Schema.String, name: Schema.String, found: Schema.String },
  UnsupportedContent: { ...place, expected: Schema.String, found: Schema.String },
  UnsupportedReasoning: { ...place, expected: Schema.String }
})

/**
 * @category models
 * @since 0.1.0
 */
export type Reason = typeof Reason.Type

const explain = Reason.match({
  UnansweredCalls: ({ callIds }) =>
    `the calls ${callIds.map((id) => JSON.stringify(id)).join(", ")} have no result. Add their results, or close them with Conversation.seal.`,
  AssistantFirst: () =>
    "expected the first message to be from the user, got an assistant message. Put a user message before it, or leave it out.",
  MisplacedSystem: () =>
    'expected a later system message behind a message of the user or results, before an answer or at the end. Add it there, or pass { laterSystem: "move" } to move it behind the next message of the user.',
  InvalidArguments: ({ callId, found, name }) =>
    `the arguments of call "${callId}" (tool "${name}"): expected a JSON object, got ${found}. Leave { invalidArguments } out to send them wrapped in one.`,
  UnsupportedContent: ({ expected, found }) => `expected ${expected}, got ${found}.`,
  UnsupportedReasoning: ({ expected }) => `expected ${expected}. Pass { reasoning: "omit" } to leave it out.`
})

/**
 * A conversation cannot be written in the format of a provider, because the
 * provider would reject it.
 *
 * `reason` is a {@link Reason}.
 *
 * **Example** (Anthropic requires that the user begins)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { AnthropicMessages } from "effect-emissary/interop"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const greeted = Effect.runSync(Conversation.addAssistant(Conversation.empty, "Welcome!"))
 * const result = AnthropicMessages.fromConversation(greeted)
 * assert(Result.isFailure(result))
 * assert.strictEqual(result.failure.reason._tag, "AssistantFirst")
 * ```
 *
 * @category errors
 * @since 0.1.0
 */
export class RenderError extends Schema.TaggedError<RenderError>("effect-emissary/conversation/RenderError")(
  "RenderError",
  {
    format: Schema.Literals(["OpenAI", "Anthropic"]),
    reason: Reason
  }
) {
  override get message() {
    const { id, index } = this.reason
    return `${this.format} messages, message ${index} (id "${id}"): ${explain(this.reason)}`
  }
}
