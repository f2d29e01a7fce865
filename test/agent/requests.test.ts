/** HOUSE-4: one request to a person, one decision, one `decide`, whatever runs. */
import { assert, describe, it } from "@effect/vitest"
import { DateTime, Result, Schema } from "effect"
import { Run } from "effect-emissary"
import { PlanRun } from "effect-emissary/plan"

import * as runTransition from "#src/run/internal/runTransition.ts"
import * as runRequests from "#src/run/internal/runRequests.ts"

import { decision, digestOf } from "../decisions.ts"
import { pluck } from "../pluck.ts"
import { test } from "../test.ts"
import { answered, asked, at, call, go, input, run, started, step } from "./run-events.ts"

const approval: Run.Request = {
  _tag: "Approval",
  callId: "c1",
  name: "pay",
  arguments: { amount: 5 },
  digest: digestOf("c1")
}

const pause: Run.Request = {
  _tag: "Pause",
  callId: "gate:1",
  name: "gate",
  arguments: { reason: "Ready?" },
  digest: digestOf("gate:1"),
  path: ["outer"]
}

const question = {
  _tag: "Question",
  callId: "q1",
  name: "book",
  arguments: { question: "Which seats?" },
  schema: {
    type: "object",
    properties: {
      seats: { type: "array", items: { type: "integer", minimum: 1 } },
      meal: { type: "string", default: "none" }
    },
    required: ["seats"],
    additionalProperties: false
  },
  digest: digestOf("q1")
} satisfies Run.Request

const front = {
  _tag: "Call",
  callId: "c2",
  name: "locate",
  arguments: { exact: true },
  schema: { type: "string" },
  digest: digestOf("c2"),
  path: ["c0"]
} satisfies Run.Request

const open = [approval, pause, question, front].map(
  (request): runRequests.Open<readonly [string, runRequests.Verdict]> => ({
    request,
    record: (verdict) => [request.callId, verdict]
  })
)

const decide = (...decisions: ReadonlyArray<Run.Decision>) => runRequests.decide(open, decisions, at)

const refused = (...decisions: ReadonlyArray<Run.Decision>) => Result.getOrThrow(Result.flip(decide(...decisions)))

/** The types of `approve` refuse it. */
const approvedBlindly = (request: Run.Request, options: Run.DecisionOptions = {}) =>
  Run.approve(request as Run.Approvable, options)

const problemsOf = (one: Run.Decision) => {
  const { problem, problems } = refused(one)
  assert.strictEqual(problem, "answer")
  return problems?.map(({ path }) => path)
}

describe("HOUSE-4 constructors of decisions", () => {
  it("HOUSE-4 approve and deny are functions of map, whose index is no option", () => {
    assert.deepStrictEqual([approval, pause].map(Run.approve), [
      { callId: "c1", digest: digestOf("c1"), approved: true },
      { callId: "gate:1", digest: digestOf("gate:1"), approved: true, path: ["outer"] }
    ])
    assert.deepStrictEqual(pluck([approval, pause].map(Run.deny), "approved"), [false, false])
    const options = { reason: "Later.", decidedBy: "ada", expiresAt: at }
    assert.deepStrictEqual(Run.deny(pause, options), { ...Run.deny(pause), ...options })
    assert.deepStrictEqual(Run.answer(front, "here", options), { ...approvedBlindly(front, options), answer: "here" })
    // A request of a session has more members, and a decision has none of them
    assert.deepStrictEqual(Run.approve({ ...approval, shown: "pay 5" } as Run.Approvable), Run.approve(approval))
  })

  test("HOUSE-4 requests and decisions of each kind survive JSON", function* () {
    const requests = Schema.toCodecJson(Schema.Array(Run.Request))
    const all = open.map(({ request }) => request)
    assert.deepStrictEqual(
      yield* Schema.decodeUnknownEffect(requests)(
        JSON.parse(JSON.stringify(yield* Schema.encodeEffect(requests)(all)))
      ),
      all
    )
    const decisions = Schema.toCodecJson(Schema.Array(Run.Decision))
    const made = [Run.approve(approval, { expiresAt: at }), Run.deny(pause), Run.answer(question, { seats: [1] })]
    assert.deepStrictEqual(
      yield* Schema.decodeUnknownEffect(decisions)(
        JSON.parse(JSON.stringify(yield* Schema.encodeEffect(decisions)(made)))
      ),
      made
    )
  })
})

describe("HOUSE-4 one decide", () => {
  it("HOUSE-4 decisions of each kind are recorded with their verdicts", () => {
    const decided = decide(
      Run.deny(pause, { reason: "no" }),
      Run.answer(question, { seats: [2, 3], meal: "soup" }),
      Run.approve(approval),
      Run.answer(front, "here")
    )
    assert.deepStrictEqual(Result.getOrThrow(decided), [
      ["gate:1", { approved: false, digest: digestOf("gate:1"), reason: "no" }],
      ["q1", { approved: true, digest: digestOf("q1"), answer: { seats: [2, 3], meal: "soup" } }],
      ["c1", { approved: true, digest: digestOf("c1") }],
      ["c2", { approved: true, digest: digestOf("c2"), answer: "here" }]
    ])
  })

  it("HOUSE-4 L13 an answer that does not fit is refused with its places, and the recorded answer is completed", () => {
    assert.deepStrictEqual(problemsOf(Run.answer(question, { seats: [1, 0, "x"] })), ["/seats/1", "/seats/2"])
    assert.deepStrictEqual(problemsOf(Run.answer(question, {})), ["/seats"])
    assert.deepStrictEqual(problemsOf(Run.answer(front, 5)), [""])
    assert.include(refused(Run.answer(question, { seats: [0] })).message, "its answer at /seats/0: expected")
    // None where there has to be one, and one where none is asked for
    assert.deepStrictEqual(problemsOf(approvedBlindly(question)), [""])
    assert.include(
      refused(approvedBlindly(question)).message,
      "expected an answer, got none. Answer the question, or deny it"
    )
    const anything = { ...question, schema: {} }
    const blind = Result.flip(
      runRequests.decide([{ request: anything, record: () => "x" }], [approvedBlindly(anything)], at)
    )
    assert.strictEqual(Result.getOrThrow(blind).problem, "answer")
    assert.deepStrictEqual(problemsOf({ ...Run.approve(approval), answer: 1 }), [""])
    assert.deepStrictEqual(problemsOf({ ...Run.deny(question), answer: { seats: [1] } }), [""])
    const unusable = { request: { ...front, schema: { type: "nothing" } }, record: () => "recorded" }
    const unchecked = Result.flip(runRequests.decide([unusable], [Run.answer(front, "x")], at))
    assert.strictEqual(Result.getOrThrow(unchecked).problem, "answer")
    const [[, completed] = []] = Result.getOrThrow(decide(Run.answer(question, { seats: [1] })))
    assert.deepStrictEqual(completed?.answer, { seats: [1], meal: "none" })
    // A person who does not answer denies
    assert.isTrue(Result.isSuccess(decide(Run.deny(question), Run.deny(front))))
    // The request is still open
    assert.deepStrictEqual(pluck(refused(approvedBlindly(question)).waiting, "callId"), ["c1", "gate:1", "q1", "c2"])
  })

  it("HOUSE-4 values of other types are malformed, also in place of the list, and name the request where they can", () => {
    const wrong: ReadonlyArray<readonly [unknown, string]> = [
      [{ ...Run.approve(approval), approved: "true" }, "c1"],
      [{ ...Run.approve(approval), path: "outer" }, "c1"],
      [{ ...Run.approve(approval), expiresAt: "tomorrow" }, "c1"],
      [{ callId: "c1", approved: true }, "c1"],
      [{ ...Run.approve(approval), answer: undefined, reason: 5 }, "c1"],
      [{ approved: true }, ""],
      [{ ...Run.approve(approval), callId: {} }, ""],
      [null, ""],
      ["c1", ""],
      [5, ""]
    ]
    for (const [value, callId] of wrong) {
      // Sound: a program without types passes it
      const error = refused(value as Run.Decision)
      assert.deepStrictEqual([error.problem, error.callId], ["malformed", callId])
    }
    const { problem } = Result.getOrThrow(Result.flip(runRequests.decide(open, "c1" as never, at)))
    assert.strictEqual(problem, "malformed")
  })

  test("HOUSE-4 a decision of before, a request with approved added, counts, also through JSON", function* () {
    const Json = Schema.toCodecJson(Run.Decision)
    const old = { ...pause, approved: true }
    assert.isTrue(Result.isSuccess(decide(old)))
    assert.isTrue(Result.isSuccess(decide(yield* Schema.decodeUnknownEffect(Json)(JSON.parse(JSON.stringify(old))))))
  })
})

const ids = ["a", "b", "c"]

/** A run of an agent, and a run of a plan, that wait for the same three. */
const ofAgent = go(run(started(), input(), step(1)), answered(ids.map((id) => call(id))), ...ids.map(asked))

const basis = {
  digest: "sha256:0",
  parts: {},
  steps: ids.map((name) => ({ name, parallel: true, target: "function x", digest: "sha256:1" }))
}

const ofPlan: PlanRun.State = Result.getOrThrow(
  runTransition.plans.fold([
    {
      _tag: "PlanStarted",
      at,
      runId: "run",
      plan: "p",
      digest: "sha256:0",
      depth: 0,
      maxIterations: 9,
      input: { task: "", payload: "" },
      context: {},
      basis
    },
    ...ids.map((step) => ({ _tag: "StepStarted", at, step }) as const),
    ...ids.map(
      (step) => ({ _tag: "StepPaused", at, step, question: { digest: digestOf(step), reason: "?" }, asked: 1 }) as const
    )
  ])
)

const later = DateTime.add(at, { minutes: 1 })

/** Each decision about one of four calls with right and wrong members. Three of the calls wait. */
const all = [...ids, "d"].flatMap((callId) =>
  [callId, "other"].flatMap((of) =>
    [true, false, "yes"].flatMap((approved) =>
      [undefined, [], ["x"]].flatMap((path) =>
        [undefined, at, later].flatMap((expiresAt) =>
          [undefined, 1].map((answer) => ({ callId, approved, digest: digestOf(of), path, expiresAt, answer }))
        )
      )
    )
  )
)

describe("HOUSE-4 agents and plans", () => {
  it("HOUSE-4 an agent and a plan decide the same about the same decisions, alone and after another one", () => {
    const idOfStep = (callId: string) => `${callId}:1`
    assert.deepStrictEqual(pluck(PlanRun.requests(ofPlan), "callId"), ids.map(idOfStep))
    const seen = new Set<string>()
    const first = decision("a")
    for (const one of all) {
      for (const before of [[], [first]]) {
        // Sound: `decide` refuses the values that are no decisions
        const list = [...before, one] as ReadonlyArray<Run.Decision>
        const agent = Run.decide(ofAgent, list, at)
        const inPlan = list.map((decision) => ({ ...decision, callId: idOfStep(decision.callId) }))
        const plan = runTransition.plans.decide(ofPlan, inPlan, at)
        const foundBy = (decided: Result.Result<unknown, Run.InvalidDecision>) =>
          Result.match(decided, { onFailure: ({ problem }) => problem, onSuccess: () => "decided" })
        assert.strictEqual(foundBy(plan), foundBy(agent), JSON.stringify(list))
        seen.add(foundBy(agent))
        const verdictsOf = (events: ReadonlyArray<object>) =>
          events.map((event) => ("digest" in event && "approved" in event ? [event.digest, event.approved] : event))
        const [right, left] = [plan, agent].map((decided) =>
          Result.getOrElse(Result.map(decided, verdictsOf), () => [])
        )
        assert.deepStrictEqual(right, left)
      }
    }
    assert.sameMembers([...seen], ["decided", "unknown", "changed", "repeated", "expired", "malformed", "answer"])
  })
})
