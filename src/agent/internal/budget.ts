/** Brings what a model is sent within the budget of the agent. */
import * as LanguageModel from "effect/ai/LanguageModel"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Budget from "../../conversation/Budget.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import { ConversationError } from "../../conversation/ConversationError.ts"
import * as TokenCounter from "../../conversation/TokenCounter.ts"
import type { ToolSet } from "../../tool/ToolSet.ts"
import * as AgentError from "../AgentError.ts"
import type { BudgetPolicy, Compact } from "../BudgetPolicy.ts"
import type { Resolved } from "./blueprint.ts"
import * as Output from "./output.ts"
import type { Recorder } from "./recorder.ts"

interface Run {
  readonly resolved: Resolved<unknown>
  readonly recorder: Recorder
}

/** Makes a new view before a model call that would pass the threshold. */
export const apply = Effect.fnUntraced(function* (policy: BudgetPolicy, { recorder, resolved }: Run) {
  const { conversation, view } = recorder.state()
  const current = view ?? conversation
  const overhead = besides(resolved, yield* TokenCounter.TokenCounter)
  const before = yield* Conversation.estimatedSize(current, { overhead })
  if (before <= policy.threshold) return
  const fitted = yield* Effect.mapError(
    policy._tag === "Fit" ? fit(policy, current, overhead) : compact(policy, current, overhead, resolved.model),
    recorder.fail
  )
  if (Budget.isUnchanged(fitted.report)) return
  const report = { ...fitted.report, before }
  yield* recorder.record({ _tag: "ConversationFitted", at: yield* DateTime.now, view: fitted.conversation, report })
})

const fit = (
  policy: { readonly threshold: number; readonly target: number; readonly keepOutput?: number | undefined },
  conversation: Conversation.Conversation,
  overhead: number
): Effect.Effect<Conversation.Fitted, AgentError.Reason> => {
  const to = (budget: number) => Conversation.fit(conversation, { budget, overhead, keepOutput: policy.keepOutput })
  return to(Math.min(policy.target, policy.threshold)).pipe(
    // The room between target and threshold is a wish
    Effect.catchIf(
      (error) => error.needed <= policy.threshold,
      (error) => to(error.needed)
    ),
    Effect.mapError(({ needed }) => {
      const error = new Budget.BudgetTooSmall({ needed, budget: policy.threshold })
      return AgentError.withCause(new AgentError.BudgetFailed({ problem: error.message }), error)
    })
  )
}

const compact = Effect.fnUntraced(function* (
  policy: Compact,
  conversation: Conversation.Conversation,
  overhead: number,
  model: LanguageModel.LanguageModel
) {
  const { keepRecent, summarize } = policy
  const compacted = yield* Conversation.compact(conversation, { keepRecent, summarize }).pipe(
    Effect.provideService(LanguageModel.LanguageModel, model),
    Effect.mapError((error) =>
      AgentError.withCause(
        new AgentError.BudgetFailed({ problem: `the Effect that summarizes old turns failed with ${nameOf(error)}` }),
        error
      )
    )
  )
  const after = yield* Conversation.estimatedSize(compacted.conversation, { overhead })
  if (after <= policy.threshold) {
    return { conversation: compacted.conversation, report: { ...compacted.report, after } }
  }
  const fitted = yield* fit(policy, compacted.conversation, overhead)
  return { conversation: fitted.conversation, report: both(compacted.report, fitted.report) }
})

/** What two steps did; a summary that did not stay was never there. */
const both = (compacted: Budget.Report, { after, removed, shortened }: Budget.Report): Budget.Report => {
  const { before, summary } = compacted
  const stays = summary !== undefined && removed.every(({ id }) => id !== summary.id)
  return {
    before,
    after,
    removed: [...compacted.removed, ...removed.filter(({ id }) => id !== summary?.id)],
    shortened,
    ...(stays ? { summary } : undefined)
  }
}

const nameOf = (error: unknown): string => {
  if (error instanceof ConversationError) return error.reason._tag
  if (Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag)) return error._tag
  return error instanceof Error ? error.name : "an untagged error"
}

/** What providers write around a tool definition. */
const toolTokens = 8

const offered = new WeakMap<ToolSet, WeakMap<TokenCounter.TokenCounter, number>>()

/** Tokens of what is sent beside the conversation, counted once for each set of tools. */
const besides = ({ output, tools }: Resolved<unknown>, counter: TokenCounter.TokenCounter): number => {
  const counts = offered.get(tools) ?? new WeakMap<TokenCounter.TokenCounter, number>()
  offered.set(tools, counts)
  const known = counts.get(counter)
  if (known !== undefined) return known
  let tokens = output._tag === "Structured" ? counter.count(Output.toldBefore(output, "answer") ?? "") : 0
  for (const { contract } of tools.tools.values()) {
    const { description = "", name, parameters } = contract
    tokens += toolTokens + counter.count(name) + counter.count(description) + counter.count(JSON.stringify(parameters))
  }
  counts.set(counter, tokens)
  return tokens
}
