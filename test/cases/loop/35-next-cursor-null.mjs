export const source = "gensecaihq/Wazuh-MCP-Server#75, Hmbown/Codewhale#5335"
export const kind = "MCP: null where nothing is meant"
export const why = "The last page has nextCursor: null. It is the last page, and its tools are there."
export const right = { tools: ["demo/t"], result: "ok" }
export default async (lib) => {
  const r = await lib.use(() => ({ tools: [{ name: "t", inputSchema: { type: "object" } }], nextCursor: null }), {
    call: () => structuredClone({ content: [{ type: "text", text: "ok" }] }),
    calls: [["t"]]
  })
  return {
    tools: r.ok ? r.value.names : [],
    result: r.ok ? (r.value.results?.[0]?.value ?? r.value.results?.[0]?.type) : r.failure
  }
}
