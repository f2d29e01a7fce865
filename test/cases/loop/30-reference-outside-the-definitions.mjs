export const source =
  "dotnet/extensions#6918, modelcontextprotocol/typescript-sdk#1082, Softeria/ms-365-mcp-server#576, langchain4j/langchain4j#5790"
export const kind = "schema sent to a provider"
export const why =
  "zod-to-json-schema and .NET write a reference to #/properties/... for a shape that is used twice. OpenAI refuses that in a strict tool, so it is not offered as strict (or the reference is rewritten)."
export const right = { outcome: "Completed" }
export default async (lib) => {
  const { Agent, Effect, Layer, McpTools, FetchHttpClient, AiSdk, models, serve, report } = lib
  const s = await lib.mcp([
    {
      name: "t",
      description: "d",
      inputSchema: {
        type: "object",
        properties: {
          from: {
            type: "object",
            properties: { id: { type: "string" } },
            required: ["id"],
            additionalProperties: false
          },
          to: { $ref: "#/properties/from" }
        },
        required: ["from", "to"],
        additionalProperties: false
      }
    },
    { name: "healthy", description: "d", inputSchema: { type: "object", properties: {} } }
  ])
  const topLevel = (schema) => ["oneOf", "allOf", "anyOf"].some((k) => k in schema)
  const elsewhere = (x) =>
    typeof x === "object" &&
    x !== null &&
    ((typeof x.$ref === "string" && !/^#(\/(\$defs|definitions)\/[^/]+)?$/.test(x.$ref)) ||
      Object.values(x).some(elsewhere))
  const http = await serve((body) => {
    const bad = body.tools.some(
      (t) => topLevel(t.parameters ?? t.input_schema) || (t.strict && "parameters" in t && elsewhere(t.parameters))
    )
    if (bad)
      return {
        status: 400,
        json: {
          type: "error",
          error: { type: "invalid_request_error", message: "the schema of a tool is not supported" }
        }
      }
    return {
      json: {
        id: "r",
        created_at: 1,
        model: "m",
        output: [
          {
            type: "message",
            id: "m",
            role: "assistant",
            content: [{ type: "output_text", text: "x", annotations: [] }]
          }
        ],
        usage: { input_tokens: 1, output_tokens: 1 }
      }
    }
  })
  const r = report(
    await Effect.runPromiseExit(
      Agent.make("a", { toolkit: McpTools.toolkit })
        .run("go")
        .pipe(
          Effect.provide(
            McpTools.layer({ demo: { url: s.url, approval: "never" } }).pipe(Layer.provide(FetchHttpClient.layer))
          ),
          Effect.provide(AiSdk.model(models["responses"](http.url)))
        )
    )
  )
  http.close()
  s.close()
  return { outcome: r.ok ? r.outcome : r.error }
}
