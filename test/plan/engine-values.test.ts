/** PLAN-5: input and output of a plan and its steps, and values that do not fit. */
import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Agent } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { bind, completed, events, failureIn, journal, log, planOf, runStep } from "./support.ts"
import { failsFor, failsMidway } from "../outcomes.ts"
import { test } from "../test.ts"
import type * as planRunParts from "#src/run/internal/planRunParts.ts"

const N = Schema.Struct({ n: Schema.Finite })

describe("outputs", () => {
  test("PLAN-5 S5.8 the output of a step is decoded and encoded with its output schema", function* () {
    const output = Schema.Struct({ n: Schema.Finite })
    const stripped = Step.make("a", { target: Step.target("f", () => Effect.succeed({ n: 1, m: 2 })), output })
    assert.deepStrictEqual(completed(yield* Plan.run(yield* planOf([stripped]), "x")).output, { n: 1 })
  })

  test("PLAN-5 O05 O06 what is no JSON fails the step, and is not tried again", function* () {
    const { fn, ran } = log()
    const bound = yield* planOf([Step.make("a", { target: fn("a", () => NaN), retry: { times: 3 } })])
    assert.strictEqual((yield* failureIn(Plan.run(bound, "x"))).type, "OutputNotJson")
    assert.deepStrictEqual(ran, ["a"])
  })

  test("PLAN-5 a payload that does not fit the input schema of a step never reaches it", function* () {
    const { fn, ran } = log()
    const bound = yield* planOf([Step.make("a", { target: fn("a"), input: Schema.Struct({ id: Schema.Int }) })])
    const { message, reason } = yield* failsFor("StepFailed", Plan.run(bound, { payload: { id: "secret" } }))
    assert.strictEqual(reason.failure.type, "InputInvalid")
    assert.notInclude(message, "secret")
    assert.deepStrictEqual(ran, [])
    yield* Plan.run(bound, { payload: { id: 1 } })
    assert.deepStrictEqual(ran, ["a"])
  })

  test("PLAN-5 the plan's own output is decoded; one that does not fit fails the run, and nothing runs again", function* () {
    const { fn, ran } = log()
    const output = Schema.Struct({ at: Schema.DateTimeUtcFromString })
    const make = (answer: Schema.Json) => planOf([Step.make("a", { target: fn("a", () => answer) })], { output })
    const good = completed(yield* Plan.run(yield* make({ at: "2026-01-01T00:00:00.000Z" }), "x"))
    assert.strictEqual(good.output.at.epochMilliseconds, Date.UTC(2026, 0, 1))
    assert.deepStrictEqual(good.payload, { at: "2026-01-01T00:00:00.000Z" })
    assert.strictEqual(good.text, `{"at":"2026-01-01T00:00:00.000Z"}`)

    const bad = yield* make({ at: "never" })
    const first = yield* failsMidway("OutputInvalid", Plan.run(bad, "x"))
    assert.notInclude(first.message, "never")
    assert.match(first.message, /step "\w+" returned an output that does not fit the output schema of the plan/i)
    ran.length = 0
    yield* failsFor("OutputInvalid", Plan.resume(bad, first.state))
    assert.deepStrictEqual(ran, [])
    // Also of a run that is done, whose output an edited plan reads
    yield* failsFor(
      "OutputInvalid",
      Plan.resume(yield* planOf([Step.make("a", { target: () => Effect.succeed("") })], { output: N }), good.state, {
        onChange: "accept"
      })
    )
  })
})

describe("schemas", () => {
  test("PLAN-5 L8 what does not fit is reported in the same words everywhere, without values", function* () {
    const { fn } = log()
    const wrong = "at /n: expected number, got string"
    const given = { payload: { n: "hunter2" } }
    const whole = yield* planOf([Step.make("a", { target: fn("a", () => given.payload) })], { output: N })
    const failures = [
      yield* failureIn(runStep(given, Step.make("a", { input: N, target: () => Effect.succeed("") }))),
      yield* failureIn(runStep(given, Step.make("a", { input: N, target: fn("a") }))),
      yield* failureIn(runStep("x", Step.make("a", { output: N, target: fn("a", () => given.payload) }))),
      // Sound: a value that a program without types may return
      yield* failureIn(
        runStep("x", Step.make("a", { output: N, target: () => Effect.succeed(given.payload as never) }))
      )
    ]
    const { reason } = yield* failsFor("OutputInvalid", Plan.run(whole, "x"))
    for (const { message } of [...failures, reason.failure]) {
      assert.include(message, wrong)
      assert.notInclude(message, "hunter2")
    }
    assert.deepStrictEqual(pluck(failures, "type"), ["InputInvalid", "InputInvalid", "OutputInvalid", "OutputInvalid"])
  })

  test("PLAN-5 an agent's text that is the JSON of the step's output is taken; the error of another text names the fix", function* () {
    const agent = Agent.make("counter", { instructions: "Count." })
    const counting = Step.make("count", { target: agent, output: N })
    const answers = (text: string) => Effect.provide(runStep("x", counting), ScriptedModel.layer([{ text }]))
    assert.deepStrictEqual(completed(yield* answers(` {"n": 2}\n`)).output, { n: 2 })
    const prose = yield* failureIn(answers("two, I think"))
    assert.strictEqual(prose.type, "OutputInvalid")
    assert.include(prose.message, "at the root: expected object, got string")
    assert.include(prose.message, "an `output` of its own")
    assert.include((yield* failureIn(answers(`{"n":"two"}`))).message, "at /n: expected number, got string")
  })

  test("PLAN-5 the text of a function stays a text", function* () {
    const { fn } = log()
    const text = yield* failureIn(runStep("x", Step.make("a", { output: N, target: fn("a", () => `{"n":2}`) })))
    assert.strictEqual(text.type, "OutputInvalid")
    assert.notInclude(text.message, "agent")
  })

  test("PLAN-5 an answer that does not fit the agent's own output is reported with its place", function* () {
    const agent = Agent.make("counter", { instructions: "Count.", output: N })
    const wrong = runStep("x", Step.make("count", { target: agent }))
    const layer = ScriptedModel.layer(() => Effect.succeed({ text: `{"n":"hunter2"}` }))
    const failure = yield* failureIn(Effect.provide(wrong, layer))
    assert.strictEqual(failure.type, "InvalidOutput")
    assert.include(failure.message, "at /n: expected number")
    assert.notInclude(failure.message, "hunter2")
  })
})

describe("inputs", () => {
  const wrong: ReadonlyArray<readonly [string, unknown, string]> = [
    ["a BigInt", { payload: { n: 1n } }, "/n"],
    ["a Date", { payload: new Date(0) }, "JSON"],
    ["something undefined", { payload: [undefined] }, "/0"]
  ]

  for (const [name, input, problem] of wrong) {
    test(`PLAN-5 L8 ${name} is refused before anything runs`, function* () {
      const { ran, fnStep } = log()
      const bound = yield* planOf([fnStep("a")])
      // Sound: it is not; a value that a program without types may return
      const given = input as planRunParts.Input
      const { batches, write } = journal()
      const error = yield* failsFor("InputInvalid", Plan.run(bound, given, { journal: write }))
      assert.include(error.message, problem)
      assert.isUndefined(error.state)
      yield* failsFor("InputInvalid", events(Plan.stream(bound, given)))
      assert.deepStrictEqual([ran, batches], [[], []])
    })
  }

  test("PLAN-5 a step is given what its input schema makes of the payload", function* () {
    const given: Array<unknown> = []
    const see = Step.target("see", { input: Schema.Json }, ({ payload }) => Effect.sync(() => given.push(payload)))
    const plan = Plan.make("plan", [Step.make("a", { target: see, input: Schema.Struct({ seat: Schema.Finite }) })])
    yield* Plan.run(yield* bind(plan), { payload: { seat: 1, other: 2 } })
    assert.deepStrictEqual(given, [{ seat: 1 }])
  })
})
