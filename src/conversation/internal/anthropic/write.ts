import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import type { Content, FilePart } from "../../../tool/Content.ts"
import type { AssistantPart, ReasoningPart, ToolCallPart, ToolResultPart } from "../../Part.ts"
import * as foreign from "../foreign.ts"
import * as json from "../json.ts"
import { isFileId } from "../openai/write.ts"
import type { Said } from "../received.ts"
import * as wire from "./wire.ts"

/**
 * The content of a message as we write it by ourselves; of a result, its block.
 * Blank text is left out.
 */
export const write = (said: Said, form: foreign.Form): Schema.Json => {
  switch (said.role) {
    case "system": {
      const block = textBlock(said.content, said)
      return form === "blocks" || Object.hasOwn(block, "cache_control") ? [block] : said.content
    }
    case "user":
      return asText(form === "text", said.content.filter(isSaid)) ?? said.content.filter(isSaid).map(contentBlock)
    case "assistant":
      return asText(form === "text", said.content.filter(isSaid)) ?? said.content.filter(isSaid).map(assistantBlock)
    case "tool":
      return toolResult(said, form)
  }
}

export const isSaid = (part: AssistantPart): boolean => part.type !== "text" || !isBlank(part.text)

export const isBlank = (text: string): boolean => text.trim() === ""

/** The text alone, where nothing else is to be said and a string is allowed. */
const asText = (allowed: boolean, parts: ReadonlyArray<AssistantPart>): string | undefined => {
  const [first] = parts
  return allowed && parts.length === 1 && first?.type === "text" && !Object.hasOwn(cached(first), "cache_control")
    ? first.text
    : undefined
}

const cached = (part: { readonly options?: JsonObject }): JsonObject => {
  const control = foreign.optionsOf("anthropic", part)?.["cacheControl"]
  return json.isObject(control) ? { cache_control: control } : {}
}

const textBlock = (text: string, part: { readonly options?: JsonObject }): JsonObject => ({
  type: "text",
  text,
  ...cached(part)
})

const contentBlock = (part: Content): JsonObject =>
  part.type === "text" ? textBlock(part.text, part) : fileBlock(part)

const fileBlock = (part: FilePart): JsonObject => {
  if (part.mediaType.startsWith("image/")) return { type: "image", source: source(part), ...cached(part) }
  const { citations, documentContext } = foreign.optionsOf("anthropic", part) ?? {}
  return {
    type: "document",
    source: source(part),
    ...(part.fileName === undefined ? undefined : { title: part.fileName }),
    ...(typeof documentContext === "string" ? { context: documentContext } : undefined),
    ...(json.isObject(citations) ? { citations } : undefined),
    ...cached(part)
  }
}

const source = ({ data, mediaType }: FilePart): JsonObject => {
  if (data.type === "url") {
    return isFileId(data.url) ? { type: "file", file_id: data.url } : { type: "url", url: data.url }
  }
  return mediaType === "text/plain"
    ? { type: "text", media_type: mediaType, data: Result.getOrElse(Base64.decodeString(data.base64), () => "") }
    : { type: "base64", media_type: mediaType, data: data.base64 }
}

const imageTypes: ReadonlySet<string> = new Set(["image/jpeg", "image/png", "image/gif", "image/webp"])

/** Why Anthropic has no form for the file, if it has none. */
export const unsupportedFile = ({ data, mediaType }: FilePart): string | undefined => {
  if (data.type === "base64" ? data.base64 === "" : data.url === "") return "an empty file"
  if (data.type === "url") {
    const isAllowed = isFileId(data.url) || mediaType.startsWith("image/") || mediaType === "application/pdf"
    return isAllowed ? undefined : `a link to a file of type ${mediaType}`
  }
  const isAllowed =
    mediaType === "text/plain"
      ? Result.isSuccess(Base64.decodeString(data.base64))
      : mediaType === "application/pdf" || imageTypes.has(mediaType)
  return isAllowed ? undefined : `a file of type ${mediaType}`
}

const toolResult = (said: Extract<Said, { role: "tool" }>, form: foreign.Form): JsonObject => {
  const parts = said.content.filter(isSaid)
  const content = asText(form !== "blocks", parts) ?? parts.map(contentBlock)
  return {
    type: "tool_result",
    tool_use_id: said.callId,
    ...(parts.length > 0 ? { content } : undefined),
    // A failed result has to say something
    ...(said.isError === true
      ? { ...(parts.length > 0 ? undefined : { content: "execution_error" }), is_error: true }
      : undefined),
    ...cached(said)
  }
}

const assistantBlock = (part: AssistantPart): JsonObject => {
  switch (part.type) {
    case "reasoning":
      return thinking(part) ?? textBlock(part.text, part)
    case "tool-call":
      return call(part)
    case "tool-result":
      return serverResult(part)
    default:
      return contentBlock(part)
  }
}

/** Reasoning that Anthropic signed. */
export const thinking = (part: ReasoningPart): JsonObject | undefined => {
  const info = foreign.optionsOf("anthropic", part)?.["info"]
  if (!json.isObject(info)) return undefined
  const { redactedData, signature, type } = info
  if (type === "thinking" && typeof signature === "string") return { type, thinking: part.text, signature }
  return type === "redacted_thinking" && typeof redactedData === "string" ? { type, data: redactedData } : undefined
}

const blockType = (part: ToolCallPart | ToolResultPart, types: ReadonlyArray<string>): string | undefined => {
  const block = foreign.optionsOf("anthropic", part)?.["block"]
  return typeof block === "string" && types.includes(block) ? block : undefined
}

/** The type of the block for a tool that Anthropic ran itself, if it was Anthropic. */
export const serverType = (part: ToolCallPart | ToolResultPart): string | undefined =>
  blockType(part, part.type === "tool-call" ? wire.serverCalls : wire.serverResults)

const call = (part: ToolCallPart): JsonObject => ({
  type: (part.providerExecuted === true ? serverType(part) : undefined) ?? "tool_use",
  id: part.id,
  name: part.name,
  input: part.arguments,
  ...cached(part)
})

const serverResult = (part: ToolResultPart): JsonObject => {
  const type = serverType(part) ?? "tool_result"
  const isError = part.result._tag === "Failure" && type === "mcp_tool_result"
  return {
    type,
    tool_use_id: part.id,
    ...(isError ? { is_error: true } : undefined),
    content: part.result.value ?? null,
    ...cached(part)
  }
}
