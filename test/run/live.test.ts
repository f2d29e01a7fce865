/** HOUSE-2: a run is opened and has a handle, whose readers pull. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Ref, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Agent, AgentEvent, Conversation, Message, type Run, ToolRuntime } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import * as engine from "#src/plan/internal/engine.ts"
import * as liveRun from "#src/run/internal/liveRun.ts"
import { call, Probe, rolesOf, toolkit, world } from "../agent/fixtures.ts"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import type * as agentParts from "#src/agent/internal/agentParts.ts"
import * as agentValue from "#src/agent/internal/agentValue.ts"

const agent = Agent.make("clerk", { toolkit })

const held: liveRun.Access = { reads: true, stops: true }

const open = Effect.fnUntraced(function* (
  input: string,
  options: Agent.Options = {},
  access: liveRun.Access = held,
  spec: Partial<agentParts.RunSpec> = { streaming: true }
) {
  const services = yield* Effect.context<agentServices>()
  return agentValue.open(agentValue.over(agent, services), { input, options, ...spec }, access)
})

type agentServices = Effect.Services<ReturnType<typeof agent.run>>

const deltasOf = (views: ReadonlyArray<AgentEvent.AgentEvent<unknown>>) =>
  views.flatMap((view) => (view._tag === "TextDelta" ? [view.delta] : []))

const written = "one two three four five six seven eight"
const slow = { text: written, chunkDelay: "1 second" } as const
const held1 = { toolCalls: [call("c1", "hold", { id: "a" })] }

describe("HOUSE-2 the handle of a run", () => {
  test("HOUSE-2 readers pull: early, slow and late ones read the same text", world([held1, slow]), function* () {
    const run = yield* open("Count")
    const { gate } = yield* Probe
    yield* Deferred.succeed(gate, undefined)
    const eager = yield* Effect.forkChild(Stream.runCollect(run.live))
    const patient = yield* Effect.forkChild(Stream.runCollect(Stream.tap(run.live, () => Effect.sleep("3 seconds"))))
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("10 minutes")
    const result = yield* endsAs("Completed", Fiber.join(running))
    const late = yield* Stream.runCollect(run.live)
    const found = [yield* Fiber.join(eager), yield* Fiber.join(patient), late]
    for (const views of found) {
      assert.strictEqual(deltasOf(views).join(""), written)
      assert.strictEqual(yield* Effect.map(AgentEvent.result(Stream.fromIterable(views)), ({ text }) => text), written)
      assert.deepStrictEqual(
        views.filter((view) => !("delta" in view)),
        late.filter((view) => !("delta" in view))
      )
    }
    const [many = 0, fewer = 0, one] = found.map((views) => deltasOf(views).length)
    assert.isTrue(many > fewer && fewer > 1, `${many} deltas, and ${fewer} for a slow reader`)
    assert.strictEqual(one, 1)
    assert.strictEqual(result.text, written)
  })

  test("HOUSE-2 the events are the log, and the result is made once", world([held1, slow]), function* () {
    const facts: Array<Run.Event> = []
    const run = yield* open("Count", { onEvent: ({ event }) => Effect.sync(() => void facts.push(event)) })
    const { gate } = yield* Probe
    yield* Deferred.succeed(gate, undefined)
    const both = yield* Effect.forkChild(Effect.all([run.result, run.result], { concurrency: 2 }))
    yield* TestClock.adjust("10 minutes")
    const [first, second] = yield* Fiber.join(both)
    assert.strictEqual(first, second)
    assert.deepStrictEqual(yield* Stream.runCollect(run.events), facts)
    assert.deepStrictEqual(yield* Probe.ran, ["hold a"])
    assert.deepStrictEqual(run.ledger, first.usage)
  })

  test("HOUSE-2 the parts that a model is writing are there for who comes later", world([slow]), function* () {
    const run = yield* open("Count")
    assert.deepStrictEqual(run.written, [])
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("4 seconds")
    const [part] = run.written
    assert(part?.type === "text" && part.text !== "" && part.text !== written && written.startsWith(part.text))
    yield* TestClock.adjust("10 minutes")
    yield* endsAs("Completed", Fiber.join(running))
    assert.deepStrictEqual(run.written, [])
  })

  const again = { toolCalls: [call("c1", "hold", { id: "abcdefgh".repeat(8) })], chunkDelay: "1 second" } as const
  test("HOUSE-12 a part that a model is writing has its stored identity", world([held1, again, slow]), function* () {
    const run = yield* open("Count")
    const { gate } = yield* Probe
    yield* Deferred.succeed(gate, undefined)
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("3 seconds")
    const [part] = run.written
    assert(part?.type === "tool-call" && part.id !== "c1")
    yield* TestClock.adjust("10 minutes")
    const { conversation } = yield* endsAs("Completed", Fiber.join(running))
    const ids = Conversation.messages(conversation).flatMap((message) =>
      message.role === "assistant" ? Message.toolCalls(message).map(({ id }) => id) : []
    )
    assert.deepStrictEqual(ids, ["c1", part.id])
  })

  test("HOUSE-2 a message enters after the calls under way", world([held1, { text: "Both." }]), function* () {
    const run = yield* open("Weather?")
    const { gate, started } = yield* Probe
    const running = yield* Effect.forkChild(run.result)
    yield* Deferred.await(started)
    const taken = yield* Effect.forkChild(run.input(yield* Message.user("And in Rome?")))
    yield* Effect.yieldNow
    assert.isUndefined(taken.pollUnsafe())
    yield* Deferred.succeed(gate, undefined)
    const { conversation } = yield* endsAs("Completed", Fiber.join(running))
    assert.isTrue(yield* Fiber.join(taken))
    assert.strictEqual(rolesOf(conversation), "user assistant tool user assistant")
    assert.isFalse(yield* run.input(yield* Message.user("Still there?")))
  })

  const asks = { ...held1, text: written, chunkDelay: "1 second" } as const
  test("HOUSE-2 a message waits for the answer that a model writes", world([asks, { text: "Rome." }]), function* () {
    const run = yield* open("Weather?")
    yield* Deferred.succeed((yield* Probe).gate, undefined)
    const early = yield* Effect.forkChild(run.input(yield* Message.user("Please.")))
    yield* Effect.yieldNow
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("2 seconds")
    assert.isTrue(yield* Fiber.join(early))
    const taken = yield* Effect.forkChild(run.input(yield* Message.user("And in Rome?")))
    const left = yield* Effect.forkChild(run.input(yield* Message.user("Never mind.")))
    yield* TestClock.adjust("1 second")
    assert.isUndefined(taken.pollUnsafe())
    yield* Fiber.interrupt(left)
    yield* TestClock.adjust("10 minutes")
    assert.isTrue(yield* Fiber.join(taken))
    const { conversation, text } = yield* endsAs("Completed", Fiber.join(running))
    assert.strictEqual(rolesOf(conversation), "user user assistant tool user assistant")
    assert.strictEqual(text, "Rome.")
  })

  test("HOUSE-2 a message that a run did not take is refused at its end", world([slow, slow]), function* () {
    const answered = yield* open("Count")
    const answering = yield* Effect.forkChild(answered.result)
    yield* TestClock.adjust("2 seconds")
    const late = yield* Effect.forkChild(answered.input(yield* Message.user("Faster!")))
    yield* TestClock.adjust("10 minutes")
    yield* endsAs("Completed", Fiber.join(answering))
    assert.isFalse(yield* Fiber.join(late))

    const run = yield* open("Count", { timeouts: { total: "4 seconds" } })
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("2 seconds")
    const waiting = yield* Effect.forkChild(run.input(yield* Message.user("Faster!")))
    yield* TestClock.adjust("2 seconds")
    assert.isFalse(yield* Fiber.join(waiting))
    const { conversation } = yield* endsAs("Interrupted", Fiber.join(running))
    assert.strictEqual(rolesOf(conversation), "user assistant")
  })

  test("HOUSE-2 a run that is stopped keeps what its model had written", world([slow]), function* () {
    const run = yield* open("Count")
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("4 seconds")
    yield* run.stop({ reason: "enough" })
    const { conversation, reason, text } = yield* endsAs("Interrupted", Fiber.join(running))
    assert.deepStrictEqual([reason, rolesOf(conversation)], ["enough", "user assistant"])
    assert.isTrue(text !== "" && written.startsWith(text))
  })

  test("HOUSE-2 a run can be stopped before it is performed", world([{ text: "never" }]), function* () {
    const run = yield* open("Count")
    yield* run.stop()
    const { steps } = yield* endsAs("Interrupted", run.result)
    assert.strictEqual(steps, 0)
  })

  test(
    "HOUSE-2 readers of a run that fails receive its events and its error",
    world([{ fail: { reason: "QuotaExhaustedError" } }]),
    function* () {
      const run = yield* open("Count")
      const seen = yield* Ref.make(0)
      const reading = Stream.runForEach(run.live, () => Ref.update(seen, (count) => count + 1))
      const reader = yield* Effect.forkChild(Effect.flip(reading))
      const error = yield* Effect.flip(run.result)
      assert.deepStrictEqual(yield* Fiber.join(reader), error)
      assert.isAbove(yield* Ref.get(seen), 0)
    }
  )

  test("HOUSE-2 deltas of agents inside are joined for each call", function* () {
    const writer = Agent.make("writer", { instructions: "Write." })
    const editor = Agent.make("editor", {
      toolkit: [Agent.asTool(writer, { name: "writer", description: "Writes a text" })]
    })
    const inner = (count: number) => ({ text: `${count} ${written}`, chunkDelay: "1 second" }) as const
    const asked = ["c1", "c2"].map((id) => call(id, "writer", { input: id }))
    const script = ScriptedModel.layer(({ index, messages }) =>
      messages[0]?.text === "Write." ? inner(index) : index === 0 ? { toolCalls: asked } : { text: "Done." }
    )
    const run = agentValue.open(
      agentValue.over(editor, yield* Layer.build(Layer.merge(script, ToolRuntime.layerConcurrent()))),
      { input: "Go", options: {}, streaming: true },
      held
    )
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("10 minutes")
    yield* endsAs("Completed", Fiber.join(running))
    const texts = new Map<string, string>()
    for (const view of yield* Stream.runCollect(run.live)) {
      if (view._tag !== "Child" || view.event._tag !== "TextDelta") continue
      texts.set(view.callId, (texts.get(view.callId) ?? "") + view.event.delta)
    }
    assert.deepStrictEqual(Array.from(texts.values()).toSorted(), [`1 ${written}`, `2 ${written}`])
    assert.strictEqual(deltasOf(yield* Stream.runCollect(run.live)).join(""), "Done.")
  })

  test("HOUSE-2 a log keeps the pieces of a text as one entry, except where a reader is between them", function* () {
    interface Piece {
      readonly text: string
      readonly value: string
    }
    const log = new liveRun.LiveLog<string, Piece>((before, next) =>
      before.text === next.text ? { ...next, value: before.value + next.value } : undefined
    )
    const takeAll = (found: Array<Piece>, { views }: { readonly views: ReadonlyArray<Piece> }) => {
      found.push(...views)
    }
    const textOf = (pieces: ReadonlyArray<Piece>, name: string) =>
      pieces.flatMap(({ text, value }) => (text === name ? [value] : [])).join("")
    const fromMiddle: Array<Piece> = []
    const write = Effect.fnUntraced(function* (from: number, until: number) {
      for (let index = from; index < until; index += 1) {
        log.show({ text: index % 2 === 0 ? "a" : "b", value: `${index} ` })
        yield* Effect.yieldNow
      }
    })
    const reader = (each: Effect.Effect<void>) => {
      const all: Array<Piece> = []
      const reading = Stream.runForEach(log.read(takeAll), (piece) => Effect.as(each, void all.push(piece)))
      return Effect.map(Effect.forkChild(reading), (fiber) => ({ all, fiber }))
    }
    const eager = yield* reader(Effect.void)
    const slow = yield* reader(Effect.yieldNow.pipe(Effect.repeat({ times: 40 })))
    const leaver = yield* reader(Effect.never)
    yield* write(0, 500)
    const middle = yield* Effect.forkChild(
      Stream.runForEach(log.read(takeAll), (piece) => Effect.sync(() => void fromMiddle.push(piece)))
    )
    yield* write(500, 1000)
    // Two texts, and four readers
    assert.isAtMost(log.size, 2 * 5)
    yield* Fiber.interrupt(leaver.fiber)
    log.add([{ text: "event", value: "!" }], "event")
    yield* write(1000, 1100)
    log.end()
    for (const { fiber } of [eager, slow]) yield* Fiber.join(fiber)
    yield* Fiber.join(middle)
    assert.strictEqual(log.size, 2 + 1 + 2)
    const numbers = Array.from({ length: 1100 }, (_, index) => index)
    for (const all of [eager.all, slow.all, fromMiddle]) {
      for (const [name, rest] of [
        ["a", 0],
        ["b", 1]
      ] as const) {
        const expected = numbers.filter((index) => index % 2 === rest).map((index) => `${index} `)
        assert.strictEqual(textOf(all, name), expected.join(""))
      }
      assert.strictEqual(textOf(all, "event"), "!")
    }
    assert.isAbove(eager.all.length, 1000)
  })

  test("HOUSE-2 a plan takes no message, and can be stopped in a step", function* () {
    const plan = yield* Plan.bind(
      yield* Plan.make("plan", [Step.make("a", { target: () => Effect.as(Effect.sleep("1 hour"), 1) })])
    )
    const run = engine.open(plan.live, { _tag: "Start", input: "go" }, {}, {}, held)
    const running = yield* Effect.forkChild(run.result)
    yield* TestClock.adjust("1 minute")
    assert.isFalse(yield* run.input(yield* Message.user("Faster!")))
    yield* run.stop({ reason: "enough" })
    const { outcome } = (yield* Fiber.join(running)).state
    assert.deepStrictEqual(outcome, { _tag: "Interrupted", reason: "enough" })
  })
})
