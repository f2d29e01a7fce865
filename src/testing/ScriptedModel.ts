/**
 * A language model that answers from a script.
 *
 * **Mental model**
 *
 * A script is a list of turns, one per model call. Each turn holds the answer of the
 * model and, optionally, what the request must look like. The model is an
 * ordinary `LanguageModel` layer, so the program under test does not know. It
 * records every request, and answers `generateText`, `generateObject` and
 * `streamText` from the same turns.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as FileSystem from "effect/FileSystem"
import { memoize } from "effect/Function"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { PlatformError } from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import * as Ref from "effect/Ref"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as AiError from "effect/ai/AiError"
import * as LanguageModel from "effect/ai/LanguageModel"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import { makeModel } from "../agent/internal/outputLimit.ts"
import * as Message from "../conversation/Message.ts"
import * as Json from "../payload/Json.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import { publicDescription } from "../payload/internal/problems.ts"
import { defined } from "../payload/internal/values.ts"

const optional = Schema.optionalKey

const millis = Schema.Finite.check(Schema.isGreaterThanOrEqualTo(0))

/** Provider metadata of a part: one JSON object per provider name. */
const Metadata = Schema.Record(Schema.String, Schema.Record(Schema.String, Schema.Json))

type Metadata = typeof Metadata.Type

/** Text or reasoning; an object carries provider metadata, for example the signature of a reasoning block. */
const Text = Schema.Union([Schema.String, Schema.Struct({ text: Schema.String, metadata: Metadata })])

type Text = typeof Text.Type

/** One tool call of a scripted answer: see {@link Turn}. */
const ToolCall = Schema.Struct({
  id: optional(Schema.String),
  name: Schema.String,
  params: optional(Schema.Json),
  arguments: optional(Schema.String),
  providerExecuted: optional(Schema.Boolean),
  result: optional(Schema.Json),
  isFailure: optional(Schema.Boolean),
  metadata: optional(Metadata)
})

const ToolChoice = Schema.Union([
  Schema.Literals(["auto", "none", "required"]),
  Schema.Struct({ tool: Schema.String }),
  Schema.Struct({ mode: optional(Schema.Literals(["auto", "required"])), oneOf: Schema.Array(Schema.String) })
])

/**
 * The tool choice of a request.
 *
 * @category models
 * @since 0.1.0
 */
export type ToolChoice = typeof ToolChoice.Type

/** Conditions on a request: see {@link Turn}. */
const Expectation = Schema.Struct({
  lastUserText: optional(Schema.String),
  systemText: optional(Schema.String),
  toolResult: optional(Schema.String),
  roles: optional(Schema.Array(Schema.Literals(["system", "user", "assistant", "tool"]))),
  tools: optional(Schema.Array(Schema.String)),
  toolChoice: optional(ToolChoice),
  responseFormat: optional(Schema.Literals(["text", "json"]))
})

/**
 * Conditions on a request, see {@link Turn}.
 *
 * @category models
 * @since 0.1.0
 */
export type Expectation = typeof Expectation.Type

/** A failure of the provider: see {@link Turn}. */
const Failure = Schema.Struct({
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

/**
 * A failure of the provider, see {@link Turn}.
 *
 * @category models
 * @since 0.1.0
 */
export type Failure = typeof Failure.Type

const content = {
  reasoning: optional(Text),
  text: optional(Text),
  object: optional(Schema.Json),
  files: optional(Schema.Array(Schema.Struct({ mediaType: Schema.String, data: Schema.String }))),
  toolCalls: optional(Schema.Array(ToolCall)),
  usage: optional(Message.TokenUsage),
  finishReason: optional(
    Schema.Literals(["stop", "length", "content-filter", "tool-calls", "error", "pause", "other", "unknown", "missing"])
  )
}

/** A script as a JSON file holds it: turns without functions. */
const ScriptData = Schema.Struct({
  chunkSize: optional(Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))),
  turns: Schema.Array(
    Schema.Struct({
      ...content,
      expect: optional(Expectation),
      delay: optional(millis),
      chunkDelay: optional(millis),
      fail: optional(Failure)
    })
  )
})

const Content = Schema.Struct(content)

/**
 * One answer of the scripted model.
 *
 * **Details**
 *
 * The parts of the answer always come in the order `reasoning`, `text` (or
 * `object`), `files`, `toolCalls`, `parts`, and then the finish.
 *
 * - `text`, `reasoning`: text, or `{ text, metadata }` with provider metadata.
 * - `object`: a JSON value, answered as compact JSON text: what `generateObject`
 *   and structured output read.
 * - `files`: `{ mediaType, data }` with base64 data.
 * - `toolCalls`: `{ name, params }`. `id` defaults to `call_<turn>_<position>`,
 *   both counted from 1. `arguments` is the text of a provider in place of
 *   `params`, malformed if you like. `providerExecuted` with `result` (and
 *   `isFailure`) is a call that the provider ran itself; core accepts its result
 *   only if the request's toolkit declares the tool (`Tool.providerDefined`).
 * - `usage`: an absent count is unknown, not zero.
 * - `finishReason`: default `"tool-calls"` when the answer holds a call that the
 *   provider does not execute, else `"stop"`; `"missing"` omits the finish, as a
 *   stream that was cut does.
 * - `delay`: how long to wait on the `Clock` before the answer; `chunkDelay`:
 *   before each streamed part. A number is milliseconds.
 * - `expect`: what the request must be; every given key must hold. A request that differs fails the model call with a
 *   {@link ScriptedModelError}. `lastUserText`, `systemText` and `toolResult` (results after the newest assistant
 *   message) are contained texts; `roles` are the roles of all messages in order; `tools` the names on offer in any
 *   order; `toolChoice` and `responseFormat` are exact. A function of the request rejects it by answering `false` or by
 *   failing.
 * - `fail`: the call fails, with an `AiError` reason or with
 *   `{ reason, description, retryAfter, toolName }` (`retryAfter` in
 *   milliseconds). With content beside it, a stream first delivers the content
 *   and then breaks; `generateText` only fails.
 * - `parts`: encoded response parts exactly as a provider would send them. Use
 *   them for the odd cases: a stream `error` part, deltas without a start,
 *   `response-metadata`. They are sent unchanged when streaming; otherwise deltas
 *   are joined per id and an `error` part fails the call.
 *
 * @category models
 * @since 0.1.0
 */
export interface Turn extends Schema.Schema.Type<typeof Content> {
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
 * A list of turns, used in order, one per model call; or a function that answers
 * every request and never ends.
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
 * `index` counts the model calls from 0. `method` is how the model was asked; it
 * changes nothing else of a request. `prompt` holds what `messages` leaves out.
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
  readonly responseFormat:
    | { readonly type: "text" }
    | { readonly type: "json"; readonly objectName: string; readonly schema: unknown }
  readonly prompt: Prompt.Prompt
}

/**
 * A message of a {@link Request}. `text` joins the text parts, or the text of the tool results, with line breaks.
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
 * A tool that a {@link Request} offers.
 *
 * @category models
 * @since 0.1.0
 */
export interface RequestTool {
  readonly name: string
  readonly description?: string
  readonly parameters: unknown
}

/** One point in which a request differs from what the turn expects. */
const Difference = Schema.Struct({ what: Schema.String, expected: Schema.String, found: Schema.String })

type Difference = typeof Difference.Type

const Reason = Schema.TaggedUnion({
  ScriptExhausted: { turns: Schema.Int, lastRole: Schema.String, lastText: Schema.String },
  RequestMismatch: { turn: Schema.Int, differences: Schema.Array(Difference) },
  ScriptIncomplete: { turns: Schema.Int, used: Schema.Int }
})

const counted = (count: number, noun: string) => `${count} ${noun}${count === 1 ? "" : "s"}`

const explain = Reason.match({
  ScriptExhausted: ({ lastRole, lastText, turns }) =>
    `the script has ${counted(turns, "turn")} and all are used, but the model was called again ` +
    `(newest message: ${lastRole} ${JSON.stringify(lastText)}). Add a turn, or find out why the program did not stop.`,
  RequestMismatch: ({ differences, turn }) =>
    `the request of turn ${turn} differs from the expected request:\n  ` +
    differences.map(({ expected, found, what }) => `${what}: expected ${expected}, found ${found}`).join("\n  "),
  ScriptIncomplete: ({ turns, used }) =>
    `the script has ${counted(turns, "turn")}, but the model was called only ${counted(used, "time")}`
})

/**
 * The script and the program under test do not agree.
 *
 * **Details**
 *
 * - `ScriptExhausted`: the program asked the model once more than the script has
 *   turns.
 * - `RequestMismatch`: a request differs from what its turn (counted from 1) expects.
 * - `ScriptIncomplete`: the program ended before every turn was used.
 *
 * A model call can fail with an `AiError` only. This error therefore arrives as an `AiError` with the reason
 * `UnknownError`, which is never retryable. Its description is the message of this error, and the error of an agent
 * repeats it; {@link fromAiError} reads this error back. `ScriptedModel.assertComplete` fails with it directly, even if
 * the program swallowed the failed call.
 *
 * @category errors
 * @since 0.1.0
 */
export class ScriptedModelError extends Schema.TaggedError<ScriptedModelError>(
  "effect-emissary/testing/ScriptedModelError"
)("ScriptedModelError", { reason: Reason }) {
  override get message() {
    return `ScriptedModel: ${explain(this.reason)}`
  }
}

const metadataKey = "effect-emissary/testing/ScriptedModel"

const errorCodec = Schema.toCodecJson(ScriptedModelError)

const toAiError = (error: ScriptedModelError, method: string): AiError.AiError =>
  AiError.make({
    module: "ScriptedModel",
    method,
    reason: new AiError.UnknownError({
      description: error.message,
      metadata: {
        [publicDescription]: true,
        [metadataKey]: Schema.decodeUnknownSync(Schema.MutableJson)(Schema.encodeSync(errorCodec)(error))
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
 * The requests that a scripted model received, and whether its script was completed.
 *
 * **Details**
 *
 * - `requests`: every request so far, in order.
 * - `assertComplete`: fails with the first disagreement between script and
 *   program, or if turns are left.
 *
 * @category services
 * @since 0.1.0
 */
export class ScriptedModel extends Context.Service<
  ScriptedModel,
  {
    readonly requests: Effect.Effect<ReadonlyArray<Request>>
    readonly assertComplete: Effect.Effect<void, ScriptedModelError>
  }
>()("effect-emissary/testing/ScriptedModel") {}

/**
 * Options of {@link layer} and {@link layerFile}.
 *
 * @category options
 * @since 0.1.0
 */
export interface Options {
  /** The largest number of characters of a streamed delta; default 8. */
  readonly chunkSize?: number
}

const valueText = (value: unknown): string =>
  typeof value === "string"
    ? value
    : Option.getOrElse(Schema.encodeUnknownOption(Schema.fromJsonString(Schema.Unknown))(value), () => String(value))

const resultText = (part: Prompt.ToolResultPart): string =>
  part.modelOutput === undefined
    ? valueText(part.result)
    : part.modelOutput.map((output) => (output.type === "text" ? output.text : `[${output.mediaType}]`)).join("\n")

const partsOf = <T extends Prompt.Part["type"]>(parts: ReadonlyArray<Prompt.Part>, type: T) =>
  parts.filter((part): part is Extract<Prompt.Part, { readonly type: T }> => part.type === type)

const orAbsent = <A>(list: ReadonlyArray<A>): ReadonlyArray<A> | undefined => (list.length > 0 ? list : undefined)

// A long run sends the same message and tool objects again and again: each is read once.
const recordMessage = memoize((message: Prompt.Message): RequestMessage => {
  if (message.role === "system") return { role: "system", text: message.content }
  const parts: ReadonlyArray<Prompt.Part> = message.content
  const toolResults = partsOf(parts, "tool-result").map((part) => {
    const { id, isFailure, name } = part
    return { id, name, isFailure, text: resultText(part) }
  })
  const texts: ReadonlyArray<{ readonly text: string }> = message.role === "tool" ? toolResults : partsOf(parts, "text")
  return {
    role: message.role,
    text: texts.map(({ text }) => text).join("\n"),
    ...defined({
      reasoning: orAbsent(partsOf(parts, "reasoning").map(({ text }) => text))?.join("\n"),
      files: orAbsent(partsOf(parts, "file").map(({ mediaType }) => mediaType)),
      toolCalls: orAbsent(partsOf(parts, "tool-call").map(({ id, name, params }) => ({ id, name, params }))),
      toolResults: orAbsent(toolResults)
    })
  }
})

/** A schema that has no JSON Schema is recorded as `undefined`: only the caller knows whether it matters. */
const orUndefined = <A>(evaluate: () => A): A | undefined => Result.getOrUndefined(Result.try(evaluate))

const recordTool = memoize((tool: Tool.Any): RequestTool => ({
  name: tool.name,
  ...defined({ description: Tool.getDescription(tool) }),
  parameters: orUndefined(() => Tool.getJsonSchema(tool))
}))

const recordToolChoice = (choice: LanguageModel.ProviderOptions["toolChoice"]): ToolChoice => {
  if (typeof choice === "string") return choice
  if ("tool" in choice) return { tool: choice.tool }
  return { ...defined({ mode: choice.mode }), oneOf: [...choice.oneOf] }
}

const recordResponseFormat = (format: LanguageModel.ProviderOptions["responseFormat"]): Request["responseFormat"] =>
  format.type === "text"
    ? { type: "text" }
    : {
        type: "json",
        objectName: format.objectName,
        schema: orUndefined(() => Tool.getJsonSchemaFromSchema(format.schema))
      }

const recordRequest = (
  options: LanguageModel.ProviderOptions,
  hook: "generateText" | "streamText",
  index: number
): Request => ({
  index,
  method: options.responseFormat.type === "json" ? "generateObject" : hook,
  messages: options.prompt.content.map(recordMessage),
  tools: options.tools.map(recordTool),
  toolChoice: recordToolChoice(options.toolChoice),
  responseFormat: recordResponseFormat(options.responseFormat),
  prompt: options.prompt
})

const shortenText = (text: string): string => (text.length > 200 ? `${text.slice(0, 200)}...` : text)

const quoteValue = (value: unknown): string => shortenText(JSON.stringify(value) ?? "nothing")

const compareText = (what: string, text: string | undefined, piece: string | undefined): ReadonlyArray<Difference> => {
  if (piece === undefined || text?.includes(piece) === true) return []
  const found = text === undefined ? "no such message" : quoteValue(text)
  return [{ what, expected: `text with ${quoteValue(piece)}`, found }]
}

const compareValue = (what: string, found: unknown, expected: unknown): ReadonlyArray<Difference> =>
  expected === undefined || Equal.equals(found, expected)
    ? []
    : [{ what, expected: quoteValue(expected), found: quoteValue(found) }]

const resultsSinceAnswer = (messages: ReadonlyArray<RequestMessage>): string | undefined => {
  const answer = messages.findLastIndex((message) => message.role === "assistant")
  const results = messages.slice(answer + 1).filter((message) => message.role === "tool")
  return results.length === 0 ? undefined : results.map((message) => message.text).join("\n")
}

const findDifferences = (request: Request, expected: Expectation): ReadonlyArray<Difference> => {
  const { messages } = request
  const system = messages.filter(({ role }) => role === "system").map(({ text }) => text)
  const user = messages.findLast(({ role }) => role === "user")
  const roles = messages.map(({ role }) => role)
  const tools = request.tools.map(({ name }) => name).sort()
  const strange = Object.keys(expected).filter((name) => !Object.hasOwn(Expectation.fields, name))
  return [
    ...strange.map((name) => ({
      what: "expect",
      expected: `conditions among ${Object.keys(Expectation.fields).join(", ")}`,
      found: quoteValue(name)
    })),
    ...compareText("newest user message", user?.text, expected.lastUserText),
    ...compareText("system message", system.length === 0 ? undefined : system.join("\n"), expected.systemText),
    ...compareText("tool results", resultsSinceAnswer(messages), expected.toolResult),
    ...compareValue("roles", roles, expected.roles),
    ...compareValue("tools offered", tools, expected.tools && [...expected.tools].sort()),
    ...compareValue("tool choice", request.toolChoice, expected.toolChoice),
    ...compareValue("response format", request.responseFormat.type, expected.responseFormat)
  ]
}

const checkExpectation = (
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
          expected: problem instanceof Error ? shortenText(problem.message) : quoteValue(problem ?? true),
          found: newest === undefined ? "no message" : `newest message ${newest.role} ${quoteValue(newest.text)}`
        }
      ]
    })
  )
}

const decodeReason = Schema.decodeUnknownSync(AiError.AiErrorReason)

const isFailure = (fail: Failure | AiError.AiErrorReason): fail is Failure => !Predicate.hasProperty(fail, "_tag")

/** The error of the provider: the fields that its reason requires are in a {@link Failure}, or have a value here. */
const toAiErrorReason = (fail: Failure | AiError.AiErrorReason): AiError.AiErrorReason => {
  if (!isFailure(fail)) return fail
  const { reason, retryAfter, ...fields } = fail
  return decodeReason({
    _tag: reason,
    description: "scripted failure",
    kind: "Unknown",
    reason: "TransportError",
    method: "POST",
    url: "http://scripted.invalid/",
    toolName: "tool",
    availableTools: [],
    retryAfter: retryAfter === undefined ? undefined : Duration.millis(retryAfter),
    ...fields
  })
}

type AnyPart = Response.PartEncoded | Response.StreamPartEncoded

/** By code points. `Array.chunksOf` copies the rest for each chunk. */
const splitIntoChunks = (text: string, size: number): ReadonlyArray<string> => {
  const points = [...text]
  return Array.from({ length: Math.ceil(points.length / size) }, (_, at) =>
    points.slice(at * size, (at + 1) * size).join("")
  )
}

const withMetadata = (metadata: Metadata | undefined) =>
  metadata === undefined ? {} : { metadata: structuredClone(metadata) as Response.ProviderMetadata } // a copy is mutable JSON

const toolCallParts = (call: typeof ToolCall.Type, id: string): ReadonlyArray<AnyPart> => {
  const common = { id, name: call.name, ...defined({ providerExecuted: call.providerExecuted }) }
  const params = call.arguments ?? call.params ?? {}
  const part: AnyPart = { type: "tool-call", ...common, params, ...withMetadata(call.metadata) }
  if (call.result === undefined) return [part]
  return [part, { type: "tool-result", ...common, result: call.result, isFailure: call.isFailure ?? false }]
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
  const push = (type: "text" | "reasoning", given: Text) =>
    parts.push(
      typeof given === "string" ? { type, text: given } : { type, text: given.text, ...withMetadata(given.metadata) }
    )
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
        { type: "text-start", id, ...defined({ metadata: part.metadata }) },
        ...splitIntoChunks(part.text, size).map((delta) => ({ type: "text-delta" as const, id, delta })),
        { type: "text-end", id }
      ]
    case "reasoning":
      return [
        { type: "reasoning-start", id },
        ...splitIntoChunks(part.text, size).map((delta) => ({ type: "reasoning-delta" as const, id, delta })),
        // providers send the signature of a reasoning block with its end
        { type: "reasoning-end", id, ...defined({ metadata: part.metadata }) }
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
const streamTurn = (turn: Turn, index: number, size: number): ReadonlyArray<Response.StreamPartEncoded> => [
  ...contentParts(turn, index).flatMap((part, i) => streamPart(part, `part_${index + 1}_${i + 1}`, size)),
  ...(turn.parts ?? []).flatMap((part, i) =>
    part.type === "text" || part.type === "reasoning" ? streamPart(part, `raw_${index + 1}_${i + 1}`, size) : [part]
  ),
  ...finishParts(turn)
]

/** The parts of an answer in one piece, or the value of the `error` part that ends it. */
const completeTurn = (
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

const makeContext = Effect.fnUntraced(function* (script: Script, options?: Options) {
  const chunkSize = Math.max(1, Math.floor(options?.chunkSize ?? 8))
  const turns = typeof script === "function" ? Infinity : script.length
  const requests = yield* Ref.make<ReadonlyArray<Request>>([])
  const problem = yield* Ref.make<ScriptedModelError | undefined>(undefined)

  const refuse = (reason: ScriptedModelError["reason"], method: string) => {
    const error = new ScriptedModelError({ reason })
    return Ref.update(problem, (first) => first ?? error).pipe(Effect.andThen(Effect.fail(toAiError(error, method))))
  }

  const answer = Effect.fnUntraced(function* (
    providerOptions: LanguageModel.ProviderOptions,
    hook: "generateText" | "streamText"
  ): Effect.fn.Return<{ readonly turn: Turn; readonly index: number }, AiError.AiError> {
    const request = yield* Ref.modify(requests, (all) => {
      const next = recordRequest(providerOptions, hook, all.length)
      return [next, [...all, next]]
    })
    const entry = typeof script === "function" ? script : script[request.index]
    if (entry === undefined) {
      const { role: lastRole, text } = request.messages.at(-1) ?? { role: "none", text: "" }
      return yield* refuse({ _tag: "ScriptExhausted", turns, lastRole, lastText: shortenText(text) }, request.method)
    }
    const given = typeof entry === "function" ? entry(request) : entry
    const turn = Effect.isEffect(given) ? yield* given : given
    if (turn.expect !== undefined) {
      const differences = yield* checkExpectation(request, turn.expect)
      if (differences.length > 0) {
        return yield* refuse({ _tag: "RequestMismatch", turn: request.index + 1, differences }, request.method)
      }
    }
    if (turn.delay !== undefined) yield* Effect.sleep(turn.delay)
    return { turn, index: request.index }
  })

  const failure = (fail: NonNullable<Turn["fail"]>, method: string) =>
    AiError.make({ module: "ScriptedModel", method, reason: toAiErrorReason(fail) })

  const model = yield* makeModel({
    generateText: Effect.fnUntraced(function* (providerOptions) {
      const { turn, index } = yield* answer(providerOptions, "generateText")
      if (turn.fail !== undefined) return yield* failure(turn.fail, "generateText")
      const { parts, error } = completeTurn(turn, index)
      if (error === undefined) return parts
      const description = typeof error.value === "string" ? error.value : (JSON.stringify(error.value) ?? "error part")
      return yield* failure({ reason: "InternalProviderError", description }, "generateText")
    }),
    streamText: (providerOptions) =>
      Stream.unwrap(
        Effect.map(answer(providerOptions, "streamText"), ({ turn, index }) => {
          const { chunkDelay, fail } = turn
          const parts = streamTurn(fail === undefined ? turn : { ...turn, finishReason: "missing" }, index, chunkSize)
          const stream = Stream.rechunk(Stream.fromIterable(parts), 1)
          const paced = chunkDelay === undefined ? stream : Stream.tap(stream, () => Effect.sleep(chunkDelay))
          return fail === undefined ? paced : Stream.concat(paced, Stream.fail(failure(fail, "streamText")))
        })
      )
  })

  const service = ScriptedModel.of({
    requests: Ref.get(requests),
    assertComplete: Effect.gen(function* () {
      const first = yield* Ref.get(problem)
      if (first !== undefined) return yield* first
      const used = (yield* Ref.get(requests)).length
      if (typeof script !== "function" && used < turns) {
        return yield* new ScriptedModelError({ reason: { _tag: "ScriptIncomplete", turns, used } })
      }
    })
  })
  return Context.make(ScriptedModel, service).pipe(Context.add(LanguageModel.LanguageModel, model))
})

/**
 * A `LanguageModel` that answers from a script, and the service that records
 * its requests.
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
 * happen to start. Write for such programs a script that is a function of the request.
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
export const layer = (script: Script, options?: Options): Layer.Layer<LanguageModel.LanguageModel | ScriptedModel> =>
  Layer.effectContext(makeContext(script, options))

/**
 * {@link layer} with a script read from a JSON file.
 *
 * **Details**
 *
 * The JSON is `{ "chunkSize"?: 8, "turns": [...] }`, each turn as {@link Turn}
 * describes it, with durations in milliseconds and without functions and `parts`.
 * Unknown keys are rejected. `chunkSize` of the options has precedence.
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
 *   readFile: () => Effect.succeed(new TextEncoder().encode(`{ "turns": [{ "text": "Hi." }] }`))
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
  options?: Options & Pick<Json.Options, "limits">
): Layer.Layer<LanguageModel.LanguageModel | ScriptedModel, PayloadError | PlatformError, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (files) => files.readFile(path)).pipe(
    Effect.flatMap(Json.decodeJson(ScriptData, { ...options, what: "model script" })),
    Effect.map(({ chunkSize, turns }) => layer(turns, chunkSize === undefined ? options : { chunkSize, ...options })),
    Layer.unwrap
  )

/**
 * Every request the model has received so far, in order.
 *
 * @category accessors
 * @since 0.1.0
 */
export const requests: Effect.Effect<ReadonlyArray<Request>, never, ScriptedModel> = ScriptedModel.use(
  (service) => service.requests
)

/**
 * Fails unless every turn was used and every request was the expected one.
 *
 * @category assertions
 * @since 0.1.0
 */
export const assertComplete: Effect.Effect<void, ScriptedModelError, ScriptedModel> = ScriptedModel.use(
  (service) => service.assertComplete
)
