/** MONEY-2: budgets of sessions and of their turns, in memory, on SQLite and on a fleet. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, Run, VersionedStore } from "effect-emissary"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(
  Tool.make("work", { success: Schema.String }),
  Tool.make("pay", { success: Schema.String, needsApproval: true })
)
const agent = Agent.make("desk", { toolkit })
const usage = { inputTokens: 100, outputTokens: 10 }

const script: ScriptedModel.TurnFunction = (request) => {
  const asked = t.asked(request)
  const isDone = request.messages.at(-1)?.role === "tool"
  if (asked === "loop") return { toolCalls: [{ name: "work" }], usage }
  return ["work", "pay"].includes(asked) && !isDone
    ? { toolCalls: [{ name: asked }], usage }
    : { text: `re: ${asked}`, usage }
}

const handlers = toolkit.toLayer({ work: () => Effect.succeed("worked"), pay: () => Effect.succeed("paid") })

const below = Layer.mergeAll(handlers, ScriptedModel.layer(script))

const sqlite = Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))

const options = { budget: { modelCalls: 6, toolCalls: 50 }, run: { budget: { modelCalls: 3 } } }

const layersOf = (options: Pick<Session.Options, "budget" | "run">) =>
  [
    ["in memory", Session.layer([agent], options).pipe(Layer.provide([below, VersionedStore.layerMemory]))],
    [
      "on SQLite",
      Session.layer([agent], options).pipe(
        Layer.provide([below, Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))])
      )
    ],
    [
      "on a fleet",
      ClusterSession.layer([agent], options).pipe(
        Layer.provide([below, Layer.mergeAll(TestRunner.layer, VersionedStore.layerMemory, sqlite)])
      )
    ]
  ] as const

const layers = layersOf(options)

const leftOf = (id: string) =>
  Effect.map(Session.state(id), (state) =>
    Option.match(state, {
      onNone: () => [],
      onSome: ({ budget = [] }) => budget.map(({ left, scope }) => [scope, left])
    })
  )

const outcomeOf = ({ cursor: _, sequence: __, text: ___, ...end }: Session.Answer): object => end

describe.each(layers)("MONEY-2 budgets of sessions, %s", (_, layer) => {
  it.live("a message has a budget of its own turn, within the budget of the layer", () =>
    Effect.gen(function* () {
      const over = (limit: number) =>
        ({ outcome: "BudgetExceeded", scope: "run", unit: "modelCalls", limit, used: limit }) as const
      const small = { budget: { modelCalls: 1, outputTokens: 500, time: "1 hour" } } as const
      assert.deepStrictEqual(outcomeOf(yield* Session.turn("m", "work", small)), over(1))
      const [, left] = (yield* leftOf("m")).at(-1) ?? []
      assert.deepInclude(left, { modelCalls: 0, outputTokens: 490 })
      // The next one has the budget of the layer, which a larger budget of a message does not lift
      assert.strictEqual((yield* Session.turn("m", "next")).text, "re: next")
      assert.deepStrictEqual(outcomeOf(yield* Session.turn("m", "loop", { budget: { modelCalls: 9 } })), over(3))
    }).pipe(Effect.provide(layer))
  )

  it.live("a budget that is none is refused before the message is stored", () =>
    Effect.gen(function* () {
      for (const budget of [{ modelCalls: -1 }, { money: Number.NaN }]) {
        const error = yield* Effect.flip(Session.send("n", "x", { budget }))
        assert.strictEqual(error.reason._tag, "ArgumentInvalid")
      }
      assert(Option.isNone(yield* Session.state("n")))
    }).pipe(Effect.provide(layer))
  )

  it.live("a turn has a budget of its own, and the session has one for all of its turns", () =>
    Effect.gen(function* () {
      yield* Session.turn("a", "work")
      assert.deepStrictEqual(yield* leftOf("a"), [
        ["session", { modelCalls: 4, toolCalls: 49 }],
        ["run", { modelCalls: 1 }]
      ])
      const looping = yield* Session.turn("a", "loop")
      const ofTurn = { outcome: "BudgetExceeded", scope: "run", unit: "modelCalls", limit: 3, used: 3 } as const
      assert.deepStrictEqual(outcomeOf(looping), ofTurn)
      const last = yield* Session.turn("a", "more")
      assert.strictEqual(last.text, "re: more")
      const over = { outcome: "BudgetExceeded", scope: "session", unit: "modelCalls", limit: 6, used: 6 } as const
      assert.deepStrictEqual(outcomeOf(yield* Session.turn("a", "again")), over)
      const events = yield* Session.events("a").pipe(
        Stream.filterMap(ChatEvent.project()),
        Stream.map(({ event }) => event),
        Stream.takeUntil((event) => event._tag === "TurnFinished" && event.budget?.scope === "session"),
        Stream.runCollect
      )
      const near = events.flatMap((event) => (event._tag === "BudgetNeared" ? [`${event.scope} ${event.used}`] : []))
      assert.deepStrictEqual(near, ["session 5", "run 3"])
    }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
  )

  it.live("a turn that continues with a decision has what was left of its budget", () =>
    Effect.gen(function* () {
      const waiting = yield* Session.turn("b", "pay")
      if (waiting.outcome !== "AwaitingApproval") return assert.fail("no request")
      const decisions = waiting.requests.filter(Run.isApprovable).map(Run.approve)
      yield* Session.await("b", yield* Session.decide("b", decisions))
      assert.deepStrictEqual(yield* leftOf("b"), [
        ["session", { modelCalls: 4, toolCalls: 49 }],
        ["run", { modelCalls: 1 }]
      ])
    }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
  )
})

const asking = layersOf({
  budget: { modelCalls: 5, onExceeded: "ask" },
  run: { budget: { modelCalls: 2, onExceeded: "ask" }, repeatedCalls: "unlimited" }
})

describe.each(asking)("MONEY-2 budgets of sessions that ask, %s", (_, layer) => {
  const question = (answer: Session.Answer) => {
    const [request] = answer.outcome === "AwaitingApproval" ? answer.requests : []
    return request?._tag === "Question" ? request : assert.fail(JSON.stringify(answer))
  }
  const decide = (id: string, answer: Session.Answer, value: Schema.Json) =>
    Effect.flatMap(Session.decide(id, [Run.answer(question(answer), value)]), (receipt) => Session.await(id, receipt))

  it.live("a turn waits with a question, and continues with as much again or ends", () =>
    Effect.gen(function* () {
      const first = yield* Session.turn("c", "loop")
      assert.match(question(first).arguments.question, /this run is used up: 2 model calls/)
      const state = Option.getOrThrow(yield* Session.state("c"))
      assert.deepStrictEqual([state.status, state.requests.map(({ name }) => name)], ["waiting", ["budget"]])
      const second = yield* decide("c", first, { choice: "continue" })
      assert.match(question(second).arguments.question, /this run is used up: 4 model calls/)
      const third = yield* decide("c", second, { choice: "continue" })
      assert.match(question(third).arguments.question, /this session is used up: 5 model calls/)
      assert.strictEqual((yield* decide("c", third, { choice: "stop" })).outcome, "BudgetExceeded")
      assert.deepStrictEqual(yield* leftOf("c"), [
        ["session", { modelCalls: 0 }],
        ["run", { modelCalls: 1 }]
      ])
      // The next turn asks for the budget of the session again, whose limit stays raised
      const next = yield* Session.turn("c", "hi")
      assert.strictEqual((yield* decide("c", next, { choice: "continue", more: 2 })).text, "re: hi")
      assert.strictEqual((yield* Session.turn("c", "ho")).text, "re: ho")
      assert.match(question(yield* Session.turn("c", "hu")).arguments.question, /7 model calls/)
    }).pipe(Effect.provide(layer), Effect.timeout("20 seconds"))
  )
})
