export const source = "DeusData/codebase-memory-mcp#1247, sparfenyuk/mcp-proxy#233"
export const kind = "MCP"
export const why =
  "A server answers each cursor with the first page and the same cursor. The client stops after a few requests; no tool is there twice."
export const right = { few: true, twice: false }
export default async (lib) => {
  const r = await lib.use(() => ({ tools: [{ name: "t", inputSchema: { type: "object" } }], nextCursor: "2" }), {
    call: () => structuredClone({ content: [{ type: "text", text: "ok" }] }),
    calls: []
  })
  return { few: r.seen.filter((m) => m.method === "tools/list").length < 10, twice: (r.value?.names ?? []).length > 1 }
}
