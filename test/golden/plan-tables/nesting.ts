/** P22, P28-P30, P36: plans and agents inside each other, and their events. */
import { assert } from "@effect/vitest"
import { Effect, Option, Schema, Stream } from "effect"
import { Agent, type AgentEvent } from "effect-emissary"
import { Plan, Reference, Step } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"
import { bind, completed, log } from "../../plan/support.ts"
import type { Rows } from "./row.ts"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as planRunParts from "#src/run/internal/planRunParts.ts"

const reader = Agent.make("reader", { instructions: "You are the reader." })
const clerk = Agent.make("clerk", {
  instructions: "You are the clerk.",
  toolkit: [Agent.asTool(reader, { name: "read", description: "Reads" })]
})

/** The clerk asks the reader, who answers; both of them use tokens. */
const asking: ScriptedModel.TurnFunction = ({ messages }) => {
  if (messages[0]?.text === "You are the reader.") {
    return { text: "it says so", usage: { inputTokens: 42, outputTokens: 11 } }
  }
  return messages.some(({ role }) => role === "tool")
    ? { text: "I looked", usage: { inputTokens: 20, outputTokens: 2 } }
    : { toolCalls: [{ name: "read", params: { input: "look" } }], usage: { inputTokens: 10, outputTokens: 1 } }
}

class Oops extends Schema.TaggedError<Oops>()("Oops", {}) {}

type Told = readonly [path: string, event: AgentEvent.AgentEvent<unknown>]

const flat = (path: ReadonlyArray<string>, event: AgentEvent.AgentEvent<unknown>): Told =>
  event._tag === "Child" ? flat([...path, event.name], event.event) : [path.join("/"), event]

/** A plan as an agent that reports where it ended, by the action of its only step. */
const exits = {
  Completed: () => Effect.succeed("A"),
  Failed: () => Effect.fail("no"),
  Paused: () => Step.pause("wait"),
  Concluded: () => Step.conclude("enough")
}

export const rows: Rows = {
  P22: {
    expected: "references of a plan in a plan mean its own steps, also where the outer one has the name",
    test: Effect.gen(function* () {
      const { fn } = log()
      const inner = yield* bind(
        Plan.make("inner", [
          Step.make("a", { target: fn("in") }),
          Step.make("b", { target: fn("b") }),
          Step.make("c", { target: fn("c"), task: Reference.fromStep("a"), context: Reference.fromStart })
        ])
      )
      const outer = yield* bind(Plan.make("plan", [Step.make("a", { target: fn("out") }), Step.make("sub", { target: inner })]))
      const result = completed(yield* Plan.run(outer, "go"))
      assert.strictEqual(result.output, "c(in(out(go)))")
      const name: string = "outside"
      const error = yield* Effect.flip(Plan.make("plan", [Step.make("b", { target: fn("b"), task: Reference.fromStep(name) })]))
      assert.deepStrictEqual(
        error.problems.map(({ code, step }) => [code, step]),
        [["UnknownStep", "b"]]
      )
    })
  },
  P28: {
    expected: "an agent that is called by its name as a tool used 42 and 11 tokens: so did the plan",
    test: Effect.gen(function* () {
      const plan = yield* Plan.make("plan", [Step.make("a", { target: "research" })])
      const bound = yield* Plan.bind(plan, { agents: { research: reader } })
      const direct = completed(yield* Plan.run(bound, "go"))
      assert.deepStrictEqual(direct.usage, { inputTokens: 42, outputTokens: 11 })
      assert.deepStrictEqual(Option.getOrThrow(planTransition.lastRecord(direct.state)).usage, direct.usage)

      // Behind a tool of an agent: once, with what that agent used itself.
      const behind = completed(yield* Plan.run(yield* bind(Plan.make("plan", [Step.make("a", { target: clerk })])), "go"))
      assert.deepStrictEqual(behind.usage, { inputTokens: 72, outputTokens: 14 })
    }).pipe(Effect.provide(ScriptedModel.layer(asking)))
  },
  P29: {
    expected: "a plan fails and there is a fallback: the fallback runs",
    instead: "the failure is in the typed error channel, so that any handler of Effect is a fallback (S10.1)",
    test: Effect.gen(function* () {
      const { fn, ran } = log()
      const broken = yield* bind(
        Plan.make("plan", [
          Step.make("a", { target: fn("a") }),
          Step.make("b", { target: fn("b", () => Effect.fail(new Oops())) })
        ])
      )
      const fallback = yield* bind(Plan.make("plan", [Step.make("c", { target: fn("c") })]))
      const caught = Plan.run(broken, "go").pipe(
        Effect.catchTag("PlanError", ({ reason, state }) => {
          assert(reason._tag === "StepFailed" && reason.failure.type === "Oops")
          // Completed work is not lost to the fallback.
          const done = state === undefined ? undefined : Option.getOrUndefined(planTransition.lastRecord(state))
          return Plan.run(fallback, planRunParts.payloadText(done?.output ?? null))
        })
      )
      assert.strictEqual(completed(yield* caught).output, "c(a(go))")
      const answer = yield* Effect.catchTag(broken.run("go"), "AgentError", () => fallback.run("go"))
      assert.strictEqual(answer.text, "c(go)")
      assert.deepStrictEqual(ran, ["a", "b", "c", "a", "b", "c"])
    })
  },
  P30: {
    expected: "an agent in a step without the session of the root: nothing is told of it",
    instead: "nothing has to be passed: it is told, and what is below it too, with the way to it (S5.10, PLAN-7)",
    test: Effect.gen(function* () {
      const inner = yield* bind(Plan.make("inner", [Step.make("desk", { target: clerk })]))
      const plan = yield* bind(Plan.make("plan", [Step.make("sub", { target: inner })]))
      const events = yield* Stream.runCollect(Plan.stream(plan, "go"))
      const told = events.flatMap((event) =>
        event._tag === "Agent" ? [flat([...event.path, event.step], event.event)] : []
      )
      assert.deepStrictEqual(
        told.flatMap(([path, { _tag }]) => (_tag === "RunStarted" || _tag === "RunFinished" ? [`${path} ${_tag}`] : [])),
        [
          "sub/desk RunStarted",
          "sub/desk/read RunStarted",
          "sub/desk/read RunFinished",
          "sub/desk RunFinished"
        ]
      )
    }).pipe(Effect.provide(ScriptedModel.layer(asking)))
  },
  P36: {
    expected: "every way in which a plan ends is told with the name of the plan",
    test: Effect.gen(function* () {
      for (const [exit, target] of Object.entries(exits)) {
        const plan = yield* bind(Plan.make("named", [Step.make("a", { target })]))
        const names: Array<string> = []
        const hear = (name: string | undefined) => Effect.sync(() => name !== undefined && names.push(name))
        const ended = yield* Plan.stream(plan, "go").pipe(
          Stream.runForEach((event) => {
            if (event._tag === "PlanFinished") return hear(event.result.state.plan)
            return hear(event._tag === "PlanStarted" || event._tag === "StateChanged" ? event.state.plan : undefined)
          }),
          Effect.tapError((error) => hear(error.plan)),
          Effect.exit
        )
        assert.strictEqual(ended._tag, exit === "Failed" ? "Failure" : "Success")
        yield* plan.stream("go").pipe(
          Stream.runForEach((event) => {
            if (event._tag === "RunFinished") return hear(event.result.state.agent)
            return hear(event._tag === "RunStarted" ? event.agent : undefined)
          }),
          Effect.tapError((error) => hear(error.agent)),
          Effect.exit
        )
        assert.isAbove(names.length, 6)
        assert.deepStrictEqual([exit, ...new Set(names)], [exit, "named"])
      }
    })
  }
}
