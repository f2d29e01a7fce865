import { assert, describe } from "@effect/vitest"
import { Effect, Result } from "effect"
import { Agent, AgentEvent, Conversation, Run, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { call, Probe, toolkit, rolesOf, testGiven, world } from "./fixtures.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"

const agent = Agent.make("tester", { toolkit })
const openIds = (conversation: Conversation.Conversation) => Conversation.openCalls(conversation).map(({ id }) => id)
const asking = (id: string) => ({ toolCalls: [call(id, "echo", { text: id })] })

describe("AGENT-4 steps", () => {
  const twoCalls = world([asking("c1"), asking("c2"), { text: "only text" }])
  test("AGENT-4 the limit stops only an answer that asks for more; those calls stay open", twoCalls, function* () {
    const result = yield* endsAs("MaxSteps", agent.run("Hello", { maxSteps: 2 }))
    assert.deepStrictEqual(openIds(result.conversation), ["c2"])
    assert.deepStrictEqual(yield* Probe.ran, ["echo c1"])
    const sealed = yield* Conversation.seal(result.conversation)
    assert.deepStrictEqual(openIds(sealed), [])
    yield* endsAs("Completed", agent.run("Hello", { maxSteps: 1 }))
  })

  test(
    "AGENT-4 sixteen steps are the default",
    world(({ index }) => asking(`c${index}`)),
    function* () {
      const result = yield* endsAs("MaxSteps", agent.run("Hello"))
      assert.strictEqual(result.steps, 16)
      for (const [maxSteps, steps] of [
        [1, 1],
        [1.5, 1],
        [2.5, 2]
      ] as const) {
        const limited = yield* endsAs("MaxSteps", agent.run("Hello", { maxSteps }))
        assert.strictEqual(limited.steps, steps)
        assert.isTrue(Result.isSuccess(yield* Effect.result(Run.stateCodec.encodeJson(limited.state))))
        const resumed = yield* endsAs("MaxSteps", agent.resume(limited.state, { maxSteps: steps + 1.5 }))
        assert.strictEqual(resumed.steps, steps + 1)
      }
    }
  )

  const fortyCalls = world(({ index }) => (index < 40 ? asking(`c${index}`) : { text: "done" }))
  test("AGENT-4 unlimited continues", fortyCalls, function* () {
    const result = yield* endsAs("Completed", agent.run("Hello", { maxSteps: "unlimited" }))
    assert.strictEqual(result.steps, 41)
  })

  const oneCall = world([asking("c1"), { text: "done" }])
  test("AGENT-4 AGENT-7 with more steps, the open calls run first, and nothing runs twice", oneCall, function* () {
    const first = yield* endsAs("MaxSteps", agent.run("Hello", { maxSteps: 1 }))
    yield* endsAs("Completed", agent.resume(first.state, { maxSteps: 5 }))
    assert.deepStrictEqual(yield* Probe.ran, ["echo c1"])
    yield* (yield* ScriptedModel.ScriptedModel).assertComplete
  })

  const callPerMessage = world([asking("c1"), { text: "one" }, asking("c2"), { text: "two" }])
  test("AGENT-4 steps are counted per user message", callPerMessage, function* () {
    const first = yield* agent.run("Hello", { maxSteps: 2 })
    const second = yield* agent.run("And now?", { maxSteps: 2, conversation: first.conversation })
    assert.strictEqual(first.outcome, "Completed")
    assert.strictEqual(second.outcome, "Completed")
  })
})

describe("AGENT-7 interrupt and resume", () => {
  for (const runtime of [ToolRuntime.layerInline, ToolRuntime.layerConcurrent()]) {
    testGiven(
      [{ toolCalls: [call("c1", "echo", { text: "a" }), call("c2", "echo", { text: "b" })] }, { text: "done" }],
      runtime
    )("AGENT-7 a hook stops after any event; open calls run later, in place, before new input", function* () {
      const stopped = yield* agent.run("Hello", {
        interruptWhen: (event) => (event._tag === "ModelAnswered" ? { reason: "look first" } : undefined)
      })
      assert(stopped.outcome === "Interrupted")
      assert.strictEqual(stopped.reason, "look first")
      assert.deepStrictEqual(openIds(stopped.conversation), ["c1", "c2"])
      assert.deepStrictEqual(yield* Probe.ran, [])
      const result = yield* endsAs("Completed", agent.resume(stopped.state, { input: "Continue" }))
      assert.strictEqual(rolesOf(result.conversation), "user assistant tool tool user assistant")
      assert.deepStrictEqual([...(yield* Probe.ran)].sort(), ["echo a", "echo b"])
    })
  }

  testGiven([{ toolCalls: [call("c1", "echo", { text: "a" }), call("c2", "echo", { text: "b" })] }, { text: "done" }])(
    "AGENT-7 L6 stopping at the first result leaves the second call unstarted; each runs once",
    function* () {
      const stopped = yield* agent.run("Hello", {
        interruptWhen: (event) => Effect.succeed(event._tag === "ToolFinished" ? {} : undefined)
      })
      assert(stopped.outcome === "Interrupted")
      assert.isUndefined(stopped.reason)
      assert.deepStrictEqual(yield* Probe.ran, ["echo a"])
      assert.deepStrictEqual(openIds(stopped.conversation), ["c2"])
      yield* endsAs("Completed", agent.run("Continue", { conversation: stopped.conversation }))
      assert.deepStrictEqual(yield* Probe.ran, ["echo a", "echo b"])
    }
  )

  testGiven(
    [{ toolCalls: [call("c1", "hold", { id: "h" }), call("c2", "echo", { text: "b" })] }, { text: "done" }],
    ToolRuntime.layerConcurrent()
  )("AGENT-7 stopping while others run interrupts them; they are not started again", function* () {
    const stopped = yield* agent.run("Hello", {
      interruptWhen: (event) => (event._tag === "ToolFinished" ? { reason: "enough" } : undefined)
    })
    assert.strictEqual(stopped.outcome, "Interrupted")
    assert.deepStrictEqual(yield* Probe.interrupted, ["h"])
    assert.deepStrictEqual(openIds(stopped.conversation), [])
    yield* endsAs("Completed", agent.resume(stopped.state))
    assert.deepStrictEqual(yield* Probe.ran, ["hold h", "echo b"])
  })

  test("AGENT-7 a stream is stopped the same way", world([]), function* () {
    const interruptWhen = (event: Run.Event) => (event._tag === "StepStarted" ? {} : undefined)
    yield* endsAs("Interrupted", AgentEvent.result(agent.stream("Hello", { interruptWhen })))
  })
})
