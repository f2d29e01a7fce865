export const source =
  "beautyfree/appstore-connect-mcp#1, #2, ComposioHQ/composio#3500, IBM-Cloud/ibm-cloud-cli-release#226, decocms/studio#6874"
export const kind = "schema sent to a provider"
export const why =
  "A tool has parameters such as filter[id] and $top. Anthropic takes property names of letters, digits, dots, hyphens and underscores only, and refuses the whole request. The names are rewritten for the model (as names of tools are) and back for the server, or the tool is left out with a warning."
export const right = { outcome: "Completed", sent: [["filter[id]", "$top"]] }
export default async (lib) => {
  const {
    Agent,
    Effect,
    Layer,
    McpTools,
    FetchHttpClient,
    AiSdk,
    models,
    serve,
    report,
    anthropicText,
    anthropicWhole
  } = lib
  const keys = ["filter[id]", "$top"]
  const s = await lib.mcp([
    {
      name: "t",
      description: "d",
      inputSchema: {
        type: "object",
        properties: Object.fromEntries(keys.map((k) => [k, { type: "string" }])),
        required: keys
      }
    },
    { name: "healthy", description: "d", inputSchema: { type: "object", properties: {} } }
  ])
  const http = await serve((body, n) => {
    const bad = body.tools.some((t) =>
      Object.keys(t.input_schema.properties ?? {}).some((k) => !/^[a-zA-Z0-9_.-]{1,64}$/.test(k))
    )
    if (bad)
      return {
        status: 400,
        json: {
          type: "error",
          error: {
            type: "invalid_request_error",
            message: "tools.0.custom.input_schema.properties: Property keys should match pattern"
          }
        }
      }
    const offered = body.tools.find((t) => t.name === "demo__t")
    if (n > 0 || offered === undefined) return anthropicText("done")
    return anthropicWhole(
      [
        {
          type: "tool_use",
          id: "tu",
          name: "demo__t",
          input: Object.fromEntries(Object.keys(offered.input_schema.properties).map((k) => [k, "x"]))
        }
      ],
      "tool_use"
    )
  })
  const r = report(
    await Effect.runPromiseExit(
      Agent.make("a", { toolkit: McpTools.toolkit })
        .run("go")
        .pipe(
          Effect.provide(
            McpTools.layer({ demo: { url: s.url, approval: "never" } }).pipe(Layer.provide(FetchHttpClient.layer))
          ),
          Effect.provide(AiSdk.model(models.anthropic(http.url)))
        )
    )
  )
  http.close()
  s.close()
  return {
    outcome: r.ok ? r.outcome : r.error,
    sent: s.seen.filter((m) => m.method === "tools/call").map((m) => Object.keys(m.params.arguments ?? {}))
  }
}
