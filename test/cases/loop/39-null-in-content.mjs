export const source = "Azure/data-api-builder#3599"
export const kind = "MCP: null where nothing is meant"
export const why = "Each block of a result has annotations: null and _meta: null."
export const right = { tools: ["demo/t"], result: "ok" }
export default async (lib) => {
  const r = await lib.use([{ name: "t", inputSchema: { type: "object" } }], {
    call: () => structuredClone({ content: [{ type: "text", text: "ok", annotations: null, _meta: null }] }),
    calls: [["t"]]
  })
  return {
    tools: r.ok ? r.value.names : [],
    result: r.ok ? (r.value.results?.[0]?.value ?? r.value.results?.[0]?.type) : r.failure
  }
}
