export const source = "crmne/ruby_llm#508, #644"
export const kind = "arguments"
export const why =
  "A model adds a parameter that the tool does not have. The handler does not see it, and the call runs."
export const right = { ran: [{ q: "a" }] }
export default async (lib) => {
  const { go, completion, textWhole } = lib
  const { agent, handlers, ran } = lib.tool((S) => S.Struct({ q: S.String }))
  await go({
    wire: "chat",
    agent,
    handlers,
    replies: (b, n) =>
      n === 0
        ? {
            json: completion(
              {
                content: null,
                tool_calls: [
                  {
                    id: "c",
                    type: "function",
                    function: { name: "t", arguments: JSON.stringify({ q: "a", advisor: 1 }) }
                  }
                ]
              },
              "tool_calls"
            )
          }
        : textWhole("done")
  })
  return { ran }
}
