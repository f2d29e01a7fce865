// Effect-TS/effect#8130 (2026-09): interrupted activities leave a count behind, and a later durable wait of the same workflow blocks for ever. #7351 (2026-08): an interruption is forgotten by the replay.
// Right: in one body a run is cut off by its time limit while a tool hangs and the model streams, then a second run waits for an approval: the workflow suspends, is woken by the decision and ends.
import { NodeCrypto } from "@effect/platform-node"
import { Effect, Layer, Schema, Queue, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { ClusterWorkflowEngine, SingleRunner } from "effect/cluster"
import { Workflow, WorkflowEngine } from "effect/workflow"
import { Agent, ToolRuntime } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Activities } from "effect-emissary/workflow"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("hang", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("look", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
)
const ran = []
const Live = Tools.toLayer({
  hang: () =>
    Effect.andThen(
      Effect.sync(() => ran.push("hang")),
      Effect.never
    ),
  look: () =>
    Effect.sync(() => {
      ran.push("look")
      return "seen"
    }),
  pay: () =>
    Effect.sync(() => {
      ran.push("pay")
      return "paid"
    })
})
const agent = Agent.make("clerk", { toolkit: Tools })
const Flow = Workflow.make("Flow", {
  payload: { id: Schema.String },
  success: Schema.String,
  idempotencyKey: ({ id }) => id
})
const script = (r) => {
  const user = r.messages.findLast((m) => m.role === "user").text
  if (user.includes("slow")) return { text: "abc".repeat(100), chunkDelay: 30 }
  if (r.messages.at(-1).role === "tool") return { text: `end ${r.messages.at(-1).text}` }
  return user.includes("pay")
    ? {
        toolCalls: [
          { name: "pay", params: {} },
          { name: "look", params: {} }
        ]
      }
    : {
        toolCalls: [
          { name: "hang", params: {} },
          { name: "look", params: {} }
        ]
      }
}
const once = (name, engine) => {
  const asked = Effect.runSync(Queue.unbounded())
  ran.length = 0
  const flow = Flow.toLayer(() =>
    Effect.gen(function* () {
      const one = yield* agent.run("hang", { timeouts: { total: 300 } })
      const streamed = [...(yield* Stream.runCollect(agent.stream("slow", { timeouts: { total: 300 } })))].at(-1).result
      const two = yield* agent.run("pay")
      return `${one.outcome} ${streamed.outcome} ${two.outcome} ${two.text}`
    }).pipe(
      Effect.provide(ToolRuntime.layerConcurrent()),
      Effect.provide(Activities.layer({ onApproval: (p) => Queue.offer(asked, p) })),
      Effect.orDie
    )
  )
  return Effect.gen(function* () {
    yield* Effect.forkChild(
      Effect.forever(
        Effect.flatMap(Queue.take(asked), (p) =>
          Effect.andThen(Effect.sleep(300), Effect.orDie(Activities.decide(p.token, { ...p.request, approved: true })))
        )
      )
    )
    const out = yield* Flow.execute({ id: "1" }).pipe(Effect.timeoutOption("20 seconds"))
    holds(`${name} ends`, out._tag === "Some", "still suspended after 20 s")
    if (out._tag === "Some")
      holds(`${name} result`, out.value.startsWith("Interrupted Interrupted Completed end paid"), out.value)
    same(`${name} pay ran once`, ran.filter((r) => r === "pay").length, 1)
    same(`${name} hang ran once`, ran.filter((r) => r === "hang").length, 1)
  }).pipe(Effect.provide(flow.pipe(Layer.provide([Live, ScriptedModel.layer(script)]), Layer.provideMerge(engine))))
}
export default Effect.gen(function* () {
  yield* once("memory", Layer.fresh(WorkflowEngine.layerMemory))
  yield* once(
    "cluster",
    ClusterWorkflowEngine.layer.pipe(
      Layer.provide(SingleRunner.layer()),
      Layer.provide([SqliteClient.layer({ filename: ":memory:" }), NodeCrypto.layerDigest])
    )
  )
})
