/** PLAN-8: a plan is an agent. */
import { assert, describe } from "@effect/vitest"
import { Context, Effect, Fiber, Layer, Option, Result, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, AgentError, Conversation, Message, Run, ToolResult } from "effect-emissary"
import { Plan, PlanError, Reference, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { failsFor } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { answered, around, asks, json, noted } from "./nested.ts"
import { completed, gate, log, planOf } from "./support.ts"
import { after } from "../after.ts"
import { test } from "../test.ts"
import { decide } from "../decisions.ts"

/** A plan of one function, and a plan that waits. */
const only = (answer: Parameters<ReturnType<typeof log>["fn"]>[1]) =>
  planOf([Step.make("a", { target: log().fn("a", answer) })])
const pausing = only(() => Step.pause("wait"))

describe("a plan as an agent", () => {
  test("PLAN-8 answers with the output of its last step", function* () {
    const { fnStep } = log()
    const bound = yield* planOf([fnStep("a"), fnStep("b")], { name: "two" })
    assert.strictEqual(bound.name, "two")
    const result = completed(yield* bound.run("x"))
    assert.deepStrictEqual([result.output, result.text, result.steps], ["b(a(x))", "b(a(x))", 1])
    assert.deepStrictEqual(pluck(Conversation.transcript(result.conversation), "role"), ["user", "assistant"])
    assert.strictEqual(result.state.definition, bound.digest)
    assert.isUndefined(result.state.plan)
    assert.strictEqual(yield* bound.ask("y"), "b(a(y))")
  })

  test("PLAN-8 returns typed output, and a text for people", function* () {
    const { fn } = log()
    const Sum = Schema.Struct({ sum: Schema.FiniteFromString })
    const bound = yield* planOf([Step.make("a", { target: fn("a", () => ({ sum: "12" })) })], { output: Sum })
    const result = completed(yield* bound.run("x"))
    const sum: number = result.output.sum
    assert.strictEqual(sum, 12)
    assert.strictEqual(result.text, `{"sum":"12"}`)
    completed(yield* bound.resume(yield* json(result.state)))
    const empty = completed(yield* (yield* only(() => null)).run("x"))
    assert.deepStrictEqual([empty.output, empty.text], [null, ""])
  })

  test("PLAN-8 the newest message is the task, its files the content, the messages before it the context", function* () {
    const { fn } = log()
    const seen = fn("seen", ({ content, context, task }) => ({ task, context: context ?? null, files: content.length }))
    const bound = yield* planOf([
      Step.make("seen", { target: seen, task: Reference.fromStart, context: Reference.fromStart })
    ])
    const picture = ToolResult.filePart({ mediaType: "image/png", data: new Uint8Array([1]) })
    const first = yield* bound.ask([ToolResult.textPart("look"), picture])
    assert.deepStrictEqual(first, { task: "look", context: "look", files: 1 })
    const { conversation } = yield* bound.run("one")
    const second = yield* bound.ask("two", { conversation })
    const before = `User: one\n\nAssistant: {"context":"one","files":0,"task":"one"}`
    assert.deepStrictEqual(second, { task: "two", context: `${before}\n\ntwo`, files: 0 })
    const said = yield* Conversation.addUser(conversation, "three")
    assert.propertyVal(yield* bound.ask(undefined, { conversation: said }), "task", "three")
  })

  test("PLAN-8 a conclusion is an answer: its text, or the JSON in it where the output needs that", function* () {
    assert.strictEqual(yield* (yield* only(() => Step.conclude("enough"))).ask("x"), "enough")
    const Answer = Schema.Struct({ ok: Schema.Boolean })
    const plan = (answer: string) =>
      planOf([Step.make("a", { target: () => Step.conclude(answer) })], { output: Answer })
    assert.deepStrictEqual(yield* (yield* plan(`{"ok":true}`)).ask("x"), { ok: true })
    const invalid = yield* (yield* plan("enough")).run("x")
    assert(invalid.outcome === "InvalidOutput")
    assert.strictEqual(invalid.text, "enough")
  })

  test("PLAN-8 a failed step is an AgentError without user text, and its state resumes at that step", function* () {
    const { fn, ran, fnStep } = log()
    let failing = true
    const down = Effect.fail({ _tag: "Down", message: "a secret" })
    const bound = yield* planOf([
      fnStep("a"),
      Step.make("b", { target: fn("b", ({ task }) => (failing ? down : task)) })
    ])
    const error = yield* Effect.flip(bound.run("x"))
    assert(error.reason._tag === "DelegateFailed")
    assert.include(error.message, `the step "b" failed with Down`)
    assert.notInclude(error.message, "a secret")
    assert.instanceOf(Option.getOrThrow(AgentError.causeOf(error.reason)), PlanError.PlanError)
    assert(error.state !== undefined)
    failing = false
    assert.strictEqual((yield* bound.resume(yield* json(error.state))).text, "a(x)")
    assert.deepStrictEqual(ran, ["a", "b", "b"])
  })

  test("PLAN-8 a text that is the JSON which the plan reads is its payload", function* () {
    const { fn } = log()
    const N = Schema.Struct({ n: Schema.Finite })
    const double = Step.make("double", { input: N, target: ({ payload }) => Effect.succeed(payload.n * 2) })
    const bound = yield* planOf([double])
    assert.strictEqual(yield* bound.ask(`{"n": 21}`), 42)
    // A step that reads it later, a band, and a plan inside
    const later = yield* planOf([
      Step.make("a", { target: fn("a", ({ task }) => task), parallel: true }),
      Step.make("b", { target: fn("b", ({ payload }) => payload), parallel: true }),
      Step.make("double", { input: N, task: Reference.fromStart, target: bound })
    ])
    assert.strictEqual(yield* later.ask(`{"n":21}`), 42)
    const inside = yield* planOf([Step.make("inner", { target: bound })], { name: "around" })
    assert.strictEqual(yield* inside.ask(`{"n":21}`), 42)
    // A text that fits stays one
    const text = yield* planOf([
      Step.make("a", { input: Schema.String, target: ({ payload }) => Effect.succeed(payload.length) })
    ])
    assert.strictEqual(yield* text.ask(`{"n":21}`), 8)
  })

  test("PLAN-8 L8 the model of an outer agent reads what it can use, and no advice for the author of the plan", function* () {
    const N = Schema.Struct({ n: Schema.Finite })
    const told = <R>(plan: Agent.Agent<unknown, R>, ...inner: ReadonlyArray<{ readonly text: string }>) =>
      Effect.gen(function* () {
        yield* around(plan).run("hello")
        const { requests } = yield* ScriptedModel.ScriptedModel
        return JSON.stringify((yield* requests).at(-1)?.messages)
      }).pipe(answered(asks, ...inner, { text: "Sorry." }))
    const advice = ["causeOf", "resume", "`output`"]
    const input = yield* told(yield* planOf([Step.make("double", { input: N, target: () => Effect.succeed(0) })]))
    assert.include(input, "failed with InputInvalid: input at the root: expected object, got string")
    const writer = Agent.make("writer", { instructions: "Write." })
    const written = yield* planOf([Step.make("write", { output: N, target: writer })])
    const output = yield* told(written, { text: "prose" })
    assert.include(output, "failed with OutputInvalid: output at the root: expected object, got string")
    // Types can be borrowed; the text of an error with a borrowed type is not passed on
    const borrowed = yield* told(yield* only(() => Effect.fail({ _tag: "Timeout", message: "hunter2" })))
    assert.include(borrowed, "failed with Timeout")
    assert.notInclude(borrowed, "hunter2")
    for (const text of [input, output, borrowed]) for (const words of advice) assert.notInclude(text, words)
  })

  test("PLAN-8 used up iterations are MaxSteps, resumable with more", function* () {
    const { fn, ran } = log()
    const bound = yield* planOf(
      [Step.make("a", { target: fn("a", () => ran.length), routes: [["a", When.payload.lessThan(5)]] })],
      { maxIterations: 2 }
    )
    const limited = yield* bound.run("x")
    assert.strictEqual(limited.outcome, "MaxSteps")
    assert.strictEqual((yield* bound.resume(yield* json(limited.state))).outcome, "MaxSteps")
    const done = yield* bound.resume(yield* json(limited.state), { maxSteps: 9 })
    assert.deepStrictEqual([done.outcome, done.text, ran.length], ["Completed", "5", 5])
    assert.strictEqual((yield* bound.run("x", { maxSteps: "unlimited" })).outcome, "Completed")
  })

  test("PLAN-8 a state of another plan is refused", function* () {
    const one = yield* pausing
    const two = yield* planOf([log().fnStep("b")])
    const waiting = yield* one.run("x")
    const error = yield* Effect.flip(two.resume(waiting.state))
    assert.strictEqual(error.reason._tag, "DefinitionChanged")
    const agent = Agent.make("agent", {})
    const done = yield* answered({ text: "hi" })(agent.run("hello"))
    assert.strictEqual((yield* Effect.flip(one.resume(done.state))).reason._tag, "DefinitionChanged")
    // A model never continues progress, not even with the same digest
    const text = yield* Run.stateCodec.encodeJson(waiting.state)
    const same = yield* Run.stateCodec.decodeJson(
      text.replace(`"definition":"${one.digest}`, `"definition":"${done.state.definition}`)
    )
    assert.strictEqual(same.definition, done.state.definition)
    for (const state of [waiting.state, same]) {
      const refused = yield* Effect.flip(answered()(agent.resume(state)))
      assert.strictEqual(refused.reason._tag, "DefinitionChanged")
    }
  })

  test("PLAN-8 a next message waits for the answer, and calls of a conversation are unknown tools", function* () {
    const { fn, fnStep } = log()
    const gate = fn("gate", ({ task }) => (task === "one" && !open ? Step.pause("wait") : task))
    let open = false
    const bound = yield* planOf([fnStep("a"), Step.make("gate", { target: gate, task: Reference.fromStart })])
    const waiting = yield* bound.run("one")
    open = true
    const decisions = decide(waiting.state)
    const next = yield* bound.resume(waiting.state, { input: "two", decisions })
    assert.deepStrictEqual(Conversation.messages(next.conversation).map(Message.text), ["one", "one", "two", "two"])
    const asked = yield* Conversation.addUser(Conversation.empty, "hello")
    const calling = [{ type: "tool-call", id: "c", name: "gone", arguments: {} }] as const
    const conversation = yield* Conversation.addAssistant(asked, calling)
    const result = yield* bound.run(undefined, { conversation })
    assert.include(JSON.stringify(Conversation.transcript(result.conversation)), "unknown_tool")
  })

  test("PLAN-8 timeouts and interruption end it as agents end, and it can be resumed", function* () {
    const { fn, ran, fnStep } = log()
    const { begun, hook, open } = yield* gate
    const held = fn("b", ({ task }) => Effect.as(hook, task))
    const bound = yield* planOf([fnStep("a"), Step.make("b", { target: held })])
    const running = yield* Effect.forkChild(bound.run("x", { timeouts: { total: "5 seconds", step: "1 second" } }))
    yield* begun
    yield* TestClock.adjust("4 seconds")
    assert.isUndefined(running.pollUnsafe(), "a function has no timeout but the total one")
    yield* TestClock.adjust("1 second")
    const late = yield* Fiber.join(running)
    assert(late.outcome === "Interrupted")
    assert.strictEqual(late.reason, "timeout")

    const { onEvent, states } = yield* noted
    const cut = yield* Effect.forkChild(bound.run("x", { onEvent }))
    while (ran.length < 4) yield* Effect.yieldNow
    yield* Fiber.interrupt(cut)
    const last = states.at(-1)
    assert(last?.outcome?._tag === "Interrupted")

    const stopped = yield* bound.run("x", {
      interruptWhen: (event) =>
        event._tag === "PlanEvent" && event.event._tag === "StepFinished" ? { reason: "enough" } : undefined
    })
    assert(stopped.outcome === "Interrupted")
    assert.strictEqual(stopped.reason, "enough")

    yield* open
    ran.length = 0
    for (const state of [late.state, last, stopped.state]) {
      assert.strictEqual((yield* bound.resume(yield* json(state))).text, "a(x)")
    }
    assert.deepStrictEqual(ran, ["b", "b", "b"])
  })

  test("PLAN-8 L10 what is recorded for a step does not grow with the run", function* () {
    const { fn, ran } = log()
    const bound = yield* planOf(
      [Step.make("a", { target: fn("a", () => ran.length), routes: [["a", When.payload.lessThan(50)]] })],
      { maxIterations: 60 }
    )
    const sizes: Array<number> = []
    yield* bound.run("x", {
      onEvent: ({ event }) =>
        Effect.sync(() => {
          if (event._tag === "PlanEvent") sizes.push(JSON.stringify(event.event).length)
        })
    })
    assert.isAbove(sizes.length, 40)
    assert.isBelow(Math.max(...sizes.slice(10)), 2 * Math.max(...sizes.slice(0, 5)))
  })

  test("PLAN-8 retry and modelMistakes of the run hold for the agents in steps, also under an agent", function* () {
    const bound = yield* planOf([Step.make("ask", { target: Agent.make("asker", {}) })])
    const flaky = [{ fail: { reason: "RateLimitError" } }, { text: "at last" }] as const
    const retry = { times: 1, delay: 0 }
    const failed = yield* answered(...flaky)(Effect.flip(bound.run("x", { retry: { times: 0 } })))
    assert.strictEqual(failed.reason._tag, "DelegateFailed")
    const done = yield* answered(...flaky)(bound.run("x", { retry }))
    assert.strictEqual(done.text, "at last")
    const script = answered(asks, ...flaky, { expect: { toolResult: "at last" }, text: "done" })
    assert.strictEqual(yield* script(around(bound).ask("go", { retry })), "done")
  })

  test("SOUND-6 M8 PLAN-8 a context with a key that names a secret is refused before anything runs", function* () {
    const bound = yield* pausing
    const error = yield* failsFor("OptionsInvalid", bound.run("x", { context: { api_key: "k" } }))
    assert.include(error.message, "/api_key")
  })

  test("PLAN-8 HOUSE-3 its state holds the state of the plan, from which a plan that is another one does not continue", function* () {
    const bound = yield* pausing
    const { state } = yield* bound.run("x")
    assert.deepStrictEqual(
      state.plan?.turn?.members.map(({ step }) => step),
      ["a"]
    )
    const other = yield* planOf([Step.make("other", { target: () => Step.pause("wait") })], { name: bound.name })
    const error = yield* failsFor("DefinitionChanged", other.resume(state, { decisions: decide(state) }))
    assert.include(JSON.stringify(error.reason.changes), "/steps/a")
  })

  test("PLAN-8 as a service: the type of its layer has what is missing, and it works as a step and as a tool", function* () {
    const find = Tool.make("find", { parameters: Schema.Struct({ input: Schema.String }), success: Schema.String })
    const toolkit = Toolkit.make(find)
    class Language extends Context.Service<Language, string>()("test/Language") {}
    class Writer extends Agent.Service<Writer>()("writer", { instructions: "Write." }) {}
    class Research extends Plan.Service<Research>()(
      "research",
      Effect.flatMap(
        Plan.make("research", [
          Step.make("find", { target: "find" }),
          Step.make("write", { target: Writer }),
          Step.make("translate", { target: ({ task }) => Effect.map(Language, (language) => `${task} (${language})`) })
        ]),
        (plan) => Plan.bind(plan, { toolkit })
      )
    ) {}
    const live = Research.layer.pipe(
      Layer.provide(Writer.layer),
      Layer.provide(ScriptedModel.layer(() => ({ text: "a text" }))),
      Layer.provide(Layer.succeed(Language, "de")),
      Layer.provide(toolkit.toLayer({ find: ({ input }) => Effect.succeed(`found ${input}`) }))
    )
    const answers = yield* Effect.gen(function* () {
      const research = yield* Research
      const asked = yield* research.ask("it")
      const native = yield* Plan.run(research, "it")
      const streamed = yield* Stream.runCollect(research.stream("it"))
      const bound = yield* planOf([Step.make("in", { target: Research })])
      assert.deepStrictEqual(bound.definition.steps[0]?.target, { kind: "agent", name: "research" })
      const nested = yield* Plan.run(bound, "it")
      const last = streamed.at(-1)
      assert(last?._tag === "RunFinished")
      class Outer extends Agent.Service<Outer>()("outer", {
        toolkit: [Agent.asTool(Research, { name: "work", description: "Works" })]
      }) {}
      const model = ScriptedModel.layer([asks, { expect: { toolResult: "a text (de)" }, text: "done" }])
      const outer = yield* Effect.provide(Outer, Layer.provide(Outer.layer, model))
      const tool = yield* outer.ask("go")
      return [asked, completed(native).text, completed(nested).text, last.result.text, tool]
    }).pipe(Effect.provide(live))
    assert.deepStrictEqual(answers, ["a text (de)", "a text (de)", "a text (de)", "a text (de)", "done"])
  })

  test("PLAN-8 a service that is a step of itself waits at the bottom, and resumes there", function* () {
    const ran: Array<string> = []
    class Step1 extends Context.Service<Step1, number>()("test/Step1") {}
    const work = ({ task }: Step.Input) =>
      Effect.gen(function* () {
        ran.push(task)
        const left = Number(task) - (yield* Step1)
        if (left === 0 && ran.filter((one) => one === task).length === 1) return yield* Step.pause("at the bottom")
        return left
      })
    let self: Agent.Agent<unknown> | undefined
    const again = Effect.suspend(() => (self === undefined ? Effect.die("not made yet") : Effect.succeed(self)))
    class Counter extends Plan.Service<Counter>()(
      "counter",
      planOf(
        [
          Step.make("work", { target: work, routes: [["end", When.payload.lessThan(1)]] }),
          Step.make("again", { target: again }),
          Step.make("end", { target: ({ task }) => Effect.succeed(`${task}!`) })
        ],
        { name: "counter" }
      ).pipe(
        Effect.tap((bound) => {
          // Sound: the service provides what the plan requires.
          self = bound as Agent.Agent<unknown, unknown> as Agent.Agent<unknown>
          return Effect.void
        })
      )
    ) {}
    const done = yield* Effect.gen(function* () {
      const counter = yield* Counter
      const waiting = yield* counter.run("3")
      assert(waiting.outcome === "AwaitingApproval")
      assert.deepStrictEqual(waiting.requests[0].path, ["again", "again"])
      const decisions = [{ ...waiting.requests[0], approved: true }]
      return yield* counter.resume(yield* json(waiting.state), { decisions })
    }).pipe(Effect.provide(Layer.provide(Counter.layer, Layer.succeed(Step1, 1))))
    assert.strictEqual(done.text, "0!!!")
    assert.deepStrictEqual(ran, ["3", "2", "1", "1"])
  })
})

describe("plans as agents", () => {
  const wait = Tool.make("wait", { parameters: Schema.Struct({}), success: Schema.String })
  const pay = Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
  const kit = Toolkit.make(wait, pay)
  const handlers = kit.toLayer({
    wait: () => Effect.as(Effect.sleep("5 seconds"), "waited"),
    pay: () => Effect.succeed("paid")
  })
  const calling =
    (name: string): ScriptedModel.TurnFunction =>
    ({ messages }) => {
      const result = messages.find(({ role }) => role === "tool")
      return result === undefined ? { toolCalls: [{ id: "c", name, params: {} }] } : { text: JSON.stringify(result) }
    }

  const agent = Agent.make("agent", { toolkit: kit })
  const live = (name: string) => Layer.merge(handlers, ScriptedModel.layer(calling(name)))

  test("PLAN-8 L9 timeouts of tools and steps hold for the agents in steps", live("wait"), function* () {
    const bound = yield* planOf([Step.make("a", { target: agent })])
    const late = completed(yield* after("1 second", bound.run("x", { timeouts: { tool: "1 second" } })))
    assert.include(late.text, "timed out after 1 second")
    const { message } = yield* after("1 second", Effect.flip(bound.run("x", { timeouts: { step: "1 second" } })))
    assert.include(message, "Interrupted")
  })

  test("PLAN-8 L9 and for tools that are steps, and for plans that are", live("wait"), function* () {
    const waiting = Step.make("w", { target: "wait", input: Schema.Struct({}) })
    const inner = yield* Effect.flatMap(Plan.make("inner", [waiting]), (plan) => Plan.bind(plan, { toolkit: kit }))
    const agents = yield* planOf([Step.make("a", { target: agent })], { name: "agents" })
    const failures = (timeouts: Agent.Timeouts) =>
      Effect.forEach([inner, agents], (target) =>
        Effect.gen(function* () {
          const bound = yield* planOf([Step.make("o", { target })], { name: "outer" })
          const result = yield* after("10 seconds", Effect.result(Plan.run(bound, { payload: {} }, { timeouts })))
          if (Result.isSuccess(result)) return JSON.stringify(completed(result.success).output)
          const { reason } = result.failure
          return reason._tag === "StepFailed" ? reason.failure.type : reason._tag
        })
      )
    const [tool, inAgent] = yield* failures({ tool: "1 second" })
    assert.strictEqual(tool, "timeout_error")
    assert.include(inAgent, "timed out after 1 second")
    assert.deepStrictEqual(yield* failures({ step: "1 second" }), ['"waited"', "Interrupted"])
  })

  test(
    "PLAN-8 calls of the same id in two members of a parallel group are decided one by one, by their path",
    live("pay"),
    function* () {
      const bound = yield* planOf([
        Step.make("a", { target: agent, parallel: true }),
        Step.make("b", { target: agent, parallel: true }),
        Step.make("all", { target: () => Effect.succeed("done") })
      ])
      const first = yield* bound.run("x")
      assert(first.outcome === "AwaitingApproval")
      assert.deepStrictEqual(pluck(first.requests, "callId"), ["c", "c"])
      assert.deepStrictEqual(pluck(first.requests, "path"), [["a"], ["b"]])
      const [a, b] = decide(first.state)
      assert(a !== undefined && b !== undefined)
      for (const decisions of [[{ ...a, path: ["x"] }], [{ ...a, path: ["b"] }], [a, a]]) {
        const { reason } = yield* Effect.flip(bound.resume(first.state, { decisions }))
        assert.strictEqual(reason._tag, "InvalidDecision")
      }
      assert.strictEqual(completed(yield* bound.resume(first.state, { decisions: [b, a] })).text, "done")
      const second = yield* bound.resume(first.state, { decisions: [a] })
      assert(second.outcome === "AwaitingApproval")
      assert.deepStrictEqual(pluck(second.requests, "path"), [["b"]])
      assert.strictEqual(completed(yield* bound.resume(second.state, { decisions: decide(second.state) })).text, "done")
    }
  )
})
