/** One step: the request of a model call, and what its answer means for the run. */

import * as Cause from "effect/Cause"
import * as DateTime from "effect/DateTime"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tracer from "effect/Tracer"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Conversation from "../../conversation/Conversation.ts"
import * as ConversationError from "../../conversation/ConversationError.ts"
import * as Message from "../../conversation/Message.ts"
import * as TokenCounter from "../../conversation/TokenCounter.ts"
import type * as history from "../../conversation/internal/history.ts"
import * as responses from "../../conversation/internal/response.ts"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import { defined } from "../../payload/internal/base.ts"
import type { ToolSet } from "../../tool/internal/boundTool.ts"
import * as AgentError from "../AgentError.ts"
import type * as Run from "../Run.ts"
import type { Resolved } from "./agentBlueprint.ts"
import type { AgentRecorder } from "./driver.ts"
import type * as runOptions from "./runOptions.ts"
import * as runParts from "./runParts.ts"
import * as structuredOutput from "./structuredOutput.ts"

/**
 * The key of an `AiError` reason's metadata under which a model says, with `true`, that
 * its description may be shown: it quotes nobody and holds no secret. What other models
 * say stays out of messages, see {@link AgentError.causeOf}. `ScriptedModel` says so about the
 * disagreements of a script and a program.
 */
export const publicDescription = "effect-emissary/publicDescription"

const problemOf = ({ reason }: AiError.AiError): string | undefined =>
  reason._tag === "UnknownError" && reason.metadata[publicDescription] === true ? reason.description : undefined

/**
 * The reason for an error of `effect/ai`.
 */
export const modelFailed = (error: AiError.AiError, model?: string): AgentError.ReasonOf<"ModelFailed"> => {
  const problem = problemOf(error)
  const retryAfterMillis = error.retryAfter && Duration.toMillis(error.retryAfter)
  return AgentError.makeReason(
    "ModelFailed",
    { error: error.reason._tag, retryable: error.isRetryable, ...defined({ retryAfterMillis, model, problem }) },
    error
  )
}

interface ModelCall {
  readonly resolved: Resolved<unknown>
  readonly recorder: AgentRecorder
  readonly options: runOptions.ResumeOptions
  readonly budget: runOptions.Budget | undefined
  readonly streaming: boolean
}

const defaultModelMistakes = 2

const withSystem = (prompt: Prompt.Prompt, text: string): Prompt.Prompt => {
  const [first, ...rest] = prompt.content
  return first?.role === "system"
    ? Prompt.fromMessages([Prompt.systemMessage({ ...first, content: `${first.content}\n\n${text}` }), ...rest])
    : Prompt.fromMessages([Prompt.systemMessage({ content: text }), ...prompt.content])
}

const withMistakes = (prompt: Prompt.Prompt, mistakes: ReadonlyArray<string>): Prompt.Prompt =>
  mistakes.length === 0
    ? prompt
    : Prompt.concat(prompt, `Your last answer could not be used and was discarded. ${mistakes.at(-1)} Answer again.`)

const promptOf = ({ recorder, resolved }: ModelCall, action: Run.ActionOf<"CallModel">): Prompt.Prompt => {
  const { output, tools } = resolved
  const { conversation, view } = recorder.state()
  const prompt = Conversation.toPrompt(view ?? conversation, { toolName: tools.providerName })
  const told = output._tag === "Structured" ? structuredOutput.systemTextBefore(output, action.purpose) : undefined
  return withMistakes(told === undefined ? prompt : withSystem(prompt, told), action.mistakes)
}

const isEvery = (choice: runOptions.ToolChoice): choice is { readonly every: LanguageModel.ToolChoice<string> } =>
  typeof choice === "object" && "every" in choice

const providerChoice = (choice: LanguageModel.ToolChoice<string>, tools: ToolSet): LanguageModel.ToolChoice<string> => {
  if (typeof choice === "string") return choice
  return "tool" in choice
    ? { tool: tools.providerName(choice.tool) }
    : { ...choice, oneOf: choice.oneOf.map((name) => tools.providerName(name)) }
}

const toolChoiceOf = (
  choice: runOptions.ToolChoice | undefined,
  first: boolean,
  tools: ToolSet
): LanguageModel.ToolChoice<string> => {
  if (choice === undefined) return "auto"
  if (isEvery(choice)) return providerChoice(choice.every, tools)
  return first ? providerChoice(choice, tools) : "auto"
}

const requestOf = (step: ModelCall, action: Run.ActionOf<"CallModel">): Request => {
  const { output, tools } = step.resolved
  const object =
    action.purpose === "structured" && output._tag === "Structured"
      ? { schema: JsonSchema.toSchema(output.offered), name: "output" }
      : undefined
  return {
    prompt: promptOf(step, action),
    toolkit: tools.toolkit,
    toolChoice: toolChoiceOf(step.options.toolChoice, action.first, tools),
    object
  }
}

/** What the provider's adapter refused, if it was the model's mistake. */
const mistakeOf = (error: AiError.AiError): string | undefined => {
  const { reason } = error
  switch (reason._tag) {
    case "ToolNotFoundError":
    case "ToolParameterValidationError":
    case "InvalidOutputError":
      return reason.message
    default:
      return undefined
  }
}

const withRetries = (
  { options, recorder }: ModelCall,
  step: number,
  attempt: Effect.Effect<responses.ResponseContent, AiError.AiError>
) => {
  const schedule = options.modelRetry
  if (schedule === undefined) return attempt
  return Effect.suspend(() => {
    let attempts = 0
    const counted = Effect.suspend(() => {
      attempts += 1
      return attempts === 1
        ? attempt
        : Effect.andThen(recorder.emit({ _tag: "StepRetried", step, attempt: attempts }), attempt)
    })
    const again = (error: AiError.AiError) => error.isRetryable && mistakeOf(error) === undefined
    return Effect.retry(counted, { schedule, while: again })
  })
}

const canonical = (
  content: ReadonlyArray<Message.AssistantPart>,
  tools: ToolSet
): ReadonlyArray<Message.AssistantPart> =>
  content.map((part) =>
    part.type === "tool-call" || part.type === "tool-result" ? { ...part, name: tools.canonicalName(part.name) } : part
  )

interface Checked {
  readonly output?: runParts.OutputCheck
  readonly outputCall?: string
}

/** Whether the answer is the agent's output: a call of the output tool, or the final text. */
const checkOutput = Effect.fnUntraced(function* (
  { output, outputTool }: Resolved<unknown>,
  message: Message.AssistantMessage
): Effect.fn.Return<Checked> {
  if (output._tag === "Text") return {}
  const calls = Message.toolCalls(message)
  const outputCall = outputTool === undefined ? undefined : calls.find((call) => call.name === outputTool)
  if (outputCall !== undefined) {
    return { output: yield* structuredOutput.checkValue(output, outputCall.arguments), outputCall: outputCall.id }
  }
  const final =
    calls.length === 0 && runParts.stopReasonOf(message.finishReason) === undefined && message.finishReason !== "pause"
  return final ? { output: yield* structuredOutput.checkText(output, Message.text(message)) } : {}
})

/** Calls the model once and records its answer, or its mistake. */
export const callModel = Effect.fnUntraced(function* (step: ModelCall, action: Run.ActionOf<"CallModel">) {
  const { options, recorder, resolved } = step
  const limit = options.modelMistakes ?? defaultModelMistakes
  if (action.mistakes.length > limit) {
    return yield* recorder.fail(
      AgentError.makeReason("ModelMistakes", { step: action.step, mistakes: action.mistakes.length, limit })
    )
  }
  if (step.budget !== undefined) {
    yield* applyBudget(step.budget, step)
    if (recorder.stopping()) return
  }
  yield* recorder.record({
    _tag: "StepStarted",
    at: yield* DateTime.now,
    step: action.step,
    purpose: action.purpose
  })
  if (recorder.stopping()) return
  const deltas: Deltas | undefined = step.streaming
    ? {
        text: (delta) => recorder.emit({ _tag: "TextDelta", delta }),
        reasoning: (delta) => recorder.emit({ _tag: "ReasoningDelta", delta })
      }
    : undefined
  const answered = yield* Effect.result(
    withRetries(step, action.step, sendRequest(resolved.model, requestOf(step, action), deltas))
  )
  if (answered._tag === "Failure") {
    const problem = mistakeOf(answered.failure)
    if (problem === undefined) {
      return yield* recorder.fail(modelFailed(answered.failure, resolved.definition.model))
    }
    return yield* recorder.record({ _tag: "ModelMistaken", at: yield* DateTime.now, problem })
  }
  const content = Conversation.relabelCalls(
    recorder.state().conversation,
    canonical(answered.success.content, resolved.tools)
  )
  const message = yield* responses.toMessage({ ...answered.success, content })
  const checked = yield* checkOutput(resolved, message)
  yield* recorder.record({ _tag: "ModelAnswered", at: yield* DateTime.now, message, ...checked })
})

interface Request {
  readonly prompt: Prompt.Prompt
  readonly toolkit: ToolSet["toolkit"]
  readonly toolChoice: LanguageModel.ToolChoice<string>
  /** Present for a step that asks for the output alone. */
  readonly object: { readonly schema: Schema.Top; readonly name: string } | undefined
}

interface Deltas {
  readonly text: (delta: string) => Effect.Effect<void>
  readonly reasoning: (delta: string) => Effect.Effect<void>
}

const failRequest = (method: string, reason: AiError.AiErrorReason) =>
  AiError.make({ module: "LanguageModel", method, reason })

/** An `error` part fails the step as an error of the model does. */
const streamError = (error: unknown): AiError.AiError => {
  if (AiError.isAiError(error)) return error
  if (AiError.isAiErrorReason(error)) return failRequest("streamText", error)
  return failRequest("streamText", new AiError.UnknownError({ description: "the stream reported an error" }))
}

const finishAnswer = (
  method: string,
  result: ReturnType<responses.StreamAccumulator["result"]>
): Effect.Effect<responses.ResponseContent, AiError.AiError> => {
  if (Result.isFailure(result)) {
    return Effect.fail(failRequest(method, new AiError.InvalidOutputError({ description: result.failure.message })))
  }
  const [error] = result.success.errors
  return result.success.errors.length > 0 ? Effect.fail(streamError(error)) : Effect.succeed(result.success)
}

const requestOptions = (request: Request) => ({
  prompt: request.prompt,
  toolkit: request.toolkit,
  toolChoice: request.toolChoice,
  disableToolCallResolution: true as const,
  toolCallValidation: "deferred" as const
})

const generateAnswer = Effect.fnUntraced(function* (model: LanguageModel.LanguageModel, request: Request) {
  const response = yield* model.generateText(requestOptions(request))
  return yield* finishAnswer("generateText", responses.fromResponseParts(response.content))
})

const streamAnswer = Effect.fnUntraced(function* (
  model: LanguageModel.LanguageModel,
  request: Request,
  deltas: Deltas
) {
  const accumulator = responses.accumulator()
  yield* Stream.runForEach(model.streamText(requestOptions(request)), (part: Response.AnyPart) => {
    accumulator.add(part)
    if (part.type === "text-delta") return deltas.text(part.delta)
    if (part.type === "reasoning-delta") return deltas.reasoning(part.delta)
    return part.type === "error" ? Effect.fail(streamError(part.error)) : Effect.void
  })
  return yield* finishAnswer("streamText", accumulator.result())
})

/** What the model said when its object was not readable: text like any other answer. */
const failUnreadable = (text: string): responses.ResponseContent => ({
  content: [{ type: "text", text }],
  usage: {},
  errors: []
})

const generateObject = Effect.fnUntraced(function* (
  model: LanguageModel.LanguageModel,
  prompt: Prompt.Prompt,
  object: NonNullable<Request["object"]>,
  deltas: Deltas
) {
  // Sound: the schema only tells the provider what to ask for; the answer is read from its parts.
  const schema = object.schema as Schema.Codec<unknown, Record<string, unknown>>
  const outer = yield* Effect.serviceOption(Telemetry.CurrentSpanTransformer)
  let parts: ReadonlyArray<Response.AnyPart> | undefined
  // The error for an object that does not decode has neither usage nor finish reason; this sees both.
  const observe: Telemetry.SpanTransformer = (options) => {
    parts = options.response
    if (Option.isSome(outer)) outer.value(options)
  }
  const answer = yield* model.generateObject({ prompt, schema, objectName: object.name }).pipe(
    Effect.provideService(Telemetry.CurrentSpanTransformer, observe),
    Effect.flatMap((response) => finishAnswer("generateObject", responses.fromResponseParts(response.content))),
    Effect.catchReason("AiError", "StructuredOutputError", (reason) =>
      parts === undefined
        ? Effect.succeed(failUnreadable(reason.responseText))
        : finishAnswer("generateObject", responses.fromResponseParts(parts))
    )
  )
  for (const part of answer.content) {
    if (part.type === "text") yield* deltas.text(part.text)
  }
  return answer
})

/** Sends it; with `deltas` the answer is streamed to them. */
const sendRequest = (
  model: LanguageModel.LanguageModel,
  request: Request,
  deltas: Deltas | undefined
): Effect.Effect<responses.ResponseContent, AiError.AiError> => withQuietSpans(receiveAnswer(model, request, deltas))

const receiveAnswer = (model: LanguageModel.LanguageModel, request: Request, deltas: Deltas | undefined) => {
  if (request.object !== undefined) {
    return generateObject(model, request.prompt, request.object, deltas ?? silentDeltas)
  }
  return deltas === undefined ? generateAnswer(model, request) : streamAnswer(model, request, deltas)
}

const silentDeltas: Deltas = { text: () => Effect.void, reasoning: () => Effect.void }

const withoutText = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> =>
  Exit.isSuccess(exit)
    ? exit
    : Exit.failCause(Cause.map(exit.cause, (error) => (AiError.isAiError(error) ? modelFailed(error) : error)))

const quietTracers = new WeakSet<Tracer.Span>()

/** The same span, so that exporters know their own. */
const quietTracer = (span: Tracer.Span): Tracer.Span => {
  if (quietTracers.has(span)) return span
  quietTracers.add(span)
  const end = span.end.bind(span)
  return Object.assign(span, {
    end: (time: bigint, exit: Exit.Exit<unknown, unknown>) => end(time, withoutText(exit))
  })
}

/**
 * Core ends the span of a model call with the `AiError` as it is, and exporters print
 * it: prompts and keys that a provider quotes would leave the process.
 */
const withQuietSpans = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.flatMap(Tracer.Tracer, (tracer) => {
    const { context } = tracer
    const span: Tracer.Tracer["span"] = (options) => quietTracer(tracer.span(options))
    return Effect.withTracer(
      effect,
      Tracer.make(
        context === undefined
          ? { span }
          : { span, context: (primitive, fiber) => Reflect.apply(context, tracer, [primitive, fiber]) }
      )
    )
  })

interface BudgetedRun {
  readonly resolved: Resolved<unknown>
  readonly recorder: AgentRecorder
}

/** Makes a new view before a model call that would pass the threshold. */
const applyBudget = Effect.fnUntraced(function* (policy: runOptions.Budget, { recorder, resolved }: BudgetedRun) {
  const { conversation, view } = recorder.state()
  const current = view ?? conversation
  const overhead = overheadTokens(resolved, yield* TokenCounter.TokenCounter)
  const before = yield* Conversation.estimatedSize(current, { overhead })
  if (before <= policy.threshold) return
  const fitted = yield* Effect.mapError(
    policy._tag === "Fit"
      ? truncateConversation(policy, current, overhead)
      : compactConversation(policy, current, overhead, resolved.model),
    recorder.fail
  )
  if (Conversation.isUnchanged(fitted.report)) return
  const report = { ...fitted.report, before }
  yield* recorder.record({ _tag: "ConversationFitted", at: yield* DateTime.now, view: fitted.conversation, report })
})

const truncateConversation = (
  policy: { readonly threshold: number; readonly target: number; readonly keepOutput?: number | undefined },
  conversation: history.Conversation,
  overhead: number
): Effect.Effect<Conversation.Reduction, AgentError.Reason> => {
  const to = (budget: number) =>
    Conversation.truncate(conversation, { budget, overhead, keepOutput: policy.keepOutput })
  return to(Math.min(policy.target, policy.threshold)).pipe(
    // The room between target and threshold is a wish
    Effect.catchIf(
      (error) => error.needed <= policy.threshold,
      (error) => to(error.needed)
    ),
    Effect.mapError(({ needed }) => {
      const error = new Conversation.BudgetTooSmall({ needed, budget: policy.threshold })
      return AgentError.makeReason("BudgetFailed", { problem: error.message }, error)
    })
  )
}

const compactConversation = Effect.fnUntraced(function* (
  policy: runOptions.Compact,
  conversation: history.Conversation,
  overhead: number,
  model: LanguageModel.LanguageModel
) {
  const { keepRecent, summarize } = policy
  const compacted = yield* Conversation.compact(conversation, { keepRecent, summarize }).pipe(
    Effect.provideService(LanguageModel.LanguageModel, model),
    Effect.mapError((error) =>
      AgentError.makeReason(
        "BudgetFailed",
        { problem: `the Effect that summarizes old turns failed with ${errorName(error)}` },
        error
      )
    )
  )
  const after = yield* Conversation.estimatedSize(compacted.conversation, { overhead })
  if (after <= policy.threshold) {
    return { conversation: compacted.conversation, report: { ...compacted.report, after } }
  }
  const fitted = yield* truncateConversation(policy, compacted.conversation, overhead)
  return { conversation: fitted.conversation, report: mergeReports(compacted.report, fitted.report) }
})

/** What two steps did; a summary that did not stay was never there. */
const mergeReports = (
  compacted: Conversation.ReductionReport,
  { after, removed, shortened }: Conversation.ReductionReport
): Conversation.ReductionReport => {
  const { before, summary } = compacted
  const stays = summary !== undefined && removed.every(({ id }) => id !== summary.id)
  return {
    before,
    after,
    removed: [...compacted.removed, ...removed.filter(({ id }) => id !== summary?.id)],
    shortened,
    ...(stays ? { summary } : undefined)
  }
}

const errorName = (error: unknown): string => {
  if (error instanceof ConversationError.ConversationError) return error.reason._tag
  if (Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag)) return error._tag
  return error instanceof Error ? error.name : "an untagged error"
}

/** What providers write around a tool definition. */
const toolTokens = 8

const countedTools = new WeakMap<ToolSet, WeakMap<TokenCounter.TokenCounter, number>>()

/** Tokens of what is sent beside the conversation, counted once for each set of tools. */
const overheadTokens = ({ output, tools }: Resolved<unknown>, counter: TokenCounter.TokenCounter): number => {
  const counts = countedTools.get(tools) ?? new WeakMap<TokenCounter.TokenCounter, number>()
  countedTools.set(tools, counts)
  const known = counts.get(counter)
  if (known !== undefined) return known
  let tokens =
    output._tag === "Structured" ? counter.count(structuredOutput.systemTextBefore(output, "answer") ?? "") : 0
  for (const { contract } of tools.tools.values()) {
    const { description = "", name, parameters } = contract
    tokens += toolTokens + counter.count(name) + counter.count(description) + counter.count(JSON.stringify(parameters))
  }
  counts.set(counter, tokens)
  return tokens
}
