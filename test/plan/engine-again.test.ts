/** PLAN-5, PLAN-6, PLAN-7: what goes on, and what it goes on with. */
import { assert, describe, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Checkpoint, Plan, PlanError, PlanRun, Step, When } from "effect-emissary/plan"
import { completed, events, journal, log } from "./support.ts"

describe("limits inside", () => {
  /** A loop of five turns inside two plans, in a plan that needs three iterations. */
  const nest = Effect.gen(function* () {
    const { fn, ran } = log()
    const inner = yield* Plan.make(
      { name: "inner", maxIterations: 2 },
      Step.make("a", {
        target: fn("a", () => ran.filter((name) => name === "a").length),
        routes: [["a", When.payload.lessThan(5)]]
      })
    ).pipe(Effect.flatMap(Plan.bind))
    const middle = yield* Plan.make(
      { name: "middle", maxIterations: 100 },
      Step.make("b", { target: fn("b") }),
      Step.make("in", { target: inner })
    ).pipe(Effect.flatMap(Plan.bind))
    const outer = yield* Plan.bind(
      yield* Plan.make({ name: "outer" }, Step.make("mid", { target: middle }), Step.make("c", { target: fn("c") }))
    )
    return { outer, ran }
  })

  const limited = (error: unknown): PlanError.PlanError => {
    assert(error instanceof PlanError.PlanError && error.reason._tag === "StepFailed")
    assert.strictEqual(error.reason.failure.type, "MaxIterationsExceeded")
    assert.include(error.message, "resume with a larger maxIterations")
    return error
  }

  it.effect("PLAN-5 a plan inside that used up its iterations goes on with those of the resume, however deep", () =>
    Effect.gen(function* () {
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
  )

  it.effect("PLAN-6 also in a checkpoint", () =>
    Effect.gen(function* () {
      const { outer, ran } = yield* nest
      const checkpoint = yield* Checkpoint.Checkpoint
      limited(yield* Effect.flip(checkpoint.run(outer, { key: "k", input: "x" })))
      const result = yield* checkpoint.resume(outer, { key: "k", maxIterations: 50 })
      assert.strictEqual(result.outcome, "Completed")
      assert.strictEqual(ran.length, 7)
    }).pipe(Effect.provide(Checkpoint.layerMemory))
  )

  it.effect("PLAN-8 also as an agent, whose steps they are", () =>
    Effect.gen(function* () {
      const { outer, ran } = yield* nest
      const error = yield* Effect.flip(outer.run("x"))
      assert(error.state !== undefined)
      const again = yield* Effect.flip(outer.resume(error.state))
      assert(again.state !== undefined)
      const result = yield* outer.resume(again.state, { maxSteps: 50 })
      assert.strictEqual(result.outcome, "Completed")
      assert.strictEqual(ran.length, 7)
    })
  )
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
    const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target, retry: { times: 2, delay: "1 minute" } })))
    return { bound, times }
  })

  it.effect("PLAN-6 a try that failed is recorded before the pause: a process that dies in it has counted it", () =>
    Effect.gen(function* () {
      const { bound, times } = yield* flaky
      const { batches, tags, write } = journal()
      let state: PlanRun.State | undefined
      const fiber = yield* Effect.forkChild(
        Plan.run(bound, "x", {
          journal: (events, after) => {
            state = after
            return write(events, after)
          }
        })
      )
      yield* TestClock.adjust("1 minute")
      yield* TestClock.adjust("30 seconds")
      assert.deepStrictEqual(times, [0, 60_000])
      assert.deepStrictEqual(tags(), [["PlanStarted"], ["Started a", "StepRetried"], ["StepRetried"]])
      assert(state !== undefined)
      const died = yield* PlanRun.decodeStateJson(yield* PlanRun.encodeStateJson(state))
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
  )

  it.effect("PLAN-7 each try is told when it begins, with its number", () =>
    Effect.gen(function* () {
      const { bound } = yield* flaky
      const fiber = yield* Effect.forkChild(
        Plan.stream(bound, "x").pipe(
          Stream.map((event) =>
            event._tag === "StepStarted" || event._tag === "StepRetried" ? `${event._tag} ${event.attempt}` : ""
          ),
          Stream.filter((line) => line !== ""),
          Stream.catchCause(() => Stream.empty),
          Stream.runCollect
        )
      )
      yield* TestClock.adjust("5 minutes")
      assert.deepStrictEqual(yield* Fiber.join(fiber), [
        "StepStarted 1",
        "StepRetried 2",
        "StepStarted 2",
        "StepRetried 3",
        "StepStarted 3"
      ])
    })
  )

  it.effect("PLAN-5 a step that failed for good begins with its first try when it is resumed", () =>
    Effect.gen(function* () {
      const { bound, times } = yield* flaky
      const fiber = yield* Effect.forkChild(Effect.flip(Plan.run(bound, "x")))
      yield* TestClock.adjust("5 minutes")
      const { state } = yield* Fiber.join(fiber)
      assert(state !== undefined)
      const again = yield* Effect.forkChild(Effect.flip(Plan.resume(bound, state)))
      yield* TestClock.adjust("5 minutes")
      yield* Fiber.join(again)
      assert.strictEqual(times.length, 6)
    })
  )
})

describe("decisions", () => {
  it.effect("PLAN-7 a function that paused sees what was decided, in all its tries", () =>
    Effect.gen(function* () {
      const seen: Array<Step.Input["decision"]> = []
      const bound = yield* Plan.make(
        Step.make("ask", {
          retry: { times: 1 },
          target: ({ decision }) => {
            seen.push(decision)
            if (decision === undefined) return Step.pause("May I?")
            return seen.length < 3 ? Effect.fail("later") : Effect.succeed(decision.reason ?? "yes")
          }
        })
      ).pipe(Effect.flatMap(Plan.bind))
      const paused = yield* Plan.run(bound, "x")
      const kept = yield* PlanRun.decodeStateJson(yield* PlanRun.encodeStateJson(paused.state))
      const decision = { approved: true, reason: "do" }
      const result = yield* Plan.resume(bound, kept, { decisions: [{ callId: "ask", ...decision }] })
      assert.strictEqual(completed(result).output, "do")
      assert.deepStrictEqual(seen, [undefined, decision, decision])
      // Without a decision it is asked again
      seen.length = 0
      assert.strictEqual((yield* Plan.resume(bound, kept)).outcome, "Paused")
      assert.deepStrictEqual(seen, [undefined])
    })
  )
})

describe("inputs", () => {
  const wrong: ReadonlyArray<readonly [string, unknown, string]> = [
    ["a BigInt", { payload: { n: 1n } }, "/n"],
    ["a Date", { payload: new Date(0) }, "JSON"],
    ["something undefined", { payload: [undefined] }, "/0"],
    ["a task that is no text", { task: 42 }, "a text as the task of the input, found number"],
    ["a number", 42, "found number"]
  ]

  for (const [name, input, problem] of wrong) {
    it.effect(`PLAN-5 L8 ${name} is refused before anything runs`, () =>
      Effect.gen(function* () {
        const { fn, ran } = log()
        const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: fn("a") })))
        // Sound: it is not; what a program without types may give
        const given = input as PlanRun.Input
        const { batches, write } = journal()
        const error = yield* Effect.flip(Plan.run(bound, given, { journal: write }))
        assert.strictEqual(error.reason._tag, "InputInvalid")
        assert.include(error.message, problem)
        assert.isUndefined(error.state)
        const checkpoint = yield* Checkpoint.Checkpoint
        const kept = yield* Effect.flip(checkpoint.run(bound, { key: "k", input: given }))
        assert(kept instanceof PlanError.PlanError)
        assert.isTrue((yield* checkpoint.list()).keys.length === 0)
        const streamed = yield* Effect.flip(events(Plan.stream(bound, given)))
        assert.strictEqual(streamed.reason._tag, "InputInvalid")
        assert.deepStrictEqual([ran, batches], [[], []])
      }).pipe(Effect.provide(Checkpoint.layerMemory))
    )
  }
})
