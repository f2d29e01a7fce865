import { assert } from "@effect/vitest"
import { Effect, Result, Stream } from "effect"
import { Agent } from "effect-emissary"
import { Plan, PlanEvent, Step, When } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"


import { equal } from "../../family.ts"
import { RuntimeError } from "../fixtures.ts"
import { type Case, isObject } from "../vocabulary.ts"

/** The recorded names of our events, with the step and what it gave. */
const recorded = (event: PlanEvent.PlanEvent<unknown>): ReadonlyArray<ReadonlyArray<unknown>> => {
  switch (event._tag) {
    case "PlanStarted":
      return [["agent_start", event.state.input.task]]
    case "StepStarted":
      return [["tool_call", event.step]]
    case "StepFinished":
      return [["tool_result", event.step, Plan.text(event.record.output)]]
    case "StepFailed":
      return [["tool_error", event.step, event.failure.message]]
    case "PlanFinished":
      return event.result.outcome === "Completed" ? [["agent_finish", event.result.text]] : []
    default:
      return []
  }
}

const expected = (event: unknown): ReadonlyArray<unknown> => {
  assert(isObject(event))
  const [name = ""] = Object.keys(event)
  const body = event[name]
  assert(isObject(body))
  switch (name) {
    case "agent_start":
      return [name, body["task"]]
    case "tool_call":
      return [name, body["step"]]
    case "tool_result":
      return [name, body["step"], body["result"]]
    case "tool_error":
      return [name, body["step"], body["error"]]
    default:
      return "payload" in body ? [name, body["payload"]] : [name, { failed: true }]
  }
}

const give = (name: string, text: string) => Step.make(name, { target: () => Effect.succeed(text) })

/** The events of a run; a failure of the stream stands for the last one. */
const events = <E>(plan: Effect.Effect<Plan.Plan<unknown, never>, E>) =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const bound = yield* Plan.bind(yield* plan)
    const found: Array<ReadonlyArray<unknown>> = []
    const ran = yield* Plan.stream(bound, "go").pipe(
      Stream.runForEach((event) => Effect.sync(() => found.push(...recorded(event)))),
      Effect.result
    )
    if (Result.isFailure(ran)) found.push(["agent_finish", { failed: true }])
    equal(found, Array.isArray(expect["events"]) ? expect["events"].map(expected) : [])
  })

/** Each agent answers its own name in two pieces, as the recordings' do. */
const model = ScriptedModel.layer((request) => {
  const name = request.messages[0]?.text ?? ""
  return {
    parts: [
      { type: "text-start", id: "1" },
      { type: "text-delta", id: "1", delta: `${name}:0` },
      { type: "text-delta", id: "1", delta: `${name}:1` },
      { type: "text-end", id: "1" }
    ]
  }
})

const speaker = (name: string) => Step.make(name, { target: Agent.make(name, { instructions: name }) })

const tokens = <R, E>(plan: Effect.Effect<Plan.Plan<unknown, R>, E>) =>
  Effect.fnUntraced(function* ({ expect }: Case) {
    const bound = yield* Plan.bind(yield* plan)
    const chunks = yield* Stream.runCollect(PlanEvent.textDeltas(Plan.stream(bound, "go")))
    equal(Array.from(chunks), expect["chunks"])
  }, Effect.provide(model))

const band = (name: string) =>
  Step.make(name, { target: Agent.make(name, { instructions: name }), parallel: true })

export const scenarios = {
  K01: events(Plan.make(give("a", "A"), give("b", "B"))),
  K03: events(
    Plan.make(Step.make("a", { target: () => Effect.fail(new RuntimeError({ message: "division by zero" })) }))
  ),
  K05: events(
    Plan.make(
      { predicates: { broken: () => Effect.fail(new RuntimeError({ message: "bad predicate" })) } },
      Step.make("a", { target: () => Effect.succeed("A"), routes: [["b", When.custom("broken")]] }),
      give("b", "B")
    )
  ),
  K06: Effect.fnUntraced(function* ({ expect }: Case) {
    const bound = yield* Plan.bind(yield* Plan.make(give("a", "x".repeat(1000))))
    const found: Array<ReadonlyArray<unknown>> = []
    yield* Stream.runForEach(Plan.stream(bound, "go"), (event) => Effect.sync(() => found.push(...recorded(event))))
    const lengthOf = (name: string) => String(found.find(([kind]) => kind === name)?.at(-1)).length
    equal(lengthOf("tool_result"), expect["tool_result.result length"])
    equal(lengthOf("agent_finish"), expect["agent_finish.payload length"])
  }),
  K08: tokens(Plan.make(band("p1"), band("p2"), speaker("tail"))),
  K10: tokens(Plan.make(Step.make("upper", { target: ({ task }: Step.Input) => Effect.succeed(task.toUpperCase()) }))),
  K11: tokens(Plan.make(speaker("s"), give("f", "FINAL"))),
  K13: Effect.fnUntraced(function* (golden: Case) {
    const inner = yield* Plan.bind(yield* Plan.make(speaker("i1"), speaker("i2")))
    return yield* tokens(Plan.make(Step.make("sub", { target: inner }), speaker("o")))(golden)
  })
}
