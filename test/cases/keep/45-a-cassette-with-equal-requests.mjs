// anomalyco/opencode PR 26792 (2026-05): a recording that is matched by content answers the second of two equal requests with the first answer, so a test passes while it records and fails (or lies) when it replays.
// Right: two equal requests replay their two answers in order; requests of parallel sub-agents replay in any order; one request more than was recorded fails.
import { Effect, FileSystem, Layer, Stream } from "effect"
import { Agent, ToolRuntime } from "effect-emissary"
import { ModelCassette, ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

const stored = new Map()
const files = FileSystem.layerNoop({
  readFile: (path) => Effect.succeed(new TextEncoder().encode(stored.get(path))),
  writeFileString: (path, text) => Effect.sync(() => void stored.set(path, text)),
  exists: (path) => Effect.succeed(stored.has(path))
})
const guide = Agent.make("guide", {})
const sub = Agent.make("sub", { instructions: "SUB" })
const boss = Agent.make("boss", {
  instructions: "BOSS",
  toolkit: [Agent.asTool(sub, { name: "ask", description: "d" })]
})
let n = 0
const real = (delay) =>
  ScriptedModel.layer((r) => {
    const system = r.messages.find((m) => m.role === "system")?.text
    if (system === "SUB") return { text: `sub ${r.messages.at(-1).text}`, delay: delay() }
    if (system === "BOSS")
      return r.messages.at(-1).role === "tool"
        ? { text: r.messages.at(-1).text }
        : { toolCalls: [1, 2, 3, 4].map((i) => ({ name: "ask", params: { input: `q${i}` } })) }
    return { text: `answer ${++n}` }
  })
const record = (path, delay = () => 0) => ModelCassette.layerRecord(path).pipe(Layer.provide([real(delay), files]))
const replay = (path) => ModelCassette.layerReplay(path).pipe(Layer.provide(files))
const twice = Effect.all([guide.ask("Roll a die."), guide.ask("Roll a die.")])
const streamed = Effect.map(Stream.runCollect(guide.stream("Roll a die.")), (all) => [...all].at(-1).result.text)
export default Effect.gen(function* () {
  same("recorded", yield* Effect.provide(twice, record("a.json")), ["answer 1", "answer 2"])
  same("replayed", yield* Effect.provide(twice, replay("a.json")), ["answer 1", "answer 2"])
  const third = yield* Effect.exit(Effect.provide(Effect.all([twice, guide.ask("Roll a die.")]), replay("a.json")))
  holds(
    "a third request fails",
    third._tag === "Failure" && /cassette/.test(String(third.cause)),
    String(third.cause ?? "answered").slice(0, 300)
  )
  n = 0
  same("recorded as streams", yield* Effect.provide(Effect.all([streamed, streamed]), record("b.json")), [
    "answer 1",
    "answer 2"
  ])
  same("replayed as streams", yield* Effect.provide(Effect.all([streamed, streamed]), replay("b.json")), [
    "answer 1",
    "answer 2"
  ])
  const delays = [40, 5, 30, 1]
  let k = 0
  const both = (model, runtime) => boss.ask("go").pipe(Effect.provide([model, runtime]))
  const text = yield* both(
    record("c.json", () => delays[k++ % 4]),
    ToolRuntime.layerConcurrent()
  )
  same("parallel", yield* both(replay("c.json"), ToolRuntime.layerConcurrent()), text)
  same("one at a time", yield* both(replay("c.json"), ToolRuntime.layerConcurrent({ maxConcurrency: 1 })), text)
})
