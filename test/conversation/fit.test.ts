import * as reduction from "#src/conversation/internal/reduction.ts"
import { assert, describe } from "@effect/vitest"
import { Effect, Equal, Layer, Result, Schema } from "effect"
import { Conversation, Message, TokenCounter, ToolResult } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { call, chat, type Step, system } from "./given.ts"

const characters = TokenCounter.layer({ count: (text) => text.length })
const settings = Layer.merge(characters, Message.layerSequentialIds())

const output = (length: number) => ToolResult.success("x".repeat(length))

/** A question, a call with an output of that length, an answer. */
const turn = (length: number, id: string): ReadonlyArray<Step> => [
  Conversation.addUser(`ask ${id}`),
  ...called(length, id),
  Conversation.addAssistant(`told ${id}`)
]

const called = (length: number, id: string): ReadonlyArray<Step> => [
  Conversation.addAssistant([call(id)]),
  Conversation.addToolResult({ callId: id, result: output(length) })
]

const three = chat(system("System."), ...["a", "b", "c"].flatMap((id) => turn(2000, id)))

const texts = (self: Conversation.Conversation) => Conversation.messages(self).map(Message.text)
const ids = (self: Conversation.Conversation) => Conversation.messages(self).map(({ id }) => id)

describe("CONV-6 fit", () => {
  test("does nothing within the limit", settings, function* () {
    const self = yield* three
    const size = yield* Conversation.estimatedSize(self)
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens: size })
    assert.strictEqual(conversation, self)
    assert.isTrue(reduction.isUnchanged(report))
    assert.deepStrictEqual(report, { before: size, after: size, removed: [], shortened: [] })
  })

  test("shortens the oldest output first, to beginning and end with a marker", settings, function* () {
    const self = yield* three
    const size = yield* Conversation.estimatedSize(self)
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens: size - 1, keepOutput: 300 })
    assert.deepStrictEqual(report.removed, [])
    assert.deepStrictEqual(
      report.shortened.map(({ after, before, callId, id, name }) => [id, callId, name, before, after]),
      [["m4", "a", "f", 2004, 4 + 300 + "\n[... 1700 characters left out ...]\n".length]]
    )
    assert.strictEqual(report.before, size)
    assert.strictEqual(report.after, yield* Conversation.estimatedSize(conversation))
    const [, , , short] = Conversation.messages(conversation)
    assert(short?.role === "tool" && short.result._tag === "Success")
    assert.match(Message.text(short), /^x{200}\n\[\.\.\. 1700 characters left out \.\.\.\]\nx{100}$/)
    assert.strictEqual(short.result.value, Message.text(short))
    assert.deepStrictEqual(ids(conversation), ids(self))
  })

  test("then removes the oldest turns whole, and shortens no more than it must", settings, function* () {
    const self = yield* three
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens: 4800, keepOutput: 600 })
    assert.deepStrictEqual([report.removed.length, report.shortened.map(({ callId }) => callId)], [0, ["a"]])
    assert.isAtMost(yield* Conversation.estimatedSize(conversation), 4800)

    const tight = yield* Conversation.truncate(self, { maxTokens: 2750, keepOutput: 600 })
    assert.deepStrictEqual(pluck(tight.report.removed, "role"), ["user", "assistant", "tool", "assistant"])
    assert.deepStrictEqual(pluck(tight.report.removed, "id"), ["m2", "m3", "m4", "m5"])
    assert.deepStrictEqual(pluck(tight.report.shortened, "callId"), ["b"])
    assert.strictEqual(texts(tight.conversation)[0], "System.")
    assert.strictEqual(texts(tight.conversation)[1], "ask b")

    // Without its first turn, the second fits as it is
    const lucky = yield* Conversation.truncate(self, { maxTokens: 4200, keepOutput: 900 })
    assert.deepStrictEqual([lucky.report.removed.length, lucky.report.shortened.length], [0, 2])
    const whole = yield* Conversation.truncate(self, { maxTokens: 4150, keepOutput: 1000 })
    assert.deepStrictEqual([whole.report.removed.length, whole.report.shortened.length], [4, 0])
  })

  test("the current run stays: its old outputs are shortened last, the newest never", settings, function* () {
    const now = ["a", "b", "c"].flatMap((id) => called(2000, id))
    const self = yield* chat(system("System."), ...turn(2000, "old"), Conversation.addUser("now"), ...now)
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens: 5500 })
    assert.deepStrictEqual(pluck(report.removed, "id"), ["m2", "m3", "m4", "m5"])
    assert.deepStrictEqual(pluck(report.shortened, "callId"), ["a"])
    assert.strictEqual(texts(conversation)[1], "now")

    const least = yield* Conversation.truncate(self, { maxTokens: 3100 })
    assert.deepStrictEqual(pluck(least.report.shortened, "callId"), ["a", "b"])
    assert.strictEqual(texts(least.conversation).at(-1), "x".repeat(2000))

    const error = yield* Effect.flip(Conversation.truncate(self, { maxTokens: 2000 }))
    assert(Schema.is(reduction.ConversationTooLarge)(error))
    assert.strictEqual(error.needed, least.report.after)
    assert.isTrue(Result.isSuccess(yield* Effect.result(Conversation.truncate(self, { maxTokens: error.needed }))))
    assert.isTrue(Result.isFailure(yield* Effect.result(Conversation.truncate(self, { maxTokens: error.needed - 1 }))))
    assert.include(error.message, `got ${error.needed}`)
  })

  test("a marker is never shortened to one about itself", settings, function* () {
    const self = yield* three
    const first = yield* Conversation.truncate(self, {
      maxTokens: (yield* Conversation.estimatedSize(self)) - 1,
      keepOutput: 0
    })
    const before = first.report.shortened.map(({ callId }) => callId)
    const second = yield* Conversation.truncate(first.conversation, {
      maxTokens: first.report.after - 1,
      keepOutput: 0
    })
    assert.isNotEmpty(before)
    assert.deepStrictEqual(
      second.report.shortened.filter(({ callId }) => before.includes(callId)),
      []
    )
  })

  test("failures and files are shortened too, and stay what they are", settings, function* () {
    const failed = ToolResult.failure("execution_error", "e".repeat(3000), { code: 7 })
    const picture = ToolResult.filePart({ mediaType: "image/png", data: "AQID" })
    const self = yield* chat(
      Conversation.addUser("go"),
      Conversation.addAssistant([call("a"), call("b")]),
      Conversation.addToolResult({ callId: "a", result: failed }),
      Conversation.addToolResult({ callId: "b", result: ToolResult.success(1, [picture]) }),
      Conversation.addAssistant("done")
    )
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens: 700 })
    assert.deepStrictEqual(pluck(report.shortened, "callId"), ["a", "b"])
    const [, , a, b] = Conversation.messages(conversation)
    assert(a?.role === "tool" && b?.role === "tool" && a.result._tag === "Failure")
    assert.strictEqual(a.result.type, "execution_error")
    assert.isBelow(a.result.message.length, 500)
    assert.strictEqual(Message.text(b), "[image/png omitted]")
  })

  test("what a provider reported and the counter does not see is taken to stay", settings, function* () {
    let self = yield* three
    const seen = yield* Conversation.estimatedSize(self)
    self = yield* Conversation.addAssistant(self, "", { usage: { inputTokens: seen + 1000, outputTokens: 4 } })
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens: 6000 })
    assert.strictEqual(report.before, seen + 1004)
    assert.isAtMost(report.after, 6000)
    assert.strictEqual(report.after, yield* Conversation.estimatedSize(conversation))
  })

  test("what is sent beside the messages counts", settings, function* () {
    const self = yield* three
    const size = yield* Conversation.estimatedSize(self)
    const beside = yield* Conversation.truncate(self, { maxTokens: size + 50, overhead: 100 })
    assert.strictEqual(beside.report.before, size + 100)
    assert.strictEqual(beside.report.shortened.length, 1)
  })

  test("a limit that is no number from 0 is refused", settings, function* () {
    for (const [maxTokens, expected] of [
      [0, "at most 0 tokens"],
      [-1, "expected a number from 0, got -1"],
      [Number.NaN, "expected a number from 0, got NaN"]
    ] as const) {
      const error = yield* Effect.flip(Conversation.truncate(yield* three, { maxTokens }))
      assert.strictEqual(error._tag, "ConversationTooLarge")
      assert.include(error.message, expected)
    }
  })

  test("a number of characters below 0 counts as 0", settings, function* () {
    const self = yield* three
    const least = yield* Conversation.truncate(self, { maxTokens: 4800, keepOutput: 0 })
    for (const keepOutput of [-1, Number.NaN]) {
      assert.deepStrictEqual((yield* Conversation.truncate(self, { maxTokens: 4800, keepOutput })).report, least.report)
    }
  })
})

const Share = Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 120 }))
const Keep = Schema.Literals([0, 1, 5])

describe("CONV-6 L7 laws of fit", () => {
  const generated = { self: Arbitraries.conversation({ maxTurns: 6 }), share: Share, keep: Keep }

  const fit = (self: Conversation.Conversation, options: { readonly maxTokens: number; readonly keepOutput: number }) =>
    Effect.result(Effect.provide(Conversation.truncate(self, options), characters))

  const sizeOf = (self: Conversation.Conversation) => Effect.provide(Conversation.estimatedSize(self), characters)

  const fitted = Effect.fnUntraced(function* (self: Conversation.Conversation, share: number, keepOutput: number) {
    const size = yield* sizeOf(self)
    const options = { maxTokens: Math.floor((size * share) / 100), keepOutput }
    return { options, size, result: yield* fit(self, options) }
  })

  test.prop("the limit is met, or the error has the one that would do", generated, function* ({ keep, self, share }) {
    const { options, result, size } = yield* fitted(self, share, keep)
    if (Result.isFailure(result)) {
      const { needed } = result.failure
      assert.isAbove(needed, options.maxTokens)
      const again = Result.getOrThrow(yield* fit(self, { ...options, maxTokens: needed }))
      assert.isAtMost(yield* sizeOf(again.conversation), needed)
      return
    }
    const { conversation, report } = result.success
    assert.strictEqual(yield* sizeOf(conversation), report.after)
    assert.isAtMost(report.after, options.maxTokens)
    assert.strictEqual(report.before, size)
  })

  test.prop("it is idempotent", generated, function* ({ keep, self, share }) {
    const { options, result } = yield* fitted(self, share, keep)
    if (Result.isFailure(result)) return
    const again = Result.getOrThrow(yield* fit(result.success.conversation, options))
    assert.strictEqual(again.conversation, result.success.conversation)
    assert.isTrue(reduction.isUnchanged(again.report))
  })

  type Fitted = Effect.Success<ReturnType<typeof Conversation.truncate>>

  /** A law of every conversation that was made to fit. */
  const law = (name: string, check: (self: Conversation.Conversation, fitted: Fitted) => void) =>
    test.prop(name, generated, function* ({ keep, self, share }) {
      const { result } = yield* fitted(self, share, keep)
      if (Result.isSuccess(result)) check(self, result.success)
    })

  law("what is left is lawful, in order, and all there but what the report names", (self, { conversation, report }) => {
    const before = Conversation.messages(self)
    const after = Conversation.messages(conversation)
    // Pairs are kept: the laws hold
    assert.isTrue(Result.isSuccess(Conversation.fromMessages(after)))
    const removed = new Set(pluck(report.removed, "id"))
    const kept = before.filter(({ id }) => !removed.has(id))
    assert.deepStrictEqual(ids(conversation), pluck(kept, "id"))
    const shortened = new Set(pluck(report.shortened, "id"))
    for (const [index, message] of kept.entries()) {
      const left = after[index]
      if (!shortened.has(message.id)) assert.isTrue(message === left, message.id)
      else assert(left?.role === "tool" && message.role === "tool" && left.callId === message.callId)
    }
    assert.strictEqual(removed.size + kept.length, before.length)
  })

  law("system, current run and open calls stay, unanswered results as they are", (self, { conversation }) => {
    assert.deepStrictEqual(Conversation.system(conversation), Conversation.system(self))
    assert.deepStrictEqual(Conversation.openCalls(conversation), Conversation.openCalls(self))
    assert.deepStrictEqual(Conversation.tokenLimit(conversation), Conversation.tokenLimit(self))
    const all = Conversation.messages(self)
    const start = all.findLastIndex(({ role }) => role === "user")
    const run = all.slice(Math.max(0, start))
    assert.deepStrictEqual(ids(conversation).slice(-run.length), pluck(run, "id"))
    const newest = all.slice(all.findLastIndex(({ role }) => role === "assistant") + 1)
    if (newest.length > 0 && run.length >= newest.length) {
      const last = Conversation.messages(conversation).slice(-newest.length)
      assert.isTrue(newest.every((message, index) => message === last[index]))
    }
  })

  law("whole turns are removed, from the oldest on", (self, { report: { removed } }) => {
    const messages = Conversation.messages(self)
    const rest = messages.slice(messages.findIndex(({ role }) => role !== "system"))
    assert.deepStrictEqual(pluck(removed, "id"), pluck(rest.slice(0, removed.length), "id"))
    if (removed.length > 0) assert.strictEqual(rest[removed.length]?.role, "user")
  })

  law("reports are data", (_, { report }) => {
    const codec = Schema.toCodecJson(reduction.ReductionReport)
    const read = Schema.decodeUnknownSync(codec)(Schema.encodeSync(codec)(report))
    assert(Equal.equals(read, report))
    assert.isUndefined(read.summary)
  })
})
