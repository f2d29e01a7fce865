import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type * as Response from "effect/ai/Response"
import type * as Script from "../Script.ts"

type AnyPart = Response.PartEncoded | Response.StreamPartEncoded

const chunks = (text: string, size: number): ReadonlyArray<string> => {
  const points = [...text]
  const pieces: Array<string> = []
  for (let i = 0; i < points.length; i += size) pieces.push(points.slice(i, i + size).join(""))
  return pieces
}

const withMetadata = (metadata: Script.Metadata | undefined) =>
  metadata === undefined ? {} : { metadata: structuredClone(metadata) as Response.ProviderMetadata } // a copy is mutable JSON

const annotated = (
  text: string | Script.AnnotatedText
): { readonly text: string; readonly metadata?: Script.Metadata } => (typeof text === "string" ? { text } : text)

const callParts = (call: Script.ToolCall, id: string): ReadonlyArray<AnyPart> => {
  const executed = call.providerExecuted === undefined ? {} : { providerExecuted: call.providerExecuted }
  return [
    {
      type: "tool-call",
      id,
      name: call.name,
      params: call.arguments ?? call.params ?? {},
      ...executed,
      ...withMetadata(call.metadata)
    },
    ...(call.result === undefined
      ? []
      : [
          {
            type: "tool-result" as const,
            id,
            name: call.name,
            result: call.result,
            isFailure: call.isFailure ?? false,
            ...executed
          }
        ])
  ]
}

const finish = (turn: Script.Turn): ReadonlyArray<Response.FinishPartEncoded> => {
  if (turn.finishReason === "missing") return []
  const calls = turn.toolCalls?.some((call) => call.providerExecuted !== true) ?? false
  const usage = turn.usage ?? {}
  return [
    {
      type: "finish",
      reason: turn.finishReason ?? (calls ? "tool-calls" : "stop"),
      usage: {
        inputTokens: {
          uncached: undefined,
          total: usage.inputTokens,
          cacheRead: usage.cacheReadTokens,
          cacheWrite: usage.cacheWriteTokens
        },
        outputTokens: { total: usage.outputTokens, text: undefined, reasoning: usage.reasoningTokens }
      },
      response: undefined
    }
  ]
}

/** The content of a turn, before its raw parts and its finish. */
const content = (turn: Script.Turn, index: number): ReadonlyArray<AnyPart> => {
  const parts: Array<AnyPart> = []
  const push = (type: "text" | "reasoning", given: string | Script.AnnotatedText) => {
    const { text, metadata } = annotated(given)
    parts.push({ type, text, ...withMetadata(metadata) })
  }
  if (turn.reasoning !== undefined) push("reasoning", turn.reasoning)
  if (turn.text !== undefined) push("text", turn.text)
  if (turn.object !== undefined) push("text", JSON.stringify(turn.object))
  for (const file of turn.files ?? []) parts.push({ type: "file", mediaType: file.mediaType, data: file.data })
  turn.toolCalls?.forEach((call, i) => parts.push(...callParts(call, call.id ?? `call_${index + 1}_${i + 1}`)))
  return parts
}

const streamed = (part: AnyPart, id: string, size: number): ReadonlyArray<Response.StreamPartEncoded> => {
  switch (part.type) {
    case "text":
      return [
        { type: "text-start", id, ...(part.metadata === undefined ? {} : { metadata: part.metadata }) },
        ...chunks(part.text, size).map((delta) => ({ type: "text-delta" as const, id, delta })),
        { type: "text-end", id }
      ]
    case "reasoning":
      return [
        { type: "reasoning-start", id },
        ...chunks(part.text, size).map((delta) => ({ type: "reasoning-delta" as const, id, delta })),
        // providers send the signature of a reasoning block with its end
        { type: "reasoning-end", id, ...(part.metadata === undefined ? {} : { metadata: part.metadata }) }
      ]
    case "tool-call": {
      const text = typeof part.params === "string" ? part.params : JSON.stringify(part.params as Schema.Json) // given as Json
      const executed = part.providerExecuted === true ? { providerExecuted: true } : {}
      return [
        { type: "tool-params-start", id: part.id, name: part.name, ...executed },
        ...chunks(text, size).map((delta) => ({ type: "tool-params-delta" as const, id: part.id, delta })),
        { type: "tool-params-end", id: part.id },
        part
      ]
    }
    default:
      return [part]
  }
}

/** The parts of a streamed answer. */
export const stream = (turn: Script.Turn, index: number, size: number): ReadonlyArray<Response.StreamPartEncoded> => [
  ...content(turn, index).flatMap((part, i) => streamed(part, `part_${index + 1}_${i + 1}`, size)),
  ...(turn.parts ?? []).flatMap((part, i) =>
    part.type === "text" || part.type === "reasoning" ? streamed(part, `raw_${index + 1}_${i + 1}`, size) : [part]
  ),
  ...finish(turn)
]

/** The parts of an answer in one piece, or the value of the `error` part that ends it. */
export const whole = (
  turn: Script.Turn,
  index: number
): { readonly parts: Array<Response.PartEncoded>; readonly error?: { readonly value: unknown } } => {
  const parts: Array<Response.PartEncoded> = []
  const open = new Map<string, { readonly type: "text" | "reasoning"; readonly at: number; text: string }>()
  for (const part of [...content(turn, index), ...(turn.parts ?? []), ...finish(turn)]) {
    switch (part.type) {
      case "text-delta":
      case "reasoning-delta": {
        const type = part.type === "text-delta" ? "text" : "reasoning"
        const block = open.get(`${type} ${part.id}`) ?? { type, at: parts.length, text: "" }
        block.text += part.delta
        open.set(`${type} ${part.id}`, block)
        parts[block.at] = { type, text: block.text }
        break
      }
      case "text-start":
      case "text-end":
      case "reasoning-start":
      case "reasoning-end":
      case "tool-params-start":
      case "tool-params-delta":
      case "tool-params-end":
        break
      case "error":
        return { parts, error: { value: part.error } }
      default:
        parts.push(part)
    }
  }
  return { parts }
}

export const isFailureData = (fail: NonNullable<Script.Turn["fail"]>): fail is Script.Failure =>
  !Predicate.hasProperty(fail, "_tag")
