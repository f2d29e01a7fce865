/**
 * Conversations as prompts of `effect/ai`, and prompts as conversations.
 */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { identity } from "effect/Function"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as effectAi from "../../tool/internal/effectAi.ts"
import * as ConversationError from "../ConversationError.ts"
import * as Message from "../Message.ts"
import * as history from "./history.ts"
import * as messageData from "./messageData.ts"

/**
 * Options of {@link Conversation.toPrompt}.
 */
export interface ToPromptOptions {
  /**
   * Maps tool names, e.g. to names the provider accepts. Pass the same function
   * each time: what was converted is remembered per function.
   */
  readonly toolName?: ((name: string) => string) | undefined
  /**
   * Whether the prompt is to be read back with {@link Conversation.fromPrompt}. Then it holds
   * everything; what prompts have no field for (ids, times, models, usage, metadata, argument text) stands in the provider
   * options under `"effect-emissary"`. Default `false`: what a model is sent.
   */
  readonly lossless?: boolean | undefined
}

/** The name under which a lossless prompt keeps what prompts have no field for. */
const noteKey = "effect-emissary"

const MessageNote = Schema.Struct({
  id: Schema.String,
  createdAt: Schema.DateTimeUtcFromString,
  usage: Schema.optionalKey(Message.TokenUsage),
  metadata: Schema.optionalKey(Schema.Record(Schema.String, Schema.Json)),
  model: Schema.optionalKey(Schema.String),
  finishReason: Schema.optionalKey(Schema.String)
})

type MessageNote = typeof MessageNote.Type

const Note = Schema.Struct({
  message: Schema.optionalKey(MessageNote),
  /** Whether the arguments stand in the prompt as they are. */
  exact: Schema.optionalKey(Schema.Literal(true)),
  /** Argument text as received. */
  text: Schema.optionalKey(Schema.String),
  /** What a failure's value does not tell. */
  failure: Schema.optionalKey(
    Schema.Struct({ type: Schema.String, message: Schema.String, value: Schema.optionalKey(Schema.Json) })
  ),
  /** Whether the result was given content of its own. */
  content: Schema.optionalKey(Schema.Boolean)
})

type Note = typeof Note.Type

const encodeNote = Schema.encodeOption(Schema.toCodecJson(Note))

const decodeNote = Schema.decodeUnknownOption(Schema.toCodecJson(Note))

const messageNote = (message: Message.Message): MessageNote => ({
  id: message.id,
  createdAt: message.createdAt,
  ...(message.usage === undefined ? undefined : { usage: message.usage }),
  ...(message.metadata === undefined ? undefined : { metadata: message.metadata }),
  ...(message.role === "assistant" ? assistantNote(message) : undefined)
})

const assistantNote = ({ finishReason, model }: Message.AssistantMessage) => ({
  ...(model === undefined ? undefined : { model }),
  ...(finishReason === undefined ? undefined : { finishReason })
})

const addNote = (options: ToolResult.ProviderOptions | undefined, note: Note): ToolResult.ProviderOptions =>
  Option.match(Object.keys(note).length === 0 ? Option.none() : encodeNote(note), {
    onNone: () => options ?? {},
    onSome: (encoded) => ({ ...options, [noteKey]: encoded })
  })

/** The note, and the provider options without it. */
const takeNote = (
  options: ToolResult.ProviderOptions
): { readonly note: Note; readonly options: ToolResult.ProviderOptions | undefined } => {
  const note = Object.hasOwn(options, noteKey) ? decodeNote(options[noteKey]) : Option.none<Note>()
  if (Option.isNone(note)) return { note: {}, options: Object.keys(options).length === 0 ? undefined : options }
  const { [noteKey]: _, ...rest } = options
  return { note: note.value, options: Object.keys(rest).length === 0 ? undefined : rest }
}

/** A tool's result from the value and the model output of a prompt or response part. */
export const resultFromPart = (
  part: Pick<Prompt.ToolResultPart, "isFailure" | "modelOutput">,
  value: Schema.Json,
  note: Note = {}
): ToolResult.ToolResult => {
  const [first, ...rest] = (part.modelOutput ?? []).map(effectAi.fromPrompt)
  const content: ToolResult.NonEmptyContent | undefined = first === undefined ? undefined : [first, ...rest]
  if (!part.isFailure) return ToolResult.success(value, content)
  const failure: ToolResult.Failure =
    note.failure === undefined ? failureFromValue(value) : { _tag: "Failure", ...note.failure }
  const own = note.content ?? (content !== undefined && !Equal.equals(content, ToolResult.content(failure)))
  return own && content !== undefined ? { ...failure, content } : failure
}

// The failures that effect/ai makes itself, by our names
const coreFailureTypes: Readonly<Record<string, ToolResult.ReservedType>> = {
  "execution-denied": "denied",
  "execution-interrupted": "interrupted"
}

const failureKeys = new Set(["type", "message", "value"])

/** The failure that a value tells of. */
const failureFromValue = (value: Schema.Json): ToolResult.Failure => {
  if (!messageData.isJsonObject(value)) return ToolResult.failure("execution_error", valueText(value), value)
  const type = textField(value, "type")
  const message = textField(value, "message")
  if (type !== undefined && message !== undefined && Object.keys(value).every((key) => failureKeys.has(key))) {
    return ToolResult.failure(type, message, value["value"])
  }
  const name = type ?? textField(value, "_tag") ?? "execution_error"
  const ours = Object.hasOwn(coreFailureTypes, name) ? coreFailureTypes[name] : undefined
  return ToolResult.failure(ours ?? name, message ?? textField(value, "reason") ?? valueText(value), value)
}

const textField = (value: Readonly<Record<string, Schema.Json>>, key: string): string | undefined => {
  const found = Object.hasOwn(value, key) ? value[key] : undefined
  return typeof found === "string" ? found : undefined
}

const valueText = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))

interface MessageGroup {
  /** Absent only where results come first, which no lawful conversation does. */
  readonly message: Message.Message | undefined
  readonly results: ReadonlyArray<Message.ToolMessage>
}

/** Each message that is no result, with the results that answer it. */
export const groupResults = (messages: ReadonlyArray<Message.Message>): ReadonlyArray<MessageGroup> => {
  const groups: Array<MessageGroup> = []
  let results: Array<Message.ToolMessage> = []
  let message: Message.Message | undefined
  const flush = () => {
    if (message !== undefined || results.length > 0) groups.push({ message, results })
  }
  for (const next of messages) {
    if (next.role === "tool") {
      results.push(next)
    } else {
      flush()
      message = next
      results = []
    }
  }
  flush()
  return groups
}

type ToolName = (name: string) => string

/** A message and its conversion; `undefined` where nothing of it is sent. */
type MessageCache = WeakMap<Message.Message, Prompt.Message | undefined>

interface ConvertedResults {
  readonly results: ReadonlyArray<Message.ToolMessage>
  readonly message: Prompt.Message
}

/** A conversion to go on from, up to the last group: more results of that may come in. */
interface PreviousPrompt {
  readonly messages: ReadonlyArray<Message.Message>
  readonly content: ReadonlyArray<Prompt.Message>
}

interface PromptCache {
  readonly messages: MessageCache
  /** By the first of the results, which may grow in number as they arrive. */
  readonly results: WeakMap<Message.ToolMessage, ConvertedResults>
  /** The newest of a line of conversations, by their first message. */
  readonly made: WeakMap<Message.Message, PreviousPrompt>
}

const makeCache = (): PromptCache => ({ messages: new WeakMap(), results: new WeakMap(), made: new WeakMap() })

const modelCaches = new WeakMap<ToolName, PromptCache>()

const losslessCaches = new WeakMap<ToolName, PromptCache>()

const promptCacheOf = (name: ToolName, lossless: boolean): PromptCache => {
  const caches = lossless ? losslessCaches : modelCaches
  const cache = caches.get(name) ?? makeCache()
  caches.set(name, cache)
  return cache
}

export const toPrompt = (messages: ReadonlyArray<Message.Message>, options: ToPromptOptions): Prompt.Prompt => {
  const [first] = messages
  if (first === undefined) return Prompt.empty
  const lossless = options.lossless === true
  const name: ToolName = options.toolName ?? identity
  const cache = promptCacheOf(name, lossless)
  const convert = lossless ? losslessMessage : modelMessage
  const made = previousPromptOf(cache, first, messages)
  const content = [...made.content]
  let settled = content.length
  for (const { message, results } of groupResults(messages.slice(made.messages.length))) {
    settled = content.length
    if (message !== undefined) {
      let converted = cache.messages.get(message)
      if (converted === undefined && !cache.messages.has(message)) {
        converted = convert(message, name)
        cache.messages.set(message, converted)
      }
      if (converted !== undefined) content.push(converted)
    }
    const [firstResult] = results
    if (firstResult !== undefined) content.push(resultsMessage(cache, firstResult, results, name, lossless))
  }
  const last = messages.findLastIndex(({ role }) => role !== "tool")
  cache.made.set(first, { messages: messages.slice(0, Math.max(0, last)), content: content.slice(0, settled) })
  return Prompt.fromMessages(content)
}

const noPrompt: PreviousPrompt = { messages: [], content: [] }

/** What was made of these messages, but for their last group. */
const previousPromptOf = (
  cache: PromptCache,
  first: Message.Message,
  messages: ReadonlyArray<Message.Message>
): PreviousPrompt => {
  const made = cache.made.get(first) ?? noPrompt
  return made.messages.length < messages.length && made.messages.every((message, i) => message === messages[i])
    ? made
    : noPrompt
}

const resultsMessage = (
  cache: PromptCache,
  first: Message.ToolMessage,
  results: ReadonlyArray<Message.ToolMessage>,
  name: ToolName,
  lossless: boolean
): Prompt.Message => {
  const cached = cache.results.get(first)
  if (cached !== undefined && sameResults(cached.results, results)) return cached.message
  const message = Prompt.toolMessage({ content: results.map((result) => promptToolResult(result, name, lossless)) })
  cache.results.set(first, { results, message })
  return message
}

const sameResults = (a: ReadonlyArray<Message.ToolMessage>, b: ReadonlyArray<Message.ToolMessage>): boolean =>
  a.length === b.length && a.every((message, index) => message === b[index])

// What a model is sent

const modelMessage = (message: Message.Message, name: ToolName): Prompt.Message | undefined => {
  const options = message.options
  switch (message.role) {
    case "system":
      return message.content === "" ? undefined : Prompt.systemMessage({ content: message.content, options })
    case "user":
      return Prompt.userMessage({
        content: message.content.filter(isSent).map((part) => effectAi.toPrompt(part)),
        options
      })
    case "assistant": {
      const content = message.content.filter(isSent).map((part) => modelPart(part, name))
      return content.length === 0 ? undefined : Prompt.assistantMessage({ content, options })
    }
    case "tool":
      return undefined
  }
}

// Providers refuse empty text; text with options may carry a signature
const isSent = (part: Message.AssistantPart): boolean =>
  part.type !== "text" || part.text !== "" || part.options !== undefined

const modelPart = (part: Message.AssistantPart, name: ToolName): Prompt.AssistantMessagePart => {
  switch (part.type) {
    case "reasoning":
      return Prompt.reasoningPart({ text: part.text, options: part.options })
    case "tool-call":
      return promptToolCall(
        part,
        messageData.isJsonObject(part.arguments) ? part.arguments : { invalid_arguments: part.arguments },
        part.options,
        name
      )
    case "tool-result":
      return providerResult(part, part.options)
    default:
      return effectAi.toPrompt(part)
  }
}

const promptToolCall = (
  part: Message.ToolCallPart,
  params: unknown,
  options: ToolResult.ProviderOptions | undefined,
  name: ToolName
): Prompt.ToolCallPart =>
  Prompt.toolCallPart({
    id: part.id,
    name: part.providerExecuted === true ? part.name : name(part.name),
    params,
    providerExecuted: part.providerExecuted === true,
    options
  })

const promptToolResult = (message: Message.ToolMessage, name: ToolName, lossless: boolean): Prompt.ToolResultPart => {
  const { result } = message
  const content = ToolResult.content(result)
  return Prompt.toolResultPart({
    id: message.callId,
    name: name(message.name),
    isFailure: ToolResult.isFailure(result),
    result: ToolResult.isFailure(result) ? failureValue(result) : result.value,
    modelOutput: (lossless ? content : content.filter(isSent)).map((part) => effectAi.toPrompt(part)),
    providerExecuted: false,
    options: lossless
      ? addNote(message.options, { message: messageNote(message), ...resultNote(result) })
      : message.options
  })
}

const failureValue = ({ message, type, value }: ToolResult.Failure) => ({
  type,
  message,
  ...(value === undefined ? undefined : { value })
})

const resultNote = (result: ToolResult.ToolResult): Note =>
  ToolResult.isFailure(result) ? { failure: failureValue(result), content: result.content !== undefined } : {}

// Providers read back their own results as they wrote them
const providerResult = (
  part: Message.ToolResultPart,
  options: ToolResult.ProviderOptions | undefined,
  own: boolean = false
): Prompt.ToolResultPart => {
  const { result } = part
  const hasContent = result.content !== undefined && (own || !isDerived(result))
  return Prompt.toolResultPart({
    id: part.id,
    name: part.name,
    isFailure: ToolResult.isFailure(result),
    result: ToolResult.isFailure(result) ? providerFailure(result) : result.value,
    ...(hasContent ? { modelOutput: ToolResult.content(result).map((part) => effectAi.toPrompt(part)) } : undefined),
    providerExecuted: true,
    options
  })
}

const providerFailure = (result: ToolResult.Failure): Schema.Json => {
  if (result.value === undefined) return failureValue(result)
  const read = failureFromValue(result.value)
  return read.type === result.type && read.message === result.message && read.value !== undefined
    ? result.value
    : failureValue(result)
}

/** Whether the content is what the model reads anyway. */
const isDerived = (result: ToolResult.ToolResult): boolean => {
  const plain = ToolResult.isFailure(result)
    ? ToolResult.failure(result.type, result.message, result.value)
    : ToolResult.success(result.value)
  return Equal.equals(ToolResult.content(plain), ToolResult.content(result))
}

// What is read back

const losslessMessage = (message: Message.Message, name: ToolName): Prompt.Message | undefined => {
  if (message.role === "tool") return undefined
  const options = addNote(message.options, { message: messageNote(message) })
  switch (message.role) {
    case "system":
      return Prompt.systemMessage({ content: message.content, options })
    case "user":
      return Prompt.userMessage({ content: message.content.map((part) => effectAi.toPrompt(part)), options })
    case "assistant":
      return Prompt.assistantMessage({ content: message.content.map((part) => losslessPart(part, name)), options })
  }
}

const losslessPart = (part: Message.AssistantPart, name: ToolName): Prompt.AssistantMessagePart => {
  switch (part.type) {
    case "tool-call": {
      const text = part.text === undefined ? undefined : { text: part.text }
      return promptToolCall(part, part.arguments, addNote(part.options, { exact: true, ...text }), name)
    }
    case "tool-result":
      return providerResult(part, addNote(part.options, resultNote(part.result)), true)
    default:
      return modelPart(part, name)
  }
}

const failWith = (reason: ConversationError.Reason) => Effect.fail(new ConversationError.ConversationError({ reason }))

export const fromPrompt = Effect.fnUntraced(function* (prompt: Prompt.Prompt, tokenLimit: number | undefined) {
  let self = history.empty(tokenLimit)
  for (const [index, message] of prompt.content.entries()) {
    for (const next of yield* readMessage(self, index, message)) {
      const reason = history.checkMessage(self, next, index)
      if (reason !== undefined) return yield* failWith(reason)
      self = history.pushMessage(self, next)
    }
  }
  return self
})

/** Like `fromPrompt`, but what breaks a law is repaired. */
export const repairPrompt = Effect.fnUntraced(function* (prompt: Prompt.Prompt, tokenLimit: number | undefined) {
  const repairer = history.makeRepairer(tokenLimit)
  for (const [index, message] of prompt.content.entries()) {
    const converted = yield* Effect.result(readMessage(repairer.self(), index, message))
    if (Result.isSuccess(converted)) {
      for (const next of converted.success) yield* repairer.add(next, index)
      continue
    }
    const { reason } = converted.failure
    // What cannot be said in JSON is no matter of laws
    if (reason._tag !== "EmptyContent") return yield* failWith(reason)
    repairer.drop(index, reason.id ?? "", reason)
  }
  return yield* repairer.finish(false)
})

type ReadMessages = Effect.Effect<ReadonlyArray<Message.Message>, ConversationError.ConversationError>

const readMessage = (self: history.History, index: number, message: Prompt.Message): ReadMessages => {
  switch (message.role) {
    case "system":
      return readOne(Message.system(message.content, readMessageOptions(message.options)))
    case "user":
      return readUserMessage(index, message)
    case "assistant":
      return readAssistantMessages(self, index, message)
    case "tool":
      return readToolMessages(index, message)
  }
}

const readOne = <M extends Message.Message>(effect: Effect.Effect<M>): Effect.Effect<ReadonlyArray<M>> =>
  Effect.map(effect, (message) => [message])

const readMessageOptions = (given: Prompt.ProviderOptions): Message.AssistantOptions => {
  const { note: found, options } = takeNote(given)
  return { ...found.message, ...(options === undefined ? undefined : { options }) }
}

const readUserMessage = (index: number, message: Prompt.UserMessage): ReadMessages => {
  const [first, ...rest] = message.content.map(effectAi.fromPrompt)
  const options = readMessageOptions(message.options)
  if (first === undefined) {
    return failWith(
      new ConversationError.EmptyContent({
        index,
        role: "user",
        ...(options.id === undefined ? undefined : { id: options.id })
      })
    )
  }
  return readOne(Message.user([first, ...rest], options))
}

const readAssistantMessages = Effect.fnUntraced(function* (
  self: history.History,
  index: number,
  message: Prompt.AssistantMessage
) {
  const content: Array<Message.AssistantPart> = []
  const results: Array<Message.ToolMessage> = []
  const provider = new Set(Array.from(self.providerOpen, ([id]) => id))
  for (const part of message.content) {
    switch (part.type) {
      case "tool-call": {
        const call = yield* readToolCall(index, part)
        if (call.providerExecuted === true) provider.add(call.id)
        content.push(call)
        break
      }
      case "tool-result": {
        if (part.providerExecuted || provider.has(part.id)) {
          const { options, result } = yield* readToolResult(index, part)
          const given = options === undefined ? undefined : { options }
          content.push({ type: "tool-result", id: part.id, name: part.name, result, ...given })
        } else {
          results.push(yield* readToolMessage(index, part))
        }
        break
      }
      case "tool-approval-request":
        break
      case "reasoning": {
        const { options } = takeNote(part.options)
        content.push({ type: "reasoning", text: part.text, ...(options === undefined ? undefined : { options }) })
        break
      }
      default:
        content.push(effectAi.fromPrompt(part))
    }
  }
  return [yield* Message.assistant(content, readMessageOptions(message.options)), ...results]
})

const readToolCall = (index: number, part: Prompt.ToolCallPart) => {
  const { note: found, options } = takeNote(part.options)
  const exact: Option.Option<Pick<Message.ToolCallPart, "arguments" | "text">> =
    found.exact === true
      ? Option.map(messageData.toJson(part.params), (json) => ({
          arguments: json,
          ...(found.text === undefined ? undefined : { text: found.text })
        }))
      : messageData.callArguments(part.params)
  return Option.match(exact, {
    onNone: () => failWith(new ConversationError.NotJson({ index, callId: part.id, what: "arguments" })),
    onSome: (args) =>
      Effect.succeed<Message.ToolCallPart>({
        type: "tool-call",
        id: part.id,
        name: part.name,
        ...args,
        ...(part.providerExecuted ? { providerExecuted: true } : undefined),
        ...(options === undefined ? undefined : { options })
      })
  })
}

const readToolMessages = (index: number, message: Prompt.ToolMessage): ReadMessages => {
  const results = message.content.filter((part) => part.type === "tool-result")
  return Effect.forEach(results, (part, position) =>
    // What was said about the message as a whole goes to its end, where caches break
    position === results.length - 1
      ? readToolMessage(index, { ...part, options: { ...message.options, ...part.options } })
      : readToolMessage(index, part)
  )
}

const readToolMessage = Effect.fnUntraced(function* (index: number, part: Prompt.ToolResultPart) {
  const { note: found, options, result } = yield* readToolResult(index, part)
  return yield* Message.tool(
    { callId: part.id, name: part.name, result },
    { ...found.message, ...(options === undefined ? undefined : { options }) }
  )
})

const readToolResult = (index: number, part: Prompt.ToolResultPart) => {
  const { note: found, options } = takeNote(part.options)
  const value = messageData.resultValue(part.result)
  return Option.match(value, {
    onNone: () => failWith(new ConversationError.NotJson({ index, callId: part.id, what: "result" })),
    onSome: (value) => Effect.succeed({ note: found, options, result: resultFromPart(part, value, found) })
  })
}
