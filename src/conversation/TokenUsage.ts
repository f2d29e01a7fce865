/**
 * How many tokens a message cost, as the provider reported it.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/**
 * Token counts of one model call. Every count is optional: providers report what
 * they like.
 *
 * **Details**
 *
 * `inputTokens` counts everything the model read, tokens read from or written to
 * a cache included; `outputTokens` everything it wrote, reasoning included.
 *
 * @category models
 * @since 0.1.0
 */
export interface TokenUsage {
  readonly inputTokens?: number
  readonly outputTokens?: number
  readonly cacheReadTokens?: number
  readonly cacheWriteTokens?: number
  readonly reasoningTokens?: number
}

const Count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * Schema of {@link TokenUsage}: non-negative integers.
 *
 * @category schemas
 * @since 0.1.0
 */
export const TokenUsage: Schema.Codec<TokenUsage> = Schema.Struct({
  inputTokens: Schema.optionalKey(Count),
  outputTokens: Schema.optionalKey(Count),
  cacheReadTokens: Schema.optionalKey(Count),
  cacheWriteTokens: Schema.optionalKey(Count),
  reasoningTokens: Schema.optionalKey(Count)
}).annotate({ identifier: "TokenUsage" })

/**
 * No tokens reported.
 *
 * @category constructors
 * @since 0.1.0
 */
export const empty: TokenUsage = {}

const keys = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"] as const

/**
 * Adds usages field by field. A field that nobody reported stays absent.
 *
 * **Example** (Adding up the calls of a run)
 *
 * ```ts
 * import { TokenUsage } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const usage = TokenUsage.sum([{ inputTokens: 10, outputTokens: 5 }, { inputTokens: 20 }])
 * assert.deepStrictEqual(usage, { inputTokens: 30, outputTokens: 5 })
 * ```
 *
 * @category combining
 * @since 0.1.0
 */
export const sum = (usages: Iterable<TokenUsage>): TokenUsage => {
  const total: { -readonly [K in keyof TokenUsage]: TokenUsage[K] } = {}
  for (const usage of usages) {
    for (const key of keys) {
      const count = usage[key]
      if (count !== undefined) total[key] = (total[key] ?? 0) + count
    }
  }
  return total
}

/**
 * Input and output together, counting what was not reported as zero.
 *
 * @category getters
 * @since 0.1.0
 */
export const total = (self: TokenUsage): number => (self.inputTokens ?? 0) + (self.outputTokens ?? 0)
