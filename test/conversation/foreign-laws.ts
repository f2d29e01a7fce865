/** The laws of each foreign form of a conversation, for every provider. */
import { assert, describe } from "@effect/vitest"
import { type Arbitrary, Effect, Result, Schema } from "effect"
import { Conversation, ConversationError, Message, PayloadError, ToolResult } from "effect-emissary"
import { type OpenAiMessages, RenderError } from "effect-emissary/interop"
import { Arbitraries } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { wellFormed } from "../well-formed.ts"
import { test } from "../test.ts"
import * as given from "./given.ts"
import { heldBy, sendableTo } from "./foreign-transcript.ts"

export interface Format<Foreign> {
  readonly name: "openai" | "anthropic" | "openai-responses"
  readonly codec: Schema.Codec<Conversation.Conversation, Schema.Json>
  readonly foreign: Arbitrary.Arbitrary<Foreign>
  /** The violations that the provider refuses. */
  readonly rules: (foreign: unknown) => ReadonlyArray<string>
  readonly read: typeof OpenAiMessages.toConversation
  readonly write: (
    self: Conversation.Conversation,
    lenience?: "lenient" | "strict"
  ) => Result.Result<unknown, RenderError.RenderError>
}

/** The reader and the writer of a module, for the tests of its own. */
export const inUse = <Options, Foreign>(module: {
  readonly toConversation: typeof OpenAiMessages.toConversation
  readonly fromConversation: (
    self: Conversation.Conversation,
    options?: Options
  ) => Result.Result<Foreign, RenderError.RenderError>
}) => {
  const render = (self: Conversation.Conversation, options?: Options) =>
    Effect.fromResult(module.fromConversation(self, options))
  return {
    render,
    again: (foreign: unknown) => Effect.flatMap(module.toConversation(foreign), (self) => render(self)),
    reasonOf: (self: Conversation.Conversation, options?: Options) =>
      Effect.map(Effect.flip(render(self, options)), ({ reason }) => reason)
  }
}

export const same = (actual: unknown, expected: unknown) =>
  assert.deepStrictEqual(JSON.parse(JSON.stringify(actual)), JSON.parse(JSON.stringify(expected)))

export const call = (args: Partial<Message.ToolCallPart> = {}) =>
  given.call("a", { name: "search", arguments: { q: 1 }, ...args })

/** A call of a tool and its result. */
export const answered = (part: Message.ToolCallPart, result: ToolResult.ToolResult = ToolResult.success("found")) =>
  given.chat(
    Conversation.addUser("go"),
    Conversation.addAssistant([part]),
    Conversation.addToolResult({ callId: part.id, result })
  )

/** Histories of another form with the paths at which they are refused, and one of more messages than the limit. */
export const refusesForms = <Foreign>(
  { read }: Format<Foreign>,
  forms: ReadonlyArray<readonly [foreign: unknown, ...paths: ReadonlyArray<string>]>,
  long: unknown
) =>
  test("other forms are refused with the path, more than the limits before they are looked at", function* () {
    const refused = Effect.fnUntraced(function* (...args: Parameters<typeof read>) {
      const error = yield* Effect.flip(read(...args))
      return error instanceof PayloadError.PayloadError ? error.reason : assert.fail(error.message)
    })
    for (const [foreign, ...paths] of forms) {
      const reason = yield* refused(foreign)
      assert(reason._tag === "Invalid", reason._tag)
      assert.deepStrictEqual(pluck(reason.issues, "path"), paths)
    }
    assert.strictEqual((yield* refused(long, { limits: { maxMessages: 1 } }))._tag, "TooLarge")
    const forbidden = JSON.parse(`{"messages":[{"role":"user","content":"x","__proto__":{}}]}`)
    assert.strictEqual((yield* refused(forbidden))._tag, "ForbiddenKey")
  })

/** Histories that break a law, the reason and the index of the message. */
export type Unlawful = readonly [ConversationError.Reason["_tag"], number, unknown]

export const refusesUnlawful = <Foreign>({ read }: Format<Foreign>, cases: ReadonlyArray<Unlawful>) => {
  for (const [tag, index, foreign] of cases) {
    test(`${tag}: an unlawful history is refused with the index ${index} of the message`, function* () {
      const error = yield* Effect.flip(read(foreign))
      assert(error instanceof ConversationError.ConversationError, error.message)
      assert.strictEqual(error.reason._tag, tag)
      assert.strictEqual("index" in error.reason ? error.reason.index : undefined, index)
      assert.include(error.message, `at /messages/${index}`)
    })
  }
}

/** Why a conversation cannot be written, the index of the message, and the conversation. */
export type Unsendable = readonly [
  RenderError.Reason["_tag"],
  number,
  Effect.Effect<Conversation.Conversation, unknown>
]

const errorCodec = Schema.toCodecJson(RenderError.RenderError)

export const base = Effect.runSync(Conversation.addUser(Conversation.empty, "go"))

export const image = ToolResult.filePart({ mediaType: "image/png", data: "AQID", fileName: "a.png" })

/** Checks the histories that both providers refuse, and the histories that only this provider refuses. */
export const refusesUnsendable = <Foreign>({ write }: Format<Foreign>, own: ReadonlyArray<Unsendable>) => {
  const shared: ReadonlyArray<Unsendable> = [
    ["UnansweredCalls", 1, Conversation.addAssistant(base, [call()])],
    ["UnsupportedContent", 1, Conversation.addAssistant(base, [image])],
    ["UnsupportedContent", 1, Conversation.addAssistant(base, [given.own("p")])]
  ]
  test("SOUND-5 what says nothing is left out, as in prompts", function* () {
    const asked = yield* Effect.fromResult(write(base))
    const made = [
      given.chat(given.system(""), Conversation.addUser("go")),
      Conversation.addAssistant(base, ""),
      Conversation.addAssistant(base, []),
      Conversation.addAssistant(base, [Message.reasoningPart("hm")])
    ]
    for (const self of yield* Effect.all(made)) {
      same(yield* Effect.fromResult(write(self)), asked)
      assert.deepStrictEqual(
        Conversation.toPrompt(self).content.map(({ role }) => role),
        ["user"]
      )
    }
  })

  test("arguments that are no object are refused if asked for", function* () {
    for (const part of [
      call({ arguments: [1] }),
      call({ arguments: "{bad", text: "{bad" }),
      call({ arguments: null })
    ]) {
      const error = yield* Effect.flip(Effect.fromResult(write(yield* answered(part), "strict")))
      assert.strictEqual(error.reason._tag, "InvalidArguments")
      assert(Result.isSuccess(write(yield* answered(part))))
    }
  })

  test("each refusal names the message", function* () {
    for (const [tag, index, made] of [...shared, ...own]) {
      const error = yield* Effect.flip(Effect.fromResult(write(yield* made)))
      assert.strictEqual(error.reason._tag, tag, error.message)
      assert.strictEqual(error.reason.index, index)
      assert.include(error.message, `message ${index}`)
      // Errors travel as JSON (L4)
      const back = yield* Schema.decodeEffect(errorCodec)(yield* Schema.encodeEffect(errorCodec)(error))
      assert.strictEqual(back.message, error.message)
    }
  })
}

/** The codec of a format in another schema: a user message "Hi", one of another form with its path, and histories that break laws: the last one with the result of its call behind the next question. */
export const embeds = <Foreign>(
  { codec, read, write }: Format<Foreign>,
  foreign: Schema.Json,
  [malformed, path]: readonly [Schema.Json, string],
  unlawful: Schema.Json,
  lateResult: Schema.Json
) => {
  const Request = Schema.Struct({ messages: codec })

  test("the codec embeds in other schemas and reports a reason", function* () {
    const request = yield* Schema.decodeEffect(Request)({ messages: foreign })
    assert(Conversation.isConversation(request.messages))
    same(yield* Schema.encodeEffect(Request)(request), { messages: foreign })
    const refused = yield* Effect.flip(Schema.decodeEffect(Request)({ messages: malformed }))
    assert.include(refused.message, path)
    const messages = yield* Conversation.addAssistant(Conversation.empty, [call()])
    assert.include((yield* Effect.flip(Schema.encodeEffect(Request)({ messages }))).message, "message 0")
  })

  test("the note of a message is not used once the message is another one", function* () {
    const [first] = Conversation.messages(yield* read(foreign))
    assert(first?.role === "user")
    const content = [ToolResult.textPart("Public")] as const
    const edited = Result.getOrThrow(Conversation.fromMessages([{ ...first, content }]))
    same(yield* Effect.fromResult(write(edited)), JSON.parse(JSON.stringify(foreign).replace("Hi", "Public")))
  })

  test("CONV-4 CONV-8 a foreign history that breaks laws is refused, or repaired with a report", function* () {
    assert.strictEqual((yield* Effect.flip(read(unlawful)))._tag, "ConversationError")
    const { conversation, repairs } = yield* read(unlawful, { onUnlawful: "repair" })
    assert.strictEqual(repairs[0]?._tag, "CallSealed")
    const late = yield* read(lateResult, { onUnlawful: "repair" })
    assert.deepStrictEqual(pluck(late.repairs, "_tag"), ["ResultMoved"])
    assert.include(Message.text(Conversation.messages(late.conversation)[2] ?? assert.fail()), "THE REAL RESULT")
    assert.deepStrictEqual(pluck(Conversation.messages(conversation), "role"), ["user", "assistant", "tool", "user"])
  })
}

const runs = { arbitrary: { runs: 300 } }

export const laws = <Foreign>(format: Format<Foreign>) => {
  const { foreign, name, read, rules, write } = format
  const render = (self: Conversation.Conversation) => Effect.fromResult(write(self))

  describe(`CONV-4 messages of ${name}, laws`, () => {
    test.prop(
      "to(from(x)) equals x as JSON, for every lawful history, also when the conversation was stored in between",
      [foreign],
      function* ([foreign]) {
        assert.deepStrictEqual(rules(foreign), [])
        const self = yield* read(foreign)
        const again = yield* Conversation.codec.decodeJson(yield* Conversation.codec.encodeJson(self))
        const [written, afterwards] = [yield* render(self), yield* render(again)]
        // RIGHT-4: half a character is mended, and its message is no longer the message of its note
        if (JSON.stringify(wellFormed(foreign)) !== JSON.stringify(foreign)) {
          return same([written, afterwards], wellFormed([written, afterwards]))
        }
        same(written, foreign)
        same(afterwards, foreign)
      },
      runs
    )

    test.prop(
      "from(to(c)) says what c says, as far as the format can hold it",
      [Arbitraries.conversation({ open: false, sendable: true })],
      function* ([given]) {
        const self = yield* sendableTo(name, given)
        const messages = yield* render(self)
        assert.deepStrictEqual(rules(messages), [])
        const back = yield* read(messages)
        assert.deepStrictEqual(Conversation.transcript(back), heldBy(name, self))
        same(yield* render(back), messages)
      },
      runs
    )

    test.prop(
      "whatever the conversation, what is written keeps the rules, and what is not is an error that names a message",
      [Arbitraries.conversation(), Schema.Boolean],
      function* ([self, lenient]) {
        const result = write(self, lenient ? "lenient" : "strict")
        if (Result.isSuccess(result)) return assert.deepStrictEqual(rules(result.success), [])
        const { index, id } = result.failure.reason
        assert.strictEqual(Conversation.messages(self)[index]?.id, id)
      },
      runs
    )
  })
}
