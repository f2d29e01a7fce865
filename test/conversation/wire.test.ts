import { readFileSync } from "node:fs"
import { assert, describe } from "@effect/vitest"
import { Effect, Equal, Redacted, Schema } from "effect"
import { Conversation, Message, ToolResult, type PayloadError } from "effect-emissary"
import { Arbitraries } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { call, chat, type Step } from "./given.ts"

const user = (id: string, text = "Hello") => ({
  role: "user",
  id,
  createdAt: "2026-11-21T00:00:00.000Z",
  content: [{ type: "text", text }]
})

const system = { role: "system", id: "s", createdAt: "2026-11-21T00:00:00.000Z", content: "Late" }

const result = {
  role: "tool",
  id: "t",
  createdAt: "2026-11-21T00:00:00.000Z",
  callId: "call_1",
  name: "search",
  result: { _tag: "Success", value: 1, content: [{ type: "text", text: "1" }] }
}

const refused = (input: unknown, limits?: Parameters<typeof Conversation.codec.decode>[1]) =>
  Effect.map(Effect.flip(Conversation.codec.decode(input, limits)), (error) => error.reason)

const issuesOf = (reason: PayloadError.Reason) => {
  assert(reason._tag === "Invalid")
  return reason.issues.map(({ path }) => path)
}

describe("CONV-8 wire", () => {
  test.prop(
    "L3 decode is the inverse of encode, by value and by text",
    [Arbitraries.conversation()],
    function* ([self]) {
      const text = yield* Conversation.codec.encodeJson(self)
      const decoded = yield* Conversation.codec.decodeJson(text)
      assert(Equal.equals(decoded, self))
      assert.strictEqual(yield* Conversation.codec.encodeJson(decoded), text)
    }
  )

  test("version 1 looks like this, for ever", function* () {
    const wire = { version: 1, tokenLimit: 8000, messages: [user("m1")] }
    const self = yield* Conversation.codec.decode(wire)
    assert.deepStrictEqual(yield* Conversation.codec.encode(self), wire)
  })

  test("golden files of version 1 decode and encode unchanged, for ever", function* () {
    const file = new URL("../golden/wire/conversation-v1.wire.json", import.meta.url)
    const wire: Schema.Json = JSON.parse(readFileSync(file, "utf8"))
    const self = yield* Conversation.codec.decode(wire)
    assert.deepStrictEqual<unknown>(yield* Conversation.codec.encode(self), wire)
    const roles = pluck(Conversation.messages(self), "role")?.join(" ")
    assert.strictEqual(roles, "system user assistant assistant tool tool user")
  })

  test("a newer or missing version reports the supported ones", function* () {
    for (const version of [2, "1", undefined]) {
      const reason = yield* refused({ version, messages: [] })
      assert(reason._tag === "UnsupportedVersion" || reason._tag === "Invalid", reason._tag)
    }
    const reason = yield* refused({ version: 2, messages: [] })
    assert(reason._tag === "UnsupportedVersion")
    assert.deepStrictEqual(reason.supported, [1])
  })

  test("TRUST-1 a call whose text does not parse to its arguments is refused, with its path, also by the repair", function* () {
    const { arguments: args, text } = Message.toolCallPart({ id: "c1", name: "pay", text: `{ "to": "alice" }` })
    const wire = (part: object) => ({
      version: 1,
      messages: [{ ...user("a"), role: "assistant", content: [{ type: "tool-call", id: "c1", name: "pay", ...part }] }]
    })
    const fitting: ReadonlyArray<object> = [
      { arguments: args, text },
      { arguments: args },
      { arguments: {}, text: "" },
      { arguments: "{bad", text: "{bad" },
      { arguments: { n: 0 }, text: `{"n":-0}` }
    ]
    const lying: ReadonlyArray<object> = [
      { arguments: { to: "bob" }, text },
      { arguments: {}, text },
      { arguments: args, text: "{bad" },
      { arguments: args, text: "" },
      { arguments: "words", text }
    ]
    const decoders = [
      (part: object) => Effect.asVoid(Conversation.codec.decode(wire(part))),
      (part: object) => Effect.asVoid(Conversation.repairingCodec.decode(wire(part)))
    ]
    for (const decode of decoders) {
      for (const part of fitting) yield* decode(part)
      for (const part of lying) {
        const { message, reason } = yield* Effect.flip(decode(part))
        assert.deepStrictEqual(issuesOf(reason), ["/messages/0/content/0/text"])
        assert.include(message, "expected the JSON text of the arguments of the call")
        assert.notInclude(message, "alice")
      }
    }
  })

  test("a history that breaks a law is refused with the path of the message", function* () {
    const refusedAt = (messages: ReadonlyArray<unknown>) => Effect.map(refused({ version: 1, messages }), issuesOf)
    yield* Conversation.codec.decode({ version: 1, messages: [user("1"), system] })
    assert.deepStrictEqual(yield* refusedAt([user("1"), result]), ["/messages/1"])
    assert.deepStrictEqual(yield* refusedAt([user("1"), user("2", "")]), ["/messages/1/content"])
    assert.isNotEmpty(yield* refusedAt([{ ...user("1"), role: "bot" }]))
  })

  test("is strict: undeclared keys, hostile keys, bad dates", function* () {
    const excess = issuesOf(yield* refused({ version: 1, messages: [{ ...user("1"), extra: 1 }] }))
    assert.deepStrictEqual(excess, ["/messages/0/extra"])
    const hostile = JSON.parse(`{"version":1,"messages":[],"__proto__":{}}`)
    assert.strictEqual((yield* refused(hostile))._tag, "ForbiddenKey")
    const date = issuesOf(yield* refused({ version: 1, messages: [{ ...user("1"), createdAt: "yesterday" }] }))
    assert.deepStrictEqual(date, ["/messages/0/createdAt"])
  })

  test("PAY-A messages are counted, by default and by call, on both ways", function* () {
    const messages = [user("1"), user("2"), user("3")]
    const reason = yield* refused({ version: 1, messages }, { limits: { maxMessages: 2 } })
    assert(reason._tag === "TooLarge")
    assert.deepStrictEqual([reason.what, reason.limit, reason.found], ["messages", 2, 3])
    const self = yield* Conversation.codec.decode({ version: 1, messages })
    const error = yield* Effect.flip(Conversation.codec.encode(self, { limits: { maxMessages: 2 } }))
    assert(error._tag === "PayloadError" && error.reason._tag === "TooLarge")
  })

  test("L8 secrets do not encode, the words of tools do", function* () {
    const encode = (...steps: ReadonlyArray<Step>) => Effect.flatMap(chat(...steps), Conversation.codec.encode)
    yield* encode(
      Conversation.addAssistant([call("a", { arguments: { password: "hunter2" } })]),
      Conversation.addToolResult({ callId: "a", result: ToolResult.success({ access_token: "t" }) })
    )
    const error = yield* Effect.flip(encode(Conversation.addUser("x", { metadata: { api_key: "sk-1" } })))
    assert(error._tag === "PayloadError" && error.reason._tag === "Secret")
    assert.strictEqual(error.reason.path, "/messages/0/metadata/api_key")
    assert.notInclude(error.message, "sk-1")
    // A value that a caller without types could pass
    const redacted = { hidden: Redacted.make("sk-2") } as unknown as { readonly hidden: string }
    const other = yield* Effect.flip(encode(Conversation.addUser("x", { metadata: redacted })))
    assert.notInclude(String(other.message), "sk-2")
  })

  test("embeds in other schemas", function* () {
    const Session = Schema.Struct({ user: Schema.String, chat: Conversation.Conversation })
    const self = yield* chat(Conversation.addUser("Hello"))
    const json = yield* Schema.encodeEffect(Session)({ user: "u", chat: self })
    const session = yield* Schema.decodeUnknownEffect(Session)(JSON.parse(JSON.stringify(json)))
    assert(Equal.equals(session.chat, self))
    const unlawful = { user: "u", chat: { version: 1, messages: [result] } }
    const bad = yield* Effect.flip(Schema.decodeEffect(Session)(unlawful))
    assert.include(bad.message, "messages")
  })
})
