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
import { defined } from "../payload/internal/plainJson.ts"
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

const TokenCount = Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))

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
export const TokenUsage = Schema.Struct({
  inputTokens: TokenCount,
  outputTokens: TokenCount,
  cacheReadTokens: TokenCount,
  cacheWriteTokens: TokenCount,
  reasoningTokens: TokenCount
}).annotate({ identifier: "TokenUsage" })

/** @since 0.1.0 */
export interface TokenUsage extends Schema.Schema.Type<typeof TokenUsage> {}

const usageKeys = ["inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens", "reasoningTokens"] as const

/**
 * Adds usages field by field. A field without a report stays absent.
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

const ProviderOptions = Schema.optionalKey(ToolResult.ProviderOptions)

/**
 * The reasoning of the model.
 *
 * **Details**
 *
 * `options` hold the provider's signature or encrypted form, where there is one.
 * Providers reject reasoning that comes back without it.
 *
 * @category models
 * @since 0.1.0
 */
export const ReasoningPart = Schema.Struct({
  type: Schema.Literal("reasoning"),
  text: Schema.String,
  options: ProviderOptions
}).annotate({ identifier: "ReasoningPart" })

/** @since 0.1.0 */
export interface ReasoningPart extends Schema.Schema.Type<typeof ReasoningPart> {}

/**
 * The model asks for a tool.
 *
 * **Details**
 *
 * `arguments` are the parsed arguments, an object in all but malformed calls.
 * `text` is the argument text as it was received, where it was received as text:
 * renderers send it back byte by byte, which keeps the provider's prompt cache
 * warm. Text that does not parse appears in both fields.
 *
 * `providerExecuted` marks a tool that the provider runs itself (web search, code
 * execution). Its result is a {@link ToolResultPart}, and no handler runs.
 *
 * @category models
 * @since 0.1.0
 */
export const ToolCallPart = Schema.Struct({
  type: Schema.Literal("tool-call"),
  id: Schema.String,
  name: Schema.String,
  arguments: Schema.Json,
  text: Schema.optionalKey(Schema.String),
  providerExecuted: Schema.optionalKey(Schema.Literal(true)),
  options: ProviderOptions
}).annotate({ identifier: "ToolCallPart" })

/** @since 0.1.0 */
export interface ToolCallPart extends Schema.Schema.Type<typeof ToolCallPart> {}

/**
 * The result of a tool that the provider ran itself. It answers a
 * `providerExecuted` call earlier in the same turn.
 *
 * @category models
 * @since 0.1.0
 */
export const ToolResultPart = Schema.Struct({
  type: Schema.Literal("tool-result"),
  id: Schema.String,
  name: Schema.String,
  result: ToolResult.ToolResult,
  options: ProviderOptions
}).annotate({ identifier: "ToolResultPart" })

/** @since 0.1.0 */
export interface ToolResultPart extends Schema.Schema.Type<typeof ToolResultPart> {}

/**
 * A part of an assistant message.
 *
 * @category models
 * @since 0.1.0
 */
export const AssistantPart = Schema.Union([
  ToolResult.TextPart,
  ToolResult.FilePart,
  ReasoningPart,
  ToolCallPart,
  ToolResultPart
])

/** @since 0.1.0 */
export type AssistantPart = typeof AssistantPart.Type

/**
 * Makes a reasoning part.
 *
 * @category constructors
 * @since 0.1.0
 */
export const reasoningPart = (text: string, options?: ToolResult.ProviderOptions): ReasoningPart =>
  options === undefined ? { type: "reasoning", text } : { type: "reasoning", text, options }

/**
 * Makes a tool call, from arguments or from argument text as providers send it.
 *
 * **Details**
 *
 * Text without `arguments` is parsed, and kept next to them. Empty text is `{}`;
 * text that does not parse replaces the arguments, and so does text with a key that
 * no codec accepts (`__proto__`): the tool's validation rejects it.
 *
 * **Example** (A call as a model makes it)
 *
 * ```ts
 * import { Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const call = Message.toolCallPart({ id: "call_1", name: "get_order", arguments: { id: "42" } })
 * assert.strictEqual(call.type, "tool-call")
 *
 * const received = Message.toolCallPart({ id: "call_1", name: "get_order", text: `{ "id": "42" }` })
 * assert.deepStrictEqual(received.arguments, { id: "42" })
 * assert.strictEqual(received.text, `{ "id": "42" }`)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const toolCallPart = (
  options: Omit<ToolCallPart, "type"> | (Omit<ToolCallPart, "type" | "arguments"> & { readonly text: string })
): ToolCallPart =>
  "arguments" in options
    ? { type: "tool-call", ...options }
    : { type: "tool-call", ...options, ...messageData.parseCallArguments(options.text) }

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

const baseFields = {
  id: Schema.String,
  createdAt: Schema.DateTimeUtcFromString,
  usage: Schema.optionalKey(TokenUsage),
  options: ProviderOptions,
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
}

/**
 * Instructions for the model. Only the first message of a conversation can be one.
 *
 * **Details**
 *
 * Every message has these fields. `options` are provider options, sent to the
 * provider of that name. `metadata` is the application's own: kept and stored, never
 * sent to a model. `usage` is what the message cost, usually reported with the
 * model's answer.
 *
 * @category models
 * @since 0.1.0
 */
export const SystemMessage = Schema.Struct({
  role: Schema.Literal("system"),
  ...baseFields,
  content: Schema.String
}).annotate({ identifier: "SystemMessage" })

/** @since 0.1.0 */
export interface SystemMessage extends Schema.Schema.Type<typeof SystemMessage> {}

/**
 * A message of the user.
 *
 * @category models
 * @since 0.1.0
 */
export const UserMessage = Schema.Struct({
  role: Schema.Literal("user"),
  ...baseFields,
  content: ToolResult.NonEmptyContent
}).annotate({ identifier: "UserMessage" })

/** @since 0.1.0 */
export interface UserMessage extends Schema.Schema.Type<typeof UserMessage> {}

/**
 * An answer of the model. The content may be empty, because models do answer with
 * nothing.
 *
 * @category models
 * @since 0.1.0
 */
export const AssistantMessage = Schema.Struct({
  role: Schema.Literal("assistant"),
  ...baseFields,
  content: Schema.Array(AssistantPart),
  model: Schema.optionalKey(Schema.String),
  finishReason: Schema.optionalKey(Schema.String)
}).annotate({ identifier: "AssistantMessage" })

/** @since 0.1.0 */
export interface AssistantMessage extends Schema.Schema.Type<typeof AssistantMessage> {}

/**
 * The result of one tool call.
 *
 * @category models
 * @since 0.1.0
 */
export const ToolMessage = Schema.Struct({
  role: Schema.Literal("tool"),
  ...baseFields,
  callId: Schema.String,
  name: Schema.String,
  result: ToolResult.ToolResult
}).annotate({ identifier: "ToolMessage" })

/** @since 0.1.0 */
export interface ToolMessage extends Schema.Schema.Type<typeof ToolMessage> {}

/**
 * One entry of a conversation. The schema checks one message by itself; the laws
 * between messages are those of `Conversation`.
 *
 * @category models
 * @since 0.1.0
 */
export const Message = Schema.Union([SystemMessage, UserMessage, AssistantMessage, ToolMessage])

/** @since 0.1.0 */
export type Message = typeof Message.Type

/**
 * Options of every message. `id` and `createdAt` override the services.
 *
 * @category models
 * @since 0.1.0
 */
export interface Options extends Partial<Omit<SystemMessage, "role" | "content">> {}

/**
 * Options of an assistant message.
 *
 * @category models
 * @since 0.1.0
 */
export interface AssistantOptions extends Partial<Omit<AssistantMessage, "role" | "content">> {}

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
    content: typeof content === "string" ? [{ type: "text", text: content }] : content
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
    content: typeof content === "string" ? [{ type: "text", text: content }] : content,
    ...defined({ model: options?.model, finishReason: options?.finishReason })
  }))

/**
 * Makes a tool message: the result of the call `callId`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const tool = (
  { callId, name, result }: Pick<ToolMessage, "callId" | "name" | "result">,
  options?: Options
): Effect.Effect<ToolMessage> => stampMessage(options, (base) => ({ role: "tool", ...base, callId, name, result }))

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
  make: (base: Omit<SystemMessage, "role" | "content">) => M
): Effect.Effect<M> =>
  Effect.gen(function* () {
    const id = options?.id ?? (yield* yield* MessageId)
    const createdAt = options?.createdAt ?? (yield* DateTime.now)
    const { metadata, options: providerOptions, usage } = options ?? {}
    return messageData.freeze(make({ id, createdAt, ...defined({ usage, options: providerOptions, metadata }) }))
  })
