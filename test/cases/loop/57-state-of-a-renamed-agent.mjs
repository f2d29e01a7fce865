export const source = "openai/openai-agents-python#4264"
export const kind = "serialization"
export const why =
  "A stored state names an agent that was renamed since. It is refused by name, and nothing runs under the new one."
export const right = { tag: "AgentError", paid: [] }
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
  const e = await run(
    Agent.make("renamed", { toolkit: kit }).resume(waiting.state, {
      decisions: waiting.requests.map((r) => ({ ...r, approved: true }))
    }),
    [{ text: "ok" }]
  )
  return { tag: e._tag === "Success" ? "Success" : e.cause.reasons[0].error?._tag, paid }
}
