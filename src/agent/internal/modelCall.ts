/** One model call of a run: its request, its retries, its mistakes and its answer. */

import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Message from "../../conversation/Message.ts"
import { TokenCounter } from "../../conversation/TokenCounter.ts"
import * as history from "../../conversation/internal/history.ts"
import * as modelMessages from "../../conversation/internal/modelMessages.ts"
import * as reduction from "../../conversation/internal/reduction.ts"
import { once, quote } from "../../payload/internal/base.ts"
import { Limits } from "../../payload/internal/limits.ts"
import * as messageOrder from "../../payload/internal/messageOrder.ts"
import { overLimit, publicDescription, tooLargeAnswer } from "../../payload/internal/problems.ts"
import { defined } from "../../payload/internal/values.ts"
import * as durability from "../../run/internal/durability.ts"
import * as ledger from "../../run/internal/ledger.ts"
import * as repetition from "../../run/internal/repetition.ts"
import * as retryPolicy from "../../run/internal/retryPolicy.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import type { ToolSet } from "../../tool/internal/boundTool.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import type * as AgentError from "../AgentError.ts"
import * as ModelPrices from "../ModelPrices.ts"
import * as agentOutput from "./agentOutput.ts"
import type * as agentParts from "./agentParts.ts"
import * as agentReason from "./agentReason.ts"
import * as agentRecorder from "./agentRecorder.ts"
import type * as agentTypes from "./agentTypes.ts"
import * as modelTimeouts from "./modelTimeouts.ts"
import * as callContracts from "./callContracts.ts"
import * as outputParts from "./outputParts.ts"
import { OutputLimit, StreamedFormat, streamsObjects } from "./outputLimit.ts"
import * as sharedBudgets from "./sharedBudgets.ts"
import * as runSpans from "./runSpans.ts"

/** The origin of the server that could not be reached. Other parts of the URL may hold a key. */
const connectionProblem = (reason: AiError.AiErrorReason): string | undefined =>
  reason._tag === "NetworkError" && /^https?:/.test(reason.url) && URL.canParse(reason.url)
    ? `the connection to ${new URL(reason.url).origin} failed`
    : undefined

const isOverLimit = (reason: AiError.AiErrorReason): boolean =>
  "metadata" in reason && reason.metadata[overLimit] === true

const publicDescriptionOf = (reason: AiError.AiErrorReason): string | undefined =>
  "description" in reason && "metadata" in reason && reason.metadata[publicDescription] === true
    ? reason.description
    : undefined

const isWorthRetrying = (error: AiError.AiError): boolean => error.isRetryable && !isOverLimit(error.reason)

/** The reason for an error of `effect/ai`. */
export const modelFailed = (error: AiError.AiError, model?: string): agentReason.ReasonOf<"ModelFailed"> => {
  const { reason } = error
  const problem = publicDescriptionOf(reason) ?? connectionProblem(reason)
  const retryAfterMillis = error.retryAfter && Duration.toMillis(error.retryAfter)
  return agentReason.makeReason(
    "ModelFailed",
    {
      error: modelTimeouts.kindOf(reason),
      retryable: isWorthRetrying(error),
      ...defined({ retryAfterMillis, model, problem })
    },
    error
  )
}

const defaultModelMistakes = 2

type ModelCall = agentParts.ModelCall

type Answered = agentParts.Answered

/** The seam of the requests of model calls: each passes here before anything of its call is recorded. */
const passPrompt = (call: ModelCall): Effect.Effect<ModelCall | undefined> =>
  call.run.guarding === undefined ? Effect.succeed(call) : call.run.guarding.passPrompt(call)

/**
 * The seam of model calls. Each call passes here, and its answer before anything of the answer is recorded, except the tokens of
 * attempts that failed. `send` makes the attempts of the call.
 *
 * Guards decide here. They have refused where there is no answer. A pass leaves no record: the request that it was about is made
 * again with it where the process dies before the answer is recorded.
 */
const passModel = (
  call: ModelCall,
  send: agentParts.Send
): Effect.Effect<Answered | undefined, AgentError.AgentError> =>
  call.run.guarding === undefined ? send(call) : call.run.guarding.passModel(call, send)

/** Calls the model once and records its answer, or its mistake. */
export const callModel = Effect.fnUntraced(function* (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  action: runTransition.ActionOf<"CallModel">
) {
  const { options, recorder } = run
  const approved = runTransition.approvedAnswer(recorder.state)
  if (approved !== undefined) return yield* recordApproved(agent, run, action, approved)
  const limit = options.modelMistakes ?? defaultModelMistakes
  const mistakes = action.mistakes.length
  if (mistakes > limit) {
    return yield* recorder.fail(agentReason.makeReason("ModelMistakes", { step: action.step, limit, mistakes }))
  }
  const { contextWindow = agent.contextWindow } = options
  if (contextWindow !== undefined && contextWindow !== "unlimited") {
    yield* fitConversation(contextWindow, agent, run)
    if (recorder.interruption) return
  }
  const { purpose, step: number } = action
  const call = yield* passPrompt({ agent, run, action, ...requestOf(agent, run, action) })
  if (call === undefined || recorder.interruption) return
  const isShared = sharedBudgets.areGiven(run)
  const estimate =
    isShared || recorder.budgets !== undefined ? yield* estimateFor(agent, run, askedModel(agent, recorder)) : undefined
  const held: Held =
    isShared && estimate !== undefined ? yield* sharedBudgets.hold(run, agent, estimate) : Result.succeed(estimate)
  // Nothing comes between a reservation and its record
  const reserved = Result.flatMap(held, (estimate) => reserve(recorder, estimate))
  if (Result.isFailure(reserved)) {
    yield* sharedBudgets.settle(run, undefined)
    return yield* agentRecorder.recordRefused(recorder, reserved.failure)
  }
  yield* recorder.record({ _tag: "StepStarted", at: recorder.now(), step: number, purpose, ...reserved.success })
  const asking = performCall(call)
  yield* isShared ? Effect.ensuring(asking, settleRest(run)) : asking
})

/** The estimate of a call that shared budgets do not refuse, if there is a budget. */
type Held = Result.Result<ledger.Estimate | undefined, ledger.Limit>

/** Records the answer that a person has approved, whose tokens have counted. */
const recordApproved = Effect.fnUntraced(function* (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  action: ModelCall["action"],
  { content, finishReason, model, response }: Message.AssistantMessage
) {
  const { recorder } = run
  const { asked } = requestOf(agent, run, action)
  const { purpose, step } = action
  yield* recorder.recordNow({ _tag: "StepStarted", step, purpose })
  yield* beginAnswer(agent, run)
  if (run.streaming) yield* showAnswer(recorder, content)
  const answer = { content, ...defined({ finishReason, model, response }), approvals: [], errors: [] }
  yield* recordAnswer(agent, run, answer, asked)
})

const performCall = Effect.fnUntraced(function* (call: ModelCall) {
  const { action, agent, asked, run } = call
  const { recorder } = run
  if (recorder.interruption) return
  const answered = yield* passModel(call, answerTo)
  if (answered === undefined || recorder.state.exceeded !== undefined) return
  yield* Result.isSuccess(answered)
    ? recordAnswer(agent, run, answered.success, asked)
    : recordMistake(agent, run, action, answered.failure)
})

/** An interruption leaves a reservation: it counts where the model had begun to write. */
const settleRest = (run: agentParts.ActiveRun): Effect.Effect<void> =>
  Effect.suspend(() => {
    const { shared, written } = run.recorder
    const hasBegun = (written?.result().content.length ?? 0) > 0
    return sharedBudgets.settle(run, hasBegun ? (shared?.reserved ?? {}) : {})
  })

/** Records an answer that was a mistake of the model. Any other failure, and one mistake too many, ends the process of running. */
const recordMistake = Effect.fnUntraced(function* (
  agent: agentParts.ModelAgent,
  { options, recorder }: agentParts.ActiveRun,
  action: ModelCall["action"],
  failure: AiError.AiError
) {
  const limit = options.modelMistakes ?? defaultModelMistakes
  const problem = mistakeOf(failure)
  if (problem === undefined) return yield* recorder.fail(modelFailed(failure, askedModel(agent, recorder).name))
  yield* recorder.recordNow({ _tag: "ModelMistaken", problem })
  const mistakes = action.mistakes.length + 1
  if (mistakes <= limit || recorder.interruption) return
  const last = { error: failure.reason._tag, ...defined({ problem: shownMistake(failure) }) }
  return yield* recorder.fail(
    agentReason.makeReason("ModelMistakes", { step: action.step, limit, mistakes, last }, failure)
  )
})

const recordAnswer = Effect.fnUntraced(function* (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  answer: Omit<modelMessages.ResponseContent, "finishReason"> & { readonly finishReason?: string | undefined },
  asked: ReadonlyArray<string>
) {
  const { options, recorder } = run
  const { name } = askedModel(agent, recorder)
  const { approvals, content, finishReason, response, usage } = answer
  // Of several models it is known which one answered, also where the provider does not report it
  const { model = agent.models.length > 1 ? name : undefined } = answer
  const [approval] = approvals
  if (approval !== undefined) {
    yield* recordDiscarded(run, usage)
    const call = content.find((part) => part.type === "tool-call" && part.id === approval.callId)
    const tool = call?.type === "tool-call" ? call.name : undefined
    return yield* recorder.fail(agentReason.makeReason("ApprovalByProvider", { ...approval, ...defined({ tool }) }))
  }
  const id = recorder.messageId
  const message = yield* Message.assistant(content, { usage, model, finishReason, response, ...defined({ id }) })
  if (hasResult(content) && Result.isFailure(history.append(recorder.state.conversation, message))) {
    yield* recordDiscarded(run, usage)
    return yield* recorder.fail(modelFailed(failRequest("generateText", strayResult()), name))
  }
  const contracts = callContracts.newContracts(agent, recorder.state, message)
  const maxEmpty = history.isEmptyAnswer(message) ? countOf(options.emptyAnswers) : undefined
  const { output, outputTool } = agent
  const checked = output._tag === "Text" ? undefined : yield* agentOutput.checkOutput(output, outputTool, message)
  recorder.written = undefined
  const used = recorder.spent(usage)
  yield* recorder.record({
    _tag: "ModelAnswered",
    at: recorder.now(),
    message: history.markAsked(runParts.markOutput(message, checked?.outputCall), asked),
    ...defined({ contracts, maxEmpty, repeatedCalls: repeatedCallsOf(agent, run) }),
    ...used,
    ...checked,
    ...(checked?.output && { output: runTransition.recordedCheck(message, checked.output, checked.outputCall) })
  })
  if (used.spent !== undefined) yield* sharedBudgets.settle(run, used.spent)
  if (finishReason !== "length" || recorder.budgets === undefined) return
  // The provider has cut the answer off where the budget ends
  const next = ledger.reserve(recorder.budgets, { inputTokens: 0, outputTokens: 1, price: recorder.price })
  if (Result.isFailure(next)) yield* recorder.recordNow({ _tag: "BudgetExceeded", ...ledger.usageOf(next.failure) })
})

/** The limits of calls that repeat, of the run or of its agent; `undefined` for the default. */
const repeatedCallsOf = ({ definition }: agentParts.ModelAgent, { options }: agentParts.ActiveRun) =>
  options.repeatedCalls ?? definition.repeatedCalls

/** The limit as a state can store it. */
const countOf = (limit: number | undefined): number | undefined =>
  limit === undefined ? undefined : Math.min(Math.max(0, Math.floor(limit) || 0), Number.MAX_SAFE_INTEGER)

const hasResult = (content: ReadonlyArray<Message.AssistantPart>): boolean =>
  content.some(({ type }) => type === "tool-result")

const strayResult = once(
  () =>
    new AiError.InternalProviderError({
      description: "an answer with the result of a call that it does not have",
      metadata: { [publicDescription]: true }
    })
)

/** The retries where neither the run nor the agent has others, and the pauses where they have none. */
const defaultRetry = { times: 2, delayMillis: 1000, factor: 2, maxDelayMillis: 60_000 } as const

/** The model of the run now: the first model, or the model that the run continued with. */
export const askedModel = (
  { models }: agentParts.ModelAgent,
  { state }: agentRecorder.AgentRecorder
): agentParts.NamedModel => models.find(({ name }) => name === state.model) ?? models[0]

/** True for an error after which the same request may succeed. */
const isPassing = (error: AiError.AiError): boolean => isWorthRetrying(error) && mistakeOf(error) === undefined

/** The problem that the provider's adapter found, if it was the model's mistake. */
const mistakeOf = ({ reason }: AiError.AiError): string | undefined =>
  modelMistakes.has(reason._tag) && !isOverLimit(reason) ? reason.message : undefined

/** The part of a mistake that holds no text of the model but the name of a tool. */
const shownMistake = ({ reason }: AiError.AiError): string | undefined =>
  reason._tag === "ToolNotFoundError" || reason._tag === "ToolParameterValidationError"
    ? `in a call of ${quote(reason.toolName)}`
    : publicDescriptionOf(reason)

const modelMistakes: ReadonlySet<AiError.AiErrorReason["_tag"]> = new Set([
  "ToolNotFoundError",
  "ToolParameterValidationError",
  "InvalidOutputError"
])

/** The answer to the request, of the last attempt. */
const answerTo = (call: ModelCall): Effect.Effect<Answered, AgentError.AgentError> =>
  Effect.flatMap(requestAnswer(call), (answered) =>
    Result.isSuccess(answered) ? Effect.succeed(answered) : askAgain(call, answered)
  )

/** Asks the same model again, or the next model that takes the error. Otherwise the failure is the answer. */
const askAgain = Effect.fnUntraced(function* (
  call: ModelCall,
  failed: Result.Failure<modelMessages.ResponseContent, AiError.AiError>
): Effect.fn.Return<Answered, AgentError.AgentError> {
  const { agent, run } = call
  const { failure } = failed
  const { recorder } = run
  const asked = askedModel(agent, recorder)
  const takes = (model: agentParts.NamedModel) =>
    model.takes === undefined
      ? Effect.succeed(true)
      : Effect.mapError(model.takes(failure), (reason) => recorder.fail(reason))
  const error = modelTimeouts.kindOf(failure.reason)
  const retry = retryOf(call, asked, failure)
  if (retry !== undefined && (yield* takes(asked))) {
    // Before the pause, so that what the attempt had written is withdrawn at once
    if (yield* recordRetry(call, { _tag: "StepRetried", error, ...retry }, asked)) return failed
    yield* durability.sleep(Duration.millis(retry.pauseMillis))
    return yield* answerTo(call)
  }
  const others = isForOthers(failure) ? agent.models.slice(agent.models.indexOf(asked) + 1) : []
  for (const next of others) {
    if (next.name === undefined || !(yield* takes(next))) continue
    const continued = { _tag: "StepRetried", attempt: 1, error, pauseMillis: 0, model: next.name } as const
    return (yield* recordRetry(call, continued, next)) ? failed : yield* answerTo(call)
  }
  return failed
})

/** True for an error after which another model may answer: it passes, or the quota of this provider is used up. */
const isForOthers = (error: AiError.AiError): boolean => isPassing(error) || error.reason._tag === "QuotaExhaustedError"

/** Records the next attempt with its reservation, or that a budget refuses the attempt. */
const recordRetry = Effect.fnUntraced(function* (
  { agent, run }: ModelCall,
  retried: Omit<runParts.EventOf<"StepRetried">, "at">,
  asked: agentParts.NamedModel
) {
  const { recorder } = run
  const isShared = sharedBudgets.areGiven(run)
  const estimate = isShared || recorder.budgets !== undefined ? yield* estimateFor(agent, run, asked) : undefined
  const held = isShared && estimate ? yield* Effect.option(sharedBudgets.hold(run, agent, estimate)) : undefined
  // The attempt is not made while the shared budgets cannot be reached
  if (held !== undefined && Option.isNone(held)) return true
  const wanted: Held = held?.value ?? Result.succeed(estimate)
  const reserved = Result.flatMap(wanted, (estimate) => reserve(recorder, estimate))
  const isRefused = Result.isFailure(reserved)
  if (isRefused) yield* sharedBudgets.settle(run, undefined)
  yield* isRefused
    ? agentRecorder.recordRefused(recorder, reserved.failure)
    : recorder.recordNow({ ...retried, ...reserved.success })
  return isRefused
})

/** The tokens that are reserved for an answer where the options of the model have no limit. */
const defaultOutput = 4096

const wantedOutput = ({ definition }: agentParts.ModelAgent, { options }: agentParts.ActiveRun): number => {
  const { max_output_tokens: most, max_tokens: max = defaultOutput } = {
    ...definition.modelOptions,
    ...options.modelOptions
  }
  const wanted = most ?? max
  return Predicate.isNumber(wanted) && wanted >= 1 ? wanted : defaultOutput
}

/** The estimate of the next request of a run. */
const estimateOf = (agent: agentParts.ModelAgent, run: agentParts.ActiveRun): Effect.Effect<ledger.Estimate> =>
  Effect.flatMap(TokenCounter, (counter) => {
    const { recorder } = run
    const { conversation, view } = recorder.state
    const size = reduction.estimatedSize(view ?? conversation, {
      overhead: overheadTokens(agent, recorder.state.structured, counter)
    })
    const outputTokens = wantedOutput(agent, run)
    return Effect.map(size, (tokens) => ({ inputTokens: Math.ceil(tokens), outputTokens, price: recorder.price }))
  })

/** The same with the price of the model. A budget of money needs one. */
const estimateFor = Effect.fnUntraced(function* (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  { name: modelName }: agentParts.NamedModel
) {
  const { recorder } = run
  const prices = yield* ModelPrices.ModelPrices
  recorder.price = prices.priceOf(modelName)
  if (recorder.price === undefined && recorder.budgets?.some(({ unit }) => unit === "micros") === true) {
    const problem = `expected a price of ${modelName === undefined ? "the model, which has no name" : `the model ${quote(modelName)}`}, because the budget has money, found none. Add the model to ModelPrices.layer`
    return yield* recorder.fail(agentReason.makeReason("OptionsInvalid", { problem }))
  }
  return yield* estimateOf(agent, run)
})

/** The reservation of a call, which fits all budgets around, or the limit that refuses it. Without budgets nothing is reserved. */
const reserve = (
  { budgets }: agentRecorder.AgentRecorder,
  estimate: ledger.Estimate | undefined
): Result.Result<{ readonly reserved?: ledger.Amounts }, ledger.Limit> =>
  estimate === undefined
    ? Result.succeed({})
    : Result.map(ledger.reserve(budgets ?? [], estimate), (reserved) => ({ reserved }))

/** The answer may have as many tokens as are reserved for it. */
const withinReservation = <A, E, R>(
  { budgets = [], shared, state }: agentRecorder.AgentRecorder,
  asking: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> => {
  const most = state.step?.reserved?.outputTokens
  return most === undefined || !(shared?.limitsAnswers === true || ledger.limitsAnswers(budgets))
    ? asking
    : Effect.provideService(asking, OutputLimit, most)
}

/** The next attempt of the same model, if one follows: it depends on the state, the error and the policy alone. */
const retryOf = ({ agent, run }: ModelCall, { retries }: agentParts.NamedModel, error: AiError.AiError) => {
  const { retry } = run.options
  const ofAgent = { ...agent.definition.retry, ...(retries !== undefined && { times: retries }) }
  const policy = { ...defaultRetry, ...(retry === undefined ? ofAgent : retryPolicy.policyOf(retry)) }
  const { attempt: tries = 1 } = run.recorder.state.step ?? {}
  const asked = error.retryAfter === undefined ? 0 : Duration.toMillis(error.retryAfter)
  const pause = isPassing(error) && asked <= policy.maxDelayMillis ? retryPolicy.delayMillis(policy, tries) : undefined
  if (pause === undefined) return undefined
  return { attempt: tries + 1, pauseMillis: Math.max(pause, asked) }
}

const structuredRequest = "Write the final answer in the required JSON format."

const promptOf = (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  { mistakes, purpose }: ModelCall["action"]
): Pick<ModelCall, "asked"> & Pick<agentParts.ModelRequest, "prompt"> => {
  const { output, tools } = agent
  const { state } = run.recorder
  const { answer, conversation, structured, view } = state
  const prompt = modelMessages.toPrompt(view ?? conversation, { toolName: tools.providerName })
  const text = agentOutput.systemTextOf(output, structured)
  const instructed = text === undefined ? prompt : withSystemText(prompt, text)
  const { lastAssistant } = history.asHistory(conversation)
  // Providers refuse a request for JSON that ends with an answer, and some any other: it would be the beginning of the next one
  const isEmpty = answer?.empty !== undefined
  const request =
    purpose === "structured"
      ? structuredRequest
      : isEmpty
        ? "Your last answer had no text and no call of a tool. Answer again."
        : lastAssistant?.finishReason === runTransition.cutOff
          ? "Your last answer was cut off before its end. Write it again."
          : undefined
  // An empty answer is not sent, so the request would be the same one again
  const isNeeded = request !== undefined && (isEmpty || prompt.content.at(-1)?.role === "assistant")
  const limits = repeatedCallsOf(agent, run)
  const repeated = runTransition.repetitionIn(state, limits)
  const note = repeated && repetition.noteOf(repeated, limits)
  const asked = [
    ...(note === undefined ? [] : [note]),
    ...(isNeeded ? [request] : []),
    ...mistakes.map((problem) => `Your last answer could not be used and was discarded. ${problem} Answer again.`)
  ]
  const whole =
    asked.length === 0 ? instructed : Prompt.fromMessages([...instructed.content, ...asked.map(modelMessages.asking)])
  return { asked, prompt: whole }
}

/** Adds a text to the first system message, and to each system message that replaces it. */
const withSystemText = ({ content }: Prompt.Prompt, text: string): Prompt.Prompt => {
  const messages = content.map((message, index) =>
    message.role === "system" && (index === 0 || messageOrder.replacedBy(message.content) !== undefined)
      ? Prompt.systemMessage({ ...message, content: `${message.content}\n\n${text}` })
      : message
  )
  return Prompt.fromMessages(
    messages[0]?.role === "system" ? messages : [Prompt.systemMessage({ content: text }), ...messages]
  )
}

const toolChoiceOf = (
  choice: agentTypes.ToolChoice,
  first: boolean,
  { providerName }: ToolSet
): LanguageModel.ToolChoice<string> => {
  const always = typeof choice === "object" && "every" in choice
  const chosen = always ? choice.every : first ? choice : "auto"
  if (typeof chosen === "string") return chosen
  return "tool" in chosen
    ? { tool: providerName(chosen.tool) }
    : { ...chosen, oneOf: chosen.oneOf.map((name) => providerName(name)) }
}

const requestOf = (
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun,
  action: ModelCall["action"]
): Pick<ModelCall, "asked" | "request"> => {
  const { asked, prompt } = promptOf(agent, run, action)
  const toolChoice = toolChoiceOf(
    run.options.toolChoice ?? agent.definition.toolChoice ?? "auto",
    action.first,
    agent.tools
  )
  return { asked, request: { prompt, toolChoice } }
}

/** Begins what is shown of an answer. */
const beginAnswer = Effect.fnUntraced(function* (
  { output, outputTool }: agentParts.ModelAgent,
  { context, recorder, streaming }: agentParts.ActiveRun
) {
  recorder.messageId = yield* yield* Message.MessageId
  const parts = Context.get(context, outputParts.OutputParts)
  recorder.partial =
    output._tag === "Structured" && streaming && recorder.isShown
      ? parts?.(output, outputTool, yield* Limits)
      : undefined
})

/** The answer of one attempt. The tokens of an unusable answer are recorded. */
const requestAnswer = Effect.fnUntraced(function* (call: ModelCall): Effect.fn.Return<Answered> {
  const { agent, run } = call
  if (agentRecorder.mustWait(run)) return yield* agentRecorder.untilInterrupted
  const before = yield* toolCall.BeforeCall
  if (before !== undefined) yield* before
  yield* beginAnswer(agent, run)
  const { answer, error } = yield* withinReservation(run.recorder, exchange(call))
  if (error === undefined) return Result.succeed(answer)
  run.recorder.written = undefined
  yield* recordDiscarded(run, answer.usage ?? usageOfError(error))
  return Result.fail(error)
})

/**
 * Asks the model, or finds what it answered where the program runs again. The deltas of an answer that came as a whole are its
 * parts.
 */
const exchange = Effect.fnUntraced(function* (call: ModelCall): Effect.fn.Return<durability.Exchange> {
  const { action, run } = call
  const { recorder } = run
  const durable = yield* durability.Durability
  let isAsked = false
  const asking = () => {
    isAsked = true
    return askModel(call)
  }
  const found = yield* durable === undefined
    ? asking()
    : durable.exchange(`model/${action.step}`, Effect.suspend(asking))
  if (run.streaming && !(isAsked && isStreamed(call))) {
    yield* showAnswer(recorder, found.answer.content, !recorder.holds)
  }
  return found
})

/** Shows a whole answer. */
export const showAnswer = (
  recorder: agentRecorder.AgentRecorder,
  content: ReadonlyArray<Message.AssistantPart>,
  isChecked = true
): Effect.Effect<void> => {
  const deltas = modelMessages.deltasOf(content)
  show(recorder, deltas, isChecked)
  return showOutput(recorder, deltas, isChecked)
}

/** Shows what the deltas add to a structured output. */
const showOutput = (
  recorder: agentRecorder.AgentRecorder,
  deltas: ReadonlyArray<modelMessages.Delta>,
  isChecked = !recorder.holds
): Effect.Effect<void> => {
  const { messageId, partial } = recorder
  if (partial === undefined || !isChecked || messageId === undefined || deltas.length === 0) return Effect.void
  return Effect.map(partial.add(deltas), (shown) => {
    for (const delta of shown) recorder.show({ _tag: "OutputDelta", messageId, ...delta })
  })
}

const show = (
  recorder: agentRecorder.AgentRecorder,
  deltas: ReadonlyArray<modelMessages.Delta>,
  isChecked = !recorder.holds
): void => {
  const { isShown, messageId } = recorder
  if (!isShown || !isChecked || messageId === undefined) return
  for (const delta of deltas) recorder.show({ ...delta, messageId })
}

const askModel = Effect.fnUntraced(function* (call: ModelCall): Effect.fn.Return<durability.Exchange> {
  const { action, agent, request, run } = call
  const { context, recorder } = run
  const accumulator = modelMessages.accumulator({
    isObject: action.purpose === "structured",
    isShown: recorder.isShown,
    toolName: agent.tools.canonicalName,
    labels: new history.CallLabels(history.asHistory(recorder.state.conversation))
  })
  const limits = yield* Limits
  recorder.written = accumulator
  const calls = callsOf(agent, run)
  const sent = yield* Effect.result(
    calls === undefined
      ? sendRequest(call, accumulator)
      : Effect.updateContext(
          runSpans.observe(calls, accumulator, {
            isStreaming: isStreamed(call),
            prompt: () => request.prompt,
            send: (watched) => sendRequest(call, watched),
            failure: (method) => errorIn(accumulator.result(), method, limits)
          }),
          (_: Context.Context<never>) => runSpans.withTracer(context, calls)
        )
  )
  const answer = accumulator.result()
  const error = Result.isFailure(sent) ? sent.failure : errorIn(answer, sent.success, limits)
  // A durable program could not store it
  const isStored = error?.reason._tag !== "InvalidOutputError"
  return { answer: { ...answer, content: isStored ? history.mend(answer.content) : [] }, error }
})

const recordDiscarded = (run: agentParts.ActiveRun, usage: Message.TokenUsage | undefined): Effect.Effect<void> => {
  const { recorder } = run
  const isHeld = recorder.state.step?.reserved !== undefined
  if (!isHeld) return usage === undefined ? Effect.void : recorder.recordNow({ _tag: "AnswerDiscarded", usage })
  // The reservation of a call without a report is free again
  const { spent = {} } = usage === undefined ? {} : recorder.spent(usage)
  return Effect.andThen(
    recorder.recordNow({ _tag: "AnswerDiscarded", usage: usage ?? {}, spent }),
    sharedBudgets.settle(run, spent)
  )
}

const usageOfError = ({ reason }: AiError.AiError): Message.TokenUsage | undefined =>
  "usage" in reason && reason.usage !== undefined
    ? defined({ inputTokens: reason.usage.promptTokens, outputTokens: reason.usage.completionTokens })
    : undefined

const timeoutsOf = ({ agent, run }: ModelCall): modelTimeouts.Limits => ({
  ...agent.definition.timeouts,
  ...modelTimeouts.ofOptions(run.options.timeouts)
})

/** Limits of chunks need chunks. Not all adapters stream an object. */
const isStreamed = (call: ModelCall): boolean => {
  const { action, agent, run } = call
  return (
    (run.streaming || modelTimeouts.hasChunks(timeoutsOf(call))) &&
    (action.purpose === "answer" || streamsObjects(askedModel(agent, run.recorder).model))
  )
}

/** Collects the parts of the answer, and returns the name of the method; the deltas of a streaming run are emitted as they arrive. */
const sendRequest = (
  call: ModelCall,
  accumulator: modelMessages.StreamAccumulator
): Effect.Effect<string, AiError.AiError> => {
  const timeouts = timeoutsOf(call)
  return modelTimeouts.whole(sendWithin(call, accumulator, timeouts), timeouts)
}

const sendWithin = (
  call: ModelCall,
  accumulator: modelMessages.StreamAccumulator,
  timeouts: modelTimeouts.Limits
): Effect.Effect<string, AiError.AiError> => {
  const { action, agent, request, run } = call
  const { output, tools } = agent
  const { model } = askedModel(agent, run.recorder)
  const asStream = (parts: Stream.Stream<Response.AnyPart, AiError.AiError>) => {
    const limited = modelTimeouts.hasChunks(timeouts)
      ? modelTimeouts.chunks(parts, timeouts, () => accumulator.size() > 0)
      : parts
    return streamAnswer(limited, run.recorder, accumulator)
  }
  if (action.purpose === "structured" && output._tag === "Structured") {
    const { schema } = output.forAdapter()
    if (!isStreamed(call)) return generateObject(model, request.prompt, schema, accumulator)
    const { prompt } = request
    return Effect.provideService(asStream(model.streamText({ prompt })), StreamedFormat, {
      type: "json",
      objectName,
      schema
    })
  }
  const ofTools = {
    ...request,
    toolkit: tools.toolkit,
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  } as const
  return isStreamed(call) ? asStream(model.streamText(ofTools)) : generateAnswer(model, ofTools, accumulator)
}

/** A request that offers tools, whose calls the run resolves. */
type ToolRequest = agentParts.ModelRequest & {
  readonly toolkit: ToolSet["toolkit"]
  readonly disableToolCallResolution: true
  readonly toolCallValidation: "deferred"
}

const generateAnswer = (
  model: LanguageModel.LanguageModel,
  request: ToolRequest,
  accumulator: modelMessages.StreamAccumulator
) =>
  Effect.map(model.generateText(request), (response) => {
    for (const part of response.content) accumulator.add(part)
    return "generateText"
  })

/** Parts that are read before timers have their turn: a stream whose parts are all there would hold them up. */
const partsInTurn = 256

const streamAnswer = Effect.fnUntraced(function* (
  parts: Stream.Stream<Response.AnyPart, AiError.AiError>,
  recorder: agentRecorder.AgentRecorder,
  accumulator: modelMessages.StreamAccumulator
) {
  const { maxBytes } = yield* Limits
  let received = 0
  const reading = Stream.runForEach(parts, (part) => {
    const deltas = accumulator.add(part)
    const size = accumulator.size()
    if (size > maxBytes) {
      const problem = tooLargeAnswer("the model", `at most ${maxBytes} bytes`, `at least ${size}`)
      return Effect.fail(invalidAnswer("streamText", { problem, overLimit: true }))
    }
    if (part.type === "error") return Effect.fail(streamError(part.error))
    show(recorder, deltas)
    const shown = showOutput(recorder, deltas)
    return ++received % partsInTurn === 0 ? Effect.andThen(shown, Effect.yieldNow) : shown
  })
  let rest: ReadonlyArray<modelMessages.Delta> = []
  yield* Effect.ensuring(
    reading,
    Effect.sync(() => {
      rest = accumulator.end()
      show(recorder, rest)
    })
  )
  yield* showOutput(recorder, rest)
  return "streamText"
})

const objectName = "output"

const generateObject = Effect.fnUntraced(function* (
  model: LanguageModel.LanguageModel,
  prompt: Prompt.Prompt,
  offered: Schema.Top,
  accumulator: modelMessages.StreamAccumulator
) {
  // Sound: the schema is only sent to the provider; the answer is read from its parts.
  const schema = offered as Schema.Codec<unknown, Record<string, unknown>>
  const outer = yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer)
  let parts: ReadonlyArray<Response.AnyPart> | undefined
  // The error for an object that does not decode has neither usage nor finish reason; this sees both.
  const observe: Telemetry.SpanTransformer = (options) => {
    parts = options.response
    if (Option.isSome(outer)) outer.value(options)
  }
  const answer: ReadonlyArray<Response.AnyPart> = yield* model.generateObject({ prompt, schema, objectName }).pipe(
    Effect.provideService(Telemetry.CurrentSpanTransformer, observe),
    Effect.map((response) => response.content),
    Effect.catchReason("AiError", "StructuredOutputError", ({ responseText }) =>
      Effect.succeed(parts ?? [Response.makePart("text", { text: responseText })])
    )
  )
  for (const part of answer) accumulator.add(part)
  return "generateObject"
})

/** The error of an answer that arrived, if it cannot be used. */
const errorIn = (
  answer: modelMessages.ResponseContent,
  method: string,
  limits: Limits
): AiError.AiError | undefined => {
  const { content, errors, finishReason } = answer
  if (errors.length > 0) return streamError(errors[0])
  if (content.length === 0 && finishReason === undefined) return failRequest(method, emptyAnswer())
  const problem = modelMessages.unstorable(answer, limits)
  return problem === undefined ? undefined : invalidAnswer(method, problem)
}

const invalidAnswer = (method: string, { overLimit: isOver, problem }: modelMessages.Unstorable) => {
  const metadata = { [publicDescription]: true, ...(isOver && { [overLimit]: true }) }
  return failRequest(method, new AiError.InvalidOutputError({ description: problem, metadata }))
}

/** A connection that was cut before the first part looks like this. */
const emptyAnswer = once(
  () =>
    new AiError.InternalProviderError({
      description: "an answer that ended before its first part",
      metadata: { [publicDescription]: true }
    })
)

/** An `error` part fails the step as an error of the model does. */
const streamError = (error: unknown): AiError.AiError => {
  if (AiError.isAiError(error)) return error
  const unknown = new AiError.UnknownError({ description: "the stream reported an error" })
  return failRequest("streamText", AiError.isAiErrorReason(error) ? error : unknown)
}

const failRequest = (method: string, reason: AiError.AiErrorReason) =>
  AiError.make({ module: "LanguageModel", method, reason })

const withoutText = (error: unknown): unknown => (AiError.isAiError(error) ? modelFailed(error) : error)

/** The model calls of the run, for spans and metrics, where the program is observed. */
const callsOf = (agent: agentParts.ModelAgent, { context, recorder }: agentParts.ActiveRun) =>
  callContext.isObserved(context)
    ? runSpans.ofModel(context, agent.definition, askedModel(agent, recorder).name, withoutText)
    : undefined

/** Makes a new view before a model call that would pass the threshold. */
const fitConversation = Effect.fnUntraced(function* (
  policy: agentTypes.Policy,
  agent: agentParts.ModelAgent,
  run: agentParts.ActiveRun
) {
  const { recorder } = run
  const calls = callsOf(agent, run)
  const { conversation, view } = recorder.state
  const overhead = (counter: TokenCounter) => overheadTokens(agent, recorder.state.structured, counter)
  const fitting = policy.fit({ conversation: view ?? conversation, overhead, model: askedModel(agent, recorder).model })
  const traced =
    calls === undefined
      ? fitting
      : Effect.updateContext(fitting, (services: Context.Context<never>) => runSpans.withTracer(services, calls))
  const fitted = yield* Effect.mapError(traced, (reason) => recorder.fail(reason))
  if (fitted === undefined) return
  const { beside } = history.asHistory(fitted.conversation)
  yield* recorder.recordNow({
    _tag: "ConversationFitted",
    view: history.selectionOf(view ?? conversation, fitted.conversation),
    ...defined({ beside }),
    report: fitted.report
  })
})

/** The tokens that providers write around a tool definition. */
const toolTokens = 8

const countedTools = new WeakMap<ToolSet, WeakMap<TokenCounter, number>>()

/** Tokens of the request beside the conversation, counted once for each set of tools. */
const overheadTokens = (
  { output, tools }: agentParts.ModelAgent,
  structured: runParts.StructuredSteps,
  counter: TokenCounter
): number => {
  const counts = countedTools.get(tools) ?? new WeakMap<TokenCounter, number>()
  countedTools.set(tools, counts)
  const known = counts.get(counter)
  if (known !== undefined) return known
  const text = agentOutput.systemTextOf(output, structured)
  let tokens = text === undefined ? 0 : counter.count(text)
  for (const { contract } of tools.tools.values()) {
    const { description = "", name, parameters } = contract
    tokens += toolTokens + counter.count(name) + counter.count(description) + counter.count(JSON.stringify(parameters))
  }
  counts.set(counter, tokens)
  return tokens
}
