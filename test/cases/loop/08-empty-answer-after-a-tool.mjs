export const source =
  "google/adk-python#5006, dust-tt/dust#29534, pydantic/pydantic-ai#6403, agentscope-ai/agentscope-java#2755"
export const kind = "empty answer"
export const why =
  'After a tool result the provider ends with no content and "stop". Peers ask again or fail; a Completed run with an empty text hides it from the caller of ask.'
export const right = { completedWithNothing: false }
export default async (lib) => {
  const { go, completion, textWhole } = lib
  const { agent, handlers } = lib.tool((S) => S.Struct({}))
  const r = await go({
    wire: "compat",
    agent,
    handlers,
    replies: (b, n) =>
      n === 0
        ? {
            json: completion(
              { content: null, tool_calls: [{ id: "c", type: "function", function: { name: "t", arguments: "{}" } }] },
              "tool_calls"
            )
          }
        : n === 1
          ? { json: completion({ content: "" }, "stop") }
          : textWhole("done")
  })
  return { completedWithNothing: r.outcome === "Completed" && r.text === "" }
}
