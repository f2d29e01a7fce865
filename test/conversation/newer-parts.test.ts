import { assert, describe } from "@effect/vitest"
import { Effect, type Schema } from "effect"
import { Conversation } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages } from "effect-emissary/interop"
import { test } from "../test.ts"
import * as common from "./foreign-laws.ts"

const anthropic = common.inUse(AnthropicMessages)
const openai = common.inUse(OpenAiMessages)

const asks = { role: "user", content: "Compare" }
const call = (id: string) => ({ type: "function", id, function: { name: "f", arguments: "{}" } })
const result = (id: string) => ({ role: "tool", tool_call_id: id, content: "r" })
const use = (id: string) => ({ type: "tool_use", id, name: "f", input: {} })
const used = (id: string) => ({ type: "tool_result", tool_use_id: id, content: "r" })

const rolesOf = (self: Conversation.Conversation) => Conversation.messages(self).map(({ role }) => role)

const stored = (self: Conversation.Conversation) =>
  Effect.flatMap(Conversation.codec.encodeJson(self), (json) => Conversation.codec.decodeJson(json))

describe("RIGHT-23 answers in a row whose calls are answered together", () => {
  test("RIGHT-23 Anthropic: they are one answer, as the provider joins them", function* () {
    const self = yield* AnthropicMessages.toConversation({
      messages: [
        asks,
        { role: "assistant", content: [{ type: "text", text: "Both.", citations: [] }, use("a")], x: 1 },
        { role: "assistant", content: "And" },
        { role: "assistant", content: [use("b")], y: 2 },
        { role: "user", content: [used("b"), used("a"), { type: "text", text: "Go on" }] }
      ]
    })
    assert.deepStrictEqual(rolesOf(self), ["user", "assistant", "tool", "tool", "user"])
    assert.deepStrictEqual(Conversation.openCalls(self), [])
    for (const one of [self, yield* stored(self)]) {
      common.same(yield* anthropic.render(one), {
        messages: [
          asks,
          {
            role: "assistant",
            content: [
              { type: "text", text: "Both.", citations: [] },
              use("a"),
              { type: "text", text: "And" },
              use("b")
            ],
            x: 1,
            y: 2
          },
          { role: "user", content: [used("b"), used("a"), { type: "text", text: "Go on" }] }
        ]
      })
    }
  })

  test("RIGHT-23 Anthropic: their results may be messages of their own", function* () {
    const self = yield* AnthropicMessages.toConversation({
      messages: [
        asks,
        { role: "assistant", content: [use("a")] },
        { role: "assistant", content: [use("b")] },
        { role: "user", content: [used("a")] },
        { role: "user", content: [used("b")] }
      ]
    })
    assert.deepStrictEqual(rolesOf(self), ["user", "assistant", "tool", "tool"])
  })

  test("RIGHT-23 OpenAI: they are one answer", function* () {
    const self = yield* OpenAiMessages.toConversation([
      asks,
      { role: "assistant", content: "Both.", reasoning_content: "one", tool_calls: [call("a")], x: 1 },
      { role: "assistant", content: null, reasoning_content: "two", tool_calls: [call("b")] },
      result("a"),
      result("b"),
      asks
    ])
    assert.deepStrictEqual(rolesOf(self), ["user", "assistant", "tool", "tool", "user"])
    const joined = {
      role: "assistant",
      content: "Both.",
      reasoning_content: "one\n\ntwo",
      x: 1,
      tool_calls: [call("a"), call("b")]
    }
    common.same(yield* openai.render(yield* stored(self)), [asks, joined, result("a"), result("b"), asks])
  })

  test("RIGHT-23 OpenAI: texts of both stay parts, and calls that wait at the end stay open", function* () {
    const self = yield* OpenAiMessages.toConversation([
      asks,
      { role: "assistant", content: "One", tool_calls: [call("a")] },
      { role: "assistant", content: [{ type: "text", text: "Two" }], tool_calls: [call("b")] }
    ])
    assert.deepStrictEqual(rolesOf(self), ["user", "assistant"])
    assert.deepStrictEqual(
      Conversation.openCalls(self).map(({ id }) => id),
      ["a", "b"]
    )
    const [, answer] = yield* openai.render(yield* Conversation.seal(self))
    assert.deepStrictEqual(answer?.["content"], [
      { type: "text", text: "One" },
      { type: "text", text: "Two" }
    ])
  })

  test("RIGHT-23 L7 answers without calls stay apart, and a call without its result is refused at its own place", function* () {
    const plain = yield* OpenAiMessages.toConversation([
      asks,
      { role: "assistant", content: "a" },
      { role: "assistant", content: "b" }
    ])
    assert.deepStrictEqual(rolesOf(plain), ["user", "assistant", "assistant"])
    const error = yield* Effect.flip(
      OpenAiMessages.toConversation([
        asks,
        { role: "assistant", tool_calls: [call("a")] },
        { role: "assistant", tool_calls: [call("b")] },
        result("b"),
        asks
      ])
    )
    assert.match(error.message, /at \/4\b|at \/messages\/4\b/)
  })
})

describe("RIGHT-23 parts of Mistral and OpenRouter in messages of OpenAI's form", () => {
  const messages: ReadonlyArray<Schema.Json> = [
    {
      role: "user",
      content: [
        { type: "text", text: "Read" },
        { type: "document_url", document_url: "https://example.com/a.pdf", document_name: "a.pdf" },
        { type: "document_url", document_url: { url: "https://example.com/b.pdf" } },
        { type: "video_url", video_url: { url: "https://example.com/c.mp4" } },
        { type: "image_url", image_url: "https://example.com/d.png" }
      ]
    },
    {
      role: "assistant",
      content: [
        {
          type: "thinking",
          thinking: [
            { type: "text", text: "Let me " },
            { type: "text", text: "see." }
          ],
          closed: true
        },
        { type: "text", text: "It says" },
        { type: "reference", reference_ids: [1] },
        { type: "text", text: "hello" }
      ]
    }
  ]

  test("RIGHT-23 L3 they are read, and written as they were", function* () {
    const self = yield* OpenAiMessages.toConversation(messages)
    for (const one of [self, yield* stored(self)]) common.same(yield* openai.render(one), messages)
    const [question, answer] = Conversation.messages(self)
    assert.deepStrictEqual(
      question?.role === "user" && question.content.map((part) => (part.type === "file" ? part.mediaType : part.text)),
      ["Read", "application/pdf", "application/pdf", "video/*", "image/*"]
    )
    assert.deepStrictEqual(
      answer?.role === "assistant" && answer.content.map((part) => [part.type, "text" in part ? part.text : ""]),
      [
        ["reasoning", "Let me see."],
        ["text", "It says"],
        ["text", "[reference omitted]"],
        ["text", "hello"]
      ]
    )
  })

  test("RIGHT-23 another provider gets what it takes, and an error names the rest", function* () {
    const [question, answer] = messages
    const read = yield* OpenAiMessages.toConversation([{ role: "user", content: "Hi" }, answer])
    common.same((yield* anthropic.render(read)).messages[1], {
      role: "assistant",
      content: ["It says", "[reference omitted]", "hello"].map((text) => ({ type: "text", text }))
    })
    const reason = yield* anthropic.reasonOf(yield* OpenAiMessages.toConversation([question]))
    assert.deepInclude(reason, { _tag: "UnsupportedContent", found: "a link to a file of type video/*" })
  })
})

describe("RIGHT-23 blocks of Anthropic that are newer than this version", () => {
  const newer = { type: "hologram", depth: [1, null], cache_control: { type: "ephemeral" } }
  const history = {
    system: [{ type: "text", text: "Be brief." }, newer],
    messages: [
      {
        role: "user",
        content: [{ type: "text", text: "Go" }, newer, { type: "image", source: { type: "cloud", key: "k" } }]
      },
      {
        role: "assistant",
        content: [
          newer,
          { type: "server_tool_use", id: "s", name: "advisor", input: {} },
          { type: "advisor_tool_result", tool_use_id: "s", content: { type: "advisor_result", text: "Do it" } },
          { type: "future_tool_use", id: "q", name: "x", input: {} },
          { type: "future_tool_result", tool_use_id: "q" },
          { type: "future_tool_use", id: "m", name: "x", input: {} },
          { type: "mcp_tool_result", tool_use_id: "m", content: [] },
          { type: "server_tool_use", id: "p", name: "advisor", input: {} }
        ]
      },
      {
        role: "assistant",
        content: [
          { type: "advisor_tool_result", tool_use_id: "p", content: { type: "advisor_result", text: "Later" } },
          use("a")
        ]
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [newer] }] },
      {
        role: "assistant",
        content: [{ type: "image", source: { type: "base64", media_type: "image/png", data: "AQID" } }]
      }
    ]
  }

  test("RIGHT-23 L3 they are kept as data and written back, also after the conversation was stored", function* () {
    const self = yield* AnthropicMessages.toConversation(history)
    for (const one of [self, yield* stored(self)]) common.same(yield* anthropic.render(one), history)
  })

  test("RIGHT-23 for other providers and for models they are named in a text", function* () {
    const { messages } = yield* anthropic.render(yield* AnthropicMessages.toConversation(history))
    const self = yield* AnthropicMessages.toConversation({ messages: [messages[0] ?? {}] })
    const content = ["Go", "[hologram omitted]", "[image omitted]"].map((text) => ({ type: "text", text }))
    common.same(yield* openai.render(self), [{ role: "user", content }])
    assert.include(JSON.stringify(Conversation.toPrompt(self)), "[hologram omitted]")
  })

  test("RIGHT-23 the type of a block is cut in the text", function* () {
    const self = yield* AnthropicMessages.toConversation({
      messages: [{ role: "user", content: [{ type: "x".repeat(1_000) }] }]
    })
    assert.isBelow(JSON.stringify(yield* openai.render(self)).length, 200)
  })
})
