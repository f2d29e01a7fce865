/** PEOPLE-1: questions of models and handlers, and calls of a page, in memory, on SQLite and on a fleet. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { Agent, ClientTool, Question, Run, VersionedStore } from "effect-emissary"
import { ChatEvent, ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { asked } from "./sessions.ts"

const AskUser = Question.tool("ask_user", {
  description: "Asks",
  answer: Schema.Struct({ size: Schema.Literals(["S", "M"]) })
})

const Locate = ClientTool.make(Tool.make("locate", { success: Schema.Struct({ city: Schema.String }) }))

const toolkit = Toolkit.make(
  Tool.make("book", {
    parameters: Schema.Struct({ hotel: Schema.String }),
    success: Schema.String,
    failure: Question.Asked,
    needsApproval: true
  })
)

const desk = Agent.make("desk", { toolkit: [AskUser, Locate, toolkit.tools.book] })

/** A message names the tools of its answer. */
const script: ScriptedModel.TurnFunction = (request) => {
  const { messages } = request
  if (messages.at(-1)?.role === "tool") return { text: `read ${messages.at(-1)?.text}` }
  const params = { ask_user: { question: "Which size?" }, locate: {}, book: { hotel: "Inn" } }
  const calls = asked(request).split(" ")
  return {
    toolCalls: Object.entries(params).flatMap(([name, params]) => (calls.includes(name) ? [{ name, params }] : []))
  }
}

const booked: Array<string> = []

const handlers = toolkit.toLayer({
  book: ({ hotel }) =>
    Effect.gen(function* () {
      const beds = yield* Question.ask("How many beds?", Schema.Int)
      const { name } = yield* Question.ask("For whom?", Schema.Struct({ name: Schema.String }))
      booked.push(hotel)
      return `${hotel}: ${beds} beds for ${name}`
    })
})

const below = Layer.mergeAll(handlers, ScriptedModel.layer(script))

const sqlite = Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))

const layers = [
  ["in memory", Session.layer([desk]).pipe(Layer.provide([below, VersionedStore.layerMemory]))],
  [
    "on SQLite",
    Session.layer([desk]).pipe(Layer.provide([below, Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]))
  ],
  [
    "on a fleet",
    ClusterSession.layer([desk]).pipe(
      Layer.provide([below, Layer.mergeAll(TestRunner.layer, VersionedStore.layerMemory, sqlite)])
    )
  ]
] as const

const waiting = (id: string) => Effect.map(Session.state(id), (state) => Option.getOrThrow(state).requests)

const decide = (id: string, of: (request: Run.Request) => Run.Decision) =>
  Effect.gen(function* () {
    const receipt = yield* Session.decide(id, (yield* waiting(id)).map(of))
    return yield* Session.await(id, receipt)
  })

const answerWith =
  (value: Schema.Json) =>
  (request: Run.Request): Run.Decision =>
    "schema" in request ? Run.answer(request, value) : { ...Run.deny(request), approved: true }

describe.each(layers)("PEOPLE-1 questions of sessions, %s", (_, layer) => {
  it.live("an answer that does not fit leaves the question open, and of two answers the first one counts", () =>
    Effect.gen(function* () {
      yield* Session.turn("a", "ask_user locate")
      const [question, call] = yield* waiting("a")
      assert(question?._tag === "Question" && call?._tag === "Call")
      const wrong = yield* Effect.flip(Session.decide("a", [Run.answer(question, { size: "XL" })]))
      assert(wrong.reason._tag === "InvalidDecision" && wrong.reason.error.problem === "answer")
      assert.deepStrictEqual(pluck(wrong.reason.error.problems ?? [], "path"), ["/size"])
      assert.deepStrictEqual(pluck(yield* waiting("a"), "_tag"), ["Question", "Call"])
      const answers = (["S", "M"] as const).map((size) =>
        Effect.exit(Session.decide("a", [Run.answer(question, { size })]))
      )
      const ended = yield* Effect.all(answers, { concurrency: "unbounded" })
      assert.deepStrictEqual(ended.map(({ _tag }) => _tag).toSorted(), ["Failure", "Success"])
      const size = ended[0]?._tag === "Success" ? "S" : "M"
      // The page still has to make its call
      yield* Effect.repeat(Session.list({ waitsFor: "client" }), { until: ({ sessions }) => sessions.length === 1 })
      const receipt = yield* Session.decide("a", [Run.answer(call, { city: "Oslo" })])
      const { text } = yield* Session.await("a", receipt)
      assert.include(text, `"size":"${size}"`)
      assert.include(text, `"city":"Oslo"`)
      const chat = yield* Session.events("a").pipe(
        Stream.filterMap(ChatEvent.project()),
        Stream.map(({ event }) => event._tag),
        Stream.takeUntil((tag) => tag === "TurnFinished"),
        Stream.runCollect
      )
      assert.isAbove(chat.length, 3)
    }).pipe(Effect.provide(layer), Effect.timeout("30 seconds"))
  )

  it.live("a handler asks twice behind its approval, and acts once", () =>
    Effect.gen(function* () {
      booked.length = 0
      yield* Session.turn("b", "book")
      const tags: Array<string> = []
      for (const value of [null, 2, { name: "Ada" }]) {
        tags.push(...(yield* waiting("b")).map(({ _tag }) => _tag))
        yield* decide("b", answerWith(value))
      }
      const { outcome, requests } = Option.getOrThrow(yield* Session.state("b"))
      assert.deepStrictEqual([outcome, requests, tags], ["Completed", [], ["Approval", "Question", "Question"]])
      assert.deepStrictEqual(booked, ["Inn"])
    }).pipe(Effect.provide(layer), Effect.timeout("30 seconds"))
  )
})
