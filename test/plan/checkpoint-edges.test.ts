/** PLAN-6: what is left behind, taken over, begun twice, damaged or edited. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option } from "effect"
import { TestClock } from "effect/testing"
import { Agent, RunContext, VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { changed } from "../conversation/store/changed.ts"
import { counting, failing, fails, head, layer, layerOver, reasonOf, refuses, service } from "./checkpoints.ts"
import { bind, log } from "./support.ts"
import { test, testWith } from "../test.ts"

const testStored = testWith(layer())

/** A store that fails once, at the first key that `fails` names while it is armed. */
const once = (fails: (key: string) => boolean, when: "before" | "after") => {
  const fault = { armed: true }
  const store = failing((key) => {
    if (!fault.armed || !fails(key)) return false
    fault.armed = false
    return true
  }, when)
  return { fault, layer: layerOver(store) }
}

describe("PLAN-6 a run that was claimed and did nothing yet", () => {
  const { layer } = once((key) => key.includes("/journal/") && !key.endsWith("/input"), "before")
  testWith(layer)("begins with the context and the limit that it was claimed with", function* () {
    const checkpoint = yield* service
    const bound = yield* Plan.make(
      Step.make("a", { target: () => RunContext.RunContext, routes: [["a", When.field("tenant").equals("ada")]] }),
      Step.make("b", { target: () => Effect.succeed("b") })
    ).pipe(Effect.flatMap(Plan.bind))
    const begin = { key: "k", input: "go", context: { tenant: "ada" }, maxIterations: 3 }
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError StoreFailed")
    assert.strictEqual((yield* head("k")).completed, 0)
    assert.deepStrictEqual(yield* checkpoint.load(bound, "k"), Option.none())
    const error = yield* Effect.flip(checkpoint.resume(bound, { key: "k" }))
    assert.strictEqual(reasonOf(error), "PlanError MaxIterationsExceeded")
    assert.strictEqual((yield* head("k")).iterations, 3)
  })
})

describe("PLAN-6 taking a key", () => {
  /** All read before any of them writes. */
  const slow = changed((store) => ({
    compareAndSet: (...args) => Effect.andThen(Effect.yieldNow, store.compareAndSet(...args))
  }))

  testWith(layerOver(slow))("of several resumes at once exactly one runs, and the others learn which", function* () {
    const checkpoint = yield* service
    let isDown = true
    const { bound, ran } = yield* counting({
      b: Effect.suspend(() => (isDown ? refuses("down") : Effect.sleep("1 second")))
    })
    yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
    isDown = false
    const racer = Effect.result(checkpoint.resume(bound, { key: "k" }))
    const fiber = yield* Effect.forkChild(Effect.all([racer, racer, racer], { concurrency: "unbounded" }))
    while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
    const results = yield* Fiber.join(fiber)
    const reasons = results.flatMap((result) => (result._tag === "Failure" ? [reasonOf(result.failure)] : []))
    assert.deepStrictEqual(reasons, ["CheckpointError RunActive", "CheckpointError RunActive"])
    assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
  })

  testStored("of a fork again keeps what it writes apart", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting()
    const { key } = yield* checkpoint.run(bound, { key: "k", input: "one", policy: "fork" })
    for (const policy of ["start", "restart"] as const) {
      yield* checkpoint.run(bound, { key, input: policy, policy })
      assert.isTrue((yield* head(key)).fork)
      assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("last", { fork: key })).value, `${policy} a b c`)
      assert.deepStrictEqual(yield* checkpoint.read("last"), Option.none())
    }
  })
})

describe("PLAN-6 what a run leaves", () => {
  let heads = 0
  const { fault, layer: broken } = once((key) => key === "plan/head/k" && ++heads === 3, "before")
  testWith(broken)("in vain, written and in no head, goes when it is begun anew", function* () {
    const checkpoint = yield* service
    const store = yield* VersionedStore.VersionedStore
    const { bound } = yield* counting()
    yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
    assert.isFalse(fault.armed)
    yield* TestClock.adjust("1 minute")
    yield* checkpoint.run(bound, { key: "k", input: "go", policy: "restart" })
    const { length } = (yield* store.list({ prefix: "plan/journal/", limit: 1000 })).keys
    yield* checkpoint.run(bound, { key: "l", input: "go" })
    assert.strictEqual((yield* store.list({ prefix: "plan/journal/", limit: 1000 })).keys.length, 2 * length)
  })

  testStored("of a step that returns null: nothing, and the value written before stays (S9.1)", function* () {
    const checkpoint = yield* service
    let turn = 0
    const bound = yield* Plan.make(
      Step.make("a", { target: () => Effect.sync(() => (++turn === 1 ? "first" : null)), writes: "w" }),
      Step.make("b", { target: () => Effect.sync(() => turn), routes: [["a", When.text("1")]] }),
      Step.make("c", { target: () => Effect.succeed(null), writes: "none" })
    ).pipe(Effect.flatMap(Plan.bind))
    const result = yield* checkpoint.run(bound, { key: "k", input: "go" })
    assert.deepStrictEqual(Array.from(result.writes), [["w", "first"]])
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("w")).record, 0)
    assert.deepStrictEqual(yield* checkpoint.read("none"), Option.none())
  })
})

describe("PLAN-6 a state that is loaded while its key is begun anew", () => {
  const hook = { before: Effect.void as Effect.Effect<unknown> }
  const store = changed((inner) => ({
    get: (key) =>
      Effect.suspend(() => {
        const { before } = hook
        if (!key.includes("/journal/")) return inner.get(key)
        hook.before = Effect.void
        return Effect.andThen(before, inner.get(key))
      })
  }))

  testWith(layerOver(store))("is that of the new run", function* () {
    const checkpoint = yield* service
    const plan = yield* bind(Plan.make(Step.make("a", { target: ({ task }) => Effect.succeed(task) })))
    const first = yield* checkpoint.run(plan, { key: "k", input: "one" })
    hook.before = Effect.orDie(checkpoint.run(plan, { key: "k", input: "two", policy: "restart" }))
    const state = Option.getOrThrow(yield* checkpoint.load(plan, "k"))
    assert.notStrictEqual(state.runId, first.state.runId)
    assert.strictEqual(state.input.task, "two")
  })
})

describe("PLAN-6 a key that is begun again while its run is removed", () => {
  const hook = { after: Effect.void as Effect.Effect<unknown> }
  const store = changed((inner) => ({
    delete: (key, options) =>
      Effect.tap(inner.delete(key, options), () => {
        const { after } = hook
        hook.after = Effect.void
        return after
      })
  }))

  testWith(layerOver(store))("keeps the new run", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting()
    yield* checkpoint.run(bound, { key: "k", input: "one" })
    hook.after = Effect.orDie(checkpoint.run(bound, { key: "k", input: "two" }))
    assert.isTrue(yield* checkpoint.remove("k"))
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.load(bound, "k")).input.task, "two")
  })
})

describe("PLAN-6 checkpoints", () => {
  const claim = { heads: 0 }
  testWith(layerOver(failing((key) => key.startsWith("plan/head/") && ++claim.heads === 1, "after")))(
    "whose claim failed although it was written can be resumed",
    function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const { bound, ran } = yield* counting()
      const begin = { key: "k", input: "go" }
      assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError StoreFailed")
      assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError RunActive")
      yield* TestClock.adjust("1 minute")
      const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
      assert.strictEqual(result.outcome === "Completed" ? result.output : "", "go a b c")
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    }
  )

  const bug = { calls: 0, at: 0 }
  const dying = changed((store) => ({
    compareAndSet: (...args) =>
      Effect.suspend(() => (++bug.calls === bug.at ? Effect.die("a bug") : store.compareAndSet(...args)))
  }))
  testWith(
    Layer.merge(
      layerOver(dying),
      ScriptedModel.layer(() => ({ text: "hi" }))
    )
  )("of a store that dies, whenever it does, are never damaged", function* () {
    const checkpoint = yield* Checkpoint.Checkpoint
    const agent = Agent.make("agent", {})
    const bound = yield* bind(
      Plan.make(
        Step.make("a", { target: agent, parallel: true }),
        Step.make("b", { target: agent, parallel: true, writes: "b" }),
        Step.make("c", { target: agent })
      )
    )
    for (bug.at = 1; bug.at < 50; bug.at++) {
      bug.calls = 0
      const begin = { key: `k${bug.at}`, input: "go" }
      const exit = yield* Effect.exit(checkpoint.run(bound, begin))
      if (bug.calls >= bug.at) assert.strictEqual(exit._tag, "Failure", begin.key)
      yield* TestClock.adjust("1 minute")
      const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
      assert.strictEqual(result.outcome, "Completed", begin.key)
      assert.isTrue(yield* checkpoint.isCurrent(begin.key, "b"))
    }
  })

  it.effect("PLAN-8 are refused where a plan inside was edited, also when it is done; the old one resumes", () =>
    Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const { fn } = log()
      const make = Effect.fnUntraced(function* (names: ReadonlyArray<string>, failing: () => string) {
        const target = (name: string) =>
          fn(name, () => (failing() === name ? Effect.fail({ _tag: "Down", message: "down" }) : name))
        const steps: ReadonlyArray<Step.Step<string, string, never>> = names.map((name) =>
          Step.make(name, { target: target(name) })
        )
        const inner = yield* bind(Plan.make({ name: "inner" }, ...steps))
        const middle = yield* bind(Plan.make({ name: "middle" }, Step.make("m", { target: inner })))
        return yield* bind(
          Plan.make(
            { name: "outer" },
            Step.make("o", { target: middle }),
            Step.make("last", { target: target("last") })
          )
        )
      })
      const edits = [["a", "b", "c"], ["a2", "b"], ["b", "a"], ["a"]]
      for (const step of ["b", "last"]) {
        let failing = step
        const key = `fails at ${step}`
        const original = yield* make(["a", "b"], () => failing)
        yield* Effect.flip(checkpoint.run(original, { key, input: "x" }))
        failing = ""
        for (const names of edits) {
          const edited = yield* make(names, () => failing)
          for (const attempt of [
            Effect.asVoid(checkpoint.resume(edited, { key })),
            Effect.asVoid(checkpoint.load(edited, key))
          ]) {
            const error = yield* Effect.flip(attempt)
            assert.strictEqual(reasonOf(error), "PlanError PlanChanged", `${key}: ${names.join(" ")}`)
            assert.include(error.message, `"inner"`)
          }
        }
        assert.strictEqual((yield* checkpoint.resume(original, { key })).outcome, "Completed")
      }
    }).pipe(Effect.provide(Checkpoint.layerMemory))
  )

  test("PLAN-8 so is the state of an agent that is such a plan", function* () {
    const make = (name: string) =>
      Effect.gen(function* () {
        const inner = yield* bind(
          Plan.make({ name: "inner" }, Step.make(name, { target: Step.target(name, () => Effect.fail("no")) }))
        )
        return yield* bind(Plan.make({ name: "outer" }, Step.make("o", { target: inner })))
      })
    const { state } = yield* Effect.flip((yield* make("a")).run("x"))
    assert(state !== undefined)
    const error = yield* Effect.flip((yield* make("b")).resume(state))
    assert.strictEqual(error.reason._tag, "DefinitionChanged")
  })
})
