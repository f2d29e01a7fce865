import { assert, describe } from "@effect/vitest"
import { DateTime, Effect, Equal, Result } from "effect"
import { readFileSync } from "node:fs"
import { inspect } from "node:util"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import type { Run } from "effect-emissary"
import { PlanError, PlanRun } from "effect-emissary/plan"

import { applyAll } from "./support.ts"
import { pluck } from "../pluck.ts"
import { failsFor } from "../outcomes.ts"
import { test } from "../test.ts"
import { decision, digestOf } from "../decisions.ts"

const golden = (name: string): unknown =>
  JSON.parse(readFileSync(new URL(`./golden-run/${name}-v1.json`, import.meta.url), "utf8"))

const at = DateTime.makeUnsafe("2026-01-01T00:00:00Z")

const sign = "sign:2@run_1/nested"

const tool = decision("tool:1", false, { digest: digestOf("tool"), reason: "too much" })

/** The run of the golden file up to where it waits: a tool, an agent, a function and a plan. */
const waits = Effect.map(PlanRun.eventsCodec.decode(golden("plan-run-events-waiting")), (events) =>
  Result.getOrThrow(runTransition.plans.fold(events.slice(0, -3)))
)

const tags = (events: ReadonlyArray<PlanRun.Event>) =>
  events.map((event) =>
    event._tag === "AgentChanged" || event._tag === "NestedChanged" ? `${event._tag} ${event.event._tag}` : event._tag
  )

describe("PLAN-8 what waits inside of a plan", () => {
  test("PLAN-8 calls and pauses of every depth are reported with their path", function* () {
    const state = yield* waits
    assert.deepStrictEqual(PlanRun.requests(state), [
      {
        _tag: "Approval",
        callId: "tool:1",
        name: "pay",
        arguments: { password: "an argument" },
        digest: digestOf("tool")
      },
      {
        _tag: "Approval",
        callId: "call_1",
        name: "refund",
        arguments: { amount: 5 },
        digest: digestOf("call_1"),
        path: ["agent"]
      },
      { _tag: "Pause", callId: "ask:1", name: "ask", arguments: { reason: "which account?" }, digest: digestOf("ask") },
      {
        _tag: "Pause",
        callId: sign,
        name: "sign",
        arguments: { reason: "the boss signs" },
        digest: digestOf("sign"),
        path: ["nested"]
      }
    ])
    assert.deepStrictEqual(state.outcome, { _tag: "Paused", requests: PlanRun.requests(state) })
    assert.deepStrictEqual(
      state.turn?.members
        .filter(({ status }) => status._tag !== "Finished")
        .map(({ status, step }) => [step, status._tag]),
      [
        ["tool", "Paused"],
        ["agent", "Paused"],
        ["ask", "Paused"],
        ["nested", "Paused"]
      ]
    )
  })

  test("PLAN-8 decisions become the facts of where they are about, and are kept over the resume", function* () {
    const state = yield* waits
    const decisions: ReadonlyArray<Run.Decision> = [
      tool,
      decision("call_1"),
      decision("ask:1", true, { digest: digestOf("ask") }),
      decision(sign, true, { digest: digestOf("sign"), path: ["nested"] })
    ]
    const events = yield* Effect.fromResult(runTransition.plans.decide(state, decisions, at))
    assert.deepStrictEqual(tags(events), [
      "StepDecided",
      "AgentChanged ApprovalDecided",
      "StepDecided",
      "NestedChanged StepDecided"
    ])
    for (const event of events) {
      if (event._tag !== "StepDecided") continue
      for (const wrong of [{ digest: digestOf("done") }, { callId: "done:1" }]) {
        assert.isTrue(Result.isFailure(applyAll(state, [{ ...event, ...wrong }])))
      }
    }
    const decided = yield* Effect.fromResult(applyAll(state, events))
    assert.deepStrictEqual(PlanRun.requests(decided), [])
    assert.isTrue(Result.isFailure(applyAll(decided, events)))
    assert.isTrue(Result.isFailure(runTransition.plans.decide(decided, decisions, at)))
    const again = yield* Effect.fromResult(
      applyAll(decided, [
        { _tag: "PlanResumed", at },
        { _tag: "StepStarted", at, step: "tool" }
      ])
    )
    assert.deepInclude(planTransition.memberOf(again, "tool")?.status, {
      _tag: "Running",
      decision: { approved: false, digest: digestOf("tool"), reason: "too much" }
    })
    assert.deepStrictEqual(runTransition.plans.next(again), {
      _tag: "RunSteps",
      steps: ["tool", "agent", "ask", "nested"]
    })
    const nested = planTransition.memberOf(again, "nested")?.status
    assert(nested?._tag === "Waiting" && nested.child?._tag === "Plan")
    assert.strictEqual(nested.child.state.outcome?._tag, "Paused")
  })

  test("PLAN-8 decisions about what does not wait, twice, or at another place are refused", function* () {
    const state = yield* waits
    const refused = (...decisions: ReadonlyArray<Run.Decision>) => {
      const decided = runTransition.plans.decide(state, decisions, at)
      assert.isTrue(Result.isFailure(decided))
      const reason = Result.getOrThrow(Result.flip(decided))
      return { ...reason, message: new PlanError.PlanError({ plan: "plan", reason }).message }
    }
    assert.deepInclude(refused(decision("nobody")), {
      _tag: "InvalidDecision",
      callId: "nobody",
      problem: "unknown"
    })
    assert.deepStrictEqual(pluck(refused(decision("nobody")).waiting, "callId"), ["tool:1", "call_1", "ask:1", sign])
    const elsewhere = refused(decision(sign, true, { path: [] }))
    assert.deepInclude(elsewhere, { problem: "unknown", path: [] })
    assert.include(elsewhere.message, `"nested" > "${sign}"`)
    assert.strictEqual(refused(decision("nested")).problem, "unknown")
    const twice = refused(tool, tool)
    assert.strictEqual(twice.problem, "repeated")
    assert.include(twice.message, "this request has another decision")
  })

  test("PLAN-8 a step that failed after a denied decision asks anew", function* () {
    const state = yield* PlanRun.stateCodec.decode(golden("plan-run-state-running"))
    const ended = yield* Effect.fromResult(
      applyAll(state, [
        { _tag: "PlanInterrupted", at },
        { _tag: "PlanFinished", at, outcome: { _tag: "Interrupted" } },
        { _tag: "PlanResumed", at }
      ])
    )
    assert.deepStrictEqual(planTransition.memberOf(ended, "tool")?.status, { _tag: "Waiting" })
    assert.deepStrictEqual(planTransition.memberOf(ended, "nested")?.status, { _tag: "Concluded", answer: "no money" })
  })
})

describe("PLAN-6 snapshots", () => {
  test("L8 what is logged of a state holds no message text; a secret in the context is not written", function* () {
    const state = yield* PlanRun.stateCodec.decode(golden("plan-run-state-finished"))
    const logged = inspect(state) + JSON.stringify(state) + String(state)
    for (const said of ["of the data", "Dear all", "tenant", "for the board"]) assert.notInclude(logged, said)
    assert.include(logged, "Completed")
    const branch = yield* PlanRun.stateCodec.decode(golden("plan-run-state-branch"))
    const secret = new PlanRun.State({ ...branch, context: { api_key: "s3cret" } })
    const error = yield* Effect.flip(PlanRun.stateCodec.encode(secret))
    assert(error._tag === "PayloadError")
    assert.strictEqual(error.reason._tag, "Secret")
    assert.notInclude(error.message, "s3cret")
  })

  for (const [what, change] of [
    ["a written place that no record has", { writes: [{ key: "a", record: 99 }] }],
    [
      "a key twice",
      {
        writes: [
          { key: "a", record: 0 },
          { key: "a", record: 1 }
        ]
      }
    ],
    ["a choice at another step", { choosing: "send" }],
    ["a turn without steps", { cursor: "a", turn: { members: [] } }],
    ["a turn elsewhere", { cursor: "a", turn: { members: [{ step: "b", usage: {}, status: { _tag: "Waiting" } }] } }],
    [
      "a step twice in a turn",
      {
        cursor: "a",
        turn: {
          members: [
            { step: "a", usage: {}, status: { _tag: "Waiting" } },
            { step: "a", usage: {}, status: { _tag: "Waiting" } }
          ]
        }
      }
    ],
    ["a field that is not known", { extra: 1 }],
    ["a counter below 0", { iterations: -1 }]
  ] as ReadonlyArray<readonly [string, Record<string, unknown>]>) {
    test(`PLAN-6 ${what} is refused`, function* () {
      const json = yield* PlanRun.stateCodec.encode(yield* PlanRun.stateCodec.decode(golden("plan-run-state-finished")))
      const { state } = json
      assert(typeof state === "object" && state !== null && !Array.isArray(state))
      yield* failsFor("Invalid", PlanRun.stateCodec.decode({ ...json, state: { ...state, ...change } }))
    })
  }

  test("L3 another version is refused by its number", function* () {
    yield* failsFor("UnsupportedVersion", PlanRun.stateCodec.decode({ version: 2, state: {} }))
  })

  test("PLAN-6 states are equal by what they hold", function* () {
    const state = yield* PlanRun.stateCodec.decode(golden("plan-run-state-finished"))
    const same = yield* PlanRun.stateCodec.decodeJson(yield* PlanRun.stateCodec.encodeJson(state))
    assert.isTrue(Equal.equals(same, state))
    assert.isFalse(Equal.equals(yield* waits, state))
    assert.instanceOf(state, PlanRun.State)
  })
})
