export const source = "brother of Azure/data-api-builder#3599 (ours)"
export const kind = "MCP: null where nothing is meant"
export const why = "A result has isError: null and structuredContent: null beside its content. The call succeeded."
export const right = { tools: ["demo/t"], result: "ok" }
export default async (lib) => {
  const r = await lib.use([{ name: "t", inputSchema: { type: "object" } }], {
    call: () => structuredClone({ content: [{ type: "text", text: "ok" }], isError: null, structuredContent: null }),
    calls: [["t"]]
  })
  return {
    tools: r.ok ? r.value.names : [],
    result: r.ok ? (r.value.results?.[0]?.value ?? r.value.results?.[0]?.type) : r.failure
  }
}
