/**
 * One request to the model. The only place of this room that touches core's
 * `LanguageModel` requests and responses.
 */
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Telemetry from "effect/ai/Telemetry"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as ResponseContent from "../../conversation/ResponseContent.ts"
import { withQuietSpans } from "./quietTracer.ts"
import type { ToolSet } from "../../tool/ToolSet.ts"

export interface Request {
  readonly prompt: Prompt.Prompt
  readonly toolkit: ToolSet["toolkit"]
  readonly toolChoice: LanguageModel.ToolChoice<string>
  /** Present for a step that asks for the output alone. */
  readonly object: { readonly schema: Schema.Top; readonly name: string } | undefined
}

export interface Deltas {
  readonly text: (delta: string) => Effect.Effect<void>
  readonly reasoning: (delta: string) => Effect.Effect<void>
}

const failed = (method: string, reason: AiError.AiErrorReason) =>
  AiError.make({ module: "LanguageModel", method, reason })

/** An `error` part fails the step as an error of the model does. */
const streamError = (error: unknown): AiError.AiError => {
  if (AiError.isAiError(error)) return error
  if (AiError.isAiErrorReason(error)) return failed("streamText", error)
  return failed("streamText", new AiError.UnknownError({ description: "the stream reported an error" }))
}

const finish = (
  method: string,
  result: ReturnType<ResponseContent.StreamAccumulator["result"]>
): Effect.Effect<ResponseContent.ResponseContent, AiError.AiError> => {
  if (Result.isFailure(result)) {
    return Effect.fail(failed(method, new AiError.InvalidOutputError({ description: result.failure.message })))
  }
  const [error] = result.success.errors
  return result.success.errors.length > 0 ? Effect.fail(streamError(error)) : Effect.succeed(result.success)
}

const options = (request: Request) => ({
  prompt: request.prompt,
  toolkit: request.toolkit,
  toolChoice: request.toolChoice,
  disableToolCallResolution: true as const,
  toolCallValidation: "deferred" as const
})

const generate = Effect.fnUntraced(function* (model: LanguageModel.LanguageModel, request: Request) {
  const response = yield* model.generateText(options(request))
  return yield* finish("generateText", ResponseContent.fromResponseParts(response.content))
})

const stream = Effect.fnUntraced(function* (model: LanguageModel.LanguageModel, request: Request, deltas: Deltas) {
  const accumulator = ResponseContent.accumulator()
  yield* Stream.runForEach(model.streamText(options(request)), (part: Response.AnyPart) => {
    accumulator.add(part)
    if (part.type === "text-delta") return deltas.text(part.delta)
    if (part.type === "reasoning-delta") return deltas.reasoning(part.delta)
    return part.type === "error" ? Effect.fail(streamError(part.error)) : Effect.void
  })
  return yield* finish("streamText", accumulator.result())
})

/** What the model said when its object was not readable: text like any other answer. */
const unreadable = (text: string): ResponseContent.ResponseContent => ({
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
    Effect.flatMap((response) => finish("generateObject", ResponseContent.fromResponseParts(response.content))),
    Effect.catchReason("AiError", "StructuredOutputError", (reason) =>
      parts === undefined
        ? Effect.succeed(unreadable(reason.responseText))
        : finish("generateObject", ResponseContent.fromResponseParts(parts))
    )
  )
  for (const part of answer.content) {
    if (part.type === "text") yield* deltas.text(part.text)
  }
  return answer
})

/** Sends it; with `deltas` the answer is streamed to them. */
export const send = (
  model: LanguageModel.LanguageModel,
  request: Request,
  deltas: Deltas | undefined
): Effect.Effect<ResponseContent.ResponseContent, AiError.AiError> => withQuietSpans(answer(model, request, deltas))

const answer = (model: LanguageModel.LanguageModel, request: Request, deltas: Deltas | undefined) => {
  if (request.object !== undefined) {
    return generateObject(model, request.prompt, request.object, deltas ?? silent)
  }
  return deltas === undefined ? generate(model, request) : stream(model, request, deltas)
}

const silent: Deltas = { text: () => Effect.void, reasoning: () => Effect.void }
