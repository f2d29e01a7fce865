/** WORLD-1: what goes wrong with the store and the network of a world. */
import { assert, describe, it } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Option, Result, Stream } from "effect"
import { VersionedStore } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Conformance, Simulation } from "effect-emissary/testing"

const calmly: Simulation.Trouble = {
  kills: 0,
  pauses: 0,
  stops: 0,
  jumps: 0,
  skew: 0,
  store: { failures: 0 },
  network: { losses: 0, doubles: 0 }
}

/** Processes that have the store and nothing else. */
const bare = Layer.effectContext(Effect.context<VersionedStore.VersionedStore>())

const store = VersionedStore.VersionedStore

const add = (key: string, value: number) =>
  Effect.flatMap(store, ({ compareAndSet }) => compareAndSet(key, Option.none(), value))

const read = ({ store }: Pick<Simulation.World<never>, "store">, key: string) =>
  Effect.map(store.get(key), (found) => Option.getOrUndefined(found)?.value)

const inWorlds = (
  seeds: number,
  trouble: Simulation.Trouble,
  script: (world: Simulation.World<VersionedStore.VersionedStore>) => Effect.Effect<unknown, unknown>
) => Simulation.run(bare, { seeds, processes: 2, trouble: { ...calmly, ...trouble }, script })

describe("WORLD-1 the store of a world", () => {
  it.live("fails before a write took effect, and after it", () =>
    Effect.gen(function* () {
      const kinds = new Set<string>()
      const { figures } = yield* inWorlds(5, { store: { failures: 0.5 } }, (world) =>
        Effect.gen(function* () {
          const { call } = yield* world.any
          for (let n = 0; n < 10; n++) {
            const written = yield* Effect.result(call("write", add(`k${n}`, n)))
            const isThere = (yield* read(world, `k${n}`)) === n
            kinds.add(`${Result.isSuccess(written)} ${isThere}`)
            if (Result.isFailure(written)) assert.strictEqual(written.failure._tag, "VersionedStoreError")
          }
        })
      )
      assert.deepStrictEqual(kinds, new Set(["true true", "false true", "false false"]))
      assert.isAbove(figures["storeFailures"] ?? 0, 10)
    })
  )

  it.live("a write that was sent takes effect although its process has died", () =>
    Effect.gen(function* () {
      let late = 0
      yield* inWorlds(
        20,
        { store: { failures: 0, latency: [0, 20] }, network: { latency: [0, 0], losses: 0, doubles: 0, timeout: 100 } },
        (world) =>
          Effect.gen(function* () {
            const one = yield* world.any
            yield* Effect.forkChild(Effect.exit(one.call("write", add("a", 1))))
            yield* Effect.sleep(5)
            const before = yield* read(world, "a")
            yield* one.kill
            yield* Effect.sleep(50)
            if (before === undefined && (yield* read(world, "a")) === 1) late += 1
          })
      )
      assert.isAbove(late, 2)
    })
  )

  it.live("takes time, and a list may be old when it arrives", () =>
    Effect.gen(function* () {
      let old = 0
      const faults = { failures: 0, latency: [1, 1] as const, staleness: 500 }
      yield* inWorlds(10, { store: faults }, (world) =>
        Effect.gen(function* () {
          const [one, two] = yield* world.processes
          if (one === undefined || two === undefined) return yield* Effect.die("two processes")
          const listing = yield* Effect.forkChild(
            one.call(
              "list",
              Effect.flatMap(store, ({ list }) => list())
            )
          )
          yield* Effect.sleep(100)
          yield* two.call("write", add("a", 1))
          const { keys } = yield* Fiber.join(listing)
          if (keys.length === 0) old += 1
        })
      )
      assert.isAbove(old, 2)
    })
  )

  it.live("another writer may come before a conditional write, and leaves the value", () =>
    Effect.gen(function* () {
      let conflicts = 0
      yield* inWorlds(5, { store: { failures: 0, conflicts: 0.5 } }, (world) =>
        Effect.gen(function* () {
          const { call } = yield* world.any
          for (let n = 0; n < 10; n++) {
            const version = yield* call("write", add(`k${n}`, n))
            const again = Effect.flatMap(store, ({ compareAndSet }) => compareAndSet(`k${n}`, Option.some(version), -n))
            const written = yield* Effect.result(call("write", again))
            const isConflict = Result.isFailure(written) && written.failure._tag === "VersionConflict"
            if (isConflict) conflicts += 1
            assert.strictEqual(yield* read(world, `k${n}`), isConflict ? n : -n)
          }
        })
      )
      assert.isAbove(conflicts, 10)
    })
  )

  it.live("knows which processes live", () =>
    Effect.gen(function* () {
      yield* inWorlds(1, { store: { failures: 0, knowsProcesses: true } }, (world) =>
        Effect.gen(function* () {
          const [one, two] = yield* world.processes
          if (one === undefined || two === undefined) return yield* Effect.die("two processes")
          const known = Effect.flatMap(store, ({ processes = Effect.succeedNone }) =>
            Effect.flatMap(processes, Effect.fromOption)
          )
          const { own } = yield* one.call("own", known)
          const look = two.call(
            "look",
            Effect.flatMap(known, ({ look }) => look(own))
          )
          assert.match(own, /^[0-9a-z]{16}$/)
          assert.strictEqual(yield* look, "alive")
          yield* one.kill
          assert.strictEqual(yield* look, "gone")
        })
      )
    })
  )
})

describe("WORLD-5 trouble at a place of a world", () => {
  /** Writes five keys with one process, each again until there is an answer. Returns what the writer knows of them. */
  const writing = (at: ReadonlyArray<Simulation.TroubleAt>) =>
    Effect.gen(function* () {
      const answers: Array<string> = []
      const { figures } = yield* Simulation.run(bare, {
        seeds: [3],
        processes: 1,
        trouble: { at },
        script: (world) =>
          Effect.gen(function* () {
            answers.length = 0
            for (let n = 0; n < 5; n++) {
              const write = Effect.flatMap(world.any, ({ call }) => Effect.result(call("write", add(`k${n}`, n))))
              const result = yield* Effect.retry(write, { while: ({ _tag }) => _tag === "Lost" })
              const isThere = (yield* read(world, `k${n}`)) === n
              answers.push(`${Result.isSuccess(result) ? "" : `${result.failure._tag} `}${isThere}`)
            }
          })
      })
      return { answers, figures }
    })

  it.live("an operation of the store fails before it took effect, or after it", () =>
    Effect.gen(function* () {
      const calm = ["true", "true", "true", "true", "true"]
      assert.deepStrictEqual((yield* writing([])).answers, calm)
      // The script looks at the store after each write
      for (const isApplied of [false, true]) {
        const { answers, figures } = yield* writing([{ fail: 3, isApplied }])
        assert.deepStrictEqual(answers, calm.with(1, `VersionedStoreError ${isApplied}`))
        assert.strictEqual(figures["storeFailures"], 1)
      }
    })
  )

  it.live("a process dies after any turn, and another one starts", () =>
    Effect.gen(function* () {
      const base = yield* writing([])
      const seen = new Set<string>()
      // The process starts within the first turns
      for (let kill = 8; kill < (base.figures["turns"] ?? 0); kill++) {
        const { answers, figures } = yield* writing([{ kill }])
        assert.strictEqual(figures["killed"] ?? 0, 1, `turn ${kill}`)
        // A write may have taken effect without an answer
        for (const answer of answers) assert.match(answer, /^(VersionConflict |Lost )?(true|false)$/)
        seen.add(answers.join())
      }
      assert.isAbove(seen.size, 5)
    })
  )

  it.live("a process dies so many turns after an operation of the store, and with two places twice", () =>
    Effect.gen(function* () {
      const twice = yield* writing([{ kill: 10 }, { kill: 2, after: 5 }])
      assert.strictEqual(twice.figures["killed"], 2)
      assert.strictEqual((yield* writing([{ kill: 2, after: 5000 }])).figures["killed"], undefined)
      assert.strictEqual(
        (yield* writing([
          { kill: 2, after: 5 },
          { fail: 5, isApplied: true }
        ])).figures["killed"],
        1
      )
    })
  )
})

/** Counts the calls that arrive. */
class Counter extends Context.Service<Counter, { readonly arrived: Array<number> }>()("test/Counter") {
  static readonly layer = Layer.sync(Counter, () => ({ arrived: [] }))
}

const onNetwork = (
  network: Simulation.NetworkFaults,
  script: (world: Simulation.World<Counter>) => Effect.Effect<unknown, unknown, Counter>
) =>
  Simulation.run(Layer.effectContext(Effect.context<Counter>()), {
    seeds: 5,
    processes: 1,
    outside: Counter.layer,
    trouble: { ...calmly, network: { losses: 0, doubles: 0, ...network } },
    script
  })

const arrive = (n: number) => Effect.map(Counter, ({ arrived }) => arrived.push(n))

describe("WORLD-1 the network of a world", () => {
  it.live("loses calls before they arrive, and their answers", () =>
    Effect.gen(function* () {
      const kinds = new Set<string>()
      const { figures } = yield* onNetwork({ losses: 0.3, timeout: 50 }, (world) =>
        Effect.gen(function* () {
          const { arrived } = yield* Counter
          const { call } = yield* world.any
          for (let n = 0; n < 10; n++) {
            const answered = yield* Effect.result(call("arrive", arrive(n)))
            kinds.add(`${Result.isSuccess(answered)} ${arrived.includes(n)}`)
            if (Result.isFailure(answered)) assert.strictEqual(answered.failure._tag, "Lost")
          }
        })
      )
      assert.deepStrictEqual(kinds, new Set(["true true", "false true", "false false"]))
      assert.isAbove(Math.min(figures["lostCalls"] ?? 0, figures["lostAnswers"] ?? 0), 2)
    })
  )

  it.live("makes calls twice, and changes their order", () =>
    Effect.gen(function* () {
      const found: Array<ReadonlyArray<number>> = []
      yield* onNetwork({ doubles: 0.3, latency: [0, 50] }, (world) =>
        Effect.gen(function* () {
          const { arrived } = yield* Counter
          const { call } = yield* world.any
          yield* Effect.forEach([1, 2, 3, 4, 5], (n) => call("arrive", arrive(n)), { concurrency: "unbounded" })
          yield* Effect.sleep(100)
          found.push(arrived)
        })
      )
      assert.isTrue(found.some((all) => all.length > 5))
      assert.isTrue(found.some((all) => all.join() !== [...all].sort().join()))
      assert.isTrue(found.every((all) => new Set(all).size === 5))
    })
  )

  it.live("cuts streams, whose items come late and in order, and notices a process that died", () =>
    Effect.gen(function* () {
      const numbers = Stream.concat(Stream.range(1, 30), Stream.never)
      const { figures } = yield* onNetwork({ losses: 0.1, latency: [0, 50] }, (world) =>
        Effect.gen(function* () {
          const seen: Array<number> = []
          const one = yield* world.any
          const items = Stream.suspend(() => Stream.drop(numbers, seen.length))
          const reading = Stream.runForEach(one.stream("numbers", items), (n) => Effect.sync(() => void seen.push(n)))
          yield* Effect.forkChild(Effect.andThen(Effect.sleep(20_000), one.kill))
          for (let cuts = 0; seen.length < 30; cuts++) {
            const error = yield* Effect.flip(reading)
            assert.strictEqual(error._tag, "Lost")
          }
          assert.deepStrictEqual(
            seen,
            Array.from({ length: 30 }, (_, index) => index + 1)
          )
        })
      )
      assert.isAbove(figures["cuts"] ?? 0, 5)
    })
  )
})

describe("WORLD-1 conformance in worlds", () => {
  const sqlite = Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))
  const checks = [
    ...Conformance.simulate("memory", VersionedStore.layerMemory, { worlds: 2 }),
    ...Conformance.simulate("SQLite", sqlite, { worlds: 2 })
  ]
  for (const { check, name } of checks) it.live(name, () => check)

  it.live("a store that loses a write in forty is noticed", () =>
    Effect.gen(function* () {
      const forgetful = Layer.effect(
        store,
        Effect.map(store, (kept) => {
          let writes = 0
          return {
            ...kept,
            compareAndSet: (...args: Parameters<typeof kept.compareAndSet>) =>
              Effect.suspend(() => {
                writes += 1
                return writes % 40 === 0 ? Effect.succeed(`${writes}`) : kept.compareAndSet(...args)
              })
          }
        })
      ).pipe(Layer.provide(VersionedStore.layerMemory))
      const found = yield* Effect.exit(
        Effect.forEach(Conformance.simulate("forgetful", forgetful, { worlds: 4 }), ({ check }) => check)
      )
      assert.include(String(found), "ConformanceError")
    })
  )
})
