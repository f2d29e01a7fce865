export const source = "docker/docker-agent#4106"
export const kind = "schema sent to a provider"
export const why = "A closed schema with oneOf inside is offered to OpenAI without strict, unchanged."
export const right = { strict: false, oneOf: true }
export default async (lib) => {
  const { Agent, Effect, Layer, McpTools, FetchHttpClient, AiSdk, models, serve } = lib
  const s = await lib.mcp([
    {
      name: "t",
      description: "d",
      inputSchema: {
        type: "object",
        properties: { value: { oneOf: [{ type: "integer" }, { type: "string" }] } },
        required: ["value"],
        additionalProperties: false
      }
    }
  ])
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
  const [t] = http.bodies[0].tools
  return { strict: t.strict, oneOf: Array.isArray(t.parameters.properties.value.oneOf) }
}
