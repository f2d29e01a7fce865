/**
 * What a scripted model answers, as plain data: turns, tool calls, failures and
 * what a turn expects of the request that reaches it.
 *
 * @since 0.1.0
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Schema from "effect/Schema"
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type { Limits } from "../payload/Limits.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type * as VersionedCodec from "../payload/VersionedCodec.ts"
import { codec } from "./wire/script-v1.ts"

/**
 * One tool call of a scripted answer.
 *
 * **Details**
 *
 * - `id`: default `call_<turn>_<position>`, both counted from 1, so that ids are
 *   unique within a script and the same on every run.
 * - `params`: the arguments as a JSON value; default `{}`.
 * - `arguments`: the arguments as the text a provider sent, malformed if you
 *   like. It takes the place of `params`.
 * - `providerExecuted`: the provider runs the tool itself. Give `result` (and
 *   `isFailure`) to have the result in the same answer. Core takes such a result
 *   only if the request's toolkit declares the tool (`Tool.providerDefined`).
 * - `metadata`: provider metadata of the call, by provider name.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolCall {
  readonly id?: string
  readonly name: string
  readonly params?: Schema.Json
  readonly arguments?: string
  readonly providerExecuted?: boolean
  readonly result?: Schema.Json
  readonly isFailure?: boolean
  readonly metadata?: Metadata
}

/**
 * Provider metadata of an answer's part: one JSON object per provider name.
 *
 * @category models
 * @since 0.1.0
 */
export type Metadata = { readonly [provider: string]: { readonly [key: string]: Schema.Json } }

/**
 * Text or reasoning that carries provider metadata, for example the signature
 * of a reasoning block.
 *
 * @category models
 * @since 0.1.0
 */
export interface AnnotatedText {
  readonly text: string
  readonly metadata: Metadata
}

/**
 * A file in a scripted answer; `data` is base64 text.
 *
 * @category models
 * @since 0.1.0
 */
export interface File {
  readonly mediaType: string
  readonly data: string
}

/**
 * Token counts of a scripted answer. An absent count is unknown, not zero.
 *
 * @category models
 * @since 0.1.0
 */
export interface Usage {
  readonly inputTokens?: number
  readonly outputTokens?: number
  readonly cacheReadTokens?: number
  readonly cacheWriteTokens?: number
  readonly reasoningTokens?: number
}

/**
 * The failures a script can name in data.
 *
 * @category models
 * @since 0.1.0
 */
export type FailureName =
  | "RateLimitError"
  | "QuotaExhaustedError"
  | "AuthenticationError"
  | "ContentPolicyError"
  | "InvalidRequestError"
  | "InvalidResponseError"
  | "InternalProviderError"
  | "NetworkError"
  | "InvalidOutputError"
  | "ToolNotFoundError"
  | "ToolParameterValidationError"
  | "UnknownError"

/**
 * A failure of the provider as data. In code a ready `AiError` reason does as
 * well.
 *
 * **Details**
 *
 * - `retryAfter`: milliseconds, used by `RateLimitError`.
 * - `toolName`: used by `ToolNotFoundError` and `ToolParameterValidationError`;
 *   default `"tool"`.
 *
 * @category models
 * @since 0.1.0
 */
export interface Failure {
  readonly reason: FailureName
  readonly description?: string
  readonly retryAfter?: number
  readonly toolName?: string
}

/**
 * What a turn requires of the request that reaches it. Every given key must
 * hold; a request that differs fails the model call with a
 * `ScriptedModelError` that says what was expected and found.
 *
 * **Details**
 *
 * - `lastUserText`: occurs in the text of the newest user message.
 * - `systemText`: occurs in the system messages.
 * - `toolResult`: occurs in the text of a tool result after the newest assistant
 *   message.
 * - `roles`: the roles of all messages, in order.
 * - `tools`: the names of the tools on offer, in any order, none missing and
 *   none besides.
 * - `toolChoice` and `responseFormat`: exact.
 *
 * @category models
 * @since 0.1.0
 */
export interface Expectation {
  readonly lastUserText?: string
  readonly systemText?: string
  readonly toolResult?: string
  readonly roles?: ReadonlyArray<Prompt.Message["role"]>
  readonly tools?: ReadonlyArray<string>
  readonly toolChoice?: ToolChoice
  readonly responseFormat?: "text" | "json"
}

/**
 * The tool choice of a request, as data.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolChoice =
  | "auto"
  | "none"
  | "required"
  | { readonly tool: string }
  | { readonly mode?: "auto" | "required"; readonly oneOf: ReadonlyArray<string> }

/**
 * One answer of the scripted model, as plain data: what a JSON script may hold.
 *
 * **Details**
 *
 * The parts of the answer always come in the order `reasoning`, `text` (or
 * `object`), `files`, `toolCalls`, and then the finish.
 *
 * - `object`: a JSON value, answered as compact JSON text: what `generateObject`
 *   and structured output read.
 * - `finishReason`: default `"tool-calls"` when the answer holds a call that the
 *   provider does not execute, else `"stop"`; `"missing"` leaves the finish out,
 *   as a stream that was cut does.
 * - `delay`: milliseconds to wait on the `Clock` before the answer; `chunkDelay`:
 *   milliseconds to wait before each streamed part.
 * - `fail`: the call fails. With content beside it, a stream first delivers the
 *   content and then breaks; `generateText` just fails.
 *
 * @category models
 * @since 0.1.0
 */
export interface TurnData {
  readonly expect?: Expectation
  readonly delay?: number
  readonly chunkDelay?: number
  readonly reasoning?: string | AnnotatedText
  readonly text?: string | AnnotatedText
  readonly object?: Schema.Json
  readonly files?: ReadonlyArray<File>
  readonly toolCalls?: ReadonlyArray<ToolCall>
  readonly usage?: Usage
  readonly finishReason?: Response.FinishReason | "missing"
  readonly fail?: Failure
}

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
export interface Turn extends Omit<TurnData, "expect" | "fail" | "delay" | "chunkDelay"> {
  readonly delay?: Duration.Input
  readonly chunkDelay?: Duration.Input
  readonly expect?: Expectation | ((request: Request) => boolean | Effect.Effect<boolean | void, unknown>)
  readonly fail?: Failure | AiError.AiErrorReason
  readonly parts?: ReadonlyArray<Response.PartEncoded | Response.StreamPartEncoded>
}

/**
 * A turn that depends on the request.
 *
 * @category models
 * @since 0.1.0
 */
export type TurnFunction = (request: Request) => Turn | Effect.Effect<Turn, AiError.AiError>

/**
 * A script: a list of turns, used up in order, one per model call; or a function
 * that answers every request and never ends.
 *
 * @category models
 * @since 0.1.0
 */
export type Script = ReadonlyArray<Turn | TurnFunction> | TurnFunction

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
export interface Request {
  readonly index: number
  readonly method: "generateText" | "generateObject" | "streamText"
  readonly messages: ReadonlyArray<RequestMessage>
  readonly tools: ReadonlyArray<RequestTool>
  readonly toolChoice: ToolChoice
  readonly responseFormat: RequestFormat
  /** The prompt itself, for everything `messages` leaves out. */
  readonly prompt: Prompt.Prompt
}

/**
 * The response format of a request.
 *
 * @category models
 * @since 0.1.0
 */
export type RequestFormat =
  | { readonly type: "text" }
  | { readonly type: "json"; readonly objectName: string; readonly schema: unknown }

/**
 * A message of a recorded request. `text` joins its text parts, or the text of
 * its tool results, with line breaks.
 *
 * @category models
 * @since 0.1.0
 */
export interface RequestMessage {
  readonly role: Prompt.Message["role"]
  readonly text: string
  readonly reasoning?: string
  readonly files?: ReadonlyArray<string>
  readonly toolCalls?: ReadonlyArray<{ readonly id: string; readonly name: string; readonly params: unknown }>
  readonly toolResults?: ReadonlyArray<{
    readonly id: string
    readonly name: string
    readonly isFailure: boolean
    readonly text: string
  }>
}

/**
 * A tool on offer in a recorded request, as the provider would be told of it.
 *
 * @category models
 * @since 0.1.0
 */
export interface RequestTool {
  readonly name: string
  readonly description?: string
  readonly parameters: unknown
}

/**
 * A script as plain data: what a JSON file can hold.
 *
 * `chunkSize` is how many characters a streamed delta holds at most; default 8.
 *
 * @category models
 * @since 0.1.0
 */
export interface ScriptData {
  readonly chunkSize?: number
  readonly turns: ReadonlyArray<TurnData>
}

/**
 * Reads a script from JSON text or bytes: `{ "version": 1, "turns": [...] }`,
 * each turn as {@link TurnData} describes it. Unknown keys are refused.
 *
 * **Example** (A script in JSON)
 *
 * ```ts
 * import assert from "node:assert"
 * import { Effect } from "effect"
 * import { LanguageModel } from "effect/ai"
 * import { Script, ScriptedModel } from "effect-emissary/testing"
 *
 * const json = `{ "version": 1, "turns": [{ "text": "Hi.", "expect": { "lastUserText": "Hello" } }] }`
 *
 * const program = Effect.gen(function*() {
 *   const { turns } = yield* Script.decodeJson(json)
 *   return yield* LanguageModel.generateText({ prompt: "Hello" }).pipe(
 *     Effect.provide(ScriptedModel.layer(turns))
 *   )
 * })
 *
 * assert.strictEqual((await Effect.runPromise(program)).text, "Hi.")
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<ScriptData, PayloadError> => codec.decodeJson(input, options)

/**
 * Writes a script as JSON text.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  script: ScriptData,
  options?: { readonly limits?: Partial<Limits> | undefined; readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError> =>
  codec.encodeJson(script, options).pipe(Effect.catchTag("LossyEncoding", (error) => Effect.die(error))) // one version
