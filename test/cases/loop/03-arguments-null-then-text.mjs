export const source = "crmne/ruby_llm#507, #587"
export const kind = "stream of tool calls"
export const why = "vLLM starts a call with arguments null and sends the text later."
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
    replies: (b, n) =>
      n === 0
        ? {
            sse: [
              chunk({ tool_calls: [tc({ function: { name: "t", arguments: null } })] }),
              chunk({ tool_calls: [{ index: 0, function: { arguments: '{"path":"a"}' } }] }),
              chunk({}, "tool_calls")
            ]
          }
        : textStream("done")
  })
  return { outcome: outcome(r), ran }
}
