import { Deferred, Effect, Layer, Option, Schema, Stream } from "effect"
import { LanguageModel, type AiError, type Response } from "effect/ai"
import { LanguageModelConformance, ScriptedModel } from "effect-emissary/testing"

const errors: Readonly<Record<number, "AuthenticationError" | "RateLimitError" | "InternalProviderError">> = {
  401: "AuthenticationError",
  429: "RateLimitError",
  500: "InternalProviderError",
  529: "InternalProviderError"
}

const silence = "silence"

/** Arguments as a script has them: parsed, if they are JSON. */
const toCall = (part: LanguageModelConformance.AnswerPart) => {
  if (part.type !== "tool-call") return []
  const { arguments: text, id, name } = part
  const params = Option.getOrUndefined(Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Json))(text))
  return [params === undefined ? { id, name, arguments: text } : { id, name, params }]
}

/** A reply of the provider, as a turn of a script. */
const toTurn = (reply: LanguageModelConformance.Reply): ScriptedModel.Turn => {
  if (reply._tag === "Failure") {
    const retryAfter = reply.retryAfter === undefined ? {} : { retryAfter: reply.retryAfter * 1000 }
    return {
      fail: { reason: errors[reply.status] ?? "InvalidRequestError", description: reply.message, ...retryAfter }
    }
  }
  const reasoning = reply.content.find((part) => part.type === "reasoning")
  const text = reply.content.find((part) => part.type === "text")
  const { signature = "", text: thought = "" } = reasoning ?? {}
  const content: ScriptedModel.Turn = {
    ...(reasoning === undefined ? {} : { reasoning: { text: thought, metadata: { scripted: { signature } } } }),
    ...(text === undefined ? {} : { text: text.text }),
    toolCalls: reply.content.flatMap(toCall)
  }
  if (reply._tag === "Answer") return { ...content, finishReason: reply.finish, usage: reply.usage }
  const description = reply._tag === "Silence" ? silence : "the connection broke"
  return { ...content, fail: { reason: "NetworkError", description } }
}

const signatureOf = (options: unknown): string => {
  const own = (value: unknown, key: string): unknown =>
    typeof value === "object" && value !== null ? Object.entries(value).find(([name]) => name === key)?.[1] : undefined
  return String(own(own(options, "scripted"), "signature"))
}

/** A request of the script in the words of the suite. */
const toRequest = ({ prompt, responseFormat, toolChoice, tools }: ScriptedModel.Request) => {
  const input = prompt.content.flatMap((message): ReadonlyArray<LanguageModelConformance.InputPart> => {
    if (message.role === "system") return [{ type: "system", text: message.content }]
    return message.content.flatMap((part): ReadonlyArray<LanguageModelConformance.InputPart> => {
      switch (part.type) {
        case "text":
          return [{ type: message.role === "user" ? "user" : "text", text: part.text }]
        case "reasoning":
          return [{ type: "reasoning", text: part.text, signature: signatureOf(part.options) }]
        case "file": {
          const { data, mediaType } = part
          const bytes = data instanceof Uint8Array ? Buffer.from(data).toString("base64") : String(data)
          return [{ type: "file", mediaType, data: bytes }]
        }
        case "tool-call":
          return [{ type: "tool-call", id: part.id, name: part.name, arguments: part.params }]
        case "tool-result": {
          const texts = part.modelOutput?.map((output) => (output.type === "text" ? output.text : ""))
          return [{ type: "tool-result", id: part.id, text: texts?.join("") ?? JSON.stringify(part.result) }]
        }
        default:
          return []
      }
    })
  })
  const choice = typeof toolChoice === "object" && "oneOf" in toolChoice ? (toolChoice.mode ?? "auto") : toolChoice
  const output = responseFormat.type === "json" ? { output: responseFormat.schema } : {}
  return { input, tools, toolChoice: choice, ...output }
}

type Options = LanguageModel.GenerateTextOptions<{}>

/** The difference of an adapter to another one. */
export interface Change {
  readonly request?: (options: Options) => Options
  readonly whole?: (
    answer: Effect.Effect<ReadonlyArray<Response.AnyPart>, AiError.AiError>
  ) => Effect.Effect<ReadonlyArray<Response.AnyPart>, AiError.AiError>
  readonly streamed?: (
    answer: Stream.Stream<Response.AnyPart, AiError.AiError>
  ) => Stream.Stream<Response.AnyPart, AiError.AiError>
}

export const change = (model: LanguageModel.LanguageModel, change: Change): LanguageModel.LanguageModel => {
  const { request = (options) => options, streamed = (answer) => answer, whole = (answer) => answer } = change
  const generateText = (options: Options) =>
    Effect.map(
      whole(Effect.map(model.generateText(request(options) as never), ({ content }) => content)),
      (content) => new LanguageModel.GenerateTextResponse([...content] as never)
    )
  const generateObject = (options: Options) => model.generateObject(request(options) as never)
  const streamText = (options: Options) => streamed(model.streamText(request(options) as never))
  return { ...model, ...({ generateText, generateObject, streamText } as never as LanguageModel.LanguageModel) }
}

/** The scripted model, as a harness of the suite. `alter` makes another adapter of it. */
export const harness =
  (alter: Change = {}) =>
  (replies: ReadonlyArray<LanguageModelConformance.Reply>) =>
    Effect.gen(function* () {
      const closed = yield* Deferred.make<void>()
      const scripted = yield* ScriptedModel.ScriptedModel
      const model = yield* LanguageModel.LanguageModel
      const open = Effect.onInterrupt(Effect.never, () => Deferred.succeed(closed, undefined))
      const isSilent = (error: unknown) => String(error).includes(silence)
      const connected = change(model, {
        whole: (answer) => Effect.catchIf(answer, isSilent, () => open),
        streamed: (answer) => Stream.catchIf(answer, isSilent, () => Stream.fromEffect(open))
      })
      const provider = LanguageModelConformance.Provider.of({
        requests: Effect.map(scripted.requests, (all) => all.map(toRequest)),
        aborted: Deferred.await(closed)
      })
      return Layer.merge(
        Layer.succeed(LanguageModelConformance.Provider, provider),
        Layer.succeed(LanguageModel.LanguageModel, change(connected, alter))
      )
    }).pipe(Layer.unwrap, Layer.provide(ScriptedModel.layer(replies.map(toTurn))))
