import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Equal, Hash, Option, Result, Schema } from "effect"
import { Conversation, Message, ToolResult } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"

import { IdGenerator } from "effect/ai"
import { TestClock } from "effect/testing"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { call, chat, own, ownResult, system } from "./given.ts"

describe("CONV-1 messages", () => {
  test("ids come from a service, times from the clock", Message.layerSequentialIds(), function* () {
    yield* TestClock.setTime(1_000)
    const first = yield* Message.user("One")
    yield* TestClock.adjust("1 minute")
    const second = yield* Message.assistant("1", { model: "m" })
    assert.deepStrictEqual([first.id, second.id], ["m1", "m2"])
    assert.deepStrictEqual(
      [first, second].map(({ createdAt }) => DateTime.toEpochMillis(createdAt)),
      [1_000, 61_000]
    )
  })

  test("the IdGenerator of effect/ai is used where there is one; given ids and times win", function* () {
    const createdAt = DateTime.makeUnsafe(5)
    const given = yield* Message.system("s", { id: "mine", createdAt })
    assert.deepStrictEqual([given.id, given.createdAt], ["mine", createdAt])
    assert.match((yield* Message.user("x")).id, /^msg_[0-9A-Za-z]{16}$/)
    const ambient = yield* Message.user("x").pipe(
      Effect.provideService(IdGenerator.IdGenerator, { generateId: () => Effect.succeed("ambient") })
    )
    assert.strictEqual(ambient.id, "ambient")
  })

  it.prop("L3 the codec of a message is lawful", [Arbitraries.messages()], ([messages]) => {
    const codec = Schema.Array(Message.Message)
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(codec)(messages)))
    const decoded = Schema.decodeUnknownSync(codec, { onExcessProperty: "error" })(json)
    assert(Equal.equals(decoded, messages))
  })
})

describe("CONV-1 immutability", () => {
  test("changing what was passed in changes nothing", function* () {
    const args = { list: [1, 2], nested: { deep: "x" } }
    const options = { openai: { itemId: "i1" } }
    const metadata = { tags: ["a"] }
    const parts = [call("a", { arguments: args, options })]
    const self = yield* Conversation.addAssistant(Conversation.empty, parts, { metadata })
    // A message that no constructor made
    const value = { rows: [1] }
    const raw = {
      role: "tool" as const,
      id: "t",
      createdAt: DateTime.makeUnsafe(0),
      callId: "a",
      name: "f",
      result: ToolResult.success(value)
    }
    const both = yield* Effect.fromResult(Conversation.append(self, raw))
    const before = yield* Conversation.codec.encode(both)
    args.list.push(3)
    args.nested.deep = "y"
    options.openai.itemId = "i2"
    metadata.tags.push("b")
    parts.pop()
    value.rows.push(2)
    raw.callId = "b"
    assert.deepStrictEqual(yield* Conversation.codec.encode(both), before)
  })

  test("what comes out is frozen, all the way down", function* () {
    const self = yield* chat(Conversation.addAssistant([call("a", { arguments: { list: [{}] } })]))
    const frozen = (value: unknown): boolean =>
      typeof value !== "object" ||
      value === null ||
      DateTime.isDateTime(value) ||
      (Object.isFrozen(value) && Object.values(value).every(frozen))
    assert(frozen(Conversation.messages(self)))
    assert(Object.isFrozen(self))
  })

  test("L6 results are in call order, whatever the order in which they are added", function* () {
    const ids = ["a", "b", "c", "d"]
    const asked = yield* chat(Conversation.addAssistant(ids.map((id) => call(id))))
    for (const order of ["abcd", "dcba", "cadb", "bdac"]) {
      let self = asked
      for (const [index, callId] of [...order].entries()) {
        const before = self
        const messages = Conversation.messages(before)
        self = yield* Conversation.addToolResult(self, { callId, result: ToolResult.success(callId) })
        assert.deepStrictEqual(
          Conversation.messages(self).flatMap((message) => (message.role === "tool" ? [message.callId] : [])),
          [...order].slice(0, index + 1).sort()
        )
        assert.deepStrictEqual([...before], messages)
      }
      assert.strictEqual(Conversation.messageCount(self), 5)
    }
  })

  test("nothing is copied: branches share the history, messages are the same objects", function* () {
    const root = yield* chat(system("s"), Conversation.addUser("One"))
    const left = yield* Conversation.addAssistant(root, "left")
    const right = yield* Conversation.addAssistant(root, "right")
    assert.strictEqual(Conversation.messageCount(root), 2)
    const [a, b, c] = [root, left, right].map(Conversation.messages)
    for (const index of [0, 1]) {
      assert.strictEqual(b?.[index], a?.[index])
      assert.strictEqual(c?.[index], a?.[index])
    }
    assert.deepStrictEqual(
      [left, right].map((self) => Option.map(Conversation.lastMessage(self), Message.text)),
      [Option.some("left"), Option.some("right")]
    )
  })

  test("deep JSON is copied without running out of stack", function* () {
    let deep: Schema.Json = null
    for (let i = 0; i < 100_000; i++) deep = [deep]
    yield* chat(Conversation.addAssistant([call("a", { arguments: deep })]))
  })

  test("a key named __proto__ sets no prototype", function* () {
    const hostile: Schema.Json = JSON.parse(`{"__proto__":{"polluted":true}}`)
    const self = yield* chat(Conversation.addAssistant([call("a", { arguments: hostile })]))
    const args = Conversation.openCalls(self)[0]?.arguments
    assert.strictEqual(Object.getPrototypeOf(args), Object.prototype)
    assert.strictEqual((yield* Effect.flip(Conversation.codec.encode(self)))._tag, "PayloadError")
  })
})

describe("CONV-1 reading a conversation", () => {
  const make = chat(
    () => Conversation.make({ system: "s", tokenLimit: 1000 }),
    Conversation.addUser("One"),
    Conversation.addAssistant("1", { usage: { inputTokens: 700, outputTokens: 100 } }),
    Conversation.addUser("Two")
  )

  test("getters", function* () {
    const self = yield* make
    assert.strictEqual(Conversation.messageCount(self), 4)
    assert.deepStrictEqual(Option.map(Conversation.system(self), Message.text), Option.some("s"))
    assert.deepStrictEqual(Option.map(Conversation.lastAssistantMessage(self), Message.text), Option.some("1"))
    assert.deepStrictEqual(Option.map(Conversation.lastMessage(self), Message.text), Option.some("Two"))
    assert.deepStrictEqual([...self], Conversation.messages(self))
    assert.isTrue(Option.isNone(Conversation.lastAssistantMessage(Conversation.empty)))
  })

  test("tokens", function* () {
    const self = yield* make
    assert.strictEqual(Conversation.tokenCount(self), 800)
    assert.deepStrictEqual(Conversation.tokenRemaining(self), Option.some(200))
    assert.isTrue(Conversation.approachingLimit(self))
    assert.isTrue(self.pipe(Conversation.approachingLimit()))
    assert.isFalse(self.pipe(Conversation.approachingLimit(0.81)))
    const unlimited = Conversation.withTokenLimit(self, undefined)
    assert.deepStrictEqual(Conversation.tokenRemaining(unlimited), Option.none())
    assert.isFalse(Conversation.approachingLimit(unlimited, 0))
    assert.deepStrictEqual(Conversation.tokenRemaining(Conversation.withTokenLimit(self, 0)), Option.some(-800))
    assert.deepStrictEqual(Message.sumUsage([]), {})
  })

  test("clear keeps the system message and the limit", function* () {
    const cleared = Conversation.clear(yield* make)
    assert.deepStrictEqual(pluck(Conversation.messages(cleared), "role"), ["system"])
    assert.deepStrictEqual(Conversation.tokenRemaining(cleared), Option.some(1000))
    const blank = Conversation.clear(yield* Conversation.addUser(Conversation.empty, "x"))
    assert(Result.isSuccess(Conversation.append(blank, yield* Message.system("s"))))
  })

  test("conversations are compared by value and print no content", function* () {
    const self = yield* make
    const same = Result.getOrThrow(Conversation.fromMessages(self, { tokenLimit: 1000 }))
    assert(Equal.equals(self, same))
    assert.strictEqual(Hash.hash(self), Hash.hash(same))
    assert(!Equal.equals(self, Conversation.withTokenLimit(self, 2)))
    assert(!Equal.equals(self, Conversation.clear(self)))
    assert.notInclude(`${String(self)}${JSON.stringify(self)}`, "Two")
  })
})

describe("L5 transcript", () => {
  const a = { callId: "a", result: ToolResult.success({ x: 1 }) }
  const b = { callId: "b", result: ToolResult.failure("not_found", "No b") }

  const build = (order: ReadonlyArray<typeof a | typeof b>, ...chunks: ReadonlyArray<string>) => {
    const text = chunks.map((chunk) => ToolResult.textPart(chunk))
    const calls = [call("a", { arguments: { n: 1 } }), call("b", { name: "g", text: "{ }" })]
    const said = Conversation.addAssistant([Message.reasoningPart("Hm"), ...text, ...calls])
    const results = order.map((result) => Conversation.addToolResult(result))
    return Effect.map(chat(Conversation.addUser("Go"), said, ...results), Conversation.transcript)
  }

  test("roles, text, calls and results in call order; nothing that differs from run to run", function* () {
    const transcript = yield* build([a, b], "Let me ", "look.")
    assert.deepStrictEqual(transcript, [
      { role: "user", content: [{ type: "text", text: "Go" }] },
      {
        role: "assistant",
        content: [
          { type: "text", text: "Let me look." },
          { type: "tool-call", name: "f", arguments: { n: 1 } },
          { type: "tool-call", name: "g", arguments: {} }
        ]
      },
      { role: "tool", name: "f", type: "success", content: [{ type: "text", text: `{"x":1}` }] },
      { role: "tool", name: "g", type: "not_found", content: [{ type: "text", text: "No b" }] }
    ])
    assert(Equal.equals(transcript, yield* build([b, a], "Let me look.")))
  })

  test("empty text is no content", function* () {
    const said = yield* chat(Conversation.addAssistant(["", "Hi", ""].map((text) => ToolResult.textPart(text))))
    assert.deepStrictEqual(Conversation.transcript(said), [
      { role: "assistant", content: [{ type: "text", text: "Hi" }] }
    ])
  })

  it.prop("is JSON with a schema", [Arbitraries.conversation()], ([self]) => {
    const transcript = Conversation.transcript(self)
    const json: unknown = JSON.parse(JSON.stringify(Schema.encodeSync(Conversation.Transcript)(transcript)))
    assert(Equal.equals(Schema.decodeUnknownSync(Conversation.Transcript)(json), transcript))
  })
})

describe("relabelCalls", () => {
  test("makes new ids where needed, the same each time, and results follow", function* () {
    const self = yield* chat(Conversation.addAssistant([call("call_0")]))
    const said = [call("call_0"), call(""), own("p"), ownResult("p", 1), own("p"), ownResult("p", 2)]
    const content = Conversation.relabelCalls(self, said)
    assert.deepStrictEqual(
      content.map((part) => "id" in part && part.id),
      ["call_0_1", "call_1", "p", "p", "p_1", "p_1"]
    )
  })

  test("new ids differ from each other, also where one id is the stem of another", function* () {
    const self = yield* chat(system("s"), Conversation.addUser("Go"))
    const calls = ["a", "a", "a", "a_2", "a_2"].map((id) => call(id))
    const ids = Conversation.relabelCalls(self, calls).flatMap((part) => ("id" in part ? [part.id] : []))
    assert.strictEqual(new Set(ids).size, calls.length)
  })

  it("AGENT-3 thousands of calls with one id are relabelled in linear time", () => {
    const calls = Array.from({ length: 30_000 }, () => call("c"))
    const ids = Conversation.relabelCalls(Conversation.empty, calls).map((part) => "id" in part && part.id)
    assert.strictEqual(new Set(ids).size, calls.length)
    assert.deepStrictEqual(ids.slice(0, 3), ["c", "c_0", "c_0_2"])
  })

  test("a result of the provider finds its relabelled call in an earlier message of the turn", function* () {
    let self = yield* chat(Conversation.addAssistant([own("p"), ownResult("p")]))
    self = yield* Conversation.addAssistant(self, Conversation.relabelCalls(self, [own("p")]))
    const content = Conversation.relabelCalls(self, [ownResult("p")])
    assert.deepStrictEqual(content, [ownResult("p_1")])
    yield* Conversation.addAssistant(self, content)
  })
})
