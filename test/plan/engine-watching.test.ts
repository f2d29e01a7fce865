/** L6, L8, L9: agents that are cut off, and what spans tell about a plan. */
import { assert, describe, it } from "@effect/vitest"
import { Cause, Effect, Exit, Fiber, Schema, Stream, Tracer } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { TestClock } from "effect/testing"
import { Agent } from "effect-emissary"
import { Plan, Step, type PlanRun } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { completed, journal, log } from "./support.ts"

const secret = "SECRET"

describe("agents that are cut off", () => {
  const wait = Tool.make("wait", { parameters: Schema.Struct({}), success: Schema.String })
  const kit = Toolkit.make(wait)
  const waiter = Agent.make("waiter", { toolkit: kit })
  const waiting = Effect.provide([
    kit.toLayer({ wait: () => Effect.as(Effect.sleep("5 seconds"), "waited") }),
    ScriptedModel.layer([{ toolCalls: [{ id: "c", name: "wait", params: {} }] }, { text: "done" }, { text: "done" }])
  ])

  it.effect("L6 an interrupted agent says so before the plan does, and goes on from there", () =>
    Effect.gen(function* () {
      const { fn } = log()
      const inner = yield* Plan.bind(yield* Plan.make({ name: "inner" }, Step.make("w", { target: waiter })))
      const bound = yield* Plan.bind(
        yield* Plan.make(Step.make("a", { target: inner }), Step.make("b", { target: fn("b") }))
      )
      const { tags, write } = journal()
      let state: PlanRun.State | undefined
      const run = Plan.run(bound, "x", {
        journal: (events, after) => {
          state = after
          return write(events, after)
        }
      })
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
      assert(state !== undefined)
      assert.strictEqual(completed(yield* Plan.resume(bound, state)).output, "b(done)")
    }).pipe(waiting)
  )

  it.effect("L9 the total timeout of the plan ends agents inside it, and the run says why", () =>
    Effect.gen(function* () {
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: waiter })))
      const fiber = yield* Effect.forkChild(Plan.run(bound, "x", { timeouts: { total: "1 second" } }))
      yield* TestClock.adjust("1 second")
      const result = yield* Fiber.join(fiber)
      assert(result.outcome === "Interrupted")
      assert.strictEqual(result.reason, "timeout")
      assert.strictEqual(completed(yield* Plan.resume(bound, result.state)).output, "done")
    }).pipe(waiting)
  )

  it.effect("L9 timeouts.step is handed to agents: the one that ends by it fails its step", () =>
    Effect.gen(function* () {
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: waiter })))
      const fiber = yield* Effect.forkChild(Effect.flip(Plan.run(bound, "x", { timeouts: { step: "1 second" } })))
      yield* TestClock.adjust("1 second")
      const { reason } = yield* Fiber.join(fiber)
      assert(reason._tag === "StepFailed")
      assert.strictEqual(reason.failure.type, "Interrupted")
    }).pipe(waiting)
  )

  it.effect("PLAN-7 leaving the stream of a plan interrupts its agents", () =>
    Effect.gen(function* () {
      const bound = yield* Plan.bind(yield* Plan.make(Step.make("a", { target: waiter })))
      const { tags, write } = journal()
      yield* Plan.stream(bound, "x", { journal: write }).pipe(
        Stream.takeUntil((event) => event._tag === "Agent" && event.event._tag === "ToolStarted"),
        Stream.runDrain
      )
      assert.include(tags().flat(), "a/RunInterrupted")
      assert.strictEqual(tags().flat().at(-1), "PlanFinished")
    }).pipe(waiting)
  )
})

describe("spans", () => {
  it.effect("L8 plans and steps have spans under each other, without anything that was said", () =>
    Effect.gen(function* () {
      const spans: Array<Tracer.NativeSpan> = []
      const tracer = Tracer.make({
        span: (options) => {
          const span = new Tracer.NativeSpan(options)
          spans.push(span)
          return span
        }
      })
      const { fn } = log()
      const inner = yield* Plan.bind(yield* Plan.make({ name: "inner" }, Step.make("i", { target: fn("i") })))
      const broken = Step.target("broken", () => Effect.die(new Error(secret)))
      const bound = yield* Plan.make(
        { name: "outer" },
        Step.make("o", { target: inner, context: secret }),
        Step.make("z", { target: broken })
      ).pipe(Effect.flatMap(Plan.bind))
      const exit = yield* Effect.exit(Effect.withTracer(Plan.run(bound, secret), tracer))
      assert(Exit.isFailure(exit))
      assert.deepStrictEqual(
        spans.map(({ name, parent }) => [
          name,
          parent._tag === "Some" && parent.value._tag === "Span" ? parent.value.name : ""
        ]),
        [
          ["invoke_plan outer", ""],
          ["step o", "invoke_plan outer"],
          ["invoke_plan inner", "step o"],
          ["step i", "invoke_plan inner"],
          ["step z", "invoke_plan outer"]
        ]
      )
      const shown = spans.map(({ attributes, status }) =>
        JSON.stringify([
          Array.from(attributes),
          status._tag === "Ended" && Exit.isFailure(status.exit) ? Cause.pretty(status.exit.cause) : ""
        ])
      )
      assert.notInclude(shown.join("\n"), secret)
      assert.include(shown[4] ?? "", "Defect")
    })
  )
})
