/**
 * Processes that end at any write of any of many random plans, in memory: what the tests
 * with real processes try at some points is tried at every one here.
 */
import { assert, describe } from "@effect/vitest"
import { Effect, type Exit, Layer } from "effect"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary"
import { Checkpoint } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import * as agents from "./kill/agents.ts"
import * as executions from "./kill/executions.ts"
import * as plans from "./kill/plans.ts"
import * as results from "./kill/results.ts"
import { completed } from "./support.ts"
import { oneIn } from "../full.ts"
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
  const ran: Array<string> = []
  const requests: Array<string> = []
  const { bound, writes } = yield* plans.make(seed, (step) => Effect.sync(() => void ran.push(step)))
  const model = ScriptedModel.layer((request) => {
    const text = JSON.stringify(request.messages)
    requests.push(text)
    return { text: `${text.length}` }
  })
  const found = yield* Effect.gen(function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const result = yield* checkpoint.run(bound, { key, input: plans.input(seed), policy: "startOrResume" })
    return { ...(yield* results.resultOf(result, writes)), usage: result.usage }
  }).pipe(Effect.provide(Checkpoint.layer().pipe(Layer.provide(store))), Effect.provide(model), Effect.exit)
  return { found, ran, requests }
})

/** The work of one life of a process that runs a plan with an agent. */
const liveAgent = Effect.fnUntraced(function* (store: Layer.Layer<VersionedStore.VersionedStore>) {
  const ran: Array<string> = []
  let asked = 0
  const found = yield* agents
    .run(key, {
      called: (name) => Effect.map(Effect.yieldNow, () => void ran.push(name)),
      asked: Effect.sync(() => void (asked += 1))
    })
    .pipe(Effect.provide(Checkpoint.layer().pipe(Layer.provide(store))), Effect.exit)
  return { found, ran, asked }
})

/** Ends the process at each of its writes, before and after it, and checks what the next one makes of that. */
const atAnyWrite = Effect.fnUntraced(function* <A extends { readonly found: Exit.Exit<unknown, unknown> }>(
  life: (store: Layer.Layer<VersionedStore.VersionedStore>) => Effect.Effect<A>,
  check: (lives: { readonly whole: A; readonly first: A; readonly second: A; readonly place: string }) => void
) {
  const fresh = Effect.provide(VersionedStore.VersionedStore, Layer.fresh(VersionedStore.layerMemory))
  const counted = mortal(yield* fresh, Number.POSITIVE_INFINITY, "before")
  const whole = yield* life(counted.layer)
  assert.strictEqual(whole.found._tag, "Success")
  for (let at = 1; at <= counted.writes(); at++) {
    for (const when of ["before", "after"] as const) {
      const place = `${when} write ${at}`
      const store = yield* fresh
      const first = yield* life(mortal(store, at, when).layer)
      assert.strictEqual(first.found._tag, "Failure", place)
      yield* TestClock.adjust("1 minute")
      const second = yield* life(Layer.succeed(VersionedStore.VersionedStore, store))
      check({ whole, first, second, place })
    }
  }
})

describe("PLAN-6 AGENT-7 L6 a process that runs an agent in a step and ends at any write", () => {
  test("DUR-3 repeats no call that started, unless its tool is idempotent, and no answer that was written", function* () {
    const all = [...agents.calls, ...agents.repeatable].toSorted()
    const twice = new Set<string>()
    yield* atAnyWrite(liveAgent, ({ first, place, second, whole }) => {
      assert.deepStrictEqual(whole.ran.toSorted(), all)
      assert(second.found._tag === "Success", place)
      assert.strictEqual(completed(second.found.value).text, "done", place)
      const ran = [...first.ran, ...second.ran]
      for (const call of ran.filter((call, index) => ran.indexOf(call) !== index)) {
        assert.include(agents.repeatable, call, place)
        twice.add(call)
      }
      // At most the answer that was not written
      assert.isAtMost(first.asked + second.asked, whole.asked + 1, place)
    })
    assert.deepStrictEqual(Array.from(twice).toSorted(), agents.repeatable)
  })
})

describe("PLAN-6 a process that ends at any write", () => {
  for (const seed of oneIn(3, [101, 102, 103, 104, 105, 106])) {
    test(`plan ${seed}`, function* () {
      const life = (store: Layer.Layer<VersionedStore.VersionedStore>) => Effect.orDie(live(seed, store))
      yield* atAnyWrite(life, ({ first, place, second, whole }) => {
        assert.deepStrictEqual(second.found, whole.found, place)
        // The model is asked nothing else, and a step runs at most once more: the one that was not completed
        for (const request of [...first.requests, ...second.requests]) assert.include(whole.requests, request, place)
        const once = executions.times(whole.ran)
        const again = executions.times([...first.ran, ...second.ran])
        let more = 0
        for (const [step, count] of again) more += count - (once.get(step) ?? 0)
        assert.isAtMost(more, 3, place)
        for (const [step, count] of once) assert.isAtLeast(again.get(step) ?? 0, count, `${step} ${place}`)
      })
    })
  }
})
