/** PLAN-5 S4: what a step is given. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { ToolResult } from "effect-emissary"
import { Plan, PlanRun, Reference, Step, When } from "effect-emissary/plan"
import { pluck } from "../pluck.ts"
import { completed, log, planOf } from "./support.ts"
import { failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"

const echo = Step.target("echo", ({ content, context, payload, task }) =>
  Effect.succeed({ task, payload, context: context ?? null, content: content.length })
)

describe("references", () => {
  test("PLAN-5 S4 fromPrev is the text of the step before, the input for the first", function* () {
    const { fnStep } = log()
    const bound = yield* planOf([fnStep("a"), fnStep("b")])
    assert.strictEqual(completed(yield* Plan.run(bound, "x")).output, "b(a(x))")
    assert.strictEqual(completed(yield* Plan.run(bound, { payload: { b: 1, a: [] } })).output, `b(a({"a":[],"b":1}))`)
    assert.strictEqual(completed(yield* Plan.run(bound, { task: "t" })).output, "b(a(t))")
    assert.strictEqual(completed(yield* Plan.run(bound, { task: "t", payload: null })).output, "b(a(t))")
  })

  test("PLAN-5 S4 Q07 fromStart is the input with its own task, payload, context and content", function* () {
    const { fnStep } = log()
    const bound = yield* planOf([
      fnStep("a"),
      Step.make("b", {
        target: echo,
        task: Reference.fromStart,
        context: [Reference.fromStart, Reference.fromStep("a"), "fixed"]
      })
    ])
    const input = { task: "t", payload: { k: 1 }, context: "c", content: [ToolResult.textPart("part")] }
    assert.deepStrictEqual(completed(yield* Plan.run(bound, input)).output, {
      task: "t",
      payload: { k: 1 },
      context: `c\n\n{"k":1}\n\na({"k":1})\n\nfixed`,
      content: 1
    })
  })

  test("PLAN-5 S5.5 TRUST-7 D2 an input with an empty task has the text of its payload for one, for every target", function* () {
    const fromStart = Step.make("a", { target: echo, task: Reference.fromStart })
    const nested = yield* planOf([fromStart])
    for (const [payload, text] of [
      ["P", "P"],
      [{ k: 1 }, `{"k":1}`]
    ] as const) {
      for (const bound of [nested, yield* planOf([Step.make("n", { target: nested, task: Reference.fromStart })])]) {
        const { output, state } = completed(yield* Plan.run(bound, { task: "", payload }))
        assert.deepStrictEqual(output, { task: text, payload, context: null, content: 0 })
        assert.strictEqual(state.input.task, text)
      }
    }
  })

  test("PLAN-5 S4.3 a step that was skipped cannot be read: ReferenceFailed, with what was completed", function* () {
    const { fn, ran, fnStep } = log()
    const bound = yield* planOf([
      Step.make("a", { target: fn("a"), routes: [["c", When.payload.notEmpty()]] }),
      fnStep("b"),
      Step.make("c", { target: fn("c"), context: [Reference.fromStep("a"), Reference.fromStep("b")] })
    ])
    const { reason, state } = yield* failsMidway("ReferenceFailed", Plan.run(bound, "x"))
    assert.deepStrictEqual(
      [reason.step, reason.slot, reason.reference, reason.ran],
      ["c", "context[1]", `fromStep("b")`, ["a"]]
    )
    assert.deepStrictEqual(ran, ["a"])
    assert.deepStrictEqual(pluck(PlanRun.history(state), "output"), ["a(x)"])
  })

  test("PLAN-5 fromMemory and fromAgent read when the step begins; a failed read fails the step", function* () {
    let text = "first"
    const plan = yield* Plan.make("plan", [
      Step.make("a", {
        target: echo,
        task: Reference.fromMemory("m"),
        context: [Reference.fromMemory("m"), Reference.fromAgent("m")]
      })
    ])
    const memory = { text: Effect.sync(() => text), output: Effect.succeed({ last: 1 }) }
    const bound = yield* Plan.bind(plan, { memories: { m: memory } })
    assert.deepStrictEqual(completed(yield* Plan.run(bound, "x")).output, {
      task: "first",
      payload: "first",
      context: `first\n\n{"last":1}`,
      content: 0
    })
    text = "second"
    assert.deepInclude(completed(yield* Plan.run(bound, "x")).output, { task: "second" })
    const broken = yield* Plan.bind(plan, {
      memories: { m: { ...memory, text: Effect.fail({ name: "Gone", message: "gone" }) } }
    })
    const { reason } = yield* failsFor("StepFailed", Plan.run(broken, "x"))
    assert.deepStrictEqual(reason.failure, { type: "Gone", message: "gone", retryable: false })
  })
})
