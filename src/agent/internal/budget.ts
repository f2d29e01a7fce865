/**
 * Budgets of an agent: conversations that are shortened or summarized before a request. A budget holds its functions, so that
 * an agent without one does not bundle them.
 */

import * as Effect from "effect/Effect"
import * as LanguageModel from "effect/ai/LanguageModel"
import { ConversationError } from "../../conversation/ConversationError.ts"
import { TokenCounter } from "../../conversation/TokenCounter.ts"
import type { Conversation } from "../../conversation/internal/history.ts"
import * as reduction from "../../conversation/internal/reduction.ts"
import { defined } from "../../payload/internal/values.ts"
import * as durability from "../../run/internal/durability.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentBlueprint from "./agentBlueprint.ts"
import * as agentReason from "./agentReason.ts"
import type * as agentTypes from "./agentTypes.ts"

interface Sizes {
  readonly threshold: number
  readonly target?: number | undefined
  readonly maxBytes?: number | undefined
  readonly maxFiles?: number | undefined
}

interface Truncate extends Sizes {
  readonly keepOutput?: number | undefined
}

interface Compact extends Sizes {
  readonly keepRecent?: number | undefined
  readonly summarize: (old: Conversation) => Effect.Effect<string, unknown, LanguageModel.LanguageModel>
}

/** A conversation and the tokens of its request beside it. */
type Part = readonly [conversation: Conversation, overhead: number]

/** The largest request that all providers take: some have 20 MB. */
const defaultMaxBytes = 20_000_000

/** The part of a limit that a new view may fill. The rest is what it has to grow in. */
const filled = 0.7

const limitsOf = ({ maxBytes = defaultMaxBytes, maxFiles = Number.POSITIVE_INFINITY, threshold }: Sizes) => ({
  tokens: threshold,
  bytes: maxBytes,
  files: maxFiles
})

type Limits = ReturnType<typeof limitsOf>

const optionsOf = ({ bytes, files, tokens }: Limits, overhead: number): reduction.TruncateOptions => ({
  budget: tokens,
  maxBytes: bytes,
  maxFiles: files,
  overhead
})

/** A budget that reduces a conversation whose request passes a limit. */
const make = (
  sizes: Sizes,
  reduce: (part: Part, model: LanguageModel.LanguageModel) => Effect.Effect<reduction.Reduction, AgentError.Reason>
): agentTypes.Budget => ({
  fit: Effect.fnUntraced(function* ({ conversation, model, ...request }) {
    const overhead = request.overhead(yield* TokenCounter)
    if (yield* reduction.fits(conversation, optionsOf(limitsOf(sizes), overhead))) return undefined
    const before = yield* reduction.estimatedSize(conversation, { overhead })
    const fitted = yield* reduce([conversation, overhead], model)
    return reduction.isUnchanged(fitted.report) ? undefined : { ...fitted, report: { ...fitted.report, before } }
  })
})

const truncateTo = (
  sizes: Truncate,
  [conversation, overhead]: Part
): Effect.Effect<reduction.Reduction, AgentError.Reason> => {
  const { keepOutput, target, threshold } = sizes
  const limits = limitsOf(sizes)
  const to = (aim: Limits): Effect.Effect<reduction.Reduction, reduction.BudgetTooSmall> =>
    // The room between the aim and the limits is a wish
    Effect.catchIf(
      reduction.truncate(conversation, { ...optionsOf(aim, overhead), keepOutput }),
      ({ needed, unit }) => needed <= limits[unit],
      ({ needed, unit }) => to({ ...aim, [unit]: needed })
    )
  const wish: Limits = {
    tokens: Math.min(target ?? Math.floor(threshold * filled), threshold),
    bytes: limits.bytes * filled,
    files: Math.floor(limits.files * filled)
  }
  return Effect.mapError(to(wish), ({ needed, unit }) => {
    const error = new reduction.BudgetTooSmall({ needed, budget: limits[unit], unit })
    return agentReason.makeReason("BudgetFailed", { problem: error.message }, error)
  })
}

const compactTo = Effect.fnUntraced(function* (
  { keepRecent = 1, summarize, ...sizes }: Compact,
  [conversation, overhead]: Part,
  model: LanguageModel.LanguageModel
) {
  const summarizeOnce = (old: Conversation) =>
    durability.code<string, unknown>({
      name: "summary",
      run: Effect.provideService(summarize(old), LanguageModel.LanguageModel, model),
      is: (value) => typeof value === "string",
      store: (error) => ({ type: agentBlueprint.nameOf(error), message: "", retryable: false }),
      restore: ({ type }) => ({ _tag: type })
    })
  const options = { keepRecent: Math.max(1, keepRecent), summarize: summarizeOnce }
  const compacted = yield* reduction.compact(conversation, options).pipe(
    Effect.mapError((error) => {
      const name = error instanceof ConversationError ? error.reason._tag : agentBlueprint.nameOf(error)
      const problem = `the Effect that summarizes old turns failed with ${name}`
      return agentReason.makeReason("BudgetFailed", { problem }, error)
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

export const truncate = (options: Truncate): agentTypes.Budget => make(options, (part) => truncateTo(options, part))

export const compact = (options: Compact): agentTypes.Budget =>
  make(options, (part, model) => compactTo(options, part, model))
