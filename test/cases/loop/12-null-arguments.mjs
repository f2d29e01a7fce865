export const source = "mastra-ai/mastra#10031, crmne/ruby_llm#384"
export const kind = "arguments"
export const why =
  'The arguments are the text "null". The call ran with {}, so the history shows {} too, and not a call that was invalid.'
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
              {
                content: null,
                tool_calls: [{ id: "c", type: "function", function: { name: "t", arguments: "null" } }]
              },
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
