import { assert, describe } from "@effect/vitest"
import { Chunk, Deferred, Effect, Fiber, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import * as agentReason from "#src/agent/internal/agentReason.ts"
import * as delegate from "#src/agent/internal/delegate.ts"
import { Agent, AgentEvent, Conversation, Message, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"

/** Counts to three, one event each; asks for permission to continue after the second. */
const counter = (ran: Array<number>, digest = "counter:1") =>
  delegate.makeDelegate({
    name: "counter",
    digest,
    maxSteps: 10,
    answer: (turn, message) =>
      Effect.gen(function* () {
        const { progress } = turn.recorder.state()
        let count = progress === undefined ? 0 : Chunk.size(progress.facts)
        const [decision] = progress?.decisions ?? []
        if (decision?.approved === false) return { _tag: "Answered", text: `no: ${decision.reason ?? ""}` }
        while (count < 3) {
          if (count === 2 && decision === undefined) return { _tag: "Suspended" }
          count += 1
          ran.push(count)
          yield* delegate.saveProgress(turn, {
            facts: [count],
            usage: { inputTokens: 1 },
            requests: count === 2 ? [{ callId: "third", name: "count", arguments: {} }] : []
          })
        }
        return { _tag: "Answered", text: `${Message.text(message)}: ${count}` }
      }),
    decode: (output) => Effect.succeed(String(output))
  })

const json = (state: Run.State) => Effect.flatMap(Run.encodeJson(state), Run.decodeJson)

describe("PLAN-8 what answers in place of a model", () => {
  test("PLAN-8 waits for a decision, and continues in another process", function* () {
    const ran: Array<number> = []
    const agent = counter(ran)
    const waiting = yield* agent.run("count")
    assert(waiting.outcome === "AwaitingApproval")
    assert.deepStrictEqual(waiting.requests, [{ callId: "third", name: "count", arguments: {} }])
    const same = yield* agent.resume(yield* json(waiting.state))
    assert.strictEqual(same.outcome, "AwaitingApproval")
    const done = yield* agent.resume(yield* json(same.state), { decisions: [{ callId: "third", approved: true }] })
    assert(done.outcome === "Completed")
    assert.deepStrictEqual([done.output, done.text, done.steps], ["count: 3", "count: 3", 1])
    assert.deepStrictEqual(done.usage, { inputTokens: 3 })
    assert.deepStrictEqual(ran, [1, 2, 3])
    const denied = yield* agent.resume(waiting.state, {
      decisions: [{ callId: "third", approved: false, reason: "enough" }]
    })
    assert.strictEqual(denied.text, "no: enough")
    const unknown = yield* Effect.flip(agent.resume(waiting.state, { decisions: [{ callId: "x", approved: true }] }))
    assert.strictEqual(unknown.reason._tag, "InvalidDecision")
  })

  test("PLAN-8 as a tool: the outer run waits, keeps its state, and continues where it was", function* () {
    const ran: Array<number> = []
    const outer = Agent.make("outer", {
      toolkit: [Agent.asTool(counter(ran), { name: "count", description: "Counts" })]
    })
    const script = [{ toolCalls: [{ id: "c1", name: "count", params: { input: "count" } }] }, { text: "counted" }]
    const journal: Array<Run.Event> = []
    const onState = (_: Run.State, event: Run.Event) => Effect.sync(() => void journal.push(event))
    const done = yield* Effect.gen(function* () {
      const waiting = yield* outer.run("go", { onState })
      assert(waiting.outcome === "AwaitingApproval")
      assert.deepStrictEqual(waiting.requests, [{ callId: "third", name: "count", arguments: {}, path: ["c1"] }])
      return yield* outer.resume(yield* json(waiting.state), {
        decisions: [{ callId: "third", approved: true, path: ["c1"] }],
        onState
      })
    }).pipe(Effect.provide(ScriptedModel.layer(script)))
    assert.strictEqual(done.text, "counted")
    assert.deepStrictEqual(ran, [1, 2, 3])
    assert.strictEqual(done.usage.inputTokens, 3)
    const results = Conversation.transcript(done.conversation).filter(({ role }) => role === "tool")
    assert.include(JSON.stringify(results), "count: 3")
    const folded = Result.getOrThrow(Run.fold(journal))
    assert.deepStrictEqual(folded.usage, done.usage)
    assert.strictEqual(folded.revision, done.state.revision)
  })

  test("PLAN-8 neither continues the progress of the other, nor of another digest", function* () {
    const waiting = yield* counter([]).run("count")
    const other = yield* Effect.flip(counter([], "counter:2").resume(waiting.state))
    assert.strictEqual(other.reason._tag, "DefinitionChanged")
    const model = Agent.make("counter", {})
    const refused = yield* Effect.flip(Effect.provide(model.resume(waiting.state), ScriptedModel.layer([])))
    assert.strictEqual(refused.reason._tag, "DefinitionChanged")
    const done = yield* Effect.provide(model.run("hello"), ScriptedModel.layer([{ text: "hi" }]))
    assert.strictEqual((yield* Effect.flip(counter([]).resume(done.state))).reason._tag, "DefinitionChanged")
  })

  test("PLAN-8 a model never continues progress, not even with the same digest", function* () {
    const model = Agent.make("counter", {})
    const { state } = yield* Effect.provide(model.run("hello"), ScriptedModel.layer([{ text: "hi" }]))
    const waiting = yield* counter([], state.definition).run("count")
    const refused = yield* Effect.flip(Effect.provide(model.resume(waiting.state), ScriptedModel.layer([])))
    assert.strictEqual(refused.reason._tag, "DefinitionChanged")
  })

  test("PLAN-8 an error carries the state, and the run can be resumed from it", function* () {
    let failing = true
    const agent = delegate.makeDelegate({
      name: "flaky",
      digest: "flaky:1",
      maxSteps: 1,
      answer: (turn) =>
        Effect.gen(function* () {
          yield* delegate.saveProgress(turn, { facts: ["tried"] })
          if (failing) return yield* Effect.fail(agentReason.makeReason("DelegateFailed", { error: "Down" }, "secret"))
          return { _tag: "Answered", text: `${Chunk.size(turn.recorder.state().progress?.facts ?? Chunk.empty())}` }
        }),
      decode: (output) => Effect.succeed(output)
    })
    const error = yield* Effect.flip(agent.run("go"))
    assert.strictEqual(error.reason._tag, "DelegateFailed")
    assert.notInclude(error.message, "secret")
    assert(error.state !== undefined)
    failing = false
    assert.strictEqual((yield* agent.resume(yield* json(error.state))).text, "2")
  })

  test("PLAN-8 timeouts, hooks and fibers stop it, and what was saved stays", function* () {
    const begun = yield* Deferred.make<void>()
    const slow = delegate.makeDelegate({
      name: "slow",
      digest: "slow:1",
      maxSteps: 1,
      answer: (turn) =>
        delegate.saveProgress(turn, { facts: ["begun"] }).pipe(
          Effect.andThen(Deferred.succeed(begun, undefined)),
          Effect.andThen(Effect.never),
          Effect.onInterrupt(() => delegate.saveProgress(turn, { facts: ["cut off"] }))
        ),
      decode: (output) => Effect.succeed(output)
    })
    const facts = (state: Run.State) => Chunk.toReadonlyArray(state.progress?.facts ?? Chunk.empty())
    const timed = yield* Effect.forkChild(slow.run("go", { timeouts: { total: "5 seconds", step: "1 second" } }))
    yield* Deferred.await(begun)
    yield* TestClock.adjust("4 seconds")
    assert.isUndefined(timed.pollUnsafe(), "a step of it has no timeout of its own")
    yield* TestClock.adjust("1 second")
    const late = yield* Fiber.join(timed)
    assert(late.outcome === "Interrupted")
    assert.deepStrictEqual([late.reason, facts(late.state)], ["timeout", ["begun", "cut off"]])
    const stopped = yield* slow.run("go", {
      interruptWhen: (event) => (event._tag === "ProgressSaved" ? { reason: "enough" } : undefined)
    })
    assert(stopped.outcome === "Interrupted")
    assert.strictEqual(stopped.reason, "enough")
    const states: Array<Run.State> = []
    const cut = yield* Effect.forkChild(
      slow.run("go", { onState: (state) => Effect.sync(() => void states.push(state)) })
    )
    while (!states.some((state) => state.progress !== undefined)) yield* Effect.yieldNow
    yield* Fiber.interrupt(cut)
    const last = states.at(-1)
    assert(last?.outcome?._tag === "Interrupted")
    assert.deepStrictEqual(facts(last), ["begun", "cut off"])
  })

  test("PLAN-8 L5 run and stream report the same; the deltas are the text", function* () {
    const agent = counter([])
    const events = yield* Stream.runCollect(agent.stream("count"))
    const last = events.at(-1)
    assert(last?._tag === "RunFinished")
    assert.strictEqual(last.result.outcome, "AwaitingApproval")
    const told = yield* Stream.runCollect(
      agent.resumeStream(last.result.state, { decisions: [{ callId: "third", approved: true }] })
    )
    const text = told.flatMap((event) => (event._tag === "TextDelta" ? [event.delta] : [])).join("")
    const result = yield* AgentEvent.result(Stream.fromIterable(told))
    assert.strictEqual(text, result.text)
    const saved = [...events, ...told].filter(
      (event) => event._tag === "StateChanged" && event.event._tag === "ProgressSaved"
    )
    assert.strictEqual(saved.length, 3)
    const waiting = yield* agent.run("count")
    const done = yield* agent.resume(waiting.state, { decisions: [{ callId: "third", approved: true }] })
    assert.deepStrictEqual(Conversation.transcript(result.conversation), Conversation.transcript(done.conversation))
  })

  test("PLAN-8 a next message waits for the answer, and calls of a conversation are unknown tools", function* () {
    const agent = counter([])
    const waiting = yield* agent.run("one")
    const next = yield* agent.resume(waiting.state, { input: "two", decisions: [{ callId: "third", approved: true }] })
    assert.strictEqual(next.outcome, "AwaitingApproval")
    const texts = Conversation.messages(next.conversation).map(Message.text)
    assert.deepStrictEqual(texts, ["one", "one: 3", "two"])
    const open = yield* Effect.gen(function* () {
      const asked = yield* Conversation.addUser(Conversation.empty, "hello")
      return yield* Conversation.addAssistant(asked, [{ type: "tool-call", id: "c", name: "gone", arguments: {} }])
    })
    const result = yield* agent.run(undefined, { conversation: open })
    assert.include(JSON.stringify(Conversation.transcript(result.conversation)), "unknown_tool")
  })
})
