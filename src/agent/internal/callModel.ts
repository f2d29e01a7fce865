/** One step: the request of a model call, and what its answer means for the run. */
import type * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Conversation from "../../conversation/Conversation.ts"
import * as Message from "../../conversation/Message.ts"
import type { AssistantPart } from "../../conversation/Part.ts"
import * as ResponseContent from "../../conversation/ResponseContent.ts"
import * as CheckedSchema from "../../payload/CheckedSchema.ts"
import type { ToolSet } from "../../tool/ToolSet.ts"
import * as AgentError from "../AgentError.ts"
import type { BudgetPolicy } from "../BudgetPolicy.ts"
import { stopReason } from "../Outcome.ts"
import type { CallModel } from "../RunAction.ts"
import type { OutputCheck } from "../RunEvent.ts"
import type { ResumeOptions, ToolChoice } from "../RunOptions.ts"
import type { Resolved } from "./blueprint.ts"
import * as budgets from "./budget.ts"
import * as modelRequest from "./modelRequest.ts"
import * as Output from "./output.ts"
import type { Recorder } from "./recorder.ts"

interface Step {
  readonly resolved: Resolved<unknown>
  readonly recorder: Recorder
  readonly options: ResumeOptions
  readonly budget: BudgetPolicy | undefined
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

const promptOf = ({ recorder, resolved }: Step, action: CallModel): Prompt.Prompt => {
  const { output, tools } = resolved
  const { conversation, view } = recorder.state()
  const prompt = Conversation.toPrompt(view ?? conversation, { toolName: tools.providerName })
  const told = output._tag === "Structured" ? Output.toldBefore(output, action.purpose) : undefined
  return withMistakes(told === undefined ? prompt : withSystem(prompt, told), action.mistakes)
}

const isEvery = (choice: ToolChoice): choice is { readonly every: LanguageModel.ToolChoice<string> } =>
  typeof choice === "object" && "every" in choice

const providerChoice = (choice: LanguageModel.ToolChoice<string>, tools: ToolSet): LanguageModel.ToolChoice<string> => {
  if (typeof choice === "string") return choice
  return "tool" in choice
    ? { tool: tools.providerName(choice.tool) }
    : { ...choice, oneOf: choice.oneOf.map((name) => tools.providerName(name)) }
}

const toolChoiceOf = (
  choice: ToolChoice | undefined,
  first: boolean,
  tools: ToolSet
): LanguageModel.ToolChoice<string> => {
  if (choice === undefined) return "auto"
  if (isEvery(choice)) return providerChoice(choice.every, tools)
  return first ? providerChoice(choice, tools) : "auto"
}

const requestOf = (step: Step, action: CallModel): modelRequest.Request => {
  const { output, tools } = step.resolved
  const object =
    action.purpose === "structured" && output._tag === "Structured"
      ? { schema: CheckedSchema.toSchema(output.offered), name: "output" }
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

const retried = (
  { options, recorder }: Step,
  step: number,
  attempt: Effect.Effect<ResponseContent.ResponseContent, AiError.AiError>
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

const canonical = (content: ReadonlyArray<AssistantPart>, tools: ToolSet): ReadonlyArray<AssistantPart> =>
  content.map((part) =>
    part.type === "tool-call" || part.type === "tool-result" ? { ...part, name: tools.canonicalName(part.name) } : part
  )

interface Checked {
  readonly output?: OutputCheck
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
    return { output: yield* Output.checkValue(output, outputCall.arguments), outputCall: outputCall.id }
  }
  const final = calls.length === 0 && stopReason(message.finishReason) === undefined && message.finishReason !== "pause"
  return final ? { output: yield* Output.checkText(output, Message.text(message)) } : {}
})

/** Calls the model once and records its answer, or its mistake. */
export const run = Effect.fnUntraced(function* (step: Step, action: CallModel) {
  const { options, recorder, resolved } = step
  const limit = options.modelMistakes ?? defaultModelMistakes
  if (action.mistakes.length > limit) {
    return yield* recorder.fail(
      new AgentError.ModelMistakes({ step: action.step, mistakes: action.mistakes.length, limit })
    )
  }
  if (step.budget !== undefined) {
    yield* budgets.apply(step.budget, step)
    if (recorder.stopping()) return
  }
  yield* recorder.record({
    _tag: "StepStarted",
    at: yield* DateTime.now,
    step: action.step,
    purpose: action.purpose
  })
  if (recorder.stopping()) return
  const deltas: modelRequest.Deltas | undefined = step.streaming
    ? {
        text: (delta) => recorder.emit({ _tag: "TextDelta", delta }),
        reasoning: (delta) => recorder.emit({ _tag: "ReasoningDelta", delta })
      }
    : undefined
  const answered = yield* Effect.result(
    retried(step, action.step, modelRequest.send(resolved.model, requestOf(step, action), deltas))
  )
  if (answered._tag === "Failure") {
    const problem = mistakeOf(answered.failure)
    if (problem === undefined) {
      return yield* recorder.fail(AgentError.modelFailed(answered.failure, resolved.definition.model))
    }
    return yield* recorder.record({ _tag: "ModelMistaken", at: yield* DateTime.now, problem })
  }
  const content = Conversation.relabelCalls(
    recorder.state().conversation,
    canonical(answered.success.content, resolved.tools)
  )
  const message = yield* ResponseContent.toMessage({ ...answered.success, content })
  const checked = yield* checkOutput(resolved, message)
  yield* recorder.record({ _tag: "ModelAnswered", at: yield* DateTime.now, message, ...checked })
})
