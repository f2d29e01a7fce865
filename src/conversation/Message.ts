/**
 * Messages: the entries of a conversation.
 *
 * A message is plain data. Making one is an Effect, because it stamps an id (from
 * `MessageId`) and a time (from `Clock`); putting it into a conversation is pure.
 *
 * @since 0.1.0
 */

import * as Context from "effect/Context"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Random from "effect/Random"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import * as IdGenerator from "effect/ai/IdGenerator"
import type { JsonObject } from "../payload/Json.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as messageData from "./internal/messageData.ts"

const idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

const randomId = Effect.gen(function* () {
  let id = "msg_"
  for (let i = 0; i < 16; i++) {
    id += idAlphabet.charAt(Math.floor((yield* Random.next) * idAlphabet.length))
  }
  return id
})

const ambientId = Effect.flatMap(Effect.serviceOption(IdGenerator.IdGenerator), (generator) =>
  Option.isSome(generator) ? generator.value.generateId() : randomId
)

/**
 * Makes the id of the next message.
 *
 * **Details**
 *
 * The default uses the `IdGenerator` of `effect/ai` where one is provided, and
 * otherwise `msg_` followed by 16 letters and digits drawn from `Random`.
 *
 * **Example** (Deterministic ids)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const message = Effect.runSync(Message.user("Hi").pipe(Effect.provide(Message.layerSequentialIds("m"))))
 * assert.strictEqual(message.id, "m1")
 * ```
 *
 * @category services
 * @since 0.1.0
 */
export const MessageId: Context.Reference<Effect.Effect<string>> = Context.Reference<Effect.Effect<string>>(
  "effect-emissary/conversation/MessageId",
  { defaultValue: () => ambientId }
)

/**
 * The id of the next message.
 *
 * @category constructors
 * @since 0.1.0
 */
export const nextId: Effect.Effect<string> = Effect.flatMap(MessageId, (id) => id)

/**
 * Numbers messages `prefix1`, `prefix2` ... For tests and for stores that count.
 *
 * @category layers
 * @since 0.1.0
 */
export const layerSequentialIds = (prefix: string = "m"): Layer.Layer<never> =>
  Layer.effect(
    MessageId,
    Effect.map(Ref.make(0), (ref) =>
      Effect.map(
        Ref.updateAndGet(ref, (n) => n + 1),
        (n) => `${prefix}${n}`
      )
    )
  )

/**
 * Token counts of one model call. Every count is optional: providers report what
 * they like.
 *
 * **Details**
 *
 * `inputTokens` counts everything the model read, tokens read from or written to
 * a cache included; `outputTokens` everything it wrote, reasoning included.
 *
 * @category models
 * @since 0.1.0
 */
export interface TokenUsage {
  readonly inputTokens?: number
  readonly outputTokens?: number
  readonly cacheReadTokens?: number
  readonly cacheWriteTokens?: number
  readonly reasoningTokens?: number
}

const TokenCount = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/**
 * Schema of {@link TokenUsage}: non-negative integers.
 *
 * @category schemas
 * @since 0.1.0
 */
export const TokenUsage: Schema.Codec<TokenUsage> = Schema.Struct({
  inputTokens: Schema.optionalKey(TokenCount),
  outputTokens: Schema.optionalKey(TokenCount),
  cacheReadTokens: Schema.optionalKey(TokenCount),
  cacheWriteTokens: Schema.optionalKey(TokenCount),
  reasoningTokens: Schema.optionalKey(TokenCount)
}).annotate({ identifier: "TokenUsage" })

/**
 * No tokens reported.
 *
 * @category constructors
 * @since 0.1.0
 */
export const emptyUsage: TokenUsage = {}

const usageKeys = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"] as const

/**
 * Adds usages field by field. A field that nobody reported stays absent.
 *
 * **Example** (Adding up the calls of a run)
 *
 * ```ts
 * import { Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const usage = Message.sumUsage([{ inputTokens: 10, outputTokens: 5 }, { inputTokens: 20 }])
 * assert.deepStrictEqual(usage, { inputTokens: 30, outputTokens: 5 })
 * ```
 *
 * @category combining
 * @since 0.1.0
 */
export const sumUsage = (usages: Iterable<TokenUsage>): TokenUsage => {
  const total: { -readonly [K in keyof TokenUsage]: TokenUsage[K] } = {}
  for (const usage of usages) {
    for (const key of usageKeys) {
      const count = usage[key]
      if (count !== undefined) total[key] = (total[key] ?? 0) + count
    }
  }
  return total
}

/**
 * Input and output together, counting what was not reported as zero.
 *
 * @category getters
 * @since 0.1.0
 */
export const totalTokens = (self: TokenUsage): number => (self.inputTokens ?? 0) + (self.outputTokens ?? 0)

/**
 * What the model wrote while thinking.
 *
 * **Details**
 *
 * `options` hold the provider's signature or encrypted form, where it gives one.
 * Providers refuse reasoning that comes back without it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ReasoningPart {
  readonly type: "reasoning"
  readonly text: string
  readonly options?: ToolResult.ProviderOptions
}

/**
 * Schema of {@link ReasoningPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ReasoningPart: Schema.Codec<ReasoningPart> = Schema.Struct({
  type: Schema.Literal("reasoning"),
  text: Schema.String,
  options: Schema.optionalKey(ToolResult.ProviderOptions)
}).annotate({ identifier: "ReasoningPart" })

/**
 * The model asks for a tool.
 *
 * **Details**
 *
 * `arguments` are the parsed arguments, an object in all but malformed calls.
 * `text` is the argument text as it was received, where it was received as text:
 * renderers send it back byte by byte, which keeps the provider's prompt cache
 * warm. Text that does not parse stands in both fields.
 *
 * `providerExecuted` marks a tool that the provider runs itself (web search, code
 * execution). Its result is a {@link ToolResultPart}, and nobody else runs it.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolCallPart {
  readonly type: "tool-call"
  readonly id: string
  readonly name: string
  readonly arguments: Schema.Json
  readonly text?: string
  readonly providerExecuted?: true
  readonly options?: ToolResult.ProviderOptions
}

/**
 * Schema of {@link ToolCallPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolCallPart: Schema.Codec<ToolCallPart> = Schema.Struct({
  type: Schema.Literal("tool-call"),
  id: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  text: Schema.optionalKey(Schema.String),
  providerExecuted: Schema.optionalKey(Schema.Literal(true)),
  options: Schema.optionalKey(ToolResult.ProviderOptions)
}).annotate({ identifier: "ToolCallPart" })

/**
 * The result of a tool that the provider ran itself. It answers a
 * `providerExecuted` call earlier in the same turn.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolResultPart {
  readonly type: "tool-result"
  readonly id: string
  readonly name: string
  readonly result: ToolResult.ToolResult
  readonly options?: ToolResult.ProviderOptions
}

/**
 * Schema of {@link ToolResultPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolResultPart: Schema.Codec<ToolResultPart> = Schema.Struct({
  type: Schema.Literal("tool-result"),
  id: Schema.String,
  name: Schema.String,
  result: ToolResult.ToolResult,
  options: Schema.optionalKey(ToolResult.ProviderOptions)
}).annotate({ identifier: "ToolResultPart" })

/**
 * A part of an assistant message.
 *
 * @category models
 * @since 0.1.0
 */
export type AssistantPart = ToolResult.TextPart | ToolResult.FilePart | ReasoningPart | ToolCallPart | ToolResultPart

/**
 * Schema of {@link AssistantPart}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AssistantPart: Schema.Codec<AssistantPart> = Schema.Union([
  ToolResult.TextPart,
  ToolResult.FilePart,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart
])

/**
 * Makes a reasoning part.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reasoningPart = (text: string, options?: ToolResult.ProviderOptions): ReasoningPart =>
  options === undefined ? { type: "reasoning", text } : { type: "reasoning", text, options }

/**
 * Makes a tool call.
 *
 * **Example** (A call as a model would make it)
 *
 * ```ts
 * import { Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const call = Message.toolCallPart({ id: "call_1", name: "get_order", arguments: { id: "42" } })
 * assert.strictEqual(call.type, "tool-call")
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolCallPart = (options: Omit<ToolCallPart, "type">): ToolCallPart => ({ type: "tool-call", ...options })

/**
 * Makes a tool call from argument text, as providers send it.
 *
 * **Details**
 *
 * The text is kept next to the parsed arguments. Empty text is `{}`; text that does
 * not parse stands for the arguments, and so does text with a key that no codec
 * accepts (`__proto__`): the tool's validation refuses it.
 *
 * **Example** (Arguments as text)
 *
 * ```ts
 * import { Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const call = Message.toolCallPartFromText({ id: "call_1", name: "get_order", text: `{ "id": "42" }` })
 * assert.deepStrictEqual(call.arguments, { id: "42" })
 * assert.strictEqual(call.text, `{ "id": "42" }`)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolCallPartFromText = (
  options: Omit<ToolCallPart, "type" | "arguments" | "text"> & { readonly text: string }
): ToolCallPart => ({ type: "tool-call", ...options, ...messageData.parseCallArguments(options.text) })

/**
 * Makes the result of a tool that the provider ran itself.
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolResultPart = (options: Omit<ToolResultPart, "type">): ToolResultPart => ({
  type: "tool-result",
  ...options
})

/**
 * What every message has.
 *
 * **Details**
 *
 * `options` are provider options, sent to the provider of that name. `metadata`
 * is the application's own: kept and stored, never sent to a model. `usage` is
 * what the message cost, usually reported with the model's answer.
 *
 * @category models
 * @since 0.1.0
 */
export interface MessageBase {
  readonly id: string
  readonly createdAt: DateTime.Utc
  readonly usage?: TokenUsage
  readonly options?: ToolResult.ProviderOptions
  readonly metadata?: JsonObject
}

/**
 * Instructions for the model. Only the first message of a conversation can be one.
 *
 * @category models
 * @since 0.1.0
 */
export interface SystemMessage extends MessageBase {
  readonly role: "system"
  readonly content: string
}

/**
 * What the user said.
 *
 * @category models
 * @since 0.1.0
 */
export interface UserMessage extends MessageBase {
  readonly role: "user"
  readonly content: ToolResult.NonEmptyContent
}

/**
 * What the model answered. The content may be empty: models do answer with nothing.
 *
 * @category models
 * @since 0.1.0
 */
export interface AssistantMessage extends MessageBase {
  readonly role: "assistant"
  readonly content: ReadonlyArray<AssistantPart>
  readonly model?: string
  readonly finishReason?: string
}

/**
 * The result of one tool call.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToolMessage extends MessageBase {
  readonly role: "tool"
  readonly callId: string
  readonly name: string
  readonly result: ToolResult.ToolResult
}

/**
 * One entry of a conversation.
 *
 * @category models
 * @since 0.1.0
 */
export type Message = SystemMessage | UserMessage | AssistantMessage | ToolMessage

/**
 * The roles, in the order in which they may first appear.
 *
 * @category models
 * @since 0.1.0
 */
export const roles = ["system", "user", "assistant", "tool"] as const

/**
 * The role of a message.
 *
 * @category models
 * @since 0.1.0
 */
export type Role = (typeof roles)[number]

/**
 * The JSON form of {@link MessageBase}.
 *
 * @category models
 * @since 0.1.0
 */
export interface MessageBaseEncoded extends Omit<MessageBase, "createdAt"> {
  readonly createdAt: string
}

/**
 * The JSON form of a message: times are ISO 8601 text.
 *
 * @category models
 * @since 0.1.0
 */
export type MessageEncoded =
  | (MessageBaseEncoded & Omit<SystemMessage, keyof MessageBase>)
  | (MessageBaseEncoded & Omit<UserMessage, keyof MessageBase>)
  | (MessageBaseEncoded & Omit<AssistantMessage, keyof MessageBase>)
  | (MessageBaseEncoded & Omit<ToolMessage, keyof MessageBase>)

const baseFields = {
  id: Schema.String,
  createdAt: Schema.DateTimeUtcFromString,
  usage: Schema.optionalKey(TokenUsage),
  options: Schema.optionalKey(ToolResult.ProviderOptions),
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
}

/**
 * Schema of {@link SystemMessage}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const SystemMessage: Schema.Codec<SystemMessage, Extract<MessageEncoded, { role: "system" }>> = Schema.Struct({
  role: Schema.Literal("system"),
  ...baseFields,
  content: Schema.String
}).annotate({ identifier: "SystemMessage" })

/**
 * Schema of {@link UserMessage}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const UserMessage: Schema.Codec<UserMessage, Extract<MessageEncoded, { role: "user" }>> = Schema.Struct({
  role: Schema.Literal("user"),
  ...baseFields,
  content: ToolResult.NonEmptyContent
}).annotate({ identifier: "UserMessage" })

/**
 * Schema of {@link AssistantMessage}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const AssistantMessage: Schema.Codec<
  AssistantMessage,
  Extract<MessageEncoded, { role: "assistant" }>
> = Schema.Struct({
  role: Schema.Literal("assistant"),
  ...baseFields,
  content: Schema.Array(AssistantPart),
  model: Schema.optionalKey(Schema.String),
  finishReason: Schema.optionalKey(Schema.String)
}).annotate({ identifier: "AssistantMessage" })

/**
 * Schema of {@link ToolMessage}.
 *
 * @category schemas
 * @since 0.1.0
 */
export const ToolMessage: Schema.Codec<ToolMessage, Extract<MessageEncoded, { role: "tool" }>> = Schema.Struct({
  role: Schema.Literal("tool"),
  ...baseFields,
  callId: Schema.String,
  name: Schema.String,
  result: ToolResult.ToolResult
}).annotate({ identifier: "ToolMessage" })

/**
 * Schema of {@link Message}. It checks one message by itself; the laws between
 * messages are those of `Conversation`.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Message: Schema.Codec<Message, MessageEncoded> = Schema.Union([
  SystemMessage,
  UserMessage,
  AssistantMessage,
  ToolMessage
])

/**
 * What can be given to every message. `id` and `createdAt` override the services.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options {
  readonly id?: string
  readonly createdAt?: DateTime.Utc
  readonly usage?: TokenUsage
  readonly options?: ToolResult.ProviderOptions
  readonly metadata?: JsonObject
}

/**
 * What can be given to an assistant message.
 *
 * @category models
 * @since 0.1.0
 */
export interface AssistantOptions extends Options {
  readonly model?: string
  readonly finishReason?: string
}

/**
 * Makes a system message.
 *
 * @category constructors
 * @since 0.1.0
 */
export const system = (content: string, options?: Options): Effect.Effect<SystemMessage> =>
  stampMessage(options, (base) => ({ role: "system", ...base, content }))

/**
 * Makes a user message from text, or from text and file parts.
 *
 * **Example** (A question about a picture)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Message, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const message = Effect.runSync(
 *   Message.user([
 *     ToolResult.textPart("What is this?"),
 *     ToolResult.filePart({ mediaType: "image/png", data: new Uint8Array([1, 2, 3]) })
 *   ])
 * )
 * assert.strictEqual(message.content.length, 2)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const user = (content: string | ToolResult.NonEmptyContent, options?: Options): Effect.Effect<UserMessage> =>
  stampMessage(options, (base) => ({
    role: "user",
    ...base,
    content: typeof content === "string" ? [ToolResult.textPart(content)] : content
  }))

/**
 * Makes an assistant message from text or from parts.
 *
 * @category constructors
 * @since 0.1.0
 */
export const assistant = (
  content: string | ReadonlyArray<AssistantPart>,
  options?: AssistantOptions
): Effect.Effect<AssistantMessage> =>
  stampMessage(options, (base) => ({
    role: "assistant",
    ...base,
    content: typeof content === "string" ? [ToolResult.textPart(content)] : content,
    ...(options?.model === undefined ? undefined : { model: options.model }),
    ...(options?.finishReason === undefined ? undefined : { finishReason: options.finishReason })
  }))

/**
 * Makes a tool message: the result of the call `callId`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const tool = (
  answer: { readonly callId: string; readonly name: string; readonly result: ToolResult.ToolResult },
  options?: Options
): Effect.Effect<ToolMessage> =>
  stampMessage(options, (base) => ({
    role: "tool",
    ...base,
    callId: answer.callId,
    name: answer.name,
    result: answer.result
  }))

/**
 * The text of a message: its text parts one after the other, without reasoning;
 * of a tool message, what the model reads.
 *
 * @category getters
 * @since 0.1.0
 */
export const text = (self: Message): string => {
  if (self.role === "system") return self.content
  if (self.role === "tool") return ToolResult.text(self.result)
  let text = ""
  for (const part of self.content) {
    if (part.type === "text") text += part.text
  }
  return text
}

/**
 * The calls of an assistant message, in order. Calls that the provider executes
 * are left out unless asked for.
 *
 * @category getters
 * @since 0.1.0
 */
export const toolCalls = (
  self: AssistantMessage,
  options?: { readonly providerExecuted?: boolean }
): ReadonlyArray<ToolCallPart> => {
  const calls: Array<ToolCallPart> = []
  for (const part of self.content) {
    if (part.type !== "tool-call") continue
    if (part.providerExecuted !== true || options?.providerExecuted === true) calls.push(part)
  }
  return calls
}

const stampMessage = <M extends Message>(
  options: Options | undefined,
  make: (base: MessageBase) => M
): Effect.Effect<M> =>
  Effect.gen(function* () {
    const id = options?.id ?? (yield* nextId)
    const createdAt = options?.createdAt ?? (yield* DateTime.now)
    return messageData.freeze(
      make({
        id,
        createdAt,
        ...(options?.usage === undefined ? undefined : { usage: options.usage }),
        ...(options?.options === undefined ? undefined : { options: options.options }),
        ...(options?.metadata === undefined ? undefined : { metadata: options.metadata })
      })
    )
  })
