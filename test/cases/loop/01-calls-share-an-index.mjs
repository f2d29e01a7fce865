export const source = "apache/maka#1976, vercel/ai#14277"
export const kind = "stream of tool calls"
export const why = "A gateway gives two calls of one answer the index 0. They are two calls, with their own ids."
export const right = { outcome: "Completed", ran: [{ path: "a" }, { path: "b" }] }
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
              chunk({ tool_calls: [tc({})] }),
              chunk({ tool_calls: [tc({ id: "call_b", function: { name: "t", arguments: '{"path":"b"}' } })] }),
              chunk({}, "tool_calls")
            ]
          }
        : textStream("done")
  })
  return { outcome: outcome(r), ran }
}
