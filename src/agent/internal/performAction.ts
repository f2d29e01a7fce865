/**
 * An agent in a run, and the actions that it performs: one model call with its request, its retries and the check of its output,
 * and one batch of tool calls, checked, approved where needed, and run.
 */

import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Semaphore from "effect/Semaphore"
import * as Schedule from "effect/Schedule"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Message from "../../conversation/Message.ts"
import type { TokenCounter } from "../../conversation/TokenCounter.ts"
import * as history from "../../conversation/internal/history.ts"
import * as modelMessages from "../../conversation/internal/modelMessages.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import * as answerText from "../../payload/internal/answerText.ts"
import { once, quote } from "../../payload/internal/base.ts"
import { Limits } from "../../payload/internal/limits.ts"
import * as messageOrder from "../../payload/internal/messageOrder.ts"
import { overLimit, publicDescription, tooLargeAnswer } from "../../payload/internal/problems.ts"
import { appendToken, defined, getAt, isObject, own } from "../../payload/internal/values.ts"
import * as children from "../../run/internal/children.ts"
import * as definitionChange from "../../run/internal/definitionChange.ts"
import * as durability from "../../run/internal/durability.ts"
import * as runParts from "../../run/internal/runParts.ts"
import * as runTransition from "../../run/internal/runTransition.ts"
import * as ToolContract from "../../tool/ToolContract.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as ToolRuntime from "../../tool/ToolRuntime.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import type { ToolSet } from "../../tool/internal/boundTool.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentReason from "./agentReason.ts"
import * as agentBlueprint from "./agentBlueprint.ts"
import type * as agentTypes from "./agentTypes.ts"
import * as driver from "./driver.ts"
import * as runSpans from "./runSpans.ts"

/** The run of an agent under way, with everything that an action needs. `deadline` is in milliseconds of the Clock. */
interface Step extends driver.ActiveRun {
  readonly resolved: agentBlueprint.ResolvedAgent<unknown>
  readonly budget: agentTypes.Budget | undefined
  /** The services of its model calls, and what their spans and metrics need. */
  readonly services: Context.Context<never>
  readonly calls: runSpans.ModelCalls | undefined
  readonly deadline: number | undefined
}

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
    { error: reason._tag, retryable: isWorthRetrying(error), ...defined({ retryAfterMillis, model, problem }) },
    error
  )
}

/** Nothing begins in a run that was stopped, or whose time is over. */
const mustWait = ({ deadline, recorder }: Step): boolean =>
  recorder.interruption !== undefined ||
  (deadline !== undefined && recorder.clock.currentTimeMillisUnsafe() >= deadline)

/** Waits for the interruption that is on its way. */
const untilInterrupted = Effect.interruptible(Effect.never)

const defaultModelMistakes = 2

/** Calls the model once and records its answer, or its mistake. */
const callModel = Effect.fnUntraced(function* (step: Step, action: runTransition.ActionOf<"CallModel">) {
  const { options, recorder, resolved } = step
  const limit = options.modelMistakes ?? defaultModelMistakes
  const mistakes = action.mistakes.length
  const tooMany = { step: action.step, limit }
  if (mistakes > limit) return yield* recorder.fail(agentReason.makeReason("ModelMistakes", { ...tooMany, mistakes }))
  if (step.budget !== undefined) {
    yield* applyBudget(step.budget, step)
    if (recorder.interruption) return
  }
  const { purpose, step: number } = action
  yield* recorder.record({ _tag: "StepStarted", at: recorder.now(), step: number, purpose })
  if (recorder.interruption) return
  const { modelRetry } = options
  const answered =
    modelRetry === undefined
      ? yield* requestAnswer(step, action)
      : yield* Effect.result(requestWithRetries(step, action, modelRetry))
  if (Result.isFailure(answered)) {
    const { failure } = answered
    const problem = mistakeOf(failure)
    if (problem === undefined) return yield* recorder.fail(modelFailed(failure, resolved.modelName))
    yield* recorder.recordNow({ _tag: "ModelMistaken", problem })
    if (mistakes < limit || recorder.interruption) return
    const last = { last: { error: failure.reason._tag, ...defined({ problem: shownMistake(failure) }) } }
    return yield* recorder.fail(
      agentReason.makeReason("ModelMistakes", { ...tooMany, mistakes: mistakes + 1, ...last }, failure)
    )
  }
  const { approvals, content, finishReason, model, response, usage } = answered.success
  const [approval] = approvals
  if (approval !== undefined) {
    yield* recordDiscarded(step, usage)
    const call = content.find((part) => part.type === "tool-call" && part.id === approval.callId)
    const tool = call?.type === "tool-call" ? call.name : undefined
    return yield* recorder.fail(agentReason.makeReason("ApprovalByProvider", { ...approval, ...defined({ tool }) }))
  }
  const message = yield* Message.assistant(content, { usage, model, finishReason, response })
  if (hasResult(content) && Result.isFailure(history.append(recorder.state.conversation, message))) {
    yield* recordDiscarded(step, usage)
    return yield* recorder.fail(modelFailed(failRequest("generateText", strayResult()), resolved.modelName))
  }
  const contracts = newContracts(step, message)
  const maxEmpty = history.isEmptyAnswer(message) ? countOf(options.emptyAnswers) : undefined
  const event = { _tag: "ModelAnswered", at: recorder.now(), message, ...defined({ contracts, maxEmpty }) } as const
  const checked = resolved.output._tag === "Text" ? undefined : yield* checkOutput(resolved.output, resolved, message)
  recorder.written = undefined
  yield* recorder.record(checked === undefined ? event : { ...event, ...checked })
})

/** The limit as a state can store it. */
const countOf = (limit: number | undefined): number | undefined =>
  limit === undefined ? undefined : Math.min(Math.max(0, Math.floor(limit) || 0), Number.MAX_SAFE_INTEGER)

type Resolved = agentBlueprint.ResolvedAgent<unknown>

/** The digest of a contract. An approval of a call of an agent is about that agent, so its definition counts, too. */
const digestOf = ({ agents }: Resolved, { digest, name }: ToolContract.ToolContract): string => {
  const agent = agents.get(name)
  return agent === undefined ? digest : `${digest} ${agent}`
}

/** A contract as a run keeps it. */
const keptOf = (resolved: Resolved, contract: ToolContract.ToolContract): runParts.CallContract => {
  const { annotations, approval, failure, name, parameters, success } = contract
  const digest = digestOf(resolved, contract)
  return { name, parameters, ...defined({ success, failure }), approval, annotations, digest }
}

const contractOf = (resolved: Resolved, name: string): runParts.CallContract | undefined => {
  const tool = resolved.tools.tools.get(name)
  return tool === undefined || tool.kind === "provider" ? undefined : keptOf(resolved, tool.contract)
}

/** The contracts of called tools that the run does not have yet. */
const newContracts = ({ recorder, resolved }: Step, message: Message.AssistantMessage) => {
  const names = new Set(Message.toolCalls(message).map(({ name }) => name))
  const contracts = Array.from(names).flatMap((name) => {
    const contract = name === resolved.outputTool ? undefined : contractOf(resolved, name)
    const isKnown = contract?.digest === runTransition.newestContract(recorder.state, name)?.digest
    return contract === undefined || isKnown ? [] : [contract]
  })
  return contracts.length === 0 ? undefined : contracts
}

/** The contract of a call that is another one than the run has for it. */
const changedContract = (
  { recorder, resolved }: Step,
  { contract, id }: toolCall.BoundCall
): { readonly contract?: runParts.CallContract } =>
  runTransition.openCall(recorder.state, id)?.contract === digestOf(resolved, contract)
    ? {}
    : { contract: keptOf(resolved, contract) }

const hasResult = (content: ReadonlyArray<Message.AssistantPart>): boolean =>
  content.some(({ type }) => type === "tool-result")

const strayResult = once(
  () =>
    new AiError.InternalProviderError({
      description: "an answer with the result of a call that it does not have",
      metadata: { [publicDescription]: true }
    })
)

/** The check of an answer that is the agent's output: a call of the output tool, or the final text. */
function* checkOutput(
  output: agentBlueprint.StructuredOutput<unknown>,
  { outputTool }: agentBlueprint.ResolvedAgent<unknown>,
  message: Message.AssistantMessage
): Effect.fn.Return<Pick<runParts.EventOf<"ModelAnswered">, "output" | "outputCall">> {
  const calls = Message.toolCalls(message)
  const outputCall = outputTool === undefined ? undefined : calls.find((call) => call.name === outputTool)
  if (outputCall !== undefined) {
    return { output: yield* checkValue(output, outputCall.arguments), outputCall: outputCall.id }
  }
  const isFinal =
    calls.length === 0 &&
    runTransition.stopReasonOf(message.finishReason) === undefined &&
    message.finishReason !== "pause"
  return isFinal ? { output: yield* checkText(output, Message.text(message)) } : {}
}

/** The output in an answer. A provider receives an object, which holds an output that is none. */
const unwrap = ({ offered, schema }: agentBlueprint.StructuredOutput<unknown>, value: Schema.Json): Schema.Json => {
  if (offered === schema || !isObject(value) || Object.keys(value).length !== 1) return value
  const inner = own(value, agentBlueprint.wrapperKey)
  return inner === undefined ? value : inner
}

const covers = (one: string, other: string): boolean => one === other || other.startsWith(`${one}/`)

/** Checks a JSON value by the JSON Schema of the output and by its Schema. */
const checkValue = Effect.fnUntraced(function* (
  self: agentBlueprint.StructuredOutput<unknown>,
  value: Schema.Json
): Effect.fn.Return<runParts.OutputCheck> {
  const direct = JsonSchema.validate(self.schema, value)
  const inner = Result.isSuccess(direct) ? value : unwrap(self, value)
  const valid = Result.isSuccess(direct) ? direct : JsonSchema.validate(self.schema, inner)
  const decoded = yield* Effect.result(self.decode(Result.isSuccess(valid) ? valid.success : inner))
  const further = Result.isFailure(decoded) ? decoded.failure : []
  if (Result.isSuccess(valid)) {
    return Result.isSuccess(decoded)
      ? { _tag: "Valid", value: valid.success }
      : { _tag: "Invalid", issues: decoded.failure }
  }
  // The Schema has checks that JSON Schema cannot express. A null may replace an absent key.
  const added = further.filter(
    ({ path }) =>
      getAt(inner, path) !== null &&
      !valid.failure.some((issue) => covers(issue.path, path) || covers(path, issue.path))
  )
  return { _tag: "Invalid", issues: [...valid.failure, ...added] }
})

/** Checks the model's final text as output. The latest value that fits is the answer; the values before it are drafts. */
const checkText = Effect.fnUntraced(function* (
  self: agentBlueprint.StructuredOutput<unknown>,
  final: string
): Effect.fn.Return<runParts.OutputCheck> {
  const { error, values } = answerText.find(final, yield* Limits)
  for (const value of values) {
    const checked = yield* checkValue(self, value)
    if (checked._tag === "Valid") return checked
  }
  const value = answerText.likeliest(values)
  return value === undefined ? { _tag: "Invalid", issues: error.problems } : yield* checkValue(self, value)
})

const systemText = (schema: JsonSchema.JsonSchema): string =>
  [
    "Your final answer must be one JSON value that is valid against this JSON Schema, with no text around it:",
    JSON.stringify(schema.json)
  ].join("\n")

/**
 * The system text about the output. A constrained call has it in its Schema; where an adapter may leave a part of that out,
 * the text has it as well.
 */
const systemTextBefore = (self: agentBlueprint.Output<unknown>, purpose: runParts.Purpose): string | undefined => {
  if (self._tag === "Text" || self.strategy === "tool") return undefined
  if (purpose === "answer") return systemText(self.schema)
  return self.forAdapter().isWhole ? undefined : systemText(self.offered)
}

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

/** The longest pause that a provider can make a run wait; a longer pause fails the run. */
const maxPause = Duration.hours(1)

const requestWithRetries = (
  step: Step,
  action: runTransition.ActionOf<"CallModel">,
  schedule: NonNullable<agentTypes.ResumeOptions["modelRetry"]>
) =>
  Effect.suspend(() => {
    let attempt = 0
    const request = Effect.gen(function* () {
      attempt += 1
      if (attempt > 1) yield* step.recorder.emit({ _tag: "StepRetried", step: action.step, attempt })
      return yield* Effect.fromResult(yield* requestAnswer(step, action))
    })
    return Effect.retry(request, {
      schedule: Schedule.modifyDelay(schedule, ({ duration, input }) =>
        durability.asDelay(input.retryAfter === undefined ? duration : Duration.max(duration, input.retryAfter))
      ),
      while: (error) =>
        isWorthRetrying(error) &&
        mistakeOf(error) === undefined &&
        (error.retryAfter === undefined || Duration.isLessThanOrEqualTo(error.retryAfter, maxPause))
    })
  })

const structuredRequest = "Write the final answer in the required JSON format."

const promptOf = (
  { recorder, resolved }: Step,
  { mistakes, purpose }: runTransition.ActionOf<"CallModel">
): Prompt.Prompt => {
  const { output, tools } = resolved
  const { answer, conversation, view } = recorder.state
  const prompt = modelMessages.toPrompt(view ?? conversation, { toolName: tools.providerName })
  const text = systemTextBefore(output, purpose)
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
  const whole = isNeeded ? Prompt.concat(instructed, request) : instructed
  return mistakes.length === 0
    ? whole
    : Prompt.concat(whole, `Your last answer could not be used and was discarded. ${mistakes.at(-1)} Answer again.`)
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

/** The answer of the model. The tokens of an unusable answer are recorded. */
function* requestAnswer(
  step: Step,
  action: runTransition.ActionOf<"CallModel">
): Effect.fn.Return<Result.Result<modelMessages.ResponseContent, AiError.AiError>> {
  if (mustWait(step)) yield* untilInterrupted
  const before = yield* toolCall.BeforeCall
  if (before !== undefined) yield* before
  const { answer, error } = yield* exchange(step, action)
  if (error === undefined) return Result.succeed(answer)
  step.recorder.written = undefined
  yield* recordDiscarded(step, answer.usage ?? usageOfError(error))
  return Result.fail(error)
}

/**
 * Asks the model, or finds what it answered where the program runs again. The deltas of an answer that came as a whole are its
 * parts.
 */
const exchange = Effect.fnUntraced(function* (
  step: Step,
  action: runTransition.ActionOf<"CallModel">
): Effect.fn.Return<durability.Exchange> {
  const durable = yield* durability.Durability
  let isAsked = false
  const asking = () => {
    isAsked = true
    return askModel(step, action)
  }
  const found = yield* durable === undefined
    ? asking()
    : durable.exchange(`model/${action.step}`, Effect.suspend(asking))
  if (step.streaming && !(isAsked && action.purpose === "answer")) {
    show(step.recorder, modelMessages.deltasOf(found.answer.content))
  }
  return found
})

const show = (recorder: Step["recorder"], deltas: ReadonlyArray<modelMessages.Delta>): void => {
  if (!recorder.isShown) return
  for (const delta of deltas) recorder.show(delta)
}

const askModel = Effect.fnUntraced(function* (
  step: Step,
  action: runTransition.ActionOf<"CallModel">
): Effect.fn.Return<durability.Exchange> {
  const { calls, recorder, resolved, services } = step
  const accumulator = modelMessages.accumulator({
    isObject: action.purpose === "structured",
    isShown: recorder.isShown,
    toolName: resolved.tools.canonicalName,
    labels: new history.CallLabels(history.asHistory(recorder.state.conversation))
  })
  const limits = yield* Limits
  recorder.written = accumulator
  const sent = yield* Effect.result(
    calls === undefined
      ? sendRequest(step, action, accumulator)
      : Effect.updateContext(
          runSpans.observe(calls, accumulator, {
            isStreaming: step.streaming && action.purpose === "answer",
            prompt: () => promptOf(step, action),
            send: (watched) => sendRequest(step, action, watched),
            failure: (method) => errorIn(accumulator.result(), method, limits)
          }),
          (_: Context.Context<never>) => services
        )
  )
  const answer = accumulator.result()
  const error = Result.isFailure(sent) ? sent.failure : errorIn(answer, sent.success, limits)
  // A durable program could not store it
  const isStored = error?.reason._tag !== "InvalidOutputError"
  return { answer: { ...answer, content: isStored ? history.mend(answer.content) : [] }, error }
})

const recordDiscarded = ({ recorder }: Step, usage: Message.TokenUsage | undefined): Effect.Effect<void> =>
  usage === undefined ? Effect.void : recorder.recordNow({ _tag: "AnswerDiscarded", usage })

const usageOfError = ({ reason }: AiError.AiError): Message.TokenUsage | undefined =>
  "usage" in reason && reason.usage !== undefined
    ? defined({ inputTokens: reason.usage.promptTokens, outputTokens: reason.usage.completionTokens })
    : undefined

/** Collects the parts of the answer, and returns the name of the method; the deltas of a streaming run are emitted as they arrive. */
const sendRequest = (
  step: Step,
  action: runTransition.ActionOf<"CallModel">,
  accumulator: modelMessages.StreamAccumulator
): Effect.Effect<string, AiError.AiError> => {
  const { output } = step.resolved
  if (action.purpose === "structured" && output._tag === "Structured") {
    return generateObject(step, promptOf(step, action), output.forAdapter().schema, accumulator)
  }
  const request = requestOf(step, action)
  return step.streaming ? streamAnswer(step, request, accumulator) : generateAnswer(step, request, accumulator)
}

type Request = ReturnType<typeof requestOf>

const requestOf = (step: Step, action: runTransition.ActionOf<"CallModel">) => {
  const { tools } = step.resolved
  return {
    prompt: promptOf(step, action),
    toolkit: tools.toolkit,
    toolChoice: toolChoiceOf(step.options.toolChoice ?? "auto", action.first, tools),
    disableToolCallResolution: true,
    toolCallValidation: "deferred"
  } as const
}

const generateAnswer = ({ resolved }: Step, request: Request, accumulator: modelMessages.StreamAccumulator) =>
  Effect.map(resolved.model.generateText(request), (response) => {
    for (const part of response.content) accumulator.add(part)
    return "generateText"
  })

/** Parts that are read before timers have their turn: a stream whose parts are all there would hold them up. */
const partsInTurn = 256

const streamAnswer = Effect.fnUntraced(function* (
  { recorder, resolved }: Step,
  request: Request,
  accumulator: modelMessages.StreamAccumulator
) {
  const { maxBytes } = yield* Limits
  let received = 0
  const reading = Stream.runForEach(resolved.model.streamText(request), (part: Response.AnyPart) => {
    const deltas = accumulator.add(part)
    const size = accumulator.size()
    if (size > maxBytes) {
      const problem = tooLargeAnswer("the model", `at most ${maxBytes} bytes`, `at least ${size}`)
      return Effect.fail(invalidAnswer("streamText", { problem, overLimit: true }))
    }
    if (part.type === "error") return Effect.fail(streamError(part.error))
    show(recorder, deltas)
    return ++received % partsInTurn === 0 ? Effect.yieldNow : Effect.void
  })
  yield* Effect.ensuring(
    reading,
    Effect.sync(() => show(recorder, accumulator.end()))
  )
  return "streamText"
})

const generateObject = Effect.fnUntraced(function* (
  step: Step,
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
  const answer: ReadonlyArray<Response.AnyPart> = yield* step.resolved.model
    .generateObject({ prompt, schema, objectName: "output" })
    .pipe(
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

/** Makes a new view before a model call that would pass the threshold. */
const applyBudget = Effect.fnUntraced(function* (budget: agentTypes.Budget, { calls, recorder, resolved }: Step) {
  const { conversation, view } = recorder.state
  const overhead = (counter: TokenCounter) => overheadTokens(resolved, counter)
  const fitting = budget.fit({ conversation: view ?? conversation, overhead, model: resolved.model })
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
const overheadTokens = ({ output, tools }: agentBlueprint.ResolvedAgent<unknown>, counter: TokenCounter): number => {
  const counts = countedTools.get(tools) ?? new WeakMap<TokenCounter, number>()
  countedTools.set(tools, counts)
  const known = counts.get(counter)
  if (known !== undefined) return known
  const text = systemTextBefore(output, "answer")
  let tokens = text === undefined ? 0 : counter.count(text)
  for (const { contract } of tools.tools.values()) {
    const { description = "", name, parameters } = contract
    tokens += toolTokens + counter.count(name) + counter.count(description) + counter.count(JSON.stringify(parameters))
  }
  counts.set(counter, tokens)
  return tokens
}

/**
 * By how many milliseconds a call may outlast the run that waits for it: the run stops
 * first, so that a call it cuts off is `interrupted`, and no timeout of the tool's own.
 */
const grace = 1000

/**
 * A call before anything runs: it can run or has failed. `asks` is the request of a call that needs an approval first.
 */
interface PreparedCall {
  readonly runnable: runTransition.RunnableCall
  readonly call: Result.Result<toolCall.BoundCall, ToolResult.Failure>
  readonly asks?: Pick<runParts.EventOf<"ApprovalRequested">, "arguments" | "digest" | "contract"> | undefined
}

/** A call that may run now. */
interface ReadyCall {
  readonly runnable: runTransition.RunnableCall
  readonly call: toolCall.BoundCall
}

const prepareCall = (step: Step, runnable: runTransition.RunnableCall): Effect.Effect<PreparedCall> => {
  const { deadline, options, recorder, resolved } = step
  const { id, name, text, arguments: args } = runnable.part
  const { context, runId } = recorder.state
  const { approved } = runnable
  const request = { id, name, arguments: approved?.arguments ?? text ?? args }
  const about: boundTool.PrepareOptions = {
    runId,
    context,
    timeout: options.timeouts?.tool,
    deadline: deadline === undefined ? undefined : deadline + grace,
    progress: (result) => recorder.emit({ _tag: "ToolProgress", callId: id, name, result })
  }
  const call = boundTool.prepareIn(step.context, resolved.tools, request, about)
  const tool = resolved.tools.tools.get(name)
  const prepared = { runnable, call }
  if (runnable.child !== undefined) return Effect.succeed(prepared)
  const lost: PreparedCall = { runnable, call: Result.fail(runTransition.lostCall) }
  if (Result.isFailure(call) || tool === undefined) return Effect.succeed(runnable.started ? lost : prepared)
  const { contract } = call.success
  if (runnable.started) {
    // It began as a call of a tool that may have changed since, so that the same arguments may not be the same call
    const began = runTransition.openCall(recorder.state, id)?.contract
    const isSame = began === undefined || began === digestOf(resolved, contract)
    if (!isSame || !isIdempotent(call.success)) return Effect.succeed(lost)
    if (approved === undefined) return Effect.succeed(prepared)
    return Effect.map(askFirst(step, tool, runnable, call.success, about), (asked) =>
      asked.asks === undefined ? asked : lost
    )
  }
  if (approved === undefined && contract.approval === "never") return Effect.succeed(prepared)
  return askFirst(step, tool, runnable, call.success, about)
}

/** The tool states that a second call with the same arguments has no further effect. */
const isIdempotent = ({ contract }: toolCall.BoundCall): boolean => contract.annotations.idempotent === true

/**
 * True for an approval that still holds: it is about these arguments and about this contract, or about an earlier
 * contract that this contract is compatible with and whose `approval` is the same.
 */
const isApproved = (
  { recorder: { state }, resolved }: Step,
  { arguments: checked, contract, id }: toolCall.BoundCall,
  { digest }: NonNullable<runTransition.RunnableCall["approved"]>,
  asked: string
): Effect.Effect<boolean> => {
  if (asked === digest) return Effect.succeed(true)
  const was = runTransition.contractOf(state, runTransition.openCall(state, id)?.contract)
  if (was === undefined || was.approval !== contract.approval) return Effect.succeed(false)
  if (resolved.agents.has(contract.name)) return Effect.succeed(false)
  if (ToolContract.compare(was, contract).some(({ breaking }) => breaking)) return Effect.succeed(false)
  const before = runParts.callDigest(state, id, { contract: was.digest, arguments: checked })
  return Effect.map(before, (found) => found === digest)
}

/** The call with normalized arguments, and with the request for the approval that it needs. */
const askFirst = (
  step: Step,
  tool: boundTool.BoundTool,
  runnable: runTransition.RunnableCall,
  call: toolCall.BoundCall,
  about: boundTool.PrepareOptions
): Effect.Effect<PreparedCall> =>
  Effect.flatMap(boundTool.normalizeCall(tool, call, about), (normal) =>
    Result.isFailure(normal)
      ? Effect.succeed({ runnable, call: normal })
      : askAbout(step, tool, { runnable, call: normal }, normal.success)
  )

const askAbout = (
  step: Step,
  tool: boundTool.BoundTool,
  prepared: PreparedCall,
  call: toolCall.BoundCall
): Effect.Effect<PreparedCall> => {
  const { arguments: checked, context, contract, id } = call
  const { approved } = prepared.runnable
  const { conversation } = step.recorder.state
  const digestOfCall = Effect.suspend(() =>
    runParts.callDigest(step.recorder.state, id, {
      contract: digestOf(step.resolved, contract),
      arguments: checked
    })
  )
  const asking = (digest: string): PreparedCall => ({
    ...prepared,
    asks: { arguments: checked, digest, ...changedContract(step, call) }
  })
  const ask = Effect.map(digestOfCall, asking)
  // The tool may have changed since it was approved
  if (approved !== undefined) {
    return Effect.flatMap(digestOfCall, (digest) =>
      Effect.map(isApproved(step, call, approved, digest), (holds) => (holds ? prepared : asking(digest)))
    )
  }
  const asked = {
    callId: id,
    context,
    // For an approval policy that looks at it; most do not
    get messages() {
      return modelMessages.toPrompt(conversation).content
    }
  }
  return Effect.matchEffect(tool.needsApproval(checked, asked), {
    onFailure: (failure) => Effect.succeed<PreparedCall>({ ...prepared, call: Result.fail(failure) }),
    onSuccess: (needed) => (needed ? ask : Effect.succeed(prepared))
  })
}

/** Runs the calls of one answer and records their results. */
const runTools = Effect.fnUntraced(function* (step: Step, action: runTransition.ActionOf<"RunTools">) {
  const { recorder } = step
  for (const settled of action.settled) yield* driver.recordToolFinished(step, settled)
  if (recorder.interruption) return
  const prepared: Array<PreparedCall> = []
  for (const call of action.calls) {
    const one = prepareCall(step, call)
    prepared.push(toolCall.isDone(one) && Exit.isSuccess(one) ? one.value : yield* one)
  }
  const ready: Array<ReadyCall> = []
  for (const { asks, call, runnable } of prepared) {
    const { id: callId, name } = runnable.part
    if (asks) yield* recorder.recordNow({ _tag: "ApprovalRequested", callId, name, ...asks })
    else if (Result.isSuccess(call)) ready.push({ call: call.success, runnable })
    else yield* driver.recordToolFinished(step, { callId, name, result: call.failure })
    if (recorder.interruption) return
  }
  if (ready.length > 0) yield* executeBatch(step, ready)
})

/**
 * Asks for the approvals that calls of a conversation need, before decisions about
 * them are taken: a decision counts only for a call whose tool demands one.
 */
const requestApprovals = Effect.fnUntraced(function* (step: Step, callIds: ReadonlySet<string>) {
  const action = runTransition.next(step.recorder.state)
  if (action._tag !== "RunTools") return
  for (const runnable of action.calls) {
    const { id: callId, name } = runnable.part
    if (!callIds.has(callId)) continue
    const { asks } = yield* prepareCall(step, runnable)
    if (asks) yield* step.recorder.recordNow({ _tag: "ApprovalRequested", callId, name, ...asks })
  }
})

/** Calls of a batch whose agents wait for decisions, and failures that end the run. */
interface BatchEnd {
  suspended: Set<string> | undefined
  readonly fatal: Array<AgentError.AgentError>
}

const executeBatch = (step: Step, ready: ReadonlyArray<ReadyCall>): Effect.Effect<void, AgentError.AgentError> => {
  const { options, recorder } = step
  const end: BatchEnd = { suspended: undefined, fatal: [] }

  const onStarted = (callId: string, index: number): Effect.Effect<void | false> => {
    if (mustWait(step)) return untilInterrupted
    const one = ready[index]
    const { approved, part, started } = one?.runnable ?? {}
    // Calls before this one take time
    if (approved !== undefined && started !== true && runTransition.isExpired(approved, recorder.now())) {
      const { arguments: args, digest } = approved
      const request = { callId, ...defined({ name: part?.name }), arguments: args, digest }
      return Effect.as(recorder.recordNow({ _tag: "ApprovalRequested", ...request }), false)
    }
    const recorded = started === true ? Effect.void : recordStarted(step, callId, one?.call)
    if (recorded === Exit.void) return mustWait(step) ? untilInterrupted : recorded
    return Effect.flatMap(recorded, () => (mustWait(step) ? untilInterrupted : Effect.void))
  }

  const calls = ready.map((one) => withChild(step, one, end))
  const ran = toolCall.run(calls, {
    defects: options.defects,
    onStarted,
    onFinished: (callId, result, duration, cause, index) => {
      if (end.suspended?.has(callId) === true) return Effect.void
      const call = { callId, name: ready[index]?.runnable.part.name ?? "", result }
      return driver.recordToolFinished(step, call, duration, cause)
    }
  })
  return Effect.flatMap(ran, () => {
    const [error] = end.fatal
    return error === undefined ? Effect.void : Effect.fail(recorder.fail(error.reason))
  })
}

const recordStarted = (step: Step, callId: string, call: toolCall.BoundCall | undefined) => {
  const { recorder } = step
  const event = { _tag: "ToolStarted", at: recorder.now(), callId } as const
  if (call === undefined) return recorder.record(event)
  const idempotent = isIdempotent(call) ? { idempotent: true as const } : undefined
  return recorder.record({ ...event, ...idempotent, ...changedContract(step, call) })
}

/** Calls of agents run through the driver, so that their events and approvals are this run's. */
const withChild = (step: Step, { call, runnable }: ReadyCall, end: BatchEnd): toolCall.BoundCall => {
  const tool = step.resolved.tools.tools.get(call.contract.name)
  const behind = tool && agentBlueprint.agentOf(tool.tool)
  if (behind === undefined) return call
  const oneAtATime = Semaphore.makeUnsafe(1)
  let last: ToolResult.ToolResult | undefined
  let attempts = 0
  // A wrapper may run it again: the agent then begins anew, unless it waits for decisions.
  const execute = Effect.flatMap(behind.agent, (agent) => {
    if (last !== undefined && end.suspended?.has(call.id) === true) return Effect.succeed(last)
    attempts += 1
    return Effect.map(callAgent(step, agent, call, attempts === 1 ? runnable.child : undefined, end), (result) => {
      last = result
      return result
    })
  })
  const body = Option.some(oneAtATime.withPermit(execute))
  return { ...call, timeout: Duration.infinity, execute: body, delegates: true }
}

const callAgent = (
  step: Step,
  agent: agentTypes.Agent<unknown>,
  call: toolCall.BoundCall,
  child: runParts.State | undefined,
  end: BatchEnd
): Effect.Effect<ToolResult.ToolResult> => {
  const { recorder, runDeadline: deadline, streaming } = step
  const { context, contract, id: callId } = call
  const { input: text } = call.arguments
  const input = typeof text === "string" ? text : JSON.stringify(call.arguments)
  const parent: driver.Parent = children.inside(recorder, {
    event: (event: runParts.Event): runParts.Event => ({
      _tag: "ChildEvent",
      at: runTransition.timeOf(event),
      callId,
      event
    }),
    view: (event: agentTypes.AgentEvent<unknown>): agentTypes.AgentEvent<unknown> => ({
      _tag: "Child",
      callId,
      name: contract.name,
      event,
      state: recorder.state
    }),
    stops: true
  })
  const begin = { state: child, input, context, options: driver.inherited(step.options) }
  return agentBlueprint.runInside(agent, begin, { deadline, parent, streaming }).pipe(
    callContext.at(callId),
    Effect.flatMap((result) => {
      if (result.outcome === "AwaitingApproval") (end.suspended ??= new Set()).add(callId)
      // A child that was stopped is stopped with this run: the call is then interrupted, and has not failed.
      const isStopped = result.outcome === "Interrupted" && mustWait(step)
      return isStopped ? untilInterrupted : Effect.succeed(toToolResult(agent.name, result))
    }),
    Effect.catch((error) => {
      if (error.reason._tag === "MaxDepth" || error.reason._tag === "DefinitionChanged") end.fatal.push(error)
      const logged = telemetry.logUnexpected(
        `Agent ${JSON.stringify(agent.name)}, called as a tool, failed with ${error.reason._tag}`,
        agentReason.bottomOf(error)
      )
      return Effect.as(logged, failureResult(agent.name, error))
    })
  )
}

const noAnswer = (agent: string, why: string) => `The agent ${JSON.stringify(agent)} returned no answer: ${why}`

/** The tool result of an agent's run. */
export const toToolResult = (agent: string, result: agentTypes.Result<unknown>): ToolResult.ToolResult => {
  const { outcome } = result
  if (outcome === "AwaitingApproval") {
    const why = "it asks for approvals, and only the run of an agent can wait for them"
    return ToolResult.failure("execution_error", noAnswer(agent, why), { outcome })
  }
  if (outcome !== "Completed") return ToolResult.failure("execution_error", noAnswer(agent, outcome), { outcome })
  const ended = result.state.outcome
  const output = ended?._tag === "Completed" ? ended.output : undefined
  return ToolResult.success(output === undefined ? result.text : output)
}

/** The tool result of an agent that failed: its kind of failure, without text of its conversation. */
export const failureResult = (agent: string, { message, reason }: AgentError.AgentError): ToolResult.Failure => {
  // The failure of an answer that comes from no model names its own problem.
  const problem = reason._tag === "DelegateFailed" ? noAnswer(agent, reason.problem ?? reason.error) : message
  return ToolResult.failure("execution_error", problem, { reason: reason._tag })
}

/** Prepares an agent for runs: its parts are resolved, and its tools can be executed. */
export const prepare = <A>(blueprint: agentBlueprint.Blueprint<A>): driver.AgentMachine<A>["prepare"] => {
  let last: { readonly resolved: agentBlueprint.ResolvedAgent<A>; readonly prepared: driver.PreparedRun<A> } | undefined
  return (model) =>
    Effect.flatMap(blueprint.resolve(model), (resolved) => {
      if (last?.resolved !== resolved) last = { resolved, prepared: prepareResolved(resolved, blueprint.budget) }
      const { prepared } = last
      const { stubs } = resolved
      return stubs.length === 0
        ? Effect.succeed(prepared)
        : Effect.flatMap(ToolRuntime.ToolRuntime, (runtime) =>
            runtime.stubs
              ? Effect.succeed(prepared)
              : Effect.fail(agentReason.makeReason("StubWithoutRuntime", { tools: stubs }))
          )
    })
}

const prepareResolved = <A>(
  resolved: agentBlueprint.ResolvedAgent<A>,
  ofAgent: agentTypes.Budget | undefined
): driver.PreparedRun<A> => {
  const { definition, digest, output, parts } = resolved
  return {
    digest,
    parts,
    // A model cannot continue the answer of a plan
    isOf: (state) => definitionChange.definitionOf(state) === digest && state.progress === undefined,
    contractOf: (name) => contractOf(resolved, name),
    changes: (state) => openChanges(resolved, state),
    model: resolved.modelName,
    maxSteps: definition.maxSteps,
    structured: structuredSteps(resolved),
    instructions: resolved.instructions,
    stepTimeout: true,
    start: (run) => {
      const { budget = ofAgent } = run.options
      const { context } = run
      const calls = callContext.isObserved(context) ? runSpans.ofModel(context, definition, withoutText) : undefined
      const step: Step = {
        ...run,
        resolved,
        calls,
        services: calls === undefined ? context : runSpans.withTracer(context, calls),
        deadline: undefined,
        budget: budget === "off" ? undefined : budget
      }
      return {
        ask: (callIds) => requestApprovals({ ...step, deadline: run.runDeadline }, callIds),
        perform: (action, deadline) => {
          const now = deadline === undefined ? step : { ...step, deadline }
          return action._tag === "RunTools" ? runTools(now, action) : callModel(now, action)
        }
      }
    },
    decode: (text, json) => (output._tag === "Text" ? output.decode(text) : output.decode(json ?? null))
  }
}

/** When `generateObject` is used, by strategy and by whether tools are offered. */
const structuredSteps = ({ output, tools }: agentBlueprint.ResolvedAgent<unknown>): runParts.StructuredSteps => {
  if (output._tag === "Text" || output.strategy !== "native") return "never"
  return tools.tools.size > 0 ? "fallback" : "always"
}

/** The changes of what is open in a state: of its calls, and of the agents inside it that continue. */
const openChanges = Effect.fnUntraced(function* ({ tools }: Resolved, state: runParts.State) {
  const changes = [...definitionChange.callChanges(state, (name) => tools.tools.get(name)?.contract)]
  if (state.progress !== undefined) {
    changes.push({ path: "/progress", was: "the answer of a plan", now: "the answer of a model", breaking: true })
  }
  for (const { part, status } of state.calls) {
    const tool = tools.tools.get(part.name)
    const behind = tool && agentBlueprint.agentOf(tool.tool)
    if (behind === undefined || status._tag !== "Started" || status.child === undefined) continue
    const inside = yield* agentBlueprint.changesSince(yield* behind.agent, status.child)
    changes.push(...definitionChange.inPart(`${appendToken("/tools", part.name)}/agent`, inside))
  }
  return changes
})
