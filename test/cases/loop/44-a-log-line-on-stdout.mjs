export const source = "UKGovernmentBEIS/inspect_ai#3290, editor-code-assistant/eca#298, yokingma/time-mcp#10"
export const kind = "MCP"
export const why =
  "A server over standard streams prints a banner, and a line at each call. The official clients skip lines that are no message: so do we, with a warning."
export const right = { results: ["ok", "ok"] }
export default async (lib) => {
  const { writeFileSync, mkdtempSync } = await import("node:fs")
  const { tmpdir } = await import("node:os")
  const file = `${mkdtempSync(`${tmpdir()}/mcp-`)}/server.cjs`
  writeFileSync(
    file,
    `console.log("Server started on stdio")
let buffer = ""
const send = (o) => process.stdout.write(JSON.stringify(o) + "\\n")
process.stdin.on("data", (d) => { buffer += d; for (let i; (i = buffer.indexOf("\\n")) >= 0; ) { const line = buffer.slice(0, i); buffer = buffer.slice(i + 1); if (line.trim() === "") continue; const m = JSON.parse(line); if (m.id === undefined) continue
  if (m.method === "initialize") send({ jsonrpc: "2.0", id: m.id, result: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "x", version: "1" } } })
  else if (m.method === "tools/list") send({ jsonrpc: "2.0", id: m.id, result: { tools: [{ name: "t", inputSchema: { type: "object" } }] } })
  else { console.log("[info] called"); send({ jsonrpc: "2.0", id: m.id, result: { content: [{ type: "text", text: "ok" }] } }) } } })`
  )
  const { Agent, Effect, Layer, McpTools, NodeServices, FetchHttpClient, ChildProcess, ScriptedModel, Conversation } =
    lib
  const model = ScriptedModel.layer([
    { toolCalls: [{ id: "a", name: "demo/t", params: {} }] },
    { toolCalls: [{ id: "b", name: "demo/t", params: {} }] },
    { text: "done" }
  ])
  const e = await Effect.runPromiseExit(
    Agent.make("a", { toolkit: McpTools.toolkit })
      .run("go")
      .pipe(
        Effect.map((r) =>
          Conversation.messages(r.conversation)
            .filter((m) => m.role === "tool")
            .map((m) => m.result.value)
        ),
        Effect.provide(
          McpTools.layer({
            demo: {
              command: ChildProcess.make(process.execPath, [file]),
              approval: "never",
              connectTimeout: "5 seconds"
            }
          }).pipe(Layer.provide(Layer.mergeAll(NodeServices.layer, FetchHttpClient.layer)))
        ),
        Effect.provide(model)
      )
  )
  return e._tag === "Success" ? { results: e.value } : { failed: e.cause.reasons[0].error.message }
}
