/**
 * The events that a turn records around the events of its run, as functions of the state of the session: the end of a
 * run that was stopped, the denial of calls that wait, and the failure of a turn. Also the classes of the events of a
 * run, which decide when each is written:
 *
 * | event                                        | is stored                                                            |
 * | -------------------------------------------- | -------------------------------------------------------------------- |
 * | the start of a run or of a model call        | with the next event, or {@link soon}: readers see it while it waits  |
 * | a short message of the user                  | with the answer, or {@link soon}: until then it waits in the queue   |
 * | an answer that ends the run                  | with the end of the run                                              |
 * | an answer with calls that need no approval   | with the start of the first call, or {@link soon}                    |
 * | another answer with calls                    | at once: code that decides about approvals may take long, and fail   |
 * | the start of a call                          | before the tool runs                                                 |
 * | any other one                                | at once                                                              |
 */

import * as Arr from "effect/Array"
import * as Cause from "effect/Cause"
import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as AgentError from "../../agent/AgentError.ts"
import * as Run from "../../agent/Run.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import * as Message from "../../conversation/Message.ts"
import { defined } from "../../payload/internal/values.ts"
import * as endings from "../../run/internal/endings.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runRequests from "../../run/internal/runRequests.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type * as ToolResult from "../../tool/ToolResult.ts"
import * as events from "./events.ts"
import * as fold from "./fold.ts"
import type { Event } from "./events.ts"
import type { SessionState, Queued } from "./fold.ts"
import * as types from "./types.ts"

/** An event that readers wait for, or that was paid for, is written after this time if no other event was. */
export const soon = Duration.millis(100)

/** The letters of a text that may wait. The model is not asked about a longer one before the store has taken it. */
const longestDeferred = 20_000

/** True for an event that is written with the next one. `state` is the state of the run after it. */
const isDeferred = (event: Run.Event, run: Run.State): boolean =>
  runParts.isDeferrable(event) ||
  isLastAnswer(event) ||
  (event._tag === "InputAdded" && event.message.content.every(isShort)) ||
  (event._tag === "ModelAnswered" && Message.toolCalls(event.message).every(({ id }) => startsAtOnce(run, id)))

/** True for a part of a message that no store refuses. */
const isShort = (part: ToolResult.Content): boolean => part.type === "text" && part.text.length <= longestDeferred

/** An answer without calls: the end of the run follows at once, unless the answer is refused. */
const isLastAnswer = (self: Run.Event): boolean => {
  const { event } = runParts.innermost(self)
  return (
    event._tag === "ModelAnswered" &&
    event.message.content.every((part) => part.type !== "tool-call" || part.id === event.outputCall)
  )
}

/** True for a call that nothing but the library looks at before it is started. */
const startsAtOnce = (run: Run.State, callId: string): boolean =>
  runTransition.contractOf(run, runTransition.openCall(run, callId)?.contract)?.approval === "never"

const isUrgent = (event: Run.Event): boolean =>
  event._tag === "InputAdded" || (event._tag === "ModelAnswered" && !isLastAnswer(event))

/** The events that are kept also where the turn fails, and those before them. */
export const urgent = (events: ReadonlyArray<Event>): ReadonlyArray<Event> => upTo(events, isUrgent)

/** The events that are not to wait for long, because readers see that a turn or a model call has begun, and those before them. */
export const shown = (events: ReadonlyArray<Event>): ReadonlyArray<Event> =>
  upTo(events, (event) => isUrgent(event) || beginnings.has(runParts.innermost(event).event._tag))

const beginnings: ReadonlySet<Run.Event["_tag"]> = new Set(["RunStarted", "RunResumed", "StepStarted"])

const upTo = (events: ReadonlyArray<Event>, is: (event: Run.Event) => boolean): ReadonlyArray<Event> =>
  events.slice(0, events.findLastIndex((self) => self._tag === "RunEvent" && is(self.event)) + 1)

/** The ids of the messages that a turn has taken, among events that are not written. */
export const takenIn = (events: ReadonlyArray<Event>): ReadonlyArray<string> =>
  events.flatMap((event) => (event._tag === "RunEvent" && event.messageId !== undefined ? [event.messageId] : []))

/** True if the events that are not written have an answer. It was paid for, so nothing else starts before it is stored. */
export const hasAnswer = (events: ReadonlyArray<Event>): boolean =>
  events.some((event) => event._tag === "RunEvent" && runParts.innermost(event.event).event._tag === "ModelAnswered")

/** True if some of the events that are not written have to be written before anything else. */
export const areDue = (events: ReadonlyArray<Event>, run: Run.State): boolean =>
  events.some((event) => event._tag === "RunEvent" && !isDeferred(event.event, run))

/** Events of a run that is being ended. They start nothing. */
const ending: ReadonlySet<Run.Event["_tag"]> = new Set(["ToolFinished", "RunInterrupted", "RunFinished"])

export const isEnding = (self: Run.Event): boolean => {
  const { event } = runParts.innermost(self)
  if (event._tag === "PlanEvent") return event.event._tag === "PlanInterrupted" || event.event._tag === "PlanFinished"
  return (
    ending.has(event._tag) || (event._tag === "ModelAnswered" && event.message.finishReason === runTransition.cutOff)
  )
}

/** True for an event after which a model, a tool or a step of a plan is called. */
export const isStart = (self: Run.Event): boolean => {
  const { event } = runParts.innermost(self)
  const { _tag } = event._tag === "PlanEvent" ? event.event : event
  return _tag === "StepStarted" || _tag === "ToolStarted"
}

/** True if the code of a tool is under way. */
export const hasStartedTool = ({ calls }: Run.State): boolean =>
  calls.some(({ status }) => status._tag === "Started" && (status.child === undefined || hasStartedTool(status.child)))

/** The first so many characters of an error are stored. */
const longestMessage = 10_000

/** The events of a run in its session, and its state after them. `messageId` belongs to the input among them. */
const recorded = ({ events, state: run }: endings.Ending, messageId?: string) => ({
  events: events.map((event): Event => ({
    _tag: "RunEvent",
    event,
    ...(event._tag === "InputAdded" && defined({ messageId }))
  })),
  run
})

/** The events that end a run as `Interrupted`, after a message that it had not taken. */
export const endingOf = Effect.fnUntraced(function* (run: Run.State, message: Queued | undefined) {
  const taken: Array<Run.Event> = []
  if (message !== undefined) {
    const at = yield* DateTime.now
    const context = fold.isOfOther(run, message) ? fold.contextOf(message) : undefined
    const input = yield* Message.user(message.input, fold.optionsOf(message))
    taken.push({ _tag: "RunResumed", at, ...defined({ context }) })
    taken.push({ _tag: "InputAdded", at, message: input, maxSteps: run.maxSteps })
  }
  return recorded(yield* endings.addEnd(yield* endings.add({ events: [], state: run }, taken)), message?.messageId)
})

/** True for a run with calls that wait, or that failed with calls which it could not run. */
export const hasOpenCalls = (run: Run.State): boolean =>
  Run.requests(run).length > 0 || (run.outcome === undefined && run.calls.length > 0)

/** The events that deny the calls which wait, and end a run that waits for nothing else. */
export const cancelling = (run: Run.State) =>
  Effect.map(endings.cancel(run, "The call was not run: it was interrupted."), (ending) => recorded(ending))

/** The reason of calls that are denied because another message comes. */
const passedBy = "The call was denied: the user sent another message."

/**
 * The events that close what a turn has left, before a message is taken: where that turn was interrupted, the message is no
 * reason to continue. Where the message has another `RunContext`, nothing of the turn before runs with it.
 */
export const settlingOf = (run: Run.State, message: Queued) => {
  const isLeft = run.calls.length > 0 || run.plan !== undefined
  const isDue = run.outcome?._tag === "Interrupted" || fold.isOfOther(run, message)
  return isLeft && isDue ? Effect.map(endings.settle(run, passedBy), (ending) => recorded(ending)) : Effect.undefined
}

/**
 * The state of a run that ended here, for another session. Calls that have no result yet get one, so that none runs there: it may
 * have run here since. A plan keeps the steps that have finished, under the id of another run, so that no decision counts for
 * both. Nothing there has the `RunContext` of this session.
 */
export const closed = Effect.fnUntraced(function* (run: Run.State, context: Run.State["context"]) {
  const { calls, outcome, plan } = run
  const isOpen = calls.length > 0 || plan !== undefined || outcome === undefined
  const { state: ended } = isOpen
    ? yield* endings.settle(run, "The call was not run: the session was forked.")
    : { state: run }
  const of = { runId: yield* runParts.newRunId, context }
  return new runParts.State({ ...ended, ...of, plan: plan && runTransition.plans.keepFinished(plan, of) })
})

/** The decisions of a turn. With a message, calls without a decision are denied if a waiting message asks for that. */
export const decisionsFor = (
  state: SessionState,
  run: Run.State,
  message: Queued | undefined
): ReadonlyArray<Run.Decision> => {
  // A list was checked when it came, and a turn before this one may have taken a part of it
  const decisions = fold.waitingDecisions(state).map(runRequests.alone)
  const isDenying = message !== undefined && fold.isDenying(state)
  if (!isDenying) return decisions
  const open = Run.requests(run).filter(
    (request) => !decisions.some((decision) => runRequests.concerns(decision, request))
  )
  return [...decisions, ...open.map((request) => Run.deny(request, { reason: passedBy }))]
}

/** Failures of turns whose agent is not there. */
const withoutAgent: ReadonlySet<string> = new Set(["AgentUnknown", "DefinitionInvalid"])

/** Failures that are about the decisions of a turn: they are made again, or are about calls that are no more. */
const aboutDecisions: ReadonlySet<string> = new Set(["InvalidDecision", "DefinitionChanged", events.interrupted])

/** True for a failure that the message would have in any turn: it does not fit, or has not the context that the agent reads. */
export const isFaultOfMessage = (cause: Cause.Cause<AgentError.AgentError | types.SessionError>): boolean => {
  const reason = Option.getOrUndefined(Cause.findErrorOption(cause))?.reason
  if (reason?._tag === "PreparationFailed") return reason.error === "RunContextError"
  return reason?._tag === "ConversationInvalid" || reason?._tag === "ContextInvalid" || reason?._tag === "Refused"
}

/** The error of a turn as it is stored. */
export const failureOf = (error: AgentError.AgentError | types.SessionError): events.Failure => ({
  reason: error.reason._tag,
  category: error._tag === "SessionError" ? error.category : categoryOf(error.reason),
  message: (error._tag === "SessionError"
    ? error.message
    : `Agent ${JSON.stringify(error.agent)}: ${agentReason.explain(error.reason, "session")}`
  ).slice(0, longestMessage),
  ...(error.reason._tag === "DelegateFailed" && { plan: planOf(error.reason) })
})

const planOf = ({ error, step }: agentReason.ReasonOf<"DelegateFailed">) => ({ reason: error, ...defined({ step }) })

const categoryOf = (reason: AgentError.AgentError["reason"]): events.Category => {
  switch (reason._tag) {
    case "ModelFailed":
      return reason.retryable ? "unavailable" : "internal"
    case "PreparationFailed":
      return reason.error === "RunContextError" ? "invalid" : "unavailable"
    case "ContextWindowFailed":
      return reason.error === undefined ? "internal" : "unavailable"
    case "ModelRegistryFailed":
    case "DefinitionChanged":
      return "unavailable"
    case "InvalidDecision":
      return types.ofDecision(reason)
    case "ContextInvalid":
    case "ConversationInvalid":
    case "OptionsInvalid":
      return "invalid"
    default:
      return "internal"
  }
}

export const interrupted: events.Failure = {
  reason: events.interrupted,
  category: "conflict",
  message: "the turn was interrupted"
}

export const withdrawn: events.Failure = {
  reason: "Withdrawn",
  category: "conflict",
  message: "the message was withdrawn before its turn began"
}

export const died: events.Failure = {
  reason: "Defect",
  category: "internal",
  message: "the turn ended unexpectedly; the log has the error"
}

/**
 * The events of a turn that failed. What it was to take waits for a new event, unless that is what the failure is about: then it
 * is dropped, and the next turn begins without it.
 */
export const failing = (
  state: SessionState,
  at: DateTime.Utc,
  error: events.Failure,
  message: Queued | undefined,
  isOwnFault: boolean
): Arr.NonEmptyReadonlyArray<Event> => {
  const isStop = error.reason === events.interrupted
  const waiting = fold.waitingDecisions(state)
  const messageId =
    isStop && message !== undefined && fold.isStopped(state, message.messageId)
      ? Option.getOrUndefined(Chunk.head(state.queue))?.messageId
      : message?.messageId
  const isLeft = messageId !== undefined && fold.isWaiting(state, messageId)
  const isDropped = isLeft && isOwnFault
  const areDropped = aboutDecisions.has(error.reason) && Arr.isReadonlyArrayNonEmpty(waiting)
  const isMended = areDropped && (error.reason !== "DefinitionChanged" || fold.isDenying(state))
  const isDue = isLeft || (waiting.length > 0 && !areDropped) || withoutAgent.has(error.reason)
  const isHeld = !isStop && !isDropped && !isMended && isDue
  const isTold = isLeft && (isStop || isDropped || isHeld)
  const held = isTold && isHeld ? fold.likeIn(state, messageId) : []
  const dropped: ReadonlyArray<Event> = [
    ...(isDropped ? [{ _tag: "MessageDropped" as const, at, messageId, error }] : []),
    ...(areDropped ? [{ _tag: "DecisionsDropped" as const, at, decisions: waiting, error }] : [])
  ]
  return Arr.append(dropped, {
    _tag: "TurnFailed",
    at,
    error,
    ...(isTold && { messageId }),
    ...(isHeld && { isHeld }),
    ...(Arr.isReadonlyArrayNonEmpty(held) && { held })
  })
}
