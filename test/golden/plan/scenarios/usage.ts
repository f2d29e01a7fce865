import { assert } from "@effect/vitest"
import { Effect, Option, Result } from "effect"
import { Agent } from "effect-emissary"
import { Plan, PlanRun, Step, type PlanError } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"


import { equal } from "../../family.ts"
import { RuntimeError } from "../fixtures.ts"
import type { Case } from "../vocabulary.ts"

/** An agent that uses so many input tokens, and a tenth of that for its output. */
const agent = (name: string, tokens: number) => Agent.make(name, { instructions: `${name} ${tokens}` })

const model = ScriptedModel.layer((request) => {
  const [, tokens = "0"] = (request.messages[0]?.text ?? "").split(" ")
  return { text: "done", usage: { inputTokens: Number(tokens), outputTokens: Number(tokens) / 10 } }
})

const step = (name: string, tokens: number) => Step.make(name, { target: agent(name, tokens) })

const stateOf = (
  result: Result.Result<PlanRun.Result<unknown>, PlanError.PlanError>
): PlanRun.State | undefined =>
  Result.match(result, { onFailure: ({ state }) => state, onSuccess: ({ state }) => state })

/**
 * What the last step itself used is "direct" in the recordings, everything before it is
 * "nested". There are no costs here, see the omissions.
 */
const check = <E, R>(bound: Effect.Effect<Plan.Bound<unknown, R>, E>) =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const result = yield* Effect.result(Plan.run(yield* bound, "go"))
    const state = stateOf(result)
    assert(state !== undefined)
    const failed = Result.isFailure(result)
    const last = failed ? undefined : Option.getOrUndefined(PlanRun.lastRecord(state))?.usage
    const direct = { input: last?.inputTokens ?? 0, output: last?.outputTokens ?? 0 }
    equal(
      {
        input_tokens: direct.input,
        output_tokens: direct.output,
        nested_input_tokens: (state.usage.inputTokens ?? 0) - direct.input,
        nested_output_tokens: (state.usage.outputTokens ?? 0) - direct.output
      },
      {
        input_tokens: expect["input_tokens"],
        output_tokens: expect["output_tokens"],
        nested_input_tokens: expect["nested_input_tokens"],
        nested_output_tokens: expect["nested_output_tokens"]
      }
    )
  }, Effect.provide(model))

const bind = <R, E>(plan: Effect.Effect<Plan.Plan<unknown, R>, E>) => Effect.flatMap(plan, (made) => Plan.bind(made))

const inner = bind(Plan.make(step("a", 10), step("b", 20)))

export const scenarios = {
  L01: check(bind(Plan.make(step("a", 10), step("b", 20), step("c", 40)))),
  L03: check(bind(Plan.make(step("a", 10), Step.make("gate", { target: () => Step.pause("hold") })))),
  L05: check(
    bind(Plan.make(step("a", 10), Step.make("b", { target: () => Effect.fail(new RuntimeError({ message: "x" })) })))
  ),
  L06: Effect.fnUntraced(function* (golden: Case) {
    const nested = yield* inner
    return yield* check(bind(Plan.make(Step.make("sub", { target: nested }), step("c", 40))))(golden)
  })
}
