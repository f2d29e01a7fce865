/**
 * Conversations within limits of tokens, bytes and files: their size, the removal of old turns, and summaries in their place.
 */

import * as Effect from "effect/Effect"
import { dual, memoize } from "effect/Function"
import * as HashMap from "effect/HashMap"
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
 * `shortened` lists tool results whose middle was left out, or whose files were replaced by a line of text, in messages
 * with the same ids. `summary` is the message that replaces the removed messages.
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
 * `limit` is the limit that they pass, in tokens, bytes or files (`unit`), and `needed` the smallest limit that would
 * do.
 *
 * @category errors
 * @since 0.1.0
 */
export class ConversationTooLarge extends Schema.TaggedError<ConversationTooLarge>(
  "effect-emissary/conversation/ConversationTooLarge"
)("ConversationTooLarge", {
  needed: Schema.Number,
  limit: Schema.Number,
  unit: Schema.Literals(["tokens", "bytes", "files"])
}) {
  override get message(): string {
    const { limit, needed, unit } = this
    if (!(limit >= 0)) return `Limit of ${unit}: expected a number from 0, got ${limit}`
    return `Conversation too large: expected at most ${limit} ${unit} in what must stay (the system message, the messages since the newest user message, and the rest of the request), got ${needed}. Raise ${limitNames[unit]}, shorten the instructions or limit the outputs of tools`
  }
}

const limitNames = { tokens: "the limit of tokens", bytes: "maxBytes", files: "maxFiles" } as const

/**
 * A conversation within its limits, and what was done to it.
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
 * The newest answer with `usage.inputTokens` reports the size of its request, tools and everything else included. The
 * size here is that report, the output of the answer, and an estimate of the messages behind it. Without a reported
 * size everything is estimated with `TokenCounter`.
 *
 * After `truncate` and `compact` have removed something, older reports are about a
 * longer conversation; they stay on their messages for `tokenCount`. What the newest of them reported
 * beyond the estimate (files, another vocabulary) stays with the messages that are left, in proportion.
 *
 * A report that cannot be the size of its request is not believed: less than its own cached tokens, or less than a quarter of
 * the estimate of the texts.
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
    requestTokens(history.asHistory(self), options?.overhead ?? 0, scaleOf(counter))
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
 * Brings a conversation within a limit of tokens by giving up the least useful first.
 *
 * **Details**
 *
 * Nothing is done to a conversation whose {@link estimatedSize} is within the limit.
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
 * limit that would do.
 *
 * If a provider reported more tokens than the counter and the `overhead` have, each message has its share of the
 * difference, and takes it along when it is removed. A difference that no removal brings within the limit is
 * left out, because its cause is not known; the next report corrects the size. The cost is linear in the conversation; each message
 * is counted once.
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
 *   const { conversation, report } = yield* Conversation.truncate(chat, { maxTokens: 1000 })
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
  (options: TruncateOptions): (self: Conversation) => Effect.Effect<Reduction, ConversationTooLarge>
  (self: Conversation, options: TruncateOptions): Effect.Effect<Reduction, ConversationTooLarge>
} = dual(2, (self: Conversation, options: TruncateOptions) =>
  Effect.flatMap(TokenCounter.TokenCounter, (counter) =>
    Effect.fromResult(truncateHistory(history.asHistory(self), options, scaleOf(counter)))
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
  readonly maxTokens: number
  /** The most bytes that its texts and files may have, about as JSON has them; default: any number. */
  readonly maxBytes?: number | undefined
  /** The most files (pictures, documents) that it may have; default: any number. */
  readonly maxFiles?: number | undefined
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
    const scale = scaleOf(yield* TokenCounter.TokenCounter)
    const before = requestTokens(history.asHistory(self), 0, scale)
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
    const shares = sharesOf(history.asHistory(self), 0, scale)
    const beside = sumOf(all.map((message, index) => (isKept(message, index) ? (shares[index] ?? 0) : 0)))
    const inFront = all.slice(0, first).filter(isKept)
    const rest = all.filter(isKept).slice(inFront.length)
    const conversation = history.rebuild([...inFront, summary, ...rest], tokenLimit, beside)
    const report: ReductionReport = {
      before,
      after: requestTokens(conversation, 0, scale),
      removed: removed.map((message) => ({ id: message.id, role: message.role, tokens: scale.weigh(message).tokens })),
      shortened: [],
      summary: { id: summary.id, tokens: scale.weigh(summary).tokens }
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
 * Tests for the messages that stay when a conversation is cut at a position: the messages from there, the system
 * messages in front, and the newest message with new instructions.
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

/** The weight of a request or of a part of it. `texts` are the estimated tokens of everything except files. */
interface Weight {
  readonly tokens: number
  readonly texts: number
  readonly bytes: number
  readonly files: number
}

const none: Weight = { tokens: 0, texts: 0, bytes: 0, files: 0 }

/** A weight under way. */
type Sum = { -readonly [K in keyof Weight]: Weight[K] }

const add = (to: Sum, one: Weight, times: 1 | -1 = 1): void => {
  to.tokens += times * one.tokens
  to.texts += times * one.texts
  to.bytes += times * one.bytes
  to.files += times * one.files
}

/** Weighs each message once, and each conversation from the messages that are new in it, as long as the counter lives. */
interface Scale {
  readonly weigh: (message: Message) => Weight
  readonly total: (self: History) => Weight
}

const scaleOf = memoize((counter: TokenCounter.TokenCounter): Scale => {
  const weigh = memoize((message: Message) => messageWeight(counter, message))
  const totals = new WeakMap<history.Node, Weight>()
  const total = ({ last }: History): Weight => {
    const sum = { ...none }
    let node = last
    for (; node !== undefined && !totals.has(node); node = node.previous) add(sum, weigh(node.message))
    add(sum, (node && totals.get(node)) ?? none)
    if (last !== undefined) totals.set(last, sum)
    return sum
  }
  return { weigh, total }
})

const messageWeight = (counter: TokenCounter.TokenCounter, message: Message): Weight => {
  const sum: Sum = { tokens: messageOverhead, texts: messageOverhead, bytes: 0, files: 0 }
  if (message.role === "system") addText(sum, counter, message.content)
  else addParts(sum, counter, message.role === "tool" ? ToolResult.content(message.result) : message.content)
  return sum
}

const addText = (to: Sum, counter: TokenCounter.TokenCounter, text: string): void => {
  const tokens = counter.count(text)
  to.tokens += tokens
  to.texts += tokens
  to.bytes += text.length
}

const addParts = (to: Sum, counter: TokenCounter.TokenCounter, content: ReadonlyArray<AssistantPart>): void => {
  for (const part of content) addPart(to, counter, part)
}

const addPart = (to: Sum, counter: TokenCounter.TokenCounter, part: AssistantPart): void => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return addText(to, counter, part.text)
    case "file":
      return addFile(to, counter, part)
    case "tool-call":
      to.tokens += callOverhead
      to.texts += callOverhead
      addText(to, counter, part.name)
      return addText(to, counter, argumentText(part))
    case "tool-result":
      return addParts(to, counter, ToolResult.content(part.result))
    case "source":
  }
}

const argumentText = (part: ToolCallPart): string =>
  part.text ?? Option.getOrElse(modelMessages.stringifyJson(part.arguments), () => "")

const addFile = (to: Sum, counter: TokenCounter.TokenCounter, part: ToolResult.FilePart): void => {
  const { data, fileName } = part
  if (fileName !== undefined) addText(to, counter, fileName)
  to.tokens += fileTokens(part)
  to.bytes += data.type === "url" ? data.url.length : data.base64.length
  to.files += 1
}

const fileTokens = ({ data, mediaType }: ToolResult.FilePart): number => {
  if (mediaType.startsWith("image/")) return imageTokens
  if (data.type === "url") return documentTokens
  const bytes = Math.floor((data.base64.length * 3) / 4)
  return mediaType.startsWith("text/")
    ? Math.ceil(bytes / 4)
    : documentTokens * Math.max(1, Math.ceil(bytes / documentBytes))
}

/** The request of the answer, and the answer itself as far as it is sent back. */
const reportedTokens = (message: AssistantMessage, { weigh }: Scale): number => {
  const { inputTokens = 0, outputTokens, reasoningTokens = 0 } = message.usage ?? {}
  if (outputTokens === undefined) return inputTokens + weigh(message).tokens
  const isSentBack = message.content.some((part) => part.type === "reasoning")
  return inputTokens + Math.max(0, outputTokens - (isSentBack ? 0 : reasoningTokens))
}

/** A text has at least this part of the tokens of its estimate. */
const leastPart = 0.25

/**
 * The newest report, if it can be the size of its request: the tokens up to its answer as they are reported and by estimate, the
 * estimate of the messages behind, and their number.
 */
const reportOf = (self: History, scale: Scale) => {
  const { reported } = self
  if (reported === undefined) return undefined
  const since = history.messagesSince(self, reported)
  const behind = { ...none }
  for (const message of since) add(behind, scale.weigh(message))
  const counted = { ...scale.total(self) }
  add(counted, behind, -1)
  const tokens = reportedTokens(reported, scale)
  return tokens < counted.texts * leastPart
    ? undefined
    : { tokens, counted: counted.tokens, behind: behind.tokens, messages: since.length }
}

const defaultKeepOutput = 400

/** A message with its share of what a provider reported beyond the estimate. */
interface Entry {
  readonly message: Message
  /** By estimate. */
  readonly tokens: number
  readonly weight: Weight
  /** Its replacement, if that weighs less. */
  readonly short: { readonly message: ToolMessage; readonly tokens: number; readonly weight: Weight } | undefined
}

/** The entry of the message at this place, which is made once, and only where it is needed. */
type EntryAt = (message: Message, index: number) => Entry

const requestWeight = (self: History, overhead: number, scale: Scale): Weight => ({
  ...scale.total(self),
  tokens: requestTokens(self, overhead, scale)
})

type Limits = Omit<Weight, "texts">

const limitsOf = ({ maxBytes, maxFiles, maxTokens }: TruncateOptions): Limits => ({
  tokens: maxTokens,
  bytes: maxBytes ?? Number.POSITIVE_INFINITY,
  files: maxFiles ?? Number.POSITIVE_INFINITY
})

/** The unit in which a weight passes its limit. */
const passed = (weight: Weight, limits: Limits): keyof Limits | undefined => {
  if (!(weight.tokens <= limits.tokens)) return "tokens"
  if (!(weight.bytes <= limits.bytes)) return "bytes"
  return weight.files <= limits.files ? undefined : "files"
}

/** True for a conversation that {@link truncate} leaves as it is. */
export const fits = (self: Conversation, options: TruncateOptions): Effect.Effect<boolean> =>
  Effect.map(TokenCounter.TokenCounter, (counter) => {
    const weight = requestWeight(history.asHistory(self), options.overhead ?? 0, scaleOf(counter))
    return passed(weight, limitsOf(options)) === undefined
  })

const truncateHistory = (
  self: History,
  options: TruncateOptions,
  scale: Scale
): Result.Result<Reduction, ConversationTooLarge> => {
  const { overhead = 0 } = options
  const weight = requestWeight(self, overhead, scale)
  const limits = limitsOf(options)
  const before = weight.tokens
  if (passed(weight, limits) === undefined) {
    const report = { before, after: before, removed: [], shortened: [] }
    return Result.succeed({ conversation: self, report })
  }
  const shares = sharesOf(self, overhead, scale)
  const fitted = reduceTo(self, options, limits, scale, shares)
  // No message is the cause of what is left
  const isUnexplained = Result.isFailure(fitted) && fitted.failure.unit === "tokens" && shares.some((one) => one > 0)
  const reduced = isUnexplained ? reduceTo(self, options, limits, scale, []) : fitted
  return Result.map(reduced, ({ conversation, report }) => ({
    conversation,
    report: { ...report, before }
  }))
}

/** Gives up what is least useful, of messages with these shares. */
const reduceTo = (
  self: History,
  { keepOutput, overhead = 0 }: TruncateOptions,
  limits: Limits,
  scale: Scale,
  shares: ReadonlyArray<number>
): Result.Result<Reduction, ConversationTooLarge> => {
  const all = history.messages(self)
  const first = firstTurnIndex(all)
  const current = recentTurnsIndex(all, 1)
  const newest = all.findLastIndex((message) => message.role === "assistant")
  const keep = Math.max(0, Math.floor(keepOutput ?? defaultKeepOutput) || 0)
  const entries: Array<Entry | undefined> = Array.from({ length: all.length })
  const entryAt: EntryAt = (message, index) =>
    (entries[index] ??= entryOf(message, shares[index] ?? 0, index < newest ? keep : undefined, scale))
  const beside: Weight = { ...none, tokens: overhead }
  const stays = keptWith(all, current)
  const fixed = { ...beside }
  all.forEach((message, index) => {
    if (stays(message, index)) add(fixed, entryAt(message, index).weight)
  })
  const isKept = keptWith(all, firstKeptIndex(all, entryAt, first, current, stays, fixed, limits))
  const kept: Array<Entry> = []
  const removed: Array<Message> = []
  all.forEach((message, index) => {
    if (isKept(message, index)) kept.push(entryAt(message, index))
    else removed.push(message)
  })
  const { after, messages, shortened } = shortenOldest(kept, beside, limits)
  const unit = passed(after, limits)
  if (unit !== undefined)
    return Result.fail(new ConversationTooLarge({ needed: after[unit], limit: limits[unit], unit }))
  const report: ReductionReport = {
    before: after.tokens,
    after: after.tokens,
    removed: removed.map((message) => ({ id: message.id, role: message.role, tokens: scale.weigh(message).tokens })),
    shortened
  }
  const left = after.tokens - overhead - sumOf(messages.map((message) => scale.weigh(message).tokens))
  const known = Math.min(overhead, tokensBeside(self, 0, scale))
  return Result.succeed({ conversation: history.rebuild(messages, self.tokenLimit, known + left), report })
}

const sumOf = (numbers: ReadonlyArray<number>): number => numbers.reduce((sum, number) => sum + number, 0)

/** The newest report and an estimate of the messages behind it, or an estimate of all. */
const requestTokens = (self: History, overhead: number, scale: Scale): number => {
  const report = reportOf(self, scale)
  return report === undefined
    ? Math.max(overhead, self.beside ?? 0) + scale.total(self).tokens
    : report.tokens + report.behind
}

/** Tokens of a request beside the messages. A report contains them, with the tokens that the counter misses. */
const tokensBeside = (self: History, overhead: number, scale: Scale): number => {
  const report = reportOf(self, scale)
  return Math.max(overhead, report === undefined ? (self.beside ?? 0) : report.tokens - report.counted)
}

/** By message, its share of what a report had beyond the estimate. System messages in front have none: they always stay. */
const sharesOf = (self: History, overhead: number, scale: Scale): ReadonlyArray<number> => {
  const excess = tokensBeside(self, overhead, scale) - overhead
  if (!(excess > 0)) return []
  const all = history.messages(self)
  const first = firstTurnIndex(all)
  const end = all.length - (reportOf(self, scale)?.messages ?? 0)
  const weights = all.map((message, index) => (index < first || index >= end ? 0 : scale.weigh(message).tokens))
  const whole = sumOf(weights)
  if (whole === 0) return []
  let counted = 0
  let given = 0
  return weights.map((weight) => {
    counted += weight
    const share = Math.floor((excess * counted) / whole) - given
    given += share
    return share
  })
}

const entryOf = (message: Message, share: number, keep: number | undefined, { weigh }: Scale): Entry => {
  const own = weigh(message)
  const { tokens } = own
  const whole = share === 0 ? own : { ...own, tokens: tokens + share }
  const entry: Entry = { message, tokens, weight: whole, short: undefined }
  const short = keep === undefined || message.role !== "tool" ? undefined : shortenOutput(message, keep)
  if (short === undefined) return entry
  const less = weigh(short)
  if (less.tokens >= tokens) return entry
  const weight = { ...less, tokens: less.tokens + Math.floor((share * less.tokens) / tokens) }
  return { ...entry, short: { message: short, tokens: less.tokens, weight } }
}

const addAll = (start: Weight, entries: ReadonlyArray<Entry>): Sum => {
  const sum = { ...start }
  for (const { weight } of entries) add(sum, weight)
  return sum
}

/** Position of the oldest turn that fits when all outputs of old turns are short. */
const firstKeptIndex = (
  all: ReadonlyArray<Message>,
  entryAt: EntryAt,
  first: number,
  current: number,
  stays: Keeps,
  fixed: Weight,
  limits: Limits
) => {
  let kept = current
  const total = { ...fixed }
  for (let index = current - 1; index >= first; index--) {
    const message = all[index]
    if (message === undefined) continue
    if (!stays(message, index)) {
      const { short, weight } = entryAt(message, index)
      add(total, short?.weight ?? weight)
    }
    if (passed(total, limits) !== undefined) return kept
    if (message.role === "user" || index === first) kept = index
  }
  return kept
}

const shortenOldest = (entries: ReadonlyArray<Entry>, beside: Weight, limits: Limits) => {
  const messages: Array<Message> = []
  const shortened: Array<ShortenedOutput> = []
  const after = addAll(beside, entries)
  for (const { message, short, tokens, weight } of entries) {
    const isKept = short === undefined || passed(after, limits) === undefined
    messages.push(isKept ? message : short.message)
    if (isKept) continue
    const { callId, id, name } = short.message
    shortened.push({ id, callId, name, before: tokens, after: short.tokens })
    add(after, weight, -1)
    add(after, short.weight)
  }
  return { messages, shortened, after }
}
