/** PEOPLE-1: a question with a Schema for its answer, of a model, of a step, and of a front end that makes a call. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Layer, Option, Schema } from "effect"
import { type LanguageModel, Tool, Toolkit } from "effect/ai"
import {
  Agent,
  AgentDefinition,
  ClientTool,
  ModelRegistry,
  Question,
  Run,
  ToolContract,
  ToolResolver,
  VersionedStore
} from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { throughJson } from "./fixtures.ts"

const Size = Schema.Struct({
  size: Schema.Literals(["S", "M", "L"]),
  gift: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(false)))
})

const AskUser = Question.tool("ask_user", { description: "Ask for the size", answer: Size })

const Locate = ClientTool.make(
  Tool.make("locate", {
    description: "Where the user is",
    parameters: Schema.Struct({ exact: Schema.Boolean.pipe(Schema.withDecodingDefaultKey(Effect.succeed(false))) }),
    success: Schema.Struct({ city: Schema.String })
  })
)

const shop = Agent.make("shop", { toolkit: [Locate, AskUser] })

const both: ScriptedModel.Turn = {
  toolCalls: [
    { id: "c1", name: "locate", params: {} },
    { id: "c2", name: "ask_user", params: { question: "Which size?" } }
  ]
}

const answer = Run.Request.match({
  Call: (request) => Run.answer(request, { city: "Oslo" }),
  Question: (request) => Run.answer(request, { size: "M" }),
  Approval: (request) => Run.approve(request),
  Pause: (request) => Run.approve(request)
})

const script = (): ScriptedModel.Script => [both, { text: "A coat, size M.", expect: { toolResult: '"size":"M"' } }]

const asking = Effect.fnUntraced(function* (agent: Agent.Agent<unknown, LanguageModel.LanguageModel>) {
  const asked = yield* agent.run("A coat")
  assert(asked.outcome === "AwaitingApproval")
  return asked
})

const refusalOf = Effect.fnUntraced(function* (
  agent: Agent.Agent<unknown, LanguageModel.LanguageModel>,
  state: Run.State,
  decision: Run.Decision
) {
  const { reason } = yield* Effect.flip(agent.resume(state, { decisions: [decision] }))
  assert(reason._tag === "InvalidDecision")
  return reason
})

describe("PEOPLE-1 the model and the front end", () => {
  test(
    "PEOPLE-1 L13 a call without code is a request with its JSON Schema, and the answer is its result",
    ScriptedModel.layer(script()),
    function* () {
      const { requests, state } = yield* asking(shop)
      const [call, question] = requests
      assert(call?._tag === "Call" && question?._tag === "Question")
      // As the handler of a tool would receive them
      assert.deepStrictEqual(call.arguments, { exact: false })
      assert.deepStrictEqual(question.arguments, { question: "Which size?" })
      assert.deepStrictEqual(question.schema["required"], ["size"])
      const result = yield* shop.resume(yield* throughJson(state), { decisions: requests.map(answer) })
      assert.strictEqual(result.text, "A coat, size M.")
    }
  )

  test(
    "PEOPLE-1 an answer that does not fit is refused with its places, and the question stays open",
    ScriptedModel.layer(script()),
    function* () {
      const { requests, state } = yield* asking(shop)
      const [call, question] = requests
      assert(call?._tag === "Call" && question?._tag === "Question")
      const wrong = yield* refusalOf(shop, state, Run.answer(question, { size: "XL", gift: "no" }))
      assert.deepStrictEqual(
        [wrong.problem, (wrong.problems ?? []).map(({ path }) => path).toSorted()],
        ["answer", ["/gift", "/size"]]
      )
      assert.strictEqual((yield* refusalOf(shop, state, { ...Run.deny(question), approved: true })).problem, "answer")
      const result = yield* shop.resume(state, { decisions: requests.map(answer) })
      assert.strictEqual(result.outcome, "Completed")
    }
  )

  const denied = ScriptedModel.layer([both, { text: "No coat.", expect: { toolResult: "Too personal." } }])
  test("PEOPLE-1 who does not answer denies, and the model reads the reason", denied, function* () {
    const { requests, state } = yield* asking(shop)
    const decisions = requests.map((request) => Run.deny(request, { reason: "Too personal." }))
    assert.strictEqual((yield* shop.resume(state, { decisions })).text, "No coat.")
  })

  const twice = ScriptedModel.layer([both, { text: "Done." }, both, { text: "Done." }])
  const ambient = ModelRegistry.layerContext.pipe(Layer.provideMerge(twice))
  test("PEOPLE-1 L1 an agent from JSON asks the same without code, and checks answers the same", ambient, function* () {
    const json = yield* Agent.encode(shop)
    for (const resolver of [ToolResolver.layerStubs(), ToolResolver.layerToolkit(Toolkit.empty)]) {
      const rebuilt = yield* Effect.provide(Agent.decode(json), resolver)
      const { requests, state } = yield* asking(rebuilt)
      const [, question] = requests
      assert(question?._tag === "Question")
      const wrong = yield* refusalOf(rebuilt, state, Run.answer(question, { size: 5 }))
      assert.deepStrictEqual(pluck(wrong.problems ?? [], "path"), ["/size"])
      assert.strictEqual((yield* rebuilt.resume(state, { decisions: requests.map(answer) })).text, "Done.")
    }
    const definition = { ...(yield* Agent.definition(shop)), model: "openai/gpt-5.2" }
    const refused = yield* Effect.flip(AgentDefinition.codec.encode(definition, { version: 1 }))
    assert.include(refused.message, "/tools/0/client")
  })

  test(
    "PEOPLE-1 a request covers its JSON Schema: another one is a forged state",
    ScriptedModel.layer(script()),
    function* () {
      const { state } = yield* asking(shop)
      const text = yield* Run.stateCodec.encodeJson(state)
      const forged = yield* Effect.flip(Run.stateCodec.decodeJson(text.replaceAll('"M"', '"XL"')))
      assert.include(forged.message, "digest of the request")
    }
  )

  test("PEOPLE-1 a contract that gains or loses its handler is another contract", function* () {
    const [client, local] = yield* Effect.all([
      ToolContract.make({ name: "x", parameters: { type: "object" }, client: "call" }),
      ToolContract.make({ name: "x", parameters: { type: "object" } })
    ])
    assert.notStrictEqual(client.digest, local.digest)
    assert.deepStrictEqual(pluck(ToolContract.compare(client, local), "path"), ["/client"])
    assert(ToolContract.compare(client, local).every(({ breaking }) => breaking))
  })

  const nested: ScriptedModel.TurnFunction = ({ messages }) => {
    const last = messages.at(-1)
    if (last?.role === "tool") return { text: `known: ${last.text}` }
    return messages[0]?.text === "Ask." ? both : { toolCalls: [{ id: "d", name: "delegate", params: { input: "x" } }] }
  }
  const inner = Agent.make("inner", { instructions: "Ask.", toolkit: [Locate, AskUser] })
  const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "delegate", description: "Asks" })] })
  test("PEOPLE-1 an agent inside asks through the agent around it", ScriptedModel.layer(nested), function* () {
    const { requests, state } = yield* asking(outer)
    assert.deepStrictEqual(
      requests.map(({ _tag, path }) => [_tag, path]),
      [
        ["Call", ["d"]],
        ["Question", ["d"]]
      ]
    )
    const { text } = yield* outer.resume(yield* throughJson(state), { decisions: requests.map(answer) })
    assert.include(text, '"size":"M"')
  })
})

describe("PEOPLE-1 handlers", () => {
  const Book = Tool.make("book", {
    parameters: Schema.Struct({ hotel: Schema.String }),
    success: Schema.String,
    failure: Question.Asked
  })
  const toolkit = Toolkit.make(Book)
  const desk = Agent.make("desk", { toolkit })
  const calls: ScriptedModel.Turn = {
    toolCalls: [
      { id: "c1", name: "book", params: { hotel: "Ritz" } },
      { id: "c2", name: "book", params: { hotel: "Inn" } }
    ]
  }
  const booked: Array<string> = []
  const handlers = toolkit.toLayer({
    book: ({ hotel }) =>
      Effect.gen(function* () {
        const { size } = yield* Question.ask("Which size?", Size)
        const again = yield* Question.ask("Which size?", Size)
        booked.push(`${hotel} ${size}${again.size}`)
        return `${hotel} is booked`
      })
  })
  const world = (script: ScriptedModel.Script) => Layer.merge(ScriptedModel.layer(script), handlers)
  const sized = (request: Run.Request, size: string) =>
    request._tag === "Question" ? Run.answer(request, { size }) : Run.deny(request)

  test(
    "PEOPLE-1 L6 a handler asks twice, and what follows its questions happens once",
    world([calls, { text: "Booked." }]),
    function* () {
      booked.length = 0
      let result = yield* desk.run("Two rooms")
      const digests = new Set<string>()
      for (const size of ["S", "M"]) {
        assert(result.outcome === "AwaitingApproval")
        assert.deepStrictEqual(pluck(result.requests, "name"), ["book", "book"])
        for (const request of result.requests) digests.add(request.digest)
        const [first, second] = result.requests
        assert(first !== undefined && second !== undefined)
        assert.strictEqual((yield* refusalOfDesk(result.state, sized(first, "XXL"))).problem, "answer")
        // One answer continues one call
        const half = yield* desk.resume(yield* throughJson(result.state), { decisions: [sized(first, size)] })
        const late = yield* refusalOfDesk(half.state, sized(first, size))
        assert.notStrictEqual(late.problem, "answer")
        result = yield* desk.resume(yield* throughJson(half.state), { decisions: [sized(second, size)] })
      }
      // Each call is now at its second question, or through
      for (let count = 0; result.outcome === "AwaitingApproval" && count < 4; count++) {
        result = yield* desk.resume(result.state, { decisions: result.requests.map((one) => sized(one, "M")) })
      }
      assert.strictEqual(result.outcome, "Completed")
      assert.deepStrictEqual(booked.toSorted(), ["Inn SM", "Ritz SM"])
      assert.strictEqual(digests.size, 4)
    }
  )

  const refusalOfDesk = Effect.fnUntraced(function* (state: Run.State, decision: Run.Decision) {
    const { reason } = yield* Effect.flip(desk.resume(state, { decisions: [decision] }))
    assert(reason._tag === "InvalidDecision")
    return reason
  })

  const denied = world([calls, { text: "Not booked.", expect: { toolResult: "No." } }])
  test("PEOPLE-1 a question of a handler that is denied ends its call", denied, function* () {
    booked.length = 0
    const asked = yield* desk.run("Two rooms")
    assert(asked.outcome === "AwaitingApproval")
    const decisions = asked.requests.map((request) => Run.deny(request, { reason: "No." }))
    assert.strictEqual((yield* desk.resume(asked.state, { decisions })).text, "Not booked.")
    assert.deepStrictEqual(booked, [])
  })

  it.live("PEOPLE-1 a handler asks in a session, whose events have all of it", () =>
    Effect.gen(function* () {
      booked.length = 0
      yield* Session.turn("b", "Two rooms")
      for (let count = 0; count < 2; count++) {
        const { requests } = Option.getOrThrow(yield* Session.state("b"))
        assert.strictEqual(requests.length, 2)
        const receipt = yield* Session.decide(
          "b",
          requests.map((request) => sized(request, "L"))
        )
        yield* Session.await("b", receipt)
      }
      const { outcome, requests } = Option.getOrThrow(yield* Session.state("b"))
      assert.deepStrictEqual([outcome, requests], ["Completed", []])
      assert.deepStrictEqual(booked.toSorted(), ["Inn LL", "Ritz LL"])
    }).pipe(
      Effect.provide(
        Session.layer([desk]).pipe(
          Layer.provide(VersionedStore.layerMemory),
          Layer.provide(world([calls, { text: "Booked." }]))
        )
      ),
      Effect.timeout("20 seconds")
    )
  )
})

describe("PEOPLE-1 steps", () => {
  const toolkit = Toolkit.make(Locate)

  test("PEOPLE-1 a step asks twice, and what follows the questions happens once", function* () {
    const done: Array<string> = []
    const plan = yield* Plan.make("order", [
      Step.make("order", {
        target: ({ task }) =>
          Effect.gen(function* () {
            const { size } = yield* Question.ask("Which size?", Size)
            const again = yield* Question.ask("Which size?", Size)
            done.push(size)
            return `${task}: ${size} ${again.size} ${again.gift}`
          })
      })
    ])
    const bound = yield* Plan.bind(plan)
    let result = yield* Plan.run(bound, "A coat")
    const ids: Array<string> = []
    for (const size of ["S", "L"]) {
      assert(result.outcome === "Paused")
      const [request] = result.requests
      assert(request?._tag === "Question" && request.name === "order")
      ids.push(request.callId)
      const wrong = yield* Effect.flip(Plan.resume(bound, result.state, { decisions: [Run.answer(request, {})] }))
      assert(wrong.reason._tag === "InvalidDecision" && wrong.reason.problems?.[0]?.path === "/size")
      const state = yield* Effect.flatMap(PlanRun.stateCodec.encodeJson(result.state), PlanRun.stateCodec.decodeJson)
      result = yield* Plan.resume(bound, state, { decisions: [Run.answer(request, { size })] })
    }
    assert(result.outcome === "Completed")
    assert.strictEqual(result.output, "A coat: S L false")
    assert.deepStrictEqual([done, ids], [["S"], ["order:1", "order:1:2"]])
  })

  test("PEOPLE-1 a step that is a client-side tool has the answer as its output", function* () {
    const plan = yield* Plan.make("find", [
      Step.make("place", { target: "locate", input: Schema.Struct({ exact: Schema.Boolean }) })
    ])
    const bound = yield* Plan.bind(plan, { toolkit })
    const paused = yield* Plan.run(bound, { payload: { exact: true } })
    assert(paused.outcome === "Paused")
    const [request] = paused.requests
    assert(request?._tag === "Call" && request.name === "locate")
    assert.deepStrictEqual(request.arguments, { exact: true })
    const wrong = yield* Effect.flip(Plan.resume(bound, paused.state, { decisions: [Run.answer(request, {})] }))
    assert(wrong.reason._tag === "InvalidDecision" && wrong.reason.problems?.[0]?.path === "/city")
    const ended = yield* Plan.resume(bound, paused.state, { decisions: [Run.answer(request, { city: "Oslo" })] })
    assert(ended.outcome === "Completed")
    assert.deepStrictEqual(ended.payload, { city: "Oslo" })
  })
})

describe("PEOPLE-1 sessions", () => {
  const sessions = (model: ScriptedModel.Script) =>
    Session.layer([shop]).pipe(Layer.provide(VersionedStore.layerMemory), Layer.provide(ScriptedModel.layer(model)))

  it.live("PEOPLE-1 a session waits, the list names for whom, and of two answers the first one wins", () =>
    Effect.gen(function* () {
      yield* Session.turn("a", "A coat")
      const waiting = yield* Session.list({ waitsFor: "person" })
      assert.deepStrictEqual(
        waiting.sessions.map(({ id, status, waitsFor }) => [id, status, waitsFor]),
        [["a", "waiting", "person"]]
      )
      assert.deepStrictEqual((yield* Session.list({ waitsFor: "client" })).sessions, [])
      const { requests } = Option.getOrThrow(yield* Session.state("a"))
      const [call, question] = requests
      assert(call?._tag === "Call" && question?._tag === "Question")
      const refused = yield* Effect.flip(Session.decide("a", [Run.answer(question, { size: "XXL" })]))
      assert(refused.reason._tag === "InvalidDecision" && refused.category === "invalid")
      assert.deepStrictEqual(pluck(refused.reason.error.problems ?? [], "path"), ["/size"])
      yield* Session.decide("a", [Run.answer(question, { size: "M" })])
      const late = yield* Effect.flip(Session.decide("a", [Run.answer(question, { size: "L" })]))
      assert(late.reason._tag === "InvalidDecision" && late.category === "conflict")
      assert.strictEqual(late.reason.error.problem, "alreadyAnswered")
      // The page still has to make its call
      yield* Effect.repeat(Session.list({ waitsFor: "client" }), { until: ({ sessions }) => sessions.length === 1 })
      const receipt = yield* Session.decide("a", [Run.answer(call, { city: "Oslo" })])
      assert.strictEqual((yield* Session.await("a", receipt)).text, "A coat, size M.")
      const afterwards = yield* Effect.flip(Session.decide("a", [Run.answer(question, { size: "L" })]))
      assert(afterwards.reason._tag === "InvalidDecision")
      assert.strictEqual(afterwards.reason.error.problem, "alreadyAnswered")
      assert.deepStrictEqual(
        (yield* Session.list()).sessions.map(({ waitsFor }) => waitsFor),
        [undefined]
      )
    }).pipe(Effect.provide(sessions(script())), Effect.timeout("20 seconds"))
  )
})
