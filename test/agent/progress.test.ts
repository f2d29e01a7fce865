import { assert, describe, it } from "@effect/vitest"
import { Effect, Equal, Result, type Schema } from "effect"
import { Run } from "effect-emissary"
import {
  answered,
  asked,
  at,
  child,
  call,
  decided,
  end,
  go,
  input,
  inStep,
  interrupted,
  next,
  planBegins,
  planDecided,
  planDone,
  planEnds,
  planLimited,
  planPaused,
  planResumed,
  planStep,
  refused,
  resumed,
  roles,
  run,
  started,
  step,
  toolStarted
} from "./run-events.ts"
import { test } from "../test.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { decision, digestOf } from "../decisions.ts"

const begun = run(started(), input(), step(1))

/** An agent in a step that waits for a call. */
const clerk = [started({ depth: 1, runId: "clerk" }), input(), step(1), answered([call("c2")]), asked("c2")]

/** A plan that waits for the call of a step, and for a call of the agent in another step. */
const waitsIn = (state: Run.State) =>
  planEnds(
    go(
      state,
      planBegins(["c1", "s1"], true),
      planStep("c1"),
      planStep("s1"),
      ...clerk.map((event) => inStep("s1", event)),
      planPaused("c1"),
      planPaused("s1", false)
    )
  )

const waiting = waitsIn(begun)

const paths = (state: Run.State) => Run.requests(state).map(({ callId, path }) => [...(path ?? []), callId].join("/"))

const statusesOf = ({ plan }: Run.State) =>
  (plan?.turn?.members ?? []).map(({ status, step }) => `${step} ${status._tag}`)

describe("PLAN-8 the events of a plan that answers, in the core", () => {
  it("PLAN-8 KEEP-2 HOUSE-3 they come in order, in a step, and the state of the plan is gone with the answer", () => {
    const state = go(begun, planBegins(["a", "b"]), planStep("a"), planDone("a"), planStep("b"))
    assert.deepStrictEqual(statusesOf(state), ["b Running"])
    assert.strictEqual(next(state), "CallModel 1 answer")
    const done = go(state, answered("done"))
    assert.isUndefined(done.plan)
    assert.strictEqual(next(done), "Completed")
    assert.strictEqual(refused(begun, planStep("a")).reason._tag, "Unexpected")
    assert.strictEqual(refused(state, planStep("b")).reason._tag, "StepStatus")
    assert.strictEqual(refused(done, planBegins(["d"])).reason._tag, "Unexpected")
    assert.strictEqual(refused(run(started(), input()), planBegins(["a"])).reason._tag, "Unexpected")
  })

  it("PLAN-8 usage is counted once, also through two runs around it", () => {
    const inner = [
      started({ depth: 2, runId: "inner" }),
      input(),
      step(1),
      planBegins(["a"]),
      planStep("a"),
      inStep("a", started({ depth: 3, runId: "in the plan" })),
      inStep("a", input()),
      inStep("a", step(1)),
      inStep("a", { _tag: "AnswerDiscarded", at, usage: { inputTokens: 3 } }),
      inStep("a", { _tag: "AnswerDiscarded", at, usage: { inputTokens: 4, outputTokens: 1 } })
    ]
    const middle: ReadonlyArray<Run.Event> = [
      started({ depth: 1, runId: "middle" }),
      input(),
      step(1),
      answered([call("c2")]),
      toolStarted("c2"),
      ...inner.map((event) => child("c2", event))
    ]
    const state = run(
      started(),
      input(),
      step(1),
      answered([call("c1")]),
      toolStarted("c1"),
      ...middle.map((event) => child("c1", event))
    )
    assert.deepStrictEqual(state.usage, { inputTokens: 7, outputTokens: 1 })
  })

  it("PLAN-8 HOUSE-3 requests suspend the run until one of them is decided; a decision is an event of the plan, once", () => {
    assert.strictEqual(next(waiting), "AwaitingApproval c1:1 s1/c2")
    const ended = end(waiting)
    assert.strictEqual(ended.outcome?._tag, "AwaitingApproval")
    const events = Result.getOrThrow(Run.decide(ended, [decision("c2", false, { reason: "no" })], at))
    assert.deepStrictEqual(events, [inStep("s1", decided("c2", false, "no"))])
    const after = go(ended, ...events, resumed())
    assert.deepStrictEqual(paths(after), ["c1:1"])
    assert.strictEqual(next(after), "CallModel 1 answer")
    const taken = go(after, step(1), planResumed)
    assert.deepStrictEqual(paths(taken), [])
    assert.deepStrictEqual(statusesOf(taken), ["c1 Waiting", "s1 Waiting"])
  })

  it("PLAN-8 a resumption without decisions waits again", () => {
    assert.strictEqual(next(go(end(waiting), resumed())), "AwaitingApproval c1:1 s1/c2")
  })

  it("PLAN-8 a decision about what does not wait is refused, by decide and by apply", () => {
    const ended = end(waiting)
    const wrong = (decision: Run.Decision) => {
      const result = Run.decide(ended, [decision], at)
      assert(Result.isFailure(result))
      return result.failure.problem
    }
    assert.strictEqual(wrong(decision("c3")), "unknown")
    assert.strictEqual(wrong(decision("c1:1", true, { path: ["s1"] })), "unknown")
    assert.strictEqual(wrong(decision("c1:1", true, { digest: digestOf("c2") })), "changed")
    const other = { _tag: "StepDecided", at, step: "c1", callId: "c1:1", digest: "another", approved: true } as const
    assert.strictEqual(refused(ended, { _tag: "PlanEvent", event: other }).reason._tag, "Unexpected")
    assert.strictEqual(refused(ended, decided("c1:1", true)).reason._tag, "UnknownCall")
    assert.strictEqual(refused(ended, child("s1", decided("c2", true))).reason._tag, "UnknownCall")
    const once = go(ended, planDecided("c1"))
    assert.strictEqual(refused(once, planDecided("c1")).reason._tag, "Unexpected")
    assert.strictEqual(refused(waiting, child("s1", toolStarted("c2"))).reason._tag, "UnknownCall")
    assert.strictEqual(refused(waiting, asked("c1")).reason._tag, "UnknownCall")
  })

  it("PLAN-8 a run around it waits for the same requests, under the id of its call, and continues with a decision", () => {
    const events: Array<Run.Event> = [started({ depth: 1, runId: "inner" }), input(), step(1)]
    const plan = [
      planBegins(["c1", "s1"], true),
      planStep("c1"),
      planStep("s1"),
      ...clerk.map((event) => inStep("s1", event)),
      planPaused("c1"),
      planPaused("s1", false)
    ]
    const [first, ...others] = Run.requests(waiting)
    assert(first !== undefined)
    const outcome = { _tag: "AwaitingApproval", requests: [first, ...others] } as const
    events.push(...plan, {
      _tag: "PlanEvent",
      event: { _tag: "PlanFinished", at, outcome: { _tag: "Paused", requests: outcome.requests } }
    })
    const outer = run(
      started(),
      input(),
      step(1),
      answered([call("o")]),
      toolStarted("o"),
      ...events.map((event) => child("o", event)),
      child("o", { _tag: "RunFinished", at, outcome })
    )
    assert.strictEqual(next(outer), "AwaitingApproval o/c1:1 o/s1/c2")
    const decisions = Result.getOrThrow(Run.decide(end(outer), [decision("c2")], at))
    assert.deepStrictEqual(decisions, [child("o", inStep("s1", decided("c2", true)))])
    const after = go(end(outer), ...decisions, resumed())
    assert.strictEqual(next(after), "RunTools o...")
    const status = runTransition.openCall(after, "o")?.status
    const inside = status?._tag === "Started" ? status.child : undefined
    assert.deepStrictEqual(inside && paths(inside), ["c1:1"])
  })

  it("PLAN-8 a used up budget is MaxSteps, and continues with a larger one", () => {
    const limited = end(go(begun, planBegins(["a", "b"], false, 1), planStep("a"), planDone("a"), planLimited(1, "b")))
    assert.strictEqual(limited.outcome?._tag, "MaxSteps")
    assert.strictEqual(next(go(limited, resumed({ maxSteps: 20 }))), "CallModel 1 answer")
  })

  it("PLAN-8 an interruption keeps the plan", () => {
    const running = go(begun, planBegins(["a", "b"]), planStep("a"))
    const stopped = end(go(running, interrupted("enough")))
    assert.strictEqual(stopped.outcome?._tag, "Interrupted")
    assert.strictEqual(refused(go(running, interrupted()), planDone("a")).reason._tag, "Unexpected")
    const again = go(stopped, resumed(), step(1), planResumed, planStep("a"), planDone("a"), planStep("b"))
    assert.deepStrictEqual(statusesOf(again), ["b Running"])
  })

  it("PLAN-8 a message of the user meanwhile waits for the answer", () => {
    const state = go(end(waiting), resumed(), input("and then?"))
    assert.strictEqual(roles(state), "user")
    assert.strictEqual(state.pending.length, 1)
    const answer = go(state, planDecided("c1"), step(1), planResumed, planStep("c1"), answered("done"))
    assert.strictEqual(roles(answer), "user assistant user")
    assert.strictEqual(next(answer), "CallModel 1 answer")
    assert.deepStrictEqual([answer.pending.length, answer.totalSteps], [0, 1])
  })

  test("PLAN-8 L3 states and events with a plan survive JSON", function* () {
    const states = [waiting, end(waiting), go(end(waiting), planDecided("c1"))]
    for (const state of states) {
      const decodedState = yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(state))
      assert.isTrue(Equal.equals(decodedState, state))
      assert.strictEqual(next(decodedState), next(state))
    }
    for (const event of [planBegins(["a"]), inStep("s1", asked("c2")), planLimited(1, "a")]) {
      const text = yield* Run.eventCodec.encodeJson(event)
      assert.deepStrictEqual(yield* Run.eventCodec.decodeJson(text), event)
    }
  })

  it("KEEP-2 HOUSE-3 a plan that was cut off after it was resumed has the decisions", () => {
    const decisions = [decision("c2"), decision("c1:1")]
    const events = Result.getOrThrow(Run.decide(end(waiting), decisions, at))
    const cut = go(end(waiting), ...events, resumed(), step(1), planResumed, resumed())
    assert.strictEqual(next(cut), "CallModel 1 answer")
    const members = cut.plan?.turn?.members ?? []
    assert.deepInclude(members[0]?.status, { decision: { approved: true, digest: digestOf("c1:1") } })
    assert.deepStrictEqual(paths(cut), [])
  })

  test("PLAN-8 L8 events of plans are looked through for secrets, but for payloads and outputs in them", function* () {
    const basis = { digest: "d", parts: {}, steps: [{ name: "s", target: "function s", digest: "d" }] }
    const plan = {
      _tag: "PlanStarted",
      at,
      runId: "r",
      plan: "p",
      digest: "d",
      depth: 0,
      maxIterations: 1,
      basis
    } as const
    const started = (payload: Schema.Json, context: Record<string, string>): Run.Event => ({
      _tag: "PlanEvent",
      event: { ...plan, input: { task: "t", payload }, context }
    })
    const record = { step: "s", task: "t", usage: {}, attempts: 1, startedAt: at, finishedAt: at } as const
    const finished = (step: string): Run.Event => ({
      _tag: "PlanEvent",
      event: { _tag: "StepFinished", at, record: { ...record, step, output: { password: "x" } } }
    })
    yield* Run.eventCodec.encodeJson(started({ api_key: "x" }, {}))
    yield* Run.eventCodec.encodeJson(child("c", finished("s")))
    yield* Run.stateCodec.encodeJson(go(begun, started({ api_key: "x" }, {}), planStep("s"), finished("s")))
    const secret = started("x", { password: "x" })
    for (const written of [Run.eventCodec.encodeJson(secret), Run.stateCodec.encodeJson(go(begun, secret))]) {
      const error = yield* Effect.flip(written)
      assert(error._tag === "PayloadError")
      assert.strictEqual(error.reason._tag, "Secret")
    }
  })
})
