export const source = "kagent-dev/kagent#1888, softwaremill/sttp-ai#521"
export const kind = "schema sent to a provider"
export const why = 'A tool without parameters has the schema {type: "object"}. OpenAI wants properties, so {} is sent.'
export const right = { sent: { type: "object", properties: {} } }
export default async (lib) => {
  const { Agent, Effect, Layer, McpTools, FetchHttpClient, AiSdk, models, serve } = lib
  const s = await lib.mcp([{ name: "t", description: "d", inputSchema: { type: "object" } }])
  const http = await serve(() => ({
    json: { id: "r", created_at: 1, model: "m", output: [], usage: { input_tokens: 1, output_tokens: 1 } }
  }))
  await Effect.runPromiseExit(
    Agent.make("a", { toolkit: McpTools.toolkit })
      .run("go")
      .pipe(
        Effect.provide(
          McpTools.layer({ demo: { url: s.url, approval: "never" } }).pipe(Layer.provide(FetchHttpClient.layer))
        ),
        Effect.provide(AiSdk.model(models.responses(http.url)))
      )
  )
  http.close()
  s.close()
  return { sent: http.bodies[0].tools[0].parameters }
}
