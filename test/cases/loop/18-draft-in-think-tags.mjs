export const source = "HKUDS/DeepTutor#673, langchain-ai/langchain#35530, garrytan/gbrain#2559"
export const kind = "structured output"
export const why = "A reasoning model writes a draft in think tags and then the answer. The draft is never the output."
export const right = { output: { n: 1 } }
export default async (lib) => {
  const { go, textWhole, Schema, Agent } = lib
  const agent = Agent.make("a", { output: Schema.Struct({ n: Schema.Finite, s: Schema.optionalKey(Schema.String) }) })
  const r = await go({
    wire: "compat",
    sdk: (u) => lib.models.compat(u, { supportsStructuredOutputs: true }),
    agent,
    replies: (b, n) => (n === 0 ? textWhole('<think>\nfirst idea {"n": 5}\n</think>\n{"n":1}') : textWhole('{"n":1}'))
  })
  return { output: r.output ?? r.outcome ?? r.reason }
}
