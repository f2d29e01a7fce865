/** PLAN-5: what a step is given, what becomes of it, and where the plan goes on. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Clock, Effect, Exit, Fiber, Option, Schema } from "effect"
import { TestClock } from "effect/testing"
import { RunContext, ToolResult } from "effect-emissary"
import { Plan, PlanError, PlanRun, Reference, Step, When } from "effect-emissary/plan"
import { completed, journal, log } from "./support.ts"
import { pluck } from "../pluck.ts"

const echo = Step.target("echo", ({ content, context, payload, task }) =>
  Effect.succeed({ task, payload, context: context ?? null, content: content.length })
)

describe("references", () => {
  it.effect("PLAN-5 S4 fromPrev is the text of the step before, the input for the first", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("a", { target: fn("a") }), Step.make("b", { target: fn("b") }))
      )
      assert.strictEqual(completed(yield* Plan.run(bound, "x")).output, "b(a(x))")
      assert.strictEqual(completed(yield* Plan.run(bound, { payload: { b: 1, a: [] } })).output, `b(a({"a":[],"b":1}))`)
      assert.strictEqual(completed(yield* Plan.run(bound, { task: "t" })).output, "b(a(t))")
      assert.strictEqual(completed(yield* Plan.run(bound, { task: "t", payload: null })).output, "b(a(t))")
    })
  )

  it.effect("PLAN-5 S4 fromStart is the input with its own task, payload, context and content", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a") }),
        Step.make("b", {
          target: echo,
          task: Reference.fromStart,
          context: [Reference.fromStart, Reference.fromStep("a"), "fixed"]
        })
      ).pipe(Effect.flatMap(Plan.bind))
      const input = { task: "t", payload: { k: 1 }, context: "c", content: [ToolResult.textPart("part")] }
      assert.deepStrictEqual(completed(yield* Plan.run(bound, input)).output, {
        task: "t",
        payload: { k: 1 },
        context: `c\n\n{"k":1}\n\na({"k":1})\n\nfixed`,
        content: 1
      })
    })
  )

  it.effect("PLAN-5 S5.3 context accretes, payloads of any kind count once, nothing empty does", () =>
    Effect.gen(function* () {
      const bound = yield* Plan.make(
        Step.make("a", { target: () => Effect.succeed({ n: 1 }), context: "about a" }),
        Step.make("empty", { target: () => Effect.succeed("") }),
        Step.make("b", { target: echo, task: "go", context: [Reference.fromStep("a"), Reference.fromStep("empty")] })
      ).pipe(Effect.flatMap(Plan.bind))
      assert.deepStrictEqual(completed(yield* Plan.run(bound, "x")).output, {
        task: "go",
        payload: "go",
        context: `about a\n\n{"n":1}`,
        content: 0
      })
    })
  )

  it.effect("PLAN-5 S4.3 a step that was skipped cannot be read: ReferenceFailed, with what was completed", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a"), routes: [["c", When.payload.notEmpty()]] }),
        Step.make("b", { target: fn("b") }),
        Step.make("c", { target: fn("c"), context: [Reference.fromStep("a"), Reference.fromStep("b")] })
      ).pipe(Effect.flatMap(Plan.bind))
      const { reason, state } = yield* Effect.flip(Plan.run(bound, "x"))
      assert(reason._tag === "ReferenceFailed")
      assert.deepStrictEqual(
        [reason.step, reason.slot, reason.reference, reason.ran],
        ["c", "context[1]", `fromStep("b")`, ["a"]]
      )
      assert.deepStrictEqual(ran, ["a"])
      assert(state !== undefined)
      assert.deepStrictEqual(pluck(PlanRun.history(state), "output"), ["a(x)"])
    })
  )

  it.effect("PLAN-5 fromMemory and fromAgent read when the step begins; a failed read fails the step", () =>
    Effect.gen(function* () {
      let text = "first"
      const plan = yield* Plan.make(
        Step.make("a", {
          target: echo,
          task: Reference.fromMemory("m"),
          context: [Reference.fromMemory("m"), Reference.fromAgent("m")]
        })
      )
      const memory = { text: Effect.sync(() => text), output: Effect.succeed({ last: 1 }) }
      const bound = yield* Plan.bind(plan, { memories: { m: memory } })
      assert.deepStrictEqual(completed(yield* Plan.run(bound, "x")).output, {
        task: "first",
        payload: "first",
        context: `first\n\n{"last":1}`,
        content: 0
      })
      text = "second"
      assert.deepInclude(completed(yield* Plan.run(bound, "x")).output, { task: "second" })
      const broken = yield* Plan.bind(plan, {
        memories: { m: { ...memory, text: Effect.fail({ name: "Gone", message: "gone" }) } }
      })
      const { reason } = yield* Effect.flip(Plan.run(broken, "x"))
      assert(reason._tag === "StepFailed")
      assert.deepStrictEqual(reason.failure, { type: "Gone", message: "gone", retryable: false })
    })
  )
})

describe("outputs", () => {
  const number = Step.target("number", () => Effect.succeed<Schema.Json>({ n: "many" }))

  it.effect(
    "PLAN-5 S5.8 what a step gives is decoded and encoded with its output schema, or the step fails without its text",
    () =>
      Effect.gen(function* () {
        const output = Schema.Struct({ n: Schema.Finite })
        const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: number, output })))
        const { message, reason } = yield* Effect.flip(Plan.run(bound, "x"))
        assert(reason._tag === "StepFailed")
        assert.strictEqual(reason.failure.type, "OutputInvalid")
        assert.include(message, "n")
        assert.notInclude(message, "many")

        const stripped = Step.make("a", { target: Step.target("f", () => Effect.succeed({ n: 1, m: 2 })), output })
        assert.deepStrictEqual(completed(yield* Plan.run(yield* Plan.bind(yield* Plan.make(stripped)), "x")).output, {
          n: 1
        })
      })
  )

  it.effect("PLAN-5 what is no JSON fails the step, and is not tried again", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("a", { target: fn("a", () => NaN), retry: { times: 3 } }))
      )
      const { reason } = yield* Effect.flip(Plan.run(bound, "x"))
      assert(reason._tag === "StepFailed")
      assert.strictEqual(reason.failure.type, "OutputNotJson")
      assert.deepStrictEqual(ran, ["a"])
    })
  )

  it.effect("PLAN-5 a payload that does not fit the input schema of a step never reaches it", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("a", { target: fn("a"), input: Schema.Struct({ id: Schema.Int }) }))
      )
      const { reason } = yield* Effect.flip(Plan.run(bound, { payload: { id: "secret" } }))
      assert(reason._tag === "StepFailed")
      assert.strictEqual(reason.failure.type, "InputInvalid")
      assert.notInclude(reason.message, "secret")
      assert.deepStrictEqual(ran, [])
      yield* Plan.run(bound, { payload: { id: 1 } })
      assert.deepStrictEqual(ran, ["a"])
    })
  )

  it.effect(
    "PLAN-5 the plan's own output is decoded; one that does not fit fails the run, and nothing runs again",
    () =>
      Effect.gen(function* () {
        const { fn, ran } = log()
        const output = Schema.Struct({ at: Schema.DateTimeUtcFromString })
        const make = (answer: Schema.Json) =>
          Effect.flatMap(Plan.make({ output }, Step.make("a", { target: fn("a", () => answer) })), (plan) =>
            Plan.bind(plan)
          )
        const good = completed(yield* Plan.run(yield* make({ at: "2026-01-01T00:00:00.000Z" }), "x"))
        assert.strictEqual(good.output.at.epochMilliseconds, Date.UTC(2026, 0, 1))
        assert.deepStrictEqual(good.payload, { at: "2026-01-01T00:00:00.000Z" })
        assert.strictEqual(good.text, `{"at":"2026-01-01T00:00:00.000Z"}`)

        const bad = yield* make({ at: "never" })
        const first = yield* Effect.flip(Plan.run(bad, "x"))
        assert.strictEqual(first.reason._tag, "OutputInvalid")
        assert.notInclude(first.message, "never")
        assert(first.state !== undefined)
        ran.length = 0
        assert.strictEqual((yield* Effect.flip(Plan.resume(bad, first.state))).reason._tag, "OutputInvalid")
        assert.deepStrictEqual(ran, [])
      })
  )

  it.effect("PLAN-5 a plan without steps gives its input", () =>
    Effect.gen(function* () {
      const bound = yield* Plan.bind(yield* Plan.make())
      assert.deepStrictEqual(completed(yield* Plan.run(bound, { payload: [1] })).output, [1])
    })
  )

  it.effect("PLAN-5 S9 writes hold the newest output of each key", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a"), writes: "k" }),
        Step.make("b", { target: fn("b"), writes: "l" })
      ).pipe(Effect.flatMap(Plan.bind))
      const { writes } = yield* Plan.run(bound, "x")
      assert.deepStrictEqual(Array.from(writes), [
        ["k", "a(x)"],
        ["l", "b(a(x))"]
      ])
    })
  )
})

describe("failures", () => {
  class Odd extends Schema.TaggedError<Odd>()("Odd", { message: Schema.String, retryable: Schema.Boolean }) {}

  it.effect("PLAN-5 a typed failure of a function says its tag, message and whether to try again", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const odd = new Odd({ message: "not even", retryable: true })
      const bound = yield* Plan.make(
        { name: "p" },
        Step.make("a", { target: fn("a") }),
        Step.make("b", { target: fn("b", () => Effect.fail(odd)) })
      ).pipe(Effect.flatMap(Plan.bind))
      const error = yield* Effect.flip(Plan.run(bound, "x"))
      assert.strictEqual(error.message, `Plan "p": Step "b" failed with Odd: not even`)
      assert(error.reason._tag === "StepFailed")
      assert.deepStrictEqual(error.reason.failure, { type: "Odd", message: "not even", retryable: true })
      assert.deepStrictEqual(PlanError.causeOf(error.reason), Option.some(odd))
      assert(error.state !== undefined)
      assert.deepStrictEqual(pluck(PlanRun.history(error.state), "step"), ["a"])
      assert.strictEqual(error.state.outcome?._tag, "Failed")
    })
  )

  it.effect("PLAN-5 L8 a defect is a failure, and what it says stays out of messages", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const bug = new Error("password hunter2")
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: fn("a", () => Effect.die(bug)) })))
      const error = yield* Effect.flip(Plan.run(bound, "x"))
      assert(error.reason._tag === "StepFailed")
      assert.strictEqual(error.reason.failure.type, "Defect")
      assert.notInclude(Cause.pretty(Cause.fail(error)), "hunter2")
      assert.notInclude(JSON.stringify(error), "hunter2")
      assert.deepStrictEqual(PlanError.causeOf(error.reason), Option.some(bug))
    })
  )

  it.effect("PLAN-5 a function that throws is a defect, too", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const thrown = fn("a", () => {
        throw new Error("thrown")
      })
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: thrown })))
      const { reason } = yield* Effect.flip(Plan.run(bound, "x"))
      assert(reason._tag === "StepFailed")
      assert.strictEqual(reason.failure.type, "Defect")
    })
  )

  it.effect("PLAN-5 L9 a try that takes longer than the timeout is interrupted, and fails with Timeout", () =>
    Effect.gen(function* () {
      const { fn } = log()
      let interrupted = 0
      const slow = fn("a", () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => interrupted++)))
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("a", { target: slow, timeout: "5 seconds", retry: { times: 1, delay: "1 second" } }))
      )
      const fiber = yield* Effect.forkChild(Effect.flip(Plan.run(bound, "x")))
      yield* TestClock.adjust("10999 millis")
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust("1 millis")
      const { reason } = yield* Fiber.join(fiber)
      assert(reason._tag === "StepFailed")
      assert.strictEqual(reason.failure.type, "Timeout")
      assert.strictEqual(interrupted, 2)
    })
  )

  it.effect("PLAN-5 L9 retries wait as their policy says; the record counts the tries", () =>
    Effect.gen(function* () {
      const times: Array<number> = []
      const target = Step.target("a", () =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          times.push(now)
          return times.length < 4 ? Effect.fail("not yet") : Effect.succeed("done")
        })
      )
      const retry = { times: 5, delay: "1 second", factor: 2, maxDelay: "3 seconds" } as const
      const { batches, write } = journal()
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target, retry })))
      const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { journal: write }))
      yield* TestClock.adjust("1 minute")
      const { state } = completed(yield* Fiber.join(fiber))
      assert.deepStrictEqual(times, [0, 1000, 3000, 6000])
      assert.strictEqual(PlanRun.history(state)[0]?.attempts, 4)
      const retried = batches.flat().flatMap((event) => (event._tag === "StepRetried" ? [event.attempt] : []))
      assert.deepStrictEqual(retried, [2, 3, 4])
    })
  )

  it.effect("PLAN-5 S6.5 a loop ends at the limit, and goes on with a larger one", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.make(
        { maxIterations: 3 },
        Step.make("a", { target: fn("a", () => ran.length), routes: [["a", When.payload.lessThan(5)]] })
      ).pipe(Effect.flatMap(Plan.bind))
      const error = yield* Effect.flip(Plan.run(bound, "x"))
      assert(error.reason._tag === "MaxIterationsExceeded")
      assert.deepStrictEqual([error.reason.limit, error.reason.next], [3, "a"])
      assert(error.state !== undefined)
      const again = yield* Effect.flip(Plan.resume(bound, error.state))
      assert.strictEqual(again.reason._tag, "MaxIterationsExceeded")
      const result = completed(yield* Plan.resume(bound, error.state, { maxIterations: 10 }))
      assert.strictEqual(result.output, 5)
      assert.strictEqual(result.iterations, 5)
      assert.strictEqual(
        (yield* Effect.flip(Plan.run(bound, "x", { maxIterations: 0 }))).reason._tag,
        "MaxIterationsExceeded"
      )
    })
  )
})

describe("routes", () => {
  it.effect(
    "PLAN-5 S7 the first route that holds counts, later ones are not asked; without one it goes on as declared",
    () =>
      Effect.gen(function* () {
        const { fn, ran } = log()
        const asked: Array<string> = []
        const ask = (name: string, answer: boolean) => () =>
          Effect.sync(() => {
            asked.push(name)
            return answer
          })
        const make = (first: boolean, second: boolean) =>
          Effect.flatMap(
            Plan.make(
              { predicates: { first: ask("first", first), second: ask("second", second) } },
              Step.make("a", {
                target: fn("a"),
                routes: [
                  ["c", When.custom("first")],
                  ["d", When.custom("second")]
                ],
                afterBranches: "e"
              }),
              Step.make("b", { target: fn("b") }),
              Step.make("c", { target: fn("c") }),
              Step.make("d", { target: fn("d") }),
              Step.make("e", { target: fn("e") })
            ),
            (plan) => Plan.bind(plan)
          )
        yield* Plan.run(yield* make(true, true), "x")
        assert.deepStrictEqual([ran.splice(0), asked.splice(0)], [["a", "c", "e"], ["first"]])
        yield* Plan.run(yield* make(false, true), "x")
        assert.deepStrictEqual(
          [ran.splice(0), asked.splice(0)],
          [
            ["a", "d", "e"],
            ["first", "second"]
          ]
        )
        yield* Plan.run(yield* make(false, false), "x")
        assert.deepStrictEqual(ran, ["a", "b", "c", "d", "e"])
      })
  )

  it.effect(
    "PLAN-5 S7.6 a predicate that fails: PredicateFailed; the step is done, and only the choice is made again",
    () =>
      Effect.gen(function* () {
        const { fn, ran } = log()
        let works = false
        const bound = yield* Plan.make(
          {
            predicates: {
              ready: () => (works ? Effect.succeed(true) : Effect.fail({ name: "Down", message: "no line" }))
            }
          },
          Step.make("a", { target: fn("a"), routes: [["c", When.custom("ready")]] }),
          Step.make("b", { target: fn("b") }),
          Step.make("c", { target: fn("c") })
        ).pipe(Effect.flatMap(Plan.bind))
        const error = yield* Effect.flip(Plan.run(bound, "x"))
        assert(error.reason._tag === "PredicateFailed")
        assert.deepStrictEqual([error.reason.step, error.reason.to, error.reason.predicate], ["a", "c", "ready"])
        assert.deepStrictEqual(error.reason.failure, { type: "Down", message: "no line", retryable: false })
        assert(error.state !== undefined)
        works = true
        yield* Plan.resume(bound, error.state)
        assert.deepStrictEqual(ran, ["a", "c"])
      })
  )

  it.effect("PLAN-5 S11 an answer leads to the steps that its schema names, and to no other", () =>
    Effect.gen(function* () {
      const { fn, ran: visited } = log()
      const output = Schema.Struct({ next: Schema.Union([Schema.Literal("end"), Schema.String]) })
      let next = "q"
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a", () => ({ next })), output, routesBy: "next" }),
        Step.make("p", { target: fn("p"), parallel: true }),
        Step.make("q", { target: fn("q"), parallel: true }),
        Step.make("end", { target: fn("end") })
      ).pipe(Effect.flatMap(Plan.bind))
      for (const [said, ran] of [
        ["q", "a,p,q,end"],
        ["a", "a,p,q,end"],
        ["end", "a,end"]
      ] as const) {
        next = said
        visited.length = 0
        yield* Plan.run(bound, "x")
        assert.strictEqual(visited.join(","), ran)
      }
    })
  )

  it.effect("PLAN-5 S7.2 routesBy reads own fields alone", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const output = Schema.Struct({ next: Schema.Literals(["c", "b"]) })
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a", () => ({ next: "c" })), output, routesBy: "next" }),
        Step.make("b", { target: fn("b") }),
        Step.make("c", { target: fn("c") })
      ).pipe(Effect.flatMap(Plan.bind))
      yield* Plan.run(bound, "x")
      assert.deepStrictEqual(ran, ["a", "c"])
    })
  )
})

describe("signals", () => {
  it.effect("PLAN-7 S16 a step that pauses is run again with the same input; nothing else is", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      let open = false
      const tasks: Array<string> = []
      const door = fn("door", ({ task }) => {
        tasks.push(task)
        return open ? Effect.succeed("in") : Step.pause("closed")
      })
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a") }),
        Step.make("door", { target: door, retry: { times: 3 } }),
        Step.make("c", { target: fn("c") })
      ).pipe(Effect.flatMap(Plan.bind))
      const paused = yield* Plan.run(bound, "x")
      assert(paused.outcome === "Paused")
      assert.deepStrictEqual(paused.pauses, [{ step: "door", path: [], reason: "closed" }])
      const again = yield* Plan.resume(bound, paused.state)
      assert.strictEqual(again.outcome, "Paused")
      open = true
      const json = yield* PlanRun.encodeStateJson(again.state)
      const result = completed(yield* Plan.resume(bound, yield* PlanRun.decodeStateJson(json)))
      assert.strictEqual(result.output, "c(in)")
      assert.deepStrictEqual(ran, ["a", "door", "door", "door", "c"])
      assert.deepStrictEqual(tasks, ["a(x)", "a(x)", "a(x)"])
    })
  )

  it.effect("PLAN-7 a pause that somebody turns down fails the step without running it", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("door", { target: fn("door", () => Step.pause("closed")) }))
      )
      const { state } = yield* Plan.run(bound, "x")
      const error = yield* Effect.flip(
        Plan.resume(bound, state, { decisions: [{ callId: "door", approved: false, reason: "go away" }] })
      )
      assert(error.reason._tag === "StepFailed")
      assert.deepStrictEqual([error.reason.failure.type, ran.length], ["Denied", 1])
      assert.include(error.message, "go away")
      const wrong = yield* Effect.flip(Plan.resume(bound, state, { decisions: [{ callId: "window", approved: true }] }))
      assert.strictEqual(wrong.reason._tag, "InvalidDecision")
    })
  )

  it.effect("PLAN-7 what is wrong with a decision is said: decided before, or a run that is over", () =>
    Effect.gen(function* () {
      const { fn } = log()
      let open = false
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a") }),
        Step.make("door", { target: fn("door", () => (open ? "in" : Step.pause("closed"))) })
      ).pipe(Effect.flatMap(Plan.bind))
      const { state } = yield* Plan.run(bound, "x")
      const refused = (of: PlanRun.State, callId: string) =>
        Effect.map(Effect.flip(Plan.resume(bound, of, { decisions: [{ callId, approved: true }] })), ({ reason }) => {
          assert(reason._tag === "InvalidDecision")
          return reason
        })
      const settled = yield* refused(state, "a")
      assert.strictEqual(settled.problem, "notWaiting")
      assert.include(settled.message, `"a": it does not wait, or not any more. Waiting: "door".`)
      assert.include(
        (yield* refused(state, "window")).message,
        `"window": nothing of that name waits. Waiting: "door".`
      )
      open = true
      const done = yield* Plan.resume(bound, state, { decisions: [{ callId: "door", approved: true }] })
      const over = yield* refused(done.state, "door")
      assert.strictEqual(over.problem, "over")
      assert.include(over.message, `"door": the run is over (Completed). Nothing waits.`)
    })
  )

  it.effect("PLAN-7 S16.3 conclude ends the plan with its answer", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a", () => Step.conclude("42")) }),
        Step.make("b", { target: fn("b") })
      ).pipe(Effect.flatMap(Plan.bind))
      const result = yield* Plan.run(bound, "x")
      assert(result.outcome === "Concluded")
      assert.strictEqual(result.answer, "42")
      assert.deepStrictEqual(ran, ["a"])
      const again = yield* Plan.resume(bound, result.state)
      assert.strictEqual(again.outcome, "Concluded")
      assert.deepStrictEqual(ran, ["a"])
    })
  )
})

describe("resuming", () => {
  it.effect("PLAN-6 a run that is over gives its result again, and nothing is recorded", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: fn("a") })))
      const first = completed(yield* Plan.run(bound, "x"))
      const { batches, write } = journal()
      const second = completed(yield* Plan.resume(bound, first.state, { journal: write }))
      assert.strictEqual(second.output, "a(x)")
      assert.deepStrictEqual([ran, batches], [["a"], []])
    })
  )

  it.effect("PLAN-6 a plan that was edited is refused", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const one = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: fn("a", () => Effect.fail("no")) })))
      const two = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: fn("b") })))
      const { state } = yield* Effect.flip(Plan.run(one, "x"))
      assert(state !== undefined)
      const { reason } = yield* Effect.flip(Plan.resume(two, state))
      assert.strictEqual(reason._tag, "PlanChanged")
    })
  )
})

describe("the run", () => {
  it.effect("PLAN-5 functions see the RunContext of the run; that of the caller without one", () =>
    Effect.gen(function* () {
      const target = Step.target("a", () => RunContext.RunContext)
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target })))
      assert.deepStrictEqual(completed(yield* Plan.run(bound, "x", { context: { tenant: "acme" } })).output, {
        tenant: "acme"
      })
      const outer = Effect.provideService(Plan.run(bound, "x"), RunContext.RunContext, { tenant: "b" })
      assert.deepStrictEqual(completed(yield* outer).output, { tenant: "b" })
    })
  )

  it.effect("PLAN-6 the journal gets a step in one batch, before the next one begins", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const { tags, write } = journal()
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a"), routes: [["c", When.payload.notEmpty()]] }),
        Step.make("b", { target: fn("b") }),
        Step.make("c", { target: fn("c", () => tags().length) })
      ).pipe(Effect.flatMap(Plan.bind))
      const result = completed(yield* Plan.run(bound, "x", { journal: write }))
      assert.deepStrictEqual(tags(), [
        ["PlanStarted"],
        ["Started a", "Finished a", "a->c"],
        ["Started c", "Finished c", "PlanFinished"]
      ])
      assert.strictEqual(result.output, 2)
    })
  )

  it.effect("PLAN-6 a journal that fails stops the run at once, with its error, and is not called again", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      let calls = 0
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("a", { target: fn("a") }), Step.make("b", { target: fn("b") }))
      )
      const lost = new PlanError.PlanError({ plan: "x", reason: new PlanError.JournalFailed({ problem: "disk full" }) })
      const error = yield* Effect.flip(
        Plan.run(bound, "x", { journal: () => (++calls === 2 ? Effect.fail(lost) : Effect.void) })
      )
      assert.strictEqual(error.message, `Plan "plan": disk full`)
      assert.deepStrictEqual([calls, ran], [2, ["a"]])
      assert(error.state !== undefined)
      assert.strictEqual(PlanRun.history(error.state).length, 1)
    })
  )

  it.effect("PLAN-5 interruptWhen ends the run between steps; it goes on where it was", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("a", { target: fn("a") }), Step.make("b", { target: fn("b") }))
      )
      const stop = () => Effect.succeed(ran.length === 1 ? { reason: "enough" } : undefined)
      const result = yield* Plan.run(bound, "x", { interruptWhen: stop })
      assert(result.outcome === "Interrupted")
      assert.deepStrictEqual([result.reason, ran], ["enough", ["a"]])
      assert.strictEqual(completed(yield* Plan.resume(bound, result.state)).output, "b(a(x))")
    })
  )

  it.effect("PLAN-5 L9 timeouts.total ends the run as Interrupted; the step it cut off runs again", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a") }),
        Step.make("b", { target: fn("b", () => (ran.length < 3 ? Effect.never : Effect.succeed("late"))) })
      ).pipe(Effect.flatMap(Plan.bind))
      const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { timeouts: { total: "1 minute" } }))
      yield* TestClock.adjust("1 minute")
      const result = yield* Fiber.join(fiber)
      assert(result.outcome === "Interrupted")
      assert.strictEqual(result.reason, "timeout")
      assert.strictEqual(completed(yield* Plan.resume(bound, result.state)).output, "late")
      assert.deepStrictEqual(ran, ["a", "b", "b"])
    })
  )

  it.effect("L6 an interrupted run says so in its journal, keeps what finished, and stays interrupted", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const { tags, write } = journal()
      let cleaned = false
      const bound = yield* Plan.make(
        Step.make("a", { target: fn("a") }),
        Step.make("b", {
          target: fn("b", () => Effect.onInterrupt(Effect.never, () => Effect.sync(() => (cleaned = true))))
        })
      ).pipe(Effect.flatMap(Plan.bind))
      const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { journal: write }))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert(Exit.isFailure(exit) && Cause.hasInterruptsOnly(exit.cause))
      assert.isTrue(cleaned)
      assert.deepStrictEqual(tags(), [
        ["PlanStarted"],
        ["Started a", "Finished a"],
        ["Started b", "PlanInterrupted", "PlanFinished"]
      ])
    })
  )
})
