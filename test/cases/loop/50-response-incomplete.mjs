export const source = "openclaw/openclaw#108958"
export const kind = "finish reason"
export const why = "response.incomplete with max_output_tokens is no complete answer."
export const right = { outcome: "Stopped" }
export default async (lib) => {
  const { go, outcome } = lib
  const r = await go({
    wire: "responses",
    agent: lib.Agent.make("a"),
    stream: true,
    replies: () => ({
      done: false,
      sse: [
        { type: "response.created", response: { id: "r", created_at: 1, model: "m", service_tier: null } },
        { type: "response.output_item.added", output_index: 0, item: { type: "message", id: "m" } },
        { type: "response.output_text.delta", item_id: "m", output_index: 0, content_index: 0, delta: "Par" },
        {
          type: "response.incomplete",
          response: {
            incomplete_details: { reason: "max_output_tokens" },
            usage: { input_tokens: 1, output_tokens: 1 }
          }
        }
      ]
    })
  })
  return { outcome: outcome(r) }
}
