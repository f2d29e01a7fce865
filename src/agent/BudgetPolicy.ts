/**
 * What an agent does when its conversation outgrows the model.
 *
 * @since 0.1.0
 */
import type * as Effect from "effect/Effect"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type { Conversation } from "../conversation/Conversation.ts"

/**
 * Shorten and remove, as `Conversation.fit` does.
 *
 * @category models
 * @since 0.1.0
 */
export interface Fit {
  readonly _tag: "Fit"
  readonly threshold: number
  readonly target: number
  readonly keepOutput: number | undefined
}

/**
 * Summarize old turns, as `Conversation.compact` does.
 *
 * @category models
 * @since 0.1.0
 */
export interface Compact {
  readonly _tag: "Compact"
  readonly threshold: number
  readonly target: number
  readonly keepRecent: number
  readonly summarize: (old: Conversation) => Effect.Effect<string, unknown, LanguageModel.LanguageModel>
}

/**
 * What to do before a model call whose request would weigh more than `threshold` tokens.
 *
 * **Details**
 *
 * Sizes are those of `Conversation.estimatedSize`, the agent's tool definitions
 * included. The policy is asked before each model call, when no call is open.
 *
 * What it leaves is the `view` of the run's state: models are sent the view, and what
 * is said from then on enters both. The conversation of the state and of the result
 * stays whole. A view lasts until it passes the threshold itself, so prompt caches of
 * providers stay warm in between, a summary is made once, and a run that is resumed,
 * elsewhere too, sends what it would have sent. Each view is one
 * `ConversationFitted` event with a report of what was left out.
 *
 * A new run begins without a view; to keep one over several messages of a user, resume
 * the state of the last result with the next `input`.
 *
 * @category models
 * @since 0.1.0
 */
export type BudgetPolicy = Fit | Compact

/**
 * Shortens old tool outputs and removes old turns, see `Conversation.fit`, until the
 * request weighs `target` tokens, by default 70 % of `threshold`: the room between them is
 * what the next view has to grow in. If what must stay lies between the two, that will
 * do; if it passes the threshold, the run fails with the reason `BudgetFailed`.
 *
 * **Example** (An agent that forgets old turns)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Agent, BudgetPolicy, Conversation } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const agent = Agent.make("clerk", {
 *   instructions: "Be brief.",
 *   budget: BudgetPolicy.fit({ threshold: 100 })
 * })
 *
 * const program = Effect.gen(function*() {
 *   const first = yield* agent.run("Tell me a story.")
 *   const second = yield* agent.run("And now?", { conversation: first.conversation })
 *   const [, request] = yield* ScriptedModel.requests
 *   assert.deepStrictEqual(request?.prompt.content.map(({ role }) => role), ["system", "user"])
 *   assert.strictEqual(Conversation.messageCount(second.conversation), 5)
 * })
 *
 * await Effect.runPromise(program.pipe(Effect.provide(ScriptedModel.layer([{ text: "story ".repeat(200) }, { text: "Good." }]))))
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const fit = (options: {
  readonly threshold: number
  readonly target?: number | undefined
  readonly keepOutput?: number | undefined
}): BudgetPolicy => ({
  _tag: "Fit",
  threshold: options.threshold,
  target: options.target ?? defaultTarget(options.threshold),
  keepOutput: options.keepOutput
})

/**
 * Replaces all but the newest turns (`keepRecent`, default 1, at least 1) by a summary,
 * see `Conversation.compact`. What still passes the threshold then is brought within it
 * as {@link fit} does.
 *
 * **Details**
 *
 * `summarize` may use the model of the agent: `LanguageModel` is provided. Other
 * services, and the usage of its calls, are the caller's matter. Its failure, or a summary
 * that says nothing, ends the run with the reason `BudgetFailed`.
 *
 * **Example** (A summary by the agent's own model)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { LanguageModel, Prompt } from "effect/ai"
 * import { Agent, BudgetPolicy, Conversation } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const agent = Agent.make("clerk", {
 *   budget: BudgetPolicy.compact({
 *     threshold: 100,
 *     summarize: (old) =>
 *       Effect.map(
 *         LanguageModel.generateText({
 *           prompt: Prompt.concat(Conversation.toPrompt(old), "Summarize what was said so far in two sentences.")
 *         }),
 *         ({ text }) => text
 *       )
 *   })
 * })
 *
 * const program = Effect.gen(function*() {
 *   const first = yield* agent.run("Tell me a story.")
 *   return yield* agent.resume(first.state, { input: "And now?" })
 * })
 *
 * const result = await Effect.runPromise(program.pipe(
 *   Effect.provide(ScriptedModel.layer([{ text: "story ".repeat(200) }, { text: "A story was told." }, { text: "Good." }]))
 * ))
 * assert.strictEqual(result.text, "Good.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const compact = (options: {
  readonly threshold: number
  readonly target?: number | undefined
  readonly keepRecent?: number | undefined
  readonly summarize: (old: Conversation) => Effect.Effect<string, unknown, LanguageModel.LanguageModel>
}): BudgetPolicy => ({
  _tag: "Compact",
  threshold: options.threshold,
  target: options.target ?? defaultTarget(options.threshold),
  keepRecent: Math.max(1, options.keepRecent ?? 1),
  summarize: options.summarize
})

const defaultTarget = (threshold: number): number => Math.floor(threshold * 0.7)
