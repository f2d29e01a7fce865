/** PLAN-5, PLAN-6: the run as a whole, its journal, its end and its spans. */
import { assert, describe } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Tracer } from "effect"
import { TestClock } from "effect/testing"
import { RunContext } from "effect-emissary"
import { Plan, Step, When } from "effect-emissary/plan"
import { completed, journal, log, planOf } from "./support.ts"
import * as callContext from "#src/tool/internal/callContext.ts"
import { after } from "../after.ts"
import { failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"

const secret = "SECRET"

describe("resuming", () => {
  test("PLAN-6 Q10 a run that is over returns its result again, and nothing is recorded", function* () {
    const { ran, fnStep } = log()
    const bound = yield* planOf([fnStep("a")])
    const first = completed(yield* Plan.run(bound, "x"))
    const { batches, write } = journal()
    const second = completed(yield* Plan.resume(bound, first.state, { journal: write }))
    assert.strictEqual(second.output, "a(x)")
    assert.deepStrictEqual([ran, batches], [["a"], []])
  })

  test("PLAN-6 DUR-10 onChange: refuse resumes under no edited plan", function* () {
    const { fn } = log()
    const one = yield* planOf([Step.make("a", { target: fn("a", () => Effect.fail("no")) })])
    const two = yield* planOf([Step.make("a", { target: fn("b") })])
    const { state } = yield* failsMidway("StepFailed", Plan.run(one, "x"))
    const { message } = yield* failsFor("PlanChanged", Plan.resume(two, state, { onChange: "refuse" }))
    for (const word of [one.digest, two.digest, "/steps/a was "]) assert.include(message, word)
  })
})

describe("the run", () => {
  test("PLAN-5 P04 functions see the RunContext of the run; that of the caller without one", function* () {
    const target = Step.target("a", () => RunContext.RunContext)
    const bound = yield* planOf([Step.make("a", { target })])
    assert.deepStrictEqual(completed(yield* Plan.run(bound, "x", { context: { tenant: "acme" } })).output, {
      tenant: "acme"
    })
    const outer = Effect.provideService(Plan.run(bound, "x"), RunContext.RunContext, { tenant: "b" })
    assert.deepStrictEqual(completed(yield* outer).output, { tenant: "b" })
  })

  test("PLAN-6 the journal gets a step in one batch, before the next one begins", function* () {
    const { fn, fnStep } = log()
    const { tags, write } = journal()
    const bound = yield* planOf([
      Step.make("a", { target: fn("a"), routes: [["c", When.payload.notEmpty()]] }),
      fnStep("b"),
      Step.make("c", { target: fn("c", () => tags().length) })
    ])
    const result = completed(yield* Plan.run(bound, "x", { journal: write }))
    assert.deepStrictEqual(tags(), [
      ["PlanStarted"],
      ["Started a", "Finished a", "a->c"],
      ["Started c", "Finished c", "PlanFinished"]
    ])
    assert.strictEqual(result.output, 2)
  })

  test("PLAN-5 L9 Q01 timeouts.total ends the run as Interrupted; the step it cut off runs again", function* () {
    const { fn, ran, fnStep } = log()
    const bound = yield* planOf([
      fnStep("a"),
      Step.make("b", { target: fn("b", () => (ran.length < 3 ? Effect.never : Effect.succeed("late"))) })
    ])
    const result = yield* after("1 minute", Plan.run(bound, "x", { timeouts: { total: "1 minute" } }))
    assert(result.outcome === "Interrupted")
    assert.strictEqual(result.reason, "timeout")
    assert.strictEqual(completed(yield* Plan.resume(bound, result.state)).output, "late")
    assert.deepStrictEqual(ran, ["a", "b", "b"])
  })

  test("L6 an interrupted run is interrupted in its journal, keeps what finished, and stays interrupted", function* () {
    const { fn, fnStep } = log()
    const { tags, write } = journal()
    let cleaned = false
    const bound = yield* planOf([
      fnStep("a"),
      Step.make("b", {
        target: fn("b", () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => (cleaned = true))))
      })
    ])
    const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { journal: write }))
    yield* TestClock.adjust("1 second")
    yield* Fiber.interrupt(fiber)
    const exit = yield* Fiber.await(fiber)
    assert(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
    assert.isTrue(cleaned)
    assert.deepStrictEqual(tags(), [
      ["PlanStarted"],
      ["Started a", "Finished a"],
      ["Started b", "PlanInterrupted", "PlanFinished"]
    ])
  })

  test("PLAN-5 L9 records have the times of a step's begin and end, attempts included; inner runs know their level", function* () {
    let tries = 0
    const levels: Array<number> = []
    const slow = () =>
      Effect.gen(function* () {
        levels.push(callContext.depthIn(callContext.runAround(yield* Effect.context<never>())))
        yield* Effect.sleep("2 seconds")
        return ++tries === 1 ? yield* Effect.fail("no") : "x"
      })
    const bound = yield* planOf([Step.make("a", { target: slow, retry: { times: 1, delay: "1 second" } })])
    const { state } = completed(yield* after("1 minute", Plan.run(bound, "x", { timeouts: { total: "1 minute" } })))
    const [record] = Array.from(state.history)
    assert.deepStrictEqual(
      [record?.startedAt, record?.finishedAt].map((at) => at?.epochMilliseconds),
      [0, 5000]
    )
    assert.strictEqual(record?.attempts, 2)
    assert.deepStrictEqual(levels, [1, 1])
  })
})

describe("spans", () => {
  /** The spans of an effect that fails, and what an exporter shows of them. */
  const traced = Effect.fnUntraced(function* <A, E>(effect: Effect.Effect<A, E>) {
    const spans: Array<Tracer.NativeSpan> = []
    const tracer = Tracer.make({
      span: (options) => {
        const span = new Tracer.NativeSpan(options)
        spans.push(span)
        return span
      }
    })
    const error = yield* effect.pipe(Effect.withSpan("caller"), Effect.withTracer(tracer), Effect.flip)
    const shown = spans.map(({ attributes, status }) => {
      const cause = status._tag === "Ended" && Exit.isFailure(status.exit) ? status.exit.cause : Cause.empty
      return JSON.stringify([
        Array.from(attributes),
        Cause.pretty(cause),
        Cause.prettyErrors(cause).map(({ message, stack }) => [message, stack])
      ])
    })
    return { error, shown, spans }
  })

  test("L8 plans and steps have spans under each other, without message text", function* () {
    const { fnStep } = log()
    const inner = yield* planOf([fnStep("i")], { name: "inner" })
    const broken = Step.target("broken", () => Effect.die(new Error(secret)))
    const bound = yield* planOf(
      [Step.make("o", { target: inner, context: secret }), Step.make("z", { target: broken })],
      { name: "outer" }
    )
    const { shown, spans } = yield* traced(Plan.run(bound, secret))
    assert.deepStrictEqual(
      spans.map(({ name, parent }) => [
        name,
        parent._tag === "Some" && parent.value._tag === "Span" ? parent.value.name : ""
      ]),
      [
        ["caller", ""],
        ["invoke_workflow outer", "caller"],
        ["step o", "invoke_workflow outer"],
        ["invoke_workflow inner", "step o"],
        ["step i", "invoke_workflow inner"],
        ["step z", "invoke_workflow outer"]
      ]
    )
    assert.notInclude(shown.join("\n"), secret)
    assert.include(shown[5] ?? "", "Defect")
  })
  for (const [type, failure] of [
    ["Error", new Error(secret)],
    ["Error", secret],
    ["Refused", { _tag: "Refused", message: secret }],
    // Names of failures that plans detect themselves
    ["Timeout", { _tag: "Timeout", message: secret }],
    ["Defect", { _tag: "Defect", message: secret }]
  ] as const) {
    test(`L8 TRUST-5 the text of a function that fails with ${type} (${typeof failure}) stays off spans`, function* () {
      const fails = Step.target("f", () => Effect.fail(failure))
      const inner = yield* planOf([Step.make("i", { target: fails })], { name: "inner" })
      const { fn, fnStep } = log()
      const route = Step.make("a", { target: fn("a"), routes: [["b", When.custom("p")]] })
      for (const bound of [
        yield* planOf([Step.make("a", { target: fails })]),
        yield* planOf([Step.make("o", { target: inner })]),
        yield* planOf([route, fnStep("b")], { predicates: { p: () => Effect.fail(failure) } })
      ]) {
        const { error, shown } = yield* traced(Plan.run(bound, "x"))
        assert.notInclude(shown.join("\n"), secret)
        assert.include(shown[0] ?? "", type)
        assert(error.reason._tag === "StepFailed" || error.reason._tag === "PredicateFailed")
        assert.deepInclude(error.reason.failure, { type, message: secret })
      }
    })
  }
})
