export const source = "modelcontextprotocol/java-sdk#628 (and the other way PrefectHQ/fastmcp#5025)"
export const kind = "MCP: null where nothing is meant"
export const why =
  'Each page, also the one for the cursor "", has nextCursor: "". The list ends, at the latest where the cursor repeats, with the tools that were read. The official client stops there.'
export const right = { tools: ["demo/t"], result: "ok" }
export default async (lib) => {
  const r = await lib.use(() => ({ tools: [{ name: "t", inputSchema: { type: "object" } }], nextCursor: "" }), {
    call: () => structuredClone({ content: [{ type: "text", text: "ok" }] }),
    calls: [["t"]]
  })
  return {
    tools: r.ok ? r.value.names : [],
    result: r.ok ? (r.value.results?.[0]?.value ?? r.value.results?.[0]?.type) : r.failure
  }
}
