export const source =
  "longbridge/developers#1264, anomalyco/opencode#12815 (BigQuery), nicobailon/pi-mcp-adapter#649, google-gemini/gemini-cli#6948"
export const kind = "JSON Schema from outside"
export const why =
  "Servers in Rust (schemars), BigQuery and OpenAPI converters write formats such as uint64 and int64 beside integers. A format that is not known is an annotation (2020-12): the tool is kept."
export const right = { tools: ["demo/t"], result: "ok" }
export default async (lib) => {
  const r = await lib.use(
    [
      {
        name: "t",
        inputSchema: { type: "object", properties: { limit: { type: "integer", format: "uint64", minimum: 0 } } }
      }
    ],
    { call: () => structuredClone({ content: [{ type: "text", text: "ok" }] }), calls: [["t"]] }
  )
  return {
    tools: r.ok ? r.value.names : [],
    result: r.ok ? (r.value.results?.[0]?.value ?? r.value.results?.[0]?.type) : r.failure
  }
}
