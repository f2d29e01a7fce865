/** PEOPLE-3: who may decide a request, until when, and what then. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Agent,
  AgentDefinition,
  ClientTool,
  Conversation,
  Message,
  Question,
  Run,
  ToolContract,
  ToolSettings,
  VersionedStore
} from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { testWith } from "../test.ts"
import * as t from "./sessions.ts"

const Size = Schema.Struct({ size: Schema.Literals(["S", "M"]) })
const toolkit = Toolkit.make(
  Tool.make("pay", { success: Schema.String, needsApproval: true }).annotate(ToolSettings.Request, {
    deciders: ["finance", "ada"],
    expiresAfter: "1 day"
  }),
  Tool.make("book", { success: Schema.String, failure: Question.Asked })
)
const asks = { expiresAfter: "1 hour", otherwise: { size: "M" } } as const
const AskUser = Question.tool("ask", { description: "Asks", answer: Size, ...asks })
const Locate = ClientTool.make(
  Tool.make("locate", { success: Schema.String }).annotate(ToolSettings.Request, {
    expiresAfter: "1 hour",
    otherwise: "Oslo"
  })
)
const desk = Agent.make("desk", { toolkit: [...Object.values(toolkit.tools), AskUser, Locate] })

const handlers = toolkit.toLayer({
  pay: () => Effect.succeed("paid"),
  book: () => Effect.map(Question.ask("Which size?", Size, asks), ({ size }) => `booked ${size}`)
})
const script: ScriptedModel.TurnFunction = ({ messages }) => {
  const last = messages.at(-1)
  const name = last?.text ?? ""
  if (last?.role === "tool") return { text: `re: ${last.text}` }
  return { toolCalls: [{ name, params: name === "ask" ? { question: "Which size?" } : {} }] }
}
const below = Layer.merge(handlers, ScriptedModel.layer(script))

const stateOf = (id: string) => Effect.map(Session.state(id), Option.getOrThrow)
const ends = (id: string) =>
  Effect.repeat(stateOf(id), { until: ({ outcome, status }) => status === "idle" && outcome === "Completed" })
const textOf = (id: string) =>
  Effect.map(Session.history(id), (history) =>
    Conversation.messages(history)
      .map((message) => Message.text(message))
      .join("\n")
  )
const eventsOf = (id: string) =>
  Effect.flatMap(stateOf(id), ({ sequence }) =>
    Stream.runCollect(Stream.takeUntil(Session.events(id), (entry) => entry.sequence >= sequence))
  )

const inSession = testWith(
  Session.layer([desk], { idleTime: "9 days" }).pipe(Layer.provide([below, VersionedStore.layerMemory]))
)

describe("PEOPLE-3 who decides", () => {
  inSession("PEOPLE-3 a caller who is none of the deciders is refused, and the request stays open", function* () {
    const asked = yield* Session.turn("a", "pay")
    assert(asked.outcome === "AwaitingApproval")
    const { requests } = yield* stateOf("a")
    assert.deepStrictEqual(requests[0]?.bounds?.deciders, ["finance", "ada"])
    const decisions = asked.requests.filter(Run.isApprovable).map((request) => Run.approve(request))
    for (const as of [[], ["staff"]]) {
      const refused = yield* Effect.flip(Session.decide("a", decisions, { as }))
      assert(refused.reason._tag === "InvalidDecision" && refused.reason.error.problem === "decider")
    }
    assert.strictEqual((yield* stateOf("a")).requests.length, 1)
    const receipt = yield* Session.decide("a", decisions, { as: ["staff", "ada"] })
    assert.strictEqual((yield* Session.await("a", receipt)).text, "re: paid")
  })

  inSession(
    "PEOPLE-3 a request without deciders is decided by each caller, and code without a name is trusted",
    function* () {
      const asked = yield* Session.turn("a", "ask")
      assert(asked.outcome === "AwaitingApproval")
      const [request] = asked.requests
      assert(request?._tag === "Question")
      yield* Session.await("a", yield* Session.decide("a", [Run.answer(request, { size: "S" })], { as: [] }))
      const pay = yield* Session.turn("a", "pay")
      assert(pay.outcome === "AwaitingApproval")
      yield* Session.await(
        "a",
        yield* Session.decide(
          "a",
          pay.requests.filter(Run.isApprovable).map((one) => Run.deny(one))
        )
      )
      assert.include((yield* stateOf("a")).outcome, "Completed")
    }
  )

  it.effect(
    "PEOPLE-3 CODEC-3 the terms travel with the agent, are in its digest, and version 1 names them as a loss",
    () =>
      Effect.gen(function* () {
        const definition = yield* AgentDefinition.codec.decode(yield* Agent.encode(desk))
        assert.deepStrictEqual(
          definition.tools.map(({ request }) => request),
          [
            { deciders: ["finance", "ada"], expiresAfter: 86_400_000 },
            undefined,
            { expiresAfter: 3_600_000, otherwise: { size: "M" } },
            { expiresAfter: 3_600_000, otherwise: "Oslo" }
          ]
        )
        const [pay] = definition.tools
        assert(pay !== undefined)
        const { request: _, ...bare } = pay
        assert.notStrictEqual(yield* ToolContract.digest(bare), pay.digest)
      }).pipe(Effect.provide(handlers))
  )

  it.effect("PEOPLE-3 a default answer that does not fit, or that no question has, is refused with the tool", () =>
    Effect.gen(function* () {
      const make = (request: NonNullable<ToolContract.ToolContract["request"]>, client?: "question") =>
        Effect.flip(
          ToolContract.make({
            name: "x",
            parameters: {},
            success: { type: "string" },
            client,
            request,
            approval: "never"
          })
        )
      const problems = [
        yield* make({ expiresAfter: 1, otherwise: 5 }, "question"),
        yield* make({ otherwise: "x" }, "question"),
        yield* make({ expiresAfter: 1, otherwise: "x" }),
        yield* make({ expiresAfter: 0 })
      ]
      assert.deepStrictEqual(
        problems.map(({ part, path }) => [part, path]),
        [
          ["request", "/otherwise"],
          ["request", "/otherwise"],
          ["request", "/otherwise"],
          ["request", "/expiresAfter"]
        ]
      )
    })
  )
})

describe("PEOPLE-3 until when, and what then", () => {
  for (const [name, answer] of [
    ["ask", `{"size":"M"}`],
    ["locate", "Oslo"],
    ["book", "booked M"],
    ["pay", "There was no answer in time."]
  ] as const) {
    inSession(`PEOPLE-3 a session settles a request in time: ${name}`, function* () {
      const asked = yield* Session.turn("a", name)
      assert(asked.outcome === "AwaitingApproval")
      const [request] = asked.requests
      const end = request?.bounds?.expiresAt
      assert(request !== undefined && end !== undefined)
      assert.strictEqual(DateTime.toEpochMillis(end), name === "pay" ? 86_400_000 : 3_600_000)
      yield* TestClock.adjust(DateTime.toEpochMillis(end) - 1)
      assert.strictEqual((yield* stateOf("a")).requests.length, 1)
      yield* TestClock.adjust(1)
      yield* ends("a")
      assert.include(yield* textOf("a"), answer)
      const decided = (yield* eventsOf("a")).flatMap(({ event }) =>
        event._tag === "DecisionsReceived" ? event.decisions : []
      )
      assert.deepStrictEqual(pluck(decided, "reason"), ["There was no answer in time."])
      const given = Run.isApprovable(request) ? Run.approve(request) : Run.answer(request, "Rome")
      const late = yield* Effect.flip(Session.decide("a", [given]))
      assert(late.reason._tag === "InvalidDecision" && late.reason.error.problem === "alreadyAnswered")
    })
  }

  inSession("PEOPLE-3 the model reads that a default answer is none of a person", function* () {
    yield* Session.turn("a", "locate")
    yield* TestClock.adjust("1 hour")
    yield* ends("a")
    assert.include(yield* textOf("a"), "There was no answer in time.")
  })

  it.effect("PEOPLE-3 a session whose process has ended settles the request when it is opened", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const layer = Layer.fresh(Session.layer([desk])).pipe(Layer.provide([below, store]))
      yield* Effect.provide(Session.turn("a", "locate"), layer)
      yield* TestClock.adjust("2 hours")
      const text = yield* Effect.provide(Effect.andThen(ends("a"), textOf("a")), layer)
      assert.include(text, "Oslo")
    }).pipe(Effect.scoped)
  )

  it.effect("PEOPLE-3 a run without a session settles it when it is resumed, and refuses a late decision", () =>
    Effect.gen(function* () {
      const asked = yield* desk.run("locate")
      assert(asked.outcome === "AwaitingApproval")
      const state = yield* Effect.flatMap(Run.stateCodec.encodeJson(asked.state), Run.stateCodec.decodeJson)
      const [request] = asked.requests
      assert(request?._tag === "Call")
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual((yield* desk.resume(state)).outcome, "AwaitingApproval")
      yield* TestClock.adjust("1 minute")
      const late = yield* Effect.flip(desk.resume(state, { decisions: [Run.answer(request, "Rome")] }))
      assert(late.reason._tag === "InvalidDecision" && late.reason.problem === "alreadyAnswered")
      const result = yield* desk.resume(state)
      assert.include(result.text, "Oslo")
      assert.include(result.text, "There was no answer in time.")
    }).pipe(Effect.provide(below))
  )

  it.effect("PEOPLE-3 a step of a plan has the default answer", () =>
    Effect.gen(function* () {
      const plan = yield* Plan.make("p", [
        Step.make("ask", { target: () => Effect.map(Question.ask("Which size?", Size, asks), ({ size }) => size) })
      ])
      const bound = yield* Plan.bind(plan)
      const paused = yield* Plan.run(bound, "x")
      assert(paused.outcome === "Paused")
      assert.deepStrictEqual(paused.requests[0]?.bounds?.otherwise, { size: "M" })
      yield* TestClock.adjust("1 hour")
      const result = yield* Plan.resume(bound, paused.state, {})
      assert(result.outcome === "Completed" && result.output === "M")
    })
  )
})
