/** PLAN-5 to PLAN-8 where things go wrong in ways of their own. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import * as driver from "#src/agent/internal/driver.ts"
import { Agent, VersionedStore } from "effect-emissary"
import { Checkpoint, Plan, Reference, Step, When, type PlanRun } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { counting, failing, reasonOf } from "./checkpoints.ts"
import { completed, log } from "./support.ts"
import { pluck } from "../pluck.ts"

const bind = <A, R>(plan: Effect.Effect<Plan.Plan<A, R>, unknown>) =>
  Effect.flatMap(Effect.orDie(plan), (plan) => Effect.orDie(Plan.bind(plan)))

/** What nobody else has interrupted. */
const joinsInterrupted = Effect.gen(function* () {
  const fiber = yield* Effect.forkChild(Effect.never)
  yield* Fiber.interrupt(fiber)
  return yield* Fiber.join(fiber)
})

describe("a target that interrupts itself", () => {
  it.effect("PLAN-5 fails its step, which may be tried again", () =>
    Effect.gen(function* () {
      for (const target of [() => Effect.interrupt, () => joinsInterrupted]) {
        const bound = yield* bind(Plan.make(Step.make("a", { target })))
        const { reason, state } = yield* Effect.flip(Plan.run(bound, "x"))
        assert(reason._tag === "StepFailed")
        assert.strictEqual(reason.failure.type, "Interrupted")
        assert.strictEqual(state?.outcome?._tag, "Failed")
      }
      let tries = 0
      const target = ({ task }: Step.Input) =>
        Effect.suspend(() => (++tries < 3 ? Effect.interrupt : Effect.succeed(task)))
      const again = yield* bind(Plan.make(Step.make("a", { target, retry: { times: 2 } })))
      assert.strictEqual(completed(yield* Plan.run(again, "x")).output, "x")
    })
  )

  it.effect("PLAN-5 PLAN-7 S8.3 S15 takes nobody with it: not the band, not the other runs, not the outer plan", () =>
    Effect.gen(function* () {
      const { fn, ran } = log()
      const inner = yield* bind(Plan.make({ name: "inner" }, Step.make("i", { target: () => Effect.interrupt })))
      const band = yield* bind(
        Plan.make(
          Step.make("a", { target: () => Effect.interrupt, parallel: true }),
          Step.make("b", { target: fn("b", () => Effect.as(Effect.sleep("1 second"), "b")), parallel: true }),
          Step.make("c", { target: inner, parallel: true })
        )
      )
      const fiber = yield* Effect.forkChild(Effect.flip(Plan.run(band, "x")))
      yield* TestClock.adjust("1 second")
      const { reason, state } = yield* Fiber.join(fiber)
      assert(reason._tag === "StepFailed")
      assert.strictEqual(reason.step, "a")
      assert.deepStrictEqual(
        state?.turn?.members.map(({ status }) => status._tag),
        ["Failed", "Finished", "Failed"]
      )
      assert.deepStrictEqual(ran, ["b"])

      const target = ({ task }: Step.Input) => (task === "bad" ? Effect.interrupt : Effect.succeed(task))
      const many = yield* bind(Plan.make(Step.make("a", { target })))
      const results = yield* Plan.runMany(many, ["x", "bad", "y"])
      assert.deepStrictEqual(results.map(Result.isSuccess), [true, false, true])
    })
  )
})

describe("tools", () => {
  const book = Tool.make("book", {
    parameters: Schema.Struct({ seat: Schema.Finite, context: Schema.optionalKey(Schema.String) }),
    success: Schema.Json
  })
  const toolkit = Toolkit.make(book)

  it.effect("PLAN-1 S5.6 a tool that takes the payload as its arguments gets the context, too", () =>
    Effect.gen(function* () {
      const plan = yield* Plan.make(
        Step.make("a", { target: "book", input: Schema.Struct({ seat: Schema.Finite }), context: Reference.fromStart }),
        Step.make("b", { target: "book", input: Schema.Struct({ seat: Schema.Finite }), task: Reference.fromStart })
      )
      const bound = yield* Plan.bind(plan, { toolkit })
      const { state } = completed(yield* Plan.run(bound, { payload: { seat: 7 } }))
      assert.deepStrictEqual(
        Array.from(state.history, ({ output }) => output),
        [{ seat: 7, context: `{"seat":7}` }, { seat: 7 }]
      )
    }).pipe(Effect.provide(toolkit.toLayer({ book: Effect.succeed })))
  )
})

describe("steps", () => {
  it.effect("PLAN-5 L9 records say when a step began and ended, tries included; runs inside know their level", () =>
    Effect.gen(function* () {
      let tries = 0
      const levels: Array<driver.RunDepth> = []
      const slow = () =>
        Effect.gen(function* () {
          levels.push(yield* driver.runDepth)
          yield* Effect.sleep("2 seconds")
          return ++tries === 1 ? yield* Effect.fail("no") : "x"
        })
      const bound = yield* bind(Plan.make(Step.make("a", { target: slow, retry: { times: 1, delay: "1 second" } })))
      const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { timeouts: { total: "1 minute" } }))
      yield* TestClock.adjust("1 minute")
      const { state } = completed(yield* Fiber.join(fiber))
      const [record] = Array.from(state.history)
      assert.deepStrictEqual(
        [record?.startedAt, record?.finishedAt].map((at) => at?.epochMilliseconds),
        [0, 5000]
      )
      assert.strictEqual(record?.attempts, 2)
      for (const { deadline, depth } of levels) {
        assert.strictEqual(depth, 1)
        // A moment after that of the run, which ends first and says so
        assert.isAtLeast(deadline ?? 0, 60_000)
      }
    })
  )

  it.effect("PLAN-5 a step is given what its input schema makes of the payload", () =>
    Effect.gen(function* () {
      const given: Array<unknown> = []
      const see = Step.target("see", { input: Schema.Json }, ({ payload }) => Effect.sync(() => given.push(payload)))
      const plan = Plan.make(Step.make("a", { target: see, input: Schema.Struct({ seat: Schema.Finite }) }))
      yield* Plan.run(yield* bind(plan), { payload: { seat: 1, other: 2 } })
      assert.deepStrictEqual(given, [{ seat: 1 }])
    })
  )

  it.effect("PLAN-5 S8.2 the bound of bands holds for those of plans inside", () =>
    Effect.gen(function* () {
      let running = 0
      let most = 0
      const work = () =>
        Effect.sync(() => {
          running += 1
          most = Math.max(most, running)
        }).pipe(Effect.andThen(Effect.yieldNow), Effect.andThen(Effect.sync(() => String(running--))))
      const member = (name: string) => Step.make(name, { target: work, parallel: true })
      const inner = yield* bind(Plan.make({ name: "inner" }, member("a"), member("b"), member("c"), member("d")))
      const outer = yield* bind(Plan.make(Step.make("o", { target: inner })))
      completed(yield* Plan.run(outer, "x", { concurrency: 2 }))
      assert.strictEqual(most, 2)
      completed(yield* Plan.run(outer, "x"))
      assert.strictEqual(most, 4)
    })
  )

  it.effect("PLAN-6 a step is written before a predicate is asked about it", () =>
    Effect.gen(function* () {
      let written = 0
      const asked: Array<number> = []
      const { fn } = log()
      const bound = yield* bind(
        Plan.make(
          {
            predicates: {
              ask: () =>
                Effect.sync(() => {
                  asked.push(written)
                  return true
                })
            }
          },
          Step.make("a", { target: fn("a"), routes: [["b", When.custom("ask")]] }),
          Step.make("b", { target: fn("b") })
        )
      )
      const journal = (events: ReadonlyArray<PlanRun.Event>) =>
        Effect.sync(() => void (written += events.filter(({ _tag }) => _tag === "StepFinished").length))
      completed(yield* Plan.run(bound, "x", { journal }))
      assert.deepStrictEqual(asked, [1])
    })
  )
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

  it.effect("PLAN-8 L9 timeouts of tools and steps hold for the agents in steps", () =>
    Effect.gen(function* () {
      const bound = yield* bind(Plan.make(Step.make("a", { target: Agent.make("a", { toolkit: kit }) })))
      const tool = yield* Effect.forkChild(bound.run("x", { timeouts: { tool: "1 second" } }))
      yield* TestClock.adjust("1 second")
      const late = yield* Fiber.join(tool)
      assert(late.outcome === "Completed")
      assert.include(late.text, "timed out after 1 second")
      const step = yield* Effect.forkChild(Effect.flip(bound.run("x", { timeouts: { step: "1 second" } })))
      yield* TestClock.adjust("1 second")
      assert.include((yield* Fiber.join(step)).message, "Interrupted")
    }).pipe(Effect.provide([handlers, ScriptedModel.layer(calling("wait"))]))
  )

  it.effect("PLAN-8 L9 and for tools that are steps, and for plans that are", () =>
    Effect.gen(function* () {
      const bindAll = (plan: Plan.Plan<Schema.Json>) => Plan.bind(plan, { toolkit: kit })
      const inner = yield* Effect.flatMap(
        Plan.make({ name: "inner" }, Step.make("w", { target: "wait", input: Schema.Struct({}) })),
        bindAll
      )
      const agents = yield* bind(
        Plan.make({ name: "agents" }, Step.make("a", { target: Agent.make("a", { toolkit: kit }) }))
      )
      const failures = (timeouts: Agent.Timeouts) =>
        Effect.forEach([inner, agents], (target) =>
          Effect.gen(function* () {
            const bound = yield* bind(Plan.make({ name: "outer" }, Step.make("o", { target })))
            const fiber = yield* Effect.forkChild(Effect.result(Plan.run(bound, { payload: {} }, { timeouts })))
            yield* TestClock.adjust("10 seconds")
            const result = yield* Fiber.join(fiber)
            if (Result.isSuccess(result)) return JSON.stringify(completed(result.success).output)
            const { reason } = result.failure
            return reason._tag === "StepFailed" ? reason.failure.type : reason._tag
          })
        )
      const [tool, agent] = yield* failures({ tool: "1 second" })
      assert.strictEqual(tool, "timeout_error")
      assert.include(agent, "timed out after 1 second")
      assert.deepStrictEqual(yield* failures({ step: "1 second" }), ['"waited"', "Interrupted"])
    }).pipe(Effect.provide([handlers, ScriptedModel.layer(calling("wait"))]))
  )

  it.effect("PLAN-8 calls of the same id in two members of a band are decided one by one, by their path", () =>
    Effect.gen(function* () {
      const agent = Agent.make("agent", { toolkit: kit })
      const bound = yield* bind(
        Plan.make(
          Step.make("a", { target: agent, parallel: true }),
          Step.make("b", { target: agent, parallel: true }),
          Step.make("all", { target: Step.target("all", () => Effect.succeed("done")) })
        )
      )
      const first = yield* bound.run("x")
      assert(first.outcome === "AwaitingApproval")
      assert.deepStrictEqual(
        first.requests.map(({ callId, path }) => [callId, path]),
        [
          ["c", ["a"]],
          ["c", ["b"]]
        ]
      )
      const decision = { callId: "c", approved: true }
      for (const decisions of [
        [decision],
        [{ ...decision, path: ["x"] }],
        [
          { ...decision, path: ["a"] },
          { ...decision, path: ["a"] }
        ]
      ]) {
        const { reason } = yield* Effect.flip(bound.resume(first.state, { decisions }))
        assert.strictEqual(reason._tag, "InvalidDecision")
      }
      const both = ["b", "a"].map((step) => ({ ...decision, path: [step] }))
      const answered = yield* bound.resume(first.state, { decisions: both })
      assert.strictEqual(answered.outcome === "Completed" ? answered.text : answered.outcome, "done")
      const second = yield* bound.resume(first.state, { decisions: [{ ...decision, path: ["a"] }] })
      assert(second.outcome === "AwaitingApproval")
      assert.deepStrictEqual(pluck(second.requests, "path"), [["b"]])
      const third = yield* bound.resume(second.state, { decisions: [decision] })
      assert.strictEqual(third.outcome === "Completed" ? third.text : third.outcome, "done")
    }).pipe(Effect.provide([handlers, ScriptedModel.layer(calling("pay"))]))
  )
})

describe("PLAN-6 checkpoints", () => {
  const claim = { heads: 0 }
  it.effect("whose claim failed although it was written can be gone on with", () =>
    Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const { bound, ran } = yield* counting()
      const begin = { key: "k", input: "go" }
      assert.strictEqual(reasonOf(yield* Effect.flip(checkpoint.run(bound, begin))), "CheckpointError StoreFailed")
      assert.strictEqual(reasonOf(yield* Effect.flip(checkpoint.run(bound, begin))), "CheckpointError RunActive")
      yield* TestClock.adjust("1 minute")
      const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
      assert.strictEqual(result.outcome === "Completed" ? result.output : "", "go a b c")
      assert.deepStrictEqual(yield* ran, ["a", "b", "c"])
    }).pipe(
      Effect.provide(
        Checkpoint.layer().pipe(
          Layer.provide(failing((key) => key.startsWith("plan/head/") && ++claim.heads === 1, "after")),
          Layer.provide(VersionedStore.layerMemory)
        )
      )
    )
  )

  const bug = { calls: 0, at: 0 }
  const dying = Layer.effect(
    VersionedStore.VersionedStore,
    Effect.map(VersionedStore.VersionedStore, (store) => ({
      ...store,
      compareAndSet: (...args: Parameters<typeof store.compareAndSet>) =>
        Effect.suspend(() => (++bug.calls === bug.at ? Effect.die("a bug") : store.compareAndSet(...args)))
    }))
  )
  it.effect("of a store that dies, whenever it does, are never damaged", () =>
    Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const agent = Agent.make("agent", {})
      const bound = yield* bind(
        Plan.make(
          Step.make("a", { target: agent, parallel: true }),
          Step.make("b", { target: agent, parallel: true, writes: "b" }),
          Step.make("c", { target: agent })
        )
      )
      for (bug.at = 1; bug.at < 50; bug.at++) {
        bug.calls = 0
        const begin = { key: `k${bug.at}`, input: "go" }
        const exit = yield* Effect.exit(checkpoint.run(bound, begin))
        if (bug.calls >= bug.at) assert.strictEqual(exit._tag, "Failure", begin.key)
        yield* TestClock.adjust("1 minute")
        const result = yield* checkpoint.run(bound, { ...begin, policy: "startOrResume" })
        assert.strictEqual(result.outcome, "Completed", begin.key)
        assert.isTrue(yield* checkpoint.isCurrent(begin.key, "b"))
      }
    }).pipe(
      Effect.provide([
        Checkpoint.layer().pipe(Layer.provide(dying), Layer.provide(VersionedStore.layerMemory)),
        ScriptedModel.layer(() => ({ text: "hi" }))
      ])
    )
  )

  it.effect("PLAN-8 are refused where a plan inside was edited, also when it is done; the old one goes on", () =>
    Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const { fn } = log()
      const make = Effect.fnUntraced(function* (names: ReadonlyArray<string>, failing: () => string) {
        const target = (name: string) =>
          fn(name, () => (failing() === name ? Effect.fail({ _tag: "Down", message: "down" }) : name))
        const steps: ReadonlyArray<Step.Any<never>> = names.map((name) => Step.make(name, { target: target(name) }))
        const inner = yield* bind(Plan.make({ name: "inner" }, ...steps))
        const middle = yield* bind(Plan.make({ name: "middle" }, Step.make("m", { target: inner })))
        return yield* bind(
          Plan.make(
            { name: "outer" },
            Step.make("o", { target: middle }),
            Step.make("last", { target: target("last") })
          )
        )
      })
      const edits = [["a", "b", "c"], ["a2", "b"], ["b", "a"], ["a"]]
      for (const step of ["b", "last"]) {
        let failing = step
        const key = `fails at ${step}`
        const original = yield* make(["a", "b"], () => failing)
        yield* Effect.flip(checkpoint.run(original, { key, input: "x" }))
        failing = ""
        for (const names of edits) {
          const edited = yield* make(names, () => failing)
          for (const attempt of [
            Effect.asVoid(checkpoint.resume(edited, { key })),
            Effect.asVoid(checkpoint.load(edited, key))
          ]) {
            const error = yield* Effect.flip(attempt)
            assert.strictEqual(reasonOf(error), "PlanError PlanChanged", `${key}: ${names.join(" ")}`)
            assert.include(error.message, `"inner"`)
          }
        }
        assert.strictEqual((yield* checkpoint.resume(original, { key })).outcome, "Completed")
      }
    }).pipe(Effect.provide(Checkpoint.layerMemory))
  )

  it.effect("PLAN-8 so is the state of an agent that is such a plan", () =>
    Effect.gen(function* () {
      const make = (name: string) =>
        Effect.gen(function* () {
          const inner = yield* bind(
            Plan.make({ name: "inner" }, Step.make(name, { target: Step.target(name, () => Effect.fail("no")) }))
          )
          return yield* bind(Plan.make({ name: "outer" }, Step.make("o", { target: inner })))
        })
      const { state } = yield* Effect.flip((yield* make("a")).run("x"))
      assert(state !== undefined)
      const error = yield* Effect.flip((yield* make("b")).resume(state))
      assert.strictEqual(error.reason._tag, "DefinitionChanged")
    })
  )
})
