// can1357/oh-my-pi#2055 (2026-06), NousResearch/hermes-agent#102629 (2026-09) and #70724, QwenLM/qwen-code#5099 and #8382 (2026-08), charmbracelet/crush#3121: a provider gives the same id to two
// calls of one answer, or to a call of each turn (`call_0`, `terminal:0`); results are lost, doubled or matched to the wrong call, or the session stalls.
// Right: each call runs once and has one result; each approval is of its own call; requests and the three formats have unique pairs in each answer; a session goes on for ten turns.
import { Effect, Layer, Schema, Option } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run, VersionedStore, ToolRuntime } from "effect-emissary"
import { OpenAiMessages, OpenAiResponses, AnthropicMessages } from "effect-emissary/interop"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"
import { refusals } from "../harness/rules.mjs"

const Tools = Toolkit.make(
  Tool.make("echo", { parameters: Schema.Struct({ v: Schema.String }), success: Schema.String }),
  Tool.make("pay", { parameters: Schema.Struct({ v: Schema.String }), success: Schema.String, needsApproval: true })
)
const ran = []
const Live = Tools.toLayer({
  echo: ({ v }) =>
    Effect.sync(() => {
      ran.push(v)
      return `e ${v}`
    }),
  pay: ({ v }) =>
    Effect.sync(() => {
      ran.push(v)
      return `p ${v}`
    })
})
const agent = Agent.make("a", { toolkit: Tools })
// 1. the same id in each turn of a session, plain and with approvals
const turns = (tool) => {
  const requests = []
  let n = 0
  const layer = Session.layer([agent]).pipe(
    Layer.provide([
      VersionedStore.layerMemory,
      Live,
      ScriptedModel.layer((r) => {
        requests.push(r)
        return r.messages.at(-1).role === "tool"
          ? { text: "ok" }
          : { toolCalls: [{ id: "call_0", name: tool, params: { v: `${tool}${n++}` } }] }
      })
    ])
  )
  return Effect.gen(function* () {
    const sessions = yield* Session.Session
    ran.length = 0
    for (let i = 0; i < 10; i++) {
      yield* Session.turn("s", `m${i}`)
      if (tool === "pay") {
        const state = Option.getOrThrow(yield* sessions.state("s"))
        same(
          `turn ${i} asks`,
          state.requests.map((r) => r.arguments),
          [{ v: `pay${i}` }]
        )
        yield* sessions.decide("s", state.requests.filter(Run.isApprovable).map(Run.approve))
        yield* Session.await("s", { cursor: state.cursor })
      }
    }
    same(
      `${tool} ran`,
      ran,
      Array.from({ length: 10 }, (_, i) => `${tool}${i}`)
    )
    const history = yield* sessions.history("s")
    for (const [name, f] of [
      ["OpenAI", OpenAiMessages],
      ["Responses", OpenAiResponses],
      ["Anthropic", AnthropicMessages]
    ])
      holds(
        `${tool} ${name}`,
        f.fromConversation(history)._tag === "Success",
        String(f.fromConversation(history).failure)
      )
    same(`${tool} pairs`, refusals(OpenAiMessages.fromConversation(history).success), [])
    const ids = OpenAiResponses.fromConversation(history)
      .success.filter((i) => i.type === "function_call_output")
      .map((i) => i.call_id)
    same(`${tool} ids are unique over the turns, as Responses wants`, new Set(ids).size, 10)
  }).pipe(Effect.provide(layer))
}
// 2. the same id twice in one answer
const twice = (tool, runtime) => {
  let last
  return Effect.gen(function* () {
    ran.length = 0
    let result = yield* agent.run("go")
    if (tool === "pay") {
      same(
        "two requests",
        result.requests?.map((r) => r.arguments.v),
        ["x", "y"]
      )
      result = yield* agent.resume(yield* Run.stateCodec.decodeJson(yield* Run.stateCodec.encodeJson(result.state)), {
        decisions: result.requests.map((r, i) => ({ ...r, approved: i === 0 }))
      })
      same("approved one ran", ran, ["x"])
    } else same(`${tool} both ran`, ran.toSorted(), ["x", "y"])
    same(`${tool} outcome`, result.outcome, "Completed")
    const calls = last.messages.at(-2).toolCalls.map((c) => c.id)
    const results = last.messages.at(-1).toolResults
    same(`${tool} unique ids`, new Set(calls).size, 2)
    same(
      `${tool} pairs`,
      results.map((r) => r.id),
      calls
    )
    holds(
      `${tool} results belong`,
      results[0].text.includes("x") && (tool === "pay" ? results[1].isFailure : results[1].text.includes("y")),
      results
    )
  }).pipe(
    Effect.provide([
      Live,
      runtime,
      ScriptedModel.layer((r) => {
        last = r
        return r.messages.at(-1).role === "tool"
          ? { text: "ok" }
          : {
              toolCalls: [
                { id: "dup", name: tool, params: { v: "x" } },
                { id: "dup", name: tool, params: { v: "y" } }
              ]
            }
      })
    ])
  )
}
export default Effect.gen(function* () {
  yield* turns("echo")
  yield* turns("pay")
  for (const r of [ToolRuntime.layerConcurrent(), ToolRuntime.layerConcurrent({ maxConcurrency: 1 })]) {
    yield* twice("echo", r)
    yield* twice("pay", r)
  }
})
