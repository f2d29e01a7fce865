import * as history from "#src/conversation/internal/history.ts"
import * as reduction from "#src/conversation/internal/reduction.ts"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Ref, Result, Schema } from "effect"
import { LanguageModel, type Prompt, Tool, Toolkit } from "effect/ai"
import { Agent, AgentError, AgentEvent, ContextWindow, Conversation, Message, Run, TokenCounter } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { call } from "./fixtures.ts"
import * as events from "./run-events.ts"
import { pluck } from "../pluck.ts"
import { after } from "../after.ts"
import { endsAs, failsMidway } from "../outcomes.ts"
import { test, testWith } from "../test.ts"

const characters = TokenCounter.layer({ count: (text) => text.length })
const long = "x".repeat(1000)
const asking = (id: string): ScriptedModel.Turn => ({ toolCalls: [call(id, "read", {})] })

const toolkit = Toolkit.make(Tool.make("read", { description: "Reads a lot", success: Schema.String }))
const world = (script: ScriptedModel.Script) =>
  Layer.mergeAll(characters, ScriptedModel.layer(script), toolkit.toLayer({ read: () => Effect.succeed(long) }))
/** Each run calls the tool so many times. */
const many = (calls: number) =>
  world(({ index }) => (index % (calls + 1) < calls ? asking(`c${index}`) : { text: "done" }))
const done = world([{ text: "done" }])
const chatting = world(() => ({ text: "ok" }))

const agent = Agent.make("tester", { instructions: "Test.", toolkit, repeatedCalls: "unlimited" })
const policy = ContextWindow.truncate({ above: 8000, keepOutput: 20 })

/** The size of a request, without tool definitions. */
const weight = (prompt: Prompt.Prompt | undefined) =>
  prompt === undefined ? Effect.succeed(0) : Effect.flatMap(Conversation.fromPrompt(prompt), Conversation.estimatedSize)
const requests = Effect.map(ScriptedModel.requests, (all) => all.map(({ prompt }) => prompt))

const recording = Effect.map(Ref.make<ReadonlyArray<Run.Event>>([]), (ref) => ({
  onEvent: ({ event }: Agent.RecordedEvent) => Ref.update(ref, (all) => [...all, event]),
  events: Ref.get(ref)
}))
const fittings = (all: ReadonlyArray<Run.Event>) => all.filter(({ _tag }) => _tag === "ConversationFitted")

describe("CONV-7 context windows", () => {
  test('CONV-7 is off by default, and with "off"', many(12), function* () {
    const own = Agent.make("tester", { toolkit, contextWindow: policy, repeatedCalls: "unlimited" })
    for (const run of [agent.run("go"), own.run("go", { contextWindow: "unlimited" })]) {
      const result = yield* endsAs("Completed", run)
      assert.isUndefined(result.state.view)
    }
    assert.isAbove(yield* weight((yield* requests).at(-1)), 12_000)
  })

  test(
    "CONV-7 L7 keeps the requests of a run within the threshold, and the conversation whole",
    many(60),
    function* () {
      const { events, onEvent } = yield* recording
      const result = yield* agent.run("go", { contextWindow: policy, maxSteps: "unlimited", onEvent })
      assert.strictEqual(result.text, "done")
      assert.strictEqual(Conversation.messageCount(result.conversation), 2 + 2 * 60 + 1)
      const sent = yield* requests
      assert.strictEqual(sent.length, 61)
      for (const prompt of sent) {
        assert.isAtMost(yield* weight(prompt), 8000)
        assert.strictEqual(prompt.content[0]?.role, "system")
        assert.strictEqual(prompt.content[1]?.role, "user")
      }
      const fitted = fittings(yield* events)
      assert.isAbove(fitted.length, 2)
      // A view lasts for several steps
      assert.isBelow(fitted.length, 30)
    }
  )

  test("CONV-7 L5 the same script makes the same transcript with and without a contextWindow, streamed or not", function* () {
    const transcripts = yield* Effect.forEach(
      [
        agent.run("go").pipe(Effect.map(({ conversation }) => conversation)),
        agent.run("go", { contextWindow: policy }).pipe(Effect.map(({ conversation }) => conversation)),
        AgentEvent.result(agent.stream("go", { contextWindow: policy })).pipe(
          Effect.map(({ conversation }) => conversation)
        )
      ],
      (run) => run.pipe(Effect.map(Conversation.transcript), Effect.provide(many(15)))
    )
    assert.strictEqual(transcripts[0]?.length, 2 + 30 + 1)
    assert.deepStrictEqual(transcripts[1], transcripts[0])
    assert.deepStrictEqual(transcripts[2], transcripts[0])
  })

  test("CONV-7 L3 L5 the events fold to the state, and a run resumed from JSON continues with the same requests", function* () {
    const { events, onEvent } = yield* recording
    const whole = yield* Effect.gen(function* () {
      const { state } = yield* agent.run("go", { contextWindow: policy, onEvent })
      return { state, sent: yield* requests }
    }).pipe(Effect.provide(many(14)))
    assert.isDefined(whole.state.view)

    const stored = yield* Run.eventsCodec.decodeJson(yield* Run.eventsCodec.encodeJson(yield* events))
    const folded = yield* Effect.fromResult(Run.fold(stored))
    const encode = (state: Run.State) => Run.stateCodec.encodeJson(state)
    assert.strictEqual(yield* encode(folded), yield* encode(whole.state))

    const parts = yield* Effect.gen(function* () {
      const first = yield* endsAs("MaxSteps", agent.run("go", { contextWindow: policy, maxSteps: 9 }))
      assert.isDefined(first.state.view)
      const state = yield* Run.stateCodec.decodeJson(yield* encode(first.state))
      yield* endsAs("Completed", agent.resume(state, { contextWindow: policy, maxSteps: 16 }))
      return yield* requests
    }).pipe(Effect.provide(many(14)))
    const shape = (sent: typeof parts) =>
      sent.map(({ content }) => content.map((message) => JSON.stringify(message.content)))
    assert.deepStrictEqual(shape(parts), shape(whole.sent))
  })

  testWith(world(() => ({ text: "ok", usage: { inputTokens: 500, outputTokens: 10 } })))(
    "CONV-7 L10 nothing is fitted twice: reports of the view are trusted, those of the whole are not",
    function* () {
      const conversation = yield* Conversation.make({ system: "Test." }).pipe(
        Effect.flatMap(Conversation.addUser(long.repeat(10))),
        Effect.flatMap(Conversation.addAssistant("ok", { usage: { inputTokens: 10_000, outputTokens: 10 } }))
      )
      const { events, onEvent } = yield* recording
      const first = yield* agent.run("go", { conversation, contextWindow: policy, onEvent })
      assert.strictEqual(fittings(yield* events).length, 1)
      assert.isDefined(first.state.view)
      // The report from before there was a view, and an estimate of the rest
      assert.strictEqual(yield* Conversation.estimatedSize(first.conversation), 10_010 + 6 + 6)
      assert.strictEqual(yield* Conversation.estimatedSize(first.state.view ?? Conversation.empty), 510)

      // The next run starts from the whole, which is as long as it was, also when it comes from storage
      const stored = yield* Conversation.codec.decode(yield* Conversation.codec.encode(first.conversation))
      const second = yield* agent.run("again", { conversation: stored, contextWindow: policy, onEvent })
      assert.strictEqual(fittings(yield* events).length, 2)
      // Resumed, it keeps its view
      yield* agent.resume(second.state, { input: "more", contextWindow: policy, onEvent })
      assert.strictEqual(fittings(yield* events).length, 2)
      for (const prompt of yield* requests) assert.isBelow(yield* weight(prompt), 8000)
    }
  )

  test("CONV-7 tool definitions count", chatting, function* () {
    const { events, onEvent } = yield* recording
    const bare = Agent.make("bare", {})
    const contextWindow = ContextWindow.truncate({ above: 1050, to: 1040 })
    const conversation = yield* Conversation.addUser(Conversation.empty, long).pipe(
      Effect.flatMap(Conversation.addAssistant("ok"))
    )
    yield* bare.run("go", { conversation, contextWindow, onEvent })
    assert.strictEqual(fittings(yield* events).length, 0)
    yield* agent.run("go", { conversation, contextWindow, onEvent })
    const [fitted] = fittings(yield* events)
    assert(fitted?._tag === "ConversationFitted")
    assert.isAbove(fitted.report.before, 1050)
    assert.isAtMost(fitted.report.after, 1040)
    assert.deepStrictEqual(pluck(fitted.report.removed, "role"), ["user", "assistant"])
  })

  test(
    "CONV-7 what cannot be brought within it fails before the model call, with a state to resume",
    chatting,
    function* () {
      const error = yield* failsMidway("ContextWindowFailed", agent.run(long.repeat(10), { contextWindow: policy }))
      const cause = AgentError.causeOf(error.reason)
      assert(cause._tag === "Some" && Schema.is(reduction.ConversationTooLarge)(cause.value))
      assert.strictEqual(cause.value.limit, 8000)
      assert.include(error.message, "expected at most 8000 tokens")
      assert.deepStrictEqual(yield* requests, [])
      const result = yield* agent.resume(error.state, { contextWindow: "unlimited" })
      assert.strictEqual(result.text, "ok")
    }
  )

  test("CONV-7 a request of the size of the threshold stays as it is", chatting, function* () {
    const conversation = yield* Conversation.addUser(Conversation.empty, long).pipe(
      Effect.flatMap(Conversation.addAssistant(long))
    )
    const run = Effect.fnUntraced(function* (above: number) {
      const { events, onEvent } = yield* recording
      yield* Agent.make("bare", {}).run("go", {
        conversation,
        contextWindow: ContextWindow.truncate({ above }),
        onEvent
      })
      return fittings(yield* events)
    })
    const [fitted] = yield* run(1500)
    assert(fitted?._tag === "ConversationFitted")
    const { before } = fitted.report
    assert.deepStrictEqual([yield* run(before), (yield* run(before - 1)).length], [[], 1])
  })

  test("CONV-7 between target and threshold is good enough", chatting, function* () {
    const conversation = yield* Conversation.addUser(Conversation.empty, long).pipe(
      Effect.flatMap(Conversation.addAssistant(long))
    )
    const result = yield* Agent.make("bare", {}).run(long, {
      conversation,
      contextWindow: ContextWindow.truncate({ above: 1500, to: 100 })
    })
    assert.strictEqual(Conversation.messageCount(result.state.view ?? Conversation.empty), 2)
  })
})

describe("CONV-7 compact", () => {
  const old = Conversation.make({ system: "Test." }).pipe(
    Effect.flatMap(Conversation.addUser("My name is Ada.")),
    Effect.flatMap(Conversation.addAssistant(long.repeat(9)))
  )
  const texts = (self: Conversation.Conversation | undefined) =>
    self === undefined ? [] : Conversation.messages(self).map(Message.text)

  testWith(world([{ text: "The user is Ada." }, asking("c1"), asking("c2"), { text: "done" }]))(
    "CONV-7 summarizes once, with the agent's own model, and sends the summary from then on",
    function* () {
      const contextWindow = ContextWindow.summarize({
        above: 8000,
        summarize: (part) =>
          Effect.map(
            LanguageModel.generateText({ prompt: `Summarize ${Conversation.messageCount(part)} messages` }),
            ({ text }) => text
          )
      })
      const { events, onEvent } = yield* recording
      const result = yield* endsAs("Completed", agent.run("go", { conversation: yield* old, contextWindow, onEvent }))
      assert.strictEqual(Conversation.messageCount(result.conversation), 3 + 1 + 4 + 1)
      assert.deepStrictEqual(texts(result.state.view).slice(0, 3), [
        "Test.",
        "Summary of the conversation so far:\n\nThe user is Ada.",
        "go"
      ])
      const [fitted, ...more] = fittings(yield* events)
      assert(fitted?._tag === "ConversationFitted" && more.length === 0)
      assert.deepStrictEqual(pluck(fitted.report.removed, "role"), ["user", "assistant"])
      assert.isDefined(fitted.report.summary)
      assert.strictEqual((yield* requests).length, 4)
    }
  )

  test("CONV-7 fits what a summary does not bring within the threshold", done, function* () {
    const contextWindow = ContextWindow.summarize({ above: 8000, summarize: () => Effect.succeed(long.repeat(20)) })
    const { events, onEvent } = yield* recording
    const result = yield* agent.run("go", { conversation: yield* old, contextWindow, onEvent })
    assert.deepStrictEqual(texts(result.state.view), ["Test.", "go", "done"])
    const [fitted] = fittings(yield* events)
    assert(fitted?._tag === "ConversationFitted")
    assert.isUndefined(fitted.report.summary)
    assert.deepStrictEqual(pluck(fitted.report.removed, "role"), ["user", "assistant"])
    assert.isAtMost(fitted.report.after, 8000)
  })

  const rateLimited = LanguageModel.generateText({ prompt: "Sum up" }).pipe(
    Effect.map(({ text }) => text),
    Effect.provide(ScriptedModel.layer([{ fail: { reason: "RateLimitError" } }]))
  )
  class Tired extends Schema.TaggedError<Tired>()("Tired", {}) {}
  for (const [what, summary, problem, cause] of [
    ["that fails", Effect.fail(new Tired()), "the Effect that summarizes old turns failed with Tired. Read", "Tired"],
    ["of a model that fails", rateLimited, "failed with RateLimitError", "AiError"],
    ["without text", Effect.succeed(""), "expected text that can replace", "ConversationError"]
  ] as const) {
    test(`CONV-7 a summary ${what} ends the run with its cause, and the run can be resumed`, done, function* () {
      const contextWindow = ContextWindow.summarize({ above: 8000, summarize: () => summary })
      const error = yield* failsMidway(
        "ContextWindowFailed",
        agent.run("go", { conversation: yield* old, contextWindow })
      )
      assert.include(error.message, problem)
      assert.strictEqual(error.message.includes("does not fit its context window"), what === "without text")
      assert.propertyVal(Option.getOrThrow(AgentError.causeOf(error.reason)), "_tag", cause)
      assert.strictEqual((yield* agent.resume(error.state, { contextWindow: policy })).text, "done")
    })
  }

  test("CONV-7 the timeout of a step bounds the summary, too", world([]), function* () {
    const contextWindow = ContextWindow.summarize({ above: 8000, summarize: () => Effect.never })
    const result = yield* endsAs(
      "Interrupted",
      after("2 seconds", agent.run("go", { conversation: yield* old, contextWindow, timeouts: { step: "2 seconds" } }))
    )
    assert.strictEqual(result.reason, "timeout")
  })
})

describe("CONV-7 ConversationFitted", () => {
  const report: reduction.ReductionReport = { before: 10, after: 5, removed: [], shortened: [] }
  const fitted = (view: Conversation.Conversation, of: Conversation.Conversation = base.conversation): Run.Event => ({
    _tag: "ConversationFitted",
    at: events.at,
    view: history.selectionOf(of, view),
    report
  })
  const base = events.run(events.started(), events.input("one"))
  const one = base.conversation

  it("CONV-7 is refused where no model call is next", () => {
    const answered = events.go(base, events.step(1), events.answered("done"))
    const calling = events.go(base, events.step(1), events.answered([events.call("a")]))
    for (const [state, expected] of [
      [answered, "what comes next: Finished"],
      [calling, "what comes next: RunTools"],
      [events.end(answered), "a run under way"]
    ] as const) {
      const { reason } = events.refused(state, fitted(state.conversation, state.conversation))
      assert.strictEqual(reason._tag, "Unexpected")
      assert.include(reason.expected, expected)
    }
    assert.isTrue(Result.isSuccess(Run.apply(base, fitted(one))))
    // Also after a StepStarted whose answer was lost
    assert.isTrue(Result.isSuccess(Run.apply(events.go(base, events.step(1)), fitted(one))))
  })

  it("CONV-7 is refused with a view that ends otherwise", () => {
    for (const view of [Conversation.empty, events.conversation(events.userMessage("other"))]) {
      const { expected, found } = events.refused(base, fitted(view)).reason
      assert.deepStrictEqual([expected, found], ["a view that ends as the conversation does", "one with another end"])
    }
  })

  it("CONV-7 L6 what follows enters the conversation and the view, results in call order", () => {
    const state = events.go(
      events.run(
        events.started({
          conversation: events.conversation(events.userMessage("old"), events.assistantMessage("old"))
        }),
        events.input("new")
      )
    )
    const view = events.conversation(...Conversation.messages(state.conversation).slice(-1))
    const after = events.go(
      state,
      fitted(view, state.conversation),
      events.step(1),
      events.answered([events.call("a"), events.call("b")]),
      events.toolStarted("a"),
      events.toolStarted("b"),
      events.finished("b"),
      events.input("waits"),
      events.finished("a")
    )
    assert.strictEqual(Conversation.messageCount(after.conversation), 7)
    const seen = Conversation.transcript(after.view ?? Conversation.empty)
    assert.deepStrictEqual(seen, Conversation.transcript(after.conversation).slice(2))
  })
})
