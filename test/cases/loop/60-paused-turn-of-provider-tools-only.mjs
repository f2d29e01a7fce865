export const source =
  "gsd-build/gsd-2#2869, WordPress/ai-provider-for-anthropic#29 (ours with the MCP connector, whose tools are in no toolkit)"
export const kind = "history at a provider"
export const why =
  "Anthropic pauses a turn that so far has only calls and results of its own tools. The next request brings the paused answer back as it is; without it the model starts from nothing, and pays for the same work up to maxSteps times."
export const right = { sentBack: true }
export default async (lib) => {
  const { Agent, Effect, AiSdk, models, serve, anthropicWhole, anthropicText } = lib
  const s = await serve((b, n) =>
    n === 0
      ? anthropicWhole(
          [
            { type: "thinking", thinking: "hm", signature: "S" },
            { type: "mcp_tool_use", id: "m1", name: "echo", server_name: "echo", input: {} },
            { type: "mcp_tool_result", tool_use_id: "m1", is_error: false, content: [{ type: "text", text: "1" }] }
          ],
          "pause_turn"
        )
      : anthropicText("done")
  )
  await Effect.runPromiseExit(
    Agent.make("a")
      .run("go")
      .pipe(
        Effect.provide(
          AiSdk.model(models.anthropic(s.url), {
            providerOptions: {
              anthropic: { mcpServers: [{ type: "url", name: "echo", url: "https://example.com/mcp" }] }
            }
          })
        )
      )
  )
  s.close()
  return {
    sentBack: s.bodies[1].messages.some(
      (m) => m.role === "assistant" && m.content.some((b) => b.type === "mcp_tool_use")
    )
  }
}
