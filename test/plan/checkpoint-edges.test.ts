/** PLAN-6: what is left behind, taken over, begun twice, damaged or edited. */
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { TestClock } from "effect/testing"
import { RunContext, VersionedStore } from "effect-emissary"
import { Checkpoint, Step, When } from "effect-emissary/plan"
import { changed } from "../store/changed.ts"
import {
  counting,
  failedRun,
  failingAt,
  fails,
  head,
  layerOver,
  loaded,
  reasonOf,
  refuses,
  testOver,
  testStored,
  written
} from "./checkpoints.ts"
import { completed, log, planOf } from "./support.ts"
import { test } from "../test.ts"

const key = "k"
const begin = { key, input: "go" }

describe("PLAN-6 a run that was claimed and did nothing yet", () => {
  const broken = failingAt(1, (key) => key.includes("/journal/") && !key.endsWith("/input"))
  testOver(broken)("begins with the context and the limit that it was claimed with", function* (checkpoint) {
    const bound = yield* planOf(
      Step.make("a", { target: () => RunContext.RunContext, routes: [["a", When.field("tenant").equals("ada")]] }),
      log().fnStep("b")
    )
    const first = checkpoint.run(bound, { ...begin, context: { tenant: "ada" }, maxIterations: 3 })
    assert.strictEqual(yield* fails(first), "CheckpointError StoreFailed")
    assert.strictEqual((yield* head(key)).completed, 0)
    const other = checkpoint.run(bound, { ...begin, context: { tenant: "bob" }, policy: "startOrResume" })
    assert.strictEqual(yield* fails(other), "CheckpointError InputDiffers")
    assert.deepStrictEqual(yield* checkpoint.load(bound, key), Option.none())
    assert.strictEqual(yield* fails(checkpoint.resume(bound, { key })), "PlanError MaxIterationsExceeded")
    assert.strictEqual((yield* head(key)).iterations, 3)
  })
})

describe("PLAN-6 taking a key", () => {
  test("MEND-10 W9 a policy that does not exist begins nothing", Checkpoint.layerMemory, function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const bound = yield* planOf(log().fnStep("a"))
    const policy = JSON.parse(`"startOrresume"`)
    const error = yield* Effect.flip(checkpoint.run(bound, { ...begin, policy }))
    assert.match(error.message, /the policy: expected one of start, startOrResume, restart, fork, got "startOrresume"/)
    assert.deepStrictEqual(yield* checkpoint.load(bound, key), Option.none())
    assert.strictEqual((yield* checkpoint.run(bound, begin)).outcome, "Completed")
  })

  /** All read before any of them writes. */
  const slow = changed((store) => ({
    compareAndSet: (...args) => Effect.andThen(Effect.yieldNow, store.compareAndSet(...args))
  }))

  testOver(layerOver(slow))("of several resumes exactly one runs, the others learn which", function* (checkpoint) {
    const { bound, ran } = yield* failedRun(key, Effect.sleep("1 second"))
    const racer = Effect.result(checkpoint.resume(bound, { key }))
    const fiber = yield* Effect.forkChild(Effect.all([racer, racer, racer], { concurrency: "unbounded" }))
    while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
    const results = yield* Fiber.join(fiber)
    const reasons = results.flatMap((result) => (result._tag === "Failure" ? [reasonOf(result.failure)] : []))
    assert.deepStrictEqual(reasons, ["CheckpointError RunActive", "CheckpointError RunActive"])
    assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
  })

  testStored("of a fork again keeps what it writes apart", function* (checkpoint) {
    const { bound } = yield* counting()
    const { key: fork } = yield* checkpoint.run(bound, { ...begin, policy: "fork" })
    for (const policy of ["start", "restart"] as const) {
      yield* checkpoint.run(bound, { key: fork, input: policy, policy })
      assert.isTrue((yield* head(fork)).fork)
      assert.strictEqual(yield* written("last", { fork }), `${policy} a b c`)
      assert.deepStrictEqual(yield* checkpoint.read("last"), Option.none())
    }
  })
})

describe("PLAN-6 what a run leaves", () => {
  const broken = failingAt(3, (key) => key === "plan/head/k")
  testOver(broken)("in vain, written and in no head, goes when it is begun anew", function* (checkpoint) {
    const store = yield* VersionedStore.VersionedStore
    const journals = store.list({ prefix: "plan/journal/", limit: 1000 })
    const { bound } = yield* counting()
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError StoreFailed")
    yield* TestClock.adjust("1 minute")
    yield* checkpoint.run(bound, { ...begin, policy: "restart" })
    const { length } = (yield* journals).keys
    yield* checkpoint.run(bound, { key: "l", input: "go" })
    assert.strictEqual((yield* journals).keys.length, 2 * length)
  })

  testStored("of a step that returns null: nothing, and the value written before stays (S9.1)", function* (checkpoint) {
    let turn = 0
    const { fn } = log()
    const bound = yield* planOf(
      Step.make("a", { target: fn("a", () => (++turn === 1 ? "first" : null)), writes: "w" }),
      Step.make("b", { target: fn("b", () => turn), routes: [["a", When.text("1")]] }),
      Step.make("c", { target: fn("c", () => null), writes: "none" })
    )
    const result = yield* checkpoint.run(bound, begin)
    assert.deepStrictEqual(Array.from(result.writes), [["w", "first"]])
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("w")).record, 0)
    assert.deepStrictEqual(yield* checkpoint.read("none"), Option.none())
  })
})

describe("PLAN-6 a key that is begun again", () => {
  /** The next effect before a journal is read, and the one after a value is removed. */
  const next = { get: Effect.void as Effect.Effect<unknown>, delete: Effect.void as Effect.Effect<unknown> }
  const once = (operation: keyof typeof next) =>
    Effect.suspend(() => {
      const { [operation]: hook } = next
      next[operation] = Effect.void
      return hook
    })
  const store = changed((inner) => ({
    get: (key) => Effect.andThen(key.includes("/journal/") ? once("get") : Effect.void, inner.get(key)),
    delete: (key, options) => Effect.tap(inner.delete(key, options), once("delete"))
  }))

  testOver(layerOver(store))("while its state is loaded has the new one", function* (checkpoint) {
    const { bound } = yield* counting()
    const first = yield* checkpoint.run(bound, { key, input: "one" })
    next.get = Effect.orDie(checkpoint.run(bound, { key, input: "two", policy: "restart" }))
    const state = yield* loaded(bound)
    assert.notStrictEqual(state.runId, first.state.runId)
    assert.strictEqual(state.input.task, "two")
  })

  testOver(layerOver(store))("while its run is removed keeps the new run", function* (checkpoint) {
    const { bound } = yield* counting()
    yield* checkpoint.run(bound, { key, input: "one" })
    next.delete = Effect.orDie(checkpoint.run(bound, { key, input: "two" }))
    assert.isTrue(yield* checkpoint.remove(key))
    assert.strictEqual((yield* loaded(bound)).input.task, "two")
  })
})

describe("PLAN-6 checkpoints", () => {
  const unsure = failingAt(1, (key) => key.startsWith("plan/head/"), "after")
  testOver(unsure)("whose claim failed although it was written can be resumed", function* (checkpoint) {
    const { bound, ran } = yield* counting()
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError StoreFailed")
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError RunActive")
    yield* TestClock.adjust("1 minute")
    const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
    assert.strictEqual(completed(result).output, "go a b c")
    assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
  })

  testStored("PLAN-8 are refused where a plan inside was edited, done or not", function* (checkpoint) {
    const { fn } = log()
    let broken = ""
    const step = (name: string) =>
      Step.make(name, { target: fn(name, () => (broken === name ? refuses("down") : name)) })
    const make = Effect.fnUntraced(function* (names: ReadonlyArray<string>) {
      const inner = yield* planOf({ name: "inner" }, ...names.map(step))
      const middle = yield* planOf({ name: "middle" }, Step.make("m", { target: inner }))
      return yield* planOf({ name: "outer" }, Step.make("o", { target: middle }), step("last"))
    })
    for (const failsAt of ["b", "last"]) {
      const key = `fails at ${failsAt}`
      const original = yield* make(["a", "b"])
      broken = failsAt
      yield* Effect.flip(checkpoint.run(original, { key, input: "x" }))
      broken = ""
      for (const names of [["a", "b", "c"], ["a2", "b"], ["b", "a"], ["a"]]) {
        const edited = yield* make(names)
        // A step more is compatible while the plan inside has not ended
        const onChange = names.length === 3 ? "refuse" : "compatible"
        const error = yield* Effect.flip(checkpoint.resume(edited, { key, onChange }))
        assert.strictEqual(reasonOf(error), "PlanError PlanChanged", `${key}: ${names.join(" ")}`)
        assert.match(error.message, /\/steps/)
      }
      completed(yield* checkpoint.resume(original, { key }))
    }
  })

  test("PLAN-8 so is the state of an agent that is such a plan", function* () {
    const make = Effect.fnUntraced(function* (name: string) {
      const inner = yield* planOf({ name: "inner" }, Step.make(name, { target: () => Effect.fail("no") }))
      return yield* planOf({ name: "outer" }, Step.make("o", { target: inner }))
    })
    const { state } = yield* Effect.flip((yield* make("a")).run("x"))
    assert(state !== undefined)
    const error = yield* Effect.flip((yield* make("b")).resume(state))
    assert.strictEqual(error.reason._tag, "DefinitionChanged")
  })
})
