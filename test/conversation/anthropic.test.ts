import { assert, describe } from "@effect/vitest"
import { Effect, Option, Result, type Schema } from "effect"
import { Conversation, Message, ToolResult } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages, type RenderError } from "effect-emissary/interop"

import { anthropicForeign } from "./anthropic-foreign.ts"
import { anthropicRules } from "./anthropic-rules.ts"
import * as common from "./foreign-laws.ts"
import { test } from "../test.ts"

const render = (self: Conversation.Conversation, options?: Parameters<typeof AnthropicMessages.fromConversation>[1]) =>
  Effect.fromResult(AnthropicMessages.fromConversation(self, options))

const again = (foreign: unknown) => Effect.flatMap(AnthropicMessages.toConversation(foreign), (self) => render(self))

const reasonOf = (
  self: Conversation.Conversation,
  options?: Parameters<typeof AnthropicMessages.fromConversation>[1]
) => Effect.map(Effect.flip(render(self, options)), (error: RenderError.RenderError) => error.reason)

const options = { lenient: { invalidArguments: "wrap" }, strict: { reasoning: "refuse" } } as const

const format: common.Format<unknown> = {
  name: "anthropic",
  codec: AnthropicMessages.AnthropicMessages,
  foreign: anthropicForeign,
  rules: anthropicRules,
  read: AnthropicMessages.toConversation,
  write: (self, lenience) => AnthropicMessages.fromConversation(self, lenience && options[lenience])
}

common.laws(format)

const cached = { cache_control: { type: "ephemeral" } }

describe("CONV-4 foreign Anthropic histories", () => {
  test.prop(
    "a history of Anthropic can be written for OpenAI, or the error has a reason",
    [anthropicForeign],
    function* ([foreign]) {
      const self = yield* AnthropicMessages.toConversation(foreign)
      const result = OpenAiMessages.fromConversation(self, { toolFiles: "describe" })
      if (Result.isFailure(result)) return assert.strictEqual(result.failure.reason._tag, "UnsupportedContent")
      const back = yield* OpenAiMessages.toConversation(result.success)
      assert.strictEqual(Conversation.messageCount(back), Conversation.messageCount(self))
    }
  )

  test("blocks of the system, results out of order and the text behind them are messages of ours", function* () {
    const use = (id: string) => ({ type: "tool_use", id, name: "f", input: {} })
    const result = (id: string) => ({ type: "tool_result", tool_use_id: id, content: id })
    const foreign = {
      messages: [
        { role: "user", content: "hi" },
        { role: "assistant", content: [use("a"), use("b")] },
        { role: "user", content: [result("b"), result("a"), { type: "text", text: "and?" }] }
      ],
      system: [
        { type: "text", text: "Be brief.", ...cached },
        { type: "text", text: "Be kind." }
      ]
    }
    const self = yield* AnthropicMessages.toConversation(foreign)
    common.same(yield* render(self), foreign)
    assert.deepStrictEqual(
      Conversation.messages(self).map((message) => (message.role === "tool" ? message.callId : message.role)),
      ["system", "user", "assistant", "a", "b", "user"]
    )
    assert.deepStrictEqual(
      Option.map(Conversation.system(self), ({ content }) => content),
      Option.some("Be brief.\n\nBe kind.")
    )
  })

  test("signatures and cache breakpoints are where Effect's provider for Anthropic reads them", function* () {
    const self = yield* AnthropicMessages.toConversation({
      messages: [
        { role: "user", content: [{ type: "text", text: "hi", ...cached }] },
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "sig" },
            { type: "redacted_thinking", data: "enc" },
            { type: "text", text: "yes" }
          ]
        }
      ]
    })
    const [user, assistant] = Conversation.toPrompt(self).content
    assert(user?.role === "user" && assistant?.role === "assistant")
    assert.deepStrictEqual(user.content[0]?.options, { anthropic: { cacheControl: { type: "ephemeral" } } })
    assert.deepStrictEqual(
      assistant.content.map(({ options }) => options),
      [
        { anthropic: { info: { type: "thinking", signature: "sig" } } },
        { anthropic: { info: { type: "redacted_thinking", redactedData: "enc" } } },
        {}
      ]
    )
  })

  test("text for input, no input, blank blocks, results in two messages: written as Anthropic wants them", function* () {
    const history = yield* again({
      system: null,
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: " " },
            { type: "text", text: "go" }
          ]
        },
        {
          role: "assistant",
          content: [
            { type: "text", text: "\n" },
            { type: "tool_use", id: "a", name: "f", input: `{"q": 1}` },
            { type: "tool_use", id: "b", name: "f" },
            { type: "tool_use", id: "c", name: "f", input: null }
          ]
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: [] }] },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "b", content: "", is_error: true },
            { type: "tool_result", tool_use_id: "c", content: " " }
          ]
        }
      ]
    })
    assert.deepStrictEqual(anthropicRules(history), [])
    const use = (id: string, input: Schema.Json): Schema.Json => ({ type: "tool_use", id, name: "f", input })
    assert.deepStrictEqual(history.messages, [
      { role: "user", content: [{ type: "text", text: "go" }] },
      { role: "assistant", content: [use("a", { q: 1 }), use("b", {}), use("c", {})] },
      {
        role: "user",
        content: [
          { type: "tool_result", tool_use_id: "a" },
          { type: "tool_result", tool_use_id: "b", content: "execution_error", is_error: true },
          { type: "tool_result", tool_use_id: "c" }
        ]
      }
    ])
  })

  const user = { role: "user", content: "x" }
  const asks = { role: "assistant", content: [{ type: "tool_use", id: "a", name: "f", input: {} }] }
  const result = { type: "tool_result", tool_use_id: "a", content: "r" }

  const unlawful: ReadonlyArray<common.Unlawful> = [
    ["UnknownRole", 1, [user, { role: "system", content: "x" }]],
    ["OrphanResult", 1, [user, { role: "user", content: [result] }]],
    ["DuplicateResult", 2, [user, asks, { role: "user", content: [result, result] }]],
    ["OpenCalls", 2, [user, asks, user]],
    // Results have to come first
    ["OpenCalls", 2, [user, asks, { role: "user", content: [{ type: "text", text: "so" }, result] }]],
    ["RepeatedCallId", 1, [user, { role: "assistant", content: [...asks.content, ...asks.content] }]],
    ["EmptyContent", 0, [{ role: "user", content: "" }]],
    ["EmptyContent", 0, [{ role: "user", content: [] }]],
    ["OrphanResult", 1, [user, { role: "assistant", content: [{ ...result, type: "mcp_tool_result" }] }]]
  ]
  common.refusesUnlawful(
    format,
    unlawful.map(([tag, index, messages]) => [tag, index, { messages }] as const)
  )

  const asksWithoutId = { role: "assistant", content: [{ type: "tool_use", name: "f" }] }
  common.refusesForms(
    format,
    [
      [[user], ""],
      [{}, "/messages"],
      [{ messages: [user], max_tokens: 5, model: "m" }, "/max_tokens", "/model"],
      [{ messages: [{ role: "user", content: [{ type: "audio" }] }] }, "/messages/0/content/0"],
      [{ messages: [user, asksWithoutId] }, "/messages/1/content/0/id"]
    ],
    { messages: [user, user] }
  )
})

describe("CONV-4 what Anthropic refuses is never written", () => {
  const server = { ...common.providerCall, options: { anthropic: { block: "server_tool_use" } } }
  const file = (mediaType: string) => ToolResult.filePart({ mediaType, data: "AQID" })

  common.refusesUnsendable(format, [
    ["AssistantFirst", 0, Conversation.addAssistant(Conversation.empty, "Hi")],
    ["AssistantFirst", 1, Effect.flatMap(Conversation.make({ system: "x" }), Conversation.addAssistant("Hi"))],
    ["EmptyMessage", 0, Conversation.addUser(Conversation.empty, " \n")],
    [
      "UnansweredCalls",
      1,
      Effect.flatMap(Conversation.addAssistant(common.base, [server]), Conversation.addUser("go on"))
    ],
    ["UnsupportedContent", 1, Conversation.addUser(common.base, [file("audio/wav")])],
    ["UnsupportedContent", 2, common.answered(common.call(), ToolResult.success(null, [file("image/svg+xml")]))]
  ])

  test("Anthropic pauses long tools: the end may wait for one", function* () {
    assert.deepStrictEqual(anthropicRules(yield* render(yield* Conversation.addAssistant(common.base, [server]))), [])
  })

  test("options choose what becomes of reasoning, arguments and names", function* () {
    const self = yield* Conversation.addUser(Conversation.empty, "go").pipe(
      Effect.flatMap(Conversation.addAssistant([Message.reasoningPart("hm"), common.call({ arguments: 5 })])),
      Effect.flatMap(Conversation.addToolResult({ callId: "a", result: ToolResult.success("x") }))
    )
    const { messages } = yield* render(self, { invalidArguments: "wrap", toolName: (name) => `x_${name}` })
    assert.deepStrictEqual(messages[1], {
      role: "assistant",
      content: [{ type: "tool_use", id: "a", name: "x_search", input: { invalid_arguments: 5 } }]
    })
    assert.strictEqual((yield* reasonOf(self, { reasoning: "refuse" }))._tag, "UnsupportedReasoning")
  })

  test("thinking with nothing after it is not sent", function* () {
    const signed = Message.reasoningPart("hm", { anthropic: { info: { type: "thinking", signature: "sig" } } })
    const self = yield* Conversation.addUser(Conversation.empty, "go").pipe(
      Effect.flatMap(Conversation.addAssistant([signed, ToolResult.textPart("Yes"), signed]))
    )
    assert.deepStrictEqual((yield* render(self)).messages[1], {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "hm", signature: "sig" },
        { type: "text", text: "Yes" }
      ]
    })
    assert.strictEqual((yield* reasonOf(self, { reasoning: "refuse" }))._tag, "UnsupportedReasoning")
  })

  test("the note of a message is not used if it breaks a rule", function* () {
    const forged = (note: Schema.Json) =>
      Effect.gen(function* () {
        const metadata = { "effect-emissary/anthropic": note }
        const user = yield* Conversation.addUser(Conversation.empty, "go", { metadata })
        const asked = yield* Conversation.addAssistant(user, [ToolResult.textPart("hm"), common.call()], { metadata })
        const done = yield* Conversation.addToolResult(
          asked,
          { callId: "a", result: ToolResult.success("x") },
          { metadata }
        )
        return yield* render(yield* Conversation.addUser(done, "so", { metadata }))
      })
    const plain = yield* forged(null)
    const replace = (path: string, value: Schema.Json) => ({ patch: [{ op: "replace", path, value }] })
    for (const note of [
      replace("", "put into its mouth"),
      replace("/0/text", "put into its mouth"),
      replace("/1/input", `{"q":1}`),
      replace("", [
        { type: "text", text: " " },
        { type: "text", text: "go" }
      ]),
      { patch: [{ op: "remove", path: "/0/text" }] },
      { patch: [{ op: "remove", path: "/9" }] },
      { members: { role: "assistant", content: "put into its mouth" } },
      { withoutSystem: false },
      { place: 1.5 },
      { joined: "yes" },
      "nonsense"
    ]) {
      const history = yield* forged(note)
      assert.deepStrictEqual(anthropicRules(history), [])
      assert.deepStrictEqual(history.messages, plain.messages, JSON.stringify(note))
    }
  })

  common.embeds(
    format,
    { messages: [{ role: "user", content: [{ x: 1, type: "text", text: "Hi" }] }] },
    [{ messages: [{ role: "user" }] }, "/messages/0/content"],
    {
      messages: [
        { role: "user", content: "Weather?" },
        { role: "assistant", content: [{ type: "tool_use", id: "c1", name: "weather", input: {} }] },
        { role: "user", content: "Never mind." }
      ]
    }
  )
})
