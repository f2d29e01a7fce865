import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { z } from "zod"
import { model } from "./aiSdkModel.ts"

export const main = async (): Promise<string> => {
  const weather = createTool({
    id: "weather",
    description: "Look up the weather",
    inputSchema: z.object({ city: z.string() }),
    execute: async ({ city }) => ({ city, temperature: 21 })
  })
  const agent = new Agent({ id: "a", name: "a", instructions: "s", model, tools: { weather } })
  return (await agent.generate("q", { maxSteps: 5 })).text
}
