/**
 * The transition of runs: the next action of a state, and the state after an event. `Run` re-exports what users name.
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as DateTime from "effect/DateTime"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type * as Types from "effect/Types"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as planRequests from "./planRequests.ts"
import * as planRunParts from "./planRunParts.ts"
import * as runParts from "./runParts.ts"
import type { ApprovalRequest, CallStatus, Decision, Event, EventOf, OpenCall, State, StateFields } from "./runParts.ts"

/** The open call with this id. */
export const openCall = (self: State, callId: string): OpenCall | undefined => self.calls[indexOfCall(self, callId)]

/** The contract with this digest, if the state has it. */
export const contractOf = ({ basis }: State, digest: string | undefined): runParts.CallContract | undefined =>
  basis?.contracts.find((contract) => contract.digest === digest)

/** The newest contract of a tool that the run knows. */
export const newestContract = ({ basis }: State, name: string): runParts.CallContract | undefined =>
  basis?.contracts.findLast((contract) => contract.name === name)

/** With more contracts. Older ones of their tools stay while a call has them. */
const withContracts = (
  { basis, definition }: State,
  more: ReadonlyArray<runParts.CallContract>,
  calls: ReadonlyArray<OpenCall>
): runParts.Basis => {
  const isKept = ({ digest, name }: runParts.CallContract) =>
    !more.some((one) => one.digest === digest) &&
    (!more.some((one) => one.name === name) || calls.some(({ contract }) => contract === digest))
  const kept = basis?.contracts.filter(isKept) ?? []
  return { definition, ...basis, contracts: [...kept, ...more] }
}

/**
 * The open calls are a part of the answer's calls in the same order, so the search goes backwards from the index in the
 * answer.
 */
const indexOfCall = ({ calls, conversation }: State, callId: string): number => {
  let index = Math.min(history.asHistory(conversation).positions.get(callId) ?? 0, calls.length - 1)
  while (index >= 0 && calls[index]?.part.id !== callId) index -= 1
  return index
}

/**
 * A state was not resumed, because the definition of its agent or plan has changed in a way that the option `onChange`
 * does not allow.
 *
 * **Details**
 *
 * `expected` is the digest of the definition that was to resume the state, `found` the digest in the state. `changes`
 * are the differences: the part at `path` (a JSON Pointer), what it `was`, what it is `now`, and whether the change is
 * `breaking`. Instructions and models that Effects find for each run are not among them. See `Agent.ResumeOptions`.
 *
 * @category reasons
 * @since 0.1.0
 */
export class DefinitionChanged extends Schema.TaggedError<DefinitionChanged>("effect-emissary/agent/DefinitionChanged")(
  "DefinitionChanged",
  { expected: Schema.String, found: Schema.String, changes: Schema.Array(ToolContract.Change) }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return explainChange(this)
  }
}

/** The changes that an error lists in its message. */
const maxShown = 5

/** The text of a `DefinitionChanged`; `accept` is the advice to continue with the changes. */
export const explainChange = (
  { changes, expected, found }: Pick<DefinitionChanged, "changes" | "expected" | "found">,
  accept?: string
): string => `expected a state of the definition ${expected}, found one of ${found}. ${renderChanges(changes, accept)}`

/** The changes of a definition, the breaking ones if there are any, and what to do next. */
export const renderChanges = (
  changes: ReadonlyArray<ToolContract.Change>,
  accept = 'resume it with onChange: "accept"'
): string => {
  const breaking = changes.filter((change) => change.breaking)
  const shown = breaking.length > 0 ? breaking : changes
  const lines = shown
    .slice(0, maxShown)
    .map(({ now, path, was }) => `${path === "" ? "the whole" : path} was ${was}, now ${now}`)
  const more = shown.length > maxShown ? [`${shown.length - maxShown} more`] : []
  const list = [...lines, ...more].join("; ")
  return breaking.length > 0
    ? `Breaking changes: ${list}. Undo them, finish the run with the old definition, or ${accept}.`
    : `Changes: ${list || "not known"}. None of them is breaking: resume it with onChange: "compatible".`
}

/** The problem of a decision that its type does not allow. */
export const malformed =
  "with members of another type: digest is that of the request, approved true or false, reason and decidedBy texts, expiresAt a DateTime.Utc, path a list of texts"

/** The problem of a decision whose request differs from the request that waits. */
export const changed =
  "with the digest of another request: the call, its arguments or its tool are others now. Show the request that waits, and decide about that"

/** The problem of a decision that came too late. */
export const expired = "that has expired. Decide again"

/**
 * A decision about a call that does not wait for it.
 *
 * **Details**
 *
 * `problem` is `unknown` for a call that is not waiting (it never was, or it is decided already), `changed` for a call
 * that waits, but has another digest: the decision is about other arguments, another turn or another contract of the
 * tool. It is `ambiguous` where calls of several agents have this id and digest and no `path` was given, `repeated` for
 * a second decision in the same list, `expired` after its `expiresAt`, `malformed` for a value that is no decision: its
 * `approved` is neither `true` nor `false`, for example. `pending` are the ids that do wait.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidDecision extends Schema.TaggedError<InvalidDecision>("effect-emissary/agent/InvalidDecision")(
  "InvalidDecision",
  {
    callId: Schema.String,
    problem: Schema.Literals(["unknown", "changed", "ambiguous", "repeated", "expired", "malformed"]),
    pending: Schema.Array(Schema.String)
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const pending = this.pending.length === 0 ? "none" : quoteAll(this.pending)
    const found = {
      unknown: "one that does not wait for a decision: it never did, or it was decided before",
      changed: `one ${changed}`,
      ambiguous: "one that several agents have; add the path of the request",
      repeated: "a second decision about the same call",
      expired: `one ${expired}`,
      malformed
    }[this.problem]
    return `expected a decision about a waiting call, found ${JSON.stringify(this.callId)}, ${found}. Waiting: ${pending}.`
  }
}

const EventErrorReason = Schema.Struct({
  _tag: Schema.Literals(["Unexpected", "UnknownCall", "CallStatus", "Conversation"]),
  expected: Schema.String,
  found: Schema.String
})

type EventErrorReason = typeof EventErrorReason.Type

/**
 * An event does not fit the state it was applied to: events are missing, out of
 * order or doubled, or two drivers write to one run.
 *
 * **Details**
 *
 * `event` is the tag of the event, `index` its place in the list when a list was
 * folded, `path` the ids of the enclosing calls when it is the event of an agent that
 * runs as a tool. The tag of `reason` is one of:
 *
 * - `Unexpected`: the event has no place in this state of the run.
 * - `UnknownCall`: the event names a call that is not open.
 * - `CallStatus`: the call is open, but not ready for this event; for a call that has
 *   started, for example, there is no second `ToolStarted`.
 * - `Conversation`: the message does not continue the conversation.
 *
 * @category errors
 * @since 0.1.0
 */
export class EventError extends Schema.TaggedError<EventError>("effect-emissary/agent/RunEventError")("RunEventError", {
  event: Schema.String,
  path: Schema.Array(Schema.String),
  index: Schema.optionalKey(Schema.Int),
  reason: EventErrorReason
}) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const where = this.path.length === 0 ? "" : ` in the run of call ${this.path.join(" > ")}`
    const index = this.index === undefined ? "" : ` at index ${this.index}`
    return `${this.event}${index}${where} does not fit the run: expected ${this.reason.expected}, found ${this.reason.found}. Apply each event once, in the order in which it happened, from one driver at a time.`
  }
}

/**
 * A call that may be run.
 *
 * **Details**
 *
 * - `approved`: its approval. Its policy is not asked again, and it runs with the arguments there. A call gets an
 *   `ApprovalRequested` event instead of a `ToolStarted` if its policy demands an approval and it has none, or if its
 *   approval has expired or has another digest than the request would have now.
 * - `started`: it was lost with its process: no second `ToolStarted`. The run of an agent continues from `child`. Any
 *   other started call belongs to an idempotent tool, and runs again. A driver settles it with `lostCall` where it
 *   cannot run as it did: its approval or its tool has changed.
 */
export interface RunnableCall {
  readonly part: Message.ToolCallPart
  readonly approved?: Extract<CallStatus, { readonly _tag: "Approved" }>
  readonly started: boolean
  readonly child?: State
}

/**
 * The next task of a driver.
 *
 * **Details**
 *
 * - `CallModel`: call the model. `step` is the number for `StepStarted`. `first`: it is the
 *   first answer since the run was started or resumed. `mistakes` are problems of this step
 *   to report to the model; the driver limits their number.
 * - `RunTools`: record the results in `settled`, and run `calls`. Both in call order; one of
 *   them may be empty, never both. A settled call needs no run: it was denied, cut off or
 *   lost, or it carried the agent's output.
 * - `Finished`: end the run with this outcome, unless it has ended already.
 *
 * @category models
 * @since 0.1.0
 */
export type Action =
  | {
      readonly _tag: "CallModel"
      readonly step: number
      readonly purpose: runParts.Purpose
      readonly first: boolean
      readonly mistakes: ReadonlyArray<string>
    }
  | {
      readonly _tag: "RunTools"
      readonly calls: ReadonlyArray<RunnableCall>
      readonly settled: ReadonlyArray<{
        readonly callId: string
        readonly name: string
        readonly result: ToolResult.ToolResult
      }>
    }
  | { readonly _tag: "Finished"; readonly outcome: runParts.Outcome }

/** The action with this tag. */
export type ActionOf<Tag extends Action["_tag"]> = Extract<Action, { readonly _tag: Tag }>

export type ApplyResult = Result.Result<State, EventError>

const reject = (
  event: Event,
  tag: EventErrorReason["_tag"],
  expected: string,
  found: string
): Result.Result<never, EventError> =>
  Result.fail(new EventError({ event: event._tag, path: [], reason: { _tag: tag, expected, found } }))

const unexpected = (event: Event, expected: string, found: string) => reject(event, "Unexpected", expected, found)

const brokenConversation = (event: Event, found: string) =>
  reject(event, "Conversation", "a message that continues the conversation", found)

const unknownCall = (event: Event, callId: string, open: ReadonlyArray<string>) => {
  const expected = open.length === 0 ? "no call, because none is open" : `one of the open calls ${quoteAll(open)}`
  return reject(event, "UnknownCall", expected, JSON.stringify(callId))
}

const wrongStatus = (event: Event, callId: string, expected: string, found: string) =>
  reject(event, "CallStatus", `${expected} of the call ${JSON.stringify(callId)}`, found)

const idsOf = (calls: ReadonlyArray<OpenCall>): ReadonlyArray<string> => calls.map(({ part }) => part.id)

const quoteAll = (ids: ReadonlyArray<string>): string => ids.map((id) => JSON.stringify(id)).join(", ")

/**
 * The state after the first event.
 *
 * @category transitions
 * @since 0.1.0
 */
export const start = (event: EventOf<"RunStarted">): State => {
  const { _tag, at, contracts, parts, ...fields } = event
  const { lastAssistant } = history.asHistory(event.conversation)
  return new runParts.State({
    ...fields,
    steps: lastAssistant === undefined ? 0 : answersSinceUser(event.conversation),
    totalSteps: 0,
    usage: {},
    calls: lastAssistant === undefined ? [] : openCallsOf(event.conversation, lastAssistant, contracts),
    basis: parts && { definition: event.definition, parts, contracts: contracts ?? [] },
    pending: [],
    limited: false,
    mistakes: [],
    fresh: true,
    startedAt: at,
    updatedAt: at,
    revision: 1
  })
}

const answersSinceUser = (conversation: history.Conversation): number => {
  const messages = history.messages(conversation)
  const since = messages.slice(messages.findLastIndex(({ role }) => role === "user") + 1)
  return since.filter(({ role }) => role === "assistant").length
}

/** The open calls of the newest answer. Calls of an answer that was cut off never run. */
const openCallsOf = (
  conversation: history.Conversation,
  { finishReason }: Message.AssistantMessage,
  contracts: ReadonlyArray<runParts.CallContract> | undefined
): ReadonlyArray<OpenCall> => {
  const stop = stopReasonOf(finishReason)
  const status: CallStatus =
    stop === undefined
      ? { _tag: "Requested" }
      : {
          _tag: "Settled",
          result: ToolResult.failure("interrupted", `The call was not run, because its answer was cut off (${stop}).`)
        }
  return history.openCalls(conversation).map((part) => {
    const contract = contracts?.findLast(({ name }) => name === part.name)
    return contract === undefined ? { part, status } : { part, status, contract: contract.digest }
  })
}

/**
 * The state after one more event.
 *
 * @category transitions
 * @since 0.1.0
 */
export const apply = (self: State, event: Event): Result.Result<State, EventError> => {
  const isAnyTime = event._tag === "RunResumed" || event._tag === "ConversationRewound"
  if (self.outcome !== undefined && !isAnyTime && !isDecision(event)) {
    return unexpected(event, "a run under way (RunResumed first)", `one that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !afterInterruption.has(event._tag)) {
    return unexpected(event, "a run under way", "one that was interrupted and has to settle what started")
  }
  switch (event._tag) {
    case "RunStarted":
      return unexpected(event, "no RunStarted after the first event", "a run that has started")
    case "InputAdded":
      return applyInputAdded(self, event)
    case "ConversationFitted":
      return applyConversationFitted(self, event)
    case "ConversationRewound":
      return applyConversationRewound(self, event)
    case "StepStarted":
      return applyStepStarted(self, event)
    case "ModelAnswered":
      return applyModelAnswered(self, event)
    case "AnswerDiscarded": {
      const usage = addUsage(self.usage, event.usage)
      return self.progress === undefined
        ? inStep(self, event, () => ({ usage }))
        : updateState(self, event, { usage, progress: undefined, limited: false, step: undefined })
    }
    case "ModelMistaken":
      return inStep(self, event, () => ({ mistakes: [...self.mistakes, event.problem] }))
    case "PlanEvent": {
      const progress = addPlanEvent(self.progress, event)
      return isForgedPlan(progress)
        ? unexpected(event, "the requests as the steps of the plan asked them", "other ones")
        : inStep(self, event, () => ({
            progress,
            limited: event.event._tag === "PlanFinished" && event.event.outcome._tag === "LimitReached",
            usage: addUsage(self.usage, usageOf(event))
          }))
    }
    case "ApprovalRequested":
      if (self.limited) return outOfSteps(event)
      return isForged(self, event)
        ? wrongStatus(event, event.callId, "the digest of the request as it is shown", "another one")
        : changeCall(self, event, ["Requested", "Approved"], () => ({
            _tag: "AwaitingApproval",
            arguments: event.arguments,
            digest: event.digest
          }))
    case "ApprovalDecided":
      return self.progress === undefined
        ? applyApprovalDecided(self, event)
        : applyProgressDecided(self, self.progress, event)
    case "ToolStarted":
      return self.limited ? outOfSteps(event) : applyToolStarted(self, event)
    case "ToolFinished":
      return applyToolFinished(self, event)
    case "ChildEvent":
      return self.progress !== undefined
        ? applyProgressDecided(self, self.progress, event)
        : applyChildEvent(self, event)
    case "RunInterrupted":
      return updateState(self, event, { interrupted: defined({ reason: event.reason }), step: undefined })
    case "RunFinished":
      return applyFinished(self, event)
    case "RunResumed":
      return updateState(self, event, {
        outcome: undefined,
        interrupted: undefined,
        // A limit that was never reported, because the process died first, still holds
        limited: self.limited && self.outcome === undefined && event.maxSteps === undefined,
        step: undefined,
        mistakes: [],
        fresh: true,
        progress: hasPauses(self) ? { ...self.progress, isAskedAgain: true } : self.progress,
        maxSteps: event.maxSteps ?? self.maxSteps,
        context: event.context ?? self.context,
        ...(event.change && changedFields(self, event.change))
      })
  }
}

/** A request whose digest covers other arguments than it shows. */
const isForged = (
  self: State,
  { arguments: args, callId, contract, digest }: EventOf<"ApprovalRequested">
): boolean => {
  const call = openCall(self, callId)
  const of = contract?.digest ?? call?.contract
  return (
    call !== undefined && runParts.isForged(self, callId, { arguments: args, digest, ...defined({ contract: of }) })
  )
}

/** True for a plan that has ended because it waits, and whose events show other requests than were asked. */
const isForgedPlan = ({ events }: runParts.Progress): boolean =>
  Option.exists(Chunk.last(events), isPaused) &&
  planRequests.areForged({ start, apply, requests: approvalRequests }, events)

/**
 * True for a state, read from outside, that shows other requests than were asked. Its Schema checks the requests of
 * calls.
 */
export const isForgedState = (self: State): boolean =>
  (self.progress !== undefined && isForgedPlan(self.progress)) ||
  !endsWithRequests(self) ||
  self.calls.some(
    ({ status }) => status._tag === "Started" && status.child !== undefined && isForgedState(status.child)
  )

/** True if the run ended with every request that still waits. */
const endsWithRequests = (self: State): boolean => {
  const { outcome } = self
  if (outcome?._tag !== "AwaitingApproval") return true
  return approvalRequests(self).every((request) =>
    outcome.requests.some((shown) => concerns(request, shown) && Equal.equals(request, shown))
  )
}

/** A state without its version. Its requests are as they were asked. */
export const StateSchema: Schema.Codec<State, unknown> = runParts.StateSchema.check(
  Schema.makeFilter((state) => !isForgedState(state), { expected: "the requests as they were asked" })
)

const changedFields = (
  self: State,
  { definition, parts, structured }: runParts.DefinitionChange
): Partial<StateFields> => ({
  basis: { definition, parts, contracts: self.basis?.contracts ?? [] },
  structured: structured ?? self.structured
})

/**
 * The next task of a driver. Ask when nothing of the run is under way.
 *
 * @category transitions
 * @since 0.1.0
 */
export const next = (self: State): Action => {
  if (self.outcome !== undefined) return { _tag: "Finished", outcome: self.outcome }
  if (self.interrupted !== undefined) {
    const settled = recover(self)
    return settled.length > 0
      ? { _tag: "RunTools", calls: [], settled }
      : { _tag: "Finished", outcome: { _tag: "Interrupted", ...self.interrupted } }
  }
  if (self.limited) return { _tag: "Finished", outcome: { _tag: "MaxSteps" } }
  if (self.progress !== undefined) return nextInProgress(self, self.progress)
  return self.calls.length === 0 ? nextAfterAnswer(self) : nextForCalls(self)
}

type Settlement = ActionOf<"RunTools">["settled"][number]

/** The calls that started, which an interruption has cut off. None of them runs again. */
export const recover = ({ calls }: State): ReadonlyArray<Settlement> =>
  calls.flatMap(({ part, status }) => (status._tag === "Started" ? [settleCall(part, lostCall)] : []))

/** The result of a call that started and was lost with its process. */
export const lostCall = ToolResult.failure(
  "interrupted",
  "The call was interrupted before it returned a result, and it is not known whether it took effect.",
  { outcome: "unknown" }
)

const settleCall = (part: Message.ToolCallPart, result: ToolResult.ToolResult): Settlement => ({
  callId: part.id,
  name: part.name,
  result
})

/** One decision is enough for an answer in progress to continue. */
const nextInProgress = (self: State, { decisions, isAskedAgain }: runParts.Progress): Action => {
  const requests = approvalRequests(self)
  return decisions.length === 0 && isAskedAgain !== true && Arr.isReadonlyArrayNonEmpty(requests)
    ? { _tag: "Finished", outcome: { _tag: "AwaitingApproval", requests } }
    : nextModelCall(self, "answer")
}

const nextForCalls = (self: State): Action => {
  const calls: Array<RunnableCall> = []
  const settled: Array<Settlement> = []
  for (const { part, status } of self.calls) {
    switch (status._tag) {
      case "Requested":
        calls.push({ part, started: false })
        break
      case "Approved":
        calls.push({ part, approved: status, started: false })
        break
      case "Settled":
        settled.push(settleCall(part, status.result))
        break
      case "Started":
        if (status.child !== undefined) {
          if (!awaitsDecisions(status.child)) calls.push({ part, started: true, child: status.child })
        } else if (status.idempotent === true) {
          calls.push(defined({ part, approved: status.approved, started: true }))
        } else {
          settled.push(settleCall(part, lostCall))
        }
        break
      case "AwaitingApproval":
        break
    }
  }
  const requests = calls.length > 0 || settled.length > 0 ? [] : approvalRequests(self)
  return Arr.isReadonlyArrayNonEmpty(requests)
    ? { _tag: "Finished", outcome: { _tag: "AwaitingApproval", requests } }
    : { _tag: "RunTools", calls, settled }
}

/** True for a child that ended because it needs decisions, and still has none that lets it continue. */
const awaitsDecisions = (child: State): boolean => {
  if (child.outcome?._tag !== "AwaitingApproval") return false
  const action = next(copyWith(child, { outcome: undefined, interrupted: undefined }))
  return action._tag === "Finished" && action.outcome._tag === "AwaitingApproval"
}

const nextAfterAnswer = (self: State): Action => {
  const { answer } = self
  const purpose = self.structured === "always" ? "structured" : "answer"
  if (answer === undefined) return nextModelCall(self, purpose)
  const finishReason = stopReasonOf(answer.finishReason)
  if (finishReason !== undefined) return { _tag: "Finished", outcome: { _tag: "Stopped", finishReason } }
  const { output } = answer
  if (output?._tag === "Valid") return { _tag: "Finished", outcome: { _tag: "Completed", output: output.value } }
  if (answer.calls > 0 || answer.finishReason === "pause" || answer.finishReason === cutOff) {
    return nextModelCall(self, purpose)
  }
  if (hasStepsLeft(self)) {
    if (answer.outputCall) return nextModelCall(self, purpose)
    if (output !== undefined && self.structured === "fallback" && answer.purpose === "answer") {
      return nextModelCall(self, "structured")
    }
    if (answer.empty !== undefined && answer.empty <= (answer.maxEmpty ?? defaultMaxEmpty))
      return nextModelCall(self, answer.purpose)
  }
  if (answer.empty !== undefined) return { _tag: "Finished", outcome: { _tag: "Stopped", finishReason: "empty" } }
  if (output === undefined) return { _tag: "Finished", outcome: { _tag: "Completed" } }
  return { _tag: "Finished", outcome: { _tag: "InvalidOutput", issues: output.issues } }
}

const hasStepsLeft = (self: Pick<State, "maxSteps" | "steps">): boolean =>
  self.maxSteps === "unlimited" || self.steps < self.maxSteps

const nextModelCall = (self: State, purpose: runParts.Purpose): ActionOf<"CallModel"> => ({
  _tag: "CallModel",
  step: self.steps + 1,
  purpose,
  first: self.fresh,
  mistakes: self.mistakes
})

const afterInterruption: ReadonlySet<Event["_tag"]> = new Set([
  "ToolFinished",
  "ChildEvent",
  "ApprovalDecided",
  "ConversationRewound",
  "RunFinished",
  "RunResumed"
])

const updateState = (self: State, event: Event, fields: Partial<StateFields>): ApplyResult => {
  const state: Types.Mutable<State> = copyWith(self, fields)
  state.updatedAt = timeOf(event)
  state.revision += 1
  return takePending(state, event)
}

/** Writes into a new state, which no other code has. */
const copyWith = (self: State, fields: Partial<StateFields>): State => Object.assign(new runParts.State(self), fields)

/** Puts waiting user messages, and the newest instructions behind them, into the conversation, once nothing is open: a fresh budget. */
const takePending = (self: State, event: Event): ApplyResult => {
  if (self.pending.length === 0 || isAnswering(self)) return Result.succeed(self)
  let histories: Histories = self
  const maxSteps = self.pending.at(-1)?.maxSteps ?? self.maxSteps
  const messages: Array<Message.Message> = self.pending.map(({ message }) => message)
  const instructed = self.pending.findLast(({ instructions }) => instructions !== undefined)
  if (instructed?.instructions !== undefined) messages.push(instructed.instructions)
  for (const message of messages) {
    const appended = appendMessage(histories, event, message)
    if (Result.isFailure(appended)) return Result.fail(appended.failure)
    histories = appended.success
  }
  const { conversation, view } = histories
  const fresh = { pending: [], steps: 0, answer: undefined, limited: false, mistakes: [] }
  return Result.succeed(copyWith(self, { ...fresh, conversation, view, maxSteps }))
}

/** True while calls are open or an answer is in progress: user messages wait. */
const isAnswering = ({ calls, progress }: State): boolean => calls.length > 0 || progress !== undefined

const inStep = (self: State, event: Event, fields: () => Partial<StateFields>): ApplyResult =>
  self.step === undefined ? noStep(event) : updateState(self, event, fields())

const noStep = (event: Event) => unexpected(event, "a StepStarted before it", "no model call under way")

const outOfSteps = (event: Event) =>
  unexpected(event, "steps left for the calls of the newest answer", "an answer that used up the budget")

const addUsage = (total: Message.TokenUsage, usage: Message.TokenUsage | undefined): Message.TokenUsage =>
  usage === undefined ? total : Message.sumUsage([total, usage])

/** The whole conversation, and the view of it that models receive. */
type Histories = Pick<State, "conversation" | "view">

const appendMessage = (
  self: Histories,
  event: Event,
  message: Message.Message
): Result.Result<Histories, EventError> => {
  const { view } = self
  if (view === undefined) {
    return Result.map(appendTo(self.conversation, event, message), (conversation) => ({ conversation, view }))
  }
  // The usage of an answer is the size of the view that it answered
  const said = message.role === "assistant" ? history.markAsView(message) : message
  return Result.flatMap(appendTo(self.conversation, event, said), (conversation) =>
    Result.map(appendTo(view, event, message), (view) => ({ conversation, view }))
  )
}

const appendTo = (
  self: history.Conversation,
  event: Event,
  message: Message.Message
): Result.Result<history.Conversation, EventError> => {
  const appended = history.append(self, message)
  return Result.isSuccess(appended)
    ? Result.succeed(appended.success)
    : brokenConversation(event, appended.failure.message)
}

const applyInputAdded = (self: State, event: EventOf<"InputAdded">): ApplyResult => {
  if (self.step !== undefined) {
    return unexpected(event, "no model call under way", `step ${self.step.step} without its answer`)
  }
  const { instructions, maxSteps, message } = event
  const pending = [...self.pending, { message, maxSteps, ...defined({ instructions }) }]
  // A message that waits is refused now if it could never be taken
  const fits: Result.Result<unknown, EventError> = isAnswering(self)
    ? appendTo(Conversation.empty, event, message)
    : Result.void
  // A message waits for a step that has paused, and does not run it again
  const progress = self.progress && { events: self.progress.events, decisions: self.progress.decisions }
  return Result.flatMap(fits, () => updateState(self, event, { pending, limited: false, progress }))
}

const applyConversationFitted = (self: State, event: EventOf<"ConversationFitted">): ApplyResult => {
  const action = next(self)
  if (action._tag !== "CallModel") {
    return unexpected(event, `what comes next: ${action._tag}`, "a view for a model call")
  }
  const before = history.asHistory(self.view ?? self.conversation)
  const view = history.select(before, event.view, event.beside)
  if (view === undefined) return brokenConversation(event, "a view with messages that the conversation does not have")
  return history.lastMessage(view)?.id === history.lastMessage(before)?.id && history.openCalls(view).length === 0
    ? updateState(self, event, { view })
    : unexpected(event, "a view that ends as the conversation does", "one with another end")
}

/** The user message with this id: a message that waits, or the newest of the conversation. */
export const userMessage = ({ conversation, pending }: State, id: string): Message.UserMessage | undefined =>
  pending.findLast(({ message }) => message.id === id)?.message ??
  history
    .messages(conversation)
    .findLast((message): message is Message.UserMessage => message.role === "user" && message.id === id)

/** A message that waits for calls leaves them open. The tokens of what is removed stay in the usage: they were paid for. */
const applyConversationRewound = (self: State, event: EventOf<"ConversationRewound">): ApplyResult => {
  const { messageId } = event
  const waiting = self.pending.findLastIndex(({ message }) => message.id === messageId)
  if (waiting !== -1) return updateState(self, event, { pending: self.pending.slice(0, waiting) })
  const conversation = history.beforeUser(self.conversation, messageId)
  if (conversation === undefined) {
    return reject(event, "Conversation", "the id of a user message of the conversation", JSON.stringify(messageId))
  }
  return updateState(self, event, {
    conversation,
    // A summary took its place there: the conversation is fitted again
    view: self.view && history.beforeUser(self.view, messageId),
    calls: [],
    pending: [],
    answer: undefined,
    progress: undefined,
    limited: false,
    step: undefined,
    mistakes: [],
    interrupted: undefined,
    outcome: { _tag: "Interrupted" }
  })
}

const applyStepStarted = (self: State, event: EventOf<"StepStarted">): ApplyResult => {
  const action = next(self)
  const { purpose, step } = event
  if (action._tag === "CallModel" && action.step === step && action.purpose === purpose) {
    return updateState(self, event, { step: { step, purpose } })
  }
  const expected =
    action._tag === "CallModel" ? `step ${action.step} (${action.purpose})` : `what comes next: ${action._tag}`
  return unexpected(event, expected, `step ${step} (${purpose})`)
}

const applyModelAnswered = (self: State, event: EventOf<"ModelAnswered">): ApplyResult => {
  if (self.step === undefined) return noStep(event)
  const { message } = event
  for (const part of message.content) {
    if (part.type === "tool-call" && history.hasCall(self.conversation, part.id)) {
      const problem = `the call id ${JSON.stringify(part.id)} is already in the conversation; relabel it with Conversation.relabelCalls`
      return brokenConversation(event, problem)
    }
  }
  const { purpose } = self.step
  const basis = event.contracts === undefined ? self.basis : withContracts(self, event.contracts, [])
  return Result.flatMap(appendMessage(self, event, message), (histories) =>
    Result.flatMap(settleOutput(event, openCallsOf(histories.conversation, message, basis?.contracts)), (calls) =>
      updateState(self, event, { ...answerFields(self, event, purpose, histories, calls), basis })
    )
  )
}

/**
 * True for a whole answer without anything. An answer that paused or was cut off continues, and an answer that was stopped has a
 * reason.
 */
const isEmpty = (message: Message.AssistantMessage): boolean =>
  message.finishReason !== "pause" &&
  message.finishReason !== cutOff &&
  stopReasonOf(message.finishReason) === undefined &&
  history.isEmptyAnswer(message)

const answerFields = (
  self: State,
  { maxEmpty, message, output, outputCall }: EventOf<"ModelAnswered">,
  purpose: runParts.Purpose,
  { conversation, view }: Histories,
  calls: ReadonlyArray<OpenCall>
): Partial<StateFields> => {
  // The model call of an answer that was cut off is made again
  const counted = message.finishReason === cutOff ? 0 : 1
  const steps = self.steps + counted
  const tools = calls.length - (outputCall === undefined ? 0 : 1)
  // Text before a pause is not the answer yet
  const paused = message.finishReason === "pause" && outputCall === undefined
  const asksForMore = tools > 0 ? output?._tag !== "Valid" : paused
  // The answer of a plan is what its steps made, also when that is nothing
  const isAsked = self.progress === undefined && output?._tag !== "Valid"
  const empty = isAsked && isEmpty(message) ? (self.answer?.empty ?? 0) + 1 : undefined
  return {
    conversation,
    view,
    calls,
    steps,
    totalSteps: self.totalSteps + counted,
    usage: addUsage(self.usage, message.usage),
    answer: {
      purpose,
      calls: tools,
      outputCall: outputCall !== undefined,
      ...(message.finishReason && { finishReason: message.finishReason }),
      ...defined({ empty, maxEmpty }),
      ...(paused ? undefined : output && { output })
    },
    limited: asksForMore && !hasStepsLeft({ steps, maxSteps: self.maxSteps }),
    step: undefined,
    mistakes: [],
    progress: undefined,
    fresh: false
  }
}

/** The synthetic output tool never runs: the check of the output is its result. */
const settleOutput = (
  event: EventOf<"ModelAnswered">,
  calls: ReadonlyArray<OpenCall>
): Result.Result<ReadonlyArray<OpenCall>, EventError> => {
  const { output, outputCall } = event
  if (outputCall === undefined) return Result.succeed(calls)
  const index = calls.findIndex(({ part }) => part.id === outputCall)
  const call = calls[index]
  if (call === undefined) return unknownCall(event, outputCall, idsOf(calls))
  if (output === undefined) return unexpected(event, "an output together with the outputCall", "no output")
  if (call.status._tag === "Settled") return Result.succeed(calls)
  const result =
    output._tag === "Valid"
      ? ToolResult.success("The output was accepted.")
      : ToolResult.failure("validation_error", PayloadError.render("the output", output.issues))
  return Result.succeed(withStatus(calls, index, { _tag: "Settled", result }))
}

const withStatus = (calls: ReadonlyArray<OpenCall>, index: number, status: CallStatus): ReadonlyArray<OpenCall> => {
  const call = calls[index]
  return call === undefined ? calls : calls.with(index, { ...call, status })
}

const withCall = (
  self: State,
  event: Event,
  callId: string,
  expected: ReadonlyArray<CallStatus["_tag"]>,
  f: (status: CallStatus) => ApplyResult
): ApplyResult => {
  const call = openCall(self, callId)
  if (call === undefined) return unknownCall(event, callId, idsOf(self.calls))
  const found = call.status._tag
  return expected.includes(found) ? f(call.status) : wrongStatus(event, callId, expected.join(" or "), found)
}

const changeCall = (
  self: State,
  event: EventOf<"ApprovalRequested" | "ToolStarted">,
  expected: ReadonlyArray<CallStatus["_tag"]>,
  statusAfter: (before: CallStatus) => CallStatus
): ApplyResult =>
  withCall(self, event, event.callId, expected, (before) => {
    const index = indexOfCall(self, event.callId)
    const calls = withStatus(self.calls, index, statusAfter(before))
    const { contract } = event
    const call = calls[index]
    if (contract === undefined || call === undefined) return updateState(self, event, { calls })
    const changed = calls.with(index, { ...call, contract: contract.digest })
    return updateState(self, event, {
      calls: changed,
      basis: withContracts(self, [contract], changed)
    })
  })

const applyToolStarted = (self: State, event: EventOf<"ToolStarted">): ApplyResult =>
  changeCall(self, event, ["Requested", "Approved"], (before) => {
    const { idempotent } = event
    const approved = idempotent === true && before._tag === "Approved" ? before : undefined
    return { _tag: "Started", ...defined({ idempotent, approved }) }
  })

const applyApprovalDecided = (self: State, event: EventOf<"ApprovalDecided">): ApplyResult =>
  withCall(self, event, event.callId, ["AwaitingApproval"], (status) => {
    if (status._tag !== "AwaitingApproval" || status.digest !== event.digest) return otherDigest(event, event.callId)
    const { approved, ...terms } = verdictOf(event)
    const decided: CallStatus =
      approved === true
        ? { _tag: "Approved", arguments: status.arguments, ...terms }
        : { _tag: "Settled", result: ToolResult.failure("denied", event.reason ?? "The call was denied.") }
    return updateState(self, event, { calls: withStatus(self.calls, indexOfCall(self, event.callId), decided) })
  })

const otherDigest = (event: Event, callId: string) =>
  wrongStatus(event, callId, "a decision about the request", "one with another digest")

const applyToolFinished = (self: State, event: EventOf<"ToolFinished">): ApplyResult => {
  const { callId, result } = event.message
  // A call that never started can fail (unknown tool, bad arguments), but it cannot succeed
  const expected: ReadonlyArray<CallStatus["_tag"]> =
    result._tag === "Failure" ? ["Started", "Requested", "Approved", "Settled"] : ["Started", "Settled"]
  return withCall(self, event, callId, expected, (status) => {
    if (status._tag === "Settled" && typeOf(status.result) !== typeOf(result)) {
      const settled = `the result it was settled with (${typeOf(status.result)})`
      return wrongStatus(event, callId, settled, typeOf(result))
    }
    if (status._tag !== "Started" && status._tag !== "Settled" && self.limited) return outOfSteps(event)
    return closeCall(self, event)
  })
}

const closeCall = (self: State, event: EventOf<"ToolFinished">): ApplyResult =>
  Result.flatMap(appendMessage(self, event, event.message), ({ conversation, view }) => {
    const calls = self.calls.toSpliced(indexOfCall(self, event.message.callId), 1)
    return updateState(self, event, { conversation, view, calls })
  })

const typeOf = (result: ToolResult.ToolResult): string => (result._tag === "Failure" ? result.type : "success")

const applyChildEvent = (self: State, event: EventOf<"ChildEvent">): ApplyResult =>
  withCall(self, event, event.callId, ["Started"], (status) => {
    const before = status._tag === "Started" ? status.child : undefined
    const isAnew = event.event._tag === "RunStarted" && event.event.runId !== before?.runId
    const after = before === undefined || isAnew ? startChild(self, event) : apply(before, event.event)
    if (Result.isFailure(after)) {
      const { event: tag, path, reason } = after.failure
      return Result.fail(new EventError({ event: tag, path: [event.callId, ...path], reason }))
    }
    return updateState(self, event, {
      calls: withStatus(self.calls, indexOfCall(self, event.callId), { _tag: "Started", child: after.success }),
      usage: addUsage(self.usage, usageOf(event.event))
    })
  })

const startChild = (self: State, { event }: EventOf<"ChildEvent">): ApplyResult => {
  if (event._tag !== "RunStarted") return unexpected(event, "RunStarted first", event._tag)
  return event.depth === self.depth + 1
    ? Result.succeed(start(event))
    : unexpected(event, `depth ${self.depth + 1}`, `depth ${event.depth}`)
}

const applyFinished = (self: State, event: EventOf<"RunFinished">): ApplyResult => {
  const action = next(self)
  const { outcome } = event
  // Runs that were recorded before empty answers were asked again ended with them
  const before =
    self.answer?.empty === undefined ? action : next(copyWith(self, { answer: Struct.omit(self.answer, ["empty"]) }))
  if (outcome._tag === "AwaitingApproval" && !Equal.equals(outcome.requests, approvalRequests(self))) {
    return unexpected(event, "the requests as they were asked", "other ones")
  }
  if ([action, before].some((one) => one._tag === "Finished" && one.outcome._tag === outcome._tag)) {
    return updateState(self, event, { outcome, step: undefined })
  }
  const expected = action._tag === "Finished" ? action.outcome._tag : `what comes next: ${action._tag}`
  return unexpected(event, expected, outcome._tag)
}

/** The plan records the decisions that hold before it continues, so the others are over then. */
const addPlanEvent = (self: runParts.Progress | undefined, event: EventOf<"PlanEvent">): runParts.Progress => {
  const { decisions = [], events = Chunk.empty() } = self ?? {}
  const recorded = decisionIn(event)
  return {
    events: Chunk.append(events, event.event),
    decisions: recorded === undefined ? [] : decisions.filter((decision) => !concerns(decision, recorded))
  }
}

const isPaused = (event: runParts.PlanRunEvent): boolean =>
  event._tag === "PlanFinished" && event.outcome._tag === "Paused"

/** The requests of a plan that has ended because it waits, without decided requests. */
const requestsInProgress = ({ decisions, events }: runParts.Progress): ReadonlyArray<ApprovalRequest> => {
  const last = Option.getOrUndefined(Chunk.last(events))
  return last?._tag === "PlanFinished" && last.outcome._tag === "Paused"
    ? planRunParts
        .requestsOf(last.outcome)
        .filter((request) => !decisions.some((decision) => concerns(decision, request)))
    : []
}

/** True while a step of a plan waits that has paused by itself. */
export const hasPauses = (self: State): self is State & { readonly progress: runParts.Progress } => {
  const last = self.progress && Option.getOrUndefined(Chunk.last(self.progress.events))
  return last?._tag === "PlanFinished" && last.outcome._tag === "Paused" && last.outcome.pauses.length > 0
}

/** A decision about something that the plan waits for. The event has the path of the request. */
const applyProgressDecided = (
  self: State,
  progress: runParts.Progress,
  event: EventOf<"ApprovalDecided" | "ChildEvent">
): ApplyResult => {
  const { event: inner, path } = innermost(event)
  if (inner._tag !== "ApprovalDecided") {
    return unexpected(event, "no event of a call while an answer is in progress", inner._tag)
  }
  const { callId } = inner
  const requests = requestsInProgress(progress)
  const request = requests.find((request) => names({ ...inner, path }, request))
  if (request === undefined) {
    return unknownCall(
      event,
      callId,
      requests.map(({ callId }) => callId)
    )
  }
  if (request.digest !== inner.digest) return otherDigest(event, callId)
  const decision = { callId, path, ...verdictOf(inner) }
  return updateState(self, event, { progress: { ...progress, decisions: [...progress.decisions, decision] } })
}

/** The part of a decision that its event and the states after it keep. */
export const verdictOf = (decision: Omit<Decision, "callId" | "path">): runParts.Verdict => {
  const { approved, decidedBy, digest, expiresAt, reason } = decision
  return { approved, digest, ...defined({ reason, decidedBy, expiresAt }) }
}

/** False for a decision that was read from outside and never decoded: `approved: "false"` is no approval. */
export const isWellFormed: (decision: Decision) => boolean = Schema.is(runParts.Decision)

/** Sound: isWellFormed refuses it before anything but the id is read. */
const noDecision = { callId: "" } as Decision

/** Decisions as a list, in which a value that is none, for example of a form, is malformed. */
export const listDecisions = (decisions: ReadonlyArray<Decision> | undefined): ReadonlyArray<Decision> => {
  if (decisions === undefined) return []
  return Array.isArray(decisions)
    ? decisions.map((decision) => (typeof decision === "object" && decision !== null ? decision : noDecision))
    : [noDecision]
}

/** True from the time on at which a decision no longer counts. */
export const isExpired = ({ expiresAt }: Pick<Decision, "expiresAt">, at: DateTime.Utc): boolean =>
  expiresAt !== undefined && DateTime.isGreaterThanOrEqualTo(at, expiresAt)

/**
 * The events that record decisions. Each must be about a call that waits by an event of this
 * run, and only one per call.
 *
 * **Details**
 *
 * They can be applied to a run that has ended, and come before its `RunResumed`. `at` is the time at which the
 * decisions are taken: a decision that has expired by then is refused.
 *
 * **Example** (A decision about a call that does not wait)
 *
 * ```ts
 * import { DateTime, Result } from "effect"
 * import { Conversation, Run } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const at = DateTime.makeUnsafe(0)
 * const state = Run.start({
 *   _tag: "RunStarted",
 *   at,
 *   runId: "run_1",
 *   agent: "support",
 *   definition: "sha256:0",
 *   depth: 0,
 *   maxSteps: 16,
 *   structured: "never",
 *   context: {},
 *   conversation: Conversation.empty
 * })
 *
 * const decided = Run.decide(state, [{ callId: "call_1", digest: "sha256:0", approved: true }], at)
 * assert(Result.isFailure(decided))
 * assert.strictEqual(decided.failure.problem, "unknown")
 * ```
 *
 * @category transitions
 * @since 0.1.0
 */
export const decide = (
  self: State,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<Event>, InvalidDecision> => {
  const requests = approvalRequests(self)
  const decided = new Set<ApprovalRequest>()
  const events: Array<Event> = []
  for (const decision of decisions) {
    const found = findWaiting(decision, requests, decided, at)
    if (Result.isFailure(found)) {
      const pending = requests.map(({ callId }) => callId)
      return Result.fail(new InvalidDecision({ callId: String(decision.callId), problem: found.failure, pending }))
    }
    decided.add(found.success)
    events.push(decisionEvent(decision, found.success, at))
  }
  return Result.succeed(events)
}

/** A call or a step that a decision can be about. */
export type Waiting = Pick<Decision, "callId" | "path" | "digest">

const names = ({ callId, path }: Waiting, waiting: Waiting): boolean =>
  waiting.callId === callId && (path === undefined || Equal.equals(path, waiting.path ?? []))

export const concerns = (decision: Waiting, waiting: Waiting): boolean =>
  names(decision, waiting) && waiting.digest === decision.digest

/** The item that a decision which is taken now is about, or why it is refused. Earlier decisions are about `decided`. */
export const findWaiting = <W extends Waiting>(
  decision: Decision,
  waiting: ReadonlyArray<W>,
  decided: ReadonlySet<W>,
  at: DateTime.Utc
): Result.Result<W, InvalidDecision["problem"]> => {
  if (!isWellFormed(decision)) return Result.fail("malformed")
  const named = waiting.filter((one) => names(decision, one))
  const candidates = named.filter((one) => concerns(decision, one))
  const [one] = candidates
  if (one === undefined) return Result.fail(named.length === 0 ? "unknown" : "changed")
  if (candidates.length > 1) return Result.fail("ambiguous")
  if (decided.has(one)) return Result.fail("repeated")
  return isExpired(decision, at) ? Result.fail("expired") : Result.succeed(one)
}

const decisionEvent = (decision: Decision, { path = [] }: ApprovalRequest, at: DateTime.Utc): Event =>
  path.reduceRight<Event>((event, callId) => ({ _tag: "ChildEvent", at, callId, event }), {
    _tag: "ApprovalDecided",
    at,
    callId: decision.callId,
    ...verdictOf(decision)
  })

/** An event that no other is inside of, and the calls and steps around it. An event of a plan has its `PlanEvent` around it. */
interface Innermost {
  readonly event: Exclude<Event, { readonly _tag: "ChildEvent" }>
  readonly path: ReadonlyArray<string>
}

/** The event inside of the events of runs around it. */
export const innermost = (event: Event, path: ReadonlyArray<string> = []): Innermost => {
  if (event._tag === "ChildEvent") return innermost(event.event, [...path, event.callId])
  const inner = event._tag === "PlanEvent" ? event.event : undefined
  if (inner?._tag === "AgentChanged") return innermost(inner.event, [...path, inner.step])
  return inner?._tag === "NestedChanged"
    ? innermost({ _tag: "PlanEvent", event: inner.event }, [...path, inner.step])
    : { event, path }
}

export const timeOf = (event: Event): DateTime.Utc => (event._tag === "PlanEvent" ? event.event.at : event.at)

/** The finish reason of an answer that was cut off, because its run was stopped while the model was writing. */
export const cutOff = "interrupted"

/**
 * The reason why an answer with this finish reason ends the run, if it does. An answer
 * with a reason that is unknown here is whole.
 */
export const stopReasonOf = (finishReason: string | undefined): runParts.StopReason | undefined =>
  stopReasons.get(finishReason)

const stopReasons: ReadonlyMap<string | undefined, runParts.StopReason> = new Map(
  runParts.StopReason.literals.filter((reason) => reason !== "empty").map((reason) => [reason, reason])
)

/** The number of empty answers in a row that the model is asked again for. */
const defaultMaxEmpty = 1

/**
 * The tokens that an event reports, of the run itself or of a run inside it. The usage of a
 * run is the sum over its events.
 */
export const usageOf = (self: Event): Message.TokenUsage | undefined => {
  const { event } = innermost(self)
  if (event._tag === "ModelAnswered") return event.message.usage
  return event._tag === "AnswerDiscarded" ? event.usage : undefined
}

const deferrable: ReadonlySet<Event["_tag"]> = new Set([
  "RunStarted",
  "RunResumed",
  "ConversationFitted",
  "StepStarted",
  "ApprovalRequested",
  "ApprovalDecided"
])

const deferrableOfPlan: ReadonlySet<runParts.PlanRunEvent["_tag"]> = new Set([
  "PlanStarted",
  "PlanResumed",
  "StepDecided"
])

/** True for an event that can be written together with the next one: nothing has happened outside of the run before that. */
export const isDeferrable = (self: Event): boolean => {
  const { event } = innermost(self)
  return event._tag === "PlanEvent" ? deferrableOfPlan.has(event.event._tag) : deferrable.has(event._tag)
}

/** The decision in an event, of a plan for example. */
const decisionIn = (self: Event): Waiting | undefined => {
  const { event, path } = innermost(self)
  if (event._tag === "ApprovalDecided") return { ...event, path }
  return event._tag === "PlanEvent" && event.event._tag === "StepDecided" ? { ...event.event, path } : undefined
}

/** True for a decision, of this run or of one inside it, which has ended. A plan records its own while it runs. */
export const isDecision = (event: Event): boolean =>
  event._tag === "ChildEvent" ? isDecision(event.event) : event._tag === "ApprovalDecided"

/**
 * Requests of a run and of runs inside it. A request of the run itself has an empty path
 * where one inside has the same id.
 */
export const disambiguate = (requests: ReadonlyArray<ApprovalRequest>): ReadonlyArray<ApprovalRequest> => {
  const below = new Set(requests.filter(({ path }) => path !== undefined).map(({ callId }) => callId))
  return requests.map((request) =>
    request.path === undefined && below.has(request.callId) ? { ...request, path: [] } : request
  )
}

export const hasUserMessage = (conversation: history.Conversation): boolean =>
  history.messages(conversation).some(({ role }) => role === "user")

/** True for a run with a user message. It has none if it was cut off before its first input was recorded. */
export const hasInput = (self: State): boolean => self.pending.length > 0 || hasUserMessage(self.conversation)

/**
 * The decisions that a run needs, calls of agents that run as tools included.
 *
 * @category getters
 * @since 0.1.0
 */
export const approvalRequests = (self: State): ReadonlyArray<ApprovalRequest> => {
  const requests: Array<ApprovalRequest> = []
  addRequests(self, [], requests)
  return disambiguate(requests)
}

const addRequests = (self: State, path: ReadonlyArray<string>, requests: Array<ApprovalRequest>): void => {
  const add = ({ path: own = [], ...request }: ApprovalRequest) => {
    const whole = [...path, ...own]
    requests.push({ ...request, ...(whole.length === 0 ? undefined : { path: whole }) })
  }
  if (self.progress !== undefined) requestsInProgress(self.progress).forEach(add)
  for (const { part, status } of self.calls) {
    if (status._tag === "AwaitingApproval") {
      add({ callId: part.id, name: part.name, arguments: status.arguments, digest: status.digest })
    } else if (status._tag === "Started" && status.child !== undefined) {
      addRequests(status.child, [...path, part.id], requests)
    }
  }
}
