/**
 * A language model that answers from a script.
 *
 * **Mental model**
 *
 * A script is a list of turns, one per model call. Each turn says what the model
 * answers and, if you like, what the request must look like. The model is an
 * ordinary `LanguageModel` layer, so the program under test does not know. It
 * records every request, and answers `generateText`, `generateObject` and
 * `streamText` from the same turns.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Response from "effect/ai/Response"
import * as callModel from "../agent/internal/callModel.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type { DecodeOptions } from "../payload/VersionedCodec.ts"
import * as modelScript from "./internal/modelScript.ts"

export {
  /**
   * One answer of the scripted model, as written in code.
   *
   * **Details**
   *
   * Besides {@link TurnData} code may give
   *
   * - `expect` as a function of the request: answer `false`, or fail, to refuse it;
   * - `fail` as an `AiError` reason;
   * - `delay` and `chunkDelay` as any duration;
   * - `parts`: encoded response parts exactly as a provider would send them, placed
   *   after the other content and before the finish. Use them for the odd cases: a
   *   stream `error` part, deltas without a start, `response-metadata`. The parts
   *   are sent as they are when streaming; otherwise deltas are joined per id and
   *   an `error` part fails the call.
   *
   * @category models
   * @since 0.1.0
   */
  type Turn
} from "./internal/modelScript.ts"

export {
  /**
   * A turn that depends on the request.
   *
   * @category models
   * @since 0.1.0
   */
  type TurnFunction
} from "./internal/modelScript.ts"

export {
  /**
   * A script: a list of turns, used up in order, one per model call; or a function
   * that answers every request and never ends.
   *
   * @category models
   * @since 0.1.0
   */
  type Script
} from "./internal/modelScript.ts"

export {
  /**
   * A request as the model received it, in a form that is easy to compare.
   *
   * **Details**
   *
   * `index` counts the model calls from 0. `method` tells how the model was asked;
   * everything else of two requests is equal when they say the same, whichever
   * method was used.
   *
   * @category models
   * @since 0.1.0
   */
  type Request
} from "./internal/modelScript.ts"

export {
  /**
   * Reads a script from JSON text or bytes: `{ "version": 1, "turns": [...] }`,
   * each turn as {@link TurnData} describes it. Unknown keys are refused.
   *
   * @category decoding
   * @since 0.1.0
   */
  decodeScript
} from "./internal/modelScript.ts"

export {
  /**
   * Writes a script as JSON text.
   *
   * @category encoding
   * @since 0.1.0
   */
  encodeScript
} from "./internal/modelScript.ts"

/**
 * The program asked the model once more than the script has turns.
 *
 * @category errors
 * @since 0.1.0
 */
export class ScriptExhausted extends Schema.TaggedError<ScriptExhausted>(
  "effect-emissary/testing/ScriptedModelError/ScriptExhausted"
)("ScriptExhausted", {
  /** How many turns the script has. */
  turns: Schema.Int,
  /** The role of the newest message of the request. */
  lastRole: Schema.String,
  /** The text of the newest message of the request, shortened. */
  lastText: Schema.String
}) {
  override get message() {
    return (
      `the script has ${this.turns} turn${this.turns === 1 ? "" : "s"} and all are used, but the model was called again ` +
      `(newest message: ${this.lastRole} ${JSON.stringify(this.lastText)}). Add a turn, or find out why the program did not stop.`
    )
  }
}

/**
 * A request is not the one the turn expects.
 *
 * @category errors
 * @since 0.1.0
 */
export class RequestMismatch extends Schema.TaggedError<RequestMismatch>(
  "effect-emissary/testing/ScriptedModelError/RequestMismatch"
)("RequestMismatch", {
  /** The turn, counted from 1. */
  turn: Schema.Int,
  differences: Schema.Array(modelScript.Difference)
}) {
  override get message() {
    const lines = this.differences.map((d) => `${d.what}: expected ${d.expected}, found ${d.found}`)
    return `the request of turn ${this.turn} is not the expected one:\n  ${lines.join("\n  ")}`
  }
}

/**
 * The program ended before every turn was used.
 *
 * @category errors
 * @since 0.1.0
 */
export class ScriptIncomplete extends Schema.TaggedError<ScriptIncomplete>(
  "effect-emissary/testing/ScriptedModelError/ScriptIncomplete"
)("ScriptIncomplete", {
  turns: Schema.Int,
  used: Schema.Int
}) {
  override get message() {
    return `the script has ${this.turns} turns, but the model was called only ${this.used} time${this.used === 1 ? "" : "s"}`
  }
}

/**
 * The script and the program under test do not agree.
 *
 * **Details**
 *
 * A model call can fail with an `AiError` only. Such an error of the script is
 * therefore an `AiError` with an `UnknownError` reason, never retryable, whose
 * description is this error's message, which the error of an agent repeats; read the
 * error back with {@link fromAiError}. `ScriptedModel.assertComplete` fails with it directly,
 * even if the program swallowed the failed call.
 *
 * @category errors
 * @since 0.1.0
 */
export class ScriptedModelError extends Schema.TaggedError<ScriptedModelError>(
  "effect-emissary/testing/ScriptedModelError"
)("ScriptedModelError", {
  reason: Schema.Union([ScriptExhausted, RequestMismatch, ScriptIncomplete])
}) {
  override get message() {
    return `ScriptedModel: ${this.reason.message}`
  }
}

const metadataKey = "effect-emissary/testing/ScriptedModel"

const errorCodec = Schema.toCodecJson(ScriptedModelError)

const encodeError = Schema.encodeSync(errorCodec)

/**
 * The form in which a model call fails with the error.
 *
 * @category conversions
 * @since 0.1.0
 */
export const toAiError = (error: ScriptedModelError, method: string): AiError.AiError =>
  AiError.make({
    module: "ScriptedModel",
    method,
    reason: new AiError.UnknownError({
      description: error.message,
      metadata: {
        [callModel.publicDescription]: true,
        [metadataKey]: Option.getOrNull(Schema.decodeUnknownOption(Schema.MutableJson)(encodeError(error)))
      }
    })
  })

/**
 * The script's own error inside a failed model call, if that is why it failed.
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromAiError = (error: AiError.AiError): Option.Option<ScriptedModelError> =>
  error.reason._tag === "UnknownError" && Object.hasOwn(error.reason.metadata, metadataKey)
    ? Schema.decodeUnknownOption(errorCodec)(error.reason.metadata[metadataKey])
    : Option.none()

/**
 * What a test can ask the scripted model afterwards.
 *
 * **Details**
 *
 * - `requests`: every request so far, in order.
 * - `remaining`: how many turns are left; `Infinity` for a script that is a
 *   function.
 * - `assertComplete`: fails with the first disagreement between script and
 *   program, or if turns are left.
 *
 * @category services
 * @since 0.1.0
 */
export class ScriptedModel extends Context.Service<
  ScriptedModel,
  {
    readonly requests: Effect.Effect<ReadonlyArray<modelScript.Request>>
    readonly remaining: Effect.Effect<number>
    readonly assertComplete: Effect.Effect<void, ScriptedModelError>
  }
>()("effect-emissary/testing/ScriptedModel") {}

/**
 * Options of a scripted model.
 *
 * - `chunkSize`: how many characters a streamed delta holds at most; default 8.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly chunkSize?: number
}

interface ScriptedAnswer {
  readonly turn: modelScript.Turn
  readonly index: number
}

/**
 * Makes the model and its test service as values, for example to hand several
 * scripted models to a registry.
 *
 * @see {@link layer} for the usual way
 * @category constructors
 * @since 0.1.0
 */
export const make = Effect.fnUntraced(function* (script: modelScript.Script, options?: Options) {
  const chunkSize = Math.max(1, Math.floor(options?.chunkSize ?? 8))
  const turns = typeof script === "function" ? Infinity : script.length
  const requests = yield* Ref.make<ReadonlyArray<modelScript.Request>>([])
  const problem = yield* Ref.make<ScriptedModelError | undefined>(undefined)

  const refuse = (reason: ScriptedModelError["reason"], method: string) => {
    const error = new ScriptedModelError({ reason })
    return Ref.update(problem, (first) => first ?? error).pipe(Effect.andThen(Effect.fail(toAiError(error, method))))
  }

  const answer = Effect.fnUntraced(function* (
    providerOptions: LanguageModel.ProviderOptions,
    hook: "generateText" | "streamText"
  ): Effect.fn.Return<ScriptedAnswer, AiError.AiError> {
    const request = yield* Ref.modify(requests, (all) => {
      const next = modelScript.recordRequest(providerOptions, hook, all.length)
      return [next, [...all, next]]
    })
    const entry = typeof script === "function" ? script : script[request.index]
    if (entry === undefined) {
      const newest = request.messages.at(-1)
      return yield* refuse(
        new ScriptExhausted({
          turns,
          lastRole: newest?.role ?? "none",
          lastText: modelScript.shortenText(newest?.text ?? "")
        }),
        request.method
      )
    }
    const given = typeof entry === "function" ? entry(request) : entry
    const turn = Effect.isEffect(given) ? yield* given : given
    if (turn.expect !== undefined) {
      const differences = yield* modelScript.checkExpectation(request, turn.expect)
      if (differences.length > 0) {
        return yield* refuse(new RequestMismatch({ turn: request.index + 1, differences }), request.method)
      }
    }
    if (turn.delay !== undefined) yield* Effect.sleep(turn.delay)
    return { turn, index: request.index }
  })

  const failure = (fail: NonNullable<modelScript.Turn["fail"]>, method: string) =>
    AiError.make({
      module: "ScriptedModel",
      method,
      reason: modelScript.isFailureData(fail) ? modelScript.toAiErrorReason(fail) : fail
    })

  const model = yield* LanguageModel.make({
    generateText: Effect.fnUntraced(function* (providerOptions) {
      const { turn, index } = yield* answer(providerOptions, "generateText")
      if (turn.fail !== undefined) return yield* failure(turn.fail, "generateText")
      const { parts, error } = modelScript.completeTurn(turn, index)
      if (error === undefined) return parts
      const description = typeof error.value === "string" ? error.value : (JSON.stringify(error.value) ?? "error part")
      return yield* AiError.make({
        module: "ScriptedModel",
        method: "generateText",
        reason: new AiError.InternalProviderError({ description })
      })
    }),
    streamText: (providerOptions) =>
      Stream.unwrap(
        Effect.map(answer(providerOptions, "streamText"), ({ turn, index }) => {
          const hasFailed = turn.fail !== undefined
          const parts = modelScript.streamTurn(
            hasFailed ? { ...turn, finishReason: "missing" } : turn,
            index,
            chunkSize
          )
          const paced: Stream.Stream<Response.StreamPartEncoded> =
            turn.chunkDelay === undefined
              ? Stream.fromIterable(parts).pipe(Stream.rechunk(1))
              : Stream.fromIterable(parts).pipe(
                  Stream.mapEffect((part) => Effect.as(Effect.sleep(turn.chunkDelay ?? Duration.zero), part))
                )
          return turn.fail === undefined ? paced : Stream.concat(paced, Stream.fail(failure(turn.fail, "streamText")))
        })
      )
  })

  const service = ScriptedModel.of({
    requests: Ref.get(requests),
    remaining: Effect.map(Ref.get(requests), (all) => Math.max(0, turns - all.length)),
    assertComplete: Effect.gen(function* () {
      const first = yield* Ref.get(problem)
      if (first !== undefined) return yield* first
      const used = (yield* Ref.get(requests)).length
      if (typeof script !== "function" && used < turns) {
        return yield* new ScriptedModelError({ reason: new ScriptIncomplete({ turns, used }) })
      }
    })
  })
  return { model, service }
})

/**
 * A `LanguageModel` that answers from a script, and the service that tells what
 * it was asked.
 *
 * **When to use**
 *
 * Use in tests and offline examples in place of a provider's layer.
 *
 * **Details**
 *
 * Turns are used up in order, one per model call, also by calls that fail. A call
 * past the end, or a request that differs from what its turn expects, fails with
 * an `AiError` that is not retryable and holds a `ScriptedModelError`;
 * {@link assertComplete} reports it too.
 *
 * **Gotchas**
 *
 * Model calls that run at the same time take turns in the order in which they
 * happen to start. Give such programs a script that is a function of the request.
 *
 * **Example** (A script of two turns)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const program = Effect.gen(function*() {
 *   const first = yield* LanguageModel.generateText({ prompt: "Hello" })
 *   const second = yield* LanguageModel.generateText({ prompt: "And now?" })
 *   yield* ScriptedModel.assertComplete
 *   const requests = yield* ScriptedModel.requests
 *   return [first.text, second.text, requests.length]
 * }).pipe(Effect.provide(ScriptedModel.layer([
 *   { text: "Hi.", expect: { lastUserText: "Hello" } },
 *   { text: "Bye.", usage: { inputTokens: 12, outputTokens: 2 } }
 * ])))
 *
 * assert.deepStrictEqual(await Effect.runPromise(program), ["Hi.", "Bye.", 2])
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layer = (
  script: modelScript.Script,
  options?: Options
): Layer.Layer<LanguageModel.LanguageModel | ScriptedModel> =>
  Layer.effectContext(
    Effect.map(make(script, options), ({ model, service }) =>
      Context.make(ScriptedModel, service).pipe(Context.add(LanguageModel.LanguageModel, model))
    )
  )

/**
 * {@link layer} with a script read from JSON text or bytes.
 *
 * **Details**
 *
 * The JSON is `{ "version": 1, "chunkSize"?: 8, "turns": [...] }`, see
 * `ScriptedModel.decodeScript`; `chunkSize` of the options has precedence.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerJson = (
  json: string | Uint8Array,
  options?: Options & DecodeOptions
): Layer.Layer<LanguageModel.LanguageModel | ScriptedModel, PayloadError> =>
  Layer.unwrap(
    Effect.map(modelScript.decodeScript(json, options), ({ chunkSize, turns }) =>
      layer(turns, chunkSize === undefined ? options : { chunkSize, ...options })
    )
  )

/**
 * {@link layerJson} with a script read from a file.
 *
 * **Example** (A script in a file)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect, FileSystem, Layer } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { ScriptedModel } from "effect-emissary/testing"
 *
 * const files = FileSystem.layerNoop({
 *   readFile: () => Effect.succeed(new TextEncoder().encode(`{ "version": 1, "turns": [{ "text": "Hi." }] }`))
 * })
 *
 * const { text } = await LanguageModel.generateText({ prompt: "Hello" }).pipe(
 *   Effect.provide(ScriptedModel.layerFile("script.json").pipe(Layer.provide(files))),
 *   Effect.runPromise
 * )
 * assert.strictEqual(text, "Hi.")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerFile = (
  path: string,
  options?: Options & DecodeOptions
): Layer.Layer<LanguageModel.LanguageModel | ScriptedModel, PayloadError | PlatformError, FileSystem.FileSystem> =>
  Layer.unwrap(
    Effect.map(
      Effect.flatMap(FileSystem.FileSystem, (files) => files.readFile(path)),
      (bytes) => layerJson(bytes, options)
    )
  )

/**
 * Every request the model has received so far, in order.
 *
 * @category accessors
 * @since 0.1.0
 */
export const requests: Effect.Effect<ReadonlyArray<modelScript.Request>, never, ScriptedModel> = ScriptedModel.use(
  (service) => service.requests
)

/**
 * How many turns are left; `Infinity` if the script is a function.
 *
 * @category accessors
 * @since 0.1.0
 */
export const remaining: Effect.Effect<number, never, ScriptedModel> = ScriptedModel.use((service) => service.remaining)

/**
 * Fails unless every turn was used and every request was the expected one.
 *
 * @category assertions
 * @since 0.1.0
 */
export const assertComplete: Effect.Effect<void, ScriptedModelError, ScriptedModel> = ScriptedModel.use(
  (service) => service.assertComplete
)
