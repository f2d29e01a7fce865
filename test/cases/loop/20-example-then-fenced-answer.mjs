export const source = "brother of HKUDS/DeepTutor#673 (ours)"
export const kind = "structured output"
export const why =
  "A model shows an example in prose and then its answer in the one fence of the text. The fence is the answer."
export const right = { output: { n: 1 } }
export default async (lib) => {
  const { go, textWhole, Schema, Agent } = lib
  const agent = Agent.make("a", { output: Schema.Struct({ n: Schema.Finite, s: Schema.optionalKey(Schema.String) }) })
  const r = await go({
    wire: "compat",
    sdk: (u) => lib.models.compat(u, { supportsStructuredOutputs: true }),
    agent,
    replies: (b, n) =>
      n === 0 ? textWhole('A valid answer looks like {"n": 0}. Mine:\n```json\n{"n":1}\n```') : textWhole('{"n":1}')
  })
  return { output: r.output ?? r.outcome ?? r.reason }
}
