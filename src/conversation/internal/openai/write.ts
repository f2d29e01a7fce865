import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import type { Content, FilePart, TextPart } from "../../../tool/Content.ts"
import type { AssistantPart, ToolCallPart } from "../../Part.ts"
import * as foreign from "../foreign.ts"
import type { Said } from "../received.ts"

/** The message as we write it by ourselves. Empty text is left out. */
export const write = (said: Said, form: foreign.Form): JsonObject => {
  switch (said.role) {
    case "system":
      return { role: "system", content: form === "blocks" ? [textBlock(said.content)] : said.content }
    case "user":
      return { role: "user", content: content(said.content, form) }
    case "assistant":
      return assistant(said.content, form)
    case "tool":
      return { role: "tool", content: content(said.content, form), tool_call_id: said.callId }
  }
}

const textBlock = (text: string): JsonObject => ({ type: "text", text })

const content = (given: ReadonlyArray<Content>, form: foreign.Form): Schema.Json => {
  const said = given.filter((part) => part.type === "file" || part.text !== "")
  const [first] = said
  if (first === undefined) return ""
  return said.length === 1 && first.type === "text" && form !== "blocks" ? first.text : said.map(block)
}

const block = (part: Content): JsonObject => (part.type === "text" ? textBlock(part.text) : fileBlock(part))

const audioFormats: Readonly<Record<string, string>> = { "audio/wav": "wav", "audio/mpeg": "mp3" }

const fileBlock = (part: FilePart): JsonObject => {
  if (part.data.type === "url" && isFileId(part.data.url)) {
    return { type: "file", file: { ...named(part), file_id: part.data.url } }
  }
  const url = part.data.type === "url" ? part.data.url : `data:${part.mediaType};base64,${part.data.base64}`
  if (part.mediaType.startsWith("image/")) {
    const detail = foreign.optionsOf("openai", part)?.["imageDetail"]
    return { type: "image_url", image_url: { url, ...(typeof detail === "string" ? { detail } : undefined) } }
  }
  const format = Object.hasOwn(audioFormats, part.mediaType) ? audioFormats[part.mediaType] : undefined
  return format !== undefined && part.data.type === "base64"
    ? { type: "input_audio", input_audio: { data: part.data.base64, format } }
    : { type: "file", file: { ...named(part), file_data: url } }
}

const named = ({ fileName }: FilePart) => (fileName === undefined ? undefined : { filename: fileName })

/** Ids of uploaded files stand in place of a URL, and have no scheme. */
export const isFileId = (url: string): boolean => !/^[a-z][a-z0-9+.-]*:/iu.test(url)

/** Why Chat Completions has no form for the file, if it has none. */
export const unsupportedFile = (part: FilePart): string | undefined => {
  const { data, mediaType } = part
  if (data.type === "base64" ? data.base64 === "" : data.url === "") return "an empty file"
  if (data.type === "url" && isFileId(data.url)) return undefined
  if (mediaType.startsWith("image/")) return undefined
  if (data.type === "url") return `a link to a file of type ${mediaType}`
  if (mediaType.startsWith("video/")) return `a file of type ${mediaType}`
  return mediaType.startsWith("audio/") && !Object.hasOwn(audioFormats, mediaType)
    ? `a file of type ${mediaType}`
    : undefined
}

const isRefusal = (part: TextPart): boolean => foreign.optionsOf("openai", part)?.["refusal"] === true

/** The field in which compatible servers send and take reasoning. */
export const reasoningField = (part: AssistantPart): string | undefined => {
  const field = foreign.optionsOf("openai", part)?.["reasoningField"]
  return field === "reasoning_content" || field === "reasoning" ? field : undefined
}

const assistant = (parts: ReadonlyArray<AssistantPart>, form: foreign.Form): JsonObject => {
  const texts: Array<TextPart> = []
  const calls: Array<JsonObject> = []
  const reasoning = new Map<string, string>()
  for (const part of parts) {
    if (part.type === "text" && part.text !== "") texts.push(part)
    if (part.type === "tool-call") calls.push(call(part))
    const field = part.type === "reasoning" ? reasoningField(part) : undefined
    if (field !== undefined && part.type === "reasoning") reasoning.set(field, (reasoning.get(field) ?? "") + part.text)
  }
  return {
    role: "assistant",
    ...(form === "blocks" ? { content: texts.length === 0 ? null : texts.map(assistantBlock) } : textFields(texts)),
    ...Object.fromEntries(reasoning),
    ...(calls.length === 0 ? undefined : { tool_calls: calls })
  }
}

const assistantBlock = (part: TextPart): JsonObject =>
  isRefusal(part) ? { type: "refusal", refusal: part.text } : textBlock(part.text)

const textFields = (texts: ReadonlyArray<TextPart>): JsonObject => {
  const said = texts.filter((part) => !isRefusal(part))
  const refused = texts.filter(isRefusal)
  return {
    content: said.length === 0 ? null : join(said),
    ...(refused.length === 0 ? undefined : { refusal: join(refused) })
  }
}

const join = (texts: ReadonlyArray<TextPart>): string => texts.map(({ text }) => text).join("")

export const call = (part: ToolCallPart): JsonObject => ({
  id: part.id,
  type: "function",
  function: { name: part.name, arguments: part.text ?? JSON.stringify(part.arguments) }
})
