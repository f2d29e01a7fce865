/**
 * The part of a conversation that the model receives: a conversation that has grown too long is shortened or summarized
 * before a request.
 *
 * **When to use**
 *
 * Use a policy as the option `contextWindow` of `Agent.make`, or of one run, for conversations that can become longer than
 * the context window of the model, or longer than you want to pay for.
 *
 * **Example** (An agent that forgets old turns)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Agent, ContextWindow, Conversation } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const agent = Agent.make("clerk", {
 *   instructions: "Be brief.",
 *   contextWindow: ContextWindow.truncate({ above: 100 })
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
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as callOptions from "../payload/internal/options.ts"
import { ConversationError } from "../conversation/ConversationError.ts"
import { TokenCounter } from "../conversation/TokenCounter.ts"
import type { Conversation } from "../conversation/internal/history.ts"
import * as reduction from "../conversation/internal/reduction.ts"
import { defined } from "../payload/internal/values.ts"
import * as durability from "../run/internal/durability.ts"
import type * as AgentError from "./AgentError.ts"
import * as agentReason from "./internal/agentReason.ts"
import type { Policy } from "./internal/agentTypes.ts"

export {
  /**
   * The treatment of a conversation whose next request would weigh more than a number of tokens, made by {@link truncate} or
   * {@link summarize}.
   *
   * **Details**
   *
   * Sizes are measured as in `Conversation.estimatedSize`, the agent's tool definitions included. The policy is asked
   * before each model call, when no call is open.
   *
   * Its result is the `view` of the run's state: models receive the view, and later
   * messages enter both. The conversation of the state and of the result
   * stays whole. A view lasts until it is itself too long, so prompt caches of
   * providers stay warm in between, a summary is made once, and a run that is resumed,
   * elsewhere too, sends the same requests. Each view is one
   * `ConversationFitted` event with a report of the reduction.
   *
   * A new run begins without a view; to keep one over several messages of a user, resume
   * the state of the last result with the next `input`.
   *
   * @category models
   * @since 0.1.0
   */
  type Policy,
  /**
   * The next request of a run, as a {@link Policy} sees it.
   *
   * @category models
   * @since 0.1.0
   */
  type Request
} from "./internal/agentTypes.ts"

/**
 * The sizes that both policies have.
 *
 * @category options
 * @since 0.1.0
 */
export interface Sizes {
  /** The tokens that a request may weigh. Above them the model receives a shorter view of the conversation. */
  readonly above: number
  /** The tokens that a new view weighs at most; default 70 % of `above`. */
  readonly to?: number | undefined
  /** The most bytes that texts and files may have together; default 20 MB. A new view has 70 % of them at most. */
  readonly maxBytes?: number | undefined
  /** The most pictures and documents; default any number. A new view has 70 % of them at most. */
  readonly maxFiles?: number | undefined
}

/**
 * Options of {@link truncate}.
 *
 * @category options
 * @since 0.1.0
 */
export interface TruncateOptions extends Sizes {
  /** The number of characters that stay of a shortened tool output; default 400. */
  readonly keepOutput?: number | undefined
}

/**
 * Options of {@link summarize}.
 *
 * @category options
 * @since 0.1.0
 */
export interface SummarizeOptions extends Sizes {
  /** The number of newest turns that stay as they are, at least 1; default 1. */
  readonly keepRecent?: number | undefined
  /**
   * The Effect that makes the summary of the old turns. It may use the model of the agent: `LanguageModel` is provided.
   * The run waits for it, with the time limits of the step. If it fails, or the summary has no text, the run ends with the reason
   * `ContextWindowFailed`, and the same state can be resumed. Retry what passes in the Effect itself, with `Effect.retry` for example:
   * `modelRetry` does not cover it.
   */
  readonly summarize: (old: Conversation) => Effect.Effect<string, unknown, LanguageModel.LanguageModel>
}

/**
 * Shortens old tool outputs and removes old turns, see `Conversation.truncate`, when a request would weigh more than `above`
 * tokens, until it weighs `to` tokens: the room between them is what the view has to grow in. If what must stay lies between
 * the two, that will do; if it is above, the run fails with the reason `ContextWindowFailed`.
 *
 * **Details**
 *
 * Providers also refuse requests of more than 20 to 32 MB, or with too many files: see `maxBytes` and `maxFiles`. A
 * report of a provider that cannot be brought below the limit by removing messages is not believed: a request whose
 * messages fit by the estimate is made, and its own report corrects the size.
 *
 * An example is at the head of this module.
 *
 * @category constructors
 * @since 0.1.0
 */
export const truncate = (options: TruncateOptions): Policy => make(options, (part) => truncateTo(options, part))

/**
 * Replaces all but the newest turns by a summary, see `Conversation.compact`, when a request would weigh more than `above`
 * tokens. What is still above then is shortened as {@link truncate} does.
 *
 * **Details**
 *
 * Services that `summarize` needs beside the model, and the usage of its calls, are the caller's matter.
 *
 * **Example** (A summary by the agent's own model)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { LanguageModel, Prompt } from "effect/ai"
 * import { Agent, ContextWindow, Conversation } from "effect-emissary"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 *
 * const agent = Agent.make("clerk", {
 *   contextWindow: ContextWindow.summarize({
 *     above: 100,
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
 *   Effect.provide(ScriptedModel.layer([{ text: "story ".repeat(200) }, { text: "A story about a dragon." }, { text: "Good." }]))
 * ))
 * assert.strictEqual(result.text, "Good.")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const summarize = (options: SummarizeOptions): Policy =>
  make(options, (part, model) => summarizeTo(options, part, model))

/** A conversation and the tokens of its request beside it. */
type Part = readonly [conversation: Conversation, overhead: number]

/** The largest request that all providers take: some have 20 MB. */
const defaultMaxBytes = 20_000_000

/** The part of a limit that a new view may fill. The rest is what it has to grow in. */
const filled = 0.7

const limitsOf = ({ maxBytes = defaultMaxBytes, maxFiles = Number.POSITIVE_INFINITY, above }: Sizes) => ({
  tokens: above,
  bytes: maxBytes,
  files: maxFiles
})

type Limits = ReturnType<typeof limitsOf>

const optionsOf = ({ bytes, files, tokens }: Limits, overhead: number): reduction.TruncateOptions => ({
  maxTokens: tokens,
  maxBytes: bytes,
  maxFiles: files,
  overhead
})

const allowed = {
  above: callOptions.from(0),
  to: callOptions.from(0),
  maxBytes: callOptions.from(0),
  maxFiles: callOptions.from(0),
  keepOutput: callOptions.from(0),
  keepRecent: callOptions.wholeFrom(1)
}

/** A policy that reduces a conversation whose request passes a limit. */
const make = (
  sizes: Sizes,
  reduce: (part: Part, model: LanguageModel.LanguageModel) => Effect.Effect<reduction.Reduction, AgentError.Reason>
): Policy => ({
  fit: Effect.fnUntraced(function* ({ conversation, model, ...request }) {
    const problem = callOptions.problemOf(allowed, sizes)
    if (problem !== undefined) return yield* Effect.fail(agentReason.makeReason("ContextWindowFailed", { problem }))
    const overhead = request.overhead(yield* TokenCounter)
    if (yield* reduction.fits(conversation, optionsOf(limitsOf(sizes), overhead))) return undefined
    const before = yield* reduction.estimatedSize(conversation, { overhead })
    const fitted = yield* reduce([conversation, overhead], model)
    return reduction.isUnchanged(fitted.report) ? undefined : { ...fitted, report: { ...fitted.report, before } }
  })
})

const truncateTo = (
  sizes: TruncateOptions,
  [conversation, overhead]: Part
): Effect.Effect<reduction.Reduction, AgentError.Reason> => {
  const { above, keepOutput, to: wanted } = sizes
  const limits = limitsOf(sizes)
  const within = (aim: Limits): Effect.Effect<reduction.Reduction, reduction.ConversationTooLarge> =>
    // The room between the aim and the limits is a wish
    Effect.catchIf(
      reduction.truncate(conversation, { ...optionsOf(aim, overhead), keepOutput }),
      ({ needed, unit }) => needed <= limits[unit],
      ({ needed, unit }) => within({ ...aim, [unit]: needed })
    )
  const wish: Limits = {
    tokens: Math.min(wanted ?? Math.floor(above * filled), above),
    bytes: limits.bytes * filled,
    files: Math.floor(limits.files * filled)
  }
  return Effect.mapError(within(wish), ({ needed, unit }) => {
    const error = new reduction.ConversationTooLarge({ needed, limit: limits[unit], unit })
    return agentReason.makeReason("ContextWindowFailed", { problem: error.message }, error)
  })
}

const summarizeTo = Effect.fnUntraced(function* (
  { keepRecent = 1, summarize, ...sizes }: SummarizeOptions,
  [conversation, overhead]: Part,
  model: LanguageModel.LanguageModel
) {
  const summarizeOnce = (old: Conversation) =>
    durability.code<string, unknown>({
      name: "summary",
      run: Effect.provideService(summarize(old), LanguageModel.LanguageModel, model),
      is: (value) => typeof value === "string",
      store: (error) => ({ type: agentReason.nameOfReason(error), message: "", retryable: false }),
      restore: ({ type }) => ({ _tag: type })
    })
  const options = { keepRecent, summarize: summarizeOnce }
  const compacted = yield* reduction.compact(conversation, options).pipe(
    Effect.mapError((error) => {
      if (error instanceof ConversationError) {
        return agentReason.makeReason("ContextWindowFailed", { problem: error.message }, error)
      }
      const name = agentReason.nameOfReason(error)
      const problem = `the Effect that summarizes old turns failed with ${name}`
      return agentReason.makeReason("ContextWindowFailed", { problem, error: name }, error)
    })
  )
  if (yield* reduction.fits(compacted.conversation, optionsOf(limitsOf(sizes), overhead))) {
    const after = yield* reduction.estimatedSize(compacted.conversation, { overhead })
    return { ...compacted, report: { ...compacted.report, after } }
  }
  const fitted = yield* truncateTo(sizes, [compacted.conversation, overhead])
  return { conversation: fitted.conversation, report: mergeReports(compacted.report, fitted.report) }
})

/** The report of two reductions. A summary that was removed again is in none of its lists. */
const mergeReports = (
  { before, removed, summary }: reduction.ReductionReport,
  then: reduction.ReductionReport
): reduction.ReductionReport => {
  const others = then.removed.filter(({ id }) => id !== summary?.id)
  return {
    before,
    after: then.after,
    removed: [...removed, ...others],
    shortened: then.shortened,
    ...defined({ summary: others.length === then.removed.length ? summary : undefined })
  }
}
