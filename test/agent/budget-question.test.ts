/** Budgets that ask where a limit refuses a call: the question, the answers, and what the run has after them. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Duration, Effect, Fiber, Layer, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Budget, Guard, ModelPrices, Run, ToolRuntime } from "effect-emissary"
import { Plan, type PlanError, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { call, throughJson } from "./fixtures.ts"
import { testWith } from "../test.ts"

const Look = Tool.make("look", { parameters: Schema.Struct({ id: Schema.String }), success: Schema.String })
const toolkit = Toolkit.make(Look)
const looked: Array<string> = []
const tools = toolkit.toLayer({ look: ({ id }) => Effect.sync(() => (looked.push(id), `seen ${id}`)) })

class Solo extends Agent.Service<Solo>()("solo", { toolkit }) {}
class Helper extends Agent.Service<Helper>()("helper", { instructions: "Help." }) {}
class Own extends Agent.Service<Own>()("own", { budget: { modelCalls: 1, onExceeded: "ask" }, toolkit }) {}
class Boss extends Agent.Service<Boss>()("boss", {
  toolkit: [
    Agent.asTool(Helper, { name: "helper", description: "Helps" }),
    Agent.asTool(Own, { name: "own", description: "Own" })
  ]
}) {}

const inWorld = (script: ScriptedModel.Script) =>
  testWith(
    Layer.mergeAll(Solo.layer, Boss.layer).pipe(
      Layer.provideMerge(Layer.mergeAll(Helper.layer, Own.layer)),
      Layer.provideMerge(Layer.mergeAll(tools, ScriptedModel.layer(script), ToolRuntime.layerConcurrent())),
      Layer.provideMerge(ModelPrices.layer({ "*": { input: 1, output: 10 } }))
    )
  )

const usage = { inputTokens: 100, outputTokens: 10 }
const text = (text: string) => ({ text, usage })
const look = (id: string) => ({ toolCalls: [call(id, "look", { id })], usage })
const leftOf = ({ state }: { readonly state: Run.State }) => Budget.left(state).map(({ left }) => left)

/** The one question that a result waits with. */
const asked = (result: Agent.Result<unknown>) => {
  if (result.outcome !== "AwaitingApproval") return assert.fail(`the outcome ${result.outcome}`)
  const [request, ...others] = result.requests
  if (request._tag !== "Question" || others.length > 0) return assert.fail(JSON.stringify(result.requests))
  return request
}
const goOn = (result: Agent.Result<unknown>, more?: number) => ({
  decisions: [Run.answer(asked(result), { choice: "continue", ...(more !== undefined && { more }) })]
})
const stop = (result: Agent.Result<unknown>) => ({ decisions: [Run.answer(asked(result), { choice: "stop" })] })

/** A run with its events, which fold to its state: first without, then after the state before. */
const recorded = Effect.fnUntraced(function* (
  run: (onEvent: NonNullable<Agent.Options["onEvent"]>) => Effect.Effect<Agent.Result<unknown>, unknown>,
  from?: Run.State
) {
  const events: Array<Run.Event> = []
  const result = yield* run(({ event }) => Effect.sync(() => void events.push(event)))
  const folded = from === undefined ? Run.fold(events) : Run.applyAll(from, events)
  assert.deepStrictEqual(Result.getOrThrow(folded), result.state)
  return { ...result, state: yield* throughJson(result.state) }
})

describe("budgets that ask", () => {
  inWorld([look("1"), look("2"), look("3"), look("4"), text("Done")])(
    "MONEY-2 a run asks where its limit refuses a call, and each answer grants as much again, so that not each call asks",
    function* () {
      looked.length = 0
      const solo = yield* Solo
      const budget = { modelCalls: 2, onExceeded: "ask" as const }
      const first = yield* recorded((onEvent) => solo.run("Go", { budget, onEvent }))
      const request = asked(first)
      assert.strictEqual(
        request.arguments.question,
        "The budget of this run is used up: 2 model calls. Continue with 2 model calls more, or stop?"
      )
      assert.deepStrictEqual(looked, ["1", "2"])
      assert.strictEqual(asked(yield* solo.resume(first.state)).digest, request.digest, "it waits")
      const [answered] = Result.getOrThrow(Run.decide(first.state, goOn(first).decisions, DateTime.makeUnsafe(0)))
      assert(answered?._tag === "ApprovalDecided" && answered.granted !== undefined)
      const forged = Run.apply(first.state, { ...answered, granted: { ...answered.granted, more: 3 } })
      assert.isTrue(Result.isFailure(forged), "an answer grants what it says")
      const second = yield* recorded((onEvent) => solo.resume(first.state, { ...goOn(first), onEvent }), first.state)
      assert.match(asked(second).arguments.question, /4 model calls/)
      assert.deepStrictEqual(leftOf(second), [{ modelCalls: 0 }])
      const third = yield* recorded(
        (onEvent) => solo.resume(second.state, { ...goOn(second, 5), onEvent }),
        second.state
      )
      assert.strictEqual(third.outcome, "Completed")
      assert.deepStrictEqual(Budget.left(third.state), [
        { scope: "run", limits: { modelCalls: 9 }, left: { modelCalls: 4 } }
      ])
      assert.deepStrictEqual(looked, ["1", "2", "3", "4"])
    }
  )

  inWorld([look("1"), text("Done")])(
    "MONEY-2 the answer that stops a run ends it as BudgetExceeded, and so does a denial; another budget continues",
    function* () {
      const solo = yield* Solo
      const first = yield* solo.run("Go", { budget: { modelCalls: 1, onExceeded: "ask" } })
      for (const answer of [stop(first), { decisions: [Run.deny(asked(first))] }]) {
        const ended = yield* recorded((onEvent) => solo.resume(first.state, { ...answer, onEvent }), first.state)
        assert(ended.outcome === "BudgetExceeded")
        assert.deepStrictEqual([ended.scope, ended.unit, ended.limit, ended.used], ["run", "modelCalls", 1, 1])
        assert.strictEqual(asked(yield* solo.resume(ended.state)).digest, asked(first).digest, "it asks again")
      }
      const stopped = yield* solo.resume(first.state, stop(first))
      const resumed = yield* solo.resume(stopped.state, { budget: { modelCalls: 1 } })
      assert.strictEqual(resumed.outcome, "Completed")
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
    text("x"),
    text("y"),
    text("z"),
    text("Done")
  ])(
    "L14 MONEY-2 agents inside that meet one limit at the same time ask one question, and one answer counts once",
    function* () {
      const boss = yield* Boss
      const budget = { modelCalls: 2, onExceeded: "ask" as const }
      const first = yield* recorded((onEvent) => boss.run("Go", { budget, onEvent }))
      assert.isDefined(asked(first).path)
      assert.strictEqual((yield* ScriptedModel.requests).length, 2)
      const second = yield* recorded((onEvent) => boss.resume(first.state, { ...goOn(first), onEvent }), first.state)
      assert.deepStrictEqual(leftOf(second), [{ modelCalls: 0 }])
      assert.strictEqual((yield* ScriptedModel.requests).length, 4)
      const third = yield* recorded((onEvent) => boss.resume(second.state, { ...goOn(second), onEvent }), second.state)
      assert.strictEqual(third.outcome, "Completed")
      assert.deepStrictEqual(leftOf(third), [{ modelCalls: 1 }])
    }
  )

  inWorld([{ toolCalls: [call("a", "helper", { input: "x" })], usage }, text("x"), text("Done")])(
    "MONEY-2 an answer that stops ends the run that has the budget, and its agents continue with another budget",
    function* () {
      const boss = yield* Boss
      const first = yield* boss.run("Go", { budget: { modelCalls: 1, onExceeded: "ask" } })
      const ended = yield* recorded((onEvent) => boss.resume(first.state, { ...stop(first), onEvent }), first.state)
      assert.strictEqual(ended.outcome, "BudgetExceeded")
      assert.strictEqual((yield* ScriptedModel.requests).length, 1)
      const resumed = yield* recorded(
        (onEvent) => boss.resume(ended.state, { budget: { modelCalls: 2 }, onEvent }),
        ended.state
      )
      assert.strictEqual(resumed.outcome, "Completed")
      assert.strictEqual((yield* ScriptedModel.requests).length, 3)
    }
  )

  inWorld([{ toolCalls: [call("a", "own", { input: "x" })], usage }, look("1"), text("x"), text("Done"), text("Done")])(
    "MONEY-2 the question of an agent inside comes up to the run around, and raises the budget of that agent alone",
    function* () {
      const boss = yield* Boss
      const first = yield* recorded((onEvent) => boss.run("Go", { budget: { modelCalls: 10 }, onEvent }))
      assert.deepStrictEqual(asked(first).path, ["a"])
      const second = yield* recorded((onEvent) => boss.resume(first.state, { ...goOn(first), onEvent }), first.state)
      assert.strictEqual(second.outcome, "Completed")
      assert.deepStrictEqual(leftOf(second), [{ modelCalls: 6 }])
      const other = yield* boss.resume(first.state, stop(first))
      assert.strictEqual(other.outcome, "Completed", "the model of the run around has the failure")
    }
  )

  inWorld([
    {
      toolCalls: [call("a", "look", { id: "1" }), call("b", "look", { id: "2" }), call("c", "look", { id: "3" })],
      usage
    },
    text("Done")
  ])("MONEY-2 calls of tools that a budget refuses wait for the answer, and those before them are kept", function* () {
    looked.length = 0
    const solo = yield* Solo
    const first = yield* recorded((onEvent) => solo.run("Go", { budget: { toolCalls: 2, onExceeded: "ask" }, onEvent }))
    assert.deepStrictEqual(looked.toSorted(), ["1", "2"])
    const second = yield* recorded((onEvent) => solo.resume(first.state, { ...goOn(first, 1), onEvent }), first.state)
    assert.strictEqual(second.outcome, "Completed")
    assert.deepStrictEqual(looked.toSorted(), ["1", "2", "3"])
    assert.deepStrictEqual(leftOf(second), [{ toolCalls: 0 }])
  })

  inWorld([{ text: "late", delay: "3 seconds" }, text("Done")])(
    "MONEY-2 a run whose time is over waits for an answer, and has more time after it",
    function* () {
      const solo = yield* Solo
      const fiber = yield* Effect.forkChild(
        recorded((onEvent) => solo.run("Go", { budget: { time: "2 seconds", onExceeded: "ask" }, onEvent }))
      )
      yield* TestClock.adjust(Duration.seconds(3))
      const first = yield* Fiber.join(fiber)
      assert.match(asked(first).arguments.question, /2 seconds more/)
      const second = yield* recorded(
        (onEvent) => solo.resume(first.state, { ...goOn(first, 60), onEvent }),
        first.state
      )
      assert.strictEqual(second.outcome, "Completed")
    }
  )

  inWorld([text("one"), text("two")])("MONEY-2 a budget of a plan that is an agent asks in its steps", function* () {
    const helper = yield* Helper
    const steps = [Step.make("first", { target: helper }), Step.make("second", { target: helper })]
    const bound = yield* Effect.flatMap(Plan.make("two", steps), Plan.bind)
    const budget = { modelCalls: 1, onExceeded: "ask" as const }
    const first = yield* recorded((onEvent) => bound.run("Go", { budget, onEvent }))
    assert.deepStrictEqual(asked(first).path, ["second"])
    const second = yield* recorded((onEvent) => bound.resume(first.state, { ...goOn(first), onEvent }), first.state)
    assert.strictEqual(second.outcome, "Completed")
    assert.deepStrictEqual(leftOf(second), [{ modelCalls: 0 }])
    const stopped = yield* recorded((onEvent) => bound.resume(first.state, { ...stop(first), onEvent }), first.state)
    assert.strictEqual(stopped.outcome, "BudgetExceeded")
  })

  inWorld([look("1"), text("Done")])(
    "MONEY-2 a stored question whose limit was changed is refused, and a limit of 0 does not ask",
    function* () {
      const solo = yield* Solo
      const first = yield* solo.run("Go", { budget: { modelCalls: 1, onExceeded: "ask" } })
      const wire = yield* Run.stateCodec.encodeJson(first.state)
      assert.include(wire, '"more":1}')
      const error = yield* Effect.flip(Run.stateCodec.decodeJson(wire.replaceAll('"more":1}', '"more":1000}')))
      assert.match(error.message, /the digest of the request for the call "budget"/)
      const none = yield* solo.run("Go", { budget: { modelCalls: 0, onExceeded: "ask" } })
      assert.strictEqual(none.outcome, "BudgetExceeded")
      const wrong = yield* Effect.flip(
        solo.resume(first.state, { decisions: [Run.answer(asked(first), { choice: "more" })] })
      )
      assert.strictEqual(wrong.reason._tag, "InvalidDecision")
    }
  )

  inWorld([look("1"), text("Done")])("MONEY-2 readers of a stream see the question", function* () {
    const solo = yield* Solo
    const views = yield* Stream.runCollect(solo.stream("Go", { budget: { modelCalls: 1, onExceeded: "ask" } }))
    const request = views.find((view) => view._tag === "ApprovalRequested")?.request
    assert(request?._tag === "Question")
    assert.strictEqual(request.name, "budget")
  })
})

describe("budgets of Plan.run", () => {
  const twoSteps = Effect.gen(function* () {
    const helper = yield* Helper
    const steps = [Step.make("first", { target: helper }), Step.make("second", { target: helper })]
    return yield* Effect.flatMap(Plan.make("two", steps), Plan.bind)
  })
  /** A run of a plan with its events, which fold to its state with the events before. */
  const kept = Effect.fnUntraced(function* <E>(
    run: (journal: Plan.Journal) => Effect.Effect<PlanRun.Result<unknown>, E>,
    before: { readonly events: ReadonlyArray<PlanRun.Event> } = { events: [] }
  ) {
    const events = [...before.events]
    const result = yield* run((more) => Effect.sync(() => void events.push(...more)))
    assert.deepStrictEqual(Result.getOrThrow(PlanRun.fold(events)), result.state)
    return { ...result, events, state: yield* planThroughJson(result.state) }
  })
  const planThroughJson = (state: PlanRun.State) =>
    Effect.flatMap(PlanRun.stateCodec.encodeJson(state), (text) => PlanRun.stateCodec.decodeJson(text))
  const waits = (result: PlanRun.Result<unknown>) => {
    if (result.outcome !== "Paused") return assert.fail(`the outcome ${result.outcome}`)
    const [request, ...others] = result.requests
    if (request?._tag !== "Question" || others.length > 0) return assert.fail(JSON.stringify(result.requests))
    return request
  }
  const answered = (result: PlanRun.Result<unknown>, choice: "continue" | "stop") => ({
    decisions: [Run.answer(waits(result), { choice })]
  })
  const exceeded = (error: PlanError.PlanError) =>
    error.reason._tag === "BudgetExceeded" ? error.reason : assert.fail(error.message)

  inWorld([text("one"), text("two"), text("three")])(
    "MONEY-2 the whole tree of a plan shares the budget of Plan.run",
    function* () {
      const bound = yield* twoSteps
      const error = exceeded(yield* Effect.flip(Plan.run(bound, "Go", { budget: { modelCalls: 1 } })))
      assert.deepStrictEqual(
        [error.step, error.scope, error.unit, error.limit, error.used],
        ["second", "run", "modelCalls", 1, 1]
      )
    }
  )

  inWorld([text("one"), text("two"), text("three")])(
    "MONEY-2 a resume of a plan has what is left, or another budget",
    function* () {
      const bound = yield* twoSteps
      const failed = yield* Effect.flip(Plan.run(bound, "Go", { budget: { modelCalls: 1 } }))
      const state = failed.state ?? assert.fail("no state")
      assert.deepStrictEqual(Budget.left(state), [{ scope: "run", limits: { modelCalls: 1 }, left: { modelCalls: 0 } }])
      exceeded(yield* Effect.flip(Plan.resume(bound, state)))
      const result = yield* Plan.resume(bound, state, { budget: { modelCalls: 3 } })
      assert.strictEqual(result.outcome, "Completed")
      assert.deepStrictEqual(Budget.left(result.state)[0]?.left, { modelCalls: 2 })
    }
  )

  inWorld([text("one"), text("two"), text("three")])(
    "MONEY-2 a budget of Plan.run asks, and the answer is recorded in the run of the plan",
    function* () {
      const bound = yield* twoSteps
      const budget = { modelCalls: 1, onExceeded: "ask" as const }
      const first = yield* kept((journal) => Plan.run(bound, "Go", { budget, journal }))
      assert.deepStrictEqual(waits(first).path, ["second"])
      const second = yield* kept(
        (journal) => Plan.resume(bound, first.state, { ...answered(first, "continue"), journal }),
        first
      )
      assert.strictEqual(second.outcome, "Completed")
      assert.deepStrictEqual(Budget.left(second.state), [
        { scope: "run", limits: { modelCalls: 2 }, left: { modelCalls: 0 } }
      ])
      const stopped = yield* Effect.flip(Plan.resume(bound, first.state, answered(first, "stop")))
      assert.strictEqual(exceeded(stopped).unit, "modelCalls")
      const state = stopped.state ?? assert.fail("no state")
      const again = yield* Plan.resume(bound, state, { budget: { modelCalls: 1 } })
      assert.strictEqual(again.outcome, "Completed")
    }
  )

  inWorld([])(
    "MONEY-2 steps of a plan that are tools ask once for their group, and run after the answer",
    function* () {
      looked.length = 0
      const member = (name: string) =>
        Step.make(name, { parallel: true, target: "look", input: Schema.Struct({ id: Schema.String }) })
      const bound = yield* Effect.flatMap(Plan.make("looks", [member("a"), member("b"), member("c")]), (plan) =>
        Plan.bind(plan, { toolkit })
      )
      const budget = { toolCalls: 1, onExceeded: "ask" as const }
      const first = yield* kept((journal) =>
        Plan.run(bound, { task: "x", payload: { id: "1" } }, { budget, journal, concurrency: 1 })
      )
      assert.strictEqual(looked.length, 1)
      const second = yield* kept(
        (journal) => Plan.resume(bound, first.state, { ...answered(first, "continue"), journal }),
        first
      )
      assert.strictEqual(looked.length, 2)
      const third = yield* kept(
        (journal) => Plan.resume(bound, second.state, { ...answered(second, "continue"), journal }),
        second
      )
      assert.strictEqual(third.outcome, "Completed")
      assert.strictEqual(looked.length, 3)
    }
  )

  inWorld([{ text: "late", delay: "1 hour" }])(
    "MONEY-2 the time of a budget ends a plan as BudgetExceeded",
    function* () {
      const bound = yield* twoSteps
      const fiber = yield* Effect.forkChild(Effect.flip(Plan.run(bound, "Go", { budget: { time: "2 seconds" } })))
      yield* TestClock.adjust(Duration.seconds(5))
      assert.strictEqual(exceeded(yield* Fiber.join(fiber)).unit, "millis")
    }
  )

  inWorld([text("one"), text("two")])("MONEY-4 guards of Plan.run hold for the agents in its steps", function* () {
    const bound = yield* twoSteps
    const seen: Array<string> = []
    const guard = Guard.make("see", {
      on: "output",
      check: ({ text }) => Effect.sync(() => (seen.push(text), Guard.pass))
    })
    const result = yield* Plan.run(bound, "Go", { guards: [guard] })
    assert.strictEqual(result.outcome, "Completed")
    assert.deepStrictEqual(seen, ["one", "two"])
  })
})
