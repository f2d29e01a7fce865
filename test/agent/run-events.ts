/** Short names for events, for tests that write runs down by hand. */
import { assert } from "@effect/vitest"
import { Result } from "effect"
import type { EventOf, MaxSteps, PlanRunEvent, Purpose } from "#src/run/internal/runParts.ts"
import { Conversation, ToolResult, type Message, Run } from "effect-emissary"
import * as runTransition from "#src/run/internal/runTransition.ts"
import { time } from "./run-driver.ts"
import { digestOf } from "../decisions.ts"

export const at = time(0)
let ids = 0
const base = () => ({ id: `m${++ids}`, createdAt: at })

export const userMessage = (text: string): Message.UserMessage => ({
  role: "user",
  ...base(),
  content: [{ type: "text", text }]
})

export const call = (id: string, name = "tool"): Message.ToolCallPart => ({
  type: "tool-call",
  id,
  name,
  arguments: {}
})

export const assistantMessage = (
  content: string | ReadonlyArray<Message.AssistantPart>,
  finishReason?: string
): Message.AssistantMessage => ({
  role: "assistant",
  ...base(),
  content: typeof content === "string" ? [{ type: "text", text: content }] : content,
  ...(finishReason === undefined ? {} : { finishReason })
})

export const toolMessage = (
  callId: string,
  result: ToolResult.ToolResult = ToolResult.success(`${callId} done`),
  name = "tool"
): Message.ToolMessage => ({ role: "tool", ...base(), callId, name, result })

export const conversation = (...messages: ReadonlyArray<Message.Message>): Conversation.Conversation =>
  Result.getOrThrow(Conversation.fromMessages(messages))

export const started = (fields: Partial<EventOf<"RunStarted">> = {}): EventOf<"RunStarted"> => ({
  _tag: "RunStarted",
  at,
  runId: "run",
  agent: "support",
  definition: "sha256:1",
  depth: 0,
  maxSteps: 16,
  structured: "never",
  context: {},
  conversation: Conversation.empty,
  ...fields
})

export const input = (text = "hello", maxSteps: MaxSteps = 16): EventOf<"InputAdded"> => ({
  _tag: "InputAdded",
  at,
  message: userMessage(text),
  maxSteps
})

export const steering = (text = "hello"): EventOf<"InputAdded"> => ({
  _tag: "InputAdded",
  at,
  message: userMessage(text)
})

export const step = (step: number, purpose: Purpose = "answer"): EventOf<"StepStarted"> => ({
  _tag: "StepStarted",
  at,
  step,
  purpose
})

export const answered = (
  content: string | ReadonlyArray<Message.AssistantPart>,
  finishReason?: string,
  rest: Pick<EventOf<"ModelAnswered">, "output" | "outputCall"> = {}
): EventOf<"ModelAnswered"> => ({
  _tag: "ModelAnswered",
  at,
  message: assistantMessage(content, finishReason),
  ...rest
})

export const mistaken: EventOf<"ModelMistaken"> = { _tag: "ModelMistaken", at, problem: "no tool x" }
/** Events of a plan that answers. */
const ofPlan = (event: PlanRunEvent): EventOf<"PlanEvent"> => ({ _tag: "PlanEvent", event })
/** The first event of a plan: these steps, which run one after the other, or together. */
export const planBegins = (steps: ReadonlyArray<string>, parallel = false, maxIterations = 9) =>
  ofPlan({
    _tag: "PlanStarted",
    at,
    runId: "plan",
    plan: "p",
    digest: "d",
    depth: 0,
    maxIterations,
    input: { task: "q", payload: "q" },
    context: {},
    basis: {
      digest: "d",
      parts: {},
      steps: steps.map((name) => ({ name, parallel, target: `function ${name}`, digest: "d" }))
    }
  })
export const planStep = (step: string) => ofPlan({ _tag: "StepStarted", at, step })
export const planDone = (step: string) =>
  ofPlan({
    _tag: "StepFinished",
    at,
    record: { step, task: "q", output: step, usage: {}, attempts: 1, startedAt: at, finishedAt: at }
  })
export const inStep = (step: string, event: Run.Event) => ofPlan({ _tag: "AgentChanged", at, step, event })
/** The step waits for something inside it, or for a call of its own, whose id is the step with its first turn. */
export const planPaused = (step: string, asks = true) => {
  const question = { digest: digestOf(`${step}:1`), request: { name: "pay", arguments: { amount: 5 } } }
  return ofPlan({ _tag: "StepPaused", at, step, ...(asks ? { question, asked: 1 } : undefined) })
}
export const planLimited = (limit: number, next: string) =>
  ofPlan({ _tag: "PlanFinished", at, outcome: { _tag: "LimitReached", limit, next } })
export const planDecided = (step: string) =>
  ofPlan({ _tag: "StepDecided", at, step, callId: `${step}:1`, digest: digestOf(`${step}:1`), approved: true })
export const planResumed = ofPlan({ _tag: "PlanResumed", at })
/** Ends the plan of a run as it comes next. */
export const planEnds = (state: Run.State): Run.State => {
  assert(state.plan !== undefined)
  const action = runTransition.plans.next(state.plan)
  assert(action._tag === "Finish")
  return go(state, ofPlan({ _tag: "PlanFinished", at, outcome: action.outcome }))
}
export const toolStarted = (callId: string, rest?: { readonly idempotent: true }): EventOf<"ToolStarted"> => ({
  _tag: "ToolStarted",
  at,
  callId,
  ...rest
})
export const finished = (callId: string, result?: ToolResult.ToolResult, name?: string): EventOf<"ToolFinished"> => ({
  _tag: "ToolFinished",
  at,
  message: toolMessage(callId, result, name)
})
export const ran = (callId: string): ReadonlyArray<Run.Event> => [toolStarted(callId), finished(callId)]
export const asked = (callId: string): EventOf<"ApprovalRequested"> => ({
  _tag: "ApprovalRequested",
  at,
  callId,
  name: "tool",
  arguments: {},
  digest: digestOf(callId)
})
export const decided = (callId: string, approved: boolean, reason?: string): EventOf<"ApprovalDecided"> => ({
  _tag: "ApprovalDecided",
  at,
  callId,
  digest: digestOf(callId),
  approved,
  ...(reason && { reason })
})
export const child = (callId: string, event: Run.Event): EventOf<"ChildEvent"> => ({
  _tag: "ChildEvent",
  at,
  callId,
  event
})
export const interrupted = (reason?: string): EventOf<"RunInterrupted"> => ({
  _tag: "RunInterrupted",
  at,
  ...(reason && { reason })
})
export const resumed = (fields: Partial<EventOf<"RunResumed">> = {}): EventOf<"RunResumed"> => ({
  _tag: "RunResumed",
  at,
  ...fields
})

/** Ends the run with whatever outcome is due. */
export const end = (state: Run.State): Run.State => {
  const action = Run.next(state)
  assert(action._tag === "Finished", `not over: ${action._tag}`)
  return go(state, { _tag: "RunFinished", at, outcome: action.outcome })
}

export const go = (state: Run.State, ...events: ReadonlyArray<Run.Event>): Run.State =>
  Result.getOrThrow(Run.applyAll(state, events))

export const run = (...events: ReadonlyArray<Run.Event>): Run.State => Result.getOrThrow(Run.fold(events))

export const refused = (state: Run.State, event: Run.Event): Run.EventError => {
  const result = Run.apply(state, event)
  assert(Result.isFailure(result), `expected ${event._tag} to be refused`)
  return result.failure
}

const ending = (outcome: Run.Outcome): string => {
  if (outcome._tag === "Stopped") return `Stopped ${outcome.finishReason}`
  if (outcome._tag !== "AwaitingApproval") return outcome._tag
  return ["AwaitingApproval", ...outcome.requests.map(({ callId, path = [] }) => [...path, callId].join("/"))].join(" ")
}

/** The next action in one line. */
export const next = (state: Run.State): string => {
  const action = Run.next(state)
  switch (action._tag) {
    case "CallModel":
      return `CallModel ${action.step} ${action.purpose}`
    case "RunTools":
      return [
        "RunTools",
        ...action.calls.map(({ approved, part, started }) => `${part.id}${approved ? "+" : ""}${started ? "..." : ""}`),
        ...action.settled.map(
          ({ callId, result }) => `${callId}=${result._tag === "Failure" ? result.type : "success"}`
        )
      ].join(" ")
    case "HandOff":
      return `HandOff ${action.agent}`
    case "Finished":
      return ending(action.outcome)
  }
}

/** Roles, with the ids of results, in one line. */
export const roles = (state: Run.State): string =>
  Conversation.messages(state.conversation)
    .map((message) => (message.role === "tool" ? `tool:${message.callId}` : message.role))
    .join(" ")
