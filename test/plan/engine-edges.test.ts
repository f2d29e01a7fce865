/** PLAN-5 to PLAN-8 where things go wrong in ways of their own. */
import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber, Layer, Result, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { VersionedStore } from "effect-emissary/conversation"
import { Agent, Plan, Reference, Step, Target } from "effect-emissary"
import { Checkpoint } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { counting, failing, reasonOf } from "./checkpoints.ts"
import { completed, log } from "./support.ts"

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
      const target = ({ task }: Target.Input) =>
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

      const target = ({ task }: Target.Input) => (task === "bad" ? Effect.interrupt : Effect.succeed(task))
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
            Plan.make({ name: "inner" }, Step.make(name, { target: Target.make(name, () => Effect.fail("no")) }))
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
