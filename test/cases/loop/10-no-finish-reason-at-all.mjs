export const source = "openclaw/openclaw#97994 (PR 98575), OpenRouterTeam/ai-sdk-provider#420"
export const kind = "finish reason"
export const why =
  "A provider never sends a finish reason, but ends the stream with [DONE]. Streamed and whole answers have the same outcome (docs/models.md: an answer is the same whether streamed or not). Peers differ on which: run the call, or refuse the answer."
export const right = { same: true }
export default async (lib) => {
  const { go, chunk, completion, textStream, textWhole, outcome } = lib
  const call = { id: "c", type: "function", function: { name: "t", arguments: "{}" } }
  const got = []
  for (const stream of [false, true]) {
    const { agent, handlers } = lib.tool((S) => S.Struct({}))
    const r = await go({
      wire: "compat",
      agent,
      handlers,
      stream,
      replies: (b, n) =>
        n > 0
          ? stream
            ? textStream("done")
            : textWhole("done")
          : stream
            ? { sse: [chunk({ tool_calls: [{ index: 0, ...call }] })] }
            : { json: completion({ content: null, tool_calls: [call] }, null) }
    })
    got.push(outcome(r))
  }
  return { same: got[0] === got[1], ...(got[0] === got[1] ? {} : { got }) }
}
