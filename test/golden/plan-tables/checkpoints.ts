/** P13-P20, P35, P39: runs under a key. */
import { assert } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, type Schema } from "effect"
import { TestClock } from "effect/testing"
import { Agent, VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { counting, layer, reasonOf, refuses } from "../../plan/checkpoints.ts"
import { completed } from "../../plan/support.ts"
import { bind, gate, type Rows } from "./row.ts"

const service = Checkpoint.Checkpoint

const head = Effect.fnUntraced(function* (key: string) {
  return Option.getOrThrow(yield* (yield* service).inspect(key))
})

/** Checkpoints on the store that is there, through somebody who sees each write before it is made. */
const through = (before: (key: string, value: Schema.Json) => Effect.Effect<void, VersionedStore.VersionedStoreError>) =>
  Layer.provide(
    Checkpoint.layer(),
    Layer.effect(
      VersionedStore.VersionedStore,
      Effect.map(VersionedStore.VersionedStore, (store) => ({
        ...store,
        compareAndSet: (key: string, expected: Option.Option<string>, value: Schema.Json) =>
          Effect.andThen(before(key, value), store.compareAndSet(key, expected, value))
      }))
    )
  )

const refusal = (key: string) =>
  Effect.fail(
    new VersionedStore.VersionedStoreError({
      operation: "compareAndSet",
      key,
      reason: VersionedStore.unavailable("test", "Down", undefined)
    })
  )

/** A run whose process dies while it is in the step `b`: nothing of it reaches the store any more. */
const died = Effect.fnUntraced(function* (bound: Plan.Bound<unknown>, inside: Effect.Effect<void>) {
  let isDead = false
  const process = through((key) => (isDead ? refusal(key) : Effect.void))
  const fiber = yield* service.pipe(
    Effect.flatMap((checkpoint) => checkpoint.run(bound, { key: "k", input: "go" })),
    Effect.provide(process),
    Effect.forkChild
  )
  yield* inside
  isDead = true
  yield* Fiber.interrupt(fiber)
  yield* TestClock.adjust("1 minute")
})

export const rows: Rows = {
  P13: {
    expected: "two fresh runs of one key: the second one fails before it runs a step",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const inside = yield* gate
      const first = yield* counting({ a: inside.pass })
      const second = yield* counting()
      const fiber = yield* Effect.forkChild(checkpoint.run(first.bound, { key: "k", input: "go" }))
      yield* inside.begun
      const error = yield* Effect.flip(checkpoint.run(second.bound, { key: "k", input: "go" }))
      assert.strictEqual(reasonOf(error), "CheckpointError RunActive")
      assert.deepStrictEqual(yield* second.ran, [])
      yield* inside.open
      assert.strictEqual((yield* Fiber.join(fiber)).outcome, "Completed")
    }).pipe(Effect.provide(layer()))
  },
  P14: {
    expected: "a key whose run is done can be used for a fresh one",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const { bound, ran } = yield* counting()
      const first = yield* checkpoint.run(bound, { key: "k", input: "go" })
      const second = yield* checkpoint.run(bound, { key: "k", input: "again" })
      assert.strictEqual(completed(second).output, "again a b c")
      assert.notStrictEqual(second.state.runId, first.state.runId)
      assert.deepStrictEqual(yield* ran, ["a", "b", "c", "a", "b", "c"])
    }).pipe(Effect.provide(layer()))
  },
  P15: {
    expected: "a run whose process died: a fresh one is refused, a resume takes it over and finishes it",
    instead: "its id stays, for it is the same run; who owns it is told by owner and epoch (S13.5)",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const inside = yield* gate
      let isHanging = true
      const { bound, ran } = yield* counting({ b: Effect.suspend(() => (isHanging ? inside.pass : Effect.void)) })
      yield* died(bound, inside.begun)
      const before = yield* head("k")
      assert.deepStrictEqual([before.status, before.live, before.completed], ["running", false, 1])
      const fresh = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
      assert.strictEqual(reasonOf(fresh), "CheckpointError Unfinished")
      isHanging = false
      const result = yield* checkpoint.resume(bound, { key: "k" })
      assert.strictEqual(completed(result).output, "go a b c")
      assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
      const after = yield* head("k")
      assert.deepStrictEqual([after.status, after.runId, after.epoch], ["done", before.runId, before.epoch + 1])
      assert.notStrictEqual(after.owner, before.owner)
    }).pipe(Effect.provide(layer()))
  },
  P16: {
    expected: "two forks of one key at once: both succeed, each under a key and an id of its own, none under the key",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const inside = yield* gate
      const { bound } = yield* counting({ a: inside.pass })
      const fork = Effect.forkChild(checkpoint.run(bound, { key: "k", input: "go", policy: "fork" }))
      const fibers = [yield* fork, yield* fork]
      yield* inside.begun
      yield* inside.open
      const results = yield* Effect.forEach(fibers, (fiber) => Fiber.join(fiber))
      assert.deepStrictEqual(
        results.map((result) => completed(result).output),
        ["go a b c", "go a b c"]
      )
      const { keys } = yield* checkpoint.list()
      assert.deepStrictEqual([...keys], results.map(({ key }) => key).sort())
      for (const key of keys) assert.match(key, /^k:./)
      assert.strictEqual(new Set(results.map(({ state }) => state.runId)).size, 2)
      const statuses = yield* Effect.forEach(keys, (key) => Effect.map(head(key), ({ status }) => status))
      assert.deepStrictEqual(statuses, ["done", "done"])
    }).pipe(Effect.provide(layer()))
  },
  P17: {
    expected: "two forks, one of which fails: done and failed, each under its own key",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const good = yield* counting()
      const bad = yield* counting({ b: refuses("down") })
      const done = yield* checkpoint.run(good.bound, { key: "k", input: "go", policy: "fork" })
      const error = yield* Effect.flip(checkpoint.run(bad.bound, { key: "k", input: "go", policy: "fork" }))
      assert.strictEqual(reasonOf(error), "PlanError StepFailed")
      const { keys } = yield* checkpoint.list({ prefix: "k:" })
      const statuses = yield* Effect.forEach(keys, (key) => Effect.map(head(key), ({ status }) => [key, status]))
      assert.lengthOf(statuses, 2)
      assert.deepStrictEqual(
        statuses.map(([key, status]) => [key === done.key, status]).sort(),
        [
          [false, "failed"],
          [true, "done"]
        ]
      )
    }).pipe(Effect.provide(layer()))
  },
  P18: {
    expected: "the history comes back from the store as it was: steps, payloads and tokens",
    instead: "a history that is no list is refused, and not read as an empty one (S22.6)",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const plan = yield* bind(
        Plan.make(
          Step.make("look", { target: () => Effect.succeed({ hits: [1, "é"], none: null }) }),
          Step.make("write", { target: Agent.make("writer", { instructions: "Write." }) })
        )
      )
      const { state } = yield* checkpoint.run(plan, { key: "k", input: "go" })
      const loaded = Option.getOrThrow(yield* checkpoint.load(plan, "k"))
      const history = PlanRun.history(loaded)
      assert.deepStrictEqual(
        history.map(({ output, step, usage }) => [step, output, usage]),
        [
          ["look", { hits: [1, "é"], none: null }, {}],
          ["write", "written", { inputTokens: 42, outputTokens: 11 }]
        ]
      )
      assert.deepStrictEqual(history, PlanRun.history(state))
      const text = yield* PlanRun.encodeStateJson(loaded)
      yield* PlanRun.decodeStateJson(text)
      const wire = JSON.parse(text)
      assert.isArray(wire.state.history)
      wire.state.history = "none"
      const error = yield* Effect.flip(PlanRun.decodeState(wire))
      assert.strictEqual(error._tag, "PayloadError")
      assert.include(error.message, "history")
    }).pipe(
      Effect.provide([layer(), ScriptedModel.layer([{ text: "written", usage: { inputTokens: 42, outputTokens: 11 } }])])
    )
  },
  P19: {
    expected: "a durable write that was lost after its checkpoint is made by the resume, before the next step runs",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const seen: Array<Schema.Json | undefined> = []
      const look = Effect.map(checkpoint.read("first"), (found) => {
        seen.push(Option.getOrUndefined(found)?.value)
      })
      const { bound, ran } = yield* counting({ b: look })
      const losing = through((key) => (key === "plan/writes/first" ? refusal(key) : Effect.void))
      const error = yield* service.pipe(
        Effect.flatMap((other) => other.run(bound, { key: "k", input: "go" })),
        Effect.flip,
        Effect.provide(losing)
      )
      assert.strictEqual(reasonOf(error), "CheckpointError WriteFailed")
      assert.isTrue(Option.isNone(yield* checkpoint.read("first")))
      assert.deepStrictEqual((yield* head("k")).pendingWrites, ["first"])
      yield* checkpoint.resume(bound, { key: "k" })
      assert.deepStrictEqual(seen, ["go a"])
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    }).pipe(Effect.provide(layer()))
  },
  P20: {
    expected: "a job that runs every night under one key and may resume: it runs once in total",
    instead: "so with the same input; a night with another one is told InputDiffers, and is not taken for done (S26)",
    test: Effect.gen(function* () {
      const checkpoint = yield* service
      const { bound, ran } = yield* counting()
      const night = (input: string) => checkpoint.run(bound, { key: "nightly", input, policy: "startOrResume" })
      const results = [yield* night("sales"), yield* night("sales"), yield* night("sales")]
      assert.deepStrictEqual(
        results.map((result) => completed(result).output),
        ["sales a b c", "sales a b c", "sales a b c"]
      )
      assert.strictEqual(reasonOf(yield* Effect.flip(night("sales of Tuesday"))), "CheckpointError InputDiffers")
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    }).pipe(Effect.provide(layer()))
  },
  P35: {
    expected: "the checkpoint of a step comes before its durable write, in a band for all members",
    test: Effect.gen(function* () {
      const written: Array<{ readonly key: string; readonly text: string }> = []
      const give = (name: string) => ({ target: () => Effect.succeed(name.toUpperCase()), writes: name })
      const plan = yield* bind(
        Plan.make(
          Step.make("a", give("a")),
          Step.make("b", { ...give("b"), parallel: true }),
          Step.make("c", { ...give("c"), parallel: true })
        )
      )
      const watching = through((key, value) => Effect.sync(() => written.push({ key, text: JSON.stringify(value) })))
      yield* service.pipe(
        Effect.flatMap((checkpoint) => checkpoint.run(plan, { key: "k", input: "go" })),
        Effect.provide(watching)
      )
      const at = (name: string) => written.findIndex(({ key }) => key === `plan/writes/${name}`)
      const lastHead = (name: string) => written.slice(0, at(name)).findLast(({ key }) => key === "plan/head/k")?.text ?? ""
      const facts = (name: string) =>
        written.slice(0, at(name)).flatMap(({ key, text }) => (key.startsWith("plan/journal/") ? [text] : [])).join("\n")
      for (const [write, steps] of [
        ["a", ["a"]],
        ["b", ["a", "b", "c"]],
        ["c", ["a", "b", "c"]]
      ] as const) {
        assert.isAbove(at(write), 0)
        assert.include(lastHead(write), `"${write}"`)
        for (const step of steps) assert.include(facts(write), `"record":{"step":"${step}"`)
      }
      assert.notInclude(facts("a"), `"record":{"step":"b"`)
      assert.isBelow(at("b"), at("c"))
    }).pipe(Effect.provide(VersionedStore.layerMemory))
  },
  P39: {
    expected: "a pause without any checkpoint: the result says so, and nothing is stored",
    test: Effect.gen(function* () {
      const store = yield* VersionedStore.VersionedStore
      const plan = yield* bind(
        Plan.make(
          Step.make("a", { target: () => Effect.succeed("A"), writes: "w" }),
          Step.make("b", { target: () => Step.pause("ask Ada") })
        )
      )
      const result = yield* Plan.run(plan, "go")
      assert(result.outcome === "Paused")
      assert.deepStrictEqual(
        result.pauses.map(({ reason, step }) => [step, reason]),
        [["b", "ask Ada"]]
      )
      assert.deepStrictEqual((yield* store.list()).keys, [])
    }).pipe(Effect.provide(layer()))
  }
}
