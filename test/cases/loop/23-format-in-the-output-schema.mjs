export const source = "TGYD-helige/pi#119"
export const kind = "JSON Schema from outside"
export const why = "The same format in the output schema of a tool."
export const right = { tools: ["demo/t"], result: { elapsed_ms: 5 } }
export default async (lib) => {
  const r = await lib.use(
    [
      {
        name: "t",
        inputSchema: { type: "object" },
        outputSchema: { type: "object", properties: { elapsed_ms: { type: "integer", format: "uint64" } } }
      }
    ],
    {
      call: () => structuredClone({ content: [{ type: "text", text: "5" }], structuredContent: { elapsed_ms: 5 } }),
      calls: [["t"]]
    }
  )
  return {
    tools: r.ok ? r.value.names : [],
    result: r.ok ? (r.value.results?.[0]?.value ?? r.value.results?.[0]?.type) : r.failure
  }
}
