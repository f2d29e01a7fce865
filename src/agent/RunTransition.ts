/**
 * The pure core of a run: which events may follow a state, and what comes next.
 *
 * **When to use**
 *
 * Agents use it for you. Use it directly to write a driver of your own: one that
 * stores events in a database, or that makes each model call a durable activity. A
 * driver asks {@link next}, does it, and applies what happened as events; it needs no
 * other rule. The same answers and results give the same conversation under every
 * driver.
 *
 * **Details**
 *
 * The first rule of this table that fits a state gives its next action.
 *
 * | state | next |
 * |---|---|
 * | has an outcome | `Finished` with it |
 * | interrupted, some calls started | `RunTools`: each of them settled `interrupted` |
 * | interrupted | `Finished`: `Interrupted` |
 * | the newest answer asks for more and used up the budget | `Finished`: `MaxSteps`, its calls stay open |
 * | has progress, which waits for decisions and has none | `AwaitApproval` |
 * | has progress | `CallModel`: the same step again |
 * | open calls that can run or are settled | `RunTools` |
 * | open calls, all waiting for decisions | `AwaitApproval` |
 * | no answer since the newest user message, or none at all in this run | `CallModel` |
 * | answer ended by the provider (`length`, `content-filter`, `error`, `other`) | `Finished`: `Stopped` |
 * | answer with valid output | `Finished`: `Completed` with it |
 * | answer with calls (they have results now), or finish reason `pause` | `CallModel` |
 * | answer of an agent without an output schema | `Finished`: `Completed` |
 * | invalid output, steps left, it came as a call of the output tool | `CallModel` |
 * | invalid output, steps left, `structured: "fallback"` not used yet | `CallModel` for the output alone |
 * | invalid output | `Finished`: `InvalidOutput` |
 *
 * | event | effect | comes only |
 * |---|---|---|
 * | `RunStarted` | makes the state; open calls of the conversation are `Requested`, or `Settled` when their answer was cut off; answers since the last user message count as steps | first |
 * | `InputAdded` | user message appended, steps back to 0; with open calls it waits and does both when the last of them has a result, and no limit holds them up; with progress it waits for the answer | between steps |
 * | `ConversationFitted` | sets the view, which what comes later enters, too | when `next` is a model call |
 * | `StepStarted` | notes the step | when `next` is that step |
 * | `ModelAnswered` | message appended, steps and usage counted, calls `Requested` (`Settled` when cut off, and the output call), progress dropped | in a step |
 * | `ModelMistaken` | problem noted for the next try of the step | in a step |
 * | `ProgressSaved` | facts added, requests set, decisions taken, the limit set, usage added | in a step |
 * | `ApprovalRequested` | `Requested` to `AwaitingApproval` | |
 * | `ApprovalDecided` | `AwaitingApproval` to `Approved`, or to `Settled` as `denied`; with progress, from its requests to its decisions | also after the end |
 * | `ToolStarted` | `Requested` or `Approved` to `Started` | not after an interruption, not over the limit |
 * | `ToolFinished` | result appended, call closed | a call that never started can only fail |
 * | `ChildEvent` | applied to the child state of a `Started` call; its usage is added; with progress only a decision, by its path | |
 * | `RunInterrupted` | nothing starts any more | |
 * | `RunFinished` | sets the outcome | when `next` is that outcome |
 * | `RunResumed` | clears outcome, interruption and the limit it was told about; `next` goes on where it was | |
 *
 * A call that is `Started` when a driver asks for the next action has been lost with
 * the process that ran it (never ask while a batch runs). It is settled `interrupted`
 * and not run again, unless it is an agent: then its own state says how to go on.
 *
 * Applying an event costs the same however long the run is.
 *
 * **Example** (A driver that answers everything itself)
 *
 * ```ts
 * import { DateTime, Effect, Result } from "effect"
 * import { Conversation, Message } from "effect-emissary"
 * import { RunTransition } from "effect-emissary/agent"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const at = yield* DateTime.now
 *   let state = RunTransition.start({
 *     _tag: "RunStarted",
 *     at,
 *     runId: "run_1",
 *     agent: "support",
 *     definition: "sha256:0",
 *     depth: 0,
 *     maxSteps: 16,
 *     structured: "never",
 *     context: {},
 *     conversation: Conversation.empty
 *   })
 *   state = yield* Effect.fromResult(
 *     RunTransition.apply(state, { _tag: "InputAdded", at, message: yield* Message.user("Hi"), maxSteps: 16 })
 *   )
 *   const action = RunTransition.next(state)
 *   assert(action._tag === "CallModel")
 *   const answered = RunTransition.applyAll(state, [
 *     { _tag: "StepStarted", at, step: action.step, purpose: action.purpose },
 *     { _tag: "ModelAnswered", at, message: yield* Message.assistant("Hello!") }
 *   ])
 *   return RunTransition.next(Result.getOrThrow(answered))
 * })
 *
 * assert.deepStrictEqual(Effect.runSync(program), { _tag: "Finished", outcome: { _tag: "Completed" } })
 * ```
 *
 * @since 0.1.0
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import type * as DateTime from "effect/DateTime"
import { dual } from "effect/Function"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Conversation from "../conversation/Conversation.ts"
import * as Message from "../conversation/Message.ts"
import * as history from "../conversation/internal/history.ts"
import * as PayloadError from "../payload/PayloadError.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as Run from "./Run.ts"
import * as runParts from "./internal/runParts.ts"

/**
 * The state was made by another definition of the agent: another name, model, set of
 * tools, output or text of instructions. What Effects find for each run, the
 * instructions or the model, does not count.
 *
 * @category reasons
 * @since 0.1.0
 */
export class DefinitionChanged extends Schema.TaggedError<DefinitionChanged>("effect-emissary/agent/DefinitionChanged")(
  "DefinitionChanged",
  { expected: Schema.String, found: Schema.String }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    return `expected a state of the definition ${this.expected}, found one of ${this.found}. Resume it with the agent it was made by (its name, model, instructions, tools and options, as they were), or start a new run from its conversation.`
  }
}

/**
 * A decision about a call that does not wait for one.
 *
 * **Details**
 *
 * `problem` is `unknown` for a call that is not waiting (it never was, or somebody
 * decided before), `ambiguous` where calls of several agents have this id and no
 * `path` was given, `repeated` for a second decision in the same list. `pending` are
 * the ids that do wait.
 *
 * @category reasons
 * @since 0.1.0
 */
export class InvalidDecision extends Schema.TaggedError<InvalidDecision>("effect-emissary/agent/InvalidDecision")(
  "InvalidDecision",
  {
    callId: Schema.String,
    problem: Schema.Literals(["unknown", "ambiguous", "repeated"]),
    pending: Schema.Array(Schema.String)
  }
) {
  /**
   * @since 0.1.0
   */
  override get message(): string {
    const pending = this.pending.length === 0 ? "none" : this.pending.map((id) => JSON.stringify(id)).join(", ")
    const found = {
      unknown: "one that does not wait for a decision",
      ambiguous: "one that several agents have; add the path of the request",
      repeated: "a second decision about the same call"
    }[this.problem]
    return `expected a decision about a waiting call, found ${JSON.stringify(this.callId)}, ${found}. Waiting: ${pending}.`
  }
}

/**
 * A call that may be run.
 *
 * **Details**
 *
 * - `approved`: somebody allowed it, so its approval policy is not asked again. Any
 *   other call whose policy demands an approval gets an `ApprovalRequested` event
 *   instead of a `ToolStarted`.
 * - `started`: it is an agent that has begun already: no second `ToolStarted`, its run
 *   goes on from `child`.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunnableCall {
  readonly part: Message.ToolCallPart
  readonly approved: boolean
  readonly started: boolean
  readonly child?: Run.State
}

/**
 * The result of a call that is known without running anything: it was denied, cut off
 * or lost, or it carried the agent's output.
 *
 * @category models
 * @since 0.1.0
 */
export interface Settlement {
  readonly callId: string
  readonly name: string
  readonly result: ToolResult.ToolResult
}

/**
 * Call the model.
 *
 * **Details**
 *
 * `step` is the number for `StepStarted`. `first` says that it is the first answer
 * since the run was started or resumed. `mistakes` are the problems of this step to
 * tell the model about; how many are too many is up to the driver.
 *
 * @category models
 * @since 0.1.0
 */
export interface CallModel {
  readonly _tag: "CallModel"
  readonly step: number
  readonly purpose: runParts.Purpose
  readonly first: boolean
  readonly mistakes: ReadonlyArray<string>
}

/**
 * Record the results in `settled`, and run `calls`. Both in call order; one of them
 * may be empty, never both.
 *
 * @category models
 * @since 0.1.0
 */
export interface RunTools {
  readonly _tag: "RunTools"
  readonly calls: ReadonlyArray<RunnableCall>
  readonly settled: ReadonlyArray<Settlement>
}

/**
 * Nothing can be done before somebody decides: end the run with the outcome
 * `AwaitingApproval`.
 *
 * @category models
 * @since 0.1.0
 */
export interface AwaitApproval {
  readonly _tag: "AwaitApproval"
  readonly requests: readonly [Run.ApprovalRequest, ...Array<Run.ApprovalRequest>]
}

/**
 * Nothing is left to do: end the run with this outcome, unless it has ended already.
 *
 * @category models
 * @since 0.1.0
 */
export interface Finished {
  readonly _tag: "Finished"
  readonly outcome: Run.Outcome
}

/**
 * What a driver has to do next.
 *
 * @category models
 * @since 0.1.0
 */
export type Action = CallModel | RunTools | AwaitApproval | Finished

/**
 * The reasons of a {@link EventError}.
 *
 * **Details**
 *
 * - `Unexpected`: the event has no place in this state of the run.
 * - `UnknownCall`: the event names a call that is not open.
 * - `CallStatus`: the call is open, but not ready for this event; a call that has
 *   started, for example, never starts again.
 * - `Conversation`: the message does not continue the conversation.
 *
 * @category errors
 * @since 0.1.0
 */
export const EventErrorReason = Schema.TaggedUnion({
  Unexpected: { expected: Schema.String, found: Schema.String },
  UnknownCall: { callId: Schema.String, open: Schema.Array(Schema.String) },
  CallStatus: { callId: Schema.String, expected: Schema.String, found: Schema.String },
  Conversation: { problem: Schema.String }
})

/**
 * @category errors
 * @since 0.1.0
 */
export type EventErrorReason = typeof EventErrorReason.Type

const explain = EventErrorReason.match({
  Unexpected: ({ expected, found }) => `expected ${expected}, found ${found}`,
  UnknownCall: ({ callId, open }) =>
    `no open call ${JSON.stringify(callId)}; open: ${open.length === 0 ? "none" : open.map((id) => JSON.stringify(id)).join(", ")}`,
  CallStatus: ({ callId, expected, found }) => `call ${JSON.stringify(callId)}: expected ${expected}, found ${found}`,
  Conversation: ({ problem }) => problem
})

/**
 * An event does not fit the state it was applied to: events are missing, out of
 * order or doubled, or two drivers write to one run.
 *
 * **Details**
 *
 * `event` is the tag of the event, `index` its place in the list when a list was
 * folded, `path` the ids of the enclosing calls when it is the event of an agent that
 * runs as a tool.
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
    return `${this.event}${index}${where} does not fit the run: ${explain(this.reason)}. Apply each event once, in the order in which it happened, from one driver at a time.`
  }
}

/**
 * The state after the first event.
 *
 * @category transitions
 * @since 0.1.0
 */
export const start = (event: Run.Started): Run.State => applyStarted(event)

/**
 * The state after one more event.
 *
 * @category transitions
 * @since 0.1.0
 */
export const apply: {
  (event: Run.Event): (self: Run.State) => Result.Result<Run.State, EventError>
  (self: Run.State, event: Run.Event): Result.Result<Run.State, EventError>
} = dual(2, (self: Run.State, event: Run.Event) => applyEvent(self, event))

/**
 * The state after some more events. The first that does not fit fails, with its place
 * in the list.
 *
 * @category transitions
 * @since 0.1.0
 */
export const applyAll: {
  (events: Iterable<Run.Event>): (self: Run.State) => Result.Result<Run.State, EventError>
  (self: Run.State, events: Iterable<Run.Event>): Result.Result<Run.State, EventError>
} = dual(2, (self: Run.State, events: Iterable<Run.Event>) => foldFrom(self, events))

/**
 * The state of a run from the list of its events, which begins with `RunStarted`.
 *
 * @category transitions
 * @since 0.1.0
 */
export const fold = (events: Iterable<Run.Event>): Result.Result<Run.State, EventError> => foldFrom(undefined, events)

const foldFrom = (self: Run.State | undefined, events: Iterable<Run.Event>): Result.Result<Run.State, EventError> => {
  let state = self
  let index = 0
  for (const event of events) {
    const applied = state === undefined ? startFirst(event) : applyEvent(state, event)
    if (Result.isFailure(applied)) {
      const { event, path, reason } = applied.failure
      return Result.fail(new EventError({ event, path, reason, index }))
    }
    state = applied.success
    index += 1
  }
  return state === undefined ? Result.fail(notStarted("no event")) : Result.succeed(state)
}

const startFirst = (event: Run.Event): Result.Result<Run.State, EventError> =>
  event._tag === "RunStarted" ? Result.succeed(start(event)) : Result.fail(notStarted(event._tag))

const notStarted = (found: string): EventError =>
  new EventError({ event: found, path: [], reason: { _tag: "Unexpected", expected: "RunStarted first", found } })

/**
 * What a driver has to do next. Ask when nothing of the run is under way.
 *
 * @category transitions
 * @since 0.1.0
 */
export const next = (self: Run.State): Action => nextAction(self)

/**
 * The results of calls that started and were lost, in call order: after an
 * interruption all that started, otherwise those that are no agents with a state of
 * their own. {@link next} gives them too.
 *
 * @category transitions
 * @since 0.1.0
 */
export const recover = (self: Run.State): ReadonlyArray<Settlement> => recoverCalls(self)

/**
 * A person's answer to an `ApprovalRequest`.
 *
 * **Details**
 *
 * A denied call is never dispatched: the model sees a `denied` result with the
 * reason. `path` is that of the request, for a call that an agent used as a tool
 * made; it can be left out, unless calls of several agents have the same id. An
 * `ApprovalRequest` with `approved` added is a decision.
 *
 * @category models
 * @since 0.1.0
 */
export interface Decision {
  readonly callId: string
  readonly approved: boolean
  readonly reason?: string | undefined
  readonly path?: ReadonlyArray<string> | undefined
}

/**
 * The events that record decisions. Only calls that wait, by an event of this very
 * run, can be decided about, each of them once.
 *
 * **Details**
 *
 * They can be applied to a run that has ended, and go before its `RunResumed`.
 *
 * **Example** (A decision about a call that does not wait)
 *
 * ```ts
 * import { DateTime, Result } from "effect"
 * import { Conversation } from "effect-emissary"
 * import { RunTransition } from "effect-emissary/agent"
 * import assert from "node:assert"
 *
 * const at = DateTime.makeUnsafe(0)
 * const state = RunTransition.start({
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
 * const decided = RunTransition.decide(state, [{ callId: "call_1", approved: true }], at)
 * assert(Result.isFailure(decided))
 * assert.strictEqual(decided.failure.problem, "unknown")
 * ```
 *
 * @category transitions
 * @since 0.1.0
 */
export const decide = (
  self: Run.State,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<Run.Event>, InvalidDecision> => decisionEvents(self, decisions, at)

/**
 * Refuses a state that another definition made.
 *
 * @category transitions
 * @since 0.1.0
 */
export const checkDefinition = (self: Run.State, definition: string): Result.Result<Run.State, DefinitionChanged> =>
  self.definition === definition
    ? Result.succeed(self)
    : Result.fail(new DefinitionChanged({ expected: definition, found: self.definition }))

const settleCall = ({ part }: Run.OpenCall, result: ToolResult.ToolResult): Settlement => ({
  callId: part.id,
  name: part.name,
  result
})

const lostCall = (call: Run.OpenCall): Settlement =>
  settleCall(call, ToolResult.failure("interrupted", "The call was interrupted before it gave a result."))

/** Calls that started and whose result is gone: all of them after an interruption, otherwise those that no child state continues. */
const recoverCalls = (self: Run.State): ReadonlyArray<Settlement> => {
  const settled: Array<Settlement> = []
  for (const call of Run.callsInOrder(self.calls)) {
    if (call.status._tag !== "Started") continue
    if (self.interrupted !== undefined || call.status.child === undefined) settled.push(lostCall(call))
  }
  return settled
}

const nextAction = (self: Run.State): Action => {
  if (self.outcome !== undefined) return { _tag: "Finished", outcome: self.outcome }
  if (self.interrupted !== undefined) {
    const settled = recoverCalls(self)
    return settled.length > 0
      ? { _tag: "RunTools", calls: [], settled }
      : { _tag: "Finished", outcome: { _tag: "Interrupted", ...self.interrupted } }
  }
  if (self.limited) return { _tag: "Finished", outcome: { _tag: "MaxSteps" } }
  if (self.progress !== undefined) return nextInProgress(self, self.progress)
  return HashMap.isEmpty(self.calls) ? nextAfterAnswer(self) : nextForCalls(self)
}

/** What answers goes on as soon as one decision lets it. */
const nextInProgress = (self: Run.State, { decisions }: Run.Progress): Action => {
  const requests = Run.collectRequests(self)
  return decisions.length === 0 && Arr.isReadonlyArrayNonEmpty(requests)
    ? { _tag: "AwaitApproval", requests }
    : nextModelCall(self, "answer")
}

const nextForCalls = (self: Run.State): Action => {
  const calls: Array<RunnableCall> = []
  const settled: Array<Settlement> = []
  for (const call of Run.callsInOrder(self.calls)) {
    const { part, status } = call
    switch (status._tag) {
      case "Requested":
      case "Approved":
        calls.push({ part, approved: status._tag === "Approved", started: false })
        break
      case "Settled":
        settled.push(settleCall(call, status.result))
        break
      case "Started":
        if (status.child === undefined) settled.push(lostCall(call))
        else if (!awaitsDecisions(status.child))
          calls.push({ part, approved: false, started: true, child: status.child })
        break
      case "AwaitingApproval":
        break
    }
  }
  const requests = Run.collectRequests(self)
  return calls.length === 0 && settled.length === 0 && Arr.isReadonlyArrayNonEmpty(requests)
    ? { _tag: "AwaitApproval", requests }
    : { _tag: "RunTools", calls, settled }
}

/** Whether a child ended because it needs decisions, and still has none it could go on with. */
const awaitsDecisions = (child: Run.State): boolean =>
  child.outcome?._tag === "AwaitingApproval" &&
  nextAction(Run.makeState({ ...child, outcome: undefined, interrupted: undefined }))._tag === "AwaitApproval"

const nextAfterAnswer = (self: Run.State): CallModel | Finished => {
  const { answer } = self
  const purpose = self.structured === "always" ? "structured" : "answer"
  if (answer === undefined) return nextModelCall(self, purpose)
  const finishReason = runParts.stopReasonOf(answer.finishReason)
  if (finishReason !== undefined) return { _tag: "Finished", outcome: { _tag: "Stopped", finishReason } }
  const { output } = answer
  if (output?._tag === "Valid") return { _tag: "Finished", outcome: { _tag: "Completed", output: output.value } }
  if (answer.calls > 0 || answer.finishReason === "pause") return nextModelCall(self, purpose)
  if (output === undefined) return { _tag: "Finished", outcome: { _tag: "Completed" } }
  if (hasStepsLeft(self)) {
    if (answer.outputCall) return nextModelCall(self, purpose)
    if (self.structured === "fallback" && answer.purpose === "answer") return nextModelCall(self, "structured")
  }
  return { _tag: "Finished", outcome: { _tag: "InvalidOutput", issues: output.issues } }
}

const hasStepsLeft = (self: Pick<Run.State, "maxSteps" | "steps">): boolean =>
  self.maxSteps === "unlimited" || self.steps < self.maxSteps

const nextModelCall = (self: Run.State, purpose: runParts.Purpose): CallModel => ({
  _tag: "CallModel",
  step: self.steps + 1,
  purpose,
  first: self.fresh,
  mistakes: self.mistakes
})

type Applied = Result.Result<Run.State, EventError>

const rejectEvent = (event: Run.Event, reason: EventErrorReason): Result.Result<never, EventError> =>
  Result.fail(new EventError({ event: event._tag, path: [], reason }))

const unexpected = (event: Run.Event, expected: string, found: string) =>
  rejectEvent(event, { _tag: "Unexpected", expected, found })

const applyStarted = (event: Run.Started): Run.State => {
  const finishReason = Option.getOrUndefined(Conversation.lastAssistantMessage(event.conversation))?.finishReason
  return Run.makeState({
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
    usage: Message.emptyUsage,
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

const answersSinceUser = (conversation: history.Conversation): number => {
  const messages = Conversation.messages(conversation)
  let steps = 0
  for (let i = messages.length - 1; i >= 0 && messages[i]?.role !== "user"; i--) {
    if (messages[i]?.role === "assistant") steps += 1
  }
  return steps
}

/** The open calls of the newest answer. None of an answer that was cut off is ever run. */
const register = (
  conversation: history.Conversation,
  finishReason: string | undefined
): HashMap.HashMap<string, Run.OpenCall> => {
  const stop = runParts.stopReasonOf(finishReason)
  const status: Run.CallStatus =
    stop === undefined
      ? { _tag: "Requested" }
      : {
          _tag: "Settled",
          result: ToolResult.failure("interrupted", `The call was not run, because its answer was cut off (${stop}).`)
        }
  return HashMap.fromIterable(
    Run.openParts(conversation).map(({ order, part }): [string, Run.OpenCall] => [part.id, { part, order, status }])
  )
}

const applyEvent = (self: Run.State, event: Run.Event): Applied => {
  if (self.outcome !== undefined && !acceptsWhenEnded(event)) {
    return unexpected(event, "a run that goes on (RunResumed first)", `one that ended ${self.outcome._tag}`)
  }
  if (self.interrupted !== undefined && self.outcome === undefined && !acceptsWhenInterrupted(event)) {
    return unexpected(event, "a run that goes on", "one that was interrupted and has to settle what started")
  }
  switch (event._tag) {
    case "RunStarted":
      return unexpected(event, "no RunStarted after the first event", "a run that has started")
    case "InputAdded":
      return applyInputAdded(self, event)
    case "ConversationFitted":
      return applyConversationFitted(self, event)
    case "StepStarted":
      return applyStepStarted(self, event)
    case "ModelAnswered":
      return applyModelAnswered(self, event)
    case "ModelMistaken":
      return applyModelMistaken(self, event)
    case "ProgressSaved":
      return applyProgressSaved(self, event)
    case "ApprovalRequested":
      return self.limited
        ? outOfSteps(event)
        : changeCall(self, event, event.callId, ["Requested"], () => ({ _tag: "AwaitingApproval" }))
    case "ApprovalDecided":
      if (self.progress !== undefined) return applyProgressDecided(self, self.progress, event)
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
      return applyToolFinished(self, event)
    case "ChildEvent":
      return self.progress !== undefined
        ? applyProgressDecided(self, self.progress, event)
        : applyChildEvent(self, event)
    case "RunInterrupted":
      return updateState(self, event, {
        interrupted: event.reason === undefined ? {} : { reason: event.reason },
        step: undefined
      })
    case "RunFinished":
      return applyFinished(self, event)
    case "RunResumed":
      return updateState(self, event, {
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
const acceptsWhenEnded = (event: Run.Event): boolean =>
  event._tag === "RunResumed" || event._tag === "ApprovalDecided" || (event._tag === "ChildEvent" && isDecision(event))

/** @internal */
export const isDecision = (event: Run.Event): boolean =>
  event._tag === "ChildEvent" ? isDecision(event.event) : event._tag === "ApprovalDecided"

const acceptsWhenInterrupted = (event: Run.Event): boolean => {
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

const updateState = (self: Run.State, event: Run.Event, fields: Partial<Run.StateFields>): Applied =>
  Result.succeed(Run.makeState({ ...self, ...fields, updatedAt: event.at, revision: self.revision + 1 }))

const outOfSteps = (event: Run.Event) =>
  unexpected(event, "steps left for the calls of the newest answer", "an answer that used up the budget")

/** All that was said, and what models are sent of it. */
type Histories = Pick<Run.State, "conversation" | "view">

const appendMessage = (
  self: Histories,
  event: Run.Event,
  message: Message.Message
): Result.Result<Histories, EventError> =>
  Result.flatMap(
    appendToHistories(self.conversation, event, messageText(self, message)),
    (conversation): Result.Result<Histories, EventError> =>
      self.view === undefined
        ? Result.succeed({ conversation, view: undefined })
        : Result.map(appendToHistories(self.view, event, message), (view) => ({ conversation, view }))
  )

/** What an answer reports is the size of what it was an answer to. */
const messageText = (self: Histories, message: Message.Message): Message.Message =>
  self.view !== undefined && message.role === "assistant" ? history.markAsView(message) : message

const appendToHistories = (
  self: history.Conversation,
  event: Run.Event,
  message: Message.Message
): Result.Result<history.Conversation, EventError> =>
  Result.mapError(
    Conversation.append(self, message),
    (error) => new EventError({ event: event._tag, path: [], reason: { _tag: "Conversation", problem: error.message } })
  )

const applyInputAdded = (self: Run.State, event: Run.InputAdded): Applied => {
  if (self.step !== undefined) {
    return unexpected(event, "no model call under way", `step ${self.step.step} without its answer`)
  }
  const input = { message: event.message, maxSteps: event.maxSteps }
  if (HashMap.isEmpty(self.calls) && self.progress === undefined) {
    return Result.flatMap(takePending(self, event, [input]), (fields) => updateState(self, event, fields))
  }
  // It waits, but is refused now if it could never be taken
  return Result.flatMap(appendToHistories(Conversation.empty, event, event.message), () =>
    updateState(self, event, { pending: [...self.pending, input], limited: false })
  )
}

/** Puts the waiting user messages into the conversation: a fresh budget. */
const takePending = (
  self: Histories,
  event: Run.Event,
  inputs: Run.State["pending"]
): Result.Result<Partial<Run.StateFields>, EventError> => {
  let current = self
  for (const { message } of inputs) {
    const appended = appendMessage(current, event, message)
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

const applyConversationFitted = (self: Run.State, event: Run.ConversationFitted): Applied => {
  const action = nextAction(self)
  if (action._tag !== "CallModel")
    return unexpected(event, `what comes next: ${action._tag}`, "a view for a model call")
  const [last, seen] = [self.conversation, event.view].map((one) =>
    Option.getOrUndefined(Conversation.lastMessage(one))
  )
  return seen?.id === last?.id && Conversation.openCalls(event.view).length === 0
    ? updateState(self, event, { view: event.view })
    : unexpected(event, "a view that ends as the conversation does", "one with another end")
}

const applyStepStarted = (self: Run.State, event: Run.StepStarted): Applied => {
  const action = nextAction(self)
  return action._tag === "CallModel" && action.step === event.step && action.purpose === event.purpose
    ? updateState(self, event, { step: { step: event.step, purpose: event.purpose } })
    : unexpected(
        event,
        action._tag === "CallModel" ? `step ${action.step} (${action.purpose})` : `what comes next: ${action._tag}`,
        `step ${event.step} (${event.purpose})`
      )
}

const noStep = (event: Run.Event) => unexpected(event, "a StepStarted before it", "no model call under way")

const applyModelAnswered = (self: Run.State, event: Run.ModelAnswered): Applied => {
  if (self.step === undefined) return noStep(event)
  const { message } = event
  for (const part of message.content) {
    if (part.type === "tool-call" && history.hasCall(self.conversation, part.id)) {
      const problem = `the call id ${JSON.stringify(part.id)} is already in the conversation; relabel it with Conversation.relabelCalls`
      return rejectEvent(event, { _tag: "Conversation", problem })
    }
  }
  return Result.flatMap(appendMessage(self, event, message), ({ conversation, view }) => {
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
    return updateState(self, event, {
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
      limited: asksForMore && !hasStepsLeft({ steps, maxSteps: self.maxSteps }),
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
  { pending, progress }: Run.State,
  event: Run.Event
): Result.Result<Partial<Run.StateFields>, EventError> =>
  progress === undefined || pending.length === 0 ? Result.succeed({}) : takePending(histories, event, pending)

/** The synthetic output tool is never run: its result is what the check said. */
const settleOutput = (
  event: Run.ModelAnswered,
  calls: HashMap.HashMap<string, Run.OpenCall>
): Result.Result<HashMap.HashMap<string, Run.OpenCall>, EventError> => {
  if (event.outputCall === undefined) return Result.succeed(calls)
  const call = HashMap.get(calls, event.outputCall)
  if (Option.isNone(call)) return unknownCall(event, event.outputCall, calls)
  if (event.output === undefined) return unexpected(event, "an output together with the outputCall", "no output")
  if (call.value.status._tag === "Settled") return Result.succeed(calls)
  const result =
    event.output._tag === "Valid"
      ? ToolResult.success("The output was accepted.")
      : ToolResult.failure("validation_error", PayloadError.renderIssues(event.output.issues))
  return Result.succeed(HashMap.set(calls, event.outputCall, { ...call.value, status: { _tag: "Settled", result } }))
}

const applyModelMistaken = (self: Run.State, event: Run.ModelMistaken): Applied =>
  self.step === undefined
    ? noStep(event)
    : updateState(self, event, {
        mistakes: [...self.mistakes, event.problem],
        usage: addUsage(self.usage, event.usage)
      })

const applyProgressSaved = (self: Run.State, event: Run.ProgressSaved): Applied =>
  self.step === undefined
    ? noStep(event)
    : updateState(self, event, {
        progress: saveProgress(self.progress, event),
        limited: event.limited,
        usage: addUsage(self.usage, event.usage)
      })

const applyProgressDecided = (
  self: Run.State,
  before: Run.Progress,
  event: Run.ApprovalDecided | Run.ChildEvent
): Applied =>
  Result.match(decideProgress(before, event), {
    onFailure: (reason) => rejectEvent(event, reason),
    onSuccess: (after) => updateState(self, event, { progress: after })
  })

const addUsage = (total: Message.TokenUsage, usage: Message.TokenUsage | undefined): Message.TokenUsage =>
  usage === undefined ? total : Message.sumUsage([total, usage])

const unknownCall = (event: Run.Event, callId: string, calls: HashMap.HashMap<string, Run.OpenCall>) =>
  rejectEvent(event, { _tag: "UnknownCall", callId, open: Run.callsInOrder(calls).map(({ part }) => part.id) })

const withCall = (
  self: Run.State,
  event: Run.Event,
  callId: string,
  expected: ReadonlyArray<Run.CallStatus["_tag"]>,
  f: (call: Run.OpenCall) => Applied
): Applied => {
  const call = HashMap.get(self.calls, callId)
  if (Option.isNone(call)) return unknownCall(event, callId, self.calls)
  const found = call.value.status._tag
  return expected.includes(found)
    ? f(call.value)
    : rejectEvent(event, { _tag: "CallStatus", callId, expected: expected.join(" or "), found })
}

const changeCall = (
  self: Run.State,
  event: Run.Event,
  callId: string,
  expected: ReadonlyArray<Run.CallStatus["_tag"]>,
  f: (call: Run.OpenCall) => Run.CallStatus
): Applied =>
  withCall(self, event, callId, expected, (call) =>
    updateState(self, event, { calls: HashMap.set(self.calls, callId, { ...call, status: f(call) }) })
  )

const applyToolFinished = (self: Run.State, event: Run.ToolFinished): Applied => {
  const { callId, result } = event.message
  // What never started can fail (unknown tool, bad arguments), but it cannot give a value
  const expected: ReadonlyArray<Run.CallStatus["_tag"]> = ToolResult.isFailure(result)
    ? ["Started", "Requested", "Approved", "Settled"]
    : ["Started", "Settled"]
  return withCall(self, event, callId, expected, ({ status }) => {
    if (status._tag === "Settled" && typeOf(status.result) !== typeOf(result)) {
      return rejectEvent(event, {
        _tag: "CallStatus",
        callId,
        expected: `the result it was settled with (${typeOf(status.result)})`,
        found: typeOf(result)
      })
    }
    if (status._tag !== "Started" && status._tag !== "Settled" && self.limited) return outOfSteps(event)
    return Result.flatMap(appendMessage(self, event, event.message), (histories) => {
      const calls = HashMap.remove(self.calls, callId)
      if (!HashMap.isEmpty(calls) || self.pending.length === 0) return updateState(self, event, { ...histories, calls })
      return Result.flatMap(takePending(histories, event, self.pending), (fields) =>
        updateState(self, event, { ...fields, calls })
      )
    })
  })
}

const typeOf = (result: ToolResult.ToolResult): string => (ToolResult.isFailure(result) ? result.type : "success")

const applyChildEvent = (self: Run.State, event: Run.ChildEvent): Applied =>
  withCall(self, event, event.callId, ["Started"], (call) => {
    const before = call.status._tag === "Started" ? call.status.child : undefined
    const after = before === undefined ? startChild(self, event) : applyEvent(before, event.event)
    if (Result.isFailure(after)) {
      const { event: tag, path, reason } = after.failure
      return Result.fail(new EventError({ event: tag, path: [event.callId, ...path], reason }))
    }
    const status: Run.CallStatus = { _tag: "Started", child: after.success }
    return updateState(self, event, {
      calls: HashMap.set(self.calls, event.callId, { ...call, status }),
      usage: addUsage(self.usage, Run.usageOf(event.event))
    })
  })

const startChild = (self: Run.State, { event }: Run.ChildEvent): Applied => {
  if (event._tag !== "RunStarted") return unexpected(event, "RunStarted first", event._tag)
  return event.depth === self.depth + 1
    ? Result.succeed(applyStarted(event))
    : unexpected(event, `depth ${self.depth + 1}`, `depth ${event.depth}`)
}

const applyFinished = (self: Run.State, event: Run.Finished): Applied => {
  const action = nextAction(self)
  const expected =
    action._tag === "Finished" ? action.outcome._tag : action._tag === "AwaitApproval" ? "AwaitingApproval" : undefined
  return expected === event.outcome._tag
    ? updateState(self, event, { outcome: event.outcome, step: undefined })
    : unexpected(event, expected ?? `what comes next: ${action._tag}`, event.outcome._tag)
}

/** Decisions that were made before are part of the facts. */
const saveProgress = (self: Run.Progress | undefined, { facts, requests }: Run.ProgressSaved): Run.Progress => {
  const added = Chunk.fromIterable(facts)
  return { facts: self === undefined ? added : Chunk.appendAll(self.facts, added), requests, decisions: [] }
}

/** A decision about one of its requests; the path of the event is that of the request. */
const decideProgress = (
  self: Run.Progress,
  event: Run.ApprovalDecided | Run.ChildEvent
): Result.Result<Run.Progress, EventErrorReason> => {
  const path: Array<string> = []
  let inner: Run.Event = event
  while (inner._tag === "ChildEvent") {
    path.push(inner.callId)
    inner = inner.event
  }
  if (inner._tag !== "ApprovalDecided") {
    return Result.fail({
      _tag: "Unexpected",
      expected: "no event of a call while an answer is in progress",
      found: inner._tag
    })
  }
  const { approved, callId, reason } = inner
  const isMeant = (request: Run.ApprovalRequest) => request.callId === callId && samePath(request.path ?? [], path)
  if (!self.requests.some(isMeant)) {
    return Result.fail({ _tag: "UnknownCall", callId, open: self.requests.map(({ callId }) => callId) })
  }
  return Result.succeed({
    ...self,
    requests: self.requests.filter((request) => !isMeant(request)),
    decisions: [...self.decisions, { callId, approved, path, ...(reason === undefined ? undefined : { reason }) }]
  })
}

const decisionEvents = (
  self: Run.State,
  decisions: ReadonlyArray<Decision>,
  at: DateTime.Utc
): Result.Result<ReadonlyArray<Run.Event>, InvalidDecision> => {
  const requests = Run.collectRequests(self)
  const decided = new Set<Run.ApprovalRequest>()
  const events: Array<Run.Event> = []
  for (const decision of decisions) {
    const candidates = requests.filter((request) => concernsRequest(decision, request))
    const [request] = candidates
    const invalid = (problem: InvalidDecision["problem"]) =>
      Result.fail(
        new InvalidDecision({ callId: decision.callId, problem, pending: requests.map(({ callId }) => callId) })
      )
    if (request === undefined) return invalid("unknown")
    if (candidates.length > 1) return invalid("ambiguous")
    if (decided.has(request)) return invalid("repeated")
    decided.add(request)
    events.push(decisionEvent(decision, request, at))
  }
  return Result.succeed(events)
}

const concernsRequest = ({ callId, path }: Decision, request: Run.ApprovalRequest): boolean =>
  request.callId === callId && (path === undefined || samePath(path, request.path ?? []))

const samePath = (a: ReadonlyArray<string>, b: ReadonlyArray<string>): boolean =>
  a.length === b.length && a.every((id, i) => id === b[i])

const decisionEvent = (
  { approved, callId, reason }: Decision,
  { path }: Run.ApprovalRequest,
  at: DateTime.Utc
): Run.Event => {
  const decided: Run.Event = {
    _tag: "ApprovalDecided",
    at,
    callId,
    approved,
    ...(reason === undefined ? undefined : { reason })
  }
  return (path ?? []).reduceRight<Run.Event>((event, callId) => ({ _tag: "ChildEvent", at, callId, event }), decided)
}
