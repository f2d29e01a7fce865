/**
 * Records the answers of a real model in a file, and replays them without the model.
 *
 * **Mental model**
 *
 * A cassette is a JSON file of exchanges, each a request to a language model and its answer. `layerRecord` is a
 * `LanguageModel` that asks another one and writes each exchange to the file. `layerReplay` is a `LanguageModel` that answers
 * the same requests from the file. Record once with an API key, keep the file with the tests, and replay it everywhere.
 *
 * @since 0.1.0
 */

import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as JsonPatch from "effect/JsonPatch"
import * as Layer from "effect/Layer"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Digest from "../payload/Digest.ts"
import * as Json from "../payload/Json.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import * as fuel from "../payload/internal/fuel.ts"
import * as jsonLimits from "../payload/internal/limits.ts"
import { maskJson } from "../payload/internal/maskSecrets.ts"
import { publicDescription } from "../payload/internal/problems.ts"
import { defined, getAt, type JsonObject, own } from "../payload/internal/values.ts"

const parts = Schema.Array(Response.Part())

const chunks = Schema.Array(Response.StreamPart())

/** An answer holds `parts`, or the `chunks` of a stream; `error` is the failure, of a stream after its chunks. */
const Exchange = Schema.Struct({
  digest: Schema.String,
  request: Schema.Json,
  answer: Schema.Struct({
    parts: Schema.optionalKey(parts),
    chunks: Schema.optionalKey(chunks),
    error: Schema.optionalKey(AiError.AiError)
  })
})

type Exchange = typeof Exchange.Type

const Cassette = Schema.toCodecJson(Schema.Struct({ version: Schema.Literal(1), exchanges: Schema.Array(Exchange) }))

const encodeExchange = Schema.encodeEffect(Schema.toCodecJson(Exchange))

const promptCodec = Schema.toCodecJson(Prompt.Prompt)

const encodeTool = (tool: Tool.Any): JsonObject => ({
  name: tool.name,
  ...defined({ description: Tool.getDescription(tool), strict: Tool.getStrictMode(tool) }),
  parameters: encodeSchema(() => Tool.getJsonSchema(tool))
})

/** A schema without a JSON Schema is `null`: a request is compared by the rest of it. */
const encodeSchema = (make: () => object): Schema.Json =>
  Result.getOrElse(
    Result.flatMap(Result.try(make), (schema) => Result.try((): Schema.Json => JSON.parse(JSON.stringify(schema)))),
    () => null
  )

type Method = "generateText" | "streamText"

/** The JSON without secrets. It is complete or refused: a cassette with less would replay another exchange. */
const mask = Effect.fnUntraced(function* (json: Schema.Json) {
  const tank = fuel.make((yield* jsonLimits.resolveLimits()).maxFuel)
  const masked = maskJson(json, { tank, names: yield* Json.SecretNames })
  return fuel.isEmpty(tank) ? yield* fuel.fail(tank, "model cassette", "") : masked
})

/** The request as JSON without secrets, the same in every process. */
const encodeRequest = Effect.fnUntraced(function* (options: LanguageModel.ProviderOptions, method: Method) {
  const { responseFormat, toolChoice } = options
  const request: Schema.Json = {
    method,
    prompt: yield* Schema.encodeEffect(promptCodec)(options.prompt),
    tools: options.tools.map(encodeTool),
    toolChoice,
    ...(responseFormat.type === "json" && {
      output: {
        name: responseFormat.objectName,
        schema: encodeSchema(() => Schema.toJsonSchemaDocument(responseFormat.schema))
      }
    })
  }
  const masked = yield* mask(request)
  // A text that was cut inside a character has no canonical form. As JSON text it has an escape there
  const digest = Effect.catch(Digest.sha256(masked), () => Digest.sha256(JSON.stringify(masked)))
  return { request: masked, digest: yield* digest }
}, Effect.orDie)

type AnyTool = Tool.Tool<
  string,
  {
    readonly parameters: Schema.Codec<unknown>
    readonly success: Schema.Codec<unknown>
    readonly failure: Schema.Codec<unknown>
    readonly failureMode: "return"
  }
>

/** The request for the recorded model: it returns calls as they are, and no tool runs. */
const optionsFor = ({ prompt, toolChoice, tools }: LanguageModel.ProviderOptions) => ({
  prompt,
  // Sound: the tools are only offered. Services that their schemas need are in the context of the caller.
  toolkit: Toolkit.make(...(tools as ReadonlyArray<AnyTool>)),
  toolChoice,
  disableToolCallResolution: true as const,
  toolCallValidation: "deferred" as const
})

const generate = (
  model: LanguageModel.LanguageModel,
  options: LanguageModel.ProviderOptions
): Effect.Effect<ReadonlyArray<Response.AnyPart>, AiError.AiError> => {
  const { responseFormat } = options
  if (responseFormat.type === "text")
    return Effect.map(model.generateText(optionsFor(options)), ({ content }) => content)
  // Sound: the value is encoded with the schema that decoded it, in the same context.
  const schema = responseFormat.schema as Schema.Codec<unknown, Record<string, unknown>>
  const toText = Schema.encodeEffect(Schema.fromJsonString(schema))
  const textPart = (text: string) => Response.makePart("text", { text })
  return model.generateObject({ ...optionsFor(options), schema, objectName: responseFormat.objectName }).pipe(
    // the model may have written the value in a dialect of its own
    Effect.flatMap(({ content, value }) =>
      Effect.map(Effect.orDie(toText(value)), (text) => [
        textPart(text),
        ...content.filter(({ type }) => type !== "text")
      ])
    ),
    Effect.catchReason("AiError", "StructuredOutputError", ({ responseText }) =>
      Effect.succeed([textPart(responseText)])
    )
  )
}

type Answer = Exchange["answer"]

type Chunk = (typeof chunks.Type)[number]

const encodeParts = Schema.encodeEffect(Schema.mutable(parts))

const encodeChunk = Schema.encodeEffect(Response.StreamPart())

const makeModel = (backend: {
  readonly generate: (options: LanguageModel.ProviderOptions) => Effect.Effect<Answer, AiError.AiError>
  readonly stream: (options: LanguageModel.ProviderOptions) => Stream.Stream<Chunk, AiError.AiError>
}) =>
  LanguageModel.make({
    generateText: (options) =>
      Effect.flatMap(backend.generate(options), (answer) =>
        answer.error === undefined ? Effect.orDie(encodeParts([...(answer.parts ?? [])])) : Effect.fail(answer.error)
      ),
    streamText: (options) => Stream.mapEffect(backend.stream(options), (chunk) => Effect.orDie(encodeChunk(chunk)))
  })

/**
 * A `LanguageModel` that asks the ambient one, and writes each request with its answer to the file.
 *
 * **When to use**
 *
 * Use it once, with the real model, to make the file that {@link layerReplay} reads; and again when the program sends other
 * requests. Compare the files before you keep the new one.
 *
 * **Details**
 *
 * The file is written anew: what it held before is lost. It is complete after every answer. An answer that the program
 * interrupted is not recorded; a failure of the model is. Streams are recorded with their chunks, without their times.
 *
 * Secrets are not written: values of secret keys (`Json.SecretNames`) and texts that look like an API key, a token or a
 * password become `[redacted]`, and numbers 0, in requests and answers. Everything else of a prompt is in the file, in plain text.
 * An exchange that needs more than `maxFuel` of `Limits` for this, with the default more than about two million characters, is a
 * defect.
 *
 * **Gotchas**
 *
 * The recorded model must be used with the same tools and the same schema of an object when the file is replayed, and by
 * the same method: `generateText` and `streamText` are different requests.
 *
 * @see {@link layerReplay} for an example
 * @category layers
 * @since 0.1.0
 */
export const layerRecord = (
  path: string
): Layer.Layer<LanguageModel.LanguageModel, PlatformError, FileSystem.FileSystem | LanguageModel.LanguageModel> =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function* () {
      const model = yield* LanguageModel.LanguageModel
      const files = yield* FileSystem.FileSystem
      const lock = yield* Semaphore.make(1)
      const exchanges: Array<Schema.Json> = []

      const write = Effect.suspend(() =>
        files.writeFileString(path, `${JSON.stringify({ version: 1, exchanges }, null, 2)}\n`)
      )
      const record = Effect.fnUntraced(function* (
        options: LanguageModel.ProviderOptions,
        method: Method,
        answer: Answer
      ) {
        const request = yield* encodeRequest(options, method)
        exchanges.push(yield* Effect.orDie(Effect.flatMap(encodeExchange({ ...request, answer }), mask)))
        yield* Effect.orDie(write)
      }, lock.withPermit)

      yield* write
      return yield* makeModel({
        generate: (options) =>
          Effect.result(generate(model, options)).pipe(
            Effect.map((answer): Answer => {
              if (Result.isFailure(answer)) return { error: answer.failure }
              // Sound: the answer of a model that does not stream has no chunks.
              return { parts: answer.success as typeof parts.Type }
            }),
            Effect.tap((answer) => record(options, "generateText", answer))
          ),
        stream: (options) =>
          Stream.suspend(() => {
            const seen: Array<Chunk> = []
            const keep = (rest?: Answer) => record(options, "streamText", { chunks: seen, ...rest })
            return model.streamText(optionsFor(options)).pipe(
              Stream.tap((chunk: Chunk) => Effect.sync(() => seen.push(chunk))),
              Stream.onEnd(Effect.suspend(() => keep())),
              Stream.tapError((error) => keep({ error }))
            )
          })
      })
    })
  )

/** The greatest number of differences that an error lists. */
const maxDifferences = 5

/** Both values as short texts, from a little before the place where they differ. */
const quoteBoth = (recorded: Schema.Json | undefined, sent: Schema.Json | undefined): readonly [string, string] => {
  const left = JSON.stringify(recorded) ?? "nothing"
  const right = JSON.stringify(sent) ?? "nothing"
  let same = 0
  while (same < left.length && left[same] === right[same]) same++
  const start = Math.max(0, same - 20)
  const shorten = (text: string) =>
    (start > 0 ? "..." : "") + text.slice(start, start + 80) + (text.length > start + 80 ? "..." : "")
  return [shorten(left), shorten(right)]
}

/** The number of messages, tools and other parts of a request that differ. */
const countPlaces = (patch: JsonPatch.JsonPatch): number =>
  new Set(patch.map(({ path }) => path.split("/").slice(0, 4).join("/"))).size

const refused = (method: Method, problem: string) =>
  AiError.make({
    module: "ModelCassette",
    method,
    reason: new AiError.UnknownError({
      description: `${problem}Record the file again with ModelCassette.layerRecord`,
      metadata: { [publicDescription]: true }
    })
  })

const sentTooOften = (path: string, recorded: number, method: Method) =>
  refused(
    method,
    `the cassette ${path} holds this request ${recorded === 1 ? "once" : `${recorded} times`}, and it was sent once more. `
  )

const notRecorded = (path: string, exchanges: ReadonlyArray<Exchange>, request: Schema.Json, method: Method) => {
  const compared = exchanges.map((exchange, index) => {
    const patch = JsonPatch.get(exchange.request, request)
    return { exchange, index, patch, distance: countPlaces(patch) }
  })
  const [closest] = compared.toSorted((one, other) => one.distance - other.distance)
  const lines = (closest?.patch ?? []).slice(0, maxDifferences).map((operation) => {
    const [recorded, sent] = quoteBoth(
      getAt(closest?.exchange.request ?? null, operation.path),
      getAt(request, operation.path)
    )
    return `\n  ${operation.path}: recorded ${recorded}, sent ${sent}`
  })
  const found =
    closest === undefined
      ? "it has no exchanges. "
      : `the closest of its ${exchanges.length} exchanges, number ${closest.index + 1}, differs in ${closest.patch.length === 1 ? "one place" : `${closest.patch.length} places`}:${lines.join("")}\n`
  return refused(method, `this request is not in the cassette ${path}; ${found}`)
}

/**
 * A `LanguageModel` that answers from the file that {@link layerRecord} wrote, without a network.
 *
 * **Details**
 *
 * A request is found by the digest of its canonical JSON: prompt, tools with their JSON Schemas, tool choice, schema of
 * the object, and method. Requests may come in another order than they were recorded. Answers to equal requests are given in
 * the order of the file.
 *
 * A request that is not in the file fails with an `AiError` that is not retryable; its message lists the differences to the
 * closest request of the file. A request that is sent more often than it was recorded fails in the same way. A file that is no cassette fails the layer with a `PayloadError`.
 *
 * `limits` are the limits of decoding the file, `Limits.defaults` if absent.
 *
 * **Example** (Record, then replay)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, FileSystem, Layer } from "effect"
 * import { Agent } from "effect-emissary"
 * import { ModelCassette, ScriptedModel } from "effect-emissary/testing"
 *
 * // a file system in memory; a program provides `NodeServices.layer`
 * const stored = new Map<string, string>()
 * const files = FileSystem.layerNoop({
 *   readFile: (path) => Effect.succeed(new TextEncoder().encode(stored.get(path))),
 *   writeFileString: (path, text) => Effect.sync(() => void stored.set(path, text))
 * })
 *
 * const critic = Agent.make("critic", { instructions: "Judge the text." })
 * const model = ScriptedModel.layer([{ text: "Trite." }]) // a real model in your program
 *
 * const program = critic.ask("Once upon a time")
 * const recorded = await program.pipe(
 *   Effect.provide(ModelCassette.layerRecord("critic.json").pipe(Layer.provide([model, files]))),
 *   Effect.runPromise
 * )
 * const replayed = await program.pipe(
 *   Effect.provide(ModelCassette.layerReplay("critic.json").pipe(Layer.provide(files))),
 *   Effect.runPromise
 * )
 * assert.strictEqual(recorded, "Trite.")
 * assert.strictEqual(replayed, "Trite.")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerReplay = (
  path: string,
  options?: Pick<jsonLimits.Options, "limits">
): Layer.Layer<LanguageModel.LanguageModel, PayloadError | PlatformError, FileSystem.FileSystem> =>
  Layer.effect(
    LanguageModel.LanguageModel,
    Effect.gen(function* () {
      const files = yield* FileSystem.FileSystem
      const bytes = yield* files.readFile(path)
      const { exchanges } = yield* Json.decodeJson(Cassette, { ...options, what: "model cassette" })(bytes)
      const answers = Arr.groupBy(exchanges, ({ digest }) => digest)
      const used = new Map<string, number>()

      const find = Effect.fnUntraced(function* (options: LanguageModel.ProviderOptions, method: Method) {
        const { digest, request } = yield* encodeRequest(options, method)
        const recorded = own(answers, digest)
        const count = used.get(digest) ?? 0
        used.set(digest, count + 1)
        if (recorded === undefined) return yield* notRecorded(path, exchanges, request, method)
        const exchange = recorded[count]
        return exchange === undefined ? yield* sentTooOften(path, recorded.length, method) : exchange.answer
      })

      return yield* makeModel({
        generate: (options) => find(options, "generateText"),
        stream: (options) =>
          Stream.unwrap(
            Effect.map(find(options, "streamText"), ({ chunks = [], error }) => {
              const stream = Stream.rechunk(Stream.fromIterable(chunks), 1)
              return error === undefined ? stream : Stream.concat(stream, Stream.fail(error))
            })
          )
      })
    })
  )
