import { assert, describe, it } from "@effect/vitest"
import { Effect, Equal, Option, Schema } from "effect"
import * as history from "#src/conversation/internal/history.ts"
import { Conversation, Message, TokenCounter, ToolResult } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"

import { countTokens, encode } from "gpt-tokenizer/encoding/o200k_base"
import { readdirSync, readFileSync } from "node:fs"
import { test } from "../test.ts"
import * as given from "./given.ts"

const folder = new URL("./corpus/", import.meta.url)
const corpus = readdirSync(folder).map((name) => ({ name, text: readFileSync(new URL(name, folder), "utf8") }))
const real = TokenCounter.fromEncoder(encode)

/** One token for each character, so that sizes can be counted by hand. */
const characters: TokenCounter.TokenCounter = { count: (text) => text.length }

const chat = given.chat(given.system("abc"), Conversation.addUser("12345"))

const isStale = (self: Conversation.Conversation): boolean => history.asHistory(self).beside !== undefined

describe("CONV-5 counting tokens", () => {
  it("the heuristic is as exact as its documentation", () => {
    const documented: Record<string, number> = {
      "english.txt": -9,
      "western.txt": -9,
      "chat.txt": -4,
      "code.txt": 2,
      "json.txt": 1,
      "log.txt": 2,
      "cyrillic-greek.txt": -1,
      "chinese-japanese-korean.txt": 9,
      "arabic-hebrew.txt": -4,
      "indic-thai.txt": 12
    }
    const error = (text: string, tokens: number) => Math.round((TokenCounter.heuristic.count(text) / tokens - 1) * 100)
    const measured = Object.fromEntries(corpus.map(({ name, text }) => [name, error(text, real.count(text))]))
    assert.deepStrictEqual(measured, documented)
    const all = corpus.reduce((sum, { text }) => sum + real.count(text), 0)
    const guessed = corpus.reduce((sum, { text }) => sum + TokenCounter.heuristic.count(text), 0)
    assert.strictEqual(all, 3277)
    assert.strictEqual(Math.round((guessed / all - 1) * 100), 1)
  })

  it("the heuristic counts nothing for nothing, and never less for more", () => {
    assert.strictEqual(TokenCounter.heuristic.count(""), 0)
    for (const { text } of corpus) {
      for (let end = 1; end < text.length; end++) {
        const [before, after] = [text.slice(0, end - 1), text.slice(0, end)].map(TokenCounter.heuristic.count)
        assert.isAtLeast(after ?? 0, (before ?? 0) - 4, JSON.stringify(text.slice(end - 10, end)))
      }
    }
  })

  it("a real encoder counts what it counts alone, up to a token for each piece", () => {
    for (const { text } of corpus) {
      const long = text.repeat(40)
      const pieces = Math.ceil(long.length / 1700)
      const tokens = countTokens(long, { disallowedSpecial: new Set() })
      assert.isAtMost(Math.abs(real.count(long) - tokens), pieces)
      assert.strictEqual(TokenCounter.fromEncoder(countTokens).count(long), real.count(long))
    }
  })

  it("text with special tokens is text", () => {
    assert.throws(() => encode("a <|endoftext|> b"))
    assert.isAbove(real.count("a <|endoftext|> b"), 3)
  })

  it("an encoder never gets more than a piece, cut between characters, and gets all of them", () => {
    const pieces: Array<string> = []
    const counter = TokenCounter.fromEncoder((text) => {
      pieces.push(text)
      return 1
    })
    for (const text of ["a".repeat(200_000), "👍".repeat(5000), `x${"👍".repeat(5000)}`, "word ".repeat(3000), ""]) {
      pieces.length = 0
      assert.strictEqual(counter.count(text), pieces.length)
      assert.strictEqual(pieces.join(""), text)
      for (const piece of pieces) {
        assert.isAtMost(piece.length, 2048)
        assert.isFalse(/^[\uDC00-\uDFFF]/.test(piece), "cut inside of a character")
      }
    }
    pieces.length = 0
    counter.count("word ".repeat(3000))
    assert.isTrue(pieces.every((piece) => piece.startsWith("word") || piece.startsWith(" word")))
  })
})

describe("CONV-5 estimatedSize", () => {
  const sized = TokenCounter.layer(characters)

  test("without a report everything is estimated", sized, function* () {
    assert.strictEqual(yield* Conversation.estimatedSize(yield* chat), 4 + 3 + 4 + 5)
    assert.strictEqual(yield* Conversation.estimatedSize(yield* chat, { overhead: 100 }), 116)
    assert.strictEqual(yield* Conversation.estimatedSize(Conversation.empty), 0)
  })

  test("the newest report counts, not the sum, and what came behind it is estimated", sized, function* () {
    let self = yield* chat
    self = yield* Conversation.addAssistant(self, "one", { usage: { inputTokens: 500, outputTokens: 20 } })
    assert.strictEqual(yield* Conversation.estimatedSize(self, { overhead: 100 }), 520)
    self = yield* Conversation.addUser(self, "again")
    self = yield* Conversation.addAssistant(self, "two", { usage: { inputTokens: 530, outputTokens: 30 } })
    assert.strictEqual(yield* Conversation.estimatedSize(self), 560)
    assert.strictEqual(Conversation.tokenCount(self), 1080)
    self = yield* Conversation.addUser(self, "123")
    assert.strictEqual(yield* Conversation.estimatedSize(self), 560 + 4 + 3)
  })

  test("answers that report no input are no reports; a missing output is estimated", sized, function* () {
    let self = yield* Conversation.addAssistant(yield* chat, "abc", { usage: { inputTokens: 500 } })
    assert.strictEqual(yield* Conversation.estimatedSize(self), 500 + 4 + 3)
    self = yield* Conversation.addAssistant(self, "abc", { usage: { outputTokens: 70 } })
    self = yield* Conversation.addAssistant(self, "abc", { usage: { inputTokens: 0, outputTokens: 70 } })
    self = yield* Conversation.addAssistant(self, "abc")
    assert.strictEqual(yield* Conversation.estimatedSize(self), 500 + 4 * 7)
  })

  test("reasoning that is not sent back does not count", sized, function* () {
    const usage = { inputTokens: 100, outputTokens: 50, reasoningTokens: 40 }
    const hidden = yield* Conversation.addAssistant(yield* chat, "abc", { usage })
    assert.strictEqual(yield* Conversation.estimatedSize(hidden), 110)
    const content = [Message.reasoningPart("Hm"), ToolResult.textPart("abc")]
    const shown = yield* Conversation.addAssistant(yield* chat, content, { usage })
    assert.strictEqual(yield* Conversation.estimatedSize(shown), 150)
  })

  test("what is not text is counted by fixed numbers", sized, function* () {
    for (const [mediaType, data, size] of [
      ["image/png", new Uint8Array(900_000), 1600],
      ["image/png", "https://example.com/a.png", 1600],
      ["application/pdf", "https://example.com/a.pdf", 2500],
      ["application/pdf", new Uint8Array(49_000), 2500],
      ["application/pdf", new Uint8Array(51_000), 5000],
      ["text/plain", new Uint8Array(3999), 1000]
    ] as const) {
      const self = yield* given.chat(Conversation.addUser([ToolResult.filePart({ mediaType, data })]))
      assert.strictEqual(yield* Conversation.estimatedSize(self), 4 + size)
    }
  })

  test("calls count their name and the text of their arguments, results what the model reads", sized, function* () {
    const call = Message.toolCallPart({ id: "c1", name: "find", text: `{ "q": 1 }` })
    const result = ToolResult.success({ hidden: "x".repeat(500) }, [ToolResult.textPart("short")])
    const self = yield* Conversation.addAssistant(Conversation.empty, [call])
    assert.strictEqual(yield* Conversation.estimatedSize(self), 4 + 8 + 4 + 10)
    const answered = yield* Conversation.addToolResult(self, { callId: "c1", result })
    assert.strictEqual(yield* Conversation.estimatedSize(answered), 26 + 4 + 5)
  })

  test("each message is counted once for each counter", function* () {
    let counted = 0
    const counter = { count: (text: string) => ((counted += 1), text.length) }
    const self = yield* chat
    const size = Effect.provide(Conversation.estimatedSize(self), TokenCounter.layer(counter))
    yield* size
    const before = counted
    yield* size
    assert.strictEqual(counted, before)
    assert.notStrictEqual(yield* Conversation.estimatedSize(self), 0)
  })

  test("reports on what was longer are forgotten, also in storage", sized, function* () {
    let self = yield* Conversation.addAssistant(yield* chat, "old", { usage: { inputTokens: 9000, outputTokens: 5 } })
    self = yield* Conversation.addUser(self, "new")
    self = yield* Conversation.addAssistant(self, "new", { usage: { inputTokens: 9100, outputTokens: 5 } })
    assert.isFalse(isStale(self))
    const { conversation } = yield* Effect.fromResult(Conversation.dropOldTurns(self, { keepRecent: 1 }))
    assert.isTrue(isStale(conversation))
    assert.strictEqual(Conversation.tokenCount(conversation), 9105)
    const size = 7 + 7 + 7
    assert.strictEqual(yield* Conversation.estimatedSize(conversation), size)

    const stored = yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(conversation))
    assert(Equal.equals(stored, conversation))
    assert.strictEqual(yield* Conversation.estimatedSize(stored), size)
    const whole = yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(self))
    assert.strictEqual(yield* Conversation.estimatedSize(whole), 9105)

    const answered = yield* Conversation.addAssistant(stored, "x", { usage: { inputTokens: 30, outputTokens: 1 } })
    assert.isFalse(isStale(answered))
    assert.strictEqual(yield* Conversation.estimatedSize(answered), 31)
  })

  test.prop(
    "SOUND-5 the report of a reduction has the size of what is left, with what the provider reported beside it, also when it was stored",
    [Arbitraries.conversation({ open: false }), Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 100_000 }))],
    function* ([given, inputTokens]) {
      const asked = yield* Conversation.addUser(given, "Go")
      const self = yield* Conversation.addAssistant(asked, "Done", { usage: { inputTokens, outputTokens: 1 } })
      const longer = yield* Conversation.addUser(self, "Go on")
      const maxTokens = (yield* Conversation.estimatedSize(longer)) - 1
      const truncated = yield* Effect.option(Conversation.truncate(longer, { maxTokens }))
      const compacted = yield* Conversation.compact(longer, { keepRecent: 1, summarize: () => Effect.succeed("s") })
      for (const { conversation, report } of [...Option.toArray(truncated), compacted]) {
        assert.strictEqual(yield* Conversation.estimatedSize(conversation), report.after)
        const stored = yield* Conversation.codec.decode(yield* Conversation.codec.encode(conversation))
        assert.strictEqual(yield* Conversation.estimatedSize(stored), report.after)
      }
    }
  )

  test.prop("L3 stale usage stays stale on the wire", [Arbitraries.conversation()], function* ([self]) {
    const { conversation } = yield* Effect.fromResult(Conversation.dropOldTurns(self, { keepRecent: 1 }))
    const stored = yield* Conversation.codec.decode(yield* Conversation.codec.encode(conversation))
    assert.strictEqual(isStale(stored), isStale(conversation))
    assert.strictEqual(yield* Conversation.estimatedSize(stored), yield* Conversation.estimatedSize(conversation))
  })
})
