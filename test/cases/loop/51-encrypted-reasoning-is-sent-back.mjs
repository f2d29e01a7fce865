export const source = "openai/openai-agents-python#919, github/copilot-sdk#615, ag2ai/ag2#3080"
export const kind = "history at a provider"
export const why =
  "With store: false the reasoning of the first step returns with its encrypted content, and it is asked for."
export const right = { store: false, include: ["reasoning.encrypted_content"], reasoning: "ENC" }
export default async (lib) => {
  const { go } = lib
  const { agent, handlers } = lib.tool((S) => S.Struct({}))
  const reply = (output) => ({
    json: { id: "r", created_at: 1, model: "m", output, usage: { input_tokens: 1, output_tokens: 1 } }
  })
  const r = await go({
    wire: "responses",
    agent,
    handlers,
    replies: (b, n) =>
      n === 0
        ? reply([
            { type: "reasoning", id: "rs", summary: [], encrypted_content: "ENC" },
            { type: "function_call", id: "fc", call_id: "c", name: "t", arguments: "{}", status: "completed" }
          ])
        : reply([
            {
              type: "message",
              id: "m",
              role: "assistant",
              content: [{ type: "output_text", text: "done", annotations: [] }]
            }
          ])
  })
  return {
    store: r.bodies[1].store,
    include: r.bodies[1].include,
    reasoning: r.bodies[1].input.find((i) => i.type === "reasoning")?.encrypted_content
  }
}
