/**
 * The spans and metrics of the runs of agents and of their model calls. `Telemetry` describes them. Without a tracer and
 * without metrics a run has none of this.
 */

import type * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Exit from "effect/Exit"
import { constVoid } from "effect/Function"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Tracer from "effect/Tracer"
import type * as Types from "effect/Types"
import type * as AiError from "effect/ai/AiError"
import * as Model from "effect/ai/Model"
import type * as Prompt from "effect/ai/Prompt"
import * as history from "../../conversation/internal/history.ts"
import * as modelMessages from "../../conversation/internal/modelMessages.ts"
import { defined, own } from "../../payload/internal/values.ts"
import type * as runParts from "../../run/internal/runParts.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import * as telemetry from "../../tool/internal/telemetry.ts"
import * as toolCall from "../../tool/internal/toolCall.ts"
import type * as AgentError from "../AgentError.ts"
import * as agentData from "./agentData.ts"
import type * as agentTypes from "./agentTypes.ts"

const operation = "gen_ai.operation.name"

/** The conventions' names of providers that other libraries name differently. */
const providerNames: Readonly<Record<string, string>> = {
  "amazon-bedrock": "aws.bedrock",
  bedrock: "aws.bedrock",
  azure: "azure.ai.openai",
  google: "gcp.gemini",
  "google-vertex": "gcp.vertex_ai",
  vertex: "gcp.vertex_ai",
  mistral: "mistral_ai",
  moonshotai: "moonshot_ai",
  xai: "x_ai"
}

/** The model that a definition asks for; without one the ambient model, if `Model.make` of `effect/ai` names it. */
const askedModel = (model: string | undefined, context: Context.Context<never>) => {
  const ambient = () => ({
    provider: Context.getOption(context, Model.ProviderName),
    model: Context.getOption(context, Model.ModelName)
  })
  const named =
    model === undefined ? ambient() : Option.match(agentData.parseModelName(model), { onNone: ambient, onSome: some })
  const provider = Option.getOrUndefined(named.provider)
  return defined({
    "gen_ai.provider.name": provider && (own(providerNames, provider) ?? provider),
    "gen_ai.request.model": Option.getOrUndefined(named.model)
  })
}

const some = ({ model, provider }: agentData.ModelName) => ({
  provider: Option.some(provider),
  model: Option.some(model)
})

/** The options that a definition sets, where they are of the kind that the conventions have. */
const requestAttributes = ({ modelOptions, reasoning }: agentData.AgentDefinition) => {
  const numberAt = (...keys: ReadonlyArray<string>) =>
    keys.map((key) => own(modelOptions, key)).find((value) => typeof value === "number")
  return defined({
    "gen_ai.request.temperature": numberAt("temperature"),
    "gen_ai.request.top_p": numberAt("top_p"),
    "gen_ai.request.max_tokens": numberAt("max_tokens", "max_output_tokens"),
    "gen_ai.request.seed": numberAt("seed"),
    "gen_ai.request.reasoning.level": reasoning
  })
}

const usageAttributes = (usage: history.TokenUsage = {}) => ({
  "gen_ai.usage.input_tokens": usage.inputTokens,
  "gen_ai.usage.output_tokens": usage.outputTokens,
  "gen_ai.usage.cache_read.input_tokens": usage.cacheReadTokens,
  "gen_ai.usage.cache_creation.input_tokens": usage.cacheWriteTokens,
  "gen_ai.usage.reasoning.output_tokens": usage.reasoningTokens
})

const tagOf = (error: unknown): string | undefined =>
  Predicate.hasProperty(error, "_tag") && Predicate.isString(error._tag) ? error._tag : undefined

/** The class of a failure: the tag of its reason, if it has one. An interruption is none. */
const errorType = (cause: Cause.Cause<unknown>): string | undefined => {
  for (const reason of cause.reasons) {
    if (reason._tag === "Die") return toolCall.defectName(reason.defect)
    if (reason._tag !== "Fail") continue
    const { error } = reason
    return (Predicate.hasProperty(error, "reason") ? tagOf(error.reason) : undefined) ?? tagOf(error) ?? "_OTHER"
  }
  return undefined
}

const seconds = (nanos: bigint): number => Number(nanos) / 1e9

const secondsSince = (clock: Clock.Clock, start: bigint): number => seconds(clock.currentTimeNanosUnsafe() - start)

// Runs

/** Describes a run while it begins and ends. */
export interface RunSpan {
  readonly began: (
    agent: { readonly digest: string; readonly modelName?: string | undefined },
    state: runParts.State,
    first: boolean
  ) => void
  readonly ended: (exit: Exit.Exit<agentTypes.Result<unknown>, AgentError.AgentError>) => void
}

export const ofRun = (span: Tracer.Span, agent: string, context: Context.Context<never>): RunSpan => {
  const clock = Context.get(context, Clock.Clock)
  const start = clock.currentTimeNanosUnsafe()
  let model: string | undefined
  let before: history.TokenUsage = {}
  return {
    began: ({ digest, modelName }, state, first) => {
      model = modelName === undefined ? undefined : askedModel(modelName, context)["gen_ai.request.model"]
      if (!first) before = state.usage
      telemetry.annotate(span, {
        "emissary.run.id": state.runId,
        "emissary.agent.digest": digest,
        "gen_ai.request.model": model
      })
    },
    ended: (exit) => {
      const failed = exit._tag === "Failure" ? errorType(exit.cause) : undefined
      const result = exit._tag === "Success" ? exit.value : undefined
      telemetry.annotate(span, {
        ...usageAttributes(result && history.usageDifference(result.usage, before)),
        "emissary.run.outcome": result?.outcome,
        "emissary.run.steps": result?.steps,
        "error.type": failed
      })
      telemetry.record(context, "gen_ai.invoke_agent.duration", secondsSince(clock, start), {
        "gen_ai.agent.name": agent,
        "gen_ai.request.model": model,
        "error.type": failed
      })
    }
  }
}

/** Runs a plan in its span, and measures it. `before`: the usage of a run that is resumed. */
export const inWorkflow =
  (
    { definition, digest }: { readonly definition: { readonly name: string }; readonly digest: string },
    before: history.TokenUsage
  ) =>
  <A extends Pick<agentTypes.Result<unknown>, "usage"> & { readonly outcome: string }, E, R>(
    run: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E, Exclude<R, Tracer.ParentSpan>> => {
    const { name } = definition
    const attributes = {
      [operation]: "invoke_workflow",
      "gen_ai.workflow.name": name,
      "emissary.plan.digest": digest
    }
    return Effect.useSpan(`invoke_workflow ${name}`, { attributes }, (plain) =>
      Effect.contextWith((context: Context.Context<never>) => {
        const span = toolCall.quietSpan(plain)
        const inside = Effect.withParentSpan(run, span, { captureStackTrace: false })
        if (!callContext.isObserved(context)) return inside
        const clock = Context.get(context, Clock.Clock)
        const start = clock.currentTimeNanosUnsafe()
        return Effect.onExit(inside, (exit) =>
          Effect.sync(() => {
            const failed = exit._tag === "Failure" ? errorType(exit.cause) : undefined
            const result = exit._tag === "Success" ? exit.value : undefined
            telemetry.annotate(span, {
              ...usageAttributes(result && history.usageDifference(result.usage, before)),
              "emissary.run.outcome": result?.outcome,
              "error.type": failed
            })
            telemetry.record(context, "gen_ai.workflow.duration", secondsSince(clock, start), {
              "gen_ai.workflow.name": name,
              "error.type": failed
            })
          })
        )
      })
    )
  }

// Model calls

/** The model calls of one run. */
export interface ModelCalls {
  readonly context: Context.Context<never>
  readonly isTraced: boolean
  readonly name: string
  readonly model: ReturnType<typeof askedModel>
  readonly attributes: Record<string, unknown>
  readonly errorOf: (error: unknown) => unknown
}

/** The model calls of a run in a program that is observed. */
export const ofModel = (
  context: Context.Context<never>,
  definition: agentData.AgentDefinition,
  modelName: string | undefined,
  errorOf: ModelCalls["errorOf"]
): ModelCalls => {
  const model = askedModel(modelName, context)
  const asked = model["gen_ai.request.model"]
  return {
    context,
    isTraced: callContext.tracerOf(context) !== undefined,
    name: asked === undefined ? "chat" : `chat ${asked}`,
    model,
    attributes: { [operation]: "chat", ...model, ...requestAttributes(definition) },
    errorOf
  }
}

const chats = new WeakSet<Tracer.AnySpan>()

/**
 * The services with a tracer for model calls. For the call, core gets the span that {@link observe} made instead of a
 * span of its own: core's name for a span is no name of the conventions, and core ends its span before the answer is
 * read. Errors are as `errorOf` makes them: core ends its span with the `AiError` as it is, and prompts and keys that a
 * provider quotes would leave the process.
 */
export const withTracer = (
  services: Context.Context<never>,
  { attributes, errorOf, name }: ModelCalls
): Context.Context<never> => {
  const tracer = callContext.tracerOf(services)
  if (tracer === undefined) return services
  const context = tracer.context?.bind(tracer)
  const ours = Tracer.make({
    span: (options) => {
      const parent = Option.getOrUndefined(options.parent)
      const isCore = options.name.startsWith("LanguageModel.")
      if (isCore && parent?._tag === "Span" && chats.has(parent)) return parent
      const span = toolCall.quietSpan(tracer.span(isCore ? { ...options, name } : options), errorOf)
      if (isCore) telemetry.annotate(span, attributes)
      return span
    },
    ...(context && { context })
  })
  return Context.add(services, Tracer.Tracer, ours)
}

/** A model call under way. `failure` is the error of an answer that cannot be used. */
interface Call {
  readonly isStreaming: boolean
  readonly prompt: () => Prompt.Prompt
  readonly send: (parts: modelMessages.StreamAccumulator) => Effect.Effect<string, AiError.AiError>
  readonly failure: (method: string) => AiError.AiError | undefined
}

/** The seconds of a call, and of a stream until its first part. */
interface Times {
  readonly whole: number
  readonly first: number | undefined
}

/** Runs a model call in its span, with {@link withTracer}, and measures it. */
export const observe = (
  calls: ModelCalls,
  parts: modelMessages.StreamAccumulator,
  call: Call
): Effect.Effect<string, AiError.AiError> => {
  const { attributes, context, isTraced, name } = calls
  const clock = Context.get(context, Clock.Clock)
  let first: bigint | undefined
  const add: typeof parts.add = (part) => {
    first ??= clock.currentTimeNanosUnsafe()
    return parts.add(part)
  }
  const checked = Effect.flatMap(
    call.send({ add, end: () => parts.end(), result: () => parts.result(), size: () => parts.size() }),
    (method) => {
      const error = call.failure(method)
      return error === undefined ? Effect.succeed(method) : Effect.fail(error)
    }
  )
  const run = (effect: typeof checked, span: Tracer.Span | undefined) =>
    Effect.suspend(() => {
      const start = clock.currentTimeNanosUnsafe()
      return Effect.onExit(effect, (exit) =>
        Effect.sync(() => {
          const answer = parts.result()
          const failed = exit._tag === "Failure" ? errorType(exit.cause) : undefined
          const times = {
            whole: secondsSince(clock, start),
            first: call.isStreaming && first !== undefined ? seconds(first - start) : undefined
          }
          if (span !== undefined) describe(span, context, call, answer, failed, times)
          measure(calls, answer, failed, times)
        })
      )
    })
  if (!isTraced) return run(checked, undefined)
  const streaming = call.isStreaming ? { "gen_ai.request.stream": true } : {}
  return Effect.useSpan(name, { kind: "client", attributes: { ...attributes, ...streaming } }, (plain) => {
    const span: Types.Mutable<Tracer.Span> = plain
    const { end } = span
    chats.add(span)
    // Core ends it, too
    span.end = constVoid
    const running = run(Effect.withParentSpan(checked, span, { captureStackTrace: false }), span)
    return Effect.ensuring(
      running,
      Effect.sync(() => void (span.end = end))
    )
  })
}

const describe = (
  span: Tracer.Span,
  context: Context.Context<never>,
  call: Call,
  { content, finishReason, model, response, usage }: modelMessages.ResponseContent,
  failed: string | undefined,
  times: Times
): void => {
  telemetry.annotate(span, {
    "gen_ai.response.time_to_first_chunk": times.first,
    "gen_ai.response.id": response?.id,
    "gen_ai.response.model": model,
    "gen_ai.response.finish_reasons": finishReason && [finishReason],
    ...usageAttributes(usage),
    "error.type": failed
  })
  const recorder = Context.get(context, telemetry.Capture)
  recorder?.chat(span, call.prompt(), { parts: modelMessages.promptParts(content), finishReason })
}

const measure = (
  { context, model: asked }: ModelCalls,
  { model, usage }: modelMessages.ResponseContent,
  failed: string | undefined,
  times: Times
): void => {
  const attributes = { [operation]: "chat", ...asked, "gen_ai.response.model": model }
  telemetry.record(context, "gen_ai.client.operation.duration", times.whole, { ...attributes, "error.type": failed })
  if (times.first !== undefined) {
    telemetry.record(context, "gen_ai.client.operation.time_to_first_chunk", times.first, attributes)
  }
  for (const [type, tokens] of [
    ["input", usage?.inputTokens],
    ["output", usage?.outputTokens]
  ] as const) {
    if (tokens === undefined) continue
    telemetry.record(context, "gen_ai.client.token.usage", tokens, { ...attributes, "gen_ai.token.type": type })
  }
}
