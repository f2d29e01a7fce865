/** MONEY-4: guards at the places of a run. */
import { assert, describe } from "@effect/vitest"
import { Arbitrary, Context, Effect, Fiber, Layer, Schema, Stream } from "effect"
import { Decision, DecisionModel, Prompt, Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import {
  Agent,
  AgentDefinition,
  Conversation,
  Guard,
  Message,
  ModelRegistry,
  Run,
  ToolResolver,
  ToolResult
} from "effect-emissary"
import { Plan, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { endsAs } from "../outcomes.ts"
import { test } from "../test.ts"
import { throughJson } from "./fixtures.ts"

const ran: Array<unknown> = []

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ amount: Schema.Int }), success: Schema.String }),
  Tool.make("note", { success: Schema.String })
)

const handlers = toolkit.toLayer({
  pay: ({ amount }) => Effect.sync(() => `paid ${ran.push(amount) > 0 ? amount : 0}`),
  note: () => Effect.sync(() => `noted ${ran.push("note") > 0 ? "key sk-1" : ""}`)
})

const pay = (amount: number): ScriptedModel.Turn => ({ toolCalls: [{ id: "c1", name: "pay", params: { amount } }] })

const world = (script: ScriptedModel.Script) =>
  Layer.suspend(() => {
    ran.length = 0
    return Layer.merge(handlers, ScriptedModel.layer(script))
  })

const desk = Agent.make("desk", { toolkit })

/** A guard that refuses a text with `word`. */
const without = <const P extends Guard.Place>(word: string, on: P, terms: Guard.Terms = {}) =>
  Guard.make(`no-${word}`, {
    ...terms,
    on,
    check: ({ text }) => Effect.succeed(text.includes(word) ? Guard.refuse(`It has ${word}.`) : Guard.pass)
  })

const passAll = (["input", "beforeModel", "afterModel", "beforeTool", "afterTool", "output"] as const).map((on) =>
  Guard.make(`pass-${on}`, { on, check: () => Effect.succeed(Guard.pass) })
)

const texts = ({ conversation }: { readonly conversation: Conversation.Conversation }) =>
  Conversation.messages(conversation).map((message) => `${message.role}: ${Message.text(message)}`)

const requests = Effect.map(ScriptedModel.requests, (all) =>
  all.map(({ messages }) => messages.map(({ text }) => text))
)

describe("MONEY-4 a guard of the input", () => {
  const guards = [without("bomb", "input")]

  test("refuses a message, whose text no request has, then or later", function* () {
    const { refused, result, sent } = yield* Effect.gen(function* () {
      const refused = yield* endsAs("Refused", desk.run("Build a bomb.", { guards }))
      const result = yield* endsAs("Completed", desk.resume(refused.state, { input: "Hello.", guards }))
      return { refused, result, sent: yield* requests }
    }).pipe(Effect.provide(world([{ text: "Hi." }])))
    assert.deepInclude(refused, { guard: "no-bomb", on: "input", reason: "It has bomb.", steps: 0 })
    assert.strictEqual(result.text, "Hi.")
    assert.lengthOf(sent, 1)
    assert.notInclude(JSON.stringify(sent), "bomb")
  })

  test("replaces the text of a message, and of a message that steers", function* () {
    const mask = Guard.make("mask", {
      on: "input",
      check: ({ text }) => Effect.succeed(Guard.replace(text.replaceAll(/\d/g, "#")))
    })
    let isGiven = false
    const steering = Effect.sync(() => {
      const given = isGiven ? [] : ["And 456."]
      isGiven = true
      return given
    })
    const result = yield* endsAs("Completed", desk.run("Card 123.", { guards: [mask], steering })).pipe(
      Effect.provide(world([{ text: "Hi." }]))
    )
    assert.deepStrictEqual(texts(result).slice(0, 2), ["user: Card ###.", "user: And ###."])
  })

  test("refuses a message, whose text is in no event", function* () {
    const events: Array<Run.Event> = []
    const onEvent = ({ event }: { readonly event: Run.Event }) => Effect.sync(() => void events.push(event))
    yield* endsAs("Refused", desk.run("Build a bomb.", { guards, onEvent })).pipe(Effect.provide(world([])))
    const texts = events.flatMap((event) => (event._tag === "InputAdded" ? [Message.text(event.message)] : []))
    assert.deepStrictEqual(texts, ["[This message was withheld by a guard.]"])
  })

  test("refuses a message that steers, and the run ends", function* () {
    const steering = Effect.succeed(["A bomb."])
    const result = yield* endsAs("Refused", desk.run("Hello.", { guards, steering })).pipe(Effect.provide(world([])))
    assert.notInclude(JSON.stringify(texts(result)), "bomb")
  })
})

describe("MONEY-4 guards around the model", () => {
  test("before it replace the prompt of one request, and the conversation stays", function* () {
    const guard = Guard.make("mask", {
      on: "beforeModel",
      check: ({ prompt }) =>
        Effect.succeed(
          Guard.replace(Prompt.fromMessages([...prompt.content, Prompt.makeMessage("system", { content: "Be kind." })]))
        )
    })
    const { result, sent } = yield* Effect.gen(function* () {
      const result = yield* endsAs("Completed", desk.run("Hello.", { guards: [guard] }))
      return { result, sent: yield* requests }
    }).pipe(Effect.provide(world([{ text: "Hi." }])))
    assert.deepStrictEqual(sent, [["Hello.", "Be kind."]])
    assert.deepStrictEqual(texts(result), ["user: Hello.", "assistant: Hi."])
  })

  test("before it refuse, and no request is made", function* () {
    const { result, sent } = yield* Effect.gen(function* () {
      const result = yield* endsAs("Refused", desk.run("Hello.", { guards: [without("Hello", "beforeModel")] }))
      return { result, sent: yield* requests }
    }).pipe(Effect.provide(world([{ text: "Hi." }])))
    assert.lengthOf(sent, 0)
    assert.strictEqual(result.on, "beforeModel")
  })

  test("refuse an answer, of which nothing is kept but its tokens", function* () {
    const usage = { inputTokens: 7, outputTokens: 3 }
    for (const on of ["afterModel", "output"] as const) {
      const result = yield* endsAs("Refused", desk.run("The key?", { guards: [without("sk-", on)] })).pipe(
        Effect.provide(world([{ text: "It is sk-1.", usage }]))
      )
      assert.deepInclude(result, { guard: "no-sk-", on, text: "", usage })
      assert.deepStrictEqual(texts(result), ["user: The key?"])
    }
  })

  test("replace the text of an answer with its thoughts, which may have the text", function* () {
    const guard = Guard.make("mask", { on: "output", check: () => Effect.succeed(Guard.replace("It is a key.")) })
    const turn = { reasoning: "The key is sk-1.", text: "It is sk-1." }
    const { conversation } = yield* endsAs("Completed", desk.run("Hi.", { guards: [guard] })).pipe(
      Effect.provide(world([turn]))
    )
    assert.notInclude(JSON.stringify(Conversation.messages(conversation)), "sk-1")
  })

  test("a run that is resumed after a refusal asks the model again", function* () {
    const guards = [without("sk-", "output")]
    const result = yield* Effect.gen(function* () {
      const refused = yield* endsAs("Refused", desk.run("The key?", { guards }))
      const state = yield* throughJson(refused.state)
      return yield* endsAs("Completed", desk.resume(state, { guards }))
    }).pipe(Effect.provide(world([{ text: "It is sk-1." }, { text: "I do not tell." }])))
    assert.deepStrictEqual(texts(result), ["user: The key?", "assistant: I do not tell."])
  })

  test("the output guard sees a text beside calls", function* () {
    const script = [{ text: "It is sk-1.", toolCalls: [{ id: "c1", name: "note", params: {} }] }]
    yield* endsAs("Refused", desk.run("The key?", { guards: [without("sk-", "output")] })).pipe(
      Effect.provide(world(script))
    )
    assert.lengthOf(ran, 0)
  })

  for (const strategy of ["native", "tool"] as const) {
    test(`structured output passes them, with the strategy ${strategy}`, function* () {
      const city = Agent.make("city", { output: Schema.Struct({ city: Schema.String }), outputStrategy: strategy })
      const answer = (name: string): ScriptedModel.Turn =>
        strategy === "native"
          ? { text: JSON.stringify({ city: name }) }
          : { toolCalls: [{ id: "c1", name: "final_answer", params: { city: name } }] }
      const refused = yield* endsAs("Refused", city.run("Where?", { guards: [without("Rome", "output")] })).pipe(
        Effect.provide(world([answer("Rome")]))
      )
      assert.strictEqual(refused.on, "output")
      const other = Guard.make("other", {
        on: "output",
        check: ({ text }) => Effect.succeed(Guard.replace(text.replace("Rome", "Oslo")))
      })
      const result = yield* endsAs("Completed", city.run("Where?", { guards: [other] })).pipe(
        Effect.provide(world([answer("Rome")]))
      )
      assert.deepStrictEqual(result.output, { city: "Oslo" })
    })
  }

  test("beside the model a guard decides while the model answers, and its refusal ends the call", function* () {
    const { result, sent } = yield* Effect.gen(function* () {
      const beside = without("bomb", "beforeModel", { when: "beside" })
      const result = yield* endsAs("Refused", desk.run("A bomb?", { guards: [beside] }))
      return { result, sent: yield* requests }
    }).pipe(Effect.provide(world([{ text: "First", delay: "1 hour" }])))
    assert.lengthOf(sent, 1)
    assert.deepStrictEqual(texts(result), ["user: A bomb?"])
    const passed = yield* endsAs(
      "Completed",
      desk.run("Hello.", { guards: [without("bomb", "beforeModel", { when: "beside" })] })
    ).pipe(Effect.provide(world([{ text: "Hi." }])))
    assert.strictEqual(passed.text, "Hi.")
  })
})

describe("MONEY-4 guards around a tool", () => {
  test("before it replace arguments, which are the arguments that a person approves and the handler gets", function* () {
    const half = Guard.make("half", {
      on: "beforeTool",
      check: (seen) =>
        Effect.succeed(
          seen.tool === "pay" ? Guard.replace({ amount: Number(seen.arguments["amount"]) / 2 }) : Guard.pass
        )
    })
    const person = Guard.make("person", {
      on: "beforeTool",
      check: () => Effect.succeed(Guard.ask("Money."))
    })
    let asked = 0
    const counted = Guard.make("counted", {
      on: "beforeTool",
      check: () => Effect.sync(() => (asked++ === 0 ? Guard.pass : Guard.refuse("twice")))
    })
    const guards = [half, person, counted]
    const result = yield* Effect.gen(function* () {
      const waiting = yield* endsAs("AwaitingApproval", desk.run("Pay.", { guards }))
      assert.deepStrictEqual(
        waiting.requests.map((request) => request.arguments),
        [{ amount: 5 }]
      )
      const state = yield* throughJson(waiting.state)
      const decisions = waiting.requests.filter(Run.isApprovable).map(Run.approve)
      return yield* endsAs("Completed", desk.resume(state, { decisions, guards }))
    }).pipe(Effect.provide(world([pay(10), { text: "Done." }])))
    assert.deepStrictEqual(ran, [5])
    assert.strictEqual(asked, 1)
    assert.strictEqual(result.text, "Done.")
  })

  test("before it refuse, and no call of the answer starts", function* () {
    const both = { toolCalls: [{ id: "n", name: "note", params: {} }, ...(pay(10).toolCalls ?? [])] }
    const result = yield* endsAs("Refused", desk.run("Pay.", { guards: [without("10", "beforeTool")] })).pipe(
      Effect.provide(world([both]))
    )
    assert.lengthOf(ran, 0)
    assert.lengthOf(Conversation.openCalls(result.conversation), 2)
  })

  test("arguments that do not fit the tool refuse", function* () {
    const wrong = Guard.make("wrong", {
      on: "beforeTool",
      check: () => Effect.succeed(Guard.replace({ amount: "all" }))
    })
    const result = yield* endsAs("Refused", desk.run("Pay.", { guards: [wrong] })).pipe(
      Effect.provide(world([pay(10)]))
    )
    assert.include(result.reason, "does not take")
    assert.lengthOf(ran, 0)
  })

  test("after it replace a result, or withhold it and end the run", function* () {
    const note = { toolCalls: [{ id: "n", name: "note", params: {} }] }
    const mask = Guard.make("mask", {
      on: "afterTool",
      check: ({ text }) => Effect.succeed(Guard.replace(ToolResult.success(text.replace("sk-1", "***"))))
    })
    const masked = yield* endsAs("Completed", desk.run("Note.", { guards: [mask] })).pipe(
      Effect.provide(world([note, { text: "Done." }]))
    )
    assert.include(texts(masked).join(), "noted key ***")
    const result = yield* endsAs("Refused", desk.run("Note.", { guards: [without("sk-", "afterTool")] })).pipe(
      Effect.provide(world([{ toolCalls: [...note.toolCalls, ...(pay(1).toolCalls ?? [])] }]))
    )
    assert.notInclude(texts(result).join(), "sk-1")
    assert.deepStrictEqual(ran, ["note"])
  })
})

describe("MONEY-4 guards compose", () => {
  const upper = (name: string, mark: string) =>
    Guard.make(name, { on: "output", check: ({ text }) => Effect.succeed(Guard.replace(text + mark)) })

  test("in order: the guards of the agent, of the run, and of the layer, each once", function* () {
    const b = upper("b", "b")
    const agent = Agent.make("desk", { guards: [upper("a", "a"), b] })
    const result = yield* endsAs("Completed", agent.run("Hi.", { guards: [upper("c", "c"), b] })).pipe(
      Effect.provide(Guard.layer([upper("d", "d")])),
      Effect.provide(world([{ text: "-" }]))
    )
    assert.strictEqual(result.text, "-abcd")
  })

  test("property: guards that pass change no event, and replacements are made in the order of the list", function* () {
    const marks = Arbitrary.array(Arbitrary.schema(Schema.Literals(["a", "b", "c"])), { maxLength: 5 })
    const eventsOf = (guards: ReadonlyArray<Guard.Guard>) =>
      Effect.gen(function* () {
        const found: Array<unknown> = []
        const onEvent = ({ event }: Agent.RecordedEvent) => Effect.sync(() => void found.push(event))
        const result = yield* desk.run("Pay 3.", { guards, onEvent })
        return { found, result }
      }).pipe(Effect.provide(world([pay(3), { text: "-" }])), Effect.provide(Message.layerSequentialIds()))
    const plain = yield* eventsOf([])
    assert.deepStrictEqual((yield* eventsOf(passAll)).found, plain.found)
    const samples = yield* Arbitrary.sampleEffect(marks, { count: 20, seed: 1 })
    for (const list of samples) {
      const { result } = yield* eventsOf(list.map((mark, index) => upper(`${index}`, mark)))
      assert.strictEqual(result.text, `-${list.join("")}`)
    }
  })

  test("a host's guards hold in agents that are tools, and in the steps of a plan", function* () {
    const guards = [without("sk-", "output")]
    const inner = Agent.make("inner")
    const outer = Agent.make("outer", { toolkit: [Agent.asTool(inner, { name: "inner", description: "Asks." })] })
    const call = { toolCalls: [{ id: "c1", name: "inner", params: { input: "Key?" } }] }
    const result = yield* endsAs("Completed", outer.run("Key?", { guards })).pipe(
      Effect.provide(world([call, { text: "It is sk-1." }, { text: "No key." }]))
    )
    assert.notInclude(texts(result).join(), "sk-1")
    const plan = yield* Plan.bind(yield* Plan.make("plan", [Step.make("ask", { target: inner })]))
    const failed = yield* Effect.flip(Plan.run(plan, "Key?")).pipe(
      Effect.provide(Guard.layer(guards)),
      Effect.provide(world([{ text: "It is sk-1." }]))
    )
    assert.include(failed.message, "no-sk-")
  })

  test("an agent that is built with guards of the host keeps them where it is called", function* () {
    class Desk extends Agent.Service<Desk>()("guarded-desk", {}) {}
    const result = yield* Effect.flatMap(Desk, (desk) => endsAs("Refused", desk.run("Key?"))).pipe(
      Effect.provide(Desk.layer.pipe(Layer.provide(Guard.layer([without("sk-", "output")])))),
      Effect.provide(world([{ text: "It is sk-1." }]))
    )
    assert.strictEqual(result.guard, "no-sk-")
  })
})

describe("MONEY-4 a guard that cannot decide", () => {
  test("has no value of another kind", function* () {
    for (const on of ["input", "afterTool", "output", "beforeTool"] as const) {
      const guard = Guard.make("odd", { on, check: () => Effect.succeed(Guard.replace(5 as never)) })
      const result = yield* endsAs("Refused", desk.run("Pay 5.", { guards: [guard] })).pipe(
        Effect.provide(world([pay(5), { text: "Done." }]))
      )
      assert.include(result.reason, "could not decide", on)
    }
  })

  test("refuses with a reason of its own: after a failure, a defect, a timeout, or a verdict of another place", function* () {
    const checks: ReadonlyArray<readonly [Effect.Effect<never, string>, string]> = [
      [Effect.fail("down"), "it failed"],
      [Effect.die(new Error("bug")), "it failed"],
      [Effect.never, "it took too long"]
    ]
    const ended = Effect.fnUntraced(function* (guard: Guard.Guard) {
      const running = yield* Effect.forkChild(
        desk.run("Hi.", { guards: [guard] }).pipe(Effect.provide(world([{ text: "Hi." }])))
      )
      yield* TestClock.adjust("1 minute")
      return yield* Fiber.join(running)
    })
    for (const [check, why] of checks) {
      const result = yield* endsAs("Refused", ended(Guard.make("down", { on: "output", check: () => check })))
      assert.include(result.reason, why)
      yield* endsAs("Completed", ended(Guard.make("down", { on: "output", onFailure: "pass", check: () => check })))
    }
    const beside = Guard.make("beside", {
      on: "beforeModel",
      when: "beside",
      check: ({ prompt }) => Effect.succeed(Guard.replace(prompt))
    })
    assert.include((yield* endsAs("Refused", ended(beside))).reason, "no such verdict")
  })
})

describe("MONEY-4 what decides", () => {
  test("may be an agent, which the guards of the host do not guard", function* () {
    const judge = Agent.make("judge", { output: Schema.Struct({ safe: Schema.Boolean }) })
    const guard = Guard.fromAgent("judge", {
      on: "output",
      agent: judge,
      verdict: ({ safe }) => (safe ? Guard.pass : Guard.refuse("The judge says no."))
    })
    const agent = Agent.make("desk", { guards: [guard] })
    const ofHost = Effect.flatMap(Guard.bind(guard), (bound) => desk.run("Hi.", { guards: [bound] }))
    for (const run of [agent.run("Hi."), ofHost]) {
      const result = yield* endsAs("Refused", run).pipe(
        Effect.provide(world([{ text: "Hm." }, { text: `{"safe":false}` }]))
      )
      assert.strictEqual(result.reason, "The judge says no.")
    }
  })

  test("may be a DecisionModel that classifies or rates", function* () {
    const definition = Decision.make({
      input: Schema.Struct({ text: Schema.String }),
      decisions: {
        topic: Decision.classify({ instructions: "topic", criteria: { orders: "orders", other: null } }),
        anger: Decision.rate({ instructions: "anger", criteria: ["calm", "angry"] })
      }
    })
    const topic = Guard.fromDecision("topic", {
      on: "input",
      definition,
      verdict: ({ anger, topic }) =>
        topic.label === "other" || anger.rating > 0.5 ? Guard.refuse("Only orders, please.") : Guard.pass
    })
    const topicIn = (text: string) => {
      const orders = text.includes("order") ? 1 : 0
      const label = orders === 1 ? "orders" : "other"
      return { _tag: "Classify" as const, label, probabilities: { orders, other: 1 - orders } }
    }
    const model = Layer.effect(
      DecisionModel.DecisionModel,
      DecisionModel.make({
        decide: ({ state }) =>
          Effect.succeed({
            answers: {
              topic: topicIn(JSON.stringify(state)),
              anger: { _tag: "Rate" as const, rating: 0, probabilities: { calm: 1, angry: 0 } }
            },
            usage: { inputTokens: undefined, outputTokens: undefined }
          })
      })
    )
    const agent = Agent.make("desk", { guards: [topic] })
    const layer = Layer.merge(model, world([{ text: "Hi." }]))
    yield* endsAs("Completed", agent.run("My order?").pipe(Effect.provide(layer)))
    yield* endsAs("Refused", agent.run("The weather?").pipe(Effect.provide(layer)))
  })

  class Words extends Context.Service<Words, ReadonlyArray<string>>()("test/Words") {}

  test("may need services, which the agent requires, and a run has bound", function* () {
    const words = Guard.make("words", {
      on: "output",
      check: ({ text }) =>
        Effect.map(Words, (all) => (all.some((one) => text.includes(one)) ? Guard.refuse("A word.") : Guard.pass))
    })
    const agent = Agent.make("desk", { guards: [words] })
    const given = Layer.merge(Layer.succeed(Words, ["sk-"]), world([{ text: "sk-1" }]))
    yield* endsAs("Refused", agent.run("Hi.").pipe(Effect.provide(given)))
    const bound = Effect.flatMap(Guard.bind(words), (guard) => desk.run("Hi.", { guards: [guard] }))
    yield* endsAs("Refused", bound.pipe(Effect.provide(given)))
    // @ts-expect-error a guard of a run has no services of its own
    void desk.run("Hi.", { guards: [words] })
  })
})

describe("MONEY-4 guards and data", () => {
  const agent = Agent.make("desk", { model: "test/one", guards: [without("sk-", "output")] })

  const built = (script: ScriptedModel.Script) =>
    Layer.merge(
      ModelRegistry.layer({
        test: ModelRegistry.provider({ options: Schema.Struct({}), model: () => ScriptedModel.layer(script) })
      }),
      ToolResolver.layerStubs()
    )

  test("a definition has the names of guards, and an agent that is rebuilt has the guards", function* () {
    const wire = yield* Agent.encode(agent)
    assert.include(JSON.stringify(wire), `"guards":["no-sk-"]`)
    const result = yield* Effect.flatMap(Agent.decode(wire), (desk) => endsAs("Refused", desk.run("Key?"))).pipe(
      Effect.provide(Guard.layerNamed([without("sk-", "output")])),
      Effect.provide(built([{ text: "It is sk-1." }]))
    )
    assert.strictEqual(result.guard, "no-sk-")
  })

  test("a guard that is not there fails the rebuild, and version 1 names the loss", function* () {
    const wire = yield* Agent.encode(agent)
    const error = yield* Effect.flip(Agent.decode(wire)).pipe(Effect.provide(built([])))
    assert.include(error.message, "/guards/0")
    assert.include(error.message, "no-sk-")
    const lost = yield* Effect.flip(Agent.encode(agent, { version: 1 }))
    assert.include(lost.message, "/guards")
    const definition = yield* AgentDefinition.codec.decode(wire)
    assert.deepStrictEqual(definition.guards, ["no-sk-"])
  })
})

describe("MONEY-4 streams", () => {
  const shown = (guards: ReadonlyArray<Guard.Guard>, script: ScriptedModel.Script) =>
    desk.stream("Key?", { guards }).pipe(
      Stream.runCollect,
      Effect.map((events) => ({
        deltas: events.flatMap((event) => (event._tag === "TextDelta" ? [event.delta] : [])).join(""),
        ids: new Set(events.flatMap((event) => (event._tag === "TextDelta" ? [event.messageId] : []))),
        answers: events.flatMap((event) => (event._tag === "StepFinished" ? [event.message.id] : [])),
        outcome: events.flatMap((event) => (event._tag === "RunFinished" ? [event.result.outcome] : []))
      })),
      Effect.provide(world(script))
    )

  test("hold the text back until it has passed, and show none of a refused answer", function* () {
    const script = [{ text: "It is sk-1." }]
    const refused = yield* shown([without("sk-", "output")], script)
    assert.deepInclude(refused, { deltas: "", outcome: ["Refused"] })
    const passed = yield* shown([without("bomb", "output")], script)
    assert.deepInclude(passed, { deltas: "It is sk-1.", outcome: ["Completed"] })
    assert.deepStrictEqual(Array.from(passed.ids), passed.answers)
  })

  test("show the text live where a guard allows it, and an answer that was replaced is another message", function* () {
    const mask = Guard.make("mask", {
      on: "output",
      text: "live",
      check: ({ text }) => Effect.succeed(Guard.replace(text.replace("sk-1", "***")))
    })
    const live = yield* shown([mask], [{ text: "It is sk-1." }])
    assert.strictEqual(live.deltas, "It is sk-1.")
    assert.isFalse(live.ids.has(live.answers[0] ?? ""))
  })

  test("an answer that is cut off before its guard has decided is not kept", function* () {
    const stream = desk.stream("Key?", { guards: [without("bomb", "output")], timeouts: { total: "90 seconds" } })
    const slow = [{ text: "It is what it is, and it was.", chunkDelay: "1 minute" as const }]
    const running = yield* Effect.forkChild(Stream.runCollect(stream).pipe(Effect.provide(world(slow))))
    yield* TestClock.adjust("90 seconds")
    const events = yield* Fiber.join(running)
    const last = events.at(-1)
    assert(last?._tag === "RunFinished")
    assert.deepStrictEqual(texts(last.result), ["user: Key?"])
  })
})
