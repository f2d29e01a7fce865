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

import * as ByteSize from "effect/ByteSize"
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { FileSystem } from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type { Path } from "effect/Path"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as Tool from "effect/ai/Tool"
import type * as Toolkit from "effect/ai/Toolkit"
import * as HttpApi from "effect/http-api/HttpApi"
import * as HttpApiBuilder from "effect/http-api/HttpApiBuilder"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiGroup from "effect/http-api/HttpApiGroup"
import * as HttpApiMiddleware from "effect/http-api/HttpApiMiddleware"
import * as HttpApiSecurity from "effect/http-api/HttpApiSecurity"
import * as OpenApi from "effect/http-api/OpenApi"
import type * as Etag from "effect/http/Etag"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as EffectHttpClient from "effect/http/HttpClient"
import type { HttpClient } from "effect/http/HttpClient"
import type * as HttpClientError from "effect/http/HttpClientError"
import * as HttpClientRequest from "effect/http/HttpClientRequest"
import type * as HttpClientResponse from "effect/http/HttpClientResponse"
import * as HttpIncomingMessage from "effect/http/HttpIncomingMessage"
import type { HttpPlatform } from "effect/http/HttpPlatform"
import * as HttpRouter from "effect/http/HttpRouter"
import type { HttpRouter as EffectHttpRouter } from "effect/http/HttpRouter"
import type * as HttpServerError from "effect/http/HttpServerError"
import type * as HttpServerRequest from "effect/http/HttpServerRequest"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import * as Digest from "../payload/Digest.ts"
import * as Json from "../payload/Json.ts"
import * as Limits from "../payload/Limits.ts"
import type { PayloadError } from "../payload/PayloadError.ts"
import * as RunContext from "./RunContext.ts"
import * as ToolContract from "./ToolContract.ts"
import * as ToolResult from "./ToolResult.ts"
import * as ToolRuntime from "./ToolRuntime.ts"
import * as boundCall from "./internal/boundCall.ts"
import * as boundTool from "./internal/boundTool.ts"
import * as effectAi from "./internal/effectAi.ts"
import * as remoteProtocol from "./internal/remoteProtocol.ts"

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
export class Denied extends Schema.TaggedError<Denied>("effect-emissary/tool/Denied")(
  "Denied",
  { message: Schema.String },
  { httpApiStatus: 403 }
) {}

/**
 * Every refusal of a tool server.
 *
 * @category errors
 * @since 0.1.0
 */
export const Refusal = Schema.Union([
  remoteProtocol.InvalidRequest,
  remoteProtocol.UnsupportedProtocol,
  remoteProtocol.Unauthorized,
  Denied,
  remoteProtocol.UnknownEndpoint,
  remoteProtocol.ContractMismatch,
  remoteProtocol.RequestTooLarge,
  remoteProtocol.UnsupportedMediaType,
  remoteProtocol.InternalError
])

/**
 * Every refusal of a tool server.
 *
 * @category errors
 * @since 0.1.0
 */
export type Refusal = typeof Refusal.Type

/**
 * An option of a layer in `RemoteTools` is not usable: an empty token, or a URL
 * that is none.
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
 * - `reason`: what happened. `unreachable` is a connection that could not be
 *   made, `connection_lost` one that was cut before the answer was complete; the
 *   others are the refusals of the server by name, or an answer that is none.
 * - `outcome`: whether the tool ran. `not_executed` is certain; `unknown` means
 *   that the request may have arrived, so that calling again may do the work
 *   twice.
 * - `status`: the HTTP status, when there was one.
 *
 * **Example** (Reading why a call gave no result)
 *
 * ```ts
 * import { Option, Schema } from "effect"
 * import { RemoteTools, ToolResult } from "effect-emissary"
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

/**
 * Who calls: the name of the token that the request carried.
 *
 * **Details**
 *
 * A server with one token calls it `default`. A server with several gives each a
 * name.
 *
 * @category models
 * @since 0.1.0
 */
export interface Principal {
  readonly name: string
}

/**
 * The caller of the request being handled.
 *
 * @category services
 * @since 0.1.0
 */
export class CurrentPrincipal extends Context.Service<CurrentPrincipal, Principal>()(
  "effect-emissary/tool/CurrentPrincipal"
) {}

/**
 * Checks the bearer token, before anything else of the request is looked at.
 *
 * @category middleware
 * @since 0.1.0
 */
export class Authorization extends HttpApiMiddleware.Service<Authorization, { provides: CurrentPrincipal }>()(
  "effect-emissary/tool/Authorization",
  {
    security: { bearer: HttpApiSecurity.bearer },
    error: remoteProtocol.Unauthorized
  }
) {}

/**
 * `POST /tools/execute`: runs one tool call.
 *
 * **Details**
 *
 * Status 200 means that the call has a result, which may be a failure of the
 * tool, an unknown tool, or arguments that do not fit. Every other status is a
 * refusal: the tool did not run (except 500, where nobody knows).
 *
 * @category endpoints
 * @since 0.1.0
 */
export const executeEndpoint = HttpApiEndpoint.post("executeTool", "/tools/execute", {
  payload: remoteProtocol.Request,
  success: remoteProtocol.Response,
  error: [
    remoteProtocol.InvalidRequest,
    remoteProtocol.UnsupportedProtocol,
    Denied,
    remoteProtocol.ContractMismatch,
    remoteProtocol.RequestTooLarge,
    remoteProtocol.UnsupportedMediaType,
    remoteProtocol.InternalError
  ]
}).annotateMerge(
  OpenApi.annotations({
    summary: "Run one tool call",
    description:
      "Status 200 means that the call has a result, which may be a failure of the tool, an unknown tool, or arguments that do not fit. Every other status is a refusal."
  })
)

/**
 * `GET /tools`: the contracts of all tools.
 *
 * @category endpoints
 * @since 0.1.0
 */
export const listEndpoint = HttpApiEndpoint.get("listTools", "/tools", {
  success: remoteProtocol.ToolList,
  error: remoteProtocol.InternalError
}).annotateMerge(OpenApi.annotations({ summary: "List the tools of this server" }))

/**
 * The endpoints, behind {@link Authorization}.
 *
 * @category groups
 * @since 0.1.0
 */
export class ToolsGroup extends HttpApiGroup.make("tools", { topLevel: true })
  .add(executeEndpoint, listEndpoint)
  .middleware(Authorization)
  .annotateMerge(OpenApi.annotations({ title: "Tools" })) {}

/**
 * The interface of a tool server.
 *
 * @category apis
 * @since 0.1.0
 */
export class Api extends HttpApi.make("effect-emissary/tools")
  .add(ToolsGroup)
  .annotateMerge(OpenApi.annotations({ title: "Emissary tool server", version: "1" })) {}

/** One token, or several by the name of who holds them. */
type Tokens = Redacted.Redacted<string> | { readonly [name: string]: Redacted.Redacted<string> }

/** Finds the name under which a token is known. */
type MatchToken = (candidate: Redacted.Redacted<string>) => Effect.Effect<string | undefined>

/** A text without a digest (it is no well-formed Unicode) equals no token. */
const digestToken = (text: string): Effect.Effect<string> => Effect.orElseSucceed(Digest.sha256(text), () => "")

/**
 * Compares two digests of equal length to the last character.
 *
 * Digests, because equal lengths say nothing about the token, and because what
 * the loop reveals about a digest is of no use for guessing its origin.
 */
const equalDigests = (a: string, b: string): boolean => {
  let difference = a.length ^ b.length
  for (let index = 0; index < a.length; index++) {
    difference |= a.charCodeAt(index) ^ b.charCodeAt(index % b.length)
  }
  return difference === 0 && a !== ""
}

const isSingleToken = (tokens: Tokens): tokens is Redacted.Redacted<string> => Redacted.isRedacted(tokens)

/** Refuses tokens that would let anybody in. */
const checkToken = (token: Redacted.Redacted<string>, option: string): Effect.Effect<string, InvalidOption> => {
  const value = Redacted.value(token)
  return value.trim() === "" || /[^\x20-\x7e]/.test(value)
    ? Effect.fail(
        new InvalidOption({
          option,
          message: `"${option}" must be a non-empty text of printable ASCII characters, which is what a header can hold`
        })
      )
    : Effect.succeed(value)
}

/** Prepares the comparison; the tokens themselves are not kept. */
const makeMatcher = Effect.fnUntraced(function* (tokens: Tokens) {
  const entries = isSingleToken(tokens) ? ([["default", tokens]] as const) : Object.entries(tokens)
  if (entries.length === 0) {
    return yield* new InvalidOption({ option: "token", message: `"token" names no token` })
  }
  const known = yield* Effect.forEach(entries, ([name, token]) =>
    checkToken(token, isSingleToken(tokens) ? "token" : `token.${name}`).pipe(
      Effect.flatMap(digestToken),
      Effect.map((digest) => ({ name, digest }))
    )
  )
  const match: MatchToken = (candidate) =>
    Effect.map(digestToken(Redacted.value(candidate)), (candidate) => {
      let found: string | undefined
      for (const { digest, name } of known) if (equalDigests(digest, candidate)) found = name
      return found
    })
  return match
})

const requestName = "tool call"

const requestTooLarge = (limit: number): typeof remoteProtocol.RequestTooLarge.Type =>
  remoteProtocol.RequestTooLarge.make({ message: `The body is larger than ${limit} bytes`, limit })

const checkMediaType = (request: HttpServerRequest.HttpServerRequest) => {
  const header = request.headers["content-type"]
  return header === undefined || header.split(";")[0]?.trim().toLowerCase() === "application/json"
    ? Effect.void
    : Effect.fail(remoteProtocol.UnsupportedMediaType.make({ message: "The body must be application/json" }))
}

const unreadableBody = (limit: number) => (error: HttpServerError.HttpServerError) =>
  error.reason._tag === "RequestParseError" && error.reason.reason === "BodyTooLarge"
    ? requestTooLarge(limit)
    : remoteProtocol.InvalidRequest.make({ message: "The body could not be read", issues: [] })

const readBytes = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, limit: number) {
  if (Number(request.headers["content-length"] ?? 0) > limit) return yield* Effect.fail(requestTooLarge(limit))
  const buffer = yield* request.arrayBuffer.pipe(
    Effect.provideService(HttpIncomingMessage.MaxBodySize, ByteSize.bytes(limit)),
    Effect.mapError(unreadableBody(limit))
  )
  if (buffer.byteLength > limit) return yield* Effect.fail(requestTooLarge(limit))
  return new Uint8Array(buffer)
})

const invalidRequest = ({ message, reason }: PayloadError): typeof remoteProtocol.InvalidRequest.Type =>
  remoteProtocol.InvalidRequest.make({
    message,
    issues:
      reason._tag === "Invalid" ? reason.issues.map(({ expected, found, path }) => ({ expected, found, path })) : []
  })

/** A number as it is, of anything else the kind. */
const formatProtocol = (json: Schema.Json): string =>
  typeof json === "number" ? String(json) : json === null ? "null" : Array.isArray(json) ? "array" : typeof json

const checkProtocol = (json: Schema.Json) =>
  Json.isObject(json) && Object.hasOwn(json, "protocol") && json["protocol"] !== remoteProtocol.protocolVersion
    ? Effect.fail(
        remoteProtocol.UnsupportedProtocol.make({
          message: `Protocol ${formatProtocol(json["protocol"] ?? null)} is not supported, protocol ${remoteProtocol.protocolVersion} is`,
          found: formatProtocol(json["protocol"] ?? null),
          supported: [remoteProtocol.protocolVersion]
        })
      )
    : Effect.void

/** Reads and checks the body. Nothing of it is looked at before its size is known to be acceptable. */
const readRequest = (limits: Partial<Limits.Limits> | undefined) => {
  const decode = Json.decode(remoteProtocol.Request, { what: requestName, limits })
  return Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
    yield* checkMediaType(request)
    const { maxBytes } = yield* Limits.resolve(limits)
    const body = yield* readBytes(request, maxBytes)
    const json = yield* Effect.mapError(Json.parse(body, { what: requestName, limits }), invalidRequest)
    yield* checkProtocol(json)
    return yield* Effect.mapError(decode(json), invalidRequest)
  })
}

const unexpectedFailure = ToolResult.failure(
  "unhandled_error",
  "The tool failed unexpectedly. The details are in the log of the tool server."
)

/** Logs a defect here and tells the caller nothing about it. */
const hideToolDefects =
  (body: boundTool.Body, name: string): boundTool.Body =>
  (args, call) =>
    Effect.catchCauseIf(body(args, call), Cause.hasDies, (cause) =>
      Effect.logError(`Tool ${JSON.stringify(name)} failed unexpectedly`, cause).pipe(
        Effect.annotateLogs({ runId: call.runId, callId: call.callId }),
        Effect.as(unexpectedFailure)
      )
    )

/**
 * Lets the services that the handlers were given win over those of the HTTP
 * server: a handler with a confined `FileSystem` must not get the server's own.
 * The span and the scope are those of the request.
 */
const preferOwnServices = (body: boundTool.Body, handler: Tool.Handler<string>): boundTool.Body => {
  const own = effectAi.withoutBindingScope(handler.context)
  return (args, call) =>
    Effect.updateContext(body(args, call), (request: Context.Context<never>) => Context.merge(request, own))
}

/** Binds the tools that have a handler: those that a model provider runs have none. */
const bindToolkit = Effect.fnUntraced(function* <Tools extends Record<string, Tool.Any>>(
  toolkit: Toolkit.Toolkit<Tools>
): Effect.fn.Return<ReadonlyArray<boundTool.BoundTool>, ToolContract.ToolContractError, Tool.HandlersFor<Tools>> {
  const bound: Array<boundTool.BoundTool> = []
  for (const tool of Object.values(toolkit.tools)) {
    const handler = yield* boundTool.handlerOf(tool)
    if (Option.isNone(handler)) continue
    const local = yield* boundTool.fromTool(tool, handler.value)
    bound.push({
      ...local,
      body: Option.map(local.body, (body) => hideToolDefects(preferOwnServices(body, handler.value), tool.name))
    })
  }
  return bound
})

type ServerPath = `/${string}`

interface ServerConfig {
  readonly set: boundTool.ToolSet
  readonly match: MatchToken
  readonly context: (claimed: Json.JsonObject, principal: Principal) => Effect.Effect<Json.JsonObject, Denied>
  readonly limits: Partial<Limits.Limits> | undefined
  readonly path: ServerPath
}

/** A defect of the server, or of the application's `context` function, stays in the log. */
const hideServerDefects = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | typeof remoteProtocol.InternalError.Type, R> =>
  Effect.catchCauseIf(
    effect,
    Cause.hasDies,
    Effect.fnUntraced(function* (cause) {
      yield* Effect.logError("The tool server failed unexpectedly", cause)
      return yield* Effect.fail(
        remoteProtocol.InternalError.make({ message: "The tool server failed. Its log has the details." })
      )
    })
  )

const jsonResponse = (body: string): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.text(body, { contentType: "application/json" })

const encodeContract = (
  contract: ToolContract.ToolContract
): (typeof remoteProtocol.ToolList.Encoded)["tools"][number] => ({
  name: contract.name,
  ...(contract.description === undefined ? undefined : { description: contract.description }),
  parameters: contract.parameters,
  ...(contract.success === undefined ? undefined : { success: contract.success }),
  ...(contract.failure === undefined ? undefined : { failure: contract.failure }),
  timeout: Duration.isFinite(contract.timeout) ? Duration.toMillis(contract.timeout) : null,
  approval: contract.approval,
  annotations: contract.annotations,
  digest: contract.digest
})

/** Runs the call; what comes out is what the caller gets with status 200. */
const executeCall = Effect.fnUntraced(function* (
  options: ServerConfig,
  request: typeof remoteProtocol.Request.Type,
  context: Json.JsonObject
) {
  const tool = options.set.tools.get(request.name)
  if (tool !== undefined && request.contractDigest !== undefined && request.contractDigest !== tool.contract.digest) {
    return yield* Effect.fail(
      remoteProtocol.ContractMismatch.make({
        message: `The server has another version of tool ${JSON.stringify(request.name)}`,
        tool: request.name,
        expected: tool.contract.digest,
        found: request.contractDigest
      })
    )
  }
  const prepared = yield* boundCall.prepare(
    options.set,
    { id: request.callId, name: request.name, arguments: request.arguments },
    { runId: request.runId, context, deadline: request.deadline }
  )
  if (Result.isFailure(prepared)) return prepared.failure
  return yield* Option.getOrElse(prepared.success.execute, () =>
    Effect.succeed(ToolResult.failure("unknown_tool", `The server cannot run tool ${JSON.stringify(request.name)}`))
  )
})

const respondWithResult = (options: ServerConfig, callId: string, result: ToolResult.ToolResult) => {
  const body: typeof remoteProtocol.Response.Encoded = { protocol: remoteProtocol.protocolVersion, callId, result }
  return Effect.map(Json.stringify(body, { what: "tool result", limits: options.limits }), jsonResponse)
}

const handleExecute = (options: ServerConfig) => {
  const read = readRequest(options.limits)
  return Effect.fnUntraced(function* (http: HttpServerRequest.HttpServerRequest) {
    const principal = yield* CurrentPrincipal
    const request = yield* read(http)
    const context = yield* options.context(request.context ?? {}, principal)
    const result = yield* executeCall(options, request, context)
    return yield* respondWithResult(options, request.callId, result).pipe(
      Effect.catch((error) =>
        Effect.orDie(
          respondWithResult(
            options,
            request.callId,
            ToolResult.failure("execution_error", `The result cannot be sent: ${error.message}`)
          )
        )
      )
    )
  }, hideServerDefects)
}

const layerAuthorization = (match: MatchToken) =>
  Layer.succeed(
    Authorization,
    Authorization.of({
      bearer: Effect.fnUntraced(function* (effect, { credential }) {
        const name = yield* match(credential)
        if (name === undefined) {
          return yield* Effect.fail(
            remoteProtocol.Unauthorized.make({ message: "The bearer token is missing or wrong" })
          )
        }
        return yield* Effect.provideService(effect, CurrentPrincipal, { name })
      })
    })
  )

const joinPath = (path: ServerPath, rest: string): ServerPath =>
  path.endsWith("/") ? `${path}${rest}` : `${path}/${rest}`

/** Answers what no endpoint answers, below `/tools` only: the rest of the server belongs to the application. */
const layerUnknownEndpoints = (path: ServerPath) => {
  const tools = joinPath(path, "tools")
  const body: typeof remoteProtocol.UnknownEndpoint.Encoded = {
    _tag: "UnknownEndpoint",
    message: `The endpoints are POST ${joinPath(tools, "execute")}, GET ${tools} and GET ${joinPath(path, "openapi.json")}`
  }
  const answer = Effect.orDie(HttpServerResponse.json(body, { status: 404 }))
  return Layer.mergeAll(
    HttpRouter.add("*", joinPath(tools, ":unknown/*"), answer),
    HttpRouter.add("POST", tools, answer),
    HttpRouter.add("PUT", tools, answer),
    HttpRouter.add("PATCH", tools, answer),
    HttpRouter.add("DELETE", tools, answer)
  )
}

/** The routes as a layer over the router of the application. */
const layerApi = (options: ServerConfig) => {
  const api = Api.prefix(options.path)
  const contracts: typeof remoteProtocol.ToolList.Encoded = {
    protocol: remoteProtocol.protocolVersion,
    tools: Array.from(options.set.tools.values(), (tool) => encodeContract(tool.contract))
  }
  const run = handleExecute(options)
  const tools = HttpApiBuilder.group(api, "tools", (handlers) =>
    handlers
      .handleRaw("executeTool", ({ request }) => run(request))
      .handleRaw("listTools", () =>
        Json.stringify(contracts, { what: "tools", limits: options.limits }).pipe(
          Effect.map(jsonResponse),
          Effect.orDie,
          hideServerDefects
        )
      )
  )
  return Layer.merge(
    HttpApiBuilder.layer(api, { openapiPath: joinPath(options.path, "openapi.json") }).pipe(
      Layer.provide(tools),
      Layer.provide(layerAuthorization(options.match))
    ),
    layerUnknownEndpoints(options.path)
  )
}

/** Why one attempt gave no result. */
interface FailedCall {
  readonly message: string
  readonly value: Unavailable
}

/** The result that the model sees. */
const toFailure = (failed: FailedCall): ToolResult.Failure =>
  ToolResult.failure("remote_unavailable", failed.message, failed.value)

const failedCall = (
  reason: Unavailable["reason"],
  outcome: Unavailable["outcome"],
  message: string,
  status?: number
): FailedCall => ({ message, value: status === undefined ? { reason, outcome } : { reason, outcome, status } })

const notExecuted = "the tool did not run"

const unknownOutcome = "it is not known whether the tool ran"

/** No longer than a sentence or two of the server's own words reach the model. */
const maxQuoteLength = 500

const quoteMessage = (message: string): string =>
  message.length <= maxQuoteLength ? message : `${message.slice(0, maxQuoteLength)}... (${message.length} characters)`

/** A server may repeat what it was sent; the token is nothing for the model. */
const concealToken = (message: string, token: Redacted.Redacted<string>): string =>
  message.replaceAll(Redacted.value(token), "<token>")

/** How the model reads a refusal: the sentence, and whether the server's own words follow it. */
interface RefusalText {
  readonly reason: Unavailable["reason"]
  readonly sentence: string
  readonly quoted?: true
}

const refusalTexts: { readonly [Tag in Refusal["_tag"]]: RefusalText } = {
  InvalidRequest: {
    reason: "invalid_request",
    sentence: `The tool server rejected the request, ${notExecuted}`,
    quoted: true
  },
  UnsupportedProtocol: {
    reason: "unsupported_protocol",
    sentence: `The tool server speaks another protocol, ${notExecuted}`,
    quoted: true
  },
  Unauthorized: { reason: "unauthorized", sentence: `The tool server rejected the token, ${notExecuted}` },
  Denied: { reason: "denied", sentence: `The tool server denied the call, ${notExecuted}`, quoted: true },
  UnknownEndpoint: { reason: "not_found", sentence: `There is no tool server at the configured URL, ${notExecuted}` },
  ContractMismatch: { reason: "contract_mismatch", sentence: `The tool has changed, ${notExecuted}`, quoted: true },
  RequestTooLarge: { reason: "request_too_large", sentence: `The call is too large, ${notExecuted}`, quoted: true },
  UnsupportedMediaType: {
    reason: "unsupported_media_type",
    sentence: `The tool server rejected the request, ${notExecuted}`,
    quoted: true
  },
  InternalError: { reason: "server_error", sentence: `The tool server failed, ${unknownOutcome}` }
}

const failedByTag = (tag: Refusal["_tag"], status: number, message = ""): FailedCall => {
  const { quoted, reason, sentence } = refusalTexts[tag]
  const text = quoted === true && message !== "" ? `${sentence}: ${message}` : sentence
  return failedCall(reason, tag === "InternalError" ? "unknown" : "not_executed", text, status)
}

const tagByStatus: Readonly<Record<number, Refusal["_tag"]>> = {
  401: "Unauthorized",
  403: "Denied",
  404: "UnknownEndpoint",
  413: "RequestTooLarge"
}

/** For answers of proxies and of other servers. */
const failedByStatus = (status: number): FailedCall => {
  const tag = status >= 500 ? "InternalError" : tagByStatus[status]
  return tag === undefined
    ? failedCall(
        "invalid_response",
        "unknown",
        `The tool server answered with status ${status}, ${unknownOutcome}`,
        status
      )
    : failedByTag(tag, status)
}

/** Reads the body of an answer whose status is not 200. */
const readRefusal = (
  status: number,
  body: Uint8Array,
  options: { readonly limits?: Partial<Limits.Limits> | undefined; readonly token: Redacted.Redacted<string> }
): Effect.Effect<FailedCall> =>
  Json.decodeJson(Refusal, {
    what: "answer of the tool server",
    limits: options.limits,
    onExcessProperty: "ignore"
  })(body).pipe(
    Effect.option,
    Effect.map(
      Option.match({
        onNone: () => failedByStatus(status),
        onSome: (refusal) =>
          failedByTag(refusal._tag, status, quoteMessage(concealToken(refusal.message, options.token)))
      })
    )
  )

/** What is sent of a call, and what decides how long and how often. */
interface RemoteCall {
  readonly runId: string
  readonly callId: string
  readonly name: string
  readonly arguments: Schema.Json
  readonly contractDigest: string
  readonly context: Json.JsonObject
  /** The timeout of this call. */
  readonly timeout: Duration.Duration
  /** The timeout in the contract, which the server enforces by itself. */
  readonly ownerTimeout: Duration.Duration
  readonly deadline: number | undefined
  readonly idempotent: boolean
}

interface Client {
  readonly execute: (call: RemoteCall) => Effect.Effect<ToolResult.ToolResult>
}

/** Six attempts within about three seconds. */
const defaultRetry = Schedule.exponential("100 millis").pipe(Schedule.upTo({ times: 5 }))

const defaultMargin = Duration.seconds(5)

const resolveEndpoint = (url: string | URL): Effect.Effect<string, InvalidOption> =>
  Effect.try({
    try: () => new URL(url),
    catch: () => new InvalidOption({ option: "url", message: `"url" is not an absolute URL` })
  }).pipe(
    Effect.filterOrFail(
      (url) => (url.protocol === "http:" || url.protocol === "https:") && url.username === "" && url.password === "",
      () =>
        new InvalidOption({
          option: "url",
          message: `"url" must begin with http:// or https:// and hold no user name or password; use "token"`
        })
    ),
    Effect.map((url) => `${url.origin}${url.pathname.replace(/\/+$/, "")}/tools/execute`)
  )

/** When the caller stops waiting, where the server would not stop by itself before. */
const deadlineOf = (call: RemoteCall, now: number): number | undefined => {
  const own = Duration.isLessThan(call.timeout, call.ownerTimeout) ? now + Duration.toMillis(call.timeout) : Infinity
  const deadline = Math.min(own, call.deadline ?? Infinity)
  return Number.isFinite(deadline) ? deadline : undefined
}

const remainingTime = (call: RemoteCall, now: number): Duration.Duration =>
  call.deadline === undefined
    ? call.timeout
    : Duration.min(call.timeout, Duration.millis(Math.max(0, call.deadline - now)))

const collectBody = (
  response: HttpClientResponse.HttpClientResponse,
  limit: number
): Effect.Effect<Uint8Array, FailedCall | HttpClientError.HttpClientError> => {
  const tooLarge = failedCall(
    "response_too_large",
    "unknown",
    `The tool server answered with more than ${limit} bytes, its result is lost`,
    response.status
  )
  if (Number(response.headers["content-length"] ?? 0) > limit) return Effect.fail(tooLarge)
  let size = 0
  return response.stream.pipe(
    Stream.tap((chunk) => {
      size += chunk.byteLength
      return size > limit ? Effect.fail(tooLarge) : Effect.void
    }),
    Stream.mkUint8Array
  )
}

const invalidResponse = failedCall(
  "invalid_response",
  "unknown",
  "The tool server gave an answer that is not a tool result, it is not known whether the tool ran",
  200
)

const connectionLost = failedCall(
  "connection_lost",
  "unknown",
  "The connection to the tool server was lost, it is not known whether the tool ran"
)

const serverUnreachable = failedCall(
  "unreachable",
  "not_executed",
  "The tool server cannot be reached, the tool did not run"
)

const requestUnsendable = failedCall(
  "invalid_request",
  "not_executed",
  "The request could not be made, the tool did not run"
)

const fromHttpError = (error: HttpClientError.HttpClientError): FailedCall =>
  remoteProtocol.isUnreachable(error)
    ? serverUnreachable
    : remoteProtocol.isUnsendable(error)
      ? requestUnsendable
      : connectionLost

const isHttpError = (error: FailedCall | HttpClientError.HttpClientError): error is HttpClientError.HttpClientError =>
  "_tag" in error

/**
 * `fetch` would follow a redirect to any host by itself, and take the arguments
 * and the context of the call along.
 */
const refuseRedirects = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.serviceOption(FetchHttpClient.RequestInit), (init) =>
    Effect.provideService(effect, FetchHttpClient.RequestInit, {
      ...Option.getOrUndefined(init),
      redirect: "manual"
    })
  )

/** A client over the `HttpClient` in the context. */
const makeClient = Effect.fnUntraced(function* (options: ClientOptions) {
  const url = yield* resolveEndpoint(options.url)
  yield* checkToken(options.token, "token")
  const http = EffectHttpClient.withScope(yield* EffectHttpClient.HttpClient)
  const margin = Duration.fromInputUnsafe(options.margin ?? defaultMargin)
  const retry = options.retry ?? defaultRetry
  const decodeResponse = Json.decode(remoteProtocol.Response, {
    what: "answer of the tool server",
    limits: options.limits,
    onExcessProperty: "ignore"
  })

  const answer = (call: RemoteCall, response: HttpClientResponse.HttpClientResponse) =>
    Effect.gen(function* () {
      const limits = yield* Limits.resolve(options.limits)
      const bytes = yield* collectBody(response, limits.maxBytes)
      if (response.status !== 200) return yield* Effect.fail(yield* readRefusal(response.status, bytes, options))
      const json = Json.parse(bytes, { what: "answer of the tool server", limits: options.limits })
      const decoded = yield* Effect.mapError(Effect.flatMap(json, decodeResponse), () => invalidResponse)
      if (decoded.callId !== call.callId) return yield* Effect.fail(invalidResponse)
      return decoded.result
    })

  const attempt = (
    call: RemoteCall,
    request: HttpClientRequest.HttpClientRequest
  ): Effect.Effect<ToolResult.ToolResult, FailedCall> =>
    http.execute(request).pipe(
      refuseRedirects,
      Effect.flatMap((response) => answer(call, response)),
      Effect.mapError((error) => (isHttpError(error) ? fromHttpError(error) : error)),
      Effect.scoped
    )

  const execute = Effect.fnUntraced(function* (call: RemoteCall): Effect.fn.Return<ToolResult.ToolResult> {
    const now = yield* Clock.currentTimeMillis
    const wait = remainingTime(call, now)
    if (Duration.isZero(wait)) return boundCall.timeoutFailure(wait)
    const deadline = deadlineOf(call, now)
    const body: typeof remoteProtocol.Request.Encoded = {
      protocol: remoteProtocol.protocolVersion,
      runId: call.runId,
      callId: call.callId,
      name: call.name,
      arguments: call.arguments,
      contractDigest: call.contractDigest,
      context: call.context,
      ...(deadline === undefined ? undefined : { deadline })
    }
    const text = yield* Effect.result(Json.stringify(body, { what: "tool call", limits: options.limits }))
    if (Result.isFailure(text)) {
      const tooLarge = text.failure.reason._tag === "TooLarge" || text.failure.reason._tag === "TooDeep"
      return toFailure(
        failedCall(
          tooLarge ? "request_too_large" : "invalid_request",
          "not_executed",
          `The call was not sent: ${text.failure.message}`
        )
      )
    }
    const request = HttpClientRequest.post(url, { acceptJson: true }).pipe(
      HttpClientRequest.bearerToken(options.token),
      HttpClientRequest.bodyText(text.success, "application/json")
    )

    // What the last attempt ended with, and whether any attempt may have reached the tool.
    let last: FailedCall | undefined
    let mayHaveRun = false
    const judge = (failed: FailedCall): FailedCall =>
      mayHaveRun && failed.value.outcome === "not_executed"
        ? { message: connectionLost.message, value: { ...failed.value, outcome: "unknown" } }
        : failed

    return yield* Effect.suspend(() => {
      last = undefined
      return attempt(call, request)
    }).pipe(
      Effect.tapError((failed) =>
        Effect.sync(() => {
          mayHaveRun = mayHaveRun || failed.value.outcome === "unknown"
          last = failed
        })
      ),
      Effect.retry({
        schedule: retry,
        while: ({ value }) => value.reason === "unreachable" || (value.reason === "connection_lost" && call.idempotent)
      }),
      Effect.timeoutOrElse({
        duration: Duration.sum(wait, margin),
        orElse: () => (last === undefined ? Effect.succeed(boundCall.timeoutFailure(wait)) : Effect.fail(last))
      }),
      Effect.catch((failed) => Effect.succeed(toFailure(judge(failed))))
    )
  })

  const client: Client = {
    execute: (call) =>
      Effect.withSpan(execute(call), "RemoteTools.execute", {
        kind: "client",
        attributes: { "emissary.tool.name": call.name, "emissary.call.id": call.callId, "emissary.run.id": call.runId }
      })
  }
  return client
})

const forwardCall = (client: Client, call: boundCall.BoundCall): Effect.Effect<ToolResult.ToolResult> =>
  client.execute({
    runId: call.runId,
    callId: call.id,
    name: call.contract.name,
    arguments: call.arguments,
    contractDigest: call.contract.digest,
    context: call.context,
    timeout: call.timeout,
    ownerTimeout: call.contract.timeout,
    deadline: call.deadline,
    idempotent: call.contract.annotations.idempotent === true
  })

type RemoteHandler = (
  params: unknown,
  context: { readonly toolCallId?: string | undefined }
) => Effect.Effect<unknown, unknown, unknown>

/** Failures that no handler made, so that no failure schema describes them. */
const runtimeFailureTypes: ReadonlySet<string> = new Set<ToolResult.ReservedType>([
  "unknown_tool",
  "validation_error",
  "timeout_error",
  "unhandled_error",
  "denied",
  "interrupted",
  "remote_unavailable"
])

const argumentsUnsendable = (name: string) =>
  ToolResult.failure("execution_error", `The arguments of tool ${JSON.stringify(name)} cannot be written as JSON`)

const resultMismatch = (name: string) =>
  ToolResult.failure(
    "execution_error",
    `The tool server returned a result that tool ${JSON.stringify(name)} does not have`
  )

const makeHandler = (tool: Tool.Any, contract: ToolContract.ToolContract, client: Client): RemoteHandler => {
  const encodeParams = Schema.isSchema(tool.parametersSchema)
    ? Schema.encodeUnknownEffect(Schema.toCodecJson(tool.parametersSchema))
    : Effect.succeed
  const decodeSuccess = Schema.decodeUnknownEffect(Schema.toCodecJson(tool.successSchema))
  const decodeFailure = Schema.decodeUnknownEffect(Schema.toCodecJson(tool.failureSchema))
  const fail = (result: ToolResult.Failure) => Effect.fail(boundTool.carryResult(tool.name, result))
  return Effect.fnUntraced(function* (params, { toolCallId }) {
    const info = yield* boundTool.CallInfo
    const context = yield* RunContext.RunContext
    const args = yield* Effect.catch(encodeParams(params), () => fail(argumentsUnsendable(tool.name)))
    const result = yield* client.execute({
      runId: info?.runId ?? "",
      callId: info?.callId ?? toolCallId ?? "",
      name: tool.name,
      // encoding with the JSON codec gave JSON; the client checks it once more before sending
      arguments: args as Json.JsonObject,
      contractDigest: contract.digest,
      context,
      timeout: contract.timeout,
      ownerTimeout: contract.timeout,
      deadline: info?.deadline,
      idempotent: contract.annotations.idempotent === true
    })
    if (result._tag === "Success") {
      return yield* Effect.catch(decodeSuccess(result.value), () => fail(resultMismatch(tool.name)))
    }
    if (result.value === undefined || runtimeFailureTypes.has(result.type)) return yield* fail(result)
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

/**
 * Options of {@link layerServer}.
 *
 * **Details**
 *
 * - `token`: the bearer token, or several by the name of who holds them, to tell
 *   callers apart or to change a token without a pause.
 * - `context`: turns the context that a caller claims into the `RunContext` that
 *   handlers read, or refuses the call with `RemoteTools.Denied`. Default:
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
  readonly context?:
    | ((claimed: Json.JsonObject, principal: Principal) => Effect.Effect<Json.JsonObject, Denied, R>)
    | undefined
  readonly limits?: Partial<Limits.Limits> | undefined
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
  readonly limits?: Partial<Limits.Limits> | undefined
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
  InvalidOption | ToolContract.ToolContractError | boundTool.ToolNameError,
  | EffectHttpRouter
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
      const match = yield* makeMatcher(options.token)
      const services = yield* Effect.context<R | Tool.HandlerServices<Tools[keyof Tools]>>()
      const { context } = options
      return layerApi({
        set: yield* boundTool.makeSet(yield* bindToolkit(toolkit)),
        match,
        context: (claimed, principal) =>
          context === undefined ? Effect.succeed({}) : Effect.provideContext(context(claimed, principal), services),
        limits: options.limits,
        path: options.path ?? "/"
      })
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
 * Of a batch, `maxConcurrency` calls run at once; default 5. Every call ends
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
 * @category layers
 * @since 0.1.0
 */
export const layerRuntime = (
  options: ClientOptions & { readonly maxConcurrency?: number | "unbounded" | undefined }
): Layer.Layer<never, InvalidOption, HttpClient> =>
  Layer.effect(
    ToolRuntime.ToolRuntime,
    Effect.map(makeClient(options), (client) =>
      ToolRuntime.make({
        dispatch: (call) => Option.getOrElse(call.execute, () => forwardCall(client, call)),
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
  InvalidOption | ToolContract.ToolContractError,
  HttpClient | Tool.ParametersEncodingServices<Tools[keyof Tools]> | Tool.ResultDecodingServices<Tools[keyof Tools]>
> => toolkit.toLayer(Effect.flatMap(makeClient(options), (client) => makeHandlers(toolkit, client)))
