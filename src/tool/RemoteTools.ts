/**
 * Tools on one machine, agents on another.
 *
 * {@link layerServer} puts a toolkit behind HTTP. On the other side
 * {@link layerRuntime} executes the calls of an agent that was rebuilt from data,
 * and {@link layerHandlers} moves the tools of an agent that exists in code by
 * swapping one layer. All three use the one interface of {@link Api}.
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
 * `contractDigest` (from `GET /tools`), `context` and `timeLeft` (in milliseconds) may be added.
 * Status 200 carries a result, also of an unknown tool or of arguments that do
 * not fit; every other status is a refusal: `{ "_tag", "message" }`.
 *
 * **Security**
 *
 * The holder of the token can call every tool of the server with any arguments:
 * the agent asks for approvals, not the server. The token is compared
 * in constant time before the body is read. Use TLS beyond one machine. The
 * context of the run is a claim of the caller; the server ignores it unless its
 * `context` option judges it.
 *
 * @since 0.1.0
 */

import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Equal from "effect/Equal"
import type { FileSystem } from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Path } from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import type * as Etag from "effect/http/Etag"
import * as HttpClient from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import type { HttpPlatform } from "effect/http/HttpPlatform"
import * as HttpRouter from "effect/http/HttpRouter"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as callOptions from "../payload/internal/options.ts"
import * as Digest from "../payload/Digest.ts"
import * as Json from "../payload/Json.ts"
import type * as Limits from "../payload/Limits.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import * as base from "../payload/internal/base.ts"
import { resolveLimits } from "../payload/internal/limits.ts"
import * as jsonValues from "../payload/internal/values.ts"
import * as RunContext from "./RunContext.ts"
import * as ToolContract from "./ToolContract.ts"
import * as ToolResult from "./ToolResult.ts"
import * as ToolRuntime from "./ToolRuntime.ts"
import * as boundTool from "./internal/boundTool.ts"
import * as toolCall from "./internal/toolCall.ts"
import * as remoteProtocol from "./internal/remoteProtocol.ts"
import * as requestBody from "./internal/requestBody.ts"
import * as telemetry from "./internal/telemetry.ts"

/**
 * The server does not accept the context that the caller claims.
 *
 * **When to use**
 *
 * Use in the `context` option of `RemoteTools.layerServer`. The message is sent
 * to the caller.
 *
 * @category errors
 * @since 0.1.0
 */
export class Denied extends Schema.TaggedError<Denied>("effect-emissary/tool/Denied")("Denied", {
  message: Schema.String
}) {}

/**
 * An option of a layer in `RemoteTools` is not usable: an empty token, one token under
 * two names, a time that is none, or a URL that is none.
 *
 * @category errors
 * @since 0.1.0
 */
export class InvalidOption extends Schema.TaggedError<InvalidOption>("effect-emissary/tool/InvalidOption")(
  "InvalidOption",
  { option: Schema.String, message: Schema.String }
) {}

/**
 * The `value` of a `remote_unavailable` result.
 *
 * **Details**
 *
 * - `reason`: what happened. `unreachable`: no connection could be made. `connection_lost`: the connection was cut
 *   before the answer was complete. The others are the refusals of the server by name, or an answer that does not fit
 *   the protocol.
 * - `outcome`: whether the tool ran. `not_executed` is certain; `unknown` means
 *   that the request may have arrived, so that calling again may do the work
 *   twice.
 * - `status`: the HTTP status, when there was one.
 *
 * **Example** (Reading why a call has no result)
 *
 * ```ts
 * import { Option, Schema } from "effect"
 * import { ToolResult } from "effect-emissary"
 * import { RemoteTools } from "effect-emissary/tool"
 * import assert from "node:assert"
 *
 * const mayHaveRun = (result: ToolResult.ToolResult): boolean =>
 *   result._tag === "Success" ||
 *   Option.match(Schema.decodeUnknownOption(RemoteTools.Unavailable)(result.value), {
 *     onNone: () => true,
 *     onSome: (unavailable) => unavailable.outcome === "unknown"
 *   })
 *
 * const result = ToolResult.failure("remote_unavailable", "The tool server could not be reached", {
 *   reason: "unreachable",
 *   outcome: "not_executed"
 * })
 * assert.strictEqual(mayHaveRun(result), false)
 * ```
 *
 * @category schemas
 * @since 0.1.0
 */
export const Unavailable = Schema.Struct({
  reason: Schema.Literals([
    "unreachable",
    "connection_lost",
    "invalid_request",
    "unsupported_protocol",
    "unauthorized",
    "denied",
    "not_found",
    "contract_mismatch",
    "request_timeout",
    "request_too_large",
    "unsupported_media_type",
    "server_error",
    "invalid_response",
    "response_too_large"
  ]),
  outcome: Schema.Literals(["not_executed", "unknown"]),
  status: Schema.optionalKey(Schema.Int)
})

/**
 * The `value` of a `remote_unavailable` result.
 *
 * @category models
 * @since 0.1.0
 */
export type Unavailable = typeof Unavailable.Type

export {
  /**
   * The interface of a tool server, to derive clients and documents from.
   *
   * **Details**
   *
   * `POST /tools/execute` runs one tool call. Status 200 means that the call has a
   * result, which may be a failure of the tool, an unknown tool, or arguments that do
   * not fit. Every other status is a refusal: the tool did not run (except 500, where it
   * may have). `GET /tools` lists the contracts of all tools.
   *
   * @category apis
   * @since 0.1.0
   */
  Api
} from "./internal/remoteProtocol.ts"

/**
 * Options of {@link layerServer}.
 *
 * @category options
 * @since 0.1.0
 */
export interface ServerOptions<R = never> {
  /**
   * The bearer token, or several different ones by the name of their holder, to distinguish callers or to change a token without a
   * pause.
   */
  readonly token: Redacted.Redacted<string> | { readonly [name: string]: Redacted.Redacted<string> }
  /**
   * Turns the context that a caller claims into the `RunContext` that handlers read, or refuses the call with
   * `RemoteTools.Denied`. Default: the claim is ignored and the context is empty.
   */
  readonly context?:
    | ((claimed: Json.JsonObject, principal: { readonly name: string }) => Effect.Effect<Json.JsonObject, Denied, R>)
    | undefined
  /** Limits of the request body and of the answer, where they differ from the current `Limits`. */
  readonly limits?: Partial<Limits.Limits> | undefined
  /**
   * The time in which the whole body of a request has to arrive, more than none; default 30 seconds. Then the caller gets a
   * refusal with status 408 and the connection is closed.
   */
  readonly bodyTimeout?: Duration.Input | undefined
  /** The path before the routes. Default `"/"`, for `/tools/execute`. */
  readonly path?: `/${string}` | undefined
}

/**
 * Options of the clients.
 *
 * @category options
 * @since 0.1.0
 */
export interface ClientOptions {
  /** The address of the server, its `path` included. */
  readonly url: string | URL
  /** The bearer token of this caller. */
  readonly token: Redacted.Redacted<string>
  /** The time that the client waits beyond the timeout of the tool; default 5 seconds, at least none. */
  readonly margin?: Duration.Input | undefined
  /**
   * The attempts after a connection that could not be made, or that was cut in the call of an `Idempotent` tool;
   * default five more times within about three seconds. The timeout of the call is never exceeded.
   */
  readonly retry?: Schedule.Schedule<unknown> | undefined
  /** Limits of the request and of the answer, where they differ from the current `Limits`. */
  readonly limits?: Partial<Limits.Limits> | undefined
}

/**
 * Serves a toolkit: adds `POST /tools/execute`, `GET /tools` and
 * `GET /openapi.json` to the application's router.
 *
 * **Details**
 *
 * The server enforces the timeout of each tool and the time left of the request,
 * whichever comes first. When the caller goes away, the handler is interrupted.
 * A defect is logged here, and the caller reads only that the tool failed
 * unexpectedly.
 *
 * A call that names the digest of another contract is refused. The call may name the digest of the tool's contract, or
 * the digest of what version 1 of an agent carries of that contract (no result schemas, no annotations), each with the
 * tool's approval or a stricter one.
 *
 * An agent in the toolkit (`Agent.asTool`) is a tool, too: a call runs it with the services of this layer, and
 * returns its answer. Its approvals cannot be decided over HTTP, so a run that asks for one is an
 * `execution_error` result. A tool that a model provider executes is not listed, and its call is one.
 *
 * The services that the handlers' layer captured win over the services of the HTTP server, so that a handler with a
 * confined `FileSystem` keeps it. A tool with `dependencies` does not compile here: the calls of all callers would have the services of
 * the layer.
 *
 * **Gotchas**
 *
 * Deadlines are points in time: keep the clocks of both machines in step.
 * `maxDepth` of a run does not travel: agents of two servers that call each other are
 * bounded by their own steps and times only.
 * Everything at and below `/tools` belongs to this layer: choose other paths for the
 * application's own routes, or a `path` for this layer.
 *
 * **Example** (A tool server, and a client that knows nothing but fetch)
 *
 * ```ts
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Redacted, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { HttpRouter, HttpServer } from "effect/http"
 * import { RemoteTools } from "effect-emissary/tool"
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
  InvalidOption | ToolContract.ToolContractError | boundTool.ToolNameError,
  | HttpRouter.HttpRouter
  | Etag.Generator
  | FileSystem
  | HttpPlatform
  | Path
  | Tool.HandlersFor<Tools>
  | Tool.HandlerServices<Tools[keyof Tools]>
  | boundTool.OwnServices<Tools[keyof Tools]>
  | boundTool.NoServiceOfCall<boundTool.CallServicesOf<Tools[keyof Tools]>>
  | R
> =>
  Layer.unwrap(
    Effect.gen(function* () {
      const match = yield* makeMatcher(options.token)
      const read = yield* makeReader(options)
      const services = yield* Effect.context<R | Tool.HandlerServices<Tools[keyof Tools]>>()
      const set = yield* boundTool.makeSet(yield* boundTool.fromToolkit(toolkit))
      const accepted = new Map<string, ReadonlyMap<string, Approval>>()
      for (const [name, { contract }] of set.tools) accepted.set(name, yield* acceptedDigests(contract))
      const { context } = options
      const judge: JudgeContext = (claimed, principal) =>
        context === undefined ? Effect.succeed({}) : Effect.provideContext(context(claimed, principal), services)
      return Layer.provide(layerRoutes({ set, accepted, judge, read }, options), layerAuthorization(match))
    })
  )

/**
 * A tool runtime that sends the calls of stubs to a tool server. Tools that are
 * bound here run here.
 *
 * **When to use**
 *
 * Use for an agent that was decoded from data where none of its tools' code
 * exists.
 *
 * **Details**
 *
 * Of a batch, `maxConcurrency` calls run at once; default 5, at least 1. Every call ends
 * with a result: what the server answered, `timeout_error` when it took longer
 * than the timeout and the margin, or `remote_unavailable` with a
 * `RemoteTools.Unavailable` as its value. Interrupting the call interrupts
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
 * **Example** (An agent without the code of its tools)
 *
 * ```ts
 * import { NodeHttpServer } from "@effect/platform-node"
 * import { Effect, Layer, Redacted, Schema } from "effect"
 * import { Tool, Toolkit } from "effect/ai"
 * import { FetchHttpClient, HttpRouter, HttpServer } from "effect/http"
 * import { Agent, AgentDefinition, ModelRegistry, ToolContract, ToolResolver } from "effect-emissary"
 * import { RemoteTools } from "effect-emissary/tool"
 * import { ScriptedModel } from "effect-emissary/testing"
 * import assert from "node:assert"
 * import { createServer } from "node:http"
 *
 * const Greet = Tool.make("greet", {
 *   parameters: Schema.Struct({ name: Schema.String }),
 *   success: Schema.String
 * }).annotate(Tool.Readonly, true)
 * const toolkit = Toolkit.make(Greet)
 * const handlers = toolkit.toLayer({ greet: ({ name }) => Effect.succeed(`Hello ${name}`) })
 *
 * const token = Redacted.make("s3cret")
 * const server = HttpRouter.serve(RemoteTools.layerServer(toolkit, { token }).pipe(Layer.provide(handlers)), {
 *   disableLogger: true,
 *   disableListenLog: true
 * }).pipe(Layer.provideMerge(NodeHttpServer.layer(createServer, { host: "127.0.0.1", port: 0 })))
 *
 * const runtime = Layer.unwrap(
 *   Effect.map(HttpServer.HttpServer, ({ address }) =>
 *     RemoteTools.layerRuntime({ url: `http://127.0.0.1:${"port" in address ? address.port : 0}`, token })
 *   )
 * ).pipe(Layer.provide(FetchHttpClient.layer), Layer.provide(server))
 *
 * const model = ScriptedModel.layer([
 *   { toolCalls: [{ name: "greet", params: { name: "Ada" } }] },
 *   { text: "Done.", expect: { toolResult: "Hello Ada" } }
 * ])
 *
 * const program = Effect.gen(function*() {
 *   const greet = yield* ToolContract.fromTool(Greet)
 *   const agent = yield* Agent.bind(yield* AgentDefinition.make({ tools: [greet] }))
 *   return yield* agent.ask("Greet Ada")
 * }).pipe(Effect.provide(Layer.mergeAll(ToolResolver.layerStubs(), runtime, ModelRegistry.layer({}), model)))
 * assert.strictEqual(await Effect.runPromise(program), "Done.")
 * ```
 *
 * @category layers
 * @since 0.1.0
 */
export const layerRuntime = (
  options: ClientOptions & { readonly maxConcurrency?: number | "unbounded" | undefined }
): Layer.Layer<never, InvalidOption, HttpClient.HttpClient> =>
  Layer.unwrap(
    Effect.map(makeClient(options), (client) =>
      ToolRuntime.layer({
        dispatch: (call) => Option.getOrElse(call.execute, () => client(call)),
        concurrency: options.maxConcurrency ?? 5
      })
    )
  )

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
 * import { RemoteTools } from "effect-emissary/tool"
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
  InvalidOption | ToolContract.ToolContractError,
  | HttpClient.HttpClient
  | Tool.ParametersEncodingServices<Tools[keyof Tools]>
  | Tool.ResultDecodingServices<Tools[keyof Tools]>
> => toolkit.toLayer(Effect.flatMap(makeClient(options), (client) => makeHandlers(toolkit, client)))

/** A text without a digest (it is no well-formed Unicode) equals no token. */
const digestToken = (text: string): Effect.Effect<string> => Effect.orElseSucceed(Digest.sha256(text), () => "")

/**
 * Compares two digests of equal length to the last character.
 *
 * Digests have equal lengths for all tokens, and what the loop reveals about a digest
 * is of no use for guessing its origin.
 */
const equalDigests = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let index = 0; index < a.length; index++) {
    difference |= a.charCodeAt(index) ^ b.charCodeAt(index % b.length)
  }
  return difference === 0 && a !== ""
}

const invalidOption = (option: string, problem: string) =>
  new InvalidOption({ option, message: `"${option}" ${problem}` })

/** Refuses tokens that would let every caller in. */
const checkToken = (token: Redacted.Redacted<string>, option: string): Effect.Effect<string, InvalidOption> => {
  const value = Redacted.value(token)
  if (value.trim() !== "" && !/[^\x20-\x7e]/.test(value)) return Effect.succeed(value)
  const problem = "must be a non-empty text of printable ASCII characters, which is what a header can hold"
  return Effect.fail(invalidOption(option, problem))
}

/** Finds the name of the caller by the token. The tokens themselves are not kept. */
const makeMatcher = Effect.fnUntraced(function* (tokens: ServerOptions["token"]) {
  const named: ReadonlyArray<readonly [option: string, name: string, token: Redacted.Redacted<string>]> =
    Redacted.isRedacted(tokens)
      ? [["token", "default", tokens]]
      : Object.entries(tokens).map(([name, token]) => [`token.${name}`, name, token])
  if (named.length === 0) return yield* invalidOption("token", "names no token")
  const values = named.map(([, , token]) => Redacted.value(token))
  const twice = named.find(([, , token], index) => values.indexOf(Redacted.value(token)) < index)
  if (twice !== undefined) return yield* invalidOption(twice[0], "must not be the token of another name")
  const known = yield* Effect.forEach(named, ([option, name, token]) =>
    Effect.map(Effect.flatMap(checkToken(token, option), digestToken), (digest) => ({ name, digest }))
  )
  return (candidate: Redacted.Redacted<string>) =>
    Effect.map(digestToken(Redacted.value(candidate)), (candidate) => {
      let found: string | undefined
      for (const { digest, name } of known) if (equalDigests(digest, candidate)) found = name
      return found
    })
})

const layerAuthorization = (match: Effect.Success<ReturnType<typeof makeMatcher>>) =>
  Layer.succeed(
    remoteProtocol.Authorization,
    remoteProtocol.Authorization.of({
      bearer: Effect.fnUntraced(function* (effect, { credential }) {
        const caller = yield* match(credential)
        return yield* caller === undefined
          ? Effect.fail(remoteProtocol.Unauthorized.make({ message: "The bearer token is missing or wrong" }))
          : Effect.provideService(effect, remoteProtocol.CurrentCaller, caller)
      })
    })
  )

const checkMediaType = (request: HttpServerRequest.HttpServerRequest) => {
  const header = request.headers["content-type"]
  return header === undefined || header.split(";")[0]?.trim().toLowerCase() === "application/json"
    ? Effect.void
    : Effect.fail(remoteProtocol.UnsupportedMediaType.make({ message: "The body must be application/json" }))
}

const refuseBody =
  (limit: number) =>
  ({ message, status }: requestBody.Refusal) => {
    if (status === 413) return remoteProtocol.RequestTooLarge.make({ message, limit })
    if (status === 408) return remoteProtocol.RequestTimeout.make({ message })
    return remoteProtocol.InvalidRequest.make({ message, issues: [] })
  }

const invalidRequest = ({ message, reason }: PayloadError) =>
  remoteProtocol.InvalidRequest.make({
    message,
    issues:
      reason._tag === "Invalid" ? reason.issues.map(({ expected, found, path }) => ({ expected, found, path })) : []
  })

const checkProtocol = (json: Schema.Json) => {
  const version = Json.isObject(json) ? jsonValues.own(json, "protocol") : undefined
  if (version === undefined || version === remoteProtocol.protocolVersion) return Effect.void
  const found = typeof version === "number" ? String(version) : jsonValues.kindOf(version)
  const supported = [remoteProtocol.protocolVersion]
  const message = `Protocol ${found} is not supported, protocol ${remoteProtocol.protocolVersion} is`
  return Effect.fail(remoteProtocol.UnsupportedProtocol.make({ message, found, supported }))
}

/** Reads and checks the body. Nothing of it is looked at before its size is known to be acceptable. */
const makeReader = Effect.fnUntraced(function* ({ bodyTimeout, limits }: ServerOptions<unknown>) {
  const timeout = yield* requestBody.resolveTimeout(bodyTimeout, invalidOption)
  const options = { what: "tool call", limits }
  const decode = Json.decode(remoteProtocol.Request, options)
  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    yield* checkMediaType(request)
    const { maxBytes } = yield* resolveLimits(limits)
    const body = yield* Effect.mapError(requestBody.read(request, maxBytes, timeout), refuseBody(maxBytes))
    const json = yield* Effect.mapError(Json.parse(body, options), invalidRequest)
    yield* checkProtocol(json)
    return yield* Effect.mapError(decode(json), invalidRequest)
  })
})

/** A defect of the server, or of the application's `context` function, stays in the log. */
const hideServerDefects = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.catchCauseIf(
    effect,
    Cause.hasDies,
    Effect.fnUntraced(function* (cause) {
      yield* telemetry.logUnexpected("The tool server failed unexpectedly", cause)
      return yield* Effect.fail(
        remoteProtocol.InternalError.make({ message: "The tool server failed. Its log has the details." })
      )
    })
  )

const encodeContract = (contract: ToolContract.ToolContract) => ({
  ...contract,
  timeout: Duration.isFinite(contract.timeout) ? Duration.toMillis(contract.timeout) : null
})

type Approval = ToolContract.ToolContract["approval"]

/**
 * The digests of a tool's contract as callers may hold it, with their approval: the whole contract, or what version 1 of an
 * agent carries of it, each with the tool's own approval or a stricter one.
 */
const acceptedDigests = Effect.fnUntraced(function* (contract: ToolContract.ToolContract) {
  const { annotations: _, failure: __, request: ____, success: ___, ...bare } = contract
  const approvals = boundTool.approvals
  const digests = approvals
    .slice(approvals.indexOf(contract.approval))
    .flatMap((approval) =>
      [ToolContract.digest({ ...contract, approval }), ToolContract.digest({ ...bare, annotations: {}, approval })].map(
        (digest) => Effect.map(digest, (text) => [text, approval] as const)
      )
    )
  // a contract has a digest, so its parts have one
  return new Map(yield* Effect.orDie(Effect.all(digests)))
})

/** By the name of the tool. */
type AcceptedDigests = ReadonlyMap<string, ReadonlyMap<string, Approval>>

/** Runs the call. The result is sent with status 200. */
const executeCall = Effect.fnUntraced(function* (
  set: boundTool.ToolSet,
  accepted: AcceptedDigests,
  request: typeof remoteProtocol.Request.Type,
  context: Json.JsonObject
) {
  const { arguments: args, callId, contractDigest: found, name, runId, timeLeft } = request
  const deadline = timeLeft === undefined ? undefined : (yield* Clock.currentTimeMillis) + timeLeft
  const tool = set.tools.get(name)
  const expected = tool?.contract.digest
  const approval = found === undefined ? undefined : accepted.get(name)?.get(found)
  if (expected !== undefined && found !== undefined && approval === undefined) {
    const message = `The server has another version of tool ${JSON.stringify(name)}`
    return yield* Effect.fail(remoteProtocol.ContractMismatch.make({ message, tool: name, expected, found }))
  }
  const call = yield* boundTool.prepare(set, { id: callId, name, arguments: args }, { runId, context, deadline })
  if (Result.isFailure(call)) return call.failure
  // The caller showed the arguments as it has them: it has a contract, and no Schema
  if (tool !== undefined && approval !== undefined && approval !== "never") {
    const normal = yield* boundTool.normalizeCall(tool, call.success, { runId })
    if (Result.isFailure(normal)) return normal.failure
    if (!Equal.equals(normal.success.arguments, args)) return boundTool.notNormal(name, normal.success.arguments)
  }
  return yield* Effect.annotateLogs(toolCall.local(call.success), { runId, callId })
})

type ServerPath = NonNullable<ServerOptions["path"]>

const joinPath = (path: ServerPath, rest: string): ServerPath =>
  path.endsWith("/") ? `${path}${rest}` : `${path}/${rest}`

/** Answers every other request below `/tools`. The rest of the server belongs to the application. */
const layerUnknownEndpoints = (path: ServerPath) => {
  const tools = joinPath(path, "tools")
  const body: typeof remoteProtocol.UnknownEndpoint.Encoded = {
    _tag: "UnknownEndpoint",
    message: `The endpoints are POST ${joinPath(tools, "execute")}, GET ${tools} and GET ${joinPath(path, "openapi.json")}`
  }
  const answer = Effect.orDie(HttpServerResponse.json(body, { status: 404 }))
  return Layer.mergeAll(
    HttpRouter.add("*", joinPath(tools, ":unknown/*"), answer),
    ...(["POST", "PUT", "PATCH", "DELETE"] as const).map((method) => HttpRouter.add(method, tools, answer))
  )
}

type JudgeContext = NonNullable<ServerOptions["context"]>

interface ServerParts {
  readonly set: boundTool.ToolSet
  readonly accepted: AcceptedDigests
  readonly judge: JudgeContext
  readonly read: Effect.Success<ReturnType<typeof makeReader>>
}

/** The routes as a layer over the router of the application. */
const layerRoutes = ({ accepted, judge, read, set }: ServerParts, { limits, path = "/" }: ServerOptions<unknown>) => {
  const api = remoteProtocol.Api.prefix(path)
  const respond = (body: Schema.Json, what: string) =>
    Effect.map(Json.stringify(body, { what, limits }), (text) =>
      HttpServerResponse.text(text, { contentType: "application/json" })
    )
  const respondWith = (callId: string, result: ToolResult.ToolResult) => {
    const body: typeof remoteProtocol.Response.Encoded = { protocol: remoteProtocol.protocolVersion, callId, result }
    return respond(body, "tool result")
  }
  const execute = Effect.fnUntraced(function* (http: HttpServerRequest.HttpServerRequest) {
    const name = yield* remoteProtocol.CurrentCaller
    const request = yield* read(http)
    const context = yield* Effect.mapError(judge(request.context ?? {}, { name }), ({ message }) =>
      remoteProtocol.Denied.make({ message })
    )
    const result = yield* executeCall(set, accepted, request, context)
    return yield* Effect.catch(respondWith(request.callId, result), ({ message }) => {
      const unsendable = ToolResult.failure("execution_error", `The result cannot be sent: ${message}`)
      return Effect.orDie(respondWith(request.callId, unsendable))
    })
  }, hideServerDefects)
  const list: typeof remoteProtocol.ToolList.Encoded = {
    protocol: remoteProtocol.protocolVersion,
    tools: [...set.tools.values()].flatMap(({ contract, kind }) =>
      kind === "provider" ? [] : [encodeContract(contract)]
    )
  }
  const tools = HttpApiBuilder.group(api, "tools", (handlers) =>
    handlers
      .handleRaw("executeTool", ({ request }) => execute(request))
      .handleRaw("listTools", () => hideServerDefects(Effect.orDie(respond(list, "tools"))))
  )
  const endpoints = HttpApiBuilder.layer(api, { openapiPath: joinPath(path, "openapi.json") })
  return Layer.merge(Layer.provide(endpoints, tools), layerUnknownEndpoints(path))
}

/** A call without a result from the server. */
type FailedCall = Omit<ToolResult.Failure, "value"> & { readonly value: Unavailable }

const failedCall = (
  reason: Unavailable["reason"],
  outcome: Unavailable["outcome"],
  sentence: string,
  { quoted, status }: { readonly status?: number; readonly quoted?: string | undefined } = {}
): FailedCall => {
  const ran = outcome === "unknown" ? "it is not known whether the tool ran" : "the tool did not run"
  const value = { reason, outcome, ...jsonValues.defined({ status }) }
  const message = `${sentence}, ${ran}${quoted === undefined ? "" : `: ${quoted}`}`
  return { _tag: "Failure", type: "remote_unavailable", message, value }
}

/** No more than a sentence or two of the server's own words reach the model, and never the token. */
const quoteMessage = (message: string, token: Redacted.Redacted<string>): string => {
  const text = message.replaceAll(Redacted.value(token), "<token>")
  return text.length <= 500 ? text : `${base.firstUnits(text, 500)}... (${text.length} characters)`
}

type RefusalTag = (typeof remoteProtocol.Refusal.Type)["_tag"]

interface RefusalText {
  readonly reason: Unavailable["reason"]
  /** The sentence for the model. After a sentence that ends in a colon follows the message of the server. */
  readonly sentence: string
  /** The status by which the same answer of a proxy or of another server is recognized. */
  readonly status?: number
}

const refusalTexts: { readonly [Tag in RefusalTag]: RefusalText } = {
  InvalidRequest: { reason: "invalid_request", sentence: "The tool server rejected the request:" },
  UnsupportedProtocol: { reason: "unsupported_protocol", sentence: "The tool server uses another protocol:" },
  Unauthorized: { reason: "unauthorized", sentence: "The tool server rejected the token", status: 401 },
  Denied: { reason: "denied", sentence: "The tool server denied the call:", status: 403 },
  UnknownEndpoint: { reason: "not_found", sentence: "There is no tool server at the configured URL", status: 404 },
  RequestTimeout: { reason: "request_timeout", sentence: "The tool server stopped waiting for the call:" },
  ContractMismatch: { reason: "contract_mismatch", sentence: "The tool has changed:" },
  RequestTooLarge: { reason: "request_too_large", sentence: "The call is too large:", status: 413 },
  UnsupportedMediaType: { reason: "unsupported_media_type", sentence: "The tool server rejected the request:" },
  InternalError: { reason: "server_error", sentence: "The tool server failed", status: 500 }
}

const refusedCall = ({ reason, sentence }: RefusalText, status: number, message = ""): FailedCall => {
  const quoted = sentence.endsWith(":") && message !== "" ? message : undefined
  const outcome = reason === "server_error" ? "unknown" : "not_executed"
  return failedCall(reason, outcome, sentence.replace(/:$/, ""), { status, quoted })
}

/** For answers of proxies and of other servers. */
const failedByStatus = (status: number): FailedCall => {
  const text = Object.values(refusalTexts).find((text) => text.status === Math.min(status, 500))
  const isRedirect = status >= 300 && status < 400
  const kind = isRedirect ? `a redirect (status ${status}), which is not followed` : `status ${status}`
  return text === undefined
    ? failedCall("invalid_response", "unknown", `The tool server answered with ${kind}`, { status })
    : refusedCall(text, status)
}

/** The parts of a call that are sent, or that decide how long and how often. */
type RemoteCall = Pick<
  toolCall.BoundCall,
  "runId" | "id" | "contract" | "arguments" | "context" | "timeout" | "deadline"
>

type Client = (call: RemoteCall) => Effect.Effect<ToolResult.ToolResult>

/** Six attempts within about three seconds. */
const defaultRetry = Schedule.exponential("100 millis").pipe(Schedule.upTo({ times: 5 }))

const resolveEndpoint = (url: string | URL): Effect.Effect<string, InvalidOption> =>
  Effect.try({ try: () => new URL(url), catch: () => invalidOption("url", "is not an absolute URL") }).pipe(
    Effect.filterOrFail(
      (url) => (url.protocol === "http:" || url.protocol === "https:") && url.username === "" && url.password === "",
      () => invalidOption("url", `must begin with http:// or https:// and hold no user name or password; use "token"`)
    ),
    Effect.map((url) => `${url.origin}${url.pathname.replace(/(?<!\/)\/+$/, "")}/tools/execute`)
  )

/** The time that the server has, where the timeout of the contract is not over before. Its clock may differ from ours. */
const timeLeftOf = (call: RemoteCall, now: number): number | undefined => {
  const own = Duration.isLessThan(call.timeout, call.contract.timeout) ? Duration.toMillis(call.timeout) : Infinity
  const left = Math.min(own, Math.max(0, (call.deadline ?? Infinity) - now))
  return Number.isFinite(left) ? left : undefined
}

const largeResponse = (limit: number, status: number) =>
  failedCall("response_too_large", "unknown", `The tool server answered with more than ${limit} bytes`, { status })

const noResult = "The answer of the tool server is not a tool result"

const invalidResponse = failedCall("invalid_response", "unknown", noResult, { status: 200 })

const connectionLost = failedCall("connection_lost", "unknown", "The connection to the tool server was lost")

const fromHttpError = (error: HttpClientError.HttpClientError): FailedCall => {
  if (remoteProtocol.isUnreachable(error)) {
    return failedCall("unreachable", "not_executed", "The tool server cannot be reached")
  }
  return remoteProtocol.isUnsendable(error)
    ? failedCall("invalid_request", "not_executed", "The request could not be made")
    : connectionLost
}

/** A client over the `HttpClient` in the context. */
const makeClient = Effect.fnUntraced(function* ({ limits, margin, retry, token, url }: ClientOptions) {
  const endpoint = yield* resolveEndpoint(url)
  yield* checkToken(token, "token")
  if (margin !== undefined && !callOptions.time.fits(margin)) {
    return yield* invalidOption("margin", `must be ${callOptions.time.expected}`)
  }
  const beyond = Duration.fromInputUnsafe(margin ?? toolCall.defaultMargin)
  const http = HttpClient.withScope(yield* HttpClient.HttpClient)
  const reading = { what: "answer of the tool server", limits, onExcessProperty: "ignore" } as const
  const decodeRefusal = Json.decodeJson(remoteProtocol.Refusal, reading)
  const decodeResponse = Json.decodeJson(remoteProtocol.Response, reading)

  const answer = Effect.fnUntraced(function* (callId: string, response: HttpClientResponse.HttpClientResponse) {
    const { maxBytes } = yield* resolveLimits(limits)
    const bytes = yield* requestBody.collect(response, maxBytes, largeResponse(maxBytes, response.status))
    if (response.status === 200) {
      const decoded = yield* Effect.mapError(decodeResponse(bytes), () => invalidResponse)
      return decoded.callId === callId ? decoded.result : yield* Effect.fail(invalidResponse)
    }
    const refusal = Option.getOrUndefined(yield* Effect.option(decodeRefusal(bytes)))
    return yield* Effect.fail(
      refusal === undefined
        ? failedByStatus(response.status)
        : refusedCall(refusalTexts[refusal._tag], response.status, quoteMessage(refusal.message, token))
    )
  })

  const attempt = (callId: string, request: HttpClientRequest.HttpClientRequest) =>
    http.execute(request).pipe(
      remoteProtocol.refuseRedirects,
      Effect.flatMap((response) => answer(callId, response)),
      Effect.mapError((error) => (error._tag === "HttpClientError" ? fromHttpError(error) : error)),
      Effect.scoped
    )

  const makeRequest = Effect.fnUntraced(function* (call: RemoteCall) {
    const timeLeft = timeLeftOf(call, yield* Clock.currentTimeMillis)
    const body: typeof remoteProtocol.Request.Encoded = {
      protocol: remoteProtocol.protocolVersion,
      runId: call.runId,
      callId: call.id,
      name: call.contract.name,
      arguments: call.arguments,
      contractDigest: call.contract.digest,
      context: call.context,
      ...jsonValues.defined({ timeLeft })
    }
    const text = yield* Effect.mapError(Json.stringify(body, { what: "tool call", limits }), ({ message, reason }) => {
      const unsent = reason._tag === "TooLarge" || reason._tag === "TooDeep" ? "request_too_large" : "invalid_request"
      return failedCall(unsent, "not_executed", "The call was not sent", { quoted: message })
    })
    return HttpClientRequest.post(endpoint, { acceptJson: true }).pipe(
      HttpClientRequest.bearerToken(token),
      HttpClientRequest.bodyText(text, "application/json")
    )
  })

  const execute = Effect.fnUntraced(function* (call: RemoteCall) {
    const wait = yield* toolCall.remainingTime(call)
    if (Duration.isZero(wait)) return toolCall.timeoutFailure(wait)
    const idempotent = call.contract.annotations.idempotent === true
    // the failure of the last attempt, and whether any attempt may have reached the tool
    let last: FailedCall | undefined
    let mayHaveRun = false
    return yield* Effect.suspend(() => {
      last = undefined
      return Effect.flatMap(makeRequest(call), (request) => attempt(call.id, request))
    }).pipe(
      Effect.tapError((failed) =>
        Effect.sync(() => {
          mayHaveRun = mayHaveRun || failed.value.outcome === "unknown"
          last = failed
        })
      ),
      Effect.retry({
        schedule: retry ?? defaultRetry,
        while: ({ value }) => value.reason === "unreachable" || (value.reason === "connection_lost" && idempotent)
      }),
      Effect.timeoutOrElse({
        duration: Duration.sum(wait, beyond),
        orElse: () => (last === undefined ? Effect.succeed(toolCall.timeoutFailure(wait)) : Effect.fail(last))
      }),
      Effect.mapError((failed): FailedCall => {
        if (!mayHaveRun || failed.value.outcome === "unknown") return failed
        return { ...failed, message: connectionLost.message, value: { ...failed.value, outcome: "unknown" } }
      })
    )
  })

  const client: Client = (call) => Effect.catch(execute(call), Effect.succeed)
  return client
})

type RemoteHandler = (
  params: unknown,
  context: { readonly toolCallId?: string | undefined }
) => Effect.Effect<unknown, unknown, unknown>

/** The types of failures of the runtime, which no failure schema describes. */
const runtimeTypes = new Set(
  "unknown_tool validation_error timeout_error unhandled_error denied interrupted remote_unavailable".split(" ")
)

const makeHandler = (tool: Tool.Any, contract: ToolContract.ToolContract, client: Client): RemoteHandler => {
  const encodeParams = Schema.isSchema(tool.parametersSchema)
    ? Schema.encodeUnknownEffect(Schema.toCodecJson(tool.parametersSchema))
    : Effect.succeed
  const decodeSuccess = Schema.decodeUnknownEffect(Schema.toCodecJson(tool.successSchema))
  const decodeFailure = Schema.decodeUnknownEffect(Schema.toCodecJson(tool.failureSchema))
  const fail = (result: ToolResult.Failure) => Effect.fail(boundTool.carryResult(tool.name, result))
  const name = JSON.stringify(tool.name)
  const unsendable = ToolResult.failure("execution_error", `The arguments of tool ${name} cannot be written as JSON`)
  const misfit = ToolResult.failure("execution_error", `The result of the tool server does not fit tool ${name}`)
  return Effect.fnUntraced(function* (params, { toolCallId }) {
    const call = (yield* toolCall.CurrentCall)?.call
    const context = yield* RunContext.RunContext
    const args = yield* Effect.catch(encodeParams(params), () => fail(unsendable))
    const result = yield* client({
      runId: call?.runId ?? "",
      id: call?.id ?? toolCallId ?? "",
      contract,
      // Sound: the JSON codec encodes to JSON; the client checks it once more before sending
      arguments: args as Json.JsonObject,
      context,
      timeout: contract.timeout,
      deadline: call?.deadline
    })
    if (result._tag === "Success") {
      return yield* Effect.catch(decodeSuccess(result.value), () => fail(misfit))
    }
    if (result.value === undefined || runtimeTypes.has(result.type)) return yield* fail(result)
    const failure = yield* Effect.catch(decodeFailure(result.value), () => fail(result))
    return yield* Effect.fail(failure)
  })
}

/** Handlers for every tool of the toolkit that needs one. */
const makeHandlers = Effect.fnUntraced(function* <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>,
  client: Client
) {
  const handlers: Record<string, RemoteHandler> = Object.create(null)
  for (const [name, tool] of Object.entries(toolkit.tools)) {
    if (Tool.isProviderDefined(tool) && !tool.requiresHandler) continue
    handlers[name] = makeHandler(tool, yield* ToolContract.fromTool(tool), client)
  }
  // one handler per tool; its parameters, success and failure go through the schemas that the types are taken from
  return handlers as Toolkit.HandlersFrom<Tools>
})
