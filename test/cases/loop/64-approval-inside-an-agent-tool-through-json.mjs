export const source = "openai/openai-agents-python#2487 (PR 2500)"
export const kind = "serialization"
export const why =
  "A call inside an agent that is a tool waits for an approval. The state is JSON in between; the approval counts once and the outer run ends."
export const right = { waiting: "AwaitingApproval", end: "Completed", paid: [1] }
export default async (lib) => {
  const { Agent, Tool, Toolkit, Schema, Effect, Layer, Run, ScriptedModel } = lib
  const kit = Toolkit.make(
    Tool.make("pay", {
      parameters: Schema.Struct({ amount: Schema.Finite }),
      success: Schema.String,
      needsApproval: true
    })
  )
  const boss = Agent.make("boss", {
    toolkit: Toolkit.make(Agent.asTool(Agent.make("clerk", { toolkit: kit }), { name: "ask_clerk", description: "d" }))
  })
  const paid = []
  const live = kit.toLayer({
    pay: ({ amount }) =>
      Effect.sync(() => {
        paid.push(amount)
        return "paid"
      })
  })
  const model = ScriptedModel.layer([
    { toolCalls: [{ id: "b1", name: "ask_clerk", params: { input: "pay 1" } }] },
    { toolCalls: [{ id: "c", name: "pay", params: { amount: 1 } }] },
    { text: "clerk done" },
    { text: "boss done" }
  ])
  return await Effect.runPromise(
    Effect.gen(function* () {
      const waiting = yield* boss.run("go")
      const state = yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(waiting.state))
      const end = yield* boss.resume(state, { decisions: waiting.requests.map((r) => ({ ...r, approved: true })) })
      return { waiting: waiting.outcome, end: end.outcome, paid }
    }).pipe(Effect.provide(Layer.mergeAll(live, model)))
  )
}
