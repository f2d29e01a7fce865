/** PLAN-8: a wait inside a plan suspends everything around it, which resumes at the same point. */
import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Equal, Fiber, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, Conversation, Run } from "effect-emissary"
import { Plan, PlanRun, Reference, Step, When } from "effect-emissary/plan"

import { ScriptedModel } from "effect-emissary/testing"

import { answered, around, asks, json, noted } from "./nested.ts"
import { applyAll, gate, journal, log, planOf } from "./support.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { bare, decide } from "../decisions.ts"

const Send = Tool.make("send", {
  parameters: Schema.Struct({ input: Schema.String }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Send)

/** The handler of that tool, which notes its calls. */
const sending = () => {
  const sent: Array<string> = []
  return { sent, handlers: toolkit.toLayer({ send: ({ input }) => Effect.sync(() => String(sent.push(input))) }) }
}

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

/** A step that waits for a decision each time. */
const waitsEach = (name: string, ran: Array<string>) =>
  Step.make(name, {
    target: ({ decision, task }) => {
      ran.push(name)
      return decision === undefined ? Step.pause(`${name} waits`) : Effect.succeed(`${name}(${task})`)
    }
  })

/** A plan of one step that waits once. */
const gated = Effect.gen(function* () {
  const ran: Array<string> = []
  return { ran, bound: yield* planOf([waitsOnce("gate", ran)]) }
})

/** Approves what steps ask for. */
const approves = ({ requests }: { readonly requests: ReadonlyArray<Run.Request> }, name = "gate") => ({
  decisions: requests.flatMap((request) => (request.name === name ? [{ ...request, approved: true }] : []))
})

/** A run that waits. */
const paused = <A>(result: Agent.Result<A>) => {
  assert(result.outcome === "AwaitingApproval")
  return result
}

describe("approvals and pauses inside plans", () => {
  test("PLAN-8 a pause of a function is a request under its step; approved, the step runs again", function* () {
    const { ran, fnStep } = log()
    const bound = yield* planOf([fnStep("a"), waitsOnce("gate", ran), fnStep("b")])
    const outer = around(bound)
    const done = yield* Effect.gen(function* () {
      const waiting = paused(yield* outer.run("hello"))
      const [{ callId, digest: _, ...request }] = waiting.requests
      assert.match(callId, /^gate:2@run_/)
      assert.deepStrictEqual(request, {
        _tag: "Pause",
        name: "gate",
        arguments: { reason: "gate waits" },
        path: ["c1"]
      })
      const same = yield* outer.resume(yield* json(waiting.state))
      assert.strictEqual(same.outcome, "AwaitingApproval")
      assert.deepStrictEqual(ran, ["a", "gate"])
      return yield* outer.resume(yield* json(same.state), approves(waiting))
    }).pipe(answered(asks, { text: "done" }))
    assert.strictEqual(done.text, "done")
    assert.include(JSON.stringify(Conversation.transcript(done.conversation)), "b(gate(a(go)))")
    assert.deepStrictEqual(ran, ["a", "gate", "gate", "b"])
  })

  test("PLAN-8 a pause that is denied fails its step, and the outer model reads the failure", function* () {
    const { ran, fnStep } = log()
    const bound = yield* planOf([waitsOnce("gate", ran), fnStep("b")])
    const outer = around(bound)
    const done = yield* Effect.gen(function* () {
      const { requests, state } = paused(yield* outer.run("hello"))
      return yield* outer.resume(state, { decisions: [{ ...requests[0], approved: false, reason: "no" }] })
    }).pipe(answered(asks, { expect: { toolResult: "failed with Denied" }, text: "sorry" }))
    assert.strictEqual(done.text, "sorry")
    assert.deepStrictEqual(ran, ["gate"])
    ran.length = 0
    const waiting = yield* bound.run("hello")
    const denied = yield* Effect.flip(bound.resume(waiting.state, { decisions: decide(waiting.state, false) }))
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
      Plan.make("plan", [
        Step.make("mail", { target: "send", parallel: true }),
        waitsOnce("y", ran, { parallel: true }),
        fnStep("z", { parallel: true })
      ]),
      (plan) => Plan.bind(plan, { toolkit })
    ).pipe(Effect.provide(handlers))
    const waiting = yield* bound.run("go")
    assert(waiting.outcome === "AwaitingApproval")
    assert.sameDeepMembers(bare(waiting.requests), [
      { _tag: "Approval", callId: "mail:1", name: "send", arguments: { input: "go" } },
      { _tag: "Pause", callId: "y:1", name: "y", arguments: { reason: "y waits" } }
    ])
    assert.notInclude(ran, "send")
    const half = yield* bound.resume(yield* json(waiting.state), approves(waiting, "y"))
    assert(half.outcome === "AwaitingApproval")
    assert.deepStrictEqual(pluck(half.requests, "callId"), ["mail:1"])
    const done = yield* bound.resume(yield* json(half.state), approves(half, "send"))
    assert.strictEqual(done.outcome, "Completed")
    assert.deepStrictEqual([...ran].sort(), ["send", "y", "y", "z"])
  })

  test("TRUST-1 a tool step runs the call that was approved, whatever its references read by then; killed in the call it asks again", function* () {
    const sent: Array<string> = []
    const handlers = toolkit.toLayer({ send: ({ input }) => Effect.sync(() => String(sent.push(input))) })
    let note = "alice"
    const memories = { notes: { text: Effect.sync(() => note) } }
    const plan = yield* Plan.make("plan", [Step.make("mail", { target: "send", task: Reference.fromMemory("notes") })])
    const bound = yield* Effect.provide(Plan.bind(plan, { toolkit, memories }), handlers)
    const waiting = yield* endsAs("Paused", Plan.run(bound, "go"))
    assert.deepStrictEqual(pluck(waiting.requests, "arguments"), [{ input: "alice" }])
    note = "mallory"
    const { batches, write } = journal()
    const decisions = waiting.requests.filter(Run.isApprovable).map(Run.approve)
    yield* endsAs("Completed", Plan.resume(bound, waiting.state, { decisions, journal: write }))
    const events = batches.flat()
    for (let length = 1; length < events.length - 1; length++) {
      const cut = Result.getOrThrow(applyAll(waiting.state, events.slice(0, length)))
      const kept = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(cut))
      if (pluck(events.slice(0, length), "_tag")?.includes("StepStarted")) {
        const { requests } = yield* endsAs("Paused", Plan.resume(bound, kept))
        assert.deepStrictEqual(pluck(requests, "callId"), ["mail:1:2"])
      } else yield* endsAs("Completed", Plan.resume(bound, kept))
    }
    assert.deepStrictEqual(sent, ["alice", "alice", "alice"])
  })

  test("TRUST-1 the start of a call that was approved is journaled before the call", function* () {
    const { batches, write } = journal()
    const before: Array<string> = []
    const send = () => Effect.sync(() => String(before.push(...batches.flat().map(({ _tag }) => _tag))))
    const plan = yield* Plan.make("plan", [Step.make("mail", { target: "send" })])
    const bound = yield* Effect.provide(Plan.bind(plan, { toolkit }), toolkit.toLayer({ send }))
    const { state } = yield* endsAs("Paused", Plan.run(bound, "go"))
    yield* endsAs("Completed", Plan.resume(bound, state, { decisions: decide(state), journal: write }))
    assert.deepStrictEqual(before, ["StepDecided", "PlanResumed", "StepStarted"])
  })

  test("TRUST-1 a decision that is delivered twice does not approve the next turn, of a tool or a function", function* () {
    const sent: Array<string> = []
    const handlers = toolkit.toLayer({ send: ({ input }) => Effect.sync(() => String(sent.push(input))) })
    const asks = Step.make("mail", {
      target: ({ decision, task }) =>
        decision === undefined ? Step.pause(`send ${task}?`) : Effect.sync(() => String(sent.push(task)))
    })
    for (const mail of [Step.make("mail", { target: "send" }), asks]) {
      let turn = 0
      const prepare = Step.make("prepare", { target: () => Effect.sync(() => `bill ${++turn}`) })
      const again = Step.make("again", {
        target: ({ task }) => Effect.succeed(task),
        routes: [["prepare", When.always]]
      })
      const plan = yield* Plan.make("plan", [prepare, mail, again])
      const bound = yield* Effect.provide(Plan.bind(plan, { toolkit }), handlers)
      const first = yield* endsAs("Paused", Plan.run(bound, "go"))
      const decisions = decide(first.state)
      assert.deepStrictEqual(pluck(decisions, "callId"), ["mail:2"])
      const second = yield* endsAs("Paused", Plan.resume(bound, first.state, { decisions }))
      assert.deepStrictEqual(pluck(second.requests, "callId"), ["mail:5"])
      yield* failsFor("InvalidDecision", Plan.resume(bound, second.state, { decisions }))
      assert.deepStrictEqual(sent.splice(0), ["bill 1"])
    }
  })

  test("TRUST-1 a step that asks for the same keeps its id; what it asks for next in its turn has an id of its own", function* () {
    let amount = 1
    const bound = yield* planOf([
      Step.make("pay", {
        target: ({ decision }) => (decision && amount > 2 ? Effect.fail("later") : Step.pause(`pay ${amount}`))
      })
    ])
    const first = yield* endsAs("Paused", Plan.run(bound, "go"))
    const idsOf = ({ requests }: typeof first) => pluck(requests, "callId")
    const same = yield* endsAs("Paused", Plan.resume(bound, first.state))
    assert.deepStrictEqual([idsOf(first), idsOf(same)], [["pay:1"], ["pay:1"]])
    amount = 2
    const other = yield* endsAs("Paused", Plan.resume(bound, same.state))
    assert.deepStrictEqual(idsOf(other), ["pay:1:2"])
    yield* failsFor("InvalidDecision", Plan.resume(bound, other.state, { decisions: decide(first.state) }))
    // Decided, it asks for the same again: that is another decision
    const decisions = decide(other.state)
    const decided = yield* endsAs("Paused", Plan.resume(bound, other.state, { decisions }))
    assert.deepStrictEqual(idsOf(decided), ["pay:1:3"])
    // So is the same after a failure
    amount = 3
    const failed = yield* Effect.flip(Plan.resume(bound, decided.state, { decisions: decide(decided.state) }))
    assert(failed.state !== undefined)
    amount = 2
    assert.deepStrictEqual(idsOf(yield* endsAs("Paused", Plan.resume(bound, failed.state))), ["pay:1:4"])
  })

  test("TRUST-1 a decision about the call of an agent does not count for the same call in the next turn of its step", function* () {
    const { handlers, sent } = sending()
    const agent = Agent.make("mailer", { toolkit })
    const model = ScriptedModel.layer(({ messages }) =>
      messages.at(-1)?.role === "tool"
        ? { text: "sent" }
        : { toolCalls: [{ id: "c1", name: "send", params: { input: "bill" } }] }
    )
    yield* Effect.gen(function* () {
      const mail = Step.make("mail", { target: agent, task: Reference.fromStart, routes: [["mail", When.always]] })
      const bound = yield* Plan.bind(yield* Plan.make("plan", [mail], { maxIterations: 4 }))
      const first = yield* endsAs("Paused", Plan.run(bound, "go"))
      const decisions = decide(first.state)
      const second = yield* endsAs("Paused", Plan.resume(bound, first.state, { decisions }))
      assert.deepStrictEqual(bare(second.requests), bare(first.requests))
      assert.notDeepEqual(second.requests, first.requests)
      const error = yield* failsFor("InvalidDecision", Plan.resume(bound, second.state, { decisions }))
      assert.strictEqual(error.reason.problem, "changed")
      assert.deepStrictEqual(sent, ["bill"])
    }).pipe(Effect.provide([handlers, model]))
  })

  test("TRUST-1 a decision about one message to a plan that is an agent does not count for the next", function* () {
    const { ran } = log()
    const bound = yield* planOf([waitsEach("gate", ran)])
    const first = paused(yield* bound.run("hello"))
    const decisions = decide(first.state)
    const done = yield* endsAs("Completed", bound.resume(first.state, { decisions }))
    const second = paused(yield* bound.resume(done.state, { input: "hello" }))
    assert.deepStrictEqual(bare(second.requests), bare(first.requests))
    const error = yield* failsFor("InvalidDecision", bound.resume(second.state, { decisions }))
    assert.strictEqual(error.reason.problem, "changed")
    yield* endsAs("Completed", bound.resume(second.state, { decisions: decide(second.state) }))
  })

  test("TRUST-1 a step that was approved asks again when its tool has another contract by then", function* () {
    const { handlers, sent } = sending()
    const plan = yield* Plan.make("plan", [Step.make("mail", { target: "send" })])
    const bound = yield* Effect.provide(Plan.bind(plan, { toolkit }), handlers)
    const { state } = yield* endsAs("Paused", Plan.run(bound, "go"))
    const edited = Toolkit.make(
      Tool.make("send", {
        parameters: Schema.Struct({
          input: Schema.String,
          to: Schema.optionalKey(Schema.String.annotate({ default: "all" }))
        }),
        success: Schema.String,
        needsApproval: true
      })
    )
    const editedHandlers = edited.toLayer({
      send: ({ input, to }) => Effect.sync(() => String(sent.push(`${input} to ${to}`)))
    })
    const rebound = yield* Effect.provide(Plan.bind(plan, { toolkit: edited }), editedHandlers)
    const again = yield* endsAs("Paused", Plan.resume(rebound, state, { decisions: decide(state) }))
    assert.deepStrictEqual(bare(again.requests), [
      { _tag: "Approval", callId: "mail:1:2", name: "send", arguments: { input: "go", to: "all" } }
    ])
    assert.deepStrictEqual(sent, [])
    yield* endsAs("Completed", Plan.resume(rebound, again.state, { decisions: decide(again.state) }))
    assert.deepStrictEqual(sent, ["go to all"])
  })

  test("TRUST-1 a decision about a call counts for one attempt: a step with retries asks before each of them", function* () {
    const sent: Array<string> = []
    const handlers = toolkit.toLayer({
      send: ({ input }) => Effect.suspend(() => (sent.push(input) < 3 ? Effect.die("cut") : Effect.succeed("sent")))
    })
    const plan = yield* Plan.make("plan", [
      Step.make("mail", { target: "send", retry: { times: 5, delay: "1 second" } })
    ])
    const bound = yield* Effect.provide(Plan.bind(plan, { toolkit }), handlers)
    let { state } = yield* endsAs("Paused", Plan.run(bound, "go"))
    for (const callId of ["mail:1:2", "mail:1:3"]) {
      const decisions = decide(state)
      const resuming = yield* Effect.forkChild(Plan.resume(bound, state, { decisions }))
      yield* TestClock.adjust("1 minute")
      const again = yield* endsAs("Paused", Fiber.join(resuming))
      assert.deepStrictEqual(pluck(again.requests, "callId"), [callId])
      yield* failsFor("InvalidDecision", Plan.resume(bound, again.state, { decisions }))
      state = again.state
    }
    assert.deepStrictEqual(sent, ["go", "go"])
    yield* endsAs("Completed", Plan.resume(bound, state, { decisions: decide(state) }))
    assert.deepStrictEqual(sent, ["go", "go", "go"])
  })

  test("TRUST-1 a decision about a step that has expired is refused, and a step that was approved until then asks again", function* () {
    const { handlers, sent } = sending()
    const asks = Step.make("mail", {
      target: ({ decision, task }) =>
        decision === undefined ? Step.pause("send?") : Effect.sync(() => String(sent.push(task)))
    })
    for (const mail of [Step.make("mail", { target: "send" }), asks]) {
      const bound = yield* Effect.provide(Plan.bind(yield* Plan.make("plan", [mail]), { toolkit }), handlers)
      const { state } = yield* endsAs("Paused", Plan.run(bound, "go"))
      const decisions = decide(state, true, {
        decidedBy: "Ada",
        expiresAt: DateTime.add(yield* DateTime.now, { minutes: 1 })
      })
      const events = Result.getOrThrow(runTransition.plans.decide(state, decisions, yield* DateTime.now))
      const kept = yield* PlanRun.eventsCodec.decodeJson(yield* PlanRun.eventsCodec.encodeJson(events))
      assert.deepStrictEqual(kept, events)
      const { path: _, ...decision } = { path: undefined, ...decisions[0] }
      assert.deepInclude<object>(kept[0] ?? {}, { _tag: "StepDecided", ...decision })
      const approved = Result.getOrThrow(applyAll(state, kept))
      const read = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(approved))
      assert.isTrue(Equal.equals(read, approved))
      yield* TestClock.adjust("1 minute")
      const error = yield* failsFor("InvalidDecision", Plan.resume(bound, state, { decisions }))
      assert.strictEqual(error.reason.problem, "expired")
      const again = yield* endsAs("Paused", Plan.resume(bound, read))
      assert.deepStrictEqual(pluck(again.requests, "callId"), ["mail:1:2"])
      assert.deepStrictEqual(sent, [])
      yield* endsAs("Completed", Plan.resume(bound, again.state, { decisions: decide(again.state) }))
      assert.deepStrictEqual(sent.splice(0), ["go"])
    }
  })

  test("TRUST-1 a decision about a plan that is an agent expires before the plan continues: the plan asks again", function* () {
    const { ran } = log()
    const bound = yield* planOf([waitsEach("gate", ran)])
    const { state } = paused(yield* bound.run("hello"))
    const decisions = decide(state, true, { expiresAt: DateTime.add(yield* DateTime.now, { minutes: 1 }) })
    const events = Result.getOrThrow(Run.decide(state, decisions, yield* DateTime.now))
    const approved = yield* json(Result.getOrThrow(Run.applyAll(state, events)))
    yield* TestClock.adjust("1 minute")
    const again = paused(yield* bound.resume(approved))
    assert.deepStrictEqual(pluck(again.requests, "callId"), ["gate:1:2"])
    yield* endsAs("Completed", bound.resume(again.state, { decisions: decide(again.state) }))
  })

  test("TRUST-1 a step that was approved runs with the memory that it had when it asked, and its record has that", function* () {
    const { handlers, sent } = sending()
    let note = "alice"
    const memories = { notes: { text: Effect.sync(() => note) } }
    const task = Reference.fromMemory("notes")
    const asks = Step.make("mail", {
      task,
      target: ({ decision, task }) =>
        decision === undefined ? Step.pause("send?") : Effect.sync(() => String(sent.push(task)))
    })
    const agent = Agent.make("mailer", { toolkit })
    for (const [mail, again] of [
      [Step.make("mail", { task, target: "send" }), "mallory"],
      [asks, "mallory"],
      [Step.make("mail", { task, target: agent }), "alice"]
    ] as const) {
      yield* Effect.gen(function* () {
        note = "alice"
        const bound = yield* Plan.bind(yield* Plan.make("plan", [mail]), { toolkit, memories })
        const waiting = yield* endsAs("Paused", Plan.run(bound, "go"))
        note = "mallory"
        const state = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(waiting.state))
        const done = yield* endsAs("Completed", Plan.resume(bound, state, { decisions: decide(state) }))
        assert.deepStrictEqual(pluck(PlanRun.history(done.state), "task"), ["alice"])
        assert.deepStrictEqual(sent.splice(0), ["alice"])
        // Without a decision a step reads it again, and asks about that; the run of an agent has begun with the other
        const asked = yield* endsAs("Paused", Plan.resume(bound, state))
        const other = yield* endsAs("Completed", Plan.resume(bound, asked.state, { decisions: decide(asked.state) }))
        assert.deepStrictEqual(pluck(PlanRun.history(other.state), "task"), [again])
        assert.deepStrictEqual(sent.splice(0), [again])
        const stale = Plan.resume(bound, asked.state, { decisions: decide(state) })
        if (again === "mallory") yield* failsFor("InvalidDecision", stale)
      }).pipe(
        Effect.provide([
          handlers,
          ScriptedModel.layer(({ messages }) =>
            messages.at(-1)?.role === "tool"
              ? { text: "sent" }
              : { toolCalls: [{ id: "c1", name: "send", params: { input: messages.at(-1)?.text ?? "" } }] }
          )
        ])
      )
    }
  })

  test("TRUST-1 a nested plan that starts again asks under other ids", function* () {
    const inner = yield* planOf(
      [
        Step.make("ask", {
          target: ({ decision }) => (decision === undefined ? Step.pause("sure?") : Effect.succeed("yes"))
        })
      ],
      { name: "inner" }
    )
    const again = Step.make("again", { target: ({ task }) => Effect.succeed(task), routes: [["nest", When.always]] })
    const bound = yield* planOf([Step.make("nest", { target: inner }), again])
    const first = yield* endsAs("Paused", Plan.run(bound, "go"))
    const decisions = decide(first.state)
    const second = yield* endsAs("Paused", Plan.resume(bound, first.state, { decisions }))
    yield* failsFor("InvalidDecision", Plan.resume(bound, second.state, { decisions }))
  })

  test("PLAN-8 a decision that was recorded before a kill is not asked for again", function* () {
    const { bound, ran } = yield* gated
    const { requests, state } = paused(yield* bound.run("go"))
    const { events, onEvent } = yield* noted
    yield* bound.resume(state, { ...approves({ requests }), onEvent })
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
    const { requests, state } = paused(yield* bound.run("go"))
    const decided = Run.decide(state, approves({ requests }).decisions, yield* DateTime.now)
    const after = Result.getOrThrow(Run.applyAll(state, Result.getOrThrow(decided)))
    assert.deepStrictEqual(Run.requests(after), [])
    assert.strictEqual((yield* bound.resume(yield* json(after))).text, "gate(go)")
  })

  test("PLAN-8 the interruption of the outer agent reaches the step, and all of it can be resumed", function* () {
    const { fn, ran, fnStep } = log()
    const { begun, hook, open } = yield* gate
    const hold = Step.make("hold", { target: fn("hold", ({ task }) => Effect.as(hook, task)) })
    const bound = yield* planOf([fnStep("a"), hold])
    const { onEvent, states } = yield* noted
    const running = yield* Effect.forkChild(answered(asks)(around(bound).run("hello", { onEvent })))
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
    const level0 = yield* planOf([fnStep("a")])
    const level1 = yield* planOf([Step.make("in", { target: level0 })])
    const outer = around(level1)
    const run = (maxDepth: number) => answered(asks, { text: "done" })(outer.run("x", { maxDepth }))
    assert.strictEqual((yield* run(2)).text, "done")
    for (const maxDepth of [1, 0]) assert.strictEqual((yield* Effect.flip(run(maxDepth))).reason._tag, "MaxDepth")
  })
})
