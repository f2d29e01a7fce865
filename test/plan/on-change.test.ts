import { assert, describe } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, type ToolContract, VersionedStore } from "effect-emissary"
import { Plan, PlanRun, Step } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"

import { call } from "../agent/fixtures.ts"
import { decide } from "../decisions.ts"
import { failsFor, failsMidway } from "../outcomes.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { completed, journal, log, planOf } from "./support.ts"

const breaking = (changes: ReadonlyArray<ToolContract.Change> = []) =>
  changes.flatMap((change) => (change.breaking ? [change.path] : []))

const json = (state: PlanRun.State) =>
  Effect.flatMap(PlanRun.stateCodec.encodeJson(state), (text) => PlanRun.stateCodec.decodeJson(text))

/** A step that waits for a decision. */
const waiting = ({ fn }: ReturnType<typeof log>) =>
  Step.make("w", { target: fn("w", ({ decision }) => (decision === undefined ? Step.pause("look") : "fine")) })

const changeIn = (batches: ReadonlyArray<ReadonlyArray<PlanRun.Event>>) =>
  batches.flat().flatMap((event) => (event._tag === "PlanResumed" ? [event.change] : []))[0]

describe("DUR-10 runs of plans outlive edits", () => {
  test("steps that have not run may change, come and go, and the events record it", function* () {
    const { fn, fnStep, ran } = log()
    let broken = true
    const b = Step.make("b", { target: fn("b", () => (broken ? Effect.fail("down") : "b")) })
    const one = yield* planOf([fnStep("a"), b, fnStep("c"), fnStep("d")])
    const { state } = yield* failsMidway("StepFailed", Plan.run(one, "x"))
    broken = false
    const two = yield* planOf([fnStep("a"), b, fnStep("new"), Step.make("d", { target: fn("other") })])
    const { batches, write } = journal()
    const result = completed(yield* Plan.resume(two, yield* json(state), { journal: write }))
    assert.deepStrictEqual(ran, ["a", "b", "b", "new", "other"])
    const change = changeIn(batches)
    assert.deepStrictEqual(pluck(change?.changes ?? [], "path"), ["/steps/c", "/steps/d", "/steps/new"])
    assert.deepStrictEqual(breaking(change?.changes), [])
    assert.strictEqual(result.state.basis?.digest, two.digest)
    assert.strictEqual(result.state.digest, one.digest)
    const kept = yield* Effect.forEach(batches.flat(), (event) =>
      Effect.flatMap(PlanRun.eventCodec.encode(event), PlanRun.eventCodec.decode)
    )
    assert.deepStrictEqual(kept, batches.flat())
  })

  const follows: ReadonlyArray<readonly [string, ReadonlyArray<string>, ReadonlyArray<string>]> = [
    ["one that comes before it now", ["new", "b"], ["a", "new", "b"]],
    ["another one, as it is gone", ["c"], ["a", "c"]],
    ["none, as it is gone", [], ["a"]]
  ]
  for (const [what, names, expected] of follows) {
    test(`the step that would have come next is followed by ${what}`, function* () {
      const { fnStep, ran } = log()
      const one = yield* planOf([fnStep("a"), fnStep("b")])
      const { state } = yield* failsMidway("MaxIterationsExceeded", Plan.run(one, "x", { maxIterations: 1 }))
      const two = yield* planOf([fnStep("a"), ...names.map((name) => fnStep(name))])
      completed(yield* Plan.resume(two, yield* json(state), { maxIterations: 9 }))
      assert.deepStrictEqual(ran, expected)
    })
  }

  test("steps that ran or wait stop an edit of theirs, and the error lists it", function* () {
    const { fn, fnStep, ran } = log()
    const waits = Step.make("b", { target: fn("b", () => Step.pause("look")) })
    const before = Step.make("a", { target: fn("a", () => "text"), writes: "notes" })
    const one = yield* planOf([before, waits, fnStep("c")])
    const paused = yield* Plan.run(one, "x")
    const state = yield* json(paused.state)
    ran.length = 0
    const number = Step.make("a", { target: fn("a", () => 1), writes: "notes", output: Schema.Finite })
    const edits = [
      [yield* planOf([Step.make("z", { target: fn("a") }), waits]), "/steps/a"],
      [yield* planOf([fnStep("new"), before, waits]), "/steps/a"],
      [yield* planOf([fnStep("a"), waits]), "/steps/a"],
      [yield* planOf([before, Step.make("b", { target: fn("other") })]), "/steps/b/target"],
      [yield* planOf([number, waits]), "/steps/a/output"],
      [yield* planOf([before]), "/steps/b"]
    ] as const
    for (const [edited, path] of edits) {
      const error = yield* failsFor("PlanChanged", Plan.resume(edited, state, { decisions: decide(state) }))
      assert.include(breaking(error.reason.changes), path)
      assert.include(error.message, `${path} was `)
      assert.strictEqual(error.state, state)
    }
    const later = yield* planOf([before, waits, fnStep("d")])
    const refused = yield* failsFor("PlanChanged", Plan.resume(later, state, { onChange: "refuse" }))
    assert.deepStrictEqual(breaking(refused.reason.changes), [])
    assert.include(refused.message, `onChange: "compatible"`)
    assert.deepStrictEqual(ran, [])
    // Accepted, the new function answers in place of the old one
    const other = edits[3][0]
    completed(yield* Plan.resume(other, state, { decisions: decide(state), onChange: "accept" }))
    assert.deepStrictEqual(ran, ["other"])
  })

  test("MEND-6 a step that is denied does not stop an edit of its target", function* () {
    const { fn, fnStep, ran } = log()
    const pausing = (name: string) => Step.make(name, { target: fn(name, () => Step.pause("look")) })
    const one = yield* planOf([fnStep("a"), pausing("b")])
    const { state } = yield* Plan.run(one, "x")
    const other = yield* planOf([fnStep("a"), Step.make("b", { target: fn("other") })])
    ran.length = 0
    yield* failsFor("PlanChanged", Plan.resume(other, state, { decisions: decide(state) }))
    const { reason } = yield* failsFor("StepFailed", Plan.resume(other, state, { decisions: decide(state, false) }))
    assert.strictEqual(reason.failure.type, "Denied")
    assert.deepStrictEqual(ran, [])

    const inner = (target: string) =>
      Effect.map(
        planOf([target === "b" ? pausing("b") : Step.make("b", { target: fn(target) })], { name: "inner" }),
        (bound) => Step.make("nested", { target: bound })
      )
    const outer = yield* planOf([yield* inner("b")], { name: "outer" })
    const waits = yield* Plan.run(outer, "x")
    const edited = yield* planOf([yield* inner("other")], { name: "outer" })
    ran.length = 0
    const decisions = decide(waits.state, false)
    assert.lengthOf(decisions, 1)
    yield* failsFor("PlanChanged", Plan.resume(edited, waits.state, { decisions: decide(waits.state) }))
    const nested = yield* failsFor("StepFailed", Plan.resume(edited, waits.state, { decisions }))
    assert.strictEqual(nested.reason.failure.type, "Denied")

    // The same plans as agents
    const asked = yield* outer.run("x")
    const requests = decide(asked.state, false)
    assert.lengthOf(requests, 1)
    const error = yield* failsFor("DelegateFailed", edited.resume(asked.state, { decisions: requests }))
    assert.include(error.message, "Denied")
    yield* failsFor("DefinitionChanged", edited.resume(asked.state, { decisions: decide(asked.state) }))
  })

  test("a parallel group that ran stays as it is", function* () {
    const { fn, fnStep } = log()
    const band = (name: string) => fnStep(name, { parallel: true })
    const down = Step.make("c", { target: fn("c", () => Effect.fail("down")) })
    const one = yield* planOf([band("a"), band("b"), down])
    const { state } = yield* failsMidway("StepFailed", Plan.run(one, "x"))
    const two = yield* planOf([band("a"), band("b"), Step.make("c", { target: fn("c"), parallel: true })])
    const { reason } = yield* failsFor("PlanChanged", Plan.resume(two, state))
    assert.deepStrictEqual(breaking(reason.changes), ["/steps/c"])
  })

  test("a plan inside is compared, too, and records its own change", function* () {
    const { fnStep, ran } = log()
    const waits = waiting(log())
    const outerOf = Effect.fnUntraced(function* (...more: ReadonlyArray<string>) {
      const inner = yield* planOf([waits, ...more.map((name) => fnStep(name))], { name: "inner" })
      return yield* planOf([Step.make("o", { target: inner })], { name: "outer" })
    })
    const one = yield* outerOf("c")
    const state = yield* json((yield* Plan.run(one, "x")).state)
    const two = yield* outerOf("d", "e")
    const refused = yield* failsFor("PlanChanged", Plan.resume(two, state, { onChange: "refuse" }))
    assert.deepStrictEqual(pluck(refused.reason.changes, "path"), [
      "/steps/o/plan/steps/c",
      "/steps/o/plan/steps/d",
      "/steps/o/plan/steps/e"
    ])
    const { batches, write } = journal()
    completed(yield* Plan.resume(two, state, { decisions: decide(state), journal: write }))
    assert.deepStrictEqual(ran, ["d", "e"])
    const inside = batches.flat().flatMap((event) => (event._tag === "NestedChanged" ? [event.event] : []))
    assert.deepStrictEqual(pluck(changeIn([inside])?.changes ?? [], "path"), ["/steps/c", "/steps/d", "/steps/e"])
    const gone = yield* planOf([fnStep("z")], { name: "inner" })
    const three = yield* planOf([Step.make("o", { target: gone })], { name: "outer" })
    const { reason } = yield* failsFor("PlanChanged", Plan.resume(three, state))
    assert.include(breaking(reason.changes), "/steps/o/plan/steps/w")
  })

  const pay = (parameters: Schema.Struct.Fields) =>
    Agent.make("payer", {
      instructions: `Pay with ${Object.keys(parameters).join(" and ")}.`,
      toolkit: Toolkit.make(
        Tool.make("pay", { parameters: Schema.Struct(parameters as { a: typeof amount }), needsApproval: true })
      )
    })
  const amount = Schema.Finite
  const note = Schema.optionalKey(Schema.String)
  const paid: Array<unknown> = []
  const layer = Toolkit.make(Tool.make("pay")).toLayer({ pay: () => Effect.sync(() => void paid.push("paid")) })
  test("an agent in a step continues after an edit, or the step fails with the list of changes", function* () {
    const planWith = (agent: ReturnType<typeof pay>, more: ReadonlyArray<string> = []) =>
      planOf([Step.make("p", { target: agent }), ...more.map((name) => log().fnStep(name))])
    yield* Effect.gen(function* () {
      const one = yield* planWith(pay({ amount }))
      const state = yield* json((yield* Plan.run(one, "x")).state)
      const options = { decisions: decide(state) }
      const narrow = yield* planWith(pay({ amount, currency: Schema.String }))
      const failed = yield* failsFor("StepFailed", Plan.resume(narrow, state, options))
      assert.strictEqual(failed.reason.failure.type, "DefinitionChanged")
      const edited = yield* planWith(pay({ amount, currency: Schema.String }), ["last"])
      const { reason } = yield* failsFor("PlanChanged", Plan.resume(edited, state, options))
      assert.deepStrictEqual(breaking(reason.changes), ["/steps/p/agent/tools/pay/parameters/required"])
      assert.deepStrictEqual(paid, [])
      completed(yield* Plan.resume(yield* planWith(pay({ amount, note })), state, options))
      assert.deepStrictEqual(paid, ["paid"])
    }).pipe(
      Effect.provide([
        layer,
        ScriptedModel.layer([{ toolCalls: [call("c1", "pay", { amount: 5 })] }, { text: "paid" }])
      ])
    )
  })

  test("a plan that runs as an agent follows the same rules", function* () {
    const { fnStep, ran } = log()
    const waits = waiting(log())
    const one = yield* planOf([waits, fnStep("c")])
    const { state } = yield* one.run("x")
    const decisions = decide(state)
    const broken = yield* planOf([fnStep("z")])
    const { reason } = yield* failsFor("DefinitionChanged", broken.resume(state, { decisions }))
    assert.include(breaking(reason.changes), "/steps/w")
    const two = yield* planOf([waits, fnStep("d")])
    const refused = yield* failsFor("DefinitionChanged", two.resume(state, { decisions, onChange: "refuse" }))
    assert.deepStrictEqual(pluck(refused.reason.changes, "path"), ["/steps/c", "/steps/d"])
    completed(yield* two.resume(state, { decisions }))
    assert.deepStrictEqual(ran, ["d"])
  })
})

describe("DUR-10 KEEP-3 in a session", () => {
  test("a run continues under an edited plan, and again under another one", VersionedStore.layerMemory, function* () {
    const { fn, fnStep, ran } = log()
    let broken = "b"
    const step = (name: string) =>
      Step.make(name, { target: fn(name, () => (broken === name ? Effect.fail("down") : name)) })
    const failure = <A, R>(
      plan: Plan.Bound<unknown>,
      run: Effect.Effect<A, Session.SessionError, R>,
      onChange?: "refuse"
    ) =>
      Effect.flip(run).pipe(
        Effect.map(({ reason }) => (reason._tag === "TurnFailed" ? reason.failure.reason : reason._tag)),
        Effect.provide(Session.layer([plan], { run: { onChange } }))
      )
    const resumed = (plan: Plan.Bound<unknown>) =>
      Effect.gen(function* () {
        yield* Effect.flatMap(Session.Session, ({ resume }) => resume("k"))
        return yield* Session.result(plan, "k")
      })
    const one = yield* planOf([step("a"), step("b"), step("c")])
    assert.strictEqual(yield* failure(one, Session.run(one, { id: "k", input: "x" })), "DelegateFailed")
    broken = "d"
    const two = yield* planOf([step("a"), step("b"), step("d")])
    assert.strictEqual(yield* failure(two, resumed(two), "refuse"), "DefinitionChanged")
    assert.strictEqual(yield* failure(two, resumed(two)), "DelegateFailed")
    broken = ""
    const other = yield* planOf([step("a"), fnStep("z"), step("d")])
    assert.strictEqual(yield* failure(other, resumed(other)), "DefinitionChanged")
    const three = yield* planOf([step("a"), step("b"), step("d"), step("e")])
    const result = yield* Effect.provide(resumed(three), Session.layer([three]))
    assert.strictEqual(result.outcome, "Completed")
    assert.deepStrictEqual(ran, ["a", "b", "b", "d", "d", "e"])
  })
})
