import { Effect, Layer, Schema } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { Agent, Question, Run, VersionedStore } from "effect-emissary"
import { Session } from "effect-emissary/session"
import { ScriptedModel } from "effect-emissary/testing"
import assert from "node:assert"

const Size = Schema.Literals(["S", "M", "L"])

const AskSize = Question.tool("ask_size", { description: "Ask the user for the size", answer: Size })
const OrderShirt = Tool.make("order_shirt", {
  description: "Order a shirt",
  parameters: Schema.Struct({ size: Size }),
  success: Schema.Struct({ orderId: Schema.String }),
  needsApproval: true
})
const Shop = Toolkit.make(AskSize, OrderShirt)
const ShopLive = Shop.toLayer({
  order_shirt: ({ size }) => Effect.succeed({ orderId: `o-${size}` })
})

const shopper = Agent.make("shopper", {
  instructions: "Ask for the size, then order the shirt.",
  toolkit: Shop,
  output: Schema.Struct({ orderId: Schema.String, size: Size })
})

const Model = ScriptedModel.layer([
  { toolCalls: [{ name: "ask_size", params: { question: "Which size?" } }] },
  { toolCalls: [{ name: "order_shirt", params: { size: "M" } }], expect: { toolResult: "M" } },
  { text: '{ "orderId": "o-M", "size": "M" }', expect: { toolResult: "o-M" } }
])

const program = Effect.gen(function* () {
  const job = { id: "shirt/1", input: "Order a shirt for me" }
  let result = yield* Session.run(shopper, { ...job, ifExists: "resume" })
  while (result.outcome === "AwaitingApproval") {
    for (const request of result.requests) console.log("asked:", request._tag)
    const approvals = result.requests.filter(Run.isApprovable).map(Run.approve)
    const answers = result.requests.filter((it) => it._tag === "Question").map((it) => Run.answer(it, "M"))
    yield* Session.decide(job.id, [...approvals, ...answers])
    result = yield* Session.result(shopper, job.id)
  }
  assert(result.outcome === "Completed", `the job ended with ${result.outcome}`)
  console.log(JSON.stringify(result.output))
})

const Sessions = Session.layer([shopper]).pipe(Layer.provide([VersionedStore.layerMemory, ShopLive, Model]))
await Effect.runPromise(Effect.provide(program, Sessions))
