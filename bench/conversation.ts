/**
 * The cost of adding a message, by the length of the conversation, and of the next
 * prompt, by the part of it that was converted before (L10).
 *
 * `node bench/conversation.ts` prints the time per message for conversations of
 * 1,000 and of 10,000 messages, and the ratio: near 1 means that the cost of a
 * message does not depend on the history. It fails when a ratio is above 2.
 *
 * For comparison it prints the same for a history that is copied for each message.
 */
import { DateTime, Equal, Result } from "effect"
import { Conversation, ToolResult, type Message } from "effect-emissary"

const createdAt = DateTime.makeUnsafe(0)

/** Turns of four messages: a question, a call, its result, an answer. */
const messageAt = (index: number): Message.Message => {
  const base = { id: `m${index}`, createdAt }
  const callId = `c${Math.floor(index / 4)}`
  switch (index % 4) {
    case 0:
      return { ...base, role: "user", content: [{ type: "text", text: "Where is it?" }] }
    case 1:
      return {
        ...base,
        role: "assistant",
        content: [{ type: "tool-call", id: callId, name: "find", arguments: { n: index } }]
      }
    case 2:
      return { ...base, role: "tool", callId, name: "find", result: ToolResult.success({ n: index }) }
    default:
      return {
        ...base,
        role: "assistant",
        content: [{ type: "text", text: "There." }],
        usage: { inputTokens: 10, outputTokens: 5 }
      }
  }
}

const append = (self: Conversation.Conversation, index: number): Conversation.Conversation =>
  Result.getOrThrow(Conversation.append(self, messageAt(index)))

const build = (length: number): Conversation.Conversation => {
  let self = Conversation.empty
  for (let index = 0; index < length; index++) self = append(self, index)
  return self
}

/** Every message starts a branch that is thrown away: forks must not copy either. */
const branch = (length: number): Conversation.Conversation => {
  let self = Conversation.empty
  for (let index = 0; index < length; index++) {
    append(self, index)
    self = append(self, index)
  }
  return self
}

const copying = (length: number): ReadonlyArray<Message.Message> => {
  let self: ReadonlyArray<Message.Message> = []
  for (let index = 0; index < length; index++) self = self.concat([messageAt(index)])
  return self
}

/** Best of several, in nanoseconds per message: the machine is shared. */
const perMessage = (length: number, run: (length: number) => unknown): number => {
  const rounds = Array.from({ length: length > 5_000 ? 7 : 40 }, () => {
    const start = process.hrtime.bigint()
    run(length)
    return Number(process.hrtime.bigint() - start) / length
  })
  return Math.min(...rounds)
}

let failed = false

const report = (name: string, run: (length: number) => unknown, limit?: number): void => {
  perMessage(2_000, run)
  const [short, long] = [perMessage(1_000, run), perMessage(10_000, run)]
  const ratio = long / short
  if (limit !== undefined && ratio > limit) failed = true
  console.log(`${name.padEnd(44)} ${short.toFixed(0)} ns, ${long.toFixed(0)} ns per message, ratio ${ratio.toFixed(2)}`)
}

report("append", build, 2)
report("append, each message twice", branch, 2)
report("a copied array, for comparison", copying)

const conversations = new Map([1_000, 10_000].map((length) => [length, build(length)]))
const conversation = (length: number) => conversations.get(length) ?? build(length)
report("toPrompt, all messages converted before", (length) => Conversation.toPrompt(conversation(length)), 5)

const self = build(10_000)
const before = Conversation.messages(self)
const after = Conversation.messages(append(self, 10_000))
if (!before.every((message, index) => message === after[index]) || !Equal.equals(self, build(10_000))) failed = true

if (failed) {
  console.error("The cost of a message depends on the history.")
  process.exitCode = 1
}
