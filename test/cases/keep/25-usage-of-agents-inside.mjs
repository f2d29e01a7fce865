// jin-bo/agentao PR 305 (2026-09), kagent-dev/kagent#946, anthropics/claude-code#55121 (2026-04): tokens of sub-agents are missing in the total of the run, above
// all where the sub-agent failed or was cancelled. ccusage#950: or they count twice.
// Right: the usage of the outer run is the sum of all model calls that were answered: sub-agent completes, fails (model error after one call), ends by its
// limit of steps, is cut off by a time limit, waits for an approval and is resumed over JSON.
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true }),
  Tool.make("hang", { parameters: Schema.Struct({}), success: Schema.String })
)
const usage = { inputTokens: 100, outputTokens: 10 }
const once = (name, tool, second, options) => {
  let answered = 0
  const inner = Agent.make("inner", { instructions: "INNER", toolkit: Tools, maxSteps: options?.innerSteps ?? 5 })
  const outer = Agent.make("outer", {
    instructions: "OUTER",
    toolkit: [Agent.asTool(inner, { name: "ask", description: "d" })]
  })
  const script = (r) => {
    const turn = r.messages[0].text.includes("OUTER")
      ? r.messages.at(-1).role === "tool"
        ? { text: "end" }
        : { toolCalls: [{ name: "ask", params: { input: "x" } }] }
      : r.messages.at(-1).role === "tool"
        ? second
        : { toolCalls: [{ name: tool, params: {} }] }
    if (turn.fail === undefined) answered++
    return { usage, ...turn }
  }
  return Effect.gen(function* () {
    let result = yield* outer.run("go", options?.run)
    let guard = 0
    while (result.outcome === "AwaitingApproval" && guard++ < 3)
      result = yield* outer.resume(yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(result.state)), {
        decisions: result.requests.filter(Run.isApprovable).map(Run.approve)
      })
    if (result.outcome === "Interrupted") result = yield* outer.resume(result.state)
    same(`${name} outcome`, result.outcome, "Completed")
    same(`${name} tokens`, [result.usage.inputTokens, result.usage.outputTokens], [answered * 100, answered * 10])
  }).pipe(
    Effect.provide([
      Tools.toLayer({
        look: () => Effect.succeed("seen"),
        pay: () => Effect.succeed("paid"),
        hang: () => Effect.never
      }),
      ScriptedModel.layer(script)
    ])
  )
}
export default Effect.gen(function* () {
  yield* once("completes", "look", { text: "inner end" })
  yield* once("fails", "look", { fail: { reason: "ContentPolicyError" } })
  yield* once("limit of steps", "look", { toolCalls: [{ name: "look", params: {} }] }, { innerSteps: 2 })
  yield* once("time limit of the run", "hang", { text: "x" }, { run: { timeouts: { total: 300 } } })
  yield* once("approval", "pay", { text: "inner end" })
})
