/**
 * Prompts, tools and response formats of `effect/ai` as calls of AI SDK models.
 */

import type {
  JSONSchema7,
  JSONValue,
  LanguageModelV4CallOptions,
  LanguageModelV4FilePart,
  LanguageModelV4FunctionTool,
  LanguageModelV4Message,
  LanguageModelV4Prompt,
  LanguageModelV4ProviderTool,
  LanguageModelV4TextPart,
  LanguageModelV4ToolResultOutput,
  LanguageModelV4ToolResultPart,
  SharedV4ProviderOptions,
  SharedV4Warning
} from "@ai-sdk/provider"
import * as Arr from "effect/Array"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AnthropicStructuredOutput from "effect/ai/AnthropicStructuredOutput"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as OpenAiStructuredOutput from "effect/ai/OpenAiStructuredOutput"
import * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as JsonSchema from "../../payload/JsonSchema.ts"
import { formatPlace, hashText, quote } from "../../payload/internal/base.ts"
import { kindKey, replacedBy, systemBehindQuestions } from "../../payload/internal/messageOrder.ts"
import { defined, isObject, type JsonObject } from "../../payload/internal/values.ts"
import { toWellFormed, wellFormedness } from "../../payload/internal/weigh.ts"
import * as sdkFiles from "./sdkFiles.ts"
import * as toolSchema from "./toolSchema.ts"

/**
 * A part of the AI SDK that `effect/ai` has no name for: its kind, and for a tool that only the provider knows its call
 * or its result.
 */
export const Kind = Schema.Struct({
  kind: Schema.String,
  tool: Schema.optionalKey(
    Schema.Struct({ id: Schema.String, name: Schema.String, value: Schema.Json, isError: Schema.Boolean })
  )
})

const decodeKind = Schema.decodeUnknownOption(Kind)

const toJson = Schema.decodeUnknownOption(Schema.Json)

// Provider options

type Options = { readonly [provider: string]: unknown }

/** The options of a part or message for the providers. Only objects are options. */
export const toProviderOptions = (options: Options): { readonly providerOptions?: SharedV4ProviderOptions } => {
  const kept = Object.entries(options).filter(([key, value]) => key !== kindKey && isObject(value))
  // Sound: the values are JSON objects, which the AI SDK types as mutable.
  return kept.length === 0 ? {} : { providerOptions: Object.fromEntries(kept) as SharedV4ProviderOptions }
}

const kindOf = (options: Options): typeof Kind.Type | undefined => Option.getOrUndefined(decodeKind(options[kindKey]))

// Content

const filePart = (part: Prompt.FilePart): LanguageModelV4FilePart => ({
  type: "file",
  mediaType: part.mediaType,
  data: sdkFiles.dataOf(part),
  ...defined({ filename: part.fileName }),
  ...toProviderOptions(part.options)
})

const textPart = ({ options, text }: Prompt.TextPart): LanguageModelV4TextPart => ({
  type: "text",
  text,
  ...toProviderOptions(options)
})

const contentPart = (part: Prompt.TextPart | Prompt.FilePart): LanguageModelV4TextPart | LanguageModelV4FilePart =>
  part.type === "text" ? textPart(part) : filePart(part)

// Tool results

const jsonOf = (value: unknown): JSONValue =>
  // Sound: JSON is a JSONValue, which the AI SDK types as mutable.
  Option.getOrElse(toJson(value), () => String(value)) as JSONValue

/** The result in the form of the model output, where there is one. */
const outputOf = (part: Prompt.ToolResultPart): LanguageModelV4ToolResultOutput => {
  const { isFailure, modelOutput, result } = part
  if (modelOutput !== undefined && modelOutput.length > 0) {
    if (modelOutput.every((output) => output.type === "text")) {
      return { type: isFailure ? "error-text" : "text", value: Prompt.toolModelOutputToText(modelOutput) }
    }
    return { type: "content", value: modelOutput.map(contentPart) }
  }
  const value = jsonOf(result)
  if (isObject(value) && value["type"] === "execution-denied") {
    const reason = value["reason"]
    return { type: "execution-denied", ...(typeof reason === "string" ? { reason } : undefined) }
  }
  if (typeof value !== "string") return { type: isFailure ? "error-json" : "json", value }
  // A provider reads its own failures as JSON
  if (isFailure) return { type: part.providerExecuted ? "error-json" : "error-text", value }
  return { type: "text", value }
}

const toolResult = (part: Prompt.ToolResultPart): LanguageModelV4ToolResultPart => ({
  type: "tool-result",
  toolCallId: part.id,
  toolName: part.name,
  output: outputOf(part),
  ...toProviderOptions(part.options)
})

// Messages

type AssistantContent = Extract<LanguageModelV4Message, { readonly role: "assistant" }>["content"]

const namelessPart = (
  { kind, tool }: typeof Kind.Type,
  common: ReturnType<typeof toProviderOptions>
): AssistantContent[number] => {
  // Sound: the kind was one of the AI SDK when the answer was read.
  if (tool === undefined) return { type: "custom", kind: kind as `${string}.${string}`, ...common }
  const about = { toolCallId: tool.id, toolName: tool.name, ...common }
  const value = jsonOf(tool.value)
  return kind === "tool-call"
    ? { type: "tool-call", ...about, input: value, providerExecuted: true }
    : { type: "tool-result", ...about, output: { type: tool.isError ? "error-json" : "json", value } }
}

const assistantPart = (part: Prompt.AssistantMessagePart): AssistantContent => {
  const common = toProviderOptions(part.options)
  const kind = kindOf(part.options)
  switch (part.type) {
    case "text":
      return [kind === undefined ? textPart(part) : namelessPart(kind, common)]
    case "reasoning":
      return [{ type: "reasoning", text: part.text, ...common }]
    case "file":
      return kind?.kind === "reasoning-file"
        ? [{ type: "reasoning-file", mediaType: part.mediaType, data: sdkFiles.bytesOrUrl(part.data), ...common }]
        : [filePart(part)]
    case "tool-call": {
      const executed = part.providerExecuted ? { providerExecuted: true } : undefined
      const input = part.params === undefined ? {} : part.params
      return [{ type: "tool-call", toolCallId: part.id, toolName: part.name, input, ...executed, ...common }]
    }
    case "tool-result":
      return [toolResult(part)]
    case "tool-approval-request":
      // The provider has its own request; only the response is sent
      return []
  }
}

type ToolContent = Extract<LanguageModelV4Message, { readonly role: "tool" }>["content"][number]

const toolPart = (part: Prompt.ToolMessagePart): ToolContent =>
  part.type === "tool-result"
    ? toolResult(part)
    : {
        type: "tool-approval-response",
        approvalId: part.approvalId,
        approved: part.approved,
        ...defined({ reason: part.reason }),
        ...toProviderOptions(part.options)
      }

const toMessage = (message: Prompt.Message): LanguageModelV4Message => {
  const common = toProviderOptions(message.options)
  switch (message.role) {
    case "system":
      return { role: "system", content: message.content, ...common }
    case "user":
      return { role: "user", content: message.content.map(contentPart), ...common }
    case "assistant":
      return { role: "assistant", content: message.content.flatMap(assistantPart), ...common }
    case "tool":
      return { role: "tool", content: message.content.map(toolPart), ...common }
  }
}

type ModelOutput = NonNullable<Prompt.ToolResultPart["modelOutput"]>[number]

const withOutputs = (part: Prompt.ToolMessagePart, f: (output: ModelOutput) => ModelOutput): Prompt.ToolMessagePart =>
  part.type === "tool-result" && part.modelOutput !== undefined
    ? Prompt.toolResultPart({ ...part, modelOutput: part.modelOutput.map(f) })
    : part

const noteOf = (output: ModelOutput): ModelOutput =>
  output.type === "text" ? output : sdkFiles.note(output, "see the next message")

type Filed = Pick<Dialect, "files" | "filesInResults">

/** The part of a message, or a note in the place of a file that the provider does not take. */
const fittedPart =
  ({ files, filesInResults }: Filed, role: "user" | "tool") =>
  (part: ModelOutput): ModelOutput =>
    part.type === "file" ? sdkFiles.fitted(part, files, role === "tool" && filesInResults ? "results" : "bytes") : part

/** The id of a call as the provider takes it: a conversation may have calls of other providers. */
const callId = (id: string, ids: IdRule | undefined): string =>
  ids === undefined || ids.form.test(id) ? id : hashText(id).slice(-ids.length)

/** The message with files and ids of calls in the form that the provider takes. The ids of the provider's own tools stay. */
const asTaken = (message: Prompt.Message, dialect: Filed & Pick<Dialect, "ids">): Prompt.Message => {
  const { ids } = dialect
  if (message.role === "system") return message
  if (message.role === "user") {
    return message.content.some(({ type }) => type === "file")
      ? Prompt.userMessage({ ...message, content: message.content.map(fittedPart(dialect, "user")) })
      : message
  }
  if (message.role === "assistant") {
    const content = message.content.map((part) => {
      if (part.type !== "tool-call" || part.providerExecuted) return part
      const id = callId(part.id, ids)
      return id === part.id ? part : Prompt.toolCallPart({ ...part, id })
    })
    return content.every((part, at) => part === message.content[at])
      ? message
      : Prompt.assistantMessage({ ...message, content })
  }
  const fit = fittedPart(dialect, "tool")
  const content = message.content.map((part) => {
    const fitted = withOutputs(part, fit)
    return fitted.type === "tool-result" ? Prompt.toolResultPart({ ...fitted, id: callId(fitted.id, ids) }) : fitted
  })
  return Prompt.toolMessage({ ...message, content })
}

/** The report of files that are left out. */
const fileWarnings = ({ content }: Prompt.Prompt, dialect: Filed): ReadonlyArray<SharedV4Warning> =>
  content.flatMap((message) => {
    if (message.role !== "user" && message.role !== "tool") return []
    const parts = message.content.flatMap((part): ReadonlyArray<ModelOutput> => {
      if (part.type === "tool-result") return part.modelOutput ?? []
      return part.type === "file" ? [part] : []
    })
    const fit = fittedPart(dialect, message.role)
    return parts.flatMap((part) => {
      if (part.type === "text" || fit(part).type === "file") return []
      const message = `files of the type ${quote(part.mediaType)} are left out, because the provider refuses them`
      return [{ type: "other", message }]
    })
  })

/** Results of tools with notes in place of their files, and the files in a message of the user behind them. */
const withFilesApart = (message: Prompt.Message): ReadonlyArray<Prompt.Message> => {
  if (message.role !== "tool") return [message]
  const outputs = message.content.flatMap((part) => (part.type === "tool-result" ? (part.modelOutput ?? []) : []))
  const files = outputs.flatMap((output) => (output.type === "file" ? [output] : []))
  if (files.length === 0) return [message]
  const about = Prompt.textPart({ text: "The files of the tool results:" })
  return [
    Prompt.toolMessage({ content: message.content.map((part) => withOutputs(part, noteOf)), options: message.options }),
    Prompt.userMessage({ content: [about, ...files] })
  ]
}

const asQuestion = (message: Prompt.Message): Prompt.Message =>
  message.role === "system" ? Prompt.userMessage({ content: [Prompt.textPart({ text: message.content })] }) : message

/** The messages with each later system message in a form that the provider takes. */
const placeSystem = (
  { content }: Prompt.Prompt,
  { laterSystem }: Pick<Dialect, "laterSystem">
): ReadonlyArray<Prompt.Message> => {
  const first = content.findIndex(({ role }) => role !== "system")
  const rest = content.slice(Math.max(0, first))
  const isUnchanged = rest.every(({ role }) => role !== "system") && !content.some(isReplacing)
  if (laterSystem === "anywhere" || first < 0 || isUnchanged) return content
  const inFront = content.slice(0, first)
  if (laterSystem === "none") {
    return [...withNewest(inFront, content.findLast(isReplacing)), ...rest.filter(isNotReplacing).map(asQuestion)]
  }
  const { left, placed } = systemBehindQuestions(rest)
  return [...inFront, ...placed, ...left.map(asQuestion)]
}

const replacedIn = (message: Prompt.Message): string | undefined =>
  message.role === "system" ? replacedBy(message.content) : undefined

const isReplacing = (message: Prompt.Message): boolean => replacedIn(message) !== undefined

const isNotReplacing = (message: Prompt.Message): boolean => !isReplacing(message)

/** The system messages in front, with the newest instructions in place of the first one. */
const withNewest = (inFront: ReadonlyArray<Prompt.Message>, newest: Prompt.Message | undefined) => {
  const content = newest && replacedIn(newest)
  return newest === undefined || content === undefined
    ? inFront
    : [Prompt.systemMessage({ content, options: newest.options }), ...inFront.slice(1).filter(isNotReplacing)]
}

/** The places for later system messages, with the role that they were given. */
export const laterSystemOf = (
  { laterSystem }: Dialect,
  role: "system" | "user" | undefined
): Dialect["laterSystem"] => {
  if (role === "user") return "none"
  return role === "system" && laterSystem === "none" ? "anywhere" : laterSystem
}

/** The reports of what is not sent as it is. */
export const warningsOf = (prompt: Prompt.Prompt, dialect: Dialect): ReadonlyArray<SharedV4Warning> => [
  ...systemWarnings(prompt, dialect),
  ...fileWarnings(prompt, dialect)
]

/** The report where later system messages are not sent as they are. */
const systemWarnings = (prompt: Prompt.Prompt, dialect: Dialect): ReadonlyArray<SharedV4Warning> => {
  const placed = placeSystem(prompt, dialect)
  if (placed.every((message, index) => message === prompt.content[index])) return []
  const where =
    dialect.laterSystem === "none"
      ? "as messages of the user, and new instructions of an agent in place of the first system message"
      : "behind the next message of the user"
  return [
    { type: "other", message: `later system messages are sent ${where}, because the provider refuses their place` }
  ]
}

/**
 * The messages without calls of tools that only the provider knows and never answered, once a message of the user follows: it
 * refuses them, and reasoning with nothing after it.
 */
const withoutUnanswered = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Prompt.Message> => {
  const question = messages.findLastIndex(({ role }) => role === "user")
  const parts = messages.flatMap(({ content, role }) => (role === "assistant" ? content : []))
  const kinds = parts.flatMap(({ options }) => kindOf(options) ?? [])
  const answered = new Set(kinds.flatMap(({ kind, tool }) => (kind === "tool-result" && tool ? [tool.id] : [])))
  const isOpen = (part: Prompt.AssistantMessagePart) => {
    const found = kindOf(part.options)
    return found?.kind === "tool-call" && found.tool !== undefined && !answered.has(found.tool.id)
  }
  return messages.map((message, index) => {
    if (index > question || message.role !== "assistant" || !message.content.some(isOpen)) return message
    const kept = message.content.filter((part) => !isOpen(part))
    const end = kept.findLastIndex(({ type }) => type !== "reasoning") + 1
    return Prompt.assistantMessage({ ...message, content: kept.slice(0, end) })
  })
}

/** The problem of a prompt that cannot be made well-formed. */
export const wrongPrompt = ({ prompt }: LanguageModel.ProviderOptions): string | undefined =>
  wellFormedness(prompt.content) === "equal keys"
    ? "expected a prompt with keys that differ once each half of a character is U+FFFD, got two that are equal"
    : undefined

/** A message without content, and half a character, is refused by providers. */
export const toPrompt = (
  prompt: Prompt.Prompt,
  dialect: Pick<Dialect, "files" | "filesInResults" | "ids" | "laterSystem">
): LanguageModelV4Prompt =>
  toWellFormed(
    withoutUnanswered(placeSystem(prompt, dialect))
      .map((message) => asTaken(message, dialect))
      .flatMap((message) => (dialect.filesInResults ? [message] : withFilesApart(message)))
      .map(toMessage)
      .filter(({ content }) => content.length > 0)
  )

// Schemas

/** The form of the ids of calls. */
interface IdRule {
  readonly form: RegExp
  /** The length of an id that takes the place of one in another form. */
  readonly length: number
}

// Refusals, looked up on 2026-11-26: "Expected a string with maximum length 40" (github.com/openclaw/openclaw/pull/875) and 64 in
// Responses (github.com/decolua/9router/issues/393), "tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'" of Anthropic,
// and "must be a-z, A-Z, 0-9, with a length of 9" of Mistral
const plainId: IdRule = { form: /^[\w-]{1,64}$/, length: 32 }

const mistralId: IdRule = { form: /^[a-z0-9]{9}$/i, length: 9 }

/** The form of JSON Schema that a provider takes. */
export interface Dialect {
  readonly transformer: LanguageModel.CodecTransformer
  /** True where a prompt with calls of tools is refused if no tool is offered. */
  readonly needsTools: boolean
  /** False where the results of tools are text: their clients would send the bytes of a file as its text. */
  readonly filesInResults: boolean
  /** The types of files that the provider takes. */
  readonly files: sdkFiles.Rules
  /** The form of the ids of calls, where the provider refuses others. */
  readonly ids: IdRule | undefined
  /** The places where a system message may be that is not in front. */
  readonly laterSystem: "anywhere" | "behind questions" | "none"
  /** The rules for the schemas of tools. */
  readonly rules: toolSchema.Rules
}

const openAi: Dialect = {
  transformer: OpenAiStructuredOutput.toCodecOpenAI,
  needsTools: false,
  filesInResults: true,
  files: sdkFiles.rules.openAi,
  ids: { form: /^.{1,64}$/s, length: 32 },
  laterSystem: "anywhere",
  rules: toolSchema.rules.openAi
}

/** Chat completions, of OpenAI and of many others. */
const chat: Dialect = {
  ...openAi,
  filesInResults: false,
  files: sdkFiles.rules.openAiChat,
  ids: { form: /^.{1,40}$/s, length: 32 }
}

const anthropic: Dialect = {
  transformer: AnthropicStructuredOutput.toCodecAnthropic,
  needsTools: true,
  filesInResults: true,
  files: sdkFiles.rules.anthropic,
  ids: plainId,
  laterSystem: "behind questions",
  rules: toolSchema.rules.anthropic
}

const google: Dialect = {
  ...openAi,
  files: sdkFiles.rules.google,
  ids: undefined,
  laterSystem: "none",
  rules: toolSchema.rules.google
}

/**
 * The dialect of a provider. An unknown provider gets the dialect of OpenAI, which is the smallest, so that most
 * providers understand it.
 */
export const dialectOf = (provider: string): Dialect => {
  if (provider.includes("anthropic")) return anthropic
  if (provider.startsWith("google")) return google
  const isChat = provider.endsWith(".chat")
  const dialect = isChat ? chat : openAi
  if (/^(openai|azure)(?!-compatible)\b/u.test(provider)) return dialect
  const files = isChat && !/^(?:mistral|cohere)\b/u.test(provider) ? sdkFiles.rules.chat : sdkFiles.rules.others
  const ofOthers = provider.startsWith("mistral") ? mistralId : undefined
  const ids = provider.includes("bedrock") ? plainId : ofOthers
  // A gateway may lead to any model, also to a model of Anthropic. Some models want their own ids back
  return { ...dialect, files, ids, laterSystem: "none", needsTools: true, rules: toolSchema.rules.compatible }
}

// Tools

/** A tool made of a Schema is offered with closed objects, as the strict form wants them. */
const closed: LanguageModel.CodecTransformer = (schema) => {
  const { definitions, schema: json } = Schema.toJsonSchemaDocument(schema, { onExcessProperty: "error" })
  return { codec: schema, jsonSchema: Object.keys(definitions).length === 0 ? json : { ...json, $defs: definitions } }
}

type SdkTool = LanguageModelV4FunctionTool | LanguageModelV4ProviderTool

/** A tool as it is offered, or the sentence why no form of its schema fits the provider. */
type Made = {
  readonly name: string
  readonly tool: SdkTool
  readonly strict: JsonObject | undefined
  readonly form: toolSchema.Rewritten["form"]
}

// Tools are immutable, and offered again in each step
const known = new WeakMap<toolSchema.Rules, WeakMap<Tool.Any, Result.Result<Made, string>>>()

const makeTool = (tool: Tool.Any, rules: toolSchema.Rules): Result.Result<Made, string> => {
  const { name } = tool
  if (Tool.isProviderDefined(tool)) {
    // Sound: the arguments of a provider's tool are an object, or absent.
    const args = (tool.args ?? {}) as Record<string, unknown>
    const made = { type: "provider", id: tool.id, name, args } as const
    return Result.succeed({ name, tool: made, strict: undefined, form: undefined })
  }
  const exported = Result.try({
    // Sound: a JSON Schema is JSON.
    try: () => Tool.getJsonSchema(tool, { transformer: closed }) as JsonObject,
    catch: (error) => ({ path: "", problem: error instanceof Error ? error.message : String(error) })
  })
  const rewritten = Result.flatMap(exported, (schema) => toolSchema.rewrite(schema, rules))
  return Result.mapBoth(rewritten, {
    onFailure: ({ path, problem }) =>
      `tool ${quote(name)} is left out, because its schema ${formatPlace(path)} ${problem}. Change the schema, or use another provider.`,
    onSuccess: ({ form, schema }): Made => {
      const isStrict = Tool.getStrictMode(tool) !== false && JsonSchema.isStrict(schema)
      const made: LanguageModelV4FunctionTool = {
        type: "function",
        name,
        // Sound: the keywords of both versions of JSON Schema that tools use are the same.
        inputSchema: schema as JSONSchema7,
        ...defined({ description: Tool.getDescription(tool) })
      }
      return { name, tool: toWellFormed(made), strict: isStrict ? schema : undefined, form }
    }
  })
}

const toolOf = (tool: Tool.Any, rules: toolSchema.Rules): Result.Result<Made, string> => {
  const ofRules = known.get(rules) ?? new WeakMap<Tool.Any, Result.Result<Made, string>>()
  known.set(rules, ofRules)
  const found = ofRules.get(tool) ?? makeTool(tool, rules)
  ofRules.set(tool, found)
  return found
}

/** The tools of a request in the form of the provider. */
export interface Offer {
  readonly made: ReadonlyArray<Made>
  /** A sentence about each tool that is left out. */
  readonly leftOut: ReadonlyArray<string>
  /** The forms of arguments that differ from the tool's own form, by the name of the tool. */
  readonly forms: ReadonlyMap<string, NonNullable<Made["form"]>>
}

export const offerOf = ({ tools }: LanguageModel.ProviderOptions, { rules }: Dialect): Offer => {
  const [made, leftOut] = Arr.partition(tools, (tool) => toolOf(tool, rules))
  return {
    made,
    leftOut,
    forms: new Map(made.flatMap(({ form, name }) => (form === undefined ? [] : [[name, form]])))
  }
}

/** Calls of earlier turns in the form that their tools have in this request. */
const inForm = ({ content }: Prompt.Prompt, { forms }: Offer): Prompt.Prompt => {
  const convert = (part: Prompt.AssistantMessagePart): Prompt.AssistantMessagePart => {
    const form = part.type === "tool-call" && !part.providerExecuted ? forms.get(part.name) : undefined
    if (part.type !== "tool-call" || form === undefined) return part
    return Prompt.toolCallPart({
      ...part,
      params: Option.match(toJson(part.params), { onNone: () => part.params, onSome: form.toModel })
    })
  }
  return Prompt.fromMessages(
    content.map((message) =>
      message.role === "assistant"
        ? Prompt.assistantMessage({ content: message.content.map(convert), options: message.options })
        : message
    )
  )
}

/** Turns the arguments of calls back, part by part. Text of arguments that is not whole has no form, so it is not shown. */
export const turningBack = ({ forms }: Offer) => {
  const open = new Set<string>()
  return <Part extends Response.PartEncoded | Response.StreamPartEncoded>(part: Part): Part => {
    if (part.type === "tool-params-start" && forms.has(part.name)) open.add(part.id)
    if (part.type === "tool-params-delta" && open.has(part.id)) return { ...part, delta: "" }
    const form = part.type === "tool-call" && part.providerExecuted !== true ? forms.get(part.name) : undefined
    return part.type === "tool-call" && form !== undefined
      ? { ...part, params: Option.match(toJson(part.params), { onNone: () => part.params, onSome: form.fromModel }) }
      : part
  }
}

const toTools = ({ made }: Offer, { rules }: Dialect): Array<SdkTool> => {
  const isAllowed = rules.strict(made.flatMap(({ strict }) => (strict === undefined ? [] : [strict])))
  return made.map(({ strict, tool }) =>
    tool.type === "function" ? { ...tool, strict: strict !== undefined && isAllowed(strict) } : tool
  )
}

/** With `oneOf` only its tools are offered. */
const toToolChoice = (
  choice: LanguageModel.ToolChoice<string>,
  tools: ReadonlyArray<{ readonly name: string }>
): NonNullable<LanguageModelV4CallOptions["toolChoice"]> => {
  if (typeof choice === "string") return { type: choice }
  if ("tool" in choice) {
    const isOffered = tools.some(({ name }) => name === choice.tool)
    return isOffered ? { type: "tool", toolName: choice.tool } : { type: "auto" }
  }
  if (choice.mode !== "required") return { type: "auto" }
  const [only, ...others] = tools
  return only !== undefined && others.length === 0 ? { type: "tool", toolName: only.name } : { type: "required" }
}

/** The tools that a prompt names, for a request that offers none: `generateObject` has no tools. */
const toolsOfPrompt = ({ content }: Prompt.Prompt): Array<SdkTool> => {
  const names = content.flatMap((message) =>
    message.role === "assistant"
      ? message.content.flatMap((part) => (part.type === "tool-call" && !part.providerExecuted ? [part.name] : []))
      : []
  )
  const inputSchema = { type: "object", properties: {} } as const
  return Array.from(new Set(names), (name) => ({ type: "function", name, inputSchema }))
}

type Tools = Pick<LanguageModelV4CallOptions, "toolChoice" | "tools">

const offered = ({ prompt, toolChoice }: LanguageModel.ProviderOptions, dialect: Dialect, offer: Offer): Tools => {
  const { made } = offer
  if (made.length > 0) return { tools: toTools(offer, dialect), toolChoice: toToolChoice(toolChoice, made) }
  const named = dialect.needsTools ? toolsOfPrompt(prompt) : []
  return named.length === 0 ? {} : { tools: named, toolChoice: { type: "none" } }
}

/** The part of a call that comes from `effect/ai`. A schema that the provider cannot take throws. */
export const toCall = (
  request: LanguageModel.ProviderOptions,
  dialect: Dialect,
  offer: Offer
): Pick<LanguageModelV4CallOptions, "prompt" | "responseFormat"> & Tools => {
  const { responseFormat } = request
  const prompt = offer.forms.size === 0 ? request.prompt : inForm(request.prompt, offer)
  const common = { prompt: toPrompt(prompt, dialect), ...offered(request, dialect, offer) }
  if (responseFormat.type === "text") return common
  const { objectName: name, schema } = responseFormat
  const json = Tool.getJsonSchemaFromSchema(schema, { transformer: dialect.transformer })
  // Sound: the keywords of both versions of JSON Schema that structured outputs use are the same.
  return { ...common, responseFormat: { type: "json", name, schema: toWellFormed(json) as JSONSchema7 } }
}

/** The client asks OpenAI for the strict form of each output. An output with a part of any type has no strict form. */
export const withOpenOutput = (call: LanguageModelV4CallOptions, dialect: Dialect): LanguageModelV4CallOptions => {
  if (call.responseFormat?.type !== "json") return call
  // Sound: a JSON Schema is JSON.
  const json = call.responseFormat.schema as JsonObject
  if (JsonSchema.isStrict(json) && dialect.rules.strict([json])(json)) return call
  const { providerOptions } = call
  return {
    ...call,
    providerOptions: { ...providerOptions, openai: { strictJsonSchema: false, ...providerOptions?.["openai"] } }
  }
}
