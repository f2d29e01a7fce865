/**
 * Why a conversation cannot be written in the format of a provider.
 *
 * @since 0.1.0
 */

import * as Schema from "effect/Schema"

const place = {
  /** Position in the conversation, from 0. */
  index: Schema.Int,
  /** Id of the message. */
  id: Schema.String
}

const atPlace = (self: { readonly index: number; readonly id: string }): string =>
  `message ${self.index} (id "${self.id}")`

/**
 * Calls without a result: providers refuse the history until each call is answered.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnansweredCalls extends Schema.TaggedError<UnansweredCalls>(
  "effect-emissary/conversation/UnansweredCalls"
)("UnansweredCalls", {
  ...place,
  callIds: Schema.Array(Schema.String)
}) {
  override get message() {
    const ids = this.callIds.map((id) => JSON.stringify(id)).join(", ")
    return `Unanswered calls in ${atPlace(this)}: ${ids} have no result; add their results first, or close them with Conversation.seal`
  }
}

/**
 * The first message after the system message is not from the user.
 *
 * @category errors
 * @since 0.1.0
 */
export class AssistantFirst extends Schema.TaggedError<AssistantFirst>("effect-emissary/conversation/AssistantFirst")(
  "AssistantFirst",
  place
) {
  override get message() {
    return `Expected the first message to be from the user, found an assistant message, ${atPlace(this)}: put a user message before it, or leave the greeting out`
  }
}

/**
 * A message in which nothing is left to send.
 *
 * @category errors
 * @since 0.1.0
 */
export class EmptyMessage extends Schema.TaggedError<EmptyMessage>("effect-emissary/conversation/EmptyMessage")(
  "EmptyMessage",
  { ...place, role: Schema.String }
) {
  override get message() {
    return `Empty ${this.role} message, ${atPlace(this)}: expected text, a file or a tool call that can be sent; leave the message out`
  }
}

/**
 * A system message without text.
 *
 * @category errors
 * @since 0.1.0
 */
export class EmptySystem extends Schema.TaggedError<EmptySystem>("effect-emissary/conversation/EmptySystem")(
  "EmptySystem",
  place
) {
  override get message() {
    return `Empty system message, ${atPlace(this)}: expected text; start the conversation without a system message`
  }
}

/**
 * Tool arguments that are not a JSON object.
 *
 * @category errors
 * @since 0.1.0
 */
export class InvalidArguments extends Schema.TaggedError<InvalidArguments>(
  "effect-emissary/conversation/InvalidArguments"
)("InvalidArguments", {
  ...place,
  callId: Schema.String,
  name: Schema.String,
  found: Schema.String
}) {
  override get message() {
    return `Invalid arguments of call id "${this.callId}" (tool "${this.name}") in ${atPlace(this)}: expected a JSON object, found ${this.found}; pass { invalidArguments: "wrap" } to send them wrapped in one`
  }
}

/**
 * Content that the format has no form for.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnsupportedContent extends Schema.TaggedError<UnsupportedContent>(
  "effect-emissary/conversation/UnsupportedContent"
)("UnsupportedContent", {
  ...place,
  /** What was found, without its data. */
  found: Schema.String,
  /** What the format can hold there. */
  expected: Schema.String
}) {
  override get message() {
    return `Unsupported content in ${atPlace(this)}: expected ${this.expected}, found ${this.found}`
  }
}

/**
 * Reasoning that the format has no form for, or that lacks the provider's signature.
 *
 * @category errors
 * @since 0.1.0
 */
export class UnsupportedReasoning extends Schema.TaggedError<UnsupportedReasoning>(
  "effect-emissary/conversation/UnsupportedReasoning"
)("UnsupportedReasoning", { ...place, expected: Schema.String }) {
  override get message() {
    return `Unsupported reasoning in ${atPlace(this)}: expected ${this.expected}; pass { reasoning: "omit" } to leave it out`
  }
}

/**
 * Every way in which a conversation cannot be written.
 *
 * @category errors
 * @since 0.1.0
 */
export type Reason =
  | UnansweredCalls
  | AssistantFirst
  | EmptyMessage
  | EmptySystem
  | InvalidArguments
  | UnsupportedContent
  | UnsupportedReasoning

/**
 * Schema of {@link Reason}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Reason = Schema.Union([
  UnansweredCalls,
  AssistantFirst,
  EmptyMessage,
  EmptySystem,
  InvalidArguments,
  UnsupportedContent,
  UnsupportedReasoning
])

/**
 * A conversation cannot be written in the format of a provider, because the
 * provider would refuse it.
 *
 * **Details**
 *
 * `reason` says why, and which message it is.
 *
 * **Example** (Anthropic wants the user to begin)
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
    return `${this.format} messages: ${this.reason.message}`
  }
}
