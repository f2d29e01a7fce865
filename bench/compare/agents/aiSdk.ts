import { isStepCount, tool, ToolLoopAgent } from "ai"
import { makeModel } from "./aiSdkModel.ts"
import * as task from "./task.ts"
import { extraTools, Parameters } from "./zod.ts"

export const make: task.Row = async (given) => {
  const extra = extraTools(
    given,
    (name, description, inputSchema) => [name, tool({ description, inputSchema, execute: async () => "x" })] as const
  )
  const agent = new ToolLoopAgent({
    model: makeModel(given),
    instructions: task.system,
    tools: {
      [task.toolName]: tool({
        description: task.toolDescription,
        inputSchema: Parameters,
        execute: task.toolBody(given)
      }),
      ...Object.fromEntries(extra)
    },
    stopWhen: isStepCount(given.steps + 5),
    ...(given.concurrency === Infinity ? {} : { toolCallConcurrency: given.concurrency })
  })
  return async () => (await agent.generate({ prompt: task.question })).text
}
