/** PLAN-7 S16: pauses, decisions and conclusions. */
import { assert, describe } from "@effect/vitest"
import { Effect } from "effect"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { completed, log, planOf } from "./support.ts"
import { endsAs, failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { bare, decide, decision } from "../decisions.ts"

describe("signals", () => {
  test("PLAN-7 S16 P38 P39 a step that pauses is run again with the same input; nothing else is", function* () {
    const { fn, ran, fnStep } = log()
    let open = false
    const tasks: Array<string> = []
    const door = fn("door", ({ task }) => {
      tasks.push(task)
      return open ? Effect.succeed("in") : Step.pause("closed")
    })
    const bound = yield* planOf([fnStep("a"), Step.make("door", { target: door, retry: { times: 3 } }), fnStep("c")])
    const paused = yield* endsAs("Paused", Plan.run(bound, "x"))
    assert.deepStrictEqual(bare(paused.requests), [
      { _tag: "Pause", callId: "door:2", name: "door", arguments: { reason: "closed" } }
    ])
    const again = yield* endsAs("Paused", Plan.resume(bound, paused.state))
    open = true
    const json = yield* PlanRun.stateCodec.encodeJson(again.state)
    const result = completed(yield* Plan.resume(bound, yield* PlanRun.stateCodec.decodeJson(json)))
    assert.strictEqual(result.output, "c(in)")
    assert.deepStrictEqual(ran, ["a", "door", "door", "door", "c"])
    assert.deepStrictEqual(tasks, ["a(x)", "a(x)", "a(x)"])
  })

  test("PLAN-7 a pause that is denied fails the step without running it", function* () {
    const { fn, ran } = log()
    const bound = yield* planOf([Step.make("door", { target: fn("door", () => Step.pause("closed")) })])
    const { state } = yield* Plan.run(bound, "x")
    const error = yield* Effect.flip(
      Plan.resume(bound, state, { decisions: decide(state, false, { reason: "go away" }) })
    )
    assert(error.reason._tag === "StepFailed")
    assert.deepStrictEqual([error.reason.failure.type, ran.length], ["Denied", 1])
    assert.include(error.message, "go away")
    yield* failsFor("InvalidDecision", Plan.resume(bound, state, { decisions: [decision("window")] }))
  })

  test("PLAN-7 the problem of a decision is reported: decided before, or a run that is over", function* () {
    const { fn, fnStep } = log()
    let open = false
    const bound = yield* planOf([
      fnStep("a"),
      Step.make("door", { target: fn("door", () => (open ? "in" : Step.pause("closed"))) })
    ])
    const { state } = yield* Plan.run(bound, "x")
    const refused = (of: PlanRun.State, callId: string, members: object = {}) =>
      Effect.map(
        Effect.flip(Plan.resume(bound, of, { decisions: [{ ...decision(callId), ...members }] })),
        ({ message, reason }) => {
          assert(reason._tag === "InvalidDecision")
          return { message, problem: reason.problem }
        }
      )
    const settled = yield* refused(state, "a")
    assert.strictEqual(settled.problem, "unknown")
    assert.include(settled.message, `"a": no request of this id and path waits, or it is decided`)
    assert.include(settled.message, `Waiting: "door:2".`)
    for (const callId of ["a:1", "door:9"]) assert.strictEqual((yield* refused(state, callId)).problem, "unknown")
    const elsewhere = yield* refused(state, "door:2", { path: ["nowhere"] })
    assert.strictEqual(elsewhere.problem, "unknown")
    assert.include(elsewhere.message, `"nowhere" > "door:2"`)
    for (const members of [{ approved: "false" }, { path: "door" }]) {
      assert.strictEqual((yield* refused(state, "door:2", members)).problem, "malformed")
    }
    const changed = yield* refused(state, "door:2")
    assert.strictEqual(changed.problem, "changed")
    assert.include(changed.message, `"door:2": it has the digest of another request`)
    open = true
    const done = yield* Plan.resume(bound, state, { decisions: decide(state) })
    const over = yield* refused(done.state, "door:2")
    assert.strictEqual(over.problem, "unknown")
    assert.include(over.message, "Waiting: none.")
  })

  test("PLAN-7 S16.3 conclude ends the plan with its answer", function* () {
    const { fn, ran, fnStep } = log()
    const bound = yield* planOf([Step.make("a", { target: fn("a", () => Step.conclude("42")) }), fnStep("b")])
    const result = yield* endsAs("Concluded", Plan.run(bound, "x"))
    assert.strictEqual(result.answer, "42")
    assert.deepStrictEqual(ran, ["a"])
    yield* endsAs("Concluded", Plan.resume(bound, result.state))
    assert.deepStrictEqual(ran, ["a"])
    const refused = yield* Effect.flip(Plan.resume(bound, result.state, { decisions: [decision("a")] }))
    assert(refused.reason._tag === "InvalidDecision")
    assert.strictEqual(refused.reason.problem, "unknown")
  })
})

describe("decisions", () => {
  test("PLAN-7 a function that paused sees what was decided, in all its tries", function* () {
    const seen: Array<Step.Input["decision"]> = []
    const bound = yield* planOf([
      Step.make("ask", {
        retry: { times: 1 },
        target: ({ decision }) => {
          seen.push(decision)
          if (decision === undefined) return Step.pause("May I?")
          return seen.length < 3 ? Effect.fail("later") : Effect.succeed(decision.reason ?? "yes")
        }
      })
    ])
    const paused = yield* Plan.run(bound, "x")
    const kept = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(paused.state))
    const decisions = decide(kept, true, { reason: "do", decidedBy: "Ada" })
    const result = yield* Plan.resume(bound, kept, { decisions })
    assert.strictEqual(completed(result).output, "do")
    const [{ digest = "" } = {}] = decisions
    const seenDecision = { approved: true, digest, reason: "do", decidedBy: "Ada" }
    assert.deepStrictEqual(seen, [undefined, seenDecision, seenDecision])
    // Without a decision it is asked again
    seen.length = 0
    assert.strictEqual((yield* Plan.resume(bound, kept)).outcome, "Paused")
    assert.deepStrictEqual(seen, [undefined])
  })
})
