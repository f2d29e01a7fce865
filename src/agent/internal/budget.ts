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
import { defined } from "../../payload/internal/plainJson.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentBlueprint from "./agentBlueprint.ts"
import * as agentReason from "./agentReason.ts"
import type * as agentTypes from "./agentTypes.ts"
import * as durability from "./durability.ts"

interface Sizes {
  readonly threshold: number
  readonly target?: number | undefined
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

/** A budget that reduces a conversation whose request passes the threshold. */
const make = (
  { threshold }: Sizes,
  reduce: (part: Part, model: LanguageModel.LanguageModel) => Effect.Effect<reduction.Reduction, AgentError.Reason>
): agentTypes.Budget => ({
  fit: Effect.fnUntraced(function* ({ conversation, model, ...request }) {
    const overhead = request.overhead(yield* TokenCounter)
    const before = yield* reduction.estimatedSize(conversation, { overhead })
    if (before <= threshold) return undefined
    const fitted = yield* reduce([conversation, overhead], model)
    return reduction.isUnchanged(fitted.report) ? undefined : { ...fitted, report: { ...fitted.report, before } }
  })
})

const truncateTo = (
  { keepOutput, target, threshold }: Truncate,
  [conversation, overhead]: Part
): Effect.Effect<reduction.Reduction, AgentError.Reason> => {
  const to = (budget: number) => reduction.truncate(conversation, { budget, overhead, keepOutput })
  return to(Math.min(target ?? Math.floor(threshold * 0.7), threshold)).pipe(
    // The room between target and threshold is a wish
    Effect.catchIf(
      (error) => error.needed <= threshold,
      (error) => to(error.needed)
    ),
    Effect.mapError(({ needed }) => {
      const error = new reduction.BudgetTooSmall({ needed, budget: threshold })
      return agentReason.makeReason("BudgetFailed", { problem: error.message }, error)
    })
  )
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
  const after = yield* reduction.estimatedSize(compacted.conversation, { overhead })
  if (after <= sizes.threshold) return { ...compacted, report: { ...compacted.report, after } }
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
