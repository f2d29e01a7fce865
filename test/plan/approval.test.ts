/** PLAN-8: a wait inside a plan suspends everything around it, which resumes at the same point. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Deferred, Effect, Fiber, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Run } from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { bind, log } from "./support.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import * as runTransition from "#src/agent/internal/runTransition.ts"

const json = (state: Run.State) => Effect.flatMap(Run.stateCodec.encodeJson(state), Run.stateCodec.decodeJson)

const asks = (id: string, name: string): ScriptedModel.Turn => ({ toolCalls: [{ id, name, params: { input: "go" } }] })

const Send = Tool.make("send", {
  parameters: Schema.Struct({ input: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Send)

/** A step that waits the first time that it runs, and answers when it runs again. */
const waitsOnce = (name: string, ran: Array<string>) =>
  Step.target(name, ({ task }) =>
    Effect.suspend(() => {
      ran.push(name)
      return ran.filter((one) => one === name).length === 1
        ? Step.pause(`${name} waits`)
        : Effect.succeed(`${name}(${task})`)
    })
  )

/** An agent with a plan as its only tool. */
const around = (bound: Agent.Agent<unknown>) =>
  Agent.make("outer", { toolkit: [Agent.asTool(bound, { name: "work", description: "Works" })] })

describe("approvals and pauses inside plans", () => {
  test("PLAN-8 a pause of a function is a request under its step; approved, the step runs again", function* () {
    const { ran, fnStep } = log()
    const bound = yield* bind(
      Plan.make(fnStep("a"), Step.make("gate", { target: waitsOnce("gate", ran) }), fnStep("b"))
    )
    const outer = around(bound)
    const done = yield* Effect.gen(function* () {
      const waiting = yield* outer.run("hello")
      assert(waiting.outcome === "AwaitingApproval")
      assert.deepStrictEqual(waiting.requests, [
        { callId: "gate", name: "gate", arguments: { reason: "gate waits" }, path: ["c1"] }
      ])
      const same = yield* outer.resume(yield* json(waiting.state))
      assert.strictEqual(same.outcome, "AwaitingApproval")
      assert.deepStrictEqual(ran, ["a", "gate"])
      const decisions = [{ callId: "gate", approved: true }]
      return yield* outer.resume(yield* json(same.state), { decisions })
    }).pipe(Effect.provide(ScriptedModel.layer([asks("c1", "work"), { text: "done" }])))
    assert.strictEqual(done.text, "done")
    assert.include(JSON.stringify(Conversation.transcript(done.conversation)), "b(gate(a(go)))")
    assert.deepStrictEqual(ran, ["a", "gate", "gate", "b"])
  })

  test("PLAN-8 a pause that is denied fails its step, and the outer model reads the failure", function* () {
    const { ran, fnStep } = log()
    const bound = yield* bind(Plan.make(Step.make("gate", { target: waitsOnce("gate", ran) }), fnStep("b")))
    const outer = around(bound)
    const done = yield* Effect.gen(function* () {
      const { state } = yield* outer.run("hello")
      return yield* outer.resume(state, { decisions: [{ callId: "gate", approved: false, reason: "no" }] })
    }).pipe(
      Effect.provide(
        ScriptedModel.layer([asks("c1", "work"), { expect: { toolResult: "failed with Denied" }, text: "sorry" }])
      )
    )
    assert.strictEqual(done.text, "sorry")
    assert.deepStrictEqual(ran, ["gate"])
    ran.length = 0
    const waiting = yield* bound.run("hello")
    const denied = yield* Effect.flip(bound.resume(waiting.state, { decisions: [{ callId: "gate", approved: false }] }))
    assert.strictEqual(denied.reason._tag, "DelegateFailed")
  })

  test("PLAN-8 members of a parallel group wait for different things; one decision resumes the plan, and it waits for the rest", function* () {
    const { ran, fnStep } = log()
    const handlers = toolkit.toLayer({
      send: ({ input }) =>
        Effect.sync(() => {
          ran.push("send")
          return input
        })
    })
    const bound = yield* Effect.flatMap(
      Plan.make(
        Step.make("mail", { target: "send", parallel: true }),
        Step.make("y", { target: waitsOnce("y", ran), parallel: true }),
        fnStep("z", { parallel: true })
      ),
      (plan) => Plan.bind(plan, { toolkit })
    ).pipe(Effect.provide(handlers))
    const waiting = yield* bound.run("go")
    assert(waiting.outcome === "AwaitingApproval")
    assert.sameDeepMembers(
      [...waiting.requests],
      [
        { callId: "mail", name: "send", arguments: { input: "go" } },
        { callId: "y", name: "y", arguments: { reason: "y waits" } }
      ]
    )
    assert.notInclude(ran, "send")
    const half = yield* bound.resume(yield* json(waiting.state), { decisions: [{ callId: "y", approved: true }] })
    assert(half.outcome === "AwaitingApproval")
    assert.deepStrictEqual(pluck(half.requests, "callId"), ["mail"])
    const done = yield* bound.resume(yield* json(half.state), { decisions: [{ callId: "mail", approved: true }] })
    assert.strictEqual(done.outcome, "Completed")
    assert.deepStrictEqual([...ran].sort(), ["send", "y", "y", "z"])
  })

  test("PLAN-8 a decision that was recorded before a kill is not asked for again", function* () {
    const ran: Array<string> = []
    const bound = yield* bind(Plan.make(Step.make("gate", { target: waitsOnce("gate", ran) })))
    const { state } = yield* bound.run("go")
    const events: Array<Run.Event> = []
    const decisions = [{ callId: "gate", approved: true }]
    yield* bound.resume(state, { decisions, onState: (_, event) => Effect.sync(() => void events.push(event)) })
    assert.isAbove(events.length, 4)
    for (let length = 2; length < events.length; length++) {
      ran.length = 0
      ran.push("gate")
      const cut = Result.getOrThrow(Run.applyAll(state, events.slice(0, length)))
      const done = yield* bound.resume(yield* json(cut))
      assert.strictEqual(done.text, "gate(go)", `after ${length} events`)
      assert.isAtMost(ran.length, 2)
    }
  })

  test("PLAN-8 decisions on a state at rest are applied as facts, without a run", function* () {
    const ran: Array<string> = []
    const bound = yield* bind(Plan.make(Step.make("gate", { target: waitsOnce("gate", ran) })))
    const { state } = yield* bound.run("go")
    const decided = Run.decide(state, [{ callId: "gate", approved: true }], yield* DateTime.now)
    const after = Result.getOrThrow(Run.applyAll(state, Result.getOrThrow(decided)))
    assert.deepStrictEqual(Run.approvalRequests(after), [])
    assert.strictEqual((yield* bound.resume(yield* json(after))).text, "gate(go)")
  })

  test("PLAN-8 the interruption of the outer agent reaches the step, and all of it can be resumed", function* () {
    const { fn, ran, fnStep } = log()
    const begun = yield* Deferred.make<void>()
    let slow = true
    const holding = fn("hold", ({ task }) =>
      slow ? Effect.andThen(Deferred.succeed(begun, undefined), Effect.never) : Effect.succeed(task)
    )
    const bound = yield* bind(Plan.make(fnStep("a"), Step.make("hold", { target: holding })))
    const outer = around(bound)
    const states: Array<Run.State> = []
    yield* Effect.gen(function* () {
      const running = yield* Effect.forkChild(
        outer.run("hello", { onState: (state) => Effect.sync(() => void states.push(state)) })
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(running)
    }).pipe(Effect.provide(ScriptedModel.layer([asks("c1", "work"), { text: "done" }])))
    const last = states.at(-1)
    assert(last?.outcome?._tag === "Interrupted")
    // Before the agent settled its call: what a killed process leaves.
    const killed = states.findLast((state) => runTransition.openCall(state, "c1")?.status._tag === "Started")
    assert(killed !== undefined)
    slow = false
    ran.length = 0
    const alive = yield* json(killed)
    const status = runTransition.openCall(alive, "c1")?.status
    assert(status?._tag === "Started" && status.child !== undefined)
    const done = yield* bound.resume(status.child)
    assert.strictEqual(done.text, "a(go)")
    assert.deepStrictEqual(ran, ["hold"])
  })

  test("PLAN-8 depth counts plans and agents alike; one too many fails the whole nest", function* () {
    const { fnStep } = log()
    const level0 = yield* bind(Plan.make(fnStep("a")))
    const level1 = yield* bind(Plan.make(Step.make("in", { target: level0 })))
    const outer = around(level1)
    const model = () => ScriptedModel.layer([asks("c1", "work"), { text: "done" }])
    const fits = yield* Effect.provide(outer.run("x", { maxDepth: 2 }), model())
    assert.strictEqual(fits.text, "done")
    const error = yield* Effect.flip(Effect.provide(outer.run("x", { maxDepth: 1 }), model()))
    assert.strictEqual(error.reason._tag, "MaxDepth")
    const shallow = yield* Effect.flip(Effect.provide(outer.run("x", { maxDepth: 0 }), model()))
    assert.strictEqual(shallow.reason._tag, "MaxDepth")
  })
})
