export const source = "bytedance/trae-agent#230"
export const kind = "history at a provider"
export const why =
  "A tool fails with an empty text. Anthropic refuses an empty content beside is_error: something is there."
export const right = { isError: true, empty: false }
export default async (lib) => {
  const { Agent, Tool, Toolkit, Schema, Effect, Layer, AiSdk, models, serve, anthropicWhole, anthropicText } = lib
  const kit = Toolkit.make(
    Tool.make("t", { parameters: Schema.Struct({}), success: Schema.String, failure: Schema.String })
  )
  const s = await serve((b, n) =>
    n === 0 ? anthropicWhole([{ type: "tool_use", id: "tu", name: "t", input: {} }], "tool_use") : anthropicText("done")
  )
  await Effect.runPromiseExit(
    Agent.make("a", { toolkit: kit })
      .run("go")
      .pipe(
        Effect.provide(Layer.mergeAll(kit.toLayer({ t: () => Effect.fail("") }), AiSdk.model(models.anthropic(s.url))))
      )
  )
  s.close()
  const result = s.bodies[1].messages.flatMap((m) => m.content).find((b) => b.type === "tool_result")
  return { isError: result.is_error === true, empty: result.content === "" || result.content.length === 0 }
}
