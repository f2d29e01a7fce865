/** PLAN-5: failures, retries, defects and limits. */
import { assert, describe } from "@effect/vitest"
import { Cause, Clock, Effect, Fiber, Logger, Option, Result, Schema, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Plan, PlanError, PlanRun, Step, When } from "effect-emissary/plan"
import { pluck } from "../pluck.ts"
import { completed, failureOf, journal, log, planOf, runStep } from "./support.ts"
import { after } from "../after.ts"
import { endsAs, failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"

/** An interruption from no other fiber. */
const joinsInterrupted = Effect.gen(function* () {
  const fiber = yield* Effect.forkChild(Effect.never)
  yield* Fiber.interrupt(fiber)
  return yield* Fiber.join(fiber)
})

describe("failures", () => {
  class Odd extends Schema.TaggedError<Odd>()("Odd", { message: Schema.String, retryable: Schema.Boolean }) {}

  test("PLAN-5 a typed failure of a function has its tag, its message and whether to try again", function* () {
    const { fn, fnStep } = log()
    const odd = new Odd({ message: "not even", retryable: true })
    const bound = yield* planOf([fnStep("a"), Step.make("b", { target: fn("b", () => Effect.fail(odd)) })], {
      name: "p"
    })
    const error = yield* failsMidway("StepFailed", Plan.run(bound, "x"))
    assert.strictEqual(error.message, `Plan "p": Step "b" failed with Odd. The message is in reason.failure.message`)
    assert.deepStrictEqual(error.reason.failure, { type: "Odd", message: "not even", retryable: true })
    assert.deepStrictEqual(PlanError.causeOf(error), Option.some(odd))
    assert.deepStrictEqual(pluck(PlanRun.history(error.state), "step"), ["a"])
    assert.strictEqual(error.state.outcome?._tag, "Failed")
  })

  test("PLAN-5 L9 a try that takes longer than the timeout is interrupted, and fails with Timeout", function* () {
    const { fn } = log()
    let interrupted = 0
    const slow = fn("a", () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => interrupted++)))
    const bound = yield* planOf([
      Step.make("a", { target: slow, timeout: "5 seconds", retry: { times: 1, delay: "1 second" } })
    ])
    const fiber = yield* Effect.forkChild(Effect.flip(Plan.run(bound, "x")))
    yield* TestClock.adjust("10999 millis")
    assert.isUndefined(fiber.pollUnsafe())
    yield* TestClock.adjust("1 millis")
    const { reason } = yield* Fiber.join(fiber)
    assert(reason._tag === "StepFailed")
    assert.strictEqual(reason.failure.type, "Timeout")
    assert.strictEqual(interrupted, 2)
  })

  test("PLAN-5 L9 retries wait as their policy defines; the record counts the attempts", function* () {
    const times: Array<number> = []
    const target = Step.target("a", () =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        times.push(now)
        return times.length < 4 ? Effect.fail("not yet") : Effect.succeed("done")
      })
    )
    const retry = { times: 5, delay: "1 second", factor: 2, maxDelay: "3 seconds" } as const
    const { batches, write } = journal()
    const bound = yield* planOf([Step.make("a", { target, retry })])
    const { state } = completed(yield* after("1 minute", Plan.run(bound, "x", { journal: write })))
    assert.deepStrictEqual(times, [0, 1000, 3000, 6000])
    assert.strictEqual(PlanRun.history(state)[0]?.attempts, 4)
    const retried = batches.flat().flatMap((event) => (event._tag === "StepRetried" ? [event.attempt] : []))
    assert.deepStrictEqual(retried, [2, 3, 4])
  })

  test("PLAN-5 S6.5 a loop ends at the limit, and resumes with a larger one", function* () {
    const { fn, ran } = log()
    const bound = yield* planOf(
      [Step.make("a", { target: fn("a", () => ran.length), routes: [["a", When.payload.lessThan(5)]] })],
      { maxIterations: 3 }
    )
    const error = yield* failsMidway("MaxIterationsExceeded", Plan.run(bound, "x"))
    assert.deepStrictEqual([error.reason.limit, error.reason.next], [3, "a"])
    yield* failsFor("MaxIterationsExceeded", Plan.resume(bound, error.state))
    const result = completed(yield* Plan.resume(bound, error.state, { maxIterations: 10 }))
    assert.strictEqual(result.output, 5)
    assert.strictEqual(result.iterations, 5)
    yield* failsFor("MaxIterationsExceeded", Plan.run(bound, "x", { maxIterations: 0 }))
  })
})

describe("defects", () => {
  const logged = () => {
    const found: Array<unknown> = []
    const logger = Logger.make(({ cause, message }) => {
      found.push(message, String(cause))
    })
    return { found, layer: Logger.layer([logger]) }
  }

  test("PLAN-5 L8 a function that throws is logged once with its cause, and the message has the kind of the error", function* () {
    const { found, layer } = logged()
    const throws = () => {
      throw new RangeError("hunter2")
    }
    const error = yield* Effect.provide(Effect.flip(runStep("x", Step.make("a", { target: throws }))), layer)
    assert(error._tag === "PlanError")
    assert.strictEqual(failureOf(error).type, "Defect")
    assert.include(error.message, "It died of the defect RangeError, which is a bug.")
    for (const shown of [error.message, Cause.pretty(Cause.fail(error)), JSON.stringify(error)]) {
      assert.notInclude(shown, "hunter2")
    }
    assert.strictEqual(found.length, 2)
    assert.include(String(found[0]), `step "a" failed unexpectedly`)
    assert.include(String(found[1]), "hunter2")
    assert.instanceOf(Option.getOrThrow(PlanError.causeOf(error)), RangeError)
  })

  test("PLAN-5 Q08 a function inside plans that returns no Effect is a defect, which is logged once", function* () {
    const { found, layer } = logged()
    // Sound: what a program without types may write
    const value = (() => 42) as never
    const inner = yield* planOf([Step.make("a", { target: Step.target("f", value) })], { name: "inner" })
    const error = yield* Effect.provide(Effect.flip(runStep("x", Step.make("outer", { target: inner }))), layer)
    assert.include(error.message, "It died of the defect TypeError, which is a bug.")
    assert.strictEqual(found.length, 2)
  })
})

describe("a target that interrupts itself", () => {
  test("PLAN-5 fails its step, which may be tried again", function* () {
    for (const target of [() => Effect.interrupt, () => joinsInterrupted]) {
      const bound = yield* planOf([Step.make("a", { target })])
      const { reason, state } = yield* failsFor("StepFailed", Plan.run(bound, "x"))
      assert.strictEqual(reason.failure.type, "Interrupted")
      assert.strictEqual(state?.outcome?._tag, "Failed")
    }
    let tries = 0
    const target = ({ task }: Step.Input) =>
      Effect.suspend(() => (++tries < 3 ? Effect.interrupt : Effect.succeed(task)))
    const again = yield* planOf([Step.make("a", { target, retry: { times: 2 } })])
    assert.strictEqual(completed(yield* Plan.run(again, "x")).output, "x")
  })

  test("PLAN-5 PLAN-7 S8.3 S15 Q03 leaves the others alone: the parallel group, the other runs, the outer plan", function* () {
    const { fn, ran } = log()
    const inner = yield* planOf([Step.make("i", { target: () => Effect.interrupt })], { name: "inner" })
    const band = yield* planOf([
      Step.make("a", { target: () => Effect.interrupt, parallel: true }),
      Step.make("b", { target: fn("b", () => Effect.as(Effect.sleep("1 second"), "b")), parallel: true }),
      Step.make("c", { target: inner, parallel: true })
    ])
    const { reason, state } = yield* after("1 second", Effect.flip(Plan.run(band, "x")))
    assert(reason._tag === "StepFailed")
    assert.strictEqual(reason.step, "a")
    assert.deepStrictEqual(
      state?.turn?.members.map(({ status }) => status._tag),
      ["Failed", "Finished", "Failed"]
    )
    assert.deepStrictEqual(ran, ["b"])

    const target = ({ task }: Step.Input) => (task === "bad" ? Effect.interrupt : Effect.succeed(task))
    const many = yield* planOf([Step.make("a", { target })])
    const results = yield* Plan.runMany(many, ["x", "bad", "y"])
    assert.deepStrictEqual(results.map(Result.isSuccess), [true, false, true])
  })
})

describe("retries", () => {
  const flaky = Effect.gen(function* () {
    const times: Array<number> = []
    const target = Step.target("a", () =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        times.push(now)
        return Effect.fail("not yet")
      })
    )
    const bound = yield* planOf([Step.make("a", { target, retry: { times: 2, delay: "1 minute" } })])
    return { bound, times }
  })

  test("PLAN-6 a try that failed is recorded before the pause: a process that dies in it has counted it", function* () {
    const { bound, times } = yield* flaky
    const { batches, tags, write, last } = journal()
    const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { journal: write }))
    yield* TestClock.adjust("1 minute")
    yield* TestClock.adjust("30 seconds")
    assert.deepStrictEqual(times, [0, 60_000])
    assert.deepStrictEqual(tags(), [["PlanStarted"], ["Started a", "StepRetried"], ["StepRetried"]])
    const died = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(last()))
    yield* Fiber.interrupt(fiber)

    batches.length = 0
    const started: Array<number> = []
    const error = yield* Plan.resumeStream(bound, died).pipe(
      Stream.tap((event) => Effect.sync(() => void (event._tag === "StepStarted" && started.push(event.attempt)))),
      Stream.runDrain,
      Effect.flip
    )
    assert.strictEqual(error.reason._tag, "StepFailed")
    assert.strictEqual(times.length, 3)
    assert.deepStrictEqual(started, [3])
  })

  test("PLAN-7 each attempt is emitted when it begins, with its number", function* () {
    const { bound } = yield* flaky
    assert.deepStrictEqual(
      yield* after(
        "5 minutes",
        Plan.stream(bound, "x").pipe(
          Stream.map((event) =>
            event._tag === "StepStarted" || event._tag === "StepRetried" ? `${event._tag} ${event.attempt}` : ""
          ),
          Stream.filter((line) => line !== ""),
          Stream.catchCause(() => Stream.empty),
          Stream.runCollect
        )
      ),
      ["StepStarted 1", "StepRetried 2", "StepStarted 2", "StepRetried 3", "StepStarted 3"]
    )
  })

  test("PLAN-5 a step that failed for good begins with its first try when it is resumed", function* () {
    const { bound, times } = yield* flaky
    const { state } = yield* after("5 minutes", failsMidway("StepFailed", Plan.run(bound, "x")))
    yield* after("5 minutes", Effect.flip(Plan.resume(bound, state)))
    assert.strictEqual(times.length, 6)
  })
})

describe("limits inside", () => {
  /** A loop of five turns inside two plans, in a plan that needs three iterations. */
  const nest = Effect.gen(function* () {
    const { fn, ran, fnStep } = log()
    const inner = yield* planOf(
      [
        Step.make("a", {
          target: fn("a", () => ran.filter((name) => name === "a").length),
          routes: [["a", When.payload.lessThan(5)]]
        })
      ],
      { name: "inner", maxIterations: 2 }
    )
    const middle = yield* planOf([fnStep("b"), Step.make("in", { target: inner })], {
      name: "middle",
      maxIterations: 100
    })
    const outer = yield* planOf([Step.make("mid", { target: middle }), fnStep("c")], { name: "outer" })
    return { outer, ran }
  })

  const limited = (error: unknown): PlanError.PlanError => {
    assert(error instanceof PlanError.PlanError && error.reason._tag === "StepFailed")
    assert.strictEqual(error.reason.failure.type, "MaxIterationsExceeded")
    assert.include(error.message, "resume with a larger maxIterations")
    return error
  }

  test("PLAN-5 a nested plan that used up its iterations continues with those of the resume, at any depth", function* () {
    const { outer, ran } = yield* nest
    const { state } = limited(yield* Effect.flip(Plan.run(outer, "x")))
    assert(state !== undefined)
    limited(yield* Effect.flip(Plan.resume(outer, state)))
    const { batches, write } = journal()
    const { state: after } = completed(yield* Plan.resume(outer, state, { maxIterations: 50, journal: write }))
    assert.deepStrictEqual(ran, ["b", "a", "a", "a", "a", "a", "c"])
    assert.strictEqual(after.maxIterations, 50)
    const resumed = batches.flat().flatMap((event) => {
      const found: Array<readonly [number, number | undefined]> = []
      let depth = 0
      let inside: PlanRun.Event = event
      for (; inside._tag === "NestedChanged"; depth++) inside = inside.event
      if (inside._tag === "PlanResumed") found.push([depth, inside.maxIterations])
      return found
    })
    // The one in between has its own limit still
    assert.deepStrictEqual(resumed, [
      [0, 50],
      [1, undefined],
      [2, 50]
    ])
  })

  test("PLAN-8 also as an agent, whose steps they are", function* () {
    const { outer, ran } = yield* nest
    const error = yield* failsMidway("DelegateFailed", outer.run("x"))
    const again = yield* failsMidway("DelegateFailed", outer.resume(error.state))
    yield* endsAs("Completed", outer.resume(again.state, { maxSteps: 50 }))
    assert.strictEqual(ran.length, 7)
  })
})
