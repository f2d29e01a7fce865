/**
 * The spans of a run, at a collector.
 *
 * A run makes spans as soon as the program has a tracer. `Otlp.layerJson` of `effect/observability` is one: it sends them to
 * any collector. `Telemetry.layerMetrics` adds metrics. The tool server is another service with a tracer of its own, and the
 * spans of its handlers are in the trace of the caller.
 *
 * With OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 the spans go there. Without it a collector in this process draws them.
 */
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Config, Console, Effect, Layer, Option, Redacted, Schema } from "effect"
import { Agent, ModelRegistry, Telemetry, ToolFailure } from "effect-emissary"
import { RemoteTools } from "effect-emissary/tool"
import { ScriptedModel } from "effect-emissary/testing"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import { Otlp } from "effect/observability"
import { createServer } from "node:http"

import * as Collector from "./collector.ts"

const Orders = Toolkit.make(
  Tool.make("find_order", {
    description: "Finds an order",
    parameters: Schema.Struct({ id: Schema.String }),
    success: Schema.String,
    failure: ToolFailure
  })
)

const ordersLayer = Orders.toLayer({
  find_order: Effect.fn("query orders")(function* ({ id }) {
    return id === "42" ? "shipped" : yield* ToolFailure.error(`There is no order ${id}`, { type: "not_found" })
  })
})

class Translator extends Agent.Service<Translator>()("translator", {
  model: "anthropic/claude-sonnet",
  instructions: "Translate into English."
}) {}

class Support extends Agent.Service<Support>()("support", {
  model: "openai/gpt-5.2",
  instructions: "You help customers.",
  toolkit: [Orders.tools.find_order, Agent.asTool(Translator, { name: "translate", description: "Translates" })]
}) {}

/** One script for both agents, in the order in which they ask. */
const modelLayer = ScriptedModel.layer([
  {
    toolCalls: [{ name: "translate", params: { input: "Wo ist Bestellung 42?" } }],
    usage: { inputTokens: 100, outputTokens: 10 }
  },
  { text: "Where is order 42?", usage: { inputTokens: 40, outputTokens: 5 } },
  {
    toolCalls: [
      { name: "find_order", params: { id: "41" } },
      { name: "find_order", params: { id: "42" } }
    ],
    usage: { inputTokens: 120, outputTokens: 20 }
  },
  { text: "Order 42 has been shipped.", usage: { inputTokens: 150, outputTokens: 8 } }
])

/** One on any free port, for each use. */
const server = () => NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })

const options = { disableLogger: true, disableListenLog: true }

const urlOf = Effect.map(HttpServer.HttpServer, ({ address }) =>
  "port" in address ? `http://127.0.0.1:${address.port}` : ""
)

/** The spans of one service, sent to a collector. */
const telemetryLayer = (baseUrl: string, serviceName: string) =>
  Layer.merge(
    Telemetry.layerMetrics,
    Otlp.layerJson({ baseUrl, resource: { serviceName } }).pipe(Layer.provide(FetchHttpClient.layer))
  )

const token = Redacted.make("token of the tool server")

const program = (collector: string) => {
  const orderServer = HttpRouter.serve(RemoteTools.layerServer(Orders, { token }), options).pipe(
    Layer.provide(ordersLayer),
    Layer.provide(telemetryLayer(collector, "orders")),
    Layer.provideMerge(server())
  )
  const remoteOrders = Layer.unwrap(Effect.map(urlOf, (url) => RemoteTools.layerHandlers(Orders, { url, token }))).pipe(
    Layer.provide([FetchHttpClient.layer, orderServer])
  )
  const supportLayer = Support.layer.pipe(
    Layer.provide(Translator.layer),
    Layer.provide(remoteOrders),
    Layer.provide(ModelRegistry.layerContext),
    Layer.provide(modelLayer)
  )
  return Support.use((support) => support.ask("Wo ist Bestellung 42?")).pipe(
    Effect.annotateSpans("gen_ai.conversation.id", "chat_7"),
    Effect.provide(supportLayer),
    // Released last, when all spans have ended
    Effect.provide(telemetryLayer(collector, "shop"))
  )
}

const ownCollector = HttpRouter.serve(Collector.routes, options).pipe(Layer.provideMerge(server()))

const main = Effect.gen(function* () {
  const endpoint = yield* Config.option(Config.String("OTEL_EXPORTER_OTLP_ENDPOINT"))
  if (Option.isSome(endpoint)) return yield* Console.log(yield* program(endpoint.value))
  const url = yield* urlOf
  yield* Console.log(yield* program(url))
  yield* Console.log(yield* Collector.tree)
}).pipe(Effect.provide(ownCollector))

NodeRuntime.runMain(main)
