/** A model in the protocol of the AI SDK: a call, then text. */
const usage = {
  inputTokens: { total: 1, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 1, text: undefined, reasoning: undefined }
}

export const model = {
  specificationVersion: "v4" as const,
  provider: "mock",
  modelId: "mock",
  supportedUrls: {},
  doGenerate: async ({ prompt }: { readonly prompt: ReadonlyArray<unknown> }) =>
    prompt.length < 3
      ? {
          content: [{ type: "tool-call" as const, toolCallId: "c1", toolName: "weather", input: '{"city":"Oslo"}' }],
          finishReason: { unified: "tool-calls" as const, raw: undefined },
          usage,
          warnings: []
        }
      : {
          content: [{ type: "text" as const, text: "hello" }],
          finishReason: { unified: "stop" as const, raw: undefined },
          usage,
          warnings: []
        },
  doStream: async () => {
    throw new Error("no program streams")
  }
}
