/** PEOPLE-3: answers that a session remembers, in memory, on SQLite and on a fleet. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestRunner } from "effect/cluster"
import { TestClock } from "effect/testing"
import { Agent, Question, Run, VersionedStore } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { ClusterSession, Session } from "effect-emissary/session"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import * as t from "./sessions.ts"

const toolkit = Toolkit.make(
  Tool.make("pay", {
    parameters: Schema.Struct({ amount: Schema.Finite }),
    success: Schema.String,
    needsApproval: true
  })
)
const AskUser = Question.tool("ask_user", { description: "Ask", answer: Schema.Struct({ size: Schema.String }) })
const inner = Agent.make("inner", { instructions: "Inside.", toolkit })
const desk = Agent.make("desk", {
  toolkit: [...Object.values(toolkit.tools), AskUser, Agent.asTool(inner, { name: "delegate", description: "Pays" })]
})

/** `pay 5 6` pays both, `ask` asks the user, and `inside 5` pays by another agent. */
const script: ScriptedModel.TurnFunction = (request) => {
  const asked = request.messages.findLast(({ role }) => role === "user")?.text ?? ""
  const last = request.messages.at(-1)
  if (last?.role === "tool") return { text: `re: ${last.text}` }
  const [word, ...amounts] = asked.split(" ")
  if (word === "ask") return { toolCalls: [{ name: "ask_user", params: { question: "Which size?" } }] }
  if (word === "inside") return { toolCalls: [{ name: "delegate", params: { input: `pay ${amounts[0]}` } }] }
  return { toolCalls: amounts.map((amount) => ({ name: "pay", params: { amount: Number(amount) } })) }
}

const world = () => {
  const paid: Array<number> = []
  const handlers = toolkit.toLayer({ pay: ({ amount }) => Effect.sync(() => (paid.push(amount), "paid")) })
  return { paid, below: Layer.merge(handlers, ScriptedModel.layer(script)) }
}

type Below = ReturnType<typeof world>["below"]

const sqlite = Layer.orDie(SqliteClient.layer({ filename: ":memory:" }))

const inMemory = (below: Below) => Session.layer([desk]).pipe(Layer.provide([below, VersionedStore.layerMemory]))

const homes = [
  ["in memory", inMemory],
  [
    "on SQLite",
    (below: Below) =>
      Session.layer([desk]).pipe(Layer.provide([below, Layer.orDie(SqliteClient.layerStore({ filename: ":memory:" }))]))
  ],
  [
    "on a fleet",
    (below: Below) =>
      ClusterSession.layer([desk]).pipe(
        Layer.provide([below, Layer.mergeAll(TestRunner.layer, VersionedStore.layerMemory, sqlite)])
      )
  ]
] as const

const stateOf = (id: string) => Effect.map(Session.state(id), Option.getOrThrow)

/** Sends a message, and approves what it asks for, with these options. */
const approved = Effect.fnUntraced(function* (id: string, text: string, options?: Run.DecisionOptions) {
  const asked = yield* Session.turn(id, text)
  assert(asked.outcome === "AwaitingApproval", `${text}: ${asked.outcome}`)
  return yield* Session.await(id, yield* Session.decide(id, Run.approveAll(asked.requests, options)))
})

describe.each(homes)("PEOPLE-3 an answer that is remembered, %s", (_, layerOf) => {
  it.live("PEOPLE-3 equal calls have it, others ask, and it can be taken back", () => {
    const { below, paid } = world()
    return Effect.gen(function* () {
      yield* approved("a", "pay 5", { remember: true, decidedBy: "ada", reason: "Fine." })
      const { remembered = [] } = yield* stateOf("a")
      assert.deepStrictEqual(
        remembered.map(({ digest: _, ...one }) => one),
        [
          {
            name: "pay",
            arguments: { amount: 5 },
            approved: true,
            decidedBy: "ada",
            reason: "Fine.",
            shown: '"pay" {"amount":5}'
          }
        ]
      )
      // The equal call runs without a question, and the log has the answer of the call
      assert.strictEqual((yield* Session.turn("a", "pay 5")).outcome, "Completed")
      const { sequence } = yield* stateOf("a")
      const events = yield* Session.events("a").pipe(
        Stream.takeUntil((entry) => entry.sequence >= sequence),
        Stream.runCollect
      )
      const decided = events.flatMap(({ event }) =>
        event._tag === "RunEvent" && event.event._tag === "ApprovalDecided" ? [event.event.decidedBy] : []
      )
      assert.deepStrictEqual(decided, ["ada", "ada"])
      // Of two calls the equal one does not wait
      const other = yield* Session.turn("a", "pay 5 6")
      assert(other.outcome === "AwaitingApproval")
      assert.deepStrictEqual(pluck(other.requests, "arguments"), [{ amount: 6 }])
      yield* Session.await("a", yield* Session.decide("a", Run.denyAll(other.requests)))
      assert.deepStrictEqual(paid, [5, 5, 5])
      yield* Session.forget("a", { digest: "sha256:0" })
      assert.strictEqual((yield* stateOf("a")).remembered?.length, 1)
      yield* Session.forget("a", { digest: remembered[0]?.digest })
      assert.strictEqual((yield* stateOf("a")).remembered, undefined)
      assert.strictEqual((yield* Session.turn("a", "pay 5")).outcome, "AwaitingApproval")
      assert.deepStrictEqual(paid, [5, 5, 5])
    }).pipe(Effect.provide(layerOf(below)), Effect.timeout("20 seconds"))
  })
})

describe("PEOPLE-3 requests that expire", () => {
  const decisionsOf = (id: string) =>
    Effect.gen(function* () {
      const { sequence } = yield* stateOf(id)
      const events = yield* Session.events(id).pipe(
        Stream.takeUntil((entry) => entry.sequence >= sequence),
        Stream.runCollect
      )
      return events.flatMap(({ event }) => (event._tag === "DecisionsReceived" ? event.decisions : []))
    })
  const ends = (id: string) =>
    Effect.repeat(stateOf(id), { until: ({ outcome, status }) => status === "idle" && outcome === "Completed" })

  it.effect("PEOPLE-3 the process that has the session denies them in time, as a decision in the log", () => {
    const { below, paid } = world()
    const layer = Session.layer([desk], { expiresAfter: "1 hour", idleTime: "1 day" }).pipe(
      Layer.provide([below, VersionedStore.layerMemory])
    )
    return Effect.gen(function* () {
      const asked = yield* Session.turn("a", "pay 5 6")
      assert(asked.outcome === "AwaitingApproval")
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual((yield* stateOf("a")).requests.length, 2)
      yield* TestClock.adjust("1 minute")
      yield* ends("a")
      const decided = yield* decisionsOf("a")
      assert.deepStrictEqual(pluck(decided, "reason"), Array(2).fill("There was no answer in time."))
      const late = yield* Effect.flip(Session.decide("a", Run.approveAll(asked.requests)))
      assert.strictEqual(late.reason._tag, "InvalidDecision")
      assert.deepStrictEqual(paid, [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("PEOPLE-3 a session that is opened later denies them then", () =>
    Effect.gen(function* () {
      const store = yield* t.store
      const { below, paid } = world()
      const layer = Layer.fresh(Session.layer([desk], { expiresAfter: "1 hour" })).pipe(Layer.provide([below, store]))
      yield* Effect.provide(Session.turn("a", "pay 5"), layer)
      yield* TestClock.adjust("2 hours")
      const decided = yield* Effect.provide(Effect.andThen(ends("a"), decisionsOf("a")), layer)
      assert.deepStrictEqual(pluck(decided, "approved"), [false])
      assert.deepStrictEqual(paid, [])
    }).pipe(Effect.scoped)
  )
})

describe("PEOPLE-3 what is remembered", () => {
  const passing = (name: string, body: (paid: Array<number>) => Effect.Effect<unknown, unknown, Session.Session>) =>
    it.live(name, () => {
      const { below, paid } = world()
      return body(paid).pipe(Effect.provide(inMemory(below)), Effect.timeout("20 seconds"))
    })

  passing("PEOPLE-3 a denial and an answer to a question are answers, too", (paid) =>
    Effect.gen(function* () {
      const asked = yield* Session.turn("a", "pay 5")
      assert(asked.outcome === "AwaitingApproval")
      yield* Session.await(
        "a",
        yield* Session.decide("a", Run.denyAll(asked.requests, { remember: true, reason: "Never." }))
      )
      assert.include((yield* Session.turn("a", "pay 5")).text, "Never.")
      const question = yield* Session.turn("a", "ask")
      assert(question.outcome === "AwaitingApproval")
      const [request] = question.requests
      assert(request?._tag === "Question")
      yield* Session.await("a", yield* Session.decide("a", [Run.answer(request, { size: "M" }, { remember: true })]))
      assert.include((yield* Session.turn("a", "ask")).text, "M")
      assert.deepStrictEqual(paid, [])
    })
  )

  passing("PEOPLE-3 not without remember, not in another session or fork, not with another RunContext", (paid) =>
    Effect.gen(function* () {
      yield* approved("a", "pay 5")
      yield* approved("a", "pay 5", { remember: true })
      assert.strictEqual((yield* Session.turn("b", "pay 5")).outcome, "AwaitingApproval")
      yield* Session.fork("a", { to: "c" })
      assert.strictEqual((yield* stateOf("c")).remembered, undefined)
      assert.strictEqual((yield* Session.turn("c", "pay 5")).outcome, "AwaitingApproval")
      assert.strictEqual((yield* Session.turn("a", "pay 5", { context: { tenant: "b" } })).outcome, "AwaitingApproval")
      assert.deepStrictEqual(paid, [5, 5])
    })
  )

  passing("PEOPLE-3 until it expires", (paid) =>
    Effect.gen(function* () {
      const expiresAt = DateTime.add(yield* DateTime.now, { seconds: 5 })
      yield* approved("a", "pay 5", { remember: true, expiresAt })
      yield* Effect.sleep("5500 millis")
      assert.strictEqual((yield* Session.turn("a", "pay 5")).outcome, "AwaitingApproval")
      assert.deepStrictEqual(paid, [5])
    })
  )

  passing("PEOPLE-3 an equal request that waits beside it is answered, and a call of an agent inside", (paid) =>
    Effect.gen(function* () {
      const asked = yield* Session.turn("a", "pay 5 5")
      assert(asked.outcome === "AwaitingApproval")
      yield* Session.decide("a", [Run.approve({ ...asked.requests[0], _tag: "Approval" }, { remember: true })])
      yield* Effect.repeat(stateOf("a"), {
        until: ({ outcome, status }) => status === "idle" && outcome === "Completed"
      })
      assert.deepStrictEqual(paid, [5, 5])
      yield* approved("a", "inside 7", { remember: true })
      assert.strictEqual((yield* Session.turn("a", "inside 7")).outcome, "Completed")
      assert.deepStrictEqual(paid, [5, 5, 7, 7])
    })
  )

  it.live("PEOPLE-3 a step of a plan that calls a tool has the remembered answer", () =>
    Effect.gen(function* () {
      const sent: Array<string> = []
      const kit = Toolkit.make(
        Tool.make("send", {
          parameters: Schema.Struct({ to: Schema.String }),
          success: Schema.String,
          needsApproval: true
        })
      )
      const handlers = kit.toLayer({ send: ({ to }) => Effect.sync(() => (sent.push(to), "sent")) })
      const plan = yield* Plan.make("mails", [
        Step.make("first", { target: "send", task: Reference.literal("ada") }),
        Step.make("second", { target: "send", task: Reference.literal("ada") })
      ])
      const bound = yield* Effect.provide(Plan.bind(plan, { toolkit: kit }), handlers)
      const layer = Session.layer([bound]).pipe(Layer.provide(VersionedStore.layerMemory))
      yield* Effect.gen(function* () {
        const asked = yield* Session.turn("a", "go")
        assert(asked.outcome === "AwaitingApproval")
        yield* Session.decide("a", Run.approveAll(asked.requests, { remember: true }))
        yield* Effect.repeat(stateOf("a"), {
          until: ({ outcome, status }) => status === "idle" && outcome === "Completed"
        })
        assert.deepStrictEqual(sent, ["ada", "ada"])
      }).pipe(Effect.provide(layer))
    }).pipe(Effect.timeout("20 seconds"))
  )

  t.passing("PEOPLE-3 a session without an answer to remember has nothing to forget", () =>
    Effect.gen(function* () {
      yield* Session.turn("a", "hello")
      yield* Session.forget("a")
      assert.notInclude(yield* t.reasonOf(Session.forget("b")), "Completed")
    }).pipe(Effect.provide(inMemory(Layer.merge(world().below, ScriptedModel.layer([{ text: "Hi." }])))))
  )
})
