/** KEEP-3: jobs of plans whose process ends at any of its writes. */
import { assert, describe } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Scope } from "effect"
import type { VersionedStore } from "effect-emissary"
import { PlanRun } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import * as planTransition from "#src/run/internal/planTransition.ts"
import { oneIn } from "../full.ts"
import * as plans from "../plan/random-plans.ts"
import { changed } from "../store/changed.ts"
import * as t from "./sessions.ts"

const id = "job"

/** A store of a process that is cut off after its write `at`. */
const mortal = (store: Layer.Layer<VersionedStore.VersionedStore>, at: number) => {
  let writes = 0
  const through = <A, E>(effect: Effect.Effect<A, E>, isWrite = false) =>
    Effect.suspend(() => {
      if (writes >= at) return Effect.never
      if (isWrite) writes += 1
      return writes < at ? effect : Effect.andThen(effect, Effect.never)
    })
  const layer = changed(({ compareAndSet, delete: remove, get, list, commit }) => ({
    get: (key) => through(get(key)),
    list: (options) => through(list(options)),
    delete: (key, options) => through(remove(key, options)),
    compareAndSet: (key, expected, value) => through(compareAndSet(key, expected, value), true),
    ...(commit === undefined
      ? undefined
      : { commit: (...args: Parameters<typeof commit>) => through(commit(...args), true) })
  }))
  return { layer: Layer.provide(layer, store), isDead: () => writes >= at, writes: () => writes }
}

/** A process with a random plan, which counts the work of steps. */
const processOf = Effect.fnUntraced(function* (seed: number, store: Layer.Layer<VersionedStore.VersionedStore>) {
  const ran = new Map<string, number>()
  const count = (name: string) => Effect.sync(() => void ran.set(name, (ran.get(name) ?? 0) + 1))
  const { bound, writes } = yield* plans.make(seed, count)
  const layer = Session.layer([bound], { leaseTime: "50 millis", drainTime: 0 }).pipe(
    Layer.provide(store),
    Layer.provide(plans.model(count("the model")))
  )
  const scope = yield* Scope.make()
  const context = yield* Layer.buildWithScope(Layer.fresh(layer), scope)
  const work = Effect.gen(function* () {
    const sessions = yield* Session.Session
    const result = yield* Session.run(bound, { id, input: plans.input(seed), ifExists: "resume" })
    assert(result.outcome === "Completed")
    const state = Option.getOrThrow(yield* Session.progress(bound, id))
    const bucket = planTransition.writtenValues(state)
    for (const [key, value] of bucket) {
      const written = Option.getOrThrow(yield* sessions.read(key))
      assert.deepStrictEqual([written.value, written.id], [value, id])
    }
    const unwritten = writes.filter((key) => !bucket.has(key))
    for (const key of unwritten) assert.isTrue(Option.isNone(yield* sessions.read(key)))
    return {
      output: result.output,
      iterations: state.iterations,
      bucket: new Map(bucket),
      history: PlanRun.history(state).map(({ context, output, step, task }) => ({ context, output, step, task }))
    }
  }).pipe(Effect.provideContext(context))
  return { ran, work, scope, stop: Scope.close(scope, Exit.void) }
})

describe("KEEP-3 PLAN-6 a plan whose process ends at any write", () => {
  for (const seed of oneIn(3, [101, 102, 104, 105])) {
    t.passing(`plan ${seed} has the same result, and its steps run at most once more`, () =>
      Effect.gen(function* () {
        const counted = mortal(yield* t.store, Number.POSITIVE_INFINITY)
        const whole = yield* processOf(seed, counted.layer)
        const expected = yield* whole.work
        yield* whole.stop
        for (let at = 1; at < counted.writes(); at++) {
          const place = `write ${at}`
          const store = yield* t.store
          const dying = mortal(store, at)
          const first = yield* processOf(seed, dying.layer)
          yield* Effect.forkIn(Effect.exit(first.work), first.scope)
          yield* t.eventually(Effect.sync(dying.isDead))
          yield* Effect.forkScoped(first.stop)
          const second = yield* processOf(seed, store)
          assert.deepStrictEqual(yield* second.work, expected, place)
          yield* second.stop
          let more = 0
          for (const [step, times] of whole.ran) {
            const again = (first.ran.get(step) ?? 0) + (second.ran.get(step) ?? 0)
            assert.isAtLeast(again, times, `${step} ${place}`)
            more += again - times
          }
          // The steps that were not stored: one, or the members of a parallel group
          assert.isAtMost(more, 3, place)
        }
      }).pipe(Effect.scoped)
    )
  }
})
