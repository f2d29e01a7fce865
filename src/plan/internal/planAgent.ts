/**
 * A bound plan as an agent: input from messages, the answer from the result, and progress for a resume.
 */

import * as Arr from "effect/Array"
import * as Chunk from "effect/Chunk"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import type * as AgentError from "../../agent/AgentError.ts"
import type { AgentEvent } from "../../agent/AgentEvent.ts"
import type * as Run from "../../agent/Run.ts"
import * as agentMachine from "../../agent/internal/agentMachine.ts"
import type * as agentParts from "../../agent/internal/agentParts.ts"
import * as agentReason from "../../agent/internal/agentReason.ts"
import * as agentRecorder from "../../agent/internal/agentRecorder.ts"
import type * as agentTypes from "../../agent/internal/agentTypes.ts"
import * as agentValue from "../../agent/internal/agentValue.ts"
import * as insideRun from "../../agent/internal/insideRun.ts"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import * as Json from "../../payload/Json.ts"
import { quote } from "../../payload/internal/base.ts"
import { problemsFromSchemaError } from "../../payload/internal/problems.ts"
import { appendToken, defined } from "../../payload/internal/values.ts"
import * as children from "../../run/internal/children.ts"
import * as definitionChange from "../../run/internal/definitionChange.ts"
import * as planRunParts from "../../run/internal/planRunParts.ts"
import type { OutputCheck } from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type * as PlanError from "../PlanError.ts"
import type { PlanEvent } from "../PlanEvent.ts"
import type * as PlanRun from "../PlanRun.ts"
import * as engine from "./engine.ts"
import * as livePlan from "./livePlan.ts"
import * as performStep from "./performStep.ts"
import * as planChange from "./planChange.ts"
import * as planFailure from "./planFailure.ts"
import * as planNames from "./planNames.ts"
import * as planTransition from "../../run/internal/planTransition.ts"
import type * as stepSchema from "./stepSchema.ts"

/**
 * A plan that can run, and the agent that it is. `A` and `R` are for the caller to know.
 *
 * A run of the agent has one step for each user message. While the plan runs, the state of the agent's run holds the
 * state of the plan, so that another process can resume it; requests suspend the run, and the runs around it.
 */
export const makeBound = <A, R>(bound: livePlan.BoundPlan): livePlan.Bound<A, R> => {
  const { definition, digest, output } = bound
  const resolved: agentParts.Resolved<unknown> = {
    digest,
    maxSteps: Math.max(1, definition.maxIterations),
    structured: "never",
    asksModel: false,
    parts: partsOf(bound),
    isOf: (state) => definitionChange.definitionOf(state) === digest,
    contractOf: () => undefined,
    changes: ({ plan }) => (plan === undefined ? Effect.succeed([]) : planChange.changesOf(bound, plan)),
    ask: () => Effect.void,
    perform: (run, action) =>
      action._tag === "RunTools" ? refuseCalls(run, action) : answerMessage(bound, run, action),
    decode: (text, json) => decodeAnswer(output, json === undefined ? text : json)
  }
  const resolve = () => Effect.succeed(resolved)
  const agent = agentValue.makeAgent({ name: definition.name, output, within: bound.within, resolve })
  return {
    // Sound: the answers of the plan are of its output schema, and what its code requires is `R`.
    ...(agent as agentTypes.Agent<A, R>),
    [planNames.boundTypeId]: planNames.boundTypeId,
    ...livePlan.inspectable("Plan.Bound", bound),
    definition,
    digest,
    live: bound
  }
}

const partsOf = (bound: livePlan.BoundPlan) => {
  const { parts, steps } = planChange.basisOf(bound)
  return { ...parts, ...Object.fromEntries(steps.map(({ digest, name }) => [appendToken("/steps", name), digest])) }
}

/** Answers the newest message of the user with a run of the plan, which begins or continues. */
const answerMessage = Effect.fnUntraced(function* (
  bound: livePlan.BoundPlan,
  run: agentParts.ActiveRun,
  { purpose, step }: runTransition.ActionOf<"CallModel">
) {
  const { recorder } = run
  yield* recorder.recordNow({ _tag: "StepStarted", step, purpose })
  if (recorder.interruption) return
  const { conversation, plan: state } = recorder.state
  const message = Conversation.messages(conversation).findLast(({ role }) => role === "user")
  if (message?.role !== "user") {
    // The process died before the input was recorded.
    const problem = "expected a user message to answer, found none. Resume the state with an input"
    return yield* recorder.fail(agentReason.makeReason("ConversationInvalid", { problem }))
  }
  const begin: performStep.RunStart =
    state === undefined
      ? { _tag: "Start", input: yield* planInput(bound, conversation, message) }
      : { _tag: "Resume", state }
  const write = writerOf(run)
  // The process that completed a step may have died before it wrote the value
  if (state !== undefined) yield* write(state)
  const ended = yield* Effect.result(engine.open(bound, begin, optionsOf(run), specOf(run, write)).result)
  const after = Result.isSuccess(ended) ? ended.success.state : ended.failure.state
  if (after !== undefined) yield* Effect.andThen(recorder.record(), write(after))
  if (Result.isSuccess(ended)) return yield* recordResult(bound, run, ended.success)
  // The limit is an outcome of agents, which the state has
  const { reason } = ended.failure
  if (reason._tag === "MaxIterationsExceeded") return
  if (reason._tag === "BudgetExceeded") {
    const { limit, scope, unit, used } = reason
    return yield* recorder.recordNow({ _tag: "BudgetExceeded", limit, scope, unit, used })
  }
  return yield* recorder.fail(toAgentReason(ended.failure, run.maxDepth))
})

/** The options of the plan's run: the options of the agent that a plan has, too. */
const optionsOf = ({ options, recorder }: agentParts.ActiveRun) => {
  const { maxSteps } = options
  const { onChange, timeouts } = insideRun.inherited(options, options.timeouts?.step)
  return {
    onChange,
    timeouts,
    context: recorder.state.context,
    maxIterations: maxSteps === "unlimited" ? Number.MAX_SAFE_INTEGER : maxSteps && Math.floor(maxSteps)
  }
}

/** Writes the values of steps with `writes` that the plan has finished, each once. */
const writerOf = ({ write }: agentParts.ActiveRun): ((state: PlanRun.State) => Effect.Effect<void>) => {
  if (write === undefined) return () => Effect.void
  const oneAtATime = Semaphore.makeUnsafe(1)
  let written = 0
  return (state) =>
    Chunk.size(state.history) <= written
      ? Effect.void
      : oneAtATime.withPermit(
          Effect.suspend(() =>
            Effect.map(Effect.forEach(planTransition.writesFrom(state, written), write, { discard: true }), () => {
              written = Math.max(written, Chunk.size(state.history))
            })
          )
        )
}

/**
 * Events of the plan are events of the agent. The values of steps with `writes` follow the events of these steps. Events of agents in
 * steps are shown as events of children, with the names of the steps as ids and names.
 */
const specOf = (
  { options, recorder, runDeadline: deadline, streaming }: agentParts.ActiveRun,
  write: (state: PlanRun.State) => Effect.Effect<void>
): performStep.Spec => {
  const parent: performStep.Parent = children.inside(recorder, {
    event: (event: PlanRun.Event): Run.Event => ({ _tag: "PlanEvent", event }),
    view: (event: PlanEvent<unknown>) =>
      event._tag === "Agent"
        ? [...event.path, event.step].reduceRight<AgentEvent<unknown>>(
            (inner, step) => ({ _tag: "Child", callId: step, name: step, event: inner, state: recorder.state }),
            event.event
          )
        : undefined
  })
  return {
    joins: true,
    streaming,
    deadline,
    inherited: insideRun.inherited(options),
    parent: {
      ...parent,
      record: (recorded) =>
        Effect.andThen(
          parent.record(recorded),
          Effect.suspend(() => write(Arr.lastNonEmpty(recorded).state))
        )
    }
  }
}

/** Records the answer of a plan. A plan that waits has saved its requests. */
const recordResult = Effect.fnUntraced(function* (
  bound: livePlan.BoundPlan,
  run: agentParts.ActiveRun,
  result: PlanRun.Result<unknown>
) {
  const { recorder, streaming } = run
  if (result.outcome === "Paused") return
  if (result.outcome === "Interrupted") return yield* agentMachine.interrupt(recorder, result.reason)
  const text = result.outcome === "Completed" ? result.text : result.answer
  const output: OutputCheck =
    result.outcome === "Completed"
      ? { _tag: "Valid", value: result.payload }
      : yield* concludedAnswer(bound.output, result.answer)
  const message = yield* Message.assistant(text)
  // The deltas of an answer add up to its text.
  if (streaming && text !== "") recorder.show({ _tag: "TextDelta", messageId: message.id, index: 0, delta: text })
  // A text is the output of an agent without an output, too
  const isText = output._tag === "Valid" && output.value === text
  yield* recorder.recordNow({
    _tag: "ModelAnswered",
    message,
    ...(!isText && { output: runTransition.recordedCheck(message, output) })
  })
})

/** A conversation may come with calls. No tool of them is known here. */
const refuseCalls = Effect.fnUntraced(function* (
  run: agentParts.ActiveRun,
  action: runTransition.ActionOf<"RunTools">
) {
  const refused = action.calls.map(({ part }) => {
    const problem = `expected no open call of a tool, found ${JSON.stringify(part.name)}`
    return { callId: part.id, name: part.name, result: ToolResult.failure("unknown_tool", problem) }
  })
  for (const call of [...action.settled, ...refused]) yield* agentRecorder.recordToolFinished(run, call)
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
 * assistants is the context. Where the plan reads something structured the payload is the JSON in the task. A message that was
 * sent as the input of a plan has its own payload and context.
 */
const planInput = (
  bound: livePlan.BoundPlan,
  conversation: Run.State["conversation"],
  message: Message.UserMessage
): Effect.Effect<planRunParts.Input> => {
  const messages = Conversation.messages(conversation)
  const beside = planRunParts.besideOf(message.metadata)
  const [first, ...others] = message.content
  const content = beside === undefined ? message.content.filter((part) => part.type !== "text") : others
  const task = beside !== undefined && first.type === "text" ? first.text : Message.text(message)
  const context = beside?.context ?? earlierMessages(messages.slice(0, messages.indexOf(message)))
  const payload =
    beside?.payload === undefined ? performStep.coercePayload(bound, task) : Effect.succeed(beside.payload)
  return Effect.map(payload, (payload) => ({
    task,
    payload,
    ...defined({ context: context || undefined, content: content.length === 0 ? undefined : content })
  }))
}

/** The typed output of the JSON that a run holds. */
const decodeAnswer = (schema: stepSchema.StepCodec | undefined, output: Schema.Json) =>
  schema === undefined
    ? Effect.succeed(output)
    : Effect.mapError(Schema.decodeEffect(schema)(output, { errors: "all" }), (error) =>
        problemsFromSchemaError(error, output)
      )

/**
 * The answer that ended a plan early: the text itself where the plan's output can be
 * that, and otherwise the JSON that the text holds.
 */
const concludedAnswer = Effect.fnUntraced(function* (schema: stepSchema.StepCodec | undefined, answer: string) {
  const isText = Result.isSuccess(yield* Effect.result(decodeAnswer(schema, answer)))
  const value = isText ? answer : yield* Effect.orElseSucceed(Json.parse(answer), () => answer)
  return yield* Effect.match(decodeAnswer(schema, value), {
    onFailure: (issues): OutputCheck => ({ _tag: "Invalid", issues }),
    onSuccess: (): OutputCheck => ({ _tag: "Valid", value })
  })
})

/** The place and tag of a failure, without the text of the error. */
const failureProblem = (error: PlanError.PlanError): string | undefined => {
  const { reason } = error
  switch (reason._tag) {
    case "StepFailed": {
      const place = [...reason.path, reason.step].map(quote).join(" > ")
      const found = `the step ${place} failed with ${reason.failure.type}`
      if (!planFailure.isPlanReason(error, reason.failure.type)) return found
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

const failedStep = (reason: PlanError.PlanError["reason"]) => {
  if (!("step" in reason)) return undefined
  const path = reason._tag === "StepFailed" ? reason.path : []
  return { name: reason.step, path, ...("failure" in reason && { type: reason.failure.type }) }
}

const toAgentReason = (error: PlanError.PlanError, maxDepth: number): AgentError.Reason => {
  const { reason } = error
  // Too deep is too deep for all of the nest, as among agents.
  if (reason._tag === "StepFailed" && reason.failure.type === "MaxDepth") {
    return agentReason.makeReason("MaxDepth", { limit: maxDepth }, error)
  }
  if (reason._tag === "InvalidDecision") return reason
  if (reason._tag === "PlanChanged") {
    const { changes, expected, found } = reason
    return new runTransition.DefinitionChanged({ expected: found, found: expected, changes })
  }
  const details = { error: reason._tag, ...defined({ problem: failureProblem(error), step: failedStep(reason) }) }
  return agentReason.makeReason("DelegateFailed", details, error)
}
