import type { Schema } from "effect"
import type { LanguageModelConformance } from "effect-emissary/testing"
import type { Content } from "./server.ts"

export const text = (text: string): Content[number] => ({ type: "text", text })

export const thinking = (text: string, n: number): Content[number] => ({
  type: "reasoning",
  text,
  signature: `c2lnbmF0dXJlLTE${n}`
})

export const call = (id: string, name: string, params: Schema.Json): Content[number] => ({
  type: "tool-call",
  id,
  name,
  arguments: JSON.stringify(params)
})

const usage = { inputTokens: 100, outputTokens: 20, cacheReadTokens: 64, reasoningTokens: 8 }

export const answer = (...content: Content): LanguageModelConformance.Reply => ({
  _tag: "Answer",
  content,
  finish: content.some(({ type }) => type === "tool-call") ? "tool-calls" : "stop",
  usage
})
