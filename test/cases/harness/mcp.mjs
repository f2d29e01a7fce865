import { createServer } from "node:http"
import * as L from "./loop.mjs"
import { McpTools } from "effect-emissary/mcp"
import { FetchHttpClient } from "effect/http"
import { ScriptedModel } from "effect-emissary/testing"
const { Agent, Effect, Layer, Conversation } = L
/** tools: list, or (cursor) => result; call: (name, args) => result | {error} */
export const mcp = (
  tools,
  call = () => ({ content: [{ type: "text", text: "ok" }] }),
  { protocol = "2025-06-18" } = {}
) =>
  new Promise((resolve) => {
    const seen = []
    const server = createServer(async (req, res) => {
      if (req.method !== "POST") {
        res.writeHead(405)
        return res.end()
      }
      let text = ""
      for await (const c of req) text += c
      const m = JSON.parse(text)
      seen.push(m)
      if (m.id === undefined) {
        res.writeHead(202)
        return res.end()
      }
      const send = (o) => {
        res.writeHead(200, { "content-type": "application/json", "mcp-session-id": "s1" })
        res.end(JSON.stringify({ jsonrpc: "2.0", id: m.id, ...o }))
      }
      if (m.method === "initialize")
        return send({
          result: { protocolVersion: protocol, capabilities: { tools: {} }, serverInfo: { name: "demo", version: "1" } }
        })
      if (m.method === "ping") return send({ result: {} })
      if (m.method === "tools/list")
        return send({
          result:
            typeof tools === "function"
              ? tools(m.params?.cursor, seen.filter((s) => s.method === "tools/list").length)
              : { tools }
        })
      if (m.method === "tools/call") {
        const r = await call(m.params.name, m.params.arguments, m)
        return send(r.error ? r : { result: r })
      }
      return send({ error: { code: -32601, message: "Method not found" } })
    })
    server.listen(0, "127.0.0.1", () =>
      resolve({
        url: `http://127.0.0.1:${server.address().port}/mcp`,
        seen,
        close: () => {
          server.close()
          server.closeAllConnections()
        }
      })
    )
  })
const agent = Agent.make("a", { toolkit: McpTools.toolkit })
export const use = async (tools, { call, calls = [], layer = {}, protocol } = {}) => {
  const server = await mcp(tools, call, { protocol })
  const Servers = McpTools.layer({ demo: { url: server.url, approval: "never", ...layer } }).pipe(
    Layer.provide(FetchHttpClient.layer)
  )
  const program = Effect.gen(function* () {
    const listed = yield* McpTools.toolkit
    const refused = yield* McpTools.refusedTools
    const r = calls.length === 0 ? undefined : yield* agent.run("go")
    return {
      names: listed.map((t) => t.name),
      schemas: listed,
      refused: refused.map((r) => r),
      results:
        r &&
        Conversation.messages(r.conversation)
          .filter((m) => m.role === "tool")
          .map((m) => m.result),
      outcome: r?.outcome
    }
  })
  const model = ScriptedModel.layer([
    ...calls.map(([name, params = {}], i) => ({ toolCalls: [{ id: `c${i}`, name: `demo/${name}`, params }] })),
    { text: "done" }
  ])
  const exit = await Effect.runPromiseExit(
    program.pipe(Effect.provide(Servers), Effect.provide(model), Effect.timeout("20 seconds"))
  )
  server.close()
  return {
    exit,
    ok: exit._tag === "Success",
    value: exit.value,
    seen: server.seen,
    failure:
      exit._tag === "Failure" ? String(exit.cause.reasons?.[0]?.error?.message ?? exit.cause).slice(0, 500) : undefined
  }
}
