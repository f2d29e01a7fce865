/**
 * A driver without fibers, for tests of the pure core: model answers, tool results,
 * interruptions and crashes come from a plan made of plain data.
 */
import { DateTime, Effect, Result, Schema } from "effect"
import type * as runParts from "#src/run/internal/runParts.ts"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { Conversation, ToolResult, type Message, Run } from "effect-emissary"
import * as childDriver from "./child-driver.ts"
import { digestOf } from "../decisions.ts"

export const CallKind = Schema.Literals([
  "ok",
  "twice",
  "fails",
  "unknown",
  "approved",
  "denied",
  "undecided",
  "agent",
  "asking agent",
  "provider"
])

export const Turn = Schema.Struct({
  calls: Schema.Array(CallKind).check(Schema.isMaxLength(4)),
  finishReason: Schema.Literals(["stop", "tool-calls", "none", "pause", "length", "content-filter", "unknown"]),
  output: Schema.Literals(["valid", "invalid", "by call"]),
  mistakes: Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 2 })),
  reversed: Schema.Boolean
})
export type Turn = typeof Turn.Type

export const Phase = Schema.Struct({
  input: Schema.Boolean,
  /** Stops after so many events: politely, or as a power cut does. */
  stop: Schema.Literals(["never", "interrupt", "crash"]),
  after: Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 12 })),
  decides: Schema.Boolean
})
export type Phase = typeof Phase.Type

export const Plan = Schema.Struct({
  maxSteps: Schema.Literals([1, 2, 3, "unlimited"]),
  structured: Schema.Literals(["never", "fallback", "always"]),
  turns: Schema.Array(Turn).check(Schema.isMaxLength(8)),
  phases: Schema.Array(Phase).check(Schema.isMinLength(1), Schema.isMaxLength(4))
})
export type Plan = typeof Plan.Type

export const time = (millis: number): DateTime.Utc => DateTime.makeUnsafe(Date.UTC(2026, 0, 1) + millis)

export interface Log {
  readonly events: Array<Run.Event>
  readonly states: Array<Run.State>
  readonly started: Array<string>
  /** The calls of tools that ran, as often as they did. */
  readonly ran: Array<string>
  readonly outcomes: Array<string>
  readonly final: Run.State
}

class Cut {
  readonly _tag = "Cut"
}

/** Runs a plan. `through` is called on the state between every two transitions. */
export const simulate = (plan: Plan, through: (state: Run.State) => Run.State = (s) => s): Log => {
  const events: Array<Run.Event> = []
  const states: Array<Run.State> = []
  const started: Array<string> = []
  const ran: Array<string> = []
  const outcomes: Array<string> = []
  let ids = 0
  let turn = 0
  let budget = Infinity
  let stopping: Phase["stop"] = "never"
  const at = () => time(events.length * 10)
  const base = () => ({ id: `m${++ids}`, createdAt: at() })

  let state: Run.State | undefined
  const emit = (event: Run.Event): Run.State => {
    if (stopping === "crash" && budget-- <= 0) throw new Cut()
    events.push(event)
    if (event._tag === "ToolStarted") started.push(event.callId)
    if (event._tag === "ChildEvent" && event.event._tag === "ToolStarted") {
      started.push(`${event.callId}/${event.event.callId}`)
    }
    state =
      state === undefined
        ? event._tag === "RunStarted"
          ? Run.start(event)
          : expectStarted()
        : Result.getOrThrow(Run.apply(state, event))
    states.push(state)
    state = through(state)
    if (
      stopping === "interrupt" &&
      budget-- <= 0 &&
      state.interrupted === undefined &&
      state.outcome === undefined &&
      event._tag !== "RunFinished"
    ) {
      emit({ _tag: "RunInterrupted", at: at(), reason: "stop" })
    }
    return state
  }
  const expectStarted = (): never => {
    throw new Error("RunStarted first")
  }
  const current = () => state ?? expectStarted()
  const stopped = () => current().interrupted !== undefined

  const finish = (callId: string, name: string, result: ToolResult.ToolResult) =>
    emit({ _tag: "ToolFinished", at: at(), message: { role: "tool", ...base(), callId, name, result } })

  const answer = (action: runTransition.ActionOf<"CallModel">) => {
    const script: Turn = plan.turns[turn] ?? {
      calls: [],
      finishReason: "stop",
      output: "valid",
      mistakes: 0,
      reversed: false
    }
    emit({ _tag: "StepStarted", at: at(), step: action.step, purpose: action.purpose })
    for (let i = action.mistakes.length; i < script.mistakes && !stopped(); i++) {
      emit({ _tag: "AnswerDiscarded", at: at(), usage: { inputTokens: 1 } })
      if (!stopped()) emit({ _tag: "ModelMistaken", at: at(), problem: "no such tool" })
    }
    if (stopped()) return
    turn += 1
    const asks = action.purpose === "answer" ? script.calls : []
    const byCall = script.output === "by call" && plan.structured !== "never" && action.purpose === "answer"
    const content: Array<Message.AssistantPart> = [{ type: "text", text: `turn ${turn}` }]
    for (const [i, kind] of asks.entries()) {
      const id = `t${turn}c${i}`
      content.push(
        kind === "provider"
          ? { type: "tool-call", id, name: "search", arguments: {}, providerExecuted: true }
          : { type: "tool-call", id, name: kind, arguments: { turn } }
      )
      if (kind === "provider") {
        content.push({ type: "tool-result", id, name: "search", result: ToolResult.success("found") })
      }
    }
    const outputCall = `t${turn}out`
    if (byCall) content.push({ type: "tool-call", id: outputCall, name: "final_answer", arguments: {} })
    const message: Message.AssistantMessage = {
      role: "assistant",
      ...base(),
      content,
      usage: { inputTokens: 10, outputTokens: 1 },
      ...(script.finishReason === "none" ? {} : { finishReason: script.finishReason })
    }
    const checked = plan.structured !== "never" && (byCall || asks.every((kind) => kind === "provider"))
    const output: runParts.OutputCheck =
      script.output === "invalid" || (byCall && script.reversed)
        ? { _tag: "Invalid", issues: [{ path: "/a", keyword: "type", expected: "a required value", found: "nothing" }] }
        : { _tag: "Valid", value: { turn } }
    emit({
      _tag: "ModelAnswered",
      at: at(),
      message,
      ...(checked ? { output } : {}),
      ...(byCall ? { outputCall } : {})
    })
  }

  const batch = (action: runTransition.ActionOf<"RunTools">) => {
    for (const { callId, name, result } of action.settled) finish(callId, name, result)
    const running: Array<runTransition.RunnableCall> = []
    for (const call of action.calls) {
      if (stopped()) break
      const { id: callId, name } = call.part
      if (["approved", "denied", "undecided"].includes(name) && !call.approved) {
        emit({
          _tag: "ApprovalRequested",
          at: at(),
          callId,
          name,
          arguments: call.part.arguments,
          digest: digestOf(callId)
        })
      } else if (name === "unknown") {
        finish(callId, name, ToolResult.failure("unknown_tool", "no such tool"))
      } else {
        if (!call.started) {
          emit({ _tag: "ToolStarted", at: at(), callId, ...(name.startsWith("twice") && { idempotent: true }) })
        }
        running.push(call)
        if (!name.endsWith("agent")) ran.push(`${name} ${callId}`)
      }
    }
    const script = plan.turns[turn - 1]
    for (const call of script?.reversed === true ? running.toReversed() : running) {
      if (stopped()) break
      const { id: callId, name } = call.part
      if (name.endsWith("agent")) {
        if (runChild(call)) finish(callId, name, ToolResult.success("the agent is done"))
      } else {
        finish(callId, name, name === "fails" ? ToolResult.failure("not_found", "nothing") : ToolResult.success(callId))
      }
    }
  }

  /** An agent that calls one tool; returns whether it is done. */
  const runChild = ({ part: { id: callId, name } }: runTransition.RunnableCall): boolean =>
    childDriver.drive({
      name: callId,
      state: () => {
        const status = RunStateOf(current(), callId)
        return status?._tag === "Started" ? status.child : undefined
      },
      put: (event) => emit({ _tag: "ChildEvent", at: at(), callId, event }),
      stopped,
      at,
      base,
      call: { id: "inner", name: "inner", approval: name === "asking agent" },
      resumes: ({ outcome }) => outcome?._tag === "AwaitingApproval"
    }) === "finished"

  const loop = () => {
    for (;;) {
      const action = Run.next(current())
      switch (action._tag) {
        case "CallModel":
          answer(action)
          break
        case "RunTools":
          batch(action)
          break
        case "Finished":
          if (current().outcome === undefined) emit({ _tag: "RunFinished", at: at(), outcome: action.outcome })
          outcomes.push(action.outcome._tag)
          return
      }
      if (current().outcome !== undefined) {
        outcomes.push(current().outcome?._tag ?? "")
        return
      }
    }
  }

  emit({
    _tag: "RunStarted",
    at: at(),
    runId: "run",
    agent: "tested",
    definition: "sha256:0",
    depth: 0,
    maxSteps: plan.maxSteps,
    structured: plan.structured,
    context: { tenant: "acme" },
    conversation: Conversation.empty
  })
  for (const [i, phase] of plan.phases.entries()) {
    budget = Infinity
    stopping = "never"
    const crashed = i > 0 && current().outcome === undefined
    if (i > 0 && !crashed) {
      if (phase.decides) {
        const decisions = RunTransitionDecisions(current())
        for (const event of Result.getOrThrow(Run.decide(current(), decisions, at()))) emit(event)
      }
      emit({ _tag: "RunResumed", at: at() })
    }
    if ((phase.input || i === 0) && !crashed) {
      emit({
        _tag: "InputAdded",
        at: at(),
        message: { role: "user", ...base(), content: [{ type: "text", text: `input ${i}` }] },
        maxSteps: plan.maxSteps
      })
    }
    budget = phase.after
    stopping = phase.stop
    try {
      loop()
    } catch (error) {
      if (!(error instanceof Cut)) throw error
      outcomes.push("crash")
    }
  }
  return { events, states, started, ran, outcomes, final: current() }
}

const RunStateOf = (state: Run.State, callId: string) => runTransition.openCall(state, callId)?.status

const RunTransitionDecisions = (state: Run.State): ReadonlyArray<Run.Decision> => {
  const action = state.outcome
  return action?._tag !== "AwaitingApproval"
    ? []
    : action.requests
        .filter(({ name }) => name !== "undecided")
        .map((request) => ({ ...request, approved: request.name !== "denied" }))
}

export const sync = <A, E>(effect: Effect.Effect<A, E>): A => Effect.runSync(effect)
