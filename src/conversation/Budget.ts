/**
 * What was done to bring a conversation within a number of tokens.
 *
 * The work is done by `Conversation.fit` and `Conversation.compact`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as marks from "./internal/budget/marks.ts"
import { type AssistantMessage, roles } from "./Message.ts"

/**
 * A message that is not in the conversation any more.
 *
 * @category models
 * @since 0.1.0
 */
export const Removed = Schema.Struct({
  id: Schema.String,
  role: Schema.Literals(roles),
  tokens: Schema.Number
}).annotate({ identifier: "RemovedMessage" })

/**
 * A message that is not in the conversation any more.
 *
 * @category models
 * @since 0.1.0
 */
export type Removed = typeof Removed.Type

/**
 * A tool result of which the beginning and the end were kept. The message has the id
 * and the place it had.
 *
 * @category models
 * @since 0.1.0
 */
export const Shortened = Schema.Struct({
  id: Schema.String,
  callId: Schema.String,
  name: Schema.String,
  before: Schema.Number,
  after: Schema.Number
}).annotate({ identifier: "ShortenedMessage" })

/**
 * A tool result of which the beginning and the end were kept.
 *
 * @category models
 * @since 0.1.0
 */
export type Shortened = typeof Shortened.Type

/**
 * The message that stands for those that were removed.
 *
 * @category models
 * @since 0.1.0
 */
export const Summary = Schema.Struct({ id: Schema.String, tokens: Schema.Number })

/**
 * The message that stands for those that were removed.
 *
 * @category models
 * @since 0.1.0
 */
export type Summary = typeof Summary.Type

/**
 * What was removed, shortened and put in its place, oldest first, and what the
 * conversation weighed before and weighs now. All numbers are tokens as
 * `Conversation.estimatedSize` estimates them.
 *
 * @category models
 * @since 0.1.0
 */
export const Report = Schema.Struct({
  before: Schema.Number,
  after: Schema.Number,
  removed: Schema.Array(Removed),
  shortened: Schema.Array(Shortened),
  summary: Schema.optionalKey(Summary)
}).annotate({ identifier: "BudgetReport" })

/**
 * What was removed, shortened and put in its place.
 *
 * @category models
 * @since 0.1.0
 */
export type Report = typeof Report.Type

/**
 * Whether nothing was changed.
 *
 * @category guards
 * @since 0.1.0
 */
export const isUnchanged = (self: Report): boolean =>
  self.removed.length === 0 && self.shortened.length === 0 && self.summary === undefined

/**
 * Marks an answer as one to a view of the conversation that it enters, as
 * `Conversation.fit` and `compact` make: its usage is not taken for the size of that
 * conversation. Agents with a `BudgetPolicy` do this by themselves. The mark stands in
 * the metadata of the message.
 *
 * **Example** (Sending less than is kept)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { Budget, Conversation, Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const chat = yield* Conversation.addUser(Conversation.empty, "Hello")
 *   const answer = yield* Message.assistant("Hi", { usage: { inputTokens: 100_000, outputTokens: 2 } })
 *   const next = Result.getOrThrow(Conversation.append(chat, Budget.fromView(answer)))
 *   return yield* Conversation.estimatedSize(next)
 * })
 * assert(Effect.runSync(program) < 100)
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const fromView = (message: AssistantMessage): AssistantMessage => ({
  ...message,
  metadata: { ...message.metadata, [marks.view]: true }
})

/**
 * What must stay does not fit: the system message, the current run, and the results
 * the model has not seen yet.
 *
 * **Details**
 *
 * `needed` is the smallest budget that would do.
 *
 * @category errors
 * @since 0.1.0
 */
export class BudgetTooSmall extends Schema.TaggedError<BudgetTooSmall>("effect-emissary/conversation/BudgetTooSmall")(
  "BudgetTooSmall",
  { needed: Schema.Number, budget: Schema.Number }
) {
  override get message(): string {
    return `Budget too small: expected at most ${this.budget} tokens, found ${this.needed} in what has to stay (the system message, the messages since the newest user message, and what is sent beside them); raise the budget, shorten the instructions or limit what tools return`
  }
}
