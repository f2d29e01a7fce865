/** RIGHT-4: half an emoji, of a model, a tool or a user, is U+FFFD before it is stored, digested or sent. The servers refuse it. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Fiber, Layer, Result, Schema, Stream } from "effect"
import { LanguageModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, AgentEvent, Conversation, Message, ToolResult, VersionedStore } from "effect-emissary"
import { AnthropicMessages, OpenAiMessages } from "effect-emissary/interop"
import { Digest } from "effect-emissary/payload"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { decide } from "../decisions.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { accepted, connect, providers, type Provider } from "./providers.ts"
import { answer, call, text } from "./replies.ts"
import { isWellFormed } from "./server.ts"

const half = "\ud83d"
const whole = "\ufffd"

const Cut = Tool.make("cut", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.Json })
const toolkit = Toolkit.make(Cut)
const cutter = Agent.make("cutter", { toolkit })
const received: Array<string> = []
const handlers = toolkit.toLayer({
  cut: ({ text }) =>
    Effect.sync(() => {
      received.push(text)
      return { [`key ${half}`]: `value ${half}`, list: [half] }
    })
})

const replies = [
  answer(text(`I cut ${half}`), call("c1", "cut", { text: `a ${half}` })),
  answer(text(`done ${half}`)),
  answer(text("bye"))
]

/** The JSON of a conversation of today, with halves of characters everywhere. */
const ofToday = Effect.gen(function* () {
  const chat = yield* Conversation.addUser(Conversation.empty, "QQ a")
  const called = yield* Conversation.addAssistant(chat, [
    ToolResult.textPart("QQ b"),
    { type: "tool-call", id: "c0", name: "cut", arguments: { text: "QQ c" }, text: `{"text": "QQ c"}` }
  ])
  const result = ToolResult.success({ "QQ d": "QQ e" })
  const answered = yield* Effect.fromResult(
    Conversation.append(called, yield* Message.tool({ callId: "c0", name: "cut", result }))
  )
  const written = yield* Conversation.codec.encodeJson(yield* Conversation.addAssistant(answered, "QQ f"))
  return yield* Conversation.codec.decodeJson(
    written.replaceAll("QQ", "\\ud83d").replaceAll(`\\"\\ud83d`, `\\"\\\\ud83d`)
  )
})

describe("RIGHT-4 half a character", () => {
  for (const [name, provider] of Object.entries<Provider>(providers)) {
    for (const streamed of [false, true]) {
      test.live(`reaches ${name} as U+FFFD${streamed ? ", streamed" : ""}, and in a history of today`, function* () {
        const { model, server } = yield* connect(provider, replies)
        const run = (input: string, conversation: Conversation.Conversation) =>
          streamed ? AgentEvent.result(cutter.stream(input, { conversation })) : cutter.run(input, { conversation })
        const chat = Effect.gen(function* () {
          const first = yield* endsAs("Completed", run(`go ${half}`, yield* ofToday))
          const last = yield* endsAs("Completed", run("again", first.conversation))
          return last.conversation
        })
        const conversation = yield* chat.pipe(Effect.provide(Layer.merge(handlers, model)), accepted(server))
        assert.isTrue(server.bodies.every(isWellFormed))
        assert.strictEqual(server.bodies.length, 3)
        const made = Conversation.messages(conversation).slice(4)
        assert.isTrue(isWellFormed(JSON.parse(JSON.stringify(made))))
        assert.notInclude(JSON.stringify(made), "ud83d")
        assert.strictEqual(received.at(-1), `a ${whole}`)
      })
    }
  }

  for (const [name, provider] of Object.entries<Provider>(providers)) {
    test.live(`in a prompt that is given to a model reaches ${name} as U+FFFD, and merges no keys`, function* () {
      const { model, server } = yield* connect(provider, [answer(text("bye"))])
      const prompt = (params: Schema.Json) => [
        { role: "system" as const, content: `be ${half}` },
        { role: "user" as const, content: [{ type: "text" as const, text: `go ${half}` }] },
        {
          role: "assistant" as const,
          content: [{ type: "tool-call" as const, id: "c0", name: "cut", params, providerExecuted: false }]
        },
        {
          role: "tool" as const,
          content: [{ type: "tool-result" as const, id: "c0", name: "cut", isFailure: false, result: { [half]: half } }]
        }
      ]
      const send = (params: Schema.Json) =>
        LanguageModel.generateText({ prompt: prompt(params), toolkit, disableToolCallResolution: true }).pipe(
          Effect.provide(model)
        )
      yield* accepted(server)(send({ text: half, [`a ${half}`]: [half] }))
      assert.strictEqual(server.bodies.length, 1)
      assert.isTrue(server.bodies.every(isWellFormed))
      const error = yield* Effect.flip(send({ [half]: 1, "\ud83e": 2 }))
      assert.strictEqual(error.reason._tag, "InvalidRequestError")
      assert.include(error.message, "two that are equal")
      assert.strictEqual(server.bodies.length, 1)
    })
  }

  for (const [name, provider] of Object.entries<Provider>(providers)) {
    test.live(`in the texts of a tool and of an output reaches ${name} as U+FFFD`, function* () {
      const { model, server } = yield* connect(provider, [answer(text('{"n":1}')), answer(text("done"))])
      const cutOff = (words: string) => Schema.String.annotate({ description: `${words} ${half}` })
      const Odd = Tool.make("odd", {
        description: `cut off ${half}`,
        parameters: Schema.Struct({ text: cutOff("words"), kind: Schema.Literals(["a", `b ${half}`]) }),
        success: Schema.String
      })
      const tools = Toolkit.make(Odd)
      const output = Schema.Struct({ n: Schema.Int.annotate({ description: `number ${half}` }) })
      yield* Effect.gen(function* () {
        yield* LanguageModel.generateObject({ prompt: "go", schema: output })
        yield* LanguageModel.generateText({ prompt: "go", toolkit: tools, disableToolCallResolution: true })
      }).pipe(Effect.provide(model), accepted(server))
      assert.strictEqual(server.bodies.length, 2)
      assert.include(JSON.stringify(server.bodies), "cut off")
      assert.isTrue(server.bodies.every(isWellFormed))
    })
  }

  test("may not make two keys equal in what the host adds to a message", function* () {
    const options = { [`a ${half}`]: { n: 1 }, "a \ud83e": { n: 2 } }
    const nested = { deep: [{ [half]: 1, [whole]: 2 }] }
    const place = { type: "text", text: "hi", options: { openai: nested } } as const
    const made = [
      yield* Message.user("hi", { metadata: nested }),
      yield* Message.user("hi", { options }),
      yield* Message.user([place]),
      yield* Message.system("hi", { metadata: nested }),
      yield* Message.assistant("hi", { response: { metadata: options } }),
      { role: "user", id: "m", createdAt: DateTime.makeUnsafe(0), content: [place] } as const
    ]
    for (const message of made) {
      for (const added of [Conversation.append(Conversation.empty, message), Conversation.fromMessages([message])]) {
        assert(Result.isFailure(added))
        assert.strictEqual(added.failure.reason._tag, "EqualKeys")
      }
    }
    const model = ScriptedModel.layer([{ text: "no" }])
    const error = yield* Effect.flip(Agent.make("a").run([place]).pipe(Effect.provide(model)))
    assert.strictEqual(error.reason._tag, "ConversationInvalid")
    const one = yield* Message.user("hi", { metadata: { [half]: 1 } })
    assert.deepStrictEqual(one.metadata, { [whole]: 1 })
    assert.isTrue(Result.isSuccess(Conversation.append(Conversation.empty, one)))
  })

  test("may not make two keys equal in the metadata of an answer", function* () {
    const metadata = { openai: { [half]: 1, "\ud83e": 2 } }
    const model = ScriptedModel.layer([{ text: { text: "odd", metadata } }, { text: "right" }])
    const result = yield* endsAs("Completed", Agent.make("a").run("go").pipe(Effect.provide(model)))
    assert.strictEqual(result.output, "right")
    const slow = ScriptedModel.layer([{ text: { text: "one two three", metadata }, chunkDelay: "1 second" }])
    const events = yield* Stream.runCollect(Agent.make("a").stream("go", { timeouts: { total: "3500 millis" } })).pipe(
      Effect.provide(slow),
      Effect.forkChild
    )
    yield* TestClock.adjust("10 seconds")
    yield* endsAs("Interrupted", AgentEvent.result(Stream.fromIterable(yield* Fiber.join(events))))
  })

  test("is mended in a history of today for other systems, too", function* () {
    const conversation = yield* ofToday
    assert.isFalse(
      isWellFormed(Conversation.messages(conversation).map((message) => JSON.parse(JSON.stringify(message))))
    )
    const openai = yield* Effect.fromResult(OpenAiMessages.fromConversation(conversation))
    const anthropic = yield* Effect.fromResult(AnthropicMessages.fromConversation(conversation))
    assert.isTrue(isWellFormed([openai, anthropic]))
    assert.notInclude(JSON.stringify(openai[1]), "ud83d")
  })

  test("is mended in arguments before they are digested and approved", function* () {
    const Ask = Toolkit.make(
      Tool.make("cut", { parameters: Cut.parametersSchema, success: Schema.String, needsApproval: true })
    )
    const asking = Agent.make("asking", { toolkit: Ask })
    const given: Array<string> = []
    const layer = Ask.toLayer({ cut: ({ text }) => Effect.sync(() => String(given.push(text))) })
    const model = ScriptedModel.layer([
      { toolCalls: [{ id: "c", name: "cut", params: { text: half } }] },
      { text: "x" }
    ])
    yield* Effect.gen(function* () {
      const { state } = yield* endsAs("AwaitingApproval", asking.run("go"))
      const [request] = state.outcome?._tag === "AwaitingApproval" ? state.outcome.requests : []
      assert.deepStrictEqual(request?.arguments, { text: whole })
      yield* Digest.sha256({ ...request, bounds: null })
      yield* endsAs("Completed", asking.resume(state, { decisions: decide(state) }))
      assert.deepStrictEqual(given, [whole])
    }).pipe(Effect.provide([layer, model]))
  })

  test("may not make two keys equal, in arguments and in results", function* () {
    const Any = Toolkit.make(
      Tool.make("t", { parameters: Schema.Record(Schema.String, Schema.Json), success: Schema.Json })
    )
    const ran: Array<unknown> = []
    const layer = Any.toLayer({
      t: (args) => Effect.sync(() => ran.push(args)).pipe(Effect.as({ [half]: 1, "\ud83e": 2 }))
    })
    const calls = [
      { id: "a", name: "t", params: { [half]: 1, "\ud83e": 2 } },
      { id: "b", name: "t", params: { [half]: 1 } }
    ]
    const model = ScriptedModel.layer([{ toolCalls: calls }, { text: "x" }])
    const { conversation } = yield* Agent.make("a", { toolkit: Any })
      .run("go")
      .pipe(Effect.provide([layer, model]))
    const results = Conversation.messages(conversation).flatMap((message) =>
      message.role === "tool" ? [message.result] : []
    )
    assert.deepStrictEqual(ran, [{ [whole]: 1 }])
    assert.deepStrictEqual(
      results.map((result) => (result._tag === "Failure" ? result.type : result.value)),
      ["validation_error", "execution_error"]
    )
    assert.match(ToolResult.text(results[1]!), /two keys that are equal/)
  })

  test("is mended in a message to a session before it is stored", function* () {
    const model = ScriptedModel.layer([{ text: `said ${half}` }])
    const layer = Session.layer([Agent.make("a")]).pipe(
      Layer.provideMerge(VersionedStore.layerMemory),
      Layer.provide(model)
    )
    yield* Effect.gen(function* () {
      const first = yield* Session.turn("s", `hi ${half}`, { messageId: "m" })
      assert.strictEqual(first.text, `said ${whole}`)
      // The same message again is no other one
      const sessions = yield* Session.Session
      yield* sessions.send("s", `hi ${half}`, { messageId: "m" })
      const conversation = yield* sessions.history("s")
      assert.deepStrictEqual(Conversation.messages(conversation).map(Message.text), [`hi ${whole}`, `said ${whole}`])
    }).pipe(Effect.provide(layer))
  })
})
