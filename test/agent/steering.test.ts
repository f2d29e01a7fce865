/** SCREEN-2: messages that enter a run under way. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Queue } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEvent, Conversation, Message, Run } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"
import { Probe, call, rolesOf, throughJson, toolkit, world } from "./fixtures.ts"

const agent = Agent.make("clerk", { toolkit, maxSteps: 2 })

const holds = (id: string) => ({ toolCalls: [call(id, "hold", { id })] })

const textsOf = (conversation: Conversation.Conversation) =>
  Conversation.messages(conversation).flatMap((message) => (message.role === "user" ? [Message.text(message)] : []))

/** Messages of the user, and the option that takes them. */
const messages = Effect.map(Queue.unbounded<string>(), (queue) => ({ queue, steering: Queue.clear(queue) }))

describe("SCREEN-2 steering a run", () => {
  test(
    "SCREEN-2 four messages during a tool call enter with its result, in their order, and two steps stay two",
    world([holds("a"), { text: "Done." }]),
    function* () {
      const { queue, steering } = yield* messages
      const { gate, started } = yield* Probe
      const running = yield* Effect.forkChild(agent.run("one", { steering }))
      yield* Deferred.await(started)
      yield* Queue.offerAll(queue, ["two", "three", "four", "five"])
      yield* Deferred.succeed(gate, undefined)
      const { conversation, state, steps } = yield* endsAs("Completed", Fiber.join(running))
      assert.deepStrictEqual([steps, state.steps], [2, 2])
      assert.strictEqual(rolesOf(conversation), "user assistant tool user user user user assistant")
      assert.deepStrictEqual(textsOf(conversation), ["one", "two", "three", "four", "five"])
      assert.strictEqual((yield* ScriptedModel.requests).length, 2)
    }
  )

  test(
    "SCREEN-2 a message has the rest of the steps, and what comes after the limit stays with its sender",
    world([holds("a"), holds("b"), { text: "never" }]),
    function* () {
      const { queue, steering } = yield* messages
      const { gate } = yield* Probe
      yield* Deferred.succeed(gate, undefined)
      const onEvent: Agent.ResumeOptions["onEvent"] = ({ event }) =>
        event._tag === "ModelAnswered" ? Effect.asVoid(Queue.offer(queue, "more")) : Effect.void
      const { conversation, state, steps } = yield* endsAs("MaxSteps", agent.run("one", { steering, onEvent }))
      assert.strictEqual(steps, 2)
      assert.strictEqual(rolesOf(conversation), "user assistant tool user assistant")
      assert.deepStrictEqual(yield* steering, ["more"])
      // A message that begins a run again has a budget of its own
      const next = yield* endsAs("Completed", agent.resume(state, { input: "again", maxSteps: 1 }))
      assert.strictEqual(next.steps, 3)
    }
  )

  test(
    "SCREEN-2 a message that comes with the last answer is not taken",
    world([{ text: "Hello.", chunkDelay: "1 second" }]),
    function* () {
      const { queue, steering } = yield* messages
      const running = yield* Effect.forkChild(AgentEvent.result(agent.stream("one", { steering })))
      yield* TestClock.adjust("2 seconds")
      yield* Queue.offer(queue, "two")
      yield* TestClock.adjust("1 minute")
      const { conversation } = yield* endsAs("Completed", Fiber.join(running))
      assert.strictEqual(rolesOf(conversation), "user assistant")
      assert.deepStrictEqual(yield* steering, ["two"])
    }
  )

  test(
    "SCREEN-2 a message waits while a call waits for approval, and enters when the run continues",
    world([{ toolCalls: [call("a", "delete", { path: "x" })] }, { text: "Deleted." }]),
    function* () {
      const { queue, steering } = yield* messages
      const { state } = yield* endsAs("AwaitingApproval", agent.run("one", { steering }))
      yield* Queue.offer(queue, "two")
      const decisions = Run.requests(state)
        .filter(Run.isApprovable)
        .map((request) => Run.approve(request))
      const stored = yield* throughJson(state)
      const { conversation, steps } = yield* endsAs("Completed", agent.resume(stored, { decisions, steering }))
      assert.strictEqual(rolesOf(conversation), "user assistant tool user assistant")
      assert.strictEqual(steps, 2)
    }
  )

  const paused = { text: "So far", finishReason: "pause" } as const
  test(
    "SCREEN-2 nothing comes between an answer that paused and the rest of it",
    world([paused, { toolCalls: [call("b", "echo", { text: "b" })] }, { text: "Done." }]),
    function* () {
      const { queue, steering } = yield* messages
      const onEvent: Agent.ResumeOptions["onEvent"] = ({ event }) =>
        event._tag === "ModelAnswered" && event.message.finishReason === "pause"
          ? Effect.asVoid(Queue.offer(queue, "two"))
          : Effect.void
      const { conversation } = yield* endsAs("Completed", agent.run("one", { steering, onEvent, maxSteps: 3 }))
      assert.strictEqual(rolesOf(conversation), "user assistant assistant tool user assistant")
    }
  )

  test("SCREEN-2 a run that is stopped takes no message", world([holds("a")]), function* () {
    const { queue, steering } = yield* messages
    const { gate, started } = yield* Probe
    let isStopped = false
    const interruptWhen = () => (isStopped ? {} : undefined)
    const running = yield* Effect.forkChild(agent.run("one", { steering, interruptWhen }))
    yield* Deferred.await(started)
    yield* Queue.offer(queue, "two")
    isStopped = true
    yield* Deferred.succeed(gate, undefined)
    const { conversation } = yield* endsAs("Interrupted", Fiber.join(running))
    assert.strictEqual(rolesOf(conversation), "user assistant tool")
    assert.deepStrictEqual(yield* steering, ["two"])
  })

  test("SCREEN-2 L4 a message that no conversation can have fails the run", world([{ text: "never" }]), function* () {
    const error = yield* failsMidway("ConversationInvalid", agent.run("one", { steering: Effect.succeed([""]) }))
    assert.strictEqual(rolesOf(error.state.conversation), "user")
  })

  test("SCREEN-2 an agent inside the run takes no message", function* () {
    const { queue, steering } = yield* messages
    const writer = Agent.make("writer", { instructions: "Write.", toolkit })
    const editor = Agent.make("editor", {
      toolkit: [Agent.asTool(writer, { name: "writer", description: "Writes a text" })]
    })
    const script: ScriptedModel.TurnFunction = ({ messages }) => {
      if (messages.some(({ role }) => role === "tool")) return { text: "Done." }
      return messages[0]?.text === "Write." ? holds("inner") : { toolCalls: [call("outer", "writer", { input: "go" })] }
    }
    yield* Effect.gen(function* () {
      const { gate, started } = yield* Probe
      const running = yield* Effect.forkChild(editor.run("one", { steering }))
      yield* Deferred.await(started)
      yield* Queue.offer(queue, "two")
      yield* Deferred.succeed(gate, undefined)
      const { conversation } = yield* endsAs("Completed", Fiber.join(running))
      assert.strictEqual(rolesOf(conversation), "user assistant tool user assistant")
      const asked = yield* ScriptedModel.requests
      assert.deepStrictEqual(
        asked.map(({ messages }) => messages.some(({ text }) => text === "two")),
        [false, false, false, true]
      )
    }).pipe(Effect.provide(world(script)))
  })

  test("SCREEN-2 a plan takes no message", function* () {
    let asked = 0
    const steering = Effect.sync(() => {
      asked += 1
      return ["two"]
    })
    const plan = yield* Plan.bind(
      yield* Plan.make("plan", [Step.make("a", { target: ({ task }) => Effect.succeed(task) })])
    )
    const { state, text } = yield* endsAs("Completed", plan.run("one", { steering }))
    assert.deepStrictEqual([text, asked, textsOf(state.conversation)], ["one", 0, ["one"]])
  })

  test("SCREEN-2 the same events make the same state", world([holds("a"), { text: "Done." }]), function* () {
    const { queue, steering } = yield* messages
    yield* Deferred.succeed((yield* Probe).gate, undefined)
    yield* Queue.offer(queue, "two")
    const events: Array<Run.Event> = []
    const onEvent: Agent.ResumeOptions["onEvent"] = ({ event }) => Effect.sync(() => void events.push(event))
    const { state } = yield* endsAs("Completed", agent.run("one", { steering, onEvent }))
    const budgets = events.flatMap((event) => (event._tag === "InputAdded" ? [event.maxSteps] : []))
    assert.deepStrictEqual(budgets, [2, undefined])
    const read = yield* Effect.forEach(events, (event) =>
      Effect.flatMap(Run.eventCodec.encodeJson(event), (text) => Run.eventCodec.decodeJson(text))
    )
    assert.deepStrictEqual(yield* Effect.fromResult(Run.fold(read)), state)
  })
})
