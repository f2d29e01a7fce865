/**
 * Answers of AI SDK models as parts of `effect/ai`.
 */

import type {
  LanguageModelV4Content,
  LanguageModelV4CustomContent,
  LanguageModelV4File,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4ReasoningFile,
  LanguageModelV4ResponseMetadata,
  LanguageModelV4Source,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4ToolCall,
  LanguageModelV4ToolResult,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata
} from "@ai-sdk/provider"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as Response from "effect/ai/Response"
import * as Base64 from "effect/encoding/Base64"
import { type Limits, unlimited } from "../../payload/internal/limits.ts"
import { kindKey } from "../../payload/internal/messageOrder.ts"
import { tooLargeAnswer } from "../../payload/internal/problems.ts"
import { parseText } from "../../payload/internal/textScanner.ts"
import { defined } from "../../payload/internal/values.ts"
import { weigh } from "../../payload/internal/weigh.ts"
import type { Kind } from "./sdkRequest.ts"

const toJson = Schema.decodeUnknownOption(Schema.Json)

const toMetadata = Schema.decodeUnknownOption(Schema.Record(Schema.String, Schema.Json))

type Metadata = { readonly metadata?: Response.ProviderMetadata }

/** Metadata that is not JSON cannot be stored: only its JSON is kept. */
const metadataOf = (metadata: SharedV4ProviderMetadata | undefined, kind?: typeof Kind.Type): Metadata => {
  if (metadata === undefined && kind === undefined) return {}
  const direct = toMetadata(metadata ?? {})
  const kept = Option.getOrElse(direct, () => jsonOnly(metadata))
  return { metadata: kind === undefined ? kept : { ...kept, [kindKey]: kind } }
}

const jsonOnly = (metadata: unknown) =>
  Option.getOrElse(
    Option.flatMap(Result.getSuccess(Result.try((): unknown => JSON.parse(JSON.stringify(metadata)))), toMetadata),
    () => ({})
  )

// Parts that generating and streaming share

/**
 * The arguments of a call. Text that is not JSON, or has a key twice, is passed on, so that it is checked and corrected like any
 * others, and as the text of a stream is.
 */
const argumentsOf = (input: string): unknown =>
  input.trim() === "" ? {} : Result.getOrElse(parseText(input, unlimited), () => input)

const toolCall = (part: LanguageModelV4ToolCall): Response.ToolCallPartEncoded => ({
  type: "tool-call",
  id: part.toolCallId,
  name: part.toolName,
  params: argumentsOf(part.input),
  providerExecuted: part.providerExecuted === true,
  ...metadataOf(part.providerMetadata)
})

const toolResult = (part: LanguageModelV4ToolResult): Response.ToolResultPartEncoded => ({
  type: "tool-result",
  id: part.toolCallId,
  name: part.toolName,
  result: part.result,
  isFailure: part.isError === true,
  providerExecuted: true,
  preliminary: part.preliminary === true,
  ...metadataOf(part.providerMetadata)
})

/** A link is a source with its URL; what is no URL is a document with that title. */
const source = (part: LanguageModelV4Source): Response.UrlSourcePartEncoded | Response.DocumentSourcePartEncoded => {
  const common = { type: "source", id: part.id, ...metadataOf(part.providerMetadata) } as const
  if (part.sourceType === "document") {
    const { filename: fileName, mediaType, title } = part
    return { ...common, sourceType: "document", mediaType, title, ...defined({ fileName }) }
  }
  const title = part.title ?? part.url
  return URL.canParse(part.url)
    ? { ...common, sourceType: "url", url: part.url, title }
    : { ...common, sourceType: "document", mediaType: "text/uri-list", title }
}

/** A file behind a URL is a source: files of `effect/ai` have their bytes. */
const file = (part: LanguageModelV4File | LanguageModelV4ReasoningFile) => {
  const { data, mediaType } = part
  if (data.type === "url") {
    const url = data.url.toString()
    const { providerMetadata } = part
    return source({
      type: "source",
      sourceType: "url",
      id: url,
      url,
      title: mediaType,
      ...defined({ providerMetadata })
    })
  }
  return {
    type: "file",
    mediaType,
    data: typeof data.data === "string" ? data.data : Base64.encode(data.data),
    ...metadataOf(part.providerMetadata, part.type === "reasoning-file" ? { kind: part.type } : undefined)
  } satisfies Response.FilePartEncoded
}

type Nameless = LanguageModelV4CustomContent | LanguageModelV4ToolCall | LanguageModelV4ToolResult

/** A part that `effect/ai` cannot hold: its own kinds, and tools that only the provider knows. It becomes empty text. */
const isNameless = (
  part: LanguageModelV4Content | StreamedPart,
  tools: ReadonlySet<string>
): part is Extract<typeof part, Nameless> =>
  part.type === "custom" ||
  (part.type === "tool-call" && part.providerExecuted === true && !tools.has(part.toolName)) ||
  (part.type === "tool-result" && !tools.has(part.toolName))

const nameless = (part: Nameless): Metadata => {
  if (part.type === "custom") return metadataOf(part.providerMetadata, { kind: part.kind })
  const value = part.type === "tool-call" ? argumentsOf(part.input) : part.result
  const tool = {
    id: part.toolCallId,
    name: part.toolName,
    value: Option.getOrElse(toJson(value), () => String(value)),
    isError: part.type === "tool-result" && part.isError === true
  }
  return metadataOf(part.providerMetadata, { kind: part.type, tool })
}

/** The parts that are whole in answers and in streams. */
const wholePart = (
  part: Exclude<LanguageModelV4Content, { readonly type: "text" | "reasoning" | "custom" }>
): Response.PartEncoded & Response.StreamPartEncoded => {
  switch (part.type) {
    case "tool-call":
      return toolCall(part)
    case "tool-result":
      return toolResult(part)
    case "source":
      return source(part)
    case "file":
    case "reasoning-file":
      return file(part)
    case "tool-approval-request":
      return {
        type: "tool-approval-request",
        approvalId: part.approvalId,
        toolCallId: part.toolCallId,
        ...metadataOf(part.providerMetadata)
      }
  }
}

const count = (tokens: number | undefined): number | undefined => (Number.isSafeInteger(tokens) ? tokens : undefined)

const finishReason = ({ raw, unified }: LanguageModelV4FinishReason): Response.FinishReason => {
  // The provider's own loop of tools is not over: the answer continues once it is sent back
  if (raw === "pause_turn") return "pause"
  if (unified === "interrupted") return "other"
  // A client has "other" for a reason that it does not know, and for none
  return unified === "other" && !/^(?:other|compaction)$/i.test(raw ?? "") ? "unknown" : unified
}

const finish = (
  reason: LanguageModelV4FinishReason,
  { inputTokens: input, outputTokens: output }: LanguageModelV4Usage,
  metadata: SharedV4ProviderMetadata | undefined
): Response.FinishPartEncoded => ({
  type: "finish",
  reason: finishReason(reason),
  usage: {
    inputTokens: {
      uncached: count(input.noCache),
      total: count(input.total),
      cacheRead: count(input.cacheRead),
      cacheWrite: count(input.cacheWrite)
    },
    outputTokens: { total: count(output.total), text: count(output.text), reasoning: count(output.reasoning) }
  },
  ...metadataOf(metadata)
})

const responseMetadata = ({
  id,
  modelId,
  timestamp
}: LanguageModelV4ResponseMetadata): Response.ResponseMetadataPartEncoded => ({
  type: "response-metadata",
  ...defined({ id, modelId }),
  ...(timestamp === undefined || Number.isNaN(timestamp.getTime()) ? {} : { timestamp: timestamp.toISOString() })
})

// Answers

const wholeTypes = [
  "custom",
  "tool-call",
  "tool-result",
  "source",
  "file",
  "reasoning-file",
  "tool-approval-request"
] as const

/** A newer client may have kinds of parts that are not known here: they are left out. */
const contentTypes: ReadonlySet<string> = new Set<LanguageModelV4Content["type"]>([...wholeTypes, "text", "reasoning"])

const contentPart = (part: LanguageModelV4Content, tools: ReadonlySet<string>): Response.PartEncoded => {
  if (isNameless(part, tools)) return { type: "text", text: "", ...nameless(part) }
  return part.type === "text" || part.type === "reasoning"
    ? { type: part.type, text: part.text, ...metadataOf(part.providerMetadata) }
    : wholePart(part)
}

/**
 * The text of a structured output, where the provider names one of several texts: the last one has it, because
 * `effect/ai` reads the text of all.
 */
const selectOutput = (
  content: ReadonlyArray<LanguageModelV4Content>,
  selected: string | undefined
): ReadonlyArray<LanguageModelV4Content> => {
  if (selected === undefined) return content
  const last = content.findLastIndex((part) => part.type === "text")
  return content.flatMap((part, at): ReadonlyArray<LanguageModelV4Content> => {
    if (part.type !== "text") return [part]
    return at === last ? [{ ...part, text: selected }] : []
  })
}

/** The problem of a value that the types of the AI SDK do not allow. */
export const brokenContract =
  "expected the shape of LanguageModelV4, got another shape. Update the package of the provider"

/** A delta counts this much beside its text, so that a stream of empty ones ends, too. */
const deltaSize = 4

/** The levels of a part that are counted. Arguments of more are refused here, and of fewer where they are checked. */
const maxLevels = 1000

const tooLarge = (maxBytes: number, provider: string): string =>
  tooLargeAnswer(provider, `at most ${maxBytes} bytes of plain JSON`, "more")

/** Counts one answer, part by part, with the parts that are ignored. It returns the problem of an answer that is too large. */
export const counter = ({ maxBytes }: Limits, provider: string) => {
  let size = 0
  return (parts: ReadonlyArray<Response.PartEncoded | Response.StreamPartEncoded>, ignored?: unknown) => {
    if (ignored !== undefined) size += deltaSize + weigh(ignored, maxBytes - size, maxLevels, "anything")
    for (const part of parts) {
      size += "delta" in part ? part.delta.length + deltaSize : weigh(part, maxBytes - size, maxLevels)
    }
    return size > maxBytes ? tooLarge(maxBytes, provider) : undefined
  }
}

/**
 * The problem of what the client returned, if that is too large to be read. It is a value of the client's code, whose parts
 * may refer to each other in any way.
 */
export const unreadable = (received: unknown, { maxBytes }: Limits, provider: string): string | undefined =>
  weigh(received, maxBytes, maxLevels, "anything") > maxBytes ? tooLarge(maxBytes, provider) : undefined

/** A request: the names of its tools, and whether it asks for a structured output. */
export interface Asked {
  readonly tools: ReadonlySet<string>
  readonly json: boolean
}

/** The parts of an answer. */
export const toParts = (result: LanguageModelV4GenerateResult, { json, tools }: Asked): Array<Response.PartEncoded> => [
  responseMetadata(result.response ?? {}),
  ...selectOutput(result.content, json ? result.structuredOutputText : undefined).flatMap((part) =>
    contentTypes.has(part.type) ? [contentPart(part, tools)] : []
  ),
  finish(result.finishReason, result.usage, result.providerMetadata)
]

// Streams

/** A part of a whole answer as parts of a stream. */
export const asStreamed = (part: Response.PartEncoded, index: number): ReadonlyArray<Response.StreamPartEncoded> => {
  if (part.type !== "text" && part.type !== "reasoning") return [part]
  const { metadata, text, type } = part
  const id = `${type} ${index}`
  const delta = type === "text" ? ("text-delta" as const) : ("reasoning-delta" as const)
  return [
    { type: type === "text" ? "text-start" : "reasoning-start", id },
    { type: delta, id, delta: text },
    { type: type === "text" ? "text-end" : "reasoning-end", id, ...defined({ metadata }) }
  ]
}

export const streamOf = ({ stream }: LanguageModelV4StreamResult): typeof stream | undefined =>
  stream.locked || typeof stream.getReader !== "function" ? undefined : stream

type Ignored = "stream-start" | "ping" | "raw" | "error"

/** The parts of a stream that are parts of `effect/ai`. */
export type StreamedPart = Exclude<LanguageModelV4StreamPart, { readonly type: Ignored }>

/** The start of a message, which Anthropic's client emits in streams only, is no content. */
const isMessageStart = (part: LanguageModelV4StreamPart): boolean =>
  part.type === "custom" && part.kind.endsWith(".message_start")

const streamTypes: ReadonlySet<string> = new Set<StreamedPart["type"]>([
  ...wholeTypes,
  "text-start",
  "text-delta",
  "text-end",
  "reasoning-start",
  "reasoning-delta",
  "reasoning-end",
  "tool-input-start",
  "tool-input-delta",
  "tool-input-end",
  "response-metadata",
  "finish"
])

export const isStreamed = (part: LanguageModelV4StreamPart): part is StreamedPart =>
  !isMessageStart(part) && streamTypes.has(part.type)

/** True for what an answer can consist of: words, or a whole call. */
export const isContent = (part: StreamedPart): boolean =>
  part.type === "tool-call" || (part.type === "text-delta" && part.delta.trim() !== "")

/** The end of a stream whose client found no finish reason, and calls that an error. */
export const withoutReason = (part: StreamedPart): StreamedPart =>
  part.type === "finish" ? { ...part, finishReason: { unified: "other", raw: undefined } } : part

export const toStreamParts = (part: StreamedPart, { tools }: Asked): ReadonlyArray<Response.StreamPartEncoded> => {
  if (isNameless(part, tools)) {
    if (part.type === "tool-result" && part.preliminary === true) return []
    const id = `${part.type} ${part.type === "custom" ? part.kind : part.toolCallId}`
    return [
      { type: "text-start", id, ...nameless(part) },
      { type: "text-end", id }
    ]
  }
  switch (part.type) {
    case "text-start":
    case "text-end":
    case "reasoning-start":
    case "reasoning-end":
      return [{ type: part.type, id: part.id, ...metadataOf(part.providerMetadata) }]
    case "text-delta":
    case "reasoning-delta":
      return [{ type: part.type, id: part.id, delta: part.delta, ...metadataOf(part.providerMetadata) }]
    case "tool-input-start":
      return [
        {
          type: "tool-params-start",
          id: part.id,
          name: part.toolName,
          providerExecuted: part.providerExecuted === true,
          ...metadataOf(part.providerMetadata)
        }
      ]
    case "tool-input-delta":
      return [{ type: "tool-params-delta", id: part.id, delta: part.delta, ...metadataOf(part.providerMetadata) }]
    case "tool-input-end":
      return [{ type: "tool-params-end", id: part.id, ...metadataOf(part.providerMetadata) }]
    case "response-metadata":
      return [responseMetadata(part)]
    case "finish":
      return [finish(part.finishReason, part.usage, part.providerMetadata)]
    default:
      return [wholePart(part)]
  }
}
