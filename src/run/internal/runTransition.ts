/**
 * The transition of runs: the next action of a state, and the state after an event. `Run` re-exports what users name.
 */

import * as Arr from "effect/Array"
import type * as Context from "effect/Context"
import type * as DateTime from "effect/DateTime"
import * as Equal from "effect/Equal"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Types from "effect/Types"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as history from "../../conversation/internal/history.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { unlimited } from "../../payload/internal/limits.ts"
import { parseSized } from "../../payload/internal/textScanner.ts"
import { defined } from "../../payload/internal/values.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as budgetRequest from "./budgetRequest.ts"
import * as accounts from "./accounts.ts"
import * as handoffs from "./handoffs.ts"
import * as ledger from "./ledger.ts"
import * as planTransition from "./planTransition.ts"
import * as runParts from "./runParts.ts"
import type { CallStatus, Event, EventOf, OpenCall, State, StateFields } from "./runParts.ts"
import { type Applied, type EventError, reject, rejectInside } from "./runFold.ts"
import * as repetition from "./repetition.ts"
import * as runRequests from "./runRequests.ts"

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
): string =>
  `expected a state of the definition ${expected}, found a state of ${found}. ${renderChanges(changes, accept)}`

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
 * - `answers`: the answers to the questions that its handler has asked. It asked them before, and runs again with them.
 * - `replaced`: the arguments that guards have put in place of the arguments of the model. They are not asked again.
 */
export interface RunnableCall {
  readonly part: Message.ToolCallPart
  readonly approved?: Extract<CallStatus, { readonly _tag: "Approved" }>
  readonly started: boolean
  readonly child?: State
  readonly answers?: ReadonlyArray<runRequests.Answered>
  readonly replaced?: Schema.Json
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
 * - `HandOff`: find the agent, and record `HandedOff` with its instructions.
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
        readonly handoff?: runParts.HandoffTerms
      }>
    }
  | { readonly _tag: "HandOff"; readonly agent: string }
  | { readonly _tag: "Finished"; readonly outcome: runParts.Outcome }

/** The action with this tag. */
export type ActionOf<Tag extends Action["_tag"]> = Extract<Action, { readonly _tag: Tag }>

type ApplyResult = Applied<State>

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
  const { _tag, at, budgets, contracts, parts, ...fields } = event
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
    account: budgets && ledger.open(undefined, budgets),
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

/** The state after an event that begins a run. */
export const begin = (event: Event | { readonly _tag: "no event" }): ApplyResult =>
  event._tag === "RunStarted"
    ? Result.succeed(start(event))
    : reject(event, "Unexpected", "RunStarted first", event._tag)

/**
 * The state after one more event.
 *
 * @category transitions
 * @since 0.1.0
 */
export const apply = (self: State, event: Event): Result.Result<State, EventError> => applyOrPlace(self, event)

/** The same. `inside` is the state of the run inside after the event that this one has in it: it is put in place as it is. */
export const applyOrPlace = (self: State, event: Event, inside?: planTransition.Inside): ApplyResult => {
  const isAnyTime = event._tag === "RunResumed" || event._tag === "ConversationRewound"
  if (self.outcome !== undefined && !isAnyTime && !runParts.isDecision(event)) {
    return unexpected(event, "a run under way (RunResumed first)", `a run that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !afterInterruption.has(event._tag)) {
    return unexpected(event, "a run under way", "a run that was interrupted and has to settle what started")
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
    case "GuardUsed":
    case "AnswerDiscarded": {
      const usage = addUsage(self.usage, event.usage)
      if ("guard" in event) return updateState(self, event, { usage })
      return self.plan === undefined
        ? inStep(self, event, (step) => ({ usage, step: withoutReserved(step) }))
        : updateState(self, event, { usage, plan: undefined, limited: false, step: undefined })
    }
    case "ModelMistaken":
      return inStep(self, event, (step) => ({
        mistakes: [...self.mistakes, event.problem],
        step: withoutReserved(step)
      }))
    case "BudgetNeared":
      return updateState(self, event, { account: self.account && ledger.report(self.account, event) })
    case "BudgetExceeded": {
      const { limit, scope, unit, used } = event
      return updateState(self, event, { exceeded: { scope, unit, limit, used }, step: undefined })
    }
    case "GuardDecided":
      return applyGuardDecided(self, event)
    case "StepRetried":
      return applyStepRetried(self, event)
    case "PlanEvent":
      return applyPlanEvent(self, event, inside)
    case "ApprovalRequested":
      if (self.limited) return outOfSteps(event)
      if (isForged(self, event)) {
        return wrongStatus(event, event.callId, "the digest of the request as it is shown", "another digest")
      }
      // A budget asks before a call, which is not made
      return event.budget !== undefined
        ? updateState(self, event, {
            exceeded: { ...ledger.usageOf(event.budget), ...defined({ asked: askedIn(event) }) },
            step: undefined
          })
        : changeCall(self, event, isHandlers(event.ask) ? ["Started"] : ["Requested", "Approved"], (before) => ({
            _tag: "AwaitingApproval",
            arguments: event.arguments,
            digest: event.digest,
            ...defined({
              ask: event.ask,
              bounds: event.bounds,
              approved: before._tag === "Started" ? before.approved : undefined,
              answers: answersOf(before)
            })
          }))
    case "ApprovalDecided":
      return applyApprovalDecided(self, event)
    case "ToolStarted":
      return self.limited ? outOfSteps(event) : applyToolStarted(self, event)
    case "ToolFinished":
      return applyToolFinished(self, event)
    case "HandedOff":
      return applyHandedOff(self, event)
    case "ChildEvent":
      return applyChildEvent(self, event, inside)
    case "RunInterrupted":
      return updateState(self, event, { interrupted: defined({ reason: event.reason }), step: undefined })
    case "RunFinished":
      return applyFinished(self, event)
    case "RunResumed":
      return updateState(self, event, {
        outcome: undefined,
        interrupted: undefined,
        // A question about a budget stays open, and an answer that stops the run ends it
        exceeded: self.outcome?._tag === "AwaitingApproval" && event.budgets === undefined ? self.exceeded : undefined,
        // A decision that was taken while the run waited
        refused: self.outcome?._tag === "AwaitingApproval" ? self.refused : undefined,
        account: resumedAccount(self, event),
        // A limit that was never reported, because the process died first, still holds
        limited: self.limited && self.outcome === undefined && event.maxSteps === undefined,
        step: undefined,
        model: undefined,
        mistakes: [],
        fresh: true,
        // The model gets another chance
        answer: self.outcome?._tag === "LoopDetected" ? undefined : self.answer,
        maxSteps: event.maxSteps ?? self.maxSteps,
        context: event.context ?? self.context,
        ...(event.change && changedFields(self, event.change))
      })
  }
}

/** True for a question of a handler, which runs again with the answer. */
const isHandlers = (ask: runRequests.Ask | undefined): boolean => ask?.number !== undefined

/** The answers to the questions that the handler of a call has asked. */
const answersOf = (status: CallStatus) => ("answers" in status ? status.answers : undefined)

/** The question about a budget in a request. */
const askedIn = ({ arguments: args, ask, bounds, budget: about, digest }: EventOf<"ApprovalRequested">) =>
  about && ask && { about, arguments: args, digest, ask, ...defined({ bounds }) }

/** A request whose digest covers other arguments than it shows. */
const isForged = (self: State, event: EventOf<"ApprovalRequested">): boolean => {
  const { arguments: args, ask, bounds, callId, contract, digest } = event
  const asked = askedIn(event)
  if (event.budget !== undefined) return asked === undefined || runParts.isForgedLimit(asked)
  const call = openCall(self, callId)
  const of = contract?.digest ?? call?.contract
  return (
    call !== undefined &&
    runParts.isForged(self, callId, { arguments: args, ask, bounds, digest, ...defined({ contract: of }) })
  )
}

/**
 * True for a state, read from outside, that shows other requests than were asked. Its Schema checks the requests of
 * calls.
 */
export const isForgedState = (self: State): boolean =>
  (self.plan !== undefined && plans.isForged(self.plan)) ||
  !endsWithRequests(self) ||
  self.calls.some(
    ({ status }) => status._tag === "Started" && status.child !== undefined && isForgedState(status.child)
  )

/** True if the run ended with every request that still waits. */
const endsWithRequests = (self: State): boolean => {
  const { outcome } = self
  if (outcome?._tag !== "AwaitingApproval") return true
  return requests(self).every((request) => outcome.requests.some((shown) => Equal.equals(request, shown)))
}

/** A state without its version. Its requests are as they were asked. */
export const StateSchema: Schema.Codec<State, unknown> = runParts.StateSchema.check(
  Schema.makeFilter((state) => !isForgedState(state), { expected: "the requests as they were asked" })
)

const changedFields = (
  self: State,
  { back, definition, parts, structured }: runParts.DefinitionChange
): Partial<StateFields> => ({
  basis: { definition, parts, contracts: self.basis?.contracts ?? [] },
  structured: structured ?? self.structured,
  ...(back && { handoffs: [...handoffs.madeHandoffs(self), { agent: self.agent }] })
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
    if (settled.length > 0) return { _tag: "RunTools", calls: [], settled }
    return { _tag: "Finished", outcome: cutOffOutcome(self, self.interrupted) }
  }
  const exceeded = exceededOutcome(self)
  if (exceeded !== undefined) return { _tag: "Finished", outcome: exceeded }
  const waiting = self.exceeded === undefined ? undefined : waitingFor(requests(self))
  if (waiting !== undefined) return waiting
  if (self.limited) return { _tag: "Finished", outcome: { _tag: "MaxSteps" } }
  if (self.plan !== undefined) return nextInPlan(self, self.plan)
  if (self.calls.length > 0) return nextForCalls(self)
  const handoff = handoffs.openHandoff(self)
  return handoff === undefined ? nextAfterAnswer(self) : { _tag: "HandOff", agent: handoff.agent }
}

/** The outcome of a run whose budget has refused a call or is used up, or that a guard has refused to continue. */
const exceededOutcome = ({ exceeded, refused }: State): runParts.Outcome | undefined => {
  if (refused !== undefined) return { _tag: "Refused", ...refused }
  return exceeded === undefined || exceeded.asked !== undefined ? undefined : { _tag: "BudgetExceeded", ...exceeded }
}

/** The outcome of a run that was cut off: it waits where the time of its budget is over, and the budget asks. */
export const cutOffOutcome = (self: State, why: NonNullable<State["interrupted"]>): runParts.Outcome => {
  const waiting = self.exceeded?.asked === undefined ? [] : requests(self)
  return (
    exceededOutcome(self) ??
    (Arr.isReadonlyArrayNonEmpty(waiting)
      ? { _tag: "AwaitingApproval", requests: waiting }
      : { _tag: "Interrupted", ...why })
  )
}

type Settlement = ActionOf<"RunTools">["settled"][number]

/** The calls that started, which an interruption has cut off. None of them runs again. */
export const recover = (self: State): ReadonlyArray<Settlement> =>
  self.calls.flatMap(({ part, status }) =>
    status._tag === "Started" && heldOf(self, part.id) === undefined ? [settleCall(part, lostCall)] : []
  )

/** The result of a call about which a person is asked. */
const heldOf = ({ held }: State, callId: string): runParts.Held | undefined =>
  held?.find((one) => one.callId === callId)

/** The answer that a person has approved, which is the answer of the next model call. */
export const approvedAnswer = ({ held }: State): Message.AssistantMessage | undefined =>
  held?.find(({ answer, approved }) => approved && answer !== undefined)?.answer

/** The result of a call whose own result is not to be seen: the call was made. */
export const withheldResult = ToolResult.failure(
  "withheld",
  "The call was made, and its result was withheld by a guard."
)

/** A message of the user without its text and files. */
export const withheldMessage = (message: Message.UserMessage): Message.UserMessage => ({
  ...message,
  content: [ToolResult.textPart("[This message was withheld by a guard.]")]
})

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

/** One decision is enough for a plan to continue. A step that paused by itself runs again in a run that was resumed. */
const nextInPlan = (self: State, { outcome }: runParts.PlanState): Action => {
  const open = requests(self)
  const isContinued = outcome?._tag === "Paused" && open.length < outcome.requests.length
  return Arr.isReadonlyArrayNonEmpty(open) && !isContinued && !(self.fresh && hasPauses(self))
    ? { _tag: "Finished", outcome: { _tag: "AwaitingApproval", requests: open } }
    : nextModelCall(self, "answer")
}

const nextForCalls = (self: State): Action => {
  const calls: Array<RunnableCall> = []
  const settled: Array<Settlement> = []
  for (const { part, replaced, status } of self.calls) {
    switch (status._tag) {
      case "Requested":
        calls.push(defined({ part, started: false, answers: status.answers, replaced }))
        break
      case "Approved":
        calls.push(defined({ part, approved: status, started: false, answers: status.answers, replaced }))
        break
      case "Settled":
        settled.push(settleCall(part, status.result))
        break
      case "Started": {
        const held = heldOf(self, part.id)
        if (held !== undefined) {
          const { approved, handoff, result } = held
          if (approved && result !== undefined) settled.push({ ...settleCall(part, result), ...defined({ handoff }) })
        } else if (status.child !== undefined) {
          if (!awaitsDecisions(status.child)) calls.push({ part, started: true, child: status.child })
        } else if (status.idempotent === true) {
          calls.push(defined({ part, approved: status.approved, started: true, answers: status.answers, replaced }))
        } else {
          settled.push(settleCall(part, lostCall))
        }
        break
      }
      case "AwaitingApproval":
        break
    }
  }
  const waiting = calls.length > 0 || settled.length > 0 ? undefined : waitingFor(requests(self))
  return waiting ?? { _tag: "RunTools", calls, settled }
}

/** The end of a run that waits for decisions about requests. */
const waitingFor = (waiting: ReadonlyArray<runRequests.Request>): ActionOf<"Finished"> | undefined =>
  Arr.isReadonlyArrayNonEmpty(waiting)
    ? { _tag: "Finished", outcome: { _tag: "AwaitingApproval", requests: waiting } }
    : undefined

/** True for a child that ended because it needs decisions, and still has none that lets it continue. */
const awaitsDecisions = (child: State): boolean => {
  if (child.outcome?._tag !== "AwaitingApproval") return false
  const action = next(copyWith(child, { outcome: undefined, interrupted: undefined }))
  return action._tag === "Finished" && action.outcome._tag === "AwaitingApproval"
}

const nextAfterAnswer = (self: State): Action => {
  const { answer } = self
  const waiting = self.held?.some(({ approved }) => approved === undefined) ? requests(self) : []
  if (Arr.isReadonlyArrayNonEmpty(waiting)) {
    return { _tag: "Finished", outcome: { _tag: "AwaitingApproval", requests: waiting } }
  }
  const purpose = self.structured === "always" ? "structured" : "answer"
  if (answer === undefined) return nextModelCall(self, purpose)
  const finishReason = stopReasonOf(answer.finishReason)
  if (finishReason !== undefined) return { _tag: "Finished", outcome: { _tag: "Stopped", finishReason } }
  const { output } = answer
  if (output?._tag === "Valid") return { _tag: "Finished", outcome: { _tag: "Completed", output: output.value } }
  const repeated = answer.calls > 0 || answer.outputCall ? repetitionIn(self, answer.repeatedCalls) : undefined
  if (repeated !== undefined && repetition.isEnd(repeated, answer.repeatedCalls)) {
    return { _tag: "Finished", outcome: { _tag: "LoopDetected", ...repeated } }
  }
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

/** The number of times in a row that the newest calls were made with the same results. */
export const repetitionIn = (
  self: State,
  limits: repetition.RepeatedCalls | undefined
): repetition.Repetition | undefined =>
  self.steps < repetition.least(limits)
    ? undefined
    : repetition.find(self.conversation, limits, (tool) => newestContract(self, tool)?.annotations.polls === true)

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
  "BudgetNeared",
  "GuardDecided",
  "GuardUsed",
  "ConversationRewound",
  "RunFinished",
  "RunResumed"
])

/** The limits of the budgets of a run, and how much of them is used. What is reserved counts, and the time up to now. */
export const usagesOf = (
  self: State,
  now?: DateTime.Utc,
  beside?: ledger.Amounts
): ReadonlyArray<ledger.Limit> | undefined => {
  const { account } = self
  return account && accounts.usages(self, account, runParts.reservedIn(self), now, beside)
}

/** No time passes between a process that died and the next one. */
const resumedAccount = (self: State, event: EventOf<"RunResumed">): StateFields["account"] => {
  const charged = self.account && ledger.charge(self.account, runParts.chargeOf(event) ?? {})
  return event.budgets === undefined ? charged : ledger.open(charged, event.budgets)
}

/** The event that follows from a state: most of a budget is used. */
export const followOf = ({ account, outcome, updatedAt }: State): Event | undefined => {
  if (account === undefined || outcome !== undefined) return undefined
  const near = ledger.nearing(account)
  return near && { _tag: "BudgetNeared", at: updatedAt, ...near }
}

const updateState = (self: State, event: Event, fields: Partial<StateFields>): ApplyResult => {
  const state: Types.Mutable<State> = copyWith(self, fields)
  state.updatedAt = runParts.timeOf(event)
  state.revision += 1
  if (self.account !== undefined && fields.account === undefined) {
    Object.assign(state, accounts.after(self, self.account, event))
  }
  return takePending(state, event)
}

/** Writes into a new state, which no other code has. */
const copyWith = (self: State, fields: Partial<StateFields>): State => Object.assign(new runParts.State(self), fields)

/** Puts waiting user messages, and the newest instructions behind them, into the conversation, once nothing is open: a fresh budget. */
const takePending = (self: State, event: Event): ApplyResult => {
  if (self.pending.length === 0 || isAnswering(self)) return Result.succeed(self)
  const maxSteps = self.pending.at(-1)?.maxSteps ?? self.maxSteps
  const messages: Array<Message.Message> = self.pending.map(({ message }) => message)
  const instructed = self.pending.findLast(({ instructions }) => instructions !== undefined)
  if (instructed?.instructions !== undefined) messages.push(instructed.instructions)
  const fresh = { pending: [], steps: 0, answer: undefined, limited: false, mistakes: [] }
  return Result.map(appendAll(self, event, messages), (histories) =>
    copyWith(self, { ...fresh, ...histories, maxSteps })
  )
}

/** True while calls are open, a plan is under way, or a request or an answer is held: user messages wait. */
const isAnswering = ({ calls, held, plan }: State): boolean =>
  calls.length > 0 || plan !== undefined || held?.some(isOpen) === true

/** True for a value that is held up. A message has entered the run. */
const isOpen = ({ answer, on }: runParts.Held): boolean => on !== "input" || answer !== undefined

const inStep = (
  self: State,
  event: Event,
  fields: (step: NonNullable<State["step"]>) => Partial<StateFields>
): ApplyResult => (self.step === undefined ? noStep(event) : updateState(self, event, fields(self.step)))

const withoutReserved = ({ reserved: _, ...step }: NonNullable<State["step"]>): State["step"] => step

const noStep = (event: Event) => unexpected(event, "a StepStarted before it", "no model call under way")

const outOfSteps = (event: Event) =>
  unexpected(event, "steps left for the calls of the newest answer", "an answer that used up the budget")

const addUsage = (total: Message.TokenUsage, usage: Message.TokenUsage | undefined): Message.TokenUsage =>
  usage === undefined ? total : Message.sumUsage([total, usage])

/** The whole conversation, and the view of it that models receive. */
type Histories = Pick<State, "conversation" | "view">

const appendMessage = (self: Histories, event: Event, message: Message.Message): Applied<Histories> => {
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

const appendAll = (self: Histories, event: Event, messages: ReadonlyArray<Message.Message>): Applied<Histories> => {
  let histories: Histories = { conversation: self.conversation, view: self.view }
  for (const message of messages) {
    const appended = appendMessage(histories, event, message)
    if (Result.isFailure(appended)) return appended
    histories = appended.success
  }
  return Result.succeed(histories)
}

const appendTo = (
  self: history.Conversation,
  event: Event,
  message: Message.Message
): Applied<history.Conversation> => {
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
  if (maxSteps === undefined) return applySteering(self, event)
  const pending = [...self.pending, { message, maxSteps, ...defined({ instructions }) }]
  // A message that waits is refused now if it could never be taken
  const fits: Applied<unknown> = isAnswering(self) ? appendTo(Conversation.empty, event, message) : Result.void
  // A message waits for a step that has paused, and does not run it again
  const fresh = self.fresh && self.plan === undefined
  return Result.flatMap(fits, () => updateState(self, event, { pending, limited: false, fresh }))
}

/**
 * True for a run that a message can enter without a budget of its own: a model is asked next, and not for the rest of an answer that
 * paused.
 */
export const isSteerable = (self: State): boolean =>
  self.step === undefined &&
  self.plan === undefined &&
  self.held === undefined &&
  self.answer?.finishReason !== "pause" &&
  next(self)._tag === "CallModel"

/** The message enters the conversation at once, and what the newest answer asked for is no longer the next step. */
const applySteering = (self: State, event: EventOf<"InputAdded">): ApplyResult => {
  if (!isSteerable(self))
    return unexpected(event, "a model call next that begins an answer, or a message with maxSteps", next(self)._tag)
  const { instructions, message } = event
  const messages = instructions === undefined ? [message] : [message, instructions]
  return Result.flatMap(appendAll(self, event, messages), (histories) =>
    updateState(self, event, { ...histories, answer: undefined })
  )
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
  const made = handoffs.madeHandoffs(self)
  const ids = new Set(made.length === 0 ? [] : history.messages(conversation).map(({ id }) => id))
  const kept = made.filter(({ message = "" }) => ids.has(message))
  const undone = made[kept.length]
  // A summary took its place there: the conversation is fitted again
  const view = undone === undefined ? self.view && history.beforeUser(self.view, messageId) : undefined
  return updateState(self, event, {
    conversation,
    view: view ?? handoffs.viewOf(conversation, kept),
    handoffs: kept.length === 0 ? undefined : kept,
    structured: undone?.structured ?? self.structured,
    calls: [],
    pending: [],
    held: undefined,
    answer: undefined,
    plan: undefined,
    limited: false,
    step: undefined,
    mistakes: [],
    interrupted: undefined,
    outcome: { _tag: "Interrupted" }
  })
}

const applyStepStarted = (self: State, event: EventOf<"StepStarted">): ApplyResult => {
  const action = next(self)
  const { purpose, reserved, step } = event
  if (action._tag === "CallModel" && action.step === step && action.purpose === purpose) {
    return updateState(self, event, { step: { step, purpose, ...defined({ reserved }) } })
  }
  const expected =
    action._tag === "CallModel" ? `step ${action.step} (${action.purpose})` : `what comes next: ${action._tag}`
  return unexpected(event, expected, `step ${step} (${purpose})`)
}

/** A refusal ends the run, with its calls open. Other arguments of a call stay with the call, and what a person is asked about is held. */
const applyGuardDecided = (self: State, event: EventOf<"GuardDecided">): ApplyResult => {
  const { arguments: replaced, callId, guard, held, messageId, on, reason = "", verdict } = event
  if (verdict === "Refused") {
    return updateState(self, event, { ...without(self, messageId), refused: { guard, on, reason }, step: undefined })
  }
  if (held !== undefined) return updateState(self, event, { held: [...(self.held ?? []), held], step: undefined })
  if (callId === undefined || replaced === undefined) return updateState(self, event, {})
  return withCall(self, event, callId, ["Requested"], (status) =>
    updateState(self, event, { calls: withStatus(self.calls, indexOfCall(self, callId), status, { replaced }) })
  )
}

/** The values that are still held. */
const stillHeld = ({ held }: State, isHeld: (one: runParts.Held) => boolean): Pick<State, "held"> => {
  const rest = held?.filter(isHeld)
  return { held: rest?.length === 0 ? undefined : rest }
}

/** Withholds a message that has entered the run, from this and all later requests. */
const without = (self: State, id: string | undefined): Partial<StateFields> => {
  const withheld = <M extends Message.Message>(message: M): M | Message.UserMessage =>
    message.role === "user" && message.id === id ? withheldMessage(message) : message
  const replaced = (from: history.Conversation) => {
    const before = id === undefined ? undefined : history.beforeUser(from, id)
    if (before === undefined) return from
    const rest = history.messages(from).slice(history.messages(before).length).map(withheld)
    return Result.getOrElse(history.appendAll(before, rest), () => before)
  }
  return {
    conversation: replaced(self.conversation),
    view: self.view && replaced(self.view),
    pending: self.pending.map((one) => ({ ...one, message: withheld(one.message) }))
  }
}

/** A denial is the refusal of the guard. */
const applyHeldDecided = (self: State, event: EventOf<"ApprovalDecided">, held: runParts.Held): ApplyResult => {
  const { guards, messageId, on, reason, result } = held
  if (held.digest !== event.digest) return otherDigest(event, held.id)
  const { held: rest = [] } = stillHeld(self, (one) => one !== held)
  const { handoff: _, ...denied } = held
  const after = event.approved ? held : { ...denied, result: withheldResult }
  // A message has entered the run, and a call gets its result
  const isKept = event.approved ? isOpen(held) : result !== undefined
  const all = isKept ? [...rest, { ...after, approved: true as const }] : rest
  return updateState(self, event, {
    ...(!event.approved && {
      ...without(self, messageId),
      refused: { guard: guards[0], on, reason: event.reason ?? reason }
    }),
    held: all.length === 0 ? undefined : all
  })
}

const applyStepRetried = (self: State, event: EventOf<"StepRetried">): ApplyResult => {
  const { attempt, model, reserved } = event
  // Another model has attempts of its own
  const next = model === undefined ? (self.step?.attempt ?? 1) + 1 : 1
  if (attempt !== next) return unexpected(event, `attempt ${next}`, `attempt ${attempt}`)
  return inStep(self, event, (step) => ({
    step: { ...step, attempt, ...defined({ reserved }) },
    model: model ?? self.model
  }))
}

/** The question about a budget has its answer. The run that has the budget is changed by the event, see `accounts`. */
const applyBudgetDecided = (self: State, event: EventOf<"ApprovalDecided">, about: budgetRequest.About): ApplyResult =>
  event.granted === undefined || Equal.equals(budgetRequest.grantOf(about, event), event.granted)
    ? updateState(self, event, { exceeded: undefined })
    : wrongStatus(event, event.callId, "the amount that the answer grants", "another amount")

/** The output as the model wrote it: the arguments of the output call, or the JSON of the text. `undefined` where there is none. */
const writtenOutput = (message: Message.AssistantMessage, outputCall: string | undefined): Schema.Json | undefined =>
  outputCall === undefined
    ? Result.getOrUndefined(parseSized(Message.text(message), unlimited))
    : Message.toolCalls(message).find(({ id }) => id === outputCall)?.arguments

/** The check of an answer as its event has it: without a value that the message has already. */
export const recordedCheck = (
  message: Message.AssistantMessage,
  output: runParts.OutputCheck,
  outputCall?: string
): runParts.RecordedCheck =>
  output._tag === "Valid" && Equal.equals(writtenOutput(message, outputCall), output.value)
    ? { _tag: output._tag }
    : output

const checkOf = ({ message, output, outputCall }: EventOf<"ModelAnswered">): runParts.OutputCheck | undefined => {
  if (output === undefined || output._tag === "Invalid") return output
  const { value = writtenOutput(message, outputCall) } = output
  return value === undefined ? undefined : { _tag: output._tag, value }
}

const applyModelAnswered = (self: State, event: EventOf<"ModelAnswered">): ApplyResult => {
  if (self.step === undefined) return noStep(event)
  const { message } = event
  const output = checkOf(event)
  if (output === undefined && event.output !== undefined) {
    return unexpected(event, "an output, or an answer that is JSON", "neither")
  }
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
      updateState(self, event, { ...answerFields(self, event, output, purpose, histories, calls), basis })
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
  { maxEmpty, message, outputCall, repeatedCalls }: EventOf<"ModelAnswered">,
  output: runParts.OutputCheck | undefined,
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
  const isAsked = self.plan === undefined && output?._tag !== "Valid"
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
      ...defined({ empty, maxEmpty, repeatedCalls }),
      ...(paused ? undefined : output && { output })
    },
    limited: asksForMore && !hasStepsLeft({ steps, maxSteps: self.maxSteps }),
    ...stillHeld(self, ({ callId }) => callId !== undefined),
    step: undefined,
    mistakes: [],
    plan: undefined,
    fresh: false
  }
}

/** The synthetic output tool never runs: the check of the output is its result. */
const settleOutput = (
  event: EventOf<"ModelAnswered">,
  calls: ReadonlyArray<OpenCall>
): Applied<ReadonlyArray<OpenCall>> => {
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

const withStatus = (
  calls: ReadonlyArray<OpenCall>,
  index: number,
  status: CallStatus,
  more?: Pick<OpenCall, "asked" | "contract" | "replaced">
): ReadonlyArray<OpenCall> => {
  const call = calls[index]
  return call === undefined ? calls : calls.with(index, { ...call, ...more, status })
}

/** The mark of the result of a call that a person was asked for. */
export const askedFor = (self: State, callId: string): Pick<OpenCall, "asked"> | undefined => {
  const call = openCall(self, callId)
  return call !== undefined && (call.asked === true || showsRequest(call.status)) ? { asked: true } : undefined
}

/** True for a status that shows that a person was asked. The call has a mark where its status does not. */
const showsRequest = (status: CallStatus): boolean =>
  status._tag === "AwaitingApproval" ||
  status._tag === "Approved" ||
  (status._tag === "Started" && status.approved !== undefined) ||
  (status._tag === "Settled" && typeOf(status.result) === "denied")

const markAfter = (before: CallStatus, after: CallStatus): Pick<OpenCall, "asked"> | undefined =>
  showsRequest(before) && !showsRequest(after) ? { asked: true } : undefined

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
    const { contract } = event
    const after = statusAfter(before)
    const calls = withStatus(self.calls, index, after, {
      ...(contract && { contract: contract.digest }),
      ...markAfter(before, after)
    })
    return updateState(
      self,
      event,
      contract === undefined ? { calls } : { calls, basis: withContracts(self, [contract], calls) }
    )
  })

const applyToolStarted = (self: State, event: EventOf<"ToolStarted">): ApplyResult =>
  changeCall(self, event, ["Requested", "Approved"], (before) => {
    const { idempotent } = event
    const approved = before._tag === "Approved" ? before : undefined
    return { _tag: "Started", ...defined({ idempotent, approved, answers: answersOf(before) }) }
  })

const applyApprovalDecided = (self: State, event: EventOf<"ApprovalDecided">): ApplyResult => {
  if (self.exceeded?.asked?.digest === event.digest) return applyBudgetDecided(self, event, self.exceeded.asked.about)
  const held = self.held?.find(({ approved, id }) => approved === undefined && id === event.callId)
  return held === undefined ? applyCallDecided(self, event) : applyHeldDecided(self, event, held)
}

const applyCallDecided = (self: State, event: EventOf<"ApprovalDecided">): ApplyResult =>
  withCall(self, event, event.callId, ["AwaitingApproval"], (status) => {
    if (status._tag !== "AwaitingApproval" || status.digest !== event.digest) return otherDigest(event, event.callId)
    const { answer = null, approved, ...terms } = runRequests.verdictOf(event)
    const { answers: before = [], arguments: args, ask } = status
    const decide = (): CallStatus => {
      if (approved === false)
        return { _tag: "Settled", result: ToolResult.failure("denied", event.reason ?? denied(ask)) }
      if (ask === undefined)
        return { _tag: "Approved", arguments: args, ...terms, ...defined({ answers: status.answers }) }
      if (!isHandlers(ask)) return { _tag: "Settled", result: answeredWith(answer, event.reason) }
      const answers = [...before, { question: runRequests.questionIn(args), answer }]
      return { ...(status.approved ?? { _tag: "Requested" }), answers }
    }
    const after = decide()
    const calls = withStatus(self.calls, indexOfCall(self, event.callId), after, markAfter(status, after))
    return updateState(self, event, { calls })
  })

/** The model reads the reason behind the answer. */
const answeredWith = (answer: Schema.Json, reason: string | undefined): ToolResult.Success => {
  const result = ToolResult.success(answer)
  return reason === undefined
    ? result
    : ToolResult.success(answer, [ToolResult.textPart(ToolResult.text(result)), ToolResult.textPart(reason)])
}

const denied = (ask: runRequests.Ask | undefined): string =>
  ask === undefined ? "The call was denied." : "There was no answer."

const otherDigest = (event: Event, callId: string) =>
  wrongStatus(event, callId, "a decision about the request", "a decision with another digest")

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

const closeCall = (self: State, event: EventOf<"ToolFinished">): ApplyResult => {
  const { handoff, message } = event
  if (handoff !== undefined && (message.result._tag === "Failure" || handoffs.openHandoff(self) !== undefined))
    return unexpected(event, "one handoff of an answer, with a result that is a success", "another handoff")
  return Result.flatMap(appendMessage(self, event, message), ({ conversation, view }) => {
    const calls = self.calls.toSpliced(indexOfCall(self, message.callId), 1)
    const asked = handoff && { handoffs: [...handoffs.madeHandoffs(self), handoff] }
    const held = stillHeld(self, ({ callId }) => callId !== message.callId)
    return updateState(self, event, { conversation, view, calls, ...held, ...asked })
  })
}

/** The instructions are in the conversation where they begin, and in front of what the model of the agent sees. */
const applyHandedOff = (self: State, event: EventOf<"HandedOff">): ApplyResult => {
  const { agent, message, structured } = event
  const open = handoffs.openHandoff(self)
  const action = next(self)
  if (open === undefined || action._tag !== "HandOff" || open.agent !== agent)
    return unexpected(event, `what comes next: ${action._tag}`, `a handoff to ${JSON.stringify(agent)}`)
  return Result.flatMap(appendTo(self.conversation, event, message), (conversation) => {
    const before = structured !== undefined && { structured: self.structured }
    return updateState(self, event, {
      conversation,
      view: handoffs.viewAfter(self.view ?? self.conversation, open, message),
      handoffs: [...handoffs.madeHandoffs(self), { ...open, ...before, message: message.id }],
      structured: structured ?? self.structured,
      model: undefined,
      mistakes: []
    })
  })
}

const typeOf = (result: ToolResult.ToolResult): string => (result._tag === "Failure" ? result.type : "success")

const applyChildEvent = (
  self: State,
  event: EventOf<"ChildEvent">,
  inside: planTransition.Inside | undefined
): ApplyResult =>
  withCall(self, event, event.callId, ["Started"], (status) => {
    const before = status._tag === "Started" ? status.child : undefined
    const isAnew = event.event._tag === "RunStarted" && event.event.runId !== before?.runId
    const known = inside instanceof runParts.State ? Result.succeed(inside) : undefined
    const after = known ?? (before === undefined || isAnew ? startChild(self, event) : apply(before, event.event))
    if (Result.isFailure(after)) return rejectInside([event.callId], after.failure)
    return updateState(self, event, {
      calls: withStatus(self.calls, indexOfCall(self, event.callId), { _tag: "Started", child: after.success }),
      usage: addUsage(self.usage, runParts.usageOf(event.event))
    })
  })

const startChild = (self: State, { event }: EventOf<"ChildEvent">): ApplyResult => {
  if (event._tag !== "RunStarted") return unexpected(event, "RunStarted first", event._tag)
  return event.depth === self.depth + 1
    ? Result.succeed(start(event))
    : unexpected(event, `depth ${self.depth + 1}`, `depth ${event.depth}`)
}

/** An answer without the count of empty answers. */
const uncounted = ({ empty: _, ...answer }: NonNullable<State["answer"]>): State["answer"] => answer

const applyFinished = (self: State, event: EventOf<"RunFinished">): ApplyResult => {
  const action = next(self)
  const { outcome } = event
  // Runs that were recorded before empty answers were asked again ended with them
  const before = self.answer?.empty === undefined ? action : next(copyWith(self, { answer: uncounted(self.answer) }))
  if (outcome._tag === "AwaitingApproval" && !Equal.equals(outcome.requests, requests(self))) {
    return unexpected(event, "the requests as they were asked", "other requests")
  }
  const known = [action, before].find((one) => one._tag === "Finished" && one.outcome._tag === outcome._tag)
  if (known?._tag === "Finished") {
    const isWhole = outcome._tag !== "Completed" || outcome.output !== undefined
    return updateState(self, event, { outcome: isWhole ? outcome : known.outcome, step: undefined })
  }
  const expected = action._tag === "Finished" ? action.outcome._tag : `what comes next: ${action._tag}`
  return unexpected(event, expected, outcome._tag)
}

const applyPlanEvent = (
  self: State,
  event: EventOf<"PlanEvent">,
  inside: planTransition.Inside | undefined
): ApplyResult => {
  const { event: inner } = event
  if (self.step === undefined && !runParts.isDecision(event)) return noStep(event)
  const known = inside instanceof runParts.PlanState ? Result.succeed(inside) : undefined
  const after = known ?? (self.plan === undefined ? plans.begin(inner) : plans.apply(self.plan, inner))
  return Result.isFailure(after)
    ? Result.fail(after.failure)
    : updateState(self, event, {
        plan: after.success,
        limited: after.success.outcome?._tag === "LimitReached",
        fresh: false,
        usage: addUsage(self.usage, runParts.usageOf(event))
      })
}

/** True while a step of a plan waits that has paused by itself. */
export const hasPauses = ({ plan }: State): boolean =>
  plan?.outcome?._tag === "Paused" && plan.outcome.requests.some(({ _tag }) => _tag === "Pause")

/**
 * The events that record decisions. Each must be about a call that waits by an event of this
 * run, and only one per call.
 *
 * **Details**
 *
 * They can be applied to a run that has ended, and come before its `RunResumed`. `at` is the time at which the
 * decisions are taken: a decision that has expired by then is refused. Requests whose `expiresAt` is over are decided first, and a
 * decision about them is refused as `alreadyAnswered`.
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
  decisions: ReadonlyArray<runRequests.Decision> | undefined,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<Event>, runRequests.InvalidDecision> => runRequests.decide(openIn(self), decisions, at)

/** The same in a run that is resumed: a session has settled the requests whose time is over, and has checked the decisions when they came. */
export const decideIn = (
  self: State,
  decisions: ReadonlyArray<runRequests.Decision>,
  at: DateTime.Utc,
  context: Context.Context<never>
): Result.Result<ReadonlyArray<Event>, runRequests.InvalidDecision> =>
  runRequests.decide(openIn(self), decisions, at, runRequests.isInSession(context))

/** The requests of a run, with the events that record decisions about them. */
export const openIn = ({
  calls,
  context,
  exceeded,
  held = [],
  plan
}: State): ReadonlyArray<runRequests.Open<Event>> => [
  ...(exceeded?.asked === undefined ? [] : [openAbout(exceeded.asked)]),
  ...(plan?.outcome?._tag === "Paused" ? plans.openIn(plan).map(openInPlan) : []),
  ...calls.flatMap(({ contract, part: { id: callId, name }, status }): ReadonlyArray<runRequests.Open<Event>> => {
    if (status._tag === "AwaitingApproval") {
      return [
        {
          request: runRequests.requestOf({ ...status, callId, name }),
          equal:
            contract === undefined
              ? undefined
              : () =>
                  runParts.equalDigest(context, {
                    contract,
                    arguments: status.arguments,
                    ...runParts.termsOf(status.ask, status.bounds)
                  }),
          record: (verdict, at) => ({ _tag: "ApprovalDecided", at, callId, ...verdict })
        }
      ]
    }
    return status._tag === "Started" && status.child !== undefined
      ? runRequests.inside(openIn(status.child), [callId], (event, at) => ({ _tag: "ChildEvent", at, callId, event }))
      : []
  }),
  ...held
    .filter(({ approved }) => approved === undefined)
    .map((one): runRequests.Open<Event> => ({
      request: runParts.heldRequest(one),
      record: (verdict, at) => ({ _tag: "ApprovalDecided", at, callId: one.id, ...verdict })
    }))
]

/** The question about a budget. */
const openAbout = ({
  about,
  ...asked
}: NonNullable<NonNullable<State["exceeded"]>["asked"]>): runRequests.Open<Event> => {
  const callId = budgetRequest.idOf(about)
  const again = (verdict: runRequests.Verdict, at: DateTime.Utc): EventOf<"ApprovalDecided"> => ({
    _tag: "ApprovalDecided",
    at,
    callId,
    ...verdict
  })
  return {
    request: runRequests.requestOf({ ...asked, callId, name: budgetRequest.name }),
    record: (verdict, at) => ({ ...again(verdict, at), granted: budgetRequest.grantOf(about, verdict) }),
    again
  }
}

const openInPlan = ({
  again,
  equal,
  record,
  request
}: runRequests.Open<runParts.PlanRunEvent>): runRequests.Open<Event> => ({
  equal,
  request,
  record: (verdict, at) => ({ _tag: "PlanEvent", event: record(verdict, at) }),
  again: again && ((verdict, at) => ({ _tag: "PlanEvent", event: again(verdict, at) }))
})

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

export const hasUserMessage = (conversation: history.Conversation): boolean =>
  history.messages(conversation).some(({ role }) => role === "user")

/** True for a run with a user message. It has none if it was cut off before its first input was recorded. */
export const hasInput = (self: State): boolean => self.pending.length > 0 || hasUserMessage(self.conversation)

/**
 * The requests that a run waits with. Requests of agents that run as tools are among them.
 *
 * @category getters
 * @since 0.1.0
 */
export const requests = (self: State): ReadonlyArray<runRequests.Request> => runRequests.requestsOf(openIn(self))

/** The transition of plans, which run in the place of a model, and in whose steps agents run. */
export const plans = planTransition.withAgents({ begin, apply, openIn, isForged: isForgedState })

/** The state of a plan without its version. Its requests are as they were asked. */
export const PlanStateSchema: Schema.Codec<runParts.PlanState, unknown> = runParts.PlanStateSchema.check(
  Schema.makeFilter((state) => !plans.isForged(state), { expected: "the requests as they were asked" })
)
