import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Option, Stream } from "effect"
import { TestClock } from "effect/testing"
import { PlanRun, Step } from "effect-emissary/plan"
import {
  counting,
  failedRun,
  fails,
  gate,
  head,
  held,
  layer,
  loaded,
  looping,
  reasonOf,
  refuses,
  service,
  slowClock,
  testOver,
  testStored,
  written
} from "./checkpoints.ts"
import { completed, log, planOf } from "./support.ts"
import { pluck } from "../pluck.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"
import { decision } from "../decisions.ts"

const key = "k"
const begin = { key, input: "go" }
const again = { ...begin, policy: "startOrResume" } as const

describe("PLAN-6 a run under a key", () => {
  testStored("is kept, and returns its result again without running anything (I05, P20)", function* (checkpoint) {
    const { bound, ran } = yield* counting()
    const first = yield* checkpoint.run(bound, begin)
    assert.strictEqual(completed(first).output, "go a b c")
    const found = yield* head(key)
    assert.deepStrictEqual(
      [found.status, found.live, found.leaseUntil, found.completed, found.iterations, found.runId],
      ["done", false, undefined, 3, 3, first.state.runId]
    )
    assert.deepStrictEqual([found.pendingWrites, found.outcome], [[], { _tag: "Completed" }])

    assert.deepStrictEqual(yield* checkpoint.resume(bound, { key }), first)
    assert.deepStrictEqual(yield* checkpoint.run(bound, again), first)
    assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    // The writes are still those of the run (S13.10)
    assert.isTrue(yield* checkpoint.isCurrent(key, "first"))
    assert.isTrue(yield* checkpoint.isCurrent(key, "last"))
    assert.isFalse(yield* checkpoint.isCurrent(key, "none"))
    assert.isFalse(yield* checkpoint.isCurrent("other", "last"))
    const { record, runId, step, value } = Option.getOrThrow(yield* checkpoint.read("last"))
    assert.deepStrictEqual([value, step, record, runId], ["go a b c", "c", 2, first.state.runId])
    assert.deepStrictEqual(yield* loaded(bound), first.state)
  })

  testStored(
    "starts anew where it is done; its writes are not current then (I05, S13.10, P14)",
    function* (checkpoint) {
      const { bound, ran } = yield* counting()
      const first = yield* checkpoint.run(bound, begin)
      const second = yield* checkpoint.run(bound, { key, input: "again" })
      assert.notStrictEqual(first.state.runId, second.state.runId)
      assert.strictEqual((yield* ran).length, 6)
      assert.strictEqual((yield* head(key)).epoch, 2)
      assert.strictEqual(yield* written("last"), "again a b c")
    }
  )

  testStored("that failed is not started, with a remedy, and resumes at the step (I04, I06)", function* (checkpoint) {
    const { bound, error, ran } = yield* failedRun()
    assert.strictEqual(reasonOf(error), "PlanError StepFailed")
    const found = yield* head(key)
    assert.deepStrictEqual([found.status, found.outcome?.message], ["failed", `step "b" failed with Refused`])
    const refused = yield* Effect.flip(checkpoint.run(bound, begin))
    assert.strictEqual(reasonOf(refused), "CheckpointError Unfinished")
    for (const words of [`"${found.owner}"`, "status failed", "Resume it", `"restart"`]) {
      assert.include(refused.message, words)
    }

    const result = completed(yield* checkpoint.resume(bound, { key }))
    assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
    assert.deepStrictEqual([result.state.runId, result.iterations], [found.runId, 3])
  })

  testStored("resumes with the input it began with, and refuses another one (P20)", function* (checkpoint) {
    const { bound } = yield* failedRun()
    const other = checkpoint.run(bound, { ...again, input: "other" })
    assert.strictEqual(yield* fails(other), "CheckpointError InputDiffers")
    const result = yield* checkpoint.run(bound, { ...again, input: { task: "go" } })
    assert.strictEqual(completed(result).output, "go a b c")
    // Also when it is done: a nightly job with a fixed key fails, instead of running once ever
    assert.strictEqual(yield* fails(other), "CheckpointError InputDiffers")
  })

  testStored("is refused to a plan that was edited on demand, failed or done", function* (checkpoint) {
    const { bound, edited } = yield* failedRun()
    const resume = fails(checkpoint.resume(edited.bound, { key, onChange: "refuse" }))
    assert.strictEqual(yield* resume, "PlanError PlanChanged")
    assert.strictEqual((yield* head(key)).status, "failed")
    yield* checkpoint.resume(bound, { key })
    assert.strictEqual(yield* resume, "PlanError PlanChanged")
    assert.deepStrictEqual(yield* edited.ran, [])
    yield* checkpoint.run(edited.bound, begin)
    assert.deepStrictEqual(yield* edited.ran, ["a", "b", "c"])
  })

  testStored("ends as failed at its limit, and counts on with a larger one (I08, S13.6)", function* (checkpoint) {
    const { bound, ran } = yield* looping(8, 3)
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "PlanError MaxIterationsExceeded")
    const { iterations, status } = yield* head(key)
    assert.deepStrictEqual([status, iterations], ["failed", 3])
    // The same limit is used up already
    assert.strictEqual(yield* fails(checkpoint.resume(bound, { key })), "PlanError MaxIterationsExceeded")
    assert.strictEqual(yield* ran, 3)
    yield* Effect.flip(checkpoint.resume(bound, { key, maxIterations: 5 }))
    assert.strictEqual(yield* ran, 5)
    const result = yield* checkpoint.resume(bound, { key, maxIterations: 8 })
    assert.strictEqual(result.iterations, 8)
    assert.strictEqual(yield* ran, 8)
    assert.deepStrictEqual(yield* written("n"), { n: 8 })
  })

  testStored("that was interrupted is cancelled, and either resumes or starts anew (J17)", function* (checkpoint) {
    const { bound, fiber, open, ran } = yield* held((plan) => checkpoint.run(plan, begin))
    yield* Fiber.interrupt(fiber)
    const found = yield* head(key)
    assert.deepStrictEqual([found.status, found.live, found.completed], ["cancelled", false, 1])
    yield* open
    yield* checkpoint.resume(bound, { key })
    assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
    assert.strictEqual((yield* head(key)).status, "done")
  })

  testStored("that concludes is done", function* (checkpoint) {
    const { bound, ran } = yield* counting({ b: Step.conclude("enough") })
    const result = yield* checkpoint.run(bound, begin)
    assert.strictEqual(result.outcome, "Concluded")
    assert.strictEqual((yield* head(key)).status, "done")
    assert.deepStrictEqual(yield* checkpoint.resume(bound, { key }), result)
    assert.deepStrictEqual(yield* ran, ["a", "b"])
  })

  testStored("that waits is paused, and stays so without a decision that fits", function* (checkpoint) {
    let isReady = false
    const { bound, ran } = yield* counting({ b: Effect.suspend(() => (isReady ? Effect.void : Step.pause("ask Ada"))) })
    const paused = yield* checkpoint.run(bound, begin)
    assert.strictEqual(paused.outcome, "Paused")
    const found = yield* head(key)
    assert.deepStrictEqual([found.status, found.outcome?.message], ["paused", `waiting: "b"`])
    assert.strictEqual(yield* fails(checkpoint.run(bound, begin)), "CheckpointError Unfinished")
    const decisions = [decision("nobody")]
    assert.strictEqual(yield* fails(checkpoint.resume(bound, { key, decisions })), "PlanError InvalidDecision")
    assert.strictEqual((yield* head(key)).status, "paused")
    isReady = true
    completed(yield* checkpoint.resume(bound, { key }))
    assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
  })
})

describe("PLAN-6 leases", () => {
  const testLeases = testOver(layer({ leaseTime: "30 seconds", heartbeat: "10 seconds" }))

  testLeases("a run that lives cannot be taken, however long it takes (J16, P13)", function* (checkpoint) {
    const { bound, fiber, open, ran } = yield* held((plan) => checkpoint.run(plan, begin))
    for (let minute = 0; minute < 5; minute++) {
      yield* TestClock.adjust("1 minute")
      const found = yield* head(key)
      assert.isTrue(found.live)
      for (const attempt of [
        checkpoint.run(bound, begin),
        checkpoint.run(bound, { ...begin, policy: "restart" }),
        checkpoint.run(bound, again),
        checkpoint.resume(bound, { key })
      ]) {
        const error = yield* Effect.flip(attempt)
        assert.strictEqual(reasonOf(error), "CheckpointError RunActive")
        assert.include(error.message, found.owner)
        assert.include(error.message, "lease until 1970-01-01T00:0")
      }
      assert.strictEqual(yield* fails(checkpoint.remove(key)), "CheckpointError RunActive")
    }
    yield* open
    completed(yield* Fiber.join(fiber))
    assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    assert.strictEqual((yield* head(key)).epoch, 1)
  })

  testLeases("a run whose lease ended resumes elsewhere (P15), and is stopped where it was", function* (checkpoint) {
    const victim = yield* held((plan) => slowClock(Effect.flip(checkpoint.run(plan, begin))))
    const before = yield* head(key)
    assert.deepStrictEqual([before.status, before.live, before.completed], ["running", false, 1])
    assert.strictEqual(yield* fails(checkpoint.run(victim.bound, begin)), "CheckpointError Unfinished")

    const heir = yield* held((plan) => checkpoint.resume(plan, { key }))
    // The next heartbeat of the victim
    yield* TestClock.adjust("10 seconds")
    const error = yield* Fiber.join(victim.fiber)
    assert.strictEqual(reasonOf(error), "CheckpointError LeaseLost")
    assert.include(error.message, before.owner)
    yield* victim.stopped
    yield* heir.open
    const result = completed(yield* Fiber.join(heir.fiber))
    assert.deepStrictEqual(yield* victim.ran, ["a", "b"])
    assert.deepStrictEqual(yield* heir.ran, ["b", "c"])
    assert.strictEqual(result.output, "go a b c")
    const after = yield* head(key)
    assert.deepStrictEqual([after.runId, after.epoch, after.status], [before.runId, 2, "done"])
    assert.notStrictEqual(after.owner, before.owner)
    assert.deepStrictEqual(yield* loaded(heir.bound), result.state)
  })

  testStored("what a process writes after it lost its lease is never part of the run", function* (checkpoint) {
    const victim = yield* held((plan) => slowClock(fails(checkpoint.run(plan, begin))))
    const heir = yield* counting()
    const result = yield* checkpoint.resume(heir.bound, { key })
    // Now the victim ends its step, and writes its facts in vain
    yield* victim.open
    assert.strictEqual(yield* Fiber.join(victim.fiber), "CheckpointError LeaseLost")
    assert.deepStrictEqual(yield* victim.ran, ["a", "b"])
    assert.deepStrictEqual(yield* loaded(heir.bound), result.state)
    assert.strictEqual((yield* head(key)).status, "done")
    assert.isTrue(yield* checkpoint.isCurrent(key, "last"))
  })

  testStored("a run that was removed while it ran stops", function* (checkpoint) {
    const { fiber, open } = yield* held((plan) => Effect.flip(checkpoint.run(plan, begin)))
    assert.isTrue(yield* checkpoint.remove(key, { force: true }))
    yield* open
    assert.include((yield* Fiber.join(fiber)).message, "the run was removed")
    assert.deepStrictEqual(yield* checkpoint.inspect(key), Option.none())
  })

  testStored("of two that start at once exactly one runs (J10)", function* (checkpoint) {
    for (const policy of ["start", "startOrResume", "restart"] as const) {
      const { bound, ran } = yield* counting({ a: Effect.sleep("1 second") })
      const racers = Array.from({ length: 5 }, () =>
        Effect.result(checkpoint.run(bound, { key: policy, input: "go", policy }))
      )
      const results = yield* after("2 seconds", Effect.all(racers, { concurrency: "unbounded" }))
      assert.strictEqual(results.filter(({ _tag }) => _tag === "Success").length, 1)
      for (const result of results) {
        if (result._tag === "Failure") assert.strictEqual(reasonOf(result.failure), "CheckpointError RunActive")
      }
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    }
  })

  test("refuses a lease of no time, and a heartbeat that is too slow for it", function* () {
    for (const options of [{ leaseTime: "0 seconds" }, { leaseTime: "1 second", heartbeat: "1 second" }] as const) {
      const exit = yield* Effect.exit(Effect.provide(service, layer(options)))
      assert.include(String(exit), "expected a leaseTime above zero, and a heartbeat above zero of at most half of it")
    }
  })
})

describe("PLAN-6 forks", () => {
  testStored("have a key and writes of their own (J11, J12, O10)", function* (checkpoint) {
    const { bound } = yield* counting()
    yield* checkpoint.run(bound, { key, input: "main" })
    const run = (input: string) =>
      Effect.map(checkpoint.run(bound, { key, input, policy: "fork" }), (fork) => ({ input, fork: fork.key }))
    const forks = yield* Effect.forEach(["one", "two"], run, { concurrency: 2 })
    assert.deepStrictEqual((yield* checkpoint.list()).keys, [key, ...forks.map(({ fork }) => fork)].toSorted())
    assert.strictEqual(yield* written("last"), "main a b c")
    for (const { fork, input } of forks) {
      assert.isTrue(fork.startsWith("k:"))
      assert.strictEqual(yield* written("last", { fork }), `${input} a b c`)
      assert.isTrue(yield* checkpoint.isCurrent(fork, "last"))
      assert.isTrue((yield* head(fork)).fork)
      completed(yield* checkpoint.resume(bound, { key: fork }))
    }
    assert.isTrue(yield* checkpoint.isCurrent(key, "last"))
    const fork = forks[0]?.fork ?? ""
    assert.isTrue(yield* checkpoint.remove(fork))
    assert.deepStrictEqual(yield* checkpoint.read("last", { fork }), Option.none())
  })

  testStored("that fail leave the others alone (P16, P17)", function* (checkpoint) {
    let turn = 0
    const { bound } = yield* counting({ b: Effect.suspend(() => (++turn === 1 ? refuses("down") : Effect.void)) })
    const forks = yield* Effect.forEach(["one", "two"], (input) =>
      Effect.result(checkpoint.run(bound, { key, input, policy: "fork" }))
    )
    assert.deepStrictEqual(pluck(forks, "_tag"), ["Failure", "Success"])
    const { keys } = yield* checkpoint.list({ prefix: "k:" })
    const found = yield* Effect.forEach(keys, head)
    assert.deepStrictEqual(found.map(({ status }) => status).toSorted(), ["done", "failed"])
    assert.strictEqual(new Set(found.map(({ runId }) => runId)).size, 2)
    const fork = found.find(({ status }) => status === "failed")?.key ?? ""
    completed(yield* checkpoint.resume(bound, { key: fork }))
    assert.strictEqual(yield* written("last", { fork }), "one a b c")
    assert.deepStrictEqual(yield* checkpoint.read("last"), Option.none())
  })
})

describe("PLAN-6 streams", () => {
  testStored("emit each write, once it was done", function* (checkpoint) {
    const { bound } = yield* counting()
    const events = yield* Stream.runCollect(checkpoint.stream(bound, begin))
    const written = events.filter((event) => event._tag === "Checkpointed")
    assert.isAtLeast(written.length, 3)
    for (const event of written) assert.strictEqual(event.key, key)
    assert.deepStrictEqual(yield* loaded(bound), written.at(-1)?.state)
    assert.strictEqual(events.at(-1)?._tag, "PlanFinished")
    assert.strictEqual((yield* head(key)).status, "done")

    const repeated = yield* Stream.runCollect(checkpoint.resumeStream(bound, { key }))
    assert.strictEqual(repeated.at(-1)?._tag, "PlanFinished")
    assert.isFalse(repeated.some((event) => event._tag === "StepStarted" || event._tag === "Checkpointed"))
  })

  testStored("that are not read to the end are cancelled, and resume (P24)", function* (checkpoint) {
    const waiting = yield* gate
    const { bound, ran } = yield* counting({ b: waiting.hook })
    yield* checkpoint.stream(bound, begin).pipe(
      Stream.takeUntil((event) => event._tag === "StepStarted" && event.step === "b"),
      Stream.runDrain
    )
    const found = yield* head(key)
    assert.deepStrictEqual([found.status, found.live, found.completed], ["cancelled", false, 1])
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* ran, ["a", "b"])
    yield* waiting.open
    const events = yield* Stream.runCollect(checkpoint.resumeStream(bound, { key }))
    assert.strictEqual(events.at(-1)?._tag, "PlanFinished")
    assert.strictEqual((yield* ran).filter((step) => step === "a").length, 1)
    assert.strictEqual((yield* head(key)).status, "done")
  })

  testStored("fail as runs do", function* (checkpoint) {
    const { bound } = yield* counting({ b: refuses("down") })
    const run = Stream.runDrain(checkpoint.stream(bound, begin))
    assert.strictEqual(yield* fails(run), "PlanError StepFailed")
    assert.strictEqual((yield* head(key)).status, "failed")
    assert.strictEqual(yield* fails(run), "CheckpointError Unfinished")
  })

  testStored("stop when the lease is lost", function* (checkpoint) {
    const { fiber } = yield* held((plan) => slowClock(fails(Stream.runDrain(checkpoint.stream(plan, begin)))))
    const heir = yield* counting()
    yield* checkpoint.resume(heir.bound, { key })
    yield* TestClock.adjust("30 seconds")
    assert.strictEqual(yield* Fiber.join(fiber), "CheckpointError LeaseLost")
    assert.strictEqual((yield* head(key)).status, "done")
  })
})

describe("PLAN-6 parallel groups", () => {
  testStored(
    "members that finished do not run again after another one failed; all write (O19)",
    function* (checkpoint) {
      const { fn, ran } = log()
      let isDown = true
      const names = ["x", "y", "z"]
      const members = names.map((name) =>
        Step.make(name, {
          parallel: true,
          writes: `value of ${name}`,
          target: fn(name, () => (isDown && name === "y" ? refuses("down") : name))
        })
      )
      const bound = yield* planOf(...members)
      yield* Effect.flip(checkpoint.run(bound, begin))
      assert.deepStrictEqual(PlanRun.history(yield* loaded(bound)), [])
      assert.deepStrictEqual(yield* checkpoint.read("value of x"), Option.none())
      isDown = false
      yield* checkpoint.resume(bound, { key })
      assert.deepStrictEqual(ran.toSorted(), ["x", "y", "y", "z"])
      for (const name of names) assert.isTrue(yield* checkpoint.isCurrent(key, `value of ${name}`))
    }
  )
})
