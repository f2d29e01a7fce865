/** PLAN-7 S12: what a run used, each model call once. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { Agent } from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { completed, log, planOf } from "./support.ts"
import { testWith } from "../test.ts"

/** Each agent uses the number of tokens in its instructions. */
const model = ScriptedModel.layer((request) => {
  const tokens = Number(request.messages[0]?.text ?? "0")
  return { text: `${tokens}`, usage: { inputTokens: tokens, outputTokens: 1 } }
})
const agent = (tokens: number) => Agent.make(`a${tokens}`, { instructions: `${tokens}` })

describe("usage", () => {
  testWith(model)("PLAN-7 S12 of nested plans, whatever their depth", function* () {
    const innermost = yield* planOf([Step.make("a", { target: agent(10) }), Step.make("b", { target: agent(20) })], {
      name: "innermost"
    })
    const inner = yield* planOf([Step.make("i", { target: innermost }), Step.make("c", { target: agent(40) })], {
      name: "inner"
    })
    const bound = yield* planOf([Step.make("o", { target: inner }), Step.make("d", { target: agent(80) })])
    const { state, usage } = completed(yield* Plan.run(bound, "x"))
    assert.deepStrictEqual(usage, { inputTokens: 150, outputTokens: 4 })
    assert.deepStrictEqual(
      PlanRun.history(state).map((record) => record.usage.inputTokens),
      [70, 80]
    )
  })

  testWith(model)("PLAN-7 S12.3 of a parallel group that failed counts, and once, also after a resume", function* () {
    const { fn } = log()
    let broken = true
    const bound = yield* planOf([
      Step.make("p", { target: agent(10), parallel: true }),
      Step.make("q", { target: fn("q", () => (broken ? Effect.fail("no") : "yes")), parallel: true }),
      Step.make("r", { target: agent(5) })
    ])
    const { state } = yield* Effect.flip(Plan.run(bound, "x"))
    assert(state !== undefined)
    assert.deepStrictEqual(state.usage, { inputTokens: 10, outputTokens: 1 })
    broken = false
    const { usage } = yield* Plan.resume(bound, state)
    assert.deepStrictEqual(usage, { inputTokens: 15, outputTokens: 2 })
  })

  testWith(model)("PLAN-7 S12.2 of a loop that ends at its limit", function* () {
    const bound = yield* planOf(
      [Step.make("a", { target: agent(10), routes: [["a", { _tag: "Text", value: "10" }]] })],
      { maxIterations: 3 }
    )
    const { state } = yield* Effect.flip(Plan.run(bound, "x"))
    assert.deepStrictEqual(state?.usage, { inputTokens: 30, outputTokens: 3 })
  })
})
