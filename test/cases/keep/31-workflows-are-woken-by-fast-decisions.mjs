// Effect-TS/effect#8238 (2026-09) and #6318 (2026-07): a workflow that was started with `discard` stays suspended for ever where the deferred is done around the moment of
// its suspension. pydantic/pydantic-ai#5536: an approval of a durable run is not bound to what was shown.
// Right: 20 workflows with an agent that needs two approvals in a row, decided at once (inside and right behind `onApproval`), on the cluster engine over SQLite:
// all complete; each tool ran once.
import { NodeCrypto } from "@effect/platform-node"
import { Effect, Layer, Schema, Queue } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { ClusterWorkflowEngine, SingleRunner } from "effect/cluster"
import { Workflow } from "effect/workflow"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Agent } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Activities } from "effect-emissary/workflow"
import { ScriptedModel } from "effect-emissary/testing"
import { same, holds } from "../harness/keep.mjs"

const Tools = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({ k: Schema.String }), success: Schema.String, needsApproval: true })
)
const ran = new Map()
const agent = Agent.make("clerk", { toolkit: Tools })
const Flow = Workflow.make("Flow", {
  payload: { id: Schema.String, inside: Schema.Boolean },
  success: Schema.String,
  idempotencyKey: ({ id }) => id
})
const asked = Effect.runSync(Queue.unbounded())
const ended = Effect.runSync(Queue.unbounded())
const flows = Flow.toLayer(({ id, inside }) =>
  agent.ask(id).pipe(
    Effect.provide(
      Activities.layer({
        onApproval: (pending) =>
          inside
            ? Effect.orDie(Activities.decide(pending.token, { ...pending.request, approved: true }))
            : Queue.offer(asked, pending)
      })
    ),
    Effect.orDie,
    Effect.tap(() => Queue.offer(ended, id))
  )
)
const script = (r) => {
  const id = r.messages.find((m) => m.role === "user").text
  const n = r.messages.filter((m) => m.role === "tool").length
  return n < 2 ? { toolCalls: [{ id: `c${n}`, name: "pay", params: { k: `${id}/${n}` } }] } : { text: `${id} done` }
}
const filename = join(mkdtempSync(join(tmpdir(), "case31-")), "w.sqlite")
const engine = ClusterWorkflowEngine.layer.pipe(
  Layer.provide(SingleRunner.layer()),
  Layer.provide([SqliteClient.layer({ filename }), NodeCrypto.layerDigest])
)
const ids = Array.from({ length: 20 }, (_, i) => `w${i}`)
const program = Effect.gen(function* () {
  yield* Effect.forkChild(
    Effect.forever(
      Effect.flatMap(Queue.take(asked), (p) =>
        Effect.orDie(Activities.decide(p.token, { ...p.request, approved: true }))
      )
    )
  )
  yield* Effect.forEach(ids, (id, i) => Flow.execute({ id, inside: i % 2 === 0 }, { discard: true }), {
    concurrency: 5
  })
  const done = yield* Effect.forEach(ids, () => Queue.take(ended)).pipe(Effect.timeoutOption("40 seconds"))
  holds("all end within 40 seconds", done._tag === "Some", { ran: ran.size })
  same("each tool ran once", [...ran.values()].filter((n) => n !== 1).length, 0)
  same("calls", ran.size, 40)
})
export default program.pipe(
  Effect.provide(
    flows.pipe(
      Layer.provide([
        Tools.toLayer({
          pay: ({ k }) =>
            Effect.sync(() => {
              ran.set(k, (ran.get(k) ?? 0) + 1)
              return "paid"
            })
        }),
        ScriptedModel.layer(script)
      ]),
      Layer.provideMerge(engine)
    )
  )
)
