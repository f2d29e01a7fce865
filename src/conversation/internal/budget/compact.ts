import * as Effect from "effect/Effect"
import * as HashMap from "effect/HashMap"
import type { CompactOptions } from "../../Compact.ts"
import type { Conversation } from "../../Conversation.ts"
import { ConversationError, EmptySummary, InvalidKeepRecent } from "../../ConversationError.ts"
import type { Fitted } from "../../Fit.ts"
import * as Message from "../../Message.ts"
import { TokenCounter } from "../../TokenCounter.ts"
import * as history from "../history.ts"
import * as marks from "./marks.ts"
import * as turns from "./turns.ts"
import * as weights from "./weigh.ts"

export const compact = <E, R>(
  conversation: Conversation,
  options: CompactOptions<E, R>
): Effect.Effect<Fitted, ConversationError | E, R> =>
  Effect.gen(function* () {
    const { keepRecent } = options
    if (!(Number.isInteger(keepRecent) && keepRecent >= 0)) {
      return yield* new ConversationError({ reason: new InvalidKeepRecent({ found: String(keepRecent) }) })
    }
    const self = history.of(conversation)
    const weigh = weights.make(yield* TokenCounter)
    const before = weights.size(self, weigh)
    const all = history.toArray(self)
    const first = turns.first(all)
    const isOpen = !HashMap.isEmpty(self.open) || !HashMap.isEmpty(self.providerOpen)
    const from = turns.recent(all, isOpen ? Math.max(1, keepRecent) : keepRecent)
    const old = all.slice(first, from)
    if (old.length === 0 || (old.length === 1 && old.every((message) => marks.has(message, marks.summary)))) {
      return { conversation, report: { before, after: before, removed: [], shortened: [] } }
    }
    const text = yield* options.summarize(history.rebuild(old, undefined))
    if (text.trim() === "") {
      return yield* new ConversationError({ reason: new EmptySummary({ messages: old.length }) })
    }
    const summary = yield* Message.user(`Summary of the conversation so far:\n\n${text}`, {
      metadata: { [marks.summary]: old.length }
    })
    const after = history.rebuild([...all.slice(0, first), summary, ...all.slice(from)], self.tokenLimit)
    return {
      conversation: after,
      report: {
        before,
        after: weights.size(after, weigh),
        removed: old.map((message) => ({ id: message.id, role: message.role, tokens: weigh(message) })),
        shortened: [],
        summary: { id: summary.id, tokens: weigh(summary) }
      }
    }
  })
