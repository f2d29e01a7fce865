/**
 * The cost of measuring, truncating and repairing a conversation, by its length (L10).
 *
 * `node bench/truncate.ts` prints the time per message for conversations of 1,000 and
 * of 10,000 messages, and the ratio: near 1 means linear. It fails when a ratio is
 * above 2. It also prints how fast the default counter is, next to gpt-tokenizer.
 */
import { DateTime, Effect, Result } from "effect"
import { countTokens } from "gpt-tokenizer/encoding/o200k_base"
import { readdirSync, readFileSync } from "node:fs"
import { Conversation, TokenCounter, ToolResult, type Message } from "effect-emissary"

const createdAt = DateTime.makeUnsafe(0)
const output = "A line of what a tool found.\n".repeat(50)

const messageAt = (index: number): Message.Message => {
  const base = { id: `m${index}`, createdAt }
  const callId = `c${Math.floor(index / 4)}`
  switch (index % 4) {
    case 0:
      return { ...base, role: "user", content: [{ type: "text", text: "Where is it?" }] }
    case 1:
      return { ...base, role: "assistant", content: [{ type: "tool-call", id: callId, name: "find", arguments: {} }] }
    case 2:
      return { ...base, role: "tool", callId, name: "find", result: ToolResult.success(output) }
    default:
      return { ...base, role: "assistant", content: [{ type: "text", text: "There." }] }
  }
}

const build = (length: number) =>
  Result.getOrThrow(Conversation.fromMessages(Array.from({ length }, (_, index) => messageAt(index))))

/** Best of several, in nanoseconds per message: the machine is shared. A fresh counter remembers nothing. */
const perMessage = (length: number, run: (self: Conversation.Conversation) => Effect.Effect<unknown, unknown>) => {
  const self = build(length)
  const rounds = Array.from({ length: length > 5_000 ? 7 : 30 }, () => {
    const counter = TokenCounter.layer({ count: TokenCounter.heuristic.count })
    const start = process.hrtime.bigint()
    Effect.runSync(Effect.provide(run(self), counter))
    return Number(process.hrtime.bigint() - start) / length
  })
  return Math.min(...rounds)
}

let failed = false

const report = (name: string, run: (self: Conversation.Conversation) => Effect.Effect<unknown, unknown>) => {
  perMessage(2_000, run)
  const [short, long] = [perMessage(1_000, run), perMessage(10_000, run)]
  const ratio = long / short
  if (ratio > 2) failed = true
  console.log(`${name.padEnd(32)} ${short.toFixed(0)} ns, ${long.toFixed(0)} ns per message, ratio ${ratio.toFixed(2)}`)
}

const tokensOf = (self: Conversation.Conversation) => Conversation.messageCount(self) * 100

report("estimatedSize", (self) => Conversation.estimatedSize(self))
report("fit to half", (self) => Conversation.truncate(self, { maxTokens: tokensOf(self) / 2 }))
report("fit to a tenth", (self) => Conversation.truncate(self, { maxTokens: tokensOf(self) / 10 }))
report("fit to the current run", (self) => Conversation.truncate(self, { maxTokens: 1000 }))
report("compact", (self) => Conversation.compact(self, { keepRecent: 2, summarize: () => Effect.succeed("short") }))
report("repair, every third is missing", (self) =>
  Conversation.repair(Conversation.messages(self).filter((_, index) => index % 3 !== 0))
)

const folder = new URL("../test/conversation/corpus/", import.meta.url)
const text = readdirSync(folder)
  .map((name) => readFileSync(new URL(name, folder), "utf8"))
  .join("\n")
  .repeat(50)
const speed = (count: (text: string) => number): string => {
  const rounds = Array.from({ length: 5 }, () => {
    const start = process.hrtime.bigint()
    count(text)
    return Number(process.hrtime.bigint() - start) / 1e9
  })
  return `${(text.length / 1e6 / Math.min(...rounds)).toFixed(0)} million characters per second`
}
console.log(`heuristic: ${speed(TokenCounter.heuristic.count)}`)
console.log(`gpt-tokenizer: ${speed((text) => countTokens(text, { disallowedSpecial: new Set() }))}`)

if (failed) {
  console.error("The cost of a message depends on the history.")
  process.exitCode = 1
}
