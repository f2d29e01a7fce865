/**
 * A bound plan as an agent: input from messages, the answer from the result, and progress for a resume.
 */

import type * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as AgentError from "../../agent/AgentError.ts"
import type { AgentEvent } from "../../agent/AgentEvent.ts"
import * as Run from "../../agent/Run.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import * as delegate from "../../agent/internal/delegate.ts"
import type { ActiveRun } from "../../agent/internal/driver.ts"
import type { Agent } from "../../agent/internal/agentTypes.ts"
import type { OutputCheck, ProgressDecision } from "../../agent/internal/runParts.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as Json from "../../payload/Json.ts"
import * as PayloadError from "../../payload/PayloadError.ts"
import { defined, quote } from "../../payload/internal/base.ts"
import * as plainJson from "../../payload/internal/plainJson.ts"
import * as PlanError from "../PlanError.ts"
import type { PlanEvent } from "../PlanEvent.ts"
import * as PlanRun from "../PlanRun.ts"
import * as engine from "./engine.ts"
import * as livePlan from "./livePlan.ts"
import * as performStep from "./performStep.ts"
import type * as planRunParts from "./planRunParts.ts"
import * as planTransition from "./planTransition.ts"
import * as stepSchema from "./stepSchema.ts"

/** Saves the events of the plan's run as progress of the agent's. */
const journalOf = (turn: ActiveRun, before: PlanRun.State | undefined): livePlan.Journal => {
  let reported = before?.usage ?? {}
  return (events, state) =>
    Effect.flatMap(encodeProgress(events), (encoded) => {
      const usage = usageDifference(state.usage, reported)
      reported = state.usage
      return delegate.saveProgress(turn, {
        facts: encoded,
        requests: state.outcome?._tag === "Paused" ? requestsOf(state.outcome) : [],
        limited: state.outcome?._tag === "LimitReached",
        ...defined({ usage })
      })
    })
}

/** Events of agents in steps are emitted as those of children, with the names of the steps as ids and names. */
const sinkOf = ({ recorder, streaming }: ActiveRun): performStep.EventSink => ({
  streaming,
  emit: (event: PlanEvent<unknown>) =>
    event._tag === "Agent"
      ? Effect.suspend(() =>
          recorder.emit(
            [...event.path, event.step].reduceRight<AgentEvent<unknown>>(
              (inner, step) => ({ _tag: "Child", callId: step, name: step, event: inner, state: recorder.state() }),
              event.event
            )
          )
        )
      : Effect.void
})

/** The options of the plan's run: those of the agent's that mean the same. */
const optionsOf = (
  turn: ActiveRun,
  before: PlanRun.State | undefined,
  decisions: ReadonlyArray<ProgressDecision>
): livePlan.ResumeOptions => {
  const { maxSteps, timeouts } = turn.options
  return {
    journal: journalOf(turn, before),
    context: turn.recorder.state().context,
    timeouts: { step: timeouts?.step, tool: timeouts?.tool },
    maxIterations: maxSteps === "unlimited" ? Number.MAX_SAFE_INTEGER : maxSteps,
    decisions
  }
}

const endResult = (
  bound: livePlan.BoundPlan,
  result: PlanRun.Result<unknown>
): Effect.Effect<delegate.AnswerOutcome> => {
  switch (result.outcome) {
    case "Completed":
      return Effect.succeed({
        _tag: "Answered",
        text: result.text,
        output: { _tag: "Valid", value: result.payload }
      })
    case "Concluded":
      return Effect.map(concludedAnswer(bound.output, result.answer), (output) => ({
        _tag: "Answered",
        text: result.answer,
        output
      }))
    case "Paused":
      return Effect.succeed({ _tag: "Suspended" })
    case "Interrupted":
      return Effect.succeed({ _tag: "Interrupted", reason: result.reason })
  }
}

/** The limit is an outcome of agents; whatever else went wrong is an error of theirs, too. */
const failResult = (
  turn: ActiveRun,
  error: PlanError.PlanError
): Effect.Effect<delegate.AnswerOutcome, AgentError.Reason> =>
  error.reason._tag === "MaxIterationsExceeded"
    ? Effect.succeed({ _tag: "Suspended" })
    : Effect.fail(toAgentReason(error, turn.environment.maxDepth))

const answerWith = Effect.fnUntraced(function* (
  bound: livePlan.BoundPlan,
  turn: ActiveRun,
  message: Message.UserMessage
) {
  const { conversation, progress } = turn.recorder.state()
  const state = progress && (yield* replayProgress(bound, progress.facts))
  const begin: performStep.RunStart =
    state === undefined
      ? { _tag: "Start", input: yield* planInput(bound, conversation, message) }
      : { _tag: "Resume", state }
  const options = optionsOf(turn, state, progress?.decisions ?? [])
  return yield* Effect.matchEffect(engine.drive(bound, begin, options, sinkOf(turn)), {
    onFailure: (error) => failResult(turn, error),
    onSuccess: (result) => endResult(bound, result)
  })
})

/** A plan that can run, and the agent that it is. `A` and `R` are for the caller to know. */
export const makeBound = <A, R>(bound: livePlan.BoundPlan): livePlan.Bound<A, R> => {
  const agent = delegate.makeDelegate({
    name: bound.definition.name,
    digest: bound.digest,
    maxSteps: Math.max(1, bound.definition.maxIterations),
    output: bound.output,
    answer: (turn, message) => answerWith(bound, turn, message),
    decode: (output) => decodeAnswer(bound.output, output)
  })
  return {
    // Sound: the answers of the plan are of its output schema, and what its code requires is `R`.
    ...(agent as Agent<A, R>),
    [livePlan.boundTypeId]: livePlan.boundTypeId,
    ...livePlan.inspectable("Plan.Bound", bound),
    definition: bound.definition,
    digest: bound.digest,
    live: bound
  }
}

/**
 * One fact with its version. Secrets are looked for where the state of the agent's run is written; a run in memory
 * may hold them.
 */
const ProgressEvent = Schema.Struct({ version: Schema.Literal(1), event: PlanRun.Event })

const progressToJson = Schema.encodeEffect(ProgressEvent)

const progressFromJson = Schema.decodeUnknownEffect(Schema.Array(ProgressEvent))

const encodeProgress = (events: ReadonlyArray<PlanRun.Event>): Effect.Effect<ReadonlyArray<Schema.Json>> =>
  Effect.orDie(
    Effect.forEach(events, (event) =>
      // Sound: the wire of a fact is JSON. One that was applied is one of the type, so it can be written.
      Effect.map(progressToJson({ version: 1, event }), (json) => json as Schema.Json)
    )
  )

const unreadableProgress = (error: { readonly _tag: string; readonly message: string }): AgentError.Reason =>
  agentReason.makeReason(
    "DelegateFailed",
    { error: error._tag, problem: "the progress in the state is not that of this plan's run" },
    error
  )

/** The state of a plan's run, from its events. */
const replayProgress = (
  bound: livePlan.BoundPlan,
  facts: Chunk.Chunk<Schema.Json>
): Effect.Effect<PlanRun.State, AgentError.Reason> =>
  Effect.gen(function* () {
    const rules = yield* engine.completeRules(bound)
    const events = yield* Effect.mapError(progressFromJson(Array.from(facts)), unreadableProgress)
    const recorded = events.map(({ event }) => event)
    const edited = engine.changedNestedPlan(rules, recorded)
    if (edited !== undefined) return yield* Effect.fail(toAgentReason(edited, 0))
    const folded = planTransition.fold(rules, recorded)
    return yield* Effect.mapError(Effect.fromResult(folded), unreadableProgress)
  })

const speakers = { user: "User", assistant: "Assistant" } as const

/** The text of earlier messages, one paragraph for each message that has some. */
const earlierMessages = (messages: ReadonlyArray<Message.Message>): string =>
  messages
    .flatMap((message) => {
      if (message.role !== "user" && message.role !== "assistant") return []
      const text = Message.text(message)
      return text === "" ? [] : [`${speakers[message.role]}: ${text}`]
    })
    .join("\n\n")

/**
 * The newest user message is the task, its files are the content, and the text of earlier messages of users and
 * assistants is the context. Where the plan reads something structured the payload is the JSON in the task.
 */
const planInput = (
  bound: livePlan.BoundPlan,
  conversation: Run.State["conversation"],
  message: Message.UserMessage
): Effect.Effect<planRunParts.Input> => {
  const messages = Conversation.messages(conversation)
  const context = earlierMessages(messages.slice(0, messages.indexOf(message)))
  const content = message.content.filter((part) => part.type !== "text")
  const task = Message.text(message)
  return Effect.map(performStep.coercePayload(bound, task), (payload) => ({
    task,
    payload,
    ...defined({ context: context || undefined, content: content.length === 0 ? undefined : content })
  }))
}

/** The typed output of the JSON that a run holds. */
const decodeAnswer = (
  schema: stepSchema.StepCodec | undefined,
  output: Schema.Json
): Effect.Effect<unknown, ReadonlyArray<PayloadError.Problem>> =>
  schema === undefined
    ? Effect.succeed(output)
    : Effect.mapError(Schema.decodeEffect(schema)(output, { errors: "all" }), (error) =>
        plainJson.problemsFromSchemaError(error, output)
      )

const checkAnswer = (schema: stepSchema.StepCodec | undefined, value: Schema.Json): Effect.Effect<OutputCheck> =>
  Effect.match(decodeAnswer(schema, value), {
    onFailure: (issues): OutputCheck => ({ _tag: "Invalid", issues }),
    onSuccess: (): OutputCheck => ({ _tag: "Valid", value })
  })

/**
 * The answer that ended a plan early: the text itself where the plan's output can be
 * that, and otherwise the JSON that the text holds.
 */
const concludedAnswer = (schema: stepSchema.StepCodec | undefined, answer: string): Effect.Effect<OutputCheck> =>
  Effect.filterOrElse(
    checkAnswer(schema, answer),
    ({ _tag }) => _tag === "Valid",
    (direct) =>
      Effect.matchEffect(Json.parse(answer), {
        onFailure: () => Effect.succeed(direct),
        onSuccess: (value) => checkAnswer(schema, value)
      })
  )

type PausedOutcome = Extract<PlanRun.Outcome, { readonly _tag: "Paused" }>

/**
 * A step that waits for a resume is a request under its own name: it fails when it is
 * denied, and runs again when the plan is resumed, which takes one decision about anything
 * that waits; so does a step in the same band without a decision. A call is never made
 * without its own decision.
 */
const requestsOf = ({ pauses, requests }: PausedOutcome): ReadonlyArray<Run.ApprovalRequest> => [
  ...requests,
  ...pauses.map(({ path, reason, step }) => ({
    callId: step,
    name: step,
    arguments: { reason },
    ...(path.length === 0 ? undefined : { path })
  }))
]

/** The failures that plans detect. Their messages have places and kinds, and quote only decisions. */
const planReasonTypes: ReadonlySet<string> = new Set([
  "Timeout",
  "Denied",
  "InputInvalid",
  "OutputInvalid",
  "OutputNotJson",
  "MaxSteps",
  "InvalidOutput",
  "Stopped",
  "Interrupted"
])

/** An error of a step can have any type; then it is the cause. */
const isPlanReason = (error: PlanError.PlanError, type: string): boolean =>
  planReasonTypes.has(type) &&
  Option.match(PlanError.causeOf(error), {
    onNone: () => true,
    onSome: (cause) =>
      cause instanceof PayloadError.PayloadError ||
      cause instanceof stepSchema.InputInvalid ||
      cause instanceof stepSchema.OutputInvalid
  })

/** The place and tag of a failure, without the text of the error. */
const failureProblem = (error: PlanError.PlanError): string | undefined => {
  const { reason } = error
  switch (reason._tag) {
    case "StepFailed": {
      const place = [...reason.path, reason.step].map(quote).join(" > ")
      const found = `the step ${place} failed with ${reason.failure.type}`
      if (!isPlanReason(error, reason.failure.type)) return found
      // The message is for models; advice is for the author of the plan
      return `${found}: ${reason.failure.message.replace(performStep.outputAdvice, "")}`
    }
    case "PredicateFailed":
      return `the predicate ${quote(reason.predicate)} of the step ${quote(reason.step)} failed with ${reason.failure.type}`
    case "OutputInvalid":
      return `the output of the step ${quote(reason.step)} does not fit the output schema of the plan: ${reason.failure.message}`
    case "ReferenceFailed":
      return `the step ${quote(reason.step)} reads ${reason.reference}, which has no result`
    default:
      return undefined
  }
}

const toAgentReason = (error: PlanError.PlanError, maxDepth: number): AgentError.Reason => {
  const { reason } = error
  // Too deep is too deep for all of the nest, as among agents.
  if (reason._tag === "StepFailed" && reason.failure.type === "MaxDepth") {
    return agentReason.makeReason("MaxDepth", { limit: maxDepth }, error)
  }
  if (reason._tag === "PlanChanged") {
    return new Run.DefinitionChanged({ expected: reason.found, found: reason.expected })
  }
  return agentReason.makeReason(
    "DelegateFailed",
    { error: reason._tag, ...defined({ problem: failureProblem(error) }) },
    error
  )
}

const usageFields = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"] as const

/** The usage in `after` that `before` lacks, or nothing where they are the same. */
const usageDifference = (after: Message.TokenUsage, before: Message.TokenUsage): Message.TokenUsage | undefined => {
  const entries = usageFields.flatMap((field): ReadonlyArray<[(typeof usageFields)[number], number]> => {
    const value = after[field]
    return value === undefined || value === before[field] ? [] : [[field, value - (before[field] ?? 0)]]
  })
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
}
