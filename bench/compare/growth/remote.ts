/** A call of a tool in another process, here on the loopback of this one: server and client cost together. */
import { createServer } from "node:http"
import { NodeHttpServer } from "@effect/platform-node"
import { Effect, Layer, ManagedRuntime, Redacted, Schema, Stream } from "effect"
import { Tool, Toolkit } from "effect/ai"
import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
import { HttpApi, HttpApiBuilder, HttpApiClient, HttpApiEndpoint, HttpApiGroup } from "effect/http-api"
import { RemoteTools } from "effect-emissary/tool"

const Name = Schema.Struct({ name: Schema.String })
const Greeting = Schema.Struct({ text: Schema.String })
const greet = ({ name }: { readonly name: string }) => Effect.succeed({ text: `Hello ${name}` })

const quiet = { disableLogger: true, disableListenLog: true }
const listening = NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })
const addressOf = Effect.map(
  HttpServer.HttpServer,
  ({ address }) => `http://127.0.0.1:${"port" in address ? address.port : 0}`
)

const check = ({ text }: { readonly text: string }) =>
  text === "Hello Ada" ? Effect.void : Effect.die(`wrong result ${text}`)

/** One endpoint of an `HttpApi`, called by the client that is derived from it. */
export const httpApi = async (): Promise<() => unknown> => {
  const Api = HttpApi.make("bench").add(
    HttpApiGroup.make("tools").add(HttpApiEndpoint.post("greet", "/greet", { payload: Name, success: Greeting }))
  )
  const handlers = HttpApiBuilder.group(Api, "tools", (group) => group.handle("greet", ({ payload }) => greet(payload)))
  const server = HttpRouter.serve(HttpApiBuilder.layer(Api).pipe(Layer.provide(handlers)), quiet).pipe(
    Layer.provideMerge(listening)
  )
  const runtime = ManagedRuntime.make(Layer.merge(server, FetchHttpClient.layer))
  const client = await runtime.runPromise(Effect.flatMap(addressOf, (baseUrl) => HttpApiClient.make(Api, { baseUrl })))
  const call = Effect.flatMap(client.tools.greet({ payload: { name: "Ada" } }), check)
  return () => runtime.runPromise(call)
}

export const emissary = async (): Promise<() => unknown> => {
  const toolkit = Toolkit.make(Tool.make("greet", { parameters: Name, success: Greeting }))
  const token = Redacted.make("s3cret")
  const tools = RemoteTools.layerServer(toolkit, { token }).pipe(Layer.provide(toolkit.toLayer({ greet })))
  const server = HttpRouter.serve(tools, quiet).pipe(Layer.provideMerge(listening))
  const handlers = Layer.unwrap(
    Effect.map(addressOf, (url) => RemoteTools.layerHandlers(toolkit, { url, token }))
  ).pipe(Layer.provide(FetchHttpClient.layer))
  const runtime = ManagedRuntime.make(Layer.provideMerge(handlers, server))
  const remote = await runtime.runPromise(toolkit)
  const call = Effect.flatMap(remote.handle("greet", { name: "Ada" }), (results) =>
    Stream.runForEach(results, ({ result }) => ("text" in result ? check(result) : Effect.die(result)))
  )
  return () => runtime.runPromise(call)
}
