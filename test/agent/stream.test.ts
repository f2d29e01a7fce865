import { assert, describe } from "@effect/vitest"
import { Cause, Deferred, Duration, Effect, Fiber, Ref, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Tool, Toolkit } from "effect/ai"
import { Agent, AgentEvent, Run } from "effect-emissary"

import { call, Probe, toolkit, toolResults, testGiven, world } from "./fixtures.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

const agent = Agent.make("tester", { toolkit })
const script = [
  { reasoning: "Let me see.", toolCalls: [call("c1", "echo", { text: "hi" })] },
  { text: "All done.", usage: { inputTokens: 3, outputTokens: 2 } }
]

const textOf = (events: ReadonlyArray<AgentEvent.AgentEvent<unknown>>) =>
  events.map((event) => (event._tag === "TextDelta" ? event.delta : "")).join("")

describe("AGENT-5 stream", () => {
  test("AGENT-5 emits run, steps, deltas, tool calls and the same result as run", world(script), function* () {
    const events = yield* Stream.runCollect(agent.stream("Hello"))
    const tags = events.map(({ _tag }) => _tag).filter((tag, i, all) => tag !== all[i - 1])
    assert.deepStrictEqual(tags, [
      "RunStarted",
      "StateChanged",
      "StepStarted",
      "ReasoningDelta",
      "CallDelta",
      "StepFinished",
      "ToolStarted",
      "ToolFinished",
      "StepStarted",
      "TextDelta",
      "StepFinished",
      "StateChanged",
      "RunFinished"
    ])
    assert.strictEqual(textOf(events), "All done.")
    const result = yield* endsAs("Completed", AgentEvent.result(Stream.fromIterable(events)))
    assert.strictEqual(result.output, "All done.")
    assert.deepStrictEqual(result.usage, { inputTokens: 3, outputTokens: 2 })
  })

  const twice = world([...script, ...script])
  test(
    "AGENT-5 AgentEvent.result returns the result of a whole stream, and dies of a part of one",
    twice,
    function* () {
      const result = yield* endsAs("Completed", AgentEvent.result(agent.stream("Hello")))
      assert.strictEqual(result.output, "All done.")
      const part = Stream.takeUntil(agent.stream("Hello"), ({ _tag }) => _tag === "StepStarted")
      const cause = yield* Effect.flip(Effect.sandbox(AgentEvent.result(part)))
      assert.include(Cause.pretty(cause), "expected RunFinished as the last event, found StepStarted")
    }
  )

  const holding = world([{ toolCalls: [call("c1", "hold", { id: "a" })] }, { text: "done" }])
  test("AGENT-5 tool events carry the duration, and states grow", holding, function* () {
    const { gate } = yield* Probe
    const fiber = yield* Effect.forkChild(Stream.runCollect(agent.stream("Hello")))
    yield* TestClock.adjust("3 seconds")
    yield* Deferred.succeed(gate, undefined)
    const events = yield* Fiber.join(fiber)
    const finished = events.find((event) => event._tag === "ToolFinished")
    assert(finished?._tag === "ToolFinished")
    assert.strictEqual(Duration.toMillis(finished.duration), 3000)
    const revisions = events.flatMap((event) => ("state" in event ? [event.state.revision] : []))
    assert.deepStrictEqual(
      revisions,
      revisions.toSorted((a, b) => a - b)
    )
  })

  const counts = world([{ toolCalls: [call("c1", "count", {})] }, { text: "three" }])
  test("TOOL-2 preliminary results are progress events and are not stored", counts, function* () {
    const counting = Toolkit.make(Tool.make("count", { success: Schema.Int }))
    const handlers = counting.toLayer({
      count: Effect.fnUntraced(function* (_, context) {
        yield* context.preliminary(1)
        yield* context.preliminary(2)
        return 3
      })
    })
    const stream = Agent.make("counter", { toolkit: counting }).stream("Count")
    const events = yield* Effect.provide(Stream.runCollect(stream), handlers)
    const progress = events.flatMap((event) => (event._tag === "ToolProgress" ? [event.result.value] : []))
    assert.deepStrictEqual(progress, [1, 2])
    const { conversation } = yield* AgentEvent.result(Stream.fromIterable(events))
    assert.deepStrictEqual(toolResults(conversation), [3])
  })

  const held = world([{ toolCalls: [call("c1", "hold", { id: "a" })] }])
  test("AGENT-5 leaving early interrupts the run", held, function* () {
    const { started } = yield* Probe
    const events = yield* agent.stream("Hello").pipe(
      Stream.takeUntil((event) => event._tag === "ToolStarted"),
      Stream.tap((event) => (event._tag === "ToolStarted" ? Deferred.await(started) : Effect.void)),
      Stream.runCollect
    )
    assert.strictEqual(events.at(-1)?._tag, "ToolStarted")
    assert.deepStrictEqual(yield* Probe.interrupted, ["a"])
  })

  const chatty = world([{ text: "x".repeat(400), toolCalls: [call("c1", "echo", { text: "hi" })] }])
  test("AGENT-5 leaving a run that waits for its reader stops it there: no tool runs any more", chatty, function* () {
    yield* agent.stream("Hello").pipe(
      Stream.filter(({ _tag }) => _tag === "TextDelta"),
      Stream.take(1),
      Stream.runDrain
    )
    assert.deepStrictEqual(yield* Probe.ran, [])
  })

  testGiven(({ index }) => (index < 40 ? { toolCalls: [call(`c${index}`, "echo", { text: "x" })] } : { text: "done" }))(
    "HOUSE-2 AGENT-5 a slow reader slows nothing, and misses no event",
    function* () {
      const seen = yield* Ref.make(0)
      const onEvent = ({ state }: Agent.RecordedEvent) => Ref.set(seen, state.totalSteps)
      const gate = yield* Deferred.make<void>()
      const fiber = yield* agent.stream("Hello", { onEvent, maxSteps: "unlimited", repeatedCalls: "unlimited" }).pipe(
        Stream.tap(() => Deferred.await(gate)),
        Stream.filter(({ _tag }) => _tag === "StepFinished"),
        Stream.runCount,
        Effect.forkChild
      )
      for (let i = 0; i < 200; i++) yield* Effect.yieldNow
      assert.strictEqual(yield* Ref.get(seen), 41)
      yield* Deferred.succeed(gate, undefined)
      assert.strictEqual(yield* Fiber.join(fiber), 41)
    }
  )

  const retried = world([{ text: "wrong", fail: { reason: "InternalProviderError" } }, { text: "right" }])
  test("AGENT-2 a step that is retried reports that its deltas are void", retried, function* () {
    const events = yield* Stream.runCollect(agent.stream("Hello", { retry: { times: 2, delay: 0 } }))
    const at = events.findIndex(({ _tag }) => _tag === "StepRetried")
    assert.isAbove(at, 0)
    assert.strictEqual(textOf(events.slice(at)), "right")
  })

  const overQuota = world([{ fail: { reason: "QuotaExhaustedError" } }])
  test("AGENT-5 an error ends the stream with the AgentError of run", overQuota, function* () {
    const error = yield* failsFor("ModelFailed", Stream.runDrain(agent.stream("Hello")))
    assert.strictEqual(error._tag, "AgentError")
    assert.strictEqual(error.state?.agent, agent.name)
  })

  const deleting = world([{ toolCalls: [call("c1", "delete", { path: "a" })] }, { text: "deleted" }])
  test("AGENT-5 AGENT-7 a resumed run streams, too", deleting, function* () {
    const first = yield* endsAs("AwaitingApproval", agent.run("Delete it"))
    const decisions = first.requests.filter(Run.isApprovable).map(Run.approve)
    const events = yield* Stream.runCollect(agent.resumeStream(first.state, { decisions }))
    assert(events[0]?._tag === "RunStarted" || events.some((event) => event._tag === "RunStarted" && event.resumed))
    assert.isTrue(events.some((event) => event._tag === "TextDelta"))
    yield* endsAs("Completed", AgentEvent.result(Stream.fromIterable(events)))
    assert.deepStrictEqual(yield* Probe.ran, ["delete a"])
  })
})
