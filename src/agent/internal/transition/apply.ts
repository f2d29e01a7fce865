/** Which events may follow a state, and the state after them: the second table of `RunTransition`. */
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Budget from "../../../conversation/Budget.ts"
import * as Conversation from "../../../conversation/Conversation.ts"
import type * as Message from "../../../conversation/Message.ts"
import * as TokenUsage from "../../../conversation/TokenUsage.ts"
import * as ValidationIssue from "../../../payload/ValidationIssue.ts"
import * as ToolResult from "../../../tool/ToolResult.ts"
import { stopReason } from "../../Outcome.ts"
import * as RunEvent from "../../RunEvent.ts"
import { type Reason, RunEventError } from "../../RunEventError.ts"
import type { CallStatus, OpenCall, Progress, RunState } from "../../RunState.ts"
import { next, withinBudget } from "./next.ts"
import * as progress from "./progress.ts"
import * as states from "./state.ts"

type Applied = Result.Result<RunState, RunEventError>

const fail = (event: RunEvent.RunEvent, reason: Reason): Result.Result<never, RunEventError> =>
  Result.fail(new RunEventError({ event: event._tag, path: [], reason }))

const unexpected = (event: RunEvent.RunEvent, expected: string, found: string) =>
  fail(event, { _tag: "Unexpected", expected, found })

export const start = (event: RunEvent.RunStarted): RunState => {
  const finishReason = Option.getOrUndefined(Conversation.lastAssistantMessage(event.conversation))?.finishReason
  return states.make({
    runId: event.runId,
    agent: event.agent,
    definition: event.definition,
    depth: event.depth,
    context: event.context,
    conversation: event.conversation,
    view: undefined,
    maxSteps: event.maxSteps,
    structured: event.structured,
    steps: answersSinceUser(event.conversation),
    totalSteps: 0,
    usage: TokenUsage.empty,
    calls: register(event.conversation, finishReason),
    pending: [],
    answer: undefined,
    limited: false,
    step: undefined,
    mistakes: [],
    progress: undefined,
    fresh: true,
    interrupted: undefined,
    outcome: undefined,
    startedAt: event.at,
    updatedAt: event.at,
    revision: 1
  })
}

const answersSinceUser = (conversation: Conversation.Conversation): number => {
  const messages = Conversation.messages(conversation)
  let steps = 0
  for (let i = messages.length - 1; i >= 0 && messages[i]?.role !== "user"; i--) {
    if (messages[i]?.role === "assistant") steps += 1
  }
  return steps
}

/** The open calls of the newest answer. None of an answer that was cut off is ever run. */
const register = (
  conversation: Conversation.Conversation,
  finishReason: string | undefined
): HashMap.HashMap<string, OpenCall> => {
  const stop = stopReason(finishReason)
  const status: CallStatus =
    stop === undefined
      ? { _tag: "Requested" }
      : {
          _tag: "Settled",
          result: ToolResult.failure("interrupted", `The call was not run, because its answer was cut off (${stop}).`)
        }
  return HashMap.fromIterable(
    states.openParts(conversation).map(({ order, part }): [string, OpenCall] => [part.id, { part, order, status }])
  )
}

export const apply = (self: RunState, event: RunEvent.RunEvent): Applied => {
  if (self.outcome !== undefined && !fitsEnded(event)) {
    return unexpected(event, "a run that goes on (RunResumed first)", `one that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !fitsInterrupted(event)) {
    return unexpected(event, "a run that goes on", "one that was interrupted and has to settle what started")
  }
  switch (event._tag) {
    case "RunStarted":
      return unexpected(event, "no RunStarted after the first event", "a run that has started")
    case "InputAdded":
      return inputAdded(self, event)
    case "ConversationFitted":
      return conversationFitted(self, event)
    case "StepStarted":
      return stepStarted(self, event)
    case "ModelAnswered":
      return modelAnswered(self, event)
    case "ModelMistaken":
      return modelMistaken(self, event)
    case "ProgressSaved":
      return progressSaved(self, event)
    case "ApprovalRequested":
      return self.limited
        ? outOfSteps(event)
        : changeCall(self, event, event.callId, ["Requested"], () => ({ _tag: "AwaitingApproval" }))
    case "ApprovalDecided":
      if (self.progress !== undefined) return progressDecided(self, self.progress, event)
      return changeCall(self, event, event.callId, ["AwaitingApproval"], () =>
        event.approved
          ? { _tag: "Approved" }
          : { _tag: "Settled", result: ToolResult.failure("denied", event.reason ?? "The call was denied.") }
      )
    case "ToolStarted":
      return self.limited
        ? outOfSteps(event)
        : changeCall(self, event, event.callId, ["Requested", "Approved"], () => ({ _tag: "Started" }))
    case "ToolFinished":
      return toolFinished(self, event)
    case "ChildEvent":
      return self.progress !== undefined ? progressDecided(self, self.progress, event) : childEvent(self, event)
    case "RunInterrupted":
      return update(self, event, {
        interrupted: event.reason === undefined ? {} : { reason: event.reason },
        step: undefined
      })
    case "RunFinished":
      return runFinished(self, event)
    case "RunResumed":
      return update(self, event, {
        outcome: undefined,
        interrupted: undefined,
        // A limit that was never told, because the process died first, still holds
        limited: self.limited && self.outcome === undefined && event.maxSteps === undefined,
        step: undefined,
        mistakes: [],
        fresh: true,
        ...(event.maxSteps === undefined ? undefined : { maxSteps: event.maxSteps }),
        ...(event.context === undefined ? undefined : { context: event.context })
      })
  }
}

/** A decision is a fact from outside; it may come while nothing runs. */
const fitsEnded = (event: RunEvent.RunEvent): boolean =>
  event._tag === "RunResumed" || event._tag === "ApprovalDecided" || (event._tag === "ChildEvent" && isDecision(event))

export const isDecision = (event: RunEvent.RunEvent): boolean =>
  event._tag === "ChildEvent" ? isDecision(event.event) : event._tag === "ApprovalDecided"

const fitsInterrupted = (event: RunEvent.RunEvent): boolean => {
  switch (event._tag) {
    case "ToolFinished":
    case "ChildEvent":
    case "ApprovalDecided":
    case "RunFinished":
    case "RunResumed":
      return true
    default:
      return false
  }
}

const update = (self: RunState, event: RunEvent.RunEvent, fields: Partial<states.Fields>): Applied =>
  Result.succeed(states.make({ ...self, ...fields, updatedAt: event.at, revision: self.revision + 1 }))

const outOfSteps = (event: RunEvent.RunEvent) =>
  unexpected(event, "steps left for the calls of the newest answer", "an answer that used up the budget")

/** All that was said, and what models are sent of it. */
type Histories = Pick<RunState, "conversation" | "view">

const append = (
  self: Histories,
  event: RunEvent.RunEvent,
  message: Message.Message
): Result.Result<Histories, RunEventError> =>
  Result.flatMap(
    appendTo(self.conversation, event, said(self, message)),
    (conversation): Result.Result<Histories, RunEventError> =>
      self.view === undefined
        ? Result.succeed({ conversation, view: undefined })
        : Result.map(appendTo(self.view, event, message), (view) => ({ conversation, view }))
  )

/** What an answer reports is the size of what it was an answer to. */
const said = (self: Histories, message: Message.Message): Message.Message =>
  self.view !== undefined && message.role === "assistant" ? Budget.fromView(message) : message

const appendTo = (
  self: Conversation.Conversation,
  event: RunEvent.RunEvent,
  message: Message.Message
): Result.Result<Conversation.Conversation, RunEventError> =>
  Result.mapError(
    Conversation.append(self, message),
    (error) =>
      new RunEventError({ event: event._tag, path: [], reason: { _tag: "Conversation", problem: error.message } })
  )

const inputAdded = (self: RunState, event: RunEvent.InputAdded): Applied => {
  if (self.step !== undefined) {
    return unexpected(event, "no model call under way", `step ${self.step.step} without its answer`)
  }
  const input = { message: event.message, maxSteps: event.maxSteps }
  if (HashMap.isEmpty(self.calls) && self.progress === undefined) {
    return Result.flatMap(take(self, event, [input]), (fields) => update(self, event, fields))
  }
  // It waits, but is refused now if it could never be taken
  return Result.flatMap(appendTo(Conversation.empty, event, event.message), () =>
    update(self, event, { pending: [...self.pending, input], limited: false })
  )
}

/** Puts the waiting user messages into the conversation: a fresh budget. */
const take = (
  self: Histories,
  event: RunEvent.RunEvent,
  inputs: RunState["pending"]
): Result.Result<Partial<states.Fields>, RunEventError> => {
  let current = self
  for (const { message } of inputs) {
    const appended = append(current, event, message)
    if (Result.isFailure(appended)) return Result.fail(appended.failure)
    current = appended.success
  }
  const maxSteps = inputs.at(-1)?.maxSteps
  return Result.succeed({
    ...current,
    pending: [],
    steps: 0,
    answer: undefined,
    limited: false,
    mistakes: [],
    ...(maxSteps === undefined ? undefined : { maxSteps })
  })
}

const conversationFitted = (self: RunState, event: RunEvent.ConversationFitted): Applied => {
  const action = next(self)
  if (action._tag !== "CallModel")
    return unexpected(event, `what comes next: ${action._tag}`, "a view for a model call")
  const [last, seen] = [self.conversation, event.view].map((one) =>
    Option.getOrUndefined(Conversation.lastMessage(one))
  )
  return seen?.id === last?.id && Conversation.openCalls(event.view).length === 0
    ? update(self, event, { view: event.view })
    : unexpected(event, "a view that ends as the conversation does", "one with another end")
}

const stepStarted = (self: RunState, event: RunEvent.StepStarted): Applied => {
  const action = next(self)
  return action._tag === "CallModel" && action.step === event.step && action.purpose === event.purpose
    ? update(self, event, { step: { step: event.step, purpose: event.purpose } })
    : unexpected(
        event,
        action._tag === "CallModel" ? `step ${action.step} (${action.purpose})` : `what comes next: ${action._tag}`,
        `step ${event.step} (${event.purpose})`
      )
}

const noStep = (event: RunEvent.RunEvent) => unexpected(event, "a StepStarted before it", "no model call under way")

const modelAnswered = (self: RunState, event: RunEvent.ModelAnswered): Applied => {
  if (self.step === undefined) return noStep(event)
  const { message } = event
  for (const part of message.content) {
    if (part.type === "tool-call" && Conversation.hasCall(self.conversation, part.id)) {
      const problem = `the call id ${JSON.stringify(part.id)} is already in the conversation; relabel it with Conversation.relabelCalls`
      return fail(event, { _tag: "Conversation", problem })
    }
  }
  return Result.flatMap(append(self, event, message), ({ conversation, view }) => {
    const requested = register(conversation, message.finishReason)
    const outputCall = settleOutput(event, requested)
    if (Result.isFailure(outputCall)) return Result.fail(outputCall.failure)
    const calls = outputCall.success
    const tools = HashMap.size(calls) - (event.outputCall === undefined ? 0 : 1)
    const paused = message.finishReason === "pause"
    const steps = self.steps + 1
    const asksForMore = tools > 0 ? event.output?._tag !== "Valid" : paused && event.outputCall === undefined
    const taken = takeAfterProgress({ conversation, view }, self, event)
    if (Result.isFailure(taken)) return Result.fail(taken.failure)
    return update(self, event, {
      conversation,
      view,
      calls,
      steps,
      totalSteps: self.totalSteps + 1,
      usage: addUsage(self.usage, message.usage),
      answer: {
        purpose: self.step?.purpose ?? "answer",
        calls: tools,
        outputCall: event.outputCall !== undefined,
        ...(message.finishReason === undefined ? undefined : { finishReason: message.finishReason }),
        // What is said before a pause is not the answer yet
        ...(event.output === undefined || (paused && event.outputCall === undefined)
          ? undefined
          : { output: event.output })
      },
      limited: asksForMore && !withinBudget({ steps, maxSteps: self.maxSteps }),
      step: undefined,
      mistakes: [],
      progress: undefined,
      fresh: false,
      ...taken.success
    })
  })
}

/** What the user said while the answer was under way. */
const takeAfterProgress = (
  histories: Histories,
  { pending, progress }: RunState,
  event: RunEvent.RunEvent
): Result.Result<Partial<states.Fields>, RunEventError> =>
  progress === undefined || pending.length === 0 ? Result.succeed({}) : take(histories, event, pending)

/** The synthetic output tool is never run: its result is what the check said. */
const settleOutput = (
  event: RunEvent.ModelAnswered,
  calls: HashMap.HashMap<string, OpenCall>
): Result.Result<HashMap.HashMap<string, OpenCall>, RunEventError> => {
  if (event.outputCall === undefined) return Result.succeed(calls)
  const call = HashMap.get(calls, event.outputCall)
  if (Option.isNone(call)) return unknownCall(event, event.outputCall, calls)
  if (event.output === undefined) return unexpected(event, "an output together with the outputCall", "no output")
  if (call.value.status._tag === "Settled") return Result.succeed(calls)
  const result =
    event.output._tag === "Valid"
      ? ToolResult.success("The output was accepted.")
      : ToolResult.failure("validation_error", ValidationIssue.render(event.output.issues))
  return Result.succeed(HashMap.set(calls, event.outputCall, { ...call.value, status: { _tag: "Settled", result } }))
}

const modelMistaken = (self: RunState, event: RunEvent.ModelMistaken): Applied =>
  self.step === undefined
    ? noStep(event)
    : update(self, event, {
        mistakes: [...self.mistakes, event.problem],
        usage: addUsage(self.usage, event.usage)
      })

const progressSaved = (self: RunState, event: RunEvent.ProgressSaved): Applied =>
  self.step === undefined
    ? noStep(event)
    : update(self, event, {
        progress: progress.save(self.progress, event),
        limited: event.limited,
        usage: addUsage(self.usage, event.usage)
      })

const progressDecided = (
  self: RunState,
  before: Progress,
  event: RunEvent.ApprovalDecided | RunEvent.ChildEvent
): Applied =>
  Result.match(progress.decide(before, event), {
    onFailure: (reason) => fail(event, reason),
    onSuccess: (after) => update(self, event, { progress: after })
  })

const addUsage = (total: TokenUsage.TokenUsage, usage: TokenUsage.TokenUsage | undefined): TokenUsage.TokenUsage =>
  usage === undefined ? total : TokenUsage.sum([total, usage])

const unknownCall = (event: RunEvent.RunEvent, callId: string, calls: HashMap.HashMap<string, OpenCall>) =>
  fail(event, { _tag: "UnknownCall", callId, open: states.inOrder(calls).map(({ part }) => part.id) })

const withCall = (
  self: RunState,
  event: RunEvent.RunEvent,
  callId: string,
  expected: ReadonlyArray<CallStatus["_tag"]>,
  f: (call: OpenCall) => Applied
): Applied => {
  const call = HashMap.get(self.calls, callId)
  if (Option.isNone(call)) return unknownCall(event, callId, self.calls)
  const found = call.value.status._tag
  return expected.includes(found)
    ? f(call.value)
    : fail(event, { _tag: "CallStatus", callId, expected: expected.join(" or "), found })
}

const changeCall = (
  self: RunState,
  event: RunEvent.RunEvent,
  callId: string,
  expected: ReadonlyArray<CallStatus["_tag"]>,
  f: (call: OpenCall) => CallStatus
): Applied =>
  withCall(self, event, callId, expected, (call) =>
    update(self, event, { calls: HashMap.set(self.calls, callId, { ...call, status: f(call) }) })
  )

const toolFinished = (self: RunState, event: RunEvent.ToolFinished): Applied => {
  const { callId, result } = event.message
  // What never started can fail (unknown tool, bad arguments), but it cannot give a value
  const expected: ReadonlyArray<CallStatus["_tag"]> = ToolResult.isFailure(result)
    ? ["Started", "Requested", "Approved", "Settled"]
    : ["Started", "Settled"]
  return withCall(self, event, callId, expected, ({ status }) => {
    if (status._tag === "Settled" && typeOf(status.result) !== typeOf(result)) {
      return fail(event, {
        _tag: "CallStatus",
        callId,
        expected: `the result it was settled with (${typeOf(status.result)})`,
        found: typeOf(result)
      })
    }
    if (status._tag !== "Started" && status._tag !== "Settled" && self.limited) return outOfSteps(event)
    return Result.flatMap(append(self, event, event.message), (histories) => {
      const calls = HashMap.remove(self.calls, callId)
      if (!HashMap.isEmpty(calls) || self.pending.length === 0) return update(self, event, { ...histories, calls })
      return Result.flatMap(take(histories, event, self.pending), (fields) => update(self, event, { ...fields, calls }))
    })
  })
}

const typeOf = (result: ToolResult.ToolResult): string => (ToolResult.isFailure(result) ? result.type : "success")

const childEvent = (self: RunState, event: RunEvent.ChildEvent): Applied =>
  withCall(self, event, event.callId, ["Started"], (call) => {
    const before = call.status._tag === "Started" ? call.status.child : undefined
    const after = before === undefined ? startChild(self, event) : apply(before, event.event)
    if (Result.isFailure(after)) {
      const { event: tag, path, reason } = after.failure
      return Result.fail(new RunEventError({ event: tag, path: [event.callId, ...path], reason }))
    }
    const status: CallStatus = { _tag: "Started", child: after.success }
    return update(self, event, {
      calls: HashMap.set(self.calls, event.callId, { ...call, status }),
      usage: addUsage(self.usage, RunEvent.usageOf(event.event))
    })
  })

const startChild = (self: RunState, { event }: RunEvent.ChildEvent): Applied => {
  if (event._tag !== "RunStarted") return unexpected(event, "RunStarted first", event._tag)
  return event.depth === self.depth + 1
    ? Result.succeed(start(event))
    : unexpected(event, `depth ${self.depth + 1}`, `depth ${event.depth}`)
}

const runFinished = (self: RunState, event: RunEvent.RunFinished): Applied => {
  const action = next(self)
  const expected =
    action._tag === "Finished" ? action.outcome._tag : action._tag === "AwaitApproval" ? "AwaitingApproval" : undefined
  return expected === event.outcome._tag
    ? update(self, event, { outcome: event.outcome, step: undefined })
    : unexpected(event, expected ?? `what comes next: ${action._tag}`, event.outcome._tag)
}
