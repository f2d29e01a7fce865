import { assert, describe, it } from "@effect/vitest"
import { Clock, Deferred, Duration, Effect, Fiber, Option, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { counting, failedRun, fails, head, layer, looping, reasonOf, refuses, service } from "./checkpoints.ts"
import { pluck } from "../pluck.ts"
import { after } from "../after.ts"
import { test, testWith } from "../test.ts"

const testStored = testWith(layer())

/** A step that runs until the gate is open, and signals when it has begun. */
const gate = Effect.gen(function* () {
  const begun = yield* Deferred.make<void>()
  const open = yield* Deferred.make<void>()
  return {
    hook: Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(open)),
    begun: Deferred.await(begun),
    open: Deferred.succeed(open, undefined)
  }
})

/** A machine whose clock is an hour slow, so that its leases have ended for the others. */
const slowClock = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Clock.clockWith((clock) => {
    const behind = Duration.toMillis("1 hour")
    return Effect.provideService(effect, Clock.Clock, {
      currentTimeMillisUnsafe: () => clock.currentTimeMillisUnsafe() - behind,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now - behind),
      currentTimeNanosUnsafe: () => clock.currentTimeNanosUnsafe(),
      currentTimeNanos: clock.currentTimeNanos,
      monotonicTimeNanos: clock.monotonicTimeNanos,
      monotonicTimeNanosUnsafe: () => clock.monotonicTimeNanosUnsafe(),
      sleep: (duration) => clock.sleep(duration)
    })
  })

describe("PLAN-6 a run under a key", () => {
  testStored("is kept, and returns its result again without running anything (I05, P20)", function* () {
    const checkpoint = yield* service
    const { bound, ran } = yield* counting()
    const first = yield* checkpoint.run(bound, { key: "k", input: "go" })
    assert.strictEqual(first.outcome, "Completed")
    if (first.outcome === "Completed") assert.strictEqual(first.output, "go a b c")
    const found = yield* head("k")
    assert.strictEqual(found.status, "done")
    assert.isFalse(found.live)
    assert.isUndefined(found.leaseUntil)
    assert.strictEqual(found.completed, 3)
    assert.strictEqual(found.iterations, 3)
    assert.deepStrictEqual(found.pendingWrites, [])
    assert.strictEqual(found.runId, first.state.runId)
    assert.deepStrictEqual(found.outcome, { _tag: "Completed" })

    const again = yield* checkpoint.resume(bound, { key: "k" })
    assert.deepStrictEqual(again, first)
    assert.deepStrictEqual(yield* checkpoint.run(bound, { key: "k", input: "go", policy: "startOrResume" }), first)
    assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    // The writes are still those of the run (S13.10)
    assert.isTrue(yield* checkpoint.isCurrent("k", "first"))
    assert.isTrue(yield* checkpoint.isCurrent("k", "last"))
    assert.isFalse(yield* checkpoint.isCurrent("k", "none"))
    assert.isFalse(yield* checkpoint.isCurrent("other", "last"))
    const written = Option.getOrThrow(yield* checkpoint.read("last"))
    assert.strictEqual(written.value, "go a b c")
    assert.strictEqual(written.step, "c")
    assert.strictEqual(written.record, 2)
    assert.strictEqual(written.runId, first.state.runId)
    assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.load(bound, "k")), first.state)
  })

  testStored("is started anew where it is done, and its writes are then not current (I05, S13.10, P14)", function* () {
    const checkpoint = yield* service
    const { bound, ran } = yield* counting()
    const first = yield* checkpoint.run(bound, { key: "k", input: "go" })
    const second = yield* checkpoint.run(bound, { key: "k", input: "again" })
    assert.notStrictEqual(first.state.runId, second.state.runId)
    assert.strictEqual((yield* ran).length, 6)
    assert.strictEqual((yield* head("k")).epoch, 2)
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("last")).value, "again a b c")
  })

  testStored(
    "that failed is refused to start, with a remedy in the message, and resumes at the step (I04, I06)",
    function* () {
      const checkpoint = yield* service
      const { bound, error, ran } = yield* failedRun()
      assert.strictEqual(reasonOf(error), "PlanError StepFailed")
      const found = yield* head("k")
      assert.strictEqual(found.status, "failed")
      assert.strictEqual(found.outcome?.message, `step "b" failed with Refused`)

      const refused = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
      assert.strictEqual(reasonOf(refused), "CheckpointError Unfinished")
      assert.include(refused.message, `"${found.owner}"`)
      assert.include(refused.message, "status failed")
      assert.include(refused.message, "Resume it")
      assert.include(refused.message, `"restart"`)

      const result = yield* checkpoint.resume(bound, { key: "k" })
      assert.strictEqual(result.outcome, "Completed")
      assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
      assert.strictEqual(result.state.runId, found.runId)
      assert.strictEqual(result.iterations, 3)
    }
  )

  testStored("resumes with the input it began with, and refuses another one (P20)", function* () {
    const checkpoint = yield* service
    const { bound } = yield* failedRun()
    const other = checkpoint.run(bound, { key: "k", input: "other", policy: "startOrResume" })
    assert.strictEqual(yield* fails(other), "CheckpointError InputDiffers")
    const result = yield* checkpoint.run(bound, { key: "k", input: { task: "go" }, policy: "startOrResume" })
    assert.strictEqual(result.outcome === "Completed" ? result.output : "", "go a b c")
    // Also when it is done: a nightly job with a fixed key fails, instead of running once ever
    assert.strictEqual(yield* fails(other), "CheckpointError InputDiffers")
  })

  testStored("is refused to a plan that was edited, failed or done", function* () {
    const checkpoint = yield* service
    const { bound, edited } = yield* failedRun()
    const resume = Effect.flip(checkpoint.resume(edited.bound, { key: "k" }))
    assert.strictEqual(reasonOf(yield* resume), "PlanError PlanChanged")
    assert.strictEqual((yield* head("k")).status, "failed")
    yield* checkpoint.resume(bound, { key: "k" })
    assert.strictEqual(reasonOf(yield* resume), "PlanError PlanChanged")
    assert.strictEqual(yield* fails(checkpoint.load(edited.bound, "k")), "PlanError PlanChanged")
    assert.deepStrictEqual(yield* edited.ran, [])
    yield* checkpoint.run(edited.bound, { key: "k", input: "go" })
    assert.deepStrictEqual(yield* edited.ran, ["a", "b", "c"])
  })

  testStored("ends as failed at its limit, and continues to count with a larger one (I08, S13.6)", function* () {
    const checkpoint = yield* service
    const { bound, ran } = yield* looping(8, 3)
    const limited = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
    assert.strictEqual(reasonOf(limited), "PlanError MaxIterationsExceeded")
    assert.strictEqual((yield* head("k")).status, "failed")
    assert.strictEqual((yield* head("k")).iterations, 3)
    // The same limit is used up already
    assert.strictEqual(yield* fails(checkpoint.resume(bound, { key: "k" })), "PlanError MaxIterationsExceeded")
    assert.strictEqual(yield* ran, 3)
    yield* Effect.flip(checkpoint.resume(bound, { key: "k", maxIterations: 5 }))
    assert.strictEqual(yield* ran, 5)
    const result = yield* checkpoint.resume(bound, { key: "k", maxIterations: 8 })
    assert.strictEqual(result.iterations, 8)
    assert.strictEqual(yield* ran, 8)
    assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.read("n")).value, { n: 8 })
  })

  testStored("that was interrupted is cancelled, and either resumes or starts anew (J17)", function* () {
    const checkpoint = yield* service
    const waiting = yield* gate
    const { bound, ran } = yield* counting({ b: waiting.hook })
    const fiber = yield* Effect.forkChild(checkpoint.run(bound, { key: "k", input: "go" }))
    yield* waiting.begun
    yield* Fiber.interrupt(fiber)
    const found = yield* head("k")
    assert.strictEqual(found.status, "cancelled")
    assert.isFalse(found.live)
    assert.strictEqual(found.completed, 1)
    yield* waiting.open
    yield* checkpoint.resume(bound, { key: "k" })
    assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
    assert.strictEqual((yield* head("k")).status, "done")
  })

  testStored("that concludes is done", function* () {
    const checkpoint = yield* service
    const { bound, ran } = yield* counting({ b: Step.conclude("enough") })
    const result = yield* checkpoint.run(bound, { key: "k", input: "go" })
    assert.strictEqual(result.outcome, "Concluded")
    assert.strictEqual((yield* head("k")).status, "done")
    assert.deepStrictEqual(yield* checkpoint.resume(bound, { key: "k" }), result)
    assert.deepStrictEqual(yield* ran, ["a", "b"])
  })

  testStored("that waits is paused, and stays so without a decision that fits", function* () {
    const checkpoint = yield* service
    let isReady = false
    const { bound, ran } = yield* counting({ b: Effect.suspend(() => (isReady ? Effect.void : Step.pause("ask Ada"))) })
    const paused = yield* checkpoint.run(bound, { key: "k", input: "go" })
    assert.strictEqual(paused.outcome, "Paused")
    const found = yield* head("k")
    assert.strictEqual(found.status, "paused")
    assert.strictEqual(found.outcome?.message, `waiting: "b"`)
    assert.strictEqual(yield* fails(checkpoint.run(bound, { key: "k", input: "go" })), "CheckpointError Unfinished")
    const wrong = { callId: "nobody", approved: true }
    assert.strictEqual(
      yield* fails(checkpoint.resume(bound, { key: "k", decisions: [wrong] })),
      "PlanError InvalidDecision"
    )
    assert.strictEqual((yield* head("k")).status, "paused")
    isReady = true
    const done = yield* checkpoint.resume(bound, { key: "k" })
    assert.strictEqual(done.outcome, "Completed")
    assert.deepStrictEqual(yield* ran, ["a", "b", "b", "c"])
  })
})

describe("PLAN-6 leases", () => {
  it.effect("a run that lives cannot be taken, however long it takes (J16, P13)", () =>
    Effect.gen(function* () {
      const checkpoint = yield* service
      const waiting = yield* gate
      const { bound, ran } = yield* counting({ b: waiting.hook })
      const fiber = yield* Effect.forkChild(checkpoint.run(bound, { key: "k", input: "go" }))
      yield* waiting.begun
      for (let minute = 0; minute < 5; minute++) {
        yield* TestClock.adjust("1 minute")
        const found = yield* head("k")
        assert.isTrue(found.live)
        for (const attempt of [
          checkpoint.run(bound, { key: "k", input: "go" }),
          checkpoint.run(bound, { key: "k", input: "go", policy: "restart" }),
          checkpoint.run(bound, { key: "k", input: "go", policy: "startOrResume" }),
          checkpoint.resume(bound, { key: "k" })
        ]) {
          const error = yield* Effect.flip(attempt)
          assert.strictEqual(reasonOf(error), "CheckpointError RunActive")
          assert.include(error.message, found.owner)
          assert.include(error.message, "lease until 1970-01-01T00:0")
        }
        assert.strictEqual(yield* fails(checkpoint.remove("k")), "CheckpointError RunActive")
      }
      yield* waiting.open
      assert.strictEqual((yield* Fiber.join(fiber)).outcome, "Completed")
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
      assert.strictEqual((yield* head("k")).epoch, 1)
    }).pipe(Effect.provide(layer({ leaseTime: "30 seconds", heartbeat: "10 seconds" })))
  )

  it.effect(
    "a run whose lease ended resumes elsewhere (P15); the process that lost it is stopped and writes nothing more",
    () =>
      Effect.gen(function* () {
        const checkpoint = yield* service
        const victims = yield* gate
        const victim = yield* counting({
          b: Effect.onInterrupt(victims.hook, () => Deferred.succeed(stopped, undefined))
        })
        const stopped = yield* Deferred.make<void>()
        const fiber = yield* checkpoint
          .run(victim.bound, { key: "k", input: "go" })
          .pipe(slowClock, Effect.flip, Effect.forkChild)
        yield* victims.begun
        const before = yield* head("k")
        assert.strictEqual(before.status, "running")
        assert.isFalse(before.live)
        assert.strictEqual(before.completed, 1)
        assert.strictEqual(
          yield* fails(checkpoint.run(victim.bound, { key: "k", input: "go" })),
          "CheckpointError Unfinished"
        )

        const heirs = yield* gate
        const heir = yield* counting({ b: heirs.hook })
        const going = yield* Effect.forkChild(checkpoint.resume(heir.bound, { key: "k" }))
        yield* heirs.begun
        // The next heartbeat of the victim
        yield* TestClock.adjust("10 seconds")
        const error = yield* Fiber.join(fiber)
        assert.strictEqual(reasonOf(error), "CheckpointError LeaseLost")
        assert.include(error.message, before.owner)
        yield* Deferred.await(stopped)
        yield* heirs.open
        const result = yield* Fiber.join(going)
        assert(result.outcome === "Completed")
        assert.deepStrictEqual(yield* victim.ran, ["a", "b"])
        assert.deepStrictEqual(yield* heir.ran, ["b", "c"])
        assert.strictEqual(result.output, "go a b c")
        const after = yield* head("k")
        assert.deepStrictEqual([after.runId, after.epoch, after.status], [before.runId, 2, "done"])
        assert.notStrictEqual(after.owner, before.owner)
        assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.load(heir.bound, "k")), result.state)
      }).pipe(Effect.provide(layer({ leaseTime: "30 seconds", heartbeat: "10 seconds" })))
  )

  testStored("what a process writes after it lost its lease is never part of the run", function* () {
    const checkpoint = yield* service
    const victims = yield* gate
    const victim = yield* counting({ b: victims.hook })
    const fiber = yield* checkpoint
      .run(victim.bound, { key: "k", input: "go" })
      .pipe(slowClock, Effect.flip, Effect.forkChild)
    yield* victims.begun
    const heir = yield* counting()
    const result = yield* checkpoint.resume(heir.bound, { key: "k" })
    // Now the victim ends its step, and writes its facts in vain
    yield* victims.open
    assert.strictEqual(reasonOf(yield* Fiber.join(fiber)), "CheckpointError LeaseLost")
    assert.deepStrictEqual(yield* victim.ran, ["a", "b"])
    assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.load(heir.bound, "k")), result.state)
    assert.strictEqual((yield* head("k")).status, "done")
    assert.isTrue(yield* checkpoint.isCurrent("k", "last"))
  })

  testStored("a run that was removed while it ran stops", function* () {
    const checkpoint = yield* service
    const waiting = yield* gate
    const { bound } = yield* counting({ b: waiting.hook })
    const fiber = yield* Effect.forkChild(Effect.flip(checkpoint.run(bound, { key: "k", input: "go" })))
    yield* waiting.begun
    assert.isTrue(yield* checkpoint.remove("k", { force: true }))
    yield* waiting.open
    assert.include((yield* Fiber.join(fiber)).message, "the run was removed")
    assert.deepStrictEqual(yield* checkpoint.inspect("k"), Option.none())
  })

  testStored("of two that start at once exactly one runs (J10)", function* () {
    const checkpoint = yield* service
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

  test("refuses a heartbeat that is too slow for the lease", function* () {
    const exit = yield* Effect.exit(Effect.provide(service, layer({ leaseTime: "1 second", heartbeat: "1 second" })))
    assert.strictEqual(exit._tag, "Failure")
  })
})

describe("PLAN-6 forks", () => {
  testStored("have a key and writes of their own (J11, J12, O10)", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting()
    yield* checkpoint.run(bound, { key: "k", input: "main" })
    const forks = yield* Effect.forEach(
      ["one", "two"],
      (input) => checkpoint.run(bound, { key: "k", input, policy: "fork" }),
      { concurrency: 2 }
    )
    assert.deepStrictEqual((yield* checkpoint.list()).keys, ["k", ...forks.map(({ key }) => key)].toSorted())
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("last")).value, "main a b c")
    for (const [index, input] of ["one", "two"].entries()) {
      const fork = forks[index]?.key ?? ""
      assert.isTrue(fork.startsWith("k:"))
      assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("last", { fork })).value, `${input} a b c`)
      assert.isTrue(yield* checkpoint.isCurrent(fork, "last"))
      assert.isTrue((yield* head(fork)).fork)
      assert.strictEqual((yield* checkpoint.resume(bound, { key: fork })).outcome, "Completed")
    }
    assert.isTrue(yield* checkpoint.isCurrent("k", "last"))
    const [first] = forks
    assert.isTrue(yield* checkpoint.remove(first?.key ?? ""))
    assert.deepStrictEqual(yield* checkpoint.read("last", { fork: first?.key ?? "" }), Option.none())
  })
})

describe("PLAN-6 forks that fail", () => {
  testStored("leave the others alone (P16, P17)", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting({
      b: Effect.suspend(() => {
        turn += 1
        return turn === 1 ? refuses("down") : Effect.void
      })
    })
    let turn = 0
    const forks = yield* Effect.forEach(["one", "two"], (input) =>
      Effect.result(checkpoint.run(bound, { key: "k", input, policy: "fork" }))
    )
    assert.deepStrictEqual(pluck(forks, "_tag"), ["Failure", "Success"])
    const { keys } = yield* checkpoint.list({ prefix: "k:" })
    const found = yield* Effect.forEach(keys, head)
    assert.deepStrictEqual(found.map(({ status }) => status).toSorted(), ["done", "failed"])
    assert.strictEqual(new Set(found.map(({ runId }) => runId)).size, 2)
    const failed = found.find(({ status }) => status === "failed")?.key ?? ""
    assert.strictEqual((yield* checkpoint.resume(bound, { key: failed })).outcome, "Completed")
    assert.strictEqual(Option.getOrThrow(yield* checkpoint.read("last", { fork: failed })).value, "one a b c")
    assert.deepStrictEqual(yield* checkpoint.read("last"), Option.none())
  })
})

describe("PLAN-6 streams", () => {
  testStored("emit each write, once it was done", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting()
    const events = yield* Stream.runCollect(checkpoint.stream(bound, { key: "k", input: "go" }))
    const written = events.filter((event) => event._tag === "Checkpointed")
    assert.isAtLeast(written.length, 3)
    for (const event of written) assert.strictEqual(event.key, "k")
    assert.deepStrictEqual(Option.getOrThrow(yield* checkpoint.load(bound, "k")), written.at(-1)?.state)
    assert.strictEqual(events.at(-1)?._tag, "PlanFinished")
    assert.strictEqual((yield* head("k")).status, "done")

    const again = yield* Stream.runCollect(checkpoint.resumeStream(bound, { key: "k" }))
    assert.strictEqual(again.at(-1)?._tag, "PlanFinished")
    assert.isFalse(again.some((event) => event._tag === "StepStarted" || event._tag === "Checkpointed"))
  })

  testStored("that are not read to the end are cancelled, and resume (P24)", function* () {
    const checkpoint = yield* service
    const waiting = yield* gate
    const { bound, ran } = yield* counting({ b: waiting.hook })
    yield* checkpoint.stream(bound, { key: "k", input: "go" }).pipe(
      Stream.takeUntil((event) => event._tag === "StepStarted" && event.step === "b"),
      Stream.runDrain
    )
    const found = yield* head("k")
    assert.deepStrictEqual([found.status, found.live, found.completed], ["cancelled", false, 1])
    yield* TestClock.adjust("1 minute")
    assert.deepStrictEqual(yield* ran, ["a", "b"])
    yield* waiting.open
    const events = yield* Stream.runCollect(checkpoint.resumeStream(bound, { key: "k" }))
    assert.strictEqual(events.at(-1)?._tag, "PlanFinished")
    assert.strictEqual((yield* ran).filter((step) => step === "a").length, 1)
    assert.strictEqual((yield* head("k")).status, "done")
  })

  testStored("fail as runs do", function* () {
    const checkpoint = yield* service
    const { bound } = yield* counting({ b: refuses("down") })
    const run = Stream.runDrain(checkpoint.stream(bound, { key: "k", input: "go" }))
    assert.strictEqual(yield* fails(run), "PlanError StepFailed")
    assert.strictEqual((yield* head("k")).status, "failed")
    assert.strictEqual(yield* fails(run), "CheckpointError Unfinished")
  })

  testStored("stop when the lease is lost", function* () {
    const checkpoint = yield* service
    const waiting = yield* gate
    const { bound } = yield* counting({ b: waiting.hook })
    const fiber = yield* checkpoint
      .stream(bound, { key: "k", input: "go" })
      .pipe(Stream.runDrain, slowClock, Effect.flip, Effect.forkChild)
    yield* waiting.begun
    const heir = yield* counting()
    yield* checkpoint.resume(heir.bound, { key: "k" })
    yield* TestClock.adjust("30 seconds")
    assert.strictEqual(reasonOf(yield* Fiber.join(fiber)), "CheckpointError LeaseLost")
    assert.strictEqual((yield* head("k")).status, "done")
  })
})

describe("PLAN-6 parallel groups", () => {
  testStored("members that finished do not run again after a crash of another one, and all write (O19)", function* () {
    const checkpoint = yield* service
    let isDown = true
    const ran: Array<string> = []
    const member = (name: string, effect: Effect.Effect<unknown, unknown>) =>
      Step.make(name, {
        parallel: true,
        writes: `value of ${name}`,
        target: () =>
          Effect.as(
            Effect.andThen(
              Effect.sync(() => ran.push(name)),
              effect
            ),
            name
          )
      })
    const plan = yield* Plan.make(
      member("x", Effect.void),
      member(
        "y",
        Effect.suspend(() => (isDown ? refuses("down") : Effect.void))
      ),
      member("z", Effect.void)
    )
    const bound = yield* Plan.bind(plan)
    yield* Effect.flip(checkpoint.run(bound, { key: "k", input: "go" }))
    const state = Option.getOrThrow(yield* checkpoint.load(bound, "k"))
    assert.deepStrictEqual(PlanRun.history(state), [])
    assert.deepStrictEqual(yield* checkpoint.read("value of x"), Option.none())
    isDown = false
    yield* checkpoint.resume(bound, { key: "k" })
    assert.deepStrictEqual(ran.toSorted(), ["x", "y", "y", "z"])
    for (const name of ["x", "y", "z"]) assert.isTrue(yield* checkpoint.isCurrent("k", `value of ${name}`))
  })
})
