export const source = "google/adk-python#2289 (issue 1532)"
export const kind = "empty answer"
export const why =
  "A model streams a call with an empty name. Nothing was answered, so the run may not be Completed with an empty text: the model is asked again, or the run fails by name."
export const right = { completedWithNothing: false, ran: [] }
export default async (lib) => {
  const tc = (o) => ({
    index: 0,
    id: "call_a",
    type: "function",
    function: { name: "t", arguments: '{"path":"a"}' },
    ...o
  })
  const { go, chunk, textStream } = lib
  const { agent, handlers, ran } = lib.tool((S) => S.Struct({ path: S.String }))
  const r = await go({
    wire: "compat",
    agent,
    handlers,
    stream: true,
    replies: (b, n) =>
      n === 0
        ? { sse: [chunk({ tool_calls: [tc({ function: { name: "", arguments: "{}" } })] }), chunk({}, "tool_calls")] }
        : textStream("done")
  })
  return { completedWithNothing: r.outcome === "Completed" && r.text === "", ran }
}
