import { isStepCount, tool, ToolLoopAgent } from "ai"
import { z } from "zod"
import { model } from "./aiSdkModel.ts"

export const main = async (): Promise<string> => {
  const agent = new ToolLoopAgent({
    model,
    instructions: "s",
    stopWhen: isStepCount(5),
    tools: {
      weather: tool({
        description: "Look up the weather",
        inputSchema: z.object({ city: z.string() }),
        execute: async ({ city }) => ({ city, temperature: 21 })
      })
    }
  })
  return (await agent.generate({ prompt: "q" })).text
}
