/** PLAN-5 S8: bands. */
import { assert, describe } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { Plan, PlanError, PlanRun, Reference, Step } from "effect-emissary/plan"
import { completed, journal, log, planOf } from "./support.ts"
import { failsMidway, failsFor } from "../outcomes.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"
import * as planTransition from "#src/run/internal/planTransition.ts"

const late = (millis: number, answer: string) => Effect.delay(Effect.succeed(answer), millis)

describe("parallel groups", () => {
  test("PLAN-5 S8.2 P01 P02 P05 members run at the same time and see the step before the parallel group", function* () {
    const { fn, fnStep } = log()
    const member = (name: string, millis: number) =>
      Step.make(name, { target: fn(name, ({ task }) => late(millis, `${name}(${task})`)), parallel: true })
    const bound = yield* planOf([
      fnStep("a"),
      member("p", 3000),
      member("q", 1000),
      member("r", 2000),
      Step.make("z", { target: fn("z"), context: Reference.fromParallelAll("p") })
    ])
    const { output, state } = completed(yield* after("3 seconds", Plan.run(bound, "x")))
    // S8.8: the last declared member, though q was the last but one to start and p the last to finish
    assert.strictEqual(output, "z(r(a(x)))")
    assert.deepStrictEqual(
      PlanRun.history(state).map(({ context, step }) => [step, context]),
      [
        ["a", undefined],
        ["p", undefined],
        ["q", undefined],
        ["r", undefined],
        ["z", "[p]\np(a(x))\n\n[q]\nq(a(x))\n\n[r]\nr(a(x))"]
      ]
    )
    assert.strictEqual(state.iterations, 3)
  })

  test("PLAN-5 concurrency bounds how many run at a time; less than one is refused", function* () {
    const { fn } = log()
    let now = 0
    let most = 0
    const work = Effect.gen(function* () {
      now += 1
      most = Math.max(most, now)
      yield* Effect.sleep("1 second")
      now -= 1
      return "done"
    })
    const names = ["a", "b", "c", "d", "e"] as const
    const bound = yield* planOf(names.map((name) => Step.make(name, { target: fn(name, () => work), parallel: true })))
    yield* after("1 minute", Plan.run(bound, "x", { concurrency: 2 }))
    assert.strictEqual(most, 2)
    most = 0
    yield* after("1 minute", Plan.run(bound, "x"))
    assert.strictEqual(most, 5)
    const { reason } = yield* Effect.flip(Plan.run(bound, "x", { concurrency: 0 }))
    assert.strictEqual(reason._tag, "OptionsInvalid")
  })

  test("PLAN-5 S8.3 S8.4 all finish; the first declared failure counts; a resume runs only those that failed", function* () {
    const { fn, ran } = log()
    let broken = true
    const fail = (name: string, millis: number) =>
      fn(name, () => (broken ? Effect.delay(Effect.fail(`${name} broke`), millis) : Effect.succeed(name)))
    const bound = yield* planOf([
      Step.make("p", { target: fn("p", () => late(3000, "P")), parallel: true, writes: "k" }),
      Step.make("q", { target: fail("q", 2000), parallel: true }),
      Step.make("r", { target: fail("r", 1000), parallel: true }),
      Step.make("z", { target: fn("z"), context: Reference.fromParallelAll("p") })
    ])
    const error = yield* after("1 minute", failsMidway("StepFailed", Plan.run(bound, "x")))
    assert.deepStrictEqual([error.reason.step, error.reason.failure.message], ["q", "q broke"])
    assert.strictEqual(PlanRun.history(error.state).length, 0)
    assert.strictEqual(planTransition.writtenValues(error.state).size, 0)
    broken = false
    ran.length = 0
    const { state, writes } = completed(yield* Plan.resume(bound, error.state))
    assert.deepStrictEqual(ran, ["q", "r", "z"])
    assert.strictEqual(PlanRun.history(state)[3]?.context, "[p]\nP\n\n[q]\nq\n\n[r]\nr")
    assert.deepStrictEqual(Array.from(writes), [["k", "P"]])
  })

  test("PLAN-5 S8.6 a reference that fails in a parallel group is the failure that it is elsewhere", function* () {
    const { fn, ran, fnStep } = log()
    const route = { to: "p", when: { _tag: "Equals", path: [], value: "skip" } } as const
    const bound = yield* planOf([
      Step.make("a", { target: fn("a", () => "skip"), routes: [["c", route.when]] }),
      fnStep("b"),
      fnStep("c"),
      Step.make("p", { target: fn("p"), parallel: true, task: Reference.fromStep("b") }),
      fnStep("q", { parallel: true })
    ])
    const { reason } = yield* failsFor("ReferenceFailed", Plan.run(bound, "x"))
    assert.deepStrictEqual([reason.step, reason.ran], ["p", ["a", "c"]])
    assert.deepStrictEqual(ran, ["a", "c", "q"])
  })

  test("L6 interruption reaches every member and waits for them; what finished is kept and does not run again", function* () {
    const { fn, ran, fnStep } = log()
    const cleaned: Array<string> = []
    const clean = (name: string) =>
      Effect.onInterrupt(Effect.never, () =>
        Effect.delay(
          Effect.sync(() => cleaned.push(name)),
          1000
        )
      )
    const kept = journal()
    const bound = yield* planOf([
      Step.make("p", {
        target: fn("p", () => (cleaned.length === 0 ? clean("p") : Effect.succeed("P"))),
        parallel: true
      }),
      fnStep("q", { parallel: true }),
      Step.make("r", {
        target: fn("r", () => (cleaned.length === 0 ? clean("r") : Effect.succeed("R"))),
        parallel: true
      })
    ])
    const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { journal: kept.write }))
    yield* TestClock.adjust("1 second")
    const interrupting = yield* Effect.forkChild(Fiber.interrupt(fiber))
    yield* TestClock.adjust("1 second")
    yield* Fiber.join(interrupting)
    assert.deepStrictEqual(cleaned.sort(), ["p", "r"])
    assert.include(kept.tags().flat(), "Finished q")
    assert.deepStrictEqual(kept.tags().at(-1)?.slice(-2), ["PlanInterrupted", "PlanFinished"])
    ran.length = 0
    assert.strictEqual(completed(yield* Plan.resume(bound, kept.last())).output, "R")
    assert.deepStrictEqual(ran, ["p", "r"])
  })

  test("PLAN-6 a journal that fails in a parallel group interrupts the other members", function* () {
    const { fn, fnStep } = log()
    const interrupted = yield* Deferred.make<void>()
    const bound = yield* planOf([
      Step.make("p", {
        target: fn("p", () => Effect.onInterrupt(Effect.never, () => Deferred.succeed(interrupted, undefined))),
        parallel: true
      }),
      fnStep("q", { parallel: true })
    ])
    const lost = new PlanError.PlanError({ plan: "x", reason: { _tag: "JournalFailed", problem: "disk full" } })
    let calls = 0
    const error = yield* Effect.flip(
      Plan.run(bound, "x", { journal: () => (++calls === 1 ? Effect.void : Effect.fail(lost)) })
    )
    assert.strictEqual(error.reason._tag, "JournalFailed")
    yield* Deferred.await(interrupted)
    assert.strictEqual(calls, 2)
  })

  test("PLAN-5 S8.2 the bound of parallel groups holds for those of plans inside", function* () {
    let running = 0
    let most = 0
    const work = () =>
      Effect.sync(() => {
        running += 1
        most = Math.max(most, running)
      }).pipe(Effect.andThen(Effect.yieldNow), Effect.andThen(Effect.sync(() => String(running--))))
    const member = (name: string) => Step.make(name, { target: work, parallel: true })
    const inner = yield* planOf([member("a"), member("b"), member("c"), member("d")], { name: "inner" })
    const outer = yield* planOf([Step.make("o", { target: inner })])
    completed(yield* Plan.run(outer, "x", { concurrency: 2 }))
    assert.strictEqual(most, 2)
    completed(yield* Plan.run(outer, "x"))
    assert.strictEqual(most, 4)
  })
})
