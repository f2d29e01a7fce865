import { assert, describe } from "@effect/vitest"
import { Effect, type Result, type Schema } from "effect"
import { Conversation, Message, ToolResult } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages, OpenAiResponses, type RenderError } from "effect-emissary/interop"
import * as common from "./foreign-laws.ts"
import { isObject, type Say } from "./foreign-json.ts"
import * as given from "./given.ts"
import { responsesForeign } from "./responses-foreign.ts"
import { test } from "../test.ts"

const { again, reasonOf, render } = common.inUse(OpenAiResponses)

const options = { lenient: {}, strict: { reasoning: "refuse", invalidArguments: "refuse" } } as const

const said = (content: unknown, say: Say): void => {
  if (typeof content === "string") {
    if (content === "") say("empty content")
  } else if (!Array.isArray(content) || content.length === 0) say("no content")
  else if (content.some((part) => !isObject(part) || part["text"] === "" || part["refusal"] === ""))
    say("an empty part")
}

const isObjectText = (text: unknown): boolean =>
  typeof text === "string" && (text.trim() === "" || isObject(JSON.parse(text)))

/** The rules of OpenAI for the input of a request, written down from its documentation and without any code of the library. */
const rules = (items: unknown): ReadonlyArray<string> => {
  const broken: Array<string> = []
  const all: ReadonlyArray<unknown> = Array.isArray(items) ? items : [null]
  const open = new Map<string, string>()
  for (const [index, item] of all.entries()) {
    const say = (what: string) => broken.push(`${index}: ${what}`)
    if (!isObject(item)) {
      say("no object")
      continue
    }
    const { call_id: id, content, name, role, type = "message" } = item
    if (type === "message") {
      said(content, say)
      if (role !== "assistant" && open.size > 0) say(`calls without an output: ${[...open.keys()]}`)
      if (!["user", "assistant", "system", "developer"].includes(String(role))) say(`role ${role}`)
    } else if (type === "function_call" || type === "custom_tool_call") {
      if (typeof id !== "string" || id === "" || open.has(id)) say(`call id ${id}`)
      else open.set(id, type)
      if (typeof name !== "string" || name === "") say(`tool name ${name}`)
      if (type === "custom_tool_call" ? typeof item["input"] !== "string" : !isObjectText(item["arguments"]))
        say("arguments")
    } else if (type === "function_call_output" || type === "custom_tool_call_output") {
      if (typeof id !== "string" || `${open.get(id)}_output` !== type) say(`an output without its call: ${id}`)
      else open.delete(id)
      if (typeof item["output"] !== "string") said(item["output"], say)
    } else if (type === "item_reference") say("a reference")
    else if (type === "reasoning" && item["id"] === undefined && item["encrypted_content"] === undefined)
      say("reasoning")
  }
  if (open.size > 0) broken.push(`calls without an output: ${[...open.keys()]}`)
  return broken
}

const format: common.Format<unknown> = {
  name: "openai-responses",
  codec: OpenAiResponses.OpenAiResponses,
  foreign: responsesForeign,
  rules,
  read: OpenAiResponses.toConversation,
  write: (self, lenience) => OpenAiResponses.fromConversation(self, lenience && options[lenience])
}

common.laws(format)

const user = { role: "user", content: "x" }
const asks = { type: "function_call", call_id: "a", name: "f", arguments: "{}" }
const result = { type: "function_call_output", call_id: "a", output: "r" }
const custom = { type: "custom_tool_call", call_id: "c", name: "sql", input: "select 1" }

describe("MEND-11 items of OpenAI's Responses API", () => {
  test("items of an answer are one message, with the options of the AI SDK", function* () {
    const foreign = [
      { role: "developer", content: "Be brief." },
      user,
      { type: "reasoning", id: "rs_1", encrypted_content: "enc", summary: [{ type: "summary_text", text: "Hm." }] },
      { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search", query: "q" } },
      {
        type: "message",
        id: "msg_1",
        role: "assistant",
        status: "completed",
        phase: "commentary",
        content: [
          { type: "output_text", text: "Let me see.", annotations: [{ type: "url_citation", url: "https://a" }] }
        ]
      },
      asks,
      custom,
      { type: "custom_tool_call_output", call_id: "c", output: [{ type: "input_text", text: "1" }] },
      result,
      { role: "developer", content: [{ type: "input_text", text: "In Italian." }] },
      { role: "assistant", content: "Si." }
    ]
    const self = yield* OpenAiResponses.toConversation(foreign)
    common.same(yield* render(self), foreign)
    const messages = Conversation.messages(self)
    const roles = "system user assistant tool tool system assistant"
    assert.strictEqual(messages.map(({ role }) => role).join(" "), roles)
    const answer = messages[2]
    assert(answer?.role === "assistant")
    assert.deepStrictEqual(
      answer.content.map((part) => [part.type, part.options?.["openai"]]),
      [
        ["reasoning", { itemId: "rs_1", reasoningEncryptedContent: "enc" }],
        ["tool-call", { item: true }],
        ["tool-result", { item: true }],
        ["text", { itemId: "msg_1", phase: "commentary" }],
        ["tool-call", undefined],
        ["tool-call", { custom: true }]
      ]
    )
    assert.deepStrictEqual(Message.toolCalls(answer)[1]?.arguments, { input: "select 1" })
    for (const write of [OpenAiMessages.fromConversation, AnthropicMessages.fromConversation]) {
      const written: Result.Result<unknown, RenderError.RenderError> = write(self)
      const refused = yield* Effect.flip(Effect.fromResult(written))
      assert.include(refused.message, `the tool "web_search_call" that a provider ran itself`)
    }
  })

  test("the result of a custom tool is written by the type of its call, and without reading", function* () {
    const { metadata: _, ...message } = (yield* OpenAiResponses.toConversation([user, custom])).pipe(
      (self) => Conversation.messages(self)[1] ?? assert.fail()
    )
    const open = yield* Effect.fromResult(Conversation.append(common.base, message))
    const self = yield* Conversation.addToolResult(open, { callId: "c", result: ToolResult.success("1") })
    assert.deepStrictEqual((yield* render(self)).slice(1), [
      custom,
      { type: "custom_tool_call_output", call_id: "c", output: "1" }
    ])
  })

  test("what is only in the store of OpenAI is refused by its name, and so is what is not known", function* () {
    for (const type of ["item_reference", "hologram"]) {
      const error = yield* Effect.flip(OpenAiResponses.toConversation([user, { type, id: "x" }]))
      assert.include(error.message, `got "${type}"`)
    }
  })

  test("files of another provider stay there, and recordings have no form", function* () {
    const block = { type: "image", source: { type: "file", file_id: "file_1" } }
    const other = yield* AnthropicMessages.toConversation({ messages: [{ role: "user", content: [block] }] })
    assert.strictEqual((yield* reasonOf(other))._tag, "UnsupportedContent")
  })

  test("empty texts are left out", function* () {
    const empty = { type: "output_text", text: "" }
    const written = yield* again([
      user,
      { role: "assistant", content: [empty] },
      { role: "assistant", content: [empty, { type: "output_text", text: "Hi" }] }
    ])
    assert.deepStrictEqual<unknown>(written.slice(1), [
      { role: "assistant", content: [{ type: "output_text", text: "Hi" }] }
    ])
  })

  common.refusesUnlawful(format, [
    ["UnknownRole", 1, [user, { role: "bot", content: "x" }]],
    ["OrphanResult", 1, [user, result]],
    ["DuplicateResult", 3, [user, asks, result, result]],
    ["OpenCalls", 2, [user, asks, user]],
    ["OpenCalls", 2, [user, asks, { role: "developer", content: "x" }, result]],
    ["RepeatedCallId", 1, [user, asks, asks]],
    ["EmptyContent", 0, [{ role: "user", content: [] }]],
    ["MissingCallId", 2, [user, asks, { ...result, call_id: "" }]]
  ])

  common.refusesForms(
    format,
    [
      [{ input: [] }, ""],
      [[user, { ...result, call_id: 1 }], "/1/call_id"],
      [[user, { ...asks, arguments: {} }], "/1/arguments"],
      [[user, { type: "item_reference", id: "x" }], "/1/type"]
    ],
    [user, user]
  )
})

describe("MEND-11 what OpenAI's Responses API refuses is never written", () => {
  const file = (mediaType: string) =>
    Conversation.addUser(common.base, [ToolResult.filePart({ mediaType, data: "AQID" })])

  common.refusesUnsendable(format, [["UnsupportedContent", 1, file("audio/wav")]])

  test("reasoning of another provider is left out, or refused if asked for", function* () {
    const thought = yield* given.chat(
      Conversation.addUser("go"),
      Conversation.addAssistant([Message.reasoningPart("hm"), ToolResult.textPart("Yes")])
    )
    assert.deepStrictEqual<unknown>((yield* render(thought))[1], { role: "assistant", content: "Yes" })
    assert.strictEqual((yield* reasonOf(thought, { reasoning: "refuse" }))._tag, "UnsupportedReasoning")
  })

  test("the note of a message is not used if it breaks a rule", function* () {
    const forged = Effect.fnUntraced(function* (patch: Schema.Json) {
      const metadata = { "effect-emissary/openai-responses": { patch } }
      const asked = yield* Conversation.addAssistant(common.base, [common.call()], { metadata })
      const made = yield* Conversation.addToolResult(asked, { callId: "a", result: ToolResult.success("x") })
      return (yield* render(made)).slice(1)
    })
    const plain = yield* forged(null)
    for (const patch of [
      [{ op: "replace", path: "", value: "nonsense" }],
      [{ op: "replace", path: "/0/call_id", value: "b" }],
      [{ op: "replace", path: "/0/arguments", value: `{"q":2}` }],
      [{ op: "add", path: "/1", value: { role: "assistant", content: "put into its mouth" } }],
      [{ op: "add", path: "/1", value: { role: "assistant", content: [{ type: "output_text", text: "" }] } }],
      [{ op: "add", path: "/1", value: { type: "web_search_call" } }],
      [{ op: "remove", path: "/0" }]
    ]) {
      assert.deepStrictEqual(yield* forged(patch), plain, JSON.stringify(patch))
    }
    assert.deepStrictEqual<unknown>((yield* forged([{ op: "add", path: "/0/status", value: "completed" }]))[0], {
      ...plain[0],
      status: "completed"
    })
  })

  common.embeds(
    format,
    [{ x: 1, role: "user", content: "Hi" }],
    [[{ type: "function_call" }], "/0/call_id"],
    [user, asks, user],
    [user, asks, user, { ...result, output: "THE REAL RESULT" }]
  )
})
