import { Agent, Runner, setTracingDisabled, tool, Usage, type Model } from "@openai/agents"
import { z } from "zod"

const model: Model = {
  getResponse: async ({ input }) => ({
    usage: new Usage(),
    output:
      input.length < 2
        ? [
            {
              type: "function_call",
              callId: "c1",
              name: "weather",
              status: "completed",
              arguments: '{"city":"Oslo"}'
            }
          ]
        : [
            {
              type: "message",
              role: "assistant",
              status: "completed",
              content: [{ type: "output_text", text: "hello" }]
            }
          ]
  }),
  getStreamedResponse: async function* () {
    throw new Error("no program streams")
  }
}

export const main = async (): Promise<string> => {
  setTracingDisabled(true)
  const weather = tool({
    name: "weather",
    description: "Look up the weather",
    parameters: z.object({ city: z.string() }),
    execute: async ({ city }) => ({ city, temperature: 21 })
  })
  const agent = new Agent({ name: "a", instructions: "s", model, tools: [weather] })
  return String((await new Runner({ tracingDisabled: true }).run(agent, "q")).finalOutput)
}
