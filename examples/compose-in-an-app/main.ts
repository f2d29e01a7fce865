/**
 * An agent inside an application.
 *
 * The agent is a service like any other: a route of an HTTP server runs `yield* Support`, the handlers of its tools use
 * the repository of the application, and the model, the tools and the way tools run come from layers. The types of the
 * layers show what is missing.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Config, Console, Context, Effect, Layer, Schema } from "effect"
import { Agent, RunContext, ToolFailure, ToolRuntime } from "effect-emissary"
import { ScriptedModel } from "effect-emissary/testing"

import { Tool, Toolkit } from "effect/ai"
import { HttpClient, HttpClientRequest, HttpRouter, HttpServerRequest, HttpServerResponse } from "effect/http"

/** A service of the application, there without any agent. */
class Orders extends Context.Service<
  Orders,
  { readonly status: (customer: string, id: string) => Effect.Effect<string, ToolFailure> }
>()("app/Orders") {
  static readonly layer = Layer.succeed(
    Orders,
    Orders.of({
      status: (customer, id) =>
        customer === "ada" && id === "42"
          ? Effect.succeed("shipped")
          : Effect.fail(ToolFailure.error(`${customer} has no order ${id}`, { type: "not_found" }))
    })
  )
}

const OrderTools = Toolkit.make(
  Tool.make("order_status", {
    description: "The status of an order of the current customer",
    parameters: Schema.Struct({ id: Schema.String }),
    success: Schema.String,
    failure: Schema.Union([ToolFailure, RunContext.RunContextError])
  })
)

/** The customer comes from the run, never from the model. */
const Customer = Schema.Struct({ customer: Schema.String })

const orderToolsLayer = OrderTools.toLayer(
  Effect.gen(function* () {
    const orders = yield* Orders
    return OrderTools.of({
      order_status: Effect.fn(function* ({ id }) {
        const { customer } = yield* RunContext.read(Customer)
        return yield* orders.status(customer, id)
      })
    })
  })
)

class Support extends Agent.Service<Support>()("support", {
  instructions: Config.String("SHOP_NAME").pipe(
    Config.withDefault("our shop"),
    Effect.map((shop) => `You help customers of ${shop}.`)
  ),
  toolkit: OrderTools
}) {}

const Question = Schema.Struct({ customer: Schema.String, question: Schema.String })

const routes = HttpRouter.add(
  "POST",
  "/ask",
  Effect.gen(function* () {
    const support = yield* Support
    const { customer, question } = yield* HttpServerRequest.schemaBodyJson(Question)
    const answer = yield* support.ask(question, { context: { customer } })
    return yield* HttpServerResponse.json({ answer })
  })
)

const modelLayer = ScriptedModel.layer([
  { toolCalls: [{ name: "order_status", params: { id: "42" } }] },
  { text: "Order 42 has been shipped.", expect: { toolResult: "shipped" } },
  { toolCalls: [{ name: "order_status", params: { id: "42" } }] },
  { text: "I find no order 42 of yours.", expect: { toolResult: "grace has no order 42" } }
])

/** The one place that decides which model it is, and how tools run. */
const appLayer = HttpRouter.serve(routes, { disableLogger: true, disableListenLog: true }).pipe(
  Layer.provide(Support.layer),
  Layer.provide(orderToolsLayer),
  Layer.provide([Orders.layer, modelLayer, ToolRuntime.layerConcurrent({ maxConcurrency: 3 })])
)

const ask = Effect.fn(function* (customer: string) {
  const request = HttpClientRequest.post("/ask").pipe(
    HttpClientRequest.bodyJsonUnsafe({ customer, question: "Where is order 42?" })
  )
  const response = yield* HttpClient.execute(request)
  yield* Console.log(`${customer}: ${response.status} ${yield* response.text}`)
})

const program = Effect.andThen(ask("ada"), ask("grace"))

// NodeHttpServer.layerTest serves on a free port, and its client knows where
program.pipe(Effect.provide(Layer.provideMerge(appLayer, NodeHttpServer.layerTest)), NodeRuntime.runMain)
