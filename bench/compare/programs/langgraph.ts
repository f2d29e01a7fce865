import { BaseChatModel } from "@langchain/core/language_models/chat_models"
import { AIMessage, type BaseMessage } from "@langchain/core/messages"
import { tool } from "@langchain/core/tools"
import { createReactAgent } from "@langchain/langgraph/prebuilt"
import { z } from "zod"

class Model extends BaseChatModel {
  override _llmType() {
    return "mock"
  }
  override bindTools() {
    return this
  }
  override async _generate(messages: Array<BaseMessage>) {
    const message =
      messages.length < 3
        ? new AIMessage({
            content: "",
            tool_calls: [{ type: "tool_call", id: "c1", name: "weather", args: { city: "Oslo" } }]
          })
        : new AIMessage("hello")
    return { generations: [{ text: "", message }] }
  }
}

export const main = async (): Promise<string> => {
  const weather = tool(async ({ city }) => ({ city, temperature: 21 }), {
    name: "weather",
    description: "Look up the weather",
    schema: z.object({ city: z.string() })
  })
  const agent = createReactAgent({ llm: new Model({}), prompt: "s", tools: [weather] })
  const { messages } = await agent.invoke({ messages: [{ role: "user", content: "q" }] })
  return String(messages.at(-1)?.content)
}
