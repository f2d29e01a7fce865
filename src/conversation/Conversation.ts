/**
 * An immutable, lawful message history.
 *
 * **When to use**
 *
 * Use a conversation wherever messages are kept between model calls: it converts
 * to and from the prompts of `effect/ai`, is stored and sent as versioned JSON,
 * and cannot be in a state that providers refuse.
 *
 * **Details**
 *
 * - A system message is the first message or there is none.
 * - A tool result answers an open call of the newest assistant message; every call
 *   has one result.
 * - Results stand in the order of their calls, whatever the order in which they
 *   were added.
 * - Nothing but results can follow an open call. The end of a conversation may be
 *   open, and partly answered: that is a run which was stopped; {@link seal}
 *   closes it.
 * - A tool that the provider ran itself is answered by a part of an assistant
 *   message in the same turn (the messages from one user message to the next),
 *   because providers pause long tools and continue in another message. A call of
 *   that kind that got no answer is left as it is and blocks nothing.
 * - A user message says something.
 *
 * Adding a message takes constant time, shares the whole history with the
 * conversation it was added to, and changes nothing that you hold. Messages are
 * deeply frozen copies of what was passed in.
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
import type * as Chat from "effect/ai/Chat"
import type * as Prompt from "effect/ai/Prompt"
import * as Effect from "effect/Effect"
import { dual } from "effect/Function"
import * as HashMap from "effect/HashMap"
import type { Inspectable } from "effect/Inspectable"
import * as Option from "effect/Option"
import type { Pipeable } from "effect/Pipeable"
import * as Ref from "effect/Ref"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../payload/Json.ts"
import type { LossyEncoding } from "../payload/LossyEncoding.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import type { DecodeOptions, EncodeOptions } from "../payload/VersionedCodec.ts"
import type { NonEmptyContent } from "../tool/Content.ts"
import * as ToolResult from "../tool/ToolResult.ts"
import { ConversationError, InvalidKeepRecent } from "./ConversationError.ts"
import * as turns from "./internal/budget/turns.ts"
import { codec, repairing } from "./internal/codec.ts"
import * as reader from "./internal/fromPrompt.ts"
import * as history from "./internal/history.ts"
import * as laws from "./internal/laws.ts"
import { onUnlawful } from "./internal/onUnlawful.ts"
import * as prompt from "./internal/prompt.ts"
import * as internalRelabel from "./internal/relabel.ts"
import * as internalRepair from "./internal/repair.ts"
import * as transcripts from "./internal/transcript.ts"
import * as Message from "./Message.ts"
import type { AssistantPart, ToolCallPart } from "./Part.ts"
import type { Reader, Repaired } from "./Repair.ts"
import type { Transcript } from "./Transcript.ts"

export {
  /**
   * @category tokens
   * @since 0.1.0
   */
  compact
} from "./Compact.ts"

export {
  /**
   * @category tokens
   * @since 0.1.0
   */
  estimatedSize,
  /**
   * @category tokens
   * @since 0.1.0
   */
  fit
} from "./Fit.ts"

export type {
  /**
   * @category models
   * @since 0.1.0
   */
  CompactOptions
} from "./Compact.ts"

export type {
  /**
   * @category models
   * @since 0.1.0
   */
  FitOptions,
  /**
   * @category models
   * @since 0.1.0
   */
  Fitted,
  /**
   * @category models
   * @since 0.1.0
   */
  SizeOptions
} from "./Fit.ts"

/**
 * Identifies conversations at run time.
 *
 * @category type ids
 * @since 0.1.0
 */
export type TypeId = "~effect-emissary/conversation/Conversation"

/**
 * Identifies conversations at run time.
 *
 * @category type ids
 * @since 0.1.0
 */
export const TypeId: TypeId = history.TypeId

/**
 * A message history. See the module for its laws.
 *
 * **Details**
 *
 * Conversations are compared by value with `Equal.equals`, can be iterated, and
 * print their roles only, never what was said.
 *
 * @category models
 * @since 0.1.0
 */
export interface Conversation extends Iterable<Message.Message>, Pipeable, Inspectable {
  readonly [TypeId]: TypeId
}

/**
 * Tells whether a value is a conversation.
 *
 * @category guards
 * @since 0.1.0
 */
export const isConversation = (u: unknown): u is Conversation => history.isHistory(u)

/**
 * The conversation without messages and without a token limit.
 *
 * @category constructors
 * @since 0.1.0
 */
export const empty: Conversation = history.empty(undefined)

/**
 * Starts a conversation, with a system message if `system` is given (an empty one
 * counts as given), and with a token limit if `tokenLimit` is given.
 *
 * @category constructors
 * @since 0.1.0
 */
export const make = (options?: {
  readonly system?: string | undefined
  readonly tokenLimit?: number | undefined
}): Effect.Effect<Conversation> => {
  const start = history.empty(options?.tokenLimit)
  return options?.system === undefined
    ? Effect.succeed(start)
    : Effect.map(Message.system(options.system), (message) => history.push(start, message))
}

/**
 * Builds a conversation from messages, checking every law. `staleUsage` says
 * what {@link hasStaleUsage} said of the conversation they are from.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromMessages = (
  messages: Iterable<Message.Message>,
  options?: { readonly tokenLimit?: number | undefined; readonly staleUsage?: boolean | undefined }
): Result.Result<Conversation, ConversationError> => {
  const self = appendAll(history.empty(options?.tokenLimit), messages)
  return options?.staleUsage === true ? Result.map(self, (found) => history.forgetReport(history.of(found))) : self
}

/**
 * Whether the newest usage was reported about a longer history than this: something was
 * removed since. {@link estimatedSize} does not use such a report.
 *
 * @category tokens
 * @since 0.1.0
 */
export const hasStaleUsage = (self: Conversation): boolean => history.of(self).staleUsage

/**
 * Adds a message, or says which law it would break.
 *
 * **Details**
 *
 * Pure and constant in time. The new conversation shares the history with the old
 * one; the message is copied and frozen, unless a constructor of `Message` made it
 * (those are frozen from the start).
 *
 * **Example** (The laws are values)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { Conversation, Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const late = Effect.runSync(Message.system("Late instruction"))
 * const chat = Effect.runSync(Conversation.addUser(Conversation.empty, "Hello"))
 *
 * const result = Conversation.append(chat, late)
 * assert(Result.isFailure(result))
 * assert.strictEqual(result.failure.reason._tag, "MisplacedSystem")
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const append: {
  (message: Message.Message): (self: Conversation) => Result.Result<Conversation, ConversationError>
  (self: Conversation, message: Message.Message): Result.Result<Conversation, ConversationError>
} = dual(2, (self: Conversation, message: Message.Message): Result.Result<Conversation, ConversationError> => {
  const reason = laws.check(history.of(self), message)
  return reason === undefined
    ? Result.succeed(history.push(history.of(self), message))
    : Result.fail(new ConversationError({ reason }))
})

/**
 * Adds messages in order, all or none.
 *
 * @category combinators
 * @since 0.1.0
 */
export const appendAll: {
  (messages: Iterable<Message.Message>): (self: Conversation) => Result.Result<Conversation, ConversationError>
  (self: Conversation, messages: Iterable<Message.Message>): Result.Result<Conversation, ConversationError>
} = dual(
  2,
  (self: Conversation, messages: Iterable<Message.Message>): Result.Result<Conversation, ConversationError> => {
    let current = self
    for (const message of messages) {
      const next = append(current, message)
      if (Result.isFailure(next)) return next
      current = next.success
    }
    return Result.succeed(current)
  }
)

const firstIsConversation = (args: IArguments): boolean => isConversation(args[0])

/**
 * Adds a system message, stamped with an id and the time.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addSystem: {
  (content: string, options?: Message.Options): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (self: Conversation, content: string, options?: Message.Options): Effect.Effect<Conversation, ConversationError>
} = dual(firstIsConversation, (self: Conversation, content: string, options?: Message.Options) =>
  add(self, Message.system(content, options))
)

/**
 * Adds a user message, stamped with an id and the time.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addUser: {
  (
    content: string | NonEmptyContent,
    options?: Message.Options
  ): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (
    self: Conversation,
    content: string | NonEmptyContent,
    options?: Message.Options
  ): Effect.Effect<Conversation, ConversationError>
} = dual(firstIsConversation, (self: Conversation, content: string | NonEmptyContent, options?: Message.Options) =>
  add(self, Message.user(content, options))
)

/**
 * Adds an assistant message, stamped with an id and the time.
 *
 * @category combinators
 * @since 0.1.0
 */
export const addAssistant: {
  (
    content: string | ReadonlyArray<AssistantPart>,
    options?: Message.AssistantOptions
  ): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (
    self: Conversation,
    content: string | ReadonlyArray<AssistantPart>,
    options?: Message.AssistantOptions
  ): Effect.Effect<Conversation, ConversationError>
} = dual(
  firstIsConversation,
  (self: Conversation, content: string | ReadonlyArray<AssistantPart>, options?: Message.AssistantOptions) =>
    add(self, Message.assistant(content, options))
)

/**
 * What answers a call. Without `name`, the name of the open call is taken.
 *
 * @category models
 * @since 0.1.0
 */
export interface Answer {
  readonly callId: string
  readonly name?: string
  readonly result: ToolResult.ToolResult
}

/**
 * Adds the result of an open call, stamped with an id and the time.
 *
 * **Example** (A call and its result)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Part, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Conversation.empty.pipe(
 *   Conversation.addUser("Where is order 42?"),
 *   Effect.flatMap(
 *     Conversation.addAssistant([Part.toolCall({ id: "call_1", name: "get_order", arguments: { id: "42" } })])
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
  (answer: Answer, options?: Message.Options): (self: Conversation) => Effect.Effect<Conversation, ConversationError>
  (self: Conversation, answer: Answer, options?: Message.Options): Effect.Effect<Conversation, ConversationError>
} = dual(firstIsConversation, (self: Conversation, answer: Answer, options?: Message.Options) => {
  const call = HashMap.get(history.of(self).open, answer.callId)
  const name = answer.name ?? (Option.isSome(call) ? call.value.name : "")
  return add(self, Message.tool({ callId: answer.callId, name, result: answer.result }, options))
})

const add = (
  self: Conversation,
  message: Effect.Effect<Message.Message>
): Effect.Effect<Conversation, ConversationError> =>
  Effect.flatMap(message, (message) => Effect.fromResult(append(self, message)))

/**
 * All messages, oldest first, as a frozen array.
 *
 * @category getters
 * @since 0.1.0
 */
export const messages = (self: Conversation): ReadonlyArray<Message.Message> => history.toArray(history.of(self))

/**
 * The number of messages, the system message included.
 *
 * @category getters
 * @since 0.1.0
 */
export const messageCount = (self: Conversation): number => history.of(self).length

/**
 * The system message.
 *
 * @category getters
 * @since 0.1.0
 */
export const system = (self: Conversation): Option.Option<Message.SystemMessage> =>
  Option.fromUndefinedOr(history.of(self).system)

/**
 * The newest message.
 *
 * @category getters
 * @since 0.1.0
 */
export const lastMessage = (self: Conversation): Option.Option<Message.Message> =>
  Option.fromUndefinedOr(history.lastMessage(history.of(self)))

/**
 * The newest assistant message.
 *
 * @category getters
 * @since 0.1.0
 */
export const lastAssistantMessage = (self: Conversation): Option.Option<Message.AssistantMessage> =>
  Option.fromUndefinedOr(history.of(self).lastAssistant)

/**
 * The calls that wait for a result, in call order. Tools that the provider runs
 * itself are not among them.
 *
 * @category getters
 * @since 0.1.0
 */
export const openCalls = (self: Conversation): ReadonlyArray<ToolCallPart> => laws.openBatch(history.of(self))

/**
 * Whether a call of this id occurs anywhere in the conversation.
 *
 * @category getters
 * @since 0.1.0
 */
export const hasCall: {
  (id: string): (self: Conversation) => boolean
  (self: Conversation, id: string): boolean
} = dual(2, (self: Conversation, id: string): boolean => HashMap.has(history.of(self).callIds, id))

/**
 * Gives new ids to calls whose id is empty, occurs in the conversation, or occurs
 * twice in the content, so that the content can be added as the next message.
 *
 * **Details**
 *
 * Some models number their calls from 0 in every answer. The new id is the old one
 * with the position of the message behind it; the results of a tool that the
 * provider ran itself follow their call.
 *
 * @category combinators
 * @since 0.1.0
 */
export const relabelCalls: {
  (content: ReadonlyArray<AssistantPart>): (self: Conversation) => ReadonlyArray<AssistantPart>
  (self: Conversation, content: ReadonlyArray<AssistantPart>): ReadonlyArray<AssistantPart>
} = dual(2, (self: Conversation, content: ReadonlyArray<AssistantPart>): ReadonlyArray<AssistantPart> =>
  internalRelabel.relabel(history.of(self), content)
)

/**
 * Answers every open call with an `interrupted` failure, so that the conversation
 * can go on.
 *
 * **Details**
 *
 * `message` is what the model reads. `result` makes the placeholder of each call,
 * where one text for all is not enough.
 *
 * **Example** (Going on after an interruption)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Part } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const stopped = yield* Conversation.addAssistant(Conversation.empty, [
 *     Part.toolCall({ id: "call_1", name: "search", arguments: { q: "effect" } })
 *   ])
 *   assert.strictEqual(Conversation.openCalls(stopped).length, 1)
 *   return yield* Conversation.addUser(yield* Conversation.seal(stopped), "Never mind")
 * })
 *
 * assert.strictEqual(Conversation.messageCount(Effect.runSync(program)), 3)
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const seal: {
  (options?: SealOptions): (self: Conversation) => Effect.Effect<Conversation>
  (self: Conversation, options?: SealOptions): Effect.Effect<Conversation>
} = dual(firstIsConversation, (self: Conversation, options?: SealOptions): Effect.Effect<Conversation> => {
  const message = options?.message ?? "Tool call interrupted before completion."
  return Effect.reduce(
    openCalls(self),
    () => history.of(self),
    (current, call) =>
      Effect.map(
        Message.tool({
          callId: call.id,
          name: call.name,
          result: options?.result?.(call) ?? ToolResult.failure("interrupted", message)
        }),
        (message) => history.push(current, message)
      )
  )
})

/**
 * Options of {@link seal}.
 *
 * @category models
 * @since 0.1.0
 */
export interface SealOptions {
  readonly message?: string | undefined
  readonly result?: ((call: ToolCallPart) => ToolResult.ToolResult) | undefined
}

/**
 * The token limit.
 *
 * @category tokens
 * @since 0.1.0
 */
export const tokenLimit = (self: Conversation): Option.Option<number> =>
  Option.fromUndefinedOr(history.of(self).tokenLimit)

/**
 * Sets the token limit, or removes it with `undefined`.
 *
 * @category tokens
 * @since 0.1.0
 */
export const withTokenLimit: {
  (tokenLimit: number | undefined): (self: Conversation) => Conversation
  (self: Conversation, tokenLimit: number | undefined): Conversation
} = dual(2, (self: Conversation, tokenLimit: number | undefined): Conversation =>
  history.withTokenLimit(history.of(self), tokenLimit)
)

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
export const tokenCount = (self: Conversation): number => history.of(self).tokenCount

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
 * Whether {@link tokenCount} has reached a fraction of the limit: `threshold`,
 * default 0.8, itself included. `false` without a limit.
 *
 * @category tokens
 * @since 0.1.0
 */
export const approachingLimit: {
  (threshold?: number): (self: Conversation) => boolean
  (self: Conversation, threshold?: number): boolean
} = dual(firstIsConversation, (self: Conversation, threshold: number = 0.8): boolean => {
  const { tokenLimit } = history.of(self)
  return tokenLimit !== undefined && tokenCount(self) >= threshold * tokenLimit
})

/**
 * Options of {@link truncate}.
 *
 * @category models
 * @since 0.1.0
 */
export interface TruncateOptions {
  /** Turns to keep, an integer from 0; absent keeps all. */
  readonly keepRecent?: number | undefined
  /** Whether the system message stays; default `true`. */
  readonly keepSystemPrompt?: boolean | undefined
}

/**
 * What is left, and what was removed, oldest first.
 *
 * @category models
 * @since 0.1.0
 */
export interface Truncated {
  readonly conversation: Conversation
  readonly removed: ReadonlyArray<Message.Message>
}

/**
 * Drops old turns.
 *
 * **Details**
 *
 * A turn starts at a user message and ends before the next one, so calls and
 * their results stay together. Messages before the first user message are a turn
 * of their own. The token limit is not looked at.
 *
 * **Example** (Keeping the last turn)
 *
 * ```ts
 * import { Effect, Result } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const chat = Effect.runSync(
 *   Conversation.make({ system: "Be brief." }).pipe(
 *     Effect.flatMap(Conversation.addUser("One")),
 *     Effect.flatMap(Conversation.addAssistant("1")),
 *     Effect.flatMap(Conversation.addUser("Two")),
 *     Effect.flatMap(Conversation.addAssistant("2"))
 *   )
 * )
 *
 * const { conversation, removed } = Result.getOrThrow(Conversation.truncate(chat, { keepRecent: 1 }))
 * assert.strictEqual(Conversation.messageCount(conversation), 3)
 * assert.strictEqual(removed.length, 2)
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const truncate: {
  (options: TruncateOptions): (self: Conversation) => Result.Result<Truncated, ConversationError>
  (self: Conversation, options: TruncateOptions): Result.Result<Truncated, ConversationError>
} = dual(2, (self: Conversation, options: TruncateOptions): Result.Result<Truncated, ConversationError> => {
  const keepRecent = options.keepRecent
  if (keepRecent !== undefined && !(Number.isInteger(keepRecent) && keepRecent >= 0)) {
    return Result.fail(new ConversationError({ reason: new InvalidKeepRecent({ found: String(keepRecent) }) }))
  }
  const all = messages(self)
  const first = turns.first(all)
  const from = keepRecent === undefined ? first : turns.recent(all, keepRecent)
  const system = all.slice(0, first)
  const dropSystem = options.keepSystemPrompt === false
  const removed = dropSystem ? all.slice(0, from) : all.slice(first, from)
  if (removed.length === 0) return Result.succeed({ conversation: self, removed })
  const kept = dropSystem ? all.slice(from) : [...system, ...all.slice(from)]
  return Result.succeed({ conversation: history.rebuild(kept, history.of(self).tokenLimit), removed })
})

/**
 * Removes everything but the system message. The token limit stays.
 *
 * @category combinators
 * @since 0.1.0
 */
export const clear = (self: Conversation): Conversation => {
  const { system, tokenLimit } = history.of(self)
  return history.rebuild(system === undefined ? [] : [system], tokenLimit)
}

/**
 * What was said, without what differs from run to run: no ids, times, durations,
 * usage, reasoning or provider options. Plain data, equal
 * under every driver and tool runtime.
 *
 * @category conversions
 * @since 0.1.0
 */
export const transcript = (self: Conversation): Transcript => transcripts.make(messages(self))

/**
 * Options of {@link toPrompt}.
 *
 * @category models
 * @since 0.1.0
 */
export interface ToPromptOptions {
  /**
   * Maps tool names, e.g. to names the provider accepts. Pass the same function
   * each time: what was converted is remembered per function.
   */
  readonly toolName?: ((name: string) => string) | undefined
  /**
   * Whether the prompt is to be read back with {@link fromPrompt}. Then it holds
   * everything; what prompts have no field for (ids, times, models, usage, metadata, argument text) stands in the provider
   * options under `"effect-emissary"`. Default `false`: what a model is sent.
   */
  readonly lossless?: boolean | undefined
}

/**
 * Converts a conversation into a prompt of `effect/ai`.
 *
 * **Details**
 *
 * The results that answer one assistant message become one tool message. A result
 * travels as `modelOutput`, next to its value. What providers refuse is left out or
 * made acceptable: empty text and empty messages are left out, arguments that are no
 * object become `{ invalid_arguments }`. A prompt never holds approval parts, which
 * would make `effect/ai` execute tools by itself.
 *
 * Each message is converted once: the next prompt of the same conversation, or of
 * a longer one, holds the same objects.
 *
 * **Example** (What a model is sent)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const chat = Effect.runSync(
 *   Conversation.make({ system: "Be brief." }).pipe(Effect.flatMap(Conversation.addUser("Hello")))
 * )
 * const prompt = Conversation.toPrompt(chat)
 * assert.deepStrictEqual(prompt.content.map((message) => message.role), ["system", "user"])
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const toPrompt = (self: Conversation, options?: ToPromptOptions): Prompt.Prompt =>
  prompt.toPrompt(messages(self), options ?? {})

/**
 * Options of {@link fromPrompt} and {@link fromChat}.
 *
 * @category models
 * @since 0.1.0
 */
export interface PromptOptions {
  readonly tokenLimit?: number | undefined
}

/**
 * Reads a conversation from a prompt of `effect/ai`, checking every law.
 *
 * **Details**
 *
 * Each result of a tool message becomes a message. Messages that {@link toPrompt}
 * wrote with `lossless` keep their ids and times; others get new ones. Approval
 * parts are no history and are dropped. Indices in errors are those of the prompt.
 * With `onUnlawful: "repair"` a history that breaks laws is repaired instead of
 * refused, see {@link repair}.
 *
 * **Example** (A prompt that is no lawful history)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Prompt } from "effect/ai"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const prompt = Prompt.make([
 *   { role: "user", content: "Hello" },
 *   { role: "system", content: "Late" }
 * ])
 * const error = Effect.runSync(Effect.flip(Conversation.fromPrompt(prompt)))
 * assert.strictEqual(error.reason._tag, "MisplacedSystem")
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromPrompt: Reader<Prompt.Prompt, PromptOptions, ConversationError> = onUnlawful(
  (input, options) => reader.fromPrompt(input, options?.tokenLimit),
  (input, options) => reader.repaired(input, options?.tokenLimit)
)

/**
 * Reads a conversation from the history of a `Chat` of `effect/ai`, as
 * {@link fromPrompt} does.
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromChat: Reader<Chat.Chat, PromptOptions, ConversationError> = onUnlawful(
  (chat, options) => Effect.flatMap(Ref.get(chat.history), (prompt) => reader.fromPrompt(prompt, options?.tokenLimit)),
  (chat, options) => Effect.flatMap(Ref.get(chat.history), (prompt) => reader.repaired(prompt, options?.tokenLimit))
)

/**
 * Replaces the history of a `Chat` of `effect/ai`. The lossless form is written,
 * so that {@link fromChat} reads the same conversation back.
 *
 * **Example** (Handing a conversation to a chat)
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
} = dual(2, (self: Conversation, chat: Chat.Chat): Effect.Effect<void> =>
  Ref.set(chat.history, toPrompt(self, { lossless: true }))
)

/**
 * Schema of {@link Conversation}, to embed in other schemas: reads every version of
 * the wire, writes the newest. Histories that break a law do not decode.
 *
 * @category schemas
 * @since 0.1.0
 */
export const Conversation: Schema.Codec<Conversation, Schema.Json> = codec.schema

/**
 * Writes a conversation as versioned JSON.
 *
 * **Details**
 *
 * Fails where something must not be written: a `Redacted` value, a key that names
 * a secret in metadata or provider options, a key that no reader accepts, or more
 * than the limits allow to be read back.
 *
 * **Example** (Storing a conversation)
 *
 * ```ts
 * import { Effect, Equal } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const chat = yield* Conversation.addUser(Conversation.empty, "Hello")
 *   const text = yield* Conversation.encodeJson(chat)
 *   assert.strictEqual(JSON.parse(text).version, 1)
 *   return Equal.equals(yield* Conversation.decodeJson(text), chat)
 * })
 *
 * assert.strictEqual(Effect.runSync(program), true)
 * ```
 *
 * @category encoding
 * @since 0.1.0
 */
export const encode = (
  self: Conversation,
  options?: EncodeOptions
): Effect.Effect<JsonObject, PayloadError | LossyEncoding> => codec.encode(self, options)

/**
 * Like {@link encode}, as JSON text. `indent` is the number of spaces per level,
 * default 0.
 *
 * @category encoding
 * @since 0.1.0
 */
export const encodeJson = (
  self: Conversation,
  options?: EncodeOptions & { readonly indent?: number | undefined }
): Effect.Effect<string, PayloadError | LossyEncoding> => codec.encodeJson(self, options)

/**
 * Reads a conversation from JSON of any version, under the limits of `Limits`.
 *
 * **Details**
 *
 * Undeclared keys are refused. A history that breaks a law is an `Invalid` reason
 * with the path of the message, or, with `onUnlawful: "repair"`, repaired: the result
 * is then the conversation together with a list of what was changed, see
 * {@link repair}. Data that is no conversation at all is refused either way.
 *
 * **Example** (Repairing what is read)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const input = {
 *   version: 1,
 *   messages: [{
 *     role: "tool",
 *     id: "m1",
 *     createdAt: "2026-01-01T00:00:00.000Z",
 *     callId: "c1",
 *     name: "search",
 *     result: { _tag: "Failure", type: "not_found", message: "Nothing found" }
 *   }]
 * }
 * const refused = Effect.runSync(Effect.flip(Conversation.decode(input)))
 * assert.match(refused.message, /\/messages\/0/)
 *
 * const { repairs } = Effect.runSync(Conversation.decode(input, { onUnlawful: "repair" }))
 * assert.strictEqual(repairs[0]?._tag, "MessageDropped")
 * ```
 *
 * @category decoding
 * @since 0.1.0
 */
export const decode: Reader<unknown, DecodeOptions, PayloadError> = onUnlawful(codec.decode, repairing.decode)

/**
 * Like {@link decode}, from JSON text or bytes of UTF-8.
 *
 * @category decoding
 * @since 0.1.0
 */
export const decodeJson: Reader<string | Uint8Array, DecodeOptions, PayloadError> = onUnlawful(
  codec.decodeJson,
  repairing.decodeJson
)

/**
 * Makes a lawful conversation of messages, and says what had to be changed.
 *
 * **When to use**
 *
 * Use it on histories that other programs wrote: runs that were killed between a call
 * and its result, lists that were cut anywhere.
 *
 * **Details**
 *
 * Never fails. A lawful list is taken as it is. Otherwise, see `Repair.Repair`:
 * results without their call and second results are dropped, calls without a result
 * are sealed where the next turn begins (an open end stays open), repeated call ids
 * are relabelled together with their results, later system messages become user
 * messages.
 *
 * **Example** (A call that was never answered, a result that was never asked for)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Message, Part, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const { conversation, repairs } = yield* Conversation.repair([
 *     yield* Message.assistant([Part.toolCall({ id: "c1", name: "search", arguments: {} })]),
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
  options?: { readonly tokenLimit?: number | undefined; readonly staleUsage?: boolean | undefined }
): Effect.Effect<Repaired> => internalRepair.repair(messages, options ?? {})
