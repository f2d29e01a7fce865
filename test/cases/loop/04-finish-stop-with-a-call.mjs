export const source = "anomalyco/opencode#14972, #20719"
export const kind = "finish reason"
export const why = 'LiteLLM and Gemini say "stop" beside a call. The call runs and the loop goes on.'
export const right = { outcome: "Completed", ran: [{ path: "a" }] }
export default async (lib) => {
  const tc = (o) => ({
    index: 0,
    id: "call_a",
    type: "function",
    function: { name: "t", arguments: '{"path":"a"}' },
    ...o
  })
  const { go, chunk, textStream, outcome } = lib
  const { agent, handlers, ran } = lib.tool((S) => S.Struct({ path: S.String }))
  const r = await go({
    wire: "compat",
    agent,
    handlers,
    stream: true,
    replies: (b, n) => (n === 0 ? { sse: [chunk({ tool_calls: [tc({})] }), chunk({}, "stop")] } : textStream("done"))
  })
  return { outcome: outcome(r), ran }
}
