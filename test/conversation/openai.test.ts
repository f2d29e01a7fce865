import { assert, describe } from "@effect/vitest"
import { Effect, Option, Result, type Schema } from "effect"
import { Conversation, Message, ToolResult } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages, OpenAiResponses } from "effect-emissary/interop"

import * as common from "./foreign-laws.ts"
import { openaiForeign } from "./openai-foreign.ts"
import { openaiRules } from "./openai-rules.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"

const { again, reasonOf, render } = common.inUse(OpenAiMessages)

const options = {
  lenient: { toolFiles: "describe" },
  strict: { reasoning: "refuse", invalidArguments: "refuse" }
} as const

const format: common.Format<unknown> = {
  name: "openai",
  codec: OpenAiMessages.OpenAiMessages,
  foreign: openaiForeign,
  rules: openaiRules,
  read: OpenAiMessages.toConversation,
  write: (self, lenience) => OpenAiMessages.fromConversation(self, lenience && options[lenience])
}

common.laws(format)

describe("CONV-4 foreign OpenAI histories", () => {
  test("arguments keep their text, results are in call order, and the token limit is that of the options", function* () {
    const foreign = [
      { role: "developer", content: [{ type: "text", text: "Sys", cache_control: { type: "ephemeral" } }] },
      { role: "user", content: "go" },
      {
        role: "assistant",
        content: "",
        tool_calls: [
          { id: "a", type: "function", index: 0, function: { arguments: `{ "x":1.0}`, name: "f" } },
          { id: "b", type: "function", function: { name: "g", arguments: "" } }
        ]
      },
      { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "1" }] },
      { role: "tool", name: "f", tool_call_id: "a", content: "" }
    ]
    const self = yield* OpenAiMessages.toConversation(foreign, { tokenLimit: 100 })
    common.same(yield* render(self), foreign)
    assert.deepStrictEqual(Conversation.tokenLimit(self), Option.some(100))
    const calls = Conversation.messages(self).flatMap((m) => (m.role === "assistant" ? Message.toolCalls(m) : []))
    assert.deepStrictEqual(
      calls.map(({ arguments: args, text }) => ({ args, text })),
      [
        { args: { x: 1 }, text: `{ "x":1.0}` },
        { args: {}, text: "" }
      ]
    )
    const results = Conversation.messages(self).flatMap((m) => (m.role === "tool" ? [m.callId] : []))
    assert.deepStrictEqual(results, ["a", "b"])
  })

  test("flat calls, object arguments, missing arguments, empty lists of calls: written as OpenAI wants them", function* () {
    const written = yield* again([
      { role: "user", content: "go" },
      {
        role: "assistant",
        function_call: null,
        tool_calls: [
          { id: "a", name: "f", arguments: { q: "é/" } },
          { id: "b", name: "f", arguments: `{"q": 1}` },
          { id: "c", function: { name: "f" } },
          { id: "d", type: "function", function: { name: "f", arguments: {} }, index: 3 }
        ]
      },
      ...["a", "b", "c", "d"].map((id) => ({ role: "tool", tool_call_id: id, content: "ok" })),
      { role: "assistant", content: "Done", tool_calls: [] },
      {
        role: "assistant",
        content: [
          { type: "text", text: "" },
          { type: "text", text: "x" }
        ],
        tool_calls: null
      }
    ])
    const native = (id: string, args: string) => ({ id, type: "function", function: { name: "f", arguments: args } })
    assert.deepStrictEqual(written[1], {
      role: "assistant",
      tool_calls: [native("a", `{"q":"é/"}`), native("b", `{"q": 1}`), native("c", "{}"), native("d", "{}")]
    })
    assert.deepStrictEqual(written.slice(-2), [
      { role: "assistant", content: "Done" },
      { role: "assistant", content: [{ type: "text", text: "x" }] }
    ])
    assert.deepStrictEqual(openaiRules(written), [])
  })

  test("SOUND-9 a recording of the model is a file of its id, with what came with it", function* () {
    const audio = { id: "audio_1", expires_at: 1_760_000_000, data: "AQID", transcript: "Hello" }
    const foreign = [
      { role: "user", content: "Say hello" },
      { role: "assistant", content: null, refusal: null, audio },
      { role: "user", content: "Again" },
      { role: "assistant", audio: { id: "audio_2" } }
    ]
    const self = yield* OpenAiMessages.toConversation(foreign)
    common.same(yield* render(self), foreign)
    const files = Conversation.messages(self).flatMap((message) =>
      message.role === "assistant" ? [...message.content] : []
    )
    const { id: url, ...rest } = audio
    assert.deepStrictEqual(files, [
      { type: "file", mediaType: "audio/*", data: { type: "url", url }, options: { openai: { audio: rest } } },
      { type: "file", mediaType: "audio/*", data: { type: "url", url: "audio_2" }, options: { openai: { audio: {} } } }
    ])
    const refused = AnthropicMessages.fromConversation(self)
    assert(Result.isFailure(refused) && refused.failure.reason._tag === "UnsupportedContent")
  })

  test("SOUND-9 what is not known is refused by its name", function* () {
    for (const [message, named] of [
      [{ role: "functions", name: "f", content: "x" }, `The role is "functions"`],
      [{ role: "assistant", tool_calls: [{ id: "a", type: "magic" }] }, `got "magic"`]
    ] as const) {
      assert.include((yield* Effect.flip(OpenAiMessages.toConversation([message]))).message, named)
    }
  })

  test("MEND-11 custom calls, and the older function_call with its results", function* () {
    const custom = { id: "c1", type: "custom", custom: { name: "sql", input: "select 1" } }
    const foreign = [
      user,
      { role: "assistant", content: null, tool_calls: [custom] },
      { role: "tool", tool_call_id: "c1", content: "1" },
      { role: "assistant", content: null, function_call: { name: "f", arguments: `{ "q": 1 }` } },
      { role: "function", name: "f", content: "x" },
      { role: "assistant", content: "So.", function_call: { name: "f", arguments: "{}" } },
      { role: "function", name: "f", content: null }
    ]
    const self = yield* OpenAiMessages.toConversation(foreign)
    common.same(yield* render(self), foreign)
    const calls = Conversation.messages(self).flatMap((m) => (m.role === "assistant" ? Message.toolCalls(m) : []))
    assert.deepStrictEqual(
      calls.map(({ arguments: args, id }) => [id, args]),
      [
        ["c1", { input: "select 1" }],
        ["function_call_3", { q: 1 }],
        ["function_call_5", {}]
      ]
    )
    const items = yield* Effect.fromResult(OpenAiResponses.fromConversation(self))
    assert.deepStrictEqual<unknown>(items[1], {
      type: "custom_tool_call",
      call_id: "c1",
      name: "sql",
      input: "select 1"
    })
    const open = yield* OpenAiMessages.toConversation(foreign.slice(0, -1))
    const answered = yield* Conversation.addToolResult(open, {
      callId: "function_call_5",
      result: ToolResult.success("y")
    })
    assert.deepStrictEqual((yield* render(answered)).at(-1), { role: "function", name: "f", content: "y" })
  })

  test("TRUST-3 an error lists the first problems of a message, and counts the others", function* () {
    const calls = Array.from({ length: 100 }, () => ({ type: "unknown" }))
    const messages = [{ role: "assistant", tool_calls: calls }]
    const error = yield* Effect.flip(OpenAiMessages.toConversation(messages, { limits: { maxIssues: 3 } }))
    assert(error._tag === "PayloadError" && error.reason._tag === "Invalid")
    assert.deepStrictEqual([error.reason.issues.length, error.reason.omitted], [3, 97])
  })

  common.refusesUnlawful(format, [
    ["UnknownRole", 1, [user, { role: "bot", content: "x" }]],
    ["OpenCalls", 2, [user, asks, { role: "system", content: "x" }, result]],
    ["OrphanResult", 1, [user, result]],
    ["DuplicateResult", 3, [user, asks, result, result]],
    ["OpenCalls", 2, [user, asks, user]],
    ["RepeatedCallId", 1, [user, { role: "assistant", tool_calls: [...asks.tool_calls, ...asks.tool_calls] }]],
    ["NameMismatch", 2, [user, asks, { ...result, name: "g" }]],
    ["MissingCallId", 1, [user, { role: "function", name: "f", content: "x" }]],
    ["EmptyContent", 0, [{ role: "user", content: "" }]],
    ["EmptyContent", 0, [{ role: "user", content: [] }]],
    ["MissingCallId", 2, [user, asks, { ...result, tool_call_id: "" }]]
  ])

  common.refusesForms(
    format,
    [
      [{ messages: [] }, ""],
      [[user, { role: "tool", content: "x" }], "/1/tool_call_id"],
      [[{ role: "user", content: [{ type: "text" }] }], "/0/content/0/text"],
      [[user, { ...asks, function_call: { name: "f" } }], "/1/function_call/arguments"],
      [[user, { ...asks, tool_calls: [7] }], "/1/tool_calls/0"],
      [[user, { role: "assistant", tool_calls: [{ id: "a", type: "magic" }] }], "/1/tool_calls/0/type"],
      [[user, { role: "assistant", content: [{ type: "refusal" }] }], "/1/content/0/refusal"],
      [[user, { role: "assistant", content: null, video: { id: "v" } }], "/1/video"]
    ],
    [user, user]
  )

  test("a history that ends in open calls is read, and written once they are answered", function* () {
    const open = yield* OpenAiMessages.toConversation([user, asks])
    assert.deepStrictEqual(pluck(Conversation.openCalls(open), "id"), ["a"])
    assert.strictEqual((yield* reasonOf(open))._tag, "UnansweredCalls")
    yield* render(yield* Conversation.seal(open))
  })
})

const user = { role: "user", content: "x" }
const asks = { role: "assistant", tool_calls: [{ id: "a", name: "f", arguments: {} }] }
const result = { role: "tool", tool_call_id: "a", content: "r" }

describe("CONV-4 what OpenAI refuses is never written", () => {
  const file = (mediaType: string, data: string | URL) =>
    Conversation.addUser(common.base, [ToolResult.filePart({ mediaType, data })])

  common.refusesUnsendable(format, [
    ["UnsupportedContent", 2, common.answered(common.call(), ToolResult.success(null, [common.image]))],
    ["UnsupportedContent", 1, file("video/mp4", "AQID")],
    ["UnsupportedContent", 1, file("application/pdf", new URL("https://example.com/a.pdf"))]
  ])

  test("options choose what becomes of reasoning, arguments, files in results and names", function* () {
    const thoughts = [Message.reasoningPart("hm"), ToolResult.textPart("Yes")]
    const thought = yield* Conversation.addAssistant(common.base, thoughts)
    assert.deepStrictEqual((yield* render(thought))[1], { role: "assistant", content: "Yes" })
    assert.strictEqual((yield* reasonOf(thought, { reasoning: "refuse" }))._tag, "UnsupportedReasoning")

    const called = common.call({ arguments: "{bad", text: "{bad" })
    const self = yield* common.answered(called, ToolResult.success(null, [common.image]))
    const lenient = { ...options.lenient, toolName: (name: string) => `x_${name}` }
    const written = { name: "x_search", arguments: `{"invalid_arguments":"{bad"}` }
    assert.deepStrictEqual((yield* render(self, lenient)).slice(1), [
      { role: "assistant", content: null, tool_calls: [{ id: "a", type: "function", function: written }] },
      { role: "tool", content: "[image/png a.png omitted]", tool_call_id: "a" }
    ])
  })

  test("the note of a message is not used if it breaks a rule", function* () {
    const forged = Effect.fnUntraced(function* (patch: Schema.Json) {
      const metadata = { "effect-emissary/openai": { patch } }
      const asked = yield* Conversation.addAssistant(common.base, [common.call()], { metadata })
      const result = ToolResult.success("x")
      return (yield* render(yield* Conversation.addToolResult(asked, { callId: "a", result })))[1]
    })
    const plain = yield* forged(null)
    const replace = (path: string, value: Schema.Json) => [{ op: "replace", path, value }]
    for (const patch of [
      replace("", { role: "user", content: "hi" }),
      replace("", "nonsense"),
      replace("/content", "put into its mouth"),
      [{ op: "remove", path: "/tool_calls" }],
      replace("/tool_calls", []),
      replace("/tool_calls/0/function/arguments", { q: 1 }),
      replace("/tool_calls/0/id", "b"),
      replace("/content", [{ type: "text", text: "" }]),
      [{ op: "remove", path: "/nothing" }],
      replace("/nothing/0", 1),
      [{ op: "test", path: "/role", value: "assistant" }]
    ]) {
      assert.deepStrictEqual(yield* forged(patch), plain, JSON.stringify(patch))
    }
    assert.deepStrictEqual(yield* forged([{ op: "add", path: "/x", value: 1 }]), { ...plain, x: 1 })
  })

  common.embeds(
    format,
    [{ name: "ada", role: "user", content: "Hi" }],
    [[{ role: "tool" }], "/0/tool_call_id"],
    [
      { role: "user", content: "Weather?" },
      {
        role: "assistant",
        content: null,
        tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: "{}" } }]
      },
      { role: "user", content: "Never mind." },
      { role: "tool", tool_call_id: "c9", content: "sunny" }
    ],
    [user, asks, user, { ...result, content: "THE REAL RESULT" }]
  )
})
