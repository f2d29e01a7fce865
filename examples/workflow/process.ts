/** One process: `node process.ts <file>` starts or resumes the workflow, `node process.ts <file> <pending>` decides before. */
import { NodeCrypto, NodeRuntime } from "@effect/platform-node"
import { Console, Effect, Layer } from "effect"
import { ClusterWorkflowEngine, SingleRunner } from "effect/cluster"
import { Run } from "effect-emissary"
import { Activities } from "effect-emissary/workflow"
import { SqliteClient } from "effect-emissary/node"
import { ScriptedModel } from "effect-emissary/testing"

import { Clerk, Complaint, complaints, Tools } from "./workflow.ts"

const [filename = "", asked] = process.argv.slice(2)

const slowly = (name: string, result: string) =>
  Console.log(`  (${name} begins)`).pipe(
    Effect.andThen(Effect.sleep("300 millis")),
    Effect.andThen(Console.log(`  (${name} ends)`)),
    Effect.as(result)
  )

const handlers = Tools.toLayer({
  get_order: ({ id }) => slowly("get_order", `order ${id}: a lamp, 25 EUR`),
  reserve: ({ id }) => slowly("reserve", `a new lamp for order ${id} is reserved`),
  refund: ({ amount }) => slowly("refund", `${amount} EUR are paid back`)
})

const model = ScriptedModel.layer(({ messages }) => {
  const last = messages.at(-1)?.text ?? ""
  const isFirst = messages.every(({ role }) => role !== "assistant")
  if (isFirst) {
    return {
      toolCalls: [
        { name: "get_order", params: { id: "7" } },
        { name: "reserve", params: { id: "7" } }
      ]
    }
  }
  if (last.includes("paid back")) return { text: "You have your 25 EUR back." }
  // It is not known whether a new lamp was reserved: better to pay the money back
  return { toolCalls: [{ name: "refund", params: { id: "7", amount: 25 } }] }
})

const engine = ClusterWorkflowEngine.layer.pipe(
  Layer.provide(SingleRunner.layer()),
  Layer.provide([SqliteClient.layer({ filename }), NodeCrypto.layerDigest])
)

const program = Effect.gen(function* () {
  if (asked !== undefined) {
    const { request, token }: Activities.Pending = JSON.parse(asked)
    if (Run.isApprovable(request))
      yield* Activities.decide(token, Run.approve(request, { decidedBy: "grace@example.com" }))
  }
  const answer = yield* Complaint.execute({ id: "7", text: "The lamp of order 7 came broken." })
  yield* Console.log(answer)
})

program.pipe(
  Effect.provide(complaints.pipe(Layer.provide(Clerk.layer), Layer.provide([handlers, model]))),
  Effect.provide(engine),
  NodeRuntime.runMain
)
