/** The prebuilt ReAct agent of LangGraph; its second version only where calls are bounded, which the first does not do. */
import { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { AIMessage, type BaseMessage } from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { createReactAgent } from "@langchain/langgraph/prebuilt"
import * as task from "./task.ts"
import { extraTools, Parameters } from "./zod.ts"

class Model extends BaseChatModel {
  readonly given: task.Task
  constructor(given: task.Task) {
    super({})
    this.given = given
  }
  override _llmType() {
    return "mock"
  }
  override bindTools() {
    return this
  }
  override async _generate(messages: Array<BaseMessage>) {
    const { calls, modelMilliseconds, steps } = this.given
    task.modelCalled(messages)
    if (modelMilliseconds > 0) await task.sleep(modelMilliseconds)
    const step = (messages.length - 2) / (1 + calls)
    const message =
      step >= steps
        ? new AIMessage(task.answer)
        : new AIMessage({
            content: "",
            tool_calls: task.callsOf(this.given, step).map(({ id, json }) => ({
              type: "tool_call",
              id,
              name: task.toolName,
              args: JSON.parse(json)
            }))
          })
    Object.assign(message, { usage_metadata: { input_tokens: 10, output_tokens: 5, total_tokens: 15 } })
    return { generations: [{ text: message.text, message }], llmOutput: {} }
  }
}

export const make: task.Row = async (given) => {
  const bounded = given.concurrency !== Infinity
  const agent = createReactAgent({
    llm: new Model(given),
    prompt: task.system,
    tools: [
      tool(task.toolBody(given), { name: task.toolName, description: task.toolDescription, schema: Parameters }),
      ...extraTools(given, (name, description, schema) => tool(async () => "x", { name, description, schema }))
    ],
    ...(bounded ? { version: "v2" as const } : {})
  })
  const options = {
    recursionLimit: given.steps * 2 + 10,
    ...(bounded ? { maxConcurrency: given.concurrency } : {})
  }
  const input = { messages: [{ role: "user", content: task.question }] }
  return async () => {
    const { messages } = await agent.invoke(input, { ...options })
    return String(messages.at(-1)?.content)
  }
}
