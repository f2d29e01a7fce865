/**
 * Scripts of models: their turns, their JSON, the requests they expect and the response parts they answer with.
 */

import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import type { Limits } from "../../payload/Limits.ts"
import type { PayloadError } from "../../payload/PayloadError.ts"
import * as VersionedCodec from "../../payload/VersionedCodec.ts"

/**
 * One point in which a request differs from what the turn expects.
 */
export const Difference = Schema.Struct({
  what: Schema.String,
  expected: Schema.String,
  found: Schema.String
})

/**
 * One point in which a request differs from what the turn expects.
 */
export type Difference = typeof Difference.Type

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
 */
type Metadata = { readonly [provider: string]: { readonly [key: string]: Schema.Json } }

/**
 * Text or reasoning that carries provider metadata, for example the signature
 * of a reasoning block.
 */
interface AnnotatedText {
  readonly text: string
  readonly metadata: Metadata
}

/**
 * A file in a scripted answer; `data` is base64 text.
 */
interface File {
  readonly mediaType: string
  readonly data: string
}

/**
 * Token counts of a scripted answer. An absent count is unknown, not zero.
 */
interface Usage {
  readonly inputTokens?: number
  readonly outputTokens?: number
  readonly cacheReadTokens?: number
  readonly cacheWriteTokens?: number
  readonly reasoningTokens?: number
}

/**
 * The failures a script can name in data.
 */
type FailureName =
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
 */
interface Failure {
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
 */
interface Expectation {
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
 */
type ToolChoice =
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
 */
interface TurnData {
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
 */
export type TurnFunction = (request: Request) => Turn | Effect.Effect<Turn, AiError.AiError>

/**
 * A script: a list of turns, used up in order, one per model call; or a function
 * that answers every request and never ends.
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
 */
type RequestFormat =
  | { readonly type: "text" }
  | { readonly type: "json"; readonly objectName: string; readonly schema: unknown }

/**
 * A message of a recorded request. `text` joins its text parts, or the text of
 * its tool results, with line breaks.
 */
interface RequestMessage {
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
 */
interface RequestTool {
  readonly name: string
  readonly description?: string
  readonly parameters: unknown
}

/**
 * A script as plain data: what a JSON file can hold.
 *
 * `chunkSize` is how many characters a streamed delta holds at most; default 8.
 */
interface ScriptData {
  readonly chunkSize?: number
  readonly turns: ReadonlyArray<TurnData>
}

/**
 * Reads a script from JSON text or bytes: `{ "version": 1, "turns": [...] }`,
 * each turn as {@link TurnData} describes it. Unknown keys are refused.
 */
export const decodeScript = (
  input: string | Uint8Array,
  options?: VersionedCodec.DecodeOptions
): Effect.Effect<ScriptData, PayloadError> => scriptCodec.decodeJson(input, options)

/**
 * Writes a script as JSON text.
 */
export const encodeScript = (
  script: ScriptData,
  options?: { readonly limits?: Partial<Limits> | undefined; readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError> =>
  scriptCodec.encodeJson(script, options).pipe(Effect.catchTag("LossyEncoding", (error) => Effect.die(error))) // one version

const optional = Schema.optionalKey

const millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

const count = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

const MetadataV1 = Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.Json))

const TextV1 = Schema.Union([Schema.String, Schema.Struct({ text: Schema.String, metadata: MetadataV1 })])

const ToolCallV1 = Schema.Struct({
  id: optional(Schema.String),
  name: Schema.String,
  params: optional(Schema.Json),
  arguments: optional(Schema.String),
  providerExecuted: optional(Schema.Boolean),
  result: optional(Schema.Json),
  isFailure: optional(Schema.Boolean),
  metadata: optional(MetadataV1)
})

const ToolChoiceV1 = Schema.Union([
  Schema.Literals(["auto", "none", "required"]),
  Schema.Struct({ tool: Schema.String }),
  Schema.Struct({ mode: optional(Schema.Literals(["auto", "required"])), oneOf: Schema.Array(Schema.String) })
])

const ExpectationV1 = Schema.Struct({
  lastUserText: optional(Schema.String),
  systemText: optional(Schema.String),
  toolResult: optional(Schema.String),
  roles: optional(Schema.Array(Schema.Literals(["system", "user", "assistant", "tool"]))),
  tools: optional(Schema.Array(Schema.String)),
  toolChoice: optional(ToolChoiceV1),
  responseFormat: optional(Schema.Literals(["text", "json"]))
})

const FailureV1 = Schema.Struct({
  reason: Schema.Literals([
    "RateLimitError",
    "QuotaExhaustedError",
    "AuthenticationError",
    "ContentPolicyError",
    "InvalidRequestError",
    "InvalidResponseError",
    "InternalProviderError",
    "NetworkError",
    "InvalidOutputError",
    "ToolNotFoundError",
    "ToolParameterValidationError",
    "UnknownError"
  ]),
  description: optional(Schema.String),
  retryAfter: optional(millis),
  toolName: optional(Schema.String)
})

const UsageV1 = Schema.Struct({
  inputTokens: optional(count),
  outputTokens: optional(count),
  cacheReadTokens: optional(count),
  cacheWriteTokens: optional(count),
  reasoningTokens: optional(count)
})

const FinishReasonV1 = Schema.Literals([
  "stop",
  "length",
  "content-filter",
  "tool-calls",
  "error",
  "pause",
  "other",
  "unknown",
  "missing"
])

const TurnV1 = Schema.Struct({
  expect: optional(ExpectationV1),
  delay: optional(millis),
  chunkDelay: optional(millis),
  reasoning: optional(TextV1),
  text: optional(TextV1),
  object: optional(Schema.Json),
  files: optional(Schema.Array(Schema.Struct({ mediaType: Schema.String, data: Schema.String }))),
  toolCalls: optional(Schema.Array(ToolCallV1)),
  usage: optional(UsageV1),
  finishReason: optional(FinishReasonV1),
  fail: optional(FailureV1)
})

const scriptFields = {
  chunkSize: optional(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  turns: Schema.Array(TurnV1)
}

const ScriptV1 = Schema.Struct({ version: Schema.Literal(1), ...scriptFields })

const scriptV1Arm = VersionedCodec.arm({
  version: 1,
  wire: ScriptV1,
  toCurrent: ({ version: _, ...script }) => Effect.succeed<ScriptData>(script),
  fromCurrent: (script: ScriptData) => VersionedCodec.lossless<typeof ScriptV1.Type>({ version: 1, ...script })
})

const scriptCodec: VersionedCodec.VersionedCodec<ScriptData> = VersionedCodec.make({
  what: "Model script",
  field: "version",
  type: Schema.Struct(scriptFields),
  arms: [scriptV1Arm],
  // arguments and results of tools: their keys are names, not options
  data: ["/turns"]
})

const valueText = (value: unknown): string =>
  typeof value === "string"
    ? value
    : Option.getOrElse(Schema.encodeUnknownOption(Schema.fromJsonString(Schema.Unknown))(value), () => String(value))

const resultText = (part: Prompt.ToolResultPart): string =>
  part.modelOutput === undefined
    ? valueText(part.result)
    : part.modelOutput.map((output) => (output.type === "text" ? output.text : `[${output.mediaType}]`)).join("\n")

const recordMessage = (message: Prompt.Message): RequestMessage => {
  if (message.role === "system") return { role: "system", text: message.content }
  const texts: Array<string> = []
  const reasoning: Array<string> = []
  const files: Array<string> = []
  const toolCalls: Array<{ readonly id: string; readonly name: string; readonly params: unknown }> = []
  const toolResults: Array<{
    readonly id: string
    readonly name: string
    readonly isFailure: boolean
    readonly text: string
  }> = []
  for (const part of message.content) {
    switch (part.type) {
      case "text":
        texts.push(part.text)
        break
      case "reasoning":
        reasoning.push(part.text)
        break
      case "file":
        files.push(part.mediaType)
        break
      case "tool-call":
        toolCalls.push({ id: part.id, name: part.name, params: part.params })
        break
      case "tool-result": {
        const text = resultText(part)
        if (message.role === "tool") texts.push(text)
        toolResults.push({ id: part.id, name: part.name, isFailure: part.isFailure, text })
        break
      }
      default:
    }
  }
  return {
    role: message.role,
    text: texts.join("\n"),
    ...(reasoning.length > 0 ? { reasoning: reasoning.join("\n") } : {}),
    ...(files.length > 0 ? { files } : {}),
    ...(toolCalls.length > 0 ? { toolCalls } : {}),
    ...(toolResults.length > 0 ? { toolResults } : {})
  }
}

// A long run sends the same message and tool objects again and again: each is read once.
const recordedMessages = new WeakMap<Prompt.Message, RequestMessage>()

const recordedTools = new WeakMap<Tool.Any, RequestTool>()

const memoize = <K extends WeakKey, V>(cache: WeakMap<K, V>, key: K, make: (key: K) => V): V => {
  const known = cache.get(key)
  if (known !== undefined) return known
  const value = make(key)
  cache.set(key, value)
  return value
}

/** A schema that has no JSON Schema is recorded as `undefined`; whether it matters is for the caller to say. */
const orUndefined = <A>(evaluate: () => A): A | undefined => Result.getOrUndefined(Result.try(evaluate))

const recordTool = (tool: Tool.Any): RequestTool => {
  const description = Tool.getDescription(tool)
  return {
    name: tool.name,
    ...(description === undefined ? {} : { description }),
    parameters: orUndefined(() => Tool.getJsonSchema(tool))
  }
}

const recordToolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): ToolChoice => {
  if (typeof choice === "string") return choice
  if ("tool" in choice) return { tool: choice.tool }
  return choice.mode === undefined ? { oneOf: [...choice.oneOf] } : { mode: choice.mode, oneOf: [...choice.oneOf] }
}

const recordResponseFormat = (format: LanguageModel.ProviderOptions["responseFormat"]): RequestFormat =>
  format.type === "text"
    ? { type: "text" }
    : {
        type: "json",
        objectName: format.objectName,
        schema: orUndefined(() => Schema.toJsonSchemaDocument(format.schema).schema)
      }

export const recordRequest = (
  options: LanguageModel.ProviderOptions,
  hook: "generateText" | "streamText",
  index: number
): Request => ({
  index,
  method: options.responseFormat.type === "json" ? "generateObject" : hook,
  messages: options.prompt.content.map((message) => memoize(recordedMessages, message, recordMessage)),
  tools: options.tools.map((tool) => memoize(recordedTools, tool, recordTool)),
  toolChoice: recordToolChoice(options.toolChoice),
  responseFormat: recordResponseFormat(options.responseFormat),
  prompt: options.prompt
})

export const shortenText = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}...` : text)

const quoteValue = (value: unknown): string => shortenText(JSON.stringify(value) ?? "nothing")

const differsFromPiece = (what: string, text: string | undefined, piece: string): ReadonlyArray<Difference> =>
  text !== undefined && text.includes(piece)
    ? []
    : [
        {
          what,
          expected: `text with ${quoteValue(piece)}`,
          found: text === undefined ? "no such message" : quoteValue(text)
        }
      ]

const differsFromValue = (what: string, found: unknown, expected: unknown): ReadonlyArray<Difference> =>
  Equal.equals(found, expected) ? [] : [{ what, expected: quoteValue(expected), found: quoteValue(found) }]

const resultsSinceAnswer = (messages: ReadonlyArray<RequestMessage>): string | undefined => {
  const answer = messages.findLastIndex((message) => message.role === "assistant")
  const results = messages.slice(answer + 1).filter((message) => message.role === "tool")
  return results.length === 0 ? undefined : results.map((message) => message.text).join("\n")
}

const findDifferences = (request: Request, expected: Expectation): ReadonlyArray<Difference> => {
  const { messages } = request
  const system = messages.filter((message) => message.role === "system").map((message) => message.text)
  return [
    ...(expected.lastUserText === undefined
      ? []
      : differsFromPiece(
          "newest user message",
          messages.findLast((message) => message.role === "user")?.text,
          expected.lastUserText
        )),
    ...(expected.systemText === undefined
      ? []
      : differsFromPiece("system message", system.length === 0 ? undefined : system.join("\n"), expected.systemText)),
    ...(expected.toolResult === undefined
      ? []
      : differsFromPiece("tool results", resultsSinceAnswer(messages), expected.toolResult)),
    ...(expected.roles === undefined
      ? []
      : differsFromValue(
          "roles",
          messages.map((message) => message.role),
          [...expected.roles]
        )),
    ...(expected.tools === undefined
      ? []
      : differsFromValue("tools offered", request.tools.map((tool) => tool.name).sort(), [...expected.tools].sort())),
    ...(expected.toolChoice === undefined
      ? []
      : differsFromValue("tool choice", request.toolChoice, expected.toolChoice)),
    ...(expected.responseFormat === undefined
      ? []
      : differsFromValue("response format", request.responseFormat.type, expected.responseFormat))
  ]
}

export const checkExpectation = (
  request: Request,
  expected: NonNullable<Turn["expect"]>
): Effect.Effect<ReadonlyArray<Difference>> => {
  if (typeof expected !== "function") return Effect.succeed(findDifferences(request, expected))
  return Effect.suspend(() => {
    const answer = expected(request)
    return typeof answer === "boolean" ? Effect.succeed(answer) : answer
  }).pipe(
    Effect.result,
    Effect.map((answer) => {
      if (Result.isSuccess(answer) && answer.success !== false) return []
      const problem = Result.isFailure(answer) ? answer.failure : undefined
      const newest = request.messages.at(-1)
      return [
        {
          what: "expect function",
          expected:
            problem === undefined
              ? "true"
              : shortenText(problem instanceof Error ? problem.message : quoteValue(problem)),
          found: newest === undefined ? "no message" : `newest message ${newest.role} ${quoteValue(newest.text)}`
        }
      ]
    })
  )
}

const failureReasons: {
  readonly [name in FailureName]: (failure: Failure, description: string) => AiError.AiErrorReason
} = {
  RateLimitError: (failure) =>
    new AiError.RateLimitError(
      failure.retryAfter === undefined ? {} : { retryAfter: Duration.millis(failure.retryAfter) }
    ),
  QuotaExhaustedError: () => new AiError.QuotaExhaustedError({}),
  AuthenticationError: (_, description) => new AiError.AuthenticationError({ kind: "Unknown", description }),
  ContentPolicyError: (_, description) => new AiError.ContentPolicyError({ description }),
  InvalidRequestError: (_, description) => new AiError.InvalidRequestError({ description }),
  InvalidResponseError: (_, description) => new AiError.InvalidResponseError({ description }),
  InternalProviderError: (_, description) => new AiError.InternalProviderError({ description }),
  NetworkError: (_, description) =>
    new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: "http://scripted.invalid/",
      description
    }),
  InvalidOutputError: (_, description) => new AiError.InvalidOutputError({ description }),
  ToolNotFoundError: (failure) =>
    new AiError.ToolNotFoundError({ toolName: failure.toolName ?? "tool", availableTools: [] }),
  ToolParameterValidationError: (failure, description) =>
    new AiError.ToolParameterValidationError({ toolName: failure.toolName ?? "tool", description }),
  UnknownError: (_, description) => new AiError.UnknownError({ description })
}

export const toAiErrorReason = (failure: Failure): AiError.AiErrorReason =>
  failureReasons[failure.reason](failure, failure.description ?? "scripted failure")

type AnyPart = Response.PartEncoded | Response.StreamPartEncoded

const splitIntoChunks = (text: string, size: number): ReadonlyArray<string> => {
  const points = [...text]
  const pieces: Array<string> = []
  for (let i = 0; i < points.length; i += size) pieces.push(points.slice(i, i + size).join(""))
  return pieces
}

const withMetadata = (metadata: Metadata | undefined) =>
  metadata === undefined ? {} : { metadata: structuredClone(metadata) as Response.ProviderMetadata } // a copy is mutable JSON

const toAnnotated = (text: string | AnnotatedText): { readonly text: string; readonly metadata?: Metadata } =>
  typeof text === "string" ? { text } : text

const toolCallParts = (call: ToolCall, id: string): ReadonlyArray<AnyPart> => {
  const executed = call.providerExecuted === undefined ? {} : { providerExecuted: call.providerExecuted }
  return [
    {
      type: "tool-call",
      id,
      name: call.name,
      params: call.arguments ?? call.params ?? {},
      ...executed,
      ...withMetadata(call.metadata)
    },
    ...(call.result === undefined
      ? []
      : [
          {
            type: "tool-result" as const,
            id,
            name: call.name,
            result: call.result,
            isFailure: call.isFailure ?? false,
            ...executed
          }
        ])
  ]
}

const finishParts = (turn: Turn): ReadonlyArray<Response.FinishPartEncoded> => {
  if (turn.finishReason === "missing") return []
  const calls = turn.toolCalls?.some((call) => call.providerExecuted !== true) ?? false
  const usage = turn.usage ?? {}
  return [
    {
      type: "finish",
      reason: turn.finishReason ?? (calls ? "tool-calls" : "stop"),
      usage: {
        inputTokens: {
          uncached: undefined,
          total: usage.inputTokens,
          cacheRead: usage.cacheReadTokens,
          cacheWrite: usage.cacheWriteTokens
        },
        outputTokens: { total: usage.outputTokens, text: undefined, reasoning: usage.reasoningTokens }
      },
      response: undefined
    }
  ]
}

/** The content of a turn, before its raw parts and its finish. */
const contentParts = (turn: Turn, index: number): ReadonlyArray<AnyPart> => {
  const parts: Array<AnyPart> = []
  const push = (type: "text" | "reasoning", given: string | AnnotatedText) => {
    const { text, metadata } = toAnnotated(given)
    parts.push({ type, text, ...withMetadata(metadata) })
  }
  if (turn.reasoning !== undefined) push("reasoning", turn.reasoning)
  if (turn.text !== undefined) push("text", turn.text)
  if (turn.object !== undefined) push("text", JSON.stringify(turn.object))
  for (const file of turn.files ?? []) parts.push({ type: "file", mediaType: file.mediaType, data: file.data })
  turn.toolCalls?.forEach((call, i) => parts.push(...toolCallParts(call, call.id ?? `call_${index + 1}_${i + 1}`)))
  return parts
}

const streamPart = (part: AnyPart, id: string, size: number): ReadonlyArray<Response.StreamPartEncoded> => {
  switch (part.type) {
    case "text":
      return [
        { type: "text-start", id, ...(part.metadata === undefined ? {} : { metadata: part.metadata }) },
        ...splitIntoChunks(part.text, size).map((delta) => ({ type: "text-delta" as const, id, delta })),
        { type: "text-end", id }
      ]
    case "reasoning":
      return [
        { type: "reasoning-start", id },
        ...splitIntoChunks(part.text, size).map((delta) => ({ type: "reasoning-delta" as const, id, delta })),
        // providers send the signature of a reasoning block with its end
        { type: "reasoning-end", id, ...(part.metadata === undefined ? {} : { metadata: part.metadata }) }
      ]
    case "tool-call": {
      const text = typeof part.params === "string" ? part.params : JSON.stringify(part.params as Schema.Json) // given as Json
      const executed = part.providerExecuted === true ? { providerExecuted: true } : {}
      return [
        { type: "tool-params-start", id: part.id, name: part.name, ...executed },
        ...splitIntoChunks(text, size).map((delta) => ({ type: "tool-params-delta" as const, id: part.id, delta })),
        { type: "tool-params-end", id: part.id },
        part
      ]
    }
    default:
      return [part]
  }
}

/** The parts of a streamed answer. */
export const streamTurn = (turn: Turn, index: number, size: number): ReadonlyArray<Response.StreamPartEncoded> => [
  ...contentParts(turn, index).flatMap((part, i) => streamPart(part, `part_${index + 1}_${i + 1}`, size)),
  ...(turn.parts ?? []).flatMap((part, i) =>
    part.type === "text" || part.type === "reasoning" ? streamPart(part, `raw_${index + 1}_${i + 1}`, size) : [part]
  ),
  ...finishParts(turn)
]

/** The parts of an answer in one piece, or the value of the `error` part that ends it. */
export const completeTurn = (
  turn: Turn,
  index: number
): { readonly parts: Array<Response.PartEncoded>; readonly error?: { readonly value: unknown } } => {
  const parts: Array<Response.PartEncoded> = []
  const open = new Map<string, { readonly type: "text" | "reasoning"; readonly at: number; text: string }>()
  for (const part of [...contentParts(turn, index), ...(turn.parts ?? []), ...finishParts(turn)]) {
    switch (part.type) {
      case "text-delta":
      case "reasoning-delta": {
        const type = part.type === "text-delta" ? "text" : "reasoning"
        const block = open.get(`${type} ${part.id}`) ?? { type, at: parts.length, text: "" }
        block.text += part.delta
        open.set(`${type} ${part.id}`, block)
        parts[block.at] = { type, text: block.text }
        break
      }
      case "text-start":
      case "text-end":
      case "reasoning-start":
      case "reasoning-end":
      case "tool-params-start":
      case "tool-params-delta":
      case "tool-params-end":
        break
      case "error":
        return { parts, error: { value: part.error } }
      default:
        parts.push(part)
    }
  }
  return { parts }
}

export const isFailureData = (fail: NonNullable<Turn["fail"]>): fail is Failure => !Predicate.hasProperty(fail, "_tag")
