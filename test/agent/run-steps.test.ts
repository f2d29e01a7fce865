import { assert, describe, it } from "@effect/vitest"
import { Equal, Hash, Result } from "effect"
import { Conversation, ToolResult, Run } from "effect-emissary"
import {
  answered,
  asked,
  assistantMessage,
  at,
  call,
  child,
  conversation,
  decided,
  end,
  finished,
  go,
  input,
  interrupted,
  mistaken,
  next,
  planBegins,
  planStep,
  ran,
  refused,
  resumed,
  roles,
  run,
  started,
  step,
  toolMessage,
  toolStarted,
  userMessage
} from "./run-events.ts"
import { inspect } from "node:util"
import * as runParts from "#src/run/internal/runParts.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { pluck } from "../pluck.ts"
import { decision, digestOf } from "../decisions.ts"

const asks = (maxSteps: number, finishReason?: string) =>
  run(started(), input("q", maxSteps), step(1), answered([call("a"), call("b")], finishReason))

describe("RIGHT-6 L5 answers without anything", () => {
  const empty = (maxSteps = 16) => run(started(), input("q", maxSteps), step(1), answered([]))

  it("RIGHT-6 the transition asks once more, then it stops", () => {
    assert.strictEqual(next(empty()), "CallModel 2 answer")
    assert.strictEqual(next(go(empty(), step(2), answered([]))), "Stopped empty")
    assert.strictEqual(next(go(empty(), step(2), mistaken, answered(" "))), "Stopped empty")
    assert.strictEqual(next(go(empty(), step(2), answered("done"))), "Completed")
    assert.strictEqual(next(empty(1)), "Stopped empty")
    assert.strictEqual(
      next(go(empty(), step(2), answered([]), input("next"), step(1), answered([]))),
      "CallModel 2 answer"
    )
  })

  it("RIGHT-6 an answer that paused, was cut off or was stopped is none of them", () => {
    for (const reason of ["pause", "interrupted", "length"]) {
      assert.isUndefined(run(started(), input("q"), step(1), answered([], reason)).answer?.empty)
    }
  })

  it("RIGHT-6 the answer of a plan is what its steps made", () => {
    const state = run(started(), input("q"), step(1), planBegins(["a"]), planStep("a"), answered(""))
    assert.strictEqual(next(state), "Completed")
  })

  it("RIGHT-6 DUR-3 events of runs that completed with such an answer are still folded", () => {
    const over = go(empty(), { _tag: "RunFinished", at, outcome: { _tag: "Completed" } })
    assert.strictEqual(over.outcome?._tag, "Completed")
    assert.strictEqual(
      refused(empty(), { _tag: "RunFinished", at, outcome: { _tag: "MaxSteps" } }).reason._tag,
      "Unexpected"
    )
  })
})

describe("AGENT-4 steps and outcomes", () => {
  it("AGENT-4 the limit stops only an answer that asks for more, and leaves its calls open", () => {
    const limited = asks(1)
    assert.strictEqual(next(limited), "MaxSteps")
    const over = end(limited)
    assert.strictEqual(Conversation.openCalls(over.conversation).length, 2)
    assert.strictEqual(over.steps, 1)
    for (const event of [toolStarted("a"), asked("a"), finished("a", ToolResult.failure("unknown_tool", "no"))]) {
      assert.strictEqual(refused(limited, event).reason._tag, "Unexpected")
    }
    assert.strictEqual(next(run(started(), input("q", 1), step(1), answered("done"))), "Completed")
  })

  it("AGENT-4 tools take no step, the answer after them does", () => {
    const state = go(asks(2), ...ran("a"), ...ran("b"))
    assert.strictEqual(next(state), "CallModel 2 answer")
    assert.strictEqual(next(go(state, step(2), answered([call("c")]))), "MaxSteps")
    assert.strictEqual(next(go(state, step(2), answered("done"))), "Completed")
  })

  it("AGENT-4 answers of the given conversation count since its last user message", () => {
    const before = [userMessage("q1"), assistantMessage("a1"), userMessage("q2"), assistantMessage([call("c1")])]
    const state = run(started({ maxSteps: 2, conversation: conversation(...before) }))
    assert.strictEqual(state.steps, 1)
    assert.strictEqual(next(state), "RunTools c1")
    assert.strictEqual(next(go(state, ...ran("c1"), step(2), answered([call("c2")]))), "MaxSteps")
    const fresh = run(started({ maxSteps: 1, conversation: conversation(...before.slice(0, 2)) }), input("q2", 1))
    assert.strictEqual(fresh.steps, 0)
  })

  it("AGENT-8 a run has input once a user message is in it, or waits", () => {
    const open = run(started({ conversation: conversation(assistantMessage([call("a")])) }))
    const states = [run(started()), run(started(), input()), open, go(open, input())]
    assert.deepStrictEqual(states.map(runTransition.hasInput), [false, true, false, true])
    assert.lengthOf(states[3]?.pending ?? [], 1)
  })

  it("AGENT-8 only calls that wait are requests, also beside others and in agents that are calls", () => {
    const calls = ["r", "s", "w", "k"].map((id) => call(id))
    const inner = [
      started({ runId: "inner", depth: 1 }),
      input(),
      step(1),
      answered([call("r"), call("w")]),
      asked("w")
    ]
    const state = go(
      run(started(), input(), step(1), answered(calls)),
      toolStarted("s"),
      asked("w"),
      toolStarted("k"),
      ...inner.map((event) => child("k", event))
    )
    const paths = Run.requests(state).map(({ callId, path }) => [...(path ?? []), callId].join("/"))
    assert.deepStrictEqual(paths, ["w", "k/w"])
  })

  it("AGENT-4 precedence: interrupted, then max steps, then provider stop, then invalid output", () => {
    assert.strictEqual(next(go(asks(1, "length"), interrupted())), "Interrupted")
    assert.strictEqual(next(asks(1, "length")), "MaxSteps")
    const invalid = { output: { _tag: "Invalid", issues: [] } } as const
    const stopped = run(started({ structured: "always" }), input("q", 1), step(1, "structured"))
    assert.strictEqual(next(go(stopped, answered("{", "length", invalid))), "Stopped length")
    assert.strictEqual(next(go(stopped, answered("{", "stop", invalid))), "InvalidOutput")
  })
})

describe("AGENT-3 rules for model output", () => {
  it("AGENT-3 a call id that the conversation has is refused: the driver relabels it", () => {
    const state = go(asks(5), ...ran("a"), ...ran("b"), step(2))
    const error = refused(state, answered([call("a")]))
    assert.strictEqual(error.reason._tag, "Conversation")
    assert.include(error.message, "relabelCalls")
  })

  it("AGENT-3 events that do not fit are refused with the expected event", () => {
    const begun = run(started(), input())
    assert.include(refused(begun, started()).message, "RunStarted")
    assert.include(refused(begun, answered("hi")).message, "StepStarted")
    assert.include(refused(begun, mistaken).message, "StepStarted")
    assert.include(refused(begun, step(2)).message, "step 1")
    assert.include(refused(begun, step(1, "structured")).message, "step 1 (answer)")
    assert.include(refused(go(begun, step(1)), input()).message, "step 1")
    assert.include(
      refused(begun, { _tag: "RunFinished", at: begun.startedAt, outcome: { _tag: "Completed" } }).message,
      "CallModel"
    )
    const over = end(go(begun, step(1), answered("hi")))
    assert.include(refused(over, input()).message, "RunResumed")
    assert.include(refused(go(asks(5), ...ran("a")), finished("a")).message, `"b"`)
    assert.strictEqual(refused(asks(5), step(2)).reason._tag, "Unexpected")
    const wrongName = refused(go(asks(5), toolStarted("a")), finished("a", undefined, "other"))
    assert.strictEqual(wrongName.reason._tag, "Conversation")
  })

  it("AGENT-3 a list is folded up to the first event that does not fit, and its index is reported", () => {
    const result = Run.fold([started(), input(), step(7)])
    assert(result._tag === "Failure")
    assert.strictEqual(result.failure.index, 2)
    const empty = Run.fold([])
    assert(empty._tag === "Failure")
    assert.include(empty.failure.message, "RunStarted first")
    assert.strictEqual(Run.fold([input()])._tag, "Failure")
  })
})

describe("AGENT-6 structured output", () => {
  const valid = { output: { _tag: "Valid", value: { n: 1 } } } as const

  it("AGENT-6 an output call must be one of the answer", () => {
    const state = run(started(), input(), step(1))
    const nobody = answered("x", "stop", { ...valid, outputCall: "nope" })
    assert.strictEqual(refused(state, nobody).reason._tag, "UnknownCall")
    assert.strictEqual(refused(state, answered([call("o")], "stop", { outputCall: "o" })).reason._tag, "Unexpected")
  })
})

describe("AGENT-7 interruption, resumption and recovery", () => {
  const failed = (id: string) => finished(id, ToolResult.failure("interrupted", "stopped"))

  it("L6 an interruption settles what started and leaves open what did not", () => {
    const state = go(asks(5), toolStarted("a"), interrupted("stop"))
    assert.strictEqual(next(state), "RunTools a=interrupted")
    for (const event of [toolStarted("b"), input(), interrupted()]) {
      assert.strictEqual(refused(state, event).reason._tag, "Unexpected")
    }
    const over = end(go(state, failed("a")))
    assert.strictEqual(roles(over), "user assistant tool:a")
    assert.strictEqual(next(go(over, resumed())), "RunTools b")
    const finishedInTime = go(asks(5), toolStarted("a"), interrupted("stop"), finished("a"))
    assert.strictEqual(next(finishedInTime), "Interrupted")
  })

  it("L6 after a crash what started is settled interrupted, never started again, and the rest runs", () => {
    const crashed = go(asks(5), toolStarted("a"))
    assert.strictEqual(next(crashed), "RunTools b a=interrupted")
    assert.strictEqual(refused(crashed, toolStarted("a")).reason._tag, "CallStatus")
    const resumedState = go(crashed, resumed(), input("more"))
    assert.strictEqual(next(resumedState), "RunTools b a=interrupted")
    const over = go(resumedState, failed("a"), ...ran("b"))
    assert.strictEqual(roles(over), "user assistant tool:a tool:b user")
  })

  it("AGENT-7 a crash in a model call repeats that step", () => {
    const crashed = run(started(), input(), step(1))
    assert.strictEqual(next(crashed), "CallModel 1 answer")
    assert.strictEqual(next(go(crashed, step(1), answered("hi"))), "Completed")
    assert.strictEqual(next(go(crashed, resumed(), input("instead"))), "CallModel 1 answer")
  })

  it("AGENT-7 RunContext can be replaced", () => {
    const over = end(run(started({ context: { tenant: "a" } }), input(), interrupted()))
    assert.deepStrictEqual(go(over, resumed()).context, { tenant: "a" })
    assert.deepStrictEqual(go(over, resumed({ context: { tenant: "b" } })).context, { tenant: "b" })
  })

  it("AGENT-7 new input waits until open calls are done, then gets a fresh budget", () => {
    const over = end(asks(1))
    const state = go(over, resumed(), input("next", 3))
    assert.strictEqual(next(state), "RunTools a b")
    assert.strictEqual(roles(state), "user assistant")
    const ranA = go(state, ...ran("a"))
    assert.strictEqual(ranA.steps, 1)
    assert.strictEqual(ranA.maxSteps, 1)
    const ranBoth = go(ranA, ...ran("b"))
    assert.strictEqual(roles(ranBoth), "user assistant tool:a tool:b user")
    assert.strictEqual(ranBoth.steps, 0)
    assert.strictEqual(ranBoth.maxSteps, 3)
    assert.strictEqual(ranBoth.totalSteps, 1)
    assert.strictEqual(next(ranBoth), "CallModel 1 answer")
  })

  it("AGENT-7 without input the open calls run under the old budget; a new budget counts on", () => {
    const over = end(asks(1))
    const again = go(over, resumed(), ...ran("a"), ...ran("b"))
    assert.strictEqual(next(again), "CallModel 2 answer")
    assert.strictEqual(next(go(again, step(2), answered([call("c")]))), "MaxSteps")
    const more = go(over, resumed({ maxSteps: 3 }), ...ran("a"), ...ran("b"), step(2), answered([call("c")]))
    assert.strictEqual(next(more), "RunTools c")
  })

  it("AGENT-7 a limit that the crashed process could not report still holds", () => {
    assert.strictEqual(next(go(asks(1), resumed())), "MaxSteps")
    assert.strictEqual(next(go(asks(1), resumed({ maxSteps: 2 }))), "RunTools a b")
    assert.strictEqual(next(go(asks(1), resumed(), input("next"))), "RunTools a b")
    assert.strictEqual(next(go(end(go(asks(1), interrupted())), resumed())), "RunTools a b")
  })

  it("AGENT-7 input that could never be added is refused at once", () => {
    const empty = { ...input(), message: { ...userMessage(""), content: [{ type: "text", text: "" }] } } as const
    assert.strictEqual(refused(asks(5), empty).reason._tag, "Conversation")
  })

  it("AGENT-7 a given conversation with open calls is finished in place before the input", () => {
    const history = conversation(userMessage("q"), assistantMessage([call("a"), call("b")]), toolMessage("a"))
    const state = run(started({ conversation: history }), input("next"))
    assert.strictEqual(next(state), "RunTools b")
    assert.strictEqual(roles(go(state, ...ran("b"))), "user assistant tool:a tool:b user")
  })

  it("AGENT-3 the error about a state of another definition names both", () => {
    const changed = new Run.DefinitionChanged({ expected: "sha256:2", found: "sha256:1", changes: [] })
    assert.include(changed.message, "expected a state of the definition sha256:2, found a state of sha256:1")
  })
})

const asking = (...ids: ReadonlyArray<string>) => run(started(), input(), step(1), answered(ids.map((id) => call(id))))

const decide = (state: Run.State, ...decisions: ReadonlyArray<Run.Decision>) => Run.decide(state, decisions, at)

const problem = (result: ReturnType<typeof decide>) => (Result.isFailure(result) ? result.failure.problem : "none")

describe("TOOL-7 approvals", () => {
  it("TOOL-7 a waiting call is never dispatched and cannot be given a result", () => {
    const waiting = go(asking("a"), asked("a"))
    for (const event of [toolStarted("a"), finished("a"), finished("a", ToolResult.failure("x", "y"))]) {
      assert.strictEqual(refused(waiting, event).reason._tag, "CallStatus")
    }
    assert.strictEqual(refused(waiting, step(2)).reason._tag, "Unexpected")
  })

  it("TOOL-7 a denied call has a denied result with the reason, and nothing runs", () => {
    const over = end(go(asking("a"), asked("a")))
    const denied = go(over, decided("a", false, "too expensive"), resumed())
    const action = Run.next(denied)
    assert(action._tag === "RunTools")
    assert.deepStrictEqual(action.calls, [])
    assert.deepStrictEqual(action.settled, [
      { callId: "a", name: "tool", result: ToolResult.failure("denied", "too expensive") }
    ])
    assert.strictEqual(refused(denied, toolStarted("a")).reason._tag, "CallStatus")
    assert.strictEqual(refused(denied, finished("a")).reason._tag, "CallStatus")
    assert.strictEqual(next(go(denied, finished("a", ToolResult.failure("denied", "no")))), "CallModel 2 answer")
  })

  it("TOOL-7 a decision about an unknown, closed, decided or repeated call is a typed error", () => {
    const over = end(go(asking("a", "b", "c"), asked("a"), asked("c"), ...ran("b")))
    assert.strictEqual(problem(decide(over, decision("nope"))), "unknown")
    assert.strictEqual(problem(decide(over, decision("b"))), "unknown")
    const twice = decision("a")
    assert.strictEqual(problem(decide(over, twice, twice)), "repeated")
    assert.strictEqual(problem(decide(over, decision("a", true, { digest: digestOf("c") }))), "changed")
    assert.strictEqual(problem(decide(over, decision("a", true, { expiresAt: at }))), "expired")
    assert.strictEqual(refused(over, { ...decided("a", true), digest: digestOf("c") }).reason._tag, "CallStatus")
    const after = go(over, decided("a", true))
    assert.strictEqual(problem(decide(after, twice)), "unknown")
    const error = decide(after, twice)
    assert(Result.isFailure(error))
    assert.include(error.failure.message, `"a"`)
    assert.include(error.failure.message, `Waiting: "c"`)
    assert.strictEqual(refused(over, decided("b", true)).reason._tag, "UnknownCall")
    assert.strictEqual(refused(asking("a"), decided("a", true)).reason._tag, "CallStatus")
  })
})

describe("AGENT-8 agents as tools", () => {
  const begin = (callId: string, depth = 1) => [
    toolStarted(callId),
    child(callId, started({ runId: callId, agent: "child", depth })),
    child(callId, input("sub question"))
  ]
  const inner = (...events: ReadonlyArray<Parameters<typeof child>[1]>) => events.map((event) => child("a", event))
  const usage = { inputTokens: 100 }
  const answer = (ids: ReadonlyArray<string>) => {
    const event = answered(ids.map((id) => call(id)))
    return { ...event, message: { ...event.message, usage } }
  }
  const suspended = (parent: Run.State) => {
    const asking = go(parent, ...begin("a"), ...inner(step(1), answer(["x"]), asked("x")))
    const requests = [{ _tag: "Approval", callId: "x", name: "tool", arguments: {}, digest: digestOf("x") }] as const
    return go(asking, child("a", { _tag: "RunFinished", at, outcome: { _tag: "AwaitingApproval", requests } }))
  }

  it("AGENT-8 equal ids of several agents need the path of the request", () => {
    const both = go(asking("a", "x"), asked("x"))
    const over = end(suspended(both))
    assert.deepStrictEqual(
      Run.requests(over).map(({ callId, path }) => [...(path ?? []), callId]),
      [["a", "x"], ["x"]]
    )
    assert.strictEqual(problem(decide(over, decision("x"))), "ambiguous")
    const events = Result.getOrThrow(
      decide(over, decision("x", true, { path: [] }), decision("x", false, { path: ["a"] }))
    )
    assert.deepStrictEqual(pluck(events, "_tag"), ["ApprovalDecided", "ChildEvent"])
  })

  it("AGENT-8 TOOL-7 a request with `approved` added is a decision, also where ids are equal", () => {
    const over = end(suspended(go(asking("a", "x"), asked("x"))))
    const requests = Run.requests(over)
    const events = Result.getOrThrow(decide(over, ...requests.filter(Run.isApprovable).map(Run.approve)))
    assert.deepStrictEqual(pluck(events, "_tag"), ["ChildEvent", "ApprovalDecided"])
    assert.notProperty(Run.requests(go(asking("a"), asked("a")))[0], "path")
  })

  it("AGENT-8 L6 after a crash the child continues from its state, a call without one is lost", () => {
    const crashed = go(
      asking("a", "b"),
      ...begin("a"),
      ...inner(step(1), answer(["x"]), toolStarted("x")),
      toolStarted("b")
    )
    assert.strictEqual(next(crashed), "RunTools a... b=interrupted")
    const action = Run.next(crashed)
    assert(action._tag === "RunTools" && action.calls[0]?.child !== undefined)
    assert.strictEqual(next(action.calls[0].child), "RunTools x=interrupted")
  })

  it("AGENT-8 a child begins with RunStarted, one deeper, under a call that started", () => {
    const state = go(asking("a"), toolStarted("a"))
    assert.include(refused(state, child("a", input())).message, "in the run inside a")
    assert.include(refused(state, child("a", started({ depth: 3 }))).message, "depth 1")
    assert.strictEqual(refused(asking("a"), child("a", started({ depth: 1 }))).reason._tag, "CallStatus")
    assert.strictEqual(refused(asking("a"), child("z", started({ depth: 1 }))).reason._tag, "UnknownCall")
    const begun = go(state, child("a", started({ depth: 1 })), child("a", input()))
    const error = refused(begun, child("a", step(9)))
    assert.deepStrictEqual(error.path, ["a"])
    assert.strictEqual(error.event, "StepStarted")
  })
})

describe("AGENT-3 states as values", () => {
  it("AGENT-3 states are equal when all of their parts are, and only then", () => {
    const events = [started(), input("q", 2), step(1)]
    const state = run(...events)
    const changes: ReadonlyArray<readonly [what: string, other: unknown]> = [
      ["another run", run(started({ runId: "other" }), ...events.slice(1))],
      ["another revision", new runParts.State({ ...state, revision: state.revision + 1 })],
      ["another part", new runParts.State({ ...state, agent: "other" })],
      ["no state", { ...state }]
    ]
    const hash = Hash.hash(state)
    assert.isTrue(Equal.equals(state, run(...events)))
    assert.strictEqual(Hash.hash(run(...events)), hash)
    for (const [what, other] of changes) assert.isFalse(Equal.equals(state, other), what)
    for (const [what, other] of changes.slice(0, 2)) assert.notStrictEqual(Hash.hash(other), hash, what)
  })

  it("L4 an event that does not fit names itself, its index, and the calls around it", () => {
    const reason = { _tag: "Unexpected", expected: "a step", found: "none" } as const
    const rest =
      "does not fit the run: expected a step, found none. Apply each event once, in the order in which it happened, from one driver at a time."
    for (const [fields, text] of [
      [{ path: [] }, `ToolStarted ${rest}`],
      [{ path: [], index: 0 }, `ToolStarted at index 0 ${rest}`],
      [{ path: ["a"] }, `ToolStarted in the run inside a ${rest}`],
      [{ path: ["a", "b"], index: 3 }, `ToolStarted at index 3 in the run inside a > b ${rest}`]
    ] as const) {
      assert.strictEqual(new Run.EventError({ event: "ToolStarted", reason, ...fields }).message, text)
    }
  })

  it("L8 a state prints its counts, and no text of the run", () => {
    const counts = { steps: 1, totalSteps: 1, openCalls: 2, revision: 4 }
    const expected = { _id: "RunState", runId: "run", agent: "support", ...counts }
    assert.deepStrictEqual(asks(2).toJSON(), expected)
    assert.deepStrictEqual(JSON.parse(String(asks(2))), expected)
    assert.strictEqual(inspect(asks(2)), inspect(expected))
    assert.deepStrictEqual(end(asks(1)).toJSON(), { ...expected, revision: 5, outcome: "MaxSteps" })
  })
})
