/**
 * The events of runs of agents and of plans, each written once as the Schema of its newest wire, and functions that read one event.
 */

import type * as DateTime from "effect/DateTime"
import * as Schema from "effect/Schema"
import * as Message from "../../conversation/Message.ts"
import * as reduction from "../../conversation/internal/reduction.ts"
import * as budgetRequest from "./budgetRequest.ts"
import * as ledger from "./ledger.ts"
import * as planRunParts from "./planRunParts.ts"
import * as repetition from "./repetition.ts"
import * as runRequests from "./runRequests.ts"
import * as runValues from "./runValues.ts"

const [System, User, Assistant, Tool] = Message.Message.members

const at = runValues.Time

const step = Schema.String

const reason = Schema.optionalKey(Schema.String)

const amounts = Schema.optionalKey(ledger.Amounts)

const budgets = Schema.optionalKey(Schema.Array(ledger.Given))

const granted = Schema.optionalKey(budgetRequest.About)

const OwnEvent = Schema.Union([
  Schema.TaggedStruct("RunStarted", {
    at,
    runId: Schema.String,
    agent: Schema.String,
    definition: Schema.String,
    depth: runValues.Count,
    maxSteps: runValues.MaxSteps,
    structured: runValues.StructuredSteps,
    context: runValues.Context,
    conversation: runValues.History,
    parts: Schema.optionalKey(runValues.Parts),
    contracts: Schema.optionalKey(Schema.Array(runValues.CallContract)),
    budgets
  }),
  Schema.TaggedStruct("InputAdded", {
    at,
    message: User,
    maxSteps: Schema.optionalKey(runValues.MaxSteps),
    instructions: Schema.optionalKey(System)
  }),
  Schema.TaggedStruct("ConversationFitted", {
    at,
    view: Schema.Array(Schema.Union([Schema.String, Message.Message])),
    beside: Schema.optionalKey(Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))),
    report: reduction.ReductionReport
  }),
  Schema.TaggedStruct("StepStarted", { at, step: runValues.Count, purpose: runValues.Purpose, reserved: amounts }),
  Schema.TaggedStruct("ModelAnswered", {
    at,
    message: Assistant,
    output: Schema.optionalKey(runValues.RecordedCheck),
    outputCall: Schema.optionalKey(Schema.String),
    maxEmpty: Schema.optionalKey(runValues.Count),
    repeatedCalls: Schema.optionalKey(repetition.RepeatedCalls),
    contracts: Schema.optionalKey(Schema.Array(runValues.CallContract)),
    spent: amounts
  }),
  Schema.TaggedStruct("AnswerDiscarded", { at, usage: runValues.Usage, spent: amounts }),
  Schema.TaggedStruct("ModelMistaken", { at, problem: Schema.String }),
  Schema.TaggedStruct("StepRetried", {
    at,
    attempt: runValues.Count,
    error: Schema.String,
    pauseMillis: Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0)),
    model: Schema.optionalKey(Schema.String),
    reserved: amounts
  }),
  Schema.TaggedStruct("BudgetNeared", { at, ...ledger.Usage }),
  Schema.TaggedStruct("BudgetExceeded", { at, ...ledger.Usage }),
  Schema.TaggedStruct("GuardDecided", {
    at,
    guard: Schema.String,
    on: runValues.GuardPlace,
    verdict: Schema.Literals(["Replaced", "Refused", "Asked"]),
    reason,
    callId: Schema.optionalKey(Schema.String),
    arguments: Schema.optionalKey(Schema.Json),
    messageId: Schema.optionalKey(Schema.String),
    held: Schema.optionalKey(runValues.Held)
  }),
  Schema.TaggedStruct("GuardUsed", {
    at,
    guard: Schema.String,
    usage: runValues.Usage,
    spent: amounts
  }),
  Schema.TaggedStruct("ApprovalRequested", {
    at,
    callId: Schema.String,
    name: Schema.String,
    arguments: Schema.Json,
    digest: Schema.String,
    ask: Schema.optionalKey(runRequests.Ask),
    bounds: Schema.optionalKey(runRequests.Bounds),
    contract: Schema.optionalKey(runValues.CallContract),
    budget: Schema.optionalKey(budgetRequest.About)
  }),
  Schema.TaggedStruct("ApprovalDecided", {
    at,
    callId: Schema.String,
    ...runRequests.Verdict.fields,
    granted
  }),
  Schema.TaggedStruct("ToolStarted", {
    at,
    callId: Schema.String,
    idempotent: Schema.optionalKey(Schema.Literal(true)),
    contract: Schema.optionalKey(runValues.CallContract)
  }),
  Schema.TaggedStruct("ToolFinished", {
    at,
    message: Tool,
    durationMillis: Schema.optionalKey(Schema.Finite),
    cause: Schema.optionalKey(Schema.String),
    asked: Schema.optionalKey(Schema.Literal(true)),
    handoff: Schema.optionalKey(runValues.HandoffTerms)
  }),
  Schema.TaggedStruct("HandedOff", {
    at,
    agent: Schema.String,
    message: System,
    structured: Schema.optionalKey(runValues.StructuredSteps)
  }),
  Schema.TaggedStruct("RunInterrupted", { at, reason: Schema.optionalKey(Schema.String) }),
  Schema.TaggedStruct("ConversationRewound", { at, messageId: Schema.String }),
  Schema.TaggedStruct("RunFinished", { at, outcome: runValues.Outcome }),
  Schema.TaggedStruct("RunResumed", {
    at,
    maxSteps: Schema.optionalKey(runValues.MaxSteps),
    context: Schema.optionalKey(runValues.Context),
    change: Schema.optionalKey(runValues.DefinitionChange),
    lost: amounts,
    budgets
  })
])

interface ChildEvent {
  readonly _tag: "ChildEvent"
  readonly at: DateTime.Utc
  readonly callId: string
  readonly event: Event
}

interface PlanEvent {
  readonly _tag: "PlanEvent"
  readonly event: PlanRunEvent
}

export type Event = typeof OwnEvent.Type | ChildEvent | PlanEvent

/** The key of the call that is the output, in the metadata of an answer: a history does not have the event. */
const outputMark = "effect-emissary/output"

/** The answer with the mark of its output call. */
export const markOutput = (
  message: Message.AssistantMessage,
  outputCall: string | undefined
): Message.AssistantMessage =>
  outputCall === undefined ? message : { ...message, metadata: { ...message.metadata, [outputMark]: outputCall } }

/** The id of the output call of an answer, `undefined` for an answer without one. */
export const outputCallIn = ({ metadata }: Message.AssistantMessage): string | undefined => {
  const call = metadata?.[outputMark]
  return typeof call === "string" ? call : undefined
}

/** One of the events, by its tag. */
export type EventOf<Tag extends Event["_tag"]> = Extract<Event, { readonly _tag: Tag }>

const suspended = Schema.suspend((): Schema.Codec<Event, unknown> => Event)

/** The way to a sequence inside of a sequence, from the outermost: a step, and the number of its item. */
const Path = Schema.Array(Schema.Tuple([Schema.String, runValues.Count])).annotate({ identifier: "PlaceInPlan" })

export type Path = typeof Path.Type

const inside = Schema.optionalKey(Path)

const OwnPlanEvent = Schema.TaggedUnion({
  PlanStarted: {
    at,
    runId: Schema.String,
    plan: Schema.String,
    digest: Schema.String,
    depth: runValues.Count,
    maxIterations: Schema.Int,
    input: planRunParts.ResolvedInput,
    context: runValues.Context,
    basis: planRunParts.Basis,
    budgets
  },
  StepStarted: { at, step, in: inside },
  StepRetried: { at, step, attempt: runValues.Count, failure: planRunParts.StepFailure, in: inside },
  ToolCalled: { at, step, in: inside },
  AgentChanged: { at, step, event: suspended, in: inside },
  StepFinished: { at, record: planRunParts.RecordedStep, in: inside },
  StepFailed: { at, step, failure: planRunParts.StepFailure, in: inside },
  StepPaused: {
    at,
    step,
    question: Schema.optionalKey(planRunParts.Question),
    asked: Schema.optionalKey(runValues.Count),
    callId: Schema.optionalKey(Schema.String),
    input: Schema.optionalKey(planRunParts.ResolvedInput),
    in: inside
  },
  StepConcluded: { at, step, answer: Schema.String, in: inside },
  RouteTaken: { at, step, to: Schema.optionalKey(Schema.String), in: inside },
  StepDecided: { at, step, callId: Schema.String, ...runRequests.Verdict.fields, granted, in: inside },
  PlanInterrupted: { at, reason },
  PlanFinished: { at, outcome: planRunParts.RecordedOutcome },
  PlanResumed: {
    at,
    maxIterations: Schema.optionalKey(Schema.Int),
    change: Schema.optionalKey(planRunParts.PlanChange),
    budgets
  }
})

interface NestedChanged {
  readonly _tag: "NestedChanged"
  readonly at: DateTime.Utc
  readonly step: string
  readonly event: PlanRunEvent
  readonly in?: Path
}

/**
 * One event of a run. A run is the list of its events, and nothing else.
 *
 * **Details**
 *
 * | event | meaning |
 * |---|---|
 * | `PlanStarted` | the first event; `digest` is the digest of the definition, `depth` is 0 or one more than the depth of the run around it, `context` the `RunContext` of everything inside, `basis` the steps as far as the state of the run depends on them, and what an edited definition is compared with |
 * | `StepStarted` | a step begins; the first of its turn counts an iteration |
 * | `StepRetried` | an attempt failed, and attempt number `attempt`, from 2 on, follows the pause of the retry policy; what ran inside the failed one is dropped |
 * | `ToolCalled` | a step calls its tool, in a run with a budget |
 * | `AgentChanged` | an event of the agent in a step; a `RunStarted` begins its run, or another one after that ended |
 * | `NestedChanged` | an event of the plan in a step; a `PlanStarted` begins its run, or another one after that ended |
 * | `StepFinished` | a step returned its output; in a parallel group it counts when all members have finished; the record has no `output` where the agent or the plan in the step has ended with it, and no `task` where that is the text of what came before the step |
 * | `StepFailed` | a step failed, after its retries; the others of its parallel group continue to their end |
 * | `StepPaused` | a step waits: its `question` has the `reason` of its pause, or the `request` of the tool call that it is, and the digest of the `contract`; without one it waits for something inside its agent or plan; `asked` counts what it asked for in this turn, and `callId` is the id that a decision names; `input` is what the step was given, where it reads a memory, and what it is given after the decision |
 * | `StepConcluded` | a step ended the plan, and every plan around it, with an answer |
 * | `RouteTaken` | the step that follows a step with routes; without `to` the next as if it had none |
 * | `StepDecided` | the decision about a step that paused, with the `callId` and the digest that it names; decisions about calls inside an agent are its `ApprovalDecided` |
 * | `PlanInterrupted` | the run was stopped: nothing starts any more, what runs may still end |
 * | `PlanFinished` | the run ended; it can continue after a `PlanResumed`, unless it completed; a completed run has the output of its last step |
 * | `PlanResumed` | what failed, paused or was cut off gets another turn, what finished does not; an absent `maxIterations` stays as it was; `change` is present if the run continues under an edited definition |
 *
 * `in` is absent for a step of the plan itself. For a step of an item of another step it has, from the outermost, that step and the
 * number of its item.
 *
 * @category models
 * @since 0.1.0
 */
export type PlanRunEvent = typeof OwnPlanEvent.Type | NestedChanged

/**
 * Schema of an event of a plan; its JSON has no version, see `PlanRun.eventCodec`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const PlanRunEvent: Schema.Codec<PlanRunEvent, unknown> = Schema.Union([
  ...Object.values(OwnPlanEvent.cases),
  Schema.TaggedStruct("NestedChanged", {
    at,
    step,
    event: Schema.suspend((): Schema.Codec<PlanRunEvent, unknown> => PlanRunEvent),
    in: inside
  })
])

/** An event without its version. */
export const Event: Schema.Codec<Event, unknown> = Schema.Union([
  ...OwnEvent.members,
  Schema.TaggedStruct("ChildEvent", { at, callId: Schema.String, event: suspended }),
  Schema.TaggedStruct("PlanEvent", { event: PlanRunEvent })
])

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

/** The event of a run inside, for the run around: the output of a completed run is in its answer already. */
export const placed = (event: Event): Event =>
  event._tag === "RunFinished" && event.outcome._tag === "Completed"
    ? { ...event, outcome: { _tag: "Completed" } }
    : event

export const timeOf = (event: Event): DateTime.Utc => (event._tag === "PlanEvent" ? event.event.at : event.at)

/**
 * The tokens that an event reports, of the run itself or of a run inside it. The usage of a
 * run is the sum over its events.
 */
export const usageOf = (self: Event): Message.TokenUsage | undefined => {
  const { event } = innermost(self)
  const reporting = event._tag === "ModelAnswered" ? event.message : event
  return "usage" in reporting ? reporting.usage : undefined
}

const oneCall: Readonly<Record<string, ledger.Amounts>> = { model: { modelCalls: 1 }, tool: { toolCalls: 1 } }

/**
 * The amounts that an event charges to the accounts of its run and of the runs around it: they depend on the event alone. A model call
 * counts where it has a reservation, so in runs with a budget around them.
 */
export const chargeOf = (self: Event): ledger.Amounts | undefined => {
  const { event } = innermost(self)
  switch (event._tag) {
    case "StepStarted":
    case "StepRetried":
      return event.reserved && oneCall["model"]
    case "ToolStarted":
      return oneCall["tool"]
    case "RunResumed":
      return event.lost
    case "PlanEvent":
      return event.event._tag === "ToolCalled" ? oneCall["tool"] : undefined
    default:
      return "spent" in event ? event.spent : undefined
  }
}

/** The effect of a decision on a budget, of the run itself or of a run around it. */
export const grantIn = (self: Event): budgetRequest.About | undefined => {
  const { event } = innermost(self)
  if (event._tag === "ApprovalDecided") return event.granted
  return event._tag === "PlanEvent" && event.event._tag === "StepDecided" ? event.event.granted : undefined
}

const deferrable: ReadonlySet<Event["_tag"]> = new Set([
  "RunStarted",
  "RunResumed",
  "ConversationFitted",
  "StepStarted",
  "GuardDecided",
  "GuardUsed",
  "ApprovalRequested",
  "ApprovalDecided"
])

const deferrableOfPlan: ReadonlySet<PlanRunEvent["_tag"]> = new Set(["PlanStarted", "PlanResumed", "StepDecided"])

/** True for an event that can be written together with the next one: nothing has happened outside of the run before that. */
export const isDeferrable = (self: Event): boolean => {
  const { event } = innermost(self)
  if (event._tag === "PlanEvent") return deferrableOfPlan.has(event.event._tag)
  // A reservation is stored before its call is made
  const reserves = event._tag === "StepStarted" && event.reserved !== undefined
  const holds = event._tag === "GuardDecided" && event.held !== undefined
  return deferrable.has(event._tag) && !reserves && !holds
}

/** The decision in an event, with its path. */
export const decisionIn = (self: Event): runRequests.Identity | undefined => {
  const { event, path } = innermost(self)
  if (event._tag === "ApprovalDecided") return { ...event, path }
  return event._tag === "PlanEvent" && event.event._tag === "StepDecided" ? { ...event.event, path } : undefined
}

/** True for a decision, of a run or of a run inside it. It comes from outside, also while nothing runs. */
export const isDecision = (event: Event): boolean => decisionIn(event) !== undefined
