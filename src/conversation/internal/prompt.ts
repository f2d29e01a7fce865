import * as Prompt from "effect/ai/Prompt"
import * as Equal from "effect/Equal"
import { identity } from "effect/Function"
import type * as Schema from "effect/Schema"
import * as Content from "../../tool/Content.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import type { ToPromptOptions } from "../Conversation.ts"
import type { Message, ToolMessage } from "../Message.ts"
import type { AssistantPart, ToolCallPart, ToolResultPart } from "../Part.ts"
import * as groups from "./groups.ts"
import * as json from "./json.ts"
import * as note from "./note.ts"
import * as toolResults from "./result.ts"

type Name = (name: string) => string

/** A message and its conversion; `undefined` where nothing of it is sent. */
type Converted = WeakMap<Message, Prompt.Message | undefined>

interface Results {
  readonly results: ReadonlyArray<ToolMessage>
  readonly message: Prompt.Message
}

/** A conversion to go on from, up to the last group: more results of that may come in. */
interface Made {
  readonly messages: ReadonlyArray<Message>
  readonly content: ReadonlyArray<Prompt.Message>
}

interface Cache {
  readonly messages: Converted
  /** By the first of the results, which may grow in number as they arrive. */
  readonly results: WeakMap<ToolMessage, Results>
  /** The newest of a line of conversations, by their first message. */
  readonly made: WeakMap<Message, Made>
}

const makeCache = (): Cache => ({ messages: new WeakMap(), results: new WeakMap(), made: new WeakMap() })
const modelCaches = new WeakMap<Name, Cache>()
const losslessCaches = new WeakMap<Name, Cache>()

const cacheOf = (name: Name, lossless: boolean): Cache => {
  const caches = lossless ? losslessCaches : modelCaches
  const cache = caches.get(name) ?? makeCache()
  caches.set(name, cache)
  return cache
}

export const toPrompt = (messages: ReadonlyArray<Message>, options: ToPromptOptions): Prompt.Prompt => {
  const [first] = messages
  if (first === undefined) return Prompt.empty
  const lossless = options.lossless === true
  const name: Name = options.toolName ?? identity
  const cache = cacheOf(name, lossless)
  const convert = lossless ? losslessMessage : modelMessage
  const made = madeOf(cache, first, messages)
  const content = [...made.content]
  let settled = content.length
  for (const { message, results } of groups.group(messages.slice(made.messages.length))) {
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

const nothing: Made = { messages: [], content: [] }

/** What was made of these messages, but for their last group. */
const madeOf = (cache: Cache, first: Message, messages: ReadonlyArray<Message>): Made => {
  const made = cache.made.get(first) ?? nothing
  return made.messages.length < messages.length && made.messages.every((message, i) => message === messages[i])
    ? made
    : nothing
}

const resultsMessage = (
  cache: Cache,
  first: ToolMessage,
  results: ReadonlyArray<ToolMessage>,
  name: Name,
  lossless: boolean
): Prompt.Message => {
  const cached = cache.results.get(first)
  if (cached !== undefined && same(cached.results, results)) return cached.message
  const message = Prompt.toolMessage({ content: results.map((result) => toolResult(result, name, lossless)) })
  cache.results.set(first, { results, message })
  return message
}

const same = (a: ReadonlyArray<ToolMessage>, b: ReadonlyArray<ToolMessage>): boolean =>
  a.length === b.length && a.every((message, index) => message === b[index])

// What a model is sent

const modelMessage = (message: Message, name: Name): Prompt.Message | undefined => {
  const options = message.options
  switch (message.role) {
    case "system":
      return message.content === "" ? undefined : Prompt.systemMessage({ content: message.content, options })
    case "user":
      return Prompt.userMessage({
        content: message.content.filter(isSaid).map((part) => Content.toPrompt(part)),
        options
      })
    case "assistant": {
      const content = message.content.filter(isSaid).map((part) => assistantPart(part, name))
      return content.length === 0 ? undefined : Prompt.assistantMessage({ content, options })
    }
    case "tool":
      return undefined
  }
}

// Providers refuse empty text; text with options may carry a signature
const isSaid = (part: AssistantPart): boolean => part.type !== "text" || part.text !== "" || part.options !== undefined

const assistantPart = (part: AssistantPart, name: Name): Prompt.AssistantMessagePart => {
  switch (part.type) {
    case "reasoning":
      return Prompt.reasoningPart({ text: part.text, options: part.options })
    case "tool-call":
      return toolCall(
        part,
        json.isObject(part.arguments) ? part.arguments : { invalid_arguments: part.arguments },
        part.options,
        name
      )
    case "tool-result":
      return providerResult(part, part.options)
    default:
      return Content.toPrompt(part)
  }
}

const toolCall = (
  part: ToolCallPart,
  params: unknown,
  options: Content.ProviderOptions | undefined,
  name: Name
): Prompt.ToolCallPart =>
  Prompt.toolCallPart({
    id: part.id,
    name: part.providerExecuted === true ? part.name : name(part.name),
    params,
    providerExecuted: part.providerExecuted === true,
    options
  })

const toolResult = (message: ToolMessage, name: Name, lossless: boolean): Prompt.ToolResultPart => {
  const { result } = message
  const content = ToolResult.content(result)
  return Prompt.toolResultPart({
    id: message.callId,
    name: name(message.name),
    isFailure: ToolResult.isFailure(result),
    result: ToolResult.isFailure(result) ? failureValue(result) : result.value,
    modelOutput: (lossless ? content : content.filter(isSaid)).map((part) => Content.toPrompt(part)),
    providerExecuted: false,
    options: lossless
      ? note.write(message.options, { message: note.ofMessage(message), ...resultNote(result) })
      : message.options
  })
}

const failureValue = ({ message, type, value }: ToolResult.Failure) => ({
  type,
  message,
  ...(value === undefined ? undefined : { value })
})

const resultNote = (result: ToolResult.ToolResult): note.Note =>
  ToolResult.isFailure(result) ? { failure: failureValue(result), content: result.content !== undefined } : {}

// Providers read back their own results as they wrote them
const providerResult = (
  part: ToolResultPart,
  options: Content.ProviderOptions | undefined,
  own: boolean = false
): Prompt.ToolResultPart => {
  const { result } = part
  const hasContent = result.content !== undefined && (own || !isDerived(result))
  return Prompt.toolResultPart({
    id: part.id,
    name: part.name,
    isFailure: ToolResult.isFailure(result),
    result: ToolResult.isFailure(result) ? providerFailure(result) : result.value,
    ...(hasContent ? { modelOutput: ToolResult.content(result).map((part) => Content.toPrompt(part)) } : undefined),
    providerExecuted: true,
    options
  })
}

const providerFailure = (result: ToolResult.Failure): Schema.Json => {
  if (result.value === undefined) return failureValue(result)
  const read = toolResults.failureOf(result.value)
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

const losslessMessage = (message: Message, name: Name): Prompt.Message | undefined => {
  if (message.role === "tool") return undefined
  const options = note.write(message.options, { message: note.ofMessage(message) })
  switch (message.role) {
    case "system":
      return Prompt.systemMessage({ content: message.content, options })
    case "user":
      return Prompt.userMessage({ content: message.content.map((part) => Content.toPrompt(part)), options })
    case "assistant":
      return Prompt.assistantMessage({ content: message.content.map((part) => losslessPart(part, name)), options })
  }
}

const losslessPart = (part: AssistantPart, name: Name): Prompt.AssistantMessagePart => {
  switch (part.type) {
    case "tool-call": {
      const text = part.text === undefined ? undefined : { text: part.text }
      return toolCall(part, part.arguments, note.write(part.options, { exact: true, ...text }), name)
    }
    case "tool-result":
      return providerResult(part, note.write(part.options, resultNote(part.result)), true)
    default:
      return assistantPart(part, name)
  }
}
