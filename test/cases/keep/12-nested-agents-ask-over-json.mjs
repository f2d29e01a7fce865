// openai/openai-agents-python#2487 (2026-02): an agent that is a tool asks again for ever after its state went through JSON.
// Also mastra-ai/mastra#24581 (2026-09): several sub-agents that wait are answered together and only one goes on.
// Right: three levels of agents, two sub-agents at once; each asks once; decided together they all complete; each tool runs once.
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ to: Schema.String }), success: Schema.String, needsApproval: true })
)
const ran = []
const Live = Tools.toLayer({
  pay: ({ to }) =>
    Effect.sync(() => {
      ran.push(to)
      return `paid ${to}`
    })
})
const payer = Agent.make("payer", { instructions: "PAYER", toolkit: Tools })
const desk = Agent.make("desk", {
  instructions: "DESK",
  toolkit: [Agent.asTool(payer, { name: "ask_payer", description: "pays" })]
})
const boss = Agent.make("boss", {
  instructions: "BOSS",
  toolkit: [Agent.asTool(desk, { name: "ask_desk", description: "desk" })]
})
const script = (r) => {
  const system = r.messages.find((m) => m.role === "system").text
  const user = r.messages.find((m) => m.role === "user").text
  const last = r.messages.at(-1)
  if (last.role === "tool") return { text: last.toolResults.map((t) => t.text).join(" & ") }
  if (system.includes("BOSS"))
    return { toolCalls: ["ada", "bob"].map((to) => ({ name: "ask_desk", params: { input: to } })) }
  if (system.includes("DESK")) return { toolCalls: [{ name: "ask_payer", params: { input: user } }] }
  return { toolCalls: [{ name: "pay", params: { to: user } }] }
}
const program = (runtime) =>
  Effect.gen(function* () {
    ran.length = 0
    const waiting = yield* boss.run("pay both")
    same("waits", waiting.outcome, "AwaitingApproval")
    same(
      "both ask",
      waiting.requests.map((r) => r.arguments.to),
      ["ada", "bob"]
    )
    const state = yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(waiting.state))
    const done = yield* boss.resume(state, { decisions: waiting.requests.filter(Run.isApprovable).map(Run.approve) })
    same("outcome", done.outcome, "Completed")
    same("ran", ran.toSorted(), ["ada", "bob"])
    same("text", done.text, "paid ada & paid bob")
  }).pipe(Effect.provide([Live, runtime, ScriptedModel.layer(script)]))
export default Effect.andThen(
  program(ToolRuntime.layerConcurrent()),
  program(ToolRuntime.layerConcurrent({ maxConcurrency: 1 }))
)
