/** A model of the AI SDK made by hand: it has prepared answers, and keeps the calls it received. */
import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4Content,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4StreamPart,
  LanguageModelV4Usage
} from "@ai-sdk/provider"

export const usage: LanguageModelV4Usage = {
  inputTokens: { total: 11, noCache: 8, cacheRead: 2, cacheWrite: 1 },
  outputTokens: { total: 7, text: 4, reasoning: 3 }
}

export const stop: LanguageModelV4FinishReason = { unified: "stop", raw: "stop" }

export interface Answer extends Partial<Omit<LanguageModelV4GenerateResult, "content">> {
  readonly content?: Array<LanguageModelV4Content>
  /** The parts of the stream; by default the parts of the content. */
  readonly parts?: ReadonlyArray<LanguageModelV4StreamPart>
  /** Thrown by both methods. */
  readonly error?: unknown
}

/** The stream of an answer, cut into small deltas. */
export const streamOf = (answer: Answer): Array<LanguageModelV4StreamPart> => {
  const cut = (text: string) => text.match(text.length > 10_000 ? /.{1,10000}/gs : /.{1,4}/gs) ?? []
  const parts: Array<LanguageModelV4StreamPart> = [{ type: "stream-start", warnings: answer.warnings ?? [] }]
  if (answer.response !== undefined) {
    const { body: _body, headers: _headers, ...response } = answer.response
    parts.push({ type: "response-metadata", ...response })
  }
  for (const [index, part] of (answer.content ?? []).entries()) {
    const id = `b${index}`
    switch (part.type) {
      case "text":
      case "reasoning": {
        const { providerMetadata } = part
        parts.push({ type: `${part.type}-start`, id })
        for (const delta of cut(part.text)) parts.push({ type: `${part.type}-delta`, id, delta })
        parts.push({ type: `${part.type}-end`, id, ...(providerMetadata === undefined ? {} : { providerMetadata }) })
        break
      }
      case "tool-call": {
        const { toolCallId, toolName, providerExecuted = false } = part
        parts.push({ type: "tool-input-start", id: toolCallId, toolName, providerExecuted })
        for (const delta of cut(part.input)) {
          parts.push({ type: "tool-input-delta", id: toolCallId, delta })
        }
        parts.push({ type: "tool-input-end", id: toolCallId }, part)
        break
      }
      default:
        parts.push(part)
    }
  }
  const { finishReason = stop, providerMetadata } = answer
  const metadata = providerMetadata === undefined ? {} : { providerMetadata }
  parts.push({ type: "finish", finishReason, usage: answer.usage ?? usage, ...metadata })
  return parts
}

const unanswered: Answer = { error: new Error("no answer is left") }

export const handmade = (
  answers: ReadonlyArray<Answer>,
  { modelId = "small", provider = "openai.chat" }: { readonly modelId?: string; readonly provider?: string } = {}
) => {
  const calls: Array<LanguageModelV4CallOptions> = []
  let cancelled = 0
  const take = (options: LanguageModelV4CallOptions): Answer => {
    calls.push(options)
    const answer = answers[calls.length - 1] ?? unanswered
    if ("error" in answer) throw answer.error
    return answer
  }
  const model: LanguageModelV4 = {
    specificationVersion: "v4",
    provider,
    modelId,
    supportedUrls: {},
    doGenerate: async (options) => {
      const { parts: _parts, ...answer } = take(options)
      return { content: [], finishReason: stop, usage, warnings: [], ...answer }
    },
    doStream: async (options) => {
      const answer = take(options)
      const parts = [...(answer.parts ?? streamOf(answer))]
      return {
        stream: new ReadableStream({
          pull: (controller) => {
            const part = parts.shift()
            if (part === undefined) controller.close()
            else controller.enqueue(part)
          },
          cancel: () => {
            cancelled += 1
          }
        })
      }
    }
  }
  return { model, calls, cancelled: () => cancelled }
}
