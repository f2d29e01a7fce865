import type * as Schema from "effect/Schema"
import type { JsonObject } from "../../../payload/Json.ts"
import * as foreign from "../foreign.ts"
import type { Received, Said } from "../received.ts"
import { noteOf } from "./exact.ts"
import * as read from "./read.ts"
import type * as wire from "./wire.ts"

/** What one message of Anthropic's format says: its results, each by itself, and the rest. */
export const split = (index: number, message: wire.Message, raw: JsonObject): ReadonlyArray<Received> => {
  const outer = foreign.diff({ role: message.role, content: null }, withoutContent(raw))
  const [first, ...rest] = parts(message, raw["content"] ?? null)
  if (first === undefined) return []
  return [outer === undefined ? first : { ...first, note: { ...first.note, outer } }, ...rest].map((one) => ({
    index,
    ...one
  }))
}

type Part = Omit<Received, "index">

const parts = (message: wire.Message, raw: Schema.Json): ReadonlyArray<Part> => {
  if (message.role === "assistant") return [part(read.assistant(message.content), raw)]
  return typeof message.content === "string" || !Array.isArray(raw)
    ? [part(read.user(typeof message.content === "string" ? message.content : []), raw)]
    : userParts(message.content, raw)
}

const part = (said: Said, raw: Schema.Json): Part => ({
  said,
  note: noteOf(raw, said, typeof raw === "string" ? "text" : undefined)
})

const userParts = (blocks: ReadonlyArray<wire.UserBlock>, raws: ReadonlyArray<Schema.Json>): ReadonlyArray<Part> => {
  const all: Array<Part> = []
  let content: Array<Exclude<wire.UserBlock, wire.ToolResult>> = []
  let rawContent: Array<Schema.Json> = []
  const flush = () => {
    if (content.length === 0) return
    const { note, said } = part(read.user(content), rawContent)
    all.push({ said, note: all.at(-1)?.said.role === "tool" ? { ...note, joined: true } : note })
    content = []
    rawContent = []
  }
  for (const [index, block] of blocks.entries()) {
    const raw = raws[index] ?? null
    if (block.type === "tool_result") {
      flush()
      const said = read.toolResult(block)
      all.push({ said, note: noteOf(raw, said, Array.isArray(block.content) ? "blocks" : undefined) })
    } else {
      content.push(block)
      rawContent.push(raw)
    }
  }
  flush()
  return all.length === 0 ? [part(read.user([]), raws)] : all
}

const withoutContent = (raw: JsonObject): JsonObject =>
  Object.fromEntries(Object.entries(raw).map(([key, value]) => [key, key === "content" ? null : value]))
