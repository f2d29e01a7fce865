/** WORLD-9: a log that begins while another process removes its key, in a store that writes one value at a time (worlds 197 and 2971). */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Option, Schema } from "effect"
import { VersionedStore } from "effect-emissary"
import { VersionedCodec } from "effect-emissary/payload"
import * as journal from "#src/store/internal/journal.ts"

const logsOf = (store: VersionedStore.Service) =>
  journal.make({
    store,
    namespace: "numbers",
    head: VersionedCodec.single({ what: "numbers", value: Schema.Struct(journal.logFields) }),
    batch: journal.batchCodec({ what: "batch of numbers", kind: "numbers", events: Schema.Array(Schema.Finite) }),
    input: VersionedCodec.single({ what: "first number", value: Schema.Struct({ generation: Schema.String }) })
  })

type Work = (store: VersionedStore.Service) => Effect.Effect<unknown, unknown>

const begin: Work = (store) =>
  logsOf(store).begin("a", Option.none(), {
    head: (log) => log,
    input: (generation) => ({ generation }),
    batches: [[1]]
  })

const remove: Work = (store) => logsOf(store).remove("a")

/**
 * Runs processes on one store. The schedule names the process of each operation, in the order in which they take place. At its end all
 * processes are stopped for ever. Returns the processes that were not at their end.
 */
const play = Effect.fnUntraced(
  function* (works: ReadonlyArray<Work>, schedule: ReadonlyArray<number>) {
    const inner = yield* VersionedStore.VersionedStore
    const store: VersionedStore.Service = { ...inner, commit: undefined }
    const processes = yield* Effect.forEach(works, (work) => {
      const waiting: Array<Deferred.Deferred<void>> = []
      const due = <A, E>(operation: Effect.Effect<A, E>) =>
        Effect.suspend(() => {
          const permit = Deferred.makeUnsafe<void>()
          waiting.push(permit)
          return Effect.andThen(Deferred.await(permit), operation)
        })
      const gated: VersionedStore.Service = {
        ...store,
        get: (key) => due(store.get(key)),
        compareAndSet: (...args) => due(store.compareAndSet(...args)),
        list: (options) => due(store.list(options)),
        delete: (...args) => due(store.delete(...args))
      }
      return Effect.map(Effect.forkChild(Effect.exit(work(gated))), (fiber) => ({ fiber, waiting }))
    })
    const settled = Effect.forEach(Array.from({ length: 30 }), () => Effect.yieldNow, { discard: true })
    yield* settled
    for (const who of schedule) {
      const permit = processes[who]?.waiting.shift()
      if (permit !== undefined) yield* Deferred.succeed(permit, undefined)
      yield* settled
    }
    const left = processes.flatMap(({ waiting }, who) => (waiting.length > 0 ? [who] : []))
    const exits = processes.map(({ fiber }) => fiber.pollUnsafe())
    yield* Fiber.interruptAll(processes.map(({ fiber }) => fiber))

    // There is a whole log, or none
    const place = schedule.join("")
    const logs = logsOf(store)
    const found = Option.getOrUndefined(yield* logs.head("a"))
    if (found !== undefined) {
      assert.strictEqual((yield* logs.input(found)).generation, found.head.generation, place)
      assert.deepStrictEqual(yield* logs.batches(found), [[1]], place)
    }
    const ends = exits.flatMap((exit) => (exit !== undefined && Exit.isSuccess(exit) ? [exit.value] : []))
    if (ends.length === works.length && works.length === 2) {
      const [begun, removed] = ends
      assert(begun !== undefined && removed !== undefined && Exit.isExit(begun) && Exit.isExit(removed))
      // A log that was removed had begun
      const hasBegun = Exit.isSuccess(begun)
      if (found !== undefined) assert.isTrue(hasBegun, place)
      if (found === undefined) assert.strictEqual(Exit.isSuccess(removed) && removed.value, hasBegun, place)
    }
    // It can be removed, and begins anew
    assert.strictEqual(yield* logs.remove("a"), found !== undefined, place)
    assert.deepStrictEqual((yield* store.list()).keys, [], place)
    yield* begin(store)
    assert.isTrue(Option.isSome(yield* logs.head("a")), place)
    return left
  },
  Effect.provide(VersionedStore.layerMemory, { local: true })
)

describe("WORLD-9 a log that begins while its key is removed", () => {
  it.live("is whole or not there, in each order, and wherever both are stopped", () =>
    Effect.gen(function* () {
      let played = 0
      const from = (schedule: ReadonlyArray<number>): Effect.Effect<void, unknown> =>
        Effect.flatMap(play([begin, remove], schedule), (left) => {
          played += 1
          return Effect.forEach(left, (who) => from([...schedule, who]), { discard: true })
        })
      yield* from([])
      assert.isAbove(played, 300)
    })
  )

  it.live("is whole or not there, where two begin it and two remove it", () =>
    Effect.forEach(
      Array.from({ length: 1500 }, (_, seed) => seed + 1),
      (seed) => {
        // Park and Miller
        let state = seed
        const next = () => (state = (state * 48_271) % 2_147_483_647)
        next()
        const length = 1 + (next() % 26)
        return play(
          [begin, remove, begin, remove],
          Array.from({ length }, () => next() % 4)
        )
      },
      { discard: true }
    )
  )
})
