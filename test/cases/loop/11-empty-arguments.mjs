export const source = "openai/openai-agents-js#664, crmne/ruby_llm#384"
export const kind = "arguments"
export const why = 'A call of a tool without parameters has the arguments "". It runs with {}.'
export const right = { outcome: "Completed", ran: [{}], back: "{}" }
export default async (lib) => {
  const { go, completion, textWhole, outcome } = lib
  const { agent, handlers, ran } = lib.tool((S) => S.Struct({}))
  const r = await go({
    wire: "chat",
    agent,
    handlers,
    replies: (b, n) =>
      n === 0
        ? {
            json: completion(
              { content: null, tool_calls: [{ id: "c", type: "function", function: { name: "t", arguments: "" } }] },
              "tool_calls"
            )
          }
        : textWhole("done")
  })
  return {
    outcome: outcome(r),
    ran,
    back: r.bodies[1].messages.find((m) => m.tool_calls).tool_calls[0].function.arguments
  }
}
