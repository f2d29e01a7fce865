/**
 * An immutable, lawful message history.
 *
 * **When to use**
 *
 * Use a conversation wherever messages are kept between model calls: it converts
 * to and from the prompts of `effect/ai`, is stored and sent as versioned JSON,
 * and keeps the laws of providers. What a model may answer and a provider refuses
 * to read again, such as reasoning that was cut off, {@link toPrompt} leaves out.
 *
 * **Details**
 *
 * - A system message is the first message, or a later one: instructions that hold from its place on.
 * - A tool result answers an open call of the newest assistant message; every call
 *   has one result.
 * - Results are in the order of their calls, whatever the order in which they were
 *   added.
 * - Nothing but results can follow an open call. The end of a conversation may be
 *   open, and partly answered: that is a run which was stopped; {@link seal}
 *   closes it.
 * - A tool that the provider ran itself is answered by a part of an assistant
 *   message in the same turn (the messages from one user message to the next),
 *   because providers pause long tools and continue in another message. A call of
 *   that kind that got no answer is left as it is and blocks nothing.
 * - A user message has text that is not white space, or a file.
 *
 * Adding a message takes constant time, shares the whole history with the
 * conversation it was added to, and changes nothing that you hold. Messages are
 * deeply frozen copies of what was passed in. Half a character, as text that was cut through
 * an emoji has at its end, becomes U+FFFD, because providers refuse it.
 *
 * **Example** (A short exchange)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   let chat = yield* Conversation.make({ system: "You are helpful.", tokenLimit: 8000 })
 *   chat = yield* Conversation.addUser(chat, "Hello")
 *   chat = yield* Conversation.addAssistant(chat, "Hi there!", { usage: { inputTokens: 10, outputTokens: 5 } })
 *   return chat
 * })
 *
 * const chat = Effect.runSync(program)
 * assert.strictEqual(Conversation.messageCount(chat), 3)
 * assert.strictEqual(Conversation.tokenCount(chat), 15)
 * ```
 *
 * @since 0.1.0
 */

import * as Effect from "effect/Effect"
import { dual } from "effect/Function"
import * as HashMap from "effect/HashMap"
import * as Option from "effect/Option"
import * as Ref from "effect/Ref"
import * as Schema from "effect/Schema"
import type * as Chat from "effect/ai/Chat"
import * as ToolResult from "../tool/ToolResult.ts"
import type { ConversationError } from "./ConversationError.ts"
import * as Message from "./Message.ts"
import * as conversationCodec from "./internal/conversationCodec.ts"
import type { RepairedConversation } from "./internal/conversationCodec.ts"
import * as history from "./internal/history.ts"
import * as modelMessages from "./internal/modelMessages.ts"
import * as reduction from "./internal/reduction.ts"

export { codec, type Reader, repairingCodec, type RepairedConversation } from "./internal/conversationCodec.ts"

export {
  append,
  appendAll,
  empty,
  fromMessages,
  isConversation,
  make,
  messages,
  openCalls,
  relabelCalls,
  seal,
  type ReadOptions,
  type SealOptions,
  /**
   * The same type as {@link Conversation}. Declarations that TypeScript writes for other packages have this name.
   *
   * @category models
   * @since 0.1.0
   */
  type Conversation as Type
} from "./internal/history.ts"

export { fromPrompt, toPrompt, type ToPromptOptions } from "./internal/modelMessages.ts"

export {
  ConversationTooLarge,
  compact,
  dropOldTurns,
  estimatedSize,
  ReductionReport,
  truncate
} from "./internal/reduction.ts"
export type { CompactOptions, DroppedTurns, DropOldTurnsOptions, Reduction } from "./internal/reduction.ts"
export type { SizeOptions, TruncateOptions } from "./internal/reduction.ts"

/**
 * A message history. See the module for its laws.
 *
 * **Details**
 *
 * Conversations are compared by value with `Equal.equals`, can be iterated, and
 * print their roles only, never their texts. The schema, to embed in other schemas,
 * reads every version of the wire and writes the newest; a history that breaks a law
 * does not decode.
 *
 * @category models
 * @since 0.1.0
 */
export interface Conversation extends history.Conversation {}

/** @since 0.1.0 */
export const Conversation: Schema.Codec<history.Conversation, Schema.Json> = conversationCodec.codec.schema

/**
 * Adds a user message, stamped with an id and the time.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addUser: {
  (
    content: string | ToolResult.NonEmptyContent,
    options?: history.Options
  ): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (
    self: Conversation,
    content: string | ToolResult.NonEmptyContent,
    options?: history.Options
  ): Effect.Effect<Conversation, ConversationError>
} = dual(
  history.firstIsConversation,
  (self: Conversation, content: string | ToolResult.NonEmptyContent, options?: history.Options) =>
    appendMade(self, Message.user(content, options))
)

/**
 * Adds a system message, stamped with an id and the time: the first one of an empty conversation, otherwise instructions that
 * hold from here on.
 *
 * **When to use**
 *
 * Use it where instructions change in the middle of a conversation. What was sent before stays as it is, so the cache of the
 * provider does too.
 *
 * **Details**
 *
 * OpenAI takes such messages anywhere. Anthropic takes them behind a message of the user or the results of tools, where the end
 * or an answer follows: add it behind the question. Google takes none. `AiSdk` and `AnthropicMessages.fromConversation` move or
 * rewrite what a provider refuses, and report it.
 *
 * **Gotchas**
 *
 * `truncate`, `compact` and `dropOldTurns` remove a later system message with its turn, and report it. They keep the newest one
 * in which a session recorded that the instructions of its agent have changed.
 * The `LanguageModel` of `@effect/ai-anthropic` sends only the newest system messages of a prompt, in place of the first one.
 *
 * **Example** (Other instructions from here on)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.make({ system: "You review code." }).pipe(
 *   Effect.flatMap(Conversation.addUser("Review utils.py.")),
 *   Effect.flatMap(Conversation.addSystem("From now on, name the line of each finding."))
 * )
 * const roles = Conversation.toPrompt(Effect.runSync(program)).content.map((message) => message.role)
 * assert.deepStrictEqual(roles, ["system", "user", "system"])
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const addSystem: {
  (content: string, options?: history.Options): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (self: Conversation, content: string, options?: history.Options): Effect.Effect<Conversation, ConversationError>
} = dual(history.firstIsConversation, (self: Conversation, content: string, options?: history.Options) =>
  appendMade(self, Message.system(content, options))
)

/**
 * Adds an assistant message, stamped with an id and the time.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addAssistant: {
  (
    content: string | ReadonlyArray<Message.AssistantPart>,
    options?: history.AssistantOptions
  ): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (
    self: Conversation,
    content: string | ReadonlyArray<Message.AssistantPart>,
    options?: history.AssistantOptions
  ): Effect.Effect<Conversation, ConversationError>
} = dual(
  history.firstIsConversation,
  (self: Conversation, content: string | ReadonlyArray<Message.AssistantPart>, options?: history.AssistantOptions) =>
    appendMade(self, Message.assistant(content, options))
)

/**
 * Adds the result of an open call, stamped with an id and the time. Without `name`,
 * the name of the open call is taken.
 *
 * **Example** (A call and its result)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Message, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.empty.pipe(
 *   Conversation.addUser("Where is order 42?"),
 *   Effect.flatMap(
 *     Conversation.addAssistant([Message.toolCallPart({ id: "call_1", name: "get_order", arguments: { id: "42" } })])
 *   ),
 *   Effect.flatMap(Conversation.addToolResult({ callId: "call_1", result: ToolResult.success({ status: "sent" }) }))
 * )
 *
 * const chat = Effect.runSync(program)
 * assert.deepStrictEqual(Conversation.openCalls(chat), [])
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const addToolResult: {
  (
    answer: ToolAnswer,
    options?: history.Options
  ): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (self: Conversation, answer: ToolAnswer, options?: history.Options): Effect.Effect<Conversation, ConversationError>
} = dual(
  history.firstIsConversation,
  (self: Conversation, { callId, name, result }: ToolAnswer, options?: history.Options) => {
    const call = Option.getOrUndefined(HashMap.get(history.asHistory(self).open, callId))
    return appendMade(self, Message.tool({ callId, name: name ?? call?.name ?? "", result }, options))
  }
)

/**
 * A result for an open call, see {@link addToolResult}. The default of `name` is the name in the call.
 *
 * @category options
 * @since 0.1.0
 */
export interface ToolAnswer {
  /** The id of the open call. A call that is not open is refused. */
  readonly callId: string
  /** The name of the tool; default: the name in the call. */
  readonly name?: string
  /** The result: a value or a failure. */
  readonly result: ToolResult.ToolResult
}

const appendMade = (
  self: Conversation,
  message: Effect.Effect<Message.Message>
): Effect.Effect<Conversation, ConversationError> =>
  Effect.flatMap(message, (message) => Effect.fromResult(history.append(self, message)))

/**
 * The number of messages, the system message included.
 *
 * @category getters
 * @since 0.1.0
 */
export const messageCount = (self: Conversation): number => history.asHistory(self).length

/**
 * The system message in front. Later ones are among the {@link messages}.
 *
 * @category getters
 * @since 0.1.0
 */
export const system = (self: Conversation): Option.Option<Message.SystemMessage> =>
  Option.fromUndefinedOr(history.asHistory(self).system)

/**
 * The newest message.
 *
 * @category getters
 * @since 0.1.0
 */
export const lastMessage = (self: Conversation): Option.Option<Message.Message> =>
  Option.fromUndefinedOr(history.lastMessage(history.asHistory(self)))

/**
 * The newest assistant message.
 *
 * @category getters
 * @since 0.1.0
 */
export const lastAssistantMessage = (self: Conversation): Option.Option<Message.AssistantMessage> =>
  Option.fromUndefinedOr(history.asHistory(self).lastAssistant)

/**
 * The token limit.
 *
 * @category tokens
 * @since 0.1.0
 */
export const tokenLimit = (self: Conversation): Option.Option<number> =>
  Option.fromUndefinedOr(history.asHistory(self).tokenLimit)

/**
 * Sets the token limit, or removes it with `undefined`.
 *
 * @category tokens
 * @since 0.1.0
 */
export const withTokenLimit: {
  (tokenLimit: number | undefined): (self: Conversation) => Conversation
  (self: Conversation, tokenLimit: number | undefined): Conversation
} = dual(2, (self: Conversation, tokenLimit: number | undefined) => history.limited(self, tokenLimit))

/**
 * The sum of the input and output tokens recorded on the messages.
 *
 * **Gotchas**
 *
 * This is bookkeeping of what was spent, not the size of the next request:
 * the input tokens a provider reports contain the earlier turns every time.
 *
 * @category tokens
 * @since 0.1.0
 */
export const tokenCount = (self: Conversation): number => history.asHistory(self).tokenCount

/**
 * The token limit less {@link tokenCount}; negative when it is exceeded, `None`
 * without a limit.
 *
 * @category tokens
 * @since 0.1.0
 */
export const tokenRemaining = (self: Conversation): Option.Option<number> =>
  Option.map(tokenLimit(self), (limit) => limit - tokenCount(self))

/**
 * `true` if {@link tokenCount} has reached a fraction of the limit: `threshold`,
 * default 0.8, itself included. `false` without a limit.
 *
 * @category tokens
 * @since 0.1.0
 */
export const approachingLimit: {
  (threshold?: number): (self: Conversation) => boolean
  (self: Conversation, threshold?: number): boolean
} = dual(history.firstIsConversation, (self: Conversation, threshold: number = 0.8): boolean => {
  const { tokenLimit } = history.asHistory(self)
  return tokenLimit !== undefined && tokenCount(self) >= threshold * tokenLimit
})

/**
 * Removes everything but the system messages in front, and the newest instructions of a session. The token limit stays.
 *
 * @category combinators
 * @since 0.1.0
 */
export const clear = (self: Conversation): Conversation => {
  const all = history.messages(self)
  return history.rebuild(all.filter(reduction.keptWith(all, all.length)), history.asHistory(self).tokenLimit)
}

/**
 * The content of a conversation without the members that differ from run to run: no
 * ids, times, durations, usage, reasoning, sources or provider options. Plain data, equal under
 * every driver and tool runtime.
 *
 * @category conversions
 * @since 0.1.0
 */
export const transcript = (self: Conversation): Transcript => history.messages(self).map(transcriptEntry)

/**
 * Reads a conversation from the history of a `Chat` of `effect/ai`, as
 * {@link fromPrompt} does.
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromChat: conversationCodec.Reader<Chat.Chat, history.ReadOptions, ConversationError> =
  conversationCodec.makeReader(
    (chat, options) => Effect.flatMap(Ref.get(chat.history), (prompt) => modelMessages.fromPrompt(prompt, options)),
    (chat, options) =>
      Effect.flatMap(Ref.get(chat.history), (prompt) =>
        modelMessages.fromPrompt(prompt, { ...options, onUnlawful: "repair" })
      )
  )

/**
 * Replaces the history of a `Chat` of `effect/ai`. The lossless form is written,
 * so that {@link fromChat} reads the same conversation back.
 *
 * **Example** (Passing a conversation to a chat)
 *
 * ```ts
 * import { Effect, Equal } from "effect"
 * import { Chat } from "effect/ai"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const conversation = yield* Conversation.addUser(Conversation.empty, "Hello")
 *   const chat = yield* Chat.empty
 *   yield* Conversation.toChat(conversation, chat)
 *   return Equal.equals(yield* Conversation.fromChat(chat), conversation)
 * })
 *
 * assert.strictEqual(Effect.runSync(program), true)
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toChat: {
  (chat: Chat.Chat): (self: Conversation) => Effect.Effect<void>
  (self: Conversation, chat: Chat.Chat): Effect.Effect<void>
} = dual(2, (self: Conversation, chat: Chat.Chat) =>
  Ref.set(chat.history, modelMessages.toPrompt(self, { lossless: true }))
)

/**
 * Makes a lawful conversation of messages, and lists the changes that made it lawful.
 *
 * **When to use**
 *
 * Use it on histories that other programs wrote: runs that were killed between a call
 * and its result, lists that were cut anywhere.
 *
 * **Details**
 *
 * Never fails. A lawful list is taken as it is. Otherwise, see `ConversationError.Repair`:
 * results without their call and second results are dropped, a result that came after
 * the next turn had begun moves up to its call, calls without a result are sealed where
 * the next turn begins (an open end stays open), repeated call ids are relabelled
 * together with their results, a system message between them moves behind them.
 *
 * **Example** (A call that was never answered, a result that was never asked for)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Message, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const { conversation, repairs } = yield* Conversation.repair([
 *     yield* Message.assistant([Message.toolCallPart({ id: "c1", name: "search", arguments: {} })]),
 *     yield* Message.user("Never mind."),
 *     yield* Message.tool({ callId: "c2", name: "search", result: ToolResult.success("found") })
 *   ])
 *   assert.deepStrictEqual(repairs.map((repair) => repair._tag), ["CallSealed", "MessageDropped"])
 *   assert.deepStrictEqual(
 *     Conversation.messages(conversation).map((message) => message.role),
 *     ["assistant", "tool", "user"]
 *   )
 * })
 *
 * Effect.runSync(program)
 * ```
 *
 * @category constructors
 * @since 0.1.0
 */
export const repair = (
  messages: Iterable<Message.Message>,
  options?: history.ReadOptions
): Effect.Effect<RepairedConversation> => conversationCodec.repairMessages(messages, options)

const TranscriptContent = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  ToolResult.FilePart.mapFields(({ options: _, ...fields }) => fields)
])

const transcriptResult = {
  name: Schema.String,
  /** `"success"`, or the type of the failure. */
  type: Schema.String,
  content: Schema.Array(TranscriptContent)
}

const TranscriptPart = Schema.Union([
  ...TranscriptContent.members,
  Schema.Struct({ type: Schema.Literal("tool-call"), name: Schema.String, arguments: Schema.Json }),
  Schema.Struct({ type: Schema.Literal("tool-result"), result: Schema.Struct(transcriptResult) })
])

/**
 * The content of a conversation as plain data: compare transcripts with
 * `Equal.equals` or any deep comparison.
 *
 * **Details**
 *
 * One entry for each message. Neighbouring texts are joined; reasoning and sources are left
 * out. Results of tools that the provider ran are in the assistant's content; other
 * results are entries of their own, in call order.
 *
 * @category models
 * @since 0.1.0
 */
export const Transcript = Schema.Array(
  Schema.Union([
    Schema.Struct({ role: Schema.Literal("system"), text: Schema.String }),
    Schema.Struct({ role: Schema.Literal("user"), content: Schema.Array(TranscriptContent) }),
    Schema.Struct({ role: Schema.Literal("assistant"), content: Schema.Array(TranscriptPart) }),
    Schema.Struct({ role: Schema.Literal("tool"), ...transcriptResult })
  ])
)

/** @since 0.1.0 */
export type Transcript = typeof Transcript.Type

/**
 * A part of an entry of a {@link Transcript}.
 *
 * @category models
 * @since 0.1.0
 */
export type TranscriptPart = typeof TranscriptPart.Type

const transcriptEntry = (message: Message.Message): Transcript[number] => {
  switch (message.role) {
    case "system":
      return { role: "system", text: message.content }
    case "user":
      return { role: "user", content: plainContent(message.content) }
    case "assistant":
      return { role: "assistant", content: joinTexts(message.content.flatMap(transcriptPart)) }
    case "tool":
      return { role: "tool", ...plainResult(message) }
  }
}

const transcriptPart = (part: Message.AssistantPart): ReadonlyArray<TranscriptPart> => {
  switch (part.type) {
    case "reasoning":
    case "source":
      return []
    case "tool-call":
      return [{ type: "tool-call", name: part.name, arguments: part.arguments }]
    case "tool-result":
      return [{ type: "tool-result", result: plainResult(part) }]
    default:
      return [plainPart(part)]
  }
}

const plainResult = ({ name, result }: Pick<Message.ToolMessage, "name" | "result">) => ({
  name,
  type: result._tag === "Failure" ? result.type : "success",
  content: plainContent(ToolResult.content(result))
})

const plainPart = ({ options: _, ...part }: ToolResult.Content): typeof TranscriptContent.Type => part

const plainContent = (parts: ReadonlyArray<ToolResult.Content>) => joinTexts(parts.map(plainPart))

const joinTexts = <P extends TranscriptPart>(parts: ReadonlyArray<P>): ReadonlyArray<P> => {
  const joined: Array<P> = []
  for (const part of parts) {
    const last = joined.at(-1)
    if (part.type !== "text") joined.push(part)
    else if (part.text === "") continue
    else if (last?.type === "text") joined[joined.length - 1] = { ...part, text: last.text + part.text }
    else joined.push(part)
  }
  return joined
}
