export const source = "modelcontextprotocol/typescript-sdk#1943, cyanheads/mcp-ts-core#241"
export const kind = "MCP"
export const why =
  "A result with isError has structured content outside of the output schema. The model reads the words of the server."
export const right = { failure: "execution_error", message: "NOT_FOUND" }
export default async (lib) => {
  const r = await lib.use(
    [
      {
        name: "t",
        inputSchema: { type: "object" },
        outputSchema: { type: "object", properties: { things: { type: "array" } }, required: ["things"] }
      }
    ],
    {
      call: () =>
        structuredClone({
          content: [{ type: "text", text: "NOT_FOUND" }],
          structuredContent: { err: 1 },
          isError: true
        }),
      calls: [["t"]]
    }
  )
  const x = r.value?.results?.[0]
  return { failure: x?.type, message: x?.message }
}
