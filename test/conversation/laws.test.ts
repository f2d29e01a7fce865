import { assert, describe, it } from "@effect/vitest"
import { Arbitrary, Effect, Equal, Option, Result, Schema } from "effect"
import * as history from "#src/conversation/internal/history.ts"
import { Conversation, ConversationError, Message, ToolResult } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const call = (id: string, name = "search") => Message.toolCallPart({ id, name, arguments: { q: id } })
const found = ToolResult.success("found")

const asking = Conversation.empty.pipe(
  Conversation.addUser("Compare"),
  Effect.flatMap(Conversation.addAssistant([call("a"), call("b")]))
)

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

  test("late and second system message", function* () {
    const system = yield* Message.system("Late")
    for (const before of [
      yield* Conversation.addUser(Conversation.empty, "Hello"),
      yield* Conversation.make({ system: "First" })
    ]) {
      const reason = yield* reasonOf(Effect.fromResult(Conversation.append(before, system)))
      assert.strictEqual(reason._tag, "MisplacedSystem")
    }
  })

  test("result without its call", function* () {
    const reason = yield* reasonOf(
      Conversation.addToolResult(yield* asking, { callId: "z", name: "search", result: found }, { id: "late" })
    )
    assert(reason._tag === "OrphanResult")
    assert.strictEqual(reason.callId, "z")
    assert.strictEqual(reason.index, 2)
    assert.strictEqual(reason.id, "late")
    assert.deepStrictEqual(reason.open, ["a", "b"])
  })

  test("second result for one call, in the batch and later", function* () {
    const partly = yield* Conversation.addToolResult(yield* asking, { callId: "a", result: found })
    const again = yield* reasonOf(Conversation.addToolResult(partly, { callId: "a", name: "search", result: found }))
    assert.strictEqual(again._tag, "DuplicateResult")
    const done = yield* Conversation.addToolResult(partly, { callId: "b", result: found })
    const later = yield* reasonOf(
      Conversation.addAssistant(done, "Done").pipe(
        Effect.flatMap(Conversation.addToolResult({ callId: "b", name: "search", result: found }))
      )
    )
    assert.strictEqual(later._tag, "DuplicateResult")
  })

  test("a call id repeated while the first is open; repeated later is fine", function* () {
    const reason = yield* reasonOf(Conversation.addAssistant(Conversation.empty, [call("a"), call("a")]))
    assert.strictEqual(reason._tag, "RepeatedCallId")
    const once = yield* Conversation.addAssistant(Conversation.empty, [call("a")])
    const twice = yield* Conversation.addToolResult(once, { callId: "a", result: found }).pipe(
      Effect.flatMap(Conversation.addAssistant([call("a")]))
    )
    assert.deepStrictEqual(pluck(Conversation.openCalls(twice), "id"), ["a"])
  })

  test("next turn while calls are open, of the user and the assistant", function* () {
    const open = yield* Conversation.addToolResult(yield* asking, { callId: "a", result: found })
    for (const next of [Conversation.addUser(open, "Well?"), Conversation.addAssistant(open, "Well")]) {
      const reason = yield* reasonOf(next)
      assert(reason._tag === "OpenCalls")
      assert.deepStrictEqual(reason.callIds, ["b"])
    }
  })

  test("tool name mismatch, empty user content, empty call ids, late system while open", function* () {
    const open = yield* asking
    const mismatch = yield* reasonOf(Conversation.addToolResult(open, { callId: "a", name: "other", result: found }))
    assert(mismatch._tag === "NameMismatch")
    assert.deepStrictEqual([mismatch.expected, mismatch.found], ["search", "other"])
    assert.strictEqual((yield* reasonOf(Conversation.addUser(Conversation.empty, "")))._tag, "EmptyContent")
    const noId = yield* reasonOf(Conversation.addAssistant(Conversation.empty, [call("")]))
    assert.strictEqual(noId._tag, "MissingCallId")
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
  const search = Message.toolCallPart({ id: "p", name: "web_search", arguments: { q: "x" }, providerExecuted: true })
  const result = Message.toolResultPart({ id: "p", name: "web_search", result: found })

  test("answered in the same message, or in a later one of the turn", function* () {
    yield* Conversation.addAssistant(Conversation.empty, [search, result, call("a")])
    const paused = yield* Conversation.addAssistant(Conversation.empty, [search])
    assert.deepStrictEqual(Conversation.openCalls(paused), [])
    const resumed = yield* Conversation.addAssistant(paused, [result])
    const again = yield* reasonOf(Conversation.addAssistant(resumed, [result]))
    assert.strictEqual(again._tag, "DuplicateResult")
  })

  test("an unanswered one blocks nothing, but its result cannot come after the next user message", function* () {
    const paused = yield* Conversation.addAssistant(Conversation.empty, [search])
    const next = yield* Conversation.addUser(paused, "Never mind")
    const late = yield* reasonOf(Conversation.addAssistant(next, [result]))
    assert.strictEqual(late._tag, "OrphanResult")
  })

  test("results before, without or from the wrong side of their call", function* () {
    const early = yield* reasonOf(Conversation.addAssistant(Conversation.empty, [result, search]))
    assert.strictEqual(early._tag, "OrphanResult")
    const paused = yield* Conversation.addAssistant(Conversation.empty, [search])
    const ours = yield* reasonOf(Conversation.addToolResult(paused, { callId: "p", name: "web_search", result: found }))
    assert.strictEqual(ours._tag, "OrphanResult")
    const theirs = yield* reasonOf(
      Conversation.addAssistant(Conversation.empty, [
        call("a"),
        Message.toolResultPart({ id: "a", name: "search", result: found })
      ])
    )
    assert.strictEqual(theirs._tag, "OrphanResult")
  })
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
