// langchain-ai/langgraph#6533: two tools of one answer each ask a person; the answers reach the wrong tool.
// Right: each decision reaches the call that it names, whatever the order of the decisions, over JSON of the state.
import { Effect, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const names = ["a", "b", "c"]
const Tools = Toolkit.make(
  ...names.map((n) =>
    Tool.make(`tool_${n}`, {
      parameters: Schema.Struct({ v: Schema.String }),
      success: Schema.String,
      needsApproval: true
    })
  )
)
const ran = []
const Live = Tools.toLayer(
  Object.fromEntries(
    names.map((n) => [
      `tool_${n}`,
      ({ v }) =>
        Effect.sync(() => {
          ran.push([n, v])
          return `${n}:${v}`
        })
    ])
  )
)
const agent = Agent.make("clerk", { toolkit: Tools })
let sent
const program = Effect.gen(function* () {
  const waiting = yield* agent.run("go")
  const state = yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(waiting.state))
  // the answers come in the reverse order, and the middle one is refused with a reason
  const decisions = [...waiting.requests]
    .reverse()
    .map((r) => (r.name === "tool_b" ? { ...r, approved: false, reason: "not b" } : { ...r, approved: true }))
  const done = yield* agent.resume(state, { decisions })
  same("outcome", done.outcome, "Completed")
  same("ran", ran.toSorted(), [
    ["a", "1"],
    ["c", "3"]
  ])
  const results = sent.messages.at(-1).toolResults
  same(
    "order of results",
    results.map((r) => r.name),
    ["tool_a", "tool_b", "tool_c"]
  )
  same("result a", results[0].text, "a:1")
  same("b is a failure", results[1].isFailure, true)
  same("the reason reaches the model", results[1].text.includes("not b"), true)
  same("result c", results[2].text, "c:3")
})
export default Effect.provide(program, [
  Live,
  ToolRuntime.layerConcurrent(),
  ScriptedModel.layer([
    {
      toolCalls: [
        { name: "tool_a", params: { v: "1" } },
        { name: "tool_b", params: { v: "2" } },
        { name: "tool_c", params: { v: "3" } }
      ]
    },
    (request) => {
      sent = request
      return { text: "done" }
    }
  ])
])
