/** PLAN-8: plans in agents, agents in plans, plans in plans. */
import { assert, describe } from "@effect/vitest"
import { Effect, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Conversation, Run, type AgentEvent } from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { json, noted } from "./nested.ts"
import { completed, log, planOf } from "./support.ts"
import { test } from "../test.ts"
import { bare, decide } from "../decisions.ts"

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

/**
 * A clerk (agent) with a plan as a tool; a step of it is a plan, whose step is a cashier
 * (agent) with a tool that needs approval: plan in plan in agent in plan.
 */
const nest = Effect.gen(function* () {
  const { fnStep, ran } = log()
  const pay = ({ amount }: { readonly amount: number }) =>
    Effect.as(
      Effect.sync(() => ran.push(`pay ${amount}`)),
      "paid"
    )
  const cashier = Agent.make("cashier", { toolkit })
  const till = Step.make("till", { target: cashier })
  const inner = yield* planOf([fnStep("look"), till, fnStep("receipt")], { name: "inner" })
  const checkout = Step.make("checkout", { target: inner })
  const middle = yield* planOf([fnStep("before"), checkout, fnStep("after")], { name: "middle" })
  const clerk = Agent.make("clerk", { toolkit: [Agent.asTool(middle, { name: "shop", description: "Shops" })] })
  const outer = yield* planOf([fnStep("greet"), Step.make("desk", { target: clerk }), fnStep("bye")], { name: "outer" })
  const provide = (answers: ScriptedModel.TurnFunction | ReadonlyArray<ScriptedModel.Turn>) =>
    Effect.provide([toolkit.toLayer({ pay }), ScriptedModel.layer(answers)])
  return { ran, provide, outer, clerk }
})

const script: ReadonlyArray<ScriptedModel.Turn> = [
  calls("c1", "shop", { input: "bread" }),
  calls("p1", "pay", { amount: 5 }),
  says("It is paid."),
  says("Here is your bread.")
]

/** The same answers, whichever of them are asked for again. */
const answering: ScriptedModel.TurnFunction = ({ messages, tools }) => {
  const [shops = {}, pays = {}, paid = {}, sold = {}] = script
  const [first, second] = tools.some(({ name }) => name === "pay") ? [pays, paid] : [shops, sold]
  return messages.some(({ role }) => role === "tool") ? second : first
}

const once = ["greet", "before", "look", "pay 5", "receipt", "after", "bye"]
const path = ["desk", "c1", "checkout", "till"]
const total = { inputTokens: 40, outputTokens: 4 }

describe("plans and agents inside each other", () => {
  test("PLAN-8 an approval at the bottom of plan, agent, plan, plan suspends all of it, and all of it resumes", function* () {
    const { outer, provide, ran } = yield* nest
    const done = yield* Effect.gen(function* () {
      const waiting = yield* outer.run("hello")
      assert(waiting.outcome === "AwaitingApproval")
      assert.deepStrictEqual(bare(waiting.requests), [
        { _tag: "Approval", callId: "p1", name: "pay", arguments: { amount: 5 }, path }
      ])
      assert.deepStrictEqual(ran, ["greet", "before", "look"])
      assert.deepStrictEqual(waiting.usage, { inputTokens: 20, outputTokens: 2 })
      const same = yield* outer.resume(yield* json(waiting.state))
      assert(same.outcome === "AwaitingApproval")
      assert.deepStrictEqual(same.requests, waiting.requests)
      return yield* outer.resume(yield* json(same.state), { decisions: decide(waiting.state) })
    }).pipe(provide(script))
    assert.strictEqual(done.text, "bye(Here is your bread.)")
    assert.deepStrictEqual(ran, once)
    assert.deepStrictEqual(done.usage, total)
  })

  test("PLAN-8 the same nest, run as a plan: the same request, the same end", function* () {
    const { outer, provide, ran } = yield* nest
    const done = yield* Effect.gen(function* () {
      const waiting = yield* Plan.run(outer, "hello")
      assert(waiting.outcome === "Paused")
      assert.deepStrictEqual(bare(waiting.requests), [
        { _tag: "Approval", callId: "p1", name: "pay", arguments: { amount: 5 }, path }
      ])
      const state = yield* Effect.flatMap(PlanRun.stateCodec.encodeJson(waiting.state), PlanRun.stateCodec.decodeJson)
      return yield* Plan.resume(outer, state, { decisions: decide(state) })
    }).pipe(provide(script))
    assert.strictEqual(completed(done).text, "bye(Here is your bread.)")
    assert.deepStrictEqual(ran, once)
    assert.deepStrictEqual(done.usage, total)
  })

  test("PLAN-8 a denied call at the bottom: the model reads it, nothing is paid", function* () {
    const { outer, provide, ran } = yield* nest
    const denied = { ...says("Too dear."), expect: { toolResult: "no money" } }
    const done = yield* Effect.gen(function* () {
      const waiting = yield* outer.run("hello")
      return yield* outer.resume(waiting.state, {
        decisions: decide(waiting.state, false, { reason: "no money" })
      })
    }).pipe(provide([...script.slice(0, 2), denied, says("No bread.")]))
    assert.strictEqual(done.text, "bye(No bread.)")
    const unpaid = once.filter((name) => name !== "pay 5")
    assert.deepStrictEqual(ran, unpaid)
  })

  test("PLAN-8 L5 run and stream produce the same transcript; events of agents come with their path, from start to end", function* () {
    const one = yield* nest
    const ran = yield* Effect.flatMap(one.outer.run("hello"), ({ state }) =>
      one.outer.resume(state, { decisions: decide(state) })
    ).pipe(one.provide(script))
    const other = yield* nest
    const events = yield* Effect.gen(function* () {
      const first = yield* Stream.runCollect(other.outer.stream("hello"))
      const last = first.at(-1)
      assert(last?._tag === "RunFinished")
      const { state } = last.result
      return [...first, ...(yield* Stream.runCollect(other.outer.resumeStream(state, { decisions: decide(state) })))]
    }).pipe(other.provide(script))
    const last = events.at(-1)
    assert(last?._tag === "RunFinished")
    assert.deepStrictEqual(Conversation.transcript(last.result.conversation), Conversation.transcript(ran.conversation))
    assert.deepStrictEqual(other.ran, one.ran)
    assert.deepStrictEqual(last.result.usage, ran.usage)
    type At = readonly [path: string, event: AgentEvent.AgentEvent<unknown>]
    const flat = (path: ReadonlyArray<string>, event: AgentEvent.AgentEvent<unknown>): At =>
      event._tag === "Child" ? flat([...path, event.callId], event.event) : [path.join("/"), event]
    const all = events.map((event) => flat([], event))
    for (const [path, text] of [
      ["desk/c1/checkout/till", "It is paid."],
      ["desk", "Here is your bread."],
      ["", "bye(Here is your bread.)"]
    ]) {
      const there = all.flatMap(([at, event]) => (at === path ? [event] : []))
      assert.strictEqual(there.map((event) => (event._tag === "TextDelta" ? event.delta : "")).join(""), text)
      assert.strictEqual(there[0]?._tag, "RunStarted")
      assert.strictEqual(there.at(-1)?._tag, "RunFinished")
    }
  })

  test("PLAN-8 an agent's journal that is cut off in the middle of the plan is resumed, and nothing finished runs twice", function* () {
    const first = yield* nest
    const { events, onEvent } = yield* noted
    yield* Effect.flatMap(first.clerk.run("hello", { onEvent }), ({ state }) =>
      first.clerk.resume(state, { decisions: decide(state), onEvent })
    ).pipe(first.provide(script))
    let compared = 0
    for (let length = 3; length < events.length; length++) {
      const state = Result.getOrThrow(Run.fold(events.slice(0, length)))
      const { clerk, provide, ran } = yield* nest
      const done = yield* Effect.gen(function* () {
        const again = yield* clerk.resume(yield* json(state))
        const decisions = decide(again.state)
        return again.outcome === "AwaitingApproval" ? yield* clerk.resume(again.state, { decisions }) : again
      }).pipe(provide(answering))
      assert.strictEqual(done.outcome, "Completed", `after ${length} events`)
      assert.strictEqual(done.text, "Here is your bread.")
      const finished = finishedIn(events.slice(0, length))
      for (const name of finished) assert.notInclude(ran, name, `after ${length} events`)
      assert.strictEqual(new Set(ran).size, ran.length)
      if (finished.length > 0) compared += 1
    }
    assert.isAbove(compared, 10)
  })
})

/** The functions and calls that have finished in events, or begun where they must not begin again. */
const finishedIn = (events: ReadonlyArray<Run.Event>): ReadonlyArray<string> => {
  const text = JSON.stringify(events)
  return [
    ...["before", "look", "receipt", "after"].filter((step) => text.includes(`"record":{"step":"${step}"`)),
    ...(/"ToolStarted","at":"[^"]*","callId":"p1"/.test(text) ? ["pay 5"] : [])
  ]
}
