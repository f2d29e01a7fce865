import * as reduction from "#src/conversation/internal/reduction.ts"
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Layer, Result, Schema } from "effect"
import { Conversation, Message, TokenCounter } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { call, chat, own, ownResult, system } from "./given.ts"

const settings = Layer.merge(TokenCounter.layer({ count: (text) => text.length }), Message.layerSequentialIds())

const three = chat(
  system("System."),
  Conversation.addUser("One"),
  Conversation.addAssistant("1"),
  Conversation.addUser("Two"),
  Conversation.addAssistant("2"),
  Conversation.addUser("Three")
)

const texts = (self: Conversation.Conversation) => Conversation.messages(self).map(Message.text)
const intro = "Summary of the conversation so far:\n\n"
const joined = (old: Conversation.Conversation) => Effect.succeed(texts(old).join("+"))

describe("CONV-6 compact", () => {
  test("puts a summary in the place of old turns and reports it", settings, function* () {
    const self = yield* three
    const { conversation, report } = yield* Conversation.compact(self, { keepRecent: 1, summarize: joined })
    assert.deepStrictEqual(texts(conversation), ["System.", `${intro}One+1+Two+2`, "Three"])
    const removed = report.removed.map(({ id, role, tokens }) => `${id} ${role} ${tokens}`)
    assert.deepStrictEqual(removed, ["m2 user 7", "m3 assistant 5", "m4 user 7", "m5 assistant 5"])
    assert.deepStrictEqual(report.summary, { id: "m7", tokens: 4 + intro.length + 11 })
    assert.strictEqual(report.before, yield* Conversation.estimatedSize(self))
    assert.strictEqual(report.after, yield* Conversation.estimatedSize(conversation))
    assert.isFalse(reduction.isUnchanged(report))
  })

  test("the next summary contains the last one; nothing but a summary is left alone", settings, function* () {
    const first = yield* Conversation.compact(yield* three, { keepRecent: 1, summarize: joined })
    const never = { keepRecent: 1, summarize: () => Effect.die("not to be run") }
    const again = yield* Conversation.compact(first.conversation, never)
    assert.strictEqual(again.conversation, first.conversation)
    assert.isTrue(reduction.isUnchanged(again.report))

    const stored = yield* Conversation.codec.decode(yield* Conversation.codec.encode(first.conversation))
    assert.isTrue(reduction.isUnchanged((yield* Conversation.compact(stored, never)).report))

    const longer = yield* Conversation.addAssistant(stored, "3").pipe(Effect.flatMap(Conversation.addUser("Four")))
    const second = yield* Conversation.compact(longer, { keepRecent: 1, summarize: joined })
    assert.deepStrictEqual(texts(second.conversation), ["System.", `${intro}${intro}One+1+Two+2+Three+3`, "Four"])
    assert.deepStrictEqual(pluck(second.report.removed, "id"), ["m7", "m6", "m8"])
  })

  test("errors and services of the summary are those of the result", function* () {
    class Refused extends Schema.TaggedError<Refused>()("Refused", {}) {}
    class Scribe extends Context.Service<Scribe, { readonly text: string }>()("test/Scribe") {}
    const self = yield* three
    const failing = Conversation.compact(self, { keepRecent: 1, summarize: () => Effect.fail(new Refused()) })
    assert.strictEqual((yield* Effect.flip(failing))._tag, "Refused")
    const summarize = () => Effect.map(Scribe, ({ text }) => text)
    const served = yield* Effect.provideService(Conversation.compact(self, { keepRecent: 1, summarize }), Scribe, {
      text: "short"
    })
    assert.strictEqual(texts(served.conversation)[1], `${intro}short`)
  })

  test("an empty summary removes nothing", function* () {
    const self = yield* three
    for (const text of ["", " \n"]) {
      const summarize = () => Effect.succeed(text)
      const error = yield* Effect.flip(Conversation.compact(self, { keepRecent: 1, summarize }))
      assert(error.reason._tag === "EmptySummary")
      assert.strictEqual(error.reason.messages, 4)
    }
  })

  test("keepRecent is a number of turns", function* () {
    for (const keepRecent of [-1, 0.5, Number.NaN]) {
      const error = yield* Effect.flip(Conversation.compact(yield* three, { keepRecent, summarize: joined }))
      assert.strictEqual(error.reason._tag, "InvalidKeepRecent")
    }
    const none = yield* Conversation.compact(yield* three, { keepRecent: 0, summarize: joined })
    assert.strictEqual(Conversation.messageCount(none.conversation), 2)
    const all = yield* Conversation.compact(yield* three, { keepRecent: 3, summarize: joined })
    assert.isTrue(reduction.isUnchanged(all.report))
  })

  test("a turn with open calls is kept", function* () {
    const open = yield* Conversation.addAssistant(yield* three, [call("c1")])
    const { conversation } = yield* Conversation.compact(open, { keepRecent: 0, summarize: joined })
    assert.deepStrictEqual(Conversation.openCalls(conversation), Conversation.openCalls(open))
    assert.strictEqual(Conversation.messageCount(conversation), 4)
  })

  test("a turn is kept in which a tool that the provider runs has not answered", function* () {
    const open = yield* Conversation.addAssistant(yield* three, [own("w1")])
    const { conversation } = yield* Conversation.compact(open, { keepRecent: 0, summarize: joined })
    const answered = yield* Conversation.addAssistant(conversation, [ownResult("w1")])
    assert.strictEqual(Conversation.messageCount(answered), 5)
  })

  const generated = [Arbitraries.conversation({ maxTurns: 5 }), Schema.Literals([0, 1, 2, 3])] as const

  test.prop(
    "L7 pairs, system, open calls, order and ids are kept; the old part is lawful too",
    [...generated],
    function* ([self, keepRecent]) {
      let old: ReadonlyArray<Message.Message> = []
      const { conversation, report } = yield* Conversation.compact(self, {
        keepRecent,
        summarize: (part) => {
          old = Conversation.messages(part)
          return Effect.succeed("said")
        }
      })
      const after = Conversation.messages(conversation)
      assert.isTrue(Result.isSuccess(Conversation.fromMessages(after)))
      assert.isTrue(Result.isSuccess(Conversation.fromMessages(old)))
      assert.deepStrictEqual(Conversation.system(conversation), Conversation.system(self))
      assert.deepStrictEqual(Conversation.openCalls(conversation), Conversation.openCalls(self))
      assert.deepStrictEqual(pluck(report.removed, "id"), pluck(old, "id"))
      const removed = new Set(report.removed.map(({ id }) => id))
      assert.deepStrictEqual(
        after.filter(({ id }) => id !== report.summary?.id),
        Conversation.messages(self).filter(({ id }) => !removed.has(id))
      )
      assert.strictEqual(report.summary === undefined, removed.size === 0)
      const again = yield* Conversation.compact(conversation, { keepRecent, summarize: () => Effect.succeed("said") })
      if (keepRecent > 0 || Conversation.openCalls(self).length > 0) assert.isTrue(reduction.isUnchanged(again.report))
    }
  )
})
