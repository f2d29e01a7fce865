/** P03-P05, P08: code that waits, and runMany outside of Effects. */
import { assert } from "@effect/vitest"
import { Context, Effect, Fiber, Result } from "effect"
import { TestClock } from "effect/testing"
import { RunContext } from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"
import { completed } from "../../plan/support.ts"
import { bind, type Rows } from "./row.ts"

const RequestId = Context.Reference<string>("test/RequestId", { defaultValue: () => "nobody" })

class Tenant extends Context.Service<Tenant, { readonly name: string }>()("test/Tenant") {}

const halves = bind(
  Plan.make(
    Step.make("halve", {
      target: ({ payload }: Step.Input) =>
        typeof payload === "number" ? Effect.succeed(payload / 2) : Effect.fail("no number")
    })
  )
)

const outputs = <A, E>(results: ReadonlyArray<Result.Result<{ readonly outcome: string; readonly output?: A }, E>>) =>
  results.map((result) => (Result.isSuccess(result) ? result.success.output : "failed"))

/** Code that is no Effect. */
const outside = {
  now: <A, E>(effect: Effect.Effect<A, E>): A => Effect.runSync(effect),
  later: <A, E>(effect: Effect.Effect<A, E>): Promise<A> => Effect.runPromise(effect)
}

export const rows: Rows = {
  P03: {
    expected: "a target that takes long does not hold up what else runs, and neither does the engine",
    test: Effect.gen(function* () {
      const waiting = yield* bind(
        Plan.make(Step.make("slow", { target: () => Effect.delay(Effect.succeed("done"), 200) }))
      )
      let ticks = 0
      yield* Effect.forkChild(Effect.forever(Effect.tap(Effect.sleep(50), () => Effect.sync(() => (ticks += 1)))))
      const fiber = yield* Effect.forkChild(Plan.run(waiting, "go"))
      yield* TestClock.adjust(199)
      assert.strictEqual(ticks, 3)
      yield* TestClock.adjust(1)
      yield* Fiber.join(fiber)

      // Steps that never wait: another fiber runs nevertheless, and interrupts them.
      let isEnough = false
      const spinning = yield* bind(
        Plan.make(
          { maxIterations: 5000, predicates: { more: () => !isEnough } },
          Step.make("spin", { target: () => Effect.succeed("x"), routes: [["spin", When.custom("more")]] })
        )
      )
      const others = Effect.andThen(
        Effect.repeat(Effect.yieldNow, { times: 5 }),
        Effect.sync(() => (isEnough = true))
      )
      yield* Effect.forkChild(others)
      assert.isAbove(completed(yield* Plan.run(spinning, "go")).iterations, 1)
    })
  },
  P04: {
    expected: "a target sees what its caller has set: references, services and the run's context",
    test: Effect.gen(function* () {
      const look = () =>
        Effect.gen(function* () {
          const context = yield* RunContext.RunContext
          return [yield* RequestId, (yield* Tenant).name, context["user"] ?? null]
        })
      const plan = yield* bind(
        Plan.make(
          Step.make("alone", { target: look }),
          Step.make("a", { target: look, parallel: true }),
          Step.make("b", { target: look, parallel: true }),
          Step.make("all", {
            target: ({ context, task }) => Effect.succeed([task, context ?? ""]),
            task: Reference.fromStep("alone"),
            context: Reference.fromParallelAll("a")
          })
        )
      )
      const result = yield* Plan.run(plan, "go", { context: { user: "ada" } }).pipe(
        Effect.provideService(RequestId, "r-17"),
        Effect.provideService(Tenant, { name: "acme" })
      )
      const seen = `["r-17","acme","ada"]`
      assert.deepStrictEqual(completed(result).output, [seen, `[a]\n${seen}\n\n[b]\n${seen}`])
    })
  },
  P05: {
    expected: "a target that is asynchronous is waited for",
    test: Effect.gen(function* () {
      const plan = yield* bind(
        Plan.make(
          Step.make("a", { target: ({ task }) => Effect.promise(() => Promise.resolve(`${task}!`)) }),
          Step.make("b", {
            target: ({ task }) =>
              Effect.callback<string>((resume) => {
                queueMicrotask(() => resume(Effect.succeed(`${task}?`)))
              })
          })
        )
      )
      assert.strictEqual(completed(yield* Plan.run(plan, "go")).output, "go!?")
    })
  },
  P08: {
    expected: "runMany can be run from code that is not asynchronous, and from code that is",
    test: Effect.gen(function* () {
      const many = Effect.map(Plan.runMany(yield* halves, [{ payload: 4 }, "four", { payload: 3 }]), outputs)
      const expected = [2, "failed", 1.5]
      assert.deepStrictEqual(yield* many, expected)
      assert.deepStrictEqual(outside.now(many), expected)
      assert.deepStrictEqual(yield* Effect.promise(() => outside.later(many)), expected)
    })
  }
}
