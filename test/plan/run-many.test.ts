/** PLAN-7: one plan, many inputs. */
import { assert, describe } from "@effect/vitest"
import { Effect, Result } from "effect"
import { Plan, Step } from "effect-emissary/plan"
import { log, planOf } from "./support.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"

describe("runMany", () => {
  test("PLAN-7 S15 P07 results come in the order of the inputs, each with its own fate", function* () {
    const { fn } = log()
    const target = fn("a", ({ task }) => {
      switch (task) {
        case "fail":
          return Effect.fail("no")
        case "pause":
          return Step.pause("wait")
        case "conclude":
          return Step.conclude("done")
        case "slow":
          return Effect.delay(Effect.succeed("slow"), 1000)
        default:
          return task
      }
    })
    const bound = yield* planOf([Step.make("a", { target })])
    const results = yield* after(
      "1 second",
      Plan.runMany(bound, ["slow", "fail", "pause", { payload: "y" }, "conclude"])
    )
    assert.deepStrictEqual(
      results.map((result) => (Result.isSuccess(result) ? result.success.outcome : result.failure.reason._tag)),
      ["Completed", "StepFailed", "Paused", "Completed", "Concluded"]
    )
  })

  test("PLAN-7 P06 concurrency bounds the runs, and parallel groups those of their members", function* () {
    const { fn } = log()
    let now = 0
    let most = 0
    const target = fn("a", () =>
      Effect.gen(function* () {
        now += 1
        most = Math.max(most, now)
        yield* Effect.sleep("1 second")
        now -= 1
        return "x"
      })
    )
    const bound = yield* planOf([
      Step.make("a", { target, parallel: true }),
      Step.make("b", { target, parallel: true })
    ])
    const most_ = Effect.fnUntraced(function* (options: Parameters<typeof Plan.runMany>[2]) {
      most = 0
      yield* after("1 minute", Plan.runMany(bound, ["1", "2", "3"], options))
      return most
    })
    assert.strictEqual(yield* most_({}), 6)
    assert.strictEqual(yield* most_({ concurrency: 2 }), 4)
    assert.strictEqual(yield* most_({ concurrency: 1, bands: 1 }), 1)
    for (const options of [{ concurrency: 0 }, { bands: Number.NaN }]) {
      const [refused, ...others] = yield* Plan.runMany(bound, ["1"], options)
      assert(refused !== undefined && Result.isFailure(refused) && refused.failure.reason._tag === "OptionsInvalid")
      assert.deepStrictEqual(others, [])
    }
  })
})
