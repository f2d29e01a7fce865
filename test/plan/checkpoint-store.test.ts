import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, Layer, Option, type Schema } from "effect"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, PlanRun, Step } from "effect-emissary/plan"

import { makeDirectory } from "../conversation/store/directory.ts"
import * as layers from "../conversation/store/layers.ts"
import { changed } from "../conversation/store/changed.ts"
import {
  counting,
  failedRun,
  failing,
  fails,
  head,
  layer,
  layerOver,
  looping,
  reasonOf,
  refuses,
  service
} from "./checkpoints.ts"
import { test, testWith } from "../test.ts"

const testStored = testWith(layer())

const directory = makeDirectory()
const store = VersionedStore.VersionedStore

/** All keys of the store. */
const keys = Effect.gen(function* () {
  return (yield* (yield* store).list({ limit: 10_000 })).keys
})

const set = Effect.fnUntraced(function* (key: string, change: (value: Schema.Json) => Schema.Json) {
  const values = yield* store
  const found = Option.getOrThrow(yield* values.get(key))
  yield* values.compareAndSet(key, Option.some(found.version), change(found.value))
})

describe("PLAN-6 checkpoints in every store", () => {
  for (const { layer, name } of layers.all(directory)) {
    const checkpoints = Checkpoint.layer({ leaseTime: "1 minute" }).pipe(Layer.provideMerge(layer))

    it.live(`${name}: a run that failed resumes, with its writes, and is removed`, () =>
      Effect.gen(function* () {
        const checkpoint = yield* service
        const { bound, ran } = yield* failedRun("a/../k")
        assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("first")).value, "go a")
        const result = yield* checkpoint.resume(bound, { key: "a/../k" })
        assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
        assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.load(bound, "a/../k")), result.state)
        assert.isTrue(yield* checkpoint.isCurrent("a/../k", "last"))
        assert.deepStrictEqual((yield* checkpoint.list()).keys, ["a/../k"])
        assert.isTrue(yield* checkpoint.remove("a/../k"))
        assert.isFalse(yield* checkpoint.remove("a/../k"))
        assert.deepStrictEqual(yield* keys, ["plan/writes/first", "plan/writes/last"])
      }).pipe(Effect.provide(checkpoints))
    )

    it.live(`${name}: of those that start at once exactly one runs`, () =>
      Effect.gen(function* () {
        const checkpoint = yield* service
        for (let round = 0; round < 3; round++) {
          const begun = yield* Deferred.make<void>()
          const { bound, ran } = yield* counting({ a: Deferred.await(begun) })
          const racer = Effect.result(checkpoint.run(bound, { key: `race ${round}`, input: "go" })).pipe(
            // The loser opens the gate of the winner
            Effect.tap((result) => (result._tag === "Failure" ? Deferred.succeed(begun, undefined) : Effect.void))
          )
          const results = yield* Effect.all([racer, racer, racer], { concurrency: "unbounded" })
          const winners = results.filter((result) => result._tag === "Success").length
          assert.isAtLeast(winners, 1)
          assert.strictEqual((yield* ran).length, 3 * winners)
          assert.strictEqual((yield* head(`race ${round}`)).epoch, winners)
        }
      }).pipe(Effect.provide(checkpoints))
    )
  }
})

describe("PLAN-6 durable writes", () => {
  const down = (name: string) => {
    const state = { isDown: true }
    return { state, layers: layerOver(failing((key) => state.isDown && key === `plan/writes/${name}`)) }
  }

  for (const [write, before, after] of [
    ["first", ["a"], ["a", "b", "c"]],
    ["last", ["a", "b", "c"], ["a", "b", "c"]]
  ] as const) {
    const { layers, state } = down(write)
    it.effect(`that fail stop the run, keep the step, and are done first later: ${write} (S9.3, O17, O18, P19)`, () =>
      Effect.gen(function* () {
        const checkpoint = yield* service
        const { bound, ran } = yield* counting()
        const error = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
        assert.strictEqual(reasonOf(error), "CheckpointError WriteFailed")
        assert.include(error.message, `its write "${write}" failed`)
        assert.deepStrictEqual(yield* ran, before)
        const found = yield* head("k")
        assert.strictEqual(found.status, "failed")
        assert.deepStrictEqual(found.pendingWrites, [write])
        assert.strictEqual(found.completed, before.length)
        assert.isFalse(yield* checkpoint.isCurrent("k", write))

        // Still down: nothing runs before the write
        assert.strictEqual(yield* fails(checkpoint.resume(bound, { key: "k" })), "CheckpointError WriteFailed")
        assert.deepStrictEqual(yield* ran, before)

        state.isDown = false
        const result = yield* checkpoint.resume(bound, { key: "k" })
        assert.strictEqual(result.outcome === "Completed" ? result.output : "", "go a b c")
        assert.deepStrictEqual(yield* ran, after)
        assert.isTrue(yield* checkpoint.isCurrent("k", write))
        assert.strictEqual((yield* head("k")).status, "done")
        assert.deepStrictEqual((yield* head("k")).pendingWrites, [])
      }).pipe(Effect.provide(layers))
    )
  }

  const late = down("first")
  testWith(late.layers)("that come late do not replace what others wrote since", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting()
    yield* Effect.flip(checkpoint.run(bound, { key: "slow", input: "slow" }))
    late.state.isDown = false
    yield* checkpoint.run(bound, { key: "fast", input: "fast" })
    yield* checkpoint.resume(bound, { key: "slow" })
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("first")).value, "fast a")
    assert.isTrue(yield* checkpoint.isCurrent("fast", "first"))
    // Written by its own step, later
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("last")).value, "slow a b c")
    assert.deepStrictEqual((yield* head("slow")).pendingWrites, [])
  })

  testStored("cannot touch a checkpoint, whatever they are called (O08)", function* () {
    const checkpoint = yield* service
    for (const write of ["plan/head/k", "../head/k", "k", "", "/", "__proto__ "]) {
      const { bound } = yield* counting({}, { lastWrite: write === "" ? "x" : write })
      yield* checkpoint.run(bound, { key: "k", input: "go" })
      assert.strictEqual((yield* head("k")).status, "done")
      assert.isTrue(yield* checkpoint.isCurrent("k", write === "" ? "x" : write))
    }
  })

  testStored("where something else is stored, are refused and leave it alone", function* () {
    const checkpoint = yield* service
    const values = yield* store
    yield* values.compareAndSet("plan/writes/last", Option.none(), "mine")
    const { bound, ran } = yield* counting()
    const error = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
    assert.strictEqual(reasonOf(error), "CheckpointError WriteFailed")
    assert.strictEqual(Option.getOrThrow(yield* values.get("plan/writes/last")).value, "mine")
    assert.strictEqual(yield* fails(checkpoint.read("last")), "CheckpointError Unreadable")
    yield* values.delete("plan/writes/last")
    yield* checkpoint.resume(bound, { key: "k" })
    assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    assert.isTrue(yield* checkpoint.isCurrent("k", "last"))
  })
})

describe("PLAN-6 what is stored", () => {
  testWith(VersionedStore.layerMemory)("namespaces do not see each other, whatever they are called", function* () {
    const { bound } = yield* counting()
    for (const namespace of ["a", "a/head", "a%2Fhead", ""]) {
      const checkpoint = yield* Effect.provide(service, Checkpoint.layer({ namespace }))
      assert.deepStrictEqual((yield* checkpoint.list()).keys, [], namespace)
      yield* checkpoint.run(bound, { key: "head/k", input: namespace })
      assert.deepStrictEqual((yield* checkpoint.list()).keys, ["head/k"])
      assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("last")).value, `${namespace} a b c`)
    }
  })

  testStored("what is no checkpoint is refused and left alone (I10, I11)", function* () {
    const checkpoint = yield* service
    const values = yield* store
    const { bound, ran } = yield* counting()
    for (const foreign of ["text", 1, null, [], {}, { owner: "me" }, { version: 1, status: "done" }, { version: 2 }]) {
      const version = yield* values.compareAndSet("plan/head/k", Option.none(), foreign)
      for (const attempt of [
        Effect.asVoid(checkpoint.run(bound, { key: "k", input: "go" })),
        Effect.asVoid(checkpoint.run(bound, { key: "k", input: "go", policy: "restart" })),
        Effect.asVoid(checkpoint.run(bound, { key: "k", input: "go", policy: "startOrResume" })),
        Effect.asVoid(checkpoint.resume(bound, { key: "k" })),
        Effect.asVoid(checkpoint.load(bound, "k")),
        Effect.asVoid(checkpoint.inspect("k")),
        Effect.asVoid(checkpoint.remove("k"))
      ]) {
        const error = yield* Effect.flip(attempt)
        assert.strictEqual(reasonOf(error), "CheckpointError Unreadable")
        assert.include(error.message, "plan/head/k")
      }
      assert.deepStrictEqual(yield* values.get("plan/head/k"), Option.some({ value: foreign, version }))
      assert.isTrue(yield* checkpoint.remove("k", { force: true }))
    }
    assert.deepStrictEqual(yield* ran, [])
    assert.deepStrictEqual(yield* keys, [])
  })

  testStored("events that are missing, damaged or of another run are errors (I20)", function* () {
    const checkpoint = yield* service
    const values = yield* store
    const { bound, ran } = yield* counting({ c: refuses("down") })
    yield* Effect.flip(checkpoint.run(bound, { key: "other", input: "go" }))
    const others = (yield* keys).find((key) => key.startsWith("plan/journal/5:other/") && !key.endsWith("input"))
    const other = Option.getOrThrow(yield* values.get(others ?? "")).value
    const damages: ReadonlyArray<
      readonly [string, string, (key: string) => Effect.Effect<unknown, unknown, VersionedStore.VersionedStore>]
    > = [
      ["missing", "Damaged", (key) => Effect.flatMap(store, (values) => values.delete(key))],
      ["no events", "Unreadable", (key) => set(key, () => ({ version: 1 }))],
      ["text", "Unreadable", (key) => set(key, () => "text")],
      [
        "newer",
        "Unreadable",
        (key) => set(key, (value) => (typeof value === "object" ? { ...value, version: 9 } : value))
      ],
      ["of another run", "Damaged", (key) => set(key, () => other)],
      [
        "without its events",
        "Damaged",
        (key) =>
          set(key, (value) =>
            value !== null && typeof value === "object" ? { ...value, events: { version: 1, events: [] } } : value
          )
      ]
    ]
    for (const [name, tag, damage] of damages) {
      for (const place of [0, 1, 2, 3]) {
        const key = `${name} ${place}`
        yield* Effect.flip(checkpoint.run(bound, { key, input: "go" }))
        const before = (yield* ran).length
        const batches = (yield* keys).filter(
          (stored) => stored.startsWith(`plan/journal/${key.length}:${key}/`) && !stored.endsWith("input")
        )
        yield* damage(batches[place] ?? "")
        const status = yield* head(key)
        for (const attempt of [
          Effect.asVoid(checkpoint.resume(bound, { key })),
          Effect.asVoid(checkpoint.load(bound, key))
        ]) {
          assert.strictEqual(yield* fails(attempt), `CheckpointError ${tag}`, key)
        }
        assert.deepStrictEqual(yield* head(key), status)
        assert.strictEqual((yield* ran).length, before)
      }
    }
  })

  testStored("a run that is started anew leaves nothing of the one before", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting()
    yield* checkpoint.run(bound, { key: "k", input: "go" })
    const first = yield* keys
    yield* checkpoint.run(bound, { key: "k", input: "go" })
    const second = yield* keys
    assert.strictEqual(second.length, first.length)
    yield* checkpoint.run(bound, { key: "k", input: "go", policy: "restart" })
    assert.strictEqual((yield* keys).length, first.length)
    assert.isTrue(yield* checkpoint.remove("k"))
    assert.deepStrictEqual(yield* keys, ["plan/writes/first", "plan/writes/last"])
  })

  testStored("what must not be stored stops the run before it (L2, L8)", function* () {
    const checkpoint = yield* service
    const { bound, ran } = yield* counting()
    const secret = checkpoint.run(bound, { key: "k", input: "go", context: { api_key: "sk-1" } })
    const error = yield* Effect.flip(secret)
    assert.strictEqual(reasonOf(error), "CheckpointError Refused")
    assert.notInclude(error.message, "sk-1")
    assert.deepStrictEqual(yield* ran, [])
    assert.deepStrictEqual(yield* checkpoint.inspect("k"), Option.none())
    // The output of a step is data, whatever the names of its keys
    const plan = yield* Plan.make(
      Step.make("data", { target: () => Effect.succeed({ api_key: "public" }), writes: "data" })
    )
    const data = yield* Plan.bind(plan)
    yield* checkpoint.run(data, { key: "k", input: { payload: { password: "is a word" } } })
    assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.read("data")).value, { api_key: "public" })
  })

  const limited = { isDown: false }
  testWith(layerOver(failing(() => limited.isDown)))(
    "a store that fails stops the run, which resumes later",
    function* () {
      const checkpoint = yield* service
      const { bound, ran } = yield* counting({ b: Effect.sync(() => void (limited.isDown = true)) })
      const error = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
      assert.strictEqual(reasonOf(error), "CheckpointError StoreFailed")
      assert.deepStrictEqual(yield* ran, ["a", "b"])
      limited.isDown = false
      // Its end could not be recorded, so its lease has to expire
      assert.strictEqual(yield* fails(checkpoint.resume(bound, { key: "k" })), "CheckpointError RunActive")
      yield* TestClock.adjust("1 minute")
      const again = yield* counting()
      const result = yield* checkpoint.resume(again.bound, { key: "k" })
      assert.strictEqual(result.outcome, "Completed")
      assert.deepStrictEqual(yield* again.ran, ["b", "c"])
    }
  )

  // Which write of the head fails although it takes place: the claim, each batch, the end
  for (const nth of [2, 3, 4, 5, 6]) {
    const unsure = { heads: 0 }
    testWith(layerOver(failing((key) => key.startsWith("plan/head/") && ++unsure.heads === nth, "after")))(
      `a store that fails after it wrote head ${nth} loses nothing and repeats nothing`,
      function* () {
        const checkpoint = yield* service
        const { bound, ran } = yield* counting()
        const error = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
        assert.strictEqual(reasonOf(error), "CheckpointError StoreFailed")
        const before = Option.getOrThrow(yield* checkpoint.load(bound, "k"))
        const done = PlanRun.history(before).map(({ step }) => step)
        const steps = [...(yield* ran)]
        assert.deepStrictEqual(steps, done)
        const result = yield* checkpoint.resume(bound, { key: "k" })
        assert.strictEqual(result.outcome === "Completed" ? result.output : "", "go a b c")
        assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
        assert.isTrue(yield* checkpoint.isCurrent("k", "first"))
        assert.isTrue(yield* checkpoint.isCurrent("k", "last"))
        assert.strictEqual((yield* head("k")).status, "done")
      }
    )
  }

  const flaky = { isDown: false }
  testWith(layerOver(failing(() => flaky.isDown)))(
    "a store that fails for a while between two writes costs nothing",
    function* () {
      const checkpoint = yield* service
      const open = yield* Deferred.make<void>()
      const { bound } = yield* counting({ b: Deferred.await(open) })
      const fiber = yield* Effect.forkChild(checkpoint.run(bound, { key: "k", input: "go" }))
      yield* TestClock.adjust("5 seconds")
      flaky.isDown = true
      yield* TestClock.adjust("15 seconds")
      flaky.isDown = false
      yield* TestClock.adjust("1 minute")
      assert.isTrue((yield* head("k")).live)
      yield* Deferred.succeed(open, undefined)
      assert.strictEqual((yield* Fiber.join(fiber)).outcome, "Completed")
    }
  )

  test("costs per step the size of one step, however many there are (L10)", function* () {
    const costs = yield* Effect.forEach([50, 100, 200], (steps) =>
      Effect.gen(function* () {
        let bytes = 0
        let writes = 0
        const counted = changed((values) => ({
          compareAndSet: (key, expected, value) =>
            Effect.suspend(() => {
              bytes += JSON.stringify(value).length
              writes += 1
              return values.compareAndSet(key, expected, value)
            })
        }))
        const { bound } = yield* looping(steps, 1000)
        const run = Effect.flatMap(service, (checkpoint) => checkpoint.run(bound, { key: "k", input: "go" }))
        const result = yield* Effect.provide(run, layerOver(counted))
        assert.strictEqual(result.iterations, steps)
        return { bytes: bytes / steps, writes: writes / steps }
      })
    )
    const [first, , last] = costs
    assert(first !== undefined && last !== undefined)
    assert.isAtMost(last.bytes, first.bytes * 1.05)
    assert.isAtMost(last.writes, first.writes * 1.05)
    // One batch, one head, one durable write
    assert.isAtMost(last.writes, 3.1)
  })
})
