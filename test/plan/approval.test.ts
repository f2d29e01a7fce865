/** PLAN-8: a wait inside a plan suspends everything around it, which resumes at the same point. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Fiber, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Conversation, Run } from "effect-emissary"
import { Plan, PlanRun, Reference, Step } from "effect-emissary/plan"

import { gate } from "./checkpoints.ts"
import { answered, around, asks, json, noted } from "./nested.ts"
import { applyAll, journal, log, planOf } from "./support.ts"
import { endsAs } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import * as runTransition from "#src/agent/internal/runTransition.ts"

const Send = Tool.make("send", {
  parameters: Schema.Struct({ input: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Send)

/** A step that waits the first time that it runs, and answers when it runs again. */
const waitsOnce = (name: string, ran: Array<string>, options?: { readonly parallel?: boolean }) =>
  Step.make(name, {
    ...options,
    target: ({ task }) =>
      Effect.suspend(() => {
        ran.push(name)
        const isFirst = ran.filter((one) => one === name).length === 1
        return isFirst ? Step.pause(`${name} waits`) : Effect.succeed(`${name}(${task})`)
      })
  })

/** A plan of one such step. */
const gated = Effect.gen(function* () {
  const ran: Array<string> = []
  return { ran, bound: yield* planOf(waitsOnce("gate", ran)) }
})

const approves = (callId: string) => ({ decisions: [{ callId, approved: true }] })

describe("approvals and pauses inside plans", () => {
  test("PLAN-8 a pause of a function is a request under its step; approved, the step runs again", function* () {
    const { ran, fnStep } = log()
    const bound = yield* planOf(fnStep("a"), waitsOnce("gate", ran), fnStep("b"))
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
      return yield* outer.resume(yield* json(same.state), approves("gate"))
    }).pipe(answered(asks, { text: "done" }))
    assert.strictEqual(done.text, "done")
    assert.include(JSON.stringify(Conversation.transcript(done.conversation)), "b(gate(a(go)))")
    assert.deepStrictEqual(ran, ["a", "gate", "gate", "b"])
  })

  test("PLAN-8 a pause that is denied fails its step, and the outer model reads the failure", function* () {
    const { ran, fnStep } = log()
    const bound = yield* planOf(waitsOnce("gate", ran), fnStep("b"))
    const outer = around(bound)
    const done = yield* Effect.gen(function* () {
      const { state } = yield* outer.run("hello")
      return yield* outer.resume(state, { decisions: [{ callId: "gate", approved: false, reason: "no" }] })
    }).pipe(answered(asks, { expect: { toolResult: "failed with Denied" }, text: "sorry" }))
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
        Effect.as(
          Effect.sync(() => ran.push("send")),
          input
        )
    })
    const bound = yield* Effect.flatMap(
      Plan.make(
        Step.make("mail", { target: "send", parallel: true }),
        waitsOnce("y", ran, { parallel: true }),
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
    const half = yield* bound.resume(yield* json(waiting.state), approves("y"))
    assert(half.outcome === "AwaitingApproval")
    assert.deepStrictEqual(pluck(half.requests, "callId"), ["mail"])
    const done = yield* bound.resume(yield* json(half.state), approves("mail"))
    assert.strictEqual(done.outcome, "Completed")
    assert.deepStrictEqual([...ran].sort(), ["send", "y", "y", "z"])
  })

  test("TRUST-1 a tool step runs the call that was approved, whatever its references read by then, also after a kill", function* () {
    const sent: Array<string> = []
    const handlers = toolkit.toLayer({ send: ({ input }) => Effect.sync(() => String(sent.push(input))) })
    let note = "alice"
    const memories = { notes: { text: Effect.sync(() => note) } }
    const plan = yield* Plan.make(Step.make("mail", { target: "send", task: Reference.fromMemory("notes") }))
    const bound = yield* Effect.provide(Plan.bind(plan, { toolkit, memories }), handlers)
    const waiting = yield* endsAs("Paused", Plan.run(bound, "go"))
    assert.deepStrictEqual(pluck(waiting.requests, "arguments"), [{ input: "alice" }])
    note = "mallory"
    const { batches, write } = journal()
    const decisions = waiting.requests.map((request) => ({ ...request, approved: true }))
    yield* endsAs("Completed", Plan.resume(bound, waiting.state, { decisions, journal: write }))
    const events = batches.flat()
    for (let length = 1; length < events.length - 1; length++) {
      const cut = Result.getOrThrow(
        applyAll({ definition: bound.live.definition, nested: new Map() }, waiting.state, events.slice(0, length))
      )
      const kept = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(cut))
      yield* endsAs("Completed", Plan.resume(bound, kept))
    }
    assert.isAbove(sent.length, 2)
    assert.deepStrictEqual(new Set(sent), new Set(["alice"]))
  })

  test("PLAN-8 a decision that was recorded before a kill is not asked for again", function* () {
    const { bound, ran } = yield* gated
    const { state } = yield* bound.run("go")
    const { events, onState } = yield* noted
    yield* bound.resume(state, { ...approves("gate"), onState })
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
    const { bound } = yield* gated
    const { state } = yield* bound.run("go")
    const decided = Run.decide(state, approves("gate").decisions, yield* DateTime.now)
    const after = Result.getOrThrow(Run.applyAll(state, Result.getOrThrow(decided)))
    assert.deepStrictEqual(Run.approvalRequests(after), [])
    assert.strictEqual((yield* bound.resume(yield* json(after))).text, "gate(go)")
  })

  test("PLAN-8 the interruption of the outer agent reaches the step, and all of it can be resumed", function* () {
    const { fn, ran, fnStep } = log()
    const { begun, hook, open } = yield* gate
    const hold = Step.make("hold", { target: fn("hold", ({ task }) => Effect.as(hook, task)) })
    const bound = yield* planOf(fnStep("a"), hold)
    const { onState, states } = yield* noted
    const running = yield* Effect.forkChild(answered(asks)(around(bound).run("hello", { onState })))
    yield* begun
    yield* Fiber.interrupt(running)
    const last = states.at(-1)
    assert(last?.outcome?._tag === "Interrupted")
    // Before the agent settled its call: what a killed process leaves.
    const killed = states.findLast((state) => runTransition.openCall(state, "c1")?.status._tag === "Started")
    assert(killed !== undefined)
    yield* open
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
    const level0 = yield* planOf(fnStep("a"))
    const level1 = yield* planOf(Step.make("in", { target: level0 }))
    const outer = around(level1)
    const run = (maxDepth: number) => answered(asks, { text: "done" })(outer.run("x", { maxDepth }))
    assert.strictEqual((yield* run(2)).text, "done")
    for (const maxDepth of [1, 0]) assert.strictEqual((yield* Effect.flip(run(maxDepth))).reason._tag, "MaxDepth")
  })
})
