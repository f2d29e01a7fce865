/**
 * Messages, and the state of a conversation: its messages and the laws between them.
 */

import * as Context from "effect/Context"
import * as Clock from "effect/Clock"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import * as Exit from "effect/Exit"
import { dual } from "effect/Function"
import { format } from "effect/Formatter"
import * as Hash from "effect/Hash"
import * as HashMap from "effect/HashMap"
import * as Inspectable from "effect/Inspectable"
import * as EffectIterable from "effect/Iterable"
import * as Option from "effect/Option"
import * as Pipeable from "effect/Pipeable"
import * as Predicate from "effect/Predicate"
import * as Random from "effect/Random"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as IdGenerator from "effect/ai/IdGenerator"
import type * as Prompt from "effect/ai/Prompt"
import * as Limits from "../../payload/Limits.ts"
import { kindKey, replacedBy, replacing } from "../../payload/internal/messageOrder.ts"
import { defined, equalsJson } from "../../payload/internal/values.ts"
import { isSparse, maxUnshared, maxWeight, mostDense, weigh, wellFormedness } from "../../payload/internal/weigh.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as callContext from "../../tool/internal/callContext.ts"
import { ConversationError, type Reason } from "../ConversationError.ts"

// Messages

const idAlphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

/** Eight letters of one draw: a double has more than the 48 bits that they need. */
const randomLetters = (draw: number): string => {
  const letters = [0, 0, 0, 0, 0, 0, 0, 0]
  let rest = draw
  for (let i = 0; i < letters.length; i++) {
    rest *= idAlphabet.length
    const index = Math.floor(rest)
    letters[i] = idAlphabet.charCodeAt(index)
    rest -= index
  }
  return String.fromCharCode(...letters)
}

const randomId = (random: Effect.Success<typeof Random.Random>): string =>
  `msg_${randomLetters(random.nextDoubleUnsafe())}${randomLetters(random.nextDoubleUnsafe())}`

const ambientId = Effect.withFiber<string>((fiber) =>
  Option.match(Context.getOption(fiber.context, IdGenerator.IdGenerator), {
    onNone: () => Effect.succeed(randomId(fiber.getRef(Random.Random))),
    onSome: (generator) => generator.generateId()
  })
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
  callContext.keys.messageId,
  { defaultValue: () => ambientId }
)

const TokenCount = Schema.optionalKey(Schema.Int.check(Schema.isGreaterThanOrEqualTo(0)))

/**
 * Token counts of one model call. Every count is optional: providers report what
 * they like.
 *
 * **Details**
 *
 * `inputTokens` counts everything the model read, tokens read from or written to
 * a cache included; `outputTokens` everything it wrote, reasoning included. `estimated` marks counts that, at least in part,
 * come from `TokenCounter`: no provider reports the tokens of an answer that was cut off.
 *
 * @category models
 * @since 0.1.0
 */
export const TokenUsage = Schema.Struct({
  inputTokens: TokenCount,
  outputTokens: TokenCount,
  cacheReadTokens: TokenCount,
  cacheWriteTokens: TokenCount,
  reasoningTokens: TokenCount,
  estimated: Schema.optionalKey(Schema.Literal(true))
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
    if (usage.estimated === true) total.estimated = true
    for (const key of usageKeys) {
      const count = usage[key]
      if (count !== undefined) total[key] = Math.min((total[key] ?? 0) + count, Number.MAX_SAFE_INTEGER)
    }
  }
  return total
}

/** The usage in `after` that `before` lacks, or nothing where they are the same. */
export const usageDifference = (after: TokenUsage, before: TokenUsage): TokenUsage | undefined => {
  const entries = usageKeys.flatMap((field): ReadonlyArray<[(typeof usageKeys)[number], number]> => {
    const value = after[field]
    return value === undefined || value === before[field] ? [] : [[field, value - (before[field] ?? 0)]]
  })
  return entries.length === 0 ? undefined : Object.fromEntries(entries)
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

// Arguments as they arrive from models

export interface CallArguments {
  readonly arguments: Schema.Json
  readonly text?: string
}

export const parseCallArguments = (text: string): CallArguments => {
  if (text.trim() === "") return { arguments: {}, text }
  return Result.match(
    Result.try((): Schema.Json => JSON.parse(text)),
    {
      onFailure: () => textArguments(text),
      onSuccess: (json) => {
        const stored = storable(json, isWhole(text))
        if (stored === undefined) return textArguments(text)
        // The text of arguments with half a character is the text of other arguments
        return stored === json ? { arguments: json, text } : { arguments: stored }
      }
    }
  )
}

export const textArguments = (text: string): CallArguments => {
  const mended = text.toWellFormed()
  return { arguments: mended, text: mended }
}

/** True for JSON text without half a character, as such or as an escape. */
const isWhole = (text: string): boolean => !text.includes("\\u") && text.isWellFormed()

// The rest is for the JSON around it: messages, events, events of children
const maxDepth = Limits.defaults.maxDepth / 2

/**
 * The value, well-formed, or `undefined` where codecs do not accept the value. A model must not be able to write a value that
 * keeps a run from being stored: such arguments stay text, and the tool's validation
 * rejects them.
 */
export const storable = (json: unknown, isKnownWhole: boolean = false): Schema.Json | undefined => {
  if (!isJson(json)) return undefined
  if (isKnownWhole) return json
  const form = wellFormedness(json)
  if (form === "mendable") return own({ json }).json
  return form === "well-formed" ? json : undefined
}

const isJson = (value: unknown): value is Schema.Json =>
  weigh(value, maxWeight, maxDepth, "json") < Number.POSITIVE_INFINITY

/** True for a call without argument text, and for a call whose text has the value of its arguments. */
export const textFitsArguments = ({ arguments: args, text }: CallArguments): boolean => {
  if (text === undefined || text === args) return true
  const parsed = parseCallArguments(text).arguments
  return equalsJson(parsed, args) || equalsJson(parsed, mend(args))
}

const textOfArguments = Schema.makeFilter<CallArguments>((call) =>
  textFitsArguments(call) ? undefined : { path: ["text"], issue: "the JSON text of the arguments of the call" }
)

/**
 * The model asks for a tool.
 *
 * **Details**
 *
 * `arguments` are the parsed arguments, an object in all but malformed calls.
 * `text` is the argument text as it was received, where it was received as text:
 * renderers send it back byte by byte, which keeps the provider's prompt cache
 * warm. Text that does not parse appears in both fields. A call with the text of other
 * arguments is refused wherever it is read, and by the conversation that it is added to.
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
})
  .check(textOfArguments)
  .annotate({ identifier: "ToolCallPart" })

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
 * A source that the model used, a page that it found for example, to show with the text before it.
 *
 * **Details**
 *
 * Sources are kept, stored and streamed with their message. They are never sent to a model, because neither prompts nor the
 * formats of providers have a place for them.
 *
 * @category models
 * @since 0.1.0
 */
export const SourcePart = Schema.Struct({
  type: Schema.Literal("source"),
  id: Schema.String,
  title: Schema.optionalKey(Schema.String),
  data: Schema.Union([
    Schema.Struct({ type: Schema.Literal("url"), url: Schema.String }),
    Schema.Struct({
      type: Schema.Literal("document"),
      mediaType: Schema.String,
      fileName: Schema.optionalKey(Schema.String)
    })
  ]),
  options: ProviderOptions
}).annotate({ identifier: "SourcePart" })

/** @since 0.1.0 */
export interface SourcePart extends Schema.Schema.Type<typeof SourcePart> {}

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
  SourcePart,
  ToolCallPart,
  ToolResultPart
])

/** @since 0.1.0 */
export type AssistantPart = typeof AssistantPart.Type

const baseFields = {
  id: Schema.String,
  createdAt: Schema.DateTimeUtcFromString,
  usage: Schema.optionalKey(TokenUsage),
  options: ProviderOptions,
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json))
}

/**
 * Instructions for the model: in front of a conversation, or later ones.
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
 * **Details**
 *
 * `response` is what the provider reported about the answer: its `id` and time there, and the
 * metadata of the whole response, by provider. The metadata is sent back in the options of
 * the message. `finishReason` comes from the provider, or is `"interrupted"` for an answer that was cut off because its run was
 * stopped.
 *
 * @category models
 * @since 0.1.0
 */
export const AssistantMessage = Schema.Struct({
  role: Schema.Literal("assistant"),
  ...baseFields,
  content: Schema.Array(AssistantPart),
  model: Schema.optionalKey(Schema.String),
  finishReason: Schema.optionalKey(Schema.String),
  response: Schema.optionalKey(
    Schema.Struct({
      id: Schema.optionalKey(Schema.String),
      createdAt: Schema.optionalKey(Schema.DateTimeUtcFromString),
      metadata: ProviderOptions
    })
  )
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
 * One entry of a conversation. The schema checks one message by itself; `Conversation` checks the laws between
 * messages.
 *
 * @category models
 * @since 0.1.0
 */
export const Message = Schema.Union([SystemMessage, UserMessage, AssistantMessage, ToolMessage])

/** @since 0.1.0 */
export type Message = typeof Message.Type

/** Members without a value may be `undefined`: `freeze` leaves them out. */
type Draft<A> = { readonly [Key in keyof A]: A[Key] | undefined }

/** A position in a list. */
export const Position = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))

/** Options of every message. `id` and `createdAt` override the services. */
export interface Options extends Draft<Partial<Omit<SystemMessage, "role" | "content">>> {}

/** Options of an assistant message. */
export interface AssistantOptions extends Draft<Partial<Omit<AssistantMessage, "role" | "content">>> {}

/**
 * Makes a system message.
 *
 * @category constructors
 * @since 0.1.0
 */
export const system = (content: string, options?: Options): Effect.Effect<SystemMessage> =>
  stampMessage(options, (id, createdAt) => ({ role: "system", id, createdAt, content }))

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
  stampMessage(options, (id, createdAt) => ({
    role: "user",
    id,
    createdAt,
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
  stampMessage(
    options,
    (id, createdAt) => ({
      role: "assistant",
      id,
      createdAt,
      content: typeof content === "string" ? [{ type: "text", text: content }] : content
    }),
    answerKeys
  )

/**
 * Makes a tool message: the result of the call `callId`.
 *
 * @category constructors
 * @since 0.1.0
 */
export const tool = (
  fields: Pick<ToolMessage, "callId" | "name" | "result">,
  options?: Options
): Effect.Effect<ToolMessage> => stampMessage(options, makeTool(fields))

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

/** The id that the default makes at once; undefined where an Effect has to. */
const readyId = (context: Context.Context<never>): string | undefined =>
  Context.get(context, MessageId) === ambientId &&
  Context.getOrUndefined(context, IdGenerator.IdGenerator) === undefined
    ? randomId(Context.get(context, Random.Random))
    : undefined

type Make<M extends Message> = (id: string, createdAt: DateTime.Utc) => M

const optionalKeys = ["usage", "options", "metadata"] as const
const answerKeys = [...optionalKeys, "model", "finishReason", "response"] as const

/** The message with its id and its time. The Effect is an Exit unless the id comes from one. */
const stampIn = <M extends Message>(
  context: Context.Context<never>,
  options: AssistantOptions | undefined,
  make: Make<M>,
  keys: ReadonlyArray<(typeof answerKeys)[number]>
): Effect.Effect<M> => {
  const stamp = (id: string): M => {
    const message = make(id, options?.createdAt ?? timeOf(Context.get(context, Clock.Clock)))
    if (options === undefined) return own(message)
    const members: { [K in (typeof answerKeys)[number]]?: unknown } = message
    for (const key of keys) if (options[key] !== undefined) members[key] = options[key]
    return own(message)
  }
  const known = options?.id ?? readyId(context)
  return known === undefined ? Effect.map(Context.get(context, MessageId), stamp) : Exit.succeed(stamp(known))
}

const stampMessage = <M extends Message>(
  options: AssistantOptions | undefined,
  make: Make<M>,
  keys: ReadonlyArray<(typeof answerKeys)[number]> = optionalKeys
): Effect.Effect<M> => Effect.withFiber((fiber) => stampIn(fiber.context, options, make, keys))

type ToolFields = Pick<ToolMessage, "callId" | "name" | "result">

const makeTool =
  ({ callId, name, result }: ToolFields): Make<ToolMessage> =>
  (id, createdAt) => ({ role: "tool", id, createdAt, callId, name, result })

/** {@link tool} with the services of a context. The Effect is an Exit unless the id comes from one. */
export const toolIn = (context: Context.Context<never>, fields: ToolFields): Effect.Effect<ToolMessage> => {
  const stamped = stampIn(context, undefined, makeTool(fields), optionalKeys)
  // Calls of a batch end in any order, so the id of a result depends on its call only
  return Exit.isExit(stamped) ? stamped : callContext.at(fields.callId)(stamped)
}

let newestTime: DateTime.Utc = DateTime.makeUnsafe(0)

/** The time of a clock. Events and messages of one millisecond share one value. */
export const timeOf = (clock: Clock.Clock): DateTime.Utc => {
  const millis = clock.currentTimeMillisUnsafe()
  if (newestTime.epochMilliseconds !== millis) newestTime = DateTime.makeUnsafe(millis)
  return newestTime
}

// Frozen copies

/** Adds the fields of a subclass to an object: what a constructor returns takes the place of the new one. */
class Addition {
  constructor(to: object) {
    return to
  }
  static add<M extends object, A>(this: new (to: object, field: A) => object, to: M, field: A): M {
    // Sound: it is the argument
    return new this(to, field) as M
  }
}

/**
 * A message was frozen here as a copy, as a copy in which two keys of one object became equal (no conversation takes it), or as a
 * codec made it, which compared the texts of its calls with the arguments.
 */
type Origin = "copy" | "merged" | "decoded"

/**
 * The mark of the messages that were frozen here: any number of conversations can share them. It is a private field of theirs,
 * because an entry of a `WeakMap` takes four times as long, and decoding a long conversation a tenth more.
 */
class Frozen extends Addition {
  readonly #origin: Origin
  constructor(to: object, origin: Origin) {
    super(to)
    this.#origin = origin
  }
  static origin(value: object): Origin | undefined {
    return #origin in value ? value.#origin : undefined
  }
}

/**
 * The message itself if it came from here, otherwise a frozen deep copy without undefined members: whatever
 * happens later to the object that was passed in, the conversation does not change.
 */
export const freeze = <M extends object>(self: M): M => (Frozen.origin(self) === undefined ? own({ ...self }) : self)

/** Marks and freezes a fresh object, with copies of all that is below it. */
const own = <M extends object>(fresh: M): M => {
  return Frozen.add(fresh, freezeBelow(fresh, true) ? "merged" : "copy")
}

/**
 * Freezes a message that a codec has just made: no other code holds a part of it, so it needs no copy. The texts of its calls
 * have to fit their arguments.
 */
export const freezeDecoded = (message: Message): Message => {
  freezeBelow(message, false)
  return Frozen.add(message, "decoded")
}

type Container = Record<string, unknown> | Array<unknown>

const isContainer = (value: object): value is Container => {
  if (Array.isArray(value)) return value.length <= mostDense || !isSparse(value)
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === null || Object.getPrototypeOf(prototype) === null
}

/** The result is `true` if two keys become equal. The later key has one more U+FFFD then. */
const mendKeys = (container: Record<string, unknown>): boolean => {
  let isMerged = false
  for (const key of Object.keys(container)) {
    if (key.isWellFormed()) continue
    let mended = key.toWellFormed()
    for (; Object.hasOwn(container, mended); isMerged = true) mended += "\ufffd"
    container[mended] = container[key]
    delete container[key]
  }
  return isMerged
}

/** The value, or a copy of it with U+FFFD for each half of a character in a text or a key. */
export const mend = <A>(value: A): A => (wellFormedness(value) === "well-formed" ? value : own({ value }).value)

/** The text of the arguments of a call: the received one, if it has no half of a character as an escape. */
export const textOfCall = ({ arguments: args, text }: ToolCallPart): string =>
  text !== undefined && (isWhole(text) || wellFormedness(args) === "well-formed") ? text : JSON.stringify(mend(args))

/** A message as models and other systems receive it. A stored message may have halves of characters. */
export const sendable = <M extends Message>(message: M): M => {
  const origin = Frozen.origin(message)
  if (origin === "copy" || origin === "merged" || wellFormedness(message) === "well-formed") return message
  const mended: Message = own<Message>({ ...message })
  if (mended.role !== "assistant") return { ...message, ...mended }
  // The text of a call may have them as escapes
  const content = mended.content.map((part) => (part.type === "tool-call" ? withoutText(part) : part))
  return { ...message, ...mended, content }
}

const withoutText = ({ text: _, ...call }: ToolCallPart): ToolCallPart => call

/**
 * Freezes a fresh object and the containers below it, or copies of them with well-formed texts. Iterative, because the JSON in a tool result may be
 * nested deeper than the stack. The result is `true` where two keys became equal.
 */
const freezeBelow = (fresh: object, copies: boolean): boolean => {
  let isMerged = false
  // Sound: read and written under its own keys only
  const open: Array<Container> = [fresh as Container]
  let taken = 0
  let copied: Map<Container, Container> | undefined
  const take = (value: unknown): unknown => {
    if (typeof value === "string") return copies ? value.toWellFormed() : value
    if (typeof value !== "object" || value === null || !isContainer(value) || Frozen.origin(value) !== undefined)
      return value
    const known = copied?.get(value)
    if (known !== undefined) return known
    const inner = !copies ? value : Array.isArray(value) ? [...value] : { ...value }
    open.push(inner)
    // From here on each is copied once, whatever refers to it
    if (++taken > maxUnshared) (copied ??= new Map()).set(value, inner)
    return inner
  }
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (Array.isArray(next)) {
      for (let index = 0; index < next.length; index++) {
        const inner = take(next[index])
        if (inner !== next[index]) next[index] = inner
      }
    } else {
      let isWhole = true
      for (const key in next) {
        isWhole &&= key.isWellFormed()
        const member = next[key]
        const inner = take(member)
        if (inner !== member) next[key] = inner
        else if (member === undefined) delete next[key]
      }
      if (copies && !isWhole && mendKeys(next)) isMerged = true
    }
    Object.freeze(next)
  }
  return isMerged
}

/** The position, or the one before it where it is inside of a character. */
export const characterBoundary = (text: string, index: number): number => {
  const code = text.charCodeAt(index)
  return code >= 0xdc00 && code < 0xe000 ? index - 1 : index
}

// Conversations

const typeId = "~effect-emissary/conversation/Conversation"

/** The public type: what users see of a {@link History}. */
export interface Conversation extends Iterable<Message>, Pipeable.Pipeable, Inspectable.Inspectable {
  readonly [typeId]: typeof typeId
}

/** Newest first, in the order of arrival: adding is one object, and nothing is copied. */
export interface Node {
  readonly message: Message
  readonly previous: Node | undefined
}

/** The messages up to a node, in call order. */
interface MessageList {
  readonly last: Node | undefined
  readonly messages: ReadonlyArray<Message>
}

const noMessages: MessageList = { last: undefined, messages: [] }

/** A prompt that was made from a conversation. The prompts of longer conversations begin with it. */
export interface Converted {
  /** Of the way to convert. */
  readonly toolName: (name: string) => string
  readonly lossless: boolean
  readonly unanswered: ClosedTurns | undefined
  /** The newest message that is no result. */
  readonly head: Node | undefined
  /** Up to there the first `length` messages of the prompt. Prompts of longer conversations add to the same array. */
  readonly content: Array<Prompt.Message>
  readonly length: number
  /** The newest result, and the message of all results behind the head. */
  readonly last: Node
  readonly results: Prompt.Message | undefined
}

type Calls = HashMap.HashMap<string, ToolCallPart>

const noCalls: Calls = HashMap.empty()

/** Calls of closed turns, the newest turn first. */
export interface ClosedTurns {
  readonly calls: Calls
  readonly previous: ClosedTurns | undefined
}

const noPositions: ReadonlyMap<string, number> = new Map()
const noBatch: ReadonlyArray<ToolCallPart> = []
type CallIds = HashMap.HashMap<string, "us" | "provider" | "provider answered">
const noCallIds: CallIds = HashMap.empty()
const noPrompts: ReadonlyArray<Converted> = []

/** The facts about the messages that the laws need, while messages are added. Its constructor is long because it is fast. */
export class FactsDraft {
  tokenLimit: number | undefined = undefined
  last: Node | undefined = undefined
  length: number = 0
  tokenCount: number = 0
  system: SystemMessage | undefined = undefined
  /**
   * The system message with the instructions in force: the first message, or the newest message with new instructions.
   */
  instructions: SystemMessage | undefined = undefined
  lastAssistant: AssistantMessage | undefined = undefined
  /** The newest answer with the size of the request, which was this conversation. */
  reported: AssistantMessage | undefined = undefined
  /**
   * The tokens of a request beside the messages, once messages were removed since the newest report. Then no report is the size
   * of this conversation.
   */
  beside: number | undefined = undefined
  /** Calls of the newest assistant message, in call order, and their positions where there are several. */
  batch: ReadonlyArray<ToolCallPart> = noBatch
  positions: ReadonlyMap<string, number> = noPositions
  /** The calls of `batch` without a result. */
  open: Calls = noCalls
  /** Calls of this turn that the provider runs and has not answered. */
  providerOpen: Calls = noCalls
  /** Such calls of earlier turns: no result can follow. */
  unanswered: ClosedTurns | undefined = undefined
  /** Every call id, by who answers it. */
  callIds: CallIds = noCallIds

  constructor(from?: Facts) {
    if (from === undefined) return
    this.tokenLimit = from.tokenLimit
    this.last = from.last
    this.length = from.length
    this.tokenCount = from.tokenCount
    this.system = from.system
    this.instructions = from.instructions
    this.lastAssistant = from.lastAssistant
    this.reported = from.reported
    this.beside = from.beside
    this.batch = from.batch
    this.positions = from.positions
    this.open = from.open
    this.providerOpen = from.providerOpen
    this.unanswered = from.unanswered
    this.callIds = from.callIds
  }
}

export type Facts = Readonly<FactsDraft>

/** The facts of a conversation, and what was made of it or of an older one of its line: the newest list, and prompts. */
export class History extends FactsDraft implements Conversation {
  #list: MessageList
  #prompts: ReadonlyArray<Converted>

  constructor(facts?: Facts, line?: History, message?: Message) {
    super(facts)
    this.#list = line === undefined ? noMessages : line.#list
    this.#prompts = line === undefined ? noPrompts : line.#prompts
    if (message !== undefined) addTo(this, message)
    Object.freeze(this)
  }

  static list(self: History): MessageList {
    const { last } = self
    const before = self.#list
    if (before.last === last) return before
    const newer: Array<Message> = []
    // Results of an open batch may still be reordered
    let node = last
    while (node !== undefined && (node !== before.last || newer.at(-1)?.role === "tool")) {
      newer.push(node.message)
      node = node.previous
    }
    const groups = groupResults(newer.reverse())
    const members = groups.flatMap(({ message, results }): ReadonlyArray<Message> => {
      const sorted = inCallOrder(message, results)
      return message === undefined ? sorted : [message, ...sorted]
    })
    self.#list = { last, messages: Object.freeze((node === undefined ? [] : before.messages).concat(members)) }
    return self.#list
  }

  static prompts(self: History): ReadonlyArray<Converted> {
    return self.#prompts
  }

  static setPrompts(self: History, prompts: ReadonlyArray<Converted>): void {
    self.#prompts = prompts
  }

  get [typeId](): typeof typeId {
    return typeId
  }

  [Symbol.iterator](): Iterator<Message> {
    return messages(this)[Symbol.iterator]()
  }

  [Equal.symbol](that: unknown): boolean {
    return (
      isConversation(that) &&
      this.tokenLimit === asHistory(that).tokenLimit &&
      this.length === asHistory(that).length &&
      Equal.equals(messages(this), messages(that))
    )
  }

  [Hash.symbol](): number {
    return Hash.combine(Hash.number(this.length), Hash.string(this.lastAssistant?.id ?? ""))
  }

  // Roles only: the texts of people belong in no log
  toJSON(): unknown {
    const roles = messages(this).map((message) => message.role)
    const { open, tokenLimit } = this
    return { _id: "Conversation", roles, openCalls: HashMap.size(open), ...defined({ tokenLimit }) }
  }

  override toString(): string {
    return format(this.toJSON())
  }

  [Inspectable.NodeInspectSymbol](): unknown {
    return this.toJSON()
  }

  pipe() {
    return Pipeable.pipeArguments(this, arguments)
  }
}

/**
 * Tests for a conversation.
 *
 * @category guards
 * @since 0.1.0
 */
export const isConversation = (u: unknown): u is Conversation => Predicate.hasProperty(u, typeId)

export const firstIsConversation = (args: IArguments): boolean => isConversation(args[0])

// Sound: a History is the only kind of conversation
export const asHistory = (self: Conversation): History => self as History

/**
 * The conversation without messages and without a token limit.
 *
 * @category constructors
 * @since 0.1.0
 */
export const empty: Conversation = new History()

/** The conversation with this token limit. */
export const limited = (self: Conversation, tokenLimit: number | undefined): History => {
  const facts = new FactsDraft(asHistory(self))
  facts.tokenLimit = tokenLimit
  return new History(facts, asHistory(self))
}

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
  const start = limited(empty, options?.tokenLimit)
  return options?.system === undefined
    ? Effect.succeed(start)
    : Effect.map(system(options.system), (message) => pushMessage(start, message))
}

/** Tests for a call of this id anywhere in the conversation. */
export const hasCall = (self: Conversation, id: string): boolean => HashMap.has(asHistory(self).callIds, id)

/** On the message that is a summary: how many messages it replaces. */
export const summaryMark = "effect-emissary/summary"

/** On an answer whose request held only a view of the conversation. */
const viewMark = "effect-emissary/view"

export const hasMark = (message: Message, mark: string): boolean =>
  message.metadata !== undefined && Object.hasOwn(message.metadata, mark)

/**
 * Marks an answer as one to a view of the conversation that it enters, as
 * `Conversation.truncate` and `compact` make: its usage is not taken for the size of that
 * conversation. The mark is in the metadata of the message.
 */
export const markAsView = (message: AssistantMessage): AssistantMessage => ({
  ...message,
  metadata: { ...message.metadata, [viewMark]: true }
})

/** On an answer: the sentences of its run behind the conversation that the model was asked with, in order. */
const askedMark = "effect-emissary/asked"

/** The answer with the sentences that it answered. Each later prompt has them in front of it. */
export const markAsked = (message: AssistantMessage, asked: ReadonlyArray<string>): AssistantMessage =>
  asked.length === 0 ? message : { ...message, metadata: { ...message.metadata, [askedMark]: asked } }

/** The sentences of {@link markAsked}, none for any other answer. */
export const askedIn = ({ metadata }: AssistantMessage): ReadonlyArray<string> => {
  const asked = metadata?.[askedMark]
  return Array.isArray(asked) ? asked.filter((one) => typeof one === "string") : []
}

// Adding messages

/** Adds a message that `checkMessage` accepted. */
export const pushMessage = (self: History, message: Message): History => new History(self, self, message)

/** Adds a frozen message that breaks no law to facts that no other code has. */
export const addTo = (facts: FactsDraft, message: Message): void => {
  facts.last = { message, previous: facts.last }
  facts.length += 1
  facts.tokenCount += (message.usage?.inputTokens ?? 0) + (message.usage?.outputTokens ?? 0)
  switch (message.role) {
    case "system":
      if (facts.length === 1) facts.system = message
      if (facts.length === 1 || isReplacing(message)) facts.instructions = message
      return
    case "user":
      facts.batch = noBatch
      facts.positions = noPositions
      closeTurn(facts)
      return
    case "assistant":
      facts.lastAssistant = message
      if (message.usage !== undefined && hasReport(message)) {
        facts.reported = message
        facts.beside = undefined
      }
      indexCalls(facts, message)
      return
    case "tool":
      facts.open = HashMap.remove(facts.open, message.callId)
  }
}

/** True for an answer with the size of its request. Some providers report only what did not come from a cache, or was written to one. */
const hasReport = (message: AssistantMessage): boolean => {
  const { cacheReadTokens = 0, cacheWriteTokens = 0, estimated, inputTokens = 0 } = message.usage ?? {}
  const isWhole = inputTokens > 0 && inputTokens >= cacheReadTokens + cacheWriteTokens
  return isWhole && estimated !== true && !hasMark(message, viewMark)
}

/** True for a later system message with instructions in place of all earlier ones. */
export const isReplacing = (message: Message): boolean =>
  message.role === "system" && replacedBy(message.content) !== undefined

/** A later system message with the instructions of now, where they differ. */
export const changedInstructions = (
  was: SystemMessage | undefined,
  now: string
): Effect.Effect<SystemMessage | undefined> => {
  const content = replacing(now)
  return was?.content === now || was?.content === content ? Effect.undefined : system(content)
}

/** A later system message with instructions in place of all earlier ones. */
export const newInstructions = (now: string): Effect.Effect<SystemMessage> => system(replacing(now))

/** The same message as the first one of a conversation. */
export const inFront = (message: SystemMessage): SystemMessage =>
  freeze({ ...message, content: replacedBy(message.content) ?? message.content })

const closeTurn = (facts: FactsDraft): void => {
  if (HashMap.isEmpty(facts.providerOpen)) return
  facts.unanswered = { calls: facts.providerOpen, previous: facts.unanswered }
  facts.providerOpen = noCalls
}

const indexCalls = (facts: FactsDraft, message: AssistantMessage): void => {
  const batch: Array<ToolCallPart> = []
  // Changed in place until the end: a message can hold thousands of calls
  const callIds = HashMap.beginMutation(facts.callIds)
  const open = HashMap.beginMutation(facts.open)
  let { providerOpen } = facts
  for (const part of message.content) {
    if (part.type === "tool-result") {
      HashMap.set(callIds, part.id, "provider answered")
      providerOpen = HashMap.remove(providerOpen, part.id)
    } else if (part.type === "tool-call" && part.providerExecuted === true) {
      HashMap.set(callIds, part.id, "provider")
      providerOpen = HashMap.set(providerOpen, part.id, part)
    } else if (part.type === "tool-call") {
      HashMap.set(callIds, part.id, "us")
      HashMap.set(open, part.id, part)
      batch.push(part)
    }
  }
  facts.batch = batch
  facts.positions = batch.length < 2 ? noPositions : positionsOf(batch)
  facts.callIds = HashMap.endMutation(callIds)
  facts.open = HashMap.endMutation(open)
  facts.providerOpen = providerOpen
}

const positionsOf = (calls: ReadonlyArray<ToolCallPart>): ReadonlyMap<string, number> =>
  new Map(calls.map((call, position) => [call.id, position]))

/** Forgets the reported size, because it is about a longer history. `beside` is what is known of it. */
export const forgetReport = (self: History, beside: number): History => {
  if (self.reported === undefined && beside === 0) return self
  const facts = new FactsDraft(self)
  facts.reported = undefined
  facts.beside = beside
  return new History(facts, self)
}

/** The rest of a conversation from which messages were removed. */
export const rebuild = (messages: Iterable<Message>, tokenLimit: number | undefined, beside: number = 0): History => {
  return forgetReport(pushAll(limited(empty, tokenLimit), messages), beside)
}

/** A part of a conversation, oldest first: ids of messages of the conversation, and messages that it does not have. */
export type Selection = ReadonlyArray<string | Message>

/** The selection that {@link select} makes a part of. */
export const selectionOf = (self: Conversation, part: Conversation): Selection => {
  const own = new Set(messages(self))
  return messages(part).map((message) => (own.has(message) ? message.id : message))
}

/**
 * The part of a conversation, `undefined` where a message is missing or breaks a law. The search begins at the newest message, so
 * that an id that occurs twice is the later one. `beside`: see {@link FactsDraft}.
 */
export const select = (self: History, selection: Selection, beside: number | undefined): History | undefined => {
  const all = messages(self)
  let at = all.length
  const part: Array<Message> = []
  for (const one of selection.toReversed()) {
    if (typeof one !== "string") {
      part.push(one)
      continue
    }
    do at -= 1
    while (at >= 0 && all[at]?.id !== one)
    const found = all[at]
    if (found === undefined) return undefined
    part.push(found)
  }
  const selected = appendEach(limited(empty, self.tokenLimit), part.reverse())
  if (Result.isFailure(selected)) return undefined
  const built = asHistory(selected.success)
  return beside === undefined ? built : forgetReport(built, beside)
}

/** The part of a conversation before the newest user message with this id, `undefined` if there is none. */
export const beforeUser = (self: Conversation, id: string): History | undefined => {
  const all = messages(self)
  const index = all.findLastIndex((message) => message.role === "user" && message.id === id)
  return index === -1 ? undefined : pushAll(limited(empty, asHistory(self).tokenLimit), all.slice(0, index))
}

/** Adds messages that break no law. */
const pushAll = (self: History, messages: Iterable<Message>): History => {
  const facts = new FactsDraft(self)
  for (const message of messages) addTo(facts, message)
  return facts.last === self.last ? self : new History(facts, self)
}

/** Adds a message. A broken law is reported at `index`, where it is not the position in the conversation. */
export const appendAt = (
  self: History,
  message: Message,
  index?: number
): Result.Result<History, ConversationError> => {
  const frozen = freeze(message)
  const reason = checkMessage(self, frozen, index)
  return reason === undefined
    ? Result.succeed(pushMessage(self, frozen))
    : Result.fail(new ConversationError({ reason }))
}

/**
 * Adds a message, or fails with the law that it would break.
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
 * import { Conversation, Message, ToolResult } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const result = ToolResult.success("found")
 * const orphan = Effect.runSync(Message.tool({ callId: "call_1", name: "search", result }))
 * const chat = Effect.runSync(Conversation.addUser(Conversation.empty, "Hello"))
 *
 * const appended = Conversation.append(chat, orphan)
 * assert(Result.isFailure(appended))
 * assert.strictEqual(appended.failure.reason._tag, "OrphanResult")
 * ```
 *
 * @category combinators
 * @since 0.1.0
 */
export const append: {
  (message: Message): (self: Conversation) => Result.Result<Conversation, ConversationError>
  (self: Conversation, message: Message): Result.Result<Conversation, ConversationError>
} = dual(2, (self: Conversation, message: Message) => appendAt(asHistory(self), message))

/**
 * Adds messages in order, all or none.
 *
 * @category combinators
 * @since 0.1.0
 */
export const appendAll: {
  (messages: Iterable<Message>): (self: Conversation) => Result.Result<Conversation, ConversationError>
  (self: Conversation, messages: Iterable<Message>): Result.Result<Conversation, ConversationError>
} = dual(2, (self: Conversation, messages: Iterable<Message>) => appendEach(asHistory(self), messages))

/** Options of readers of histories from outside. */
export interface ReadOptions {
  /** The token limit of the conversation; default none. */
  readonly tokenLimit?: number | undefined
  /**
   * The treatment of a system message that is not the first message. `"keep"` (default) leaves it at its place; `"refuse"` is for
   * histories whose writer must not add to the instructions: it fails with `MisplacedSystem`, and a repair makes a user message of it.
   * The first message may be a system message in both cases: the run option `instructions: "replace"` removes all of them.
   */
  readonly laterSystem?: "keep" | "refuse" | undefined
}

/** Adds messages. A broken law is reported at the index of the message, where that is not its position in the conversation. */
export const appendEach = (
  self: History,
  messages: Iterable<Message>,
  laterSystem?: ReadOptions["laterSystem"],
  indexOf: (position: number) => number | undefined = () => undefined
): Result.Result<Conversation, ConversationError> => {
  const facts = new FactsDraft(self)
  let position = 0
  for (const given of messages) {
    const message = freeze(given)
    const index = indexOf(position++)
    const reason = refusedSystem(facts, message, laterSystem, index) ?? checkMessage(facts, message, index)
    if (reason !== undefined) return Result.fail(new ConversationError({ reason }))
    addTo(facts, message)
  }
  return Result.succeed(facts.last === self.last ? self : new History(facts, self))
}

/**
 * Builds a conversation from messages and checks every law.
 *
 * @category constructors
 * @since 0.1.0
 */
export const fromMessages = (
  messages: Iterable<Message>,
  options?: ReadOptions
): Result.Result<Conversation, ConversationError> =>
  appendEach(limited(empty, options?.tokenLimit), messages, options?.laterSystem)

// Reading messages

/**
 * All messages, oldest first, as a frozen array.
 *
 * @category getters
 * @since 0.1.0
 */
export const messages = (self: Conversation): ReadonlyArray<Message> => History.list(asHistory(self)).messages

/** The system messages in front of all others. */
export const systemInFront = (messages: ReadonlyArray<Message>): ReadonlyArray<Message> => {
  const end = messages.findIndex(({ role }) => role !== "system")
  return end < 0 ? messages : messages.slice(0, end)
}

export interface MessageGroup {
  /** Absent only where results come first, which no lawful conversation has. */
  readonly message: Exclude<Message, ToolMessage> | undefined
  readonly results: ReadonlyArray<ToolMessage>
}

/** Each message that is not a result, with the results that answer it. */
export const groupResults = (messages: ReadonlyArray<Message>): ReadonlyArray<MessageGroup> => {
  const groups: Array<{ message: MessageGroup["message"]; results: Array<ToolMessage> }> = []
  for (const message of messages) {
    const last = groups.at(-1)
    if (message.role !== "tool") groups.push({ message, results: [] })
    else if (last === undefined) groups.push({ message: undefined, results: [message] })
    else last.results.push(message)
  }
  return groups
}

/** Puts the results of a message in call order, whatever order they arrived in. */
export const inCallOrder = (
  message: Message | undefined,
  results: ReadonlyArray<ToolMessage>
): ReadonlyArray<ToolMessage> => {
  if (results.length < 2 || message?.role !== "assistant") return results
  const positions = positionsOf(message.content.filter(isLocalCall))
  return results.toSorted((a, b) => positionIn(positions, a) - positionIn(positions, b))
}

export const isLocalCall = (part: AssistantPart): part is ToolCallPart =>
  part.type === "tool-call" && part.providerExecuted !== true

const positionIn = (positions: ReadonlyMap<string, number>, result: ToolMessage): number =>
  positions.get(result.callId) ?? 0

/** The newest message. Among the results of one answer, the result of its last call counts as newest. */
export const lastMessage = (self: History): Message | undefined => {
  let newest = self.last?.message
  for (let node = self.last; node?.message.role === "tool"; node = node.previous) {
    const isLater =
      newest?.role === "tool" && positionIn(self.positions, node.message) > positionIn(self.positions, newest)
    if (isLater) newest = node.message
  }
  return newest
}

/** The messages behind `message`, newest first. */
export const messagesSince = (self: History, message: Message): ReadonlyArray<Message> => {
  const messages: Array<Message> = []
  for (let node = self.last; node !== undefined && node.message !== message; node = node.previous) {
    messages.push(node.message)
  }
  return messages
}

/**
 * The calls that wait for a result, in call order. Tools that the provider runs
 * itself are not among them.
 *
 * @category getters
 * @since 0.1.0
 */
export const openCalls = (self: Conversation): ReadonlyArray<ToolCallPart> => openCallsOf(asHistory(self))

export const openCallsOf = ({ batch, open }: Facts): ReadonlyArray<ToolCallPart> =>
  HashMap.isEmpty(open) ? [] : batch.filter((call) => HashMap.has(open, call.id))

// Laws

/** The place of a message in what is read. */
export interface MessagePlace {
  readonly index: number
  readonly id: string
}

/**
 * The law that a frozen message would break as the next message of `self`, if any.
 * `index` is the position to report, where it is not the one in `self`.
 */
export const checkMessage = (self: Facts, message: Message, index: number = self.length): Reason | undefined => {
  const place: MessagePlace = { index, id: message.id }
  const origin = Frozen.origin(message)
  if (origin === "merged") return { _tag: "EqualKeys", ...place }
  switch (message.role) {
    case "system":
      return checkOpenCalls(self, message, place)
    case "user":
      return checkOpenCalls(self, message, place) ?? checkContent(message, place)
    case "assistant":
      return checkOpenCalls(self, message, place) ?? checkParts(self, message, place, origin === "decoded")
    case "tool":
      return checkToolResult(self, message, place)
    default:
      return unknownRole(message, index)
  }
}

/** A value that the types rule out does not keep: instructions are not taken by mistake. */
export const keepsSystem = (laterSystem: ReadOptions["laterSystem"]): boolean => (laterSystem ?? "keep") === "keep"

/** The reason to refuse a later system message, with the option that refuses it. */
export const refusedSystem = (
  self: Facts,
  { id, role }: Message,
  laterSystem: ReadOptions["laterSystem"],
  index: number = self.length
): Reason | undefined =>
  !keepsSystem(laterSystem) && role === "system" && self.length > 0 ? { _tag: "MisplacedSystem", index, id } : undefined

/** Of a message that the types rule out: roles come from stored data. */
const unknownRole = (message: { readonly id?: string; readonly role?: unknown }, index: number): Reason => ({
  _tag: "UnknownRole",
  index,
  ...defined({ id: message.id }),
  found: typeof message.role === "string" ? JSON.stringify(message.role.slice(0, 40)) : typeof message.role
})

const checkOpenCalls = (self: Facts, { role }: Message, place: MessagePlace): Reason | undefined =>
  HashMap.isEmpty(self.open)
    ? undefined
    : { _tag: "OpenCalls", ...place, role, callIds: openCallsOf(self).map((call) => call.id) }

export const checkContent = (message: UserMessage, place: MessagePlace): Reason | undefined =>
  message.content.some((part) => part.type === "file" || !isBlank(part.text))
    ? undefined
    : { _tag: "EmptyContent", ...place, role: message.role }

const checkToolResult = (self: Facts, { callId, name, role }: ToolMessage, place: MessagePlace): Reason | undefined => {
  if (callId === "") return { _tag: "MissingCallId", ...place, role }
  const call = HashMap.get(self.open, callId)
  if (Option.isSome(call)) return checkName(call.value, name, place)
  const isAnswered = Option.contains(HashMap.get(self.callIds, callId), "us")
  return { _tag: isAnswered ? "DuplicateResult" : "OrphanResult", ...place, callId, open: someOpenCallIds(self) }
}

/** The most calls that an error about a result names: a repair reports one for each of thousands. */
const maxNamedCalls = 20

const namedCalls = new WeakMap<Calls, ReadonlyArray<string>>()

const someOpenCallIds = ({ open, positions }: Facts): ReadonlyArray<string> => {
  const known = namedCalls.get(open)
  if (known !== undefined) return known
  const position = (id: string) => positions.get(id) ?? 0
  const ids = Array.from(EffectIterable.take(HashMap.keys(open), maxNamedCalls))
  const named = Object.freeze(ids.toSorted((a, b) => position(a) - position(b)))
  namedCalls.set(open, named)
  return named
}

const checkName = (call: ToolCallPart, found: string, place: MessagePlace): Reason | undefined =>
  call.name === found ? undefined : { _tag: "NameMismatch", ...place, callId: call.id, expected: call.name, found }

const checkParts = (
  self: Facts,
  message: AssistantMessage,
  place: MessagePlace,
  textsFit: boolean
): Reason | undefined => {
  const check = makePartChecker(self, place, textsFit)
  for (const part of message.content) {
    const reason = check(part)
    if (reason !== undefined) return reason
  }
  return undefined
}

/** Checks the parts of an assistant message one after the other. A part that breaks a law changes nothing. */
export const makePartChecker = (self: Facts, place: MessagePlace, textsFit: boolean) => {
  // Only the changes by these parts: `self` may hold many calls
  const opened = new Map<string, ToolCallPart>()
  let answered: Set<string> | undefined

  const find = (id: string): ToolCallPart | undefined =>
    opened.get(id) ?? (answered?.has(id) ? undefined : Option.getOrUndefined(HashMap.get(self.providerOpen, id)))

  const someOpen = (): ReadonlyArray<string> => {
    const before = EffectIterable.take(HashMap.keys(self.providerOpen), maxNamedCalls)
    const stillOpen = EffectIterable.filter(before, (id) => !answered?.has(id) && !opened.has(id))
    return Array.from(EffectIterable.take(EffectIterable.appendAll(opened.keys(), stillOpen), maxNamedCalls))
  }

  const wasAnswered = (id: string): boolean => {
    if (answered?.has(id)) return true
    const answeredBy = Option.getOrUndefined(HashMap.get(self.callIds, id))
    return find(id) === undefined && (answeredBy === "us" || answeredBy === "provider answered")
  }

  const checkCall = (part: ToolCallPart): Reason | undefined => {
    if (find(part.id) !== undefined) return { _tag: "RepeatedCallId", ...place, callId: part.id }
    if (!textsFit && !textFitsArguments(part)) return { _tag: "ArgumentsDiffer", ...place, callId: part.id }
    opened.set(part.id, part)
    return undefined
  }

  const checkResult = ({ id, name }: ToolResultPart): Reason | undefined => {
    const call = find(id)
    if (call?.providerExecuted !== true) {
      return { _tag: wasAnswered(id) ? "DuplicateResult" : "OrphanResult", ...place, callId: id, open: someOpen() }
    }
    const mismatch = checkName(call, name, place)
    if (mismatch !== undefined) return mismatch
    opened.delete(id)
    answered ??= new Set()
    answered.add(id)
    return undefined
  }

  return (part: AssistantPart): Reason | undefined => {
    if (part.type !== "tool-call" && part.type !== "tool-result") return undefined
    if (part.id === "") return { _tag: "MissingCallId", ...place, role: "assistant" }
    return part.type === "tool-call" ? checkCall(part) : checkResult(part)
  }
}

// New ids of calls

/** Makes ids that no call of the conversation has, and that are not used yet; then they are used. */
export const makeFreshIds = (self: Facts, used: Set<string>) => {
  // Next free suffix of each id: a model may repeat one id in thousands of calls
  const suffixes = new Map<string, number>()
  return (id: string): string => {
    const stem = `${id === "" ? "call" : id}_${self.length}`
    for (let suffix = suffixes.get(stem) ?? 1; ; suffix++) {
      const candidate = suffix === 1 ? stem : `${stem}_${suffix}`
      if (used.has(candidate) || HashMap.has(self.callIds, candidate)) continue
      suffixes.set(stem, suffix + 1)
      used.add(candidate)
      return candidate
    }
  }
}

/**
 * Replaces the ids of calls that are empty, occur in the conversation, or occur twice
 * in the content, so that the content can be added as the next message.
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
} = dual(2, (self: Conversation, content: ReadonlyArray<AssistantPart>): ReadonlyArray<AssistantPart> => {
  const labels = new CallLabels(asHistory(self))
  return content.map((part) => {
    if (part.type !== "tool-call" && part.type !== "tool-result") return part
    const id = part.type === "tool-call" ? labels.ofCall(part) : labels.ofResult(part)
    return id === part.id ? part : { ...part, id }
  })
})

/** The ids of the calls of the next message, each known when its call begins. */
export class CallLabels {
  private readonly history: History
  private readonly used = new Set<string>()
  private readonly fresh: ReturnType<typeof makeFreshIds>
  /** Newest label of each id that the provider runs, for what follows about the call. */
  private readonly labels = new Map<string, string>()

  constructor(self: History) {
    this.history = self
    this.fresh = makeFreshIds(self, this.used)
  }

  ofCall({ id, providerExecuted }: { readonly id: string; readonly providerExecuted?: boolean }): string {
    const isTaken = id === "" || this.used.has(id) || HashMap.has(this.history.callIds, id)
    const label = isTaken ? this.fresh(id) : id
    this.used.add(label)
    if (providerExecuted === true) this.labels.set(id, label)
    return label
  }

  ofResult(result: Pick<ToolResultPart, "id" | "name">): string {
    return this.labels.get(result.id) ?? openLabelOf(this.history, result) ?? result.id
  }
}

/** The new id of a call in an earlier message that the provider still answers under the old one. */
const openLabelOf = (self: History, { id, name }: Pick<ToolResultPart, "id" | "name">): string | undefined => {
  if (HashMap.has(self.providerOpen, id)) return undefined
  const relabelled = Array.from(HashMap.values(self.providerOpen)).filter(
    (call) => call.name === name && call.id.startsWith(`${id}_`)
  )
  return relabelled.length === 1 ? relabelled[0]?.id : undefined
}

// Messages to models

export const isBlank = (text: string): boolean => text.trim() === ""

/** True for text that a person can read, and for a part that only the provider knows, which is kept as text without words. */
export const isWords = ({ options, text }: Pick<ToolResult.TextPart, "options" | "text">): boolean =>
  !isBlank(text) || (options !== undefined && Object.hasOwn(options, kindKey))

/** True for an answer with nothing but thoughts: no words, call, result, file or source. */
export const isEmptyAnswer = ({ content }: AssistantMessage): boolean =>
  content.every((part) => part.type === "reasoning" || (part.type === "text" && !isWords(part)))

/**
 * The parts of an answer that are sent to a receiver, which can hold `parts`. Providers refuse reasoning with nothing
 * after it, and a message without content: nothing is left of an answer of thoughts alone, and every prompt and format
 * leaves it out.
 */
export const saidParts = (
  parts: ReadonlyArray<AssistantPart>,
  isSent: (text: string, part: ToolResult.TextPart) => boolean
): ReadonlyArray<Exclude<AssistantPart, SourcePart>> => {
  const sent = parts.filter((part) => part.type !== "source")
  const isSaid = sent.some((part) => part.type !== "reasoning" && (part.type !== "text" || isSent(part.text, part)))
  return isSaid ? sent.slice(0, sent.findLastIndex((part) => part.type !== "reasoning") + 1) : []
}

/** The calls of earlier turns that the provider never answered. */
export const unansweredCalls = (self: History): ReadonlySet<AssistantPart> => {
  const calls = new Set<AssistantPart>()
  for (let turn = self.unanswered; turn !== undefined; turn = turn.previous) {
    for (const call of HashMap.values(turn.calls)) calls.add(call)
  }
  return calls
}

/** The message without the calls that the provider never answered: it refuses them. */
export const withoutUnanswered = <M extends Message>(unanswered: ReadonlySet<AssistantPart>, message: M): M =>
  message.role === "assistant" && message.content.some((part) => unanswered.has(part))
    ? { ...message, content: message.content.filter((part) => !unanswered.has(part)) }
    : message

// The open end

/**
 * Answers every open call with an `interrupted` failure, so that the conversation
 * can continue.
 *
 * **Details**
 *
 * `message` is the text for the model.
 *
 * **Example** (Continuing after an interruption)
 *
 * ```ts
 * import { Effect } from "effect"
 * import { Conversation, Message } from "effect-emissary"
 * import assert from "node:assert"
 *
 * const program = Effect.gen(function*() {
 *   const stopped = yield* Conversation.addAssistant(Conversation.empty, [
 *     Message.toolCallPart({ id: "call_1", name: "search", arguments: { q: "effect" } })
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
} = dual(firstIsConversation, (self: Conversation, options?: SealOptions): Effect.Effect<Conversation> =>
  Effect.map(sealOf(asHistory(self), options), (messages) => pushAll(asHistory(self), messages))
)

/** The results that close the open calls. */
export const sealOf = Effect.fnUntraced(function* (self: Facts, options?: SealOptions) {
  const text = options?.message ?? "Tool call interrupted before completion."
  const result = freeze(ToolResult.failure("interrupted", text))
  const makeId = yield* MessageId
  const createdAt = yield* DateTime.now
  const messages: Array<ToolMessage> = []
  for (const { id, name } of openCallsOf(self)) {
    const message: ToolMessage = { role: "tool", id: yield* makeId, createdAt, callId: id, name, result }
    freezeDecoded(message)
    messages.push(message)
  }
  return messages
})

/**
 * Options of {@link seal}.
 *
 * @category options
 * @since 0.1.0
 */
export interface SealOptions {
  /** The message of the `interrupted` failures; default "Tool call interrupted before completion." */
  readonly message?: string | undefined
}
