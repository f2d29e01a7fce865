import * as Result from "effect/Result"
import { BudgetTooSmall, type Report, type Shortened } from "../../Budget.ts"
import type { FitOptions, Fitted } from "../../Fit.ts"
import type { Message } from "../../Message.ts"
import * as history from "../history.ts"
import { shorten } from "./shorten.ts"
import * as turns from "./turns.ts"
import * as weights from "./weigh.ts"

const defaultKeepOutput = 400

interface Entry {
  readonly message: Message
  readonly tokens: number
  /** What it can be replaced by, if that weighs less. */
  readonly short: { readonly message: Message; readonly shortened: Shortened } | undefined
}

export const fit = (
  self: history.History,
  options: FitOptions,
  weigh: weights.Weigh
): Result.Result<Fitted, BudgetTooSmall> => {
  const { budget, overhead = 0 } = options
  const before = size(self, overhead, weigh)
  if (before <= budget) {
    return Result.succeed({ conversation: self, report: { before, after: before, removed: [], shortened: [] } })
  }
  const all = history.toArray(self)
  const first = turns.first(all)
  const current = turns.currentRun(all)
  const newest = all.findLastIndex((message) => message.role === "assistant")
  const keep = Math.max(0, Math.floor(options.keepOutput ?? defaultKeepOutput))
  const entries = all.map((message, index) => entry(message, index < newest ? keep : undefined, weigh))

  const beside = besides(self, overhead, weigh)
  const fixed = beside + sumOf(entries.slice(0, first)) + sumOf(entries.slice(current))
  const from = firstKept(entries, first, current, budget - fixed)
  const kept = [...entries.slice(0, first), ...entries.slice(from)]
  const { after, messages, shortened } = shortenOldest(kept, beside, budget)
  if (!(after <= budget)) return Result.fail(new BudgetTooSmall({ needed: after, budget }))

  const report: Report = {
    before,
    after,
    removed: entries.slice(first, from).map(({ message: { id, role }, tokens }) => ({ id, role, tokens })),
    shortened
  }
  return Result.succeed({ conversation: history.rebuild(messages, self.tokenLimit), report })
}

export const size = (self: history.History, overhead: number, weigh: weights.Weigh): number =>
  // A report contains what was sent beside the messages
  weights.size(self, weigh) + (self.reported === undefined ? overhead : 0)

/** What a request weighs beside the messages; a report tells it, together with what the counter misses. */
const besides = (self: history.History, overhead: number, weigh: weights.Weigh): number => {
  const { reported } = self
  if (reported === undefined) return overhead
  const behind = weights.sum(history.since(self, reported), weigh)
  const counted = weights.sum(history.toArray(self), weigh) - behind
  return Math.max(overhead, weights.reportedTokens(reported, weigh) - counted)
}

const entry = (message: Message, keep: number | undefined, weigh: weights.Weigh): Entry => {
  const tokens = weigh(message)
  const short = keep === undefined || message.role !== "tool" ? undefined : shorten(message, keep)
  if (short === undefined) return { message, tokens, short: undefined }
  const after = weigh(short)
  const { callId, id, name } = short
  return {
    message,
    tokens,
    short: after < tokens ? { message: short, shortened: { id, callId, name, before: tokens, after } } : undefined
  }
}

const shortTokens = ({ short, tokens }: Entry): number => short?.shortened.after ?? tokens

const sumOf = (entries: ReadonlyArray<Entry>): number => entries.reduce((sum, { tokens }) => sum + tokens, 0)

/** Where the oldest turn begins that fits when all outputs of old turns are short. */
const firstKept = (entries: ReadonlyArray<Entry>, first: number, current: number, room: number): number => {
  let kept = current
  let tokens = 0
  for (let index = current - 1; index >= first; index--) {
    const one = entries[index]
    if (one === undefined) continue
    tokens += shortTokens(one)
    if (!(tokens <= room)) return kept
    if (one.message.role === "user" || index === first) kept = index
  }
  return kept
}

const shortenOldest = (entries: ReadonlyArray<Entry>, beside: number, budget: number) => {
  const messages: Array<Message> = []
  const shortened: Array<Shortened> = []
  let after = beside + sumOf(entries)
  for (const { message, short, tokens } of entries) {
    if (short === undefined || after <= budget) {
      messages.push(message)
    } else {
      messages.push(short.message)
      shortened.push(short.shortened)
      after += short.shortened.after - tokens
    }
  }
  return { messages, shortened, after }
}
