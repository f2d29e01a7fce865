/** P23, P25, P26: tokens as they come, and readers who leave. */
import { assert } from "@effect/vitest"
import { Effect, Fiber, Stream } from "effect"
import { TestClock } from "effect/testing"
import { Agent } from "effect-emissary"
import { Plan, PlanEvent, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { journal, log } from "../../plan/support.ts"
import { bind, type Rows } from "./row.ts"

const writer = Agent.make("writer", { instructions: "Write." })

const text = "one, two, three, four, five, six"

/** An agent that speaks, and a function after it. */
const speaking = Effect.gen(function* () {
  const { fn, ran } = log()
  const plan = yield* bind(
    Plan.make(Step.make("speak", { target: writer }), Step.make("second", { target: fn("second", () => "end") }))
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
      const { plan, ran } = yield* speaking
      const { batches, write } = journal()
      const first = yield* PlanEvent.textDeltas(Plan.stream(plan, "go", { journal: write })).pipe(
        Stream.take(1),
        Stream.runCollect
      )
      assert.deepStrictEqual(first, ["x"])
      assert.deepStrictEqual(
        batches
          .flat()
          .slice(-2)
          .map(({ _tag }) => _tag),
        ["PlanInterrupted", "PlanFinished"]
      )
      yield* TestClock.adjust("1 minute")
      assert.deepStrictEqual(ran, [])

      // Steps that never wait: those for whose events there is room may run before the reader leaves, and no others.
      const { fn, ran: functions } = log()
      const steps = Array.from({ length: 40 }, (_, i) => Step.make(`s${i}`, { target: fn(`s${i}`) }))
      yield* Plan.stream(yield* bind(Plan.make(...steps)), "go").pipe(Stream.take(1), Stream.runDrain)
      assert.isAtMost(functions.length, 10)
    }).pipe(Effect.provide(ScriptedModel.layer([{ text: "x".repeat(50) }], { chunkSize: 1 })))
  },
  P26: {
    expected: "what agents say who are tools of a speaking agent is no part of the text",
    test: Effect.gen(function* () {
      const plan = yield* bind(Plan.make(Step.make("a", { target: boss })))
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
  }
}
