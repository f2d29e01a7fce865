/** MONEY-7: a session whose conversation is passed on from one agent to another one. */
import { assert, describe } from "@effect/vitest"
import { Effect, Layer, Result, Schema, Stream } from "effect"
import { Agent } from "effect-emissary"
import { SqliteRunner } from "effect-emissary/node"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { test } from "../test.ts"
import * as t from "./sessions.ts"

const reason = Schema.Struct({ invoice: Schema.String })

const billing = Agent.make("billing", { instructions: "You settle invoices.", toolkit: [Agent.handoff("triage")] })

const triage = Agent.make("triage", {
  instructions: "Pass each customer on.",
  toolkit: [Agent.handoff(billing, { reason })]
})

/** The instructions that the model gets, and what it is asked. It passes the conversation on where it is asked to. */
const listening = () => {
  const requests: Array<string> = []
  const model: ScriptedModel.TurnFunction = (request) => {
    const [system] = request.messages
    const others = request.messages.filter(({ role }) => role === "system")
    requests.push(`${others.length} ${system?.text} ${t.asked(request)}`)
    const [, to] = /^to (\w+)$/.exec(t.asked(request)) ?? []
    const name = `transfer_to_${to}`
    return request.messages.at(-1)?.role === "user" && request.tools.some((tool) => tool.name === name)
      ? { toolCalls: [{ name, params: to === "billing" ? { invoice: "R-7" } : {} }] }
      : { text: `re: ${t.asked(request)}` }
  }
  return { requests, model: ScriptedModel.layer(model) }
}

const ask = (sessions: Session.Service, text: string, messageId?: string) =>
  Effect.provideService(
    Session.turn("a", text, { agent: "triage", ...(messageId && { messageId }) }),
    Session.Session,
    sessions
  )

describe("MONEY-7 a session that is passed on", () => {
  test.live(
    "has its next messages answered by the other agent, after each deploy, until it is passed back",
    function* () {
      const kept = yield* t.store
      const { model, requests } = listening()
      const deploy = () => t.sessionsOf(Session.layer([triage]).pipe(Layer.provide([kept, model])))
      const first = yield* deploy()
      yield* ask(first, "hello", "m1")
      assert.strictEqual((yield* t.stateOf(first, "a")).activeAgent, "triage")
      yield* ask(first, "to billing", "m2")
      const second = yield* deploy()
      assert.strictEqual((yield* t.stateOf(second, "a")).activeAgent, "billing")
      assert.strictEqual((yield* t.stateOf(second, "a")).agent, "triage")
      yield* ask(second, "and now", "m3")
      const third = yield* deploy()
      yield* ask(third, "to triage", "m4")
      assert.strictEqual((yield* t.stateOf(third, "a")).activeAgent, "triage")
      const [pass, bill] = ["1 Pass each customer on.", "1 You settle invoices."]
      assert.deepStrictEqual(requests, [
        `${pass} hello`,
        `${pass} to billing`,
        `${bill} to billing`,
        `${bill} and now`,
        `${bill} to triage`,
        `${pass} to triage`
      ])
      const result = yield* Effect.provideService(Session.result(triage, "a"), Session.Session, third)
      assert.strictEqual(result.activeAgent, "triage")
      // The message before the handoffs is answered again
      yield* third.edit("a", { messageId: "m2", input: "who is there" })
      yield* t.turns(third, "a", 5)
      assert.strictEqual(requests.at(-1), `${pass} who is there`)
      const shown = yield* t.stored(third, "a")
      const handed = shown.flatMap((entry) => {
        const event = ChatEvent.project()(entry)
        return Result.isSuccess(event) && event.success.event._tag === "HandedOff" ? [event.success.event.agent] : []
      })
      assert.deepStrictEqual(handed, ["billing", "triage"])
      assert.isFalse(JSON.stringify(shown.map((entry) => ChatEvent.project()(entry))).includes("settle invoices"))
    }
  )

  test.live("is refused by a deploy without the agent, and continues with the next one that has it", function* () {
    const kept = yield* t.store
    const { model, requests } = listening()
    const deploy = (agent: Agent.Agent<string>, options?: Session.LayerOptions) =>
      t.sessionsOf(Session.layer([agent], options).pipe(Layer.provide([kept, model])))
    const closed = Agent.make("triage", { instructions: "We are closed." })
    const first = yield* deploy(triage as unknown as Agent.Agent<string>)
    yield* ask(first, "to billing")
    const second = yield* deploy(closed as unknown as Agent.Agent<string>)
    yield* second.send("a", "lost", { messageId: "m2" })
    yield* t.turns(second, "a", 2)
    const { failure } = yield* t.stateOf(second, "a")
    assert.strictEqual(failure?.reason, "DefinitionChanged")
    assert.include(failure?.message, "/handoffs/billing")
    const third = yield* deploy(triage as unknown as Agent.Agent<string>)
    yield* t.turns(third, "a", 3)
    assert.strictEqual(requests.at(-1), "1 You settle invoices. lost")
    const options = { run: { onChange: "accept" } } as const
    const fourth = yield* deploy(closed as unknown as Agent.Agent<string>, options)
    yield* ask(fourth, "back")
    assert.strictEqual(requests.at(-1), "1 We are closed. back")
    assert.strictEqual((yield* t.stateOf(fourth, "a")).activeAgent, "triage")
  })

  test.live("is passed on on a fleet, and its page sees who answers", function* () {
    const { model, requests } = listening()
    const runner = SqliteRunner.layer({ filename: ":memory:", shardingConfig: { shardsPerGroup: 8 } })
    const sessions = yield* t.sessionsOf(ClusterSession.layer([triage]).pipe(Layer.provide([model, runner])))
    yield* ask(sessions, "to billing")
    yield* ask(sessions, "and now")
    assert.strictEqual(requests.at(-1), "1 You settle invoices. and now")
    assert.strictEqual((yield* t.stateOf(sessions, "a")).activeAgent, "billing")
    const events = yield* sessions.live("a").pipe(
      Stream.filterMap(ChatEvent.project()),
      Stream.takeUntil(({ event }) => event._tag === "TurnFinished"),
      Stream.runCollect
    )
    assert.isTrue(events.some(({ event }) => event._tag === "HandedOff" && event.agent === "billing"))
  })
})
