/** PLAN-5 S7: the step at which a plan continues. */
import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Plan, Step, When, type PlanRun } from "effect-emissary/plan"
import { completed, log, planOf } from "./support.ts"
import { failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"

describe("routes", () => {
  test("PLAN-5 S7 the first route that holds counts, later ones are not tested; without one the plan continues as declared", function* () {
    const { fn, ran, fnStep } = log()
    const asked: Array<string> = []
    const ask = (name: string, answer: boolean) => () =>
      Effect.sync(() => {
        asked.push(name)
        return answer
      })
    const make = (first: boolean, second: boolean) =>
      planOf(
        [
          Step.make("a", {
            target: fn("a"),
            routes: [
              ["c", When.custom("first")],
              ["d", When.custom("second")]
            ],
            afterBranches: "e"
          }),
          fnStep("b"),
          fnStep("c"),
          fnStep("d"),
          fnStep("e")
        ],
        { predicates: { first: ask("first", first), second: ask("second", second) } }
      )
    yield* Plan.run(yield* make(true, true), "x")
    assert.deepStrictEqual([ran.splice(0), asked.splice(0)], [["a", "c", "e"], ["first"]])
    yield* Plan.run(yield* make(false, true), "x")
    assert.deepStrictEqual(
      [ran.splice(0), asked.splice(0)],
      [
        ["a", "d", "e"],
        ["first", "second"]
      ]
    )
    yield* Plan.run(yield* make(false, false), "x")
    assert.deepStrictEqual(ran, ["a", "b", "c", "d", "e"])
  })

  test("PLAN-5 S7.6 a predicate that fails: PredicateFailed; the step is done, and only the choice is made again", function* () {
    const { fn, ran, fnStep } = log()
    let works = false
    const bound = yield* planOf(
      [Step.make("a", { target: fn("a"), routes: [["c", When.custom("ready")]] }), fnStep("b"), fnStep("c")],
      {
        predicates: { ready: () => (works ? Effect.succeed(true) : Effect.fail({ name: "Down", message: "no line" })) }
      }
    )
    const error = yield* failsMidway("PredicateFailed", Plan.run(bound, "x"))
    assert.deepStrictEqual([error.reason.step, error.reason.to, error.reason.predicate], ["a", "c", "ready"])
    assert.deepStrictEqual(error.reason.failure, { type: "Down", message: "no line", retryable: false })
    works = true
    yield* Plan.resume(bound, error.state)
    assert.deepStrictEqual(ran, ["a", "c"])
  })

  test("PLAN-5 S11 an answer leads to the steps that its schema names, and to no other", function* () {
    const { fn, ran: visited, fnStep } = log()
    const output = Schema.Struct({ next: Schema.Union([Schema.Literal("end"), Schema.String]) })
    let next = "q"
    const bound = yield* planOf([
      Step.make("a", { target: fn("a", () => ({ next })), output, routesBy: "next" }),
      fnStep("p", { parallel: true }),
      fnStep("q", { parallel: true }),
      fnStep("end")
    ])
    for (const [said, ran] of [
      ["q", "a,p,q,end"],
      ["a", "a,p,q,end"],
      ["end", "a,end"]
    ] as const) {
      next = said
      visited.length = 0
      yield* Plan.run(bound, "x")
      assert.strictEqual(visited.join(","), ran)
    }
  })

  test("PLAN-6 a step is written before a predicate is asked about it", function* () {
    let written = 0
    const asked: Array<number> = []
    const { fn, fnStep } = log()
    const bound = yield* planOf(
      [Step.make("a", { target: fn("a"), routes: [["b", When.custom("ask")]] }), fnStep("b")],
      {
        predicates: {
          ask: () =>
            Effect.sync(() => {
              asked.push(written)
              return true
            })
        }
      }
    )
    const journal = (events: ReadonlyArray<PlanRun.Event>) =>
      Effect.sync(() => void (written += events.filter(({ _tag }) => _tag === "StepFinished").length))
    completed(yield* Plan.run(bound, "x", { journal }))
    assert.deepStrictEqual(asked, [1])
  })
})
