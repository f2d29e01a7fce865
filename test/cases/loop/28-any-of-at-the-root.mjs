export const source =
  "makenotion/notion-mcp-server#341, anthropics/claude-code#45106, zereight/gitlab-mcp#550, sandialabs/atlas-ui-3#727"
export const kind = "schema sent to a provider"
export const why =
  "One tool has anyOf at the root, which MCP 2026-07-28 allows. Anthropic and OpenAI refuse a request with it as a whole. The tool is offered in a form that they take (an open object; the arguments are checked here anyway), or left out with a warning: the other tools go on."
export const right = { outcome: "Completed" }
export default async (lib) => {
  const { Agent, Effect, Layer, McpTools, FetchHttpClient, AiSdk, models, serve, report } = lib
  const s = await lib.mcp([
    {
      name: "t",
      description: "d",
      inputSchema: {
        type: "object",
        properties: { a: { type: "string" }, b: { type: "string" } },
        anyOf: [{ required: ["a"] }, { required: ["b"] }]
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
    return lib.anthropicText("x")
  })
  const r = report(
    await Effect.runPromiseExit(
      Agent.make("a", { toolkit: McpTools.toolkit })
        .run("go")
        .pipe(
          Effect.provide(
            McpTools.layer({ demo: { url: s.url, approval: "never" } }).pipe(Layer.provide(FetchHttpClient.layer))
          ),
          Effect.provide(AiSdk.model(models["anthropic"](http.url)))
        )
    )
  )
  http.close()
  s.close()
  return { outcome: r.ok ? r.outcome : r.error }
}
