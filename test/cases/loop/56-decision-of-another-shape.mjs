export const source = "openai/openai-agents-python#3337"
export const kind = "approval"
export const why =
  'A decision comes from a form: approved is "true", or the list of decisions is one object. Each is a typed error and nothing runs.'
export const right = { tags: ["AgentError", "AgentError", "AgentError"], paid: [] }
export default async (lib) => {
  const { Agent, Tool, Toolkit, Schema, Effect, Layer, ScriptedModel } = lib
  const kit = Toolkit.make(
    Tool.make("pay", {
      parameters: Schema.Struct({ amount: Schema.Finite }),
      success: Schema.String,
      needsApproval: true
    })
  )
  const agent = Agent.make("clerk", { toolkit: kit })
  const paid = []
  const live = kit.toLayer({
    pay: ({ amount }) =>
      Effect.sync(() => {
        paid.push(amount)
        return `paid ${amount}`
      })
  })
  const call = (id, amount) => ({ id, name: "pay", params: { amount } })
  const run = (effect, script) =>
    Effect.runPromiseExit(effect.pipe(Effect.provide(Layer.mergeAll(live, ScriptedModel.layer(script)))))
  const waiting = (await run(agent.run("1"), [{ toolCalls: [call("c", 1)] }])).value
  const [request] = waiting.requests
  const tags = []
  for (const decisions of [[{ ...request, approved: "true" }], [request.callId], { ...request, approved: true }]) {
    const e = await run(agent.resume(waiting.state, { decisions }), [{ text: "ok" }])
    tags.push(e._tag === "Success" ? "Success" : (e.cause.reasons[0].error?._tag ?? "defect"))
  }
  return { tags, paid }
}
