import { assert, describe, expect, it } from "@effect/vitest"
import { Result } from "effect"
import { Run, ToolResult } from "effect-emissary"
import * as write from "./run-events.ts"
import { digestOf } from "../decisions.ts"

const { answered, asked, at, call, child, decided, end, finished, go, input, interrupted, ran, run, step } = write
const {
  inStep,
  mistaken,
  planBegins,
  planDecided,
  planDone,
  planEnds,
  planLimited,
  planPaused,
  planResumed,
  planStep
} = write
const { resumed, started } = write
const { toolStarted } = write

const usage = { inputTokens: 3, outputTokens: 2 }
const inner = (maxSteps: number) => [
  started({ runId: "inner", depth: 1, maxSteps }),
  input("task", maxSteps),
  step(1),
  answered([call("c")])
]
const inside = (...events: ReadonlyArray<Run.Event>) => events.map((event) => child("a", event))

const begun = run(started(), input("q", 2))
const calling = go(begun, step(1), answered([call("a"), call("b")]))
const withChild = go(calling, toolStarted("a"), ...inside(...inner(2)))
const waitingInside = go(withChild, ...inside(asked("c")))
const waiting = go(calling, asked("a"), ...ran("b"))
const planning = go(begun, step(1), planBegins(["p", "q"], true), planStep("p"), planStep("q"))
const saving = planEnds(go(planning, planPaused("p"), planPaused("q")))
const forOutput = (structured: "always" | "fallback") => run(started({ structured }), input("q", 2))
const invalid = {
  output: { _tag: "Invalid", issues: [{ path: "/n", expected: "a number", found: "a text" }] }
} as const
const valid = { output: { _tag: "Valid", value: { n: 1 } } } as const
const ends = (outcome: Run.Outcome): Run.Event => ({ _tag: "RunFinished", at, outcome })

const states: Readonly<Record<string, Run.State>> = {
  "no input": run(started()),
  input: begun,
  "a step": go(begun, step(1)),
  "a step with a mistake": go(begun, step(1), mistaken),
  "a final answer": end(go(begun, step(1), answered("hi"))),
  "a final answer, not ended": go(begun, step(1), answered("hi")),
  "a paused answer": go(begun, step(1), answered("hi", "pause")),
  "a paused answer, out of steps": go(run(started(), input("q", 1)), step(1), answered("hi", "pause")),
  "an answer that was cut off": go(begun, step(1), answered([call("a")], "length")),
  "an answer with a reason that nobody knows": go(begun, step(1), answered("hi", "melted")),
  "an answer without anything": go(begun, step(1), answered([])),
  calls: calling,
  "calls, out of steps": go(run(started(), input("q", 1)), step(1), answered([call("a"), call("b")])),
  "calls and input that waits": go(calling, input("more", 5)),
  "the last call and input that waits": go(calling, ...ran("b"), toolStarted("a"), input("more", 5)),
  "a call that waits": waiting,
  "a run that ended because a call waits": end(waiting),
  "an approved call": go(waiting, decided("a", true)),
  "a denied call": go(waiting, decided("a", false)),
  "a started call": go(calling, toolStarted("a")),
  "a started call of an idempotent tool": go(calling, toolStarted("a", { idempotent: true })),
  "an interrupted call of an idempotent tool": go(calling, toolStarted("a", { idempotent: true }), interrupted("stop")),
  "an approved call of an idempotent tool that started": go(
    waiting,
    decided("a", true),
    toolStarted("a", { idempotent: true })
  ),
  "an interrupted call": go(calling, toolStarted("a"), interrupted("stop")),
  "a run that ended interrupted": end(go(begun, interrupted())),
  "an agent as a call": withChild,
  "an agent as a call that waits": waitingInside,
  "an agent as a call that ended because it waits": go(waitingInside, ...inside(ends(dueOf(waitingInside)))),
  "all calls done": go(calling, ...ran("a"), ...ran("b")),
  "a plan that waits": saving,
  "a plan with a decision": go(saving, planDecided("q")),
  "a plan under way": planning,
  "structured: a step": go(forOutput("always"), step(1, "structured")),
  "structured: an invalid output": go(forOutput("always"), step(1, "structured"), answered("{", "stop", invalid)),
  "fallback: a step": go(forOutput("fallback"), step(1)),
  "fallback: an invalid output": go(forOutput("fallback"), step(1), answered("{", "stop", invalid)),
  "fallback: invalid twice": go(
    forOutput("fallback"),
    step(1),
    answered("{", "stop", invalid),
    step(2, "structured"),
    answered("{", "stop", invalid)
  ),
  "fallback: an invalid call of the output tool": go(
    forOutput("fallback"),
    step(1),
    answered([call("o")], "stop", { ...invalid, outputCall: "o" })
  ),
  "fallback: a valid output": go(forOutput("fallback"), step(1), answered("{}", "stop", valid))
}

/** The end of the run that is the call `a`. */
function dueOf(state: Run.State): Run.Outcome {
  const status = state.calls.find(({ part }) => part.id === "a")?.status
  assert(status?._tag === "Started" && status.child !== undefined)
  const action = Run.next(status.child)
  assert(action._tag === "Finished")
  return action.outcome
}

const failure = ToolResult.failure("unknown_tool", "no")
const events: Readonly<Record<string, Run.Event>> = {
  RunStarted: started(),
  InputAdded: input("more", 7),
  "InputAdded that steers": write.steering("more"),
  "StepStarted 1": step(1),
  "StepStarted 2": step(2),
  "StepStarted 1 structured": step(1, "structured"),
  "ModelAnswered text": { ...answered("hi"), message: { ...write.assistantMessage("hi"), usage } },
  "ModelAnswered calls": answered([call("x"), call("y")]),
  "ModelAnswered an old call": answered([call("a")]),
  "ModelAnswered invalid": answered("{", "stop", invalid),
  "ModelAnswered an output call": answered([call("o")], "stop", { ...valid, outputCall: "o" }),
  "ModelAnswered an output call and another": answered([call("o"), call("x")], "stop", { ...invalid, outputCall: "o" }),
  "ModelAnswered an output call that was cut off": answered([call("o")], "length", { ...invalid, outputCall: "o" }),
  "ModelAnswered an output call that is not there": answered([call("o")], "stop", { ...valid, outputCall: "x" }),
  "ModelAnswered an output call without an output": answered([call("o")], "stop", { outputCall: "o" }),
  AnswerDiscarded: { _tag: "AnswerDiscarded", at, usage },
  ModelMistaken: mistaken,
  "PlanEvent PlanStarted": planBegins(["y"]),
  "PlanEvent StepStarted": planStep("y"),
  "PlanEvent StepFinished": planDone("p"),
  "PlanEvent with an event of an agent": inStep("q", started({ depth: 1, runId: "in a step" })),
  "PlanEvent at the limit": planLimited(1, "p"),
  "PlanEvent StepDecided": planDecided("q"),
  "PlanEvent PlanResumed": planResumed,
  "ApprovalRequested a": asked("a"),
  "ApprovalRequested nobody": asked("nobody"),
  "ApprovalDecided a": decided("a", true),
  "ApprovalDecided a with another digest": { ...decided("a", true), digest: digestOf("b") },
  "ApprovalDecided a denied": decided("a", false, "too much"),
  "ApprovalDecided p": decided("p", false),
  "ApprovalDecided p with another digest": { ...decided("p", true), digest: digestOf("b") },
  "ApprovalDecided p in a": child("a", decided("p", true)),
  "ApprovalDecided c in a": child("a", decided("c", true)),
  "ToolStarted a": toolStarted("a"),
  "ToolStarted nobody": toolStarted("nobody"),
  "ToolFinished a": finished("a"),
  "ToolFinished a failed": finished("a", failure),
  "ToolFinished a denied": finished("a", ToolResult.failure("denied", "no")),
  "ToolFinished a of another tool": finished("a", failure, "other"),
  "ToolFinished nobody": finished("nobody"),
  "RunStarted in a": child("a", started({ runId: "other", depth: 1 })),
  "RunStarted too deep in a": child("a", started({ runId: "other", depth: 2 })),
  "RunStarted again in a": child("a", started({ runId: "inner", depth: 1 })),
  "ToolStarted c in a": child("a", toolStarted("c")),
  "ToolStarted nobody in a": child("a", toolStarted("nobody")),
  "AnswerDiscarded in a": child("a", { _tag: "AnswerDiscarded", at, usage }),
  RunInterrupted: interrupted("stop"),
  RunResumed: resumed({ context: { tenant: "t" } }),
  "RunResumed with steps": resumed({ maxSteps: 9 }),
  "RunFinished Completed": ends({ _tag: "Completed" }),
  "RunFinished MaxSteps": ends({ _tag: "MaxSteps" }),
  "RunFinished Interrupted": ends({ _tag: "Interrupted" })
}

// ids of messages are counted over all tests
const short = (value: unknown): string => (JSON.stringify(value) ?? "none").replaceAll(/"m\d+"/g, "m")

/** A state in short texts; of runs inside it the calls and what comes next. */
const fieldsOf = (state: Run.State): Readonly<Record<string, unknown>> => {
  const { conversation: _, definition: _definition, updatedAt: _updatedAt, revision: _revision, ...rest } = state
  const calls = state.calls.map(({ part, status: { _tag, ...more } }) => {
    if (!("child" in more) || more.child === undefined) return `${part.id} ${_tag} ${short(more)}`
    const { calls, runId, usage } = fieldsOf(more.child)
    return `${part.id} ${_tag} ${short({ runId, usage, calls, next: write.next(more.child) })}`
  })
  return { ...rest, calls, conversation: write.roles(state) }
}

/** The change that an event makes to a state, and what comes next. */
const effectOf = (before: Run.State, event: Run.Event): string => {
  const result = Run.apply(before, event)
  if (Result.isFailure(result)) {
    const { path, reason } = result.failure
    return short([reason._tag, ...path, `expected ${reason.expected}, found ${reason.found}`])
  }
  const [old, now] = [fieldsOf(before), fieldsOf(result.success)]
  assert.strictEqual(result.success.revision, before.revision + 1)
  const changed = Object.keys({ ...old, ...now }).filter((key) => short(old[key]) !== short(now[key]))
  return [...changed.sort().map((key) => `${key}=${short(now[key])}`), `then ${write.next(result.success)}`].join(" ")
}

describe("AGENT-3 the table of states and events", () => {
  it("AGENT-3 each state of the table refuses an event, or changes as the table states", async () => {
    const table = Object.entries(states).map(([name, state]) => {
      const effects = new Map<string, ReadonlyArray<string>>()
      for (const [name, event] of Object.entries(events)) {
        const effect = effectOf(state, event)
        effects.set(effect, [...(effects.get(effect) ?? []), name])
      }
      const lines = Array.from(effects, ([effect, of]) => `${of.join(" | ")}\n  ${effect}`)
      return [`# ${name}: ${write.next(state)}`, ...lines, ""].join("\n")
    })
    await expect(table.join("\n")).toMatchFileSnapshot("golden/run-transitions.txt")
  })
})
