/** PLAN-5, PLAN-7, PLAN-8: tools, agents and plans as steps. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Option, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent, ToolResult, ToolSettings } from "effect-emissary"
import { Plan, PlanError, PlanRun, Reference, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { pluck } from "../pluck.ts"
import { completed, failureIn, journal, log, planOf } from "./support.ts"
import { after } from "../after.ts"
import { endsAs, failsFor, failsMidway } from "../outcomes.ts"
import { test, testWith } from "../test.ts"
import { bare, decide } from "../decisions.ts"

describe("tools", () => {
  const search = Tool.make("search", {
    parameters: Schema.Struct({ query: Schema.String, context: Schema.optionalKey(Schema.String) }),
    success: Schema.Struct({ hits: Schema.Array(Schema.String) })
  })
  const print = Tool.make("print", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
  const pay = Tool.make("pay", {
    parameters: Schema.Struct({ amount: Schema.Finite }),
    success: Schema.String,
    failure: Schema.String,
    needsApproval: true
  })
  const toolkit = Toolkit.make(search, print, pay)
  const calls: Array<unknown> = []
  const handlers = toolkit.toLayer({
    search: (args) =>
      Effect.sync(() => {
        calls.push(args)
        return { hits: [args.query, args.context ?? "-"] }
      }),
    print: ({ text }) => Effect.succeed(text),
    pay: ({ amount }) => (amount > 100 ? Effect.fail("too much") : Effect.succeed(`paid ${amount}`))
  })
  const testHandled = testWith(handlers)

  testHandled(
    "PLAN-1 S5.6 a tool is given task and context: by its context parameter, or before the task",
    function* () {
      const bound = yield* Plan.bind(
        yield* Plan.make("plan", [
          Step.make("a", { target: "search", context: "c" }),
          Step.make("b", { target: "print", context: Reference.fromStart })
        ]),
        { toolkit }
      )
      calls.length = 0
      assert.strictEqual(completed(yield* Plan.run(bound, "x")).output, `x\n\n{"hits":["x","c"]}`)
      assert.deepStrictEqual(calls, [{ query: "x", context: "c" }])
    }
  )

  testHandled(
    "PLAN-7 a call that needs approval pauses the plan; approved it runs, denied it fails the step",
    function* () {
      const bound = yield* Plan.bind(
        yield* Plan.make("plan", [
          Step.make("transfer", { target: "pay", input: Schema.Struct({ amount: Schema.Finite }) })
        ]),
        { toolkit }
      )
      const paused = yield* endsAs("Paused", Plan.run(bound, { payload: { amount: 7 } }))
      assert.deepStrictEqual(bare(paused.requests), [
        { _tag: "Approval", callId: "transfer:1", name: "pay", arguments: { amount: 7 } }
      ])
      const again = yield* endsAs("Paused", Plan.resume(bound, paused.state))
      const result = completed(yield* Plan.resume(bound, again.state, { decisions: decide(paused.state) }))
      assert.strictEqual(result.output, "paid 7")
      const denied = Plan.resume(bound, paused.state, { decisions: decide(paused.state, false) })
      assert.strictEqual((yield* failureIn(denied)).type, "Denied")

      const much = yield* Plan.run(bound, { payload: { amount: 101 } })
      const failure = yield* failureIn(Plan.resume(bound, much.state, { decisions: decide(much.state) }))
      assert.deepInclude(failure, { type: "execution_error", message: "too much" })
    }
  )

  test("PLAN-5 a tool that fails or runs out of its own time fails the step with the type of its result", function* () {
    const slow = Tool.make("slow", { parameters: Schema.Struct({ task: Schema.String }) }).annotate(
      ToolSettings.Timeout,
      "1 second"
    )
    const kit = Toolkit.make(slow)
    const program = Effect.gen(function* () {
      const bound = yield* Plan.bind(yield* Plan.make("plan", [Step.make("a", { target: "slow" })]), { toolkit: kit })
      return yield* after("1 second", failureIn(Plan.run(bound, "x")))
    })
    const failure = yield* Effect.provide(program, kit.toLayer({ slow: () => Effect.never }))
    assert.deepInclude(failure, { type: "timeout_error", retryable: true })
  })
})

describe("tools with an input", () => {
  const book = Tool.make("book", {
    parameters: Schema.Struct({ seat: Schema.Finite, context: Schema.optionalKey(Schema.String) }),
    success: Schema.Json
  })
  const toolkit = Toolkit.make(book)

  const booking = toolkit.toLayer({ book: Effect.succeed })
  test("PLAN-1 S5.6 a tool that takes the payload as its arguments gets the context, too", booking, function* () {
    const plan = yield* Plan.make("plan", [
      Step.make("a", { target: "book", input: Schema.Struct({ seat: Schema.Finite }), context: Reference.fromStart }),
      Step.make("b", { target: "book", input: Schema.Struct({ seat: Schema.Finite }), task: Reference.fromStart })
    ])
    const bound = yield* Plan.bind(plan, { toolkit })
    const { state } = completed(yield* Plan.run(bound, { payload: { seat: 7 } }))
    assert.deepStrictEqual(
      Array.from(state.history, ({ output }) => output),
      [{ seat: 7, context: `{"seat":7}` }, { seat: 7 }]
    )
  })
})

describe("agents", () => {
  const writer = Agent.make("writer", { instructions: "Write." })

  it.effect("PLAN-1 an agent is given the task; context and content come before it, as parts of their own", () =>
    Effect.gen(function* () {
      const bound = yield* planOf([
        Step.make("a", { target: writer }),
        Step.make("b", { target: writer, task: Reference.fromStart, context: Reference.fromStep("a") })
      ])
      const { output } = completed(yield* Plan.run(bound, { task: "t", content: [ToolResult.textPart("more")] }))
      assert.strictEqual(output, "second")
      const requests = yield* ScriptedModel.requests
      const users = requests.map(({ messages }) => messages.find(({ role }) => role === "user")?.text)
      assert.deepStrictEqual(users, ["more\nt", "first\nmore\nt"])
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "first" }, { text: "second" }])))
  )

  testWith(ScriptedModel.layer([{ text: "asked" }]))(
    "PLAN-5 TRUST-7 D5 an agent is not asked an empty text: the step fails, and names what returned nothing",
    function* () {
      const gives = (output: Schema.Json) => Step.make("a", { target: () => Effect.succeed(output) })
      const asks = (task?: Reference.Reference) => Step.make("b", { target: writer, task, retry: { times: 3 } })
      const memories = { writer: { text: Effect.succeed("") } }
      for (const [bound, input, shown, why] of [
        [yield* planOf([gives(null), asks()]), "x", "fromPrev", `step "a" returned null`],
        [
          yield* planOf([gives(""), asks(Reference.fromStep("a"))]),
          "x",
          `fromStep("a")`,
          `step "a" returned an empty text`
        ],
        [yield* planOf([asks()]), "", "fromPrev", "the input of the plan is empty"],
        [yield* planOf([gives("full"), asks(Reference.fromStart)]), "", "fromStart", "the input of the plan is empty"],
        [yield* planOf([asks(Reference.literal(""))]), "x", `literal("")`, "the text is empty"],
        [
          yield* Effect.flatMap(Plan.make("plan", [asks(Reference.fromMemory("writer"))]), (plan) =>
            Plan.bind(plan, { memories })
          ),
          "x",
          `fromMemory("writer")`,
          `nothing is kept for the agent "writer"`
        ]
      ] as const) {
        const { reason } = yield* failsFor("StepFailed", Plan.run(bound, input))
        const message = `task = ${shown}: expected a text for the agent "writer", found none: ${why}. Pass a text there, or route around this step.`
        assert.deepStrictEqual(reason, {
          _tag: "StepFailed",
          step: "b",
          path: [],
          failure: { type: "InputInvalid", message, retryable: false }
        })
      }
      const withContext = Step.make("b", { target: writer, context: "notes" })
      assert.strictEqual(completed(yield* Plan.run(yield* planOf([gives(null), withContext]), "x")).output, "asked")
    }
  )

  testWith(
    ScriptedModel.layer([
      { text: "1", usage: { inputTokens: 10, outputTokens: 1 } },
      { text: "2", usage: { inputTokens: 20, outputTokens: 2 } }
    ])
  )("PLAN-5 what an agent does is part of the run: facts are written as they come, usage counts once", function* () {
    const { fnStep } = log()
    const { tags, write } = journal()
    const bound = yield* planOf([Step.make("a", { target: writer }), fnStep("f"), Step.make("b", { target: writer })])
    const { state, usage } = completed(yield* Plan.run(bound, "x", { journal: write }))
    assert.deepStrictEqual(usage, { inputTokens: 30, outputTokens: 3 })
    assert.deepStrictEqual(pluck(PlanRun.history(state), "usage"), [
      { inputTokens: 10, outputTokens: 1 },
      {},
      { inputTokens: 20, outputTokens: 2 }
    ])
    assert.deepStrictEqual(tags().slice(0, 4), [["PlanStarted"], ["Started a"], ["a/RunStarted"], ["a/InputAdded"]])
  })

  testWith(
    ScriptedModel.layer([
      { text: "cut", finishReason: "length", usage: { inputTokens: 10 } },
      { text: "good", usage: { inputTokens: 20 } },
      { text: "cut", finishReason: "length" }
    ])
  )(
    "PLAN-5 an agent without an answer fails the step with its outcome; a retry asks it afresh, and its usage counts",
    function* () {
      const bound = yield* planOf([Step.make("a", { target: writer, retry: { times: 1 } })])
      const { output, state, usage } = completed(yield* Plan.run(bound, "x"))
      assert.strictEqual(output, "good")
      assert.deepStrictEqual(usage, { inputTokens: 30 })
      assert.deepStrictEqual(PlanRun.history(state)[0]?.usage, { inputTokens: 30 })
      const once = yield* planOf([Step.make("a", { target: writer })])
      assert.strictEqual((yield* failureIn(Plan.run(once, "x"))).type, "Stopped")
    }
  )

  const rateLimited = ScriptedModel.layer([{ fail: { reason: "RateLimitError" } }])
  test("PLAN-5 an error of an agent fails the step with its reason", rateLimited, function* () {
    const target = Agent.make("writer", { retry: { times: 0 } })
    const bound = yield* planOf([Step.make("a", { target })])
    const error = yield* Effect.flip(Plan.run(bound, "x"))
    const { reason } = error
    assert(reason._tag === "StepFailed")
    assert.deepInclude(reason.failure, { type: "ModelFailed", retryable: true })
    assert.isTrue(Option.isSome(PlanError.causeOf(error)))
  })

  const erase = Tool.make("erase", {
    parameters: Schema.Struct({ id: Schema.String }),
    success: Schema.String,
    needsApproval: true
  })
  const kit = Toolkit.make(erase)
  const cleaner = Agent.make("cleaner", { toolkit: kit })
  const erased: Array<string> = []
  const erasing = kit.toLayer({
    erase: ({ id }) =>
      Effect.sync(() => {
        erased.push(id)
        return `erased ${id}`
      })
  })
  const script = [
    { toolCalls: [{ id: "c1", name: "erase", params: { id: "7" } }] },
    { text: "all clean" },
    { toolCalls: [{ id: "c1", name: "erase", params: { id: "7" } }] },
    { text: "all clean" }
  ]

  it.effect(
    "PLAN-8 an approval inside an agent pauses the plan, survives a restart, and resumes at the same point",
    () =>
      Effect.gen(function* () {
        const { ran, fnStep } = log()
        const inner = yield* planOf([Step.make("clean", { target: cleaner })], { name: "inner" })
        const make = (target: typeof cleaner | typeof inner) => planOf([fnStep("a"), Step.make("b", { target })])
        for (const [target, path] of [
          [cleaner, ["b"]],
          [inner, ["b", "clean"]]
        ] as const) {
          erased.length = 0
          ran.length = 0
          const bound = yield* make(target)
          const paused = yield* endsAs("Paused", Plan.run(bound, "x"))
          assert.deepStrictEqual(bare(paused.requests), [
            { _tag: "Approval", callId: "c1", name: "erase", arguments: { id: "7" }, path }
          ])
          const state = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(paused.state))
          const decisions = decide(state)
          const result = completed(yield* Plan.resume(bound, state, { decisions }))
          assert.strictEqual(result.output, "all clean")
          assert.deepStrictEqual([erased, ran], [["7"], ["a"]])
        }
      }).pipe(Effect.provide([erasing, ScriptedModel.layer(script)]))
  )

  testWith(ScriptedModel.layer([{ text: "once" }]))(
    "PLAN-5 answers are saved in the agent's memory; a write that fails stops the run, which asks no agent again",
    function* () {
      const saved: Array<unknown> = []
      let broken = true
      const memory = {
        save: (output: Schema.Json) => (broken ? Effect.fail("disk full") : Effect.sync(() => void saved.push(output)))
      }
      const bound = yield* Plan.bind(yield* Plan.make("plan", [Step.make("a", { target: writer })]), {
        memories: { writer: memory }
      })
      const error = yield* failsMidway("JournalFailed", Plan.run(bound, "x"))
      assert.include(error.message, "writer")
      assert.notInclude(error.message, "disk full")
      broken = false
      assert.strictEqual(completed(yield* Plan.resume(bound, error.state)).output, "once")
      assert.deepStrictEqual(saved, ["once"])
      yield* ScriptedModel.assertComplete
    }
  )
})

describe("agents that are cut off", () => {
  const wait = Tool.make("wait", { parameters: Schema.Struct({}), success: Schema.String })
  const kit = Toolkit.make(wait)
  const waiter = Agent.make("waiter", { toolkit: kit })
  const testWaiting = testWith(
    Layer.mergeAll(
      kit.toLayer({ wait: () => Effect.as(Effect.sleep("5 seconds"), "waited") }),
      ScriptedModel.layer([{ toolCalls: [{ id: "c", name: "wait", params: {} }] }, { text: "done" }, { text: "done" }])
    )
  )

  testWaiting("L6 an interrupted agent records it before the plan does, and resumes from there", function* () {
    const { fnStep } = log()
    const inner = yield* planOf([Step.make("w", { target: waiter })], { name: "inner" })
    const bound = yield* planOf([Step.make("a", { target: inner }), fnStep("b")])
    const { tags, write, last } = journal()
    const run = Plan.run(bound, "x", { journal: write })
    const fiber = yield* Effect.forkChild(run)
    yield* TestClock.adjust("1 second")
    yield* Fiber.interrupt(fiber)
    assert.deepStrictEqual(tags().slice(-5), [
      ["a/w/ToolFinished"],
      ["a/w/RunInterrupted"],
      ["a/w/RunFinished"],
      ["a/PlanInterrupted", "a/PlanFinished"],
      ["PlanInterrupted", "PlanFinished"]
    ])
    assert.strictEqual(completed(yield* Plan.resume(bound, last())).output, "b(done)")
  })

  testWaiting("L9 the total timeout of the plan ends agents inside it, and the run has the reason", function* () {
    const bound = yield* planOf([Step.make("a", { target: waiter })])
    const result = yield* after("1 second", Plan.run(bound, "x", { timeouts: { total: "1 second" } }))
    assert(result.outcome === "Interrupted")
    assert.strictEqual(result.reason, "timeout")
    assert.strictEqual(completed(yield* Plan.resume(bound, result.state)).output, "done")
  })

  testWaiting("L9 timeouts.step is handed to agents: the one that ends by it fails its step", function* () {
    const bound = yield* planOf([Step.make("a", { target: waiter })])
    const failure = yield* after("1 second", failureIn(Plan.run(bound, "x", { timeouts: { step: "1 second" } })))
    assert.strictEqual(failure.type, "Interrupted")
  })

  testWaiting("PLAN-7 leaving the stream of a plan interrupts its agents", function* () {
    const bound = yield* planOf([Step.make("a", { target: waiter })])
    const { tags, write } = journal()
    yield* Plan.stream(bound, "x", { journal: write }).pipe(
      Stream.takeUntil((event) => event._tag === "Agent" && event.event._tag === "ToolStarted"),
      Stream.runDrain
    )
    assert.include(tags().flat(), "a/RunInterrupted")
    assert.strictEqual(tags().flat().at(-1), "PlanFinished")
  })
})

describe("plans", () => {
  test("PLAN-8 a plan is a step: its answer, its facts and its usage are those of the step", function* () {
    const { fnStep } = log()
    const { tags, write } = journal()
    const inner = yield* planOf([fnStep("i"), fnStep("j")], { name: "inner" })
    const bound = yield* planOf([fnStep("a"), Step.make("b", { target: inner })])
    const { output } = completed(yield* Plan.run(bound, "x", { journal: write }))
    assert.strictEqual(output, "j(i(a(x)))")
    assert.deepStrictEqual(tags(), [
      ["PlanStarted"],
      ["Started a", "Finished a"],
      ["Started b"],
      ["b/PlanStarted"],
      ["b/Started i", "b/Finished i"],
      ["b/Started j", "b/Finished j", "b/PlanFinished"],
      ["Finished b", "PlanFinished"]
    ])
  })

  test("PLAN-8 P21 a failure inside names the step and the way to it, and the run resumes inside", function* () {
    const { fn, ran, fnStep } = log()
    let broken = true
    const innermost = yield* planOf(
      [fnStep("i"), Step.make("j", { target: fn("j", () => (broken ? Effect.fail("no") : "yes")) })],
      { name: "innermost" }
    )
    const inner = yield* planOf([Step.make("n", { target: innermost })], { name: "inner" })
    const bound = yield* planOf([Step.make("o", { target: inner })])
    const error = yield* failsMidway("StepFailed", Plan.run(bound, "x"))
    const { reason, state } = error
    assert.deepStrictEqual([reason.step, reason.path, reason.failure.message], ["j", ["o", "n"], "no"])
    assert.deepStrictEqual(PlanError.causeOf(error), Option.some("no"))
    broken = false
    assert.strictEqual(completed(yield* Plan.resume(bound, state)).output, "yes")
    assert.deepStrictEqual(ran, ["i", "j", "j"])
  })

  test("PLAN-8 S16 pauses inside pause the outside; conclude ends the whole nest", function* () {
    const { fn, ran, fnStep } = log()
    let answer: Effect.Effect<string, unknown> = Step.pause("wait")
    const inner = yield* planOf([fnStep("i"), Step.make("j", { target: fn("j", () => answer) })], { name: "inner" })
    const bound = yield* planOf([Step.make("o", { target: inner }), fnStep("z")])
    const paused = yield* endsAs("Paused", Plan.run(bound, "x"))
    assert.deepStrictEqual(
      paused.requests.map(({ callId: _, digest: __, ...pause }) => pause),
      [{ _tag: "Pause", name: "j", arguments: { reason: "wait" }, path: ["o"] }]
    )
    answer = Step.conclude("all of it")
    const concluded = yield* endsAs("Concluded", Plan.resume(bound, paused.state))
    assert.strictEqual(concluded.answer, "all of it")
    assert.deepStrictEqual(ran, ["i", "j", "j"])
  })

  test("PLAN-8 interruptWhen is asked inside, too, and stops the outside", function* () {
    const { ran, fnStep } = log()
    const inner = yield* planOf([fnStep("i"), fnStep("j")], { name: "inner" })
    const bound = yield* planOf([Step.make("o", { target: inner }), fnStep("z")])
    let asked = 0
    const result = yield* Plan.run(bound, "x", {
      interruptWhen: () => Effect.sync(() => (++asked === 3 ? { reason: "enough" } : undefined))
    })
    assert(result.outcome === "Interrupted")
    assert.deepStrictEqual([result.reason, ran], ["enough", ["i"]])
    assert.strictEqual(completed(yield* Plan.resume(bound, result.state)).output, "z(j(i(x)))")
    assert.deepStrictEqual(ran, ["i", "j", "z"])
  })

  test("PLAN-8 plans that run themselves end at the depth that is allowed", function* () {
    const self: { bound?: Plan.Bound<Schema.Json> } = {}
    const found = Effect.suspend(() =>
      self.bound === undefined ? Effect.die("not bound") : Effect.succeed(self.bound)
    )
    self.bound = yield* planOf([Step.make("again", { target: found })])
    const { reason } = yield* failsFor("StepFailed", Plan.run(self.bound, "x"))
    assert.strictEqual(reason.failure.type, "MaxDepth")
    assert.strictEqual(reason.path.length, 8)
  })
})
