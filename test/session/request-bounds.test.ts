/** PEOPLE-3: who may decide a request, until when, and what then. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Effect, Fiber, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Agent,
  AgentDefinition,
  ClientTool,
  Conversation,
  Guard,
  Message,
  Question,
  Run,
  ToolContract,
  ToolResolver,
  ToolRuntime,
  ToolSettings,
  VersionedStore
} from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { UiMessages } from "effect-emissary/http"
import { ChatEvent, Session } from "effect-emissary/session"
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
  Tool.make("book", { success: Schema.String, failure: Question.Asked }),
  Tool.make("wait", { success: Schema.String, needsApproval: true }),
  Tool.make("ship", { success: Schema.String, needsApproval: true })
)
const asks = { expiresAfter: "1 hour", otherwise: { size: "M" } } as const
const town = { deciders: ["finance"], otherwise: "Oslo" } as const
const AskUser = Question.tool("ask", { description: "Asks", answer: Size, ...asks })
const Locate = ClientTool.make(
  Tool.make("locate", { success: Schema.String }).annotate(ToolSettings.Request, {
    expiresAfter: "1 hour",
    otherwise: "Oslo"
  })
)
const desk = Agent.make("desk", { toolkit: [...Object.values(toolkit.tools), AskUser, Locate] })
const lead = Agent.make("lead", { toolkit: [Agent.asTool(desk, { name: "help", description: "Helps" })] })

const handlers = toolkit.toLayer({
  pay: () => Effect.succeed("paid"),
  book: () => Effect.map(Question.ask("Which size?", Size, asks), ({ size }) => `booked ${size}`),
  wait: () => Effect.delay(Effect.succeed("waited"), "10 seconds"),
  ship: () => Effect.succeed("shipped")
})
const Bounded = Schema.Struct({ bounds: Schema.Json })
const params: Record<string, Schema.Json> = { ask: { question: "Which size?" }, help: { input: "pay" } }
const script: ScriptedModel.TurnFunction = ({ messages }) => {
  const last = messages.at(-1)
  const name = last?.text ?? ""
  if (last?.role === "tool") return { text: `re: ${last.text}` }
  return { toolCalls: name.split(" ").map((name) => ({ name, params: params[name] ?? {} })) }
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

  inSession("PEOPLE-3 a list counts only where the caller may decide each of its requests", function* () {
    const asked = yield* Session.turn("a", "ship pay")
    assert(asked.outcome === "AwaitingApproval")
    const { requests } = asked
    assert.deepStrictEqual(
      requests.map(({ bounds, name }) => [name, bounds?.deciders]),
      [
        ["ship", undefined],
        ["pay", ["finance", "ada"]]
      ]
    )
    const lists = [
      Run.approveAll(requests),
      Run.denyAll(requests),
      requests.filter(Run.isApprovable).map((one) => Run.deny(one)),
      requests.filter(Run.isApprovable).map((one) => Run.approve(one))
    ]
    for (const decisions of lists) {
      const refused = yield* Effect.flip(Session.decide("a", decisions, { as: ["staff"] }))
      assert(refused.reason._tag === "InvalidDecision" && refused.reason.error.problem === "decider")
    }
    assert.strictEqual((yield* stateOf("a")).requests.length, 2)
    const receipt = yield* Session.decide("a", Run.approveAll(requests), { as: ["finance"] })
    assert.strictEqual((yield* Session.await("a", receipt)).outcome, "Completed")
  })

  inSession("PEOPLE-3 a page of the AI SDK sees who decides, and the end", function* () {
    const { messageId: of } = yield* Session.send("a", "ask pay")
    const { live } = yield* Session.Session
    const chunks = yield* live("a").pipe(
      Stream.filterMap(ChatEvent.project()),
      Stream.map(({ event }) => event),
      Stream.takeUntil(({ _tag }) => _tag === "TurnFinished"),
      UiMessages.fromEvents({ of }),
      Stream.runCollect
    )
    const bounds = chunks.flatMap((chunk) => {
      if (chunk.type === "data-request") return [Schema.decodeUnknownSync(Bounded)(chunk.data).bounds]
      return chunk.type === "tool-approval-request" ? [chunk.approvalDescriptor] : []
    })
    assert.deepStrictEqual<ReadonlyArray<Schema.Json | undefined>>(bounds, [
      { expiresAt: "1970-01-01T01:00:00.000Z", otherwise: { size: "M" } },
      { deciders: ["finance", "ada"], expiresAt: "1970-01-02T00:00:00.000Z" }
    ])
  })

  inSession("PEOPLE-3 an approval of a decider is remembered for equal calls", function* () {
    const asked = yield* Session.turn("a", "pay")
    assert(asked.outcome === "AwaitingApproval")
    const decisions = asked.requests.filter(Run.isApprovable).map((one) => Run.approve(one, { remember: true }))
    yield* Session.await("a", yield* Session.decide("a", decisions, { as: ["finance"] }))
    assert.strictEqual((yield* Session.turn("a", "pay")).text, "re: paid")
  })

  testWith(Session.layer([lead]).pipe(Layer.provide([below, VersionedStore.layerMemory])))(
    "PEOPLE-3 the deciders of a request of an agent inside are checked",
    function* () {
      const asked = yield* Session.turn("a", "help")
      assert(asked.outcome === "AwaitingApproval")
      assert.strictEqual(asked.requests[0]?.path?.length, 1)
      const decisions = asked.requests.filter(Run.isApprovable).map((request) => Run.approve(request))
      const refused = yield* Effect.flip(Session.decide("a", decisions, { as: ["staff"] }))
      assert(refused.reason._tag === "InvalidDecision" && refused.reason.error.problem === "decider")
      const receipt = yield* Session.decide("a", decisions, { as: ["ada"] })
      assert.include((yield* Session.await("a", receipt)).text, "paid")
    }
  )

  it.effect("PEOPLE-3 the deciders and the default answer are in the digest: other ones are a forged state", () =>
    Effect.gen(function* () {
      const plan = yield* Plan.make("p", [
        Step.make("ask", { target: () => Question.ask("Where?", Schema.String, { ...asks, ...town }) })
      ])
      const { state: paused } = yield* Plan.run(yield* Plan.bind(plan), "x")
      const planText = yield* PlanRun.stateCodec.encodeJson(paused)
      for (const [from, to] of [
        [`"deciders":["finance"]`, `"deciders":["bob"]`],
        [`"otherwise":"Oslo"`, `"otherwise":"Rome"`]
      ] as const) {
        assert.include(planText, from)
        const forged = planText.replaceAll(from, to)
        assert.match((yield* Effect.flip(PlanRun.stateCodec.decodeJson(forged))).message, /digest of the request/)
      }
      for (const [name, from, to] of [
        ["pay", `"deciders":["finance","ada"]`, `"deciders":["bob"]`],
        ["locate", `"otherwise":"Oslo"`, `"otherwise":"Rome"`],
        ["book", `"otherwise":{"size":"M"}`, `"otherwise":{"size":"S"}`]
      ] as const) {
        const text = yield* Effect.flatMap(desk.run(name), ({ state }) => Run.stateCodec.encodeJson(state))
        assert.include(text, from)
        assert.strictEqual((yield* Run.stateCodec.decodeJson(text)).outcome?._tag, "AwaitingApproval")
        const { message } = yield* Effect.flip(Run.stateCodec.decodeJson(text.replaceAll(from, to)))
        assert.include(message, "digest of the request")
      }
    }).pipe(Effect.provide(below))
  )

  it.effect(
    "PEOPLE-3 CODEC-3 the terms travel with the agent, are in its digest, and version 1 names them as a loss",
    () =>
      Effect.gen(function* () {
        const wire = yield* Agent.encode(desk)
        const text = JSON.stringify(wire)
        assert.include(text, `"expires_after":86400000`)
        const edited = JSON.parse(text.replace(`"otherwise":"Oslo"`, `"otherwise":5`))
        assert.match((yield* Effect.flip(AgentDefinition.codec.decode(edited))).message, /request\/otherwise/)
        const definition = yield* AgentDefinition.codec.decode(wire)
        assert.deepStrictEqual(
          definition.tools.map(({ request }) => request),
          [
            { deciders: ["finance", "ada"], expiresAfter: 86_400_000 },
            undefined,
            undefined,
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

  it.effect("PEOPLE-3 an agent from elsewhere has the deciders and the time of the tool here", () =>
    Effect.gen(function* () {
      const [pay] = yield* Effect.map(Agent.definition(desk), ({ tools }) => tools)
      assert(pay !== undefined)
      const { request: _, ...bare } = pay
      const resolver = yield* ToolResolver.ToolResolver
      const { contract } = yield* resolver.resolve(yield* ToolContract.make(bare))
      assert.deepStrictEqual(contract.request, pay.request)
    }).pipe(Effect.provide([handlers, ToolResolver.layerToolkit(toolkit).pipe(Layer.provide(handlers))]))
  )

  it.effect("PEOPLE-3 a call asks the same people again where its approval expires before it starts", () =>
    Effect.gen(function* () {
      const asked = yield* desk.run("wait pay")
      assert(asked.outcome === "AwaitingApproval")
      const expiresAt = DateTime.makeUnsafe(1000)
      const decisions = asked.requests.filter(Run.isApprovable).map((one) => Run.approve(one, { expiresAt }))
      const resumed = yield* Effect.forkChild(desk.resume(asked.state, { decisions }))
      yield* TestClock.adjust("10 seconds")
      const again = yield* Fiber.join(resumed)
      assert(again.outcome === "AwaitingApproval")
      const { deciders, expiresAt: end } = again.requests[0]?.bounds ?? {}
      assert.deepStrictEqual([deciders, end], [["finance", "ada"], DateTime.makeUnsafe(86_410_000)])
    }).pipe(Effect.provide(below))
  )

  it.effect("PEOPLE-3 a default answer is JSON in the contract and in a question, as its Schema encodes it", () =>
    Effect.gen(function* () {
      const when = { expiresAfter: "1 hour", otherwise: DateTime.makeUnsafe(0) } as const
      const answer = Schema.DateTimeUtcFromString
      const { request } = yield* ToolContract.fromTool(Question.tool("when", { description: "Asks", answer, ...when }))
      const asked = yield* Effect.flip(Question.ask("When?", answer, { ...when, deciders: ["ada"] }))
      const encoded = { expiresAfter: 3_600_000, otherwise: "1970-01-01T00:00:00.000Z" }
      assert.deepStrictEqual(request, encoded)
      assert.deepStrictEqual(asked.request, { ...encoded, deciders: ["ada"] })
      const { request: who } = yield* ToolContract.fromTool(
        Question.tool("who", { description: "Asks", answer: Schema.String, deciders: ["ada"] })
      )
      assert.deepStrictEqual(who, { deciders: ["ada"] })
    })
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
      yield* TestClock.adjust("3 hours")
      const paused = yield* Plan.run(bound, "x")
      assert(paused.outcome === "Paused")
      const expiresAt = DateTime.makeUnsafe(4 * 3_600_000)
      assert.deepStrictEqual(paused.requests[0]?.bounds, { expiresAt, otherwise: { size: "M" } })
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual((yield* Plan.resume(bound, paused.state, {})).outcome, "Paused")
      yield* TestClock.adjust("1 minute")
      const result = yield* Plan.resume(bound, paused.state, {})
      assert(result.outcome === "Completed" && result.output === "M")
    })
  )

  const budget = { modelCalls: 1, onExceeded: "ask" } as const
  const guard = Guard.make("careful", { on: "output", check: () => Effect.succeed(Guard.ask("May it pass?")) })
  const inHours = (run: Session.Options["run"]) =>
    testWith(
      Session.layer([desk], { expiresAfter: "1 hour", idleTime: "9 days", run }).pipe(
        Layer.provide([below, VersionedStore.layerMemory])
      )
    )

  for (const [name, run, outcome] of [
    ["of a budget", { budget: { ...budget } }, "BudgetExceeded"],
    ["of a guard", { guards: [guard] }, "Refused"]
  ] as const) {
    inHours(run)(`PEOPLE-3 the time of a layer of sessions counts for a question ${name}`, function* () {
      const approval = yield* Session.turn("a", "ship")
      assert(approval.outcome === "AwaitingApproval")
      const decisions = approval.requests.filter(Run.isApprovable).map((one) => Run.approve(one))
      const asked = yield* Session.await("a", yield* Session.decide("a", decisions))
      assert(asked.outcome === "AwaitingApproval")
      assert.isDefined(asked.requests[0]?.bounds?.expiresAt)
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual((yield* stateOf("a")).requests.length, 1)
      yield* TestClock.adjust("1 minute")
      const state = yield* Effect.repeat(stateOf("a"), { until: ({ status }) => status === "idle" })
      assert.strictEqual(state.outcome, outcome)
    })
  }

  inHours({})(
    "PEOPLE-3 each request of a list expires by itself, and its own time counts before the time of the layer",
    function* () {
      const asked = yield* Session.turn("a", "ship pay")
      assert(asked.outcome === "AwaitingApproval")
      const [hour, day] = [3_600_000, 86_400_000].map((millis) => DateTime.makeUnsafe(millis))
      assert.deepStrictEqual(
        asked.requests.map(({ bounds }) => bounds?.expiresAt),
        [hour, day]
      )
      const list = Run.approveAll(asked.requests)
      assert.deepStrictEqual(Run.batch(asked.requests)?.expiresAt, hour)
      yield* TestClock.adjust("1 hour")
      const { requests } = yield* Effect.repeat(stateOf("a"), {
        until: ({ requests, status }) => status === "waiting" && requests.length === 1
      })
      assert.deepStrictEqual(pluck(requests, "name"), ["pay"])
      const late = yield* Effect.flip(Session.decide("a", list))
      assert(late.reason._tag === "InvalidDecision" && late.reason.error.problem === "alreadyAnswered")
      yield* TestClock.adjust("23 hours")
      yield* ends("a")
      const given = (yield* eventsOf("a")).flatMap(({ event }) =>
        event._tag === "DecisionsReceived" ? event.decisions : []
      )
      assert.strictEqual(given.length, 2)
    }
  )

  testWith(
    Session.layer([lead], { expiresAfter: "1 hour", idleTime: "9 days", run: { budget } }).pipe(
      Layer.provide([below, VersionedStore.layerMemory, ToolRuntime.layerConcurrent()])
    )
  )("PEOPLE-3 a question of several agents about one budget expires once", function* () {
    const asked = yield* Session.turn("a", "help help")
    assert(asked.outcome === "AwaitingApproval")
    assert.strictEqual(asked.requests.length, 1)
    yield* TestClock.adjust("1 hour")
    const state = yield* Effect.repeat(stateOf("a"), { until: ({ status }) => status === "idle" })
    const given = (yield* eventsOf("a")).flatMap(({ event }) =>
      event._tag === "DecisionsReceived" ? event.decisions : []
    )
    assert.strictEqual(given.length, 1)
    assert.strictEqual(state.failure, undefined)
    assert.strictEqual(state.outcome, "BudgetExceeded")
  })
})
