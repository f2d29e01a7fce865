export const source = "odysseus-dev/odysseus#5202"
export const kind = "agent loop"
export const why =
  "A model calls a tool by a name that it guessed. It reads the known names and goes on; the call beside it runs."
export const right = { outcome: "Completed", ran: 1, told: true }
export default async (lib) => {
  const { go, completion, textWhole, outcome } = lib
  const { agent, handlers, ran } = lib.tool((S) => S.Struct({}))
  const call = (id, name) => ({ id, type: "function", function: { name, arguments: "{}" } })
  const r = await go({
    wire: "chat",
    agent,
    handlers,
    replies: (b, n) =>
      n === 0
        ? { json: completion({ content: null, tool_calls: [call("a", "functions.t"), call("b", "t")] }, "tool_calls") }
        : textWhole("done")
  })
  return {
    outcome: outcome(r),
    ran: ran.length,
    told: /Known tools: t/.test(r.bodies[1].messages.find((m) => m.tool_call_id === "a").content)
  }
}
