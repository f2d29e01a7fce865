/**
 * Replacing old turns by a summary. Used as `Conversation.compact`.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import { dual } from "effect/Function"
import type { Conversation } from "./Conversation.ts"
import type { ConversationError } from "./ConversationError.ts"
import type { Fitted } from "./Fit.ts"
import * as internal from "./internal/budget/compact.ts"

/**
 * Options of {@link compact}.
 *
 * @category models
 * @since 0.1.0
 */
export interface CompactOptions<out E = never, out R = never> {
  /** Turns to keep as they are, an integer from 0. A turn with open calls is kept in any case. */
  readonly keepRecent: number
  /**
   * Makes the summary of the old turns. They come as a lawful conversation without
   * the system message, and begin with the last summary if there was one.
   */
  readonly summarize: (old: Conversation) => Effect.Effect<string, E, R>
}

/**
 * Replaces old turns by a summary.
 *
 * **Details**
 *
 * The summary is a user message behind the system message, marked in its metadata, so
 * that the next `compact` summarizes it together with the turns that have become old
 * by then. Nothing is done, and `summarize` is not run, when there are no old turns,
 * or nothing but a summary is old. A summary that says nothing fails with the reason
 * `EmptySummary`: it would take away what was said.
 *
 * **Gotchas**
 *
 * The summary may be longer than what it replaces: `report` tells. `summarize` reads
 * what tools returned; a text from outside that asks for something may find its way
 * into the summary.
 *
 * **Example** (A summary by an Effect of your own)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   let chat = yield* Conversation.make({ system: "Be brief." })
 *   chat = yield* Conversation.addUser(chat, "My name is Ada.")
 *   chat = yield* Conversation.addAssistant(chat, "Hello, Ada.")
 *   chat = yield* Conversation.addUser(chat, "What is 2 + 2?")
 *
 *   const { conversation, report } = yield* Conversation.compact(chat, {
 *     keepRecent: 1,
 *     summarize: (old) => Effect.succeed(`${Conversation.messageCount(old)} messages: the user is Ada.`)
 *   })
 *   assert.strictEqual(report.removed.length, 2)
 *   return Conversation.messages(conversation).map(Message.text)
 * })
 *
 * assert.deepStrictEqual(Effect.runSync(program), [
 *   "Be brief.",
 *   "Summary of the conversation so far:\n\n2 messages: the user is Ada.",
 *   "What is 2 + 2?"
 * ])
 * ```
 *
 * @category tokens
 * @since 0.1.0
 */
export const compact: {
  <E, R>(options: CompactOptions<E, R>): (self: Conversation) => Effect.Effect<Fitted, ConversationError | E, R>
  <E, R>(self: Conversation, options: CompactOptions<E, R>): Effect.Effect<Fitted, ConversationError | E, R>
} = dual(2, internal.compact)
