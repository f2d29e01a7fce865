/** PLAN-8: plans in agents, agents in plans, plans in plans. */
import { assert, describe } from "@effect/vitest"
import { Effect, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Run, type AgentEvent } from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { bind, completed, log } from "./support.ts"
import { test } from "../test.ts"
import * as runTransition from "#src/agent/internal/runTransition.ts"

const Pay = Tool.make("pay", {
  description: "Pays",
  parameters: Schema.Struct({ amount: Schema.Finite }),
  success: Schema.String,
  needsApproval: true
})
const toolkit = Toolkit.make(Pay)

const usage = { inputTokens: 10, outputTokens: 1 }
const calls = (id: string, name: string, params: Schema.Json): ScriptedModel.Turn => ({
  toolCalls: [{ id, name, params }],
  usage
})
const says = (text: string): ScriptedModel.Turn => ({ text, usage })

const json = (state: Run.State) => Effect.flatMap(Run.stateCodec.encodeJson(state), Run.stateCodec.decodeJson)

/**
 * A clerk (agent) with a plan as a tool; a step of it is a plan, whose step is a cashier
 * (agent) with a tool that needs approval: plan in plan in agent in plan.
 */
const nest = Effect.gen(function* () {
  const { ran, fnStep } = log()
  const handlers = toolkit.toLayer({
    pay: ({ amount }) =>
      Effect.sync(() => {
        ran.push(`pay ${amount}`)
        return `paid ${amount}`
      })
  })
  const cashier = Agent.make("cashier", { toolkit })
  const inner = yield* bind(
    Plan.make({ name: "inner" }, fnStep("look"), Step.make("till", { target: cashier }), fnStep("receipt"))
  )
  const middle = yield* bind(
    Plan.make({ name: "middle" }, fnStep("before"), Step.make("checkout", { target: inner }), fnStep("after"))
  )
  const clerk = Agent.make("clerk", { toolkit: [Agent.asTool(middle, { name: "shop", description: "Shops" })] })
  const outer = yield* bind(
    Plan.make({ name: "outer" }, fnStep("greet"), Step.make("desk", { target: clerk }), fnStep("bye"))
  )
  return { ran, handlers, outer, clerk }
})

const script: ReadonlyArray<ScriptedModel.Turn> = [
  calls("c1", "shop", { input: "bread" }),
  calls("p1", "pay", { amount: 5 }),
  says("It is paid."),
  says("Here is your bread.")
]

/** The same answers, whichever of them are asked for again. */
const answering: ScriptedModel.TurnFunction = ({ messages, tools }) => {
  const answered = messages.some(({ role }) => role === "tool")
  return tools.some(({ name }) => name === "pay")
    ? answered
      ? says("It is paid.")
      : calls("p1", "pay", { amount: 5 })
    : answered
      ? says("Here is your bread.")
      : calls("c1", "shop", { input: "bread" })
}

const once = ["greet", "before", "look", "pay 5", "receipt", "after", "bye"]
const path = ["desk", "c1", "checkout", "till"]
const total = { inputTokens: 40, outputTokens: 4 }

describe("plans and agents inside each other", () => {
  test("PLAN-8 an approval at the bottom of plan, agent, plan, plan suspends all of it, and all of it resumes", function* () {
    const { handlers, outer, ran } = yield* nest
    const model = ScriptedModel.layer(script)
    const [waiting, done] = yield* Effect.gen(function* () {
      const waiting = yield* outer.run("hello")
      assert(waiting.outcome === "AwaitingApproval")
      assert.deepStrictEqual(waiting.requests, [{ callId: "p1", name: "pay", arguments: { amount: 5 }, path }])
      assert.deepStrictEqual(ran, ["greet", "before", "look"])
      const same = yield* outer.resume(yield* json(waiting.state))
      assert(same.outcome === "AwaitingApproval")
      assert.deepStrictEqual(same.requests, waiting.requests)
      const done = yield* outer.resume(yield* json(same.state), { decisions: [{ callId: "p1", approved: true }] })
      return [waiting, done] as const
    }).pipe(Effect.provide([handlers, model]))
    assert.strictEqual(done.text, "bye(Here is your bread.)")
    assert.deepStrictEqual(ran, once)
    assert.deepStrictEqual(waiting.usage, { inputTokens: 20, outputTokens: 2 })
    assert.deepStrictEqual(done.usage, total)
  })

  test("PLAN-8 the same nest, run as a plan: the same request, the same end", function* () {
    const { handlers, outer, ran } = yield* nest
    const done = yield* Effect.gen(function* () {
      const waiting = yield* Plan.run(outer, "hello")
      assert(waiting.outcome === "Paused")
      assert.deepStrictEqual(waiting.requests, [{ callId: "p1", name: "pay", arguments: { amount: 5 }, path }])
      const state = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(waiting.state))
      return yield* Plan.resume(outer, state, { decisions: [{ callId: "p1", approved: true, path }] })
    }).pipe(Effect.provide([handlers, ScriptedModel.layer(script)]))
    assert.strictEqual(completed(done).text, "bye(Here is your bread.)")
    assert.deepStrictEqual(ran, once)
    assert.deepStrictEqual(done.usage, total)
  })

  test("PLAN-8 a denied call at the bottom: the model reads it, nothing is paid", function* () {
    const { handlers, outer, ran } = yield* nest
    const model = ScriptedModel.layer([
      ...script.slice(0, 2),
      { ...says("Too dear."), expect: { toolResult: "no money" } },
      says("No bread.")
    ])
    const done = yield* Effect.gen(function* () {
      const waiting = yield* outer.run("hello")
      return yield* outer.resume(waiting.state, { decisions: [{ callId: "p1", approved: false, reason: "no money" }] })
    }).pipe(Effect.provide([handlers, model]))
    assert.strictEqual(done.text, "bye(No bread.)")
    assert.deepStrictEqual(
      ran,
      once.filter((name) => name !== "pay 5")
    )
  })

  test("PLAN-8 L5 run and stream produce the same transcript; events of agents come with their path", function* () {
    const decisions = [{ callId: "p1", approved: true }]
    const one = yield* nest
    const ran = yield* Effect.flatMap(one.outer.run("hello"), ({ state }) =>
      one.outer.resume(state, { decisions })
    ).pipe(Effect.provide([one.handlers, ScriptedModel.layer(script)]))
    const other = yield* nest
    const events = yield* Effect.gen(function* () {
      const first = yield* Stream.runCollect(other.outer.stream("hello"))
      const last = first.at(-1)
      assert(last?._tag === "RunFinished")
      return [...first, ...(yield* Stream.runCollect(other.outer.resumeStream(last.result.state, { decisions })))]
    }).pipe(Effect.provide([other.handlers, ScriptedModel.layer(script)]))
    const last = events.at(-1)
    assert(last?._tag === "RunFinished")
    assert.deepStrictEqual(Conversation.transcript(last.result.conversation), Conversation.transcript(ran.conversation))
    assert.deepStrictEqual(other.ran, one.ran)
    assert.deepStrictEqual(last.result.usage, ran.usage)
    const text = (from: ReadonlyArray<readonly [string, AgentEvent.AgentEvent<unknown>]>, at: string) =>
      from.flatMap(([path, event]) => (path === at && event._tag === "TextDelta" ? [event.delta] : [])).join("")
    const flat = (
      path: ReadonlyArray<string>,
      event: AgentEvent.AgentEvent<unknown>
    ): readonly [string, AgentEvent.AgentEvent<unknown>] =>
      event._tag === "Child" ? flat([...path, event.callId], event.event) : [path.join("/"), event]
    const all = events.map((event) => flat([], event))
    assert.strictEqual(text(all, "desk/c1/checkout/till"), "It is paid.")
    assert.strictEqual(text(all, "desk"), "Here is your bread.")
    assert.strictEqual(text(all, ""), "bye(Here is your bread.)")
  })

  test("PLAN-8 an agent's journal that is cut off in the middle of the plan is resumed, and nothing finished runs twice", function* () {
    const first = yield* nest
    const events: Array<Run.Event> = []
    const onState = (_: Run.State, event: Run.Event) => Effect.sync(() => void events.push(event))
    yield* Effect.gen(function* () {
      const { state } = yield* first.clerk.run("hello", { onState })
      yield* first.clerk.resume(state, { decisions: [{ callId: "p1", approved: true }], onState })
    }).pipe(Effect.provide([first.handlers, ScriptedModel.layer(script)]))
    let compared = 0
    for (let length = 3; length < events.length; length++) {
      const state = Result.getOrThrow(Run.fold(events.slice(0, length)))
      const { clerk, handlers, ran } = yield* nest
      const done = yield* Effect.gen(function* () {
        const again = yield* clerk.resume(yield* json(state))
        return again.outcome === "AwaitingApproval"
          ? yield* clerk.resume(again.state, { decisions: [{ callId: "p1", approved: true }] })
          : again
      }).pipe(Effect.provide([handlers, ScriptedModel.layer(answering)]))
      assert.strictEqual(done.outcome, "Completed", `after ${length} events`)
      assert.strictEqual(done.text, "Here is your bread.")
      const finished = finishedIn(state)
      for (const name of finished) assert.notInclude(ran, name, `after ${length} events`)
      assert.strictEqual(new Set(ran).size, ran.length)
      if (finished.length > 0) compared += 1
    }
    assert.isAbove(compared, 10)
  })
})

/** The functions and calls that have finished in a state, or begun where they must not begin again. */
const finishedIn = (state: Run.State): ReadonlyArray<string> => {
  const call = runTransition.openCall(state, "c1")
  const progress = call?.status._tag === "Started" ? call.status.child?.progress : undefined
  const text = JSON.stringify(Array.from(progress?.facts ?? []))
  return [
    ...["before", "look", "receipt", "after"].filter((step) => text.includes(`"record":{"step":"${step}"`)),
    ...(/"ToolStarted","at":"[^"]*","callId":"p1"/.test(text) ? ["pay 5"] : [])
  ]
}
