export const source = "anthropics/claude-code#88049, #95504"
export const kind = "JSON Schema from outside"
export const why =
  "A tool that is left out because of its schema is logged once, by server, name and place, without a call of McpTools.refusedTools. Hours are lost where nothing points at the schema."
export const right = { tools: ["demo/good"], logged: true }
export default async (lib) => {
  const lines = []
  const { Effect, Layer, Logger, McpTools, FetchHttpClient } = lib
  const s = await lib.mcp([
    { name: "bad", inputSchema: { type: "object", properties: { a: { $ref: "#/$defs/Nope" } } } },
    { name: "good", inputSchema: { type: "object" } }
  ])
  const seen = Logger.make(({ message }) => {
    lines.push(JSON.stringify(message))
  })
  const e = await Effect.runPromiseExit(
    McpTools.toolkit.pipe(
      Effect.map((l) => l.map((t) => t.name)),
      Effect.provide(
        McpTools.layer({ demo: { url: s.url, approval: "never" } }).pipe(Layer.provide(FetchHttpClient.layer))
      ),
      Effect.provide(Logger.layer([seen]))
    )
  )
  s.close()
  return { tools: e._tag === "Success" ? e.value : [], logged: lines.some((l) => /bad/.test(l)) }
}
