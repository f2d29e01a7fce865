/**
 * Messages, arguments and results on spans, in the JSON of the conventions of OpenTelemetry for generative AI.
 */

import * as Option from "effect/Option"
import * as Result from "effect/Result"
import type * as Schema from "effect/Schema"
import type * as Tracer from "effect/Tracer"
import type * as Prompt from "effect/ai/Prompt"
import * as modelMessages from "../../conversation/internal/modelMessages.ts"
import { defined } from "../../payload/internal/values.ts"
import type { ToolResult } from "../../tool/ToolResult.ts"
import type * as telemetry from "../../tool/internal/telemetry.ts"

/** The attributes that hold content. */
export type ContentAttribute =
  | "gen_ai.system_instructions"
  | "gen_ai.input.messages"
  | "gen_ai.output.messages"
  | "gen_ai.tool.call.arguments"
  | "gen_ai.tool.call.result"

/** Puts content on spans after the redactor has seen it. Content for which it throws is left out. */
export const makeRecorder = (
  redact: (content: Schema.Json, attribute: ContentAttribute) => Schema.Json | undefined
): telemetry.ContentRecorder => {
  const add = (span: Tracer.Span, attribute: ContentAttribute, content: Schema.Json): void => {
    const redacted = Result.try(() => {
      const shown = redact(content, attribute)
      return shown === undefined ? undefined : JSON.stringify(shown)
    })
    if (Result.isSuccess(redacted) && redacted.success !== undefined) span.attribute(attribute, redacted.success)
  }
  return {
    chat: (span, prompt, { finishReason, parts }) => {
      if (!span.sampled) return
      const [first, ...rest] = prompt.content
      if (first?.role === "system") add(span, "gen_ai.system_instructions", [{ type: "text", content: first.content }])
      const sent = first?.role === "system" ? rest : prompt.content
      add(span, "gen_ai.input.messages", sent.map(messageJson))
      if (parts.length === 0) return
      const finish_reason = finishNames[finishReason ?? ""] ?? finishReason ?? "error"
      add(span, "gen_ai.output.messages", [{ role: "assistant", parts: parts.map(partJson), finish_reason }])
    },
    call: (span, args, result) => {
      if (!span.sampled) return
      add(span, "gen_ai.tool.call.arguments", args)
      if (result !== undefined) add(span, "gen_ai.tool.call.result", resultJson(result))
    }
  }
}

const resultJson = (result: ToolResult): Schema.Json => {
  if (result._tag === "Success") return result.value
  const { message, type, value } = result
  return { type, message, ...defined({ value }) }
}

const finishNames: Readonly<Record<string, string>> = { "content-filter": "content_filter", "tool-calls": "tool_call" }

const messageJson = (message: Prompt.Message): Schema.Json => ({
  role: message.role,
  parts: message.role === "system" ? [{ type: "text", content: message.content }] : message.content.map(partJson)
})

/** Bytes of files are left out. */
const partJson = (part: Prompt.Part): Schema.Json => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, content: part.text }
    case "file": {
      const [kind = ""] = part.mediaType.split("/")
      const file = {
        modality: kind === "application" || kind === "text" ? "document" : kind,
        mime_type: part.mediaType
      }
      return part.data instanceof URL
        ? { type: "uri", ...file, uri: part.data.href }
        : { type: "blob", ...file, content: "" }
    }
    case "tool-call": {
      const { id, name, params, providerExecuted } = part
      return providerExecuted
        ? { type: "server_tool_call", id, name, server_tool_call: { type: name, arguments: json(params) } }
        : { type: "tool_call", id, name, arguments: json(params) }
    }
    case "tool-result": {
      const { id, name, providerExecuted, result } = part
      return providerExecuted
        ? { type: "server_tool_call_response", id, server_tool_call_response: { type: name, result: json(result) } }
        : { type: "tool_call_response", id, response: json(result) }
    }
    default:
      return { type: part.type }
  }
}

/** Prompts of conversations hold JSON. */
const json = (value: unknown): Schema.Json => Option.getOrElse(modelMessages.toJson(value), () => null)
