/** PLAN-7: the events of a run under way. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Agent } from "effect-emissary"
import { Plan, PlanEvent, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { completed, events, log, planOf } from "./support.ts"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"

const writer = Agent.make("writer", { instructions: "Write." })

describe("streams", () => {
  test("PLAN-7 steps, routes, what a route leaves out and where branches meet again", function* () {
    const { fn, fnStep } = log()
    const bound = yield* planOf([
      Step.make("a", { target: fn("a"), routes: [["c", When.payload.notEmpty()]], afterBranches: "e" }),
      fnStep("b"),
      fnStep("c"),
      fnStep("d"),
      fnStep("e")
    ])
    assert.deepStrictEqual(yield* events(Plan.stream(bound, "x")), [
      "PlanStarted",
      "StepStarted a",
      "StepFinished a",
      "a->c",
      "StepSkipped b",
      "StepStarted c",
      "StepFinished c",
      "c->e rejoin",
      "StepSkipped d",
      "StepStarted e",
      "StepFinished e",
      "PlanFinished"
    ])
  })

  test("PLAN-7 parallel groups, failures, retries and pauses", function* () {
    const { fn, ran, fnStep } = log()
    const flaky = fn("flaky", () => (ran.length < 3 ? Effect.fail("once") : "ok"))
    const bound = yield* planOf([
      fnStep("p", { parallel: true }),
      Step.make("q", { target: flaky, parallel: true, retry: { times: 1 } }),
      Step.make("z", { target: fn("z", () => Step.pause("wait")) })
    ])
    const found: Array<PlanEvent.PlanEvent<unknown>> = []
    const told = yield* events(Stream.tap(Plan.stream(bound, "x"), (event) => Effect.sync(() => found.push(event))))
    assert.deepStrictEqual(told, [
      "PlanStarted",
      "BandStarted p,q",
      "StepStarted p",
      "StepFinished p",
      "StepStarted q",
      "StepRetried q",
      "StepStarted q",
      "StepFinished q",
      "BandFinished p,q",
      "StepStarted z",
      "StepPaused z",
      "PlanFinished"
    ])
    const facts = found.flatMap((event) => (event._tag === "StateChanged" ? [event.state.revision] : []))
    assert.deepStrictEqual(
      facts,
      facts.map((_, i) => (facts[0] ?? 0) + i)
    )
    const last = found.at(-1)
    assert(last?._tag === "PlanFinished" && last.result.outcome === "Paused")
    assert.deepStrictEqual((yield* events(Plan.resumeStream(bound, last.result.state))).slice(0, 2), [
      "PlanStarted",
      "StepStarted z"
    ])
  })

  it.effect("PLAN-7 events of nested plans and agents come with the way to them; recorded events come once", () =>
    Effect.gen(function* () {
      const { fnStep } = log()
      const inner = yield* planOf([fnStep("i"), Step.make("w", { target: writer })], { name: "inner" })
      const bound = yield* planOf([Step.make("o", { target: inner })])
      const told = yield* events(Plan.stream(bound, "x"))
      assert.deepStrictEqual(
        told.filter((event) => !event.startsWith("o/w: ")),
        [
          "PlanStarted",
          "StepStarted o",
          "o/PlanStarted",
          "o/StepStarted i",
          "o/StepFinished i",
          "o/StepStarted w",
          "o/StepFinished w",
          "o/PlanFinished",
          "StepFinished o",
          "PlanFinished"
        ]
      )
      assert.include(told, "o/w: TextDelta")
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "hello" }])))
  )

  test("PLAN-7 PlanEvent.result is what run returns; a failure is the stream's", function* () {
    const { fn } = log()
    const bound = yield* planOf([
      Step.make("a", { target: fn("a", ({ task }) => (task === "no" ? Effect.fail("no") : task)) })
    ])
    assert.strictEqual(completed(yield* PlanEvent.result(Plan.stream(bound, "x"))).output, "x")
    yield* failsFor("StepFailed", PlanEvent.result(Plan.stream(bound, "no")))
  })

  test("HOUSE-2 PLAN-7 S17.2 a slow reader slows nothing, and stops the run where it leaves", function* () {
    const { fn, ran } = log()
    const bound = yield* planOf(
      [
        Step.make("a", {
          target: fn("a", () => Effect.as(Effect.sleep("100 millis"), ran.length)),
          routes: [["a", When.payload.lessThan(500)]]
        })
      ],
      { maxIterations: 1000 }
    )
    const fiber = yield* Effect.forkChild(
      Plan.stream(bound, "x").pipe(
        Stream.tap(() => Effect.sleep("1 second")),
        Stream.runDrain
      )
    )
    yield* TestClock.adjust("10 seconds")
    assert.isAtLeast(ran.length, 90)
    yield* Fiber.interrupt(fiber)
    const left = ran.length
    yield* TestClock.adjust("1 minute")
    assert.strictEqual(ran.length, left)
  })

  test("PLAN-7 S17.2 leaving early interrupts the run, and waits for it", function* () {
    const { fn } = log()
    let cleaned = 0
    const never = Effect.onInterrupt(Effect.never, () => Effect.sync(() => cleaned++))
    const bound = yield* planOf([
      Step.make("a", { target: fn("a", () => never), parallel: true }),
      Step.make("b", { target: fn("b", () => never), parallel: true })
    ])
    const kept: Array<string> = []
    yield* Plan.stream(bound, "x", {
      journal: (batch) => Effect.sync(() => void kept.push(...batch.map(({ _tag }) => _tag)))
    }).pipe(
      Stream.takeUntil((event) => event._tag === "StepStarted" && event.step === "b"),
      Stream.runDrain
    )
    assert.strictEqual(cleaned, 2)
    assert.deepStrictEqual(kept.slice(-2), ["PlanInterrupted", "PlanFinished"])
  })

  test("PLAN-7 leaving with events that are not read does not deadlock", function* () {
    const { fn } = log()
    const bound = yield* planOf(
      Array.from({ length: 40 }, (_, i) => Step.make(`s${i}`, { target: fn(`s${i}`), parallel: i < 20 }))
    )
    for (const n of [1, 2, 5, 17]) {
      assert.strictEqual((yield* Plan.stream(bound, "x").pipe(Stream.take(n), Stream.runCollect)).length, n)
    }
  })
})

describe("textDeltas", () => {
  const texts = <E, R>(stream: Stream.Stream<PlanEvent.PlanEvent<unknown>, E, R>) =>
    Effect.map(Stream.runCollect(PlanEvent.textDeltas(stream)), (found) => found.join("|"))
  const model = ScriptedModel.layer(["one", "two", "three", "four"].map((text) => ({ text })))

  test("PLAN-7 S17.3 the last text comes once: when the last step did not emit it", function* () {
    const { fn, fnStep } = log()
    const inner = yield* planOf([Step.make("w", { target: writer })], { name: "inner" })
    const signed = yield* planOf([Step.make("w", { target: writer }), fnStep("f")], { name: "signed" })
    const make = (...targets: ReadonlyArray<typeof writer | typeof inner | ReturnType<typeof fn>>) =>
      planOf(targets.map((target, i) => Step.make(`s${i}`, { target })))
    const from = <R>(bound: Plan.Bound<unknown, R>) => Effect.provide(texts(Plan.stream(bound, "x")), model)
    const whole = (text: string) => text.replaceAll("|", "")
    assert.strictEqual(whole(yield* from(yield* make(writer, writer))), "onetwo")
    assert.strictEqual(yield* from(yield* make(fn("a"), fn("b"))), "b(a(x))")
    assert.match(yield* from(yield* make(writer, fn("b"))), /\|b\(one\)$/)
    assert.strictEqual(whole(yield* from(yield* make(writer, inner))), "onetwo")
    assert.match(yield* from(yield* make(writer, signed)), /\|f\(two\)$/)
    assert.strictEqual(whole(yield* from(yield* make(fn("a"), signed, inner))), "onetwo")
  })

  it.effect("PLAN-7 K08 members of a parallel group are not heard; an answer that concludes comes at the end", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const bound = yield* planOf([
        Step.make("p", { target: writer, parallel: true }),
        Step.make("q", { target: writer, parallel: true }),
        Step.make("w", { target: writer }),
        Step.make("z", { target: fn("z", () => Step.conclude("end")) })
      ])
      assert.strictEqual((yield* texts(Plan.stream(bound, "x"))).replaceAll("|", ""), "threeend")
      const band = yield* planOf([Step.make("p", { target: writer, parallel: true })])
      assert.strictEqual(yield* texts(Plan.stream(band, "x")), "four")
    }).pipe(Effect.provide(model))
  )
})
