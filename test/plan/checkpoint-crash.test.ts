/**
 * Processes that end at any write of any of many random plans, in memory: what the tests
 * with real processes try at some points is tried at every one here.
 */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Option, Ref } from "effect"
import { TestClock } from "effect/testing"
import { Conversation, VersionedStore } from "effect-emissary"
import { Checkpoint, PlanRun } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import * as agents from "./kill/agents.ts"
import * as plans from "./kill/plans.ts"
import { test } from "../test.ts"

const key = "k"

/** A process that ends at its write `at`, before or after it; nothing it does later has an effect. */
const mortal = (store: VersionedStore.Service, at: number, when: "before" | "after") => {
  let writes = 0
  const dead = Effect.die("the process has ended")
  const alive = <A, E>(effect: Effect.Effect<A, E>) => Effect.suspend(() => (writes >= at ? dead : effect))
  const service: VersionedStore.Service = {
    get: (key) => alive(store.get(key)),
    list: (options) => alive(store.list(options)),
    delete: (key, options) => alive(store.delete(key, options)),
    compareAndSet: (key, expected, value) =>
      alive(
        Effect.suspend(() => {
          writes += 1
          if (writes < at) return store.compareAndSet(key, expected, value)
          return when === "before" ? dead : Effect.andThen(store.compareAndSet(key, expected, value), dead)
        })
      )
  }
  return { layer: Layer.succeed(VersionedStore.VersionedStore, service), writes: () => writes }
}

/** The work of one life of the process. */
const live = Effect.fnUntraced(function* (seed: number, store: Layer.Layer<VersionedStore.VersionedStore>) {
  const ran = yield* Ref.make<ReadonlyArray<string>>([])
  const requests: Array<string> = []
  const { bound, writes } = yield* plans.make(seed, (step) => Ref.update(ran, (steps) => [...steps, step]))
  const model = ScriptedModel.layer((request) => {
    const text = JSON.stringify(request.messages)
    requests.push(text)
    return { text: `${text.length}` }
  })
  const found = yield* Effect.gen(function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const result = yield* checkpoint.run(bound, { key, input: plans.input(seed), policy: "startOrResume" })
    const stored = yield* Effect.forEach(writes, (write) => checkpoint.read(write))
    return {
      history: PlanRun.history(result.state).map(({ output, step, task }) => ({ output, step, task })),
      output: result.outcome === "Completed" ? result.output : undefined,
      iterations: result.iterations,
      usage: result.usage,
      stored: stored.map(Option.map(({ record, step, value }) => ({ record, step, value }))),
      current: yield* Effect.forEach(writes, (write) => checkpoint.isCurrent(key, write))
    }
  }).pipe(Effect.provide(Checkpoint.layer().pipe(Layer.provide(store))), Effect.provide(model), Effect.exit)
  return { found, ran: yield* Ref.get(ran), requests }
})

const times = (steps: ReadonlyArray<string>) => {
  const counts = new Map<string, number>()
  for (const step of steps) counts.set(step, (counts.get(step) ?? 0) + 1)
  return counts
}

/** The work of one life of a process that runs an agent. */
const liveAgent = Effect.fnUntraced(function* (store: Layer.Layer<VersionedStore.VersionedStore>) {
  const ran: Array<string> = []
  let asked = 0
  const found = yield* agents
    .run(key, {
      called: (name) =>
        Effect.andThen(
          Effect.yieldNow,
          Effect.sync(() => void ran.push(name))
        ),
      asked: Effect.sync(() => void (asked += 1))
    })
    .pipe(Effect.provide(Checkpoint.layer().pipe(Layer.provide(store))), Effect.exit)
  return { found, ran, asked }
})

/** The result of each call, by the id of the call. */
const resultsOf = (found: Effect.Success<ReturnType<typeof liveAgent>>["found"]) => {
  assert(found._tag === "Success")
  assert.strictEqual(found.value.text, "done")
  return new Map(
    Conversation.messages(found.value.conversation).flatMap((message) =>
      message.role === "tool" ? [[message.callId, message.result] as const] : []
    )
  )
}

describe("PLAN-6 AGENT-7 L6 a process that runs an agent and ends at any write", () => {
  test("repeats no call that started and no answer that was written", function* () {
    const fresh = Effect.provide(VersionedStore.VersionedStore, Layer.fresh(VersionedStore.layerMemory))
    const counted = mortal(yield* fresh, Number.POSITIVE_INFINITY, "before")
    const whole = yield* liveAgent(counted.layer)
    const expected = resultsOf(whole.found)
    assert.deepStrictEqual(whole.ran.toSorted(), agents.calls)
    let lost = 0
    for (let at = 1; at <= counted.writes(); at++) {
      for (const when of ["before", "after"] as const) {
        const place = `${when} write ${at}`
        const store = yield* fresh
        const first = yield* liveAgent(mortal(store, at, when).layer)
        assert.strictEqual(first.found._tag, "Failure", place)
        yield* TestClock.adjust("1 minute")
        const second = yield* liveAgent(Layer.succeed(VersionedStore.VersionedStore, store))
        const ran = [...first.ran, ...second.ran]
        assert.strictEqual(new Set(ran).size, ran.length, place)
        for (const [id, result] of resultsOf(second.found)) {
          if (result._tag === "Failure" && result.type === "interrupted") lost += 1
          else assert.deepStrictEqual(result, expected.get(id), place)
        }
        // At most the answer that was not written
        assert.isAtMost(first.asked + second.asked, whole.asked + 1, place)
      }
    }
    assert.isAbove(lost, 3)
  })
})

describe("PLAN-6 a process that ends at any write", () => {
  for (const seed of Array.from({ length: 6 }, (_, index) => 101 + index)) {
    test(`plan ${seed}`, function* () {
      const fresh = Effect.provide(VersionedStore.VersionedStore, Layer.fresh(VersionedStore.layerMemory))
      const counted = mortal(yield* fresh, Number.POSITIVE_INFINITY, "before")
      const whole = yield* live(seed, counted.layer)
      assert.strictEqual(whole.found._tag, "Success")
      const executions = times(whole.ran)

      for (let at = 1; at <= counted.writes(); at++) {
        for (const when of ["before", "after"] as const) {
          const store = yield* fresh
          const first = yield* live(seed, mortal(store, at, when).layer)
          assert.strictEqual(first.found._tag, "Failure")
          yield* TestClock.adjust("1 minute")
          const second = yield* live(seed, Layer.succeed(VersionedStore.VersionedStore, store))
          const place = `${when} write ${at}`
          assert.deepStrictEqual(second.found, whole.found, place)
          // The model is asked nothing else, and a step runs at most once more: the one that was not completed
          for (const request of [...first.requests, ...second.requests]) {
            assert.include(whole.requests, request, place)
          }
          const again = times([...first.ran, ...second.ran])
          let more = 0
          for (const [step, count] of again) more += count - (executions.get(step) ?? 0)
          assert.isAtMost(more, 3, place)
          for (const [step, count] of executions) assert.isAtLeast(again.get(step) ?? 0, count, `${step} ${place}`)
        }
      }
    })
  }
})
