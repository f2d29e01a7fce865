import { Agent } from "@mastra/core/agent"
import { createTool } from "@mastra/core/tools"
import { makeModel } from "./aiSdkModel.ts"
import * as task from "./task.ts"
import { extraTools, Parameters } from "./zod.ts"

export const make: task.Row = async (given) => {
  const extra = extraTools(
    given,
    (id, description, inputSchema) =>
      [id, createTool({ id, description, inputSchema, execute: async () => "x" })] as const
  )
  const agent = new Agent({
    id: "bench",
    name: "bench",
    instructions: task.system,
    model: makeModel(given),
    tools: {
      [task.toolName]: createTool({
        id: task.toolName,
        description: task.toolDescription,
        inputSchema: Parameters,
        execute: task.toolBody(given)
      }),
      ...Object.fromEntries(extra)
    }
  })
  // ten calls run at once unless it is asked for more
  const toolCallConcurrency = given.concurrency === Infinity ? Math.max(given.calls, 10) : given.concurrency
  return async () => (await agent.generate(task.question, { maxSteps: given.steps + 5, toolCallConcurrency })).text
}
