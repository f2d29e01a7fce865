import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Equal, Option, Result, Schema } from "effect"
import * as history from "#src/conversation/internal/history.ts"
import { Conversation, ConversationError, Message, ToolResult } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { call, chat, own, ownResult, type Step } from "./given.ts"

const found = ToolResult.success("found")

const asking = chat(Conversation.addUser("Compare"), Conversation.addAssistant([call("a"), call("b")]))

const refused = (...steps: ReadonlyArray<Step>) => reasonOf(chat(...steps))

const reasonOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.map(Effect.flip(effect), (error) => {
    assert(Schema.is(ConversationError.ConversationError)(error))
    return error.reason
  })

describe("CONV-2 invalid states do not exist", () => {
  test("unknown role", function* () {
    const message = yield* Message.user("x")
    for (const role of ["bot", null, 7, undefined, "constructor"]) {
      // A value that a caller without types could pass
      const result = Conversation.append(Conversation.empty, { ...message, role } as unknown as Message.Message)
      assert(Result.isFailure(result))
      assert(result.failure.reason._tag === "UnknownRole")
      assert.strictEqual(result.failure.reason.id, message.id)
      assert.include(result.failure.message, "at /messages/0/role: expected one of system, user, assistant, tool")
    }
  })

  test("MEND-11 a system message between a call and its results, and later ones where they are refused", function* () {
    const system = yield* Message.system("Late")
    assert.strictEqual(
      (yield* reasonOf(Effect.fromResult(Conversation.append(yield* asking, system))))._tag,
      "OpenCalls"
    )
    for (const before of [
      yield* Conversation.addUser(Conversation.empty, "Hello"),
      yield* Conversation.make({ system: "First" })
    ]) {
      const later = yield* Effect.fromResult(Conversation.append(before, system))
      assert.strictEqual(Conversation.messageCount(later), 2)
      const messages = Conversation.messages(later)
      const reason = yield* reasonOf(Effect.fromResult(Conversation.fromMessages(messages, { laterSystem: "refuse" })))
      assert.deepStrictEqual(reason, { _tag: "MisplacedSystem", index: 1, id: system.id })
      // An option from elsewhere, which the compiler did not see
      const options: Conversation.ReadOptions = JSON.parse('{"laterSystem":"Refuse"}')
      assert.deepStrictEqual(yield* reasonOf(Effect.fromResult(Conversation.fromMessages(messages, options))), reason)
      const { repairs } = yield* Conversation.repair(messages, options)
      assert.deepStrictEqual(
        repairs.map(({ _tag }) => _tag),
        ["SystemDemoted"]
      )
    }
  })

  test("MEND-11 later system messages are appended, and the first one stays the system message", function* () {
    const self = yield* chat(
      () => Conversation.make({ system: "First" }),
      Conversation.addUser("One"),
      Conversation.addSystem("Late", { id: "s2" }),
      Conversation.addAssistant("1"),
      Conversation.addUser("Two")
    )
    assert.strictEqual(Option.getOrThrow(Conversation.system(self)).content, "First")
    assert.deepStrictEqual(pluck(Conversation.messages(self), "role"), [
      "system",
      "user",
      "system",
      "assistant",
      "user"
    ])
    assert.deepStrictEqual(
      pluck(Conversation.toPrompt(self).content, "role"),
      pluck(Conversation.messages(self), "role")
    )
    const dropped = yield* Effect.fromResult(Conversation.dropOldTurns(self, { keepRecent: 1 }))
    assert.deepStrictEqual(pluck(dropped.removed, "role"), ["user", "system", "assistant"])
    assert.strictEqual(Option.getOrThrow(Conversation.system(dropped.conversation)).content, "First")
    const { report } = yield* Conversation.truncate(self, { maxTokens: 16 })
    assert.deepStrictEqual(pluck(report.removed, "role"), ["user", "system", "assistant"])
    const read = yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(self))
    assert(Equal.equals(read, self))
    assert.strictEqual(
      (yield* chat(Conversation.addUser("Hi"), Conversation.addSystem("Late"))).pipe(Conversation.system)._tag,
      "None"
    )
  })

  test("result without its call", function* () {
    const reason = yield* reasonOf(
      Conversation.addToolResult(yield* asking, { callId: "z", name: "f", result: found }, { id: "late" })
    )
    assert(reason._tag === "OrphanResult")
    assert.strictEqual(reason.callId, "z")
    assert.strictEqual(reason.index, 2)
    assert.strictEqual(reason.id, "late")
    assert.deepStrictEqual(reason.open, ["a", "b"])
  })

  test("second result for one call, in the batch and later", function* () {
    const partly = yield* Conversation.addToolResult(yield* asking, { callId: "a", result: found })
    const again = yield* reasonOf(Conversation.addToolResult(partly, { callId: "a", name: "f", result: found }))
    assert.strictEqual(again._tag, "DuplicateResult")
    const done = yield* Conversation.addToolResult(partly, { callId: "b", result: found })
    const longer = yield* Conversation.addAssistant(done, "Done")
    const later = yield* reasonOf(Conversation.addToolResult(longer, { callId: "b", name: "f", result: found }))
    assert.strictEqual(later._tag, "DuplicateResult")
  })

  test("a call id repeated while the first is open; repeated later is fine", function* () {
    const reason = yield* refused(Conversation.addAssistant([call("a"), call("a")]))
    assert.strictEqual(reason._tag, "RepeatedCallId")
    const once = Conversation.addAssistant([call("a")])
    const twice = yield* chat(once, Conversation.addToolResult({ callId: "a", result: found }), once)
    assert.deepStrictEqual(pluck(Conversation.openCalls(twice), "id"), ["a"])
  })

  test("TRUST-1 a call with the text of other arguments is refused by every way to add it, and no message with it", function* () {
    const part = { ...call("a", { arguments: { to: "alice" } }), text: `{"to":"mallory"}` }
    assert.strictEqual((yield* refused(Conversation.addAssistant([part])))._tag, "ArgumentsDiffer")
    const message = yield* Message.assistant([call("b"), part])
    for (const made of [
      Conversation.append(Conversation.empty, message),
      Conversation.appendAll(Conversation.empty, [message]),
      Conversation.fromMessages([message])
    ]) {
      const { reason } = yield* Effect.flip(Effect.fromResult(made))
      assert.deepStrictEqual(reason, { _tag: "ArgumentsDiffer", index: 0, id: message.id, callId: "a" })
    }
    yield* chat(Conversation.addAssistant([{ ...part, text: ` { "to": "alice" }` }]))
  })

  test("next turn while calls are open, of the user and the assistant", function* () {
    const open = yield* Conversation.addToolResult(yield* asking, { callId: "a", result: found })
    for (const next of [Conversation.addUser(open, "Well?"), Conversation.addAssistant(open, "Well")]) {
      const reason = yield* reasonOf(next)
      assert(reason._tag === "OpenCalls")
      assert.deepStrictEqual(reason.callIds, ["b"])
    }
  })

  test("tool name mismatch, empty user content, empty call ids", function* () {
    const open = yield* asking
    const mismatch = yield* reasonOf(Conversation.addToolResult(open, { callId: "a", name: "other", result: found }))
    assert(mismatch._tag === "NameMismatch")
    assert.deepStrictEqual([mismatch.expected, mismatch.found], ["f", "other"])
    assert.strictEqual((yield* refused(Conversation.addUser("")))._tag, "EmptyContent")
    assert.strictEqual((yield* refused(Conversation.addAssistant([call("")])))._tag, "MissingCallId")
    const noCall = yield* reasonOf(Conversation.addToolResult(open, { callId: "", name: "f", result: found }))
    assert.strictEqual(noCall._tag, "MissingCallId")
  })

  test("an open end may be partly answered; seal closes the rest and the conversation continues", function* () {
    const partly = yield* Conversation.addToolResult(yield* asking, { callId: "b", result: found })
    assert.deepStrictEqual(pluck(Conversation.openCalls(partly), "id"), ["a"])
    const sealed = yield* Conversation.seal(partly, { message: "Stopped by the user" })
    const placeholder = Conversation.messages(sealed)[2]
    assert(placeholder?.role === "tool" && placeholder.result._tag === "Failure")
    assert.deepStrictEqual(
      [placeholder.callId, placeholder.result.type, placeholder.result.message],
      ["a", "interrupted", "Stopped by the user"]
    )
    const on = yield* Conversation.addUser(sealed, "Go on")
    assert.strictEqual(Conversation.messageCount(on), 5)
    assert.strictEqual(yield* Conversation.seal(on), on)
  })

  test("a refused message changes nothing", function* () {
    const before = yield* asking
    const copy = [...Conversation.messages(before)]
    yield* Effect.flip(Conversation.addUser(before, "too early"))
    assert.deepStrictEqual(Conversation.messages(before), copy)
  })
})

describe("CONV-2 tools that the provider runs", () => {
  const paused = Conversation.addAssistant([own("p")])
  const answered = Conversation.addAssistant([ownResult("p")])

  test("answered in the same message, or in a later one of the turn", function* () {
    yield* chat(Conversation.addAssistant([own("p"), ownResult("p"), call("a")]))
    assert.deepStrictEqual(Conversation.openCalls(yield* chat(paused)), [])
    yield* chat(paused, answered)
    assert.strictEqual((yield* refused(paused, answered, answered))._tag, "DuplicateResult")
  })

  for (const [name, ...steps] of [
    [
      "after the next user message, though an unanswered one blocks nothing",
      paused,
      Conversation.addUser("On"),
      answered
    ],
    ["before its call", Conversation.addAssistant([ownResult("p"), own("p")])],
    ["of ours", paused, Conversation.addToolResult({ callId: "p", name: "web", result: found })],
    ["for a call of ours", Conversation.addAssistant([call("a"), ownResult("a", "found", "f")])]
  ] as const) {
    test(`no result ${name}`, function* () {
      yield* chat(...steps.slice(0, -1))
      assert.strictEqual((yield* refused(...steps))._tag, "OrphanResult")
    })
  }
})

describe("L7 laws over generated conversations", () => {
  it.prop("what is generated is lawful", [Arbitraries.messages()], ([messages]) => {
    assert(Result.isSuccess(Conversation.fromMessages(messages)))
  })

  test("and shrinks to a lawful conversation that is hardly larger than the problem", function* () {
    const hasFailure = (self: Conversation.Conversation) =>
      Conversation.messages(self).some((message) => message.role === "tool" && message.result._tag === "Failure")
    const result = yield* Arbitrary.checkEffect(Arbitraries.conversation(), (self) => !hasFailure(self), {
      runs: 500,
      seed: 1,
      maxShrinks: 2_000
    })
    assert(result._tag === "Falsified")
    assert(Result.isSuccess(Conversation.fromMessages(result.shrunkInput)))
    assert(hasFailure(result.shrunkInput))
    assert.isAtMost(Conversation.messageCount(result.shrunkInput), 3)
  })

  it.prop(
    "truncation keeps the system message, order and pairs, reports what it removed, and is idempotent",
    [Arbitraries.conversation(), Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 5 }))],
    ([self, keepRecent]) => {
      const { conversation, removed } = Result.getOrThrow(Conversation.dropOldTurns(self, { keepRecent }))
      assert(Result.isSuccess(Conversation.fromMessages(conversation)))
      assert(Equal.equals(Conversation.system(conversation), Conversation.system(self)))
      assert.deepStrictEqual(Conversation.tokenLimit(conversation), Conversation.tokenLimit(self))
      const gone = new Set(removed)
      assert.deepStrictEqual(
        Conversation.messages(conversation),
        Conversation.messages(self).filter((message) => !gone.has(message))
      )
      const turns = Conversation.messages(conversation).filter(({ role }) => role === "user").length
      assert.isAtMost(turns, keepRecent)
      const again = Result.getOrThrow(Conversation.dropOldTurns(conversation, { keepRecent }))
      assert(Equal.equals(again.conversation, conversation))
    }
  )

  test.prop("sealing answers every open call and only those", [Arbitraries.conversation()], function* ([self]) {
    const sealed = yield* Conversation.seal(self)
    assert.deepStrictEqual(Conversation.openCalls(sealed), [])
    assert.strictEqual(
      Conversation.messageCount(sealed) - Conversation.messageCount(self),
      Conversation.openCalls(self).length
    )
    assert(Result.isSuccess(Conversation.fromMessages(sealed)))
    yield* Conversation.addUser(sealed, "Go on")
  })

  it.prop("relabelled content can always be added", [Arbitraries.conversation({ open: false })], ([self]) => {
    const last = Option.getOrUndefined(Conversation.lastAssistantMessage(self))
    if (last === undefined) return
    const content = Conversation.relabelCalls(self, [...last.content, ...last.content])
    const calls = content.flatMap((part) => (part.type === "tool-call" ? [part.id] : []))
    assert.strictEqual(new Set(calls).size, calls.length)
    assert(!calls.some((id) => history.hasCall(self, id)))
  })
})
