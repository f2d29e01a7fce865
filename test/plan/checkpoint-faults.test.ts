/** PLAN-6, PLAN-7: stores that fail at any call, and readers that leave at any event. */
import * as storage from "#src/store/internal/storage.ts"
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, type VersionedStore } from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { changed } from "../store/changed.ts"
import { gate, head, layer, layerOver, testOver } from "./checkpoints.ts"
import { completed, log, planOf } from "./support.ts"
import { oneIn } from "../full.ts"
import { test } from "../test.ts"

const Look = Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
const kit = Toolkit.make(Look)
const handlers = kit.toLayer({ look: () => Effect.as(Effect.yieldNow, "seen") })

/** A clerk with a plan as a tool, whose step is an agent with a tool, in a band, between functions that write. */
const make = Effect.gen(function* () {
  const { ran, fnStep } = log()
  const reader = Agent.make("reader", { toolkit: kit })
  const shop = yield* planOf({ name: "shop" }, fnStep("open"), Step.make("read", { target: reader }))
  const clerk = Agent.make("clerk", { toolkit: [Agent.asTool(shop, { name: "shop", description: "Shops" })] })
  const bound = yield* planOf(
    fnStep("greet", { writes: "greeting" }),
    fnStep("count", { parallel: true, writes: "count" }),
    Step.make("clerk", { target: clerk, parallel: true }),
    fnStep("bye", { writes: "bye" })
  )
  return { bound, ran }
})

const answer: ScriptedModel.TurnFunction = ({ messages, tools }) =>
  messages.some(({ role }) => role === "tool")
    ? { text: "done" }
    : { toolCalls: tools.map(({ name }) => ({ id: name, name, params: name === "look" ? {} : { input: "please" } })) }

const services = Layer.merge(handlers, ScriptedModel.layer(answer))

const times = (ran: ReadonlyArray<string>, step: string) => ran.filter((name) => name === step).length

const dying = "and dies before"

/** A store whose call number `at` fails, before it does anything or after it did it, or dies. */
const flaky = () => {
  const fault = { calls: 0, at: 0, when: "before it did" }
  const around = <A, E>(operation: VersionedStore.VersionedStoreError["operation"], effect: Effect.Effect<A, E>) =>
    Effect.suspend((): Effect.Effect<A, E | VersionedStore.VersionedStoreError> => {
      fault.calls += 1
      if (fault.calls !== fault.at) return effect
      if (fault.when === dying) return Effect.die("a bug")
      const down = Effect.fail(storage.unavailable({ operation, storage: "test", error: "Down", cause: undefined }))
      return fault.when === "before it did" ? down : Effect.andThen(effect, down)
    })
  const store = changed(({ compareAndSet, delete: remove, get, list }) => ({
    get: (...args) => around("get", get(...args)),
    list: (...args) => around("list", list(...args)),
    delete: (...args) => around("delete", remove(...args)),
    compareAndSet: (...args) => around("compareAndSet", compareAndSet(...args))
  }))
  return { fault, layer: Layer.merge(layerOver(store), services) }
}

/** The steps of a state that finished, which have to run once; an agent's step begins again. */
const assertOnce = (state: PlanRun.State, ran: ReadonlyArray<string>, place: string) => {
  for (const { step } of PlanRun.history(state)) {
    if (step !== "clerk") assert.strictEqual(times(ran, step), 1, `${place}: ${step}`)
  }
}

describe("PLAN-6 a store that fails once", () => {
  for (const when of ["before it did", "after it did", dying]) {
    const { fault, layer } = flaky()
    testOver(layer)(
      `at any call, ${when} its work, costs at most the steps that ran; it resumes`,
      function* (checkpoint) {
        fault.when = when
        yield* checkpoint.run((yield* make).bound, { key: "whole", input: "x" })
        const { calls } = fault
        assert.isAbove(calls, 60)
        for (const at of oneIn(
          3,
          Array.from({ length: calls }, (_, index) => index + 1)
        )) {
          fault.at = at
          fault.calls = 0
          const { bound, ran } = yield* make
          const begin = { key: `${fault.at}`, input: "x" }
          const exit = yield* Effect.exit(checkpoint.run(bound, begin))
          if (when === dying) assert.strictEqual(exit._tag, "Failure", begin.key)
          yield* TestClock.adjust("1 minute")
          const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
          assert.strictEqual(completed(result).output, "bye(done)", begin.key)
          for (const write of ["greeting", "count", "bye"]) {
            assert.isTrue(yield* checkpoint.isCurrent(begin.key, write))
          }
          assert.isAtMost(ran.length - new Set(ran).size, 2, `${begin.key}: ${ran.join(" ")}`)
        }
      }
    )
  }
})

describe("PLAN-7 L6", () => {
  const testAll = testOver(Layer.merge(layer(), services))
  testAll("a reader who leaves, wherever, leaves nothing that runs, but a run that resumes", function* (checkpoint) {
    const all = yield* Stream.runCollect(checkpoint.stream((yield* make).bound, { key: "all", input: "x" }))
    assert.isAbove(all.length, 90)
    for (let count = 1; count < all.length; count += 5) {
      const { bound, ran } = yield* make
      const begin = { key: `${count}`, input: "x" }
      yield* Stream.runDrain(Stream.take(checkpoint.stream(bound, begin), count))
      const { length } = ran
      const found = yield* head(begin.key)
      assert.include(["cancelled", "done"], found.status, begin.key)
      assert.isFalse(found.live)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(ran.length, length, `${begin.key}: ${ran.join(" ")}`)
      const left = yield* checkpoint.load(bound, begin.key)
      const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
      assert.strictEqual(completed(result).output, "bye(done)", begin.key)
      if (Option.isSome(left)) assertOnce(left.value, ran, begin.key)
    }
  })

  test("an interruption during any write waits for it and is recorded; the run resumes", services, function* () {
    let writes = 0
    yield* Plan.run((yield* make).bound, "x", { journal: () => Effect.sync(() => void writes++) })
    for (let at = 1; at <= writes; at++) {
      const { bound, ran } = yield* make
      const { begun, hook, open } = yield* gate
      let calls = 0
      let kept: PlanRun.State | undefined
      const journal = (_: unknown, state: PlanRun.State) =>
        Effect.gen(function* () {
          calls += 1
          if (calls === at) yield* hook
          kept = state
        })
      const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { journal }))
      yield* begun
      const interruption = yield* Effect.forkChild(Fiber.interrupt(fiber))
      yield* Effect.yieldNow
      yield* open
      yield* Fiber.join(interruption)
      assert(kept !== undefined)
      if (kept.outcome?._tag === "Completed") continue
      assert.strictEqual(kept.outcome?._tag, "Interrupted", `write ${at}`)
      const state = yield* Effect.flatMap(PlanRun.stateCodec.encodeJson(kept), PlanRun.stateCodec.decodeJson)
      assert.strictEqual(completed(yield* Plan.resume(bound, state)).output, "bye(done)", `write ${at}`)
      assertOnce(kept, ran, `write ${at}`)
    }
  })
})
