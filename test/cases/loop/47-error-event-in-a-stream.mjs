export const source = "farzaa/clicky#132"
export const kind = "provider error"
export const why =
  "Anthropic answers 200, writes a part of the text, and then an error event. It is an error that can be tried again, and not an answer."
export const right = { outcome: "InternalProviderError", retryable: true, again: "done" }
export default async (lib) => {
  const { go, outcome } = lib
  const ev = (data) => ({ event: data.type, data })
  const start = ev({
    type: "message_start",
    message: {
      id: "m",
      type: "message",
      role: "assistant",
      model: "c",
      content: [],
      stop_reason: null,
      stop_sequence: null,
      usage: { input_tokens: 1, output_tokens: 1 }
    }
  })
  const text = (t) => [
    ev({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
    ev({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: t } }),
    ev({ type: "content_block_stop", index: 0 })
  ]
  const end = (reason) => [
    ev({ type: "message_delta", delta: { stop_reason: reason, stop_sequence: null }, usage: { output_tokens: 5 } }),
    ev({ type: "message_stop" })
  ]
  const cut = {
    wire: "anthropic",
    sse: [
      start,
      ...text("Par").slice(0, 2),
      ev({ type: "error", error: { type: "overloaded_error", message: "Overloaded" } })
    ]
  }
  const done = { wire: "anthropic", sse: [start, ...text("done"), ...end("end_turn")] }
  const r = await go({
    wire: "anthropic",
    agent: lib.Agent.make("a"),
    stream: true,
    replies: () => cut,
    options: { retry: { times: 0 } }
  })
  const again = await go({
    wire: "anthropic",
    agent: lib.Agent.make("a"),
    stream: true,
    replies: (b, n) => (n === 0 ? cut : done),
    options: { retry: { times: 1, delay: 0 } }
  })
  return { outcome: outcome(r), retryable: r.retryable, again: again.text }
}
