/**
 * Conversations within a budget of tokens: their size, the removal of old turns, and summaries in their place.
 */

import * as Effect from "effect/Effect"
import { dual, memoize } from "effect/Function"
import * as HashMap from "effect/HashMap"
import * as Num from "effect/Number"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as ToolResult from "../../tool/ToolResult.ts"
import { ConversationError } from "../ConversationError.ts"
import * as TokenCounter from "../TokenCounter.ts"
import * as history from "./history.ts"
import type {
  AssistantMessage,
  AssistantPart,
  Conversation,
  History,
  Message,
  ToolCallPart,
  ToolMessage
} from "./history.ts"
import * as modelMessages from "./modelMessages.ts"

const ShortenedOutput = Schema.Struct({
  id: Schema.String,
  callId: Schema.String,
  name: Schema.String,
  before: Schema.Number,
  after: Schema.Number
})

type ShortenedOutput = typeof ShortenedOutput.Type

/**
 * The messages that were removed, shortened and put in their place, oldest first, and
 * the tokens of the conversation before and after, as {@link estimatedSize} estimates
 * them.
 *
 * **Details**
 *
 * `shortened` lists tool results of which the middle was left out, or whose files were
 * replaced by a line of text, in messages with the same ids. `summary` is the message that replaces the removed ones.
 *
 * @category models
 * @since 0.1.0
 */
export const ReductionReport = Schema.Struct({
  before: Schema.Number,
  after: Schema.Number,
  removed: Schema.Array(
    Schema.Struct({
      id: Schema.String,
      role: Schema.Literals(["system", "user", "assistant", "tool"]),
      tokens: Schema.Number
    })
  ),
  shortened: Schema.Array(ShortenedOutput),
  summary: Schema.optionalKey(Schema.Struct({ id: Schema.String, tokens: Schema.Number }))
}).annotate({ identifier: "ReductionReport" })

/** @since 0.1.0 */
export interface ReductionReport extends Schema.Schema.Type<typeof ReductionReport> {}

/**
 * `true` if nothing was changed.
 *
 * @category guards
 * @since 0.1.0
 */
export const isUnchanged = (self: ReductionReport): boolean =>
  self.removed.length === 0 && self.shortened.length === 0 && self.summary === undefined

/**
 * The messages that must stay do not fit: the system message, the current run, and
 * the results that the model has not seen yet.
 *
 * **Details**
 *
 * `needed` is the smallest budget that would do.
 *
 * @category errors
 * @since 0.1.0
 */
export class BudgetTooSmall extends Schema.TaggedError<BudgetTooSmall>("effect-emissary/conversation/BudgetTooSmall")(
  "BudgetTooSmall",
  { needed: Schema.Number, budget: Schema.Number }
) {
  override get message(): string {
    if (!(this.budget >= 0)) return `Budget of tokens: expected a number from 0, got ${this.budget}`
    return `Budget too small: expected at most ${this.budget} tokens in what must stay (the system message, the messages since the newest user message, and the rest of the request), got ${this.needed}. Raise the budget, shorten the instructions or limit the outputs of tools`
  }
}

/**
 * A conversation within its budget, and what was done to it.
 *
 * @category models
 * @since 0.1.0
 */
export interface Reduction {
  readonly conversation: Conversation
  readonly report: ReductionReport
}

/**
 * The tokens of the next request.
 *
 * **Details**
 *
 * The newest answer with `usage.inputTokens` reports its request, tools and everything
 * else included. The size is that report, its output, and an estimate of the messages
 * behind it. Without such an answer everything is estimated with `TokenCounter`.
 *
 * After `truncate` and `compact` have removed something, older reports are about a
 * longer conversation; they stay on their messages for `tokenCount`. What the newest of them reported
 * beyond the messages (tool definitions, another vocabulary) is still part of the size, as is an `overhead`
 * that is larger.
 *
 * **Example** (Input is not counted twice)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   let chat = yield* Conversation.make({ system: "Be brief." })
 *   chat = yield* Conversation.addUser(chat, "One")
 *   chat = yield* Conversation.addAssistant(chat, "1", { usage: { inputTokens: 1000, outputTokens: 10 } })
 *   chat = yield* Conversation.addUser(chat, "Two")
 *   chat = yield* Conversation.addAssistant(chat, "2", { usage: { inputTokens: 1020, outputTokens: 10 } })
 *   assert.strictEqual(Conversation.tokenCount(chat), 2040)
 *   return yield* Conversation.estimatedSize(chat)
 * })
 *
 * assert.strictEqual(Effect.runSync(program), 1030)
 * ```
 *
 * @category tokens
 * @since 0.1.0
 */
export const estimatedSize: {
  (options?: SizeOptions): (self: Conversation) => Effect.Effect<number>
  (self: Conversation, options?: SizeOptions): Effect.Effect<number>
} = dual(history.firstIsConversation, (self: Conversation, options?: SizeOptions) =>
  Effect.map(TokenCounter.TokenCounter, (counter) =>
    requestTokens(history.asHistory(self), options?.overhead ?? 0, weigherOf(counter))
  )
)

/**
 * Options of {@link estimatedSize}.
 *
 * @category options
 * @since 0.1.0
 */
export interface SizeOptions {
  /**
   * Tokens of the parts of a request beside the conversation, tool definitions for
   * example; default 0. Not added to a report of the provider, which contains them.
   */
  readonly overhead?: number | undefined
}

/**
 * Brings a conversation within a budget of tokens by giving up the least useful first.
 *
 * **Details**
 *
 * Nothing is done to a conversation whose {@link estimatedSize} is within the budget.
 * Otherwise, until it is:
 *
 * 1. tool outputs of old turns are shortened, oldest first, to their beginning and
 *    end with a marker between that counts the missing characters;
 * 2. old turns are removed, oldest first, calls together with their results;
 * 3. tool outputs of the current run are shortened, oldest first.
 *
 * The system message in front, every message since the newest user message and open calls
 * always stay, and no result is shortened before the model has answered it. Kept
 * messages keep their ids and their order. When that is too much, the error has the
 * budget that would do.
 *
 * If a provider reported more tokens than the counter finds, the difference (tool
 * definitions, another vocabulary) is expected in the next request too. The cost is linear in the
 * conversation; each message is counted once.
 *
 * **Example** (A long tool output is shortened)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Message, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   let chat = yield* Conversation.make({ system: "You read logs." })
 *   chat = yield* Conversation.addUser(chat, "What happened yesterday?")
 *   chat = yield* Conversation.addAssistant(chat, [Message.toolCallPart({ id: "c1", name: "read_log", arguments: {} })])
 *   chat = yield* Conversation.addToolResult(chat, {
 *     callId: "c1",
 *     result: ToolResult.success("all quiet\n".repeat(2000))
 *   })
 *   chat = yield* Conversation.addAssistant(chat, "Nothing.")
 *   chat = yield* Conversation.addUser(chat, "And today?")
 *
 *   const { conversation, report } = yield* Conversation.truncate(chat, { budget: 1000 })
 *   assert.deepStrictEqual(report.shortened.map((one) => one.callId), ["c1"])
 *   assert.deepStrictEqual(report.removed, [])
 *   assert.strictEqual(Conversation.messageCount(conversation), 6)
 *   assert((yield* Conversation.estimatedSize(conversation)) <= 1000)
 * })
 *
 * Effect.runSync(program)
 * ```
 *
 * @category tokens
 * @since 0.1.0
 */
export const truncate: {
  (options: TruncateOptions): (self: Conversation) => Effect.Effect<Reduction, BudgetTooSmall>
  (self: Conversation, options: TruncateOptions): Effect.Effect<Reduction, BudgetTooSmall>
} = dual(2, (self: Conversation, options: TruncateOptions) =>
  Effect.flatMap(TokenCounter.TokenCounter, (counter) =>
    Effect.fromResult(truncateHistory(history.asHistory(self), options, weigherOf(counter)))
  )
)

/**
 * Options of {@link truncate}.
 *
 * @category options
 * @since 0.1.0
 */
export interface TruncateOptions extends SizeOptions {
  /** The most tokens that the next request may weigh. */
  readonly budget: number
  /** The number of characters that stay of a shortened tool output, default 400; a number below 0 counts as 0. Texts up to twice as long, and a marker, are left alone; files never are. */
  readonly keepOutput?: number | undefined
}

/**
 * Drops old turns.
 *
 * **Details**
 *
 * A turn starts at a user message and ends before the next one, so calls and
 * their results stay together. Messages before the first user message are a turn
 * of their own. The token limit has no effect. `removed` is oldest first.
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
 * const { conversation, removed } = Result.getOrThrow(Conversation.dropOldTurns(chat, { keepRecent: 1 }))
 * assert.strictEqual(Conversation.messageCount(conversation), 3)
 * assert.strictEqual(removed.length, 2)
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const dropOldTurns: {
  (options: DropOldTurnsOptions): (self: Conversation) => Result.Result<DroppedTurns, ConversationError>
  (self: Conversation, options: DropOldTurnsOptions): Result.Result<DroppedTurns, ConversationError>
} = dual(
  2,
  (
    self: Conversation,
    { keepRecent, keepSystemPrompt = true }: DropOldTurnsOptions
  ): Result.Result<DroppedTurns, ConversationError> => {
    if (keepRecent !== undefined && !isTurnCount(keepRecent)) return Result.fail(invalidKeepRecent(keepRecent))
    const all = history.messages(self)
    const first = firstTurnIndex(all)
    const from = keepRecent === undefined ? first : recentTurnsIndex(all, keepRecent)
    const isKept: Keeps = keepSystemPrompt ? keptWith(all, from) : (_, index) => index >= from
    const removed = all.filter((message, index) => !isKept(message, index))
    if ((keepSystemPrompt && from === first) || removed.length === 0) {
      return Result.succeed({ conversation: self, removed: [] })
    }
    const { beside, tokenLimit } = history.asHistory(self)
    const conversation = history.rebuild(all.filter(isKept), tokenLimit, beside)
    return Result.succeed({ conversation, removed })
  }
)

/**
 * Options of {@link dropOldTurns}.
 *
 * @category options
 * @since 0.1.0
 */
export interface DropOldTurnsOptions {
  /** Turns to keep, an integer from 0; absent keeps all. */
  readonly keepRecent?: number | undefined
  /** `false` removes the system message too; default `true`. */
  readonly keepSystemPrompt?: boolean | undefined
}

/**
 * A conversation without its old turns, and the messages that were removed.
 *
 * @category models
 * @since 0.1.0
 */
export interface DroppedTurns {
  readonly conversation: Conversation
  readonly removed: ReadonlyArray<Message>
}

const isTurnCount = (keepRecent: number): boolean => Number.isInteger(keepRecent) && keepRecent >= 0

const invalidKeepRecent = (found: number): ConversationError =>
  new ConversationError({ reason: { _tag: "InvalidKeepRecent", found: String(found) } })

/**
 * Replaces old turns by a summary.
 *
 * **Details**
 *
 * The summary is a user message behind the system message, marked in its metadata, so
 * that the next `compact` summarizes it together with the turns that have become old
 * by then. Nothing is done, and `summarize` is not run, when there are no old turns,
 * or nothing but a summary is old. An empty summary fails with the reason
 * `EmptySummary`, because it would lose the old turns.
 *
 * **Gotchas**
 *
 * The summary may be longer than the messages it replaces: compare `before` and
 * `after` of the report. `summarize` reads the outputs of tools, so a text from
 * outside that asks for something may enter the summary.
 *
 * **Example** (A summary by an Effect of your own)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   let chat = yield* Conversation.make({ system: "Be brief." })
 *   chat = yield* Conversation.addUser(chat, "My name is Ada.")
 *   chat = yield* Conversation.addAssistant(chat, "Hello, Ada.")
 *   chat = yield* Conversation.addUser(chat, "What is 2 + 2?")
 *
 *   const { conversation, report } = yield* Conversation.compact(chat, {
 *     keepRecent: 1,
 *     summarize: (old) => Effect.succeed(`${Conversation.messageCount(old)} messages: the user is Ada.`)
 *   })
 *   assert.strictEqual(report.removed.length, 2)
 *   return Conversation.messages(conversation).map(Message.text)
 * })
 *
 * assert.deepStrictEqual(Effect.runSync(program), [
 *   "Be brief.",
 *   "Summary of the conversation so far:\n\n2 messages: the user is Ada.",
 *   "What is 2 + 2?"
 * ])
 * ```
 *
 * @category tokens
 * @since 0.1.0
 */
export const compact: {
  <E, R>(options: CompactOptions<E, R>): (self: Conversation) => Effect.Effect<Reduction, ConversationError | E, R>
  <E, R>(self: Conversation, options: CompactOptions<E, R>): Effect.Effect<Reduction, ConversationError | E, R>
} = dual(
  2,
  Effect.fnUntraced(function* <E, R>(self: Conversation, { keepRecent, summarize }: CompactOptions<E, R>) {
    if (!isTurnCount(keepRecent)) return yield* invalidKeepRecent(keepRecent)
    const { open, providerOpen, tokenLimit } = history.asHistory(self)
    const weigh = weigherOf(yield* TokenCounter.TokenCounter)
    const before = requestTokens(history.asHistory(self), 0, weigh)
    const all = history.messages(self)
    const first = firstTurnIndex(all)
    const isOpen = !HashMap.isEmpty(open) || !HashMap.isEmpty(providerOpen)
    const from = recentTurnsIndex(all, isOpen ? Math.max(1, keepRecent) : keepRecent)
    const isKept = keptWith(all, from)
    const removed = all.filter((message, index) => !isKept(message, index))
    const old = removed.filter((message) => !history.isReplacing(message))
    const isSummary = old.length === 1 && old.every((message) => history.hasMark(message, history.summaryMark))
    if (old.length === 0 || isSummary) {
      return { conversation: self, report: { before, after: before, removed: [], shortened: [] } }
    }
    const text = yield* summarize(history.rebuild(old, undefined))
    if (text.trim() === "") {
      return yield* new ConversationError({ reason: { _tag: "EmptySummary", messages: old.length } })
    }
    const summary = yield* history.user(`Summary of the conversation so far:\n\n${text}`, {
      metadata: { [history.summaryMark]: old.length }
    })
    const beside = tokensBeside(history.asHistory(self), 0, weigh)
    const inFront = all.slice(0, first).filter(isKept)
    const rest = all.filter(isKept).slice(inFront.length)
    const conversation = history.rebuild([...inFront, summary, ...rest], tokenLimit, beside)
    const report: ReductionReport = {
      before,
      after: requestTokens(conversation, 0, weigh),
      removed: removed.map((message) => ({ id: message.id, role: message.role, tokens: weigh(message) })),
      shortened: [],
      summary: { id: summary.id, tokens: weigh(summary) }
    }
    return { conversation, report }
  })
)

/**
 * Options of {@link compact}.
 *
 * @category options
 * @since 0.1.0
 */
export interface CompactOptions<out E, out R> {
  /** Turns to keep as they are, an integer from 0. A turn with open calls is kept in any case. */
  readonly keepRecent: number
  /**
   * Makes the summary of the old turns. They come as a lawful conversation without
   * the system message, and begin with the last summary if there was one.
   */
  readonly summarize: (old: Conversation) => Effect.Effect<string, E, R>
}

/** Position of the first message behind the system messages in front. */
const firstTurnIndex = (all: ReadonlyArray<Message>): number => history.systemInFront(all).length

type Keeps = (message: Message, index: number) => boolean

/**
 * Tests for the messages that stay with those from a position on: the system messages in front, and of messages with new
 * instructions the newest one.
 */
export const keptWith = (all: ReadonlyArray<Message>, from: number): Keeps => {
  const first = firstTurnIndex(all)
  const newest = all.findLastIndex(history.isReplacing)
  return (message, index) => index >= from || index === newest || (index < first && !history.isReplacing(message))
}

/** Position of the first of the newest `keepRecent` turns. */
const recentTurnsIndex = (all: ReadonlyArray<Message>, keepRecent: number): number => {
  const start = firstTurnIndex(all)
  let turns = 0
  let index = all.length
  while (index > start && turns < keepRecent) {
    index -= 1
    if (all[index]?.role === "user") turns += 1
  }
  // The messages in front of the first user message are one more turn
  return turns < keepRecent ? start : index
}

/** The message with the beginning and the end of its output, where that saves enough. */
const shortenOutput = (message: ToolMessage, keep: number): ToolMessage | undefined => {
  const content = ToolResult.content(message.result)
  const text = ToolResult.text(message.result)
  const isLong = text.length > 2 * keep + longestMarkerLength
  if (!isLong && content.every((part) => part.type === "text")) return undefined
  const short = isLong ? cutMiddle(text, keep) : text
  return history.freeze({ ...message, result: replaceText(message.result, short) })
}

const replaceText = (result: ToolResult.ToolResult, text: string): ToolResult.ToolResult =>
  result._tag === "Failure" ? ToolResult.failure(result.type, text) : ToolResult.success(text)

const omissionMarker = (characters: number): string => `\n[... ${characters} characters left out ...]\n`

/** Room for the marker, so that an output that was shortened already is left alone. */
const longestMarkerLength = omissionMarker(Number.MAX_SAFE_INTEGER).length

/** Two thirds from the beginning, a third from the end, because errors tend to be there. */
const cutMiddle = (text: string, keep: number): string => {
  const tail = Math.floor(keep / 3)
  const from = history.characterBoundary(text, keep - tail)
  const to = history.characterBoundary(text, text.length - tail)
  return `${text.slice(0, from)}${omissionMarker(to - from)}${text.slice(to)}`
}

/** Role and separators. */
const messageOverhead = 4

/** Tokens that providers write around the name and the arguments of a call. */
const callOverhead = 8

const imageTokens = 1600

const documentTokens = 2500

const documentBytes = 50_000

type Weigher = (message: Message) => number

/** Counts each message once, as long as the counter lives. */
const weigherOf = memoize((counter: TokenCounter.TokenCounter): Weigher =>
  memoize((message) => messageOverhead + contentTokens(counter, message))
)

const contentTokens = (counter: TokenCounter.TokenCounter, message: Message): number => {
  switch (message.role) {
    case "system":
      return counter.count(message.content)
    case "tool":
      return partsTokens(counter, ToolResult.content(message.result))
    default:
      return partsTokens(counter, message.content)
  }
}

const partsTokens = (counter: TokenCounter.TokenCounter, content: ReadonlyArray<AssistantPart>): number =>
  Num.sumAll(content.map((part) => partTokens(counter, part)))

const partTokens = (counter: TokenCounter.TokenCounter, part: AssistantPart): number => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return counter.count(part.text)
    case "file":
      return fileTokens(counter, part)
    case "tool-call":
      return callOverhead + counter.count(part.name) + counter.count(argumentText(part))
    case "tool-result":
      return partsTokens(counter, ToolResult.content(part.result))
    case "source":
      return 0
  }
}

const argumentText = (part: ToolCallPart): string =>
  part.text ?? Option.getOrElse(modelMessages.stringifyJson(part.arguments), () => "")

const fileTokens = (counter: TokenCounter.TokenCounter, { data, fileName, mediaType }: ToolResult.FilePart): number => {
  const named = fileName === undefined ? 0 : counter.count(fileName)
  if (mediaType.startsWith("image/")) return named + imageTokens
  if (data.type === "url") return named + documentTokens
  const bytes = Math.floor((data.base64.length * 3) / 4)
  return mediaType.startsWith("text/")
    ? named + Math.ceil(bytes / 4)
    : named + documentTokens * Math.max(1, Math.ceil(bytes / documentBytes))
}

const sumTokens = (messages: ReadonlyArray<Message>, weigh: Weigher): number => Num.sumAll(messages.map(weigh))

/** The request of the answer, and the answer itself as far as it is sent back. */
const reportedTokens = (message: AssistantMessage, weigh: Weigher): number => {
  const { inputTokens = 0, outputTokens, reasoningTokens = 0 } = message.usage ?? {}
  if (outputTokens === undefined) return inputTokens + weigh(message)
  const isSentBack = message.content.some((part) => part.type === "reasoning")
  return inputTokens + Math.max(0, outputTokens - (isSentBack ? 0 : reasoningTokens))
}

const defaultKeepOutput = 400

interface WeighedMessage {
  readonly message: Message
  readonly tokens: number
  /** Its replacement, if that weighs less. */
  readonly short: ToolMessage | undefined
  readonly shortTokens: number
}

const truncateHistory = (
  self: History,
  options: TruncateOptions,
  weigh: Weigher
): Result.Result<Reduction, BudgetTooSmall> => {
  const { budget, overhead = 0 } = options
  const before = requestTokens(self, overhead, weigh)
  if (before <= budget) {
    return Result.succeed({ conversation: self, report: { before, after: before, removed: [], shortened: [] } })
  }
  const all = history.messages(self)
  const first = firstTurnIndex(all)
  const current = recentTurnsIndex(all, 1)
  const newest = all.findLastIndex((message) => message.role === "assistant")
  const keep = Math.max(0, Math.floor(options.keepOutput ?? defaultKeepOutput) || 0)
  const entries = all.map((message, index) => weighMessage(message, index < newest ? keep : undefined, weigh))

  const beside = tokensBeside(self, overhead, weigh)
  const stays = keptWith(all, current)
  const fixed = beside + sumWeighed(entries.filter(({ message }, index) => stays(message, index)))
  const from = firstKeptIndex(entries, first, current, stays, budget - fixed)
  const isKept = keptWith(all, from)
  const kept = entries.filter(({ message }, index) => isKept(message, index))
  const removed = entries.filter(({ message }, index) => !isKept(message, index))
  const { after, messages, shortened } = shortenOldest(kept, beside, budget)
  if (!(after <= budget)) return Result.fail(new BudgetTooSmall({ needed: after, budget }))

  const report: ReductionReport = {
    before,
    after,
    removed: removed.map(({ message, tokens }) => ({ id: message.id, role: message.role, tokens })),
    shortened
  }
  const conversation = history.rebuild(messages, self.tokenLimit, tokensBeside(self, 0, weigh))
  return Result.succeed({ conversation, report })
}

/** The newest report and an estimate of the messages behind it, or an estimate of all. */
const requestTokens = (self: History, overhead: number, weigh: Weigher): number =>
  self.reported === undefined
    ? tokensBeside(self, overhead, weigh) + sumTokens(history.messages(self), weigh)
    : reportedTokens(self.reported, weigh) + sumTokens(history.messagesSince(self, self.reported), weigh)

/** Tokens of a request beside the messages. A report contains them, with the tokens that the counter misses. */
const tokensBeside = (self: History, overhead: number, weigh: Weigher): number => {
  const { beside = 0, reported } = self
  if (reported === undefined) return Math.max(overhead, beside)
  const behind = sumTokens(history.messagesSince(self, reported), weigh)
  const counted = sumTokens(history.messages(self), weigh) - behind
  return Math.max(overhead, reportedTokens(reported, weigh) - counted)
}

const weighMessage = (message: Message, keep: number | undefined, weigh: Weigher): WeighedMessage => {
  const tokens = weigh(message)
  const short = keep === undefined || message.role !== "tool" ? undefined : shortenOutput(message, keep)
  const shortTokens = short === undefined ? tokens : weigh(short)
  return shortTokens < tokens
    ? { message, tokens, short, shortTokens }
    : { message, tokens, short: undefined, shortTokens: tokens }
}

const sumWeighed = (entries: ReadonlyArray<WeighedMessage>): number => Num.sumAll(entries.map(({ tokens }) => tokens))

/** Position of the oldest turn that fits when all outputs of old turns are short. */
const firstKeptIndex = (
  entries: ReadonlyArray<WeighedMessage>,
  first: number,
  current: number,
  stays: Keeps,
  room: number
) => {
  let kept = current
  let tokens = 0
  for (let index = current - 1; index >= first; index--) {
    const one = entries[index]
    if (one === undefined) continue
    if (!stays(one.message, index)) tokens += one.shortTokens
    if (!(tokens <= room)) return kept
    if (one.message.role === "user" || index === first) kept = index
  }
  return kept
}

const shortenOldest = (entries: ReadonlyArray<WeighedMessage>, beside: number, budget: number) => {
  const messages: Array<Message> = []
  const shortened: Array<ShortenedOutput> = []
  let after = beside + sumWeighed(entries)
  for (const { message, short, shortTokens, tokens } of entries) {
    const isKept = short === undefined || after <= budget
    messages.push(isKept ? message : short)
    if (isKept) continue
    shortened.push({ id: short.id, callId: short.callId, name: short.name, before: tokens, after: shortTokens })
    after += shortTokens - tokens
  }
  return { messages, shortened, after }
}
