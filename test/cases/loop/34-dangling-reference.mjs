export const source = "sigbit/mcp-auth-proxy#178"
export const kind = "JSON Schema from outside"
export const why =
  "A proxy renamed definitions and not the references. That tool is refused by name, and the others of the server are kept."
export const right = { tools: ["demo/good"], refused: ["bad"] }
export default async (lib) => {
  const r = await lib.use(
    [
      {
        name: "bad",
        inputSchema: {
          type: "object",
          properties: { item: { $ref: "#/definitions/Item" } },
          $defs: { Item: { type: "string" } }
        }
      },
      { name: "good", inputSchema: { type: "object" } }
    ],
    { call: () => structuredClone({ content: [{ type: "text", text: "ok" }] }), calls: [] }
  )
  return { tools: r.value?.names, refused: r.value?.refused.map((x) => x.tool) }
}
