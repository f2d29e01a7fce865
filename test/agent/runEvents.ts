/** Short names for events, for tests that write runs down by hand. */
import { assert } from "@effect/vitest"
import { Result } from "effect"
import {
  Conversation,
  type Message,
  type Part,
  type RunEvent,
  type RunEventError,
  type RunState,
  RunTransition,
  ToolResult
} from "effect-emissary"
import { time } from "./runDriver.ts"

export const at = time(0)
let ids = 0
const base = () => ({ id: `m${++ids}`, createdAt: at })

export const userMessage = (text: string): Message.UserMessage => ({
  role: "user",
  ...base(),
  content: [{ type: "text", text }]
})

export const call = (id: string, name = "tool"): Part.ToolCallPart => ({ type: "tool-call", id, name, arguments: {} })

export const assistantMessage = (
  content: string | ReadonlyArray<Part.AssistantPart>,
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

export const started = (fields: Partial<RunEvent.RunStarted> = {}): RunEvent.RunStarted => ({
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

export const input = (text = "hello", maxSteps: RunEvent.MaxSteps = 16): RunEvent.InputAdded => ({
  _tag: "InputAdded",
  at,
  message: userMessage(text),
  maxSteps
})

export const step = (step: number, purpose: RunEvent.Purpose = "answer"): RunEvent.StepStarted => ({
  _tag: "StepStarted",
  at,
  step,
  purpose
})

export const answered = (
  content: string | ReadonlyArray<Part.AssistantPart>,
  finishReason?: string,
  rest: Pick<RunEvent.ModelAnswered, "output" | "outputCall"> = {}
): RunEvent.ModelAnswered => ({ _tag: "ModelAnswered", at, message: assistantMessage(content, finishReason), ...rest })

export const mistaken: RunEvent.ModelMistaken = { _tag: "ModelMistaken", at, problem: "no tool x" }
export const saved = (
  facts: RunEvent.ProgressSaved["facts"],
  rest: Partial<RunEvent.ProgressSaved> = {}
): RunEvent.ProgressSaved => ({ _tag: "ProgressSaved", at, facts, requests: [], limited: false, ...rest })
export const toolStarted = (callId: string): RunEvent.ToolStarted => ({ _tag: "ToolStarted", at, callId })
export const finished = (callId: string, result?: ToolResult.ToolResult, name?: string): RunEvent.ToolFinished => ({
  _tag: "ToolFinished",
  at,
  message: toolMessage(callId, result, name)
})
export const ran = (callId: string): ReadonlyArray<RunEvent.RunEvent> => [toolStarted(callId), finished(callId)]
export const asked = (callId: string): RunEvent.ApprovalRequested => ({ _tag: "ApprovalRequested", at, callId })
export const decided = (callId: string, approved: boolean, reason?: string): RunEvent.ApprovalDecided => ({
  _tag: "ApprovalDecided",
  at,
  callId,
  approved,
  ...(reason === undefined ? {} : { reason })
})
export const child = (callId: string, event: RunEvent.RunEvent): RunEvent.ChildEvent => ({
  _tag: "ChildEvent",
  at,
  callId,
  event
})
export const interrupted = (reason?: string): RunEvent.RunInterrupted => ({
  _tag: "RunInterrupted",
  at,
  ...(reason === undefined ? {} : { reason })
})
export const resumed = (fields: Partial<RunEvent.RunResumed> = {}): RunEvent.RunResumed => ({
  _tag: "RunResumed",
  at,
  ...fields
})

/** Ends the run with whatever outcome is due. */
export const end = (state: RunState.RunState): RunState.RunState => {
  const action = RunTransition.next(state)
  assert(action._tag === "Finished" || action._tag === "AwaitApproval", `not over: ${action._tag}`)
  const outcome =
    action._tag === "Finished" ? action.outcome : ({ _tag: "AwaitingApproval", requests: action.requests } as const)
  return go(state, { _tag: "RunFinished", at, outcome })
}

export const go = (state: RunState.RunState, ...events: ReadonlyArray<RunEvent.RunEvent>): RunState.RunState =>
  Result.getOrThrow(RunTransition.applyAll(state, events))

export const run = (...events: ReadonlyArray<RunEvent.RunEvent>): RunState.RunState =>
  Result.getOrThrow(RunTransition.fold(events))

export const refused = (state: RunState.RunState, event: RunEvent.RunEvent): RunEventError.RunEventError => {
  const result = RunTransition.apply(state, event)
  assert(Result.isFailure(result), `expected ${event._tag} to be refused`)
  return result.failure
}

/** The next action in one line. */
export const next = (state: RunState.RunState): string => {
  const action = RunTransition.next(state)
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
    case "AwaitApproval":
      return ["AwaitApproval", ...action.requests.map(({ callId, path }) => [...(path ?? []), callId].join("/"))].join(
        " "
      )
    case "Finished":
      return action.outcome._tag === "Stopped" ? `Stopped ${action.outcome.finishReason}` : action.outcome._tag
  }
}

/** Roles, with the ids of results, in one line. */
export const roles = (state: RunState.RunState): string =>
  Conversation.messages(state.conversation)
    .map((message) => (message.role === "tool" ? `tool:${message.callId}` : message.role))
    .join(" ")
