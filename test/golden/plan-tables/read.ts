/** Q01-Q10: what the table derives by reading only. */
import { assert } from "@effect/vitest"
import { Effect, Fiber, Option, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Checkpoint, Plan, PlanRun, Step, When, type PlanError } from "effect-emissary/plan"
import { layer } from "../../plan/checkpoints.ts"
import { completed, log } from "../../plan/support.ts"
import { bind, type Rows } from "./row.ts"
import { pluck } from "../../pluck.ts"

const failureOf = (error: PlanError.PlanError) =>
  error.reason._tag === "StepFailed" ? error.reason.failure.type : error.reason._tag

const callable = (name: string) => ({ target: { kind: "callable", name }, task: { kind: "from_prev" }, parallel: false })

const Envelope = Tool.make("envelope", {
  parameters: Schema.Struct({ task: Schema.String }),
  success: Schema.Struct({ task: Schema.String, payload: Schema.String })
})
const toolkit = Toolkit.make(Envelope)

export const rows: Rows = {
  Q01: {
    expected: "the time for the whole run is over in the middle: it is interrupted, and its checkpoint cancelled",
    instead: "it is the outcome Interrupted with the state to go on from, and no error (S16.4, PLAN-7)",
    test: Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const { fn, ran } = log()
      const slow = fn("slow", () => Effect.delay(Effect.succeed("late"), "1 minute"))
      const plan = yield* bind(Plan.make(Step.make("a", { target: fn("a") }), Step.make("slow", { target: slow })))
      const fiber = yield* Effect.forkChild(
        checkpoint.run(plan, { key: "k", input: "go", timeouts: { total: "1 second" } })
      )
      yield* TestClock.adjust("1 second")
      const result = yield* Fiber.join(fiber)
      assert(result.outcome === "Interrupted")
      assert.strictEqual(result.reason, "timeout")
      const found = Option.getOrThrow(yield* checkpoint.inspect("k"))
      assert.strictEqual(found.status, "cancelled")
      assert.strictEqual(Option.getOrThrow(yield* checkpoint.load(plan, "k")).cursor, "slow")

      const again = yield* Effect.forkChild(checkpoint.resume(plan, { key: "k" }))
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(completed(yield* Fiber.join(again)).output, "late")
      assert.deepStrictEqual(ran, ["a", "slow", "slow"])
    }).pipe(Effect.provide(layer()))
  },
  Q02: {
    expected: "the answer of a plan does not fit, and there are two retries: the whole plan runs three times",
    instead: "so where a plan is a step with retries; a plan by itself runs once, and a resume repeats nothing (PLAN-5)",
    test: Effect.gen(function* () {
      const { fn, ran } = log()
      const two = [
        Step.make("a", { target: fn("a") }),
        Step.make("b", { target: fn("b", () => "no number") })
      ] as const
      const inner = yield* bind(Plan.make({ name: "inner" }, ...two))
      const outer = yield* bind(
        Plan.make(Step.make("sub", { target: inner, output: Schema.Finite, retry: { times: 2 } }))
      )
      assert.strictEqual(failureOf(yield* Effect.flip(Plan.run(outer, "go"))), "OutputInvalid")
      assert.deepStrictEqual(ran, ["a", "b", "a", "b", "a", "b"])

      ran.length = 0
      const alone = yield* bind(Plan.make({ output: Schema.Finite }, ...two))
      const error = yield* Effect.flip(Plan.run(alone, "go"))
      assert.strictEqual(error.reason._tag, "OutputInvalid")
      assert(error.state !== undefined)
      assert.strictEqual((yield* Effect.flip(Plan.resume(alone, error.state))).reason._tag, "OutputInvalid")
      assert.deepStrictEqual(ran, ["a", "b"])
      yield* Effect.flip(Effect.retry(Plan.run(alone, "go"), { times: 2 }))
      assert.lengthOf(ran, 8)
    })
  },
  Q03: {
    expected: "a member of a band interrupts itself: a failure of that member, and no interruption of the run",
    test: Effect.gen(function* () {
      const { fn, ran } = log()
      let isStopping = true
      const plan = yield* bind(
        Plan.make(
          Step.make("a", { target: fn("a") }),
          Step.make("p", { target: fn("p", () => (isStopping ? Effect.interrupt : "P")), parallel: true }),
          Step.make("q", { target: fn("q", () => Effect.delay(Effect.succeed("Q"), "1 second")), parallel: true })
        )
      )
      const fiber = yield* Effect.forkChild(Effect.flip(Plan.run(plan, "go")))
      yield* TestClock.adjust("1 second")
      const error = yield* Fiber.join(fiber)
      assert.strictEqual(failureOf(error), "Interrupted")
      assert(error.reason._tag === "StepFailed" && error.reason.step === "p" && error.state !== undefined)
      isStopping = false
      assert.strictEqual(completed(yield* Plan.resume(plan, error.state)).output, "Q")
      assert.deepStrictEqual(ran, ["a", "p", "q", "p"])
    })
  },
  Q06: {
    expected: `the route of "a:b" to "c" and that of "a" to "b:c" ask one predicate`,
    instead:
      "predicates of routes are looked up by step and target (S18.5); two that versions 1 and 2 cannot tell apart are refused",
    test: Effect.gen(function* () {
      const wire = (second: string, other: string) => ({
        version: 2,
        max_iterations: 100,
        steps: [
          { name: "a:b", ...callable("f"), routes: ["c"] },
          { name: second, ...callable("f"), routes: [other] },
          { name: "c", ...callable("f") },
          { name: other, ...callable("f") }
        ]
      })
      const asked: Array<string> = []
      const ask = (name: string, answer: boolean) => () => {
        asked.push(name)
        return answer
      }
      const { fn } = log()
      const targets = { f: fn("f") }
      const plan = yield* Plan.decode(wire("a", "b:d"), {
        targets,
        routes: { "a:b": { c: ask("of a:b", false) }, a: { "b:d": ask("of a", true) } }
      })
      const result = completed(yield* Plan.run(yield* Plan.bind(plan), "go"))
      assert.deepStrictEqual(asked, ["of a:b", "of a"])
      assert.deepStrictEqual(pluck(PlanRun.history(result.state), "step"), ["a:b", "a", "b:d"])
      const error = yield* Effect.flip(
        Plan.decode(wire("a", "b:c"), {
          targets,
          routes: { "a:b": { c: ask("of a:b", false) }, a: { "b:c": ask("of a", true) } }
        })
      )
      assert.strictEqual(error._tag, "PayloadError")
      assert.include(error.message, `"routes:a:b:c"`)
    })
  },
  Q07: {
    expected: "a function that gives an envelope: the envelope is the payload; that of a tool is taken apart",
    instead: "there are no envelopes, and nothing is taken apart: what a function or a tool gives is the payload (PLAN-5)",
    test: Effect.gen(function* () {
      const plan = yield* Plan.make(
        Step.make("tool", { target: "envelope" }),
        Step.make("a", {
          target: ({ payload }) => Effect.succeed({ task: "inner", payload, error: { type: "X", message: "no" } })
        }),
        Step.make("b", { target: ({ task }) => Effect.succeed(task) })
      )
      const bound = yield* Plan.bind(plan, { toolkit })
      const tool = `{"payload":"from a tool","task":"go"}`
      assert.strictEqual(
        completed(yield* Plan.run(bound, "go")).output,
        `{"error":{"message":"no","type":"X"},"payload":${tool},"task":"inner"}`
      )
    }).pipe(
      Effect.provide(toolkit.toLayer({ envelope: ({ task }) => Effect.succeed({ task, payload: "from a tool" }) }))
    )
  },
  Q09: {
    expected: "a predicate that is asynchronous: its promise is true, so that the route is always taken",
    instead: "a predicate may be an Effect and is waited for; anything that is no boolean in the end is a failure (S7.6)",
    test: Effect.gen(function* () {
      const { fn, ran } = log()
      const make = (answer: () => boolean | Effect.Effect<boolean>) =>
        bind(
          Plan.make(
            { predicates: { asks: answer } },
            Step.make("a", { target: fn("a"), routes: [["c", When.custom("asks")]] }),
            Step.make("b", { target: fn("b") }),
            Step.make("c", { target: fn("c") })
          )
        )
      const late = (answer: boolean) => make(() => Effect.promise(() => Promise.resolve(answer)))
      yield* Plan.run(yield* late(false), "go")
      yield* Plan.run(yield* late(true), "go")
      assert.deepStrictEqual(ran, ["a", "b", "c", "a", "c"])
      const promise: unknown = Promise.resolve(false)
      // Sound: it is not; the case is about predicates whose types lie.
      const lie = () => promise as boolean
      const error = yield* Effect.flip(Plan.run(yield* make(lie), "go"))
      assert.strictEqual(error.reason._tag, "PredicateFailed")
    })
  },
  Q10: {
    expected: "a state that is passed in: the run goes on at its next step, with its history and what was written",
    instead: "one whose run is over gives its result again instead of beginning anew (S6.1), and no checkpoint is touched",
    test: Effect.gen(function* () {
      const checkpoint = yield* Checkpoint.Checkpoint
      const { fn, ran } = log()
      let isDown = true
      const plan = yield* bind(
        Plan.make(
          Step.make("a", { target: fn("a"), writes: "w" }),
          Step.make("b", { target: fn("b", ({ task }) => (isDown ? Effect.fail("down") : `b(${task})`)) })
        )
      )
      const { state } = yield* Effect.flip(Plan.run(plan, "go"))
      assert(state !== undefined)
      const kept = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(state))
      isDown = false
      const result = completed(yield* Plan.resume(plan, kept))
      assert.strictEqual(result.output, "b(a(go))")
      assert.deepStrictEqual([...result.writes], [["w", "a(go)"]])
      assert.deepStrictEqual(pluck(PlanRun.history(result.state), "step"), ["a", "b"])
      const again = completed(yield* Plan.resume(plan, result.state))
      assert.strictEqual(again.output, "b(a(go))")
      assert.deepStrictEqual(ran, ["a", "b", "b"])
      assert.deepStrictEqual((yield* checkpoint.list()).keys, [])
    }).pipe(Effect.provide(layer()))
  }
}
