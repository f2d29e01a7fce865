/** PLAN-6, PLAN-7: stores that fail at any call, and readers that leave at any event. */
import * as storage from "#src/conversation/internal/storage.ts"
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { bind, completed, log } from "./support.ts"

const service = Checkpoint.Checkpoint

const Look = Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
const kit = Toolkit.make(Look)
const handlers = kit.toLayer({ look: () => Effect.as(Effect.yieldNow, "seen") })

/** A clerk with a plan as a tool, whose step is an agent with a tool, in a band, between functions that write. */
const make = Effect.gen(function* () {
  const { ran, fnStep } = log()
  const reader = Agent.make("reader", { toolkit: kit })
  const shop = yield* bind(Plan.make({ name: "shop" }, fnStep("open"), Step.make("read", { target: reader })))
  const clerk = Agent.make("clerk", { toolkit: [Agent.asTool(shop, { name: "shop", description: "Shops" })] })
  const bound = yield* bind(
    Plan.make(
      fnStep("greet", { writes: "greeting" }),
      fnStep("count", { parallel: true, writes: "count" }),
      Step.make("clerk", { target: clerk, parallel: true }),
      fnStep("bye", { writes: "bye" })
    )
  )
  return { bound, ran }
})

const answer: ScriptedModel.TurnFunction = ({ messages, tools }) =>
  messages.some(({ role }) => role === "tool")
    ? { text: "done" }
    : { toolCalls: tools.map(({ name }) => ({ id: name, name, params: name === "look" ? {} : { input: "please" } })) }

const times = (ran: ReadonlyArray<string>, step: string) => ran.filter((name) => name === step).length

/** A store whose call number `at` fails, before it does anything or after it did it. */
const flaky = () => {
  const fault = { calls: 0, at: 0, when: "before" }
  const around = <A, E>(operation: VersionedStore.VersionedStoreError["operation"], effect: Effect.Effect<A, E>) =>
    Effect.suspend((): Effect.Effect<A, E | VersionedStore.VersionedStoreError> => {
      fault.calls += 1
      if (fault.calls !== fault.at) return effect
      const down = Effect.fail(storage.unavailable({ operation, storage: "test", error: "Down", cause: undefined }))
      return fault.when === "before" ? down : Effect.andThen(effect, down)
    })
  const layer = Layer.effect(
    VersionedStore.VersionedStore,
    Effect.map(VersionedStore.VersionedStore, (store): VersionedStore.Service => ({
      get: (key) => around("get", store.get(key)),
      list: (options) => around("list", store.list(options)),
      delete: (key, options) => around("delete", store.delete(key, options)),
      compareAndSet: (key, expected, value) => around("compareAndSet", store.compareAndSet(key, expected, value))
    }))
  )
  return { fault, layer: Checkpoint.layer().pipe(Layer.provide(layer), Layer.provide(VersionedStore.layerMemory)) }
}

describe("PLAN-6 a store that fails once", () => {
  for (const when of ["before", "after"]) {
    const { fault, layer } = flaky()
    it.effect(
      `at any call, ${when} it did its work, costs at most the steps that ran: the run resumes`,
      () =>
        Effect.gen(function* () {
          const checkpoint = yield* service
          fault.when = when
          yield* checkpoint.run((yield* make).bound, { key: "whole", input: "x" })
          const { calls } = fault
          assert.isAbove(calls, 60)
          for (fault.at = 1; fault.at <= calls; fault.at++) {
            fault.calls = 0
            const { bound, ran } = yield* make
            const begin = { key: `${fault.at}`, input: "x" }
            yield* Effect.exit(checkpoint.run(bound, begin))
            yield* TestClock.adjust("1 minute")
            const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
            assert.strictEqual(completed(result).output, "bye(done)", begin.key)
            for (const write of ["greeting", "count", "bye"])
              assert.isTrue(yield* checkpoint.isCurrent(begin.key, write))
            const again = ran.length - new Set(ran).size
            assert.isAtMost(again, 2, `${begin.key}: ${ran.join(" ")}`)
          }
        }).pipe(Effect.provide([layer, ScriptedModel.layer(answer), handlers])),
      120_000
    )
  }
})

describe("PLAN-7 L6", () => {
  it.effect("a reader who leaves, wherever, leaves nothing that runs, and a run that resumes", () =>
    Effect.gen(function* () {
      const checkpoint = yield* service
      const all = yield* Stream.runCollect(checkpoint.stream((yield* make).bound, { key: "all", input: "x" }))
      assert.isAbove(all.length, 90)
      for (let count = 1; count < all.length; count += 5) {
        const { bound, ran } = yield* make
        const begin = { key: `${count}`, input: "x" }
        yield* Stream.runDrain(Stream.take(checkpoint.stream(bound, begin), count))
        const { length } = ran
        const found = Option.getOrThrow(yield* checkpoint.inspect(begin.key))
        assert.include(["cancelled", "done"], found.status, begin.key)
        assert.isFalse(found.live)
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(ran.length, length, `${begin.key}: ${ran.join(" ")}`)
        const done = yield* checkpoint.load(bound, begin.key)
        const finished = Option.isSome(done) ? PlanRun.history(done.value).map(({ step }) => step) : []
        const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
        assert.strictEqual(completed(result).output, "bye(done)", begin.key)
        for (const step of finished)
          if (step !== "clerk") assert.strictEqual(times(ran, step), 1, `${begin.key}: ${step}`)
      }
    }).pipe(Effect.provide([Checkpoint.layerMemory, ScriptedModel.layer(answer), handlers]))
  )

  it.effect("an interruption during any write waits for it, is recorded in the run, and the run resumes", () =>
    Effect.gen(function* () {
      let writes = 0
      yield* Plan.run((yield* make).bound, "x", { journal: () => Effect.sync(() => void writes++) })
      for (let at = 1; at <= writes; at++) {
        const { bound, ran } = yield* make
        const writing = yield* Deferred.make<void>()
        const written = yield* Deferred.make<void>()
        let calls = 0
        let kept: PlanRun.State | undefined
        const journal = (_: unknown, state: PlanRun.State) =>
          Effect.gen(function* () {
            calls += 1
            if (calls === at) {
              yield* Deferred.succeed(writing, undefined)
              yield* Deferred.await(written)
            }
            kept = state
          })
        const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { journal }))
        yield* Deferred.await(writing)
        const interruption = yield* Effect.forkChild(Fiber.interrupt(fiber))
        yield* Effect.yieldNow
        yield* Deferred.succeed(written, undefined)
        yield* Fiber.join(interruption)
        assert(kept !== undefined)
        if (kept.outcome?._tag === "Completed") continue
        assert.strictEqual(kept.outcome?._tag, "Interrupted", `write ${at}`)
        const finished = PlanRun.history(kept).map(({ step }) => step)
        const state = yield* Effect.flatMap(PlanRun.stateCodec.encodeJson(kept), (json) =>
          PlanRun.stateCodec.decodeJson(json)
        )
        assert.strictEqual(completed(yield* Plan.resume(bound, state)).output, "bye(done)", `write ${at}`)
        for (const step of finished)
          if (step !== "clerk") assert.strictEqual(times(ran, step), 1, `write ${at}: ${step}`)
      }
    }).pipe(Effect.provide([ScriptedModel.layer(answer), handlers]))
  )
})
