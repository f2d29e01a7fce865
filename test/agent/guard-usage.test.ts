/** L14: the use of agents that guards ask. */
import { assert, describe } from "@effect/vitest"
import { Effect, Fiber, Layer, Result, Schema, Stream } from "effect"
import { Decision, DecisionModel, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Guard, Run, ToolRuntime } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { call, throughJson } from "./fixtures.ts"

const toolkit = Toolkit.make(
  Tool.make("look", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
)

const judge = Agent.make("judge", { instructions: "Judge." })

const judging = <const P extends Guard.Place>(on: P, terms: Guard.Terms = {}) =>
  Guard.fromAgent(`judge-${on}`, {
    ...terms,
    on,
    agent: judge,
    verdict: (answer) => (answer === "no" ? Guard.refuse("The judge says no.") : Guard.pass)
  })

const desk = (...guards: ReadonlyArray<ReturnType<typeof judging>>) => Agent.make("desk", { toolkit, guards })

const usage = { inputTokens: 100, outputTokens: 10 }

const said = (text: string): ScriptedModel.Turn => ({ text, usage })

const world = (script: ScriptedModel.Script) =>
  Layer.mergeAll(
    toolkit.toLayer({ look: ({ id }) => Effect.succeed(`seen ${id}`) }),
    ScriptedModel.layer(script),
    ToolRuntime.layerConcurrent()
  )

const recording = () => {
  const events: Array<Run.Event> = []
  const onEvent: NonNullable<Agent.Options["onEvent"]> = ({ event }) => Effect.sync(() => void events.push(event))
  return { events, onEvent }
}

const usedIn = (events: ReadonlyArray<Run.Event>) =>
  events.flatMap((event) =>
    event._tag === "GuardUsed" ? [{ guard: event.guard, usage: event.usage, spent: event.spent }] : []
  )

const asked = Effect.map(ScriptedModel.requests, ({ length }) => length)

describe("MONEY-4 L14 the agent of a guard", () => {
  test("counts in the usage of the run, at every place, whatever the verdict", function* () {
    for (const on of ["input", "beforeModel", "afterModel", "output"] as const) {
      for (const when of on === "input" || on === "beforeModel" ? (["before", "beside"] as const) : [undefined]) {
        for (const answer of ["yes", "no"]) {
          const { events, onEvent } = recording()
          const isBefore = when === "before"
          const script = isBefore ? [said(answer), said("Hi.")] : [said("Hi."), said(answer)]
          const result = yield* desk(judging(on, { when }))
            .run("Hello.", { onEvent })
            .pipe(Effect.provide(world(script)))
          assert.strictEqual(result.outcome, answer === "no" ? "Refused" : "Completed")
          assert.deepStrictEqual(usedIn(events), [{ guard: `judge-${on}`, usage, spent: undefined }])
          const calls = isBefore && answer === "no" ? 1 : 2
          assert.deepStrictEqual(result.usage, { inputTokens: 100 * calls, outputTokens: 10 * calls })
          assert.deepStrictEqual(Result.getOrThrow(Run.fold(events)), result.state)
          yield* throughJson(result.state)
        }
      }
    }
  })

  test("counts as much in a stream, and a guard that asks no model records nothing", function* () {
    const views = yield* Stream.runCollect(desk(judging("output")).stream("Hello.")).pipe(
      Effect.provide(world([said("Hi."), said("yes")]))
    )
    const last = views.at(-1)
    assert(last?._tag === "RunFinished")
    assert.deepStrictEqual(last.result.usage, { inputTokens: 200, outputTokens: 20 })
    const { events, onEvent } = recording()
    const guard = Guard.make("plain", { on: "output", check: () => Effect.succeed(Guard.pass) })
    yield* desk(guard)
      .run("Hello.", { onEvent, budget: { modelCalls: 9 } })
      .pipe(Effect.provide(world([said("Hi.")])))
    assert.deepStrictEqual(usedIn(events), [])
  })

  test("has the budget of the run: its calls are reserved before they are made, and settled", function* () {
    const { events, onEvent } = recording()
    const agent = desk(judging("output"))
    const { left, result } = yield* Effect.gen(function* () {
      const result = yield* endsAs("Completed", agent.run("Hello.", { budget: { totalTokens: 100_000 }, onEvent }))
      const refused = yield* endsAs("Refused", agent.run("Hello.", { budget: { modelCalls: 1 } }))
      assert.include(refused.reason, "a budget is used up")
      return { left: yield* asked, result }
    }).pipe(Effect.provide(world([said("Hi."), said("yes"), said("Hi again.")])))
    assert.strictEqual(left, 3)
    assert.deepStrictEqual(usedIn(events), [{ guard: "judge-output", usage, spent: { modelCalls: 1, ...usage } }])
    const [scope] = result.state.account?.scopes ?? []
    assert.deepStrictEqual(scope?.limits, { totalTokens: 100_000 })
    assert.deepInclude(result.state.account?.used, { modelCalls: 2, inputTokens: 200, outputTokens: 20 })
  })

  test("leaves nothing to the model of the run of what it has used", function* () {
    const result = yield* endsAs(
      "BudgetExceeded",
      desk(judging("afterTool")).run("Look.", { budget: { modelCalls: 2 } })
    ).pipe(Effect.provide(world([{ toolCalls: [call("a", "look", { id: "1" })], usage }, said("yes")])))
    assert.deepInclude(result, { unit: "modelCalls", limit: 2, used: 2 })
  })

  test("shares the budget with other guards at the same time, before anything is recorded", function* () {
    const script = [
      { toolCalls: [call("a", "look", { id: "1" }), call("b", "look", { id: "2" })], usage },
      () => Effect.as(Effect.repeat(Effect.yieldNow, { times: 100 }), said("yes")),
      said("yes")
    ]
    const result = yield* endsAs(
      "Refused",
      desk(judging("afterTool")).run("Look.", { budget: { modelCalls: 2 } })
    ).pipe(
      Effect.tap(() => Effect.map(asked, (length) => assert.strictEqual(length, 2))),
      Effect.provide(world(script))
    )
    assert.deepInclude(result.state.account?.used, { modelCalls: 2 })
  })

  test("of an agent that is a tool counts in the runs around, and so does a plan that a guard runs", function* () {
    const plan = yield* Plan.bind(yield* Plan.make("panel", [Step.make("one", { target: judge })]))
    const guard = Guard.make("panel", { on: "output", check: () => Effect.as(Plan.run(plan, "Hello."), Guard.pass) })
    const inner = Agent.make("inner", { guards: [judging("output")] })
    const outer = Agent.make("outer", {
      toolkit: [Agent.asTool(inner, { name: "inner", description: "Inside." })],
      guards: [guard]
    })
    const result = yield* endsAs("Completed", outer.run("Go.", { budget: { modelCalls: 9 } })).pipe(
      Effect.provide(
        world([
          { toolCalls: [call("a", "inner", { input: "x" })], usage },
          said("In."),
          said("yes"),
          said("Out."),
          said("Ok.")
        ])
      )
    )
    assert.deepStrictEqual(result.usage, { inputTokens: 500, outputTokens: 50 })
    assert.deepInclude(result.state.account?.used, { modelCalls: 5, inputTokens: 500 })
  })

  test("that is cut off has made its call, and one that fails counts with what it has used", function* () {
    const script = [said("Hi."), () => Effect.never]
    const agent = desk(judging("output", { timeout: "1 second" }))
    const fiber = yield* Effect.forkChild(
      agent.run("Hello.", { budget: { modelCalls: 9 } }).pipe(Effect.provide(world(script)))
    )
    yield* TestClock.adjust("1 second")
    const late = yield* endsAs("Refused", Fiber.join(fiber))
    assert.include(late.reason, "it took too long")
    assert.deepInclude(late.state.account?.used, { modelCalls: 2, outputTokens: 10 })
    const failing = Guard.make("failing", {
      on: "output",
      onFailure: "pass",
      check: () => Effect.andThen(judge.ask("Hm?"), Effect.fail("no"))
    })
    const passed = yield* endsAs("Completed", desk(failing).run("Hello.")).pipe(
      Effect.provide(world([said("Hi."), said("yes")]))
    )
    assert.deepStrictEqual(passed.usage, { inputTokens: 200, outputTokens: 20 })
  })

  test("counts, and so does a DecisionModel, which is not asked where nothing is left", function* () {
    let times = 0
    const model = Layer.effect(
      DecisionModel.DecisionModel,
      DecisionModel.make({
        decide: () =>
          Effect.sync(() => {
            times += 1
            return { answers: { mood: { _tag: "Rate", rating: 0, probabilities: { calm: 1, angry: 0 } } }, usage }
          })
      })
    )
    const guard = Guard.fromDecision("mood", {
      on: "output",
      definition: Decision.make({
        input: Schema.Struct({ text: Schema.String }),
        decisions: { mood: Decision.rate({ instructions: "mood", criteria: ["calm", "angry"] }) }
      }),
      verdict: () => Guard.pass
    })
    const agent = Agent.make("desk", { guards: [guard] })
    yield* Effect.gen(function* () {
      const result = yield* endsAs("Completed", agent.run("Hello.", { budget: { modelCalls: 2 } }))
      assert.deepStrictEqual(result.usage, { inputTokens: 200, outputTokens: 20 })
      assert.deepInclude(result.state.account?.used, { modelCalls: 2, inputTokens: 200, outputTokens: 20 })
      yield* endsAs("Refused", agent.run("Hello.", { budget: { modelCalls: 1 } }))
      assert.strictEqual(times, 1)
    }).pipe(Effect.provide([model, world([said("Hi."), said("Hi.")])]))
  })

  test("has the budget of the next message, and counts again after a resume", function* () {
    const agent = Agent.make("desk", { guards: [judging("input")], budget: { modelCalls: 2 } })
    const result = yield* Effect.gen(function* () {
      const first = yield* endsAs("Completed", agent.run("Hello."))
      const stored = yield* throughJson(first.state)
      return yield* endsAs("Completed", agent.resume(stored, { input: "And?" }))
    }).pipe(Effect.provide(world([said("yes"), said("Hi."), said("yes"), said("So.")])))
    assert.deepStrictEqual(result.usage, { inputTokens: 400, outputTokens: 40 })
    assert.deepInclude(result.state.account?.used, { modelCalls: 4 })
  })
})
