import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Equal, Schema } from "effect"
import { Prompt } from "effect/ai"
import { Conversation, ConversationError, type Message, ToolResult } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import * as given from "./given.ts"

const createdAt = DateTime.makeUnsafe(0)
const found = ToolResult.success("found")

const system = (id: string, content = "Obey."): Message.Message => ({ role: "system", id, createdAt, content })
const user = (id: string, text = id): Message.Message => {
  const content = [ToolResult.textPart(text)] as const
  return { role: "user", id, createdAt, content }
}
const assistant = (id: string, ...content: ReadonlyArray<Message.AssistantPart>): Message.Message => {
  return { role: "assistant", id, createdAt, content }
}
const tool = (id: string, callId: string, name = "f"): Message.Message => {
  return { role: "tool", id, createdAt, callId, name, result: found }
}
const { call, own } = given
const ownResult = (id: string, name?: string) => given.ownResult(id, "found", name)

/** Roles and ids, with what answers what. */
const shape = (self: Conversation.Conversation) =>
  Conversation.messages(self).map((message) => {
    switch (message.role) {
      case "tool":
        return `tool ${message.callId} ${message.result._tag === "Failure" ? message.result.type : "ok"}`
      case "assistant":
        return [
          "assistant",
          ...message.content.map((part) => ("id" in part ? `${part.type} ${part.id}` : part.type))
        ].join(" ")
      default:
        return `${message.role} ${message.id}`
    }
  })

const repaired = (...messages: ReadonlyArray<Message.Message>) => reported(messages, {})

/** The repair of a history whose writer must not add to the instructions. */
const demoted = (...messages: ReadonlyArray<Message.Message>) => reported(messages, { laterSystem: "refuse" })

const reported = (
  messages: ReadonlyArray<Message.Message>,
  options: NonNullable<Parameters<typeof Conversation.repair>[1]>
) =>
  Effect.map(Conversation.repair(messages, options), ({ conversation, repairs }) => ({
    shape: shape(conversation),
    repairs: repairs.map(({ _tag, index, ...rest }) =>
      "reason" in rest ? `${_tag} ${index} ${rest.reason._tag}` : `${_tag} ${index}`
    ),
    details: repairs
  }))

describe("CONV-8 repair", () => {
  test("results without a call are dropped", function* () {
    const result = yield* repaired(user("u1"), tool("t1", "c1"), assistant("a1"), tool("t2", "c2"))
    assert.deepStrictEqual(result.shape, ["user u1", "assistant"])
    assert.deepStrictEqual(result.repairs, ["MessageDropped 1 OrphanResult", "MessageDropped 3 OrphanResult"])
  })

  test("second results are dropped", function* () {
    const result = yield* repaired(user("u1"), assistant("a1", call("c1")), tool("t1", "c1"), tool("t2", "c1"))
    assert.deepStrictEqual(result.shape, ["user u1", "assistant tool-call c1", "tool c1 ok"])
    assert.deepStrictEqual(result.repairs, ["MessageDropped 3 DuplicateResult"])
  })

  test("MEND-10 a late result moves up to its call, and no failure takes its place", function* () {
    const late = yield* repaired(assistant("a1", call("c1")), user("u1"), tool("t1", "c1", "g"))
    assert.deepStrictEqual(late.shape, ["assistant tool-call c1", "tool c1 ok", "user u1"])
    assert.deepStrictEqual(late.details, [
      { _tag: "ResultRenamed", index: 2, id: "t1", callId: "c1", from: "g", to: "f" },
      { _tag: "ResultMoved", index: 2, id: "t1", callId: "c1" }
    ])
    const twice = yield* repaired(assistant("a1", call("c1")), assistant("a2"), tool("t1", "c1"), tool("t2", "c1"))
    assert.deepStrictEqual(twice.shape, ["assistant tool-call c1", "tool c1 ok", "assistant"])
    assert.deepStrictEqual(twice.repairs, ["ResultMoved 2", "MessageDropped 3 DuplicateResult"])
    const partly = yield* repaired(
      assistant("a1", call("c1"), call("c2"), call("c3")),
      tool("t3", "c3"),
      user("u1"),
      assistant("a2", call("c4")),
      tool("t2", "c2"),
      tool("t4", "c4")
    )
    assert.deepStrictEqual(partly.shape, [
      "assistant tool-call c1 tool-call c2 tool-call c3",
      "tool c1 interrupted",
      "tool c2 ok",
      "tool c3 ok",
      "user u1",
      "assistant tool-call c4",
      "tool c4 ok"
    ])
    assert.deepStrictEqual(partly.repairs, ["CallSealed 2", "ResultMoved 4"])
  })

  test("MEND-10 a late result follows a call that was relabelled, and is for none where two calls have its id", function* () {
    const relabelled = yield* repaired(
      assistant("a1", call("c1")),
      tool("t1", "c1"),
      assistant("a2", call("")),
      user("u1"),
      tool("t2", "")
    )
    assert.deepStrictEqual(relabelled.shape.slice(2), ["assistant tool-call call_2", "tool call_2 ok", "user u1"])
    const two = yield* repaired(
      assistant("a1", call("c1")),
      user("u1"),
      assistant("a2", call("c1")),
      user("u2"),
      tool("t1", "c1")
    )
    assert.deepStrictEqual(two.repairs, ["CallSealed 1", "CallSealed 3", "MessageDropped 4 DuplicateResult"])
  })

  test("calls without a result are sealed where the next turn begins; an open end stays open", function* () {
    const result = yield* repaired(
      user("u1"),
      assistant("a1", call("c1"), call("c2"), call("c3")),
      tool("t2", "c2"),
      assistant("a2", call("c4"), call("c5")),
      tool("t4", "c4")
    )
    assert.deepStrictEqual(result.shape, [
      "user u1",
      "assistant tool-call c1 tool-call c2 tool-call c3",
      "tool c1 interrupted",
      "tool c2 ok",
      "tool c3 interrupted",
      "assistant tool-call c4 tool-call c5",
      "tool c4 ok"
    ])
    assert.deepStrictEqual(result.details, [
      { _tag: "CallSealed", index: 3, id: "a2", callId: "c1", name: "f" },
      { _tag: "CallSealed", index: 3, id: "a2", callId: "c3", name: "f" }
    ])
  })

  test("empty user messages are dropped and end no turn", function* () {
    const result = yield* repaired(assistant("a1", call("c1")), user("u1", ""), tool("t1", "c1"))
    assert.deepStrictEqual(result.shape, ["assistant tool-call c1", "tool c1 ok"])
    assert.deepStrictEqual(result.repairs, ["MessageDropped 1 EmptyContent"])
  })

  test("MEND-11 later system messages stay, behind the results that followed them", function* () {
    const result = yield* repaired(system("s1"), user("u1"), system("s2"), assistant("a1"))
    assert.deepStrictEqual(result.shape, ["system s1", "user u1", "system s2", "assistant"])
    assert.deepStrictEqual(result.repairs, [])
    const between = yield* repaired(assistant("a1", call("c1")), system("s"), tool("t1", "c1"), user("u"))
    assert.deepStrictEqual(between.shape, ["assistant tool-call c1", "tool c1 ok", "system s", "user u"])
    assert.deepStrictEqual(between.details, [{ _tag: "SystemMoved", index: 1, id: "s" }])
    const open = yield* repaired(assistant("a1", call("c1")), system("s"))
    assert.deepStrictEqual(open.shape, ["assistant tool-call c1", "tool c1 interrupted", "system s"])
    assert.deepStrictEqual(open.repairs, ["SystemMoved 1", "CallSealed 1"])
  })

  test("later system messages become user messages where they are refused, behind the results that followed them", function* () {
    const result = yield* demoted(system("s1"), user("u1"), system("s2"), assistant("a1"))
    assert.deepStrictEqual(result.shape, ["system s1", "user u1", "user s2", "assistant"])
    assert.deepStrictEqual(result.details, [{ _tag: "SystemDemoted", index: 2, id: "s2" }])

    const between = yield* demoted(
      assistant("a1", call("c1"), call("c2")),
      system("s"),
      tool("t1", "c1"),
      tool("t2", "c2")
    )
    assert.deepStrictEqual(between.shape, ["assistant tool-call c1 tool-call c2", "tool c1 ok", "tool c2 ok", "user s"])
    const open = yield* demoted(assistant("a1", call("c1")), system("s"))
    assert.deepStrictEqual(open.shape, ["assistant tool-call c1", "tool c1 interrupted", "user s"])
    assert.deepStrictEqual(open.repairs, ["SystemDemoted 1", "CallSealed 1"])
    const before = yield* demoted(assistant("a1", call("c1")), system("s"), user("u"), tool("t", "c1"))
    assert.deepStrictEqual(before.shape, ["assistant tool-call c1", "tool c1 ok", "user s", "user u"])
    const empty = yield* demoted(user("u"), system("s", ""))
    assert.deepStrictEqual(empty.shape, ["user u"])
    assert.deepStrictEqual(empty.repairs, ["SystemDemoted 1", "MessageDropped 1 EmptyContent"])
  })

  test("a system message does not become the first by what is dropped before it", function* () {
    for (const first of [tool("t1", "c1"), user("u0", "")]) {
      const result = yield* demoted(first, system("s"), user("u1"))
      assert.deepStrictEqual(result.shape, ["user s", "user u1"])
      assert.deepStrictEqual(pluck(result.details, "_tag"), ["MessageDropped", "SystemDemoted"])
    }
  })

  test("no result is for a call that had another id", function* () {
    const result = yield* repaired(user("u1"), assistant("a1", call("c1"), call("c1")), tool("t1", "c1_1"))
    assert.deepStrictEqual(result.shape, ["user u1", "assistant tool-call c1 tool-call c1_1"])
    assert.deepStrictEqual(result.repairs[1], "MessageDropped 2 OrphanResult")

    const part = yield* repaired(user("u1"), assistant("a1", own("w1"), own("w1"), ownResult("w1_1")))
    assert.deepStrictEqual(part.shape, ["user u1", "assistant tool-call w1 tool-call w1_1"])
    assert.deepStrictEqual(part.repairs[1], "PartDropped 1 OrphanResult")
  })

  test("calls without an id, or with that of another, get one, and their results follow them", function* () {
    const result = yield* repaired(
      user("u1"),
      assistant("a1", call(""), call("c1"), call("c1"), call("c1_1")),
      tool("t1", ""),
      tool("t2", "c1"),
      tool("t3", "c1"),
      tool("t4", "c1"),
      tool("t5", "c1_1")
    )
    assert.deepStrictEqual(result.shape, [
      "user u1",
      "assistant tool-call call_1 tool-call c1 tool-call c1_1_2 tool-call c1_1",
      "tool call_1 ok",
      "tool c1 ok",
      "tool c1_1_2 ok",
      "tool c1_1 ok"
    ])
    assert.deepStrictEqual(result.repairs, ["CallRelabelled 1", "CallRelabelled 1", "MessageDropped 5 DuplicateResult"])
    assert.deepStrictEqual(result.details[1], { _tag: "CallRelabelled", index: 1, id: "a1", from: "c1", to: "c1_1_2" })
  })

  test("TRUST-1 the text of other arguments is dropped, and the arguments stay", function* () {
    const part = { ...call("c1", { arguments: { to: "alice" } }), text: `{"to":"mallory"}` }
    const { conversation, repairs } = yield* Conversation.repair([user("u1"), assistant("a1", part, part)])
    assert.deepStrictEqual(pluck(repairs, "_tag"), ["CallTextDropped", "CallTextDropped", "CallRelabelled"])
    for (const open of Conversation.openCalls(conversation)) {
      assert.deepStrictEqual(open.arguments, { to: "alice" })
      assert.notProperty(open, "text")
    }
  })

  test("results take the name of the tool that was called", function* () {
    const result = yield* repaired(assistant("a1", call("c1")), tool("t1", "c1", "write"))
    assert.deepStrictEqual(result.shape, ["assistant tool-call c1", "tool c1 ok"])
    assert.deepStrictEqual(result.details, [
      { _tag: "ResultRenamed", index: 1, id: "t1", callId: "c1", from: "write", to: "f" }
    ])
  })

  test("results of the provider's tools are repaired inside of their message", function* () {
    const result = yield* repaired(
      user("u1"),
      assistant("a1", ownResult("w0"), own("w1"), ownResult("w1", "other"), ownResult("w1"), own("w2")),
      assistant("a2", ownResult("w2"), ownResult("w1"))
    )
    assert.deepStrictEqual(result.shape, [
      "user u1",
      "assistant tool-call w1 tool-result w1 tool-call w2",
      "assistant tool-result w2"
    ])
    assert.deepStrictEqual(result.repairs, [
      "PartDropped 1 OrphanResult",
      "ResultRenamed 1",
      "PartDropped 1 DuplicateResult",
      "PartDropped 2 DuplicateResult"
    ])
    const twice = yield* repaired(user("u1"), assistant("a1", own("w"), own("w"), ownResult("w"), ownResult("w")))
    const paired = "assistant tool-call w tool-call w_1 tool-result w tool-result w_1"
    assert.deepStrictEqual(twice.shape, ["user u1", paired])
  })

  test.prop("a lawful history is taken as it is", [Arbitraries.conversation()], function* ([self]) {
    const messages = Conversation.messages(self)
    const { conversation, repairs } = yield* Conversation.repair(messages)
    assert.deepStrictEqual(repairs, [])
    assert.isTrue(messages.every((message, index) => message === Conversation.messages(conversation)[index]))
  })

  const Picks = Schema.Array(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 1000 })))

  test.prop(
    "whatever comes in, what comes out is lawful and keeps what can be kept",
    [Arbitraries.messages({ maxTurns: 4 }), Arbitraries.messages({ maxTurns: 2 }), Picks],
    function* ([a, b, picks]) {
      // Messages of two conversations in any order, some twice: ids collide, pairs are torn
      const all = [...a, ...b]
      const messages = [...picks.flatMap((pick) => all[pick % all.length] ?? []), ...all.slice(3)]
      const { conversation, repairs } = yield* Conversation.repair(messages)
      const after = Conversation.messages(conversation)
      assert.strictEqual((yield* Effect.result(Effect.fromResult(Conversation.fromMessages(after))))._tag, "Success")
      // Nothing appears or vanishes without a report, and no result of a call is lost to a failure in its place
      const count = (tag: ConversationError.Repair["_tag"]) => repairs.filter(({ _tag }) => _tag === tag).length
      assert.strictEqual(after.length, messages.length - count("MessageDropped") + count("CallSealed"))
      const again = yield* Conversation.repair(after)
      assert.deepStrictEqual(again.repairs, [])
      const codec = Schema.toCodecJson(Schema.Array(ConversationError.Repair))
      const stored = yield* Schema.decodeUnknownEffect(codec)(yield* Schema.encodeEffect(codec)(repairs))
      assert.deepStrictEqual(pluck(stored, "_tag"), pluck(repairs, "_tag"))
    }
  )
})

describe("CONV-8 reading with repair", () => {
  const json = {
    version: 1,
    tokenLimit: 100,
    messages: [
      { role: "user", id: "u1", createdAt: "2026-01-01T00:00:00.000Z", content: [{ type: "text", text: "Hi" }] },
      {
        role: "tool",
        id: "t1",
        createdAt: "2026-01-01T00:00:00.000Z",
        callId: "c1",
        name: "read",
        result: { _tag: "Failure", type: "not_found", message: "No" }
      }
    ]
  }

  test("the codec refuses with a path, and the repairing codec repairs", function* () {
    const text = JSON.stringify(json)
    for (const refused of [Conversation.codec.decode(json), Conversation.codec.decodeJson(text)]) {
      const error = yield* Effect.flip(refused)
      assert(error.reason._tag === "Invalid")
      assert.strictEqual(error.reason.issues[0]?.path, "/messages/1")
      // Names of calls come from the data, which no message quotes
      assert.notInclude(JSON.stringify(error.reason), "c1")
    }
    const { decode, decodeJson } = Conversation.repairingCodec
    for (const reading of [decode(json), decodeJson(text)]) {
      const { conversation, repairs } = yield* reading
      assert.deepStrictEqual(shape(conversation), ["user u1"])
      assert.strictEqual(repairs[0]?._tag, "MessageDropped")
      assert.strictEqual(Conversation.tokenLimit(conversation)._tag, "Some")
    }
  })

  test("what is no conversation is refused either way, under the same limits", function* () {
    const { decode } = Conversation.repairingCodec
    const unknown = { ...json, messages: [{ ...json.messages[0], role: "bot" }] }
    assert.strictEqual((yield* Effect.flip(decode(unknown))).reason._tag, "Invalid")
    const newer = yield* Effect.flip(decode({ ...json, version: 9 }))
    assert.strictEqual(newer.reason._tag, "UnsupportedVersion")
    const large = yield* Effect.flip(decode(json, { limits: { maxMessages: 1 } }))
    assert.strictEqual(large.reason._tag, "TooLarge")
  })

  test("prompts are repaired when asked", function* () {
    const prompt = Prompt.make([
      { role: "user", content: "Hi" },
      { role: "user", content: [] },
      { role: "assistant", content: [{ ...call("c1"), params: {}, providerExecuted: false }] },
      { role: "system", content: "Late" },
      { role: "assistant", content: "Well" }
    ])
    assert.strictEqual((yield* Effect.flip(Conversation.fromPrompt(prompt))).reason._tag, "EmptyContent")
    const { conversation, repairs } = yield* Conversation.fromPrompt(prompt, {
      onUnlawful: "repair",
      laterSystem: "refuse",
      tokenLimit: 5
    })
    const roles = pluck(Conversation.messages(conversation), "role")?.join(" ")
    assert.strictEqual(roles, "user assistant tool user assistant")
    const reported = repairs.map(({ _tag, index }) => `${_tag} ${index}`)
    assert.deepStrictEqual(reported, ["MessageDropped 1", "SystemDemoted 3", "CallSealed 4"])
  })

  test("arguments that are no JSON are no matter of laws", function* () {
    const part = Prompt.toolCallPart({ id: "c", name: "n", params: new Map(), providerExecuted: false })
    const prompt = Prompt.fromMessages([Prompt.assistantMessage({ content: [part] })])
    const error = yield* Effect.flip(Conversation.fromPrompt(prompt, { onUnlawful: "repair" }))
    assert.strictEqual(error.reason._tag, "NotJson")
  })

  test.prop("what is lawful is read the same way with repair", [Arbitraries.conversation()], function* ([self]) {
    const { conversation, repairs } = yield* Conversation.repairingCodec.decode(yield* Conversation.codec.encode(self))
    assert(Equal.equals(conversation, self))
    assert.deepStrictEqual(repairs, [])
  })
})
