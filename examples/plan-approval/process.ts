/** One process: `node process.ts <file>` begins the run, `node process.ts <file> yes|no` decides and resumes it. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Layer, Option } from "effect"
import { SqliteClient } from "effect-emissary/node"
import { Json } from "effect-emissary/payload"
import { Checkpoint, Plan, PlanRun } from "effect-emissary/plan"
import { ScriptedModel } from "effect-emissary/testing"

import { Bank, plan } from "./plan.ts"

const [filename = "", decision] = process.argv.slice(2)

const bankLayer = Bank.toLayer({
  pay: ({ amount, invoice }) => Effect.as(Console.log(`  (pays ${amount} for ${invoice})`), "paid")
})

const model = ScriptedModel.layer((request) => {
  const last = request.messages.at(-1)
  if (request.messages[0]?.text.startsWith("What")) return { text: "Invoice 7 over 250 EUR" }
  if (last?.role === "tool")
    return { text: last.text.includes("paid") ? "Invoice 7 is paid." : "Nobody paid invoice 7." }
  return { toolCalls: [{ name: "pay", params: { invoice: "7", amount: 250 } }] }
})

const store = Checkpoint.layer().pipe(Layer.provide(SqliteClient.layerStore({ filename })))

Effect.gen(function* () {
  const checkpoint = yield* Checkpoint.Checkpoint
  const invoice = yield* Plan.bind(yield* plan)
  const key = "invoice/7"
  if (decision === undefined) {
    yield* Console.log("A process begins.")
    const result = yield* checkpoint.run(invoice, { key, input: "a scan of invoice 7" })
    if (result.outcome !== "Paused") return yield* Effect.die(new Error(`expected a pause, found ${result.outcome}`))
    for (const request of result.requests) {
      yield* Console.log(`May I ${request.name} ${Json.show(request.arguments)}? (asks ${request.path?.join(" > ")})`)
    }
    return
  }
  yield* Console.log(`Another process: ${decision}.`)
  const state = Option.getOrThrow(yield* checkpoint.load(invoice, key))
  const decisions = PlanRun.approvalRequests(state).map((request) => ({
    ...request,
    approved: decision === "yes",
    decidedBy: "the boss"
  }))
  const result = yield* checkpoint.resume(invoice, { key, decisions })
  yield* Console.log(result.outcome === "Completed" ? result.text : result.outcome)
}).pipe(Effect.provide([store, bankLayer, model]), NodeRuntime.runMain)
