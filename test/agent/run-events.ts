/** Short names for events, for tests that write runs down by hand. */
import { assert } from "@effect/vitest"
import { Result } from "effect"
import type * as runParts from "#src/agent/internal/runParts.ts"
import { Conversation, ToolResult, type Message, type Run } from "effect-emissary"
import { RunTransition } from "effect-emissary/agent"
import { time } from "./run-driver.ts"

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

export const started = (fields: Partial<Run.Started> = {}): Run.Started => ({
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

export const input = (text = "hello", maxSteps: runParts.MaxSteps = 16): Run.InputAdded => ({
  _tag: "InputAdded",
  at,
  message: userMessage(text),
  maxSteps
})

export const step = (step: number, purpose: runParts.Purpose = "answer"): Run.StepStarted => ({
  _tag: "StepStarted",
  at,
  step,
  purpose
})

export const answered = (
  content: string | ReadonlyArray<Message.AssistantPart>,
  finishReason?: string,
  rest: Pick<Run.ModelAnswered, "output" | "outputCall"> = {}
): Run.ModelAnswered => ({ _tag: "ModelAnswered", at, message: assistantMessage(content, finishReason), ...rest })

export const mistaken: Run.ModelMistaken = { _tag: "ModelMistaken", at, problem: "no tool x" }
export const saved = (facts: Run.ProgressSaved["facts"], rest: Partial<Run.ProgressSaved> = {}): Run.ProgressSaved => ({
  _tag: "ProgressSaved",
  at,
  facts,
  requests: [],
  limited: false,
  ...rest
})
export const toolStarted = (callId: string): Run.ToolStarted => ({ _tag: "ToolStarted", at, callId })
export const finished = (callId: string, result?: ToolResult.ToolResult, name?: string): Run.ToolFinished => ({
  _tag: "ToolFinished",
  at,
  message: toolMessage(callId, result, name)
})
export const ran = (callId: string): ReadonlyArray<Run.Event> => [toolStarted(callId), finished(callId)]
export const asked = (callId: string): Run.ApprovalRequested => ({ _tag: "ApprovalRequested", at, callId })
export const decided = (callId: string, approved: boolean, reason?: string): Run.ApprovalDecided => ({
  _tag: "ApprovalDecided",
  at,
  callId,
  approved,
  ...(reason === undefined ? {} : { reason })
})
export const child = (callId: string, event: Run.Event): Run.ChildEvent => ({
  _tag: "ChildEvent",
  at,
  callId,
  event
})
export const interrupted = (reason?: string): Run.Interrupted => ({
  _tag: "RunInterrupted",
  at,
  ...(reason === undefined ? {} : { reason })
})
export const resumed = (fields: Partial<Run.Resumed> = {}): Run.Resumed => ({
  _tag: "RunResumed",
  at,
  ...fields
})

/** Ends the run with whatever outcome is due. */
export const end = (state: Run.State): Run.State => {
  const action = RunTransition.next(state)
  assert(action._tag === "Finished" || action._tag === "AwaitApproval", `not over: ${action._tag}`)
  const outcome =
    action._tag === "Finished" ? action.outcome : ({ _tag: "AwaitingApproval", requests: action.requests } as const)
  return go(state, { _tag: "RunFinished", at, outcome })
}

export const go = (state: Run.State, ...events: ReadonlyArray<Run.Event>): Run.State =>
  Result.getOrThrow(RunTransition.applyAll(state, events))

export const run = (...events: ReadonlyArray<Run.Event>): Run.State => Result.getOrThrow(RunTransition.fold(events))

export const refused = (state: Run.State, event: Run.Event): RunTransition.EventError => {
  const result = RunTransition.apply(state, event)
  assert(Result.isFailure(result), `expected ${event._tag} to be refused`)
  return result.failure
}

/** The next action in one line. */
export const next = (state: Run.State): string => {
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
export const roles = (state: Run.State): string =>
  Conversation.messages(state.conversation)
    .map((message) => (message.role === "tool" ? `tool:${message.callId}` : message.role))
    .join(" ")
