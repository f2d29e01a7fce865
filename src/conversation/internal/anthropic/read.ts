import * as Base64 from "effect/encoding/Base64"
import type * as Schema from "effect/Schema"
import * as Contents from "../../../tool/Content.ts"
import * as ToolResult from "../../../tool/ToolResult.ts"
import type { AssistantPart, ToolCallPart } from "../../Part.ts"
import * as foreign from "../foreign.ts"
import * as json from "../json.ts"
import { fromArguments } from "../openai/read.ts"
import type { Said } from "../received.ts"
import type * as wire from "./wire.ts"

type Options = Readonly<Record<string, Schema.Json | undefined>>

const options = (given: Options) => foreign.options("anthropic", given)

const cached = (block: { readonly cache_control?: Schema.Json }): Options => ({
  cacheControl: block.cache_control ?? undefined
})

export const system = (given: typeof wire.System.Type): Said => {
  if (typeof given === "string") return { role: "system", content: given }
  const text = given.map(({ text }) => text).join("\n\n")
  return { role: "system", content: text, ...(given.length === 1 ? options(cached(given[0])) : undefined) }
}

export const user = (given: string | ReadonlyArray<wire.Content>): Said => ({ role: "user", content: content(given) })

const content = (given: string | ReadonlyArray<wire.Content>): ReadonlyArray<Contents.Content> =>
  typeof given === "string" ? [Contents.text(given)] : given.map(part)

const part = (block: wire.Content): Contents.Content => {
  switch (block.type) {
    case "text":
      return text(block)
    case "image":
      return { type: "file", ...source(block.source, "image/*", "image/*"), ...options(cached(block)) }
    case "document":
      return {
        type: "file",
        ...source(block.source, "application/pdf", "application/octet-stream"),
        ...(typeof block.title === "string" ? { fileName: block.title } : undefined),
        ...options({
          ...cached(block),
          documentContext: block.context ?? undefined,
          citations: block.citations ?? undefined
        })
      }
  }
}

const text = (block: wire.Text): Contents.TextPart => ({ type: "text", text: block.text, ...options(cached(block)) })

type Source = Exclude<wire.Content, wire.Text>["source"]

const source = (given: Source, linked: string, uploaded: string): Pick<Contents.FilePart, "mediaType" | "data"> => {
  switch (given.type) {
    case "base64":
      return { mediaType: given.media_type, data: { type: "base64", base64: given.data } }
    case "text":
      return { mediaType: given.media_type, data: { type: "base64", base64: Base64.encode(given.data) } }
    case "url":
      return { mediaType: linked, data: { type: "url", url: given.url } }
    case "file":
      return { mediaType: uploaded, data: { type: "url", url: given.file_id } }
  }
}

export const toolResult = (block: wire.ToolResult): Said => ({
  role: "tool",
  callId: block.tool_use_id,
  content: content(block.content ?? ""),
  ...(block.is_error === true ? { isError: true } : undefined),
  ...options(cached(block))
})

export const assistant = (given: string | ReadonlyArray<wire.AssistantBlock>): Said => ({
  role: "assistant",
  content: typeof given === "string" ? (given === "" ? [] : [Contents.text(given)]) : given.map(assistantPart)
})

const assistantPart = (block: wire.AssistantBlock): AssistantPart => {
  switch (block.type) {
    case "text":
      return text(block)
    case "thinking": {
      const info = block.signature === undefined ? undefined : { type: "thinking", signature: block.signature }
      return { type: "reasoning", text: block.thinking, ...options({ info }) }
    }
    case "redacted_thinking":
      return {
        type: "reasoning",
        text: "",
        ...options({ info: { type: "redacted_thinking", redactedData: block.data } })
      }
    case "tool_use":
      return call(block)
    case "server_tool_use":
    case "mcp_tool_use":
      return { ...call(block), providerExecuted: true, ...options({ ...cached(block), block: block.type }) }
    default:
      return {
        type: "tool-result",
        id: block.tool_use_id,
        name: "",
        result: serverResult(block),
        ...options({ ...cached(block), block: block.type })
      }
  }
}

export const call = (block: wire.Use): ToolCallPart => ({
  ...fromArguments(block.id, block.name, block.input ?? {}),
  ...options(cached(block))
})

const serverResult = ({ content, is_error: isError }: wire.ServerResult): ToolResult.ToolResult => {
  const code = json.isObject(content) ? content["error_code"] : undefined
  if (typeof code === "string") return ToolResult.failure(code, code, content)
  const success = ToolResult.success(content)
  return isError === true ? ToolResult.failure("execution_error", ToolResult.text(success), content) : success
}
