/** What was used in between. */
import type { TokenUsage } from "../../../conversation/TokenUsage.ts"

const fields = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"] as const

/** What `before` lacks of `after`, which goes on from it. Nothing where they are the same. */
export const difference = (after: TokenUsage, before: TokenUsage): TokenUsage | undefined => {
  const entries = fields.flatMap((field): ReadonlyArray<[(typeof fields)[number], number]> => {
    const value = after[field]
    return value === undefined || value === before[field] ? [] : [[field, value - (before[field] ?? 0)]]
  })
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}
