import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, type Schema } from "effect"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary"
import { Checkpoint, PlanRun, Step } from "effect-emissary/plan"

import { makeDirectory } from "../store/directory.ts"
import * as layers from "../store/layers.ts"
import { changed } from "../store/changed.ts"
import {
  counting,
  failedRun,
  failing,
  failingAt,
  fails,
  gate,
  head,
  held,
  layerOver,
  loaded,
  looping,
  reasonOf,
  refuses,
  service,
  testOver,
  testStored,
  written
} from "./checkpoints.ts"
import { completed, log, planOf } from "./support.ts"
import { pluck } from "../pluck.ts"
import { test, testWith } from "../test.ts"

const key = "k"
const begin = { key, input: "go" }

const directory = makeDirectory()
const store = VersionedStore.VersionedStore

/** All keys of the store. */
const keys = Effect.gen(function* () {
  return (yield* (yield* store).list({ limit: 10_000 })).keys
})

/** The keys of the batches of a run's events. */
const batches = (key: string) =>
  Effect.map(keys, (all) =>
    all.filter((stored) => stored.startsWith(`plan/journal/${key.length}:${key}/`) && !stored.endsWith("input"))
  )

describe("PLAN-6 checkpoints in every store", () => {
  for (const { layer, name } of layers.all(directory)) {
    const checkpoints = Checkpoint.layer({ leaseTime: "1 minute" }).pipe(Layer.provideMerge(layer))

    test.live(`${name}: a run that failed resumes, with its writes, and is removed`, checkpoints, function* () {
      const checkpoint = yield* service
      const key = "a/../k"
      const { bound, ran } = yield* failedRun(key)
      assert.strictEqual(yield* written("first"), "go a")
      const result = yield* checkpoint.resume(bound, { key })
      assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
      assert.deepStrictEqual(yield* loaded(bound, key), result.state)
      assert.isTrue(yield* checkpoint.isCurrent(key, "last"))
      assert.deepStrictEqual((yield* checkpoint.list()).keys, [key])
      assert.isTrue(yield* checkpoint.remove(key))
      assert.isFalse(yield* checkpoint.remove(key))
      assert.deepStrictEqual(yield* keys, ["plan/writes/first", "plan/writes/last"])
    })

    test.live(`${name}: of those that start at once exactly one runs`, checkpoints, function* () {
      const checkpoint = yield* service
      for (const key of ["race 0", "race 1", "race 2"]) {
        const { hook, open } = yield* gate
        const { bound, ran } = yield* counting({ a: hook })
        const racer = Effect.result(checkpoint.run(bound, { key, input: "go" })).pipe(
          // The loser opens the gate of the winner
          Effect.tap((result) => (result._tag === "Failure" ? open : Effect.void))
        )
        const results = yield* Effect.all([racer, racer, racer], { concurrency: "unbounded" })
        const winners = results.filter((result) => result._tag === "Success").length
        assert.isAtLeast(winners, 1)
        assert.strictEqual((yield* ran).length, 3 * winners)
        assert.strictEqual((yield* head(key)).epoch, winners)
      }
    })
  }
})

describe("PLAN-6 durable writes", () => {
  const down = (name: string) => {
    const state = { isDown: true }
    return { state, layer: layerOver(failing((key) => state.isDown && key === `plan/writes/${name}`)) }
  }

  for (const [write, before] of [
    ["first", ["a"]],
    ["last", ["a", "b", "c"]]
  ] as const) {
    const { layer, state } = down(write)
    const name = `that fail stop the run, keep the step, and are done first later: ${write} (S9.3, O17, O18, P19)`
    testOver(layer)(name, function* (checkpoint) {
      const { bound, ran } = yield* counting()
      const error = yield* Effect.flip(checkpoint.run(bound, begin))
      assert.strictEqual(reasonOf(error), "CheckpointError WriteFailed")
      assert.include(error.message, `its write "${write}" failed`)
      assert.deepStrictEqual(yield* ran, before)
      const { completed: done, pendingWrites, status } = yield* head(key)
      assert.deepStrictEqual([status, pendingWrites, done], ["failed", [write], before.length])
      assert.isFalse(yield* checkpoint.isCurrent(key, write))

      // Still down: nothing runs before the write
      assert.strictEqual(yield* fails(checkpoint.resume(bound, { key })), "CheckpointError WriteFailed")
      assert.deepStrictEqual(yield* ran, before)

      state.isDown = false
      assert.strictEqual(completed(yield* checkpoint.resume(bound, { key })).output, "go a b c")
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
      assert.isTrue(yield* checkpoint.isCurrent(key, write))
      const found = yield* head(key)
      assert.deepStrictEqual([found.status, found.pendingWrites], ["done", []])
    })
  }

  const late = down("first")
  testOver(late.layer)("that come late do not replace what others wrote since", function* (checkpoint) {
    const { bound } = yield* counting()
    yield* Effect.flip(checkpoint.run(bound, { key: "slow", input: "slow" }))
    late.state.isDown = false
    yield* checkpoint.run(bound, { key: "fast", input: "fast" })
    yield* checkpoint.resume(bound, { key: "slow" })
    assert.strictEqual(yield* written("first"), "fast a")
    assert.isTrue(yield* checkpoint.isCurrent("fast", "first"))
    // Written by its own step, later
    assert.strictEqual(yield* written("last"), "slow a b c")
    assert.deepStrictEqual((yield* head("slow")).pendingWrites, [])
  })

  testStored("cannot touch a checkpoint, whatever they are called (O08)", function* (checkpoint) {
    for (const write of ["plan/head/k", "../head/k", "k", "x", "/", "__proto__ "]) {
      const { bound } = yield* counting({}, write)
      yield* checkpoint.run(bound, begin)
      assert.strictEqual((yield* head(key)).status, "done")
      assert.isTrue(yield* checkpoint.isCurrent(key, write))
    }
  })

  testStored("where something else is stored, are refused and leave it alone", function* (checkpoint) {
    const values = yield* store
    yield* values.compareAndSet("plan/writes/last", Option.none(), "mine")
    const { bound, ran } = yield* counting()
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError WriteFailed")
    assert.strictEqual(Option.getOrThrow(yield* values.get("plan/writes/last")).value, "mine")
    assert.strictEqual(yield* fails(checkpoint.read("last")), "CheckpointError Unreadable")
    yield* values.delete("plan/writes/last")
    yield* checkpoint.resume(bound, { key })
    assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    assert.isTrue(yield* checkpoint.isCurrent(key, "last"))
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

  testStored("what is no checkpoint is refused and left alone (I10, I11)", function* (checkpoint) {
    const values = yield* store
    const { bound, ran } = yield* counting()
    const policies = ["start", "restart", "startOrResume"] as const
    for (const foreign of ["text", 1, null, [], {}, { owner: "me" }, { version: 1, status: "done" }, { version: 2 }]) {
      const version = yield* values.compareAndSet("plan/head/k", Option.none(), foreign)
      for (const attempt of [
        ...policies.map((policy) => Effect.asVoid(checkpoint.run(bound, { ...begin, policy }))),
        Effect.asVoid(checkpoint.resume(bound, { key })),
        Effect.asVoid(checkpoint.load(bound, key)),
        Effect.asVoid(checkpoint.inspect(key)),
        Effect.asVoid(checkpoint.remove(key))
      ]) {
        const error = yield* Effect.flip(attempt)
        assert.strictEqual(reasonOf(error), "CheckpointError Unreadable")
        assert.include(error.message, "plan/head/k")
      }
      assert.deepStrictEqual(yield* values.get("plan/head/k"), Option.some({ value: foreign, version }))
      assert.isTrue(yield* checkpoint.remove(key, { force: true }))
    }
    assert.deepStrictEqual(yield* ran, [])
    assert.deepStrictEqual(yield* keys, [])
  })

  testStored("TRUST-4 counts in a head are checked against what is there", function* (checkpoint) {
    const values = yield* store
    const { bound } = yield* failedRun()
    yield* checkpoint.run(bound, { ...begin, key: "whole" })
    const { value, version } = Option.getOrThrow(yield* values.get("plan/head/k"))
    // Sound: a head is an object with segments
    const stored = value as { readonly segments: ReadonlyArray<{ readonly batches: number }> }
    const counted = (batches: number) => stored.segments.map((segment) => ({ ...segment, batches }))
    const wrong: ReadonlyArray<readonly [tag: string, segments: Schema.Json]> = [
      ...[2 ** 32 - 1, 1e8, Number.MAX_SAFE_INTEGER].map((count) => ["Damaged", counted(count)] as const),
      ...[2 ** 53, -1, 0.5, "1"].map((batches) => ["Unreadable", [{ epoch: 1, owner: "me", batches }]] as const),
      ["Unreadable", [...counted(1), ...counted(1)]]
    ]
    let expected = version
    for (const [tag, segments] of wrong) {
      expected = yield* values.compareAndSet("plan/head/k", Option.some(expected), { ...stored, segments })
      for (const attempt of [
        Effect.asVoid(checkpoint.load(bound, key)),
        Effect.asVoid(checkpoint.resume(bound, { key }))
      ]) {
        assert.strictEqual(yield* fails(attempt), `CheckpointError ${tag}`)
      }
      assert.deepStrictEqual((yield* checkpoint.list()).keys, [key, "whole"])
    }
    assert.strictEqual((yield* head("whole")).status, "done")
    assert.isTrue(yield* checkpoint.remove(key, { force: true }))
  })

  testStored("events that are missing, damaged or of another run are errors (I20)", function* (checkpoint) {
    const values = yield* store
    const { bound, ran } = yield* counting({ c: refuses("down") })
    yield* Effect.flip(checkpoint.run(bound, { key: "other", input: "go" }))
    const other = Option.getOrThrow(yield* values.get((yield* batches("other"))[0] ?? "")).value
    type Change = (value: Schema.Json) => Schema.Json
    // Sound: every batch is an object
    const within =
      (changed: Schema.JsonObject): Change =>
      (value) => ({ ...(value as Schema.JsonObject), ...changed })
    const damages: ReadonlyArray<readonly [name: string, tag: string, change: Change | "missing"]> = [
      ["missing", "Damaged", "missing"],
      ["no events", "Unreadable", () => ({ version: 1 })],
      ["text", "Unreadable", () => "text"],
      ["newer", "Unreadable", within({ version: 9 })],
      ["of another run", "Damaged", () => other],
      ["without its events", "Damaged", within({ events: { version: 1, events: [] } })]
    ]
    for (const [name, tag, change] of damages) {
      for (const place of [0, 1, 2, 3]) {
        const key = `${name} ${place}`
        yield* Effect.flip(checkpoint.run(bound, { key, input: "go" }))
        const before = (yield* ran).length
        const batch = (yield* batches(key))[place] ?? ""
        const { value, version } = Option.getOrThrow(yield* values.get(batch))
        if (change === "missing") yield* values.delete(batch)
        else yield* values.compareAndSet(batch, Option.some(version), change(value))
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

  testStored("a run that is started anew leaves nothing of the one before", function* (checkpoint) {
    const { bound } = yield* counting()
    yield* checkpoint.run(bound, begin)
    const { length } = yield* keys
    yield* checkpoint.run(bound, begin)
    assert.strictEqual((yield* keys).length, length)
    yield* checkpoint.run(bound, { ...begin, policy: "restart" })
    assert.strictEqual((yield* keys).length, length)
    assert.isTrue(yield* checkpoint.remove(key))
    assert.deepStrictEqual(yield* keys, ["plan/writes/first", "plan/writes/last"])
  })

  testStored("what must not be stored stops the run before it (L2, L8)", function* (checkpoint) {
    const { bound, ran } = yield* counting()
    const error = yield* Effect.flip(checkpoint.run(bound, { ...begin, context: { api_key: "sk-1" } }))
    assert.strictEqual(reasonOf(error), "CheckpointError Refused")
    assert.notInclude(error.message, "sk-1")
    assert.deepStrictEqual(yield* ran, [])
    assert.deepStrictEqual(yield* checkpoint.inspect(key), Option.none())
    // The output of a step is data, whatever the names of its keys
    const { fn } = log()
    const data = yield* planOf(Step.make("data", { target: fn("data", () => ({ api_key: "public" })), writes: "data" }))
    yield* checkpoint.run(data, { key, input: { payload: { password: "is a word" } } })
    assert.deepStrictEqual(yield* written("data"), { api_key: "public" })
  })

  const limited = { isDown: false }
  const testLimited = testOver(layerOver(failing(() => limited.isDown)))
  testLimited("a store that fails stops the run, which resumes later", function* (checkpoint) {
    const { bound, ran } = yield* counting({ b: Effect.sync(() => void (limited.isDown = true)) })
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError StoreFailed")
    assert.deepStrictEqual(yield* ran, ["a", "b"])
    limited.isDown = false
    // Its end could not be recorded, so its lease has to expire
    assert.strictEqual(yield* fails(checkpoint.resume(bound, { key })), "CheckpointError RunActive")
    yield* TestClock.adjust("1 minute")
    const again = yield* counting()
    completed(yield* checkpoint.resume(again.bound, { key }))
    assert.deepStrictEqual(yield* again.ran, ["b", "c"])
  })

  testLimited("a store that fails for a while between two writes costs nothing", function* (checkpoint) {
    const { fiber, open } = yield* held((plan) => checkpoint.run(plan, begin))
    yield* TestClock.adjust("5 seconds")
    limited.isDown = true
    yield* TestClock.adjust("15 seconds")
    limited.isDown = false
    yield* TestClock.adjust("1 minute")
    assert.isTrue((yield* head(key)).live)
    yield* open
    completed(yield* Fiber.join(fiber))
  })

  // Which write of the head fails although it takes place: the claim, each batch, the end
  for (const nth of [2, 3, 4, 5, 6]) {
    const unsure = failingAt(nth, (key) => key.startsWith("plan/head/"), "after")
    testOver(unsure)(`a store that fails after it wrote head ${nth} loses and repeats nothing`, function* (checkpoint) {
      const { bound, ran } = yield* counting()
      assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError StoreFailed")
      assert.deepStrictEqual(yield* ran, pluck(PlanRun.history(yield* loaded(bound)), "step"))
      assert.strictEqual(completed(yield* checkpoint.resume(bound, { key })).output, "go a b c")
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
      assert.isTrue(yield* checkpoint.isCurrent(key, "first"))
      assert.isTrue(yield* checkpoint.isCurrent(key, "last"))
      assert.strictEqual((yield* head(key)).status, "done")
    })
  }

  test("costs per step the size of one step, however many there are (L10)", function* () {
    let writes: Array<number> = []
    const counted = changed((values) => ({
      compareAndSet: (key, expected, value) => {
        writes.push(JSON.stringify(value).length)
        return values.compareAndSet(key, expected, value)
      }
    }))
    const costs = yield* Effect.forEach([50, 100, 200], (steps) =>
      Effect.gen(function* () {
        writes = []
        const { bound } = yield* looping(steps, 1000)
        const result = yield* (yield* service).run(bound, begin)
        assert.strictEqual(result.iterations, steps)
        return { bytes: writes.reduce((sum, size) => sum + size, 0) / steps, writes: writes.length / steps }
      }).pipe(Effect.provide(layerOver(counted)))
    )
    const [first, , last] = costs
    assert(first !== undefined && last !== undefined)
    assert.isAtMost(last.bytes, first.bytes * 1.05)
    assert.isAtMost(last.writes, first.writes * 1.05)
    // One batch, one head, one durable write
    assert.isAtMost(last.writes, 3.1)
  })
})
