import { assert, describe, it } from "@effect/vitest"
import { DateTime, Result } from "effect"
import * as planTransition from "#src/run/internal/planTransition.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { Conversation, type Run } from "effect-emissary"
import { PlanRun, type PlanDefinition } from "effect-emissary/plan"

import { makeRules, plan, step, type Rules } from "./definitions.ts"
import { applyAll } from "./support.ts"
import { pluck } from "../pluck.ts"
import type * as planRunParts from "#src/run/internal/planRunParts.ts"

const at = DateTime.makeUnsafe("2026-01-01T00:00:00Z")

type EventOf<Tag> = Extract<PlanRun.Event, { readonly _tag: Tag }>

const begin = (rules: Rules, depth = 0): EventOf<"PlanStarted"> => ({
  _tag: "PlanStarted",
  at,
  runId: "run",
  plan: "plan",
  digest: "sha256:0",
  depth,
  maxIterations: rules.definition.maxIterations,
  input: { task: "go", payload: "the input" },
  context: {},
  basis: rules.basis
})

const started = (rules: Rules) => runTransition.plans.start(begin(rules))

const go = (step: string): EventOf<"StepStarted"> => ({ _tag: "StepStarted", at, step })

const done = (step: string, output: planRunParts.StepRecord["output"] = step): EventOf<"StepFinished"> => ({
  _tag: "StepFinished",
  at,
  record: { step, task: "", output, usage: { inputTokens: 1 }, attempts: 1, startedAt: at, finishedAt: at }
})

const routed = (step: string, to?: string): PlanRun.Event => ({
  _tag: "RouteTaken",
  at,
  step,
  ...(to === undefined ? {} : { to })
})

const ended = (outcome: PlanRun.Outcome): PlanRun.Event => ({ _tag: "PlanFinished", at, outcome })

const failed = (step: string): EventOf<"StepFailed"> => ({
  _tag: "StepFailed",
  at,
  step,
  failure: { type: "Boom", message: `${step} failed`, retryable: false }
})

const resumed: EventOf<"PlanResumed"> = { _tag: "PlanResumed", at }

const after = (rules: Rules, events: ReadonlyArray<PlanRun.Event>, state = started(rules)): PlanRun.State =>
  Result.getOrThrow(applyAll(state, events))

const refused = (rules: Rules, events: ReadonlyArray<PlanRun.Event>) => {
  const applied = applyAll(started(rules), events)
  assert.isTrue(Result.isFailure(applied))
  return Result.getOrThrow(Result.flip(applied))
}

const finish = (rules: Rules, state: PlanRun.State) => {
  const action = runTransition.plans.next(state)
  assert(action._tag === "Finish")
  return after(rules, [ended(action.outcome)], state)
}

const routes = (...to: ReadonlyArray<string>): Pick<PlanDefinition.StepDefinition, "routes"> => ({
  routes: to.map((to) => ({ to, when: { _tag: "Text", value: to } }))
})

/** Which steps run, when steps with routes choose these in turn, and no route after them. */
const visit = (
  steps: ReadonlyArray<PlanDefinition.StepDefinition>,
  choices: Record<string, ReadonlyArray<string | undefined>> = {},
  maxIterations = 20
): ReadonlyArray<string> => {
  const rules = makeRules({ ...plan(...steps), maxIterations })
  const taken: Record<string, number> = {}
  let state = started(rules)
  for (;;) {
    const action = runTransition.plans.next(state)
    if (action._tag === "Finish") {
      const ran = PlanRun.history(state).map(({ step }) => step)
      return action.outcome._tag === "Completed" ? ran : [...ran, action.outcome._tag]
    }
    if (action._tag === "ChooseRoute") {
      const turn = taken[action.step] ?? 0
      taken[action.step] = turn + 1
      const to = choices[action.step]?.[turn]
      state = after(rules, [routed(action.step, to)], state)
    } else {
      state = after(rules, [...action.steps.map(go), ...action.steps.toReversed().map((name) => done(name))], state)
    }
  }
}

const band = (name: string) => step(name, { parallel: true })

describe("PLAN-5 where a run goes", () => {
  it("PLAN-5 S6 a plan without steps returns its input", () => {
    const empty = makeRules(plan())
    assert.deepStrictEqual(runTransition.plans.next(started(empty)), {
      _tag: "Finish",
      outcome: { _tag: "Completed", output: "the input" }
    })
  })

  it("PLAN-5 S7.5 branches inside branches rejoin from the inside out", () => {
    const steps = [
      step("a", { ...routes("b"), afterBranches: "f" }),
      step("b", { ...routes("c"), afterBranches: "d" }),
      step("c"),
      step("d"),
      step("e"),
      step("f")
    ]
    assert.deepStrictEqual(visit(steps, { a: ["b"], b: ["c"] }), ["a", "b", "c", "d", "f"])
    assert.deepStrictEqual(visit(steps, { a: ["b"] }), ["a", "b", "f"])
  })

  it("PLAN-5 S7.5 a route to the rejoin step itself runs it once, and leaves the branches inside, too", () => {
    const steps = [
      step("a", { ...routes("b", "d"), afterBranches: "d" }),
      step("b", { ...routes("c"), afterBranches: "e" }),
      step("c", routes("d")),
      step("d"),
      step("e"),
      step("f")
    ]
    assert.deepStrictEqual(visit(steps, { a: ["b"], b: ["c"], c: ["d"] }), ["a", "b", "c", "d", "e", "f"])
    assert.deepStrictEqual(visit(steps.slice(0, 4), { a: ["b"] }), ["a", "b", "d"])
  })

  it("PLAN-5 S7.5 TRUST-7 D1 a route past the rejoin leaves the branch, and so does a rejoin past that of an outer branch", () => {
    const early = [
      step("b", { ...routes("c"), afterBranches: "join" }),
      step("c", routes("end")),
      ...["other", "join", "end"].map((name) => step(name))
    ]
    assert.deepStrictEqual(visit(early, { b: ["c"], c: ["end"] }), ["b", "c", "end"])
    assert.deepStrictEqual(visit(early, { b: ["c"] }), ["b", "c", "join", "end"])
    const nested = [
      step("b", { ...routes("c"), afterBranches: "join" }),
      step("c", { ...routes("d"), afterBranches: "end" }),
      ...["d", "join", "mid", "end"].map((name) => step(name))
    ]
    assert.deepStrictEqual(visit(nested, { b: ["c"], c: ["d"] }), ["b", "c", "d", "end"])
    // A field of the output can name any step, also one after the rejoin of the router itself.
    const open = [step("a", { ...routes("c"), afterBranches: "b" }), ...["b", "c", "d"].map((name) => step(name))]
    assert.deepStrictEqual(visit(open, { a: ["c"] }), ["a", "c", "d"])
  })

  it("PLAN-5 S7.5 leaving a branch from one inside of it leaves both", () => {
    const steps = [
      step("a", { ...routes("b"), afterBranches: "d" }),
      step("b", { ...routes("c"), afterBranches: "f" }),
      step("c", routes("d")),
      step("d"),
      step("e"),
      step("f")
    ]
    assert.deepStrictEqual(visit(steps, { a: ["b"], b: ["c"], c: ["d"] }), ["a", "b", "c", "d", "e", "f"])
  })

  it("PLAN-5 S7.5 a router that is reached again by a branch of its own branch has left it", () => {
    const steps = [
      step("t", { ...routes("v"), afterBranches: "s" }),
      step("v"),
      step("s", { ...routes("t", "x"), afterBranches: "r" }),
      ...["x", "y", "r"].map((name) => step(name))
    ]
    assert.deepStrictEqual(visit(steps, { t: ["v", "v"], s: ["t", "x"] }), ["t", "v", "s", "t", "v", "s", "x", "r"])
  })

  it("PLAN-5 S7.5 two branches that rejoin at one step run it once", () => {
    const steps = [
      step("a", { ...routes("b"), afterBranches: "d" }),
      step("b", { ...routes("c"), afterBranches: "d" }),
      step("c"),
      step("d"),
      step("e")
    ]
    assert.deepStrictEqual(visit(steps, { a: ["b"], b: ["c"] }), ["a", "b", "c", "d", "e"])
  })

  it("PLAN-5 S7.5 a branch before its router runs and rejoins; a loop out of a branch leaves it", () => {
    const early = [step("a"), step("b", { ...routes("a"), afterBranches: "d" }), step("c"), step("d")]
    assert.deepStrictEqual(visit(early, { b: ["a"] }), ["a", "b", "a", "d"])
    const loop = [step("a", { ...routes("b"), afterBranches: "d" }), step("b", routes("a")), step("c"), step("d")]
    assert.deepStrictEqual(visit(loop, { a: ["b"], b: ["a"] }), ["a", "b", "a", "b", "c", "d"])
  })

  it("PLAN-5 S6 S8 a parallel group costs one turn, counts in declared order, and cannot route", () => {
    const steps = [step("a"), { ...band("b"), ...routes("a") }, band("c"), band("d"), step("e")]
    assert.deepStrictEqual(visit(steps, { b: ["a"] }, 3), ["a", "b", "c", "d", "e"])
    assert.deepStrictEqual(visit(steps, {}, 2), ["a", "b", "c", "d", "LimitReached"])
  })

  it("PLAN-5 S8.1 a rejoin into a parallel group runs the rest of it", () => {
    const steps = [step("a", { ...routes("b"), afterBranches: "d" }), step("b"), band("c"), band("d"), step("e")]
    assert.deepStrictEqual(visit(steps, { a: ["b"] }), ["a", "b", "d", "e"])
  })

  it("PLAN-5 S7.2 routesBy goes to any step by its name, and to no other", () => {
    const steps = [step("a", { routesBy: "next" }), step("b"), step("c")]
    assert.deepStrictEqual(visit(steps, { a: ["c"] }), ["a", "c"])
    const rules = makeRules(plan(...steps))
    const error = refused(rules, [go("a"), done("a"), routed("a", "x")])
    assert.include(error.message, `expected one of the steps "a", "b", "c", found "x"`)
  })
})

describe("PLAN-5 parallel groups and what they keep", () => {
  const rules = makeRules(plan(step("a"), band("b"), { ...band("c"), writes: "k" }, band("d"), step("e")))
  const inBand = after(rules, [go("a"), done("a"), go("b"), go("c"), go("d")])

  it("S8.5 S8.7 nothing of a parallel group counts before all of it has finished, and then in declared order", () => {
    const two = after(rules, [done("d"), done("c", 3)], inBand)
    assert.deepStrictEqual(pluck(PlanRun.history(two), "step"), ["a"])
    assert.strictEqual(planTransition.writtenValues(two).size, 0)
    assert.deepStrictEqual(runTransition.plans.next(two), { _tag: "RunSteps", steps: ["b"] })
    const all = after(rules, [done("b")], two)
    assert.deepStrictEqual(pluck(PlanRun.history(all), "step"), ["a", "b", "c", "d"])
    assert.deepStrictEqual(Array.from(planTransition.writtenValues(all)), [["k", 3]])
    assert.deepStrictEqual(runTransition.plans.next(all), { _tag: "RunSteps", steps: ["e"] })
  })

  it("S8.4 all members end first; then an answer counts before a pause, a pause before a failure, by declared order", () => {
    const paused: EventOf<"StepPaused"> = {
      _tag: "StepPaused",
      at,
      step: "c",
      question: { digest: "d", reason: "who?" },
      asked: 1
    }
    const one = after(rules, [failed("d")], inBand)
    assert.deepStrictEqual(runTransition.plans.next(one), { _tag: "RunSteps", steps: ["b", "c"] })
    const outcomeOf = (...events: ReadonlyArray<PlanRun.Event>) => {
      const action = runTransition.plans.next(after(rules, events, one))
      return action._tag === "Finish" ? action.outcome : action
    }
    assert.deepStrictEqual(outcomeOf(failed("b"), done("c")), {
      _tag: "Failed",
      step: "b",
      failure: failed("b").failure
    })
    assert.deepStrictEqual(outcomeOf(failed("b"), paused), {
      _tag: "Paused",
      requests: [{ _tag: "Pause", callId: "c:2", name: "c", arguments: { reason: "who?" }, digest: "d" }]
    })
    assert.deepStrictEqual(outcomeOf({ _tag: "StepConcluded", at, step: "b", answer: "yes" }, paused), {
      _tag: "Concluded",
      answer: "yes"
    })
  })
})

describe("PLAN-6 resuming", () => {
  it("S16.4 after an interruption nothing starts, what runs may end, and all of it can be resumed", () => {
    const rules = makeRules(plan(band("a"), band("b"), step("c")))
    const stopped = after(rules, [go("a"), go("b"), { _tag: "PlanInterrupted", at, reason: "stop" }, done("a")])
    assert.isTrue(Result.isFailure(runTransition.plans.apply(stopped, go("b"))))
    const retried: PlanRun.Event = { ...failed("b"), _tag: "StepRetried", attempt: 2 }
    assert.isTrue(Result.isFailure(runTransition.plans.apply(stopped, retried)))
    const ended = finish(rules, stopped)
    assert.deepStrictEqual(ended.outcome, { _tag: "Interrupted", reason: "stop" })
    const again = after(rules, [resumed], ended)
    assert.deepStrictEqual(runTransition.plans.next(again), { _tag: "RunSteps", steps: ["b"] })
  })

  it("PLAN-6 a state of another plan never runs on", () => {
    const rules = makeRules(plan(step("a"), step("b")))
    const change = { basis: makeRules(plan(step("a"))).basis, changes: [], cursor: "b" }
    const state = after(rules, [go("a"), done("a"), { ...resumed, change }])
    const action = runTransition.plans.next(state)
    assert(action._tag === "Finish" && action.outcome._tag === "Failed")
    assert.strictEqual(action.outcome.failure.type, "PlanChanged")
  })
})

describe("PLAN-5 events that do not fit are refused with the reason", () => {
  const inner = makeRules(plan(step("x")))
  const rules = makeRules(plan(step("a", routes("c")), step("n"), step("c")))
  const toN: ReadonlyArray<PlanRun.Event> = [go("a"), done("a"), routed("a"), go("n")]
  const nested = (event: PlanRun.Event): EventOf<"NestedChanged"> => ({ _tag: "NestedChanged", at, step: "n", event })

  for (const [what, events, message] of [
    [
      "the first fact again",
      [begin(rules)],
      `PlanStarted at index 0 does not fit the run: expected no PlanStarted after the first event, found a run that has started. Apply each event once, in the order in which it happened, from one driver at a time.`
    ],
    ["a step out of turn", [go("c")], `expected one of the steps "a", found "c"`],
    ["a step that does not run", [go("a"), done("n")], `expected one of the steps "a", found "n"`],
    ["a step that started", [go("a"), go("a")], `at index 1`],
    ["a step that started, in words", [go("a"), go("a")], `expected Waiting of step "a", found Running`],
    [
      "a step instead of a route",
      [go("a"), done("a"), go("n")],
      `expected what comes next: ChooseRoute, found the start of "n"`
    ],
    ["an unknown route", [go("a"), done("a"), routed("a", "n")], `expected one of the steps "c", found "n"`],
    ["a route too early", [routed("a")], `expected no route to choose`],
    [
      "another outcome",
      [ended({ _tag: "Completed", output: 1 })],
      `expected what comes next: RunSteps, found the outcome Completed`
    ],
    [
      "a try that was left out",
      [go("a"), { _tag: "StepRetried", at, step: "a", attempt: 3, failure: failed("a").failure }],
      `expected the attempt after number 1, found number 3`
    ],
    [
      "a decision about nothing",
      [go("a"), { _tag: "StepDecided", at, step: "a", callId: "a:1", digest: "d", approved: true }],
      `expected Paused of step "a", found Running`
    ],
    ["a nested plan that has not begun", [...toN, nested(go("x"))], `StepStarted at index 4 in the run inside n`],
    ["a nested plan at the wrong depth", [...toN, nested(begin(inner, 0))], `expected depth 1, found depth 0`],
    [
      "a nested fact that does not fit",
      [...toN, nested(begin(inner, 1)), nested(done("x"))],
      `StepFinished at index 5 in the run inside n does not fit`
    ],
    [
      "an agent's event before it began",
      [go("a"), { _tag: "AgentChanged", at, step: "a", event: { _tag: "RunInterrupted", at } }],
      `RunInterrupted at index 1 in the run inside a does not fit the run: expected RunStarted first, found RunInterrupted`
    ],
    [
      "an agent's event in a plan",
      [...toN, nested(begin(inner, 1)), { _tag: "AgentChanged", at, step: "n", event: { _tag: "RunInterrupted", at } }],
      `expected events of the plan in the step, found an event of an agent`
    ]
  ] as ReadonlyArray<readonly [string, ReadonlyArray<PlanRun.Event>, string]>) {
    it(`PLAN-5 ${what}`, () => {
      assert.include(refused(rules, events).message, message)
    })
  }

  const agent = (event: Run.Event): EventOf<"AgentChanged"> => ({ _tag: "AgentChanged", at, step: "a", event })
  const agentStarts = agent({
    _tag: "RunStarted",
    at,
    runId: "run/a",
    agent: "a",
    definition: "sha256:0",
    depth: 1,
    maxSteps: 4,
    structured: "never",
    context: {},
    conversation: Conversation.empty
  })
  const stops = agent({ _tag: "RunInterrupted", at })

  it("PLAN-8 the run of an agent begins anew only when it has ended; a further try begins without it", () => {
    assert.include(refused(rules, [go("a"), agentStarts, agentStarts]).message, "found a run that has started")
    const ended = after(rules, [
      go("a"),
      agentStarts,
      stops,
      agent({ _tag: "RunFinished", at, outcome: { _tag: "Interrupted" } })
    ])
    const status = planTransition.memberOf(after(rules, [agentStarts], ended), "a")?.status
    assert(status?._tag === "Running" && status.child?._tag === "Agent")
    assert.strictEqual(status.child.state.outcome, undefined)
    const { failure } = failed("a")
    const retried = after(rules, [go("a"), agentStarts, { _tag: "StepRetried", at, step: "a", attempt: 2, failure }])
    assert.deepStrictEqual(planTransition.memberOf(retried, "a")?.status, {
      _tag: "Running",
      attempt: 2,
      startedAt: at
    })
  })

  it("PLAN-8 what waits inside of a step changes by decisions alone until the step runs again", () => {
    const paused = [go("a"), agentStarts, { _tag: "StepPaused", at, step: "a" }] as const
    assert.include(refused(rules, [...paused, stops]).message, `expected Running of step "a", found Paused`)
  })

  it("PLAN-5 an outcome is the one that comes next, with all it holds", () => {
    const short = makeRules(plan(step("a")))
    const error = refused(short, [go("a"), done("a"), ended({ _tag: "Completed", output: "b" })])
    assert.include(error.message, "expected the outcome Completed as it comes from next")
  })

  it("PLAN-5 a list of facts begins with PlanStarted", () => {
    for (const events of [[], [go("a")]]) {
      const error = Result.getOrThrow(Result.flip(runTransition.plans.fold(events)))
      assert.include(error.message, "expected PlanStarted first")
    }
  })
})
