/** PLAN-5: what failed steps say, and what is taken although it is written another way. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Logger, Option, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Plan, PlanError, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { completed, log } from "./support.ts"
import { pluck } from "../pluck.ts"

const N = Schema.Struct({ n: Schema.Finite })

const failureOf = (error: unknown) => {
  assert(error instanceof PlanError.PlanError && error.reason._tag === "StepFailed")
  return error.reason.failure
}

const run = <R>(input: string | { readonly payload: Schema.Json }, step: Step.Any<R>) =>
  Effect.flatMap(
    Effect.flatMap(Plan.make(step), (plan) => Plan.bind(plan)),
    (plan) => Plan.run(plan, input)
  )

describe("schemas", () => {
  it.effect("PLAN-5 L8 what does not fit is said in the same words everywhere, without values", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const wrong = "at /n: expected number, found string"
      const given = { payload: { n: "hunter2" } }
      const whole = yield* Plan.bind(
        yield* Plan.make({ output: N }, Step.make("a", { target: fn("a", () => given.payload) }))
      )
      const failures = [
        failureOf(yield* Effect.flip(run(given, Step.make("a", { input: N, target: () => Effect.succeed("") })))),
        failureOf(yield* Effect.flip(run(given, Step.make("a", { input: N, target: fn("a") })))),
        failureOf(yield* Effect.flip(run("x", Step.make("a", { output: N, target: fn("a", () => given.payload) })))),
        failureOf(
          yield* Effect.flip(
            // Sound: what a program without types may give
            run("x", Step.make("a", { output: N, target: () => Effect.succeed(given.payload as never) }))
          )
        )
      ]
      const { reason } = yield* Effect.flip(Plan.run(whole, "x"))
      assert(reason._tag === "OutputInvalid")
      for (const { message } of [...failures, reason.failure]) {
        assert.include(message, wrong)
        assert.notInclude(message, "hunter2")
      }
      assert.deepStrictEqual(pluck(failures, "type"), [
        "InputInvalid",
        "InputInvalid",
        "OutputInvalid",
        "OutputInvalid"
      ])
    })
  )

  it.effect("PLAN-5 an agent's text that is the JSON of the step's output is taken; another text says what to do", () =>
    Effect.gen(function* () {
      const agent = Agent.make("counter", { instructions: "Count." })
      const counting = Step.make("count", { target: agent, output: N })
      const answers = (text: string) => Effect.provide(run("x", counting), ScriptedModel.layer([{ text }]))
      assert.deepStrictEqual(completed(yield* answers(` {"n": 2}\n`)).output, { n: 2 })
      const prose = failureOf(yield* Effect.flip(answers("two, I think")))
      assert.strictEqual(prose.type, "OutputInvalid")
      assert.include(prose.message, "at the root: expected object, found string")
      assert.include(prose.message, "an `output` of its own")
      const other = failureOf(yield* Effect.flip(answers(`{"n":"two"}`)))
      assert.include(other.message, "at /n: expected number, found string")
    })
  )

  it.effect("PLAN-5 the text of a function stays a text", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const text = failureOf(
        yield* Effect.flip(run("x", Step.make("a", { output: N, target: fn("a", () => `{"n":2}`) })))
      )
      assert.strictEqual(text.type, "OutputInvalid")
      assert.notInclude(text.message, "agent")
    })
  )

  it.effect("PLAN-5 an agent whose answer does not fit its own output says where", () =>
    Effect.gen(function* () {
      const agent = Agent.make("counter", { instructions: "Count.", output: N })
      const wrong = run("x", Step.make("count", { target: agent }))
      const layer = ScriptedModel.layer(() => Effect.succeed({ text: `{"n":"hunter2"}` }))
      const failure = failureOf(yield* Effect.flip(Effect.provide(wrong, layer)))
      assert.strictEqual(failure.type, "InvalidOutput")
      assert.include(failure.message, "at /n: expected number")
      assert.notInclude(failure.message, "hunter2")
    })
  )
})

describe("defects", () => {
  const logged = () => {
    const found: Array<unknown> = []
    const logger = Logger.make(({ cause, message }) => {
      found.push(message, String(cause))
    })
    return { found, layer: Logger.layer([logger]) }
  }

  it.effect(
    "PLAN-5 L8 a function that throws is logged once with its cause, and the message says what kind it was",
    () =>
      Effect.gen(function* () {
        const { found, layer } = logged()
        const throws = () => {
          throw new RangeError("hunter2")
        }
        const error = yield* Effect.provide(Effect.flip(run("x", Step.make("a", { target: throws }))), layer)
        assert(error._tag === "PlanError")
        assert.strictEqual(failureOf(error).type, "Defect")
        assert.include(error.message, "It died of the defect RangeError, which is a bug.")
        assert.notInclude(error.message, "hunter2")
        assert.strictEqual(found.length, 2)
        assert.include(String(found[0]), `step "a" failed unexpectedly`)
        assert.include(String(found[1]), "hunter2")
        assert.instanceOf(Option.getOrThrow(PlanError.causeOf(error.reason)), RangeError)
      })
  )

  it.effect("PLAN-5 a function inside plans is logged once, and what is no Effect is called that", () =>
    Effect.gen(function* () {
      const { found, layer } = logged()
      // Sound: what a program without types may write
      const promises = (() => Promise.reject(new Error("nobody waits for it"))) as never
      const inner = yield* Plan.bind(
        yield* Plan.make({ name: "inner" }, Step.make("a", { target: Step.target("f", promises) }))
      )
      const error = yield* Effect.provide(Effect.flip(run("x", Step.make("outer", { target: inner }))), layer)
      assert.include(error.message, `The function of step "a" gave a value that is no Effect: a Promise.`)
      assert.strictEqual(found.length, 2)
    })
  )
})
