/**
 * Messages: the entries of a conversation.
 *
 * A message is plain data. Making one is an Effect, because it stamps an id (from
 * `MessageId`) and a time (from `Clock`); putting it into a conversation is pure.
 *
 * @since 0.1.0
 */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import * as Content from "../tool/Content.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import * as immutable from "./internal/immutable.ts"
import * as MessageId from "./MessageId.ts"
import * as Part from "./Part.ts"
import * as TokenUsage from "./TokenUsage.ts"

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
  readonly usage?: TokenUsage.TokenUsage
  readonly options?: Content.ProviderOptions
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
  readonly content: Content.NonEmptyContent
}

/**
 * What the model answered. The content may be empty: models do answer with nothing.
 *
 * @category models
 * @since 0.1.0
 */
export interface AssistantMessage extends MessageBase {
  readonly role: "assistant"
  readonly content: ReadonlyArray<Part.AssistantPart>
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

const base = {
  id: Schema.String,
  createdAt: Schema.DateTimeUtcFromString,
  usage: Schema.optionalKey(TokenUsage.TokenUsage),
  options: Schema.optionalKey(Content.ProviderOptions),
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
  ...base,
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
  ...base,
  content: Content.NonEmptyContent
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
  ...base,
  content: Schema.Array(Part.AssistantPart),
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
  ...base,
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
  readonly usage?: TokenUsage.TokenUsage
  readonly options?: Content.ProviderOptions
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
  stamp(options, (base) => ({ role: "system", ...base, content }))

/**
 * Makes a user message from text, or from text and file parts.
 *
 * **Example** (A question about a picture)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Content, Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const message = Effect.runSync(
 *   Message.user([
 *     Content.text("What is this?"),
 *     Content.file({ mediaType: "image/png", data: new Uint8Array([1, 2, 3]) })
 *   ])
 * )
 * assert.strictEqual(message.content.length, 2)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const user = (content: string | Content.NonEmptyContent, options?: Options): Effect.Effect<UserMessage> =>
  stamp(options, (base) => ({
    role: "user",
    ...base,
    content: typeof content === "string" ? [Content.text(content)] : content
  }))

/**
 * Makes an assistant message from text or from parts.
 *
 * @category constructors
 * @since 0.1.0
 */
export const assistant = (
  content: string | ReadonlyArray<Part.AssistantPart>,
  options?: AssistantOptions
): Effect.Effect<AssistantMessage> =>
  stamp(options, (base) => ({
    role: "assistant",
    ...base,
    content: typeof content === "string" ? [Content.text(content)] : content,
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
  stamp(options, (base) => ({
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
): ReadonlyArray<Part.ToolCallPart> => {
  const calls: Array<Part.ToolCallPart> = []
  for (const part of self.content) {
    if (part.type !== "tool-call") continue
    if (part.providerExecuted !== true || options?.providerExecuted === true) calls.push(part)
  }
  return calls
}

const stamp = <M extends Message>(options: Options | undefined, make: (base: MessageBase) => M): Effect.Effect<M> =>
  Effect.gen(function* () {
    const id = options?.id ?? (yield* MessageId.next)
    const createdAt = options?.createdAt ?? (yield* DateTime.now)
    return immutable.message(
      make({
        id,
        createdAt,
        ...(options?.usage === undefined ? undefined : { usage: options.usage }),
        ...(options?.options === undefined ? undefined : { options: options.options }),
        ...(options?.metadata === undefined ? undefined : { metadata: options.metadata })
      })
    )
  })
