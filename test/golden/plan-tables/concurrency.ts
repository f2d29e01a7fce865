/** P01-P08: bands, runMany, and code that waits. */
import { assert } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Result } from "effect"
import { TestClock } from "effect/testing"
import { RunContext } from "effect-emissary"
import { Plan, Reference, Step, When } from "effect-emissary/plan"
import { completed, log } from "../../plan/support.ts"
import { bind, gate, type Rows } from "./row.ts"

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
  P01: {
    expected: "the members of a band run at once: three that wait 80 ms take 80 ms",
    test: Effect.gen(function* () {
      const { fn, ran } = log()
      const member = (name: string) =>
        Step.make(name, { target: fn(name, () => Effect.delay(Effect.succeed(name), 80)), parallel: true })
      const plan = yield* bind(Plan.make(member("a"), member("b"), member("c")))
      const fiber = yield* Effect.forkChild(Plan.run(plan, "go"))
      yield* TestClock.adjust(79)
      assert.deepStrictEqual(ran, ["a", "b", "c"])
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.strictEqual(completed(yield* Fiber.join(fiber)).output, "c")
    })
  },
  P02: {
    expected: "the step after a band runs once, after all members",
    test: Effect.gen(function* () {
      const { fn, ran } = log()
      const first = yield* gate
      const second = yield* gate
      const plan = yield* bind(
        Plan.make(
          Step.make("a", { target: fn("a", () => Effect.as(first.pass, "A")), parallel: true }),
          Step.make("b", { target: fn("b", () => Effect.as(second.pass, "B")), parallel: true }),
          Step.make("join", { target: fn("join"), task: Reference.fromParallelAll("a") })
        )
      )
      const fiber = yield* Effect.forkChild(Plan.run(plan, "go"))
      yield* Effect.all([first.begun, second.begun])
      yield* second.open
      yield* TestClock.adjust("1 minute")
      assert.notInclude(ran, "join")
      yield* first.open
      assert.strictEqual(completed(yield* Fiber.join(fiber)).output, "join([a]\nA\n\n[b]\nB)")
      assert.deepStrictEqual(ran, ["a", "b", "join"])
    })
  },
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

      // Steps that never wait: somebody else gets a turn nevertheless, and says that it is enough.
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
  P06: {
    expected: "runMany with concurrency 2 and six inputs: never more than two at a time",
    test: Effect.gen(function* () {
      let now = 0
      let most = 0
      const plan = yield* bind(
        Plan.make(
          Step.make("a", {
            target: ({ task }) =>
              Effect.sync(() => {
                now += 1
                most = Math.max(most, now)
              }).pipe(
                Effect.andThen(Effect.sleep(50)),
                Effect.andThen(Effect.sync(() => (now -= 1))),
                Effect.as(task)
              )
          })
        )
      )
      const fiber = yield* Effect.forkChild(Plan.runMany(plan, ["1", "2", "3", "4", "5", "6"], { concurrency: 2 }))
      yield* TestClock.adjust(149)
      assert.isUndefined(fiber.pollUnsafe())
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(outputs(yield* Fiber.join(fiber)), ["1", "2", "3", "4", "5", "6"])
      assert.strictEqual(most, 2)
    })
  },
  P07: {
    expected: "runMany gives results in the order of the inputs, also when they end the other way round",
    test: Effect.gen(function* () {
      const gates = new Map([
        ["x", yield* Deferred.make<void>()],
        ["y", yield* Deferred.make<void>()],
        ["z", yield* Deferred.make<void>()]
      ])
      const ended: Array<string> = []
      const wait = (name: string) => {
        const gate = gates.get(name)
        return gate === undefined ? Effect.die("no gate") : Deferred.await(gate)
      }
      const plan = yield* bind(
        Plan.make(
          Step.make("a", {
            target: ({ task }) =>
              Effect.sync(() => {
                ended.push(task)
                return task.toUpperCase()
              }).pipe((answer) => Effect.andThen(wait(task), answer))
          })
        )
      )
      const fiber = yield* Effect.forkChild(Plan.runMany(plan, gates.keys()))
      for (const name of ["z", "y", "x"]) {
        yield* Effect.flatMap(Effect.fromNullishOr(gates.get(name)), (gate) => Deferred.succeed(gate, undefined))
        yield* TestClock.adjust(1)
      }
      assert.deepStrictEqual(outputs(yield* Fiber.join(fiber)), ["X", "Y", "Z"])
      assert.deepStrictEqual(ended, ["z", "y", "x"])
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
