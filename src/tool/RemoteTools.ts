/**
 * Tools on one machine, agents on another.
 *
 * {@link layerServer} puts a toolkit behind HTTP. On the other side
 * {@link layerRuntime} executes the calls of an agent that was rebuilt from data,
 * and {@link layerHandlers} moves the tools of an agent that exists in code by
 * swapping one layer. All three speak the one interface of `RemoteToolsApi`.
 *
 * **Without this library**
 *
 * The protocol is plain JSON over HTTP, so a client fits in a few lines of any
 * language:
 *
 * ```sh
 * curl http://127.0.0.1:3000/tools/execute \
 *   -H 'authorization: Bearer s3cret' -H 'content-type: application/json' \
 *   -d '{ "protocol": 1, "runId": "r1", "callId": "c1",
 *         "name": "get_order", "arguments": { "id": "42" } }'
 * # { "protocol": 1, "callId": "c1",
 * #   "result": { "_tag": "Success", "content": [...], "value": { ... } } }
 * ```
 *
 * `contractDigest` (from `GET /tools`), `context` and `deadline` may be added.
 * Status 200 carries a result, also of an unknown tool or of arguments that do
 * not fit; every other status is a refusal of `RemoteToolsError`.
 *
 * **Security**
 *
 * Whoever holds the token can call every tool of the server with any arguments:
 * approvals are asked for by the agent, not by the server. The token is compared
 * in constant time before the body is read. Use TLS beyond one machine. The
 * context of the run is a claim of the caller; the server ignores it unless its
 * `context` option judges it.
 *
 * @since 0.1.0
 */
import type * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { FileSystem } from "effect/FileSystem"
import type * as Etag from "effect/http/Etag"
import type { HttpClient } from "effect/http/HttpClient"
import type { HttpPlatform } from "effect/http/HttpPlatform"
import type { HttpRouter } from "effect/http/HttpRouter"
import * as Layer from "effect/Layer"
import type { Path } from "effect/Path"
import type * as Redacted from "effect/Redacted"
import type * as Schedule from "effect/Schedule"
import type { JsonObject } from "../payload/Json.ts"
import type { Limits } from "../payload/Limits.ts"
import * as Client from "./internal/remote/client.ts"
import * as Handlers from "./internal/remote/handlers.ts"
import * as RemoteHandlers from "./internal/remote/remoteHandlers.ts"
import * as Server from "./internal/remote/server.ts"
import * as Token from "./internal/remote/token.ts"
import type { Principal } from "./RemoteToolsApi.ts"
import type { Denied, InvalidOption } from "./RemoteToolsError.ts"
import type { ToolContractError } from "./ToolContract.ts"
import * as ToolRuntime from "./ToolRuntime.ts"
import * as ToolSet from "./ToolSet.ts"

/**
 * Options of {@link layerServer}.
 *
 * **Details**
 *
 * - `token`: the bearer token, or several by the name of who holds them, to tell
 *   callers apart or to change a token without a pause.
 * - `context`: turns the context that a caller claims into the `RunContext` that
 *   handlers read, or refuses the call with `RemoteToolsError.Denied`. Default:
 *   the claim is ignored and the context is empty.
 * - `limits`: limits of the request body and of the answer, where they differ
 *   from the current `Limits`.
 * - `path`: where the routes begin. Default `"/"`, which gives
 *   `/tools/execute`.
 *
 * @category options
 * @since 0.1.0
 */
export interface ServerOptions<R = never> {
  readonly token: Redacted.Redacted<string> | { readonly [name: string]: Redacted.Redacted<string> }
  readonly context?: ((claimed: JsonObject, principal: Principal) => Effect.Effect<JsonObject, Denied, R>) | undefined
  readonly limits?: Partial<Limits> | undefined
  readonly path?: `/${string}` | undefined
}

/**
 * Options of the clients.
 *
 * **Details**
 *
 * - `url`: where the server's routes begin, `path` included.
 * - `margin`: how much longer than the tool's timeout the client waits; default
 *   5 seconds.
 * - `retry`: when to try again after a connection that could not be made, or
 *   that was cut in the call of an `Idempotent` tool; default five more times
 *   within about three seconds. The timeout of the call is never exceeded.
 * - `limits`: limits of the request and of the answer, where they differ from
 *   the current `Limits`.
 *
 * @category options
 * @since 0.1.0
 */
export interface ClientOptions {
  readonly url: string | URL
  readonly token: Redacted.Redacted<string>
  readonly margin?: Duration.Input | undefined
  readonly retry?: Schedule.Schedule<unknown> | undefined
  readonly limits?: Partial<Limits> | undefined
}

/**
 * Serves a toolkit: adds `POST /tools/execute`, `GET /tools` and
 * `GET /openapi.json` to the application's router.
 *
 * **Details**
 *
 * The server enforces the timeout of each tool and the deadline of the request,
 * whichever comes first. When the caller goes away, the handler is interrupted.
 * A defect is logged here, and the caller reads only that the tool failed
 * unexpectedly.
 *
 * The services that the handlers' layer captured win over those of the HTTP
 * server, so that a handler with a confined `FileSystem` keeps it.
 *
 * **Gotchas**
 *
 * Deadlines are points in time: keep the clocks of both machines in step.
 * Everything at and below `/tools` belongs to this layer; give the application's
 * own routes other paths, or this layer a `path`.
 *
 * **Example** (A tool server, and a client that knows nothing but fetch)
 *
 * ```ts
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Redacted, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { HttpRouter, HttpServer } from "effect/http"
 * import { RemoteTools } from "effect-emissary"
 * import assert from "node:assert"
 * import { createServer } from "node:http"
 *
 * const GetOrder = Tool.make("get_order", {
 *   parameters: Schema.Struct({ id: Schema.String }),
 *   success: Schema.Struct({ id: Schema.String, status: Schema.String })
 * })
 * const Orders = Toolkit.make(GetOrder)
 * const ordersLayer = Orders.toLayer({ get_order: ({ id }) => Effect.succeed({ id, status: "shipped" }) })
 *
 * const server = HttpRouter.serve(
 *   RemoteTools.layerServer(Orders, { token: Redacted.make("s3cret") }).pipe(Layer.provide(ordersLayer)),
 *   { disableLogger: true, disableListenLog: true }
 * ).pipe(Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })))
 *
 * const program = Effect.gen(function* () {
 *   const { address } = yield* HttpServer.HttpServer
 *   const port = "port" in address ? address.port : 0
 *   return yield* Effect.promise(async () => {
 *     const response = await fetch(`http://127.0.0.1:${port}/tools/execute`, {
 *       method: "POST",
 *       headers: { authorization: "Bearer s3cret", "content-type": "application/json" },
 *       body: JSON.stringify({ protocol: 1, runId: "r1", callId: "c1", name: "get_order", arguments: { id: "42" } })
 *     })
 *     return await response.json()
 *   })
 * })
 *
 * const { result } = await Effect.runPromise(program.pipe(Effect.provide(server)))
 * assert.deepStrictEqual(result.value, { id: "42", status: "shipped" })
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerServer = <Tools extends Record<string, Tool.Any>, R = never>(
  toolkit: Toolkit.Toolkit<Tools>,
  options: ServerOptions<R>
): Layer.Layer<
  never,
  InvalidOption | ToolContractError | ToolSet.ToolNameError,
  | HttpRouter
  | Etag.Generator
  | FileSystem
  | HttpPlatform
  | Path
  | Tool.HandlersFor<Tools>
  | Tool.HandlerServices<Tools[keyof Tools]>
  | R
> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const match = yield* Token.matcher(options.token)
      const services = yield* Effect.context<R | Tool.HandlerServices<Tools[keyof Tools]>>()
      const { context } = options
      return Server.layer({
        set: yield* ToolSet.make(yield* Handlers.bind(toolkit)),
        match,
        context: (claimed, principal) =>
          context === undefined ? Effect.succeed({}) : Effect.provideContext(context(claimed, principal), services),
        limits: options.limits,
        path: options.path ?? "/"
      })
    })
  )

/**
 * A tool runtime that sends the calls of shells to a tool server. Tools that are
 * bound here run here.
 *
 * **When to use**
 *
 * Use for an agent that was decoded from data where none of its tools' code
 * exists. `ToolRuntime.layerRemote` is the same layer.
 *
 * **Details**
 *
 * Of a batch, `maxConcurrency` calls run at once; default 5. Every call ends
 * with a result: what the server answered, `timeout_error` when it took longer
 * than the timeout and the margin, or `remote_unavailable` with a
 * `RemoteToolsError.Unavailable` as its value. Interrupting the call interrupts
 * the handler on the server.
 *
 * **Gotchas**
 *
 * A cut connection leaves open whether the tool ran; annotate tools that may run
 * twice with `Tool.Idempotent`, so that they are called again. An HTTP client
 * that keeps connections may find one closed by the server, which is a cut, too:
 * let the server keep idle connections longer than the client does. Provide an
 * `HttpClient` that does not repeat requests by itself.
 *
 * **Example** (Calling a tool of which only the contract is known)
 *
 * ```ts
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Redacted, Result, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
 * import { BoundCall, BoundTool, RemoteTools, ToolBatch, ToolContract, ToolResult, ToolSet } from "effect-emissary"
 * import assert from "node:assert"
 * import { createServer } from "node:http"
 *
 * const Greet = Tool.make("greet", { parameters: Schema.Struct({ name: Schema.String }), success: Schema.String })
 * const Greetings = Toolkit.make(Greet)
 * const token = Redacted.make("s3cret")
 *
 * const server = HttpRouter.serve(
 *   RemoteTools.layerServer(Greetings, { token }).pipe(
 *     Layer.provide(Greetings.toLayer({ greet: ({ name }) => Effect.succeed(`Hello ${name}`) }))
 *   ),
 *   { disableLogger: true, disableListenLog: true }
 * ).pipe(Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })))
 *
 * const runtime = Layer.unwrap(
 *   Effect.map(HttpServer.HttpServer, ({ address }) =>
 *     RemoteTools.layerRuntime({ url: `http://127.0.0.1:${"port" in address ? address.port : 0}`, token })
 *   )
 * ).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(server))
 *
 * const program = Effect.gen(function* () {
 *   const shell = yield* BoundTool.shell(yield* ToolContract.fromTool(Greet))
 *   const tools = yield* ToolSet.make([shell])
 *   const call = yield* BoundCall.prepare(
 *     tools,
 *     { id: "c1", name: "greet", arguments: { name: "Ada" } },
 *     { runId: "r1" }
 *   )
 *   return yield* ToolBatch.collect([Result.getOrThrow(call)])
 * })
 *
 * const [result] = await Effect.runPromise(program.pipe(Effect.provide(runtime)))
 * assert.deepStrictEqual(result, ToolResult.success("Hello Ada"))
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerRuntime: (
  options: ClientOptions & { readonly maxConcurrency?: number | "unbounded" | undefined }
) => Layer.Layer<never, InvalidOption, HttpClient> = ToolRuntime.layerRemote

/**
 * The handlers of a toolkit, executed by a tool server.
 *
 * **When to use**
 *
 * Use to move the tools of an agent that exists in code: provide this layer where
 * the toolkit's own layer was.
 *
 * **Details**
 *
 * Arguments and results travel in the JSON form of the tool's schemas, typed
 * failures are typed failures here, and the model sees the results that it would
 * see if the handlers ran here. Everything else that can go wrong (see
 * {@link layerRuntime}) is a result of the same types; a program that calls the
 * toolkit without this library gets an `AiError` for it.
 *
 * **Example** (The same program with its handlers here and there)
 *
 * ```ts
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Redacted, Schema, Stream } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
 * import { RemoteTools } from "effect-emissary"
 * import assert from "node:assert"
 * import { createServer } from "node:http"
 *
 * const Greet = Tool.make("greet", { parameters: Schema.Struct({ name: Schema.String }), success: Schema.String })
 * const Greetings = Toolkit.make(Greet)
 * const here = Greetings.toLayer({ greet: ({ name }) => Effect.succeed(`Hello ${name}`) })
 *
 * const token = Redacted.make("s3cret")
 * const server = HttpRouter.serve(RemoteTools.layerServer(Greetings, { token }).pipe(Layer.provide(here)), {
 *   disableLogger: true,
 *   disableListenLog: true
 * }).pipe(Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })))
 *
 * const there = Layer.unwrap(
 *   Effect.map(HttpServer.HttpServer, ({ address }) =>
 *     RemoteTools.layerHandlers(Greetings, {
 *       url: `http://127.0.0.1:${"port" in address ? address.port : 0}`,
 *       token
 *     })
 *   )
 * ).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(server))
 *
 * const program = Effect.gen(function* () {
 *   const toolkit = yield* Greetings
 *   const results = yield* Stream.runCollect(yield* toolkit.handle("greet", { name: "Ada" }))
 *   return results.map(({ encodedResult }) => encodedResult)
 * })
 *
 * const local = await Effect.runPromise(program.pipe(Effect.provide(here)))
 * const remote = await Effect.runPromise(program.pipe(Effect.provide(there)))
 * assert.deepStrictEqual(local, ["Hello Ada"])
 * assert.deepStrictEqual(remote, local)
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerHandlers = <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>,
  options: ClientOptions
): Layer.Layer<
  Tool.HandlersFor<Tools>,
  InvalidOption | ToolContractError,
  HttpClient | Tool.ParametersEncodingServices<Tools[keyof Tools]> | Tool.ResultDecodingServices<Tools[keyof Tools]>
> => toolkit.toLayer(Effect.flatMap(Client.make(options), (client) => RemoteHandlers.make(toolkit, client)))
