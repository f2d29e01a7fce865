/** RIGHT-9: context windows beside numbers that providers report, and the size of requests. RIGHT-10: what the event of a view holds. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentError,
  ContextWindow,
  Conversation,
  Message,
  Run,
  TokenCounter,
  ToolResult,
  VersionedStore
} from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"

const big = { inputTokens: 60_000, outputTokens: 5 }
const small = { inputTokens: 100, outputTokens: 5 }
const threshold = 20_000
const contextWindow = ContextWindow.truncate({ above: threshold })
const image = (bytes: number) => ToolResult.filePart({ mediaType: "image/png", data: new Uint8Array(bytes) })
const roles = (request: ScriptedModel.Request | undefined) => request?.prompt.content.map(({ role }) => role)

/** A session whose agent has this contextWindow, on a store of its own. */
const hosted = (policy: ContextWindow.Policy, script: ScriptedModel.Script) =>
  Session.layer([Agent.make("a", { instructions: "i", contextWindow: policy })]).pipe(
    Layer.provide(VersionedStore.layerMemory),
    Layer.provideMerge(ScriptedModel.layer(script))
  )

const compacting = (summaries: Array<number>) =>
  ContextWindow.summarize({
    above: threshold,
    summarize: (old) => Effect.sync(() => (summaries.push(Conversation.messageCount(old)), "sum"))
  })

describe("RIGHT-9 reports that are too large", () => {
  const once: ScriptedModel.Script = ({ index }) => ({ text: `answer ${index}`, usage: index === 1 ? big : small })

  test("RIGHT-9 L11 a chat continues after one of them, with at most one summary", function* () {
    const summaries: Array<number> = []
    for (const policy of [contextWindow, compacting(summaries)]) {
      yield* Effect.gen(function* () {
        for (const text of ["one", "two", "three", "four", "five"]) {
          assert.strictEqual((yield* Session.turn("s", text)).outcome, "Completed")
        }
        assert.strictEqual((yield* ScriptedModel.requests).length, 5)
      }).pipe(Effect.provide(hosted(policy, once)))
    }
    assert.isAtMost(summaries.length, 1)
  })

  test("RIGHT-9 a tool loop continues, and nothing of it is removed", function* () {
    const Look = Toolkit.make(Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String }))
    const agent = Agent.make("a", { instructions: "i", toolkit: Look, contextWindow })
    yield* Effect.gen(function* () {
      const result = yield* agent.run("go")
      assert.strictEqual(result.text, "end")
      assert.deepStrictEqual(roles((yield* ScriptedModel.requests)[1]), ["system", "user", "assistant", "tool"])
    }).pipe(
      Effect.provide([
        Look.toLayer({ look: () => Effect.succeed("seen") }),
        ScriptedModel.layer([
          { toolCalls: [{ name: "look", params: {} }], usage: big },
          { text: "end", usage: small }
        ])
      ])
    )
  })

  test("RIGHT-9 resumed with another contextWindow, and by another model", function* () {
    const agent = Agent.make("a", {})
    const resumed = Effect.gen(function* () {
      const { state } = yield* agent.run("one")
      const result = yield* agent.resume(state, { input: "two", contextWindow })
      assert.strictEqual(result.outcome, "Completed")
    })
    yield* Effect.provide(
      resumed,
      ScriptedModel.layer([
        { text: "x", usage: big },
        { text: "y", usage: small }
      ])
    )
  })

  test("RIGHT-9 the turn that caused one is removed, and others stay", function* () {
    const chat = Effect.gen(function* () {
      let self = yield* Conversation.make({ system: "s".repeat(4000) })
      self = yield* Conversation.addUser(self, [ToolResult.textPart("a document"), image(10)])
      self = yield* Conversation.addAssistant(self, "read", { usage: { inputTokens: 26_000, outputTokens: 5 } })
      self = yield* Conversation.addUser(self, "next")
      self = yield* Conversation.addAssistant(self, "done", { usage: { inputTokens: 26_020, outputTokens: 5 } })
      return yield* Conversation.addUser(self, "last")
    })
    const { conversation, report } = yield* Conversation.truncate(yield* chat, { maxTokens: threshold })
    assert.deepStrictEqual(
      report.removed.map(({ role }) => role),
      ["user", "assistant"]
    )
    assert.deepStrictEqual(Conversation.messages(conversation).slice(1).map(Message.text), ["next", "done", "last"])
    assert.strictEqual(report.after, yield* Conversation.estimatedSize(conversation))
  })

  test("RIGHT-9 what no message explains is left out where the messages fit by the estimate, and only there", function* () {
    let self = yield* Conversation.addUser(Conversation.empty, "one")
    self = yield* Conversation.addAssistant(self, [Message.toolCallPart({ id: "c", name: "f", arguments: {} })], {
      usage: big
    })
    self = yield* Conversation.addToolResult(self, { callId: "c", result: ToolResult.success("x") })
    const { conversation, report } = yield* Conversation.truncate(self, { maxTokens: threshold })
    assert.deepStrictEqual([report.removed, report.shortened], [[], []])
    assert.isBelow(yield* Conversation.estimatedSize(conversation), 100)
    const error = yield* Effect.flip(Conversation.truncate(self, { maxTokens: 5 }))
    assert.isBelow(error.needed, 100)
  })
})

describe("RIGHT-9 reports that are too small", () => {
  const words = "word ".repeat(200)
  const sized =
    (usageOf: (size: number) => Message.TokenUsage): ScriptedModel.Script =>
    ({ prompt }) => ({
      text: words,
      usage: usageOf(Math.ceil(JSON.stringify(prompt.content).length / 4))
    })

  for (const [what, usageOf] of [
    ["below its own cached part", (n: number) => ({ inputTokens: 5, cacheReadTokens: n, outputTokens: 200 })],
    ["of one token", () => ({ inputTokens: 1, outputTokens: 1 })],
    ["of what was not cached", (n: number) => ({ inputTokens: Math.ceil(n / 50), outputTokens: 200 })]
  ] as const) {
    test(`RIGHT-9 a report ${what} is not believed`, function* () {
      for (const policy of [
        ContextWindow.truncate({ above: 1000 }),
        ContextWindow.summarize({ above: 1000, summarize: () => Effect.succeed("sum") })
      ]) {
        yield* Effect.gen(function* () {
          for (let n = 0; n < 16; n++) yield* Session.turn("s", `question ${n}`)
          for (const { prompt } of yield* ScriptedModel.requests) {
            assert.isAtMost(yield* Effect.flatMap(Conversation.fromPrompt(prompt), Conversation.estimatedSize), 1000)
          }
        }).pipe(Effect.provide(hosted(policy, sized(usageOf))))
      }
    })
  }

  test("RIGHT-9 one that is right is believed: pictures that weigh less than their estimate", function* () {
    let self = yield* Conversation.addUser(Conversation.empty, [image(1), image(1), image(1)])
    self = yield* Conversation.addAssistant(self, "seen", { usage: { inputTokens: 300, outputTokens: 5 } })
    assert.strictEqual(yield* Conversation.estimatedSize(self), 305)
  })
})

describe("RIGHT-9 limits in bytes and files", () => {
  test("RIGHT-9 L11 a chat with pictures stays below the size of requests, by default 20 MB", function* () {
    for (const [policy, pictures, size] of [
      [ContextWindow.truncate({ above: 1_000_000 }), 7, 3_000_000],
      [ContextWindow.truncate({ above: 1_000_000, maxBytes: 5000 }), 14, 750],
      [ContextWindow.summarize({ above: 1_000_000, maxFiles: 5, summarize: () => Effect.succeed("sum") }), 14, 1]
    ] as const) {
      const agent = Agent.make("a", { contextWindow: policy })
      yield* Effect.gen(function* () {
        const picture = image(size)
        let { state } = yield* agent.run([picture])
        for (let n = 1; n < pictures; n++) state = (yield* agent.resume(state, { input: [picture] })).state
        const sent = yield* ScriptedModel.requests
        assert.strictEqual(sent.length, pictures)
        for (const { prompt } of sent) {
          const files = prompt.content.flatMap(({ content }) =>
            typeof content === "string" ? [] : content.filter((part: { readonly type: string }) => part.type === "file")
          )
          assert.isAtMost(files.length, 5)
        }
      }).pipe(Effect.provide(ScriptedModel.layer(() => ({ text: "ok" }))))
    }
  })

  test("RIGHT-9 a view has room to grow: it is not made anew for each message", function* () {
    const events: Array<Run.Event> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
    const agent = Agent.make("a", { contextWindow: ContextWindow.truncate({ above: 1_000_000, maxFiles: 10 }) })
    yield* Effect.gen(function* () {
      let { state } = yield* agent.run([image(1)])
      for (let n = 0; n < 30; n++) state = (yield* agent.resume(state, { input: [image(1)], onEvent })).state
    }).pipe(Effect.provide(ScriptedModel.layer(() => ({ text: "ok" }))))
    const count = events.filter(({ _tag }) => _tag === "ConversationFitted").length
    assert.isTrue(count > 0 && count < 10, `${count}`)
  })

  test("RIGHT-9 the error of a message that passes one by itself names it", ScriptedModel.layer([]), function* () {
    const agent = Agent.make("a", { contextWindow: ContextWindow.truncate({ above: 1_000_000, maxBytes: 1000 }) })
    const error = yield* failsMidway("ContextWindowFailed", agent.run([image(3000)]))
    assert.match(error.message, /expected at most 1000 bytes .* got 4000\. Raise maxBytes/)
    const cause = AgentError.causeOf(error.reason)
    assert(cause._tag === "Some" && Schema.is(Conversation.ConversationTooLarge)(cause.value))
    assert.strictEqual(cause.value.unit, "bytes")
  })
})

describe("RIGHT-10 the event of a view", () => {
  const characters = TokenCounter.layer({ count: (text) => text.length })

  test("RIGHT-10 names messages by id: of its content only a summary and shortened results are new", function* () {
    const Read = Toolkit.make(Tool.make("read", { success: Schema.String }))
    const events: Array<Run.Event> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void events.push(event))
    for (const policy of [
      ContextWindow.truncate({ above: 4000, to: 3900, keepOutput: 20 }),
      ContextWindow.summarize({ above: 4000, summarize: () => Effect.succeed("THE SUMMARY") })
    ]) {
      events.length = 0
      const agent = Agent.make("a", { instructions: "INSTRUCTIONS", toolkit: Read, contextWindow: policy })
      yield* Effect.gen(function* () {
        let { state } = yield* agent.run("TEXT 0", { onEvent })
        for (let n = 1; n < 5; n++) state = (yield* agent.resume(state, { input: `TEXT ${n}`, onEvent })).state
        const json = yield* Run.eventsCodec.encode(events)
        const fitted = events.filter(({ _tag }) => _tag === "ConversationFitted")
        assert.isAbove(fitted.length, 0)
        for (const event of fitted) {
          assert(event._tag === "ConversationFitted")
          const news = event.view.filter((one) => typeof one !== "string")
          assert.strictEqual(news.length, event.report.shortened.length + (event.report.summary === undefined ? 0 : 1))
        }
        const text = JSON.stringify(json)
        for (const once of ["INSTRUCTIONS", ...[0, 1, 2, 3, 4].map((n) => `TEXT ${n}`)]) {
          assert.strictEqual(text.split(`${once}"`).length, 2, once)
        }
        // The view is made again from the events
        const folded = yield* Effect.fromResult(Run.fold(yield* Run.eventsCodec.decode(json)))
        assert.deepStrictEqual(
          Conversation.messages(folded.view ?? Conversation.empty),
          Conversation.messages(state.view ?? Conversation.empty)
        )
        assert.deepStrictEqual(yield* Run.stateCodec.encode(folded), yield* Run.stateCodec.encode(state))
      }).pipe(
        Effect.provide([
          characters,
          Read.toLayer({ read: () => Effect.succeed("x".repeat(1000)) }),
          ScriptedModel.layer(({ index }) =>
            index % 2 === 0 ? { toolCalls: [{ id: `c${index}`, name: "read", params: {} }] } : { text: "ok" }
          )
        ])
      )
    }
  })

  test("RIGHT-10 L11 a session with pictures and a context window answers each message with one model call", function* () {
    for (const policy of [
      ContextWindow.truncate({ above: 16_100, to: 16_000 }),
      ContextWindow.summarize({ above: 16_100, keepRecent: 9, summarize: () => Effect.succeed("sum") })
    ]) {
      yield* Effect.gen(function* () {
        const picture = image(750_000)
        for (let n = 0; n < 14; n++) {
          const result = yield* Session.turn("s", n < 12 ? [ToolResult.textPart(`m${n}`), picture] : "plain text")
          assert.strictEqual(result.outcome, "Completed")
        }
        assert.strictEqual((yield* ScriptedModel.requests).length, 14)
      }).pipe(Effect.provide(hosted(policy, () => ({ text: "ok" }))))
    }
  })
})
