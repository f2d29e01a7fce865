/**
 * Conversations as prompts of `effect/ai`, prompts as conversations, and answers of models as messages.
 */

import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import { identity } from "effect/Function"
import { format } from "effect/Formatter"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as PayloadError from "../../payload/PayloadError.ts"
import { copyJson } from "../../payload/internal/copyJson.ts"
import type { Limits } from "../../payload/internal/limits.ts"
import { tooLargeAnswer } from "../../payload/internal/problems.ts"
import { writeText } from "../../payload/internal/textScanner.ts"
import * as jsonValues from "../../payload/internal/values.ts"
import { defined } from "../../payload/internal/values.ts"
import { maxWeight, nodeWeight, weigh, wellFormedness } from "../../payload/internal/weigh.ts"
import * as ToolResult from "../../tool/ToolResult.ts"
import * as boundTool from "../../tool/internal/boundTool.ts"
import * as ConversationError from "../ConversationError.ts"
import * as conversationCodec from "./conversationCodec.ts"
import * as history from "./history.ts"
import * as thoughts from "./thoughts.ts"
import type {
  AssistantMessage,
  AssistantOptions,
  AssistantPart,
  Conversation,
  Converted,
  History,
  Message,
  Node,
  SourcePart,
  TokenUsage,
  ToolCallPart,
  ToolMessage,
  ToolResultPart
} from "./history.ts"

/**
 * Options of `Conversation.toPrompt`.
 */
export interface ToPromptOptions {
  /**
   * Maps tool names, e.g. to names the provider accepts. Pass the same function
   * each time: conversions are cached per function.
   */
  readonly toolName?: ((name: string) => string) | undefined
  /**
   * `true` for a prompt that `Conversation.fromPrompt` can read back. Then it holds
   * everything; the members that prompts have no field for (ids, times, models, usage, metadata,
   * argument text) are in the provider options under `"effect-emissary"`. Default `false`: the
   * prompt for a model.
   */
  readonly lossless?: boolean | undefined
}

// JSON as it arrives from models

export const toJson: (input: unknown) => Option.Option<Schema.Json> = Schema.decodeUnknownOption(Schema.Json)

/** Arguments as they arrive: an object, text, or nothing, which some models write as `null`. `None` where they are not JSON. */
const callArguments = (params: unknown): Option.Option<history.CallArguments> => {
  if (params === undefined || params === null) return Option.some({ arguments: {} })
  if (typeof params === "string" && params.trim() === "null") return Option.some({ arguments: {} })
  if (typeof params === "string") return Option.some(history.parseCallArguments(params))
  const stored = history.storable(params)
  if (stored !== undefined) return Option.some({ arguments: stored })
  return Option.map(Option.flatMap(toJson(params), stringifyJson), history.textArguments)
}

/** The levels of a value that is shown as text. */
const maxLevels = 1000

/** Tests that writing a value takes no longer than the greatest value that is kept. */
const isLight = (value: unknown): boolean => weigh(value, maxWeight, maxLevels, "anything") < Number.POSITIVE_INFINITY

/** The text of a value that is not JSON. */
const textOf = (value: unknown): string =>
  isLight(value)
    ? Result.getOrElse(
        Result.try(() => format(value)),
        () => "not JSON"
      )
    : "not JSON"

/** The result of a tool that the provider ran; a value that cannot be stored becomes its JSON text. */
const resultValue = (value: unknown): Option.Option<Schema.Json> => {
  const stored = value === undefined ? null : history.storable(value)
  return stored === undefined ? Option.flatMap(toJson(value), stringifyJson) : Option.some(stored)
}

/** `None` where the value is too large, or nested too deep. */
export const stringifyJson = (json: Schema.Json): Option.Option<string> =>
  isLight(json) ? Result.getSuccess(Result.try(() => JSON.stringify(json))) : Option.none()

// Notes of lossless prompts

/** The name under which a lossless prompt keeps the members that prompts have no field for. */
const noteKey = "effect-emissary"

const Note = Schema.Struct({
  message: Schema.optionalKey(
    history.AssistantMessage.mapFields(({ content: _content, options: _options, role: _role, ...fields }) => fields)
  ),
  /** The sources of an answer, with their positions in its content. */
  sources: Schema.optionalKey(Schema.Array(Schema.Struct({ at: history.Position, part: history.SourcePart }))),
  /** True if the arguments in the prompt equal the arguments of the call. */
  exact: Schema.optionalKey(Schema.Literal(true)),
  /** Argument text as received. */
  text: Schema.optionalKey(Schema.String),
  /** The members of a failure that its value may lack. */
  failure: Schema.optionalKey(
    Schema.Struct({ type: Schema.String, message: Schema.String, value: Schema.optionalKey(Schema.Json) })
  ),
  /** The result has content of its own. */
  content: Schema.optionalKey(Schema.Boolean)
})

type Note = typeof Note.Type

const encodeNote = Schema.encodeOption(Schema.toCodecJson(Note))

const decodeNote = Schema.decodeUnknownOption(Schema.toCodecJson(Note))

/** The schema of the note selects the members of the message. */
const addMessageNote = (message: Message, note: Note): ToolResult.ProviderOptions =>
  addNote(message.options, { message, ...note })

const addNote = (options: ToolResult.ProviderOptions | undefined, note: Note): ToolResult.ProviderOptions =>
  Option.match(Object.keys(note).length === 0 ? Option.none() : encodeNote(note), {
    onNone: () => options ?? {},
    onSome: (encoded) => ({ ...options, [noteKey]: encoded })
  })

interface NotedOptions {
  readonly note: Note
  /** The provider options without the note; absent where there are no others. */
  readonly given: { readonly options?: ToolResult.ProviderOptions }
}

const takeNote = (options: ToolResult.ProviderOptions): NotedOptions => {
  const { [noteKey]: encoded, ...others } = options
  const note = encoded === undefined ? Option.none() : decodeNote(encoded)
  const given = Option.isSome(note) ? others : options
  return {
    note: Option.getOrElse(note, (): Note => ({})),
    given: Object.keys(given).length === 0 ? {} : { options: given }
  }
}

/** A tool's result from the value and the model output of a prompt or response part. */
const resultFromPart = (
  part: Pick<Prompt.ToolResultPart, "isFailure" | "modelOutput">,
  value: Schema.Json,
  note: Note = {}
): ToolResult.ToolResult => {
  const content = boundTool.fromPrompt(part.modelOutput ?? [])
  if (!part.isFailure) return ToolResult.success(value, content)
  const failure: ToolResult.Failure =
    note.failure === undefined ? failureFromValue(value) : { _tag: "Failure", ...note.failure }
  const own = note.content ?? (content !== undefined && !Equal.equals(content, ToolResult.content(failure)))
  return own && content !== undefined ? { ...failure, content } : failure
}

// The failures that effect/ai makes itself, by our names
const coreFailureTypes: Readonly<Record<string, string>> = {
  "execution-denied": "denied",
  "execution-interrupted": "interrupted"
}

const failureKeys = new Set(["type", "message", "value"])

/** The failure that a value describes. */
const failureFromValue = (value: Schema.Json): ToolResult.Failure => {
  if (!jsonValues.isObject(value)) return ToolResult.failure("execution_error", valueText(value), value)
  const type = textField(value, "type")
  const message = textField(value, "message")
  if (type !== undefined && message !== undefined && Object.keys(value).every((key) => failureKeys.has(key))) {
    return ToolResult.failure(type, message, value["value"])
  }
  const name = type ?? textField(value, "_tag") ?? "execution_error"
  return ToolResult.failure(
    jsonValues.own(coreFailureTypes, name) ?? name,
    message ?? textField(value, "reason") ?? valueText(value),
    value
  )
}

const textField = (value: Readonly<Record<string, Schema.Json>>, key: string): string | undefined => {
  const found = jsonValues.own(value, key)
  return typeof found === "string" ? found : undefined
}

const valueText = (value: Schema.Json): string => (typeof value === "string" ? value : JSON.stringify(value))

/** One way to convert. */
interface Writer {
  readonly name: (name: string) => string
  readonly lossless: boolean
}

/**
 * Converts a conversation into a prompt of `effect/ai`.
 *
 * **Details**
 *
 * The results that answer one assistant message become one tool message. A result
 * travels as `modelOutput`, next to its value. What providers refuse is left out or
 * made acceptable: arguments that are no object become `{ invalid_arguments }`, and left out are
 *
 * - text of white space, and an empty system message,
 * - reasoning with nothing after it, and an answer without other content, which was cut off while the
 *   model was thinking,
 * - calls of earlier turns that the provider was to run and never answered.
 *
 * Sources are not sent, because prompts have no place for them. A prompt never holds approval parts,
 * which would make `effect/ai` execute tools by itself.
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
export const toPrompt = (self: Conversation, options: ToPromptOptions = {}): Prompt.Prompt => {
  const { lossless = false, toolName = identity } = options
  const conversation = history.asHistory(self)
  const { last } = conversation
  if (last === undefined) return Prompt.empty
  const known = history.History.prompts(conversation)
  const isOther = (one: Converted) => one.toolName !== toolName || one.lossless !== lossless
  const before = known.find((one) => !isOther(one))
  const converted = convert(conversation, last, { name: toolName, lossless }, before)
  if (converted !== before) {
    history.History.setPrompts(conversation, [converted, ...known.filter(isOther).slice(0, maxPrompts - 1)])
  }
  const { content, length, results } = converted
  const upToHead = content.length === length && results !== undefined ? content : content.slice(0, length)
  // An array of its own: the provider may change it, and longer prompts add to the other one
  return Prompt.fromMessages(results === undefined ? upToHead : upToHead.concat([results]))
}

/** The prompts that a conversation keeps: for its model, and for other readers. */
const maxPrompts = 3

/**
 * Extends the prompt of an earlier conversation of the same line, so a run of n steps converts each message once. The
 * results of the last answer are kept apart, because more of them may arrive.
 */
const convert = (self: History, last: Node, writer: Writer, known: Converted | undefined): Converted => {
  const { lossless, name: toolName } = writer
  const unanswered = lossless ? undefined : self.unanswered
  const usable = known?.unanswered === unanswered ? known : undefined
  if (usable?.last === last) return usable
  const newer: Array<Node> = []
  let node: Node | undefined = last
  for (; node !== undefined && node !== usable?.head; node = node.previous) newer.push(node)
  const before = node === undefined ? undefined : usable
  const content =
    before === undefined
      ? []
      : before.content.length > before.length
        ? before.content.slice(0, before.length)
        : before.content
  const omitted = unanswered === undefined ? undefined : history.unansweredCalls(self)
  let head = before?.head
  let newest: Node | undefined
  let results: Array<ToolMessage> = []
  const answer = (): Prompt.Message | undefined => {
    if (newest === undefined || newest === before?.last) return newest && before?.results
    const sorted = history.inCallOrder(head?.message, results)
    return Prompt.toolMessage({ content: sorted.map((result) => promptToolResult(result, writer)) })
  }
  for (const node of newer.reverse()) {
    const { message } = node
    if (message.role === "tool") {
      newest = node
      results.push(lossless ? message : history.sendable(message))
    } else {
      const answered = answer()
      if (answered !== undefined) content.push(answered)
      const kept = omitted === undefined ? message : history.withoutUnanswered(omitted, message)
      content.push(...promptMessage(lossless ? message : history.sendable(kept), writer))
      head = node
      newest = undefined
      results = []
    }
  }
  return { toolName, lossless, unanswered, head, content, length: content.length, last, results: answer() }
}

/** A model is sent nothing of an empty message. */
const promptMessage = (message: Exclude<Message, ToolMessage>, writer: Writer): ReadonlyArray<Prompt.Message> => {
  const options = writer.lossless ? addMessageNote(message, {}) : message.options
  switch (message.role) {
    case "system":
      return history.isBlank(message.content) && !writer.lossless
        ? []
        : [Prompt.systemMessage({ content: message.content, options })]
    case "user":
      return [Prompt.userMessage({ content: promptContent(message.content, writer), options })]
    case "assistant":
      return writer.lossless
        ? [losslessAnswer(message, writer)]
        : [...history.askedIn(message).map(asking), ...sentAnswer(message, writer)]
  }
}

/** A sentence of the run to the model, as a message. */
export const asking = (sentence: string): Prompt.Message =>
  Prompt.userMessage({ content: [Prompt.textPart({ text: sentence })] })

const sentAnswer = (message: AssistantMessage, writer: Writer): ReadonlyArray<Prompt.Message> => {
  const parts = history.saidParts(sentParts(message.content, writer), (_, part) => history.isWords(part))
  const options = mergeMetadata(message.response?.metadata ?? {}, message.options ?? {})
  const content = parts.map((part) => promptPart(part, writer))
  return content.length === 0 ? [] : [Prompt.assistantMessage({ content, options })]
}

const losslessAnswer = (message: AssistantMessage, writer: Writer): Prompt.Message => {
  const sources = message.content.flatMap((part, at) => (part.type === "source" ? [{ at, part }] : []))
  return Prompt.assistantMessage({
    content: message.content.flatMap((part) => (part.type === "source" ? [] : [promptPart(part, writer)])),
    options: addMessageNote(message, sources.length === 0 ? {} : { sources })
  })
}

const sentParts = <P extends AssistantPart>(parts: ReadonlyArray<P>, { lossless }: Writer): ReadonlyArray<P> =>
  lossless || parts.every(isSent) ? parts : parts.filter(isSent)

// Providers reject text of white space; text with options may carry a signature
const isSent = (part: AssistantPart): boolean =>
  part.type !== "text" || !history.isBlank(part.text) || part.options !== undefined

const promptContent = (content: ReadonlyArray<ToolResult.Content>, writer: Writer) =>
  sentParts(content, writer).map(toPromptPart)

/** A URL that does not parse is sent unchanged, as text: the provider validates it. */
export const toPromptPart = (part: ToolResult.Content): Prompt.TextPart | Prompt.FilePart => {
  if (part.type === "text") return Prompt.textPart({ text: part.text, options: part.options })
  const { data, fileName, mediaType, options } = part
  return Prompt.filePart({ mediaType, fileName, data: toPromptData(data), options })
}

const toPromptData = (data: ToolResult.FilePart["data"]): string | URL => {
  if (data.type === "base64") return data.base64
  return URL.canParse(data.url) ? new URL(data.url) : data.url
}

/** The parts of an answer as a prompt has them. */
export const promptParts = (parts: ReadonlyArray<AssistantPart>): ReadonlyArray<Prompt.AssistantMessagePart> =>
  parts.flatMap((part) => (part.type === "source" ? [] : [promptPart(part, { name: identity, lossless: false })]))

const promptPart = (part: Exclude<AssistantPart, SourcePart>, writer: Writer): Prompt.AssistantMessagePart => {
  switch (part.type) {
    case "reasoning":
      return Prompt.reasoningPart({ text: part.text, options: part.options })
    case "tool-call":
      return promptToolCall(part, writer)
    case "tool-result":
      return promptProviderResult(part, writer)
    default:
      return toPromptPart(part)
  }
}

const promptToolCall = (part: ToolCallPart, { lossless, name }: Writer): Prompt.ToolCallPart => {
  const asIs = lossless || Predicate.isObject(part.arguments)
  return Prompt.toolCallPart({
    id: part.id,
    name: part.providerExecuted === true ? part.name : name(part.name),
    params: asIs ? part.arguments : { invalid_arguments: part.arguments },
    providerExecuted: part.providerExecuted === true,
    options: lossless ? addNote(part.options, { exact: true, ...defined({ text: part.text }) }) : part.options
  })
}

const promptToolResult = (message: ToolMessage, writer: Writer): Prompt.ToolResultPart => {
  const { result } = message
  const isFailure = result._tag === "Failure"
  return Prompt.toolResultPart({
    id: message.callId,
    name: writer.name(message.name),
    isFailure,
    result: isFailure ? failureValue(result) : result.value,
    modelOutput: promptContent(isFailure ? ToolResult.content(result) : result.content, writer),
    providerExecuted: false,
    options: writer.lossless ? addMessageNote(message, resultNote(result)) : message.options
  })
}

const failureValue = ({ message, type, value }: ToolResult.Failure) => ({
  type,
  message,
  ...defined({ value })
})

const resultNote = (result: ToolResult.ToolResult): Note =>
  result._tag === "Failure" ? { failure: failureValue(result), content: result.content !== undefined } : {}

// Providers read back their own results as they wrote them
const promptProviderResult = (part: ToolResultPart, { lossless }: Writer): Prompt.ToolResultPart => {
  const { result } = part
  const hasContent = result.content !== undefined && (lossless || !isDerived(result))
  return Prompt.toolResultPart({
    id: part.id,
    name: part.name,
    isFailure: result._tag === "Failure",
    result: result._tag === "Failure" ? providerFailure(result) : result.value,
    ...(hasContent ? { modelOutput: ToolResult.content(result).map(toPromptPart) } : undefined),
    providerExecuted: true,
    options: lossless ? addNote(part.options, resultNote(result)) : part.options
  })
}

const providerFailure = (result: ToolResult.Failure): Schema.Json => {
  if (result.value === undefined) return failureValue(result)
  const read = failureFromValue(result.value)
  const isComplete = read.type === result.type && read.message === result.message && read.value !== undefined
  return isComplete ? result.value : failureValue(result)
}

/** Tests that the content is what the model reads anyway. */
const isDerived = (result: ToolResult.ToolResult): boolean => {
  const plain =
    result._tag === "Failure"
      ? ToolResult.failure(result.type, result.message, result.value)
      : ToolResult.success(result.value)
  return Equal.equals(ToolResult.content(plain), ToolResult.content(result))
}

// Prompts as conversations

const failWith = (reason: ConversationError.Reason) => Effect.fail(new ConversationError.ConversationError({ reason }))

const readPrompt = Effect.fnUntraced(function* (
  prompt: Prompt.Prompt,
  { laterSystem, tokenLimit }: history.ReadOptions = {}
) {
  let self = history.limited(history.empty, tokenLimit)
  for (const [index, message] of prompt.content.entries()) {
    for (const next of yield* readMessage(self, index, message)) {
      const refused = history.refusedSystem(self, next, laterSystem, index)
      if (refused !== undefined) return yield* failWith(refused)
      self = yield* Effect.fromResult(history.appendAt(self, next, index))
    }
  }
  return self
})

/** Like `readPrompt`, but repairs a history that breaks laws. */
const repairPrompt = Effect.fnUntraced(function* (prompt: Prompt.Prompt, options: history.ReadOptions = {}) {
  const repairer = conversationCodec.makeRepairer(options)
  for (const [index, message] of prompt.content.entries()) {
    const converted = yield* Effect.result(readMessage(repairer.self, index, message))
    if (Result.isSuccess(converted)) {
      for (const next of converted.success) yield* repairer.add(next, index)
      continue
    }
    const { reason } = converted.failure
    // A value that is not JSON breaks no law
    if (reason._tag !== "EmptyContent") return yield* failWith(reason)
    repairer.drop({ index, id: reason.id ?? "" }, reason)
  }
  return yield* repairer.finish(undefined)
})

/**
 * Reads a conversation from a prompt of `effect/ai` and checks every law.
 *
 * **Details**
 *
 * Each result of a tool message becomes a message. Messages that {@link toPrompt} wrote with `lossless` keep their ids
 * and times; others get new ones. Approval parts are not history and are dropped. Indices in errors count messages of
 * the prompt. With `onUnlawful: "repair"` a history that breaks laws is repaired instead of refused, see
 * `Conversation.repair`.
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
 * const error = Effect.runSync(Effect.flip(Conversation.fromPrompt(prompt, { laterSystem: "refuse" })))
 * assert.strictEqual(error.reason._tag, "MisplacedSystem")
 * ```
 *
 * @category conversions
 * @since 0.1.0
 */
export const fromPrompt: conversationCodec.Reader<
  Prompt.Prompt,
  history.ReadOptions,
  ConversationError.ConversationError
> = conversationCodec.makeReader(readPrompt, repairPrompt)

type ReadMessages = Effect.Effect<ReadonlyArray<Message>, ConversationError.ConversationError>

const readMessage = (self: history.Facts, index: number, message: Prompt.Message): ReadMessages => {
  const { given, note } = takeNote(message.options)
  const options: AssistantOptions = { ...note.message, ...given }
  switch (message.role) {
    case "system":
      return Effect.map(history.system(message.content, options), (message) => [message])
    case "user": {
      const content = boundTool.fromPrompt(message.content)
      return content === undefined
        ? failWith({ _tag: "EmptyContent", index, role: "user", ...defined({ id: options.id }) })
        : Effect.map(history.user(content, options), (message) => [message])
    }
    case "assistant":
      return readAssistant(self, index, message, { note, options })
    case "tool":
      return readToolMessages(index, message)
  }
}

/** The message, and the results of tools of this side that a prompt may hold in it. */
const readAssistant = Effect.fnUntraced(function* (
  self: history.Facts,
  index: number,
  message: Prompt.AssistantMessage,
  { note, options }: { readonly note: Note; readonly options: AssistantOptions }
) {
  const content: Array<AssistantPart> = []
  const results: Array<ToolMessage> = []
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
          const { given, result } = yield* readToolResult(index, part)
          content.push({ type: "tool-result", id: part.id, name: part.name, result, ...given })
        } else {
          results.push(yield* readToolMessage(index, part))
        }
        break
      }
      case "tool-approval-request":
        break
      case "reasoning":
        content.push({ type: "reasoning", text: part.text, ...takeNote(part.options).given })
        break
      default:
        content.push(boundTool.fromPromptPart(part))
    }
  }
  for (const { at, part } of note.sources ?? []) content.splice(at, 0, part)
  return [yield* history.assistant(content, options), ...results]
})

const readToolCall = Effect.fnUntraced(function* (index: number, part: Prompt.ToolCallPart) {
  const { given, note } = takeNote(part.options)
  const found =
    note.exact === true
      ? Option.map(toJson(part.params), (json) => ({
          arguments: json,
          ...defined({ text: note.text })
        }))
      : callArguments(part.params)
  if (Option.isNone(found)) return yield* failWith({ _tag: "NotJson", index, callId: part.id, what: "arguments" })
  const call: ToolCallPart = {
    type: "tool-call",
    id: part.id,
    name: part.name,
    ...found.value,
    ...(part.providerExecuted ? { providerExecuted: true } : undefined),
    ...given
  }
  if (!history.textFitsArguments(call)) return yield* failWith({ _tag: "ArgumentsDiffer", index, callId: part.id })
  return call
})

const readToolMessages = (index: number, message: Prompt.ToolMessage): ReadMessages => {
  const results = message.content.filter((part) => part.type === "tool-result")
  return Effect.forEach(results, (part, position) =>
    // The options of the whole message move to its end, where caches break
    position === results.length - 1
      ? readToolMessage(index, { ...part, options: { ...message.options, ...part.options } })
      : readToolMessage(index, part)
  )
}

const readToolMessage = Effect.fnUntraced(function* (index: number, part: Prompt.ToolResultPart) {
  const { given, note, result } = yield* readToolResult(index, part)
  return yield* history.tool({ callId: part.id, name: part.name, result }, { ...note.message, ...given })
})

const readToolResult = Effect.fnUntraced(function* (index: number, part: Prompt.ToolResultPart) {
  const value = resultValue(part.result)
  if (Option.isNone(value)) return yield* failWith({ _tag: "NotJson", index, callId: part.id, what: "result" })
  const noted = takeNote(part.options)
  return { ...noted, result: resultFromPart(part, value.value, noted.note) }
})

/** A request of the provider for the approval of a tool that it runs itself. */
interface ProviderApproval {
  readonly approvalId: string
  readonly callId: string
}

/**
 * The content of a response.
 *
 * **Details**
 *
 * `model` comes from the response's metadata part. `finishReason` is absent where
 * the response had no finish part. `errors` are the error parts of a stream, which
 * mean that the step failed.
 */
export interface ResponseContent {
  readonly content: ReadonlyArray<AssistantPart>
  readonly usage?: TokenUsage | undefined
  readonly finishReason?: Response.FinishReason | undefined
  readonly model?: string | undefined
  readonly response?: AssistantMessage["response"]
  readonly approvals: ReadonlyArray<ProviderApproval>
  readonly errors: ReadonlyArray<unknown>
}

/**
 * A piece of an answer that a model streams. It names its part: the index in the content that is stored, and of a call the
 * id and the name that are stored.
 */
export type Delta =
  | { readonly _tag: "TextDelta" | "ReasoningDelta"; readonly index: number; readonly delta: string }
  | {
      readonly _tag: "CallDelta"
      readonly index: number
      readonly callId: string
      readonly name: string
      readonly delta: string
    }

/**
 * Collects the parts of one response as they arrive. `result` may be read at any time: it has what the deltas until then have.
 *
 * **Details**
 *
 * Equal content becomes equal messages, streamed or not. Deltas without a start open a block. Blocks that never end are kept.
 *
 * A part has its final index, id and name when it begins: a text or a thought with its first character, a call with its name, a
 * text without characters, which is kept for its metadata, where it ends, or before the next call. Half a character, and the
 * beginning of a tag, waits for the next delta, or for the end.
 *
 * Text, reasoning, sources, files, tool calls and results of tools that the provider ran
 * are kept in order with their provider metadata. Results of tools that `effect/ai` resolved itself and
 * preliminary results are left out.
 *
 * Arguments that arrive as text are parsed; the text is kept next to them. A
 * stream's argument text is kept where it is not the compact JSON of the
 * arguments. Text that does not parse replaces the arguments; empty text is `{}`. A value that is not JSON is replaced by a
 * text that shows it, so that only its own call fails.
 */
export interface StreamAccumulator {
  readonly add: (part: Response.AnyPart) => ReadonlyArray<Delta>
  /** The end of the answer: the deltas of what waited. */
  readonly end: () => ReadonlyArray<Delta>
  readonly result: () => ResponseContent
  /** At most as many bytes as the answer has until now. */
  readonly size: () => number
}

/** The reason why an answer is not kept. It is no mistake of the model if it is `overLimit`. */
export interface Unstorable {
  readonly problem: string
  readonly overLimit: boolean
}

/**
 * The problem of an answer that could not be stored. Events and states have more levels around it, and its calls up to three
 * times more.
 */
export const unstorable = (answer: ResponseContent, limits: Limits): Unstorable | undefined => {
  const { content, model, response } = answer
  // A time has a bounded size, and is no JSON yet
  const kept = { content, ...defined({ model, id: response?.id, metadata: response?.metadata }) }
  if (wellFormedness(kept) === "equal keys") {
    const problem = "two keys in the answer of the model are equal once each half of a character is U+FFFD"
    return { problem, overLimit: false }
  }
  const { maxArrayLength, maxBytes, maxDepth, maxKeys, maxNodes, maxStringLength } = limits
  const values = Math.min(maxArrayLength, maxKeys, maxNodes / 8)
  // An answer as light as this fits, however its characters are written and whatever it is made of
  const light = Math.min(maxBytes / 32, maxStringLength, values * nodeWeight)
  if (weigh(kept, light) <= light) return undefined
  const calls = content.filter(({ type }) => type === "tool-call")
  const within = {
    ...limits,
    maxBytes: Math.floor(maxBytes * partOfAnswer),
    maxNodes: maxNodes / 2,
    maxDepth: maxDepth / 2 + levelsAround
  }
  const written = Result.flatMap(copyJson([kept, calls, calls, calls], within), (json) =>
    writeText(json, within, undefined)
  )
  if (Result.isSuccess(written)) return undefined
  const { failure } = written
  const error = new PayloadError.PayloadError({ what: "the answer of the model", reason: failure })
  const [one] = error.problems
  return one !== undefined && (failure._tag === "TooLarge" || failure._tag === "TooDeep")
    ? {
        problem: tooLargeAnswer(`the model${one.path && ` at ${one.path}`}`, one.expected, one.found),
        overLimit: true
      }
    : { problem: error.message, overLimit: false }
}

/** The rest is for the event around an answer. */
const partOfAnswer = 0.9

/** The levels from an answer to the arguments and the metadata in it. */
const levelsAround = 6

type Metadata = ToolResult.ProviderOptions

type Kind = thoughts.Piece["type"] | "call"

/** All that the provider streams under one id. */
interface Block {
  readonly kind: Kind
  /** Of a call, as it is stored. */
  id: string
  /** Of a call, and empty until it arrives. */
  name: string
  providerExecuted: boolean
  /** The arguments of a call. */
  text: string
  metadata: Metadata
  part: AssistantPart | undefined
  /** Absent before the first character. */
  reader: thoughts.Reader | undefined
  /** Absent before the part begins. Thoughts in front of a text have a place of their own. */
  readonly places: { [K in Kind]?: GrowingPart }
}

/** A part of the content. Its text may grow. */
interface GrowingPart {
  readonly block: Block
  readonly kind: Kind
  readonly index: number
  text: string
}

/** Options of an accumulator. */
interface Options {
  /** The answer is an object, in which thoughts stay where they are. Otherwise thoughts in front of its text become reasoning. */
  readonly isObject?: boolean
  /** The deltas are read. Default `true`; otherwise the arguments of calls that came whole are not written as text. */
  readonly isShown?: boolean
  /** The name of a tool, of the name that the provider has for it. Default: the same name. */
  readonly toolName?: (name: string) => string
  /** The ids of calls. Default: the provider's. */
  readonly labels?: Pick<history.CallLabels, "ofCall" | "ofResult">
}

const itsId = ({ id }: { readonly id: string }): string => id

/** Starts collecting. The accumulator is mutable: one per response. */
export const accumulator = (options: Options = {}): StreamAccumulator => new Accumulator(options)

type About = Pick<ResponseContent, "usage" | "finishReason" | "model" | "response">

class Accumulator implements StreamAccumulator {
  private counted = 0
  private readonly places: Array<GrowingPart> = []
  /** Of streams only. */
  private readonly open: Readonly<Record<Kind, Map<string, Block>>> = {
    text: new Map(),
    reasoning: new Map(),
    call: new Map()
  }
  /** Texts and thoughts without an end. */
  private readonly unended = new Set<Block>()
  /** Texts that begin with half a character or of a tag. They begin as they are where another part begins before the rest arrives. */
  private readonly waiting = new Set<Block>()
  /** Texts and thoughts with metadata and no character. A call that follows may need them, as a signature, before it. */
  private readonly silent = new Set<Block>()
  /** The deltas of the part that is added. */
  private said: Array<Delta> = []
  private readonly approvals: Array<ProviderApproval> = []
  private readonly errors: Array<unknown> = []
  private about: About = {}
  private hasText: boolean
  private readonly isShown: boolean
  private readonly toolName: (name: string) => string
  private readonly labels: NonNullable<Options["labels"]>

  constructor(options: Options) {
    const {
      isObject = false,
      isShown = true,
      labels = { ofCall: itsId, ofResult: itsId },
      toolName = identity
    } = options
    this.hasText = isObject
    this.isShown = isShown
    this.labels = labels
    this.toolName = toolName
  }

  private addAbout({ metadata, response, ...fields }: About & { readonly metadata: Metadata }): void {
    const { about } = this
    const merged = mergeMetadata(about.response?.metadata ?? {}, metadata)
    const whole = defined({ ...about.response, ...response, metadata: isEmpty(merged) ? undefined : merged })
    this.about = { ...about, ...defined(fields), ...(isEmpty(whole) ? undefined : { response: whole }) }
  }

  private make(kind: Kind, metadata: Metadata): Block {
    this.counted += nodeWeight
    return {
      kind,
      id: "",
      name: "",
      providerExecuted: false,
      text: "",
      metadata,
      part: undefined,
      reader: undefined,
      places: {}
    }
  }

  private start(kind: Kind, id: string, metadata: Metadata): Block {
    const block = this.make(kind, metadata)
    this.open[kind].set(id, block)
    if (kind === "call") return block
    this.unended.add(block)
    if (!isEmpty(metadata)) this.silent.add(block)
    return block
  }

  private placeOf(block: Block, kind: Kind): GrowingPart {
    const known = block.places[kind]
    if (known !== undefined) return known
    this.waiting.delete(block)
    this.silent.delete(block)
    for (const other of this.waiting) this.endText(other)
    if (kind === "call") for (const other of this.silent) this.placeOf(other, other.kind)
    const place = { block, kind, index: this.places.length, text: "" }
    this.places.push(place)
    block.places[kind] = place
    return place
  }

  private grow(kind: Kind, id: string, delta: string, metadata: Metadata): void {
    const block = this.open[kind].get(id) ?? this.start(kind, id, {})
    this.counted += delta.length + 1
    block.metadata = mergeMetadata(block.metadata, metadata)
    const isSilent = kind !== "call" && delta === "" && block.reader === undefined && block.places[kind] === undefined
    if (isSilent && !isEmpty(metadata)) this.silent.add(block)
    this.write(block, delta)
  }

  private write(block: Block, delta: string): void {
    if (delta === "") return
    this.silent.delete(block)
    if (block.kind === "call") block.text += delta
    if (block.kind === "call" && block.name === "") return
    block.reader ??= this.readerFor(block)
    this.say(block, block.reader.add(delta))
    if (block.kind !== "call" && block.places[block.reader.type] === undefined) this.waiting.add(block)
  }

  private readerFor({ kind }: Block): thoughts.Reader {
    if (kind !== "text") return new thoughts.Reader(kind === "call" ? "text" : kind)
    const isFront = !this.hasText
    this.hasText = true
    return new thoughts.Reader(isFront ? "front" : kind)
  }

  private say(block: Block, pieces: ReadonlyArray<thoughts.Piece>): void {
    for (const { text, type } of pieces) {
      if (block.kind === "call") this.sayCall(block, text)
      else {
        const place = this.placeOf(block, type)
        place.text += text
        const _tag = type === "text" ? "TextDelta" : "ReasoningDelta"
        this.said.push({ _tag, index: place.index, delta: text })
      }
    }
  }

  private sayCall(block: Block, delta: string): void {
    const { index } = this.placeOf(block, "call")
    this.said.push({ _tag: "CallDelta", index, callId: block.id, name: block.name, delta })
  }

  private endText(block: Block): void {
    this.waiting.delete(block)
    if (block.reader !== undefined) this.say(block, block.reader.end())
  }

  private close(block: Block): void {
    this.unended.delete(block)
    this.endText(block)
    if (block.reader === undefined && !isEmpty(block.metadata)) this.placeOf(block, block.kind)
  }

  /** A call without a name calls nothing, and no provider takes it back. */
  private begin(block: Block, call: Pick<Response.ToolParamsStartPart, "id" | "name" | "providerExecuted">): void {
    const { id, name, providerExecuted } = call
    if (name === "" || block.name !== "") return
    block.providerExecuted = providerExecuted
    block.id = this.labels.ofCall({ id: id.toWellFormed(), providerExecuted })
    block.name = this.toolName(name.toWellFormed())
  }

  private addCall(part: Response.ToolCallPart<string, unknown>): void {
    const started = this.open.call.get(part.id)
    const given = part.params === undefined ? started?.text : part.params
    const args = Option.getOrElse(callArguments(given), () => history.textArguments(started?.text || textOf(given)))
    const block = started ?? this.make("call", {})
    this.open.call.delete(part.id)
    const isShown = !this.isShown || (block.name !== "" && !history.isBlank(block.text))
    this.begin(block, part)
    if (block.name === "") return
    const call: ToolCallPart = {
      type: "tool-call",
      id: block.id,
      name: block.name,
      ...receivedText(block.text, args.arguments),
      ...args,
      ...(part.providerExecuted || block.providerExecuted ? { providerExecuted: true } : undefined),
      ...partOptions(mergeMetadata(block.metadata, part.metadata))
    }
    block.part = call
    this.endText(block)
    this.placeOf(block, "call")
    if (!isShown) this.sayCall(block, argumentsText(call))
  }

  private addResult(part: Response.ToolResultPart<string, unknown, unknown>): void {
    if (part.preliminary || !part.providerExecuted) return
    const value = Option.getOrElse(resultValue(part.encodedResult), () => textOf(part.encodedResult))
    const name = this.toolName(part.name.toWellFormed())
    const id = this.labels.ofResult({ id: part.id.toWellFormed(), name })
    const result = resultFromPart(part, value)
    this.addPart({ type: "tool-result", id, name, result, ...partOptions(part.metadata) })
  }

  private addPart(part: AssistantPart): void {
    const block = this.make("text", {})
    block.part = part
    this.placeOf(block, "text")
  }

  add(part: Response.AnyPart): ReadonlyArray<Delta> {
    this.said = []
    this.take(part)
    return this.said
  }

  private take(part: Response.AnyPart): void {
    switch (part.type) {
      case "text":
      case "reasoning": {
        const block = this.make(part.type, part.metadata)
        this.write(block, part.text)
        this.close(block)
        return
      }
      case "text-start":
      case "reasoning-start":
        this.start(kindOf(part.type), part.id, part.metadata)
        return
      case "tool-params-start": {
        const block = this.start("call", part.id, part.metadata)
        this.begin(block, part)
        if (block.name !== "") this.sayCall(block, "")
        return
      }
      case "text-delta":
      case "reasoning-delta":
      case "tool-params-delta":
        this.grow(kindOf(part.type), part.id, part.delta, part.metadata)
        return
      case "text-end":
      case "reasoning-end": {
        const kind = kindOf(part.type)
        this.grow(kind, part.id, "", part.metadata)
        const block = this.open[kind].get(part.id)
        this.open[kind].delete(part.id)
        if (block !== undefined) this.close(block)
        return
      }
      case "tool-params-end":
        // The call itself follows
        this.grow("call", part.id, "", part.metadata)
        return
      case "tool-call":
        this.addCall(part)
        return
      case "tool-result":
        this.addResult(part)
        return
      case "file":
        this.addPart(ToolResult.filePart({ mediaType: part.mediaType, data: part.data, ...partOptions(part.metadata) }))
        return
      case "source": {
        const { id, title } = part
        this.addPart({
          type: "source",
          id,
          ...defined({ title }),
          data: sourceData(part),
          ...partOptions(part.metadata)
        })
        return
      }
      case "response-metadata": {
        const { id, metadata, modelId: model, timestamp: createdAt } = part
        this.addAbout({ model, response: defined({ id, createdAt }), metadata })
        return
      }
      case "finish":
        this.addAbout({ finishReason: part.reason, usage: usageOf(part.usage), metadata: part.metadata })
        return
      case "error":
        this.errors.push(part.error)
        return
      case "tool-approval-request": {
        const callId = this.labels.ofResult({ id: part.toolCallId, name: "" })
        this.approvals.push({ approvalId: part.approvalId, callId })
        return
      }
    }
  }

  end(): ReadonlyArray<Delta> {
    this.said = []
    for (const block of this.unended) this.close(block)
    return this.said
  }

  size(): number {
    return this.counted
  }

  result(): ResponseContent {
    return {
      content: this.places.map(partAt),
      ...this.about,
      approvals: [...this.approvals],
      errors: [...this.errors]
    }
  }
}

const isEmpty = (record: object): boolean => Object.keys(record).length === 0

const sourceData = (part: Response.UrlSourcePart | Response.DocumentSourcePart): SourcePart["data"] =>
  part.sourceType === "url"
    ? { type: "url", url: String(part.url) }
    : { type: "document", mediaType: part.mediaType, ...defined({ fileName: part.fileName }) }

const kindOf = (type: string): Kind => {
  if (type.startsWith("text")) return "text"
  return type.startsWith("reasoning") ? "reasoning" : "call"
}

const partAt = ({ block, kind, text }: GrowingPart): AssistantPart => {
  if (block.part !== undefined) return block.part
  const options = partOptions(block.metadata)
  // Thoughts in front of a text have no metadata of their own
  if (kind !== "call") return { type: kind, text, ...(kind === block.kind && options) }
  return {
    type: "tool-call",
    id: block.id,
    name: block.name,
    ...history.parseCallArguments(block.text),
    ...(block.providerExecuted ? { providerExecuted: true } : undefined),
    ...options
  }
}

/** The arguments of a call as text, which some models leave empty. */
const argumentsText = ({ arguments: args, text = "" }: ToolCallPart): string =>
  history.isBlank(text) ? JSON.stringify(args) : text

/** An answer that came as a whole, as the deltas of its parts. */
export const deltasOf = (content: ReadonlyArray<AssistantPart>): ReadonlyArray<Delta> =>
  content.flatMap((part, index): ReadonlyArray<Delta> => {
    if (part.type === "tool-call") {
      return [{ _tag: "CallDelta", index, callId: part.id, name: part.name, delta: argumentsText(part) }]
    }
    if ((part.type !== "text" && part.type !== "reasoning") || part.text === "") return []
    return [{ _tag: part.type === "text" ? "TextDelta" : "ReasoningDelta", index, delta: part.text }]
  })

/** The streamed text of arguments, where it holds more than the arguments do. */
const receivedText = (text: string, args: Schema.Json): { readonly text: string } | undefined => {
  if (text.trim() === "" || Option.contains(stringifyJson(args), text)) return undefined
  const parsed = history.parseCallArguments(text)
  return parsed.text !== undefined && Equal.equals(parsed.arguments, args) ? { text } : undefined
}

const partOptions = (metadata: Metadata): { readonly options: Metadata } | undefined =>
  isEmpty(metadata) ? undefined : { options: metadata }

/** Later metadata over earlier, key by key within a provider. */
const mergeMetadata = (left: Metadata, right: Metadata): Metadata => {
  if (Object.keys(right).length === 0) return left
  const merged = new Map(Object.entries(left))
  for (const [provider, value] of Object.entries(right)) {
    const previous = merged.get(provider)
    merged.set(
      provider,
      jsonValues.isObject(previous) && jsonValues.isObject(value) ? { ...previous, ...value } : value
    )
  }
  return Object.fromEntries(merged)
}

const usageOf = ({ inputTokens: input, outputTokens: output }: Response.Usage): TokenUsage | undefined => {
  const usage = defined({
    inputTokens: countOf(input.total ?? sumCounts(input.uncached, input.cacheRead, input.cacheWrite)),
    outputTokens: countOf(output.total ?? sumCounts(output.text, output.reasoning)),
    cacheReadTokens: countOf(input.cacheRead),
    cacheWriteTokens: countOf(input.cacheWrite),
    reasoningTokens: countOf(output.reasoning)
  })
  return isEmpty(usage) ? undefined : usage
}

/** Absent where the main part was not reported. */
const sumCounts = (main: number | undefined, ...others: ReadonlyArray<number | undefined>): number | undefined =>
  main === undefined ? undefined : others.reduce<number>((total, count) => total + (count ?? 0), main)

const countOf = (count: number | undefined): number | undefined =>
  count !== undefined && Number.isSafeInteger(count) && count >= 0 ? count : undefined
