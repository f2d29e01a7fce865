// openai/openai-agents-js#1435 (2026-07): a streamed run that is resumed for a second approval sends the result of the first one again.
// Right: in every request each call has exactly one result, right behind its answer; streamed and whole, over JSON.
import { Effect, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Run } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"
import { same } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("ping", {
    parameters: Schema.Struct({ host: Schema.String }),
    success: Schema.String,
    needsApproval: true
  }),
  Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String })
)
const Live = Tools.toLayer({ ping: ({ host }) => Effect.succeed(`pong ${host}`), look: () => Effect.succeed("seen") })
const agent = Agent.make("ops", { toolkit: Tools })
const requests = []
const answers = [
  { toolCalls: [{ id: "p1", name: "ping", params: { host: "a" } }] },
  { toolCalls: [{ id: "l1", name: "look", params: {} }] },
  { toolCalls: [{ id: "p2", name: "ping", params: { host: "b" } }] },
  { text: "all up" }
]
const last = (stream) => Effect.map(Stream.runCollect(stream), (all) => [...all].at(-1).result)
const copy = (state) => Effect.flatMap(Run.stateCodec.encodeJson(state), Run.stateCodec.decodeJson)
const program = (how) =>
  Effect.gen(function* () {
    requests.length = 0
    let result = yield* how === "stream" ? last(agent.stream("check")) : agent.run("check")
    let asked = 0
    while (result.outcome === "AwaitingApproval" && asked < 5) {
      asked++
      const options = { decisions: result.requests.filter(Run.isApprovable).map(Run.approve) }
      const state = yield* copy(result.state)
      result = yield* how === "stream" ? last(agent.resumeStream(state, options)) : agent.resume(state, options)
    }
    same(`${how} asked`, asked, 2)
    same(`${how} outcome`, result.outcome, "Completed")
    same(`${how} requests`, requests.length, 4)
    for (const [i, r] of requests.entries()) {
      const results = r.messages.flatMap((m) => (m.toolResults ?? []).map((t) => t.id))
      same(`${how} results of request ${i}`, results, ["p1", "l1", "p2"].slice(0, i))
    }
  }).pipe(
    Effect.provide([
      Live,
      ScriptedModel.layer((r) => {
        requests.push(r)
        return answers[requests.length - 1]
      })
    ])
  )
export default Effect.andThen(program("run"), program("stream"))
