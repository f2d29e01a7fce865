export const source = "openai/openai-dotnet#267, vespa-engine/vespa#33327, spring-projects/spring-ai#4900"
export const kind = "finish reason"
export const why =
  'Together and others end a good answer with "eos". The call is complete and well formed: it runs, as with "stop".'
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
    replies: (b, n) => (n === 0 ? { sse: [chunk({ tool_calls: [tc({})] }), chunk({}, "eos")] } : textStream("done"))
  })
  return { outcome: outcome(r), ran }
}
