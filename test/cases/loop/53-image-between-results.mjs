export const source = "Zoo-Code-Org/Zoo-Code#1705"
export const kind = "history at a provider"
export const why =
  "A stored history of Anthropic has an image between two results. Repair puts the results in front, in one message, and loses nothing."
export const right = { types: ["tool_result", "tool_result", "image"], repairs: ["ResultMoved"] }
export default async (lib) => {
  const { AnthropicMessages, Effect, Result } = lib
  const { conversation, repairs } = await Effect.runPromise(
    AnthropicMessages.toConversation(
      {
        messages: [
          { role: "user", content: "1" },
          {
            role: "assistant",
            content: [
              { type: "tool_use", id: "a", name: "t", input: {} },
              { type: "tool_use", id: "b", name: "t", input: {} }
            ]
          },
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "a", content: "A" },
              { type: "image", source: { type: "base64", media_type: "image/png", data: "AA==" } },
              { type: "tool_result", tool_use_id: "b", content: "B" }
            ]
          }
        ]
      },
      { onUnlawful: "repair" }
    )
  )
  const written = Result.getOrThrow(AnthropicMessages.fromConversation(conversation))
  return { types: written.messages[2].content.map((b) => b.type), repairs: repairs.map((r) => r._tag) }
}
