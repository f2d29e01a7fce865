/**
 * Bringing a conversation within a number of tokens. Used as `Conversation.fit` and
 * `Conversation.estimatedSize`.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { dual } from "effect/Function"
import type { BudgetTooSmall, Report } from "./Budget.ts"
import type { Conversation } from "./Conversation.ts"
import * as internal from "./internal/budget/fit.ts"
import * as weights from "./internal/budget/weigh.ts"
import * as history from "./internal/history.ts"
import { TokenCounter } from "./TokenCounter.ts"

/**
 * Options of {@link estimatedSize}.
 *
 * @category models
 * @since 0.1.0
 */
export interface SizeOptions {
  /**
   * Tokens of what is sent beside the conversation, tool definitions for example;
   * default 0. Not added to a report of the provider, which contains them.
   */
  readonly overhead?: number | undefined
}

/**
 * Options of {@link fit}.
 *
 * @category models
 * @since 0.1.0
 */
export interface FitOptions extends SizeOptions {
  /** The most tokens that the next request may weigh. */
  readonly budget: number
  /** How many characters of a shortened tool output are kept, default 400. Outputs up to twice as long are left alone. */
  readonly keepOutput?: number | undefined
}

/**
 * A conversation within its budget, and what was done to it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Fitted {
  readonly conversation: Conversation
  readonly report: Report
}

/**
 * How many tokens the next request will weigh.
 *
 * **Details**
 *
 * The newest answer with `usage.inputTokens` tells what was read for it, tools and
 * everything else included: that, and its output, and an estimate of the messages
 * behind it. Without such an answer everything is estimated with `TokenCounter`.
 *
 * After `truncate`, `fit` and `compact` have removed something, older reports are
 * about a longer conversation and are not used (`hasStaleUsage`); they stay on their
 * messages for `tokenCount`.
 *
 * **Example** (Input is not counted twice)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   let chat = yield* Conversation.make({ system: "Be brief." })
 *   chat = yield* Conversation.addUser(chat, "One")
 *   chat = yield* Conversation.addAssistant(chat, "1", { usage: { inputTokens: 1000, outputTokens: 10 } })
 *   chat = yield* Conversation.addUser(chat, "Two")
 *   chat = yield* Conversation.addAssistant(chat, "2", { usage: { inputTokens: 1020, outputTokens: 10 } })
 *   assert.strictEqual(Conversation.tokenCount(chat), 2040)
 *   return yield* Conversation.estimatedSize(chat)
 * })
 *
 * assert.strictEqual(Effect.runSync(program), 1030)
 * ```
 *
 * @category tokens
 * @since 0.1.0
 */
export const estimatedSize: {
  (options?: SizeOptions): (self: Conversation) => Effect.Effect<number>
  (self: Conversation, options?: SizeOptions): Effect.Effect<number>
} = dual(
  (args) => history.isHistory(args[0]),
  (self: Conversation, options?: SizeOptions): Effect.Effect<number> =>
    Effect.map(TokenCounter, (counter) =>
      internal.size(history.of(self), options?.overhead ?? 0, weights.make(counter))
    )
)

/**
 * Brings a conversation within a budget of tokens by giving up the least useful first.
 *
 * **Details**
 *
 * Nothing is done to a conversation whose {@link estimatedSize} is within the budget.
 * Otherwise, until it is:
 *
 * 1. tool outputs of old turns are shortened, oldest first, to their beginning and
 *    end with a marker between that says how much is missing;
 * 2. old turns are removed, oldest first, calls together with their results;
 * 3. tool outputs of the current run are shortened, oldest first.
 *
 * The system message, every message since the newest user message and open calls
 * always stay, and no result is shortened before the model has answered it. Kept
 * messages keep their ids and their order. When that is too much, the error says what
 * it would take.
 *
 * Where a provider reported more tokens than the counter finds, the difference (tool
 * definitions, another vocabulary) is taken to stay. The cost is linear in the
 * conversation; each message is counted once.
 *
 * **Example** (A long tool output gives way)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Part, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   let chat = yield* Conversation.make({ system: "You read logs." })
 *   chat = yield* Conversation.addUser(chat, "What happened yesterday?")
 *   chat = yield* Conversation.addAssistant(chat, [Part.toolCall({ id: "c1", name: "read_log", arguments: {} })])
 *   chat = yield* Conversation.addToolResult(chat, {
 *     callId: "c1",
 *     result: ToolResult.success("all quiet\n".repeat(2000))
 *   })
 *   chat = yield* Conversation.addAssistant(chat, "Nothing.")
 *   chat = yield* Conversation.addUser(chat, "And today?")
 *
 *   const { conversation, report } = yield* Conversation.fit(chat, { budget: 1000 })
 *   assert.deepStrictEqual(report.shortened.map((one) => one.callId), ["c1"])
 *   assert.deepStrictEqual(report.removed, [])
 *   assert.strictEqual(Conversation.messageCount(conversation), 6)
 *   assert((yield* Conversation.estimatedSize(conversation)) <= 1000)
 * })
 *
 * Effect.runSync(program)
 * ```
 *
 * @category tokens
 * @since 0.1.0
 */
export const fit: {
  (options: FitOptions): (self: Conversation) => Effect.Effect<Fitted, BudgetTooSmall>
  (self: Conversation, options: FitOptions): Effect.Effect<Fitted, BudgetTooSmall>
} = dual(2, (self: Conversation, options: FitOptions): Effect.Effect<Fitted, BudgetTooSmall> =>
  Effect.flatMap(TokenCounter, (counter) =>
    Effect.fromResult(internal.fit(history.of(self), options, weights.make(counter)))
  )
)
