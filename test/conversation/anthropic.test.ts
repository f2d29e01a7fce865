import { assert, describe } from "@effect/vitest"
import { Effect, Equal, Option, Result, type Schema } from "effect"
import { Conversation, Message, ToolResult } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages } from "effect-emissary/interop"
import { Base64 } from "effect/encoding"

import { anthropicForeign } from "./anthropic-foreign.ts"
import { anthropicRules } from "./anthropic-rules.ts"
import * as common from "./foreign-laws.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import * as given from "./given.ts"

const { again, reasonOf, render } = common.inUse(AnthropicMessages)

const options = { lenient: {}, strict: { reasoning: "refuse", invalidArguments: "refuse" } } as const

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
const user = (...content: ReadonlyArray<Schema.Json>) => ({ role: "user", content })
const assistant = (...content: ReadonlyArray<Schema.Json>) => ({ role: "assistant", content })
const text = (text: string, over?: Schema.JsonObject) => ({ type: "text", text, ...over })
const use = (id: string, input: Schema.Json = {}) => ({ type: "tool_use", id, name: "f", input })
const result = (id: string, over?: Schema.JsonObject) => ({ type: "tool_result", tool_use_id: id, ...over })

describe("CONV-4 foreign Anthropic histories", () => {
  test.prop(
    "a history of Anthropic can be written for OpenAI, or the error has a reason",
    [anthropicForeign],
    function* ([foreign]) {
      const self = yield* AnthropicMessages.toConversation(foreign)
      const result = OpenAiMessages.fromConversation(self, { toolFiles: "describe" })
      if (Result.isFailure(result)) return assert.strictEqual(result.failure.reason._tag, "UnsupportedContent")
      const back = yield* OpenAiMessages.toConversation(result.success)
      const said = Conversation.messages(self).filter((message) => message.role !== "system" || message.content !== "")
      assert.deepStrictEqual(pluck(Conversation.messages(back), "role"), pluck(said, "role"))
    }
  )

  test("blocks of the system, results out of order and the text behind them are messages of ours", function* () {
    const foreign = {
      messages: [
        { role: "user", content: "hi" },
        assistant(use("a"), use("b")),
        user(result("b", { content: "b" }), result("a", { content: "a" }), text("and?"))
      ],
      system: [text("Be brief.", cached), text("Be kind.")]
    }
    const self = yield* AnthropicMessages.toConversation(foreign)
    common.same(yield* render(self), foreign)
    assert.deepStrictEqual(
      Conversation.messages(self).map((message) => (message.role === "tool" ? message.callId : message.role)),
      ["system", "user", "assistant", "a", "b", "user"]
    )
    assert.strictEqual(Option.getOrThrow(Conversation.system(self)).content, "Be brief.\n\nBe kind.")
  })

  test("signatures and cache breakpoints are where Effect's provider for Anthropic reads them", function* () {
    const self = yield* AnthropicMessages.toConversation({
      messages: [
        user(text("hi", cached)),
        assistant(
          { type: "thinking", thinking: "hm", signature: "sig" },
          { type: "redacted_thinking", data: "enc" },
          text("yes")
        )
      ]
    })
    const [asked, answered] = Conversation.toPrompt(self).content
    assert(asked?.role === "user" && answered?.role === "assistant")
    assert.deepStrictEqual(asked.content[0]?.options, { anthropic: { cacheControl: { type: "ephemeral" } } })
    assert.deepStrictEqual<unknown>(pluck(answered.content, "options"), [
      { anthropic: { info: { type: "thinking", signature: "sig" } } },
      { anthropic: { info: { type: "redacted_thinking", redactedData: "enc" } } },
      {}
    ])
  })

  test("text for input, no input, blank blocks, results in two messages: written as Anthropic wants them", function* () {
    const history = yield* again({
      system: null,
      messages: [
        user(text(" "), text("go")),
        assistant(text("\n"), use("a", `{"q": 1}`), { type: "tool_use", id: "b", name: "f" }, use("c", null)),
        user(result("a", { content: [] })),
        user(result("b", { content: "", is_error: true }), result("c", { content: " " }))
      ]
    })
    assert.deepStrictEqual(anthropicRules(history), [])
    assert.deepStrictEqual<unknown>(history.messages, [
      user(text("go")),
      assistant(use("a", { q: 1 }), use("b"), use("c")),
      user(result("a"), result("b", { content: "execution_error", is_error: true }), result("c"))
    ])
  })

  test("SOUND-9 blocks that messages have no part for are read as their text, and written as they were", function* () {
    const page = { type: "search_result", source: "https://a", title: "A", content: [text("one"), text("two")] }
    const foreign = {
      messages: [
        user(
          page,
          { type: "container_upload", file_id: "file_1" },
          {
            type: "document",
            source: { type: "content", content: [text("x"), text("y")] },
            title: "T",
            citations: { enabled: true }
          }
        ),
        assistant(
          { type: "compaction", content: "So far." },
          { type: "container_upload", file_id: "file_2" },
          text("It is so.", { citations: [{ type: "char_location", cited_text: "x", document_index: 0 }] }),
          use("a")
        ),
        user(result("a", { content: [{ type: "tool_reference", tool_name: "get_order" }, page] }))
      ]
    }
    const self = yield* AnthropicMessages.toConversation(foreign)
    common.same(yield* render(self), foreign)
    const stored = yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(self))
    common.same(yield* render(stored), foreign)
    assert.deepStrictEqual(Conversation.messages(self).map(Message.text), [
      "A\nhttps://a\none\ntwo",
      "So far.\n\nIt is so.",
      "get_order\nA\nhttps://a\none\ntwo"
    ])
    const files = Conversation.toPrompt(self).content.flatMap(({ content }) =>
      typeof content === "string" ? [] : content.flatMap((part) => (part.type === "file" ? [part.data] : []))
    )
    assert.deepStrictEqual(files, ["file_1", Base64.encode("x\n\ny"), "file_2"])
  })

  test("MEND-10 a compaction is not glued to the text beside it, and is written as it was read", function* () {
    const compaction = { type: "compaction", content: "The user is Ada." }
    const foreign = {
      messages: [
        user(text("hi")),
        assistant(text("Well."), compaction, compaction, text("Hello Ada."), text(" How are you?"))
      ]
    }
    const self = yield* AnthropicMessages.toConversation(foreign)
    common.same(yield* render(self), foreign)
    const said = "Well.\n\nThe user is Ada.\n\nThe user is Ada.\n\nHello Ada. How are you?"
    assert.deepStrictEqual(Conversation.messages(self).slice(1).map(Message.text), [said])
    assert.strictEqual(Result.getOrThrow(OpenAiMessages.fromConversation(self))[1]?.["content"], said)
  })

  test("MEND-10 the id of a file is written for the provider that keeps the file, and for no other", function* () {
    const image = { type: "image", source: { type: "file", file_id: "file_011C" } }
    const foreign = [
      image,
      { type: "document", source: { type: "file", file_id: "file_011C" } },
      { type: "container_upload", file_id: "file_011C" }
    ]
    for (const block of foreign) {
      const self = yield* AnthropicMessages.toConversation({ messages: [user(block)] })
      common.same((yield* render(self)).messages[0], user(block))
      const refused = OpenAiMessages.fromConversation(self)
      assert(Result.isFailure(refused) && refused.failure.reason._tag === "UnsupportedContent")
      assert.include(refused.failure.message, "got the id of a file that another provider keeps")
    }
    const file = { type: "file", file: { file_id: "file-6F2k" } }
    const other = yield* OpenAiMessages.toConversation([{ role: "user", content: [file] }])
    assert.strictEqual((yield* reasonOf(other))._tag, "UnsupportedContent")
  })

  test("SOUND-9 a call or a result of a message that has none is refused by its name", function* () {
    const error = yield* Effect.flip(AnthropicMessages.toConversation({ messages: [user(use("a"))] }))
    assert.include(error.message, `tool_result, got "tool_use"`)
  })

  const asks = { role: "user", content: "x" }
  const found = result("a", { content: "r" })
  const calls = assistant(use("a"))

  common.refusesUnlawful(format, [
    ["UnknownRole", 1, { messages: [asks, { role: "developer", content: "x" }] }],
    ["OpenCalls", 2, { messages: [asks, calls, { role: "system", content: "x" }, user(found)] }],
    ["OrphanResult", 1, { messages: [asks, user(found)] }],
    ["DuplicateResult", 2, { messages: [asks, calls, user(found, found)] }],
    ["OpenCalls", 2, { messages: [asks, calls, asks] }],
    // Results have to come first
    ["OpenCalls", 2, { messages: [asks, calls, user(text("so"), found)] }],
    ["RepeatedCallId", 1, { messages: [asks, assistant(use("a"), use("a"))] }],
    ["EmptyContent", 0, { messages: [{ role: "user", content: "" }] }],
    ["EmptyContent", 0, { messages: [user()] }],
    ["OrphanResult", 1, { messages: [asks, assistant({ ...found, type: "mcp_tool_result" })] }]
  ])

  test("UnknownRole: the roles that Anthropic has are named", function* () {
    const error = yield* Effect.flip(AnthropicMessages.toConversation({ messages: [{ role: "bot", content: "x" }] }))
    assert.include(error.message, `expected one of user, assistant, system, got another role. The role is "bot"`)
  })

  common.refusesForms(
    format,
    [
      [[asks], ""],
      [{}, "/messages"],
      [{ messages: [asks], max_tokens: 5, model: "m" }, "/max_tokens", "/model"],
      [{ messages: [user(use("a"), use("b"))] }, "/messages/0/content/0/type", "/messages/0/content/1/type"],
      [{ messages: [user(result("a", { content: [{ type: "text" }] }))] }, "/messages/0/content/0/content/0/text"],
      [{ messages: [asks, assistant(result("a"))] }, "/messages/1/content/0/type"],
      [{ messages: [asks, assistant({ type: "tool_use", name: "f" })] }, "/messages/1/content/0/id"]
    ],
    { messages: [asks, asks] }
  )
})

describe("CONV-4 what Anthropic refuses is never written", () => {
  const server = { ...given.own("p"), options: { anthropic: { block: "server_tool_use" } } }
  const go = Conversation.addUser("go")
  const file = (mediaType: string) => ToolResult.filePart({ mediaType, data: "AQID" })

  common.refusesUnsendable(format, [
    ["AssistantFirst", 0, given.chat(Conversation.addAssistant("Hi"))],
    ["AssistantFirst", 1, given.chat(given.system("x"), Conversation.addAssistant("Hi"))],
    ["MisplacedSystem", 1, given.chat(go, Conversation.addSystem("x"), go)],
    ["MisplacedSystem", 2, given.chat(go, Conversation.addAssistant("Hi"), Conversation.addSystem("x"), go)],
    ["UnsupportedContent", 1, Conversation.addUser(common.base, [file("audio/wav")])],
    ["UnsupportedContent", 2, common.answered(common.call(), ToolResult.success(null, [file("image/svg+xml")]))]
  ])

  test("MEND-11 later system messages are written where Anthropic takes them, moved there if asked for", function* () {
    const late = (text: string) => Conversation.addSystem(text)
    const lead = [given.system("A"), late("B")] as const
    const asked = yield* given.chat(...lead, go, late("C"), late("D"), Conversation.addAssistant("Hi"), late("E"), go)
    const { messages, system } = yield* render(asked, { laterSystem: "move" })
    assert.deepStrictEqual(system, [text("A"), text("B")])
    assert.deepStrictEqual(pluck(messages, "role"), ["user", "system", "system", "assistant", "user", "system"])
    const contents = messages.flatMap(({ content }) => content)
    assert.deepStrictEqual<unknown>(contents, [text("go"), "C", "D", text("Hi"), text("go"), "E"])
    const nowhere = yield* Conversation.addSystem(yield* Conversation.addAssistant(common.base, "Hi"), "F")
    assert.deepStrictEqual((yield* reasonOf(nowhere, { laterSystem: "move" }))._tag, "MisplacedSystem")
  })

  test("Anthropic pauses long tools: the end may wait for one", function* () {
    const paused = yield* Conversation.addAssistant(common.base, [ToolResult.textPart("Let me look."), server])
    const written = yield* render(paused)
    assert.deepStrictEqual(anthropicRules(written), [])
    assert.lengthOf(
      written.messages.flatMap(({ content }) => content),
      3
    )
  })

  test("SOUND-5 a call that Anthropic never answered is left out once its turn is over, also of prompts", function* () {
    const self = yield* given.chat(
      go,
      Conversation.addAssistant([ToolResult.textPart("Let me look."), server]),
      Conversation.addUser("go on")
    )
    const written = yield* render(self)
    assert.deepStrictEqual(anthropicRules(written), [])
    common.same(written.messages[1], assistant({ type: "text", text: "Let me look." }))
    const sent = Conversation.toPrompt(self).content.map(({ content }) => content.length)
    assert.deepStrictEqual(sent, [1, 1, 1])
    const lossless = Conversation.toPrompt(self, { lossless: true })
    assert.isTrue(Equal.equals(yield* Conversation.fromPrompt(lossless), self))
  })

  test("options choose what becomes of reasoning, arguments and names", function* () {
    const self = yield* given.chat(
      go,
      Conversation.addAssistant([Message.reasoningPart("hm"), common.call({ arguments: 5 })]),
      Conversation.addToolResult({ callId: "a", result: ToolResult.success("x") })
    )
    const { messages } = yield* render(self, { ...options.lenient, toolName: (name) => `x_${name}` })
    const wrapped = { ...use("a", { invalid_arguments: 5 }), name: "x_search" }
    assert.deepStrictEqual<unknown>(messages[1], assistant(wrapped))
    assert.strictEqual((yield* reasonOf(self, { reasoning: "refuse" }))._tag, "UnsupportedReasoning")
  })

  test("thinking with nothing after it is not sent", function* () {
    const signed = Message.reasoningPart("hm", { anthropic: { info: { type: "thinking", signature: "sig" } } })
    const self = yield* given.chat(go, Conversation.addAssistant([signed, ToolResult.textPart("Yes"), signed]))
    const thinking = { type: "thinking", thinking: "hm", signature: "sig" }
    assert.deepStrictEqual<unknown>((yield* render(self)).messages[1], assistant(thinking, text("Yes")))
    assert.strictEqual((yield* reasonOf(self, { reasoning: "refuse" }))._tag, "UnsupportedReasoning")
  })

  test("the note of a message is not used if it breaks a rule", function* () {
    const forged = (note: Schema.Json) => {
      const metadata = { "effect-emissary/anthropic": note }
      const self = given.chat(
        Conversation.addUser("go", { metadata }),
        Conversation.addAssistant([ToolResult.textPart("hm"), common.call()], { metadata }),
        Conversation.addToolResult({ callId: "a", result: ToolResult.success("x") }, { metadata }),
        Conversation.addUser("so", { metadata })
      )
      return Effect.flatMap(self, (self) => render(self))
    }
    const plain = yield* forged(null)
    const replace = (path: string, value: Schema.Json) => ({ patch: [{ op: "replace", path, value }] })
    for (const note of [
      replace("", "put into its mouth"),
      replace("/0/text", "put into its mouth"),
      replace("/1/input", `{"q":1}`),
      replace("", [text(" "), text("go")]),
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
    { messages: [user({ x: 1, ...text("Hi") })] },
    [{ messages: [{ role: "user" }] }, "/messages/0/content"],
    {
      messages: [{ role: "user", content: "Weather?" }, assistant(use("c1")), { role: "user", content: "Never mind." }]
    },
    { messages: [user(text("x")), assistant(use("a")), user(text("so?"), result("a", { content: "THE REAL RESULT" }))] }
  )
})
