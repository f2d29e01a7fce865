/** Budgets of runs: what is reserved, what counts, where runs end, and what a resume has left. */
import { assert, describe } from "@effect/vitest"
import { Duration, Effect, Fiber, Layer, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Budget, ModelPrices, ModelRegistry, Run, ToolRuntime } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { call, throughJson } from "./fixtures.ts"
import { testWith } from "../test.ts"

const Look = Tool.make("look", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Look)
const looked: Array<string> = []
const tools = toolkit.toLayer({ look: ({ id }) => Effect.sync(() => (looked.push(id), `seen ${id}`)) })

class Solo extends Agent.Service<Solo>()("solo", { toolkit }) {}
class Helper extends Agent.Service<Helper>()("helper", { instructions: "Help." }) {}
class Own extends Agent.Service<Own>()("own", { budget: { modelCalls: 1 }, toolkit }) {}
class Boss extends Agent.Service<Boss>()("boss", {
  toolkit: [
    Agent.asTool(Helper, { name: "helper", description: "Helps" }),
    Agent.asTool(Own, { name: "own", description: "Own" })
  ]
}) {}

const world = (script: ScriptedModel.Script) =>
  Layer.mergeAll(Solo.layer, Boss.layer).pipe(
    Layer.provideMerge(Layer.mergeAll(Helper.layer, Own.layer)),
    Layer.provideMerge(Layer.mergeAll(tools, ScriptedModel.layer(script), ToolRuntime.layerConcurrent())),
    Layer.provideMerge(ModelPrices.layer({ "*": { input: 1, output: 10 } }))
  )
const inWorld = (...args: Parameters<typeof world>) => testWith(world(...args))

const usage = { inputTokens: 100, outputTokens: 10 }
const leftOf = ({ state }: { readonly state: Run.State }) => Budget.left(state).map(({ left }) => left)
const exceeded = (result: Agent.Result<unknown>) => {
  if (result.outcome !== "BudgetExceeded") return assert.fail(`the outcome ${result.outcome}`)
  const { limit, scope, unit, used } = result
  return { limit, scope, unit, used }
}
const eventsOf = Effect.fnUntraced(function* (
  run: (onEvent: NonNullable<Agent.Options["onEvent"]>) => Effect.Effect<Agent.Result<unknown>, unknown>
) {
  const events: Array<Run.Event> = []
  const result = yield* run(({ event }) => Effect.sync(() => void events.push(event)))
  assert.deepStrictEqual(Result.getOrThrow(Run.fold(events)), result.state)
  yield* throughJson(result.state)
  return { events, result, tags: events.map(({ _tag }) => _tag) }
})

describe("budgets of runs", () => {
  inWorld([
    { toolCalls: [call("a", "look", { id: "1" })], usage },
    { text: "Done", usage }
  ])(
    "MONEY-2 the reports of the provider count in place of the reservations, and an event says when most is used",
    function* () {
      const budget = { money: 1, modelCalls: 4, toolCalls: 1, totalTokens: 100_000 }
      const solo = yield* Solo
      const { result, tags } = yield* eventsOf((onEvent) => solo.run("Go", { budget, onEvent }))
      assert.strictEqual(result.outcome, "Completed")
      const [left] = leftOf(result)
      assert.deepStrictEqual(left, { totalTokens: 100_000 - 220, micros: 1_000_000 - 400, modelCalls: 2, toolCalls: 0 })
      assert.strictEqual(tags.filter((tag) => tag === "BudgetNeared").length, 1)
    }
  )

  inWorld([
    { toolCalls: [call("a", "look", { id: "1" }), call("b", "look", { id: "2" })], usage },
    { text: "Done", usage }
  ])(
    "MONEY-2 calls of tools that a budget refuses stay open, and run after a resume with another budget",
    function* () {
      looked.length = 0
      const solo = yield* Solo
      const { result } = yield* eventsOf((onEvent) => solo.run("Go", { budget: { toolCalls: 1 }, onEvent }))
      assert.deepStrictEqual(exceeded(result), { scope: "run", unit: "toolCalls", limit: 1, used: 1 })
      assert.strictEqual(looked.length, 1)
      assert.strictEqual(result.state.calls.length, 1)
      const again = yield* solo.resume(yield* throughJson(result.state))
      assert.strictEqual(exceeded(again).unit, "toolCalls")
      const resumed = yield* solo.resume(again.state, { budget: { toolCalls: 1 } })
      assert.strictEqual(resumed.outcome, "Completed")
      assert.deepStrictEqual(looked, ["1", "2"])
    }
  )

  inWorld([{ text: "a", usage }])(
    "MONEY-2 a run without a budget has no reservations, and one that is none is refused",
    function* () {
      const solo = yield* Solo
      const { events } = yield* eventsOf((onEvent) => solo.run("Go", { onEvent }))
      assert.isFalse(events.some((event) => "reserved" in event || "spent" in event || "budgets" in event))
      const error = yield* Effect.flip(solo.run("Go", { budget: { modelCalls: 0.5 } }))
      assert.match(error.message, /expected whole numbers from 0 as inputTokens/)
    }
  )

  inWorld([{ text: "much", usage: { inputTokens: 100, outputTokens: 9000 } }, { text: "no" }])(
    "L14 a report above the reservation is recorded, and no call starts after it",
    function* () {
      const solo = yield* Solo
      const first = yield* solo.run("Go", { budget: { outputTokens: 5000 } })
      assert.strictEqual(first.outcome, "Completed")
      assert.deepStrictEqual(leftOf(first), [{ outputTokens: 0 }])
      const more = yield* solo.resume(first.state)
      assert.strictEqual(more.outcome, "Completed", "nothing is left to do")
    }
  )

  inWorld([{ text: "a" }])("MONEY-2 what a provider does not report counts as it was reserved", function* () {
    const solo = yield* Solo
    const { events, result } = yield* eventsOf((onEvent) => solo.run("Go", { budget: { outputTokens: 5000 }, onEvent }))
    const started = events.find((event) => event._tag === "StepStarted")
    const answered = events.find((event) => event._tag === "ModelAnswered")
    assert(started?._tag === "StepStarted" && answered?._tag === "ModelAnswered")
    assert.isDefined(started.reserved)
    assert.strictEqual(started.reserved?.outputTokens, 4096)
    assert.deepStrictEqual(answered.spent, started.reserved)
    assert.deepStrictEqual(leftOf(result), [{ outputTokens: 5000 - 4096 }])
  })

  inWorld([{ fail: { reason: "RateLimitError" } }, { text: "a", usage }])(
    "MONEY-2 an attempt that failed without a report costs a call and no tokens",
    function* () {
      const solo = yield* Solo
      const running = eventsOf((onEvent) => solo.run("Go", { budget: { modelCalls: 2, outputTokens: 50 }, onEvent }))
      const fiber = yield* Effect.forkChild(running)
      yield* TestClock.adjust("10 seconds")
      const { result } = yield* Fiber.join(fiber)
      assert.strictEqual(result.outcome, "Completed")
      assert.deepStrictEqual(leftOf(result), [{ outputTokens: 40, modelCalls: 0 }])
    }
  )

  inWorld([
    {
      toolCalls: [
        call("a", "helper", { input: "x" }),
        call("b", "helper", { input: "y" }),
        call("c", "helper", { input: "z" })
      ],
      usage
    },
    ...Array.from({ length: 4 }, () => ({ text: "Done", usage }))
  ])("L14 agents that are tools share the budget of the run around them, also at the same time", function* () {
    const boss = yield* Boss
    const { result, tags } = yield* eventsOf((onEvent) => boss.run("Go", { budget: { modelCalls: 3 }, onEvent }))
    assert.deepStrictEqual(exceeded(result), { scope: "run", unit: "modelCalls", limit: 3, used: 3 })
    assert.strictEqual((yield* ScriptedModel.requests).length, 3)
    assert.strictEqual(tags.at(-2), "BudgetExceeded")
  })

  inWorld([
    { toolCalls: [call("a", "own", { input: "x" })], usage },
    { toolCalls: [call("l", "look", { id: "1" })], usage },
    { text: "Done", usage }
  ])("MONEY-2 the budget of an agent inside ends that agent alone, and counts in the budget around it", function* () {
    const boss = yield* Boss
    const { result } = yield* eventsOf((onEvent) =>
      boss.run("Go", { budget: { modelCalls: 10, toolCalls: 10 }, onEvent })
    )
    assert.strictEqual(result.outcome, "Completed")
    assert.deepStrictEqual(leftOf(result), [{ modelCalls: 7, toolCalls: 8 }])
  })

  inWorld([{ text: "late", delay: "1 hour" }])(
    "MONEY-2 the time of a budget ends a run under way as BudgetExceeded",
    function* () {
      const solo = yield* Solo
      const fiber = yield* Effect.forkChild(solo.run("Go", { budget: { time: "2 seconds" } }))
      yield* TestClock.adjust(Duration.seconds(3))
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(exceeded(result).unit, "millis")
    }
  )

  inWorld([
    { text: "one", usage },
    { text: "two", usage }
  ])("MONEY-2 a message has a budget of its own, and a state has its budget in another process", function* () {
    const own = yield* Own
    const first = yield* own.run("Go")
    assert.deepStrictEqual(leftOf(first), [{ modelCalls: 0 }])
    const second = yield* own.resume(yield* throughJson(first.state), { input: "More" })
    assert.strictEqual(second.outcome, "Completed")
    const wire = yield* Agent.encode(Own)
    assert.deepInclude(wire, { budget: { model_calls: 1 } })
  })

  inWorld([
    { text: "one", usage },
    { text: "two", usage }
  ])("L14 steps of a plan share the budget of its run", function* () {
    const helper = yield* Helper
    const plan = yield* Plan.make("two", [
      Step.make("first", { target: helper }),
      Step.make("second", { target: helper })
    ])
    const bound = yield* Plan.bind(plan)
    const { result } = yield* eventsOf((onEvent) => bound.run("Go", { budget: { modelCalls: 1 }, onEvent }))
    assert.deepStrictEqual(exceeded(result), { scope: "run", unit: "modelCalls", limit: 1, used: 1 })
    const resumed = yield* bound.resume(result.state, { budget: { modelCalls: 1 } })
    assert.strictEqual(resumed.outcome, "Completed")
  })

  testWith(
    Layer.mergeAll(
      Solo.layer.pipe(Layer.provide(Layer.mergeAll(tools, ScriptedModel.layer([])))),
      ModelRegistry.layer({})
    )
  )("MONEY-2 a budget of money needs the price of the model", function* () {
    const solo = yield* Solo
    const error = yield* Effect.flip(solo.run("Go", { budget: { money: 1 } }))
    assert.match(error.message, /expected a price of the model/)
  })

  inWorld([{ text: "late" }])("MONEY-2 readers of a stream see that most of a budget is used", function* () {
    const solo = yield* Solo
    const views = yield* Stream.runCollect(solo.stream("Go", { budget: { modelCalls: 1 } }))
    assert.isTrue(views.some((view) => view._tag === "StateChanged" && view.event._tag === "BudgetNeared"))
  })
})
