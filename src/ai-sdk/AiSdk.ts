/**
 * Models of the AI SDK as language models of `effect/ai`.
 *
 * **Mental model**
 *
 * The packages `@ai-sdk/openai`, `@ai-sdk/anthropic`, `@ai-sdk/google` and many others have clients for the APIs of models,
 * all with one interface, `LanguageModelV4`. This module makes each of them a `LanguageModel`, for agents and for programs
 * that use `effect/ai` directly. The package of the provider is installed by the application; nothing else of the AI SDK
 * is needed.
 *
 * @since 0.1.0
 */

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4StreamPart,
  SharedV4Warning
} from "@ai-sdk/provider"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Model from "effect/ai/Model"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import type * as Json from "../payload/Json.ts"
import * as base from "../payload/internal/base.ts"
import { makeModel, OutputLimit } from "../agent/internal/outputLimit.ts"
import { Limits } from "../payload/internal/limits.ts"
import { defined, kindOf, own } from "../payload/internal/values.ts"
import * as sdkError from "./internal/sdkError.ts"
import * as sdkRequest from "./internal/sdkRequest.ts"
import * as sdkResponse from "./internal/sdkResponse.ts"

/**
 * A model of the AI SDK. Each `LanguageModelV4` of `@ai-sdk/provider` is one; no types of the AI SDK are named here, so that
 * the package is not needed.
 *
 * @category models
 * @since 0.1.0
 */
export interface SdkModel {
  readonly specificationVersion: "v4"
  readonly provider: string
  readonly modelId: string
  readonly doGenerate: (options: never) => PromiseLike<unknown>
  readonly doStream: (options: never) => PromiseLike<unknown>
}

/**
 * Options of a model.
 *
 * **Details**
 *
 * Sampling options, limits, `stop` and `reasoning` have the names and values of `ModelRegistry.Sampling`, so that
 * definitions can set them. The other options belong to the program.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  /** The temperature of sampling; default: the provider's. */
  readonly temperature?: number | undefined
  /** Sampling from the most likely tokens with this total probability, 0 to 1; default: the provider's. */
  readonly top_p?: number | undefined
  /** Sampling from this number of most likely tokens; default: the provider's. */
  readonly top_k?: number | undefined
  /** An integer that makes sampling repeatable, where the provider takes one; none by default. */
  readonly seed?: number | undefined
  /** The penalty for tokens that occurred before, -2 to 2; default: the provider's. */
  readonly presence_penalty?: number | undefined
  /** The penalty for tokens by how often they occurred before, -2 to 2; default: the provider's. */
  readonly frequency_penalty?: number | undefined
  /** The limit of an answer in tokens, where `max_output_tokens` is not set; default: the provider's. */
  readonly max_tokens?: number | undefined
  /** The limit of an answer in tokens; default: `max_tokens`. */
  readonly max_output_tokens?: number | undefined
  /** A text that ends the answer, or several texts; none by default. */
  readonly stop?: string | ReadonlyArray<string> | undefined
  /** The reasoning level, `"off"` for none; default: the provider's. */
  readonly reasoning?: "off" | "low" | "medium" | "high" | "xhigh" | "max" | undefined
  /**
   * Options of each provider under its name, as the AI SDK documents them. They may hold URLs and tokens, so take them
   * from a definition only through a Schema that names the ones you accept. Default: none, except that `store` of
   * OpenAI's Responses API is `false`, because conversations are stored by you.
   */
  readonly providerOptions?: { readonly [provider: string]: Json.JsonObject } | undefined
  /** Headers of each request; none by default. Their values are masked in texts of the provider that are kept. */
  readonly headers?: { readonly [name: string]: string } | undefined
  /** The key that the client has, so that it is masked in texts of the provider that are kept; none by default. */
  readonly apiKey?: Redacted.Redacted<string> | undefined
  /**
   * The environment variable that has the key; none by default. If the provider refuses the key, the error names this
   * variable.
   */
  readonly apiKeyVariable?: string | undefined
  /**
   * The role of system messages behind the first one: `"user"` for a model that refuses them, such as older models of
   * Anthropic, or `"system"` for another provider that takes them. Default: `"system"` for OpenAI and Anthropic, else
   * `"user"`.
   */
  readonly laterSystem?: "system" | "user" | undefined
  /** A function that sees each error before it is returned, and may return another error; none by default. */
  readonly mapError?: ((error: AiError.AiError) => Effect.Effect<AiError.AiError>) | undefined
  /**
   * The function that makes the JSON Schema of a structured output. Default: the dialect of Anthropic for its models,
   * for others the dialect of OpenAI, which is the smallest.
   */
  readonly codecTransformer?: LanguageModel.CodecTransformer | undefined
}

type Settings = Omit<LanguageModelV4CallOptions, "prompt">

/**
 * OpenAI's Responses API stores answers by default, and the client then sends references in place of them. A conversation is
 * stored here, so it would depend on what OpenAI still has, under the same key.
 */
const defaultOptions: Readonly<Record<string, Options["providerOptions"]>> = {
  "openai.responses": { openai: { store: false } }
}

const providerOptionsOf = ({ provider }: SdkModel, given: Options["providerOptions"] = {}) => {
  const defaults = Object.entries(own(defaultOptions, provider) ?? {})
  return { ...given, ...Object.fromEntries(defaults.map(([name, values]) => [name, { ...values, ...given[name] }])) }
}

const settingsOf = (languageModel: SdkModel, options: Options): Settings => ({
  ...defined({
    temperature: options.temperature,
    topP: options.top_p,
    topK: options.top_k,
    seed: options.seed,
    presencePenalty: options.presence_penalty,
    frequencyPenalty: options.frequency_penalty,
    maxOutputTokens: options.max_output_tokens ?? options.max_tokens,
    stopSequences: typeof options.stop === "string" ? [options.stop] : options.stop && [...options.stop],
    reasoning: options.reasoning === "off" ? ("none" as const) : options.reasoning,
    headers: options.headers === undefined ? undefined : { ...options.headers }
  }),
  ...sdkRequest.toProviderOptions(providerOptionsOf(languageModel, options.providerOptions))
})

/** The settings of a call whose budget leaves this number of tokens for its answer, if a budget limits that. */
const withinLimit = (settings: Settings, most: number | undefined): Settings =>
  most === undefined ? settings : { ...settings, maxOutputTokens: Math.min(settings.maxOutputTokens ?? most, most) }

/** The variables that the clients of the AI SDK read themselves. */
const keyVariables: Readonly<Record<string, string>> = {
  anthropic: "ANTHROPIC_API_KEY",
  deepseek: "DEEPSEEK_API_KEY",
  google: "GOOGLE_GENERATIVE_AI_API_KEY",
  groq: "GROQ_API_KEY",
  mistral: "MISTRAL_API_KEY",
  openai: "OPENAI_API_KEY",
  xai: "XAI_API_KEY"
}

/** The names of providers in the semantic conventions of OpenTelemetry, where they differ. */
const telemetryNames: Readonly<Record<string, Telemetry.WellKnownProviderName>> = {
  "amazon-bedrock": "aws.bedrock",
  azure: "azure.ai.openai",
  google: "gcp.gemini",
  mistral: "mistral_ai",
  vertex: "gcp.vertex_ai",
  xai: "x_ai"
}

const isModel = (given: unknown): boolean =>
  Predicate.hasProperty(given, "provider") && typeof given.provider === "string"

/** The problem of a value that is no model. */
const noModel = (given: unknown): string =>
  `expected a model of the AI SDK, got ${kindOf(given)}. Pass what a provider returns, for example openai.chat("gpt-5.2")`

/** The model, or one without a name, whose first call fails. */
const orNone = (given: SdkModel): Pick<SdkModel, "specificationVersion" | "provider" | "modelId"> =>
  isModel(given) ? given : { specificationVersion: "v4", provider: "none", modelId: "none" }

/** `openai` for `openai.responses`. */
const providerName = ({ provider }: Pick<SdkModel, "provider">): string => provider.split(".")[0] ?? provider

const failedCall = (languageModel: LanguageModelV4, options: Options, method: string): sdkError.Failed => {
  const provider = providerName(languageModel)
  const byDefault = own(keyVariables, provider)
  const keyVariable =
    options.apiKeyVariable ?? (byDefault === undefined ? undefined : `${byDefault}, or the apiKey that the code passes`)
  const known = Object.values(options.headers ?? {})
  if (options.apiKey !== undefined) known.push(Redacted.value(options.apiKey))
  return { method, provider, keyVariable, secrets: known }
}

/** The text up to the JSON in it: a client quotes the part of a conversation that it leaves out. */
const withoutJson = (text: string): string => (text.split("{", 1)[0] ?? "").replace(/:\s?$/, "")

const warningText = (warning: SharedV4Warning): string => {
  switch (warning.type) {
    case "other":
      return withoutJson(warning.message)
    case "deprecated":
      return `${warning.setting} is deprecated: ${warning.message}`
    default:
      return `${warning.type}: ${warning.feature}${warning.details === undefined ? "" : ` (${warning.details})`}`
  }
}

/**
 * Makes the `LanguageModel` service of a model of the AI SDK.
 *
 * **When to use**
 *
 * Use when a program builds models itself. {@link model} is the layer, which is what agents are provided with.
 *
 * **Details**
 *
 * - Errors are `AiError`s. Their reason follows the status of the response; `retryAfter` is read from the headers
 *   `retry-after-ms` and `retry-after`. The texts of providers are kept with everything masked that looks like a key. A call
 *   is made once: see `Agent.Retry`.
 * - Half a character in a prompt, a tool or a schema is sent as U+FFFD, because providers refuse it. A prompt in which two keys become equal by that is an
 *   `InvalidRequestError`.
 * - Arguments of a call that are not JSON are passed on as text, so that they can be corrected.
 * - A tool is offered with `strict: true` if its JSON Schema is in the strict form and the provider has strict tools.
 * - A JSON Schema that the provider refuses is sent in a form that it takes and that accepts the same: a union at the root in
 *   an object, other names for properties, references to `$defs`. Arguments are turned back before anything reads them. A tool
 *   whose schema has no such form is left out, and logged once.
 * - Metadata of a part returns to the provider with the part: signatures of reasoning, ids of items, cache points.
 * - A warning of the provider is logged once, without the parts of the conversation that it quotes.
 * - An answer with more than `maxBytes` of the current `Limits`, and an answer that is none of `LanguageModelV4`, is an
 *   `InvalidOutputError`. A model with another `specificationVersion`, and a value that is no model, fails at its first call with an
 *   `InvalidRequestError`.
 * - The client calls `fetch`, so redirects are followed unless the `fetch` that the client is given refuses them.
 * - Interruption aborts the HTTP request.
 * - A server that answers a request for a stream with JSON is asked again for the whole answer, which is then the stream, or its
 *   error.
 * - A system message behind the first one is sent where it is to OpenAI, behind the next message of the user to Anthropic (which
 *   takes it nowhere else), and as a message of the user to others, except the new instructions of a session: they take the place of
 *   the first system message there. A message that is not sent where it is, is logged once.
 * - A file in the result of a tool follows in a message of the user, where the API has only text for results (chat completions).
 * - Files by URL are passed on, never downloaded: a provider that does not load them itself refuses the prompt.
 * - The id of a call that another provider made has the form that this one takes. Ids of its own tools stay.
 * - A file of a type that the provider or its client refuses is a note for the model, and its type is logged once: a file that a tool
 *   returned would make each later request fail. An image has the type that its first bytes show.
 *
 * @see {@link model} for an example
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (sdkModel: SdkModel, options: Options = {}): Effect.Effect<LanguageModel.LanguageModel> =>
  Effect.suspend(() => {
    // Sound: version v4 of the specification is this interface.
    const languageModel = orNone(sdkModel) as LanguageModelV4
    const dialect = dialectFor(languageModel, options)
    const warnOnce = base.warnOnce()

    const warn = (warnings: ReadonlyArray<string>): Effect.Effect<void> =>
      Effect.forEach(
        warnings,
        (text) => warnOnce(`AiSdk: ${languageModel.provider} ${languageModel.modelId}: ${text}`),
        { discard: true }
      )

    const failed = (method: string) => failedCall(languageModel, options, method)

    const unusable = (method: string, problem: string) => sdkError.invalidOutput(failed(method), problem)

    /** Reads what the client returned, which another release of it may have in another shape. */
    const read = <A>(method: string, f: () => A | undefined): Effect.Effect<A, AiError.AiError> =>
      Effect.suspend(() => {
        const found = Result.getOrUndefined(Result.try(f))
        return found === undefined ? Effect.fail(unusable(method, sdkResponse.brokenContract)) : Effect.succeed(found)
      })

    const prepare = Effect.fnUntraced(function* (request: LanguageModel.ProviderOptions, method: string) {
      const wrong = isModel(sdkModel)
        ? (sdkError.wrongVersion(languageModel) ?? sdkRequest.wrongPrompt(request))
        : noModel(sdkModel)
      if (wrong !== undefined) return yield* sdkError.invalidRequest(failed(method), wrong)
      const offer = sdkRequest.offerOf(request, dialect)
      const settings = withinLimit(settingsOf(languageModel, options), yield* OutputLimit)
      const prepared = yield* Effect.try({
        try: (): LanguageModelV4CallOptions =>
          sdkRequest.withOpenOutput({ ...settings, ...sdkRequest.toCall(request, dialect, offer) }, dialect),
        catch: (error) => {
          const description = error instanceof Error ? error.message : String(error)
          return sdkError.make(method, new AiError.UnsupportedSchemaError({ description }))
        }
      })
      annotateRequest(request, languageModel, settings)
      yield* warn([...sdkRequest.warningsOf(request.prompt, dialect).map(warningText), ...offer.leftOut])
      const limits = yield* Limits
      const size = sdkResponse.counter(limits, failed(method).provider)
      return { prepared, limits, size, turnBack: sdkRequest.turningBack(offer) }
    })

    const call = <A>(
      method: string,
      request: (signal: AbortSignal) => PromiseLike<A>
    ): Effect.Effect<A, AiError.AiError> =>
      Effect.tryPromise({ try: request, catch: (error) => new Cause.UnknownError(error) }).pipe(
        Effect.catch(({ cause }) => fail(method, cause))
      )

    const fail = (method: string, error: unknown) =>
      sdkError.fromSdk(error, failed(method)).pipe(Effect.flatMap(options.mapError ?? Effect.succeed), Effect.flip)

    const generateText = Effect.fnUntraced(function* (request: LanguageModel.ProviderOptions) {
      const method = "generateText"
      const { limits, prepared, size, turnBack } = yield* prepare(request, method)
      const result = yield* call(method, (abortSignal) => languageModel.doGenerate({ ...prepared, abortSignal }))
      yield* warn(yield* read(method, () => result.warnings.map(warningText)))
      const unreadable = sdkResponse.unreadable(
        [result.content, result.providerMetadata],
        limits,
        failed(method).provider
      )
      if (unreadable !== undefined) return yield* sdkError.tooLarge(failed(method), unreadable)
      const parts = yield* read(method, () => sdkResponse.toParts(result, asked(request)))
      const problem = size(parts)
      if (problem !== undefined) return yield* sdkError.tooLarge(failed(method), problem)
      parts.forEach((part) => annotateResponse(request, part))
      return parts.map(turnBack)
    })

    const streamText = (request: LanguageModel.ProviderOptions) =>
      Effect.gen(function* () {
        const method = "streamText"
        const { limits, prepared, size, turnBack } = yield* prepare(request, method)
        const controller = yield* Effect.acquireRelease(
          Effect.sync(() => new AbortController()),
          (controller) => Effect.sync(() => controller.abort())
        )
        const abortSignal = controller.signal
        const result = yield* call(method, () => languageModel.doStream({ ...prepared, abortSignal }))
        const stream = yield* read(method, () => sdkResponse.streamOf(result))
        const cutOff = Stream.fail(sdkError.cutOff(failed(method)))
        const expected = asked(request)
        const isJson = /^application\/json/i.test(result.response?.headers?.["content-type"] ?? "")
        let finished = false
        let hasContent = false
        let hasAnswer = false
        let withoutReason: unknown
        /** A server that answers with JSON sends no events: the client drops its answer or error, so it is asked for it whole. */
        const whole = Stream.unwrap(
          Effect.map(generateText(request), (made) => {
            finished = true
            return Stream.fromIterable(made.flatMap(sdkResponse.asStreamed))
          })
        )
        const parts = Stream.fromReadableStream({
          evaluate: () => stream,
          onError: (error) => new Cause.UnknownError(error)
        })
        const convert = (
          part: LanguageModelV4StreamPart
        ): Stream.Stream<Response.StreamPartEncoded, AiError.AiError> => {
          if (finished) return Stream.empty
          if (isJson && !hasContent && (part.type === "error" || part.type === "finish")) return whole
          if (part.type === "error") {
            // A client that demands a reason: what came before is whole, and the end follows
            if (hasAnswer && sdkError.isWithoutReason(part.error)) {
              withoutReason = part.error
              return Stream.empty
            }
            return Stream.fromEffect(fail(method, part.error))
          }
          if (part.type === "stream-start") return Stream.fromEffectDrain(warn(part.warnings.map(warningText)))
          if (!sdkResponse.isStreamed(part)) {
            const problem = size([], part)
            return problem === undefined ? Stream.empty : Stream.fail(sdkError.tooLarge(failed(method), problem))
          }
          hasContent ||= part.type !== "response-metadata" && part.type !== "finish"
          if (part.type === "finish") {
            if (part.finishReason.unified === "interrupted") return cutOff
            finished = true
          }
          hasAnswer ||= sdkResponse.isContent(part)
          const unreadable = sdkResponse.unreadable(part, limits, failed(method).provider)
          const read = withoutReason === undefined ? part : sdkResponse.withoutReason(part)
          const made = unreadable === undefined ? sdkResponse.toStreamParts(read, expected) : []
          const problem = unreadable ?? size(made)
          if (problem !== undefined) return Stream.fail(sdkError.tooLarge(failed(method), problem))
          made.forEach((each) => annotateResponse(request, each))
          return Stream.fromIterable(made.map(turnBack))
        }
        return parts.pipe(
          Stream.catch(({ cause }) => Stream.fromEffect(fail(method, cause))),
          Stream.flatMap((part) =>
            Result.getOrElse(
              Result.try(() => convert(part)),
              () => Stream.fail(unusable(method, sdkResponse.brokenContract))
            )
          ),
          Stream.concat(Stream.suspend(() => (finished ? Stream.empty : cutOff)))
        )
      }).pipe(Stream.unwrap)

    return makeModel({ generateText, streamText, codecTransformer: dialect.transformer })
  })

/** The dialect of the provider of a model, with what the options change. */
const dialectFor = ({ provider }: LanguageModelV4, options: Options): sdkRequest.Dialect => {
  const known = sdkRequest.dialectOf(provider)
  const { files } = known
  // An option of the client of OpenAI
  const passesThrough = Object.values(options.providerOptions ?? {}).some(
    (given) => given["passThroughUnsupportedFiles"]
  )
  return {
    ...known,
    files: passesThrough ? { ...files, bytes: files.results } : files,
    transformer: options.codecTransformer ?? known.transformer,
    laterSystem: sdkRequest.laterSystemOf(known, options.laterSystem)
  }
}

const asked = ({ responseFormat, tools }: LanguageModel.ProviderOptions): sdkResponse.Asked => ({
  json: responseFormat.type === "json",
  tools: new Set(tools.map(({ name }) => name))
})

const annotateRequest = (
  { span }: LanguageModel.ProviderOptions,
  languageModel: LanguageModelV4,
  settings: Settings
): void => {
  const provider = providerName(languageModel)
  Telemetry.addGenAIAnnotations(span, {
    provider: { name: own(telemetryNames, provider) ?? provider },
    operation: { name: "chat" },
    request: {
      model: languageModel.modelId,
      temperature: settings.temperature,
      topK: settings.topK,
      topP: settings.topP,
      maxTokens: settings.maxOutputTokens,
      stopSequences: settings.stopSequences,
      frequencyPenalty: settings.frequencyPenalty,
      presencePenalty: settings.presencePenalty,
      seed: settings.seed
    }
  })
}

const annotateResponse = (
  { span }: LanguageModel.ProviderOptions,
  part: Response.PartEncoded | Response.StreamPartEncoded
): void => {
  if (part.type === "response-metadata") {
    Telemetry.addGenAIAnnotations(span, { response: { id: part.id, model: part.modelId } })
  }
  if (part.type === "finish") {
    const { inputTokens, outputTokens } = part.usage
    Telemetry.addGenAIAnnotations(span, {
      response: { finishReasons: [part.reason] },
      usage: { inputTokens: inputTokens.total, outputTokens: outputTokens.total }
    })
  }
}

/**
 * The layer of a model of the AI SDK: the `LanguageModel`, and the names of its provider and model.
 *
 * **When to use**
 *
 * Use to provide an agent with a model, and as the `model` of a `ModelRegistry.provider`.
 *
 * **Details**
 *
 * See {@link make} for what the model does, and {@link Options} for its options.
 *
 * **Example** (An agent on a model of OpenAI)
 *
 * ```ts
 * import { createOpenAI } from "@ai-sdk/openai"
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { Agent } from "effect-emissary"
 * import { AiSdk } from "effect-emissary/ai-sdk"
 *
 * // In an application: import { openai } from "@ai-sdk/openai", which reads OPENAI_API_KEY
 * const openai = createOpenAI({
 *   apiKey: "test",
 *   fetch: () => Promise.resolve(Response.json({
 *     id: "1",
 *     created: 0,
 *     model: "gpt-5.2",
 *     choices: [{ index: 0, message: { role: "assistant", content: "Hello, Ada!" }, finish_reason: "stop" }],
 *     usage: { prompt_tokens: 9, completion_tokens: 4 }
 *   }))
 * })
 *
 * const greeter = Agent.make("greeter", { instructions: "Greet the user by name." })
 * const answer = await greeter.ask("I am Ada.").pipe(
 *   Effect.provide(AiSdk.model(openai.chat("gpt-5.2"), { max_output_tokens: 200 })),
 *   Effect.runPromise
 * )
 * assert.strictEqual(answer, "Hello, Ada!")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const model = (
  languageModel: SdkModel,
  options: Options = {}
): Model.Model<string, LanguageModel.LanguageModel, never> =>
  Model.make(
    providerName(orNone(languageModel)),
    orNone(languageModel).modelId,
    Layer.effect(LanguageModel.LanguageModel, make(languageModel, options))
  )
