import { Agent, Runner, setTracingDisabled, tool, Usage, type Model } from "@openai/agents"
import * as task from "./task.ts"
import { extraTools, Parameters } from "./zod.ts"

const makeModel = (given: task.Task): Model => ({
  getResponse: async ({ input }) => {
    task.modelCalled(input)
    if (given.modelMilliseconds > 0) await task.sleep(given.modelMilliseconds)
    const step = (input.length - 1) / (2 * given.calls)
    const usage = new Usage({ requests: 1, inputTokens: 10, outputTokens: 5, totalTokens: 15 })
    if (step >= given.steps)
      return {
        usage,
        output: [
          {
            type: "message",
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: task.answer }]
          }
        ]
      }
    return {
      usage,
      output: task.callsOf(given, step).map(({ id, json }) => ({
        type: "function_call",
        callId: id,
        name: task.toolName,
        status: "completed",
        arguments: json
      }))
    }
  },
  getStreamedResponse: async function* () {
    throw new Error("no row streams")
  }
})

export const make: task.Row = async (given) => {
  setTracingDisabled(true)
  const agent = new Agent({
    name: "bench",
    instructions: task.system,
    model: makeModel(given),
    tools: [
      tool({
        name: task.toolName,
        description: task.toolDescription,
        parameters: Parameters,
        execute: task.toolBody(given)
      }),
      ...extraTools(given, (name, description, parameters) =>
        tool({ name, description, parameters, execute: async () => "x" })
      )
    ]
  })
  const runner = new Runner({
    tracingDisabled: true,
    ...(given.concurrency === Infinity ? {} : { toolExecution: { maxFunctionToolConcurrency: given.concurrency } })
  })
  return async () => String((await runner.run(agent, task.question, { maxTurns: given.steps + 5 })).finalOutput)
}
