// openai/openai-agents-python PR 2584 (2026-03), langchain-ai/deepagents#694, anomalyco/opencode#37315 (2026-07): one of several parallel sub-agents fails, hangs or is
// cancelled, and the results of the others are lost. Right: with five sub-agents at once (answers, fails, dies, hangs over its time, ends without an answer) the
// model gets five results in call order, each of its kind, and the run goes on.
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, ToolRuntime, ToolSettings } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("die", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("hang", { parameters: Schema.Struct({}), success: Schema.String }).annotate(ToolSettings.Timeout, 100)
)
const sub = (name) => Agent.make(name, { instructions: `I AM ${name}`, toolkit: Tools, maxSteps: 2 })
const names = ["good", "fails", "dies", "hangs", "loops"]
const agent = Agent.make("boss", {
  instructions: "BOSS",
  toolkit: names.map((n) => Agent.asTool(sub(n), { name: n, description: n }))
})
const script = (r) => {
  const system = r.messages[0].text
  const last = r.messages.at(-1)
  if (system === "BOSS")
    return last.role === "tool"
      ? { text: last.toolResults.map((t) => `${t.name}:${t.isFailure}`).join(" ") }
      : { toolCalls: names.map((name) => ({ name, params: { input: "go" } })) }
  if (system.includes("good")) return { text: "fine" }
  if (system.includes("fails")) return { fail: { reason: "AuthenticationError" } }
  if (system.includes("dies"))
    return last.role === "tool" ? { text: "survived" } : { toolCalls: [{ name: "die", params: {} }] }
  if (system.includes("hangs"))
    return last.role === "tool" ? { text: "gave up" } : { toolCalls: [{ name: "hang", params: {} }] }
  return { toolCalls: [{ name: "hang", params: {} }] }
}
const once = (runtime, name) =>
  Effect.gen(function* () {
    const result = yield* agent.run("go")
    same(`${name} text`, result.text, "good:false fails:true dies:false hangs:false loops:true")
  }).pipe(
    Effect.provide([
      runtime,
      Tools.toLayer({ die: () => Effect.die(new Error("boom")), hang: () => Effect.never }),
      ScriptedModel.layer(script)
    ])
  )
export default Effect.andThen(
  once(ToolRuntime.layerConcurrent(), "concurrent"),
  once(ToolRuntime.layerConcurrent({ maxConcurrency: 1 }), "one at a time")
)
