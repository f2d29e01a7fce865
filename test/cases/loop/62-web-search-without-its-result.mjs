export const source = "gsd-build/gsd-2#2869, AnswerDotAI/lisette#108"
export const kind = "history at a provider"
export const why =
  "The same with web_search of the toolkit: the call without a result is left out before the next message of the user."
export const right = { orphan: false, paused: true }
export default async (lib) => {
  const { Agent, Tool, Toolkit, Schema, Effect, AiSdk, models, serve, anthropicWhole, anthropicText } = lib
  const Search = Tool.providerDefined({
    id: "anthropic.web_search_20250305",
    customName: "web_search",
    providerName: "web_search",
    args: Schema.Struct({}),
    parameters: Schema.Unknown,
    success: Schema.Unknown
  })({})
  const agent = Agent.make("a", { toolkit: Toolkit.make(Search) })
  const call = { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "x" } }
  const second = async (stop, again) => {
    const s = await serve((b, n) =>
      n === 0 ? anthropicWhole([{ type: "text", text: "ok" }, call], stop) : anthropicText("done")
    )
    await Effect.runPromiseExit(
      agent.run("go").pipe(
        Effect.flatMap((r) => (again ? agent.run("again", { conversation: r.conversation }) : Effect.succeed(r))),
        Effect.provide(AiSdk.model(models.anthropic(s.url)))
      )
    )
    s.close()
    return s.bodies[1].messages.flatMap((m) => m.content).some((b) => b.type === "server_tool_use")
  }
  return { orphan: await second("max_tokens", true), paused: await second("pause_turn", false) }
}
