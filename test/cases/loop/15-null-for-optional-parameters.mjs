export const source = "mastra-ai/mastra#17655, #14476, ZenRows/zenrows-mcp#23"
export const kind = "arguments"
export const why =
  "Models send null for parameters that they leave out. Optional ones are absent then, defaults are filled in, and a nullable one keeps its null."
export const right = { ran: [{ q: "a", nul: null, def: "d" }] }
export default async (lib) => {
  const { go, completion, textWhole, Effect } = lib
  const { agent, handlers, ran } = lib.tool((S) =>
    S.Struct({
      q: S.String,
      min: S.optionalKey(S.Finite),
      nul: S.NullOr(S.String),
      def: S.String.pipe(S.withDecodingDefaultKey(Effect.succeed("d")))
    })
  )
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
                    function: { name: "t", arguments: JSON.stringify({ q: "a", min: null, nul: null, def: null }) }
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
