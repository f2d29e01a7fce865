import type * as Schema from "effect/Schema"
import type { Content, FilePart } from "../../../tool/Content.ts"
import * as Contents from "../../../tool/Content.ts"
import type { AssistantPart, ToolCallPart } from "../../Part.ts"
import * as Part from "../../Part.ts"
import * as foreign from "../foreign.ts"
import type { Said } from "../received.ts"
import type * as wire from "./wire.ts"

interface Read {
  readonly said: Said
  readonly form: foreign.Form
}

export const read = (message: wire.Message): Read => {
  const form = Array.isArray(message.content) ? "blocks" : undefined
  switch (message.role) {
    case "system":
    case "developer":
      return { said: { role: "system", content: systemText(message.content) }, form }
    case "user":
      return { said: { role: "user", content: content(message.content) }, form }
    case "assistant":
      return { said: { role: "assistant", content: assistant(message) }, form }
    case "tool":
      return {
        said: {
          role: "tool",
          callId: message.tool_call_id,
          ...(message.name === undefined ? undefined : { name: message.name }),
          content: content(message.content)
        },
        form
      }
  }
}

const systemText = (content: string | ReadonlyArray<{ readonly text: string }>): string =>
  typeof content === "string" ? content : content.map(({ text }) => text).join("\n\n")

const content = (given: string | ReadonlyArray<wire.Part>): ReadonlyArray<Content> =>
  typeof given === "string" ? [Contents.text(given)] : given.map(part)

const part = (given: wire.Part): Content => {
  switch (given.type) {
    case "text":
      return Contents.text(given.text)
    case "image_url": {
      const { detail, url } = given.image_url
      return { type: "file", ...fromUrl(url, "image/*"), ...foreign.options("openai", { imageDetail: detail }) }
    }
    case "input_audio": {
      const { data, format } = given.input_audio
      const mediaType = format === "wav" ? "audio/wav" : "audio/mpeg"
      return { type: "file", mediaType, data: { type: "base64", base64: data } }
    }
    case "file": {
      const { file } = given
      const name = file.filename === undefined ? undefined : { fileName: file.filename }
      return "file_data" in file
        ? { type: "file", ...fromUrl(file.file_data, "application/octet-stream"), ...name }
        : { type: "file", mediaType: "application/octet-stream", data: { type: "url", url: file.file_id }, ...name }
    }
  }
}

const base64 = ";base64"

const fromUrl = (url: string, mediaType: string): Pick<FilePart, "mediaType" | "data"> => {
  const comma = url.indexOf(",")
  const head = comma < 0 ? "" : url.slice(0, comma)
  return head.startsWith("data:") && head.endsWith(base64)
    ? {
        mediaType: head.slice("data:".length, -base64.length) || mediaType,
        data: { type: "base64", base64: url.slice(comma + 1) }
      }
    : { mediaType, data: { type: "url", url } }
}

const reasoningFields = ["reasoning_content", "reasoning"] as const

const assistant = (message: wire.Assistant): ReadonlyArray<AssistantPart> => {
  const parts: Array<AssistantPart> = []
  for (const field of reasoningFields) {
    const text = message[field]
    if (typeof text === "string" && text !== "") {
      parts.push({ type: "reasoning", text, ...foreign.options("openai", { reasoningField: field }) })
    }
  }
  if (typeof message.content === "string") {
    if (message.content !== "") parts.push(Contents.text(message.content))
  } else {
    for (const part of message.content ?? []) {
      parts.push(part.type === "text" ? Contents.text(part.text) : refusal(part.refusal))
    }
  }
  if (typeof message.refusal === "string" && message.refusal !== "") parts.push(refusal(message.refusal))
  for (const given of message.tool_calls ?? []) parts.push(call(given))
  return parts
}

const refusal = (text: string): AssistantPart => ({
  type: "text",
  text,
  ...foreign.options("openai", { refusal: true })
})

const call = (given: wire.Call): ToolCallPart => {
  const { name, arguments: args } = "function" in given ? given.function : given
  return fromArguments(given.id, name, args)
}

export const fromArguments = (id: string, name: string, args: Schema.Json | undefined): ToolCallPart =>
  typeof args === "string"
    ? Part.toolCallFromText({ id, name, text: args })
    : Part.toolCall({ id, name, arguments: args ?? {} })
