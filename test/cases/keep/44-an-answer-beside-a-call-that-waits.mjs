// openai/openai-agents-js PR 1768 (2026-08) and PR 450: an answer that holds a final output (or a transfer) beside a call that needs an approval skips the approval, or ends the run before it.
// Right: with an output schema (strategy `tool`, `native`, `prompted`) an answer with both waits for the decision first; the tool runs exactly as decided; then the run ends with an output; the request after it has a result for each call.
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ n: Schema.Finite }), success: Schema.String, needsApproval: true })
)
const Out = Schema.Struct({ ok: Schema.Boolean })
const once = (strategy, approved) => {
  let ran = 0
  const requests = []
  const agent = Agent.make("clerk", { toolkit: Tools, output: Out, outputStrategy: strategy })
  const script = (r) => {
    requests.push(r)
    const own = r.tools.find((t) => t.name !== "pay")?.name
    if (requests.length === 1)
      return own
        ? {
            toolCalls: [
              { name: "pay", params: { n: 1 } },
              { name: own, params: { ok: true } }
            ]
          }
        : { text: '{"ok":true}', toolCalls: [{ name: "pay", params: { n: 1 } }] }
    return own ? { toolCalls: [{ name: own, params: { ok: false } }] } : { text: '{"ok":false}' }
  }
  return Effect.gen(function* () {
    const waiting = yield* agent.run("pay")
    same(`${strategy} waits first`, [waiting.outcome, ran], ["AwaitingApproval", 0])
    if (waiting.outcome !== "AwaitingApproval") return
    const state = yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(waiting.state))
    const done = yield* agent.resume(state, { decisions: waiting.requests.map((r) => ({ ...r, approved })) })
    same(`${strategy} ${approved} outcome`, done.outcome, "Completed")
    same(`${strategy} ${approved} ran`, ran, approved ? 1 : 0)
    holds(`${strategy} ${approved} output`, typeof done.output?.ok === "boolean", done.output)
    for (const r of requests.slice(1)) {
      const calls = r.messages.flatMap((m) => m.toolCalls?.map((c) => c.id) ?? [])
      const results = r.messages.flatMap((m) => m.toolResults?.map((c) => c.id) ?? [])
      same(`${strategy} ${approved} pairs`, results, calls)
    }
  }).pipe(
    Effect.provide([
      Tools.toLayer({
        pay: () =>
          Effect.sync(() => {
            ran++
            return "paid"
          })
      }),
      ScriptedModel.layer(script)
    ])
  )
}
export default Effect.gen(function* () {
  for (const s of ["tool", "native", "prompted"]) for (const a of [true, false]) yield* once(s, a)
})
