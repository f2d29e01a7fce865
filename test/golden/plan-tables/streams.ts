/** P03, P08, P23, P25, P26: code that waits, runMany outside of Effects, and tokens as they come. */
import { assert } from "@effect/vitest"
import { Effect, Fiber, Result, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Agent } from "effect-emissary"
import { Plan, PlanEvent, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { bind, completed, log } from "../../plan/support.ts"
import type { Rows } from "./row.ts"

const writer = Agent.make("writer", { instructions: "Write." })

const text = "one, two, three, four, five, six"

/** An agent that speaks, and a function after it. */
const speaking = Effect.gen(function* () {
  const { fn, ran } = log()
  const plan = yield* bind(
    Plan.make("plan", [Step.make("speak", { target: writer }), Step.make("second", { target: fn("second", () => "end") })])
  )
  return { plan, ran }
})

const helper = Agent.make("helper", { instructions: "Help." })
const boss = Agent.make("boss", {
  instructions: "Lead.",
  toolkit: [Agent.asTool(helper, { name: "help", description: "Helps" })]
})

const leading: ScriptedModel.TurnFunction = ({ messages }) => {
  if (messages[0]?.text === "Help.") return { text: "only for the boss" }
  return messages.some(({ role }) => role === "tool")
    ? { text: "for everybody" }
    : { toolCalls: [{ name: "help", params: { input: "please" } }] }
}

const halves = bind(
  Plan.make("plan", [
    Step.make("halve", {
      target: ({ payload }: Step.Input) =>
        typeof payload === "number" ? Effect.succeed(payload / 2) : Effect.fail("no number")
    })
  ])
)

const outputs = <A, E>(results: ReadonlyArray<Result.Result<{ readonly outcome: string; readonly output?: A }, E>>) =>
  results.map((result) => (Result.isSuccess(result) ? result.success.output : "failed"))

/** Code that is no Effect. */
const outside = {
  now: <A, E>(effect: Effect.Effect<A, E>): A => Effect.runSync(effect),
  later: <A, E>(effect: Effect.Effect<A, E>): Promise<A> => Effect.runPromise(effect)
}

export const rows: Rows = {
  P23: {
    expected: "the first token is there before the second step has begun",
    test: Effect.gen(function* () {
      const { plan, ran } = yield* speaking
      const tokens: Array<string> = []
      const fiber = yield* PlanEvent.textDeltas(Plan.stream(plan, "go")).pipe(
        Stream.runForEach((delta) => Effect.sync(() => tokens.push(delta))),
        Effect.forkChild
      )
      while (tokens.length === 0) yield* TestClock.adjust("1 second")
      assert.isTrue(text.startsWith(tokens.join("")))
      assert.notStrictEqual(tokens.join(""), text)
      assert.deepStrictEqual(ran, [])
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(fiber)
      assert.strictEqual(tokens.join(""), `${text}end`)
      assert.deepStrictEqual(ran, ["second"])
    }).pipe(Effect.provide(ScriptedModel.layer([{ text, chunkDelay: 1000 }])))
  },
  P25: {
    expected: "more events than there is room for, a reader who takes one and leaves: everything stops at once",
    test: Effect.gen(function* () {
      // Steps that never wait: those for whose events there is room may run before the reader leaves, and no others.
      const { fn, ran } = log()
      const steps = Array.from({ length: 40 }, (_, i) => Step.make(`s${i}`, { target: fn(`s${i}`) }))
      yield* Plan.stream(yield* bind(Plan.make("plan", steps)), "go").pipe(Stream.take(1), Stream.runDrain)
      assert.isAtMost(ran.length, 10)
    })
  },
  P26: {
    expected: "what agents say who are tools of a speaking agent is no part of the text",
    test: Effect.gen(function* () {
      const plan = yield* bind(Plan.make("plan", [Step.make("a", { target: boss })]))
      const events = yield* Stream.runCollect(Plan.stream(plan, "go"))
      const tokens = yield* Stream.runCollect(PlanEvent.textDeltas(Stream.fromIterable(events)))
      assert.strictEqual(tokens.join(""), "for everybody")
      // The text was emitted as text, and is reported as such.
      const inside = events.flatMap((event) =>
        event._tag === "Agent" && event.event._tag === "Child" && event.event.event._tag === "TextDelta"
          ? [event.event.event.delta]
          : []
      )
      assert.strictEqual(inside.join(""), "only for the boss")
    }).pipe(Effect.provide(ScriptedModel.layer(leading)))
  },
  P03: {
    expected: "a target that takes long does not hold up what else runs, and neither does the engine",
    test: Effect.gen(function* () {
      const waiting = yield* bind(
        Plan.make("plan", [Step.make("slow", { target: () => Effect.delay(Effect.succeed("done"), 200) })])
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
        Plan.make("plan", [
          Step.make("spin", { target: () => Effect.succeed("x"), routes: [["spin", When.custom("more")]] })
        ], { maxIterations: 5000, predicates: { more: () => !isEnough } })
      )
      const others = Effect.andThen(
        Effect.repeat(Effect.yieldNow, { times: 5 }),
        Effect.sync(() => (isEnough = true))
      )
      yield* Effect.forkChild(others)
      assert.isAbove(completed(yield* Plan.run(spinning, "go")).iterations, 1)
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
