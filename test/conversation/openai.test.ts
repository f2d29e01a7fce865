import { assert, describe, it } from "@effect/vitest"
import { Effect, Option, Result, Schema } from "effect"
import { Conversation, ConversationError, Message, PayloadError, ToolResult } from "effect-emissary"
import { OpenAiMessages, type RenderError } from "effect-emissary/interop"
import { Arbitraries } from "effect-emissary/testing"

import { heldBy, sendableTo } from "./foreign-transcript.ts"
import { openaiForeign } from "./openai-foreign.ts"
import { openaiRules } from "./openai-rules.ts"
import { pluck } from "../pluck.ts"

const runs = { arbitrary: { runs: 300 } }

const render = (self: Conversation.Conversation, options?: OpenAiMessages.Options) =>
  Effect.fromResult(OpenAiMessages.fromConversation(self, options))

const again = (foreign: unknown) => Effect.flatMap(OpenAiMessages.toConversation(foreign), (self) => render(self))

const same = (actual: unknown, expected: unknown) =>
  assert.strictEqual(JSON.stringify(actual, null, 1), JSON.stringify(expected, null, 1))

const reasonOf = (self: Conversation.Conversation, options?: OpenAiMessages.Options) =>
  Effect.map(Effect.flip(render(self, options)), (error: RenderError.RenderError) => error.reason)

const call = (args: Partial<Message.ToolCallPart> = {}) =>
  Message.toolCallPart({ id: "a", name: "search", arguments: { q: 1 }, ...args })

const answered = (part: Message.ToolCallPart, result: ToolResult.ToolResult = ToolResult.success("found")) =>
  Conversation.empty.pipe(
    Conversation.addUser("go"),
    Effect.flatMap(Conversation.addAssistant([part])),
    Effect.flatMap(Conversation.addToolResult({ callId: part.id, result }))
  )

describe("CONV-4 OpenAI messages, laws", () => {
  it.effect.prop(
    "to(from(x)) is x, byte by byte, of every lawful history, also when the conversation was stored in between",
    [openaiForeign],
    ([foreign]) =>
      Effect.gen(function* () {
        assert.deepStrictEqual(openaiRules(foreign), [])
        const self = yield* OpenAiMessages.toConversation(foreign)
        same(yield* render(self), foreign)
        same(yield* render(yield* Conversation.decodeJson(yield* Conversation.encodeJson(self))), foreign)
      }),
    runs
  )

  it.effect.prop(
    "from(to(c)) says what c says, as far as the format can hold it",
    [Arbitraries.conversation({ open: false, sendable: true })],
    ([given]) =>
      Effect.gen(function* () {
        const self = yield* sendableTo("openai", given)
        const messages = yield* render(self)
        assert.deepStrictEqual(openaiRules(messages), [])
        const back = yield* OpenAiMessages.toConversation(messages)
        assert.deepStrictEqual(Conversation.transcript(back), yield* heldBy("openai", self))
        same(yield* render(back), messages)
      }),
    runs
  )

  it.prop(
    "whatever the conversation, what is written keeps the rules, and what is not is an error that names a message",
    [Arbitraries.conversation(), Schema.Boolean],
    ([self, lenient]) => {
      const result = OpenAiMessages.fromConversation(
        self,
        lenient ? { invalidArguments: "wrap", toolFiles: "describe" } : { reasoning: "refuse" }
      )
      if (Result.isSuccess(result)) return assert.deepStrictEqual(openaiRules(result.success), [])
      const { reason } = result.failure
      assert.strictEqual(Conversation.messages(self)[reason.index]?.id, reason.id)
    },
    runs
  )
})

describe("CONV-4 foreign OpenAI histories", () => {
  it.effect("parts, extras, refusals, reasoning, results out of order: exactly as they came", () =>
    Effect.gen(function* () {
      const foreign = [
        { content: [{ type: "text", text: "Sys", cache_control: { type: "ephemeral" } }], role: "developer" },
        {
          role: "user",
          name: "ada",
          content: [
            { type: "text", text: "Look" },
            { type: "image_url", image_url: { detail: "low", url: "data:image/png;base64,AQID" } },
            { type: "input_audio", input_audio: { data: "AQID", format: "mp3" } },
            { type: "file", file: { file_id: "file-1" } },
            { type: "file", file: { file_data: "data:application/pdf;base64,AQID", filename: "a.pdf" } }
          ]
        },
        {
          role: "assistant",
          content: "",
          refusal: null,
          reasoning_content: "hmm",
          tool_calls: [
            { id: "a", type: "function", index: 0, function: { arguments: `{ "x":1.0}`, name: "f" } },
            { id: "b", type: "function", function: { name: "g", arguments: "" } }
          ]
        },
        { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "1" }] },
        { role: "tool", name: "f", tool_call_id: "a", content: "" },
        { role: "assistant", content: null, refusal: "I cannot." }
      ]
      const self = yield* OpenAiMessages.toConversation(foreign, { tokenLimit: 100 })
      same(yield* render(self), foreign)
      assert.deepStrictEqual(Conversation.tokenLimit(self), Option.some(100))
      const calls = Conversation.messages(self).flatMap((m) => (m.role === "assistant" ? Message.toolCalls(m) : []))
      assert.deepStrictEqual(
        calls.map(({ arguments: args, text }) => ({ args, text })),
        [
          { args: { x: 1 }, text: `{ "x":1.0}` },
          { args: {}, text: "" }
        ]
      )
      assert.deepStrictEqual(
        Conversation.messages(self).flatMap((m) => (m.role === "tool" ? [m.callId] : [])),
        ["a", "b"]
      )
    })
  )

  it.effect("flat calls, object arguments, missing arguments, empty lists of calls: written as OpenAI wants them", () =>
    Effect.gen(function* () {
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
  )

  const user = { role: "user", content: "x" }
  const asks = { role: "assistant", tool_calls: [{ id: "a", name: "f", arguments: {} }] }
  const result = { role: "tool", tool_call_id: "a", content: "r" }

  it.effect("unlawful histories are refused with the index of the message", () =>
    Effect.gen(function* () {
      const cases: ReadonlyArray<readonly [ConversationError.Reason["_tag"], number, ReadonlyArray<unknown>]> = [
        ["UnknownRole", 1, [user, { role: "bot", content: "x" }]],
        ["MisplacedSystem", 1, [user, { role: "system", content: "x" }]],
        ["OrphanResult", 1, [user, result]],
        ["DuplicateResult", 3, [user, asks, result, result]],
        ["OpenCalls", 2, [user, asks, user]],
        ["RepeatedCallId", 1, [user, { role: "assistant", tool_calls: [...asks.tool_calls, ...asks.tool_calls] }]],
        ["NameMismatch", 2, [user, asks, { ...result, name: "g" }]],
        ["EmptyContent", 0, [{ role: "user", content: "" }]],
        ["EmptyContent", 0, [{ role: "user", content: [] }]],
        ["MissingCallId", 2, [user, asks, { ...result, tool_call_id: "" }]]
      ]
      for (const [tag, index, foreign] of cases) {
        const error = yield* Effect.flip(OpenAiMessages.toConversation(foreign))
        assert(error instanceof ConversationError.ConversationError, error.message)
        assert.strictEqual(error.reason._tag, tag)
        assert.strictEqual("index" in error.reason ? error.reason.index : undefined, index)
        assert.include(error.message, `message ${index}`)
      }
    })
  )

  it.effect("other forms are refused with the path, more than the limits before they are looked at", () =>
    Effect.gen(function* () {
      const issues = (foreign: unknown) =>
        Effect.map(Effect.flip(OpenAiMessages.toConversation(foreign)), (error) => {
          assert(error instanceof PayloadError.PayloadError)
          assert(error.reason._tag === "Invalid", error.message)
          return error.reason.issues.map(({ path }) => path)
        })
      assert.deepStrictEqual(yield* issues({ messages: [] }), [""])
      assert.deepStrictEqual(yield* issues([user, { role: "tool", content: "x" }]), ["/1/tool_call_id"])
      assert.deepStrictEqual(yield* issues([{ role: "user", content: [{ type: "text" }] }]), ["/0/content/0/text"])
      assert.deepStrictEqual(yield* issues([user, { ...asks, function_call: { name: "f" } }]), ["/1/function_call"])
      assert.include(yield* issues([user, { ...asks, tool_calls: [7] }]), "/1/tool_calls/0")

      const tooMany = yield* Effect.flip(
        OpenAiMessages.toConversation([user, user, user], { limits: { maxMessages: 2 } })
      )
      assert(tooMany instanceof PayloadError.PayloadError)
      assert.strictEqual(tooMany.reason._tag, "TooLarge")
      const forbidden = yield* Effect.flip(
        OpenAiMessages.toConversation(JSON.parse(`[{"role":"user","content":"x","__proto__":{}}]`))
      )
      assert(forbidden instanceof PayloadError.PayloadError)
      assert.strictEqual(forbidden.reason._tag, "ForbiddenKey")
    })
  )

  it.effect("a history that ends in open calls is read, and written once they are answered", () =>
    Effect.gen(function* () {
      const open = yield* OpenAiMessages.toConversation([user, asks])
      assert.deepStrictEqual(pluck(Conversation.openCalls(open), "id"), ["a"])
      assert.strictEqual((yield* reasonOf(open))._tag, "UnansweredCalls")
      yield* render(yield* Conversation.seal(open))
    })
  )
})

describe("CONV-4 what OpenAI refuses is never written", () => {
  it.effect("each refusal names the message", () =>
    Effect.gen(function* () {
      const base = yield* Conversation.addUser(Conversation.empty, "go")
      const image = ToolResult.filePart({ mediaType: "image/png", data: "AQID" })
      const provider = Message.toolCallPart({ id: "p", name: "web_search", arguments: {}, providerExecuted: true })
      const cases: ReadonlyArray<readonly [RenderError.Reason["_tag"], number, Conversation.Conversation]> = [
        ["EmptySystem", 0, yield* Conversation.make({ system: "" })],
        ["EmptyMessage", 1, yield* Conversation.addAssistant(base, "")],
        ["EmptyMessage", 1, yield* Conversation.addAssistant(base, [])],
        ["EmptyMessage", 1, yield* Conversation.addAssistant(base, [Message.reasoningPart("hm")])],
        ["UnansweredCalls", 1, yield* Conversation.addAssistant(base, [call()])],
        ["InvalidArguments", 1, yield* answered(call({ arguments: [1] }))],
        ["InvalidArguments", 1, yield* answered(call({ arguments: "{bad", text: "{bad" }))],
        ["InvalidArguments", 1, yield* answered(call({ arguments: null }))],
        ["UnsupportedContent", 1, yield* Conversation.addAssistant(base, [image])],
        ["UnsupportedContent", 1, yield* Conversation.addAssistant(base, [provider])],
        ["UnsupportedContent", 2, yield* answered(call(), ToolResult.success(null, [image]))],
        [
          "UnsupportedContent",
          1,
          yield* Conversation.addUser(base, [ToolResult.filePart({ mediaType: "video/mp4", data: "AQID" })])
        ],
        [
          "UnsupportedContent",
          1,
          yield* Conversation.addUser(base, [
            ToolResult.filePart({ mediaType: "application/pdf", data: new URL("https://example.com/a.pdf") })
          ])
        ]
      ]
      for (const [tag, index, self] of cases) {
        const reason = yield* reasonOf(self)
        assert.strictEqual(reason._tag, tag, reason.message)
        assert.strictEqual(reason.index, index)
        assert.include(reason.message, `message ${index}`)
      }
    })
  )

  it.effect("options choose what becomes of reasoning, arguments, files in results and names", () =>
    Effect.gen(function* () {
      const thought = yield* Conversation.addUser(Conversation.empty, "go").pipe(
        Effect.flatMap(Conversation.addAssistant([Message.reasoningPart("hm"), ToolResult.textPart("Yes")]))
      )
      assert.deepStrictEqual((yield* render(thought))[1], { role: "assistant", content: "Yes" })
      assert.strictEqual((yield* reasonOf(thought, { reasoning: "refuse" }))._tag, "UnsupportedReasoning")

      const image = ToolResult.filePart({ mediaType: "image/png", data: "AQID", fileName: "a.png" })
      const messages = yield* render(
        yield* answered(call({ arguments: "{bad", text: "{bad" }), ToolResult.success(null, [image])),
        { invalidArguments: "wrap", toolFiles: "describe", toolName: (name) => `x_${name}` }
      )
      assert.deepStrictEqual(messages.slice(1), [
        {
          role: "assistant",
          content: null,
          tool_calls: [
            {
              id: "a",
              type: "function",
              function: { name: "x_search", arguments: `{"invalid_arguments":"{bad"}` }
            }
          ]
        },
        { role: "tool", content: "[image/png a.png omitted]", tool_call_id: "a" }
      ])
    })
  )

  it.effect("what was noted of a message is not used once the message says something else, or breaks a rule", () =>
    Effect.gen(function* () {
      const [first] = Conversation.messages(
        yield* OpenAiMessages.toConversation([{ name: "ada", role: "user", content: "Secret" }])
      )
      assert(first?.role === "user")
      const edited = Result.getOrThrow(
        Conversation.fromMessages([{ ...first, content: [ToolResult.textPart("Public")] }])
      )
      same(yield* render(edited), [{ name: "ada", role: "user", content: "Public" }])

      const forged = (delta: Schema.Json, form?: string) =>
        Effect.gen(function* () {
          const metadata = { "effect-emissary/openai": { delta, ...(form === undefined ? undefined : { form }) } }
          const base = yield* Conversation.addUser(Conversation.empty, "go")
          const asked = yield* Conversation.addAssistant(base, [call()], { metadata })
          return (yield* render(
            yield* Conversation.addToolResult(asked, { callId: "a", result: ToolResult.success("x") })
          ))[1]
        })
      const plain = yield* forged(null)
      for (const delta of [
        { value: { role: "user", content: "hi" } },
        { value: "nonsense" },
        { inner: { content: { value: "put into its mouth" } } },
        { keys: ["role", "content"] },
        { add: { tool_calls: [] }, keys: ["role", "content", "tool_calls"] },
        {
          inner: {
            tool_calls: { items: { "0": { inner: { function: { inner: { arguments: { value: { q: 1 } } } } } } } }
          }
        },
        { inner: { tool_calls: { items: { "0": { inner: { id: { value: "b" } } } } } } },
        { inner: { content: { value: [{ type: "text", text: "" }] } } }
      ]) {
        assert.deepStrictEqual(yield* forged(delta), plain, JSON.stringify(delta))
      }
      assert.deepStrictEqual(yield* forged({ add: { x: 1 }, keys: ["x", "tool_calls", "role", "content"] }), {
        ...plain,
        x: 1
      })
    })
  )

  it.effect("the codec embeds in other schemas and says why it refuses", () =>
    Effect.gen(function* () {
      const Request = Schema.Struct({ messages: OpenAiMessages.OpenAiMessages })
      const foreign = { messages: [{ name: "ada", role: "user", content: "Hi" }] }
      const request = yield* Schema.decodeEffect(Request)(foreign)
      assert(Conversation.isConversation(request.messages))
      same(yield* Schema.encodeEffect(Request)(request), foreign)
      const refused = yield* Effect.flip(Schema.decodeEffect(Request)({ messages: [{ role: "tool" }] }))
      assert.include(refused.message, "/0/tool_call_id")
      const unsendable = yield* Effect.flip(
        Schema.encodeEffect(Request)({ messages: yield* Conversation.addAssistant(Conversation.empty, "") })
      )
      assert.include(unsendable.message, "Empty assistant message, message 0")
    })
  )

  it.effect("CONV-4 CONV-8 a foreign history that breaks laws is refused, or repaired with a report", () =>
    Effect.gen(function* () {
      const foreign = [
        { role: "user", content: "Weather?" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "c1", type: "function", function: { name: "weather", arguments: "{}" } }]
        },
        { role: "user", content: "Never mind." },
        { role: "tool", tool_call_id: "c9", content: "sunny" }
      ]
      assert.strictEqual((yield* Effect.flip(OpenAiMessages.toConversation(foreign)))._tag, "ConversationError")
      const { conversation, repairs } = yield* OpenAiMessages.toConversation(foreign, { onUnlawful: "repair" })
      assert.strictEqual(repairs[0]?._tag, "CallSealed")
      assert.deepStrictEqual(pluck(Conversation.messages(conversation), "role"), ["user", "assistant", "tool", "user"])
    })
  )
})
