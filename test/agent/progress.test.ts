import { assert, describe, it } from "@effect/vitest"
import { Chunk, Effect, Equal, Result, type Schema } from "effect"
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
  interrupted,
  next,
  refused,
  resumed,
  roles,
  run,
  planDecided,
  planLimited,
  planResumed,
  planStep,
  planUsed,
  planWaits,
  started,
  step,
  toolStarted
} from "./run-events.ts"
import { test } from "../test.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { decision, digestOf } from "../decisions.ts"

const request = (callId: string, path?: ReadonlyArray<string>): Run.ApprovalRequest => ({
  callId,
  name: "pay",
  arguments: { amount: 5 },
  digest: digestOf(callId),
  ...(path === undefined ? {} : { path })
})

const begun = run(started(), input(), step(1))
const waiting = go(begun, planStep("a"), planWaits(request("c1"), request("c2", ["s1"])))

const paths = (state: Run.State) =>
  Run.approvalRequests(state).map(({ callId, path }) => [...(path ?? []), callId].join("/"))

const stepsOf = ({ progress }: Run.State) =>
  Array.from(progress?.events ?? Chunk.empty(), (event) => ("step" in event ? event.step : event._tag))

describe("PLAN-8 the events of a plan that answers, in the core", () => {
  it("PLAN-8 KEEP-2 they come in order, in a step, and are gone with the answer", () => {
    const state = go(begun, planStep("a"), planStep("b"), planStep("c"))
    assert.deepStrictEqual(stepsOf(state), ["a", "b", "c"])
    assert.strictEqual(next(state), "CallModel 1 answer")
    const done = go(state, answered("done"))
    assert.isUndefined(done.progress)
    assert.strictEqual(next(done), "Completed")
    assert.strictEqual(refused(done, planStep("d")).reason._tag, "Unexpected")
    assert.strictEqual(refused(run(started(), input()), planStep("a")).reason._tag, "Unexpected")
  })

  it("PLAN-8 usage is counted once, also through two runs around it", () => {
    const inner = [
      started({ depth: 2, runId: "inner" }),
      input(),
      step(1),
      planUsed({ inputTokens: 3 }),
      planUsed({ inputTokens: 4, outputTokens: 1 })
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

  it("PLAN-8 requests suspend the run until one of them is decided; decisions are kept until progress takes them", () => {
    assert.strictEqual(next(waiting), "AwaitingApproval c1 s1/c2")
    const ended = end(waiting)
    assert.strictEqual(ended.outcome?._tag, "AwaitingApproval")
    const events = Result.getOrThrow(Run.decide(ended, [decision("c2", false, { reason: "no" })], at))
    const after = go(ended, ...events, resumed())
    assert.deepStrictEqual(after.progress?.decisions, [decision("c2", false, { reason: "no", path: ["s1"] })])
    assert.deepStrictEqual(paths(after), ["c1"])
    assert.strictEqual(next(after), "CallModel 1 answer")
    const taken = go(after, step(1), planResumed)
    assert.deepStrictEqual(taken.progress?.decisions, [])
    assert.deepStrictEqual(paths(taken), [])
  })

  it("PLAN-8 a resumption without decisions waits again", () => {
    assert.strictEqual(next(go(end(waiting), resumed())), "AwaitingApproval c1 s1/c2")
  })

  it("PLAN-8 a decision about what does not wait is refused, by decide and by apply", () => {
    const ended = end(waiting)
    const wrong = (decision: Run.Decision) => {
      const result = Run.decide(ended, [decision], at)
      assert(Result.isFailure(result))
      return result.failure.problem
    }
    assert.strictEqual(wrong(decision("c3")), "unknown")
    assert.strictEqual(wrong(decision("c1", true, { path: ["s1"] })), "unknown")
    assert.strictEqual(wrong(decision("c1", true, { digest: digestOf("c2") })), "changed")
    assert.strictEqual(refused(ended, { ...decided("c1", true), digest: "another" }).reason._tag, "CallStatus")
    assert.strictEqual(refused(ended, decided("c2", true)).reason._tag, "UnknownCall")
    assert.strictEqual(refused(ended, child("s1", decided("c1", true))).reason._tag, "UnknownCall")
    const once = go(ended, decided("c1", true))
    assert.strictEqual(refused(once, decided("c1", true)).reason._tag, "UnknownCall")
    assert.strictEqual(refused(waiting, child("s1", toolStarted("c2"))).reason._tag, "Unexpected")
    assert.strictEqual(refused(waiting, asked("c1")).reason._tag, "UnknownCall")
  })

  it("PLAN-8 a run around it waits for the same requests, under the id of its call, and continues with a decision", () => {
    const inner = [
      started({ depth: 1, runId: "inner" }),
      input(),
      step(1),
      planWaits(request("c1"), request("c2", ["s1"]))
    ]
    const requests = Run.approvalRequests(run(started(), ...inner.slice(1)))
    const [first, ...others] = requests
    assert(first !== undefined)
    const outer = run(
      started(),
      input(),
      step(1),
      answered([call("o")]),
      toolStarted("o"),
      ...inner.map((event) => child("o", event)),
      child("o", { _tag: "RunFinished", at, outcome: { _tag: "AwaitingApproval", requests: [first, ...others] } })
    )
    assert.strictEqual(next(outer), "AwaitingApproval o/c1 o/s1/c2")
    const events = Result.getOrThrow(Run.decide(end(outer), [decision("c2")], at))
    const after = go(end(outer), ...events, resumed())
    assert.strictEqual(next(after), "RunTools o...")
    const status = runTransition.openCall(after, "o")?.status
    const inside = status?._tag === "Started" ? status.child : undefined
    assert.deepStrictEqual(inside?.progress?.decisions, [decision("c2", true, { path: ["s1"] })])
  })

  it("PLAN-8 a used up budget is MaxSteps, and continues with a larger one", () => {
    const limited = end(go(begun, planLimited))
    assert.strictEqual(limited.outcome?._tag, "MaxSteps")
    assert.strictEqual(next(go(limited, resumed({ maxSteps: 20 }))), "CallModel 1 answer")
  })

  it("PLAN-8 an interruption keeps the progress", () => {
    const stopped = end(go(begun, planStep("a"), interrupted("enough")))
    assert.strictEqual(stopped.outcome?._tag, "Interrupted")
    assert.strictEqual(refused(go(begun, planStep("a"), interrupted()), planStep("b")).reason._tag, "Unexpected")
    const again = go(stopped, resumed(), step(1), planStep("b"))
    assert.strictEqual(stepsOf(again).length, 2)
  })

  it("PLAN-8 a message of the user meanwhile waits for the answer", () => {
    const state = go(end(waiting), resumed(), input("and then?"))
    assert.strictEqual(roles(state), "user")
    assert.strictEqual(state.pending.length, 1)
    const answer = go(state, decided("c1", true), step(1), planStep("c"), answered("done"))
    assert.strictEqual(roles(answer), "user assistant user")
    assert.strictEqual(next(answer), "CallModel 1 answer")
    assert.deepStrictEqual([answer.pending.length, answer.totalSteps], [0, 1])
  })

  test("PLAN-8 L3 states and events with progress survive JSON", function* () {
    const states = [waiting, end(waiting), go(end(waiting), decided("c1", false, "no"))]
    for (const state of states) {
      const decodedState = yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(state))
      assert.isTrue(Equal.equals(decodedState, state))
      assert.strictEqual(next(decodedState), next(state))
    }
    for (const event of [planUsed({ inputTokens: 1 }), planWaits(request("c1", ["s1"])), planLimited]) {
      const text = yield* Run.eventCodec.encodeJson(event)
      assert.deepStrictEqual(yield* Run.eventCodec.decodeJson(text), event)
    }
  })

  it("KEEP-2 a plan that was cut off while it took decisions continues, and has the others left", () => {
    const ended = end(waiting)
    const decisions = [decision("c2"), decision("c1")]
    const resuming = go(ended, ...Result.getOrThrow(Run.decide(ended, decisions, at)), resumed(), step(1))
    assert.deepStrictEqual(resuming.progress?.decisions.length, 2)
    const cut = go(resuming, planDecided("b", "c1"), resumed())
    assert.strictEqual(next(cut), "CallModel 1 answer")
    assert.deepStrictEqual(
      cut.progress?.decisions.map(({ callId }) => callId),
      ["c2"]
    )
    assert.deepStrictEqual(go(resuming, planDecided("b", "c1"), planResumed).progress?.decisions, [])
  })

  test("PLAN-8 L8 events of plans are looked through for secrets, but for payloads and outputs in them", function* () {
    const plan = { _tag: "PlanStarted", at, runId: "r", plan: "p", digest: "d", depth: 0, maxIterations: 1 } as const
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
    yield* Run.stateCodec.encodeJson(go(begun, started({ api_key: "x" }, {}), finished("s")))
    const secret = started("x", { password: "x" })
    for (const written of [Run.eventCodec.encodeJson(secret), Run.stateCodec.encodeJson(go(begun, secret))]) {
      const error = yield* Effect.flip(written)
      assert(error._tag === "PayloadError")
      assert.strictEqual(error.reason._tag, "Secret")
    }
  })
})
