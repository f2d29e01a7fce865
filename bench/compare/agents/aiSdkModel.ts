/** A model in the protocol of the AI SDK, which Mastra takes as well. */
import * as task from "./task.ts"

const usage = {
  inputTokens: { total: 10, noCache: 10, cacheRead: undefined, cacheWrite: undefined },
  outputTokens: { total: 5, text: 5, reasoning: undefined }
}

export const makeModel = (given: task.Task) => ({
  specificationVersion: "v4" as const,
  provider: "mock",
  modelId: "mock",
  supportedUrls: {},
  doGenerate: async ({ prompt }: { readonly prompt: ReadonlyArray<unknown> }) => {
    task.modelCalled(prompt)
    if (given.modelMilliseconds > 0) await task.sleep(given.modelMilliseconds)
    const step = (prompt.length - 2) / 2
    if (step >= given.steps)
      return {
        content: [{ type: "text" as const, text: task.answer }],
        finishReason: { unified: "stop" as const, raw: "stop" },
        usage,
        warnings: []
      }
    return {
      content: task.callsOf(given, step).map(({ id, json }) => ({
        type: "tool-call" as const,
        toolCallId: id,
        toolName: task.toolName,
        input: json
      })),
      finishReason: { unified: "tool-calls" as const, raw: "tool_calls" },
      usage,
      warnings: []
    }
  },
  doStream: async () => {
    throw new Error("no row streams")
  }
})
