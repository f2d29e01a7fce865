/** MEND-8: an interruption keeps what a model had written, marked as cut off, with its usage. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Result, Stream } from "effect"
import { LanguageModel, Response } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, AgentEvent, Conversation, Run } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { AnthropicMessages, OpenAiMessages, OpenAiResponses } from "effect-emissary/interop"
import { ScriptedModel } from "effect-emissary/testing"

import { call, rolesOf, throughJson, toolkit, world } from "./fixtures.ts"
import { anthropicRules } from "../conversation/anthropic-rules.ts"
import { openaiRules } from "../conversation/openai-rules.ts"
import * as sessionTests from "../session/sessions.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"

const agent = Agent.make("writer", { toolkit })

const said = "one two three four five six seven eight nine ten eleven twelve"

const slow = { reasoning: "Let me count.", text: said, chunkDelay: "1 second" } as const

const deltasOf = (events: ReadonlyArray<AgentEvent.AgentEvent<unknown>>) => ({
  text: events.map((event) => (event._tag === "TextDelta" ? event.delta : "")).join(""),
  reasoning: events.map((event) => (event._tag === "ReasoningDelta" ? event.delta : "")).join("")
})

const lastOf = (conversation: Conversation.Conversation) => {
  const message = Conversation.messages(conversation).at(-1)
  assert(message?.role === "assistant", `expected an answer at the end, got ${message?.role}`)
  return message
}

const partOf = (message: ReturnType<typeof lastOf>, type: "text" | "reasoning") =>
  message.content.map((part) => (part.type === type ? part.text : "")).join("")

/** The events of a stream that its time limit cuts off after so many seconds. */
const cutAfter = <R>(seconds: number, one: Agent.Agent<string, R>) =>
  Effect.gen(function* () {
    const facts: Array<Run.Event> = []
    const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void facts.push(event))
    const running = yield* Effect.forkChild(
      Stream.runCollect(one.stream("Count", { onEvent, timeouts: { total: `${seconds} seconds` } }))
    )
    yield* TestClock.adjust(`${seconds} seconds`)
    const events = yield* Fiber.join(running)
    const { state } = yield* endsAs("Interrupted", AgentEvent.result(Stream.fromIterable(events)))
    assert.deepStrictEqual(Result.getOrThrow(Run.fold(facts)), state)
    assert.deepStrictEqual(yield* throughJson(state), state)
    return { events, state, facts }
  })

describe("MEND-8 an answer that is cut off", () => {
  for (const seconds of [2, 3, 4, 7]) {
    test(
      `MEND-8 L12 L5 after ${seconds} parts the conversation has what a reader has seen`,
      world([slow]),
      function* () {
        const { events, state } = yield* cutAfter(seconds + 0.5, agent)
        const message = lastOf(state.conversation)
        const { reasoning, text } = deltasOf(events)
        assert.isAbove(reasoning.length + text.length, 0)
        assert.strictEqual(partOf(message, "text"), text)
        assert.strictEqual(partOf(message, "reasoning"), reasoning)
        assert.strictEqual(message.finishReason, "interrupted")
        assert.isTrue(message.usage?.estimated)
        assert.isAbove(message.usage?.inputTokens ?? 0, 0)
        assert.isAbove(message.usage?.outputTokens ?? 0, 0)
        assert.deepStrictEqual(state.usage, message.usage)
        assert.deepStrictEqual([state.outcome, state.totalSteps], [{ _tag: "Interrupted", reason: "timeout" }, 0])
      }
    )
  }

  test("MEND-8 before its first part nothing is kept", world([{ ...slow, delay: "1 minute" }]), function* () {
    const { state } = yield* cutAfter(2, agent)
    assert.strictEqual(rolesOf(state.conversation), "user")
    assert.deepStrictEqual(state.usage, {})
  })

  test(
    "MEND-8 before its first part, the next message follows the one without an answer, as providers take it",
    world([{ ...slow, delay: "1 minute" }, { text: "Two answers." }]),
    function* () {
      const { state } = yield* cutAfter(2, agent)
      const { conversation } = yield* endsAs("Completed", agent.resume(state, { input: "And then?" }))
      assert.strictEqual(rolesOf(conversation), "user user assistant")
      const request = (yield* ScriptedModel.requests).at(-1)
      assert.deepStrictEqual(
        request?.messages.map(({ role, text }) => `${role} ${text}`),
        ["user Count", "user And then?"]
      )
      const anthropic = Result.getOrThrow(AnthropicMessages.fromConversation(conversation))
      assert.deepStrictEqual(anthropicRules(anthropic), [])
      assert.deepStrictEqual(openaiRules(Result.getOrThrow(OpenAiMessages.fromConversation(conversation))), [])
      assert.isTrue(Result.isSuccess(OpenAiResponses.fromConversation(conversation)))
    }
  )

  test(
    "MEND-8 a reader that leaves stops the run, which records what it had of the answer",
    world([slow]),
    function* () {
      const facts: Array<Run.Event> = []
      const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void facts.push(event))
      const seen = yield* Effect.forkChild(
        agent.stream("Count", { onEvent }).pipe(
          Stream.filter(({ _tag }) => _tag === "TextDelta"),
          Stream.take(2),
          Stream.runCollect
        )
      )
      yield* TestClock.adjust("1 minute")
      const { text } = deltasOf(yield* Fiber.join(seen))
      const state = Result.getOrThrow(Run.fold(facts))
      assert.deepStrictEqual(
        facts.slice(-3).map(({ _tag }) => _tag),
        ["ModelAnswered", "RunInterrupted", "RunFinished"]
      )
      assert.isTrue(partOf(lastOf(state.conversation), "text").startsWith(text) && text !== "")
    }
  )

  test(
    "MEND-8 `run` without a reader keeps nothing: it has no part of the answer",
    world([{ ...slow, delay: "5 seconds" }]),
    function* () {
      const running = yield* Effect.forkChild(agent.run("Count", { timeouts: { total: "2 seconds" } }))
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(rolesOf((yield* endsAs("Interrupted", Fiber.join(running))).conversation), "user")
    }
  )

  test(
    "MEND-8 L7 calls of the answer are dropped, and nothing of them runs",
    world([
      { text: "I echo.", toolCalls: [call("c1", "echo", { text: said })], chunkDelay: "1 second" },
      { text: "done" }
    ]),
    function* () {
      const { state } = yield* cutAfter(4.5, agent)
      assert.deepStrictEqual(
        lastOf(state.conversation).content.map(({ type }) => type),
        ["text"]
      )
      assert.deepStrictEqual(state.calls, [])
    }
  )

  test(
    "MEND-8 tokens of a call that was being written are counted",
    world([{ toolCalls: [call("c1", "echo", { text: said })], chunkDelay: "1 second" }]),
    function* () {
      const { facts, state } = yield* cutAfter(2.5, agent)
      assert.include(
        facts.map(({ _tag }) => _tag),
        "AnswerDiscarded"
      )
      assert.isTrue(state.usage.estimated)
      assert.strictEqual(rolesOf(state.conversation), "user")
    }
  )

  test(
    "MEND-8 L7 resumed with a message the run continues, and no two messages of the user follow each other",
    world([{ text: said, chunkDelay: "1 second" }, { text: "Thirteen." }]),
    function* () {
      const { state } = yield* cutAfter(5.5, agent)
      const done = yield* endsAs("Completed", agent.resume(yield* throughJson(state), { input: "And then?" }))
      assert.strictEqual(rolesOf(done.conversation), "user assistant user assistant")
      assert.strictEqual(done.text, "Thirteen.")
      const request = (yield* ScriptedModel.requests).at(-1)
      assert.deepStrictEqual(
        request?.messages.map(({ role }) => role),
        ["user", "assistant", "user"]
      )
      assert.include(request?.messages[1]?.text, "one two")
    }
  )

  test(
    "MEND-8 resumed without a message the model writes the answer again, after a request that states why",
    world([{ text: said, chunkDelay: "1 second" }, { text: said }]),
    function* () {
      const { state } = yield* cutAfter(5.5, agent)
      const done = yield* endsAs("Completed", agent.resume(state))
      assert.deepStrictEqual([done.text, done.steps], [said, 1])
      const request = (yield* ScriptedModel.requests).at(-1)
      assert.deepStrictEqual(
        request?.messages.map(({ role }) => role),
        ["user", "assistant", "user"]
      )
      assert.include(request?.messages.at(-1)?.text, "was cut off")
    }
  )

  const reported = [
    Response.makePart("text-start", { id: "1" }),
    Response.makePart("text-delta", { id: "1", delta: "One" }),
    Response.makePart("finish", {
      reason: "stop",
      usage: {
        inputTokens: { uncached: undefined, total: 7, cacheRead: undefined, cacheWrite: undefined },
        outputTokens: { total: 3, text: undefined, reasoning: undefined }
      }
    })
  ]
  const hanging = LanguageModel.make({
    generateText: () => Effect.never,
    streamText: () => Stream.concat(Stream.fromIterable(reported), Stream.never)
  })
  test(
    "MEND-8 a usage that the provider has reported is taken as it is",
    Layer.effect(LanguageModel.LanguageModel, hanging),
    function* () {
      const { state } = yield* cutAfter(1, Agent.make("plain", {}))
      assert.deepStrictEqual(lastOf(state.conversation).usage, { inputTokens: 7, outputTokens: 3 })
    }
  )

  test(
    "MEND-8 an agent inside keeps its answer, too, and its usage is that of the whole",
    Layer.mergeAll(
      ScriptedModel.layer([
        { toolCalls: [{ id: "c1", name: "inner", params: { input: "Count" } }], usage: { inputTokens: 1 } },
        slow
      ])
    ),
    function* () {
      const inner = Agent.make("inner", {})
      const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "inner", description: "Counts" })] })
      const { facts, state } = yield* cutAfter(6.5, outer)
      const answers = facts.flatMap((event) =>
        event._tag === "ChildEvent" && event.event._tag === "ModelAnswered" ? [event.event.message] : []
      )
      assert.deepStrictEqual(
        answers.map(({ finishReason }) => finishReason),
        ["interrupted"]
      )
      assert.isTrue(state.usage.estimated)
      assert.strictEqual(state.usage.inputTokens, 1 + (answers[0]?.usage?.inputTokens ?? 0))
    }
  )
})

describe("MEND-8 F6 Stop in a session", () => {
  it.live("MEND-8 keeps what the model had written, over a restart, and the next message continues from it", () =>
    Effect.gen(function* () {
      const store = yield* sessionTests.store
      const script: ScriptedModel.Script = [
        { text: said, chunkDelay: "100 millis", usage: { inputTokens: 5, outputTokens: 5 } },
        { text: "Thirteen." }
      ]
      const model = yield* Layer.build(ScriptedModel.layer(script))
      const layer = Session.layer([Agent.make("writer", {})]).pipe(Layer.provide([store, Layer.succeedContext(model)]))
      yield* Effect.scoped(
        Effect.gen(function* () {
          const sessions = yield* sessionTests.sessionsOf(layer)
          yield* sessions.send("a", "Count")
          const asked = Effect.provideContext(ScriptedModel.requests, model)
          yield* sessionTests.eventually(Effect.map(asked, (all) => all.length === 1))
          yield* Effect.sleep("350 millis")
          assert.isTrue((yield* sessions.interrupt("a")).isInterrupted)
          const message = lastOf(yield* sessions.history("a"))
          assert.strictEqual(message.finishReason, "interrupted")
          assert.isTrue(message.usage?.estimated)
          const text = partOf(message, "text")
          assert.isTrue(said.startsWith(text) && text !== "" && text !== said, text)
        })
      )
      const sessions = yield* sessionTests.sessionsOf(layer)
      const { text } = yield* Effect.provideService(Session.turn("a", "And then?"), Session.Session, sessions)
      assert.strictEqual(text, "Thirteen.")
      assert.strictEqual(rolesOf(yield* sessions.history("a")), "user assistant user assistant")
    }).pipe(Effect.scoped)
  )
})
