/** PLAN-6, L6: journals that fail, and runs that were cut off between any two facts, with agents and plans inside. */
import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent } from "effect-emissary"
import { Plan, PlanError, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { completed, log, planOf } from "./support.ts"

const lost = new PlanError.PlanError({ plan: "x", reason: { _tag: "JournalFailed", problem: "disk full" } })

const Look = Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
const kit = Toolkit.make(Look)

/** A band of an agent and a plan with that agent, which has a plan and another agent as tools. */
const make = Effect.gen(function* () {
  const { ran, fnStep } = log()
  const reader = Agent.make("reader", { toolkit: kit })
  const shop = yield* planOf([fnStep("open"), Step.make("read", { target: reader })], { name: "shop" })
  const tools = [
    Agent.asTool(shop, { name: "shop", description: "Shops" }),
    Agent.asTool(reader, { name: "reader", description: "Reads" })
  ]
  const clerk = Agent.make("clerk", { toolkit: tools })
  const office = yield* planOf([Step.make("clerk", { target: clerk })], { name: "office" })
  const bound = yield* planOf(
    [
      fnStep("greet"),
      Step.make("clerk", { target: clerk, parallel: true }),
      Step.make("office", { target: office, parallel: true }),
      fnStep("bye")
    ],
    { name: "outer" }
  )
  return { bound, ran }
})

const answer: ScriptedModel.TurnFunction = ({ messages, tools }) => {
  if (messages.some(({ role }) => role === "tool")) return { text: "done" }
  const call = (name: string) => ({ id: name, name, params: name === "look" ? {} : { input: `please ${name}` } })
  return { toolCalls: tools.map(({ name }) => call(name)) }
}

const handlers = kit.toLayer({ look: () => Effect.as(Effect.yieldNow, "seen") })

const batches = Effect.gen(function* () {
  const { bound } = yield* make
  const states: Array<PlanRun.State> = []
  yield* Plan.run(bound, "x", { journal: (_, state) => Effect.sync(() => void states.push(state)) })
  return states
})

describe("a journal that fails", () => {
  it.effect("PLAN-6 at any batch, whatever runs: the run ends with its error, and nothing more is written", () =>
    Effect.gen(function* () {
      const count = (yield* batches).length
      assert.isAbove(count, 50)
      for (let last = 1; last <= count; last++) {
        const { bound } = yield* make
        let calls = 0
        const journal = () => (++calls >= last ? Effect.fail(lost) : Effect.void)
        const error = yield* Effect.flip(Plan.run(bound, "x", { journal }))
        assert.strictEqual(error.message, `Plan "outer": disk full`)
        assert(error.state !== undefined)
        assert.strictEqual(calls, last)
      }
    }).pipe(Effect.provide([ScriptedModel.layer(answer), handlers]))
  )

  it.effect("PLAN-6 L6 while the run is interrupted: it ends, and is interrupted", () =>
    Effect.gen(function* () {
      for (let good = 0; good < 12; good++) {
        const { bound } = yield* make
        let waiting = 0
        const all = yield* Deferred.make<void>()
        // Clerks call one tool after the other, and the shop comes first
        const slow = kit.toLayer({
          look: () =>
            Effect.andThen(
              Effect.suspend(() => (++waiting === 2 ? Deferred.succeed(all, undefined) : Effect.void)),
              Effect.never
            )
        })
        let left = Infinity
        const journal = () => Effect.suspend(() => (left-- > 0 ? Effect.void : Effect.fail(lost)))
        const fiber = yield* Effect.forkChild(Effect.provide(Plan.run(bound, "x", { journal }), slow))
        yield* Deferred.await(all)
        left = good
        yield* Fiber.interrupt(fiber)
        const exit = yield* Fiber.await(fiber)
        assert.isTrue(Exit.hasInterrupts(exit))
      }
    }).pipe(Effect.provide(ScriptedModel.layer(answer)))
  )
})

describe("a run that was cut off", () => {
  it.effect("PLAN-6 PLAN-8 between any two events can be resumed: no agent is asked without its earlier messages", () =>
    Effect.gen(function* () {
      const states = yield* batches
      for (const [index, state] of states.entries()) {
        const { bound } = yield* make
        const kept = yield* Effect.flatMap(PlanRun.stateCodec.encodeJson(state), (json) =>
          PlanRun.stateCodec.decodeJson(json)
        )
        if (kept.outcome !== undefined) continue
        const asked: Array<string> = []
        const model = ScriptedModel.layer((request) => {
          asked.push(request.messages.find(({ role }) => role === "user")?.text ?? "NOTHING")
          return answer(request)
        })
        const fiber = yield* Effect.forkChild(Effect.provide(Plan.resume(bound, kept), model))
        while (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
        const { output } = completed(yield* Fiber.join(fiber))
        assert.strictEqual(output, "bye(done)", `after batch ${index + 1}`)
        assert.notInclude(asked, "NOTHING", `after batch ${index + 1}`)
      }
    }).pipe(Effect.provide([ScriptedModel.layer(answer), handlers]))
  )
})
