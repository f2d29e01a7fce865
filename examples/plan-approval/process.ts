/** One process: `node process.ts <file>` begins the run, `node process.ts <file> yes|no` decides it. */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Console, Effect, Layer, Option } from "effect"
import { Run } from "effect-emissary"
import { SqliteClient } from "effect-emissary/node"
import { Json } from "effect-emissary/payload"
import { Plan } from "effect-emissary/plan"
import { Session } from "effect-emissary/session"
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

const invoices = Effect.flatMap(plan, (plan) => Plan.bind(plan))
const sessionsLive = Session.layer([invoices]).pipe(
  Layer.provide([SqliteClient.layerStore({ filename }), bankLayer, model])
)

Effect.gen(function* () {
  const id = "invoice/7"
  if (decision === undefined) {
    yield* Console.log("A process begins.")
    yield* Session.turn(id, "a scan of invoice 7")
  }
  const { requests } = Option.getOrThrow(yield* Session.state(id))
  if (decision === undefined) {
    for (const request of requests) {
      yield* Console.log(`May I ${request.name} ${Json.show(request.arguments)}? (asks ${request.path?.join(" > ")})`)
    }
    return
  }
  yield* Console.log(`Another process: ${decision}.`)
  const decide = decision === "yes" ? Run.approve : Run.deny
  const decided = yield* Session.decide(
    id,
    requests.filter(Run.isApprovable).map((request) => decide(request, { decidedBy: "the boss" }))
  )
  const { text } = yield* Session.await(id, decided)
  yield* Console.log(text)
}).pipe(Effect.provide(sessionsLive), NodeRuntime.runMain)
