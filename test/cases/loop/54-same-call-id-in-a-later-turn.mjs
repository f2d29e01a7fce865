export const source = "microsoft/agent-framework#7304, #6851"
export const kind = "approval"
export const why =
  "A provider uses the call id call_0 in each turn. An approval of the first turn counts once: the second call asks again, and the old decision is refused."
export const right = { again: "AwaitingApproval", old: "unknown", paid: [1] }
export default async (lib) => {
  const { Agent, Tool, Toolkit, Schema, Effect, Layer, Run, ScriptedModel } = lib
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
  const e = await run(
    Effect.gen(function* () {
      const waiting = yield* agent.run("1")
      const decisions = waiting.requests.map((r) => ({ ...r, approved: true }))
      const done = yield* agent.resume(
        yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(waiting.state)),
        { decisions }
      )
      const again = yield* agent.run("2", { conversation: done.conversation })
      const old = yield* Effect.flip(agent.resume(again.state, { decisions }))
      return { again: again.outcome, old: old.reason.problem, paid }
    }),
    [{ toolCalls: [call("call_0", 1)] }, { text: "ok" }, { toolCalls: [call("call_0", 1)] }]
  )
  return e.value
}
